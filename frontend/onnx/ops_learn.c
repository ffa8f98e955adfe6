/* ops_learn.c: operators of the domain ai.onnx.ml that are arithmetic on the columns of a table: what stands in front of a network when
 * a pipeline was exported, and linear models. x[N, C] or [C]; numbers of columns are attributes, one for all or one each.
 *
 * Labels (texts and their numbers), trees and kernels of support vectors are none of these, and are refused.
 */
#include "frontend/onnx/import.h"
#include "ir/graph/build.h"
#include "ir/index/ix.h"

#include <math.h>
#include <string.h>

/* The table and how many columns it has. */
static sn_status any_table(sn_nd *out, int64_t *columns, sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0);
    const sn_type *t = sn_graph_type(m, x);
    if (!x.i) return m->env->status;
    if (!t->rank || !sn_ix_is_const(m, t->shape[t->rank - 1], columns))
        return sn_onnx_fail(c, "a table of shape %s", sn_type_text(m, t));
    if (t->dtype == SN_BOOL) return sn_onnx_fail(c, "a table of bool");
    *out = x;
    return SN_OK;
}

/* As most operators compute it and give it back. */
static sn_status table(sn_nd *out, int64_t *columns, sn_onnx_call *c) {
    SN_TRY(any_table(out, columns, c));
    *out = sn_graph_cast(c->m, *out, SN_F32);
    return SN_OK;
}

/* The attribute as dtype[n], of one number or as many as there are columns; none without it. */
static sn_status row_of(sn_nd *out, sn_onnx_call *c, sn_dtype dtype, const char *name, int64_t columns) {
    const float *at;
    uint32_t n;
    *out = (sn_nd){0};
    if (!sn_onnx_attr_floats(&at, &n, c, name) || !n) return SN_OK;
    if (n != 1 && n != columns)
        return sn_onnx_fail(c, "%u numbers of %s for %lld columns", n, name, (long long)columns);
    double *wide = SN_NEWN(c->arena, double, n);
    for (uint32_t k = 0; k < n; k++) wide[k] = at[k];
    *out = sn_graph_floats(c->m, dtype, wide, (int64_t[]){n}, 1);
    return SN_OK;
}

static sn_status row(sn_nd *out, sn_onnx_call *c, const char *name, int64_t columns) {
    return row_of(out, c, SN_F32, name, columns);
}

/* (x - offset) * scale */
sn_status sn_onnx_scaler(sn_onnx_call *c) {
    sn_nd x, offset, scale;
    int64_t columns;
    SN_TRY(table(&x, &columns, c));
    SN_TRY(row(&offset, c, "offset", columns));
    SN_TRY(row(&scale, c, "scale", columns));
    if (offset.i) x = sn_graph_sub(c->m, x, offset);
    return sn_onnx_done(c, scale.i ? sn_graph_mul(c->m, x, scale) : x);
}

/* x > threshold. An integer is above a number where it is above the integer below; one of which no integer of its dtype is the
 * neighbour is below all of them, or above. */
static sn_nd above(sn_module *m, sn_nd x, double threshold) {
    const sn_dtype_info *t = &sn_dtypes[sn_graph_type(m, x)->dtype];
    if (t->cls == SN_CLASS_FLOAT || t->cls == SN_CLASS_BOOL)
        return sn_graph_binary(m, SN_OP_GT, x, sn_graph_number(m, x, threshold));
    const int bits = 8 * (int)t->bytes;
    const double end = ldexp(1, t->cls == SN_CLASS_INT ? bits - 1 : bits), least = t->cls == SN_CLASS_INT ? -end : 0;
    if (threshold < least) return sn_graph_binary(m, SN_OP_EQ, x, x);
    if (!(threshold < end)) return sn_graph_binary(m, SN_OP_NE, x, x); /* a nan is above nothing and below nothing */
    return sn_graph_binary(m, SN_OP_GT, x, sn_graph_number(m, x, floor(threshold)));
}

/* 1 where x is above the threshold, else 0, of its own dtype. */
sn_status sn_onnx_binarizer(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    double threshold = sn_onnx_attr_float(c, "threshold", 0);
    if (!x.i) return c->m->env->status;
    return sn_onnx_done(c, sn_graph_cast(c->m, above(c->m, x, threshold), sn_graph_type(c->m, x)->dtype));
}

/* Rows over their largest element, the sum of their magnitudes, or their length; rows of zeros stay. */
sn_status sn_onnx_normalizer(sn_onnx_call *c) {
    sn_module *m = c->m;
    const char *norm = sn_onnx_attr_text(c, "norm", "MAX");
    int64_t columns;
    sn_nd x, by;
    SN_TRY(table(&x, &columns, c));
    const int64_t last = (int64_t)sn_graph_type(m, x)->rank - 1;
    if (!strcmp(norm, "MAX")) by = sn_graph_reduce(m, SN_OP_AMAX, x, &last, 1, true);
    else if (!strcmp(norm, "L1")) by = sn_graph_reduce(m, SN_OP_SUM, sn_graph_unary(m, SN_OP_ABS, x), &last, 1, true);
    else if (!strcmp(norm, "L2"))
        by = sn_graph_unary(m, SN_OP_SQRT, sn_graph_reduce(m, SN_OP_SUM, sn_graph_mul(m, x, x), &last, 1, true));
    else return sn_onnx_fail(c, "norm %s", norm);
    sn_nd none = sn_graph_binary(m, SN_OP_EQ, by, sn_graph_number(m, by, 0));
    return sn_onnx_done(c, sn_graph_div(m, x, sn_graph_where(m, none, sn_graph_number(m, by, 1), by)));
}

