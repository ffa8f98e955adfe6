/* interior.c: iterations of a loop that no edge touches.
 *
 * Where vectors start before a row and end behind it, each lane has its own test (passes/schedule/rows/inner.c), which only fails
 * in the first iteration and the last one. Written out, the others are known to hold; in a loop that counts, the region
 * is translated twice:
 *
 *     if (the tests hold at the smallest position of the iteration and at the largest) { region, tests are true }
 *     else { region }
 *
 * Where lanes own columns the vector stands around the loop; it is the same with columns that are no whole vectors in all
 * (split_reduction.c).
 *
 * So it is where a thread of a scan has steps that are written out: they are one region, whose loads go together as long as
 * no edge touches any of them. And where the loop stands inside of the lanes, whose columns have as many rows but for some:
 * those of a wide column (passes/loops/split_reduction.c), of which the last row is not whole.
 *
 * And where a whole block scans, or has a part in its registers that it reduces twice, whether all positions of its part, or of
 * an iteration, are inside is the same for all its threads. So all it does is translated twice, barriers included: few hold an end
 * of the row.
 *
 * Weights of odd rows are read by pieces that reach over them (unaligned.c): there the tests have to hold for as many positions more, and nobody asks
 * for the ends of the weights.
 *
 * The region of the edges is translated twice, too: a vector of which some lanes stand outside of the row is loaded whole unless it reaches over the
 * end of the buffer. Where none of an iteration does, which is so but for the last row, no load asks, and none waits for the one before it:
 *
 *     if (the tests hold ..) { region, tests are true } else if (all vectors lie in their buffers) { region, whole loads } else { region }
 *
 * Columns of bytes and halves that begin anywhere (passes/schedule/rows/outer_odd.c) are read by pieces, too: there the test is whether the pieces
 * around all those of an iteration lie in the buffer.
 *
 * On the CPU other tests of positions come along, and each is taken for what it mostly answers: the first column of a
 * concatenation is mostly not reached, nor is a border that a comparison with a constant tells apart.
 *
 *     in j, 1        no    -> 1 <= j            one comparison of the first position for all tests of j:
 *     in j - 1, 510  yes   -> 1 <= j, j < 511   in first - 1, 510 - (last - first)
 *     j = 511        no    -> j < 511
 */
#include "codegen-llvm/access.h"
#include "codegen-llvm/gen.h"

enum { MAX_INNER = 4, MAX_TESTS = 8, MAX_PLACES = 4, RARELY = 8 };

/* The written-out loops inside the region around a statement, up to `loop`: their axes, first and last positions. Lanes that own
 * columns stand around the loop, and are counted like those inside. */
typedef struct inner_axes {
    sn_axis at[MAX_INNER];
    sn_ix first[MAX_INNER], last[MAX_INNER];
    uint32_t n;
    int64_t lanes;
} inner_axes;

static void add_inner(inner_axes *in, sn_gen *g, sn_axis ax, int64_t n) {
    in->at[in->n] = ax;
    in->first[in->n] = sn_ix_const(g->m, 0);
    in->last[in->n++] = sn_ix_const(g->m, n - 1);
}

/* Lanes around the loop are one of them. */
static bool find_inner(inner_axes *in, sn_gen *g, sn_stmt s, const sn_stmt_rec *loop) {
    *in = (inner_axes){.lanes = g->lanes};
    if (g->lanes > 1) add_inner(in, g, g->lane_axis, g->lanes);
    for (const sn_stmt_rec *r = sn_stmt_get(g->m, sn_stmt_get(g->m, s)->parent); r != loop;
         r = sn_stmt_get(g->m, r->parent)) {
        int64_t n = r->axis.i ? sn_gen_extent(g, r->axis) : -1;
        if (n < 1 || in->n == MAX_INNER) return false;
        if (r->kind == SN_AXIS_VECTOR) in->lanes = n;
        add_inner(in, g, r->axis, n);
    }
    return true;
}

/* The first and last position of e in the inner axes, in each of which it is monotone. */
static bool find_ends(sn_ix *first, sn_ix *last, sn_gen *g, sn_ix e, const inner_axes *in) {
    sn_ix low[MAX_INNER], high[MAX_INNER];
    int64_t c;
    if (sn_ix_uses_vals(g->m, e)) return false;
    for (uint32_t k = 0; k < in->n; k++) {
        if (!sn_ix_coef(g->m, e, in->at[k], &c)) return false;
        low[k] = c < 0 ? in->last[k] : in->first[k];
        high[k] = c < 0 ? in->first[k] : in->last[k];
    }
    *first = sn_ix_subst(g->m, e, in->at, low, in->n);
    *last = sn_ix_subst(g->m, e, in->at, high, in->n);
    return true;
}

