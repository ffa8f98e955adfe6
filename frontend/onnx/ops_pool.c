/* ops_pool.c: pools: an image is padded and unfolded to its windows, whose axes are reduced.
 *
 *     MaxPool 2x2:  x[N, C, H, W] -> pad with -inf -> unfold H and W: [N, C, OH, OW, 2, 2] -> amax over the last two
 */
#include "frontend/onnx/window.h"
#include "ir/index/ix.h"
#include "ir/module.h"

#include <math.h>

/* ---- windows ---- */

/* A pool's windows; beyond: elements that the last window of an axis reads behind the padding (ceil_mode). */
typedef struct pool {
    sn_onnx_window w;
    int64_t beyond[SN_MAX_RANK];
} pool;

/* ceil_mode: one window more where elements are left over, unless it would begin behind image and padding in front. */
static sn_status read_pool(pool *p, sn_onnx_call *c, sn_nd x) {
    bool ceil_mode = sn_onnx_attr_int(c, "ceil_mode", 0);
    *p = (pool){0};
    SN_TRY(sn_onnx_window_read(&p->w, c, x, (sn_nd){0}));
    SN_TRY(sn_onnx_window_same(&p->w, c, x));
    for (uint32_t k = 0; k < p->w.n && ceil_mode && !p->w.same; k++) {
        int64_t size, stride = p->w.stride[k], span = sn_onnx_window_span(&p->w, k);
        if (stride == 1) continue;
        if (!sn_ix_is_const(c->m, sn_graph_type(c->m, x)->shape[2 + k], &size))
            return sn_onnx_fail(c, "ceil_mode: image axis %u has to have a number as size", k);
        int64_t padded = size + p->w.low[k] + p->w.high[k], more = padded - span;
        int64_t last = more <= 0 ? 0 : (more + stride - 1) / stride; /* the last window, and where it ends */
        if (last * stride >= size + p->w.low[k]) last--;
        int64_t end = last * stride + span;
        p->beyond[k] = end > padded ? end - padded : 0;
    }
    return SN_OK;
}

/* x[N, C, O1, O2, .., K1, K2, ..], with `value` around the image. */
static sn_nd windows(sn_module *m, sn_nd x, const pool *p, double value) {
    sn_onnx_window w = p->w;
    for (uint32_t k = 0; k < w.n; k++) w.high[k] += p->beyond[k];
    x = sn_onnx_window_pad(m, x, &w, value);
    for (uint32_t k = 0; k < w.n; k++) x = sn_graph_unfold(m, x, 2 + k, w.kernel[k], w.stride[k], w.dilation[k]);
    return x;
}

static sn_nd reduce_windows(sn_module *m, sn_op op, sn_nd x, const pool *p) {
    int64_t axes[SN_MAX_RANK];
    for (uint32_t k = 0; k < p->w.n; k++) axes[k] = 2 + p->w.n + k;
    return sn_graph_reduce(m, op, x, axes, p->w.n, false);
}

/* ---- largest elements ---- */

/* Less than any element, or as small. */
static double lowest(sn_dtype t) {
    if (sn_is_float(t)) return -(double)INFINITY;
    return sn_dtypes[t].cls == SN_CLASS_INT ? -ldexp(1, 8 * (int)sn_dtype_bytes(t) - 1) : 0;
}

/* Positions in x, flat over all its axes, of elements `at` of windows (flat over the axes of the window): the place of
 * an axis is window * stride + tap * dilation - padding. by_columns: image axes count from the first, not from the
 * last. */
static sn_nd positions(sn_module *m, sn_nd x, sn_nd at, const pool *p, bool by_columns) {
    sn_type t = *sn_graph_type(m, x), to = *sn_graph_type(m, at);
    uint32_t n = p->w.n;
    sn_ix channel = sn_ix_product(m, t.shape + 2, n);
    sn_nd sum = sn_graph_with_size(m, SN_OP_MUL, sn_graph_iota(m, SN_I64, 0, to.shape, to.rank),
                                   sn_ix_mul(m, t.shape[1], channel));
    sum =
        sn_graph_add(m, sum, sn_graph_with_size(m, SN_OP_MUL, sn_graph_iota(m, SN_I64, 1, to.shape, to.rank), channel));
    int64_t taps = 1;
    for (uint32_t k = n; k-- > 0;) {
        sn_nd tap =
            sn_graph_with(m, SN_OP_REM, sn_graph_with(m, SN_OP_FLOORDIV, at, (double)taps), (double)p->w.kernel[k]);
        sn_nd window = sn_graph_iota(m, SN_I64, 2 + k, to.shape, to.rank);
        sn_nd place = sn_graph_add(m, sn_graph_with(m, SN_OP_MUL, window, (double)p->w.stride[k]),
                                   sn_graph_with(m, SN_OP_MUL, tap, (double)p->w.dilation[k]));
        place = sn_graph_with(m, SN_OP_SUB, place, (double)p->w.low[k]);
        sn_ix stride = by_columns ? sn_ix_product(m, t.shape + 2, k) : sn_ix_product(m, t.shape + 3 + k, n - 1 - k);
        sum = sn_graph_add(m, sum, sn_graph_with_size(m, SN_OP_MUL, place, stride));
        taps *= p->w.kernel[k];
    }
    return sum;
}

