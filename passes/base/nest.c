/* nest.c: see nest.h. */
#include "passes/base/nest.h"

#include <string.h>

sn_stmt sn_region_first(const sn_module *m, sn_kern k, sn_stmt s) {
    return s.i ? sn_stmt_get(m, s)->first : sn_kern_get(m, k)->first;
}

sn_stmt sn_next(const sn_module *m, sn_stmt s) { return sn_stmt_get(m, s)->next; }

bool sn_is_scan(const sn_module *m, sn_stmt s) {
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s; t.i != end.i; t = sn_stmt_walk_next(m, t)) {
        const sn_stmt_rec *r = sn_stmt_get(m, t);
        if (r->op == SN_LOP_ACCUM && sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, s))) return true;
    }
    return false;
}

bool sn_is_steps(const sn_module *m, sn_stmt s) {
    sn_axis ax = sn_stmt_axis(m, s);
    sn_stmt end = sn_stmt_walk_skip(m, s);
    int64_t extent;
    if (sn_stmt_get(m, s)->op != SN_LOP_LOOP) return false;
    if (sn_ix_is_const(m, sn_stmt_extent(m, s), &extent) && extent <= 1) return false;
    for (sn_stmt t = s; t.i != end.i; t = sn_stmt_walk_next(m, t))
        if (sn_stmt_get(m, t)->op == SN_LOP_STORE && !sn_ix_uses_axis(m, sn_stmt_get(m, t)->ix, ax)) return true;
    return false;
}

bool sn_runs_in_order(const sn_module *m, sn_stmt s) { return sn_is_scan(m, s) || sn_is_steps(m, s); }

bool sn_access_lead(sn_ix *out, sn_module *m, sn_ix e, sn_axis ax, uint32_t vector) {
    sn_ix zero = sn_ix_const(m, 0), v = sn_ix_const(m, vector);
    int64_t step;
    if (!sn_ix_coef(m, e, ax, &step) || (step != 1 && step != -1)) return false;
    sn_ix start = sn_ix_subst(m, e, &ax, &zero, 1);
    *out = sn_ix_mod(m, step == 1 ? start : sn_ix_addc(m, sn_ix_scale(m, start, -1), -1), v);
    return true;
}

void sn_chain_outer(sn_chain *out, const sn_module *m, sn_kern k) {
    out->n = 0;
    for (sn_stmt parent = {0}; out->n < SN_MAX_CHAIN;) {
        sn_stmt s = sn_region_first(m, k, parent);
        if (!s.i || sn_next(m, s).i || sn_stmt_get(m, s)->op != SN_LOP_LOOP || sn_is_scan(m, s)) return;
        out->at[out->n++] = parent = s;
    }
}

void sn_chain_permute(sn_module *m, const sn_chain *c, const uint32_t *order) {
    sn_axis axes[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < c->n; k++) axes[k] = sn_stmt_axis(m, c->at[k]);
    for (uint32_t k = 0; k < c->n; k++) sn_stmt_get(m, c->at[k])->axis = axes[order[k]];
}

sn_axis sn_stmt_axis(const sn_module *m, sn_stmt s) { return sn_stmt_get(m, s)->axis; }
sn_ix sn_stmt_extent(const sn_module *m, sn_stmt s) { return sn_axis_get(m, sn_stmt_axis(m, s))->extent; }

bool sn_chain_extents(const sn_module *m, const sn_chain *c, int64_t *out) {
    for (uint32_t k = 0; k < c->n; k++)
        if (!sn_ix_is_const(m, sn_stmt_extent(m, c->at[k]), &out[k])) return false;
    return true;
}

int64_t sn_chain_count(const sn_module *m, const sn_chain *c) {
    int64_t product = 1, extent;
    for (uint32_t k = 0; k < c->n; k++) {
        if (!sn_ix_is_const(m, sn_stmt_extent(m, c->at[k]), &extent)) return -1;
        product = sn_mul_clamped(product, extent);
    }
    return product;
}

bool sn_stmt_uses_axis(const sn_module *m, sn_stmt s, sn_axis ax) {
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s; t.i && t.i != end.i; t = sn_stmt_walk_next(m, t)) {
        const sn_stmt_rec *r = sn_stmt_get(m, t);
        if (r->ix.i && sn_ix_uses_axis(m, r->ix, ax)) return true;
        if (r->bound.i && sn_ix_uses_axis(m, r->bound, ax)) return true;
    }
    return false;
}

int64_t sn_nest_bytes_along(sn_module *m, sn_stmt nest, sn_axis ax, uint32_t *least) {
    int64_t total = 0, c;
    sn_stmt end = sn_stmt_walk_skip(m, nest);
    *least = 0;
    for (sn_stmt s = nest; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_is_access(r)) continue;
        if (!sn_ix_coef(m, r->ix, ax, &c) || (c != 1 && c != -1)) continue;
        uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        total = sn_add_clamped(total, sn_buf_bytes(m, r->buf));
        if (*least == 0 || bytes < *least) *least = bytes;
    }
    return total;
}

uint32_t sn_kern_ops(const sn_module *m, sn_kern k) {
    uint32_t n = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) n += sn_stmt_get(m, s)->n_results > 0;
    return n;
}