/* Is so much done with each element that what a test leaves out is better not selected in each iteration? */
static bool is_much(const sn_stmt_rec *loop) {
    if (loop->op != SN_LOP_REDUCE || loop->kind != SN_AXIS_SEQ) return false;
    for (uint32_t c = 0; c < loop->n_combs; c++)
        if (sn_combs[loop->combs[c]].states > 1) return true;
    return false;
}

/* Does the test of s differ between lanes, or is it better asked once, and is it monotone in the inner axes? Its first and last position. */
static bool is_edge_test(sn_gen *g, sn_stmt s, const sn_stmt_rec *loop, sn_ix *first, sn_ix *last) {
    const sn_stmt_rec *r = sn_stmt_get(g->m, s);
    inner_axes in;
    if (r->op != SN_LOP_IN) return false;
    sn_ix e = sn_gen_resolve(g, r->ix), bound = sn_gen_resolve(g, r->bound);
    if (sn_ix_uses_vals(g->m, bound) || !find_inner(&in, g, s, loop) || in.lanes == 1) return false;
    for (uint32_t k = 0; k < in.n; k++)
        if (sn_ix_uses_axis(g->m, bound, in.at[k])) return false;
    if (!find_ends(first, last, g, e, &in)) return false;
    return (g->gpu && is_much(loop)) || !sn_ix_is_multiple(g->m, *first, in.lanes) ||
           !sn_ix_is_multiple(g->m, bound, in.lanes);
}

static sn_stmt behind(const sn_gen *g, const sn_stmt_rec *loop) {
    return loop->last.i ? sn_stmt_walk_skip(g->m, loop->last) : loop->last;
}

/* Threads may go either way, so nothing in the region may wait for others; and only the innermost loop has two
 * versions. */
static bool can_have_two(sn_gen *g, const sn_stmt_rec *loop) {
    for (sn_stmt s = loop->first, end = behind(g, loop); s.i && s.i != end.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        bool written_out = r->kind == SN_AXIS_UNROLL || r->kind == SN_AXIS_VECTOR;
        if (sn_lops[r->op].syncs || sn_lops[r->op].ordered || r->op == SN_LOP_IF || (r->axis.i && !written_out))
            return false;
    }
    return true;
}

/* ---- tests that are known to hold ---- */

/* Weights of odd rows are read by pieces that reach over what is wanted (unaligned.c): positions by which they may. None where a
 * test is known already, here or around the loop: nobody has asked that of it. */
static int64_t wanted_beyond(const sn_gen *g, const sn_stmt_rec *loop) {
    enum { PIECE = 16, HALF = 2 /* what such pieces are read of (is_beside, load.c) */ };
    int64_t wanted = 0;
    if (!g->gpu || loop->op != SN_LOP_LOOP || g->k->sched.cls != SN_SCHED_INNER) return 0;
    for (sn_stmt s = loop->first, end = behind(g, loop); s.i && s.i != end.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->op == SN_LOP_IN && g->known[r->result.i]) return 0;
        if (r->op != SN_LOP_LOAD || !r->has_mask) continue;
        if (g->known[sn_stmt_mask(r).i]) return 0;
        const sn_buf_rec *b = sn_buf_get(g->m, r->buf);
        if (!sn_buf_is_local(b) && sn_dtype_bytes(b->dtype) == HALF) wanted = PIECE / HALF - 1;
    }
    return wanted;
}

/* The condition under which all edge tests hold, and would *beyond positions behind the last one; NULL: there are none. Their values are marked. */
static lv all_hold(int64_t *beyond, sn_gen *g, const sn_stmt_rec *loop) {
    lv all = NULL;
    *beyond = wanted_beyond(g, loop);
    sn_ix seen[MAX_TESTS][2], bound[MAX_TESTS], pair[2];
    uint32_t n = 0;
    for (sn_stmt s = loop->first, end = behind(g, loop); s.i && s.i != end.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (g->known[r->result.i] || n == MAX_TESTS || !is_edge_test(g, s, loop, &pair[0], &pair[1])) continue;
        g->known[r->result.i] = SN_GEN_HOLDS;
        bound[n] = r->bound;
        for (uint32_t k = 0; k < 2; k++) {
            bool known = false;
            seen[n][k] = pair[k];
            for (uint32_t i = 0; i < n; i++) known |= sn_ix_eq(seen[i][k], pair[k]) && sn_ix_eq(bound[i], r->bound);
            lv in = known ? NULL : sn_gen_in(g, k ? sn_ix_addc(g->m, pair[k], *beyond) : pair[k], r->bound);
            all = !in ? all : all ? em_and(&g->em, all, in) : in;
        }
        n++;
    }
    return all;
}

