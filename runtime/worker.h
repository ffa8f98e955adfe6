/* worker.h: a thread that does one thing at a time for its owner, who goes on meanwhile. */
#ifndef SN_RUNTIME_WORKER_H
#define SN_RUNTIME_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

/* Zeroed: it has no thread yet. */
typedef struct sn_worker {
    pthread_t thread;
    pid_t owner; /* the process that it is in */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open, stop;
    /* Under the lock: */
    void (*fn)(void *user); /* NULL: nothing to do */
    void *user;
} sn_worker;

/* False: the system has no thread left. Again: nothing. */
bool sn_worker_open(sn_worker *w);
void sn_worker_start(sn_worker *w, void (*fn)(void *user), void *user);
/* Until what was started is done. */
void sn_worker_wait(sn_worker *w);
void sn_worker_close(sn_worker *w);

#endif
