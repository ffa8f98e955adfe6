/* test_functions.c: kernels as functions, through the public interface: what is equal is compiled once, whatever it is
 * called and whichever rows it reads; several at a time give what one after the other gives.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "include/sinter/sinter.h"

enum { WIDTH = 64, ROWS = 16 };

static sn_node named(sn_graph *g, const char *what, int layer, int64_t n, int64_t m) {
    char name[16];
    snprintf(name, sizeof name, "%s%d", what, layer);
    return m ? sn_input(g, name, SN_F32, SN_LIST(n, m)) : sn_input(g, name, SN_F32, SN_LIST(n));
}

/* n layers of a network: normalised rows, two products; residual: what came in is added again. */
static sn_graph *layers(sn_context *ctx, int n, bool residual) {
    sn_graph *g;
    cr_assert_eq(sn_graph_create(&g, ctx, "layers"), SN_OK);
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(ROWS, WIDTH));
    for (int k = 0; k < n; k++) {
        sn_node h = sn_rms_norm(g, x, named(g, "w", k, WIDTH, 0), 1e-5);
        h = sn_gelu(g, sn_matmul(g, h, named(g, "up", k, WIDTH, 4 * WIDTH)));
        h = sn_matmul(g, h, named(g, "down", k, 4 * WIDTH, WIDTH));
        x = residual ? sn_add(g, x, h) : h;
    }
    cr_assert_eq(sn_output(g, "y", x), SN_OK);
    return g;
}

static sn_program_info info_of(sn_context *ctx, sn_graph *g, const char *target) {
    sn_compile_options o = {.struct_size = sizeof o, .target = target};
    sn_program *p;
    sn_program_info info;
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    sn_program_get_info(&info, p);
    sn_program_destroy(p);
    return info;
}

/* Sums that are cheap to repeat are read anew four layers deep: with residuals every fourth layer is like the first. */
Test(functions, equal_layers_are_compiled_once) {
    static const char *const targets[] = {"host", "sm_90"};
    sn_context *ctx;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    for (int k = 0; k < 4; k++) {
        bool residual = k >= 2;
        sn_graph *few = layers(ctx, residual ? 12 : 2, residual), *many = layers(ctx, 20, residual);
        sn_program_info a = info_of(ctx, few, targets[k % 2]), b = info_of(ctx, many, targets[k % 2]);
        cr_expect_eq(a.n_kernels, b.n_kernels, "%s: %u kernels for few layers, %u for 20", targets[k % 2], a.n_kernels,
                     b.n_kernels);
        cr_expect_geq(b.n_launches, 20 * 2, "%u launches", b.n_launches);
        sn_graph_destroy(few);
        sn_graph_destroy(many);
    }
    sn_context_destroy(ctx);
}

/* Step k reads row k of x and writes row k of y. */
Test(functions, steps_over_rows_are_compiled_once) {
    enum { STEPS = 64 };
    sn_context *ctx;
    sn_graph *g;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    cr_assert_eq(sn_graph_create(&g, ctx, "steps"), SN_OK);
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(STEPS, ROWS, WIDTH)), w = named(g, "w", 0, WIDTH, WIDTH);
    sn_node h = sn_input(g, "h", SN_F32, SN_LIST(ROWS, WIDTH)), rows[STEPS];
    for (int k = 0; k < STEPS; k++) {
        sn_node row = sn_squeeze(g, sn_slice(g, x, 0, k, k + 1, 1), SN_LIST(0));
        h = sn_tanh(g, sn_add(g, row, sn_matmul(g, h, w)));
        rows[k] = sn_unsqueeze(g, h, SN_LIST(0));
    }
    cr_assert_eq(sn_output(g, "y", sn_concat(g, STEPS, rows, 0)), SN_OK, "%s", sn_error(ctx));
    sn_program_info info = info_of(ctx, g, "sm_90");
    cr_expect_leq(info.n_kernels, 8, "%u kernels", info.n_kernels);
    cr_expect_geq(info.n_launches, STEPS, "%u launches", info.n_launches);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

/* The code of each kernel is made from that kernel alone: one thread or four, the same text. */
Test(functions, threads_change_no_code) {
    sn_program *p[2];
    sn_program_info info;
    sn_context *ctx;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    sn_graph *g = layers(ctx, 4, true);
    for (unsigned k = 0; k < 2; k++) {
        sn_compile_options o = {.struct_size = sizeof o, .target = "sm_90", .threads = k ? 4 : 1};
        cr_assert_eq(sn_compile(&p[k], g, &o), SN_OK, "%s", sn_error(ctx));
    }
    sn_program_get_info(&info, p[0]);
    cr_expect_gt(info.n_kernels, 1);
    for (unsigned k = 0; k < info.n_kernels; k++) {
        sn_kernel_info a, b;
        cr_assert_eq(sn_program_kernel(&a, p[0], k), SN_OK);
        cr_assert_eq(sn_program_kernel(&b, p[1], k), SN_OK);
        cr_expect_str_eq(a.ptx, b.ptx);
    }
    for (unsigned k = 0; k < 2; k++) sn_program_destroy(p[k]);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}
