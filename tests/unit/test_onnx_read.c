/* test_onnx_read.c: the reader of ONNX files: the wire format, elements in all their places, and that whatever is
 * broken is an error in one line, with no memory and no time that the file does not justify.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/frontend.h"
#include "frontend/onnx/tensor.h"
#include "tests/unit/onnx_file.h"

TestSuite(onnx_read, .timeout = 120);

static sn_context *new_context(void) {
    sn_context *ctx;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    return ctx;
}

/* Import of bytes: good, or refused in one line that is not our fault. */
static sn_status judged(sn_context *ctx, const void *data, size_t size) {
    sn_graph *g;
    sn_status status = sn_import_onnx_memory(&g, ctx, "m.onnx", data, size, NULL, NULL);
    if (status != SN_OK) {
        const char *message = sn_error(ctx);
        cr_assert(message[0] && !strchr(message, '\n'), "%s", message);
        cr_assert(status == SN_ERROR_FILE || status == SN_ERROR_UNSUPPORTED || status == SN_ERROR_ARGUMENT, "%s",
                  message);
    }
    sn_graph_destroy(g);
    return status;
}

static void refused(const pb *m, const char *why) {
    sn_context *ctx = new_context();
    cr_assert_neq(judged(ctx, m->at, m->n), SN_OK);
    cr_expect(strstr(sn_error(ctx), why), "%s\n  instead of: %s", sn_error(ctx), why);
    sn_context_destroy(ctx);
}

/* ---- the wire format ---- */

Test(onnx_read, all_wire_types) {
    static const uint8_t bytes[] = {0x08, 0x96, 0x01, 0x11, 1,   2,    3, 4, 5, 6, 7,
                                    8,    0x1a, 2,    'a',  'b', 0x25, 1, 2, 3, 4};
    sn_bytes rest = {bytes, sizeof bytes};
    sn_wire_field f;
    cr_assert(sn_wire_next(&f, &rest) && f.number == 1 && f.type == SN_WIRE_VARINT && f.value == 150);
    cr_assert(sn_wire_next(&f, &rest) && f.number == 2 && f.type == SN_WIRE_64 && f.value == 0x0807060504030201);
    cr_assert(sn_wire_next(&f, &rest) && f.number == 3 && f.bytes.n == 2 && f.bytes.at == bytes + 14);
    cr_assert(sn_wire_next(&f, &rest) && f.number == 4 && f.type == SN_WIRE_32 && f.value == 0x04030201);
    cr_assert_eq(rest.n, 0);
}

