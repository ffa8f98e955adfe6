/* posted.c: elements that pass from block to block while a kernel runs (posted buffers, docs/IR.md).
 *
 *     ticket:  one thread: t = atomic add to a counter    block = t mod blocks, round = t div blocks + 1
 *     store:   word[e] = round << 32 | bits                one store of 64 bits
 *     load:    do w = word[e] while w >> 32 != round
 *
 * A word has 32 bits of the element and the number of the launch, and a machine stores and loads 64 aligned bits at
 * once: who sees the number sees the bits, so that nothing else has to be ordered. Elements of 64 bits are two words.
 * Nothing is reset: what a word has from before is the number of an earlier launch, or 0 before the first, and a number
 * comes again after 2^32 launches, when the word has been stored in all of those between. The counter has 64 bits.
 *
 * Blocks are numbered by when they start, not by their place in the grid: a block waits for those with smaller numbers
 * alone, all of which run or are done. The ticket comes after the wait for the grid before this one (kernel.c).
 *
 * Cost: an atomic operation and a barrier a block; a load is one from the L2 cache once the element is there, about a
 * microsecond after its store. Counter and words are kept memory (kept.c). On the host blocks run one after the other and
 * a posted buffer is an array there.
 */
#include "codegen-llvm/gen.h"

static bool is_wide(sn_dtype t) { return sn_dtype_bytes(t) > 4; }

/* ---- once a block ---- */

void sn_gen_make_posted(sn_gen *g) {
    for (uint32_t i = 0; i < g->k->locals.n; i++) {
        sn_buf b = g->k->locals.at[i];
        const sn_buf_rec *r = sn_buf_get(g->m, b);
        if (r->scope != SN_BUF_POSTED) continue;
        uint64_t size = (uint64_t)sn_ix_value(g->m, r->size);
        uint32_t word = g->gpu ? 8 : sn_dtype_bytes(r->dtype);
        if (g->gpu && is_wide(r->dtype)) size *= 2;
        g->memory[b.i] = sn_gen_kept(g, size * word);
    }
}

void sn_gen_ticket(sn_gen *g) {
    sn_em *em = &g->em;
    const sn_cg *cg = em->cg;
    if (!sn_kern_posts(g->m, g->kern)) return;
    lv tickets = sn_gen_kept(g, 8);
    lv number = sn_em_global(em, "sn_block_number", cg->i32, 3, 4), round = sn_em_global(em, "sn_round", cg->i32, 3, 4);
    sn_em_if branch = sn_em_then(em, sn_gen_first_thread(g), "ticket");
    lv t = sn_em_assembly(em, cg->i64, "atom.relaxed.gpu.global.add.u64 $0, [$1], 1;", "=l,l,~{memory}", &tickets, 1);
    lv blocks = sn_em_ci(cg->i64, g->grid);
    LLVMBuildStore(em->b, LLVMBuildTrunc(em->b, LLVMBuildURem(em->b, t, blocks, ""), cg->i32, ""), number);
    lv rounds = LLVMBuildTrunc(em->b, LLVMBuildUDiv(em->b, t, blocks, ""), cg->i32, "");
    LLVMBuildStore(em->b, em_iadd(em, rounds, sn_gen_c32(g, 1)), round);
    sn_em_end(em, &branch);
    sn_gen_barrier(g);
    number = LLVMBuildLoad2(em->b, cg->i32, number, "block");
    g->block = g->block_number = g->index == cg->i32 ? number : LLVMBuildZExt(em->b, number, g->index, "");
    g->round = LLVMBuildLoad2(em->b, cg->i32, round, "round");
}

/* ---- words ---- */

/* Word k of the element with that number. */
static lv word_address(sn_gen *g, const sn_gen_words *w, lv element, uint32_t k) {
    sn_em *em = &g->em;
    uint32_t words = is_wide(w->dtype) ? 2 : 1;
    lv at = em_iadd(em, em_imul(em, element, sn_em_i(em, element, words)), sn_em_i(em, element, k));
    return LLVMBuildGEP2(em->b, em->cg->i64, w->base, &at, 1, "");
}

void sn_gen_put_words(sn_gen *g, const sn_gen_words *w, lv element, lv x) {
    sn_em *em = &g->em;
    const sn_cg *cg = em->cg;
    uint32_t bytes = sn_dtype_bytes(w->dtype);
    lv bits = em_bitcast(em, x, LLVMIntTypeInContext(cg->cx, 8 * bytes));
    lv high = em_shl(em, LLVMBuildZExt(em->b, w->round, cg->i64, ""), sn_em_ci(cg->i64, 32));
    bits = bytes < 8 ? LLVMBuildZExt(em->b, bits, cg->i64, "") : bits;
    for (uint32_t k = 0; k < (bytes < 8 ? 1 : 2); k++) {
        lv low = k ? em_lshr(em, bits, sn_em_ci(cg->i64, 32)) : em_and(em, bits, sn_em_ci(cg->i64, UINT32_MAX));
        lv args[2] = {word_address(g, w, element, k), em_or(em, high, low)};
        sn_em_assembly(em, cg->vd, "st.relaxed.gpu.global.b64 [$0], $1;", "l,l,~{memory}", args, 2);
    }
}

