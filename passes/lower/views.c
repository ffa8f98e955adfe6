/* views.c: the index transforms of views, for the pass `to-loops`, and how far they may be composed.
 *
 *     %0 = permute %x perm=[1, 0]  : f32[36, 24]
 *     %1 = reshape %0 shape=[24, 36]                  y[i, j] = x[(36*i + j) mod 24, (36*i + j) div 24]
 *     return y = %1
 *
 * A view has no elements of its own: whoever reads it reads its operand at another index. Where views compose, index
 * expressions see to it: two transposes are none, a reshape and its inverse are none. Where they do not, each view reads
 * its index from the divisions of the one before, and a chain of them computes more and more for each element. So this
 * file keeps for each node that is not realized with which index it reads its *leaves*, the realized nodes and sources
 * under it, in terms of one axis for each of its own, and says when an operand had better be in memory. Elementwise
 * operations between the views change nothing.
 *
 * Cost: each view substitutes into the expressions of its operand, whose size is bounded: linear in the nodes.
 */
#include "passes/lower/lower.h"

#include <string.h>

/* Divisions, remainders, minima and maxima in one index. An element that is stored and loaded once more costs a GPU as
 * much time as some 60 instructions (8 bytes at the rate of a copy, 4 TB/s, against 132 * 128 lanes at 1.7 GHz), and a
 * division by a constant is three or four of them. */
enum { MAX_DIVISIONS = 16 };

/* ---- one view ---- */

static void slice_index(sn_module *m, sn_nd x, const sn_type *in, const sn_ix *index, sn_ix *at) {
    int64_t axis = sn_node_int(m, x, SN_ATTR_AXIS, 0), step = sn_node_int(m, x, SN_ATTR_STEP, 1);
    int64_t start = sn_node_int(m, x, SN_ATTR_START, 0), extent;
    if (axis < 0) axis += in->rank;
    memcpy(at, index, in->rank * sizeof *at);
    if (sn_ix_is_const(m, in->shape[axis], &extent)) {
        if (start < 0) start += extent;
        if (start < 0) start = 0;
        if (start > extent) start = extent;
    }
    at[axis] = sn_ix_addc(m, sn_ix_scale(m, index[axis], step), start);
}

static void unfold_index(sn_module *m, sn_nd x, const sn_type *in, const sn_ix *index, sn_ix *at) {
    int64_t axis = sn_node_int(m, x, SN_ATTR_AXIS, 0);
    const sn_attr *dilation = sn_node_attr(m, x, SN_ATTR_DILATION);
    sn_ix tap = sn_ix_scale(m, index[in->rank], dilation ? dilation->ints.at[0] : 1);
    memcpy(at, index, in->rank * sizeof *at);
    axis = axis < 0 ? axis + in->rank : axis;
    at[axis] = sn_ix_add(m, sn_ix_scale(m, index[axis], sn_node_int(m, x, SN_ATTR_STEP, 1)), tap);
}

/* Same row-major position. Axes at either end that both have are the same ones: nobody divides by their sizes, which says nothing of an
 * index that a mask keeps from memory, as beside an image (the pixel in front of a row is none of the row before). */
static void reshape_index(sn_module *m, const sn_type *out, const sn_type *in, const sn_ix *index, sn_ix *at) {
    uint32_t first = 0, to = out->rank, from = in->rank;
    for (; to && from && sn_ix_eq(out->shape[to - 1], in->shape[from - 1]); to--, from--) at[from - 1] = index[to - 1];
    for (; first < to && first < from && sn_ix_eq(out->shape[first], in->shape[first]); first++)
        at[first] = index[first];
    sn_ix flat = sn_ix_flatten(m, index + first, out->shape + first, to - first);
    sn_ix_unflatten(m, flat, in->shape + first, from - first, at + first);
}

