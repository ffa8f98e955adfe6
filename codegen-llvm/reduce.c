/* reduce.c: combiners, and reductions that run inside one thread (sequential, written out, vector axes).
 *
 * A written-out reduction starts from its first element, a loop from the identity. The lanes of a vector axis are
 * combined pairwise at the end. A long loop that adds becomes loops of RUN iterations inside one another, each with an
 * accumulator of its own, so that none takes in many terms: rounding grows with their number. The order is fixed: the
 * same input gives the same bits. Reductions over block axes run their region once a thread, then block.c combines the
 * threads.
 */
#include "codegen-llvm/gen.h"

/* ---- combiners ---- */

/* Does x go before s? A larger (smaller) value does, nan before all numbers, the smaller position at a tie. */
static lv goes_first(sn_gen *g, sn_comb comb, sn_dtype t, const lv *s, const lv *x) {
    sn_em *em = &g->em;
    sn_lop order = comb == SN_COMB_ARGMAX ? SN_LOP_GT : SN_LOP_LT;
    lv better = sn_math_op(em, order, t, (lv[]){x[0], s[0]}, 2),
       equal = sn_math_op(em, SN_LOP_EQ, t, (lv[]){x[0], s[0]}, 2);
    if (sn_is_float(t)) {
        lv x_nan = sn_math_op(em, SN_LOP_ISNAN, t, (lv[]){x[0]}, 1),
           s_nan = sn_math_op(em, SN_LOP_ISNAN, t, (lv[]){s[0]}, 1);
        better = em_or(em, better, em_and(em, x_nan, LLVMBuildNot(em->b, s_nan, "")));
        equal = em_or(em, equal, em_and(em, x_nan, s_nan));
    }
    return em_or(em, better, em_and(em, equal, em_icmp(em, LLVMIntSLT, x[1], s[1])));
}

static void combine_one(sn_gen *g, sn_comb comb, sn_dtype t, lv *state, const lv *x) {
    if (sn_combs[comb].states == 1) {
        state[0] = sn_math_op(&g->em, sn_comb_lops[comb], t, (lv[]){state[0], x[0]}, 2);
        return;
    }
    lv in[4] = {state[0], state[1], x[0], x[1]};
    if (comb == SN_COMB_SUMEXP) {
        sn_gen_sumexp(g, t, state, in, 2);
        return;
    }
    sn_em_unify(&g->em, in, 4);
    lv first = goes_first(g, comb, t, in, in + 2);
    state[0] = em_select(&g->em, first, in[2], in[0]);
    state[1] = em_select(&g->em, first, in[3], in[1]);
}

void sn_gen_combine(sn_gen *g, const sn_gen_states *st, lv *state, const lv *x) {
    for (uint32_t c = 0; c < st->n_combs; c++)
        combine_one(g, st->combs[c], st->dtypes[st->first[c]], state + st->first[c], x + st->first[c]);
}

void sn_gen_combine_all(sn_gen *g, const sn_gen_states *st, const lv *x, uint32_t n, lv *state) {
    for (uint32_t c = 0; c < st->n_combs; c++) {
        uint32_t first = st->first[c], states = sn_combs[st->combs[c]].states;
        lv *a = SN_NEWN(g->arena, lv, (size_t)2 * n);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < states; k++) a[i * states + k] = x[(size_t)(first + k) * n + i];
        if (st->combs[c] == SN_COMB_SUMEXP) {
            sn_gen_sumexp(g, st->dtypes[first], state + first, a, n);
            continue;
        }
        for (uint32_t step = 1; step < n; step *= 2)
            for (uint32_t i = 0; i + step < n; i += 2 * step)
                combine_one(g, st->combs[c], st->dtypes[first], a + i * states, a + (i + step) * states);
        for (uint32_t k = 0; k < states; k++) state[first + k] = a[k];
    }
}

sn_gen_states sn_gen_states_of_one(const sn_gen_states *st, uint32_t c) {
    sn_gen_states one = {.n_combs = 1, .combs = {st->combs[c]}, .n = sn_combs[st->combs[c]].states};
    for (uint32_t k = 0; k < one.n; k++) one.dtypes[k] = st->dtypes[st->first[c] + k];
    return one;
}

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

static void identities(sn_gen *g, const sn_gen_states *st, lv *state) {
    for (uint32_t c = 0; c < st->n_combs; c++) {
        sn_scalar x[2];
        sn_scalar_identity(st->combs[c], st->dtypes[st->first[c]], x);
        for (uint32_t k = 0; k < sn_combs[st->combs[c]].states; k++)
            state[st->first[c] + k] = sn_math_const(&g->em, st->dtypes[st->first[c] + k], x[k].f, x[k].i);
    }
}

/* ---- within a thread ---- */

/* The region once; out: what it yields. */
static void run_region(sn_gen *g, sn_stmt_rec *s, lv *out) {
    lv *outer = g->yields;
    g->yields = out;
    sn_gen_region(g, s->first);
    g->yields = outer;
}

typedef struct step {
    sn_stmt_rec *s;
    const sn_gen_states *st;
    lv *state;
} step;

static void iteration(sn_gen *g, void *user) {
    step *it = user;
    lv x[SN_GEN_STATES];
    run_region(g, it->s, x);
    if (g->status == SN_OK) sn_gen_combine(g, it->st, it->state, x);
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
    identities(g, st, state);
    for (uint32_t k = 0; k < st->n; k++)
        if (g->lanes > 1 && g->varies[s->result.i + k]) state[k] = sn_em_splat(&g->em, state[k], g->lanes);
}

