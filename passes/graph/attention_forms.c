/* attention_forms.c: other ways to write an attention, as products of weights and v that passes/base/attention.c finds.
 *
 *     (e * v) / sum e                          ->  (e / sum e) * v                 also times a reciprocal
 *     v * transposed(p)                        ->  transposed(p * transposed(v))
 *     where(row, p, 0) * v,  (p * row) * v     ->  where(row, p * v, 0),  (p * v) * row
 *     where(c, softmax(where(c, s, -1e9)), 0) * v  ->  where(any(c), softmax(where(c, s, -1e9)) * v, 0)
 *     exp(x - log(sum(e^x))) * v               ->  softmax(x) * v                  log_softmax and logsumexp
 *     exp(x) / sum(exp(x)) * v                 ->  softmax(x) * v
 *     softmax(reshaped(f(reshaped(s), b))) * v ->  softmax(f(s, reshaped(b))) * v  keys that f sees as rows and columns
 *
 *     softmax(q * k) * v                       ->  (softmax(padded(q) * padded(k)) * padded(v)) without what was added: heads that no access divides
 *
 * Legality: equal but for rounding, where nothing overflows that need not, nor vanishes (exponentials without a
 * maximum, of rows that a mask may hide as a whole, stay as they are); a row that counts as 0 is 0 beside infinite v,
 * too. Done only where what results is an attention of sizes that some class takes: a division of weights is more work
 * than one of results. Relies on composites being decomposed. Cost: a look at each product and what its left operand
 * is; where a form fits, one at the attention.
 */
#include "passes/graph/attention.h"
#include "passes/graph/rewrite.h"

#include "ir/graph/build.h"
#include "passes/base/constants.h"

#include <math.h>
#include <string.h>

enum { STEPS = 6 }; /* of element-wise nodes that scores are looked for behind */

static const sn_node_rec *node(const sn_module *m, sn_nd x) { return sn_node_get(m, x); }

/* What x is below casts between floats. */
static sn_nd below(const sn_module *m, sn_nd x) {
    for (const sn_node_rec *n = node(m, x); n->op == SN_OP_CAST && sn_is_float(n->type.dtype); n = node(m, x)) {
        if (!sn_is_float(node(m, n->in[0])->type.dtype)) break;
        x = n->in[0];
    }
    return x;
}

/* What x is below casts and views that leave its elements in order. */
static sn_nd below_shapes(const sn_module *m, sn_nd x) {
    for (const sn_node_rec *n = node(m, x = below(m, x));; n = node(m, x)) {
        if (n->op != SN_OP_RESHAPE && n->op != SN_OP_UNSQUEEZE && n->op != SN_OP_SQUEEZE) return x;
        x = below(m, n->in[0]);
    }
}

/* What x is below casts and views, where it has one element for each row of `rows`, in their order; none: it has not. */
static sn_nd number_of_rows(const sn_module *m, sn_nd x, const sn_type *rows) {
    int64_t last;
    x = below(m, x);
    if (node(m, x)->op == SN_OP_EXPAND && sn_same_shape(&node(m, x)->type, rows)) x = below(m, node(m, x)->in[0]);
    const sn_type *t = &node(m, x)->type;
    if (!t->rank || t->rank != rows->rank || !sn_ix_is_const(m, t->shape[t->rank - 1], &last) || last != 1)
        return (sn_nd){0};
    bool each = !memcmp(t->shape, rows->shape, (t->rank - 1) * sizeof *t->shape);
    return each ? below_shapes(m, x) : (sn_nd){0};
}

/* The same of an operand of n, which has one element for each row: none of what is broadcast. */
static sn_nd operand_of_rows(const sn_module *m, const sn_node_rec *n, uint32_t k) {
    return sn_same_shape(&node(m, n->in[k])->type, &n->type) ? below_shapes(m, n->in[k]) : (sn_nd){0};
}

static bool is_over_last(const sn_module *m, sn_nd x, sn_op op, uint32_t rank) {
    return node(m, x)->op == op && sn_node_axes_mask(m, x) == 1u << (rank - 1);
}

/* Has x one element for each row of `rows`, as it is broadcast along them? Below that, if so. */
static bool is_of_rows(const sn_module *m, sn_nd x, const sn_type *rows) {
    const sn_type *t = &node(m, x)->type;
    int64_t last;
    if (!t->rank) return true;
    if (t->rank > rows->rank) return false;
    if (node(m, x)->op == SN_OP_EXPAND && sn_same_shape(t, rows)) return is_of_rows(m, node(m, x)->in[0], rows);
    return sn_ix_is_const(m, t->shape[t->rank - 1], &last) && last == 1;
}