/* x[N, C] times coefficients[targets, C]', and intercepts. */
sn_status sn_onnx_linear_regressor(sn_onnx_call *c) {
    static const int64_t transposed[] = {1, 0};
    sn_module *m = c->m;
    const char *post = sn_onnx_attr_text(c, "post_transform", "NONE");
    int64_t columns, targets = sn_onnx_attr_int(c, "targets", 1);
    const float *at;
    uint32_t n;
    sn_nd x, intercepts;
    SN_TRY(table(&x, &columns, c));
    if (strcmp(post, "NONE")) return sn_onnx_fail(c, "post_transform %s", post);
    if (!sn_onnx_attr_floats(&at, &n, c, "coefficients")) n = 0;
    if (targets < 1 || columns < 1 || n / targets != columns || n % targets)
        return sn_onnx_fail(c, "%u coefficients for %lld columns and %lld targets", n, (long long)columns,
                            (long long)targets);
    double *wide = SN_NEWN(c->arena, double, n);
    for (uint32_t k = 0; k < n; k++) wide[k] = at[k];
    sn_nd w = sn_graph_floats(m, SN_F32, wide, (int64_t[]){targets, columns}, 2);
    sn_nd y = sn_graph_matmul(m, x, sn_graph_permute(m, w, transposed, 2));
    if (sn_onnx_attr_floats(&at, &n, c, "intercepts") && n && n != targets)
        return sn_onnx_fail(c, "%u intercepts for %lld targets", n, (long long)targets);
    SN_TRY(row(&intercepts, c, "intercepts", targets));
    return sn_onnx_done(c, intercepts.i ? sn_graph_add(m, y, intercepts) : y);
}

static sn_status impute_ints(sn_onnx_call *c, sn_nd x, int64_t columns) {
    sn_module *m = c->m;
    const sn_dtype dtype = sn_graph_type(m, x)->dtype;
    const int64_t replaced = sn_onnx_attr_int(c, "replaced_value_int64", 0), *at;
    uint32_t n;
    sn_onnx_attr_ignore(c, "imputed_value_floats");
    sn_onnx_attr_ignore(c, "replaced_value_float");
    if (!sn_onnx_attr_ints(&at, &n, c, "imputed_value_int64s") || !n)
        return sn_onnx_fail(c, "attribute imputed_value_int64s is missing");
    if (n != 1 && n != columns)
        return sn_onnx_fail(c, "%u numbers of imputed_value_int64s for %lld columns", n, (long long)columns);
    for (uint32_t k = 0; k < n; k++)
        if (dtype == SN_I32 && at[k] != (int32_t)at[k])
            return sn_onnx_fail(c, "%lld for a column of %s", (long long)at[k], sn_dtypes[dtype].name);
    x = sn_graph_cast(m, x, SN_I64); /* where the number to be replaced has room */
    sn_nd missing = sn_graph_ints(m, SN_I64, &replaced, NULL, 0),
          instead = sn_graph_ints(m, SN_I64, at, (int64_t[]){n}, 1);
    x = sn_graph_where(m, sn_graph_binary(m, SN_OP_EQ, x, missing), instead, x);
    return sn_onnx_done(c, sn_graph_cast(m, x, dtype));
}

/* What is missing, a nan or another number, is replaced by a number of its column. A table of float64 or integers keeps its dtype. */
sn_status sn_onnx_imputer(sn_onnx_call *c) {
    sn_module *m = c->m;
    int64_t columns;
    sn_nd x, instead;
    SN_TRY(any_table(&x, &columns, c));
    const sn_dtype dtype = sn_graph_type(m, x)->dtype;
    if (!sn_is_float(dtype)) return impute_ints(c, x, columns);
    double replaced = sn_onnx_attr_float(c, "replaced_value_float", 0);
    sn_onnx_attr_ignore(c, "imputed_value_int64s");
    sn_onnx_attr_ignore(c, "replaced_value_int64");
    SN_TRY(row_of(&instead, c, dtype == SN_F64 ? SN_F64 : SN_F32, "imputed_value_floats", columns));
    if (!instead.i) return sn_onnx_fail(c, "attribute imputed_value_floats is missing");
    x = sn_graph_cast(m, x, dtype == SN_F64 ? SN_F64 : SN_F32);
    sn_nd is = isnan(replaced) ? sn_graph_unary(m, SN_OP_ISNAN, x)
                               : sn_graph_binary(m, SN_OP_EQ, x, sn_graph_number(m, x, replaced));
    return sn_onnx_done(c, sn_graph_where(m, is, instead, x));
}
