/* eval_move.c: reference evaluation of views and moves: which operand element each result element is. Relies on
 * the rules of rules_shape.c having checked shapes; positions of gathers are data and are checked here.
 */
#include "ir/graph/eval_internal.h"

#include <string.h>

/* out[i] = x[walk position 0], in row-major order of out. */
static void copy_walk(sn_eval *e, sn_walk *w) {
    for (int64_t i = 0; i < e->out->numel; i++, sn_walk_next(w))
        sn_array_set(e->out, i, sn_array_get(e->in[0], w->at[0]));
}

/* reshape, squeeze, unsqueeze, copy. */
static sn_status eval_same_order(sn_eval *e) {
    for (int64_t i = 0; i < e->out->numel; i++) sn_array_set(e->out, i, sn_array_get(e->in[0], i));
    return SN_OK;
}

static sn_status eval_permute(sn_eval *e) {
    const sn_attr *perm = sn_node_attr(e->m, e->x, SN_ATTR_PERM);
    sn_walk w = sn_walk_over(e->out->shape, e->out->rank);
    int64_t stride[SN_MAX_RANK];
    sn_row_strides(stride, e->in[0]->shape, e->in[0]->rank);
    for (uint32_t k = 0; k < e->out->rank; k++) w.stride[0][k] = stride[perm->ints.at[k]];
    copy_walk(e, &w);
    return SN_OK;
}

static sn_status eval_expand(sn_eval *e) {
    sn_walk w = sn_walk_over(e->out->shape, e->out->rank);
    sn_walk_broadcast(&w, 0, e->in[0]);
    copy_walk(e, &w);
    return SN_OK;
}

static sn_status eval_slice(sn_eval *e) {
    int64_t axis = sn_node_int(e->m, e->x, SN_ATTR_AXIS, 0);
    int64_t start = sn_slice_clamp(sn_node_int(e->m, e->x, SN_ATTR_START, 0), e->in[0]->shape[axis]);
    sn_walk w = sn_walk_over(e->out->shape, e->out->rank);
    sn_row_strides(w.stride[0], e->in[0]->shape, e->in[0]->rank);
    w.at[0] = start * w.stride[0][axis];
    /* With at most one position the step is never taken; a huge one must not overflow. */
    if (e->out->shape[axis] > 1) w.stride[0][axis] *= sn_node_int(e->m, e->x, SN_ATTR_STEP, 1);
    copy_walk(e, &w);
    return SN_OK;
}

/* The last axis of the result walks along the same axis of x as the one that counts windows. */
static sn_status eval_unfold(sn_eval *e) {
    int64_t axis = sn_node_int(e->m, e->x, SN_ATTR_AXIS, 0);
    const sn_attr *dilation = sn_node_attr(e->m, e->x, SN_ATTR_DILATION);
    sn_walk w = sn_walk_over(e->out->shape, e->out->rank);
    sn_row_strides(w.stride[0], e->in[0]->shape, e->in[0]->rank);
    w.stride[0][e->in[0]->rank] = w.stride[0][axis] * (dilation ? dilation->ints.at[0] : 1);
    w.stride[0][axis] *= sn_node_int(e->m, e->x, SN_ATTR_STEP, 1);
    copy_walk(e, &w);
    return SN_OK;
}

static sn_status eval_flip(sn_eval *e) {
    uint32_t mask = sn_node_axes_mask(e->m, e->x);
    sn_walk w = sn_walk_over(e->out->shape, e->out->rank);
    sn_row_strides(w.stride[0], e->in[0]->shape, e->in[0]->rank);
    for (uint32_t k = 0; k < w.rank; k++) {
        if (!(mask >> k & 1)) continue;
        w.at[0] += (w.shape[k] - 1) * w.stride[0][k];
        w.stride[0][k] = -w.stride[0][k];
    }
    copy_walk(e, &w);
    return SN_OK;
}

/* Every operand element goes to index + low, when that is inside. */
static sn_status eval_pad(sn_eval *e) {
    const sn_attr *low = sn_node_attr(e->m, e->x, SN_ATTR_LOW);
    const sn_array *x = e->in[0];
    sn_scalar value = {.f = sn_node_float(e->m, e->x, SN_ATTR_VALUE, 0)};
    int64_t stride[SN_MAX_RANK];
    value = sn_scalar_cast(e->out->dtype, SN_F64, value, true);
    for (int64_t i = 0; i < e->out->numel; i++) sn_array_set(e->out, i, value);
    sn_row_strides(stride, e->out->shape, e->out->rank);
    sn_walk w = sn_walk_over(x->shape, x->rank);
    for (int64_t i = 0; i < x->numel; i++, sn_walk_next(&w)) {
        int64_t to = 0;
        bool inside = true;
        for (uint32_t k = 0; k < x->rank && inside; k++) {
            int64_t at = w.index[k] + low->ints.at[k];
            inside = at >= 0 && at < e->out->shape[k];
            if (inside) to += at * stride[k];
        }
        if (inside) sn_array_set(e->out, to, sn_array_get(x, i));
    }
    return SN_OK;
}

static sn_status eval_concat(sn_eval *e) {
    int64_t axis = sn_node_int(e->m, e->x, SN_ATTR_AXIS, 0), start = 0;
    int64_t stride[SN_MAX_RANK];
    sn_row_strides(stride, e->out->shape, e->out->rank);
    for (uint32_t k = 0; k < e->n->n_in; k++) {
        const sn_array *x = e->in[k];
        sn_walk w = sn_walk_over(x->shape, x->rank);
        memcpy(w.stride[0], stride, sizeof stride);
        w.at[0] = start * stride[axis];
        for (int64_t i = 0; i < x->numel; i++, sn_walk_next(&w)) sn_array_set(e->out, w.at[0], sn_array_get(x, i));
        start += x->shape[axis];
    }
    return SN_OK;
}

