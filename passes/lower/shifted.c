/* shifted.c: what is read at several places is computed once, where that takes less than to compute it for each. Part of the pass `to-loops`, for a CPU.
 *
 *     %m = sqrt (%dx * %dx + %dy * %dy)   %l = slice (pad %m) ..   %r = slice (pad %m) ..   .. where %m >= %l and %m >= %r ..
 *
 * Neighbours of a pixel, shifted by views and pads, are other elements of %m: each is computed for itself in the kernel that reads them, nine
 * roots for a pixel. Against that stand a store of each element of %m, and loads. Only element by element operations are asked here; how
 * large an expression may be before it is stored anyway says realize.c.
 */
#include "passes/base/constants.h"
#include "passes/base/costs.h"
#include "passes/lower/lower.h"

static bool shifts(const sn_node_rec *n) { return n->op == SN_OP_PAD || sn_ops[n->op].cls == SN_OPS_VIEW; }

/* Places from which an element's neighbours are read: each path through views and pads, and its own place. */
void sn_lower_count_places(sn_lower *lw) {
    const sn_graph_ir *g = &lw->m->graph;
    bool *here = SN_NEWN(lw->cx->scratch, bool, g->nodes.count);
    for (uint32_t i = g->nodes.count; i-- > 1;) {
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        sn_lower_node *info = &lw->nodes[i];
        info->places += here[i];
        if (info->places > SN_REALIZE_SATURATED) info->places = SN_REALIZE_SATURATED;
        for (uint32_t k = 0; k < n->n_in && info->live; k++) {
            if (shifts(n)) lw->nodes[n->in[k].i].places += info->places;
            else here[n->in[k].i] = true;
        }
    }
}

/* Its operands being decided. */
void sn_lower_count_work(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    uint32_t work = n->op == SN_OP_RANDOM ? SN_REALIZE_OPS : sn_node_work(n);
    for (uint32_t k = 0; k < n->n_in; k++) {
        const sn_lower_node *in = &lw->nodes[n->in[k].i];
        if (!in->realized && !sn_lower_is_named_before(lw, n, k)) work += in->work;
    }
    lw->nodes[x.i].work = work < SN_REALIZE_SATURATED ? work : SN_REALIZE_SATURATED;
}

bool sn_lower_is_shifted_much(const sn_lower *lw, sn_nd x, int64_t bytes) {
    const sn_lower_node *info = &lw->nodes[x.i];
    const sn_target *t = lw->cx->target;
    if (t->is_gpu || info->constant || info->drawn || info->places < 2 ||
        !sn_node_is_elementwise(sn_node_get(lw->m, x)))
        return false;
    uint32_t store = bytes < (int64_t)(t->cache_bytes / SN_SHIFTED_CACHE) ? SN_SHIFTED_NEAR : SN_SHIFTED_FAR;
    uint32_t each = info->work + info->reads;
    return info->places * each > each + store + info->places;
}
