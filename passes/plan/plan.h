/* plan.h: what plan.c shares with inplace.c, states.c, offsets.c, order.c and functions.c. */
#ifndef SN_PASSES_PLAN_PLAN_H
#define SN_PASSES_PLAN_PLAN_H

#include "passes/base/pass.h"

/* inplace.c: what a kernel touches, by buffer and in the order of the text; `at` is its number in the walk. */
typedef struct sn_plan_touch {
    sn_buf buf;
    sn_stmt stmt;
    uint32_t at;
} sn_plan_touch;

typedef struct sn_plan_touches {
    sn_module *m;
    sn_kern kern;
    uint32_t kinds; /* a bit for each sn_axis_kind of its nests */
    bool scans;
    struct {
        sn_plan_touch *at;
        uint32_t n, cap;
    } touches;
} sn_plan_touches;
void sn_plan_touches_of(sn_plan_touches *out, sn_pass_ctx *cx, sn_kern k);

/* May buffer `to`, born in that kernel, have the storage of `from`, which dies there? */
bool sn_plan_in_place(const sn_plan_touches *t, sn_buf from, sn_buf to);

/* states.c: by number of an output: it is written back to an input and lives in its storage, without a copy. Kernels, or parts of them,
 * that would copy the input to itself are gone. The wrapper that is made of the kernels must not copy these outputs. */
const bool *sn_plan_states(sn_pass_ctx *cx);

/* offsets.c: blocks that live from step `first` to step `last` get offsets in one workspace. */
typedef struct sn_plan_block {
    sn_ix size;           /* bytes */
    uint32_t first, last; /* inclusive */
    sn_ix offset;         /* result: bytes, a multiple of SN_PLAN_ALIGN */
} sn_plan_block;

enum { SN_PLAN_ALIGN = 256 }; /* what cuMemAlloc guarantees for the workspace itself */

/* Returns the bytes of the workspace; *least: the most that is alive at once, of blocks whose size is known. */
sn_ix sn_plan_offsets(int64_t *least, sn_pass_ctx *cx, sn_plan_block *blocks, uint32_t n);

/* plan.c: bytes of the workspace with the kernels in the order in which they are; changes nothing. Sizes are no symbols. */
int64_t sn_plan_workspace(sn_pass_ctx *cx);

/* functions.c: the kernels that the wrapper calls become functions, and equal ones one. alternatives: of those kernels
 * (sn_kern_rec.alternative_of), which stand behind them again. */
void sn_plan_functions(sn_pass_ctx *cx, const sn_kern_list *alternatives);

#endif
