/* test_threads.c: the thread pool: every piece of work runs once, whoever and how many call it. The thread sanitizer looks
 * at these tests too (tests/tsan).
 */
#define _GNU_SOURCE /* sched_setaffinity */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "runtime/threads.h"

typedef struct {
    _Atomic int hits[1000];
    _Atomic int calls;
} tally;

static void count_pieces(void *user, int64_t begin, int64_t end) {
    tally *t = user;
    t->calls++;
    for (int64_t i = begin; i < end; i++) t->hits[i]++;
}

static void each_piece_once(uint32_t threads, int64_t n) {
    sn_env env;
    sn_env_init(&env);
    sn_pool *pool = sn_pool_new(&env, threads);
    for (int round = 0; round < 50; round++) {
        tally t = {0};
        sn_pool_run(pool, n, count_pieces, &t);
        for (int64_t i = 0; i < n; i++) cr_assert_eq(t.hits[i], 1, "%u threads, piece %lld", threads, (long long)i);
    }
    sn_pool_free(pool);
    cr_assert_eq(env.bytes_now, 0);
}

Test(threads, every_piece_runs_once) {
    each_piece_once(1, 1000);
    each_piece_once(2, 1);
    each_piece_once(3, 1000);
    each_piece_once(8, 7);
}

enum { CALLERS = 6 };

/* A caller of a pool that others call too. */
static void *call_pool(void *user) {
    sn_pool *pool = user;
    for (int round = 0; round < 200; round++) {
        tally t = {0};
        int64_t n = 2 + round * 5;
        sn_pool_run(pool, n, count_pieces, &t);
        for (int64_t i = 0; i < n; i++)
            if (t.hits[i] != 1) return user;
    }
    return NULL;
}

Test(threads, several_callers_at_once) {
    sn_env env;
    sn_env_init(&env);
    sn_pool *pool = sn_pool_new(&env, 3);
    pthread_t callers[CALLERS];
    for (int k = 0; k < CALLERS; k++) cr_assert_eq(pthread_create(&callers[k], NULL, call_pool, pool), 0);
    for (int k = 0; k < CALLERS; k++) {
        void *failed;
        pthread_join(callers[k], &failed);
        cr_expect_null(failed, "caller %d: a piece did not run once", k);
    }
    sn_pool_free(pool);
}

Test(threads, nothing_to_do) {
    sn_env env;
    sn_env_init(&env);
    sn_pool *pool = sn_pool_new(&env, 2);
    tally t = {0};
    sn_pool_run(pool, 0, count_pieces, &t);
    cr_assert_eq(t.calls, 0);
    cr_assert_eq(sn_pool_threads(pool), 2);
    sn_pool_free(pool);
}

Test(threads, zero_means_one_for_each_processor) {
    sn_env env;
    sn_env_init(&env);
    sn_pool *pool = sn_pool_new(&env, 0);
    cr_assert_geq(sn_pool_threads(pool), 1);
    sn_pool_free(pool);
}

/* More threads than processors that they may run on would only take turns. */
Test(threads, a_process_that_may_use_one_processor) {
    cpu_set_t set, one;
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    CPU_ZERO(&one);
    for (int k = 0; k < CPU_SETSIZE && !CPU_COUNT(&one); k++)
        if (CPU_ISSET(k, &set)) CPU_SET(k, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    cr_assert_eq(sn_processors(), 1);
}
