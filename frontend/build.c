/* build.c: the public builder functions that are not of a family: sources, views, moves, contractions, composites.
 *
 * Each one packs its arguments into attributes and goes through sn_build, which checks operands, turns sizes into index
 * expressions and calls the one constructor of ir/graph/graph.c. Shape and dtype rules are there, not here.
 */
#include "frontend/build.h"
#include "ir/graph/build.h"

#include <math.h>
#include <string.h>

/* ---- the general builder ---- */

static sn_attr attr_int(sn_attr_id id, int64_t i) { return (sn_attr){.id = id, .i = i}; }
static sn_attr attr_float(sn_attr_id id, double f) { return (sn_attr){.id = id, .f = f}; }
static sn_attr attr_list(sn_attr_id id, const int64_t *at, unsigned n) { return (sn_attr){.id = id, .ints = {at, n}}; }

/* Before anything of a list is read. */
static sn_status check_list(sn_graph *g, const char *who, const char *list, unsigned n, const int64_t *at) {
    if (n > SN_MAX_RANK)
        return sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT, "%s: %s has %u numbers; at most %d axes", who, list, n,
                       SN_MAX_RANK);
    if (n && !at)
        return sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT, "%s: %s is NULL, %u numbers are announced", who, list, n);
    return SN_OK;
}

static sn_status check_operands(sn_graph *g, sn_op op, const sn_node *in, unsigned n) {
    const char *who = sn_ops[op].name;
    if (n && !in) return sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT, "%s: the list of %u operands is NULL", who, n);
    if (n > SN_LIST_MAX)
        return sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT, "%s: %u operands; at most %d", who, n, SN_LIST_MAX);
    for (unsigned k = 0; k < n; k++)
        if (!sn_node_is_of(g, in[k]))
            return sn_node_check(g, in[k], who, sn_strf(&g->ctx->scratch, "operand %u", k + 1));
    return SN_OK;
}

/* A code of sn_dim stands for a size; as a position or an amount it would be a negative number like others. */
static sn_status check_number(sn_graph *g, const char *who, sn_attr_id id, int64_t number) {
    if (!sn_size_is_code(number)) return SN_OK;
    return sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT,
                   "%s: %s is a size of sn_dim, which only shapes, strides and offsets take", who, sn_attrs[id].name);
}

static sn_status convert_attr(sn_attr *out, sn_graph *g, sn_op op, const sn_attr *attr) {
    *out = *attr;
    const char *who = sn_ops[op].name;
    sn_attr_kind kind = sn_attrs[attr->id].kind;
    if (kind == SN_KIND_STRING && !attr->text)
        return sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT, "%s: %s is NULL", who, sn_attrs[attr->id].name);
    if (kind == SN_KIND_INT) return check_number(g, who, attr->id, attr->i);
    if (kind != SN_KIND_INTS && kind != SN_KIND_SHAPE) return SN_OK;
    SN_TRY(check_list(g, who, sn_attrs[attr->id].name, attr->ints.n, attr->ints.at));
    sn_ix *shape = SN_NEWN(&g->ctx->scratch, sn_ix, attr->ints.n + 1);
    for (uint32_t k = 0; k < attr->ints.n; k++) {
        if (kind == SN_KIND_INTS) SN_TRY(check_number(g, who, attr->id, attr->ints.at[k]));
        else SN_TRY(sn_size_read(&shape[k], g, who, attr->ints.at[k]));
    }
    if (kind == SN_KIND_INTS) return SN_OK;
    out->shape.at = shape;
    out->shape.n = attr->ints.n;
    return SN_OK;
}

static sn_status build(sn_nd *out, sn_graph *g, sn_op op, const sn_node *in, unsigned n_in, const sn_attr *attrs,
                       unsigned n_attrs) {
    SN_TRY(check_operands(g, op, in, n_in));
    sn_attr *converted = SN_NEWN(&g->ctx->scratch, sn_attr, n_attrs + 1);
    for (unsigned k = 0; k < n_attrs; k++) SN_TRY(convert_attr(&converted[k], g, op, &attrs[k]));
    sn_nd *inner = SN_NEWN(&g->ctx->scratch, sn_nd, n_in + 1);
    for (unsigned k = 0; k < n_in; k++) inner[k] = sn_inner(in[k]);
    *out = sn_graph_node(g->m, op, inner, n_in, converted, n_attrs);
    return g->ctx->env.status;
}

