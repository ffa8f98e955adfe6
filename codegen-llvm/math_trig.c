/* math_trig.c: sine, cosine and tangent.
 *
 * x = n pi/2 + r. Up to a limit three fma with pi/2 in three parts give r (Cody-Waite); beyond it a function that is
 * made once per module multiplies the mantissa by 192 bits of 2/pi chosen by the exponent (Payne-Hanek). That code
 * stands in a branch that a warp takes only if one of its lanes needs it.
 */
#include "codegen-llvm/math.h"

#include <math.h>

#define PIO2_1 0x1.921fb54442d18p+0
#define PIO2_2 0x1.1a62633145c07p-54
#define PIO2_3 -0x1.f1976b7ed8fbcp-110
#define PIO2_1_32 0x1.921fb6p+0
#define PIO2_2_32 -0x1.777a5cp-25
#define PIO2_3_32 -0x1.ee59dap-50
#define TWO_OVER_PI 0x1.45f306dc9c883p-1

static const double SIN_32[] = {-0x1.555556p-3, 0x1.11110ep-7, -0x1.a01354p-13, 0x1.6da31ep-19};
static const double COS_32[] = {0x1.555556p-5, -0x1.6c16cp-10, 0x1.a0158cp-16, -0x1.251256p-22};
static const double SIN_64[] = {-0x1.5555555555555p-3, 0x1.111111111111p-7,    -0x1.a01a01a01984bp-13,
                                0x1.71de3a5444193p-19, -0x1.ae6453e1ed29dp-26, 0x1.612158d39590bp-33,
                                -0x1.ab01958dd08f7p-41};
static const double COS_64[] = {0x1.5555555555555p-5,   -0x1.6c16c16c1690ap-10, 0x1.a01a019f3910ap-16,
                                -0x1.27e4f9fc2b4bcp-22, 0x1.1eeb4c6e0c1c7p-29,  -0x1.906960d0b1271p-37};

/* 2/pi in binary, after one word of zeros: bit i (from 64 on) has the weight 2^(63-i). */
static const uint64_t TWO_OVER_PI_BITS[] = {
    0,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
};

/* ---- Payne-Hanek ---- */

static lv bits_table(sn_em *em) {
    lv table = LLVMGetNamedGlobal(em->mod, "sn_two_over_pi");
    if (table) return table;
    enum { N = SN_COUNT(TWO_OVER_PI_BITS) };
    lv words[N];
    for (uint32_t i = 0; i < N; i++) words[i] = LLVMConstInt(em->cg->i64, TWO_OVER_PI_BITS[i], 0);
    lv init = LLVMConstArray2(em->cg->i64, words, N);
    table = LLVMAddGlobalInAddressSpace(em->mod, LLVMTypeOf(init), "sn_two_over_pi", em->cg->target->is_gpu ? 1 : 0);
    LLVMSetInitializer(table, init);
    LLVMSetGlobalConstant(table, 1);
    LLVMSetLinkage(table, LLVMInternalLinkage);
    return table;
}

static lv table_word(sn_em *em, lv index, int64_t plus) {
    lv i = em_iadd(em, index, sn_em_ci(em->cg->i64, plus));
    return LLVMBuildLoad2(em->b, em->cg->i64, LLVMBuildGEP2(em->b, em->cg->i64, bits_table(em), &i, 1, ""), "");
}

/* The 64 bits that start `shift` (0 .. 63) bits into the pair of words. */
static lv window(sn_em *em, lv first, lv second, lv shift) {
    return sn_em_call(em, "llvm.fshl", em->cg->i64, (lv[]){first, second, shift}, 3);
}

typedef struct wide {
    lv hi, lo;
} wide; /* 128 bits in two words */

static wide multiply(sn_em *em, lv a, lv b) {
    LLVMTypeRef i128 = LLVMIntTypeInContext(em->cg->cx, 128);
    lv p = em_imul(em, LLVMBuildZExt(em->b, a, i128, ""), LLVMBuildZExt(em->b, b, i128, ""));
    lv hi = em_lshr(em, p, LLVMConstInt(i128, 64, 0));
    return (wide){LLVMBuildTrunc(em->b, hi, em->cg->i64, ""), LLVMBuildTrunc(em->b, p, em->cg->i64, "")};
}

