/* convert.c: element types as LLVM types, and conversions between them.
 *
 * Relies on emit.h. A float that the machine cannot convert travels as an integer, and the conversions here are integer
 * code; rounding is to nearest even everywhere, once. Float to integer truncates and saturates, nan gives 0.
 */
#include "codegen-llvm/math.h"

#include <math.h>

/* What LLVM or the machine has no type for travels as an integer of its size. */
LLVMTypeRef sn_math_type(const sn_cg *cg, sn_dtype t) {
    if (t == SN_F64) return cg->f64;
    if (t == SN_F32) return cg->f32;
    if (t == SN_F16) return cg->f16;
    if (t == SN_BF16) return cg->bf16;
    if (t == SN_BOOL) return cg->i1;
    uint32_t bytes = sn_dtype_bytes(t);
    return bytes == 8 ? cg->i64 : bytes == 4 ? cg->i32 : bytes == 2 ? cg->i16 : cg->i8;
}

LLVMTypeRef sn_math_storage(const sn_cg *cg, sn_dtype t) { return t == SN_BOOL ? cg->i8 : sn_math_type(cg, t); }

lv sn_math_from_storage(sn_em *em, sn_dtype t, lv x) {
    return t == SN_BOOL ? em_icmp(em, LLVMIntNE, x, sn_em_i(em, x, 0)) : x;
}

lv sn_math_to_storage(sn_em *em, sn_dtype t, lv x) {
    return t == SN_BOOL ? LLVMBuildZExt(em->b, x, sn_em_like(x, em->cg->i8), "") : x;
}

/* ---- narrow floats ---- */

/* f32 bits rounded to their upper 16: bfloat. A nan must not round to an infinity. */
static lv bf16_from_f32(sn_em *em, lv x) {
    lv u = sn_em_ibits(em, x);
    lv odd = em_and(em, em_lshr(em, u, sn_em_i(em, u, 16)), sn_em_i(em, u, 1));
    lv rounded = em_lshr(em, em_iadd(em, u, em_iadd(em, odd, sn_em_i(em, u, 0x7fff))), sn_em_i(em, u, 16));
    lv quiet = em_or(em, em_lshr(em, u, sn_em_i(em, u, 16)), sn_em_i(em, u, 0x40));
    lv bits = em_select(em, em_fcmp(em, LLVMRealUNO, x, x), quiet, rounded);
    return LLVMBuildTrunc(em->b, bits, sn_em_like(x, em->cg->i16), "");
}

static lv f32_from_bf16(sn_em *em, lv x) {
    lv u = LLVMBuildZExt(em->b, x, sn_em_like(x, em->cg->i32), "");
    return sn_em_fbits(em, em_shl(em, u, sn_em_i(em, u, 16)));
}

/* The float with the narrow one's bits shifted into place is off by a power of two in scale, exactly, subnormals
 * included. For types with fewer exponents than f32 has. */
static lv f32_from_narrow(sn_em *em, sn_dtype from, lv x) {
    uint32_t top = 8 * sn_dtype_bytes(from) - 1, drop = 24 - sn_dtypes[from].digits;
    uint32_t infinity = (1u << top) - (1u << (sn_dtypes[from].digits - 1));
    lv u = LLVMBuildZExt(em->b, x, sn_em_like(x, em->cg->i32), "");
    lv sign = em_shl(em, em_and(em, u, sn_em_i(em, u, 1u << top)), sn_em_i(em, u, 31 - top));
    lv body = em_and(em, u, sn_em_i(em, u, (1u << top) - 1)), shifted = em_shl(em, body, sn_em_i(em, u, drop));
    lv finite = em_mulc(em, sn_em_fbits(em, shifted), ldexp(1, 127 - sn_float_highest(from)));
    lv special = em_or(em, shifted, sn_em_i(em, u, 0x7f800000));
    lv is_special = em_icmp(em, LLVMIntUGE, body, sn_em_i(em, u, infinity));
    return sn_em_fbits(em, em_or(em, sign, em_select(em, is_special, special, sn_em_ibits(em, finite))));
}

