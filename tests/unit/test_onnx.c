/* test_onnx.c: what models mean: functions, names, symbolic sizes, values given for the import, control flow, sequences, and the
 * report of what is not supported.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "frontend/frontend.h"
#include "tests/unit/onnx_file.h"

TestSuite(onnx, .timeout = 300);

typedef struct fixture {
    sn_context *ctx;
    sn_graph *g;
} fixture;

static fixture start(void) {
    fixture f = {0};
    cr_assert_eq(sn_context_create(&f.ctx, NULL), SN_OK);
    return f;
}

static void stop(fixture *f) {
    sn_graph_destroy(f->g);
    sn_context_destroy(f->ctx);
}

static fixture imported(const pb *m, const sn_import_options *o) {
    fixture f = start();
    cr_assert_eq(sn_import_onnx_memory(&f.g, f.ctx, "m.onnx", m->at, m->n, NULL, o), SN_OK, "%s", sn_error(f.ctx));
    return f;
}

static void refused(const pb *m, const sn_import_options *o, const char *why) {
    fixture f = start();
    cr_assert_neq(sn_import_onnx_memory(&f.g, f.ctx, "m.onnx", m->at, m->n, NULL, o), SN_OK);
    cr_expect(strstr(sn_error(f.ctx), why), "%s\n  instead of: %s", sn_error(f.ctx), why);
    stop(&f);
}

/* The text has the line. */
static void expect_text(fixture *f, const char *part) {
    char *text;
    cr_assert_eq(sn_graph_text(&text, f->g), SN_OK);
    cr_expect(strstr(text, part), "%s\n  has not: %s", text, part);
    sn_free(f->ctx, text);
}

/* Compile for the CPU, fill f32 input k with in[k] (each element the one before plus 1), and compare output k with want. */
static void expect_run(fixture *f, const sn_compile_options *options, const float *in, unsigned output,
                       const float *want, size_t n) {
    sn_program *p;
    sn_tensor *inputs[4] = {NULL}, *outputs[4] = {NULL};
    float data[64], got[64];
    sn_program_info info;
    cr_assert_eq(sn_compile(&p, f->g, options), SN_OK, "%s", sn_error(f->ctx));
    sn_program_get_info(&info, p);
    cr_assert(info.n_inputs <= 4 && info.n_outputs <= 4);
    for (unsigned k = 0; k < info.n_inputs; k++) {
        sn_tensor_info ti;
        cr_assert_eq(sn_tensor_for_input(&inputs[k], p, k), SN_OK);
        sn_tensor_get_info(&ti, inputs[k]);
        if (ti.dtype != SN_F32) continue;
        for (int64_t e = 0; e < ti.numel; e++) data[e] = in[k] + (float)e;
        cr_assert_eq(sn_tensor_write(inputs[k], data, (size_t)ti.numel * sizeof *data), SN_OK);
    }
    for (unsigned k = 0; k < info.n_outputs; k++) cr_assert_eq(sn_tensor_for_output(&outputs[k], p, k), SN_OK);
    cr_assert_eq(sn_run(p, inputs, outputs, NULL), SN_OK, "%s", sn_error(f->ctx));
    cr_assert_eq(sn_tensor_read(got, outputs[output], n * sizeof *got), SN_OK, "%s", sn_error(f->ctx));
    for (size_t k = 0; k < n; k++)
        cr_expect_float_eq(got[k], want[k], 1e-5, "element %zu: %g, not %g", k, (double)got[k], (double)want[k]);
    for (unsigned k = 0; k < 4; k++) {
        sn_tensor_destroy(inputs[k]);
        sn_tensor_destroy(outputs[k]);
    }
    sn_program_destroy(p);
}

#define ON_CPU (&(sn_compile_options){.struct_size = sizeof(sn_compile_options), .device = "cpu", .threads = 1})
#define FLOATS(...) ((const float[]){__VA_ARGS__})
#define EXPECT(f, output, in, ...)                                                                                     \
    expect_run(f, ON_CPU, in, output, FLOATS(__VA_ARGS__), sizeof FLOATS(__VA_ARGS__) / sizeof(float))

static void put_scalar(pb *graph, const char *name, int64_t value) { put_i64s(graph, name, "", &value, 1); }

/* ---- functions ---- */

/* scale(a) = a * LeakyRelu's alpha: the attribute of the call, the default, or the operator's own default. */
static pb scaled(bool given, bool has_default) {
    pb g = {0}, f = function_of("scale", "a absent", "b unused", 17), n = node_of("LeakyRelu", "a", "b");
    pb ref = attr_of("alpha"), call = call_of("scale", "x", "y");
    put_text(&ref, ATTR_REF, "slope");
    put_message(&n, NODE_ATTRIBUTE, &ref);
    put_message(&f, FUNCTION_NODE, &n);
    n = node_of("Neg", "a", "unused");
    put_message(&f, FUNCTION_NODE, &n);
    pb a = attr_of("slope");
    put_float(&a, ATTR_F, 0.5F);
    if (has_default) put_message(&f, FUNCTION_DEFAULT, &a);
    pb b = attr_of("slope");
    put_float(&b, ATTR_F, 0.25F);
    if (given) put_message(&call, NODE_ATTRIBUTE, &b);
    put_value(&g, GRAPH_INPUT, "x", F32, "1");
    put_message(&g, GRAPH_NODE, &call);
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    put_message(&m, MODEL_FUNCTION, &f);
    return m;
}

