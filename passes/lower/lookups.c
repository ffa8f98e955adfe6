/* lookups.c: what reading through selects and gathers costs, and when what they read is computed once. Part of the pass `to-loops`, for a CPU.
 *
 *     %h = add %a, %b   %r = index_select %h, %low axis=0   %s = index_select %h, %high axis=0
 *
 * The elements that all selects of %h have together are set against those of %h (sn_lookups_pay): an operand that is read by lanes,
 * each of which has a place of its own, takes as long as many operations.
 */
#include "passes/base/lookups.h"
#include "passes/lower/lower.h"

/* x * x reads x once; parts of a concatenation are read at an element each, so that what they are made of is computed for each. */
bool sn_lower_is_named_before(const sn_lower *lw, const sn_node_rec *n, uint32_t k) {
    if (n->op == SN_OP_CONCAT && !lw->nodes[n->in[k].i].realized) return false;
    for (uint32_t i = 0; i < k; i++)
        if (sn_nd_eq(n->in[i], n->in[k])) return true;
    return false;
}

bool sn_lower_is_lookup(const sn_node_rec *n) { return n->op == SN_OP_INDEX_SELECT || n->op == SN_OP_GATHER; }

/* Has each lane a place of its own in what is looked up? */
static bool looks_up_by_lanes(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x), *table = sn_node_get(lw->m, n->in[0]);
    if (!table->type.rank) return false;
    return n->op == SN_OP_GATHER || sn_node_int(lw->m, x, SN_ATTR_AXIS, 0) == table->type.rank - 1;
}

bool sn_lower_lookups_pay(const sn_lower *lw, sn_nd x, double table) {
    const sn_lower_node *in = &lw->nodes[sn_node_get(lw->m, x)->in[0].i];
    sn_lookup_cost cost = {in->work, in->reads, in->lanes};
    return table > 0 && sn_lookups_pay(&cost, in->looked_up, table, looks_up_by_lanes(lw, x));
}

uint32_t sn_lower_count_lanes(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    uint32_t lanes = 0;
    for (uint32_t k = 0; k < n->n_in; k++) {
        const sn_lower_node *in = &lw->nodes[n->in[k].i];
        if (!in->realized && !sn_lower_is_named_before(lw, n, k)) lanes += in->lanes;
    }
    if (sn_lower_is_lookup(n) && looks_up_by_lanes(lw, x))
        lanes += lw->nodes[n->in[0].i].realized ? 1 : lw->nodes[n->in[0].i].reads;
    return lanes < SN_REALIZE_SATURATED ? lanes : SN_REALIZE_SATURATED;
}
