/* ops_signal.c: windows, mel weights, and Fourier transforms. All of them are tables that are computed at import, in
 * f64; a transform is the matrix product with one:
 *
 *     y = DFT(x[.., n, 2])     becomes     %0 = reshape %x shape=[.., 2n]   %1 = matmul %0, table[2n, 2m]
 *                                          %y = reshape %1 shape=[.., m, 2]
 *
 * in which real and imaginary parts alternate in rows and columns. That is right for the lengths of speech and music
 * frames; it is no fast transform, so lengths whose table would be large are refused.
 */
#include "frontend/onnx/import.h"

#include <math.h>

#define TURN (2 * 3.14159265358979323846)

enum { MAX_LENGTH = 1 << 25 };

/* Room for a table; refused where it would be too much, since a few bytes of a model can ask for it. */
static sn_status new_table(double **out, sn_onnx_call *c, int64_t rows, int64_t cols) {
    int64_t n;
    *out = NULL;
    SN_TRY(sn_onnx_room(c, sn_mul_overflow(rows, cols, &n) ? INT64_MAX : n));
    *out = SN_NEWN(c->arena, double, n + 1);
    return SN_OK;
}

/* A node with these elements: a list where cols is 0. */
static sn_nd table(sn_onnx_call *c, const char *name, const double *values, sn_dtype dtype, int64_t rows,
                   int64_t cols) {
    sn_onnx_elements e = {.dtype = dtype == SN_F64 ? SN_F64 : SN_F32, .rank = cols ? 2 : 1, .shape = {rows, cols}};
    sn_arena *arena = sn_store_arena(c->im->files.store);
    e.numel = cols ? rows * cols : rows;
    if (dtype == SN_F64) {
        e.data = sn_memdup(arena, values, (size_t)e.numel * sizeof *values);
        return sn_onnx_constant_of(c->im, name, &e);
    }
    float *short_values = SN_NEWN(arena, float, e.numel + 1);
    for (int64_t k = 0; k < e.numel; k++) short_values[k] = (float)values[k];
    e.data = short_values;
    return sn_graph_cast(c->m, sn_onnx_constant_of(c->im, name, &e), dtype);
}

/* ---- windows ---- */

/* a - b cos(t) + c cos(2t), where t runs through one turn: Hann, Hamming, Blackman. */
sn_status sn_onnx_signal_window(sn_onnx_call *c) {
    static const double terms[3][3] = {{0.5, 0.5, 0}, {25.0 / 46, 21.0 / 46, 0}, {0.42, 0.5, 0.08}};
    const double *w = terms[c->op->arg];
    int64_t size;
    double *values;
    bool periodic = sn_onnx_attr_int(c, "periodic", 1);
    sn_dtype dtype = sn_onnx_attr_dtype(c, "output_datatype", SN_F32);
    SN_TRY(sn_onnx_int(&size, c, 0));
    if (size < 0) return sn_onnx_fail(c, "a window of %lld elements", (long long)size);
    SN_TRY(new_table(&values, c, size, 1));
    int64_t steps = periodic || size < 2 ? size : size - 1;
    for (int64_t k = 0; k < size; k++) {
        double t = TURN * (double)k / (double)steps;
        values[k] = w[0] - w[1] * cos(t) + w[2] * cos(2 * t);
    }
    return sn_onnx_done(c, table(c, "window", values, dtype, size, 0));
}

/* ---- mel weights ---- */

static sn_status number(double *out, sn_onnx_call *c, uint32_t k) {
    const sn_array *a;
    *out = 0;
    SN_TRY(sn_onnx_array(&a, c, sn_onnx_in(c, k)));
    if (a->numel != 1) return sn_onnx_fail(c, "operand %u is not one number", k + 1);
    *out = sn_is_float(a->dtype) ? a->f[0] : (double)a->i[0];
    return SN_OK;
}

static double mel(double hertz) { return 2595 * log10(1 + hertz / 700); }
static double hertz(double mel) { return 700 * (pow(10, mel / 2595) - 1); }

/* Column `at` of the table: a triangle that rises from bin `left` to `peak` and falls to `right`. */
static void triangle(double *values, int64_t bins, int64_t bands, int64_t at, const double corner[3]) {
    double left = corner[0], peak = corner[1], right = corner[2];
    for (int64_t k = 0; k < bins; k++) {
        double bin = (double)k, *w = &values[k * bands + at];
        if (bin >= left && bin <= peak) *w = peak > left ? (bin - left) / (peak - left) : 1;
        if (bin >= peak && bin < right) *w = (right - bin) / (right - peak);
    }
}

/* Operands: bands, length of the transform, sample rate, lowest and highest frequency. The corners of the triangles are
 * bands + 2 frequencies at equal distances on the mel scale. */