Test(onnx, attributes_of_functions) {
    static const struct {
        bool given, has_default;
        float want;
    } cases[] = {{false, false, -0.08F}, {false, true, -4}, {true, false, -2}, {true, true, -2}};
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        pb m = scaled(cases[k].given, cases[k].has_default);
        fixture f = imported(&m, NULL);
        EXPECT(&f, 0, FLOATS(-8), cases[k].want);
        stop(&f);
    }
}

/* A body of a function sees its own names and operator sets alone. */
Test(onnx, functions_see_no_other_names) {
    pb g = {0}, f = function_of("f", "a", "b", 17), n = node_of("Add", "a x", "b"), call = call_of("f", "x", "y");
    put_value(&g, GRAPH_INPUT, "x", F32, "1");
    put_message(&g, GRAPH_NODE, &call);
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    put_message(&f, FUNCTION_NODE, &n);
    pb m = model_of(&g, 17);
    put_message(&m, MODEL_FUNCTION, &f);
    refused(&m, NULL, "Add (opset 17): operand x is not computed before it: b");
}

/* ---- operands, results, names ---- */

/* It may be left out (test_optional.c). */
Test(onnx, an_initializer_that_is_an_input_is_one_with_a_default) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "2");
    put_value(&g, GRAPH_INPUT, "w", F32, "2");
    put_f32s(&g, "w", "2", FLOATS(10, 20), 2);
    put_op(&g, "Add", "x w", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    fixture f = imported(&m, NULL);
    cr_expect_eq(f.g->m->graph.inputs.n, 2);
    cr_expect_eq(f.g->m->graph.inputs.at[1].otherwise.n, 2);
    EXPECT(&f, 0, FLOATS(1, 5), 6, 8);
    stop(&f);
}

/* Scales that a size follows from are no input: a graph is made for them. */
Test(onnx, scales_that_are_an_input_with_an_initializer) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "1 1 2");
    put_value(&g, GRAPH_INPUT, "scales", F32, "3");
    put_f32s(&g, "scales", "3", FLOATS(1, 1, 2), 3);
    put_op(&g, "Upsample", "x scales", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 9);
    fixture f = imported(&m, NULL);
    cr_expect_eq(f.g->m->graph.inputs.n, 1);
    EXPECT(&f, 0, FLOATS(1), 1, 1, 2, 2);
    stop(&f);
}

/* TopK without its positions, Clip without a lower bound. */
Test(onnx, optional_operands_and_results) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "3");
    put_f32s(&g, "top", "", FLOATS(1.5F), 1);
    put_op(&g, "Clip", "x - top", "c");
    put_i64s(&g, "k", "1", (const int64_t[]){3}, 1);
    put_op(&g, "TopK", "c k", "y -");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    fixture f = imported(&m, NULL);
    EXPECT(&f, 0, FLOATS(0), 1.5F, 1, 0);
    stop(&f);
}

Test(onnx, names_are_made_plain_and_unique) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "in/x.1", F32, "2");
    put_value(&g, GRAPH_INPUT, "in_x_1", F32, "2");
    put_value(&g, GRAPH_INPUT, "1st input", F32, "2");
    put_op(&g, "Sum", "in/x.1 in_x_1", "a");
    pb n = {0};
    put_text(&n, 1, "a"); /* put_op cuts at spaces */
    put_text(&n, 1, "1st input");
    put_text(&n, 2, "y:0");
    put_text(&n, 4, "Sub");
    put_message(&g, GRAPH_NODE, &n);
    put_value(&g, GRAPH_OUTPUT, "y:0", F32, NULL);
    put_value(&g, GRAPH_OUTPUT, "y:0", F32, NULL);
    pb m = model_of(&g, 17);
    fixture f = imported(&m, NULL);
    expect_text(&f, "@m(%in_x_1_1: f32[2], %in_x_1: f32[2], %_1st_input: f32[2])");
    expect_text(&f, "y_0 = ");
    expect_text(&f, "y_0_1 = ");
    EXPECT(&f, 0, FLOATS(1, 2, 5), -2, -1);
    stop(&f);
}

/* As converters to halves leave their casts: behind the nodes that take them. */
Test(onnx, nodes_in_a_wrong_order) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "2");
    put_op(&g, "Relu", "later", "y");
    put_op(&g, "Sub", "y last", "z");
    put_op(&g, "Neg", "x", "later");
    put_op(&g, "Add", "later x2", "last");
    put_op(&g, "Add", "x x", "x2");
    put_value(&g, GRAPH_OUTPUT, "z", F32, NULL);
    pb m = model_of(&g, 17);
    fixture f = imported(&m, NULL);
    EXPECT(&f, 0, FLOATS(-3), 6, 4);
    stop(&f);
}

