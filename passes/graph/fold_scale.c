/* fold_scale.c: the pass `fold-scale`: what scales and shifts the channels of a convolution or matrix product by
 * constants becomes one scale, which joins constant weights, and one shift. So a batch norm at inference costs nothing
 * but a bias.
 *
 *     %y = conv %x, %w                                    (%w, %mean, %scale, %bias: of constants alone)
 *     %c = sub %y, %mean ;  %d = mul %c, %scale ;  %z = add %d, %bias                 (%mean, ..: [32, 1, 1])
 *  -> %v = mul %w, %s ;  %y = conv %x, %v ;  %z = add %y, %t
 *                                        (%s = %scale as [32, 1, 1, 1], %t = %bias - %mean * %scale)
 *
 * What is left beside the contraction depends on constants alone and is computed when a program is loaded. Done where
 * the contraction and all but the last operation behind it have one user. Weights of f32 and f64 take the scale in;
 * halves would round it, so that behind a contraction of halves, whose result is widened, a scale and a shift in f32
 * stay.
 *
 * Legality: in real numbers. The result of a contraction has been rounded before it is shifted, so that roundings of
 * the one scale, the one shift and the weights are of the size of those that were there. Where a sum, its product with
 * a scale, a scale or a weight's product with it leaves the range of the dtype, but what it becomes does not (or the
 * other way round), an infinity or nan may become a number (or a number one). What weights hold is not known here; a
 * literal that divides by zero or is no finite number is left where it stands. Nothing is done to a product that carries
 * a schedule. Cost: linear in the nodes and in the elements of such literals.
 */
#include <math.h>

#include "passes/graph/rewrite.h"

/* The node is base * scale + shift; scale and shift have an axis for each of base, all of size 1 but for its channels.
 * base none: it is nothing of the kind; scale or shift none: there is none. */
typedef struct scaled {
    sn_nd base, scale, shift;
} scaled;

typedef struct folder {
    bool *single;   /* by number of the live nodes other than inputs, in the order of their ids: one user? */
    uint32_t n, at; /* at: of the node that the rule is given */
    SN_VEC(scaled) of;
    SN_VEC(bool) constant; /* by id of the new graph: made of constants alone? */
} folder;

/* ---- what is known of nodes of the new graph ---- */

static bool is_constant(sn_pass_ctx *cx, sn_nd x) {
    folder *f = cx->notes;
    for (sn_nd at = {f->constant.n}; at.i <= x.i; at.i++) {
        const sn_node_rec *n = at.i ? sn_node_get(cx->m, at) : NULL;
        bool constant = n && n->op != SN_OP_INPUT;
        for (uint32_t k = 0; n && k < n->n_in; k++) constant &= f->constant.at[n->in[k].i];
        SN_PUSH(cx->scratch, &f->constant, constant);
    }
    return f->constant.at[x.i];
}

static scaled scaled_of(sn_pass_ctx *cx, sn_nd x) {
    const folder *f = cx->notes;
    return x.i < f->of.n ? f->of.at[x.i] : (scaled){{0}, {0}, {0}};
}

static void note(sn_pass_ctx *cx, sn_nd x, scaled s) {
    folder *f = cx->notes;
    while (f->of.n <= x.i) SN_PUSH(cx->scratch, &f->of, ((scaled){{0}, {0}, {0}}));
    f->of.at[x.i] = s;
}

/* ---- contractions ---- */

/* The axis of the result along which the weights, its second operand, have channels. */
static uint32_t channel_axis(const sn_module *m, sn_nd contraction) {
    const sn_node_rec *n = sn_node_get(m, contraction);
    return n->op == SN_OP_MATMUL ? n->type.rank - 1 : 1;
}

/* And that axis of the weights. */
static uint32_t weight_axis(const sn_module *m, sn_nd contraction) {
    const sn_node_rec *n = sn_node_get(m, contraction);
    return n->op == SN_OP_MATMUL ? sn_type_of(m, n->in[1])->rank - 1 : 0;
}

/* One whose second operand is constant weights. */
static bool has_weights(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *n = sn_node_get(cx->m, x);
    if (sn_ops[n->op].cls != SN_OPS_CONTRACT || !sn_is_float(n->type.dtype) || !n->type.rank) return false;
    return sn_type_of(cx->m, n->in[1])->rank > 1 && is_constant(cx, n->in[1]) &&
           !sn_node_attr(cx->m, x, SN_ATTR_SCHEDULE);
}

