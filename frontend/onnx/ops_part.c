/* ops_part.c: operators that take tensors apart and put them together: slices, splits, concatenations, repetition,
 * padding.
 *
 * Most become views, and `concat`, whose operands are computed where they are stored: no copies of parts are made. What
 * repeats elements in other ways becomes a gather at computed positions.
 */
#include "frontend/onnx/import.h"

#include <string.h>

/* ---- concatenation ---- */

sn_status sn_onnx_concat(sn_onnx_call *c) {
    sn_nd *in = SN_NEWN(c->arena, sn_nd, c->n_in + 1);
    for (uint32_t k = 0; k < c->n_in; k++) in[k] = sn_onnx_in(c, k);
    if (c->n_in == 0) return sn_onnx_fail(c, "it has no operands");
    if (c->opset >= 4 && !sn_onnx_has_attr(c, "axis")) return sn_onnx_fail(c, "attribute axis is missing");
    return sn_onnx_done(c, sn_graph_concat(c->m, in, c->n_in, sn_onnx_attr_int(c, "axis", 1)));
}

/* x `times` times along an axis: [a, n, b] -> [a, 1, n*b] -> [a, times, n*b] -> [a, times*n, b]. */
static sn_nd repeated(sn_module *m, sn_nd x, uint32_t axis, sn_ix times) {
    const sn_type *t = sn_graph_type(m, x);
    sn_ix before = sn_ix_product(m, t->shape, axis), rest = sn_ix_product(m, t->shape + axis, t->rank - axis);
    sn_ix shape[SN_MAX_RANK], one = sn_ix_const(m, 1);
    for (uint32_t k = 0; k < t->rank; k++) shape[k] = t->shape[k];
    shape[axis] = sn_ix_mul(m, shape[axis], times);
    sn_nd y = sn_graph_reshape(m, x, (sn_ix[]){before, one, rest}, 3);
    return sn_graph_reshape(m, sn_graph_expand(m, y, (sn_ix[]){before, times, rest}, 3), shape, t->rank);
}

/* Before opset 6: one axis, and how often. */
static sn_status tile_axis(sn_onnx_call *c, sn_nd x) {
    int64_t times, axis;
    uint32_t at;
    SN_TRY(sn_onnx_int(&times, c, 1));
    SN_TRY(sn_onnx_int(&axis, c, 2));
    SN_TRY(sn_onnx_axis(&at, c, axis, sn_graph_type(c->m, x)->rank));
    return sn_onnx_done(c, repeated(c->m, x, at, sn_ix_const(c->m, times)));
}

sn_status sn_onnx_tile(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    sn_ix times[SN_KNOWN_MAX];
    uint32_t n, rank = sn_graph_type(c->m, x)->rank;
    if (c->opset < 6) return tile_axis(c, x);
    SN_TRY(sn_onnx_sizes(times, &n, c, 1));
    if (n != rank) return sn_onnx_fail(c, "%u repeats for %u axes", n, rank);
    for (uint32_t k = 0; k < n && c->m->env->status == SN_OK; k++)
        if (!sn_ix_eq(times[k], sn_ix_const(c->m, 1))) x = repeated(c->m, x, k, times[k]);
    return sn_onnx_done(c, x);
}

/* ---- slices ---- */

/* Exporters write several large numbers for "to the end". Steps backwards start at an element always: at the first one,
 * when the start is before it. */
static sn_nd slice_by_numbers(sn_onnx_call *c, sn_nd x, uint32_t axis, int64_t start, int64_t stop, int64_t step) {
    int64_t n;
    if (step == 0 || step == INT64_MIN) {
        sn_onnx_fail(c, "steps of %lld", (long long)step);
        return (sn_nd){0};
    }
    if (step > 0) return sn_graph_slice(c->m, x, axis, start, stop >= INT32_MAX ? INT64_MAX : stop, step);
    if (start >= INT32_MAX) start = -1;
    if (sn_ix_is_const(c->m, sn_graph_type(c->m, x)->shape[axis], &n) && start < -n) start = -n;
    return sn_graph_slice(c->m, x, axis, start, stop <= INT32_MIN ? INT64_MIN : stop, step);
}

/* Positions made of size names: a gather of start, start + step, ... below stop, so that pe[:, :S] has S elements and
 * fits x[N, S]. A stop behind the end of the axis is no size then: binding S fails, since a part of size - stop
 * elements is joined, of which nothing is kept. */
