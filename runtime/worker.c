/* worker.c: a thread that does one thing at a time for its owner. It sleeps in between. Does not queue: whoever starts has waited
 * for what was started before. A child of fork has no threads of its parent's: a worker is not open there.
 */
#include "runtime/worker.h"

#include <unistd.h>

/* Is there a thread, in this process? */
static bool is_here(const sn_worker *w) { return w->open && w->owner == getpid(); }

static void *work(void *user) {
    sn_worker *w = user;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        if (!w->fn) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        w->fn(w->user);
        pthread_mutex_lock(&w->lock);
        w->fn = NULL;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

bool sn_worker_open(sn_worker *w) {
    if (is_here(w)) return true;
    *w = (sn_worker){.owner = getpid()};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->open = pthread_create(&w->thread, NULL, work, w) == 0;
    if (w->open) return true;
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    return false;
}

void sn_worker_start(sn_worker *w, void (*fn)(void *user), void *user) {
    pthread_mutex_lock(&w->lock);
    w->fn = fn;
    w->user = user;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void sn_worker_wait(sn_worker *w) {
    if (!is_here(w)) return;
    pthread_mutex_lock(&w->lock);
    while (w->fn) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

void sn_worker_close(sn_worker *w) {
    if (!is_here(w)) return;
    sn_worker_wait(w);
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    w->open = false;
}
