/* element.c: binding of class element: flat position = (g*T + t)*V + v over all outer loops.
 *
 * One guard stands around the vector when the last block is not full. When V does not divide the number of positions
 * (possible for a single outer loop alone), the odd ones at the end are done one by one by the first threads of block
 * 0, in several turns where a pinned schedule has fewer threads than there are odd ones. A scan walks its axis in
 * groups of U steps, whose loads go ahead (map_scan.c); a small window is written out.
 */
#include "passes/schedule/schedule.h"

static sn_stmt put_loop(sn_module *m, sn_cursor at, const char *name, int64_t extent, sn_axis_kind kind, sn_ix *out) {
    sn_axis ax = sn_axis_new(m, name, sn_ix_const(m, extent));
    *out = sn_ix_axis(m, ax);
    return sn_put_loop(m, at, ax, kind);
}

static void insert_all(sn_module *m, sn_cursor at, const sn_stmt_vec *body) {
    for (uint32_t k = 0; k < body->n; k++) sn_stmt_insert(m, at, body->at[k]);
}

/* `if g in 1 { if t in rest { body at first + t } }`: a copy of the statements in `main`. */
static void put_tail(sn_pass_ctx *cx, sn_kern k, sn_stmt in_threads, sn_stmt main, const sn_schedule_shape *sh, sn_ix g,
                     sn_ix t, int64_t first, int64_t rest) {
    sn_module *m = cx->m;
    sn_stmt into = sn_put_if(m, sn_at_end(k, in_threads), g, sn_ix_const(m, 1));
    int64_t threads = sn_ix_value(m, sn_stmt_extent(m, in_threads));
    if (rest > threads) {
        sn_ix turn;
        into = put_loop(m, sn_at_end(k, into), "w", (rest + threads - 1) / threads, SN_AXIS_SEQ, &turn);
        t = sn_ix_add(m, sn_ix_scale(m, turn, threads), t);
    }
    sn_stmt few = sn_put_if(m, sn_at_end(k, into), t, sn_ix_const(m, rest));
    sn_stmt copy = sn_stmt_clone(m, sn_at_end(k, few), main);
    sn_stmt_vec body = {0};
    for (sn_stmt s = sn_stmt_get(m, copy)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        SN_PUSH(cx->scratch, &body, s);
    }
    sn_stmt_unlink(m, copy);
    sn_schedule_subst_outer(cx, &body, sh, sn_ix_addc(m, t, first));
    insert_all(m, sn_at_end(k, few), &body);
}

static void group_steps(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, const sn_sched *sc) {
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        sn_schedule_nest *nest = &sh->nests[i];
        int64_t u = sc->unroll, outer = (nest->count + u - 1) / u;
        if (!nest->scan || !nest->perfect || u < 2) continue;
        sn_level levels[2] = {{"uo", outer, u, SN_AXIS_SEQ}, {"u", u, 1, SN_AXIS_UNROLL}};
        nest->top = sn_nest_rebuild(cx, k, nest->top, &nest->chain, sn_ix_const(cx->m, 0), nest->count,
                                    outer > 1 ? levels : levels + 1, outer > 1 ? 2 : 1);
    }
}

/* The loads of a small window go together. */
static void write_out_windows(sn_module *m, const sn_schedule_shape *sh) {
    for (uint32_t i = 0; i < sh->n_nests && sh->max_count <= SN_WRITTEN_WINDOW; i++)
        for (uint32_t d = 0; d < sh->nests[i].chain.n; d++)
            sn_stmt_get(m, sh->nests[i].chain.at[d])->kind = SN_AXIS_UNROLL;
}

void sn_schedule_bind_element(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, const sn_sched *sc) {
    sn_module *m = cx->m;
    sn_stmt_vec body = {0};
    int64_t n = sh->rows, v = sc->vector, tile = v * sc->block_x, whole = n - n % v;
    int64_t blocks = whole > tile ? (whole + tile - 1) / tile : 1; /* the odd ones need no block of their own */
    sn_ix g, t, lane = sn_ix_const(m, 0);
    if (sh->scans) group_steps(cx, k, sh, sc);
    else if (sh->windows && cx->target->is_gpu) write_out_windows(m, sh);
    sn_schedule_take_body(&body, cx, k, sh);
    sn_stmt grid = put_loop(m, sn_at_end(k, (sn_stmt){0}), "g", blocks, SN_AXIS_GRID, &g);
    sn_stmt threads = put_loop(m, sn_at_end(k, grid), "t", sc->block_x, SN_AXIS_BLOCK_X, &t);
    sn_ix start = sn_ix_scale(m, sn_ix_add(m, sn_ix_scale(m, g, sc->block_x), t), v);
    sn_stmt into = threads;
    if (whole != blocks * tile) into = sn_put_if(m, sn_at_end(k, into), start, sn_ix_const(m, whole));
    if (v > 1) into = put_loop(m, sn_at_end(k, into), "v", v, SN_AXIS_VECTOR, &lane);
    insert_all(m, sn_at_end(k, into), &body);
    if (n != whole) put_tail(cx, k, threads, into, sh, g, t, whole, n - whole);
    sn_schedule_subst_outer(cx, &body, sh, sn_ix_add(m, start, lane));
    if (sh->scans && cx->target->is_gpu) sn_schedule_loads_ahead(cx, k, sc);
}
