/* math_exp.c: the exponential family: exp, exp2, expm1, tanh, sigmoid.
 *
 * All of them stand on one polynomial, e^r - 1 for |r| < 0.35, except f32 on GPUs, whose ex2.approx (2 ulp) replaces it
 * where the result does not cancel, and e^x of f64 on GPUs, which has a shorter one. Nothing here overflows in between:
 * arguments are limited first, with nan kept. Relies on fma being one rounding. Bounds: lowering.def. Coefficients: interpolation at
 * Chebyshev nodes.
 */
#include "codegen-llvm/math.h"

#define LOG2_E 0x1.71547652b82fep+0
#define LOG2_E_32 0x1.715476p+0
#define LOG2_E_LOW_32 0x1.4ae0c0p-26
#define LN_2 0x1.62e42fefa39efp-1
#define LN_2_LOW 0x1.abc9e3b39803fp-56
#define LN_2_32 0x1.62e43p-1
#define LN_2_LOW_32 -0x1.05c61p-29

static const double EXPM1_32[] = {0x1p-1, 0x1.555556p-3, 0x1.5554e4p-5, 0x1.1110ep-7, 0x1.6d491p-10, 0x1.a12a34p-13};
static const double EXPM1_64[] = {0x1p-1,
                                  0x1.5555555555557p-3,
                                  0x1.5555555555556p-5,
                                  0x1.111111110ff8bp-7,
                                  0x1.6c16c16c16214p-10,
                                  0x1.a01a01ac9de9ep-13,
                                  0x1.a01a01a74077ap-16,
                                  0x1.71ddfff6573d6p-19,
                                  0x1.27e4da1e12fb1p-22,
                                  0x1.af5282aacdb2ep-26,
                                  0x1.1f75a3caadff5p-29};
/* e^r, |r| <= (ln 2)/2, to 2^-55 */
static const double EXP_64[] = {1,
                                1,
                                0x1.0000000000001p-1,
                                0x1.5555555555556p-3,
                                0x1.5555555553d63p-5,
                                0x1.11111111109b3p-7,
                                0x1.6c16c1788bd90p-10,
                                0x1.a01a01a7c41d5p-13,
                                0x1.a019b90d2ae7ap-16,
                                0x1.71de0dae63bb3p-19,
                                0x1.289185613a3d6p-22,
                                0x1.af38a9b0ec855p-26};
static const double EXP_32[] = {1, 1, 0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558f2p-5, 0x1.123a2p-7, 0x1.6a23cep-10};
/* (2^f - 1) / f, |f| <= 1/2 */
static const double EXP2_32[] = {0x1.62e43p-1,  0x1.ebfbep-3,  0x1.c6af6cp-5,
                                 0x1.3b2a54p-7, 0x1.5f089p-10, 0x1.44138ap-13};
/* 2^f, |f| <= 1/2, to 2^-13.7 */
static const double EXP2_SHORT[] = {0x1.fff692p-1, 0x1.62f31ap-1, 0x1.f0de1ap-3, 0x1.c3f76p-5};
static const double TANH_32[] = {-0x1.555554p-2, 0x1.110eep-3, -0x1.b955dcp-5, 0x1.59e1c8p-6, -0x1.9ada6p-8};

/* ---- parts ---- */

lv sn_math_expm1_poly(sn_em *em, lv r) {
    lv p = sn_em_is64(r) ? sn_em_poly(em, r, EXPM1_64, SN_COUNT(EXPM1_64))
                         : sn_em_poly(em, r, EXPM1_32, SN_COUNT(EXPM1_32));
    return em_fma(em, em_mul(em, r, r), p, r);
}

/* 2^n as a float, n within the normal exponents. */
static lv power_of_two(sn_em *em, lv n) {
    bool wide = sn_em_is64(n);
    return sn_em_fbits(em,
                       em_shl(em, em_iadd(em, n, sn_em_i(em, n, wide ? 1023 : 127)), sn_em_i(em, n, wide ? 52 : 23)));
}

/* In two steps, because 2^n alone may be no float although x * 2^n is (large, subnormal). */
lv sn_math_scale2(sn_em *em, lv x, lv n) {
    lv half = em_ashr(em, n, sn_em_i(em, n, 1));
    return em_mul(em, em_mul(em, x, power_of_two(em, half)), power_of_two(em, em_isub(em, n, half)));
}

