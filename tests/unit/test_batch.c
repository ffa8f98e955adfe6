/* test_batch.c: many independent tensors: how many launches they become, what the launches look like, and that they compute
 * the same as the graph. Graphs are text of n optimiser steps over tensors of unequal sizes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "backend-nvptx/ptx.h"
#include "include/sinter/sinter.h"
#include "ir/loop/alike.h"
#include "passes/runner.h"

/* Tiny, odd, a few blocks, large enough for vectors, and empty. */
static const unsigned SIZES[] = {768, 33, 1000, 3072, 1, 70001, 0, 589824};

/* Of four tensors a step reads three and writes two. */
static void put_steps(sn_text *t, unsigned n, unsigned n_sizes) {
    sn_text_put(t, "graph @steps(");
    for (unsigned i = 0; i < n; i++) {
        unsigned size = SIZES[i % n_sizes];
        sn_text_printf(t, "%s%%p%u: f32[%u], %%g%u: f32[%u], %%m%u: f32[%u]", i ? ", " : "", i, size, i, size, i, size);
    }
    sn_text_put(t, ") {\n");
    for (unsigned i = 0; i < n; i++)
        sn_text_printf(t,
                       "  %%a%u = mul %%m%u, 0.9\n  %%b%u = mul %%g%u, 0.1\n  %%n%u = add %%a%u, %%b%u\n"
                       "  %%s%u = mul %%n%u, 0.01\n  %%q%u = sub %%p%u, %%s%u\n",
                       i, i, i, i, i, i, i, i, i, i, i, i);
    sn_text_put(t, "  return ");
    for (unsigned i = 0; i < n; i++) sn_text_printf(t, "%sq%u = %%q%u, n%u = %%n%u", i ? ", " : "", i, i, i, i);
    sn_text_put(t, "\n}\n");
}

/* ---- what it computes ---- */

static void fill(sn_tensor *t, unsigned n, unsigned seed) {
    static float x[589824];
    for (unsigned i = 0; i < n; i++) x[i] = (float)((i * 2654435761u + seed * 40503u) % 2001) / 1000 - 1;
    cr_assert_eq(sn_tensor_write(t, x, n * sizeof *x), SN_OK);
}

/* On the CPU, in the schedule of a GPU: dispatch, tables and templates are those of the GPU's code. */
Test(batch, steps_compute_what_the_graph_says) {
    enum { N = 29 };
    sn_env env;
    sn_env_init(&env);
    sn_text t;
    sn_text_init(&t, &env);
    put_steps(&t, N, SN_COUNT(SIZES));
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    cr_assert_eq(sn_graph_from_text(&g, ctx, "steps", t.s, t.n), SN_OK, "%s", sn_error(ctx));
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .cpu_schedule = "gpu", .threads = 3};
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    sn_program_info info = {0};
    sn_program_get_info(&info, p);
    cr_expect_leq(info.n_kernels, 3, "%u kernels", info.n_kernels);
    sn_tensor *in[3 * N], *out[2 * N];
    sn_check check[2 * N];
    for (unsigned i = 0; i < 3 * N; i++) {
        cr_assert_eq(sn_tensor_for_input(&in[i], p, i), SN_OK);
        fill(in[i], SIZES[i / 3 % SN_COUNT(SIZES)], i);
    }
    for (unsigned i = 0; i < 2 * N; i++) cr_assert_eq(sn_tensor_for_output(&out[i], p, i), SN_OK);
    for (int interpreted = 0; interpreted < 2; interpreted++)
        cr_expect_eq(sn_program_check(check, p, in, out, interpreted), SN_OK, "%s", sn_error(ctx));
    for (unsigned i = 0; i < 3 * N; i++) sn_tensor_destroy(in[i]);
    for (unsigned i = 0; i < 2 * N; i++) sn_tensor_destroy(out[i]);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
    sn_text_free(&t);
}

/* ---- launches and their code ---- */

typedef struct fixture {
    sn_env env;
    sn_module *m;
    sn_target target;
    sn_arena arena;
} fixture;

static void open_steps(fixture *f, unsigned n, unsigned n_sizes) {
    sn_env_init(&f->env);
    sn_arena_init(&f->arena, &f->env);
    sn_text t;
    sn_text_init(&t, &f->env);
    put_steps(&t, n, n_sizes);
    f->m = sn_module_new(&f->env);
    cr_assert_eq(sn_module_parse(f->m, "steps", t.s, t.n), SN_OK, "%s", f->env.message);
    cr_assert_eq(sn_target_named(&f->target, &f->env, "sm_90"), SN_OK);
    cr_assert_eq(sn_passes_run(&f->m, &f->target, &(sn_pass_options){.verify = SN_VERIFY_EACH}), SN_OK, "%s",
                 f->env.message);
    sn_text_free(&t);
}

