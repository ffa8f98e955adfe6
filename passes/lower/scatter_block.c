/* scatter_block.c: scatters that combine into few rows, on a GPU. Part of the pass `to-loops`.
 *
 *     %y = scatter_sum %x, %index, %updates : f32[128, 64]         1000003 updates, 48 threads: 3 walkers, 16 threads with 4 elements each
 *
 *     loop g in 264 : grid {                                       a part of the updates
 *       loop x in 48 : block.x { sums = 0 }                        sums[row, walker, element]: its own elements
 *       loop c in 79 {
 *         loop x in 48 : block.x { rows[x] = index[..] }           of the 48 updates of three walkers' batches
 *         loop x in 48 : block.x { loop b in 16 : unroll { value[b] = updates[.., elements of x] } }
 *         barrier
 *         loop x in 48 : block.x { loop b in 16 : unroll { sums[rows[..], x] += value[b] } } }
 *       loop x in 48 : block.x { parts[g] = the sums of all walkers, in their order } }
 *     loop i in 128 { loop j in 64 { y[i, j] = x[i, j] + sum p in 264 { parts[p, i, j] } } }
 *
 * Sums are in shared memory, and only one thread adds to an element of them, in the order of the updates: there are no atomic operations,
 * and the bits are the same in each run. Threads that follow one another read what follows one another in memory, and
 * meet in no bank of shared memory. Updates that go nowhere go to a row behind the last. The kernel is scheduled as it is made; the pass
 * `sync` puts the other barriers. Cost: the updates once, and a shared load and store for each element; parts are a small share of
 * the updates (base/scatter.c).
 */
#include "passes/base/nest.h"
#include "passes/base/scatter.h"
#include "passes/lower/scatter.h"

enum { COPIES = 2 /* of the rows of a batch */, ABREAST = 4 /* elements that a thread hands on side by side */ };

typedef struct block {
    sn_scattered *s;
    sn_lower *lw;
    sn_module *m;
    const sn_scatter_plan *p;
    sn_buf sums, rows;  /* shared; rows: where the updates of a batch go */
    sn_buf values, own; /* registers: a thread's elements of a batch, and where they go */
    sn_ix part, strip;
    sn_ix x, adder, walker, column; /* thread; which adder it is; its walker, and its first element in the strip */
    sn_val adds;                    /* is it one? none: all are */
} block;

static sn_ix plus(block *b, sn_ix x, sn_ix y) { return sn_ix_add(b->m, x, y); }
static sn_ix times(block *b, sn_ix x, int64_t c) { return sn_ix_scale(b->m, x, c); }

static void open_threads(block *b) { b->x = sn_scattered_loop(b->s, "x", b->p->threads, SN_AXIS_BLOCK_X); }

static void open_adders(block *b) {
    int64_t across = b->p->columns / b->p->lanes;
    open_threads(b);
    b->adds = (sn_val){0};
    sn_ix adders = sn_ix_const(b->m, b->p->adders);
    sn_lower_guard(b->lw, &b->adds, b->x, adders);
    b->adder = b->adds.i ? sn_lower_clamped(b->lw, b->x, adders) : b->x;
    b->walker = sn_ix_divc(b->m, b->adder, across);
    b->column = times(b, sn_ix_modc(b->m, b->adder, across), b->p->lanes);
}

/* The sum of an adder for element `lane` of its own, in that row. */
static sn_ix in_sums(block *b, sn_ix row, sn_ix adder, sn_ix lane) {
    return plus(b, times(b, plus(b, times(b, row, b->p->adders), adder), b->p->lanes), lane);
}

static sn_ix in_own(block *b, sn_ix i) { return plus(b, times(b, b->x, b->p->batch), i); }
static sn_ix in_values(block *b, sn_ix i, sn_ix lane) { return plus(b, times(b, in_own(b, i), b->p->lanes), lane); }

static void put_identity(block *b) {
    sn_cursor outside = b->lw->at;
    int64_t all = (b->p->rows + 1) * b->p->adders;
    open_threads(b);
    sn_ix i = sn_scattered_loop(b->s, "i", sn_ceil_div(all, b->p->threads), SN_AXIS_SEQ);
    sn_ix of = plus(b, times(b, i, b->p->threads), b->x), lane;
    sn_val inside = {0};
    sn_lower_guard(b->lw, &inside, of, sn_ix_const(b->m, all));
    lane = sn_scattered_loop(b->s, "v", b->p->lanes, SN_AXIS_VECTOR);
    if (inside.i) of = sn_lower_clamped(b->lw, of, sn_ix_const(b->m, all));
    sn_ix at = in_sums(b, sn_ix_const(b->m, 0), of, lane);
    if (inside.i) sn_put_store_masked(b->m, b->lw->at, b->sums, at, sn_scattered_identity(b->s), inside);
    else sn_put_store(b->m, b->lw->at, b->sums, at, sn_scattered_identity(b->s));
    b->lw->at = outside;
}

