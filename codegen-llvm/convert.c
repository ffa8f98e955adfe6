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

static lv widened(sn_em *em, sn_dtype from, lv x) {
    if (is_native(em->cg, from)) return LLVMBuildFPExt(em->b, x, sn_em_like(x, em->cg->f32), "");
    return from == SN_BF16 ? f32_from_bf16(em, x) : f32_from_narrow(em, from, x);
}

static lv narrowed(sn_em *em, sn_dtype to, lv x) {
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

static lv int_to_float(sn_em *em, sn_dtype to, sn_dtype from, lv x) {
    /* 64-bit integers reach the narrow floats through f64, to round to odd on the way. */
    sn_dtype via = !sn_is_narrow(to) ? to : sn_dtype_bytes(from) > 4 ? SN_F64 : SN_F32;
    if (sn_is_narrow(to) && (from == SN_I32 || from == SN_U32)) via = SN_F64;
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