/* Element i of an index counts from the end when negative. */
static sn_status wrap_index(int64_t *out, const sn_eval *e, const sn_array *indices, int64_t i, int64_t size) {
    int64_t index = indices->i[i];
    *out = index < 0 && indices->dtype != SN_U64 ? index + size : index;
    if (*out >= 0 && *out < size) return SN_OK;
    if (indices->dtype == SN_U64)
        return sn_eval_fail(e, "index %llu is outside an axis of %lld elements", (unsigned long long)index,
                            (long long)size);
    return sn_eval_fail(e, "index %lld is outside an axis of %lld elements", (long long)index, (long long)size);
}

static sn_status eval_gather(sn_eval *e) {
    const sn_array *x = e->in[0], *index = e->in[1];
    int64_t axis = sn_node_int(e->m, e->x, SN_ATTR_AXIS, 0);
    sn_walk w = sn_walk_over(e->out->shape, e->out->rank);
    sn_row_strides(w.stride[0], x->shape, x->rank);
    int64_t step = w.stride[0][axis];
    w.stride[0][axis] = 0; /* the index says where along this axis */
    for (int64_t i = 0; i < e->out->numel; i++, sn_walk_next(&w)) {
        int64_t at;
        SN_TRY(wrap_index(&at, e, index, i, x->shape[axis]));
        sn_array_set(e->out, i, sn_array_get(x, w.at[0] + at * step));
    }
    return SN_OK;
}

static sn_status eval_index_select(sn_eval *e) {
    const sn_array *x = e->in[0], *index = e->in[1];
    uint32_t axis = (uint32_t)sn_node_int(e->m, e->x, SN_ATTR_AXIS, 0);
    int64_t x_stride[SN_MAX_RANK], index_stride[SN_MAX_RANK];
    sn_walk w = sn_walk_over(e->out->shape, e->out->rank);
    sn_row_strides(x_stride, x->shape, x->rank);
    sn_row_strides(index_stride, index->shape, index->rank);
    for (uint32_t k = 0; k < e->out->rank; k++) {
        if (k < axis) w.stride[0][k] = x_stride[k];
        else if (k < axis + index->rank) w.stride[1][k] = index_stride[k - axis];
        else w.stride[0][k] = x_stride[k - index->rank + 1];
    }
    for (int64_t i = 0; i < e->out->numel; i++, sn_walk_next(&w)) {
        int64_t at;
        SN_TRY(wrap_index(&at, e, index, w.at[1], x->shape[axis]));
        sn_array_set(e->out, i, sn_array_get(x, w.at[0] + at * x_stride[axis]));
    }
    return SN_OK;
}

/* What an update does to a row: takes its place, or is combined with it. */
static sn_scalar updated(sn_op op, sn_dtype dtype, sn_scalar old, sn_scalar x) {
    static const sn_comb combs[SN_N_OPS] = {[SN_OP_SCATTER_SUM] = SN_COMB_SUM,
                                            [SN_OP_SCATTER_PROD] = SN_COMB_PROD,
                                            [SN_OP_SCATTER_MAX] = SN_COMB_MAX,
                                            [SN_OP_SCATTER_MIN] = SN_COMB_MIN};
    if (op == SN_OP_SCATTER) return x;
    sn_scalar_combine(combs[op], dtype, &old, &x, false);
    return old;
}

/* In order: of two equal positions of a plain scatter the last one wins. A row outside is dropped. */
static sn_status eval_scatter(sn_eval *e) {
    const sn_array *x = e->in[0], *index = e->in[1], *updates = e->in[2];
    int64_t rows = x->shape[0], length = rows ? x->numel / rows : 0;
    for (int64_t i = 0; i < x->numel; i++) sn_array_set(e->out, i, sn_array_get(x, i));
    for (int64_t m = 0; m < index->numel; m++) {
        int64_t to = index->i[m] < 0 && index->dtype != SN_U64 ? index->i[m] + rows : index->i[m];
        for (int64_t j = 0; j < length && to >= 0 && to < rows; j++) {
            sn_scalar old = sn_array_get(e->out, to * length + j), new = sn_array_get(updates, m * length + j);
            sn_array_set(e->out, to * length + j, updated(e->n->op, e->out->dtype, old, new));
        }
    }
    return SN_OK;
}

const sn_eval_fn sn_eval_move[SN_N_OPS] = {
    [SN_OP_RESHAPE] = eval_same_order,
    [SN_OP_SQUEEZE] = eval_same_order,
    [SN_OP_UNSQUEEZE] = eval_same_order,
    [SN_OP_PERMUTE] = eval_permute,
    [SN_OP_EXPAND] = eval_expand,
    [SN_OP_SLICE] = eval_slice,
    [SN_OP_UNFOLD] = eval_unfold,
    [SN_OP_FLIP] = eval_flip,
    [SN_OP_PAD] = eval_pad,
    [SN_OP_COPY] = eval_same_order,
    [SN_OP_CONCAT] = eval_concat,
    [SN_OP_GATHER] = eval_gather,
    [SN_OP_INDEX_SELECT] = eval_index_select,
    [SN_OP_SCATTER] = eval_scatter,
    [SN_OP_SCATTER_SUM] = eval_scatter,
    [SN_OP_SCATTER_PROD] = eval_scatter,
    [SN_OP_SCATTER_MAX] = eval_scatter,
    [SN_OP_SCATTER_MIN] = eval_scatter,
};
