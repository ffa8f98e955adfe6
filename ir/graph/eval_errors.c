/* eval_errors.c: how far each element may be off when a graph of primitives is computed in its own dtypes.
 *
 *     %d = sub %x, %y             (d's own rounding)^2 + (error of x)^2 + (error of y)^2
 *     %e = exp %d                 (e's own rounding)^2 + (exp(d + error) - exp(d))^2
 *     %s = sum %e axes=[0]        (s's own rounding)^2 + (error of e0)^2 + (error of e1)^2 + ..
 *
 * Every value that is not moved or given has a rounding of its own, of a size that follows from its dtype. It goes on
 * to what is computed from it: each operation is evaluated once more on operands that are off by their errors. Errors
 * of different elements have nothing to do with each other, so that squares are added. But what is broadcast is off
 * everywhere by the same amount: such errors are kept apart as `common`, and a sum adds them as they are:
 *
 *     %m = mean %x axes=[0]
 *     %z = sub %x, %m             common: error of m
 *     %s = sum %z axes=[0]        N times that
 *
 * scatter_sum, which `decompose` leaves as it is for the CPU, is a sum, too.
 *
 * Integers and truth values are off where what they are made of may cross a step, and go on to what they choose:
 *
 *     %i = cast %x dtype=i64          1 where x is that close to an integer
 *     %r = index_select %t, %i        the difference of both rows
 *
 * Where a logarithm or its kin may be asked at its pole, because its operand is off, the error is infinite, and so is that of
 * what is made of it: log1p of what is -1 when it is rounded, atanh of a tanh.
 *
 * Sums of products that may have factors of fewer bits (precisions.def) are off by that share of the sum of |x * y|:
 * their roundings may all have one direction. Results of one row share a factor: what they are off by for that is common.
 *
 * An estimate, not a proof; a right program stays below it. Composites have to be decomposed before: what cancels
 * inside them counts. Costs some evaluations of every node, in memory as well.
 */
#include "ir/graph/eval_internal.h"

#include <math.h>
#include <string.h>

/* Errors of one array; NULL: none. */
typedef struct errors {
    double *squares, *common;
} errors;

typedef struct estimate {
    sn_module *m;
    sn_arena *lasting;     /* of what outlives the steps of a repeat */
    sn_arena *arena, temp; /* of the step at hand; temp: freed after each node */
    sn_array **values;
    errors **errors; /* by node and result */
} estimate;

/* A value is rounded once to a narrow type, where it is stored: twice the largest such error, since what many of them
 * come to is taken for that of random ones. In f32 an operation has some units in the last place. */
static double rounding_of(sn_dtype t) {
    if (sn_is_narrow(t)) return ldexp(2, -(int)sn_dtypes[t].digits);
    return t == SN_F64 ? 1e-12 : 2e-6;
}

/* Sums are blocked, so that each term is rounded a few times; roundings of terms with random signs have random signs
 * too. Halves are summed in f32. */
static double rounding_of_sum(sn_dtype t, double n) {
    enum { BLOCK = 256 };
    return (t == SN_F64 ? 1e-11 : 2e-5) * (1 + sqrt(n) / BLOCK);
}

/* Smaller numbers may become 0: they are results of exponentials, or products in f32 that a narrow type cannot hold. */
static double least_of(sn_dtype t) {
    double half_a_step = ldexp(1, sn_float_lowest(t) - (int)sn_dtypes[t].digits);
    return fmax(half_a_step, t == SN_F64 ? 0x1p-1022 : 0x1p-126);
}

/* ---- arrays of numbers ---- */

static double *zeros(sn_arena *arena, int64_t n) { return SN_NEWN(arena, double, n + 1); }

/* An error that is too small to be squared counts as the smallest that is not. */
static void add_square(double *to, double x) {
    if (x != 0 && isfinite(x)) *to += fmax(x * x, 0x1p-1074);
}

/* The same of an error that is infinite where nothing is known. */
static void add_error(double *to, double x) {
    if (isinf(x)) *to = INFINITY;
    else add_square(to, x);
}

static double *common_of(estimate *es, errors *er, int64_t n) {
    if (!er->common) er->common = zeros(es->arena, n);
    return er->common;
}

/* The elements of a with others in their place. */
static sn_array with(const sn_array *a, double *f) {
    sn_array out = *a;
    out.f = f;
    return out;
}

