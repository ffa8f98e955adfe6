/* reduce.c: reductions: what runs inside one thread (sequential, written out, vector axes), and who combines the rest.
 *
 * A written-out reduction starts from its first element, a loop from the identity. The lanes of a vector axis are
 * combined at the end; on the CPU, where a reduction is nothing but one over its parts, behind the outermost one:
 *
 *     reduce sum uo in 1024 { %1 = reduce sum u in 4 : unroll { %2 = reduce sum v in 8 : vector { .. } yield %2 } yield %1 }
 *
 * has eight sums in one vector until the end. A long loop that adds becomes loops of RUN iterations inside one
 * another, each with an accumulator of its own, so that none takes in many terms: rounding grows with their number.
 * The order is fixed: the same input gives the same bits. Reductions over block axes run their region once a thread,
 * then block.c combines the threads (so do those over warp axes), cluster.c the blocks. How two states become one is
 * in combine.c; narrow values with positions are compared by keys (keyed.c).
 */
#include "codegen-llvm/gen.h"

static sn_gen_states states_of(sn_gen *g, const sn_stmt_rec *s) {
    sn_gen_states st = {.n_combs = s->n_combs, .n = 0};
    for (uint32_t c = 0; c < s->n_combs; c++) {
        st.combs[c] = s->combs[c];
        st.first[c] = st.n;
        for (uint32_t k = 0; k < sn_combs[s->combs[c]].states; k++, st.n++)
            st.dtypes[st.n] = sn_val_get(g->m, sn_result(s, st.n))->dtype;
    }
    return st;
}

/* ---- parts ---- */

typedef struct use {
    const sn_gen *g;
    const sn_stmt_rec *part;
    bool found;
} use;

static void find_use(void *user, sn_ix atom) {
    use *u = user;
    const sn_ix_rec *r = sn_ix_get(u->g->m, atom);
    u->found |= r->kind == SN_IX_VAL && r->id - u->part->result.i < u->part->n_results;
}

/* Does a statement of the region besides its yield take a result of `part`, as an operand or in an index? */
static bool feeds_more(const sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *part) {
    use u = {g, part, false};
    for (sn_stmt t = s->first; t.i && t.i != s->last.i; t = sn_stmt_get(g->m, t)->next) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, t);
        if (r->ix.i) sn_ix_walk(g->m, r->ix, find_use, &u);
        if (r->bound.i) sn_ix_walk(g->m, r->bound, find_use, &u);
        if (u.found) return true;
        for (uint32_t i = 0; i < r->n_in; i++)
            if (r->in[i].i - part->result.i < part->n_results) return true;
    }
    return false;
}

/* The reduction of the same combiners that the region yields as it is, and has no other use for, if nothing else in it has a
 * region; 0: none. */
static sn_stmt_rec *part_of(const sn_gen *g, const sn_stmt_rec *s) {
    sn_stmt_rec *part = NULL;
    const sn_stmt_rec *yield = sn_stmt_get(g->m, s->last);
    for (sn_stmt t = s->first; t.i; t = sn_stmt_get(g->m, t)->next) {
        sn_stmt_rec *r = sn_stmt_get(g->m, t);
        if (!sn_lop_has_region(r->op)) continue;
        if (part || r->op != SN_LOP_REDUCE || r->n_combs != s->n_combs) return NULL;
        part = r;
    }
    for (uint32_t c = 0; c < s->n_combs && part; c++)
        if (part->combs[c] != s->combs[c] || s->combs[c] == SN_COMB_SUMEXP) return NULL;
    for (uint32_t k = 0; k < s->n_results && part; k++)
        if (yield->in[k].i != part->result.i + k) return NULL;
    return part && !feeds_more(g, s, part) ? part : NULL;
}

/* ---- within a thread ---- */

/* The region once; out: what it yields. */
static void run_region(sn_gen *g, sn_stmt_rec *s, lv *out) {
    lv *outer = g->yields;
    g->yields = out;
    sn_gen_region(g, s->first);
    g->yields = outer;
}

/* ---- positions that only grow ---- */

