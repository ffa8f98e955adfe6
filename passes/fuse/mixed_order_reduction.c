/* mixed_order_reduction.c: the pass `mixed-order-reduction`: sums over rows and sums over columns of the same data
 * become one kernel.
 *
 *     k0: loop i in M { %0 = reduce sum r in N { load x[N*i + r] }  loop j in N { load x[N*i + j] ... store y[N*i + j] } }
 *     k1: loop j in N { %1 = reduce sum r in M { load x[N*r + j] ... }  store w[j], %1 }
 *  -> k0: loop g in G {
 *           loop j in N { store p[N*g + j], 0 }
 *           loop r in M / G {                                           the rows i = G*r + g of group g
 *             %0 = reduce sum ...
 *             loop j in N { load x ... store y ...  %2 = load p[N*g + j]  %3 = add %2, ...  store p[N*g + j], %3 }
 *           }
 *         }
 *     k1: loop j in N { %1 = reduce sum g in G { load p[N*g + j] }  store w[j], %1 }
 *
 * The backward passes of normalisations are of this kind: dx along rows, dw and db along columns; so is a bias gradient
 * beside a pointwise kernel. The second kernel's expression is evaluated at the end of each row (mixed_order_match.c
 * says when that is legal), its reduction runs over G partial results. The loop over r carries the partial results from
 * row to row: the one loop of plain Loop IR that is not parallel. `schedule` keeps them in registers
 * (passes/schedule/rows/mixed_order.c). A schedule that stands in the header of k0 is obeyed; its `split` is the number of
 * groups, and 1 in either header forbids it. Runs after `fuse`, and on GPUs only. The order of summation is fixed.
 * Cost: each kernel is tried against all others.
 */
#include "passes/fuse/mixed_order_reduction.h"

#include "passes/fuse/fuse.h"
#include "passes/base/rebuild.h"
#include "passes/schedule/base/constants.h"

static sn_ix flat_of(sn_module *m, const sn_chain *c) {
    sn_ix index[SN_MAX_CHAIN], shape[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < c->n; k++) {
        index[k] = sn_ix_axis(m, sn_stmt_axis(m, c->at[k]));
        shape[k] = sn_stmt_extent(m, c->at[k]);
    }
    return sn_ix_flatten(m, index, shape, c->n);
}

static sn_dtype state_dtype(const sn_mixed *mx, const sn_mixed_column *col, uint32_t s) {
    return sn_val_get(mx->m, sn_result(sn_stmt_get(mx->m, col->red.at[0]), s))->dtype;
}

static sn_comb state_comb(const sn_mixed *mx, const sn_mixed_column *col, uint32_t s) {
    return sn_stmt_get(mx->m, col->red.at[0])->combs[s];
}

/* ---- the row kernel ---- */

typedef struct grouped {
    sn_ix g;                   /* group */
    sn_stmt in_row;            /* its region is what happens for a row */
    sn_ix parts[SN_MAX_CHAIN]; /* the row's position by row loop */
} grouped;

static void put_identities(sn_mixed *mx, sn_stmt in_group, sn_ix g) {
    sn_module *m = mx->m;
    sn_axis j = sn_axis_new(m, "j", sn_ix_const(m, mx->width));
    sn_stmt loop = sn_put_loop(m, sn_at_end(mx->a, in_group), j, SN_AXIS_SEQ);
    sn_ix at = sn_ix_add(m, sn_ix_scale(m, g, mx->width), sn_ix_axis(m, j));
    for (uint32_t i = 0; i < mx->n_columns; i++)
        for (uint32_t s = 0; s < mx->columns[i].n_states; s++) {
            const sn_mixed_column *col = &mx->columns[i];
            sn_cursor end = sn_at_end(mx->a, loop);
            sn_val id = sn_put_identity(m, end, state_comb(mx, col, s), 0, state_dtype(mx, col, s));
            sn_put_store(m, end, col->part[s], at, id);
        }
}

