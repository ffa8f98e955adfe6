/* window_taps_bind.c: binding of class taps: a thread has the sums of many taps, to which it adds what a run of places gives them.
 *
 *     loop g in tiles : grid {                                  some taps, of a channel
 *       loop s in parts : grid {                                positions of the sum
 *         loop y : block.y { loop x : block.x {
 *           acc = 0
 *           loop i {                                            a position is a run of Q places of the line, and one of each other loop
 *             held[q] = g[.. q ..]                              the factor that does not see taps
 *             loop a : unroll {                                 taps across the line
 *               line[e] = x[.. e ..], e in r*(Q - 1) + K        the other one
 *               loop q, k : unroll { acc[a, k] += line[r*q + k] * held[q] }
 *             } } } }
 *         sums[y, ..] = acc                                     of a warp, or of lanes that are channels
 *         loop y, x { parts[g, s, ..] = sum y { sums[y, ..] } }
 *       }
 *       loop y, x { the body, of sum s { parts[g, s, ..] } }    by the block that is the last one of the tile
 *     }
 *
 * So an element comes from the nearest cache once for K taps, neighbouring lanes read neighbours in memory, and borders are
 * looked at once for an element. Blocks add their sums up in one order, so that results are the same bits from run to run. Runs that do not divide
 * the line leave what is beyond out, place by place, and tiles that do not divide an axis compute some results twice, of
 * which one is stored.
 */
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/windows/window_taps.h"

enum { WRITTEN_PARTS = 16 /* parts whose loads go together */ };

typedef struct binding {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_taps t;
    sn_taps_tile p;
    sn_ix tile, part;           /* of the block */
    sn_ix block[SN_TAPS_PARTS]; /* its number along parts */
    sn_buf acc, line, held, sums, parts;
    uint32_t n_vals; /* that the module had */
} binding;

static bool has_lanes(const binding *b) { return b->t.n[SN_TAPS_LANES] > 1; }
static sn_ix number(binding *b, int64_t n) { return sn_ix_const(b->m, n); }

typedef struct thread {
    sn_ix x, y;
} thread;

static thread open_threads(binding *b, sn_cursor *at) {
    thread t;
    t.y = sn_open_loop(b->m, at, "y", b->p.rows, SN_AXIS_BLOCK_Y);
    t.x = sn_open_loop(b->m, at, "x", b->p.lanes, SN_AXIS_BLOCK_X);
    return t;
}

/* Register e of a thread. */
static sn_ix own(binding *b, sn_buf buf, thread t, sn_ix e) {
    return sn_ix_fma(b->m, sn_buf_get(b->m, buf)->private_size, sn_ix_fma(b->m, b->p.lanes, t.y, t.x), e);
}

/* ---- places ---- */

/* A tap, and what else tells a result of the block's tile from another one. */
typedef struct result {
    sn_ix lane, still, moved, tap;
} result;

static int64_t own_of(const binding *b, sn_taps_part part) {
    const sn_taps_tile *p = &b->p;
    const int64_t own[SN_TAPS_PARTS] = {1, p->lanes, p->taps, p->moved, p->still};
    return own[part];
}

/* The iteration of a part that number i of the block's is: the last ones where there are none. */
static sn_ix clamped(binding *b, sn_taps_part part, sn_ix i) {
    int64_t n = b->t.n[part], own = own_of(b, part);
    sn_ix first = sn_ix_scale(b->m, b->block[part], own);
    if (n % own == 0) return sn_ix_add(b->m, first, i);
    if (n < own) return sn_ix_min(b->m, i, number(b, n - 1));
    return sn_ix_add(b->m, sn_ix_min(b->m, first, number(b, n - own)), i);
}

/* Is it one that another block has not, too? */
static sn_val put_is_own(binding *b, sn_cursor at, sn_val mask, sn_taps_part part, sn_ix i) {
    int64_t n = b->t.n[part], own = own_of(b, part);
    if (n % own == 0) return mask;
    sn_ix first = sn_ix_scale(b->m, b->block[part], own);
    sn_ix e = n < own ? i : sn_ix_sub(b->m, clamped(b, part, i), first);
    sn_val in = sn_put_in(b->m, at, e, number(b, n < own ? n : own));
    return mask.i ? sn_put_op2(b->m, at, SN_LOP_AND, mask, in) : in;
}

static void set_axis(sn_contraction_copier *c, sn_axis ax, sn_ix e) {
    c->axes[c->n] = ax;
    c->with[c->n++] = e;
}