/* Where the updates of the block's batch go, of which the first is number `first`: each found by one thread, for all who
 * add its elements. */
static void put_rows(block *b, sn_ix first, sn_ix copy) {
    int64_t all = b->p->batch * b->p->walkers;
    sn_lower *lw = b->lw;
    sn_cursor outside = lw->at;
    open_threads(b);
    sn_ix i = sn_scattered_loop(b->s, "u", sn_ceil_div(all, b->p->threads), SN_AXIS_UNROLL);
    sn_ix e = plus(b, times(b, i, b->p->threads), b->x);
    sn_val inside = {0};
    sn_lower_guard(lw, &inside, e, sn_ix_const(b->m, all));
    b->s->update = plus(b, first, e);
    sn_val row = sn_scattered_row(b->s);
    sn_ix at = plus(b, times(b, copy, all), sn_lower_clamped(lw, e, sn_ix_const(b->m, all)));
    if (inside.i) sn_put_store_masked(b->m, lw->at, b->rows, at, row, inside);
    else sn_put_store(b->m, lw->at, b->rows, at, row);
    lw->at = outside;
}

/* The elements of a thread's own updates, to registers. */
static void put_loads(block *b, sn_ix first) {
    sn_lower *lw = b->lw;
    sn_cursor outside = lw->at;
    open_adders(b);
    sn_ix i = sn_scattered_loop(b->s, "b", b->p->batch, SN_AXIS_UNROLL);
    b->s->update = plus(b, plus(b, first, b->walker), times(b, i, b->p->walkers));
    sn_ix lane = sn_scattered_loop(b->s, "v", b->p->lanes, SN_AXIS_VECTOR);
    sn_ix e = plus(b, plus(b, times(b, b->strip, b->p->columns), b->column), lane);
    sn_val here = b->adds;
    sn_lower_guard(lw, &here, b->s->update, sn_ix_const(b->m, b->p->count));
    sn_lower_guard(lw, &here, e, sn_ix_const(b->m, b->p->width));
    lw->mask = here;
    sn_put_store(b->m, lw->at, b->values, in_values(b, i, lane), sn_scattered_value(b->s, e));
    lw->mask = (sn_val){0};
    lw->at = outside;
}

/* Rows of a thread's own updates, all before the first sum: stores of sums would stand in their way. */
static void put_own_rows(block *b, sn_ix copy) {
    sn_lower *lw = b->lw;
    sn_cursor outside = lw->at;
    open_adders(b);
    sn_ix i = sn_scattered_loop(b->s, "b", b->p->batch, SN_AXIS_UNROLL);
    sn_ix from = plus(b, times(b, copy, b->p->batch * b->p->walkers), plus(b, times(b, i, b->p->walkers), b->walker));
    sn_put_store(b->m, lw->at, b->own, in_own(b, i), sn_put_load(b->m, lw->at, b->rows, from));
    lw->at = outside;
}

static void put_sums(block *b) {
    sn_lower *lw = b->lw;
    sn_cursor outside = lw->at;
    open_adders(b);
    sn_ix i = sn_scattered_loop(b->s, "b", b->p->batch, SN_AXIS_UNROLL);
    sn_ix row = sn_ix_val(b->m, sn_put_load(b->m, lw->at, b->own, in_own(b, i)));
    row = sn_lower_clamped(lw, row, sn_ix_const(b->m, b->p->rows + 1));
    sn_ix lane = sn_scattered_loop(b->s, "v", b->p->lanes, SN_AXIS_VECTOR), at = in_sums(b, row, b->adder, lane);
    sn_val v = sn_put_load(b->m, lw->at, b->values, in_values(b, i, lane)), adds = b->adds,
           sum =
               adds.i ? sn_put_load_masked(b->m, lw->at, b->sums, at, adds, v) : sn_put_load(b->m, lw->at, b->sums, at);
    sum = sn_put_op2(b->m, lw->at, b->s->combine, sum, v);
    if (adds.i) sn_put_store_masked(b->m, lw->at, b->sums, at, sum, adds);
    else sn_put_store(b->m, lw->at, b->sums, at, sum);
    lw->at = outside;
}

