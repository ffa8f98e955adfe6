/* join_parts.c: the pass `join-parts`: parts of a concatenation that are computed alike, of windows of one tensor, are computed as one.
 *
 *     %s0 = slice %x axis=1 start=0 stop=512     %a0 = sub %l, %s0    %u0 = unsqueeze %a0 axes=[0]
 *     %s1 = slice %x axis=1 start=1 stop=513     %a1 = sub %l, %s1    %u1 = unsqueeze %a1 axes=[0]    ..
 *     %y  = concat %u0, %u1, .. axis=0
 *  -> %w  = unfold %x axis=1 size=32     %v = permute %w perm=[2, 0, 1]     %y = sub %l, %v
 *
 * A program that shifts an image by each of 32 distances, and does the same with all of it, is written as a loop, and stacks what comes
 * out: 32 parts, which a kernel tells apart by tests in each iteration, or 32 kernels in front of it. As windows of one tensor they are
 * an axis like any other. Costs of stereo and of template matching, taps of filters, time delays, patches by hand.
 *
 * Going from the parts towards what they are made of, operations have to be the same with the same attributes; operands are one value
 * for all parts, or are alike in their turn, down to slices whose starts ascend or descend by equal steps. Legal: the same operations
 * on the same elements. What somebody else reads of the old operations is computed once more. Cost: parts times operations, at most
 * MOST_NODES of the latter.
 */
#include "ir/graph/build.h"
#include "ir/graph/internal.h"
#include "passes/base/constants.h"
#include "passes/graph/rewrite.h"

#include <string.h>

enum { MOST_NODES = 64, MOST_OPERANDS = 3, MOST_ATTRS = 8 };

/* Nodes that are the same of each part, and what they are as one: with an axis of parts in front. */
typedef struct row {
    const sn_nd *at;
    sn_nd joined;
} row;

typedef struct joining {
    sn_pass_ctx *cx;
    sn_module *m;
    uint32_t n, n_rows;
    row rows[MOST_NODES];
} joining;

static sn_nd join(joining *j, const sn_nd *at);

static const sn_node_rec *node_of(const joining *j, sn_nd x) { return sn_node_get(j->m, x); }

static bool all_one(const joining *j, const sn_nd *at) {
    for (uint32_t k = 1; k < j->n; k++)
        if (!sn_nd_eq(at[k], at[0])) return false;
    return true;
}

/* Operations that go on with an axis in front of the others. */
static bool may_join(sn_op op) {
    switch (sn_ops[op].cls) {
    case SN_OPS_UNARY:
    case SN_OPS_BINARY:
    case SN_OPS_COMPARE:
    case SN_OPS_TEST:
    case SN_OPS_VIEW: return true;
    case SN_OPS_REDUCE: return op != SN_OP_VAR_MEAN;
    default: return op == SN_OP_WHERE || op == SN_OP_CAST || op == SN_OP_CLAMP || op == SN_OP_PAD;
    }
}

/* Do both do the same, starts of slices aside? */
static bool is_alike(const sn_node_rec *a, const sn_node_rec *b) {
    bool slice = a->op == SN_OP_SLICE;
    if (a->op != b->op || a->n_in != b->n_in || a->n_attrs != b->n_attrs || !sn_type_eq(&a->type, &b->type))
        return false;
    for (uint32_t k = 0; k < a->n_attrs; k++) {
        sn_attr_id id = a->attrs[k].id;
        if (id != b->attrs[k].id) return false;
        bool place = slice && (id == SN_ATTR_START || id == SN_ATTR_STOP);
        if (!place && !sn_attr_eq(&a->attrs[k], &b->attrs[k])) return false;
    }
    return true;
}

/* Position of the first element of a slice; false: it is not known. */
static bool start_of(int64_t *out, const joining *j, sn_nd x) {
    const sn_node_rec *n = node_of(j, x);
    int64_t axis = sn_node_int(j->m, x, SN_ATTR_AXIS, 0), size, start = sn_node_int(j->m, x, SN_ATTR_START, 0);
    if (!sn_ix_is_const(j->m, sn_type_of(j->m, n->in[0])->shape[axis], &size)) return false;
    *out = start < 0 ? start + size : start;
    return *out >= 0 && *out < size;
}