static lv to_int(sn_em *em, lv x) {
    return LLVMBuildFPToSI(em->b, x, sn_em_like(x, sn_em_is64(x) ? em->cg->i64 : em->cg->i32), "");
}

/* nan would make the conversion to integer undefined: 0 takes its place, and comes back at the end. */
static lv not_nan(sn_em *em, lv x) { return em_select(em, em_fcmp(em, LLVMRealORD, x, x), x, sn_em_f(em, x, 0)); }
static lv nan_of(sn_em *em, lv x, lv y) { return em_select(em, em_fcmp(em, LLVMRealORD, x, x), y, x); }

/* x limited to lo .. hi; nan stays. */
static lv limit(sn_em *em, lv x, double lo, double hi) {
    if (!em->cg->target->is_gpu) { /* each is one instruction where nan is the last operand */
        x = em_select(em, em_less(em, x, lo), sn_em_f(em, x, lo), x);
        return em_select(em, em_more(em, x, hi), sn_em_f(em, x, hi), x);
    }
    return sn_em_fmin(em, sn_em_fmax(em, x, sn_em_f(em, x, lo)), sn_em_f(em, x, hi));
}

/* 2^x by reduction to |f| <= 1/2; finite arguments only. */
static lv exp2_by_poly(sn_em *em, lv x) {
    lv n = em_rint(em, x), f = em_sub(em, x, n);
    lv p = sn_math_expm1_poly(em, em_mulc(em, f, sn_em_is64(x) ? LN_2 : LN_2_32));
    return sn_math_scale2(em, em_addc(em, p, 1), to_int(em, n));
}

/* f32 on CPUs: x = n + f, |f| <= 1/2, and 2^f. n stands in the last bits of the sum that rounds x. */
typedef struct two_to {
    lv n, f;
} two_to;

#define ROUND_32 0x1.8p23

/* ... of which the last bits are n and twice the bias of an exponent. */
#define ROUND_BIASED_32 (ROUND_32 + 2 * 127)

static two_to exp2_parts_f32(sn_em *em, lv x, double round) {
    lv n = em_addc(em, x, round), f = em_sub(em, x, em_addc(em, n, -round));
    return (two_to){sn_em_ibits(em, n),
                    em_fma(em, sn_em_poly(em, f, EXP2_32, SN_COUNT(EXP2_32)), f, sn_em_f(em, x, 1))};
}

/* 2^f 2^n, n added to the exponent of 2^f: no nan, and n from -126 to 127. */
static lv join_f32(sn_em *em, two_to t) {
    lv bits = sn_em_ibits(em, t.f);
    return sn_em_fbits(em, em_iadd(em, bits, em_shl(em, t.n, sn_em_i(em, bits, 23))));
}

lv sn_math_exp2_moderate(sn_em *em, lv x) {
    if (em->cg->target->is_gpu || sn_em_is64(x)) return sn_math_exp2_small(em, x);
    return join_f32(em, exp2_parts_f32(em, x, ROUND_32));
}

/* 2^f 2^n in two steps, as sn_math_scale2 does it: n stands in the last bits with twice the bias, so that either half is an
 * exponent as it is; what stands in front of it is shifted out. nan is that of 2^f. */
static lv scale_biased_f32(sn_em *em, two_to t) {
    lv half = em_ashr(em, t.n, sn_em_i(em, t.n, 1)), rest = em_isub(em, t.n, half), by = sn_em_i(em, t.n, 23);
    lv y = em_mul(em, t.f, sn_em_fbits(em, em_shl(em, half, by)));
    return em_mul(em, y, sn_em_fbits(em, em_shl(em, rest, by)));
}

static lv exp2_small_f32(sn_em *em, lv x) { return scale_biased_f32(em, exp2_parts_f32(em, x, ROUND_BIASED_32)); }

lv sn_math_exp2_small(sn_em *em, lv x) {
    if (em->cg->target->is_gpu) return em_call1(em, "llvm.exp2", x);
    return sn_em_is64(x) ? nan_of(em, x, exp2_by_poly(em, not_nan(em, x))) : exp2_small_f32(em, x);
}

