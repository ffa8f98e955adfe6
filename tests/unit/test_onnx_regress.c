/* test_onnx_regress.c: models that were imported with another meaning, or with a part of them passed over, and what they mean.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "frontend/frontend.h"
#include "tests/unit/onnx_file.h"

enum { ATTR_TYPE = 20, TYPE_FLOAT = 1, TYPE_INT = 2 };

TestSuite(onnx_regress, .timeout = 300);

/* The model's graph, or NULL and the context has the message. */
static sn_graph *import(sn_context **ctx, const pb *m, const sn_import_options *o) {
    sn_graph *g = NULL;
    cr_assert_eq(sn_context_create(ctx, NULL), SN_OK);
    sn_import_onnx_memory(&g, *ctx, "m.onnx", m->at, m->n, NULL, o);
    return g;
}

static void refused(const pb *m, const sn_import_options *o, const char *why) {
    sn_context *ctx;
    sn_graph *g = import(&ctx, m, o);
    cr_assert(!g, "it is imported; it should not: %s", why);
    cr_expect(strstr(sn_error(ctx), why), "%s\n  instead of: %s", sn_error(ctx), why);
    sn_context_destroy(ctx);
}

/* The first output on the CPU of a model that takes x, n elements. */
static void run(float *out, size_t n_out, const pb *m, const float *x, size_t n) {
    sn_context *ctx;
    sn_program *p;
    sn_tensor *in, *y;
    sn_graph *g = import(&ctx, m, NULL);
    cr_assert(g, "%s", sn_error(ctx));
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    sn_graph_destroy(g);
    cr_assert_eq(sn_tensor_for_input(&in, p, 0), SN_OK);
    cr_assert_eq(sn_tensor_for_output(&y, p, 0), SN_OK);
    cr_assert_eq(sn_tensor_write(in, x, n * sizeof *x), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_run(p, &in, &y, NULL), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_tensor_read(out, y, n_out * sizeof *out), SN_OK, "%s", sn_error(ctx));
    sn_tensor_destroy(in);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
    sn_context_destroy(ctx);
}

/* x[dims] -> the node -> y */
static pb one_node(const pb *node, const char *dims, int64_t opset) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, dims);
    put_message(&g, GRAPH_NODE, node);
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    return model_of(&g, opset);
}

/* An axis that is a float was read as 0. */
Test(onnx_regress, attributes_of_another_type) {
    pb n = node_of("Softmax", "x", "y"), a = attr_of("axis");
    put_float(&a, ATTR_F, 1);
    put_int(&a, ATTR_TYPE, TYPE_FLOAT);
    put_message(&n, NODE_ATTRIBUTE, &a);
    pb m = one_node(&n, "2 3", 17);
    refused(&m, NULL, "Softmax (opset 17): attribute axis is a float, not an integer: y");
    n = node_of("LeakyRelu", "x", "y"), a = attr_of("alpha");
    put_int(&a, ATTR_I, 1);
    put_int(&a, ATTR_TYPE, TYPE_INT);
    put_message(&n, NODE_ATTRIBUTE, &a);
    m = one_node(&n, "2 3", 17);
    refused(&m, NULL, "attribute alpha is an integer, not a float");
}

/* The last part of an axis of 3 got 1 element, not 2. */
Test(onnx_regress, parts_that_are_not_the_axis) {
    static const struct {
        const char *outputs;
        int64_t parts[2];
        const char *why;
    } cases[] = {
        {"y z", {2, 2}, "Split (opset 17): parts of 4 elements in all, of an axis of size 3"},
        {"y z", {1, 1}, "parts of 2 elements in all, of an axis of size 3"},
        {"y z", {4, -1}, "a part of size -1"},
        {"y z a", {1, 2}, "2 parts, 3 results"},
    };
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        pb g = {0};
        put_value(&g, GRAPH_INPUT, "x", F32, "3");
        put_i64s(&g, "parts", "2", cases[k].parts, 2);
        put_op(&g, "Split", "x parts", cases[k].outputs);
        put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
        pb m = model_of(&g, 17);
        refused(&m, NULL, cases[k].why);
    }
}