static sn_array squared(estimate *es, const sn_array *a) {
    sn_array out = with(a, zeros(&es->temp, a->numel));
    for (int64_t i = 0; i < a->numel; i++) out.f[i] = a->f[i] * a->f[i];
    return out;
}

static sn_array magnitudes(estimate *es, const sn_array *a) {
    sn_array out = with(a, zeros(&es->temp, a->numel));
    for (int64_t i = 0; i < a->numel; i++) out.f[i] = fabs(a->f[i]);
    return out;
}

/* squares + common^2 */
static sn_array all_squares(estimate *es, const sn_array *a, const errors *er) {
    sn_array out = with(a, zeros(&es->temp, a->numel));
    for (int64_t i = 0; i < a->numel; i++) {
        if (er->squares) out.f[i] += er->squares[i];
        if (er->common) out.f[i] += er->common[i] * er->common[i];
    }
    return out;
}

/* Node x with `in` in place of operand number k, wherever that stands; out: its results. */
static sn_status eval_with(sn_array **out, estimate *es, sn_nd x, uint32_t k, sn_array *in) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    sn_array **operand = &es->values[n->in[k].i], *kept = *operand, *results = es->values[x.i];
    *operand = in;
    sn_status status = sn_eval_node(es->values, es->m, x, &es->temp);
    *operand = kept;
    *out = es->values[x.i];
    es->values[x.i] = results;
    return status;
}

/* ---- sums ---- */

/* Terms that go into one element. */
static double terms_of(const estimate *es, sn_nd x) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    const sn_array *a = es->values[n->in[0].i], *out = es->values[x.i];
    if (n->op == SN_OP_MATMUL) return (double)a->shape[a->rank - 1];
    if (n->op == SN_OP_CONV) {
        const sn_array *w = es->values[n->in[1].i];
        return (double)w->numel / fmax(1, (double)w->shape[0]);
    }
    if (sn_ops[n->op].cls == SN_OPS_SCAN) {
        int64_t axis = sn_node_int(es->m, x, SN_ATTR_AXIS, 0);
        return (double)a->shape[axis < 0 ? axis + a->rank : axis];
    }
    return (double)a->numel / fmax(1, (double)out->numel);
}

/* The operation on the squares of its operands, or on what else `of` makes of them. */
static sn_status eval_of(sn_array **out, estimate *es, sn_nd x, sn_array of(estimate *es, const sn_array *a)) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    sn_array a = of(es, es->values[n->in[0].i]);
    if (n->n_in < 2 || sn_nd_eq(n->in[0], n->in[1])) return eval_with(out, es, x, 0, &a);
    sn_array *kept = es->values[n->in[1].i], b = of(es, kept);
    es->values[n->in[1].i] = &b;
    sn_status status = eval_with(out, es, x, 0, &a);
    es->values[n->in[1].i] = kept;
    return status;
}

static sn_status sum_roundings(estimate *es, sn_nd x, errors *to) {
    sn_array *terms, *out = es->values[x.i];
    double n = terms_of(es, x), rounding = rounding_of_sum(out->dtype, n);
    SN_TRY(eval_of(&terms, es, x, squared));
    double each = sn_node_get(es->m, x)->op == SN_OP_MEAN ? 1 / fmax(1, n) : 1;
    for (int64_t i = 0; i < out->numel; i++) add_square(&to->squares[i], rounding * sqrt(terms->f[i] * each));
    return SN_OK;
}

/* The same of scatter_sum, whose rows have any number of updates: all of them, at most. */
static sn_status scatter_roundings(estimate *es, sn_nd x, errors *to) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    sn_array **operand = &es->values[n->in[0].i], *kept = *operand, *terms, *out = es->values[x.i];
    sn_array first = squared(es, kept), updates = squared(es, es->values[n->in[2].i]);
    double rounding = rounding_of_sum(out->dtype, (double)es->values[n->in[1].i]->numel);
    *operand = &first;
    sn_status status = eval_with(&terms, es, x, 2, &updates);
    *operand = kept;
    SN_TRY(status);
    for (int64_t i = 0; i < out->numel; i++) add_square(&to->squares[i], rounding * sqrt(terms->f[i]));
    return SN_OK;
}

/* matmul, conv with factors of fewer bits: each product is off by a share of it, all of them in one direction. A factor goes into a whole row
 * or column of results, which are off together by what its terms come to when those have random signs. */
