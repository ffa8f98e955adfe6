/* math.c: one Loop IR operation to instructions: picks the row of lowering.def or the integer rules, and holds the
 * operations that are a single instruction.
 *
 * Relies on the other math_*.c for the expansions. Adding, subtracting and multiplying may be contracted to fma;
 * expansions never are, they say fma where they mean it.
 */
#include "codegen-llvm/math.h"

#include <math.h>
#include <stdio.h>

/* ---- single instructions ---- */

lv sn_math_neg(sn_em *em, const lv *in) { return em_neg(em, in[0]); }
lv sn_math_abs(sn_em *em, const lv *in) { return em_abs(em, in[0]); }
lv sn_math_floor(sn_em *em, const lv *in) { return em_floor(em, in[0]); }
lv sn_math_ceil(sn_em *em, const lv *in) { return em_call1(em, "llvm.ceil", in[0]); }
lv sn_math_round(sn_em *em, const lv *in) { return em_rint(em, in[0]); }
lv sn_math_trunc(sn_em *em, const lv *in) { return em_trunc(em, in[0]); }
lv sn_math_add(sn_em *em, const lv *in) { return em_contract(em_add(em, in[0], in[1])); }
/* x - y is what a rounding took from x. */
static bool is_rest(lv x, lv y) {
    lv rounded = LLVMIsAFPExtInst(y) ? LLVMGetOperand(y, 0) : NULL;
    return rounded && LLVMIsAFPTruncInst(rounded) && LLVMGetOperand(rounded, 0) == x;
}

/* Where x is at hand anyway, there is nothing to gain by fusing a product into the difference. */
lv sn_math_sub(sn_em *em, const lv *in) {
    lv y = em_sub(em, in[0], in[1]);
    return is_rest(in[0], in[1]) ? y : em_contract(y);
}
lv sn_math_mul(sn_em *em, const lv *in) { return em_contract(em_mul(em, in[0], in[1])); }
lv sn_math_max(sn_em *em, const lv *in) { return sn_em_fmax(em, in[0], in[1]); }
lv sn_math_min(sn_em *em, const lv *in) { return sn_em_fmin(em, in[0], in[1]); }
lv sn_math_eq(sn_em *em, const lv *in) { return em_fcmp(em, LLVMRealOEQ, in[0], in[1]); }
lv sn_math_ne(sn_em *em, const lv *in) { return em_fcmp(em, LLVMRealUNE, in[0], in[1]); }
lv sn_math_lt(sn_em *em, const lv *in) { return em_fcmp(em, LLVMRealOLT, in[0], in[1]); }
lv sn_math_le(sn_em *em, const lv *in) { return em_fcmp(em, LLVMRealOLE, in[0], in[1]); }
lv sn_math_gt(sn_em *em, const lv *in) { return em_fcmp(em, LLVMRealOGT, in[0], in[1]); }
lv sn_math_ge(sn_em *em, const lv *in) { return em_fcmp(em, LLVMRealOGE, in[0], in[1]); }
lv sn_math_isnan(sn_em *em, const lv *in) { return em_fcmp(em, LLVMRealUNO, in[0], in[0]); }
lv sn_math_isinf(sn_em *em, const lv *in) { return em_equals(em, em_abs(em, in[0]), INFINITY); }
lv sn_math_reciprocal(sn_em *em, const lv *in) { return sn_em_rcp(em, in[0]); }
lv sn_math_floordiv(sn_em *em, const lv *in) { return em_floor(em, em_div(em, in[0], in[1])); }

lv sn_math_sign(sn_em *em, const lv *in) {
    lv x = in[0], one = em_copysign(em, sn_em_f(em, x, 1), x);
    lv keep = em_or(em, em_equals(em, x, 0), em_fcmp(em, LLVMRealUNO, x, x));
    return em_select(em, keep, x, one);
}

lv sn_math_by_lane(sn_em *em, const char *intrinsic, const lv *in, uint32_t n) {
    LLVMTypeRef elem = sn_em_elem(in[0]);
    lv y = LLVMGetPoison(LLVMTypeOf(in[0])), lane[2];
    if (sn_em_lanes(in[0]) == 1 && LLVMGetTypeKind(LLVMTypeOf(in[0])) != LLVMVectorTypeKind)
        return sn_em_call(em, intrinsic, elem, (lv *)in, n);
    for (uint32_t i = 0; i < sn_em_lanes(in[0]); i++) {
        for (uint32_t k = 0; k < n; k++) lane[k] = sn_em_lane(em, in[k], i);
        y = sn_em_with_lane(em, y, i, sn_em_call(em, intrinsic, elem, lane, n));
    }
    return y;
}

