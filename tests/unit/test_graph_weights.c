/* test_graph_weights.c: weights from the public interface to the loaded program: every element type against the evaluator, who
 * is told what is missing, how long elements are held, and the C file that leaves them to its caller.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen-llvm/codegen.h"
#include "frontend/frontend.h"

static sn_context *ctx;
static sn_graph *g;

static void setup(void) {
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    cr_assert_eq(sn_graph_create(&g, ctx, "g"), SN_OK);
}

static void teardown(void) {
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

TestSuite(graph_weights, .init = setup, .fini = teardown);

static sn_status compile(sn_program **out, bool gpu_schedule) {
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .cpu_schedule = gpu_schedule ? "gpu" : NULL};
    return sn_compile(out, g, &o);
}

#define EXPECT_ERROR(call, status, text)                                                   \
    do {                                                                                   \
        cr_expect_eq((call), (status), "%s", #call);                                       \
        cr_expect(strstr(sn_error(ctx), (text)), "%s: \"%s\"", #call, sn_error(ctx));      \
    } while (0)

static void run_one(void *out, size_t bytes, sn_program *p) {
    sn_tensor *y;
    cr_assert_eq(sn_tensor_for_output(&y, p, 0), SN_OK);
    cr_assert_eq(sn_run(p, NULL, &y, NULL), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_tensor_read(out, y, bytes), SN_OK);
    sn_tensor_destroy(y);
}

/* Elements reach the kernels as they are, whatever their type and wherever they lie. */
Test(graph_weights, of_every_type_reach_the_kernels) {
    enum { N = 37 };
    static _Alignas(256) char raw[SN_N_DTYPES][N * 8 + 1], got[N * 8];
    for (int t = 0; t < SN_N_DTYPES; t++) {
        bool aligned = t % 2; /* else read from a copy */
        char *at = &raw[t][!aligned];
        sn_random_fill(at, (sn_dtype)t, N, 7);
        sn_graph_destroy(g);
        cr_assert_eq(sn_graph_create(&g, ctx, "g"), SN_OK);
        sn_node w = sn_weight(g, "layer.0/w \"x\"", (sn_dtype)t, at, SN_LIST(N));
        sn_output(g, "y", sn_flip(g, sn_flip(g, w, SN_LIST(0)), SN_LIST(0)));
        for (int gpu = 0; gpu < 2; gpu++) {
            sn_program *p;
            cr_assert_eq(compile(&p, gpu), SN_OK, "%s", sn_error(ctx));
            run_one(got, N * sn_dtype_size((sn_dtype)t), p);
            cr_expect_eq(memcmp(got, at, N * sn_dtype_size((sn_dtype)t)), 0, "%s", sn_dtype_name((sn_dtype)t));
            sn_program_destroy(p);
        }
    }
}

static const float W[6] = {1, -2, 3, 4, 0.5f, -6}, B[3] = {10, 20, 30};

/* y[2, 3] = x w + b, with the elements of b still to come */
static void build_linear(void) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(5, 2));
    sn_node w = sn_weight(g, "fc.weight", SN_F32, W, SN_LIST(2, 3));
    sn_node b = sn_weight(g, "fc.bias", SN_F32, NULL, SN_LIST(3));
    sn_output(g, "y", sn_add(g, sn_matmul(g, x, w), b));
}

Test(graph_weights, program_agrees_with_the_evaluator) {
    build_linear();
    cr_assert_eq(sn_graph_attach_weight(g, "fc.bias", B, sizeof B), SN_OK, "%s", sn_error(ctx));
    for (int gpu = 0; gpu < 2; gpu++) {
        sn_program *p;
        sn_tensor *x, *y;
        sn_check check;
        cr_assert_eq(compile(&p, gpu), SN_OK, "%s", sn_error(ctx));
        cr_assert_eq(sn_tensor_for_input(&x, p, 0), SN_OK);
        cr_assert_eq(sn_tensor_for_output(&y, p, 0), SN_OK);
        cr_assert_eq(sn_random_tensor(x, NULL, 0, &(sn_random_how){.seed = 1}), SN_OK);
        cr_assert_eq(sn_program_check(&check, p, &x, &y, gpu), SN_OK, "%s", sn_error(ctx));
        cr_expect(check.ok);
        sn_program_info info;
        sn_program_get_info(&info, p);
        cr_expect_eq(info.moved, 4 * (10 + 6 + 3 + 15));
        sn_tensor_destroy(x);
        sn_tensor_destroy(y);
        sn_program_destroy(p);
    }
}

