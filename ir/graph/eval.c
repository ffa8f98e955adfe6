/* eval.c: the naive reference: evaluates every node of a graph from its definition. Here: the driver, sources,
 * elementwise operations and reductions; views and moves are in eval_move.c, contractions and composites in eval_nn.c,
 * sorts in eval_sort.c, random numbers in eval_random.c, how far rounding may take them in eval_errors.c.
 *
 * Relies on scalar.h for the meaning of scalar operations and combiners, and on inferred types for everything about
 * shapes. Composites are computed directly, never by decomposing them; nothing here knows about lowering. Memory: every
 * intermediate lives in the caller's arena.
 */
#include "ir/graph/eval_internal.h"
#include "ir/graph/repeat.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

sn_status sn_eval_fail(const sn_eval *e, const char *format, ...) {
    char text[SN_MESSAGE_MAX / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sn_fail(e->m->env, SN_ERROR_ARGUMENT, "%s: %s", sn_ops[e->n->op].name, text);
}

/* ---- walks and groups ---- */

void sn_row_strides(int64_t *stride, const int64_t *shape, uint32_t rank) {
    int64_t step = 1;
    for (uint32_t k = rank; k-- > 0; step *= shape[k]) stride[k] = step;
}

sn_walk sn_walk_over(const int64_t *shape, uint32_t rank) {
    sn_walk w = {.rank = rank};
    for (uint32_t k = 0; k < rank; k++) w.shape[k] = shape[k];
    return w;
}

void sn_walk_broadcast(sn_walk *w, uint32_t k, const sn_array *x) {
    int64_t stride[SN_MAX_RANK];
    sn_row_strides(stride, x->shape, x->rank);
    for (uint32_t d = 0; d < x->rank; d++) w->stride[k][d + w->rank - x->rank] = x->shape[d] == 1 ? 0 : stride[d];
}

void sn_walk_next(sn_walk *w) {
    for (uint32_t d = w->rank; d-- > 0;) {
        for (int k = 0; k < SN_WALK_MAX; k++) w->at[k] += w->stride[k][d];
        if (++w->index[d] < w->shape[d]) return;
        for (int k = 0; k < SN_WALK_MAX; k++) w->at[k] -= w->stride[k][d] * w->shape[d];
        w->index[d] = 0;
    }
}

/* Positions of the axes in the mask, row-major. */
static int64_t *positions(int64_t *n, sn_arena *arena, const sn_array *x, uint32_t mask) {
    int64_t stride[SN_MAX_RANK];
    sn_walk w = {0};
    sn_row_strides(stride, x->shape, x->rank);
    *n = 1;
    for (uint32_t k = 0; k < x->rank; k++) {
        if (!(mask >> k & 1)) continue;
        w.shape[w.rank] = x->shape[k];
        w.stride[0][w.rank++] = stride[k];
        *n *= x->shape[k];
    }
    int64_t *at = SN_NEWN(arena, int64_t, *n);
    for (int64_t i = 0; i < *n; i++, sn_walk_next(&w)) at[i] = w.at[0];
    return at;
}

sn_groups sn_groups_of(sn_arena *arena, const sn_array *x, uint32_t mask) {
    sn_groups gr;
    gr.base = positions(&gr.n, arena, x, ~mask);
    gr.offset = positions(&gr.members, arena, x, mask);
    return gr;
}

sn_moments sn_group_moments(const sn_array *x, const sn_groups *gr, int64_t g) {
    const double *at = x->f + gr->base[g];
    sn_total sum = {0, 0}, squares = {0, 0};
    for (int64_t j = 0; j < gr->members; j++) sn_total_add(&sum, at[gr->offset[j]]);
    double mean = sn_total_value(&sum) / (double)gr->members;
    for (int64_t j = 0; j < gr->members; j++) {
        double d = at[gr->offset[j]] - mean;
        sn_total_add(&squares, d * d);
    }
    return (sn_moments){mean, sn_total_value(&squares)};
}

/* ---- sources ---- */

static sn_status eval_full(sn_eval *e) {
    sn_scalar value = {.f = sn_node_float(e->m, e->x, SN_ATTR_VALUE, 0)};
    value = sn_scalar_cast(e->out->dtype, SN_F64, value, true);
    for (int64_t i = 0; i < e->out->numel; i++) sn_array_set(e->out, i, value);
    return SN_OK;
}

static sn_status eval_constant(sn_eval *e) {
    const sn_attr *a = sn_node_attr(e->m, e->x, SN_ATTR_VALUES);
    for (int64_t i = 0; i < e->out->numel; i++) {
        if (sn_is_float(e->out->dtype)) e->out->f[i] = sn_round_to(e->out->dtype, a->numbers.f[i]);
        else e->out->i[i] = a->numbers.i[i];
    }
    return SN_OK;
}

/* Without symbols it would be a constant. */
static sn_status eval_sizes(sn_eval *e) { return sn_eval_fail(e, "evaluation needs constant sizes"); }

static sn_status eval_weight(sn_eval *e) {
    const char *name = sn_node_attr(e->m, e->x, SN_ATTR_NAME)->text;
    const sn_weight_rec *w = sn_wt_get(e->m, sn_wt_named(e->m, name));
    if (!sn_wt_attached(w)) return sn_eval_fail(e, "%s has no elements yet", name);
    uint32_t bytes = sn_dtype_bytes(w->dtype);
    for (int64_t i = 0; i < e->out->numel; i++) {
        const char *at = (const char *)w->data + (size_t)i * bytes;
        if (sn_is_float(w->dtype)) e->out->f[i] = sn_load_float(w->dtype, at);
        else e->out->i[i] = sn_load_int(w->dtype, at);
    }
    return SN_OK;
}

static sn_status eval_iota(sn_eval *e) {
    int64_t axis = sn_node_int(e->m, e->x, SN_ATTR_AXIS, 0);
    sn_walk w = sn_walk_over(e->out->shape, e->out->rank);
    for (int64_t i = 0; i < e->out->numel; i++, sn_walk_next(&w))
        sn_array_set(e->out, i, sn_scalar_cast(e->out->dtype, SN_I64, (sn_scalar){.i = w.index[axis]}, true));
    return SN_OK;
}

/* ---- elementwise ---- */

/* Unary, binary, compare, test and where: the scalar operation of the row on broadcast operands. */
static sn_status eval_elementwise(sn_eval *e) {
    sn_lop lop = (sn_lop)sn_ops[e->n->op].lop;
    sn_dtype dtype = e->in[e->n->op == SN_OP_WHERE ? 1 : 0]->dtype;
    sn_walk w = sn_walk_over(e->out->shape, e->out->rank);
    sn_scalar x[3] = {{0}};
    uint32_t n = e->n->n_in;
    for (uint32_t k = 0; k < n; k++) sn_walk_broadcast(&w, k, e->in[k]);
    for (int64_t i = 0; i < e->out->numel; i++, sn_walk_next(&w)) {
        for (uint32_t k = 0; k < n; k++) x[k] = sn_array_get(e->in[k], w.at[k]);
        sn_array_set(e->out, i, sn_scalar_op(lop, dtype, x[0], x[1], x[2], false));
    }
    return SN_OK;
}

static sn_status eval_cast(sn_eval *e) {
    for (int64_t i = 0; i < e->out->numel; i++)
        sn_array_set(e->out, i, sn_scalar_cast(e->out->dtype, e->in[0]->dtype, sn_array_get(e->in[0], i), true));
    return SN_OK;
}

/* max(lo) first, then min(hi): crossed limits give hi. Comparisons leave nan alone. */
static sn_status eval_clamp(sn_eval *e) {
    const sn_attr *lo = sn_node_attr(e->m, e->x, SN_ATTR_MIN), *hi = sn_node_attr(e->m, e->x, SN_ATTR_MAX);
    sn_dtype t = e->out->dtype;
    sn_scalar low = sn_scalar_cast(t, SN_F64, (sn_scalar){.f = lo ? lo->f : 0}, true);
    sn_scalar high = sn_scalar_cast(t, SN_F64, (sn_scalar){.f = hi ? hi->f : 0}, true);
    for (int64_t i = 0; i < e->out->numel; i++) {
        sn_scalar x = sn_array_get(e->in[0], i);
        if (lo && sn_scalar_op(SN_LOP_LT, t, x, low, x, false).i) x = low;
        if (hi && sn_scalar_op(SN_LOP_GT, t, x, high, x, false).i) x = high;
        sn_array_set(e->out, i, x);
    }
    return SN_OK;
}

/* ---- reductions ---- */

/* x as the combiner takes it: any and all ask for nonzero. */
static sn_scalar reduced_element(const sn_array *x, int64_t at, sn_comb comb) {
    sn_scalar v = sn_array_get(x, at);
    if (comb != SN_COMB_ANY && comb != SN_COMB_ALL) return v;
    return (sn_scalar){.i = sn_is_float(x->dtype) ? v.f != 0 : v.i != 0};
}

static void sum_floats(sn_eval *e) {
    sn_groups gr = sn_groups_of(e->arena, e->in[0], sn_node_axes_mask(e->m, e->x));
    for (int64_t g = 0; g < gr.n; g++) {
        sn_total sum = {0, 0};
        for (int64_t j = 0; j < gr.members; j++) sn_total_add(&sum, e->in[0]->f[gr.base[g] + gr.offset[j]]);
        e->out->f[g] = sn_total_value(&sum);
    }
}

/* sum, prod, amax, amin, argmax, argmin, any, all: the combiner of the row. */
static sn_status eval_reduce(sn_eval *e) {
    const sn_array *x = e->in[0];
    sn_comb comb = (sn_comb)sn_ops[e->n->op].lop;
    if (comb == SN_COMB_SUM && sn_is_float(x->dtype)) {
        sum_floats(e);
        return SN_OK;
    }
    bool position = comb == SN_COMB_ARGMAX || comb == SN_COMB_ARGMIN;
    sn_dtype dtype = position ? x->dtype : e->out->dtype;
    sn_groups gr = sn_groups_of(e->arena, x, sn_node_axes_mask(e->m, e->x));
    for (int64_t g = 0; g < gr.n; g++) {
        sn_scalar state[2];
        sn_scalar_identity(comb, dtype, state);
        for (int64_t j = 0; j < gr.members; j++) {
            sn_scalar v[2] = {reduced_element(x, gr.base[g] + gr.offset[j], comb), {.i = j}};
            sn_scalar_combine(comb, dtype, state, v, false);
        }
        sn_array_set(e->out, g, state[position ? 1 : 0]);
    }
    return SN_OK;
}

/* cumsum, cumprod, cummax, cummin: the state of the combiner after (exclusive: before) each element of the axis. */
static sn_status eval_scan(sn_eval *e) {
    const sn_array *x = e->in[0];
    sn_comb comb = (sn_comb)sn_ops[e->n->op].lop;
    bool exclusive = sn_node_int(e->m, e->x, SN_ATTR_EXCLUSIVE, 0),
         reverse = sn_node_int(e->m, e->x, SN_ATTR_REVERSE, 0);
    sn_groups gr = sn_groups_of(e->arena, x, 1u << sn_node_int(e->m, e->x, SN_ATTR_AXIS, 0));
    for (int64_t g = 0; g < gr.n; g++) {
        sn_scalar state;
        sn_total sum = {0, 0};
        sn_scalar_identity(comb, e->out->dtype, &state);
        for (int64_t j = 0; j < gr.members; j++) {
            int64_t at = gr.base[g] + gr.offset[reverse ? gr.members - 1 - j : j];
            sn_scalar v = sn_array_get(x, at);
            if (exclusive) sn_array_set(e->out, at, state);
            if (comb == SN_COMB_SUM && sn_is_float(e->out->dtype)) {
                sn_total_add(&sum, v.f);
                state.f = sn_total_value(&sum);
            } else {
                sn_scalar_combine(comb, e->out->dtype, &state, &v, false);
            }
            if (!exclusive) sn_array_set(e->out, at, state);
        }
    }
    return SN_OK;
}

/* mean, var, var_mean. */
static sn_status eval_moments(sn_eval *e) {
    int64_t correction = sn_node_int(e->m, e->x, SN_ATTR_CORRECTION, 1);
    sn_groups gr = sn_groups_of(e->arena, e->in[0], sn_node_axes_mask(e->m, e->x));
    for (int64_t g = 0; g < gr.n; g++) {
        sn_moments mo = sn_group_moments(e->in[0], &gr, g);
        double variance = mo.squares / ((double)gr.members - (double)correction);
        e->out[0].f[g] = e->n->op == SN_OP_MEAN ? mo.mean : variance;
        if (e->n->op == SN_OP_VAR_MEAN) e->out[1].f[g] = mo.mean;
    }
    return SN_OK;
}

/* ---- driver ---- */

static const sn_eval_fn eval_of_op[SN_N_OPS] = {
    [SN_OP_FULL] = eval_full,          [SN_OP_CONSTANT] = eval_constant,
    [SN_OP_IOTA] = eval_iota,          [SN_OP_WHERE] = eval_elementwise,
    [SN_OP_CAST] = eval_cast,          [SN_OP_CLAMP] = eval_clamp,
    [SN_OP_MEAN] = eval_moments,       [SN_OP_VAR] = eval_moments,
    [SN_OP_VAR_MEAN] = eval_moments,   [SN_OP_SORT] = sn_eval_sort,
    [SN_OP_TOPK] = sn_eval_sort,       [SN_OP_RANDOM] = sn_eval_random,
    [SN_OP_DROPOUT] = sn_eval_dropout, [SN_OP_RANDOM_NORMAL] = sn_eval_random_normal,
    [SN_OP_WEIGHT] = eval_weight,      [SN_OP_SIZES] = eval_sizes,
};

static const sn_eval_fn eval_of_class[] = {
    [SN_OPS_UNARY] = eval_elementwise,
    [SN_OPS_BINARY] = eval_elementwise,
    [SN_OPS_COMPARE] = eval_elementwise,
    [SN_OPS_TEST] = eval_elementwise,
    [SN_OPS_REDUCE] = eval_reduce,
    [SN_OPS_SCAN] = eval_scan,
    [SN_OPS_REPEAT] = NULL,
};

static sn_eval_fn eval_fn(sn_op op) {
    if (eval_of_op[op]) return eval_of_op[op];
    if (sn_eval_move[op]) return sn_eval_move[op];
    if (sn_eval_nn[op]) return sn_eval_nn[op];
    return eval_of_class[sn_ops[op].cls];
}

/* Largest tensor that the reference takes on; keeps hostile sizes from exhausting memory. */
#define EVAL_MAX_ELEMENTS ((int64_t)1 << 28)

/* An array of the type without storage. */
static sn_status array_of(sn_array *out, sn_module *m, const sn_type *t) {
    *out = (sn_array){.dtype = t->dtype, .rank = t->rank, .numel = 1};
    for (uint32_t k = 0; k < t->rank; k++) {
        if (!sn_ix_is_const(m, t->shape[k], &out->shape[k]))
            return sn_fail(m->env, SN_ERROR_UNSUPPORTED, "evaluation needs constant sizes, found %s",
                           sn_type_text(m, t));
        out->numel *= out->shape[k]; /* cannot overflow: a valid type has at most 2^62 elements, sizes 0 aside */
    }
    if (out->numel > EVAL_MAX_ELEMENTS)
        return sn_fail(m->env, SN_ERROR_UNSUPPORTED, "evaluation of %s: more than %lld elements", sn_type_text(m, t),
                       (long long)EVAL_MAX_ELEMENTS);
    return SN_OK;
}

static void array_alloc(sn_array *a, sn_arena *arena) {
    if (sn_is_float(a->dtype)) a->f = SN_NEWN(arena, double, a->numel);
    else a->i = SN_NEWN(arena, int64_t, a->numel);
}

sn_status sn_array_new(sn_array *out, sn_module *m, const sn_type *t, sn_arena *arena) {
    SN_TRY(array_of(out, m, t));
    array_alloc(out, arena);
    return SN_OK;
}

static sn_status check_input(sn_module *m, const sn_array *given, uint32_t number) {
    const sn_graph_input *in = &m->graph.inputs.at[number];
    sn_array want;
    SN_TRY(array_of(&want, m, &sn_node_get(m, in->node)->type));
    bool fits = given->dtype == want.dtype && given->rank == want.rank && given->numel == want.numel;
    for (uint32_t k = 0; fits && k < want.rank; k++) fits = given->shape[k] == want.shape[k];
    if (fits) return SN_OK;
    return sn_fail(m->env, SN_ERROR_ARGUMENT, "input %s: an array of another type was given for %s", in->name,
                   sn_type_text(m, &sn_node_get(m, in->node)->type));
}

sn_status sn_eval_node(sn_array **all, sn_module *m, sn_nd x, sn_arena *arena) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (n->op == SN_OP_PROJECT) {
        all[x.i] = &all[n->in[0].i][sn_node_int(m, x, SN_ATTR_INDEX, 0)];
        return SN_OK;
    }
    sn_eval e = {.m = m, .arena = arena, .x = x, .n = n};
    if (sn_ops[n->op].cls == SN_OPS_REPEAT)
        return sn_eval_fail(&e, "a repeat or a branch is not looked into for the value of one node");
    e.in = SN_NEWN(arena, const sn_array *, n->n_in);
    e.out = SN_NEWN(arena, sn_array, n->n_results);
    for (uint32_t k = 0; k < n->n_in; k++) e.in[k] = all[n->in[k].i];
    int64_t elements = 0;
    for (uint32_t k = 0; k < n->n_results; k++) {
        sn_type t;
        uint32_t count;
        SN_TRY(sn_graph_infer(&t, &count, m, n->op, n->in, n->n_in, n->attrs, n->n_attrs, k));
        SN_TRY(sn_array_new(&e.out[k], m, &t, arena));
        elements += e.out[k].numel;
    }
    all[x.i] = e.out;
    /* Without elements there is nothing to do, however large the other sizes are. */
    return elements ? eval_fn(n->op)(&e) : SN_OK;
}

