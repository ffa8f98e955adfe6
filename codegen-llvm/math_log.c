/* math_log.c: logarithms and powers: log, log2, log10, log1p, pow.
 *
 * x = 2^k m with m in sqrt(1/2) .. sqrt(2); log m is a series in s = f/(2+f), f = m - 1, exact near 1. pow needs log2 x
 * to about 1.5 times the precision of the type and carries pairs (hi, lo). Relies on fma being one rounding. No table,
 * no lg2.approx: it is inaccurate near 1.
 */
#include "codegen-llvm/math.h"

#include <math.h>

#define LOG2_E 0x1.71547652b82fep+0
#define LOG2_E_LOW 0x1.777d0ffda0d24p-56
#define LOG2_E_32 0x1.715476p+0
#define LOG2_E_LOW_32 0x1.4ae0c0p-26
#define LOG10_E 0x1.bcb7b1526e50ep-2
#define LOG10_E_LOW 0x1.95355baaafad3p-57
#define LOG10_E_32 0x1.bcb7b2p-2
#define LOG10_E_LOW_32 -0x1.5b235ep-27
#define LOG10_2 0x1.34413509f79ffp-2
#define LOG10_2_LOW -0x1.9dc1da994fd21p-59
#define LOG10_2_32 0x1.344136p-2
#define LOG10_2_LOW_32 -0x1.ec10c0p-27
/* ln 2 in two parts, the first with trailing zeros: its product with k is exact. */
#define LN_2_HIGH 0x1.62e42feep-1
#define LN_2_LOW 0x1.a39ef35793c76p-33
#define LN_2_HIGH_32 0x1.62ep-1
#define LN_2_LOW_32 0x1.0bfbe8p-15

/* (log((1+s)/(1-s)) - 2s) / s^3 in s^2, and the same less its first term 2/3, divided by s^2. */
static const double LOG_32[] = {0x1.55555cp-1, 0x1.997c2ap-2, 0x1.2ee73ep-2};
static const double LOG_64[] = {0x1.5555555555558p-1, 0x1.99999999952b2p-2, 0x1.2492492df6947p-2, 0x1.c71c62debf86bp-3,
                                0x1.7462b69705382p-3, 0x1.39fe208c33457p-3, 0x1.2b5b5fb2eac92p-3};
static const double TAIL_32[] = {0x1.9999a4p-2, 0x1.247a2cp-2, 0x1.d808a2p-3};
static const double TAIL_64[] = {0x1.999999999999ap-2, 0x1.2492492492522p-2, 0x1.c71c71c6ea871p-3,
                                 0x1.745d177aad02ap-3, 0x1.3b1395c88122p-3,  0x1.1118c9ee5b8a4p-3,
                                 0x1.df7c5bc7c7563p-4, 0x1.e032e4d8436a1p-4};

/* ---- taking numbers apart ---- */

/* x positive, normal, finite (anything else gives some number). */
static sn_math_parts split(sn_em *em, lv x) {
    bool wide = sn_em_is64(x);
    int64_t one = wide ? 0x3ff0000000000000 : 0x3f800000;
    int64_t root = wide ? 0x3fe6a09e667f3bcd : 0x3f3504f3; /* sqrt(1/2) */
    int64_t mantissa = wide ? 0xfffffffffffff : 0x7fffff;
    lv u = sn_em_ibits(em, x);
    lv moved = em_iadd(em, u, sn_em_i(em, u, one - root));
    lv k = em_isub(em, em_lshr(em, moved, sn_em_i(em, u, wide ? 52 : 23)), sn_em_i(em, u, wide ? 1023 : 127));
    lv m = em_iadd(em, em_and(em, moved, sn_em_i(em, u, mantissa)), sn_em_i(em, u, root));
    return (sn_math_parts){LLVMBuildSIToFP(em->b, k, LLVMTypeOf(x), ""), sn_em_fbits(em, m)};
}