/* e^r - 1 and n with x = n ln 2 + r. */
static lv reduced_expm1(sn_em *em, lv *n, lv x) {
    bool wide = sn_em_is64(x);
    *n = em_rint(em, em_mulc(em, x, wide ? LOG2_E : LOG2_E_32));
    lv minus_n = em_neg(em, *n);
    lv r = em_fmac(em, minus_n, wide ? LN_2 : LN_2_32, x);
    return sn_math_expm1_poly(em, em_fmac(em, minus_n, wide ? LN_2_LOW : LN_2_LOW_32, r));
}

/* f32 on CPUs: x = n ln 2 + r and e^r, 0.88 units in the last place at most; half of it if `halved`. */
static lv exp_host_f32(sn_em *em, lv x, bool halved) {
    double round = ROUND_BIASED_32 - halved;
    lv sum = em_fmac(em, x, LOG2_E_32, sn_em_f(em, x, round)), n = em_addc(em, sum, -round);
    lv r = em_fmac(em, n, -LN_2_LOW_32, em_fmac(em, n, -LN_2_32, x));
    return scale_biased_f32(em, (two_to){sn_em_ibits(em, sum), sn_em_poly(em, r, EXP_32, SN_COUNT(EXP_32))});
}

/* f32: 2^(hi + lo) = 2^hi (1 + lo ln 2) with hi + lo = x log2 e to 48 bits; half of it if `halved`. */
static lv exp_f32(sn_em *em, lv x, bool halved) {
    if (!em->cg->target->is_gpu) return exp_host_f32(em, x, halved);
    lv hi = em_mulc(em, x, LOG2_E_32);
    lv lo = em_fmac(em, x, LOG2_E_LOW_32, em_fmac(em, x, LOG2_E_32, em_neg(em, hi)));
    lv rest = em_fmac(em, lo, LN_2_32, sn_em_f(em, x, 1));
    return em_mul(em, sn_math_exp2_small(em, halved ? em_addc(em, hi, -1) : hi), rest);
}

#define ROUND_64 0x1.8p52

/* The upper halves of f64: sign, exponent and 20 bits; and f64 with such a half in place of its own. */
static lv upper(sn_em *em, lv x) {
    lv bits = sn_em_ibits(em, x);
    return LLVMBuildTrunc(em->b, em_lshr(em, bits, sn_em_i(em, bits, 32)), sn_em_like(x, em->cg->i32), "");
}

static lv raised(sn_em *em, lv half) {
    lv wide = LLVMBuildZExt(em->b, half, sn_em_like(half, em->cg->i64), "");
    return em_shl(em, wide, sn_em_i(em, wide, 32));
}

static lv with_upper(sn_em *em, lv x, lv half) {
    lv bits = sn_em_ibits(em, x);
    return sn_em_fbits(em, em_or(em, em_and(em, bits, sn_em_i(em, bits, 0xffffffff)), raised(em, half)));
}

/* f64 on GPUs: x = n ln 2 + r and e^r, which no operation but products and sums makes, since a comparison and a conversion take the
 * time of one and of four of these. n stands in the last bits of the sum that rounds x log2 e, and is one less if `halved`. Terms of a
 * sum go without the last bits of ln 2: |x| / 3 units in the last place, at most. */
typedef struct exp_parts {
    lv sum, n, y;
} exp_parts;

static exp_parts exp_parts_f64(sn_em *em, lv x, bool halved, bool term) {
    exp_parts e = {.sum = em_fmac(em, x, LOG2_E, sn_em_f(em, x, ROUND_64 - halved))};
    lv n = em_addc(em, e.sum, halved - ROUND_64), r = em_fmac(em, n, -LN_2, x);
    if (!term) r = em_fmac(em, n, -LN_2_LOW, r);
    e.y = sn_em_poly(em, r, EXP_64, SN_COUNT(EXP_64));
    e.n = LLVMBuildTrunc(em->b, sn_em_ibits(em, e.sum), sn_em_like(x, em->cg->i32), "");
    return e;
}

/* 2^n goes half to the exponent of e^r and half into a product, which rounds what is subnormal. |x| >= 746 is told by the upper
 * half of x: the product is of 1.., and of 0, inf, or the nan that the sum is. */