static void copy_array(sn_array *out, const sn_array *a, sn_arena *arena) {
    *out = *a;
    if (sn_is_float(a->dtype)) out->f = sn_memdup(arena, a->f, (size_t)a->numel * sizeof *a->f);
    else out->i = sn_memdup(arena, a->i, (size_t)a->numel * sizeof *a->i);
}

static sn_status eval_one(sn_eval_run *r, sn_nd x) {
    sn_op op = sn_node_get(r->m, x)->op;
    SN_TRY(op == SN_OP_REPEAT ? sn_eval_repeat(r, x)
           : op == SN_OP_COND ? sn_eval_cond(r, x)
                              : sn_eval_node(r->all, r->m, x, r->arena));
    return r->watch ? r->watch->node(r, x) : SN_OK;
}

sn_status sn_eval_scope(sn_eval_run *r, uint32_t scope, uint32_t end) {
    for (sn_nd x = {1}; x.i < end; x.i++)
        if (r->live[x.i] && r->scope[x.i] == scope && !r->all[x.i]) SN_TRY(eval_one(r, x));
    return SN_OK;
}

sn_status sn_graph_default_array(sn_array *out, sn_module *m, uint32_t input, sn_arena *arena) {
    const sn_graph_input *in = &m->graph.inputs.at[input];
    const sn_graph_default *d = &in->otherwise;
    SN_TRY(sn_array_new(out, m, &sn_node_get(m, in->node)->type, arena));
    for (int64_t k = 0; k < out->numel; k++) {
        uint64_t from = d->n == 1 ? 0 : (uint64_t)k;
        if (out->f) out->f[k] = d->f[from];
        else out->i[k] = d->i[from];
    }
    return SN_OK;
}

