/* test_run_state.c: one program, run by several threads at the same time with a run state each, on the CPU: the results
 * are those of sn_run, errors stay with their state, and the context goes on meanwhile. The thread sanitizer looks at these
 * tests too (tests/tsan); it does not see what LLVM does, so nothing is compiled in a thread.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/sinter/sinter.h"

enum { THREADS = 8, ROUNDS = 40, ROWS = 24, COLUMNS = 96, N = ROWS * COLUMNS, PREFIX = 1 << 16 };

/* ---- programs ---- */

static sn_context *new_context(void) {
    sn_context *ctx;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    return ctx;
}

static sn_program *compile(sn_context *ctx, const char *text, const char *schedule, const char *wrapper) {
    sn_graph *g;
    sn_program *p;
    sn_compile_options o = {.struct_size = sizeof o,
                            .device = "cpu",
                            .threads = 3,
                            .cpu_schedule = schedule,
                            .target = schedule && !strcmp(schedule, "gpu") ? "sm_90" : NULL,
                            .wrapper = wrapper};
    cr_assert_eq(sn_graph_from_text(&g, ctx, "f", text, strlen(text)), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    sn_graph_destroy(g);
    return p;
}

/* Kernels with values between them. */
static const char mixed[] = "graph @f(%x: f32[24, 96]) {\n"
                            "  %s = softmax %x axis=1\n"
                            "  %y = softmax %s axis=0\n"
                            "  return y = %y\n"
                            "}\n";

/* n is written back, through storage of its own: y needs all of the old one. */
static const char counting[] = "graph @f(%x: f32[24, 96], %n: f32[24, 96]) {\n"
                               "  %m = add %n, %x\n"
                               "  %old = flip %n axes=[0, 1]\n"
                               "  %y = mul %old, %x\n"
                               "  return y = %y, m = %m writes %n\n"
                               "}\n";

static const char prefix[] = "graph @f(%x: f32[65536]) {\n  %y = cumsum %x axis=0\n  return y = %y\n}\n";

/* ---- a crowd of threads on one program ---- */

typedef struct crowd {
    sn_program *p;
    size_t n;     /* elements of the input and of the output */
    float *wants; /* by thread: what sn_run makes of its input */
} crowd;

typedef struct member {
    crowd *c;
    int number;
    pthread_t thread;
    char failed[256]; /* "": all went well */
} member;

static void fill(float *x, size_t n, int number) {
    for (size_t k = 0; k < n; k++) x[k] = (float)((k * 7 + (size_t)number * 13) % 101) / 64 - 0.5f;
}

static sn_tensor *wrap(sn_context *ctx, const sn_program *p, float *data) {
    sn_tensor *t;
    sn_port port;
    cr_assert_eq(sn_program_input(&port, p, 0), SN_OK);
    cr_assert_eq(sn_tensor_wrap(&t, ctx, SN_CPU, data, SN_F32, port.rank, port.shape, NULL, 0), SN_OK, "%s",
                 sn_error(ctx));
    return t;
}

#define FAIL(m, ...) (snprintf((m)->failed, sizeof (m)->failed, __VA_ARGS__), NULL)

static void *run_rounds(member *m, sn_run_state *st, sn_tensor *x, sn_tensor *y, float *out) {
    const float *want = m->c->wants + (size_t)m->number * m->c->n;
    for (int round = 0; round < ROUNDS; round++) {
        memset(out, 0, m->c->n * sizeof *out);
        if (sn_run_with(st, &x, &y, NULL)) return FAIL(m, "round %d: %s", round, sn_run_state_error(st));
        if (memcmp(out, want, m->c->n * sizeof *out)) return FAIL(m, "round %d: other bits than sn_run", round);
    }
    return NULL;
}

/* Tensors and state are made here, the tensors in a context of the thread's own. */
static void *take_part(void *user) {
    member *m = user;
    size_t bytes = m->c->n * sizeof(float);
    float *in = aligned_alloc(64, bytes), *out = aligned_alloc(64, bytes);
    sn_context *ctx;
    sn_run_state *st;
    sn_tensor *x, *y;
    int64_t n = (int64_t)m->c->n;
    int64_t shape[2] = {n == N ? ROWS : n, COLUMNS};
    unsigned rank = n == N ? 2 : 1;
    if (sn_context_create(&ctx, NULL)) return FAIL(m, "no context");
    if (sn_run_state_create(&st, m->c->p)) return FAIL(m, "no state");
    fill(in, m->c->n, m->number);
    if (sn_tensor_wrap(&x, ctx, SN_CPU, in, SN_F32, rank, shape, NULL, 0) ||
        sn_tensor_wrap(&y, ctx, SN_CPU, out, SN_F32, rank, shape, NULL, 0))
        return FAIL(m, "%s", sn_error(ctx));
    run_rounds(m, st, x, y, out);
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_run_state_destroy(st);
    sn_context_destroy(ctx);
    free(in);
    free(out);
    return NULL;
}

/* What sn_run makes of the input of each thread. */
static void find_wants(crowd *c, sn_context *ctx) {
    float *in = aligned_alloc(64, c->n * sizeof *in);
    c->wants = aligned_alloc(64, THREADS * c->n * sizeof *c->wants);
    for (int k = 0; k < THREADS; k++) {
        sn_tensor *x = wrap(ctx, c->p, in), *y = wrap(ctx, c->p, c->wants + (size_t)k * c->n);
        fill(in, c->n, k);
        cr_assert_eq(sn_run(c->p, &x, &y, NULL), SN_OK, "%s", sn_error(ctx));
        sn_tensor_destroy(x);
        sn_tensor_destroy(y);
    }
    free(in);
}

static void start(member *members, crowd *c, void *(*body)(void *)) {
    for (int k = 0; k < THREADS; k++) {
        members[k] = (member){.c = c, .number = k};
        cr_assert_eq(pthread_create(&members[k].thread, NULL, body, &members[k]), 0);
    }
}

static void join(member *members) {
    for (int k = 0; k < THREADS; k++) pthread_join(members[k].thread, NULL);
    for (int k = 0; k < THREADS; k++) cr_expect_str_empty(members[k].failed, "thread %d: %s", k, members[k].failed);
}

/* While the others run, the thread of the context uses it. */
static void run_in_the_context(crowd *c, sn_context *ctx) {
    float *in = aligned_alloc(64, c->n * sizeof *in), *out = aligned_alloc(64, c->n * sizeof *out);
    sn_tensor *x = wrap(ctx, c->p, in), *y = wrap(ctx, c->p, out);
    fill(in, c->n, 0);
    for (int round = 0; round < ROUNDS; round++) {
        cr_expect_eq(sn_run(c->p, &x, &y, NULL), SN_OK, "%s", sn_error(ctx));
        cr_expect_eq(memcmp(out, c->wants, c->n * sizeof *out), 0);
        cr_expect_eq(sn_run(c->p, &x, &x, NULL), SN_ERROR_ARGUMENT);
        cr_expect(strstr(sn_error(ctx), "share storage"), "%s", sn_error(ctx));
    }
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    free(in);
    free(out);
}

static void all_at_once(const char *text, size_t n, const char *schedule, const char *wrapper) {
    sn_context *ctx = new_context();
    crowd c = {.p = compile(ctx, text, schedule, wrapper), .n = n};
    member members[THREADS];
    find_wants(&c, ctx);
    start(members, &c, take_part);
    run_in_the_context(&c, ctx);
    join(members);
    sn_program_destroy(c.p);
    sn_context_destroy(ctx);
    free(c.wants);
}

Test(run_state, threads_get_the_bits_of_sn_run) { all_at_once(mixed, N, "host", "generated"); }
Test(run_state, with_the_interpreter_too) { all_at_once(mixed, N, "host", "interpreted"); }
Test(run_state, with_kernels_of_a_gpu_too) { all_at_once(mixed, N, "gpu", "generated"); }
/* A scan posts its sums: the words belong to the state. */
Test(run_state, posted_elements_are_not_shared) { all_at_once(prefix, PREFIX, "gpu", "generated"); }

/* ---- errors ---- */

/* Threads with an odd number give an output that is too small. */
static void *fail_in_turn(void *user) {
    member *m = user;
    bool wrong = m->number % 2;
    float in[N], out[N];
    sn_context *ctx;
    sn_run_state *st;
    sn_tensor *x, *y;
    if (sn_context_create(&ctx, NULL) || sn_run_state_create(&st, m->c->p)) return FAIL(m, "no state");
    fill(in, N, m->number);
    if (sn_tensor_wrap(&x, ctx, SN_CPU, in, SN_F32, SN_LIST(ROWS, COLUMNS), NULL, 0) ||
        sn_tensor_wrap(&y, ctx, SN_CPU, out, SN_F32, SN_LIST(ROWS, COLUMNS - wrong), NULL, 0))
        return FAIL(m, "%s", sn_error(ctx));
    for (int round = 0; round < ROUNDS; round++) {
        sn_status status = sn_run_with(st, &x, &y, NULL);
        const char *said = sn_run_state_error(st);
        if (status != sn_run_state_status(st))
            return FAIL(m, "returned %d, status %d", status, sn_run_state_status(st));
        if (status != (wrong ? SN_ERROR_ARGUMENT : SN_OK)) return FAIL(m, "status %d: %s", status, said);
        if (wrong != (strstr(said, "output y: the tensor is f32[24, 95]") != NULL)) return FAIL(m, "said \"%s\"", said);
    }
    if (sn_error(ctx)[0]) return FAIL(m, "the context of the tensors has \"%s\"", sn_error(ctx));
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_run_state_destroy(st);
    sn_context_destroy(ctx);
    return NULL;
}

Test(run_state, an_error_stays_in_its_state) {
    sn_context *ctx = new_context();
    crowd c = {.p = compile(ctx, mixed, NULL, NULL), .n = N};
    member members[THREADS];
    start(members, &c, fail_in_turn);
    join(members);
    cr_expect_str_empty(sn_error(ctx));
    cr_expect_eq(sn_error_status(ctx), SN_OK);
    sn_program_destroy(c.p);
    sn_context_destroy(ctx);
}

Test(run_state, a_state_forgets_its_error_with_the_next_run) {
    sn_context *ctx = new_context();
    sn_program *p = compile(ctx, mixed, NULL, NULL);
    sn_run_state *st;
    static float in[N], out[N];
    sn_tensor *x = wrap(ctx, p, in), *y = wrap(ctx, p, out);
    cr_assert_eq(sn_run_state_create(&st, p), SN_OK);
    cr_expect_str_empty(sn_run_state_error(st));
    cr_expect_eq(sn_run_with(st, NULL, &y, NULL), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_run_state_error(st), "input x: no tensor given");
    cr_expect_eq(sn_run_with(st, &x, &y, NULL), SN_OK);
    cr_expect_str_empty(sn_run_state_error(st));
    cr_expect_eq(sn_run_with(NULL, &x, &y, NULL), SN_ERROR_ARGUMENT);
    cr_expect_eq(sn_run_state_status(NULL), SN_ERROR_ARGUMENT);
    cr_expect_str_empty(sn_run_state_error(NULL));
    sn_run_state_destroy(st);
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
    sn_context_destroy(ctx);
}

static const char products[] = "graph @f(%x: f32[24, 96], %w: f32[96, 96]) {\n"
                               "  %a = matmul %x, %w\n"
                               "  %b = matmul %a, %w\n"
                               "  %y = matmul %b, %w\n"
                               "  return y = %y\n"
                               "}\n";

/* Two runs of a program with inputs of its own: into out[1] in a state, into out[0] by sn_run. */
static void run_both_ways(sn_context *ctx, sn_program *p, sn_run_state *st) {
    static float in[2][96 * 96], out[2][N];
    for (int way = 0; way < 2; way++) {
        sn_tensor *t[2], *y[2] = {wrap(ctx, p, out[way]), NULL};
        for (int k = 0; k < 2; k++) {
            sn_port port;
            fill(in[k], 96 * 96, k);
            cr_assert_eq(sn_program_input(&port, p, (unsigned)k), SN_OK);
            cr_assert_eq(sn_tensor_wrap(&t[k], ctx, SN_CPU, in[k], SN_F32, port.rank, port.shape, NULL, 0), SN_OK);
        }
        sn_status status = way ? sn_run_with(st, t, y, NULL) : sn_run(p, t, y, NULL);
        cr_assert_eq(status, SN_OK, "%s%s", sn_error(ctx), sn_run_state_error(st));
        for (int k = 0; k < 2; k++) sn_tensor_destroy(t[k]);
        sn_tensor_destroy(y[0]);
    }
    cr_expect_eq(memcmp(out[0], out[1], sizeof out[0]), 0);
}

/* One has intermediate values, the other an output on its way back to an input; whatever lies there at first. */
Test(run_state, programs_share_memory_of_the_caller) {
    sn_context *ctx = new_context();
    sn_program *p[2] = {compile(ctx, products, NULL, NULL), compile(ctx, counting, NULL, NULL)};
    sn_run_state *st[2], *none;
    size_t size = 0;
    for (int k = 0; k < 2; k++) {
        size_t wants = sn_program_workspace_size(p[k]);
        cr_assert_gt(wants, 0);
        if (wants > size) size = wants;
    }
    unsigned char *memory = aligned_alloc(256, size + 256);
    memset(memory, 0xff, size + 256);
    for (int k = 0; k < 2; k++) {
        cr_assert_eq(sn_run_state_create_in(&st[k], p[k], memory, size), SN_OK);
        cr_expect_eq(sn_run_state_create_in(&none, p[k], memory, sn_program_workspace_size(p[k]) - 1),
                     SN_ERROR_ARGUMENT);
        cr_expect_eq(sn_run_state_create_in(&none, p[k], memory + 64, size), SN_ERROR_ARGUMENT);
        cr_expect_eq(sn_run_state_create_in(&none, p[k], NULL, size), SN_ERROR_ARGUMENT);
        cr_expect_null(none);
    }
    for (int round = 0; round < 6; round++) run_both_ways(ctx, p[round % 2], st[round % 2]);
    for (size_t k = 0; k < 256; k++) cr_assert_eq(memory[size + k], 0xff);
    for (int k = 0; k < 2; k++) {
        sn_run_state_destroy(st[k]);
        sn_program_destroy(p[k]);
    }
    free(memory);
    sn_context_destroy(ctx);
}

Test(run_state, a_program_to_look_at_says_so) {
    sn_context *ctx = new_context();
    sn_graph *g;
    sn_program *p;
    sn_run_state *st;
    sn_compile_options o = {.struct_size = sizeof o, .target = "sm_90"};
    cr_assert_eq(sn_graph_from_text(&g, ctx, "f", mixed, strlen(mixed)), SN_OK);
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_run_state_create(&st, p), SN_OK);
    cr_expect_eq(sn_run_with(st, NULL, NULL, NULL), SN_ERROR_DEVICE);
    cr_expect_str_eq(sn_run_state_error(st), "the program was compiled for target sm_90 to look at; it cannot run");
    sn_run_state_destroy(st);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

/* ---- written inputs ---- */

Test(run_state, written_inputs_go_through_storage_of_the_state) {
    sn_context *ctx = new_context();
    sn_program *p = compile(ctx, counting, NULL, NULL);
    static float x[N], n[2][N], y[2][N];
    sn_run_state *st[2];
    sn_tensor *in[2][2], *out[2][2] = {{NULL}};
    fill(x, N, 1);
    for (int k = 0; k < 2; k++) {
        cr_assert_eq(sn_run_state_create(&st[k], p), SN_OK);
        in[k][0] = wrap(ctx, p, x);
        in[k][1] = wrap(ctx, p, n[k]);
        out[k][0] = wrap(ctx, p, y[k]);
    }
    for (int round = 0; round < 3; round++)
        for (int k = 0; k < 2; k++)
            cr_assert_eq(sn_run_with(st[k], in[k], out[k], NULL), SN_OK, "%s", sn_run_state_error(st[k]));
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < N; i++) cr_assert_eq(n[k][i], x[i] + x[i] + x[i]);
        sn_run_state_destroy(st[k]);
        sn_tensor_destroy(in[k][0]);
        sn_tensor_destroy(in[k][1]);
        sn_tensor_destroy(out[k][0]);
    }
    sn_program_destroy(p);
    sn_context_destroy(ctx);
}

