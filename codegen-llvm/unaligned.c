/* unaligned.c: vectors of elements that lie anywhere: from the aligned pieces around them, moved into place.
 *
 *     bytes     | . . . . . a b c | d e f g h i j k | l m n o p . . . |     two pieces of 16 bytes, or one more than the vector has
 *     words     by 8 and by 4 bytes: a selection; by less: funnel shifts
 *     vector    | a b c d e f g h   i j k l m n o p |
 *
 * Two loads and about twenty instructions for 16 bytes that would take 16 loads of a byte; the second piece is the first one of a
 * neighbour. A piece is aligned as memory is: storage that starts anywhere has its first bytes behind a multiple of a piece.
 * Vectors whose pieces reach over an end of the storage are read element by element, of which those outside, that nobody wants,
 * are others inside. Where the place is `near`, nobody looks: tiles with `runs` are bound so that the pieces of what they want lie inside
 * (passes/schedule/moves/tile.c), and frontend/compile.c takes that word from kernels whose text says that they are. Of odd columns (`words`,
 * passes/schedule/rows/outer_odd.c) the words around the vector are loaded one by one instead, by one address: of several rows on their way pieces
 * would be as many addresses, and selections that ptxas has wait for one another.
 *
 * A place (sn_gen_place) says where such a vector is. Places of one dtype can be chosen from before anything is loaded: of the
 * parts of a concatenation one is.
 */
#include "codegen-llvm/gen.h"

enum { PIECE = 16, WORD = 4, WORDS = 2 * SN_GEN_LANES };

/* ---- whole words ---- */

/* Does x stand in 32-bit registers that it fills, several lanes in each? */
static bool is_packed(lv x) {
    LLVMTypeKind kind = LLVMGetTypeKind(sn_em_elem(x));
    bool half = kind == LLVMHalfTypeKind || kind == LLVMBFloatTypeKind;
    uint32_t bits = half ? 16 : kind == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(sn_em_elem(x)) : 32;
    return (bits == 8 || bits == 16) && bits * sn_em_lanes(x) % 32 == 0;
}

static lv words_of(sn_gen *g, lv x, uint32_t bits) {
    return em_bitcast(&g->em, x, sn_em_shape(g->em.cg->i32, bits * sn_em_lanes(x) / 32));
}

static uint32_t packed_bits(lv x) {
    LLVMTypeRef t = sn_em_elem(x);
    return LLVMGetTypeKind(t) == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(t) : 16;
}

/* x where the scalar holds, else y. */
static lv choose(sn_gen *g, lv cond, lv x, lv y) {
    lv in[2] = {x, y};
    sn_em_unify(&g->em, in, 2);
    if (!is_packed(in[0])) return em_select(&g->em, cond, in[0], in[1]);
    uint32_t bits = packed_bits(in[0]);
    lv z = em_select(&g->em, cond, words_of(g, in[0], bits), words_of(g, in[1], bits));
    return em_bitcast(&g->em, z, LLVMTypeOf(in[0]));
}

lv sn_gen_join_runs(sn_gen *g, lv x, lv y, lv start) {
    sn_em *em = &g->em;
    uint32_t lanes = sn_em_lanes(x);
    lv all[SN_GEN_LANES], from = LLVMBuildTruncOrBitCast(em->b, start, em->cg->i32, "");
    if (!is_packed(x)) {
        for (uint32_t i = 0; i < lanes; i++) all[i] = sn_em_ci(em->cg->i32, i);
        lv before = em_icmp(em, LLVMIntULT, LLVMConstVector(all, lanes), sn_em_splat(em, from, lanes));
        return em_select(em, before, x, y);
    }
    uint32_t bits = packed_bits(x), n = bits * lanes / 32;
    lv a = words_of(g, x, bits), b = words_of(g, y, bits), out = LLVMGetPoison(sn_em_shape(em->cg->i32, n));
    lv bit = em_imul(em, from, sn_em_i(em, from, bits)), word = em_lshr(em, bit, sn_em_i(em, bit, 5));
    lv one = sn_em_i(em, bit, 1), low = em_isub(em, em_shl(em, one, em_and(em, bit, sn_em_i(em, bit, 31))), one);
    for (uint32_t i = 0; i < n; i++) {
        lv at = sn_em_i(em, word, i), none = sn_em_i(em, word, 0), full = sn_em_i(em, word, -1);
        lv inside = em_select(em, em_icmp(em, LLVMIntEQ, word, at), low, none);
        lv mask = em_select(em, em_icmp(em, LLVMIntUGT, word, at), full, inside);
        lv u = sn_em_lane(em, a, i), v = sn_em_lane(em, b, i);
        lv w = em_or(em, em_and(em, u, mask), em_and(em, v, em_xor(em, mask, full)));
        out = n > 1 ? sn_em_with_lane(em, out, i, w) : w;
    }
    return em_bitcast(em, out, LLVMTypeOf(x));
}

