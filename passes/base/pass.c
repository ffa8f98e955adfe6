/* pass.c: what passes say of themselves. */
#include "passes/base/pass.h"

#include <stdarg.h>
#include <stdio.h>

void sn_remark(sn_pass_ctx *cx, const char *where, const char *format, ...) {
    if (!cx->remark) return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cx->remark(cx->remark_user, cx->pass, where, text);
}
