/* inner.c: binding of class inner: threads X of a row, rows Y of a block, blocks C of a row.
 *
 *     row = g*Y + y;  element = (((uo*U + u)*C + c)*X + x)*V + v
 *     row = r*T + g   of T teams of C blocks (teams.c), which may keep a part of a row (row_part.c)
 *
 * Every nest of the kernel becomes  cluster c { block.x { [seq uo] { unroll u { vector v { body } } } } }, so that one
 * thread owns the same elements in all of them: what one nest loads and another needs again can stay in registers or
 * shared memory (stage.c). Rows beyond the last are computed as copies of the last one, with stores masked, because
 * all threads have to take part in the reductions. The threads of a scan stand inside its steps, since the steps are
 * what runs in order: [seq uo] { unroll u { block.x { vector v { body } } } }.
 *
 * Rows of N elements that V does not divide start a = N*row mod V elements after a multiple of V. There the vectors
 * start at that multiple, element = ... - a, so that accesses to N*row + element are aligned, and each lane tests
 * whether it is inside the row: in the first vector of a row and in the last one, some are not. So it is with parts of such
 * rows that are read once, however long they are: each starts as its row does. The CPU loads vectors from anywhere: there they start with the row, and
 * the last one is tested.
 */
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/rows/rows.h"

/* ---- choosing ---- */

bool sn_schedule_inner_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    (void)cx, (void)k;
    return sn_schedule_has_rows(why_not, sh);
}

/* Other candidates: twice as many threads a row, and half. */
sn_status sn_schedule_inner_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                       const sn_sched *pinned) {
    sn_sched first = *pinned;
    if (pinned->cls == SN_SCHED_NONE &&
        (!sh->max_count || (sh->one_thread && !sn_schedule_few_vectors(cx, sh)) || sh->by_columns))
        return SN_OK;
    SN_TRY(sn_schedule_complete_row(&first, cx, k, sh));
    sn_schedule_propose(out, cx, &first);
    uint32_t x[] = {first.block_x * 2, first.block_x / 2};
    for (size_t i = 0; i < SN_COUNT(x) && !pinned->block_x && !sh->team; i++) {
        sn_sched other = *pinned;
        other.block_x = x[i], other.block_y = first.block_y;
        if (x[i] < SN_LEAST_THREADS || x[i] * first.block_y > cx->target->max_threads) continue;
        SN_TRY(sn_schedule_complete_row(&other, cx, k, sh));
        sn_schedule_propose(out, cx, &other);
    }
    return SN_OK;
}

/* ---- binding ---- */

/* Loads of one block run while another one computes: as long as a thread keeps little, bound its registers so that
 * ROW_RESIDENT threads fit on a multiprocessor. */
static uint32_t keep_rows(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_stmt body, sn_sched *sc) {
    uint32_t budget = cx->target->max_regs * 6; /* one array of halves beside one of words */
    if (sc->shared) budget = cx->target->shared_bytes - SN_SHARED_SLOTS;
    uint32_t bytes = sn_schedule_stage(cx, k, sh, body, sc, budget);
    sn_schedule_hold_parts(cx, k, sh, body, sc);
    uint32_t threads = sc->block_x * sc->block_y;
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

/* The loops that count rows, outermost first; *row: the number of the row inside of them, which may be more than there are. */
static sn_stmt open_rows(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_sched *sc, sn_ix *row) {
    sn_module *m = cx->m;
    int64_t y = sc->block_y, blocks = sn_ceil_div(sh->rows, y), at_once = sc->teams ? sc->teams : blocks;
    sn_axis g = sn_axis_new(m, "g", sn_ix_const(m, at_once));
    sn_stmt into = sn_put_loop(m, sn_at_end(k, (sn_stmt){0}), g, SN_AXIS_GRID);
    *row = sn_ix_scale(m, sn_ix_axis(m, g), y);
    if (blocks > at_once) {
        sn_axis r = sn_axis_new(m, "r", sn_ix_const(m, sn_ceil_div(blocks, at_once)));
        into = sn_put_loop(m, sn_at_end(k, into), r, SN_AXIS_SEQ);
        *row = sn_ix_add(m, *row, sn_ix_scale(m, sn_ix_axis(m, r), at_once));
    }
    if (sc->stages > 1 && blocks > at_once) return into; /* rows_ahead.c */
    if (sc->teams && sh->rows % at_once)                 /* all threads of a team agree */
        return sn_put_if(m, sn_at_end(k, into), *row, sn_ix_const(m, sh->rows));
    if (y == 1) return into;
    sn_axis ay = sn_axis_new(m, "y", sn_ix_const(m, y));
    *row = sn_ix_add(m, *row, sn_ix_axis(m, ay));
    return sn_put_loop(m, sn_at_end(k, into), ay, SN_AXIS_BLOCK_Y);
}

void sn_schedule_inner_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    bool alone = cx->target->is_gpu && !sc->teams && !sc->shared && sn_sched_cluster(sc) == 1;
    bool odd = (sh->max_count % sc->vector && !sn_schedule_row_is_open(cx, sh)) ||
               (alone && sn_schedule_rows_late(m, sh, sc->vector));
    sn_ix lead = odd ? sn_schedule_row_lead(m, sh, sc->vector) : (sn_ix){0}, row;
    sn_row_parts parts = sn_schedule_row_parts(cx, sh, sc);
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        sh->nests[i].lead = lead;
        sh->nests[i].parts = parts.stay > 0;
        sh->nests[i].top = sn_schedule_bind_row_nest(cx, k, &sh->nests[i], sc);
        if (parts.stay) sn_schedule_part_row(cx, k, sh, i, &parts, sc);
    }
    sn_val elements = {0};
    if (sh->about.i && sc->teams && !parts.both) elements = sn_schedule_count_elements(cx, &sh->nests[0], sc);
    sn_stmt_vec body = {0};
    sn_schedule_take_body(&body, cx, k, sh);
    sn_stmt into = open_rows(cx, k, sh, sc, &row);
    bool partial = !sc->teams && sh->rows % sc->block_y != 0, ahead = sc->stages > 1 && sh->rows > sc->teams;
    bool over = partial || (ahead && sh->rows % sc->teams != 0);
    sn_val mask = {0};
    if (partial) mask = sn_put_in(m, sn_at_end(k, into), row, sn_ix_const(m, sh->rows));
    for (uint32_t i = 0; i < body.n; i++) sn_stmt_insert(m, sn_at_end(k, into), body.at[i]);
    sn_schedule_subst_outer(cx, &body, sh, over ? sn_ix_min(m, row, sn_ix_const(m, sh->rows - 1)) : row);
    uint32_t kept = sc->persistent || sc->shared ? keep_rows(cx, k, sh, into, sc) : 0;
    if (elements.i) sn_schedule_meet_once(cx, k, sh, elements);
    if (parts.both) sn_schedule_read_once(cx, k, sh);
    if (sc->teams) sn_schedule_keep_powers(cx, k, sh, sc);
    if (ahead) sn_schedule_rows_ahead(cx, k, into, row, sh->rows, sc);
    if (sh->scans && cx->target->is_gpu) scan_rows(cx, k, sc, kept);
    if (partial) sn_mask_accesses(cx, k, into, mask, false);
}