/* ---- pieces ---- */

typedef struct pieces {
    const sn_gen_place *p;
    uint32_t piece, n, words, wanted; /* bytes of a piece; pieces; words of all of them, of the vector */
    lv at;                            /* bytes to lane 0 */
    lv word[WORDS];
} pieces;

static lv at_byte(sn_gen *g, const pieces *ps, lv offset) {
    return LLVMBuildGEP2(g->em.b, g->em.cg->i8, ps->p->base, &offset, 1, "");
}

static lv load_words_at(sn_gen *g, const pieces *ps, lv at, uint32_t n, uint32_t align) {
    sn_em *em = &g->em;
    lv x = LLVMBuildLoad2(em->b, sn_em_shape(em->cg->i32, n), at, "");
    LLVMSetAlignment(x, align);
    if (g->gpu && ps->p->steady && !g->waits_late) {
        LLVMMetadataRef node = LLVMMDNodeInContext2(em->cg->cx, NULL, 0);
        LLVMSetMetadata(x, LLVMGetMDKindIDInContext(em->cg->cx, "invariant.load", 14),
                        LLVMMetadataAsValue(em->cg->cx, node));
    }
    return x;
}

static void load_piece(sn_gen *g, pieces *ps, uint32_t k, lv number) {
    sn_em *em = &g->em;
    uint32_t each = ps->piece / WORD;
    lv at = at_byte(g, ps, em_shl(em, number, sn_em_i(em, number, __builtin_ctz(ps->piece))));
    lv x = load_words_at(g, ps, at, each, ps->piece);
    for (uint32_t i = 0; i < each; i++) ps->word[k * each + i] = sn_em_lane(em, x, i);
}

/* Word i becomes the one that lies `at` mod the piece further on. */
static void move_words(sn_gen *g, pieces *ps) {
    sn_em *em = &g->em;
    if (ps->p->granule >= ps->piece) return;
    bool bytewise = ps->p->granule < WORD;
    lv by = LLVMBuildTruncOrBitCast(em->b, ps->at, em->cg->i32, "");
    for (uint32_t half = ps->piece / 2; half >= WORD; half /= 2) {
        uint32_t far = half / WORD, n = ps->wanted + bytewise + far - 1;
        if (ps->p->granule > half) continue;
        lv bit = em_and(em, by, sn_em_i(em, by, half)), set = em_icmp(em, LLVMIntNE, bit, sn_em_i(em, by, 0));
        for (uint32_t i = 0; i < n && i + far < ps->words; i++)
            ps->word[i] = em_select(em, set, ps->word[i + far], ps->word[i]);
    }
    lv bits = em_shl(em, by, sn_em_i(em, by, 3));
    for (uint32_t i = 0; i < ps->wanted && bytewise; i++) {
        lv in[3] = {ps->word[i + 1], ps->word[i], bits};
        ps->word[i] = sn_em_call(em, "llvm.fshr", em->cg->i32, in, 3);
    }
}

