/* test_run_graph.c: runs by CUDA graphs (runtime/run_graph.c) on the fake driver: what they leave is what plain launches leave,
 * wherever the caller's storage is, and when there is a graph at all.
 */
#include <stdio.h>

#include "include/sinter/sinter.h"
#include "tests/unit/fake_cuda.h"

/* y = (x + 1) + 2 by way of the workspace, z = x + 3, and y goes back into x. */
static const char chain[] =
    "buffer x: f32[4] input 0 align 16\n"
    "buffer t: f32[4] temp align 256\n"
    "buffer u: f32[4] temp align 256\n"
    "buffer y: f32[4] output 0 align 16\n"
    "buffer z: f32[4] output 1 align 16\n"
    "kernel @add1(x: f32[4] in, t: f32[4] out) { loop i in 4 : grid { %0 = load x[i] store t[i], %0 } }\n"
    "kernel @add2(t: f32[4] in, u: f32[4] out) { loop i in 4 : grid { %0 = load t[i] store u[i], %0 } }\n"
    "kernel @add3(x: f32[4] in, z: f32[4] out) { loop i in 4 : grid { %0 = load x[i] store z[i], %0 } }\n"
    "wrapper @main workspace 512 {\n"
    "  check x\n check y\n check z\n alloc t size 16 offset 0\n alloc u size 16 offset 256\n"
    "  call @add1(x, t)\n call @add2(t, u)\n call @add3(x, z)\n"
    "  copy y from u size 16\n copy x from u size 16\n"
    "}\n";

#define KERNEL(n) {.name = n, .ptx = n, .ptx_size = 1, .grid = 4, .block_x = 1, .block_y = 1}
static const sn_rt_kernel kernels[] = {KERNEL("add1"), KERNEL("add2"), KERNEL("add3")};

typedef struct fixture {
    sn_env env;
    sn_cuda *cu;
    sn_module *m;
    sn_prog *p;
    sn_prog_state *st;
    _Alignas(16) float x[3][4], y[3][4], z[3][4]; /* three sets of tensors */
} fixture;

static void set_up(fixture *f, const char *text, const sn_rt_kernel *k, uint32_t n, sn_graphs_mode mode) {
    f->cu = fake_device(&f->env);
    f->cu->driver_version = 12040;
    f->m = sn_module_new(&f->env);
    cr_assert_eq(sn_module_parse(f->m, "test.sn", text, strlen(text)), SN_OK, "%s", f->env.message);
    cr_assert_eq(sn_prog_load(&f->p, f->m, f->cu, k, n, NULL, 1, NULL), SN_OK, "%s", f->env.message);
    cr_assert_eq(sn_prog_state_new(&f->st, f->p, &f->env, f->cu), SN_OK, "%s", f->env.message);
    sn_prog_state_graphs(f->st, mode);
}

static void tear_down(fixture *f) {
    sn_prog_state_free(f->st);
    sn_prog_free(f->p);
    sn_module_free(f->m);
    sn_cuda_close(f->cu);
    cr_assert(!fake.used && !fake.open && !fake.modules && !fake.depth && !fake.retained,
              "%zu bytes, %d objects, %d modules, %d contexts left", (size_t)fake.used, fake.open, fake.modules,
              fake.depth);
    cr_assert_eq(f->env.bytes_now, 0);
}

/* With the tensors of a set, which has new values first. */
static sn_status run_set(fixture *f, int set, float first, CUstream stream) {
    for (int i = 0; i < 4; i++) f->x[set][i] = first + (float)i;
    return sn_prog_run(f->st, (void *[]){f->x[set]}, (void *[]){f->y[set], f->z[set]}, stream, false);
}

static void expect_set(const fixture *f, int set, float first) {
    for (int i = 0; i < 4; i++) {
        float want = first + (float)i + 3;
        cr_assert(f->y[set][i] == want && f->z[set][i] == want && f->x[set][i] == want,
                  "set %d: y %g z %g x %g, not %g", set, (double)f->y[set][i], (double)f->z[set][i],
                  (double)f->x[set][i], (double)want);
    }
}

static void run_right(fixture *f, int set, float first) {
    cr_assert_eq(run_set(f, set, first, NULL), SN_OK, "%s", f->env.message);
    expect_set(f, set, first);
}