static sn_nd slice_by_sizes(sn_onnx_call *c, sn_nd x, uint32_t axis, sn_ix start, sn_ix stop, int64_t step) {
    sn_module *m = c->m;
    sn_ix size = sn_graph_type(m, x)->shape[axis];
    if (sn_ix_range(m, start).hi < 0) start = sn_ix_add(m, start, size);
    if (sn_ix_range(m, stop).hi < 0) stop = sn_ix_add(m, stop, size);
    if (sn_ix_range(m, stop).lo >= INT32_MAX) stop = size;
    if (step < 1) {
        sn_onnx_fail(c, "steps backwards between positions made of size names");
        return (sn_nd){0};
    }
    sn_ix n = sn_ix_ceildiv(m, sn_ix_sub(m, stop, start), sn_ix_const(m, step)), behind = sn_ix_sub(m, size, stop);
    sn_nd at = sn_graph_iota(m, SN_I64, 0, &n, 1);
    if (step > 1) at = sn_graph_with(m, SN_OP_MUL, at, (double)step);
    if (!sn_ix_eq(start, sn_ix_const(m, 0))) at = sn_graph_with_size(m, SN_OP_ADD, at, start);
    if (sn_ix_range(m, behind).lo < 0) {
        sn_nd none = sn_graph_slice(m, sn_graph_full(m, SN_I64, 0, &behind, 1), 0, 0, 0, 1);
        at = sn_graph_concat(m, (sn_nd[]){none, at}, 2, 0);
    }
    return sn_graph_index_select(m, x, at, axis);
}

static sn_nd slice_axis(sn_onnx_call *c, sn_nd x, uint32_t axis, sn_ix start, sn_ix stop, int64_t step) {
    int64_t from, to;
    if (sn_ix_is_const(c->m, start, &from) && sn_ix_is_const(c->m, stop, &to))
        return slice_by_numbers(c, x, axis, from, to, step);
    if (sn_ix_eq(start, sn_ix_const(c->m, 0)) && sn_ix_eq(stop, sn_graph_type(c->m, x)->shape[axis]) && step == 1)
        return x;
    return slice_by_sizes(c, x, axis, start, stop, step);
}

/* Attributes before opset 10. */
static sn_status slice_bounds(sn_ix *starts, sn_ix *stops, uint32_t *n, sn_onnx_call *c) {
    const int64_t *from, *to;
    uint32_t n_to;
    if (c->opset >= 10) {
        SN_TRY(sn_onnx_sizes(starts, n, c, 1));
        SN_TRY(sn_onnx_sizes(stops, &n_to, c, 2));
    } else {
        sn_onnx_attr_ints(&from, n, c, "starts");
        sn_onnx_attr_ints(&to, &n_to, c, "ends");
        for (uint32_t k = 0; k < *n && k < n_to && k < SN_KNOWN_MAX; k++)
            starts[k] = sn_ix_const(c->m, from[k]), stops[k] = sn_ix_const(c->m, to[k]);
    }
    if (*n != n_to || *n > SN_MAX_RANK) return sn_onnx_fail(c, "%u starts and %u ends", *n, n_to);
    return SN_OK;
}

sn_status sn_onnx_slice(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    sn_ix starts[SN_KNOWN_MAX], stops[SN_KNOWN_MAX];
    const int64_t *axes = NULL, *steps = NULL;
    uint32_t n, n_axes, n_steps, axis, rank = sn_graph_type(c->m, x)->rank;
    SN_TRY(slice_bounds(starts, stops, &n, c));
    if (!sn_onnx_list(&axes, &n_axes, c, "axes", 3)) n_axes = n;
    if (c->opset < 10 || !sn_onnx_has(c, 4)) n_steps = n;
    else SN_TRY(sn_onnx_ints(&steps, &n_steps, c, 4));
    if (n_axes != n || n_steps != n) return sn_onnx_fail(c, "%u starts, %u axes, %u steps", n, n_axes, n_steps);
    for (uint32_t k = 0; k < n; k++) {
        SN_TRY(sn_onnx_axis(&axis, c, axes ? axes[k] : k, rank));
        x = slice_axis(c, x, axis, starts[k], stops[k], steps ? steps[k] : 1);
        SN_TRY(c->m->env->status);
    }
    return sn_onnx_done(c, x);
}

/* ---- parts ---- */