lv sn_math_scale_to_middle(sn_em *em, lv size, double limit, double step) {
    lv up = em_select(em, em_less(em, size, 1 / limit), sn_em_f(em, size, step), sn_em_f(em, size, 1));
    return em_select(em, em_more(em, size, limit), sn_em_f(em, size, 1 / step), up);
}

static bool is_gpu_f32(const sn_em *em, lv x) { return em->cg->target->is_gpu && !sn_em_is64(x); }

/* A GPU's own root is off by one in the last of 24 bits; the correctly rounded one takes some ten instructions and a branch. */
lv sn_math_sqrt(sn_em *em, const lv *in) {
    bool own = em->coarse && is_gpu_f32(em, in[0]);
    return own ? sn_math_by_lane(em, "llvm.nvvm.sqrt.approx.f", in, 1) : em_call1(em, "llvm.sqrt", in[0]);
}

lv sn_math_rcp_normal(sn_em *em, lv x) {
    return is_gpu_f32(em, x) ? sn_math_by_lane(em, "llvm.nvvm.rcp.approx.ftz.f", &x, 1) : sn_em_rcp(em, x);
}

/* 1/sqrt(x) to 14 bits: 0, inf, negative and subnormal numbers included. n: lanes, 4, 8 or 16. */
static lv rsqrt14(sn_em *em, lv x, uint32_t n) {
    const char *name[] = {"llvm.x86.avx512.rsqrt14.ps.128", "llvm.x86.avx512.rsqrt14.ps.256",
                          "llvm.x86.avx512.rsqrt14.ps.512"};
    lv all = LLVMConstAllOnes(n > 8 ? em->cg->i16 : em->cg->i8);
    lv args[] = {x, LLVMConstNull(LLVMTypeOf(x)), all};
    return sn_em_call(em, name[n / 8], NULL, args, 3);
}

/* ... of any number of lanes, in vectors of the machine. */
static lv rsqrt14_lanes(sn_em *em, lv x) {
    enum { LEAST = 4, MOST = 16 };
    uint32_t lanes = sn_em_lanes(x), n = MOST;
    while (n > LEAST && n > lanes) n /= 2;
    if (n == lanes) return rsqrt14(em, x, n);
    lv y = LLVMGetPoison(LLVMTypeOf(x));
    for (uint32_t first = 0; first < lanes; first += n) {
        lv part = LLVMGetPoison(sn_em_shape(sn_em_elem(x), n));
        for (uint32_t i = 0; i < n && first + i < lanes; i++)
            part = sn_em_with_lane(em, part, i, sn_em_lane(em, x, first + i));
        part = rsqrt14(em, part, n);
        if (lanes == 1) return sn_em_lane(em, part, 0);
        for (uint32_t i = 0; i < n && first + i < lanes; i++)
            y = sn_em_with_lane(em, y, first + i, sn_em_lane(em, part, i));
    }
    return y;
}

/* A root and a division block the machine for twenty cycles. y has 14 bits, e = 1 - x y^2 is what they lack: y + y e/2 is off by
 * 3/8 e^2 < 2^-27, and by the roundings of x y and of the last sum: 1.1 units. Of 0 and inf e is nan, and y is right. A root alone stays the instruction: seven
 * products and a test of the ends give its bits (tried on all f32) in 2.8 ns a vector instead of 4.0, but beside what makes the argument in
 * 4.3, since the instruction waits in a unit of its own. */
static lv rsqrt_by_step(sn_em *em, lv x) {
    lv y = rsqrt14_lanes(em, x), e = em_fma(em, em_neg(em, em_mul(em, x, y)), y, sn_em_f(em, x, 1));
    return em_select(em, em_fcmp(em, LLVMRealORD, e, e), em_fma(em, em_mulc(em, y, 0.5), e, y), y);
}

/* rsqrt.approx is good to 2^-22.9 on all of f32, 0, inf and negative numbers included. */
lv sn_math_rsqrt(sn_em *em, const lv *in) {
    if (is_gpu_f32(em, in[0])) return sn_math_by_lane(em, "llvm.nvvm.rsqrt.approx.f", in, 1);
    if (em->cg->target->avx512 && !sn_em_is64(in[0])) return rsqrt_by_step(em, in[0]);
    return em_div(em, sn_em_f(em, in[0], 1), em_call1(em, "llvm.sqrt", in[0]));
}