Test(graph_weights, what_is_missing_or_does_not_fit_is_named) {
    sn_program *p;
    build_linear();
    EXPECT_ERROR(compile(&p, false), SN_ERROR_ARGUMENT,
                 "graph g: no elements for weight fc.bias (sn_graph_load_weights)");
    EXPECT_ERROR(sn_graph_attach_weight(g, "fc.bias", B, 8), SN_ERROR_ARGUMENT,
                 "weight fc.bias: 8 bytes given, f32[3] has 12");
    EXPECT_ERROR(sn_graph_attach_weight(g, "fc.bias", NULL, 12), SN_ERROR_ARGUMENT,
                 "sn_graph_attach_weight: data is NULL");
    EXPECT_ERROR(sn_graph_attach_weight(g, "fc", B, 12), SN_ERROR_ARGUMENT, "graph g has no weight fc");
    cr_expect_eq(sn_weight(g, "fc.bias", SN_F32, NULL, SN_LIST(4)).id, 0);
    EXPECT_ERROR(sn_graph_status(g), SN_ERROR_TYPE, "weight fc.bias is f32[3] and cannot be f32[4] too");
}

Test(graph_weights, wrong_types_are_refused) {
    cr_expect_eq(sn_weight(g, NULL, SN_F32, NULL, SN_LIST(4)).id, 0);
    EXPECT_ERROR(sn_graph_status(g), SN_ERROR_ARGUMENT, "weight: name is NULL");
    sn_graph_destroy(g);
    cr_assert_eq(sn_graph_create(&g, ctx, "g"), SN_OK);
    cr_expect_eq(sn_weight(g, "w", SN_F32, NULL, SN_LIST(sn_dim(g, "N"))).id, 0);
    EXPECT_ERROR(sn_graph_status(g), SN_ERROR_TYPE, "weight w: shape [N] must be constant");
}

/* Only the elements of weights that an output needs have to be there; one without elements has all it needs. */
Test(graph_weights, only_those_in_use_are_needed) {
    sn_program *p;
    sn_weight(g, "unused", SN_F32, NULL, SN_LIST(3));
    sn_output(g, "y", sn_sum(g, sn_weight(g, "empty", SN_F32, NULL, SN_LIST(0, 4)), SN_LIST(0), false));
    cr_assert_eq(compile(&p, false), SN_OK, "%s", sn_error(ctx));
    float y[4];
    run_one(y, sizeof y, p);
    cr_expect_eq(y[3], 0);
    sn_program_destroy(p);
}

/* ---- how long ---- */

static void close_once(void *object) { ++*(int *)object; }

