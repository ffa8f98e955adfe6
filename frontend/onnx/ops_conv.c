/* ops_conv.c: convolutions of images of any rank, in terms of conv2d of the graph.
 *
 * Conv of 1 axis gets a second one of size 1. ConvTranspose scatters an s-th of its kernel to each of the s positions
 * between two elements of the image: with k = t*s + r an element x[i] goes to position (i + t)*s + r, so that
 *
 *     y[q*s + r] = sum over t of x[q - t] w[t*s + r]
 *
 * is a convolution with s times as many channels, one for each r, which are then put side by side. Col2Im is one whose
 * weights say where in a window an element belongs.
 */
#include "frontend/onnx/quant.h"
#include "frontend/onnx/window.h"
#include "ir/index/ix.h"
#include "ir/module.h"

/* ---- the sum ---- */

/* More than two image axes: the windows of all but the last two become channels, and their places images. x[N, C, D..,
 * H, W] -> [N, C, OD.., H, W, KD..] -> [N*OD.., C*KD.., H, W], and w[O, C/groups, KD.., KH, KW] in the same way. */
static sn_nd convolve_deep(sn_onnx_call *c, sn_nd x, sn_nd w, const sn_onnx_window *v, int64_t groups) {
    sn_module *m = c->m;
    uint32_t n = v->n, deep = n - 2, rank = 2 + n + deep;
    if (rank > SN_MAX_RANK) {
        sn_onnx_fail(c, "a convolution over %u axes; at most 4", n);
        return (sn_nd){0};
    }
    sn_onnx_window outer = *v; /* padding of the unfolded axes alone; conv2d pads the others */
    outer.low[deep] = outer.low[deep + 1] = outer.high[deep] = outer.high[deep + 1] = 0;
    x = sn_onnx_window_pad(m, x, &outer, 0);
    for (uint32_t k = 0; k < deep; k++) x = sn_graph_unfold(m, x, 2 + k, v->kernel[k], v->stride[k], v->dilation[k]);
    sn_type tx = *sn_graph_type(m, x), tw = *sn_graph_type(m, w);
    if (!x.i || !w.i) return x;
    int64_t perm[SN_MAX_RANK] = {0};
    for (uint32_t k = 0; k < deep; k++) perm[1 + k] = 2 + k, perm[2 + deep + k] = 2 + n + k;
    perm[1 + deep] = 1, perm[rank - 2] = n, perm[rank - 1] = 1 + n;
    sn_ix images = sn_ix_mul(m, tx.shape[0], sn_ix_product(m, tx.shape + 2, deep));
    sn_ix taps = sn_ix_product(m, tw.shape + 2, deep);
    sn_ix flat_x[] = {images, sn_ix_mul(m, tx.shape[1], taps), tx.shape[n], tx.shape[1 + n]};
    sn_ix flat_w[] = {tw.shape[0], sn_ix_mul(m, tw.shape[1], taps), tw.shape[n], tw.shape[1 + n]};
    int64_t pad[] = {v->low[deep], v->low[deep + 1], v->high[deep], v->high[deep + 1]};
    sn_nd y = sn_graph_conv2d(m, sn_graph_reshape(m, sn_graph_permute(m, x, perm, rank), flat_x, 4),
                              sn_graph_reshape(m, w, flat_w, 4), v->stride + deep, pad, v->dilation + deep, groups);
    sn_type t = {.rank = 2 + n, .shape = {tx.shape[0]}}; /* [N, OD.., O, OH, OW] */
    for (uint32_t k = 0; k < deep; k++) t.shape[1 + k] = tx.shape[2 + k];
    for (uint32_t k = 0; k < 3; k++) t.shape[1 + deep + k] = sn_graph_type(m, y)->shape[1 + k];
    return y.i ? sn_graph_move_axis(m, sn_graph_reshape(m, y, t.shape, t.rank), 1 + deep, 1) : y;
}

