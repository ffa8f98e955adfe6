/* outer_team.c: class outer for few long columns: a team of blocks keeps those that lie side by side, as it would a row (teams.c).
 *
 *     bf16[15726020, 4] on 132 multiprocessors   schedule outer block_x=1 block_y=256 vector=4 unroll=14 cluster=264 teams=1 shared
 *
 *     loop g in T : grid { [loop r {]              tile r*T + g: X * V columns
 *       loop x in X : block.x { loop v in V : vector {
 *         reduce c in C : cluster { reduce y { .. } }     its rows to shared memory, in part (row_part.c); the threads y and then
 *         loop c in C : cluster { loop y { .. } }         the blocks of the team put columns together (codegen-llvm/team.c)
 *
 * Lines follow each other, however narrow they are, as all columns that lie side by side are one tile. Each block asks for the words of all others, of
 * each column and state: where these are more than a few, what waits keeps memory from what loads, and three kernels take less time. So it is where all
 * that is reduced is a sum (an RMS norm of bf16[4000000, 12] 90 us for 71 on an H200), and where elements are f64. Slower, too: a block that owns a
 * column, puts together what the others say and tells them (f32[15, 102220, 8] 51 us for 32): all threads wait for the same words then.
 *
 * Relies on teams.c, to which a tile is a row. `fuse` leaves a reduction and what stands behind it in one kernel where that is worth it.
 */
#include "passes/schedule/base/figures.h"
#include "passes/schedule/rows/outer_keep.h"
#include "passes/schedule/base/teams.h"
#include "passes/schedule/rows/rows.h"

bool sn_columns_for_team(const sn_target *t, int64_t along, uint32_t bytes) {
    if (!t->is_gpu || along < 1 || !bytes || bytes > SN_WORD) return false;
    uint32_t lanes = sn_least(sn_least(t->vector_bytes / bytes, SN_TEAM_LANES / 2), sn_pow2_divisor(along));
    return along <= (int64_t)SN_TEAM_COLUMNS * lanes;
}

/* Values that a reduction carries, at most. */
static uint32_t values_of(const sn_module *m, const sn_schedule_shape *sh) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        const sn_stmt_rec *r = sn_stmt_get(m, sh->nests[i].top);
        if (r->op == SN_LOP_REDUCE && r->n_results > most) most = r->n_results;
    }
    return most;
}

/* What the columns of the header are to a team. */
static sn_team_rows rows_of(sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    const sn_module *m = cx->m;
    int64_t wide = (int64_t)sc->block_x * sc->vector;
    sn_team_rows ro = {.rows = sn_ceil_div(sh->rows, wide), .reach = sn_mul_clamped(sh->max_count, wide)};
    uint32_t widest;
    ro.columns = sc->block_x;
    ro.kept = sn_schedule_kept(&widest, m, sh);
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        const sn_stmt_rec *r = sn_stmt_get(m, sh->nests[i].top);
        uint32_t bytes = 0;
        if (r->op != SN_LOP_REDUCE) continue;
        for (uint32_t k = 0; k < r->n_results; k++) bytes += sn_dtype_bytes(sn_val_get(m, sn_result(r, k))->dtype);
        if (bytes * sc->vector > ro.states) ro.states = bytes * sc->vector;
        ro.exchanges++;
    }
    ro.again = sn_schedule_has_parts(m, sh) ? sh->n_nests - 1 : 0;
    return ro;
}

/* To teams.c all threads of a block are a row's. */
static sn_sched in_a_row(const sn_sched *sc) {
    sn_sched one = *sc;
    one.block_x = sc->block_x * sc->block_y;
    one.block_y = 1;
    return one;
}

sn_row_parts sn_schedule_column_parts(sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    const sn_row_parts none = {0};
    sn_team_rows ro = rows_of(cx, sh, sc);
    if (!cx->target->is_gpu || !sc->teams || !sc->shared || !sc->unroll || !ro.kept || !ro.again) return none;
    sn_sched one = in_a_row(sc);
    sn_row_parts parts = sn_schedule_team_parts(cx->target, &ro, &one);
    int64_t steps = sn_ceil_div(sh->max_count, (int64_t)sn_sched_cluster(sc) * sc->block_y);
    return parts.stay < sn_ceil_div(steps, sc->unroll) ? parts : none;
}

bool sn_schedule_team_columns(double *cost, sn_sched *sc, sn_pass_ctx *cx, const sn_schedule_shape *sh, uint32_t bytes,
                              uint32_t vector) {
    const sn_target *t = cx->target;
    int64_t along = sn_last_outer_extent(cx, sh);
    sn_sched one = *sc;
    if (!sn_columns_for_team(t, along, bytes) || sh->n_nests < 2) return false;
    while (vector * values_of(cx->m, sh) > SN_TEAM_LANES && vector * bytes > SN_COLUMN_WORD) vector /= 2;
    one.vector = vector;
    one.block_x = (uint32_t)sn_ceil_div(along, vector);
    sn_team_rows ro = rows_of(cx, sh, &one);
    if (one.block_x > SN_TEAM_COLUMNS || ro.exchanges > 1 || values_of(cx->m, sh) < 2) return false;
    if (ro.rows >= t->units) ro.again = 0; /* a block has a tile as a whole, of which the cache has a part */
    int64_t of_tile = sn_mul_clamped(ro.reach, ro.kept);
    if (!ro.kept || of_tile < SN_TEAM_ROW || sn_mul_clamped(ro.rows, of_tile) < SN_TEAM_BYTES) return false;
    if (!sn_team_pays(t, &(sn_team_need){ro.rows, of_tile, ro.exchanges, ro.again, .together = false})) return false;
    one.block_x = 0;
    if (!sn_schedule_choose_team(cost, t, &ro, &one)) return false;
    one.block_y = one.block_x / ro.columns;
    one.block_x = ro.columns;
    *cost *= (double)t->units * t->cycle_bytes / (2 * (double)sn_mul_clamped(sh->rows, sh->max_count) * ro.kept);
    *sc = one;
    return true;
}
