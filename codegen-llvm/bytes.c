/* bytes.c: arithmetic on lanes that are bytes, the four of a word at a time (GPUs, which have no such lanes).
 *
 *     a + b       the lower seven bits of each byte carry into the eighth at most, which is the exclusive or of what meets there
 *     a - b       the same with the eighth bit set before: there is enough to borrow from
 *     -a, |a|     s has 255 where a < 0, one instruction for a word: (a ^ s) + (s & 1), which carries nowhere
 *     max(a, 0)   a & ~s
 *     max(a, b)   16 bits at a time, as packed.c has it: once for the upper bytes, once for the lower ones
 *     a * b       the words' product has the lowest byte right. For another one, what stands above it does no harm, and what
 *                 stands below it in a is masked, in b shifted out; the sums of bytes that are right are those of the multiplications
 *     a * scalar  bytes 0 and 2, and 1 and 3, have 16 bits each for their products
 *
 * Between one and three instructions for a byte, where one by one each takes as many to come out of a word and to go back into it as to be
 * computed: a multiprocessor begins 64 of them a cycle, in which memory brings it 18 bytes. Two's complement throughout, so that
 * most do not ask for signs. What is no such operation, or no whole words, is math_int.c's.
 */
#include "codegen-llvm/gen.h"

enum { WORD = 4 };

static const int64_t LOWER_BITS = 0x7f7f7f7f, UPPER_BIT = 0x80808080, ONES = 0x01010101, EVEN = 0x00ff00ff,
                     ODD = 0xff00ff00;

/* ---- words ---- */

static bool are_bytes(lv x) { return sn_em_lanes(x) % WORD == 0; }

static lv words_of(sn_em *em, lv x) { return em_bitcast(em, x, sn_em_shape(em->cg->i32, sn_em_lanes(x) / WORD)); }

static lv masked(sn_em *em, lv x, int64_t mask) { return em_and(em, x, sn_em_i(em, x, mask)); }

static lv permuted(sn_em *em, lv x, lv y, int64_t selector) {
    lv all = LLVMGetPoison(LLVMTypeOf(x));
    for (uint32_t i = 0; i < sn_em_lanes(x); i++) {
        lv word = sn_gen_permute(em, sn_em_lane(em, x, i), sn_em_lane(em, y, i), selector);
        all = sn_em_lanes(x) > 1 ? sn_em_with_lane(em, all, i, word) : word;
    }
    return all;
}

/* 255 where a byte is less than 0. */
static lv signs(sn_em *em, lv x) {
    enum { SIGN_OF_EACH = 0xba98 };
    return permuted(em, x, sn_em_i(em, x, 0), SIGN_OF_EACH);
}

/* ---- operations ---- */

static lv sum(sn_em *em, lv a, lv b) {
    lv lower = em_iadd(em, masked(em, a, LOWER_BITS), masked(em, b, LOWER_BITS));
    return em_xor(em, lower, masked(em, em_xor(em, a, b), UPPER_BIT));
}

static lv difference(sn_em *em, lv a, lv b) {
    lv lower = em_isub(em, em_or(em, a, sn_em_i(em, a, UPPER_BIT)), masked(em, b, LOWER_BITS));
    lv unlike = em_xor(em, em_xor(em, a, b), sn_em_i(em, a, -1));
    return em_xor(em, lower, masked(em, unlike, UPPER_BIT));
}

static lv negative(sn_em *em, lv a) { return difference(em, sn_em_i(em, a, 0), a); }

static lv absolute(sn_em *em, lv a) {
    lv s = signs(em, a);
    return em_iadd(em, em_xor(em, a, s), masked(em, s, ONES));
}