/* Vectors that reach over an end of the storage: unit by unit from the last one on, in which lanes outside read others inside. */
static void load_units(sn_gen *g, const pieces *ps, lv *out) {
    sn_em *em = &g->em;
    uint32_t bytes = sn_dtype_bytes(ps->p->dtype), unit = bytes < WORD ? bytes : WORD, n = ps->wanted;
    LLVMTypeRef type = LLVMIntTypeInContext(em->cg->cx, 8 * unit);
    lv phis[WORDS], zero = sn_em_i(em, ps->at, 0), most = em_isub(em, ps->p->size, sn_em_i(em, zero, unit));
    lv first = sn_em_i(em, zero, n * WORD);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(em->b), body = sn_em_block(em, "unit");
    LLVMBasicBlockRef after = sn_em_block(em, "read");
    LLVMBuildBr(em->b, body);
    LLVMPositionBuilderAtEnd(em->b, body);
    lv left = LLVMBuildPhi(em->b, g->index, "");
    for (uint32_t k = 0; k < n; k++) phis[k] = LLVMBuildPhi(em->b, em->cg->i32, "");
    lv i = em_isub(em, left, sn_em_i(em, left, unit)), at = em_iadd(em, ps->at, i);
    lv start = ps->p->head ? ps->p->head : zero;
    at = em_select(em, em_icmp(em, LLVMIntSLT, at, start), start, at);
    at = em_select(em, em_icmp(em, LLVMIntSLT, at, most), at, most);
    lv x = LLVMBuildLoad2(em->b, type, at_byte(g, ps, at), "");
    LLVMSetAlignment(x, unit);
    for (uint32_t k = 0; k < n; k++) {
        lv below = k ? phis[k - 1] : unit < WORD ? LLVMBuildZExt(em->b, x, em->cg->i32, "") : x;
        lv rest = k && unit < WORD ? em_lshr(em, below, sn_em_i(em, below, 32 - 8 * unit)) : below;
        out[k] = unit < WORD ? em_or(em, em_shl(em, phis[k], sn_em_i(em, rest, 8 * unit)), rest) : rest;
    }
    LLVMAddIncoming(left, (lv[]){first, i}, (LLVMBasicBlockRef[]){before, body}, 2);
    for (uint32_t k = 0; k < n; k++)
        LLVMAddIncoming(phis[k], (lv[]){sn_gen_c32(g, 0), out[k]}, (LLVMBasicBlockRef[]){before, body}, 2);
    sn_gen_keep_rolled(g, LLVMBuildCondBr(em->b, em_icmp(em, LLVMIntNE, i, zero), body, after));
    LLVMPositionBuilderAtEnd(em->b, after);
}

/* Pieces number first .. last, as they lie. */
static void load_raw(sn_gen *g, pieces *ps, lv first, lv last) {
    for (uint32_t k = 0; k < ps->n; k++) {
        bool end = k && k == ps->n - 1;
        load_piece(g, ps, k, end ? last : k ? em_iadd(&g->em, first, sn_em_i(&g->em, first, k)) : first);
    }
}

/* Each word of the vector is one that came from block[0] or from block[1]. */
static void join_words(sn_em *em, lv *out, lv *const from[2], LLVMBasicBlockRef block[2], uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        lv phi = LLVMBuildPhi(em->b, em->cg->i32, "");
        LLVMAddIncoming(phi, (lv[]){from[0][i], from[1][i]}, block, 2);
        out[i] = phi;
    }
}

/* The vector's words unit by unit, in block[1], which goes on to `join`. */
static void load_units_apart(sn_gen *g, pieces *ps, lv *units, LLVMBasicBlockRef block[2], LLVMBasicBlockRef join) {
    LLVMPositionBuilderAtEnd(g->em.b, block[1]);
    load_units(g, ps, units);
    block[1] = LLVMGetInsertBlock(g->em.b);
    LLVMBuildBr(g->em.b, join);
    LLVMPositionBuilderAtEnd(g->em.b, join);
}

/* The vector's words, from pieces where these are in the storage, else unit by unit. */
static void load_either(sn_gen *g, pieces *ps, lv in, lv first, lv last) {
    sn_em *em = &g->em;
    lv units[WORDS];
    LLVMBasicBlockRef block[2] = {sn_em_block(em, "pieces"), sn_em_block(em, "units")};
    LLVMBasicBlockRef join = sn_em_block(em, "vector");
    LLVMBuildCondBr(em->b, in, block[0], block[1]);
    LLVMPositionBuilderAtEnd(em->b, block[0]);
    load_raw(g, ps, first, last);
    move_words(g, ps);
    block[0] = LLVMGetInsertBlock(em->b);
    LLVMBuildBr(em->b, join);
    load_units_apart(g, ps, units, block, join);
    join_words(em, ps->word, (lv *[]){ps->word, units}, block, ps->wanted);
}