/* x without the expansion along rows. */
static sn_nd of_rows(const sn_module *m, sn_nd x, const sn_type *rows) {
    bool expands = node(m, x)->op == SN_OP_EXPAND && sn_same_shape(&node(m, x)->type, rows);
    return expands ? of_rows(m, node(m, x)->in[0], rows) : x;
}

static bool is_zero(const sn_module *m, sn_nd x) {
    double value;
    return sn_is_uniform(m, x, &value) && value == 0;
}

/* Does x exchange the last two axes of its operand, and does nothing else? */
static bool is_turned(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = node(m, x);
    if (n->op != SN_OP_PERMUTE || n->type.rank < 2) return false;
    const sn_attr *perm = sn_node_attr(m, x, SN_ATTR_PERM);
    for (uint32_t k = 0; k < n->type.rank; k++)
        if (perm->ints.at[k] != (int64_t)(k + 2 < n->type.rank ? k : 2 * n->type.rank - 3 - k)) return false;
    return true;
}

sn_nd sn_attention_turned(sn_module *m, sn_nd x) {
    uint32_t rank = node(m, x)->type.rank;
    int64_t perm[SN_MAX_RANK];
    if (is_turned(m, x)) return node(m, x)->in[0];
    for (uint32_t k = 0; k < rank; k++) perm[k] = k + 2 < rank ? k : 2 * rank - 3 - k;
    return sn_graph_permute(m, x, perm, rank);
}

static sn_nd product_of(sn_module *m, sn_nd like, sn_nd left, sn_nd right) {
    const sn_node_rec *n = node(m, like);
    sn_nd in[2] = {left, right};
    return sn_graph_node(m, SN_OP_MATMUL, in, 2, n->attrs, n->n_attrs);
}

/* In the dtype of sums, as the pass `decompose` has it. */
static sn_nd softmax(sn_module *m, sn_nd x) {
    sn_nd wide = sn_graph_cast(m, x, sn_compute_dtype(node(m, x)->type.dtype));
    int64_t last = node(m, x)->type.rank - 1;
    sn_nd e = sn_graph_unary(m, SN_OP_EXP, sn_graph_sub(m, wide, sn_graph_reduce(m, SN_OP_AMAX, wide, &last, 1, true)));
    return sn_graph_div(m, e, sn_graph_reduce(m, SN_OP_SUM, e, &last, 1, true));
}

/* ---- weights ---- */

/* Is x a number of each row subtracted from something, so that no exponential overflows? */
static bool is_shifted(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = node(m, x);
    return n->op == SN_OP_SUB && is_of_rows(m, n->in[1], &n->type);
}

/* Are some scores of x low numbers, so that the exponentials of a whole row may be 0? Then it is nan, and of a softmax a mean. */
static bool may_vanish(const sn_module *m, sn_nd x, uint32_t steps) {
    const double LOW = -80; /* far above where e^x is 0 in f32 */
    const sn_node_rec *n = node(m, x = below(m, x));
    double value;
    for (uint32_t k = 1; n->op == SN_OP_WHERE && k < 3; k++)
        if (sn_is_uniform(m, n->in[k], &value) && value <= LOW && value != -INFINITY) return true;
    bool any = false;
    for (uint32_t k = 0; k < n->n_in && steps && !any && sn_node_is_elementwise(n); k++)
        any = may_vanish(m, n->in[k], steps - 1);
    return any;
}

