/* attention.c: see attention.h.
 *
 *     %s = matmul %q, %kt                     first
 *     %x = scores of %s                       element by element: scales, masks, biases, caps
 *     %e = exp(%x - amax %x)                  over the last axis
 *     %p = %e / sum %e                        quotient; or times the reciprocal
 *     %y = matmul %p, %v                      product
 *
 * A row may have a sink: a further key that weighs no v (a concat and a slice around the softmax), or its exponential beside the sum. Rows
 * that are nan, or see no key, may count as 0 (a where). Whatever is subtracted of a row in front of the softmax falls out of it.
 *
 * Between these stand casts of floats, and views that keep the last axis as it is. Channels of q and k and columns of v are
 * neighbours in memory. A statistic of a row (maximum, sum) may have any shape of the same elements before it is broadcast
 * again. q and k may have been multiplied by numbers, as exporters write the scale of the scores, each by its root: such
 * factors are found where the scores are, behind the first product. Products may differ in dtype, where one is of what the
 * other one is of, converted exactly: softmax in f32 between halves. Everything is found from operands; names and layouts do
 * not count. What is not there: dropout of the weights, scores that something else than an attention reads.
 */
#include "passes/base/attention.h"
#include "passes/base/constants.h"

#include <math.h>
#include <string.h>

typedef struct finder {
    const sn_module *m;
    sn_arena *scratch;
    sn_attention *at;
    uint8_t *mark; /* by node: a member; of what the scores are made of: asked already, made of `first` */
    sn_nd empty;   /* says which rows count as 0; none: none do */
    sn_nd term;    /* its exponential stands beside the sum; none: nothing does */
    const char *why;
} finder;

enum { ASKED = 1, OF_FIRST = 2, MEMBER = 4 };

static bool refuse(finder *f, const char *why) {
    f->why = why;
    return false;
}

static const sn_node_rec *node(const finder *f, sn_nd x) { return sn_node_get(f->m, x); }

static void add_member(finder *f, sn_nd x) {
    if (f->mark[x.i] & MEMBER) return;
    f->mark[x.i] |= MEMBER;
    SN_PUSH(f->scratch, &f->at->members, x);
}

/* ---- what stands between ---- */

static bool is_float_cast(const finder *f, const sn_node_rec *n) {
    return n->op == SN_OP_CAST && sn_is_float(n->type.dtype) && sn_is_float(node(f, n->in[0])->type.dtype);
}

static bool same_last_size(const sn_type *a, const sn_type *b) {
    return a->rank && b->rank && sn_ix_eq(a->shape[a->rank - 1], b->shape[b->rank - 1]);
}

static bool is_reshape(const sn_node_rec *n) {
    return n->op == SN_OP_RESHAPE || n->op == SN_OP_SQUEEZE || n->op == SN_OP_UNSQUEEZE;
}

/* A view of whole rows, each once: element j of a row is element j of a row of the operand. */
static bool keeps_rows(const finder *f, const sn_node_rec *n) {
    if (is_reshape(n)) return same_last_size(&n->type, &node(f, n->in[0])->type);
    if (n->op != SN_OP_PERMUTE || !n->type.rank) return false;
    SN_ASSERT(n->n_attrs == 1);
    return n->attrs[0].ints.at[n->type.rank - 1] == n->type.rank - 1;
}

/* What x is, apart from casts and views that leave all rows in order. */
static sn_nd past_in_order(finder *f, sn_nd x) {
    for (const sn_node_rec *n = node(f, x);; n = node(f, x)) {
        if (!is_float_cast(f, n) && !(is_reshape(n) && keeps_rows(f, n))) return x;
        add_member(f, x);
        x = n->in[0];
    }
}

/* What x is, apart from casts, and views of whole rows where `views`; what is passed becomes a member. */
static sn_nd past(finder *f, sn_nd x, bool views) {
    for (const sn_node_rec *n = node(f, x);; n = node(f, x)) {
        if (!is_float_cast(f, n) && !(views && keeps_rows(f, n))) return x;
        add_member(f, x);
        x = n->in[0];
    }
}

/* ---- the softmax ---- */

/* Operand k past casts. */
static sn_nd operand(finder *f, sn_nd x, uint32_t k) { return past(f, node(f, x)->in[k], false); }

static bool is_full_of(const finder *f, sn_nd x, double value) {
    const sn_node_rec *n = node(f, x);
    return n->op == SN_OP_FULL && sn_node_float(f->m, x, SN_ATTR_VALUE, 0) == value;
}

/* Has x one element for each row of `rows`, in a shape that is broadcast along them? */
static bool is_broadcast(const finder *f, sn_nd x, sn_nd rows) {
    const sn_type *t = &node(f, x)->type, *all = &node(f, rows)->type;
    int64_t one;
    if (t->rank != all->rank || !sn_ix_is_const(f->m, t->shape[t->rank - 1], &one) || one != 1) return false;
    return !memcmp(t->shape, all->shape, (t->rank - 1) * sizeof *t->shape);
}

/* Is x the reduction `op` over the rows of `rows`, broadcast along them? */
static bool is_statistic(finder *f, sn_nd x, sn_op op, sn_nd rows) {
    const sn_type *all = &node(f, rows)->type;
    x = past(f, x, false);
    if (node(f, x)->op == SN_OP_EXPAND) {
        add_member(f, x);
        x = past(f, node(f, x)->in[0], false);
    }
    if (!is_broadcast(f, x, rows)) return false;
    for (const sn_node_rec *n = node(f, x); is_reshape(n) || is_float_cast(f, n); n = node(f, x)) {
        add_member(f, x);
        x = n->in[0];
    }
    if (node(f, x)->op != op || sn_node_axes_mask(f->m, x) != 1u << (all->rank - 1)) return false;
    add_member(f, x);
    return sn_nd_eq(operand(f, x, 0), rows);
}

