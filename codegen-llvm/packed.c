/* packed.c: reductions of bytes, several at a time: the lanes of a vector become one, vectors are combined lane by
 * lane, and rows of vectors become one.
 *
 *     the largest of 16 bytes     words of two 16-bit lanes: max(w, w << 8) has the larger of two bytes in each upper half,
 *                                 whatever stands in the lower one; then in pairs
 *     the larger of each pair     max(a, b) is right in the upper bytes, max(a << 8, b << 8) in the lower ones
 *     their sum                   a word times 1, 1, 1, 1, added to the sum of the words before it in the vector (dp4a), which is
 *                                 widened behind the last one: the sums of vectors add up as what they are summed in
 *     their product               bytes 0 and 1 of a word, and 2 and 3, by dp4a of the word and what has the second one in the place of the
 *                                 first; both in 32 bits, which hold it, words in as many as the result has
 *     is any of them not 0        the or of the words; of halves without their signs
 *
 *     the sum of rows, by columns  bytes 0 and 2 of a word, and 1 and 3, are added as 16 bits each, without signs (128 more), and
 *                                 widened behind the last row; products of two rows by dp4a, with one byte of the second
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

lv sn_gen_permute(sn_em *em, lv x, lv y, int64_t selector) {
    lv in[3] = {x, y, sn_em_ci(em->cg->i32, selector)};
    return sn_em_call(em, "llvm.nvvm.prmt", NULL, in, 3);
}

bool sn_gen_extreme_words(lv *out, sn_gen *g, sn_comb comb, sn_dtype t, lv a, lv b) {
    enum { UPPER_OF_BOTH = 0x7351 };
    sn_em *em = &g->em;
    if (!has_pairs(g)) return false;
    lv all = LLVMGetPoison(LLVMTypeOf(a));
    for (uint32_t i = 0; i < sn_em_lanes(a); i++) {
        lv x = sn_em_lane(em, a, i), y = sn_em_lane(em, b, i), upper = extreme(em, comb, t, x, y);
        lv lower = extreme(em, comb, t, upwards(em, x, 8), upwards(em, y, 8));
        lv word = sn_gen_permute(em, lower, upper, UPPER_OF_BOTH);
        all = sn_em_lanes(a) > 1 ? sn_em_with_lane(em, all, i, word) : word;
    }
    *out = all;
    return true;
}

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
    if (!is_extreme(comb) || t == SN_BOOL || !is_bytes(*state) || !is_bytes(x)) return false;
    lv a = as_words(em, *state, em->cg->i32, WORD), b = as_words(em, x, em->cg->i32, WORD), all;
    if (!sn_gen_extreme_words(&all, g, comb, t, a, b)) return false;
    *state = em_bitcast(em, all, LLVMTypeOf(x));
    return true;
}

/* ---- sums, products, any, all ---- */

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

/* The bytes that x is widened from, and whether they have signs; NULL: it is not. What a mask leaves out is `rest`. */
static lv widened_from(sn_em *em, lv x, int64_t rest, bool *is_signed) {
    x = look_through(x);
    if (LLVMIsASelectInst(x) && LLVMGetOperand(x, 2) == sn_em_i(em, x, rest)) {
        lv bytes = widened_from(em, LLVMGetOperand(x, 1), rest, is_signed);
        return bytes ? sn_em_choose(em, condition_of(em, x), bytes, sn_em_i(em, bytes, rest)) : NULL;
    }
    *is_signed = LLVMIsASExtInst(x) != NULL;
    if (!*is_signed && !LLVMIsAZExtInst(x)) return NULL;
    lv bytes = look_through(LLVMGetOperand(x, 0));
    return is_bytes(bytes) ? bytes : NULL;
}

lv sn_gen_widened_halves(sn_em *em, lv x, double rest) {
    x = look_through(x);
    if (LLVMIsASelectInst(x) && LLVMGetOperand(x, 2) == sn_em_f(em, x, rest)) {
        lv halves = sn_gen_widened_halves(em, LLVMGetOperand(x, 1), rest);
        return halves ? sn_em_choose(em, condition_of(em, x), halves, sn_em_f(em, halves, rest)) : NULL;
    }
    if (!LLVMIsAFPExtInst(x)) return NULL;
    lv halves = look_through(LLVMGetOperand(x, 0));
    LLVMTypeKind kind = LLVMGetTypeKind(sn_em_elem(halves));
    bool half = kind == LLVMHalfTypeKind || kind == LLVMBFloatTypeKind;
    return half && sn_em_lanes(halves) % 2 == 0 ? halves : NULL;
}

