/* test_parts.c: sums of float32 products by the products of bfloat16 parts that tensor cores compute: how exact they are, and
 * what becomes of numbers at the ends of the range. A model in plain C, without a device:
 *
 *     x * 2^23 = h + m + l       h, m, l: bf16, each the rounding of what is left
 *     x * y * 2^46 = l'h + h'l + m'm + m'h + h'm + h'h          what is left out, m'l + l'm + l'l, is below 2^-24 of it
 *
 * The scale makes every part of every float32 a normal bf16, or 0. A sum that is not small then, because of an infinity, a
 * nan or too large a number, is computed again in float32.
 *
 * A tensor core adds 16 products to its accumulator: all 17 are cut below 2^-25 of the largest power of two among them, added
 * exactly, and the sum is cut to 24 bits (Khattak and Mikaitis, Accurate models of NVIDIA tensor cores, arXiv 2512.07004: H100).
 * The model has the errors that were measured on an H200 with K = 4096: without promotion 1.1e-5 of the root mean square for
 * numbers from 0 to 1, and 4.4e-6 for normal ones.
 */
#include <criterion/criterion.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/ids.h"

enum { STEP = 16, PARTS = 3, SCALE = 23 };

/* Which parts the products have, the smallest product first; `high` has the last three. */
static const int factors[6][2] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};

static float bf16_of(float x) { return (float)sn_round_to(SN_BF16, x); }

static void split(float out[PARTS], float x) {
    out[0] = bf16_of(x);
    out[1] = bf16_of(x - out[0]);
    out[2] = bf16_of(x - out[0] - out[1]);
}

/* ---- the tensor core ---- */

typedef struct core {
    bool flushes;   /* takes subnormals for 0 */
    bool saturates; /* beyond the largest number it stays there */
} core;

/* digits * 2^exponent, both 0 for 0; digits of n bits. */
typedef struct parted {
    int64_t digits;
    int exponent;
} parted;

static parted parted_of(core tc, float x, int n) {
    int exponent;
    if (x == 0 || (tc.flushes && fabsf(x) < FLT_MIN)) return (parted){0, 0};
    return (parted){(int64_t)ldexpf(frexpf(x, &exponent), n), exponent - n};
}

static int64_t shifted(int64_t digits, int by) {
    int64_t size = llabs(digits), moved = by >= 0 ? size << by : by > -63 ? size >> -by : 0;
    return digits < 0 ? -moved : moved;
}

static float rounded(core tc, int64_t sum, int exponent) {
    int bits = 0, least = -149;
    while (llabs(sum) >> bits) bits++;
    int cut = bits > 24 ? bits - 24 : 0;
    if (exponent + cut < least) cut = least - exponent;
    double x = ldexp((double)shifted(sum, -cut), exponent + cut);
    if (fabs(x) > FLT_MAX) return copysignf(tc.saturates ? FLT_MAX : INFINITY, (float)x);
    return tc.flushes && fabs(x) < FLT_MIN ? 0 : (float)x;
}

/* acc + the sum of a[k] * b[k] */
static float step(core tc, float acc, const float *a, const float *b) {
    parted term[STEP + 1];
    double special = 0;
    int top = INT32_MIN;
    for (int k = 0; k <= STEP; k++) {
        float x = k < STEP ? a[k] : acc, y = k < STEP ? b[k] : 1;
        term[k] = (parted){0, 0};
        if (!isfinite(x) || !isfinite(y)) {
            special += (double)x * y;
            continue;
        }
        parted px = parted_of(tc, x, k < STEP ? 8 : 24), py = parted_of(tc, y, 8);
        if (!px.digits || !py.digits) continue;
        term[k] = (parted){px.digits * py.digits, px.exponent + py.exponent};
        int power = px.exponent + py.exponent + (k < STEP ? 14 : 30); /* of the product of their leading digits */
        if (power > top) top = power;
    }
    if (special != 0) return (float)special; /* nan too */
    int64_t sum = 0;
    for (int k = 0; k <= STEP; k++)
        if (term[k].digits) sum += shifted(term[k].digits, term[k].exponent - (top - 25));
    return sum ? rounded(tc, sum, top - 25) : 0;
}

/* ---- sums over K ---- */

enum { K = 4096, ROWS = 12 };