static bool start_together(const joining *j, const sn_nd *at) {
    int64_t first, here;
    if (!start_of(&first, j, at[0])) return false;
    for (uint32_t k = 1; k < j->n; k++)
        if (!start_of(&here, j, at[k]) || here != first) return false;
    return true;
}

/* Slices of one value whose starts are at equal distances: its windows. none: they are not. */
static sn_nd join_windows(joining *j, const sn_nd *at) {
    sn_module *m = j->m;
    const sn_node_rec *n = node_of(j, at[0]);
    int64_t axis = sn_node_int(m, at[0], SN_ATTR_AXIS, 0), step = sn_node_int(m, at[0], SN_ATTR_STEP, 1);
    int64_t first, second, here, count, parts = j->n;
    if (!start_of(&first, j, at[0]) || !start_of(&second, j, at[1]) || first == second) return (sn_nd){0};
    if (!sn_ix_is_const(m, n->type.shape[axis], &count) || count < 1 || n->type.rank == SN_MAX_RANK) return (sn_nd){0};
    int64_t by = second - first;
    for (uint32_t k = 0; k < j->n; k++) {
        if (!sn_nd_eq(node_of(j, at[k])->in[0], n->in[0]) || !start_of(&here, j, at[k])) return (sn_nd){0};
        if (here != first + k * by) return (sn_nd){0};
    }
    int64_t low = by > 0 ? first : first + (parts - 1) * by, apart = by > 0 ? by : -by;
    if (apart > INT32_MAX || step > INT32_MAX) return (sn_nd){0}; /* no steps of windows */
    sn_nd all = sn_graph_slice(m, n->in[0], axis, low, low + (count - 1) * step + (parts - 1) * apart + 1, 1);
    sn_nd windows = sn_graph_unfold(m, all, axis, parts, step, apart);
    if (!windows.i) return windows;
    sn_nd joined = sn_graph_move_axis(m, windows, sn_type_of(m, windows)->rank - 1, 0);
    return by > 0 ? joined : sn_graph_flip(m, joined, 0);
}

/* An attribute of the operation with an axis of parts in front. */
static sn_attr with_axis(joining *j, const sn_attr *a) {
    sn_arena *arena = &j->m->arena;
    sn_attr out = *a;
    bool places = a->id == SN_ATTR_AXES, perm = a->id == SN_ATTR_PERM;
    if (a->id == SN_ATTR_AXIS) out.i++;
    if (a->id == SN_ATTR_SHAPE) {
        sn_ix *at = SN_NEWN(arena, sn_ix, a->shape.n + 1);
        at[0] = sn_ix_const(j->m, j->n);
        for (uint32_t k = 0; k < a->shape.n; k++) at[k + 1] = a->shape.at[k];
        out.shape.at = at, out.shape.n++;
    }
    if (!places && !perm && a->id != SN_ATTR_LOW && a->id != SN_ATTR_HIGH) return out;
    int64_t *at = SN_NEWN(arena, int64_t, a->ints.n + 1);
    uint32_t front = !places;
    for (uint32_t k = 0; k < a->ints.n; k++) at[k + front] = a->ints.at[k] + (places || perm);
    out.ints.at = at, out.ints.n += front;
    return out;
}

/* What is joined with as many axes behind that of the parts: axes meet from the last one on, and new ones are in front. */
static sn_nd fill_axes(joining *j, sn_nd joined, uint32_t rank) {
    int64_t axes[SN_MAX_RANK];
    if (!joined.i) return joined;
    uint32_t more = rank + 1 - sn_type_of(j->m, joined)->rank;
    for (uint32_t k = 0; k < more; k++) axes[k] = 1 + k;
    return more ? sn_graph_unsqueeze(j->m, joined, axes, more) : joined;
}

/* Operands that are one value for all parts keep their axes, which are the last ones of the others. At least one is not: nodes that
 * differ all the same are slices that stop at different places behind the same elements, and would be as one without an axis of parts. */
