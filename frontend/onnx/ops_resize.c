/* ops_resize.c: Resize and Upsample, axis by axis: element o of the result is a weighted sum of K elements of the
 * operand, whose places and weights are tables made at import.
 *
 *     linear, scale 2:   y[0] = x[0], y[1] = 3/4 x[0] + 1/4 x[1], y[2] = 1/4 x[0] + 3/4 x[1], ..     K = 2
 *     nearest, scale 2:  y[0] = x[0], y[1] = x[0], y[2] = x[1], ..                                   K = 1, a view
 *
 * Where sizes are names, places and weights are computed when the graph runs, but for what just repeats each element.
 */
#include "frontend/onnx/sample.h"
#include "ir/index/ix.h"
#include "ir/module.h"

#include <math.h>
#include <string.h>

typedef enum interpolation { NEAREST, LINEAR, CUBIC } interpolation;
typedef enum rounding { PREFER_FLOOR, PREFER_CEIL, ROUND_FLOOR, ROUND_CEIL } rounding;
typedef enum coordinates {
    HALF_PIXEL,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_HALF_PIXEL,
    TF_CROP,
    SYMMETRIC
} coordinates;

static const char *const interpolation_names[] = {"nearest", "linear", "cubic", NULL};
static const char *const rounding_names[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
static const char *const coordinate_names[] = {
    "half_pixel",           "pytorch_half_pixel", "align_corners",        "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize", "half_pixel_symmetric", NULL};

/* What holds for all axes. */
typedef struct resize {
    interpolation mode;
    rounding round;
    bool round_by_scale; /* before opset 11 */
    coordinates from;
    bool exclude_outside, antialias;
    double a, extrapolation; /* of cubic; of TF_CROP */
} resize;

enum { TABLE_MAX = 1 << 24 }; /* elements of a table */

/* One axis. A size that is given tells the scale, a scale that is given the size: the integer below. */
typedef struct resized {
    bool active, counted;    /* counted: in, out and scale are set */
    sn_ix in_size, out_size; /* out_size none: of the scale */
    int64_t in, out;
    double scale, start, end;
} resized;

/* Elements o*K .. of the tables belong to element o of the result. */
typedef struct table {
    uint32_t k;
    int64_t *index;
    double *weight;
    bool *outside, any_outside; /* of element o: extrapolated */
} table;

/* ---- options ---- */

static int one_of(sn_onnx_call *c, const char *attribute, const char *const *names, int otherwise) {
    const char *name = sn_onnx_attr_text(c, attribute, names[otherwise]);
    for (int k = 0; names[k]; k++)
        if (!strcmp(names[k], name)) return k;
    sn_onnx_fail(c, "%s %s", attribute, name);
    return otherwise;
}

static resize read_options(sn_onnx_call *c) {
    bool old = c->opset < 11 || !strcmp(c->op->name, "Upsample");
    const char *mode = sn_onnx_attr_text(c, "mode", "nearest");
    resize r = {.mode = LINEAR};
    if (strcmp(mode, "bilinear")) r.mode = (interpolation)one_of(c, "mode", interpolation_names, NEAREST);
    r.from = (coordinates)one_of(c, "coordinate_transformation_mode", coordinate_names, old ? ASYMMETRIC : HALF_PIXEL);
    r.round = (rounding)one_of(c, "nearest_mode", rounding_names, PREFER_FLOOR);
    r.round_by_scale = old;
    r.exclude_outside = sn_onnx_attr_int(c, "exclude_outside", 0);
    r.antialias = sn_onnx_attr_int(c, "antialias", 0) && r.mode != NEAREST;
    r.a = sn_onnx_attr_float(c, "cubic_coeff_a", -0.75);
    r.extrapolation = sn_onnx_attr_float(c, "extrapolation_value", 0);
    return r;
}

/* ---- sizes ---- */

/* The axes that scales and sizes are for: all without `axes`. */
static sn_status read_axes(uint32_t *axes, uint32_t *n, sn_onnx_call *c, uint32_t rank) {
    const int64_t *at;
    if (!sn_onnx_attr_ints(&at, n, c, "axes")) {
        *n = rank;
        for (uint32_t k = 0; k < rank; k++) axes[k] = k;
        return SN_OK;
    }
    if (*n > rank) return sn_onnx_fail(c, "%u axes of a tensor of rank %u", *n, rank);
    for (uint32_t k = 0; k < *n; k++) SN_TRY(sn_onnx_axis(&axes[k], c, at[k], rank));
    return SN_OK;
}

static sn_status by_scales(resized *to, sn_onnx_call *c, const uint32_t *axes, uint32_t n, const double *scale) {
    for (uint32_t k = 0; k < n; k++) {
        if (!(scale[k] > 1e-6 && scale[k] < 1e6)) return sn_onnx_fail(c, "scale %g", scale[k]);
        to[axes[k]].scale = scale[k];
        to[axes[k]].active = scale[k] != 1;
    }
    return SN_OK;
}

/* Numbers of the sizes of an axis. The product with a scale is rounded to f32 first, as the operator's shape inference
 * does. */
static sn_status numbers(resized *to, sn_onnx_call *c) {
    if (to->counted) return SN_OK;
    to->counted = true;
    if (!sn_ix_is_const(c->m, to->in_size, &to->in) ||
        (to->out_size.i && !sn_ix_is_const(c->m, to->out_size, &to->out)))
        return sn_onnx_fail(c, "sizes of resized axes have to be numbers");
    if (to->in < 1 || to->in > INT32_MAX) return sn_onnx_fail(c, "an axis of %lld elements", (long long)to->in);
    if (to->out_size.i) to->scale = (double)to->out / (double)to->in;
    else to->out = (int64_t)floorf((float)to->in * (float)to->scale);
    if (to->out < 1 || to->out > TABLE_MAX)
        return sn_onnx_fail(c, "an axis of %lld elements becomes one of %lld", (long long)to->in, (long long)to->out);
    return SN_OK;
}

/* One scale for all axes, so that none gets larger, or none smaller, than its size says. */
static sn_status keep_aspect(resized *to, sn_onnx_call *c, const uint32_t *axes, uint32_t n, bool larger) {
    double scale = 0;
    for (uint32_t k = 0; k < n; k++) {
        SN_TRY(numbers(&to[axes[k]], c));
        double own = to[axes[k]].scale;
        if (k == 0 || (larger ? own > scale : own < scale)) scale = own;
    }
    for (uint32_t k = 0; k < n; k++) {
        resized *t = &to[axes[k]];
        t->scale = scale;
        t->out = (int64_t)floor(scale * (double)t->in + 0.5);
        t->active = scale != 1;
    }
    return SN_OK;
}

static sn_status by_sizes(resized *to, sn_onnx_call *c, const uint32_t *axes, uint32_t n, uint32_t operand) {
    static const char *const policies[] = {"stretch", "not_larger", "not_smaller", NULL};
    int policy = one_of(c, "keep_aspect_ratio_policy", policies, 0);
    sn_ix sizes[SN_KNOWN_MAX];
    uint32_t given;
    SN_TRY(sn_onnx_sizes(sizes, &given, c, operand));
    if (given != n) return sn_onnx_fail(c, "%u sizes for %u axes", given, n);
    for (uint32_t k = 0; k < n; k++) {
        to[axes[k]].out_size = sizes[k];
        to[axes[k]].active = !sn_ix_eq(sizes[k], to[axes[k]].in_size);
    }
    return policy ? keep_aspect(to, c, axes, n, policy == 2) : SN_OK;
}

/* roi: where the result begins and ends, in parts of the operand, for each axis. */
static sn_status read_roi(resized *to, sn_onnx_call *c, const uint32_t *axes, uint32_t n) {
    const sn_array *roi;
    SN_TRY(sn_onnx_array(&roi, c, sn_onnx_in(c, 1)));
    if (roi->numel != 2 * (int64_t)n || !sn_is_float(roi->dtype))
        return sn_onnx_fail(c, "roi has %lld elements, not %u", (long long)roi->numel, 2 * n);
    for (uint32_t k = 0; k < n; k++) {
        to[axes[k]].start = roi->f[k], to[axes[k]].end = roi->f[n + k];
        if (roi->f[k] != 0 || roi->f[n + k] != 1) to[axes[k]].active = true;
    }
    return SN_OK;
}

/* ---- tables ---- */

/* Where in the operand element o of the result lies. */
static double place_of(const resize *r, const resized *t, double o) {
    double in = (double)t->in, out = in * t->scale, at;
    switch (r->from) {
    case PYTORCH_HALF_PIXEL: at = out > 1 ? (o + 0.5) / t->scale - 0.5 : 0; break;
    case ALIGN_CORNERS: at = out == 1 ? 0 : o * (in - 1) / (out - 1); break;
    case ASYMMETRIC: at = o / t->scale; break;
    case TF_HALF_PIXEL: at = (o + 0.5) / t->scale; break;
    case TF_CROP:
        at = t->start * (in - 1);
        at += out == 1 ? (t->end - t->start) * (in - 1) / 2 : o * (t->end - t->start) * (in - 1) / (out - 1);
        break;
    case SYMMETRIC: at = in / 2 * (1 - (double)t->out / out) + (o + 0.5) / t->scale - 0.5; break;
    default: at = (o + 0.5) / t->scale - 0.5; break;
    }
    double half = round(2 * at) / 2; /* a scale that is 1/3 as f32 is meant to be 1/3 */
    return fabs(at - half) < 1e-6 * (1 + fabs(at)) ? half : at;
}

/* Before opset 11: down, but up where the axis gets smaller. */
static rounding rounding_of(const resize *r, const resized *t) {
    return !r->round_by_scale ? r->round : t->scale < 1 ? ROUND_CEIL : ROUND_FLOOR;
}

static double nearest(rounding how, double at) {
    switch (how) {
    case PREFER_FLOOR: return ceil(at - 0.5);
    case PREFER_CEIL: return floor(at + 0.5);
    case ROUND_FLOOR: return floor(at);
    case ROUND_CEIL: return ceil(at);
    }
    return at;
}

/* The weight of an element at a distance: a triangle, or the cubic kernel of Keys with coefficient a. */
static double kernel(const resize *r, double d) {
    double a = r->a;
    d = fabs(d);
    if (r->mode == LINEAR) return d < 1 ? 1 - d : 0;
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* Weights of the K elements from `first` on for a place; antialias: the kernel is as wide as an element of the
 * result. */
static void fill_weights(table *tab, const resize *r, const resized *t, int64_t o, double at, double first) {
    double shrink = r->antialias && t->scale < 1 ? t->scale : 1, sum = 0;
    for (uint32_t k = 0; k < tab->k; k++) {
        double from = first + k;
        bool inside = from >= 0 && from < (double)t->in;
        double w = r->mode == NEAREST ? 1 : kernel(r, (from - at) * shrink);
        if (r->exclude_outside && !inside && r->mode != NEAREST) w = 0;
        tab->index[o * tab->k + k] = from < 0 ? 0 : inside ? (int64_t)from : t->in - 1;
        tab->weight[o * tab->k + k] = w;
        sum += w;
    }
    bool scales = r->exclude_outside || r->antialias;
    for (uint32_t k = 0; scales && sum != 0 && k < tab->k; k++) tab->weight[o * tab->k + k] /= sum;
}

static table make_table(sn_onnx_call *c, const resize *r, const resized *t) {
    double reach = r->mode == LINEAR ? 1 : 2; /* elements on each side of a place */
    if (r->antialias && t->scale < 1) reach = ceil(reach / t->scale);
    if (reach * (double)t->out > TABLE_MAX)
        sn_onnx_fail(c, "an element is made of too many for tables of %d", TABLE_MAX);
    table tab = {.k = r->mode == NEAREST ? 1 : 2 * (uint32_t)reach};
    if (c->m->env->status != SN_OK || sn_onnx_room(c, 2 * t->out * tab.k) != SN_OK) return (table){0};
    tab.index = SN_NEWN(c->arena, int64_t, (uint64_t)t->out *tab.k);
    tab.weight = SN_NEWN(c->arena, double, (uint64_t)t->out *tab.k);
    tab.outside = SN_NEWN(c->arena, bool, (uint64_t)t->out);
    for (int64_t o = 0; o < t->out; o++) {
        double at = place_of(r, t, (double)o);
        tab.outside[o] = r->from == TF_CROP && (at < 0 || at > (double)t->in - 1);
        tab.any_outside = tab.any_outside || tab.outside[o];
        fill_weights(&tab, r, t, o, at, r->mode == NEAREST ? nearest(rounding_of(r, t), at) : floor(at) - reach + 1);
    }
    return tab;
}

/* ---- nodes ---- */

/* Each element of an axis `times` times. */
static sn_nd repeat(sn_module *m, sn_nd x, uint32_t axis, int64_t times) {
    sn_type t = *sn_graph_type(m, x), wide = t;
    int64_t next = axis + 1;
    for (uint32_t k = wide.rank++; k > axis + 1; k--) wide.shape[k] = wide.shape[k - 1];
    wide.shape[next] = sn_ix_const(m, times);
    t.shape[axis] = sn_ix_scale(m, t.shape[axis], times);
    x = sn_graph_expand(m, sn_graph_unsqueeze(m, x, &next, 1), wide.shape, wide.rank);
    return sn_graph_reshape(m, x, t.shape, t.rank);
}

static bool is_repeat(const table *tab, int64_t in, int64_t out) {
    if (tab->k != 1 || in == 0 || out % in) return false;
    for (int64_t o = 0; o < out; o++)
        if (tab->index[o] != o / (out / in)) return false;
    return true;
}

/* Elements that the table names, as a view where they are a step apart. */
static sn_nd select_elements(sn_module *m, sn_nd x, uint32_t axis, const int64_t *index, int64_t n) {
    int64_t step = n > 1 ? index[1] - index[0] : 1;
    bool even = step > 0;
    for (int64_t o = 1; o < n; o++) even = even && index[o] - index[o - 1] == step;
    if (even) return sn_graph_slice(m, x, axis, index[0], index[n - 1] + 1, step);
    return sn_graph_index_select(m, x, sn_graph_ints(m, SN_I64, index, &n, 1), axis);
}

enum { WRITTEN_OUT = 4 }; /* so few terms are added up in one expression, which fuses with that of the next axis */

static sn_nd weighted(sn_onnx_call *c, sn_nd x, uint32_t axis, const table *tab, int64_t out) {
    sn_module *m = c->m;
    uint32_t rank = sn_graph_type(m, x)->rank, n = tab->k;
    sn_dtype t = sn_graph_type(m, x)->dtype;
    if (n > WRITTEN_OUT) {
        int64_t shape[] = {out, n}, last = axis + 1;
        sn_nd terms = sn_graph_index_select(m, x, sn_graph_ints(m, SN_I64, tab->index, shape, 2), axis);
        sn_nd w = sn_graph_align(m, sn_graph_floats(m, t, tab->weight, shape, 2), axis, rank + 1);
        return sn_graph_reduce(m, SN_OP_SUM, sn_graph_mul(m, terms, w), &last, 1, false);
    }
    int64_t *index = SN_NEWN(c->arena, int64_t, (uint64_t)out);
    double *weight = SN_NEWN(c->arena, double, (uint64_t)out);
    sn_nd sum = {0};
    for (uint32_t k = 0; k < n; k++) {
        for (int64_t o = 0; o < out; o++) index[o] = tab->index[o * n + k], weight[o] = tab->weight[o * n + k];
        sn_nd w = sn_graph_align(m, sn_graph_floats(m, t, weight, &out, 1), axis, rank);
        sn_nd term = sn_graph_mul(m, select_elements(m, x, axis, index, out), w);
        sum = k ? sn_graph_add(m, sum, term) : term;
    }
    return sum;
}

/* ---- sizes that are names ---- */

/* The size of the result: given, or of a scale that is a whole number or 1 / a whole number. */
static sn_status named_size(sn_ix *out, sn_onnx_call *c, const resized *t) {
    double up = round(t->scale), down = round(1 / t->scale);
    if (t->out_size.i) *out = t->out_size;
    else if (up >= 1 && t->scale == up) *out = sn_ix_scale(c->m, t->in_size, (int64_t)up);
    else if (fabs(down * t->scale - 1) < 1e-6) *out = sn_ix_divc(c->m, t->in_size, (int64_t)down);
    else return sn_onnx_fail(c, "scale %g of a size that is a name", t->scale);
    return SN_OK;
}

/* place_of in nodes, for the numbers o of the elements of the result. */
static sn_nd named_places(sn_module *m, const resize *r, const resized *t, sn_nd o, sn_ix out) {
    sn_nd size = sn_onnx_amount(m, o, t->in_size, 0), result = sn_onnx_amount(m, o, out, 0);
    if (r->from == ALIGN_CORNERS) {
        sn_nd steps = sn_graph_with(m, SN_OP_MAXIMUM, sn_graph_with(m, SN_OP_SUB, result, 1), 1);
        return sn_graph_div(m, sn_graph_mul(m, o, sn_graph_with(m, SN_OP_SUB, size, 1)), steps);
    }
    sn_nd at = r->from == ASYMMETRIC ? o : sn_graph_with(m, SN_OP_ADD, o, 0.5);
    at = t->out_size.i ? sn_graph_div(m, sn_graph_mul(m, at, size), result) : sn_graph_with(m, SN_OP_DIV, at, t->scale);
    if (r->from == HALF_PIXEL || r->from == PYTORCH_HALF_PIXEL) at = sn_graph_with(m, SN_OP_SUB, at, 0.5);
    if (r->from != PYTORCH_HALF_PIXEL) return at;
    return sn_graph_where(m, sn_graph_with(m, SN_OP_GT, result, 1), at, sn_graph_number(m, at, 0));
}

static sn_nd named_nearest(sn_module *m, rounding how, sn_nd at) {
    if (how == PREFER_FLOOR) at = sn_graph_with(m, SN_OP_SUB, at, 0.5);
    if (how == PREFER_CEIL) at = sn_graph_with(m, SN_OP_ADD, at, 0.5);
    return sn_graph_unary(m, how == PREFER_FLOOR || how == ROUND_CEIL ? SN_OP_CEIL : SN_OP_FLOOR, at);
}

static bool is_named(const sn_module *m, const resized *t) {
    int64_t number;
    return !sn_ix_is_const(m, t->in_size, &number) || (t->out_size.i && !sn_ix_is_const(m, t->out_size, &number));
}

/* One axis with places and weights that are nodes. */
static sn_nd by_sampling(sn_onnx_call *c, const resize *r, const resized *t, sn_nd x, uint32_t axis) {
    static const sn_onnx_filter filters[] = {
        [NEAREST] = SN_ONNX_NEAREST, [LINEAR] = SN_ONNX_LINEAR, [CUBIC] = SN_ONNX_CUBIC};
    sn_module *m = c->m;
    const sn_type *type = sn_graph_type(m, x);
    sn_onnx_sampler s = {.filter = filters[r->mode], .border = SN_ONNX_EDGE, .n = 1, .size = {t->in_size}};
    sn_onnx_tap taps[SN_ONNX_TAPS];
    sn_ix out;
    sn_nd sum = {0};
    bool like_sampler = r->mode != CUBIC || (r->a == -0.75 && r->from != ASYMMETRIC && r->from != TF_HALF_PIXEL);
    if (r->from == TF_CROP || r->from == SYMMETRIC || r->antialias || r->exclude_outside || !like_sampler) {
        sn_onnx_fail(c, "sizes of resized axes have to be numbers with these attributes");
        return x;
    }
    if (named_size(&out, c, t) != SN_OK) return x;
    sn_nd o = sn_graph_iota(m, type->dtype == SN_F64 ? SN_F64 : SN_F32, 0, &out, 1);
    sn_nd at = named_places(m, r, t, o, out);
    if (r->mode == NEAREST) at = named_nearest(m, rounding_of(r, t), at);
    uint32_t n = sn_onnx_taps(taps, m, &s, 0, at);
    for (uint32_t k = 0; k < n; k++) {
        sn_nd v = sn_graph_index_select(m, x, taps[k].index, axis);
        if (taps[k].weight.i) v = sn_graph_mul(m, v, sn_graph_align(m, taps[k].weight, axis, type->rank));
        sum = k ? sn_graph_add(m, sum, v) : v;
    }
    return sum;
}

enum { REPEATS = 64 };

/* Nearest with a whole scale may be a repetition of elements, a view: tried on a size that stands for all. */
static bool by_repeating(sn_nd *x, sn_onnx_call *c, const resize *r, const resized *t, uint32_t axis) {
    sn_module *m = c->m;
    int64_t times = 1;
    while (times < REPEATS &&
           (t->out_size.i ? !sn_ix_eq(t->out_size, sn_ix_scale(m, t->in_size, times)) : (double)times != t->scale))
        times++;
    if (r->mode != NEAREST || r->from == TF_CROP || times == REPEATS) return false;
    resized other = {.in = 16, .out = 16 * times, .scale = (double)times};
    table tab = make_table(c, r, &other);
    if (!is_repeat(&tab, other.in, other.out) || sn_graph_type(m, *x)->rank == SN_MAX_RANK) return false;
    *x = repeat(m, *x, axis, times);
    return true;
}

/* ---- all axes ---- */

/* The mask over an axis of elements that are extrapolated, in a tensor of that rank. */
static sn_nd mask(sn_onnx_call *c, const table *tab, int64_t out, uint32_t axis, uint32_t rank) {
    int64_t *at = SN_NEWN(c->arena, int64_t, (uint64_t)out);
    for (int64_t o = 0; o < out; o++) at[o] = tab->outside[o];
    return sn_graph_align(c->m, sn_graph_ints(c->m, SN_BOOL, at, &out, 1), axis, rank);
}

static sn_nd build(sn_onnx_call *c, const resize *r, resized *to, sn_nd x) {
    sn_module *m = c->m;
    const sn_type t = *sn_graph_type(m, x);
    sn_nd y = r->mode == NEAREST ? x : sn_is_float(t.dtype) ? sn_graph_widen(m, x) : sn_graph_cast(m, x, SN_F32);
    sn_nd outside = {0};
    for (uint32_t k = 0; k < t.rank; k++) {
        if (!to[k].active) continue;
        if (is_named(m, &to[k])) {
            if (!by_repeating(&y, c, r, &to[k], k)) y = by_sampling(c, r, &to[k], y, k);
            continue;
        }
        if (numbers(&to[k], c) != SN_OK) return y;
        table tab = make_table(c, r, &to[k]);
        if (m->env->status != SN_OK) return y;
        if (is_repeat(&tab, to[k].in, to[k].out) && t.rank < SN_MAX_RANK) y = repeat(m, y, k, to[k].out / to[k].in);
        else if (tab.k == 1) y = select_elements(m, y, k, tab.index, to[k].out);
        else y = weighted(c, y, k, &tab, to[k].out);
        if (!tab.any_outside) continue;
        sn_nd own = mask(c, &tab, to[k].out, k, t.rank);
        outside = outside.i ? sn_graph_binary(m, SN_OP_OR, outside, own) : own;
    }
    if (outside.i) y = sn_graph_where(m, outside, sn_graph_number(m, y, r->extrapolation), y);
    if (r->mode != NEAREST && !sn_is_float(t.dtype)) y = sn_graph_unary(m, SN_OP_ROUND, y);
    return sn_graph_cast(m, y, t.dtype);
}

/* ---- operators ---- */

static sn_status start(resized *to, sn_onnx_call *c, sn_nd x) {
    const sn_type *t = sn_graph_type(c->m, x);
    for (uint32_t k = 0; k < t->rank; k++) to[k] = (resized){.in_size = t->shape[k], .scale = 1, .end = 1};
    return c->m->env->status;
}

/* Scales as an operand. */
static sn_status read_scales(resized *to, sn_onnx_call *c, const uint32_t *axes, uint32_t n, uint32_t operand) {
    const sn_array *scales;
    SN_TRY(sn_onnx_array(&scales, c, sn_onnx_in(c, operand)));
    if (scales->numel != n || !sn_is_float(scales->dtype))
        return sn_onnx_fail(c, "%lld scales for %u axes", (long long)scales->numel, n);
    return by_scales(to, c, axes, n, scales->f);
}

/* Scales as attributes: of the whole list, or of height and width. */
sn_status sn_onnx_upsample(sn_onnx_call *c) {
    resized to[SN_MAX_RANK];
    uint32_t axes[SN_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7}, n, rank;
    const float *at;
    double scale[SN_MAX_RANK] = {1, 1, sn_onnx_attr_float(c, "height_scale", 1),
                                 sn_onnx_attr_float(c, "width_scale", 1)};
    sn_nd x = sn_onnx_in(c, 0);
    resize r = read_options(c);
    SN_TRY(start(to, c, x));
    rank = sn_graph_type(c->m, x)->rank;
    bool list = sn_onnx_attr_floats(&at, &n, c, "scales");
    if (rank != (list ? n : 4)) return sn_onnx_fail(c, "%u scales for a tensor of rank %u", list ? n : 4, rank);
    for (uint32_t k = 0; list && k < n; k++) scale[k] = (double)at[k];
    SN_TRY(by_scales(to, c, axes, rank, scale));
    return sn_onnx_done(c, build(c, &r, to, x));
}

/* x and scales; from opset 11 on x, roi, scales, sizes, of which one of the last two is given. The row's arg: the
 * operand with the scales. */
sn_status sn_onnx_resize(sn_onnx_call *c) {
    resized to[SN_MAX_RANK];
    uint32_t axes[SN_MAX_RANK], n, operand = (uint32_t)c->op->arg;
    sn_nd x = sn_onnx_in(c, 0);
    resize r = read_options(c);
    SN_TRY(start(to, c, x));
    SN_TRY(read_axes(axes, &n, c, sn_graph_type(c->m, x)->rank));
    if (sn_onnx_has(c, 3)) SN_TRY(by_sizes(to, c, axes, n, 3));
    else SN_TRY(read_scales(to, c, axes, n, operand));
    sn_onnx_attr_ignore(c, "keep_aspect_ratio_policy"); /* for scales it means nothing */
    if (r.from == TF_CROP) SN_TRY(read_roi(to, c, axes, n));
    return sn_onnx_done(c, build(c, &r, to, x));
}