/* Normal numbers round like bfloat, on the bits that go. Subnormal ones round by adding a float whose spacing is theirs. */
static lv narrow_from_f32(sn_em *em, sn_dtype to, lv x) {
    uint32_t digits = sn_dtypes[to].digits, top = 8 * sn_dtype_bytes(to) - 1, drop = 24 - digits;
    uint32_t infinity = (1u << top) - (1u << (digits - 1));
    int lowest = sn_float_lowest(to), highest = sn_float_highest(to);
    double spaced = ldexp(1, lowest + (int)drop), beyond = ldexp(2 - ldexp(1, -(int)digits), highest);
    int64_t rounds = ((int64_t)1 << (drop - 1)) - 1 - ((int64_t)(127 - highest) << 23);
    lv u = sn_em_ibits(em, x);
    lv sign = em_and(em, em_lshr(em, u, sn_em_i(em, u, 31 - top)), sn_em_i(em, u, 1u << top));
    lv body = em_and(em, u, sn_em_i(em, u, 0x7fffffff)), a = sn_em_fbits(em, body);
    lv odd = em_and(em, em_lshr(em, body, sn_em_i(em, u, drop)), sn_em_i(em, u, 1));
    lv normal = em_lshr(em, em_iadd(em, body, em_iadd(em, odd, sn_em_i(em, u, rounds))), sn_em_i(em, u, drop));
    lv tiny = em_isub(em, sn_em_ibits(em, em_addc(em, a, spaced)), sn_em_ibits(em, sn_em_f(em, a, spaced)));
    lv bits = em_select(em, em_less(em, a, ldexp(1, lowest)), tiny, normal);
    bits = em_select(em, em_fcmp(em, LLVMRealOGE, a, sn_em_f(em, a, beyond)), sn_em_i(em, u, infinity), bits);
    lv quiet = sn_em_i(em, u, infinity | 1u << (digits - 2));
    bits = em_select(em, em_fcmp(em, LLVMRealUNO, x, x), quiet, bits);
    return LLVMBuildTrunc(em->b, em_or(em, bits, sign), sn_em_like(x, sn_math_type(em->cg, to)), "");
}

/* f64 to f32 rounded to odd: rounding the result again, to fewer bits, is then right. */
static lv f32_to_odd(sn_em *em, lv x) {
    lv y = LLVMBuildFPTrunc(em->b, x, sn_em_like(x, em->cg->f32), "");
    lv back = LLVMBuildFPExt(em->b, y, LLVMTypeOf(x), "");
    lv u = sn_em_ibits(em, y);
    lv larger = em_fcmp(em, LLVMRealOGT, em_abs(em, back), em_abs(em, x));
    lv truncated = em_select(em, larger, em_isub(em, u, sn_em_i(em, u, 1)), u);
    lv inexact = em_fcmp(em, LLVMRealONE, back, x);
    return sn_em_fbits(em, em_select(em, inexact, em_or(em, truncated, sn_em_i(em, u, 1)), u));
}

/* Does the machine convert it? */
static bool is_native(const sn_cg *cg, sn_dtype t) {
    return (t == SN_F16 && cg->has_f16) || (t == SN_BF16 && cg->has_bf16);
}

/* Does a GPU calculate with pairs of them? */
static bool has_pairs(const sn_em *em, sn_dtype t) {
    enum { BF16_SM = 90, F16_SM = 53 };
    return em->cg->target->is_gpu && is_native(em->cg, t) && em->cg->target->sm >= (t == SN_BF16 ? BF16_SM : F16_SM);
}

enum { LARGE = 0x64006400 /* 1024, of f16, twice */, LARGE_SIGNED = 0x64806480 /* 1024 + 128 */ };

/* Bytes by twos, each in half of a word. */
static lv spread_bytes(sn_em *em, lv x) {
    enum { FIRST = 0x4140, SECOND = 0x4342, WORD = 4 };
    LLVMTypeRef i32 = em->cg->i32;
    uint32_t lanes = sn_em_lanes(x), n = lanes / 2;
    bool whole = lanes % WORD == 0;
    lv words = whole ? em_bitcast(em, x, sn_em_shape(i32, lanes / WORD)) : NULL,
       all = LLVMGetPoison(sn_em_shape(i32, n));
    for (uint32_t i = 0; i < n; i++) {
        lv in[3] = {NULL, sn_em_ci(i32, 0), sn_em_ci(i32, whole && i % 2 ? SECOND : FIRST)};
        if (whole) in[0] = lanes > WORD ? sn_em_lane(em, words, i / 2) : words;
        else if (n == 1) in[0] = LLVMBuildZExt(em->b, em_bitcast(em, x, em->cg->i16), i32, "");
        else return em_bitcast(em, LLVMBuildZExt(em->b, x, sn_em_like(x, em->cg->i16), ""), sn_em_shape(i32, n));
        lv word = sn_em_call(em, "llvm.nvvm.prmt", NULL, in, 3);
        all = n > 1 ? sn_em_with_lane(em, all, i, word) : word;
    }
    return all;
}