/* A result that the function has not was an output that the graph had not. */
Test(onnx_regress, calls_that_do_not_fit_their_function) {
    static const struct {
        const char *inputs, *outputs, *why;
    } cases[] = {
        {"x x", "y", "the function takes 1 operands, 2 are given"},
        {"x", "y z", "the function has 1 results, not 2"},
    };
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        pb f = function_of("f", "a", "b", 17), n = node_of("Relu", "a", "b");
        put_message(&f, FUNCTION_NODE, &n);
        pb call = call_of("f", cases[k].inputs, cases[k].outputs);
        pb m = one_node(&call, "2", 17);
        put_message(&m, MODEL_FUNCTION, &f);
        refused(&m, NULL, cases[k].why);
    }
}

/* Its name was looked for behind the end of the table of types. */
Test(onnx_regress, a_value_of_an_unknown_type) {
    pb n = node_of("Relu", "x", "y"), m = one_node(&n, "1", 17);
    sn_weight_info value = {.name = "x", .dtype = SN_N_DTYPES, .rank = 1, .shape = {1}, .data = "", .size = 1};
    sn_import_options o = {.struct_size = sizeof o, .values = &value, .n_values = 1};
    refused(&m, &o, "its value has elements of a type that is not known, the model declares f32: x");
}

/* y = Resize(x[1, 1, 1, 4], scales): 0.6 takes the elements at ceil(o / 0.6), 1.5 those at floor(o / 1.5). */
Test(onnx_regress, nearest_elements_before_opset_11) {
    static const float x[] = {1, 2, 3, 4}, want[2][6] = {{1, 3}, {1, 1, 2, 3, 3, 4}};
    for (size_t k = 0; k < 2; k++) {
        float scales[] = {1, 1, 1, k ? 1.5F : 0.6F}, y[6];
        pb g = {0};
        put_value(&g, GRAPH_INPUT, "x", F32, "1 1 1 4");
        put_f32s(&g, "scales", "4", scales, 4);
        put_op(&g, "Resize", "x scales", "y");
        put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
        pb m = model_of(&g, 10);
        run(y, k ? 6 : 2, &m, x, 4);
        for (size_t e = 0; e < (k ? 6 : 2); e++) cr_expect_float_eq(y[e], want[k][e], 1e-6, "%g", (double)y[e]);
    }
}

/* One element of pytorch_half_pixel lies at 0, not at -0.5, which a cubic sees. */
Test(onnx_regress, one_element_of_pytorch_half_pixel) {
    static const float x[] = {1, 2, 4, 8};
    static const int64_t sizes[] = {1};
    float y;
    pb g = {0}, n = node_of("Resize", "x - - sizes", "y"), mode = attr_of("mode");
    pb from = attr_of("coordinate_transformation_mode");
    put_text(&mode, ATTR_S, "cubic");
    put_text(&from, ATTR_S, "pytorch_half_pixel");
    put_message(&n, NODE_ATTRIBUTE, &mode);
    put_message(&n, NODE_ATTRIBUTE, &from);
    put_value(&g, GRAPH_INPUT, "x", F32, "4");
    put_i64s(&g, "sizes", "1", sizes, 1);
    put_message(&g, GRAPH_NODE, &n);
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 13);
    run(&y, 1, &m, x, 4);
    cr_expect_float_eq(y, 1, 1e-6, "%g", (double)y);
}

/* Zeros were divided by the scale 0. */
Test(onnx_regress, zeros_have_the_scale_1) {
    static const float x[3] = {0};
    float scale;
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "3");
    put_op(&g, "DynamicQuantizeLinear", "x", "y scale zero");
    put_value(&g, GRAPH_OUTPUT, "scale", F32, NULL);
    pb m = model_of(&g, 17);
    run(&scale, 1, &m, x, 3);
    cr_expect_float_eq(scale, 1, 1e-6, "%g", (double)scale);
}