/* Is x the sum of the numerators e, or that and an exponential? */
static bool is_total(finder *f, sn_nd x, sn_nd e) {
    if (is_statistic(f, x, SN_OP_SUM, e)) return true;
    x = past(f, x, false);
    if (node(f, x)->op == SN_OP_EXPAND) {
        add_member(f, x);
        x = past(f, node(f, x)->in[0], false);
    }
    const sn_node_rec *n = node(f, x);
    for (uint32_t k = 0; n->op == SN_OP_ADD && k < 2; k++) {
        sn_nd other = operand(f, x, 1 - k);
        if (node(f, other)->op != SN_OP_EXP || !is_statistic(f, n->in[k], SN_OP_SUM, e)) continue;
        add_member(f, x);
        add_member(f, other);
        f->term = operand(f, other, 0);
        return true;
    }
    return false;
}

/* x = numerators / sum, or numerators * (1 / sum): the numerators. */
static sn_nd numerators(finder *f, sn_nd x) {
    const sn_node_rec *n = node(f, x);
    if (n->op == SN_OP_DIV) {
        sn_nd e = operand(f, x, 0);
        return is_total(f, n->in[1], e) ? e : (sn_nd){0};
    }
    for (uint32_t k = 0; n->op == SN_OP_MUL && k < 2; k++) {
        sn_nd e = operand(f, x, k), inverse = operand(f, x, 1 - k);
        const sn_node_rec *i = node(f, inverse);
        bool inverts = i->op == SN_OP_RECIPROCAL || (i->op == SN_OP_DIV && is_full_of(f, i->in[0], 1));
        if (!inverts || node(f, e)->op != SN_OP_EXP) continue;
        add_member(f, inverse);
        return is_total(f, i->in[i->n_in - 1], e) ? e : (sn_nd){0};
    }
    return (sn_nd){0};
}

/* ---- rows that count as 0 ---- */

/* Have they the same shape? */
static bool is_alike(const finder *f, sn_nd x, sn_nd y) {
    const sn_type *t = &node(f, x)->type, *u = &node(f, y)->type;
    return t->rank == u->rank && !memcmp(t->shape, u->shape, t->rank * sizeof *t->shape);
}

/* x = where(some rows, 0, weights): the weights. Which rows these are is asked once the scores are known, but for those that are nan. */
static sn_nd without_rows(finder *f, sn_nd x) {
    const sn_node_rec *n = node(f, x);
    if (n->op != SN_OP_WHERE) return x;
    bool zero_first = is_full_of(f, n->in[1], 0);
    if (zero_first == is_full_of(f, n->in[2], 0)) return x;
    sn_nd of = n->in[zero_first ? 2 : 1], test = n->in[0];
    if (!is_alike(f, of, x)) return x;
    sn_nd p = past_in_order(f, of);
    const sn_node_rec *t = node(f, test);
    if (t->op == SN_OP_ISNAN && zero_first && is_alike(f, test, x) && sn_nd_eq(past_in_order(f, t->in[0]), p)) {
        add_member(f, test);
        f->at->rows = SN_ATTENTION_ROWS_NAN;
    } else {
        f->at->rows = SN_ATTENTION_ROWS_EMPTY;
        f->empty = x;
    }
    add_member(f, x);
    add_member(f, p);
    return p;
}

/* Does x say of each row of `rows`, which are those of the scores, whether all elements of the scores are -inf, or, not `all`, whether one is not? */
static bool tells_empty(finder *f, sn_nd x, sn_nd rows, sn_nd scores, bool all) {
    const sn_node_rec *n = node(f, x);
    for (; (n->op == SN_OP_EXPAND && is_alike(f, x, rows)) || n->op == SN_OP_NOT; n = node(f, x = n->in[0])) {
        add_member(f, x);
        all ^= n->op == SN_OP_NOT;
    }
    if (!is_broadcast(f, x, rows)) return false;
    for (; n->op == SN_OP_NOT || is_reshape(n); n = node(f, x = n->in[0])) {
        add_member(f, x);
        all ^= n->op == SN_OP_NOT;
    }
    if (n->op != (all ? SN_OP_ALL : SN_OP_ANY)) return false;
    if (sn_node_axes_mask(f->m, x) != 1u << (node(f, scores)->type.rank - 1)) return false;
    add_member(f, x);
    for (n = node(f, x = n->in[0]); n->op == SN_OP_NOT; n = node(f, x = n->in[0])) {
        add_member(f, x);
        all = !all;
    }
    add_member(f, x);
    for (uint32_t k = 0; n->op == (all ? SN_OP_EQ : SN_OP_NE) && k < 2; k++)
        if (is_full_of(f, n->in[1 - k], -INFINITY)) return sn_nd_eq(operand(f, x, k), scores);
    return false;
}

static bool rows_are_empty(finder *f, sn_nd scores) {
    if (!f->empty.i) return true;
    const sn_node_rec *n = node(f, f->empty);
    return tells_empty(f, n->in[0], f->empty, scores, is_full_of(f, n->in[1], 0));
}

/* ---- sinks ---- */

/* Is x all of each row but the last element? */
static bool leaves_out_last(const finder *f, sn_nd x) {
    const sn_node_rec *n = node(f, x);
    if (n->op != SN_OP_SLICE || sn_node_int(f->m, x, SN_ATTR_AXIS, 0) != n->type.rank - 1) return false;
    int64_t all, left;
    bool known = sn_ix_is_const(f->m, node(f, n->in[0])->type.shape[n->type.rank - 1], &all) &&
                 sn_ix_is_const(f->m, n->type.shape[n->type.rank - 1], &left);
    return known && left == all - 1 && sn_node_int(f->m, x, SN_ATTR_START, 0) == 0 &&
           sn_node_int(f->m, x, SN_ATTR_STEP, 1) == 1;
}

