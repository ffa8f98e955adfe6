/* reorder.c: the pass `reorder`: parallel axes are ordered by the strides of the accesses.
 *
 *     loop i in 8 { loop j in 4 { %0 = load x[i + 8*j]  store y[i + 8*j], %0 } }
 *  -> loop j in 4 { loop i in 8 { ... } }
 *
 * Every access of the nest votes on every pair of axes: the one with the smaller stride wants to be inner; an access
 * that an axis does not move does not vote for it (Inductor's pick_loop_order). Majority wins; a tie keeps the order.
 * Stores count double, since scattered stores cost more than scattered loads. Legal because outer loops are parallel;
 * nests of reduces are left as they are (their order is the order of summation). Cost: accesses times axes squared.
 */
#include "passes/base/nest.h"

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
    int votes[SN_MAX_CHAIN][SN_MAX_CHAIN];
} ballot;

static void count_access(ballot *bl, sn_module *m, const sn_chain *c, const sn_stmt_rec *access) {
    int64_t strides[SN_MAX_CHAIN];
    int weight = sn_stores(access) ? 2 : 1;
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

static bool reorder_kernel(sn_pass_ctx *cx, sn_kern k) {
    sn_module *m = cx->m;
    sn_chain c;
    sn_chain_outer(&c, m, k);
    if (c.n < 2) return false;
    ballot *bl = SN_NEW(cx->scratch, ballot);
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_is_access(r)) count_access(bl, m, &c, r);
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