sn_node sn_build(sn_graph *g, sn_op op, const sn_node *in, unsigned n_in, const sn_attr *attrs, unsigned n_attrs) {
    SN_BUILD_RETURN(g, build(&g->built, g, op, in, n_in, attrs, n_attrs));
}

sn_node sn_build_reduce(sn_graph *g, sn_op op, sn_node x, unsigned n_axes, const int64_t *axes, bool keepdim,
                        int64_t correction) {
    static const int64_t every[SN_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    bool all = n_axes == 0 && g;
    sn_attr attrs[3] = {attr_list(SN_ATTR_AXES, all ? every : axes, all ? sn_node_rank(g, x) : n_axes)};
    unsigned n = 1;
    if (keepdim) attrs[n++] = attr_int(SN_ATTR_KEEPDIM, 1);
    if (correction != 1) attrs[n++] = attr_int(SN_ATTR_CORRECTION, correction);
    return sn_build(g, op, &x, 1, attrs, n);
}

sn_node sn_build_scan(sn_graph *g, sn_op op, sn_node x, int64_t axis, bool exclusive, bool reverse) {
    sn_attr attrs[3] = {attr_int(SN_ATTR_AXIS, axis)};
    unsigned n = 1;
    if (exclusive) attrs[n++] = attr_int(SN_ATTR_EXCLUSIVE, 1);
    if (reverse) attrs[n++] = attr_int(SN_ATTR_REVERSE, 1);
    return sn_build(g, op, &x, 1, attrs, n);
}

/* ---- sources ---- */

static sn_status input_new(sn_nd *out, sn_graph *g, const char *name, sn_dtype dtype, unsigned rank,
                           const int64_t *shape, const int64_t *strides, int64_t offset) {
    sn_env *env = &g->ctx->env;
    if (!name || !name[0]) return sn_fail(env, SN_ERROR_ARGUMENT, "input %u has no name", g->m->graph.inputs.n);
    if (dtype >= SN_N_DTYPES)
        return sn_fail(env, SN_ERROR_ARGUMENT, "input %s: unknown element type %d", name, (int)dtype);
    const char *who = sn_strf(&g->ctx->scratch, "input %s", name);
    SN_TRY(check_list(g, who, "shape", rank, shape));
    sn_type type = {.dtype = dtype, .rank = rank};
    sn_ix inner[SN_MAX_RANK], start = {0};
    for (unsigned k = 0; k < rank; k++) {
        SN_TRY(sn_size_read(&type.shape[k], g, who, shape[k]));
        if (strides) SN_TRY(sn_size_read(&inner[k], g, who, strides[k]));
    }
    if (offset) SN_TRY(sn_size_read(&start, g, who, offset));
    *out = sn_graph_input_new(g->m, sn_strdup(&g->m->arena, name), &type, strides ? inner : NULL, start);
    return env->status;
}

sn_node sn_input_strided(sn_graph *g, const char *name, sn_dtype dtype, unsigned rank, const int64_t *shape,
                         const int64_t *strides, int64_t offset) {
    SN_BUILD_RETURN(g, input_new(&g->built, g, name, dtype, rank, shape, strides, offset));
}

sn_node sn_input(sn_graph *g, const char *name, sn_dtype dtype, unsigned rank, const int64_t *shape) {
    return sn_input_strided(g, name, dtype, rank, shape, NULL, 0);
}

sn_node sn_full(sn_graph *g, sn_dtype dtype, double value, unsigned rank, const int64_t *shape) {
    sn_attr attrs[] = {attr_float(SN_ATTR_VALUE, value), attr_int(SN_ATTR_DTYPE, dtype),
                       attr_list(SN_ATTR_SHAPE, shape, rank)};
    return sn_build(g, SN_OP_FULL, NULL, 0, attrs, 3);
}

sn_node sn_number(sn_graph *g, sn_dtype dtype, double value) { return sn_full(g, dtype, value, 0, NULL); }

sn_node sn_number_like(sn_graph *g, sn_node x, double value) {
    return g ? sn_number(g, sn_node_dtype(g, x), value) : (sn_node){0};
}

static sn_status constant_new(sn_nd *out, sn_graph *g, sn_dtype dtype, const void *data, unsigned rank,
                              const int64_t *shape) {
    sn_env *env = &g->ctx->env;
    if (dtype >= SN_N_DTYPES) return sn_fail(env, SN_ERROR_ARGUMENT, "constant: unknown element type %d", (int)dtype);
    SN_TRY(check_list(g, "constant", "shape", rank, shape));
    uint64_t n = 1;
    for (unsigned k = 0; k < rank; k++) {
        if (shape[k] < 0) return sn_fail(env, SN_ERROR_ARGUMENT, "constant: size of axis %u is not a number", k);
        if (sn_mul_overflow(n, (uint64_t)shape[k], &n))
            return sn_fail(env, SN_ERROR_ARGUMENT, "constant: too many elements");
    }
    if (n && !data) return sn_fail(env, SN_ERROR_ARGUMENT, "constant: data is NULL");
    sn_array values = sn_array_from(&g->m->arena, dtype, rank, shape, data);
    sn_attr attrs[] = {{.id = SN_ATTR_VALUES, .numbers = {values.f, values.i, n}},
                       attr_int(SN_ATTR_DTYPE, dtype),
                       attr_list(SN_ATTR_SHAPE, shape, rank)};
    return build(out, g, SN_OP_CONSTANT, NULL, 0, attrs, 3);
}

sn_node sn_constant(sn_graph *g, sn_dtype dtype, const void *data, unsigned rank, const int64_t *shape) {
    SN_BUILD_RETURN(g, constant_new(&g->built, g, dtype, data, rank, shape));
}

sn_node sn_iota(sn_graph *g, sn_dtype dtype, int64_t axis, unsigned rank, const int64_t *shape) {
    sn_attr attrs[] = {attr_int(SN_ATTR_AXIS, axis), attr_int(SN_ATTR_DTYPE, dtype),
                       attr_list(SN_ATTR_SHAPE, shape, rank)};
    return sn_build(g, SN_OP_IOTA, NULL, 0, attrs, 3);
}

/* ---- elementwise with rules of their own ---- */

sn_node sn_where(sn_graph *g, sn_node condition, sn_node x, sn_node y) {
    return sn_build(g, SN_OP_WHERE, (sn_node[]){condition, x, y}, 3, NULL, 0);
}

sn_node sn_cast(sn_graph *g, sn_node x, sn_dtype dtype) {
    sn_attr attr = attr_int(SN_ATTR_DTYPE, dtype);
    return sn_build(g, SN_OP_CAST, &x, 1, &attr, 1);
}

sn_node sn_clamp(sn_graph *g, sn_node x, double min, double max) {
    sn_attr attrs[2];
    unsigned n = 0;
    if (!isinf(min)) attrs[n++] = attr_float(SN_ATTR_MIN, min);
    if (!isinf(max)) attrs[n++] = attr_float(SN_ATTR_MAX, max);
    return sn_build(g, SN_OP_CLAMP, &x, 1, attrs, n);
}

/* ---- tuples ---- */

static sn_node project(sn_graph *g, sn_node tuple, int64_t index) {
    sn_attr attr = attr_int(SN_ATTR_INDEX, index);
    return sn_build(g, SN_OP_PROJECT, &tuple, 1, &attr, 1);
}

/* The results of a pair that are asked for. */
static void both(sn_node *first, sn_node *second, sn_graph *g, sn_node tuple) {
    if (first) *first = project(g, tuple, 0);
    if (second) *second = project(g, tuple, 1);
}

sn_node sn_var(sn_graph *g, sn_node x, unsigned n_axes, const int64_t *axes, bool keepdim, int64_t correction) {
    return sn_build_reduce(g, SN_OP_VAR, x, n_axes, axes, keepdim, correction);
}

void sn_var_mean(sn_node *var, sn_node *mean, sn_graph *g, sn_node x, unsigned n_axes, const int64_t *axes,
                 bool keepdim, int64_t correction) {
    both(var, mean, g, sn_build_reduce(g, SN_OP_VAR_MEAN, x, n_axes, axes, keepdim, correction));
}

/* ---- views ---- */

/* The size that makes the product of all sizes that of x. */
static sn_status infer_size(sn_ix *out, sn_graph *g, const sn_type *x, const sn_ix *sizes, unsigned n) {
    sn_module *m = g->m;
    sn_ix all = sn_type_numel(m, x), others = sn_ix_product(m, sizes, n);
    int64_t k;
    bool zero = sn_ix_is_const(m, others, &k) && k == 0;
    if (!zero) *out = sn_ix_div(m, all, others);
    if (zero || !sn_ix_eq(sn_ix_mul(m, *out, others), all))
        return sn_fail(&g->ctx->env, SN_ERROR_TYPE,
                       "reshape: no size fits for -1: %s is not a multiple of the other sizes", sn_type_text(m, x));
    return SN_OK;
}

static sn_status reshape(sn_nd *out, sn_graph *g, sn_node x, unsigned rank, const int64_t *shape) {
    SN_TRY(check_operands(g, SN_OP_RESHAPE, &x, 1));
    SN_TRY(check_list(g, "reshape", "shape", rank, shape));
    sn_ix sizes[SN_MAX_RANK], known[SN_MAX_RANK];
    unsigned n_known = 0, free_axis = rank;
    for (unsigned k = 0; k < rank; k++) {
        if (shape[k] != -1) {
            SN_TRY(sn_size_read(&sizes[k], g, "reshape", shape[k]));
            known[n_known++] = sizes[k];
            continue;
        }
        if (free_axis < rank) return sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT, "reshape: more than one size is -1");
        free_axis = k;
    }
    const sn_type *type = &sn_node_get(g->m, sn_inner(x))->type;
    if (free_axis < rank) SN_TRY(infer_size(&sizes[free_axis], g, type, known, n_known));
    *out = sn_graph_reshape(g->m, sn_inner(x), sizes, rank);
    return g->ctx->env.status;
}