/* x = keys and one more: the keys. */
static sn_nd without_last(finder *f, sn_nd x) {
    const sn_node_rec *n = node(f, x);
    int64_t one;
    if (n->op != SN_OP_CONCAT || n->n_in != 2 || sn_node_int(f->m, x, SN_ATTR_AXIS, 0) != n->type.rank - 1)
        return (sn_nd){0};
    const sn_type *last = &node(f, n->in[1])->type;
    if (!sn_ix_is_const(f->m, last->shape[last->rank - 1], &one) || one != 1) return (sn_nd){0};
    add_member(f, x);
    f->at->sink = SN_ATTENTION_SINK_KEY;
    f->at->sink_of = n->in[1];
    return operand(f, x, 0);
}

/* Of what stands in an exponential beside the sum: s - largest score, or -largest score. */
static bool find_term(finder *f, sn_nd x) {
    const sn_node_rec *n = node(f, f->term);
    bool zero = n->op == SN_OP_NEG;
    if ((!zero && n->op != SN_OP_SUB) || !is_statistic(f, n->in[zero ? 0 : 1], SN_OP_AMAX, x)) return false;
    add_member(f, f->term);
    f->at->sink = SN_ATTENTION_SINK_TERM;
    f->at->sink_of = zero ? (sn_nd){0} : n->in[0];
    const sn_type *rows = &node(f, x)->type, *s = zero ? NULL : &node(f, n->in[0])->type;
    int64_t one;
    return !s || !s->rank || (s->rank <= rows->rank && sn_ix_is_const(f->m, s->shape[s->rank - 1], &one) && one == 1);
}

/* What a number of each row has been subtracted from: a softmax is the same without. */
static sn_nd unshifted(finder *f, sn_nd x) {
    for (const sn_node_rec *n = node(f, x); n->op == SN_OP_SUB && !f->term.i; n = node(f, x)) {
        sn_nd of = operand(f, x, 0);
        if (!is_statistic(f, n->in[1], SN_OP_AMAX, of)) break;
        add_member(f, x);
        x = of;
    }
    return x;
}

/* ---- weights ---- */

static bool find_softmax(finder *f) {
    static const char *const none = "its left operand is no softmax over the keys";
    sn_nd weights = past(f, node(f, f->at->product)->in[0], true), p = without_rows(f, weights);
    add_member(f, weights);
    bool last = leaves_out_last(f, p);
    if (last) {
        add_member(f, p);
        p = past(f, node(f, p)->in[0], false);
    }
    add_member(f, p);
    sn_nd e = numerators(f, p);
    if (!e.i || node(f, e)->op != SN_OP_EXP) return refuse(f, none);
    add_member(f, e);
    sn_nd d = operand(f, e, 0);
    if (node(f, d)->op != SN_OP_SUB) return refuse(f, none);
    add_member(f, d);
    sn_nd x = operand(f, d, 0);
    if (!is_statistic(f, node(f, d)->in[1], SN_OP_AMAX, x))
        return refuse(f, "the largest score is not what is subtracted");
    if (f->term.i && !find_term(f, x)) return refuse(f, "its sums have terms that are no scores");
    x = unshifted(f, x);
    if (last) x = without_last(f, x);
    if (!x.i || (last && f->term.i)) return refuse(f, none);
    if (f->at->rows && f->at->sink) return refuse(f, "it has a sink, and rows that count as 0");
    if (!rows_are_empty(f, x)) return refuse(f, "rows that count as 0 are not those that see no key");
    f->at->quotient = weights, f->at->scores = x;
    return true;
}

/* ---- the scores ---- */

/* Is x made of a product, element by element? The first that is found is what the scores are made of; others are
 * operands. */
static bool made_of_first(finder *f, sn_nd x) {
    const sn_node_rec *n = node(f, x);
    if (f->mark[x.i] & ASKED) return f->mark[x.i] & OF_FIRST;
    f->mark[x.i] |= ASKED;
    bool made = n->op == SN_OP_MATMUL && (!f->at->first.i || sn_nd_eq(f->at->first, x));
    if (made) f->at->first = x;
    if (sn_node_is_elementwise(n) || keeps_rows(f, n))
        for (uint32_t k = 0; k < n->n_in; k++) made |= made_of_first(f, n->in[k]);
    if (!made) return false;
    f->mark[x.i] |= OF_FIRST;
    add_member(f, x);
    return true;
}

/* ---- factors of q and k ---- */

static const double MOST_FACTOR = 0x1p16;

/* Is x all of one operand, times a number or divided by one? Not by one that keeps q and k where their product is a number. */
static bool is_scaled(const sn_module *m, sn_nd x, uint32_t *of, double *factor) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (n->op != SN_OP_MUL && n->op != SN_OP_DIV) return false;
    for (uint32_t k = 0; k < (n->op == SN_OP_MUL ? 2 : 1); k++) {
        const sn_node_rec *z = sn_node_get(m, n->in[k]), *by = sn_node_get(m, n->in[1 - k]);
        if (by->op != SN_OP_FULL || z->type.rank != n->type.rank) continue;
        if (memcmp(z->type.shape, n->type.shape, n->type.rank * sizeof *n->type.shape)) continue;
        double value = sn_node_float(m, n->in[1 - k], SN_ATTR_VALUE, 0);
        *of = k, *factor = n->op == SN_OP_MUL ? value : 1 / value;
        return fabs(*factor) >= 1 / MOST_FACTOR && fabs(*factor) <= MOST_FACTOR;
    }
    return false;
}

