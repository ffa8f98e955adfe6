/* access.c: loads and stores.
 *
 * Under a vector axis an access whose offset is lane (or -lane) + a multiple of the piece becomes vector accesses (of
 * at most 16 bytes on a GPU); one that does not depend on the lane is a scalar; anything else is one scalar access a
 * lane, or on the CPU whole vectors of what lies between (apart.c) and one instruction for places that lanes look up. A masked load reads element 0 where the mask does not hold (that address is always good) and selects, so that
 * no branch separates the loads of a kernel. The CPU has vector accesses of the lanes that hold. Where the lanes of a vector that may be loaded answer differently (the
 * ends of a row that vectors do not divide), it is loaded whole and selected from, unless it reaches over the end of
 * the buffer. A store outside a block axis runs on thread 0 of that axis. Relies on index.c for offsets. Register
 * buffers are stack arrays that SROA turns into registers; elements with constant numbers go through registers.c. On a GPU elements of posted buffers go one by one through
 * posted.c.
 */
#include "codegen-llvm/gen.h"

#include <string.h>

typedef struct access {
    sn_buf_rec *b;
    sn_buf id;
    LLVMTypeRef elem; /* storage type */
    sn_ix e;          /* resolved offset */
    sn_stmt region;   /* that it stands in; none: the kernel */
    uint32_t piece;   /* lanes of one vector access; 1: lane by lane; 0: the same for all lanes */
    int64_t step;     /* elements from one lane to the next, where that is a number */
    bool reversed;    /* later lanes lie at lower addresses */
    bool once;        /* nobody reads again what it loads */
    bool summed;      /* inside of a reduction */
} access;

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

static lv element(sn_gen *g, LLVMTypeRef elem, lv base, lv offset) {
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
static lv permuted(sn_gen *g, const access *a, sn_ix e) {
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
    lv p = element(g, em->cg->i8, sn_gen_memory(g, a->id), at);
    return far ? element(g, em->cg->i8, p, sn_em_ci(em->cg->i64, far)) : p;
}

/* The variable part of the offset first, so that neighbours share it and differ in a constant that the instruction
 * holds. */
static lv address(sn_gen *g, const access *a, sn_ix e) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    if (g->gpu && a->b->swizzle) return permuted(g, a, e);
    uint32_t n = sn_ix_terms(g->m, e, &terms, &c0, &one);
    lv p = sn_gen_memory(g, a->id);
    if (n) p = element(g, a->elem, p, sn_gen_ix(g, sn_ix_addc(g->m, e, -c0)));
    return c0 ? element(g, a->elem, p, sn_em_ci(g->em.cg->i64, c0)) : p;
}

static sn_ix at_lane(sn_gen *g, sn_ix e, uint32_t lane) {
    if (g->lanes <= 1) return e;
    sn_ix with = sn_ix_const(g->m, lane);
    return sn_ix_subst(g->m, e, &g->lane_axis, &with, 1);
}

/* Offset of the lowest element of lanes i .. i + piece-1. */
static sn_ix at_piece(sn_gen *g, const access *a, uint32_t i, uint32_t piece) {
    return at_lane(g, a->e, a->reversed ? i + piece - 1 : i);
}

static bool values_vary(sn_gen *g, sn_ix e);

static bool is_posted(const sn_gen *g, const access *a) { return g->gpu && a->b->scope == SN_BUF_POSTED; }

/* Halves that a thread keeps while its block waits for others (of a team: more than have room one by one), or of columns until it has
 * their sums, stay the words that they are, from their store to their load: what they were widened to takes twice the registers, and the
 * compiler would keep that instead. */
static bool keeps_words(const sn_gen *g, const access *a) {
    enum { ONE_BY_ONE = 32 };
    bool waits = sn_kern_posts(g->m, g->kern) || (g->k->sched.cls == SN_SCHED_OUTER && g->threads_y > 1);
    waits |= g->teams && a->b->private_size > ONE_BY_ONE;
    return g->gpu && a->b->scope == SN_BUF_REG && sn_dtype_bytes(a->b->dtype) == 2 && waits;
}

