/* mixed_match.c: is a kernel one that the pass `mixed-order-reduction` makes? Its loop over rows is not parallel, and what
 * stands in that loop is what the other files take for the rows of the kernel.
 *
 *     loop g in G { loop j in N { store p[N*g + j], 0 }  loop r in R { row nests; the last one updates p } }
 *
 * Reads the kernel, changes nothing. mixed_order.c binds what is found here.
 */
#include "passes/schedule/base/mixed.h"

/* The offset of s in the nest as an expression in p, the position in the nest. */
sn_ix sn_schedule_at_position(sn_module *m, const sn_chain *nest, sn_ix e, sn_ix p) {
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix extents[SN_MAX_CHAIN], parts[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < nest->n; k++) {
        axes[k] = sn_stmt_axis(m, nest->at[k]);
        extents[k] = sn_stmt_extent(m, nest->at[k]);
    }
    sn_ix_unflatten(m, p, extents, nest->n, parts);
    return sn_ix_subst(m, e, axes, parts, nest->n);
}

int sn_schedule_sum_of(const sn_schedule_mixed *mo, sn_buf b) {
    for (uint32_t i = 0; i < mo->n_sums; i++)
        if (sn_buf_eq(mo->sums[i], b)) return (int)i;
    return -1;
}

/* Does the nest do nothing but put constants into p[N*g + position]? Then they are sums. */
static bool is_start(sn_schedule_mixed *mo, sn_module *m, const sn_schedule_shape *sh, sn_stmt top) {
    sn_chain nest;
    int64_t width;
    if (!sn_nest_perfect(&nest, m, top)) return false;
    width = sn_chain_count(m, &nest);
    if (width <= 0 || (mo->n_sums && width != mo->width)) return false;
    mo->width = width;
    sn_ix p = sn_ix_axis(m, sn_axis_new(m, "p", sn_ix_const(m, width)));
    sn_ix want = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, sn_stmt_axis(m, sh->body)), width), p);
    for (sn_stmt s = sn_stmt_get(m, nest.at[nest.n - 1])->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op == SN_LOP_CONST) continue;
        if (r->op != SN_LOP_STORE || r->has_mask || mo->n_sums == SN_MAX_NESTS) return false;
        if (!sn_ix_eq(sn_schedule_at_position(m, &nest, r->ix, p), want)) return false;
        if (sn_stmt_get(m, sn_val_get(m, r->in[0])->def)->op != SN_LOP_CONST) return false;
        mo->identities[mo->n_sums] = r->in[0];
        mo->sums[mo->n_sums++] = r->buf;
    }
    return true;
}

/* Every access to a sum in the row: load, combine, store, at the position of a nest as wide as the row. */
static bool is_update(sn_schedule_mixed *mo, sn_module *m, const sn_schedule_shape *sh, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    int i = sn_schedule_sum_of(mo, r->buf);
    sn_stmt top = s;
    while (sn_stmt_get(m, top)->parent.i != mo->row.i) top = sn_stmt_get(m, top)->parent;
    sn_chain nest;
    if (r->has_mask || top.i == s.i || !sn_nest_perfect(&nest, m, top) || sn_chain_count(m, &nest) != mo->width)
        return false;
    sn_ix p = sn_ix_axis(m, sn_axis_new(m, "p", sn_ix_const(m, mo->width)));
    sn_ix want = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, sn_stmt_axis(m, sh->body)), mo->width), p);
    if (!sn_ix_eq(sn_schedule_at_position(m, &nest, r->ix, p), want)) return false;
    if (r->op == SN_LOP_LOAD) return true;
    const sn_stmt_rec *sum = sn_stmt_get(m, sn_val_get(m, r->in[0])->def);
    const sn_stmt_rec *old = sum->n_in ? sn_stmt_get(m, sn_val_get(m, sum->in[0])->def) : sum;
    if (old->op != SN_LOP_LOAD || !sn_buf_eq(old->buf, r->buf)) return false;
    for (int comb = 0; comb < SN_N_COMBS; comb++)
        if (sn_combs[comb].states == 1 && sn_comb_lops[comb] == sum->op) {
            mo->combs[i] = (sn_comb)comb;
            return true;
        }
    return false;
}

static bool rows_update(sn_schedule_mixed *mo, sn_module *m, const sn_schedule_shape *sh) {
    uint32_t updates = 0;
    sn_stmt end = sn_stmt_walk_skip(m, mo->rows_loop);
    for (sn_stmt s = mo->rows_loop; s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!r->buf.i || sn_schedule_sum_of(mo, r->buf) < 0) continue;
        if (!is_update(mo, m, sh, s)) return false;
        updates += r->op == SN_LOP_STORE;
    }
    return updates == mo->n_sums;
}

/* The only test around a row: is it one of the G*r + g < M rows? */
static bool is_row_test(const sn_schedule_mixed *mo, sn_module *m, const sn_schedule_shape *sh, const sn_stmt_rec *r) {
    int64_t rows, groups = sn_ix_value(m, sn_stmt_extent(m, sh->body));
    sn_ix row = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, sn_stmt_axis(m, mo->rows_loop)), groups),
                          sn_ix_axis(m, sn_stmt_axis(m, sh->body)));
    return sn_ix_eq(r->ix, row) && sn_ix_is_const(m, r->bound, &rows) && rows >= groups;
}

static bool row_is_nests(const sn_schedule_mixed *mo, const sn_module *m) {
    sn_chain nest;
    for (sn_stmt s = sn_stmt_get(m, mo->row)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_lop_has_region(r->op) && (!sn_is_nest(r) || !sn_nest_perfect(&nest, m, s))) return false;
    }
    return true;
}

const sn_schedule_mixed *sn_schedule_find_mixed(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_module *m = cx->m;
    sn_schedule_mixed *mo = NULL;
    sn_stmt last = {0};
    if (sh->outer.n != 1) return NULL;
    for (sn_stmt s = sn_region_first(m, k, sh->body); s.i; s = sn_next(m, s)) last = s;
    if (!last.i || sn_stmt_get(m, last)->op != SN_LOP_LOOP) return NULL;
    mo = SN_NEW(cx->scratch, sn_schedule_mixed);
    for (sn_stmt s = sn_region_first(m, k, sh->body); s.i != last.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op == SN_LOP_STORE || r->op == SN_LOP_REDUCE || r->op == SN_LOP_IF) return NULL;
        if (r->op == SN_LOP_LOOP && !is_start(mo, m, sh, s)) return NULL;
    }
    mo->rows_loop = mo->row = last;
    sn_stmt first = sn_stmt_get(m, last)->first;
    if (first.i && sn_stmt_get(m, first)->op == SN_LOP_IF && !sn_next(m, first).i) mo->row = first;
    bool is = mo->n_sums && (mo->row.i == last.i || is_row_test(mo, m, sh, sn_stmt_get(m, first))) &&
              row_is_nests(mo, m) && rows_update(mo, m, sh);
    return is ? mo : NULL;
}