/* ---- blocks that no edge touches ---- */

/* Does the test of s say whether an element of the block is inside, in a way that its ends tell? One of threads alone, or
 * of the block's number alone, says something else. */
static bool is_range_test(sn_gen *g, sn_stmt s, const sn_stmt_rec *grid, sn_ix *first, sn_ix *last) {
    const sn_stmt_rec *r = sn_stmt_get(g->m, s);
    inner_axes in;
    int64_t n;
    if (r->op != SN_LOP_IN || g->known[r->result.i] || !sn_ix_is_const(g->m, r->bound, &n)) return false;
    if (!find_inner(&in, g, s, grid)) return false;
    sn_ix e = sn_gen_resolve(g, r->ix);
    int64_t span, at;
    if (!find_ends(first, last, g, e, &in) || sn_ix_eq(*first, *last) || sn_ix_is_const(g->m, *first, &at))
        return false;
    return !sn_ix_is_const(g->m, sn_ix_sub(g->m, *last, *first), &span) || span < n; /* or else some never are */
}

static lv all_inside(sn_gen *g, const sn_stmt_rec *grid) {
    lv all = NULL;
    sn_ix first, last, bound = {0};
    for (sn_stmt s = grid->first, end = behind(g, grid); s.i && s.i != end.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        bool of_part = g->scans || sn_kern_posts(g->m, g->kern) ||
                       sn_stmt_get(g->m, r->parent)->op == SN_LOP_REDUCE; /* or of columns or rows */
        if (!of_part || !is_range_test(g, s, grid, &first, &last) || (bound.i && !sn_ix_eq(r->bound, bound))) continue;
        bound = r->bound;
        lv in = em_and(&g->em, sn_gen_in(g, first, bound), sn_gen_in(g, last, bound));
        all = all ? em_and(&g->em, all, in) : in;
        g->known[r->result.i] = SN_GEN_HOLDS;
    }
    return all;
}

/* ---- tests of the CPU that are known either way ---- */

/* A test with numbers: lo <= e < hi, or its contrary. */
typedef struct interval {
    sn_ix e;
    int64_t lo, hi;
    bool contrary;
} interval;

static bool find_constant(const sn_gen *g, sn_val v, int64_t *out) {
    const sn_stmt_rec *r = sn_stmt_get(g->m, sn_val_get(g->m, v)->def);
    *out = r->op == SN_LOP_CONST ? r->i : 0;
    return r->op == SN_LOP_CONST && *out > INT32_MIN && *out < INT32_MAX;
}

static sn_lop turned(sn_lop op) {
    return op == SN_LOP_LT ? SN_LOP_GT : op == SN_LOP_LE ? SN_LOP_GE : op == SN_LOP_GT ? SN_LOP_LT : SN_LOP_LE;
}

/* An index beside a constant. */
static bool find_comparison(interval *out, sn_gen *g, const sn_stmt_rec *r) {
    int64_t c;
    sn_lop op = r->op;
    if (r->n_in != 2 || (op != SN_LOP_EQ && op != SN_LOP_NE && op != SN_LOP_LT && op != SN_LOP_LE && op != SN_LOP_GT &&
                         op != SN_LOP_GE))
        return false;
    sn_val x = r->in[0], y = r->in[1];
    sn_dtype t = sn_val_get(g->m, x)->dtype;
    if (t != SN_I64 && t != SN_I32) return false;
    if (find_constant(g, x, &c)) {
        sn_val swap = x;
        x = y, y = swap;
        if (op != SN_LOP_EQ && op != SN_LOP_NE) op = turned(op);
    }
    const sn_stmt_rec *index = sn_stmt_get(g->m, sn_val_get(g->m, x)->def);
    if (index->op != SN_LOP_INDEX || !find_constant(g, y, &c)) return false;
    bool equal = op == SN_LOP_EQ || op == SN_LOP_NE;
    out->e = sn_gen_resolve(g, index->ix);
    out->lo = equal ? c : INT32_MIN;
    out->hi = equal || op == SN_LOP_LE || op == SN_LOP_GT ? c + 1 : c;
    out->contrary = op == SN_LOP_NE || op == SN_LOP_GT || op == SN_LOP_GE;
    return true;
}