sn_node sn_reshape(sn_graph *g, sn_node x, unsigned rank, const int64_t *shape) {
    SN_BUILD_RETURN(g, reshape(&g->built, g, x, rank, shape));
}

static sn_status expand(sn_nd *out, sn_graph *g, sn_node x, unsigned rank, const int64_t *shape) {
    SN_TRY(check_operands(g, SN_OP_EXPAND, &x, 1));
    SN_TRY(check_list(g, "expand", "shape", rank, shape));
    const sn_type *type = &sn_node_get(g->m, sn_inner(x))->type;
    sn_ix sizes[SN_MAX_RANK];
    for (unsigned k = 0; k < rank; k++) {
        bool kept = shape[k] == -1 && k + type->rank >= rank;
        if (kept) sizes[k] = type->shape[k + type->rank - rank];
        else SN_TRY(sn_size_read(&sizes[k], g, "expand", shape[k]));
    }
    *out = sn_graph_expand(g->m, sn_inner(x), sizes, rank);
    return g->ctx->env.status;
}

sn_node sn_expand(sn_graph *g, sn_node x, unsigned rank, const int64_t *shape) {
    SN_BUILD_RETURN(g, expand(&g->built, g, x, rank, shape));
}

sn_node sn_permute(sn_graph *g, sn_node x, unsigned rank, const int64_t *perm) {
    sn_attr attr = attr_list(SN_ATTR_PERM, perm, rank);
    return sn_build(g, SN_OP_PERMUTE, &x, 1, &attr, 1);
}