/* Two that wait for each other, and a name that nobody makes. */
Test(onnx, nodes_in_no_order) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "2");
    put_op(&g, "Add", "x later", "y");
    put_op(&g, "Neg", "y", "later");
    put_op(&g, "Neg", "y", "z");
    put_value(&g, GRAPH_OUTPUT, "z", F32, NULL);
    put_value(&g, GRAPH_OUTPUT, "never", F32, NULL);
    pb m = model_of(&g, 17);
    refused(&m, NULL,
            "m.onnx: not supported: 1 x Neg (opset 17): operand y is computed from its own result: nodes in a circle: "
            "later; "
            "1 x output (of the model): it is not computed: never");
}

/* A name that nobody makes, and one that two make: who reads it would get the other one. */
Test(onnx, names_of_nothing_and_of_two_values) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "2");
    put_op(&g, "Neg", "nothing", "a");
    put_op(&g, "Neg", "x", "y");
    put_op(&g, "Exp", "y", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    refused(&m, NULL,
            "m.onnx: not supported: 1 x Neg (opset 17): nothing computes operand nothing: a; "
            "1 x Exp (opset 17): there is another value of the name of its result y: y");
}

Test(onnx, inputs_that_say_too_little) {
    pb g = {0}, none = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, NULL);
    put_typed(&g, GRAPH_INPUT, "z", &none);
    put_value(&g, GRAPH_INPUT, "s", 14, "2");
    put_op(&g, "Add", "x z", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    refused(&m, NULL, "its rank is not declared; a value given for the import tells it: x");
    refused(&m, NULL, "it is no tensor, sequence or optional: z");
    refused(&m, NULL, "element type COMPLEX64 (14): s");
}

/* ---- symbolic sizes ---- */

/* Flattening as exporters write it: Reshape(x, Concat(Gather(Shape(x), 0), -1)). */
static pb flatten(void) {
    static const int64_t minus[] = {-1}, axes[] = {0};
    pb g = {0}, gather = node_of("Gather", "s zero", "n"), concat = node_of("Concat", "n1 minus", "shape");
    put_value(&g, GRAPH_INPUT, "x", F32, "batch.size 2 3");
    put_scalar(&g, "zero", 0);
    put_i64s(&g, "minus", "1", minus, 1);
    put_i64s(&g, "axes", "1", axes, 1);
    put_op(&g, "Shape", "x", "s");
    put_message(&g, GRAPH_NODE, &gather);
    put_op(&g, "Unsqueeze", "n axes", "n1");
    put_attr_int(&concat, "axis", 0);
    put_message(&g, GRAPH_NODE, &concat);
    put_op(&g, "Reshape", "x shape", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    return model_of(&g, 17);
}

Test(onnx, a_named_batch_stays_a_name) {
    pb m = flatten();
    fixture f = imported(&m, NULL);
    expect_text(&f, "%x: f32[batch_size, 2, 3]");
    sn_compile_options o = *ON_CPU;
    sn_dim_binding dim = {"batch_size", 2};
    o.dims = &dim, o.n_dims = 1;
    expect_run(&f, &o, FLOATS(0), 0, FLOATS(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), 12);
    dim.size = 1;
    expect_run(&f, &o, FLOATS(1), 0, FLOATS(1, 2, 3, 4, 5, 6), 6);
    stop(&f);
}

/* By the model's name or by that of .sn text. */
Test(onnx, names_of_sizes_can_be_bound) {
    static const char *const names[] = {"batch.size", "batch_size"};
    pb m = flatten();
    for (size_t k = 0; k < SN_COUNT(names); k++) {
        sn_import_options o = {.struct_size = sizeof o, .dims = &(sn_dim_binding){names[k], 5}, .n_dims = 1};
        fixture f = imported(&m, &o);
        expect_text(&f, "%x: f32[5, 2, 3]");
        expect_text(&f, "f32[5, 6]");
        stop(&f);
    }
}

Test(onnx, sizes_without_a_name_get_one) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "? 3");
    put_op(&g, "Relu", "x", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    fixture f = imported(&m, NULL);
    expect_text(&f, "%x: f32[x_0, 3]");
    stop(&f);
}

/* As exporters write that they do not know them: sizes of -1, and several that are called "?". */
Test(onnx, sizes_that_are_not_known) {
    static const float x[6] = {0};
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "-1 q q");
    for (size_t k = 0; k < g.n; k++) g.at[k] = g.at[k] == 'q' ? '?' : g.at[k];
    put_op(&g, "Relu", "x", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    sn_dim_binding dims[] = {{"x_0", 1}, {"x_1", 2}, {"x_2", 3}};
    sn_import_options o = {.struct_size = sizeof o, .dims = dims, .n_dims = 3};
    fixture f = imported(&m, &o);
    expect_text(&f, "%x: f32[1, 2, 3]");
    EXPECT(&f, 0, x, 0, 1, 2, 3, 4, 5);
    stop(&f);
}