/* In a loop of a thread of the CPU positions of one argmax or argmin may grow with the loop, by what the yield says: then
 * the first of equal elements is the one that is there already, and positions are 32 bits wide, as most elements are, so that
 * lanes of both stay side by side. Where nothing was ever better than the identity, it was there from the start: its
 * position is that of the first iteration. Returns the offset, none: not so. */
static sn_ix growing_position(sn_gen *g, const sn_stmt_rec *s, const sn_gen_states *st) {
    bool one = st->n_combs == 1 && sn_combs[st->combs[0]].second == SN_SECOND_POSITION;
    sn_ix extent = sn_gen_resolve(g, sn_axis_get(g->m, s->axis)->extent);
    if (g->gpu || !one || sn_ix_range(g->m, extent).lo < 1) return (sn_ix){0};
    const sn_stmt_rec *at = sn_stmt_get(g->m, sn_val_get(g->m, sn_stmt_get(g->m, s->last)->in[1])->def);
    int64_t c;
    if (at->op != SN_LOP_INDEX || sn_ix_uses_vals(g->m, at->ix)) return (sn_ix){0};
    if (!sn_ix_coef(g->m, at->ix, s->axis, &c) || c < 1) return (sn_ix){0};
    sn_range r = sn_ix_range(g->m, at->ix);
    return r.lo >= 0 && r.hi < INT32_MAX ? at->ix : (sn_ix){0};
}

/* combine_one, if x lies behind all that the state has seen. */
static void combine_later(sn_gen *g, const sn_gen_states *st, lv *state, const lv *x) {
    sn_em *em = &g->em;
    sn_dtype t = st->dtypes[0];
    lv in[4] = {x[0], sn_math_cast(em, SN_I32, SN_I64, x[1]), state[0], state[1]};
    sn_em_unify(em, in, 4);
    lv first = sn_math_op(em, st->combs[0] == SN_COMB_ARGMAX ? SN_LOP_GT : SN_LOP_LT, t, (lv[]){in[0], in[2]}, 2);
    if (sn_is_float(t)) {
        lv is_nan = em_fcmp(em, LLVMRealUNO, in[0], in[0]), was_none = em_fcmp(em, LLVMRealORD, in[2], in[2]);
        first = em_or(em, first, em_and(em, is_nan, was_none));
    }
    state[0] = em_select(em, first, in[0], in[2]);
    state[1] = em_select(em, first, in[1], in[3]);
}

static void begin_growing(sn_gen *g, lv *state) {
    lv none = sn_math_const(&g->em, SN_I32, 0, INT32_MAX);
    LLVMTypeRef t = LLVMTypeOf(state[1]);
    bool wide = LLVMGetTypeKind(t) == LLVMVectorTypeKind;
    state[1] = wide ? sn_em_splat(&g->em, none, LLVMGetVectorSize(t)) : none;
}

static void end_growing(sn_gen *g, const sn_stmt_rec *s, sn_ix position, lv *state) {
    sn_em *em = &g->em;
    sn_ix zero = sn_ix_const(g->m, 0);
    lv start = sn_gen_ix(g, sn_gen_resolve(g, sn_ix_subst(g->m, position, &s->axis, &zero, 1)));
    lv in[2] = {sn_math_cast(em, SN_I64, g->index == em->cg->i64 ? SN_I64 : SN_I32, start),
                sn_math_cast(em, SN_I64, SN_I32, state[1])};
    sn_em_unify(em, in, 2);
    state[1] = em_select(em, em_icmp(em, LLVMIntEQ, in[1], sn_em_i(em, in[1], INT32_MAX)), in[0], in[1]);
}

/* Do all threads of each warp come to one result together, of which each has what s comes to? */
static bool shares_row(const sn_gen *g, const sn_stmt_rec *s) {
    enum { WARP = 32 };
    const sn_stmt_rec *threads = s->parent.i ? sn_stmt_get(g->m, s->parent) : NULL;
    if (!g->gpu || !threads || threads->op != SN_LOP_REDUCE || threads->kind != SN_AXIS_BLOCK_X) return false;
    return g->threads_x % WARP == 0 && part_of(g, threads) == s;
}

