/* reorder.c: the passes `reorder` and `reorder-reductions`: axes are ordered by the strides of the accesses.
 *
 *     loop i in 8 { loop j in 4 { %0 = load x[i + 8*j]  store y[i + 8*j], %0 } }
 *  -> loop j in 4 { loop i in 8 { ... } }
 *
 * Every access of the nest votes on every pair of axes: the one with the smaller stride wants to be inner; an access
 * that an axis does not move does not vote for it (Inductor's pick_loop_order). Majority wins; a tie keeps the order.
 * Stores count double, since scattered stores cost more than scattered loads. But what a reduction reads by columns, each
 * element once, may be many times what the kernel leaves: such a load counts more than the stores. `reorder` is legal because outer loops
 * are parallel; it leaves the nests inside them as they are, so that `fuse` sees those of a row in one order.
 *
 *     reduce sum r in 4 { reduce sum s in 8 { load x[r + 4*s] } }  ->  reduce sum s in 8 { reduce sum r in 4 { ... } }
 *
 * `reorder-reductions` orders those, when all that is fused is in one kernel: all nests of the kernel in the same way,
 * since they share a row that stays on the chip, and each access by the bytes of its buffer. Legal: the combiners take
 * their elements in any order. The order of a sum becomes that of memory, so its last bits may change, as in
 * `collapse`; it is fixed, so that they are the same from run to run. A reduction that carries positions yields the
 * position in the graph, whatever the order, and the smallest one wins. Products, and what else reads all of its
 * elements again for other results, keep their order, by which their classes know them; so do scans. Cost of both:
 * accesses times axes squared.
 */
#include "passes/base/nest.h"
#include "passes/schedule/base/constants.h"

#include <stdlib.h>

/* |coefficient| of axis in e. Where e is not affine in it: the distance of the first two iterations, which is 0 for
 * 32*(i div 32), or INT64_MAX when nobody knows. */
static int64_t stride_of(sn_module *m, sn_ix e, sn_axis ax) {
    int64_t c;
    if (!sn_ix_coef(m, e, ax, &c)) {
        sn_ix first = sn_ix_const(m, 0), second = sn_ix_const(m, 1);
        sn_ix step = sn_ix_sub(m, sn_ix_subst(m, e, &ax, &second, 1), sn_ix_subst(m, e, &ax, &first, 1));
        if (!sn_ix_is_const(m, step, &c)) return INT64_MAX;
    }
    return c < 0 ? -c : c;
}

/* > 0: a should be inside b. */
static int vote(int64_t a, int64_t b) {
    if (a == b || a == 0 || b == 0) return 0;
    return a < b ? 1 : -1;
}

typedef struct ballot {
    int64_t votes[SN_MAX_CHAIN][SN_MAX_CHAIN];
} ballot;

static void count_access(ballot *bl, sn_module *m, const sn_chain *c, const sn_stmt_rec *access, int64_t weight) {
    int64_t strides[SN_MAX_CHAIN];
    for (uint32_t a = 0; a < c->n; a++) strides[a] = stride_of(m, access->ix, sn_stmt_axis(m, c->at[a]));
    for (uint32_t a = 0; a < c->n; a++)
        for (uint32_t b = 0; b < c->n; b++) bl->votes[a][b] += weight * vote(strides[a], strides[b]);
}

/* Stable insertion sort, outermost first: axis x stays outside y unless the votes want x inside. */
static bool choose_order(uint32_t *order, const ballot *bl, uint32_t n) {
    bool moved = false;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t at = k;
        while (at > 0 && bl->votes[order[at - 1]][k] > 0) {
            order[at] = order[at - 1];
            at--;
            moved = true;
        }
        order[at] = k;
    }
    return moved;
}

enum { LOAD = 1, STORE = 2 };

/* Does a reduction read by columns, each element once: neighbours are along an outer loop, not along one of its own? */
static bool is_by_columns(sn_module *m, const sn_chain *c, sn_stmt s) {
    const sn_stmt_rec *access = sn_stmt_get(m, s);
    int64_t across = INT64_MAX, along = INT64_MAX;
    for (uint32_t k = 0; k < c->n; k++) {
        int64_t stride = stride_of(m, access->ix, sn_stmt_axis(m, c->at[k]));
        if (stride == 0) return false;
        if (stride < across) across = stride;
    }
    bool reduces = false;
    for (sn_stmt p = access->parent; p.i && !sn_stmt_eq(p, c->at[c->n - 1]); p = sn_stmt_get(m, p)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(m, p);
        if (!sn_is_nest(r)) continue;
        int64_t stride = stride_of(m, access->ix, r->axis);
        reduces |= r->op == SN_LOP_REDUCE && stride > 0;
        if (stride && stride < along) along = stride;
    }
    return reduces && across < along;
}

static int64_t bytes_stored(const sn_module *m, sn_kern k) {
    int64_t bytes = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_is_access(r) && sn_stores(r)) bytes = sn_add_clamped(bytes, sn_buf_bytes(m, r->buf));
    }
    return bytes;
}

