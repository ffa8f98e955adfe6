/* sweep.c: class outer for kernels without nests: threads sweep over rows with columns that stay theirs.
 *
 *     loop i in N { loop j in C { load x[C*i + j]  load t[j]  log  sub  store y[C*i + j] } }
 *  -> thread n of T: loop v in V : vector { load t[(V*n + v) mod C]  log
 *                      loop q { load x[V*n + v + S*q]  sub  store y[V*n + v + S*q] } }
 *
 * What follows a reduction over the first axis is of that kind: a softmax over columns, a norm over the batch. Class element has
 * every element find out which column it is of, load what belongs to that, and compute what all rows have in common once more; of
 * odd rows lane by lane. Here S is a number of whole rows and of whole vectors, so that a thread's lanes have the same columns
 * in each step, and what is of columns stands in front of the loop, while all accesses are whole vectors however odd rows are.
 *
 * All threads that run at a time go on side by side through memory, in turns of T vectors, from its end to its beginning. Axes in front
 * of the one that is swept (batches) have threads of their own. The turns that come first are tested, vector by vector; what is left
 * behind the last whole vector is done by the first threads of the first block, one by one.
 *
 * Only straight-line kernels whose large accesses all walk their loops in row-major order, and only where what is of columns takes
 * longer than threads with many steps cost. Relies on element.c for all else. Cost: linear in the kernel.
 */
#include "ir/base/notes.h"
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/base/model.h"

/* ---- is it one? ---- */

typedef struct sweep {
    sn_pass_ctx *cx;
    sn_module *m;
    const sn_schedule_shape *sh;
    int64_t extents[SN_MAX_CHAIN];
    uint32_t at;                  /* the loop over rows, in the outer ones */
    int64_t batches, rows, along; /* iterations in front of it; of it; behind it: columns */
    uint32_t bytes;               /* of the smallest element that is walked */
    uint32_t stored;              /* of the largest one that is stored */
    uint32_t moved;               /* of all that an element has in memory */
    double saved;                 /* instructions of an element that are of its column */
} sweep;

static bool uses_rows(const sweep *sw, sn_ix e) {
    return sn_ix_uses_axis(sw->m, e, sn_stmt_axis(sw->m, sw->sh->outer.at[sw->at]));
}

/* Does the access belong to the column: the same in all rows? */
static bool is_of_column(const sweep *sw, const sn_stmt_rec *r) {
    return r->op == SN_LOP_LOAD && !uses_rows(sw, r->ix);
}

/* The loop that no access but those of whole rows uses: the first one from outside. */
static bool find_rows(sweep *sw) {
    sn_module *m = sw->m;
    for (sw->at = 0; sw->at + 1 < sw->sh->outer.n; sw->at++) {
        bool fits = sw->extents[sw->at] > 1, columns = false;
        for (sn_stmt s = sn_stmt_get(m, sw->sh->body)->first; s.i && fits; s = sn_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            if (r->op == SN_LOP_INDEX) fits = !uses_rows(sw, r->ix);
            if (!r->buf.i || sn_schedule_walks_all(m, sw->sh, r->ix)) continue;
            fits &= is_of_column(sw, r);
            for (uint32_t k = sw->at + 1; k < sw->sh->outer.n; k++)
                columns |= sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, sw->sh->outer.at[k]));
        }
        if (fits && columns) return true;
    }
    return false;
}

/* Straight-line code that walks its loops; what it accesses otherwise it loads. */
static bool is_plain(sweep *sw) {
    sn_module *m = sw->m;
    bool loads = false;
    for (sn_stmt s = sn_stmt_get(m, sw->sh->body)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        bool access = r->op == SN_LOP_LOAD || r->op == SN_LOP_STORE;
        bool scalar = r->op < SN_N_LOPS || r->op == SN_LOP_CAST || r->op == SN_LOP_CONST || r->op == SN_LOP_INDEX;
        if (!access && !scalar) return false;
        if (!access) continue;
        if (r->has_mask || sn_ix_uses_vals(m, r->ix) || !sn_buf_is_global(sn_buf_get(m, r->buf))) return false;
        bool whole = sn_schedule_walks_all(m, sw->sh, r->ix);
        uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        if (!whole) continue;
        int64_t first = sn_ix_get(m, r->ix)->c0;
        if (first && sn_pow2_divisor(first) * bytes < sw->cx->target->vector_bytes) return false;
        sn_schedule_smaller(&sw->bytes, bytes);
        sw->moved += bytes;
        loads |= r->op == SN_LOP_LOAD;
        if (r->op == SN_LOP_STORE && bytes > sw->stored) sw->stored = bytes;
    }
    return loads && sw->stored;
}

/* ---- what is of columns ---- */

