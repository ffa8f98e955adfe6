/* sumexp.c: the combiner sumexp, whose state (m, s) stands for s * e^m (ir/ops/combs.def has its meaning).
 *
 * As many states as meet at a place are combined at once: their maximum first, then one e^ a state. The lanes of a vector
 * and the iterations of a written-out axis cost one e^ each that way, and only their result is rescaled further out; on a
 * GPU several vectors of a written-out axis are one such place (reduce.c). Two states give the same bits in either order
 * (products are not contracted), as butterflies over threads need it.
 */
#include <math.h>

#include "codegen-llvm/gen.h"

static sn_dtype computed_in(sn_dtype t) { return t == SN_F64 ? SN_F64 : SN_F32; }

/* What is subtracted: m, but 0 for an infinite m, so that -inf adds nothing and inf is infinite. */
static lv shift_by(sn_em *em, lv m) {
    return em_select(em, em_equals(em, em_abs(em, m), INFINITY), sn_em_f(em, m, 0), m);
}

static lv term(sn_em *em, const lv *x, lv shift) {
    return em_mul(em, sn_math_exp_term(em, em_sub(em, x[0], shift)), x[1]);
}

/* a[0] = a[0] op a[1] op ..., as a tree. */
static lv tree(sn_em *em, lv (*op)(sn_em *em, lv x, lv y), lv *a, uint32_t n) {
    for (uint32_t step = 1; step < n; step *= 2)
        for (uint32_t i = 0; i + step < n; i += 2 * step) a[i] = op(em, a[i], a[i + step]);
    return a[0];
}

static lv plus(sn_em *em, lv x, lv y) { return em_add(em, x, y); }

/* ---- f64 on GPUs ---- */

/* A comparison of f64 takes the time of a product: none asks each element whether it is nan, but each pair. Terms are not to be
 * trusted where the maximum is inf or nan (sn_math_exp_term): there it is the sum. */
static lv larger_f64(sn_em *em, lv x, lv y) { return em_select(em, em_fcmp(em, LLVMRealOGT, x, y), x, y); }
static lv smaller_f64(sn_em *em, lv x, lv y) { return em_select(em, em_fcmp(em, LLVMRealOLT, x, y), x, y); }
static lv nan_if(sn_em *em, lv any, lv x) { return em_select(em, any, sn_em_f(em, x, NAN), x); }

static lv sum_of(sn_em *em, lv m, lv s) {
    return em_select(em, em_fcmp(em, LLVMRealUGE, m, sn_em_f(em, m, INFINITY)), m, s);
}

lv sn_gen_extreme_f64(sn_em *em, sn_comb comb, lv *x, uint32_t n) {
    sn_em_unify(em, x, n);
    lv any = em_fcmp(em, LLVMRealUNO, x[0], x[n - 1]);
    for (uint32_t k = 1; k + 1 < n; k += 2) any = em_or(em, any, em_fcmp(em, LLVMRealUNO, x[k], x[k + 1]));
    return nan_if(em, any, tree(em, comb == SN_COMB_MAX ? larger_f64 : smaller_f64, x, n));
}

/* Of two states one has the maximum: its term is 1. Where both maxima are infinite the difference is nan, which stands for nothing. */
static void two_f64(sn_em *em, lv *state, const lv *in) {
    lv first = em_fcmp(em, LLVMRealOGT, in[0], in[2]), m = em_select(em, first, in[0], in[2]);
    lv e = sn_math_exp_apart(em, em_sub(em, in[0], in[2]));
    lv s = em_fma(em, em_select(em, first, in[3], in[1]), e, em_select(em, first, in[1], in[3]));
    state[0] = nan_if(em, em_fcmp(em, LLVMRealUNO, in[0], in[2]), m);
    state[1] = sum_of(em, state[0], s);
}

void sn_gen_sumexp(sn_gen *g, sn_dtype t, lv *state, const lv *x, uint32_t n) {
    sn_em *em = &g->em;
    sn_dtype wide = computed_in(t);
    lv *in = SN_NEWN(g->arena, lv, 2 * n), *a = SN_NEWN(g->arena, lv, n);
    for (uint32_t k = 0; k < 2 * n; k++) in[k] = sn_math_cast(em, wide, t, x[k]);
    sn_em_unify(em, in, 2 * n);
    bool doubles = g->gpu && wide == SN_F64;
    if (doubles && n == 2) {
        two_f64(em, state, in);
        return;
    }
    for (uint32_t k = 0; k < n; k++) a[k] = in[2 * k];
    lv m = doubles ? sn_gen_extreme_f64(em, SN_COMB_MAX, a, n) : tree(em, sn_em_fmax, a, n), shift = shift_by(em, m);
    for (uint32_t k = 0; k < n; k++) a[k] = term(em, in + 2 * k, shift);
    lv s = tree(em, plus, a, n);
    state[0] = sn_math_cast(em, t, wide, m);
    state[1] = sn_math_cast(em, t, wide, doubles ? sum_of(em, m, s) : s);
}

void sn_gen_sumexp_over(sn_gen *g, sn_dtype t, lv *state, const lv *x, uint32_t n, sn_gen_over *over, uint32_t width) {
    sn_em *em = &g->em;
    sn_gen_states max = {.n_combs = 1, .n = 1, .combs = {SN_COMB_MAX}, .dtypes = {computed_in(t)}}, sum = max;
    sum.combs[0] = SN_COMB_SUM;
    lv *in = SN_NEWN(g->arena, lv, 2 * n), *a = SN_NEWN(g->arena, lv, n);
    for (uint32_t k = 0; k < 2 * n; k++) in[k] = sn_math_cast(em, max.dtypes[0], t, x[k]);
    for (uint32_t k = 0; k < n; k++) a[k] = in[2 * k];
    lv m = tree(em, sn_em_fmax, a, n);
    over(g, &max, &m, width);
    lv shift = sn_em_splat(em, shift_by(em, m), sn_em_lanes(in[0]));
    for (uint32_t k = 0; k < n; k++) a[k] = term(em, in + 2 * k, shift);
    lv s = tree(em, plus, a, n);
    over(g, &sum, &s, width);
    if (g->gpu && max.dtypes[0] == SN_F64) s = sum_of(em, m, s);
    state[0] = sn_math_cast(em, t, max.dtypes[0], m);
    state[1] = sn_math_cast(em, t, max.dtypes[0], s);
}

void sn_gen_sumexp_by(sn_gen *g, sn_dtype t, lv *x, sn_gen_over *over, uint32_t width) {
    sn_gen_sumexp_over(g, t, x, x, 1, over, width);
}