/* Pairs of bytes as halves, exactly. bfloat: 128 + the lower seven bits is one whose last bits those are, and so is 256, or what the top
 * bit is less than it. f16: 1024 + a number of eight bits. A conversion takes its turn with 15 others; these are a permutation, an
 * operation by bits or two, and a subtraction for two. */
static lv halves_from_bytes(sn_em *em, sn_dtype to, sn_dtype from, lv x) {
    enum { ONE = 0x43004300 /* 128 */, LOW = 0x7f007f, TOP = 0x800080, TO_ONE = 0x86 /* 0x80 times this is 0x4300 */ };
    lv w = spread_bytes(em, x), number, less;
    LLVMTypeRef type = sn_em_like(x, sn_math_type(em->cg, to));
    if (to == SN_F16) {
        less = sn_em_i(em, w, sn_is_unsigned(from) ? LARGE : LARGE_SIGNED);
        number = em_xor(em, w, less);
    } else {
        lv top = em_and(em, w, sn_em_i(em, w, TOP));
        number = em_or(em, em_and(em, w, sn_em_i(em, w, LOW)), sn_em_i(em, w, ONE));
        less = sn_is_unsigned(from) ? em_isub(em, sn_em_i(em, w, ONE), em_imul(em, top, sn_em_i(em, w, TO_ONE)))
                                    : em_or(em, top, sn_em_i(em, w, ONE));
    }
    return em_sub(em, em_bitcast(em, number, type), em_bitcast(em, less, type));
}

/* The bytes that halves were made of so; NULL: they are others. Nothing else subtracts halves, which are computed with as f32. */
static lv bytes_of_halves(lv x) {
    if (!LLVMIsAInstruction(x) || LLVMGetInstructionOpcode(x) != LLVMFSub) return NULL;
    lv at = LLVMGetOperand(x, 0);
    for (bool found = false; !found; at = LLVMGetOperand(at, 0)) {
        if (!LLVMIsAInstruction(at)) return NULL;
        if (LLVMGetInstructionOpcode(at) == LLVMInsertElement) at = LLVMGetOperand(at, 1); /* the last word */
        LLVMTypeRef elem = sn_em_elem(LLVMGetOperand(at, 0));
        found = LLVMGetTypeKind(elem) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(elem) == 8;
    }
    return sn_em_lanes(at) == sn_em_lanes(x) ? at : NULL;
}

/* What halves that were bytes are in f32: converted, which takes no longer than to widen halves. NULL: they were not. */
static lv f32_of_bytes(sn_em *em, sn_dtype t, lv x) {
    lv bytes = has_pairs(em, t) ? bytes_of_halves(x) : NULL, less = bytes ? LLVMGetOperand(x, 1) : NULL;
    if (!bytes) return NULL;
    LLVMTypeRef words = sn_em_shape(em->cg->i32, sn_em_lanes(x) / 2), type = sn_em_like(x, em->cg->f32);
    lv large = sn_em_splat(em, sn_em_ci(em->cg->i32, LARGE), sn_em_lanes(x) / 2);
    bool is_unsigned = t == SN_F16 ? em_bitcast(em, less, words) == large
                                   : LLVMGetInstructionOpcode(LLVMGetOperand(less, 0)) == LLVMSub;
    return is_unsigned ? LLVMBuildUIToFP(em->b, bytes, type, "") : LLVMBuildSIToFP(em->b, bytes, type, "");
}

static lv widened(sn_em *em, sn_dtype from, lv x) {
    lv numbers = f32_of_bytes(em, from, x);
    if (numbers) return numbers;
    if (is_native(em->cg, from)) return LLVMBuildFPExt(em->b, x, sn_em_like(x, em->cg->f32), "");
    return from == SN_BF16 ? f32_from_bf16(em, x) : f32_from_narrow(em, from, x);
}

