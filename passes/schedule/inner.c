/* inner.c: binding of class inner: threads X of a row, rows Y of a block, blocks C of a row.
 *
 *     row = g*Y + y;  element = (((uo*U + u)*C + c)*X + x)*V + v
 *
 * Every nest of the kernel becomes  cluster c { block.x { [seq uo] { unroll u { vector v { body } } } } }, so that one
 * thread owns the same elements in all of them: what one nest loads and another needs again can stay in registers or
 * shared memory (map_stage.c). Rows beyond the last are computed as copies of the last one, with stores masked, because
 * all threads have to take part in the reductions. The threads of a scan stand inside its steps, since the steps are
 * what runs in order: [seq uo] { unroll u { block.x { vector v { body } } } }.
 *
 * Rows of N elements that V does not divide start a = N*row mod V elements after a multiple of V. There the vectors
 * start at that multiple, element = ... - a, so that accesses to N*row + element are aligned, and each lane tests
 * whether it is inside the row: in the first vector of a row and in the last one, some are not.
 */
#include "passes/schedule/schedule.h"

sn_ix sn_schedule_row_lead(sn_module *m, const sn_schedule_shape *sh, uint32_t vector) {
    sn_ix lead = {0}, zero = sn_ix_const(m, 0), v = sn_ix_const(m, vector);
    if (sh->scans || sh->rows_loop.i || sh->max_count < (int64_t)SN_LEAD_VECTORS * vector) return lead;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        const sn_schedule_nest *nest = &sh->nests[i];
        if (nest->chain.n != 1 || nest->count != sh->max_count) return (sn_ix){0};
        sn_axis ax = sn_stmt_axis(m, nest->top);
        sn_stmt end = sn_stmt_walk_skip(m, nest->top);
        for (sn_stmt s = nest->top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            int64_t c;
            if ((r->op != SN_LOP_LOAD && r->op != SN_LOP_STORE) || !sn_ix_coef(m, r->ix, ax, &c) || c != 1) continue;
            sn_ix start = sn_ix_subst(m, r->ix, &ax, &zero, 1), a = sn_ix_mod(m, start, v);
            bool of_row = false;
            for (uint32_t k = 0; k < sh->outer.n; k++)
                of_row |= sn_ix_uses_axis(m, start, sn_stmt_axis(m, sh->outer.at[k]));
            if (!of_row && sh->rows > 1) continue; /* weights: lane by lane */
            if (sn_ix_uses_vals(m, start) || (lead.i && !sn_ix_eq(lead, a))) return (sn_ix){0};
            lead = a;
        }
    }
    return lead;
}

sn_stmt sn_schedule_bind_row_nest(sn_pass_ctx *cx, sn_kern k, const sn_schedule_nest *nest, const sn_sched *sc) {
    sn_level levels[5];
    uint32_t n = 0;
    int64_t v = sc->vector, x = sc->block_x, c = sn_sched_cluster(sc), step = v * x * c;
    int64_t reach = nest->count + (nest->lead.i ? v - 1 : 0), steps = (reach + step - 1) / step;
    int64_t unroll = sc->unroll < steps ? sc->unroll : steps;
    int64_t outer = unroll ? (steps + unroll - 1) / unroll : 0;
    if (c > 1) levels[n++] = (sn_level){"c", c, v * x, SN_AXIS_CLUSTER};
    if (x > 1 && !nest->scan) levels[n++] = (sn_level){"x", x, v, SN_AXIS_BLOCK_X};
    if (outer != 1) levels[n++] = (sn_level){"uo", outer, unroll * step, SN_AXIS_SEQ};
    if (unroll > 1) levels[n++] = (sn_level){"u", unroll, step, SN_AXIS_UNROLL};
    if (x > 1 && nest->scan) levels[n++] = (sn_level){"x", x, v, SN_AXIS_BLOCK_X};
    if (v > 1) levels[n++] = (sn_level){"v", v, 1, SN_AXIS_VECTOR};
    if (n == 0) levels[n++] = (sn_level){"u", 1, 1, SN_AXIS_UNROLL};
    sn_ix base = nest->lead.i ? sn_ix_scale(cx->m, nest->lead, -1) : sn_ix_const(cx->m, 0);
    return sn_nest_rebuild(cx, k, nest->top, &nest->chain, base, nest->count, levels, n);
}

/* Loads of one block run while another one computes: as long as a thread keeps little, bound its registers so that
 * ROW_RESIDENT threads fit on a multiprocessor. */
static uint32_t keep_rows(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_stmt body, sn_sched *sc) {
    uint32_t budget = cx->target->max_regs * 6; /* one array of halves beside one of words */
    if (sc->shared) budget = cx->target->shared_bytes - SN_SHARED_SLOTS;
    uint32_t bytes = sn_schedule_stage(cx, k, sh, body, sc, budget), threads = sc->block_x * sc->block_y;
    if (sc->shared || sc->min_blocks || bytes == 0 || bytes > SN_ROW_LITTLE || threads > SN_ROW_RESIDENT) return bytes;
    sc->min_blocks = SN_ROW_RESIDENT / threads;
    if (sc->min_blocks >= 8) sc->min_blocks--; /* 72 registers instead of 64: rows of halves would spill */
    return bytes;
}

/* Blocks that scan leave the memory to blocks that load: several have to fit. kept: bytes that a thread has of its
 * row. */
static void scan_rows(sn_pass_ctx *cx, sn_kern k, sn_sched *sc, uint32_t kept) {
    uint32_t bytes = kept + sn_schedule_loads_ahead(cx, k, sc), threads = sc->block_x * sc->block_y;
    if (sc->min_blocks || bytes == 0 || bytes > SN_SCAN_LITTLE || threads > SN_ROW_RESIDENT) return;
    sc->min_blocks = SN_ROW_RESIDENT / threads < SN_SCAN_BLOCKS ? SN_ROW_RESIDENT / threads : SN_SCAN_BLOCKS;
}

void sn_schedule_bind_inner(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    int64_t y = sc->block_y, blocks = (sh->rows + y - 1) / y;
    sn_ix lead = sh->max_count % sc->vector ? sn_schedule_row_lead(m, sh, sc->vector) : (sn_ix){0};
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        sh->nests[i].lead = lead;
        sh->nests[i].top = sn_schedule_bind_row_nest(cx, k, &sh->nests[i], sc);
    }
    sn_stmt_vec body = {0};
    sn_schedule_take_body(&body, cx, k, sh);
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
    sn_schedule_subst_outer(cx, &body, sh, partial ? sn_ix_min(m, row, sn_ix_const(m, sh->rows - 1)) : row);
    uint32_t kept = sc->persistent || sc->shared ? keep_rows(cx, k, sh, into, sc) : 0;
    if (sh->scans && cx->target->is_gpu) scan_rows(cx, k, sc, kept);
    if (partial) sn_mask_accesses(cx, k, into, mask, false);
}