static bool find_interval(interval *out, sn_gen *g, const sn_stmt_rec *r) {
    *out = (interval){0};
    if (r->op != SN_LOP_IN) return find_comparison(out, g, r);
    out->e = sn_gen_resolve(g, r->ix);
    return sn_ix_is_const(g->m, sn_gen_resolve(g, r->bound), &out->hi) && out->hi > 0 && out->hi < INT32_MAX;
}

/* First positions less their constants, and what they may be in an iteration without edges: lo <= place < hi. */
typedef struct places {
    sn_ix at[MAX_PLACES];
    int64_t lo[MAX_PLACES], hi[MAX_PLACES];
    uint32_t n;
} places;

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static bool limit_place(places *ps, sn_gen *g, sn_ix first, int64_t lo, int64_t hi) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t k = 0;
    sn_ix_terms(g->m, first, &terms, &c0, &one);
    sn_ix at = sn_ix_addc(g->m, first, -c0);
    lo -= c0, hi -= c0;
    while (k < ps->n && !sn_ix_eq(ps->at[k], at)) k++;
    if (k == MAX_PLACES) return false;
    int64_t low = k < ps->n ? larger(lo, ps->lo[k]) : lo, high = k < ps->n ? lesser(hi, ps->hi[k]) : hi;
    if (low >= high) return false;
    ps->at[k] = at, ps->lo[k] = low, ps->hi[k] = high;
    if (k == ps->n) ps->n++;
    return true;
}

/* What the test mostly answers, if places can tell that it does. One that is the same for all lanes costs little where it
 * stands: only where it hardly ever answers otherwise. *lanes: it differs between them. */
static sn_gen_known mostly(places *ps, bool *lanes, sn_gen *g, sn_stmt s, const sn_stmt_rec *loop) {
    interval t;
    inner_axes in;
    sn_ix first, last;
    int64_t span;
    if (!find_interval(&t, g, sn_stmt_get(g->m, s)) || !find_inner(&in, g, s, loop)) return SN_GEN_OPEN;
    if (!find_ends(&first, &last, g, t.e, &in) || !sn_ix_is_const(g->m, sn_ix_sub(g->m, last, first), &span))
        return SN_GEN_OPEN;
    sn_range r = sn_ix_range(g->m, t.e);
    if (r.lo <= INT32_MIN || r.hi >= INT32_MAX) return SN_GEN_OPEN;
    int64_t all = r.hi - r.lo + 1, inside = larger(0, lesser(t.hi, r.hi + 1) - larger(t.lo, r.lo));
    bool in_it = 2 * inside >= all;
    *lanes = span > 0;
    if (!*lanes && RARELY * (in_it ? all - inside : inside) > all) return SN_GEN_OPEN;
    int64_t lo = in_it ? t.lo : t.lo - r.lo > r.hi + 1 - t.hi ? r.lo : t.hi;
    int64_t hi = in_it ? t.hi : lo == r.lo ? t.lo : r.hi + 1;
    if (!limit_place(ps, g, first, lo, hi - span)) return SN_GEN_OPEN;
    return in_it != t.contrary ? SN_GEN_HOLDS : SN_GEN_FAILS;
}

/* The condition under which all tests answer what they mostly do. */
static lv all_known(sn_gen *g, const sn_stmt_rec *loop) {
    places ps = {0};
    bool any = false, lanes;
    lv all = NULL;
    for (sn_stmt s = loop->first, end = behind(g, loop); s.i && s.i != end.i; s = sn_stmt_walk_next(g->m, s)) {
        sn_gen_known known = mostly(&ps, &lanes, g, s, loop);
        if (known == SN_GEN_OPEN) continue;
        g->known[sn_stmt_get(g->m, s)->result.i] = known;
        any |= lanes;
    }
    for (uint32_t k = 0; k < ps.n && any; k++) {
        sn_ix place = sn_ix_addc(g->m, ps.at[k], -ps.lo[k]);
        lv in = sn_gen_in(g, place, sn_ix_const(g->m, ps.hi[k] - ps.lo[k]));
        all = all ? em_and(&g->em, all, in) : in;
    }
    return all;
}