/* What x was before it was widened from that type, in the lanes of `like`; NULL: it was not. */
static lv before_widening(sn_em *em, LLVMTypeKind kind, lv x, lv like) {
    if (!LLVMIsAInstruction(x)) return NULL;
    if (LLVMGetInstructionOpcode(x) == LLVMShuffleVector) { /* one lane in all: a splat */
        lv in = LLVMGetOperand(x, 0);
        bool one = LLVMIsAInsertElementInst(in) && LLVMIsUndef(LLVMGetOperand(in, 0));
        for (uint32_t i = 0; one && i < LLVMGetNumMaskElements(x); i++) one = LLVMGetMaskValue(x, i) == 0;
        lv scalar = one ? before_widening(em, kind, LLVMGetOperand(in, 1), LLVMGetOperand(in, 1)) : NULL;
        return scalar ? sn_em_splat(em, scalar, sn_em_lanes(like)) : NULL;
    }
    LLVMOpcode op = LLVMGetInstructionOpcode(x);
    bool number = op == LLVMSIToFP || op == LLVMUIToFP; /* a byte, perhaps */
    lv in = op == LLVMFPExt || number ? LLVMGetOperand(x, 0) : NULL;
    if (number) {
        bool bytes = LLVMGetIntTypeWidth(sn_em_elem(in)) == 8 && sn_em_lanes(in) % 2 == 0;
        sn_dtype to = kind == LLVMBFloatTypeKind ? SN_BF16 : SN_F16;
        return bytes ? halves_from_bytes(em, to, op == LLVMUIToFP ? SN_U8 : SN_I8, in) : NULL;
    }
    return in && LLVMGetTypeKind(sn_em_elem(in)) == kind ? in : NULL;
}

/* A product of two widened halves, rounded to one: it has no more digits than f32, which has rounded nothing, so that the product of
 * pairs of halves is the same, or nearer where that of f32 is subnormal. NULL: x is none. */
static lv product_of_halves(sn_em *em, sn_dtype to, lv x) {
    LLVMTypeKind kind = to == SN_BF16 ? LLVMBFloatTypeKind : LLVMHalfTypeKind;
    if (!has_pairs(em, to) || sn_em_lanes(x) % 2 || !LLVMIsAInstruction(x)) return NULL;
    if (LLVMGetInstructionOpcode(x) != LLVMFMul) return NULL;
    lv a = before_widening(em, kind, LLVMGetOperand(x, 0), x),
       b = a ? before_widening(em, kind, LLVMGetOperand(x, 1), x) : NULL;
    return b ? em_mul(em, a, b) : NULL;
}

static lv narrowed(sn_em *em, sn_dtype to, lv x) {
    lv product = is_native(em->cg, to) ? product_of_halves(em, to, x) : NULL;
    if (product) return product;
    if (is_native(em->cg, to)) return LLVMBuildFPTrunc(em->b, x, sn_em_like(x, sn_math_type(em->cg, to)), "");
    return to == SN_BF16 ? bf16_from_f32(em, x) : narrow_from_f32(em, to, x);
}

/* ---- casts ---- */

static lv float_cast(sn_em *em, sn_dtype to, sn_dtype from, lv x) {
    if (sn_is_narrow(from)) x = widened(em, from, x), from = SN_F32;
    if (sn_is_narrow(to)) return narrowed(em, to, from == SN_F64 ? f32_to_odd(em, x) : x);
    LLVMTypeRef type = sn_em_like(x, sn_math_type(em->cg, to));
    if (to == from) return x;
    return to == SN_F64 ? LLVMBuildFPExt(em->b, x, type, "") : LLVMBuildFPTrunc(em->b, x, type, "");
}

/* Bits that a mask leaves, few enough for f32 to have them exactly? */
static bool is_few_bits(lv x) {
    enum { EXACT = 1 << 24 };
    if (!LLVMIsAInstruction(x) || LLVMGetInstructionOpcode(x) != LLVMAnd) return false;
    for (unsigned k = 0; k < 2; k++) {
        lv mask = LLVMGetOperand(x, k);
        if (LLVMIsAConstantDataVector(mask)) {
            lv first = LLVMGetAggregateElement(mask, 0);
            for (uint32_t i = 1; i < sn_em_lanes(x) && first; i++)
                if (LLVMGetAggregateElement(mask, i) != first) first = NULL;
            mask = first;
        }
        if (mask && LLVMIsAConstantInt(mask) && LLVMConstIntGetZExtValue(mask) <= EXACT) return true;
    }
    return false;
}

