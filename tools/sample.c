/* sample.c: some elements of the outputs of a graph that is too large for the float64 evaluator, as a small graph.
 *
 *     c[M, N] = matmul a[M, K], b[K, N]   ->   c[64, 64] = matmul a[64 rows, K], b[K, 64 columns]
 *
 * Of each output up to LAST_AXES positions are drawn of the last two axes and OTHER_AXES of each axis before them,
 * one from each of as many equal parts of the axis. From there the walk goes to the operands: most operations
 * compute chosen positions of an axis from the same positions of their operands (`pushed` knows which), and what an
 * operand needs whole, as a product its K axis, stays whole. Where an operation cannot hand the choice on, it is
 * computed whole and the positions are selected from its result.
 *
 * A node that is needed for two choices becomes two nodes, an input two inputs. All floats are f64, and casts between
 * floats go: the small graph rounds nothing, whatever the large one does. Relies on the evaluator for what operations
 * mean.
 */
#include "tools/sample.h"

#include "ir/graph/build.h"
#include "ir/graph/weights.h"

#include <string.h>

enum { LAST_AXES = 64, OTHER_AXES = 4 };

/* What a node has become, for one choice of its elements. */
typedef struct made {
    sample_set set;
    sn_nd node;
    struct made *next;
} made;

/* The positions that are drawn of axes of a size. Equal sizes share them, so that choices that agree can be told by
 * their pointers. */
typedef struct drawn {
    int64_t size;
    sample_axis axis;
    struct drawn *next;
} drawn;

typedef struct sampler {
    sn_module *to;
    const sn_module *from;
    sn_arena *arena;
    made **nodes; /* by id of a node of `from` */
    drawn *drawn;
    sample_input **last; /* end of the list of inputs */
    uint64_t seed;
} sampler;

/* ---- choices ---- */

static int64_t size_of(const sn_module *m, sn_ix e) {
    int64_t size = 0;
    sn_ix_is_const(m, e, &size);
    return size;
}

static sample_axis whole_axis(const sn_module *m, sn_ix e) { return (sample_axis){.n = size_of(m, e)}; }

static sample_set whole(const sn_module *m, const sn_type *t) {
    sample_set set = {.rank = t->rank};
    for (uint32_t k = 0; k < t->rank; k++) set.axis[k] = whole_axis(m, t->shape[k]);
    return set;
}

static sample_axis draw(sampler *s, int64_t size, int64_t n) {
    if (size <= n) return (sample_axis){.n = size};
    for (const drawn *d = s->drawn; d; d = d->next)
        if (d->size == size && d->axis.n == n) return d->axis;
    int64_t *at = SN_NEWN(s->arena, int64_t, n);
    for (int64_t k = 0; k < n; k++) {
        int64_t first = k * (size / n), part = k + 1 < n ? size / n : size - first;
        uint64_t key[3] = {(uint64_t)size, (uint64_t)n, (uint64_t)k};
        at[k] = first + (int64_t)(sn_hash_bytes(s->seed, key, sizeof key) % (uint64_t)part);
    }
    drawn *d = SN_NEW(s->arena, drawn);
    *d = (drawn){size, {n, at}, s->drawn};
    s->drawn = d;
    return d->axis;
}

static sample_set draw_set(sampler *s, const sn_type *t) {
    sample_set set = {.rank = t->rank};
    for (uint32_t k = 0; k < t->rank; k++)
        set.axis[k] = draw(s, size_of(s->from, t->shape[k]), k + 2 < t->rank ? OTHER_AXES : LAST_AXES);
    return set;
}

static bool same_set(const sample_set *a, const sample_set *b) {
    bool same = a->rank == b->rank;
    for (uint32_t k = 0; same && k < a->rank; k++)
        same = a->axis[k].n == b->axis[k].n && a->axis[k].at == b->axis[k].at;
    return same;
}

/* ---- from the elements of a result to those of its operands ---- */

