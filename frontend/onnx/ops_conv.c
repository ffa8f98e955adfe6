/* ops_conv.c: convolutions and transposed ones, in terms of conv of the graph (ir/graph/conv.h), which has 1 to 3
 * image axes.
 *
 * Of 4 axes the first one is unfolded: its windows become channels, and their places images.
 * Col2Im is a transposed convolution whose weights say where in a window an element belongs.
 */
#include "frontend/onnx/quant.h"
#include "frontend/onnx/window.h"
#include "ir/graph/conv.h"
#include "ir/index/ix.h"
#include "ir/module.h"

/* ---- the sum ---- */

static sn_status geometry_of(sn_conv_geometry *out, sn_onnx_call *c, const sn_onnx_window *v, int64_t groups) {
    if (v->n > SN_CONV_AXES) return sn_onnx_fail(c, "a convolution over %u axes; at most %d", v->n, SN_CONV_AXES);
    *out = sn_conv_plain(v->n);
    out->groups = groups;
    for (uint32_t k = 0; k < v->n; k++) {
        out->stride[k] = v->stride[k];
        out->dilation[k] = v->dilation[k];
        out->low[k] = v->low[k];
        out->high[k] = v->high[k];
    }
    return SN_OK;
}

static sn_nd convolve_plain(sn_onnx_call *c, sn_nd x, sn_nd w, const sn_onnx_window *v, int64_t groups) {
    sn_conv_geometry g;
    if (geometry_of(&g, c, v, groups) != SN_OK) return (sn_nd){0};
    return sn_graph_conv(c->m, x, w, &g, (sn_conv_more){0});
}

/* The window of all image axes but the first. */
static sn_onnx_window inner_window(const sn_onnx_window *v) {
    sn_onnx_window inner = {.n = v->n - 1};
    for (uint32_t k = 0; k < inner.n; k++) {
        inner.kernel[k] = v->kernel[k + 1];
        inner.stride[k] = v->stride[k + 1];
        inner.dilation[k] = v->dilation[k + 1];
        inner.low[k] = v->low[k + 1];
        inner.high[k] = v->high[k + 1];
    }
    return inner;
}

/* Without axis `axis`, which joins the one before it. */
static sn_nd joined(sn_module *m, sn_nd x, uint32_t axis) {
    sn_type t = *sn_graph_type(m, x);
    if (!x.i) return x;
    t.shape[axis - 1] = sn_ix_mul(m, t.shape[axis - 1], t.shape[axis]);
    for (uint32_t k = axis; k + 1 < t.rank; k++) t.shape[k] = t.shape[k + 1];
    return sn_graph_reshape(m, x, t.shape, t.rank - 1);
}

/* x[N, C, D, ..] -> [N, C, OD, .., KD] -> [N*OD, C*KD, ..], and w[O, C/groups, KD, ..] in the same way. */
static sn_nd convolve(sn_onnx_call *c, sn_nd x, sn_nd w, const sn_onnx_window *v, int64_t groups) {
    sn_module *m = c->m;
    sn_onnx_window outer = {.n = 1, .low = {v->low[0]}, .high = {v->high[0]}}, inner = inner_window(v);
    if (v->n > SN_CONV_AXES + 1) {
        sn_onnx_fail(c, "a convolution over %u axes; at most %d", v->n, SN_CONV_AXES + 1);
        return (sn_nd){0};
    }
    if (v->n <= SN_CONV_AXES) return convolve_plain(c, x, w, v, groups);
    x = sn_graph_unfold(m, sn_onnx_window_pad(m, x, &outer, 0), 2, v->kernel[0], v->stride[0], v->dilation[0]);
    sn_type t = *sn_graph_type(m, x);
    if (!x.i) return x;
    x = sn_graph_move_axis(m, sn_graph_move_axis(m, x, 2, 1), t.rank - 1, 3); /* [N, OD, C, KD, ..] */
    sn_nd y = convolve_plain(c, joined(m, joined(m, x, 3), 1), joined(m, w, 2), &inner, groups);
    if (!y.i) return y;
    sn_type split = *sn_graph_type(m, y); /* [N*OD, O, ..] */
    for (uint32_t k = split.rank++; k > 1; k--) split.shape[k] = split.shape[k - 1];
    split.shape[0] = t.shape[0], split.shape[1] = t.shape[2];
    return sn_graph_move_axis(m, sn_graph_reshape(m, y, split.shape, split.rank), 1, 2);
}

/* y + bias[O] along the channels. */
static sn_nd add_bias(sn_module *m, sn_nd y, sn_nd bias) {
    return sn_graph_add(m, y, sn_graph_align(m, bias, 1, sn_graph_type(m, y)->rank));
}

