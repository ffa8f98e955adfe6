/* access.c: what a load or store accesses: which elements, where they are, and how many lanes take one instruction.
 *
 * Under a vector axis an access whose offset is lane (or -lane) + a multiple of the piece becomes vector accesses (of
 * at most 16 bytes on a GPU); one that does not depend on the lane is a scalar; anything else goes lane by lane, or
 * by what load.c and store.c know better. The CPU has vector accesses of the lanes that hold. Relies on index.c for offsets.
 */
#include "codegen-llvm/access.h"

#include <string.h>

/* ---- addresses ---- */

/* What a thread of its registers, or a block of its shared memory, addresses: the offset without the thread's part. */
static sn_ix without_threads(sn_gen *g, sn_buf_scope scope, sn_ix e) {
    sn_ix zero = sn_ix_const(g->m, 0);
    for (uint32_t i = 0; i < g->thread_axes.n; i++) {
        sn_gen_thread_axis t = g->thread_axes.at[i];
        bool thread = scope == SN_BUF_REG || t.kind == SN_AXIS_CLUSTER;
        if (thread && sn_ix_uses_axis(g->m, e, t.ax)) e = sn_ix_subst(g->m, e, &t.ax, &zero, 1);
    }
    return e;
}

lv sn_gen_element(sn_gen *g, LLVMTypeRef elem, lv base, lv offset) {
    return LLVMBuildInBoundsGEP2(g->em.b, elem, base, &offset, 1, "");
}

enum { PERMUTED_ROW = 128, PERMUTED_ROWS = 8, PERMUTED_PIECE = 16, PIECE_SHIFT = 4 };

/* Has e no bit that is set in the constant, or stands between two that are? */
static bool is_apart(sn_gen *g, sn_ix e, int64_t constant) {
    int64_t low = constant & -constant, above = 1;
    while (above <= constant) above *= 2;
    return !constant || sn_ix_range(g->m, sn_ix_modc(g->m, e, above)).hi < low;
}

/* In a buffer whose rows are permuted: pieces of 16 bytes change places by the number of the row in its group of 8. Whole groups are
 * added afterwards, and so are, by exclusive or, constants whose bits the rest does not have: neighbours share what is variable. */
static lv permuted(sn_gen *g, const sn_gen_access *a, sn_ix e) {
    enum { GROUP = PERMUTED_ROW * PERMUTED_ROWS };
    sn_em *em = &g->em;
    sn_ix bytes = sn_ix_scale(g->m, e, sn_dtype_bytes(a->b->dtype));
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0, rows = a->b->swizzle / PERMUTED_PIECE;
    sn_ix_terms(g->m, bytes, &terms, &c0, &one);
    int64_t near = (c0 % GROUP + GROUP) % GROUP, far = c0 - near;
    bytes = sn_ix_addc(g->m, bytes, is_apart(g, sn_ix_addc(g->m, bytes, -c0), near) ? -c0 : -far);
    if (sn_ix_terms(g->m, bytes, &terms, &c0, &one), c0) near = 0;
    sn_ix row = sn_ix_modc(g->m, sn_ix_divc(g->m, bytes, PERMUTED_ROW), rows);
    lv at = sn_gen_ix(g, bytes), number = sn_gen_ix(g, row);
    at = em_xor(em, at, em_shl(em, number, sn_em_i(em, at, PIECE_SHIFT)));
    near ^= near / PERMUTED_ROW % rows << PIECE_SHIFT;
    if (near) at = em_xor(em, at, sn_em_i(em, at, near));
    lv p = sn_gen_element(g, em->cg->i8, sn_gen_memory(g, a->id), at);
    return far ? sn_gen_element(g, em->cg->i8, p, sn_em_ci(em->cg->i64, far)) : p;
}

lv sn_gen_address(sn_gen *g, const sn_gen_access *a, sn_ix e) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    if (g->gpu && a->b->swizzle) return permuted(g, a, e);
    uint32_t n = sn_ix_terms(g->m, e, &terms, &c0, &one);
    lv p = sn_gen_memory(g, a->id);
    if (n) p = sn_gen_element(g, a->elem, p, sn_gen_ix(g, sn_ix_addc(g->m, e, -c0)));
    return c0 ? sn_gen_element(g, a->elem, p, sn_em_ci(g->em.cg->i64, c0)) : p;
}

