/* attend_rows_bind.c: binding of class attend where few query rows meet the same keys; attend_rows.c has the picture.
 *
 *     key = U*(Y*t + y) + u of the part        channel, column = V*(X*e + x) + v
 *
 * A thread carries for each row the maximum of its scores so far, the sum of its weights relative to that, and the
 * columns of v that it has, weighted. A maximum that is infinite counts as 0, as in the combiner `sumexp`: then sums
 * are 0, infinite or nan, as those have to be. Keys beyond the last have the score -inf, and v is 0; channels and
 * columns beyond the last are 0.
 *
 * With two stages keys of the next turn are loaded while weights of this one are summed up, and its v while the next
 * scores are computed: both into registers that have just been read. The last turn loads again what is there
 * already.
 *
 * Weights are 2^((x - m) log2 e), which a GPU has an instruction for.
 */
#include "passes/schedule/attention/attend_rows.h"
#include "passes/schedule/base/figures.h"

#include <math.h>

typedef struct binding {
    sn_attend_rows a;
    const sn_sched *sc;
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    uint32_t n_vals;            /* of the module, before anything was made */
    int64_t turns;              /* of the loop over keys */
    int64_t key_parts, v_parts; /* vectors of a thread: e */
    sn_ix batch, part;          /* of the block */
    sn_buf q, key, v, score;    /* registers */
    sn_buf most, total, sum;    /* ... of rows */
    sn_buf parts[3];            /* what blocks have left of those, where there are several a batch */
} binding;

/* ---- small pieces ---- */

/* The lanes of a vector: always a loop, so that what is masked stands alone. */
static sn_ix open_lanes(binding *b, sn_cursor *at) {
    sn_axis ax = sn_axis_new(b->m, "v", sn_ix_const(b->m, b->sc->vector));
    *at = sn_at_end(b->k, sn_put_loop(b->m, *at, ax, b->sc->vector > 1 ? SN_AXIS_VECTOR : SN_AXIS_UNROLL));
    return sn_ix_axis(b->m, ax);
}

static sn_ix open_reduce(binding *b, sn_cursor *at, sn_stmt *out, const char *name, int64_t extent, sn_axis_kind kind,
                         sn_comb comb) {
    sn_axis ax = sn_axis_new(b->m, name, sn_ix_const(b->m, extent));
    *out = sn_put_reduce(b->m, *at, ax, kind, &comb, 1, &b->a.dtype);
    *at = sn_at_end(b->k, *out);
    return sn_ix_axis(b->m, ax);
}

static sn_val close_reduce(binding *b, sn_stmt s, sn_val x) {
    sn_put_yield(b->m, sn_at_end(b->k, s), &x, 1);
    return sn_stmt_get(b->m, s)->result;
}

static sn_buf new_registers(binding *b, const char *name, sn_dtype dtype, int64_t own) {
    return sn_local_new(b->m, name, dtype, SN_BUF_REG, own, b->sc->block_x * b->sc->block_y);
}

typedef struct thread {
    sn_ix x, y;
} thread;

static thread open_threads(binding *b, sn_cursor *at) {
    thread t;
    t.y = sn_open_loop(b->m, at, "y", b->sc->block_y, SN_AXIS_BLOCK_Y);
    t.x = sn_open_loop(b->m, at, "x", b->sc->block_x, SN_AXIS_BLOCK_X);
    return t;
}

/* Register e of thread t. */
static sn_ix own(binding *b, sn_buf buf, thread t, sn_ix e) {
    return sn_ix_fma(b->m, sn_buf_get(b->m, buf)->private_size, sn_ix_fma(b->m, b->sc->block_x, t.y, t.x), e);
}

static sn_val get(binding *b, sn_cursor at, sn_buf buf, thread t, sn_ix e) {
    return sn_put_cast(b->m, at, b->a.dtype, sn_put_load(b->m, at, buf, own(b, buf, t, e)));
}

static void set(binding *b, sn_cursor at, sn_buf buf, thread t, sn_ix e, sn_val x) {
    sn_put_store(b->m, at, buf, own(b, buf, t, e), x);
}

static sn_val constant(binding *b, sn_cursor at, double x) { return sn_put_const(b->m, at, b->a.dtype, x); }

