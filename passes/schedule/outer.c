/* outer.c: binding of class outer: lanes own columns, block.y shares the reduction over rows.
 *
 *     column = (g*X + x)*V + v;  element = (uo*U + u)*Y + y
 *
 * Columns beyond the last are computed as copies of the last vector, with stores masked, because all threads have to
 * take part in the reductions over block.y.
 */
#include "passes/schedule/schedule.h"

static void bind_nest(sn_pass_ctx *cx, sn_kern k, const sn_schedule_nest *nest, const sn_sched *sc) {
    sn_level levels[3];
    uint32_t n = 0;
    int64_t y = sc->block_y, steps = (nest->count + y - 1) / y, unroll = sc->unroll < steps ? sc->unroll : steps;
    int64_t outer = unroll ? (steps + unroll - 1) / unroll : 0;
    if (y > 1) levels[n++] = (sn_level){"y", y, 1, SN_AXIS_BLOCK_Y};
    if (outer != 1) levels[n++] = (sn_level){"uo", outer, unroll * y, SN_AXIS_SEQ};
    if (unroll > 1) levels[n++] = (sn_level){"u", unroll, y, SN_AXIS_UNROLL};
    if (n == 0) levels[n++] = (sn_level){"u", 1, 1, SN_AXIS_UNROLL};
    sn_nest_rebuild(cx, k, nest->top, &nest->chain, sn_ix_const(cx->m, 0), nest->count, levels, n);
}

void sn_schedule_bind_outer(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, const sn_sched *sc) {
    sn_module *m = cx->m;
    int64_t v = sc->vector, tile = v * sc->block_x, blocks = (sh->rows + tile - 1) / tile;
    for (uint32_t i = 0; i < sh->n_nests; i++) bind_nest(cx, k, &sh->nests[i], sc);
    sn_stmt_vec body = {0};
    sn_schedule_take_body(&body, cx, k, sh);
    sn_axis g = sn_axis_new(m, "g", sn_ix_const(m, blocks)), x = sn_axis_new(m, "x", sn_ix_const(m, sc->block_x));
    sn_stmt into = sn_put_loop(m, sn_at_end(k, (sn_stmt){0}), g, SN_AXIS_GRID);
    into = sn_put_loop(m, sn_at_end(k, into), x, SN_AXIS_BLOCK_X);
    sn_ix start = sn_ix_scale(m, sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, g), sc->block_x), sn_ix_axis(m, x)), v);
    bool partial = sh->rows % tile != 0;
    sn_val mask = {0};
    if (partial) mask = sn_put_in(m, sn_at_end(k, into), start, sn_ix_const(m, sh->rows));
    sn_stmt columns = into;
    sn_ix column = partial ? sn_ix_min(m, start, sn_ix_const(m, sh->rows - v)) : start;
    if (v > 1) {
        sn_axis av = sn_axis_new(m, "v", sn_ix_const(m, v));
        into = sn_put_loop(m, sn_at_end(k, into), av, SN_AXIS_VECTOR);
        column = sn_ix_add(m, column, sn_ix_axis(m, av));
    }
    for (uint32_t i = 0; i < body.n; i++) sn_stmt_insert(m, sn_at_end(k, into), body.at[i]);
    sn_schedule_subst_outer(cx, &body, sh, column);
    if (partial) sn_mask_accesses(cx, k, columns, mask, false);
}
