/* layout_groups.c: convolutions with groups of few channels, for tensor copies. Part of the pass `layout`.
 *
 *     conv %x, %w groups=32     x : [N, 256, H, W]   w : [256, 8, KH, KW]
 *  -> conv %x, %v groups=4      v : [256, 64, KH, KW], w where group and channel belong together, else 0
 *
 * Groups are joined until they have the rows and channels of a tile, or most of one where that is much less to multiply.
 * A tensor core multiplies the zeros between groups faster than threads multiply the rest; what it costs layout_conv.c asks
 * the model. Legality: always, but that zeros times an infinity or a nan in a channel of a group beside make nan.
 */
#include "ir/graph/build.h"
#include "ir/graph/conv.h"
#include "passes/graph/layout.h"
#include "passes/graph/place.h"

static int64_t whole(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static int64_t more(int64_t a, int64_t b) { return a > b ? a : b; }

/* What tiles of all groups multiply, zeros and edges included: as many columns as tiles have, and lines of channels. */
static int64_t products_of(int64_t groups, int64_t out, int64_t in, int64_t line) {
    return groups * more(whole(out, SN_CHOICE_TILE / 2), SN_CHOICE_TILE) * whole(in, line);
}

/* Channels of less than a sector more than lines are seldom brought, and only where no other number of groups has whole
 * ones. Of halves, whose products are not all that takes time, a full tile is worth some zeros. */
int64_t sn_layout_together(const sn_module *m, sn_nd conv, sn_dtype dtype) {
    const sn_node_rec *n = sn_node_get(m, conv);
    const sn_type *w = sn_type_of(m, n->in[1]);
    int64_t groups = sn_node_conv(m, conv).groups, out, in, unit = sn_place_unit(dtype);
    int64_t best = 0, least = 0, full = 0, of_full = 0; /* how many groups, and their products */
    int64_t bytes = sn_dtype_bytes(dtype), line = SN_CHOICE_LINE / bytes;
    if (!sn_ix_is_const(m, w->shape[0], &out) || !sn_ix_is_const(m, w->shape[1], &in)) return 0;
    for (int64_t k = 1; k <= groups; k++) {
        bool fills = k * out / groups >= SN_CHOICE_TILE, lines = k * in % (2 * unit) == 0 || (!best && fills);
        if (groups % k || 2 * k * out / groups <= SN_CHOICE_TILE || k * in % unit) continue;
        if (k * in * bytes < SN_CHOICE_LINE / 2) continue;
        int64_t products = products_of(groups / k, k * out / groups, k * in, line);
        if (fills && !full) full = k, of_full = products;
        if (lines && (!best || products < least)) best = k, least = products;
    }
    bool narrow = bytes < sn_dtype_bytes(SN_F32);
    return narrow && full && 100 * least > SN_CHOICE_FEWER * of_full ? full : best;
}

/* 1 where both axes have the same number, of [1, k, 1, k, 1, ..]. */
static sn_nd diagonal(sn_module *m, int64_t k, uint32_t rank) {
    enum { ROW = 1, COLUMN = 3 };
    sn_nd in[2];
    for (int i = 0; i < 2; i++) {
        sn_ix shape[SN_MAX_RANK];
        for (uint32_t a = 0; a < rank; a++) shape[a] = sn_ix_const(m, 1);
        shape[i ? COLUMN : ROW] = sn_ix_const(m, k);
        in[i] = sn_graph_iota(m, SN_I32, i ? COLUMN : ROW, shape, rank);
        if (!in[i].i) return in[i];
    }
    return sn_graph_node(m, SN_OP_EQ, in, 2, NULL, 0);
}

/* [G*O, C, ..] -> [G/k, k, O, 1, C, ..] -> [G/k, k, O, k, C, ..] -> [G*O, k*C, ..] */
static sn_nd joined_weights(sn_module *m, sn_nd w, int64_t groups, int64_t k) {
    enum { MORE = 3 };
    const sn_type *t = sn_type_of(m, w);
    int64_t apart[SN_MAX_RANK], size[SN_MAX_RANK];
    uint32_t rank = t->rank;
    for (uint32_t a = 0; a < rank; a++) {
        size[a] = sn_ix_value(m, t->shape[a]);
        apart[a + MORE] = size[a];
    }
    apart[0] = groups / k, apart[1] = k, apart[2] = size[0] / groups, apart[3] = 1;
    size[1] *= k;
    sn_nd y = sn_graph_reshape_to(m, w, apart, rank + MORE), where = diagonal(m, k, rank + MORE);
    if (!y.i || !where.i) return (sn_nd){0};
    sn_nd zero = sn_graph_number(m, y, 0);
    y = zero.i ? sn_graph_where(m, where, y, zero) : zero;
    return y.i ? sn_graph_reshape_to(m, y, size, rank) : y;
}

sn_nd sn_layout_join_groups(sn_module *m, sn_nd conv, sn_dtype dtype) {
    const sn_node_rec *n = sn_node_get(m, conv);
    sn_conv_geometry g = sn_node_conv(m, conv);
    int64_t k = g.groups > 1 ? sn_layout_together(m, conv, dtype) : 1;
    if (k <= 1) return conv;
    g.groups /= k;
    sn_nd w = sn_layout_below_casts(m, n->in[1]);
    if (w.i) w = joined_weights(m, w, g.groups * k, k);
    if (w.i) w = sn_graph_cast(m, w, sn_type_of(m, n->in[1])->dtype);
    return w.i ? sn_layout_conv_like(m, conv, n->in[0], w, &g) : w;
}
