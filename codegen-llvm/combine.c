/* combine.c: combining the states of reductions and prefixes: one with another, many at once, the lanes of a vector.
 *
 * A combiner has one state (sum, max, ...), two (a value and its position; sumexp, which has sumexp.c) or three (moments); a reduction
 * may have several combiners, whose states lie behind one another. Many states are combined in pairs, so that rounding
 * grows with the logarithm of their number, and in an order that depends on that number alone: the same input gives the
 * same bits. Two states give the same bits in either order, as butterflies over threads need it. Where the states are,
 * and which of them meet, is the business of those who call this: reduce.c, scan.c, block.c, cluster.c.
 */
#include "codegen-llvm/gen.h"

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

/* The mean of a sum of n numbers; of none it is 0. */
static lv mean_of(sn_gen *g, sn_dtype t, lv sum, lv n) {
    sn_em *em = &g->em;
    lv some = em_select(em, em_fcmp(em, LLVMRealOGT, n, sn_em_f(em, n, 0)), n, sn_em_f(em, n, 1));
    return sn_math_op(em, SN_LOP_DIV, t, (lv[]){sum, some}, 2);
}

/* moments; two states give the same bits in either order. Of no numbers the mean is 0, and nothing is far from it. */
static void combine_moments(sn_gen *g, sn_dtype t, lv *state, const lv *x) {
    sn_em *em = &g->em;
    lv in[6] = {state[0], state[1], state[2], x[0], x[1], x[2]}, mean[2];
    sn_em_unify(em, in, 6);
    lv none = sn_em_f(em, in[2], 0), one = sn_em_f(em, in[2], 1);
    for (uint32_t k = 0; k < 2; k++) mean[k] = mean_of(g, t, in[3 * k], in[3 * k + 2]);
    lv away = em_sub(em, mean[1], mean[0]), n = em_add(em, in[2], in[5]), of_both = em_mul(em, in[2], in[5]);
    lv both = em_fcmp(em, LLVMRealOGT, of_both, none);
    lv weight = sn_math_op(em, SN_LOP_DIV, t, (lv[]){of_both, em_select(em, both, n, one)}, 2);
    lv apart = em_select(em, both, em_mul(em, em_mul(em, away, away), weight), none);
    state[0] = em_add(em, in[0], in[3]);
    state[1] = em_add(em, em_add(em, in[1], in[4]), apart);
    state[2] = n;
}

/* x[step * i] added up in pairs; x changes. */
static lv add_up(sn_gen *g, lv *x, uint32_t n, uint32_t step) {
    for (uint32_t apart = 1; apart < n; apart *= 2)
        for (uint32_t i = 0; i + apart < n; i += 2 * apart)
            x[i * step] = em_add(&g->em, x[i * step], x[(i + apart) * step]);
    return x[0];
}

/* moments of many states at once: sums first, then squares about the mean of all, so that two quotients are waited for, whatever their number.
 * over: what adds up over lanes or threads that have n states each; NULL: one has all. x[3*i + k]: state k of number i, which changes. */
static void moments_of(sn_gen *g, sn_dtype t, lv *state, lv *x, uint32_t n, sn_gen_over *over, uint32_t width) {
    enum { STATES = 3 };
    sn_em *em = &g->em;
    sn_gen_states two = {.n_combs = 2, .combs = {SN_COMB_SUM, SN_COMB_SUM}, .first = {0, 1}, .n = 2, .dtypes = {t, t}};
    sn_gen_states one = sn_gen_states_of_one(&two, 0);
    lv *mean = SN_NEWN(g->arena, lv, n), *own = SN_NEWN(g->arena, lv, n), all[2];
    sn_em_unify(em, x, STATES * n);
    for (uint32_t i = 0; i < n; i++) own[i] = x[STATES * i + 2], mean[i] = mean_of(g, t, x[STATES * i], own[i]);
    all[0] = add_up(g, x, n, STATES);
    all[1] = add_up(g, x + 2, n, STATES);
    if (over) over(g, &two, all, width);
    lv about = mean_of(g, t, all[0], all[1]);
    for (uint32_t i = 0; i < n; i++) {
        lv away = em_sub(em, mean[i], about), none = sn_em_f(em, own[i], 0), *q = &x[STATES * i + 1];
        lv apart = em_mul(em, em_mul(em, away, away), own[i]);
        *q = em_add(em, *q, em_select(em, em_fcmp(em, LLVMRealOGT, own[i], none), apart, none));
    }
    lv squares = add_up(g, x + 1, n, STATES);
    if (over) over(g, &one, &squares, width);
    state[0] = all[0], state[1] = squares, state[2] = all[1];
}