sn_nd sn_attention_unscaled(sn_module *m, sn_nd x, double *scale) {
    const sn_node_rec *n = sn_node_get(m, x);
    uint32_t of;
    double factor;
    if (is_scaled(m, x, &of, &factor)) {
        *scale *= factor;
        return sn_attention_unscaled(m, n->in[of], scale);
    }
    if (sn_ops[n->op].cls != SN_OPS_VIEW) return x;
    sn_nd in = sn_attention_unscaled(m, n->in[0], scale);
    return sn_nd_eq(in, n->in[0]) ? x : sn_graph_node(m, n->op, &in, 1, n->attrs, n->n_attrs);
}

static void find_scaled(finder *f, sn_nd x) {
    uint32_t of;
    double factor;
    for (;; x = node(f, x)->in[of]) {
        bool view = sn_ops[node(f, x)->op].cls == SN_OPS_VIEW;
        if (view) of = 0;
        else if (!is_scaled(f->m, x, &of, &factor)) return;
        if (!view) SN_PUSH(f->scratch, &f->at->scaled, x);
    }
}

/* Elements; 0: a size is no number. */
static int64_t count(const finder *f, sn_nd x) {
    const sn_type *t = &node(f, x)->type;
    int64_t n = 1, size;
    for (uint32_t k = 0; k < t->rank; k++)
        if (!sn_ix_is_const(f->m, t->shape[k], &size) || sn_mul_overflow(n, size, &n)) return 0;
    return n;
}

static int64_t size_at(const finder *f, const sn_type *t, uint32_t from_end) {
    int64_t size = 0;
    return t->rank >= from_end && sn_ix_is_const(f->m, t->shape[t->rank - from_end], &size) ? size : 0;
}

/* Elements of x that are not others again, as views repeat them. */
static int64_t distinct(const finder *f, sn_nd x) {
    int64_t all = count(f, x), times = 1;
    uint32_t of;
    double factor;
    for (const sn_node_rec *n = node(f, x);; n = node(f, x)) {
        bool scaled = is_scaled(f->m, x, &of, &factor);
        if (!scaled && sn_ops[n->op].cls != SN_OPS_VIEW && n->op != SN_OP_CAST) break;
        if (scaled) {
            x = n->in[of];
            continue;
        }
        int64_t above = count(f, x), below = count(f, n->in[0]);
        if (n->op == SN_OP_EXPAND && below && sn_mul_overflow(times, above / below, &times)) return 0;
        x = n->in[0];
    }
    return all / times;
}

/* What x is in memory, below views, factors and exact casts. */
static sn_dtype held_as(const finder *f, sn_nd x) {
    uint32_t of;
    double factor;
    for (const sn_node_rec *n = node(f, x);; n = node(f, x)) {
        bool exact = n->op == SN_OP_CAST && sn_dtype_widens(node(f, n->in[0])->type.dtype, n->type.dtype);
        if (is_scaled(f->m, x, &of, &factor)) x = n->in[of];
        else if (exact || sn_ops[n->op].cls == SN_OPS_VIEW) x = n->in[0];
        else return n->type.dtype;
    }
}

/* One dtype for both products. The wider one, if the operands of the other become exact in it; but that of halves where
 * operands of a first product in f32 are such halves in memory: it adds up the same. */
static bool find_dtype(finder *f) {
    sn_attention *at = f->at;
    sn_nd q = node(f, at->first)->in[0], k = node(f, at->first)->in[1];
    sn_dtype first = node(f, q)->type.dtype, v = node(f, node(f, at->product)->in[1])->type.dtype;
    sn_precision precision = at->precision = sn_node_precision(f->m, at->product);
    at->sizes.dtype = v;
    at->widens = first != v && sn_compute_dtype(first) == v;
    if (first != v && !at->widens && (held_as(f, q) != v || held_as(f, k) != v))
        return refuse(f, "its operands have different dtypes");
    /* Halves have fewer bits than any precision but the last one. */
    bool fits = at->widens ? precision != SN_PRECISION_BF16 || first == SN_BF16
                           : first != v || precision == sn_node_precision(f->m, at->first);
    return fits ? true : refuse(f, "its products differ in precision");
}

static bool find_sizes(finder *f) {
    const sn_attention *at = f->at;
    const sn_node_rec *product = node(f, at->product), *first = node(f, at->first);
    sn_attention_sizes *s = &f->at->sizes;
    const sn_type *q = &node(f, first->in[0])->type, *k = &node(f, first->in[1])->type;
    const sn_type *p = &node(f, product->in[0])->type, *v = &node(f, product->in[1])->type;
    if (q->rank < 2 || k->rank < 2 || p->rank < 2 || v->rank < 2) return refuse(f, "an operand is a vector");
    s->keys = size_at(f, p, 1), s->width = size_at(f, v, 1), s->depth = size_at(f, q, 1), s->queries = size_at(f, q, 2);
    int64_t scores = count(f, at->scores), keys = distinct(f, first->in[1]);
    if (!s->keys || !scores || !s->depth || !s->width || !keys) return refuse(f, "a size is symbolic, or 0");
    s->rows = scores / s->keys;
    int64_t groups = keys / s->depth / s->keys; /* of rows that meet other keys */
    if (!groups) return refuse(f, "keys or channels are the same ones again");
    s->shared = s->rows / groups;
    bool once = size_at(f, &first->type, 1) == s->keys && count(f, at->first) == scores &&
                count(f, at->product) == s->rows * s->width;
    return once ? find_dtype(f) : refuse(f, "scores would be computed more than once");
}

