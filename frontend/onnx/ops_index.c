/* ops_index.c: operators that read or write elements at positions which are themselves elements: gathers, scatters,
 * one-hot rows, reversed sequences, the largest elements. Negative positions count from the end.
 *
 * Positions on several axes become one: the number of a row of x[B.., n0, n1, R..] seen as [B*n0*n1, R]. That is how
 * the operations of the graph, which know one axis, serve GatherND and the scatters.
 */
#include "frontend/onnx/import.h"

#include <string.h>

/* Positions below 0 count from the end of an axis of that size. */
static sn_nd wrapped(sn_module *m, sn_nd at, sn_ix size) {
    return sn_graph_where(m, sn_graph_with(m, SN_OP_LT, at, 0), sn_graph_with_size(m, SN_OP_ADD, at, size), at);
}

/* ---- gathers ---- */

sn_status sn_onnx_gather(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0), at = sn_onnx_in(c, 1);
    return sn_onnx_done(c, sn_graph_index_select(c->m, x, at, sn_onnx_attr_int(c, "axis", 0)));
}

sn_status sn_onnx_gather_elements(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0), at = sn_onnx_in(c, 1);
    return sn_onnx_done(c, sn_graph_gather(c->m, x, at, sn_onnx_attr_int(c, "axis", 0)));
}

/* Positions of rows: tuples on the last axis of `at` say where on the axes batch .. batch+depth-1 of x. */
typedef struct rows {
    uint32_t batch, end; /* end: batch + depth */
    sn_nd number;        /* [groups, mid] */
    sn_ix all, width;    /* of x as rows */
    sn_ix mid;           /* positions in a group */
} rows;

/* (b * n0 + at[.., 0]) * n1 + at[.., 1] */
static sn_status number_rows(rows *out, sn_onnx_call *c, sn_nd x, sn_nd at, int64_t batch) {
    sn_module *m = c->m;
    const sn_type *t = sn_graph_type(m, x), *ti = sn_graph_type(m, at);
    int64_t depth;
    if (ti->rank < 1 || !sn_ix_is_const(m, ti->shape[ti->rank - 1], &depth))
        return sn_onnx_fail(c, "the last axis of the indices has no number as size");
    if (batch < 0 || batch >= ti->rank || depth < 1 || batch + depth > t->rank)
        return sn_onnx_fail(c, "positions on %lld axes after %lld batch axes, of rank %u", (long long)depth,
                            (long long)batch, t->rank);
    uint32_t b = (uint32_t)batch, end = (uint32_t)(batch + depth);
    *out = (rows){.batch = b, .end = end, .all = sn_ix_product(m, t->shape, end)};
    out->width = sn_ix_product(m, t->shape + end, t->rank - end);
    out->mid = sn_ix_product(m, ti->shape + b, ti->rank - 1 - b);
    sn_ix shape[] = {sn_ix_product(m, t->shape, b), out->mid};
    sn_nd number = b ? sn_graph_iota(m, SN_I64, 0, shape, 2) : (sn_nd){0};
    for (uint32_t k = 0; k < depth; k++) {
        sn_ix size = t->shape[b + k];
        sn_nd one = wrapped(m, sn_graph_reshape(m, sn_graph_pick(m, at, -1, k), shape, 2), size);
        number = number.i ? sn_graph_binary(m, SN_OP_ADD, sn_graph_with_size(m, SN_OP_MUL, number, size), one) : one;
    }
    out->number = number;
    return m->env->status;
}

sn_status sn_onnx_gather_nd(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), at = sn_graph_cast(m, sn_onnx_in(c, 1), SN_I64);
    const sn_type *t = sn_graph_type(m, x), *ti = sn_graph_type(m, at);
    rows r;
    SN_TRY(number_rows(&r, c, x, at, sn_onnx_attr_int(c, "batch_dims", 0)));
    sn_ix shape[2 * SN_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t k = 0; k + 1 < ti->rank; k++) shape[rank++] = k < r.batch ? t->shape[k] : ti->shape[k];
    for (uint32_t k = r.end; k < t->rank; k++) shape[rank++] = t->shape[k];
    sn_nd y = sn_graph_reshape(m, x, (sn_ix[]){r.all, r.width}, 2);
    return sn_onnx_done(c, sn_graph_reshape(m, sn_graph_index_select(m, y, r.number, 0), shape, rank));
}

/* ---- scatters ---- */

static sn_status scatter_op(sn_op *out, sn_onnx_call *c) {
    static const struct {
        const char *name;
        sn_op op;
    } reductions[] = {{"none", SN_OP_SCATTER},
                      {"add", SN_OP_SCATTER_SUM},
                      {"mul", SN_OP_SCATTER_PROD},
                      {"max", SN_OP_SCATTER_MAX},
                      {"min", SN_OP_SCATTER_MIN}};
    const char *name = sn_onnx_attr_text(c, "reduction", "none");
    for (uint32_t k = 0; k < SN_COUNT(reductions); k++)
        if (!strcmp(reductions[k].name, name)) return *out = reductions[k].op, SN_OK;
    return sn_onnx_fail(c, "reduction %s", name);
}

