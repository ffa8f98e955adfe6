/* window_host_bind.c: binding of class window on the CPU; window_host.c chooses.
 *
 *     loop g in tasks : grid {
 *       loop c { loop p { loop q { loop v { patch[..] = x[..] } } } }       converted, and tested for the borders, once
 *       loop j { loop i { loop q {                                         blocks: planes, rows, columns
 *         acc = identity
 *         loop c { loop s { loop t { w = ..   acc[j, r, u, v] += patch[r + s, V*u + v + t] * w[j] } } }
 *         the rest of the body, at acc
 *       } } }
 *     }
 *
 * Every load of the inner loops is a vector of the patch, without a test. A run of at most 64 taps adds up in registers;
 * what longer sums come to is added to totals in memory, run by run, so that they are as exact as those of products
 * (contract_host_bind.c). Results beyond the ends of lines are computed from zeros and not stored.
 */
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/windows/window_host.h"
#include "passes/schedule/base/host_bind.h"

#include "passes/schedule/base/figures.h"

#include <stdlib.h>

enum { MOST_STATES = 4 };

/* A loop of the nest: so many iterations, `run` of them in one run. */
typedef struct tap_loop {
    uint32_t at; /* in the nest */
    int64_t n, run;
    sn_ix number;
} tap_loop;

typedef struct binding {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_window w;
    sn_window_task t;
    sn_buf patch, acc[MOST_STATES], total[MOST_STATES];
    sn_ix task[3], block[3]; /* numbers along planes, rows, columns: of the task, and of the block in it */
    tap_loop loops[SN_MAX_CHAIN];
    uint32_t n_loops, n_vals; /* values that the module had */
    bool runs;                /* more than one */
} binding;

/* ---- small pieces ---- */

static sn_stmt_rec *reduction(const binding *b) { return sn_stmt_get(b->m, b->w.nest->top); }
static int64_t width_of(const binding *b) { return b->t.vectors * b->t.lanes; }

static int64_t divisor_up_to(int64_t n, int64_t most) {
    while (n % most) most--;
    return most;
}

/* ---- the patch ---- */

/* Number of an iteration of the loops that walk along no line. */
static sn_ix step_number(binding *b, const sn_ix *at) {
    sn_ix number = sn_ix_const(b->m, 0);
    for (uint32_t i = 0; i < b->w.nest->chain.n; i++)
        if (sn_window_is_step(&b->w, i))
            number = sn_ix_fma(b->m, sn_ix_value(b->m, sn_stmt_extent(b->m, b->w.nest->chain.at[i])), number, at[i]);
    return number;
}

static sn_ix patch_index(binding *b, sn_ix step, sn_ix row, sn_ix column) {
    return sn_ix_fma(b->m, b->t.pitch, sn_ix_fma(b->m, b->t.row_places, step, row), column);
}

/* The outer axes that are no lines; plane: of the task's. */
static void set_planes(binding *b, sn_contraction_copier *c, sn_ix plane) {
    sn_ix number = sn_ix_fma(b->m, b->t.planes, b->task[0], plane);
    c->n += sn_window_planes(c->axes + c->n, c->with + c->n, &b->w, number);
}