/* Sizes of n parts as equal as they can be: the last one is smaller (opset 18). */
static sn_status equal_parts(int64_t *parts, uint32_t n, sn_onnx_call *c, sn_ix size) {
    int64_t all;
    if (!sn_ix_is_const(c->m, size, &all)) return sn_onnx_fail(c, "equal parts of an axis whose size is no number");
    int64_t part = (all + n - 1) / n;
    if (c->opset < 18 && all % n) return sn_onnx_fail(c, "an axis of size %lld in %u equal parts", (long long)all, n);
    for (uint32_t k = 0; k < n; k++, all -= parts[k - 1]) parts[k] = all < part ? all : part;
    return SN_OK;
}

/* The parts are all of the axis, where its size is a number. */
static sn_status check_parts(sn_onnx_call *c, const int64_t *parts, uint32_t n, sn_ix size) {
    int64_t all, sum = 0;
    if (n < c->n_out) return sn_onnx_fail(c, "%u parts, %u results", n, c->n_out);
    for (uint32_t k = 0; k < n; k++) {
        if (parts[k] < 0 || parts[k] > INT64_MAX - sum)
            return sn_onnx_fail(c, "a part of size %lld", (long long)parts[k]);
        sum += parts[k];
    }
    if (sn_ix_is_const(c->m, size, &all) && sum != all)
        return sn_onnx_fail(c, "parts of %lld elements in all, of an axis of size %lld", (long long)sum,
                            (long long)all);
    return SN_OK;
}

sn_status sn_onnx_split(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    const sn_type *t = sn_graph_type(c->m, x);
    const int64_t *parts;
    uint32_t n, axis;
    SN_TRY(sn_onnx_axis(&axis, c, sn_onnx_attr_int(c, "axis", 0), t->rank));
    int64_t wanted = sn_onnx_attr_int(c, "num_outputs", c->n_out), from = 0;
    if (!sn_onnx_list(&parts, &n, c, "split", 1)) {
        if (wanted < c->n_out || wanted > SN_ONNX_PARTS || wanted < 1)
            return sn_onnx_fail(c, "%lld parts, %u results", (long long)wanted, c->n_out);
        int64_t *equal = SN_NEWN(c->arena, int64_t, wanted);
        SN_TRY(equal_parts(equal, (uint32_t)wanted, c, t->shape[axis]));
        parts = equal, n = (uint32_t)wanted;
    }
    SN_TRY(check_parts(c, parts, n, t->shape[axis]));
    for (uint32_t k = 0; k < c->n_out; k++) {
        sn_onnx_out(c, k, sn_graph_slice(c->m, x, axis, from, from + parts[k], 1));
        from += parts[k];
    }
    return c->m->env->status;
}

/* ---- padding ---- */

#define MAX_PAD ((int64_t)1 << 60)

typedef struct padding {
    int64_t low[SN_MAX_RANK], high[SN_MAX_RANK];
} padding;

/* [low of each axis, high of each axis]; since opset 18 maybe of some axes only. */
static sn_status read_padding(padding *p, sn_onnx_call *c, uint32_t rank) {
    const int64_t *at, *axes = NULL;
    uint32_t n, n_axes = rank, axis;
    bool given = c->opset >= 11 ? sn_onnx_list(&at, &n, c, "pads", 1)
                                : sn_onnx_attr_ints(&at, &n, c, c->opset < 2 ? "paddings" : "pads");
    if (!given) return sn_onnx_fail(c, "the pads are missing");
    if (sn_onnx_has(c, 3)) SN_TRY(sn_onnx_ints(&axes, &n_axes, c, 3));
    if (n != 2 * n_axes) return sn_onnx_fail(c, "%u pads for %u axes", n, n_axes);
    *p = (padding){0};
    for (uint32_t k = 0; k < n_axes; k++) {
        SN_TRY(sn_onnx_axis(&axis, c, axes ? axes[k] : k, rank));
        if (at[k] < -MAX_PAD || at[k] > MAX_PAD || at[n_axes + k] < -MAX_PAD || at[n_axes + k] > MAX_PAD)
            return sn_onnx_fail(c, "pads %lld and %lld", (long long)at[k], (long long)at[n_axes + k]);
        p->low[axis] = at[k];
        p->high[axis] = at[n_axes + k];
    }
    return SN_OK;
}

/* A value that is computed at run time fills what a padded mask leaves out. */
static sn_nd pad_computed(sn_onnx_call *c, sn_nd x, const padding *p, sn_nd value) {
    sn_module *m = c->m;
    const sn_type *t = sn_graph_type(m, x);
    sn_nd inside = sn_graph_pad(m, sn_graph_full(m, SN_BOOL, 1, t->shape, t->rank), p->low, p->high, 0);
    return sn_graph_where(m, inside, sn_graph_pad(m, x, p->low, p->high, 0), sn_graph_reshape(m, value, NULL, 0));
}