typedef struct columns {
    sn_stmt_vec stmts; /* in order */
    sn_notes vals;     /* of their results */
} columns;

static bool is_column_value(const columns *c, sn_val v) {
    uint64_t unused;
    return sn_notes_find(&c->vals, v.i, &unused);
}

static columns find_columns(const sweep *sw) {
    sn_module *m = sw->m;
    columns out = {.vals.arena = sw->cx->scratch};
    for (sn_stmt s = sn_stmt_get(m, sw->sh->body)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        bool of_column = r->op == SN_LOP_LOAD ? is_of_column(sw, r) : r->op != SN_LOP_STORE;
        for (uint32_t i = 0; i < r->n_in && of_column; i++) of_column = is_column_value(&out, r->in[i]);
        if (!of_column) continue;
        SN_PUSH(sw->cx->scratch, &out.stmts, s);
        for (uint32_t i = 0; i < r->n_results; i++) sn_notes_add(&out.vals, sn_result(r, i).i);
    }
    return out;
}

static uint32_t lanes_of(const sweep *sw) {
    uint32_t v = sn_widest(sw->cx, sw->bytes);
    return sn_least(v, sn_least(sw->cx->target->vector_bytes, sw->cx->target->io_align) / sw->stored);
}

/* What an element takes for its column: a load where lanes do not lie side by side in whole vectors, and what is computed of that. A
 * division by what stays is a product. */
static void count_saved(sweep *sw) {
    sn_module *m = sw->m;
    columns of = find_columns(sw);
    sn_axis last = sn_stmt_axis(m, sw->sh->body);
    uint32_t v = lanes_of(sw);
    int64_t c;
    for (sn_stmt s = sn_stmt_get(m, sw->sh->body)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        bool of_column = r->n_results && is_column_value(&of, r->result);
        if (of_column && r->op == SN_LOP_LOAD) {
            bool side =
                sn_last_outer_extent(sw->cx, sw->sh) % v == 0 && sn_ix_coef(m, r->ix, last, &c) && c >= 0 && c <= 1;
            sw->saved += side ? 1.0 / v : SN_SWEEP_LANE;
        } else if (of_column && r->op != SN_LOP_CONST) {
            sw->saved += sn_schedule_op_cost(r->op);
        } else if (r->op == SN_LOP_DIV && is_column_value(&of, r->in[1])) {
            sw->saved += sn_schedule_op_cost(r->op) - 1;
        }
    }
}

static bool look(sweep *sw, sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    *sw = (sweep){.cx = cx, .m = cx->m, .sh = sh, .batches = 1, .along = 1};
    if (!cx->target->is_gpu || sh->n_nests || sh->scans || sh->windows || sh->mixed || sh->team || sh->outer.n < 2)
        return false;
    if (!sh->all_perfect) return false;
    for (uint32_t k = 0; k < sh->outer.n; k++)
        sw->extents[k] = sn_ix_value(cx->m, sn_stmt_extent(cx->m, sh->outer.at[k]));
    if (!is_plain(sw) || !find_rows(sw)) return false;
    sw->rows = sw->extents[sw->at];
    for (uint32_t k = 0; k < sh->outer.n; k++)
        if (k != sw->at) *(k < sw->at ? &sw->batches : &sw->along) *= sw->extents[k];
    count_saved(sw);
    return true;
}

/* ---- choosing ---- */

/* Vectors after which columns come again in the same lanes. */
static int64_t period_of(const sweep *sw, uint32_t vector) { return sw->along / sn_schedule_gcd(sw->along, vector); }

/* Threads of a batch: whole periods, about as many as run at a time. */
static int64_t threads_of(const sweep *sw, const sn_sched *sc) {
    int64_t period = period_of(sw, sc->vector),
            wanted = (int64_t)sw->cx->target->units * SN_SWEEP_THREADS / sw->batches;
    int64_t most = sn_ceil_div(sw->rows * sw->along, sc->vector * period), n = wanted / period;
    return period * (n < 1 ? 1 : n < most ? n : most);
}

static int64_t steps_of(const sweep *sw, const sn_sched *sc) {
    return sn_ceil_div(sw->rows * sw->along, sc->vector * threads_of(sw, sc));
}

bool sn_schedule_sweep_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sweep sw;
    (void)k;
    *why_not = "its rows have nothing in common that is worth keeping";
    return look(&sw, cx, sh);
}

/* A batch begins with a vector, or there is one alone. */
static bool is_worth_it(const sweep *sw, const sn_sched *sc) {
    int64_t threads = threads_of(sw, sc), all = threads * sw->batches;
    if (sw->batches > 1 && sw->rows * sw->along % sc->vector) return false;
    if (sw->saved < SN_SWEEP_SAVES * sw->moved || steps_of(sw, sc) < SN_SWEEP_STEPS) return false;
    return all * 100 >= (int64_t)sw->cx->target->units * SN_SWEEP_THREADS * SN_SWEEP_FULL && all <= INT32_MAX;
}