sn_status sn_eval_graph(sn_eval_run *r, const sn_array *inputs) {
    const sn_graph_ir *g = &r->m->graph;
    sn_repeat_scopes scopes;
    sn_array *given = SN_NEWN(r->arena, sn_array, g->inputs.n);
    uint8_t *live = SN_NEWN(r->arena, uint8_t, g->nodes.count);
    for (uint32_t k = 0; k < g->inputs.n; k++) {
        SN_TRY(check_input(r->m, &inputs[k], k));
        given[k] = inputs[k];
        r->all[g->inputs.at[k].node.i] = &given[k];
    }
    SN_TRY(sn_repeat_scopes_find(&scopes, r->m, r->arena));
    sn_graph_live(r->m, live);
    r->live = live;
    r->scope = scopes.of;
    return sn_eval_scope(r, 0, g->nodes.count);
}

sn_status sn_graph_eval(sn_array *outputs, sn_module *m, const sn_array *inputs, sn_arena *arena) {
    const sn_graph_ir *g = &m->graph;
    sn_eval_run r = {.m = m, .arena = arena, .all = SN_NEWN(arena, sn_array *, g->nodes.count)};
    SN_TRY(sn_eval_graph(&r, inputs));
    for (uint32_t k = 0; k < g->outputs.n; k++) copy_array(&outputs[k], r.all[g->outputs.at[k].node.i], arena);
    return SN_OK;
}