sn_status sn_onnx_mel_weights(sn_onnx_call *c) {
    double in[5], corner[3], *values;
    sn_dtype dtype = sn_onnx_attr_dtype(c, "output_datatype", SN_F32);
    for (uint32_t k = 0; k < 5; k++) SN_TRY(number(&in[k], c, k));
    if (!(in[0] >= 0 && in[0] <= MAX_LENGTH && in[1] >= 0 && in[1] <= MAX_LENGTH && in[2] > 0))
        return sn_onnx_fail(c, "%g bands of a transform of length %g at %g samples", in[0], in[1], in[2]);
    int64_t bands = (int64_t)in[0], bins = (int64_t)in[1] / 2 + 1;
    double low = mel(in[3]), step = (mel(in[4]) - low) / (double)(bands + 2);
    SN_TRY(new_table(&values, c, bins, bands));
    for (int64_t k = 0; k < bands; k++) {
        for (int j = 0; j < 3; j++) corner[j] = floor((in[1] + 1) * hertz(low + step * (double)(k + j)) / in[2]);
        triangle(values, bins, bands, k, corner);
    }
    return sn_onnx_done(c, table(c, "mel_weights", values, dtype, bins, bands));
}

/* ---- Fourier transforms ---- */

/* A transform along one axis: `n` numbers with `parts` parts (2: complex) become m with to_parts. */
typedef struct transform {
    int64_t length, n, m;
    int parts, to_parts;
    bool inverse;
} transform;

typedef struct direction {
    double cosine, sine;
} direction;

/* Of r / n of a turn, 0 <= r < n; exact where one of the two is 0. */
static direction direction_of(int64_t r, int64_t n) {
    int64_t quarter = 4 * r / n;
    double angle = TURN * (double)(4 * r - quarter * n) / (4 * (double)n), x = cos(angle), y = sin(angle);
    switch (quarter) {
    case 0: return (direction){x, y};
    case 1: return (direction){-y, x};
    case 2: return (direction){-x, -y};
    default: return (direction){y, -x};
    }
}

/* What input j adds to output k: re' = re cos - im sin, im' = re sin + im cos of an angle that is negative forwards.
 * From half of a spectrum to real numbers (to_parts 1) inputs count twice for the half that is not there: it is their
 * conjugates. */
static void fill(double *out, const transform *t, const direction *circle) {
    int64_t cols = t->m * t->to_parts;
    double unit = t->inverse ? 1 / (double)t->length : 1;
    for (int64_t j = 0; j < t->n; j++) {
        double size = t->to_parts == 1 && j > 0 && 2 * j < t->length ? 2 * unit : unit;
        for (int64_t k = 0; k < t->m; k++) {
            const direction *at = &circle[j * k % t->length];
            double re = at->cosine * size, im = at->sine * (t->inverse ? size : -size);
            double *from_re = out + j * t->parts * cols + k * t->to_parts, *from_im = from_re + cols;
            from_re[0] = re;
            if (t->to_parts == 2) from_re[1] = im;
            if (t->parts == 2) from_im[0] = -im;
            if (t->parts == 2 && t->to_parts == 2) from_im[1] = re;
        }
    }
}

/* Nodes with equal transforms share their table. */
static sn_nd transform_table(sn_onnx_call *c, const transform *t, sn_dtype dtype) {
    int64_t rows = t->n * t->parts, cols = t->m * t->to_parts;
    const char *key = sn_strf(c->arena, "fourier %lld %lld %d %lld %d %d %d", (long long)t->length, (long long)t->n,
                              t->parts, (long long)t->m, t->to_parts, t->inverse, (int)dtype);
    sn_nd x = {sn_names_get(&c->im->tensors, key)};
    double *values;
    if (x.i || new_table(&values, c, rows, cols) != SN_OK) return x;
    direction *circle = SN_NEWN(c->arena, direction, t->length);
    for (int64_t r = 0; r < t->length; r++) circle[r] = direction_of(r, t->length);
    fill(values, t, circle);
    x = table(c, "fourier", values, dtype, rows, cols);
    if (x.i) sn_names_put(&c->im->tensors, key, x.i);
    return x;
}

/* x[.., n, parts] -> [.., m, to_parts] */
static sn_nd transformed(sn_onnx_call *c, sn_nd x, const transform *t) {
    sn_module *m = c->m;
    sn_nd wide = sn_graph_widen(m, x);
    sn_type type = *sn_graph_type(m, wide);
    uint32_t rank = type.rank;
    if (!x.i) return x;
    type.shape[rank - 2] = sn_ix_const(m, t->n * t->parts);
    sn_nd y = sn_graph_matmul(m, sn_graph_reshape(m, wide, type.shape, rank - 1), transform_table(c, t, type.dtype));
    type.shape[rank - 2] = sn_ix_const(m, t->m);
    type.shape[rank - 1] = sn_ix_const(m, t->to_parts);
    y = sn_graph_reshape(m, y, type.shape, rank);
    return sn_graph_cast(m, y, sn_graph_type(m, x)->dtype);
}

