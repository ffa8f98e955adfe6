/* contract_words.c: which numbers the factors of a sum of i32 can be, and how many of them fit a word.
 *
 *     cast.i32 (load x: i8)                          -128 .. 127
 *     select %m, (cast.i32 (load x: u8)) - 128, 0    -128 .. 127
 *     (cast.i32 (load x: u8)) - (load z: i32)        anything
 *
 * Both factors within 16 bits: products of two steps are added at once, as halves of words (pmaddwd of x86). One within 8
 * bits with a sign, and the other one in a range of 256 numbers: of four steps, as bytes (vpdpbusd). Sums wrap as those
 * of i32 do, so that the bits are the same in any order.
 *
 * Ranges follow from dtypes, literals and interval arithmetic on them; what wraps may be anything that its dtype holds.
 */
#include "passes/schedule/products/contract_words.h"

typedef struct range {
    int32_t low, high;
} range;

typedef struct ranger {
    sn_pass_ctx *cx;
    sn_notes seen; /* by sn_val: its range */
} ranger;

static const range ANY = {INT32_MIN, INT32_MAX};

/* Of all that the dtype holds. Of wider ones than i32 nothing is known. */
static range of_dtype(sn_dtype t) {
    if (t == SN_BOOL) return (range){0, 1};
    if (!sn_is_integral(t) || sn_dtype_bytes(t) > 2) return ANY;
    int32_t n = 1 << 8 * sn_dtype_bytes(t);
    return sn_is_unsigned(t) ? (range){0, n - 1} : (range){-n / 2, n / 2 - 1};
}

static bool is_counted(sn_dtype t) { return sn_is_integral(t) && (sn_dtype_bytes(t) <= 2 || t == SN_I32); }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* low .. high, unless that leaves the dtype. */
static range within(sn_dtype t, int64_t low, int64_t high) {
    range all = of_dtype(t);
    return low < all.low || high > all.high ? all : (range){(int32_t)low, (int32_t)high};
}

static range range_of(ranger *r, sn_val v);

static range of_two(ranger *r, const sn_stmt_rec *s) {
    range a = range_of(r, s->in[0]), b = range_of(r, s->in[1]);
    int64_t ends[] = {(int64_t)a.low * b.low, (int64_t)a.low * b.high, (int64_t)a.high * b.low,
                      (int64_t)a.high * b.high};
    switch ((int)s->op) {
    case SN_LOP_ADD: return within(s->dtype, (int64_t)a.low + b.low, (int64_t)a.high + b.high);
    case SN_LOP_SUB: return within(s->dtype, (int64_t)a.low - b.high, (int64_t)a.high - b.low);
    case SN_LOP_MUL:
        return within(s->dtype, least(least(ends[0], ends[1]), least(ends[2], ends[3])),
                      most(most(ends[0], ends[1]), most(ends[2], ends[3])));
    case SN_LOP_MIN: return within(s->dtype, least(a.low, b.low), least(a.high, b.high));
    case SN_LOP_MAX: return within(s->dtype, most(a.low, b.low), most(a.high, b.high));
    default: return of_dtype(s->dtype);
    }
}

static range of_statement(ranger *r, const sn_stmt_rec *s, sn_dtype t) {
    range x, y;
    switch ((int)s->op) {
    case SN_LOP_CONST: return within(t, s->i, s->i);
    case SN_LOP_CAST:
        if (!is_counted(sn_val_get(r->cx->m, s->in[0])->dtype)) return of_dtype(t);
        x = range_of(r, s->in[0]);
        return within(t, x.low, x.high);
    case SN_LOP_SELECT:
        x = range_of(r, s->in[1]), y = range_of(r, s->in[2]);
        return within(t, least(x.low, y.low), most(x.high, y.high));
    case SN_LOP_ADD:
    case SN_LOP_SUB:
    case SN_LOP_MUL:
    case SN_LOP_MIN:
    case SN_LOP_MAX: return t == SN_BOOL ? of_dtype(t) : of_two(r, s);
    default: return of_dtype(t);
    }
}

static range range_of(ranger *r, sn_val v) {
    uint64_t known;
    sn_dtype t = sn_val_get(r->cx->m, v)->dtype;
    if (sn_notes_find(&r->seen, v.i, &known)) return (range){(int32_t)(known >> 32), (int32_t)known};
    range x = is_counted(t) ? of_statement(r, sn_stmt_get(r->cx->m, sn_val_get(r->cx->m, v)->def), t) : ANY;
    sn_notes_set(&r->seen, v.i, (uint64_t)(uint32_t)x.low << 32 | (uint32_t)x.high);
    return x;
}

/* ---- words ---- */

/* Of all operands of a side. */
static range of_side(ranger *r, const sn_contraction *c, bool right) {
    range all = {INT32_MAX, INT32_MIN};
    for (uint32_t o = 0; o < c->n_operands; o++) {
        if (c->operands[o].right != right) continue;
        range x = range_of(r, c->operands[o].value);
        all = (range){(int32_t)least(all.low, x.low), (int32_t)most(all.high, x.high)};
    }
    return all;
}

static bool fits(range x, int64_t low, int64_t high) { return x.low >= low && x.high <= high; }

/* What has to be taken from x for bytes without a sign; false: its range is too wide. */
static bool find_low(int64_t *low, range x) {
    *low = fits(x, 0, UINT8_MAX) ? 0 : x.low;
    return (int64_t)x.high - x.low <= UINT8_MAX;
}

static bool find_bytes(sn_contract_words *out, const sn_contraction *c, range left, range right) {
    int64_t low_left = 0, low_right = 0;
    bool one = c->n_products == 1;
    bool by_right = fits(left, INT8_MIN, INT8_MAX) && find_low(&low_right, right) && (one || !low_right);
    bool by_left = fits(right, INT8_MIN, INT8_MAX) && find_low(&low_left, left) && (one || !low_left);
    if (!by_left && !by_right) return false;
    /* Where there is a choice: the one that takes nothing, or whose other factors are fewer. */
    bool right_wins = !by_left || (by_right && (!low_right || (low_left && c->m <= c->n)));
    *out = (sn_contract_words){.steps = 4, .right_unsigned = right_wins, .low = right_wins ? low_right : low_left};
    return true;
}

sn_contract_words sn_contract_words_find(sn_pass_ctx *cx, const sn_contraction *c) {
    ranger r = {.cx = cx, .seen = {.arena = cx->scratch}};
    sn_contract_words words = {.steps = 1};
    if (c->dtype != SN_I32 || cx->target->word_steps < 2) return words;
    range left = of_side(&r, c, false), right = of_side(&r, c, true);
    if (cx->target->word_steps >= 4 && c->k > 2 && find_bytes(&words, c, left, right)) return words;
    if (c->k > 1 && fits(left, INT16_MIN, INT16_MAX) && fits(right, INT16_MIN, INT16_MAX)) words.steps = 2;
    return words;
}
