/* threads.h: a pool of threads that share out a range of independent pieces of work. */
#ifndef SN_RUNTIME_THREADS_H
#define SN_RUNTIME_THREADS_H

#include "ir/base/base.h"

typedef struct sn_pool sn_pool;

/* Pieces begin .. end-1. */
typedef void (*sn_pool_fn)(void *user, int64_t begin, int64_t end);

/* threads counts one caller of sn_pool_run; 0: one for each processor. Fewer are made when the system refuses more. */
sn_pool *sn_pool_new(sn_env *env, uint32_t threads);
void sn_pool_free(sn_pool *pool);
/* Processors that the calling thread may run on. */
uint32_t sn_processors(void);
uint32_t sn_pool_threads(const sn_pool *pool);

/* Run pieces 0 .. n-1 and wait for all of them. Chunks are handed out as threads become free. Several threads may call it
 * at once, each for pieces of its own; the workers are shared out among them. */
void sn_pool_run(sn_pool *pool, int64_t n, sn_pool_fn fn, void *user);

#endif