/* ---- life ---- */

Test(run_state, a_program_that_is_used_is_not_destroyed) {
    sn_context *ctx = new_context();
    sn_program *p = compile(ctx, mixed, NULL, NULL);
    sn_run_state *a, *b, *none = (sn_run_state *)&ctx;
    static float in[N], out[N];
    sn_tensor *x = wrap(ctx, p, in), *y = wrap(ctx, p, out);
    cr_expect_eq(sn_run_state_create(&none, NULL), SN_ERROR_ARGUMENT);
    cr_expect_null(none);
    cr_assert_eq(sn_run_state_create(&a, p), SN_OK);
    cr_assert_eq(sn_run_state_create(&b, p), SN_OK);
    sn_program_destroy(p);
    cr_expect_str_eq(sn_error(ctx), "sn_program_destroy: the program has 2 run states; destroy them first");
    cr_expect_eq(sn_run_with(a, &x, &y, NULL), SN_OK, "%s", sn_run_state_error(a));
    sn_run_state_destroy(a);
    sn_program_destroy(p);
    cr_expect_str_eq(sn_error(ctx), "sn_program_destroy: the program has 1 run state; destroy it first");
    sn_run_state_destroy(b);
    sn_run_state_destroy(NULL);
    sn_program_destroy(p);
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_context_destroy(ctx);
}