Test(run_graph, from_the_second_run_on) {
    fixture f = {0};
    set_up(&f, chain, kernels, 3, SN_GRAPHS_AUTO);
    size_t held = f.env.bytes_now;
    int allocs = fake.allocs, syncs = fake.syncs;
    for (int run = 0; run < 5; run++) {
        run_right(&f, 0, (float)run);
        cr_assert_eq(fake.replays, run, "run %d", run);
    }
    cr_assert(fake.built == 1 && fake.launches == 3 && fake.updates == 0);
    cr_assert_eq(fake.early, 2, "kernels that follow kernels start early, copies do not");
    cr_assert(f.env.bytes_now == held && fake.allocs == allocs && fake.syncs == syncs,
              "a run allocates or synchronises");
    cr_assert_eq(fake.depth, 0, "push and pop do not balance");
    tear_down(&f);
}

/* What stands in front of a run may store what its kernels load before they wait. */
Test(run_graph, the_first_kernel_of_a_run_waits_for_all_in_front) {
    fixture f = {0};
    set_up(&f, chain, kernels, 3, SN_GRAPHS_OFF);
    for (int run = 1; run <= 3; run++) {
        run_right(&f, 0, (float)run);
        cr_assert(fake.launches == 3 * run && fake.overlapping == 2 * run, "%d of %d", fake.overlapping, fake.launches);
    }
    tear_down(&f);
}

/* x is in three steps, y and z in one each. */
Test(run_graph, storage_that_moves_is_set_anew) {
    fixture f = {0};
    set_up(&f, chain, kernels, 3, SN_GRAPHS_ON);
    run_right(&f, 0, 1);
    cr_assert(fake.built == 1 && fake.launches == 0);
    run_right(&f, 1, 2);
    cr_assert_eq(fake.updates, 4, "add1, add3 and two copies"); /* add2 has no address of the caller's */
    run_right(&f, 1, 3);
    cr_assert_eq(fake.updates, 4);
    for (int k = 0; k < 20; k++) run_right(&f, k % 3, (float)k);
    cr_assert_eq(fake.built, 1, "never built again");
    tear_down(&f);
}

/* Nodes that are set anew in every run cost less than launches. */
Test(run_graph, storage_may_move_in_every_run) {
    fixture f = {0};
    set_up(&f, chain, kernels, 3, SN_GRAPHS_AUTO);
    for (int k = 0; k < 12; k++) run_right(&f, k % 2, (float)k);
    cr_assert(fake.built == 1 && fake.replays == 11, "%d graphs, %d replays", fake.built, fake.replays);
    tear_down(&f);
}

static const char single[] =
    "buffer x: f32[4] input 0 align 16\nbuffer y: f32[4] output 0 align 16\n"
    "kernel @add1(x: f32[4] in, y: f32[4] out) { loop i in 4 : grid { %0 = load x[i] store y[i], %0 } }\n"
    "wrapper @main workspace 0 { call @add1(x, y) }\n";

Test(run_graph, of_one_launch) {
    for (int mode = SN_GRAPHS_OFF; mode <= SN_GRAPHS_ON; mode++) {
        fixture f = {0};
        set_up(&f, single, kernels, 1, (sn_graphs_mode)mode);
        for (int run = 0; run < 3; run++) {
            cr_assert_eq(sn_prog_run(f.st, (void *[]){f.x[0]}, (void *[]){f.y[0]}, NULL, false), SN_OK);
            cr_assert_eq(f.y[0][3], 1);
        }
        cr_assert_eq(fake.replays, mode == SN_GRAPHS_ON ? 3 : mode == SN_GRAPHS_AUTO ? 2 : 0);
        tear_down(&f);
    }
}

Test(run_graph, nothing_to_launch) {
    fixture f = {0};
    set_up(&f, "buffer x: f32[4] input 0\nwrapper @main workspace 0 { check x }\n", NULL, 0, SN_GRAPHS_ON);
    cr_assert_eq(sn_prog_run(f.st, (void *[]){f.x[0]}, NULL, NULL, false), SN_OK, "%s", f.env.message);
    cr_assert(fake.replays == 0 && fake.built == 0);
    tear_down(&f);
}

