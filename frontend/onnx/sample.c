/* sample.c: values of an image between its elements (frontend/onnx/sample.h).
 *
 *     linear:  x(1.25) = 3/4 x[1] + 1/4 x[2]           along one axis; for several, along the last one first
 *     cubic:   four elements, weights of R. Keys, Cubic Convolution Interpolation for Digital Image Processing, a = -3/4
 *
 * Places are runtime values, so that elements are gathered at computed positions, all of them inside the image.
 */
#include "frontend/onnx/sample.h"

#include "ir/index/ix.h"

sn_nd sn_onnx_amount(sn_module *m, sn_nd x, sn_ix e, double more) {
    int64_t number;
    if (!x.i || sn_ix_is_const(m, e, &number)) return sn_graph_number(m, x, x.i ? (double)number + more : 0);
    sn_nd size = sn_graph_reshape(m, sn_graph_sizes(m, &e, 1), NULL, 0);
    return sn_graph_with(m, SN_OP_ADD, sn_graph_cast(m, size, sn_graph_type(m, x)->dtype), more);
}

/* x limited to the elements of axis k. */
static sn_nd limited(sn_module *m, sn_nd x, const sn_onnx_sampler *s, uint32_t k) {
    sn_nd last = sn_onnx_amount(m, x, s->size[k], -1);
    return sn_graph_binary(m, SN_OP_MINIMUM, sn_graph_with(m, SN_OP_MAXIMUM, x, 0), last);
}

static double low_border(const sn_onnx_sampler *s) { return s->align_corners ? 0 : -0.5; }
static sn_nd high_border(sn_module *m, sn_nd x, const sn_onnx_sampler *s, uint32_t k) {
    return sn_onnx_amount(m, x, s->size[k], s->align_corners ? -1 : -0.5);
}

/* Mirrored at both borders until it lies between them: with u the distance from the lower one and n = floor(u / range),
 * what is left of u counts from the lower border if n is even, else from the upper one. A range of 0 has one
 * element. */
static sn_nd reflected(sn_module *m, sn_nd x, const sn_onnx_sampler *s, uint32_t k) {
    double low = low_border(s);
    sn_nd range = sn_onnx_amount(m, x, s->size[k], s->align_corners ? -1 : 0);
    sn_nd some = sn_graph_with(m, SN_OP_GT, range, 0), divisor = sn_graph_with(m, SN_OP_MAXIMUM, range, 1);
    sn_nd u = sn_graph_unary(m, SN_OP_ABS, sn_graph_with(m, SN_OP_SUB, x, low));
    sn_nd n = sn_graph_unary(m, SN_OP_FLOOR, sn_graph_div(m, u, divisor));
    sn_nd rest = sn_graph_sub(m, u, sn_graph_mul(m, n, divisor));
    sn_nd odd = sn_graph_with(m, SN_OP_EQ, sn_graph_with(m, SN_OP_REM, n, 2), 1);
    sn_nd down = sn_graph_sub(m, high_border(m, x, s, k), rest);
    sn_nd y = sn_graph_where(m, odd, down, sn_graph_with(m, SN_OP_ADD, rest, low));
    return sn_graph_where(m, some, y, sn_graph_number(m, y, 0));
}

/* A place beyond the borders, as the border says. */
static sn_nd brought_in(sn_module *m, sn_nd x, const sn_onnx_sampler *s, uint32_t k) {
    if (s->border == SN_ONNX_ZEROS) return x;
    if (s->border == SN_ONNX_REFLECT) return reflected(m, x, s, k);
    sn_nd below = sn_graph_with(m, SN_OP_LT, x, low_border(s));
    sn_nd outside = sn_graph_binary(m, SN_OP_OR, below, sn_graph_binary(m, SN_OP_GT, x, high_border(m, x, s, k)));
    return sn_graph_where(m, outside, limited(m, x, s, k), x);
}

/* The tap at a whole position, which may lie outside. */
static sn_onnx_tap tap_at(sn_module *m, sn_nd at, const sn_onnx_sampler *s, uint32_t k) {
    sn_onnx_tap t = {0};
    if (s->border == SN_ONNX_ZEROS)
        t.inside = sn_graph_binary(m, SN_OP_AND, sn_graph_with(m, SN_OP_GE, at, 0),
                                   sn_graph_binary(m, SN_OP_LT, at, sn_onnx_amount(m, at, s->size[k], 0)));
    if (s->border == SN_ONNX_REFLECT) at = sn_graph_unary(m, SN_OP_TRUNC, reflected(m, at, s, k));
    t.index = sn_graph_cast(m, limited(m, at, s, k), SN_I64);
    return t;
}

