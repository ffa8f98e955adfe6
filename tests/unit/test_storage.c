/* test_storage.c: where the caller's tensors may lie: alignment, offsets, storage that is shared with what is written. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "include/sinter/sinter.h"

enum { N = 64 };

static sn_context *new_context(void) {
    sn_context *ctx;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    return ctx;
}

/* y = 2 x; the input begins at element `offset` of its storage. NULL: the options are refused. */
static sn_program *twice_of(sn_context *ctx, sn_dtype dtype, int64_t n, int64_t offset, const sn_compile_options *o) {
    sn_graph *g;
    sn_program *p;
    cr_assert_eq(sn_graph_create(&g, ctx, "twice"), SN_OK);
    sn_node x = sn_input_strided(g, "x", dtype, SN_LIST(n), (int64_t[]){1}, offset);
    sn_output(g, "y", sn_add(g, x, x));
    if (sn_compile(&p, g, o)) p = NULL;
    sn_graph_destroy(g);
    return p;
}

static sn_program *twice(sn_context *ctx, sn_dtype dtype, int64_t offset, const sn_compile_options *o) {
    sn_program *p = twice_of(ctx, dtype, N, offset, o);
    cr_assert_not_null(p, "%s", sn_error(ctx));
    return p;
}

static sn_tensor *wrap(sn_context *ctx, void *data, sn_dtype dtype, int64_t offset) {
    sn_tensor *t;
    cr_assert_eq(sn_tensor_wrap(&t, ctx, SN_CPU, data, dtype, SN_LIST(N), NULL, offset), SN_OK, "%s", sn_error(ctx));
    return t;
}

static _Alignas(64) float memory[N + 8], result[N + 8];

static void expect_twice(sn_program *p, sn_context *ctx, float *x_at, int64_t offset, float *y_at) {
    sn_tensor *x = wrap(ctx, x_at, SN_F32, offset), *y = wrap(ctx, y_at, SN_F32, 0);
    for (int k = 0; k < N; k++) x_at[offset + k] = (float)(3 * k - 7);
    memset(result, 0, sizeof result);
    cr_assert_eq(sn_run(p, &x, &y, NULL), SN_OK, "%s", sn_error(ctx));
    for (int k = 0; k < N; k++) cr_assert_eq(y_at[k], (float)(6 * k - 14), "element %d", k);
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
}

static void expect_refused(sn_program *p, sn_context *ctx, float *x_at, int64_t offset, const char *what,
                           const char *advice) {
    sn_tensor *x = wrap(ctx, x_at, SN_F32, offset), *y = wrap(ctx, result, SN_F32, 0);
    cr_expect_eq(sn_run(p, &x, &y, NULL), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_error(ctx), what), "%s", sn_error(ctx));
    cr_expect(strstr(sn_error(ctx), advice), "%s", sn_error(ctx));
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
}

Test(storage, the_cpu_takes_elements_wherever_they_are_aligned) {
    sn_context *ctx = new_context();
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu"};
    sn_program *p = twice(ctx, SN_F32, 0, &o);
    sn_port port;
    sn_program_input(&port, p, 0);
    cr_expect_eq(port.align, 4);
    for (int k = 0; k < 8; k++) expect_twice(p, ctx, memory + k, 0, result + 7 - k);
    for (int k = 0; k < 8; k++) expect_twice(p, ctx, memory, k, result);
    expect_refused(p, ctx, (float *)((char *)memory + 2), 0, "does not start at a multiple of 4 bytes; copy it to",
                   "sn_tensor_for_input");
    sn_program_destroy(p);
    p = twice(ctx, SN_F32, 3, &o); /* an offset of its own, and larger ones */
    for (int k = 3; k < 8; k++) expect_twice(p, ctx, memory, k, result);
    expect_refused(p, ctx, memory, 2, "begins at element 2, the program was compiled for 3", "");
    sn_program_destroy(p);
    sn_context_destroy(ctx);
}