static void carry(sn_gen *g, sn_gen_loop *l, uint32_t n, lv *phis, lv *state) {
    for (uint32_t k = 0; k < n; k++) {
        phis[k] = LLVMBuildPhi(g->em.b, LLVMTypeOf(state[k]), "");
        LLVMAddIncoming(phis[k], &state[k], &l->before, 1);
        state[k] = phis[k];
    }
}

/* Iterations first .. n-1 into one accumulator. */
static void one_run(sn_gen *g, sn_stmt_rec *s, const sn_gen_states *st, lv first, lv n, bool may_be_empty, lv *state) {
    lv phis[SN_GEN_STATES];
    sn_gen_loop l;
    begin(g, s, st, state);
    sn_gen_loop_begin(g, &l, s->axis, first, n, may_be_empty);
    carry(g, &l, st->n, phis, state);
    sn_gen_iteration(g, s, iteration, &(step){s, st, state}, state, st->n);
    if (g->status == SN_OK) sn_gen_loop_end(g, &l, phis, state, st->n);
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
    carry(g, &l, st->n, phis, state);
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

/* Every iteration is combined with those before it, but sumexp takes all of them at once at the end. */
static void unrolled(sn_gen *g, sn_stmt_rec *s, const sn_gen_states *st, lv *state, int64_t n) {
    lv *sumexp[SN_COUNT(st->combs)], x[SN_GEN_STATES];
    if (n == 0) identities(g, st, state);
    for (uint32_t c = 0; c < st->n_combs; c++) sumexp[c] = SN_NEWN(g->arena, lv, 2 * n);
    for (int64_t i = 0; i < n; i++) {
        sn_gen_part_used(g, s, i, n);
        sn_gen_fix(g, s->axis, i);
        run_region(g, s, x);
        sn_gen_unfix(g);
        if (g->status != SN_OK) return;
        for (uint32_t k = 0; k < st->n && i == 0; k++) state[k] = x[k];
        for (uint32_t c = 0; c < st->n_combs; c++) {
            const lv *one = x + st->first[c];
            if (st->combs[c] == SN_COMB_SUMEXP) sumexp[c][2 * i] = one[0], sumexp[c][2 * i + 1] = one[1];
            else if (i) combine_one(g, st->combs[c], st->dtypes[st->first[c]], state + st->first[c], one);
        }
    }
    for (uint32_t c = 0; c < st->n_combs && n > 1; c++)
        if (st->combs[c] == SN_COMB_SUMEXP)
            sn_gen_sumexp(g, st->dtypes[st->first[c]], state + st->first[c], sumexp[c], (uint32_t)n);
}

/* Halves are combined until one lane is left; of an odd number the last lane is kept for the end. */
void sn_gen_across_lanes(sn_gen *g, const sn_gen_states *st, lv *x, uint32_t lanes) {
    for (uint32_t k = 0; k < st->n; k++) x[k] = sn_em_splat(&g->em, x[k], lanes);
    lv spare[SN_GEN_STATES];
    bool has_spare = false;
    for (uint32_t n = lanes; n > 1; n /= 2) {
        lv low[SN_GEN_STATES], high[SN_GEN_STATES];
        for (uint32_t k = 0; k < st->n; k++) {
            low[k] = sn_em_slice(&g->em, x[k], 0, n / 2);
            high[k] = sn_em_slice(&g->em, x[k], n / 2, n / 2);
        }
        if (n % 2) {
            lv last[SN_GEN_STATES];
            for (uint32_t k = 0; k < st->n; k++) last[k] = sn_em_lane(&g->em, x[k], n - 1);
            if (has_spare) sn_gen_combine(g, st, spare, last);
            else
                for (uint32_t k = 0; k < st->n; k++) spare[k] = last[k];
            has_spare = true;
        }
        sn_gen_combine(g, st, low, high);
        for (uint32_t k = 0; k < st->n; k++) x[k] = low[k];
    }
    if (has_spare) sn_gen_combine(g, st, x, spare);
}

static bool as_vector(sn_gen *g, sn_stmt_rec *s, const sn_gen_states *st, lv *state, int64_t n) {
    lv *outer = g->yields;
    g->yields = state;
    bool done = sn_gen_vector_region(g, s);
    g->yields = outer;
    for (uint32_t c = 0; done && g->status == SN_OK && c < st->n_combs; c++) {
        sn_gen_states one = sn_gen_states_of_one(st, c);
        if (st->combs[c] == SN_COMB_SUMEXP) sn_gen_sumexp_lanes(g, one.dtypes[0], state + st->first[c], (uint32_t)n);
        else sn_gen_across_lanes(g, &one, state + st->first[c], (uint32_t)n);
    }
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

void sn_gen_reduce(sn_gen *g, sn_stmt_rec *s) {
    sn_gen_states st = states_of(g, s);
    lv state[SN_GEN_STATES];
    int64_t n = sn_gen_extent(g, s->axis);
    bool written_out =
        n == 1 || sn_gen_waits_for_parts(g, s) || ((s->kind == SN_AXIS_UNROLL || s->kind == SN_AXIS_VECTOR) && n >= 0);
    if (sn_gen_is_block(g, s->kind)) across_threads(g, s, &st, state);
    else if (s->kind == SN_AXIS_VECTOR && as_vector(g, s, &st, state, n)) (void)0;
    else if (written_out) unrolled(g, s, &st, state, n);
    else sequential(g, s, &st, state);
    if (g->status != SN_OK) return;
    for (uint32_t k = 0; k < st.n; k++) g->vals[s->result.i + k] = state[k];
}
