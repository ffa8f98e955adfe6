/* test_runtime.c: the runtime without a GPU: driver errors, the allocator and the launch path on a fake driver, the
 * assembler, and programs on the CPU with kernels written in C.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/assemble.h"
#include "runtime/cuda_module.h"
#include "runtime/threads.h"
#include "tests/unit/fake_cuda.h"

/* ---- driver errors ---- */

Test(cuda, missing_driver_says_so) {
    sn_cuda_api api;
    char why[512];
    cr_assert_not(sn_cuda_api_open(&api, "libno-such-driver.so.1", why, sizeof why));
    cr_assert_eq(strncmp(why, "no CUDA driver: libno-such-driver.so.1 could not be opened (", 60), 0, "%s", why);
}

Test(cuda, a_library_that_is_no_driver_says_so) {
    sn_cuda_api api;
    char why[512];
    cr_assert_not(sn_cuda_api_open(&api, "libc.so.6", why, sizeof why));
    cr_assert_str_eq(why, "the CUDA driver is too old: libc.so.6 has no cuInit");
}

Test(cuda, count_never_fails_and_open_gives_its_reason) {
    char why[512];
    uint32_t n = sn_cuda_count(why, sizeof why);
    cr_assert_eq(sn_cuda_count(NULL, 0), n);
    if (n) cr_skip_test("this machine has a CUDA device");
    sn_env env;
    sn_env_init(&env);
    sn_cuda *cu;
    cr_assert_eq(sn_cuda_open(&cu, &env, 0), SN_ERROR_DEVICE);
    cr_assert_null(cu);
    cr_assert_str_eq(env.message, why);
    cr_assert_eq(env.bytes_now, 0);
}

/* ---- a driver of our own (fake_cuda.h) ---- */

/* Two threads with one device: neither sees the other's failures or blocks. */
Test(cuda, a_share_has_its_own_errors_and_blocks) {
    sn_env env, own;
    sn_cuda *cu = fake_device(&env), *share;
    sn_env_init(&own);
    cr_assert_eq(sn_cuda_share(&share, &own, cu), SN_OK, "%s", own.message);
    cr_assert_eq(fake.retained, 2);
    cr_assert_str_eq(sn_cuda_name(share), "Fake");
    void *a, *b;
    cr_assert_eq(sn_cuda_malloc(&a, cu, 1024), SN_OK);
    sn_cuda_free(cu, a, 1024);
    cr_assert_eq(sn_cuda_malloc(&b, share, 1024), SN_OK);
    cr_assert_neq(a, b, "the spare block is the other's");
    cr_assert_eq(sn_cuda_malloc(&a, share, 2 * FAKE_MEMORY), SN_ERROR_DEVICE_MEMORY);
    cr_assert(strstr(own.message, "out of device memory on Fake"), "%s", own.message);
    cr_assert_str_empty(env.message);
    sn_cuda_free(share, b, 1024);
    sn_cuda_close(share);
    sn_cuda_close(cu);
    cr_assert_eq(fake.used, 0);
    cr_assert_eq(env.bytes_now + own.bytes_now, 0);
}

/* ---- allocator ---- */

Test(cuda_memory, classes_waste_at_most_an_eighth) {
    cr_assert_eq(sn_cuda_round(1), 512);
    cr_assert_eq(sn_cuda_round(512), 512);
    cr_assert_eq(sn_cuda_round(513), 1024);
    cr_assert_eq(sn_cuda_round(4096), 4096);
    cr_assert_eq(sn_cuda_round((size_t)1 << 30), (size_t)1 << 30);
    cr_assert_eq(sn_cuda_round(((size_t)1 << 30) + 1), ((size_t)1 << 30) + ((size_t)1 << 27));
    for (size_t n = 4096; n < (size_t)1 << 40; n = n * 9 / 7 + 1) {
        size_t r = sn_cuda_round(n);
        cr_assert(r >= n && r - n <= n / 8 && r % 512 == 0 && sn_cuda_round(r) == r, "%zu -> %zu", n, r);
    }
}

Test(cuda_memory, freed_blocks_come_back) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    void *a, *b, *c;
    cr_assert_eq(sn_cuda_malloc(&a, cu, 1000), SN_OK);
    sn_cuda_free(cu, a, 1000);
    cr_assert_eq(sn_cuda_malloc(&b, cu, 900), SN_OK); /* same class */
    cr_assert_eq(a, b);
    cr_assert_eq(sn_cuda_malloc(&c, cu, 5000), SN_OK); /* another */
    cr_assert_eq(fake.allocs, 2);
    cr_assert_eq(fake.frees, 0);
    sn_cuda_free(cu, b, 900);
    sn_cuda_free(cu, c, 5000);
    sn_cuda_trim(cu);
    cr_assert_eq(fake.used, 0);
    cr_assert_eq(fake.depth, 0);
    sn_cuda_close(cu);
    cr_assert_eq(env.bytes_now, 0);
}

