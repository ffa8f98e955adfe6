/* concat.c: concatenations, for the pass `to-loops`.
 *
 *     %c = concat %a, %b axis=0          c[i] = i in 8 ? a[i] : b[i - 8]          loop i in 10 { .. store c[i], .. }
 *
 * An element asks each part whether it is there, and is computed of all of them, behind masks: other passes and code generators decide what
 * of that can go. What is computed of many parts is long, and compilers take more than twice as long for twice as much of it. So a
 * concatenation that is realized is stored by several kernels, each for as many parts as are not too much. Relies on the operands being
 * decided: an operand that is realized is a load. Cost: linear in what is emitted.
 */
#include "passes/base/constants.h"
#include "passes/lower/lower.h"

#include <string.h>

/* Where a part begins. */
static sn_ix start_of(sn_lower *lw, sn_nd x, uint32_t part) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    int64_t axis = sn_node_int(lw->m, x, SN_ATTR_AXIS, 0);
    if (axis < 0) axis += n->type.rank;
    sn_ix start = sn_ix_const(lw->m, 0);
    for (uint32_t k = 0; k < part; k++) start = sn_ix_add(lw->m, start, sn_node_get(lw->m, n->in[k])->type.shape[axis]);
    return start;
}

/* An element of one of the parts first .. end - 1. */
static sn_val joined(sn_lower *lw, sn_nd x, uint32_t first, uint32_t end, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    int64_t axis = sn_node_int(lw->m, x, SN_ATTR_AXIS, 0);
    if (axis < 0) axis += n->type.rank;
    sn_ix at[SN_MAX_RANK], start = start_of(lw, x, first);
    memcpy(at, index, n->type.rank * sizeof *at);
    sn_val outside = lw->mask, result = {0};
    for (uint32_t k = first; k < end; k++) {
        sn_ix extent = sn_node_get(lw->m, n->in[k])->type.shape[axis];
        at[axis] = sn_ix_sub(lw->m, index[axis], start);
        start = sn_ix_add(lw->m, start, extent);
        sn_val here = {0}, mask = outside;
        sn_lower_guard(lw, &here, at[axis], extent);
        if (here.i) mask = outside.i ? sn_put_op2(lw->m, lw->at, SN_LOP_AND, outside, here) : here;
        lw->mask = mask;
        sn_val v = sn_lower_element(lw, n->in[k], at);
        lw->mask = outside;
        result = !result.i || !here.i ? v : sn_put_op3(lw->m, lw->at, SN_LOP_SELECT, here, v, result);
    }
    return result;
}

sn_val sn_lower_concat(sn_lower *lw, sn_nd x, const sn_ix *index) {
    return joined(lw, x, 0, sn_node_get(lw->m, x)->n_in, index);
}

/* The part behind those from `first` on that one kernel stores. */
static uint32_t end_of(const sn_lower *lw, const sn_node_rec *n, uint32_t first) {
    uint32_t end = first, size = 0;
    for (; end < n->n_in; end++) {
        const sn_lower_node *in = &lw->nodes[n->in[end].i];
        size += in->realized ? 1 : in->ops + in->reads;
        if (size > SN_REALIZE_JOINED && end > first) break;
    }
    return end;
}

bool sn_lower_concat_stored(sn_lower *lw, sn_nd x, sn_buf b) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    if (n->op != SN_OP_CONCAT || lw->nodes[x.i].buf.i) return false; /* in memory: it is copied */
    if (end_of(lw, n, 0) == n->n_in) return false;
    uint32_t axis = (uint32_t)sn_node_int(lw->m, x, SN_ATTR_AXIS, 0); /* canonical: not negative */
    sn_ix shape[SN_MAX_RANK];
    memcpy(shape, n->type.shape, n->type.rank * sizeof *shape);
    for (uint32_t first = 0, end; first < n->n_in; first = end) {
        end = end_of(lw, n, first);
        sn_lower_begin(lw);
        sn_ix index[SN_MAX_RANK] = {{0}}, start = start_of(lw, x, first);
        shape[axis] = sn_ix_sub(lw->m, start_of(lw, x, end), start);
        sn_lower_open_loops(lw, x, shape, index);
        index[axis] = sn_ix_add(lw->m, index[axis], start);
        sn_val v = joined(lw, x, first, end, index);
        sn_lower_note(lw, x, lw->first);
        v = sn_put_cast(lw->m, lw->at, n->type.dtype, v);
        sn_put_store(lw->m, lw->at, b, sn_lower_place(lw, x, b, index), v);
        sn_lower_end(lw, lw->note.s);
    }
    return true;
}