typedef struct step {
    sn_stmt_rec *s;
    const sn_gen_states *st;
    lv *state;
    bool growing, tests, sums;
    const sn_stmt_rec *part; /* a reduction whose results the iteration hands on as they are */
} step;

static void iteration(sn_gen *g, void *user) {
    step *it = user;
    lv x[SN_GEN_STATES];
    g->better = it->part, g->best = it->state;
    run_region(g, it->s, x);
    g->better = NULL;
    if (g->status != SN_OK) return;
    if (it->growing) combine_later(g, it->st, it->state, x);
    else if (it->sums) it->state[0] = sn_gen_summed_next(g, it->state[0], x[0]);
    else if (it->tests) it->state[0] = sn_gen_tested_next(g, it->st->combs[0], it->state[0], x[0]);
    else sn_gen_combine(g, it->st, it->state, x);
}

/* Iterations that one accumulator takes in before it goes into the next one; a power of two. */
enum { RUN = 64 };

/* A sum of many equal values in one accumulator is off by a third of an ulp for each of them. Threads of a GPU have
 * shared out the terms among themselves: few of their loops need more than one accumulator. n < 0: not known. */
static bool is_long_sum(const sn_gen *g, const sn_gen_states *st, int64_t n) {
    enum { MOST_ON_GPU = 4 * RUN };
    if (n >= 0 && n <= (g->gpu ? MOST_ON_GPU : RUN)) return false;
    for (uint32_t c = 0; c < st->n_combs; c++)
        if (sn_is_float(st->dtypes[st->first[c]]) && (st->combs[c] == SN_COMB_SUM || st->combs[c] == SN_COMB_SUMEXP))
            return true;
    return false;
}

static void begin(sn_gen *g, const sn_stmt_rec *s, const sn_gen_states *st, lv *state) {
    sn_gen_identities(g, st, state);
    for (uint32_t k = 0; k < st->n; k++)
        if (g->apart || (g->lanes > 1 && g->varies[s->result.i + k]))
            state[k] = sn_em_splat(&g->em, state[k], g->apart ? g->apart : g->lanes);
}

/* Iterations first .. n-1 into one accumulator. */
static void one_run(sn_gen *g, sn_stmt_rec *s, const sn_gen_states *st, lv first, lv n, bool may_be_empty, lv *state) {
    lv phis[SN_GEN_STATES];
    sn_gen_loop l;
    sn_ix position = growing_position(g, s, st);
    begin(g, s, st, state);
    bool tests = sn_gen_tests_bytes(g, st), sums = sn_gen_sums_bytes(g, s, st);
    if (position.i) begin_growing(g, state);
    if (tests) state[0] = sn_gen_tested_none(g, st->combs[0]);
    if (sums) state[0] = sn_gen_summed_none(g);
    sn_gen_loop_begin(g, &l, s->axis, first, n, may_be_empty);
    sn_gen_loop_carry(g, &l, phis, state, st->n);
    step it = {s, st, state, position.i != 0, tests, sums, shares_row(g, s) ? part_of(g, s) : NULL};
    sn_gen_iteration(g, s, iteration, &it, state, st->n);
    if (g->status != SN_OK) return;
    sn_gen_loop_end(g, &l, phis, state, st->n);
    if (position.i) end_growing(g, s, position, state);
    if (tests) state[0] = sn_gen_tested_all(g, state[0]);
    if (sums) state[0] = sn_gen_summed_all(g, state[0]);
}

/* Iterations first .. n-1, at most `most` of them, in pieces of a power of RUN; where that is not known, of RUN. */
static void in_runs(sn_gen *g, sn_stmt_rec *s, const sn_gen_states *st, lv first, lv n, int64_t most, lv *state) {
    if (most >= 0 && most <= RUN) {
        one_run(g, s, st, first, n, false, state);
        return;
    }
    sn_em *em = &g->em;
    int64_t piece = RUN;
    while (piece <= (most - 1) / RUN) piece *= RUN;
    lv phis[SN_GEN_STATES], x[SN_GEN_STATES], size = sn_em_i(em, n, piece);
    lv pieces = em_iadd(em, em_isub(em, n, first), sn_em_i(em, n, piece - 1));
    pieces = LLVMBuildUDiv(em->b, pieces, size, "");
    sn_gen_loop l;
    begin(g, s, st, state);
    sn_gen_loop_begin(g, &l, (sn_axis){0}, sn_em_i(em, n, 0), pieces, most < 0);
    sn_gen_loop_carry(g, &l, phis, state, st->n);
    lv start = em_iadd(em, first, em_imul(em, l.i, size)), rest = em_isub(em, n, start);
    lv end = em_iadd(em, start, em_select(em, em_icmp(em, LLVMIntSLT, rest, size), rest, size));
    in_runs(g, s, st, start, end, piece, x);
    if (g->status != SN_OK) return;
    sn_gen_combine(g, st, state, x);
    sn_gen_loop_end(g, &l, phis, state, st->n);
}

