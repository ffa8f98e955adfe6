/* math_erf.c: the error function.
 *
 * Below 1: x + x P(x^2). Above: f32 1 - e^q(x) with q = log erfc; f64 1 - e^(-x^2) g(u), g = e^(x^2) erfc(x),
 * u = (x - 5/2) / (x + 5/2). Only the absolute error of erfc counts there, erf is near 1. Where blunt values do, one
 * polynomial is enough: x q(x) = log2 erfc on all of 0 to 4, least error beside 2^-18 of erfc or 2^-25. Relies on
 * math_exp.c.
 */
#include "codegen-llvm/math.h"

static const double ERF_NEAR_32[] = {0x1.06eba8p-3, -0x1.81273ep-2,  0x1.ce2d1p-4, -0x1.b7fabap-6,
                                     0x1.54127p-8,  -0x1.a45088p-11, 0x1.4a569p-14};
static const double ERF_NEAR_64[] = {0x1.06eba8214db69p-3,   -0x1.812746b0379e7p-2,  0x1.ce2f21a042bdep-4,
                                     -0x1.b82ce312889bap-6,  0x1.565bcd0e6502dp-8,   -0x1.c02db3feeb579p-11,
                                     0x1.f9a326c233146p-14,  -0x1.f4d2561aeafd4p-17, 0x1.b9e6509b9867dp-20,
                                     -0x1.5f6d925a0bc7ap-23, 0x1.fc4356498c2d9p-27,  -0x1.4e607b41a6416p-30,
                                     0x1.7f072188e194dp-34,  -0x1.29b9f1b3df556p-38};
static const double ERF_FAR_32[] = {0x1.511638p-12, -0x1.21575cp+0, -0x1.437d58p-1,  -0x1.c2edfp-4, 0x1.b0fb0ep-6,
                                    -0x1.38105cp-8, 0x1.39237ap-11, -0x1.82d2bap-15, 0x1.b837aep-20};
/* log2 erfc */
static const double ERF_FAR_HOST[] = {0x1.e6503ep-12, -0x1.a16e62p+0, -0x1.d2b266p-1, -0x1.4546dep-3, 0x1.38545cp-5,
                                      -0x1.c2368ap-8, 0x1.c3c374p-11, -0x1.1708bp-14, 0x1.3d8ccp-19};
static const double ERF_FAR_64[] = {
    0x1.afbb3f3b7343bp-3,  -0x1.7ca88dec217a6p-2,  0x1.01c11a735cd98p-2,   -0x1.0011543716c91p-3,
    0x1.470ba1f67e9fcp-5,  -0x1.05bb2fe5bf52ap-8,  -0x1.5a5716ce54468p-9,  0x1.cb3b61b96ca15p-11,
    0x1.def2ca6a930ffp-13, -0x1.0e46694042a47p-13, -0x1.1ebe5b00547ffp-15, 0x1.384ce8d229e2p-16,
    0x1.fb044ac78fd1dp-18, -0x1.3478a195d9922p-19, -0x1.e79fc1b8e27a9p-20, 0x1.42f3273eb4de6p-24,
    0x1.a1ba0b203bbafp-22, 0x1.73c93f8b42ccap-24,  -0x1.efd2ef737a18bp-25, -0x1.11586a4e4d82p-25};

static const double ERF_BLUNT_32[] = {-0x1.a0c2cep+0, -0x1.d5e27ap-1, -0x1.34fbp-3,
                                      0x1.0849aap-5,  -0x1.1e01d4p-8, 0x1.1c8918p-12};

/* Of nan it is what it is of 4. */
static lv far_host(sn_em *em, lv a) {
    a = em_select(em, em_less(em, a, 4), a, sn_em_f(em, a, 4));
    return sn_math_exp2_moderate(em, sn_em_poly(em, a, ERF_FAR_HOST, SN_COUNT(ERF_FAR_HOST)));
}

static lv far_f32(sn_em *em, lv a) {
    if (!em->cg->target->is_gpu) return far_host(em, a);
    a = sn_em_fmin(em, a, sn_em_f(em, a, 4)); /* erf(4) = 1 in f32 */
    return sn_math_exp_bounded(em, sn_em_poly(em, a, ERF_FAR_32, SN_COUNT(ERF_FAR_32)));
}

static lv far_f64(sn_em *em, lv a) {
    a = sn_em_fmin(em, a, sn_em_f(em, a, 6)); /* erf(6) = 1 in f64 */
    lv u = em_div(em, em_addc(em, a, -2.5), em_addc(em, a, 2.5));
    lv e = sn_math_exp_bounded(em, em_neg(em, em_mul(em, a, a)));
    return em_mul(em, e, sn_em_poly(em, u, ERF_FAR_64, SN_COUNT(ERF_FAR_64)));
}

static lv blunt_f32(sn_em *em, lv x) {
    lv a = sn_em_fmin(em, em_abs(em, x), sn_em_f(em, x, 4)); /* erf(4) = 1 in f32 */
    lv q = em_mul(em, a, sn_em_poly(em, a, ERF_BLUNT_32, SN_COUNT(ERF_BLUNT_32)));
    return sn_math_give_sign(em, em_sub(em, sn_em_f(em, x, 1), sn_math_exp2_normal(em, &q)), x);
}

lv sn_math_erf(sn_em *em, const lv *in) {
    lv x = in[0], a = em_abs(em, x), z = em_mul(em, x, x);
    bool wide = sn_em_is64(x);
    if (em->blunt && !wide) return blunt_f32(em, x);
    lv p = wide ? sn_em_poly(em, z, ERF_NEAR_64, SN_COUNT(ERF_NEAR_64))
                : sn_em_poly(em, z, ERF_NEAR_32, SN_COUNT(ERF_NEAR_32));
    lv near = em_fma(em, x, p, x);
    lv far = em_sub(em, sn_em_f(em, x, 1), wide ? far_f64(em, a) : far_f32(em, a));
    far = em_copysign(em, far, x);
    if (em->cg->target->is_gpu) return em_select(em, em_less(em, a, 1), near, far);
    return em_select(em, em_fcmp(em, LLVMRealOGE, a, sn_em_f(em, a, 1)), far,
                     near); /* nan goes through the polynomial */
}
