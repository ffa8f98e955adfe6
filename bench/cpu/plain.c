/* plain.c: the cases of bench/cpu in plain C: loops that are fused by hand, restrict, OpenMP over the outer one. Compiled
 * with -O3 -march=native -ffast-math -fopenmp; no library but libm and its vector functions.
 */
#include "bench/cpu/cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- heat ---- */

static void heat_step(float *restrict out, const float *restrict u, int64_t n, int threads) {
    const float rate = (float)HEAT_RATE;
    memcpy(out, u, (size_t)n * sizeof *u);
    memcpy(out + (n - 1) * n, u + (n - 1) * n, (size_t)n * sizeof *u);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 1; i < n - 1; i++) {
        const float *restrict row = u + i * n;
        float *restrict to = out + i * n;
        to[0] = row[0];
        for (int64_t j = 1; j < n - 1; j++)
            to[j] = row[j] + rate * (row[j - n] + row[j + n] + row[j - 1] + row[j + 1] - 4 * row[j]);
        to[n - 1] = row[n - 1];
    }
}

void plain_heat(void *const *out, const void *const *in, int64_t n, int threads) {
    heat_step(out[0], in[0], n, threads);
}

void plain_heat_twice(void *const *out, const void *const *in, int64_t n, int threads) {
    static float *between;
    static int64_t size;
    if (size != n) between = realloc(between, (size_t)(n * n) * sizeof *between), size = n;
    heat_step(between, in[0], n, threads);
    heat_step(out[0], between, n, threads);
}

/* ---- bodies: coordinates apart, so that lanes are bodies ---- */

enum { MAX_BODIES = 4096 };

void plain_nbody(void *const *out, const void *const *in, int64_t n, int threads) {
    static float x[MAX_BODIES], y[MAX_BODIES], z[MAX_BODIES];
    const float *restrict at = in[0], *restrict mass = in[1];
    float *restrict a = out[0];
    for (int64_t i = 0; i < n; i++) x[i] = at[3 * i], y[i] = at[3 * i + 1], z[i] = at[3 * i + 2];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float ax = 0, ay = 0, az = 0;
        for (int64_t j = 0; j < n; j++) {
            float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
            float r2 = dx * dx + dy * dy + dz * dz + (float)SOFTENING;
            float r = 1 / sqrtf(r2), pull = mass[j] * r * r * r;
            ax += dx * pull, ay += dy * pull, az += dz * pull;
        }
        a[3 * i] = ax, a[3 * i + 1] = ay, a[3 * i + 2] = az;
    }
}

void plain_density(void *const *out, const void *const *in, int64_t n, int threads) {
    static float x[MAX_BODIES], y[MAX_BODIES], z[MAX_BODIES];
    const float *restrict at = in[0], *restrict mass = in[1], scale = (float)(1 / (REACH * REACH));
    float *restrict density = out[0];
    for (int64_t i = 0; i < n; i++) x[i] = at[3 * i], y[i] = at[3 * i + 1], z[i] = at[3 * i + 2];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int64_t j = 0; j < n; j++) {
            float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
            float near = fmaxf(1 - (dx * dx + dy * dy + dz * dz) * scale, 0);
            sum += mass[j] * near * near * near;
        }
        density[i] = sum;
    }
}

void plain_cutoff(void *const *out, const void *const *in, int64_t n, int threads) {
    static float x[MAX_BODIES], y[MAX_BODIES], z[MAX_BODIES];
    const float *restrict at = in[0];
    float *restrict energy = out[0], *restrict neighbours = out[1];
    for (int64_t i = 0; i < n; i++) x[i] = at[3 * i], y[i] = at[3 * i + 1], z[i] = at[3 * i + 2];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float sum = 0, count = 0;
        for (int64_t j = 0; j < n; j++) {
            float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i], r2 = dx * dx + dy * dy + dz * dz;
            float s = 1 / (r2 + (float)SOFTENING);
            sum += r2 < (float)(REACH * REACH) ? s * s * s : 0;
            count += r2 < (float)(REACH * REACH) ? 1 : 0;
        }
        energy[i] = sum, neighbours[i] = count;
    }
}

void plain_kernel_sums(void *const *out, const void *const *in, int64_t n, int threads) {
    static float across[DIMS][MAX_BODIES];
    const float *restrict x = in[0], *restrict w = in[1];
    float *restrict sums = out[0];
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < DIMS; k++) across[k][i] = x[i * DIMS + k];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++) {
            float r2 = 0;
            for (int k = 0; k < DIMS; k++) r2 += (across[k][j] - x[i * DIMS + k]) * (across[k][j] - x[i * DIMS + k]);
            sum += expf(-r2) * w[j];
        }
        sums[i] = sum;
    }
}

