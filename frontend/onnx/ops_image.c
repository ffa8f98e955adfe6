/* ops_image.c: operators on images that move their elements, or read them at computed places (sample.c).
 */
#include "frontend/onnx/sample.h"
#include "ir/index/ix.h"
#include "ir/module.h"

#include <math.h>
#include <string.h>

/* ---- blocks and channels ---- */

/* A tensor of rank 4 and a block size that is one. */
static sn_status read_block(int64_t *block, sn_onnx_call *c, sn_nd x) {
    *block = sn_onnx_attr_int(c, "blocksize", 0);
    SN_TRY(c->m->env->status);
    if (sn_graph_type(c->m, x)->rank != 4)
        return sn_onnx_fail(c, "an image of shape %s, not [N, C, H, W]", sn_type_text(c->m, sn_graph_type(c->m, x)));
    return *block >= 1 && *block <= INT16_MAX ? SN_OK : sn_onnx_fail(c, "blocksize %lld", (long long)*block);
}

/* [N, C, H, W] -> [N, b, b, C, H/b, W/b] */
sn_status sn_onnx_space_to_depth(sn_onnx_call *c) {
    static const int64_t perm[] = {0, 3, 5, 1, 2, 4};
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0);
    int64_t b;
    SN_TRY(read_block(&b, c, x));
    const sn_ix *s = sn_graph_type(m, x)->shape;
    sn_ix block = sn_ix_const(m, b), h = sn_ix_divc(m, s[2], b), w = sn_ix_divc(m, s[3], b);
    sn_ix out[] = {s[0], sn_ix_scale(m, s[1], b * b), h, w};
    x = sn_graph_permute(m, sn_graph_reshape(m, x, (sn_ix[]){s[0], s[1], h, block, w, block}, 6), perm, 6);
    return sn_onnx_done(c, sn_graph_reshape(m, x, out, 4));
}

/* Channels are [b, b, C] (DCR) or [C, b, b] (CRD), and become [N, C, H, b, W, b]. */
sn_status sn_onnx_depth_to_space(sn_onnx_call *c) {
    static const int64_t depth_first[] = {0, 3, 4, 1, 5, 2}, columns_first[] = {0, 1, 4, 2, 5, 3};
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0);
    const char *mode = sn_onnx_attr_text(c, "mode", "DCR");
    int64_t b;
    bool crd = !strcmp(mode, "CRD");
    SN_TRY(read_block(&b, c, x));
    if (!crd && strcmp(mode, "DCR")) return sn_onnx_fail(c, "mode %s", mode);
    const sn_ix *s = sn_graph_type(m, x)->shape;
    sn_ix block = sn_ix_const(m, b), channels = sn_ix_divc(m, s[1], b * b);
    sn_ix dcr_shape[] = {s[0], block, block, channels, s[2], s[3]};
    sn_ix crd_shape[] = {s[0], channels, block, block, s[2], s[3]};
    sn_ix out[] = {s[0], channels, sn_ix_scale(m, s[2], b), sn_ix_scale(m, s[3], b)};
    x = sn_graph_reshape(m, x, crd ? crd_shape : dcr_shape, 6);
    return sn_onnx_done(c, sn_graph_reshape(m, sn_graph_permute(m, x, crd ? columns_first : depth_first, 6), out, 4));
}

/* ---- crops ---- */

/* The middle of x, or x in the middle of zeros: the odd element is cut or added at the end. */
sn_status sn_onnx_center_crop_pad(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0);
    const sn_type *t = sn_graph_type(m, x);
    int64_t low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
    const int64_t *axes;
    sn_ix want[SN_KNOWN_MAX];
    uint32_t n, n_axes;
    bool some = sn_onnx_attr_ints(&axes, &n_axes, c, "axes");
    SN_TRY(sn_onnx_sizes(want, &n, c, 1));
    if (n != (some ? n_axes : t->rank)) return sn_onnx_fail(c, "%u sizes for %u axes", n, some ? n_axes : t->rank);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t axis;
        int64_t more;
        SN_TRY(sn_onnx_axis(&axis, c, some ? axes[k] : k, t->rank));
        if (!sn_ix_is_const(m, sn_ix_sub(m, want[k], t->shape[axis]), &more))
            return sn_onnx_fail(c, "how much axis %u grows has to be a number", axis);
        low[axis] = more / 2;
        high[axis] = more - more / 2;
    }
    return sn_onnx_done(c, sn_graph_pad(m, x, low, high, 0));
}