static sn_status factor_roundings(estimate *es, sn_nd x, errors *to) {
    double share = sn_precision_error(sn_node_precision(es->m, x));
    sn_array *terms, *squares;
    if (share == 0) return SN_OK;
    SN_TRY(eval_of(&terms, es, x, magnitudes));
    SN_TRY(eval_of(&squares, es, x, squared));
    double *common = common_of(es, to, terms->numel);
    for (int64_t i = 0; i < terms->numel; i++) {
        add_square(&to->squares[i], share * terms->f[i]);
        if (isfinite(squares->f[i])) common[i] += share * sqrt(squares->f[i]);
    }
    return SN_OK;
}

/* sum, mean, cumsum: linear in one operand. */
static sn_status through_sum(estimate *es, sn_nd x, const errors *from, errors *to) {
    sn_array *a = es->values[sn_node_get(es->m, x)->in[0].i], *r, in;
    double each = sn_node_get(es->m, x)->op == SN_OP_MEAN ? 1 / fmax(1, terms_of(es, x)) : 1;
    for (int part = 0; part < 2; part++) {
        double *f = part ? from->common : from->squares;
        if (!f) continue;
        in = with(a, f);
        SN_TRY(eval_with(&r, es, x, 0, &in));
        for (int64_t i = 0; i < r->numel; i++) {
            if (part) add_error(&to->squares[i], r->f[i]);
            else to->squares[i] += r->f[i] * each;
        }
    }
    return SN_OK;
}

static double largest_of(const sn_array *a) {
    double largest = 0;
    for (int64_t i = 0; i < a->numel; i++)
        if (isfinite(a->f[i])) largest = fmax(largest, a->f[i]);
    return largest;
}

/* Both factors are one value, whose place holds one array: f(e, x) + f(x, e) = f(e + x, e + x) - f(e, e) - f(x, x),
 * with errors as large as the value, so that the difference keeps its digits. */
static sn_status through_square(estimate *es, sn_nd x, const errors *from, errors *to) {
    const sn_array *a = es->values[sn_node_get(es->m, x)->in[0].i];
    sn_array e = all_squares(es, a, from), v = squared(es, a), both = with(a, zeros(&es->temp, a->numel)), *r[3];
    double scale = largest_of(&v) / largest_of(&e);
    if (!isfinite(scale) || scale == 0) return SN_OK;
    for (int64_t i = 0; i < a->numel; i++) both.f[i] = (e.f[i] *= scale) + v.f[i];
    SN_TRY(eval_with(&r[0], es, x, 0, &both));
    SN_TRY(eval_with(&r[1], es, x, 0, &e));
    SN_TRY(eval_with(&r[2], es, x, 0, &v));
    for (int64_t i = 0; i < r[0]->numel; i++) to->squares[i] += fmax(0, r[0]->f[i] - r[1]->f[i] - r[2]->f[i]) / scale;
    return SN_OK;
}

/* matmul, conv: factors of random signs make errors that were common so too. */
static sn_status through_products(estimate *es, sn_nd x, uint32_t k, const errors *from, errors *to) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    if (sn_nd_eq(n->in[0], n->in[1])) return through_square(es, x, from, to);
    sn_array in = all_squares(es, es->values[n->in[k].i], from), *r;
    sn_array **other = &es->values[n->in[1 - k].i], *kept = *other, squares = squared(es, kept);
    *other = &squares;
    sn_status status = eval_with(&r, es, x, k, &in);
    *other = kept;
    for (int64_t i = 0; status == SN_OK && i < r->numel; i++) to->squares[i] += r->f[i];
    return status;
}

/* ---- everything else ---- */

/* The search of find_poles: numbers of the operand's dtype, from what the operation takes to what it does not. */
typedef struct search {
    const sn_array *a;
    double *inside, *outside;
    bool *open; /* here: it meets a pole */
} search;

static sn_status halve(estimate *es, sn_nd x, search *of) {
    sn_array in = with(of->a, zeros(&es->temp, of->a->numel)), *r;
    for (int64_t i = 0; i < in.numel; i++) in.f[i] = sn_round_to(in.dtype, (of->inside[i] + of->outside[i]) / 2);
    SN_TRY(eval_with(&r, es, x, 0, &in));
    for (int64_t i = 0; i < in.numel; i++) {
        of->open[i] |= isinf(r->f[i]) && of->inside[i] != of->outside[i];
        *(isnan(r->f[i]) ? &of->outside[i] : &of->inside[i]) = in.f[i];
    }
    return SN_OK;
}