static uint32_t all_of(const sample_set *set) { return (1u << set->rank) - 1; }

/* Operand axes meet those of the result from the last one; one of size 1 is repeated. */
static uint32_t push_broadcast(const sampler *s, const sn_node_rec *n, const sample_set *out, sample_set *in) {
    for (uint32_t k = 0; k < n->n_in; k++) {
        const sn_type *t = &sn_node_get(s->from, n->in[k])->type;
        for (uint32_t i = 0; i < t->rank; i++)
            if (size_of(s->from, t->shape[i]) != 1) in[k].axis[i] = out->axis[out->rank - t->rank + i];
    }
    return all_of(out);
}

static uint32_t push_matmul(const sampler *s, const sn_node_rec *n, const sample_set *out, sample_set *in) {
    const sn_type *type[2] = {&sn_node_get(s->from, n->in[0])->type, &sn_node_get(s->from, n->in[1])->type};
    uint32_t has[2] = {type[0]->rank > 1, type[1]->rank > 1}, batch = out->rank - has[0] - has[1];
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t own = type[k]->rank > 2 ? type[k]->rank - 2 : 0;
        for (uint32_t i = 0; i < own; i++)
            if (size_of(s->from, type[k]->shape[i]) != 1) in[k].axis[i] = out->axis[batch - own + i];
    }
    if (has[0]) in[0].axis[type[0]->rank - 2] = out->axis[batch];
    if (has[1]) in[1].axis[type[1]->rank - 1] = out->axis[batch + has[0]];
    return all_of(out);
}

/* Images of the batch; channels of the result, where they are of one group, from rows of the weight. */
static uint32_t push_conv(const sampler *s, sn_nd x, const sample_set *out, sample_set *in) {
    in[0].axis[0] = out->axis[0];
    if (sn_node_int(s->from, x, SN_ATTR_GROUPS, 1) != 1) return 1;
    in[1].axis[0] = out->axis[1];
    return 3;
}

static uint32_t push_reduce(const sampler *s, sn_nd x, const sample_set *out, sample_set *in) {
    uint32_t reduced = sn_node_axes_mask(s->from, x), pushed = 0;
    bool keep = sn_node_int(s->from, x, SN_ATTR_KEEPDIM, 0);
    for (uint32_t k = 0, at = 0; k < in->rank; k++) {
        bool goes = reduced >> k & 1;
        if (!goes) {
            in->axis[k] = out->axis[at];
            pushed |= 1u << at;
        }
        at += !goes || keep;
    }
    return pushed;
}

/* Axes that stay on their own: all but `not_these`. */
static uint32_t push_alike(const sample_set *out, sample_set *in, uint32_t not_these) {
    uint32_t pushed = all_of(out) & ~not_these;
    for (uint32_t k = 0; k < out->rank; k++)
        if (pushed >> k & 1) in->axis[k] = out->axis[k];
    return pushed;
}

static uint32_t push_permute(const sampler *s, sn_nd x, const sample_set *out, sample_set *in) {
    const sn_attr *perm = sn_node_attr(s->from, x, SN_ATTR_PERM);
    for (uint32_t k = 0; k < out->rank; k++) {
        int64_t p = perm->ints.at[k];
        in->axis[p < 0 ? p + out->rank : p] = out->axis[k];
    }
    return all_of(out);
}

static uint32_t axis_of(const sampler *s, sn_nd x, uint32_t rank) {
    int64_t axis = sn_node_int(s->from, x, SN_ATTR_AXIS, 0);
    return 1u << (axis < 0 ? axis + rank : axis);
}