static void forget(sn_gen *g, const sn_stmt_rec *loop) {
    for (sn_stmt s = loop->first, end = behind(g, loop); s.i && s.i != end.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->result.i) g->known[r->result.i] = SN_GEN_OPEN;
    }
}

/* Do the lanes around the loop answer a test of it differently? */
static bool lanes_differ(sn_gen *g, const sn_stmt_rec *loop) {
    for (sn_stmt s = loop->first, end = behind(g, loop); s.i && s.i != end.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->op != SN_LOP_IN) continue;
        sn_ix e = sn_gen_resolve(g, r->ix);
        if (sn_ix_uses_axis(g->m, e, g->lane_axis) && !sn_gen_in_uniform(g, e, sn_gen_resolve(g, r->bound)))
            return true;
    }
    return false;
}

/* Do the pieces around all columns that begin anywhere (unaligned.c) lie in their buffers? NULL: there are none, or nobody knows. */
static lv all_near(sn_gen *g, const sn_stmt_rec *loop) {
    enum { PIECE = 16 };
    lv all = NULL;
    for (sn_stmt s = loop->first, end = behind(g, loop); s.i && s.i != end.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        inner_axes in;
        sn_ix first, last;
        /* Where rows that the loop itself looks up lie is not known in front of it. */
        if (r->op == SN_LOP_LOAD && !sn_gen_values_known(g, sn_gen_resolve(g, r->ix))) return NULL;
        if (!sn_gen_loads_odd_columns(g, r)) continue;
        const sn_buf_rec *b = sn_buf_get(g->m, r->buf);
        if (b->align < PIECE || !find_inner(&in, g, s, loop)) return NULL;
        if (!find_ends(&first, &last, g, sn_gen_resolve(g, r->ix), &in)) return NULL;
        lv is = sn_gen_in(g, sn_ix_addc(g->m, last, PIECE - 1), b->size);
        all = all ? em_and(&g->em, all, is) : is;
    }
    return all;
}

/* NULL: the region is translated once. */
static lv interior(int64_t *beyond, bool *near, sn_gen *g, const sn_stmt_rec *loop) {
    lv inside = can_have_two(g, loop) ? all_near(g, loop) : NULL;
    *near = inside != NULL, *beyond = 0;
    if (inside) return inside;
    if ((g->lanes > 1 && (!g->gpu || !lanes_differ(g, loop))) || !can_have_two(g, loop)) return NULL;
    lv known = g->gpu ? NULL : all_known(g, loop);
    if (!g->gpu && !known) forget(g, loop);
    lv hold = all_hold(beyond, g, loop);
    return known && hold ? em_and(&g->em, known, hold) : known ? known : hold;
}

/* Is a lane's own test among those of the mask? */
static bool has_edge_test(sn_gen *g, sn_val mask, const sn_stmt_rec *loop) {
    sn_stmt def = sn_val_get(g->m, mask)->def;
    const sn_stmt_rec *r = sn_stmt_get(g->m, def);
    sn_ix first, last;
    if (r->op == SN_LOP_AND) return has_edge_test(g, r->in[0], loop) || has_edge_test(g, r->in[1], loop);
    const sn_stmt_rec *around = r;
    while (around != loop && around->parent.i) around = sn_stmt_get(g->m, around->parent);
    return around == loop && is_edge_test(g, def, loop, &first, &last);
}

/* Are all vectors of the iteration, of which some lanes may stand outside of the row, inside of their buffers? NULL: there are none, or nobody
 * knows, or what comes of them is stored at once: such loads wait for nothing but their stores. */
static lv all_fit(sn_gen *g, const sn_stmt_rec *loop) {
    lv all = NULL;
    bool any = false;
    if (loop->op != SN_LOP_REDUCE) return NULL;
    for (sn_stmt s = loop->first, end = behind(g, loop); g->gpu && s.i && s.i != end.i;
         s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        inner_axes in;
        sn_ix first, last;
        if (r->op != SN_LOP_LOAD || !r->has_mask || sn_buf_is_local(sn_buf_get(g->m, r->buf))) continue;
        any |= has_edge_test(g, sn_stmt_mask(r), loop);
        if (!find_inner(&in, g, s, loop) || !find_ends(&first, &last, g, sn_gen_resolve(g, r->ix), &in)) return NULL;
        lv is = sn_gen_in(g, last, sn_buf_get(g->m, r->buf)->size);
        all = all ? em_and(&g->em, all, is) : is;
    }
    return any ? all : NULL;
}