/* ---- grids ---- */

/* Place of a normalised coordinate: -1 and 1 are the borders. */
static sn_nd denormalised(sn_module *m, sn_nd at, const sn_onnx_sampler *s, uint32_t k) {
    at = sn_graph_with(m, SN_OP_ADD, at, 1);
    sn_nd y = sn_graph_mul(m, at, sn_onnx_amount(m, at, s->size[k], s->align_corners ? -1 : 0));
    return sn_graph_with(m, SN_OP_DIV, s->align_corners ? y : sn_graph_with(m, SN_OP_SUB, y, 1), 2);
}

static sn_status read_sampler(sn_onnx_sampler *s, sn_onnx_call *c, sn_nd x, sn_nd grid) {
    static const char *const filters[] = {"nearest", "linear", "cubic", "nearest", "bilinear", "bicubic"};
    static const char *const borders[] = {"zeros", "border", "reflection"};
    const char *mode = sn_onnx_attr_text(c, "mode", "linear"), *edge = sn_onnx_attr_text(c, "padding_mode", "zeros");
    const sn_type *t = sn_graph_type(c->m, x), *g = sn_graph_type(c->m, grid);
    int filter = -1, border = -1;
    for (int k = 0; k < 6; k++)
        if (!strcmp(filters[k], mode)) filter = k % 3;
    for (int k = 0; k < 3; k++)
        if (!strcmp(borders[k], edge)) border = k;
    SN_TRY(c->m->env->status);
    if (filter < 0) return sn_onnx_fail(c, "mode %s", mode);
    if (border < 0) return sn_onnx_fail(c, "padding_mode %s", edge);
    if (t->rank < 3 || t->rank > 5 || g->rank != t->rank)
        return sn_onnx_fail(c, "a grid of rank %u for rank %u", g->rank, t->rank);
    *s = (sn_onnx_sampler){.filter = (sn_onnx_filter)filter, .border = (sn_onnx_border)border, .n = t->rank - 2};
    s->align_corners = sn_onnx_attr_int(c, "align_corners", 0);
    for (uint32_t k = 0; k < s->n; k++) s->size[k] = t->shape[2 + k];
    return SN_OK;
}

/* x[N, C, D1, ..], grid[N, O1, .., n]: the coordinates of the last image axis first. */
sn_status sn_onnx_grid_sample(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), grid = sn_onnx_in(c, 1), place[SN_MAX_RANK];
    sn_onnx_sampler s;
    SN_TRY(read_sampler(&s, c, x, grid));
    sn_type t = *sn_graph_type(m, x), g = *sn_graph_type(m, grid);
    sn_ix points = sn_ix_product(m, g.shape + 1, s.n), elements = sn_ix_product(m, t.shape + 2, s.n);
    sn_ix list[] = {g.shape[0], sn_ix_const(m, 1), points}, flat[] = {t.shape[0], t.shape[1], elements};
    for (uint32_t k = 0; k < s.n; k++) {
        sn_nd at = sn_graph_pick(m, sn_graph_widen(m, grid), s.n + 1, s.n - 1 - k);
        place[k] = denormalised(m, sn_graph_reshape(m, at, list, 3), &s, k);
    }
    sn_nd y = sn_onnx_sample(m, sn_graph_reshape(m, x, flat, 3), &s, place);
    for (uint32_t k = 0; k < s.n; k++) t.shape[2 + k] = g.shape[1 + k];
    return sn_onnx_done(c, sn_graph_reshape(m, y, t.shape, t.rank));
}

enum { AXIS_MAX = 1 << 24 };

/* Normalised coordinates of the n elements of an axis, along axis `axis` of a tensor of that rank. */
static sn_nd coordinates(sn_onnx_call *c, int64_t n, bool align, sn_dtype t, uint32_t axis, uint32_t rank) {
    double *at = SN_NEWN(c->arena, double, (uint64_t)n + 1);
    for (int64_t k = 0; k < n; k++)
        at[k] = !align ? (2.0 * (double)k + 1) / (double)n - 1 : n > 1 ? 2.0 * (double)k / (double)(n - 1) - 1 : -1;
    return sn_graph_align(c->m, sn_graph_floats(c->m, t, at, &n, 1), axis, rank);
}

