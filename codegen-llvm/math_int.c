/* math_int.c: integer operations, exactly as lops.def defines them: nothing traps, nothing is undefined.
 *
 * Division by 0 gives 0 and INT_MIN / -1 wraps: the operands are replaced before the instruction sees them. Relies on
 * emit.h. Float operations are in the other math files.
 */
#include "codegen-llvm/math.h"

static lv zero(sn_em *em, lv x) { return sn_em_i(em, x, 0); }
static lv one(sn_em *em, lv x) { return sn_em_i(em, x, 1); }
static lv is_zero(sn_em *em, lv x) { return em_icmp(em, LLVMIntEQ, x, zero(em, x)); }
static lv negate(sn_em *em, lv x) { return em_isub(em, zero(em, x), x); }

static lv absolute(sn_em *em, lv x) { return em_select(em, em_icmp(em, LLVMIntSLT, x, zero(em, x)), negate(em, x), x); }

static lv sign(sn_em *em, lv x, bool is_unsigned) {
    lv positive =
        LLVMBuildZExt(em->b, em_icmp(em, is_unsigned ? LLVMIntUGT : LLVMIntSGT, x, zero(em, x)), LLVMTypeOf(x), "");
    if (is_unsigned) return positive;
    lv negative = LLVMBuildZExt(em->b, em_icmp(em, LLVMIntSLT, x, zero(em, x)), LLVMTypeOf(x), "");
    return em_isub(em, positive, negative);
}

/* ---- division ---- */

typedef enum rounding { TOWARDS_ZERO, DOWN, REMAINDER_TOWARDS_ZERO, REMAINDER_DOWN } rounding;

/* Is a remainder towards zero one of a quotient that rounding down makes smaller? */
static lv crosses_zero(sn_em *em, lv r, lv d) {
    lv unlike = em_icmp(em, LLVMIntSLT, em_xor(em, r, d), zero(em, r));
    return em_and(em, em_icmp(em, LLVMIntNE, r, zero(em, r)), unlike);
}

/* Signed. b = 0 and b = -1 divide by 1 instead: a / 1 = a, corrected at the end, remainder 0. */
static lv signed_division(sn_em *em, lv a, lv b, rounding how) {
    lv b_zero = is_zero(em, b), b_minus = em_icmp(em, LLVMIntEQ, b, sn_em_i(em, b, -1));
    lv d = em_select(em, em_or(em, b_zero, b_minus), one(em, b), b);
    lv r = how == TOWARDS_ZERO ? NULL : LLVMBuildSRem(em->b, a, d, "");
    if (how == REMAINDER_TOWARDS_ZERO) return r;
    lv crosses = how == TOWARDS_ZERO ? NULL : crosses_zero(em, r, d);
    if (how == REMAINDER_DOWN) return em_select(em, crosses, em_iadd(em, r, d), r);
    lv q = LLVMBuildSDiv(em->b, a, d, "");
    if (how == DOWN) q = em_select(em, crosses, em_isub(em, q, one(em, q)), q);
    q = em_select(em, b_minus, negate(em, a), q);
    return em_select(em, b_zero, zero(em, q), q);
}

static lv unsigned_division(sn_em *em, lv a, lv b, rounding how) {
    lv b_zero = is_zero(em, b), d = em_select(em, b_zero, one(em, b), b);
    lv x = how >= REMAINDER_TOWARDS_ZERO ? LLVMBuildURem(em->b, a, d, "") : LLVMBuildUDiv(em->b, a, d, "");
    return em_select(em, b_zero, zero(em, x), x);
}

static lv division(sn_em *em, lv a, lv b, rounding how, bool is_unsigned) {
    return is_unsigned ? unsigned_division(em, a, b, how) : signed_division(em, a, b, how);
}

/* ---- power, shifts ---- */

/* Square and multiply, all steps written out: an exponent has at most as many bits as its type. A negative exponent
 * gives 0, except for the bases 1 and -1. */
