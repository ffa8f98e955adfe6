/* rebuild.c: see rebuild.h. Purely structural: which axes and sizes are good is decided by `split-reduction` and
 * `schedule`.
 */
#include "passes/base/rebuild.h"

#include "ir/ops/scalar.h"

sn_val sn_put_identity(sn_module *m, sn_cursor at, sn_comb comb, uint32_t state, sn_dtype dtype) {
    sn_scalar id[SN_MOST_STATES];
    sn_scalar_identity(comb, dtype, id);
    if (sn_is_float(dtype)) return sn_put_const(m, at, dtype, id[state].f);
    return sn_put_const_int(m, at, dtype, id[state].i);
}

/* ---- masks ---- */

static void mask_load(sn_module *m, sn_kern k, sn_stmt s, sn_val mask) {
    sn_cursor at = sn_at_before(m, s);
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    sn_val both = r->has_mask ? sn_put_op2(m, at, SN_LOP_AND, r->in[0], mask) : mask;
    sn_val otherwise = r->has_mask ? r->in[1] : sn_put_const(m, at, r->dtype, 0);
    sn_val v = sn_put_load_masked(m, at, r->buf, r->ix, both, otherwise);
    sn_val_replace(m, k, r->result, v);
    sn_stmt_unlink(m, s);
}

static void mask_store(sn_module *m, sn_stmt s, sn_val mask) {
    sn_cursor at = sn_at_before(m, s);
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    sn_val both = r->has_mask ? sn_put_op2(m, at, SN_LOP_AND, r->in[1], mask) : mask;
    sn_put_store_masked(m, at, r->buf, r->ix, r->in[0], both);
    sn_stmt_unlink(m, s);
}

/* Does the access stay where it is whatever the axes of the test are? */
static bool stays(const sn_module *m, const sn_stmt_rec *access, sn_ix test) {
    if (sn_ix_uses_vals(m, access->ix)) return false;
    for (sn_stmt s = access->parent; s.i; s = sn_stmt_get(m, s)->parent) {
        sn_axis ax = sn_stmt_get(m, s)->axis;
        if (ax.i && sn_ix_uses_axis(m, access->ix, ax) && sn_ix_uses_axis(m, test, ax)) return false;
    }
    return true;
}

void sn_mask_moved(sn_pass_ctx *cx, sn_kern k, sn_stmt s, sn_val mask) {
    sn_module *m = cx->m;
    sn_ix test = sn_stmt_get(m, sn_val_get(m, mask)->def)->ix;
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s, next; t.i && t.i != end.i; t = next) {
        next = sn_stmt_walk_next(m, t);
        const sn_stmt_rec *r = sn_stmt_get(m, t);
        if (!sn_is_access(r) || sn_buf_is_private(sn_buf_get(m, r->buf))) continue;
        if (r->op == SN_LOP_STORE) mask_store(m, t, mask);
        else if (sn_loads(r) && (!stays(m, r, test) || sn_kern_stores(m, k, r->buf))) mask_load(m, k, t, mask);
    }
}

void sn_mask_accesses(sn_pass_ctx *cx, sn_kern k, sn_stmt s, sn_val mask, bool loads) {
    sn_module *m = cx->m;
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s, next; t.i && t.i != end.i; t = next) {
        next = sn_stmt_walk_next(m, t);
        const sn_stmt_rec *r = sn_stmt_get(m, t);
        if (!sn_is_access(r)) continue;
        if (sn_buf_is_private(sn_buf_get(m, r->buf))) continue;
        if (r->op == SN_LOP_STORE) mask_store(m, t, mask);
        else if (sn_loads(r) && (loads || sn_kern_stores(m, k, r->buf))) mask_load(m, k, t, mask);
    }
}

/* ---- the new nest ---- */

typedef struct rebuild {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_stmt top;
    const sn_chain *nest;
    const sn_level *levels;
    uint32_t n;
    sn_stmt made[SN_MAX_LEVELS];
    sn_ix flat, lane0; /* position; position of lane 0 of a vector level */
    sn_stmt guard;     /* the `if` around the body of a loop, when there is one */
    sn_val mask;       /* the test of a reduce or scan, when there is one */
    int64_t count;
    const sn_nest_test *test;    /* NULL: positions are compared as they are */
    bool guarded, scan, by_lane; /* by_lane: lanes of a vector may answer the test differently */
    bool masked;                 /* tests stand at accesses, not around the body */
} rebuild;

