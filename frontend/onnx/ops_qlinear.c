/* ops_qlinear.c: operators of onnxruntime on quantised tensors (domain com.microsoft) that are an operator of ONNX
 * between a dequantisation and a quantisation; the name behind QLinear is that operator's:
 *
 *     y = QLinearAdd(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)
 *       = quantised(Add((a - a_zero) * a_scale, (b - b_zero) * b_scale))
 *
 * Concat and Where only move elements: each operand is quantised for the result first, so that they move bytes. Scales
 * and zero points are one number each, zero points may be left out. onnxruntime computes some of these from tables or
 * in another order of products, so that an element on the border between two integers may be its neighbour there.
 */
#include "frontend/onnx/quant.h"
#include "ir/module.h"

#include <string.h>

/* Results of the operator that the call's name names, of these operands; the attributes are the node's. */
static sn_nd plainly(sn_onnx_call *c, const sn_nd *x, uint32_t n, int64_t opset) {
    sn_onnx_value *in = SN_NEWN(c->arena, sn_onnx_value, n + 1), y = {0};
    for (uint32_t k = 0; k < n; k++) in[k] = sn_onnx_tensor(x[k]);
    if (sn_onnx_as(&y, c, c->op->name + strlen("QLinear"), opset, in, n) != SN_OK) return (sn_nd){0};
    return y.node;
}

/* The operands from number `first` on, three for each of n: elements, scale, zero point. */
static void read_real(sn_nd *x, sn_onnx_call *c, uint32_t first, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) x[k] = sn_onnx_real(c, first + 3 * k);
}

/* The result: its scale and zero point are the operands behind those of n tensors. */
static sn_status finish(sn_onnx_call *c, sn_nd y) {
    return sn_onnx_done(c, sn_onnx_quantised(c, y, 3 * (uint32_t)c->op->arg, 0));
}

sn_status sn_onnx_qlinear(sn_onnx_call *c) {
    uint32_t n = (uint32_t)c->op->arg;
    sn_nd x[2];
    read_real(x, c, 0, n);
    SN_TRY(c->m->env->status);
    return finish(c, plainly(c, x, n, sn_onnx_opset(c)));
}

/* channels_last: x[N, D1, .., C]. */
sn_status sn_onnx_qlinear_pool(sn_onnx_call *c) {
    sn_nd x = sn_onnx_real(c, 0);
    SN_TRY(c->m->env->status);
    uint32_t rank = sn_graph_type(c->m, x)->rank;
    bool last = sn_onnx_attr_int(c, "channels_last", 0) && rank > 2;
    if (last) x = sn_graph_move_axis(c->m, x, rank - 1, 1);
    sn_nd y = plainly(c, &x, 1, sn_onnx_opset(c));
    if (last) y = sn_graph_move_axis(c->m, y, 1, rank - 1);
    return finish(c, y);
}

/* Attribute opset says which Softmax is meant; without an axis it is the last one in all of them. */
sn_status sn_onnx_qlinear_softmax(sn_onnx_call *c) {
    int64_t opset = sn_onnx_attr_int(c, "opset", 13);
    sn_nd x = sn_onnx_real(c, 0);
    SN_TRY(c->m->env->status);
    return finish(c, plainly(c, &x, 1, sn_onnx_has_attr(c, "axis") ? opset : 13));
}

/* Operand x, of which scale and zero point follow, as an element of a result whose scale and zero point are operands
 * `scale` and the next one. What has those already is as it is. */
static sn_nd requantised(sn_onnx_call *c, uint32_t x, uint32_t scale) {
    bool zeros = sn_onnx_has(c, x + 2) && sn_onnx_has(c, scale + 1);
    bool same = zeros && sn_onnx_in(c, x + 1).i == sn_onnx_in(c, scale).i &&
                sn_onnx_in(c, x + 2).i == sn_onnx_in(c, scale + 1).i;
    return same ? sn_onnx_in(c, x) : sn_onnx_quantised(c, sn_onnx_real(c, x), scale, x);
}

/* Scale and zero point of the result, then three operands for each tensor. */
sn_status sn_onnx_qlinear_concat(sn_onnx_call *c) {
    uint32_t n = (c->n_in - 2) / 3;
    if (c->n_in < 5 || (c->n_in - 2) % 3)
        return sn_onnx_fail(c, "%u operands; scale, zero point, and three for each tensor are wanted", c->n_in);
    sn_nd *x = SN_NEWN(c->arena, sn_nd, n);
    for (uint32_t k = 0; k < n; k++) x[k] = requantised(c, 2 + 3 * k, 0);
    SN_TRY(c->m->env->status);
    return sn_onnx_done(c, plainly(c, x, n, sn_onnx_opset(c)));
}

sn_status sn_onnx_qlinear_where(sn_onnx_call *c) {
    sn_nd x[] = {sn_onnx_in(c, 0), requantised(c, 1, 7), requantised(c, 4, 7)};
    SN_TRY(c->m->env->status);
    return sn_onnx_done(c, plainly(c, x, SN_COUNT(x), sn_onnx_opset(c)));
}
