/* test_conform.c: every row of ops.def has a case in the table of the conformance suite; what a check lets pass. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/graph/graph.h"

Test(conform, every_operation_has_a_case) {
    bool op_has[SN_N_OPS] = {false}, class_has[SN_OPS_REPEAT + 1] = {false};
#define SN_TAKES(OP, dtypes)
#define SN_CASES(level, CLASS, inputs, expression) class_has[SN_OPS_##CLASS] = true;
#define SN_CASE(level, OP, inputs, expression) op_has[SN_OP_##OP] = true;
#define SN_CASE_FOR(level, dtypes, OP, inputs, expression) op_has[SN_OP_##OP] = true;
#define SN_REFUSED(OP, inputs, expression, message)
#include "tools/conform.def"
    op_has[SN_OP_WEIGHT] = true; /* text has none: tests/unit/test_graph_weights.c */
    for (unsigned op = 0; op < SN_N_OPS; op++)
        cr_expect(op_has[op] || class_has[sn_ops[op].cls], "%s has no row in tools/conform.def", sn_ops[op].name);
}

/* ---- what a check lets pass ---- */

static sn_env env;
static sn_arena arena;
static sn_module *m;

static void begin(void) {
    sn_env_init(&env);
    sn_arena_init(&arena, &env);
    m = sn_module_new(&env);
}

static void end(void) {
    sn_module_free(m);
    sn_arena_free(&arena);
}

/* The first output of the graph on inputs, and what each of its elements may be off by. */
static sn_array evaluate(double **allowed, const char *text, const sn_array *inputs) {
    sn_array out[4];
    double *errors[4];
    cr_assert_eq(sn_module_parse(m, "test", text, strlen(text)), SN_OK, "%s", env.message);
    cr_assert_eq(sn_graph_eval(out, m, inputs, &arena), SN_OK, "%s", env.message);
    cr_assert_eq(sn_check_errors(errors, m, inputs, &arena), SN_OK, "%s", env.message);
    *allowed = errors[0];
    return out[0];
}

/* Is an output passed that has `value` as element k, and is right elsewhere? */
static bool passes(const sn_array *want, const double *allowed, int64_t k, double value) {
    char *got = sn_alloc(&arena, (size_t)want->numel * 8);
    sn_array_store(got, want);
    sn_store_float(want->dtype, got + (size_t)k * sn_dtype_bytes(want->dtype), value);
    return sn_check_compare(want->dtype, got, want, allowed, sn_check_bound(want->dtype), 0).ok;
}

static sn_array array_of(sn_dtype dtype, double *f, int64_t n) { return (sn_array){dtype, 1, {n}, n, f, NULL}; }

Test(conform, an_element_beside_huge_ones_is_as_exact_as_alone, .init = begin, .fini = end) {
    double x[] = {3e38, 5, 1e30, 2}, *allowed;
    sn_array in = array_of(SN_F32, x, 4);
    sn_array want = evaluate(&allowed, "graph @g(%x: f32[4]) {\n  %y = sqrt %x\n  return y = %y\n}", &in);
    cr_expect(passes(&want, allowed, 1, sqrt(5)));
    cr_expect_not(passes(&want, allowed, 1, 0));
    cr_expect_not(passes(&want, allowed, 1, sqrt(5) + 1e-3));
    cr_expect_not(passes(&want, allowed, 0, 0));
}

Test(conform, rows_do_not_excuse_each_other, .init = begin, .fini = end) {
    double x[] = {3e38, -3e38, 1, 2, 1, 1}, *allowed;
    sn_array in = {SN_F32, 2, {2, 3}, 6, x, NULL};
    sn_array want = evaluate(&allowed, "graph @g(%x: f32[2, 3]) {\n  %y = sum %x axes=[1]\n  return y = %y\n}", &in);
    cr_expect_eq(want.f[1], 4);
    cr_expect_not(passes(&want, allowed, 1, 0), "zero in place of a number");
    cr_expect_not(passes(&want, allowed, 1, 3), "a term is missing");
    cr_expect(passes(&want, allowed, 1, 4.00001));
    cr_expect(passes(&want, allowed, 0, 0), "terms that cancel leave nothing of a small one");
    cr_expect_not(passes(&want, allowed, 0, INFINITY));
    cr_expect_not(passes(&want, allowed, 0, 3e38));
}