/* Names that .sn text cannot tell apart stay two names. */
Test(onnx, names_of_sizes_stay_apart) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "a.b a_b ? x_2 a.b");
    put_op(&g, "Relu", "x", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    fixture f = imported(&m, NULL);
    expect_text(&f, "%x: f32[a_b_1, a_b, x_2_1, x_2, a_b_1]");
    stop(&f);
    sn_dim_binding dims[] = {{"a_b", 3}, {"a.b", 2}, {"x_2", 5}};
    sn_import_options o = {.struct_size = sizeof o, .dims = dims, .n_dims = 3};
    f = imported(&m, &o);
    expect_text(&f, "%x: f32[2, 3, x_2_1, 5, 2]");
    stop(&f);
}

/* Who asks for "out_1" gets what the model calls so. */
Test(onnx, a_plain_name_is_its_owners) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x.1", F32, "2");
    put_value(&g, GRAPH_INPUT, "x_1", F32, "2");
    put_op(&g, "Neg", "x.1", "out.1");
    put_op(&g, "Abs", "x_1", "out_1");
    put_value(&g, GRAPH_OUTPUT, "out.1", F32, NULL);
    put_value(&g, GRAPH_OUTPUT, "out_1", F32, NULL);
    pb m = model_of(&g, 17);
    float elements[2] = {3, -4};
    sn_weight_info value = {.name = "x_1", .dtype = SN_F32, .rank = 1, .shape = {2}, .data = elements, .size = 8};
    sn_import_options o = {.struct_size = sizeof o, .values = &value, .n_values = 1};
    fixture f = imported(&m, &o);
    unsigned in, out;
    cr_expect_eq(sn_graph_find_input(&in, f.g, "x_1"), SN_OK);
    cr_expect_eq(sn_graph_find_output(&out, f.g, "out_1"), SN_OK);
    cr_expect(in == 1 && out == 1);
    EXPECT(&f, 1, FLOATS(1, -2), 2, 1);
    stop(&f);
}

/* ---- values given for the import ---- */

static pb unsqueeze_by_input(void) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "2");
    put_value(&g, GRAPH_INPUT, "axes", I64, "1");
    put_op(&g, "Unsqueeze", "x axes", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    return model_of(&g, 17);
}

Test(onnx, values_of_inputs) {
    pb m = unsqueeze_by_input();
    refused(&m, NULL, "it depends on the value of input axes, which has to be given for the import");
    static const int64_t axes[2] = {1, 0};
    sn_weight_info value = {.name = "axes", .dtype = SN_I64, .rank = 1, .shape = {1}, .data = axes, .size = 8};
    sn_import_options o = {.struct_size = sizeof o, .values = &value, .n_values = 1};
    fixture f = imported(&m, &o);
    cr_expect_eq(f.g->m->graph.inputs.n, 2, "it stays an input");
    expect_text(&f, "f32[2, 1]");
    stop(&f);
    value.rank = 2, value.shape[1] = 1;
    refused(&m, &o, "its value has rank 2, the model declares 1: axes");
    value.rank = 1, value.dtype = SN_I32;
    refused(&m, &o, "its value has elements of i32, the model declares i64: axes");
    value.dtype = SN_I64, value.shape[0] = 2;
    refused(&m, &o, "its value has 8 bytes: axes");
    value.shape[0] = -1;
    refused(&m, &o, "its value has 8 bytes: axes");
}

/* A zero point of 4 bits says how far a quantisation goes. */
Test(onnx, quantised_to_four_bits) {
    static const struct {
        int type;
        float low, want[4];
    } cases[] = {
        {22, -10, {-8, -8, -8, -7}}, {22, 6, {6, 7, 7, 7}}, {21, -1, {0, 0, 1, 2}}, {21, 13, {13, 14, 15, 15}}};
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        pb g = {0}, zero = tensor_raw("zero", cases[k].type, "", "", 1), like = node_of("CastLike", "x zero", "z");
        put_value(&g, GRAPH_INPUT, "x", F32, "4");
        put_f32s(&g, "scale", "", FLOATS(1), 1);
        put_message(&g, GRAPH_INITIALIZER, &zero);
        put_op(&g, "QuantizeLinear", "x scale zero", "q");
        put_op(&g, "DequantizeLinear", "q scale zero", "y");
        put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
        pb m = model_of(&g, 21);
        fixture f = imported(&m, NULL);
        expect_run(&f, ON_CPU, &cases[k].low, 0, cases[k].want, 4);
        stop(&f);
        put_message(&g, GRAPH_NODE, &like);
        m = model_of(&g, 21);
        refused(&m, NULL, "CastLike (opset 21): elements of 4 bits: z");
    }
}

Test(onnx, results_whose_number_is_not_known) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "2");
    put_op(&g, "NonZero", "x", "y");
    put_value(&g, GRAPH_OUTPUT, "y", I64, NULL);
    pb m = model_of(&g, 17);
    refused(
        &m, NULL,
        "elements decide how many results there are, and it depends on the value of input x, which has to be given for the "
        "import: y");
}

Test(onnx, options_of_another_version) {
    pb m = unsqueeze_by_input();
    sn_import_options o = {.struct_size = 3};
    refused(&m, &o, "sn_import_options: struct_size is 3; set it to sizeof");
}

/* ---- what is not supported ---- */

