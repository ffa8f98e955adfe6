/* packed.c: reductions of bytes, several at a time: the lanes of a vector become one, and vectors are combined lane by
 * lane.
 *
 *     the largest of 16 bytes     words of two 16-bit lanes: max(w, w << 8) has the larger of two bytes in each upper half,
 *                                 whatever stands in the lower one; then in pairs
 *     the larger of each pair     max(a, b) is right in the upper bytes, max(a << 8, b << 8) in the lower ones
 *     their sum                   a word times 1, 1, 1, 1, added to the sum of the words before it in the vector (dp4a), which is
 *                                 widened behind the last one: the sums of vectors add up as what they are summed in
 *     is any of them not 0        the or of the words
 *
 * Three or four instructions for four bytes, where one by one each takes as many: memory delivers 18 bytes a cycle to
 * a multiprocessor, which begins 128 instructions. GPUs alone: the vectors of a CPU have bytes. Integers are exact in
 * any order; what is no such reduction, or no whole words, is left to combine.c. Tests that always hold (interior.c)
 * are looked through.
 */
#include "codegen-llvm/gen.h"

enum { WORD = 4 };

static bool is_bytes(lv x) {
    LLVMTypeRef t = LLVMTypeOf(x);
    if (LLVMGetTypeKind(t) != LLVMVectorTypeKind || LLVMGetVectorSize(t) % WORD) return false;
    LLVMTypeRef elem = LLVMGetElementType(t);
    return LLVMGetTypeKind(elem) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(elem) == 8;
}

static lv as_words(sn_em *em, lv x, LLVMTypeRef elem, uint32_t of_bytes) {
    uint32_t n = sn_em_lanes(x) / of_bytes;
    return em_bitcast(em, x, n > 1 ? LLVMVectorType(elem, n) : elem);
}

/* ---- the larger and the smaller ---- */

static bool is_extreme(sn_comb comb) { return comb == SN_COMB_MAX || comb == SN_COMB_MIN; }

/* Is the larger of two pairs of 16 bits an instruction (max.s16x2)? */
static bool has_pairs(sn_gen *g) {
    enum { SM = 90, PTX = 80 };
    if (!g->gpu || g->em.cg->target->sm < SM) return false;
    sn_gen_needs_ptx(g, PTX);
    return true;
}

/* Of two words, 16 bits by 16 bits: an instruction takes two lanes, and LLVM would take longer vectors apart. */
static lv extreme(sn_em *em, sn_comb comb, sn_dtype t, lv x, lv y) {
    bool u = sn_is_unsigned(t);
    const char *name = comb == SN_COMB_MAX ? (u ? "llvm.umax" : "llvm.smax") : (u ? "llvm.umin" : "llvm.smin");
    LLVMTypeRef pair = LLVMVectorType(em->cg->i16, 2);
    return em_bitcast(em, em_call2(em, name, em_bitcast(em, x, pair), em_bitcast(em, y, pair)), em->cg->i32);
}

lv sn_gen_extreme_pair(sn_gen *g, sn_comb comb, sn_dtype t, lv x, lv y) {
    return has_pairs(g) ? extreme(&g->em, comb, t, x, y) : NULL;
}

static lv upwards(sn_em *em, lv word, int64_t bits) { return em_shl(em, word, sn_em_i(em, word, bits)); }

/* Of all lanes. */
static lv extreme_of(sn_em *em, sn_comb comb, sn_dtype t, lv x) {
    lv words = as_words(em, x, em->cg->i32, WORD), all = NULL;
    for (uint32_t i = 0; i < sn_em_lanes(words); i++) {
        lv word = sn_em_lane(em, words, i), both = extreme(em, comb, t, word, upwards(em, word, 8));
        all = all ? extreme(em, comb, t, all, both) : both;
    }
    all = extreme(em, comb, t, all, upwards(em, all, 16));
    return LLVMBuildTrunc(em->b, em_lshr(em, all, sn_em_i(em, all, 24)), em->cg->i8, "");
}

bool sn_gen_combine_bytes(sn_gen *g, sn_comb comb, sn_dtype t, lv *state, lv x) {
    sn_em *em = &g->em;
    if (!is_extreme(comb) || t == SN_BOOL || !is_bytes(*state) || !is_bytes(x) || !has_pairs(g)) return false;
    lv a = as_words(em, *state, em->cg->i32, WORD), b = as_words(em, x, em->cg->i32, WORD),
       all = LLVMGetPoison(LLVMTypeOf(a));
    for (uint32_t i = 0; i < sn_em_lanes(a); i++) {
        lv p = sn_em_lane(em, a, i), q = sn_em_lane(em, b, i), upper = extreme(em, comb, t, p, q);
        lv lower = extreme(em, comb, t, upwards(em, p, 8), upwards(em, q, 8));
        upper = em_and(em, upper, sn_em_i(em, upper, 0xff00ff00));
        lower = em_and(em, em_lshr(em, lower, sn_em_i(em, lower, 8)), sn_em_i(em, lower, 0x00ff00ff));
        lv word = em_or(em, upper, lower);
        all = sn_em_lanes(a) > 1 ? sn_em_with_lane(em, all, i, word) : word;
    }
    *state = em_bitcast(em, all, LLVMTypeOf(x));
    return true;
}

/* ---- sums, any, all ---- */

/* In all lanes. */
static bool always(lv mask) { return mask == LLVMConstAllOnes(LLVMTypeOf(mask)); }