/* It was passed over, and its name was one that is not computed. */
Test(onnx_regress, sparse_initializers) {
    static const float ones[] = {1, 1};
    pb g = {0}, sparse = {0}, values = tensor_raw("w", F32, "2", ones, sizeof ones);
    put_message(&sparse, 1, &values);
    put_value(&g, GRAPH_INPUT, "x", F32, "3");
    put_message(&g, 15, &sparse);
    put_op(&g, "Add", "x w", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    refused(&m, NULL, "m.onnx: not supported: 1 x initializer (of the model): it is sparse: w");
}

/* PyTorch's exporter casts a number that meets a tensor of bfloat16 to its own number of that type. */
Test(onnx_regress, casts_to_another_number_of_bfloat16) {
    sn_context *ctx;
    pb g = {0}, n = node_of("Cast", "half", "h");
    put_attr_int(&n, "to", 15);
    put_value(&g, GRAPH_INPUT, "x", BF16, "3");
    put_f32s(&g, "half", "", (float[]){0.5F}, 1);
    put_message(&g, GRAPH_NODE, &n);
    put_op(&g, "Mul", "x h", "y");
    put_value(&g, GRAPH_OUTPUT, "y", BF16, NULL);
    pb m = model_of(&g, 17);
    sn_graph *made = import(&ctx, &m, NULL);
    cr_expect(made, "%s", sn_error(ctx));
    sn_graph_destroy(made);
    sn_context_destroy(ctx);
}

/* x[N, 3] + 0.0, 1.0, .. along an axis, as exporters say torch.arange(x.shape[axis], dtype=x.dtype), from `start` on. */
static pb positions(int64_t axis, float start) {
    pb g = {0}, n = node_of("Cast", "size", "limit");
    put_attr_int(&n, "to", F32);
    put_value(&g, GRAPH_INPUT, "x", F32, "N 3");
    put_f32s(&g, "start", "", &start, 1);
    put_f32s(&g, "step", "", (float[]){1}, 1);
    put_i64s(&g, "axis", "", &axis, 1);
    put_i64s(&g, "behind", "1", (int64_t[]){1}, 1);
    put_op(&g, "Shape", "x", "sizes");
    put_op(&g, "Gather", "sizes axis", "size");
    put_message(&g, GRAPH_NODE, &n);
    put_op(&g, "Range", "start limit step", "at");
    put_op(&g, "Unsqueeze", "at behind", "column");
    put_op(&g, "Add", axis ? "x at" : "x column", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    return model_of(&g, 17);
}

/* A size that is a number was not known as a float where another one of the tensor is none, nor did one count positions. */
Test(onnx_regress, positions_in_floats) {
    sn_context *ctx;
    sn_graph *g;
    for (int64_t axis = 0; axis < 2; axis++) {
        pb m = positions(axis, 0);
        g = import(&ctx, &m, NULL);
        cr_expect(g, "axis %d: %s", (int)axis, sn_error(ctx));
        sn_graph_destroy(g);
        sn_context_destroy(ctx);
    }
    pb m = positions(0, 0.5f);
    refused(&m, NULL, "it depends on a size, [N], which has to be given for the import");
    sn_dim_binding n = {"N", 2};
    sn_import_options o = {.struct_size = sizeof o, .dims = &n, .n_dims = 1};
    m = positions(0, -1);
    g = import(&ctx, &m, &o);
    cr_expect(!g && strstr(sn_error(ctx), "[3, 1]"), "%s", sn_error(ctx));
    sn_context_destroy(ctx);
}

/* Each element was a row, and what combines elements sorted as many. Updates that leave out part of an axis still are elements. */
Test(onnx_regress, scattered_rows) {
    static const int64_t at[] = {2, 0, 2, -1, 0, 1, 1, -3, 2, 1};
    for (int width = 4; width >= 3; width--) {
        int64_t shape[] = {2, 5, width};
        float x[40], want[24] = {0}, y[24];
        for (int k = 0; k < 10 * width; k++) x[k] = (float)(k + 1);
        for (int k = 0; k < 10 * width; k++) {
            int row = (int)(at[k / width] + 3) % 3;
            want[(k / (5 * width) * 3 + row) * 4 + k % width] += x[k];
        }
        pb g = {0}, n = node_of("ScatterElements", "data index x", "y"), a = attr_of("axis");
        put_int(&a, ATTR_I, 1);
        put_message(&n, NODE_ATTRIBUTE, &a);
        a = attr_of("reduction");
        put_text(&a, ATTR_S, "add");
        put_message(&n, NODE_ATTRIBUTE, &a);
        put_value(&g, GRAPH_INPUT, "x", F32, width == 4 ? "2 5 4" : "2 5 3");
        put_f32s(&g, "data", "2 3 4", (float[24]){0}, 24);
        put_i64s(&g, "at", "2 5 1", at, 10);
        put_i64s(&g, "shape", "3", shape, 3);
        put_op(&g, "Expand", "at shape", "index");
        put_message(&g, GRAPH_NODE, &n);
        put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
        pb m = model_of(&g, 18);
        run(y, 24, &m, x, (size_t)(10 * width));
        for (int k = 0; k < 24; k++)
            cr_expect_eq(y[k], want[k], "width %d, element %d: %g, not %g", width, k, y[k], want[k]);
    }
}

/* ---- values given for the import ---- */

/* What was not looked for was passed over, and another size than the model's was found by a node far behind. */
Test(onnx_regress, values_that_fit_no_input) {
    static const float x[6] = {0};
    static const struct {
        const char *name;
        int64_t shape[2], n;
        const char *why;
    } cases[] = {
        {"z", {2, 3}, 2, "value z: no input of that name takes one"},
        {"w", {2, 3}, 2, "its value has rank 2, the model declares 1: w"},
        {"in.x", {3, 2}, 3, "its value has size 2 on axis 1, not 3: in.x"},
        {"in.x", {2, 3}, 4, "its value has size 2 on axis 0, not 4: in.x"},
    };
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "in.x", F32, "N 3");
    put_value(&g, GRAPH_INPUT, "w", F32, "1");
    put_f32s(&g, "w", "1", x, 1);
    put_op(&g, "Add", "in.x w", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        sn_weight_info value = {.name = cases[k].name, .dtype = SN_F32, .rank = 2, .data = x, .size = sizeof x};
        memcpy(value.shape, cases[k].shape, sizeof cases[k].shape);
        sn_dim_binding n = {"N", cases[k].n};
        sn_import_options o = {.struct_size = sizeof o, .values = &value, .n_values = 1, .dims = &n, .n_dims = 1};
        refused(&m, &o, cases[k].why);
    }
}

/* The size of an input that was refused was said to be that of none. */
Test(onnx_regress, a_size_of_an_input_that_is_refused) {
    static const double x[6] = {0};
    pb n = node_of("Relu", "x", "y"), m = one_node(&n, "N 3", 17);
    sn_weight_info value = {.name = "x", .dtype = SN_F64, .rank = 2, .shape = {2, 3}, .data = x, .size = sizeof x};
    sn_dim_binding batch = {"N", 2};
    sn_import_options o = {.struct_size = sizeof o, .values = &value, .n_values = 1, .dims = &batch, .n_dims = 1};
    refused(&m, &o, "its value has elements of f64, the model declares f32: x");
}

/* By the name of .sn text, as `sinter run` has it; a size may be told twice. */
Test(onnx_regress, values_by_the_name_in_text) {
    static const float x[6] = {0};
    pb n = node_of("Relu", "in.x", "y"), g = {0};
    put_value(&g, GRAPH_INPUT, "in.x", F32, "N 3");
    put_message(&g, GRAPH_NODE, &n);
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    sn_weight_info value = {.name = "in_x", .dtype = SN_F32, .rank = 2, .shape = {2, 3}, .data = x, .size = sizeof x};
    sn_dim_binding batch = {"N", 2};
    sn_import_options o = {.struct_size = sizeof o, .values = &value, .n_values = 1, .dims = &batch, .n_dims = 1};
    sn_context *ctx;
    sn_graph *graph = import(&ctx, &m, &o);
    cr_expect(graph, "%s", sn_error(ctx));
    sn_graph_destroy(graph);
    sn_context_destroy(ctx);
}
