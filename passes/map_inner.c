/* map_inner.c: binding of class inner: threads X of a row, rows Y of a block, blocks C of a row.
 *
 *     row = g*Y + y;  element = (((uo*U + u)*C + c)*X + x)*V + v
 *
 * Every nest of the kernel becomes  cluster c { block.x { [seq uo] { unroll u { vector v { body } } } } }, so that one thread owns the
 * same elements in all of them: what one nest loads and another needs again can stay in registers or shared memory (map_stage.c). Rows
 * beyond the last are computed as copies of the last one, with stores masked, because all threads have to take part in
 * the reductions.
 */
#include "passes/map.h"

sn_stmt sn_map_bind_row_nest(sn_pass_ctx *cx, sn_kern k, const sn_map_nest *nest, const sn_sched *sc) {
    sn_level levels[5];
    uint32_t n = 0;
    int64_t v = sc->vector, x = sc->threads, c = sn_sched_cluster(sc), step = v * x * c;
    int64_t steps = (nest->count + step - 1) / step, unroll = sc->unroll < steps ? sc->unroll : steps;
    int64_t outer = unroll ? (steps + unroll - 1) / unroll : 0;
    if (c > 1) levels[n++] = (sn_level){"c", c, v * x, SN_AXIS_CLUSTER};
    if (x > 1) levels[n++] = (sn_level){"x", x, v, SN_AXIS_BLOCK_X};
    if (outer != 1) levels[n++] = (sn_level){"uo", outer, unroll * step, SN_AXIS_SEQ};
    if (unroll > 1) levels[n++] = (sn_level){"u", unroll, step, SN_AXIS_UNROLL};
    if (v > 1) levels[n++] = (sn_level){"v", v, 1, SN_AXIS_VECTOR};
    if (n == 0) levels[n++] = (sn_level){"u", 1, 1, SN_AXIS_UNROLL};
    return sn_nest_rebuild(cx, k, nest->top, &nest->chain, sn_ix_const(cx->m, 0), nest->count, levels, n);
}

/* Loads of one block run while another one computes: as long as a thread keeps little, bound its registers so that
 * RESIDENT threads fit on a multiprocessor. */
static void keep_rows(sn_pass_ctx *cx, sn_kern k, const sn_map_shape *sh, sn_stmt body, sn_sched *sc) {
    enum { RESIDENT = 1024, LITTLE = 64, SLOTS = 1 << 10 };
    uint32_t budget = cx->target->max_regs * 6; /* one array of halves beside one of words */
    if (sc->shared) budget = cx->target->shared_bytes - SLOTS;
    uint32_t bytes = sn_map_stage(cx, k, sh, body, sc, budget), threads = sc->threads * sc->rows;
    if (sc->shared || sc->blocks || bytes == 0 || bytes > LITTLE || threads > RESIDENT) return;
    sc->blocks = RESIDENT / threads;
    if (sc->blocks >= 8) sc->blocks--; /* 72 registers instead of 64: rows of halves would spill */
}

void sn_map_bind_inner(sn_pass_ctx *cx, sn_kern k, sn_map_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    int64_t y = sc->rows, blocks = (sh->rows + y - 1) / y;
    for (uint32_t i = 0; i < sh->n_nests; i++) sh->nests[i].top = sn_map_bind_row_nest(cx, k, &sh->nests[i], sc);
    sn_stmt_vec body = {0};
    sn_map_take_body(&body, cx, k, sh);
    sn_axis g = sn_axis_new(m, "g", sn_ix_const(m, blocks));
    sn_stmt into = sn_put_loop(m, sn_at_end(k, (sn_stmt){0}), g, SN_AXIS_GRID);
    sn_ix row = sn_ix_scale(m, sn_ix_axis(m, g), y);
    if (y > 1) {
        sn_axis ay = sn_axis_new(m, "y", sn_ix_const(m, y));
        into = sn_put_loop(m, sn_at_end(k, into), ay, SN_AXIS_BLOCK_Y);
        row = sn_ix_add(m, row, sn_ix_axis(m, ay));
    }
    bool partial = sh->rows % y != 0;
    sn_val mask = {0};
    if (partial) mask = sn_put_in(m, sn_at_end(k, into), row, sn_ix_const(m, sh->rows));
    for (uint32_t i = 0; i < body.n; i++) sn_stmt_insert(m, sn_at_end(k, into), body.at[i]);
    sn_map_subst_outer(cx, &body, sh, partial ? sn_ix_min(m, row, sn_ix_const(m, sh->rows - 1)) : row);
    if (sc->persistent || sc->shared) keep_rows(cx, k, sh, into, sc);
    if (partial) sn_mask_accesses(cx, k, into, mask, false);
}