static pb unsupported(void) {
    pb g = {0}, odd = node_of("Relu", "x", "r"), named = node_of("Ma,gic", "x", "a");
    put_value(&g, GRAPH_INPUT, "x", F32, "2");
    put_value(&g, GRAPH_VALUE_INFO, "a", F32, "2");
    put_text(&named, NODE_NAME, "the \"first\"");
    put_text(&named, NODE_DOMAIN, "com.acme");
    put_message(&g, GRAPH_NODE, &named);
    named = node_of("Ma,gic", "a", "b");
    put_text(&named, NODE_DOMAIN, "com.acme");
    put_message(&g, GRAPH_NODE, &named);
    put_attr_int(&odd, "slope", 1);
    put_message(&g, GRAPH_NODE, &odd);
    put_op(&g, "Abs", "a", "after");   /* judged by the declared type of a */
    put_op(&g, "Abs", "b", "unknown"); /* not judged: nothing says what b is */
    put_value(&g, GRAPH_OUTPUT, "unknown", F32, NULL);
    pb m = model_of(&g, 17), o = opset_of("com.acme", 3);
    put_message(&m, MODEL_OPSET, &o);
    return m;
}

Test(onnx, all_that_is_not_supported_is_told_at_once) {
    pb m = unsupported();
    refused(&m, NULL,
            "m.onnx: not supported: 2 x Ma,gic (com.acme, opset 3): the operator is not supported: the \"first\", b; "
            "1 x Relu (opset 17): attribute slope is not supported: r");
}

Test(onnx, report) {
    static const char text[] = ": 3 problems with its 5 nodes\n"
                               "  2 x Ma,gic (com.acme, opset 3): the operator is not supported: the \"first\", b\n"
                               "  1 x Relu (opset 17): attribute slope is not supported: r\n";
    static const char csv[] = "domain,op,opset,count,reason,node\n"
                              "com.acme,\"Ma,gic\",3,2,the operator is not supported,\"the \"\"first\"\"\"\n"
                              "com.acme,\"Ma,gic\",3,2,the operator is not supported,b\n"
                              ",Relu,17,1,attribute slope is not supported,r\n";
    pb m = unsupported();
    fixture f = start();
    char path[] = "/tmp/sinter-onnx-XXXXXX", *got;
    bool all = true;
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, m.at, m.n) == (ssize_t)m.n);
    close(fd);
    cr_assert_eq(sn_onnx_report(&got, &all, f.ctx, path, NULL, NULL), SN_OK, "%s", sn_error(f.ctx));
    cr_expect_not(all);
    cr_expect(!strncmp(got, path, strlen(path)));
    cr_expect_str_eq(got + strlen(path), text);
    sn_free(f.ctx, got);
    cr_assert_eq(sn_onnx_report(&got, NULL, f.ctx, path, "csv", NULL), SN_OK);
    cr_expect_str_eq(got, csv);
    sn_free(f.ctx, got);
    cr_expect_eq(sn_onnx_report(&got, &all, f.ctx, path, "xml", NULL), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_error(f.ctx), "report format xml: text or csv is wanted");
    m = flatten();
    FILE *out = fopen(path, "wb");
    fwrite(m.at, 1, m.n, out);
    fclose(out);
    cr_assert_eq(sn_onnx_report(&got, &all, f.ctx, path, "text", NULL), SN_OK);
    cr_expect(all);
    cr_expect_str_eq(got + strlen(path), ": all 5 nodes are supported\n");
    sn_free(f.ctx, got);
    unlink(path);
    stop(&f);
}

/* An operator that an opset had not yet, or has no more. */
Test(onnx, operators_of_other_opsets) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "2");
    put_op(&g, "Mish", "x", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    refused(&m, NULL, "Mish (opset 17): the operator is not supported in opset 17");
    m = model_of(&g, 18);
    fixture f = imported(&m, NULL);
    stop(&f);
}

/* ---- sequences and optionals ---- */

Test(onnx, a_sequence_is_as_many_inputs_as_values) {
    pb g = {0}, t = tensor_type(F32, "2"), s = type_of(4, &t), n = node_of("ConcatFromSequence", "s", "y");
    put_typed(&g, GRAPH_INPUT, "s", &s);
    put_attr_int(&n, "axis", 0);
    put_message(&g, GRAPH_NODE, &n);
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    static const float data[2] = {0};
    sn_weight_info v[2] = {{.name = "s_0", .dtype = SN_F32, .rank = 1, .shape = {2}, .data = data, .size = 8}, {0}};
    v[1] = v[0];
    v[1].name = "s_1";
    sn_import_options o = {.struct_size = sizeof o, .values = v, .n_values = 2};
    fixture f = imported(&m, &o);
    expect_text(&f, "@m(%s_0: f32[2], %s_1: f32[2])");
    EXPECT(&f, 0, FLOATS(1, 5), 1, 2, 5, 6);
    stop(&f);
}