/* m, or 0 where it is infinite. */
static sn_val put_base(binding *b, sn_cursor at, sn_val m) {
    return sn_put_op3(b->m, at, SN_LOP_SELECT, sn_put_op1(b->m, at, SN_LOP_ISINF, m), constant(b, at, 0), m);
}

/* e^(x - base) */
static sn_val put_weight(binding *b, sn_cursor at, sn_val x, sn_val base) {
    sn_val d = sn_put_op2(b->m, at, SN_LOP_SUB, x, base);
    return sn_put_op1(b->m, at, SN_LOP_EXP2, sn_put_op2(b->m, at, SN_LOP_MUL, d, constant(b, at, SN_LOG2_E)));
}

/* ---- places ---- */

/* Where an iteration of the nest stands; none: that axis is not asked for. */
typedef struct place {
    sn_ix row, key, channel, column;
} place;

/* The parts of a number that axes with several values have; 0 of others, so that the first one is the number as far
 * as it goes. */
static void spread(sn_ix *out, binding *b, sn_ix number, const int64_t *sizes) {
    sn_ix shape[SN_MAX_CHAIN], part[SN_MAX_CHAIN];
    uint32_t n = 0, at = 0;
    for (uint32_t i = 0; i < b->a.outer.n; i++)
        if (sizes[i] > 1) shape[n++] = sn_ix_const(b->m, sizes[i]);
    if (n) sn_ix_unflatten(b->m, number, shape, n, part);
    for (uint32_t i = 0; i < b->a.outer.n; i++) out[i] = sizes[i] > 1 ? part[at++] : sn_ix_const(b->m, 0);
}

/* axes[i] is with[i] there; returns how many. */
static uint32_t axes_at(sn_axis *axes, sn_ix *with, binding *b, const place *p) {
    const sn_attend_rows *a = &b->a;
    int64_t high[SN_MAX_CHAIN];
    sn_ix batch[SN_MAX_CHAIN], row[SN_MAX_CHAIN];
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->outer.n; i++) high[i] = i == a->column ? 1 : a->extent[i] / a->shared[i];
    spread(batch, b, b->batch, high);
    spread(row, b, p->row, a->shared);
    for (uint32_t i = 0; i < a->outer.n; i++) {
        if (i == a->column && !p->column.i) continue;
        axes[n] = sn_stmt_axis(b->m, a->outer.at[i]);
        with[n++] = i == a->column ? p->column : sn_ix_fma(b->m, a->shared[i], batch[i], row[i]);
    }
    if (p->key.i) axes[n] = a->keys, with[n++] = p->key;
    if (p->channel.i) axes[n] = a->channel, with[n++] = p->channel;
    return n;
}

/* The value there; loads happen where mask holds. sum: what the scores' reduction is, if the value is made of it. */
static sn_val put(binding *b, sn_cursor at, sn_val v, const place *p, sn_val mask, sn_val sum) {
    sn_contraction_copier copier;
    sn_contraction_copier_start(&copier, b->cx, at, b->n_vals);
    copier.n = axes_at(copier.axes, copier.with, b, p);
    copier.mask = mask;
    if (sum.i) sn_contraction_becomes(&copier, sn_stmt_get(b->m, b->a.scores)->result, sum);
    return sn_contraction_copy(&copier, v);
}

static sn_val both(binding *b, sn_cursor at, sn_val x, sn_val y) {
    return !x.i ? y : !y.i ? x : sn_put_op2(b->m, at, SN_LOP_AND, x, y);
}

/* Does e stay below n? None: always. */
static sn_val put_inside(binding *b, sn_cursor at, sn_ix e, int64_t n) {
    sn_ix end = sn_ix_const(b->m, n);
    return sn_ix_in(b->m, e, end) ? (sn_val){0} : sn_put_in(b->m, at, e, end);
}

static sn_ix key_at(binding *b, sn_ix turn, thread t, sn_ix u) {
    sn_ix group = sn_ix_scale(b->m, sn_ix_fma(b->m, b->turns, b->part, turn), b->sc->block_y);
    return sn_ix_fma(b->m, b->sc->unroll, sn_ix_add(b->m, group, t.y), u);
}