/* An operation of one operand that is nan of what that may become: is there a pole on the way, which a number of the operand's dtype
 * hits? Then its result may be anything. What ends without one (a square root) stays. */
static sn_status find_poles(bool *open, estimate *es, sn_nd x, const sn_array *moved, const sn_array *to) {
    enum { STEPS = 12 }; /* an error has fewer numbers than 2^STEPS, but for those of f64 */
    const sn_array *was = es->values[x.i];
    search of = {.a = es->values[sn_node_get(es->m, x)->in[0].i], .open = open};
    bool any = false;
    of.inside = zeros(&es->temp, to->numel), of.outside = zeros(&es->temp, to->numel);
    for (int64_t i = 0; i < to->numel; i++) {
        bool leaves = isnan(moved->f[i]) && isfinite(was->f[i]);
        of.inside[i] = of.a->f[i], of.outside[i] = leaves ? to->f[i] : of.a->f[i];
        any |= leaves;
    }
    for (int k = 0; any && k < STEPS; k++) SN_TRY(halve(es, x, &of));
    return SN_OK;
}

/* Of which elements of a result is the operand lost, so that e is infinite? Elementwise, of those that are made of such elements;
 * else of all, where there is one. */
static bool *find_lost(estimate *es, sn_nd x, const sn_array *a, const double *e, int64_t n) {
    const sn_array *out = es->values[x.i];
    bool *lost = SN_NEWN(&es->temp, bool, n + 1), any = false;
    for (int64_t i = 0; i < a->numel; i++) any |= !isfinite(e[i]);
    if (!any) return lost;
    sn_opclass cls = sn_ops[sn_node_get(es->m, x)->op].cls;
    if (cls != SN_OPS_UNARY && cls != SN_OPS_BINARY && cls != SN_OPS_ELEMENT) {
        memset(lost, true, (size_t)n * sizeof *lost);
        return lost;
    }
    sn_walk w = sn_walk_over(out->shape, out->rank);
    sn_walk_broadcast(&w, 0, a);
    for (int64_t i = 0; i < out->numel; i++, sn_walk_next(&w)) lost[i] = !isfinite(e[w.at[0]]);
    return lost;
}

/* What an operand off by e makes of element i of a result; infinite: anything. lost: e is infinite there. */
static double change(const sn_array *moved, const sn_array *was, int64_t i, bool lost) {
    if (!sn_is_float(was->dtype))
        return lost ? INFINITY
                    : fabs(sn_int_to_double(was->dtype, moved->i[i]) - sn_int_to_double(was->dtype, was->i[i]));
    double by = fabs(moved->f[i] - was->f[i]);
    if (!isfinite(was->f[i])) return 0;
    return isnan(by) && !lost ? 0 : isnan(by) ? INFINITY : by;
}

/* May operand k be other integers than it is, without the operation being another one or none at all? */
static bool takes_other_integers(const sn_node_rec *n, uint32_t k) {
    switch ((int)n->op) {
    case SN_OP_CAST:
    case SN_OP_CLAMP:
    case SN_OP_WHERE:
    case SN_OP_ADD:
    case SN_OP_SUB:
    case SN_OP_MUL:
    case SN_OP_NEG:
    case SN_OP_ABS:
    case SN_OP_MINIMUM:
    case SN_OP_MAXIMUM:
    case SN_OP_AND:
    case SN_OP_OR:
    case SN_OP_XOR:
    case SN_OP_NOT:
    case SN_OP_COPY:
    case SN_OP_PAD:
    case SN_OP_CONCAT: return true;
    case SN_OP_GATHER:
    case SN_OP_INDEX_SELECT: return k < 2;
    default: return sn_ops[n->op].cls == SN_OPS_VIEW || sn_ops[n->op].cls == SN_OPS_COMPARE;
    }
}

/* Element i of integers, off by `by`: one of its dtype, and of an index one of its axis. */
static int64_t other_integer(const sn_array *a, int64_t i, double by, int64_t axis_size) {
    int64_t was = a->i[i], least = was < 0 ? -axis_size : 0;
    if (fabs(by) < 0.5) return was;
    if (a->dtype == SN_BOOL) return !was;
    int64_t to = isfinite(by) && fabs(by) < 0x1p31 ? was + llround(by) : by < 0 ? -INT32_MAX : INT32_MAX;
    if (sn_wrap_to(a->dtype, to) != to) return was;
    if (axis_size < 0) return to;
    return to < least ? least : to >= least + axis_size ? least + axis_size - 1 : to;
}