/* A base is such a contraction, or its result as f32. */
static sn_nd contraction_of(const sn_module *m, sn_nd base) {
    const sn_node_rec *n = sn_node_get(m, base);
    return n->op == SN_OP_CAST ? n->in[0] : base;
}

/* p, one number a channel or one for all, with an axis for each of `rank`, the channels at `axis`. */
static sn_nd channels_at(sn_module *m, sn_nd p, uint32_t axis, uint32_t rank) {
    sn_ix shape[SN_MAX_RANK], n = sn_type_numel(m, sn_type_of(m, p));
    bool same = sn_type_of(m, p)->rank == rank;
    for (uint32_t k = 0; k < rank; k++) shape[k] = k == axis ? n : sn_ix_const(m, 1);
    for (uint32_t k = 0; k < rank && same; k++) same = sn_ix_eq(sn_type_of(m, p)->shape[k], shape[k]);
    return same ? p : sn_graph_reshape(m, p, shape, rank);
}

/* w * scale, beneath the permutes that w is seen through, so that it lies in memory as w does. axis: that of its
 * channels. */
static sn_nd scale_weights(sn_module *m, sn_nd w, sn_nd scale, uint32_t axis) {
    const sn_node_rec *n = sn_node_get(m, w);
    uint32_t rank = n->type.rank;
    if (n->op != SN_OP_PERMUTE) return sn_graph_binary(m, SN_OP_MUL, w, channels_at(m, scale, axis, rank));
    int64_t perm[SN_MAX_RANK];
    for (uint32_t k = 0; k < rank; k++) {
        int64_t from = sn_node_attr(m, w, SN_ATTR_PERM)->ints.at[k];
        perm[k] = from < 0 ? from + rank : from;
    }
    return sn_graph_permute(m, scale_weights(m, n->in[0], scale, (uint32_t)perm[axis]), perm, rank);
}

/* The contraction with the scale in its weights. */
static sn_nd fold(sn_module *m, sn_nd x, sn_nd scale) {
    const sn_node_rec n = *sn_node_get(m, x);
    sn_nd in[2] = {n.in[0], scale_weights(m, n.in[1], scale, weight_axis(m, x))};
    return sn_graph_node(m, n.op, in, 2, n.attrs, n.n_attrs);
}

/* ---- operations behind them ---- */

/* k as numbers of the channels of base; none: it is no constant, or differs along another axis. */
static sn_nd as_channels(sn_pass_ctx *cx, sn_nd k, sn_nd base) {
    sn_module *m = cx->m;
    const sn_type *t = sn_type_of(m, k), *of = sn_type_of(m, base);
    uint32_t axis = channel_axis(m, contraction_of(m, base)), first = of->rank - t->rank;
    if (t->rank > of->rank || !is_constant(cx, k)) return (sn_nd){0};
    for (uint32_t i = 0; i < t->rank; i++)
        if (first + i != axis && !sn_ix_eq(t->shape[i], sn_ix_const(m, 1))) return (sn_nd){0};
    return channels_at(m, k, axis, of->rank);
}

/* Does k, where it is a literal, scale by finite numbers, none of them 1/0? */
static bool is_finite_scale(const sn_module *m, sn_op op, sn_nd k) {
    const sn_node_rec *n = sn_node_get(m, k);
    double value;
    while (sn_ops[n->op].cls == SN_OPS_VIEW) n = sn_node_get(m, k = n->in[0]);
    if (sn_is_uniform(m, k, &value)) return isfinite(value) && (op != SN_OP_DIV || value != 0);
    if (n->op != SN_OP_CONSTANT || !sn_is_float(n->type.dtype)) return true;
    const sn_attr *values = sn_node_attr(m, k, SN_ATTR_VALUES);
    for (uint64_t i = 0; i < values->numbers.n; i++)
        if (!isfinite(values->numbers.f[i]) || (op == SN_OP_DIV && values->numbers.f[i] == 0)) return false;
    return true;
}

/* a op k, where a may be none: it stands for `neutral`. */
static sn_nd combine(sn_module *m, sn_op op, sn_nd a, sn_nd k, double neutral) {
    if (!a.i && (op == SN_OP_ADD || op == SN_OP_MUL)) return k;
    return sn_graph_binary(m, op, a.i ? a : sn_graph_scalar(m, sn_type_of(m, k)->dtype, neutral), k);
}