sn_status sn_schedule_sweep_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                       const sn_sched *pinned) {
    sweep sw;
    sn_sched one = *pinned;
    (void)k;
    if (pinned->teams || pinned->cluster > 1) return SN_OK; /* blocks of a sweep have nothing in common */
    if (!look(&sw, cx, sh)) return SN_OK;
    one.cls = SN_SCHED_OUTER;
    if (!one.vector) one.vector = lanes_of(&sw);
    if (!one.block_x) one.block_x = SN_ELEMENT_THREADS;
    one.block_y = 1;
    if (!one.unroll) one.unroll = sn_least(SN_SWEEP_LOADS, sn_pow2_floor(steps_of(&sw, &one)));
    bool whole = sw.batches == 1 || sw.rows * sw.along % one.vector == 0;
    if (pinned->cls == SN_SCHED_NONE ? is_worth_it(&sw, &one)
                                     : whole && sn_mul_clamped(sw.rows, sw.along) >= one.vector)
        sn_schedule_propose(out, cx, &one);
    return SN_OK;
}

/* ---- binding ---- */

typedef struct binding {
    sweep sw;
    sn_kern k;
    sn_sched *sc;
    sn_axis axes[SN_MAX_CHAIN]; /* of the outer loops */
    sn_ix parts[SN_MAX_CHAIN];  /* of the batch */
    sn_ix thread, lane;         /* the number of the thread in its batch */
    int64_t threads, stride, whole;
} binding;

static sn_stmt put_loop(binding *bi, sn_stmt into, const char *name, int64_t extent, sn_axis_kind kind, sn_ix *out) {
    sn_axis ax = sn_axis_new(bi->sw.m, name, sn_ix_const(bi->sw.m, extent));
    *out = sn_ix_axis(bi->sw.m, ax);
    return sn_put_loop(bi->sw.m, sn_at_end(bi->k, into), ax, kind);
}

/* The statement is about the element e of the batch. */
static void subst(binding *bi, sn_stmt s, sn_ix e) {
    sn_module *m = bi->sw.m;
    sn_ix shape[SN_MAX_CHAIN];
    uint32_t n = bi->sw.sh->outer.n, at = bi->sw.at;
    for (uint32_t k = at; k < n; k++) shape[k - at] = sn_ix_const(m, bi->sw.extents[k]);
    sn_ix_unflatten(m, e, shape, n - at, bi->parts + at);
    sn_stmt_subst(m, s, bi->axes, bi->parts, n);
}

/* All statements of `from`, about the element e, go to the end of `into`. */
static void move_all(binding *bi, sn_stmt from, sn_stmt into, sn_ix e) {
    sn_module *m = bi->sw.m;
    for (sn_stmt s = sn_stmt_get(m, from)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        subst(bi, s, e);
        sn_stmt_insert(m, sn_at_end(bi->k, into), s);
    }
    sn_stmt_unlink(m, from);
}

static sn_ix element_of(const binding *bi, sn_ix step) {
    sn_module *m = bi->sw.m;
    sn_ix vector = sn_ix_scale(m, bi->thread, bi->sc->vector);
    return sn_ix_add(m, sn_ix_add(m, vector, sn_ix_scale(m, step, bi->stride)), bi->lane);
}

/* From the end of memory back, of which the L2 has what the kernel in front has read last: steps of which some threads have none, then
 * those that all have, as many as are written out, again and again. */
static void put_steps(binding *bi, sn_stmt into, sn_stmt rest) {
    sn_module *m = bi->sw.m;
    int64_t u = bi->sc->unroll, full = bi->whole / bi->stride, turns = full / u;
    int64_t left = sn_ceil_div(bi->whole - turns * u * bi->stride, bi->stride);
    sn_ix turn, step;
    sn_stmt late = left ? sn_stmt_clone(m, sn_at_end(bi->k, (sn_stmt){0}), rest) : (sn_stmt){0};
    if (left) {
        sn_stmt steps = put_loop(bi, into, "u", left, SN_AXIS_UNROLL, &step);
        step = sn_ix_addc(m, step, turns * u);
        sn_ix lane = bi->lane;
        bi->lane = sn_ix_const(m, 0);
        sn_ix first = element_of(bi, step);
        bi->lane = lane;
        move_all(bi, late, sn_put_if(m, sn_at_end(bi->k, steps), first, sn_ix_const(m, bi->whole)),
                 element_of(bi, step));
    }
    if (turns) {
        into = put_loop(bi, into, "q", turns, SN_AXIS_SEQ, &turn);
        turn = sn_ix_sub(m, sn_ix_const(m, turns - 1), turn);
        into = put_loop(bi, into, "u", u, SN_AXIS_UNROLL, &step);
        move_all(bi, rest, into, element_of(bi, sn_ix_add(m, sn_ix_scale(m, turn, u), step)));
        sn_schedule_loads_of_steps(bi->sw.cx, bi->k, sn_stmt_get(m, into)->parent, (sn_stmt){0}, bi->sc);
    } else {
        sn_stmt_unlink(m, rest);
    }
}