/* The same on a GPU, whose threads wait at a use and not at a load: pieces are asked for in front of the test, others where it fails, so that
 * those of several vectors are under way together. A thread that has one vector would only compute more (i8[16381, 4099] times f16[4099] 64 us
 * for 52 on an H200). */
static void load_both(sn_gen *g, pieces *ps, lv in, lv first, lv last) {
    sn_em *em = &g->em;
    lv units[WORDS], none[WORDS], other = sn_em_i(em, first, ps->p->head ? 1 : 0); /* the first one that is whole */
    load_raw(g, ps, em_select(em, in, first, other), em_select(em, in, last, other));
    LLVMBasicBlockRef block[2] = {LLVMGetInsertBlock(em->b), sn_em_block(em, "units")};
    LLVMBasicBlockRef join = sn_em_block(em, "vector");
    LLVMBuildCondBr(em->b, in, join, block[1]);
    load_units_apart(g, ps, units, block, join);
    for (uint32_t i = 0; i < ps->wanted; i++) none[i] = LLVMGetPoison(em->cg->i32);
    join_words(em, units, (lv *[]){none, units}, block, ps->wanted);
    move_words(g, ps);
    for (uint32_t i = 0; i < ps->wanted; i++) ps->word[i] = em_select(em, in, ps->word[i], units[i]);
}

static void load_words(sn_gen *g, pieces *ps) {
    sn_em *em = &g->em;
    const sn_gen_place *p = ps->p;
    lv shift = sn_em_i(em, ps->at, __builtin_ctz(ps->piece));
    lv first = em_ashr(em, ps->at, shift);
    lv last = em_ashr(em, em_iadd(em, ps->at, sn_em_i(em, ps->at, ps->wanted * WORD - 1)), shift);
    if (p->near || (p->inside && p->granule >= ps->piece)) {
        load_raw(g, ps, first, last);
        move_words(g, ps);
        return;
    }
    lv whole = em_lshr(em, p->size, shift), in = em_icmp(em, LLVMIntULT, last, whole);
    /* Lane 0 of a run that begins inside the vector may lie before the storage. */
    if (p->early || g->run.start) in = em_and(em, in, em_icmp(em, LLVMIntULT, first, whole));
    bool several = g->gpu && g->k->sched.unroll > 1,
         there = p->least >= (int64_t)ps->piece * (ps->n + (p->head ? 1 : 0));
    (several && there ? load_both : load_either)(g, ps, in, first, last);
}

/* Elements of 8 bytes are where they are wanted. */
static uint32_t piece_of(const sn_gen_place *p, uint32_t bytes) {
    if (p->granule < PIECE && sn_dtype_bytes(p->dtype) > WORD) return sn_dtype_bytes(p->dtype);
    return bytes < PIECE ? bytes : PIECE;
}

/* Words from the one on that lane 0 stands in, one more than the vector has, all by one address. */
static void load_row_of_words(sn_gen *g, pieces *ps) {
    sn_em *em = &g->em;
    lv start = at_byte(g, ps, em_and(em, ps->at, sn_em_i(em, ps->at, -WORD)));
    for (uint32_t k = 0; k < ps->words; k++) {
        lv offset = sn_em_ci(em->cg->i64, k * WORD), at = LLVMBuildGEP2(em->b, em->cg->i8, start, &offset, 1, "");
        ps->word[k] = load_words_at(g, ps, at, 1, WORD);
    }
    move_words(g, ps);
}

static lv load_place(sn_gen *g, const sn_gen_place *p, uint32_t lanes) {
    sn_em *em = &g->em;
    uint32_t bytes = lanes * sn_dtype_bytes(p->dtype);
    pieces ps = {.p = p, .piece = piece_of(p, bytes), .wanted = bytes / WORD, .at = p->at};
    ps.n = bytes / ps.piece + (p->granule < ps.piece);
    ps.words = ps.n * ps.piece / WORD;
    if (p->mask) ps.at = em_select(em, p->mask, ps.at, p->head ? p->head : sn_em_i(em, ps.at, 0));
    if (p->words) {
        ps.piece = WORD, ps.words = ps.n = ps.wanted + 1;
        load_row_of_words(g, &ps);
    } else {
        load_words(g, &ps);
    }
    lv all = LLVMGetPoison(sn_em_shape(em->cg->i32, ps.wanted));
    for (uint32_t i = 0; i < ps.wanted; i++) all = ps.wanted > 1 ? sn_em_with_lane(em, all, i, ps.word[i]) : ps.word[i];
    return em_bitcast(em, all, sn_em_shape(sn_math_storage(em->cg, p->dtype), lanes));
}