/* s followed by `op k`, or by `k op` where it stands on the left. false: that is no scale or shift. */
static bool follow(sn_module *m, scaled *s, sn_op op, sn_nd k, bool left) {
    switch ((int)op) {
    case SN_OP_ADD: s->shift = combine(m, SN_OP_ADD, s->shift, k, 0); return true;
    case SN_OP_SUB:
        if (left) return false;
        s->shift = combine(m, SN_OP_SUB, s->shift, k, 0);
        return true;
    case SN_OP_DIV:
        if (left) return false;
        s->scale = combine(m, SN_OP_DIV, s->scale, k, 1);
        break;
    case SN_OP_MUL: s->scale = combine(m, SN_OP_MUL, s->scale, k, 1); break;
    default: return false;
    }
    if (s->shift.i) s->shift = sn_graph_binary(m, op, s->shift, k);
    return true;
}

static sn_nd build(sn_module *m, const scaled *s) {
    sn_nd y = s->base;
    bool joins = s->scale.i && sn_nd_eq(contraction_of(m, y), y);
    if (joins) y = fold(m, y, s->scale);
    else if (s->scale.i) y = sn_graph_binary(m, SN_OP_MUL, y, s->scale);
    return s->shift.i ? sn_graph_binary(m, SN_OP_ADD, y, s->shift) : y;
}

/* x is an operation on a scaled contraction and constants of the channels: what it comes to. */
static sn_nd fold_behind(sn_pass_ctx *cx, sn_nd x, bool single) {
    sn_module *m = cx->m;
    const sn_node_rec n = *sn_node_get(m, x);
    for (uint32_t k = 0; k < 2; k++) {
        scaled s = scaled_of(cx, n.in[k]);
        if (!s.base.i || !sn_type_eq(sn_type_of(m, s.base), &n.type)) continue;
        sn_nd by = as_channels(cx, n.in[1 - k], s.base);
        bool first = !s.scale.i && !s.shift.i, is_scale = n.op == SN_OP_MUL || n.op == SN_OP_DIV;
        if (!by.i || (is_scale && !is_finite_scale(m, n.op, by)) || !follow(m, &s, n.op, by, k == 1)) continue;
        bool as_it_was = first && (!is_scale || !sn_nd_eq(contraction_of(m, s.base), s.base));
        sn_nd y = as_it_was ? x : build(m, &s);
        if (y.i && single) note(cx, y, s);
        return y;
    }
    return x;
}

static sn_nd rule(sn_pass_ctx *cx, sn_nd x) {
    folder *f = cx->notes;
    const sn_node_rec *n = sn_node_get(cx->m, x);
    SN_ASSERT(f->at < f->n);
    bool single = f->single[f->at++];
    if (has_weights(cx, x)) {
        bool narrow = sn_dtype_bytes(n->type.dtype) < 4;
        if (single) note(cx, x, (scaled){.base = narrow ? (sn_nd){0} : x});
        return x;
    }
    if (n->op == SN_OP_CAST && single) {
        const sn_nd of = n->in[0];
        if (n->type.dtype == SN_F32 && sn_dtype_bytes(sn_type_of(cx->m, of)->dtype) < 4 && has_weights(cx, of))
            note(cx, x, (scaled){.base = x});
        return x;
    }
    if (n->n_in != 2 || sn_ops[n->op].cls != SN_OPS_BINARY) return x;
    return fold_behind(cx, x, single);
}

static void count_users(folder *f, sn_pass_ctx *cx) {
    const sn_graph_ir *g = &cx->m->graph;
    uint8_t *live = SN_NEWN(cx->scratch, uint8_t, g->nodes.count);
    uint32_t *users = SN_NEWN(cx->scratch, uint32_t, g->nodes.count);
    sn_graph_live(cx->m, live);
    for (sn_nd x = {1}; x.i < g->nodes.count; x.i++) {
        const sn_node_rec *n = sn_node_get(cx->m, x);
        for (uint32_t k = 0; live[x.i] && k < n->n_in; k++) users[n->in[k].i]++;
    }
    for (uint32_t k = 0; k < g->outputs.n; k++) users[g->outputs.at[k].node.i]++;
    f->single = SN_NEWN(cx->scratch, bool, g->nodes.count);
    for (sn_nd x = {1}; x.i < g->nodes.count; x.i++)
        if (live[x.i] && sn_node_get(cx->m, x)->op != SN_OP_INPUT) f->single[f->n++] = users[x.i] == 1;
}

sn_status sn_pass_fold_scale(sn_pass_ctx *cx, bool *changed) {
    folder f = {0};
    if (cx->m->kernels.n || cx->m->graph.nodes.count <= 1) return SN_OK; /* they stand for the graph */
    count_users(&f, cx);
    cx->notes = &f;
    sn_status status = sn_graph_rewrite(cx, rule, changed);
    cx->notes = NULL;
    return status;
}
