/* load.c: loads.
 *
 * An access that is neither vectors nor one scalar (access.c) is one scalar load a lane, or on the CPU whole vectors of what
 * lies between (apart.c) and one instruction for places that lanes look up; on a GPU vectors that lie anywhere (unaligned.c) and
 * elements that groups of lanes share. A masked load reads an element of the buffer's beginning where the mask does not hold (that
 * address is always good) and selects, so that no branch separates the loads of a kernel. Where the lanes of a vector that may be loaded answer
 * differently (the ends of a row that vectors do not divide), it is loaded whole and selected from, unless it reaches over
 * the end of the buffer. Register buffers are stack arrays that SROA turns into registers; elements with constant numbers go
 * through registers.c. On a GPU elements of posted buffers are awaited one by one through posted.c.
 */
#include "codegen-llvm/access.h"

/* Where e is if the mask holds, and somewhere inside the buffer if not: on a GPU as far behind a place that neighbours have in common as e's
 * constant says, so that a thread selects one address for all of them, and instructions add the rest. (Buffers of segments, which share
 * code, may be of other sizes.) */
static lv masked_address(sn_gen *g, const sn_gen_access *a, sn_ix e, uint32_t lanes, lv mask) {
    sn_em *em = &g->em;
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0, size;
    sn_ix_terms(g->m, e, &terms, &c0, &one);
    int64_t place = c0 < 0 ? 1 : 0;
    while (place < -c0) place *= 2;
    int64_t at = place + c0;
    bool near = g->gpu && !g->segments && !a->b->swizzle && !sn_buf_is_local(a->b);
    near = near && sn_ix_is_const(g->m, a->b->size, &size);
    if (!near || at % lanes || at + lanes > size)
        return em_select(em, mask, sn_gen_address(g, a, e), g->memory[a->id.i]);
    lv otherwise = g->memory[a->id.i];
    if (place) otherwise = sn_gen_element(g, a->elem, otherwise, sn_em_ci(em->cg->i64, place));
    lv p = em_select(em, mask, sn_gen_address(g, a, sn_ix_addc(g->m, e, -c0)), otherwise);
    return c0 ? sn_gen_element(g, a->elem, p, sn_em_ci(em->cg->i64, c0)) : p;
}

static lv load_at(sn_gen *g, const sn_gen_access *a, sn_ix e, uint32_t lanes, lv mask) {
    int64_t first;
    if (!mask && sn_gen_are_registers(g, a, e, lanes, &first)) return sn_gen_register(g, a->id, first, lanes);
    lv p = mask ? masked_address(g, a, e, lanes, mask) : sn_gen_address(g, a, e);
    lv x = LLVMBuildLoad2(g->em.b, sn_em_shape(a->elem, lanes), p, "");
    LLVMSetAlignment(x, sn_gen_alignment(a, lanes, g->gpu));
    if (g->gpu && g->steady[a->id.i] && !g->waits_late && !a->once) {
        LLVMContextRef cx = g->em.cg->cx;
        LLVMMetadataRef node = LLVMMDNodeInContext2(cx, NULL, 0);
        LLVMSetMetadata(x, LLVMGetMDKindIDInContext(cx, "invariant.load", 14), LLVMMetadataAsValue(cx, node));
    }
    return x;
}

static lv load_lanes(sn_gen *g, const sn_gen_access *a, lv mask) {
    lv all = LLVMGetPoison(sn_em_shape(a->elem, g->lanes));
    for (uint32_t i = 0; i < g->lanes; i++) {
        g->pick = (int)i;
        lv x = load_at(g, a, sn_gen_at_lane(g, a->e, i), 1, mask ? sn_em_lane(&g->em, mask, i) : NULL);
        all = sn_em_with_lane(&g->em, all, i, x);
    }
    g->pick = -1;
    return all;
}