static sn_status transpose(sn_nd *out, sn_graph *g, sn_node x, int64_t a, int64_t b) {
    SN_TRY(check_operands(g, SN_OP_PERMUTE, &x, 1));
    int64_t rank = sn_node_rank(g, x), perm[SN_MAX_RANK];
    if (a < -rank || a >= rank || b < -rank || b >= rank)
        return sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT, "transpose: axes %lld and %lld of a value of rank %lld",
                       (long long)a, (long long)b, (long long)rank);
    for (int64_t k = 0; k < rank; k++) perm[k] = k;
    a += a < 0 ? rank : 0;
    b += b < 0 ? rank : 0;
    perm[a] = b;
    perm[b] = a;
    *out = sn_graph_permute(g->m, sn_inner(x), perm, (uint32_t)rank);
    return g->ctx->env.status;
}

sn_node sn_transpose(sn_graph *g, sn_node x, int64_t axis_a, int64_t axis_b) {
    SN_BUILD_RETURN(g, transpose(&g->built, g, x, axis_a, axis_b));
}

static sn_node with_axes(sn_graph *g, sn_op op, sn_node x, unsigned n_axes, const int64_t *axes) {
    sn_attr attr = attr_list(SN_ATTR_AXES, axes, n_axes);
    return sn_build(g, op, &x, 1, &attr, 1);
}