Test(onnx_read, malformed_fields) {
    static const struct {
        uint8_t bytes[12];
        size_t n;
    } bad[] = {
        {{0x08}, 1},                                                                    /* no value */
        {{0x08, 0x80, 0x80}, 3},                                                        /* a varint without end */
        {{0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 12}, /* one too long */
        {{0x00, 0x01}, 2},                                                              /* field 0 */
        {{0x0b}, 1},                                                                    /* a group */
        {{0x0e, 0x01}, 2},                                                              /* wire type 6 */
        {{0x11, 1, 2, 3, 4, 5, 6, 7}, 8},                                               /* 7 of 8 bytes */
        {{0x15, 1, 2, 3}, 4},                                                           /* 3 of 4 */
        {{0x0a, 0x05, 'a', 'b'}, 4},                                                    /* 2 of 5 */
        {{0x0a, 0x80, 0x80, 0x80, 0x80, 0x08, 'a'}, 7},                                 /* 2 GB claimed */
        {{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 'a'}, 12},  /* 2^64 - 1 */
    };
    for (size_t k = 0; k < SN_COUNT(bad); k++) {
        sn_bytes rest = {bad[k].bytes, bad[k].n};
        sn_wire_field f;
        cr_expect_not(sn_wire_next(&f, &rest), "case %zu", k);
        sn_context *ctx = new_context();
        cr_expect_eq(judged(ctx, bad[k].bytes, bad[k].n), SN_ERROR_FILE);
        cr_expect_str_eq(sn_error(ctx), "m.onnx: byte 0: malformed or truncated model message");
        sn_context_destroy(ctx);
    }
}

/* ---- files that are no models ---- */

Test(onnx_read, no_models) {
    pb empty = {0}, text = {0}, nested = {0}, m;
    refused(&empty, "m.onnx: no graph in it: not an ONNX model");
    text.n = (size_t)sprintf((char *)text.at, "graph @f(%%x: f32[2]) {\n  return y = %%x\n}\n");
    refused(&text, "m.onnx: byte 0: malformed or truncated model message");
    pb g = {0};
    m = model_of(&g, 17);
    refused(&m, "m.onnx: the model has no outputs");
    m = model_of(&g, 27);
    refused(&m, "m.onnx: opset 27; up to 26 are read: export or convert the model for one of those");
    for (int k = 0; k < 120; k++) { /* graph in attribute in node in graph */
        pb outer = {0};
        put_message(&outer, k % 3 == 0 ? ATTR_G : k % 3 == 1 ? NODE_ATTRIBUTE : GRAPH_NODE, &nested);
        nested = outer;
    }
    m = model_of(&nested, 17);
    refused(&m, "m.onnx: messages nest more than 100 deep");
}

Test(onnx_read, a_name_with_a_nul_is_malformed) {
    pb g = {0}, n = {0};
    put_bytes(&n, 4, "Re\0lu", 5);
    put_message(&g, GRAPH_NODE, &n);
    pb m = model_of(&g, 17);
    refused(&m, "malformed or truncated node message");
}

Test(onnx_read, a_name_that_is_too_long) {
    enum { LONG = 70000 };
    static uint8_t bytes[LONG + 16];
    sn_context *ctx = new_context();
    pb head = {0};
    put_varint(&head, MODEL_GRAPH << 3 | 2);
    put_varint(&head, LONG + 4);
    put_varint(&head, 2 << 3 | 2); /* the graph's name */
    put_varint(&head, LONG);
    memcpy(bytes, head.at, head.n);
    memset(bytes + head.n, 'a', LONG);
    cr_assert_neq(judged(ctx, bytes, head.n + LONG), SN_OK);
    cr_expect_str_eq(sn_error(ctx), "m.onnx: byte 8: a name of 70000 bytes; at most 65536 are read");
    sn_context_destroy(ctx);
}

/* What text is in a file is shown on one line, and bytes that are no UTF-8 do no harm. */
Test(onnx_read, strange_names) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x\n\x1b[31m\xff", F32, "2");
    put_op(&g, "Ma\ngic", "x\n\x1b[31m\xff", "y\r");
    put_value(&g, GRAPH_OUTPUT, "y\r", F32, NULL);
    pb m = model_of(&g, 17);
    refused(&m, "m.onnx: not supported: 1 x Ma?gic (opset 17): the operator is not supported: y?");
}

/* ---- a model with a bit of everything, cut and bent ---- */

static pb everything(void) {
    static const int64_t axes[] = {0};
    static const float w[] = {1, 2, 3};
    pb g = {0}, then = {0}, f = function_of("Twice", "a", "b", 17), n = node_of("If", "c", "z"), a = attr_of("axis");
    put_value(&g, GRAPH_INPUT, "x", F32, "N 3");
    put_value(&g, GRAPH_INPUT, "c", BOOL, "");
    put_f32s(&g, "w", "3", w, 3);
    put_i64s(&g, "axes", "1", axes, 1);
    put_op(&g, "Add", "x w", "s");
    pb call = call_of("Twice", "s", "t");
    put_attr_int(&call, "axis", 1);
    put_message(&g, GRAPH_NODE, &call);
    put_op(&then, "Relu", "t", "r");
    put_value(&then, GRAPH_OUTPUT, "r", F32, NULL);
    put_attr_graph(&n, "then_branch", &then);
    put_attr_graph(&n, "else_branch", &then);
    put_message(&g, GRAPH_NODE, &n);
    put_op(&g, "Unsqueeze", "z axes", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb soft = node_of("Softmax", "a", "b");
    put_text(&a, ATTR_REF, "axis");
    put_message(&soft, NODE_ATTRIBUTE, &a);
    put_message(&f, FUNCTION_NODE, &soft);
    pb m = model_of(&g, 17);
    put_message(&m, MODEL_FUNCTION, &f);
    return m;
}

Test(onnx_read, every_truncation) {
    pb m = everything();
    sn_context *ctx = new_context();
    cr_assert_eq(judged(ctx, m.at, m.n), SN_OK, "%s", sn_error(ctx));
    unsigned good = 0;
    for (size_t n = 0; n < m.n; n++) {
        uint8_t *cut = malloc(n + 1); /* of its own, so that a byte too far is seen by the sanitizer */
        memcpy(cut, m.at, n);
        good += judged(ctx, cut, n) == SN_OK;
        free(cut);
    }
    cr_expect_eq(good, 0, "%u", good);
    sn_context_destroy(ctx);
}

Test(onnx_read, every_bit_flipped) {
    pb m = everything();
    sn_context *ctx = new_context();
    unsigned good = 0;
    for (size_t bit = 0; bit < 8 * m.n; bit++) {
        m.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        good += judged(ctx, m.at, m.n) == SN_OK;
        m.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    cr_expect(good > 0 && good < 8 * m.n / 2, "%u", good);
    sn_context_destroy(ctx);
}

/* ---- elements ---- */

/* 0, 1, 5 in every type; a number of 8 bytes serves for 4 and 2 of little endian, halves are 0x3c00 and 0x4500. */
static uint64_t bits_of(sn_dtype dtype, double value) {
    uint64_t bits = 0;
    if (sn_is_float(dtype)) sn_store_float(dtype, &bits, value);
    else sn_store_int(dtype, &bits, (int64_t)value);
    return bits;
}

typedef struct row {
    int64_t number;
    sn_dtype dtype;
    const char *member;
} row;

static const row rows[] = {
#define SN_ONNX_DTYPE(number, name, dtype, member) {number, dtype, #member},
#include "frontend/onnx/dtypes.def"
#undef SN_ONNX_DTYPE
};

static const double values[] = {0, 1, 5};

/* The field where a type's elements are typed, written by the specification: packed or one by one. */
static void put_typed_elements(pb *t, const row *r, bool packed) {
    pb list = {0};
    uint32_t field = !strcmp(r->member, "FLOATS")    ? 4
                     : !strcmp(r->member, "DOUBLES") ? 10
                     : !strcmp(r->member, "LONGS")   ? 7
                     : !strcmp(r->member, "ULONGS")  ? 11
                                                     : 5;
    for (size_t k = 0; k < SN_COUNT(values); k++) {
        uint64_t bits = bits_of(r->dtype, values[k]);
        if (field == 4 || field == 10) {
            size_t size = field == 4 ? 4 : 8;
            if (!packed) put_varint(t, field << 3 | (size == 4 ? 5 : 1));
            pb *to = packed ? &list : t;
            memcpy(to->at + to->n, &bits, size);
            to->n += size;
        } else if (packed) {
            put_varint(&list, bits);
        } else {
            put_int(t, field, (int64_t)bits);
        }
    }
    if (packed) put_message(t, field, &list);
}

typedef struct elements_test {
    const pb *tensor;
    const row *row;
} elements_test;

static sn_status check_elements(sn_context *ctx, void *user) {
    const elements_test *t = user;
    sn_pb_tensor tensor;
    sn_onnx_elements e;
    SN_TRY(sn_pb_read_tensor(&tensor, &ctx->env, &ctx->scratch, "t.pb", (sn_bytes){t->tensor->at, t->tensor->n}));
    SN_TRY(sn_onnx_tensor_elements(&e, &ctx->env, &ctx->scratch, NULL, &tensor));
    cr_assert(e.dtype == t->row->dtype && e.rank == 1 && e.numel == 3);
    for (size_t k = 0; k < 3; k++) {
        uint64_t want = bits_of(e.dtype, values[k]);
        size_t size = sn_dtype_bytes(e.dtype);
        cr_expect_eq(memcmp((const char *)e.data + k * size, &want, size), 0, "%s, element %zu",
                     sn_dtypes[e.dtype].name, k);
    }
    return SN_OK;
}

Test(onnx_read, elements_of_every_type) {
    sn_context *ctx = new_context();
    for (size_t k = 0; k < SN_COUNT(rows); k++) {
        const row *r = &rows[k];
        size_t size = sn_dtype_bytes(r->dtype);
        uint8_t raw[24];
        for (size_t j = 0; j < 3; j++) memcpy(raw + j * size, &(uint64_t){bits_of(r->dtype, values[j])}, size);
        pb one = tensor_raw("t", (int)r->number, "3", raw, 3 * size);
        pb packed = tensor_head("t", (int)r->number, "3"), single = packed;
        put_typed_elements(&packed, r, true);
        put_typed_elements(&single, r, false);
        const pb *forms[] = {&one, &packed, &single};
        for (size_t j = 0; j < SN_COUNT(forms); j++)
            cr_expect_eq(sn_guarded(ctx, check_elements, &(elements_test){forms[j], r}), SN_OK, "%s: %s",
                         sn_dtypes[r->dtype].name, sn_error(ctx));
    }
    sn_context_destroy(ctx);
}

static void refused_initializer(const pb *tensor, const char *why) {
    pb g = {0};
    put_message(&g, GRAPH_INITIALIZER, tensor);
    put_op(&g, "Identity", "w", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    refused(&m, why);
}

Test(onnx_read, elements_that_do_not_fit) {
    static const float four[4] = {0};
    pb t = tensor_raw("w", F32, "2 3", four, 16);
    refused_initializer(&t, "w: 16 bytes of elements for 6 elements of f32");
    t = tensor_head("w", F32, "2");
    put_float(&t, 4, 1);
    refused_initializer(&t, "w: 1 elements in the file for a shape of 2");
    t = tensor_raw("w", 14, "1", four, 8);
    refused_initializer(&t, "element type COMPLEX64 (14)");
    t = tensor_head("w", 8, "2");
    put_text(&t, 6, "one");
    refused_initializer(&t, "1 texts do not fill their shape: w");
    t = tensor_raw("w", 22, "5", four, 2);
    refused_initializer(&t, "w: 2 bytes of elements for 5 elements of 4 bits");
    t = tensor_raw("w", 99, "1", four, 4);
    refused_initializer(&t, "element type unknown (99)");
    t = tensor_raw("w", F32, "-2", four, 16);
    refused_initializer(&t, "w: size -2 of axis 0");
    t = tensor_raw("w", F32, "4611686018427387904 4", four, 16);
    refused_initializer(&t, "w: too many elements");
    t = tensor_raw("w", F64, "2305843009213693952 1", four, 0);
    refused_initializer(&t, "w: 0 bytes of elements for 2305843009213693952 elements of f64");
    t = tensor_raw("w", F32, "1 1 1 1 1 1 1 1 1", four, 4);
    refused_initializer(&t, "w: rank 9; at most 8 axes");
}

/* ---- external data ---- */

typedef struct folder {
    char dir[64], data[96];
} folder;

static folder make_folder(void) {
    folder f = {.dir = "/tmp/sinter-onnx-XXXXXX"};
    static const float numbers[] = {9, 1, 2, 3};
    cr_assert(mkdtemp(f.dir));
    snprintf(f.data, sizeof f.data, "%s/w.bin", f.dir);
    FILE *out = fopen(f.data, "wb");
    fwrite(numbers, 1, sizeof numbers, out);
    fclose(out);
    return f;
}

static void remove_folder(const folder *f) {
    unlink(f->data);
    cr_expect_eq(rmdir(f->dir), 0);
}

/* w: f32[3] at a place; NULL: without that entry. */
static pb external_model(const char *location, const char *offset, const char *length) {
    pb g = {0}, t = tensor_head("w", F32, "3");
    if (location) put_entry(&t, "location", location);
    if (offset) put_entry(&t, "offset", offset);
    if (length) put_entry(&t, "length", length);
    put_int(&t, TENSOR_LOCATION, 1);
    put_message(&g, GRAPH_INITIALIZER, &t);
    put_value(&g, GRAPH_INPUT, "x", F32, "3");
    put_op(&g, "Add", "x w", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    return model_of(&g, 17);
}

Test(onnx_read, external_data) {
    static const struct {
        const char *location, *offset, *length, *error;
    } cases[] = {
        {"w.bin", "4", "12", NULL},
        {"w.bin", "4", NULL, NULL},
        {"./w.bin", "4", "12", NULL},
        {"w.bin", NULL, NULL, "w: 16 bytes of elements for 3 elements of f32"},
        {"w.bin", "8", "12", "w: external data at 8 + 12 of w.bin, which has 16 bytes"},
        {"w.bin", "17", NULL, "w: external data at 17 + 0 of w.bin, which has 16 bytes"},
        {"w.bin", "4", "18446744073709551615", "w: external data at 4 + 18446744073709551615 of w.bin"},
        {"w.bin", "18446744073709551616", NULL, "w: external data with offset 18446744073709551616"},
        {"w.bin", "-4", "12", "w: external data with offset -4"},
        {"w.bin", "4 bytes", "12", "w: external data with offset 4 bytes"},
        {"other.bin", "4", "12", "other.bin: No such file or directory"},
        {"../w.bin", NULL, NULL, "w: external data at ../w.bin, outside of the model's folder"},
        {"a/../../w.bin", NULL, NULL, "outside of the model's folder"},
        {"..", NULL, NULL, "outside of the model's folder"},
        {"/etc/passwd", NULL, NULL, "w: external data at /etc/passwd, outside of the model's folder"},
        {"", NULL, NULL, "w: external data without a location"},
        {"pipe", "4", "12", "w: external data at pipe, which is no file"},
        {".", NULL, NULL, "Is a directory"},
        {NULL, "4", "12", "w: external data without a location"},
    };
    folder f = make_folder();
    sn_context *ctx = new_context();
    char pipe[96];
    snprintf(pipe, sizeof pipe, "%s/pipe", f.dir);
    cr_assert_eq(mkfifo(pipe, 0600), 0);
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        pb m = external_model(cases[k].location, cases[k].offset, cases[k].length);
        sn_graph *g;
        sn_status status = sn_import_onnx_memory(&g, ctx, "m.onnx", m.at, m.n, f.dir, NULL);
        if (!cases[k].error) cr_expect_eq(status, SN_OK, "%s", sn_error(ctx));
        else
            cr_expect(status != SN_OK && strstr(sn_error(ctx), cases[k].error), "%s\n  instead of: %s", sn_error(ctx),
                      cases[k].error);
        sn_graph_destroy(g);
    }
    pb m = external_model("w.bin", "4", "12");
    refused(&m, "w: its elements are in a file w.bin, and no folder is given");
    sn_context_destroy(ctx);
    unlink(pipe);
    remove_folder(&f);
}

static void expect_sum(sn_program *p, const float *x, const float *want) {
    float got[3];
    sn_tensor *in, *out;
    cr_assert_eq(sn_tensor_for_input(&in, p, 0), SN_OK);
    cr_assert_eq(sn_tensor_for_output(&out, p, 0), SN_OK);
    cr_assert_eq(sn_tensor_write(in, x, 12), SN_OK);
    cr_assert_eq(sn_run(p, &in, &out, NULL), SN_OK);
    cr_assert_eq(sn_tensor_read(got, out, 12), SN_OK);
    for (int k = 0; k < 3; k++) cr_expect_eq(got[k], want[k]);
    sn_tensor_destroy(in);
    sn_tensor_destroy(out);
}

/* The program needs no graph, and the file may be gone. */
Test(onnx_read, mapped_weights_live_as_long_as_the_program) {
    folder f = make_folder();
    sn_context *ctx = new_context();
    pb m = external_model("w.bin", "4", "12");
    char path[96];
    snprintf(path, sizeof path, "%s/m.onnx", f.dir);
    FILE *out = fopen(path, "wb");
    fwrite(m.at, 1, m.n, out);
    fclose(out);
    sn_graph *g;
    sn_program *p;
    cr_assert_eq(sn_import_onnx(&g, ctx, path, NULL), SN_OK, "%s", sn_error(ctx));
    unlink(path);
    remove_folder(&f);
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu"};
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    sn_graph_destroy(g);
    expect_sum(p, (float[]){10, 20, 30}, (float[]){11, 22, 33});
    sn_program_destroy(p);
    sn_context_destroy(ctx);
}

/* ---- small models that stand for much ---- */

/* f0 calls f1 twice, f1 calls f2 twice, ... */
Test(onnx_read, functions_that_call_each_other_twice) {
    pb g = {0}, m;
    put_value(&g, GRAPH_INPUT, "x", F32, "2");
    pb call = call_of("f0", "x", "y");
    put_message(&g, GRAPH_NODE, &call);
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    m = model_of(&g, 17);
    for (int k = 0; k < 40; k++) {
        char name[8], next[8];
        snprintf(name, sizeof name, "f%d", k);
        snprintf(next, sizeof next, "f%d", k + 1);
        pb f = function_of(name, "a", "c", 17), n = k < 39 ? call_of(next, "a", "b") : node_of("Relu", "a", "b");
        put_message(&f, FUNCTION_NODE, &n);
        n = k < 39 ? call_of(next, "b", "c") : node_of("Neg", "b", "c");
        put_message(&f, FUNCTION_NODE, &n);
        put_message(&m, MODEL_FUNCTION, &f);
    }
    refused(&m,
            "m.onnx: more than 524288 nodes, operands and attributes, where functions and iterations are written out");
}

Test(onnx_read, a_function_that_calls_itself) {
    pb g = {0}, f = function_of("f", "a", "b", 17), n = call_of("f", "a", "b"), call = call_of("f", "x", "y");
    put_value(&g, GRAPH_INPUT, "x", F32, "2");
    put_message(&g, GRAPH_NODE, &call);
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    put_message(&f, FUNCTION_NODE, &n);
    pb m = model_of(&g, 17);
    put_message(&m, MODEL_FUNCTION, &f);
    refused(&m, "functions and bodies nest more than 64 deep");
}

/* A shape of 2^40 elements that the import would have to look at. */
Test(onnx_read, huge_tensors_are_not_computed) {
    static const int64_t big[] = {1 << 20, 1 << 20}, zero[] = {0};
    pb g = {0};
    put_i64s(&g, "big", "2", big, 2);
    put_i64s(&g, "zero", "1", zero, 1);
    put_op(&g, "Expand", "zero big", "huge");
    put_op(&g, "Unsqueeze", "huge huge", "y");
    put_value(&g, GRAPH_OUTPUT, "y", I64, NULL);
    pb m = model_of(&g, 17);
    refused(&m, "more than 8388608 elements would have to be computed at import");
}

/* What refuses a large one leaves small ones known. */
Test(onnx_read, small_ones_are_known_beside_huge_ones) {
    static const int64_t big[] = {1 << 20, 1 << 20}, zero[] = {0};
    pb g = {0};
    put_i64s(&g, "big", "2", big, 2);
    put_i64s(&g, "zero", "1", zero, 1);
    put_op(&g, "Expand", "zero big", "huge");
    put_op(&g, "Range", "huge huge huge", "r");
    put_op(&g, "Identity", "zero", "axes");
    put_op(&g, "Neg", "axes", "minus");
    put_op(&g, "Unsqueeze", "zero minus", "y");
    put_value(&g, GRAPH_OUTPUT, "y", I64, NULL);
    pb m = model_of(&g, 17);
    sn_context *ctx = new_context();
    cr_assert_neq(judged(ctx, m.at, m.n), SN_OK);
    cr_expect(strstr(sn_error(ctx), "1 x Range") && !strstr(sn_error(ctx), "Unsqueeze"), "%s", sn_error(ctx));
    sn_context_destroy(ctx);
}

/* Element 5 of a shape of 2: no elements, rather than those that were there by chance. */
Test(onnx_read, what_cannot_be_computed_is_not_known) {
    static const int64_t five[] = {5};
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "2 3");
    put_i64s(&g, "five", "1", five, 1);
    put_op(&g, "Shape", "x", "s");
    put_op(&g, "Gather", "s five", "n");
    put_op(&g, "Unsqueeze", "x n", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    refused(&m, "Unsqueeze (opset 17): ");
}

Test(onnx_read, long_sequences_are_repeats) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "1099511627776 1 1");
    put_value(&g, GRAPH_INPUT, "w", F32, "1 1 1");
    put_op(&g, "RNN", "x w w", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    sn_context *ctx = new_context();
    cr_expect_eq(judged(ctx, m.at, m.n), SN_OK, "%s", sn_error(ctx));
    sn_context_destroy(ctx);
}

Test(onnx_read, windows_that_are_too_large) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "1 1 2 2 2 2");
    put_value(&g, GRAPH_INPUT, "w", F32, "1 1 1 1 1 1");
    put_value(&g, GRAPH_INPUT, "row", F32, "1 1 8");
    put_value(&g, GRAPH_INPUT, "wide", F32, "1 1 4611686018427387904");
    put_op(&g, "ConvTranspose", "x w", "y");
    put_op(&g, "Conv", "row wide", "z");
    put_value(&g, GRAPH_INPUT, "deep", F32, "1 1 2 2 2 2 2");
    put_value(&g, GRAPH_INPUT, "taps", F32, "1 1 1 1 1 1 1");
    put_op(&g, "Conv", "deep taps", "v");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    refused(&m, "ConvTranspose (opset 17): a convolution over 4 axes; at most 3");
    refused(&m, "Conv (opset 17): a window of 4611686018427387904 elements");
    refused(&m, "Conv (opset 17): a convolution over 5 axes; at most 4");
}

/* One node on x of a few or very many elements, bytes b of as many, and constant n. */
static void refused_node(pb node, const char *dims, int64_t n0, int64_t n1, const char *why) {
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, dims);
    put_value(&g, GRAPH_INPUT, "b", U8, dims);
    put_i64s(&g, "n", "", &n0, 1);
    put_i64s(&g, "list", "2", (int64_t[]){n0, n1}, 2);
    put_message(&g, GRAPH_NODE, &node);
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 20);
    refused(&m, why);
}

