/* test_views.c: long chains of views through the whole compiler, by the public interface: what does not compose is put into
 * memory now and then, so that neither expressions nor compile time grow with the length of the chain. */
#include <criterion/criterion.h>
#include <time.h>

#include "sinter/sinter.h"

enum { ROWS = 24, COLUMNS = 36, VIEWS = 960, SECONDS = 5 };

static sn_context *ctx;
static uint32_t seed;

static void setup(void) {
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    seed = 1;
}

static void teardown(void) { sn_context_destroy(ctx); }

TestSuite(views, .init = setup, .fini = teardown);

static uint32_t pick(uint32_t n) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 16) % n;
}

/* Shapes of 864 elements. Their sizes share factors, so that a permutation of one is seldom a permutation of another. */
static sn_node reshaped(sn_graph *g, sn_node x) {
    static const int64_t shapes[][3] = {{24, 36, 1}, {18, 48, 1}, {27, 32, 1}, {2, 12, 36}, {3, 3, 96}, {864, 1, 1}};
    return sn_reshape(g, x, 3, shapes[pick(sizeof shapes / sizeof *shapes)]);
}

static sn_node permuted(sn_graph *g, sn_node x) {
    static const int64_t perms[][3] = {{1, 0, 2}, {2, 0, 1}, {1, 2, 0}, {0, 2, 1}};
    return sn_permute(g, x, 3, perms[pick(sizeof perms / sizeof *perms)]);
}

/* The k-th step of a chain: views, and where `between` is set operations of other kinds after every few of them. */
static sn_node step(sn_graph *g, sn_node x, uint32_t k, bool between) {
    int64_t axis = pick(3);
    if (between && k % 5 == 4) {
        sn_node zero = sn_number(g, SN_F32, 0), index = sn_iota(g, SN_I64, 0, SN_LIST(864));
        switch (pick(4)) {
        case 0: return sn_maximum(g, x, sn_neg(g, x));
        case 1: return sn_reshape(g, sn_index_select(g, sn_reshape(g, x, SN_LIST(864)), index, 0), SN_LIST(24, 36, 1));
        case 2: return sn_sub(g, zero, x);
        default: return sn_where(g, sn_lt(g, x, zero), x, sn_abs(g, x));
        }
    }
    switch (k % 6) {
    case 0:
    case 4: return permuted(g, x);
    case 2: return sn_flip(g, x, 1, &axis);
    default: return reshaped(g, x);
    }
}

static void check(sn_graph *g, const sn_compile_options *options) {
    float data[ROWS * COLUMNS];
    for (int k = 0; k < ROWS * COLUMNS; k++) data[k] = (float)(k % 101) - 50;
    sn_program *p;
    sn_tensor *x, *y;
    sn_check result;
    sn_program_info info;
    clock_t start = clock();
    cr_assert_eq(sn_compile(&p, g, options), SN_OK, "%s", sn_error(ctx));
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    cr_expect_lt(seconds, SECONDS, "%.2f s", seconds);
    sn_program_get_info(&info, p);
    cr_expect_lt(info.n_kernels, VIEWS / 4, "%u kernels", info.n_kernels);
    cr_assert_eq(sn_tensor_for_input(&x, p, 0), SN_OK);
    cr_assert_eq(sn_tensor_for_output(&y, p, 0), SN_OK);
    cr_assert_eq(sn_tensor_write(x, data, sizeof data), SN_OK);
    cr_expect_eq(sn_program_check(&result, p, &x, &y, false), SN_OK, "%s", sn_error(ctx));
    cr_expect_eq(result.max_abs, 0);
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
}

static void check_chain(bool between, const sn_compile_options *options) {
    sn_graph *g;
    cr_assert_eq(sn_graph_create(&g, ctx, "chain"), SN_OK);
    sn_node x = sn_reshape(g, sn_input(g, "x", SN_F32, SN_LIST(ROWS, COLUMNS)), SN_LIST(ROWS, COLUMNS, 1));
    for (uint32_t k = 0; k < VIEWS; k++) x = step(g, x, k, between);
    sn_output(g, "y", x);
    check(g, options);
    sn_graph_destroy(g);
}

Test(views, chains_of_views_compile_in_linear_time) {
    sn_compile_options gpu = {.struct_size = sizeof gpu, .device = "cpu", .cpu_schedule = "gpu"};
    sn_compile_options cpu = {.struct_size = sizeof cpu, .device = "cpu"};
    check_chain(false, &cpu);
    check_chain(false, &gpu);
}

Test(views, chains_with_other_operations_between_the_views) {
    sn_compile_options cpu = {.struct_size = sizeof cpu, .device = "cpu"};
    for (seed = 1; seed < 4; seed++) check_chain(true, &cpu);
}

/* A tree in which every value is read through two views compiles too: what both sides read is shared. */
Test(views, views_of_shared_values) {
    sn_compile_options cpu = {.struct_size = sizeof cpu, .device = "cpu"};
    sn_graph *g;
    cr_assert_eq(sn_graph_create(&g, ctx, "shared"), SN_OK);
    sn_node x = sn_reshape(g, sn_input(g, "x", SN_F32, SN_LIST(ROWS, COLUMNS)), SN_LIST(ROWS, COLUMNS, 1));
    for (int k = 0; k < VIEWS / 10; k++) {
        int64_t shape[] = {ROWS, COLUMNS, 1};
        sn_node left = sn_reshape(g, permuted(g, reshaped(g, x)), 3, shape);
        sn_node right = sn_reshape(g, permuted(g, reshaped(g, x)), 3, shape);
        x = sn_maximum(g, left, right);
    }
    sn_output(g, "y", x);
    check(g, &cpu);
    sn_graph_destroy(g);
}
