/* wrapper_c_debug.h: the parts of C source that say what a program does (wrapper_c_debug.c). Private to backend-host/. */
#ifndef SN_BACKEND_HOST_WRAPPER_C_DEBUG_H
#define SN_BACKEND_HOST_WRAPPER_C_DEBUG_H

#include "backend-host/host_code.h"

/* Does it look at arguments? */
static inline bool sn_wrapper_debug_looks(const sn_wrapper_debug *d) {
    return d->print || d->save || d->stop_at_nan || d->stop_at_infinity;
}
/* Includes, and the function that is called for an argument. */
void sn_wrapper_debug_head(sn_text *t, const sn_wrapper_debug *d);
/* A line before a launch. */
void sn_wrapper_debug_call(sn_text *t, const sn_wrapper_debug *d, uint32_t call, const char *kernel, const char *note);

typedef struct sn_wrapper_debug_arg {
    uint32_t call;
    const char *kernel, *note, *buffer, *place; /* place: an expression for its address */
    sn_buf formal;
    bool written;
} sn_wrapper_debug_arg;
void sn_wrapper_debug_argument(sn_text *t, const sn_module *m, const sn_wrapper_debug_arg *a);

#endif
