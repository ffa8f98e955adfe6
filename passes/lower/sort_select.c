/* sort_select.c: topk of few elements of long rows on a CPU, in one reading of each row. Part of the pass `to-loops`.
 *
 *     %t = topk %x axis=1 k=8 : f32[4096, 1000]
 *
 *     loop g in 4096 : grid {
 *       best[8] = the first 8 of x[g, 0 .. 31]
 *       loop c in 30 {
 *         least = reduce min { keys[0 .. 31] = keys of x[g, 32 (c + 1) ..] }   by vectors
 *         if least < key of best[7] {                                          seldom, once best has settled
 *           loop j in 32 { if item 31 - j < best[7] { best = the first 8 of best and that } } } }
 *       the same for the last 8 of x
 *       store what best has }
 *
 * `best` has items, i64 of key and position (order.c), all of them different. A chunk that comes later is no better than what has an equal
 * key, so that keys alone tell whether it is looked at, once `best` is full. In a row in no order about k (1 + ln(n / k)) of n elements get in
 * while it is found; in one whose order is the opposite of what is wanted k of each chunk, the last of which is first: a best 8 of 50000
 * takes ten times as long then as of a row in no order, and 32 a hundred times. Nothing but the row goes through memory; kernels are
 * scheduled as they are made.
 *
 * Cost: one reading of the row; k minima and maxima for each element that gets in, and a comparison for each in its chunk.
 */
#include "passes/lower/order.h"

#include <math.h>

enum { LANES = 16, CHUNK = 32, MOST_KEPT = 32, WORD_BITS = 32 };

typedef struct selection {
    sn_order *o;
    sn_lower *lw;
    sn_module *m;
    sn_buf keys, best; /* of a chunk; the first items so far */
} selection;

static sn_val op(selection *s, sn_lop lop, sn_val a, sn_val b) { return sn_put_op2(s->m, s->lw->at, lop, a, b); }

static sn_val integer(selection *s, int64_t x) { return sn_put_const_int(s->m, s->lw->at, SN_I64, x); }

static sn_ix open(selection *s, const char *name, int64_t extent, sn_axis_kind kind) {
    return sn_open_loop(s->m, &s->lw->at, name, extent, kind);
}

static sn_val best_at(selection *s, int64_t rank) {
    return sn_put_load(s->m, s->lw->at, s->best, sn_ix_const(s->m, rank));
}

/* ---- a chunk ---- */

typedef struct chunk {
    selection *s;
    sn_ix first;
    int64_t count; /* that are in the row; keys of the others are no better than any */
} chunk;

/* Stores keys, of which the least is asked for. */
static sn_val put_key(const chunk *c, sn_ix at) {
    selection *s = c->s;
    sn_order *o = s->o;
    sn_ix place = sn_ix_add(s->m, c->first, at);
    sn_val mask = {0};
    if (c->count < CHUNK) {
        mask = sn_put_in(s->m, s->lw->at, at, sn_ix_const(s->m, c->count));
        place = sn_ix_min(s->m, place, sn_ix_const(s->m, o->n - 1));
    }
    sn_val key = sn_order_key(o, sn_order_element(o, place));
    sn_val none = sn_put_const_int(s->m, s->lw->at, SN_I32, INT32_MAX);
    if (mask.i) key = sn_put_op3(s->m, s->lw->at, SN_LOP_SELECT, mask, key, none);
    sn_put_store(s->m, s->lw->at, s->keys, at, key);
    return key;
}

static sn_val put_keys(const chunk *c) {
    selection *s = c->s;
    sn_comb comb = SN_COMB_MIN;
    sn_dtype t = SN_I32;
    sn_lower outside = *s->lw;
    sn_axis w = sn_axis_new(s->m, "w", sn_ix_const(s->m, CHUNK / LANES));
    sn_axis v = sn_axis_new(s->m, "v", sn_ix_const(s->m, LANES));
    sn_stmt vectors = sn_put_reduce(s->m, s->lw->at, w, SN_AXIS_UNROLL, &comb, 1, &t);
    sn_stmt lanes = sn_put_reduce(s->m, sn_at_end(s->lw->kern, vectors), v, SN_AXIS_VECTOR, &comb, 1, &t);
    s->lw->at = sn_at_end(s->lw->kern, lanes);
    s->lw->memo = NULL, s->lw->memo_n = s->lw->memo_cap = 0; /* what is computed inside is not there behind it */
    sn_ix at = sn_ix_add(s->m, sn_ix_scale(s->m, sn_ix_axis(s->m, w), LANES), sn_ix_axis(s->m, v));
    sn_val key = put_key(c, at), of_lanes = sn_result(sn_stmt_get(s->m, lanes), 0);
    sn_put_yield(s->m, s->lw->at, &key, 1);
    sn_put_yield(s->m, sn_at_end(s->lw->kern, vectors), &of_lanes, 1);
    s->lw->at = outside.at, s->lw->memo = outside.memo;
    s->lw->memo_n = outside.memo_n, s->lw->memo_cap = outside.memo_cap;
    return sn_result(sn_stmt_get(s->m, vectors), 0);
}