Test(cuda_memory, many_blocks_out_and_back) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    void *p[200];
    for (int i = 0; i < 200; i++) cr_assert_eq(sn_cuda_malloc(&p[i], cu, 512), SN_OK);
    for (int i = 0; i < 200; i++) sn_cuda_free(cu, p[i], 512);
    for (int i = 0; i < 200; i++) cr_assert_eq(sn_cuda_malloc(&p[i], cu, 512), SN_OK);
    cr_assert_eq(fake.allocs, 200);
    for (int i = 0; i < 200; i++) sn_cuda_free(cu, p[i], 512);
    sn_cuda_close(cu);
    cr_assert_eq(fake.used, 0);
    cr_assert_eq(env.bytes_now, 0);
}

Test(cuda_memory, running_out_trims_and_tries_again) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    void *a, *b;
    cr_assert_eq(sn_cuda_malloc(&a, cu, 3 * FAKE_MEMORY / 4), SN_OK);
    sn_cuda_free(cu, a, 3 * FAKE_MEMORY / 4);
    cr_assert_eq(sn_cuda_malloc(&b, cu, FAKE_MEMORY / 2), SN_OK);
    cr_assert_eq(fake.frees, 1);
    cr_assert_eq(sn_cuda_malloc(&a, cu, FAKE_MEMORY), SN_ERROR_DEVICE_MEMORY);
    cr_assert_null(a);
    cr_assert_str_eq(
        env.message,
        "out of device memory on Fake: 1048576 bytes wanted, 524288 held by Sinter, 524288 of 1048576 bytes unused");
    cr_assert_eq(fake.depth, 0);
    sn_cuda_free(cu, b, FAKE_MEMORY / 2);
    sn_cuda_close(cu);
}

Test(cuda_memory, copies_and_fills) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    void *a, *b, *nothing;
    char text[8] = "abcdefg", back[8];
    cr_assert_eq(sn_cuda_malloc(&nothing, cu, 0), SN_OK);
    cr_assert_null(nothing);
    cr_assert_eq(sn_cuda_malloc(&a, cu, 8) | sn_cuda_malloc(&b, cu, 8), SN_OK);
    cr_assert_eq(sn_cuda_to_device(cu, a, text, 8, NULL) | sn_cuda_copy(cu, b, a, 8, NULL) |
                     sn_cuda_fill(cu, b, 'x', 2, NULL) | sn_cuda_to_host(cu, back, b, 8, NULL) | sn_cuda_sync(cu, NULL),
                 SN_OK);
    cr_assert_str_eq(back, "xxcdefg");
    cr_assert_eq(fake.syncs, 3); /* to device, to host, sync */
    cr_assert_eq(fake.depth, 0);
    sn_cuda_free(cu, a, 8);
    sn_cuda_free(cu, b, 8);
    sn_cuda_close(cu);
}

/* ---- assembler ---- */

Test(assembler, architecture_follows_the_text) {
    char arch[32];
    sn_assembly_arch(arch, sizeof arch, ".version 8.0\n.target sm_90a\n", 90);
    cr_assert_str_eq(arch, "-arch=sm_90a");
    sn_assembly_arch(arch, sizeof arch, ".version 7.8\n.target sm_80\n", 90);
    cr_assert_str_eq(arch, "-arch=sm_90");
    sn_assembly_arch(arch, sizeof arch, "", 120);
    cr_assert_str_eq(arch, "-arch=sm_120");
}

Test(assembler, logs_become_one_line) {
    sn_env env;
    sn_arena arena;
    sn_env_init(&env);
    sn_arena_init(&arena, &env);
    cr_assert_str_eq(sn_log_line(&arena, "  first \n\n second\nthird\nfourth\n"), "first; second; third");
    cr_assert_str_eq(sn_log_line(&arena, ""), "");
    sn_arena_free(&arena);
}

static const char good_ptx[] = ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k0() { ret; }\n";