/* The patch has the places of whole blocks, of which some are none. */
static void put_patch(binding *b, sn_cursor at) {
    const sn_window *w = &b->w;
    const sn_window_task *t = &b->t;
    sn_contraction_copier c;
    sn_ix steps[SN_MAX_CHAIN];
    for (uint32_t i = 0; i < w->nest->chain.n; i++)
        if (sn_window_is_step(w, i))
            steps[i] = sn_open_loop(b->m, &at, "c", sn_ix_value(b->m, sn_stmt_extent(b->m, w->nest->chain.at[i])),
                                    SN_AXIS_SEQ);
    sn_ix p = sn_open_loop(b->m, &at, "p", t->row_places, SN_AXIS_SEQ);
    sn_ix q = sn_open_loop(b->m, &at, "q", t->pitch / t->lanes, SN_AXIS_SEQ);
    q = sn_ix_fma(b->m, t->lanes, q, sn_open_loop(b->m, &at, "v", t->lanes, SN_AXIS_VECTOR));
    sn_contraction_copier_start(&c, b->cx, at, b->n_vals);
    set_planes(b, &c, sn_ix_const(b->m, 0));
    for (uint32_t i = 0; i < w->nest->chain.n; i++)
        if (sn_window_is_step(w, i)) sn_window_set_axis(&c, sn_stmt_axis(b->m, w->nest->chain.at[i]), steps[i]);
    sn_window_set_line(&c, w, &w->row, sn_ix_scale(b->m, b->task[1], t->rows), p);
    sn_window_set_line(&c, w, &w->column, sn_ix_scale(b->m, b->task[2], t->columns), q);
    sn_ix row = sn_ix_fma(b->m, t->rows * w->row.step, b->task[1], p);
    sn_ix column = sn_ix_fma(b->m, t->columns * w->column.step, b->task[2], q);
    c.mask = sn_put_mask_in(b->m, at, c.mask, row, sn_window_places(&w->row, w->row.windows));
    c.mask = sn_put_mask_in(b->m, at, c.mask, column, sn_window_places(&w->column, w->column.windows));
    sn_val x = sn_contraction_copy(&c, w->value);
    sn_put_store(b->m, at, b->patch, patch_index(b, step_number(b, steps), p, q), x);
}

/* ---- sums ---- */

/* Where a sum is in the block: a loop over each part, lanes innermost. */
typedef struct sum_at {
    sn_ix plane, row, vector, lane;
} sum_at;

static sn_ix sum_index(binding *b, const sum_at *o) {
    sn_ix line = sn_ix_fma(b->m, b->t.own_rows, o->plane, o->row);
    return sn_ix_fma(b->m, b->t.lanes, sn_ix_fma(b->m, b->t.vectors, line, o->vector), o->lane);
}

static void open_sums(binding *b, sn_cursor *at, sum_at *o) {
    o->row = sn_open_loop(b->m, at, "r", b->t.own_rows, SN_AXIS_UNROLL);
    o->vector = sn_open_loop(b->m, at, "u", b->t.vectors, SN_AXIS_UNROLL);
    o->lane = sn_open_loop(b->m, at, "v", b->t.lanes, SN_AXIS_VECTOR);
}

static sn_val identity(binding *b, sn_cursor at, uint32_t i) {
    const sn_stmt_rec *red = reduction(b);
    return sn_put_identity(b->m, at, red->combs[i], 0, sn_val_get(b->m, sn_result(red, i))->dtype);
}

static sn_val combine(binding *b, sn_cursor at, uint32_t i, sn_val x, sn_val y) {
    return sn_put_op2(b->m, at, sn_comb_lops[reduction(b)->combs[i]], x, y);
}

/* to = identity, or to = to + from */
static void put_sums(binding *b, sn_cursor at, const sn_buf *to, const sn_buf *from) {
    sum_at o = {.plane = sn_open_loop(b->m, &at, "j", b->t.own_planes, SN_AXIS_UNROLL)};
    open_sums(b, &at, &o);
    sn_ix e = sum_index(b, &o);
    for (uint32_t i = 0; i < reduction(b)->n_results; i++) {
        sn_val x = from ? combine(b, at, i, sn_put_load(b->m, at, to[i], e), sn_put_load(b->m, at, from[i], e))
                        : identity(b, at, i);
        sn_put_store(b->m, at, to[i], e, x);
    }
}

/* Row and first column of the block in the patch; of results. */
static sn_ix row_of(binding *b, const sum_at *o) { return sn_ix_fma(b->m, b->t.own_rows, b->block[1], o->row); }
static sn_ix column_of(binding *b, const sum_at *o) {
    return sn_ix_fma(b->m, width_of(b), b->block[2], sn_ix_fma(b->m, b->t.lanes, o->vector, o->lane));
}

/* The place that a tap of a window has in the patch. */
static sn_ix place_of(binding *b, const sn_window_line *l, sn_ix window, sn_ix tap) {
    sn_ix place = sn_ix_fma(b->m, l->step, window, sn_ix_scale(b->m, tap, l->dilation));
    return l->there ? sn_ix_addc(b->m, place, -sn_window_first_place(l)) : window;
}