Test(onnx, an_optional_is_there_when_a_value_is) {
    pb g = {0}, t = tensor_type(F32, "2"), s = type_of(9, &t);
    put_typed(&g, GRAPH_INPUT, "o", &s);
    put_op(&g, "OptionalHasElement", "o", "y");
    put_value(&g, GRAPH_OUTPUT, "y", BOOL, NULL);
    pb m = model_of(&g, 17);
    static const float data[2] = {0};
    sn_weight_info v = {.name = "o", .dtype = SN_F32, .rank = 1, .shape = {2}, .data = data, .size = 8};
    sn_import_options o = {.struct_size = sizeof o, .values = &v, .n_values = 1};
    fixture f = imported(&m, &o);
    expect_text(&f, "@m(%o: f32[2])");
    expect_text(&f, "value=1");
    stop(&f);
    f = imported(&m, NULL);
    expect_text(&f, "@m()");
    expect_text(&f, "value=0");
    stop(&f);
}

/* ---- control flow ---- */

/* y = If(condition: x + 1 else x * 2). condition: a name of the graph. */
static void put_if(pb *g, const char *condition, const char *out) {
    pb then = {0}, other = {0}, n = node_of("If", condition, out);
    put_op(&then, "Add", "x one", "t");
    put_value(&then, GRAPH_OUTPUT, "t", F32, NULL);
    put_op(&other, "Add", "x x", "e");
    put_value(&other, GRAPH_OUTPUT, "e", F32, NULL);
    put_attr_graph(&n, "then_branch", &then);
    put_attr_graph(&n, "else_branch", &other);
    put_message(g, GRAPH_NODE, &n);
}

Test(onnx, branches) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "2");
    put_f32s(&g, "one", "", FLOATS(1), 1);
    put_f32s(&g, "four", "", FLOATS(4), 1);
    put_op(&g, "Size", "x", "n");
    put_scalar(&g, "two", 2);
    put_op(&g, "Equal", "n two", "known");
    put_if(&g, "known", "y");
    pb sum = node_of("ReduceSum", "x", "s");
    put_attr_int(&sum, "keepdims", 0);
    put_message(&g, GRAPH_NODE, &sum);
    put_op(&g, "Less", "s four", "unknown");
    put_if(&g, "unknown", "z");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    put_value(&g, GRAPH_OUTPUT, "z", F32, NULL);
    pb m = model_of(&g, 17);
    fixture f = imported(&m, NULL);
    EXPECT(&f, 0, FLOATS(5), 6, 7);
    EXPECT(&f, 1, FLOATS(1), 2, 3);
    EXPECT(&f, 1, FLOATS(5), 10, 12);
    uint32_t conds = 0;
    for (sn_nd x = {1}; x.i < f.g->m->graph.nodes.count; x.i++) conds += sn_node_get(f.g->m, x)->op == SN_OP_COND;
    cr_expect_eq(conds, 1, "the one that is not known");
    stop(&f);
}

/* A branch that cannot be imported need not be taken: whoever knows the condition can say so. */
Test(onnx, a_branch_that_fits_another_input) {
    pb g = {0}, fits = {0}, does_not = {0}, n = node_of("If", "rate", "y");
    put_value(&g, GRAPH_INPUT, "x", F32, "2");
    put_value(&g, GRAPH_INPUT, "rate", BOOL, "");
    put_op(&fits, "Neg", "x", "t");
    put_value(&fits, GRAPH_OUTPUT, "t", F32, NULL);
    put_op(&does_not, "MatMul", "x nothing", "e");
    put_value(&does_not, GRAPH_OUTPUT, "e", F32, NULL);
    put_attr_graph(&n, "then_branch", &fits);
    put_attr_graph(&n, "else_branch", &does_not);
    put_message(&g, GRAPH_NODE, &n);
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    refused(
        &m, NULL,
        "its body has nodes that are not supported, and the condition is not known at import: it depends on the value of "
        "input rate, which has to be given for the import: y");
    bool yes = true;
    sn_weight_info value = {.name = "rate", .dtype = SN_BOOL, .data = &yes, .size = 1};
    sn_import_options o = {.struct_size = sizeof o, .values = &value, .n_values = 1};
    fixture f = imported(&m, &o);
    EXPECT(&f, 0, FLOATS(1, 0), -1, -2);
    stop(&f);
}

/* What a run knows: `yes`, `large` (is the sum of x above 10?), `length` (its least element as an integer). */
static void put_unknowns(pb *g) {
    pb sum = node_of("ReduceSum", "x", "sum"), min = node_of("ReduceMin", "x", "least"),
       cast = node_of("Cast", "least", "length");
    put_attr_int(&sum, "keepdims", 0);
    put_attr_int(&min, "keepdims", 0);
    put_attr_int(&cast, "to", I64);
    put_f32s(g, "hundred", "", FLOATS(100), 1);
    put_f32s(g, "ten", "", FLOATS(10), 1);
    put_message(g, GRAPH_NODE, &sum);
    put_message(g, GRAPH_NODE, &min);
    put_message(g, GRAPH_NODE, &cast);
    put_op(g, "Less", "sum hundred", "yes");
    put_op(g, "Less", "ten sum", "large");
}