Test(assembler, assembles_and_refuses_side_by_side) {
    sn_env env;
    sn_arena arena;
    sn_env_init(&env);
    sn_arena_init(&arena, &env);
    sn_assembler *as = sn_assembler_open(&env);
    if (!as) cr_skip_test("no libnvJitLink here");
    sn_pool *pool = sn_pool_new(&env, 2);
    sn_assembly jobs[3] = {
        {.name = "good", .ptx = good_ptx}, {.name = "bad", .ptx = "nonsense\n"}, {.name = "again", .ptx = good_ptx}};
    for (int i = 0; i < 3; i++) {
        jobs[i].ptx_size = strlen(jobs[i].ptx);
        strcpy(jobs[i].arch, "-arch=sm_90");
    }
    sn_assemble(as, jobs, 3, NULL, pool, &arena);
    cr_assert(jobs[0].cubin && jobs[2].cubin && !jobs[1].cubin);
    cr_assert_eq(memcmp(jobs[0].cubin, "\177ELF", 4), 0);
    cr_assert_not_null(jobs[1].log);
    cr_assert_null(strchr(sn_log_line(&arena, jobs[1].log), '\n'));
    sn_pool_free(pool);
    sn_assembler_close(as);
    sn_arena_free(&arena);
    cr_assert_eq(env.bytes_now, 0);
}

/* ---- programs ---- */

/* y = (x + 1) + 2, and the sum goes back into x. */
static const char chain[] =
    "buffer x: f32[4] input 0 align 16\n"
    "buffer t: f32[4] temp align 256\n"
    "buffer u: f32[4] temp align 256\n"
    "buffer y: f32[4] output 0 align 16\n"
    "kernel @add1(x: f32[4] in, t: f32[4] out) { loop i in 4 : grid { %0 = load x[i] store t[i], %0 } }\n"
    "kernel @add2(t: f32[4] in, u: f32[4] out) { loop i in 4 : grid { %0 = load t[i] store u[i], %0 } }\n"
    "wrapper @main workspace 256 {\n"
    "  check x\n check y\n comment \"hello\"\n"
    "  alloc t size 16 offset 0\n call @add1(x, t)\n reuse u from t\n call @add2(t, u)\n free u\n"
    "  copy y from u size 16\n copy x from u size 16\n"
    "}\n";

static sn_module *parsed(sn_env *env, const char *text) {
    sn_module *m = sn_module_new(env);
    sn_status status = sn_module_parse(m, "test.sn", text, strlen(text));
    cr_assert_eq(status, SN_OK, "%s", env->message);
    return m;
}

static sn_prog_state *new_state(const sn_prog *p) {
    sn_prog_state *st;
    cr_assert_eq(sn_prog_state_new(&st, p, p->env, p->cu), SN_OK, "%s", p->env->message);
    return st;
}

static void add1(void *const *params, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) ((float *)params[1])[i] = ((const float *)params[0])[i] + 1;
}

static void add2(void *const *params, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) ((float *)params[1])[i] = ((const float *)params[0])[i] + 2;
}

static const sn_rt_kernel chain_host[] = {{.name = "add1", .grid = 4, .host = add1},
                                          {.name = "add2", .grid = 4, .host = add2}};

static void expect_chain(const float *x, const float *y) {
    for (int i = 0; i < 4; i++)
        cr_assert(y[i] == (float)i + 3 && x[i] == y[i], "x %g y %g", (double)x[i], (double)y[i]);
}

Test(program, interpreter_on_the_cpu) {
    sn_env env;
    sn_env_init(&env);
    sn_module *m = parsed(&env, chain);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        sn_prog *p;
        cr_assert_eq(sn_prog_load(&p, m, NULL, chain_host, 2, NULL, threads, NULL), SN_OK, "%s", env.message);
        sn_prog_state *st = new_state(p);
        _Alignas(16) float x[4] = {0, 1, 2, 3}, y[4] = {0};
        size_t held = env.bytes_now;
        cr_assert_eq(sn_prog_run(st, (void *[]){x}, (void *[]){y}, NULL, true), SN_OK, "%s", env.message);
        expect_chain(x, y);
        cr_assert_eq(env.bytes_now, held);
        sn_prog_state_free(st);
        sn_prog_free(p);
    }
    sn_module_free(m);
    cr_assert_eq(env.bytes_now, 0);
}

Test(program, times_runs_on_the_cpu) {
    sn_env env;
    sn_env_init(&env);
    sn_module *m = parsed(&env, chain);
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, NULL, chain_host, 2, NULL, 1, NULL), SN_OK);
    sn_prog_state *st = new_state(p);
    _Alignas(16) float x[4] = {0}, y[4];
    double us[3] = {-1, -1, -1};
    cr_assert_eq(sn_prog_time(us, 3, st, (void *[]){x}, (void *[]){y}, &(sn_flush){.bytes = 4096}), SN_OK);
    cr_assert(us[0] >= 0 && us[1] >= 0 && us[2] >= 0);
    cr_assert_eq(y[0], 12); /* a warm-up and three runs, 3 more each */
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_module_free(m);
}