/* The sizes of a transform of that length of x, whose parts are its last axis. */
static sn_status plan(transform *t, sn_onnx_call *c, sn_nd x, int64_t length, bool inverse, bool onesided) {
    const sn_type *type = sn_graph_type(c->m, x);
    int64_t parts, half = length / 2 + 1;
    if (length < 1 || length > MAX_LENGTH) return sn_onnx_fail(c, "a transform of length %lld", (long long)length);
    if (!sn_ix_is_const(c->m, type->shape[type->rank - 1], &parts) || parts < 1 || parts > 2)
        return sn_onnx_fail(c, "the last axis of %s is not of 1 or 2 elements", sn_type_text(c->m, type));
    *t =
        (transform){.length = length, .n = length, .m = length, .parts = (int)parts, .to_parts = 2, .inverse = inverse};
    if (onesided && inverse) t->n = half, t->to_parts = 1;
    else if (onesided) t->m = half;
    return SN_OK;
}

/* x with n elements along the axis: cut, or with zeros after its own. */
static sn_nd fitted(sn_module *m, sn_nd x, uint32_t axis, int64_t own, int64_t n) {
    int64_t low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
    high[axis] = n - own;
    if (n < own) return sn_graph_slice(m, x, axis, 0, n, 1);
    return n > own ? sn_graph_pad(m, x, low, high, 0) : x;
}

/* The axis is an attribute, from opset 20 on an operand. The last axis has the parts. */
static sn_status transform_axis(uint32_t *out, sn_onnx_call *c, uint32_t rank) {
    int64_t axis = sn_onnx_attr_int(c, "axis", c->opset < 20 ? 1 : -2);
    if (sn_onnx_has(c, 2)) SN_TRY(sn_onnx_int(&axis, c, 2));
    SN_TRY(sn_onnx_axis(out, c, axis, rank));
    return *out + 1 < rank ? SN_OK : sn_onnx_fail(c, "axis %lld has the parts of the numbers", (long long)axis);
}

sn_status sn_onnx_dft(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0);
    const sn_type *type = sn_graph_type(m, x);
    bool inverse = sn_onnx_attr_int(c, "inverse", 0), onesided = sn_onnx_attr_int(c, "onesided", 0);
    uint32_t axis, rank = type->rank;
    int64_t own, length;
    transform t;
    SN_TRY(transform_axis(&axis, c, rank));
    if (!sn_ix_is_const(m, type->shape[axis], &own))
        return sn_onnx_fail(c, "the size of axis %u has to be a number", axis);
    length = onesided && inverse ? 2 * (own - 1) : own;
    if (sn_onnx_has(c, 1)) SN_TRY(sn_onnx_int(&length, c, 1));
    SN_TRY(plan(&t, c, x, length, inverse, onesided));
    x = sn_graph_move_axis(m, fitted(m, x, axis, own, t.n), axis, rank - 2);
    return sn_onnx_done(c, sn_graph_move_axis(m, transformed(c, x, &t), rank - 2, axis));
}

/* How long the frames are: an operand, the window's size, or the whole signal. */
static sn_status frame_length(int64_t *out, sn_onnx_call *c, const sn_type *signal) {
    if (sn_onnx_has(c, 3)) return sn_onnx_int(out, c, 3);
    sn_ix size = sn_onnx_has(c, 2) ? sn_graph_type(c->m, sn_onnx_in(c, 2))->shape[0] : signal->shape[1];
    return sn_ix_is_const(c->m, size, out) ? SN_OK : sn_onnx_fail(c, "the length of the frames has to be a number");
}

/* Operands: signal[N, L, parts], step, window, length of frames. Frames are windows of the signal as a view. */
sn_status sn_onnx_stft(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0);
    const sn_type *type = sn_graph_type(m, x);
    int64_t step, length;
    transform t;
    SN_TRY(sn_onnx_int(&step, c, 1));
    if (type->rank != 3) return sn_onnx_fail(c, "a signal of rank %u, not 3", type->rank);
    if (sn_onnx_has(c, 2) && sn_graph_type(m, sn_onnx_in(c, 2))->rank != 1)
        return sn_onnx_fail(c, "a window that is no list");
    SN_TRY(frame_length(&length, c, type));
    SN_TRY(plan(&t, c, x, length, false, sn_onnx_attr_int(c, "onesided", 1)));
    sn_nd frames = sn_graph_move_axis(m, sn_graph_unfold(m, x, 1, length, step, 1), 3, 2);
    if (sn_onnx_has(c, 2)) frames = sn_graph_mul(m, frames, sn_graph_align(m, sn_onnx_in(c, 2), 2, 4));
    return sn_onnx_done(c, transformed(c, frames, &t));
}
