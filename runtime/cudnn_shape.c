/* cudnn_shape.c: which convolution of cuDNN a call is: the convolution itself, or one of its gradients.
 *
 *     result[n, o, q] = sum of image[n, c, (q*s + t*d - low) / u] * weights[o, c, t]
 *
 *     FORWARD           u = 1                 y = result, of x = image and w = weights
 *     BACKWARD_DATA     u > 1, or weights that are walked backwards: the x for which image = conv(x, w) along s' = u, where
 *                       w[c, o, t] is weights[o, c, K-1-t]
 *     BACKWARD_FILTER   more taps than results: taps are pixels, and results what is summed for: the w for which
 *                       weights = conv(image, w), with channels and batch in each other's places
 *
 * cuDNN pads both ends alike, and counts results itself. Weights lie one behind the other, channels first or last; images and results where they want.
 */
#include "runtime/cudnn.h"

#include <limits.h>
#include <stdio.h>

enum { A, B, C };

typedef struct shaper {
    sn_cudnn_shape *out;
    const sn_library_conv *v;
    char *why;
} shaper;

static bool refuse(shaper *s, const char *what) {
    snprintf(s->why, SN_LIBRARY_WHY, "cuDNN has no convolution %s", what);
    return false;
}

static int64_t step(const sn_library_axis *a, int which) { return which == A ? a->a : which == B ? a->b : a->c; }
static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* ---- axes ---- */

/* An axis of a tensor with its elements apart. */
typedef struct extent {
    int64_t size, step;
} extent;

/* The axis of one group, over all of them. */
static bool over_groups(extent *out, shaper *s, const sn_library_axis *a, int which) {
    const sn_library_axis *groups = &s->v->groups;
    *out = (extent){groups->size * a->size, a->size > 1 ? step(a, which) : step(groups, which)};
    int64_t whole;
    bool even = groups->size == 1 || a->size == 1 ||
                (!sn_mul_overflow(a->size, step(a, which), &whole) && step(groups, which) == whole);
    if (groups->size == 1) out->step = step(a, which);
    return even || refuse(s, "whose groups do not lie one behind the other");
}

/* Is channel behind channel innermost? */
static bool is_channels_last(const extent *e, int rank) {
    if (e[1].size == 1 || e[1].step != 1) return false;
    for (int k = 2; k < rank; k++)
        if (e[k].size > 1) return true;
    return false;
}

/* The axes from the innermost to the outermost. */
static int inner(int i, int rank, bool channels_last) {
    if (!channels_last) return rank - 1 - i;
    return i == 0 ? 1 : i == rank - 1 ? 0 : rank - i;
}

/* An axis of one element has the step that it would have if nothing lay between elements: libraries compare. */
static bool put_tensor(int *sizes, int *strides, shaper *s, extent *e, int rank) {
    bool last = is_channels_last(e, rank);
    int64_t packed = 1;
    for (int i = 0; i < rank; i++) {
        int k = inner(i, rank, last);
        if (e[k].size == 1) e[k].step = packed;
        if (e[k].step < 1) return refuse(s, "of elements that are repeated");
        if (e[k].size > INT_MAX || e[k].step > INT_MAX / e[k].size) return refuse(s, "of so many elements");
        packed = e[k].step * e[k].size;
        sizes[k] = (int)e[k].size;
        strides[k] = (int)e[k].step;
    }
    return true;
}

static bool is_packed(const extent *e, int rank, bool channels_last) {
    int64_t packed = 1;
    for (int i = 0; i < rank; i++) {
        int k = inner(i, rank, channels_last);
        if (e[k].size > 1 && e[k].step != packed) return false;
        packed *= e[k].size;
    }
    return true;
}

static bool put_weights(shaper *s, const extent *e, int rank, bool want_last) {
    if (!is_packed(e, rank, want_last)) want_last = !want_last;
    if (!is_packed(e, rank, want_last)) return refuse(s, "of weights that do not lie one behind the other");
    for (int k = 0; k < rank; k++) {
        if (e[k].size > INT_MAX) return refuse(s, "of so many elements");
        s->out->w[k] = (int)e[k].size;
    }
    s->out->channels_last = want_last;
    return true;
}

/* ---- windows ---- */

/* Along one axis: x of `size` elements from `x_step` to the next, and so on. */
typedef struct window {
    extent x, w, y;
    int64_t padding, stride, dilation;
} window;

static int64_t results_of(const window *w) {
    int64_t room = w->x.size + 2 * w->padding - ((w->w.size - 1) * w->dilation + 1);
    return room < 0 ? 0 : room / w->stride + 1;
}

static bool fit_padding(shaper *s, window *w) {
    if (w->padding < 0 || results_of(w) != w->y.size) return refuse(s, "that is not padded alike at both ends");
    return true;
}

static bool forward_window(window *out, shaper *s, const sn_library_window *w) {
    *out = (window){.x = {w->size, w->a},
                    .w = {w->taps, w->b},
                    .y = {w->results, w->c},
                    .padding = w->low,
                    .stride = w->stride,
                    .dilation = w->dilation};
    return fit_padding(s, out);
}

static bool filter_window(window *out, shaper *s, const sn_library_window *w) {
    *out = (window){.x = {w->size, w->a},
                    .w = {w->results, w->c},
                    .y = {w->taps, w->b},
                    .padding = w->low,
                    .stride = w->dilation,
                    .dilation = w->stride};
    if (w->b < 0) return refuse(s, "of weights in that order");
    return fit_padding(s, out);
}