/* A copy counts as an event; the events of a run follow each other. */
Test(program, profiles_runs_on_the_cpu) {
    sn_env env;
    sn_env_init(&env);
    sn_module *m = parsed(&env, chain);
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, NULL, chain_host, 2, NULL, 1, NULL), SN_OK);
    sn_prog_state *st = new_state(p);
    sn_arena arena;
    sn_arena_init(&arena, &env);
    _Alignas(16) float x[4] = {0}, y[4];
    sn_prog_profile_run run;
    cr_assert_eq(sn_prog_profile(&run, 3, st, (void *[]){x}, (void *[]){y}, NULL, &arena), SN_OK, "%s", env.message);
    cr_expect_eq(run.n, sn_prog_launches(p));
    for (uint32_t i = 0; i + 1 < run.n; i++)
        cr_expect_float_eq(run.at[i].start_us + run.at[i].us, run.at[i + 1].start_us, 1e-6);
    cr_assert_eq(y[0], 12); /* a warm-up and three runs, 3 more each */
    sn_arena_free(&arena);
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_module_free(m);
}

static void refused_at_run(void *x, void *y, const char *message) {
    sn_env env;
    sn_env_init(&env);
    sn_module *m = parsed(&env, chain);
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, NULL, chain_host, 2, NULL, 1, NULL), SN_OK);
    sn_prog_state *st = new_state(p);
    cr_assert_eq(sn_prog_run(st, (void *[]){x}, (void *[]){y}, NULL, true), SN_ERROR_ARGUMENT);
    cr_assert(strstr(env.message, message), "%s", env.message);
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_module_free(m);
}

Test(program, unusable_addresses_are_refused) {
    _Alignas(16) float ok[8];
    refused_at_run(NULL, ok, "input 0 (x): no storage was given");
    refused_at_run(ok, ok + 1, "output 0 (y): its storage at ");
    refused_at_run(ok, ok + 1, " does not start at a multiple of 16 bytes");
}

static void refused_at_load(const char *text, const sn_rt_kernel *kernels, uint32_t n, sn_status status,
                            const char *message) {
    sn_env env;
    sn_env_init(&env);
    sn_module *m = parsed(&env, text);
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, NULL, kernels, n, NULL, 1, NULL), status);
    cr_assert_null(p);
    cr_assert_str_eq(env.message, message);
    sn_module_free(m);
    cr_assert_eq(env.bytes_now, 0);
}

Test(program, what_cannot_be_loaded) {
    static const char one[] =
        "buffer x: f32[4] input 0\nbuffer t: f32[4] temp\nkernel @add1(x: f32[4] in, t: f32[4] out) { loop i in 4 : grid { %0 = load x[i] store t[i], %0 } }\n";
    char text[1024];
    const struct {
        const char *wrapper;
        sn_status status;
        const char *message;
    } cases[] = {
        {"", SN_ERROR_ARGUMENT, "the module has no wrapper: run the pass plan first"},
        {"wrapper @m workspace 16 { call @add1(x, t) }", SN_ERROR_VERIFY, "wrapper: add1 uses t before it has a place"},
        {"wrapper @m workspace 16 { alloc t size 16 offset 4 call @add1(x, t) }", SN_ERROR_VERIFY,
         "wrapper: t (16 bytes at 4) is outside the workspace of 16 bytes"},
        {"wrapper @m workspace 4*N { alloc t size 4*N offset 0 call @add1(x, t) }", SN_ERROR_UNSUPPORTED,
         "the workspace of the wrapper depends on the symbolic size N: give it a value before running"},
        {"wrapper @m workspace 16 { alloc t size 4*N offset 0 call @add1(x, t) }", SN_ERROR_UNSUPPORTED,
         "the size of t depends on the symbolic size N: give it a value before running"},
    };
    for (size_t i = 0; i < SN_COUNT(cases); i++) {
        snprintf(text, sizeof text, "%s%s", one, cases[i].wrapper);
        refused_at_load(text, chain_host, 1, cases[i].status, cases[i].message);
    }
    refused_at_load(chain, chain_host, 1, SN_ERROR_ARGUMENT, "the module has 2 kernels, code was given for 1");
    refused_at_load(chain, (sn_rt_kernel[]){{.grid = 1}, {.grid = 1}}, 2, SN_ERROR_ARGUMENT,
                    "kernel add1: no code for the CPU");
}