static lv as_words(sn_gen *g, const access *a, lv x) {
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
static uint32_t piece_of(sn_gen *g, const access *a) {
    uint32_t bytes = sn_dtype_bytes(a->b->dtype), piece = g->lanes & -g->lanes;
    uint32_t align = keeps_words(g, a) ? g->em.cg->target->vector_bytes : a->b->align;
    if (!g->gpu) return g->lanes;
    if (is_posted(g, a)) return 1;
    while (piece * bytes > g->em.cg->target->vector_bytes) piece /= 2;
    while (piece > 1 && (piece * bytes > align || !sn_ix_is_multiple(g->m, at_piece(g, a, 0, piece), piece)))
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
static uint32_t group_of(sn_gen *g, const access *a) {
    uint32_t n = g->lanes & -g->lanes, bytes = sn_dtype_bytes(a->b->dtype);
    if (!g->gpu || sn_buf_is_private(a->b) || is_posted(g, a) || a->b->swizzle) return 1;
    while (n > 1 && (n * bytes > a->b->align || n * bytes > g->em.cg->target->vector_bytes)) n /= 2;
    for (uint32_t i = 0; i < g->lanes && n > 1; i++) {
        sn_ix first = at_lane(g, a->e, i & -n);
        int64_t behind;
        bool near = sn_ix_is_const(g->m, sn_ix_sub(g->m, at_lane(g, a->e, i), first), &behind);
        if (!near || behind != i % n || !sn_ix_is_multiple(g->m, first, n)) n /= 2, i = UINT32_MAX;
    }
    return n;
}

static access access_of(sn_gen *g, const sn_stmt_rec *s) {
    access a = {
        .b = sn_buf_get(g->m, s->buf), .id = s->buf, .e = sn_gen_resolve(g, s->ix), .region = s->parent, .piece = 0};
    a.once = s->op == SN_LOP_LOAD && comes_once(g->m, s);
    a.summed = is_summed(g->m, s->parent);
    a.elem = sn_math_storage(g->em.cg, a.b->dtype);
    if (g->gpu && sn_buf_is_private(a.b)) a.e = without_threads(g, a.b->scope, a.e);
    int64_t c;
    if (g->lanes <= 1) return a;
    if (values_vary(g, a.e)) a.piece = 1;
    else if (!sn_ix_coef(g->m, a.e, g->lane_axis, &c)) a.piece = sn_stmt_mask(s).i ? 1 : group_of(g, &a);
    else if (a.step = c, c) a.reversed = c == -1, a.piece = c == 1 || c == -1 ? piece_of(g, &a) : 1;
    return a;
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

static bool values_vary(sn_gen *g, sn_ix e) {
    vary_query q = {g, false};
    if (sn_ix_uses_vals(g->m, e)) sn_ix_walk(g->m, e, note_varying, &q);
    return q.found;
}

static uint32_t alignment(const access *a, uint32_t piece, bool gpu) {
    uint32_t bytes = sn_dtype_bytes(a->b->dtype);
    return gpu ? piece * bytes : bytes;
}

/* ---- vectors of which the CPU accesses the lanes that hold ---- */

static bool takes_masks(const sn_gen *g, const access *a) {
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

/* Loads, or stores x where there is one. Lanes that do not hold may lie outside of the buffer, so that the address is no inbounds one; where
 * none holds it is the buffer's: a page that is not there takes a processor a hundred times as long, also where its lanes are masked. */
static lv access_masked(sn_gen *g, const access *a, lv x, sn_val mask_id, lv mask) {
    sn_em *em = &g->em;
    const char *name = x ? "llvm.masked.store" : "llvm.masked.load";
    lv offset = sn_gen_ix(g, at_lane(g, a->e, 0)), memory = sn_gen_memory(g, a->id);
    lv there = LLVMBuildGEP2(em->b, a->elem, memory, &offset, 1, "");
    LLVMTypeRef types[2] = {sn_em_shape(a->elem, g->lanes), LLVMTypeOf(memory)};
    lv fn = LLVMGetIntrinsicDeclaration(em->mod, LLVMLookupIntrinsicID(name, strlen(name)), types, 2);
    there = LLVMBuildSelect(em->b, may_hold(g, mask_id, mask), there, memory, "");
    lv args[4] = {x ? sn_em_splat(em, x, g->lanes) : NULL, there, mask, LLVMGetPoison(types[0])};
    lv call = LLVMBuildCall2(em->b, LLVMGlobalGetValueType(fn), fn, x ? args : args + 1, 3, "");
    unsigned align = LLVMGetEnumAttributeKindForName("align", 5), bytes = sn_dtype_bytes(a->b->dtype);
    LLVMAddCallSiteAttribute(call, x ? 2 : 1, LLVMCreateEnumAttribute(em->cg->cx, align, bytes));
    return call;
}

/* ---- loads ---- */

/* Elements with constant numbers of a reg buffer. */
static bool are_registers(sn_gen *g, const access *a, sn_ix e, uint32_t lanes, int64_t *first) {
    return sn_ix_is_const(g->m, e, first) && sn_gen_keeps_registers(g, a->id, *first, lanes);
}

static lv load_at(sn_gen *g, const access *a, sn_ix e, uint32_t lanes, lv mask) {
    int64_t first;
    if (!mask && are_registers(g, a, e, lanes, &first)) return sn_gen_register(g, a->id, first, lanes);
    lv p = address(g, a, e);
    if (mask) p = em_select(&g->em, mask, p, g->memory[a->id.i]);
    lv x = LLVMBuildLoad2(g->em.b, sn_em_shape(a->elem, lanes), p, "");
    LLVMSetAlignment(x, alignment(a, lanes, g->gpu));
    if (g->gpu && g->steady[a->id.i] && !g->waits_late && !a->once) {
        LLVMContextRef cx = g->em.cg->cx;
        LLVMMetadataRef node = LLVMMDNodeInContext2(cx, NULL, 0);
        LLVMSetMetadata(x, LLVMGetMDKindIDInContext(cx, "invariant.load", 14), LLVMMetadataAsValue(cx, node));
    }
    return x;
}

static lv load_lanes(sn_gen *g, const access *a, lv mask) {
    lv all = LLVMGetPoison(sn_em_shape(a->elem, g->lanes));
    for (uint32_t i = 0; i < g->lanes; i++) {
        g->pick = (int)i;
        lv x = load_at(g, a, at_lane(g, a->e, i), 1, mask ? sn_em_lane(&g->em, mask, i) : NULL);
        all = sn_em_with_lane(&g->em, all, i, x);
    }
    g->pick = -1;
    return all;
}

static lv load_pieces(sn_gen *g, const access *a, lv mask) {
    lv all[SN_GEN_LANES] = {NULL};
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->lanes; i += a->piece) {
        all[n] = load_at(g, a, at_piece(g, a, i, a->piece), a->piece, mask);
        if (a->reversed) all[n] = sn_em_reverse(&g->em, all[n]);
        n++;
    }
    bool bytes = sn_dtype_bytes(a->b->dtype) == 1; /* stay words where vectors are as long as each other */
    for (; bytes && n > 1 && n % 2 == 0; n /= 2)
        for (uint32_t i = 0; i < n; i += 2) all[i / 2] = sn_em_join(&g->em, all[i], all[i + 1]);
    for (uint32_t i = 1; i < n; i++) all[0] = sn_em_join(&g->em, all[0], all[i]);
    return all[0];
}

/* Every second element, say, of a scratch buffer of the CPU: what lies between them is loaded, too. NULL: it is no such access. */
static lv load_apart(sn_gen *g, const access *a) {
    enum { MOST_STEP = 4 };
    lv places[SN_GEN_LANES];
    int64_t step = a->step, size = a->b->private_size;
    if (g->gpu || a->piece != 1 || step < 2 || step > MOST_STEP || !sn_buf_is_local(a->b)) return NULL;
    sn_range r = sn_ix_range(g->m, a->e);
    if (r.lo < 0 || r.hi + step > size || g->lanes * step > SN_GEN_LANES) return NULL;
    lv all = load_at(g, a, at_lane(g, a->e, 0), (uint32_t)(g->lanes * step), NULL);
    for (uint32_t i = 0; i < g->lanes; i++) places[i] = sn_em_ci(g->em.cg->i32, i * step);
    return LLVMBuildShuffleVector(g->em.b, all, LLVMGetPoison(LLVMTypeOf(all)), LLVMConstVector(places, g->lanes), "");
}

enum { LEAST_LANES = 4 };

/* Does the CPU take such elements by vectors of all lanes (apart.c)? Where these are registers, none is needed. */
static bool lies_apart(const sn_gen *g, const access *a) {
    bool power = g->lanes >= LEAST_LANES && !(g->lanes & (g->lanes - 1)) && !g->run.lanes;
    return !g->gpu && power && a->piece == 1 && a->step >= 2 && a->step <= SN_MOST_APART && !sn_buf_is_local(a->b);
}

static int64_t parts_of(int64_t size, int64_t lanes) { return (size + lanes - 1) / lanes; }

/* What the region loads within a step of a: how far before and behind it. Not where that takes a part, and a shuffle, more. */
static void find_neighbours(int64_t *before, int64_t *behind, sn_gen *g, const access *a) {
    *before = *behind = 0;
    for (sn_stmt t = a->region.i ? sn_stmt_get(g->m, a->region)->first : g->k->first; t.i;
         t = sn_stmt_get(g->m, t)->next) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, t);
        int64_t away;
        if (r->op != SN_LOP_LOAD || r->has_mask || r->buf.i != a->id.i) continue;
        if (!sn_ix_is_const(g->m, sn_ix_sub(g->m, sn_gen_resolve(g, r->ix), a->e), &away)) continue;
        if (away <= -a->step || away >= a->step) continue;
        if (away < -*before) *before = -away;
        if (away > *behind) *behind = away;
    }
    int64_t lanes = g->lanes, own = (lanes - 1) * a->step + 1, all = own + *before + *behind;
    if (all > lanes * a->step || parts_of(all, lanes) > parts_of(own, lanes)) *before = *behind = 0;
}

/* Parts that several loads have in common are one. */
static lv load_between(sn_gen *g, const access *a) {
    lv parts[SN_MOST_APART];
    int64_t lanes = g->lanes, before, behind;
    find_neighbours(&before, &behind, g, a);
    int64_t size = before + (lanes - 1) * a->step + 1 + behind, n = parts_of(size, lanes);
    sn_ix first = sn_ix_addc(g->m, at_lane(g, a->e, 0), -before);
    for (int64_t k = 0; k < n; k++)
        parts[k] = load_at(g, a, sn_ix_addc(g->m, first, k + 1 < n ? k * lanes : size - lanes), g->lanes, NULL);
    return sn_gen_pick_apart(&g->em, parts, (uint32_t)size, (uint32_t)before, (uint32_t)a->step);
}

/* ---- elements wherever they are, of the CPU ---- */

/* Does each lane say itself where its element is? */
static bool lies_anywhere(sn_gen *g, const access *a) {
    return !g->gpu && a->piece == 1 && !g->run.lanes && !sn_buf_is_local(a->b) && values_vary(g, a->e);
}

/* Places of all lanes, computed for all at once. As numbers of 32 bits they are half as many registers, and the instruction that
 * loads by them takes whole vectors. */
static lv places_of(sn_gen *g, const access *a) {
    sn_em *em = &g->em;
    lv at = sn_em_splat(em, sn_gen_ix(g, a->e), g->lanes);
    sn_range r = sn_ix_range(g->m, a->e);
    bool narrow = r.lo >= 0 && r.hi <= INT32_MAX && g->index == em->cg->i64;
    return narrow ? LLVMBuildTrunc(em->b, at, sn_em_shape(em->cg->i32, g->lanes), "") : at;
}

/* By one instruction, where there is one: elements that masked lanes do not have are not read. */
static lv gather(sn_gen *g, const access *a, lv at, lv mask) {
    sn_em *em = &g->em;
    lv p = LLVMBuildGEP2(em->b, a->elem, sn_gen_memory(g, a->id), &at, 1, "");
    lv yes = LLVMConstInt(em->cg->i1, 1, 0);
    LLVMTypeRef types[2] = {sn_em_shape(a->elem, g->lanes), LLVMTypeOf(p)};
    lv args[3] = {p, sn_em_splat(em, mask ? mask : yes, g->lanes), LLVMGetPoison(types[0])};
    lv fn = LLVMGetIntrinsicDeclaration(em->mod, LLVMLookupIntrinsicID("llvm.masked.gather", 18), types, 2);
    lv call = LLVMBuildCall2(em->b, LLVMGlobalGetValueType(fn), fn, args, 3, "");
    unsigned align = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMAddCallSiteAttribute(call, 1, LLVMCreateEnumAttribute(em->cg->cx, align, sn_dtype_bytes(a->b->dtype)));
    return call;
}

static lv load_scattered(sn_gen *g, const access *a, lv mask) {
    sn_em *em = &g->em;
    lv at = places_of(g, a), all = LLVMGetPoison(sn_em_shape(a->elem, g->lanes));
    if (em->cg->target->avx512 && sn_dtype_bytes(a->b->dtype) >= 4) return gather(g, a, at, mask);
    for (uint32_t i = 0; i < g->lanes; i++) {
        lv p = element(g, a->elem, sn_gen_memory(g, a->id), sn_em_lane(em, at, i));
        if (mask) p = em_select(em, sn_em_lane(em, mask, i), p, g->memory[a->id.i]);
        lv x = LLVMBuildLoad2(em->b, a->elem, p, "");
        LLVMSetAlignment(x, alignment(a, 1, false));
        all = sn_em_with_lane(em, all, i, x);
    }
    return all;
}

enum { NO_INTERVAL = 1 << 16 };

/* How many tests that lanes may answer differently a mask is made of; each holds for an interval of lanes, or
 * NO_INTERVAL and more. */
static uint32_t lane_tests(sn_gen *g, sn_val mask) {
    const sn_stmt_rec *r = sn_stmt_get(g->m, sn_val_get(g->m, mask)->def);
    int64_t c, bound;
    if (sn_em_lanes(sn_gen_val(g, mask)) == 1) return 0;
    if (r->op == SN_LOP_AND) return lane_tests(g, r->in[0]) + lane_tests(g, r->in[1]);
    bool interval = r->op == SN_LOP_IN && sn_ix_coef(g->m, sn_gen_resolve(g, r->ix), g->lane_axis, &c) && c == 1 &&
                    sn_ix_is_const(g->m, sn_gen_resolve(g, r->bound), &bound) && bound >= g->lanes;
    return interval ? 1 : NO_INTERVAL;
}

/* Are the lanes that hold an interval, so that the first and the last one tell whether all do? */
static bool is_interval(sn_gen *g, const access *a, sn_val mask) {
    return a->piece > 1 && lane_tests(g, mask) < NO_INTERVAL;
}

/* An interval no shorter than the vector has one of its ends, or no lane; where two meet it may be in the middle. */
static lv any_lane(sn_gen *g, sn_val mask_id, lv mask) {
    if (lane_tests(g, mask_id) > 1) return sn_em_any(&g->em, mask);
    return em_or(&g->em, sn_em_lane(&g->em, mask, 0), sn_em_lane(&g->em, mask, g->lanes - 1));
}

/* Every offset inside the buffer holds what the access may read, whether it is wanted or not. */
static bool always_inside(sn_gen *g, const access *a) {
    int64_t size = a->b->private_size;
    if (is_posted(g, a)) return false;
    if (!g->gpu && !sn_ix_is_const(g->m, a->b->size, &size)) return false;
    sn_range r = sn_ix_range(g->m, a->e);
    return sn_buf_is_local(a->b) && r.lo >= 0 && r.hi < size;
}

/* Masked lanes of aligned vectors, which start inside the buffer: only the one that reaches over its end is loaded lane
 * by lane. NULL: no such vectors. */
static lv load_edges(sn_gen *g, const access *a, sn_val mask_id, lv mask) {
    sn_em *em = &g->em;
    int64_t size, piece = a->piece;
    lv all = NULL, any = any_lane(g, mask_id, mask);
    if (!sn_ix_is_const(g->m, a->b->size, &size) || size < piece) return NULL;
    sn_ix first = at_piece(g, a, 0, a->piece);
    if (!sn_ix_is_multiple(g->m, first, piece) || sn_ix_range(g->m, first).lo <= -piece) return NULL;
    for (uint32_t i = 0; i < g->lanes; i += a->piece) {
        sn_ix e = at_piece(g, a, i, a->piece);
        bool inside = sn_ix_range(g->m, e).hi <= size - piece;
        lv at = sn_gen_ix(g, e), fits = inside ? any : em_icmp(em, LLVMIntULE, at, sn_em_i(em, at, size - piece));
        lv x = load_at(g, a, e, a->piece, em_and(em, any, fits));
        if (!inside) {
            uint32_t mark = sn_gen_mark(g);
            sn_em_if over = sn_em_then(em, em_and(em, any, LLVMBuildNot(em->b, fits, "")), "end");
            lv y = LLVMGetPoison(LLVMTypeOf(x));
            for (uint32_t j = 0; j < a->piece; j++) {
                lv one = load_at(g, a, at_lane(g, a->e, i + j), 1, sn_em_lane(em, mask, i + j));
                y = sn_em_with_lane(em, y, j, one);
            }
            LLVMBasicBlockRef end = LLVMGetInsertBlock(em->b);
            sn_em_end(em, &over);
            sn_gen_release(g, mark);
            x = sn_em_merge(em, &over, end, y, x);
        }
        all = all ? sn_em_join(em, all, x) : x;
    }
    return all;
}

/* The lanes of a load that waits; one when they have the same element. */
static lv load_posted(sn_gen *g, const access *a, lv mask) {
    lv elements[SN_GEN_LANES], wanted[SN_GEN_LANES], out[SN_GEN_LANES];
    uint32_t n = a->piece || (mask && sn_em_lanes(mask) > 1) ? g->lanes : 1;
    for (uint32_t i = 0; i < n; i++) {
        g->pick = n > 1 ? (int)i : -1;
        elements[i] = sn_gen_ix(g, at_lane(g, a->e, i));
        wanted[i] = mask ? sn_em_lane(&g->em, mask, i) : NULL;
    }
    g->pick = -1;
    sn_gen_await(g, a->id, elements, wanted, n, out);
    lv all = n > 1 ? LLVMGetPoison(sn_em_shape(a->elem, n)) : out[0];
    for (uint32_t i = 0; i < n && n > 1; i++) all = sn_em_with_lane(&g->em, all, i, out[i]);
    return all;
}

/* Is the offset of neighbouring lanes a number of groups of neighbours, `k * (number div size) + ..`, of a vector's lanes and more? So it is of a
 * channel's weight in rows, or rows of vectors, that begin anywhere. */
static bool counts_groups(sn_gen *g, const access *a, sn_ix *number, int64_t *size) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0, c, n;
    bool found = false;
    if (!g->gpu || a->piece != 1 || sn_buf_is_local(a->b) || a->b->swizzle || !sn_ix_is_const(g->m, a->b->size, &n))
        return false;
    if (g->lanes <= 2 || n < 1 || sn_ix_uses_vals(g->m, a->e)) return false;
    uint32_t n_terms = sn_ix_terms(g->m, a->e, &terms, &c0, &one);
    for (uint32_t i = 0; i < n_terms; i++) {
        const sn_ix_rec *r = sn_ix_get(g->m, terms[i].atom);
        if (!sn_ix_uses_axis(g->m, terms[i].atom, g->lane_axis)) continue;
        if (found || r->kind != SN_IX_DIV || !sn_ix_is_const(g->m, r->b, size) || *size < g->lanes) return false;
        if (!sn_ix_coef(g->m, r->a, g->lane_axis, &c) || c != 1) return false;
        *number = r->a;
        found = true;
    }
    return found;
}

