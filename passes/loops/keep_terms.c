/* keep_terms.c: the pass `keep-terms`: on the CPU what a reduction has computed of a row is not computed again.
 *
 *     %s = reduce sum r { %0 = load x[r]  %1 = exp %0  yield %1 }      loop j { %2 = load x[j]  %3 = exp %2  store y[j], %3 / %s }
 *  -> %s = reduce sum r { %0 = load x[r]  %1 = exp %0  store y[r], %1  yield %1 }      loop j { %3 = load y[j]  store y[j], %3 / %s }
 *
 * The place where the result goes is there already, and in the nearest caches: a softmax takes one exponential an element. A GPU
 * keeps rows in registers (schedule/rows/stage.c). Pays where the value takes more than to store and to load it, and where the row
 * stays in the cache of a core; longer ones are read once by online-softmax.
 *
 * Legal where the value is of the dtype of y, and y is stored once in the kernel, at one place for each iteration and behind the
 * value, and not loaded. Not done where y is written to an input: what a kernel loads again cannot be in place (plan), and a copy
 * behind it takes longer. Cost: pairs of nests of a kernel times statements in them.
 */
#include "passes/base/costs.h"
#include "passes/base/twins.h"
#include "passes/schedule/base/constants.h"

enum { MOST_NESTS = 16 };

typedef struct keeper {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_chain first, then; /* the nest that has the value, and the one that computes it again */
    sn_stmt store;        /* of y, in `then` */
} keeper;

static sn_stmt region_of(const keeper *kp, const sn_chain *c) { return sn_stmt_get(kp->m, c->at[c->n - 1])->first; }

/* Is the row of y and of what it is made of within the cache of a core? */
static bool stays_near(const keeper *kp, sn_buf y) {
    int64_t bytes = sn_dtype_bytes(sn_buf_get(kp->m, y)->dtype), steps = sn_chain_count(kp->m, &kp->then);
    return sn_mul_clamped(steps, 2 * bytes) <= SN_HOST_CACHE;
}

/* An output that the caller wants in the storage of an input? */
static bool is_for_input(const keeper *kp, sn_buf y) {
    const sn_buf_rec *b = sn_buf_get(kp->m, y);
    const sn_graph_ir *g = &kp->m->graph;
    return b->scope == SN_BUF_OUTPUT && b->io < g->outputs.n && g->outputs.at[b->io].writes >= 0;
}

/* The one store to its buffer, at a place of its own for each iteration of the nest. */
static bool is_place(const keeper *kp, sn_stmt s) {
    sn_module *m = kp->m;
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    int64_t c;
    if (r->op != SN_LOP_STORE || r->has_mask || sn_ix_uses_vals(m, r->ix) || sn_kern_loads(m, kp->k, r->buf))
        return false;
    if (is_for_input(kp, r->buf)) return false;
    for (sn_stmt t = sn_stmt_walk_first(m, kp->k); t.i; t = sn_stmt_walk_next(m, t))
        if (t.i != s.i && sn_stores(sn_stmt_get(m, t)) && sn_stmt_get(m, t)->buf.i == r->buf.i) return false;
    for (uint32_t d = 0; d < kp->then.n; d++)
        if (!sn_ix_coef(m, r->ix, sn_stmt_axis(m, kp->then.at[d]), &c) || c < 1) return false;
    return stays_near(kp, r->buf);
}