/* Operand k of x, off by e. */
static sn_array other_operand(estimate *es, sn_nd x, uint32_t k, const double *e, bool down) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    const sn_array *a = es->values[n->in[k].i], *table = es->values[n->in[0].i];
    sn_array out = *a;
    if (sn_is_float(a->dtype)) {
        out.f = zeros(&es->temp, a->numel);
        for (int64_t i = 0; i < a->numel; i++) out.f[i] = down ? a->f[i] - e[i] : a->f[i] + e[i];
        return out;
    }
    bool gathers = n->op == SN_OP_GATHER || n->op == SN_OP_INDEX_SELECT;
    bool is_index = gathers && sn_nd_eq(n->in[k], n->in[1]); /* what is looked up may be the index as well */
    int64_t axis = is_index ? sn_node_int(es->m, x, SN_ATTR_AXIS, 0) : 0;
    int64_t size = is_index ? table->shape[axis < 0 ? axis + table->rank : axis] : -1;
    out.i = SN_NEWN(&es->temp, int64_t, a->numel + 1);
    for (int64_t i = 0; i < a->numel; i++) out.i[i] = other_integer(a, i, down ? -e[i] : e[i], size);
    return out;
}

/* The larger change of each result when operand k is off by e, upwards and downwards, is added to `squares` or
 * `common`. */
static sn_status shifted(estimate *es, sn_nd x, uint32_t k, const double *e, bool squares, errors *to) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    const sn_array *a = es->values[n->in[k].i], *was = es->values[x.i];
    bool *open = SN_NEWN(&es->temp, bool, was->numel + 1), one = sn_ops[n->op].cls == SN_OPS_UNARY;
    int64_t most = 0;
    sn_array *moved[2], in[2];
    for (uint32_t r = 0; r < n->n_results; r++) most = was[r].numel > most ? was[r].numel : most;
    const bool *lost = find_lost(es, x, a, e, most);
    for (int down = 0; down < 2; down++) {
        in[down] = other_operand(es, x, k, e, down);
        SN_TRY(eval_with(&moved[down], es, x, k, &in[down]));
        if (one && sn_is_float(was->dtype) && sn_is_float(a->dtype))
            SN_TRY(find_poles(open, es, x, moved[down], &in[down]));
    }
    for (uint32_t r = 0; r < n->n_results; r++)
        for (int64_t i = 0; i < was[r].numel; i++) {
            double up = change(&moved[0][r], &was[r], i, lost[i]), down = change(&moved[1][r], &was[r], i, lost[i]);
            double largest = r == 0 && open[i] ? INFINITY : fmax(up, down);
            if (squares) add_error(&to[r].squares[i], largest);
            else common_of(es, &to[r], was[r].numel)[i] += largest;
        }
    return SN_OK;
}

static sn_status through_other(estimate *es, sn_nd x, uint32_t k, const errors *from, errors *to) {
    const sn_array *a = es->values[sn_node_get(es->m, x)->in[k].i];
    if (from->common) SN_TRY(shifted(es, x, k, from->common, false, to));
    if (!from->squares) return SN_OK;
    double *e = zeros(&es->temp, a->numel);
    for (int64_t i = 0; i < a->numel; i++) e[i] = sqrt(from->squares[i]);
    return shifted(es, x, k, e, true, to);
}

/* Each factor of a product may be off by its rounding, all of them in one direction. */
static sn_status through_factors(estimate *es, sn_nd x, const errors *from, errors *to) {
    const sn_array *a = es->values[sn_node_get(es->m, x)->in[0].i];
    double *e = zeros(&es->temp, a->numel), unit = a->dtype == SN_F64 ? 0x1p-52 : 0x1p-23;
    for (int64_t i = 0; i < a->numel; i++) {
        e[i] = unit * fabs(a->f[i]);
        if (from->squares) e[i] += sqrt(from->squares[i]);
        if (from->common) e[i] += from->common[i];
        e[i] = copysign(e[i], a->f[i]);
    }
    return shifted(es, x, 0, e, true, to);
}