/* The element of a lane, or of one inside where nobody wants it. */
static lv load_within(sn_gen *g, const access *a, uint32_t lane) {
    sn_ix e = at_lane(g, a->e, lane), last = sn_ix_const(g->m, sn_ix_value(g->m, a->b->size) - 1);
    return load_at(g, a, sn_ix_min(g->m, sn_ix_max(g->m, e, sn_ix_const(g->m, 0)), last), 1, NULL);
}

/* Those lanes have one element, or two: of the first lane up to the end of its group, then of the last. NULL: they are others. */
static lv load_groups(sn_gen *g, const access *a) {
    sn_em *em = &g->em;
    sn_ix number;
    int64_t size;
    if (!counts_groups(g, a, &number, &size)) return NULL;
    sn_ix first = at_lane(g, number, 0), left = sn_ix_sub(g->m, sn_ix_const(g->m, size), sn_ix_modc(g->m, first, size));
    lv of_first = load_within(g, a, 0), of_last = load_within(g, a, g->lanes - 1), end = sn_gen_ix(g, left);
    lv all = LLVMGetPoison(sn_em_shape(a->elem, g->lanes));
    for (uint32_t i = 0; i < g->lanes; i++) {
        lv in = em_icmp(em, LLVMIntULT, sn_em_i(em, end, i), end);
        all = sn_em_with_lane(em, all, i, i ? em_select(em, in, of_first, of_last) : of_first);
    }
    return all;
}

