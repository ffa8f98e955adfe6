/* plain_orders.c: what orders elements of the cases of bench/cpu, in plain C; as plain.c. */
#include "bench/cpu/cases.h"

#include <math.h>
#include <stdlib.h>

/* Numbers that are not negative are in the order of their bits: three digits of 11 of them. One thread. */
void plain_sorted(void *const *out, const void *const *in, int64_t n, int threads) {
    enum { BITS = 11, DIGITS = 1 << BITS };
    static uint32_t *buffer[2];
    static int64_t size;
    (void)threads;
    for (int k = 0; k < 2 && size != n; k++) buffer[k] = realloc(buffer[k], (size_t)n * sizeof *buffer[k]);
    size = n;
    const uint32_t *from = in[0];
    for (int pass = 0; pass < 3; pass++) {
        uint32_t *to = pass == 2 ? out[0] : buffer[pass], start[DIGITS] = {0}, sum = 0;
        for (int64_t i = 0; i < n; i++) start[from[i] >> BITS * pass & (DIGITS - 1)]++;
        for (int d = 0; d < DIGITS; d++) {
            uint32_t count = start[d];
            start[d] = sum, sum += count;
        }
        for (int64_t i = 0; i < n; i++) to[start[from[i] >> BITS * pass & (DIGITS - 1)]++] = from[i];
        from = to;
    }
}

enum { MOST_POINTS = 4096 };

/* Columns side by side: the smallest rises to the front, as often as the median needs. */
static void medians(float *restrict out, const float *restrict x, int64_t n, int64_t columns) {
    enum { SIDE = 16, ALL = MEDIAN_OF * MEDIAN_OF };
    float a[ALL][SIDE];
    for (int k = 0; k < ALL; k++)
        for (int j = 0; j < SIDE; j++) a[k][j] = x[k / MEDIAN_OF * n + (j < columns ? j : columns - 1) + k % MEDIAN_OF];
    for (int s = 0; s <= ALL / 2; s++)
        for (int k = ALL - 1; k > s; k--)
            for (int j = 0; j < SIDE; j++) {
                float low = fminf(a[k - 1][j], a[k][j]), high = fmaxf(a[k - 1][j], a[k][j]);
                a[k - 1][j] = low, a[k][j] = high;
            }
    for (int j = 0; j < SIDE && j < columns; j++) out[j] = a[ALL / 2][j];
}

void plain_median(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict x = in[0];
    float *restrict y = out[0];
    int64_t inside = n - MEDIAN_OF + 1;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < inside; i++)
        for (int64_t j = 0; j < inside; j += 16) medians(y + i * inside + j, x + i * n + j, n, inside - j);
}

void plain_neighbours(void *const *out, const void *const *in, int64_t n, int threads) {
    const float *restrict at = in[0];
    float *restrict distance = out[0];
    int64_t *restrict which = out[1];
    float *restrict x = malloc((size_t)n * 3 * sizeof *x), *restrict y = x + n, *restrict z = y + n;
    for (int64_t i = 0; i < n; i++) x[i] = at[3 * i], y[i] = at[3 * i + 1], z[i] = at[3 * i + 2];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float r2[MOST_POINTS], best[AROUND];
        int64_t *restrict who = which + i * AROUND;
        for (int64_t j = 0; j < n; j++) {
            float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
            r2[j] = dx * dx + dy * dy + dz * dz;
        }
        for (int k = 0; k < AROUND; k++) best[k] = INFINITY;
        for (int64_t j = 0; j < n; j++) {
            if (r2[j] >= best[AROUND - 1]) continue;
            int k = AROUND - 1;
            for (; k && best[k - 1] > r2[j]; k--) best[k] = best[k - 1], who[k] = who[k - 1];
            best[k] = r2[j], who[k] = j;
        }
        for (int k = 0; k < AROUND; k++) distance[i * AROUND + k] = sqrtf(best[k]);
    }
    free(x);
}