/* Of exp(x - l): x, where l is the logarithm of the sum of its exponentials, of x less any number c of each row and then that number again. */
static sn_nd of_log_sum(const sn_module *m, sn_nd e) {
    const sn_node_rec *d = node(m, below(m, node(m, e)->in[0]));
    if (d->op != SN_OP_SUB) return (sn_nd){0};
    sn_nd x = below(m, d->in[0]), c = {0};
    const sn_type *rows = &node(m, x)->type;
    sn_nd l = number_of_rows(m, d->in[1], rows);
    if (!l.i) return l;
    const sn_node_rec *n = node(m, l);
    if (n->op == SN_OP_ADD) { /* x - (log(sum(e^(x - c))) + c) */
        sn_nd a = operand_of_rows(m, n, 0), b = operand_of_rows(m, n, 1);
        if (!a.i || !b.i) return (sn_nd){0};
        bool log_first = node(m, a)->op == SN_OP_LOG;
        l = log_first ? a : b, c = log_first ? b : a;
    }
    if (node(m, l)->op != SN_OP_LOG) return (sn_nd){0};
    sn_nd sum = below_shapes(m, node(m, l)->in[0]);
    if (!is_over_last(m, sum, SN_OP_SUM, rows->rank)) return (sn_nd){0};
    sn_nd of = below(m, node(m, sum)->in[0]);
    if (node(m, of)->op != SN_OP_EXP) return (sn_nd){0};
    of = below(m, node(m, of)->in[0]);
    if (!c.i) { /* x may be y - c itself */
        bool same = sn_nd_eq(of, x) && (is_shifted(m, x) || !may_vanish(m, x, STEPS));
        return same ? x : (sn_nd){0};
    }
    const sn_node_rec *shifted = node(m, of);
    bool same = shifted->op == SN_OP_SUB && sn_nd_eq(below(m, shifted->in[0]), x) &&
                sn_nd_eq(number_of_rows(m, shifted->in[1], rows), c);
    return same ? x : (sn_nd){0};
}

/* Of exp(x) / sum(exp(x)): x. */
static sn_nd of_quotient(const sn_module *m, sn_nd p) {
    const sn_node_rec *n = node(m, p);
    if (n->op != SN_OP_DIV) return (sn_nd){0};
    sn_nd e = below(m, n->in[0]), sum = number_of_rows(m, n->in[1], &node(m, e)->type);
    if (node(m, e)->op != SN_OP_EXP || !sum.i || !is_over_last(m, sum, SN_OP_SUM, node(m, e)->type.rank))
        return (sn_nd){0};
    return sn_nd_eq(below(m, node(m, sum)->in[0]), e) ? below(m, node(m, e)->in[0]) : (sn_nd){0};
}

/* ---- keys as rows and columns ---- */

/* Is x made element by element, in a few steps, of something that was reshaped from that type? */
static bool is_of_reshaped(const sn_module *m, sn_nd x, const sn_type *type, uint32_t depth) {
    const sn_node_rec *n = node(m, x);
    if (n->op == SN_OP_RESHAPE && sn_same_shape(&node(m, n->in[0])->type, type)) return true;
    bool any = false;
    for (uint32_t k = 0; k < n->n_in && depth && sn_node_is_elementwise(n); k++)
        any |= is_of_reshaped(m, n->in[k], type, depth - 1);
    return any;
}

/* x, of the shape of `all` or broadcast to it, as that type. */
static sn_nd reshaped(sn_module *m, sn_nd x, const sn_type *all, const sn_type *type, uint32_t depth) {
    const sn_node_rec *n = node(m, x);
    if (n->op == SN_OP_RESHAPE && sn_same_shape(&node(m, n->in[0])->type, type)) return n->in[0];
    if (!n->type.rank) return x;
    if (depth && sn_node_is_elementwise(n) && sn_same_shape(&n->type, all)) {
        sn_nd *in = SN_NEWN(&m->arena, sn_nd, n->n_in);
        for (uint32_t k = 0; k < n->n_in; k++) in[k] = reshaped(m, n->in[k], all, type, depth - 1);
        return sn_graph_node(m, n->op, in, n->n_in, n->attrs, n->n_attrs);
    }
    sn_nd whole = sn_same_shape(&n->type, all) ? x : sn_graph_expand(m, x, all->shape, all->rank);
    return sn_graph_reshape(m, whole, type->shape, type->rank);
}

/* Scores, where a reshape in front of them hides the keys that their product has; found: what came of each node, which may be shared. */
static sn_nd with_whole_keys(sn_module *m, sn_nd scores, sn_nd *found) {
    const sn_node_rec *n = node(m, scores);
    if (found[scores.i].i) return found[scores.i];
    found[scores.i] = scores;
    if (n->op == SN_OP_RESHAPE) {
        if (!is_of_reshaped(m, n->in[0], &n->type, STEPS)) return scores;
        return found[scores.i] = reshaped(m, n->in[0], &node(m, n->in[0])->type, &n->type, STEPS);
    }
    if (!sn_node_is_elementwise(n)) return scores;
    bool any = false;
    sn_nd in[SN_MAX_RANK];
    for (uint32_t k = 0; k < n->n_in; k++) {
        const sn_node_rec *of = node(m, n->in[k]);
        bool goes_on = sn_same_shape(&of->type, &n->type) && (of->op == SN_OP_RESHAPE || of->n_in <= 2);
        in[k] = goes_on ? with_whole_keys(m, n->in[k], found) : n->in[k];
        any |= !sn_nd_eq(in[k], n->in[k]);
    }
    if (any) found[scores.i] = sn_graph_node(m, n->op, in, n->n_in, n->attrs, n->n_attrs);
    return found[scores.i];
}