typedef struct operand {
    float x[ROWS][K], part[PARTS][ROWS][K];
} operand;

/* The last n products of `factors`, in parts of `stage` steps; every `promote` steps the accumulator is added to a sum. */
static float sum_of_parts(const operand *a, const operand *b, int i, int j, int n, int stage, int promote) {
    float sum = 0, acc = 0;
    for (int k = 0; k < K; k += stage) {
        for (int f = 6 - n; f < 6; f++)
            for (int s = k; s < k + stage; s += STEP)
                acc = step((core){0}, acc, &a->part[factors[f][0]][i][s], &b->part[factors[f][1]][j][s]);
        if ((k + stage) % promote) continue;
        sum += acc;
        acc = 0;
    }
    return sum;
}

static float sum_in_order(const float *a, const float *b, int n) {
    float sum = 0;
    for (int k = 0; k < n; k++) sum = fmaf(a[k], b[k], sum);
    return sum;
}

/* ---- numbers ---- */

static uint64_t state;
static uint64_t random_bits(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}
static double uniform(void) { return (double)(random_bits() >> 11) * 0x1p-53; }
static double normal(void) { return sqrt(-2 * log(1 - uniform())) * cos(2 * 3.14159265358979 * uniform()); }
static double wide(void) { return normal() * exp2(24 * uniform() - 12); }

static void fill(operand *out, double draw(void)) {
    float parts[PARTS];
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < K; k++) {
            out->x[i][k] = (float)draw();
            split(parts, ldexpf(out->x[i][k], SCALE));
            for (int p = 0; p < PARTS; p++) out->part[p][i][k] = parts[p];
        }
}

/* ---- how exact ---- */

typedef struct error {
    double largest, mean; /* largest of the largest value, root mean square of that of the values */
} error;

/* n products; 0: in float32, in the order of k. */
static error error_of(const operand *a, const operand *b, int n, int stage, int promote) {
    double largest = 0, value = 0, squares = 0, values = 0;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < ROWS; j++) {
            double want = 0;
            for (int k = 0; k < K; k++) want += (double)a->x[i][k] * b->x[j][k];
            float got =
                n ? ldexpf(sum_of_parts(a, b, i, j, n, stage, promote), -2 * SCALE) : sum_in_order(a->x[i], b->x[j], K);
            largest = fmax(largest, fabs(got - want));
            value = fmax(value, fabs(want));
            squares += (got - want) * (got - want);
            values += want * want;
        }
    return (error){largest / value, sqrt(squares / values)};
}

/* Six products with promotion are better than a sum in float32, three within 1e-5 of the largest value, and promotion is what
 * does it: the accumulator alone is worse than float32. */
Test(parts, sums_of_six_products_are_better_than_those_of_float32) {
    static const struct {
        const char *name;
        double (*draw)(void);
        double high; /* bound of the error of three products */
    } kinds[] = {{"uniform", uniform, 1e-6}, {"normal", normal, 6e-6}, {"wide", wide, 1e-5}};
    operand *a = malloc(sizeof *a), *b = malloc(sizeof *b);
    for (size_t t = 0; t < sizeof kinds / sizeof *kinds; t++) {
        state = 88172645463325252u;
        fill(a, kinds[t].draw);
        fill(b, kinds[t].draw);
        error f32 = error_of(a, b, 0, 0, 0), exact = error_of(a, b, 6, 64, 128),
              short_promotion = error_of(a, b, 6, 64, 64), high = error_of(a, b, 3, 64, 128),
              alone = error_of(a, b, 6, 64, K);
        cr_expect(exact.largest < f32.largest && exact.mean < f32.mean, "%s: %g %g, float32 %g %g", kinds[t].name,
                  exact.largest, exact.mean, f32.largest, f32.mean);
        cr_expect(exact.largest < 1e-6, "%s: %g", kinds[t].name, exact.largest);
        cr_expect(short_promotion.mean < exact.mean / 2, "%s: %g %g", kinds[t].name, short_promotion.mean, exact.mean);
        cr_expect(high.largest < kinds[t].high && high.mean < kinds[t].high, "%s: %g", kinds[t].name, high.largest);
        cr_expect(alone.mean > 3 * f32.mean, "%s: %g %g", kinds[t].name, alone.mean, f32.mean);
    }
    free(a);
    free(b);
}

