/* decompose_bands.c: convolutions of each channel by itself whose taps along their one axis are many are products. Part
 * of the pass `decompose`.
 *
 *     %y = conv %x, %w groups=C padding=[K-1, 0]                  (%x: [N, C, S], %w: [C, 1, K])
 *  -> %u : [C, N*B, K']  windows of K' = K + 63 elements of %x, one for each 64 results
 *     %t : [C, K', 64]   the taps, K' rows down in each column one further: a band
 *     %y = the first S columns of reshape (matmul %u, %t)
 *
 * Long filters, as of state space models and of rooms that echo: each result is as many multiplications as there are
 * taps, for which a thread loads as many elements. Tensor cores do all of them, and those by the zeros beside the band,
 * while windows and bands go through memory once.
 *
 * Legality: the terms of a sum are added in another order; zeros beside the band times an infinity or a nan make nan, as in the
 * bands of class window. Which: on a GPU, where the multiplications of threads take longer than all that, and windows and bands are
 * no more than BANDS_ROOM bytes. A convolution that carries a schedule is left alone. Cost: constant.
 */
#include "passes/graph/decompose.h"

#include "ir/graph/build.h"
#include "ir/graph/conv.h"
#include "passes/base/constants.h"

enum { ACCESS = 8 /* elements */ };

typedef struct bands {
    sn_nd node, image, weights;
    int64_t n, channels, size, taps, results; /* along the axis */
    int64_t windows, steps;                   /* of an image and channel; elements of one */
    int64_t low;
} bands;

static bool size_of(int64_t *out, const sn_module *m, sn_nd x, uint32_t axis) {
    return sn_ix_is_const(m, sn_type_of(m, x)->shape[axis], out) && *out > 0;
}

static bool find(bands *b, const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    sn_conv_geometry g = sn_node_conv(m, x);
    int64_t filters, one;
    *b = (bands){.node = x, .image = n->in[0], .weights = n->in[1], .low = g.low[0]};
    bool plain = g.n == 1 && g.stride[0] == 1 && g.dilation[0] == 1 && g.input_dilation[0] == 1;
    bool known = plain && !sn_node_attr(m, x, SN_ATTR_SCHEDULE) && sn_is_float(n->type.dtype) &&
                 size_of(&b->n, m, b->image, 0) && size_of(&b->channels, m, b->image, 1) &&
                 size_of(&b->size, m, b->image, 2) && size_of(&filters, m, b->weights, 0) &&
                 size_of(&one, m, b->weights, 1) && size_of(&b->taps, m, b->weights, 2) &&
                 size_of(&b->results, m, x, 2);
    if (!known || one != 1 || g.groups != b->channels || filters != b->channels) return false;
    b->windows = (b->results + SN_BANDS_RESULTS - 1) / SN_BANDS_RESULTS;
    b->steps = (b->taps + SN_BANDS_RESULTS - 1 + ACCESS - 1) / ACCESS * ACCESS;
    return b->results >= SN_BANDS_RESULTS;
}

/* In cycles of all multiprocessors: multiplications by threads; and windows and bands that are written and read, and launches. */
static bool is_worth_it(const bands *b, const sn_module *m, const sn_target *t) {
    double images = (double)b->n * (double)b->channels, bytes = sn_dtype_bytes(sn_node_get(m, b->node)->type.dtype);
    double direct = images * (double)b->results * (double)b->taps / SN_BANDS_TAPS;
    double room = bytes * (double)b->steps * (images * (double)b->windows + (double)b->channels * SN_BANDS_RESULTS);
    if (b->taps <= SN_BANDS_LEAST || room > SN_BANDS_ROOM) return false;
    return direct > 2 * room / SN_BANDS_MOVED + (double)t->units * SN_BANDS_LAUNCHES;
}

static sn_nd windows_of(sn_module *m, const bands *b) {
    const int64_t shape[] = {b->channels, b->n * b->windows, b->steps}, low[] = {0, 0, b->low};
    const int64_t high[] = {0, 0, (b->windows - 1) * SN_BANDS_RESULTS + b->steps - b->size - b->low};
    sn_nd all = sn_graph_unfold(m, sn_graph_pad(m, b->image, low, high, 0), 2, b->steps, SN_BANDS_RESULTS, 1);
    return sn_graph_reshape_to(m, sn_graph_move_axis(m, all, 1, 0), shape, 3);
}

/* Each row of what unfolds is a column of the band, the last one first. */
static sn_nd band_of(sn_module *m, const bands *b) {
    const int64_t shape[] = {b->channels, b->taps}, low[] = {0, SN_BANDS_RESULTS - 1}, high[] = {0, b->steps - b->taps};
    sn_nd taps = sn_graph_pad(m, sn_graph_reshape_to(m, b->weights, shape, 2), low, high, 0);
    sn_nd columns = sn_graph_flip(m, sn_graph_unfold(m, taps, 1, b->steps, 1, 1), 1);
    return sn_graph_permute(m, columns, (int64_t[]){0, 2, 1}, 3);
}

sn_nd sn_dec_bands(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    bands b;
    if (!cx->target->is_gpu || !find(&b, m, x) || !is_worth_it(&b, m, cx->target)) return x;
    const sn_attr *precision = sn_node_attr(m, x, SN_ATTR_PRECISION);
    const int64_t shape[] = {b.channels, b.n, b.windows * SN_BANDS_RESULTS};
    sn_nd in[] = {windows_of(m, &b), band_of(m, &b)};
    if (!in[0].i || !in[1].i) return (sn_nd){0};
    sn_nd y = sn_graph_node(m, SN_OP_MATMUL, in, 2, precision, precision ? 1 : 0);
    y = sn_graph_slice(m, sn_graph_reshape_to(m, y, shape, 3), 2, 0, b.results, 1);
    return sn_graph_move_axis(m, y, 1, 0);
}
