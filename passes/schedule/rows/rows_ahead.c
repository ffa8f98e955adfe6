/* rows_ahead.c: class inner: a team has the next row on its way to shared memory while it is at work on one (`stages=2`, or more of them).
 *
 *     loop r in R { copies of row r   reduce { .. }   loop { .. store } }
 *  -> loop r in R : seq pipe(2) { loop c : cluster { loop x : block.x bulk { copies of row r, or of the last one } }
 *                                 barrier
 *                                 if r in rows { reduce { .. }   loop { .. store } } }
 *
 * What blocks wait for each other, and what they compute, is hidden that way: memory always has a row to bring, while the one before it is
 * stored. Two rows of each team have to have room, so that teams are larger (teams.c).
 *
 * Rows that begin inside of vectors (inner.c) are copied with what lies in front of them: behind a test of the end alone a copy of whole
 * vectors is asynchronous, and what reads them asks for both ends again.
 *
 * Legal: rows are apart from each other, and what is copied is of the row that is read behind the barrier. Relies on the pass `sync`, to which
 * a pipe has its own barrier, and on codegen-llvm/pipe.c, which doubles the buffer.
 */
#include "passes/schedule/rows/rows.h"

/* The copies that stage.c has put in front of the first nest: to shared memory, and nothing else. */
static bool is_copy(const sn_module *m, sn_stmt nest) {
    bool copies = false;
    sn_stmt end = sn_stmt_walk_skip(m, nest);
    if (sn_stmt_get(m, nest)->kind != SN_AXIS_CLUSTER || sn_stmt_get(m, nest)->op != SN_LOP_LOOP) return false;
    for (sn_stmt s = nest; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_stores(r)) continue;
        if (sn_buf_get(m, r->buf)->scope != SN_BUF_SHARED) return false;
        copies = true;
    }
    return copies;
}

/* Positions from the first vector on in place of those from the row's begin on. */
static void test_the_end(sn_module *m, sn_stmt copy) {
    sn_stmt end = sn_stmt_walk_skip(m, copy);
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix zeros[SN_MAX_CHAIN];
    uint32_t n = 0;
    for (sn_stmt s = copy; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op == SN_LOP_LOOP && n < SN_MAX_CHAIN) axes[n] = r->axis, zeros[n++] = sn_ix_const(m, 0);
        if (r->op != SN_LOP_IN || sn_ix_range(m, r->ix).lo >= 0) continue;
        sn_ix before = sn_ix_scale(m, sn_ix_subst(m, r->ix, axes, zeros, n), -1);
        sn_ix at = sn_ix_add(m, r->ix, before), bound = sn_ix_add(m, r->bound, before);
        sn_stmt_get(m, s)->ix = at;
        sn_stmt_get(m, s)->bound = bound;
    }
}

/* Threads copy, and nobody else reads what they do. */
static void mark_copies(sn_module *m, sn_stmt copy) {
    sn_stmt end = sn_stmt_walk_skip(m, copy);
    for (sn_stmt s = copy; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op == SN_LOP_LOOP && r->kind == SN_AXIS_BLOCK_X) r->bulk = true;
        if (r->op == SN_LOP_LOOP && (r->kind == SN_AXIS_SEQ || r->kind == SN_AXIS_UNROLL)) r->once = true;
    }
}

void sn_schedule_rows_ahead(sn_pass_ctx *cx, sn_kern k, sn_stmt turns, sn_ix row, int64_t rows, const sn_sched *sc) {
    sn_module *m = cx->m;
    sn_stmt copy = sn_stmt_get(m, turns)->first;
    while (copy.i && !is_copy(m, copy)) copy = sn_next(m, copy);
    sn_cursor behind = sn_at_before(m, sn_stmt_get(m, turns)->first);
    if (copy.i) {
        test_the_end(m, copy);
        mark_copies(m, copy);
        sn_stmt_get(m, turns)->pipe = sc->stages;
        behind = sn_at_after(m, sn_put_barrier(m, sn_at_after(m, copy)));
    }
    if (sn_ix_range(m, row).hi < rows) return;
    sn_stmt there = sn_put_if(m, behind, row, sn_ix_const(m, rows));
    for (sn_stmt s = sn_next(m, there), next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        sn_stmt_insert(m, sn_at_end(k, there), s);
    }
}
