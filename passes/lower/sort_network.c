/* sort_network.c: sort and topk of short rows on a CPU, by a network written out. Part of the pass `to-loops`.
 *
 *     %t = sort %x axis=1 : f32[1000, 5]
 *
 *     loop i in 1000 {
 *       w0 = word of x[5*i]  ..  w4 = word of x[5*i + 4]
 *       min, max of w0, w4; of w1, w3; ..                          nine exchanges
 *       t[5*i] = value of w0  ..  t[5*i + 4] = value of w4 }
 *
 * Rows stand in the lanes of vectors, so that an exchange is a minimum and a maximum for all of them. It is Batcher's merge exchange for any
 * number of elements (Knuth, volume 3, 5.2.2, algorithm M). Nothing is scheduled and nothing searched: `fuse` has the network where its elements are made and
 * where ranks are read, and of ranks that nobody reads (all but one of a median) the exchanges go as dead code.
 *
 * Words are whole numbers that compare as sorting wants it (order.c):
 *
 *     values alone       their bits, so that a word becomes its value again
 *     few bits, places   i32 of key and position
 *     32 bits, places    i64 of key, position, and the sign, which keys of zeros have not
 *
 * All become their values again, so that no lane looks one up. Without positions nobody can tell equal elements apart, but for zeros: -0 stands
 * before 0 then (descending: behind it). Nans come out as nans of other bits.
 *
 * Cost: about log2(n)^2 / 4 exchanges an element; the code has all of them.
 */
#include "passes/lower/order.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64 /* elements of a row */, WORD_BITS = 32 };

typedef enum word_form { BARE, NARROW, ITEM } word_form;

typedef struct network {
    sn_order *o;
    sn_lower *lw;
    sn_module *m;
    word_form form;
    uint32_t bits; /* of a place, NARROW */
    sn_val words[MOST];
} network;

static sn_val op(network *w, sn_lop lop, sn_val a, sn_val b) { return sn_put_op2(w->m, w->lw->at, lop, a, b); }

static sn_val integer(network *w, sn_dtype t, int64_t x) { return sn_put_const_int(w->m, w->lw->at, t, x); }

/* ---- words ---- */

/* Those of a key that differ. */
static uint32_t key_bits(const sn_order *o) {
    sn_dtype t = o->type->dtype;
    uint32_t bits = 8 * sn_dtype_bytes(t), known = sn_is_float(t) ? bits : sn_lower_bits(o->lw, o->x);
    if (sn_is_float(t) || t == SN_U32)
        return WORD_BITS; /* halves have keys of f32, and keys of u32 their upper bit turned */
    return known < bits ? known + 1 : bits;
}

static uint32_t place_bits(const sn_order *o) {
    uint32_t bits = 1;
    while ((int64_t)1 << bits < o->n) bits++;
    return bits;
}

static word_form form_of(const sn_order *o) {
    if (!o->out[1].i) return BARE;
    return key_bits(o) + place_bits(o) <= WORD_BITS ? NARROW : ITEM;
}

/* Bits of a float as an integer in the order of the values, and back: negative ones are turned. Nans are last, which have no sign then. */
static sn_val turned(network *w, sn_val bits) {
    sn_dtype t = sn_val_get(w->m, bits)->dtype;
    sn_val most = integer(w, t, t == SN_I64 ? INT64_MAX : INT32_MAX);
    sn_val sign = op(w, SN_LOP_LT, bits, integer(w, t, 0));
    return sn_put_op3(w->m, w->lw->at, SN_LOP_SELECT, sign, op(w, SN_LOP_XOR, bits, most), bits);
}

static sn_val bare_word(network *w, sn_val x) {
    sn_cursor at = w->lw->at;
    sn_dtype t = sn_val_get(w->m, x)->dtype, to = t == SN_F64 ? SN_I64 : SN_I32;
    if (!sn_is_float(t)) return sn_order_key(w->o, x);
    sn_val bits = sn_put_bitcast(w->m, at, to, x);
    sn_val unsign = op(w, SN_LOP_AND, bits, integer(w, to, to == SN_I64 ? INT64_MAX : INT32_MAX));
    sn_val word = sn_put_op3(w->m, at, SN_LOP_SELECT, sn_put_op1(w->m, at, SN_LOP_ISNAN, x), unsign, turned(w, bits));
    return w->o->descending ? sn_put_op1(w->m, at, SN_LOP_NOT, word) : word;
}

/* The upper bit of a float, as the lowest one beside a place. */
static sn_val sign_of(network *w, sn_val x) {
    sn_val bits = sn_put_bitcast(w->m, w->lw->at, SN_I32, x);
    return op(w, SN_LOP_AND, op(w, SN_LOP_SHR, bits, integer(w, SN_I32, WORD_BITS - 1)), integer(w, SN_I32, 1));
}

static sn_val word_of(network *w, sn_ix e) {
    sn_order *o = w->o;
    sn_val x = sn_order_element(o, e);
    if (w->form == BARE) return bare_word(w, x);
    sn_val key = sn_order_key(o, x), place = sn_put_index(w->m, w->lw->at, SN_I32, e);
    if (w->form == NARROW) return op(w, SN_LOP_OR, op(w, SN_LOP_SHL, key, integer(w, SN_I32, w->bits)), place);
    place = sn_put_index(w->m, w->lw->at, SN_I32, sn_ix_scale(w->m, e, 2));
    if (sn_is_float(sn_val_get(w->m, x)->dtype)) place = op(w, SN_LOP_OR, place, sign_of(w, x));
    key = op(w, SN_LOP_SHL, sn_put_cast(w->m, w->lw->at, SN_I64, key), integer(w, SN_I64, WORD_BITS));
    return op(w, SN_LOP_OR, key, sn_put_cast(w->m, w->lw->at, SN_I64, place));
}

