/* quantised.c: the pass `quantised`: on a CPU, what networks of quantised tensors compute in floats only because that is how they
 * are written down is computed in integers, and in as few bits as give the same.
 *
 *     %a = mul (cast.f32 (sub (cast.i32 %x), 3)), 0.02     (%x: u8)       %s = conv (sub (cast.i32 %x), 3), (cast.i32 %w)
 *     %b = mul (cast.f32 %w), 0.005                         (%w: i8)  ->   %y = mul (cast.f32 %s), 0.0001
 *     %y = conv %a, %b
 *
 *     cast.f32 (div (cast.f64 %x), (cast.f64 %y))                     ->   div %x, %y                      (%x, %y: f32)
 *
 * Products and convolutions: both factors are integers by a scale that is the same along the sum, one of them is a constant, and
 * no sum leaves i32. Sums are exact then, where those of floats are rounded; bytes come from memory instead of floats, and
 * several products go at once (passes/schedule/products/contract_words.h). Legality: in real numbers; what is rounded is each scale's
 * product with the sum alone. Scales are constants; a literal that is no finite number is left where it stands, what weights
 * hold is not known here. Nothing is done to a product that carries a schedule. A quotient (or product) of two f32 that is rounded to
 * f64 first is the same number: f64 has more than twice its bits, and the division of a CPU is rounded correctly.
 * Cost: linear in the nodes and in the elements of literal scales; a factor is looked at through a few nodes.
 */
#include <math.h>
#include <stdlib.h>

#include "ir/graph/build.h"
#include "passes/graph/rewrite.h"

/* Integers by a scale; scale none: they are what they are. */
typedef struct factor {
    sn_nd q; /* i32 */
    sn_nd scale;
    int64_t most;  /* magnitude of q */
    bool constant; /* q is */
} factor;

static bool has_data(const sn_node_rec *n) {
    return n->op == SN_OP_CONSTANT || n->op == SN_OP_WEIGHT || n->op == SN_OP_FULL;
}

static int64_t numel(const sn_module *m, sn_nd x) {
    int64_t n;
    return sn_type_static(m, sn_type_of(m, x), &n) ? n : 0;
}

/* ---- scales ---- */

/* Are they constants, of which all that are known are finite? */
static bool is_scale(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    double value;
    while (sn_ops[n->op].cls == SN_OPS_VIEW) n = sn_node_get(m, x = n->in[0]);
    if (n->type.dtype != SN_F32 || !has_data(n)) return false;
    if (sn_is_uniform(m, x, &value)) return isfinite(value);
    if (n->op != SN_OP_CONSTANT) return true;
    const sn_attr *values = sn_node_attr(m, x, SN_ATTR_VALUES);
    for (uint64_t i = 0; i < values->numbers.n; i++)
        if (!isfinite(values->numbers.f[i])) return false;
    return true;
}

/* x * scale */
static sn_nd scaled(sn_module *m, sn_nd x, sn_nd scale) { return scale.i ? sn_graph_mul(m, x, scale) : x; }

/* Scales of both factors that are one number each, and whose product is a normal one: that; none: they are not. */
static sn_nd joint_scale(sn_module *m, sn_nd a, sn_nd b) {
    double x, y;
    if (!a.i || !b.i || sn_type_of(m, a)->rank || sn_type_of(m, b)->rank) return (sn_nd){0};
    if (!sn_is_uniform(m, a, &x) || !sn_is_uniform(m, b, &y) || !isnormal((float)(x * y))) return (sn_nd){0};
    return sn_graph_number(m, a, x * y);
}

/* ---- factors ---- */