/* The first channel or column of vector e of a thread. */
static sn_ix first_at(binding *b, thread t, sn_ix e) {
    return sn_ix_scale(b->m, sn_ix_fma(b->m, b->sc->block_x, e, t.x), b->sc->vector);
}

/* ---- the loop over keys ---- */

/* A loop over the vectors of a thread, and registers `to` = the operand there, or 0 outside. */
static void put_vectors(binding *b, sn_cursor at, sn_val operand, sn_buf to, thread t, place p, sn_ix number,
                        int64_t vectors, int64_t channels, sn_val mask) {
    sn_module *m = b->m;
    bool column = sn_val_eq(operand, b->a.v);
    sn_ix e = sn_open_loop(b->m, &at, "e", vectors, SN_AXIS_UNROLL), first = first_at(b, t, e);
    mask = both(b, at, mask, put_inside(b, at, first, channels));
    sn_ix v = open_lanes(b, &at), *moves = column ? &p.column : &p.channel;
    *moves = sn_ix_add(m, first, v);
    sn_val x = put(b, at, operand, &p, mask, (sn_val){0});
    bool loaded = sn_stmt_get(m, sn_val_get(m, operand)->def)->op == SN_LOP_LOAD;
    sn_dtype dtype = sn_val_get(m, x)->dtype;
    if (mask.i && !loaded) x = sn_put_op3(m, at, SN_LOP_SELECT, mask, x, sn_put_const(m, at, dtype, 0));
    x = sn_put_cast(m, at, sn_buf_get(m, to)->dtype, x);
    set(b, at, to, t, sn_ix_fma(b->m, b->sc->vector, sn_ix_fma(b->m, vectors, number, e), v), x);
}

static void put_begin(binding *b, sn_cursor at) {
    thread t = open_threads(b, &at);
    sn_ix r = sn_open_loop(b->m, &at, "r", b->a.rows, SN_AXIS_UNROLL);
    put_vectors(b, at, b->a.q, b->q, t, (place){.row = r}, r, b->key_parts, b->a.depth, (sn_val){0});
    set(b, at, b->most, t, r, constant(b, at, -INFINITY));
    set(b, at, b->total, t, r, constant(b, at, 0));
    sn_ix e = sn_open_loop(b->m, &at, "e", b->v_parts, SN_AXIS_UNROLL), v = open_lanes(b, &at);
    set(b, at, b->sum, t, sn_ix_fma(b->m, b->sc->vector, sn_ix_fma(b->m, b->v_parts, r, e), v), constant(b, at, 0));
}

/* U keys of a turn, or their v: all loads together. */
static void put_loads(binding *b, sn_cursor at, sn_ix turn, bool of_v) {
    thread t = open_threads(b, &at);
    sn_ix u = sn_open_loop(b->m, &at, "u", b->sc->unroll, SN_AXIS_UNROLL);
    place p = {.row = sn_ix_const(b->m, 0), .key = key_at(b, turn, t, u)};
    sn_val mask = put_inside(b, at, p.key, b->a.n_keys);
    if (of_v) put_vectors(b, at, b->a.v, b->v, t, p, u, b->v_parts, b->a.width, mask);
    else put_vectors(b, at, b->a.key, b->key, t, p, u, b->key_parts, b->a.depth, mask);
}

/* q * key of the threads x of a key. */
static sn_val put_product(binding *b, sn_cursor at, thread t, sn_ix u, sn_ix r) {
    sn_stmt threads, vectors = {0}, lanes;
    t.x = open_reduce(b, &at, &threads, "x", b->sc->block_x, SN_AXIS_BLOCK_X, SN_COMB_SUM);
    sn_ix e = sn_ix_const(b->m, 0);
    if (b->key_parts > 1) e = open_reduce(b, &at, &vectors, "e", b->key_parts, SN_AXIS_UNROLL, SN_COMB_SUM);
    sn_ix v = open_reduce(b, &at, &lanes, "v", b->sc->vector, SN_AXIS_UNROLL, SN_COMB_SUM);
    sn_val q = get(b, at, b->q, t, sn_ix_fma(b->m, b->sc->vector, sn_ix_fma(b->m, b->key_parts, r, e), v));
    sn_val key = get(b, at, b->key, t, sn_ix_fma(b->m, b->sc->vector, sn_ix_fma(b->m, b->key_parts, u, e), v));
    sn_val x = close_reduce(b, lanes, sn_put_op2(b->m, at, SN_LOP_MUL, q, key));
    if (vectors.i) x = close_reduce(b, vectors, x);
    return close_reduce(b, threads, x);
}