void sn_gen_moments_by(sn_gen *g, sn_dtype t, lv *x, sn_gen_over *over, uint32_t width) {
    moments_of(g, t, x, x, 1, over, width);
}

static void combine_one(sn_gen *g, sn_comb comb, sn_dtype t, lv *state, const lv *x) {
    if (sn_combs[comb].states == 1) {
        if (sn_gen_combine_bytes(g, comb, t, state, x[0])) return;
        state[0] = sn_math_op(&g->em, sn_comb_lops[comb], t, (lv[]){state[0], x[0]}, 2);
        return;
    }
    if (comb == SN_COMB_MOMENTS) {
        combine_moments(g, t, state, x);
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
        lv *a = SN_NEWN(g->arena, lv, (size_t)states * n);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < states; k++) a[i * states + k] = x[(size_t)(first + k) * n + i];
        if (st->combs[c] == SN_COMB_SUMEXP) {
            sn_gen_sumexp(g, st->dtypes[first], state + first, a, n);
            continue;
        }
        if (st->combs[c] == SN_COMB_MOMENTS && n > 2) {
            moments_of(g, st->dtypes[first], state + first, a, n, NULL, 0);
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

void sn_gen_identities(sn_gen *g, const sn_gen_states *st, lv *state) {
    for (uint32_t c = 0; c < st->n_combs; c++) {
        sn_scalar x[SN_GEN_STATES];
        sn_scalar_identity(st->combs[c], st->dtypes[st->first[c]], x);
        for (uint32_t k = 0; k < sn_combs[st->combs[c]].states; k++)
            state[st->first[c] + k] = sn_math_const(&g->em, st->dtypes[st->first[c] + k], x[k].f, x[k].i);
    }
}

/* ---- lanes ---- */

/* Halves are combined until one lane is left; of an odd number the last lane is kept for the end. */
static void halve(sn_gen *g, const sn_gen_states *st, lv *x, uint32_t lanes) {
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

/* sumexp of f64 on a GPU: two lanes cost one exponential. */
static void combine_doubles(sn_gen *g, lv *x, uint32_t lanes) {
    lv *all = SN_NEWN(g->arena, lv, (size_t)2 * lanes);
    for (uint32_t i = 0; i < 2 * lanes; i++) all[i] = sn_em_lane(&g->em, x[i % 2], i / 2);
    sn_gen_sumexp(g, SN_F64, x, all, lanes);
}

void sn_gen_sumexp_vectors(sn_gen *g, sn_dtype t, lv *state, lv *x, uint32_t n, uint32_t lanes) {
    for (uint32_t k = 0; k < 2 * n; k++) x[k] = sn_em_splat(&g->em, x[k], lanes);
    sn_gen_sumexp_over(g, t, state, x, n, halve, lanes);
}

void sn_gen_combine_lanes(sn_gen *g, const sn_gen_states *st, lv *state, uint32_t lanes) {
    for (uint32_t c = 0; c < st->n_combs; c++) {
        sn_gen_states one = sn_gen_states_of_one(st, c);
        lv *x = state + st->first[c];
        if (st->combs[c] != SN_COMB_SUMEXP) {
            if (!sn_gen_combine_byte_lanes(g, st->combs[c], one.dtypes[0], x)) halve(g, &one, x, lanes);
            continue;
        }
        for (uint32_t k = 0; k < 2; k++) x[k] = sn_em_splat(&g->em, x[k], lanes);
        if (g->gpu && one.dtypes[0] == SN_F64) combine_doubles(g, x, lanes);
        else sn_gen_sumexp_by(g, one.dtypes[0], x, halve, lanes);
    }
}
