/* pass.h: what a pass is. How passes run: passes/runner.h.
 *
 * A pass is a function over one module: no globals, no environment, no printing, no state between runs. It explains
 * itself through sn_remark. It says honestly whether it changed anything; the runner checks that claim.
 */
#ifndef SN_PASSES_BASE_PASS_H
#define SN_PASSES_BASE_PASS_H

#include "ir/base/text.h"
#include "ir/module.h"
#include "ir/base/target.h"

typedef struct sn_pass_ctx {
    sn_module *m;
    sn_arena *scratch; /* freed after each pass */
    const sn_target *target;
    const char *pass;                                                                  /* name of the running pass */
    void (*remark)(void *user, const char *pass, const char *where, const char *text); /* NULL: nobody listens */
    void *remark_user;
} sn_pass_ctx;

typedef sn_status (*sn_pass_fn)(sn_pass_ctx *cx, bool *changed);

/* "where: text" to whoever listens; `where` is a kernel or node name. Costs nothing when nobody does. */
void sn_remark(sn_pass_ctx *cx, const char *where, const char *format, ...) SN_PRINTF(3, 4);

#endif