static void sequential(sn_gen *g, sn_stmt_rec *s, const sn_gen_states *st, lv *state) {
    sn_ix extent = sn_gen_resolve(g, sn_axis_get(g->m, s->axis)->extent);
    int64_t n = sn_gen_extent(g, s->axis);
    lv zero = sn_em_ci(g->index, 0), end = sn_gen_ix(g, extent);
    if (is_long_sum(g, st, n)) in_runs(g, s, st, zero, end, n, state);
    else one_run(g, s, st, zero, end, sn_ix_range(g->m, extent).lo < 1, state);
}

/* Maxima and minima of f64 on a GPU, where a comparison takes the time of a product: as pairs are asked whether one is nan, it is three
 * for two of them instead of four. */
static bool by_pairs(const sn_gen *g, const sn_gen_states *st, uint32_t c) {
    bool extreme = st->combs[c] == SN_COMB_MAX || st->combs[c] == SN_COMB_MIN;
    return g->gpu && extreme && st->dtypes[st->first[c]] == SN_F64;
}

/* Of one combiner, iteration by iteration: what each yields first, and second. state has the first iteration. */
typedef struct yielded {
    lv *x[2];
    bool kept; /* nothing is combined before all are there */
} yielded;

/* sumexp takes all iterations at once, and so do extremes of f64 and columns of bytes. */
static void combine_kept(sn_gen *g, const sn_gen_states *st, uint32_t c, const yielded *y, int64_t n, lv *state) {
    sn_dtype t = st->dtypes[st->first[c]];
    if (st->combs[c] == SN_COMB_SUMEXP) {
        lv *pairs = SN_NEWN(g->arena, lv, 2 * n);
        for (int64_t i = 0; i < 2 * n; i++) pairs[i] = y->x[i % 2][i / 2];
        if (n > 1) sn_gen_sumexp(g, t, state, pairs, (uint32_t)n);
        return;
    }
    if (by_pairs(g, st, c)) {
        if (n > 1) *state = sn_gen_extreme_f64(&g->em, st->combs[c], y->x[0], (uint32_t)n);
        return;
    }
    if (sn_gen_combine_byte_rows(g, st->combs[c], t, y->x[0], (uint32_t)n, state)) return;
    sn_gen_states one = sn_gen_states_of_one(st, c);
    for (int64_t i = 1; i < n; i++) sn_gen_combine(g, &one, state, y->x[0] + i);
}

/* Vectors of sumexp that one maximum is taken of: their elements are registers until it is there. */
enum { VECTORS_OF = 16 };

/* A written-out sumexp over vectors, whose lanes stay apart: several vectors become one state at a time. */
static void unrolled_vectors(sn_gen *g, sn_stmt_rec *s, const sn_gen_states *st, lv *state, int64_t n, uint32_t lanes) {
    uint32_t most = lanes < VECTORS_OF ? VECTORS_OF / lanes : 1, there = 0, done = 0;
    lv *all = SN_NEWN(g->arena, lv, 2 * (size_t)n), *some = SN_NEWN(g->arena, lv, 2 * (size_t)most);
    for (int64_t i = 0; i < n; i++) {
        sn_gen_part_used(g, s, i, n);
        sn_gen_fix(g, s->axis, i);
        g->apart = lanes;
        run_region(g, s, some + 2 * there++);
        g->apart = 0;
        sn_gen_unfix(g);
        if (g->status != SN_OK) return;
        if (there < most && i + 1 < n) continue;
        sn_gen_sumexp_vectors(g, st->dtypes[0], all + 2 * done++, some, there, lanes);
        there = 0;
    }
    for (uint32_t k = 0; k < 2; k++) state[k] = all[k];
    if (done > 1) sn_gen_sumexp(g, st->dtypes[0], state, all, done);
}

