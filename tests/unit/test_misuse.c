/* test_misuse.c: what programs get wrong, and what they are told: numbers at the ends of their types. */
#include <criterion/criterion.h>
#include <string.h>

#include "include/sinter/sinter.h"

static sn_context *ctx, *other;
static sn_graph *g;

static void setup(void) {
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    cr_assert_eq(sn_context_create(&other, NULL), SN_OK);
    cr_assert_eq(sn_graph_create(&g, ctx, "g"), SN_OK);
}

static void teardown(void) {
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
    sn_context_destroy(other);
}

TestSuite(misuse, .init = setup, .fini = teardown);

/* A builder function fails; then there is a new graph. */
#define EXPECT_FAILED(call, text)                                                                                      \
    do {                                                                                                               \
        (void)(call);                                                                                                  \
        cr_expect_neq(sn_graph_status(g), SN_OK, "%s", #call);                                                         \
        cr_expect(strstr(sn_error(ctx), (text)), "%s: \"%s\"", #call, sn_error(ctx));                          \
        sn_graph_destroy(g);                                                                                           \
        cr_assert_eq(sn_graph_create(&g, ctx, "g"), SN_OK);                                                            \
    } while (0)

static sn_node input(sn_graph *graph) { return sn_input(graph, "x", SN_F32, SN_LIST(2, 3)); }

static sn_program *compile(void) {
    sn_program *p;
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    sn_node x = input(g), row = sn_input(g, "row", SN_F32, SN_LIST(3));
    sn_output(g, "sum", sn_add(g, x, row));
    sn_output(g, "product", sn_mul(g, x, row));
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    return p;
}

/* ---- numbers ---- */

Test(misuse, numbers_at_the_ends_of_their_types) {
    const int64_t low[] = {INT64_MIN, 0}, none[] = {0, 0};
    EXPECT_FAILED(sn_pad(g, input(g), low, none, 0), "loses 9223372036854775808 elements");
    EXPECT_FAILED(sn_constant(g, SN_F32, low, SN_LIST((int64_t)1 << 61)), "out of memory");
}

/* The flush buffer of SIZE_MAX bytes was 512 bytes less than nothing. */
Test(misuse, times_of_too_much) {
    sn_program *p = compile();
    sn_tensor *in[2], *out[2];
    double us[2];
    for (unsigned k = 0; k < 2; k++) {
        cr_assert_eq(sn_tensor_for_input(&in[k], p, k), SN_OK);
        cr_assert_eq(sn_tensor_for_output(&out[k], p, k), SN_OK);
    }
    cr_expect_eq(sn_program_time(us, 2, p, in, out, SIZE_MAX), SN_ERROR_MEMORY);
    cr_expect_eq(sn_program_time(us, 2, p, in, out, SIZE_MAX - 511), SN_ERROR_MEMORY);
    cr_expect_eq(sn_program_time(us, 2, p, in, out, 100), SN_OK, "%s", sn_error(ctx));
    for (unsigned k = 0; k < 2; k++) sn_tensor_destroy(in[k]), sn_tensor_destroy(out[k]);
    sn_program_destroy(p);
}

/* Elements at an odd address are copied when a program is loaded, and here there are none. */
Test(misuse, a_weight_without_elements_at_an_odd_address) {
    static const char bytes[8] = {0};
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    sn_program *p;
    sn_node w = sn_weight(g, "w", SN_F32, bytes + 1, SN_LIST(0, 3));
    sn_output(g, "y", sn_sum(g, sn_exp(g, w), SN_LIST(0), false));
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    sn_program_destroy(p);
}