Test(conform, terms_whose_squares_overflow_excuse_nothing, .init = begin, .fini = end) {
    double x[] = {1e200, -1e200, 3, 4, 0, 0}, *allowed;
    sn_array in = {SN_F64, 2, {3, 2}, 6, x, NULL};
    sn_array want = evaluate(&allowed, "graph @g(%x: f64[3, 2]) {\n  %y = sum %x axes=[1]\n  return y = %y\n}", &in);
    cr_expect_not(passes(&want, allowed, 1, 0));
    cr_expect_not(passes(&want, allowed, 0, 1e200));
}

Test(conform, a_sum_that_cancels_is_as_exact_as_its_terms, .init = begin, .fini = end) {
    double x[1000], *allowed;
    for (int k = 0; k < 1000; k++) x[k] = k % 2 ? -100 : 100;
    x[0] += 0.5;
    sn_array in = array_of(SN_F32, x, 1000);
    sn_array want = evaluate(&allowed, "graph @g(%x: f32[1000]) {\n  %y = sum %x axes=[0]\n  return y = %y\n}", &in);
    cr_expect_float_eq(want.f[0], 0.5, 1e-12);
    cr_expect(passes(&want, allowed, 0, 0.501), "one rounding of the largest partial sum");
    cr_expect_not(passes(&want, allowed, 0, 1));
    cr_expect_not(passes(&want, allowed, 0, 100.5), "a term is missing");
}

Test(conform, what_all_elements_have_in_common_adds_up, .init = begin, .fini = end) {
    static const char text[] = "graph @g(%x: f32[10000]) {\n  %m = mean %x axes=[0]\n  %d = sub %x, %m\n"
                               "  %y = sum %d axes=[0]\n  return y = %y\n}";
    double x[10000], *allowed;
    for (int k = 0; k < 10000; k++) x[k] = 1;
    sn_array in = array_of(SN_F32, x, 10000), want = evaluate(&allowed, text, &in);
    cr_expect(passes(&want, allowed, 0, 10000 * 0x1p-24), "a mean that is rounded");
    cr_expect_not(passes(&want, allowed, 0, 1), "a term is missing");
}

Test(conform, an_infinite_reference_excuses_nothing, .init = begin, .fini = end) {
    double x[] = {0, 1}, *allowed;
    sn_array in = array_of(SN_F32, x, 2);
    sn_array want = evaluate(&allowed, "graph @g(%x: f32[2]) {\n  %y = log %x\n  return y = %y\n}", &in);
    cr_expect(passes(&want, allowed, 0, -INFINITY));
    cr_expect_not(passes(&want, allowed, 0, INFINITY));
    cr_expect_not(passes(&want, allowed, 0, -87));
    cr_expect_not(passes(&want, allowed, 0, NAN));
}

/* log(8) / log(2) is 3, or a little less: then it is another row. */
static const char steps[] =
    "graph @g(%x: f32[3], %t: f32[5]) {\n  %a = log %x\n  %b = constant dtype=f32 shape=[] values=[0.6931471824645996]\n"
    "  %d = div %a, %b\n  %i = cast %d dtype=i64\n  %y = index_select %t, %i axis=0\n"
    "  %k = cast %i dtype=i32\n  return y = %y, k = %k\n}";

Test(conform, an_index_beside_a_step_may_be_the_next_one, .init = begin, .fini = end) {
    double x[] = {8, 6, 4.5}, t[] = {100, 200, 300, 400, 500}, *allowed;
    sn_array in[] = {array_of(SN_F32, x, 3), array_of(SN_F32, t, 5)};
    sn_array want = evaluate(&allowed, steps, in);
    double near = want.f[0] == 300 ? 400 : 300;
    cr_expect(passes(&want, allowed, 0, near));
    cr_expect_not(passes(&want, allowed, 0, 500), "no neighbour");
    cr_expect_not(passes(&want, allowed, 1, 400), "6 is no power");
    cr_expect_not(passes(&want, allowed, 2, 200));
}