static void put_scores(binding *b, sn_cursor at, sn_ix turn) {
    thread t = {.y = sn_open_loop(b->m, &at, "y", b->sc->block_y, SN_AXIS_BLOCK_Y)};
    sn_ix u = sn_open_loop(b->m, &at, "u", b->sc->unroll, SN_AXIS_UNROLL);
    place p = {.key = key_at(b, turn, t, u)};
    sn_val mask = put_inside(b, at, p.key, b->a.n_keys);
    p.row = sn_open_loop(b->m, &at, "r", b->a.rows, SN_AXIS_UNROLL);
    sn_val x = put(b, at, b->a.score, &p, mask, put_product(b, at, t, u, p.row));
    if (mask.i) x = sn_put_op3(b->m, at, SN_LOP_SELECT, mask, x, constant(b, at, -INFINITY));
    t.x = sn_open_loop(b->m, &at, "x", b->sc->block_x, SN_AXIS_BLOCK_X);
    set(b, at, b->score, t, sn_ix_fma(b->m, b->a.rows, u, p.row), x);
}

/* Something of the U scores of a row; or of the weights that have taken their place. */
static sn_val put_over_keys(binding *b, sn_cursor at, thread t, sn_ix r, sn_comb comb, sn_ix *v_element) {
    sn_stmt all;
    sn_ix u = open_reduce(b, &at, &all, "u", b->sc->unroll, SN_AXIS_UNROLL, comb);
    sn_val x = get(b, at, b->score, t, sn_ix_fma(b->m, b->a.rows, u, r));
    if (v_element) {
        sn_ix e = sn_ix_fma(b->m, b->v_parts * b->sc->vector, u, *v_element);
        x = sn_put_op2(b->m, at, SN_LOP_MUL, x, get(b, at, b->v, t, e));
    }
    return close_reduce(b, all, x);
}

/* state = state * factor + x */
static void put_taken(binding *b, sn_cursor at, sn_buf state, thread t, sn_ix e, sn_val factor, sn_val x) {
    sn_val scaled = sn_put_op2(b->m, at, SN_LOP_MUL, get(b, at, state, t, e), factor);
    set(b, at, state, t, e, sn_put_op2(b->m, at, SN_LOP_ADD, scaled, x));
}

static void put_sums(binding *b, sn_cursor at) {
    thread t = open_threads(b, &at);
    sn_ix r = sn_open_loop(b->m, &at, "r", b->a.rows, SN_AXIS_UNROLL);
    sn_val old = get(b, at, b->most, t, r);
    sn_val most = sn_put_op2(b->m, at, SN_LOP_MAX, old, put_over_keys(b, at, t, r, SN_COMB_MAX, NULL));
    sn_val base = put_base(b, at, most), factor = put_weight(b, at, old, base);
    set(b, at, b->most, t, r, most);
    sn_cursor in = at;
    sn_ix key = sn_ix_fma(b->m, b->a.rows, sn_open_loop(b->m, &in, "u", b->sc->unroll, SN_AXIS_UNROLL), r);
    set(b, in, b->score, t, key, put_weight(b, in, get(b, in, b->score, t, key), base));
    put_taken(b, at, b->total, t, r, factor, put_over_keys(b, at, t, r, SN_COMB_SUM, NULL));
    sn_ix e = sn_open_loop(b->m, &at, "e", b->v_parts, SN_AXIS_UNROLL), v = open_lanes(b, &at);
    sn_ix of_v = sn_ix_fma(b->m, b->sc->vector, e, v), of_sum = sn_ix_fma(b->m, b->v_parts * b->sc->vector, r, of_v);
    put_taken(b, at, b->sum, t, of_sum, factor, put_over_keys(b, at, t, r, SN_COMB_SUM, &of_v));
}

/* ---- what threads y have, together ---- */

