/* stored.c: where, and in which order of its axes, a nest stores what it makes: as the first copy wants it, or straight to an output. Part
 * of the pass `to-loops`.
 *
 *     %y = matmul .. ;  %t = permute %y perm=[1, 0] ;  %c = copy %t        %y is stored by columns, and %c is a view of it
 */
#include "passes/lower/lower.h"

#include <string.h>

/* What permutes and copies on x see: perm[k] is the axis of it that axis k of x is. */
static sn_nd permuted_base(int64_t *perm, const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    for (uint32_t k = 0; k < n->type.rank; k++) perm[k] = k;
    for (; n->op == SN_OP_PERMUTE || n->op == SN_OP_COPY; n = sn_node_get(lw->m, x)) {
        const sn_attr *by = sn_node_attr(lw->m, x, SN_ATTR_PERM);
        for (uint32_t k = 0; by && k < n->type.rank; k++) perm[k] = by->ints.at[perm[k]];
        x = n->in[0];
    }
    return x;
}

/* May x be stored in any order of its axes? Who has a buffer already has it in the one that it takes. */
static bool takes_order(const sn_lower *lw, sn_nd x) {
    const sn_lower_node *info = &lw->nodes[x.i];
    sn_opclass cls = sn_ops[sn_node_get(lw->m, x)->op].cls;
    bool nest = (cls == SN_OPS_REDUCE && info->realized) || cls == SN_OPS_CONTRACT;
    return nest && !info->buf.i && !info->order;
}

static void give_order(sn_lower *lw, sn_nd x, const int64_t *order) {
    uint32_t rank = sn_node_get(lw->m, x)->type.rank;
    int64_t *own = SN_NEWN(lw->cx->scratch, int64_t, rank + 1);
    memcpy(own, order, rank * sizeof *own);
    lw->nodes[x.i].order = own;
}

/* ---- copies ---- */

/* A GPU has tiles and bricks for what lies across the output that it is an element of: memory of its own saves nothing. */
static bool is_passed_on(const sn_lower *lw, sn_nd x) {
    return lw->cx->target->is_gpu && lw->nodes[x.i].users == 1 && !lw->nodes[x.i].kept;
}

/* The first copy of what a nest makes says in which order that is stored. */
void sn_lower_decide_copy(sn_lower *lw, sn_nd x) {
    int64_t perm[SN_MAX_RANK];
    sn_nd base = permuted_base(perm, lw, x);
    if (lw->nodes[x.i].buf.i || !takes_order(lw, base)) {
        lw->nodes[x.i].realized = lw->nodes[x.i].buf.i || !is_passed_on(lw, x);
        return;
    }
    give_order(lw, base, perm);
    lw->nodes[base.i].walked_flat |= lw->nodes[x.i].walked_flat;
}

/* ---- outputs ---- */

/* The node whose kernel can store straight into an output: looks through reshapes that keep the element order. */
static sn_nd output_base(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    while (n->op == SN_OP_RESHAPE || n->op == SN_OP_SQUEEZE || n->op == SN_OP_UNSQUEEZE) {
        x = n->in[0];
        n = sn_node_get(lw->m, x);
    }
    return x;
}

/* A convolution that nobody sees but through permutes, as the output k, is stored as that wants it. What it is seen
 * through has nobody left. */
static sn_nd permuted_conv(sn_lower *lw, sn_nd x) {
    int64_t perm[SN_MAX_RANK];
    sn_nd base = permuted_base(perm, lw, x);
    for (sn_nd at = x; !sn_nd_eq(at, base); at = sn_node_get(lw->m, at)->in[0])
        if (lw->nodes[at.i].users > 1) return x;
    if (sn_node_get(lw->m, base)->op != SN_OP_CONV || lw->nodes[base.i].users > 1 || !takes_order(lw, base)) return x;
    give_order(lw, base, perm);
    for (sn_nd at = x; !sn_nd_eq(at, base); at = sn_node_get(lw->m, at)->in[0]) lw->nodes[at.i].live = false;
    return base;
}

/* Others read the copy as it lies, not the output. */
static bool is_view_of_copy(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (sn_ops[n->op].cls != SN_OPS_VIEW || lw->nodes[x.i].users == 1) return false;
    while (sn_ops[n->op].cls == SN_OPS_VIEW) n = sn_node_get(lw->m, n->in[0]);
    return n->op == SN_OP_COPY;
}

/* A copy that an output shows with other sizes is that output, if no nest stores its result (conv, else x) so. */
static sn_nd stored_as_copied(const sn_lower *lw, sn_nd base, sn_nd stored) {
    bool own = sn_node_get(lw->m, base)->op == SN_OP_COPY && !lw->nodes[base.i].buf.i && lw->nodes[base.i].live;
    return own ? base : stored;
}

void sn_lower_claim_outputs(sn_lower *lw) {
    sn_graph_ir *g = &lw->m->graph;
    for (uint32_t k = 0; k < g->outputs.n; k++) {
        sn_nd x = g->outputs.at[k].node;
        sn_buf b = sn_lower_buffer(lw, g->outputs.at[k].name, &sn_node_get(lw->m, x)->type, SN_BUF_OUTPUT);
        sn_buf_get(lw->m, b)->io = k;
        lw->outputs[k].buf = b;
        sn_nd base = output_base(lw, x);
        if (is_view_of_copy(lw, base)) continue;
        if (!sn_lower_always_realized(lw, sn_node_get(lw->m, base)) || lw->nodes[base.i].buf.i)
            base = stored_as_copied(lw, base, permuted_conv(lw, x));
        sn_lower_node *info = &lw->nodes[base.i];
        if (!info->buf.i && sn_node_get(lw->m, base)->op != SN_OP_INPUT) {
            info->buf = b;
            info->realized = true;
            lw->outputs[k].claimed = true;
        }
    }
}
