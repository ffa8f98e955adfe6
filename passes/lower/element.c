/* element.c: the value of one element of a node: what loads or computes it. Part of the pass `to-loops`.
 *
 *     element [i, j] of add(transpose(x), y)   ->   %0 = load x[4*j + i]  %1 = load y[8*i + j]  %2 = add %0, %1
 *
 * What has a buffer is loaded; anything else is computed here from elements of its operands, through views, which only
 * change the index (views.c). Inside a pad or concat loads happen only where the position is inside the operand
 * (lw->mask). An element that the kernel has at the same index and mask already is taken from a table. Nodes that take
 * a nest (reductions, scans, contractions, sorts) are realized, so that they are loaded here; but for the first
 * product of an attention, and reductions of pairs (reduce.c).
 */
#include "passes/lower/lower.h"

#include <string.h>

/* ---- what the kernel has already ---- */

static uint64_t memo_hash(const sn_lower *lw, sn_nd x, const sn_ix *index, uint32_t rank) {
    uint64_t h = sn_hash(x.i, lw->mask.i);
    for (uint32_t k = 0; k < rank; k++) h = sn_hash(h, index[k].i);
    return h;
}

static sn_lower_memo_entry *memo_slot(sn_lower *lw, sn_nd x, const sn_ix *index, uint32_t rank) {
    uint32_t i = (uint32_t)memo_hash(lw, x, index, rank) & (lw->memo_cap - 1);
    for (;; i = (i + 1) & (lw->memo_cap - 1)) {
        sn_lower_memo_entry *e = &lw->memo[i];
        if (!e->node.i) return e;
        if (sn_nd_eq(e->node, x) && sn_val_eq(e->mask, lw->mask) && memcmp(e->index, index, rank * sizeof *index) == 0)
            return e;
    }
}

static void memo_put(sn_lower *lw, sn_nd x, const sn_ix *index, uint32_t rank, sn_val v) {
    if (2 * (lw->memo_n + 1) > lw->memo_cap) {
        sn_lower_memo_entry *old = lw->memo;
        uint32_t old_cap = lw->memo_cap;
        sn_val mask = lw->mask;
        lw->memo_cap = old_cap ? old_cap * 2 : 64;
        lw->memo = SN_NEWN(lw->cx->scratch, sn_lower_memo_entry, lw->memo_cap);
        for (uint32_t i = 0; i < old_cap; i++) {
            if (!old[i].node.i) continue;
            lw->mask = old[i].mask;
            *memo_slot(lw, old[i].node, old[i].index, sn_node_get(lw->m, old[i].node)->type.rank) = old[i];
        }
        lw->mask = mask;
    }
    sn_lower_memo_entry *e = memo_slot(lw, x, index, rank);
    e->node = x, e->mask = lw->mask, e->val = v;
    memcpy(e->index, index, rank * sizeof *index);
    lw->memo_n++;
}

/* ---- elements ---- */

static sn_val load_element(sn_lower *lw, sn_nd x, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    sn_buf b = lw->nodes[x.i].buf;
    sn_ix e;
    if (n->op == SN_OP_INPUT) {
        const sn_graph_input *in = &lw->m->graph.inputs.at[n->input];
        e = in->offset;
        for (uint32_t k = 0; k < n->type.rank; k++) e = sn_ix_add(lw->m, e, sn_ix_mul(lw->m, index[k], in->stride[k]));
    } else {
        e = sn_lower_place(lw, x, b, index);
    }
    sn_val v;
    if (lw->mask.i) {
        sn_val zero = sn_put_const(lw->m, lw->at, n->type.dtype, 0);
        v = sn_put_load_masked(lw->m, lw->at, b, e, lw->mask, zero);
    } else {
        v = sn_put_load(lw->m, lw->at, b, e);
    }
    return sn_put_cast(lw->m, lw->at, sn_compute_dtype(n->type.dtype), v);
}

sn_val sn_lower_broadcast(sn_lower *lw, sn_nd in, const sn_ix *index, uint32_t rank) {
    const sn_type *t = &sn_node_get(lw->m, in)->type;
    sn_ix at[SN_MAX_RANK], one = sn_ix_const(lw->m, 1), zero = sn_ix_const(lw->m, 0);
    for (uint32_t k = 0; k < t->rank; k++) at[k] = sn_ix_eq(t->shape[k], one) ? zero : index[rank - t->rank + k];
    return sn_lower_element(lw, in, at);
}

/* Halves are computed in f32, but a number among them is one of theirs: 0.1 equals what a tensor holds for it. */
static sn_val constant(sn_lower *lw, sn_dtype dtype, double value) {
    return sn_put_const(lw->m, lw->at, sn_compute_dtype(dtype), sn_is_float(dtype) ? sn_round_to(dtype, value) : value);
}