static lv c64(sn_em *em, int64_t x) { return sn_em_ci(em->cg->i64, x); }

/* frac(x 2/pi / 4) as 128 bits: the top two are the quadrant. x = mantissa 2^e; bits of 2/pi whose product with it is a
 * multiple of 4 are left out at the top, those below 2^-190 at the bottom. */
static wide fraction_of_turn(sn_em *em, lv x_bits) {
    lv exponent = em_and(em, em_lshr(em, x_bits, c64(em, 52)), c64(em, 0x7ff));
    lv mantissa = em_or(em, em_and(em, x_bits, c64(em, 0xfffffffffffff)), c64(em, (int64_t)1 << 52));
    lv position = em_iadd(em, exponent, c64(em, 62 - 1075));
    lv word = em_lshr(em, position, c64(em, 6)), shift = em_and(em, position, c64(em, 63));
    lv w[4];
    for (int i = 0; i < 4; i++) w[i] = table_word(em, word, i);
    lv a = window(em, w[0], w[1], shift), b = window(em, w[1], w[2], shift), c = window(em, w[2], w[3], shift);
    wide low = multiply(em, mantissa, c), middle = multiply(em, mantissa, b);
    lv sum = em_iadd(em, middle.lo, low.hi);
    lv carry = LLVMBuildZExt(em->b, em_icmp(em, LLVMIntULT, sum, low.hi), em->cg->i64, "");
    return (wide){em_iadd(em, em_imul(em, mantissa, a), em_iadd(em, middle.hi, carry)), sum};
}

/* {double r, i32 quadrant} of a double |x| >= 2^-9: x = quadrant pi/2 + r, |r| <= pi/4. */
static void reduce_body(sn_em *em, const void *user) {
    (void)user;
    lv x = LLVMGetParam(em->fn, 0), bits = sn_em_ibits(em, x);
    LLVMTypeRef i64 = em->cg->i64, i128 = LLVMIntTypeInContext(em->cg->cx, 128);
    wide turn = fraction_of_turn(em, bits);
    /* Below the quadrant bits: a signed fraction of a quadrant; rounding to nearest takes the next quadrant. */
    lv hi = window(em, turn.hi, turn.lo, c64(em, 2)), lo = em_shl(em, turn.lo, c64(em, 2));
    lv negative = em_icmp(em, LLVMIntSLT, hi, c64(em, 0));
    lv quadrant = em_iadd(em, em_lshr(em, turn.hi, c64(em, 62)), LLVMBuildZExt(em->b, negative, i64, ""));
    lv all = em_or(em, em_shl(em, LLVMBuildZExt(em->b, hi, i128, ""), LLVMConstInt(i128, 64, 0)),
                   LLVMBuildZExt(em->b, lo, i128, ""));
    lv size = em_select(em, negative, em_isub(em, LLVMConstNull(i128), all), all);
    size = em_or(em, size, LLVMConstInt(i128, 1, 0));
    lv zeros = sn_em_call(em, "llvm.ctlz", i128, (lv[]){size, LLVMConstInt(em->cg->i1, 1, 0)}, 2);
    size = em_shl(em, size, zeros);
    lv top = LLVMBuildTrunc(em->b, em_lshr(em, size, LLVMConstInt(i128, 75, 0)), i64, ""); /* 53 bits */
    lv next = LLVMBuildTrunc(
        em->b, em_and(em, em_lshr(em, size, LLVMConstInt(i128, 22, 0)), LLVMConstInt(i128, 0x1fffffffffffff, 0)), i64,
        "");
    lv scale = em_isub(em, c64(em, 1023 - 53), LLVMBuildTrunc(em->b, zeros, i64, ""));
    lv unit = sn_em_fbits(em, em_shl(em, scale, c64(em, 52)));
    lv f = em_mul(em, LLVMBuildUIToFP(em->b, top, em->cg->f64, ""), unit);
    lv f_lo = em_mulc(em, em_mul(em, LLVMBuildUIToFP(em->b, next, em->cg->f64, ""), unit), 0x1p-53);
    lv r = em_mulc(em, f, PIO2_1);
    lv r_lo = em_fmac(em, f, PIO2_1, em_neg(em, r));
    r_lo = em_fmac(em, f, PIO2_2, em_fmac(em, f_lo, PIO2_1, r_lo));
    r = em_add(em, r, r_lo);
    lv flip = em_xor(em, negative, em_icmp(em, LLVMIntSLT, bits, c64(em, 0)));
    lv x_negative = em_icmp(em, LLVMIntSLT, bits, c64(em, 0));
    quadrant = em_select(em, x_negative, em_isub(em, c64(em, 0), quadrant), quadrant);
    lv out = LLVMGetPoison(LLVMGetReturnType(LLVMGlobalGetValueType(em->fn)));
    out = LLVMBuildInsertValue(em->b, out, em_select(em, flip, em_neg(em, r), r), 0, "");
    out = LLVMBuildInsertValue(em->b, out, LLVMBuildTrunc(em->b, quadrant, em->cg->i32, ""), 1, "");
    LLVMBuildRet(em->b, out);
}