/* Of a row whose vectors begin before it (passes/schedule/inner.c), a weight, say, which begins elsewhere: halves one by one take an
 * instruction each. Where threads only add up what they load, they have time for that: amax of bf16[7, 9999999] takes 30 % longer
 * by pieces, an RMS norm of f16[128, 176427] 22 % less. */
static bool is_beside(sn_gen *g, const access *a, sn_val mask) {
    uint32_t bytes = sn_dtype_bytes(a->b->dtype);
    int64_t size;
    bool inner = g->gpu && g->k->sched.cls == SN_SCHED_INNER && !sn_buf_is_local(a->b) && !is_posted(g, a);
    bool apart = a->piece && a->piece < g->lanes;
    if (!inner || a->summed || bytes != 2 || g->lanes * bytes < 8 || a->step != 1 || !apart) return false;
    if (!g->steady[a->id.i] || !sn_ix_is_const(g->m, a->b->size, &size) || size * bytes < 64) return false;
    return !mask.i || sn_em_lanes(sn_gen_val(g, mask)) == 1 || lane_tests(g, mask) < NO_INTERVAL;
}

/* Of a tile whose schedule has runs: neighbours in one vector that is not aligned; what is behind them is there (tile_bind.c). */
static bool is_anywhere(sn_gen *g, const access *a, sn_val mask) {
    uint32_t bytes = sn_dtype_bytes(a->b->dtype);
    int64_t size;
    bool wide = g->lanes > 1 && bytes < 4 && g->lanes * bytes >= 4 && !(g->lanes & (g->lanes - 1));
    bool tile = g->k->sched.runs && g->k->sched.cls == SN_SCHED_TILE && !sn_buf_is_local(a->b);
    if (!tile || !wide || a->step != 1 || (g->gpu && a->piece == g->lanes)) return false;
    if (!sn_ix_is_const(g->m, a->b->size, &size)) return false;
    return !mask.i || sn_em_lanes(sn_gen_val(g, mask)) == 1 || lane_tests(g, mask) < NO_INTERVAL;
}