static int64_t weight_of(sn_module *m, const sn_chain *c, sn_stmt s, int64_t stored) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    if (sn_stores(r)) return STORE;
    return sn_buf_bytes(m, r->buf) / SN_REORDER_TIMES >= stored && is_by_columns(m, c, s) ? SN_REORDER_COLUMNS : LOAD;
}

static bool reorder_kernel(sn_pass_ctx *cx, sn_kern k) {
    sn_module *m = cx->m;
    sn_chain c;
    sn_chain_outer(&c, m, k);
    if (c.n < 2) return false;
    ballot *bl = SN_NEW(cx->scratch, ballot);
    int64_t stored = bytes_stored(m, k);
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_is_access(r)) count_access(bl, m, &c, r, weight_of(m, &c, s, stored));
    }
    uint32_t order[SN_MAX_CHAIN];
    if (!choose_order(order, bl, c.n)) return false;
    sn_chain_permute(m, &c, order);
    sn_remark(cx, sn_kern_get(m, k)->name, "loops reordered by stride");
    return true;
}

sn_status sn_pass_reorder(sn_pass_ctx *cx, bool *changed) {
    for (uint32_t i = 0; i < cx->m->kernels.n; i++)
        if (!sn_kern_get(cx->m, cx->m->kernels.at[i])->scheduled) *changed |= reorder_kernel(cx, cx->m->kernels.at[i]);
    return cx->m->env->status;
}

/* ---- reductions ---- */

/* The nests inside the outer loops of a kernel. */
typedef struct nests {
    sn_chain outer, at[SN_MAX_CHAIN];
    uint32_t n;
} nests;

static bool same_extents(const sn_module *m, const sn_chain *a, const sn_chain *b) {
    for (uint32_t k = 0; k < a->n && a->n == b->n; k++)
        if (!sn_ix_eq(sn_stmt_extent(m, a->at[k]), sn_stmt_extent(m, b->at[k]))) return false;
    return a->n == b->n;
}

/* Are they perfect, of the same extents, and in no order of their own? */
static bool find_nests(nests *out, sn_module *m, sn_kern k) {
    *out = (nests){0};
    sn_chain_outer(&out->outer, m, k);
    bool reduces = false;
    sn_stmt body = out->outer.n ? out->outer.at[out->outer.n - 1] : (sn_stmt){0};
    for (sn_stmt s = sn_region_first(m, k, body); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_lop_has_region(r->op)) continue;
        sn_chain *c = &out->at[out->n];
        if (out->n == SN_MAX_CHAIN || !sn_is_nest(r) || r->kind != SN_AXIS_SEQ || !sn_nest_perfect(c, m, s))
            return false;
        for (uint32_t d = 0; d < c->n; d++)
            if (sn_is_scan(m, c->at[d])) return false;
        if (out->n++ && !same_extents(m, c, &out->at[0])) return false;
        reduces |= r->op == SN_LOP_REDUCE;
    }
    return reduces && out->at[0].n > 1;
}

static bool moved_by(const sn_module *m, sn_ix e, const sn_chain *c, bool all) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < c->n; k++) n += sn_ix_uses_axis(m, e, sn_stmt_axis(m, c->at[k]));
    return all ? n == c->n : n > 0;
}

/* The accesses of a nest vote; false where it stores an element in several iterations. *once: some buffer is read
 * once. */
static bool count_nest(ballot *bl, bool *once, sn_module *m, const sn_chain *outer, const sn_chain *c) {
    sn_stmt top = c->at[0], end = sn_stmt_walk_skip(m, top);
    for (sn_stmt s = top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_is_access(r)) continue;
        if (sn_stores(r) && !moved_by(m, r->ix, c, true)) return false;
        if (!moved_by(m, r->ix, c, false)) continue;
        *once |= moved_by(m, r->ix, outer, true);
        count_access(bl, m, c, r, sn_buf_bytes(m, r->buf) * (sn_stores(r) ? STORE : LOAD));
    }
    return true;
}

static bool reorder_reductions(sn_pass_ctx *cx, sn_kern k) {
    sn_module *m = cx->m;
    nests *in = SN_NEW(cx->scratch, nests);
    if (!find_nests(in, m, k) || sn_kern_has_products(m, k)) return false;
    ballot *bl = SN_NEW(cx->scratch, ballot);
    bool once = false;
    for (uint32_t i = 0; i < in->n; i++)
        if (!count_nest(bl, &once, m, &in->outer, &in->at[i])) return false;
    uint32_t order[SN_MAX_CHAIN];
    if (!once || !choose_order(order, bl, in->at[0].n)) return false;
    for (uint32_t i = 0; i < in->n; i++) sn_chain_permute(m, &in->at[i], order);
    sn_remark(cx, sn_kern_get(m, k)->name, "reductions reordered by stride");
    return true;
}

sn_status sn_pass_reorder_reductions(sn_pass_ctx *cx, bool *changed) {
    for (uint32_t i = 0; i < cx->m->kernels.n; i++)
        if (!sn_kern_get(cx->m, cx->m->kernels.at[i])->scheduled)
            *changed |= reorder_reductions(cx, cx->m->kernels.at[i]);
    return cx->m->env->status;
}