/* With a bias halves are rounded once, after it. */
static sn_nd with_bias(sn_onnx_call *c, sn_nd y, uint32_t operand) {
    return sn_onnx_has(c, operand) ? add_bias(c->m, y, sn_graph_widen(c->m, sn_onnx_in(c, operand))) : y;
}

sn_status sn_onnx_conv(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), w = sn_onnx_in(c, 1);
    sn_dtype t = sn_graph_type(m, x)->dtype;
    sn_onnx_window v;
    SN_TRY(m->env->status);
    SN_TRY(sn_onnx_window_read(&v, c, x, w));
    SN_TRY(sn_onnx_window_same(&v, c, x));
    if (sn_onnx_has(c, 2)) x = sn_graph_widen(m, x), w = sn_graph_widen(m, w);
    sn_nd y = convolve(c, x, w, &v, sn_onnx_attr_int(c, "group", 1));
    return sn_onnx_done(c, sn_graph_cast(m, with_bias(c, y, 2), t));
}

/* ---- transposed ---- */

/* What output_shape or SAME leaves of the full result: total elements are cropped, the odd one in front unless
 * SAME_UPPER. */
static sn_status crop_to(sn_onnx_window *v, sn_onnx_call *c, sn_nd x, const int64_t *extra) {
    const int64_t *want;
    uint32_t n;
    bool given = sn_onnx_attr_ints(&want, &n, c, "output_shape");
    if (!given && !v->same) return SN_OK;
    if (given && n == v->n + 2) want += 2;
    else if (given && n != v->n) return sn_onnx_fail(c, "output_shape has %u entries, not %u", n, v->n);
    for (uint32_t k = 0; k < v->n; k++) {
        int64_t size, total = extra[k] + sn_onnx_window_span(v, k) - v->stride[k];
        sn_ix e = sn_graph_type(c->m, x)->shape[2 + k];
        if (given && (want[k] < 0 || want[k] > INT32_MAX))
            return sn_onnx_fail(c, "output_shape %lld", (long long)want[k]);
        if (given && (!sn_ix_is_const(c->m, e, &size) || size > INT32_MAX))
            return sn_onnx_fail(c, "output_shape: image axis %u has to have a number as size", k);
        if (given) total += v->stride[k] * size - want[k];
        v->low[k] = total < 0 ? 0 : v->same && !v->same_lower ? total / 2 : total - total / 2;
        v->high[k] = total - v->low[k];
    }
    return SN_OK;
}

static sn_nd transposed(sn_onnx_call *c, sn_nd x, sn_nd w, const sn_onnx_window *v, const int64_t *extra,
                        int64_t groups) {
    sn_conv_geometry g;
    if (geometry_of(&g, c, v, groups) != SN_OK) return (sn_nd){0};
    return sn_graph_conv_transpose(c->m, x, w, &g, extra, (sn_conv_more){0});
}

sn_status sn_onnx_conv_transpose(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), w = sn_onnx_in(c, 1);
    sn_dtype t = sn_graph_type(m, x)->dtype;
    sn_onnx_window v;
    int64_t extra[SN_MAX_RANK] = {0};
    SN_TRY(m->env->status);
    SN_TRY(sn_onnx_window_read(&v, c, x, w));
    SN_TRY(sn_onnx_window_list(extra, c, "output_padding", v.n, 0, 0));
    SN_TRY(crop_to(&v, c, x, extra));
    if (sn_onnx_has(c, 2)) x = sn_graph_widen(m, x), w = sn_graph_widen(m, w);
    sn_nd y = transposed(c, x, w, &v, extra, sn_onnx_attr_int(c, "group", 1));
    return sn_onnx_done(c, sn_graph_cast(m, with_bias(c, y, 2), t));
}

/* ---- columns ---- */

/* Weights w[C*K, 1, k1, ..] that put element t of a window of K elements to its place. */
static sn_nd place_weights(sn_onnx_call *c, sn_nd like, sn_ix channels, const sn_onnx_window *v, int64_t taps) {
    sn_module *m = c->m;
    sn_dtype t = sn_graph_type(m, like)->dtype;
    sn_ix size = sn_ix_const(m, taps), shape[SN_MAX_RANK] = {sn_ix_scale(m, channels, taps), sn_ix_const(m, 1)};
    sn_nd number = sn_graph_iota(m, SN_I64, 0, &size, 1);
    sn_nd eye = sn_graph_binary(m, SN_OP_EQ, sn_graph_align(m, number, 0, 2), number);
    for (uint32_t k = 0; k < v->n; k++) shape[2 + k] = sn_ix_const(m, v->kernel[k]);
    sn_nd w = sn_graph_expand(m, sn_graph_cast(m, eye, t), (sn_ix[]){channels, size, size}, 3);
    return sn_graph_reshape(m, w, shape, 2 + v->n);
}

