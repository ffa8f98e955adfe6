/* test_sums.c: long sums are as exact as short ones: of equal, growing and alternating values, on kernels made for the
 * CPU and on those made for a GPU. What is expected is computed here in long double. The bound is relative to the sum
 * of the terms' magnitudes: that is what every order of summation keeps, and one in which an accumulator takes in all
 * terms in turn misses by far.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sinter/sinter.h"

enum { COLUMNS = 8, MANY = 40000000 };
typedef enum values { EQUAL, GROWING, ALTERNATING, GROWING_ALTERNATING, N_VALUES } values;
static const char *const values_names[N_VALUES] = {"equal", "growing", "alternating", "growing and alternating"};

static double value(values kind, int64_t i) {
    switch (kind) {
    case EQUAL: return 0.1f;
    case GROWING: return (float)((double)(i + 1) * 1e-3);
    case ALTERNATING: return i % 2 ? -0.1f : 0.1f;
    case GROWING_ALTERNATING: return (float)((double)(i % 2 ? -i : i) * 1e-3);
    case N_VALUES: break;
    }
    return 0;
}

/* What is summed: rows of n elements, or COLUMNS columns of n that all hold the same. */
typedef struct kind {
    const char *expression;
    bool columns, prefix, squares, mean;
} kind;

typedef struct sums {
    const kind *k;
    const char *dtype, *schedule;
    values values;
    int64_t n;
} sums;

static int64_t width(const sums *s) { return s->k->columns ? COLUMNS : 1; }

static bool is_double(const sums *s) { return !strcmp(s->dtype, "f64"); }

static double element(const sums *s, const void *data, int64_t i) {
    return is_double(s) ? ((const double *)data)[i] : ((const float *)data)[i];
}

static void fill(const sums *s, void *data) {
    for (int64_t i = 0; i < s->n * width(s); i++) {
        double x = value(s->values, i / width(s));
        if (is_double(s)) ((double *)data)[i] = x;
        else ((float *)data)[i] = (float)x;
    }
}

/* The largest error of an element, over the magnitudes of the terms that went into it. */
static double largest_error(const sums *s, const void *got) {
    long double sum = 0, size = 0, count = s->k->mean ? s->n : 1;
    double largest = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double x = value(s->values, i);
        long double term = s->k->squares ? (long double)x * x : x;
        sum += term;
        size += fabsl(term);
        if (!s->k->prefix && i < s->n - 1) continue;
        for (int64_t c = 0; c < width(s); c++) {
            double error = (double)fabsl(element(s, got, s->k->prefix ? i * width(s) + c : c) * count - sum);
            largest = fmax(largest, error / (double)size);
        }
    }
    return largest;
}

static sn_program *compile(sn_context *ctx, const sums *s) {
    char text[256], shape[64];
    sn_graph *g;
    sn_program *p = NULL;
    snprintf(shape, sizeof shape, s->k->columns ? "%lld, %d" : "%lld", (long long)s->n, COLUMNS);
    snprintf(text, sizeof text, "graph @sums(%%x: %s[%s]) {\n  %s\n  return y = %%y\n}\n", s->dtype, shape,
             s->k->expression);
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .cpu_schedule = s->schedule};
    cr_assert_eq(sn_graph_from_text(&g, ctx, "sums", text, strlen(text)), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    sn_graph_destroy(g);
    return p;
}

/* All values on one program. */
static void check_values(sn_context *ctx, sums s) {
    double bound = is_double(&s) ? 1e-14 : 2e-6;
    sn_program *p = compile(ctx, &s);
    sn_tensor *x, *y;
    cr_assert_eq(sn_tensor_for_input(&x, p, 0), SN_OK);
    cr_assert_eq(sn_tensor_for_output(&y, p, 0), SN_OK);
    size_t each = is_double(&s) ? 8 : 4, bytes = (size_t)(s.n * width(&s)) * each;
    size_t result = s.k->prefix ? bytes : (size_t)width(&s) * each;
    void *data = malloc(bytes), *got = malloc(result);
    for (s.values = 0; s.values < N_VALUES; s.values++) {
        fill(&s, data);
        cr_assert_eq(sn_tensor_write(x, data, bytes), SN_OK);
        cr_assert_eq(sn_run(p, &x, &y, NULL), SN_OK);
        cr_assert_eq(sn_tensor_read(got, y, result), SN_OK);
        double error = largest_error(&s, got);
        cr_expect(error <= bound, "%s[%lld], %s values, %s, schedule %s: error %.3g", s.dtype, (long long)s.n,
                  values_names[s.values], s.k->expression, s.schedule, error);
    }
    free(data);
    free(got);
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
}

static const kind kinds[] = {
    {"%y = sum %x axes=[0]", false, false, false, false}, {"%y = mean %x axes=[0]", false, false, false, true},
    {"%y = cumsum %x axis=0", false, true, false, false}, {"%y = matmul %x, %x", false, false, true, false},
    {"%y = sum %x axes=[0]", true, false, false, false},  {"%y = cumsum %x axis=0", true, true, false, false},
};

static void check_lengths(const int64_t *lengths, size_t n_lengths, const char *dtype) {
    static const char *const schedules[] = {"host", "gpu"};
    sn_context *ctx;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < n_lengths; i++)
            for (size_t sch = 0; sch < 2; sch++)
                check_values(ctx, (sums){.k = &kinds[k],
                                         .dtype = dtype,
                                         .schedule = schedules[sch],
                                         .n = lengths[i] / (kinds[k].columns ? COLUMNS : 1)});
    sn_context_destroy(ctx);
}

Test(sums, of_many_f32) { check_lengths((int64_t[]){4097, 1000003}, 2, "f32"); }
Test(sums, of_many_f64) { check_lengths((int64_t[]){4097, 1000003}, 2, "f64"); }

Test(sums, of_forty_million) {
    static const char *const schedules[] = {"host", "gpu"};
    sn_context *ctx;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    for (size_t sch = 0; sch < 2; sch++)
        for (size_t k = 0; k < 3; k += 2) /* sum, cumsum */
            check_values(ctx, (sums){&kinds[k], "f32", schedules[sch], EQUAL, MANY});
    sn_context_destroy(ctx);
}