/* acc takes in a tap of every window of the block. */
static void put_tap(binding *b, sn_cursor at) {
    const sn_window *w = &b->w;
    const sn_stmt_rec *yield = sn_stmt_get(b->m, sn_stmt_get(b->m, w->inner)->last);
    sn_ix steps[SN_MAX_CHAIN], s = sn_ix_const(b->m, 0), t = s;
    sn_contraction_copier c;
    sum_at o = {.plane = sn_open_loop(b->m, &at, "j", b->t.own_planes, SN_AXIS_UNROLL)};
    sn_contraction_copier_start(&c, b->cx, at, b->n_vals);
    set_planes(b, &c, sn_ix_fma(b->m, b->t.own_planes, b->block[0], o.plane));
    for (uint32_t i = 0; i < b->n_loops; i++) {
        const tap_loop *l = &b->loops[i];
        steps[l->at] = l->number;
        if (w->row.there && w->row.tap == l->at) s = l->number;
        if (w->column.tap == l->at) t = l->number;
        sn_window_set_axis(&c, sn_stmt_axis(b->m, w->nest->chain.at[l->at]), l->number);
    }
    for (uint32_t i = 0; i < yield->n_in; i++) sn_window_copy_others(&c, w, yield->in[i]);
    open_sums(b, &at, &o);
    c.at = at;
    sn_ix row = place_of(b, &w->row, row_of(b, &o), s), column = place_of(b, &w->column, column_of(b, &o), t);
    sn_ix e = sum_index(b, &o), from = patch_index(b, step_number(b, steps), row, column);
    sn_contraction_becomes(&c, w->value, sn_put_load(b->m, at, b->patch, from));
    for (uint32_t i = 0; i < yield->n_in; i++) {
        sn_val y = sn_contraction_copy(&c, yield->in[i]), sum = sn_put_load(b->m, at, b->acc[i], e);
        sn_put_store(b->m, at, b->acc[i], e, combine(b, at, i, sum, y));
    }
}

/* Steps, rows of taps, taps of a row; what a run takes in of each. */
static void find_loops(binding *b) {
    const sn_window *w = &b->w;
    int64_t room = SN_CONTRACT_RUN;
    for (int turn = 0; turn < 3; turn++)
        for (uint32_t i = 0; i < w->nest->chain.n; i++) {
            bool column = w->column.tap == i, row = w->row.there && w->row.tap == i;
            if (turn != (column ? 2 : row ? 1 : 0)) continue;
            b->loops[b->n_loops++] =
                (tap_loop){.at = i, .n = sn_ix_value(b->m, sn_stmt_extent(b->m, w->nest->chain.at[i]))};
        }
    for (uint32_t i = b->n_loops; i-- > 0;) {
        tap_loop *l = &b->loops[i];
        l->run = room >= l->n ? l->n : divisor_up_to(l->n, room);
        room = l->run < l->n ? 1 : room / l->run;
        b->runs |= l->run < l->n;
    }
}

/* Taps of a row are written out where they are few. */
static sn_axis_kind kind_of(const binding *b, const tap_loop *l) {
    int64_t products = l->run * b->t.own_planes * b->t.own_rows * b->t.vectors;
    uint32_t innermost = b->w.column.tap == SN_WINDOW_NO_TAP ? b->w.row.tap : b->w.column.tap;
    return l->at == innermost && products <= SN_WINDOW_HOST_WRITTEN ? SN_AXIS_UNROLL : SN_AXIS_SEQ;
}

static void put_windows(binding *b, sn_cursor at) {
    if (b->runs) put_sums(b, at, b->total, NULL);
    sn_cursor run = at;
    for (uint32_t i = 0; i < b->n_loops; i++)
        b->loops[i].number = sn_ix_scale(
            b->m, sn_open_loop(b->m, &run, "o", b->loops[i].n / b->loops[i].run, SN_AXIS_SEQ), b->loops[i].run);
    put_sums(b, run, b->acc, NULL);
    sn_cursor in = run;
    for (uint32_t i = 0; i < b->n_loops; i++) {
        tap_loop *l = &b->loops[i];
        l->number = sn_ix_add(b->m, l->number, sn_open_loop(b->m, &in, "s", l->run, kind_of(b, l)));
    }
    put_tap(b, in);
    if (b->runs) put_sums(b, run, b->total, b->acc);
}