/* The outer axes of a part become the row-major parts of its number. */
static void set_part(binding *b, sn_contraction_copier *c, sn_taps_part part, sn_ix at) {
    sn_ix shape[SN_MAX_CHAIN], digits[SN_MAX_CHAIN];
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->t.c.outer.n; i++)
        if (b->t.part[i] == part) shape[n++] = number(b, b->t.c.extent[i]);
    if (!n) return;
    sn_ix_unflatten(b->m, at, shape, n, digits);
    n = 0;
    for (uint32_t i = 0; i < b->t.c.outer.n; i++)
        if (b->t.part[i] == part) set_axis(c, sn_stmt_axis(b->m, b->t.c.outer.at[i]), digits[n++]);
}

static void set_block(binding *b, sn_contraction_copier *c, const result *r) {
    set_part(b, c, SN_TAPS_BATCH, b->block[SN_TAPS_BATCH]);
    if (has_lanes(b)) set_part(b, c, SN_TAPS_LANES, clamped(b, SN_TAPS_LANES, r->lane));
    set_part(b, c, SN_TAPS_MOVED, clamped(b, SN_TAPS_MOVED, r->moved));
    set_part(b, c, SN_TAPS_STILL, clamped(b, SN_TAPS_STILL, r->still));
}

/* Where a thread is in the sum: loops of the nest, that of the line at the first place of the run. */
typedef struct position {
    thread t;
    sn_ix at[SN_MAX_CHAIN];
    sn_ix place;
} position;

/* Does the last run of the line go beyond it? */
static bool goes_beyond(const binding *b) { return b->t.places % (b->p.run * b->t.apart) != 0; }

static sn_ix place_of(binding *b, const position *o, sn_ix q) { return sn_ix_fma(b->m, b->t.apart, q, o->place); }

/* Copies of a factor `place` places behind the first one of the run, with the line's tap number `tap`. */
static void start_copier(binding *b, sn_contraction_copier *c, sn_cursor at, const position *o, const result *r,
                         sn_ix place, sn_ix tap) {
    sn_contraction_copier_start(c, b->cx, at, b->n_vals);
    set_block(b, c, r);
    set_part(b, c, SN_TAPS_LINE, tap);
    for (uint32_t i = 0; i < b->t.c.inner.n; i++)
        set_axis(c, sn_stmt_axis(b->m, b->t.c.inner.at[i]), i == b->t.loop ? place : o->at[i]);
}

/* ---- sums of a thread ---- */

/* held[j, q] = the factor that does not see taps */
static void put_held(binding *b, sn_cursor at, const position *o) {
    sn_contraction_copier c;
    sn_ix zero = number(b, 0), j = sn_open_loop(b->m, &at, "j", b->p.still, SN_AXIS_UNROLL);
    sn_ix q = sn_open_loop(b->m, &at, "q", b->p.run, SN_AXIS_UNROLL), place = place_of(b, o, q);
    result r = {o->t.x, j, zero, zero};
    start_copier(b, &c, at, o, &r, place, zero);
    if (goes_beyond(b)) c.mask = sn_put_in(b->m, at, place, number(b, b->t.places));
    sn_val y = sn_contraction_copy(&c, b->t.still);
    sn_put_store(b->m, at, b->held, own(b, b->held, o->t, sn_ix_fma(b->m, b->p.run, j, q)), y);
}

/* line[e] = what lies on the line, for n elements of it from the tap number `first` on, all of which place q of the run and those before it
 * do not reach. */
static void put_elements(binding *b, sn_cursor at, const position *o, sn_ix moved, int64_t first, int64_t n) {
    sn_contraction_copier c;
    sn_ix f = sn_open_loop(b->m, &at, "e", n, SN_AXIS_UNROLL), e = sn_ix_addc(b->m, f, first);
    sn_ix q = first ? sn_ix_addc(b->m, sn_ix_divc(b->m, f, b->t.step), 1) : number(b, 0);
    sn_ix tap = sn_ix_add(b->m, clamped(b, SN_TAPS_LINE, number(b, 0)), e);
    result r = {o->t.x, number(b, 0), moved, number(b, 0)};
    start_copier(b, &c, at, o, &r, o->place, tap);
    if (goes_beyond(b)) c.mask = sn_put_in(b->m, at, place_of(b, o, q), number(b, b->t.places));
    sn_put_store(b->m, at, b->line, own(b, b->line, o->t, e), sn_contraction_copy(&c, b->t.moved));
}