/* Every other iteration is combined with those before it. */
static void unrolled(sn_gen *g, sn_stmt_rec *s, const sn_gen_states *st, lv *state, int64_t n) {
    yielded all[SN_COUNT(st->combs)];
    lv x[SN_GEN_STATES];
    if (n == 0) sn_gen_identities(g, st, state);
    for (uint32_t c = 0; c < st->n_combs; c++) {
        bool at_end = st->combs[c] == SN_COMB_SUMEXP || by_pairs(g, st, c);
        all[c].kept = at_end || sn_gen_may_be_byte_rows(g, s, st, c);
        for (uint32_t k = 0; k < 2; k++) all[c].x[k] = all[c].kept ? SN_NEWN(g->arena, lv, n) : NULL;
    }
    for (int64_t i = 0; i < n; i++) {
        sn_gen_part_used(g, s, i, n);
        sn_gen_fix(g, s->axis, i);
        run_region(g, s, x);
        sn_gen_unfix(g);
        if (g->status != SN_OK) return;
        for (uint32_t k = 0; k < st->n && i == 0; k++) state[k] = x[k];
        for (uint32_t c = 0; c < st->n_combs; c++) {
            sn_gen_states one = sn_gen_states_of_one(st, c);
            uint32_t first = st->first[c];
            for (uint32_t k = 0; k < one.n && all[c].kept; k++) all[c].x[k][i] = x[first + k];
            if (i && !all[c].kept) sn_gen_combine(g, &one, state + first, x + first);
        }
    }
    for (uint32_t c = 0; c < st->n_combs && n > 0; c++)
        if (all[c].kept) combine_kept(g, st, c, &all[c], n, state + st->first[c]);
}

static bool as_vector(sn_gen *g, sn_stmt_rec *s, const sn_gen_states *st, lv *state, int64_t n) {
    lv *outer = g->yields;
    uint32_t apart = g->apart;
    g->yields = state;
    g->apart = 0;
    bool done = sn_gen_vector_region(g, s);
    g->yields = outer;
    g->apart = apart;
    if (!done || g->status != SN_OK) return done;
    for (uint32_t k = 0; k < st->n && apart; k++) state[k] = sn_em_splat(&g->em, state[k], apart);
    if (!apart) sn_gen_combine_lanes(g, st, state, (uint32_t)n);
    return done;
}

/* Does the region of s end with all threads of the block together, after a reduction over them? */
static bool threads_meet(const sn_gen *g, const sn_stmt_rec *s) {
    for (sn_stmt t = s->first; t.i; t = sn_stmt_get(g->m, t)->next)
        if (sn_stmt_get(g->m, t)->op == SN_LOP_REDUCE && sn_stmt_get(g->m, t)->kind == SN_AXIS_BLOCK_X) return true;
    return g->threads_x == 1;
}

static void across_threads(sn_gen *g, sn_stmt_rec *s, const sn_gen_states *st, lv *state) {
    lv *outer = g->yields;
    g->yields = state;
    sn_gen_block_region(g, s);
    g->yields = outer;
    if (g->status != SN_OK) return;
    if (s->kind == SN_AXIS_CLUSTER) sn_gen_cluster_reduce(g, st, state, threads_meet(g, s));
    else sn_gen_block_reduce(g, st, s->kind, state);
}

/* Each thread has the registers of the iteration that has its number in the group. */
static void across_warp(sn_gen *g, sn_stmt_rec *s, const sn_gen_states *st, lv *state, int64_t n) {
    sn_stmt threads = s->parent;
    while (sn_stmt_get(g->m, threads)->kind != SN_AXIS_BLOCK_X) threads = sn_stmt_get(g->m, threads)->parent;
    sn_ix x = sn_ix_axis(g->m, sn_stmt_get(g->m, threads)->axis);
    sn_gen_fix_to(g, s->axis, sn_ix_modc(g->m, x, n));
    run_region(g, s, state);
    sn_gen_unfix(g);
    if (g->status == SN_OK) sn_gen_warp_reduce(g, st, state, (uint32_t)n);
}