sn_ix sn_gen_at_lane(sn_gen *g, sn_ix e, uint32_t lane) {
    if (g->lanes <= 1) return e;
    sn_ix with = sn_ix_const(g->m, lane);
    return sn_ix_subst(g->m, e, &g->lane_axis, &with, 1);
}

sn_ix sn_gen_at_piece(sn_gen *g, const sn_gen_access *a, uint32_t i, uint32_t piece) {
    return sn_gen_at_lane(g, a->e, a->reversed ? i + piece - 1 : i);
}

uint32_t sn_gen_alignment(const sn_gen_access *a, uint32_t piece, bool gpu) {
    uint32_t bytes = sn_dtype_bytes(a->b->dtype);
    return gpu ? piece * bytes : bytes;
}

/* ---- what a statement accesses ---- */

bool sn_gen_is_posted(const sn_gen *g, const sn_gen_access *a) { return g->gpu && a->b->scope == SN_BUF_POSTED; }

/* Halves that a thread keeps while its block waits for others (of a team: more than have room one by one), or of columns until it has
 * their sums, stay the words that they are, from their store to their load: what they were widened to takes twice the registers, and the
 * compiler would keep that instead. */
static bool keeps_words(const sn_gen *g, const sn_gen_access *a) {
    enum { ONE_BY_ONE = 32 };
    bool waits = sn_kern_posts(g->m, g->kern) || (g->k->sched.cls == SN_SCHED_OUTER && g->threads_y > 1);
    waits |= g->teams && a->b->private_size > ONE_BY_ONE;
    return g->gpu && a->b->scope == SN_BUF_REG && sn_dtype_bytes(a->b->dtype) == 2 && waits;
}

lv sn_gen_as_words(sn_gen *g, const sn_gen_access *a, lv x) {
    sn_em *em = &g->em;
    uint32_t words = sn_em_lanes(x) / 2;
    LLVMTypeRef type = LLVMTypeOf(x);
    if (!keeps_words(g, a) || sn_em_lanes(x) % 2) return x;
    x = em_bitcast(em, x, sn_em_shape(em->cg->i32, words));
    for (uint32_t i = 0; i < words; i++) {
        lv word = sn_em_lane(em, x, i);
        word = sn_em_assembly(em, em->cg->i32, "", "=r,0", &word, 1);
        x = words > 1 ? sn_em_with_lane(em, x, i, word) : word;
    }
    return em_bitcast(em, x, type);
}

/* Lanes of one access: the largest power of two that fits the machine, divides the offset and is aligned. */
static uint32_t piece_of(sn_gen *g, const sn_gen_access *a) {
    uint32_t bytes = sn_dtype_bytes(a->b->dtype), piece = g->lanes & -g->lanes;
    uint32_t align = keeps_words(g, a) ? g->em.cg->target->vector_bytes : a->b->align;
    if (!g->gpu) return g->lanes;
    if (sn_gen_is_posted(g, a)) return 1;
    while (piece * bytes > g->em.cg->target->vector_bytes) piece /= 2;
    while (piece > 1 && (piece * bytes > align || !sn_ix_is_multiple(g->m, sn_gen_at_piece(g, a, 0, piece), piece)))
        piece /= 2;
    return piece;
}

static bool is_summed(const sn_module *m, sn_stmt around) {
    while (around.i && sn_stmt_get(m, around)->op != SN_LOP_REDUCE) around = sn_stmt_get(m, around)->parent;
    return around.i;
}

/* Does a loop around the load promise so? Not of what other rows have too, weights. */
static bool comes_once(sn_module *m, const sn_stmt_rec *load) {
    bool once = false;
    for (sn_stmt s = load->parent; s.i; s = sn_stmt_get(m, s)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        once |= r->once;
        bool rows = once && r->op == SN_LOP_LOOP && (r->kind == SN_AXIS_GRID || r->kind == SN_AXIS_SEQ);
        if (rows && sn_ix_range(m, sn_axis_get(m, r->axis)->extent).hi > 1 && !sn_ix_uses_axis(m, load->ix, r->axis))
            return false;
    }
    return once;
}