static sn_nd pad_constant(sn_onnx_call *c, sn_nd x, const padding *p) {
    const sn_array *a;
    if (c->opset < 11 || !sn_onnx_has(c, 2))
        return sn_graph_pad(c->m, x, p->low, p->high, sn_onnx_attr_float(c, "value", 0));
    sn_nd value = sn_onnx_in(c, 2);
    if (!sn_onnx_try_array(&a, c, value) || a->numel != 1) return pad_computed(c, x, p, value);
    if (sn_is_float(a->dtype)) return sn_graph_pad(c->m, x, p->low, p->high, a->f[0]);
    bool exact = a->i[0] > -((int64_t)1 << 53) && a->i[0] < (int64_t)1 << 53;
    return exact ? sn_graph_pad(c->m, x, p->low, p->high, (double)a->i[0]) : pad_computed(c, x, p, value);
}

typedef enum pad_mode { PAD_EDGE, PAD_REFLECT, PAD_WRAP } pad_mode;

/* Which element of an axis of n stands at the places p = -low .. n+high-1:
 *     edge      x0 x0 | x0 x1 x2 | x2 x2     p between 0 and n-1
 *     reflect   x2 x1 | x0 x1 x2 | x1 x0     distance from 0 of p, in a pattern that is 2(n-1) long
 *     wrap      x1 x2 | x0 x1 x2 | x0 x1     p mod n */
static sn_nd padded_places(sn_module *m, sn_ix n, int64_t low, int64_t high, pad_mode mode) {
    sn_ix all = sn_ix_addc(m, n, low + high), last = sn_ix_addc(m, n, -1);
    sn_nd p = sn_graph_with(m, SN_OP_SUB, sn_graph_iota(m, SN_I64, 0, &all, 1), (double)low);
    switch (mode) {
    case PAD_EDGE: return sn_graph_with_size(m, SN_OP_MINIMUM, sn_graph_with(m, SN_OP_MAXIMUM, p, 0), last);
    case PAD_WRAP: return sn_graph_with_size(m, SN_OP_REM, p, n);
    case PAD_REFLECT: break;
    }
    p = sn_graph_with_size(m, SN_OP_SUB, sn_graph_with_size(m, SN_OP_REM, p, sn_ix_scale(m, last, 2)), last);
    return sn_graph_with_size(m, SN_OP_ADD, sn_graph_unary(m, SN_OP_NEG, sn_graph_unary(m, SN_OP_ABS, p)), last);
}

/* Modes that repeat elements of x, after the cropping of what negative pads take away. */
static sn_nd pad_by_mode(sn_onnx_call *c, sn_nd x, const padding *p, pad_mode mode) {
    for (uint32_t k = 0; k < sn_graph_type(c->m, x)->rank; k++) {
        int64_t low = p->low[k], high = p->high[k], size;
        if (low < 0 || high < 0) x = sn_graph_slice(c->m, x, k, low < 0 ? -low : 0, high < 0 ? high : INT64_MAX, 1);
        if (low <= 0 && high <= 0) continue;
        sn_ix n = sn_graph_type(c->m, x)->shape[k];
        if (sn_ix_is_const(c->m, n, &size) && size == 0)
            return sn_onnx_fail(c, "elements of an axis that has none are repeated"), x;
        sn_nd at = padded_places(c->m, n, low > 0 ? low : 0, high > 0 ? high : 0, mode);
        x = sn_graph_index_select(c->m, x, at, k);
    }
    return x;
}

sn_status sn_onnx_pad(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    padding p;
    const char *mode = sn_onnx_attr_text(c, "mode", "constant");
    sn_onnx_attr_ignore(c, "value");
    SN_TRY(read_padding(&p, c, sn_graph_type(c->m, x)->rank));
    if (!strcmp(mode, "constant")) return sn_onnx_done(c, pad_constant(c, x, &p));
    if (!strcmp(mode, "edge")) return sn_onnx_done(c, pad_by_mode(c, x, &p, PAD_EDGE));
    if (!strcmp(mode, "reflect")) return sn_onnx_done(c, pad_by_mode(c, x, &p, PAD_REFLECT));
    if (!strcmp(mode, "wrap")) return sn_onnx_done(c, pad_by_mode(c, x, &p, PAD_WRAP));
    return sn_onnx_fail(c, "padding mode %s", mode);
}
