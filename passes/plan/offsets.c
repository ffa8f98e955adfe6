/* offsets.c: offsets of blocks with known lifetimes in one workspace. Part of the pass `plan`.
 *
 * Largest block first, each into the tightest gap between the blocks that are alive with it (best fit), or behind them.
 * Blocks of symbolic size cannot be compared: they get bytes of their own behind the rest. Cost: one look at a
 * placed block for each pair of blocks, which are few, because chains of reuse are one block.
 */
#include "passes/plan/plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct placed {
    int64_t size, offset;
    sn_plan_block *block;
} placed;

static int larger_first(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->size != y->size) return x->size < y->size ? 1 : -1;
    return x->block < y->block ? -1 : x->block > y->block;
}

static int lower_first(const placed *x, const placed *y) {
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return larger_first(x, y);
}

static bool alive_together(const sn_plan_block *a, const sn_plan_block *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* Offset of p among those that have theirs, lowest first. */
static int64_t best_fit(const placed *p, placed *const *low, uint32_t n) {
    int64_t end = 0, best = -1, best_gap = INT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        if (!alive_together(low[i]->block, p->block)) continue;
        int64_t gap = low[i]->offset - end;
        if (gap >= p->size && gap < best_gap) {
            best = end;
            best_gap = gap;
        }
        if (low[i]->offset + low[i]->size > end) end = low[i]->offset + low[i]->size;
    }
    return best >= 0 ? best : end;
}

static void insert(placed **low, uint32_t n, placed *p) {
    uint32_t first = 0, last = n;
    while (first < last) {
        uint32_t middle = (first + last) / 2;
        if (lower_first(low[middle], p) < 0) first = middle + 1;
        else last = middle;
    }
    memmove(&low[first + 1], &low[first], (n - first) * sizeof *low);
    low[first] = p;
}

static sn_ix aligned(sn_module *m, sn_ix size) {
    return sn_ix_scale(m, sn_ix_ceildiv(m, size, sn_ix_const(m, SN_PLAN_ALIGN)), SN_PLAN_ALIGN);
}

sn_ix sn_plan_offsets(sn_pass_ctx *cx, sn_plan_block *blocks, uint32_t n) {
    sn_module *m = cx->m;
    placed *p = SN_NEWN(cx->scratch, placed, n + 1);
    placed **low = SN_NEWN(cx->scratch, placed *, n + 1);
    uint32_t n_static = 0;
    int64_t end = 0, size;
    for (uint32_t i = 0; i < n; i++)
        if (sn_ix_is_const(m, aligned(m, blocks[i].size), &size)) p[n_static++] = (placed){size, 0, &blocks[i]};
    qsort(p, n_static, sizeof *p, larger_first);
    for (uint32_t i = 0; i < n_static; i++) {
        p[i].offset = best_fit(&p[i], low, i);
        insert(low, i, &p[i]);
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