/* Of register e over all y: the same for all of them. */
static sn_val put_over_threads(binding *b, sn_cursor at, sn_buf buf, sn_ix x, sn_ix e, sn_comb comb) {
    sn_stmt all;
    thread t = {.x = x};
    t.y = open_reduce(b, &at, &all, "y", b->sc->block_y, SN_AXIS_BLOCK_Y, comb);
    return close_reduce(b, all, get(b, at, buf, t, e));
}

/* All threads come to the same maximum of a row. */
static void put_level(binding *b, sn_cursor at) {
    sn_module *m = b->m;
    thread t = {.x = sn_open_loop(b->m, &at, "x", b->sc->block_x, SN_AXIS_BLOCK_X)};
    sn_ix r = sn_open_loop(b->m, &at, "r", b->a.rows, SN_AXIS_UNROLL);
    sn_val most = put_over_threads(b, at, b->most, t.x, r, SN_COMB_MAX);
    t.y = sn_open_loop(b->m, &at, "y", b->sc->block_y, SN_AXIS_BLOCK_Y);
    sn_val factor = put_weight(b, at, get(b, at, b->most, t, r), put_base(b, at, most));
    set(b, at, b->most, t, r, most);
    set(b, at, b->total, t, r, sn_put_op2(m, at, SN_LOP_MUL, get(b, at, b->total, t, r), factor));
    sn_ix e = sn_open_loop(b->m, &at, "e", b->v_parts, SN_AXIS_UNROLL), v = open_lanes(b, &at);
    e = sn_ix_fma(b->m, b->sc->vector, sn_ix_fma(b->m, b->v_parts, r, e), v);
    set(b, at, b->sum, t, e, sn_put_op2(m, at, SN_LOP_MUL, get(b, at, b->sum, t, e), factor));
}

/* ---- the body ---- */

/* The rest of the kernel's body at a place, stores where mask holds. */
static void put_body(binding *b, sn_cursor at, const sn_stmt_vec *body, const place *p, sn_val mask, sn_val most,
                     sn_val total, sn_val sum) {
    sn_module *m = b->m;
    sn_axis axes[2 * SN_MAX_CHAIN];
    sn_ix with[2 * SN_MAX_CHAIN];
    uint32_t n = axes_at(axes, with, b, p);
    for (uint32_t s = 0; s < body->n; s++) {
        if (body->at[s].i == b->a.top.i) continue;
        sn_stmt_insert(m, at, body->at[s]);
        sn_stmt_subst(m, body->at[s], axes, with, n);
    }
    if (mask.i) sn_mask_accesses(b->cx, b->k, at.parent, mask, true);
    const sn_stmt_rec *top = sn_stmt_get(m, b->a.top);
    sn_val results[4] = {most, total, most, sum};
    for (uint32_t s = 0; s < SN_COUNT(results); s++) sn_val_replace(m, b->k, sn_result(top, s), results[s]);
}

/* Element i of row r of what part s has left, i < n. */
static sn_ix left_at(binding *b, sn_ix part, sn_ix r, int64_t n, sn_ix i) {
    sn_ix all = sn_ix_fma(b->m, b->a.rows, sn_ix_fma(b->m, b->sc->split, b->batch, part), r);
    return sn_ix_fma(b->m, n, all, i);
}

