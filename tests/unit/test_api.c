/* test_api.c: the public interface as a C program uses it, on the CPU: building, errors that stay with the graph,
 * sizes by name, tensors, running, checking, stages, memory that runs out.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/sinter/sinter.h"

static sn_context *new_context(void) {
    sn_context *ctx;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    return ctx;
}

static sn_graph *new_graph(sn_context *ctx) {
    sn_graph *g;
    cr_assert_eq(sn_graph_create(&g, ctx, "g"), SN_OK);
    return g;
}

static sn_program *compile_cpu(sn_graph *g, sn_context *ctx) {
    sn_program *p;
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu"};
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    return p;
}

/* y = x * 2 + row, x[2, 3], row[3] */
static sn_graph *affine(sn_context *ctx) {
    sn_graph *g = new_graph(ctx);
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(2, 3)), row = sn_input(g, "row", SN_F32, SN_LIST(3));
    sn_output(g, "y", sn_add(g, sn_mul(g, x, sn_number_like(g, x, 2)), row));
    return g;
}

#define EXPECT_ERROR(ctx, call, status, text)                                              \
    do {                                                                                   \
        cr_expect_eq((call), (status), "%s", #call);                                       \
        cr_expect(strstr(sn_error(ctx), (text)), "%s: \"%s\"", #call, sn_error(ctx));      \
    } while (0)

/* ---- callbacks ---- */

typedef struct caller {
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    unsigned calls;
} caller;

/* Everything that a callback must not do. */
static void call_back(void *user, const char *text) {
    caller *c = user;
    sn_program *p = NULL;
    char *dump = NULL;
    (void)text;
    c->calls++;
    cr_expect_eq(sn_compile(&p, c->g, NULL), SN_ERROR_ARGUMENT);
    cr_expect_null(p);
    cr_expect_eq(sn_graph_text(&dump, c->g), SN_ERROR_ARGUMENT);
    cr_expect_null(dump);
    cr_expect_eq(sn_number(c->g, SN_F32, 1).id, 0);
    if (c->p) cr_expect_eq(sn_run(c->p, NULL, NULL, NULL), SN_ERROR_ARGUMENT);
    cr_expect_eq(sn_graph_text(NULL, c->g), SN_ERROR_ARGUMENT);
    cr_expect_eq(sn_error_status(c->ctx), SN_OK); /* the error is that of the call that runs */
    sn_error_clear(c->ctx);
}

Test(api, a_call_from_a_callback_is_refused) {
    caller c = {0};
    sn_context_options co = {.struct_size = sizeof co, .log = call_back, .log_user = &c};
    cr_assert_eq(sn_context_create(&c.ctx, &co), SN_OK);
    c.g = affine(c.ctx);
    sn_program *p;
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .print_after = "all"};
    for (int k = 0; k < 2; k++) {
        cr_expect_eq(sn_compile(&p, c.g, &o), SN_OK, "%s", sn_error(c.ctx));
        cr_expect_gt(c.calls, 0);
        if (c.p) sn_program_destroy(c.p);
        c.p = p;
    }
    cr_expect_eq(sn_graph_status(c.g), SN_OK);
    sn_program_destroy(c.p);
    sn_graph_destroy(c.g);
    sn_context_destroy(c.ctx);
}

/* ---- context ---- */

Test(api, version_and_names) {
    cr_assert_str_eq(sn_version(), SINTER_VERSION);
    cr_assert_str_eq(sn_dtype_name(SN_BF16), "bf16");
    cr_assert_eq(sn_dtype_size(SN_BOOL), 1);
    cr_assert_str_eq(sn_status_name(SN_ERROR_DEVICE_MEMORY), "device memory");
    cr_assert_str_eq(sn_dtype_name(SN_N_DTYPES), "none");
}

Test(api, context_options_are_checked) {
    sn_context *ctx = (void *)1;
    cr_assert_eq(sn_context_create(&ctx, &(sn_context_options){0}), SN_ERROR_ARGUMENT);
    cr_assert_null(ctx);
    sn_context_destroy(NULL);
}

/* ---- builder ---- */

Test(api, shapes_and_types) {
    sn_context *ctx = new_context();
    sn_graph *g = new_graph(ctx);
    sn_node x = sn_input(g, "x", SN_F16, SN_LIST(4, 1, 8));
    int64_t shape[8];
    sn_node y = sn_reshape(g, x, SN_LIST(-1, 2));
    cr_assert_eq(sn_node_rank(g, y), 2);
    sn_node_shape(shape, g, y);
    cr_assert(shape[0] == 16 && shape[1] == 2);
    y = sn_expand(g, x, SN_LIST(3, -1, 5, -1));
    sn_node_shape(shape, g, y);
    cr_assert(shape[0] == 3 && shape[1] == 4 && shape[2] == 5 && shape[3] == 8);
    y = sn_transpose(g, x, 0, -1);
    sn_node_shape(shape, g, y);
    cr_assert(shape[0] == 8 && shape[2] == 4);
    cr_assert_eq(sn_node_dtype(g, sn_lt(g, x, x)), SN_BOOL);
    cr_assert_eq(sn_node_dtype(g, sn_argmax(g, x, 0, NULL, false)), SN_I64);
    cr_assert_eq(sn_node_rank(g, sn_sum(g, x, 0, NULL, false)), 0);
    cr_assert_eq(sn_node_rank(g, sn_sum(g, x, SN_LIST(-1), true)), 3);
    sn_node var, mean;
    sn_var_mean(&var, &mean, g, x, SN_LIST(0), false, 0);
    cr_assert(var.id && mean.id && var.id != mean.id);
    cr_assert_eq(sn_graph_status(g), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_node_dtype(g, (sn_node){0}), SN_N_DTYPES);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

Test(api, every_builder_function_builds) {
    sn_context *ctx = new_context();
    sn_graph *g = new_graph(ctx);
    sn_node f = sn_input(g, "f", SN_F32, SN_LIST(2, 3, 4, 4)), i = sn_input(g, "i", SN_I32, SN_LIST(2, 3)),
            b = sn_input(g, "b", SN_BOOL, SN_LIST(2, 3)), v = sn_input(g, "v", SN_F32, SN_LIST(3)),
            m = sn_input(g, "m", SN_F32, SN_LIST(2, 3)), t = sn_input(g, "t", SN_I64, SN_LIST(2)),
            w = sn_input(g, "w", SN_F32, SN_LIST(5, 3, 2, 2)), row = sn_input(g, "row", SN_F32, SN_LIST(4));
#define IS_INTEGER(ID) (strstr(" NOT AND OR XOR SHL SHR ", " " #ID " ") != NULL)
#define ONE(fn, ID) cr_expect(fn(g, IS_INTEGER(ID) ? i : m).id, #fn ": %s", sn_error(ctx));
#define TWO(fn, ID) cr_expect(fn(g, IS_INTEGER(ID) ? i : m, IS_INTEGER(ID) ? i : m).id, #fn ": %s", sn_error(ctx));
#define REDUCE(fn, ID) cr_expect(fn(g, m, SN_LIST(1), true).id, #fn ": %s", sn_error(ctx));
#define SCATTER(fn, ID) cr_expect(fn(g, m, t, m).id, #fn ": %s", sn_error(ctx));
#define SCAN(fn, ID) cr_expect(fn(g, m, -1, true, true).id, #fn ": %s", sn_error(ctx));
#define SN_OP(ID, name, cls, n_in, attrs, lop, doc) SN_ELEMENTWISE_##cls(ONE, TWO, sn_##name, ID)
#include "include/sinter/ops.def"
#undef SN_OP
    SN_REDUCE_FUNCTIONS(REDUCE)
    SN_SCAN_FUNCTIONS(SCAN)
    SN_SCATTER_FUNCTIONS(SCATTER)
    SN_ACTIVATION_FUNCTIONS(ONE)
    sn_batch_norm_results bn;
    sn_batch_norm_train(&bn, g, f, v, v, v, v, 0.1, 1e-5);
    sn_conv_options conv = {.struct_size = sizeof conv, .stride = {2, 1}, .padding = {1, 1, 0, 0}, .dilation = {1, 2}};
    int64_t low[] = {1, 0}, high[] = {0, -1};
    sn_node seed = sn_number(g, SN_I64, 7), values, positions;
    sn_sort(&values, NULL, g, m, 1, false);
    sn_topk(NULL, &positions, g, m, 1, 0, false);
    const sn_node all[] = {sn_full(g, SN_F32, 1, SN_LIST(2)),
                           sn_constant(g, SN_I8, (int8_t[]){1, 2}, SN_LIST(2)),
                           sn_iota(g, SN_I32, 0, SN_LIST(9)),
                           sn_where(g, b, m, v),
                           sn_cast(g, i, SN_F64),
                           sn_clamp(g, m, -1, 1),
                           sn_var(g, m, SN_LIST(1), false, 0),
                           sn_permute(g, m, SN_LIST(1, 0)),
                           sn_squeeze(g, sn_unsqueeze(g, m, SN_LIST(0)), SN_LIST(0)),
                           sn_flip(g, m, SN_LIST(1)),
                           sn_slice(g, m, 1, 0, INT64_MAX, 2),
                           sn_unfold(g, m, 1, 2, 2, 1),
                           sn_unfold(g, m, -1, 2, 1, 2),
                           sn_pad(g, m, low, high, 3),
                           sn_concat(g, 2, (sn_node[]){m, m}, 0),
                           sn_gather(g, m, i, 1),
                           sn_index_select(g, m, t, 1),
                           sn_embedding(g, m, i),
                           sn_matmul(g, m, sn_transpose(g, m, 0, 1)),
                           sn_conv(g, f, w, &conv),
                           sn_conv2d(g, f, w, &conv),
                           sn_conv_transpose(g, f, sn_transpose(g, w, 0, 1), (int64_t[]){1, 0}, &conv),
                           sn_conv_data_grad(g, sn_conv(g, f, w, &conv), w, (int64_t[]){4, 4}, &conv),
                           sn_conv_weight_grad(g, f, sn_conv(g, f, w, &conv), (int64_t[]){2, 2}, &conv),
                           sn_conv2d(g, f, w, NULL),
                           sn_softmax(g, m, 1),
                           sn_log_softmax(g, m, -1),
                           sn_layer_norm(g, f, row, row, 1e-5),
                           sn_rms_norm(g, f, row, 1e-5),
                           sn_batch_norm(g, f, v, v, v, v, 1e-5),
                           bn.y,
                           bn.running_mean,
                           bn.running_var,
                           bn.mean,
                           bn.invstd,
                           sn_cross_entropy(g, m, t),
                           values,
                           positions,
                           sn_argsort(g, m, 0, true),
                           sn_random(g, SN_I32, seed, seed, SN_LIST(2, 3)),
                           sn_random_normal(g, SN_F16, seed, seed, SN_LIST(5)),
                           sn_dropout(g, m, 0.5, seed, seed),
                           sn_named(g, m, "name"),
                           sn_input_strided(g, "s", SN_F32, 2, (int64_t[]){2, 3}, (int64_t[]){8, 2}, 4)};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) cr_expect(all[k].id, "number %zu: %s", k, sn_error(ctx));
    cr_assert_eq(sn_graph_status(g), SN_OK);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

typedef struct conv_nodes {
    sn_graph *g;
    sn_node row, line, any, taps;
} conv_nodes;

static conv_nodes conv_inputs(sn_context *ctx) {
    sn_graph *g = new_graph(ctx);
    return (conv_nodes){g, sn_input(g, "row", SN_F32, SN_LIST(4)), sn_input(g, "line", SN_F32, SN_LIST(2, 6, 9)),
                        sn_input(g, "any", SN_F32, 3, (int64_t[]){2, 6, sn_dim(g, "N")}),
                        sn_input(g, "taps", SN_F32, SN_LIST(6, 3, 3))};
}

/* What fails makes its graph unusable. */
#define EXPECT_NO_CONV(call, text)                                              \
    do {                                                                        \
        conv_nodes in = conv_inputs(ctx);                                       \
        sn_graph *g = in.g;                                                     \
        cr_expect_eq((call).id, 0, "%s", #call);                                \
        cr_expect(strstr(sn_error(ctx), (text)), "%s: %s", #call, sn_error(ctx)); \
        sn_graph_destroy(g);                                                    \
    } while (0)

Test(api, convolutions_say_what_does_not_fit) {
    sn_context *ctx = new_context();
    sn_conv_options two = {.struct_size = sizeof two, .groups = 2}, four = {.struct_size = sizeof four, .groups = 4};
    sn_conv_options wide = {.struct_size = sizeof wide, .padding = {INT64_MIN}};
    int64_t size = 11, none = 0, minus = -1, one = 1, three = 3;
    EXPECT_NO_CONV(sn_conv(g, in.row, in.taps, NULL),
                   "conv: operand 1 has shape f32[4], not a batch axis, channels and 1");
    EXPECT_NO_CONV(sn_conv2d(g, in.line, in.taps, &two), "conv2d: takes an image [N, C, H, W], not f32[2, 6, 9]");
    EXPECT_NO_CONV(sn_conv(g, in.line, in.taps, &wide), "conv: padding -9223372036854775808 is not in -2147483647 ..");
    EXPECT_NO_CONV(sn_conv_data_grad(g, in.line, in.row, &size, NULL),
                   "conv_data_grad: operands f32[2, 6, 9] and f32[4] do not both have a batch axis");
    EXPECT_NO_CONV(sn_conv_data_grad(g, in.line, in.taps, &size, &four),
                   "conv_data_grad: axis 0 of f32[6, 3, 3] does not divide into 4 groups");
    EXPECT_NO_CONV(sn_conv_transpose(g, in.line, in.taps, &none, &wide), "conv_transpose: padding");
    EXPECT_NO_CONV(sn_conv_transpose(g, in.line, in.taps, &minus, NULL),
                   "conv_transpose: output_padding -1 is not in 0 .. 2147483647");
    EXPECT_NO_CONV(sn_conv_transpose(g, in.line, in.taps, &one, NULL),
                   "conv_transpose: output_padding 1 is not below the stride 1 or the dilation 1");
    EXPECT_NO_CONV(sn_conv_data_grad(g, in.line, in.taps, &three, &two),
                   "conv_data_grad: dy has 9 elements along spatial axis 0, the result of the convolution has 1");
    EXPECT_NO_CONV(sn_conv_data_grad(g, in.line, in.taps, &one, &two),
                   "conv_data_grad: dy has 9 elements along spatial axis 0, the result of the convolution has 0");
    EXPECT_NO_CONV(sn_conv_weight_grad(g, in.line, in.line, &three, NULL),
                   "conv_weight_grad: dy has 9 elements along spatial axis 0, the result of the convolution has 7");
    EXPECT_NO_CONV(sn_conv_weight_grad(g, in.line, in.line, &none, NULL),
                   "conv_weight_grad: kernel size 0 is not in 1 .. 2147483647");
    EXPECT_NO_CONV(sn_conv_data_grad(g, in.any, in.taps, &size, NULL),
                   "conv_data_grad: the padding of spatial axis 0 depends on sizes that are not known");
    sn_context_destroy(ctx);
}

/* A graph can be looked at while it is described; what has no outputs yet is not read again. */
Test(api, text_of_a_graph_without_outputs) {
    sn_context *ctx = new_context();
    sn_graph *g = new_graph(ctx), *again;
    sn_node y = sn_relu(g, sn_input(g, "x", SN_F32, SN_LIST(3)));
    char *text;
    cr_assert_eq(sn_graph_text(&text, g), SN_OK, "%s", sn_error(ctx));
    cr_expect(strstr(text, "(%x: f32[3]) {\n  %0 = relu %x : f32[3]\n}\n"), "%s", text);
    EXPECT_ERROR(ctx, sn_graph_from_text(&again, ctx, NULL, text, strlen(text)), SN_ERROR_SYNTAX,
                 "text:3:1: expected 'return', found '}'");
    sn_free(ctx, text);
    sn_output(g, "y", y);
    cr_assert_eq(sn_graph_text(&text, g), SN_OK, "%s", sn_error(ctx));
    cr_expect_eq(sn_graph_from_text(&again, ctx, NULL, text, strlen(text)), SN_OK, "%s", sn_error(ctx));
    sn_free(ctx, text);
    sn_graph_destroy(again);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

/* What is said of a product stands in the graph; what is not said is left to the compile option. */
Test(api, precision_of_products) {
    sn_context *ctx = new_context();
    sn_graph *g = new_graph(ctx);
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(4, 4)), image = sn_input(g, "i", SN_F32, SN_LIST(1, 2, 4, 4));
    sn_matmul_options high = {.struct_size = sizeof high, .precision = "high"}, plain = {.struct_size = sizeof plain};
    sn_conv_options bf16 = {.struct_size = sizeof bf16, .groups = 2, .precision = "bf16"};
    sn_node filter = sn_input(g, "w", SN_F32, SN_LIST(2, 1, 3, 3)), said = sn_matmul_with(g, x, x, &high);
    cr_expect_eq(sn_matmul_with(g, x, x, NULL).id, sn_matmul(g, x, x).id);
    cr_expect_eq(sn_matmul_with(g, x, x, &plain).id, sn_matmul(g, x, x).id);
    sn_output(g, "y", said);
    sn_output(g, "z", sn_matmul(g, said, x));
    sn_output(g, "c", sn_conv2d(g, image, filter, &bf16));
    char *text;
    cr_assert_eq(sn_graph_text(&text, g), SN_OK, "%s", sn_error(ctx));
    cr_expect(strstr(text, "matmul %x, %x precision=high : f32[4, 4]"), "%s", text);
    cr_expect(strstr(text, "matmul %0, %x : f32[4, 4]"), "%s", text);
    cr_expect(strstr(text, "conv %i, %w groups=2 precision=bf16 : f32[1, 2, 2, 2]"), "%s", text);
    sn_free(ctx, text);
    sn_program *p;
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .precision = "single"};
    EXPECT_ERROR(ctx, sn_compile(&p, g, &o), SN_ERROR_ARGUMENT,
                 "precision: 'single' is none of exact, high, tf32, bf16");
    high.precision = "half";
    cr_expect_eq(sn_matmul_with(g, x, x, &high).id, 0);
    cr_expect(strstr(sn_error(ctx), "precision: 'half' is none of exact, high, tf32, bf16"), "%s", sn_error(ctx));
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

Test(api, first_failure_stays_with_the_graph) {
    sn_context *ctx = new_context();
    sn_graph *g = new_graph(ctx);
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(4, 256)), y = sn_input(g, "y", SN_F32, SN_LIST(255));
    sn_node bad = sn_add(g, x, y);
    cr_assert_eq(bad.id, 0);
    cr_assert(strstr(sn_error(ctx), "add"));
    cr_assert_eq(sn_exp(g, bad).id, 0);
    cr_assert_eq(sn_output(g, "z", bad), SN_ERROR_TYPE);
    sn_graph *other = affine(ctx); /* another call clears the context's error, not the graph's */
    cr_assert_eq(sn_graph_status(g), SN_ERROR_TYPE);
    sn_program *p;
    EXPECT_ERROR(ctx, sn_compile(&p, g, NULL), SN_ERROR_TYPE, "add");
    cr_assert_null(p);
    sn_graph_destroy(other);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

/* A failure names the line that sn_at has told, to whoever asks. */
Test(api, a_failure_names_its_line) {
    sn_context *ctx = new_context();
    sn_graph *g;
    sn_program *p;
    cr_assert_eq(sn_graph_create(&g, ctx, "f"), SN_OK);
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(2, 3));
    sn_output(g, "y", sn_softmax(sn_at(g, "src/model.c", 12), x, 2));
    cr_expect_str_eq(sn_graph_error(g), "model.c:12: softmax: axis 2 is not in -2 .. 1 (rank 2)");
    cr_expect_eq(sn_compile(&p, g, NULL), SN_ERROR_TYPE);
    cr_expect_str_eq(sn_error(ctx), sn_graph_error(g));
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

Test(api, builder_errors) {
    static const struct {
        int which;
        const char *text;
    } cases[] = {{0, "operand 1 is not a value of this graph"},
                 {1, "at most 8 axes"},
                 {2, "more than one size is -1"},
                 {3, "no size fits for -1"},
                 {4, "has no name"},
                 {5, "is not an input"},
                 {6, "transpose: axes 0 and 5"},
                 {7, "unknown element type"},
                 {8, "an output has no name"},
                 {9, "expected"},
                 {10, "not a number"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        sn_context *ctx = new_context();
        sn_graph *g = new_graph(ctx);
        sn_node x = sn_input(g, "x", SN_F32, SN_LIST(4, 6));
        switch (cases[k].which) {
        case 0: sn_exp(g, (sn_node){0}); break;
        case 1: sn_reshape(g, x, SN_LIST(1, 1, 1, 1, 1, 1, 1, 4, 6)); break;
        case 2: sn_reshape(g, x, SN_LIST(-1, -1)); break;
        case 3: sn_reshape(g, x, SN_LIST(5, -1)); break;
        case 4: sn_input(g, "", SN_F32, 0, NULL); break;
        case 5: sn_output_writes(g, "y", x, sn_exp(g, x)); break;
        case 6: sn_transpose(g, x, 0, 5); break;
        case 7: sn_input(g, "z", (sn_dtype)99, 0, NULL); break;
        case 8: sn_output(g, "", x); break;
        case 9: sn_dim(g, "2*"); break;
        case 10: sn_constant(g, SN_F32, NULL, 1, (int64_t[]){sn_dim(g, "N")}); break;
        }
        cr_expect_neq(sn_graph_status(g), SN_OK, "case %d", cases[k].which);
        cr_expect(strstr(sn_error(ctx), cases[k].text), "case %d: \"%s\"", cases[k].which, sn_error(ctx));
        sn_graph_destroy(g);
        sn_context_destroy(ctx);
    }
}

/* ---- compiling and running ---- */

Test(api, run_on_the_cpu) {
    sn_context *ctx = new_context();
    sn_graph *g = affine(ctx);
    sn_program *p = compile_cpu(g, ctx);
    sn_graph_destroy(g); /* not needed any more */
    sn_tensor *in[2], *out;
    cr_assert_eq(sn_tensor_for_input(&in[0], p, 0), SN_OK);
    cr_assert_eq(sn_tensor_for_input(&in[1], p, 1), SN_OK);
    cr_assert_eq(sn_tensor_for_output(&out, p, 0), SN_OK);
    float x[] = {1, 2, 3, 4, 5, 6}, row[] = {10, 20, 30}, y[6];
    sn_tensor_write(in[0], x, sizeof x);
    sn_tensor_write(in[1], row, sizeof row);
    cr_assert_eq(sn_run(p, in, &out, NULL), SN_OK, "%s", sn_error(ctx));
    sn_tensor_read(y, out, sizeof y);
    for (int k = 0; k < 6; k++) cr_assert_eq(y[k], 2 * x[k] + row[k % 3]);
    sn_check check;
    cr_assert_eq(sn_program_check(&check, p, in, &out, true), SN_OK, "%s", sn_error(ctx));
    cr_assert(check.ok && check.max_abs == 0);
    double us[3];
    cr_assert_eq(sn_program_time(us, 3, p, in, &out, 0), SN_OK, "%s", sn_error(ctx));
    cr_assert(us[0] > 0);
    for (int k = 0; k < 2; k++) sn_tensor_destroy(in[k]);
    sn_tensor_destroy(out);
    sn_program_destroy(p);
    sn_context_destroy(ctx);
}

Test(api, tensors_must_match) {
    sn_context *ctx = new_context();
    sn_graph *g = affine(ctx);
    sn_program *p = compile_cpu(g, ctx);
    sn_tensor *x, *row, *y, *t;
    sn_tensor_for_input(&x, p, 0);
    sn_tensor_for_input(&row, p, 1);
    sn_tensor_for_output(&y, p, 0);
    EXPECT_ERROR(ctx, sn_run(p, (sn_tensor *[]){x, NULL}, &y, NULL), SN_ERROR_ARGUMENT, "input row: no tensor given");
    sn_tensor_create(&t, ctx, SN_CPU, SN_F64, SN_LIST(3));
    EXPECT_ERROR(ctx, sn_run(p, (sn_tensor *[]){x, t}, &y, NULL), SN_ERROR_ARGUMENT,
                 "input row: the tensor is f64[3], the program wants f32[3]");
    sn_tensor_destroy(t);
    sn_tensor_create_strided(&t, ctx, SN_CPU, SN_F32, 2, (int64_t[]){2, 3}, (int64_t[]){1, 2}, 0);
    EXPECT_ERROR(ctx, sn_run(p, (sn_tensor *[]){t, row}, &y, NULL), SN_ERROR_ARGUMENT,
                 "input x: the tensor has strides [1, 2], the program was compiled for [3, 1]");
    sn_tensor_destroy(t);
    _Alignas(64) char memory[64];
    sn_tensor_wrap(&t, ctx, SN_CPU, memory + 2, SN_F32, SN_LIST(2, 3), NULL, 0);
    EXPECT_ERROR(ctx, sn_run(p, (sn_tensor *[]){x, row}, &t, NULL), SN_ERROR_ARGUMENT, "output y: its storage at");
    sn_tensor_destroy(t);
    EXPECT_ERROR(ctx, sn_tensor_write(x, memory, 8), SN_ERROR_ARGUMENT,
                 "8 bytes of elements given, f32[2, 3] holds 24");
    EXPECT_ERROR(ctx, sn_tensor_for_output(&t, p, 7), SN_ERROR_ARGUMENT, "output 7: the program has 1");
    EXPECT_ERROR(ctx, sn_tensor_create_strided(&t, ctx, SN_CPU, SN_F32, 1, (int64_t[]){3}, (int64_t[]){-1}, 0),
                 SN_ERROR_ARGUMENT, "negative");
    EXPECT_ERROR(ctx, sn_tensor_wrap(&t, ctx, SN_CPU, NULL, SN_F32, 1, (int64_t[]){3}, NULL, 0), SN_ERROR_ARGUMENT,
                 "no memory given");
    EXPECT_ERROR(ctx, sn_tensor_create(&t, ctx, SN_CPU, SN_F32, 2, (int64_t[]){INT64_MAX, 4}), SN_ERROR_ARGUMENT,
                 "too many elements");
    sn_tensor_destroy(x);
    sn_tensor_destroy(row);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

Test(api, storage_of_outputs_overlaps_nothing) {
    sn_context *ctx = new_context();
    sn_graph *g = affine(ctx);
    sn_program *p = compile_cpu(g, ctx);
    sn_tensor *x, *row, *y, *t;
    sn_tensor_for_input(&x, p, 0);
    sn_tensor_for_input(&row, p, 1);
    sn_tensor_for_output(&y, p, 0);
    EXPECT_ERROR(ctx, sn_run(p, (sn_tensor *[]){x, row}, &x, NULL), SN_ERROR_ARGUMENT,
                 "share storage; what is written needs its own");
    EXPECT_ERROR(ctx, sn_run(p, NULL, &y, NULL), SN_ERROR_ARGUMENT, "input x: no tensor given");
    EXPECT_ERROR(ctx, sn_run(p, (sn_tensor *[]){x, row}, NULL, NULL), SN_ERROR_ARGUMENT, "output y: no tensor given");
    _Alignas(64) float memory[16];
    sn_tensor_wrap(&t, ctx, SN_CPU, memory, SN_F32, SN_LIST(2, 3), NULL, 0);
    sn_tensor *inner;
    sn_tensor_wrap(&inner, ctx, SN_CPU, memory + 4, SN_F32, SN_LIST(3), NULL, 0);
    EXPECT_ERROR(ctx, sn_run(p, (sn_tensor *[]){x, inner}, &t, NULL), SN_ERROR_ARGUMENT,
                 "output y and input row share storage");
    cr_assert_eq(sn_run(p, (sn_tensor *[]){t, inner}, &y, NULL), SN_OK, "inputs may: %s", sn_error(ctx));
    sn_context *other = new_context();
    sn_tensor *stranger;
    sn_tensor_create(&stranger, other, SN_CPU, SN_F32, SN_LIST(3));
    EXPECT_ERROR(ctx, sn_run(p, (sn_tensor *[]){x, stranger}, &y, NULL), SN_ERROR_ARGUMENT,
                 "belongs to another context");
    sn_tensor *all[] = {x, row, y, t, inner, stranger};
    for (int k = 0; k < 6; k++) sn_tensor_destroy(all[k]);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(other);
    sn_context_destroy(ctx);
}

Test(api, a_tensor_may_not_begin_before_the_compiled_one) {
    sn_context *ctx = new_context();
    const char text[] = "graph @g(%x: f32[4] offset 8) { %y = neg %x  return y = %y }";
    sn_graph *g;
    cr_assert_eq(sn_graph_from_text(&g, ctx, "text", text, sizeof text - 1), SN_OK, "%s", sn_error(ctx));
    sn_program *p = compile_cpu(g, ctx);
    sn_tensor *early, *y;
    _Alignas(64) float memory[32] = {0};
    sn_tensor_wrap(&early, ctx, SN_CPU, memory, SN_F32, 1, (int64_t[]){4}, NULL, 0);
    sn_tensor_for_output(&y, p, 0);
    EXPECT_ERROR(ctx, sn_run(p, &early, &y, NULL), SN_ERROR_ARGUMENT,
                 "input x: the tensor begins at element 0, the program was compiled for 8");
    sn_tensor_destroy(early);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

Test(api, strided_tensors_keep_what_lies_between) {
    sn_context *ctx = new_context();
    float storage[12], packed[6] = {1, 2, 3, 4, 5, 6}, back[6];
    for (int k = 0; k < 12; k++) storage[k] = -1;
    sn_tensor *t;
    cr_assert_eq(sn_tensor_wrap(&t, ctx, SN_CPU, storage, SN_F32, 2, (int64_t[]){2, 3}, (int64_t[]){1, 4}, 1), SN_OK);
    sn_tensor_write(t, packed, sizeof packed);
    cr_assert(storage[0] == -1 && storage[1] == 1 && storage[5] == 2 && storage[2] == 4 && storage[3] == -1);
    sn_tensor_read(back, t, sizeof back);
    cr_assert_arr_eq(back, packed, sizeof packed);
    sn_tensor_destroy(t);
    sn_context_destroy(ctx);
}

Test(api, outputs_that_write_inputs) {
    sn_context *ctx = new_context();
    sn_graph *g = new_graph(ctx);
    sn_node count = sn_input(g, "count", SN_I64, 0, NULL);
    sn_output_writes(g, "next", sn_add(g, count, sn_number(g, SN_I64, 1)), count);
    sn_output(g, "twice", sn_add(g, count, count));
    sn_program *p = compile_cpu(g, ctx);
    sn_tensor *in, *out[2] = {NULL};
    sn_tensor_for_input(&in, p, 0);
    sn_tensor_for_output(&out[1], p, 1);
    for (int64_t k = 0; k < 3; k++) {
        int64_t value, twice;
        cr_assert_eq(sn_run(p, &in, out, NULL), SN_OK, "%s", sn_error(ctx));
        sn_tensor_read(&value, in, sizeof value);
        sn_tensor_read(&twice, out[1], sizeof twice);
        cr_assert(value == k + 1 && twice == 2 * k); /* uses of the input see the old value */
    }
    EXPECT_ERROR(ctx, sn_run(p, &in, (sn_tensor *[]){out[1], out[1]}, NULL), SN_ERROR_ARGUMENT,
                 "output next: it writes input count");
    sn_tensor_destroy(in);
    sn_tensor_destroy(out[1]);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

Test(api, sizes_by_name) {
    sn_context *ctx = new_context();
    sn_graph *g = new_graph(ctx);
    int64_t n = sn_dim(g, "N"), twice = sn_dim(g, "2*N");
    sn_node x = sn_input(g, "x", SN_F32, 2, (int64_t[]){n, 2});
    sn_output(g, "y", sn_reshape(g, x, 1, &twice));
    sn_output(g, "z", sn_reshape(g, x, SN_LIST(-1)));
    sn_program *p;
    EXPECT_ERROR(ctx, sn_compile(&p, g, NULL), SN_ERROR_ARGUMENT, "no size given for N");
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .n_dims = 1};
    o.dims = &(sn_dim_binding){"M", 4};
    EXPECT_ERROR(ctx, sn_compile(&p, g, &o), SN_ERROR_ARGUMENT, "has no size of that name");
    for (int64_t size = 3; size <= 5; size += 2) {
        o.dims = &(sn_dim_binding){"N", size};
        cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
        sn_port port;
        sn_program_output(&port, p, 0);
        cr_assert_eq(port.shape[0], 2 * size);
        sn_program_destroy(p);
    }
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

Test(api, sizes_as_text) {
    sn_context *ctx = new_context();
    sn_graph *g = new_graph(ctx);
    int64_t shape[8];
    char *text;
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(sn_dim(g, "N"), 48));
    sn_port port;
    cr_assert_eq(sn_graph_input_port(&port, g, 0), SN_OK, "%s", sn_error(ctx));
    const char *const want[] = {"N", "48"};
    for (unsigned k = 0; k < 2; k++) {
        cr_assert_eq(sn_size_text(&text, g, port.shape[k]), SN_OK, "%s", sn_error(ctx));
        cr_expect_str_eq(text, want[k]);
        sn_free(ctx, text);
    }
    sn_node_shape(shape, g, sn_concat(g, 2, (sn_node[]){x, x}, 0));
    cr_assert_eq(sn_size_text(&text, g, shape[0]), SN_OK, "%s", sn_error(ctx));
    cr_expect_str_eq(text, "2*N");
    sn_free(ctx, text);
    EXPECT_ERROR(ctx, sn_size_text(&text, g, shape[0] + 1), SN_ERROR_ARGUMENT, "sn_size_text: ");
    cr_expect_null(text);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

Test(api, compile_options_are_checked) {
    sn_context *ctx = new_context();
    sn_graph *g = affine(ctx), *empty = new_graph(ctx);
    sn_program *p;
    EXPECT_ERROR(ctx, sn_compile(&p, empty, NULL), SN_ERROR_ARGUMENT, "it has no outputs");
    EXPECT_ERROR(ctx, sn_compile(&p, g, &(sn_compile_options){0}), SN_ERROR_ARGUMENT, "struct_size");
    sn_compile_options o = {.struct_size = sizeof o, .device = "gpu"};
    EXPECT_ERROR(ctx, sn_compile(&p, g, &o), SN_ERROR_ARGUMENT, "device: 'gpu' is none of auto, cpu, cuda");
    o = (sn_compile_options){.struct_size = sizeof o, .device = "cpu", .verify = "often"};
    EXPECT_ERROR(ctx, sn_compile(&p, g, &o), SN_ERROR_ARGUMENT, "verify: 'often' is none of off, ends, each, paranoid");
    o = (sn_compile_options){.struct_size = sizeof o, .device = "cpu", .pipeline = "simplfy"};
    EXPECT_ERROR(ctx, sn_compile(&p, g, &o), SN_ERROR_ARGUMENT, "simplfy");
    o = (sn_compile_options){.struct_size = sizeof o, .device = "cpu", .n_dims = 1};
    EXPECT_ERROR(ctx, sn_compile(&p, g, &o), SN_ERROR_ARGUMENT, "dims: 1 are said to be given, none is");
    o = (sn_compile_options){.struct_size = sizeof o, .target = "sm_1"};
    EXPECT_ERROR(ctx, sn_compile(&p, g, &o), SN_ERROR_TARGET, "sm_1");
    sn_graph_destroy(g);
    sn_graph_destroy(empty);
    sn_context_destroy(ctx);
}

Test(api, stages_can_be_read) {
    static const char *const stages[] = {"graph", "loops", "fused", "scheduled", "llvm", "wrapper"};
    sn_context *ctx = new_context();
    sn_graph *g = affine(ctx);
    sn_program *p = compile_cpu(g, ctx);
    char *text;
    for (size_t k = 0; k < sizeof stages / sizeof *stages; k++) {
        cr_assert_eq(sn_program_dump(&text, p, stages[k]), SN_OK, "%s: %s", stages[k], sn_error(ctx));
        cr_assert(text[0], "%s", stages[k]);
        sn_free(ctx, text);
    }
    EXPECT_ERROR(ctx, sn_program_dump(&text, p, "ptx"), SN_ERROR_ARGUMENT, "is for the CPU");
    EXPECT_ERROR(ctx, sn_program_dump(&text, p, "sass"), SN_ERROR_ARGUMENT, "'sass' is none of graph, loops");
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

Test(api, code_for_a_target_without_a_device) {
    sn_context *ctx = new_context();
    sn_graph *g = affine(ctx);
    sn_program *p;
    sn_compile_options o = {.struct_size = sizeof o, .target = "sm_90"};
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    sn_kernel_info kernel;
    cr_assert_eq(sn_program_kernel(&kernel, p, 0), SN_OK);
    cr_assert(strstr(kernel.ptx, ".target sm_90") && strstr(kernel.ptx, kernel.name));
    cr_assert_eq(sn_program_kernel(&kernel, p, 9), SN_ERROR_ARGUMENT);
    EXPECT_ERROR(ctx, sn_run(p, NULL, NULL, NULL), SN_ERROR_DEVICE, "compiled for target sm_90 to look at");
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

Test(api, graphs_from_text) {
    static const char text[] = "graph @f(%x: f32[2]) {\n  %y = exp %x\n  return y = %y\n}\n";
    static const char kernel[] = "buffer x: f32[2] input 0 align 16\n";
    sn_context *ctx = new_context();
    sn_graph *g;
    cr_assert_eq(sn_graph_from_text(&g, ctx, "f.sn", text, strlen(text)), SN_OK, "%s", sn_error(ctx));
    char *printed;
    cr_assert_eq(sn_graph_text(&printed, g), SN_OK);
    cr_assert(strstr(printed, "exp %x : f32[2]"));
    sn_free(ctx, printed);
    sn_graph_destroy(g);
    EXPECT_ERROR(ctx, sn_graph_from_text(&g, ctx, "f.sn", text, 30), SN_ERROR_SYNTAX, "f.sn:2:");
    EXPECT_ERROR(ctx, sn_graph_from_text(&g, ctx, "k.sn", kernel, strlen(kernel)), SN_ERROR_ARGUMENT,
                 "no graph with outputs");
    EXPECT_ERROR(ctx, sn_graph_from_file(&g, ctx, "/nowhere/f.sn"), SN_ERROR_FILE, "cannot open /nowhere/f.sn");
    cr_assert_null(g);
    sn_context_destroy(ctx);
}

/* ---- memory that runs out ---- */

typedef struct {
    long left, live;
} budget;

static void *limited(void *user, void *p, size_t size) {
    budget *b = user;
    if (size == 0) {
        b->live -= p != NULL;
        free(p);
        return NULL;
    }
    if (b->left == 0) return NULL;
    b->left--;
    b->live += p == NULL;
    return realloc(p, size);
}

/* Everything a program does once, giving up at the first failure. */
static sn_status whole_life(sn_context *ctx) {
    sn_graph *g = NULL;
    sn_program *p = NULL;
    sn_tensor *in[2] = {NULL}, *out = NULL;
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    sn_status status = sn_graph_create(&g, ctx, "g");
    if (status == SN_OK) {
        sn_node x = sn_input(g, "x", SN_F32, SN_LIST(8, 16)), row = sn_input(g, "row", SN_F32, SN_LIST(16));
        status = sn_output(g, "y", sn_softmax(g, sn_add(g, x, row), 1));
    }
    if (status == SN_OK) status = sn_compile(&p, g, &o);
    for (unsigned k = 0; k < 2 && status == SN_OK; k++) status = sn_tensor_for_input(&in[k], p, k);
    if (status == SN_OK) status = sn_tensor_for_output(&out, p, 0);
    if (status == SN_OK) status = sn_run(p, in, &out, NULL);
    sn_watch_options w = {.struct_size = sizeof w, .stop_at = "nan", .reads = true};
    if (status == SN_OK) status = sn_run_watched(p, in, &out, NULL, &w);
    sn_tensor_destroy(in[0]);
    sn_tensor_destroy(in[1]);
    sn_tensor_destroy(out);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    return status;
}

Test(api, the_nth_allocation_fails, .timeout = 120) {
    sn_status status = SN_ERROR_MEMORY;
    long n = 0;
    for (; status != SN_OK && n < 100000; n += n < 64 ? 1 : 1 + n / 16) {
        budget b = {.left = n};
        sn_context *ctx;
        status = sn_context_create(&ctx, &(sn_context_options){.struct_size = sizeof(sn_context_options),
                                                               .realloc_fn = limited,
                                                               .realloc_user = &b});
        if (status == SN_OK) status = whole_life(ctx);
        cr_assert(status == SN_OK || status == SN_ERROR_MEMORY, "allocation %ld: status %d, %s", n, status,
                  sn_error(ctx));
        sn_context_destroy(ctx);
        cr_assert_eq(b.live, 0, "%ld blocks were not given back", b.live);
    }
    cr_assert_eq(status, SN_OK);
    cr_assert_gt(n, 10);
}
