/* scalar.c: the meaning of scalar operations and combiners, expanded from lops.def and combs.def.
 *
 * Relies on dtype.c for rounding and wrapping. Integers divided by 0 give 0 (floordiv, rem and fmod too); INT64_MIN /
 * -1 wraps. Does not know statements: loads, stores and index expressions are the evaluator's.
 */
#include "ir/ops/scalar.h"

#include <math.h>

#define INT64_NEG(a) ((int64_t)(0 - (uint64_t)(a)))

/* ---- helpers that rows of lops.def name ---- */

bool sn_int_less(int64_t a, int64_t b, bool is_unsigned) { return is_unsigned ? (uint64_t)a < (uint64_t)b : a < b; }

int64_t sn_int_div(int64_t a, int64_t b) {
    if (b == 0) return 0;
    return b == -1 ? INT64_NEG(a) : a / b;
}

int64_t sn_int_floordiv(int64_t a, int64_t b) {
    int64_t q = sn_int_div(a, b);
    if (b == 0 || b == -1) return q;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t sn_int_rem(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t sn_int_fmod(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

int64_t sn_uint_div(int64_t a, int64_t b) { return b ? (int64_t)((uint64_t)a / (uint64_t)b) : 0; }

int64_t sn_uint_rem(int64_t a, int64_t b) { return b ? (int64_t)((uint64_t)a % (uint64_t)b) : 0; }

/* a to the power b, wrapped. A negative exponent gives the integer part: 0 unless a is 1 or -1. */
int64_t sn_int_pow(int64_t a, int64_t b, bool is_unsigned) {
    if (!is_unsigned && b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    uint64_t result = 1, base = (uint64_t)a;
    for (uint64_t e = (uint64_t)b; e; e >>= 1, base *= base)
        if (e & 1) result *= base;
    return (int64_t)result;
}

/* By a distance that is negative or too large: nothing is left but the sign. */
int64_t sn_int_shr(int64_t a, int64_t b, int bits, bool is_unsigned) {
    bool inside = b >= 0 && b < bits;
    if (is_unsigned) return inside ? (int64_t)((uint64_t)a >> b) : 0;
    return inside ? a >> b : a < 0 ? -1 : 0;
}

/* a + the products of the two halves of words b and c, as signed numbers. */
int64_t sn_int_dot2(int64_t a, int64_t b, int64_t c) {
    uint64_t low = (uint64_t)((int64_t)(int16_t)b * (int16_t)c),
             high = (uint64_t)((int64_t)(int16_t)(b >> 16) * (int16_t)(c >> 16));
    return (int64_t)((uint64_t)a + low + high);
}

/* a + the products of the four bytes of words b, which have no sign, and c, which have one. */
int64_t sn_int_dot4(int64_t a, int64_t b, int64_t c) {
    uint64_t sum = (uint64_t)a;
    for (int k = 0; k < 32; k += 8) sum += (uint64_t)((int64_t)(uint8_t)(b >> k) * (int8_t)(c >> k));
    return (int64_t)sum;
}

/* cbrt of glibc is off by up to 4 units, which is more than compiled code is. */
double sn_float_cbrt(double a) { return (double)cbrtl(a); }

double sn_float_rem(double a, double b) {
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double sn_float_max(double a, double b) {
    if (isnan(a) || isnan(b)) return NAN;
    return a > b ? a : b;
}

double sn_float_min(double a, double b) {
    if (isnan(a) || isnan(b)) return NAN;
    return a < b ? a : b;
}

/* ---- operations ---- */

/* A row without a meaning on this class expands to NA; sn_lop_allowed keeps such calls out. */
#define NA (SN_ASSERT(!"operation exists on the dtype"), 0)

static double float_op(sn_lop op, double a, double b, double c) {
    (void)b, (void)c;
    switch (op) {
#define SN_LOP(ID, name, n_in, result, f, i) case SN_LOP_##ID: return (double)(f);
#define SN_STMT(ID, name, n_in, result, effects, format, doc) case SN_LOP_##ID: break;
#include "ir/ops/lops.def"
    case SN_N_ALL_LOPS: break;
    }
    return NA;
}

static int64_t int_op(sn_lop op, int bits, bool is_unsigned, int64_t a, int64_t b, int64_t c) {
    switch (op) {
#define SN_LOP(ID, name, n_in, result, f, i) case SN_LOP_##ID: return (int64_t)(i);
#define SN_STMT(ID, name, n_in, result, effects, format, doc) case SN_LOP_##ID: break;
#include "ir/ops/lops.def"
    case SN_N_ALL_LOPS: break;
    }
    return NA;
}

#undef NA

static int dtype_bits(sn_dtype t) { return t == SN_BOOL ? 1 : (int)sn_dtype_bytes(t) * 8; }

sn_scalar sn_scalar_op(sn_lop op, sn_dtype dtype, sn_scalar a, sn_scalar b, sn_scalar c, bool round) {
    bool is_bool = sn_lops[op].result == SN_RESULT_BOOL;
    if (!sn_is_float(dtype)) {
        int64_t i = int_op(op, dtype_bits(dtype), sn_is_unsigned(dtype), a.i, b.i, c.i);
        return (sn_scalar){.i = is_bool ? i != 0 : sn_wrap_to(dtype, i)};
    }
    double f = float_op(op, op == SN_LOP_SELECT ? (double)a.i : a.f, b.f, c.f);
    if (is_bool) return (sn_scalar){.i = f != 0};
    return (sn_scalar){.f = round ? sn_round_to(dtype, f) : f};
}

bool sn_lop_allowed(sn_lop op, sn_dtype dtype) {
    if (op >= SN_N_LOPS) return true;
    if (sn_is_float(dtype)) return sn_lops[op].on_float;
    if (dtype != SN_BOOL) return sn_lops[op].on_int;
    /* Arithmetic that would leave 0 and 1, and shifts, do not exist on bool (as in PyTorch). */
    static const sn_lop NOT_ON_BOOL[] = {SN_LOP_NEG, SN_LOP_SUB, SN_LOP_DIV, SN_LOP_FLOORDIV, SN_LOP_REM, SN_LOP_FMOD,
                                         SN_LOP_POW, SN_LOP_SHL, SN_LOP_SHR, SN_LOP_DOT2,     SN_LOP_DOT4};
    for (size_t i = 0; i < SN_COUNT(NOT_ON_BOOL); i++)
        if (op == NOT_ON_BOOL[i]) return false;
    return sn_lops[op].on_int;
}

/* ---- conversion ---- */

static int64_t int_lowest(sn_dtype t) {
    return sn_dtypes[t].cls == SN_CLASS_INT ? (int64_t)((uint64_t)-1 << (dtype_bits(t) - 1)) : 0;
}

static int64_t int_highest(sn_dtype t) {
    if (sn_dtypes[t].cls == SN_CLASS_INT) return ~int_lowest(t);
    return (int64_t)(UINT64_MAX >> (64 - dtype_bits(t)));
}

/* Truncates and saturates; nan gives 0. */
static int64_t float_to_int(sn_dtype to, double x) {
    if (to == SN_BOOL) return x != 0;
    if (isnan(x)) return 0;
    /* The first number that is too large: 2^63 is not an int64, nor is the double of INT64_MAX. */
    if (x >= ldexp(1, dtype_bits(to) - !sn_is_unsigned(to))) return int_highest(to);
    if (x <= (double)int_lowest(to)) return int_lowest(to);
    return to == SN_U64 ? (int64_t)(uint64_t)x : (int64_t)x;
}

/* Rounds once. */
static double int_to_f32(sn_dtype from, int64_t x) { return (double)(from == SN_U64 ? (float)(uint64_t)x : (float)x); }

sn_scalar sn_scalar_cast(sn_dtype to, sn_dtype from, sn_scalar x, bool round) {
    if (!sn_is_float(to)) return (sn_scalar){.i = sn_is_float(from) ? float_to_int(to, x.f) : sn_wrap_to(to, x.i)};
    if (!sn_is_float(from) && to == SN_F32 && round) return (sn_scalar){.f = int_to_f32(from, x.i)};
    double f = sn_is_float(from) ? x.f : sn_int_to_double(from, x.i);
    return (sn_scalar){.f = round ? sn_round_to(to, f) : f};
}

/* ---- combiners ---- */

void sn_scalar_identity(sn_comb comb, sn_dtype dtype, sn_scalar *state) {
    static const struct {
        double f;
    } ROWS[SN_N_COMBS] = {
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#define SN_COMB(ID, name, second, fi, ii, doc) [SN_COMB_##ID] = {.f = fi},
#include "ir/ops/combs.def"
#undef SN_COMB
#undef LOWEST
#undef HIGHEST
    };
    double f = ROWS[comb].f;
    state[0] = (sn_scalar){0};
    if (sn_is_float(dtype)) state[0].f = f;
    else state[0].i = isinf(f) ? (f < 0 ? int_lowest(dtype) : int_highest(dtype)) : (int64_t)f;
    if (sn_combs[comb].second == SN_SECOND_POSITION) state[1] = (sn_scalar){.i = INT64_MAX};
    for (uint32_t k = 1; k < sn_combs[comb].states; k++)
        if (sn_combs[comb].second != SN_SECOND_POSITION) state[k] = (sn_scalar){.f = 0};
}

/* Does the element x go before the state of an argmax (sign 1) or argmin (sign -1)? */
static bool goes_first(int sign, sn_dtype dtype, const sn_scalar *x, const sn_scalar *state) {
    int order;
    if (sn_is_float(dtype)) {
        bool nx = isnan(x->f), ns = isnan(state->f);
        order = nx || ns ? nx - ns : sign * ((x->f > state->f) - (x->f < state->f));
    } else {
        bool less = sn_int_less(x->i, state->i, sn_is_unsigned(dtype));
        order = x->i == state->i ? 0 : less ? -sign : sign;
    }
    return order > 0 || (order == 0 && x[1].i < state[1].i);
}

/* (m, s) stands for s * e^m; see combs.def. */
static void combine_sumexp(sn_dtype dtype, sn_scalar *state, const sn_scalar *x, bool round) {
    double m = sn_float_max(state[0].f, x[0].f), c = isinf(m) ? 0 : m;
    double s = state[1].f * exp(state[0].f - c) + x[1].f * exp(x[0].f - c);
    state[0].f = m;
    state[1].f = round ? sn_round_to(dtype, s) : s;
}

/* (s, q, n); see combs.def. */
static void combine_moments(sn_dtype dtype, sn_scalar *state, const sn_scalar *x, bool round) {
    double na = state[2].f, nb = x[2].f, q = state[1].f + x[1].f;
    double away = na > 0 && nb > 0 ? x[0].f / nb - state[0].f / na : 0;
    if (na > 0 && nb > 0) q += away * away * (na * nb / (na + nb));
    double all[] = {state[0].f + x[0].f, q, na + nb};
    for (uint32_t k = 0; k < 3; k++) state[k].f = round ? sn_round_to(dtype, all[k]) : all[k];
}

void sn_scalar_combine(sn_comb comb, sn_dtype dtype, sn_scalar *state, const sn_scalar *x, bool round) {
    if (sn_combs[comb].states == 1) {
        *state = sn_scalar_op(sn_comb_lops[comb], dtype, *state, *x, (sn_scalar){0}, round);
        return;
    }
    if (comb == SN_COMB_SUMEXP) {
        combine_sumexp(dtype, state, x, round);
    } else if (comb == SN_COMB_MOMENTS) {
        combine_moments(dtype, state, x, round);
    } else if (goes_first(comb == SN_COMB_ARGMAX ? 1 : -1, dtype, x, state)) {
        state[0] = x[0];
        state[1] = x[1];
    }
}