/* ---- forms ---- */

static bool is_worth(sn_pass_ctx *cx, sn_nd product) {
    sn_attention at;
    const char *why_not;
    return product.i && sn_attention_find(&at, &why_not, cx->m, cx->scratch, product) &&
           sn_attention_is_bound(cx->target, &at.sizes);
}

/* x, a product, by other weights, where that is an attention. */
static sn_nd by_weights(sn_pass_ctx *cx, sn_nd x, sn_nd weights) {
    const sn_node_rec *n = node(cx->m, x);
    sn_nd left = sn_graph_cast(cx->m, weights, node(cx->m, n->in[0])->type.dtype);
    sn_nd y = product_of(cx->m, x, left, n->in[1]);
    return is_worth(cx, y) ? y : x;
}

static sn_nd form_of_product(sn_pass_ctx *cx, sn_nd x);

/* Rows of weights that are chosen or multiplied: rows of the result are. */
static sn_nd rows_behind(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *n = node(m, x), *w = node(m, below(m, n->in[0]));
    bool chooses = w->op == SN_OP_WHERE && is_of_rows(m, w->in[0], &w->type) && w->type.rank == n->type.rank;
    bool first = chooses && is_zero(m, w->in[1]), second = chooses && is_zero(m, w->in[2]);
    bool multiplies = w->op == SN_OP_MUL && w->type.rank == n->type.rank;
    uint32_t row = multiplies && is_of_rows(m, w->in[0], &w->type) ? 0 : 1;
    if (first == second && !(multiplies && is_of_rows(m, w->in[row], &w->type))) return x;
    sn_nd p = w->in[multiplies ? 1 - row : first ? 2 : 1], by = of_rows(m, w->in[multiplies ? row : 0], &w->type);
    if (!sn_same_shape(&node(m, p)->type, &w->type)) return x;
    sn_nd y = product_of(m, x, sn_graph_cast(m, p, node(m, n->in[0])->type.dtype), n->in[1]);
    if (y.i) y = form_of_product(cx, y);
    if (!is_worth(cx, y)) return x;
    sn_dtype t = n->type.dtype;
    if (multiplies) return sn_graph_cast(m, sn_graph_mul(m, sn_graph_widen(m, y), sn_graph_widen(m, by)), t);
    sn_nd zero = sn_graph_number(m, y, 0);
    return sn_graph_where(m, by, first ? zero : y, first ? y : zero);
}

/* What the score x is not below, and not above, if it is nothing but the product times numbers and plus numbers, and that is no larger than in
 * any model (passes/schedule/attention/attend_range.c); false: it is something else. */
static bool is_likely(double *lo, double *hi, const sn_module *m, sn_nd x, sn_nd product) {
    double y;
    const sn_node_rec *n = node(m, x = below(m, x));
    if (sn_nd_eq(x, product)) {
        *hi = node(m, n->in[0])->type.dtype == SN_F16 ? SN_SCORE_LIKELY_F16 : SN_SCORE_LIKELY, *lo = -*hi;
        return true;
    }
    bool scales = n->op == SN_OP_MUL || n->op == SN_OP_DIV;
    if (!scales && n->op != SN_OP_ADD && n->op != SN_OP_SUB) return false;
    uint32_t of = n->op != SN_OP_DIV && n->op != SN_OP_SUB && sn_is_uniform(m, n->in[0], &y) ? 1 : 0;
    if (!sn_is_uniform(m, n->in[1 - of], &y) || !is_likely(lo, hi, m, n->in[of], product)) return false;
    if (scales) {
        double by = n->op == SN_OP_MUL ? y : 1 / y, a = *lo * by, b = *hi * by;
        *lo = a < b ? a : b, *hi = a < b ? b : a;
    } else {
        double by = n->op == SN_OP_ADD ? y : -y;
        *lo += by, *hi += by;
    }
    return isfinite(*lo) && isfinite(*hi);
}

