/* inplace.c: may a kernel write its result over one of its operands? Part of the pass `plan`.
 *
 *     loop i in 64 : grid { loop j in 8 : block.x { %0 = load b[8*i + j] ; %1 = exp %0 ; store t[8*i + j], %1 } }
 *
 * Yes here: t may have the storage of b. Legality, given that nothing else in the kernel touches b or t:
 *   - all loads of b and all stores of t have the same offset, when the axes around them are named alike from the outside
 *     in; their extents and kinds must be equal too. So an element belongs to the same block, thread and lane everywhere
 *     (also where a reduction reads a row in one loop and a later loop writes it).
 *   - that offset differs between any two iterations of these axes. So no other iteration touches the element.
 *   - the block axes around them are all that the kernel has, so that no two threads run the same iteration.
 *   - every load stands before the first store in the text, so that a thread reads the element before it is overwritten.
 * Gathers and scatters are refused. Cost: a walk over the kernel, then for each pair what touches the two.
 *
 * The formals of such a call are not noalias (functions.c).
 */
#include "passes/plan/plan.h"

#include <stdlib.h>

#include "ir/loop/access.h"

/* Do both run the same iterations on the same threads, and touch the same element in each? */
static bool same_elements(sn_module *m, sn_stmt a, sn_stmt b) {
    sn_chain of_a, of_b;
    sn_chain_around(&of_a, m, a);
    sn_chain_around(&of_b, m, b);
    /* Two grids side by side are segments: their blocks have nothing to do with each other. */
    if (of_a.n && of_b.n && sn_is_grid(m, of_a.at[0]) && of_a.at[0].i != of_b.at[0].i) return false;
    return sn_same_element(m, a, &of_a, b, &of_b);
}

/* ---- every thread on its own ---- */

static bool inside_kind(const sn_module *m, sn_stmt s, sn_axis_kind kind) {
    for (sn_stmt p = sn_stmt_get(m, s)->parent; p.i; p = sn_stmt_get(m, p)->parent)
        if (sn_stmt_get(m, p)->axis.i && sn_stmt_get(m, p)->kind == kind) return true;
    return false;
}

/* Outside a block axis all threads run the same iteration: one could read what another has written. All axes of a block
 * kind have the same extent (invariant L12), so that one of them is all threads. */
static bool on_all_threads(const sn_plan_touches *t, sn_stmt store) {
    static const sn_axis_kind kinds[] = {SN_AXIS_CLUSTER, SN_AXIS_BLOCK_X, SN_AXIS_BLOCK_Y};
    for (uint32_t i = 0; i < SN_COUNT(kinds); i++)
        if (t->kinds >> kinds[i] & 1 && !inside_kind(t->m, store, kinds[i])) return false;
    return true;
}

/* ---- what a kernel touches ---- */

static int by_buffer(const void *a, const void *b) {
    const sn_plan_touch *x = a, *y = b;
    if (x->buf.i != y->buf.i) return x->buf.i < y->buf.i ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

void sn_plan_touches_of(sn_plan_touches *out, sn_pass_ctx *cx, sn_kern k) {
    sn_module *m = cx->m;
    uint32_t at = 0;
    *out = (sn_plan_touches){.m = m, .kern = k};
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s), at++) {
        const sn_stmt_rec *rec = sn_stmt_get(m, s);
        if (sn_is_nest(rec)) out->kinds |= 1u << rec->kind;
        out->scans |= rec->op == SN_LOP_ACCUM;
        if (rec->buf.i) SN_PUSH(cx->scratch, &out->touches, ((sn_plan_touch){rec->buf, s, at}));
    }
    if (out->touches.n) qsort(out->touches.at, out->touches.n, sizeof *out->touches.at, by_buffer);
}

/* Those of a buffer, in the order of the text. */
static const sn_plan_touch *touches_of(const sn_plan_touches *t, sn_buf b, uint32_t *n) {
    uint32_t low = 0, high = t->touches.n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (t->touches.at[middle].buf.i < b.i) low = middle + 1;
        else high = middle;
    }
    for (*n = 0; low + *n < t->touches.n && sn_buf_eq(t->touches.at[low + *n].buf, b);) ++*n;
    return t->touches.at + low;
}

/* ---- the question ---- */

static bool same_storage_size(sn_module *m, sn_buf a, sn_buf b) {
    const sn_buf_rec *x = sn_buf_get(m, a), *y = sn_buf_get(m, b);
    return sn_ix_eq(x->size, y->size) && sn_dtype_bytes(x->dtype) == sn_dtype_bytes(y->dtype);
}

/* A thread that walks along a scan by itself loads ahead of what it stores, which it cannot where both are one storage:
 * 390 us instead of 144 for 128 columns of 73784 (H100). */
static bool scans_alone(const sn_plan_touches *t) {
    return t->scans && sn_kern_get(t->m, t->kern)->sched.cls == SN_SCHED_ELEMENT;
}

bool sn_plan_in_place(const sn_plan_touches *t, sn_buf from, sn_buf to) {
    sn_module *m = t->m;
    uint32_t n_old, n_new;
    if (!same_storage_size(m, from, to) || scans_alone(t)) return false;
    const sn_plan_touch *old = touches_of(t, from, &n_old), *new = touches_of(t, to, &n_new);
    if (!n_new || (n_old && old[n_old - 1].at > new[0].at)) return false;
    sn_stmt store = new[0].stmt;
    if (!sn_access_distinct(m, store) || !on_all_threads(t, store)) return false;
    for (uint32_t i = 0; i < n_old; i++)
        if (sn_stores(sn_stmt_get(m, old[i].stmt)) || !same_elements(m, old[i].stmt, store)) return false;
    for (uint32_t i = 0; i < n_new; i++)
        if (sn_loads(sn_stmt_get(m, new[i].stmt)) || !same_elements(m, new[i].stmt, store)) return false;
    return true;
}
