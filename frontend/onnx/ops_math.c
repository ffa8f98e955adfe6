/* ops_math.c: elementwise operators: those that are one operation of the graph, and formulas of a few.
 */
#include "frontend/onnx/import.h"

#include <math.h>
#include <string.h>

sn_status sn_onnx_unary(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    return sn_onnx_done(c, x.i ? sn_graph_unary(c->m, (sn_op)c->op->arg, x) : x);
}

/* Before opset 7 the second operand was aligned at an attribute `axis`, not at the end. */
static sn_nd aligned(sn_onnx_call *c, sn_nd x, sn_nd y) {
    uint32_t rank = sn_graph_type(c->m, x)->rank, own = sn_graph_type(c->m, y)->rank, axis;
    if (c->opset >= 7 || !sn_onnx_attr_int(c, "broadcast", 0) || own == 0 || own > rank) return y;
    if (sn_onnx_axis(&axis, c, sn_onnx_attr_int(c, "axis", (int64_t)rank - own), rank) != SN_OK) return y;
    return sn_graph_align(c->m, y, axis, rank);
}

sn_status sn_onnx_binary(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0), y = aligned(c, x, sn_onnx_in(c, 1));
    return sn_onnx_done(c, x.i && y.i ? sn_graph_binary(c->m, (sn_op)c->op->arg, x, y) : x);
}

/* PyTorch's exporter of traces writes 15, its own number of bfloat16, where a number meets a tensor of that type. In ONNX it is
 * COMPLEX128, which nothing can be cast to, so that it can mean nothing else. */
enum { TORCH_BFLOAT16 = 15 };

sn_status sn_onnx_cast(sn_onnx_call *c) {
    int64_t to = sn_onnx_attr_int(c, "to", 0);
    if (to == TORCH_BFLOAT16) to = sn_onnx_dtype_number(SN_BF16);
    sn_dtype dtype;
    sn_onnx_attr_ignore(c, "saturate"); /* of the 8-bit floats */
    if (to == SN_ONNX_STRING || (c->n_in && c->in[0].kind == SN_ONNX_TEXT)) return sn_onnx_cast_text(c, to);
    SN_TRY(sn_onnx_dtype(&dtype, c->m->env, to));
    return sn_onnx_done(c, sn_graph_cast(c->m, sn_onnx_in(c, 0), dtype));
}

sn_status sn_onnx_where(sn_onnx_call *c) {
    return sn_onnx_done(c, sn_graph_where(c->m, sn_onnx_in(c, 0), sn_onnx_in(c, 1), sn_onnx_in(c, 2)));
}

sn_status sn_onnx_cast_like(sn_onnx_call *c) {
    sn_onnx_attr_ignore(c, "saturate");
    if (c->n_in > 1 && c->in[1].narrow) return sn_onnx_fail(c, "elements of 4 bits");
    bool to_text = c->n_in > 1 && c->in[1].kind == SN_ONNX_TEXT;
    if (to_text) return sn_onnx_cast_text(c, SN_ONNX_STRING);
    sn_dtype dtype = sn_graph_type(c->m, sn_onnx_in(c, 1))->dtype;
    if (c->in[0].kind == SN_ONNX_TEXT) return sn_onnx_cast_text(c, sn_onnx_dtype_number(dtype));
    return sn_onnx_done(c, sn_graph_cast(c->m, sn_onnx_in(c, 0), dtype));
}

/* ---- any number of operands ---- */

static sn_nd joined(sn_onnx_call *c, sn_op op) {
    sn_nd all = sn_onnx_in(c, 0);
    for (uint32_t k = 1; k < c->n_in; k++) all = sn_graph_binary(c->m, op, all, sn_onnx_in(c, k));
    return all;
}

sn_status sn_onnx_variadic(sn_onnx_call *c) { return sn_onnx_done(c, joined(c, (sn_op)c->op->arg)); }

sn_status sn_onnx_mean(sn_onnx_call *c) {
    sn_nd sum = sn_graph_widen(c->m, joined(c, SN_OP_ADD));
    sn_nd mean = sn_graph_with(c->m, SN_OP_DIV, sum, c->n_in ? c->n_in : 1);
    return sn_onnx_done(c, sn_graph_cast(c->m, mean, sn_graph_type(c->m, sn_onnx_in(c, 0))->dtype));
}

