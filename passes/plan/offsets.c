/* offsets.c: offsets of blocks with known lifetimes in one workspace. Part of the pass `plan`.
 *
 * Blocks one after the other, the largest first, each into the tightest gap between those placed that are alive with it (best
 * fit), or behind them. Where the end is higher than what is alive at once, which it never can be below, other orders are tried
 * (longest life first, largest times longest, as they are born), and then the best one with the block that sticks out placed
 * first, again and again (hill climbing): that one had come when its gap was gone.
 *
 *     a 3 bytes, kernels 0-1; b 2, 1-2; c 4, 2-3; d 1, 0-3:   c 0-4, a 0-3, b 4-6 (c is there), d 6-7 = 7 bytes
 *                                                     with d first:   d 0-1, c 1-5, a 1-4, b 5-7 = 7: the bound is 7
 *
 * Blocks of symbolic size cannot be compared: they get bytes of their own behind the rest. Cost: the pairs of blocks that are
 * alive together times their logarithm, for each order; where these are many of all pairs (thousands of sums that are added in the end),
 * all pairs, and no memory for them. There are as many orders as WORK allows, at least one.
 */
#include "passes/plan/plan.h"

#include <stdlib.h>
#include <string.h>

enum { WORK = 1 << 18, ORDERS_MAX = 256 };

typedef struct placed {
    int64_t size, offset; /* offset -1: not placed yet */
    sn_plan_block *block;
    struct placed **near; /* alive with it; NULL: find out */
    uint32_t n_near;
} placed;

typedef struct arena {
    placed *at;
    uint32_t n;
    uint64_t pairs;
    int64_t bound;  /* the most that is alive at once */
    placed **order; /* in which blocks are placed */
    placed **low;   /* scratch: neighbours that are placed, lowest first; where none are listed, all that are placed, */
    uint32_t n_low; /* this many */
    bool listed;
    int64_t *best;    /* offsets by block of the best order so far, */
    placed **best_by; /* which was this one, */
    int64_t end;      /* and its end */
} arena;

/* ---- orders ---- */

static int compare(int64_t x, int64_t y) { return x < y ? 1 : x > y ? -1 : 0; }
static int64_t life(const placed *p) { return (int64_t)p->block->last - p->block->first + 1; }
static int in_turn(const placed *x, const placed *y) { return x < y ? -1 : x > y; }

static int larger_first(const void *a, const void *b) {
    const placed *x = *(placed *const *)a, *y = *(placed *const *)b;
    int by = compare(x->size, y->size);
    return by ? by : in_turn(x, y);
}

static int longer_first(const void *a, const void *b) {
    const placed *x = *(placed *const *)a, *y = *(placed *const *)b;
    int by = compare(life(x), life(y));
    return by ? by : larger_first(a, b);
}

static int wider_first(const void *a, const void *b) {
    const placed *x = *(placed *const *)a, *y = *(placed *const *)b;
    double of_x = (double)x->size * (double)life(x), of_y = (double)y->size * (double)life(y);
    return of_x < of_y ? 1 : of_x > of_y ? -1 : in_turn(x, y);
}

static int earlier_first(const void *a, const void *b) {
    const placed *x = *(placed *const *)a, *y = *(placed *const *)b;
    int by = compare(y->block->first, x->block->first);
    return by ? by : larger_first(a, b);
}

static int lower_first(const void *a, const void *b) {
    const placed *x = *(placed *const *)a, *y = *(placed *const *)b;
    int by = compare(y->offset, x->offset);
    return by ? by : in_turn(x, y);
}

/* ---- one order ---- */

static bool is_alive_with(const placed *x, const placed *y) {
    return x->block->first <= y->block->last && y->block->first <= x->block->last;
}

/* Where what is not listed is kept in order as it is placed. */
static void keep_low(arena *a, placed *p) {
    uint32_t low = 0, high = a->n_low;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (lower_first(&a->low[middle], &p) < 0) low = middle + 1;
        else high = middle;
    }
    memmove(&a->low[low + 1], &a->low[low], (a->n_low++ - low) * sizeof p);
    a->low[low] = p;
}

static void find_low(arena *a, const placed *p) {
    if (!a->listed) return;
    a->n_low = 0;
    for (uint32_t i = 0; i < p->n_near; i++)
        if (p->near[i]->offset >= 0) a->low[a->n_low++] = p->near[i];
    qsort(a->low, a->n_low, sizeof *a->low, lower_first);
}

static int64_t best_fit(arena *a, const placed *p) {
    int64_t end = 0, best = -1, best_gap = INT64_MAX;
    find_low(a, p);
    for (uint32_t i = 0; i < a->n_low; i++) {
        if (!a->listed && !is_alive_with(p, a->low[i])) continue;
        int64_t gap = a->low[i]->offset - end;
        if (gap >= p->size && gap < best_gap) {
            best = end;
            best_gap = gap;
        }
        if (a->low[i]->offset + a->low[i]->size > end) end = a->low[i]->offset + a->low[i]->size;
    }
    return best >= 0 ? best : end;
}

