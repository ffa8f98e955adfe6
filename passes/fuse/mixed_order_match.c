/* mixed_order_match.c: can a column kernel run along with a row kernel? Part of the pass `mixed-order-reduction`.
 *
 * The reduction of the column kernel has to walk exactly the rows that the outer loops of the row kernel number, and
 * both have to read the same elements in a row. Then the column kernel's expression can be evaluated at the end of each
 * row. Legality: what it loads and the row kernel stores is stored by the same row, under the very same index; nothing
 * else that runs in between stores what it loads. Cost: accesses of one kernel times accesses of the other.
 */
#include "passes/fuse/fuse.h"
#include "passes/fuse/mixed_order_reduction.h"

/* Loops of the row kernel around an access. */
static uint32_t around(sn_chain *out, const sn_module *m, sn_stmt s) {
    sn_chain_around(out, m, s);
    return out->n;
}

/* The position in c, from `first` to before `end`, whose axis moves x as axis `ax` moves y; `end` if there is none. */
static uint32_t like(sn_module *m, const sn_chain *c, uint32_t first, uint32_t end, sn_ix x, sn_stmt loop, sn_ix y) {
    int64_t want, have;
    if (!sn_ix_coef(m, y, sn_stmt_axis(m, loop), &want) || want == 0) return end;
    for (uint32_t k = first; k < end; k++)
        if (sn_ix_coef(m, x, sn_stmt_axis(m, c->at[k]), &have) && have == want &&
            sn_ix_eq(sn_stmt_extent(m, c->at[k]), sn_stmt_extent(m, loop)))
            return k;
    return end;
}

/* Which row loop each axis of the reduction is, from one pair of accesses: all of the first red.n loops, each once. */
static bool rows_from(sn_mixed_column *col, const sn_mixed *mx, sn_ix x, sn_ix y) {
    bool used[SN_MAX_CHAIN] = {false};
    uint32_t n = col->red.n;
    if (n > mx->chain.n) return false;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t at = like(mx->m, &mx->chain, 0, n, x, col->red.at[k], y);
        if (at == n || used[at]) return false;
        used[at] = true;
        col->row_of[k] = at;
    }
    return true;
}

/* The index of column access y in terms of the axes of the row kernel around access x. */
static sn_ix in_row_terms(const sn_mixed_column *col, const sn_mixed *mx, const sn_access *x, const sn_access *y) {
    sn_module *m = mx->m;
    sn_axis from[2 * SN_MAX_CHAIN];
    sn_ix to[2 * SN_MAX_CHAIN];
    sn_chain c;
    uint32_t n = 0, depth = around(&c, m, x->s);
    for (uint32_t k = 0; k < col->red.n; k++) {
        from[n] = sn_stmt_axis(m, col->red.at[k]);
        to[n++] = sn_ix_axis(m, sn_stmt_axis(m, mx->chain.at[col->row_of[k]]));
    }
    for (uint32_t k = 0; k < col->cols.n; k++) {
        uint32_t at = like(m, &c, col->red.n, depth, x->ix, col->cols.at[k], y->ix);
        if (at == depth) continue;
        from[n] = sn_stmt_axis(m, col->cols.at[k]);
        to[n++] = sn_ix_axis(m, sn_stmt_axis(m, c.at[at]));
    }
    return sn_ix_subst(m, y->ix, from, to, n);
}

static bool same_element(const sn_mixed_column *col, const sn_mixed *mx, const sn_access *x, const sn_access *y) {
    return sn_ix_eq(in_row_terms(col, mx, x, y), x->ix);
}

static bool all_move(const sn_chain *c, sn_module *m, sn_ix e) {
    int64_t stride;
    for (uint32_t k = 0; k < c->n; k++)
        if (!sn_ix_coef(m, e, sn_stmt_axis(m, c->at[k]), &stride) || stride == 0) return false;
    return true;
}

/* Does y walk whole rows: every axis moves it, the last column axis by one element? (Operands of products do not.) */
static bool walks_rows(const sn_mixed_column *col, sn_module *m, const sn_access *y) {
    int64_t stride;
    return all_move(&col->red, m, y->ix) && all_move(&col->cols, m, y->ix) &&
           sn_ix_coef(m, y->ix, sn_stmt_axis(m, col->cols.at[col->cols.n - 1]), &stride) && stride == 1;
}