void sn_lower_view_index(sn_lower *lw, sn_nd x, const sn_ix *index, sn_ix *at) {
    sn_module *m = lw->m;
    const sn_node_rec *n = sn_node_get(m, x);
    const sn_type *in = &sn_node_get(m, n->in[0])->type;
    switch (n->op) {
    case SN_OP_PERMUTE: {
        const sn_attr *perm = sn_node_attr(m, x, SN_ATTR_PERM);
        for (uint32_t k = 0; k < in->rank; k++) {
            int64_t axis = perm->ints.at[k];
            at[axis < 0 ? axis + in->rank : axis] = index[k];
        }
        return;
    }
    case SN_OP_EXPAND:
        for (uint32_t k = 0; k < in->rank; k++) {
            uint32_t to = n->type.rank - in->rank + k;
            at[k] = sn_ix_eq(in->shape[k], n->type.shape[to]) ? index[to] : sn_ix_const(m, 0);
        }
        return;
    case SN_OP_SLICE: slice_index(m, x, in, index, at); return;
    case SN_OP_UNFOLD: unfold_index(m, x, in, index, at); return;
    case SN_OP_FLIP: {
        uint32_t mask = sn_node_axes_mask(m, x);
        for (uint32_t k = 0; k < in->rank; k++)
            at[k] = mask >> k & 1 ? sn_ix_sub(m, sn_ix_addc(m, in->shape[k], -1), index[k]) : index[k];
        return;
    }
    default: reshape_index(m, &n->type, in, index, at); /* reshape, squeeze, unsqueeze */
    }
}

/* ---- what a node reads its operands with ---- */

/* The axes of a gather's operand that keep their place; the one that is looked up stands for itself. */
static void gather_index(sn_lower *lw, sn_nd x, uint32_t k, const sn_ix *index, const sn_axis *own, sn_ix *at) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    const sn_type *in = &sn_node_get(lw->m, n->in[0])->type, *by = &sn_node_get(lw->m, n->in[1])->type;
    int64_t axis = sn_node_int(lw->m, x, SN_ATTR_AXIS, 0);
    if (axis < 0) axis += in->rank;
    bool select = n->op == SN_OP_INDEX_SELECT;
    if (k == 1) {
        memcpy(at, select ? index + axis : index, by->rank * sizeof *at);
        return;
    }
    for (uint32_t a = 0; a < in->rank; a++) at[a] = index[select && a > axis ? a + by->rank - 1 : a];
    at[axis] = sn_ix_axis(lw->m, own[axis]);
}

/* Reduced axes stand for themselves. */
static void reduced_index(sn_lower *lw, sn_nd x, const sn_ix *index, const sn_axis *own, sn_ix *at) {
    uint32_t mask = sn_node_axes_mask(lw->m, x), rank = sn_node_get(lw->m, sn_node_get(lw->m, x)->in[0])->type.rank;
    bool keepdim = sn_node_int(lw->m, x, SN_ATTR_KEEPDIM, 0);
    for (uint32_t a = 0, kept = 0; a < rank; a++) {
        bool reduced = mask >> a & 1;
        at[a] = reduced ? sn_ix_axis(lw->m, own[a]) : index[kept];
        kept += !reduced || keepdim;
    }
}

/* Index of operand k of x at `index`, as the emitter of x will read it; `own` are axes like those of the operand. */
static void operand_index(sn_lower *lw, sn_nd x, uint32_t k, const sn_ix *index, const sn_axis *own, sn_ix *at) {
    sn_module *m = lw->m;
    const sn_node_rec *n = sn_node_get(m, x);
    const sn_type *in = &sn_node_get(m, n->in[k])->type;
    if (sn_ops[n->op].cls == SN_OPS_VIEW) {
        sn_lower_view_index(lw, x, index, at);
    } else if (n->op == SN_OP_GATHER || n->op == SN_OP_INDEX_SELECT) {
        gather_index(lw, x, k, index, own, at);
    } else if (n->op == SN_OP_PAD) {
        const sn_attr *low = sn_node_attr(m, x, SN_ATTR_LOW);
        for (uint32_t a = 0; a < in->rank; a++) at[a] = sn_ix_addc(m, index[a], -low->ints.at[a]);
    } else if (sn_ops[n->op].cls == SN_OPS_REDUCE) {
        reduced_index(lw, x, index, own, at);
    } else if (n->op == SN_OP_CONCAT) { /* a shift by the operands before it, which costs no division */
        memcpy(at, index, in->rank * sizeof *at);
    } else {
        sn_ix one = sn_ix_const(m, 1), zero = sn_ix_const(m, 0);
        for (uint32_t a = 0; a < in->rank; a++)
            at[a] = sn_ix_eq(in->shape[a], one) ? zero : index[n->type.rank - in->rank + a];
    }
}

/* ---- leaves ---- */