/* Memory that runs out at a given allocation, and what is held. */
typedef struct meter {
    long left; /* allocations; negative: no limit */
    long held;
    sn_run_state *busy; /* that a callback tries to use */
    int refused;
} meter;

static void *metered(void *user, void *p, size_t size) {
    meter *m = user;
    if (m->busy) m->refused += sn_run_with(m->busy, NULL, NULL, NULL) == SN_ERROR_ARGUMENT;
    if (size == 0) {
        m->held -= p != NULL;
        free(p);
        return NULL;
    }
    if (m->left == 0) return NULL;
    if (m->left > 0) m->left--;
    m->held += !p;
    return realloc(p, size);
}

Test(run_state, memory_that_runs_out_in_the_first_run) {
    meter m = {.left = -1};
    sn_context *ctx;
    sn_context_options o = {.struct_size = sizeof o, .realloc_fn = metered, .realloc_user = &m};
    cr_assert_eq(sn_context_create(&ctx, &o), SN_OK);
    sn_program *p = compile(ctx, mixed, NULL, NULL);
    static float in[N], out[N];
    sn_tensor *x = wrap(ctx, p, in), *y = wrap(ctx, p, out);
    sn_run_state *st;
    long before = m.held;
    m.left = 0;
    cr_expect_eq(sn_run_state_create(&st, p), SN_ERROR_MEMORY);
    cr_expect_null(st);
    m.left = -1;
    cr_assert_eq(sn_run_state_create(&st, p), SN_OK);
    long idle = m.held;
    sn_status status = SN_ERROR_MEMORY;
    for (long n = 0; n < 20 && status != SN_OK; n++) {
        m.left = n;
        status = sn_run_with(st, &x, &y, NULL);
        if (status == SN_OK) continue;
        cr_expect_eq(status, SN_ERROR_MEMORY);
        cr_expect(strstr(sn_run_state_error(st), "out of memory"), "%s", sn_run_state_error(st));
        cr_expect_eq(m.held, idle, "%ld allocations", n);
    }
    cr_expect_eq(status, SN_OK);
    long ready = m.held;
    m.left = 0; /* and none after the first run, whether it fails or not */
    cr_expect_eq(sn_run_with(st, &x, &y, NULL), SN_OK);
    cr_expect_eq(sn_run_with(st, NULL, &y, NULL), SN_ERROR_ARGUMENT);
    cr_expect_eq(sn_run_with(st, &x, &y, NULL), SN_OK);
    cr_expect_eq(m.held, ready);
    cr_expect_str_empty(sn_error(ctx));
    sn_run_state_destroy(st);
    cr_expect_eq(m.held, before);
    m.left = -1;
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
    sn_context_destroy(ctx);
    cr_expect_eq(m.held, 0);
}