static lv exp_gpu_f64(sn_em *em, lv x, bool halved) {
    exp_parts e = exp_parts_f64(em, x, halved, false);
    lv high = upper(em, x), of_sum = upper(em, e.sum), sign = sn_em_i(em, high, 0x7fffffff);
    lv one = sn_em_i(em, high, 1), by = sn_em_i(em, high, 20), inf = sn_em_i(em, high, 0x7ff00000);
    lv half = em_ashr(em, e.n, one), rest = em_iadd(em, em_isub(em, e.n, half), sn_em_i(em, half, 1023));
    lv y = em_iadd(em, upper(em, e.y), em_shl(em, half, by)), scale = em_shl(em, rest, by);
    lv far = em_icmp(em, LLVMIntUGE, em_and(em, high, sign), sn_em_i(em, high, 0x40875000));
    lv is_nan = em_icmp(em, LLVMIntUGT, em_and(em, of_sum, sign), inf);
    lv limit_of = em_select(em, em_icmp(em, LLVMIntSLT, high, sn_em_i(em, high, 0)), sn_em_i(em, high, 0), inf);
    scale = em_select(em, far, em_select(em, is_nan, of_sum, limit_of), scale);
    y = em_select(em, far, sn_em_i(em, high, 0x3ff00000), y);
    return em_mul(em, with_upper(em, e.y, y), sn_em_fbits(em, raised(em, scale)));
}

/* x is at most 0, or stands for -|x| if `apart`. What is below -708, or negative and no number, is taken for -708: 2^-1021, beside a
 * largest term of 1. Another nan gives any bits, and so does inf: of these the maximum tells (sumexp.c). */
static lv exp_term_f64(sn_em *em, lv x, bool apart) {
    lv high = upper(em, x);
    if (apart) high = em_or(em, high, sn_em_i(em, high, 0x80000000));
    exp_parts e = exp_parts_f64(em, with_upper(em, x, em_call2(em, "llvm.umin", high, sn_em_i(em, high, 0xc0862000))),
                                false, true);
    return with_upper(em, e.y, em_iadd(em, upper(em, e.y), em_shl(em, e.n, sn_em_i(em, high, 20))));
}

static lv exp_f64(sn_em *em, lv x, bool halved) {
    if (em->cg->target->is_gpu) return exp_gpu_f64(em, x, halved);
    lv n, p = reduced_expm1(em, &n, not_nan(em, x));
    return nan_of(em, x, sn_math_scale2(em, em_addc(em, p, 1), to_int(em, halved ? em_addc(em, n, -1) : n)));
}

lv sn_math_exp_bounded(sn_em *em, lv x) { return sn_em_is64(x) ? exp_f64(em, x, false) : exp_f32(em, x, false); }

lv sn_math_exp_half(sn_em *em, lv x) {
    bool wide = sn_em_is64(x);
    if (!wide || !em->cg->target->is_gpu) x = sn_em_fmin(em, x, sn_em_f(em, x, wide ? 720 : 100));
    return wide ? exp_f64(em, x, true) : exp_f32(em, x, true);
}

/* With subnormal results flushed, ex2 is one instruction instead of four. */
lv sn_math_exp_term(sn_em *em, lv x) {
    if (sn_em_is64(x)) return em->cg->target->is_gpu ? exp_term_f64(em, x, false) : sn_math_exp(em, &x);
    lv y = em_mulc(em, x, LOG2_E_32);
    if (!em->cg->target->is_gpu) return sn_math_exp2(em, &y);
    return sn_math_by_lane(em, "llvm.nvvm.ex2.approx.ftz", &y, 1);
}

lv sn_math_exp_apart(sn_em *em, lv x) { return exp_term_f64(em, x, true); }

/* What is below 2^-126 is 0. lg2.approx is good to 2^-22 near 1. */
lv sn_math_exp_over(sn_em *em, lv x, lv y) {
    lv in[] = {x, em_neg(em, sn_math_by_lane(em, "llvm.nvvm.lg2.approx.f", &y, 1))};
    sn_em_unify(em, in, 2);
    lv sum = em_fmac(em, in[0], LOG2_E_32, in[1]);
    return sn_math_exp2_normal(em, &sum);
}

/* ---- operations ---- */

/* coarse: the rounding of x log2 e costs |x| units in the last place, 88 at most. The square of 2^(x log2 e / 2), which is a normal number where the
 * result is any: ex2 that keeps subnormal results is four instructions. */
static lv exp_coarse(sn_em *em, lv x) {
    lv half = em_mulc(em, x, LOG2_E_32 / 2), e = sn_math_exp2_normal(em, &half);
    return em_mul(em, e, e);
}

