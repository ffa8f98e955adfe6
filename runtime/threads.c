/* threads.c: the thread pool behind CPU kernels and parallel assembling.
 *
 * Workers sleep on a condition variable; a run opens a job, takes part in it, closes it and waits only for the workers
 * that joined. One that wakes up late finds the job closed and sleeps on, so a short run does not pay for its wake-up.
 * Before a thread sleeps it looks for work as long as waking takes: runs that follow each other find it awake, and at
 * worst it has looked for as long as it would have been woken.
 * Several callers may have a job open at once: a worker joins the one with fewest others, and each caller works on its
 * own, so that nobody waits for a stranger's pieces.
 * Workers have the C locale, as the thread of a running call has it: libraries that assemble print and read numbers.
 * With threads of the caller (sn_env.parallel) a pool has none: a run hands over as many tasks as there are chunks.
 * A child of fork has none of its parent's threads: a pool makes its own there, before the first work that it shares out.
 * Does not nest: a piece of work must not call sn_pool_run on its own pool.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "runtime/threads.h"

#include "runtime/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

/* More chunks than threads even out pieces of unequal cost; far more would only contend on the counter. */
enum { CHUNKS_PER_THREAD = 8 };

enum { NOBODY = 0 /* no process: workers are being made */ };

/* About as long as a sleeping thread takes to wake. */
static const double AWAKE_US = 40;

/* A range of pieces that its caller waits for; it lies on the caller's stack. */
typedef struct job {
    sn_pool_fn fn;
    void *user;
    int64_t n, chunk;
    _Atomic int64_t next;
    /* Under the lock of the pool: */
    _Atomic uint32_t active; /* workers inside; read without the lock, too */
    struct job *before, *after;
} job;

struct sn_pool {
    sn_env *env;
    uint32_t threads;        /* with the caller's: for so many work is cut */
    uint32_t n_workers, cap; /* workers beside the callers */
    pthread_t *workers;
    _Atomic pid_t owner; /* the process that has them */
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    /* Under the lock: */
    job *jobs;               /* that are open */
    _Atomic uint32_t opened; /* how many so far; read without the lock, too */
    bool stop;
};

/* A range for threads of the caller (sn_env.parallel). */
typedef struct lent_job {
    sn_pool_fn fn;
    void *user;
    int64_t n, chunk;
    locale_t c_locale;
} lent_job;

static void take_chunks(job *j) {
    for (;;) {
        int64_t begin = atomic_fetch_add_explicit(&j->next, j->chunk, memory_order_relaxed);
        if (begin >= j->n) return;
        int64_t end = j->n - begin < j->chunk ? j->n : begin + j->chunk;
        j->fn(j->user, begin, end);
    }
}

/* The job with pieces left that fewest workers are in. */
static job *choose(const sn_pool *pool) {
    job *best = NULL;
    for (job *j = pool->jobs; j; j = j->after) {
        bool left = atomic_load_explicit(&j->next, memory_order_relaxed) < j->n;
        if (left && (!best || j->active < best->active)) best = j;
    }
    return best;
}

