/* test_fork.c: what a process made is there for its children: programs and run states of the CPU run, compile and go away in a
 * child of fork, which has none of its parent's threads. A child that waits for one of them would wait forever; an alarm ends it.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/sinter/sinter.h"
#include "runtime/threads.h"

enum { ROWS = 64, COLUMNS = 512, N = ROWS * COLUMNS, PATIENCE = 60 /* seconds */ };

static const char softmax[] = "graph @f(%x: f32[64, 512]) {\n  %y = softmax %x axis=1\n  return y = %y\n}\n";

typedef struct service {
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    sn_run_state *state;
    sn_tensor *x, *y;
} service;

static void open_service(service *s) {
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 4};
    cr_assert_eq(sn_context_create(&s->ctx, NULL), SN_OK);
    cr_assert_eq(sn_graph_from_text(&s->g, s->ctx, "f", softmax, strlen(softmax)), SN_OK);
    cr_assert_eq(sn_compile(&s->p, s->g, &o), SN_OK, "%s", sn_error(s->ctx));
    cr_assert_eq(sn_run_state_create(&s->state, s->p), SN_OK);
    cr_assert_eq(sn_tensor_for_input(&s->x, s->p, 0), SN_OK);
    cr_assert_eq(sn_tensor_for_output(&s->y, s->p, 0), SN_OK);
}

static void close_service(service *s) {
    sn_tensor_destroy(s->x);
    sn_tensor_destroy(s->y);
    sn_run_state_destroy(s->state);
    sn_program_destroy(s->p);
    sn_graph_destroy(s->g);
    sn_context_destroy(s->ctx);
}

/* Every way to run, twice. */
static bool serves(service *s) {
    static float y[N];
    sn_program *again;
    bool ok = true;
    for (int k = 0; k < 2; k++)
        ok = ok && !sn_run(s->p, &s->x, &s->y, NULL) && !sn_run_with(s->state, &s->x, &s->y, NULL) &&
             !sn_run_start(s->state, &s->x, &s->y, NULL) && !sn_run_wait(s->state);
    ok = ok && !sn_tensor_read(y, s->y, sizeof y) && y[N - 1] == 1.0f / COLUMNS;
    ok =
        ok && !sn_compile(&again, s->g, &(sn_compile_options){.struct_size = sizeof(sn_compile_options), .threads = 2});
    ok = ok && !sn_run(again, &s->x, &s->y, NULL);
    if (ok) sn_program_destroy(again);
    return ok;
}

static void child_serves(service *s) {
    int status;
    pid_t pid = fork();
    if (!pid) {
        alarm(PATIENCE);
        bool ok = serves(s);
        close_service(s);
        _exit(ok ? 0 : 1);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
}

Test(fork, a_child_runs_and_destroys) {
    service s;
    open_service(&s);
    child_serves(&s); /* nothing ran before */
    cr_assert(serves(&s));
    child_serves(&s);
    cr_assert(serves(&s)); /* the parent goes on */
    close_service(&s);
}

static void count_pieces(void *user, int64_t begin, int64_t end) {
    _Atomic int *hits = user;
    for (int64_t i = begin; i < end; i++) hits[i]++;
}

static void *call_pool(void *user) {
    for (int round = 0; round < 100; round++) {
        _Atomic int hits[100] = {0};
        sn_pool_run(user, 100, count_pieces, hits);
        for (int k = 0; k < 100; k++)
            if (hits[k] != 1) return user;
    }
    return NULL;
}

/* Several threads of the child come to the pool first, at once. */
Test(fork, threads_of_a_child_share_a_pool) {
    sn_env env;
    sn_env_init(&env);
    sn_pool *pool = sn_pool_new(&env, 3);
    int status;
    cr_assert_null(call_pool(pool));
    pid_t pid = fork();
    if (!pid) {
        pthread_t t[4];
        void *wrong[4];
        bool ok = true;
        alarm(PATIENCE);
        for (int k = 0; k < 4; k++) ok = ok && !pthread_create(&t[k], NULL, call_pool, pool);
        for (int k = 0; ok && k < 4; k++) ok = !pthread_join(t[k], &wrong[k]) && !wrong[k];
        sn_pool_free(pool);
        _exit(ok ? 0 : 1);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
    sn_pool_free(pool);
    cr_assert_eq(env.bytes_now, 0);
}