/* ---- places ---- */

/* Bytes that e, a number of elements, is known to be a multiple of, up to a piece. */
static uint32_t granule_of(sn_gen *g, sn_ix e, uint32_t bytes) {
    uint32_t n = PIECE;
    while (n > bytes && !sn_ix_is_multiple(g->m, e, n / bytes)) n /= 2;
    return n;
}

/* Storage that may start inside a piece starts that many bytes later. */
static void align_place(sn_gen *g, sn_gen_place *p, uint32_t align) {
    sn_em *em = &g->em;
    lv head = LLVMBuildPtrToInt(em->b, p->base, em->cg->i64, "");
    head = em_and(em, head, sn_em_ci(em->cg->i64, PIECE - 1));
    lv back = em_isub(em, sn_em_ci(em->cg->i64, 0), head);
    p->base = LLVMBuildGEP2(em->b, em->cg->i8, p->base, &back, 1, "");
    head = LLVMBuildTruncOrBitCast(em->b, head, g->index, "");
    p->at = em_iadd(em, p->at, head);
    p->size = em_iadd(em, p->size, head);
    p->head = head;
    if (align < p->granule) p->granule = align;
}

static int64_t storage_bytes(sn_gen *g, const sn_buf_rec *b) {
    return sn_ix_value(g->m, b->size) * sn_dtype_bytes(b->dtype);
}

static sn_gen_place place_of(sn_gen *g, const sn_stmt_rec *s) {
    sn_em *em = &g->em;
    const sn_buf_rec *b = sn_buf_get(g->m, s->buf);
    uint32_t bytes = sn_dtype_bytes(b->dtype), align = g->gpu ? b->align : bytes;
    sn_val mask = sn_stmt_mask(s);
    sn_ix zero = sn_ix_const(g->m, 0), e = s->ix;
    int64_t step;
    bool whole = sn_ix_coef(g->m, e, g->run.axis, &step);
    if (whole) e = sn_ix_subst(g->m, e, &g->run.axis, &zero, 1);
    e = sn_gen_resolve(g, e);
    lv at = sn_gen_ix(g, e);
    bool early = g->run.start && !whole;
    if (early) at = em_isub(em, at, g->run.start);
    sn_gen_place p = {.mask = mask.i ? sn_gen_val(g, mask) : NULL,
                      .otherwise = mask.i ? sn_gen_val(g, s->in[1]) : NULL,
                      .base = sn_gen_memory_for_good(g, s->buf),
                      .at = em_imul(em, at, sn_em_i(em, at, bytes)),
                      .size = sn_em_ci(g->index, storage_bytes(g, b)),
                      .least = storage_bytes(g, b),
                      .granule = early ? bytes : granule_of(g, e, bytes),
                      .early = early,
                      .inside = whole && !mask.i,
                      .steady = g->steady[s->buf.i],
                      .dtype = b->dtype};
    if (align < PIECE) align_place(g, &p, align);
    return p;
}

static lv value_of(sn_gen *g, const sn_gen_place *p, sn_dtype type) {
    lv x = load_place(g, p, g->run.lanes);
    if (p->mask) x = choose(g, p->mask, x, sn_math_to_storage(&g->em, p->dtype, p->otherwise));
    x = sn_math_from_storage(&g->em, p->dtype, x);
    return type == p->dtype ? x : sn_math_cast(&g->em, type, p->dtype, x);
}

/* ---- loads of neighbours ---- */