static void open_if(selection *s, sn_val better) {
    sn_val no = sn_put_op3(s->m, s->lw->at, SN_LOP_SELECT, better, integer(s, 0), integer(s, 1));
    sn_stmt inside = sn_put_if(s->m, s->lw->at, sn_ix_val(s->m, no), sn_ix_const(s->m, 1));
    s->lw->at = sn_at_end(s->lw->kern, inside);
}

static sn_val item_of(selection *s, sn_val key, sn_ix place) {
    sn_val item = op(s, SN_LOP_SHL, sn_put_cast(s->m, s->lw->at, SN_I64, key), integer(s, WORD_BITS));
    return op(s, SN_LOP_OR, item, sn_put_index(s->m, s->lw->at, SN_I64, place));
}

/* What is behind the item moves on by one: no step waits for the one before it. */
static void put_in(selection *s, sn_val item) {
    sn_val b[MOST_KEPT];
    for (int64_t k = 0; k < s->o->keep; k++) b[k] = best_at(s, k);
    for (int64_t k = 0; k < s->o->keep; k++) {
        sn_val now = op(s, SN_LOP_MIN, b[k], item);
        if (k) now = op(s, SN_LOP_MAX, b[k - 1], now);
        sn_put_store(s->m, s->lw->at, s->best, sn_ix_const(s->m, k), now);
    }
}

/* `all`: best is not full. The last of a chunk are first: of a row that gets better and better no more than are kept get in then. */
static void put_chunk(selection *s, sn_ix first, int64_t count, bool all) {
    chunk c = {s, first, count};
    sn_cursor outside = s->lw->at;
    sn_val least = put_keys(&c), last = {0};
    if (!all) {
        last = op(s, SN_LOP_SHR, best_at(s, s->o->keep - 1), integer(s, WORD_BITS));
        open_if(s, op(s, SN_LOP_LT, least, sn_put_cast(s->m, s->lw->at, SN_I32, last)));
    }
    sn_ix j = sn_ix_sub(s->m, sn_ix_const(s->m, CHUNK - 1), open(s, "j", CHUNK, SN_AXIS_SEQ));
    sn_val item = item_of(s, sn_put_load(s->m, s->lw->at, s->keys, j), sn_ix_add(s->m, first, j));
    if (!all) open_if(s, op(s, SN_LOP_LT, item, best_at(s, s->o->keep - 1)));
    put_in(s, item);
    s->lw->at = outside;
}

/* ---- all of it ---- */

static void put_results(selection *s) {
    sn_order *o = s->o;
    for (int64_t k = 0; k < o->keep; k++) {
        sn_val place = op(s, SN_LOP_AND, best_at(s, k), integer(s, UINT32_MAX));
        place = sn_put_cast(s->m, s->lw->at, o->place, place);
        sn_val x = sn_order_element(o, sn_order_bounded(o, place, o->n - 1));
        sn_order_store_result(o, sn_ix_const(s->m, k), x, place, (sn_val){0});
    }
}

static sn_buf new_local(selection *s, const char *name, sn_dtype t, int64_t elements) {
    const char *full = sn_strf(&s->m->arena, "%s_%s", sn_kern_get(s->m, s->lw->kern)->name, name);
    return sn_local_new(s->m, full, t, SN_BUF_SHARED, elements, 1);
}

/* One core with AVX-512, f32, in hundredths of a nanosecond: an element of a row takes 12, and 15 in each of as many passes; one that gets in 110 for each
 * that is kept, and its chunk 1700. Those are the elements of the first chunk, and of a row in no order k / i of the i-th behind it. */
bool sn_sort_takes_selection(const sn_order *o) {
    enum { ELEMENT = 12, PASSED = 15, KEPT = 110, HIT = 1700 };
    const sn_target *t = o->lw->cx->target;
    if (t->is_gpu || o->wide || o->keep > MOST_KEPT || o->n < 2 * CHUNK || o->rows < t->units) return false;
    double n = (double)o->n, k = (double)o->keep, later = k * log(n / CHUNK), chunks = n / CHUNK;
    double once = ELEMENT * n + KEPT * k * (CHUNK + later) + HIT * (later < chunks ? later : chunks);
    return once < PASSED * k * n;
}

void sn_sort_select(sn_order *o) {
    selection s = {.o = o, .lw = o->lw, .m = o->m};
    int64_t chunks = o->n / CHUNK;
    sn_order_open_grid(o, 1);
    s.keys = new_local(&s, "keys", SN_I32, CHUNK), s.best = new_local(&s, "best", SN_I64, o->keep);
    sn_cursor body = o->lw->at;
    for (int64_t k = 0; k < o->keep; k++)
        sn_put_store(o->m, o->lw->at, s.best, sn_ix_const(o->m, k), integer(&s, INT64_MAX));
    put_chunk(&s, sn_ix_const(o->m, 0), CHUNK, true);
    sn_ix c = open(&s, "c", chunks - 1, SN_AXIS_SEQ);
    put_chunk(&s, sn_ix_scale(o->m, sn_ix_addc(o->m, c, 1), CHUNK), CHUNK, false);
    o->lw->at = body;
    if (o->n % CHUNK) put_chunk(&s, sn_ix_const(o->m, chunks * CHUNK), o->n % CHUNK, false);
    put_results(&s);
    sn_lower_end(o->lw, "sort select");
}