static lv call_reduce(sn_em *em, lv x) {
    LLVMTypeRef out = LLVMStructTypeInContext(em->cg->cx, (LLVMTypeRef[]){em->cg->f64, em->cg->i32}, 2, 0);
    LLVMTypeRef type = LLVMFunctionType(out, &em->cg->f64, 1, 0);
    lv fn = sn_em_function(em, "sn_trig_reduce", type, reduce_body, NULL);
    return LLVMBuildCall2(em->b, type, fn, &x, 1, "");
}

/* ---- sine and cosine ---- */

typedef struct reduced {
    lv r, quadrant;
} reduced;

/* |x| within the limit. */
static reduced cody_waite(sn_em *em, lv x) {
    bool wide = sn_em_is64(x);
    lv n = em_rint(em, em_mulc(em, x, TWO_OVER_PI)), m = em_neg(em, n);
    lv r = em_fmac(em, m, wide ? PIO2_1 : PIO2_1_32, x);
    r = em_fmac(em, m, wide ? PIO2_2 : PIO2_2_32, r);
    r = em_fmac(em, m, wide ? PIO2_3 : PIO2_3_32, r);
    return (reduced){r, LLVMBuildFPToSI(em->b, n, sn_em_like(x, em->cg->i32), "")};
}

/* Lanes that are large and finite get their exact reduction, behind one branch for all lanes. */
static reduced reduce_large(sn_em *em, lv x, lv large, reduced small) {
    LLVMTypeRef elem = sn_em_elem(x);
    sn_em_if branch = sn_em_then(em, sn_em_any(em, large), "large");
    reduced big = {LLVMGetPoison(LLVMTypeOf(x)), LLVMGetPoison(LLVMTypeOf(small.quadrant))};
    for (uint32_t i = 0; i < sn_em_lanes(x); i++) {
        lv lane = sn_em_lane(em, x, i);
        lv safe = em_select(em, sn_em_lane(em, large, i), lane, sn_em_f(em, lane, 1));
        lv got = call_reduce(em, sn_em_is64(x) ? safe : LLVMBuildFPExt(em->b, safe, em->cg->f64, ""));
        lv r = LLVMBuildExtractValue(em->b, got, 0, "");
        big.r = sn_em_with_lane(em, big.r, i, sn_em_is64(x) ? r : LLVMBuildFPTrunc(em->b, r, elem, ""));
        big.quadrant = sn_em_with_lane(em, big.quadrant, i, LLVMBuildExtractValue(em->b, got, 1, ""));
    }
    big.r = em_select(em, large, big.r, small.r);
    big.quadrant = em_select(em, large, big.quadrant, small.quadrant);
    LLVMBasicBlockRef then_end = LLVMGetInsertBlock(em->b);
    sn_em_end(em, &branch);
    return (reduced){sn_em_merge(em, &branch, then_end, big.r, small.r),
                     sn_em_merge(em, &branch, then_end, big.quadrant, small.quadrant)};
}

