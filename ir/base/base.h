/* base.h: what every other file stands on: status values, the environment (allocator, first error, out-of-memory
 * guard), arenas and chunked tables.
 *
 * Errors are values. sn_fail() is the only producer of a status that is not SN_OK; it keeps the first message.
 * Memory comes from arenas: sn_alloc never returns NULL, because running out of memory longjmps to the guard that
 * frontend/context/guard.c installs. The guard then gives back whatever the broken call had allocated (sn_env_release),
 * so code between the two need not clean up memory behind itself. Nothing here prints, exits or keeps global state.
 * Numbers are those of the C locale, in texts that are read and in those that are written: the guard puts the calling
 * thread into that locale (sn_locale_enter), and a callback of the host finds its own.
 */
#ifndef SN_IR_BASE_BASE_H
#define SN_IR_BASE_BASE_H

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/sinter/status.h"

#define SN_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define SN_UNUSED __attribute__((unused))
#define SN_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Evaluate a call that returns sn_status; pass a failure on. */
#define SN_TRY(call)                              \
    do {                                          \
        sn_status sn_try_status = (call);         \
        if (sn_try_status != SN_OK) return sn_try_status; \
    } while (0)

/* A broken invariant of ours (never the user's fault). Compiled out with NDEBUG. */
#ifdef NDEBUG
#define SN_ASSERT(c) ((void)sizeof(c))
#else
#include <assert.h>
#define SN_ASSERT(c) assert(c)
#endif

/* ---- environment ---- */

enum { SN_MESSAGE_MAX = 2048 };

/* Allocator hook: size 0 frees p; p NULL allocates; the rest is realloc. NULL result = out of memory. */
typedef void *(*sn_realloc_fn)(void *user, void *p, size_t size);

/* Runs task(data, k) for k = 0 .. count-1 on threads of the caller, and returns when all are done (sn_context_options). */
typedef void (*sn_parallel_fn)(void *user, void (*task)(void *data, size_t k), void *data, size_t count);

typedef struct sn_env {
    sn_realloc_fn realloc_fn;
    void *realloc_user;
    sn_status status;             /* first failure, SN_OK if none */
    char message[SN_MESSAGE_MAX]; /* its one-line text */
    jmp_buf *guard;               /* where out-of-memory and fatal errors of libraries go; NULL: no guard installed */
    size_t bytes_now, bytes_peak; /* held by arenas of this environment */
    struct sn_block *blocks;      /* all memory held */
    uint64_t births;              /* number of the youngest block or arena */
    locale_t c_locale;            /* of the thread while a call runs; none in an environment without a guard */
    locale_t host_locale;         /* what it had before; none while no call runs */
    sn_parallel_fn parallel;      /* threads for pools; NULL: they make their own */
    void *parallel_user;
} sn_env;

/* Plain malloc-backed environment. */
void sn_env_init(sn_env *env);

/* Record a failure (the first one wins) and return its status. The text is one line in the user's terms. */
sn_status sn_fail(sn_env *env, sn_status status, const char *format, ...) SN_PRINTF(3, 4);
sn_status sn_vfail(sn_env *env, sn_status status, const char *format, va_list args);

/* Forget the recorded failure. */
void sn_env_clear(sn_env *env);

/* The calling thread gets the C locale, for us and the libraries that we call. Other threads keep theirs. */
void sn_locale_enter(sn_env *env);
/* It gets back what it had. False: it was not entered. Around a callback: leave, call, and enter again if it was. */
bool sn_locale_leave(sn_env *env);

/* Out of memory: record it and longjmp to the guard. Does not return. */
_Noreturn void sn_out_of_memory(sn_env *env, size_t wanted);

/* What was allocated since a mark and not freed can be given back at once. An arena counts as a whole: one that is
 * older than the mark keeps what it has grown by since. */
uint64_t sn_env_mark(const sn_env *env);
void sn_env_release(sn_env *env, uint64_t mark);

