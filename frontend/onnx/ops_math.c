/* ops_math.c: elementwise operators: those that are one operation of the graph, and formulas of a few.
 */
#include "frontend/onnx/import.h"

sn_status sn_onnx_unary(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    return sn_onnx_done(c, x.i ? sn_graph_unary(c->m, (sn_op)c->op->arg, x) : x);
}

/* Before opset 7 the second operand was aligned at an attribute `axis`, not at the end. */
static sn_nd aligned(sn_onnx_call *c, sn_nd x, sn_nd y) {
    uint32_t rank = sn_graph_type(c->m, x)->rank, own = sn_graph_type(c->m, y)->rank;
    if (c->opset >= 7 || !sn_onnx_attr_int(c, "broadcast", 0) || own == 0 || own > rank) return y;
    int64_t axis = sn_onnx_attr_int(c, "axis", (int64_t)rank - own);
    if (axis < 0) axis += rank;
    int64_t axes[SN_MAX_RANK];
    uint32_t n = 0;
    for (int64_t k = axis + own; k < rank; k++) axes[n++] = k - axis;
    return n ? sn_graph_unsqueeze(c->m, y, axes, n) : y;
}

sn_status sn_onnx_binary(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0), y = aligned(c, x, sn_onnx_in(c, 1));
    return sn_onnx_done(c, x.i && y.i ? sn_graph_binary(c->m, (sn_op)c->op->arg, x, y) : x);
}

sn_status sn_onnx_cast(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    sn_onnx_attr_ignore(c, "saturate"); /* of the 8-bit floats */
    sn_dtype to = sn_onnx_attr_dtype(c, "to", SN_F32);
    return sn_onnx_done(c, x.i ? sn_graph_cast(c->m, x, to) : x);
}

sn_status sn_onnx_where(sn_onnx_call *c) {
    return sn_onnx_done(c, sn_graph_where(c->m, sn_onnx_in(c, 0), sn_onnx_in(c, 1), sn_onnx_in(c, 2)));
}