/* The launches become the caller's: his graph runs them again. */
Test(run_graph, a_stream_that_is_captured_gets_the_launches) {
    fixture f = {0};
    CUstream stream = (CUstream)(uintptr_t)64;
    CUgraph graph;
    CUgraphExec exec;
    const sn_cuda_api *api;
    set_up(&f, chain, kernels, 3, SN_GRAPHS_AUTO);
    api = &f.cu->api;
    run_right(&f, 0, 1);
    run_right(&f, 0, 2);
    cr_assert_eq(fake.replays, 1);
    cr_assert_eq(api->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    cr_assert_eq(run_set(&f, 1, 5, stream), SN_OK, "%s", f.env.message);
    cr_assert_eq(api->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    cr_assert_eq(fake.replays, 1);
    cr_assert_eq(f.y[1][0], 0, "captured, not done");
    cr_assert_eq(((fake_graph *)graph)->n, 5);
    api->cuGraphInstantiate(&exec, graph, 0);
    sn_cuda_enter(f.cu);
    api->cuGraphLaunch(exec, stream);
    sn_cuda_leave(f.cu);
    expect_set(&f, 1, 5);
    api->cuGraphExecDestroy(exec);
    api->cuGraphDestroy(graph);
    run_right(&f, 0, 3); /* and our own graph is as it was */
    cr_assert_eq(fake.updates, 0);
    tear_down(&f);
}

Test(run_graph, misplaced_storage_is_refused_and_forgotten) {
    for (int mode = SN_GRAPHS_AUTO; mode <= SN_GRAPHS_ON; mode++) {
        fixture f = {0};
        set_up(&f, chain, kernels, 3, (sn_graphs_mode)mode);
        for (int k = 0; k < 3; k++) run_right(&f, 0, (float)k);
        cr_assert_eq(sn_prog_run(f.st, (void *[]){f.x[0] + 1}, (void *[]){f.y[0], f.z[0]}, NULL, false),
                     SN_ERROR_ARGUMENT);
        cr_assert(strstr(f.env.message, "input 0 (x): its storage at "), "%s", f.env.message);
        sn_env_clear(&f.env);
        for (int k = 0; k < 3; k++) run_right(&f, 0, (float)k);
        cr_assert_eq(fake.launches, mode == SN_GRAPHS_ON ? 0 : 3, "plain launches but in the first run");
        tear_down(&f);
    }
}

/* A driver that refuses a graph runs the launches all the same, unless a graph was asked for. */
Test(run_graph, where_none_can_be_made) {
    for (int mode = SN_GRAPHS_AUTO; mode <= SN_GRAPHS_ON; mode++) {
        fixture f = {0};
        set_up(&f, chain, kernels, 3, (sn_graphs_mode)mode);
        if (mode == SN_GRAPHS_AUTO) run_right(&f, 0, 1);
        fake.fail_at = fake.calls + 5; /* what is current, a push, is it captured, a mode, and cuGraphCreate */
        sn_status status = run_set(&f, 0, 2, NULL);
        cr_assert_str_eq(fake.failed, "cuGraphCreate");
        if (mode == SN_GRAPHS_AUTO) expect_set(&f, 0, 2);
        else cr_assert(strstr(f.env.message, "cuGraphCreate: CUDA_ERROR_ILLEGAL_ADDRESS") == f.env.message);
        cr_assert_eq(status, mode == SN_GRAPHS_AUTO ? SN_OK : SN_ERROR_DEVICE);
        sn_env_clear(&f.env);
        run_right(&f, 0, 3);
        cr_assert_eq(fake.replays, mode == SN_GRAPHS_ON);
        tear_down(&f);
    }
}

Test(run_graph, old_drivers_have_none) {
    fixture f = {0};
    set_up(&f, chain, kernels, 3, SN_GRAPHS_OFF);
    f.cu->api.cuGraphAddKernelNode = NULL;
    sn_prog_state_graphs(f.st, SN_GRAPHS_ON);
    for (int k = 0; k < 3; k++) run_right(&f, 0, (float)k);
    cr_assert(fake.launches == 9 && fake.replays == 0);
    tear_down(&f);
}

static bool count_written(void *user, const sn_watched *w) {
    *(int *)user += w->written;
    return true;
}

/* Who looks at kernels, or times them, has them launched one by one; the graph is there for the next run. */
Test(run_graph, watched_and_timed_runs_are_plain) {
    fixture f = {0};
    int seen = 0;
    double us[2];
    sn_watcher w = {.watch = count_written, .user = &seen, .kernels = (bool[]){true, true, true}};
    set_up(&f, chain, kernels, 3, SN_GRAPHS_ON);
    run_right(&f, 0, 1);
    for (int i = 0; i < 4; i++) f.x[1][i] = 7 + (float)i;
    cr_assert_eq(sn_prog_run_watched(f.st, (void *[]){f.x[1]}, (void *[]){f.y[1], f.z[1]}, NULL, &w), SN_OK);
    expect_set(&f, 1, 7);
    cr_assert(seen == 3 && fake.replays == 1 && fake.launches == 3);
    cr_assert_eq(sn_prog_time(us, 2, f.st, (void *[]){f.x[1]}, (void *[]){f.y[1], f.z[1]}, &(sn_flush){.bytes = 512}),
                 SN_OK);
    cr_assert(fake.replays == 1 && fake.launches == 12, "%d launches", fake.launches);
    run_right(&f, 0, 2);
    cr_assert(fake.replays == 2 && fake.updates == 0 && fake.built == 1);
    tear_down(&f);
}

/* The copies of a swap touch the same memory: each waits for the one before. Those of the chain do not. */
Test(run_graph, copies_that_touch_each_other) {
    static const char text[] =
        "buffer x: f32[4] input 0 align 16\nbuffer y: f32[4] output 0 align 16\nbuffer z: f32[4] output 1 align 16\n"
        "kernel @add1(x: f32[4] in, y: f32[4] out) { loop i in 4 : grid { %0 = load x[i] store y[i], %0 } }\n"
        "wrapper @main workspace 0 { call @add1(x, y)\n copy z from x size 16\n copy x from y size 16\n copy y from z size 16\n"
        "  call @add1(x, y)\n }\n";
    fixture f = {0};
    set_up(&f, text, kernels, 1, SN_GRAPHS_ON);
    for (int k = 0; k < 4; k++) {
        cr_assert_eq(run_set(&f, k % 2, (float)k, NULL), SN_OK, "%s", f.env.message);
        for (int i = 0; i < 4; i++) {
            float first = (float)(k + i);
            cr_assert(f.z[k % 2][i] == first && f.x[k % 2][i] == first + 1 && f.y[k % 2][i] == first + 2, "run %d", k);
        }
    }
    cr_assert(fake.built == 1 && fake.replays == 4);
    tear_down(&f);
}

/* Copies that stood side by side touch each other where the tensors are now: another graph. */
Test(run_graph, copies_that_come_to_touch_each_other) {
    fixture f = {0};
    set_up(&f, chain, kernels, 3, SN_GRAPHS_ON);
    run_right(&f, 0, 1);
    for (int i = 0; i < 4; i++) f.x[1][i] = 5 + (float)i;
    cr_assert_eq(sn_prog_run(f.st, (void *[]){f.x[1]}, (void *[]){f.x[1], f.z[1]}, NULL, false), SN_OK);
    cr_assert(fake.built == 2 && f.x[1][2] == 10 && f.z[1][2] == 10);
    run_right(&f, 0, 2);
    tear_down(&f);
}

/* The option, and the variable that stands in for it. */
Test(run_graph, words_of_the_option) {
    static const char text[] = "graph @f(%x: f32[4]) {\n  %y = exp %x\n  return y = %y\n}\n";
    static const struct {
        const char *option, *environment;
        sn_status status;
    } cases[] = {{NULL, NULL, SN_OK},
                 {"on", "never", SN_OK},
                 {"maybe", NULL, SN_ERROR_ARGUMENT},
                 {NULL, "maybe", SN_ERROR_ARGUMENT}};
    sn_context *ctx;
    sn_graph *g;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    cr_assert_eq(sn_graph_from_text(&g, ctx, "f", text, strlen(text)), SN_OK);
    for (size_t i = 0; i < SN_COUNT(cases); i++) {
        sn_program *p;
        sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .graphs = cases[i].option};
        if (cases[i].environment) setenv("SINTER_GRAPHS", cases[i].environment, 1);
        else unsetenv("SINTER_GRAPHS");
        cr_expect_eq(sn_compile(&p, g, &o), cases[i].status, "case %zu: %s", i, sn_error(ctx));
        if (cases[i].status != SN_OK) cr_expect_str_eq(sn_error(ctx), "graphs: 'maybe' is none of off, auto, on");
        sn_program_destroy(p);
    }
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

/* Kept memory counts the runs of the state, by graphs or not. */
Test(run_graph, kernels_keep_their_memory) {
    static const char text[] =
        "buffer x: f32[1] input 0\nbuffer y: f32[1] output 0\nbuffer t: f32[1] temp\n"
        "kernel @keep1(x: f32[1] in, t: f32[1] out) { loop i in 1 : grid { %0 = load x[i] store t[i], %0 } }\n"
        "wrapper @m workspace 4 { alloc t size 4 offset 0 call @keep1(x, t) copy y from t size 4 }\n";
    static const sn_rt_kernel keep = {.name = "keep1", .ptx = "p", .ptx_size = 1, .grid = 1, .kept_bytes = 8};
    fixture f = {0};
    set_up(&f, text, &keep, 1, SN_GRAPHS_AUTO);
    for (int run = 1; run < 6; run++) {
        cr_assert_eq(sn_prog_run(f.st, (void *[]){f.x[0]}, (void *[]){f.y[run % 2]}, NULL, false), SN_OK);
        cr_assert_eq(f.y[run % 2][0], (float)run);
    }
    cr_assert_gt(fake.replays, 0);
    tear_down(&f);
}