/* Rows x columns of a block: the body, or what the last block needs. */
static void put_end(binding *b, sn_cursor at, const sn_stmt_vec *body) {
    sn_module *m = b->m;
    thread t = {.x = sn_open_loop(b->m, &at, "x", b->sc->block_x, SN_AXIS_BLOCK_X)};
    place p = {.row = sn_open_loop(b->m, &at, "r", b->a.rows, SN_AXIS_UNROLL)};
    sn_val most = put_over_threads(b, at, b->most, t.x, p.row, SN_COMB_MAX);
    sn_val total = put_over_threads(b, at, b->total, t.x, p.row, SN_COMB_SUM);
    if (b->sc->split > 1) {
        sn_ix none = sn_ix_const(m, 0), to = left_at(b, b->part, p.row, 1, none);
        sn_cursor in = sn_at_end(b->k, sn_put_if(m, at, t.x, sn_ix_const(m, 1)));
        sn_put_store(m, in, b->parts[0], to, most);
        sn_put_store(m, in, b->parts[1], to, total);
    }
    sn_ix e = sn_open_loop(b->m, &at, "e", b->v_parts, SN_AXIS_UNROLL), first = first_at(b, t, e);
    sn_val mask = put_inside(b, at, first, b->a.width);
    sn_ix v = open_lanes(b, &at);
    e = sn_ix_fma(b->m, b->sc->vector, sn_ix_fma(b->m, b->v_parts, p.row, e), v);
    sn_val sum = put_over_threads(b, at, b->sum, t.x, e, SN_COMB_SUM);
    p.column = sn_ix_add(m, first, v);
    if (b->sc->split == 1) {
        put_body(b, at, body, &p, mask, most, total, sum);
        return;
    }
    sn_ix to = left_at(b, b->part, p.row, b->a.width, p.column);
    if (mask.i) sn_put_store_masked(m, at, b->parts[2], to, sum, mask);
    else sn_put_store(m, at, b->parts[2], to, sum);
}

/* ---- the last block of a batch ---- */

/* A reduction over the parts: threads y have others each. part: Y*s + y; those beyond the last count nothing. */
typedef struct over_parts {
    sn_stmt threads, turns;
    sn_ix part;
    sn_val mask;
} over_parts;

static over_parts open_parts(binding *b, sn_cursor *at, sn_comb comb) {
    over_parts o;
    int64_t y = b->sc->block_y, turns = sn_ceil_div(b->sc->split, y);
    sn_ix thread = open_reduce(b, at, &o.threads, "y", y, SN_AXIS_BLOCK_Y, comb);
    sn_ix turn =
        open_reduce(b, at, &o.turns, "s", turns, turns > SN_ATTEND_JOIN_LOADS ? SN_AXIS_SEQ : SN_AXIS_UNROLL, comb);
    o.part = sn_ix_fma(b->m, y, turn, thread);
    o.mask = put_inside(b, *at, o.part, b->sc->split);
    return o;
}

static sn_val close_parts(binding *b, const over_parts *o, sn_val x) {
    return close_reduce(b, o->threads, close_reduce(b, o->turns, x));
}

static sn_val put_left(binding *b, sn_cursor at, sn_buf buf, sn_ix e, sn_val mask, double otherwise) {
    if (!mask.i) return sn_put_load(b->m, at, buf, e);
    return sn_put_load_masked(b->m, at, buf, e, mask, constant(b, at, otherwise));
}

/* The largest score of a row. */
static sn_val put_most_of_parts(binding *b, sn_cursor at, sn_ix r) {
    over_parts o = open_parts(b, &at, SN_COMB_MAX);
    sn_ix e = left_at(b, o.part, r, 1, sn_ix_const(b->m, 0));
    return close_parts(b, &o, put_left(b, at, b->parts[0], e, o.mask, -INFINITY));
}

/* Element i of n of a row, which blocks have left, relative to the largest score of all. */
static sn_val put_sum_of_parts(binding *b, sn_cursor at, sn_buf left, sn_ix r, int64_t n, sn_ix i, sn_val inside,
                               sn_val base) {
    over_parts o = open_parts(b, &at, SN_COMB_SUM);
    sn_ix row = left_at(b, o.part, r, 1, sn_ix_const(b->m, 0));
    sn_val weight = put_weight(b, at, put_left(b, at, b->parts[0], row, o.mask, -INFINITY), base);
    sn_val x = put_left(b, at, left, left_at(b, o.part, r, n, i), both(b, at, o.mask, inside), 0);
    return close_parts(b, &o, sn_put_op2(b->m, at, SN_LOP_MUL, x, weight));
}