/* ---- programs on the fake device ---- */

static const sn_rt_kernel chain_gpu[] = {
    {.name = "add1", .ptx = "p", .ptx_size = 1, .grid = 4, .block_x = 1, .block_y = 1},
    {.name = "add2", .ptx = "q", .ptx_size = 1, .grid = 4, .block_x = 1, .block_y = 1}};

Test(program, interpreter_on_a_device) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    sn_module *m = parsed(&env, chain);
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, cu, chain_gpu, 2, NULL, 2, NULL), SN_OK, "%s", env.message);
    sn_prog_state *st = new_state(p);
    _Alignas(16) float x[4] = {0, 1, 2, 3}, y[4] = {0};
    size_t held = env.bytes_now;
    int allocs = fake.allocs, syncs = fake.syncs;
    cr_assert_eq(sn_prog_run(st, (void *[]){x}, (void *[]){y}, NULL, false), SN_OK, "%s", env.message);
    expect_chain(x, y);
    cr_assert(env.bytes_now == held && fake.allocs == allocs && fake.syncs == syncs, "a run allocates or synchronises");
    cr_assert_eq(fake.launches, 2);
    cr_assert_eq(fake.depth, 0, "push and pop do not balance");
    fake.milliseconds = 0.5f;
    double us[2];
    cr_assert_eq(sn_prog_time(us, 2, st, (void *[]){x}, (void *[]){y}, &(sn_flush){.bytes = 4096}), SN_OK);
    cr_assert(us[0] == 500 && us[1] == 500);
    cr_assert_eq(fake.resets, 2, "lines of the run before are kept");
    cr_assert_eq(fake.depth, 0);
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_module_free(m);
    sn_cuda_close(cu);
    cr_assert_eq(fake.used, 0);
    cr_assert_eq(env.bytes_now, 0);
}

/* Events of the device, in the stream of the run; all of them are given back, and so is what keeps it busy. */
Test(program, profiles_runs_on_a_device) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    sn_module *m = parsed(&env, chain);
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, cu, chain_gpu, 2, NULL, 2, NULL), SN_OK, "%s", env.message);
    sn_prog_state *st = new_state(p);
    sn_arena arena;
    sn_arena_init(&arena, &env);
    _Alignas(16) float x[4] = {0, 1, 2, 3}, y[4] = {0};
    sn_prog_profile_run run;
    fake.milliseconds = 0.5f; /* between the first event and any other */
    cr_assert_eq(sn_prog_profile(&run, 2, st, (void *[]){x}, (void *[]){y}, NULL, &arena), SN_OK, "%s", env.message);
    cr_assert(run.n == sn_prog_launches(p) && run.us == 500, "%u events, %g us", run.n, run.us);
    cr_assert(run.at[0].us == 500 && run.at[1].us == 0 && run.at[1].start_us == 500, "%g, %g from %g", run.at[0].us,
              run.at[1].us, run.at[1].start_us);
    cr_assert(run.at[0].kernel == 0 && run.at[1].kernel == 1);
    cr_assert_eq(fake.launches, 6);
    cr_assert(fake.depth == 0 && fake.open == 0, "%d contexts, %d objects left", fake.depth, fake.open);
    sn_arena_free(&arena);
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_module_free(m);
    sn_cuda_close(cu);
    cr_assert_eq(fake.used, 0);
    cr_assert_eq(env.bytes_now, 0);
}

/* Sums over what the kernels write, and where it was shown. */
static bool add_up(void *user, const sn_watched *w) {
    double *sum = user;
    for (int64_t i = 0; i < w->numel && w->written; i++) sum[w->call] += ((const float *)w->elements)[i];
    return true;
}