static sn_nd join_operands(joining *j, const sn_nd *at) {
    const sn_node_rec *n = node_of(j, at[0]);
    sn_nd in[MOST_OPERANDS];
    sn_attr attrs[MOST_ATTRS];
    if (!may_join(n->op) || !n->n_in || n->n_in > MOST_OPERANDS || n->n_attrs > MOST_ATTRS) return (sn_nd){0};
    uint32_t rank = n->type.rank, n_joined = 0;
    sn_opclass cls = sn_ops[n->op].cls;
    bool meet = n->op == SN_OP_EXPAND || (cls != SN_OPS_VIEW && cls != SN_OPS_REDUCE);
    if (rank == SN_MAX_RANK) return (sn_nd){0};
    for (uint32_t i = 0; i < n->n_in; i++) {
        sn_nd *operands = SN_NEWN(j->cx->scratch, sn_nd, j->n);
        for (uint32_t k = 0; k < j->n; k++) operands[k] = node_of(j, at[k])->in[i];
        bool one = all_one(j, operands);
        in[i] = one ? operands[0] : join(j, operands);
        if (!one && meet) in[i] = fill_axes(j, in[i], rank);
        if (!in[i].i) return in[i];
        n_joined += !one;
    }
    if (!n_joined) return (sn_nd){0};
    n = node_of(j, at[0]);
    for (uint32_t k = 0; k < n->n_attrs; k++) attrs[k] = with_axis(j, &n->attrs[k]);
    return sn_graph_node(j->m, n->op, in, n->n_in, attrs, n->n_attrs);
}

/* As one node, with an axis of parts in front; none: they are not alike. Each row is looked at once. */
static sn_nd join(joining *j, const sn_nd *at) {
    for (uint32_t i = 0; i < j->n_rows; i++)
        if (!memcmp(j->rows[i].at, at, j->n * sizeof *at)) return j->rows[i].joined;
    if (j->n_rows == MOST_NODES) return (sn_nd){0};
    row *r = &j->rows[j->n_rows++];
    *r = (row){.at = at};
    for (uint32_t k = 1; k < j->n; k++)
        if (!is_alike(node_of(j, at[0]), node_of(j, at[k]))) return (sn_nd){0};
    if (node_of(j, at[0])->op == SN_OP_SLICE && !start_together(j, at)) r->joined = join_windows(j, at);
    else r->joined = join_operands(j, at);
    return r->joined;
}

/* A part without the axis of parts, of which it has one element; none: that is not there. */
static sn_nd without_axis(const joining *j, sn_nd part, int64_t axis) {
    const sn_node_rec *n = node_of(j, part);
    if ((n->op != SN_OP_UNSQUEEZE && n->op != SN_OP_RESHAPE) || n->n_in != 1) return (sn_nd){0};
    const sn_type *in = sn_type_of(j->m, n->in[0]);
    int64_t size;
    if (in->rank + 1 != n->type.rank || !sn_ix_is_const(j->m, n->type.shape[axis], &size) || size != 1)
        return (sn_nd){0};
    for (uint32_t k = 0, i = 0; k < n->type.rank; k++)
        if (k != (uint32_t)axis && !sn_ix_eq(n->type.shape[k], in->shape[i++])) return (sn_nd){0};
    return n->in[0];
}

static sn_nd join_concat(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *n = sn_node_get(cx->m, x);
    if (n->op != SN_OP_CONCAT || n->n_in < SN_JOIN_PARTS) return x;
    joining *j = SN_NEW(cx->scratch, joining);
    *j = (joining){.cx = cx, .m = cx->m, .n = n->n_in};
    int64_t axis = sn_node_int(cx->m, x, SN_ATTR_AXIS, 0);
    sn_nd *at = SN_NEWN(cx->scratch, sn_nd, n->n_in);
    for (uint32_t k = 0; k < n->n_in; k++)
        if (!(at[k] = without_axis(j, n->in[k], axis)).i) return x;
    if (all_one(j, at)) return x;
    sn_nd joined = join(j, at);
    if (!joined.i) return cx->m->env->status == SN_OK ? x : joined;
    return sn_graph_move_axis(cx->m, joined, 0, (uint32_t)axis);
}

sn_status sn_pass_join_parts(sn_pass_ctx *cx, bool *changed) { return sn_graph_rewrite(cx, join_concat, changed); }
