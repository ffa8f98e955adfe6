/* math_arc.c: the inverse trigonometric functions: asin, acos, atan, atan2.
 *
 * A polynomial near 0; elsewhere an identity leads there, and the multiple of pi that it adds is two numbers, so that
 * it adds no error of its own:
 *
 *     asin x = pi/2 - 2 asin sqrt((1-x)/2)      atan x = pi/2 - atan(1/x) = pi/4 + atan((x-1)/(x+1))
 *
 * Coefficients: least squares at Chebyshev nodes.
 */
#include "codegen-llvm/math.h"

#define PIO2 0x1.921fb54442d18p+0
#define PIO2_LOW 0x1.1a62633145c07p-54
#define PIO2_32 0x1.921fb6p+0
#define PIO2_LOW_32 -0x1.777a5cp-25

/* (f(x) - x) / x^3 in x^2: asin to 1/2, atan to tan(pi/8). */
static const double ASIN_32[] = {0x1.5555c8p-3, 0x1.330246p-4, 0x1.747212p-5, 0x1.8caecep-6, 0x1.58f46p-5};
static const double ASIN_64[] = {0x1.5555555555399p-3, 0x1.333333336d0c6p-4,  0x1.6db6db438bf1dp-5,
                                 0x1.f1c72bdb3836fp-6, 0x1.6e89fd4d337c6p-6,  0x1.1c6b575742861p-6,
                                 0x1.c70876a6feda2p-7, 0x1.8e7ce740fc94ep-7,  0x1.ae2946e15bc09p-8,
                                 0x1.3e5cdb40af60fp-6, -0x1.075a90079030dp-6, 0x1.04975b2137fa3p-5};
static const double ATAN_32[] = {-0x1.555548p-2, 0x1.999124p-3, -0x1.23adeep-3, 0x1.b18dccp-4, -0x1.f03c6ap-5};
static const double ATAN_64[] = {-0x1.555555555553bp-2, 0x1.99999999954a3p-3,  -0x1.249249229855bp-3,
                                 0x1.c71c70de93fdap-4,  -0x1.745cf815303d3p-4, 0x1.3b110c268d99ap-4,
                                 -0x1.10eb2d4abadd8p-4, 0x1.df07cbd83950ep-5,  -0x1.9cb287d31474ep-5,
                                 0x1.3787554ba7a68p-5,  -0x1.24c5b0a80b5bfp-6};

/* ---- arc sine and cosine ---- */

/* asin |x| = s + e where near, pi/2 - 2 (s + e) elsewhere. s of |x| > 1 is nan. */
typedef struct arc {
    lv near, s, e;
} arc;

static arc arc_of(sn_em *em, lv x) {
    bool wide = sn_em_is64(x);
    lv a = em_abs(em, x), near = em_fcmp(em, LLVMRealOLE, a, sn_em_f(em, x, 0.5));
    lv z = em_select(em, near, em_mul(em, a, a), em_fmac(em, a, -0.5, sn_em_f(em, x, 0.5)));
    lv s = em_select(em, near, a, em_call1(em, "llvm.sqrt", z));
    lv p = wide ? sn_em_poly(em, z, ASIN_64, SN_COUNT(ASIN_64)) : sn_em_poly(em, z, ASIN_32, SN_COUNT(ASIN_32));
    return (arc){near, s, em_mul(em, em_mul(em, s, z), p)};
}

/* pi/2 - (s + e) */
static lv from_right_angle(sn_em *em, lv s, lv e) {
    bool wide = sn_em_is64(s);
    lv low = em_sub(em, s, em_sub(em, sn_em_f(em, s, wide ? PIO2_LOW : PIO2_LOW_32), e));
    return em_sub(em, sn_em_f(em, s, wide ? PIO2 : PIO2_32), low);
}

lv sn_math_asin(sn_em *em, const lv *in) {
    lv x = in[0];
    arc y = arc_of(em, x);
    lv far = from_right_angle(em, em_add(em, y.s, y.s), em_add(em, y.e, y.e));
    return em_copysign(em, em_select(em, y.near, em_add(em, y.s, y.e), far), x);
}

/* Far from 0: 2 asin sqrt((1-x)/2), of negative numbers pi less that. */
lv sn_math_acos(sn_em *em, const lv *in) {
    lv x = in[0];
    arc y = arc_of(em, x);
    lv s = em_select(em, y.near, em_copysign(em, y.s, x), y.s);
    lv e = em_select(em, y.near, em_copysign(em, y.e, x), y.e);
    lv down = from_right_angle(em, s, e);
    lv far = em_mulc(em, em_select(em, em_less(em, x, 0), down, em_add(em, s, e)), 2);
    return em_select(em, y.near, down, far);
}