Test(run_state, a_run_from_a_callback_is_refused) {
    meter m = {.left = -1};
    sn_context *ctx;
    sn_context_options o = {.struct_size = sizeof o, .realloc_fn = metered, .realloc_user = &m};
    cr_assert_eq(sn_context_create(&ctx, &o), SN_OK);
    sn_program *p = compile(ctx, mixed, NULL, NULL);
    static float in[N], out[N];
    sn_tensor *x = wrap(ctx, p, in), *y = wrap(ctx, p, out);
    sn_run_state *st;
    cr_assert_eq(sn_run_state_create(&st, p), SN_OK);
    m.busy = st;
    cr_expect_eq(sn_run_with(st, &x, &y, NULL), SN_OK, "%s", sn_run_state_error(st));
    m.busy = NULL;
    cr_expect_gt(m.refused, 0);
    sn_run_state_destroy(st);
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
    sn_context_destroy(ctx);
}

/* ---- runs that are started and waited for ---- */

static const float *want_of(const crowd *c, int number) { return c->wants + (size_t)number * c->n; }

/* All at once, from one thread, again and again. */
Test(run_state, several_runs_are_under_way_at_once) {
    enum { STATES = 4 };
    sn_context *ctx = new_context();
    crowd c = {.p = compile(ctx, mixed, "host", "generated"), .n = N};
    static float in[STATES][N], out[STATES][N];
    sn_run_state *st[STATES];
    sn_tensor *x[STATES], *y[STATES];
    find_wants(&c, ctx);
    for (int k = 0; k < STATES; k++) {
        cr_assert_eq(sn_run_state_create(&st[k], c.p), SN_OK);
        fill(in[k], N, k);
        x[k] = wrap(ctx, c.p, in[k]);
        y[k] = wrap(ctx, c.p, out[k]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        memset(out, 0, sizeof out);
        for (int k = 0; k < STATES; k++)
            cr_assert_eq(sn_run_start(st[k], &x[k], &y[k], NULL), SN_OK, "%s", sn_run_state_error(st[k]));
        for (int k = STATES; k-- > 0;) cr_assert_eq(sn_run_wait(st[k]), SN_OK, "%s", sn_run_state_error(st[k]));
        for (int k = 0; k < STATES; k++) cr_assert_eq(memcmp(out[k], want_of(&c, k), sizeof out[k]), 0);
    }
    for (int k = 0; k < STATES; k++) {
        cr_expect_eq(sn_run_wait(st[k]), SN_OK); /* nothing is under way */
        sn_run_state_destroy(st[k]);
        sn_tensor_destroy(x[k]);
        sn_tensor_destroy(y[k]);
    }
    sn_program_destroy(c.p);
    sn_context_destroy(ctx);
    free(c.wants);
}

Test(run_state, a_started_run_says_what_went_wrong) {
    sn_context *ctx = new_context();
    sn_program *p = compile(ctx, mixed, NULL, NULL);
    static float in[N], out[N];
    sn_tensor *x = wrap(ctx, p, in), *y = wrap(ctx, p, out);
    sn_run_state *st;
    cr_assert_eq(sn_run_state_create(&st, p), SN_OK);
    cr_expect_eq(sn_run_wait(st), SN_OK); /* of a state that has not run */
    cr_expect_eq(sn_run_start(st, NULL, &y, NULL), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_run_state_error(st), "input x: no tensor given");
    cr_expect_eq(sn_run_wait(st), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_run_state_error(st), "input x: no tensor given");
    cr_assert_eq(sn_run_start(st, &x, &y, NULL), SN_OK, "%s", sn_run_state_error(st));
    cr_expect_eq(sn_run_start(st, &x, &y, NULL), SN_ERROR_ARGUMENT); /* one at a time */
    cr_expect_eq(sn_run_with(st, &x, &y, NULL), SN_ERROR_ARGUMENT);
    cr_expect_str_empty(sn_run_state_error(st));
    cr_expect_eq(sn_run_state_status(st), SN_OK);
    cr_expect_eq(sn_run_wait(st), SN_OK, "%s", sn_run_state_error(st));
    cr_expect_eq(sn_run_with(st, &x, &y, NULL), SN_OK, "%s", sn_run_state_error(st));
    cr_expect_eq(sn_run_start(NULL, &x, &y, NULL), SN_ERROR_ARGUMENT);
    cr_expect_eq(sn_run_wait(NULL), SN_ERROR_ARGUMENT);
    sn_run_state_destroy(st);
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
    sn_context_destroy(ctx);
}

/* Tensor objects and lists may go; destroying the state waits. */
Test(run_state, a_run_under_way_ends_before_its_state) {
    sn_context *ctx = new_context();
    crowd c = {.p = compile(ctx, mixed, "host", "interpreted"), .n = N};
    static float in[N], out[N];
    find_wants(&c, ctx);
    fill(in, N, 2);
    for (int round = 0; round < ROUNDS; round++) {
        sn_tensor *x = wrap(ctx, c.p, in), *y = wrap(ctx, c.p, out);
        sn_run_state *st;
        memset(out, 0, sizeof out);
        cr_assert_eq(sn_run_state_create(&st, c.p), SN_OK);
        cr_assert_eq(sn_run_start(st, &x, &y, NULL), SN_OK, "%s", sn_run_state_error(st));
        sn_tensor_destroy(x);
        sn_tensor_destroy(y);
        sn_run_state_destroy(st);
        cr_assert_eq(memcmp(out, want_of(&c, 2), sizeof out), 0);
    }
    sn_program_destroy(c.p);
    sn_context_destroy(ctx);
    free(c.wants);
}

/* ---- one program, very often ---- */

enum { MANY = 1000 };

static const char small[] =
    "graph @f(%x: f32[24, 96]) {\n  %e = exp %x\n  %y = softmax %e axis=1\n  return y = %y\n}\n";

static void *run_many(void *user) {
    member *m = user;
    float in[N], out[N];
    sn_context *ctx;
    sn_run_state *st;
    sn_tensor *x, *y;
    if (sn_context_create(&ctx, NULL) || sn_run_state_create(&st, m->c->p)) return FAIL(m, "no state");
    fill(in, N, m->number);
    if (sn_tensor_wrap(&x, ctx, SN_CPU, in, SN_F32, SN_LIST(ROWS, COLUMNS), NULL, 0) ||
        sn_tensor_wrap(&y, ctx, SN_CPU, out, SN_F32, SN_LIST(ROWS, COLUMNS), NULL, 0))
        return FAIL(m, "%s", sn_error(ctx));
    for (int round = 0; round < MANY; round++) {
        memset(out, 0, sizeof out);
        if (sn_run_with(st, &x, &y, NULL)) return FAIL(m, "round %d: %s", round, sn_run_state_error(st));
        if (memcmp(out, want_of(m->c, m->number), sizeof out)) return FAIL(m, "round %d: other bits", round);
    }
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_run_state_destroy(st);
    sn_context_destroy(ctx);
    return NULL;
}

static void a_thousand_each(const char *schedule) {
    sn_context *ctx = new_context();
    crowd c = {.p = compile(ctx, small, schedule, "generated"), .n = N};
    member members[THREADS];
    find_wants(&c, ctx);
    start(members, &c, run_many);
    join(members);
    sn_program_destroy(c.p);
    sn_context_destroy(ctx);
    free(c.wants);
}

Test(run_state, eight_threads_run_a_program_a_thousand_times_each) { a_thousand_each("host"); }
Test(run_state, also_one_that_keeps_memory_between_runs) { a_thousand_each("gpu"); }