static lv int_to_float(sn_em *em, sn_dtype to, sn_dtype from, lv x) {
    bool pairs = sn_dtype_bytes(from) == 1 && from != SN_BOOL && sn_is_narrow(to) && sn_em_lanes(x) % 2 == 0;
    if (pairs && has_pairs(em, to)) return halves_from_bytes(em, to, from, x);
    /* 64-bit integers reach the narrow floats through f64, to round to odd on the way. */
    sn_dtype via = !sn_is_narrow(to) ? to : sn_dtype_bytes(from) > 4 ? SN_F64 : SN_F32;
    if (sn_is_narrow(to) && (from == SN_I32 || from == SN_U32) && !is_few_bits(x)) via = SN_F64;
    LLVMTypeRef type = sn_em_like(x, sn_math_type(em->cg, via));
    lv y = sn_is_unsigned(from) ? LLVMBuildUIToFP(em->b, x, type, "") : LLVMBuildSIToFP(em->b, x, type, "");
    return float_cast(em, to, via, y);
}

/* Lanes of the CPU, to no more than 32 bits with a sign, or 64: its instruction truncates, and here is what it does not do. LLVM 22
 * makes a scalar conversion and two tests for each lane of llvm.fptosi.sat. */
static lv saturated_lanes(sn_em *em, sn_dtype to, lv x) {
    bool single = LLVMGetTypeKind(sn_em_elem(x)) == LLVMFloatTypeKind, wide = to == SN_I64;
    uint32_t bits = 8 * sn_dtype_bytes(to) - !sn_is_unsigned(to), digits = single ? 24 : 53;
    double low = sn_is_unsigned(to) ? 0 : -ldexp(1, (int)bits), above = ldexp(1, (int)bits);
    bool rounds = bits > digits; /* the largest number of the type is no float */
    double high = above - (rounds ? ldexp(1, (int)(bits - digits)) : 1);
    lv is_number = em_fcmp(em, LLVMRealORD, x, x), least = sn_em_f(em, x, low), most = sn_em_f(em, x, high);
    lv inside = em_select(em, em_fcmp(em, LLVMRealOGT, x, least), x, least);
    inside = em_select(em, em_fcmp(em, LLVMRealOLT, inside, most), inside, most);
    lv y = LLVMBuildFPToSI(em->b, inside, sn_em_like(x, wide ? em->cg->i64 : em->cg->i32), "");
    if (rounds) {
        lv is_above = em_fcmp(em, LLVMRealOGE, x, sn_em_f(em, x, above));
        y = em_select(em, is_above, sn_em_i(em, y, wide ? INT64_MAX : INT32_MAX), y);
    }
    y = em_select(em, is_number, y, sn_em_i(em, y, 0));
    bool whole = wide || to == SN_I32;
    return whole ? y : LLVMBuildTrunc(em->b, y, sn_em_like(x, sn_math_type(em->cg, to)), "");
}

/* Lanes of a GPU to bytes: words, for whose instruction nan is 0, of which two at a time become bytes in one word, the nearest there are.
 * That of f64 has another number for nan. */
static lv packed_bytes(sn_em *em, sn_dtype to, lv x) {
    enum { WORD = 4 };
    const char *pack =
        to == SN_I8 ? "cvt.pack.sat.s8.s32.b32 $0, $1, $2, $3;" : "cvt.pack.sat.u8.s32.b32 $0, $1, $2, $3;";
    uint32_t n = sn_em_lanes(x) / WORD;
    lv all = LLVMGetPoison(sn_em_shape(em->cg->i32, n));
    for (uint32_t i = 0; i < n; i++) {
        lv word = sn_em_ci(em->cg->i32, 0);
        for (uint32_t k = WORD; k > 0; k -= 2) {
            lv in[3] = {NULL, NULL, word};
            for (uint32_t j = 0; j < 2; j++) {
                lv lane = sn_em_lane(em, x, i * WORD + k - 1 - j);
                in[j] = sn_em_call(em, "llvm.nvvm.f2i.rz", NULL, &lane, 1);
            }
            word = sn_em_assembly(em, em->cg->i32, pack, "=r,r,r,r", in, 3);
        }
        all = n > 1 ? sn_em_with_lane(em, all, i, word) : word;
    }
    return em_bitcast(em, all, sn_em_like(x, em->cg->i8));
}

