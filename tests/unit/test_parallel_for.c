/* test_parallel_for.c: the caller's threads in place of our own, for kernels and for compiling: a pool of the test's, none at all, one
 * that runs tasks backwards; the bits are those of our threads. The thread sanitizer looks at these tests, too (tests/tsan).
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "include/sinter/sinter.h"

/* ---- pools ---- */

typedef struct pool {
    unsigned threads;
    bool backwards;
    atomic_uint calls, tasks;
} pool;

typedef struct call {
    pool *of;
    void (*task)(void *data, size_t k);
    void *data;
    size_t count;
    atomic_size_t next;
} call;

static void *take(void *user) {
    call *c = user;
    for (size_t k; (k = atomic_fetch_add(&c->next, 1)) < c->count;) {
        c->task(c->data, c->of->backwards ? c->count - 1 - k : k);
        atomic_fetch_add(&c->of->tasks, 1);
    }
    return NULL;
}

static void parallel_for(void *user, void (*task)(void *data, size_t k), void *data, size_t count) {
    enum { MOST = 8 };
    pool *p = user;
    pthread_t threads[MOST];
    call c = {p, task, data, count, 0};
    unsigned n = 0;
    while (n + 1 < p->threads && pthread_create(&threads[n], NULL, take, &c) == 0) n++;
    take(&c);
    while (n--) pthread_join(threads[n], NULL);
    atomic_fetch_add(&p->calls, 1);
}

/* ---- programs ---- */

enum { ROWS = 96, COLUMNS = 128, N = ROWS * COLUMNS, LONG = 1 << 18, SUMS = 4 };

static const char layers[] = "graph @f(%x: f32[96, 128], %w: f32[128, 128]) {\n"
                             "  %a = matmul %x, %w\n"
                             "  %s = softmax %a axis=1\n"
                             "  %t = softmax %s axis=0\n"
                             "  %y = matmul %t, %w\n"
                             "  return y = %y\n"
                             "}\n";
/* On a GPU the block that ends last adds up what all have left. */
static const char column[] = "graph @f(%x: f32[65536, 4]) {\n  %y = sum %x axes=[0]\n  return y = %y\n}\n";

static sn_context *new_context(pool *p) {
    sn_context *ctx;
    sn_context_options o = {.struct_size = sizeof o, .parallel_for = p ? parallel_for : NULL, .parallel_user = p};
    cr_assert_eq(sn_context_create(&ctx, &o), SN_OK);
    return ctx;
}