/* Is the score s where the test holds, or does not, and else so low that its weight is 0 beside any other? */
static bool is_hidden_by(const sn_module *m, const sn_attention *at, sn_nd test, bool holds) {
    const sn_node_rec *n = node(m, below(m, at->scores));
    double value, lo, hi;
    if (n->op != SN_OP_WHERE || !sn_nd_eq(n->in[0], test) || !sn_is_uniform(m, n->in[holds ? 2 : 1], &value))
        return false;
    if (value == -INFINITY) return true;
    return value <= -SN_SCORE_LOW && is_likely(&lo, &hi, m, n->in[holds ? 1 : 2], at->first) &&
           value <= lo - SN_SCORE_BELOW;
}

/* Weights that are 0 where their scores are hidden: they are that anyway, but in rows of which all are. */
static sn_nd hidden_again(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    sn_attention at;
    const char *why_not;
    const sn_node_rec *n = node(m, x), *w = node(m, below(m, n->in[0])), *test = node(m, w->in[0]);
    bool first = is_zero(m, w->in[1]);
    if (first == is_zero(m, w->in[2]) || w->type.rank != n->type.rank || !test->type.rank) return x;
    sn_nd p = w->in[first ? 2 : 1];
    if (!sn_same_shape(&node(m, p)->type, &w->type)) return x;
    sn_nd y = product_of(m, x, sn_graph_cast(m, p, node(m, n->in[0])->type.dtype), n->in[1]);
    if (!is_worth(cx, y) || !sn_attention_find(&at, &why_not, m, cx->scratch, y)) return x;
    if (at.rows || !sn_nd_eq(below(m, p), at.quotient)) return x; /* views in between would have rows elsewhere */
    if (!is_hidden_by(m, &at, w->in[0], !first)) return x;
    int64_t last = test->type.rank - 1;
    sn_nd sees = first ? sn_graph_unary(m, SN_OP_NOT, w->in[0]) : w->in[0];
    sn_nd any = sn_graph_reduce(m, SN_OP_ANY, sees, &last, 1, true);
    return sn_graph_where(m, any, y, sn_graph_number(m, y, 0));
}

/* x in memory of its own, with zeros behind the elements of its last axis. */
static sn_nd padded(sn_module *m, sn_nd x, int64_t more) {
    int64_t low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
    high[node(m, x)->type.rank - 1] = more;
    return more ? sn_graph_unary(m, SN_OP_COPY, sn_graph_pad(m, x, low, high, 0)) : x;
}

/* An attention whose rows of q, k or v are no multiple of 16 bytes, with longer ones: copies are linear in what it is quadratic in. */
static sn_nd with_long_rows(sn_pass_ctx *cx, sn_nd x, const sn_attention *at) {
    sn_module *m = cx->m;
    sn_attention_sizes s = at->sizes;
    int64_t unit = SN_WIDEST_ACCESS / sn_dtype_bytes(s.dtype);
    int64_t depth = (unit - s.depth % unit) % unit, width = (unit - s.width % unit) % unit;
    s.depth += depth, s.width += width;
    if (!cx->target->is_gpu || (!depth && !width) || s.queries < SN_ATTENTION_MANY || s.keys < SN_ATTENTION_MANY)
        return x;
    if (sn_attention_is_bound(cx->target, &at->sizes) || !sn_attention_is_bound(cx->target, &s)) return x;
    sn_nd *map = SN_NEWN(cx->scratch, sn_nd, x.i + 1);
    const sn_node_rec *first = node(m, at->first), *n = node(m, x);
    map[at->first.i] = product_of(m, at->first, padded(m, first->in[0], depth),
                                  sn_attention_turned(m, padded(m, sn_attention_turned(m, first->in[1]), depth)));
    for (uint32_t i = at->first.i + 1; i < x.i; i++) {
        const sn_node_rec *r = node(m, (sn_nd){i});
        if (!at->is_member[i]) continue;
        sn_nd *in = SN_NEWN(cx->scratch, sn_nd, r->n_in + 1);
        for (uint32_t k = 0; k < r->n_in; k++) in[k] = map[r->in[k].i].i ? map[r->in[k].i] : r->in[k];
        map[i] = sn_graph_node(m, r->op, in, r->n_in, r->attrs, r->n_attrs);
    }
    sn_nd y = product_of(m, x, map[n->in[0].i], padded(m, n->in[1], width));
    return is_worth(cx, y) ? sn_graph_slice(m, y, n->type.rank - 1, 0, at->sizes.width, 1) : x;
}

