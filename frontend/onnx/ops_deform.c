/* ops_deform.c: DeformConv: a convolution whose taps are moved by offsets, which are runtime values.
 *
 * The taps of all windows are sampled between elements of the image (sample.c) as columns, which the weights are
 * multiplied with:
 *
 *     columns[N, C, KH*KW, OH*OW] * mask -> [N, groups, C/groups*KH*KW, OH*OW],   w[groups, O/groups, C/groups*KH*KW]
 */
#include "frontend/onnx/sample.h"
#include "frontend/onnx/window.h"
#include "ir/index/ix.h"
#include "ir/module.h"

/* Groups and sizes of a call. */
typedef struct deform {
    sn_onnx_window v;
    int64_t groups, offset_groups, taps;
    sn_ix images, points, out[2]; /* N * offset groups; OH * OW; OH and OW */
} deform;

/* Places of the taps along image axis k without their offsets: window * stride + tap * dilation - padding, [taps, OH,
 * OW] after an axis of size 1. */
static sn_nd regular_places(sn_onnx_call *c, const deform *d, uint32_t k, sn_dtype t) {
    sn_module *m = c->m;
    double *at = SN_NEWN(c->arena, double, (uint64_t)d->taps);
    for (int64_t tap = 0; tap < d->taps; tap++) {
        int64_t own = k ? tap % d->v.kernel[1] : tap / d->v.kernel[1];
        at[tap] = (double)(own * d->v.dilation[k] - d->v.low[k]);
    }
    sn_nd window = sn_graph_with(m, SN_OP_MUL, sn_graph_iota(m, t, 0, &d->out[k], 1), (double)d->v.stride[k]);
    sn_nd tap = sn_graph_align(m, sn_graph_floats(m, t, at, &d->taps, 1), 1, 4);
    return sn_graph_add(m, tap, sn_graph_align(m, window, 2 + k, 4));
}

/* All taps of all windows: [N, C, taps, points] as columns of each group. */
static sn_nd columns(sn_onnx_call *c, const deform *d, sn_nd x, sn_nd offset) {
    sn_module *m = c->m;
    const sn_type *t = sn_graph_type(m, x);
    sn_onnx_sampler s = {.filter = SN_ONNX_LINEAR, .border = SN_ONNX_ZEROS, .n = 2};
    sn_ix one = sn_ix_const(m, 1), taps = sn_ix_const(m, d->taps), all = sn_ix_mul(m, taps, d->points);
    sn_ix split[] = {d->images, taps, sn_ix_const(m, 2), d->out[0], d->out[1]}, list[] = {d->images, one, all};
    sn_ix flat[] = {d->images, sn_ix_divc(m, t->shape[1], d->offset_groups), sn_ix_mul(m, t->shape[2], t->shape[3])};
    sn_nd moved = sn_graph_reshape(m, offset, split, 5), place[2];
    for (uint32_t k = 0; k < 2; k++) {
        s.size[k] = t->shape[2 + k];
        sn_nd at =
            sn_graph_add(m, sn_graph_pick(m, moved, 2, k), regular_places(c, d, k, sn_graph_type(m, offset)->dtype));
        place[k] = sn_graph_reshape(m, at, list, 3);
    }
    sn_nd y = sn_onnx_sample(m, sn_graph_reshape(m, x, flat, 3), &s, place);
    if (sn_onnx_has(c, 4)) y = sn_graph_mul(m, y, sn_graph_reshape(m, sn_graph_widen(m, sn_onnx_in(c, 4)), list, 3));
    sn_ix rows = sn_ix_mul(m, sn_ix_divc(m, t->shape[1], d->groups), taps);
    return sn_graph_reshape(m, y, (sn_ix[]){t->shape[0], sn_ix_const(m, d->groups), rows, d->points}, 4);
}

static sn_status read_deform(deform *d, sn_onnx_call *c, sn_nd x, sn_nd w, sn_nd offset) {
    sn_module *m = c->m;
    const sn_type *t = sn_graph_type(m, x), *o = sn_graph_type(m, offset);
    *d = (deform){.groups = sn_onnx_attr_int(c, "group", 1), .offset_groups = sn_onnx_attr_int(c, "offset_group", 1)};
    SN_TRY(m->env->status);
    SN_TRY(sn_onnx_window_read(&d->v, c, x, w));
    if (d->v.n != 2 || o->rank != 4) return sn_onnx_fail(c, "an image of %u axes; 2 are supported", d->v.n);
    if (d->groups < 1 || d->offset_groups < 1 || d->groups > INT32_MAX || d->offset_groups > INT32_MAX)
        return sn_onnx_fail(c, "%lld groups, %lld of offsets", (long long)d->groups, (long long)d->offset_groups);
    d->taps = d->v.kernel[0] * d->v.kernel[1];
    if (d->taps > INT16_MAX) return sn_onnx_fail(c, "a window of %lld elements", (long long)d->taps);
    d->images = sn_ix_scale(m, t->shape[0], d->offset_groups);
    d->points = sn_ix_mul(m, o->shape[2], o->shape[3]);
    d->out[0] = o->shape[2], d->out[1] = o->shape[3];
    return m->env->status;
}

/* x, w, offset[N, offset groups * KH*KW * 2, OH, OW], bias, mask[N, offset groups * KH*KW, OH, OW]. */
sn_status sn_onnx_deform_conv(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), w = sn_graph_widen(m, sn_onnx_in(c, 1)), offset = sn_graph_widen(m, sn_onnx_in(c, 2));
    sn_dtype t = sn_graph_type(m, x)->dtype;
    deform d;
    x = sn_graph_widen(m, x);
    SN_TRY(read_deform(&d, c, x, w, offset));
    const sn_type *tw = sn_graph_type(m, w);
    sn_ix flat_w[] = {sn_ix_const(m, d.groups), sn_ix_divc(m, tw->shape[0], d.groups),
                      sn_ix_scale(m, tw->shape[1], d.taps)};
    sn_ix out[] = {sn_graph_type(m, x)->shape[0], tw->shape[0], d.out[0], d.out[1]};
    sn_nd y = sn_graph_matmul(m, sn_graph_reshape(m, w, flat_w, 3), columns(c, &d, x, offset));
    y = sn_graph_reshape(m, y, out, 4);
    if (sn_onnx_has(c, 3)) y = sn_graph_add(m, y, sn_graph_align(m, sn_graph_widen(m, sn_onnx_in(c, 3)), 1, 4));
    return sn_onnx_done(c, sn_graph_cast(m, y, t));
}