/* A row's test is about the same position, or one that lies before it (interior.c). */
bool sn_gen_is_near(sn_gen *g, sn_buf buf, sn_ix e, sn_val mask) {
    const sn_buf_rec *b = sn_buf_get(g->m, buf);
    int64_t size, behind = PIECE / sn_dtype_bytes(b->dtype) - 1;
    if (!g->gpu || b->align < PIECE || !sn_ix_is_const(g->m, b->size, &size)) return false;
    sn_range all = sn_ix_range(g->m, e);
    if (all.lo >= 0 && all.hi + behind < size) return true;
    if (!mask.i || g->known[mask.i] != SN_GEN_HOLDS || g->beyond < behind) return false;
    const sn_stmt_rec *test = sn_stmt_get(g->m, sn_val_get(g->m, mask)->def);
    if (test->op != SN_LOP_IN) return false;
    sn_range away = sn_ix_range(g->m, sn_ix_sub(g->m, e, sn_gen_resolve(g, test->ix)));
    return away.lo >= 0 && away.hi + sn_ix_range(g->m, sn_gen_resolve(g, test->bound)).hi <= size;
}

lv sn_gen_load_anywhere(sn_gen *g, sn_buf buf, sn_ix first, uint32_t lanes, lv wanted, bool near) {
    sn_em *em = &g->em;
    const sn_buf_rec *b = sn_buf_get(g->m, buf);
    uint32_t bytes = sn_dtype_bytes(b->dtype), align = g->gpu ? b->align : bytes;
    lv at = sn_gen_ix(g, first);
    sn_gen_place p = {.mask = wanted,
                      .base = sn_gen_memory_for_good(g, buf),
                      .at = em_imul(em, at, sn_em_i(em, at, bytes)),
                      .size = sn_em_ci(g->index, storage_bytes(g, b)),
                      .least = storage_bytes(g, b),
                      .granule = granule_of(g, first, bytes),
                      .near = near,
                      .words = near && g->near,
                      .early = !near,
                      .steady = g->steady[buf.i],
                      .dtype = b->dtype};
    if (align < PIECE) align_place(g, &p, align);
    return load_place(g, &p, lanes);
}

/* ---- loads of a run ---- */

static sn_gen_joined *joined(sn_gen *g, sn_val v) {
    for (uint32_t i = 0; i < g->run.n_joined; i++)
        if (g->run.joined[i].v.i == v.i) return &g->run.joined[i];
    return NULL;
}

/* The result of s is what lies there, as its own dtype, or only the place. */
static void set(sn_gen *g, const sn_stmt_rec *s, const sn_gen_place *p) {
    sn_gen_joined *j = joined(g, s->result);
    if (j) j->place = *p;
    else g->vals[s->result.i] = value_of(g, p, s->dtype);
}

bool sn_gen_run_load(sn_gen *g, const sn_stmt_rec *s) {
    int64_t step;
    if (!g->run.lanes || !sn_ix_run(g->m, s->ix, g->run.axis, &step, NULL, NULL) || !step) return false;
    sn_gen_place p = place_of(g, s);
    set(g, s, &p);
    return true;
}

/* Of two places the first one where cond holds. */
static sn_gen_place pick(sn_gen *g, lv cond, const sn_gen_place *x, const sn_gen_place *y) {
    sn_em *em = &g->em;
    sn_gen_place p = *y;
    p.base = em_select(em, cond, x->base, y->base);
    p.at = em_select(em, cond, x->at, y->at);
    p.size = em_select(em, cond, x->size, y->size);
    lv none = sn_em_i(em, p.at, 0);
    if (x->head || y->head) p.head = em_select(em, cond, x->head ? x->head : none, y->head ? y->head : none);
    p.mask = y->mask ? em_or(em, cond, y->mask) : NULL;
    p.granule = x->granule < y->granule ? x->granule : y->granule;
    p.least = x->least < y->least ? x->least : y->least;
    p.early |= x->early;
    p.inside = false;
    p.steady &= x->steady;
    return p;
}

bool sn_gen_run_value(sn_gen *g, const sn_stmt_rec *s) {
    if (!g->run.lanes || (s->op != SN_LOP_SELECT && s->op != SN_LOP_CAST)) return false;
    if (s->op == SN_LOP_CAST) {
        sn_gen_joined *x = joined(g, s->in[0]);
        if (x) set(g, s, &x->place);
        return x;
    }
    sn_gen_joined *x = joined(g, s->in[1]), *y = x ? joined(g, s->in[2]) : NULL;
    if (!x || !y) return false;
    sn_gen_place p = pick(g, sn_gen_val(g, s->in[0]), &x->place, &y->place);
    set(g, s, &p);
    return true;
}