/* Integers are compared with a padding less than them all, so that no position is one of the padding. */
sn_status sn_onnx_max_pool(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0);
    sn_dtype t = sn_graph_type(m, x)->dtype;
    pool p;
    bool by_columns = sn_onnx_attr_int(c, "storage_order", 0);
    SN_TRY(m->env->status);
    SN_TRY(read_pool(&p, c, x));
    sn_onnx_out(c, 0, reduce_windows(m, SN_OP_AMAX, windows(m, x, &p, lowest(t)), &p));
    if (c->n_out < 2) return m->env->status;
    sn_nd wide = sn_is_integral(t) ? sn_graph_cast(m, x, SN_I32) : x;
    sn_nd flat = windows(m, wide, &p, sn_is_integral(t) ? (double)INT32_MIN : lowest(t));
    sn_onnx_out(c, 1, positions(m, x, reduce_windows(m, SN_OP_ARGMAX, flat, &p), &p, by_columns));
    return m->env->status;
}

/* The image that windows of the pool's kind cover, as [N, C, ..]. */
static void unpooled_shape(sn_type *t, sn_module *m, const sn_onnx_window *w) {
    for (uint32_t k = 0; k < w->n; k++) {
        sn_ix steps = sn_ix_scale(m, sn_ix_addc(m, t->shape[2 + k], -1), w->stride[k]);
        t->shape[2 + k] = sn_ix_addc(m, steps, w->kernel[k] - w->low[k] - w->high[k]);
    }
}

/* Elements x at flat positions of an image of zeros, which output_shape makes larger at its ends. */
sn_status sn_onnx_max_unpool(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), at = sn_onnx_in(c, 1);
    sn_onnx_window w;
    SN_TRY(m->env->status);
    SN_TRY(sn_onnx_window_read(&w, c, x, (sn_nd){0}));
    sn_type t = *sn_graph_type(m, x);
    sn_ix n = sn_type_numel(m, &t);
    unpooled_shape(&t, m, &w);
    sn_ix all = sn_type_numel(m, &t);
    sn_nd flat = sn_graph_scatter(m, SN_OP_SCATTER, sn_graph_full(m, t.dtype, 0, &all, 1),
                                  sn_graph_reshape(m, at, &n, 1), sn_graph_reshape(m, x, &n, 1));
    sn_nd y = sn_graph_reshape(m, flat, t.shape, t.rank);
    if (!sn_onnx_has(c, 2)) return sn_onnx_done(c, y);
    sn_ix want[SN_KNOWN_MAX];
    int64_t low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
    uint32_t given;
    SN_TRY(sn_onnx_sizes(want, &given, c, 2));
    if (given != t.rank) return sn_onnx_fail(c, "output_shape has %u entries, not %u", given, t.rank);
    for (uint32_t k = 0; k < t.rank; k++)
        if (!sn_ix_is_const(m, sn_ix_sub(m, want[k], t.shape[k]), &high[k]))
            return sn_onnx_fail(c, "how much output_shape adds to axis %u has to be a number", k);
    return sn_onnx_done(c, sn_graph_pad(m, y, low, high, 0));
}

/* ---- means and norms ---- */

/* How many elements windows along image axis k have: those of the image, and of the padding if it counts. A number
 * where all have as many, a list where that is known at import. */
