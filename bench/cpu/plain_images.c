/* plain_images.c: the cases of images.c in plain C, as plain.c has the others: rows with borders in memory of their own, what windows sum up or
 * compare down first and then across, one buffer for what two loops pass on.
 */
#include "bench/cpu/cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 4096, BORDER = 2 };

/* A row of an image of n x n with a border on both sides, which is all there is of rows outside. */
static const float *with_border(float *to, const float *x, int64_t row, int64_t n) {
    memset(to, 0, (size_t)(n + 2 * BORDER) * sizeof *to);
    if (row >= 0 && row < n) memcpy(to + BORDER, x + row * n, (size_t)n * sizeof *to);
    return to + BORDER;
}

/* Memory that stays from run to run. */
static float *kept(float **at, size_t *have, size_t n) {
    if (*have < n) *at = realloc(*at, n * sizeof **at), *have = n;
    return *at;
}

/* ---- bicubic: down first, then across ---- */

void plain_cubic(void *const *out, const void *const *in, int64_t n, int threads) {
    static int32_t at[4][LONGEST];
    static float w[4][LONGEST];
    const float *restrict x = in[0];
    float *restrict y = out[0];
    int64_t m = n * 3 / 2;
    for (int64_t i = 0; i < m; i++) {
        float p = ((float)i + 0.5f) * (2.0f / 3) - 0.5f, f = floorf(p), t = p - f, tt = t * t, ttt = tt * t;
        w[0][i] = -0.5f * ttt + tt - 0.5f * t, w[1][i] = 1.5f * ttt - 2.5f * tt + 1;
        w[2][i] = -1.5f * ttt + 2 * tt + 0.5f * t, w[3][i] = 0.5f * ttt - 0.5f * tt;
        for (int k = 0; k < 4; k++) at[k][i] = (int32_t)fminf(fmaxf(f + (float)(k - 1), 0), (float)(n - 1));
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < m; i++) {
        const float *restrict a = x + at[0][i] * n, *restrict b = x + at[1][i] * n;
        const float *restrict c = x + at[2][i] * n, *restrict d = x + at[3][i] * n;
        float row[LONGEST];
        for (int64_t j = 0; j < n; j++) row[j] = a[j] * w[0][i] + b[j] * w[1][i] + c[j] * w[2][i] + d[j] * w[3][i];
        for (int64_t j = 0; j < m; j++)
            y[i * m + j] =
                row[at[0][j]] * w[0][j] + row[at[1][j]] * w[1][j] + row[at[2][j]] * w[2][j] + row[at[3][j]] * w[3][j];
    }
}

/* ---- edges ---- */

static void gradients(float *restrict dx, float *restrict dy, float *restrict m, const float *x, int64_t i, int64_t n) {
    float rows[3][LONGEST + 2 * BORDER];
    const float *restrict a = with_border(rows[0], x, i - 1, n), *restrict b = with_border(rows[1], x, i, n);
    const float *restrict c = with_border(rows[2], x, i + 1, n);
    for (int64_t j = 0; j < n; j++) {
        float h = a[j + 1] - a[j - 1] + c[j + 1] - c[j - 1] + 2 * (b[j + 1] - b[j - 1]);
        float v = c[j - 1] - a[j - 1] + c[j + 1] - a[j + 1] + 2 * (c[j] - a[j]);
        dx[j] = h, dy[j] = v, m[j] = sqrtf(h * h + v * v);
    }
}

void plain_edges(void *const *out, const void *const *in, int64_t n, int threads) {
    static float *memory;
    static size_t have;
    int64_t w = n + 2 * BORDER;
    size_t size = (size_t)(w * w);
    float *m = kept(&memory, &have, 3 * size) + BORDER * w + BORDER, *dx = memory + size, *dy = dx + size;
    memset(memory, 0, size * sizeof *memory);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) gradients(dx + i * n, dy + i * n, m + i * w, in[0], i, n);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const float *restrict t = m + i * w, *restrict h = dx + i * n, *restrict v = dy + i * n;
        float *restrict y = (float *)out[0] + i * n;
        for (int64_t j = 0; j < n; j++) {
            float ax = fabsf(h[j]), ay = fabsf(v[j]), one = t[j];
            int flat = ay < (float)FLAT * ax, steep = ax < (float)FLAT * ay, falls = h[j] * v[j] > 0;
            float a = falls ? t[j - w - 1] : t[j - w + 1], b = falls ? t[j + w + 1] : t[j + w - 1];
            float up = t[j - w], down = t[j + w], left = t[j - 1], right = t[j + 1];
            float before = flat ? left : steep ? up : a, behind = flat ? right : steep ? down : b;
            y[j] = (one >= before) & (one >= behind) ? one : 0;
        }
    }
}