/* An image has the places that are a multiple of its stride from the first. */
static bool data_window(window *out, shaper *s, const sn_library_window *w) {
    *out = (window){.x = {w->results, w->c},
                    .w = {w->taps, magnitude(w->b)},
                    .y = {w->size, w->a},
                    .padding = (w->taps - 1) * w->dilation - w->low,
                    .stride = w->apart,
                    .dilation = w->dilation};
    if (w->stride != 1 && w->results > 1) return refuse(s, "with a stride of results between zeros");
    if (out->padding < 0 || results_of(out) != w->size) return refuse(s, "that is not padded alike at both ends");
    return true;
}

/* ---- directions ---- */

/* false: some axes go this way and some that. */
static bool find_direction(shaper *s) {
    const sn_library_conv *v = s->v;
    bool apart = false, backwards = false, forwards = false;
    double taps = 1, results = 1;
    for (uint32_t i = 0; i < v->n; i++) {
        apart |= v->at[i].apart > 1;
        backwards |= v->at[i].taps > 1 && v->at[i].b < 0;
        forwards |= v->at[i].taps > 1 && v->at[i].b > 0;
        taps *= (double)v->at[i].taps;
        results *= (double)v->at[i].results;
    }
    if (backwards && forwards) return refuse(s, "of weights in that order");
    s->out->direction = apart || backwards ? SN_CUDNN_BACKWARD_DATA
                        : taps > results   ? SN_CUDNN_BACKWARD_FILTER
                                           : SN_CUDNN_FORWARD;
    s->out->reversed = apart && forwards;
    return true;
}

static bool put_windows(shaper *s, extent *x, extent *w, extent *y) {
    static bool (*const windows[])(window *, shaper *,
                                   const sn_library_window *) = {[SN_CUDNN_FORWARD] = forward_window,
                                                                 [SN_CUDNN_BACKWARD_DATA] = data_window,
                                                                 [SN_CUDNN_BACKWARD_FILTER] = filter_window};
    sn_cudnn_shape *out = s->out;
    enum { LEAST = 4 }; /* axes of its tensors */
    static const sn_library_window one = {.size = 1, .results = 1, .taps = 1, .stride = 1, .dilation = 1, .apart = 1};
    out->rank = 2 + (int)s->v->n < LEAST ? LEAST : 2 + (int)s->v->n;
    for (int k = 0, missing = out->rank - 2 - (int)s->v->n; k < out->rank - 2; k++) {
        const sn_library_window *from = k < missing ? &one : &s->v->at[k - missing];
        window at;
        if (!windows[out->direction](&at, s, from)) return false;
        if (at.padding > INT_MAX || at.stride > INT_MAX || at.dilation > INT_MAX) return refuse(s, "of such a window");
        x[2 + k] = at.x, w[2 + k] = at.w, y[2 + k] = at.y;
        out->padding[k] = (int)at.padding;
        out->stride[k] = (int)at.stride;
        out->dilation[k] = (int)at.dilation;
    }
    return true;
}

/* Batch and channels: of x, y and w. */
static bool put_channels(shaper *s, extent *x, extent *w, extent *y) {
    const sn_library_conv *v = s->v;
    switch (s->out->direction) {
    case SN_CUDNN_FORWARD:
        x[0] = (extent){v->batch.size, v->batch.a};
        y[0] = (extent){v->batch.size, v->batch.c};
        w[1] = (extent){v->in.size, v->in.b};
        return over_groups(&x[1], s, &v->in, A) && over_groups(&w[0], s, &v->out, B) &&
               over_groups(&y[1], s, &v->out, C);
    case SN_CUDNN_BACKWARD_DATA:
        x[0] = (extent){v->batch.size, v->batch.c};
        y[0] = (extent){v->batch.size, v->batch.a};
        w[1] = (extent){v->out.size, v->out.b};
        return over_groups(&x[1], s, &v->out, C) && over_groups(&w[0], s, &v->in, B) &&
               over_groups(&y[1], s, &v->in, A);
    case SN_CUDNN_BACKWARD_FILTER:
        x[0] = (extent){v->in.size, v->in.a};
        y[0] = (extent){v->in.size, v->in.b};
        w[1] = (extent){v->batch.size, v->batch.c};
        return over_groups(&x[1], s, &v->batch, A) && over_groups(&w[0], s, &v->out, C) &&
               over_groups(&y[1], s, &v->out, B);
    case SN_N_CUDNN_DIRECTIONS: break;
    }
    return false;
}

bool sn_cudnn_shape_of(sn_cudnn_shape *out, const sn_library_conv *conv, char why[SN_LIBRARY_WHY]) {
    extent x[SN_CUDNN_RANK], w[SN_CUDNN_RANK], y[SN_CUDNN_RANK];
    *out = (sn_cudnn_shape){.groups = (int)conv->groups.size};
    shaper s = {out, conv, why};
    return find_direction(&s) && put_windows(&s, x, w, y) && put_channels(&s, x, w, y) &&
           put_tensor(out->x, out->x_stride, &s, x, out->rank) && put_tensor(out->y, out->y_stride, &s, y, out->rank) &&
           put_weights(&s, w, out->rank, is_channels_last(x, out->rank));
}