/* Integers of at most 16 bits, or such less a number. */
static bool find_integers(factor *out, sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    double zero = 0;
    bool less = n->op == SN_OP_SUB, more = n->op == SN_OP_ADD;
    uint32_t k = more && sn_is_uniform(m, n->in[0], &zero); /* the number on the left */
    if ((less || more) && n->type.dtype == SN_I32 && sn_is_uniform(m, n->in[1 - k], &zero)) {
        if (fabs(zero) > UINT16_MAX) return false;
        if (more) zero = -zero;
        n = sn_node_get(m, n->in[k]);
    }
    if (n->op == SN_OP_CAST && n->type.dtype == SN_I32) n = sn_node_get(m, n->in[0]);
    sn_dtype t = n->type.dtype;
    if (!sn_is_integral(t) || t == SN_BOOL || sn_dtype_bytes(t) > 2) return false;
    int64_t count = (int64_t)1 << 8 * sn_dtype_bytes(t), low = sn_is_unsigned(t) ? 0 : -count / 2,
            high = low + count - 1;
    int64_t below = llabs(low - (int64_t)zero), above = llabs(high - (int64_t)zero);
    *out = (factor){.q = sn_graph_cast(m, x, SN_I32), .most = below > above ? below : above, .constant = has_data(n)};
    return true;
}

enum { MOST_NODES = 16 }; /* through which a factor is looked at */

static bool find_factor(factor *out, sn_module *m, sn_nd x, uint32_t left);

/* The same view of the integers and, where these are several numbers, of the scales. */
static bool find_viewed(factor *out, sn_module *m, sn_nd x, uint32_t left) {
    const sn_node_rec n = *sn_node_get(m, x);
    if (!find_factor(out, m, n.in[0], left)) return false;
    bool one = !out->scale.i || !sn_type_of(m, out->scale)->rank;
    bool permuted = n.op == SN_OP_PERMUTE && out->scale.i && sn_type_of(m, out->scale)->rank == n.type.rank;
    if (!one && !permuted) return false;
    out->q = sn_graph_node(m, n.op, &out->q, 1, n.attrs, n.n_attrs);
    if (!one) out->scale = sn_graph_node(m, n.op, &out->scale, 1, n.attrs, n.n_attrs);
    return true;
}

static bool find_factor(factor *out, sn_module *m, sn_nd x, uint32_t left) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (n->type.dtype != SN_F32 || !left) return false;
    if (n->op == SN_OP_CAST) return find_integers(out, m, n->in[0]);
    if (n->op == SN_OP_PERMUTE || n->op == SN_OP_RESHAPE || n->op == SN_OP_SQUEEZE || n->op == SN_OP_UNSQUEEZE)
        return find_viewed(out, m, x, left - 1);
    if (n->op != SN_OP_MUL) return false;
    for (uint32_t k = 0; k < 2; k++) {
        sn_nd scale = n->in[k], of = n->in[1 - k];
        if (!is_scale(m, scale) || !sn_type_eq(sn_type_of(m, of), &n->type)) continue;
        if (!find_factor(out, m, of, left - 1) || out->scale.i) continue;
        out->scale = scale;
        return true;
    }
    return false;
}

/* ---- products ---- */

/* Is the size of the scale's axis `from_end` 1, counted from its last one? */
static bool is_same_along(const sn_module *m, sn_nd scale, uint32_t from_end) {
    const sn_type *t = sn_type_of(m, scale);
    int64_t n;
    return from_end >= t->rank || (sn_ix_is_const(m, t->shape[t->rank - 1 - from_end], &n) && n == 1);
}

/* Steps of the sum; 0: not known, or a scale differs along them. */
static int64_t matmul_steps(const sn_module *m, const sn_node_rec *n, const factor *a, const factor *b) {
    const sn_type *t = sn_type_of(m, n->in[0]);
    int64_t steps;
    if (t->rank < 2 || sn_type_of(m, n->in[1])->rank < 2) return 0;
    if (!is_same_along(m, a->scale, 0) || !is_same_along(m, b->scale, 1)) return 0;
    return sn_ix_is_const(m, t->shape[t->rank - 1], &steps) ? steps : 0;
}