/* Lanes that are combined behind s: those of the innermost part. 0: none. */
static uint32_t lanes_to_keep(sn_gen *g, const sn_stmt_rec *s) {
    if (g->gpu || g->lanes > 1 || g->apart || s->kind == SN_AXIS_VECTOR) return 0;
    while (s && s->kind != SN_AXIS_VECTOR) s = part_of(g, s);
    return s && sn_gen_runs_as_lanes(g, s) ? (uint32_t)sn_gen_extent(g, s->axis) : 0;
}

/* Is there room for the elements of several vectors? Where so many threads are to be resident that each has 64 registers, more
 * is spilt. */
static bool has_registers(const sn_gen *g) {
    enum { CROWDED = 1024 };
    uint64_t blocks = g->k->sched.min_blocks ? g->k->sched.min_blocks : 1;
    return blocks * g->threads_x * g->threads_y < CROWDED;
}

/* Lanes of vectors that a written-out sumexp of a GPU takes several of at a time. f64 has two exponentials in two lanes anyway. */
static uint32_t lanes_of_vectors(sn_gen *g, const sn_stmt_rec *s) {
    const sn_stmt_rec *part = sn_stmt_get(g->m, s->first), *yield = sn_stmt_get(g->m, s->last);
    if (!g->gpu || g->lanes > 1 || g->apart || s->kind != SN_AXIS_UNROLL || sn_gen_extent(g, s->axis) < 2) return 0;
    if (!has_registers(g)) return 0;
    while (part->op != SN_LOP_REDUCE && !sn_lop_has_region(part->op) && part->next.i)
        part = sn_stmt_get(g->m, part->next);
    if (part->op != SN_LOP_REDUCE || part->kind != SN_AXIS_VECTOR || sn_stmt_get(g->m, part->next) != yield) return 0;
    if (s->n_combs != 1 || part->n_combs != 1 || s->combs[0] != SN_COMB_SUMEXP || part->combs[0] != SN_COMB_SUMEXP)
        return 0;
    for (uint32_t k = 0; k < 2; k++)
        if (yield->in[k].i != part->result.i + k || sn_val_get(g->m, yield->in[k])->dtype == SN_F64) return 0;
    return sn_gen_runs_as_lanes(g, part) ? (uint32_t)sn_gen_extent(g, part->axis) : 0;
}

static bool is_plain(const sn_gen *g, const sn_stmt_rec *s) {
    for (sn_stmt t = s->first; t.i; t = sn_stmt_get(g->m, t)->next)
        if (sn_lop_has_region(sn_stmt_get(g->m, t)->op)) return false;
    return true;
}

/* Reductions with positions: the values of all iterations first. */
static bool by_keys(sn_gen *g, sn_stmt_rec *s, lv *state) {
    const sn_stmt_rec *lanes = is_plain(g, s) ? s : s->kind == SN_AXIS_UNROLL ? part_of(g, s) : NULL;
    if (!lanes || !is_plain(g, lanes) || (lanes != s && lanes->kind != SN_AXIS_VECTOR) || !sn_gen_has_keys(g, s, lanes))
        return false;
    bool once = s->kind == SN_AXIS_VECTOR;
    int64_t n = once ? 1 : sn_gen_extent(g, s->axis);
    lv *x = SN_NEWN(g->arena, lv, (size_t)n), *in = SN_NEWN(g->arena, lv, (size_t)n), both[SN_GEN_STATES];
    sn_gen_states st = states_of(g, s);
    uint32_t mark = sn_gen_mark(g); /* what was known of an index along the lanes is a vector */
    if (lanes->kind == SN_AXIS_VECTOR) g->apart = (uint32_t)sn_gen_extent(g, lanes->axis);
    for (int64_t i = 0; i < n && g->status == SN_OK; i++) {
        if (!once) sn_gen_part_used(g, s, i, n), sn_gen_fix(g, s->axis, i), run_region(g, s, both), sn_gen_unfix(g);
        else if (!as_vector(g, s, &st, both, g->apart))
            g->status = sn_fail(g->env, SN_ERROR_INTERNAL, "lanes of a reduction");
        x[i] = both[0];
        if (g->status == SN_OK) in[i] = sn_gen_key_lanes(g, s, lanes);
    }
    g->apart = 0;
    sn_gen_release(g, mark);
    if (g->status == SN_OK) sn_gen_keyed(g, s, lanes, x, in, state);
    return true;
}