void plain_attend(void *const *out, const void *const *in, int64_t n, int threads) {
    static float k[3][MAX_BODIES], v[3][MAX_BODIES];
    const float *restrict q = in[0], *restrict keys = in[1], *restrict values = in[2];
    float *restrict seen = out[0];
    for (int64_t j = 0; j < 3 * n; j++) k[j % 3][j / 3] = keys[j], v[j % 3][j / 3] = values[j];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float a = q[3 * i], b = q[3 * i + 1], c = q[3 * i + 2], top = -INFINITY, all = 0, x = 0, y = 0, z = 0;
        for (int64_t j = 0; j < n; j++) {
            float score = a * k[0][j] + b * k[1][j] + c * k[2][j];
            top = score > top ? score : top;
        }
#pragma omp simd reduction(+ : all, x, y, z)
        for (int64_t j = 0; j < n; j++) {
            float e = expf(a * k[0][j] + b * k[1][j] + c * k[2][j] - top);
            all += e, x += e * v[0][j], y += e * v[1][j], z += e * v[2][j];
        }
        seen[3 * i] = x / all, seen[3 * i + 1] = y / all, seen[3 * i + 2] = z / all;
    }
}

/* ---- groups: each thread sums for itself ---- */

void plain_histogram(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict x = in[0];
    float *restrict counts = out[0], own[BINS] = {0};
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : own)
    for (int64_t i = 0; i < n; i++) own[(int)(x[i] * BINS)]++;
    memcpy(counts, own, sizeof own);
}

void plain_segments(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict x = in[0], *restrict u = in[1];
    float *restrict means = out[0], sums[SEGMENTS * WIDTH] = {0}, counts[SEGMENTS] = {0};
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : sums, counts)
    for (int64_t i = 0; i < n; i++) {
        int s = (int)(u[i] * SEGMENTS);
        for (int k = 0; k < WIDTH; k++) sums[s * WIDTH + k] += x[i * WIDTH + k];
        counts[s]++;
    }
    for (int k = 0; k < SEGMENTS * WIDTH; k++) means[k] = sums[k] / fmaxf(counts[k / WIDTH], 1);
}

/* ---- k-means: lanes are centres; each thread sums for itself ---- */

static int64_t nearest(const float *restrict x, float across[DIMS][CENTRES]) {
    float d[CENTRES] = {0};
    for (int k = 0; k < DIMS; k++)
        for (int c = 0; c < CENTRES; c++) d[c] += (x[k] - across[k][c]) * (x[k] - across[k][c]);
    int best = 0;
    for (int c = 1; c < CENTRES; c++)
        if (d[c] < d[best]) best = c;
    return best;
}

void plain_kmeans(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict x = in[0], *restrict c = in[1];
    int64_t *restrict label = out[0];
    float *restrict next = out[1], across[DIMS][CENTRES], sums[CENTRES * DIMS] = {0}, counts[CENTRES] = {0};
    for (int k = 0; k < CENTRES * DIMS; k++) across[k % DIMS][k / DIMS] = c[k];
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : sums, counts)
    for (int64_t i = 0; i < n; i++) {
        int64_t best = label[i] = nearest(x + i * DIMS, across);
        for (int k = 0; k < DIMS; k++) sums[best * DIMS + k] += x[i * DIMS + k];
        counts[best]++;
    }
    for (int k = 0; k < CENTRES * DIMS; k++) next[k] = sums[k] / fmaxf(counts[k / DIMS], 1);
}

/* ---- options ---- */

void plain_black_scholes(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict price = in[0], *restrict strike = in[1], *restrict years = in[2], *restrict sigma = in[3];
    float *restrict call = out[0], *restrict put = out[1];
    const float interest = (float)INTEREST, half = 0.5f, root = (float)M_SQRT1_2;
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float spread = sigma[i] * sqrtf(years[i]);
        float d1 = (logf(price[i] / strike[i]) + (interest + half * sigma[i] * sigma[i]) * years[i]) / spread;
        float n1 = half + half * erff(d1 * root), n2 = half + half * erff((d1 - spread) * root);
        float later = strike[i] * expf(-interest * years[i]);
        float value = price[i] * n1 - later * n2;
        call[i] = value;
        put[i] = value + later - price[i];
    }
}

/* ---- rows of three ---- */

static uint8_t byte(float x) { return (uint8_t)(int)(x < 0 ? 0 : x > 255 ? 255 : x); }

void plain_colours(void *const *out, const void *const *in, int64_t n, int threads) {
    const uint8_t *restrict rgb = in[0];
    uint8_t *restrict yuv = out[0];
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float r = rgb[3 * i], g = rgb[3 * i + 1], b = rgb[3 * i + 2];
        yuv[3 * i] = byte(0.5f + 0.299f * r + 0.587f * g + 0.114f * b);
        yuv[3 * i + 1] = byte(128.5f - 0.169f * r - 0.331f * g + 0.5f * b);
        yuv[3 * i + 2] = byte(128.5f + 0.5f * r - 0.419f * g - 0.081f * b);
    }
}

void plain_rotate(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict q = in[0], *restrict p = in[1];
    float *restrict y = out[0];
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float w = q[4 * i], u0 = q[4 * i + 1], u1 = q[4 * i + 2], u2 = q[4 * i + 3];
        float p0 = p[3 * i], p1 = p[3 * i + 1], p2 = p[3 * i + 2];
        float t0 = 2 * (u1 * p2 - u2 * p1), t1 = 2 * (u2 * p0 - u0 * p2), t2 = 2 * (u0 * p1 - u1 * p0);
        y[3 * i] = p0 + w * t0 + u1 * t2 - u2 * t1;
        y[3 * i + 1] = p1 + w * t1 + u2 * t0 - u0 * t2;
        y[3 * i + 2] = p2 + w * t2 + u0 * t1 - u1 * t0;
    }
}