/* floordiv: a quotient near an integer, 0 too, may be rounded to it. */
static void round_quotients(estimate *es, sn_nd x, errors *to) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    const sn_array *a = es->values[n->in[0].i], *b = es->values[n->in[1].i], *out = es->values[x.i];
    sn_walk w = sn_walk_over(out->shape, out->rank);
    sn_walk_broadcast(&w, 0, a);
    sn_walk_broadcast(&w, 1, b);
    double unit = out->dtype == SN_F64 ? 0x1p-52 : 0x1p-23, least = out->dtype == SN_F64 ? 0x1p-1022 : 0x1p-126;
    for (int64_t i = 0; i < out->numel; i++, sn_walk_next(&w)) {
        double q = a->f[w.at[0]] / b->f[w.at[1]], by = fabs(q) * unit + least;
        add_square(&to->squares[i], floor(q + by) - floor(q - by));
    }
}

/* ---- a node ---- */

typedef enum rule { OTHER, SUM, PRODUCTS, FACTORS } rule;

static rule rule_of(sn_op op) {
    switch ((int)op) {
    case SN_OP_SUM:
    case SN_OP_MEAN:
    case SN_OP_CUMSUM: return SUM;
    case SN_OP_MATMUL:
    case SN_OP_CONV: return PRODUCTS;
    case SN_OP_PROD:
    case SN_OP_CUMPROD: return FACTORS;
    default: return OTHER;
    }
}

static bool is_exact(const sn_node_rec *n) {
    sn_opclass cls = sn_ops[n->op].cls;
    return cls == SN_OPS_SOURCE || cls == SN_OPS_VIEW || cls == SN_OPS_MOVE || n->op == SN_OP_WHERE;
}

/* Is one element of operand a part of several results alike? */
static bool is_broadcast(const sn_node_rec *n, const sn_array *a, const sn_array *out) {
    sn_opclass cls = sn_ops[n->op].cls;
    bool can = cls == SN_OPS_UNARY || cls == SN_OPS_BINARY || cls == SN_OPS_ELEMENT || n->op == SN_OP_EXPAND;
    return can && a->numel < out->numel;
}

static errors as_common(estimate *es, const sn_array *a, const errors *er) {
    errors out = {.common = zeros(&es->temp, a->numel)};
    for (int64_t i = 0; i < a->numel; i++)
        out.common[i] = (er->squares ? sqrt(er->squares[i]) : 0) + (er->common ? er->common[i] : 0);
    return out;
}

static sn_status operand_errors(estimate *es, sn_nd x, uint32_t k, errors *to) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    const sn_array *a = es->values[n->in[k].i];
    for (uint32_t j = 0; j < k; j++)
        if (sn_nd_eq(n->in[j], n->in[k])) return SN_OK; /* done with the other one */
    rule how = rule_of(n->op);
    if (!sn_is_float(a->dtype) && !takes_other_integers(n, k)) return SN_OK;
    errors from = es->errors[n->in[k].i] ? es->errors[n->in[k].i][0] : (errors){NULL, NULL};
    if (how == FACTORS) return through_factors(es, x, &from, to);
    if (!from.squares && !from.common) return SN_OK;
    if (is_broadcast(n, a, es->values[x.i])) from = as_common(es, a, &from);
    if (how == SUM) return through_sum(es, x, &from, to);
    return how == PRODUCTS ? through_products(es, x, k, &from, to) : through_other(es, x, k, &from, to);
}

/* Is element i of x a number that the operation takes, or an integer? What becomes an integer or a truth value of it is as certain as its
 * operand is: zeros of a relu are not above 0, and integers that a cast makes floats are the same ones when they come back. */
static bool is_not_rounded(const estimate *es, sn_nd x, int64_t i) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    const sn_array *out = es->values[x.i];
    switch ((int)n->op) {
    case SN_OP_SIGN:
    case SN_OP_FLOOR:
    case SN_OP_CEIL:
    case SN_OP_ROUND:
    case SN_OP_TRUNC:
    case SN_OP_CLAMP:
    case SN_OP_MINIMUM:
    case SN_OP_MAXIMUM: return true;
    case SN_OP_CAST: /* kernels may scale what they make narrow behind it, and round that */
        if (sn_is_float(es->values[n->in[0].i]->dtype)) return false;
        return out->f[i] == 0 ||
               (!sn_is_narrow(out->dtype) && fabs(out->f[i]) <= ldexp(1, (int)sn_dtypes[out->dtype].digits));
    default: return false;
    }
}