Test(onnx_read, parts_and_tables_that_are_too_large) {
    pb split = node_of("Split", "x", "y");
    put_attr_int(&split, "num_outputs", 4000000000);
    int64_t huge = (int64_t)1 << 40;
    refused_node(split, "8", 0, 0, "4000000000 parts, 1 results");
    refused_node(node_of("Split", "x list", "y z"), "8", INT64_MAX, INT64_MAX, "a part of size 9223372036854775807");
    refused_node(node_of("Pad", "x list", "y"), "2", INT64_MIN, 0, "pads -9223372036854775808 and 0");
    refused_node(node_of("SplitToSequence", "x", "y"), "1099511627776", 0, 0, "1099511627776 parts; at most 65536");
    refused_node(node_of("HannWindow", "n", "y"), "2", huge, 0,
                 "tables of more than 33554432 elements would have to be computed");
}

Test(onnx_read, scales_that_are_no_sizes) {
    static const float scales[] = {1, 1e-30F};
    pb g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "2 N");
    put_f32s(&g, "scales", "2", scales, 2);
    put_op(&g, "Resize", "x - scales", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    refused(&m, "Resize (opset 17): scale 1e-30: y");
}

Test(onnx_read, a_node_with_very_many_attributes) {
    pb n = node_of("LeakyRelu", "x", "y");
    for (int k = 0; k < 70; k++) {
        char name[8];
        snprintf(name, sizeof name, "a%d", k);
        put_attr_int(&n, k == 69 ? "alpha" : name, k);
    }
    refused_node(n, "2", 0, 0, "attribute a0 is not supported");
}