static lv extended(sn_em *em, lv x, LLVMTypeRef to, bool is_signed) {
    return is_signed ? LLVMBuildSExt(em->b, x, to, "") : LLVMBuildZExt(em->b, x, to, "");
}

/* sum + the products of the bytes of two words (dp4a). */
static lv add_products(sn_em *em, lv x, lv y, lv sum, bool is_signed) {
    lv in[3] = {x, y, sum};
    return sn_em_call(em, is_signed ? "llvm.nvvm.idp4a.s.s" : "llvm.nvvm.idp4a.u.u", NULL, in, 3);
}

static lv sum_of(sn_em *em, lv x, LLVMTypeRef wide, bool is_signed) {
    lv words = as_words(em, x, em->cg->i32, WORD), sum = sn_em_ci(em->cg->i32, 0);
    for (uint32_t i = 0; i < sn_em_lanes(words); i++)
        sum = add_products(em, sn_em_lane(em, words, i), sn_em_ci(em->cg->i32, 0x01010101), sum, is_signed);
    if (LLVMGetIntTypeWidth(wide) <= 32) return LLVMBuildTrunc(em->b, sum, wide, "");
    return extended(em, sum, wide, is_signed);
}

/* Of four products all but one are with 0: bytes need not come out of words to be multiplied. */
static lv bytes_times(sn_em *em, lv word, lv others, bool is_signed) {
    return add_products(em, word, others, sn_em_ci(em->cg->i32, 0), is_signed);
}

/* The product of n words of 32 bits, each of which holds that of up to four bytes: of two words in one multiplication, from there on as wide
 * as the result. In pairs, which do not wait for each other. */
static lv product_of_words(sn_em *em, lv *x, uint32_t n, LLVMTypeRef wide, bool is_signed) {
    uint32_t bits = LLVMGetIntTypeWidth(wide);
    for (uint32_t i = 0; i < n && bits > 32; i++) x[i] = extended(em, x[i], wide, is_signed);
    for (; n > 1; n = (n + 1) / 2)
        for (uint32_t i = 0; i < n; i += 2) x[i / 2] = i + 1 < n ? em_imul(em, x[i], x[i + 1]) : x[i];
    return bits < 32 ? LLVMBuildTrunc(em->b, x[0], wide, "") : x[0];
}

