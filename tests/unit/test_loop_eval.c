/* test_loop_eval.c: the evaluator of Loop IR (ir/loop/eval.c): values, and the accesses that it must refuse. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "ir/module.h"

typedef struct fixture {
    sn_env env;
    sn_module *m;
    sn_arena arena;
    void *memory[16]; /* by buffer id */
} fixture;

static fixture *begin(const char *text) {
    fixture *f = calloc(1, sizeof *f);
    sn_env_init(&f->env);
    f->m = sn_module_new(&f->env);
    sn_arena_init(&f->arena, &f->env);
    cr_assert_eq(sn_module_parse(f->m, "test", text, strlen(text)), SN_OK, "%s", f->env.message);
    cr_assert_eq(sn_module_verify(f->m, "test"), SN_OK, "%s", f->env.message);
    return f;
}

static void bind(fixture *f, const char *name, void *memory) { f->memory[sn_buf_named(f->m, name).i] = memory; }

static void end(fixture *f) {
    sn_arena_free(&f->arena);
    sn_module_free(f->m);
    cr_assert_eq(f->env.bytes_now, 0);
    free(f);
}

static void run(fixture *f) {
    sn_status st = sn_loop_eval(f->m, f->memory, &f->arena);
    cr_assert_eq(st, SN_OK, "%s", f->env.message);
}

static void run_fails(fixture *f, sn_status want, const char *message) {
    cr_assert_eq(sn_loop_eval(f->m, f->memory, &f->arena), want);
    cr_assert(strstr(f->env.message, message), "%s", f->env.message);
    end(f);
}

Test(loop_eval, softmax_through_temps) {
    float x[6] = {1, 2, 3, 0, 0, 0}, y[6];
    fixture *f = begin(
        "buffer x: f32[2, 3] input 0\n buffer t: f32[2] temp\n buffer y: f32[2, 3] output 0\n"
        "kernel @a(x, t) { loop i in 2 { %m = reduce max r in 3 { %0 = load x[3*i + r] yield %0 } store t[i], %m } }\n"
        "kernel @b(x, t, y) { loop i in 2 {\n"
        "  %m = load t[i]\n"
        "  %s = reduce sum r in 3 { %0 = load x[3*i + r] %1 = sub %0, %m %2 = exp %1 yield %2 }\n"
        "  loop r in 3 { %0 = load x[3*i + r] %1 = sub %0, %m %2 = exp %1 %3 = div %2, %s store y[3*i + r], %3 } } }\n");
    bind(f, "x", x);
    bind(f, "y", y);
    run(f);
    cr_assert_float_eq(y[2], exp(0) / (exp(-2) + exp(-1) + 1), 1e-6);
    cr_assert_float_eq(y[4], 1.0 / 3, 1e-6);
    end(f);
}

Test(loop_eval, several_states_and_positions) {
    float x[4] = {2, 7, 7, 1}, sum = 0, top = 0;
    int64_t at = -1;
    fixture *f = begin(
        "buffer x: f32[4] input 0\n buffer s: f32[] output 0\n buffer v: f32[] output 1\n buffer p: i64[] output 2\n"
        "kernel @k(x, s, v, p) {\n"
        "  %s, %v, %p = reduce (sum, argmax) r in 4 { %0 = load x[r] %1 = index.i64 (r) yield %0, %0, %1 }\n"
        "  store s[0], %s store v[0], %v store p[0], %p }\n");
    bind(f, "x", x);
    bind(f, "s", &sum);
    bind(f, "v", &top);
    bind(f, "p", &at);
    run(f);
    cr_assert(sum == 17 && top == 7 && at == 1);
    end(f);
}

