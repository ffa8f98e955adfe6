/* limits.c: which graphs are too large to be lowered. Part of the pass `to-loops`.
 *
 * A live tensor has at most 2^48 elements and an input reaches no further, whether it gets a place in memory or not; no
 * operation takes more than 2^56 steps for its result, and no row of more than 2^32 is sorted. No device holds more,
 * and none would be done in a year. So all that passes and code generators count (elements, bytes, iterations, and the
 * products and sums of those that they compare) stays far inside int64. Kernels from text have no such limits: see
 * sn_mul_clamped. Symbolic sizes pass.
 */
#include "passes/base/nest.h"
#include "passes/lower/lower.h"

static const int64_t MOST_ELEMENTS = (int64_t)1 << 48, MOST_SORTED = (int64_t)1 << 32;

static bool at_most(const sn_module *m, sn_ix e, int64_t limit) {
    int64_t n;
    return !sn_ix_is_const(m, e, &n) || n <= limit;
}

/* Elements of the operands that go into one of the result. */
static sn_ix contracted(sn_module *m, const sn_node_rec *n) {
    const sn_type *x = &sn_node_get(m, n->in[0])->type, *w = &sn_node_get(m, n->in[1])->type;
    if (n->op == SN_OP_MATMUL) return x->shape[x->rank - 1];
    return sn_ix_product(m, w->shape + 1, w->rank - 1);
}

static sn_status check_steps(sn_module *m, const sn_node_rec *n) {
    int64_t results, each, steps;
    if (!sn_ix_is_const(m, sn_type_numel(m, &n->type), &results)) return SN_OK;
    if (!sn_ix_is_const(m, contracted(m, n), &each)) return SN_OK;
    if (!sn_mul_overflow(results, each, &steps) && steps <= SN_MOST_STEPS) return SN_OK;
    return sn_fail(m->env, SN_ERROR_UNSUPPORTED, "%s: %s of %lld products each is too large: more than 2^56 steps",
                   sn_ops[n->op].name, sn_type_text(m, &n->type), (long long)each);
}

/* Merges, and the steps of a scatter that combines, are a kernel for each doubling. 2^32 elements with their positions
 * fill the largest GPU. */
static sn_status check_sort(sn_module *m, sn_nd x) {
    const sn_type *t = &sn_node_get(m, sn_node_get(m, x)->in[0])->type;
    sn_ix size = t->shape[sn_node_int(m, x, SN_ATTR_AXIS, 0)]; /* canonical: not negative */
    if (at_most(m, size, MOST_SORTED)) return SN_OK;
    return sn_fail(m->env, SN_ERROR_UNSUPPORTED, "%s: %s is too large: more than 2^32 elements to bring in order",
                   sn_ops[sn_node_get(m, x)->op].name, sn_type_text(m, t));
}

/* Elements from the first to the last one of an input's storage that it touches. */
static sn_status check_reach(sn_module *m, const sn_graph_input *in, sn_ix reach) {
    if (at_most(m, reach, MOST_ELEMENTS)) return SN_OK;
    return sn_fail(m->env, SN_ERROR_UNSUPPORTED, "input %s: its strides are too large: they reach beyond 2^48 elements",
                   in->name);
}

sn_status sn_lower_check_sizes(sn_lower *lw) {
    sn_module *m = lw->m;
    for (uint32_t i = 1; i < m->graph.nodes.count; i++) {
        const sn_node_rec *n = sn_node_get(m, (sn_nd){i});
        if (!lw->nodes[i].live) continue;
        if (!at_most(m, sn_type_numel(m, &n->type), MOST_ELEMENTS))
            return sn_fail(m->env, SN_ERROR_UNSUPPORTED, "%s: %s is too large: more than 2^48 elements",
                           n->op == SN_OP_INPUT ? n->name : sn_ops[n->op].name, sn_type_text(m, &n->type));
        if (n->op == SN_OP_INPUT)
            SN_TRY(check_reach(m, &m->graph.inputs.at[n->input], sn_buf_get(m, lw->nodes[i].buf)->size));
        if (n->op == SN_OP_SORT || n->op == SN_OP_TOPK) SN_TRY(check_sort(m, (sn_nd){i}));
        if (sn_ops[n->op].cls == SN_OPS_CONTRACT) SN_TRY(check_steps(m, n));
    }
    return m->env->status;
}