/* ---- how operands lie ---- */

static bool divides(const finder *f, sn_ix by, sn_ix size) {
    int64_t a, b;
    return sn_ix_is_const(f->m, by, &a) && sn_ix_is_const(f->m, size, &b) && a > 0 && b % a == 0;
}

/* Which axis of the operand of a reshape an axis is, whose elements lie as far apart there; UINT32_MAX: none. */
static uint32_t axis_below_reshape(const finder *f, const sn_type *t, const sn_type *in, uint32_t axis) {
    uint32_t behind = t->rank - axis;
    if (behind == 1 && in->rank && divides(f, t->shape[axis], in->shape[in->rank - 1])) return in->rank - 1;
    if (behind > in->rank) return UINT32_MAX;
    bool same = !memcmp(t->shape + axis, in->shape + in->rank - behind, behind * sizeof *t->shape);
    return same ? in->rank - behind : UINT32_MAX;
}

/* The same for any view; a slice may move the axis by whole accesses. */
static uint32_t axis_below(const finder *f, sn_nd x, uint32_t axis) {
    enum { ACCESS = 8 /* elements, at most */ };
    const sn_node_rec *n = node(f, x);
    const sn_type *in = &node(f, n->in[0])->type;
    if (n->op == SN_OP_CAST) return axis;
    if (is_reshape(n)) return axis_below_reshape(f, &n->type, in, axis);
    if (n->op == SN_OP_PERMUTE) return (uint32_t)sn_node_attr(f->m, x, SN_ATTR_PERM)->ints.at[axis];
    if (n->op == SN_OP_EXPAND) {
        uint32_t added = n->type.rank - in->rank;
        bool kept = axis >= added && sn_ix_eq(n->type.shape[axis], in->shape[axis - added]);
        return kept ? axis - added : UINT32_MAX;
    }
    if (n->op != SN_OP_SLICE) return UINT32_MAX;
    bool along = sn_node_int(f->m, x, SN_ATTR_AXIS, 0) == (int64_t)axis;
    bool whole = sn_node_int(f->m, x, SN_ATTR_STEP, 1) == 1 && sn_node_int(f->m, x, SN_ATTR_START, 0) % ACCESS == 0;
    return !along || whole ? axis : UINT32_MAX;
}

/* Are elements along the axis, counted from the end, neighbours in what stands in memory? That is what views and
 * exact casts are made of, in the order of its own axes. */
static bool lies_along(const finder *f, sn_nd x, uint32_t from_end) {
    uint32_t axis = node(f, x)->type.rank - from_end, of = 0;
    double factor;
    for (const sn_node_rec *n = node(f, x); axis != UINT32_MAX; n = node(f, x)) {
        bool exact = n->op == SN_OP_CAST && sn_dtype_widens(node(f, n->in[0])->type.dtype, n->type.dtype);
        bool scaled = is_scaled(f->m, x, &of, &factor);
        if (sn_ops[n->op].cls != SN_OPS_VIEW && !exact && !scaled) break;
        if (!scaled) axis = axis_below(f, x, axis);
        x = n->in[scaled ? of : 0];
    }
    const sn_node_rec *n = node(f, x);
    if (axis == UINT32_MAX || n->op != SN_OP_INPUT) return axis == n->type.rank - 1;
    int64_t stride;
    return sn_ix_is_const(f->m, f->m->graph.inputs.at[n->input].stride[axis], &stride) && stride == 1;
}

static void find_misplaced(finder *f) {
    const sn_node_rec *first = node(f, f->at->first), *product = node(f, f->at->product);
    if (!lies_along(f, first->in[0], 1)) f->at->misplaced |= SN_ATTENTION_Q;
    if (!lies_along(f, first->in[1], 2)) f->at->misplaced |= SN_ATTENTION_K;
    if (!lies_along(f, product->in[1], 1)) f->at->misplaced |= SN_ATTENTION_V;
}

/* ---- statistics of rows ---- */
static sn_nd below_casts(const finder *f, sn_nd x) {
    while (is_float_cast(f, node(f, x))) x = node(f, x)->in[0];
    return x;
}

/* Is it a reduction of each row of what has the shape of the scores? */
static bool is_of_rows(const finder *f, sn_nd x) {
    return sn_node_axes_mask(f->m, x) == 1u << (node(f, f->at->scores)->type.rank - 1);
}

/* A maximum that is rounded falls out of the quotient, but not out of a sum of differences to it. */
static bool is_wider(const finder *f, sn_nd x) {
    const sn_node_rec *n = node(f, x);
    return is_float_cast(f, n) && sn_dtype_widens(node(f, n->in[0])->type.dtype, n->type.dtype);
}

static sn_nd below_wider(const finder *f, sn_nd x, bool views) {
    while (is_wider(f, x) || (views && is_reshape(node(f, x)))) x = node(f, x)->in[0];
    return x;
}

/* Is x the largest score of each row, as `is_statistic` looks for it? */
static bool is_most(const finder *f, sn_nd x) {
    x = below_wider(f, x, false);
    if (node(f, x)->op == SN_OP_EXPAND) x = below_wider(f, node(f, x)->in[0], false);
    if (!is_broadcast(f, x, f->at->scores)) return false;
    x = below_wider(f, x, true);
    const sn_node_rec *n = node(f, x);
    return n->op == SN_OP_AMAX && is_of_rows(f, x) && sn_nd_eq(below_casts(f, n->in[0]), f->at->scores);
}