/* grid[n, .., h, w, i] = theta[n, i, 0] x[w] + theta[n, i, 1] y[h] + .. + theta[n, i, last]. */
sn_status sn_onnx_affine_grid(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd theta = sn_onnx_in(c, 0), wide = sn_graph_widen(m, theta);
    const int64_t *size;
    uint32_t n;
    bool align = sn_onnx_attr_int(c, "align_corners", 0);
    SN_TRY(sn_onnx_ints(&size, &n, c, 1));
    const sn_type *t = sn_graph_type(m, wide);
    if (n < 4 || n > 5 || t->rank != 3) return sn_onnx_fail(c, "%u sizes for theta of rank %u", n, t->rank);
    uint32_t axes = n - 2, rank = axes + 2;
    sn_nd sum = {0};
    for (uint32_t k = 0; k <= axes; k++) {
        sn_nd column = sn_graph_pick(m, wide, 2, k); /* [N, axes] */
        int64_t between[] = {1, 2, 3};
        sn_nd term = sn_graph_unsqueeze(m, column, between, axes);
        uint32_t from = axes - 1 - k; /* the image axis that column k is for; the last column is for none */
        if (k < axes && (size[2 + from] < 1 || size[2 + from] > AXIS_MAX))
            return sn_onnx_fail(c, "an axis of %lld elements", (long long)size[2 + from]);
        if (k < axes) term = sn_graph_mul(m, term, coordinates(c, size[2 + from], align, t->dtype, 1 + from, rank));
        sum = k ? sn_graph_add(m, sum, term) : term;
    }
    return sn_onnx_done(c, sn_graph_cast(m, sum, sn_graph_type(m, theta)->dtype));
}

/* ---- regions ---- */

/* Along one image axis: begin and extent of each region [R], and how many samples a bin of it has. */
typedef struct range {
    sn_nd begin, bin; /* bin: extent of one */
    int64_t bins, most;
    sn_nd samples; /* f32[R]; none: `most` everywhere */
} range;

/* sampling_ratio 0: as many samples as the region has elements in a bin, rounded up; the regions have to be known. */
static sn_status count_samples(range *r, sn_onnx_call *c, sn_nd bin) {
    const sn_array *known;
    r->most = sn_onnx_attr_int(c, "sampling_ratio", 0);
    if (r->most > 0) return r->most <= INT16_MAX ? SN_OK : sn_onnx_fail(c, "sampling_ratio %lld", (long long)r->most);
    SN_TRY(sn_onnx_array(&known, c, bin));
    double *count = SN_NEWN(c->arena, double, (uint64_t)known->numel + 1);
    r->most = 1;
    for (int64_t k = 0; k < known->numel; k++) {
        count[k] = known->f[k] > 0 ? ceil((double)(float)known->f[k]) : 0;
        if (count[k] > INT16_MAX) return sn_onnx_fail(c, "region %lld is too large", (long long)k);
        if ((int64_t)count[k] > r->most) r->most = (int64_t)count[k];
    }
    r->samples = sn_graph_floats(c->m, SN_F32, count, known->shape, 1);
    return SN_OK;
}

/* rois[R, 4] are x1, y1, x2, y2; axis 0: y. */
static sn_status read_range(range *r, sn_onnx_call *c, sn_nd rois, uint32_t axis, bool half_pixel) {
    sn_module *m = c->m;
    double scale = sn_onnx_attr_float(c, "spatial_scale", 1), offset = half_pixel ? 0.5 : 0;
    sn_nd ends[2];
    for (uint32_t k = 0; k < 2; k++) {
        sn_nd at = sn_graph_with(m, SN_OP_MUL, sn_graph_pick(m, rois, 1, 2 * k + 1 - axis), scale);
        ends[k] = sn_graph_with(m, SN_OP_SUB, at, offset);
    }
    sn_nd extent = sn_graph_sub(m, ends[1], ends[0]);
    if (!half_pixel) extent = sn_graph_with(m, SN_OP_MAXIMUM, extent, 1);
    *r = (range){.begin = ends[0], .bins = sn_onnx_attr_int(c, axis ? "output_width" : "output_height", 1)};
    if (r->bins < 1 || r->bins > INT16_MAX) return sn_onnx_fail(c, "%lld bins", (long long)r->bins);
    r->bin = sn_graph_with(m, SN_OP_DIV, extent, (double)r->bins);
    return count_samples(r, c, r->bin);
}

