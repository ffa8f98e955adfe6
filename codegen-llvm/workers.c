/* workers.c: pieces of code generation side by side, each in an environment of its own.
 *
 *     piece 0: env 0, body(0) -\
 *     piece 1: env 1, body(1) --+-> take(0), take(1), ... on the caller's thread, in order; then the environments go
 *     ...                      -/
 *
 * So what comes out, errors included (that of the lowest piece), does not depend on how many threads there are. Memory of
 * all environments comes from the caller's allocator, one call at a time. Knows nothing of LLVM.
 */
#include "codegen-llvm/workers.h"

#include <pthread.h>

typedef struct piece {
    sn_env env;
    sn_status status;
} piece;

typedef struct crew {
    sn_env *env; /* of the caller */
    pthread_mutex_t lock;
    piece *pieces;
    uint32_t n;
    const sn_pieces *work;
} crew;

static void *locked_realloc(void *user, void *p, size_t size) {
    crew *c = user;
    pthread_mutex_lock(&c->lock);
    void *q = c->env->realloc_fn(c->env->realloc_user, p, size);
    pthread_mutex_unlock(&c->lock);
    return q;
}

static sn_status run_piece(crew *c, uint32_t i) {
    jmp_buf here;
    sn_env *env = &c->pieces[i].env;
    env->guard = &here;
    if (setjmp(here)) return env->status;
    return c->work->body(c->work->user, env, i);
}

static void run_pieces(void *user, int64_t begin, int64_t end) {
    crew *c = user;
    for (int64_t i = begin; i < end; i++) {
        sn_env *env = &c->pieces[i].env;
        sn_locale_enter(env);
        if (env->host_locale == env->c_locale)
            env->host_locale = LC_GLOBAL_LOCALE; /* a thread of ours: the host has none there */
        c->pieces[i].status = run_piece(c, (uint32_t)i);
        sn_locale_leave(env);
        env->guard = NULL;
    }
}

static sn_status take_all(crew *c) {
    for (uint32_t i = 0; i < c->n; i++) {
        const piece *p = &c->pieces[i];
        if (p->status != SN_OK) return sn_fail(c->env, p->status, "%s", p->env.message);
        SN_TRY(c->work->take(c->work->user, i));
    }
    return SN_OK;
}

/* The caller's memory counts what the pieces held, all at once at most. */
static void release_all(crew *c) {
    size_t held = c->env->bytes_now;
    bool inside = sn_locale_leave(c->env); /* the pieces' memory hook is the host's */
    for (uint32_t i = 0; i < c->n; i++) {
        held += c->pieces[i].env.bytes_now;
        sn_env_release(&c->pieces[i].env, 0);
    }
    if (inside) sn_locale_enter(c->env);
    if (held > c->env->bytes_peak) c->env->bytes_peak = held;
    pthread_mutex_destroy(&c->lock);
}

/* Taking may run out of memory: the pieces' is given back before the jump goes on. */
static sn_status take_guarded(crew *c) {
    jmp_buf here, *outer = c->env->guard;
    sn_status status;
    volatile bool jumped = false;
    c->env->guard = &here;
    if (setjmp(here) == 0) {
        status = take_all(c);
    } else {
        jumped = true;
        status = c->env->status;
    }
    c->env->guard = outer;
    release_all(c);
    if (jumped && outer) longjmp(*outer, (int)status);
    return status;
}

sn_status sn_cg_pieces(sn_env *env, const sn_workers *workers, uint32_t n, const sn_pieces *work) {
    crew c = {.env = env, .n = n, .work = work};
    if (!n) return SN_OK;
    c.pieces = sn_heap_alloc(env, n * sizeof *c.pieces);
    pthread_mutex_init(&c.lock, NULL);
    for (uint32_t i = 0; i < n; i++) {
        c.pieces[i].status = SN_OK;
        sn_env_init(&c.pieces[i].env);
        c.pieces[i].env.realloc_fn = locked_realloc;
        c.pieces[i].env.realloc_user = &c;
        c.pieces[i].env.c_locale = env->c_locale;
    }
    bool inside = sn_locale_leave(env); /* each piece enters it by itself */
    if (workers) workers->run(workers->pool, n, run_pieces, &c);
    else run_pieces(&c, 0, n);
    if (inside) sn_locale_enter(env);
    sn_status status = take_guarded(&c);
    sn_heap_free(env, c.pieces, n * sizeof *c.pieces);
    return status;
}