/* Is x the largest score, or 0 where that is infinite? */
static bool is_finite_most(const finder *f, sn_nd x) {
    const sn_node_rec *n = node(f, below_wider(f, x, false));
    if (n->op != SN_OP_WHERE || !is_full_of(f, n->in[1], 0) || !is_most(f, n->in[2])) return false;
    const sn_node_rec *test = node(f, n->in[0]);
    return test->op == SN_OP_ISINF && is_most(f, test->in[0]);
}

/* What x is of the rows of scores. *d: the differences whose exponentials it adds up. */
static sn_attention_statistic statistic_of(const finder *f, sn_nd x, sn_nd *d) {
    const sn_node_rec *n = node(f, x);
    if ((n->op != SN_OP_AMAX && n->op != SN_OP_SUM) || !is_of_rows(f, x)) return SN_ATTENTION_NO_STATISTIC;
    sn_nd of = below_casts(f, n->in[0]);
    if (n->op == SN_OP_AMAX) return sn_nd_eq(of, f->at->scores) ? SN_ATTENTION_MOST : SN_ATTENTION_NO_STATISTIC;
    if (node(f, of)->op != SN_OP_EXP) return SN_ATTENTION_NO_STATISTIC;
    const sn_node_rec *less = node(f, *d = below_casts(f, node(f, of)->in[0]));
    if (less->op != SN_OP_SUB || !sn_nd_eq(below_casts(f, less->in[0]), f->at->scores))
        return SN_ATTENTION_NO_STATISTIC;
    if (is_most(f, less->in[1])) return SN_ATTENTION_TOTAL;
    return is_finite_most(f, less->in[1]) ? SN_ATTENTION_FINITE : SN_ATTENTION_NO_STATISTIC;
}

/* Has each element of the result the row of scores that stands in its place? */
static bool keeps_places(const finder *f) {
    const sn_attention *at = f->at;
    const sn_type *y = &node(f, at->product)->type, *s = &node(f, at->scores)->type;
    for (sn_nd x = node(f, at->product)->in[0]; !sn_nd_eq(x, at->quotient); x = node(f, x)->in[0])
        if (node(f, x)->op != SN_OP_CAST) return false;
    return at->sink == SN_ATTENTION_NO_SINK && at->rows == SN_ATTENTION_ROWS_ALL && s->rank == y->rank &&
           is_alike(f, at->quotient, at->scores) && !memcmp(s->shape, y->shape, (s->rank - 1) * sizeof *s->shape);
}

/* All statistics of the graph, and what is made for them alone. */
static void find_statistics(finder *f) {
    sn_attention *at = f->at;
    at->statistic = SN_NEWN(f->scratch, uint8_t, f->m->graph.nodes.count);
    at->tells = keeps_places(f);
    for (sn_nd x = {1}; at->tells && x.i < f->m->graph.nodes.count; x.i++) {
        sn_nd d = {0}, y = x;
        sn_attention_statistic is = statistic_of(f, x, &d);
        if (!is) continue;
        at->statistic[x.i] = (uint8_t)is;
        add_member(f, x);
        while (d.i && !sn_nd_eq(y, d)) add_member(f, y = node(f, y)->in[0]);
    }
}

/* Who is told what a nest knows of its rows. */
typedef struct teller {
    const sn_module *m;
    sn_attention *at;
    const uint8_t *live;
    uint8_t *own; /* at->of_rows, as 1 + the operations that it is */
} teller;

/* Has x a place for each row as the result has it, with or without an axis for keys? */
static bool is_by_rows(const teller *t, const sn_type *x) {
    const sn_type *y = &sn_node_get(t->m, t->at->product)->type;
    uint32_t rows = y->rank - 1;
    int64_t one = 1;
    if (x->rank != rows && (x->rank != y->rank || !sn_ix_is_const(t->m, x->shape[rows], &one))) return false;
    return one == 1 && !memcmp(x->shape, y->shape, rows * sizeof *x->shape);
}

/* Element by element made of statistics alone, by few operations, since each thread of a row may do them all. */
static uint8_t own_of(const teller *t, sn_nd x) {
    const sn_node_rec *n = sn_node_get(t->m, x);
    uint32_t ops = 2;
    bool any = false;
    if (t->at->statistic[x.i]) return 1;
    if (t->at->is_member[x.i] || (!sn_node_is_elementwise(n) && n->op != SN_OP_CAST && !is_reshape(n))) return 0;
    for (uint32_t k = 0; k < n->n_in; k++) {
        uint8_t own = t->own[n->in[k].i];
        if (!own && sn_node_get(t->m, n->in[k])->op != SN_OP_FULL) return 0;
        any |= own != 0;
        ops += own ? own - 1 : 0;
    }
    return any && is_by_rows(t, &n->type) && ops <= SN_TOLD_OPS + 1 ? (uint8_t)ops : 0;
}

static void add_once(sn_nd_list *list, sn_arena *scratch, sn_nd x) {
    for (uint32_t k = 0; k < list->n; k++)
        if (sn_nd_eq(list->at[k], x)) return;
    SN_PUSH(scratch, list, x);
}

/* Somebody who is not made of statistics alone reads x, and a view of rows is one of what is stored; or x is an output. */
static void tell(teller *t, sn_nd x, bool output, sn_arena *scratch) {
    sn_nd base = x;
    while (is_reshape(sn_node_get(t->m, base))) base = sn_node_get(t->m, base)->in[0];
    if (!output || t->at->statistic[base.i]) x = base;
    add_once(&t->at->told, scratch, x);
}