/* ---- the rest of the body ---- */

static void put_rest(binding *b, sn_cursor at) {
    const sn_window *w = &b->w;
    const sn_stmt_rec *red = reduction(b);
    sn_contraction_copier c;
    sum_at o = {.plane = sn_open_loop(b->m, &at, "j", b->t.own_planes, SN_AXIS_UNROLL)};
    open_sums(b, &at, &o);
    sn_ix row = sn_ix_fma(b->m, b->t.rows, b->task[1], row_of(b, &o)), e = sum_index(b, &o);
    sn_ix column = sn_ix_fma(b->m, b->t.columns, b->task[2], column_of(b, &o));
    sn_contraction_copier_start(&c, b->cx, at, b->n_vals);
    set_planes(b, &c, sn_ix_fma(b->m, b->t.own_planes, b->block[0], o.plane));
    if (w->row.there) sn_window_set_axis(&c, sn_stmt_axis(b->m, w->sh->outer.at[w->row.outer]), row);
    sn_window_set_axis(&c, sn_stmt_axis(b->m, w->sh->outer.at[w->column.outer]), column);
    /* Rows and columns of this patch alone: the next one's are another task's. */
    c.mask = sn_put_mask_in(b->m, at, c.mask, row_of(b, &o), b->t.rows);
    c.mask = sn_put_mask_in(b->m, at, c.mask, row, w->row.windows);
    c.mask = sn_put_mask_in(b->m, at, c.mask, column_of(b, &o), b->t.columns);
    c.mask = sn_put_mask_in(b->m, at, c.mask, column, w->column.windows);
    for (uint32_t i = 0; i < red->n_results; i++)
        sn_contraction_becomes(&c, sn_result(red, i), sn_put_load(b->m, at, (b->runs ? b->total : b->acc)[i], e));
    sn_window_put_stores(&c, w);
}

/* ---- binding ---- */

static void make_buffers(binding *b) {
    const sn_stmt_rec *red = reduction(b);
    int64_t own = b->t.own_planes * b->t.own_rows * width_of(b);
    b->patch = sn_local_new(b->m, "patch", sn_val_get(b->m, b->w.value)->dtype, SN_BUF_SHARED,
                            b->w.steps * b->t.row_places * b->t.pitch, 1);
    for (uint32_t i = 0; i < red->n_results; i++) {
        sn_dtype dtype = sn_val_get(b->m, sn_result(red, i))->dtype;
        b->acc[i] = sn_local_new(b->m, "acc", dtype, SN_BUF_REG, own, 1);
        if (b->runs) b->total[i] = sn_local_new(b->m, "total", dtype, SN_BUF_SHARED, own, 1);
    }
}

void sn_schedule_window_host_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    binding b = {.cx = cx, .m = m, .k = k};
    const char *why_not;
    bool fits = sn_window_find(&b.w, &why_not, cx, k, sh) && sn_window_task_find(&b.t, &b.w, sc);
    SN_ASSERT(fits);
    (void)fits;
    b.n_vals = m->vals.count;
    find_loops(&b);
    make_buffers(&b);
    sn_cursor at = sn_window_open_grid(b.task, m, k, b.t.tasks, SN_COUNT(b.t.tasks), b.t.together);
    put_patch(&b, at);
    b.block[0] = sn_open_loop(b.m, &at, "jb", b.t.blocks_plane, SN_AXIS_SEQ);
    b.block[1] = sn_open_loop(b.m, &at, "ib", b.t.block_rows, SN_AXIS_SEQ);
    b.block[2] = sn_open_loop(b.m, &at, "qb", b.t.block_columns, SN_AXIS_SEQ);
    put_windows(&b, at);
    put_rest(&b, at);
    sn_stmt_unlink(m, sh->outer.at[0]);
}