/* Tiles of a line of memory. */
void plain_turn(void *const *out, const void *const *in, int64_t n, int threads) {
    enum { SIDE = 16 };
    const float *restrict x = in[0];
    float *restrict y = out[0];
    int64_t m = n + 4;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t jb = 0; jb < m; jb += SIDE)
        for (int64_t ib = 0; ib < n; ib += SIDE)
            for (int64_t j = jb; j < m && j < jb + SIDE; j++)
                for (int64_t i = ib; i < n && i < ib + SIDE; i++) y[j * n + i] = x[i * m + j];
}

void plain_inverse(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict x = in[0];
    float *restrict y = out[0];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < n; t++) {
        const float *m = x + 9 * t;
        float *r = y + 9 * t;
        float a = m[4] * m[8] - m[5] * m[7], b = m[5] * m[6] - m[3] * m[8], c = m[3] * m[7] - m[4] * m[6];
        float by = 1 / (m[0] * a + m[1] * b + m[2] * c);
        r[0] = a * by, r[1] = (m[2] * m[7] - m[1] * m[8]) * by, r[2] = (m[1] * m[5] - m[2] * m[4]) * by;
        r[3] = b * by, r[4] = (m[0] * m[8] - m[2] * m[6]) * by, r[5] = (m[2] * m[3] - m[0] * m[5]) * by;
        r[6] = c * by, r[7] = (m[1] * m[6] - m[0] * m[7]) * by, r[8] = (m[0] * m[4] - m[1] * m[3]) * by;
    }
}

/* ---- steps, small matrices, order ---- */

void plain_newton(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict a = in[0];
    float *restrict root = out[0];
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float z = a[i];
        for (int k = 0; k < NEWTON_STEPS; k++) z -= (z * z * z - a[i]) / (3 * z * z + 1);
        root[i] = z;
    }
}

void plain_predict(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict f = in[1], *restrict q = in[2];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const float *restrict p = (const float *)in[0] + i * STATES * STATES;
        float *restrict next = (float *)out[0] + i * STATES * STATES, fp[STATES][STATES] = {{0}};
        for (int a = 0; a < STATES; a++)
            for (int k = 0; k < STATES; k++)
                for (int b = 0; b < STATES; b++) fp[a][b] += f[a * STATES + k] * p[k * STATES + b];
        for (int a = 0; a < STATES; a++)
            for (int b = 0; b < STATES; b++) {
                float sum = q[a * STATES + b];
                for (int k = 0; k < STATES; k++) sum += fp[a][k] * f[b * STATES + k];
                next[a * STATES + b] = sum;
            }
    }
}

/* ---- images: ends of rows apart, places and weights of columns once ---- */

static uint8_t lives(unsigned around, uint8_t u) { return around == 3 || (around == 2 && u == 1); }

void plain_life(void *const *out, const void *const *in, int64_t n, int threads) {
    const uint8_t *u = in[0];
    uint8_t *next = out[0], *dead = calloc((size_t)n, 1);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *restrict b = u + i * n, *restrict a = i ? b - n : dead, *restrict c = i < n - 1 ? b + n : dead;
        uint8_t *restrict to = next + i * n;
        for (int64_t j = 1; j < n - 1; j++) {
            uint8_t sum = (uint8_t)(a[j - 1] + a[j] + a[j + 1] + b[j - 1] + b[j + 1] + c[j - 1] + c[j] + c[j + 1]);
            to[j] = (sum == 3) | ((sum == 2) & (b[j] == 1));
        }
        to[0] = lives((unsigned)(a[0] + a[1] + b[1] + c[0] + c[1]), b[0]);
        to[n - 1] = lives((unsigned)(a[n - 2] + a[n - 1] + b[n - 2] + c[n - 2] + c[n - 1]), b[n - 1]);
    }
    free(dead);
}

enum { MAX_SIDE = 4096 };

void plain_resize(void *const *out, const void *const *in, int64_t n, int threads) {
    static int32_t low[MAX_SIDE], high[MAX_SIDE];
    static float w[MAX_SIDE];
    const float *restrict x = in[0];
    float *restrict y = out[0];
    int64_t m = n * 3 / 2;
    for (int64_t i = 0; i < m; i++) {
        float at = fminf(fmaxf(((float)i + 0.5f) * (2.0f / 3) - 0.5f, 0), (float)(n - 1));
        low[i] = (int32_t)at, high[i] = low[i] + 1 < n ? low[i] + 1 : (int32_t)n - 1, w[i] = at - (float)low[i];
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < m; i++) {
        const float *restrict a = x + low[i] * n, *restrict b = x + high[i] * n;
        for (int64_t j = 0; j < m; j++) {
            float p = a[low[j]] + (a[high[j]] - a[low[j]]) * w[j], q = b[low[j]] + (b[high[j]] - b[low[j]]) * w[j];
            y[i * m + j] = p + (q - p) * w[i];
        }
    }
}

/* ---- a fluid: the ends of a row apart, so that what is between them is lanes ---- */