static lv power(sn_em *em, lv a, lv b, uint32_t bits, bool is_unsigned) {
    lv result = one(em, a), base = a, e = b;
    for (uint32_t i = 0; i < bits; i++) {
        lv odd = em_icmp(em, LLVMIntNE, em_and(em, e, one(em, e)), zero(em, e));
        result = em_select(em, odd, em_imul(em, result, base), result);
        base = em_imul(em, base, base);
        e = em_lshr(em, e, one(em, e));
    }
    if (is_unsigned) return result;
    lv odd = em_icmp(em, LLVMIntNE, em_and(em, b, one(em, b)), zero(em, b));
    lv minus = em_select(em, odd, sn_em_i(em, a, -1), one(em, a));
    lv inverse = em_select(em, em_icmp(em, LLVMIntEQ, a, sn_em_i(em, a, -1)), minus, zero(em, a));
    inverse = em_select(em, em_icmp(em, LLVMIntEQ, a, one(em, a)), one(em, a), inverse);
    return em_select(em, em_icmp(em, LLVMIntSLT, b, zero(em, b)), inverse, result);
}

/* LLVM 22's NVPTX turns `b < 64 ? a << b : 0` into shl.b64, whose amount has 32 bits: it drops the upper half of b. Two
 * shifts of at most 32 show it no such pattern. The same holds for a >> b. */
static lv shift_64(sn_em *em, lv a, lv b, bool left) {
    lv most = sn_em_i(em, b, 64), s = em_select(em, em_icmp(em, LLVMIntULT, b, most), b, most);
    lv half = em_lshr(em, s, one(em, s)), rest = em_isub(em, s, half);
    return left ? em_shl(em, em_shl(em, a, half), rest) : em_lshr(em, em_lshr(em, a, half), rest);
}

static lv shift(sn_em *em, lv a, lv b, uint32_t bits, bool left, bool is_unsigned) {
    if (bits == 64 && (left || is_unsigned)) return shift_64(em, a, b, left);
    lv inside = em_icmp(em, LLVMIntULT, b, sn_em_i(em, b, bits));
    lv s = em_select(em, inside, b, zero(em, b));
    if (left) return em_select(em, inside, em_shl(em, a, s), zero(em, a));
    if (is_unsigned) return em_select(em, inside, em_lshr(em, a, s), zero(em, a));
    return em_ashr(em, a, em_select(em, inside, b, sn_em_i(em, b, bits - 1)));
}

/* ---- words of several numbers ---- */

/* Products of numbers of `bits` bits in words b and c, added to a: operation by operation. */
static lv dot_by_parts(sn_em *em, lv a, lv b, lv c, uint32_t bits, bool b_unsigned) {
    LLVMTypeRef part = sn_em_like(a, bits == 8 ? em->cg->i8 : em->cg->i16), whole = LLVMTypeOf(a);
    for (uint32_t shift = 0; shift < 32; shift += bits) {
        lv x = LLVMBuildTrunc(em->b, em_lshr(em, b, sn_em_i(em, b, shift)), part, "");
        lv y = LLVMBuildTrunc(em->b, em_lshr(em, c, sn_em_i(em, c, shift)), part, "");
        x = b_unsigned ? LLVMBuildZExt(em->b, x, whole, "") : LLVMBuildSExt(em->b, x, whole, "");
        a = em_iadd(em, a, em_imul(em, x, LLVMBuildSExt(em->b, y, whole, "")));
    }
    return a;
}

/* By the instruction of x86 for vectors of so many lanes. */
static lv dot_by_vectors(sn_em *em, const lv *in, uint32_t lanes, bool bytes) {
    static const char *const SUMS[] = {"llvm.x86.sse2.pmadd.wd", "llvm.x86.avx2.pmadd.wd",
                                       "llvm.x86.avx512.pmaddw.d.512"},
                             *const DOTS[] = {"llvm.x86.avx512.vpdpbusd.128", "llvm.x86.avx512.vpdpbusd.256",
                                              "llvm.x86.avx512.vpdpbusd.512"};
    LLVMTypeRef parts = LLVMVectorType(bytes ? em->cg->i8 : em->cg->i16, lanes * (bytes ? 4 : 2));
    lv args[] = {in[0], em_bitcast(em, in[1], parts), em_bitcast(em, in[2], parts)};
    if (bytes) return sn_em_call(em, DOTS[lanes / 8], NULL, args, 3);
    return em_iadd(em, in[0], sn_em_call(em, SUMS[lanes / 8], NULL, args + 1, 2));
}