/* Which axes of the result does an operation hand on, and what of its operands does it need for that? in: whole. */
static uint32_t pushed(const sampler *s, sn_nd x, const sample_set *out, sample_set *in) {
    const sn_node_rec *n = sn_node_get(s->from, x);
    switch ((int)n->op) {
    case SN_OP_WHERE:
    case SN_OP_CAST:
    case SN_OP_CLAMP:
    case SN_OP_RELU:
    case SN_OP_GELU:
    case SN_OP_GELU_TANH:
    case SN_OP_SILU:
    case SN_OP_EXPAND:
    case SN_OP_FULL: return push_broadcast(s, n, out, in);
    case SN_OP_MATMUL: return push_matmul(s, n, out, in);
    case SN_OP_CONV: return push_conv(s, x, out, in);
    case SN_OP_PERMUTE: return push_permute(s, x, out, in);
    case SN_OP_SOFTMAX:
    case SN_OP_LOG_SOFTMAX: return push_alike(out, in, axis_of(s, x, out->rank));
    case SN_OP_LAYER_NORM:
    case SN_OP_RMS_NORM: return push_alike(out, in, all_of(out) & ~((1u << (out->rank - in[1].rank)) - 1));
    default: break;
    }
    switch (sn_ops[n->op].cls) {
    case SN_OPS_UNARY:
    case SN_OPS_BINARY:
    case SN_OPS_COMPARE:
    case SN_OPS_TEST: return push_broadcast(s, n, out, in);
    case SN_OPS_REDUCE: return n->n_results == 1 ? push_reduce(s, x, out, in) : 0;
    case SN_OPS_SCAN: return push_alike(out, in, axis_of(s, x, out->rank));
    default: return 0;
    }
}

/* ---- the small graph ---- */

static sn_nd sampled(sampler *s, sn_nd x, const sample_set *set);

static sn_nd sampled_input(sampler *s, const sn_node_rec *n, const sample_set *set) {
    sn_type t = {.dtype = sn_is_float(n->type.dtype) ? SN_F64 : n->type.dtype, .rank = set->rank};
    for (uint32_t k = 0; k < set->rank; k++) t.shape[k] = sn_ix_const(s->to, set->axis[k].n);
    sample_input *in = SN_NEW(s->arena, sample_input);
    *in = (sample_input){.number = n->input, .set = *set};
    *s->last = in;
    s->last = &in->next;
    return sn_graph_input_new(s->to, sn_strf(s->arena, "%s_%u", n->name, s->to->graph.inputs.n), &t, NULL, (sn_ix){0});
}

/* Attributes in the small graph: no dtype of a float but f64, and shapes as large as what was chosen. */
static void sampled_attrs(sampler *s, sn_attr *out, const sn_node_rec *n, const sample_set *set, uint32_t mask) {
    bool rounds = n->op == SN_OP_CAST || n->op == SN_OP_FULL;
    for (uint32_t k = 0; k < n->n_attrs; k++) {
        out[k] = n->attrs[k];
        if (out[k].id == SN_ATTR_DTYPE && rounds && sn_is_float((sn_dtype)out[k].i)) out[k].i = SN_F64;
        if (sn_attrs[out[k].id].kind != SN_KIND_SHAPE) continue;
        sn_ix *shape = SN_NEWN(s->arena, sn_ix, out[k].shape.n);
        for (uint32_t i = 0; i < out[k].shape.n; i++) {
            int64_t size = mask >> i & 1 ? set->axis[i].n : size_of(s->from, n->attrs[k].shape.at[i]);
            shape[i] = sn_ix_const(s->to, size);
        }
        out[k].shape.at = shape;
    }
}

/* Of an axis that the operation gave whole, the chosen positions. */
static sn_nd select_rest(sampler *s, sn_nd y, const sample_set *set, uint32_t mask) {
    for (uint32_t k = 0; k < set->rank; k++) {
        const sample_axis *axis = &set->axis[k];
        if (!axis->at || mask >> k & 1) continue;
        y = sn_graph_index_select(s->to, y, sn_graph_ints(s->to, SN_I64, axis->at, &axis->n, 1), k);
    }
    return y;
}

