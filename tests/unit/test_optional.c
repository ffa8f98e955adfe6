/* test_optional.c: inputs that a run may leave out: in text, by the builder, from ONNX; in runs, checks, images and libsinter-rt. What
 * has no default stays required, and the message names it.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/sinter/rt.h"
#include "include/sinter/sinter.h"
#include "tests/unit/onnx_file.h"

/* y = x * scale + bias */
static const char affine[] = "graph @f(%x: f32[2, 3], %scale: f32[] = [2.5], %bias: f32[3] = [1.0, -2.0, 0.25]) {\n"
                             "  %m = mul %x, %scale : f32[2, 3]\n"
                             "  %y = add %m, %bias : f32[2, 3]\n"
                             "  return y = %y\n"
                             "}\n";
static const float x[6] = {0, 1, 2, 3, 4, 5};

typedef struct fixture {
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    sn_tensor *in[3], *out[1];
} fixture;

static fixture begin(void) {
    fixture f = {0};
    cr_assert_eq(sn_context_create(&f.ctx, NULL), SN_OK);
    return f;
}

static void end(fixture *f) {
    for (int k = 0; k < 3; k++) sn_tensor_destroy(f->in[k]);
    sn_tensor_destroy(f->out[0]);
    sn_program_destroy(f->p);
    sn_graph_destroy(f->g);
    sn_context_destroy(f->ctx);
}

static void read_text(fixture *f, const char *text) {
    cr_assert_eq(sn_graph_from_text(&f->g, f->ctx, "f", text, strlen(text)), SN_OK, "%s", sn_error(f->ctx));
}

static void compile(fixture *f) {
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    cr_assert_eq(sn_compile(&f->p, f->g, &o), SN_OK, "%s", sn_error(f->ctx));
    cr_assert_eq(sn_tensor_for_input(&f->in[0], f->p, 0), SN_OK);
    cr_assert_eq(sn_tensor_write(f->in[0], x, sizeof x), SN_OK);
    cr_assert_eq(sn_tensor_for_output(&f->out[0], f->p, 0), SN_OK);
}

static void expect(fixture *f, float scale, const float bias[3]) {
    float y[6];
    cr_assert_eq(sn_run(f->p, f->in, f->out, NULL), SN_OK, "%s", sn_error(f->ctx));
    cr_assert_eq(sn_tensor_read(y, f->out[0], sizeof y), SN_OK);
    for (int i = 0; i < 6; i++) cr_expect_float_eq(y[i], x[i] * scale + bias[i % 3], 1e-6, "%d: %g", i, y[i]);
}

static const float usual[3] = {1, -2, 0.25f}, zeros[3];

Test(optional, inputs_may_be_left_out) {
    fixture f = begin();
    sn_port port;
    float other[3] = {10, 20, 30};
    read_text(&f, affine);
    compile(&f);
    cr_assert_eq(sn_program_input(&port, f.p, 0), SN_OK);
    cr_expect(!port.optional);
    cr_assert_eq(sn_program_input(&port, f.p, 2), SN_OK);
    cr_expect(port.optional);
    expect(&f, 2.5f, usual);
    cr_assert_eq(sn_tensor_for_input(&f.in[2], f.p, 2), SN_OK);
    cr_assert_eq(sn_tensor_write(f.in[2], other, sizeof other), SN_OK);
    expect(&f, 2.5f, other);
    sn_tensor_destroy(f.in[2]);
    f.in[2] = NULL; /* and it is the default again */
    expect(&f, 2.5f, usual);
    end(&f);
}

Test(optional, others_are_required_by_name) {
    fixture f = begin();
    read_text(&f, affine);
    compile(&f);
    sn_tensor *none[3] = {NULL, NULL, NULL};
    cr_expect_eq(sn_run(f.p, none, f.out, NULL), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_error(f.ctx), "input x: no tensor given");
    cr_expect_eq(sn_run(f.p, NULL, f.out, NULL), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_error(f.ctx), "input x: no tensor given");
    end(&f);
}