/* ---- windows ---- */

static uint8_t lesser(uint8_t a, uint8_t b) { return a < b ? a : b; }
static uint8_t larger(uint8_t a, uint8_t b) { return a > b ? a : b; }

static inline __attribute__((always_inline)) void extreme_of_row(uint8_t *restrict to, const uint8_t *x, int64_t i,
                                                                 int64_t n, uint8_t outside,
                                                                 uint8_t (*of)(uint8_t, uint8_t)) {
    uint8_t d[LONGEST + 2 * BORDER];
    memset(d, outside, (size_t)n + 2 * BORDER);
    for (int64_t r = i < BORDER ? 0 : i - BORDER; r <= i + BORDER && r < n; r++) {
        const uint8_t *restrict a = x + r * n;
        for (int64_t j = 0; j < n; j++) d[j + BORDER] = of(d[j + BORDER], a[j]);
    }
    for (int64_t j = 0; j < n; j++) to[j] = of(of(of(d[j], d[j + 1]), of(d[j + 2], d[j + 3])), d[j + 4]);
}

void plain_opening(void *const *out, const void *const *in, int64_t n, int threads) {
    static float *memory;
    static size_t have;
    uint8_t *least = (uint8_t *)kept(&memory, &have, (size_t)(n * n) / sizeof(float) + 1);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) extreme_of_row(least + i * n, in[0], i, n, 255, lesser);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) extreme_of_row((uint8_t *)out[0] + i * n, least, i, n, 0, larger);
}

/* Sums down the windows of a row: of squares and products of slopes and differences. */
static void sum_down(float (*sum)[LONGEST + 2 * BORDER], const float *a, const float *b, int64_t i, int64_t n) {
    float rows[3][LONGEST + 2 * BORDER];
    float *restrict xx = sum[0] + BORDER, *restrict xy = sum[1] + BORDER, *restrict yy = sum[2] + BORDER;
    float *restrict xt = sum[3] + BORDER, *restrict yt = sum[4] + BORDER;
    for (int k = 0; k < 5; k++) memset(sum[k], 0, (size_t)(n + 2 * BORDER) * sizeof *sum[k]);
    for (int64_t r = i < BORDER ? 0 : i - BORDER; r <= i + BORDER && r < n; r++) {
        const float *restrict up = with_border(rows[0], a, r - 1, n), *restrict me = with_border(rows[1], a, r, n);
        const float *restrict down = with_border(rows[2], a, r + 1, n), *restrict then = b + r * n;
#pragma GCC ivdep
        for (int64_t j = 0; j < n; j++) {
            float x = 0.5f * (me[j + 1] - me[j - 1]), y = 0.5f * (down[j] - up[j]), t = then[j] - me[j];
            xx[j] += x * x, xy[j] += x * y, yy[j] += y * y, xt[j] += x * t, yt[j] += y * t;
        }
    }
}

static inline __attribute__((always_inline)) float across(const float *d, int64_t j) {
    return d[j] + d[j + 1] + d[j + 2] + d[j + 3] + d[j + 4];
}

void plain_flow(void *const *out, const void *const *in, int64_t n, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float sum[5][LONGEST + 2 * BORDER];
        float *restrict u = (float *)out[0] + i * n, *restrict v = (float *)out[1] + i * n;
        sum_down(sum, in[0], in[1], i, n);
        for (int64_t j = 0; j < n; j++) {
            float xx = across(sum[0], j), xy = across(sum[1], j), yy = across(sum[2], j);
            float xt = across(sum[3], j), yt = across(sum[4], j);
            float det = xx * yy - xy * xy + (float)REGULARISED;
            u[j] = (xy * yt - yy * xt) / det, v[j] = (xy * xt - xx * yt) / det;
        }
    }
}

/* ---- water ---- */

typedef struct cell {
    float h, u, v;
} cell;

static inline __attribute__((always_inline)) cell cell_at(const float *h, const float *u, const float *v, int64_t k) {
    return (cell){h[k] + 1, u[k], v[k]};
}