static lv load_anywhere(sn_gen *g, const access *a, sn_val mask_id, lv mask, bool near) {
    lv wanted = mask && sn_em_lanes(mask) > 1 ? any_lane(g, mask_id, mask) : mask;
    return sn_gen_load_anywhere(g, a->id, at_lane(g, a->e, 0), g->lanes, wanted, near);
}

static lv load_storage(sn_gen *g, const access *a, sn_val mask_id, lv mask) {
    if (is_posted(g, a)) return load_posted(g, a, mask);
    if (is_anywhere(g, a, mask_id)) return load_anywhere(g, a, mask_id, mask, true);
    if (is_beside(g, a, mask_id)) return load_anywhere(g, a, mask_id, mask, sn_gen_is_near(g, a->id, a->e, mask_id));
    lv groups = load_groups(g, a);
    if (groups) return groups;
    if (mask && always_inside(g, a)) mask = NULL;
    if (lies_anywhere(g, a)) return load_scattered(g, a, mask);
    if (mask && sn_em_lanes(mask) > 1) {
        if (takes_masks(g, a)) return access_masked(g, a, NULL, mask_id, mask);
        if (!g->gpu && !a->piece) return load_at(g, a, at_lane(g, a->e, 0), 1, sn_em_any(&g->em, mask));
        lv x = !a->reversed && is_interval(g, a, mask_id) ? load_edges(g, a, mask_id, mask) : NULL;
        return x ? x : load_lanes(g, a, mask);
    }
    if (a->piece == 0) return load_at(g, a, at_lane(g, a->e, 0), 1, mask);
    lv apart = mask ? NULL : load_apart(g, a);
    if (apart) return apart;
    if (!mask && lies_apart(g, a)) return load_between(g, a);
    return a->piece == 1 ? load_lanes(g, a, mask) : load_pieces(g, a, mask);
}

static void load(sn_gen *g, sn_stmt_rec *s) {
    sn_val mask_id = sn_stmt_mask(s);
    lv mask = mask_id.i ? sn_gen_val(g, mask_id) : NULL;
    access a = access_of(g, s);
    int64_t size;
    lv otherwise = mask ? sn_gen_val(g, s->in[1]) : NULL;
    bool none = mask && LLVMIsConstant(mask) && LLVMIsNull(mask); /* known not to hold (interior.c) */
    if (none || (mask && !sn_buf_is_local(a.b) && sn_ix_is_const(g->m, a.b->size, &size) && size == 0)) {
        g->vals[s->result.i] = otherwise;
        return;
    }
    if (mask && em_is(mask, true)) mask = NULL;
    lv x = sn_math_from_storage(&g->em, a.b->dtype, as_words(g, &a, load_storage(g, &a, mask_id, mask)));
    g->vals[s->result.i] = mask ? sn_em_choose(&g->em, mask, x, otherwise) : x;
}

