/* operands.c: what is put in memory where an operand of a product is more than loads. Part of the pass `to-loops`.
 *
 *     %d = mul %f, %s ;  %w = reshape %d ;  %t = permute %w perm=[1, 0] ;  %y = matmul %x, %t        %d has a kernel, %t is a view of it
 */
#include "passes/lower/lower.h"

bool sn_lower_is_seen_through(const sn_lower *lw, const sn_node_rec *n) {
    if (n->op == SN_OP_CAST) return sn_dtype_widens(sn_node_get(lw->m, n->in[0])->type.dtype, n->type.dtype);
    return sn_ops[n->op].cls == SN_OPS_VIEW;
}

bool sn_lower_is_same_elements(const sn_node_rec *n) {
    return n->op == SN_OP_RESHAPE || n->op == SN_OP_PERMUTE || n->op == SN_OP_SQUEEZE || n->op == SN_OP_UNSQUEEZE;
}

/* Is x computed from inputs and constants alone, no results of other kernels among them? seen: nodes that have been asked. */
static bool is_of_inputs(const sn_lower *lw, sn_nd x, sn_notes *seen) {
    if (!sn_notes_add(seen, x.i)) return true;
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (lw->nodes[x.i].realized) return n->op == SN_OP_INPUT || n->op == SN_OP_CONSTANT || n->op == SN_OP_WEIGHT;
    bool of_inputs = true;
    for (uint32_t k = 0; k < n->n_in && of_inputs; k++) of_inputs = is_of_inputs(lw, n->in[k], seen);
    return of_inputs;
}

/* How often a matmul multiplies each element of operand k; 0: it is none. */
static int64_t uses_of(const sn_lower *lw, sn_nd x, uint32_t k) {
    return sn_node_get(lw->m, x)->op == SN_OP_MATMUL ? sn_graph_matmul_uses(lw->m, x, k) : 0;
}

/* A pad below views and casts rather than they, so that a view of it is one of rows as it has them, in the dtype that it has; else what is
 * widened rather than its wider copy, so that the product is one of halves; on a GPU what is made of inputs below views that show all of
 * it, in the order of its own axes, in which these lie, as a rule: a product takes either. What a kernel computes is stored as views want
 * it, and what each row of a product has for itself (uses: 1) becomes part of its kernel in the order of that. */
sn_nd sn_lower_realized_for(const sn_lower *lw, sn_nd product, uint32_t k) {
    sn_nd x = sn_node_get(lw->m, product)->in[k];
    sn_nd base = x, narrow = x;
    for (const sn_node_rec *n; n = sn_node_get(lw->m, base), sn_lower_is_seen_through(lw, n); base = n->in[0])
        if (n->op == SN_OP_CAST) narrow = n->in[0];
    if (sn_node_get(lw->m, base)->op == SN_OP_PAD) return base;
    sn_notes seen = {.arena = lw->cx->scratch};
    if (uses_of(lw, product, k) < 2 || !lw->cx->target->is_gpu || !is_of_inputs(lw, narrow, &seen)) return narrow;
    while (sn_lower_is_same_elements(sn_node_get(lw->m, narrow))) narrow = sn_node_get(lw->m, narrow)->in[0];
    return narrow;
}