static sn_nd form_of_product(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *n = node(m, x);
    sn_attention at;
    const char *why_not;
    if (!sn_is_float(n->type.dtype) || node(m, n->in[0])->type.rank < 2) return x;
    sn_nd w = below(m, n->in[0]), of = {0};
    if (node(m, w)->op == SN_OP_WHERE || node(m, w)->op == SN_OP_MUL) {
        if (is_worth(cx, x)) return x;
        sn_nd y = rows_behind(cx, x);
        return sn_nd_eq(x, y) && node(m, w)->op == SN_OP_WHERE ? hidden_again(cx, x) : y;
    }
    if (node(m, w)->op == SN_OP_EXP) of = of_log_sum(m, w);
    if (!of.i && (of = of_quotient(m, w)).i && (is_shifted(m, of) || may_vanish(m, of, STEPS))) of = (sn_nd){0};
    if (of.i) return by_weights(cx, x, softmax(m, of));
    bool divides = node(m, w)->op == SN_OP_DIV;
    if (!divides || sn_attention_find(&at, &why_not, m, cx->scratch, x) || !at.scores.i || at.rows || at.sink) return x;
    of = with_whole_keys(m, at.scores, SN_NEWN(cx->scratch, sn_nd, at.scores.i + 1));
    return sn_nd_eq(of, at.scores) ? x : by_weights(cx, x, softmax(m, of));
}

/* Is x what weights may end with? */
static bool is_like_weights(const sn_module *m, sn_nd x) {
    sn_op op = node(m, x)->op;
    return op == SN_OP_DIV || op == SN_OP_MUL || op == SN_OP_EXP || op == SN_OP_WHERE;
}

/* x, of weights times v, where v times weights stands. */
static sn_nd other_way_round(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *n = node(m, x);
    sn_nd p = below(m, n->in[1]);
    if (!is_turned(m, p) || !is_like_weights(m, below(m, node(m, p)->in[0])) || node(m, n->in[0])->type.rank < 2)
        return x;
    sn_dtype t = node(m, n->in[1])->type.dtype;
    sn_nd y = product_of(m, x, sn_graph_cast(m, node(m, p)->in[0], t), sn_attention_turned(m, n->in[0]));
    if (!y.i) return y;
    sn_nd z = form_of_product(cx, y);
    return is_worth(cx, z) || !sn_nd_eq(y, z) ? sn_attention_turned(m, z) : x;
}

/* A product of numerators and v over their sum. */
static sn_nd divided_first(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *n = node(m, x);
    for (uint32_t k = 0; k < (n->op == SN_OP_DIV ? 1 : 2); k++) {
        sn_nd y = below(m, n->in[k]), by = of_rows(m, n->in[1 - k], &n->type);
        const sn_node_rec *product = node(m, y);
        if (product->op != SN_OP_MATMUL || !is_of_rows(m, by, &n->type)) continue;
        sn_nd e = below(m, product->in[0]);
        if (node(m, e)->op != SN_OP_EXP || node(m, e)->type.rank != n->type.rank) continue;
        sn_dtype t = node(m, product->in[0])->type.dtype;
        sn_nd p = sn_graph_binary(m, n->op, k ? by : e, k ? e : by);
        if (!p.i || !sn_same_shape(&node(m, p)->type, &node(m, e)->type)) continue;
        y = form_of_product(cx, product_of(m, y, sn_graph_cast(m, p, t), product->in[1]));
        if (is_worth(cx, y)) return sn_graph_cast(m, y, n->type.dtype);
    }
    return x;
}

sn_nd sn_attention_form(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *n = node(cx->m, x);
    if (n->op == SN_OP_MATMUL) {
        sn_attention at;
        const char *why_not;
        sn_nd y = form_of_product(cx, x);
        if (sn_nd_eq(x, y)) y = other_way_round(cx, x);
        if (!sn_nd_eq(x, y) || !sn_attention_find(&at, &why_not, cx->m, cx->scratch, x)) return y;
        return with_long_rows(cx, x, &at);
    }
    bool shares = (n->op == SN_OP_DIV || n->op == SN_OP_MUL) && sn_is_float(n->type.dtype) && n->type.rank >= 2;
    return shares ? divided_first(cx, x) : x;
}
