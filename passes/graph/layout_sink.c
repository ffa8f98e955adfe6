/* layout_sink.c: operations on twins: a permute of an operand becomes one of the result. Part of the pass `layout`.
 *
 *     %1 = permute %t perm=[0, 3, 1, 2]               %1 = add %t, %b'          (%b' : [1, 1, C], a permute of %b's axes)
 *     %y = add %1, %b  : [N, C, H, W]         ->      %y = permute %1 perm=[0, 3, 1, 2]
 *
 * Elementwise operations take every operand in the new order, which is a view for those that are broadcast; what
 * names axes (pads, windows, reductions, ...) names them by their new places. A reshape that leaves the first two
 * axes alone, batch and channels, is one of the others. Legality: the same elements, computed from the same ones;
 * sums over several axes in another order. Constant time.
 */
#include "ir/graph/build.h"
#include "passes/graph/layout.h"

#include <string.h>

/* [N, C, S..] to [N, C, S'..]. */
static bool reshapes_space(const sn_module *m, const sn_node_rec *n) {
    if (n->op != SN_OP_RESHAPE) return false;
    const sn_type *from = sn_type_of(m, n->in[0]), *to = &n->type;
    return from->rank > 2 && to->rank > 2 && sn_ix_eq(from->shape[0], to->shape[0]) &&
           sn_ix_eq(from->shape[1], to->shape[1]);
}

bool sn_layout_sinks(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (sn_node_is_elementwise(n) || reshapes_space(m, n)) return true;
    if (sn_ops[n->op].cls == SN_OPS_REDUCE) return n->op != SN_OP_ARGMAX && n->op != SN_OP_ARGMIN && n->n_results == 1;
    return n->op == SN_OP_SLICE || n->op == SN_OP_UNFOLD || n->op == SN_OP_FLIP || n->op == SN_OP_PAD ||
           n->op == SN_OP_CONCAT;
}

bool sn_layout_carries(const sn_module *m, sn_nd x, uint32_t k) {
    const sn_node_rec *n = sn_node_get(m, x);
    const sn_type *in = sn_type_of(m, n->in[k]);
    return in->rank > 2 && (!sn_node_is_elementwise(n) || sn_same_shape(in, &n->type));
}

/* ---- operands ---- */

/* What has fewer axes is broadcast along the first ones; a number has a dtype that gives way, and stays one. */
static sn_nd operand(sn_module *m, sn_nd x, const int64_t *perm, uint32_t rank) {
    uint32_t own = sn_type_of(m, x)->rank;
    int64_t axes[SN_MAX_RANK];
    if (!own) return x;
    for (uint32_t k = own; k < rank; k++) axes[k - own] = k - own;
    if (own < rank) x = sn_graph_unsqueeze(m, x, axes, rank - own);
    return sn_layout_permuted(m, x, perm);
}

/* ---- attributes ---- */

/* Attributes of x by the new places of its operand's axes: axis k of it is axis at[k] of the twin. */
typedef struct renamed {
    sn_attr at[SN_N_ATTRS];
    int64_t low[SN_MAX_RANK], high[SN_MAX_RANK], axes[SN_MAX_RANK];
    sn_ix shape[SN_MAX_RANK];
} renamed;

static void rename_by_axis(sn_attr *a, int64_t *own, const int64_t *perm) {
    for (uint32_t k = 0; k < a->ints.n; k++) own[k] = a->ints.at[perm[k]];
    a->ints.at = own;
}

static void rename_attrs(renamed *out, const sn_node_rec *n, const int64_t *at, const int64_t *perm) {
    for (uint32_t i = 0; i < n->n_attrs; i++) {
        sn_attr *a = &out->at[i];
        *a = n->attrs[i];
        if (a->id == SN_ATTR_AXIS) a->i = at[a->i];
        if (a->id == SN_ATTR_LOW) rename_by_axis(a, out->low, perm);
        if (a->id == SN_ATTR_HIGH) rename_by_axis(a, out->high, perm);
        if (a->id == SN_ATTR_SHAPE) { /* of a reshape: channels go last */
            for (uint32_t k = 0; k < a->shape.n; k++)
                out->shape[k] = a->shape.at[k == 0 ? 0 : k + 1 < a->shape.n ? k + 1 : 1];
            a->shape.at = out->shape;
        }
        if (a->id != SN_ATTR_AXES) continue;
        for (uint32_t k = 0; k < a->ints.n; k++) out->axes[k] = at[a->ints.at[k]];
        a->ints.at = out->axes;
    }
}

/* ---- results ---- */

/* The permute from the result of the twin to that of x. */
static void result_order(int64_t *out, const sn_module *m, sn_nd x, const int64_t *at, uint32_t in_rank) {
    const sn_node_rec *n = sn_node_get(m, x);
    uint32_t rank = n->type.rank;
    bool drops = sn_ops[n->op].cls == SN_OPS_REDUCE && rank < in_rank;
    uint32_t mask = drops ? sn_node_axes_mask(m, x) : 0, next = 0;
    if (n->op == SN_OP_RESHAPE) {
        sn_layout_back(out, rank);
        return;
    }
    for (uint32_t k = 0; k < in_rank; k++) {
        if (mask >> k & 1) continue;
        int64_t place = at[k];
        for (uint32_t other = 0; other < in_rank; other++) place -= (mask >> other & 1) && at[other] < at[k];
        out[next++] = place;
    }
    while (next < rank) out[next] = next, next++; /* windows */
}

sn_nd sn_layout_sunk(sn_pass_ctx *cx, sn_nd x, uint32_t k) {
    sn_module *m = cx->m;
    const sn_node_rec *n = sn_node_get(m, x);
    uint32_t rank = sn_type_of(m, n->in[k])->rank;
    int64_t perm[SN_MAX_RANK], order[SN_MAX_RANK], last[SN_MAX_RANK], back[SN_MAX_RANK];
    const sn_attr *by = sn_node_attr(m, n->in[k], SN_ATTR_PERM);
    sn_layout_back(back, rank);
    const int64_t *at = by ? by->ints.at : back;
    for (uint32_t i = 0; i < rank; i++) perm[at[i]] = i;
    sn_layout_last(last, rank);
    if (n->op == SN_OP_RESHAPE && !sn_layout_is(perm, last, rank)) return x;
    sn_nd *in = SN_NEWN(cx->scratch, sn_nd, n->n_in + 1);
    for (uint32_t i = 0; i < n->n_in; i++) {
        in[i] = operand(m, n->in[i], perm, rank);
        if (!in[i].i) return in[i];
    }
    renamed attrs;
    rename_attrs(&attrs, n, at, perm);
    result_order(order, m, x, at, rank);
    return sn_layout_permuted(m, sn_graph_node(m, n->op, in, n->n_in, attrs.at, n->n_attrs), order);
}