/* A nan that lies in the device's memory is none of the kernel that writes over it; one that comes with x is. */
Test(program, watched_on_a_device) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    sn_module *m = parsed(&env, chain);
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, cu, chain_gpu, 2, NULL, 2, NULL), SN_OK, "%s", env.message);
    sn_prog_state *st = new_state(p);
    _Alignas(16) float x[4] = {0, 1, 2, 3}, y[4] = {0};
    size_t held = env.bytes_now;
    double sums[2] = {0};
    sn_watcher w = {.watch = add_up, .user = sums, .kernels = (bool[]){true, true}, .reads = true, .stop_at_nan = true};
    for (int round = 0; round < 3; round++) {
        bool bad = round == 1;
        for (int i = 0; i < 4; i++) x[i] = bad ? NAN : (float)i;
        sums[0] = sums[1] = 0;
        sn_status status = sn_prog_run_watched(st, (void *[]){x}, (void *[]){y}, NULL, &w);
        cr_assert_eq(status, bad ? SN_ERROR_MISMATCH : SN_OK, "%s", env.message);
        if (bad) cr_assert(strstr(env.message, "kernel add1 () writes nan to t at [0]; there was one in x already"));
        else cr_assert(sums[0] == 10 && sums[1] == 18, "%g %g", sums[0], sums[1]);
        if (!bad) expect_chain(x, y);
        cr_assert_eq(fake.depth, 0, "push and pop do not balance");
        cr_assert_eq(env.bytes_now, held);
        sn_env_clear(&env);
    }
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_module_free(m);
    sn_cuda_close(cu);
    cr_assert_eq(fake.used, 0);
    cr_assert_eq(env.bytes_now, 0);
}

/* With one parameter for all addresses, the driver reads nothing beyond params[0]. */
Test(program, addresses_as_one_parameter) {
    static const char text[] =
        "buffer x: f32[4] input 0 align 16\nbuffer y: f32[4] output 0 align 16\n"
        "kernel @block1(x: f32[4] in, y: f32[4] out) { loop i in 4 : grid { %0 = load x[i] store y[i], %0 } }\nwrapper @m workspace 0 { call @block1(x, y) }\n";
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    sn_module *m = parsed(&env, text);
    sn_prog *p;
    sn_rt_kernel kernel = {
        .name = "block1", .ptx = "p", .ptx_size = 1, .grid = 4, .block_x = 1, .block_y = 1, .param_block = true};
    cr_assert_eq(sn_prog_load(&p, m, cu, &kernel, 1, NULL, 1, NULL), SN_OK, "%s", env.message);
    sn_prog_state *st = new_state(p);
    _Alignas(16) float x[4] = {0, 1, 2, 3}, y[4] = {0};
    cr_assert_eq(sn_prog_run(st, (void *[]){x}, (void *[]){y}, NULL, true), SN_OK, "%s", env.message);
    cr_assert(y[0] == 1 && y[3] == 4);
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_module_free(m);
    sn_cuda_close(cu);
}

static void keep1(void *const *params, int64_t begin, int64_t end) {
    uint64_t *kept = params[2];
    *(float *)params[1] = (float)(*kept += (uint64_t)(end - begin));
}

/* Counts its runs. */
static void each_state_keeps_its_own(sn_env *env, sn_cuda *cu, const sn_rt_kernel *kernel) {
    static const char text[] =
        "buffer x: f32[1] input 0\nbuffer y: f32[1] output 0\n"
        "kernel @keep1(x: f32[1] in, y: f32[1] out) { loop i in 1 : grid { %0 = load x[i] store y[i], %0 } }\nwrapper @m workspace 0 { call @keep1(x, y) }\n";
    sn_module *m = parsed(env, text);
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, cu, kernel, 1, NULL, 1, NULL), SN_OK, "%s", env->message);
    sn_prog_state *states[] = {new_state(p), new_state(p)};
    static const int order[] = {0, 0, 1, 0, 1}, counts[] = {1, 2, 1, 3, 2};
    for (size_t k = 0; k < SN_COUNT(order); k++) {
        float x = 0, y = 0;
        cr_assert_eq(sn_prog_run(states[order[k]], (void *[]){&x}, (void *[]){&y}, NULL, true), SN_OK);
        cr_assert_eq(y, (float)counts[k], "run %zu", k);
    }
    for (int k = 0; k < 2; k++) sn_prog_state_free(states[k]);
    sn_prog_free(p);
    sn_module_free(m);
}

Test(program, kernels_keep_memory_of_the_state) {
    sn_env env;
    sn_env_init(&env);
    each_state_keeps_its_own(&env, NULL, &(sn_rt_kernel){.name = "keep1", .grid = 1, .host = keep1, .kept_bytes = 8});
    cr_assert_eq(env.bytes_now, 0);
    sn_cuda *cu = fake_device(&env);
    each_state_keeps_its_own(&env, cu,
                             &(sn_rt_kernel){.name = "keep1", .ptx = "p", .ptx_size = 1, .grid = 1, .kept_bytes = 8});
    sn_cuda_close(cu);
    cr_assert_eq(fake.used, 0);
}

