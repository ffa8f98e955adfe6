/* outer_odd.c: columns of bytes and halves whose rows no words begin.
 *
 *     loop i in 677 { loop j in 2039 { reduce max r in 61 { load x[124379*i + 2039*r + j] } } }
 *
 * Byte by byte a warp asks for a sector at a time, half by half for two. Vectors of columns begin with the row instead, wherever that is: each is moved into
 * place from the words around it, or, at the ends of the buffer, from two aligned pieces (codegen-llvm/unaligned.c). The last vector of a row ends where the row does, so that all lanes are
 * columns, and those that the one before it has are not stored twice:
 *
 *     vector p, W a row:   row = p div W   first column = min(V*(p mod W), C - V)   own: from V*(p mod W) on
 *
 * Of halves, sums alone gain by it. For one reduction over more rows than a few, of columns that are bytes or halves, each beside the next. Cost: accesses times axes.
 */
#include "passes/schedule/rows/outer_odd.h"

#include "passes/schedule/base/figures.h"

uint32_t sn_schedule_odd_lanes(uint32_t bytes) { return SN_WIDENED_LANES / bytes; }

static bool is_sum(const sn_module *m, sn_stmt nest) {
    const sn_stmt_rec *r = sn_stmt_get(m, nest);
    return r->op == SN_LOP_REDUCE && r->n_combs == 1 && r->combs[0] == SN_COMB_SUM;
}

bool sn_schedule_odd_columns(sn_pass_ctx *cx, const sn_schedule_shape *sh, uint32_t bytes) {
    sn_module *m = cx->m;
    if (!cx->target->is_gpu || sh->n_nests != 1 || !bytes || bytes > SN_ODD_BYTES || !sh->outer.n) return false;
    int64_t row = sn_last_outer_extent(cx, sh), c;
    if (row < SN_ODD_COLUMNS || sn_pow2_divisor(row) * bytes >= SN_WORD || sh->max_count < SN_ODD_ROWS) return false;
    if (bytes > 1 && !is_sum(m, sh->nests[0].top)) return false;
    sn_axis columns = sn_stmt_axis(m, sh->body);
    sn_stmt top = sh->nests[0].top, end = sn_stmt_walk_skip(m, top);
    for (sn_stmt s = top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_is_access(r)) continue;
        if (r->has_mask || sn_ix_uses_vals(m, r->ix) || !sn_ix_coef(m, r->ix, columns, &c)) return false;
        if (c && (c != 1 || sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype) != bytes)) return false;
    }
    return true;
}

int64_t sn_schedule_odd_vectors(const sn_pass_ctx *cx, const sn_schedule_shape *sh, uint32_t v) {
    int64_t row = sn_last_outer_extent(cx, sh);
    return sh->rows / row * sn_ceil_div(row, v);
}

sn_val sn_schedule_odd_body(sn_pass_ctx *cx, sn_kern k, sn_stmt into, const sn_stmt_vec *body,
                            const sn_schedule_shape *sh, uint32_t v, sn_ix number, sn_ix lane) {
    sn_module *m = cx->m;
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix extents[SN_MAX_CHAIN], parts[SN_MAX_CHAIN];
    uint32_t last = sh->outer.n - 1;
    int64_t row = sn_last_outer_extent(cx, sh), each = sn_ceil_div(row, v);
    sn_ix own = sn_ix_scale(m, sn_ix_modc(m, number, each), v);
    sn_ix column = sn_ix_add(m, sn_ix_min(m, own, sn_ix_const(m, row - v)), lane);
    for (uint32_t i = 0; i <= last; i++) {
        axes[i] = sn_stmt_axis(m, sh->outer.at[i]);
        extents[i] = sn_stmt_extent(m, sh->outer.at[i]);
    }
    if (last) sn_ix_unflatten(m, sn_ix_divc(m, number, each), extents, last, parts);
    parts[last] = column;
    sn_val mask = sn_put_in(m, sn_at_end(k, into), sn_ix_sub(m, column, own), sn_ix_const(m, v));
    for (uint32_t i = 0; i < body->n; i++) {
        sn_stmt_insert(m, sn_at_end(k, into), body->at[i]);
        sn_stmt_subst(m, body->at[i], axes, parts, last + 1);
    }
    return mask;
}