/* Without a reduction no two updates may go to one place: the model answers for that. */
sn_status sn_onnx_scatter_nd(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), at = sn_graph_cast(m, sn_onnx_in(c, 1), SN_I64), updates = sn_onnx_in(c, 2);
    const sn_type *t = sn_graph_type(m, x);
    sn_op op;
    rows r;
    SN_TRY(scatter_op(&op, c));
    SN_TRY(number_rows(&r, c, x, at, 0));
    sn_nd y = sn_graph_scatter(m, op, sn_graph_reshape(m, x, (sn_ix[]){r.all, r.width}, 2),
                               sn_graph_reshape(m, r.number, &r.mid, 1),
                               sn_graph_reshape(m, updates, (sn_ix[]){r.mid, r.width}, 2));
    return sn_onnx_done(c, sn_graph_reshape(m, y, t->shape, t->rank));
}

/* How many of the last axes of x, behind `axis`, all updates cover whole, each of them at one position: where the index has been
 * expanded along them. */
static uint32_t whole_axes(sn_module *m, sn_nd x, sn_nd index, uint32_t axis) {
    const sn_node_rec *n = sn_node_get(m, index);
    while (n->op == SN_OP_CAST) n = sn_node_get(m, n->in[0]);
    if (n->op != SN_OP_EXPAND) return 0;
    const sn_type *t = sn_graph_type(m, x), *wide = &n->type, *from = sn_graph_type(m, n->in[0]);
    uint32_t more = 0;
    for (uint32_t k = t->rank; --k > axis; more++) {
        uint32_t behind = t->rank - k;
        int64_t size = 1;
        if (wide->shape[k].i != t->shape[k].i) break;
        if (behind <= from->rank && !sn_ix_is_const(m, from->shape[from->rank - behind], &size)) break;
        if (size != 1) break;
    }
    return more;
}

/* An update goes to its own place but for one axis, where the index stands for it: each element is a row, or all of the axes
 * are along which the index is the same. */
sn_status sn_onnx_scatter_elements(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), at = sn_graph_cast(m, sn_onnx_in(c, 1), SN_I64), updates = sn_onnx_in(c, 2);
    const sn_type *t = sn_graph_type(m, x);
    sn_op op;
    uint32_t axis;
    SN_TRY(scatter_op(&op, c));
    SN_TRY(sn_onnx_axis(&axis, c, sn_onnx_attr_int(c, "axis", 0), t->rank));
    uint32_t rank = sn_graph_type(m, at)->rank;
    if (rank != t->rank) return sn_onnx_fail(c, "indices of rank %u for a tensor of rank %u", rank, t->rank);
    uint32_t more = whole_axes(m, x, at, axis), lead = rank - more;
    for (uint32_t k = 0; k < more; k++) at = sn_graph_pick(m, at, -1, 0);
    const sn_type *ti = sn_graph_type(m, at);
    sn_nd number = {0};
    for (uint32_t k = 0; k < lead; k++) {
        sn_nd one = k == axis ? wrapped(m, at, t->shape[k]) : sn_graph_iota(m, SN_I64, k, ti->shape, lead);
        number = k ? sn_graph_binary(m, SN_OP_ADD, sn_graph_with_size(m, SN_OP_MUL, number, t->shape[k]), one) : one;
    }
    sn_ix n = sn_ix_product(m, ti->shape, lead), width = sn_ix_product(m, t->shape + lead, more);
    sn_ix rows[] = {sn_ix_product(m, t->shape, lead), width}, put[] = {n, width};
    uint32_t as = more ? 2 : 1;
    sn_nd y = sn_graph_scatter(m, op, sn_graph_reshape(m, x, rows, as), sn_graph_reshape(m, number, &n, 1),
                               sn_graph_reshape(m, updates, put, as));
    return sn_onnx_done(c, sn_graph_reshape(m, y, t->shape, t->rank));
}

/* ---- positions that are compared ---- */

/* Sizes of 1 but for one axis. */
static void only_axis(sn_ix *shape, sn_module *m, uint32_t rank, uint32_t axis, sn_ix size) {
    for (uint32_t k = 0; k < rank; k++) shape[k] = k == axis ? size : sn_ix_const(m, 1);
}

/* The number of classes may be of any type. */
static sn_status one_hot_depth(sn_ix *out, sn_onnx_call *c) {
    const sn_array *a;
    sn_ix sizes[SN_KNOWN_MAX];
    uint32_t n = 1;
    if (!sn_is_float(sn_graph_type(c->m, sn_onnx_in(c, 1))->dtype)) {
        SN_TRY(sn_onnx_sizes(sizes, &n, c, 1));
        *out = sizes[0];
    } else {
        SN_TRY(sn_onnx_array(&a, c, sn_onnx_in(c, 1)));
        n = (uint32_t)a->numel;
        *out = sn_ix_const(c->m, n == 1 ? (int64_t)a->f[0] : 0);
    }
    return n == 1 ? SN_OK : sn_onnx_fail(c, "the depth has %u elements; one is wanted", n);
}

