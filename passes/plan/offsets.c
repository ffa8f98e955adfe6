/* offsets.c: offsets of blocks with known lifetimes in one workspace. Part of the pass `plan`.
 *
 * Largest block first, each into the tightest gap between the blocks that are alive with it (best fit), or behind them.
 * Blocks of symbolic size cannot be compared: they get bytes of their own behind the rest. Cost: quadratic in the
 * blocks, which are few, because chains of reuse are one block.
 */
#include "passes/plan/plan.h"

#include <stdlib.h>

typedef struct placed {
    int64_t size, offset;
    sn_plan_block *block;
} placed;

static int larger_first(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->size != y->size) return x->size < y->size ? 1 : -1;
    return x->block < y->block ? -1 : x->block > y->block;
}

static int lower_first(const void *a, const void *b) {
    const placed *x = *(placed *const *)a, *y = *(placed *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return larger_first(x, y);
}

static bool alive_together(const sn_plan_block *a, const sn_plan_block *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* Offset of p among the blocks before it. `near` has room for them. */
static int64_t best_fit(const placed *p, placed *before, uint32_t n, placed **near) {
    uint32_t n_near = 0;
    for (uint32_t i = 0; i < n; i++)
        if (alive_together(before[i].block, p->block)) near[n_near++] = &before[i];
    qsort(near, n_near, sizeof *near, lower_first);
    int64_t end = 0, best = -1, best_gap = INT64_MAX;
    for (uint32_t i = 0; i < n_near; i++) {
        int64_t gap = near[i]->offset - end;
        if (gap >= p->size && gap < best_gap) {
            best = end;
            best_gap = gap;
        }
        if (near[i]->offset + near[i]->size > end) end = near[i]->offset + near[i]->size;
    }
    return best >= 0 ? best : end;
}

static sn_ix aligned(sn_module *m, sn_ix size) {
    return sn_ix_scale(m, sn_ix_ceildiv(m, size, sn_ix_const(m, SN_PLAN_ALIGN)), SN_PLAN_ALIGN);
}

sn_ix sn_plan_offsets(sn_pass_ctx *cx, sn_plan_block *blocks, uint32_t n) {
    sn_module *m = cx->m;
    placed *p = SN_NEWN(cx->scratch, placed, n + 1);
    placed **near = SN_NEWN(cx->scratch, placed *, n + 1);
    uint32_t n_static = 0;
    int64_t end = 0, size;
    for (uint32_t i = 0; i < n; i++)
        if (sn_ix_is_const(m, aligned(m, blocks[i].size), &size)) p[n_static++] = (placed){size, 0, &blocks[i]};
    qsort(p, n_static, sizeof *p, larger_first);
    for (uint32_t i = 0; i < n_static; i++) {
        p[i].offset = best_fit(&p[i], p, i, near);
        p[i].block->offset = sn_ix_const(m, p[i].offset);
        if (p[i].offset + p[i].size > end) end = p[i].offset + p[i].size;
    }
    sn_ix total = sn_ix_const(m, end);
    for (uint32_t i = 0; i < n; i++) {
        if (sn_ix_is_const(m, blocks[i].size, &size)) continue;
        blocks[i].offset = total;
        total = sn_ix_add(m, total, aligned(m, blocks[i].size));
    }
    return total;
}