/* ---- bits, remainders, powers, limits ---- */

sn_status sn_onnx_bit_shift(sn_onnx_call *c) {
    const char *direction = sn_onnx_attr_text(c, "direction", "");
    bool left = !strcmp(direction, "LEFT");
    if (!left && strcmp(direction, "RIGHT")) return sn_onnx_fail(c, "direction is %s, not LEFT or RIGHT", direction);
    return sn_onnx_done(c, sn_graph_binary(c->m, left ? SN_OP_SHL : SN_OP_SHR, sn_onnx_in(c, 0), sn_onnx_in(c, 1)));
}

/* The remainder has the sign of the divisor, with fmod that of the dividend. */
sn_status sn_onnx_mod(sn_onnx_call *c) {
    sn_op op = sn_onnx_attr_int(c, "fmod", 0) ? SN_OP_FMOD : SN_OP_REM;
    return sn_onnx_done(c, sn_graph_binary(c->m, op, sn_onnx_in(c, 0), sn_onnx_in(c, 1)));
}

/* What x^y of different dtypes is computed in. The result has that of x. */
static sn_dtype power_dtype(sn_dtype x, sn_dtype y) {
    if (sn_is_integral(x)) return sn_is_integral(y) ? sn_promote(x, y) : SN_F64;
    return sn_dtype_bytes(x) < 4 ? SN_F32 : x;
}

/* Is x this one number? */
static bool is_number(sn_onnx_call *c, sn_nd x, double value) {
    const sn_array *a;
    int64_t n;
    if (!sn_ix_is_const(c->m, sn_type_numel(c->m, sn_graph_type(c->m, x)), &n) || n != 1) return false;
    return sn_onnx_try_array(&a, c, x) && (a->f ? a->f[0] : (double)a->i[0]) == value;
}

/* Cubes are two products: that is what the formula of gelu with tanh is exported with. */
sn_status sn_onnx_pow(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), y = aligned(c, x, sn_onnx_in(c, 1)), wide = sn_graph_widen(m, x);
    sn_dtype own = sn_graph_type(m, x)->dtype, other = sn_graph_type(m, y)->dtype;
    sn_dtype t = own == other ? own : power_dtype(own, other);
    if (sn_is_float(own) && sn_graph_type(m, y)->rank <= sn_graph_type(m, x)->rank && is_number(c, y, 3))
        return sn_onnx_done(c, sn_graph_cast(m, sn_graph_mul(m, sn_graph_mul(m, wide, wide), wide), own));
    sn_nd power = sn_graph_binary(m, SN_OP_POW, sn_graph_cast(m, x, t), sn_graph_cast(m, y, t));
    return sn_onnx_done(c, sn_graph_cast(m, power, own));
}

/* Limits are operands, and were attributes before opset 11. The upper one wins where they cross. */
sn_status sn_onnx_clip(sn_onnx_call *c) {
    static const char *const names[] = {"min", "max"};
    static const sn_op ops[] = {SN_OP_MAXIMUM, SN_OP_MINIMUM};
    sn_nd x = sn_onnx_in(c, 0);
    for (uint32_t k = 0; k < 2; k++) {
        if (sn_onnx_has_attr(c, names[k])) x = sn_graph_with(c->m, ops[k], x, sn_onnx_attr_float(c, names[k], 0));
        if (sn_onnx_has(c, k + 1)) x = sn_graph_binary(c->m, ops[k], x, sn_onnx_in(c, k + 1));
    }
    return sn_onnx_done(c, x);
}

sn_status sn_onnx_is_inf(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    bool above = sn_onnx_attr_int(c, "detect_positive", 1), below = sn_onnx_attr_int(c, "detect_negative", 1);
    const sn_type *t = sn_graph_type(c->m, x);
    if (above && below) return sn_onnx_done(c, sn_graph_unary(c->m, SN_OP_ISINF, x));
    if (above || below) return sn_onnx_done(c, sn_graph_with(c->m, SN_OP_EQ, x, above ? INFINITY : -INFINITY));
    return sn_onnx_done(c, sn_graph_full(c->m, SN_BOOL, 0, t->shape, t->rank));
}