Test(loop_eval, gather_mask_if_and_bits) {
    int64_t ix[3] = {2, 0, 5};
    float x[3] = {1.5f, 2.5f, -0.0f}, y[3] = {9, 9, 9};
    int32_t bits[3];
    fixture *f = begin(
        "buffer ix: i64[3] input 0\n buffer x: f32[3] input 1\n buffer y: f32[3] output 0\n buffer b: i32[3] output 1\n"
        "kernel @k(ix, x, y, b) { loop i in 3 {\n"
        "  %i = load ix[i]  %in = in %i, 3  %no = const.f32 -1\n"
        "  %0 = load x[%i] if %in else %no\n"
        "  store y[i], %0 if %in\n"
        "  %bits = bitcast.i32 %0  store b[i], %bits\n"
        "  if i - 2 in 1 { %c = cast.f32 %bits  store y[(i mod 2) + 1 + (3*i + 1) div 7 - 1], %c } } }\n");
    bind(f, "ix", ix);
    bind(f, "x", x);
    bind(f, "y", y);
    bind(f, "b", bits);
    run(f);
    cr_assert(y[0] == 0 && signbit(y[0]) && bits[0] == INT32_MIN && bits[1] == 0x3fc00000);
    cr_assert_eq(y[1], (float)bits[2]); /* i = 2: 0 + 1 + 1 - 1 */
    cr_assert_eq(y[2], 9);
    end(f);
}

Test(loop_eval, const_data_and_half) {
    uint16_t y[2];
    fixture *f = begin("buffer c: f16[2] const data [0.1, 65504]\n buffer y: f16[2] output 0\n"
                       "kernel @k(c, y) { loop i in 2 { %0 = load c[i] %1 = add %0, %0 store y[i], %1 } }\n");
    bind(f, "y", y);
    run(f);
    cr_assert(y[0] == 0x3266 && y[1] == 0x7c00);
    end(f);
}

Test(loop_eval, out_of_bounds) {
    float x[4] = {0};
    fixture *f = begin("buffer x: f32[4] input 0\n buffer y: f32[4] output 0\n"
                       "kernel @k(x, y) { loop i in 4 { %t = index.i64 (2*i) %0 = load x[%t] store y[i], %0 } }\n");
    bind(f, "x", x);
    bind(f, "y", x);
    run_fails(f, SN_ERROR_VERIFY, "kernel @k, `%1 = load x[%0]`: element 4 of 'x', which has 4");
}

Test(loop_eval, unwritten_temp) {
    float y[4];
    fixture *f = begin("buffer t: f32[4] temp\n buffer y: f32[4] output 0\n"
                       "kernel @a(t) { %0 = const.f32 1 loop i in 3 { store t[i], %0 } }\n"
                       "kernel @b(t, y) { loop i in 4 { %0 = load t[i] store y[i], %0 } }\n");
    bind(f, "y", y);
    run_fails(f, SN_ERROR_VERIFY, "kernel @b, `%0 = load t[i]`: element 3 of 't' was never written");
}

/* Each grid iteration is another block with registers of its own. */
Test(loop_eval, regs_do_not_survive_a_grid_iteration) {
    float y[2];
    fixture *f = begin("buffer y: f32[2] output 0\n kernel @k(y) scheduled {\n  reg s: f32 private 1 size 1\n"
                       "  loop i in 2 : grid { %c = const.f32 1\n"
                       "    if -i in 1 { store s[0], %c }\n    %0 = load s[0] store y[i], %0 } }\n");
    bind(f, "y", y);
    run_fails(f, SN_ERROR_VERIFY, "element 0 of 's' was never written");
}

Test(loop_eval, needs_memory_and_sizes) {
    fixture *f = begin("buffer y: f32[2] output 0\n kernel @k(y) { %0 = const.f32 1 store y[0], %0 }\n");
    run_fails(f, SN_ERROR_ARGUMENT, "buffer 'y' has no memory");
    f = begin("buffer y: f32[N] output 0\n kernel @k(y) { %0 = const.f32 1 store y[0], %0 }\n");
    run_fails(f, SN_ERROR_UNSUPPORTED, "constant sizes: y is symbolic");
}

/* Ten million statements in a few seconds: slow enough to notice, fast enough to run always. */
Test(loop_eval, speed, .timeout = 60) {
    float y = 0;
    fixture *f =
        begin("buffer y: f32[] output 0\n kernel @k(y) {\n"
              "  %s = reduce sum i in 1000 { %t = reduce sum j in 400 {\n"
              "    %0 = index.i64 (400*i + j) %1 = cast.f32 %0 %2 = const.f32 0 %3 = mul %1, %2 yield %3 } yield %t }\n"
              "  store y[0], %s }\n");
    bind(f, "y", &y);
    run(f);
    cr_assert_eq(y, 0);
    end(f);
}