Test(conform, integers_beside_a_step_are_off_by_one, .init = begin, .fini = end) {
    int64_t i[] = {3, 2};
    sn_array want = {.dtype = SN_I32, .rank = 1, .shape = {2}, .numel = 2, .i = i};
    cr_expect(sn_check_compare(SN_I32, (int32_t[]){2, 2}, &want, (double[]){1, 0}, 0, 0).ok);
    cr_expect_not(sn_check_compare(SN_I32, (int32_t[]){1, 2}, &want, (double[]){1, 0}, 0, 0).ok);
    cr_expect_not(sn_check_compare(SN_I32, (int32_t[]){3, 3}, &want, (double[]){1, 0}, 0, 0).ok);
    cr_expect_not(sn_check_compare(SN_I32, (int32_t[]){3, 3}, &want, NULL, 0, 0).ok);
}

/* tanh(10) is 1 in f32, where atanh has its pole. */
static const char beside_a_pole[] = "graph @g(%x: f32[3]) {\n  %a = tanh %x\n  %b = atanh %a\n"
                                    "  %y = sqrt %b\n  return y = %y\n}";

Test(conform, elements_beside_a_pole_are_counted, .init = begin, .fini = end) {
    double x[] = {10, 0, 1}, *allowed;
    float got[] = {NAN, 0, 1};
    sn_array in = array_of(SN_F32, x, 3), want = evaluate(&allowed, beside_a_pole, &in);
    sn_check c = sn_check_compare(SN_F32, got, &want, allowed, sn_check_bound(SN_F32), 0);
    cr_expect(c.ok);
    cr_expect_eq(c.unbounded, 1);
    cr_expect_not(passes(&want, allowed, 1, 1), "zero, whose root ends there, has a bound");
    cr_expect_not(passes(&want, allowed, 2, 1.001));
}

Test(conform, an_output_without_any_bound_is_wrong, .init = begin, .fini = end) {
    double x[] = {10, 10, 10}, *allowed;
    float got[] = {1, 2, 3};
    sn_array in = array_of(SN_F32, x, 3), want = evaluate(&allowed, beside_a_pole, &in), none = want;
    sn_check c = sn_check_compare(SN_F32, got, &want, allowed, sn_check_bound(SN_F32), 0);
    cr_expect_not(c.ok);
    cr_expect_eq(c.unbounded, 3);
    none.numel = 0;
    cr_expect(sn_check_compare(SN_F32, got, &none, allowed, sn_check_bound(SN_F32), 0).ok);
}

Test(conform, halves_are_rounded_where_they_are_stored, .init = begin, .fini = end) {
    static const char text[] = "graph @g(%x: f16[2]) {\n  %a = add %x, 1000\n  %b = sub %a, 1000\n"
                               "  %y = mul %b, %b\n  return y = %y\n}";
    double x[] = {0.3, 500}, *allowed;
    sn_array in = array_of(SN_F16, x, 2), want = evaluate(&allowed, text, &in);
    cr_expect(passes(&want, allowed, 0, 0.25), "1000.3 is 1000.5 in f16");
    cr_expect_not(passes(&want, allowed, 0, 4));
    cr_expect(passes(&want, allowed, 1, INFINITY), "250000 is not in f16");
    cr_expect_not(passes(&want, allowed, 1, 60000));
}

Test(conform, errors_too_small_to_be_squared_are_none_of_zero, .init = begin, .fini = end) {
    static const char text[] = "graph @g(%x: f64[2]) {\n  %a = mul %x, 0.1\n  %y = exp %a\n  return y = %y\n}";
    double x[] = {-6001, -1}, *allowed;
    sn_array in = array_of(SN_F64, x, 2), want = evaluate(&allowed, text, &in);
    cr_expect(passes(&want, allowed, 0, want.f[0] * (1 + 5e-11)), "one rounding of its argument");
    cr_expect_not(passes(&want, allowed, 0, 1e-160));
    cr_expect_not(passes(&want, allowed, 1, want.f[1] * (1 + 5e-11)));
}