/* What one translation of a region is told. */
typedef struct way {
    int64_t beyond;
    bool near, fits;
    void (*body)(sn_gen *g, void *user);
    void *user;
} way;

/* The first way where the condition holds, else the second one; both bring state up to date. */
static void two_ways(sn_gen *g, const sn_stmt_rec *loop, lv cond, const way ways[2], lv *state, uint32_t n) {
    sn_em *em = &g->em;
    lv before[SN_GEN_STATES], inside[SN_GEN_STATES];
    LLVMBasicBlockRef blocks[2] = {sn_em_block(em, "interior"), sn_em_block(em, "edge")},
                      join = sn_em_block(em, "iteration");
    LLVMBuildCondBr(em->b, cond, blocks[0], blocks[1]);
    for (uint32_t k = 0; k < n; k++) before[k] = state[k];
    for (int part = 0; part < 2 && g->status == SN_OK; part++) {
        uint32_t mark = sn_gen_mark(g);
        LLVMPositionBuilderAtEnd(em->b, blocks[part]);
        g->beyond = ways[part].beyond, g->near = ways[part].near, g->fits = ways[part].fits;
        ways[part].body(g, ways[part].user);
        g->beyond = 0, g->near = g->fits = false;
        sn_gen_release(g, mark);
        for (uint32_t k = 0; k < n && g->status == SN_OK; k++)
            if (g->lanes > 1 && before[k]) state[k] = sn_em_splat(em, state[k], sn_em_lanes(before[k]));
        blocks[part] = LLVMGetInsertBlock(em->b);
        LLVMBuildBr(em->b, join);
        if (part) break;
        forget(g, loop);
        for (uint32_t k = 0; k < n; k++) inside[k] = state[k], state[k] = before[k];
    }
    LLVMPositionBuilderAtEnd(em->b, join);
    for (uint32_t k = 0; k < n && g->status == SN_OK; k++) {
        lv phi = LLVMBuildPhi(em->b, LLVMTypeOf(state[k]), "");
        LLVMAddIncoming(phi, (lv[]){inside[k], state[k]}, blocks, 2);
        state[k] = phi;
    }
}

typedef struct edge {
    const sn_stmt_rec *loop;
    way as_it_is;
    lv *state;
    uint32_t n;
} edge;

/* An iteration with edges: no vector of it asks whether it reaches over the end of the buffer where none does. */
static void edge_iteration(sn_gen *g, void *user) {
    edge *e = user;
    lv fit = all_fit(g, e->loop);
    way ways[2] = {e->as_it_is, e->as_it_is};
    ways[0].fits = true;
    if (fit) two_ways(g, e->loop, fit, ways, e->state, e->n);
    else e->as_it_is.body(g, e->as_it_is.user);
}

void sn_gen_iteration(sn_gen *g, const sn_stmt_rec *loop, void (*body)(sn_gen *g, void *user), void *user, lv *state,
                      uint32_t n) {
    int64_t beyond;
    bool near;
    lv cond = interior(&beyond, &near, g, loop);
    if (!cond) {
        body(g, user);
        return;
    }
    edge e = {loop, {.body = body, .user = user}, state, n};
    two_ways(g, loop, cond, (way[]){{beyond, near, false, body, user}, {.body = edge_iteration, .user = &e}}, state, n);
}

/* Both versions come to the same barriers, in the same order of areas. */
void sn_gen_part(sn_gen *g, const sn_stmt_rec *loop, void (*body)(sn_gen *g, void *user), void *user) {
    sn_em *em = &g->em;
    lv cond = all_inside(g, loop);
    if (!cond) {
        body(g, user);
        return;
    }
    LLVMBasicBlockRef blocks[2] = {sn_em_block(em, "inside"), sn_em_block(em, "ends")}, join = sn_em_block(em, "part");
    LLVMBuildCondBr(em->b, cond, blocks[0], blocks[1]);
    sn_gen_turn turn = g->turn;
    bool waits = g->cluster_waits;
    for (int part = 0; part < 2 && g->status == SN_OK; part++) {
        g->cluster_waits = waits; /* whichever way blocks go, they wait for others to start */
        uint32_t mark = sn_gen_mark(g);
        LLVMPositionBuilderAtEnd(em->b, blocks[part]);
        body(g, user);
        sn_gen_settle(g, &turn);
        g->turn = turn;
        sn_gen_release(g, mark);
        LLVMBuildBr(em->b, join);
        if (!part) forget(g, loop);
    }
    LLVMPositionBuilderAtEnd(em->b, join);
}