/* Operands of ranks and types that an operator does not take. */
Test(onnx_read, operands_that_do_not_fit) {
    pb rnn = node_of("GRU", "x x x list", "y"), blocks = node_of("QuantizeLinear", "n n", "y");
    put_attr_int(&blocks, "block_size", 2);
    refused_node(rnn, "2 3 4", 0, 0, "operand 4 has rank 1, not 2");
    refused_node(blocks, "2", 0, 0, "block_size 2 with scales of shape i64[]");
    pb det = node_of("Det", "b", "y"), g = {0};
    put_value(&g, GRAPH_INPUT, "b", BOOL, "4 4");
    put_message(&g, GRAPH_NODE, &det);
    put_value(&g, GRAPH_OUTPUT, "y", BOOL, NULL);
    pb m = model_of(&g, 17);
    refused(&m, "1 x Det (opset 17)");
}

/* Operators of onnxruntime that are one of ONNX between others. */
Test(onnx_read, quantised_operators_of_onnxruntime) {
    pb softmax = node_of("QLinearSoftmax", "b x b x b", "y"), concat = node_of("QLinearConcat", "x x x x x x", "y");
    pb add = node_of("QLinearAdd", "x x x x x x x", "y"), mul = node_of("QLinearMul", "b x b b x b x b", "y");
    pb gemm = node_of("QGemm", "b x b b x b", "y"), plain = node_of("QLinearAdd", "b x b b x b x b", "y");
    put_attr_int(&softmax, "opset", -5);
    put_attr_int(&softmax, "axis", 0);
    put_text(&softmax, NODE_DOMAIN, "com.microsoft");
    put_text(&concat, NODE_DOMAIN, "com.microsoft");
    put_text(&add, NODE_DOMAIN, "com.microsoft");
    put_text(&mul, NODE_DOMAIN, "com.microsoft");
    put_text(&gemm, NODE_DOMAIN, "com.microsoft");
    refused_node(softmax, "1", 0, 0, "Softmax is not supported in opset -5");
    refused_node(concat, "1", 0, 0, "6 operands; scale, zero point, and three for each tensor are wanted");
    refused_node(add, "1", 0, 0, "operand 1 has elements of f32; integers of 8 or 16 bits or i32 are wanted");
    refused_node(mul, "2", 0, 0, "operand 3 has shape u8[2]; one number is wanted");
    refused_node(gemm, "2 3 4", 0, 0, "operand 1 has rank 3; a matrix is wanted");
    refused_node(plain, "1", 0, 0, "the operator is one of domain com.microsoft");
    refused_node(node_of("DequantizeLinear", "x x", "y"), "1", 0, 0, "operand 1 has elements of f32");
}