/* Subnormal numbers are scaled up first. */
sn_math_parts sn_math_split(sn_em *em, lv x) {
    bool wide = sn_em_is64(x);
    lv tiny = em_less(em, x, wide ? 0x1p-1022 : 0x1p-126);
    sn_math_parts p = split(em, em_select(em, tiny, em_mulc(em, x, wide ? 0x1p54 : 0x1p25), x));
    p.k = em_select(em, tiny, em_addc(em, p.k, wide ? -54 : -25), p.k);
    return p;
}

static lv quotient(sn_em *em, lv a, lv b) {
    bool divides = sn_em_is64(a) || !em->cg->target->is_gpu;
    return divides ? em_div(em, a, b) : em_mul(em, a, sn_math_rcp_normal(em, b));
}

/* log(1 + f) = f - (half - series): half = f^2/2, series = s (half + R(s^2)). */
typedef struct log_terms {
    lv half, series;
} log_terms;

static log_terms log_series(sn_em *em, lv f) {
    lv s = quotient(em, f, em_addc(em, f, 2)), z = em_mul(em, s, s);
    lv p = sn_em_is64(f) ? sn_em_poly(em, z, LOG_64, SN_COUNT(LOG_64)) : sn_em_poly(em, z, LOG_32, SN_COUNT(LOG_32));
    lv half = em_mul(em, em_mulc(em, f, 0.5), f);
    return (log_terms){half, em_mul(em, s, em_fma(em, z, p, half))};
}

/* y for x > 0; nan below 0, -inf at 0; inf and nan go through. */
static lv log_specials(sn_em *em, lv x, lv y) {
    y = em_select(em, em_less(em, x, INFINITY), y, x);
    y = em_select(em, em_less(em, x, 0), sn_em_f(em, x, NAN), y);
    return em_select(em, em_equals(em, x, 0), sn_em_f(em, x, -INFINITY), y);
}

/* k ln 2 + log(1 + f) + c, c tiny. */
static lv log_sum(sn_em *em, lv k, lv f, lv c) {
    bool wide = sn_em_is64(f);
    log_terms t = log_series(em, f);
    lv low = em_fmac(em, k, wide ? LN_2_LOW : LN_2_LOW_32, c);
    lv rest = em_sub(em, em_sub(em, t.half, em_add(em, t.series, low)), f);
    return em_fmac(em, k, wide ? LN_2_HIGH : LN_2_HIGH_32, em_neg(em, rest));
}

/* ---- logarithms ---- */

/* hi + lo, |lo| at most half an ulp of hi. */
typedef struct pair {
    lv hi, lo;
} pair;

/* log m */
static pair log_mantissa(sn_em *em, lv m) {
    lv f = em_addc(em, m, -1);
    log_terms t = log_series(em, f);
    lv rest = em_sub(em, t.half, t.series), hi = em_sub(em, f, rest);
    return (pair){hi, em_sub(em, em_sub(em, f, hi), rest)};
}

lv sn_math_log(sn_em *em, const lv *in) {
    sn_math_parts p = sn_math_split(em, in[0]);
    return log_specials(em, in[0], log_sum(em, p.k, em_addc(em, p.m, -1), sn_em_f(em, p.k, 0)));
}

lv sn_math_log2(sn_em *em, const lv *in) {
    sn_math_parts p = sn_math_split(em, in[0]);
    bool wide = sn_em_is64(in[0]);
    pair l = log_mantissa(em, p.m);
    lv low = em_fmac(em, l.lo, wide ? LOG2_E : LOG2_E_32, em_mulc(em, l.hi, wide ? LOG2_E_LOW : LOG2_E_LOW_32));
    lv y = em_add(em, p.k, em_fmac(em, l.hi, wide ? LOG2_E : LOG2_E_32, low));
    return log_specials(em, in[0], y);
}

/* Here k adds a number that is rounded: its low part goes with the others. */
lv sn_math_log10(sn_em *em, const lv *in) {
    sn_math_parts p = sn_math_split(em, in[0]);
    bool wide = sn_em_is64(in[0]);
    pair l = log_mantissa(em, p.m);
    lv low =
        em_fmac(em, l.hi, wide ? LOG10_E_LOW : LOG10_E_LOW_32, em_mulc(em, p.k, wide ? LOG10_2_LOW : LOG10_2_LOW_32));
    low = em_fmac(em, l.lo, wide ? LOG10_E : LOG10_E_32, low);
    lv y = em_fmac(em, p.k, wide ? LOG10_2 : LOG10_2_32, em_fmac(em, l.hi, wide ? LOG10_E : LOG10_E_32, low));
    return log_specials(em, in[0], y);
}