/* of byte k, and what is right below it, in one multiplication and one sum. */
static lv product(sn_em *em, lv a, lv b) {
    lv all = masked(em, em_imul(em, a, b), 0xff);
    for (int64_t k = 1; k < WORD; k++) {
        lv byte = em_imul(em, masked(em, a, (int64_t)0xff << 8 * k), em_lshr(em, b, sn_em_i(em, b, 8 * k)));
        all = em_iadd(em, byte, all);
        if (k + 1 < WORD) all = masked(em, all, ((int64_t)1 << 8 * (k + 1)) - 1);
    }
    return all;
}

static lv product_with_one(sn_em *em, lv a, lv one) {
    lv b = sn_em_splat(em, LLVMBuildZExt(em->b, one, em->cg->i32, ""), sn_em_lanes(a));
    lv even = em_imul(em, masked(em, a, EVEN), b), odd = em_imul(em, masked(em, a, ODD), b);
    return em_or(em, masked(em, even, EVEN), masked(em, odd, ODD));
}

/* ---- the larger and the smaller ---- */

static bool is_zero(lv x) { return LLVMIsConstant(x) && LLVMIsNull(x); }

static lv larger(sn_gen *g, bool largest, sn_dtype t, lv a, lv b) {
    lv some = is_zero(a) ? b : a, words;
    if (sn_is_unsigned(t) || (!is_zero(a) && !is_zero(b)))
        return sn_gen_extreme_words(&words, g, largest ? SN_COMB_MAX : SN_COMB_MIN, t, a, b) ? words : NULL;
    lv s = signs(&g->em, some);
    return em_and(&g->em, some, largest ? LLVMBuildNot(g->em.b, s, "") : s);
}

/* ---- everything ---- */

static lv of_words(sn_gen *g, sn_lop op, sn_dtype t, lv a, lv b) {
    switch ((int)op) {
    case SN_LOP_ADD: return sum(&g->em, a, b);
    case SN_LOP_SUB: return difference(&g->em, a, b);
    case SN_LOP_MUL: return product(&g->em, a, b);
    case SN_LOP_NEG: return negative(&g->em, a);
    case SN_LOP_ABS: return sn_is_unsigned(t) ? a : absolute(&g->em, a);
    case SN_LOP_MAX: return larger(g, true, t, a, b);
    case SN_LOP_MIN: return larger(g, false, t, a, b);
    default: return NULL;
    }
}

/* Do lanes stand in words? Those that came one by one, or were made so, would have to be put there first. */
static bool stands_in_words(lv x) {
    return LLVMIsAConstant(x) || LLVMIsALoadInst(x) || LLVMIsABitCastInst(x) || LLVMIsAShuffleVectorInst(x) ||
           LLVMIsAPHINode(x);
}

/* A multiplication of words takes as long as those of its bytes one by one: it pays where none of them has to come out or go in. */
static bool pays(sn_lop op, const lv *in, uint32_t n) {
    uint32_t words = 0;
    for (uint32_t i = 0; i < n; i++) words += stands_in_words(in[i]);
    return op == SN_LOP_MUL ? words == n : words > 0;
}

lv sn_gen_byte_op(sn_gen *g, sn_lop op, sn_dtype t, const lv *in, uint32_t n) {
    sn_em *em = &g->em;
    lv both[2] = {in[0], n > 1 ? in[1] : in[0]};
    if (!g->gpu || n > 2 || (t != SN_I8 && t != SN_U8)) return NULL;
    bool first = sn_em_lanes(both[0]) > 1, second = sn_em_lanes(both[1]) > 1;
    sn_em_unify(em, both, 2);
    if (!(first || second) || !are_bytes(both[0]) || !pays(op, both, n)) return NULL;
    LLVMTypeRef type = LLVMTypeOf(both[0]);
    lv a = words_of(em, both[0]), b = words_of(em, both[1]), x;
    if (op == SN_LOP_MUL && first != second) x = product_with_one(em, first ? a : b, first ? in[1] : in[0]);
    else x = of_words(g, op, t, a, b);
    return x ? em_bitcast(em, x, type) : NULL;
}