enum { ROI_RANK = 5 }; /* samples are [R, bins of y, samples of a bin, bins of x, samples of a bin] */

/* Sample numbers of a bin, 0 .. most - 1, along their axis. */
static sn_nd sample_numbers(sn_module *m, const range *r, uint32_t axis) {
    sn_ix n = sn_ix_const(m, r->most);
    return sn_graph_align(m, sn_graph_iota(m, SN_F32, 0, &n, 1), 2 + 2 * axis, ROI_RANK);
}

/* Places of the samples of all regions along an image axis: begin + bin * (number of the bin + (sample + 1/2) /
 * samples). */
static sn_nd sample_places(sn_module *m, const range *r, uint32_t axis) {
    sn_ix bins = sn_ix_const(m, r->bins);
    sn_nd number = sn_graph_align(m, sn_graph_iota(m, SN_F32, 0, &bins, 1), 1 + 2 * axis, ROI_RANK);
    sn_nd inner = sn_graph_with(m, SN_OP_ADD, sample_numbers(m, r, axis), 0.5);
    if (r->samples.i) inner = sn_graph_div(m, inner, sn_graph_align(m, r->samples, 0, ROI_RANK));
    else inner = sn_graph_with(m, SN_OP_DIV, inner, (double)r->most);
    sn_nd bin = sn_graph_align(m, r->bin, 0, ROI_RANK), begin = sn_graph_align(m, r->begin, 0, ROI_RANK);
    return sn_graph_add(m, begin, sn_graph_mul(m, bin, sn_graph_add(m, number, inner)));
}

/* The four corners around every sample, times their weights: [C, R, ..] each. Samples further than one element from the
 * image are 0. */
static void weighted_corners(sn_nd corner[4], sn_module *m, sn_nd x, sn_nd batch, const sn_nd place[2],
                             const sn_ix size[2]) {
    sn_onnx_sampler s = {.filter = SN_ONNX_LINEAR, .border = SN_ONNX_EDGE, .n = 2, .size = {size[0], size[1]}};
    sn_onnx_tap taps[2][SN_ONNX_TAPS];
    sn_nd inside = {0};
    for (uint32_t k = 0; k < 2; k++) {
        sn_nd end = sn_onnx_amount(m, place[k], size[k], 0), last = sn_onnx_amount(m, place[k], size[k], -1);
        sn_nd own = sn_graph_binary(m, SN_OP_AND, sn_graph_with(m, SN_OP_GE, place[k], -1),
                                    sn_graph_binary(m, SN_OP_LE, place[k], end));
        inside = k ? sn_graph_binary(m, SN_OP_AND, inside, own) : own;
        sn_nd at = sn_graph_with(m, SN_OP_MAXIMUM, place[k], 0);
        sn_onnx_taps(taps[k], m, &s, k, sn_graph_binary(m, SN_OP_MINIMUM, at, last));
    }
    for (uint32_t k = 0; k < 4; k++) {
        const sn_onnx_tap *y = &taps[0][k / 2], *w = &taps[1][k % 2];
        sn_nd row = sn_graph_add(m, sn_graph_with_size(m, SN_OP_MUL, batch, size[0]), y->index);
        sn_nd flat = sn_graph_add(m, sn_graph_with_size(m, SN_OP_MUL, row, size[1]), w->index);
        sn_nd weight = sn_graph_mul(m, y->weight, w->weight);
        weight = sn_graph_where(m, inside, weight, sn_graph_number(m, weight, 0));
        corner[k] = sn_graph_mul(m, sn_graph_index_select(m, x, flat, 1), weight);
    }
}

/* Which samples a bin of each region has: none where all have the same number. */
static sn_nd sample_mask(sn_module *m, const range r[2]) {
    sn_nd mask = {0};
    for (uint32_t k = 0; k < 2; k++) {
        if (!r[k].samples.i) continue;
        sn_nd own =
            sn_graph_binary(m, SN_OP_LT, sample_numbers(m, &r[k], k), sn_graph_align(m, r[k].samples, 0, ROI_RANK));
        mask = mask.i ? sn_graph_binary(m, SN_OP_AND, mask, own) : own;
    }
    return mask;
}