/* x infinite or nan: some number, which only_finite takes back. */
static reduced reduce(sn_em *em, lv x) {
    lv a = em_abs(em, x), within = em_fcmp(em, LLVMRealOLE, a, sn_em_f(em, x, sn_em_is64(x) ? 0x1p30 : 1e5));
    reduced small = cody_waite(em, em_select(em, within, x, sn_em_f(em, x, 0)));
    lv large = em_and(em, em_less(em, a, INFINITY), LLVMBuildNot(em->b, within, ""));
    return reduce_large(em, x, large, small);
}

static lv sine_poly(sn_em *em, lv r) {
    lv z = em_mul(em, r, r);
    lv s = sn_em_is64(r) ? sn_em_poly(em, z, SIN_64, SN_COUNT(SIN_64)) : sn_em_poly(em, z, SIN_32, SN_COUNT(SIN_32));
    return em_fma(em, em_mul(em, r, z), s, r);
}

static lv cosine_poly(sn_em *em, lv r) {
    lv z = em_mul(em, r, r);
    lv c = sn_em_is64(r) ? sn_em_poly(em, z, COS_64, SN_COUNT(COS_64)) : sn_em_poly(em, z, COS_32, SN_COUNT(COS_32));
    lv half = em_mulc(em, z, 0.5), w = em_sub(em, sn_em_f(em, z, 1), half);
    lv w_lo = em_sub(em, em_sub(em, sn_em_f(em, z, 1), w), half);
    return em_add(em, w, em_fma(em, em_mul(em, z, z), c, w_lo));
}

static lv has_bit(sn_em *em, lv q, int64_t bit) {
    return em_icmp(em, LLVMIntNE, em_and(em, q, sn_em_i(em, q, bit)), sn_em_i(em, q, 0));
}

static lv only_finite(sn_em *em, lv x, lv y) {
    return em_select(em, em_less(em, em_abs(em, x), INFINITY), y, em_sub(em, x, x));
}

static lv keep_zero(sn_em *em, lv x, lv y) { return em_select(em, em_equals(em, x, 0), x, y); } /* -0 */

/* sin(x + shift pi/2). */
static lv sine(sn_em *em, lv x, int shift) {
    reduced p = reduce(em, x);
    lv s = sine_poly(em, p.r), c = cosine_poly(em, p.r);
    lv q = em_iadd(em, p.quadrant, sn_em_i(em, p.quadrant, shift));
    lv y = em_select(em, has_bit(em, q, 1), c, s);
    y = em_select(em, has_bit(em, q, 2), em_neg(em, y), y);
    return only_finite(em, x, shift ? y : keep_zero(em, x, y));
}

lv sn_math_sin(sn_em *em, const lv *in) { return sine(em, in[0], 0); }
lv sn_math_cos(sn_em *em, const lv *in) { return sine(em, in[0], 1); }

/* a/b, |b| <= 1 and normal. f32: a step of Newton's on the rounded reciprocal, shorter than div.rn and as good. */
static lv quotient(sn_em *em, lv a, lv b) {
    if (sn_em_is64(a)) return em_div(em, a, b);
    lv r = sn_math_rcp_normal(em, b), q = em_mul(em, a, r);
    return em_fma(em, em_fma(em, em_neg(em, q), b, a), r, q);
}

/* tan(r + pi/2) = -cos r / sin r. */
lv sn_math_tan(sn_em *em, const lv *in) {
    lv x = in[0];
    reduced p = reduce(em, x);
    lv s = sine_poly(em, p.r), c = cosine_poly(em, p.r), odd = has_bit(em, p.quadrant, 1);
    lv y = quotient(em, em_select(em, odd, em_neg(em, c), s), em_select(em, odd, s, c));
    return only_finite(em, x, keep_zero(em, x, y));
}
