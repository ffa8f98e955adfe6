/* convert.c: element types as LLVM types, and conversions between them.
 *
 * Relies on emit.h. Where the machine cannot convert a 16-bit float it travels as i16 and the conversions here are
 * integer code; rounding is to nearest even everywhere, once. Float to integer truncates and saturates, nan gives 0.
 */
#include "codegen-llvm/math.h"

LLVMTypeRef sn_math_type(const sn_cg *cg, sn_dtype t) {
    switch (t) {
    case SN_F64: return cg->f64;
    case SN_F32: return cg->f32;
    case SN_F16: return cg->f16;
    case SN_BF16: return cg->bf16;
    case SN_I64: return cg->i64;
    case SN_I32: return cg->i32;
    case SN_I16: return cg->i16;
    case SN_I8: return cg->i8;
    case SN_U8: return cg->i8;
    case SN_BOOL: return cg->i1;
    case SN_U16: return cg->i16;
    case SN_U32: return cg->i32;
    case SN_U64: return cg->i64;
    case SN_N_DTYPES: break;
    }
    SN_ASSERT(!"a dtype");
    return NULL;
}

LLVMTypeRef sn_math_storage(const sn_cg *cg, sn_dtype t) { return t == SN_BOOL ? cg->i8 : sn_math_type(cg, t); }

lv sn_math_from_storage(sn_em *em, sn_dtype t, lv x) {
    return t == SN_BOOL ? em_icmp(em, LLVMIntNE, x, sn_em_i(em, x, 0)) : x;
}

lv sn_math_to_storage(sn_em *em, sn_dtype t, lv x) {
    return t == SN_BOOL ? LLVMBuildZExt(em->b, x, sn_em_like(x, em->cg->i8), "") : x;
}

/* ---- 16-bit floats ---- */

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

/* The float with the half's bits shifted into place is off by 2^112 in scale, exactly, subnormals included. */
static lv f32_from_f16(sn_em *em, lv x) {
    lv u = LLVMBuildZExt(em->b, x, sn_em_like(x, em->cg->i32), "");
    lv sign = em_shl(em, em_and(em, u, sn_em_i(em, u, 0x8000)), sn_em_i(em, u, 16));
    lv body = em_and(em, u, sn_em_i(em, u, 0x7fff));
    lv finite = em_mulc(em, sn_em_fbits(em, em_shl(em, body, sn_em_i(em, u, 13))), 0x1p112);
    lv special = em_or(em, em_shl(em, body, sn_em_i(em, u, 13)), sn_em_i(em, u, 0x7f800000));
    lv is_special = em_icmp(em, LLVMIntUGE, body, sn_em_i(em, u, 0x7c00));
    return sn_em_fbits(em, em_or(em, sign, em_select(em, is_special, special, sn_em_ibits(em, finite))));
}

/* Normal halves round like bfloat, on 13 bits. Subnormal ones round by adding a float whose spacing is 2^-24. */
static lv f16_from_f32(sn_em *em, lv x) {
    lv u = sn_em_ibits(em, x);
    lv sign = em_and(em, em_lshr(em, u, sn_em_i(em, u, 16)), sn_em_i(em, u, 0x8000));
    lv body = em_and(em, u, sn_em_i(em, u, 0x7fffffff)), a = sn_em_fbits(em, body);
    lv odd = em_and(em, em_lshr(em, body, sn_em_i(em, u, 13)), sn_em_i(em, u, 1));
    lv shifted = em_iadd(em, body, em_iadd(em, odd, sn_em_i(em, u, 0xfff - (112 << 23))));
    lv normal = em_lshr(em, shifted, sn_em_i(em, u, 13));
    lv tiny = em_isub(em, sn_em_ibits(em, em_addc(em, a, 0.5)), sn_em_i(em, u, 0x3f000000));
    lv bits = em_select(em, em_less(em, a, 0x1p-14), tiny, normal);
    bits = em_select(em, em_fcmp(em, LLVMRealOGE, a, sn_em_f(em, a, 65520)), sn_em_i(em, u, 0x7c00), bits);
    bits = em_select(em, em_fcmp(em, LLVMRealUNO, x, x), sn_em_i(em, u, 0x7e00), bits);
    return LLVMBuildTrunc(em->b, em_or(em, bits, sign), sn_em_like(x, em->cg->i16), "");
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

static lv half_to_f32(sn_em *em, sn_dtype from, lv x) {
    bool native = from == SN_F16 ? em->cg->has_f16 : em->cg->has_bf16;
    if (native) return LLVMBuildFPExt(em->b, x, sn_em_like(x, em->cg->f32), "");
    return from == SN_F16 ? f32_from_f16(em, x) : f32_from_bf16(em, x);
}

static lv half_from_f32(sn_em *em, sn_dtype to, lv x) {
    bool native = to == SN_F16 ? em->cg->has_f16 : em->cg->has_bf16;
    if (native) return LLVMBuildFPTrunc(em->b, x, sn_em_like(x, sn_math_type(em->cg, to)), "");
    return to == SN_F16 ? f16_from_f32(em, x) : bf16_from_f32(em, x);
}

/* ---- casts ---- */

static bool is_half(sn_dtype t) { return t == SN_F16 || t == SN_BF16; }

static lv float_cast(sn_em *em, sn_dtype to, sn_dtype from, lv x) {
    if (is_half(from)) x = half_to_f32(em, from, x), from = SN_F32;
    if (is_half(to)) return half_from_f32(em, to, from == SN_F64 ? f32_to_odd(em, x) : x);
    LLVMTypeRef type = sn_em_like(x, sn_math_type(em->cg, to));
    if (to == from) return x;
    return to == SN_F64 ? LLVMBuildFPExt(em->b, x, type, "") : LLVMBuildFPTrunc(em->b, x, type, "");
}

static lv int_to_float(sn_em *em, sn_dtype to, sn_dtype from, lv x) {
    /* 64-bit integers reach the 16-bit floats through f64, to round to odd on the way. */
    sn_dtype via = !is_half(to) ? to : sn_dtype_bytes(from) > 4 ? SN_F64 : SN_F32;
    if (is_half(to) && (from == SN_I32 || from == SN_U32)) via = SN_F64;
    LLVMTypeRef type = sn_em_like(x, sn_math_type(em->cg, via));
    lv y = sn_is_unsigned(from) ? LLVMBuildUIToFP(em->b, x, type, "") : LLVMBuildSIToFP(em->b, x, type, "");
    return float_cast(em, to, via, y);
}

static lv float_to_int(sn_em *em, sn_dtype to, sn_dtype from, lv x) {
    if (is_half(from)) x = half_to_f32(em, from, x);
    if (to == SN_BOOL) return em_fcmp(em, LLVMRealUNE, x, sn_em_f(em, x, 0));
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
    if (!is_half(t)) return LLVMConstReal(type, f);
    uint16_t bits;
    sn_store_float(t, &bits, f);
    return LLVMConstBitCast(LLVMConstInt(em->cg->i16, bits, 0), type);
}
