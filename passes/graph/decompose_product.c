/* decompose_product.c: a factor of an operand that is the same for all terms of a sum leaves the matrix product. Part of the pass
 * `decompose`.
 *
 *     %f = cast %q dtype=bf16 ;  %w = mul %f, %s ;  %t = permute %w perm=[1, 0]        (%q: i8[4096, 1024], %s: bf16[4096, 1])
 *     %y = matmul %x, %t : bf16[64, 4096]
 *  -> %0 = permute %f perm=[1, 0] ;  %1 = permute %s perm=[1, 0] ;  %2 = matmul %x, %0 : f32[64, 4096] ;  %3 = mul %2, %1
 *     %y = cast %3 dtype=bf16
 *
 * What is left of the operand is loaded where it is multiplied, and the factor is part of what stands behind the product:
 * the weights of a quantised layer are not written out before they are used. So it is done where that is a plain tensor of
 * narrow integers, whose sums without the factor hardly leave the range of f32, times a factor that has no axis of the sum; on GPUs for
 * few rows, since else integers become floats in memory anyway (`to-loops`).
 *
 * Legality: in real numbers. The operand is not rounded any more, so results are nearer to them; where a factor is infinite or
 * nan, a result that was nan may be infinite; where elements of the other operand come within the largest integer times K of the end
 * of f32, so may a finite one. Products that carry a schedule are left alone. Cost: linear in the views of an
 * operand.
 */
#include "passes/graph/decompose.h"

/* The operand is rest * factor. */
typedef struct factored {
    sn_nd rest, factor; /* none: it is no such product */
} factored;

static bool is_view_or_cast(const sn_node_rec *n) { return sn_ops[n->op].cls == SN_OPS_VIEW || n->op == SN_OP_CAST; }

/* A tensor of narrow integers that lies in memory. */
static bool is_plain(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    while (is_view_or_cast(n)) n = sn_node_get(m, n->in[0]);
    bool narrow = sn_is_integral(n->type.dtype) && sn_dtype_bytes(n->type.dtype) <= 2;
    return narrow && (n->op == SN_OP_INPUT || n->op == SN_OP_WEIGHT || n->op == SN_OP_CONSTANT);
}

/* Is s, which is broadcast to that rank, the same along the axis? */
static bool is_constant_along(sn_module *m, sn_nd s, uint32_t rank, uint32_t axis) {
    const sn_type *t = sn_type_of(m, s);
    uint32_t first = rank - t->rank;
    return axis < first || sn_ix_eq(t->shape[axis - first], sn_ix_const(m, 1));
}

static bool has_shape_of(const sn_module *m, sn_nd x, sn_nd y) {
    const sn_type *a = sn_type_of(m, x), *b = sn_type_of(m, y);
    bool same = a->rank == b->rank;
    for (uint32_t k = 0; same && k < a->rank; k++) same = sn_ix_eq(a->shape[k], b->shape[k]);
    return same;
}

/* s with axes of size 1 in front. */
static sn_nd to_rank(sn_module *m, sn_nd s, uint32_t rank) {
    int64_t axes[SN_MAX_RANK];
    uint32_t n = rank - sn_type_of(m, s)->rank;
    for (uint32_t k = 0; k < n; k++) axes[k] = k;
    return n ? sn_graph_unsqueeze(m, s, axes, n) : s;
}

static factored factor_product(sn_module *m, sn_nd x, uint32_t axis) {
    const sn_node_rec *n = sn_node_get(m, x);
    for (uint32_t k = 0; k < 2; k++) {
        sn_nd rest = n->in[k], factor = n->in[1 - k];
        if (!has_shape_of(m, rest, x) || !is_plain(m, rest)) continue;
        if (!is_constant_along(m, factor, n->type.rank, axis)) continue;
        return (factored){rest, to_rank(m, factor, n->type.rank)};
    }
    return (factored){{0}, {0}};
}

/* The operand as what is summed along the axis. Roundings between the factors and the product are left out. */
static factored factor_operand(sn_module *m, sn_nd x, uint32_t axis) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (!sn_is_float(n->type.dtype)) return (factored){{0}, {0}};
    if (n->op == SN_OP_MUL) return factor_product(m, x, axis);
    if (n->op == SN_OP_CAST) return factor_operand(m, n->in[0], axis);
    if (n->op != SN_OP_PERMUTE) return (factored){{0}, {0}};
    int64_t perm[SN_MAX_RANK];
    for (uint32_t k = 0; k < n->type.rank; k++) {
        int64_t from = sn_node_attr(m, x, SN_ATTR_PERM)->ints.at[k];
        perm[k] = from < 0 ? from + n->type.rank : from;
    }
    uint32_t rank = n->type.rank;
    factored in = factor_operand(m, n->in[0], (uint32_t)perm[axis]);
    if (!in.rest.i) return in;
    return (factored){sn_graph_permute(m, in.rest, perm, rank), sn_graph_permute(m, in.factor, perm, rank)};
}

sn_nd sn_dec_matmul(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    sn_node_rec n = *sn_node_get(m, x);
    sn_dtype dtype = sn_compute_dtype(n.type.dtype);
    sn_nd in[2], y;
    factored parts[2];
    if (!sn_is_float(n.type.dtype) || sn_node_attr(m, x, SN_ATTR_SCHEDULE)) return x;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t rank = sn_type_of(m, n.in[k])->rank;
        if (rank < 2) return x;
        int64_t uses = sn_graph_matmul_uses(m, x, k);
        if (cx->target->is_gpu && (uses < 0 || uses > SN_CONVERTED_ROWS)) parts[k] = (factored){{0}, {0}};
        else parts[k] = factor_operand(m, n.in[k], rank - 1 - k);
        in[k] = sn_graph_cast(m, parts[k].rest.i ? parts[k].rest : n.in[k], dtype);
    }
    if (!parts[0].rest.i && !parts[1].rest.i) return x;
    y = sn_graph_node(m, SN_OP_MATMUL, in, 2, n.attrs, n.n_attrs);
    for (uint32_t k = 0; k < 2; k++)
        if (parts[k].factor.i) y = sn_graph_binary(m, SN_OP_MUL, y, sn_graph_cast(m, parts[k].factor, dtype));
    return y;
}