static void close_steps(fixture *f) {
    sn_arena_free(&f->arena);
    sn_module_free(f->m);
    cr_assert_eq(f->env.bytes_now, 0);
}

static unsigned count(const char *text, const char *what) {
    unsigned n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

static sn_gpu_code emit(fixture *f, uint32_t kernel) {
    sn_gpu_code code;
    cr_assert_eq(sn_nvptx_emit(&code, f->m, f->m->kernels.at[kernel], &f->target, false, &f->arena), SN_OK, "%s",
                 f->env.message);
    return code;
}

/* 5 pointers a step: 4000 is the most of a launch. The PTX version allows what the parameters take. */
Test(batch, parameters_of_a_launch_are_bounded) {
    fixture f;
    open_steps(&f, 1100, 1);
    cr_assert_eq(f.m->kernels.n, 2);
    cr_assert_eq(sn_kern_segments(f.m, f.m->kernels.at[0]), 800);
    cr_assert_eq(sn_kern_segments(f.m, f.m->kernels.at[1]), 300);
    for (uint32_t k = 0; k < 2; k++) {
        sn_gpu_code code = emit(&f, k);
        char param[64];
        snprintf(param, sizeof param, "_param_0[%u]", 8 * sn_kern_get(f.m, f.m->kernels.at[k])->params.n);
        cr_expect(code.param_block && strstr(code.ptx, param), "no %s in\n%s", param, code.ptx);
        cr_expect(strstr(code.ptx, ".version 8.1"), "%s", code.ptx);
        cr_expect_eq(count(code.ptx, "st.global"), 2, "one body, not\n%s", code.ptx);
        cr_expect_eq(code.grid, k ? 900 : 2400);
    }
    close_steps(&f);
}

Test(batch, few_parameters_run_on_old_drivers) {
    fixture f;
    open_steps(&f, 12, 2);
    cr_assert_eq(f.m->kernels.n, 1);
    sn_gpu_code code = emit(&f, 0);
    cr_expect(code.param_block && strstr(code.ptx, "_param_0[480]"), "%s", code.ptx);
    cr_expect(strstr(code.ptx, ".version 7.8"), "%s", code.ptx);
    cr_expect_eq(count(code.ptx, "st.global"), 2, "one body, not\n%s", code.ptx);
    close_steps(&f);
}

/* Twice the kernels take about twice the time: a quadratic step would take four times as long. Compared in work, not in
 * seconds: the arena holds what a pass has touched. */
Test(batch, memory_is_linear_in_the_kernels) {
    size_t peak[2];
    for (int k = 0; k < 2; k++) {
        fixture f;
        open_steps(&f, 400u << k, 2);
        peak[k] = f.env.bytes_peak;
        close_steps(&f);
    }
    cr_expect_lt(peak[1], 3 * peak[0], "%zu and %zu bytes", peak[0], peak[1]);
}

/* ---- alike ---- */

static const char TWO[] =
    "buffer a: f32[64] input 0 align 16\nbuffer b: f32[640] input 1 align 16\nbuffer c: f32[64] input 2 align 16\n"
    "buffer x: f32[64] output 0 align 16\nbuffer y: f32[640] output 1 align 16\nbuffer z: f32[64] output 2 align 4\n"
    "kernel @k(a, b, c, x, y, z) scheduled {\n"
    "  loop g in 2 : grid { loop t in 32 : block.x { %0 = load a[32*g + t] store x[32*g + t], %0 } }\n"
    "  loop g in 20 : grid { loop t in 32 : block.x { %0 = load b[32*g + t] store y[32*g + t], %0 } }\n"
    "  loop g in 2 : grid { loop t in 32 : block.x { %0 = load c[32*g + t] store z[32*g + t], %0 } }\n"
    "}\n";

Test(alike, sizes_and_buffers_may_differ_but_not_alignment) {
    fixture f;
    sn_env_init(&f.env);
    sn_arena_init(&f.arena, &f.env);
    f.m = sn_module_new(&f.env);
    cr_assert_eq(sn_module_parse(f.m, "two", TWO, strlen(TWO)), SN_OK, "%s", f.env.message);
    sn_alike a[3];
    uint32_t n = 0;
    for (sn_stmt s = sn_stmt_walk_first(f.m, f.m->kernels.at[0]); s.i; s = sn_stmt_get(f.m, s)->next)
        sn_alike_read(&a[n++], f.m, &f.arena, s);
    cr_assert_eq(n, 3);
    cr_expect(sn_alike_equal(&a[0], &a[1]));
    cr_expect_not(sn_alike_equal(&a[0], &a[2]), "z is aligned to 4 bytes only");
    cr_expect_eq(a[0].slots.n, 2);
    cr_expect_eq(a[0].holes.at[0], 2);
    cr_expect_eq(a[1].holes.at[0], 20);
    close_steps(&f);
}
