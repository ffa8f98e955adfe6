/* attend_range.c: what the scores of attention lie between, whatever q and k are.
 *
 *     50 * tanh(s)  ->  -50 .. 50        sigmoid(s) + i8  ->  -128 .. 128        s  ->  anything
 *
 * Weights of such scores are numbers without a maximum of the row: 2^(c*score - shift) with a shift that is the same
 * for all rows. Infinite ends say that nothing is known; nan may be among the scores either way. A score that a mask
 * makes -inf is a hole in what is known of the others.
 *
 * Where it is asked what likely scores lie between, q times k is taken to lie within numbers far above those of any model: 2^24, and of f16,
 * whose largest number is 65504, 2^15.
 *
 * Integers wrap around, and floats become infinite: a range that does not fit the dtype says nothing but what the dtype does.
 * A nan that becomes an integer is any of them.
 */
#include <math.h>

#include "passes/schedule/attention/attend.h"

#include "passes/base/constants.h"

typedef sn_attend_range range;

static const range ANYTHING = {-INFINITY, INFINITY, false}, HOLE = {INFINITY, -INFINITY, true};

static double least(double x, double y) { return x < y ? x : y; }
static double largest(double x, double y) { return x > y ? x : y; }
static bool is_known(range r) { return isfinite(r.lo) && isfinite(r.hi); }

/* What the finite numbers of the dtype lie between. */
static range numbers_of(sn_dtype t) {
    int bits = 8 * (int)sn_dtype_bytes(t);
    if (sn_is_float(t)) {
        double most = ldexp(2 - ldexp(1, 1 - (int)sn_dtypes[t].digits), sn_float_highest(t));
        return (range){-most, most, false};
    }
    if (t == SN_BOOL) return (range){0, 1, false};
    if (sn_is_unsigned(t)) return (range){0, ldexp(1, bits) - 1, false};
    return (range){-ldexp(1, bits - 1), ldexp(1, bits - 1) - 1, false};
}

/* What a value is within if nothing but its dtype is known of it. */
static range of_dtype(sn_dtype t) { return sn_is_integral(t) ? numbers_of(t) : ANYTHING; }

/* As a number of that dtype: whatever lies between two numbers lies between them rounded. */
static double rounded(sn_dtype t, double x) {
    int exponent, digits = (int)sn_dtypes[t].digits;
    double fraction = frexp(x, &exponent);
    return isfinite(x) ? ldexp(rint(ldexp(fraction, digits)), exponent - digits) : x;
}

/* What numbers of that range are as those of the dtype; an end may be nan, of infinities. */
static range fits(sn_dtype t, range r) {
    range all = numbers_of(t);
    if (sn_is_float(t)) r = (range){rounded(t, r.lo), rounded(t, r.hi), r.holes};
    bool above = r.lo >= all.lo, below = r.hi <= all.hi;
    if (sn_is_integral(t)) return above && below ? r : all;
    return (range){above ? r.lo : -INFINITY, below ? r.hi : INFINITY, r.holes};
}

static range of_constant(const sn_stmt_rec *r) {
    if (!sn_is_float(r->dtype)) return (range){(double)r->i, (double)r->i, false};
    return r->f == -INFINITY ? HOLE : (range){r->f, r->f, false};
}

static range product(range x, range y) {
    double ends[] = {x.lo * y.lo, x.lo * y.hi, x.hi * y.lo, x.hi * y.hi};
    if (!is_known(x) || !is_known(y)) return ANYTHING;
    range r = {ends[0], ends[0], false};
    for (size_t i = 1; i < SN_COUNT(ends); i++) r = (range){least(r.lo, ends[i]), largest(r.hi, ends[i]), false};
    return r;
}

/* Of an operation whose operands have ranges without holes. */
static range of_known(const sn_stmt_rec *r, range x, range y) {
    switch ((int)r->op) {
    case SN_LOP_NEG: return (range){-x.hi, -x.lo, false};
    case SN_LOP_ADD: return (range){x.lo + y.lo, x.hi + y.hi, false};
    case SN_LOP_SUB: return (range){x.lo - y.hi, x.hi - y.lo, false};
    case SN_LOP_MUL: return product(x, y);
    case SN_LOP_DIV:
        if (y.lo != y.hi || y.lo == 0 || sn_is_integral(r->dtype)) return ANYTHING;
        return product(x, (range){1 / y.lo, 1 / y.lo, false});
    case SN_LOP_MAX: return (range){largest(x.lo, y.lo), largest(x.hi, y.hi), false};
    case SN_LOP_MIN: return (range){least(x.lo, y.lo), least(x.hi, y.hi), false};
    default: return ANYTHING;
    }
}

static range of_cast(const sn_attend *a, const sn_stmt_rec *r, range x) {
    bool becomes_integer = sn_is_integral(r->dtype) && sn_is_float(sn_val_get(a->m, r->in[0])->dtype);
    return becomes_integer || r->dtype == SN_BOOL ? of_dtype(r->dtype) : fits(r->dtype, x);
}

/* After so many values nothing is said: those that are shared are looked at once for each of their users. */
enum { MOST_VALUES = 256 };

typedef struct question {
    const sn_attend *a;
    range sum; /* what q times k is taken to lie between */
    uint32_t left;
} question;

static range of(question *ask, sn_val v) {
    const sn_attend *a = ask->a;
    sn_stmt def = sn_val_get(a->m, v)->def;
    const sn_stmt_rec *r = def.i ? sn_stmt_get(a->m, def) : NULL;
    if (sn_val_eq(v, a->sum)) return ask->sum;
    if (!r || !ask->left) return ANYTHING;
    --ask->left;
    switch ((int)r->op) {
    case SN_LOP_CONST: return of_constant(r);
    case SN_LOP_LOAD: return of_dtype(r->dtype);
    case SN_LOP_TANH:
    case SN_LOP_TANH_SHORT:
    case SN_LOP_ERF:
    case SN_LOP_SIN:
    case SN_LOP_COS: return (range){-1, 1, false};
    case SN_LOP_SIGMOID: return (range){0, 1, false};
    case SN_LOP_CAST: return of_cast(a, r, of(ask, r->in[0]));
    case SN_LOP_SELECT: {
        range x = of(ask, r->in[1]), y = of(ask, r->in[2]);
        return (range){least(x.lo, y.lo), largest(x.hi, y.hi), x.holes || y.holes};
    }
    default: break;
    }
    range x = r->n_in ? of(ask, r->in[0]) : ANYTHING, y = r->n_in > 1 ? of(ask, r->in[1]) : x;
    return x.holes || y.holes ? of_dtype(r->dtype) : fits(r->dtype, of_known(r, x, y));
}

sn_attend_range sn_attend_range_of(const sn_attend *a) {
    question ask = {a, ANYTHING, MOST_VALUES};
    range r = of(&ask, a->score);
    double factor = a->scaled.i ? 1 : a->factor; /* the score has it */
    return is_known(r) ? (range){factor * r.lo, factor * r.hi, r.holes} : ANYTHING;
}

sn_attend_range sn_attend_range_likely(const sn_attend *a, sn_val v) {
    bool small = sn_stmt_get(a->m, a->q)->dtype == SN_F16 && sn_stmt_get(a->m, a->key)->dtype == SN_F16;
    double most = small ? SN_SCORE_LIKELY_F16 : SN_SCORE_LIKELY;
    question ask = {a, {-most, most, false}, MOST_VALUES};
    return of(&ask, v);
}
