/* ops_fused.c: operators of domain com.microsoft that onnxruntime's optimizer puts in the place of several of ONNX's: models that
 * it has saved have them. Each is those operators again, and the graph's own fusion decides.
 *
 *     y = BiasGelu(x, b)     becomes     %0 = add %x, %b   %y = gelu %0
 *
 * Normalisations with a sum in front are in ops_norm.c, attention is in ops_attention.c.
 */
#include "frontend/onnx/import.h"
#include "ir/module.h"

#include <string.h>

/* ---- activations ---- */

/* gelu of a sum, in f32 and rounded once; arg: the operation. */
sn_status sn_onnx_bias_gelu(sn_onnx_call *c) {
    sn_nd x = sn_graph_widen(c->m, sn_onnx_in(c, 0));
    if (sn_onnx_has(c, 1)) x = sn_graph_add(c->m, x, sn_graph_widen(c->m, sn_onnx_in(c, 1)));
    sn_nd y = sn_graph_unary(c->m, (sn_op)c->op->arg, x);
    return sn_onnx_done(c, sn_graph_cast(c->m, y, sn_graph_type(c->m, sn_onnx_in(c, 0))->dtype));
}

/* What an operator's attributes call its activation, and the parameters. */
typedef struct activation {
    const char *name;
    double parameters[2];
} activation;

static sn_nd limited(sn_module *m, sn_nd x, double low, double high) {
    return sn_graph_with(m, SN_OP_MINIMUM, sn_graph_with(m, SN_OP_MAXIMUM, x, low), high);
}

static sn_nd activated(sn_onnx_call *c, sn_nd x, const activation *a) {
    sn_module *m = c->m;
    double p = a->parameters[0], q = a->parameters[1];
    if (!a->name[0]) return x;
    if (!strcmp(a->name, "Relu")) return sn_graph_unary(m, SN_OP_RELU, x);
    if (!strcmp(a->name, "Tanh")) return sn_graph_unary(m, SN_OP_TANH, x);
    if (!strcmp(a->name, "Sigmoid")) return sn_graph_unary(m, SN_OP_SIGMOID, x);
    if (!strcmp(a->name, "Clip")) return limited(m, x, p, q);
    sn_nd line = sn_graph_with(m, SN_OP_MUL, x, p);
    if (!strcmp(a->name, "LeakyRelu")) return sn_graph_where(m, sn_graph_with(m, SN_OP_LT, x, 0), line, x);
    if (!strcmp(a->name, "HardSigmoid")) return limited(m, sn_graph_with(m, SN_OP_ADD, line, q), 0, 1);
    sn_onnx_fail(c, "activation %s", a->name);
    return (sn_nd){0};
}

/* ---- products and convolutions ---- */

/* x with its last two axes exchanged. */
static sn_nd turned(sn_module *m, sn_nd x) {
    uint32_t rank = sn_graph_type(m, x)->rank;
    return rank < 2 ? x : sn_graph_move_axis(m, x, rank - 2, rank - 1);
}

/* alpha A' B' as MatMul has it; ' exchanges the last two axes, transBatch the first one is moved behind the other batch axes. */
sn_status sn_onnx_fused_matmul(sn_onnx_call *c) {
    static const char *const turns[] = {"transA", "transB"}, *const batches[] = {"transBatchA", "transBatchB"};
    sn_module *m = c->m;
    sn_nd x[] = {sn_onnx_in(c, 0), sn_onnx_in(c, 1)};
    double alpha = sn_onnx_attr_float(c, "alpha", 1);
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t rank = sn_graph_type(m, x[k])->rank;
        bool turn = sn_onnx_attr_int(c, turns[k], 0);
        if (sn_onnx_attr_int(c, batches[k], 0) && rank > 2) x[k] = sn_graph_move_axis(m, x[k], 0, rank - 2);
        if (turn) x[k] = turned(m, x[k]);
    }
    sn_dtype t = sn_graph_type(m, x[0])->dtype;
    if (alpha == 1) return sn_onnx_done(c, sn_graph_matmul(m, x[0], x[1]));
    sn_nd y = sn_graph_matmul(m, sn_graph_widen(m, x[0]), sn_graph_widen(m, x[1]));
    return sn_onnx_done(c, sn_graph_cast(m, sn_graph_with(m, SN_OP_MUL, y, alpha), t));
}

sn_status sn_onnx_fused_gemm(sn_onnx_call *c) {
    sn_onnx_value y = {0};
    activation a = {.name = sn_onnx_attr_text(c, "activation", "")};
    a.parameters[0] = sn_onnx_attr_float(c, "activation_alpha", strcmp(a.name, "LeakyRelu") ? 0.2 : 0.01);
    a.parameters[1] = sn_onnx_attr_float(c, "activation_beta", 0.5);
    if (!strcmp(a.name, "Clip")) return sn_onnx_fail(c, "activation Clip");
    sn_onnx_attr_ignore(c, "activation_gamma");
    SN_TRY(sn_onnx_as(&y, c, "Gemm", 13, c->in, c->n_in));
    return sn_onnx_done(c, activated(c, y.node, &a));
}

/* Conv(x, w, b), plus operand 3, then the activation. */
sn_status sn_onnx_fused_conv(sn_onnx_call *c) {
    const float *parameters;
    uint32_t n;
    sn_onnx_value y = {0};
    activation a = {.name = sn_onnx_attr_text(c, "activation", "")};
    if (!sn_onnx_attr_floats(&parameters, &n, c, "activation_params")) n = 0;
    uint32_t wanted = !strcmp(a.name, "LeakyRelu")                                ? 1
                      : !strcmp(a.name, "Clip") || !strcmp(a.name, "HardSigmoid") ? 2
                                                                                  : 0;
    if (n < wanted) return sn_onnx_fail(c, "activation %s with %u parameters", a.name, n);
    for (uint32_t k = 0; k < wanted; k++) a.parameters[k] = (double)parameters[k];
    SN_TRY(sn_onnx_as(&y, c, "Conv", 11, c->in, c->n_in < 3 ? c->n_in : 3));
    if (sn_onnx_has(c, 3)) y.node = sn_graph_add(c->m, y.node, sn_onnx_in(c, 3));
    return sn_onnx_done(c, activated(c, y.node, &a));
}