/* Loop(trips, condition, x): x' = x + x while the sum of x stays below 20; also stacks x'. */
static pb loop(const char *trips, bool until, bool stacks) {
    pb g = {0}, body = {0}, n = node_of("Loop", trips, stacks ? "y ys" : "y");
    put_value(&g, GRAPH_INPUT, "x", F32, "2");
    put_scalar(&g, "three", 3);
    put_scalar(&g, "none", 0);
    put_scalar(&g, "many", 100000);
    put_scalar(&g, "eight", 8);
    put_f32s(&g, "bound", "", FLOATS(20), 1);
    put_unknowns(&g);
    put_value(&body, GRAPH_INPUT, "i", I64, "");
    put_value(&body, GRAPH_INPUT, "go", BOOL, "");
    put_value(&body, GRAPH_INPUT, "v", F32, "2");
    put_op(&body, "Add", "v v", "w");
    pb sum = node_of("ReduceSum", "w", "s");
    put_attr_int(&sum, "keepdims", 0);
    put_message(&body, GRAPH_NODE, &sum);
    put_op(&body, "Less", "s bound", "on");
    put_op(&body, "Identity", "go", "same");
    put_op(&body, "Identity", "w", "copy");
    put_value(&body, GRAPH_OUTPUT, until ? "on" : "same", BOOL, "");
    put_value(&body, GRAPH_OUTPUT, "w", F32, "2");
    if (stacks) put_value(&body, GRAPH_OUTPUT, "copy", F32, "2");
    put_attr_graph(&n, "body", &body);
    put_message(&g, GRAPH_NODE, &n);
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    if (stacks) put_value(&g, GRAPH_OUTPUT, "ys", F32, NULL);
    return model_of(&g, 17);
}

Test(onnx, loops) {
    pb m = loop("three - x", false, true);
    fixture f = imported(&m, NULL);
    EXPECT(&f, 0, FLOATS(1), 8, 16);
    EXPECT(&f, 1, FLOATS(1), 2, 4, 4, 8, 8, 16);
    stop(&f);
    m = loop("eight - x", false, true);
    f = imported(&m, NULL);
    cr_expect_eq(f.g->m->graph.repeats, 1);
    EXPECT(&f, 0, FLOATS(1), 256, 512);
    EXPECT(&f, 1, FLOATS(1), 2, 4, 4, 8, 8, 16, 16, 32, 32, 64, 64, 128, 128, 256, 256, 512);
    stop(&f);
    m = loop("none - x", false, true);
    f = imported(&m, NULL);
    expect_text(&f, "f32[0, 2]");
    EXPECT(&f, 0, FLOATS(1), 1, 2);
    stop(&f);
}

/* x = 1, 2: sums 6, 12, 24: the third is the last. */
Test(onnx, loops_until) {
    pb m = loop("three - x", true, false);
    fixture f = imported(&m, NULL);
    EXPECT(&f, 0, FLOATS(0), 0, 8);
    EXPECT(&f, 0, FLOATS(6), 12, 14);
    stop(&f);
    m = loop("three - x", true, true);
    refused(&m, NULL, "the number of iterations, which is a size of its results, is not known at import");
    m = loop("- - x", false, false);
    refused(&m, NULL, "more than 4096 iterations");
}

/* A repeat that ends early, by its condition or by a number of iterations, in a branch where it may have none. */
Test(onnx, loops_that_a_run_ends) {
    static const char *const trips[] = {"- - x", "many - x", "eight yes x"};
    for (size_t k = 0; k < SN_COUNT(trips); k++) {
        pb m = loop(trips[k], true, false);
        fixture f = imported(&m, NULL);
        EXPECT(&f, 0, FLOATS(1), 8, 16);
        EXPECT(&f, 0, FLOATS(6), 12, 14);
        EXPECT(&f, 0, FLOATS(0.5), 8, 24);
        stop(&f);
    }
    pb m = loop("length - x", true, false);
    fixture f = imported(&m, NULL);
    EXPECT(&f, 0, FLOATS(1), 2, 4);          /* length is 1 */
    EXPECT(&f, 0, FLOATS(-1), -1, 0);        /* -1 */
    EXPECT(&f, 0, FLOATS(0.25), 0.25, 1.25); /* 0 */
    EXPECT(&f, 0, FLOATS(4), 16, 20);        /* 4, but sums are 18, 36 */
    stop(&f);
    m = loop("eight large x", true, false);
    f = imported(&m, NULL);
    EXPECT(&f, 0, FLOATS(1), 1, 2);
    EXPECT(&f, 0, FLOATS(6), 12, 14);
    stop(&f);
}