/* Cell (i, j) of what comes from rows `from` and column j - 1, j and j + 1. */
static inline __attribute__((always_inline)) void collide(float *restrict const *to, const float *restrict const *from,
                                                          int64_t left, int64_t j, int64_t right) {
    const int64_t at[3] = {right, j, left};
    const float rate = (float)RELAXATION;
    float f[DIRECTIONS], density = 0, u = 0, v = 0;
#pragma GCC unroll 9
    for (int k = 0; k < DIRECTIONS; k++) {
        f[k] = from[k][at[directions[k][1] + 1]];
        density += f[k];
        v += (float)directions[k][0] * f[k], u += (float)directions[k][1] * f[k];
    }
    u /= density, v /= density;
    float rest = 1 - 1.5f * (u * u + v * v);
#pragma GCC unroll 9
    for (int k = 0; k < DIRECTIONS; k++) {
        float along = (float)directions[k][0] * v + (float)directions[k][1] * u;
        float e = (rest + 3 * along + 4.5f * along * along) * density * ((float)directions[k][2] / 36);
        to[k][j] = f[k] + rate * (e - f[k]);
    }
}

void plain_lattice(void *const *out, const void *const *in, int64_t n, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const float *from[DIRECTIONS];
        float *to[DIRECTIONS];
        for (int k = 0; k < DIRECTIONS; k++) {
            from[k] = (const float *)in[0] + (k * n + (i - directions[k][0] + n) % n) * n;
            to[k] = (float *)out[0] + (k * n + i) * n;
        }
        collide(to, from, n - 1, 0, 1);
#pragma GCC ivdep
        for (int64_t j = 1; j < n - 1; j++) collide(to, from, j - 1, j, j + 1);
        collide(to, from, n - 2, n - 1, 0);
    }
}

/* ---- stereo: sums down the windows first, a row of them at a time ---- */

static void least_of_row(int64_t *restrict disparity, const float *restrict left, const float *restrict right,
                         int64_t i, int64_t n) {
    float down[MAX_SIDE + 2 * REACH_OF_WINDOW], best[MAX_SIDE];
    int32_t which[MAX_SIDE];
    for (int32_t d = 0; d < DISPARITIES; d++) {
        memset(down, 0, (size_t)(n + 2 * REACH_OF_WINDOW) * sizeof *down);
        for (int64_t r = i - REACH_OF_WINDOW; r <= i + REACH_OF_WINDOW; r++) {
            if (r < 0 || r >= n) continue;
            const float *restrict a = left + r * n, *restrict b = right + r * n;
            for (int64_t j = 0; j < d; j++) down[j + REACH_OF_WINDOW] += fabsf(a[j]);
            for (int64_t j = d; j < n; j++) down[j + REACH_OF_WINDOW] += fabsf(a[j] - b[j - d]);
        }
        for (int64_t j = 0; j < n; j++) {
            float sum = down[j] + down[j + 1] + down[j + 2] + down[j + 3] + down[j + 4];
            which[j] = d && best[j] <= sum ? which[j] : d;
            best[j] = d && best[j] <= sum ? best[j] : sum;
        }
    }
    for (int64_t j = 0; j < n; j++) disparity[j] = which[j];
}

void plain_stereo(void *const *out, const void *const *in, int64_t n, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) least_of_row((int64_t *)out[0] + i * n, in[0], in[1], i, n);
}

/* ---- particles in a periodic box, spins ---- */

void plain_forces(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict at = in[0];
    float *restrict force = out[0], *restrict energy = out[1];
    float *restrict x = malloc((size_t)n * 3 * sizeof *x), *restrict y = x + n, *restrict z = y + n;
    const float soft = (float)SOFTENING, near = (float)(CUT_OFF * CUT_OFF);
    for (int64_t j = 0; j < n; j++) x[j] = at[3 * j], y[j] = at[3 * j + 1], z[j] = at[3 * j + 2];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float fx = 0, fy = 0, fz = 0, sum = 0;
        for (int64_t j = 0; j < n; j++) {
            float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
            dx -= rintf(dx), dy -= rintf(dy), dz -= rintf(dz);
            float r2 = dx * dx + dy * dy + dz * dz, s = soft / (r2 + soft), s3 = s * s * s;
            float pull = r2 < near ? (2 * s3 * s3 - s3) * s : 0;
            fx += pull * dx, fy += pull * dy, fz += pull * dz, sum += s3 * s3 - s3;
        }
        force[3 * i] = fx, force[3 * i + 1] = fy, force[3 * i + 2] = fz, energy[i] = sum;
    }
    free(x);
}

static inline __attribute__((always_inline)) float turned(float s, float around, float u) {
    return u < expf((float)(-2 * COUPLING) * s * around) ? -s : s;
}

