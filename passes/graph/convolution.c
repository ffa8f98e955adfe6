/* convolution.c: convolutions of a graph whose sizes are numbers: which there are. Cost: linear in the graph. */
#include "passes/graph/choices.h"

static bool sizes_of(int64_t *out, const sn_module *m, sn_nd x) {
    const sn_type *t = &sn_node_get(m, x)->type;
    for (uint32_t k = 0; k < t->rank; k++)
        if (!sn_ix_is_const(m, t->shape[k], &out[k])) return false;
    return true;
}

bool sn_convolution_find(sn_convolution *out, const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (n->op != SN_OP_CONV || sn_node_attr(m, x, SN_ATTR_SCHEDULE)) return false;
    *out = (sn_convolution){
        .node = x, .dtype = n->type.dtype, .rank = n->type.rank, .g = sn_node_conv(m, x), .pixels = 1, .taps = 1};
    bool known =
        sizes_of(out->image, m, n->in[0]) && sizes_of(out->weights, m, n->in[1]) && sizes_of(out->result, m, x);
    for (uint32_t k = 2; k < out->rank && known; k++)
        known = !sn_mul_overflow(out->pixels, out->result[k], &out->pixels) &&
                !sn_mul_overflow(out->taps, out->weights[k], &out->taps);
    return known;
}

void sn_convolution_list(sn_nd_list *out, const sn_module *m, sn_arena *arena) {
    uint8_t *live = SN_NEWN(arena, uint8_t, m->graph.nodes.count + 1);
    sn_convolution unused;
    sn_graph_live(m, live);
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++)
        if (live[x.i] && sn_convolution_find(&unused, m, x)) SN_PUSH(arena, out, x);
}

bool sn_convolution_is_dense(const sn_convolution *c) {
    for (uint32_t k = 0; k < c->g.n; k++)
        if (c->g.input_dilation[k] != 1) return false;
    return true;
}