/* Lanes that are neighbours, where the offset counts groups of them: `4*(row of lane div 4) + lane mod 4`. At least 1. */
static uint32_t group_of(sn_gen *g, const sn_gen_access *a) {
    uint32_t n = g->lanes & -g->lanes, bytes = sn_dtype_bytes(a->b->dtype);
    if (!g->gpu || sn_buf_is_private(a->b) || sn_gen_is_posted(g, a) || a->b->swizzle) return 1;
    while (n > 1 && (n * bytes > a->b->align || n * bytes > g->em.cg->target->vector_bytes)) n /= 2;
    for (uint32_t i = 0; i < g->lanes && n > 1; i++) {
        sn_ix first = sn_gen_at_lane(g, a->e, i & -n);
        int64_t behind;
        bool near = sn_ix_is_const(g->m, sn_ix_sub(g->m, sn_gen_at_lane(g, a->e, i), first), &behind);
        if (!near || behind != i % n || !sn_ix_is_multiple(g->m, first, n)) n /= 2, i = UINT32_MAX;
    }
    return n;
}

typedef struct vary_query {
    sn_gen *g;
    bool found;
} vary_query;

static void note_varying(void *user, sn_ix atom) {
    vary_query *q = user;
    const sn_ix_rec *r = sn_ix_get(q->g->m, atom);
    if (r->kind == SN_IX_VAL && sn_em_lanes(q->g->vals[r->id]) > 1) q->found = true;
}

bool sn_gen_values_vary(sn_gen *g, sn_ix e) {
    vary_query q = {g, false};
    if (sn_ix_uses_vals(g->m, e)) sn_ix_walk(g->m, e, note_varying, &q);
    return q.found;
}

static void note_missing(void *user, sn_ix atom) {
    vary_query *q = user;
    const sn_ix_rec *r = sn_ix_get(q->g->m, atom);
    if (r->kind == SN_IX_VAL && !q->g->vals[r->id]) q->found = true;
}

bool sn_gen_values_known(sn_gen *g, sn_ix e) {
    vary_query q = {g, false};
    if (sn_ix_uses_vals(g->m, e)) sn_ix_walk(g->m, e, note_missing, &q);
    return !q.found;
}

sn_gen_access sn_gen_access_of(sn_gen *g, const sn_stmt_rec *s) {
    sn_gen_access a = {
        .b = sn_buf_get(g->m, s->buf), .id = s->buf, .e = sn_gen_resolve(g, s->ix), .region = s->parent, .piece = 0};
    a.once = s->op == SN_LOP_LOAD && comes_once(g->m, s);
    a.summed = is_summed(g->m, s->parent);
    a.elem = sn_math_storage(g->em.cg, a.b->dtype);
    if ((g->gpu && sn_buf_is_private(a.b)) || g->of_one_thread[s->buf.i]) a.e = without_threads(g, a.b->scope, a.e);
    int64_t c;
    if (g->lanes <= 1) return a;
    if (sn_gen_values_vary(g, a.e)) a.piece = 1;
    else if (!sn_ix_coef(g->m, a.e, g->lane_axis, &c)) a.piece = sn_stmt_mask(s).i ? 1 : group_of(g, &a);
    else if (a.step = c, c) a.reversed = c == -1, a.piece = c == 1 || c == -1 ? piece_of(g, &a) : 1;
    return a;
}

bool sn_gen_are_registers(sn_gen *g, const sn_gen_access *a, sn_ix e, uint32_t lanes, int64_t *first) {
    return sn_ix_is_const(g->m, e, first) && sn_gen_keeps_registers(g, a->id, *first, lanes);
}

enum { LEAST_LANES = 4 };

bool sn_gen_lies_apart(const sn_gen *g, const sn_gen_access *a) {
    bool power = g->lanes >= LEAST_LANES && !(g->lanes & (g->lanes - 1)) && !g->run.lanes;
    return !g->gpu && power && a->piece == 1 && a->step >= 2 && a->step <= SN_MOST_APART && !sn_buf_is_local(a->b);
}

/* ---- masks ---- */

uint32_t sn_gen_lane_tests(sn_gen *g, sn_val mask) {
    const sn_stmt_rec *r = sn_stmt_get(g->m, sn_val_get(g->m, mask)->def);
    int64_t c, bound;
    if (sn_em_lanes(sn_gen_val(g, mask)) == 1) return 0;
    if (r->op == SN_LOP_AND) return sn_gen_lane_tests(g, r->in[0]) + sn_gen_lane_tests(g, r->in[1]);
    bool interval = r->op == SN_LOP_IN && sn_ix_coef(g->m, sn_gen_resolve(g, r->ix), g->lane_axis, &c) && c == 1 &&
                    sn_ix_is_const(g->m, sn_gen_resolve(g, r->bound), &bound) && bound >= g->lanes;
    return interval ? 1 : SN_GEN_NO_INTERVAL;
}