/* ---- products ---- */

/* Is v x * y in f32, or that where a mask holds? */
static bool is_product(const sn_module *m, sn_val v) {
    const sn_stmt_rec *r = sn_stmt_get(m, sn_val_get(m, v)->def);
    while (r->op == SN_LOP_SELECT) r = sn_stmt_get(m, sn_val_get(m, r->in[1])->def);
    return r->op == SN_LOP_MUL && sn_val_get(m, v)->dtype == SN_F32 && !sn_val_eq(r->in[0], r->in[1]);
}

static bool sums_products(const sn_module *m, const sn_stmt_rec *reduce) {
    const sn_stmt_rec *yield = sn_stmt_get(m, reduce->last);
    uint32_t state = 0;
    for (uint32_t k = 0; k < reduce->n_combs; state += sn_combs[reduce->combs[k++]].states)
        if (reduce->combs[k] == SN_COMB_SUM && is_product(m, yield->in[state])) return true;
    return false;
}

bool sn_kern_has_products(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s))
        if (sn_stmt_get(m, s)->op == SN_LOP_REDUCE && sums_products(m, sn_stmt_get(m, s))) return true;
    return false;
}

bool sn_kern_is_attention(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        bool online = r->n_combs == 2 && r->combs[0] == SN_COMB_SUMEXP && r->combs[1] == SN_COMB_SUMEXP;
        for (sn_stmt t = r->first; online && t.i; t = sn_next(m, t))
            if (sn_stmt_get(m, t)->op == SN_LOP_REDUCE) return true;
    }
    return false;
}

void sn_kern_set_precision(sn_module *m, sn_kern k, sn_precision precision) {
    sn_kern_get(m, k)->sched.precision = sn_kern_has_products(m, k) ? precision : SN_PRECISION_EXACT;
}

bool sn_precision_of_both(sn_precision *out, const sn_module *m, sn_kern a, sn_kern b) {
    sn_precision of_a = sn_kern_get(m, a)->sched.precision, of_b = sn_kern_get(m, b)->sched.precision;
    bool take_b = of_a != of_b && !sn_kern_has_products(m, a);
    *out = take_b ? of_b : of_a;
    return of_a == of_b || take_b || !sn_kern_has_products(m, b);
}

int64_t sn_buf_bytes(const sn_module *m, sn_buf b) {
    const sn_buf_rec *r = sn_buf_get(m, b);
    int64_t n = 0;
    if (!sn_ix_is_const(m, r->size, &n)) return 0;
    int64_t bytes = sn_mul_clamped(n, sn_dtype_bytes(r->dtype));
    return bytes < SN_MOST_BYTES ? bytes : SN_MOST_BYTES;
}

sn_stmt sn_nest_inner(const sn_module *m, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    sn_stmt inner = r->first;
    if (!inner.i) return (sn_stmt){0};
    const sn_stmt_rec *in = sn_stmt_get(m, inner);
    if (in->op != r->op || in->kind != r->kind) return (sn_stmt){0};
    if (r->op == SN_LOP_LOOP) return in->next.i ? (sn_stmt){0} : inner;
    if (in->n_combs != r->n_combs || !in->next.i) return (sn_stmt){0};
    for (uint32_t k = 0; k < r->n_combs; k++)
        if (in->combs[k] != r->combs[k]) return (sn_stmt){0};
    const sn_stmt_rec *yield = sn_stmt_get(m, in->next);
    if (yield->op != SN_LOP_YIELD || yield->n_in != in->n_results) return (sn_stmt){0};
    for (uint32_t k = 0; k < yield->n_in; k++)
        if (yield->in[k].i != in->result.i + k) return (sn_stmt){0};
    return inner;
}

bool sn_nest_perfect(sn_chain *out, const sn_module *m, sn_stmt top) {
    out->n = 0;
    for (sn_stmt s = top; s.i && out->n < SN_MAX_CHAIN; s = sn_nest_inner(m, s)) out->at[out->n++] = s;
    for (sn_stmt s = sn_stmt_get(m, out->at[out->n - 1])->first; s.i; s = sn_next(m, s))
        if (sn_lop_has_region(sn_stmt_get(m, s)->op)) return false;
    return true;
}

/* ---- kernels that follow others ---- */

/* Inputs and constants are not looked for: no graph makes a kernel that stores to them. */
uint32_t sn_kern_follows(const sn_module *m, const sn_users *users, uint32_t at) {
    const sn_kern_rec *k = sn_kern_get(m, m->kernels.at[at]);
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < k->params.n; i++) {
        sn_buf b = k->params.at[i];
        sn_buf_scope scope = sn_buf_get(m, b)->scope;
        const sn_user *user = sn_users_get(users, b, at);
        if (!user || !user->loads || scope == SN_BUF_INPUT || scope == SN_BUF_CONST) continue;
        uint32_t storer = sn_users_storer(users, b, at);
        if (storer == UINT32_MAX) continue;
        if (scope != SN_BUF_TEMP || (first != UINT32_MAX && storer != first)) return UINT32_MAX;
        if (sn_kern_get(m, m->kernels.at[storer])->section != k->section) return UINT32_MAX;
        first = storer;
    }
    return first;
}