static sn_nd count(sn_onnx_call *c, sn_nd x, const pool *p, uint32_t k, bool padding) {
    sn_module *m = c->m;
    const sn_array *known;
    sn_dtype t = sn_graph_type(m, x)->dtype;
    sn_ix size = sn_graph_type(m, x)->shape[2 + k];
    sn_nd one = sn_graph_pad(m, sn_graph_full(m, t, 1, &size, 1), &p->w.low[k], &p->w.high[k], padding);
    one = sn_graph_pad(m, one, (int64_t[]){0}, &p->beyond[k], 0);
    one = sn_graph_unfold(m, one, 0, p->w.kernel[k], p->w.stride[k], p->w.dilation[k]);
    sn_nd n = sn_graph_reduce(m, SN_OP_SUM, one, (int64_t[]){1}, 1, false);
    if (!sn_onnx_try_array(&known, c, n) || known->numel == 0) return n;
    bool same = true;
    for (int64_t e = 1; e < known->numel; e++) same = same && known->f[e] == known->f[0];
    return same ? sn_graph_scalar(m, t, known->f[0]) : sn_graph_floats(m, t, known->f, known->shape, 1);
}

sn_status sn_onnx_average_pool(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), wide = sn_graph_widen(m, x), n = {0};
    pool p;
    bool padding = sn_onnx_attr_int(c, "count_include_pad", 0), whole = true;
    sn_dtype t = sn_graph_type(m, x)->dtype;
    SN_TRY(m->env->status);
    if (!sn_is_float(t)) return sn_onnx_fail(c, "means of %s", sn_dtypes[t].name);
    SN_TRY(read_pool(&p, c, x));
    for (uint32_t k = 0; k < p.w.n; k++)
        whole = whole && !p.beyond[k] && (padding || (p.w.low[k] <= 0 && p.w.high[k] <= 0));
    if (whole) return sn_onnx_done(c, reduce_windows(m, SN_OP_MEAN, windows(m, x, &p, 0), &p));
    sn_nd sum = reduce_windows(m, SN_OP_SUM, windows(m, wide, &p, 0), &p);
    for (uint32_t k = 0; k < p.w.n; k++) {
        sn_nd own = count(c, wide, &p, k, padding);
        if (sn_graph_type(m, own)->rank) own = sn_graph_align(m, own, 2 + k, 2 + p.w.n);
        n = k ? sn_graph_mul(m, n, own) : own;
    }
    return sn_onnx_done(c, sn_graph_cast(m, sn_graph_div(m, sum, n), t));
}

/* |x|^p of elements, and the p-th root of their sum. */
static sn_nd power(sn_module *m, sn_nd x, double p) {
    if (p == 2) return sn_graph_mul(m, x, x);
    x = sn_graph_unary(m, SN_OP_ABS, x);
    return p == 1 ? x : sn_graph_with(m, SN_OP_POW, x, p);
}

static sn_nd root(sn_module *m, sn_nd x, double p) {
    if (p == 2) return sn_graph_unary(m, SN_OP_SQRT, x);
    return p == 1 ? x : sn_graph_with(m, SN_OP_POW, x, 1 / p);
}

/* The row's arg: p is a float, as in opset 1. */
static double read_p(sn_onnx_call *c) {
    return c->op->arg ? sn_onnx_attr_float(c, "p", 2) : (double)sn_onnx_attr_int(c, "p", 2);
}

sn_status sn_onnx_lp_pool(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0);
    double exponent = read_p(c);
    pool p;
    SN_TRY(m->env->status);
    SN_TRY(read_pool(&p, c, x));
    sn_nd terms = windows(m, power(m, sn_graph_widen(m, x), exponent), &p, 0);
    sn_nd y = root(m, reduce_windows(m, SN_OP_SUM, terms, &p), exponent);
    return sn_onnx_done(c, sn_graph_cast(m, y, sn_graph_type(m, x)->dtype));
}

/* ---- over the whole image ---- */

/* A reduction over the image axes, which stay with size 1. */
static sn_nd over_image(sn_onnx_call *c, sn_op op, sn_nd x) {
    int64_t axes[SN_MAX_RANK];
    uint32_t rank = sn_graph_type(c->m, x)->rank, n = 0;
    for (uint32_t k = 2; k < rank; k++) axes[n++] = k;
    return sn_graph_reduce(c->m, op, x, axes, n, true);
}

sn_status sn_onnx_global_pool(sn_onnx_call *c) {
    return sn_onnx_done(c, over_image(c, (sn_op)c->op->arg, sn_onnx_in(c, 0)));
}

sn_status sn_onnx_global_lp_pool(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0);
    double p = read_p(c);
    sn_nd y = root(m, over_image(c, SN_OP_SUM, power(m, sn_graph_widen(m, x), p)), p);
    return sn_onnx_done(c, sn_graph_cast(m, y, sn_graph_type(m, x)->dtype));
}