void plain_water(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *h = in[0], *u = in[1], *v = in[2], by = (float)(STEP_OF_WATER / 2), half = (float)(GRAVITY / 2);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = i * n, above = (i + n - 1) % n * n, below = (i + 1) % n * n;
        float *restrict hn = (float *)out[0] + row, *restrict un = (float *)out[1] + row;
        float *restrict vn = (float *)out[2] + row;
#define NEXT(j, left, right)                                                                                           \
    do {                                                                                                               \
        cell a = cell_at(h, u, v, above + (j)), b = cell_at(h, u, v, below + (j));                                     \
        cell l = cell_at(h, u, v, row + (left)), r = cell_at(h, u, v, row + (right));                                  \
        float across = r.u * r.u / r.h + half * r.h * r.h - l.u * l.u / l.h - half * l.h * l.h;                        \
        float down = b.v * b.v / b.h + half * b.h * b.h - a.v * a.v / a.h - half * a.h * a.h;                          \
        hn[j] = 0.25f * (a.h + b.h + l.h + r.h) - by * (r.u - l.u + b.v - a.v);                                        \
        un[j] = 0.25f * (a.u + b.u + l.u + r.u) - by * (across + b.u * b.v / b.h - a.u * a.v / a.h);                   \
        vn[j] = 0.25f * (a.v + b.v + l.v + r.v) - by * (down + r.u * r.v / r.h - l.u * l.v / l.h);                     \
    } while (0)
#pragma GCC ivdep
        for (int64_t j = 1; j < n - 1; j++) NEXT(j, j - 1, j + 1);
        NEXT(0, n - 1, 1);
        NEXT(n - 1, n - 2, 0);
#undef NEXT
    }
}

/* ---- distances ---- */

static void nearest_in_row(float *restrict to, const float *x, int64_t n) {
    float from[LONGEST];
    for (int64_t k = 0; k < n; k++) from[k] = x[k] > (float)SEEDS ? 0 : (float)FAR;
    for (int64_t j = 0; j < n; j++) to[j] = INFINITY;
    for (int64_t k = 0; k < n; k++)
        for (int64_t j = 0; j < n; j++) {
            float d = (float)(int32_t)(j - k), e = from[k] + d * d;
            to[j] = e < to[j] ? e : to[j];
        }
}

void plain_distances(void *const *out, const void *const *in, int64_t n, int threads) {
    static float *memory;
    static size_t have;
    float *rows = kept(&memory, &have, (size_t)(n * n));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) nearest_in_row(rows + i * n, (const float *)in[0] + i * n, n);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float *restrict y = (float *)out[0] + i * n;
        for (int64_t j = 0; j < n; j++) y[j] = INFINITY;
        for (int64_t k = 0; k < n; k++) {
            const float *restrict from = rows + k * n;
            float d = (float)((i - k) * (i - k));
            for (int64_t j = 0; j < n; j++) y[j] = from[j] + d < y[j] ? from[j] + d : y[j];
        }
        for (int64_t j = 0; j < n; j++) y[j] = sqrtf(y[j]);
    }
}

/* ---- quantised: what a window has side by side, as 16 bits, which is multiplied with each filter ---- */

enum { WINDOW_OF_CHANNELS = FILTERS * TAPS * TAPS };

static uint8_t requantised(int32_t sum) {
    float y = rintf((float)sum * (float)SCALE) + ZERO_POINT;
    return (uint8_t)fminf(fmaxf(y, 0), 255);
}

static void collect(int16_t *restrict to, const uint8_t *x, int64_t i, int64_t j, int64_t n) {
    for (int64_t c = 0; c < FILTERS; c++)
        for (int64_t s = i - 1; s <= i + 1; s++)
            for (int64_t t = j - 1; t <= j + 1; t++) {
                int inside = s >= 0 && s < n && t >= 0 && t < n;
                *to++ = inside ? (int16_t)(x[(c * n + s) * n + t] - ZERO_POINT) : 0;
            }
}

void plain_quantised(void *const *out, const void *const *in, int64_t n, int threads) {
    static int16_t w[FILTERS * WINDOW_OF_CHANNELS];
    const uint8_t *x = in[0], *from = in[1];
    uint8_t *y = out[0];
    for (int64_t k = 0; k < FILTERS * WINDOW_OF_CHANNELS; k++) w[k] = (int16_t)(from[k] - ZERO_OF_WEIGHTS);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            int16_t window[WINDOW_OF_CHANNELS];
            collect(window, x, i, j, n);
            for (int64_t o = 0; o < FILTERS; o++) {
                int32_t sum = 0;
                for (int64_t k = 0; k < WINDOW_OF_CHANNELS; k++) sum += window[k] * w[o * WINDOW_OF_CHANNELS + k];
                y[(o * n + i) * n + j] = requantised(sum);
            }
        }
}