static void own_roundings(const estimate *es, sn_nd x, const sn_array *a, errors *to) {
    double rounding = rounding_of(a->dtype);
    for (int64_t i = 0; i < a->numel; i++) {
        bool exact = is_not_rounded(es, x, i);
        if (!exact) add_square(&to->squares[i], rounding * a->f[i]);
        if (!exact || a->f[i] != 0) add_square(&to->squares[i], least_of(a->dtype));
    }
}

/* A tuple's result is a tensor of its own. */
static void project(estimate *es, sn_nd x) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    errors *of = es->errors[n->in[0].i];
    if (of) es->errors[x.i] = &of[sn_node_int(es->m, x, SN_ATTR_INDEX, 0)];
}

static sn_status find_errors(estimate *es, sn_nd x) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    const sn_array *out = es->values[x.i];
    bool any = !is_exact(n);
    if (n->op == SN_OP_PROJECT) return project(es, x), SN_OK;
    for (uint32_t k = 0; k < n->n_in; k++) any |= es->errors[n->in[k].i] != NULL;
    if (!any || n->n_in == 0) return SN_OK;
    errors *to = SN_NEWN(es->arena, errors, n->n_results);
    for (uint32_t r = 0; r < n->n_results; r++) to[r] = (errors){zeros(es->arena, out[r].numel), NULL};
    for (uint32_t k = 0; k < n->n_in; k++) SN_TRY(operand_errors(es, x, k, to));
    bool sums = sn_is_float(out->dtype) && (rule_of(n->op) == SUM || rule_of(n->op) == PRODUCTS);
    if (sums) SN_TRY(sum_roundings(es, x, to));
    if (sums && rule_of(n->op) == PRODUCTS) SN_TRY(factor_roundings(es, x, to));
    if (n->op == SN_OP_SCATTER_SUM && sn_is_float(out->dtype)) SN_TRY(scatter_roundings(es, x, to));
    if (n->op == SN_OP_FLOORDIV && sn_is_float(out->dtype)) round_quotients(es, x, to);
    for (uint32_t r = 0; r < n->n_results && !is_exact(n); r++)
        if (sn_is_float(out[r].dtype)) own_roundings(es, x, &out[r], &to[r]);
    es->errors[x.i] = to;
    return SN_OK;
}

/* ---- repeats ---- */

/* n of them, from element `at` of `from` on (NULL: there are none), to element `to_at` on. */
static void copy_errors(errors *to, int64_t to_at, const errors *from, int64_t at, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        to->squares[to_at + i] = from && from->squares ? from->squares[at + i] : 0;
        to->common[to_at + i] = from && from->common ? from->common[at + i] : 0;
    }
}

static errors *new_errors(sn_arena *arena, const sn_array *a) {
    errors *out = SN_NEW(arena, errors);
    *out = (errors){zeros(arena, a->numel), zeros(arena, a->numel)};
    return out;
}

/* Of a slice: those of its elements. */
static void slice_errors(estimate *es, const sn_eval_run *r, sn_nd x) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    const sn_array *from = r->all[n->in[0].i], *out = r->all[x.i];
    uint32_t axis = (uint32_t)sn_node_int(es->m, x, SN_ATTR_AXIS, 0);
    int64_t inner = 1, steps = from->shape[axis];
    int64_t at = sn_node_int(es->m, x, SN_ATTR_REVERSE, 0) ? steps - 1 - r->t : r->t;
    es->errors[x.i] = NULL;
    if (!es->errors[n->in[0].i] || !sn_is_float(out->dtype)) return;
    errors *to = es->errors[x.i] = new_errors(r->arena, out);
    for (uint32_t k = axis + 1; k < from->rank; k++) inner *= from->shape[k];
    for (int64_t i = 0; inner && i < out->numel / inner; i++)
        copy_errors(to, i * inner, es->errors[n->in[0].i], (i * steps + at) * inner, inner);
}

/* Of a state: those of its first value, then those that the step before has left with the results of the repeat. */
static void state_errors(estimate *es, const sn_eval_run *r, sn_nd x) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    const errors *left = es->errors[r->scope[x.i]];
    uint32_t index = (uint32_t)sn_node_int(es->m, x, SN_ATTR_INDEX, 0);
    const errors *from = r->t ? &left[index] : es->errors[n->in[0].i];
    es->errors[x.i] = NULL;
    if (!from || !sn_is_float(r->all[x.i]->dtype)) return;
    es->errors[x.i] = new_errors(r->arena, r->all[x.i]);
    copy_errors(es->errors[x.i], 0, from, 0, r->all[x.i]->numel);
}

