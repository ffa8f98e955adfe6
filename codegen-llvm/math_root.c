/* math_root.c: roots that are more than an instruction: cbrt, hypot.
 *
 * Numbers are scaled by powers of two to where nothing overflows or is subnormal, which changes no digit. Relies on fma
 * being one rounding. Coefficients: least largest relative error on sqrt(1/2) .. sqrt(2), 5.7e-6.
 */
#include "codegen-llvm/math.h"

#include <math.h>

#define CBRT_2 0x1.428a2f98d728bp+0
#define CBRT_HALF 0x1.965fea53d6e3dp-1

/* m^(-1/3) in m, to 17 bits. */
static const double INVERSE_CBRT[] = {0x1.ffc996p+0,  -0x1.3e327ep+1, 0x1.6566f8p+1,
                                      -0x1.e5ebbcp+0, 0x1.66c718p-1,  -0x1.baa16ep-4};

/* 2^n, n a whole float whose power is a normal number: the sum has n and the bias in its last bits. */
static lv two_to_whole(sn_em *em, lv n) {
    bool wide = sn_em_is64(n);
    lv bits = sn_em_ibits(em, em_addc(em, n, wide ? 0x1.8p52 + 1023 : 0x1.8p23 + 127));
    return sn_em_fbits(em, em_shl(em, bits, sn_em_i(em, bits, wide ? 52 : 23)));
}

/* a = 2^(3q) b with b in sqrt(1/8) .. sqrt(8): r is about 1/cbrt b, y = b r^2 about cbrt b. The rest b - y^3 is exact but for
 * a rounding of what it is small against, so that y and the step from it are rounded once. */
static lv cbrt_of_positive(sn_em *em, lv a) {
    bool wide = sn_em_is64(a);
    sn_math_parts p = sn_math_split(em, a);
    lv q = em_rint(em, em_mulc(em, p.k, 1.0 / 3)), third = em_fmac(em, q, -3, p.k);
    lv up = em_more(em, third, 0), down = em_less(em, third, 0), one = sn_em_f(em, a, 1);
    lv b = em_mul(em, p.m, em_select(em, up, sn_em_f(em, a, 2), em_select(em, down, sn_em_f(em, a, 0.5), one)));
    lv root = em_select(em, up, sn_em_f(em, a, CBRT_HALF), em_select(em, down, sn_em_f(em, a, CBRT_2), one));
    lv r = em_mul(em, root, sn_em_poly(em, p.m, INVERSE_CBRT, SN_COUNT(INVERSE_CBRT)));
    if (wide) { /* from 17 bits to 33 */
        lv e = em_fma(em, em_neg(em, em_mul(em, b, em_mul(em, r, r))), r, one);
        r = em_fma(em, em_mulc(em, r, 1.0 / 3), e, r);
    }
    lv r2 = em_mul(em, r, r), y = em_mul(em, b, r2);
    lv square = em_mul(em, y, y), lost = em_fma(em, y, y, em_neg(em, square));
    lv rest = em_fma(em, em_neg(em, lost), y, em_fma(em, em_neg(em, square), y, b));
    return em_mul(em, em_fma(em, em_mulc(em, r2, 1.0 / 3), rest, y), two_to_whole(em, q));
}

lv sn_math_cbrt(sn_em *em, const lv *in) {
    lv x = in[0], a = em_abs(em, x);
    lv normal = em_and(em, em_more(em, a, 0), em_less(em, a, INFINITY));
    return em_select(em, normal, em_copysign(em, cbrt_of_positive(em, a), x), x);
}

/* The larger square enters the sum unrounded. */
lv sn_math_hypot(sn_em *em, const lv *in) {
    lv x = em_abs(em, in[0]), y = em_abs(em, in[1]), infinity = sn_em_f(em, x, INFINITY);
    bool wide = sn_em_is64(x);
    lv most = sn_em_fmax(em, x, y), least = sn_em_fmin(em, x, y);
    double limit = wide ? 0x1p500 : 0x1p60, step = wide ? 0x1p600 : 0x1p90;
    lv scale = sn_math_scale_to_middle(em, most, limit, step),
       back = sn_math_scale_to_middle(em, most, limit, 1 / step);
    lv a = em_mul(em, most, scale), b = em_mul(em, least, scale);
    lv root = em_call1(em, "llvm.sqrt", em_fma(em, a, a, em_mul(em, b, b)));
    lv infinite = em_or(em, em_equals(em, x, INFINITY), em_equals(em, y, INFINITY));
    return em_select(em, infinite, infinity, em_mul(em, root, back));
}