/* Returns the position in the order of the block that ends highest. */
static uint32_t place(arena *a) {
    int64_t end = -1;
    uint32_t top = 0;
    for (uint32_t i = 0; i < a->n; i++) a->at[i].offset = -1;
    a->n_low = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        placed *p = a->order[i];
        p->offset = best_fit(a, p);
        if (!a->listed) keep_low(a, p);
        if (p->offset + p->size <= end) continue;
        end = p->offset + p->size;
        top = i;
    }
    if (a->end >= 0 && end >= a->end) return top;
    a->end = end;
    for (uint32_t i = 0; i < a->n; i++) a->best[i] = a->at[i].offset;
    memcpy(a->best_by, a->order, a->n * sizeof *a->order);
    return top;
}

static void to_front(arena *a, uint32_t i) {
    placed *p = a->order[i];
    memmove(&a->order[1], a->order, i * sizeof *a->order);
    a->order[0] = p;
}

/* ---- several ---- */

static void place_well(arena *a) {
    static int (*const by[])(const void *, const void *) = {larger_first, longer_first, wider_first, earlier_first};
    uint64_t most = WORK / (a->pairs + a->n + 1);
    for (uint32_t i = 0; i < SN_COUNT(by) && a->end != a->bound && (!i || i < most); i++) {
        qsort(a->order, a->n, sizeof *a->order, by[i]);
        place(a);
    }
    memcpy(a->order, a->best_by, a->n * sizeof *a->order);
    for (uint32_t i = SN_COUNT(by); a->end != a->bound && i < most && i < ORDERS_MAX; i++) to_front(a, place(a));
}

/* A sweep over the kernels; `alive` has those that are not over. */
static void sweep(arena *a, placed **alive, void (*meet)(arena *a, placed *p, placed *q)) {
    uint32_t n_alive = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        placed *p = a->order[i];
        int64_t bytes = p->size;
        uint32_t n = 0;
        for (uint32_t k = 0; k < n_alive; k++) {
            placed *q = alive[k];
            if (q->block->last < p->block->first) continue;
            alive[n++] = q;
            bytes += q->size;
            meet(a, p, q);
        }
        alive[n++] = p;
        n_alive = n;
        if (bytes > a->bound) a->bound = bytes;
    }
}

static void count_pair(arena *a, placed *p, placed *q) {
    p->n_near++;
    q->n_near++;
    a->pairs++;
}

static void list_pair(SN_UNUSED arena *a, placed *p, placed *q) {
    p->near[p->n_near++] = q;
    q->near[q->n_near++] = p;
}

/* Sorting costs each pair that is listed about LOGARITHM of what a look at one of all pairs does. */
static void find_near(arena *a, sn_arena *scratch) {
    enum { LOGARITHM = 8 };
    placed **alive = SN_NEWN(scratch, placed *, a->n + 1);
    qsort(a->order, a->n, sizeof *a->order, earlier_first);
    sweep(a, alive, count_pair);
    a->listed = a->pairs * LOGARITHM <= (uint64_t)a->n * a->n / 2;
    if (!a->listed) return;
    for (uint32_t i = 0; i < a->n; i++) {
        a->at[i].near = SN_NEWN(scratch, placed *, a->at[i].n_near);
        a->at[i].n_near = 0;
    }
    sweep(a, alive, list_pair);
}

static sn_ix aligned(sn_module *m, sn_ix size) {
    return sn_ix_scale(m, sn_ix_ceildiv(m, size, sn_ix_const(m, SN_PLAN_ALIGN)), SN_PLAN_ALIGN);
}

static int64_t place_blocks(int64_t *least, sn_pass_ctx *cx, sn_plan_block *blocks, uint32_t n) {
    sn_arena *s = cx->scratch;
    arena a = {.end = -1};
    int64_t size;
    a.at = SN_NEWN(s, placed, n + 1);
    a.order = SN_NEWN(s, placed *, n + 1);
    a.best_by = SN_NEWN(s, placed *, n + 1);
    a.low = SN_NEWN(s, placed *, n + 1);
    a.best = SN_NEWN(s, int64_t, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        if (!sn_ix_is_const(cx->m, aligned(cx->m, blocks[i].size), &size)) continue;
        a.order[a.n] = &a.at[a.n];
        a.at[a.n++] = (placed){.size = size, .block = &blocks[i]};
    }
    *least = 0;
    if (!a.n) return 0;
    find_near(&a, s);
    *least = a.bound;
    place_well(&a);
    for (uint32_t i = 0; i < a.n; i++) a.at[i].block->offset = sn_ix_const(cx->m, a.best[i]);
    return a.end;
}

sn_ix sn_plan_offsets(int64_t *least, sn_pass_ctx *cx, sn_plan_block *blocks, uint32_t n) {
    sn_module *m = cx->m;
    int64_t size;
    sn_ix total = sn_ix_const(m, place_blocks(least, cx, blocks, n));
    for (uint32_t i = 0; i < n; i++) {
        if (sn_ix_is_const(m, blocks[i].size, &size)) continue;
        blocks[i].offset = total;
        total = sn_ix_add(m, total, aligned(m, blocks[i].size));
    }
    return total;
}
