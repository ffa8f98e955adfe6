/* pass.c: what passes say of themselves, and what they ask of libraries. */
#include "passes/base/pass.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sn_remark(sn_pass_ctx *cx, const char *where, const char *format, ...) {
    if (!cx->remark) return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cx->remark(cx->remark_user, cx->pass, where, text);
}

bool sn_pass_library_runs(const char **why_not, sn_pass_ctx *cx, sn_kern k) {
    char why[SN_LIBRARY_WHY];
    sn_library_call call;
    *why_not = "its header names another class";
    if (sn_kern_get(cx->m, k)->sched.cls != SN_SCHED_LIBRARY) return false;
    *why_not = "there is no library for this target";
    if (!cx->library || !sn_library_read(&call, why_not, cx->m, k)) return false;
    if (cx->library->takes(cx->library->user, &call, why)) return true;
    *why_not = sn_strdup(cx->scratch, why);
    return false;
}

const char *sn_decided(const sn_choosing *how, const char *key) {
    for (uint32_t k = 0; k < how->n; k++)
        if (!strcmp(how->at[k].key, key)) return how->at[k].choice;
    return NULL;
}
