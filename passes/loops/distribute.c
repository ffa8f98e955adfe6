/* distribute.c: the pass `distribute`: what a reduction over rows adds up is computed where the rows are.
 *
 *     k0: loop i in 8192 { %0 = reduce ... over a row  store t[i], %0 }
 *     k1: %1 = reduce sum i in 8192 { load t[i]  load x[.. gather ..]  log  sub  yield }  store y[0], %1
 *  -> k0: as before
 *     k1_rows: loop i in 8192 { load t[i]  load x[..]  log  sub  store u[i] }
 *     k1: %1 = reduce sum i in 8192 { load u[i]  yield }  store y[0], %1
 *
 * `fuse` then merges k1_rows into k0, and `last-block-reduce` can make the little that is left of k1 the tail of k0.
 * Only for a reduction to a single result whose operand reads the results of a row kernel, and only where there is
 * something to compute. Cost: linear in the kernels.
 */
#include "passes/base/nest.h"

typedef struct peel {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_stmt nest;
    uint32_t at; /* position of k among the kernels that `users` knows */
    const sn_users *users;
} peel;

/* Does an earlier kernel with one outer loop of that extent and a nest inside store the buffer? */
static bool from_rows(const peel *p, sn_buf b, sn_ix extent) {
    sn_module *m = p->m;
    sn_chain outer;
    uint32_t storer = sn_users_storer(p->users, b, p->at);
    if (storer == UINT32_MAX) return false;
    sn_chain_outer(&outer, m, m->kernels.at[storer]);
    if (outer.n != 1 || !sn_ix_eq(sn_stmt_extent(m, outer.at[0]), extent)) return false;
    for (sn_stmt s = sn_stmt_get(m, outer.at[0])->first; s.i; s = sn_next(m, s))
        if (sn_is_nest(sn_stmt_get(m, s))) return true;
    return false;
}

static bool look(peel *p) {
    sn_module *m = p->m;
    for (sn_stmt s = sn_kern_get(m, p->k)->first; s.i; s = sn_next(m, s)) {
        if (!sn_lop_has_region(sn_stmt_get(m, s)->op)) continue;
        if (p->nest.i || sn_stmt_get(m, s)->op != SN_LOP_REDUCE) return false;
        p->nest = s;
    }
    if (!p->nest.i) return false;
    bool rows = false;
    uint32_t ops = 0;
    for (sn_stmt s = sn_stmt_get(m, p->nest)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_lop_has_region(r->op) || sn_stores(r)) return false;
        ops += r->op < SN_N_LOPS;
        if (!sn_loads(r) || sn_buf_get(m, r->buf)->scope != SN_BUF_TEMP) continue;
        bool by_axis = sn_ix_eq(r->ix, sn_ix_axis(m, sn_stmt_axis(m, p->nest)));
        rows |= by_axis && from_rows(p, r->buf, sn_stmt_extent(m, p->nest));
    }
    return rows && ops > 0;
}

static bool is_inside(const peel *p, sn_val v) {
    return sn_stmt_get(p->m, sn_val_get(p->m, v)->def)->parent.i == p->nest.i;
}

typedef struct closed_query {
    const peel *p;
    bool closed;
} closed_query;

static void look_at_atom(void *user, sn_ix atom) {
    closed_query *q = user;
    const sn_ix_rec *r = sn_ix_get(q->p->m, atom);
    if (r->kind == SN_IX_VAL) q->closed &= is_inside(q->p, (sn_val){r->id});
}

/* Values from outside the nest, operands or in positions, would have to come along. */
static bool is_closed(const peel *p) {
    const sn_module *m = p->m;
    closed_query q = {p, true};
    for (sn_stmt s = sn_stmt_get(m, p->nest)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        for (uint32_t k = 0; k < r->n_in; k++) q.closed &= is_inside(p, r->in[k]);
        if (r->ix.i) sn_ix_walk(m, r->ix, look_at_atom, &q);
        if (r->bound.i) sn_ix_walk(m, r->bound, look_at_atom, &q);
    }
    return q.closed;
}

static sn_kern take_out(peel *p) {
    sn_module *m = p->m;
    const sn_kern_rec *kr = sn_kern_get(m, p->k);
    sn_axis from = sn_stmt_axis(m, p->nest);
    sn_ix extent = sn_stmt_extent(m, p->nest);
    sn_kern rows = sn_kern_new(m, sn_strf(&m->arena, "%s_rows", kr->name));
    sn_kern_get(m, rows)->note = sn_kern_get(m, p->k)->note;
    sn_kern_get(m, rows)->from = sn_kern_get(m, p->k)->from;
    sn_kern_get(m, rows)->section = kr->section;
    sn_axis i = sn_axis_new(m, "i", extent);
    sn_ix at = sn_ix_axis(m, i);
    sn_stmt loop = sn_put_loop(m, sn_at_end(rows, (sn_stmt){0}), i, SN_AXIS_SEQ), yield = sn_stmt_get(m, p->nest)->last;
    for (sn_stmt s = sn_stmt_get(m, p->nest)->first, next; s.i != yield.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        sn_stmt_subst(m, s, &from, &at, 1);
        sn_stmt_insert(m, sn_at_end(rows, loop), s);
    }
    for (uint32_t k = 0; k < sn_stmt_get(m, yield)->n_in; k++) {
        sn_val v = sn_stmt_get(m, yield)->in[k];
        const char *name = sn_strf(&m->arena, "%s_u%u", sn_kern_get(m, p->k)->name, k);
        sn_buf u = sn_buf_new(m, name, sn_val_get(m, v)->dtype, SN_BUF_TEMP, &extent, 1);
        sn_put_store(m, sn_at_end(rows, loop), u, at, v);
        sn_stmt_get(m, yield)->in[k] = sn_put_load(m, sn_at_before(m, yield), u, sn_ix_axis(m, from));
    }
    sn_kern_collect_params(m, rows);
    sn_kern_collect_params(m, p->k);
    sn_kern_set_precision(m, rows, kr->sched.precision);
    sn_kern_set_precision(m, p->k, kr->sched.precision);
    sn_remark(p->cx, sn_kern_get(m, p->k)->name, "its operand is computed by rows, in %s", sn_kern_get(m, rows)->name);
    return rows;
}

sn_status sn_pass_distribute(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    sn_kern_list out = {0};
    sn_users users;
    uint32_t n = m->kernels.n;
    sn_users_find(&users, m, cx->scratch);
    for (uint32_t i = 0; i < n; i++) {
        peel p = {.cx = cx, .m = m, .k = m->kernels.at[i], .at = i, .users = &users};
        if (!sn_kern_get(m, p.k)->scheduled && look(&p) && is_closed(&p)) {
            SN_PUSH(&m->arena, &out, take_out(&p));
            *changed = true;
        }
        SN_PUSH(&m->arena, &out, p.k);
    }
    m->kernels = out;
    return m->env->status;
}