/* The barrier is there for the rows, and so that all of the batch is on its way before the first sum waits for it. The next batch has its rows
 * in the other copy: who writes it has passed the barrier that everybody comes to who has read it. */
static void put_updates(block *b) {
    const sn_scatter_plan *p = b->p;
    sn_cursor outside = b->lw->at;
    sn_ix c = sn_scattered_loop(b->s, "c", p->steps / p->batch, SN_AXIS_SEQ), copy = sn_ix_modc(b->m, c, COPIES);
    sn_ix step = plus(b, times(b, b->part, p->steps), times(b, c, p->batch)), first = times(b, step, p->walkers);
    put_rows(b, first, copy);
    put_loads(b, first);
    sn_put_barrier(b->m, b->lw->at);
    put_own_rows(b, copy);
    put_sums(b);
    b->lw->at = outside;
}

typedef struct of_walkers {
    block *b;
    sn_ix at;
} of_walkers;

static void emit_walker(sn_lower *lw, void *user, const sn_ix *index, sn_val *yield) {
    const of_walkers *w = user;
    block *b = w->b;
    yield[0] = sn_put_load(b->m, lw->at, b->sums, plus(b, times(b, index[0], b->p->columns), w->at));
}

/* Element e of the block's rows: of all walkers, one after the other. */
static void put_results(block *b) {
    const sn_scatter_plan *p = b->p;
    sn_lower *lw = b->lw;
    sn_cursor outside = lw->at;
    int64_t elements = p->rows * p->columns;
    open_threads(b);
    sn_ix i = sn_scattered_loop(b->s, "i", sn_ceil_div(elements, p->threads * ABREAST), SN_AXIS_SEQ);
    i = plus(b, times(b, i, ABREAST), sn_scattered_loop(b->s, "u", ABREAST, SN_AXIS_UNROLL));
    sn_ix e = plus(b, times(b, i, p->threads), b->x), j = sn_ix_modc(b->m, e, p->columns),
          row = sn_ix_divc(b->m, e, p->columns);
    sn_ix column = plus(b, times(b, b->strip, p->columns), j);
    sn_val mask = {0}, v;
    sn_lower_guard(lw, &mask, row, sn_ix_const(b->m, p->rows));
    sn_lower_guard(lw, &mask, column, sn_ix_const(b->m, p->width));
    sn_ix inside = sn_lower_clamped(lw, row, sn_ix_const(b->m, p->rows));
    of_walkers w = {b, plus(b, times(b, inside, p->adders * p->lanes), j)};
    sn_ix walkers = sn_ix_const(b->m, p->walkers);
    if (p->walkers > 1) sn_lower_reduce_nest(lw, &v, b->s->comb, 1, &b->s->dtype, &walkers, 1, emit_walker, &w);
    else v = sn_put_load(b->m, lw->at, b->sums, w.at);
    sn_ix to = plus(b, times(b, plus(b, times(b, b->part, p->rows), row), p->width), column);
    if (mask.i) sn_put_store_masked(b->m, lw->at, b->s->to, to, v, mask);
    else sn_put_store(b->m, lw->at, b->s->to, to, v);
    lw->at = outside;
}

static sn_buf registers(block *b, const char *name, sn_dtype dtype, int64_t elements) {
    const char *kernel = sn_kern_get(b->m, b->lw->kern)->name;
    return sn_local_new(b->m, sn_strf(&b->m->arena, "%s_%s", kernel, name), dtype, SN_BUF_REG, elements, b->p->threads);
}

void sn_lower_scatter_blocks(sn_scattered *s) {
    const sn_scatter_plan *p = &s->plan;
    block b = {.s = s, .lw = s->lw, .m = s->m, .p = p};
    b.sums = sn_scattered_shared(s, "sums", s->dtype, (p->rows + 1) * p->adders * p->lanes);
    b.rows = sn_scattered_shared(s, "rows", SN_I32, COPIES * p->batch * p->walkers);
    b.values = registers(&b, "values", s->dtype, p->batch * p->lanes);
    b.own = registers(&b, "own", SN_I32, p->batch);
    sn_ix g = sn_scattered_loop(s, "g", p->parts * p->strips, SN_AXIS_GRID);
    b.part = sn_ix_divc(b.m, g, p->strips), b.strip = sn_ix_modc(b.m, g, p->strips);
    put_identity(&b);
    put_updates(&b);
    put_results(&b);
}
