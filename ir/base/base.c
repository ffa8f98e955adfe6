/* base.c: environment, arenas, chunked tables. See base.h for the contract.
 *
 * An arena is a list of malloc'd chunks that double up to 1 MiB; larger requests get a chunk of their own. All memory
 * is counted in the environment, so that a test can bound what a compilation takes, and listed there, so that a call
 * that was broken off can be cleaned up after. The list is not ordered: walking it is for that rare case alone.
 */
#include "ir/base/base.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *plain_realloc(void *user, void *p, size_t size) {
    (void)user;
    if (size == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, size);
}

void sn_env_init(sn_env *env) {
    memset(env, 0, sizeof *env);
    env->realloc_fn = plain_realloc;
}

/* Names and file contents of the user may hold anything; the message is one line. */
static void keep_one_line(char *s) {
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 127) *s = '?';
}

sn_status sn_vfail(sn_env *env, sn_status status, const char *format, va_list args) {
    SN_ASSERT(status != SN_OK);
    if (env->status == SN_OK) {
        env->status = status;
        vsnprintf(env->message, sizeof env->message, format, args);
        keep_one_line(env->message);
    }
    return status;
}

sn_status sn_fail(sn_env *env, sn_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    sn_vfail(env, status, format, args);
    va_end(args);
    return status;
}

void sn_env_clear(sn_env *env) {
    env->status = SN_OK;
    env->message[0] = 0;
}

void sn_locale_enter(sn_env *env) {
    if (env->c_locale) env->host_locale = uselocale(env->c_locale);
}

bool sn_locale_leave(sn_env *env) {
    if (!env->host_locale) return false;
    uselocale(env->host_locale);
    env->host_locale = (locale_t)0;
    return true;
}

_Noreturn void sn_out_of_memory(sn_env *env, size_t wanted) {
    sn_fail(env, SN_ERROR_MEMORY, "out of memory (%zu bytes wanted, %zu in use)", wanted, env->bytes_now);
    SN_ASSERT(env->guard && "memory ran out outside the guard of frontend/context/guard.c");
    longjmp(*env->guard, SN_ERROR_MEMORY);
}

static void *host_realloc(sn_env *env, void *p, size_t size) {
    bool inside = sn_locale_leave(env);
    void *q = env->realloc_fn(env->realloc_user, p, size);
    if (inside) sn_locale_enter(env);
    return q;
}

static void count_bytes(sn_env *env, size_t more, size_t less) {
    env->bytes_now += more - less;
    if (env->bytes_now > env->bytes_peak) env->bytes_peak = env->bytes_now;
}

/* In front of every piece of memory. */
typedef struct sn_block {
    struct sn_block *next, **link; /* link: what points here */
    uint64_t birth;                /* a number of its own, or its arena's */
    size_t size;                   /* without this header */
} sn_block;

static_assert(sizeof(sn_block) % 16 == 0, "memory behind the header is aligned to 16");

static sn_block *block_of(void *p) { return (sn_block *)p - 1; }

static void block_link(sn_block *b) {
    *b->link = b;
    if (b->next) b->next->link = &b->next;
}

static void block_free(sn_env *env, sn_block *b) {
    *b->link = b->next;
    if (b->next) b->next->link = b->link;
    count_bytes(env, 0, b->size);
    host_realloc(env, b, 0);
}

static void *block_new(sn_env *env, size_t size, uint64_t birth) {
    if (size > SIZE_MAX / 2) sn_out_of_memory(env, size);
    sn_block *b = host_realloc(env, NULL, sizeof *b + size);
    if (!b) sn_out_of_memory(env, size);
    *b = (sn_block){env->blocks, &env->blocks, birth, size};
    block_link(b);
    count_bytes(env, size, 0);
    return b + 1;
}

uint64_t sn_env_mark(const sn_env *env) { return env->births; }

void sn_env_release(sn_env *env, uint64_t mark) {
    for (sn_block *b = env->blocks, *next; b; b = next) {
        next = b->next;
        if (b->birth > mark) block_free(env, b);
    }
}

void *sn_heap_alloc(sn_env *env, size_t size) { return size ? block_new(env, size, ++env->births) : NULL; }

void *sn_heap_realloc(sn_env *env, void *p, size_t old_size, size_t size) {
    if (!p) return sn_heap_alloc(env, size);
    if (size == 0) {
        sn_heap_free(env, p, old_size);
        return NULL;
    }
    if (size > SIZE_MAX / 2) sn_out_of_memory(env, size);
    sn_block *b = host_realloc(env, block_of(p), sizeof *b + size);
    if (!b) sn_out_of_memory(env, size);
    block_link(b); /* it may have moved */
    b->size = size;
    count_bytes(env, size, old_size);
    return b + 1;
}