/* The row loops become a loop over groups and one over the rows of a group. */
static grouped group_rows(sn_mixed *mx) {
    sn_module *m = mx->m;
    sn_stmt old = mx->chain.at[0], last = mx->chain.at[mx->n_rows - 1];
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix extents[SN_MAX_CHAIN];
    sn_axis g = sn_axis_new(m, "g", sn_ix_const(m, mx->groups));
    sn_axis r = sn_axis_new(m, "r", sn_ix_const(m, (mx->rows + mx->groups - 1) / mx->groups));
    grouped out = {.g = sn_ix_axis(m, g)};
    sn_stmt group = sn_put_loop(m, sn_at_before(m, old), g, SN_AXIS_SEQ);
    put_identities(mx, group, out.g);
    out.in_row = sn_put_loop(m, sn_at_end(mx->a, group), r, SN_AXIS_SEQ);
    sn_ix row = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, r), mx->groups), out.g);
    if (mx->rows % mx->groups) out.in_row = sn_put_if(m, sn_at_end(mx->a, out.in_row), row, sn_ix_const(m, mx->rows));
    for (uint32_t k = 0; k < mx->n_rows; k++) {
        axes[k] = sn_stmt_axis(m, mx->chain.at[k]);
        extents[k] = sn_stmt_extent(m, mx->chain.at[k]);
    }
    sn_ix_unflatten(m, row, extents, mx->n_rows, out.parts);
    for (sn_stmt s = sn_stmt_get(m, last)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        sn_stmt_subst(m, s, axes, out.parts, mx->n_rows);
        sn_stmt_insert(m, sn_at_end(mx->a, out.in_row), s);
    }
    sn_stmt_unlink(m, old);
    return out;
}

/* Statements from s to the end of its region go. */
static void drop_from(sn_module *m, sn_stmt s) {
    for (sn_stmt next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
    }
}

/* A copy of the column kernel's loops at the end of the row; instead of the reduction its expression is combined with
 * the partial results. */
static sn_stmt put_update(sn_mixed *mx, const sn_mixed_column *col, const grouped *gr) {
    sn_module *m = mx->m;
    sn_chain cols = {.n = 1}, red;
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix rows[SN_MAX_CHAIN];
    cols.at[0] = sn_stmt_clone(m, sn_at_end(mx->a, gr->in_row), col->cols.at[0]);
    while (cols.n < col->cols.n) cols.at[cols.n] = sn_stmt_get(m, cols.at[cols.n - 1])->first, cols.n++;
    sn_stmt nest = sn_stmt_get(m, cols.at[cols.n - 1])->first;
    while (sn_stmt_get(m, nest)->op != SN_LOP_REDUCE) nest = sn_next(m, nest);
    sn_nest_perfect(&red, m, nest);
    for (uint32_t k = 0; k < red.n; k++) {
        axes[k] = sn_stmt_axis(m, red.at[k]);
        rows[k] = gr->parts[col->row_of[k]];
    }
    sn_stmt yield = sn_stmt_get(m, red.at[red.n - 1])->last;
    for (sn_stmt s = sn_stmt_get(m, red.at[red.n - 1])->first, next; s.i != yield.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        sn_stmt_subst(m, s, axes, rows, red.n);
        sn_stmt_insert(m, sn_at_before(m, nest), s);
    }
    sn_ix at = sn_ix_add(m, sn_ix_scale(m, gr->g, mx->width), flat_of(m, &cols));
    for (uint32_t s = 0; s < col->n_states; s++) {
        sn_val old = sn_put_load(m, sn_at_before(m, nest), col->part[s], at);
        sn_val sum = sn_put_op2(m, sn_at_before(m, nest), sn_comb_lops[state_comb(mx, col, s)], old,
                                sn_stmt_get(m, yield)->in[s]);
        sn_put_store(m, sn_at_before(m, nest), col->part[s], at, sum);
    }
    drop_from(m, nest);
    return cols.at[0];
}