/* The window of Col2Im, of its operands; n_windows: how many there are along each image axis. */
static sn_status read_columns(sn_onnx_window *v, int64_t *taps, int64_t *n_windows, int64_t *extra, sn_onnx_call *c) {
    const int64_t *image, *block;
    uint32_t n, n_block;
    int64_t pads[2 * SN_MAX_RANK];
    SN_TRY(sn_onnx_ints(&image, &n, c, 1));
    SN_TRY(sn_onnx_ints(&block, &n_block, c, 2));
    if (n != n_block || n < 1 || n > 3) return sn_onnx_fail(c, "%u sizes of the image, %u of a window", n, n_block);
    *v = (sn_onnx_window){.n = n};
    SN_TRY(sn_onnx_window_list(v->stride, c, "strides", n, 1, 1));
    SN_TRY(sn_onnx_window_list(v->dilation, c, "dilations", n, 1, 1));
    SN_TRY(sn_onnx_window_list(pads, c, "pads", 2 * n, 0, 0));
    for (uint32_t k = 0; k < n; k++) {
        if (block[k] < 1 || block[k] > INT16_MAX || image[k] < 1 || image[k] > INT32_MAX)
            return sn_onnx_fail(c, "a window of %lld elements in an image of %lld", (long long)block[k],
                                (long long)image[k]);
        v->kernel[k] = block[k], v->low[k] = pads[k], v->high[k] = pads[k + n];
        *taps *= block[k];
        int64_t more = image[k] + v->low[k] + v->high[k] - sn_onnx_window_span(v, k);
        if (more < 0) return sn_onnx_fail(c, "the image is smaller than a window");
        n_windows[k] = more / v->stride[k] + 1;
        extra[k] = more % v->stride[k];
    }
    return *taps <= INT16_MAX ? SN_OK : sn_onnx_fail(c, "a window of %lld elements", (long long)*taps);
}

/* x[N, C*K, windows]: the windows of an image added up where they overlap, as a transposed convolution of each
 * channel. */
sn_status sn_onnx_col2im(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0);
    sn_onnx_window v;
    int64_t taps = 1, n_windows[SN_MAX_RANK], extra[SN_MAX_RANK], groups;
    SN_TRY(m->env->status);
    SN_TRY(read_columns(&v, &taps, n_windows, extra, c));
    const sn_type *t = sn_graph_type(m, x);
    sn_ix shape[SN_MAX_RANK] = {t->shape[0], t->shape[1]};
    if (t->rank != 3 || !sn_ix_is_const(m, t->shape[1], &groups) || groups % taps)
        return sn_onnx_fail(c, "columns of shape %s for windows of %lld elements", sn_type_text(m, t), (long long)taps);
    groups /= taps;
    for (uint32_t k = 0; k < v.n; k++) shape[2 + k] = sn_ix_const(m, n_windows[k]);
    sn_nd w = place_weights(c, x, sn_ix_const(m, groups), &v, taps);
    return sn_onnx_done(c, transposed(c, sn_graph_reshape(m, x, shape, 2 + v.n), w, &v, extra, groups));
}

/* ---- integers ---- */

/* An image of centred elements with operand w, as i32 less its zero points, perhaps one for each channel of the
 * result. */
static sn_nd integers(sn_onnx_call *c, sn_nd image, uint32_t w, uint32_t w_zero) {
    sn_nd weights = sn_onnx_centred(c, w, w_zero, 0);
    sn_onnx_window v;
    if (c->m->env->status != SN_OK || sn_onnx_window_read(&v, c, image, weights) != SN_OK ||
        sn_onnx_window_same(&v, c, image) != SN_OK)
        return (sn_nd){0};
    return convolve(c, image, weights, &v, sn_onnx_attr_int(c, "group", 1));
}

sn_status sn_onnx_conv_integer(sn_onnx_call *c) {
    return sn_onnx_done(c, integers(c, sn_onnx_centred(c, 0, 2, 1), 1, 3));
}

/* x, its scale and zero point, those of w, those of y, bias. channels_last (of onnxruntime): x[N, D1, .., C], and y. */
sn_status sn_onnx_qlinear_conv(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_centred(c, 0, 2, 1);
    uint32_t rank = sn_graph_type(m, x)->rank;
    bool last = c->op->arg && sn_onnx_attr_int(c, "channels_last", 0) && rank > 2;
    sn_nd y = integers(c, last ? sn_graph_move_axis(m, x, rank - 1, 1) : x, 3, 5);
    if (sn_onnx_has(c, 8)) y = add_bias(m, y, sn_onnx_in(c, 8));
    sn_onnx_scales s = {.a = 1, .b = 4, .y = 6, .zero = 7, .a_axis = 1, .b_axis = 1, .y_axis = 1};
    y = sn_onnx_requantised(c, y, s);
    return sn_onnx_done(c, last ? sn_graph_move_axis(m, y, 1, rank - 1) : y);
}