/* `on` where the position along the new axis is the index, `off` elsewhere: everywhere for an index beyond the
 * depth. */
sn_status sn_onnx_one_hot(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd at = sn_graph_cast(m, sn_onnx_in(c, 0), SN_I64), values = sn_onnx_in(c, 2);
    uint32_t axis, rank = sn_graph_type(m, at)->rank + 1;
    sn_ix depth, shape[SN_MAX_RANK + 1];
    SN_TRY(one_hot_depth(&depth, c));
    SN_TRY(sn_onnx_axis(&axis, c, sn_onnx_attr_int(c, "axis", -1), rank));
    only_axis(shape, m, rank, axis, depth);
    at = sn_graph_unsqueeze(m, wrapped(m, at, depth), (int64_t[]){axis}, 1);
    sn_nd is_on = sn_graph_binary(m, SN_OP_EQ, at, sn_graph_iota(m, SN_I64, axis, shape, rank));
    return sn_onnx_done(c, sn_graph_where(m, is_on, sn_graph_pick(m, values, 0, 1), sn_graph_pick(m, values, 0, 0)));
}

/* Element t of a sequence of length n is element n-1-t; behind its end nothing moves. */
sn_status sn_onnx_reverse_sequence(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), n = sn_graph_cast(m, sn_onnx_in(c, 1), SN_I64);
    const sn_type *t = sn_graph_type(m, x);
    sn_ix shape[SN_MAX_RANK];
    uint32_t time, batch;
    SN_TRY(sn_onnx_axis(&time, c, sn_onnx_attr_int(c, "time_axis", 0), t->rank));
    SN_TRY(sn_onnx_axis(&batch, c, sn_onnx_attr_int(c, "batch_axis", 1), t->rank));
    only_axis(shape, m, t->rank, batch, t->shape[batch]);
    n = sn_graph_reshape(m, n, shape, t->rank);
    only_axis(shape, m, t->rank, time, t->shape[time]);
    sn_nd step = sn_graph_iota(m, SN_I64, time, shape, t->rank);
    sn_nd mirrored = sn_graph_with(m, SN_OP_SUB, sn_graph_binary(m, SN_OP_SUB, n, step), 1);
    sn_nd from = sn_graph_where(m, sn_graph_binary(m, SN_OP_LT, step, n), mirrored, step);
    return sn_onnx_done(c, sn_graph_gather(m, x, sn_graph_expand(m, from, t->shape, t->rank), time));
}

/* How many is an attribute before opset 10. Sorted or not: they come sorted. */
sn_status sn_onnx_topk(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    int64_t k = sn_onnx_attr_int(c, "k", 0), axis = sn_onnx_attr_int(c, "axis", -1);
    bool largest = sn_onnx_attr_int(c, "largest", 1);
    sn_onnx_attr_ignore(c, "sorted");
    if (c->opset >= 10) SN_TRY(sn_onnx_int(&k, c, 1));
    sn_nd both = sn_graph_topk(c->m, x, k, axis, largest);
    if (!both.i) return c->m->env->status;
    sn_onnx_out(c, 1, sn_graph_project(c->m, both, 1));
    return sn_onnx_done(c, sn_graph_project(c->m, both, 0));
}

/* A cache whose elements from a place on, along `axis`, are those of the update: one place for each of axis 0. Mode circular goes on
 * at the beginning. Each element looks whether it is one of them. */
sn_status sn_onnx_tensor_scatter(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd past = sn_onnx_in(c, 0), update = sn_onnx_in(c, 1);
    const char *mode = sn_onnx_attr_text(c, "mode", "linear");
    bool circular = !strcmp(mode, "circular");
    sn_type t = *sn_graph_type(m, past);
    uint32_t axis;
    SN_TRY(sn_onnx_axis(&axis, c, sn_onnx_attr_int(c, "axis", -2), t.rank));
    if (!axis || (!circular && strcmp(mode, "linear"))) return sn_onnx_fail(c, "mode %s along axis %u", mode, axis);
    sn_nd at = sn_graph_iota(m, SN_I64, axis, t.shape, t.rank);
    if (sn_onnx_has(c, 2)) at = sn_graph_sub(m, at, sn_graph_align(m, sn_onnx_in(c, 2), 0, t.rank));
    if (circular) at = wrapped(m, sn_graph_with_size(m, SN_OP_REM, at, t.shape[axis]), t.shape[axis]);
    SN_TRY(m->env->status);
    sn_ix n = sn_graph_type(m, update)->shape[axis];
    sn_nd inside =
        sn_graph_binary(m, SN_OP_AND, sn_graph_with(m, SN_OP_GE, at, 0), sn_graph_with_size(m, SN_OP_LT, at, n));
    sn_nd place = sn_graph_where(m, inside, at, sn_graph_number(m, at, 0));
    return sn_onnx_done(c, sn_graph_where(m, inside, sn_graph_gather(m, update, place, axis), past));
}