/* Checked heap memory for the few things that are not arena-shaped (free with sn_heap_free). size 0 gives NULL. */
void *sn_heap_alloc(sn_env *env, size_t size);
void *sn_heap_realloc(sn_env *env, void *p, size_t old_size, size_t size);
void sn_heap_free(sn_env *env, void *p, size_t size);
/* From now on no release takes the block: it belongs to something older than the running call. */
void sn_heap_keep(void *p);

/* ---- arena ---- */

/* A region of memory that is freed all at once. Addresses never move. */
typedef struct sn_arena_chunk sn_arena_chunk;
typedef struct sn_arena {
    sn_env *env;
    sn_arena_chunk *chunk;
    char *at, *end;
    uint64_t birth; /* see sn_env_mark */
} sn_arena;

void sn_arena_init(sn_arena *a, sn_env *env);
void sn_arena_free(sn_arena *a);
/* Uninitialised / zeroed memory, aligned to 16. */
void *sn_alloc(sn_arena *a, size_t size);
void *sn_zalloc(sn_arena *a, size_t size);
/* n zeroed elements; more than the address space has are out of memory. */
void *sn_zalloc_list(sn_arena *a, size_t size, size_t n);
void *sn_memdup(sn_arena *a, const void *p, size_t size);
char *sn_strdup(sn_arena *a, const char *s);
char *sn_strndup(sn_arena *a, const char *s, size_t n);
char *sn_strf(sn_arena *a, const char *format, ...) SN_PRINTF(2, 3);
#define SN_NEW(a, type) ((type *)sn_zalloc((a), sizeof(type)))
#define SN_NEWN(a, type, n) ((type *)sn_zalloc_list((a), sizeof(type), (size_t)(n)))

/* ---- chunked table ---- */

/* Records of one size, numbered from 1; record 0 is "none". Addresses never move. */
typedef struct sn_table {
    sn_arena *arena;
    uint32_t record_size, count; /* count includes the none record */
    uint32_t n_chunks, chunk_cap;
    char **chunks;
} sn_table;

enum { SN_TABLE_CHUNK = 256 }; /* records per chunk */

void sn_table_init(sn_table *t, sn_arena *arena, size_t record_size);
/* Append a zeroed record; its number is returned. */
uint32_t sn_table_add(sn_table *t);
static inline void *sn_table_at(const sn_table *t, uint32_t i) {
    SN_ASSERT(i > 0 && i < t->count);
    return t->chunks[i / SN_TABLE_CHUNK] + (size_t)(i % SN_TABLE_CHUNK) * t->record_size;
}

/* ---- growing array in an arena ---- */

/* SN_VEC(type) name = {0};  SN_PUSH(arena, &name, value);  name.at[i], name.n */
#define SN_VEC(type) struct { type *at; uint32_t n, cap; }
#define SN_PUSH(arena, v, value)                                                                     \
    do {                                                                                             \
        if ((v)->n == (v)->cap)                                                                      \
            (v)->at = sn_vec_grow((arena), (v)->at, (v)->n, &(v)->cap, sizeof(*(v)->at));            \
        (v)->at[(v)->n++] = (value);                                                                 \
    } while (0)
void *sn_vec_grow(sn_arena *a, void *at, uint32_t n, uint32_t *cap, size_t size);

/* ---- small helpers ---- */

/* 64-bit mix for hash tables. */
static inline uint64_t sn_hash(uint64_t h, uint64_t x) {
    h ^= x + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93ull;
    h ^= h >> 32;
    return h;
}
uint64_t sn_hash_bytes(uint64_t h, const void *p, size_t n);

/* The next random word (splitmix64). */
static inline uint64_t sn_draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* Overflow-checked int64 arithmetic: true when the result does not fit. */
#define sn_add_overflow __builtin_add_overflow
#define sn_sub_overflow __builtin_sub_overflow
#define sn_mul_overflow __builtin_mul_overflow

#endif
