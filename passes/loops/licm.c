/* licm.c: the pass `licm`: what does not change in a nest moves in front of it.
 *
 *     loop i { loop j { %0 = load s[i]  %1 = rsqrt %0  %2 = load x[64*i + j]  %3 = mul %2, %1  store y[64*i + j], %3 } ... }
 *  -> loop i { %0 = load s[i]  %1 = rsqrt %0  loop j { %2 = load x[64*i + j]  %3 = mul %2, %1  store ... } ... }
 *
 * Only out of nests inside the innermost outer loop: the outer loops stay perfect, so that they can still be merged
 * and bound. Legal for pure values whose operands and axes are visible outside, and for loads of buffers that the
 * nest does not store, out of nests that run at least once. Nothing leaves an `if`, and nothing stops between the
 * levels of a perfect nest. Cost: linear in statements times nesting depth and, for loads, stores of the kernel.
 */
#include "passes/base/nest.h"

typedef struct ix_query {
    const sn_module *m;
    sn_stmt nest;
    bool inside;
} ix_query;

static void atom_inside(void *user, sn_ix atom) {
    ix_query *q = user;
    const sn_ix_rec *r = sn_ix_get(q->m, atom);
    if (r->kind == SN_IX_AXIS) q->inside |= r->id == sn_stmt_axis(q->m, q->nest).i;
    if (r->kind == SN_IX_VAL)
        q->inside |= sn_stmt_get(q->m, sn_val_get(q->m, (sn_val){r->id})->def)->parent.i == q->nest.i;
}

/* Does the nest run at least once? What a load reads in one that does not need not exist. */
static bool runs(sn_module *m, sn_stmt nest) { return sn_ix_range(m, sn_stmt_extent(m, nest)).lo > 0; }

static bool depends_on(sn_module *m, sn_stmt s, sn_stmt nest, const sn_access_list *all) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    for (uint32_t k = 0; k < r->n_in; k++)
        if (sn_stmt_get(m, sn_val_get(m, r->in[k])->def)->parent.i == nest.i) return true;
    ix_query q = {m, nest, false};
    if (r->ix.i) sn_ix_walk(m, r->ix, atom_inside, &q);
    if (r->bound.i) sn_ix_walk(m, r->bound, atom_inside, &q);
    return q.inside || (sn_loads(r) && (sn_access_stored(all, m, r->buf, nest) || !runs(m, nest)));
}

/* May something stand in front of `nest`, inside its parent? Not between the levels of a perfect nest: `schedule` spreads
 * such a nest over threads as a whole, and gives one with something in between to a single thread. */
static bool is_place(const sn_module *m, sn_stmt nest) {
    sn_stmt outer = sn_stmt_get(m, nest)->parent;
    return !outer.i || !sn_is_nest(sn_stmt_get(m, outer)) || sn_nest_inner(m, outer).i != nest.i;
}

/* Move s out of as many nests as it can leave, not beyond `body`. */
static bool hoist_one(sn_module *m, sn_stmt s, sn_stmt body, const sn_access_list *all) {
    sn_stmt nest = sn_stmt_get(m, s)->parent, before = {0};
    for (; nest.i && nest.i != body.i && sn_is_nest(sn_stmt_get(m, nest)) && !depends_on(m, s, nest, all);
         nest = sn_stmt_get(m, nest)->parent)
        if (sn_stmt_get(m, nest)->parent.i == body.i || is_place(m, nest)) before = nest;
    if (!before.i) return false;
    sn_stmt_unlink(m, s);
    sn_stmt_insert(m, sn_at_before(m, before), s);
    return true;
}

sn_status sn_pass_licm(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        sn_chain c;
        if (sn_kern_get(m, m->kernels.at[i])->scheduled) continue;
        sn_chain_outer(&c, m, m->kernels.at[i]);
        sn_stmt body = c.n ? c.at[c.n - 1] : (sn_stmt){0};
        bool moved = false;
        sn_access_list all;
        sn_access_find_all(&all, m, cx->scratch, m->kernels.at[i]);
        for (sn_stmt s = sn_stmt_walk_first(m, m->kernels.at[i]), next; s.i; s = next) {
            next = sn_stmt_walk_next(m, s);
            if (sn_lops[sn_stmt_get(m, s)->op].pure) moved |= hoist_one(m, s, body, &all);
        }
        if (moved) sn_kern_cse(m, m->kernels.at[i]);
        *changed |= moved;
    }
    return m->env->status;
}