/* div.rn has a slow path that doubles the code of a row kernel; div.full is good to 2 units on all of f32. */
lv sn_math_div(sn_em *em, const lv *in) {
    if (is_gpu_f32(em, in[0])) return sn_math_by_lane(em, "llvm.nvvm.div.full", in, 2);
    return em_div(em, in[0], in[1]);
}

/* By a divisor that several lanes or iterations share: 1/b once, then a product each. b is scaled to where its reciprocal is a normal
 * number, unless it is known to be there; 2 units, as div.full. Of f64, by sums of exponentials alone (statement.c): a division is eight products and a branch, which
 * nothing is computed across. */
static lv div_by_shared(sn_em *em, lv a, lv b) {
    if (em->middle) {
        lv both[] = {a, sn_math_rcp_normal(em, b)};
        sn_em_unify(em, both, 2);
        return em_mul(em, both[0], both[1]);
    }
    double large = sn_em_is64(b) ? 0x1p512 : 0x1p64;
    lv scale = sn_math_scale_to_middle(em, em_abs(em, b), large, large);
    lv r = sn_em_rcp(em, em_mul(em, b, scale));
    lv all[] = {a, r, scale};
    sn_em_unify(em, all, 3);
    return em_mul(em, em_mul(em, all[0], all[2]), all[1]); /* scaled first: no product is subnormal but the last one */
}

/* ---- the table ---- */

typedef struct lowering {
    lv (*fn)(sn_em *em, const lv *in);
    double ulp32, ulp64;
    enum { SHORT, LONG } size;
} lowering;

static const lowering TABLE[SN_N_LOPS] = {
#define SN_LOWER(LOP, function, ulp32, ulp64, size, doc) [SN_LOP_##LOP] = {sn_math_##function, ulp32, ulp64, size},
#include "codegen-llvm/lowering.def"
#undef SN_LOWER
};

double sn_math_bound(sn_lop op, sn_dtype t) {
    if (op >= SN_N_LOPS || !TABLE[op].fn || !sn_is_float(t)) return -1;
    return t == SN_F64 ? TABLE[op].ulp64 : TABLE[op].ulp32;
}

/* ---- operations as functions ---- */

static void function_body(sn_em *em, const void *user) {
    const sn_lop *op = user;
    lv in[3];
    uint32_t n = LLVMCountParams(em->fn);
    for (uint32_t i = 0; i < n; i++) in[i] = LLVMGetParam(em->fn, i);
    LLVMBuildRet(em->b, TABLE[*op].fn(em, in));
}

/* Kernels of hundreds of operations would grow by the whole expansion at each of them, and so would their
 * compilation. */
static lv call_function(sn_em *em, sn_lop op, lv *in, uint32_t n) {
    LLVMTypeRef t = LLVMTypeOf(in[0]), types[3] = {t, t, t}, type = LLVMFunctionType(t, types, n, 0);
    char name[64];
    snprintf(name, sizeof name, "sn.%s.%s.%u", sn_lops[op].name, sn_em_is64(in[0]) ? "f64" : "f32", sn_em_lanes(in[0]));
    return LLVMBuildCall2(em->b, type, sn_em_function(em, name, type, function_body, &op), in, n, "");
}

static lv lowered(sn_em *em, sn_lop op, lv *in, uint32_t n) {
    return em->calls && TABLE[op].size == LONG ? call_function(em, op, in, n) : TABLE[op].fn(em, in);
}

/* Narrow floats compute in f32 and round once. */
lv sn_math_op(sn_em *em, sn_lop op, sn_dtype t, lv *in, uint32_t n) {
    bool shared = n == 2 && ((sn_em_lanes(in[0]) > 1 && sn_em_lanes(in[1]) == 1) || em->stays);
    bool gpu = em->cg->target->is_gpu;
    if (op == SN_LOP_DIV && ((t == SN_F32 && gpu && shared) || ((t == SN_F64 || (t == SN_F32 && !gpu)) && em->stays)))
        return div_by_shared(em, in[0], in[1]);
    if (op == SN_LOP_SELECT) return sn_em_choose(em, in[0], in[1], in[2]);
    sn_em_unify(em, in, n);
    if (!sn_is_float(t)) return sn_math_int_op(em, op, t, in);
    SN_ASSERT(TABLE[op].fn);
    if (t == SN_F64 || t == SN_F32) return lowered(em, op, in, n);
    lv wide[3];
    for (uint32_t i = 0; i < n; i++) wide[i] = sn_math_cast(em, SN_F32, t, in[i]);
    lv x = lowered(em, op, wide, n);
    return sn_lops[op].result == SN_RESULT_BOOL ? x : sn_math_cast(em, t, SN_F32, x);
}