static sn_program *compile(sn_context *ctx, const char *text, const char *schedule, unsigned threads) {
    sn_graph *g;
    sn_program *p;
    sn_compile_options o = {
        .struct_size = sizeof o, .device = "cpu", .threads = threads, .cpu_schedule = schedule, .choices = "template"};
    cr_assert_eq(sn_graph_from_text(&g, ctx, "f", text, strlen(text)), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    sn_graph_destroy(g);
    return p;
}

static void run(void *out, sn_context *ctx, sn_program *p) {
    sn_tensor *in[2] = {NULL, NULL}, *y;
    sn_tensor_info info;
    for (unsigned k = 0; k < sn_program_input_count(p); k++) {
        cr_assert_eq(sn_tensor_for_input(&in[k], p, k), SN_OK);
        sn_tensor_get_info(&info, in[k]);
        float *data = malloc((size_t)info.numel * sizeof *data);
        for (int64_t i = 0; i < info.numel; i++) data[i] = (float)(i * 7 % 101) / 64 - 0.5f;
        cr_assert_eq(sn_tensor_write(in[k], data, (size_t)info.numel * sizeof *data), SN_OK);
        free(data);
    }
    cr_assert_eq(sn_tensor_for_output(&y, p, 0), SN_OK);
    sn_tensor_get_info(&info, y);
    cr_assert_eq(sn_run(p, in, &y, NULL), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_tensor_read(out, y, (size_t)info.numel * sizeof(float)), SN_OK);
    sn_tensor_destroy(in[0]);
    sn_tensor_destroy(in[1]);
    sn_tensor_destroy(y);
}

static void compute(float *out, pool *lent, const char *text, const char *schedule, unsigned threads) {
    sn_context *ctx = new_context(lent);
    sn_program *p = compile(ctx, text, schedule, threads);
    run(out, ctx, p);
    sn_program_destroy(p);
    sn_context_destroy(ctx);
}

static void expect_same(const char *text, const char *schedule, size_t n) {
    pool pools[] = {
        {.threads = 4}, {.threads = 1}, {.threads = 4, .backwards = true}, {.threads = 1, .backwards = true}};
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    compute(want, NULL, text, schedule, 4);
    for (size_t k = 0; k < sizeof pools / sizeof *pools; k++) {
        memset(got, 0, n * sizeof *got);
        compute(got, &pools[k], text, schedule, 4);
        cr_expect_eq(memcmp(got, want, n * sizeof *got), 0, "pool %zu", k);
        cr_expect_gt(atomic_load(&pools[k].calls), 0, "pool %zu", k);
        cr_expect_geq(atomic_load(&pools[k].tasks), 2 * atomic_load(&pools[k].calls), "pool %zu", k);
    }
    free(want);
    free(got);
}

Test(parallel_for, any_pool_gives_the_same_bits) { expect_same(layers, "host", N); }
Test(parallel_for, also_where_the_last_block_has_more_to_do) { expect_same(column, "gpu", SUMS); }

Test(parallel_for, one_thread_needs_none) {
    static float want[N], got[N];
    pool p = {.threads = 4};
    compute(want, NULL, layers, "host", 1);
    compute(got, &p, layers, "host", 1);
    cr_expect_eq(memcmp(want, got, sizeof got), 0);
    cr_expect_eq(atomic_load(&p.calls), 0);
}

/* ---- several callers at once ---- */

typedef struct member {
    sn_program *p;
    const float *want;
    pthread_t thread;
    const char *failed;
} member;

static void *run_rounds(void *user) {
    enum { ROUNDS = 20 };
    member *m = user;
    sn_context *ctx;
    sn_run_state *st;
    if (sn_context_create(&ctx, NULL) || sn_run_state_create(&st, m->p)) return m->failed = "no state", NULL;
    float *x = malloc(LONG * sizeof *x), out[SUMS];
    sn_tensor *in, *y;
    for (int64_t i = 0; i < LONG; i++) x[i] = (float)(i * 7 % 101) / 64 - 0.5f;
    if (sn_tensor_wrap(&in, ctx, SN_CPU, x, SN_F32, SN_LIST(LONG / SUMS, SUMS), NULL, 0) ||
        sn_tensor_wrap(&y, ctx, SN_CPU, out, SN_F32, SN_LIST(SUMS), NULL, 0))
        return m->failed = "no tensors", NULL;
    for (int round = 0; round < ROUNDS && !m->failed; round++) {
        memset(out, 0, sizeof out);
        if (sn_run_with(st, &in, &y, NULL)) m->failed = "the run failed";
        else if (memcmp(out, m->want, sizeof out)) m->failed = "other bits";
    }
    sn_tensor_destroy(in);
    sn_tensor_destroy(y);
    sn_run_state_destroy(st);
    sn_context_destroy(ctx);
    free(x);
    return NULL;
}

Test(parallel_for, run_states_share_the_pool) {
    enum { CALLERS = 4 };
    pool lent = {.threads = 3};
    sn_context *ctx = new_context(&lent);
    sn_program *p = compile(ctx, column, "gpu", 3);
    float *want = malloc(SUMS * sizeof *want);
    member members[CALLERS];
    run(want, ctx, p);
    for (int k = 0; k < CALLERS; k++) {
        members[k] = (member){.p = p, .want = want};
        cr_assert_eq(pthread_create(&members[k].thread, NULL, run_rounds, &members[k]), 0);
    }
    for (int k = 0; k < CALLERS; k++) pthread_join(members[k].thread, NULL);
    for (int k = 0; k < CALLERS; k++) cr_expect_null(members[k].failed, "%s", members[k].failed);
    sn_program_destroy(p);
    sn_context_destroy(ctx);
    free(want);
}