/* The integer whose key that is. */
static sn_val integer_of(network *w, sn_val key) {
    sn_dtype t = w->o->type->dtype, as = sn_val_get(w->m, key)->dtype;
    if (w->o->descending) key = sn_put_op1(w->m, w->lw->at, SN_LOP_NOT, key);
    if (t == SN_U32 || t == SN_U64) key = op(w, SN_LOP_XOR, key, integer(w, as, as == SN_I64 ? INT64_MIN : INT32_MIN));
    return key;
}

/* The value of a word, in the compute dtype. */
static sn_val value_of(network *w, sn_val word) {
    sn_cursor at = w->lw->at;
    sn_dtype t = sn_compute_dtype(w->o->type->dtype);
    sn_val key = word;
    if (w->form == NARROW) key = op(w, SN_LOP_SHR, word, integer(w, SN_I32, w->bits));
    if (w->form == ITEM) key = sn_put_cast(w->m, at, SN_I32, op(w, SN_LOP_SHR, word, integer(w, SN_I64, WORD_BITS)));
    key = integer_of(w, key);
    if (!sn_is_float(t)) return sn_put_cast(w->m, at, t, key);
    sn_val bits = turned(w, key);
    if (w->form == ITEM) {
        sn_val low = sn_put_cast(w->m, at, SN_I32, op(w, SN_LOP_AND, word, integer(w, SN_I64, 1)));
        bits = op(w, SN_LOP_OR, bits, op(w, SN_LOP_SHL, low, integer(w, SN_I32, WORD_BITS - 1)));
    }
    return sn_put_bitcast(w->m, at, t, bits);
}

static sn_val place_of(network *w, sn_val word) {
    if (w->form == BARE) return (sn_val){0};
    if (w->form == NARROW) {
        word = op(w, SN_LOP_AND, word, integer(w, SN_I32, ((int64_t)1 << w->bits) - 1));
    } else {
        word = op(w, SN_LOP_AND, word, integer(w, SN_I64, UINT32_MAX));
        word = op(w, SN_LOP_SHR, word, integer(w, SN_I64, 1));
    }
    return sn_put_cast(w->m, w->lw->at, w->o->place, word);
}

/* ---- the network ---- */

static void exchange(network *w, int64_t i, int64_t j) {
    sn_val a = w->words[i], b = w->words[j];
    w->words[i] = op(w, SN_LOP_MIN, a, b);
    w->words[j] = op(w, SN_LOP_MAX, a, b);
}

static void put_exchanges(network *w) {
    int64_t n = w->o->n, top = sn_pow2_ceil(n) / 2;
    for (int64_t p = top; p; p /= 2)
        for (int64_t q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
            for (int64_t i = 0; i + d < n; i++)
                if ((i & p) == r) exchange(w, i, i + d);
            if (q == p) break;
        }
}

/* Elements between those of neighbouring rows, along the last axis of rows; 1 where they are computed. */
static int64_t step_of_lanes(const sn_order *o) {
    sn_lower *lw = o->lw;
    sn_ix index[SN_MAX_RANK], at[SN_MAX_RANK];
    sn_axis last = {0};
    sn_nd x = o->x;
    int64_t step;
    for (uint32_t k = 0; k < o->type->rank; k++) {
        sn_axis ax = sn_axis_new(o->m, "i", o->type->shape[k]);
        if (k != o->axis && !sn_ix_eq(o->type->shape[k], sn_ix_const(o->m, 1))) last = ax;
        index[k] = sn_ix_axis(o->m, ax);
    }
    for (; !lw->nodes[x.i].buf.i; x = sn_node_get(o->m, x)->in[0]) {
        if (sn_ops[sn_node_get(o->m, x)->op].cls != SN_OPS_VIEW) return 1;
        sn_lower_view_index(lw, x, index, at);
        memcpy(index, at, sizeof index);
    }
    sn_ix e = sn_lower_place(lw, x, lw->nodes[x.i].buf, index);
    return sn_ix_coef(o->m, e, last, &step) ? llabs(step) : INT64_MAX;
}

/* Rows fill the lanes; keys of 64 bits have room for positions nowhere. Lanes that lie apart are loaded one by one, which as many passes as
 * there are elements wanted have no need of. Those that lie too far apart for vectors at all go through the network one by one, which is worth
 * it for all of a row that is too short for its ranks to be counted by vectors, or without positions. */
bool sn_sort_takes_network(const sn_order *o, bool passes) {
    enum { LANES = 8, COUNTED = 32 };
    if (o->lw->cx->target->is_gpu || o->n > MOST || o->rows < LANES || (o->wide && o->out[1].i)) return false;
    int64_t step = step_of_lanes(o);
    if (step > SN_MOST_APART) return o->keep == o->n && (o->n <= COUNTED || form_of(o) == BARE);
    return step <= 1 || !passes || 2 * o->keep > place_bits(o);
}

void sn_sort_network(sn_order *o) {
    network w = {.o = o, .lw = o->lw, .m = o->m, .form = form_of(o), .bits = place_bits(o)};
    sn_order_open_rows(o);
    for (int64_t k = 0; k < o->n; k++) w.words[k] = word_of(&w, sn_ix_const(o->m, k));
    put_exchanges(&w);
    for (int64_t k = 0; k < o->keep; k++) {
        sn_val place = place_of(&w, w.words[k]), x = value_of(&w, w.words[k]);
        sn_order_store_result(o, sn_ix_const(o->m, k), x, place, (sn_val){0});
    }
    sn_lower_end(o->lw, "sort network");
}