/* The last node that the nest needs. */
static void find_ready(teller *t) {
    const sn_attention *at = t->at;
    for (uint32_t i = 0; i <= at->members.n; i++) {
        const sn_node_rec *n = sn_node_get(t->m, i < at->members.n ? at->members.at[i] : at->product);
        for (uint32_t k = 0; k < n->n_in; k++) {
            bool inside = at->is_member[n->in[k].i] || t->own[n->in[k].i];
            if (!inside && n->in[k].i > t->at->ready.i) t->at->ready = n->in[k];
        }
    }
}

/* What others read of the statistics, and whether that can be stored before they do. */
static void find_told(teller *t, sn_arena *scratch) {
    sn_attention *at = t->at;
    const sn_graph_ir *g = &t->m->graph;
    for (sn_nd x = {1}; x.i < g->nodes.count; x.i++) t->own[x.i] = own_of(t, x);
    find_ready(t);
    for (sn_nd x = {1}; x.i < g->nodes.count; x.i++) {
        const sn_node_rec *n = sn_node_get(t->m, x);
        for (uint32_t k = 0; t->live[x.i] && !at->is_member[x.i] && k < n->n_in; k++) {
            if (!t->own[n->in[k].i]) continue;
            if (at->statistic[n->in[k].i]) add_once(&at->read, scratch, n->in[k]);
            if (t->own[x.i]) continue;
            tell(t, n->in[k], false, scratch);
            at->tells &= x.i > at->ready.i;
        }
    }
    for (uint32_t k = 0; k < g->outputs.n; k++) {
        sn_nd x = g->outputs.at[k].node;
        if (!t->own[x.i]) continue;
        if (at->statistic[x.i]) add_once(&at->read, scratch, x);
        tell(t, x, true, scratch);
    }
}

/* ---- who reads it ---- */

/* Attentions by the nodes that they compute: at[first[x]] .. at[first[x + 1]] have x as a member or as their product. */
typedef struct sharers {
    const sn_attention *all;
    bool *keep;
    uint32_t *first, *at;
} sharers;

static void find_sharers(sharers *sh, uint32_t n, const sn_module *m, sn_arena *scratch) {
    uint32_t count = m->graph.nodes.count, sum = 0;
    sh->first = SN_NEWN(scratch, uint32_t, count + 2);
    for (uint32_t i = 0; i < n; i++) {
        sh->first[sh->all[i].product.i + 1]++;
        for (uint32_t k = 0; k < sh->all[i].members.n; k++) sh->first[sh->all[i].members.at[k].i + 1]++;
    }
    for (uint32_t x = 0; x <= count; x++) sum = sh->first[x + 1] += sum;
    uint32_t *next = SN_NEWN(scratch, uint32_t, count + 1);
    sh->at = SN_NEWN(scratch, uint32_t, sum + 1);
    memcpy(next, sh->first, count * sizeof *next);
    for (uint32_t i = 0; i < n; i++) {
        sh->at[next[sh->all[i].product.i]++] = i;
        for (uint32_t k = 0; k < sh->all[i].members.n; k++) sh->at[next[sh->all[i].members.at[k].i]++] = i;
    }
}

static bool has(const sharers *sh, uint32_t i, sn_nd x) { return sh->keep[i] && sh->all[i].is_member[x.i]; }

/* May x read `that` as its operand k? Each attention that computes x from values of its own has `that` as a member too, and one
 * does. */
static bool reads_alike(const sharers *sh, sn_nd x, uint32_t k, sn_nd that) {
    bool any = false;
    for (uint32_t s = sh->first[x.i]; s < sh->first[x.i + 1]; s++) {
        uint32_t i = sh->at[s];
        bool is_product = sh->keep[i] && sn_nd_eq(x, sh->all[i].product) && k == 0;
        bool computes = is_product || (has(sh, i, x) && !sn_nd_eq(x, sh->all[i].first));
        if (computes && !has(sh, i, that)) return false;
        any |= computes;
    }
    return any;
}

/* All that have x as a member, but those whose weights it is, if so asked. */
static bool drop(sharers *sh, sn_nd x, bool but_own) {
    bool any = false;
    for (uint32_t s = sh->first[x.i]; s < sh->first[x.i + 1]; s++) {
        uint32_t i = sh->at[s];
        if (!has(sh, i, x) || (but_own && sn_nd_eq(sh->all[i].quotient, x))) continue;
        sh->keep[i] = false, any = true;
    }
    return any;
}

static bool is_shared(const sharers *sh, sn_nd x) {
    for (uint32_t s = sh->first[x.i]; s < sh->first[x.i + 1]; s++)
        if (has(sh, sh->at[s], x)) return true;
    return false;
}

/* May `reader` read x? It is a statistic that each attention tells that has it. Who computes the reader in a nest of his own is
 * told nothing by others. */
static bool is_told(const sharers *sh, sn_nd reader, sn_nd x) {
    bool told = false;
    if (reader.i && is_shared(sh, reader)) return false;
    for (uint32_t s = sh->first[x.i]; s < sh->first[x.i + 1]; s++) {
        uint32_t i = sh->at[s];
        if (!has(sh, i, x)) continue;
        if (!sh->all[i].tells || !sh->all[i].statistic[x.i]) return false;
        told = true;
    }
    return told;
}

static bool drop_read(sharers *sh, const sn_module *m, const uint8_t *live) {
    bool any = false;
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++) {
        const sn_node_rec *n = sn_node_get(m, x);
        for (uint32_t k = 0; live[x.i] && k < n->n_in; k++)
            if (is_shared(sh, n->in[k]) && !reads_alike(sh, x, k, n->in[k]) && !is_told(sh, x, n->in[k]))
                any |= drop(sh, n->in[k], false);
    }
    return any;
}