/* x[N, C, ..] with w[O, C/groups, ..] by conv2d. */
static sn_nd convolve(sn_onnx_call *c, sn_nd x, sn_nd w, const sn_onnx_window *window, int64_t groups) {
    sn_module *m = c->m;
    sn_onnx_window v = *window;
    uint32_t n = v.n;
    bool crops = false;
    for (uint32_t k = 0; k < n; k++) crops = crops || v.low[k] < 0 || v.high[k] < 0;
    if (crops) {
        x = sn_onnx_window_pad(m, x, &v, 0);
        for (uint32_t k = 0; k < n; k++) v.low[k] = v.high[k] = 0;
    }
    if (n == 2) {
        int64_t pad[] = {v.low[0], v.low[1], v.high[0], v.high[1]};
        return sn_graph_conv2d(m, x, w, v.stride, pad, v.dilation, groups);
    }
    if (n == 1) {
        int64_t axis = 2, pad[] = {0, v.low[0], 0, v.high[0]};
        int64_t stride[] = {1, v.stride[0]}, dilation[] = {1, v.dilation[0]};
        sn_nd y = sn_graph_conv2d(m, sn_graph_unsqueeze(m, x, &axis, 1), sn_graph_unsqueeze(m, w, &axis, 1), stride,
                                  pad, dilation, groups);
        return sn_graph_squeeze(m, y, &axis, 1);
    }
    return convolve_deep(c, x, w, &v, groups);
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

/* w[C, O/groups, ..] as w[O, C/groups, ..]. */
static sn_nd swap_channels(sn_onnx_call *c, sn_nd w, int64_t groups) {
    sn_module *m = c->m;
    int64_t shape[SN_MAX_RANK], split[SN_MAX_RANK + 1];
    uint32_t rank = sn_graph_type(m, w)->rank;
    if (sn_onnx_shape(shape, c, w) != SN_OK || rank == SN_MAX_RANK) return (sn_nd){0};
    if (groups < 1 || shape[0] % groups) {
        sn_onnx_fail(c, "%lld channels in %lld groups", (long long)shape[0], (long long)groups);
        return (sn_nd){0};
    }
    split[0] = groups, split[1] = shape[0] / groups;
    for (uint32_t k = 1; k < rank; k++) split[k + 1] = shape[k];
    sn_nd y = sn_graph_move_axis(m, sn_graph_reshape_to(m, w, split, rank + 1), 1, 2);
    shape[0] = split[1], shape[1] *= groups;
    int64_t swapped = shape[0];
    shape[0] = shape[1], shape[1] = swapped;
    return sn_graph_reshape_to(m, y, shape, rank);
}

/* w with dilation - 1 zeros between the elements of image axis k: the dilated kernel. */
static sn_nd stuff(sn_onnx_call *c, sn_nd w, uint32_t axis, int64_t dilation) {
    sn_module *m = c->m;
    int64_t low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0}, shape[SN_MAX_RANK], next = axis + 1;
    uint32_t rank = sn_graph_type(m, w)->rank;
    if (dilation == 1 || rank == SN_MAX_RANK || sn_onnx_shape(shape, c, w) != SN_OK) return w;
    high[next] = dilation - 1;
    w = sn_graph_pad(m, sn_graph_unsqueeze(m, w, &next, 1), low, high, 0);
    shape[axis] *= dilation;
    return sn_graph_slice(m, sn_graph_reshape_to(m, w, shape, rank), axis, 0, shape[axis] - dilation + 1, 1);
}

/* w[O, C, T1*s1, ..] as w[O*s1*.., C, T1, ..], in the order that a convolution takes. */
static sn_nd split_kernel(sn_onnx_call *c, sn_nd w, const sn_onnx_window *v, const int64_t *taps) {
    sn_module *m = c->m;
    int64_t low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0}, shape[SN_MAX_RANK], split[SN_MAX_RANK], perm[SN_MAX_RANK];
    int64_t flip[SN_MAX_RANK], out[SN_MAX_RANK];
    uint32_t n = v->n;
    if (sn_onnx_shape(shape, c, w) != SN_OK) return (sn_nd){0};
    split[0] = shape[0], split[1] = out[1] = shape[1];
    out[0] = shape[0];
    perm[0] = 0, perm[1 + n] = 1;
    for (uint32_t k = 0; k < n; k++) {
        high[2 + k] = taps[k] * v->stride[k] - shape[2 + k];
        split[2 + 2 * k] = out[2 + k] = taps[k];
        split[3 + 2 * k] = v->stride[k];
        out[0] *= v->stride[k];
        perm[1 + k] = 3 + 2 * k;
        perm[2 + n + k] = flip[k] = 2 + 2 * k;
    }
    w = sn_graph_reshape_to(m, sn_graph_pad(m, w, low, high, 0), split, 2 + 2 * n);
    for (uint32_t k = 0; k < n; k++) w = sn_graph_flip(m, w, flip[k]);
    return sn_graph_reshape_to(m, sn_graph_permute(m, w, perm, 2 + 2 * n), out, 2 + n);
}