/* What is selected by a test that is a constant; only tests that hold are. */
static lv look_through(lv x) {
    while (LLVMIsASelectInst(x) && always(LLVMGetOperand(x, 0))) x = LLVMGetOperand(x, 1);
    return x;
}

/* What a selection hangs on: one condition, where all lanes have the same one. */
static lv condition_of(sn_em *em, lv select) {
    lv c = LLVMGetOperand(select, 0), in = LLVMIsAShuffleVectorInst(c) ? LLVMGetOperand(c, 0) : NULL;
    bool same = in && LLVMIsAInsertElementInst(in) && LLVMGetNumMaskElements(c) == sn_em_lanes(c);
    for (uint32_t i = 0; same && i < sn_em_lanes(c); i++) same = LLVMGetMaskValue(c, i) == 0;
    return same ? sn_em_lane(em, in, 0) : c;
}

/* The bytes that x is widened from, and whether they have signs; NULL: it is not. What a mask leaves out is 0. */
static lv widened_from(sn_em *em, lv x, bool *is_signed) {
    x = look_through(x);
    if (LLVMIsASelectInst(x) && LLVMIsConstant(LLVMGetOperand(x, 2)) && LLVMIsNull(LLVMGetOperand(x, 2))) {
        lv bytes = widened_from(em, LLVMGetOperand(x, 1), is_signed);
        return bytes ? sn_em_choose(em, condition_of(em, x), bytes, LLVMConstNull(LLVMTypeOf(bytes))) : NULL;
    }
    *is_signed = LLVMIsASExtInst(x) != NULL;
    if (!*is_signed && !LLVMIsAZExtInst(x)) return NULL;
    lv bytes = look_through(LLVMGetOperand(x, 0));
    return is_bytes(bytes) ? bytes : NULL;
}

static lv sum_of(sn_em *em, lv x, LLVMTypeRef wide, bool is_signed) {
    lv words = as_words(em, x, em->cg->i32, WORD), sum = sn_em_ci(em->cg->i32, 0);
    const char *name = is_signed ? "llvm.nvvm.idp4a.s.s" : "llvm.nvvm.idp4a.u.u";
    for (uint32_t i = 0; i < sn_em_lanes(words); i++) {
        lv in[3] = {sn_em_lane(em, words, i), sn_em_ci(em->cg->i32, 0x01010101), sum};
        sum = sn_em_call(em, name, NULL, in, 3);
    }
    if (LLVMGetIntTypeWidth(wide) <= 32) return LLVMBuildTrunc(em->b, sum, wide, "");
    return is_signed ? LLVMBuildSExt(em->b, sum, wide, "") : LLVMBuildZExt(em->b, sum, wide, "");
}

/* The bytes of which x tells that they are not 0. What a mask leaves out is `otherwise`. */
static lv tested_bytes(sn_em *em, lv x, bool otherwise) {
    x = look_through(x);
    lv rest_is = LLVMIsASelectInst(x) ? LLVMGetOperand(x, 2) : NULL;
    if (rest_is && (otherwise ? always(rest_is) : LLVMIsConstant(rest_is) && LLVMIsNull(rest_is))) {
        lv bytes = tested_bytes(em, LLVMGetOperand(x, 1), otherwise);
        if (!bytes) return NULL;
        lv rest = otherwise ? LLVMConstAllOnes(LLVMTypeOf(bytes)) : LLVMConstNull(LLVMTypeOf(bytes));
        return sn_em_choose(em, condition_of(em, x), bytes, rest);
    }
    if (!LLVMIsAICmpInst(x) || LLVMGetICmpPredicate(x) != LLVMIntNE) return NULL;
    lv zero = LLVMGetOperand(x, 1), bytes = look_through(LLVMGetOperand(x, 0));
    return LLVMIsConstant(zero) && LLVMIsNull(zero) && is_bytes(bytes) ? bytes : NULL;
}

static lv any_of(sn_em *em, lv x) {
    lv words = as_words(em, x, em->cg->i32, WORD), all = sn_em_lane(em, words, 0);
    for (uint32_t i = 1; i < sn_em_lanes(words); i++) all = em_or(em, all, sn_em_lane(em, words, i));
    return em_icmp(em, LLVMIntNE, all, sn_em_i(em, all, 0));
}

static lv all_of(sn_em *em, lv x) {
    lv least = extreme_of(em, SN_COMB_MIN, SN_U8, x);
    return em_icmp(em, LLVMIntNE, least, sn_em_i(em, least, 0));
}

bool sn_gen_combine_byte_lanes(sn_gen *g, sn_comb comb, sn_dtype t, lv *state) {
    sn_em *em = &g->em;
    lv x = look_through(*state), bytes = NULL;
    bool is_signed;
    if (!g->gpu) return false;
    if (is_extreme(comb) && is_bytes(x) && t != SN_BOOL && has_pairs(g)) *state = extreme_of(em, comb, t, x);
    else if (comb == SN_COMB_SUM && !sn_is_float(t) && (bytes = widened_from(em, x, &is_signed)))
        *state = sum_of(em, bytes, sn_em_elem(x), is_signed);
    else if (comb == SN_COMB_ANY && (bytes = tested_bytes(em, x, false))) *state = any_of(em, bytes);
    else if (comb == SN_COMB_ALL && (bytes = tested_bytes(em, x, true)) && has_pairs(g)) *state = all_of(em, bytes);
    else return false;
    return true;
}