static bool find_rows(sn_mixed_column *col, const sn_mixed *mx, const sn_access_list *in_a,
                      const sn_access_list *in_b) {
    for (uint32_t j = 0; j < in_b->n; j++)
        for (uint32_t i = 0; i < in_a->n; i++) {
            const sn_access *x = &in_a->at[i], *y = &in_b->at[j];
            if (y->store || !sn_buf_eq(x->buf, y->buf) || !walks_rows(col, mx->m, y)) continue;
            if (rows_from(col, mx, x->ix, y->ix) && same_element(col, mx, x, y)) return true;
        }
    return false;
}

/* Bytes of whole rows that both kernels touch. */
static int64_t shared_bytes(const sn_mixed_column *col, const sn_mixed *mx, const sn_access_list *in_a,
                            const sn_access_list *in_b) {
    int64_t bytes = 0;
    for (uint32_t j = 0; j < in_b->n; j++) {
        const sn_access *y = &in_b->at[j];
        bool counted = y->store || !walks_rows(col, mx->m, y);
        for (uint32_t k = 0; k < j && !counted; k++) counted = sn_buf_eq(in_b->at[k].buf, y->buf);
        for (uint32_t i = 0; i < in_a->n && !counted; i++) {
            if (!sn_buf_eq(in_a->at[i].buf, y->buf) || !same_element(col, mx, &in_a->at[i], y)) continue;
            bytes += sn_buf_bytes(mx->m, y->buf);
            counted = true;
        }
    }
    return bytes;
}

/* ---- legality ---- */

static bool touches(const sn_access_list *in, sn_buf b, bool stores) {
    for (uint32_t i = 0; i < in->n; i++)
        if (sn_buf_eq(in->at[i].buf, b) && (!stores || in->at[i].store)) return true;
    return false;
}

static bool is_conditional(const sn_module *m, sn_stmt s) {
    if (sn_stmt_get(m, s)->has_mask) return true;
    for (sn_stmt p = sn_stmt_get(m, s)->parent; p.i; p = sn_stmt_get(m, p)->parent)
        if (sn_stmt_get(m, p)->op == SN_LOP_IF) return true;
    return false;
}

static bool dependences_hold(const sn_mixed_column *col, const sn_mixed *mx, const sn_access_list *in_a,
                             const sn_access_list *in_b) {
    for (uint32_t j = 0; j < in_b->n; j++) {
        const sn_access *y = &in_b->at[j];
        if (y->store && touches(in_a, y->buf, false)) return false;
        for (uint32_t i = 0; i < in_a->n; i++) {
            const sn_access *x = &in_a->at[i];
            if (!x->store || !sn_buf_eq(x->buf, y->buf)) continue;
            if (is_conditional(mx->m, x->s) || !same_element(col, mx, x, y)) return false;
        }
    }
    return true;
}

static uint32_t position(const sn_module *m, sn_kern k) {
    uint32_t i = 0;
    while (m->kernels.at[i].i != k.i) i++;
    return i;
}

/* The expression of b moves to where a stands; what follows its reduction moves behind a if it stood before. */
static bool may_move(const sn_mixed *mx, sn_kern b, const sn_access_list *in_a, const sn_access_list *in_b) {
    const sn_module *m = mx->m;
    uint32_t at_a = position(m, mx->a), at_b = position(m, b);
    uint32_t lo = at_a < at_b ? at_a : at_b, hi = at_a < at_b ? at_b : at_a;
    if (sn_kern_get(m, mx->a)->section != sn_kern_get(m, b)->section) return false;
    for (uint32_t j = 0; j < in_b->n; j++) {
        const sn_access *y = &in_b->at[j];
        if (at_b < at_a && !y->store && touches(in_a, y->buf, true)) return false;
        for (uint32_t i = lo + 1; i < hi; i++) {
            if (sn_kern_stores(m, m->kernels.at[i], y->buf)) return false;
            if (at_b < at_a && y->store && sn_kern_loads(m, m->kernels.at[i], y->buf)) return false;
        }
    }
    return true;
}

/* ---- shape ---- */

static sn_stmt only_reduction(const sn_module *m, sn_kern k, sn_stmt body) {
    sn_stmt nest = {0};
    for (sn_stmt s = sn_region_first(m, k, body); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_lop_has_region(r->op)) continue;
        if (nest.i || r->op != SN_LOP_REDUCE) return (sn_stmt){0};
        nest = s;
    }
    return nest;
}