/* y[N, O*s1*.., Q1, ..] as y[N, O, Q1*s1, ..]. */
static sn_nd interleave(sn_module *m, sn_nd y, const sn_onnx_window *v, sn_ix channels) {
    sn_type t = *sn_graph_type(m, y);
    sn_ix split[SN_MAX_RANK] = {t.shape[0], channels}, out[SN_MAX_RANK] = {t.shape[0], channels};
    int64_t perm[SN_MAX_RANK] = {0, 1};
    uint32_t n = v->n;
    if (!y.i) return y;
    for (uint32_t k = 0; k < n; k++) {
        split[2 + k] = sn_ix_const(m, v->stride[k]);
        split[2 + n + k] = t.shape[2 + k];
        perm[2 + 2 * k] = 2 + n + k, perm[3 + 2 * k] = 2 + k;
        out[2 + k] = sn_ix_scale(m, t.shape[2 + k], v->stride[k]);
    }
    y = sn_graph_permute(m, sn_graph_reshape(m, y, split, 2 + 2 * n), perm, 2 + 2 * n);
    return sn_graph_reshape(m, y, out, 2 + n);
}

/* Result o of an axis is element low + o of the full one, which has taps*stride - stride more than the image times
 * stride. */
static sn_nd transposed(sn_onnx_call *c, sn_nd x, sn_nd w, const sn_onnx_window *v, const int64_t *extra,
                        int64_t groups) {
    sn_module *m = c->m;
    sn_onnx_window inner = {.n = v->n}, crop = {.n = v->n};
    int64_t taps[SN_MAX_RANK];
    for (uint32_t k = 0; k < v->n; k++) {
        int64_t span = sn_onnx_window_span(v, k), stride = v->stride[k];
        bool direct = stride == 1; /* the dilation stays one */
        if (!direct) w = stuff(c, w, 2 + k, v->dilation[k]);
        taps[k] = direct ? v->kernel[k] : (span + stride - 1) / stride;
        inner.kernel[k] = taps[k];
        inner.stride[k] = 1;
        inner.dilation[k] = direct ? v->dilation[k] : 1;
        inner.low[k] = inner.high[k] = (taps[k] - 1) * inner.dilation[k];
        crop.low[k] = -v->low[k];
        crop.high[k] = extra[k] - v->high[k] + span - (direct ? span : taps[k] * stride);
    }
    w = swap_channels(c, w, groups);
    sn_ix channels = sn_graph_type(m, w)->shape[0];
    sn_nd y = convolve(c, x, split_kernel(c, w, v, taps), &inner, groups);
    return sn_onnx_window_pad(m, interleave(m, y, v, channels), &crop, 0);
}

sn_status sn_onnx_conv_transpose(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), w = sn_onnx_in(c, 1);
    sn_dtype t = sn_graph_type(m, x)->dtype;
    sn_onnx_window v;
    int64_t extra[SN_MAX_RANK] = {0};
    SN_TRY(m->env->status);
    SN_TRY(sn_onnx_window_read(&v, c, x, w));
    if (2 + 2 * v.n > SN_MAX_RANK) return sn_onnx_fail(c, "%u image axes; at most %d", v.n, SN_MAX_RANK / 2 - 1);
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

/* Operands x and w as i32 less their zero points, those of w perhaps one for each channel of the result. */
static sn_nd integers(sn_onnx_call *c, uint32_t x, uint32_t w, uint32_t x_zero, uint32_t w_zero) {
    sn_nd image = sn_onnx_centred(c, x, x_zero, 1), weights = sn_onnx_centred(c, w, w_zero, 0);
    sn_onnx_window v;
    if (c->m->env->status != SN_OK || sn_onnx_window_read(&v, c, image, weights) != SN_OK ||
        sn_onnx_window_same(&v, c, image) != SN_OK)
        return (sn_nd){0};
    return convolve(c, image, weights, &v, sn_onnx_attr_int(c, "group", 1));
}

sn_status sn_onnx_conv_integer(sn_onnx_call *c) { return sn_onnx_done(c, integers(c, 0, 1, 2, 3)); }

/* x, its scale and zero point, those of w, those of y, bias. */
sn_status sn_onnx_qlinear_conv(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd y = integers(c, 0, 3, 2, 5);
    if (sn_onnx_has(c, 8)) y = add_bias(m, y, sn_onnx_in(c, 8));
    sn_onnx_scales s = {.a = 1, .b = 4, .y = 6, .zero = 7, .a_axis = 1, .b_axis = 1, .y_axis = 1};
    return sn_onnx_done(c, sn_onnx_requantised(c, y, s));
}