bool sn_gen_is_interval(sn_gen *g, const sn_gen_access *a, sn_val mask) {
    return a->piece > 1 && sn_gen_lane_tests(g, mask) < SN_GEN_NO_INTERVAL;
}

bool sn_gen_takes_masks(const sn_gen *g, const sn_gen_access *a) {
    bool short_too = g->em.cg->target->avx512; /* of bytes and halves, too */
    return !g->gpu && g->lanes > 1 && a->piece == g->lanes && !a->reversed &&
           (short_too || sn_dtype_bytes(a->b->dtype) >= 4);
}

/* May any lane hold? By what all of them have in common, where the mask says so. */
static lv may_hold(sn_gen *g, sn_val mask_id, lv mask) {
    const sn_stmt_rec *r = sn_stmt_get(g->m, sn_val_get(g->m, mask_id)->def);
    for (uint32_t k = 0; r->op == SN_LOP_AND && k < 2; k++)
        if (sn_em_lanes(sn_gen_val(g, r->in[k])) == 1) return sn_gen_val(g, r->in[k]);
    return sn_em_any(&g->em, mask);
}

/* A vector of bytes or halves that is stored by a mask does not become one with the trunc that it comes from: of a mask that holds in one lane alone
 * LLVM 22.1 would store the 32 bits that were truncated. */
static lv apart_from_trunc(sn_em *em, lv x, uint32_t bytes) {
    enum { WORD = 4 };
    if (LLVMGetTypeKind(LLVMGetElementType(LLVMTypeOf(x))) != LLVMIntegerTypeKind || bytes % WORD) return x;
    LLVMTypeRef words = LLVMVectorType(LLVMFloatTypeInContext(em->cg->cx), bytes / WORD);
    unsigned id = LLVMLookupIntrinsicID("llvm.arithmetic.fence", strlen("llvm.arithmetic.fence"));
    lv fn = LLVMGetIntrinsicDeclaration(em->mod, id, &words, 1), y = LLVMBuildBitCast(em->b, x, words, "");
    y = LLVMBuildCall2(em->b, LLVMGlobalGetValueType(fn), fn, &y, 1, "");
    return LLVMBuildBitCast(em->b, y, LLVMTypeOf(x), "");
}

/* Lanes that do not hold may lie outside of the buffer, so that the address is no inbounds one; where none
 * holds it is the buffer's: a page that is not there takes a processor a hundred times as long, also where its lanes are masked. */
lv sn_gen_access_masked(sn_gen *g, const sn_gen_access *a, lv x, sn_val mask_id, lv mask) {
    sn_em *em = &g->em;
    const char *name = x ? "llvm.masked.store" : "llvm.masked.load";
    uint32_t bytes = sn_dtype_bytes(a->b->dtype);
    lv offset = sn_gen_ix(g, sn_gen_at_lane(g, a->e, 0)), memory = sn_gen_memory(g, a->id);
    lv there = LLVMBuildGEP2(em->b, a->elem, memory, &offset, 1, "");
    LLVMTypeRef types[2] = {sn_em_shape(a->elem, g->lanes), LLVMTypeOf(memory)};
    lv fn = LLVMGetIntrinsicDeclaration(em->mod, LLVMLookupIntrinsicID(name, strlen(name)), types, 2);
    there = LLVMBuildSelect(em->b, may_hold(g, mask_id, mask), there, memory, "");
    lv args[4] = {x ? sn_em_splat(em, x, g->lanes) : NULL, there, mask, LLVMGetPoison(types[0])};
    if (x && bytes < 4) args[0] = apart_from_trunc(em, args[0], bytes * g->lanes);
    lv call = LLVMBuildCall2(em->b, LLVMGlobalGetValueType(fn), fn, x ? args : args + 1, 3, "");
    unsigned align = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMAddCallSiteAttribute(call, x ? 2 : 1, LLVMCreateEnumAttribute(em->cg->cx, align, bytes));
    return call;
}