/* Behind the last whole vector. */
static void put_tail(binding *bi, sn_stmt threads, sn_ix g, sn_ix x, sn_stmt body) {
    sn_module *m = bi->sw.m;
    int64_t rest = bi->sw.rows * bi->sw.along - bi->whole;
    sn_stmt into = sn_put_if(m, sn_at_end(bi->k, threads), g, sn_ix_const(m, 1));
    into = sn_put_if(m, sn_at_end(bi->k, into), x, sn_ix_const(m, rest));
    move_all(bi, body, into, sn_ix_addc(m, x, bi->whole));
}

/* The body in a loop of its own, which is returned. */
static sn_stmt take_body(binding *bi) {
    sn_module *m = bi->sw.m;
    sn_stmt_vec body = {0};
    sn_ix unused;
    sn_schedule_take_body(&body, bi->sw.cx, bi->k, bi->sw.sh);
    sn_stmt holder = put_loop(bi, (sn_stmt){0}, "none", 1, SN_AXIS_SEQ, &unused);
    for (uint32_t i = 0; i < body.n; i++) sn_stmt_insert(m, sn_at_end(bi->k, holder), body.at[i]);
    return holder;
}

/* Where threads of the batch stand that have columns. */
static sn_stmt put_threads(binding *bi, sn_ix *g, sn_ix *x, sn_stmt *in_block) {
    sn_module *m = bi->sw.m;
    uint32_t block = bi->sc->block_x;
    int64_t blocks = sn_ceil_div(bi->threads, block);
    sn_ix shape[SN_MAX_CHAIN], batch = sn_ix_const(m, 0);
    sn_stmt into = put_loop(bi, (sn_stmt){0}, "g", blocks * bi->sw.batches, SN_AXIS_GRID, g);
    *in_block = into = put_loop(bi, into, "x", block, SN_AXIS_BLOCK_X, x);
    sn_ix of_batch = *g;
    if (bi->sw.batches > 1) batch = sn_ix_divc(m, *g, blocks), of_batch = sn_ix_modc(m, *g, blocks);
    for (uint32_t k = 0; k < bi->sw.at; k++) shape[k] = sn_ix_const(m, bi->sw.extents[k]);
    sn_ix_unflatten(m, batch, shape, bi->sw.at, bi->parts);
    bi->thread = sn_ix_add(m, sn_ix_scale(m, of_batch, block), *x);
    if (bi->threads % block) into = sn_put_if(m, sn_at_end(bi->k, into), bi->thread, sn_ix_const(m, bi->threads));
    return into;
}

void sn_schedule_sweep_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    binding bi = {.k = k, .sc = sc, .lane = sn_ix_const(m, 0)};
    bool found = look(&bi.sw, cx, sh);
    SN_ASSERT(found), (void)found;
    for (uint32_t a = 0; a < sh->outer.n; a++) bi.axes[a] = sn_stmt_axis(m, sh->outer.at[a]);
    bi.threads = threads_of(&bi.sw, sc);
    bi.stride = bi.threads * sc->vector;
    bi.whole = bi.sw.rows * bi.sw.along / sc->vector * sc->vector;
    sn_stmt_vec columns = find_columns(&bi.sw).stmts;
    sn_stmt body = take_body(&bi), threads, tail = {0};
    sn_ix g, x;
    if (bi.whole < bi.sw.rows * bi.sw.along) tail = sn_stmt_clone(m, sn_at_end(k, (sn_stmt){0}), body);
    sn_stmt into = put_threads(&bi, &g, &x, &threads);
    if (sc->vector > 1) into = put_loop(&bi, into, "v", sc->vector, SN_AXIS_VECTOR, &bi.lane);
    sn_ix first = element_of(&bi, sn_ix_const(m, 0));
    for (uint32_t i = 0; i < columns.n; i++) {
        sn_stmt_unlink(m, columns.at[i]);
        subst(&bi, columns.at[i], first);
        sn_stmt_insert(m, sn_at_end(k, into), columns.at[i]);
    }
    put_steps(&bi, into, body);
    if (tail.i) put_tail(&bi, threads, g, x, tail);
}