static sn_ix sum_index(binding *b, sn_ix still, sn_ix moved, sn_ix tap) {
    return sn_ix_fma(b->m, b->p.taps, sn_ix_fma(b->m, b->p.moved, still, moved), tap);
}

/* acc[j, a, k] += line[r*q + k] * held[j, q]: place by place, so that sums which follow each other do not wait for one another */
static void put_products(binding *b, sn_cursor at, const position *o, sn_ix moved) {
    sn_module *m = b->m;
    sn_ix q = sn_open_loop(m, &at, "q", b->p.run, SN_AXIS_UNROLL);
    if (goes_beyond(b)) at = sn_at_end(b->k, sn_put_if(m, at, place_of(b, o, q), number(b, b->t.places)));
    sn_ix j = sn_open_loop(m, &at, "j", b->p.still, SN_AXIS_UNROLL);
    sn_ix k = sn_open_loop(m, &at, "k", b->p.taps, SN_AXIS_UNROLL);
    sn_val x = sn_put_load(m, at, b->line, own(b, b->line, o->t, sn_ix_fma(m, b->t.step, q, k)));
    sn_val y = sn_put_load(m, at, b->held, own(b, b->held, o->t, sn_ix_fma(m, b->p.run, j, q)));
    sn_ix to = own(b, b->acc, o->t, sum_index(b, j, moved, k));
    sn_val sum = sn_put_op2(m, at, SN_LOP_ADD, sn_put_load(m, at, b->acc, to), sn_put_op2(m, at, SN_LOP_MUL, x, y));
    sn_put_store(m, at, b->acc, to, sum);
}

/* The next position of the thread, if there is one; *at moves inside. */
static position open_positions(binding *b, sn_cursor *at, thread t) {
    const sn_taps_tile *p = &b->p;
    sn_module *m = b->m;
    position o = {.t = t};
    sn_ix shape[SN_MAX_CHAIN];
    sn_ix turn = sn_open_loop(m, at, "i", p->turns, SN_AXIS_SEQ);
    sn_ix e = sn_ix_fma(m, p->sharing, turn, has_lanes(b) ? t.y : sn_ix_fma(m, p->lanes, t.y, t.x));
    e = sn_ix_fma(m, p->each, b->part, e);
    if (p->parts * p->each != p->positions) *at = sn_at_end(b->k, sn_put_if(m, *at, e, number(b, p->positions)));
    for (uint32_t i = 0; i < b->t.c.inner.n; i++) shape[i] = number(b, i == b->t.loop ? p->chunks : b->t.c.k_extent[i]);
    sn_ix_unflatten(m, e, shape, b->t.c.inner.n, o.at);
    sn_ix chunk = o.at[b->t.loop], apart = sn_ix_divc(m, chunk, b->t.apart);
    o.place = sn_ix_fma(m, p->run * b->t.apart, apart, sn_ix_modc(m, chunk, b->t.apart));
    return o;
}

static void put_sums(binding *b, sn_cursor at) {
    const sn_taps_tile *p = &b->p;
    thread t = open_threads(b, &at);
    sn_cursor in = at;
    sn_ix e = sn_open_loop(b->m, &in, "e", p->sums, SN_AXIS_UNROLL);
    sn_put_store(b->m, in, b->acc, own(b, b->acc, t, e), sn_put_const(b->m, in, SN_F32, 0));
    position o = open_positions(b, &at, t);
    put_held(b, at, &o);
    sn_ix moved = sn_open_loop(b->m, &at, "a", p->moved, SN_AXIS_UNROLL);
    put_elements(b, at, &o, moved, 0, p->taps);
    if (p->elements > p->taps) put_elements(b, at, &o, moved, p->taps, p->elements - p->taps);
    put_products(b, at, &o, moved);
}

/* ---- sums of a block ---- */

static sn_ix shared_index(binding *b, sn_ix row, sn_ix sum, sn_ix lane) {
    sn_ix e = sn_ix_fma(b->m, b->p.sums, row, sum);
    return has_lanes(b) ? sn_ix_fma(b->m, b->p.lanes, e, lane) : e;
}

/* Room for what threads beyond the last result would read, if they did. */
static void grow(binding *b, sn_buf buf, sn_ix e) {
    sn_buf_rec *r = sn_buf_get(b->m, buf);
    int64_t needed = sn_ix_range(b->m, e).hi + 1;
    if (needed <= r->private_size) return;
    r->private_size = (uint32_t)needed;
    r->size = number(b, needed);
}