Test(optional, text_says_them_again) {
    fixture f = begin();
    char *text;
    read_text(&f, affine);
    cr_assert_eq(sn_graph_text(&text, f.g), SN_OK);
    cr_expect_str_eq(text, affine);
    sn_free(f.ctx, text);
    end(&f);
}

Test(optional, a_check_takes_the_default) {
    fixture f = begin();
    sn_check check;
    read_text(&f, affine);
    compile(&f);
    cr_expect_eq(sn_program_check(&check, f.p, f.in, f.out, false), SN_OK, "%s", sn_error(f.ctx));
    cr_expect(check.ok);
    end(&f);
}

/* One value for all elements, also of a size that is a name. */
Test(optional, the_builder_sets_them) {
    fixture f = begin();
    float one = 2, bias[3] = {1, -2, 0.25f};
    cr_assert_eq(sn_graph_create(&f.g, f.ctx, "f"), SN_OK);
    sn_node a = sn_input(f.g, "x", SN_F32, SN_LIST(sn_dim(f.g, "N"), 3)),
            s = sn_input(f.g, "scale", SN_F32, SN_LIST(sn_dim(f.g, "N"), 3)),
            b = sn_input(f.g, "bias", SN_F32, SN_LIST(3)), y = sn_add(f.g, sn_mul(f.g, a, s), b);
    cr_assert_eq(sn_input_default(f.g, s, &one, sizeof one), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_eq(sn_input_default(f.g, b, &one, sizeof one), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_eq(sn_input_default(f.g, b, bias, sizeof bias), SN_OK, "%s", sn_error(f.ctx)); /* the last one counts */
    cr_assert_eq(sn_output(f.g, "y", y), SN_OK, "%s", sn_error(f.ctx));
    sn_compile_options o = {
        .struct_size = sizeof o, .device = "cpu", .threads = 1, .dims = &(sn_dim_binding){"N", 2}, .n_dims = 1};
    cr_assert_eq(sn_compile(&f.p, f.g, &o), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_eq(sn_tensor_for_input(&f.in[0], f.p, 0), SN_OK);
    cr_assert_eq(sn_tensor_write(f.in[0], x, sizeof x), SN_OK);
    cr_assert_eq(sn_tensor_for_output(&f.out[0], f.p, 0), SN_OK);
    expect(&f, 2, bias);
    end(&f);
}

static void refuse(fixture *f, sn_node input, const void *elements, size_t size, const char *says) {
    cr_expect_eq(sn_input_default(f->g, input, elements, size), SN_ERROR_ARGUMENT, "%s", says);
    cr_expect(strstr(sn_error(f->ctx), says), "%s", sn_error(f->ctx));
}

Test(optional, bad_defaults_are_refused) {
    fixture f = begin();
    static const float many[6] = {0};
    unsigned char two = 2;
    cr_assert_eq(sn_graph_create(&f.g, f.ctx, "f"), SN_OK);
    int64_t shape[2] = {2, 3}, strides[2] = {1, 2};
    sn_node a = sn_input(f.g, "a", SN_F32, 2, shape), t = sn_input_strided(f.g, "t", SN_F32, 2, shape, strides, 0),
            n = sn_input(f.g, "n", SN_F32, SN_LIST(sn_dim(f.g, "N"))), b = sn_input(f.g, "b", SN_BOOL, SN_LIST(2));
    refuse(&f, a, many, 7, "input a: a default of 7 bytes; those of one element or of all are wanted");
    refuse(&f, a, many, 2 * sizeof *many, "input a: a default of 8 bytes");
    refuse(&f, a, many, 0, "input a: a default of 0 bytes");
    refuse(&f, t, many, sizeof many, "input t: one with strides of its own has no default");
    refuse(&f, n, many, sizeof many, "input n: a default of 24 bytes");
    refuse(&f, sn_neg(f.g, a), many, sizeof many, "input is a value that is computed");
    refuse(&f, (sn_node){0}, many, sizeof many, "sn_input_default");
    cr_expect_eq(sn_input_default(f.g, b, &two, 1), SN_OK, "%s", sn_error(f.ctx)); /* not 0 is true */
    cr_expect_eq(sn_input_default(f.g, a, NULL, 4), SN_ERROR_ARGUMENT);
    cr_expect_eq(sn_input_default(NULL, a, many, 4), SN_ERROR_ARGUMENT);
    end(&f);
}

static void refuse_text(const char *input, const char *says) {
    fixture f = begin();
    char text[256];
    snprintf(text, sizeof text, "graph @f(%s) {\n  %%y = neg %%x\n  return y = %%y\n}\n", input);
    cr_expect_neq(sn_graph_from_text(&f.g, f.ctx, "f", text, strlen(text)), SN_OK, "%s", input);
    cr_expect(strstr(sn_error(f.ctx), says), "%s: %s", input, sn_error(f.ctx));
    end(&f);
}

Test(optional, bad_texts_are_refused) {
    refuse_text("%x: f32[2] = [1, 2, 3]", "f:1:10: input x: a default of 3 elements for f32[2]; 1 or all are wanted");
    refuse_text("%x: f32[2] = []", "a default of 0 elements");
    refuse_text("%x: f32[N] = [1, 2]", "a default of 2 elements for f32[N]");
    refuse_text("%x: f16[2] = [70000]", "element 0 of its default is not a value of f16");
    refuse_text("%x: i8[2] = [1, 300]", "element 1 of its default is not a value of i8");
    refuse_text("%x: i32[2] = [1.5]", "element 0 of its default is not a value of i32");
    refuse_text("%x: u64[] = [-1]", "element 0 of its default is not a value of u64");
    refuse_text("%x: i64[] = [18446744073709551615]", "element 0 of its default is not a value of i64");
    refuse_text("%x: f32[2, 3] = [0] strides [1, 2]", "one with strides of its own has no default");
    refuse_text("%x: f32[2] = 1", "expected '['");
}

Test(optional, all_dtypes_come_back) {
    static const char text[] = "graph @f(%a: u64[] = [18446744073709551615], %b: i64[] = [-9223372036854775808], "
                               "%c: bool[2] = [0, 1], %d: f64[] = [0.1], %e: bf16[] = [inf]) {\n"
                               "  return a = %a, b = %b, c = %c, d = %d, e = %e\n"
                               "}\n";
    fixture f = begin();
    char *again;
    read_text(&f, text);
    cr_assert_eq(sn_graph_text(&again, f.g), SN_OK);
    cr_expect_str_eq(again, text);
    sn_free(f.ctx, again);
    end(&f);
}

/* Its new value would be lost. */
Test(optional, what_is_written_has_to_be_given) {
    static const char text[] = "graph @f(%x: f32[2, 3], %n: f32[2, 3] = [1]) {\n"
                               "  %y = add %n, %x\n"
                               "  return y = %y writes %n\n"
                               "}\n";
    fixture f = begin();
    sn_port port;
    sn_tensor *in[2], *out[1] = {NULL};
    read_text(&f, text);
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    cr_assert_eq(sn_compile(&f.p, f.g, &o), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_eq(sn_program_input(&port, f.p, 1), SN_OK);
    cr_expect(!port.optional);
    cr_assert_eq(sn_tensor_for_input(&f.in[0], f.p, 0), SN_OK);
    in[0] = f.in[0], in[1] = NULL;
    cr_expect_eq(sn_run(f.p, in, out, NULL), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_error(f.ctx), "input n: no tensor given");
    end(&f);
}

/* ---- images ---- */

static void save(fixture *f, char *path) {
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    cr_assert_eq(sn_program_save(f->p, path), SN_OK, "%s", sn_error(f->ctx));
}

Test(optional, images_have_them) {
    char path[] = "/tmp/sinter-optional-XXXXXX";
    fixture f = begin();
    sn_port port;
    read_text(&f, affine);
    compile(&f);
    save(&f, path);
    sn_program_destroy(f.p);
    cr_assert_eq(sn_program_load(&f.p, f.ctx, path, NULL), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_eq(sn_program_input(&port, f.p, 1), SN_OK);
    cr_expect(port.optional);
    expect(&f, 2.5f, usual);
    unlink(path);
    end(&f);
}

Test(optional, so_has_rt) {
    char path[] = "/tmp/sinter-optional-XXXXXX";
    fixture f = begin();
    read_text(&f, affine);
    compile(&f);
    save(&f, path);
    sn_rt *rt;
    sn_rt_program *p;
    sn_rt_state *st;
    sn_rt_port port;
    float y[6], bias[3] = {3, 2, 1};
    const void *in[3] = {x, NULL, NULL};
    void *out[1] = {y};
    cr_assert_eq(sn_rt_create(&rt), SN_OK);
    cr_assert_eq(sn_rt_load(&p, rt, path, NULL), SN_OK, "%s", sn_rt_error(rt));
    cr_assert_eq(sn_rt_input(&port, p, 0), SN_OK);
    cr_expect(!port.optional);
    cr_assert_eq(sn_rt_input(&port, p, 2), SN_OK);
    cr_expect(port.optional);
    cr_assert_eq(sn_rt_state_create(&st, p), SN_OK);
    cr_assert_eq(sn_rt_run(st, in, out, NULL), SN_OK, "%s", sn_rt_state_error(st));
    for (int i = 0; i < 6; i++) cr_expect_float_eq(y[i], x[i] * 2.5f + usual[i % 3], 1e-6);
    in[2] = bias;
    cr_assert_eq(sn_rt_run(st, in, out, NULL), SN_OK, "%s", sn_rt_state_error(st));
    for (int i = 0; i < 6; i++) cr_expect_float_eq(y[i], x[i] * 2.5f + bias[i % 3], 1e-6);
    in[0] = NULL;
    cr_expect_eq(sn_rt_run(st, in, out, NULL), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_rt_state_error(st), "input x: no storage was given");
    sn_rt_state_destroy(st);
    sn_rt_program_destroy(p);
    sn_rt_destroy(rt);
    unlink(path);
    end(&f);
}

/* ---- ONNX ---- */

enum { IR_VERSION = 1 };

/* x * scale, scale an input with an initializer; ir_version 0: none is said. */
static pb scaled(int64_t ir_version) {
    static const float scale[3] = {1, 2, 4};
    pb g = {0}, version = {0};
    put_value(&g, GRAPH_INPUT, "x", F32, "2 3");
    put_value(&g, GRAPH_INPUT, "scale", F32, "3");
    put_f32s(&g, "scale", "3", scale, 3);
    put_op(&g, "Mul", "x scale", "y");
    put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(&g, 17);
    put_int(&version, IR_VERSION, ir_version);
    memcpy(m.at + m.n, version.at, version.n);
    m.n += version.n;
    return m;
}

static void import(fixture *f, const pb *m) {
    cr_assert_eq(sn_import_onnx_memory(&f->g, f->ctx, "m.onnx", m->at, m->n, NULL, NULL), SN_OK, "%s",
                 sn_error(f->ctx));
}

Test(optional, an_onnx_input_with_an_initializer_is_one) {
    fixture f = begin();
    pb m = scaled(8);
    float y[6];
    import(&f, &m);
    cr_assert_eq(sn_graph_input_count(f.g), 2);
    compile(&f);
    cr_assert_eq(sn_run(f.p, f.in, f.out, NULL), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_eq(sn_tensor_read(y, f.out[0], sizeof y), SN_OK);
    for (int i = 0; i < 6; i++) cr_expect_eq(y[i], x[i] * (float)(1 << i % 3));
    cr_assert_eq(sn_tensor_for_input(&f.in[1], f.p, 1), SN_OK);
    cr_assert_eq(sn_tensor_write(f.in[1], zeros, sizeof zeros), SN_OK);
    cr_assert_eq(sn_run(f.p, f.in, f.out, NULL), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_eq(sn_tensor_read(y, f.out[0], sizeof y), SN_OK);
    for (int i = 0; i < 6; i++) cr_expect_eq(y[i], 0);
    end(&f);
}

/* Before version 4 of the format every initializer is an input, too, and is a constant. */
Test(optional, but_not_in_old_models) {
    fixture f = begin();
    pb m = scaled(3);
    import(&f, &m);
    cr_expect_eq(sn_graph_input_count(f.g), 1);
    end(&f);
}