lv sn_math_exp(sn_em *em, const lv *in) {
    lv x = in[0];
    if (em->term && !sn_em_is64(x)) return sn_math_exp_term(em, x);
    if (em->coarse && !sn_em_is64(x)) return exp_coarse(em, x);
    if (sn_em_is64(x) && em->cg->target->is_gpu) return exp_f64(em, x, false);
    return sn_math_exp_bounded(em, sn_em_is64(x) ? limit(em, x, -746, 710) : limit(em, x, -105, 89));
}

lv sn_math_exp2(sn_em *em, const lv *in) {
    lv x = in[0];
    if (!sn_em_is64(x)) {
        if (em->cg->target->is_gpu) return em_call1(em, "llvm.exp2", x);
        return sn_math_exp2_small(em, limit(em, x, -151, 129));
    }
    x = limit(em, x, -1077, 1025);
    return nan_of(em, x, exp2_by_poly(em, not_nan(em, x)));
}

/* n from -126 to 128. nan is neither normal nor negative. */
static lv exp2_normal_f32(sn_em *em, lv x) {
    lv most = sn_em_f(em, x, 128), zero = sn_em_f(em, x, 0);
    lv whole = join_f32(em, exp2_parts_f32(em, em_select(em, em_more(em, x, 128), most, x), ROUND_32));
    lv normal = em_fcmp(em, LLVMRealOGE, x, sn_em_f(em, x, -126));
    return em_select(em, normal, whole, em_select(em, em_less(em, x, 0), zero, x));
}

lv sn_math_exp2_normal(sn_em *em, const lv *in) {
    lv x = in[0];
    if (!em->cg->target->is_gpu && !sn_em_is64(x)) return exp2_normal_f32(em, x);
    if (em->cg->target->is_gpu && !sn_em_is64(x)) return sn_math_by_lane(em, "llvm.nvvm.ex2.approx.ftz", &x, 1);
    lv below = em_fcmp(em, LLVMRealOLT, x, sn_em_f(em, x, -126));
    return em_select(em, below, sn_em_f(em, x, 0), sn_math_exp2(em, in));
}

/* f32 on GPUs: 2^f by a polynomial, times 2^n, whose exponent stands in the last bits of the sum that rounds x. A product keeps nan. */
lv sn_math_exp2_short(sn_em *em, const lv *in) {
    lv x = in[0];
    if (!em->cg->target->is_gpu || sn_em_is64(x)) return sn_math_exp2_normal(em, in);
    double round = ROUND_32 + 127;
    lv n = em_contract(em_addc(em, x, round)), f = em_contract(em_sub(em, x, em_addc(em, n, -round)));
    lv y = sn_em_poly(em, f, EXP2_SHORT, SN_COUNT(EXP2_SHORT)), bits = sn_em_ibits(em, n);
    return em_mul(em, y, sn_em_fbits(em, em_shl(em, bits, sn_em_i(em, bits, 23))));
}

/* e^x - 1 = 2 (s p + (s - 1/2)), s = 2^(n-1): s is a float even where 2^n is not. */
lv sn_math_expm1(sn_em *em, const lv *in) {
    lv x = in[0], limited = not_nan(em, limit(em, x, -60, sn_em_is64(x) ? 710 : 89));
    lv n, p = reduced_expm1(em, &n, limited);
    lv k = to_int(em, n), s = power_of_two(em, em_isub(em, k, sn_em_i(em, k, 1)));
    lv y = em_mulc(em, em_fma(em, s, p, em_addc(em, s, -0.5)), 2);
    lv keep = em_fcmp(em, LLVMRealULT, em_abs(em, x), sn_em_f(em, x, 0x1p-60)); /* tiny (subnormal, -0) or nan */
    return em_select(em, keep, x, y);
}

/* Away from 0: 1 - 2/(e^2a + 1), which is 1 from a = 10 on in f32. The error of e^2a counts less than a third there, so
 * the plain product 2a log2 e will do; on GPUs it may run to inf, 1/inf is 0. */
static lv tanh_f32(sn_em *em, lv x) {
    lv a = em_abs(em, x), z = em_mul(em, x, x);
    lv twice = em_mulc(em, a, 2 * LOG2_E_32);
    if (!em->cg->target->is_gpu) twice = sn_em_fmin(em, twice, sn_em_f(em, a, 40));
    lv e = em->cg->target->is_gpu ? sn_math_exp2_normal(em, &twice) : sn_math_exp2_small(em, twice);
    lv far = em_fmac(em, sn_math_rcp_normal(em, em_addc(em, e, 1)), -2, sn_em_f(em, x, 1));
    lv near = em_fma(em, em_mul(em, z, sn_em_poly(em, z, TANH_32, SN_COUNT(TANH_32))), x, x);
    return em_select(em, em_less(em, a, 0.6), near, em_copysign(em, far, x));
}

