/* shared_rows.c: class inner for kernels without reductions: a few long rows that begin anywhere, each of them shared by some blocks.
 *
 *     loop i in 14 { loop j in 5126434 { load s[i]  rsqrt  load x[5126434*i + j]  load w[j]  ..  store y[5126434*i + j] } }
 *  -> loop g in 14 : grid { load s[g]  rsqrt
 *       loop c in 37 : cluster { loop x : block.x { loop uo { loop u { loop v { load x[..]  load w[..]  ..  store y[..] } } } } } }
 *
 * What follows a norm whose rows no team keeps is of that kind. As class element has it, each vector finds out which row it is of, computes what belongs to
 * that, and asks whether it ends inside of the vector: of halves with two weights 44 instructions an element, three times of what memory leaves time for. Here a
 * block knows its row, whose vectors begin before it (rows.c), so that only the first and the last one have tests, and weights come by pieces of 16 bytes for
 * which nobody asks where the row goes on. All blocks run at once, and are at the same place in all rows: one of them brings weights for all.
 *
 * Only straight-line code of a loop over rows and one over columns, with something of the row alone and something that all rows have in common, and
 * only where rows begin elsewhere than vectors do, input and output alike: else each vector would have tests. What is of rows moves in front of the loop over columns; all else is class inner. Cost: linear in the kernel.
 */
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/rows/rows.h"

typedef struct shared_rows {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_stmt columns; /* the loop over them */
    int64_t rows, count;
    uint32_t least; /* bytes of the smallest element that is walked */
    bool of_row, weights, stores;
} shared_rows;

/* ---- is it one? ---- */

static bool look_at_access(shared_rows *sr, const sn_schedule_shape *sh, const sn_stmt_rec *r) {
    int64_t of_row, of_column;
    sn_module *m = sr->m;
    bool store = r->op == SN_LOP_STORE;
    if (!sn_is_access(r) || r->has_mask || sn_ix_uses_vals(m, r->ix) || !sn_buf_is_global(sn_buf_get(m, r->buf)))
        return false;
    if (!sn_ix_coef(m, r->ix, sn_stmt_axis(m, sh->outer.at[0]), &of_row) ||
        !sn_ix_coef(m, r->ix, sn_stmt_axis(m, sh->outer.at[1]), &of_column))
        return false;
    if (of_row == sr->count && of_column == 1) {
        sn_schedule_smaller(&sr->least, sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype));
        sr->stores |= store;
        return true;
    }
    if (store || (of_column && (of_column != 1 || of_row))) return false;
    sr->weights |= of_column == 1;
    sr->of_row |= of_row && !of_column;
    return true;
}

static bool look(shared_rows *sr, sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    sn_module *m = cx->m;
    *sr = (shared_rows){.cx = cx, .m = m};
    if (!cx->target->is_gpu || sh->n_nests || sh->outer.n != 2 || sh->scans || sh->mixed || sh->team) return false;
    sr->columns = sh->outer.at[1];
    sr->rows = sn_ix_value(m, sn_stmt_extent(m, sh->outer.at[0]));
    sr->count = sn_ix_value(m, sn_stmt_extent(m, sr->columns));
    for (sn_stmt s = sn_stmt_get(m, sr->columns)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_lop_has_region(r->op)) return false;
        if (r->buf.i && !look_at_access(sr, sh, r)) return false;
        if (r->op == SN_LOP_STORE && sn_kern_loads(m, r->kern, r->buf)) return false;
    }
    return sr->of_row && sr->weights && sr->stores && sr->least;
}

bool sn_schedule_shared_rows_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    shared_rows sr;
    (void)k;
    *why_not = "it has no loops inside its outer ones";
    return look(&sr, cx, sh);
}

/* ---- choosing ---- */

/* Blocks that share a row, of as many as run at once. */
static int64_t blocks_of_row(const shared_rows *sr, const sn_sched *sc) {
    const sn_target *t = sr->cx->target;
    int64_t all = (int64_t)(t->exact ? t->units : t->units / SN_TEAM_CARDS) * sc->min_blocks;
    int64_t blocks = all / (sc->teams ? sc->teams : sr->rows),
            pieces = sr->count / ((int64_t)sc->block_x * sc->vector * sc->unroll);
    return blocks < pieces ? blocks : pieces;
}

/* Can vectors begin before the rows, all of which begin alike after one? The loop over columns is what class inner will bind as a nest. */
static bool has_lead(const shared_rows *sr, const sn_schedule_shape *sh, uint32_t vector) {
    sn_schedule_shape rows = *sh;
    rows.outer.n = 1;
    rows.rows = sr->rows;
    rows.max_count = sr->count;
    rows.n_nests = 1;
    rows.nests[0] = (sn_schedule_nest){.top = sr->columns, .count = sr->count};
    rows.nests[0].chain.at[0] = sr->columns, rows.nests[0].chain.n = 1;
    return sn_schedule_row_lead(sr->m, &rows, vector).i != 0;
}