/* The axes whose size is 1 whatever the names stand for. */
static sn_status squeeze_all(sn_nd *out, sn_graph *g, sn_node x) {
    SN_TRY(check_operands(g, SN_OP_SQUEEZE, &x, 1));
    const sn_type *type = &sn_node_get(g->m, sn_inner(x))->type;
    int64_t axes[SN_MAX_RANK], size;
    uint32_t n = 0;
    for (uint32_t k = 0; k < type->rank; k++)
        if (sn_ix_is_const(g->m, type->shape[k], &size) && size == 1) axes[n++] = k;
    *out = sn_graph_squeeze(g->m, sn_inner(x), axes, n);
    return g->ctx->env.status;
}

static sn_node squeeze_every(sn_graph *g, sn_node x) { SN_BUILD_RETURN(g, squeeze_all(&g->built, g, x)); }

sn_node sn_squeeze(sn_graph *g, sn_node x, unsigned n_axes, const int64_t *axes) {
    return n_axes ? with_axes(g, SN_OP_SQUEEZE, x, n_axes, axes) : squeeze_every(g, x);
}

sn_node sn_unsqueeze(sn_graph *g, sn_node x, unsigned n_axes, const int64_t *axes) {
    return with_axes(g, SN_OP_UNSQUEEZE, x, n_axes, axes);
}

sn_node sn_flip(sn_graph *g, sn_node x, unsigned n_axes, const int64_t *axes) {
    return with_axes(g, SN_OP_FLIP, x, n_axes, axes);
}

sn_node sn_slice(sn_graph *g, sn_node x, int64_t axis, int64_t start, int64_t stop, int64_t step) {
    return sn_slices(g, x, 1, &axis, &start, &stop, &step);
}

/* An axis that is listed twice would be sliced twice. */
static sn_status slices(sn_nd *out, sn_graph *g, sn_node x, unsigned n, const int64_t *axes, const int64_t *starts,
                        const int64_t *stops, const int64_t *steps) {
    sn_env *env = &g->ctx->env;
    SN_TRY(check_operands(g, SN_OP_SLICE, &x, 1));
    SN_TRY(check_list(g, "slice", "starts", n, starts));
    SN_TRY(check_list(g, "slice", "stops", n, stops));
    int64_t rank = sn_node_get(g->m, sn_inner(x))->type.rank;
    uint32_t seen = 0;
    *out = sn_inner(x);
    for (unsigned k = 0; k < n && env->status == SN_OK; k++) {
        SN_TRY(check_number(g, "slice", SN_ATTR_AXIS, axes ? axes[k] : 0));
        SN_TRY(check_number(g, "slice", SN_ATTR_START, starts[k]));
        SN_TRY(check_number(g, "slice", SN_ATTR_STOP, stops[k]));
        SN_TRY(check_number(g, "slice", SN_ATTR_STEP, steps ? steps[k] : 1));
        int64_t axis = axes ? axes[k] : (int64_t)k, at = axis < 0 ? axis + rank : axis;
        if (steps && !steps[k]) return sn_fail(env, SN_ERROR_ARGUMENT, "slice: step is 0");
        if (at < 0 || at >= rank)
            return sn_fail(env, SN_ERROR_ARGUMENT, "slice: axis %lld is not in %lld .. %lld", (long long)axis,
                           (long long)-rank, (long long)rank - 1);
        if (seen >> at & 1) return sn_fail(env, SN_ERROR_ARGUMENT, "slice: axis %lld is listed twice", (long long)at);
        seen |= 1u << at;
        *out = sn_graph_slice(g->m, *out, axis, starts[k], stops[k], steps ? steps[k] : 1);
    }
    return env->status;
}

sn_node sn_slices(sn_graph *g, sn_node x, unsigned n, const int64_t *axes, const int64_t *starts, const int64_t *stops,
                  const int64_t *steps) {
    SN_BUILD_RETURN(g, slices(&g->built, g, x, n, axes, starts, stops, steps));
}

