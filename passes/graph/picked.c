/* picked.c: elements whose places are known are views of where they come from. Part of the pass `simplify`.
 *
 *     %i = constant values=[2] ;  %y = index_select %x, %i axis=0    becomes    %y = slice %x axis=0 start=2 stop=3
 *     %i = iota .. ; %j = floordiv %i, 4 ;  %y = index_select %x, %j axis=1    becomes    each element of the axis four times, by an expand
 *     %c = concat %a, %b axis=1 ; %y = slice %c axis=1 start=0 stop=4    becomes    %y = slice %a ..,  where %a has 4 or more
 *
 * Exporters take q, k and v out of one product by positions that they write as constants, and join two coordinates
 * that a sampler takes apart; heads of keys are repeated for those of queries. A view is read in place by a product or a kernel, which a select and a concat are not
 * when others read them, too.
 *
 * Legality: positions ascend by equal steps, or each stands as often as the others, and are inside an axis whose size is a number (one outside stays what it
 * is: the caller's mistake, which the evaluator names); all elements of a slice are of one operand of the concat. The
 * same elements. Cost: the positions, or the operands.
 */
#include "ir/graph/build.h"
#include "passes/graph/rewrite.h"

/* Positions first, first + step, .. of an axis. */
typedef struct steps {
    int64_t first, last, step;
} steps;

/* Negative positions count from the end; of an index without a sign they are numbers of 2^63 and more. */
static int64_t position(int64_t p, sn_dtype index, int64_t size) {
    return p < 0 && !sn_is_unsigned(index) ? p + size : p;
}

static bool inside(int64_t p, int64_t size) { return p >= 0 && p < size; }

/* All elements of a full are one position: steps where there is one element alone. */
static bool positions(steps *out, const sn_module *m, sn_nd index, int64_t size) {
    const sn_node_rec *n = sn_node_get(m, index);
    int64_t count;
    double value;
    if (!sn_type_static(m, &n->type, &count) || count < 1) return false;
    if (sn_is_uniform(m, index, &value)) {
        if (!(value >= -(double)size && value < (double)size)) return false;
        int64_t p = position((int64_t)value, n->type.dtype, size);
        *out = (steps){p, p, 1};
        return count == 1 && inside(p, size);
    }
    if (n->op != SN_OP_CONSTANT) return false;
    const sn_attr *values = sn_node_attr(m, index, SN_ATTR_VALUES);
    for (int64_t k = 0; k < count; k++) {
        int64_t p = position(values->numbers.i[k], n->type.dtype, size);
        if (!inside(p, size)) return false;
        if (k == 0) *out = (steps){p, p, 1};
        if (k == 1) out->step = p - out->first;
        if (out->step < 1 || p != out->first + k * out->step) return false;
        out->last = p;
    }
    return true;
}

/* How often each element of an axis of that size stands in positions that are computed, in order; 0: they are others. Those that are constants
 * may be an image that is resized, which convolutions have in memory. */
static int64_t times_each(const sn_module *m, sn_nd index, int64_t size) {
    const sn_node_rec *n = sn_node_get(m, index);
    int64_t count;
    double by;
    if (n->type.rank != 1 || !sn_type_static(m, &n->type, &count) || size < 2 || count <= size || count % size)
        return 0;
    bool divides = n->op == SN_OP_FLOORDIV || n->op == SN_OP_DIV;
    bool shared = divides && sn_node_get(m, n->in[0])->op == SN_OP_IOTA && sn_is_uniform(m, n->in[1], &by);
    return shared && by == (double)(count / size) ? count / size : 0;
}

/* x with each element of an axis so often. */
static sn_nd repeated(sn_module *m, sn_nd x, int64_t axis, int64_t times, const sn_type *type) {
    sn_ix shape[SN_MAX_RANK];
    int64_t behind = axis + 1;
    const sn_type *t = sn_type_of(m, x);
    uint32_t rank = t->rank;
    for (uint32_t k = 0; k < rank; k++) shape[k < behind ? k : k + 1] = t->shape[k];
    shape[behind] = sn_ix_const(m, times);
    sn_nd y = sn_graph_expand(m, sn_graph_unsqueeze(m, x, &behind, 1), shape, rank + 1);
    return sn_graph_reshape(m, y, type->shape, type->rank);
}

sn_nd sn_select_as_slice(sn_pass_ctx *cx, sn_nd x, sn_node_rule simplify) {
    sn_module *m = cx->m;
    const sn_node_rec *n = sn_node_get(m, x), *in = sn_node_get(m, n->in[0]);
    int64_t axis = sn_node_int(m, x, SN_ATTR_AXIS, 0), size;
    uint32_t index_rank = sn_type_of(m, n->in[1])->rank;
    steps at = {0};
    if (!sn_ix_is_const(m, in->type.shape[axis], &size)) return x;
    int64_t times = in->type.rank < SN_MAX_RANK ? times_each(m, n->in[1], size) : 0;
    if (times) return repeated(m, n->in[0], axis, times, &n->type);
    if (!positions(&at, m, n->in[1], size)) return x;
    sn_nd y = sn_graph_slice(m, n->in[0], axis, at.first, at.last + 1, at.step);
    if (!y.i || !(y = simplify(cx, y)).i) return y;
    if (index_rank == 1) return y;
    return index_rank ? sn_graph_reshape(m, y, n->type.shape, n->type.rank) : sn_graph_squeeze(m, y, &axis, 1);
}

sn_nd sn_slice_of_concat(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *n = sn_node_get(m, x), *in = sn_node_get(m, n->in[0]);
    int64_t axis = sn_node_int(m, x, SN_ATTR_AXIS, 0), step = sn_node_int(m, x, SN_ATTR_STEP, 1), count, size;
    if (in->op != SN_OP_CONCAT || sn_node_int(m, n->in[0], SN_ATTR_AXIS, 0) != axis) return x;
    if (!sn_ix_is_const(m, n->type.shape[axis], &count) || count < 1) return x;
    int64_t first = sn_node_int(m, x, SN_ATTR_START, 0), last = first + (count - 1) * step;
    if (first < 0) return x; /* counts from the end of an axis that has no number */
    for (uint32_t k = 0; k < in->n_in; k++, first -= size, last -= size) {
        if (!sn_ix_is_const(m, sn_type_of(m, in->in[k])->shape[axis], &size)) return x;
        if (first < size) return last < size ? sn_graph_slice(m, in->in[k], axis, first, last + 1, step) : x;
    }
    return x;
}