static bool note_divisions(const sn_module *m, sn_ix *seen, uint32_t *n, sn_ix e) {
    const sn_ix_rec *r = sn_ix_get(m, e);
    if (r->kind == SN_IX_SUM) {
        for (uint32_t k = 0; k < r->n_terms; k++)
            if (!note_divisions(m, seen, n, r->terms[k].atom)) return false;
        return true;
    }
    if (!r->a.i) return true;
    for (uint32_t k = 0; k < *n; k++)
        if (sn_ix_eq(seen[k], e)) return true;
    if (*n == MAX_DIVISIONS) return false;
    seen[(*n)++] = e;
    return note_divisions(m, seen, n, r->a) && note_divisions(m, seen, n, r->b);
}

static bool within_budget(const sn_module *m, const sn_lower_leaf *leaf) {
    sn_ix seen[MAX_DIVISIONS];
    uint32_t n = 0;
    for (uint32_t k = 0; k < leaf->rank; k++)
        if (!note_divisions(m, seen, &n, leaf->at[k])) return false;
    return true;
}

static void add_leaf(sn_lower *lw, sn_lower_node *info, const sn_lower_leaf *leaf) {
    for (uint32_t k = 0; k < info->leaves.n; k++) {
        const sn_lower_leaf *other = &info->leaves.at[k];
        if (other->rank == leaf->rank && memcmp(other->at, leaf->at, leaf->rank * sizeof *leaf->at) == 0) return;
    }
    SN_PUSH(lw->cx->scratch, &info->leaves, *leaf);
}

/* One axis for each of x's; those of an operand of the same shape will do. */
static const sn_axis *axes_of(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    const sn_type *t = &n->type;
    for (uint32_t k = 0; k < n->n_in; k++) {
        const sn_type *in = &sn_node_get(lw->m, n->in[k])->type;
        const sn_axis *axes = lw->nodes[n->in[k].i].axes;
        if (axes && in->rank == t->rank && memcmp(in->shape, t->shape, t->rank * sizeof *t->shape) == 0) return axes;
    }
    sn_axis *axes = SN_NEWN(lw->cx->scratch, sn_axis, t->rank + 1);
    for (uint32_t k = 0; k < t->rank; k++) axes[k] = sn_axis_new(lw->m, "v", t->shape[k]);
    return axes;
}

/* The leaves of operand k as x reads them; false when an index is over the budget. */
static bool add_leaves_of(sn_lower *lw, sn_nd x, uint32_t k) {
    sn_module *m = lw->m;
    sn_lower_node *info = &lw->nodes[x.i];
    sn_nd in = sn_node_get(m, x)->in[k];
    uint32_t rank = sn_node_get(m, x)->type.rank, in_rank = sn_node_get(m, in)->type.rank;
    sn_lower_node *from = &lw->nodes[in.i];
    if (!from->axes) from->axes = axes_of(lw, in);
    sn_ix index[SN_MAX_RANK];
    sn_lower_leaf whole = {.rank = in_rank};
    for (uint32_t a = 0; a < rank; a++) index[a] = sn_ix_axis(m, info->axes[a]);
    operand_index(lw, x, k, index, from->axes, whole.at);
    if (from->realized || from->leaves.n == 0) {
        add_leaf(lw, info, &whole);
        return true;
    }
    for (uint32_t l = 0; l < from->leaves.n; l++) {
        sn_lower_leaf leaf = {.rank = from->leaves.at[l].rank};
        for (uint32_t a = 0; a < leaf.rank; a++)
            leaf.at[a] = sn_ix_subst(m, from->leaves.at[l].at[a], from->axes, whole.at, in_rank);
        if (!within_budget(m, &leaf)) return false;
        add_leaf(lw, info, &leaf);
    }
    return true;
}

void sn_lower_note_leaves(sn_lower *lw, sn_nd x) {
    sn_lower_node *info = &lw->nodes[x.i];
    const sn_node_rec *n = sn_node_get(lw->m, x);
    bool is_view = sn_ops[n->op].cls == SN_OPS_VIEW, inlined = false;
    for (uint32_t k = 0; k < n->n_in; k++) inlined |= lw->nodes[n->in[k].i].leaves.n && !lw->nodes[n->in[k].i].realized;
    if (!is_view && !inlined) return; /* read as x itself is */
    info->axes = axes_of(lw, x);
    for (uint32_t k = 0; k < n->n_in; k++) {
        if (add_leaves_of(lw, x, k)) continue;
        lw->nodes[n->in[k].i].realized = true;
        add_leaves_of(lw, x, k);
    }
}