/* Of all lanes. */
static lv product_of(sn_em *em, lv x, LLVMTypeRef wide, bool is_signed) {
    enum { MOST_WORDS = 64 };
    static const int64_t SECOND[2] = {0x4441, 0x4344}; /* bytes 1 and 3 where bytes 0 and 2 are, and zeros */
    lv words = as_words(em, x, em->cg->i32, WORD), all[MOST_WORDS];
    uint32_t n = sn_em_lanes(words);
    SN_ASSERT(n <= MOST_WORDS);
    for (uint32_t i = 0; i < n; i++) {
        lv word = sn_em_lane(em, words, i), pair[2];
        for (uint32_t k = 0; k < 2; k++) {
            lv second = sn_gen_permute(em, word, sn_em_ci(em->cg->i32, 0), SECOND[k]);
            pair[k] = bytes_times(em, word, second, is_signed);
        }
        all[i] = em_imul(em, pair[0], pair[1]);
    }
    return product_of_words(em, all, n, wide, is_signed);
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

/* Words that are 0 where x, which tells of each lane of halves that it is not 0, says so of none: all bits but the signs. */
static lv tested_halves(sn_em *em, lv x) {
    x = look_through(x);
    lv rest_is = LLVMIsASelectInst(x) ? LLVMGetOperand(x, 2) : NULL;
    if (rest_is && LLVMIsConstant(rest_is) && LLVMIsNull(rest_is)) {
        lv words = tested_halves(em, LLVMGetOperand(x, 1)), one = condition_of(em, x);
        bool same = LLVMGetTypeKind(LLVMTypeOf(one)) != LLVMVectorTypeKind;
        return words && same ? em_select(em, one, words, LLVMConstNull(LLVMTypeOf(words))) : NULL;
    }
    if (!LLVMIsAFCmpInst(x) || LLVMGetFCmpPredicate(x) != LLVMRealUNE) return NULL;
    lv zero = LLVMGetOperand(x, 1), wide = look_through(LLVMGetOperand(x, 0));
    if (!LLVMIsConstant(zero) || !LLVMIsNull(zero) || !LLVMIsAFPExtInst(wide)) return NULL;
    lv halves = look_through(LLVMGetOperand(wide, 0));
    LLVMTypeRef t = LLVMTypeOf(halves);
    if (LLVMGetTypeKind(t) != LLVMVectorTypeKind || LLVMGetVectorSize(t) % 2) return NULL;
    lv words = as_words(em, halves, em->cg->i32, 2);
    return em_and(em, words, sn_em_i(em, words, 0x7fff7fff));
}

static lv any_word(sn_em *em, lv words) {
    lv all = sn_em_lane(em, words, 0);
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
    else if (comb == SN_COMB_SUM && !sn_is_float(t) && (bytes = widened_from(em, x, 0, &is_signed)))
        *state = sum_of(em, bytes, sn_em_elem(x), is_signed);
    else if (comb == SN_COMB_PROD && !sn_is_float(t) && (bytes = widened_from(em, x, 1, &is_signed)))
        *state = product_of(em, bytes, sn_em_elem(x), is_signed);
    else if (comb == SN_COMB_ANY && (bytes = tested_bytes(em, x, false)))
        *state = any_word(em, as_words(em, bytes, em->cg->i32, WORD));
    else if (comb == SN_COMB_ANY && (bytes = tested_halves(em, x))) *state = any_word(em, bytes);
    else if (comb == SN_COMB_ALL && (bytes = tested_bytes(em, x, true)) && has_pairs(g)) *state = all_of(em, bytes);
    else return false;
    return true;
}

/* ---- rows ---- */

enum { BIAS = 128, MOST_ROWS = 256 };

/* The sums of n rows of bytes as vectors of 32 bits. */
static lv sum_of_rows(sn_em *em, const lv *rows, uint32_t n, bool is_signed) {
    uint32_t lanes = sn_em_lanes(rows[0]);
    lv all = LLVMGetPoison(LLVMVectorType(em->cg->i32, lanes));
    for (uint32_t w = 0; w < lanes / WORD; w++) {
        lv halves[2] = {NULL, NULL};
        for (uint32_t i = 0; i < n; i++) {
            lv word = sn_em_lane(em, as_words(em, rows[i], em->cg->i32, WORD), w);
            if (is_signed) word = em_xor(em, word, sn_em_i(em, word, 0x80808080));
            for (uint32_t k = 0; k < 2; k++) {
                lv pair = em_and(em, k ? em_lshr(em, word, sn_em_i(em, word, 8)) : word, sn_em_i(em, word, 0x00ff00ff));
                halves[k] = halves[k] ? em_iadd(em, halves[k], pair) : pair;
            }
        }
        for (uint32_t k = 0; k < WORD; k++) {
            lv pair = halves[k % 2],
               sum = k < 2 ? em_and(em, pair, sn_em_i(em, pair, 0xffff)) : em_lshr(em, pair, sn_em_i(em, pair, 16));
            if (is_signed) sum = em_isub(em, sum, sn_em_i(em, sum, (int64_t)BIAS * n));
            all = sn_em_with_lane(em, all, w * WORD + k, sum);
        }
    }
    return all;
}

/* The product of byte k of word w of two rows; of one, the byte. */
static lv product_of_two(sn_em *em, const lv *rows, uint32_t n, uint32_t w, uint32_t k, bool is_signed) {
    lv word[2];
    for (uint32_t i = 0; i < 2 && i < n; i++) word[i] = sn_em_lane(em, as_words(em, rows[i], em->cg->i32, WORD), w);
    if (n < 2) return bytes_times(em, word[0], sn_em_ci(em->cg->i32, (int64_t)1 << 8 * k), is_signed);
    return bytes_times(em, word[0], em_and(em, word[1], sn_em_i(em, word[1], (int64_t)0xff << 8 * k)), is_signed);
}

/* Products of n rows of bytes, by columns. */
static lv product_of_rows(sn_gen *g, const lv *rows, uint32_t n, bool is_signed, LLVMTypeRef wide) {
    sn_em *em = &g->em;
    uint32_t lanes = sn_em_lanes(rows[0]);
    lv all = LLVMGetPoison(wide), *parts = SN_NEWN(g->arena, lv, n);
    for (uint32_t c = 0; c < lanes; c++) {
        uint32_t n_parts = 0;
        for (uint32_t i = 0; i < n; i += WORD) {
            lv part = product_of_two(em, rows + i, n - i, c / WORD, c % WORD, is_signed);
            if (i + 2 < n)
                part = em_imul(em, part, product_of_two(em, rows + i + 2, n - i - 2, c / WORD, c % WORD, is_signed));
            parts[n_parts++] = part;
        }
        all = sn_em_with_lane(em, all, c, product_of_words(em, parts, n_parts, LLVMGetElementType(wide), is_signed));
    }
    return all;
}

/* Bytes that are not 0 where one of two is not, or where none of them is 0. */
static lv bytes_of_both(sn_gen *g, bool any, lv x, lv y) {
    sn_em *em = &g->em;
    LLVMTypeRef word = em->cg->i32;
    if (any) return em_bitcast(em, em_or(em, as_words(em, x, word, WORD), as_words(em, y, word, WORD)), LLVMTypeOf(x));
    sn_gen_combine_bytes(g, SN_COMB_MIN, SN_U8, &x, y);
    return x;
}

/* Is some byte of each column not 0 (any), or all of them? */
static lv test_of_rows(sn_gen *g, const lv *rows, uint32_t n, bool any) {
    lv all = rows[0];
    for (uint32_t i = 1; i < n; i++) all = bytes_of_both(g, any, all, rows[i]);
    return em_icmp(&g->em, LLVMIntNE, all, sn_em_i(&g->em, all, 0));
}

/* Tests are not looked into: few of those of columns are of anything else. */
bool sn_gen_may_be_byte_rows(const sn_gen *g, const sn_stmt_rec *s, const sn_gen_states *st, uint32_t c) {
    sn_comb comb = st->combs[c];
    if (!g->gpu || g->lanes <= 1 || sn_is_float(st->dtypes[st->first[c]])) return false;
    if (comb == SN_COMB_ANY || comb == SN_COMB_ALL) return true;
    if (comb != SN_COMB_SUM && comb != SN_COMB_PROD) return false;
    sn_val v = sn_stmt_get(g->m, s->last)->in[st->first[c]];
    const sn_stmt_rec *r = sn_stmt_get(g->m, sn_val_get(g->m, v)->def);
    while (r->op == SN_LOP_SELECT) r = sn_stmt_get(g->m, sn_val_get(g->m, r->in[1])->def);
    return r->op == SN_LOP_CAST && sn_dtype_bytes(sn_val_get(g->m, r->in[0])->dtype) == 1;
}

bool sn_gen_combine_byte_rows(sn_gen *g, sn_comb comb, sn_dtype t, const lv *x, uint32_t n, lv *state) {
    sn_em *em = &g->em;
    bool test = comb == SN_COMB_ANY || comb == SN_COMB_ALL, is_signed = false, first = false;
    if (!g->gpu || sn_is_float(t) || n < 2 || n > MOST_ROWS || (comb != SN_COMB_SUM && comb != SN_COMB_PROD && !test))
        return false;
    if (comb == SN_COMB_ALL && !has_pairs(g)) return false;
    lv *rows = SN_NEWN(g->arena, lv, n);
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = test ? tested_bytes(em, x[i], comb == SN_COMB_ALL)
                       : widened_from(em, x[i], comb == SN_COMB_PROD, &is_signed);
        if (!rows[i] || (i && (is_signed != first || LLVMTypeOf(rows[i]) != LLVMTypeOf(rows[0])))) return false;
        first = is_signed;
    }
    LLVMTypeRef wide = LLVMTypeOf(x[0]);
    if (!test && LLVMGetIntTypeWidth(LLVMGetElementType(wide)) < 32) return false;
    if (test) *state = test_of_rows(g, rows, n, comb == SN_COMB_ANY);
    else if (comb == SN_COMB_PROD) *state = product_of_rows(g, rows, n, is_signed, wide);
    else *state = LLVMBuildSExt(em->b, sum_of_rows(em, rows, n, is_signed), wide, "");
    return true;
}