void plain_spins(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict x = in[0], *restrict u = in[1];
    float *s = out[0];
    for (int64_t k = 0; k < n * n; k++) s[k] = x[k] < 0.5f ? -1 : 1;
    for (int64_t c = 0; c < 2; c++) {
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t i = 0; i < n; i++) { /* neighbours have the other colour: nobody turns them */
            const float *up = s + (i + n - 1) % n * n, *down = s + (i + 1) % n * n, *random = u + i * n;
            float *row = s + i * n;
            int64_t odd = (i + c) % 2, end = odd ? n - 1 : 0;
#pragma GCC ivdep
            for (int64_t j = odd ? 1 : 2; j < n - 1; j += 2)
                row[j] = turned(row[j], up[j] + down[j] + row[j - 1] + row[j + 1], random[j]);
            float around = up[end] + down[end] + row[(end + n - 1) % n] + row[(end + 1) % n];
            row[end] = turned(row[end], around, random[end]);
        }
    }
}

/* ---- looking for things ---- */

void plain_nearest(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict all = in[0], *restrict one = in[1];
    float *restrict cosine = out[0], *restrict angle = malloc((size_t)n * sizeof *angle);
    int64_t *restrict which = out[1], found = 0;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float dot = 0, squares = 0;
        for (int64_t k = 0; k < FEATURES; k++) {
            float x = all[i * FEATURES + k];
            dot += x * one[k], squares += x * x;
        }
        angle[i] = dot / (sqrtf(squares) + 1e-6f);
    }
    for (int64_t i = 0; i < n; i++) {
        if (found == FOUND && angle[i] <= cosine[FOUND - 1]) continue;
        int64_t at = found < FOUND ? found++ : FOUND - 1;
        for (; at && cosine[at - 1] < angle[i]; at--) cosine[at] = cosine[at - 1], which[at] = which[at - 1];
        cosine[at] = angle[i], which[at] = i;
    }
    free(angle);
}

static inline int32_t place_on_map(float along, float distance) {
    return (int32_t)fminf(fmaxf(along * distance + MAP / 2, 0), MAP - 1);
}

void plain_rays(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict map = in[0], *restrict angle = in[1];
    float *restrict range = out[0];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float turn = angle[i] * 6.2831853f, x = cosf(turn), y = sinf(turn), t = 0;
        for (int s = 0; s < RAY_STEPS && map[place_on_map(y, t) * MAP + place_on_map(x, t)] < (float)FULL_CELL; s++)
            t += 1;
        range[i] = t;
    }
}

void plain_hashed(void *const *out, const void *const *in, int64_t n, int threads) {
    const uint32_t *restrict id = in[0];
    const float *restrict w = in[1];
    float *restrict bins = out[0], *all = calloc((size_t)threads * HASH_BINS, sizeof *all);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int t = 0; t < threads; t++) {
        float *restrict own = all + (int64_t)t * HASH_BINS;
        for (int64_t i = n * t / threads; i < n * (t + 1) / threads; i++) {
            uint32_t h = id[i];
            h ^= h >> 16, h *= 0x7feb352d, h ^= h >> 15, h *= 0x846ca68b, h ^= h >> 16;
            own[h % HASH_BINS] += h & HASH_BINS ? -w[i] : w[i];
        }
    }
    for (int64_t k = 0; k < HASH_BINS; k++) {
        bins[k] = 0;
        for (int t = 0; t < threads; t++) bins[k] += all[(int64_t)t * HASH_BINS + k];
    }
    free(all);
}

/* ---- along time: some columns at a time, whose states stay in registers or near them ---- */

enum { ABREAST = 256, CHANNELS = 64 };

void plain_paths(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict z = in[0];
    double worth = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : worth)
    for (int64_t from = 0; from < n; from += ABREAST) {
        float log_price[ABREAST] = {0}, sum[ABREAST] = {0}, gains = 0;
        int64_t m = n - from < ABREAST ? n - from : ABREAST;
        for (int64_t t = 0; t < PATH_STEPS; t++)
            for (int64_t i = 0; i < m; i++) {
                log_price[i] += 0.05f * z[t * n + from + i] - 0.001f;
                sum[i] += expf(log_price[i]);
            }
        for (int64_t i = 0; i < m; i++) gains += fmaxf(sum[i] / PATH_STEPS - 1, 0);
        worth += gains;
    }
    *(float *)out[0] = (float)(worth / (double)n);
}

void plain_filter(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict x = in[0];
    float *restrict y = out[0];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t from = 0; from < n; from += CHANNELS) {
        float a[CHANNELS] = {0}, b[CHANNELS] = {0};
        int64_t m = n - from < CHANNELS ? n - from : CHANNELS;
        for (int64_t t = 0; t < FILTER_STEPS; t++)
            for (int64_t i = 0; i < m; i++) {
                float v = x[t * n + from + i], r = 0.2f * v + a[i];
                a[i] = 0.4f * v + 0.5f * r + b[i], b[i] = 0.2f * v - 0.3f * r;
                y[t * n + from + i] = r;
            }
    }
}

/* ---- Kalman filters ---- */

/* out = a b, a of rows x inner, b of inner x columns, or of its transpose. */
static inline __attribute__((always_inline)) void product(float *restrict out, const float *restrict a,
                                                          const float *restrict b, int rows, int inner, int columns,
                                                          bool transposed) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            float sum = 0;
            for (int k = 0; k < inner; k++) sum += a[i * inner + k] * b[transposed ? j * inner + k : k * columns + j];
            out[i * columns + j] = sum;
        }
}