static sn_val element_pad(sn_lower *lw, sn_nd x, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    const sn_type *in = &sn_node_get(lw->m, n->in[0])->type;
    const sn_attr *low = sn_node_attr(lw->m, x, SN_ATTR_LOW);
    sn_ix at[SN_MAX_RANK];
    sn_val mask = lw->mask, outside = lw->mask;
    for (uint32_t k = 0; k < in->rank; k++) {
        at[k] = sn_ix_addc(lw->m, index[k], -low->ints.at[k]);
        sn_lower_guard(lw, &mask, at[k], in->shape[k]);
    }
    if (sn_val_eq(mask, outside)) return sn_lower_element(lw, n->in[0], at);
    lw->mask = mask;
    sn_val v = sn_lower_element(lw, n->in[0], at);
    lw->mask = outside;
    sn_val fill = constant(lw, n->type.dtype, sn_node_float(lw->m, x, SN_ATTR_VALUE, 0));
    return sn_put_op3(lw->m, lw->at, SN_LOP_SELECT, mask, v, fill);
}

sn_ix sn_lower_from_end(sn_lower *lw, sn_val v, sn_ix extent) {
    sn_module *m = lw->m;
    if (sn_val_get(m, v)->dtype == SN_U64) /* else the largest would become negative */
        v = sn_put_op2(m, lw->at, SN_LOP_MIN, v, sn_put_const_int(m, lw->at, SN_U64, INT64_MAX));
    v = sn_put_cast(m, lw->at, SN_I64, v);
    sn_val zero = sn_put_const_int(m, lw->at, SN_I64, 0), n = sn_put_index(m, lw->at, SN_I64, extent);
    sn_val negative = sn_put_op2(m, lw->at, SN_LOP_LT, v, zero);
    sn_val wrapped = sn_put_op2(m, lw->at, SN_LOP_ADD, v, n);
    return sn_ix_val(m, sn_put_op3(m, lw->at, SN_LOP_SELECT, negative, wrapped, v));
}

sn_ix sn_lower_clamped(sn_lower *lw, sn_ix e, sn_ix extent) {
    return sn_ix_max(lw->m, sn_ix_const(lw->m, 0), sn_ix_min(lw->m, e, sn_ix_addc(lw->m, extent, -1)));
}

static sn_ix position(sn_lower *lw, sn_val v, sn_ix extent) {
    return sn_lower_clamped(lw, sn_lower_from_end(lw, v, extent), extent);
}

/* Where an element of x, positions in an axis, says. Those that are known to be there need no tests, and are narrow. */
static sn_ix looked_up(sn_lower *lw, sn_nd x, const sn_ix *index, sn_ix extent) {
    sn_val v = sn_lower_element(lw, x, index);
    if (!sn_lower_is_inside(lw, x, extent)) return position(lw, v, extent);
    return sn_lower_clamped(lw, sn_ix_val(lw->m, sn_put_cast(lw->m, lw->at, SN_I32, v)), extent);
}

static sn_val element_gather(sn_lower *lw, sn_nd x, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    const sn_type *in = &sn_node_get(lw->m, n->in[0])->type, *by = &sn_node_get(lw->m, n->in[1])->type;
    int64_t axis = sn_node_int(lw->m, x, SN_ATTR_AXIS, 0);
    if (axis < 0) axis += in->rank;
    sn_ix at[SN_MAX_RANK];
    if (n->op == SN_OP_GATHER) {
        memcpy(at, index, in->rank * sizeof *at);
        at[axis] = looked_up(lw, n->in[1], index, in->shape[axis]);
    } else {
        for (uint32_t k = 0; k < in->rank; k++) {
            if (k < axis) at[k] = index[k];
            else if (k > axis) at[k] = index[k + by->rank - 1];
        }
        at[axis] = looked_up(lw, n->in[1], index + axis, in->shape[axis]);
    }
    return sn_lower_element(lw, n->in[0], at);
}

/* A tanh among scores is no less exact than its dtype makes it where that is bf16: a fifth of its rounding. */
static sn_lop lop_of(const sn_lower *lw, const sn_node_rec *n) {
    if (lw->scores && n->op == SN_OP_TANH && n->type.dtype == SN_BF16) return SN_LOP_TANH_SHORT;
    return (sn_lop)sn_ops[n->op].lop;
}

static sn_val element_elementwise(sn_lower *lw, sn_nd x, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    sn_val in[3];
    for (uint32_t k = 0; k < n->n_in; k++) in[k] = sn_lower_broadcast(lw, n->in[k], index, n->type.rank);
    return sn_put_op(lw->m, lw->at, lop_of(lw, n), in, n->n_in);
}