/* u = 1 + x rounds; c = (1 + x - u) / u corrects log u. */
static lv log1p_plus(sn_em *em, lv x, lv doublings) { /* of 1 + x; NULL: none */
    lv u = em_addc(em, x, 1), less = em_addc(em, u, -1);
    sn_math_parts p = split(em, u);
    lv large = em_sub(em, sn_em_f(em, x, 1), em_sub(em, u, x)), small = em_sub(em, x, less);
    lv c = quotient(em, em_select(em, em_more(em, p.k, 1), large, small), u);
    lv k = doublings ? em_add(em, p.k, doublings) : p.k;
    lv y = log_specials(em, u, log_sum(em, k, em_addc(em, p.m, -1), c));
    lv tiny = em_less(em, em_abs(em, x), 0x1p-60); /* keeps -0 and subnormals */
    return em_select(em, em_or(em, tiny, em_equals(em, x, INFINITY)), x, y);
}

lv sn_math_log1p(sn_em *em, const lv *in) { return log1p_plus(em, in[0], NULL); }

lv sn_math_log1p_twice(sn_em *em, lv x, lv twice) {
    return log1p_plus(em, x, em_select(em, twice, sn_em_f(em, x, 1), sn_em_f(em, x, 0)));
}

/* ---- pairs ---- */

static pair fast_two_sum(sn_em *em, lv a, lv b) { /* |a| >= |b| or a = 0 */
    lv s = em_add(em, a, b);
    return (pair){s, em_sub(em, b, em_sub(em, s, a))};
}

static pair two_product(sn_em *em, lv a, lv b) {
    lv p = em_mul(em, a, b);
    return (pair){p, em_fma(em, a, b, em_neg(em, p))};
}

static pair pair_mul(sn_em *em, pair a, pair b) {
    pair p = two_product(em, a.hi, b.hi);
    p.lo = em_add(em, p.lo, em_fma(em, a.hi, b.lo, em_mul(em, a.lo, b.hi)));
    return fast_two_sum(em, p.hi, p.lo);
}

/* log m as a pair: 2s + s^3 (2/3 + tail), s = f/(2+f) as a pair. */
static pair log_pair(sn_em *em, lv f) {
    bool wide = sn_em_is64(f);
    lv g = em_addc(em, f, 2), g_lo = em_sub(em, f, em_addc(em, g, -2));
    lv s = em_div(em, f, g);
    lv rest = em_fma(em, em_neg(em, s), g_lo, em_fma(em, em_neg(em, s), g, f));
    pair sp = {s, em_div(em, rest, g)};
    pair z = pair_mul(em, sp, sp), cube = pair_mul(em, z, sp);
    lv tail = em_mul(em, z.hi,
                     wide ? sn_em_poly(em, z.hi, TAIL_64, SN_COUNT(TAIL_64))
                          : sn_em_poly(em, z.hi, TAIL_32, SN_COUNT(TAIL_32)));
    double third = wide ? 0x1.5555555555555p-1 : 0x1.555556p-1,
           third_lo = wide ? 0x1.5555555555555p-55 : -0x1.555556p-26;
    pair factor = fast_two_sum(em, sn_em_f(em, f, third), tail);
    factor.lo = em_addc(em, factor.lo, third_lo);
    pair w = pair_mul(em, cube, factor);
    pair sum = fast_two_sum(em, em_mulc(em, sp.hi, 2), w.hi);
    sum.lo = em_add(em, sum.lo, em_fmac(em, sp.lo, 2, w.lo));
    return fast_two_sum(em, sum.hi, sum.lo);
}

