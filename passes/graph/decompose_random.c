/* decompose_random.c: decompositions of dropout and random_normal, for the pass `decompose`. The uniform numbers come
 * from `random`, which stays: to-loops lowers it.
 */
#include "passes/graph/decompose.h"

#include <math.h>

static sn_nd uniform(sn_module *m, sn_nd like, sn_dtype dtype, const sn_ix *shape, uint32_t rank) {
    sn_attr attrs[] = {{.id = SN_ATTR_DTYPE, .i = dtype}, {.id = SN_ATTR_SHAPE, .shape = {shape, rank}}};
    const sn_node_rec *n = sn_node_get(m, like);
    sn_nd in[] = {n->in[n->n_in - 2], n->in[n->n_in - 1]}; /* seed and offset are the last operands */
    return sn_graph_node(m, SN_OP_RANDOM, in, 2, attrs, 2);
}

/* x / (1 - p) where a uniform number of 24 bits is at least p. The comparison is made on the bits: u >= p exactly if
 * the word is at least ceil(2^24 p) * 2^8. */
sn_nd sn_dec_dropout(sn_module *m, sn_nd x) {
    double p = sn_node_float(m, x, SN_ATTR_P, 0);
    sn_nd in = sn_dec_operand(m, x, 0);
    sn_type t = *sn_type_of(m, in);
    sn_nd bits = uniform(m, x, SN_I64, t.shape, t.rank);
    sn_nd keep = sn_graph_binary(m, SN_OP_GE, bits, sn_dec_scalar(m, bits, ceil(p * 0x1p24) * 0x1p8));
    sn_nd scaled = sn_graph_binary(m, SN_OP_MUL, in, sn_dec_scalar(m, in, p < 1 ? 1 / (1 - p) : 0));
    sn_nd choice[3] = {keep, scaled, sn_dec_scalar(m, in, 0)};
    return sn_graph_node(m, SN_OP_WHERE, choice, 3, NULL, 0);
}

/* Column k of uniform numbers [n, 2], in the shape of x. */
static sn_nd column(sn_module *m, sn_nd pairs, int64_t k, const sn_type *t) {
    sn_attr attrs[] = {{.id = SN_ATTR_AXIS, .i = 1}, {.id = SN_ATTR_START, .i = k}, {.id = SN_ATTR_STOP, .i = k + 1}};
    return sn_graph_reshape(m, sn_graph_node(m, SN_OP_SLICE, &pairs, 1, attrs, 3), t->shape, t->rank);
}

/* Box and Muller: sqrt(-2 log(1 - u)) cos(2 pi v), with u and v in [0, 1). */
sn_nd sn_dec_random_normal(sn_module *m, sn_nd x) {
    sn_type t = *sn_type_of(m, x);
    sn_ix shape[2] = {sn_type_numel(m, &t), sn_ix_const(m, 2)};
    sn_nd pairs = uniform(m, x, sn_compute_dtype(t.dtype), shape, 2);
    sn_nd u = column(m, pairs, 0, &t), v = column(m, pairs, 1, &t);
    sn_nd rest = sn_graph_binary(m, SN_OP_SUB, sn_dec_scalar(m, u, 1), u);
    sn_nd square = sn_graph_binary(m, SN_OP_MUL, sn_graph_unary(m, SN_OP_LOG, rest), sn_dec_scalar(m, u, -2));
    sn_nd angle = sn_graph_binary(m, SN_OP_MUL, v, sn_dec_scalar(m, v, 6.28318530717958647692));
    return sn_graph_binary(m, SN_OP_MUL, sn_graph_unary(m, SN_OP_SQRT, square), sn_graph_unary(m, SN_OP_COS, angle));
}
