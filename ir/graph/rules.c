/* rules.c: sn_graph_infer, promotion, broadcasting and the rules of sources, elementwise operations, reductions,
 * scans and project. The rules of views and moves are in rules_shape.c, contractions and composites in
 * rules_nn.c, attributes in rules_attrs.c. Relies on sn_lop_allowed for what scalar operations exist on
 * which dtype. Builds nothing: only sizes (ix) are added to the module.
 */
#include "ir/graph/internal.h"
#include "ir/ops/scalar.h"

#include <math.h>
#include <stdio.h>

typedef sn_status (*rule_fn)(sn_rule *r);

/* ---- helpers ---- */

sn_status sn_rule_fail(const sn_rule *r, const char *format, ...) {
    char text[SN_MESSAGE_MAX / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sn_fail(r->m->env, SN_ERROR_TYPE, "%s: %s", sn_ops[r->op].name, text);
}

sn_status sn_rule_refuse(const sn_rule *r, sn_dtype dtype, bool takes_float) {
    const char *advice = takes_float && sn_is_integral(dtype) ? "; cast it to a float type first" : "";
    return sn_rule_fail(r, "does not take %s%s", sn_dtypes[dtype].name, advice);
}

const sn_type *sn_rule_in(const sn_rule *r, uint32_t operand) { return &sn_node_get(r->m, r->in[operand])->type; }

const sn_attr *sn_rule_attr(const sn_rule *r, sn_attr_id id) {
    for (uint32_t i = 0; i < r->n_attrs; i++)
        if (r->attrs[i].id == id) return &r->attrs[i];
    return NULL;
}

int64_t sn_rule_int(const sn_rule *r, sn_attr_id id, int64_t otherwise) {
    const sn_attr *a = sn_rule_attr(r, id);
    return a ? a->i : otherwise;
}

sn_status sn_rule_need_float(const sn_rule *r, uint32_t operand) {
    sn_dtype t = sn_rule_in(r, operand)->dtype;
    return sn_is_float(t) ? SN_OK : sn_rule_refuse(r, t, true);
}

sn_status sn_rule_same_dtype(const sn_rule *r) {
    sn_dtype first = sn_rule_in(r, 0)->dtype;
    for (uint32_t k = 1; k < r->n_in; k++) {
        sn_dtype t = sn_rule_in(r, k)->dtype;
        if (t != first)
            return sn_rule_fail(r, "operand 1 is %s but operand %u is %s; cast one of them", sn_dtypes[first].name,
                                k + 1, sn_dtypes[t].name);
    }
    return SN_OK;
}

sn_status sn_rule_axis(uint32_t *out, const sn_rule *r, int64_t axis, uint32_t rank) {
    int64_t n = rank;
    if (rank == 0) return sn_rule_fail(r, "axis %lld of a tensor without axes", (long long)axis);
    if (axis < -n || axis >= n)
        return sn_rule_fail(r, "axis %lld is not in %lld .. %lld (rank %u)", (long long)axis, (long long)-n,
                            (long long)n - 1, rank);
    *out = (uint32_t)(axis < 0 ? axis + n : axis);
    return SN_OK;
}

sn_status sn_rule_mask(uint32_t *out, const sn_rule *r, uint32_t rank) {
    const sn_attr *axes = sn_rule_attr(r, SN_ATTR_AXES);
    *out = 0;
    for (uint32_t i = 0; i < axes->ints.n; i++) {
        uint32_t axis = 0;
        SN_TRY(sn_rule_axis(&axis, r, axes->ints.at[i], rank));
        if (*out >> axis & 1) return sn_rule_fail(r, "axis %u is listed twice", axis);
        *out |= 1u << axis;
    }
    return SN_OK;
}

sn_status sn_rule_number(const sn_rule *r, const char *what, sn_dtype dtype, double x) {
    if (sn_is_float(dtype)) {
        if (!isfinite(x) || isfinite(sn_round_to(dtype, x))) return SN_OK;
        return sn_rule_fail(r, "%s %.17g is beyond the largest value of %s", what, x, sn_dtypes[dtype].name);
    }
    /* 2^63 is let through as the largest i64, 2^64 as the largest u64: what (double)INT64_MAX and its like give. */
    sn_scalar i = sn_scalar_cast(dtype, SN_F64, (sn_scalar){.f = x}, true);
    bool fits = sn_int_to_double(dtype, i.i) == x;
    return fits ? SN_OK : sn_rule_fail(r, "%s %.17g is not a value of %s", what, x, sn_dtypes[dtype].name);
}

sn_status sn_type_check(sn_module *m, const char *what, const sn_type *t) {
    int64_t numel = 1;
    if (t->rank > SN_MAX_RANK)
        return sn_fail(m->env, SN_ERROR_TYPE, "%s: a tensor has at most %d axes, not %u", what, SN_MAX_RANK, t->rank);
    for (uint32_t k = 0; k < t->rank; k++) {
        int64_t size;
        if (t->shape[k].i == 0) return sn_fail(m->env, SN_ERROR_TYPE, "%s: the size of axis %u is missing", what, k);
        if (!sn_ix_is_const(m, t->shape[k], &size)) continue;
        if (size < 0)
            return sn_fail(m->env, SN_ERROR_TYPE, "%s: axis %u has the negative size %lld", what, k, (long long)size);
        /* A size 0 counts as 1: strides multiply the other sizes even when there are no elements. */
        if (sn_mul_overflow(numel, size > 1 ? size : 1, &numel) || numel > (int64_t)1 << 62)
            return sn_fail(m->env, SN_ERROR_TYPE, "%s: tensor has more than 2^62 elements", what);
    }
    return SN_OK;
}

/* ---- promotion and broadcasting ---- */

/* Width of an integral dtype; bool is narrower than all. */
static uint32_t int_width(sn_dtype t) { return t == SN_BOOL ? 0 : sn_dtype_bytes(t); }

/* A type with a sign that holds both: numpy's answer, also where PyTorch has none. None of 64 bits holds u64. */
static sn_dtype promote_signs(sn_dtype with, sn_dtype without) {
    if (int_width(with) > int_width(without)) return with;
    return without == SN_U8 ? SN_I16 : without == SN_U16 ? SN_I32 : without == SN_U32 ? SN_I64 : SN_F64;
}

sn_dtype sn_promote(sn_dtype a, sn_dtype b) {
    if (a == b) return a;
    if (sn_is_float(a) != sn_is_float(b)) return sn_is_float(a) ? a : b;
    if (sn_is_float(a) && sn_dtype_bytes(a) == sn_dtype_bytes(b)) return SN_F32; /* f16 with bf16 */
    if (sn_is_float(a)) return sn_dtype_bytes(a) > sn_dtype_bytes(b) ? a : b;
    if (sn_is_unsigned(a) == sn_is_unsigned(b)) return int_width(a) > int_width(b) ? a : b;
    return sn_is_unsigned(a) ? promote_signs(b, a) : promote_signs(a, b);
}

void sn_common_dtype_add(sn_common_dtype *c, const sn_type *t) {
    bool *has = t->rank ? &c->has_strong : &c->has_weak;
    sn_dtype *dtype = t->rank ? &c->strong : &c->weak;
    *dtype = *has ? sn_promote(*dtype, t->dtype) : t->dtype;
    *has = true;
}

/* 0 bool, 1 integer, 2 float. */
static int category(sn_dtype t) { return sn_is_float(t) ? 2 : t != SN_BOOL; }

sn_dtype sn_common_dtype_get(const sn_common_dtype *c) {
    if (!c->has_strong) return c->weak;
    bool decides = c->has_weak && category(c->weak) > category(c->strong);
    return decides ? sn_promote(c->strong, c->weak) : c->strong;
}

static bool is_one(const sn_module *m, sn_ix e) {
    int64_t c;
    return sn_ix_is_const(m, e, &c) && c == 1;
}

sn_status sn_broadcast(sn_type *out, sn_module *m, const char *what, const sn_type *a, const sn_type *b) {
    sn_type t = {.dtype = a->dtype, .rank = a->rank > b->rank ? a->rank : b->rank};
    for (uint32_t k = 0; k < t.rank; k++) {
        bool in_a = k + a->rank >= t.rank, in_b = k + b->rank >= t.rank;
        sn_ix x = in_a ? a->shape[k + a->rank - t.rank] : b->shape[k + b->rank - t.rank];
        sn_ix y = in_b ? b->shape[k + b->rank - t.rank] : x;
        if (!sn_ix_eq(x, y) && !is_one(m, x) && !is_one(m, y))
            return sn_fail(m->env, SN_ERROR_TYPE, "%s: shapes %s and %s do not broadcast (axis %u: %s vs %s)", what,
                           sn_shape_text(m, a), sn_shape_text(m, b), k, sn_ix_text(m, x), sn_ix_text(m, y));
        t.shape[k] = is_one(m, x) ? y : x;
    }
    *out = t;
    return SN_OK;
}

/* ---- sources ---- */

static void shape_from_attr(sn_rule *r) {
    const sn_attr *shape = sn_rule_attr(r, SN_ATTR_SHAPE);
    r->out->dtype = (sn_dtype)sn_rule_attr(r, SN_ATTR_DTYPE)->i;
    r->out->rank = shape->shape.n;
    for (uint32_t k = 0; k < shape->shape.n; k++) r->out->shape[k] = shape->shape.at[k];
}

static sn_status rule_input(sn_rule *r) { return sn_rule_fail(r, "inputs are declared in the graph's parameter list"); }

static sn_status rule_full(sn_rule *r) {
    shape_from_attr(r);
    return sn_rule_number(r, "value", r->out->dtype, sn_rule_attr(r, SN_ATTR_VALUE)->f);
}

static sn_status rule_constant(sn_rule *r) {
    const sn_attr *values = sn_rule_attr(r, SN_ATTR_VALUES);
    shape_from_attr(r);
    sn_dtype t = r->out->dtype;
    SN_TRY(sn_type_check(r->m, "constant", r->out));
    int64_t numel = 1;
    for (uint32_t k = 0; k < r->out->rank; k++) {
        int64_t size;
        if (!sn_ix_is_const(r->m, r->out->shape[k], &size))
            return sn_rule_fail(r, "shape %s must be constant", sn_shape_text(r->m, r->out));
        numel *= size;
    }
    if (values->numbers.n != (uint64_t)numel)
        return sn_rule_fail(r, "%llu values for the %lld elements of shape %s", (unsigned long long)values->numbers.n,
                            (long long)numel, sn_shape_text(r->m, r->out));
    if (numel == 0) return SN_OK;
    if (sn_is_float(t) ? !values->numbers.f : !values->numbers.i)
        return sn_rule_fail(r, "values are not %s for dtype %s", sn_is_float(t) ? "floats" : "integers",
                            sn_dtypes[t].name);
    if (sn_is_float(t)) return SN_OK;
    for (int64_t i = 0; i < numel; i++)
        if (sn_wrap_to(t, values->numbers.i[i]) != values->numbers.i[i])
            return sn_rule_fail(r, "value %lld is not a value of %s", (long long)values->numbers.i[i],
                                sn_dtypes[t].name);
    return SN_OK;
}

/* That sizes are constant, and one type a name, is checked when the weight gets its place in the table. */
static sn_status rule_weight(sn_rule *r) {
    shape_from_attr(r);
    return SN_OK;
}

static sn_status rule_sizes(sn_rule *r) {
    r->out->dtype = SN_I64;
    r->out->rank = 1;
    r->out->shape[0] = sn_ix_const(r->m, sn_rule_attr(r, SN_ATTR_ELEMENTS)->shape.n);
    return SN_OK;
}

static sn_status rule_iota(sn_rule *r) {
    uint32_t axis;
    shape_from_attr(r);
    if (r->out->dtype == SN_BOOL) return sn_rule_refuse(r, SN_BOOL, false);
    return sn_rule_axis(&axis, r, sn_rule_attr(r, SN_ATTR_AXIS)->i, r->out->rank);
}

/* ---- elementwise ---- */

/* Does the loop operation that this one lowers to exist on the dtype? */
static sn_status check_scalar(const sn_rule *r, sn_dtype t) {
    sn_lop lop = (sn_lop)sn_ops[r->op].lop;
    return sn_lop_allowed(lop, t) ? SN_OK : sn_rule_refuse(r, t, sn_lop_allowed(lop, SN_F32));
}

static sn_status rule_unary(sn_rule *r) {
    *r->out = *sn_rule_in(r, 0);
    return check_scalar(r, r->out->dtype);
}

static sn_status rule_test(sn_rule *r) {
    SN_TRY(rule_unary(r));
    r->out->dtype = SN_BOOL;
    return SN_OK;
}

static sn_status rule_binary(sn_rule *r) {
    const sn_type *a = sn_rule_in(r, 0), *b = sn_rule_in(r, 1);
    SN_TRY(sn_rule_same_dtype(r));
    SN_TRY(check_scalar(r, a->dtype));
    return sn_broadcast(r->out, r->m, sn_ops[r->op].name, a, b);
}

static sn_status rule_compare(sn_rule *r) {
    SN_TRY(rule_binary(r));
    r->out->dtype = SN_BOOL;
    return SN_OK;
}

static sn_status rule_where(sn_rule *r) {
    const sn_type *c = sn_rule_in(r, 0), *a = sn_rule_in(r, 1), *b = sn_rule_in(r, 2);
    if (c->dtype != SN_BOOL) return sn_rule_fail(r, "the condition is %s, not bool", sn_dtypes[c->dtype].name);
    if (a->dtype != b->dtype)
        return sn_rule_fail(r, "operand 2 is %s but operand 3 is %s; cast one of them", sn_dtypes[a->dtype].name,
                            sn_dtypes[b->dtype].name);
    sn_type both;
    SN_TRY(sn_broadcast(&both, r->m, "where", a, b));
    SN_TRY(sn_broadcast(r->out, r->m, "where", &both, c));
    return SN_OK;
}

static sn_status rule_cast(sn_rule *r) {
    *r->out = *sn_rule_in(r, 0);
    r->out->dtype = (sn_dtype)sn_rule_attr(r, SN_ATTR_DTYPE)->i;
    return SN_OK;
}

static sn_status rule_clamp(sn_rule *r) {
    const sn_attr *lo = sn_rule_attr(r, SN_ATTR_MIN), *hi = sn_rule_attr(r, SN_ATTR_MAX);
    *r->out = *sn_rule_in(r, 0);
    if (r->out->dtype == SN_BOOL) return sn_rule_refuse(r, SN_BOOL, false);
    if (!lo && !hi) return sn_rule_fail(r, "give min or max or both");
    if ((lo && isnan(lo->f)) || (hi && isnan(hi->f))) return sn_rule_fail(r, "a limit is nan");
    if (sn_is_float(r->out->dtype)) return SN_OK; /* a limit beyond its range is none */
    if (lo) SN_TRY(sn_rule_number(r, "min", r->out->dtype, lo->f));
    if (hi) SN_TRY(sn_rule_number(r, "max", r->out->dtype, hi->f));
    return SN_OK;
}

static sn_status rule_project(sn_rule *r) {
    const sn_node_rec *t = sn_node_get(r->m, r->in[0]);
    int64_t index = sn_rule_attr(r, SN_ATTR_INDEX)->i;
    uint32_t n;
    if (t->n_results < 2) return sn_rule_fail(r, "the operand (%s) is not a tuple", sn_ops[t->op].name);
    if (index < 0 || index >= t->n_results)
        return sn_rule_fail(r, "index %lld is not in 0 .. %u", (long long)index, t->n_results - 1);
    return sn_graph_infer(r->out, &n, r->m, t->op, t->in, t->n_in, t->attrs, t->n_attrs, (uint32_t)index);
}

/* ---- reductions ---- */

/* What an operation of class REDUCE (and logsumexp) takes and gives. */
typedef enum reduce_kind {
    REDUCE_WIDEN,    /* any dtype; integers and bool give i64 */
    REDUCE_KEEP,     /* any dtype, same dtype; no empty axes */
    REDUCE_POSITION, /* any dtype, i64; no empty axes */
    REDUCE_BOOL,     /* any dtype, bool */
    REDUCE_FLOAT,    /* float only, same dtype */
} reduce_kind;

static sn_status reduce_as(sn_rule *r, reduce_kind kind) {
    const sn_type *x = sn_rule_in(r, 0);
    bool keep = sn_rule_int(r, SN_ATTR_KEEPDIM, 0) != 0;
    uint32_t mask;
    if (kind == REDUCE_FLOAT) SN_TRY(sn_rule_need_float(r, 0));
    SN_TRY(sn_rule_mask(&mask, r, x->rank));
    for (uint32_t k = 0; k < x->rank; k++) {
        int64_t size;
        if (!(mask >> k & 1)) {
            r->out->shape[r->out->rank++] = x->shape[k];
            continue;
        }
        bool empty = sn_ix_is_const(r->m, x->shape[k], &size) && size == 0;
        if (empty && (kind == REDUCE_KEEP || kind == REDUCE_POSITION))
            return sn_rule_fail(r, "axis %u has no elements", k);
        if (keep) r->out->shape[r->out->rank++] = sn_ix_const(r->m, 1);
    }
    bool widen = kind == REDUCE_WIDEN && sn_is_integral(x->dtype);
    r->out->dtype = kind == REDUCE_BOOL ? SN_BOOL : kind == REDUCE_POSITION || widen ? SN_I64 : x->dtype;
    return SN_OK;
}

static sn_status reduce_widen(sn_rule *r) { return reduce_as(r, REDUCE_WIDEN); }
static sn_status reduce_keep(sn_rule *r) { return reduce_as(r, REDUCE_KEEP); }
static sn_status reduce_position(sn_rule *r) { return reduce_as(r, REDUCE_POSITION); }
static sn_status reduce_bool(sn_rule *r) { return reduce_as(r, REDUCE_BOOL); }
static sn_status reduce_float(sn_rule *r) { return reduce_as(r, REDUCE_FLOAT); }

static sn_status reduce_two(sn_rule *r) {
    r->n_results = 2;
    return reduce_as(r, REDUCE_FLOAT);
}

/* ---- scans ---- */

static sn_status rule_scan(sn_rule *r) {
    bool widens = r->op == SN_OP_CUMSUM || r->op == SN_OP_CUMPROD;
    uint32_t axis;
    *r->out = *sn_rule_in(r, 0);
    if (widens && sn_is_integral(r->out->dtype)) r->out->dtype = SN_I64;
    return sn_rule_axis(&axis, r, sn_rule_attr(r, SN_ATTR_AXIS)->i, r->out->rank);
}

/* ---- the table ---- */

static const rule_fn rule_of_op[SN_N_OPS] = {
    [SN_OP_INPUT] = rule_input,
    [SN_OP_FULL] = rule_full,
    [SN_OP_CONSTANT] = rule_constant,
    [SN_OP_IOTA] = rule_iota,
    [SN_OP_WEIGHT] = rule_weight,
    [SN_OP_SIZES] = rule_sizes,
    [SN_OP_WHERE] = rule_where,
    [SN_OP_CAST] = rule_cast,
    [SN_OP_CLAMP] = rule_clamp,
    [SN_OP_PROJECT] = rule_project,
    [SN_OP_REPEAT_STATE] = sn_rule_repeat_state,
    [SN_OP_REPEAT_SLICE] = sn_rule_repeat_slice,
    [SN_OP_REPEAT] = sn_rule_repeat,
    [SN_OP_COND] = sn_rule_cond,
    [SN_OP_SUM] = reduce_widen,
    [SN_OP_PROD] = reduce_widen,
    [SN_OP_MEAN] = reduce_float,
    [SN_OP_AMAX] = reduce_keep,
    [SN_OP_AMIN] = reduce_keep,
    [SN_OP_ARGMAX] = reduce_position,
    [SN_OP_ARGMIN] = reduce_position,
    [SN_OP_ANY] = reduce_bool,
    [SN_OP_ALL] = reduce_bool,
    [SN_OP_VAR] = reduce_float,
    [SN_OP_VAR_MEAN] = reduce_two,
    [SN_OP_RESHAPE] = sn_rule_reshape,
    [SN_OP_PERMUTE] = sn_rule_permute,
    [SN_OP_EXPAND] = sn_rule_expand,
    [SN_OP_SQUEEZE] = sn_rule_squeeze,
    [SN_OP_UNSQUEEZE] = sn_rule_unsqueeze,
    [SN_OP_SLICE] = sn_rule_slice,
    [SN_OP_UNFOLD] = sn_rule_unfold,
    [SN_OP_FLIP] = sn_rule_flip,
    [SN_OP_COPY] = sn_rule_copy,
    [SN_OP_PAD] = sn_rule_pad,
    [SN_OP_CONCAT] = sn_rule_concat,
    [SN_OP_GATHER] = sn_rule_gather,
    [SN_OP_INDEX_SELECT] = sn_rule_index_select,
    [SN_OP_SCATTER] = sn_rule_scatter,
    [SN_OP_SCATTER_SUM] = sn_rule_scatter_reduce,
    [SN_OP_SCATTER_PROD] = sn_rule_scatter_reduce,
    [SN_OP_SCATTER_MAX] = sn_rule_scatter_reduce,
    [SN_OP_SCATTER_MIN] = sn_rule_scatter_reduce,
    [SN_OP_MATMUL] = sn_rule_matmul,
    [SN_OP_CONV] = sn_rule_conv,
    [SN_OP_RELU] = sn_rule_relu,
    [SN_OP_GELU] = sn_rule_activation,
    [SN_OP_GELU_TANH] = sn_rule_activation,
    [SN_OP_SILU] = sn_rule_activation,
    [SN_OP_SOFTMAX] = sn_rule_softmax,
    [SN_OP_LOG_SOFTMAX] = sn_rule_softmax,
    [SN_OP_LOGSUMEXP] = reduce_float,
    [SN_OP_LAYER_NORM] = sn_rule_layer_norm,
    [SN_OP_RMS_NORM] = sn_rule_layer_norm,
    [SN_OP_BATCH_NORM] = sn_rule_batch_norm,
    [SN_OP_BATCH_NORM_TRAIN] = sn_rule_batch_norm,
    [SN_OP_CROSS_ENTROPY] = sn_rule_cross_entropy,
    [SN_OP_SORT] = sn_rule_sort,
    [SN_OP_TOPK] = sn_rule_sort,
    [SN_OP_RANDOM] = sn_rule_random,
    [SN_OP_RANDOM_NORMAL] = sn_rule_random_normal,
    [SN_OP_DROPOUT] = sn_rule_dropout,
};

/* Elementwise operations and scans share the rule of their class. */
static const rule_fn rule_of_class[] = {
    [SN_OPS_UNARY] = rule_unary, [SN_OPS_BINARY] = rule_binary, [SN_OPS_COMPARE] = rule_compare,
    [SN_OPS_TEST] = rule_test,   [SN_OPS_SCAN] = rule_scan,     [SN_OPS_REPEAT] = NULL,
};

static sn_status check_operands(const sn_rule *r) {
    const sn_op_info *op = &sn_ops[r->op];
    if (op->n_in < 0 && r->n_in == 0) return sn_rule_fail(r, "needs at least one operand");
    if (op->n_in >= 0 && r->n_in != (uint32_t)op->n_in)
        return sn_rule_fail(r, "takes %d operand%s, not %u", op->n_in, op->n_in == 1 ? "" : "s", r->n_in);
    for (uint32_t k = 0; k < r->n_in; k++) {
        if (r->in[k].i == 0 || r->in[k].i >= r->m->graph.nodes.count)
            return sn_rule_fail(r, "operand %u is missing", k + 1);
        if (sn_node_get(r->m, r->in[k])->n_results > 1 && r->op != SN_OP_PROJECT)
            return sn_rule_fail(r, "operand %u is a tuple (of %s); take a result of it with project", k + 1,
                                sn_ops[sn_node_get(r->m, r->in[k])->op].name);
    }
    return SN_OK;
}

sn_status sn_graph_infer(sn_type *out, uint32_t *n_results, sn_module *m, sn_op op, const sn_nd *in, uint32_t n_in,
                         const sn_attr *attrs, uint32_t n_attrs, uint32_t result) {
    if ((unsigned)op >= SN_N_OPS) return sn_fail(m->env, SN_ERROR_ARGUMENT, "there is no operation number %d", (int)op);
    sn_rule r = {m, op, in, n_in, attrs, n_attrs, result, out, 1};
    sn_status before = m->env->status;
    *out = (sn_type){0};
    SN_TRY(check_operands(&r));
    SN_TRY(sn_rule_check_attrs(&r));
    rule_fn rule = rule_of_op[op] ? rule_of_op[op] : rule_of_class[sn_ops[op].cls];
    SN_TRY(rule(&r));
    if (result >= r.n_results) return sn_rule_fail(&r, "has no result %u", result);
    SN_TRY(sn_type_check(m, sn_ops[op].name, out));
    if (before == SN_OK && m->env->status != SN_OK) return m->env->status; /* index arithmetic overflowed */
    *n_results = r.n_results;
    return SN_OK;
}
