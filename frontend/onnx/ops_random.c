/* ops_random.c: random numbers, and dropout.
 *
 *     y = RandomUniform(low, high, seed)     becomes     %0 = random seed, 0   %y = add (mul %0, high - low), low
 *
 * The numbers are those of the graph's generator: not those of another runtime with the same seed, and the same in
 * every run. A node without a seed has one of its own.
 */
#include "frontend/onnx/import.h"

#include <string.h>

static sn_nd number(sn_module *m, int64_t value) { return sn_graph_ints(m, SN_I64, &value, NULL, 0); }

/* The attribute `seed`, whose bits count where it is a float; else a number that no other node gets. */
static sn_nd seed_of(sn_onnx_call *c) {
    const sn_pb_attribute *a = sn_onnx_attr(c, "seed");
    uint32_t bits;
    if (!a) return number(c->m, c->m->graph.nodes.count);
    memcpy(&bits, &a->f, sizeof bits);
    return number(c->m, a->i ? a->i : (int64_t)bits);
}

/* Random numbers (uniform or normal) of the shape of t: f64 where t is, else f32. */
static sn_nd random_like(sn_onnx_call *c, sn_op op, const sn_type *t) {
    sn_nd in[] = {seed_of(c), number(c->m, 0)};
    sn_attr attrs[] = {{.id = SN_ATTR_DTYPE, .i = t->dtype == SN_F64 ? SN_F64 : SN_F32},
                       {.id = SN_ATTR_SHAPE, .shape = {t->shape, t->rank}}};
    return sn_graph_node(c->m, op, in, 2, attrs, 2);
}

/* The type of the result: the shape is an attribute, or that of the operand, whose dtype counts too. */
static sn_status result_type(sn_type *t, sn_onnx_call *c) {
    const int64_t *shape;
    uint32_t n;
    *t = (sn_type){.dtype = SN_F32};
    if (c->n_in) {
        *t = *sn_graph_type(c->m, sn_onnx_in(c, 0));
    } else if (sn_onnx_attr_ints(&shape, &n, c, "shape")) {
        if (n > SN_MAX_RANK) return sn_onnx_fail(c, "rank %u; at most %d axes", n, SN_MAX_RANK);
        for (uint32_t k = 0; k < n; k++) t->shape[t->rank++] = sn_ix_const(c->m, shape[k]);
    }
    t->dtype = sn_onnx_attr_dtype(c, "dtype", t->dtype);
    return c->m->env->status;
}

/* factor * x + offset of that dtype */
static sn_status finish(sn_onnx_call *c, sn_nd x, double factor, double offset, sn_dtype dtype) {
    sn_nd y = sn_graph_with(c->m, SN_OP_ADD, sn_graph_with(c->m, SN_OP_MUL, x, factor), offset);
    return sn_onnx_done(c, sn_graph_cast(c->m, y, dtype));
}

sn_status sn_onnx_random_uniform(sn_onnx_call *c) {
    sn_type t;
    double low = sn_onnx_attr_float(c, "low", 0), high = sn_onnx_attr_float(c, "high", 1);
    SN_TRY(result_type(&t, c));
    return finish(c, random_like(c, SN_OP_RANDOM, &t), high - low, low, t.dtype);
}

sn_status sn_onnx_random_normal(sn_onnx_call *c) {
    sn_type t;
    double mean = sn_onnx_attr_float(c, "mean", 0), scale = sn_onnx_attr_float(c, "scale", 1);
    SN_TRY(result_type(&t, c));
    return finish(c, random_like(c, SN_OP_RANDOM_NORMAL, &t), scale, mean, t.dtype);
}

/* 1 with the probability that the operand says. */
sn_status sn_onnx_bernoulli(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd p = sn_graph_widen(m, sn_onnx_in(c, 0));
    sn_type t;
    SN_TRY(result_type(&t, c));
    sn_nd one = sn_graph_binary(m, SN_OP_LT, random_like(c, SN_OP_RANDOM, sn_graph_type(m, p)), p);
    return sn_onnx_done(c, sn_graph_cast(m, one, t.dtype));
}

/* ---- dropout ---- */

/* An operand from opset 12 on, which has to be known. Before 7 an attribute says that it is not. */
static sn_status is_training(bool *out, sn_onnx_call *c) {
    const sn_array *mode;
    *out = c->opset < 7 && !sn_onnx_attr_int(c, "is_test", 0);
    if (c->opset < 12 || !sn_onnx_has(c, 2)) return c->m->env->status;
    SN_TRY(sn_onnx_array(&mode, c, sn_onnx_in(c, 2)));
    *out = mode->numel && mode->i && mode->i[0];
    return SN_OK;
}

/* Results: x / (1 - ratio) where a random number is at least ratio, else 0; and where that is. In inference x. */
sn_status sn_onnx_dropout(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), y = x;
    sn_type t = *sn_graph_type(m, x), wide = *sn_graph_type(m, sn_graph_widen(m, x));
    bool training;
    double ratio = sn_onnx_attr_float(c, "ratio", 0.5);
    sn_onnx_attr_ignore(c, "seed");
    SN_TRY(is_training(&training, c));
    sn_nd mask = sn_graph_full(m, SN_BOOL, 1, t.shape, t.rank);
    if (training) {
        sn_nd p =
            sn_onnx_has(c, 1) ? sn_graph_cast(m, sn_onnx_in(c, 1), wide.dtype) : sn_graph_scalar(m, wide.dtype, ratio);
        mask = sn_graph_binary(m, SN_OP_GE, random_like(c, SN_OP_RANDOM, &wide), p);
        sn_nd kept = sn_graph_div(m, sn_graph_widen(m, x), sn_graph_sub(m, sn_graph_scalar(m, wide.dtype, 1), p));
        y = sn_graph_where(m, mask, sn_graph_cast(m, kept, t.dtype), sn_graph_number(m, x, 0));
    }
    sn_onnx_out(c, 1, sn_graph_cast(m, mask, c->opset < 10 ? t.dtype : SN_BOOL));
    return sn_onnx_done(c, y);
}