/* Running sums; the body's If sees the names of the graph, of the body, and its own. */
Test(onnx, scan_with_a_branch_inside) {
    pb g = {0}, body = {0}, n = node_of("Scan", "zero xs", "total sums"), then = {0}, other = {0};
    put_value(&g, GRAPH_INPUT, "xs", F32, "3 2");
    put_f32s(&g, "zero", "2", FLOATS(0, 0), 2);
    put_f32s(&g, "one", "", FLOATS(1), 1);
    put_value(&body, GRAPH_INPUT, "sum", F32, "2");
    put_value(&body, GRAPH_INPUT, "x", F32, "2");
    put_op(&body, "Add", "sum x", "next");
    put_op(&then, "Add", "next one", "t");
    put_value(&then, GRAPH_OUTPUT, "t", F32, NULL);
    put_op(&other, "Identity", "next", "e");
    put_value(&other, GRAPH_OUTPUT, "e", F32, NULL);
    pb constant = node_of("Constant", "", "yes"), value = attr_of("value"), t = tensor_raw("", BOOL, "", "\1", 1);
    put_message(&value, ATTR_T, &t);
    put_message(&constant, NODE_ATTRIBUTE, &value);
    put_message(&body, GRAPH_NODE, &constant);
    pb choice = node_of("If", "yes", "chosen");
    put_attr_graph(&choice, "then_branch", &then);
    put_attr_graph(&choice, "else_branch", &other);
    put_message(&body, GRAPH_NODE, &choice);
    put_op(&body, "Identity", "chosen", "copy");
    put_value(&body, GRAPH_OUTPUT, "chosen", F32, NULL);
    put_value(&body, GRAPH_OUTPUT, "copy", F32, NULL);
    put_attr_int(&n, "num_scan_inputs", 1);
    put_attr_graph(&n, "body", &body);
    put_message(&g, GRAPH_NODE, &n);
    put_value(&g, GRAPH_OUTPUT, "total", F32, NULL);
    put_value(&g, GRAPH_OUTPUT, "sums", F32, NULL);
    pb m = model_of(&g, 17);
    fixture f = imported(&m, NULL);
    EXPECT(&f, 0, FLOATS(0), 9, 12);
    EXPECT(&f, 1, FLOATS(0), 1, 2, 4, 6, 9, 12);
    stop(&f);
}

/* A weight of a body is one weight, however often the body is written out. */
Test(onnx, a_weight_of_a_body_is_one_weight) {
    pb g = {0}, body = {0}, n = node_of("Loop", "three - x", "y");
    float w[100];
    for (int k = 0; k < 100; k++) w[k] = (float)k;
    put_value(&g, GRAPH_INPUT, "x", F32, "100");
    put_scalar(&g, "three", 3);
    put_f32s(&body, "w", "100", w, 100);
    put_value(&body, GRAPH_INPUT, "i", I64, "");
    put_value(&body, GRAPH_INPUT, "go", BOOL, "");
    put_value(&body, GRAPH_INPUT, "v", F32, "100");
    put_op(&body, "Add", "v w", "next");
    put_value(&body, GRAPH_OUTPUT, "go", BOOL, "");
    put_value(&body, GRAPH_OUTPUT, "next", F32, "100");
    put_attr_graph(&n, "body", &body);
    put_message(&g, GRAPH_NODE, &n);
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    fixture f = imported(&m, NULL);
    cr_expect_eq(f.g->m->weights.recs.count, 2, "%u", f.g->m->weights.recs.count - 1);
    stop(&f);
}

/* ---- memory ---- */

typedef struct budget {
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

/* Import from memory and from a file, report, text. */
static sn_status whole_life(sn_context *ctx, const pb *m, const char *path) {
    sn_graph *g = NULL, *mapped = NULL;
    char *text = NULL;
    sn_status status = sn_import_onnx_memory(&g, ctx, "m.onnx", m->at, m->n, NULL, NULL);
    if (status == SN_OK) status = sn_import_onnx(&mapped, ctx, path, NULL);
    if (status == SN_OK) status = sn_onnx_report(&text, NULL, ctx, path, "text", NULL);
    sn_free(ctx, text);
    text = NULL;
    if (status == SN_OK) status = sn_graph_text(&text, mapped);
    sn_free(ctx, text);
    sn_graph_destroy(g);
    sn_graph_destroy(mapped);
    return status;
}

Test(onnx, runs_out_of_memory) {
    pb models[] = {loop("three - x", true, false), scaled(true, true), unsupported()};
    char path[] = "/tmp/sinter-onnx-XXXXXX";
    int fd = mkstemp(path);
    close(fd);
    for (size_t k = 0; k < SN_COUNT(models); k++) {
        FILE *out = fopen(path, "wb");
        fwrite(models[k].at, 1, models[k].n, out);
        fclose(out);
        sn_status status = SN_ERROR_MEMORY;
        long n = 0;
        for (; status == SN_ERROR_MEMORY && n < 100000; n++) {
            budget b = {.left = n};
            sn_context_options hooks = {.struct_size = sizeof hooks, .realloc_fn = limited, .realloc_user = &b};
            sn_context *ctx;
            status = sn_context_create(&ctx, &hooks);
            if (status == SN_OK) {
                status = whole_life(ctx, &models[k], path);
                if (status == SN_ERROR_MEMORY) cr_assert(strstr(sn_error(ctx), "out of memory"), "%s", sn_error(ctx));
                sn_context_destroy(ctx);
            }
            cr_assert_eq(b.live, 0, "allocation %ld: %ld blocks were not given back", n, b.live);
        }
        cr_expect_eq(status, k == 2 ? SN_ERROR_UNSUPPORTED : SN_OK);
        cr_expect_gt(n, 10, "only %ld allocations: the hook is not used", n);
    }
    unlink(path);
}