static lv float_to_int(sn_em *em, sn_dtype to, sn_dtype from, lv x) {
    enum { WORD = 4 };
    if (sn_is_narrow(from)) x = widened(em, from, x);
    if (to == SN_BOOL) return em_fcmp(em, LLVMRealUNE, x, sn_em_f(em, x, 0));
    bool fits = sn_dtype_bytes(to) < 4 || to == SN_I32 || to == SN_I64, byte = to == SN_I8 || to == SN_U8;
    if (em->cg->target->is_gpu && byte && from != SN_F64 && sn_em_lanes(x) % WORD == 0) return packed_bytes(em, to, x);
    if (!em->cg->target->is_gpu && sn_em_lanes(x) > 1 && fits) return saturated_lanes(em, to, x);
    const char *name = sn_is_unsigned(to) ? "llvm.fptoui.sat" : "llvm.fptosi.sat";
    LLVMTypeRef types[2] = {sn_em_like(x, sn_math_type(em->cg, to)), LLVMTypeOf(x)};
    unsigned id = LLVMLookupIntrinsicID(name, 15);
    lv fn = LLVMGetIntrinsicDeclaration(em->mod, id, types, 2);
    return LLVMBuildCall2(em->b, LLVMGlobalGetValueType(fn), fn, &x, 1, "");
}

/* Is it x >> 32? */
static bool shifts_by_half(sn_em *em, lv x) {
    if (!LLVMIsAInstruction(x)) return false;
    LLVMOpcode opcode = LLVMGetInstructionOpcode(x);
    return (opcode == LLVMAShr || opcode == LLVMLShr) && LLVMGetOperand(x, 1) == sn_em_i(em, x, 32);
}

/* i32(x >> 32) on the lanes of a GPU: every other half of x. As a shift and a truncation of a product LLVM 22's NVPTX
 * makes mul.hi of it, beside the multiplication for the lower half: two instructions where mul.wide is one. */
static lv upper_halves(sn_em *em, lv x) {
    enum { MOST = 64 };
    lv odd[MOST], wide = LLVMGetOperand(x, 0);
    uint32_t n = sn_em_lanes(x);
    LLVMTypeRef i32 = em->cg->i32;
    SN_ASSERT(n <= MOST);
    for (uint32_t i = 0; i < n; i++) odd[i] = sn_em_ci(i32, 2 * i + 1);
    lv halves = em_bitcast(em, wide, LLVMVectorType(i32, 2 * n));
    return LLVMBuildShuffleVector(em->b, halves, LLVMGetPoison(LLVMTypeOf(halves)), LLVMConstVector(odd, n), "");
}

static lv int_cast(sn_em *em, sn_dtype to, sn_dtype from, lv x) {
    LLVMTypeRef type = sn_em_like(x, sn_math_type(em->cg, to));
    if (to == SN_BOOL) return from == SN_BOOL ? x : em_icmp(em, LLVMIntNE, x, sn_em_i(em, x, 0));
    uint32_t wide = sn_dtype_bytes(to), narrow = from == SN_BOOL ? 0 : sn_dtype_bytes(from);
    if (wide == narrow) return x;
    if (to == SN_I32 && narrow == 8 && em->cg->target->is_gpu && sn_em_lanes(x) > 1 && shifts_by_half(em, x))
        return upper_halves(em, x);
    if (wide < narrow) return LLVMBuildTrunc(em->b, x, type, "");
    return sn_is_unsigned(from) ? LLVMBuildZExt(em->b, x, type, "") : LLVMBuildSExt(em->b, x, type, "");
}

lv sn_math_cast(sn_em *em, sn_dtype to, sn_dtype from, lv x) {
    if (to == from) return x;
    if (sn_is_float(to)) return sn_is_float(from) ? float_cast(em, to, from, x) : int_to_float(em, to, from, x);
    return sn_is_float(from) ? float_to_int(em, to, from, x) : int_cast(em, to, from, x);
}

lv sn_math_bitcast(sn_em *em, sn_dtype to, sn_dtype from, lv x) {
    x = sn_math_to_storage(em, from, x);
    return sn_math_from_storage(em, to, em_bitcast(em, x, sn_em_like(x, sn_math_storage(em->cg, to))));
}

lv sn_math_const(sn_em *em, sn_dtype t, double f, int64_t i) {
    LLVMTypeRef type = sn_math_type(em->cg, t);
    if (!sn_is_float(t)) return sn_em_ci(type, t == SN_BOOL ? i != 0 : i);
    if (!sn_is_narrow(t)) return LLVMConstReal(type, f);
    uint16_t bits = 0;
    sn_store_float(t, &bits, f);
    return LLVMConstBitCast(LLVMConstInt(LLVMIntTypeInContext(em->cg->cx, 8 * sn_dtype_bytes(t)), bits, 0), type);
}