static void put_last(binding *b, sn_cursor at, const sn_stmt_vec *body) {
    sn_module *m = b->m;
    thread t = {.x = sn_open_loop(b->m, &at, "x", b->sc->block_x, SN_AXIS_BLOCK_X)};
    place p = {.row = sn_open_loop(b->m, &at, "r", b->a.rows, SN_AXIS_UNROLL)};
    sn_val most = put_most_of_parts(b, at, p.row), base = put_base(b, at, most);
    sn_val total = put_sum_of_parts(b, at, b->parts[1], p.row, 1, sn_ix_const(m, 0), (sn_val){0}, base);
    sn_ix e = sn_open_loop(b->m, &at, "e", b->v_parts, SN_AXIS_UNROLL), first = first_at(b, t, e);
    sn_val mask = put_inside(b, at, first, b->a.width);
    p.column = sn_ix_add(m, first, open_lanes(b, &at));
    sn_val sum = put_sum_of_parts(b, at, b->parts[2], p.row, b->a.width, p.column, mask, base);
    put_body(b, at, body, &p, mask, most, total, sum);
}

/* ---- the kernel ---- */

static void make_buffers(binding *b) {
    sn_module *m = b->m;
    const sn_attend_rows *a = &b->a;
    int64_t rows = a->rows, u = b->sc->unroll, key = b->key_parts * b->sc->vector, v = b->v_parts * b->sc->vector;
    b->q = new_registers(b, "rows", a->dtype, rows * key);
    b->key = new_registers(b, "key", a->key_dtype, u * key);
    b->v = new_registers(b, "value", a->v_dtype, u * v);
    b->score = new_registers(b, "score", a->dtype, u * rows);
    b->most = new_registers(b, "most", a->dtype, rows);
    b->total = new_registers(b, "total", a->dtype, rows);
    b->sum = new_registers(b, "sum", a->dtype, rows * v);
    for (uint32_t i = 0; i < SN_COUNT(b->parts) && b->sc->split > 1; i++) {
        sn_ix shape[3] = {sn_ix_const(m, a->batch * b->sc->split), sn_ix_const(m, rows), sn_ix_const(m, a->width)};
        const char *name = sn_strf(&m->arena, "%s_p%u", sn_kern_get(m, b->k)->name, i);
        b->parts[i] = sn_buf_new(m, name, a->dtype, SN_BUF_TEMP, shape, i == 2 ? 3 : 2);
    }
}

/* The loop over keys. With two stages what the next turn needs comes in the registers that have just been read, and the first keys
 * come before the queries, which have to wait for the kernel in front. */
static void put_turns(binding *b, sn_cursor at) {
    sn_module *m = b->m;
    bool ahead = b->sc->stages > 1;
    for (uint32_t of_v = 0; of_v < 2 && ahead; of_v++) put_loads(b, at, sn_ix_const(m, 0), of_v);
    put_begin(b, at);
    sn_ix turn = sn_open_loop(b->m, &at, "t", b->turns, SN_AXIS_SEQ);
    sn_ix next = sn_ix_min(m, sn_ix_addc(m, turn, 1), sn_ix_const(m, b->turns - 1));
    for (uint32_t of_v = 0; of_v < 2 && !ahead; of_v++) put_loads(b, at, turn, of_v);
    put_scores(b, at, turn);
    if (ahead) put_loads(b, at, next, false);
    put_sums(b, at);
    if (ahead) put_loads(b, at, next, true);
}

void sn_schedule_attend_rows_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    binding b = {.sc = sc, .cx = cx, .m = cx->m, .k = k, .n_vals = cx->m->vals.count};
    const char *why_not;
    sn_stmt_vec body = {0};
    sn_attend_rows_find(&b.a, &why_not, cx, k);
    int64_t together = (int64_t)sc->block_y * sc->unroll * sc->split;
    b.turns = (b.a.n_keys + together - 1) / together;
    b.key_parts = sn_attend_rows_vectors(sc, b.a.depth);
    b.v_parts = sn_attend_rows_vectors(sc, b.a.width);
    make_buffers(&b);
    sn_schedule_take_body(&body, cx, k, sh);
    sn_cursor batch = sn_at_end(k, (sn_stmt){0});
    b.batch = sn_open_loop(b.m, &batch, "g", b.a.batch, SN_AXIS_GRID);
    sn_cursor part = batch;
    b.part = sc->split > 1 ? sn_open_loop(b.m, &part, "s", sc->split, SN_AXIS_GRID) : sn_ix_const(b.m, 0);
    put_turns(&b, part);
    put_level(&b, part);
    put_end(&b, part, &body);
    if (sc->split > 1) put_last(&b, batch, &body);
}
