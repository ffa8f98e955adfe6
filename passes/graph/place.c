/* place.c: where the elements of a node lie in memory, when a kernel reads them. See place.h. Linear in the views
 * between a node and its memory. Relies on sizes being numbers.
 */
#include "passes/graph/place.h"

#include "passes/graph/rewrite.h"

bool sn_place_sizes(sn_place *out, const sn_module *m, const sn_type *t) {
    bool known = true;
    *out = (sn_place){.dtype = t->dtype, .rank = t->rank};
    for (uint32_t k = 0; k < t->rank; k++) known &= sn_ix_is_const(m, t->shape[k], &out->size[k]);
    return known;
}

/* Row-major, the rows one behind the other, or as an intermediate has them that a product reads. */
void sn_place_lay_out(sn_place *p, bool intermediate) {
    int64_t stride = 1;
    for (uint32_t k = p->rank; k-- > 0;) {
        p->stride[k] = stride;
        stride *= intermediate && k + 1 == p->rank ? sn_dtype_pitch(p->dtype, p->size[k]) : p->size[k];
    }
}

static bool is_row_major(const sn_place *p) {
    int64_t stride = 1;
    for (uint32_t k = p->rank; k-- > 0; stride *= p->size[k])
        if (p->size[k] != 1 && p->stride[k] != stride) return false;
    return true;
}

static bool lies_as_input(sn_place *out, const sn_module *m, const sn_graph_input *in) {
    bool known = in->contiguous || sn_ix_is_const(m, in->offset, &out->offset);
    if (in->contiguous) sn_place_lay_out(out, false);
    for (uint32_t k = 0; k < out->rank && !in->contiguous; k++)
        known &= sn_ix_is_const(m, in->stride[k], &out->stride[k]);
    return known;
}

/* Axes of size 1 come and go; the others stay in order. */
static void take_strides(sn_place *out, const sn_place *in) {
    uint32_t from = 0;
    for (uint32_t k = 0; k < out->rank; k++) {
        if (out->size[k] == 1) continue;
        while (in->size[from] == 1) from++;
        out->stride[k] = in->stride[from++];
    }
}

/* Is the memory of x the caller's or another view's? It lies as it does; an intermediate is stored as it is read. */
static bool lies_given(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    while (n->op == SN_OP_CAST) n = sn_node_get(m, n->in[0]);
    return n->op == SN_OP_INPUT || sn_ops[n->op].cls == SN_OPS_VIEW;
}

static bool lies_as_view(sn_place *out, const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    sn_place in;
    if (!sn_place_of(&in, m, n->in[0])) return false;
    out->dtype = in.dtype;
    out->offset = in.offset;
    switch ((int)n->op) {
    case SN_OP_PERMUTE:
        for (uint32_t k = 0; k < out->rank; k++) {
            int64_t axis = sn_node_attr(m, x, SN_ATTR_PERM)->ints.at[k];
            out->stride[k] = in.stride[axis < 0 ? axis + in.rank : axis];
        }
        return true;
    case SN_OP_EXPAND:
        for (uint32_t k = 0, new = out->rank - in.rank; k < in.rank; k++)
            out->stride[new + k] = in.size[k] == out->size[new + k] ? in.stride[k] : 0;
        return true;
    case SN_OP_SLICE: {
        int64_t axis = sn_node_int(m, x, SN_ATTR_AXIS, 0), start = sn_node_int(m, x, SN_ATTR_START, 0);
        axis += axis < 0 ? in.rank : 0;
        start += start < 0 ? in.size[axis] : 0;
        start = start < 0 ? 0 : start > in.size[axis] ? in.size[axis] : start;
        for (uint32_t k = 0; k < in.rank; k++) out->stride[k] = in.stride[k];
        out->offset += start * in.stride[axis];
        out->stride[axis] *= sn_node_int(m, x, SN_ATTR_STEP, 1);
        return true;
    }
    case SN_OP_SQUEEZE:
    case SN_OP_UNSQUEEZE: take_strides(out, &in); return true;
    case SN_OP_RESHAPE: /* an intermediate that is walked across its rows has them one behind the other */
        if (!is_row_major(&in) && lies_given(m, n->in[0])) return false;
        sn_place_lay_out(out, false);
        return true;
    default: return false;
    }
}

/* Is what a cast converts in memory as it was before? What is computed for the product is stored as it reads it. */
static bool is_cast_later(const sn_module *m, sn_nd cast) {
    const sn_node_rec *n = sn_node_get(m, cast);
    if (sn_dtype_widens(sn_type_of(m, n->in[0])->dtype, n->type.dtype)) return true;
    while (n->op == SN_OP_CAST || sn_ops[n->op].cls == SN_OPS_VIEW) n = sn_node_get(m, n->in[0]);
    sn_opclass cls = sn_ops[n->op].cls;
    return cls == SN_OPS_SOURCE || cls == SN_OPS_CONTRACT || cls == SN_OPS_REDUCE || cls == SN_OPS_SCAN;
}

/* Where x is found without a kernel of its own; false: at no constant strides. */
bool sn_place_of(sn_place *out, const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (!sn_place_sizes(out, m, &n->type)) return false;
    if (n->op == SN_OP_CAST && is_cast_later(m, x)) return sn_place_of(out, m, n->in[0]);
    if (n->op == SN_OP_INPUT) return lies_as_input(out, m, &m->graph.inputs.at[n->input]);
    if (sn_ops[n->op].cls == SN_OPS_VIEW) return lies_as_view(out, m, x);
    bool given = n->op == SN_OP_WEIGHT || n->op == SN_OP_CONSTANT;
    sn_place_lay_out(out, !given);
    return true;
}

/* Is one axis contiguous, `along` if that matters, and do rows along it begin at multiples of so many elements? */
bool sn_place_is_aligned(const sn_place *p, int along, int64_t unit) {
    bool contiguous = false;
    for (uint32_t k = 0; k < p->rank; k++) {
        if (p->size[k] == 1 || p->stride[k] == 0) continue;
        if (p->stride[k] < 0) return false;
        if (p->stride[k] == 1) contiguous |= along < 0 || k == (uint32_t)along;
        else if (p->stride[k] % unit) return false;
    }
    return contiguous && p->offset % unit == 0;
}