/* What kernels for a GPU take for granted holds when they run on the CPU too. */
Test(storage, kernels_for_a_gpu_want_the_alignment_they_are_compiled_for) {
    sn_context *ctx = new_context();
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .cpu_schedule = "gpu"};
    sn_program *p = twice(ctx, SN_F32, 0, &o);
    expect_twice(p, ctx, memory + 4, 0, result);
    expect_twice(p, ctx, memory, 4, result);
    expect_refused(p, ctx, memory + 1, 0, "input x: its storage at",
                   "multiple of 16 bytes; compile with alignment 4, or");
    expect_refused(p, ctx, memory, 2, "input x: its storage at", "multiple of 16 bytes; compile with alignment 8, or");
    sn_program_destroy(p);
    p = twice(ctx, SN_F32, 1, &o); /* the offset that was compiled counts as aligned */
    expect_twice(p, ctx, memory, 1, result);
    expect_twice(p, ctx, memory, 5, result);
    expect_refused(p, ctx, memory, 2, "multiple of 16 bytes", "compile with alignment 4, or");
    sn_program_destroy(p);
    o.alignment = 8;
    p = twice(ctx, SN_F32, 0, &o);
    for (int k = 0; k < 8; k += 2) expect_twice(p, ctx, memory, k, result + k);
    expect_refused(p, ctx, memory, 1, "multiple of 8 bytes", "compile with alignment 4, or");
    sn_program_destroy(p);
    o.alignment = 1; /* less than an element is an element */
    p = twice(ctx, SN_F32, 0, &o);
    for (int k = 0; k < 8; k++) expect_twice(p, ctx, memory, k, result + 7 - k);
    sn_program_destroy(p);
    sn_context_destroy(ctx);
}

/* Does the PTX access memory in vectors of more than `bytes`? */
static bool has_wider(const char *ptx, size_t bytes) {
    static const struct {
        const char *text;
        size_t bytes;
    } vectors[] = {{".v2.b16", 4}, {".v4.b16", 8}, {".v2.b32", 8}, {".v4.b32", 16}, {".v2.b64", 16}, {"global.b32", 4}};
    for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++)
        if (vectors[k].bytes > bytes && strstr(ptx, vectors[k].text)) return true;
    return false;
}

Test(storage, accesses_of_a_gpu_are_as_wide_as_the_alignment_allows) {
    static const struct {
        unsigned alignment;
        sn_dtype dtype;
        size_t widest;
    } rows[] = {{0, SN_F32, 16}, {16, SN_F32, 16}, {8, SN_F32, 8}, {4, SN_F32, 4},
                {2, SN_F32, 4},  {0, SN_F16, 16},  {2, SN_F16, 2}, {4, SN_F16, 4}};
    sn_context *ctx = new_context();
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        sn_compile_options o = {.struct_size = sizeof o, .target = "sm_90", .alignment = rows[k].alignment};
        sn_program *p = twice_of(ctx, rows[k].dtype, 1 << 22, 0, &o);
        char *ptx;
        cr_assert_not_null(p, "%s", sn_error(ctx));
        cr_assert_eq(sn_program_dump(&ptx, p, "ptx"), SN_OK, "%s", sn_error(ctx));
        cr_expect_not(has_wider(ptx, rows[k].widest), "row %zu: %s", k, ptx);
        if (rows[k].widest > sn_dtype_size(rows[k].dtype))
            cr_expect(has_wider(ptx, rows[k].widest / 2), "row %zu: %s", k, ptx);
        sn_free(ctx, ptx);
        sn_program_destroy(p);
    }
    sn_compile_options o = {.struct_size = sizeof o, .alignment = 12};
    cr_expect_null(twice_of(ctx, SN_F32, N, 0, &o));
    cr_expect_str_eq(sn_error(ctx), "alignment: 12 is none of 1, 2, 4, 8, 16");
    o.alignment = 32;
    cr_expect_null(twice_of(ctx, SN_F32, N, 0, &o));
    cr_expect_str_eq(sn_error(ctx), "alignment: 32 is none of 1, 2, 4, 8, 16");
    sn_context_destroy(ctx);
}

/* An input that is written is storage of an output: nothing else may lie there. */
Test(storage, of_a_written_input_is_its_own) {
    sn_context *ctx = new_context();
    sn_graph *g;
    sn_program *p;
    cr_assert_eq(sn_graph_create(&g, ctx, "g"), SN_OK);
    sn_node a = sn_input(g, "a", SN_F32, SN_LIST(N)), b = sn_input(g, "b", SN_F32, SN_LIST(N));
    sn_output_writes(g, "sum", sn_add(g, a, b), a);
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu"};
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    sn_tensor *x = wrap(ctx, memory, SN_F32, 0), *y = wrap(ctx, memory, SN_F32, 4), *z = wrap(ctx, result, SN_F32, 0);
    cr_expect_eq(sn_run(p, (sn_tensor *[]){x, y}, NULL, NULL), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_error(ctx), "input a and input b share storage; what is written needs its own"), "%s",
              sn_error(ctx));
    cr_expect_eq(sn_run(p, (sn_tensor *[]){x, x}, NULL, NULL), SN_ERROR_ARGUMENT);
    cr_expect_eq(sn_run(p, (sn_tensor *[]){x, z}, NULL, NULL), SN_OK, "%s", sn_error(ctx));
    cr_expect_eq(sn_run(p, (sn_tensor *[]){x, z}, &x, NULL), SN_OK, "%s", sn_error(ctx));
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_tensor_destroy(z);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}