/* The update joins the last nest of the row that it fits to. */
static void join_last(sn_pass_ctx *cx, sn_stmt update) {
    const sn_module *m = cx->m;
    for (sn_stmt s = sn_stmt_get(m, update)->prev; s.i; s = sn_stmt_get(m, s)->prev)
        if (sn_is_nest(sn_stmt_get(m, s)) && sn_fuse_join(cx, sn_stmt_get(m, update)->kern, s, update)) return;
}

/* ---- the column kernels ---- */

/* Two-dimensional and small: as many blocks as columns allow. */
static uint32_t finish_vector(const sn_mixed *mx) {
    uint32_t v = 4;
    while (v > 1 && (mx->width % v || mx->width < (int64_t)SN_WARP * v * mx->cx->target->units)) v /= 2;
    return v;
}

static void finish(sn_mixed *mx, const sn_mixed_column *col) {
    sn_module *m = mx->m;
    const sn_stmt_rec *old = sn_stmt_get(m, col->red.at[0]);
    sn_dtype dtypes[SN_MIXED_STATES];
    sn_val yields[SN_MIXED_STATES];
    for (uint32_t s = 0; s < col->n_states; s++) dtypes[s] = state_dtype(mx, col, s);
    sn_axis g = sn_axis_new(m, "g", sn_ix_const(m, mx->groups));
    sn_stmt nest = sn_put_reduce(m, sn_at_before(m, col->red.at[0]), g, SN_AXIS_SEQ, old->combs, old->n_combs, dtypes);
    sn_stmt_get(m, nest)->from = old->from;
    sn_ix at = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, g), mx->width), flat_of(m, &col->cols));
    for (uint32_t s = 0; s < col->n_states; s++) yields[s] = sn_put_load(m, sn_at_end(col->k, nest), col->part[s], at);
    sn_put_yield(m, sn_at_end(col->k, nest), yields, col->n_states);
    for (uint32_t s = 0; s < col->n_states; s++)
        sn_val_replace(m, col->k, sn_result(old, s), sn_result(sn_stmt_get(m, nest), s));
    sn_stmt_unlink(m, col->red.at[0]);
    sn_sched *sched = &sn_kern_get(m, col->k)->sched;
    sched->split = 1; /* it is the second half of a split */
    if (!sched->vector) sched->vector = finish_vector(mx);
    sn_kern_dead_code(m, col->k);
    sn_kern_collect_params(m, col->k);
    sn_kern_set_precision(m, col->k, sched->precision);
}

/* A column kernel that stood before the row kernel moves behind it. */
static void move_behind(sn_module *m, sn_kern k, sn_kern a) {
    uint32_t at = 0;
    while (m->kernels.at[at].i != k.i && m->kernels.at[at].i != a.i) at++;
    if (m->kernels.at[at].i == a.i) return;
    for (; m->kernels.at[at + 1].i != a.i; at++) m->kernels.at[at] = m->kernels.at[at + 1];
    m->kernels.at[at] = a;
    m->kernels.at[at + 1] = k;
}

/* ---- the pass ---- */

static void make_partials(sn_mixed *mx, sn_mixed_column *col) {
    sn_module *m = mx->m;
    sn_ix shape[2] = {sn_ix_const(m, mx->groups), sn_ix_const(m, mx->width)};
    for (uint32_t s = 0; s < col->n_states; s++) {
        const char *name = sn_strf(&m->arena, "%s_p%u", sn_kern_get(m, col->k)->name, s);
        col->part[s] = sn_buf_new(m, name, state_dtype(mx, col, s), SN_BUF_TEMP, shape, 2);
        sn_buf_get(m, col->part[s])->align = 256;
    }
}

/* What the runs of the pass over single kernels share. */
typedef struct mixing {
    sn_pass_ctx *cx;
    sn_mixed_kernels *columns; /* by buffer: the column kernels that walk its rows */
    bool *taken;               /* by kernel */
    SN_VEC(sn_stmt) updates;
} mixing;