/* The chain adds 3 to x and to y; a set is 512 bytes, the other sets lie behind each other in one block. */
Test(program, a_graph_walks_over_copies_of_the_tensors) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    sn_module *m = parsed(&env, chain);
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, cu, chain_gpu, 2, NULL, 1, NULL), SN_OK, "%s", env.message);
    sn_prog_state *st = new_state(p);
    _Alignas(16) float x[4] = {0}, y[4] = {0};
    uint32_t launches = sn_prog_launches(p);
    cr_assert_eq(launches, 4); /* two kernels, two copies */
    fake.milliseconds = 2;
    double us[3] = {0};
    sn_graph_timing how = {.run_us = 0.25};
    size_t used = fake.used;
    cr_assert_eq(sn_prog_time_graph(us, 3, &how, st, (void *[]){x}, (void *[]){y}), SN_OK, "%s", env.message);
    /* memory for all but a tenth of the device; runs: whole rounds, as many as a graph may have */
    cr_assert_eq(how.sets, (FAKE_MEMORY - used - FAKE_MEMORY / 10) / 512 + 1, "%u sets", how.sets);
    cr_assert(how.runs % how.sets == 0 && how.runs >= how.sets && how.runs * launches <= FAKE_NODES, "%u runs",
              how.runs);
    for (int k = 0; k < 3; k++) cr_assert_float_eq(us[k], 2000.0 / how.runs, 1e-9);
    cr_assert_eq(fake.replays, 5); /* two are not timed */
    /* the caller's own set: the run before the graph, then its share of each replay */
    cr_assert_eq(y[0], 3 * (1 + 5 * (int)(how.runs / how.sets)), "y %g", (double)y[0]);
    const float *last = (const float *)((char *)fake.blocks[fake.n_blocks - 1] + (how.sets - 2) * 512);
    cr_assert_eq(last[0], y[0], "the last set is at %g", (double)last[0]);
    cr_assert(fake.depth == 0 && fake.open == 0, "%d contexts, %d objects left", fake.depth, fake.open);
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_module_free(m);
    sn_cuda_close(cu);
    cr_assert_eq(fake.used, 0);
    cr_assert_eq(env.bytes_now, 0);
}

Test(program, a_failed_capture_leaves_nothing_behind) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    sn_module *m = parsed(&env, chain);
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, cu, chain_gpu, 2, NULL, 1, NULL), SN_OK);
    sn_prog_state *st = new_state(p);
    _Alignas(16) float x[4] = {0}, y[4];
    double us[1];
    sn_graph_timing how = {.run_us = 1};
    fake.next_launch = ILLEGAL_ADDRESS;
    fake.fail_in_capture = true;
    cr_assert_eq(sn_prog_time_graph(us, 1, &how, st, (void *[]){x}, (void *[]){y}), SN_ERROR_DEVICE);
    cr_assert_not_null(strstr(env.message, "cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS"), "%s", env.message);
    cr_assert(!fake.capturing && fake.replays == 0 && fake.depth == 0 && fake.open == 0);
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_module_free(m);
    sn_cuda_close(cu);
    cr_assert_eq(fake.used, 0);
    cr_assert_eq(env.bytes_now, 0);
}

Test(program, graphs_are_for_devices) {
    sn_env env;
    sn_env_init(&env);
    sn_module *m = parsed(&env, chain);
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, NULL, chain_host, 2, NULL, 1, NULL), SN_OK);
    sn_prog_state *st = new_state(p);
    double us[1];
    sn_graph_timing how = {.run_us = 1};
    cr_assert_eq(sn_prog_time_graph(us, 1, &how, st, NULL, NULL), SN_ERROR_UNSUPPORTED);
    cr_assert_str_eq(env.message, "CUDA graphs are for programs on a CUDA device");
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_module_free(m);
}

Test(program, constants_are_uploaded_once) {
    static const char text[] =
        "buffer c: f32[4] const data [1, 2, 3, 4] align 16\nbuffer y: f32[4] output 0 align 16\n"
        "kernel @add1(c: f32[4] in, y: f32[4] out) { loop i in 4 : grid { %0 = load c[i] store y[i], %0 } }\nwrapper @m workspace 0 { call @add1(c, y) }\n";
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    sn_module *m = parsed(&env, text);
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, cu, chain_gpu, 1, NULL, 1, NULL), SN_OK, "%s", env.message);
    sn_prog_state *st = new_state(p);
    float y[4] = {0};
    for (int run = 0; run < 2; run++) cr_assert_eq(sn_prog_run(st, NULL, (void *[]){y}, NULL, false), SN_OK);
    cr_assert(y[0] == 2 && y[3] == 5);
    cr_assert_eq(fake.allocs, 1);
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_module_free(m);
    sn_cuda_close(cu);
}