static sn_val element_cast(sn_lower *lw, sn_nd x, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    sn_val v = sn_lower_element(lw, n->in[0], index);
    v = sn_put_cast(lw->m, lw->at, n->type.dtype, v);
    return sn_put_cast(lw->m, lw->at, sn_compute_dtype(n->type.dtype), v);
}

static sn_val element_sizes(sn_lower *lw, sn_nd x, sn_ix index) {
    const sn_attr *elements = sn_node_attr(lw->m, x, SN_ATTR_ELEMENTS);
    sn_val v = {0};
    for (uint32_t k = elements->shape.n; k-- > 0;) {
        sn_val element = sn_put_index(lw->m, lw->at, SN_I64, elements->shape.at[k]);
        sn_ix from_k = sn_ix_addc(lw->m, index, -(int64_t)k);
        v = v.i ? sn_put_op3(lw->m, lw->at, SN_LOP_SELECT, sn_put_in(lw->m, lw->at, from_k, sn_ix_const(lw->m, 1)),
                             element, v)
                : element;
    }
    return v;
}

/* The first product of an attention, or a reduction, in the nest of another. What is computed inside it is not there
 * behind it. */
static sn_val element_nest(sn_lower *lw, sn_nd x, const sn_ix *index) {
    sn_lower outside = *lw;
    sn_val v;
    lw->memo = NULL, lw->memo_n = lw->memo_cap = 0;
    if (sn_node_get(lw->m, x)->op == SN_OP_MATMUL) v = sn_lower_matmul(lw, x, index);
    else sn_lower_reduction(lw, &v, x, index);
    lw->memo = outside.memo, lw->memo_n = outside.memo_n, lw->memo_cap = outside.memo_cap;
    return v;
}

static sn_val element_random(sn_lower *lw, sn_nd x, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    sn_val seed = sn_lower_element(lw, n->in[0], index), offset = sn_lower_element(lw, n->in[1], index);
    return sn_lower_random(lw, &n->type, index, seed, offset);
}

static sn_val element_of(sn_lower *lw, sn_nd x, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    sn_ix at[SN_MAX_RANK];
    if (lw->nodes[x.i].statistic && lw->nodes[x.i].of_rows) return sn_lower_statistic(lw, x);
    if (lw->nodes[x.i].instead.i) return sn_lower_broadcast(lw, lw->nodes[x.i].instead, index, n->type.rank);
    switch (n->op) {
    case SN_OP_MATMUL: return element_nest(lw, x, index);
    case SN_OP_FULL: return constant(lw, n->type.dtype, sn_node_float(lw->m, x, SN_ATTR_VALUE, 0));
    case SN_OP_IOTA: {
        int64_t axis = sn_node_int(lw->m, x, SN_ATTR_AXIS, 0);
        sn_val v = sn_put_index(lw->m, lw->at, SN_I64, index[axis < 0 ? axis + n->type.rank : axis]);
        v = sn_put_cast(lw->m, lw->at, n->type.dtype, v);
        return sn_put_cast(lw->m, lw->at, sn_compute_dtype(n->type.dtype), v);
    }
    case SN_OP_SIZES: return element_sizes(lw, x, index[0]);
    case SN_OP_CAST: return element_cast(lw, x, index);
    case SN_OP_RANDOM: return element_random(lw, x, index);
    case SN_OP_COPY: return sn_lower_element(lw, n->in[0], index);
    case SN_OP_PAD: return element_pad(lw, x, index);
    case SN_OP_CONCAT: return sn_lower_concat(lw, x, index);
    case SN_OP_GATHER:
    case SN_OP_INDEX_SELECT: return element_gather(lw, x, index);
    default:
        if (sn_ops[n->op].cls == SN_OPS_REDUCE)
            return lw->nodes[x.i].written ? sn_lower_written(lw, x, index) : element_nest(lw, x, index);
        if (sn_ops[n->op].cls != SN_OPS_VIEW) return element_elementwise(lw, x, index);
        sn_lower_view_index(lw, x, index, at);
        return sn_lower_element(lw, n->in[0], at);
    }
}

sn_val sn_lower_element(sn_lower *lw, sn_nd x, const sn_ix *index) {
    uint32_t rank = sn_node_get(lw->m, x)->type.rank;
    if (lw->memo_cap) {
        sn_lower_memo_entry *e = memo_slot(lw, x, index, rank);
        if (e->node.i) return e->val;
    }
    sn_val v;
    uint32_t first = lw->m->stmts.count;
    if (lw->nodes[x.i].buf.i) {
        v = load_element(lw, x, index);
    } else {
        v = element_of(lw, x, index);
        const sn_node_rec *n = sn_node_get(lw->m, x);
        if (!sn_lower_is_view_or_source(n) && n->op != SN_OP_CAST && n->op != SN_OP_COPY) sn_lower_note(lw, x, first);
    }
    memo_put(lw, x, index, rank, v);
    return v;
}