void sn_heap_free(sn_env *env, void *p, SN_UNUSED size_t size) {
    if (!p) return;
    SN_ASSERT(block_of(p)->size == size);
    block_free(env, block_of(p));
}

void sn_heap_keep(void *p) { block_of(p)->birth = 0; }

/* ---- arena ---- */

enum { CHUNK_FIRST = 4096, CHUNK_MAX = 1 << 20, ALIGN = 16 };

struct sn_arena_chunk {
    sn_arena_chunk *before;
    size_t size; /* with this header */
};

void sn_arena_init(sn_arena *a, sn_env *env) { *a = (sn_arena){.env = env, .birth = ++env->births}; }

void sn_arena_free(sn_arena *a) {
    for (sn_arena_chunk *c = a->chunk, *before; c; c = before) {
        before = c->before;
        sn_heap_free(a->env, c, c->size);
    }
    *a = (sn_arena){.env = a->env, .birth = a->birth};
}

static void arena_grow(sn_arena *a, size_t size) {
    size_t want = a->chunk ? a->chunk->size * 2 : CHUNK_FIRST;
    if (want > CHUNK_MAX) want = CHUNK_MAX;
    if (want < size + 2 * ALIGN) want = size + 2 * ALIGN;
    sn_arena_chunk *c = block_new(a->env, want, a->birth);
    *c = (sn_arena_chunk){a->chunk, want};
    a->chunk = c;
    a->at = (char *)c + ALIGN;
    a->end = (char *)c + want;
}

void *sn_alloc(sn_arena *a, size_t size) {
    if (size > SIZE_MAX / 2) sn_out_of_memory(a->env, size);
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (!a->chunk || size > (size_t)(a->end - a->at)) arena_grow(a, size);
    void *p = a->at;
    a->at += size;
    return p;
}

void *sn_zalloc(sn_arena *a, size_t size) {
    void *p = sn_alloc(a, size);
    memset(p, 0, size);
    return p;
}

void *sn_zalloc_list(sn_arena *a, size_t size, size_t n) {
    size_t all;
    if (sn_mul_overflow(size, n, &all)) sn_out_of_memory(a->env, SIZE_MAX);
    return sn_zalloc(a, all);
}

void *sn_memdup(sn_arena *a, const void *p, size_t size) {
    void *q = sn_alloc(a, size);
    if (size) memcpy(q, p, size);
    return q;
}

char *sn_strndup(sn_arena *a, const char *s, size_t n) {
    char *q = sn_alloc(a, n + 1);
    if (n) memcpy(q, s, n);
    q[n] = 0;
    return q;
}

char *sn_strdup(sn_arena *a, const char *s) { return sn_strndup(a, s, strlen(s)); }

char *sn_strf(sn_arena *a, const char *format, ...) {
    va_list args;
    char most[128]; /* of what is asked for fits */
    va_start(args, format);
    int n = vsnprintf(most, sizeof most, format, args);
    va_end(args);
    if ((size_t)n < sizeof most) return sn_strndup(a, most, (size_t)n);
    char *s = sn_alloc(a, (size_t)n + 1);
    va_start(args, format);
    vsnprintf(s, (size_t)n + 1, format, args);
    va_end(args);
    return s;
}

/* ---- table ---- */

void sn_table_init(sn_table *t, sn_arena *arena, size_t record_size) {
    *t = (sn_table){.arena = arena, .record_size = (uint32_t)record_size};
    sn_table_add(t); /* record 0: none */
}

uint32_t sn_table_add(sn_table *t) {
    uint32_t c = t->count / SN_TABLE_CHUNK;
    if (c == t->n_chunks) {
        if (t->n_chunks == t->chunk_cap)
            t->chunks = sn_vec_grow(t->arena, t->chunks, t->n_chunks, &t->chunk_cap, sizeof *t->chunks);
        t->chunks[t->n_chunks++] = sn_zalloc(t->arena, (size_t)SN_TABLE_CHUNK * t->record_size);
    }
    return t->count++;
}

void *sn_vec_grow(sn_arena *a, void *at, uint32_t n, uint32_t *cap, size_t size) {
    if (*cap > UINT32_MAX / 2) sn_out_of_memory(a->env, (size_t)*cap * 2 * size);
    uint32_t more = *cap ? *cap * 2 : 8;
    void *q = sn_alloc(a, more * size);
    if (n) memcpy(q, at, n * size);
    *cap = more;
    return q;
}

uint64_t sn_hash_bytes(uint64_t h, const void *p, size_t n) {
    const unsigned char *s = p;
    for (; n >= 8; n -= 8, s += 8) {
        uint64_t x;
        memcpy(&x, s, 8);
        h = sn_hash(h, x);
    }
    uint64_t tail = n;
    for (size_t i = 0; i < n; i++) tail = tail << 8 | s[i];
    return sn_hash(h, tail);
}