static sn_nd sampled_node(sampler *s, sn_nd x, const sample_set *set) {
    const sn_node_rec *n = sn_node_get(s->from, x);
    sample_set *need = SN_NEWN(s->arena, sample_set, n->n_in + 1);
    sn_nd *in = SN_NEWN(s->arena, sn_nd, n->n_in + 1);
    sn_attr attrs[SN_N_ATTRS];
    for (uint32_t k = 0; k < n->n_in; k++) need[k] = whole(s->from, &sn_node_get(s->from, n->in[k])->type);
    uint32_t mask = pushed(s, x, set, need);
    for (uint32_t k = 0; k < n->n_in; k++) {
        in[k] = sampled(s, n->in[k], &need[k]);
        if (!in[k].i) return in[k];
    }
    sampled_attrs(s, attrs, n, set, mask);
    sn_nd y = sn_graph_node(s->to, n->op, in, n->n_in, attrs, n->n_attrs);
    if (!y.i || n->n_results > 1) return y;
    y = select_rest(s, y, set, mask);
    return y.i && sn_is_float(sn_node_get(s->to, y)->type.dtype) ? sn_graph_cast(s->to, y, SN_F64) : y;
}

static sn_nd sampled(sampler *s, sn_nd x, const sample_set *set) {
    const sn_node_rec *n = sn_node_get(s->from, x);
    for (const made *d = s->nodes[x.i]; d; d = d->next)
        if (same_set(&d->set, set)) return d->node;
    sn_nd y = n->op == SN_OP_INPUT ? sampled_input(s, n, set) : sampled_node(s, x, set);
    made *d = SN_NEW(s->arena, made);
    *d = (made){*set, y, s->nodes[x.i]};
    s->nodes[x.i] = d;
    return y;
}

sn_status tool_sample(sample *out, sn_context *ctx, const sn_module *graph, uint64_t seed) {
    const sn_graph_ir *g = &graph->graph;
    sn_arena *arena = &ctx->scratch;
    *out = (sample){.graph = sn_module_new(&ctx->env), .outputs = SN_NEWN(arena, sample_set, g->outputs.n + 1)};
    sampler s = {.to = out->graph,
                 .from = graph,
                 .arena = arena,
                 .nodes = SN_NEWN(arena, made *, g->nodes.count),
                 .last = &out->inputs,
                 .seed = seed};
    sn_graph_init(out->graph, g->name);
    sn_wt_share(out->graph, graph);
    for (uint32_t k = 0; k < g->outputs.n; k++) {
        sn_nd x = g->outputs.at[k].node;
        out->outputs[k] = draw_set(&s, &sn_node_get(graph, x)->type);
        sn_nd y = sampled(&s, x, &out->outputs[k]);
        if (!y.i) return ctx->env.status;
        SN_TRY(sn_graph_output_new(out->graph, g->outputs.at[k].name, y, -1));
    }
    return ctx->env.status;
}

/* ---- elements ---- */

sn_array tool_sample_elements(sn_arena *arena, const sample_set *set, sn_dtype dtype, const int64_t *shape,
                              const void *data) {
    sn_array a = {.dtype = sn_is_float(dtype) ? SN_F64 : dtype, .rank = set->rank, .numel = 1};
    for (uint32_t k = 0; k < set->rank; k++) a.numel *= a.shape[k] = set->axis[k].n;
    if (sn_is_float(dtype)) a.f = SN_NEWN(arena, double, a.numel + 1);
    else a.i = SN_NEWN(arena, int64_t, a.numel + 1);
    for (int64_t e = 0; e < a.numel; e++) {
        int64_t at = 0, rest = e, step = 1;
        for (uint32_t k = set->rank; k-- > 0; rest /= a.shape[k], step *= shape[k]) {
            int64_t position = rest % a.shape[k];
            at += (set->axis[k].at ? set->axis[k].at[position] : position) * step;
        }
        const char *element = (const char *)data + (size_t)at * sn_dtype_bytes(dtype);
        if (a.f) a.f[e] = sn_load_float(dtype, element);
        else a.i[e] = sn_load_int(dtype, element);
    }
    return a;
}