/* Rows that begin with a vector are no better for it, and short ones, or many, have blocks of their own. */
static bool is_worth_it(const shared_rows *sr, const sn_schedule_shape *sh, const sn_sched *sc) {
    int64_t bytes = sn_mul_clamped(sn_mul_clamped(sr->rows, sr->count), sr->least);
    if (sr->least >= SN_WORD || sr->count % sc->vector == 0 || sc->cluster < SN_SHARED_ROW_BLOCKS) return false;
    return bytes >= SN_TEAM_BYTES && has_lead(sr, sh, sc->vector);
}

/* Nothing of a row stays, there is one turn, and a block has one row: a header that says more cannot be. */
static sn_status check_pinned(const shared_rows *sr, sn_kern k, const sn_schedule_shape *sh, const sn_sched *pinned,
                              const sn_sched *sc) {
    const char *name = sn_kern_get(sr->m, k)->name;
    if (pinned->stages > 1 || pinned->split > 1 || pinned->block_y > 1 || pinned->persistent || pinned->shared)
        return sn_fail(sr->m->env, SN_ERROR_ARGUMENT,
                       "kernel %s: rows without reductions have none of the schedule's stages, split, block_y, "
                       "persistent and shared",
                       name);
    if (sc->teams > sr->rows)
        return sn_fail(sr->m->env, SN_ERROR_ARGUMENT, "kernel %s: the schedule's teams=%u are more than %lld rows",
                       name, sc->teams, (long long)sr->rows);
    if (sr->count % sc->vector && !has_lead(sr, sh, sc->vector))
        return sn_fail(sr->m->env, SN_ERROR_ARGUMENT,
                       "kernel %s: the schedule's vector=%u does not divide a row of %lld", name, sc->vector,
                       (long long)sr->count);
    return sn_schedule_check_teams(sr->cx, k, sc);
}

sn_status sn_schedule_shared_rows_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k,
                                             const sn_schedule_shape *sh, const sn_sched *pinned) {
    shared_rows sr;
    sn_sched one = *pinned;
    if (!look(&sr, cx, sh)) return SN_OK;
    one.cls = SN_SCHED_INNER;
    if (!one.vector) one.vector = sn_widest(cx, sr.least);
    if (!one.block_x) one.block_x = SN_ELEMENT_THREADS;
    if (!one.unroll) one.unroll = SN_SHARED_ROW_LOADS;
    if (!one.min_blocks) one.min_blocks = SN_SHARED_ROW_RESIDENT;
    one.block_y = 1;
    if (!one.cluster) {
        int64_t blocks = blocks_of_row(&sr, &one);
        one.cluster = blocks > 1 && blocks <= UINT32_MAX ? (uint32_t)blocks : 0;
        if (one.cluster && !one.teams) one.teams = (uint32_t)sr.rows;
    }
    if (pinned->cls == SN_SCHED_NONE ? !is_worth_it(&sr, sh, &one) : !one.teams || one.cluster < 2) return SN_OK;
    if (pinned->cls != SN_SCHED_NONE) SN_TRY(check_pinned(&sr, k, sh, pinned, &one));
    sn_schedule_propose(out, cx, &one);
    return SN_OK;
}

/* ---- binding ---- */

/* Is the value the same in all columns? */
static bool is_of_row(const shared_rows *sr, const sn_stmt_rec *r) {
    sn_module *m = sr->m;
    if (r->op == SN_LOP_STORE || (r->ix.i && sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, sr->columns)))) return false;
    if (r->ix.i && sn_ix_uses_vals(m, r->ix)) return false;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (sn_stmt_inside(m, sn_val_get(m, r->in[i])->def, sr->columns)) return false;
    return true;
}

void sn_schedule_shared_rows_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    shared_rows sr;
    sn_schedule_shape rows;
    bool found = look(&sr, cx, sh);
    SN_ASSERT(found), (void)found;
    for (sn_stmt s = sn_stmt_get(cx->m, sr.columns)->first, next; s.i; s = next) {
        next = sn_next(cx->m, s);
        if (!is_of_row(&sr, sn_stmt_get(cx->m, s))) continue;
        sn_stmt_unlink(cx->m, s);
        sn_stmt_insert(cx->m, sn_at_before(cx->m, sr.columns), s);
    }
    if (sn_schedule_look(&rows, cx, sh->users, sh->at) != SN_OK) return;
    sn_schedule_inner_bind(cx, k, &rows, sc);
}
