/* ops_training.c: steps of optimizers (domain ai.onnx.preview.training): new values of tensors from their gradients and
 * from what the optimizer remembers of them. Formulas of a few elementwise operations, straight from the definitions.
 *
 *     Momentum(R, T, x1, x2, g1, g2, v1, v2)  ->  x1', x2', v1', v2'
 *
 * R is the rate, T the number of steps done before. The other operands stand by kind: all tensors, then all gradients,
 * and so on.
 */
#include "frontend/onnx/import.h"

#include <math.h>
#include <string.h>

/* One tensor's operands. */
typedef struct step {
    sn_onnx_call *c;
    uint32_t tensors, at; /* how many tensors, which one this is */
    sn_nd x, gradient;    /* with the gradient of norm_coefficient / 2 * |x|^2 added */
    sn_nd rate, count;    /* R and T in the dtype of x */
} step;

/* Operand `kind` of the tensor, and the result that takes its place. */
static sn_nd operand(const step *s, uint32_t kind) { return sn_onnx_in(s->c, 2 + kind * s->tensors + s->at); }
static void result(const step *s, uint32_t kind, sn_nd x) { sn_onnx_out(s->c, kind * s->tensors + s->at, x); }

static sn_nd scaled(sn_module *m, sn_nd x, double factor) { return sn_graph_with(m, SN_OP_MUL, x, factor); }

/* u * x + v * y */
static sn_nd blend(sn_module *m, double u, sn_nd x, double v, sn_nd y) {
    return sn_graph_add(m, scaled(m, x, u), scaled(m, y, v));
}

static step step_of(sn_onnx_call *c, uint32_t tensors, uint32_t at) {
    step s = {.c = c, .tensors = tensors, .at = at};
    sn_module *m = c->m;
    s.x = operand(&s, 0);
    sn_dtype t = sn_graph_type(m, s.x)->dtype;
    s.gradient = sn_graph_add(m, scaled(m, s.x, sn_onnx_attr_float(c, "norm_coefficient", 0)), operand(&s, 1));
    s.rate = sn_graph_cast(m, sn_onnx_in(c, 0), t);
    s.count = sn_graph_cast(m, sn_onnx_in(c, 1), t);
    return s;
}

/* The step of every tensor of a node that gives `kinds` operands for each. */
static sn_status all_steps(sn_onnx_call *c, uint32_t kinds, void (*one)(const step *s)) {
    uint32_t n = c->n_in < 2 ? 0 : c->n_in - 2;
    if (!n || n % kinds) return sn_onnx_fail(c, "%u operands are not %u for each tensor", n, kinds);
    for (uint32_t k = 0; k < n / kinds; k++) {
        step s = step_of(c, n / kinds, k);
        one(&s);
    }
    return c->m->env->status;
}

/* ---- Adagrad ---- */

static void adagrad(const step *s) {
    sn_module *m = s->c->m;
    double decay = sn_onnx_attr_float(s->c, "decay_factor", 0), epsilon = sn_onnx_attr_float(s->c, "epsilon", 1e-6);
    sn_nd rate = sn_graph_div(m, s->rate, sn_graph_with(m, SN_OP_ADD, scaled(m, s->count, decay), 1));
    sn_nd squares = sn_graph_add(m, operand(s, 2), sn_graph_mul(m, s->gradient, s->gradient));
    sn_nd size = sn_graph_with(m, SN_OP_ADD, sn_graph_unary(m, SN_OP_SQRT, squares), epsilon);
    result(s, 0, sn_graph_sub(m, s->x, sn_graph_div(m, sn_graph_mul(m, rate, s->gradient), size)));
    result(s, 1, squares);
}

sn_status sn_onnx_adagrad(sn_onnx_call *c) { return all_steps(c, 3, adagrad); }

/* ---- Adam ---- */

/* 1 - base^T = -expm1(T log base), which keeps its digits where base is close to 1. */
static sn_nd one_minus_power(const step *s, double base) {
    sn_module *m = s->c->m;
    return sn_graph_unary(m, SN_OP_NEG, sn_graph_unary(m, SN_OP_EXPM1, scaled(m, s->count, log(base))));
}

/* In the first step, T = 0, the rate as it is. */
static sn_nd adam_rate(const step *s, double alpha, double beta) {
    sn_module *m = s->c->m;
    sn_nd root = sn_graph_unary(m, SN_OP_SQRT, one_minus_power(s, beta));
    sn_nd later = sn_graph_div(m, sn_graph_mul(m, s->rate, root), one_minus_power(s, alpha));
    return sn_graph_where(m, sn_graph_with(m, SN_OP_GT, s->count, 0), later, s->rate);
}

static void adam(const step *s) {
    sn_onnx_call *c = s->c;
    sn_module *m = c->m;
    double alpha = sn_onnx_attr_float(c, "alpha", 0.9), beta = sn_onnx_attr_float(c, "beta", 0.999);
    double epsilon = sn_onnx_attr_float(c, "epsilon", 1e-6), shrink = sn_onnx_attr_float(c, "norm_coefficient_post", 0);
    sn_nd mean = blend(m, alpha, operand(s, 2), 1 - alpha, s->gradient);
    sn_nd squares = blend(m, beta, operand(s, 3), 1 - beta, sn_graph_mul(m, s->gradient, s->gradient));
    sn_nd size = sn_graph_with(m, SN_OP_ADD, sn_graph_unary(m, SN_OP_SQRT, squares), epsilon);
    sn_nd change = sn_graph_div(m, sn_graph_mul(m, adam_rate(s, alpha, beta), mean), size);
    result(s, 0, scaled(m, sn_graph_sub(m, s->x, change), 1 - shrink));
    result(s, 1, mean);
    result(s, 2, squares);
}

sn_status sn_onnx_adam(sn_onnx_call *c) { return all_steps(c, 4, adam); }

/* ---- Momentum ---- */

/* In the first step, T = 0, beta is 1. */
static void momentum(const step *s) {
    sn_onnx_call *c = s->c;
    sn_module *m = c->m;
    double alpha = sn_onnx_attr_float(c, "alpha", 0), beta = sn_onnx_attr_float(c, "beta", 1);
    bool nesterov = !strcmp(sn_onnx_attr_text(c, "mode", "standard"), "nesterov");
    sn_nd factor = sn_graph_where(m, sn_graph_with(m, SN_OP_GT, s->count, 0), sn_graph_number(m, s->x, beta),
                                  sn_graph_number(m, s->x, 1));
    sn_nd speed = sn_graph_add(m, scaled(m, operand(s, 2), alpha), sn_graph_mul(m, factor, s->gradient));
    sn_nd way = nesterov ? sn_graph_add(m, s->gradient, scaled(m, speed, alpha)) : speed;
    result(s, 0, sn_graph_sub(m, s->x, sn_graph_mul(m, s->rate, way)));
    result(s, 1, speed);
}

sn_status sn_onnx_momentum(sn_onnx_call *c) {
    const char *mode = sn_onnx_attr_text(c, "mode", "standard");
    if (strcmp(mode, "standard") && strcmp(mode, "nesterov"))
        return sn_onnx_fail(c, "mode is %s, not standard or nesterov", mode);
    return all_steps(c, 3, momentum);
}
