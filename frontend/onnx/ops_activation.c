/* ops_activation.c: activation functions. Each is a formula of a few elementwise operations, which end in one kernel:
 *
 *     y = Elu(x, alpha)     becomes     %0 = expm1 %x   %1 = mul %0, alpha   %2 = lt %x, 0   %y = where %2, %1, %x
 *
 * Halves are widened for the whole formula and rounded once.
 */
#include "frontend/onnx/import.h"

#include <string.h>

/* Operand 0 in the dtype that the formula is computed in. */
static sn_nd operand(sn_onnx_call *c) { return sn_graph_widen(c->m, sn_onnx_in(c, 0)); }

static sn_status finish(sn_onnx_call *c, sn_nd y) {
    return sn_onnx_done(c, sn_graph_cast(c->m, y, sn_graph_type(c->m, sn_onnx_in(c, 0))->dtype));
}

static sn_nd scaled(sn_module *m, sn_nd x, double factor) { return sn_graph_with(m, SN_OP_MUL, x, factor); }

/* `negative` where x < 0, else x. */
static sn_nd below_zero(sn_module *m, sn_nd x, sn_nd negative) {
    return sn_graph_where(m, sn_graph_with(m, SN_OP_LT, x, 0), negative, x);
}

/* ---- linear pieces ---- */

sn_status sn_onnx_leaky_relu(sn_onnx_call *c) {
    sn_nd x = operand(c);
    return finish(c, below_zero(c->m, x, scaled(c->m, x, sn_onnx_attr_float(c, "alpha", 0.01))));
}

/* Before opset 7 the slopes are those of the channels, axis 1. */
sn_status sn_onnx_prelu(sn_onnx_call *c) {
    sn_nd x = operand(c), slope = sn_graph_cast(c->m, sn_onnx_in(c, 1), sn_graph_type(c->m, x)->dtype);
    uint32_t rank = sn_graph_type(c->m, x)->rank;
    if (c->opset < 7 && rank > 1 && sn_graph_type(c->m, slope)->rank == 1) slope = sn_graph_align(c->m, slope, 1, rank);
    return finish(c, below_zero(c->m, x, sn_graph_mul(c->m, x, slope)));
}

sn_status sn_onnx_thresholded_relu(sn_onnx_call *c) {
    sn_nd x = operand(c), above = sn_graph_with(c->m, SN_OP_GT, x, sn_onnx_attr_float(c, "alpha", 1));
    return finish(c, sn_graph_where(c->m, above, x, sn_graph_number(c->m, x, 0)));
}

/* alpha * x + beta, limited to 0 .. 1 */
static sn_nd hard_sigmoid(sn_module *m, sn_nd x, double alpha, double beta) {
    sn_nd y = sn_graph_with(m, SN_OP_ADD, scaled(m, x, alpha), beta);
    return sn_graph_with(m, SN_OP_MINIMUM, sn_graph_with(m, SN_OP_MAXIMUM, y, 0), 1);
}

sn_status sn_onnx_hard_sigmoid(sn_onnx_call *c) {
    double alpha = sn_onnx_attr_float(c, "alpha", 0.2), beta = sn_onnx_attr_float(c, "beta", 0.5);
    return finish(c, hard_sigmoid(c->m, operand(c), alpha, beta));
}

sn_status sn_onnx_hard_swish(sn_onnx_call *c) {
    sn_nd x = operand(c);
    return finish(c, sn_graph_mul(c->m, x, hard_sigmoid(c->m, x, 1.0 / 6, 0.5)));
}

/* x moved towards 0 by bias outside of -lambd .. lambd, 0 inside. Integers too, with limits that need not be any. */
sn_status sn_onnx_shrink(sn_onnx_call *c) {
    double bias = sn_onnx_attr_float(c, "bias", 0), limit = sn_onnx_attr_float(c, "lambd", 0.5);
    sn_module *m = c->m;
    sn_nd x = operand(c);
    if (sn_is_integral(sn_graph_type(m, x)->dtype)) x = sn_graph_cast(m, x, SN_F64);
    sn_nd above = sn_graph_where(m, sn_graph_with(m, SN_OP_GT, x, limit), sn_graph_with(m, SN_OP_SUB, x, bias),
                                 sn_graph_number(m, x, 0));
    sn_nd below = sn_graph_with(m, SN_OP_LT, x, -limit);
    return finish(c, sn_graph_where(m, below, sn_graph_with(m, SN_OP_ADD, x, bias), above));
}