static void apply(mixing *mg, sn_mixed *mx) {
    sn_module *m = mx->m;
    sn_kern_rec *a = sn_kern_get(m, mx->a);
    for (uint32_t i = 0; i < mx->n_columns; i++) make_partials(mx, &mx->columns[i]);
    grouped gr = group_rows(mx);
    for (uint32_t i = 0; i < mx->n_columns; i++) {
        const sn_kern_rec *b = sn_kern_get(m, mx->columns[i].k);
        sn_remark(mx->cx, a->name, "takes in the sums of %s: %lld groups of rows", b->name, (long long)mx->groups);
        sn_stmt update = put_update(mx, &mx->columns[i], &gr);
        SN_PUSH(mx->cx->scratch, &mg->updates, update);
        finish(mx, &mx->columns[i]);
        if (b->note) a->note = a->note ? sn_strf(&m->arena, "%s; %s", a->note, b->note) : b->note;
        sn_kern_add_from(m, mx->a, b->from);
        move_behind(m, mx->columns[i].k, mx->a);
        mg->taken[mx->columns[i].k.i] = true;
    }
    sn_kern_collect_params(m, mx->a);
    mg->taken[mx->a.i] = true;
    a->sched = mx->sched;
}

static void try_column(mixing *mg, sn_mixed *mx, sn_kern b) {
    const char *why_not;
    if (b.i == mx->a.i || mg->taken[b.i] || sn_mixed_match(mx, b, &why_not) || !why_not) return;
    sn_remark(mx->cx, sn_kern_get(mx->m, mx->a)->name, "does not take in the sums of %s: %s",
              sn_kern_get(mx->m, b)->name, why_not);
}

static bool mix_kernel(mixing *mg, sn_kern a) {
    sn_module *m = mg->cx->m;
    sn_mixed mx = {.cx = mg->cx, .m = m, .a = a};
    const sn_kern_rec *k = sn_kern_get(m, a);
    const char *why_not;
    if (k->sched.split == 1 || (k->sched.cls != SN_SCHED_NONE && k->sched.cls != SN_SCHED_INNER)) return false;
    sn_chain_outer(&mx.chain, m, a);
    for (uint32_t p = 0; p < k->params.n && mx.chain.n; p++) {
        const sn_mixed_kernels *list = &mg->columns[k->params.at[p].i];
        for (uint32_t i = 0; i < list->n; i++) try_column(mg, &mx, list->at[i]);
    }
    if (!mx.n_columns) return false;
    if (!sn_mixed_choose(&mx, &why_not)) {
        sn_remark(mg->cx, k->name, "does not take in sums over its rows: %s", why_not);
        return false;
    }
    apply(mg, &mx);
    return true;
}

sn_status sn_pass_mixed_order_reduction(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    uint32_t n = m->kernels.n;
    const char *why_not;
    if (!cx->target->is_gpu) return SN_OK;
    mixing mg = {.cx = cx,
                 .columns = SN_NEWN(cx->scratch, sn_mixed_kernels, m->bufs.count),
                 .taken = SN_NEWN(cx->scratch, bool, m->kerns.count)};
    sn_kern *all = SN_NEWN(cx->scratch, sn_kern, n);
    for (uint32_t i = 0; i < n; i++) {
        all[i] = m->kernels.at[i];
        if (sn_kern_get(m, all[i])->scheduled || sn_pass_library_runs(&why_not, cx, all[i])) mg.taken[all[i].i] = true;
        else sn_mixed_note_columns(mg.columns, cx, all[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        if (!mg.taken[all[i].i]) *changed |= mix_kernel(&mg, all[i]);
    if (!*changed) return m->env->status;
    sn_fuse_forward_all(cx);
    for (uint32_t i = 0; i < mg.updates.n; i++) join_last(cx, mg.updates.at[i]);
    sn_fuse_drop_dead(cx);
    return m->env->status;
}