void plain_track(void *const *out, const void *const *in, int64_t n, int threads) {
    enum { N = STATES, M = MEASURED };
    const float *restrict f = in[3], *restrict h = in[4], *restrict q = in[5];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const float *z = (const float *)in[2] + M * i;
        float *next_x = (float *)out[0] + N * i, *next_p = (float *)out[1] + N * N * i;
        float x[N], p[N * N], half[N * N], seen[N * M], s[M * M], gain[N * M], at[M], taken[N * N], less[N * N];
        product(x, f, (const float *)in[0] + N * i, N, N, 1, false);
        product(half, f, (const float *)in[1] + N * N * i, N, N, N, false);
        product(p, half, f, N, N, N, true);
        for (int k = 0; k < N * N; k++) p[k] += q[k];
        product(seen, p, h, N, N, M, true);
        product(s, h, seen, M, N, M, false);
        s[0] += 1, s[3] += 1;
        float by = 1 / (s[0] * s[3] - s[1] * s[2]), inverse[M * M] = {s[3] * by, -s[1] * by, -s[2] * by, s[0] * by};
        product(gain, seen, inverse, N, M, M, false);
        product(at, h, x, M, N, 1, false);
        product(taken, gain, h, N, M, N, false);
        product(less, taken, p, N, N, N, false);
        for (int k = 0; k < N; k++) next_x[k] = x[k] + gain[2 * k] * (z[0] - at[0]) + gain[2 * k + 1] * (z[1] - at[1]);
        for (int k = 0; k < N * N; k++) next_p[k] = p[k] - less[k];
    }
}

/* ---- graphs, flocks, trees ---- */

/* Serial: edges of one node are anywhere. */
void plain_ranks(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict rank = in[0], *restrict weight = in[1];
    const int32_t *restrict from = in[2], *restrict to = in[3];
    float *restrict next = out[0];
    (void)threads;
    memset(next, 0, (size_t)n * sizeof *next);
    for (int64_t e = 0; e < EDGES * n; e++) next[to[e]] += weight[e] * rank[from[e]];
    for (int64_t i = 0; i < n; i++) next[i] = (float)DAMPING * next[i] + (float)((1 - DAMPING) / (double)n);
}

void plain_flock(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict at = in[0], *restrict v = in[1];
    float *restrict next_v = out[0], *restrict next_at = out[1];
    float *restrict x = malloc((size_t)n * 4 * sizeof *x), *restrict y = x + n, *restrict vx = y + n,
                    *restrict vy = vx + n;
    const float sight = (float)(SIGHT * SIGHT), close = (float)(CLOSE * CLOSE);
    for (int64_t i = 0; i < n; i++) x[i] = at[2 * i], y[i] = at[2 * i + 1], vx[i] = v[2 * i], vy[i] = v[2 * i + 1];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float count = 0, sx = 0, sy = 0, ux = 0, uy = 0, ax = 0, ay = 0;
        for (int64_t j = 0; j < n; j++) {
            float dx = x[j] - x[i], dy = y[j] - y[i], r = dx * dx + dy * dy, near = r < sight, beside = r < close;
            count += near, sx += near * x[j], sy += near * y[j], ux += near * vx[j], uy += near * vy[j];
            ax += beside * dx, ay += beside * dy;
        }
        float tx = 0.01f * (sx / count - x[i]) + 0.1f * (ux / count - vx[i]) - 0.05f * ax;
        float ty = 0.01f * (sy / count - y[i]) + 0.1f * (uy / count - vy[i]) - 0.05f * ay;
        next_v[2 * i] = vx[i] + tx, next_v[2 * i + 1] = vy[i] + ty;
        next_at[2 * i] = x[i] + 0.1f * (vx[i] + tx), next_at[2 * i + 1] = y[i] + 0.1f * (vy[i] + ty);
    }
    free(x);
}

void plain_forest(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict x = in[0], *restrict limit = in[2], *restrict leaf = in[3];
    const int32_t *restrict any = in[1];
    float *restrict y = out[0];
    int32_t feature[TREES * SPLITS];
    for (int k = 0; k < TREES * SPLITS; k++) feature[k] = any[k] % TESTED;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const float *restrict row = x + i * TESTED;
        float sum = 0;
        for (int t = 0; t < TREES; t++) {
            int node = 0;
            for (int level = 0; level < LEVELS; level++)
                node = 2 * node + 1 + (row[feature[t * SPLITS + node]] > limit[t * SPLITS + node]);
            sum += leaf[t * (SPLITS + 1) + node - SPLITS];
        }
        y[i] = sum / TREES;
    }
}

/* ---- images and series ---- */