/* ---- exponentials ---- */

/* alpha * (e^x - 1) where x < 0 */
static sn_nd elu(sn_module *m, sn_nd x, double alpha) {
    return below_zero(m, x, scaled(m, sn_graph_unary(m, SN_OP_EXPM1, x), alpha));
}

sn_status sn_onnx_elu(sn_onnx_call *c) { return finish(c, elu(c->m, operand(c), sn_onnx_attr_float(c, "alpha", 1))); }

sn_status sn_onnx_selu(sn_onnx_call *c) {
    double alpha = sn_onnx_attr_float(c, "alpha", 1.67326319217681884765625);
    double gamma = sn_onnx_attr_float(c, "gamma", 1.05070102214813232421875);
    return finish(c, scaled(c->m, elu(c->m, operand(c), alpha), gamma));
}

/* max(0, x) + min(0, alpha * (e^(x / alpha) - 1)) */
sn_status sn_onnx_celu(sn_onnx_call *c) {
    double alpha = sn_onnx_attr_float(c, "alpha", 1);
    sn_module *m = c->m;
    sn_nd x = operand(c), e = sn_graph_unary(m, SN_OP_EXPM1, sn_graph_with(m, SN_OP_DIV, x, alpha));
    sn_nd low = sn_graph_with(m, SN_OP_MINIMUM, scaled(m, e, alpha), 0);
    return finish(c, sn_graph_add(m, sn_graph_with(m, SN_OP_MAXIMUM, x, 0), low));
}

/* log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), which does not overflow. */
static sn_nd softplus(sn_module *m, sn_nd x) {
    sn_nd e = sn_graph_unary(m, SN_OP_EXP, sn_graph_unary(m, SN_OP_NEG, sn_graph_unary(m, SN_OP_ABS, x)));
    return sn_graph_add(m, sn_graph_with(m, SN_OP_MAXIMUM, x, 0), sn_graph_unary(m, SN_OP_LOG1P, e));
}

sn_status sn_onnx_softplus(sn_onnx_call *c) { return finish(c, softplus(c->m, operand(c))); }

sn_status sn_onnx_mish(sn_onnx_call *c) {
    sn_nd x = operand(c);
    return finish(c, sn_graph_mul(c->m, x, sn_graph_unary(c->m, SN_OP_TANH, softplus(c->m, x))));
}

/* x * sigmoid(alpha * x); arg: onnxruntime's QuickGelu, of another alpha. */
sn_status sn_onnx_swish(sn_onnx_call *c) {
    double alpha = sn_onnx_attr_float(c, "alpha", c->op->arg ? 1.702 : 1);
    sn_nd x = operand(c);
    return finish(c, sn_graph_mul(c->m, x, sn_graph_unary(c->m, SN_OP_SIGMOID, scaled(c->m, x, alpha))));
}

sn_status sn_onnx_softsign(sn_onnx_call *c) {
    sn_nd x = operand(c), size = sn_graph_unary(c->m, SN_OP_ABS, x);
    return finish(c, sn_graph_div(c->m, x, sn_graph_with(c->m, SN_OP_ADD, size, 1)));
}

sn_status sn_onnx_gelu(sn_onnx_call *c) {
    const char *how = sn_onnx_attr_text(c, "approximate", "none");
    bool is_tanh = !strcmp(how, "tanh");
    if (!is_tanh && strcmp(how, "none")) return sn_onnx_fail(c, "approximate is %s, not none or tanh", how);
    return sn_onnx_done(c, sn_graph_unary(c->m, is_tanh ? SN_OP_GELU_TANH : SN_OP_GELU, sn_onnx_in(c, 0)));
}