/* A sum over n iterations; *in is inside. */
static sn_stmt open_sum(binding *b, sn_cursor at, sn_cursor *in, sn_ix *i, int64_t n, sn_axis_kind kind) {
    static const sn_comb comb = SN_COMB_SUM;
    static const sn_dtype dtype = SN_F32;
    sn_axis ax = sn_axis_new(b->m, "w", number(b, n));
    sn_stmt nest = sn_put_reduce(b->m, at, ax, kind, &comb, 1, &dtype);
    *in = sn_at_end(b->k, nest);
    *i = sn_ix_axis(b->m, ax);
    return nest;
}

static sn_val close_sum(binding *b, sn_stmt nest, sn_val x) {
    sn_put_yield(b->m, sn_at_end(b->k, nest), &x, 1);
    return sn_result(sn_stmt_get(b->m, nest), 0);
}

/* The lanes of a warp have one sum, or each has its own. */
static void put_shared(binding *b, sn_cursor at) {
    sn_module *m = b->m;
    sn_cursor in;
    thread t = {.y = sn_open_loop(m, &at, "y", b->p.rows, SN_AXIS_BLOCK_Y)};
    if (has_lanes(b)) t.x = sn_open_loop(m, &at, "x", b->p.lanes, SN_AXIS_BLOCK_X);
    sn_ix e = sn_open_loop(m, &at, "e", b->p.sums, SN_AXIS_UNROLL);
    sn_stmt all = {0};
    in = at;
    if (!has_lanes(b)) all = open_sum(b, at, &in, &t.x, b->p.lanes, SN_AXIS_BLOCK_X);
    sn_val sum = sn_put_load(m, in, b->acc, own(b, b->acc, t, e));
    if (!has_lanes(b)) sum = close_sum(b, all, sum);
    sn_put_store(m, at, b->sums, shared_index(b, t.y, e, t.x), sum);
}

/* A result of the block for each thread; *at moves inside. */
static sn_ix open_results(binding *b, sn_cursor *at) {
    const sn_taps_tile *p = &b->p;
    thread t = open_threads(b, at);
    sn_ix u = sn_open_loop(b->m, at, "u", sn_ceil_div(p->results, p->lanes * p->rows), SN_AXIS_SEQ);
    sn_ix e = sn_ix_fma(b->m, p->lanes, sn_ix_fma(b->m, p->rows, u, t.y), t.x);
    if (p->results % (p->lanes * p->rows)) *at = sn_at_end(b->k, sn_put_if(b->m, *at, e, number(b, p->results)));
    return e;
}

static sn_ix part_index(binding *b, sn_ix part, sn_ix e) {
    return sn_ix_fma(b->m, b->p.results, sn_ix_fma(b->m, b->p.parts, b->tile, part), e);
}

/* What row `row` of the block, or part, has of result e. */
static sn_val put_term(binding *b, sn_cursor at, bool of_parts, sn_ix row, sn_ix e, sn_val mask) {
    sn_module *m = b->m;
    sn_ix lane = has_lanes(b) ? sn_ix_modc(m, e, b->p.lanes) : number(b, 0);
    sn_ix sum = has_lanes(b) ? sn_ix_divc(m, e, b->p.lanes) : e;
    sn_ix from = of_parts ? part_index(b, row, e) : shared_index(b, row, sum, lane);
    sn_buf buf = of_parts ? b->parts : b->sums;
    if (!of_parts) grow(b, buf, from);
    if (!mask.i) return sn_put_load(m, at, buf, from);
    return sn_put_load_masked(m, at, buf, from, mask, sn_put_const(m, at, SN_F32, 0));
}

/* The sum over n rows of the block, or parts, of what they have of result e. */
static sn_val put_total(binding *b, sn_cursor at, bool of_parts, int64_t n, sn_ix e) {
    sn_cursor out = at, in;
    sn_ix turn = number(b, 0), i;
    sn_stmt all = {0};
    bool turns = n > WRITTEN_PARTS;
    if (n == 1) return put_term(b, at, of_parts, turn, e, (sn_val){0});
    if (turns) all = open_sum(b, at, &out, &turn, sn_ceil_div(n, WRITTEN_PARTS), SN_AXIS_SEQ);
    sn_stmt some = open_sum(b, out, &in, &i, turns ? WRITTEN_PARTS : n, SN_AXIS_UNROLL);
    i = sn_ix_fma(b->m, WRITTEN_PARTS, turn, i);
    sn_val mask = turns && n % WRITTEN_PARTS ? sn_put_in(b->m, in, i, number(b, n)) : (sn_val){0};
    sn_val sum = close_sum(b, some, put_term(b, in, of_parts, i, e, mask));
    return turns ? close_sum(b, all, sum) : sum;
}