void sn_gen_load(sn_gen *g, sn_stmt_rec *s) {
    if (g->copies && g->copies[s->result.i]) return; /* the store copies */
    if (!sn_gen_run_load(g, s)) load(g, s);
}

/* ---- stores ---- */

lv sn_gen_chosen_threads(sn_gen *g, sn_buf_scope scope) {
    if (!g->gpu || scope == SN_BUF_REG) return NULL;
    lv cond = NULL;
    if (!g->in_cluster && g->cluster > 1 && scope != SN_BUF_SHARED)
        cond = em_icmp(&g->em, LLVMIntEQ, g->rank, sn_em_i(&g->em, g->rank, 0));
    if (!g->in_x && g->threads_x > 1) {
        lv x = em_icmp(&g->em, LLVMIntEQ, g->thread_x, sn_em_i(&g->em, g->thread_x, 0));
        cond = cond ? em_and(&g->em, cond, x) : x;
    }
    if (!g->in_y && g->threads_y > 1) {
        lv y = em_icmp(&g->em, LLVMIntEQ, g->thread_y, sn_em_i(&g->em, g->thread_y, 0));
        cond = cond ? em_and(&g->em, cond, y) : y;
    }
    return cond;
}

static void store_at(sn_gen *g, const access *a, sn_ix e, lv x) {
    if (is_posted(g, a)) {
        sn_gen_post(g, a->id, sn_gen_ix(g, e), x);
        return;
    }
    int64_t first;
    if (are_registers(g, a, e, sn_em_lanes(x), &first)) {
        sn_gen_set_register(g, a->id, first, x);
        return;
    }
    if (a->b->scope == SN_BUF_SHARED) g->unseen = true;
    lv s = LLVMBuildStore(g->em.b, x, address(g, a, e));
    LLVMSetAlignment(s, alignment(a, sn_em_lanes(x), g->gpu));
}

static void store_lanes(sn_gen *g, const access *a, lv x, lv mask) {
    for (uint32_t i = 0; i < g->lanes; i++) {
        uint32_t mark = sn_gen_mark(g);
        sn_em_if branch;
        if (mask) branch = sn_em_then(&g->em, sn_em_lane(&g->em, mask, i), "store");
        g->pick = (int)i;
        store_at(g, a, at_lane(g, a->e, i), sn_em_lane(&g->em, x, i));
        if (mask) sn_em_end(&g->em, &branch), sn_gen_release(g, mark);
    }
    g->pick = -1;
}

static void store_storage(sn_gen *g, const access *a, lv x, lv mask);

/* Of neighbours that class deal sends each to its place: do all of them hold, and may some do? */
typedef struct dealt {
    lv all, some;
} dealt;

static bool is_dealt(sn_gen *g, const access *a, sn_val mask, dealt *out) {
    sn_em *em = &g->em;
    const sn_stmt_rec *r = sn_stmt_get(g->m, sn_val_get(g->m, mask)->def);
    bool deals = g->gpu && g->k->sched.cls == SN_SCHED_DEAL && a->piece == 1 && r->op == SN_LOP_IN;
    lv x = sn_gen_val(g, mask);
    if (!deals || sn_em_lanes(x) == 1) return false;
    sn_ix e = sn_gen_resolve(g, r->ix), bound = sn_gen_resolve(g, r->bound);
    int64_t c, apart = g->lanes - 1;
    if (sn_ix_uses_axis(g->m, bound, g->lane_axis) || !sn_ix_coef(g->m, e, g->lane_axis, &c) || c != 1) return false;
    out->all = em_and(em, sn_em_lane(em, x, 0), sn_em_lane(em, x, g->lanes - 1));
    out->some = sn_gen_in(g, sn_ix_addc(g->m, at_lane(g, e, 0), apart), sn_ix_addc(g->m, bound, apart));
    return true;
}

/* One vector where all lanes hold, as nearly everywhere. */
static void store_edges(sn_gen *g, const access *a, lv x, lv mask) {
    sn_em *em = &g->em;
    lv whole = em_and(em, sn_em_lane(em, mask, 0), sn_em_lane(em, mask, g->lanes - 1));
    for (int part = 0; part < 2; part++) {
        uint32_t mark = sn_gen_mark(g);
        sn_em_if branch = sn_em_then(em, part ? LLVMBuildNot(em->b, whole, "") : whole, "store");
        if (part) store_lanes(g, a, x, mask);
        else store_storage(g, a, x, NULL);
        sn_em_end(em, &branch);
        sn_gen_release(g, mark);
    }
}

/* Places of lanes that are side by side up to the end of a row, and then in the next one:
 *     (lane + sum over some n_k (c_k * ((y + lane) div n_k)) + rest) mod N, where the least n_k has no less than all lanes and divides the others. */
typedef struct two_rows {
    sn_ix here, next; /* of lane 0; of lane 0 if the next row began as much earlier as it is away */
    sn_ix behind;     /* place of lane 0 in its row; none: rows end with vectors */
    int64_t row;
} two_rows;