/* Mean of the samples of every bin: [C, R, bins of y, bins of x]. */
static sn_nd mean_of(sn_module *m, const sn_nd corner[4], sn_nd mask, const range r[2]) {
    int64_t axes[] = {3, 5};
    sn_nd v = sn_graph_add(m, sn_graph_add(m, corner[0], corner[1]), sn_graph_add(m, corner[2], corner[3]));
    if (!mask.i) return sn_graph_reduce(m, SN_OP_MEAN, v, axes, 2, false);
    v = sn_graph_where(m, mask, v, sn_graph_number(m, v, 0));
    sn_nd count = sn_graph_with(m, SN_OP_MAXIMUM, sn_graph_mul(m, r[0].samples, r[1].samples), 1);
    return sn_graph_div(m, sn_graph_reduce(m, SN_OP_SUM, v, axes, 2, false), sn_graph_align(m, count, 0, 3));
}

/* The largest weighted corner of every bin; the operator does not add the corners of a sample here. */
static sn_nd largest_of(sn_module *m, const sn_nd corner[4], sn_nd mask, const range r[2]) {
    int64_t axes[] = {3, 5};
    sn_nd v = sn_graph_binary(m, SN_OP_MAXIMUM, sn_graph_binary(m, SN_OP_MAXIMUM, corner[0], corner[1]),
                              sn_graph_binary(m, SN_OP_MAXIMUM, corner[2], corner[3]));
    if (!mask.i) return sn_graph_reduce(m, SN_OP_AMAX, v, axes, 2, false);
    v = sn_graph_where(m, mask, v, sn_graph_number(m, v, -(double)INFINITY));
    sn_nd y = sn_graph_reduce(m, SN_OP_AMAX, v, axes, 2, false);
    sn_nd some = sn_graph_with(m, SN_OP_GT, sn_graph_mul(m, r[0].samples, r[1].samples), 0);
    return sn_graph_where(m, sn_graph_align(m, some, 0, 3), y, sn_graph_number(m, y, 0));
}

/* x[N, C, H, W], rois[R, 4], batch[R]: [R, C, output_height, output_width]. */
sn_status sn_onnx_roi_align(sn_onnx_call *c) {
    static const int64_t channels_first[] = {1, 0, 2, 3};
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), rois = sn_graph_cast(m, sn_onnx_in(c, 1), SN_F32), place[2], corner[4];
    const char *mode = sn_onnx_attr_text(c, "mode", "avg"),
               *from = sn_onnx_attr_text(c, "coordinate_transformation_mode",
                                         c->opset < 16 ? "output_half_pixel" : "half_pixel");
    bool largest = !strcmp(mode, "max"), half_pixel = !strcmp(from, "half_pixel");
    const sn_type *t = sn_graph_type(m, x);
    range r[2];
    if (!largest && strcmp(mode, "avg")) return sn_onnx_fail(c, "mode %s", mode);
    if (!half_pixel && strcmp(from, "output_half_pixel"))
        return sn_onnx_fail(c, "coordinate_transformation_mode %s", from);
    if (t->rank != 4) return sn_onnx_fail(c, "an image of shape %s, not [N, C, H, W]", sn_type_text(m, t));
    for (uint32_t k = 0; k < 2; k++) {
        SN_TRY(read_range(&r[k], c, rois, k, half_pixel));
        place[k] = sample_places(m, &r[k], k);
    }
    sn_ix flat[] = {t->shape[1], sn_ix_mul(m, t->shape[0], sn_ix_mul(m, t->shape[2], t->shape[3]))};
    sn_nd elements = sn_graph_reshape(m, sn_graph_permute(m, sn_graph_widen(m, x), channels_first, 4), flat, 2);
    sn_nd batch = sn_graph_align(m, sn_graph_cast(m, sn_onnx_in(c, 2), SN_I64), 0, ROI_RANK), mask = sample_mask(m, r);
    weighted_corners(corner, m, elements, batch, place, t->shape + 2);
    sn_nd y = largest ? largest_of(m, corner, mask, r) : mean_of(m, corner, mask, r);
    return sn_onnx_done(c, sn_graph_cast(m, sn_graph_permute(m, y, channels_first, 4), sn_graph_type(m, x)->dtype));
}