/* What the body stores of result e, with its sum. */
static void put_body(binding *b, sn_cursor at, sn_ix e, sn_val sum) {
    const sn_taps_tile *p = &b->p;
    sn_module *m = b->m;
    sn_contraction_copier c;
    sn_ix shape[4] = {number(b, p->still), number(b, p->moved), number(b, p->taps),
                      number(b, has_lanes(b) ? p->lanes : 1)};
    sn_ix digit[4];
    sn_ix_unflatten(m, e, shape, SN_COUNT(shape), digit);
    result r = {digit[3], digit[0], digit[1], digit[2]};
    sn_contraction_copier_start(&c, b->cx, at, b->n_vals);
    set_block(b, &c, &r);
    set_part(b, &c, SN_TAPS_LINE, clamped(b, SN_TAPS_LINE, r.tap));
    sn_val mask = has_lanes(b) ? put_is_own(b, at, (sn_val){0}, SN_TAPS_LANES, r.lane) : (sn_val){0};
    mask = put_is_own(b, at, mask, SN_TAPS_STILL, r.still);
    mask = put_is_own(b, at, mask, SN_TAPS_MOVED, r.moved);
    mask = put_is_own(b, at, mask, SN_TAPS_LINE, r.tap);
    c.mask = mask;
    sn_contraction_becomes(&c, sn_result(sn_stmt_get(m, b->t.c.top), 0), sum);
    for (sn_stmt s = sn_region_first(m, b->k, b->t.c.body); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_stores(r)) sn_contraction_copy_store(&c, r, mask);
    }
}

static void put_results(binding *b, sn_cursor at) {
    sn_ix e = open_results(b, &at);
    sn_val sum = put_total(b, at, false, b->p.rows, e);
    if (b->p.parts > 1) sn_put_store(b->m, at, b->parts, part_index(b, b->part, e), sum);
    else put_body(b, at, e, sum);
}

static void put_tail(binding *b, sn_cursor at) {
    sn_ix e = open_results(b, &at);
    put_body(b, at, e, put_total(b, at, true, b->p.parts, e));
}

/* ---- binding ---- */

static void new_buffers(binding *b, int64_t tiles) {
    const sn_taps_tile *p = &b->p;
    sn_module *m = b->m;
    int64_t threads = p->lanes * p->rows;
    b->acc = sn_local_new(m, "acc", SN_F32, SN_BUF_REG, p->sums, threads);
    b->held = sn_local_new(m, "held", SN_F32, SN_BUF_REG, p->still * p->run, threads);
    b->line = sn_local_new(m, "line", SN_F32, SN_BUF_REG, p->elements, threads);
    b->sums = sn_local_new(m, "sums", SN_F32, SN_BUF_SHARED, p->rows * p->results, 1);
    if (p->parts == 1) return;
    sn_ix shape[2] = {number(b, tiles * p->parts), number(b, p->results)};
    const char *name = sn_strf(&m->arena, "%s_p", sn_kern_get(m, b->k)->name);
    b->parts = sn_buf_new(m, name, SN_F32, SN_BUF_TEMP, shape, 2);
}

void sn_schedule_window_taps_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    binding b = {.cx = cx, .m = m, .k = k, .part = sn_ix_const(m, 0)};
    const char *why_not;
    sn_ix shape[SN_TAPS_PARTS];
    int64_t tiles = 1;
    bool fits = sn_taps_find(&b.t, &why_not, cx, k) && sn_taps_measure(&b.p, &b.t, sc);
    SN_ASSERT(fits);
    (void)fits;
    b.n_vals = m->vals.count;
    for (uint32_t i = 0; i < SN_TAPS_PARTS; i++) {
        shape[i] = sn_ix_const(m, b.p.blocks[i]);
        tiles *= b.p.blocks[i];
    }
    new_buffers(&b, tiles);
    sn_cursor at = sn_at_end(k, (sn_stmt){0});
    b.tile = sn_open_loop(m, &at, "g", tiles, SN_AXIS_GRID);
    sn_ix_unflatten(m, b.tile, shape, SN_TAPS_PARTS, b.block);
    sn_cursor in = at;
    if (b.p.parts > 1) b.part = sn_open_loop(m, &in, "s", b.p.parts, SN_AXIS_GRID);
    put_sums(&b, in);
    put_shared(&b, in);
    put_results(&b, in);
    if (b.p.parts > 1) put_tail(&b, at);
    sn_stmt_unlink(m, sh->outer.at[0]);
}
