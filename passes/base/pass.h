/* pass.h: what a pass is. How passes run: passes/runner.h.
 *
 * A pass is a function over one module: no globals, no environment, no printing, no state between runs. It explains
 * itself through sn_remark. It says honestly whether it changed anything; the runner checks that claim.
 */
#ifndef SN_PASSES_BASE_PASS_H
#define SN_PASSES_BASE_PASS_H

#include "ir/base/text.h"
#include "metrics/metrics.h"
#include "ir/module.h"
#include "ir/base/target.h"
#include "ir/loop/library.h"

/* What was decided about matrix products, convolutions and kernels before the passes run, by timing (tune/) or by a person. */
typedef struct sn_decision {
    const char *key;    /* which: sn_product_key (passes/graph/choices.h), sn_kernel_key (passes/schedule/alone.h) */
    const char *choice; /* "decompose_k parts=16" */
} sn_decision;

/* Which kernels get several schedules, of which a run has one (sn_kern_rec.alternative_of). */
typedef enum sn_multi_kernel { SN_MULTI_OFF, SN_MULTI_REDUCTIONS, SN_MULTI_ALL } sn_multi_kernel;

typedef struct sn_choosing {
    const char *allowed; /* kinds and names of choices.def: "template,subgraph"; NULL: all */
    const sn_decision *at;
    uint32_t n;
    /* Who knows more about kernels, by their keys: a choice that lives as long as the pass; NULL: nothing is known, or there
     * is nobody to ask. */
    const char *(*ask)(void *user, const char *key);
    void *ask_user;
    sn_multi_kernel multi;
    bool multi_short; /* also kernels that are over before a choice pays: for tests */
} sn_choosing;

typedef struct sn_pass_ctx {
    sn_module *m;
    sn_arena *scratch; /* freed after each pass */
    const sn_target *target;
    const sn_library *library;   /* NULL: there is none */
    const sn_choosing *choosing; /* NULL: nothing is decided */
    void *notes;                 /* of the running pass, for what it calls through the module */
    const char *pass;            /* name of the running pass */
    void (*remark)(void *user, const char *pass, const char *where, const char *text); /* NULL: nobody listens */
    void *remark_user;
    sn_metric_log *metrics; /* of the compilation; NULL: nobody records */
    /* For passes on graphs: takes the graph of another module to scheduled kernels, as the passes behind do. NULL:
     * nobody does. */
    sn_status (*schedule)(void *user, sn_module **m);
    void *schedule_user;
} sn_pass_ctx;

/* Rows of a product on a GPU up to which what it multiplies is converted (integers to floats, floats to narrower ones) where it is
 * multiplied; for more, in memory, since threads that bring operands to tiles convert slowly, and copies of boxes not at all.
 * i8[11008, 4096] times bf16 on an H200: 22 us for 4 rows, and 76 with the floats written out; for 16 rows 74 and 65. */
enum { SN_CONVERTED_ROWS = 8 };

/* What is decided about a product or a kernel; NULL: nothing. */
const char *sn_decided(const sn_choosing *how, const char *key);

typedef sn_status (*sn_pass_fn)(sn_pass_ctx *cx, bool *changed);

/* "where: text" to whoever listens; `where` is a kernel or node name. Costs nothing when nobody does. */
void sn_remark(sn_pass_ctx *cx, const char *where, const char *format, ...) SN_PRINTF(3, 4);

/* Will a library run the kernel: its header says so, there is one, and it takes the call? *why_not is in scratch. What
 * restructures kernels leaves such a one as it is. Near free for a kernel without that header. */
bool sn_pass_library_runs(const char **why_not, sn_pass_ctx *cx, sn_kern k);

#endif