/* Of a branch that was taken: those of its results. */
static void branch_errors(estimate *es, const sn_eval_run *r, sn_nd x, bool other) {
    const sn_node_rec *n = sn_node_get(es->m, x);
    errors *to = es->errors[x.i] = SN_NEWN(r->arena, errors, n->n_results);
    for (uint32_t k = 0; k < n->n_results; k++) {
        sn_nd y = n->in[1 + k + (other ? n->n_results : 0)];
        to[k] = (errors){zeros(r->arena, r->all[y.i]->numel), zeros(r->arena, r->all[y.i]->numel)};
        if (sn_is_float(r->all[y.i]->dtype)) copy_errors(&to[k], 0, es->errors[y.i], 0, r->all[y.i]->numel);
    }
}

static sn_status note_step(sn_eval_run *r, sn_nd x, int64_t t) {
    estimate *es = r->user;
    const sn_node_rec *n = sn_node_get(es->m, x);
    if (n->op == SN_OP_COND) return branch_errors(es, r, x, t), SN_OK;
    const sn_attr *back = sn_node_attr(es->m, x, SN_ATTR_BACKWARDS);
    int64_t states = sn_node_int(es->m, x, SN_ATTR_STATES, 0), trip = 0;
    sn_ix_is_const(es->m, sn_node_attr(es->m, x, SN_ATTR_TRIP)->shape.at[0], &trip);
    if (!es->errors[x.i]) {
        es->errors[x.i] = SN_NEWN(es->lasting, errors, n->n_results);
        for (uint32_t k = 0; k < n->n_results; k++) {
            int64_t size = r->all[n->in[states + k].i]->numel * (k < states ? 1 : trip);
            es->errors[x.i][k] = (errors){zeros(es->lasting, size), zeros(es->lasting, size)};
        }
    }
    for (uint32_t k = 0; k < n->n_results; k++) {
        sn_nd y = n->in[states + k];
        int64_t at = k < states ? 0 : t, size = r->all[y.i]->numel;
        for (uint32_t i = 0; back && k >= states && i < back->ints.n; i++)
            if (back->ints.at[i] == k - states) at = trip - 1 - t;
        if (sn_is_float(r->all[y.i]->dtype)) copy_errors(&es->errors[x.i][k], at * size, es->errors[y.i], 0, size);
    }
    return SN_OK;
}

static sn_status note_node(sn_eval_run *r, sn_nd x) {
    estimate *es = r->user;
    sn_op op = sn_node_get(es->m, x)->op;
    if (op == SN_OP_REPEAT || op == SN_OP_COND) return SN_OK; /* its steps have been noted, or its branch */
    if (op == SN_OP_REPEAT_STATE) return state_errors(es, r, x), SN_OK;
    if (op == SN_OP_REPEAT_SLICE) return slice_errors(es, r, x), SN_OK;
    es->arena = r->arena;
    es->errors[x.i] = NULL;
    sn_arena_init(&es->temp, es->m->env);
    sn_status status = find_errors(es, x);
    sn_arena_free(&es->temp);
    return status;
}

sn_status sn_graph_eval_errors(double **out, sn_module *m, const sn_array *inputs, sn_arena *arena) {
    static const sn_eval_watch watch = {note_node, note_step};
    const sn_graph_ir *g = &m->graph;
    estimate es = {.m = m, .lasting = arena, .values = SN_NEWN(arena, sn_array *, g->nodes.count)};
    sn_eval_run r = {.m = m, .arena = arena, .all = es.values, .watch = &watch, .user = &es};
    es.errors = SN_NEWN(arena, errors *, g->nodes.count);
    SN_TRY(sn_eval_graph(&r, inputs));
    for (uint32_t k = 0; k < g->outputs.n; k++) {
        sn_nd x = g->outputs.at[k].node;
        const errors *er = es.errors[x.i];
        int64_t n = es.values[x.i]->numel;
        out[k] = zeros(arena, n);
        for (int64_t i = 0; er && i < n; i++) {
            double e = sqrt(er->squares[i]) + (er->common ? er->common[i] : 0);
            out[k][i] = isnan(e) ? INFINITY : e;
        }
    }
    return SN_OK;
}