/* The same of columns: each lane has a position of its own. */
static bool by_key_rows(sn_gen *g, sn_stmt_rec *s, lv *state) {
    if (!is_plain(g, s) || !sn_gen_has_key_rows(g, s)) return false;
    int64_t n = sn_gen_extent(g, s->axis);
    lv *x = SN_NEWN(g->arena, lv, (size_t)n), both[SN_GEN_STATES];
    for (int64_t i = 0; i < n && g->status == SN_OK; i++) {
        sn_gen_part_used(g, s, i, n);
        sn_gen_fix(g, s->axis, i);
        run_region(g, s, both);
        sn_gen_unfix(g);
        x[i] = both[0];
    }
    if (g->status == SN_OK) sn_gen_keyed_rows(g, s, x, state);
    return true;
}

typedef struct key_step {
    sn_stmt_rec *s;
    lv *state;
} key_step;

static void key_iteration(sn_gen *g, void *user) {
    key_step *it = user;
    lv both[SN_GEN_STATES];
    run_region(g, it->s, both);
    if (g->status == SN_OK) sn_gen_key_loop_next(g, it->s, both[0], it->state);
}

/* A loop over columns of which it is so: positions are made behind it. */
static bool by_key_loop(sn_gen *g, sn_stmt_rec *s, lv *state) {
    const sn_stmt_rec *rows = s->kind == SN_AXIS_SEQ ? part_of(g, s) : NULL;
    if (!rows || !is_plain(g, rows) || !sn_gen_has_key_loop(g, s, rows)) return false;
    lv phis[SN_GEN_STATES];
    sn_gen_loop l;
    sn_gen_key_loop_begin(g, s, state);
    sn_gen_loop_begin(g, &l, s->axis, sn_em_ci(g->index, 0), sn_em_ci(g->index, sn_gen_extent(g, s->axis)), false);
    sn_gen_loop_carry(g, &l, phis, state, 2);
    sn_gen_iteration(g, s, key_iteration, &(key_step){s, state}, state, 2);
    if (g->status != SN_OK) return true;
    sn_gen_loop_end(g, &l, phis, state, 2);
    sn_gen_key_loop_end(g, s, rows, state);
    return true;
}

void sn_gen_reduce(sn_gen *g, sn_stmt_rec *s) {
    sn_gen_states st = states_of(g, s);
    lv state[SN_GEN_STATES];
    int64_t n = sn_gen_extent(g, s->axis);
    bool written_out =
        n == 1 || sn_gen_waits_for_parts(g, s) || ((s->kind == SN_AXIS_UNROLL || s->kind == SN_AXIS_VECTOR) && n >= 0);
    uint32_t lanes = lanes_to_keep(g, s), of_vectors = lanes_of_vectors(g, s);
    if (lanes) g->apart = lanes;
    if (by_keys(g, s, state) || by_key_rows(g, s, state) || by_key_loop(g, s, state)) (void)0;
    else if (sn_gen_is_block(g, s->kind)) across_threads(g, s, &st, state);
    else if (g->gpu && s->kind == SN_AXIS_WARP) across_warp(g, s, &st, state, n);
    else if (s->kind == SN_AXIS_VECTOR && as_vector(g, s, &st, state, n)) (void)0;
    else if (of_vectors) unrolled_vectors(g, s, &st, state, n, of_vectors);
    else if (written_out) unrolled(g, s, &st, state, n);
    else sequential(g, s, &st, state);
    if (lanes) g->apart = 0;
    if (g->status != SN_OK) return;
    if (lanes) sn_gen_combine_lanes(g, &st, state, lanes);
    for (uint32_t k = 0; k < st.n; k++) g->vals[s->result.i + k] = state[k];
}