Test(program, blocks_that_wait_for_each_other_run_at_once_or_not_at_all) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    sn_module *m = parsed(&env, chain);
    sn_rt_kernel kernels[2] = {chain_gpu[0], chain_gpu[1]};
    sn_prog *p;
    kernels[0].together = true;
    cu->target.units = 2;
    cr_assert_eq(sn_prog_load(&p, m, cu, kernels, 2, NULL, 1, NULL), SN_OK, "%s", env.message);
    sn_prog_state *st = new_state(p);
    _Alignas(16) float x[4] = {0}, y[4];
    cr_assert_eq(sn_prog_run(st, (void *[]){x}, (void *[]){y}, NULL, true), SN_OK, "%s", env.message);
    cr_assert_eq(fake.together, 1);
    sn_prog_state_free(st);
    sn_prog_free(p);
    kernels[0].grid = 5;
    cr_assert_eq(sn_prog_load(&p, m, cu, kernels, 2, NULL, 1, NULL), SN_ERROR_TARGET);
    cr_assert_str_eq(env.message,
                     "kernel add1: its 5 blocks have to run at once, this device has room for 4: compile for it");
    sn_module_free(m);
    sn_cuda_close(cu);
}

Test(program, a_failed_launch_names_kernel_and_error) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    sn_module *m = parsed(&env, chain);
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, cu, chain_gpu, 2, NULL, 1, NULL), SN_OK);
    sn_prog_state *st = new_state(p);
    _Alignas(16) float x[4] = {0}, y[4];
    fake.next_launch = ILLEGAL_ADDRESS;
    cr_assert_eq(sn_prog_run(st, (void *[]){x}, (void *[]){y}, NULL, true), SN_ERROR_DEVICE);
    cr_assert_str_eq(
        env.message,
        "kernel add1 (grid 4, block 1 x 1): cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)");
    cr_assert_eq(fake.depth, 0);
    sn_prog_state_free(st);
    sn_prog_free(p);
    sn_module_free(m);
    sn_cuda_close(cu);
}

/* Texts for the driver go to it from all threads of a pool, and each of these has the context. */
Test(program, the_driver_assembles_side_by_side) {
    enum { KERNELS = 200 };
    sn_env env;
    sn_arena arena;
    sn_cuda *cu = fake_device(&env);
    sn_arena_init(&arena, &env);
    sn_rt_kernel *kernels = SN_NEWN(&arena, sn_rt_kernel, KERNELS);
    sn_cuda_code *code = SN_NEWN(&arena, sn_cuda_code, KERNELS);
    for (int i = 0; i < KERNELS; i++)
        kernels[i] = (sn_rt_kernel){.name = "add1", .ptx = "text", .ptx_size = 4, .whole = true};
    sn_prog_times times = {0};
    for (uint32_t threads = 1; threads <= 4; threads++) {
        sn_pool *pool = sn_pool_new(&env, threads);
        cr_assert_eq(sn_cuda_enter(cu), SN_OK);
        cr_assert_eq(sn_cuda_code_load(code, &times, cu, kernels, KERNELS, pool, NULL, NULL), SN_OK, "%s", env.message);
        cr_assert(fake.modules == KERNELS && fake.depth == 1, "%d modules, %d contexts", fake.modules, fake.depth);
        sn_cuda_code_unload(cu, code, KERNELS);
        sn_cuda_leave(cu);
        cr_assert(fake.modules == 0 && fake.depth == 0);
        memset(code, 0, KERNELS * sizeof *code);
        sn_pool_free(pool);
    }
    sn_arena_free(&arena);
    sn_cuda_close(cu);
}

Test(program, refused_ptx_comes_with_the_log) {
    sn_env env;
    sn_cuda *cu = fake_device(&env);
    fake.refuse = true;
    sn_module *m = parsed(&env, chain);
    sn_prog *p;
    cr_assert_eq(sn_prog_load(&p, m, cu, chain_gpu, 2, NULL, 1, NULL), SN_ERROR_DEVICE);
    cr_assert(strstr(env.message, "kernel add1: the assembler refuses its PTX: ") == env.message &&
                  !strchr(env.message, '\n'),
              "%s", env.message);
    cr_assert_eq(fake.depth, 0);
    sn_module_free(m);
    sn_cuda_close(cu);
    cr_assert_eq(fake.used, 0);
    cr_assert_eq(env.bytes_now, 0);
}