/* 0 where it is not wanted, whose address may be anywhere. */
static lv read_word(sn_gen *g, lv at, lv wanted) {
    lv args[2] = {at, wanted};
    const char *plain = "ld.relaxed.gpu.global.b64 $0, [$1];";
    const char *masked = "mov.b64 $0, 0; @$2 ld.relaxed.gpu.global.b64 $0, [$1];";
    return sn_em_assembly(&g->em, g->em.cg->i64, wanted ? masked : plain,
                          wanted ? "=&l,l,b,~{memory}" : "=l,l,~{memory}", args, wanted ? 2 : 1);
}

/* The words of one element; *there: it has been posted, or nobody wants it. */
static void read_words(sn_gen *g, const sn_gen_words *w, lv element, lv wanted, lv *words, lv *there) {
    sn_em *em = &g->em;
    const sn_cg *cg = em->cg;
    lv here = NULL;
    for (uint32_t k = 0; k < (is_wide(w->dtype) ? 2 : 1); k++) {
        words[k] = read_word(g, word_address(g, w, element, k), wanted);
        lv stored = LLVMBuildTrunc(em->b, em_lshr(em, words[k], sn_em_ci(cg->i64, 32)), cg->i32, "");
        lv same = em_icmp(em, LLVMIntEQ, stored, w->round);
        here = here ? em_and(em, here, same) : same;
    }
    if (wanted) here = em_or(em, here, LLVMBuildNot(em->b, wanted, ""));
    *there = *there ? em_and(em, *there, here) : here;
}

static lv element_of(sn_gen *g, sn_dtype t, const lv *words) {
    sn_em *em = &g->em;
    const sn_cg *cg = em->cg;
    uint32_t bytes = sn_dtype_bytes(t);
    lv bits = words[0];
    if (bytes == 8) {
        lv low = em_and(em, words[0], sn_em_ci(cg->i64, UINT32_MAX));
        bits = em_or(em, em_shl(em, words[1], sn_em_ci(cg->i64, 32)), low);
    } else {
        bits = LLVMBuildTrunc(em->b, bits, LLVMIntTypeInContext(cg->cx, 8 * bytes), "");
    }
    return em_bitcast(em, bits, sn_math_storage(cg, t));
}

void sn_gen_await_words(sn_gen *g, const sn_gen_words *w, const lv *elements, const lv *wanted, uint32_t n, lv *out) {
    sn_em *em = &g->em;
    lv(*words)[2] = (lv(*)[2])SN_NEWN(g->arena, lv, (size_t)n * 2), there = NULL;
    LLVMBasicBlockRef ask = sn_em_block(em, "ask"), wait = sn_em_block(em, "wait"), done = sn_em_block(em, "posted");
    LLVMBuildBr(em->b, ask);
    LLVMPositionBuilderAtEnd(em->b, ask);
    for (uint32_t i = 0; i < n; i++) read_words(g, &w[i], elements[i], wanted[i], words[i], &there);
    LLVMBuildCondBr(em->b, there, done, wait);
    LLVMPositionBuilderAtEnd(em->b, wait);
    sn_em_assembly(em, em->cg->vd, "nanosleep.u32 32;", "~{memory}", NULL, 0);
    LLVMBuildBr(em->b, ask);
    LLVMPositionBuilderAtEnd(em->b, done);
    for (uint32_t i = 0; i < n; i++) out[i] = element_of(g, w[i].dtype, words[i]);
}

/* ---- elements ---- */

static sn_gen_words words_of(const sn_gen *g, sn_buf b) {
    return (sn_gen_words){g->memory[b.i], sn_buf_get(g->m, b)->dtype, g->round};
}

void sn_gen_post(sn_gen *g, sn_buf b, lv element, lv x) {
    sn_gen_words w = words_of(g, b);
    sn_gen_put_words(g, &w, element, x);
}

void sn_gen_await(sn_gen *g, sn_buf b, const lv *elements, const lv *wanted, uint32_t n, lv *out) {
    sn_gen_words w[SN_GEN_LANES];
    for (uint32_t i = 0; i < n; i++) w[i] = words_of(g, b);
    sn_gen_await_words(g, w, elements, wanted, n, out);
}
