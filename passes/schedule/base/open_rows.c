/* open_rows.c: rows of the last outer axis that no vector of the CPU divides: their vectors start with the row, and the last one
 * is tested.
 *
 *     vector number p, W a row:   row = p div W   column = (p mod W)*V + v   if column in C { .. }
 *
 * Loads and stores of a vector with a test are one instruction (codegen-llvm/access.c). For classes element and outer,
 * whose lanes own outputs; rows that a reduction goes along are those of class inner (rows.c).
 */
#include "passes/schedule/base/figures.h"

uint32_t sn_schedule_open_vector(int64_t row, uint32_t bytes, uint32_t v) {
    uint32_t even = sn_least(v, sn_pow2_divisor(row)), open = row < v ? sn_pow2_ceil(row) : v;
    if (bytes < 4 && row < 2 * (int64_t)open) return even; /* such elements are tested one by one */
    return 2 * sn_ceil_div(row, open) <= row / even ? open : even;
}

bool sn_schedule_has_open_rows(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    return !cx->target->is_gpu && sh->outer.n && sn_last_outer_extent(cx, sh) % sc->vector;
}

int64_t sn_schedule_open_vectors(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    int64_t row = sn_last_outer_extent(cx, sh);
    return sh->rows / row * sn_ceil_div(row, sc->vector);
}

void sn_schedule_open_body(sn_pass_ctx *cx, sn_kern k, sn_stmt into, const sn_stmt_vec *body,
                           const sn_schedule_shape *sh, const sn_sched *sc, sn_ix p, sn_ix lane) {
    sn_module *m = cx->m;
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix extents[SN_MAX_CHAIN], parts[SN_MAX_CHAIN];
    uint32_t last = sh->outer.n - 1;
    int64_t row = sn_last_outer_extent(cx, sh), each = sn_ceil_div(row, sc->vector);
    sn_ix column = sn_ix_add(m, sn_ix_scale(m, sn_ix_modc(m, p, each), sc->vector), lane);
    sn_val mask = sn_put_in(m, sn_at_end(k, into), column, sn_ix_const(m, row));
    for (uint32_t i = 0; i <= last; i++) {
        axes[i] = sn_stmt_axis(m, sh->outer.at[i]);
        extents[i] = sn_stmt_extent(m, sh->outer.at[i]);
    }
    if (last) sn_ix_unflatten(m, sn_ix_divc(m, p, each), extents, last, parts);
    parts[last] = column;
    for (uint32_t i = 0; i < body->n; i++) {
        sn_stmt_insert(m, sn_at_end(k, into), body->at[i]);
        sn_stmt_subst(m, body->at[i], axes, parts, last + 1);
    }
    sn_mask_accesses(cx, k, into, mask, true);
}