/* The scale of filters becomes one of channels. */
static int64_t conv_steps(sn_module *m, const sn_node_rec *n, const factor *a, factor *b) {
    const sn_type *t = sn_type_of(m, n->in[1]), *s = sn_type_of(m, b->scale);
    sn_ix channels[SN_MAX_RANK];
    int64_t filters, all = numel(m, n->in[1]);
    if (a->scale.i && numel(m, a->scale) != 1) return 0;
    if (!sn_ix_is_const(m, t->shape[0], &filters) || !filters) return 0;
    if (b->scale.i && s->rank) {
        if (s->rank != t->rank || numel(m, b->scale) > filters) return 0;
        for (uint32_t k = 0; k < t->rank; k++) channels[k] = sn_ix_const(m, 1);
        if (numel(m, b->scale) > 1 && !sn_ix_eq(s->shape[0], t->shape[0])) return 0;
        channels[0] = s->shape[0];
        b->scale = sn_graph_reshape(m, b->scale, channels, t->rank - 1);
    }
    return all / filters;
}

/* A scale of one element is a number, for any axis. */
static sn_nd as_number(sn_module *m, sn_nd scale) {
    double value;
    if (!scale.i || numel(m, scale) != 1 || !sn_type_of(m, scale)->rank) return scale;
    if (sn_is_uniform(m, scale, &value)) return sn_graph_number(m, scale, value);
    return sn_graph_reshape(m, scale, NULL, 0);
}

static sn_nd product(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec n = *sn_node_get(m, x);
    factor a = {0}, b = {0};
    if (n.type.dtype != SN_F32 || sn_node_attr(m, x, SN_ATTR_SCHEDULE)) return x;
    if (!find_factor(&a, m, n.in[0], MOST_NODES) || !find_factor(&b, m, n.in[1], MOST_NODES)) return x;
    if (!a.constant && !b.constant) return x;
    int64_t steps = n.op == SN_OP_CONV ? conv_steps(m, &n, &a, &b) : matmul_steps(m, &n, &a, &b), most;
    if (!steps || a.most > INT16_MAX || b.most > INT16_MAX) return x;
    if (__builtin_mul_overflow(a.most * b.most, steps, &most) || most > INT32_MAX) return x;
    sn_attr *attrs = SN_NEWN(&m->arena, sn_attr, n.n_attrs + 1);
    uint32_t n_attrs = 0;
    for (uint32_t k = 0; k < n.n_attrs; k++)
        if (n.attrs[k].id != SN_ATTR_PRECISION) attrs[n_attrs++] = n.attrs[k];
    sn_nd in[] = {a.q, b.q};
    sn_nd y = sn_graph_cast(m, sn_graph_node(m, n.op, in, 2, attrs, n_attrs), SN_F32);
    a.scale = as_number(m, a.scale), b.scale = as_number(m, b.scale);
    sn_nd joint = joint_scale(m, a.scale, b.scale);
    return joint.i ? scaled(m, y, joint) : scaled(m, scaled(m, y, a.scale), b.scale);
}

/* ---- quotients ---- */

/* What the f64 has been widened from, or a number that f32 has; none: it is neither. */
static sn_nd narrow(sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    double value;
    if (n->op == SN_OP_CAST && sn_type_of(m, n->in[0])->dtype == SN_F32) return n->in[0];
    if (!sn_is_uniform(m, x, &value) || (double)(float)value != value || n->type.rank) return (sn_nd){0};
    return sn_graph_scalar(m, SN_F32, value);
}

static sn_nd quotient(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *n = sn_node_get(m, x), *of = sn_node_get(m, n->in[0]);
    bool rounds_once = of->op == SN_OP_DIV || of->op == SN_OP_MUL;
    if (n->type.dtype != SN_F32 || !rounds_once || of->type.dtype != SN_F64) return x;
    sn_nd in[] = {of->in[0], of->in[1]}, a = narrow(m, in[0]), b = narrow(m, in[1]);
    return a.i && b.i ? sn_graph_binary(m, of->op, a, b) : x;
}

static sn_nd rule(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *n = sn_node_get(cx->m, x);
    if (n->op == SN_OP_CAST) return quotient(cx, x);
    return sn_ops[n->op].cls == SN_OPS_CONTRACT ? product(cx, x) : x;
}

sn_status sn_pass_quantised(sn_pass_ctx *cx, bool *changed) {
    if (cx->target->is_gpu) return SN_OK;
    return sn_graph_rewrite(cx, rule, changed);
}