/* ---- tests of columns, from iteration to iteration ---- */

bool sn_gen_tests_bytes(sn_gen *g, const sn_gen_states *st) {
    bool one = st->n_combs == 1 && g->gpu && g->lanes > 1 && g->lanes % WORD == 0 && !g->apart;
    return one && (st->combs[0] == SN_COMB_ANY || (st->combs[0] == SN_COMB_ALL && has_pairs(g)));
}

lv sn_gen_tested_none(sn_gen *g, sn_comb comb) {
    LLVMTypeRef bytes = LLVMVectorType(g->em.cg->i8, g->lanes);
    return comb == SN_COMB_ANY ? LLVMConstNull(bytes) : LLVMConstAllOnes(bytes);
}

lv sn_gen_tested_next(sn_gen *g, sn_comb comb, lv state, lv x) {
    sn_em *em = &g->em;
    lv bytes = tested_bytes(em, x, comb == SN_COMB_ALL);
    if (!bytes || LLVMTypeOf(bytes) != LLVMTypeOf(state))
        bytes = LLVMBuildSExt(em->b, sn_em_splat(em, x, g->lanes), LLVMTypeOf(state), "");
    return bytes_of_both(g, comb == SN_COMB_ANY, state, bytes);
}

lv sn_gen_tested_all(sn_gen *g, lv state) { return em_icmp(&g->em, LLVMIntNE, state, sn_em_i(&g->em, state, 0)); }

