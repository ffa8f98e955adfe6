/* test_launch_threads.c: eight threads that run one program a thousand times each, in states of their own: on the fake device, each on
 * a stream of its own and by graphs or plainly, and on the CPU through sinter.h. The thread sanitizer looks at these tests too
 * (tests/tsan).
 */
#include <pthread.h>
#include <stdio.h>

#include "include/sinter/sinter.h"
#include "tests/unit/fake_cuda.h"

enum { THREADS = 8, RUNS = 1000 };

typedef struct member {
    pthread_t thread;
    int number;
    const void *of; /* a program */
    sn_cuda *cu;
    char failed[200]; /* empty: all went well */
} member;

static void run_all(void *(*body)(void *), const void *of, sn_cuda *cu) {
    static member members[THREADS];
    for (int k = 0; k < THREADS; k++) {
        members[k] = (member){.number = k, .of = of, .cu = cu};
        cr_assert_eq(pthread_create(&members[k].thread, NULL, body, &members[k]), 0);
    }
    for (int k = 0; k < THREADS; k++) pthread_join(members[k].thread, NULL);
    for (int k = 0; k < THREADS; k++) cr_expect_eq(members[k].failed[0], 0, "thread %d: %s", k, members[k].failed);
}

/* ---- on the fake device ---- */

static const char chain[] =
    "buffer x: f32[4] input 0 align 16\nbuffer t: f32[4] temp align 256\nbuffer y: f32[4] output 0 align 16\n"
    "kernel @add1(x: f32[4] in, t: f32[4] out) { loop i in 4 : grid { %0 = load x[i] store t[i], %0 } }\n"
    "kernel @add2(t: f32[4] in, y: f32[4] out) { loop i in 4 : grid { %0 = load t[i] store y[i], %0 } }\n"
    "wrapper @main workspace 256 {\n"
    "  check x\n check y\n alloc t size 16 offset 0\n call @add1(x, t)\n call @add2(t, y)\n}\n";
static const sn_rt_kernel kernels[] = {
    {.name = "add1", .ptx = "add1", .ptx_size = 1, .grid = 4, .block_x = 1, .block_y = 1},
    {.name = "add2", .ptx = "add2", .ptx_size = 1, .grid = 4, .block_x = 1, .block_y = 1}};

/* Storage that changes now and then, and a result that nobody else computes. */
static sn_status run_on_device(member *m, sn_prog_state *st) {
    _Alignas(16) float x[2][4], y[2][4];
    CUstream stream = (CUstream)(uintptr_t)(64 * (m->number + 1));
    for (int run = 0; run < RUNS; run++) {
        int set = run / 16 % 2;
        float first = (float)(m->number * RUNS + run);
        for (int i = 0; i < 4; i++) x[set][i] = first + (float)i;
        SN_TRY(sn_prog_run(st, (void *[]){x[set]}, (void *[]){y[set]}, stream, false));
        for (int i = 0; i < 4; i++)
            if (y[set][i] != first + (float)i + 3) snprintf(m->failed, sizeof m->failed, "run %d is wrong", run);
    }
    return SN_OK;
}

static void *use_device(void *user) {
    member *m = user;
    sn_env env;
    sn_cuda *share;
    sn_prog_state *st = NULL;
    sn_env_init(&env);
    sn_status status = sn_cuda_share(&share, &env, m->cu);
    if (status == SN_OK) status = sn_prog_state_new(&st, m->of, &env, share);
    if (status == SN_OK) {
        sn_prog_state_graphs(st, (sn_graphs_mode)(m->number % 3));
        status = run_on_device(m, st);
    }
    if (status != SN_OK) snprintf(m->failed, sizeof m->failed, "%.190s", env.message);
    sn_prog_state_free(st);
    sn_cuda_close(share);
    if (env.bytes_now) snprintf(m->failed, sizeof m->failed, "%zu bytes left", env.bytes_now);
    return NULL;
}

Test(launch_threads, on_streams_of_their_own) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    sn_module *m = sn_module_new(&env);
    sn_prog *p;
    cu->driver_version = 12040;
    cr_assert_eq(sn_module_parse(m, "test.sn", chain, strlen(chain)), SN_OK, "%s", env.message);
    cr_assert_eq(sn_prog_load(&p, m, cu, kernels, 2, NULL, 1, NULL), SN_OK, "%s", env.message);
    run_all(use_device, p, cu);
    cr_expect_eq(fake.built, 5, "%d graphs", fake.built); /* numbers 1, 2, 4, 5 and 7 */
    sn_prog_free(p);
    sn_module_free(m);
    sn_cuda_close(cu);
    cr_expect(!fake.used && !fake.open && !fake.depth && !fake.retained);
}

/* ---- on the CPU ---- */

static const char text[] = "graph @f(%x: f32[8, 32]) {\n  %a = mul %x, %x\n  %s = sum %a axes=[1] keepdim=true\n"
                           "  %y = sub %x, %s\n  return y = %y\n}\n";
enum { ELEMENTS = 8 * 32 };

/* Whole numbers: sums are exact. */
static void expect_difference(member *m, const float *x, const float *y) {
    for (int i = 0; i < ELEMENTS; i++) {
        float sum = 0;
        for (int j = 0; j < 32; j++) sum += x[i / 32 * 32 + j] * x[i / 32 * 32 + j];
        if (y[i] != x[i] - sum) snprintf(m->failed, sizeof m->failed, "element %d: %g", i, (double)y[i]);
    }
}

static void *use_cpu(void *user) {
    member *m = user;
    float in[ELEMENTS], out[ELEMENTS];
    sn_context *ctx;
    sn_run_state *st;
    sn_tensor *x, *y;
    if (sn_context_create(&ctx, NULL) || sn_run_state_create(&st, (sn_program *)(uintptr_t)m->of) ||
        sn_tensor_wrap(&x, ctx, SN_CPU, in, SN_F32, SN_LIST(8, 32), NULL, 0) ||
        sn_tensor_wrap(&y, ctx, SN_CPU, out, SN_F32, SN_LIST(8, 32), NULL, 0)) {
        snprintf(m->failed, sizeof m->failed, "no tensors");
        return NULL;
    }
    for (int run = 0; run < RUNS && !m->failed[0]; run++) {
        for (int i = 0; i < ELEMENTS; i++) in[i] = (float)((i + run + m->number) % 7 - 3);
        if (sn_run_with(st, &x, &y, NULL)) snprintf(m->failed, sizeof m->failed, "%.190s", sn_run_state_error(st));
        else expect_difference(m, in, out);
    }
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_run_state_destroy(st);
    sn_context_destroy(ctx);
    return NULL;
}

Test(launch_threads, on_the_cpu) {
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 2};
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    cr_assert_eq(sn_graph_from_text(&g, ctx, "f", text, strlen(text)), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    run_all(use_cpu, p, NULL);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}