static bool is_column_kernel(sn_mixed_column *col, const sn_module *m) {
    sn_chain_outer(&col->cols, m, col->k);
    if (!col->cols.n || sn_kern_get(m, col->k)->sched.split == 1) return false;
    sn_stmt nest = only_reduction(m, col->k, col->cols.at[col->cols.n - 1]);
    if (!nest.i || !sn_nest_perfect(&col->red, m, nest)) return false;
    const sn_stmt_rec *r = sn_stmt_get(m, nest);
    for (uint32_t k = 0; k < r->n_combs; k++)
        if (sn_combs[r->combs[k]].states != 1 || sn_val_get(m, sn_result(r, k))->dtype == SN_BOOL) return false;
    if (sn_stmt_stores(m, nest, (sn_buf){0})) return false;
    col->n_states = r->n_results;
    return true;
}

/* Everything inside the row loops is plain statements and perfect nests, none longer than a row. */
static bool is_row_kernel(const sn_mixed *mx, uint32_t n_rows, int64_t width) {
    const sn_module *m = mx->m;
    bool any = false;
    for (sn_stmt s = sn_region_first(m, mx->a, mx->chain.at[n_rows - 1]); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        sn_chain nest;
        if (!sn_lop_has_region(r->op)) continue;
        if (!sn_is_nest(r) || !sn_nest_perfect(&nest, m, s) || sn_chain_count(m, &nest) > width) return false;
        if (sn_is_scan(m, nest.at[nest.n - 1])) return false; /* its threads stand inside its steps */
        any = true;
    }
    return any;
}

void sn_mixed_note_columns(sn_mixed_kernels *by_buf, sn_pass_ctx *cx, sn_kern k) {
    sn_mixed_column col = {.k = k};
    sn_access_list in;
    if (!is_column_kernel(&col, cx->m)) return;
    sn_access_find_all(&in, cx->m, cx->scratch, k);
    for (uint32_t i = 0; i < in.n; i++) {
        sn_mixed_kernels *list = &by_buf[in.at[i].buf.i];
        bool there = list->n && list->at[list->n - 1].i == k.i;
        if (!in.at[i].store && !there && walks_rows(&col, cx->m, &in.at[i])) SN_PUSH(cx->scratch, list, k);
    }
}

bool sn_mixed_match(sn_mixed *mx, sn_kern b, const char **why_not) {
    sn_module *m = mx->m;
    sn_mixed_column col = {.k = b};
    sn_access_list in_a, in_b;
    *why_not = NULL; /* not even close: nobody wants to know */
    for (uint32_t i = 0; i < mx->n_columns; i++)
        if (mx->columns[i].k.i == b.i) return false;
    if (mx->n_columns == SN_MIXED_COLUMN_KERNELS || !is_column_kernel(&col, m)) return false;
    sn_access_find_all(&in_a, mx->cx->m, mx->cx->scratch, mx->a);
    sn_access_find_all(&in_b, mx->cx->m, mx->cx->scratch, b);
    int64_t rows = sn_chain_count(m, &col.red), width = sn_chain_count(m, &col.cols);
    if (rows <= 0 || width <= 0 || rows == INT64_MAX || width == INT64_MAX) return false;
    if (!find_rows(&col, mx, &in_a, &in_b) || !is_row_kernel(mx, col.red.n, width)) return false;
    *why_not = "it walks the rows in another way than the first column kernel";
    if (mx->n_rows && (mx->n_rows != col.red.n || mx->width != width)) return false;
    *why_not = "an element would be read before or elsewhere than it is stored";
    if (!dependences_hold(&col, mx, &in_a, &in_b)) return false;
    *why_not = "their products have different precisions";
    if (sn_kern_get(m, mx->a)->sched.precision != sn_kern_get(m, b)->sched.precision && sn_kern_has_products(m, b))
        return false;
    *why_not = "a third kernel stands between them";
    if (!may_move(mx, b, &in_a, &in_b)) return false;
    mx->n_rows = col.red.n;
    mx->rows = rows;
    mx->width = width;
    mx->shared += shared_bytes(&col, mx, &in_a, &in_b);
    mx->columns[mx->n_columns++] = col;
    return true;
}
