/* kernel.c: the kernel that the pass `to-loops` is making: its beginning, its loops and tests, its end; and buffers.
 *
 *     begin   open_loop i   open_loop j   ...   end        kernel @k0(..) { loop i { loop j { ... } } }
 *
 * Statements go to lw->at, which moves inside what is opened. What is put there is for others to say: elements,
 * contractions and sorts stand on this, and it calls none of them. At the end what is dead or double goes, and the
 * parameters are collected.
 */
#include "passes/lower/lower.h"

/* ---- buffers ---- */

static const char *unique_buffer_name(sn_lower *lw, const char *wanted) {
    const char *name = wanted;
    for (uint32_t try = 1; sn_names_get(&lw->names, name); try++) name = sn_strf(&lw->m->arena, "%s_%u", wanted, try);
    sn_names_put(&lw->names, name, 1);
    return name;
}

sn_buf sn_lower_buffer(sn_lower *lw, const char *wanted, const sn_type *type, sn_buf_scope scope) {
    sn_buf b = sn_buf_new(lw->m, unique_buffer_name(lw, wanted), type->dtype, scope, type->shape, type->rank);
    uint32_t bytes = sn_dtype_bytes(type->dtype), io = lw->cx->target->io_align;
    sn_buf_get(lw->m, b)->align = scope == SN_BUF_TEMP || scope == SN_BUF_CONST || scope == SN_BUF_STEP ? 256
                                  : io > bytes                                                          ? io
                                                                                                        : bytes;
    return b;
}

sn_buf sn_lower_temp(sn_lower *lw, const sn_type *type) {
    return sn_lower_buffer(lw, sn_strf(&lw->m->arena, "t%u", lw->temps++), type, SN_BUF_TEMP);
}

sn_type sn_lower_stored(const sn_lower *lw, sn_nd x) {
    const sn_type *t = &sn_node_get(lw->m, x)->type;
    const int64_t *order = lw->nodes[x.i].order;
    sn_type stored = *t;
    for (uint32_t k = 0; order && k < t->rank; k++) stored.shape[k] = t->shape[order[k]];
    return stored;
}

sn_buf sn_lower_temp_of(sn_lower *lw, sn_nd x) {
    const sn_lower_node *info = &lw->nodes[x.i];
    sn_type stored = sn_lower_stored(lw, x);
    sn_ix *last = &stored.shape[stored.rank ? stored.rank - 1 : 0];
    int64_t length;
    if (info->aligned && !info->walked_flat && stored.rank > 1 && sn_ix_is_const(lw->m, *last, &length)) {
        int64_t pitch = sn_dtype_pitch(stored.dtype, length), unit = SN_WIDEST_ACCESS / sn_dtype_bytes(stored.dtype);
        *last = sn_ix_const(lw->m, info->brought ? (pitch + unit - 1) / unit * unit : pitch);
    }
    return sn_lower_temp(lw, &stored);
}

/* Outputs may have the elements in another shape; an intermediate is of the shape that it was made with. */
sn_ix sn_lower_place(sn_lower *lw, sn_nd x, sn_buf b, const sn_ix *index) {
    const int64_t *order = lw->nodes[x.i].order;
    const sn_buf_rec *r = sn_buf_get(lw->m, b);
    sn_type t = sn_lower_stored(lw, x);
    sn_ix at[SN_MAX_RANK];
    for (uint32_t k = 0; k < t.rank; k++) at[k] = index[order ? order[k] : k];
    return sn_ix_flatten(lw->m, at, r->scope == SN_BUF_TEMP ? r->shape : t.shape, t.rank);
}

/* ---- loops ---- */

sn_ix sn_lower_open_loop(sn_lower *lw, const char *name, sn_ix extent) {
    sn_axis ax = sn_axis_new(lw->m, name, extent);
    sn_stmt s = sn_put_loop(lw->m, lw->at, ax, SN_AXIS_SEQ);
    lw->at = sn_at_end(lw->kern, s);
    return sn_ix_axis(lw->m, ax);
}