/* What a loop that waits leaves to others of its core. */
static void pause_core(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Wait until the number is another one, or for a while; false: it was in vain. */
static bool look_out(const _Atomic uint32_t *number, uint32_t seen) {
    enum { LOOKS = 64 };
    for (double start = sn_now_us(); sn_now_us() - start < AWAKE_US;)
        for (int k = 0; k < LOOKS; k++) {
            if (atomic_load_explicit(number, memory_order_relaxed) != seen) return true;
            pause_core();
        }
    return false;
}

static void *work(void *user) {
    sn_pool *pool = user;
    if (pool->env->c_locale) uselocale(pool->env->c_locale);
    bool looked = false;
    pthread_mutex_lock(&pool->lock);
    while (!pool->stop) {
        job *j = choose(pool);
        if (!j && looked) {
            pthread_cond_wait(&pool->start, &pool->lock);
            continue;
        }
        looked = !j;
        if (!j) {
            uint32_t seen = pool->opened;
            pthread_mutex_unlock(&pool->lock);
            look_out(&pool->opened, seen);
            pthread_mutex_lock(&pool->lock);
            continue;
        }
        j->active++;
        pthread_mutex_unlock(&pool->lock);
        take_chunks(j);
        pthread_mutex_lock(&pool->lock);
        if (--j->active == 0) pthread_cond_broadcast(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Of a machine with more of them than a cpu_set_t holds, those that are online. */
uint32_t sn_processors(void) {
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

/* The locks and the workers, which find nothing to do. */
static void start_workers(sn_pool *pool) {
    pool->jobs = NULL;
    pool->n_workers = 0;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->done, NULL);
    while (pool->n_workers < pool->cap && pthread_create(&pool->workers[pool->n_workers], NULL, work, pool) == 0)
        pool->n_workers++;
}

sn_pool *sn_pool_new(sn_env *env, uint32_t threads) {
    if (!threads) threads = sn_processors();
    sn_pool *pool = sn_heap_alloc(env, sizeof *pool);
    *pool = (sn_pool){.env = env, .cap = env->parallel ? 0 : threads - 1, .threads = threads, .owner = getpid()};
    pool->workers = sn_heap_alloc(env, pool->cap * sizeof *pool->workers);
    start_workers(pool);
    if (!env->parallel) pool->threads = pool->n_workers + 1;
    return pool;
}

/* In a child of fork: the workers are not there, and the locks are as they were at that moment. The first caller begins anew,
 * others wait for that. */
static void own_workers(sn_pool *pool) {
    pid_t self = getpid();
    for (pid_t owner; (owner = pool->owner) != self; pause_core())
        if (owner != NOBODY && atomic_compare_exchange_strong(&pool->owner, &owner, NOBODY)) {
            start_workers(pool);
            pool->owner = self;
        }
}

static void stop_workers(sn_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->n_workers; i++) pthread_join(pool->workers[i], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->start);
    pthread_mutex_destroy(&pool->lock);
}

void sn_pool_free(sn_pool *pool) {
    if (!pool) return;
    if (pool->owner == getpid()) stop_workers(pool);
    sn_heap_free(pool->env, pool->workers, pool->cap * sizeof *pool->workers);
    sn_heap_free(pool->env, pool, sizeof *pool);
}

uint32_t sn_pool_threads(const sn_pool *pool) { return pool->threads; }

static void open_job(sn_pool *pool, job *j) {
    pthread_mutex_lock(&pool->lock);
    j->after = pool->jobs;
    if (j->after) j->after->before = j;
    pool->jobs = j;
    pool->opened++;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
}

static void close_job(sn_pool *pool, job *j) {
    pthread_mutex_lock(&pool->lock);
    if (j->before) j->before->after = j->after;
    else pool->jobs = j->after;
    if (j->after) j->after->before = j->before;
    pthread_mutex_unlock(&pool->lock);
    for (uint32_t active; (active = j->active) != 0 && look_out(&j->active, active);) continue;
    pthread_mutex_lock(&pool->lock);
    while (j->active) pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

/* Chunk k, on a thread of the caller. */
static void take_chunk(void *data, size_t k) {
    const lent_job *l = data;
    locale_t before = l->c_locale ? uselocale(l->c_locale) : (locale_t)0;
    int64_t begin = (int64_t)k * l->chunk;
    l->fn(l->user, begin, l->n - begin < l->chunk ? l->n : begin + l->chunk);
    if (l->c_locale) uselocale(before);
}

void sn_pool_run(sn_pool *pool, int64_t n, sn_pool_fn fn, void *user) {
    if (n <= 0) return;
    if (n == 1 || pool->threads == 1) {
        fn(user, 0, n);
        return;
    }
    int64_t chunk = n / ((int64_t)CHUNKS_PER_THREAD * sn_pool_threads(pool));
    if (!chunk) chunk = 1;
    if (pool->env->parallel) {
        lent_job lent = {fn, user, n, chunk, pool->env->c_locale};
        pool->env->parallel(pool->env->parallel_user, take_chunk, &lent, (size_t)((n - 1) / chunk + 1));
        return;
    }
    job j = {.fn = fn, .user = user, .n = n, .chunk = chunk};
    own_workers(pool);
    open_job(pool, &j);
    take_chunks(&j);
    close_job(pool, &j);
}
