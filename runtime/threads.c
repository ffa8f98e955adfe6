/* threads.c: the thread pool behind CPU kernels and parallel assembling.
 *
 * Workers sleep on a condition variable; a run opens a job, takes part in it, closes it and waits only for the workers
 * that joined. One that wakes up late finds the job closed and sleeps on, so a short run does not pay for its wake-up.
 * Workers have the C locale, as the thread of a running call has it: libraries that assemble print and read numbers.
 * Does not nest: a piece of work must not call sn_pool_run on its own pool.
 */
#include "runtime/threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* More chunks than threads even out pieces of unequal cost; far more would only contend on the counter. */
enum { CHUNKS_PER_THREAD = 8 };

struct sn_pool {
    sn_env *env;
    uint32_t n_workers, cap; /* workers beside the caller */
    pthread_t *workers;
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    /* Under the lock: */
    uint64_t job; /* number of the latest job */
    bool open, stop;
    uint32_t active; /* workers inside the job */
    /* Written before the job opens, read inside it: */
    sn_pool_fn fn;
    void *user;
    int64_t n, chunk;
    _Atomic int64_t next;
};

static void take_chunks(sn_pool *pool) {
    for (;;) {
        int64_t begin = atomic_fetch_add_explicit(&pool->next, pool->chunk, memory_order_relaxed);
        if (begin >= pool->n) return;
        int64_t end = pool->n - begin < pool->chunk ? pool->n : begin + pool->chunk;
        pool->fn(pool->user, begin, end);
    }
}

static void *work(void *user) {
    sn_pool *pool = user;
    uint64_t seen = 0;
    if (pool->env->c_locale) uselocale(pool->env->c_locale);
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->stop && pool->job == seen) pthread_cond_wait(&pool->start, &pool->lock);
        if (pool->stop) break;
        seen = pool->job;
        if (!pool->open) continue;
        pool->active++;
        pthread_mutex_unlock(&pool->lock);
        take_chunks(pool);
        pthread_mutex_lock(&pool->lock);
        if (--pool->active == 0) pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static uint32_t processors(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

sn_pool *sn_pool_new(sn_env *env, uint32_t threads) {
    if (!threads) threads = processors();
    sn_pool *pool = sn_heap_alloc(env, sizeof *pool);
    *pool = (sn_pool){.env = env, .cap = threads - 1};
    pool->workers = sn_heap_alloc(env, pool->cap * sizeof *pool->workers);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->done, NULL);
    while (pool->n_workers < pool->cap && pthread_create(&pool->workers[pool->n_workers], NULL, work, pool) == 0)
        pool->n_workers++;
    return pool;
}

void sn_pool_free(sn_pool *pool) {
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->n_workers; i++) pthread_join(pool->workers[i], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->start);
    pthread_mutex_destroy(&pool->lock);
    sn_heap_free(pool->env, pool->workers, pool->cap * sizeof *pool->workers);
    sn_heap_free(pool->env, pool, sizeof *pool);
}

uint32_t sn_pool_threads(const sn_pool *pool) { return pool->n_workers + 1; }

static void open_job(sn_pool *pool, int64_t n, sn_pool_fn fn, void *user) {
    int64_t chunk = n / ((int64_t)CHUNKS_PER_THREAD * sn_pool_threads(pool));
    pthread_mutex_lock(&pool->lock);
    pool->fn = fn;
    pool->user = user;
    pool->n = n;
    pool->chunk = chunk ? chunk : 1;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->open = true;
    pool->job++;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
}

static void close_job(sn_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->open = false;
    while (pool->active) pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void sn_pool_run(sn_pool *pool, int64_t n, sn_pool_fn fn, void *user) {
    if (n <= 0) return;
    if (n == 1 || !pool->n_workers) {
        fn(user, 0, n);
        return;
    }
    open_job(pool, n, fn, user);
    take_chunks(pool);
    close_job(pool);
}