static lv load_pieces(sn_gen *g, const sn_gen_access *a, lv mask) {
    lv all[SN_GEN_LANES] = {NULL};
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->lanes; i += a->piece) {
        all[n] = load_at(g, a, sn_gen_at_piece(g, a, i, a->piece), a->piece, mask);
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
static lv load_apart(sn_gen *g, const sn_gen_access *a) {
    enum { MOST_STEP = 4 };
    lv places[SN_GEN_LANES];
    int64_t step = a->step, size = a->b->private_size;
    if (g->gpu || a->piece != 1 || step < 2 || step > MOST_STEP || !sn_buf_is_local(a->b)) return NULL;
    sn_range r = sn_ix_range(g->m, a->e);
    if (r.lo < 0 || r.hi + step > size || g->lanes * step > SN_GEN_LANES) return NULL;
    lv all = load_at(g, a, sn_gen_at_lane(g, a->e, 0), (uint32_t)(g->lanes * step), NULL);
    for (uint32_t i = 0; i < g->lanes; i++) places[i] = sn_em_ci(g->em.cg->i32, i * step);
    return LLVMBuildShuffleVector(g->em.b, all, LLVMGetPoison(LLVMTypeOf(all)), LLVMConstVector(places, g->lanes), "");
}

static int64_t parts_of(int64_t size, int64_t lanes) { return (size + lanes - 1) / lanes; }

/* What the region loads within a step of a: how far before and behind it. Not where that takes a part, and a shuffle, more. */
static void find_neighbours(int64_t *before, int64_t *behind, sn_gen *g, const sn_gen_access *a) {
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
static lv load_between(sn_gen *g, const sn_gen_access *a) {
    lv parts[SN_MOST_APART];
    int64_t lanes = g->lanes, before, behind;
    find_neighbours(&before, &behind, g, a);
    int64_t size = before + (lanes - 1) * a->step + 1 + behind, n = parts_of(size, lanes);
    sn_ix first = sn_ix_addc(g->m, sn_gen_at_lane(g, a->e, 0), -before);
    for (int64_t k = 0; k < n; k++)
        parts[k] = load_at(g, a, sn_ix_addc(g->m, first, k + 1 < n ? k * lanes : size - lanes), g->lanes, NULL);
    return sn_gen_pick_apart(&g->em, parts, (uint32_t)size, (uint32_t)before, (uint32_t)a->step);
}

/* ---- elements wherever they are, of the CPU ---- */

/* Does each lane say itself where its element is? */
static bool lies_anywhere(sn_gen *g, const sn_gen_access *a) {
    return !g->gpu && a->piece == 1 && !g->run.lanes && !sn_buf_is_local(a->b) && sn_gen_values_vary(g, a->e);
}

/* Places of all lanes, computed for all at once, behind one that they share (*base). As numbers of 32 bits they are half as many
 * registers, and the instruction that loads by them takes whole vectors; what such a number is a sum of may be narrow before. */
static lv places_of(sn_gen *g, const sn_gen_access *a, lv *base) {
    sn_em *em = &g->em;
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(g->m, a->e, &terms, &c0, &one);
    sn_ix shared = sn_ix_const(g->m, c0), own = sn_ix_const(g->m, 0);
    for (uint32_t k = 0; k < n; k++) {
        bool varies = sn_ix_uses_axis(g->m, terms[k].atom, g->lane_axis) || sn_gen_values_vary(g, terms[k].atom);
        sn_ix *part = varies ? &own : &shared;
        *part = sn_ix_add(g->m, *part, sn_ix_scale(g->m, terms[k].atom, terms[k].c));
    }
    sn_range r = sn_ix_range(g->m, own);
    lv first = sn_gen_ix(g, shared); /* no element's place by itself */
    *base = LLVMBuildGEP2(em->b, a->elem, sn_gen_memory(g, a->id), &first, 1, "");
    if (r.lo < INT32_MIN || r.hi > INT32_MAX || g->index != em->cg->i64)
        return sn_em_splat(em, sn_gen_ix(g, own), g->lanes);
    lv sum = NULL;
    LLVMTypeRef narrow = sn_em_shape(em->cg->i32, g->lanes);
    n = sn_ix_terms(g->m, own, &terms, &c0, &one);
    for (uint32_t k = 0; k < n; k++) {
        lv x = LLVMBuildTrunc(em->b, sn_em_splat(em, sn_gen_ix(g, terms[k].atom), g->lanes), narrow, "");
        if (terms[k].c != 1) x = em_imul(em, x, sn_em_i(em, x, (int32_t)terms[k].c));
        sum = sum ? em_iadd(em, sum, x) : x;
    }
    return sum;
}

/* By one instruction, where there is one: elements that masked lanes do not have are not read. */
static lv gather(sn_gen *g, const sn_gen_access *a, lv base, lv at, lv mask) {
    sn_em *em = &g->em;
    lv p = LLVMBuildGEP2(em->b, a->elem, base, &at, 1, "");
    lv yes = LLVMConstInt(em->cg->i1, 1, 0);
    LLVMTypeRef types[2] = {sn_em_shape(a->elem, g->lanes), LLVMTypeOf(p)};
    lv args[3] = {p, sn_em_splat(em, mask ? mask : yes, g->lanes), LLVMGetPoison(types[0])};
    lv fn = LLVMGetIntrinsicDeclaration(em->mod, LLVMLookupIntrinsicID("llvm.masked.gather", 18), types, 2);
    lv call = LLVMBuildCall2(em->b, LLVMGlobalGetValueType(fn), fn, args, 3, "");
    unsigned align = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMAddCallSiteAttribute(call, 1, LLVMCreateEnumAttribute(em->cg->cx, align, sn_dtype_bytes(a->b->dtype)));
    return call;
}

static lv load_scattered(sn_gen *g, const sn_gen_access *a, lv mask) {
    sn_em *em = &g->em;
    lv base, at = places_of(g, a, &base), all = LLVMGetPoison(sn_em_shape(a->elem, g->lanes));
    if (em->cg->target->avx512 && sn_dtype_bytes(a->b->dtype) >= 4) return gather(g, a, base, at, mask);
    for (uint32_t i = 0; i < g->lanes; i++) {
        lv own = sn_em_lane(em, at, i), p = LLVMBuildGEP2(em->b, a->elem, base, &own, 1, "");
        if (mask) p = em_select(em, sn_em_lane(em, mask, i), p, g->memory[a->id.i]);
        lv x = LLVMBuildLoad2(em->b, a->elem, p, "");
        LLVMSetAlignment(x, sn_gen_alignment(a, 1, false));
        all = sn_em_with_lane(em, all, i, x);
    }
    return all;
}

/* An interval no shorter than the vector has one of its ends, or no lane; where two meet it may be in the middle. */
static lv any_lane(sn_gen *g, sn_val mask_id, lv mask) {
    if (sn_gen_lane_tests(g, mask_id) > 1) return sn_em_any(&g->em, mask);
    return em_or(&g->em, sn_em_lane(&g->em, mask, 0), sn_em_lane(&g->em, mask, g->lanes - 1));
}

/* Every offset inside the buffer holds what the access may read, whether it is wanted or not. */
static bool always_inside(sn_gen *g, const sn_gen_access *a) {
    int64_t size = a->b->private_size;
    if (sn_gen_is_posted(g, a)) return false;
    if (!g->gpu && !sn_ix_is_const(g->m, a->b->size, &size)) return false;
    sn_range r = sn_ix_range(g->m, a->e);
    return sn_buf_is_local(a->b) && r.lo >= 0 && r.hi < size;
}

/* Masked lanes of aligned vectors, which start inside the buffer: only the one that reaches over its end is loaded lane
 * by lane. NULL: no such vectors. */
static lv load_edges(sn_gen *g, const sn_gen_access *a, sn_val mask_id, lv mask) {
    sn_em *em = &g->em;
    int64_t size, piece = a->piece;
    lv all = NULL, any = any_lane(g, mask_id, mask);
    if (!sn_ix_is_const(g->m, a->b->size, &size) || size < piece) return NULL;
    sn_ix first = sn_gen_at_piece(g, a, 0, a->piece);
    if (!sn_ix_is_multiple(g->m, first, piece) || sn_ix_range(g->m, first).lo <= -piece) return NULL;
    for (uint32_t i = 0; i < g->lanes; i += a->piece) {
        sn_ix e = sn_gen_at_piece(g, a, i, a->piece);
        bool inside = g->fits || sn_ix_range(g->m, e).hi <= size - piece;
        lv at = sn_gen_ix(g, e), fits = inside ? any : em_icmp(em, LLVMIntULE, at, sn_em_i(em, at, size - piece));
        lv x = load_at(g, a, e, a->piece, em_and(em, any, fits));
        if (!inside) {
            uint32_t mark = sn_gen_mark(g);
            sn_em_if over = sn_em_then(em, em_and(em, any, LLVMBuildNot(em->b, fits, "")), "end");
            lv y = LLVMGetPoison(LLVMTypeOf(x));
            for (uint32_t j = 0; j < a->piece; j++) {
                lv one = load_at(g, a, sn_gen_at_lane(g, a->e, i + j), 1, sn_em_lane(em, mask, i + j));
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
static lv load_posted(sn_gen *g, const sn_gen_access *a, lv mask) {
    lv elements[SN_GEN_LANES], wanted[SN_GEN_LANES], out[SN_GEN_LANES];
    uint32_t n = a->piece || (mask && sn_em_lanes(mask) > 1) ? g->lanes : 1;
    for (uint32_t i = 0; i < n; i++) {
        g->pick = n > 1 ? (int)i : -1;
        elements[i] = sn_gen_ix(g, sn_gen_at_lane(g, a->e, i));
        wanted[i] = mask ? sn_em_lane(&g->em, mask, i) : NULL;
    }
    g->pick = -1;
    sn_gen_await(g, a->id, elements, wanted, n, out);
    lv all = n > 1 ? LLVMGetPoison(sn_em_shape(a->elem, n)) : out[0];
    for (uint32_t i = 0; i < n && n > 1; i++) all = sn_em_with_lane(&g->em, all, i, out[i]);
    return all;
}

/* Where neighbours have the same element: `size` of them, which end where the position of the lane is a multiple of that. */
typedef struct lane_groups {
    sn_module *m;
    sn_ix at;
    int64_t size; /* 0: none was found yet */
    bool mixed;   /* others end elsewhere */
} lane_groups;

static void note_group(void *user, sn_ix at, int64_t size) {
    lane_groups *lg = user;
    if (!lg->size) lg->at = at, lg->size = size;
    lg->mixed |= !sn_ix_eq(lg->at, at) || (size % lg->size && lg->size % size);
    if (size < lg->size) lg->size = size;
}

/* Lanes of which one is loaded: the first of each group, if the first lane began one, and the last lane, whose group is another. */
static uint32_t leading_lanes(const sn_gen *g, int64_t size) {
    return (uint32_t)((g->lanes - 1) / size) + 1 + ((g->lanes - 1) % size != 0);
}

/* Do lanes that are neighbours have one element, as those of a channel have a weight in rows, or rows of vectors, that begin anywhere:
 * `k * (position div size) + ..`? So many of them that few are loaded. */
static bool find_groups(lane_groups *lg, sn_gen *g, const sn_gen_access *a) {
    int64_t step, n;
    *lg = (lane_groups){.m = g->m};
    if (!g->gpu || a->piece != 1 || sn_buf_is_local(a->b) || a->b->swizzle || !sn_ix_is_const(g->m, a->b->size, &n))
        return false;
    if (g->lanes <= 2 || n < 1 || sn_ix_uses_vals(g->m, a->e)) return false;
    if (!sn_ix_run(g->m, a->e, g->lane_axis, &step, note_group, lg) || step || lg->mixed || lg->size < 2) return false;
    return 2 * leading_lanes(g, lg->size) <= g->lanes;
}

/* The element of a lane, or of one inside where not all lanes are wanted. */
static lv load_within(sn_gen *g, const sn_gen_access *a, uint32_t lane, bool all) {
    sn_ix e = sn_gen_at_lane(g, a->e, lane), last = sn_ix_const(g->m, sn_ix_value(g->m, a->b->size) - 1);
    return load_at(g, a, all ? e : sn_ix_min(g->m, sn_ix_max(g->m, e, sn_ix_const(g->m, 0)), last), 1, NULL);
}

/* Of lanes from number k * size on, those up to the end of its group have what it has, the others what the next one that is loaded has. NULL:
 * they are no groups. */
static lv load_groups(sn_gen *g, const sn_gen_access *a, lv mask) {
    sn_em *em = &g->em;
    lane_groups lg;
    lv of[SN_GEN_LANES];
    if (!find_groups(&lg, g, a)) return NULL;
    uint32_t n = leading_lanes(g, lg.size), size = lg.size < g->lanes ? (uint32_t)lg.size : g->lanes;
    sn_ix first = sn_gen_at_lane(g, lg.at, 0),
          left = sn_ix_sub(g->m, sn_ix_const(g->m, lg.size), sn_ix_modc(g->m, first, lg.size));
    for (uint32_t k = 0; k < n; k++) of[k] = load_within(g, a, k * size < g->lanes ? k * size : g->lanes - 1, !mask);
    lv end = sn_gen_ix(g, left), all = LLVMGetPoison(sn_em_shape(a->elem, g->lanes));
    for (uint32_t i = 0; i < g->lanes; i++) {
        uint32_t k = i / size;
        lv x = of[k];
        if (i % size) x = em_select(em, em_icmp(em, LLVMIntULT, sn_em_i(em, end, i % size), end), x, of[k + 1]);
        all = sn_em_with_lane(em, all, i, x);
    }
    return all;
}

/* Of a row whose vectors begin before it (passes/schedule/rows/inner.c), a weight, say, which begins elsewhere: halves one by one take an
 * instruction each. Where threads only add up what they load, they have time for that: amax of bf16[7, 9999999] takes 30 % longer
 * by pieces, an RMS norm of f16[128, 176427] 22 % less. */
static bool is_beside(sn_gen *g, const sn_gen_access *a, sn_val mask) {
    uint32_t bytes = sn_dtype_bytes(a->b->dtype);
    int64_t size;
    bool inner = g->gpu && g->k->sched.cls == SN_SCHED_INNER && !sn_buf_is_local(a->b) && !sn_gen_is_posted(g, a);
    bool apart = a->piece && a->piece < g->lanes;
    if (!inner || a->summed || bytes != 2 || g->lanes * bytes < 8 || a->step != 1 || !apart) return false;
    if (!g->steady[a->id.i] || !sn_ix_is_const(g->m, a->b->size, &size) || size * bytes < 64) return false;
    return !mask.i || sn_em_lanes(sn_gen_val(g, mask)) == 1 || sn_gen_lane_tests(g, mask) < SN_GEN_NO_INTERVAL;
}

/* Of a tile whose schedule has runs: neighbours in one vector that is not aligned; what is behind them is there (tile_bind.c). */
static bool is_anywhere(sn_gen *g, const sn_gen_access *a, sn_val mask) {
    uint32_t bytes = sn_dtype_bytes(a->b->dtype);
    int64_t size;
    bool wide = g->lanes > 1 && bytes < 4 && g->lanes * bytes >= 4 && !(g->lanes & (g->lanes - 1));
    bool tile = g->k->sched.runs && g->k->sched.cls == SN_SCHED_TILE && !sn_buf_is_local(a->b);
    if (!tile || !wide || a->step != 1 || (g->gpu && a->piece == g->lanes)) return false;
    if (!sn_ix_is_const(g->m, a->b->size, &size)) return false;
    return !mask.i || sn_em_lanes(sn_gen_val(g, mask)) == 1 || sn_gen_lane_tests(g, mask) < SN_GEN_NO_INTERVAL;
}

/* Of columns of bytes or halves whose rows no words begin (passes/schedule/rows/outer_odd.c). */
static bool is_odd_column(sn_gen *g, const sn_gen_access *a, sn_val mask) {
    enum { LEAST = 64, VECTOR = 8, WIDEST = 2 };
    uint32_t bytes = sn_dtype_bytes(a->b->dtype);
    int64_t size;
    bool outer = g->gpu && g->k->sched.cls == SN_SCHED_OUTER && !sn_buf_is_local(a->b) && !sn_gen_is_posted(g, a);
    if (!outer || bytes > WIDEST || g->lanes * bytes != VECTOR || a->step != 1 || a->piece != 1) return false;
    if (!g->steady[a->id.i] || !sn_ix_is_const(g->m, a->b->size, &size) || size * bytes < LEAST) return false;
    return !mask.i || sn_em_lanes(sn_gen_val(g, mask)) == 1;
}

bool sn_gen_loads_odd_columns(sn_gen *g, const sn_stmt_rec *s) {
    if (!g->gpu || g->k->sched.cls != SN_SCHED_OUTER || s->op != SN_LOP_LOAD) return false;
    sn_gen_access a = sn_gen_access_of(g, s);
    return is_odd_column(g, &a, (sn_val){0});
}

static lv load_anywhere(sn_gen *g, const sn_gen_access *a, sn_val mask_id, lv mask, bool near) {
    lv wanted = mask && sn_em_lanes(mask) > 1 ? any_lane(g, mask_id, mask) : mask;
    return sn_gen_load_anywhere(g, a->id, sn_gen_at_lane(g, a->e, 0), g->lanes, wanted, near);
}

static lv load_storage(sn_gen *g, const sn_gen_access *a, sn_val mask_id, lv mask) {
    if (sn_gen_is_posted(g, a)) return load_posted(g, a, mask);
    if (is_anywhere(g, a, mask_id)) return load_anywhere(g, a, mask_id, mask, true);
    if (is_beside(g, a, mask_id)) return load_anywhere(g, a, mask_id, mask, sn_gen_is_near(g, a->id, a->e, mask_id));
    if (is_odd_column(g, a, mask_id))
        return load_anywhere(g, a, mask_id, mask, g->near || sn_gen_is_near(g, a->id, a->e, mask_id));
    lv groups = load_groups(g, a, mask);
    if (groups) return groups;
    if (mask && always_inside(g, a)) mask = NULL;
    if (lies_anywhere(g, a)) return load_scattered(g, a, mask);
    if (mask && sn_em_lanes(mask) > 1) {
        if (sn_gen_takes_masks(g, a)) return sn_gen_access_masked(g, a, NULL, mask_id, mask);
        if (!g->gpu && !a->piece) return load_at(g, a, sn_gen_at_lane(g, a->e, 0), 1, sn_em_any(&g->em, mask));
        lv x = !a->reversed && sn_gen_is_interval(g, a, mask_id) ? load_edges(g, a, mask_id, mask) : NULL;
        return x ? x : load_lanes(g, a, mask);
    }
    if (a->piece == 0) return load_at(g, a, sn_gen_at_lane(g, a->e, 0), 1, mask);
    lv apart = mask ? NULL : load_apart(g, a);
    if (apart) return apart;
    if (!mask && sn_gen_lies_apart(g, a)) return load_between(g, a);
    return a->piece == 1 ? load_lanes(g, a, mask) : load_pieces(g, a, mask);
}

void sn_gen_load_value(sn_gen *g, sn_stmt_rec *s) {
    sn_val mask_id = sn_stmt_mask(s);
    lv mask = mask_id.i ? sn_gen_val(g, mask_id) : NULL;
    sn_gen_access a = sn_gen_access_of(g, s);
    int64_t size;
    lv otherwise = mask ? sn_gen_val(g, s->in[1]) : NULL;
    bool none = mask && LLVMIsConstant(mask) && LLVMIsNull(mask); /* known not to hold (interior.c) */
    if (none || (mask && !sn_buf_is_local(a.b) && sn_ix_is_const(g->m, a.b->size, &size) && size == 0)) {
        g->vals[s->result.i] = otherwise;
        return;
    }
    if (mask && em_is(mask, true)) mask = NULL;
    lv x = sn_math_from_storage(&g->em, a.b->dtype, sn_gen_as_words(g, &a, load_storage(g, &a, mask_id, mask)));
    g->vals[s->result.i] = mask ? sn_em_choose(&g->em, mask, x, otherwise) : x;
}

void sn_gen_load(sn_gen *g, sn_stmt_rec *s) {
    if (g->copies && g->copies[s->result.i]) return; /* the store copies */
    if (!sn_gen_run_load(g, s)) sn_gen_load_value(g, s);
}