sn_node sn_unfold(sn_graph *g, sn_node x, int64_t axis, int64_t size, int64_t step, int64_t dilation) {
    sn_attr attrs[4] = {attr_int(SN_ATTR_AXIS, axis), attr_int(SN_ATTR_SIZE, size)};
    unsigned n = 2;
    if (step != 1) attrs[n++] = attr_int(SN_ATTR_STEP, step);
    if (dilation != 1) attrs[n++] = attr_list(SN_ATTR_DILATION, &dilation, 1);
    return sn_build(g, SN_OP_UNFOLD, &x, 1, attrs, n);
}

/* ---- moves ---- */

sn_node sn_pad(sn_graph *g, sn_node x, const int64_t *low, const int64_t *high, double value) {
    unsigned rank = g ? sn_node_rank(g, x) : 0;
    sn_attr attrs[3] = {attr_list(SN_ATTR_LOW, low, rank), attr_list(SN_ATTR_HIGH, high, rank)};
    unsigned n = 2;
    if (value != 0) attrs[n++] = attr_float(SN_ATTR_VALUE, value);
    return sn_build(g, SN_OP_PAD, &x, 1, attrs, n);
}

static sn_node along(sn_graph *g, sn_op op, const sn_node *in, unsigned n, int64_t axis) {
    sn_attr attr = attr_int(SN_ATTR_AXIS, axis);
    return sn_build(g, op, in, n, &attr, 1);
}

sn_node sn_concat(sn_graph *g, unsigned n, const sn_node *x, int64_t axis) {
    return along(g, SN_OP_CONCAT, x, n, axis);
}

sn_node sn_gather(sn_graph *g, sn_node x, sn_node index, int64_t axis) {
    return along(g, SN_OP_GATHER, (sn_node[]){x, index}, 2, axis);
}

sn_node sn_index_select(sn_graph *g, sn_node x, sn_node index, int64_t axis) {
    return along(g, SN_OP_INDEX_SELECT, (sn_node[]){x, index}, 2, axis);
}

sn_node sn_embedding(sn_graph *g, sn_node table, sn_node index) { return sn_index_select(g, table, index, 0); }