static bool is_vector(const rebuild *rb, uint32_t level) { return rb->levels[level].kind == SN_AXIS_VECTOR; }

/* The test stands inside the last level that is not a vector, or inside all of them when lanes answer for
 * themselves. */
static void put_guard(rebuild *rb, sn_cursor *at) {
    sn_ix count = sn_ix_const(rb->m, rb->count), place = rb->by_lane ? rb->flat : rb->lane0;
    if (rb->test) {
        place = sn_ix_add(rb->m, sn_ix_scale(rb->m, place, rb->test->scale), rb->test->plus);
        count = sn_ix_const(rb->m, rb->count * rb->test->scale);
    }
    if (sn_stmt_get(rb->m, rb->top)->op == SN_LOP_REDUCE || rb->scan || rb->by_lane || rb->masked) {
        rb->mask = sn_put_in(rb->m, *at, place, count);
        return;
    }
    rb->guard = sn_put_if(rb->m, *at, place, count);
    *at = sn_at_end(rb->k, rb->guard);
}

static void open_levels(rebuild *rb, sn_ix base) {
    sn_module *m = rb->m;
    const sn_stmt_rec *top = sn_stmt_get(m, rb->top);
    sn_dtype dtypes[8];
    for (uint32_t r = 0; r < top->n_results; r++) dtypes[r] = sn_val_get(m, sn_result(top, r))->dtype;
    sn_cursor at = sn_at_before(m, rb->top);
    rb->flat = rb->lane0 = base;
    for (uint32_t k = 0; k < rb->n; k++) {
        const sn_level *lv = &rb->levels[k];
        bool after = !is_vector(rb, k) || rb->by_lane;
        if (rb->guarded && k == rb->n - 1 && !after) put_guard(rb, &at);
        sn_axis ax = sn_axis_new(m, lv->name, sn_ix_const(m, lv->extent));
        rb->made[k] = top->op == SN_LOP_REDUCE ? sn_put_reduce(m, at, ax, lv->kind, top->combs, top->n_combs, dtypes)
                                               : sn_put_loop(m, at, ax, lv->kind);
        sn_stmt_get(m, rb->made[k])->from = top->from;
        at = sn_at_end(rb->k, rb->made[k]);
        rb->flat = sn_ix_add(m, rb->flat, sn_ix_scale(m, sn_ix_axis(m, ax), lv->stride));
        if (!is_vector(rb, k)) rb->lane0 = rb->flat;
        if (rb->guarded && k == rb->n - 1 && after) put_guard(rb, &at);
    }
}

/* Move the statements of the innermost old region into the new one; its yield (if any) comes back, still in place. */
static sn_stmt move_body(rebuild *rb, sn_stmt into) {
    sn_module *m = rb->m;
    sn_stmt innermost = rb->nest->at[rb->nest->n - 1], yield = {0};
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix extents[SN_MAX_CHAIN], parts[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < rb->nest->n; k++) {
        axes[k] = sn_stmt_axis(m, rb->nest->at[k]);
        extents[k] = sn_stmt_extent(m, rb->nest->at[k]);
    }
    sn_ix_unflatten(m, rb->flat, extents, rb->nest->n, parts);
    for (sn_stmt t = sn_stmt_get(m, innermost)->first, next; t.i; t = next) {
        next = sn_next(m, t);
        sn_stmt_unlink(m, t);
        sn_stmt_subst(m, t, axes, parts, rb->nest->n);
        sn_stmt_insert(m, sn_at_end(rb->k, into), t);
        if (sn_stmt_get(m, t)->op == SN_LOP_YIELD) yield = t;
    }
    return yield;
}

/* Positions of prefixes count from 0 whatever the base is; what stands before the row is none of its elements. */
static void settle_accums(rebuild *rb, sn_ix base, bool early) {
    sn_module *m = rb->m;
    sn_stmt inner = rb->made[rb->n - 1], end = sn_stmt_walk_skip(m, inner);
    for (sn_stmt s = inner; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_ACCUM) continue;
        r->ix = sn_ix_sub(m, r->ix, base);
        if (!early) continue;
        sn_cursor at = sn_at_before(m, s);
        sn_val id = sn_put_identity(m, at, r->combs[0], 0, r->dtype);
        sn_val x = sn_put_op3(m, at, SN_LOP_SELECT, rb->mask, sn_stmt_get(m, s)->in[0], id);
        sn_stmt_get(m, s)->in[0] = x;
    }
}