/* ---- sums of columns, from iteration to iteration ---- */

static bool is_zero(sn_gen *g, sn_val v) {
    const sn_stmt_rec *r = sn_stmt_get(g->m, sn_val_get(g->m, v)->def);
    return r->op == SN_LOP_CONST && !sn_is_float(r->dtype) && r->i == 0;
}

/* Is v made of bytes that are widened, and of zeros where a test does not hold, so many in all as 32 bits hold the sum of? */
static bool is_short_sum(sn_gen *g, sn_val v, int64_t count) {
    enum { MOST = INT32_MAX / UINT8_MAX };
    for (;;) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, sn_val_get(g->m, v)->def);
        if (r->op == SN_LOP_SELECT && is_zero(g, r->in[2])) v = r->in[1];
        else if (r->op == SN_LOP_REDUCE && r->n_combs == 1 && r->combs[0] == SN_COMB_SUM) {
            int64_t n = sn_gen_extent(g, r->axis);
            if (n < 0 || n > MOST || (count *= n) > MOST) return false;
            v = sn_stmt_get(g->m, r->last)->in[0];
        } else {
            sn_dtype from = r->op == SN_LOP_CAST ? sn_val_get(g->m, r->in[0])->dtype : SN_F32;
            return sn_dtype_bytes(from) == 1 && !sn_is_float(from) && count <= MOST;
        }
    }
}

bool sn_gen_sums_bytes(sn_gen *g, const sn_stmt_rec *s, const sn_gen_states *st) {
    int64_t n = sn_gen_extent(g, s->axis);
    bool wide = st->n_combs == 1 && st->combs[0] == SN_COMB_SUM && (st->dtypes[0] == SN_I64 || st->dtypes[0] == SN_U64);
    return g->gpu && g->lanes > 1 && !g->apart && wide && n > 0 &&
           is_short_sum(g, sn_stmt_get(g->m, s->last)->in[0], n);
}

lv sn_gen_summed_none(sn_gen *g) { return LLVMConstNull(LLVMVectorType(g->em.cg->i32, g->lanes)); }

lv sn_gen_summed_next(sn_gen *g, lv state, lv x) {
    return em_iadd(&g->em, state, LLVMBuildTrunc(g->em.b, sn_em_splat(&g->em, x, g->lanes), LLVMTypeOf(state), ""));
}

lv sn_gen_summed_all(sn_gen *g, lv state) {
    return LLVMBuildSExt(g->em.b, state, LLVMVectorType(g->em.cg->i64, g->lanes), "");
}
