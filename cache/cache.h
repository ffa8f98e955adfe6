/* cache.h: what compiling made, remembered on disk: bytes by the digest of all that they were made from.
 *
 *     sn_cache *c = sn_cache_open(arena, folder, most);              a compilation's
 *     key = sn_cache_key_of(text, size);
 *     if (!sn_cache_get(&bytes, &size, c, kind, key, arena)) ... make them; sn_cache_put(c, kind, key, parts, n);
 *     sn_cache_trim(c, env);                                         what was used longest ago goes
 *
 * Nothing of it fails: an entry that is damaged is deleted and made anew, a folder that cannot be read or written and a
 * full disk are no cache and one line for the caller (warning). Several threads and several processes may use one folder
 * at once, without locks. NULL is a cache that is off.
 */
#ifndef SN_CACHE_CACHE_H
#define SN_CACHE_CACHE_H

#include <stdatomic.h>

#include "cache/files.h"

typedef enum sn_cache_kind {
    SN_CACHE_PTX,
    SN_CACHE_CUBIN,
    SN_CACHE_OBJECT,
    SN_CACHE_IMAGE,
    SN_N_CACHE_KINDS
} sn_cache_kind;
extern const char *const
    sn_cache_kind_names[SN_N_CACHE_KINDS]; /* "ptx" "cubin" "object" "image": what files end in, too */

/* A digest. */
typedef struct sn_cache_key {
    uint64_t at[2];
} sn_cache_key;
sn_cache_key sn_cache_key_of(const void *text, size_t size);
enum { SN_CACHE_KEY_TEXT = 33 };
void sn_cache_key_text(char out[SN_CACHE_KEY_TEXT], sn_cache_key key); /* 32 hexadecimal digits */

/* What happened to an entry, for those who ask afterwards (sn_cache_note). */
typedef enum sn_cache_what {
    SN_CACHE_HIT,
    SN_CACHE_MISS,
    SN_CACHE_STORED,
    SN_CACHE_DAMAGED,
    SN_N_CACHE_WHATS
} sn_cache_what;
extern const char *const sn_cache_event_names[SN_N_CACHE_WHATS]; /* "hit" "miss" "stored" "damaged" */
typedef struct sn_cache_event {
    sn_cache_what what;
    sn_cache_kind kind;
    sn_cache_key key;
    uint64_t bytes; /* 0: not known */
} sn_cache_event;

typedef struct sn_cache {
    const char *folder;
    uint64_t most;          /* bytes of all entries */
    atomic_ullong fresh;    /* bytes that were stored */
    atomic_bool off;        /* nothing can be read or written: no more is tried */
    atomic_bool no_writing; /* nothing can be written */
    atomic_bool warned;     /* whoever sets it writes the warning */
    char warning[320];      /* the first thing that went wrong, one line; "": nothing has */
    atomic_uint hits, misses, stored, evicted, bad;
    sn_cache_event *events; /* the first most_events of n_events; NULL: nobody asks */
    uint32_t most_events;
    atomic_uint n_events;
} sn_cache;

/* A folder that does not exist is made when something is stored. The texts stay borrowed. */
sn_cache *sn_cache_open(sn_arena *arena, const char *folder, uint64_t most);
/* Events are noted from now on: room for those of a program of so many kernels. */
void sn_cache_note(sn_cache *c, sn_arena *arena, uint32_t kernels);
/* The bytes of an entry, in the arena, aligned to 16, and a 0 behind them. False: there is none. */
bool sn_cache_get(void **out, size_t *size, sn_cache *c, sn_cache_kind kind, sn_cache_key key, sn_arena *arena);
void sn_cache_put(sn_cache *c, sn_cache_kind kind, sn_cache_key key, const sn_file_part *parts, uint32_t n);
/* An entry that sn_cache_get gave is none, says who reads it: deleted, like a damaged one. */
void sn_cache_reject(sn_cache *c, sn_cache_kind kind, sn_cache_key key);
/* Where something was stored and all entries are too many bytes, those that were used longest ago go. */
void sn_cache_trim(sn_cache *c, sn_env *env);

/* ---- a folder as a whole (folder.c) ---- */

typedef struct sn_cache_sum {
    uint64_t files, bytes;
} sn_cache_sum;
typedef struct sn_cache_figures {
    sn_cache_sum kinds[SN_N_CACHE_KINDS], parts, others; /* parts: being written, or left; others: not ours */
} sn_cache_figures;
/* A folder that does not exist is empty. */
sn_status sn_cache_stat(sn_cache_figures *out, sn_env *env, const char *folder);
/* Read all entries and delete those that are damaged, and what processes that ended left. bad: what was deleted. */
sn_status sn_cache_verify(sn_cache_figures *out, sn_cache_sum *bad, sn_env *env, const char *folder);
/* Delete all entries. */
sn_status sn_cache_clear(sn_cache_sum *out, sn_env *env, const char *folder);

#endif