/* A row of what is blurred down the columns, then along the rows: x, y, x x, y y, x y. */
static float similar_row(const float *restrict x, const float *restrict y, const float *restrict w, int64_t i,
                         int64_t n) {
    float down[5][MAX_SIDE + BLUR], sum = 0;
    memset(down, 0, sizeof down);
    for (int k = 0; k < BLUR; k++) {
        int64_t r = i + k - BLUR / 2;
        if (r < 0 || r >= n) continue;
        const float *restrict a = x + r * n, *restrict b = y + r * n;
        for (int64_t j = 0; j < n; j++) {
            float *restrict to = &down[0][j + BLUR / 2];
            to[0] += w[k] * a[j], to[MAX_SIDE + BLUR] += w[k] * b[j];
            to[2 * (MAX_SIDE + BLUR)] += w[k] * a[j] * a[j], to[3 * (MAX_SIDE + BLUR)] += w[k] * b[j] * b[j];
            to[4 * (MAX_SIDE + BLUR)] += w[k] * a[j] * b[j];
        }
    }
    for (int64_t j = 0; j < n; j++) {
        float m[5] = {0};
        for (int k = 0; k < BLUR; k++)
            for (int c = 0; c < 5; c++) m[c] += w[k] * down[c][j + k];
        float vx = m[2] - m[0] * m[0], vy = m[3] - m[1] * m[1], cov = m[4] - m[0] * m[1];
        sum +=
            (2 * m[0] * m[1] + 1e-4f) * (2 * cov + 9e-4f) / ((m[0] * m[0] + m[1] * m[1] + 1e-4f) * (vx + vy + 9e-4f));
    }
    return sum;
}

void plain_similar(void *const *out, const void *const *in, int64_t n, int threads) {
    float w[BLUR];
    double sum = 0;
    blur_weights(w);
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += similar_row(in[0], in[1], w, i, n);
    *(float *)out[0] = (float)(sum / (double)(n * n));
}

void plain_drawdown(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict p = in[0];
    float *restrict loss = out[0];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float value[PRICES - 1], sum = 0, most = 0, worst = -INFINITY;
        const float *restrict row = p + i * PRICES;
        for (int j = 0; j < PRICES - 1; j++) value[j] = 0.1f * logf(row[j + 1] / row[j]);
        for (int j = 0; j < PRICES - 1; j++) sum += value[j], value[j] = sum;
        for (int j = 0; j < PRICES - 1; j++) value[j] = expf(value[j]);
        for (int j = 0; j < PRICES - 1; j++) {
            most = fmaxf(most, value[j]);
            worst = fmaxf(worst, 1 - value[j] / most);
        }
        loss[i] = worst;
    }
}

void plain_grey(void *const *out, const void *const *in, int64_t n, int threads) {
    const uint8_t *restrict x = in[0];
    float *restrict y = malloc((size_t)(n * n) * sizeof *y), above = 0;
    double sum = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float of_row = 0;
        for (int64_t k = i * n; k < (i + 1) * n; k++)
            y[k] = 0.299f * x[3 * k] + 0.587f * x[3 * k + 1] + 0.114f * x[3 * k + 2], of_row += y[k];
        sum += of_row;
    }
    float mean = (float)(sum / (double)(n * n));
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : above)
    for (int64_t k = 0; k < n * n; k++) above += y[k] > mean;
    *(float *)out[0] = mean, *(float *)out[1] = above;
    free(y);
}

void plain_query(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict q = in[0], *restrict k = in[1], *restrict v = in[2];
    float *restrict y = out[0];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t h = 0; h < HEADS; h++) {
        float s[MAX_SIDE], most = -INFINITY, all = 0, sum[HEAD] = {0};
        for (int64_t i = 0; i < n; i++) {
            float dot = 0;
            for (int c = 0; c < HEAD; c++) dot += q[h * HEAD + c] * k[(h * n + i) * HEAD + c];
            s[i] = 0.125f * dot, most = fmaxf(most, s[i]);
        }
        for (int64_t i = 0; i < n; i++) s[i] = expf(s[i] - most), all += s[i];
        for (int64_t i = 0; i < n; i++)
            for (int c = 0; c < HEAD; c++) sum[c] += s[i] * v[(h * n + i) * HEAD + c];
        for (int c = 0; c < HEAD; c++) y[h * HEAD + c] = sum[c] / all;
    }
}

/* ---- Fourier: all stages of a signal while it is in the nearest cache ---- */

typedef struct signal {
    float re[SIGNAL], im[SIGNAL];
} signal;

static void fourier_stage(signal *restrict to, const signal *restrict x, const float *restrict wr,
                          const float *restrict wi, int64_t m) {
    int64_t s = SIGNAL / 2 / m;
    for (int64_t p = 0; p < m; p++)
#pragma GCC ivdep
        for (int64_t q = p * s; q < (p + 1) * s; q++) {
            float dr = x->re[q] - x->re[q + SIGNAL / 2], di = x->im[q] - x->im[q + SIGNAL / 2];
            to->re[q + p * s] = x->re[q] + x->re[q + SIGNAL / 2], to->im[q + p * s] = x->im[q] + x->im[q + SIGNAL / 2];
            to->re[q + (p + 1) * s] = dr * wr[p] - di * wi[p], to->im[q + (p + 1) * s] = dr * wi[p] + di * wr[p];
        }
}