Test(graph_weights, are_held_until_the_last_user_is_gone) {
    int closed = 0;
    sn_program *a, *b;
    sn_output(g, "y", sn_weight(g, "b", SN_F32, B, SN_LIST(3)));
    sn_holder *h = sn_graph_holder(g);
    h->object = &closed;
    h->close = close_once;
    sn_graph_holder(g); /* one that was never filled */
    cr_assert_eq(compile(&a, false), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(compile(&b, true), SN_OK, "%s", sn_error(ctx));
    sn_graph_destroy(g);
    sn_program_destroy(b);
    cr_expect_eq(closed, 0);
    sn_program_destroy(a);
    cr_expect_eq(closed, 1);
    g = NULL;
}

/* ---- files ---- */

/* The file stays open for a program that outlives its graph, and is closed with it. */
Test(graph_weights, files_are_held_as_long_as_programs) {
    static const float w[] = {1, -2, 3, 4, 0.5f, -6};
    char path[] = "/tmp/sinter-weights-XXXXXX";
    sn_program *p;
    float got[6];
    close(mkstemp(path));
    sn_weight_info tensors[] = {
        {.name = "w", .dtype = SN_F32, .rank = 2, .shape = {2, 3}, .data = w, .size = sizeof w}};
    cr_assert_eq(sn_weights_save(ctx, path, 1, tensors), SN_OK, "%s", sn_error(ctx));
    sn_output(g, "y", sn_weight(g, "w", SN_F32, NULL, SN_LIST(2, 3)));
    sn_node mine = sn_weight(g, "mine", SN_F32, B, SN_LIST(3));
    sn_output(g, "z", sn_sum(g, mine, 0, NULL, false));
    cr_assert_eq(sn_graph_load_weights(g, path), SN_OK, "%s", sn_error(ctx)); /* which has no mine */
    remove(path);
    cr_assert_eq(compile(&p, false), SN_OK, "%s", sn_error(ctx));
    sn_graph_destroy(g);
    g = NULL;
    sn_tensor *out[2];
    for (unsigned k = 0; k < 2; k++) cr_assert_eq(sn_tensor_for_output(&out[k], p, k), SN_OK);
    sn_check check[2];
    cr_expect_eq(sn_program_check(check, p, NULL, out, false), SN_OK, "%s", sn_error(ctx)); /* reads the file again */
    cr_assert_eq(sn_tensor_read(got, out[0], sizeof got), SN_OK);
    cr_expect_eq(memcmp(got, w, sizeof w), 0);
    for (unsigned k = 0; k < 2; k++) sn_tensor_destroy(out[k]);
    sn_program_destroy(p);
}

/* All at once, and nothing is attached then. */
Test(graph_weights, files_that_do_not_fit_say_everything) {
    static const float w[6] = {0};
    char path[] = "/tmp/sinter-weights-XXXXXX", message[256];
    sn_program *p;
    close(mkstemp(path));
    sn_weight_info tensors[] = {{.name = "a", .dtype = SN_F32, .rank = 2, .shape = {2, 3}, .data = w, .size = sizeof w},
                                {.name = "b", .dtype = SN_F32, .rank = 1, .shape = {6}, .data = w, .size = sizeof w},
                                {.name = "ok", .dtype = SN_F32, .rank = 1, .shape = {6}, .data = w, .size = sizeof w}};
    cr_assert_eq(sn_weights_save(ctx, path, 3, tensors), SN_OK, "%s", sn_error(ctx));
    sn_output(g, "o", sn_weight(g, "ok", SN_F32, NULL, SN_LIST(6)));
    sn_weight(g, "a", SN_F32, NULL, SN_LIST(3, 2));
    sn_weight(g, "b", SN_I32, NULL, SN_LIST(6));
    for (int k = 0; k < 10; k++) {
        char name[8];
        snprintf(name, sizeof name, "c%d", k);
        sn_weight(g, name, SN_F32, NULL, SN_LIST(1));
    }
    snprintf(message, sizeof message, "%s: a: file has shape [2, 3], the graph wants [3, 2]; ", path);
    EXPECT_ERROR(sn_graph_load_weights(g, path), SN_ERROR_ARGUMENT, message);
    cr_expect(strstr(sn_error(ctx), "; b: file has elements F32, the graph wants i32 (I32); c0: not in the file; "),
              "%s", sn_error(ctx));
    cr_expect(strstr(sn_error(ctx), "c5: not in the file; and 4 more"), "%s", sn_error(ctx));
    EXPECT_ERROR(compile(&p, false), SN_ERROR_ARGUMENT, "no elements for weight ok");
    EXPECT_ERROR(sn_graph_load_weights(g, "/tmp/no/such"), SN_ERROR_FILE, "cannot open /tmp/no/such");
    remove(path);
}

/* ---- text ---- */

static const char text[] = "graph @g(%x: f32[3]) {\n"
                           "  %a.b = weight name=\"a.b\" dtype=f32 shape=[3] : f32[3]\n"
                           "  %0 = add %x, %a.b : f32[3]\n"
                           "  return y = %0\n"
                           "}\n";

/* Text has the names alone; elements are attached after it has been read. */
Test(graph_weights, text_has_the_names_alone) {
    sn_graph *read;
    sn_program *p;
    char *again;
    sn_output(g, "y", sn_add(g, sn_input(g, "x", SN_F32, SN_LIST(3)), sn_weight(g, "a.b", SN_F32, B, SN_LIST(3))));
    cr_assert_eq(sn_graph_text(&again, g), SN_OK);
    cr_expect_str_eq(again, text);
    sn_free(ctx, again);
    cr_assert_eq(sn_graph_from_text(&read, ctx, "t.sn", text, strlen(text)), SN_OK, "%s", sn_error(ctx));
    EXPECT_ERROR(sn_compile(&p, read, NULL), SN_ERROR_ARGUMENT, "no elements for weight a.b");
    cr_assert_eq(sn_graph_attach_weight(read, "a.b", B, sizeof B), SN_OK);
    cr_assert_eq(sn_compile(&p, read, NULL), SN_OK, "%s", sn_error(ctx));
    sn_program_destroy(p);
    sn_graph_destroy(read);
}

/* The paranoid runner goes on with what the text says; elements come along. */
Test(graph_weights, survive_the_paranoid_runner) {
    sn_program *p;
    sn_output(g, "y", sn_weight(g, "b", SN_F32, B, SN_LIST(3)));
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .verify = "paranoid"};
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    float y[3];
    run_one(y, sizeof y, p);
    cr_expect_eq(memcmp(y, B, sizeof B), 0);
    sn_program_destroy(p);
}

/* ---- C ---- */

Test(graph_weights, c_file_takes_them_from_its_caller) {
    char *s;
    sn_program *p;
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(3));
    sn_output(g, "y", sn_add(g, sn_weight(g, "a \"b\"", SN_F32, NULL, SN_LIST(3)), x));
    sn_output(g, "z", sn_weight(g, "c", SN_I64, NULL, SN_LIST(2, 2)));
    sn_compile_options o = {.struct_size = sizeof o, .target = "sm_90"};
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_program_dump(&s, p, "wrapper-c"), SN_OK, "%s", sn_error(ctx));
    static const char *const wanted[] = {
        " *   weights[0]: a \"b\", f32[3]\n *   weights[1]: c, i64[2, 2]\n",
        "int g_create(struct g **out, int device, const void *const *weights);\n",
        "    {\"constant a \\\"b\\\"\", NULL, -1, 0, 12, 0, 256, 0}, /* f32[3] */\n",
        "    {\"constant c\", NULL, -1, 1, 32, 0, 256, 0}, /* i64[2, 2] */\n",
    };
    for (size_t i = 0; i < SN_COUNT(wanted); i++) cr_expect(strstr(s, wanted[i]), "missing: %s\nin:\n%s", wanted[i], s);
    cr_expect(strstr(s, "static const size_t MEMORY = 0;"), "weights stay the caller's");
    sn_free(ctx, s);
    sn_program_destroy(p);
}