/* ---- the ends of the range ---- */

static float from_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* 0, denormals, the ends of the range, numbers around the largest bf16, infinities, nan, and both signs of them. */
static float special(void) {
    static const uint32_t bits[] = {0,          1,          0x007fffff, 0x00800000, 0x00800001, 0x3f800000,
                                    0x3f800001, 0x3f7fffff, 0x7f7fffff, 0x7f7f8000, 0x7f7f7fff, 0x7f7f0000,
                                    0x7f800000, 0x7fc00000, 0x7f800001, 0x7f000000, 0x5f800000, 0x1fffffff};
    uint64_t r = random_bits() >> 20;
    return from_bits(bits[r % SN_COUNT(bits)] | (uint32_t)(r >> 20 & 1) << 31);
}
static float any(void) { return from_bits((uint32_t)(random_bits() >> 16)); }
static float small(void) { return from_bits((uint32_t)(random_bits() >> 16) & 0x8fffffff); }
static float plain(void) { return (float)normal(); }
static float spread(void) { return ldexpf(plain(), (int)(random_bits() >> 40) % 260 - 145); }
static float mostly_plain(void) { return uniform() < 0.05 ? special() : plain(); }

/* Where x * 2^23 rounds to a finite bf16 its parts are exact, and none of them is a subnormal. */
Test(parts, all_numbers_have_normal_parts) {
    float (*const draws[])(void) = {special, any, small, spread};
    state = 88172645463325252u;
    int checked = 0;
    for (int n = 0; n < 400000; n++) {
        float x = ldexpf(draws[n % SN_COUNT(draws)](), SCALE), part[PARTS];
        if (!isfinite(x) || !isfinite(bf16_of(x))) continue;
        split(part, x);
        checked++;
        cr_assert_eq((double)part[0] + part[1] + part[2], x);
        for (int p = 0; p < PARTS; p++) cr_assert(part[p] == 0 || fabsf(part[p]) >= FLT_MIN, "%a: %a", x, part[p]);
    }
    cr_expect_gt(checked, 300000);
}

/* As a kernel has it: by parts, and in float32 where the sum is not small. */
static float dot(core tc, const float *a, const float *b, bool *again) {
    float part[2][PARTS][STEP], p[PARTS], acc = 0;
    for (int k = 0; k < STEP; k++)
        for (int side = 0; side < 2; side++) {
            split(p, ldexpf(side ? b[k] : a[k], SCALE));
            for (int i = 0; i < PARTS; i++) part[side][i][k] = p[i];
        }
    for (int f = 0; f < 6; f++) acc = step(tc, acc, part[0][factors[f][0]], part[1][factors[f][1]]);
    *again = !(fabsf(acc) < 0x1p126f);
    return *again ? sum_in_order(a, b, STEP) : ldexpf(acc, -2 * SCALE);
}

/* Whatever the tensor core makes of subnormals and of overflow: infinities and nan are those of float32, and other results are
 * off by no more than float32 would be. */
Test(parts, numbers_at_the_ends_of_the_range_are_those_of_float32) {
    float (*const draws[])(void) = {special, any, small, plain, spread, mostly_plain};
    int by_parts = 0, twice = 0;
    state = 88172645463325252u;
    for (int n = 0; n < 60000; n++) {
        core tc = {.flushes = n & 1, .saturates = n & 2};
        float (*draw)(void) = draws[n / 4 % SN_COUNT(draws)], a[STEP] = {0}, b[STEP] = {0};
        for (int k = 0; k <= n / 24 % STEP; k++) a[k] = draw(), b[k] = draw();
        bool again;
        float got = dot(tc, a, b, &again), f32 = sum_in_order(a, b, STEP);
        *(again ? &twice : &by_parts) += 1;
        if (again) continue;
        double want = 0, terms = 0;
        for (int k = 0; k < STEP; k++) want += (double)a[k] * b[k], terms += fabs((double)a[k] * b[k]);
        cr_assert(isfinite(f32) && fabs(got - want) <= 0x1p-21 * terms + 0x1p-149, "%d: %a, not %a", n, got, want);
    }
    cr_expect(by_parts > 20000 && twice > 10000, "%d %d", by_parts, twice);
}