/* y log2 a as a pair; a positive and finite. */
static pair exponent_of_power(sn_em *em, lv a, lv y) {
    bool wide = sn_em_is64(a);
    sn_math_parts p = sn_math_split(em, a);
    pair e = {sn_em_f(em, a, wide ? LOG2_E : LOG2_E_32), sn_em_f(em, a, wide ? LOG2_E_LOW : LOG2_E_LOW_32)};
    pair l = pair_mul(em, log_pair(em, em_addc(em, p.m, -1)), e);
    pair sum = fast_two_sum(em, p.k, l.hi);
    sum = fast_two_sum(em, sum.hi, em_add(em, sum.lo, l.lo));
    pair x = two_product(em, y, sum.hi);
    x.lo = em_fma(em, y, sum.lo, x.lo);
    return x;
}

/* ---- power ---- */

/* a^y for a >= 0, with the limits of C's pow. */
static lv power_of_positive(sn_em *em, lv a, lv y) {
    bool wide = sn_em_is64(a);
    double top = wide ? 1100 : 160;
    pair x = exponent_of_power(em, a, y);
    lv in_range = em_less(em, em_abs(em, x.hi), top);
    lv hi = em_select(em, in_range, x.hi, sn_em_f(em, a, 0)), lo = em_select(em, in_range, x.lo, sn_em_f(em, a, 0));
    lv n = em_rint(em, hi), f = em_add(em, em_sub(em, hi, n), lo);
    lv k = LLVMBuildFPToSI(em->b, n, sn_em_like(n, wide ? em->cg->i64 : em->cg->i32), "");
    lv r =
        wide ? em_addc(em, sn_math_expm1_poly(em, em_mulc(em, f, 0x1.62e42fefa39efp-1)), 1) : sn_math_exp2_small(em, f);
    r = sn_math_scale2(em, r, k);
    /* Beyond the range, and at 0 and infinities: the result is 0 or inf, told by the sign of y log2 a. */
    lv infinity = sn_em_f(em, a, INFINITY), zero = sn_em_f(em, a, 0);
    lv is_zero = em_equals(em, a, 0);
    lv above = em_xor(em, em_more(em, a, 1), em_less(em, y, 0));
    lv limit = em_select(em, above, infinity, zero);
    lv beyond = em_or(em, em_or(em, em_equals(em, em_abs(em, y), INFINITY), em_equals(em, a, INFINITY)),
                      em_or(em, is_zero, em_fcmp(em, LLVMRealOGE, em_abs(em, x.hi), sn_em_f(em, a, top))));
    return em_select(em, beyond, limit, r);
}

lv sn_math_pow(sn_em *em, const lv *in) {
    lv x = in[0], y = in[1], a = em_abs(em, x), one = sn_em_f(em, x, 1);
    lv r = power_of_positive(em, a, y);
    lv whole = em_fcmp(em, LLVMRealOEQ, em_trunc(em, y), y);
    lv half = em_mulc(em, y, 0.5);
    lv odd = em_and(em, whole, em_fcmp(em, LLVMRealONE, em_trunc(em, half), half));
    lv negative = em_icmp(em, LLVMIntSLT, sn_em_ibits(em, x), sn_em_i(em, sn_em_ibits(em, x), 0));
    r = em_select(em, em_and(em, negative, odd), em_neg(em, r), r);
    lv no_value =
        em_and(em, em_less(em, x, 0), em_and(em, em_fcmp(em, LLVMRealUNE, em_trunc(em, y), y), em_more(em, a, 0)));
    no_value = em_and(em, no_value, em_less(em, a, INFINITY));
    r = em_select(em, no_value, sn_em_f(em, x, NAN), r);
    r = em_select(em, em_fcmp(em, LLVMRealUNO, x, y), em_add(em, x, y), r);
    r = em_select(em, em_equals(em, y, 1), x, r); /* exact: at the largest number the approximation may reach inf */
    lv is_one = em_or(em, em_equals(em, x, 1), em_equals(em, y, 0));
    lv minus_one = em_and(em, em_equals(em, x, -1), em_equals(em, em_abs(em, y), INFINITY));
    return em_select(em, em_or(em, is_one, minus_one), one, r);
}