sn_ix sn_lower_open_reduce(sn_lower *lw, const char *name, sn_ix extent, sn_comb comb, uint32_t n,
                           const sn_dtype *dtypes, sn_stmt *out) {
    sn_comb combs[SN_MOST_TOGETHER];
    for (uint32_t k = 0; k < n; k++) combs[k] = comb;
    sn_axis ax = sn_axis_new(lw->m, name, extent);
    *out = sn_put_reduce(lw->m, lw->at, ax, SN_AXIS_SEQ, combs, n, dtypes);
    lw->at = sn_at_end(lw->kern, *out);
    return sn_ix_axis(lw->m, ax);
}

void sn_lower_reduce_nest(sn_lower *lw, sn_val *results, sn_comb comb, uint32_t times, const sn_dtype *dtypes,
                          const sn_ix *extents, uint32_t n, sn_lower_body body, void *user) {
    static const char *const names[] = {"r", "s", "t", "q", "r4", "r5", "r6", "r7"};
    sn_cursor outside = lw->at;
    sn_stmt nest[SN_MAX_RANK];
    sn_ix index[SN_MAX_RANK] = {{0}};
    uint32_t states = times * sn_combs[comb].states;
    for (uint32_t k = 0; k < n; k++)
        index[k] = sn_lower_open_reduce(lw, names[k], extents[k], comb, times, dtypes, &nest[k]);
    body(lw, user, index, results);
    for (uint32_t k = n; k-- > 0;) {
        sn_put_yield(lw->m, sn_at_end(lw->kern, nest[k]), results, states);
        for (uint32_t s = 0; s < states; s++) results[s] = sn_result(sn_stmt_get(lw->m, nest[k]), s);
    }
    lw->at = outside;
}

void sn_lower_guard(sn_lower *lw, sn_val *mask, sn_ix e, sn_ix n) {
    if (sn_ix_in(lw->m, e, n)) return;
    sn_val c = sn_put_in(lw->m, lw->at, e, n);
    *mask = mask->i ? sn_put_op2(lw->m, lw->at, SN_LOP_AND, *mask, c) : c;
}

/* ---- begin and end ---- */

static bool is_arithmetic(const sn_stmt_rec *r) {
    return r->op < SN_N_LOPS || r->op == SN_LOP_CAST || r->op == SN_LOP_REDUCE || r->op == SN_LOP_ACCUM;
}

const char *sn_lower_from(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    const char *name = n->name ? sn_strf(&lw->m->arena, "%%%s", n->name) : NULL, *from = n->origin ? n->origin : name;
    sn_kern_add_from(lw->m, lw->kern, from);
    return from;
}

void sn_lower_note(sn_lower *lw, sn_nd x, uint32_t first) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    const char *from = sn_lower_from(lw, x);
    for (uint32_t s = first; s < lw->m->stmts.count && from; s++) {
        sn_stmt_rec *r = sn_stmt_get(lw->m, (sn_stmt){s});
        if (!r->from && is_arithmetic(r)) r->from = from;
    }
    if (lw->note.n > 200) return;
    sn_text_printf(&lw->note, "%s%s", lw->note.n ? ", " : "", sn_ops[n->op].name);
}

void sn_lower_begin(sn_lower *lw) {
    lw->kern = sn_kern_new(lw->m, sn_strf(&lw->m->arena, "k%u", lw->m->kernels.n));
    sn_kern_get(lw->m, lw->kern)->section = lw->section;
    lw->at = sn_at_end(lw->kern, (sn_stmt){0});
    lw->first = lw->m->stmts.count;
    lw->mask = (sn_val){0};
    lw->memo = NULL, lw->memo_n = lw->memo_cap = 0;
    lw->note.n = 0, lw->note.s[0] = 0;
}

void sn_lower_end(sn_lower *lw, const char *note) {
    sn_kern_get(lw->m, lw->kern)->note = sn_strdup(&lw->m->arena, note);
    sn_kern_dead_code(lw->m, lw->kern);
    sn_kern_cse(lw->m, lw->kern);
    sn_kern_collect_params(lw->m, lw->kern);
}