/* c0 + d (c1 + d (c2 + d c3)) */
static sn_nd cubic(sn_module *m, sn_nd d, double c0, double c1, double c2, double c3) {
    sn_nd y = sn_graph_with(m, SN_OP_ADD, sn_graph_with(m, SN_OP_MUL, d, c3), c2);
    y = sn_graph_with(m, SN_OP_ADD, sn_graph_mul(m, y, d), c1);
    return sn_graph_with(m, SN_OP_ADD, sn_graph_mul(m, y, d), c0);
}

/* Weights of elements -1 .. 2 for a place that lies f after element 0. */
static void cubic_weights(sn_onnx_tap *out, sn_module *m, sn_nd f) {
    const double a = -0.75;
    sn_nd one = sn_graph_number(m, f, 1), g = sn_graph_sub(m, one, f);
    sn_nd before = sn_graph_with(m, SN_OP_ADD, f, 1), after = sn_graph_with(m, SN_OP_ADD, g, 1);
    out[0].weight = cubic(m, before, -4 * a, 8 * a, -5 * a, a);
    out[1].weight = cubic(m, f, 1, 0, -(a + 3), a + 2);
    out[2].weight = cubic(m, g, 1, 0, -(a + 3), a + 2);
    out[3].weight = cubic(m, after, -4 * a, 8 * a, -5 * a, a);
}

uint32_t sn_onnx_taps(sn_onnx_tap *out, sn_module *m, const sn_onnx_sampler *s, uint32_t k, sn_nd place) {
    if (s->filter == SN_ONNX_NEAREST) {
        out[0] = tap_at(m, brought_in(m, sn_graph_unary(m, SN_OP_ROUND, place), s, k), s, k);
        return 1;
    }
    uint32_t n = s->filter == SN_ONNX_LINEAR ? 2 : 4;
    /* Beyond an edge that goes on four elements weigh as they do inside: those that are there, as PyTorch has it. */
    if (n == 2 || s->border != SN_ONNX_EDGE) place = brought_in(m, place, s, k);
    sn_nd whole = sn_graph_unary(m, SN_OP_FLOOR, place), f = sn_graph_sub(m, place, whole);
    for (uint32_t j = 0; j < n; j++) out[j] = tap_at(m, sn_graph_with(m, SN_OP_ADD, whole, j - (n / 2 - 1.0)), s, k);
    if (n == 4) {
        cubic_weights(out, m, f);
        return n;
    }
    out[0].weight = sn_graph_sub(m, sn_graph_number(m, f, 1), f);
    out[1].weight = f;
    return n;
}

/* ---- sums over the axes ---- */

typedef struct sample {
    sn_module *m;
    sn_nd x;
    const sn_onnx_sampler *s;
    sn_onnx_tap taps[SN_MAX_RANK][SN_ONNX_TAPS];
    uint32_t n[SN_MAX_RANK];
} sample;

/* The elements at flat positions. */
static sn_nd elements(const sample *a, sn_nd flat, sn_nd inside) {
    sn_module *m = a->m;
    sn_type t = *sn_graph_type(m, a->x);
    if (!flat.i || !a->x.i) return (sn_nd){0};
    t.shape[2] = sn_graph_type(m, flat)->shape[2];
    sn_nd v = sn_graph_gather(m, a->x, sn_graph_expand(m, flat, t.shape, 3), 2);
    return inside.i ? sn_graph_where(m, inside, v, sn_graph_number(m, v, 0)) : v;
}

/* The weighted sum over axes k and up; flat, inside: of the axes before. */
static sn_nd sum_over(const sample *a, uint32_t k, sn_nd flat, sn_nd inside) {
    sn_module *m = a->m;
    sn_nd sum = {0};
    if (k == a->s->n) return elements(a, flat, inside);
    for (uint32_t j = 0; j < a->n[k]; j++) {
        const sn_onnx_tap *t = &a->taps[k][j];
        sn_nd at = t->index, in = t->inside;
        if (k) at = sn_graph_add(m, sn_graph_with_size(m, SN_OP_MUL, flat, a->s->size[k]), at);
        if (k && in.i) in = sn_graph_binary(m, SN_OP_AND, inside, in);
        sn_nd v = sum_over(a, k + 1, at, in);
        if (t->weight.i) v = sn_graph_mul(m, v, t->weight);
        sum = j ? sn_graph_add(m, sum, v) : v;
    }
    return sum;
}

sn_nd sn_onnx_sample(sn_module *m, sn_nd x, const sn_onnx_sampler *s, const sn_nd *place) {
    sn_dtype t = sn_graph_type(m, x)->dtype;
    sample a = {.m = m, .x = x, .s = s};
    if (s->filter != SN_ONNX_NEAREST) a.x = sn_is_float(t) ? sn_graph_widen(m, x) : sn_graph_cast(m, x, SN_F32);
    for (uint32_t k = 0; k < s->n; k++) a.n[k] = sn_onnx_taps(a.taps[k], m, s, k, place[k]);
    return sn_graph_cast(m, sum_over(&a, 0, (sn_nd){0}, (sn_nd){0}), t);
}