lv sn_math_give_sign(sn_em *em, lv x, lv y) {
    lv bits = sn_em_ibits(em, y), sign = em_and(em, bits, sn_em_i(em, bits, INT32_MIN));
    return sn_em_fbits(em, em_or(em, sn_em_ibits(em, x), sign));
}

/* 1 - 2 e / (1 + e), e = e^-2|x| */
static lv tanh_blunt(sn_em *em, lv x) {
    lv minus_twice = em_mulc(em, em_abs(em, x), -2 * LOG2_E_32), e = sn_math_exp2_normal(em, &minus_twice);
    lv r = sn_math_rcp_normal(em, em_addc(em, e, 1));
    return sn_math_give_sign(em, em_fma(em, em_mulc(em, e, -2), r, sn_em_f(em, x, 1)), x);
}

lv sn_math_tanh(sn_em *em, const lv *in) {
    lv x = in[0];
    if (em->blunt && !sn_em_is64(x)) return tanh_blunt(em, x);
    if (!sn_em_is64(x)) return tanh_f32(em, x);
    lv a = em_abs(em, x), twice = sn_em_fmin(em, em_add(em, a, a), sn_em_f(em, a, 50));
    lv t = sn_math_expm1(em, &twice), below = em_addc(em, t, 2);
    lv near = em_div(em, t, below);
    lv far = em_sub(em, sn_em_f(em, x, 1), em_div(em, sn_em_f(em, x, 2), below));
    return em_copysign(em, em_select(em, em_less(em, a, 0.55), near, far), x);
}

/* On GPUs 1 - 2/(e^2x + 1), as exact near 0 as it is near 1: for what counts by its absolute error. */
lv sn_math_tanh_level(sn_em *em, const lv *in) {
    lv x = in[0];
    if (!em->cg->target->is_gpu || sn_em_is64(x)) return sn_math_tanh(em, in);
    lv twice = em_mulc(em, x, 2 * LOG2_E_32), e = sn_math_exp2_normal(em, &twice);
    return em_fmac(em, sn_math_rcp_normal(em, em_addc(em, e, 1)), -2, sn_em_f(em, x, 1));
}

/* One instruction of GPUs, for what a half rounds to fewer bits than it has. */
lv sn_math_tanh_short(sn_em *em, const lv *in) {
    if (!em->cg->target->is_gpu || sn_em_is64(in[0])) return sn_math_tanh(em, in);
    lv y = em_call1(em, "llvm.tanh", in[0]);
    if (LLVMCanValueUseFastMathFlags(y)) LLVMSetFastMathFlags(y, LLVMFastMathApproxFunc);
    return y;
}

/* e^x, x <= 0. */
static lv exp_of_negative(sn_em *em, lv x) {
    return sn_math_exp_bounded(em, sn_em_fmax(em, x, sn_em_f(em, x, sn_em_is64(x) ? -746 : -105)));
}

/* c / (c + c e^-x), c = 2^-24: the quotient by c is a normal number wherever the result is a number, the smallest included. e^-x is the square of h. */
static lv sigmoid_coarse(sn_em *em, lv x) {
    lv power = em_mulc(em, x, -LOG2_E_32 / 2), h = em_mulc(em, sn_math_exp2_normal(em, &power), 0x1p-12);
    return em_mulc(em, sn_math_rcp_normal(em, em_fma(em, h, h, sn_em_f(em, x, 0x1p-24))), 0x1p-24);
}

/* e^-|x| never overflows, and keeps sigmoid of large negative numbers accurate. */
lv sn_math_sigmoid(sn_em *em, const lv *in) {
    lv x = in[0];
    if (em->coarse && !sn_em_is64(x)) return sigmoid_coarse(em, x);
    lv e = exp_of_negative(em, em_neg(em, em_abs(em, x)));
    lv r = sn_math_rcp_normal(em, em_addc(em, e, 1));
    return em_select(em, em_fcmp(em, LLVMRealOGE, x, sn_em_f(em, x, 0)), r, em_mul(em, e, r));
}
