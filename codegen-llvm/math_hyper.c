/* math_hyper.c: hyperbolic sine and cosine, and the inverses of the hyperbolic functions.
 *
 * Differences that cancel near 0 are polynomials there, or written so that log1p sees the small number itself: acosh
 * with t = x - 1, which is exact near 1. Nothing overflows on the way: e^x / 2 is one step, and a large x stands for
 * sqrt(x^2 +- 1). Relies on math_exp.c and math_log.c; tanh is in math_exp.c. Coefficients: least squares at Chebyshev
 * nodes.
 */
#include "codegen-llvm/math.h"

#include <math.h>

/* (f(x) - x) / x^3 in x^2: sinh to 1, asinh to 1/2. */
static const double SINH_32[] = {0x1.555556p-3, 0x1.1110eap-7, 0x1.a01c22p-13, 0x1.76771ep-19};
static const double SINH_64[] = {0x1.5555555555556p-3,  0x1.111111111104p-7,   0x1.a01a01a0318d3p-13,
                                 0x1.71de3a4056daap-19, 0x1.ae646b4cd4e38p-26, 0x1.6118dfb2fe615p-33,
                                 0x1.b52ea7510497dp-41};
static const double ASINH_32[] = {-0x1.555534p-3, 0x1.33246ep-4, -0x1.6b8ab4p-5, 0x1.cd0324p-6, -0x1.b0254ep-7};
static const double ASINH_64[] = {-0x1.555555555553fp-3, 0x1.3333333330438p-4,  -0x1.6db6db6b898d9p-5,
                                  0x1.f1c71ba137303p-6,  -0x1.6e8b8be9c03acp-6, 0x1.1c4d25373691fp-6,
                                  -0x1.c97227f676a0ep-7, 0x1.793d293167374p-7,  -0x1.38568a3dfc2d5p-7,
                                  0x1.e8dcc2c246e46p-8,  -0x1.36860df7fb2e7p-8, 0x1.c0c5af61aeaf0p-10};

static lv quotient(sn_em *em, lv a, lv b) { return sn_math_div(em, (lv[]){a, b}); }

/* a + a^3 p(a^2) */
static lv cubic(sn_em *em, lv a, const double *p, uint32_t n) {
    lv z = em_mul(em, a, a);
    return em_fma(em, em_mul(em, a, z), sn_em_poly(em, z, p, n), a);
}

lv sn_math_sinh(sn_em *em, const lv *in) {
    lv x = in[0], a = em_abs(em, x), h = sn_math_exp_half(em, a);
    lv near = sn_em_is64(x) ? cubic(em, a, SINH_64, SN_COUNT(SINH_64)) : cubic(em, a, SINH_32, SN_COUNT(SINH_32));
    lv far = em_sub(em, h, quotient(em, sn_em_f(em, x, 0.25), h));
    return em_copysign(em, em_select(em, em_less(em, a, 1), near, far), x);
}

lv sn_math_cosh(sn_em *em, const lv *in) {
    lv h = sn_math_exp_half(em, em_abs(em, in[0]));
    return em_add(em, h, quotient(em, sn_em_f(em, h, 0.25), h));
}

/* log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1))); log 2a where a^2 + 1 is a^2. */
lv sn_math_asinh(sn_em *em, const lv *in) {
    lv x = in[0], a = em_abs(em, x), one = sn_em_f(em, x, 1), large = em_more(em, a, 0x1p60);
    lv root = em_call1(em, "llvm.sqrt", em_fma(em, a, a, one));
    lv u = em_fma(em, a, quotient(em, a, em_add(em, root, one)), a);
    lv far = sn_math_log1p_twice(em, em_select(em, large, a, u), large);
    lv near = sn_em_is64(x) ? cubic(em, a, ASINH_64, SN_COUNT(ASINH_64)) : cubic(em, a, ASINH_32, SN_COUNT(ASINH_32));
    return em_copysign(em, em_select(em, em_less(em, a, 0.5), near, far), x);
}

/* log(x + sqrt(x^2 - 1)) = log1p(t + sqrt(t^2 + 2t)) */
lv sn_math_acosh(sn_em *em, const lv *in) {
    lv x = in[0], t = em_addc(em, x, -1), large = em_more(em, x, 0x1p60);
    lv u = em_add(em, t, em_call1(em, "llvm.sqrt", em_fma(em, t, t, em_add(em, t, t))));
    lv y = sn_math_log1p_twice(em, em_select(em, large, x, u), large);
    return em_select(em, em_less(em, x, 1), sn_em_f(em, x, NAN), y);
}

/* log((1 + a) / (1 - a)) / 2 = log1p(2a + 2a a / (1 - a)) / 2 */
lv sn_math_atanh(sn_em *em, const lv *in) {
    lv x = in[0], a = em_abs(em, x), twice = em_add(em, a, a);
    lv u = em_fma(em, twice, quotient(em, a, em_sub(em, sn_em_f(em, x, 1), a)), twice);
    lv y = em_mulc(em, sn_math_log1p(em, &u), 0.5);
    return em_copysign(em, em_select(em, em_more(em, a, 1), sn_em_f(em, x, NAN), y), x);
}
