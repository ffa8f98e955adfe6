/* hoist_factor.c: the pass `hoist-factor`: a sum that waits for another one only because of a common factor stops
 * waiting.
 *
 *     %0 = reduce sum r { ... yield %x2 }  %s = rsqrt %0  %1 = reduce sum r { ... %2 = mul %x, %s  %3 = mul %g, %2  yield %3 }
 *  -> %0, %1 = reduce (sum, sum) r { ... %2 = mul %g, %x  yield %x2, %2 }  %s = rsqrt %0  %3 = mul %1, %s
 *
 * The rows of a backward normalisation then exchange their sums twice instead of three times. Only factors that come
 * out of a reduction of the same row are taken out: algebra that keeps real numbers, though not the last bits, nor all
 * infinities, so it is done where it pays alone. Float sums only. Runs after `fuse`. Cost: linear in the kernel for
 * each such factor.
 */
#include "passes/fuse/fuse.h"

enum { MAX_STEPS = 64 };

typedef struct factoring {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_stmt top, last; /* the reduction; its innermost level */
} factoring;

static sn_stmt def_of(const sn_module *m, sn_val v) { return sn_val_get(m, v)->def; }

static bool is_sum(const sn_stmt_rec *reduce) {
    for (uint32_t c = 0; c < reduce->n_combs; c++)
        if (reduce->combs[c] != SN_COMB_SUM) return false;
    return true;
}

/* Is v, which is defined in front of the reduction, computed from a reduction in the same region? */
static bool comes_from_reduce(const factoring *f, sn_val v, uint32_t *steps) {
    sn_stmt s = def_of(f->m, v);
    const sn_stmt_rec *r = sn_stmt_get(f->m, s);
    if (r->parent.i != sn_stmt_get(f->m, f->top)->parent.i || ++*steps > MAX_STEPS) return false;
    if (r->op == SN_LOP_REDUCE) return is_sum(r);
    for (uint32_t i = 0; i < r->n_in; i++)
        if (comes_from_reduce(f, r->in[i], steps)) return true;
    return false;
}

static bool is_factor(const factoring *f, sn_val v) {
    uint32_t steps = 0;
    return !sn_stmt_inside(f->m, def_of(f->m, v), f->top) && comes_from_reduce(f, v, &steps);
}

/* How many such factors the product v has, two for more. counts: of products that were met, which may be operands of many. */
static uint32_t count_factors(const factoring *f, sn_val v, sn_notes *counts) {
    sn_stmt s = def_of(f->m, v);
    const sn_stmt_rec *r = sn_stmt_get(f->m, s);
    uint64_t n = 0;
    if (r->op != SN_LOP_MUL || !sn_stmt_inside(f->m, s, f->top)) return 0;
    if (sn_notes_find(counts, v.i, &n)) return (uint32_t)n;
    for (uint32_t k = 0; k < 2; k++) n += is_factor(f, r->in[k]) ? 1 : count_factors(f, r->in[k], counts);
    sn_notes_set(counts, v.i, n < 2 ? n : 2);
    return n < 2 ? (uint32_t)n : 2;
}

/* The product v, which has one such factor, without it. */
static sn_val without_factor(const factoring *f, sn_val v, sn_val *factor, sn_notes *counts) {
    sn_stmt s = def_of(f->m, v);
    const sn_stmt_rec *r = sn_stmt_get(f->m, s);
    if (count_factors(f, v, counts) == 0) return (sn_val){0};
    sn_val in[2] = {r->in[0], r->in[1]};
    for (uint32_t k = 0; k < 2; k++)
        if (is_factor(f, in[k])) {
            *factor = in[k];
            return in[1 - k];
        }
    for (uint32_t k = 0; k < 2; k++) {
        sn_val rest = without_factor(f, in[k], factor, counts);
        if (!rest.i) continue;
        in[k] = rest;
        return sn_put_op(f->m, sn_at_before(f->m, sn_stmt_get(f->m, f->last)->last), SN_LOP_MUL, in, 2);
    }
    return (sn_val){0};
}

/* Uses of result `number` see it times the factor. */
static void multiply_result(const factoring *f, uint32_t number, sn_val factor) {
    sn_val old = sn_result(sn_stmt_get(f->m, f->top), number);
    sn_val product = sn_put_op2(f->m, sn_at_after(f->m, f->top), SN_LOP_MUL, old, factor);
    sn_val_replace(f->m, f->k, old, product);
    sn_stmt_get(f->m, def_of(f->m, product))->in[0] = old;
}

static bool take_factors(const factoring *f) {
    const sn_stmt_rec *r = sn_stmt_get(f->m, f->top);
    bool any = false;
    uint32_t state = 0;
    for (uint32_t c = 0; c < r->n_combs; state += sn_combs[r->combs[c]].states, c++) {
        if (r->combs[c] != SN_COMB_SUM || !sn_is_float(sn_val_get(f->m, sn_result(r, state))->dtype)) continue;
        sn_stmt yield = sn_stmt_get(f->m, f->last)->last;
        sn_val product = sn_stmt_get(f->m, yield)->in[state], factor;
        sn_notes counts = {.arena = f->cx->scratch};
        if (count_factors(f, product, &counts) != 1) continue; /* powers of a factor keep numbers in range */
        sn_val rest = without_factor(f, product, &factor, &counts);
        sn_stmt_get(f->m, yield)->in[state] = rest;
        multiply_result(f, state, factor);
        any = true;
    }
    return any;
}

/* Merge the reduction into an earlier one of its region. */
static void join(const factoring *f) {
    for (sn_stmt s = sn_region_first(f->m, f->k, sn_stmt_get(f->m, f->top)->parent); s.i != f->top.i;
         s = sn_next(f->m, s))
        if (sn_stmt_get(f->m, s)->op == SN_LOP_REDUCE && sn_fuse_join(f->cx, f->k, s, f->top)) return;
}

static bool factor_kernel(sn_pass_ctx *cx, sn_kern k) {
    sn_module *m = cx->m;
    uint32_t taken = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, k), next; s.i; s = next) {
        sn_chain nest;
        next = sn_stmt_walk_next(m, s);
        if (sn_stmt_get(m, s)->op != SN_LOP_REDUCE || !sn_nest_perfect(&nest, m, s)) continue;
        factoring f = {cx, m, k, s, nest.at[nest.n - 1]};
        next = sn_stmt_walk_skip(m, s);
        if (!take_factors(&f)) continue;
        sn_kern_dead_code(m, k); /* the old products wait still */
        next = sn_stmt_walk_skip(m, s);
        join(&f);
        taken++;
    }
    if (!taken) return false;
    sn_kern_cse(m, k);
    sn_kern_dead_code(m, k);
    sn_remark(cx, sn_kern_get(m, k)->name, "%u sums wait no longer for a factor", taken);
    return true;
}

sn_status sn_pass_hoist_factor(sn_pass_ctx *cx, bool *changed) {
    for (uint32_t i = 0; i < cx->m->kernels.n; i++)
        if (!sn_kern_get(cx->m, cx->m->kernels.at[i])->scheduled) *changed |= factor_kernel(cx, cx->m->kernels.at[i]);
    return cx->m->env->status;
}
