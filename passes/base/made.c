/* made.c: see made.h.
 *
 * Cost: linear in the expression as it is written out, of which no more than MOST_NODES are looked at.
 */
#include "passes/base/made.h"

#include "passes/base/constants.h"
#include "passes/base/nest.h"

enum { MOST_NODES = 256 };

static bool is_half(sn_dtype t) { return t == SN_BF16 || t == SN_F16; }

/* Integers that boxes bring. */
static bool is_word(sn_dtype t) { return sn_is_integral(t) && sn_dtype_bytes(t) <= 4; }

static bool widens(const sn_module *m, const sn_node_rec *n) {
    return n->op == SN_OP_CAST && sn_dtype_widens(sn_node_get(m, n->in[0])->type.dtype, n->type.dtype);
}

sn_dtype sn_matmul_narrow_dtype(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    for (; sn_ops[n->op].cls == SN_OPS_VIEW || widens(m, n); n = sn_node_get(m, x)) x = n->in[0];
    return n->type.dtype;
}

/* Has it an element in memory that is no more than loaded? */
static bool is_stored(const sn_node_rec *n) {
    return n->op == SN_OP_INPUT || n->op == SN_OP_WEIGHT || n->op == SN_OP_CONSTANT;
}

/* Elements; 0: nobody knows. */
static int64_t size_of(const sn_module *m, sn_nd x) {
    const sn_type *t = &sn_node_get(m, x)->type;
    int64_t all = 1, size;
    for (uint32_t k = 0; k < t->rank; k++) all = sn_ix_is_const(m, t->shape[k], &size) ? sn_mul_clamped(all, size) : 0;
    return all;
}

/* Does the operand have about an element for each of `all`, or for a few together? */
static bool is_large(const sn_module *m, sn_nd x, int64_t all) { return size_of(m, x) * SN_MADE_TOGETHER >= all; }

/* Are neighbours along the axis those of several tensors in turn, as numbers of 4 bits that are unpacked are? */
static bool takes_turns(const sn_module *m, sn_nd x, uint32_t axis) {
    const sn_node_rec *n = sn_node_get(m, x);
    int64_t size;
    bool turns = n->op == SN_OP_CONCAT && sn_node_int(m, x, SN_ATTR_AXIS, 0) == axis;
    for (uint32_t k = 0; turns && k < n->n_in; k++)
        turns = sn_ix_is_const(m, sn_node_get(m, n->in[k])->type.shape[axis], &size) && size == 1;
    return turns;
}

/* The tensor in memory that lies along that axis of x, with nothing else as large under x; none: it is not so. */
static sn_nd raw_of(const sn_module *m, sn_nd x, uint32_t axis, int64_t all) {
    const sn_node_rec *n = sn_node_get(m, x);
    sn_nd raw = {0};
    if (is_stored(n)) return axis + 1 == n->type.rank ? x : raw;
    switch (n->op) {
    case SN_OP_PERMUTE: {
        int64_t from = sn_node_attr(m, x, SN_ATTR_PERM)->ints.at[axis];
        return raw_of(m, n->in[0], (uint32_t)(from < 0 ? from + n->type.rank : from), all);
    }
    case SN_OP_RESHAPE: {
        uint32_t rank = sn_node_get(m, n->in[0])->type.rank;
        return axis + 1 == n->type.rank && rank ? raw_of(m, n->in[0], rank - 1, all) : raw;
    }
    default: break;
    }
    if (!sn_node_is_elementwise(n) && !takes_turns(m, x, axis)) return raw;
    for (uint32_t k = 0; k < n->n_in; k++) {
        if (!is_large(m, n->in[k], all)) continue;
        if (sn_node_get(m, n->in[k])->type.rank != n->type.rank) return (sn_nd){0};
        sn_nd one = raw_of(m, n->in[k], axis, all);
        if (!one.i || (raw.i && !sn_nd_eq(raw, one))) return (sn_nd){0};
        raw = one;
    }
    return raw;
}

/* Operations with which an element is computed, up to a few more than there may be. left: nodes that are still looked at, once for each way
 * that leads to them; of more nobody knows. */
static uint32_t ops_of(const sn_module *m, sn_nd x, uint32_t *left) {
    const sn_node_rec *n = sn_node_get(m, x);
    bool counts = sn_node_is_elementwise(n);
    uint32_t ops = counts;
    if (!counts && sn_ops[n->op].cls != SN_OPS_VIEW && n->op != SN_OP_CONCAT) return 0;
    if (!*left) return SN_MADE_OPS + 1;
    --*left;
    for (uint32_t k = 0; k < n->n_in && ops <= SN_MADE_OPS; k++) ops += ops_of(m, n->in[k], left);
    return ops;
}

bool sn_matmul_makes(const sn_module *m, const sn_target *t, sn_nd x, uint32_t k) {
    const sn_node_rec *n = sn_node_get(m, x);
    const sn_type *type = &sn_node_get(m, n->in[k])->type;
    uint32_t left = MOST_NODES;
    int64_t steps, uses;
    if (n->op != SN_OP_MATMUL || !t->is_gpu || !t->specific || sn_node_attr(m, x, SN_ATTR_SCHEDULE)) return false;
    if (type->rank < 2 || sn_compute_dtype(n->type.dtype) != SN_F32) return false;
    uint32_t axis = k ? type->rank - 2 : type->rank - 1;
    if (!sn_ix_is_const(m, type->shape[axis], &steps) || steps % SN_MADE_STEPS) return false;
    sn_dtype other = sn_matmul_narrow_dtype(m, n->in[1 - k]);
    if (!is_half(other) || sn_matmul_narrow_dtype(m, n->in[k]) != other) return false;
    uses = sn_graph_matmul_uses(m, x, k);
    if (uses < 2 || uses > SN_MADE_USES || ops_of(m, n->in[k], &left) > SN_MADE_OPS) return false;
    sn_nd raw = raw_of(m, n->in[k], axis, size_of(m, n->in[k]));
    return raw.i && is_word(sn_node_get(m, raw)->type.dtype);
}