/* A weight may stay what it is where the value is the identity, which adds nothing: it still folds when it is 1. */
static bool is_literal_weight(const sn_module *m, sn_comb comb, sn_val x) {
    return sn_combs[comb].second == SN_SECOND_WEIGHT && sn_stmt_get(m, sn_val_get(m, x)->def)->op == SN_LOP_CONST;
}

/* Yields of all levels: the body's (the identity where the mask does not hold), then results outwards. */
static void put_yields(rebuild *rb, sn_stmt old_yield) {
    sn_module *m = rb->m;
    const sn_stmt_rec *top = sn_stmt_get(m, rb->top), *old = sn_stmt_get(m, old_yield);
    sn_val states[8];
    sn_stmt_unlink(m, old_yield);
    sn_cursor at = sn_at_end(rb->k, rb->made[rb->n - 1]);
    uint32_t r = 0;
    for (uint32_t c = 0; c < top->n_combs; c++)
        for (uint32_t s = 0; s < sn_combs[top->combs[c]].states; s++, r++) {
            states[r] = old->in[r];
            if (!rb->mask.i || (s && is_literal_weight(m, top->combs[c], states[r]))) continue;
            sn_val id = sn_put_identity(m, at, top->combs[c], s, sn_val_get(m, sn_result(top, r))->dtype);
            states[r] = sn_put_op3(m, at, SN_LOP_SELECT, rb->mask, states[r], id);
        }
    for (uint32_t k = rb->n; k-- > 0;) {
        sn_put_yield(m, sn_at_end(rb->k, rb->made[k]), states, r);
        for (uint32_t s = 0; s < r; s++) states[s] = sn_result(sn_stmt_get(m, rb->made[k]), s);
    }
    for (uint32_t s = 0; s < r; s++) sn_val_replace(m, rb->k, sn_result(top, s), states[s]);
}

static sn_stmt rebuild_nest(rebuild *rb, sn_ix base) {
    const sn_level *last_level = &rb->levels[rb->n - 1];
    sn_range reach = sn_ix_range(rb->m, base);
    int64_t last = reach.hi;
    for (uint32_t i = 0; i < rb->n; i++) last += (rb->levels[i].extent - 1) * rb->levels[i].stride;
    rb->guarded = (last >= rb->count || reach.lo < 0) && rb->count > 0;
    rb->by_lane = is_vector(rb, rb->n - 1) && (reach.lo < 0 || rb->count % last_level->extent);
    rb->scan = sn_is_scan(rb->m, rb->nest->at[rb->nest->n - 1]);
    open_levels(rb, base);
    sn_stmt yield = move_body(rb, rb->guard.i && !is_vector(rb, rb->n - 1) ? rb->guard : rb->made[rb->n - 1]);
    if (rb->mask.i) sn_mask_accesses(rb->cx, rb->k, rb->made[rb->n - 1], rb->mask, true);
    if (rb->scan) settle_accums(rb, base, rb->mask.i && reach.lo < 0);
    if (yield.i) put_yields(rb, yield);
    sn_stmt_unlink(rb->m, rb->top);
    return rb->made[0];
}

sn_stmt sn_nest_rebuild_masked(sn_pass_ctx *cx, sn_kern k, sn_stmt top, const sn_chain *in_nest, int64_t count,
                               const sn_level *levels, uint32_t n) {
    rebuild rb = {.cx = cx, .m = cx->m, .k = k, .top = top, .nest = in_nest, .levels = levels, .n = n, .count = count};
    rb.masked = true;
    return rebuild_nest(&rb, sn_ix_const(cx->m, 0));
}

sn_stmt sn_nest_rebuild_by(sn_pass_ctx *cx, sn_kern k, sn_stmt top, const sn_chain *in_nest, sn_ix base, int64_t count,
                           const sn_level *levels, uint32_t n, const sn_nest_test *test) {
    rebuild rb = {.cx = cx, .m = cx->m, .k = k, .top = top, .nest = in_nest, .levels = levels, .n = n, .count = count};
    rb.test = test;
    return rebuild_nest(&rb, base);
}

sn_stmt sn_nest_rebuild(sn_pass_ctx *cx, sn_kern k, sn_stmt top, const sn_chain *in_nest, sn_ix base, int64_t count,
                        const sn_level *levels, uint32_t n) {
    return sn_nest_rebuild_by(cx, k, top, in_nest, base, count, levels, n, NULL);
}