/* The last value of `then` in front of the store that takes long, is of y's dtype, and was computed in `first`. */
static bool find_value(const keeper *kp, sn_val *in_first, sn_val *in_then) {
    sn_module *m = kp->m;
    sn_twins tw = {.m = m, .k = kp->k, .one = &kp->first, .two = &kp->then, .twin = {.arena = kp->cx->scratch}};
    sn_dtype dtype = sn_buf_get(m, sn_stmt_get(m, kp->store)->buf)->dtype;
    bool found = false;
    if (!sn_twins_extents(&tw)) return false;
    for (sn_stmt t = region_of(kp, &kp->then); t.i != kp->store.i; t = sn_next(m, t)) {
        const sn_stmt_rec *b = sn_stmt_get(m, t);
        if (sn_is_access(b) || sn_costs[b->op].full <= SN_KEEP_COST || b->n_results != 1 ||
            sn_val_get(m, b->result)->dtype != dtype)
            continue;
        for (sn_stmt s = region_of(kp, &kp->first); s.i; s = sn_next(m, s)) {
            const sn_stmt_rec *a = sn_stmt_get(m, s);
            if (a->op != b->op || a->n_results != 1 || !sn_twins_alike(&tw, a->result, b->result)) continue;
            *in_first = a->result, *in_then = b->result;
            found = true;
            break;
        }
    }
    return found;
}

static void keep(const keeper *kp, sn_val in_first, sn_val in_then) {
    sn_module *m = kp->m;
    const sn_stmt_rec *store = sn_stmt_get(m, kp->store);
    sn_axis from[SN_MAX_CHAIN];
    sn_ix to[SN_MAX_CHAIN], place = store->ix;
    sn_buf y = store->buf;
    for (uint32_t d = 0; d < kp->then.n; d++) {
        from[d] = sn_stmt_axis(m, kp->then.at[d]);
        to[d] = sn_ix_axis(m, sn_stmt_axis(m, kp->first.at[d]));
    }
    sn_put_store(m, sn_at_after(m, sn_val_get(m, in_first)->def), y, sn_ix_subst(m, place, from, to, kp->then.n),
                 in_first);
    sn_val again = sn_put_load(m, sn_at_before(m, sn_val_get(m, in_then)->def), y, place);
    sn_val_replace(m, kp->k, in_then, again);
    sn_kern_dead_code(m, kp->k);
    sn_kern_collect_params(m, kp->k);
}

/* Between two nests of the body. */
static bool keep_between(keeper *kp, sn_stmt a, sn_stmt b) {
    sn_module *m = kp->m;
    sn_val in_first, in_then;
    const sn_stmt_rec *r = sn_stmt_get(m, a);
    if (r->op != SN_LOP_REDUCE || r->kind != SN_AXIS_SEQ || sn_is_scan(m, a) || sn_stmt_get(m, b)->op != SN_LOP_LOOP)
        return false;
    if (!sn_nest_perfect(&kp->first, m, a) || !sn_nest_perfect(&kp->then, m, b) || sn_is_scan(m, b)) return false;
    for (sn_stmt s = region_of(kp, &kp->first); s.i; s = sn_next(m, s))
        if (sn_stores(sn_stmt_get(m, s))) return false;
    for (kp->store = region_of(kp, &kp->then); kp->store.i; kp->store = sn_next(m, kp->store)) {
        if (!is_place(kp, kp->store) || !find_value(kp, &in_first, &in_then)) continue;
        keep(kp, in_first, in_then);
        return true;
    }
    return false;
}

static bool keep_in_kernel(sn_pass_ctx *cx, sn_kern k) {
    keeper kp = {.cx = cx, .m = cx->m, .k = k};
    sn_chain outer;
    sn_stmt nests[MOST_NESTS];
    uint32_t n = 0;
    bool kept = false;
    sn_chain_outer(&outer, cx->m, k);
    sn_stmt body = outer.n ? outer.at[outer.n - 1] : (sn_stmt){0};
    for (sn_stmt s = sn_region_first(cx->m, k, body); s.i && n < MOST_NESTS; s = sn_next(cx->m, s))
        if (sn_is_nest(sn_stmt_get(cx->m, s))) nests[n++] = s;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; b < n; b++) kept |= keep_between(&kp, nests[a], nests[b]);
    return kept;
}

sn_status sn_pass_keep_terms(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    if (cx->target->is_gpu) return SN_OK;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        sn_kern k = m->kernels.at[i];
        if (sn_kern_is_free(sn_kern_get(m, k))) *changed |= keep_in_kernel(cx, k);
    }
    return m->env->status;
}