static lv dot(sn_em *em, sn_dtype t, const lv *in, bool bytes) {
    uint32_t lanes = sn_em_lanes(in[0]), widest = em->cg->target->vector_bytes / 4;
    bool whole = lanes == 4 || lanes == 8 || lanes == 16, wide = sn_dtype_bytes(t) >= 4;
    if (sn_dtype_bytes(t) == 4 && whole && lanes <= widest && em->cg->target->word_steps >= (bytes ? 4 : 2))
        return dot_by_vectors(em, in, lanes, bytes);
    lv x[3];
    for (uint32_t k = 0; k < 3; k++) x[k] = wide ? in[k] : sn_math_cast(em, SN_I32, t, in[k]);
    lv y = dot_by_parts(em, x[0], x[1], x[2], bytes ? 8 : 16, bytes);
    return wide ? y : sn_math_cast(em, t, SN_I32, y);
}

/* ---- everything ---- */

static lv compare(sn_em *em, sn_lop op, lv a, lv b, bool is_unsigned) {
    LLVMIntPredicate p;
    switch ((int)op) {
    case SN_LOP_EQ: p = LLVMIntEQ; break;
    case SN_LOP_NE: p = LLVMIntNE; break;
    case SN_LOP_LT: p = is_unsigned ? LLVMIntULT : LLVMIntSLT; break;
    case SN_LOP_LE: p = is_unsigned ? LLVMIntULE : LLVMIntSLE; break;
    case SN_LOP_GT: p = is_unsigned ? LLVMIntUGT : LLVMIntSGT; break;
    default: p = is_unsigned ? LLVMIntUGE : LLVMIntSGE; break;
    }
    return em_icmp(em, p, a, b);
}

/* On bool, where addition is or and the larger of two is or. */
static sn_lop bool_op(sn_lop op) {
    switch ((int)op) {
    case SN_LOP_ADD:
    case SN_LOP_MAX: return SN_LOP_OR;
    case SN_LOP_MUL:
    case SN_LOP_MIN: return SN_LOP_AND;
    case SN_LOP_ABS:
    case SN_LOP_SIGN: return SN_LOP_FLOOR;
    default: return op;
    }
}

lv sn_math_int_op(sn_em *em, sn_lop op, sn_dtype t, const lv *in) {
    bool is_unsigned = sn_is_unsigned(t);
    uint32_t bits = t == SN_BOOL ? 1 : sn_dtype_bytes(t) * 8;
    lv a = in[0], b = in[1];
    if (t == SN_BOOL) op = bool_op(op);
    switch ((int)op) {
    case SN_LOP_NEG: return negate(em, a);
    case SN_LOP_ABS: return is_unsigned ? a : absolute(em, a);
    case SN_LOP_SIGN: return sign(em, a, is_unsigned);
    case SN_LOP_FLOOR:
    case SN_LOP_CEIL:
    case SN_LOP_ROUND:
    case SN_LOP_TRUNC: return a;
    case SN_LOP_NOT: return LLVMBuildNot(em->b, a, "");
    case SN_LOP_ISNAN:
    case SN_LOP_ISINF: return sn_em_splat(em, LLVMConstInt(em->cg->i1, 0, 0), sn_em_lanes(a));
    case SN_LOP_ADD: return em_iadd(em, a, b);
    case SN_LOP_SUB: return em_isub(em, a, b);
    case SN_LOP_MUL: return em_imul(em, a, b);
    case SN_LOP_DIV: return division(em, a, b, TOWARDS_ZERO, is_unsigned);
    case SN_LOP_FLOORDIV: return division(em, a, b, DOWN, is_unsigned);
    case SN_LOP_REM: return division(em, a, b, REMAINDER_DOWN, is_unsigned);
    case SN_LOP_FMOD: return division(em, a, b, REMAINDER_TOWARDS_ZERO, is_unsigned);
    case SN_LOP_POW: return power(em, a, b, bits, is_unsigned);
    case SN_LOP_MAX: return em_select(em, compare(em, SN_LOP_GT, a, b, is_unsigned), a, b);
    case SN_LOP_MIN: return em_select(em, compare(em, SN_LOP_LT, a, b, is_unsigned), a, b);
    case SN_LOP_AND: return em_and(em, a, b);
    case SN_LOP_OR: return em_or(em, a, b);
    case SN_LOP_XOR: return em_xor(em, a, b);
    case SN_LOP_SHL: return shift(em, a, b, bits, true, is_unsigned);
    case SN_LOP_SHR: return shift(em, a, b, bits, false, is_unsigned);
    case SN_LOP_DOT2: return dot(em, t, in, false);
    case SN_LOP_DOT4: return dot(em, t, in, true);
    default: return compare(em, op, a, b, is_unsigned);
    }
}