void plain_fourier(void *const *out, const void *const *in, int64_t n, int threads) {
    static float wr[SIGNAL], wi[SIGNAL]; /* of m from m on */
    for (int64_t m = SIGNAL / 2; m >= 1; m /= 2) roots_of_one(wr + m, wi + m, m);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        signal x, y;
        memcpy(x.re, (const float *)in[0] + i * SIGNAL, sizeof x.re);
        memcpy(x.im, (const float *)in[1] + i * SIGNAL, sizeof x.im);
        for (int64_t m = SIGNAL / 2; m >= 1; m /= 4) {
            fourier_stage(&y, &x, wr + m, wi + m, m);
            fourier_stage(&x, &y, wr + m / 2, wi + m / 2, m / 2);
        }
        memcpy((float *)out[0] + i * SIGNAL, x.re, sizeof x.re);
        memcpy((float *)out[1] + i * SIGNAL, x.im, sizeof x.im);
    }
}

/* ---- a training step: rows of the hidden layer in strips that stay in the first cache ---- */

enum { MAX_BATCH = 256, STRIP = 64 };

static float h[MAX_BATCH][HIDDEN], dh[MAX_BATCH][HIDDEN], dy[MAX_BATCH][CLASSES], losses[MAX_BATCH];

/* h = relu(x w1 + b1), four rows at a time. n is a multiple of 4. */
static void hidden_rows(const float *restrict x, const float *restrict w1, const float *restrict b1, int64_t n,
                        int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i += 4)
        for (int64_t j = 0; j < HIDDEN; j += STRIP) {
            float sum[4][STRIP];
            for (int r = 0; r < 4; r++)
                for (int s = 0; s < STRIP; s++) sum[r][s] = b1[j + s];
            for (int64_t k = 0; k < PIXELS; k++)
                for (int r = 0; r < 4; r++)
                    for (int s = 0; s < STRIP; s++) sum[r][s] += x[(i + r) * PIXELS + k] * w1[k * HIDDEN + j + s];
            for (int r = 0; r < 4; r++)
                for (int s = 0; s < STRIP; s++) h[i + r][j + s] = fmaxf(sum[r][s], 0);
        }
}

/* dy and the loss of a row, then the gradient of its hidden values. */
static void row_back(int64_t i, const float *restrict w2, const float *restrict b2, int64_t label, int64_t n) {
    float y[CLASSES], top, sum = 0;
    for (int c = 0; c < CLASSES; c++) y[c] = b2[c];
    for (int64_t k = 0; k < HIDDEN; k++)
        for (int c = 0; c < CLASSES; c++) y[c] += h[i][k] * w2[k * CLASSES + c];
    top = y[0];
    for (int c = 1; c < CLASSES; c++) top = fmaxf(top, y[c]);
    for (int c = 0; c < CLASSES; c++) sum += expf(y[c] - top);
    losses[i] = logf(sum) + top - y[label];
    for (int c = 0; c < CLASSES; c++) dy[i][c] = (expf(y[c] - top) / sum - (float)(c == label)) / (float)n;
    for (int64_t k = 0; k < HIDDEN; k++) {
        float back = 0;
        for (int c = 0; c < CLASSES; c++) back += dy[i][c] * w2[k * CLASSES + c];
        dh[i][k] = h[i][k] > 0 ? back : 0;
    }
}

/* next = w - rate * x^T d, four rows of w at a time. */
static void descend_hidden(float *restrict next, const float *restrict w, const float *restrict x, int64_t n,
                           int threads) {
    const float rate = (float)LEARNING_RATE;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t k = 0; k < PIXELS; k += 4)
        for (int64_t j = 0; j < HIDDEN; j += STRIP) {
            float sum[4][STRIP] = {{0}};
            for (int64_t i = 0; i < n; i++)
                for (int r = 0; r < 4; r++)
                    for (int s = 0; s < STRIP; s++) sum[r][s] += x[i * PIXELS + k + r] * dh[i][j + s];
            for (int r = 0; r < 4; r++)
                for (int s = 0; s < STRIP; s++)
                    next[(k + r) * HIDDEN + j + s] = w[(k + r) * HIDDEN + j + s] - rate * sum[r][s];
        }
}

static void descend_output(float *restrict next, const float *restrict w, int64_t n, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t k = 0; k < HIDDEN; k++) {
        float sum[CLASSES] = {0};
        for (int64_t i = 0; i < n; i++)
            for (int c = 0; c < CLASSES; c++) sum[c] += h[i][k] * dy[i][c];
        for (int c = 0; c < CLASSES; c++) next[k * CLASSES + c] = w[k * CLASSES + c] - (float)LEARNING_RATE * sum[c];
    }
}

static void descend_bias(float *restrict next, const float *restrict b, const float *restrict d, int64_t width,
                         int64_t n) {
    for (int64_t j = 0; j < width; j++) next[j] = b[j];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < width; j++) next[j] -= (float)LEARNING_RATE * d[i * width + j];
}

void plain_mlp_step(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *x = in[0], *w1 = in[2], *b1 = in[3], *w2 = in[4], *b2 = in[5];
    const int64_t *label = in[1];
    float loss = 0;
    hidden_rows(x, w1, b1, n, threads);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) row_back(i, w2, b2, label[i], n);
    for (int64_t i = 0; i < n; i++) loss += losses[i];
    *(float *)out[0] = loss / (float)n;
    descend_hidden(out[1], w1, x, n, threads);
    descend_bias(out[2], b1, &dh[0][0], HIDDEN, n);
    descend_output(out[3], w2, n, threads);
    descend_bias(out[4], b2, &dy[0][0], CLASSES, n);
}