static bool find_rows(sn_gen *g, const access *a, two_rows *out) {
    const sn_ix_rec *mod = sn_ix_get(g->m, a->e);
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0, n, c;
    sn_ix y = {0};
    *out = (two_rows){.row = INT64_MAX};
    if (mod->kind != SN_IX_MOD || !sn_ix_is_const(g->m, mod->b, &n) || n & (n - 1)) return false;
    uint32_t n_terms = sn_ix_terms(g->m, mod->a, &terms, &c0, &one);
    bool walks = false;
    for (uint32_t i = 0; i < n_terms; i++) {
        const sn_ix_rec *r = sn_ix_get(g->m, terms[i].atom);
        if (!sn_ix_uses_axis(g->m, terms[i].atom, g->lane_axis)) continue;
        if (r->kind == SN_IX_AXIS && terms[i].c == 1) walks = true;
        else if (r->kind != SN_IX_DIV || !sn_ix_is_const(g->m, r->b, &c) || c < g->lanes) return false;
        else if (y.i && !sn_ix_eq(y, r->a)) return false;
        else if (y = r->a, c < out->row) out->row = c;
    }
    if (!walks) return false;
    out->here = at_lane(g, a->e, 0);
    if (!y.i) return true;
    if (!sn_ix_coef(g->m, y, g->lane_axis, &c) || c != 1) return false;
    sn_ix first = at_lane(g, y, 0), next = at_lane(g, mod->a, 0);
    out->behind = sn_ix_modc(g->m, first, out->row);
    sn_ix end = sn_ix_addc(g->m, sn_ix_sub(g->m, first, out->behind), out->row);
    for (uint32_t i = 0; i < n_terms; i++) {
        const sn_ix_rec *r = sn_ix_get(g->m, terms[i].atom);
        if (r->kind != SN_IX_DIV || !sn_ix_uses_axis(g->m, terms[i].atom, g->lane_axis)) continue;
        if (!sn_ix_is_const(g->m, r->b, &c) || c % out->row) return false;
        sn_ix more = sn_ix_sub(g->m, sn_ix_divc(g->m, end, c), sn_ix_divc(g->m, first, c));
        next = c == out->row ? sn_ix_addc(g->m, next, terms[i].c) : sn_ix_fma(g->m, terms[i].c, more, next);
    }
    out->next = sn_ix_mod(g->m, next, mod->b);
    return true;
}

/* All lanes are in the block: none of them goes round. */
static bool store_rows(sn_gen *g, const access *a, lv x) {
    sn_em *em = &g->em;
    two_rows rows;
    int64_t bytes = sn_dtype_bytes(a->b->dtype);
    if (!find_rows(g, a, &rows)) return false;
    lv here = sn_gen_ix(g, sn_ix_scale(g->m, rows.here, bytes)), next = NULL, behind = NULL;
    if (rows.behind.i) {
        next = sn_gen_ix(g, sn_ix_scale(g->m, rows.next, bytes));
        behind = sn_gen_ix(g, rows.behind);
    }
    g->unseen = true;
    for (uint32_t i = 0; i < g->lanes; i++) {
        lv at = here;
        if (next && i)
            at = em_select(em, em_icmp(em, LLVMIntUGE, behind, sn_em_i(em, behind, rows.row - i)), next, here);
        lv p = element(g, em->cg->i8, sn_gen_memory(g, a->id), at);
        if (i) p = element(g, em->cg->i8, p, sn_em_ci(em->cg->i64, i * bytes));
        LLVMSetAlignment(LLVMBuildStore(em->b, sn_em_lane(em, x, i), p), alignment(a, 1, g->gpu));
    }
    return true;
}

/* All lanes are the block's, as nearly everywhere, or none is. */
static void store_dealt(sn_gen *g, const access *a, const dealt *d, lv x, lv mask) {
    sn_em *em = &g->em;
    lv some = em_and(em, d->some, LLVMBuildNot(em->b, d->all, ""));
    for (int part = 0; part < 2; part++) {
        uint32_t mark = sn_gen_mark(g);
        sn_em_if branch = sn_em_then(em, part ? some : d->all, "store");
        if (part || !store_rows(g, a, x)) store_lanes(g, a, x, part ? mask : NULL);
        sn_em_end(em, &branch);
        sn_gen_release(g, mark);
    }
}

static void store_storage(sn_gen *g, const access *a, lv x, lv mask) {
    if (g->lanes > 1 && (a->piece == 1 || mask)) {
        store_lanes(g, a, x, mask);
    } else if (a->piece == 0) {
        store_at(g, a, at_lane(g, a->e, 0), sn_em_lane(&g->em, x, g->lanes - 1)); /* the last iteration wins */
    } else {
        x = sn_em_splat(&g->em, x, g->lanes);
        for (uint32_t i = 0; i < g->lanes; i += a->piece) {
            lv part = sn_em_slice(&g->em, x, i, a->piece);
            store_at(g, a, at_piece(g, a, i, a->piece), a->reversed ? sn_em_reverse(&g->em, part) : part);
        }
    }
}

/* How many lanes of a vector are in front of the bound that they are tested against; NULL: the mask says something else. */
static lv lanes_in_front(sn_gen *g, sn_val mask) {
    const sn_stmt_rec *r = sn_stmt_get(g->m, sn_val_get(g->m, mask)->def);
    int64_t step;
    if (r->op != SN_LOP_IN) return NULL;
    sn_ix e = sn_gen_resolve(g, r->ix), bound = sn_gen_resolve(g, r->bound);
    if (!sn_ix_coef(g->m, e, g->lane_axis, &step) || step != 1 || sn_ix_range(g->m, e).lo < 0) return NULL;
    if (sn_ix_uses_axis(g->m, bound, g->lane_axis)) return NULL;
    sn_ix left = sn_ix_min(g->m, sn_ix_sub(g->m, bound, at_lane(g, e, 0)), sn_ix_const(g->m, g->lanes));
    return LLVMBuildIntCast2(g->em.b, sn_gen_ix(g, sn_ix_max(g->m, left, sn_ix_const(g->m, 0))), g->em.cg->i32, true,
                             "");
}

/* The store of a load that is an asynchronous copy; false when the pieces are no such size. */
static bool copied(sn_gen *g, const sn_stmt_rec *s, sn_stmt_rec *from) {
    sn_em *em = &g->em;
    access to = access_of(g, s), a = access_of(g, from);
    sn_val mask_id = sn_stmt_mask(from);
    lv mask = mask_id.i ? sn_gen_val(g, mask_id) : NULL, some = NULL, none = sn_em_ci(em->cg->i32, 0);
    uint32_t piece = g->lanes <= 1 ? 1 : to.piece < a.piece ? to.piece : a.piece;
    uint32_t bytes = piece * sn_dtype_bytes(a.b->dtype);
    if (bytes != 4 && bytes != 8 && bytes != 16) return false;
    if (piece > 1 && (a.reversed || to.reversed)) return false;
    if (mask && sn_em_lanes(mask) > 1) {
        lv lanes = piece == g->lanes ? lanes_in_front(g, mask_id) : NULL;
        if (!lanes) return false;
        some = em_imul(em, lanes, sn_em_i(em, lanes, sn_dtype_bytes(a.b->dtype)));
    } else if (mask) {
        some = em_select(em, mask, sn_em_ci(em->cg->i32, bytes), none);
    }
    if (g->ahead) some = em_select(em, g->ahead, some ? some : sn_em_ci(em->cg->i32, bytes), none);
    if (some) mask = em_icmp(em, LLVMIntNE, some, none);
    for (uint32_t i = 0; i < g->lanes; i += piece) {
        lv q = address(g, &to, at_lane(g, to.e, i)), p = address(g, &a, at_lane(g, a.e, i));
        /* A copy of no bytes reads none. What runs ahead stands among products, which an instruction less is worth. */
        if (mask && !g->runs_ahead) p = em_select(em, mask, p, g->memory[a.id.i]);
        sn_gen_copy_piece(g, q, p, bytes, some);
    }
    return true;
}