#define DEFINE_SCATTER(f, ID)                                                                                          \
    sn_node f(sn_graph *g, sn_node x, sn_node index, sn_node updates) {                                                \
        return sn_build(g, SN_OP_##ID, (sn_node[]){x, index, updates}, 3, NULL, 0);                                    \
    }
SN_SCATTER_FUNCTIONS(DEFINE_SCATTER)

/* ---- sorting ---- */

void sn_sort(sn_node *values, sn_node *positions, sn_graph *g, sn_node x, int64_t axis, bool descending) {
    sn_attr attrs[] = {attr_int(SN_ATTR_AXIS, axis), attr_int(SN_ATTR_DESCENDING, 1)};
    both(values, positions, g, sn_build(g, SN_OP_SORT, &x, 1, attrs, descending ? 2 : 1));
}

sn_node sn_argsort(sn_graph *g, sn_node x, int64_t axis, bool descending) {
    sn_node positions;
    sn_sort(NULL, &positions, g, x, axis, descending);
    return positions;
}

void sn_topk(sn_node *values, sn_node *positions, sn_graph *g, sn_node x, int64_t k, int64_t axis, bool largest) {
    sn_attr attrs[] = {attr_int(SN_ATTR_AXIS, axis), attr_int(SN_ATTR_K, k), attr_int(SN_ATTR_LARGEST, 0)};
    both(values, positions, g, sn_build(g, SN_OP_TOPK, &x, 1, attrs, largest ? 2 : 3));
}

/* ---- random numbers ---- */

static sn_node random_numbers(sn_graph *g, sn_op op, sn_dtype dtype, sn_node seed, sn_node offset, unsigned rank,
                              const int64_t *shape) {
    sn_attr attrs[] = {attr_int(SN_ATTR_DTYPE, dtype), attr_list(SN_ATTR_SHAPE, shape, rank)};
    return sn_build(g, op, (sn_node[]){seed, offset}, 2, attrs, 2);
}

sn_node sn_random(sn_graph *g, sn_dtype dtype, sn_node seed, sn_node offset, unsigned rank, const int64_t *shape) {
    return random_numbers(g, SN_OP_RANDOM, dtype, seed, offset, rank, shape);
}

sn_node sn_random_normal(sn_graph *g, sn_dtype dtype, sn_node seed, sn_node offset, unsigned rank,
                         const int64_t *shape) {
    return random_numbers(g, SN_OP_RANDOM_NORMAL, dtype, seed, offset, rank, shape);
}

sn_node sn_dropout(sn_graph *g, sn_node x, double p, sn_node seed, sn_node offset) {
    sn_attr attr = attr_float(SN_ATTR_P, p);
    return sn_build(g, SN_OP_DROPOUT, (sn_node[]){x, seed, offset}, 3, &attr, 1);
}

/* ---- contractions ---- */

sn_node sn_matmul(sn_graph *g, sn_node x, sn_node y) {
    return sn_build(g, SN_OP_MATMUL, (sn_node[]){x, y}, 2, NULL, 0);
}

static sn_status matmul_with(sn_nd *out, sn_graph *g, sn_node x, sn_node y, const sn_matmul_options *options) {
    sn_matmul_options o = {0};
    sn_precision p;
    SN_TRY(sn_options_read(&o, sizeof o, &g->ctx->env, "sn_matmul_options", options));
    SN_TRY(sn_precision_read(&p, &g->ctx->env, o.precision));
    sn_attr attr = attr_int(SN_ATTR_PRECISION, p);
    return build(out, g, SN_OP_MATMUL, (sn_node[]){x, y}, 2, &attr, o.precision ? 1 : 0);
}

sn_node sn_matmul_with(sn_graph *g, sn_node x, sn_node y, const sn_matmul_options *options) {
    SN_BUILD_RETURN(g, matmul_with(&g->built, g, x, y, options));
}

/* ---- composites ---- */

sn_node sn_softmax(sn_graph *g, sn_node x, int64_t axis) { return along(g, SN_OP_SOFTMAX, &x, 1, axis); }
sn_node sn_log_softmax(sn_graph *g, sn_node x, int64_t axis) { return along(g, SN_OP_LOG_SOFTMAX, &x, 1, axis); }

static sn_node with_eps(sn_graph *g, sn_op op, const sn_node *in, unsigned n, double eps) {
    sn_attr attr = attr_float(SN_ATTR_EPS, eps);
    return sn_build(g, op, in, n, &attr, 1);
}

sn_node sn_layer_norm(sn_graph *g, sn_node x, sn_node weight, sn_node bias, double eps) {
    return with_eps(g, SN_OP_LAYER_NORM, (sn_node[]){x, weight, bias}, 3, eps);
}

sn_node sn_rms_norm(sn_graph *g, sn_node x, sn_node weight, double eps) {
    return with_eps(g, SN_OP_RMS_NORM, (sn_node[]){x, weight}, 2, eps);
}

sn_node sn_batch_norm(sn_graph *g, sn_node x, sn_node weight, sn_node bias, sn_node running_mean, sn_node running_var,
                      double eps) {
    return with_eps(g, SN_OP_BATCH_NORM, (sn_node[]){x, weight, bias, running_mean, running_var}, 5, eps);
}

static sn_node batch_norm_train(const sn_batch_norm_results *out, sn_graph *g, const sn_node *in, double momentum,
                                double eps) {
    sn_attr attrs[] = {attr_float(SN_ATTR_EPS, eps), attr_float(SN_ATTR_MOMENTUM, momentum)};
    SN_BUILD_RETURN(g, build(&g->built, g, SN_OP_BATCH_NORM_TRAIN, in, 5, attrs, 2), out);
}

void sn_batch_norm_train(sn_batch_norm_results *out, sn_graph *g, sn_node x, sn_node weight, sn_node bias,
                         sn_node running_mean, sn_node running_var, double momentum, double eps) {
    sn_node in[] = {x, weight, bias, running_mean, running_var};
    sn_node all = batch_norm_train(out, g, in, momentum, eps);
    if (!out) return;
    *out = (sn_batch_norm_results){project(g, all, 0), project(g, all, 1), project(g, all, 2), project(g, all, 3),
                                   project(g, all, 4)};
}

sn_node sn_cross_entropy(sn_graph *g, sn_node x, sn_node target) {
    return sn_build(g, SN_OP_CROSS_ENTROPY, (sn_node[]){x, target}, 2, NULL, 0);
}