Test(conform, products_of_halves_are_rounded_in_f32, .init = begin, .fini = end) {
    double x[64], *allowed, all = 1;
    for (int k = 0; k < 64; k++) all *= x[k] = k % 3 ? 1.25 : -0.75;
    sn_array in = array_of(SN_BF16, x, 64);
    sn_array want = evaluate(&allowed, "graph @g(%x: bf16[64]) {\n  %y = prod %x axes=[0]\n  return y = %y\n}", &in);
    cr_expect(passes(&want, allowed, 0, all * (1 + 0x1p-8)));
    cr_expect_not(passes(&want, allowed, 0, all * 1.25));
    cr_expect_not(passes(&want, allowed, 0, -all));
}

/* Factors of fewer bits: the sums may be off by a share of the products in them, also where these cancel. For halves the
 * word means nothing. */
Test(conform, products_in_few_bits_are_off_by_a_share_of_their_terms, .init = begin, .fini = end) {
    static const sn_dtype dtypes[] = {SN_F32, SN_BF16};
    double x[64], y[64], *allowed, terms = 64 * 1.5 * 1.25;
    for (int k = 0; k < 64; k++) x[k] = 1.5, y[k] = k % 2 ? -1.25 : 1.25;
    for (int p = 0; p < SN_N_PRECISIONS; p++)
        for (size_t t = 0; t < SN_COUNT(dtypes); t++) {
            const char *dtype = sn_dtypes[dtypes[t]].name, *word = sn_precision_words[p];
            char text[160];
            snprintf(text, sizeof text,
                     "graph @g(%%x: %s[64], %%y: %s[64]) {\n  %%z = matmul %%x, %%y precision=%s\n  return z = %%z\n}",
                     dtype, dtype, word);
            const sn_array in[] = {array_of(dtypes[t], x, 64), array_of(dtypes[t], y, 64)};
            double share = dtypes[t] == SN_F32 ? sn_precision_error((sn_precision)p) : 0;
            end();
            begin();
            sn_array want = evaluate(&allowed, text, in);
            cr_expect(passes(&want, allowed, 0, share * terms), "%s %s", word, dtype);
            cr_expect_not(passes(&want, allowed, 0, 2 * share * terms + 1e-3), "%s %s", word, dtype);
        }
}

/* The shares that sinter.h states. */
Test(conform, shares_of_precisions) {
    cr_expect_eq(sn_precision_error(SN_PRECISION_EXACT), 0);
    cr_expect_float_eq(sn_precision_error(SN_PRECISION_HIGH), 0x1p-15, 0x1p-24);
    cr_expect_float_eq(sn_precision_error(SN_PRECISION_TF32), 0x1p-10, 0x1p-20);
    cr_expect_float_eq(sn_precision_error(SN_PRECISION_BF16), 0x1p-7, 0x1p-14);
}

Test(conform, an_element_off_by_units_in_the_last_place_is_wrong, .init = begin, .fini = end) {
    double x[] = {2, 3}, *allowed;
    sn_array in = array_of(SN_F32, x, 2);
    sn_array want = evaluate(&allowed, "graph @g(%x: f32[2]) {\n  %y = sqrt %x\n  return y = %y\n}", &in);
    double bound_ulp = sn_check_ulps(m, m->graph.outputs.at[0].node), bound = sn_check_bound(SN_F32);
    float right[] = {1.41421354f, 1.73205078f}, wrong[] = {1.41421354f, 1.73205078f + 4 * 0x1p-23f};
    cr_expect(sn_check_compare(SN_F32, right, &want, allowed, bound, bound_ulp).ok);
    cr_expect_not(sn_check_compare(SN_F32, wrong, &want, allowed, bound, bound_ulp).ok);
}

Test(conform, without_a_bound_bits_are_equal) {
    double one = 1;
    float same = 1, other = 1 + 0x1p-23f;
    sn_array want = {SN_F32, 0, {0}, 1, &one, NULL};
    cr_expect(sn_check_compare(SN_F32, &same, &want, NULL, 0, 0).ok);
    cr_expect_not(sn_check_compare(SN_F32, &other, &want, NULL, 0, 0).ok);
}