/* ---- arc tangent ---- */

/* high + low + atan t, |t| < tan(pi/8) */
static lv from_turn(sn_em *em, lv high, lv low, lv t) {
    lv z = em_mul(em, t, t);
    lv p =
        sn_em_is64(t) ? sn_em_poly(em, z, ATAN_64, SN_COUNT(ATAN_64)) : sn_em_poly(em, z, ATAN_32, SN_COUNT(ATAN_32));
    return em_add(em, high, em_add(em, t, em_fma(em, em_mul(em, t, z), p, low)));
}

lv sn_math_atan(sn_em *em, const lv *in) {
    lv x = in[0], a = em_abs(em, x), zero = sn_em_f(em, x, 0), one = sn_em_f(em, x, 1);
    bool wide = sn_em_is64(x);
    lv middle = em_more(em, a, 0.4142135), large = em_more(em, a, 2.414213);
    lv parts[2] = {em_select(em, large, em_neg(em, one), em_sub(em, a, one)),
                   em_select(em, large, a, em_add(em, a, one))};
    lv t = em_select(em, middle, sn_math_div(em, parts), a);
    /* What was added, in units of pi/2. */
    lv turn = em_select(em, large, sn_em_f(em, x, 1), em_select(em, middle, sn_em_f(em, x, 0.5), zero));
    lv high = em_mulc(em, turn, wide ? PIO2 : PIO2_32), low = em_mulc(em, turn, wide ? PIO2_LOW : PIO2_LOW_32);
    return em_copysign(em, from_turn(em, high, low, t), x);
}

/* Zeros and infinities of one size are points of the axis and of the diagonal. Else x and y are scaled: their sum is no
 * infinity, and the comparisons see no subnormal numbers. */
static void to_quotient(sn_em *em, lv *y, lv *x) {
    bool wide = sn_em_is64(*x);
    lv one = sn_em_f(em, *x, 1), same = em_fcmp(em, LLVMRealOEQ, *x, *y), some = em_more(em, *y, 0);
    lv most = em_select(em, em_fcmp(em, LLVMRealOGT, *y, *x), *y, *x);
    lv scale = sn_math_scale_to_middle(em, most, wide ? 0x1p1000 : 0x1p100, wide ? 0x1p60 : 0x1p30);
    *y = em_select(em, em_and(em, same, some), one, em_mul(em, *y, scale));
    *x = em_select(em, same, one, em_mul(em, *x, scale));
}

/* As atan of y/x. Where x < 0, pi less that: turns are counted from 2 down, and 3 of them are rounded. */
lv sn_math_atan2(sn_em *em, const lv *in) {
    lv y = em_abs(em, in[0]), x = em_abs(em, in[1]), zero = sn_em_f(em, x, 0);
    bool wide = sn_em_is64(x);
    lv bits = sn_em_ibits(em, in[1]), back = em_icmp(em, LLVMIntSLT, bits, sn_em_i(em, bits, 0));
    to_quotient(em, &y, &x);
    lv middle = em_fcmp(em, LLVMRealOGT, y, em_mulc(em, x, 0.4142135));
    lv large = em_fcmp(em, LLVMRealOGT, y, em_mulc(em, x, 2.414213));
    lv parts[2] = {em_select(em, large, em_neg(em, x), em_select(em, middle, em_sub(em, y, x), y)),
                   em_select(em, large, y, em_select(em, middle, em_add(em, y, x), x))};
    lv t = sn_math_div(em, parts);
    lv turn = em_select(em, large, sn_em_f(em, x, 1), em_select(em, middle, sn_em_f(em, x, 0.5), zero));
    t = em_select(em, back, em_neg(em, t), t);
    turn = em_select(em, back, em_sub(em, sn_em_f(em, x, 2), turn), turn);
    lv high = em_mulc(em, turn, wide ? PIO2 : PIO2_32),
       rest = em_fmac(em, turn, wide ? PIO2 : PIO2_32, em_neg(em, high));
    lv low = em_fmac(em, turn, wide ? PIO2_LOW : PIO2_LOW_32, rest);
    return em_copysign(em, from_turn(em, high, low, t), in[0]);
}