/* Stores of one region that fill all places between their elements. */
typedef struct woven {
    sn_stmt_rec *of[SN_MOST_APART]; /* by the place */
    int64_t least;                  /* the first place, behind the store that is asked about */
    sn_stmt_rec *last;              /* the one behind all others: there all of them are done */
} woven;

/* Offsets of the stores found, behind that of the one that is asked about. */
typedef struct found {
    sn_stmt_rec *at[SN_MOST_APART];
    int64_t behind[SN_MOST_APART];
    uint32_t n;
    bool asked; /* it is among them */
} found;

static bool put_in_places(woven *out, const found *f, int64_t step) {
    *out = (woven){.last = NULL};
    for (uint32_t i = 0; i < f->n; i++)
        if (f->behind[i] < out->least) out->least = f->behind[i];
    for (uint32_t i = 0; i < f->n; i++) {
        int64_t place = f->behind[i] - out->least;
        if (place >= step || out->of[place]) return false;
        out->of[place] = out->last = f->at[i];
    }
    return f->n == step;
}

/* Is s one of them? Nobody in between looks at the buffer. */
static bool is_woven(woven *out, sn_gen *g, const sn_stmt_rec *s, const access *a) {
    found f = {.n = 0};
    if (sn_stmt_mask(s).i || !lies_apart(g, a)) return false;
    sn_stmt t = s->parent.i ? sn_stmt_get(g->m, s->parent)->first : g->k->first;
    for (; t.i && !(f.asked && f.n == a->step); t = sn_stmt_get(g->m, t)->next) {
        sn_stmt_rec *r = sn_stmt_get(g->m, t);
        bool store = r->op == SN_LOP_STORE && !sn_stmt_mask(r).i, same = r->buf.i == s->buf.i;
        if (sn_lop_has_region(r->op) || (same && !store)) {
            if (f.asked) return false;
            f.n = 0;
            continue;
        }
        if (!same) continue;
        if (f.n == a->step) f.n = 0;
        sn_ix away = sn_ix_sub(g->m, sn_gen_resolve(g, r->ix), a->e);
        if (!sn_ix_is_const(g->m, away, &f.behind[f.n])) return false;
        f.at[f.n++] = r;
        f.asked |= r == s;
    }
    return f.asked && put_in_places(out, &f, a->step);
}

static void store_woven(sn_gen *g, const access *a, const woven *w) {
    lv x[SN_MOST_APART], parts[SN_MOST_APART];
    for (int64_t k = 0; k < a->step; k++) {
        x[k] = sn_math_to_storage(&g->em, a->b->dtype, sn_gen_val(g, w->of[k]->in[0]));
        x[k] = sn_em_splat(&g->em, x[k], g->lanes);
    }
    sn_gen_weave(&g->em, parts, x, (uint32_t)a->step);
    sn_ix first = at_lane(g, sn_ix_addc(g->m, a->e, w->least), 0);
    for (int64_t k = 0; k < a->step; k++) store_at(g, a, sn_ix_addc(g->m, first, k * g->lanes), parts[k]);
}

void sn_gen_store(sn_gen *g, sn_stmt_rec *s) {
    if (!g->gpu && g->lanes > 1) {
        woven w;
        access a = access_of(g, s);
        bool all = is_woven(&w, g, s, &a);
        if (all && w.last == s) store_woven(g, &a, &w);
        if (all) return;
    }
    if (g->copies && g->copies[s->in[0].i]) {
        sn_stmt_rec *from = sn_stmt_get(g->m, sn_val_get(g->m, s->in[0])->def);
        if (copied(g, s, from)) return;
        g->copies_all = false;
        load(g, from);
    }
    lv x = sn_math_to_storage(&g->em, sn_buf_get(g->m, s->buf)->dtype, sn_gen_val(g, s->in[0]));
    if (!g->run.lanes) {
        sn_gen_store_value(g, s, x);
        return;
    }
    g->run.stores[g->run.n_stored] = s;
    g->run.stored[g->run.n_stored++] = sn_em_splat(&g->em, x, g->run.lanes);
}

void sn_gen_store_value(sn_gen *g, sn_stmt_rec *s, lv x) {
    sn_val mask_id = sn_stmt_mask(s);
    lv mask = mask_id.i ? sn_gen_val(g, mask_id) : NULL;
    access a = access_of(g, s);
    lv cond = sn_gen_chosen_threads(g, a.b->scope);
    if (mask && sn_em_lanes(mask) == 1) cond = cond ? em_and(&g->em, cond, mask) : mask, mask = NULL;
    if (cond && em_is(cond, false)) return;
    if (cond && em_is(cond, true)) cond = NULL;
    uint32_t mark = sn_gen_mark(g);
    sn_em_if branch;
    dealt d;
    if (cond) branch = sn_em_then(&g->em, cond, "store");
    if (mask && takes_masks(g, &a)) access_masked(g, &a, x, mask_id, mask);
    else if (mask && is_dealt(g, &a, mask_id, &d)) store_dealt(g, &a, &d, x, mask);
    else if (mask && is_interval(g, &a, mask_id)) store_edges(g, &a, x, mask);
    else store_storage(g, &a, x, mask);
    if (cond) sn_em_end(&g->em, &branch), sn_gen_release(g, mark);
}