/* Products with weights of few bits. */
static void refused_nbits(const char *operands, int64_t bits, int64_t block, const char *why) {
    pb n = node_of("MatMulNBits", operands, "y");
    put_text(&n, NODE_DOMAIN, "com.microsoft");
    put_attr_int(&n, "N", 4);
    put_attr_int(&n, "K", 32);
    put_attr_int(&n, "bits", bits);
    put_attr_int(&n, "block_size", block);
    refused_node(n, "4 32", 0, 0, why);
}

Test(onnx_read, packed_weights_that_are_none) {
    refused_nbits("x x x", 3, 16, "weights of 3 bits; 2, 4 and 8 are supported");
    refused_nbits("x x x", 4, 1, "32 x 4 weights in blocks of 1");
    refused_nbits("x x x", 4, 16, "packed weights of f32; bytes (u8) are wanted");
}

/* Blocks of columns: one for each. */
Test(onnx_read, packed_weights_in_another_order) {
    pb n = node_of("MatMulNBits", "x w s - list", "y"), g = {0};
    put_text(&n, NODE_DOMAIN, "com.microsoft");
    put_attr_int(&n, "N", 4);
    put_attr_int(&n, "K", 32);
    put_attr_int(&n, "block_size", 16);
    put_value(&g, GRAPH_INPUT, "x", F32, "1 32");
    put_value(&g, GRAPH_INPUT, "w", U8, "4 2 8");
    put_value(&g, GRAPH_INPUT, "s", F32, "4 2");
    put_i64s(&g, "list", "3", (int64_t[]){0, 1, 0}, 3);
    put_message(&g, GRAPH_NODE, &n);
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 20);
    refused(&m, "blocks of columns (operand g_idx) in i64[3]; 32 integers are wanted");
}

/* An output is of the dtype that the model declares. */
Test(onnx_read, outputs_of_another_dtype) {
    pb n = node_of("Neg", "x", "y"), g = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "2");
    put_message(&g, GRAPH_NODE, &n);
    put_value(&g, GRAPH_OUTPUT, "y", U8, NULL);
    pb m = model_of(&g, 20);
    refused(&m, "it has elements of f32, the model declares u8: y");
}