void sn_attention_keep_alone(bool *keep, sn_attention *at, uint32_t n, const sn_module *m, sn_arena *scratch) {
    const sn_graph_ir *g = &m->graph;
    sharers sh = {.all = at, .keep = keep};
    uint8_t *live = SN_NEWN(scratch, uint8_t, g->nodes.count);
    sn_graph_live(m, live);
    find_sharers(&sh, n, m, scratch);
    for (uint32_t i = 0; i < n; i++) {
        teller t = {m, &at[i], live, SN_NEWN(scratch, uint8_t, g->nodes.count)};
        at[i].of_rows = t.own;
        if (keep[i] && at[i].tells) find_told(&t, scratch);
    }
    for (uint32_t i = 0; i < n; i++) /* weights are no scores */
        if (keep[i]) drop(&sh, at[i].quotient, true);
    for (uint32_t k = 0; k < g->outputs.n; k++)
        if (!is_told(&sh, (sn_nd){0}, g->outputs.at[k].node)) drop(&sh, g->outputs.at[k].node, false);
    while (drop_read(&sh, m, live)) {}
}

bool sn_attention_find(sn_attention *out, const char **why_not, const sn_module *m, sn_arena *scratch, sn_nd x) {
    *out = (sn_attention){.product = x};
    finder f = {.m = m, .scratch = scratch, .at = out};
    const sn_node_rec *n = sn_node_get(m, x);
    if (n->op != SN_OP_MATMUL || !sn_is_float(n->type.dtype)) return false;
    f.mark = SN_NEWN(scratch, uint8_t, m->graph.nodes.count);
    *why_not = "the scores are of no product";
    bool found = find_softmax(&f) && made_of_first(&f, out->scores) && find_sizes(&f);
    for (uint32_t k = 0; k < 2 && found; k++) find_scaled(&f, node(&f, out->first)->in[k]);
    if (found) find_misplaced(&f);
    if (found) find_statistics(&f);
    out->is_member = f.mark;
    for (uint32_t k = 0; found && k < m->graph.nodes.count; k++) f.mark[k] = (f.mark[k] & MEMBER) != 0;
    if (f.why) *why_not = f.why;
    return found;
}

/* ---- schedules ---- */

/* Of class attend_rows (passes/schedule/attention/attend_rows.c): heads whose vectors threads share evenly. */
enum { MOST_HEAD = 256, HEAD_STEP = 8 };

bool sn_attention_has_few_rows(const sn_target *t, const sn_attention_sizes *s) {
    bool heads =
        s->depth <= MOST_HEAD && s->width <= MOST_HEAD && s->depth % HEAD_STEP == 0 && s->width % HEAD_STEP == 0;
    bool dtype = s->dtype == SN_F32 || s->dtype == SN_BF16 || s->dtype == SN_F16;
    bool few = s->shared <= SN_ATTENTION_FEW || (s->shared > s->queries && s->shared <= SN_ATTENTION_GROUP &&
                                                 s->keys >= SN_ATTENTION_GROUP_KEYS * s->shared);
    return t->is_gpu && dtype && heads && few;
}

/* Class attend (passes/schedule/attention/attend.c, attend_terms.c): warpgroups take whole heads, whose rows are a multiple of 16
 * bytes. Of few rows of halves, the heads of a group or some queries, it knows itself whether it is worth it; of f32 a
 * tile has 64 queries at least, and fewer than half of them are done sooner with the scores in memory. */
static bool by_warpgroups(const sn_target *t, const sn_attention_sizes *s) {
    enum { SM = 90, WIDEST = 256 };
    bool halves = s->dtype == SN_BF16 || s->dtype == SN_F16,
         floats = s->dtype == SN_F32 && s->queries >= SN_ATTENTION_MANY;
    int64_t unit = SN_WIDEST_ACCESS / sn_dtype_bytes(s->dtype);
    return t->is_gpu && t->specific && t->sm == SM && (halves || floats) && s->depth <= WIDEST && s->width <= WIDEST &&
           s->depth % unit == 0 && s->width % unit == 0 && s->shared > 1;
}

/* Class attend on the CPU (passes/schedule/attention/attend_host.c). Query rows are lanes of vectors: those without one are lost
 * to both products. Queries are turned around and rows begin and end once for all keys. What is saved: that scores go
 * through memory, and that keys are turned around, as products in kernels of their own do. Rows of scores that no
 * vector divides are worth more, since a softmax of its own tests their last vectors. In cycles, as timed. */
static bool by_lanes(const sn_target *t, const sn_attention_sizes *s) {
    enum { WIDEST = 512 };
    if (t->is_gpu || s->depth > WIDEST || s->width > WIDEST) return false;
    if (s->keys == 1 || s->depth == 1 || s->width == 1) return false; /* axes of one iteration are none */
    int64_t lanes = t->vector_bytes / sn_dtype_bytes(sn_compute_dtype(s->dtype));
    int64_t filled = (s->queries + lanes - 1) / lanes * lanes;
    if (s->queries < lanes) return false;
    double queries = (double)s->queries, keys = (double)s->keys, depth = (double)s->depth, width = (double)s->width;
    double lost = (double)(filled - s->queries) * keys * (depth + width) / (double)lanes;
    double spent = (double)filled * (SN_ATTENTION_BEGIN + depth) + lost;
    double saved = keys * (queries * SN_ATTENTION_SCORES / t->vector_bytes + depth);
    if (s->keys % lanes) saved += keys * queries * SN_ATTENTION_ODD;
    return saved >= spent;
}

bool sn_attention_is_bound(const sn_target *t, const sn_attention_sizes *s) {
    return sn_attention_has_few_rows(t, s) || by_warpgroups(t, s) || by_lanes(t, s);
}
