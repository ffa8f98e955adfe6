/* decompose_lanes.c: small matrix products whose numbers lie side by side in memory are sums of products. Part of the pass `decompose`.
 *
 *     %a = permute %f perm=[2, 0, 1] ;  %b = permute %w perm=[2, 0, 1]           (%f: [4, 32, 288], %w: [32, 32, 288])
 *     %y = matmul %a, %b : [288, 4, 32]
 *  -> %0 = unsqueeze %f axes=[2] ;  %1 = unsqueeze %w axes=[0] ;  %2 = mul %0, %1      (as f32 where they are halves)
 *     %3 = sum %2 axes=[1] ;  %y = permute %3 perm=[2, 0, 1]                           [4, 32, 288]
 *
 * Modes of a spectrum, pixels, channels: the axis that numbers the matrices is the last one in memory, of both operands. A tile of one
 * product would draw an element from each line; here lanes have neighbouring products, all of which read and store whole lines.
 *
 * Legality: always; the order of a sum is not part of what a product means. Which: on a GPU, where all multiplications, whose operands
 * come from the nearest cache, take no longer than to turn the operands in memory first, and a tile of a product would. A
 * product that carries a schedule is left alone. Cost: linear in the views of an operand.
 */
#include "passes/graph/decompose.h"

#include "ir/graph/build.h"
#include "passes/base/constants.h"

/* Elements behind axis k, or -1. */
static int64_t behind(const sn_module *m, const sn_type *t, uint32_t k) {
    int64_t n = 1, size;
    for (uint32_t i = k + 1; i < t->rank; i++) {
        if (!sn_ix_is_const(m, t->shape[i], &size) || sn_mul_overflow(n, size, &n)) return -1;
    }
    return n;
}

/* The axis of a reshape that has the elements of axis k of its operand, or the last ones of them if it is cut or joined behind others;
 * rank: there is none. */
static uint32_t axis_behind(const sn_module *m, const sn_type *from, uint32_t k, const sn_type *to) {
    int64_t n = behind(m, from, k);
    uint32_t at = 0;
    while (at < to->rank && behind(m, to, at) != n) at++;
    bool same = n == 1 || (n > 0 && at < to->rank && sn_ix_eq(to->shape[at], from->shape[k]));
    return same ? at : to->rank;
}

/* The axis of x along which what lies in memory is side by side; rank: nobody knows. */
static uint32_t lane_axis(const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    uint32_t rank = n->type.rank, of;
    if (n->op == SN_OP_CAST) return lane_axis(m, n->in[0]);
    if (n->op != SN_OP_PERMUTE && n->op != SN_OP_RESHAPE && n->op != SN_OP_SQUEEZE && n->op != SN_OP_UNSQUEEZE)
        return sn_ops[n->op].cls == SN_OPS_VIEW || !rank ? rank : rank - 1;
    of = lane_axis(m, n->in[0]);
    if (of >= sn_type_of(m, n->in[0])->rank) return rank;
    if (n->op != SN_OP_PERMUTE) return axis_behind(m, sn_type_of(m, n->in[0]), of, &n->type);
    for (uint32_t k = 0; k < rank; k++) {
        int64_t from = sn_node_attr(m, x, SN_ATTR_PERM)->ints.at[k];
        if ((from < 0 ? from + rank : from) == of) return k;
    }
    return rank;
}

/* Operand k [.., rows, columns] as [rows, sum, columns, ..], with one row (k = 1) or column (k = 0). */
static sn_nd with_lanes_behind(sn_module *m, sn_nd x, uint32_t k) {
    uint32_t rank = sn_type_of(m, x)->rank;
    int64_t perm[SN_MAX_RANK], axis = k ? 0 : 2;
    for (uint32_t i = 0; i < rank; i++) perm[i] = i < 2 ? rank - 2 + i : i - 2;
    x = sn_graph_permute(m, sn_graph_cast(m, x, sn_compute_dtype(sn_type_of(m, x)->dtype)), perm, rank);
    return sn_graph_unsqueeze(m, x, &axis, 1);
}

/* Do so many multiplications, on bytes that would be turned, take no longer than that? */
static bool is_short(const sn_pass_ctx *cx, const sn_type *a, const sn_type *b, const sn_type *y) {
    const sn_target *t = cx->target;
    int64_t elements, depth, first, second;
    if (!sn_type_static(cx->m, y, &elements) || !sn_ix_is_const(cx->m, a->shape[a->rank - 1], &depth)) return false;
    if (!sn_type_static(cx->m, a, &first) || !sn_type_static(cx->m, b, &second)) return false;
    double loads = 2.0 * (double)elements * (double)depth / (SN_LANES_LOADS * t->units);
    double bytes = 2.0 * ((double)first + (double)second) * sn_dtype_bytes(a->dtype);
    return loads <= bytes / (t->units * t->cycle_bytes) + SN_LAUNCH;
}

sn_nd sn_dec_lanes(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec n = *sn_node_get(m, x);
    uint32_t rank = n.type.rank;
    if (!cx->target->is_gpu || !sn_is_float(n.type.dtype) || rank < 3 || rank + 1 > SN_MAX_RANK) return x;
    if (sn_node_attr(m, x, SN_ATTR_SCHEDULE) || sn_node_attr(m, x, SN_ATTR_ONLINE)) return x;
    const sn_type a = *sn_type_of(m, n.in[0]), b = *sn_type_of(m, n.in[1]);
    if (a.rank != rank || b.rank != rank || a.dtype != b.dtype) return x;
    for (uint32_t k = 0; k + 2 < rank; k++)
        if (!sn_ix_eq(a.shape[k], b.shape[k])) return x;
    int64_t size;
    uint32_t lane = lane_axis(m, n.in[0]);
    if (lane + 2 >= rank || lane_axis(m, n.in[1]) != lane || !sn_ix_is_const(m, a.shape[lane], &size) ||
        size < SN_LANES_SIZE)
        return x;
    if (!is_short(cx, &a, &b, &n.type)) return x;
    sn_nd y = sn_graph_mul(m, with_lanes_behind(m, n.in[0], 0), with_lanes_behind(m, n.in[1], 1));
    y = sn_dec_squeeze(m, sn_dec_reduce(m, SN_OP_SUM, y, 1u << 1), 1u << 1);
    int64_t perm[SN_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) perm[i] = i + 2 < rank ? i + 2 : i + 2 - rank;
    return sn_graph_cast(m, sn_graph_permute(m, y, perm, rank), n.type.dtype);
}
