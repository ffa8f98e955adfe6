/* folder.c: the entries of a folder as a whole: counted, read and checked, deleted, the oldest first where they are too many.
 *
 * A name that no entry has (entry.h) and no file that is being written is somebody else's: it is counted and left alone. What others
 * delete or write meanwhile is missed or seen, never an error. No memory is taken while a folder is open.
 */
#define XXH_INLINE_ALL
#include "cache/entry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

typedef enum file_is { IS_ENTRY, IS_PART, IS_OTHER } file_is;

/* One file of the folder. */
typedef struct found {
    const char *name;
    file_is is;
    sn_cache_kind kind; /* of an entry */
    sn_cache_key key;
    uint64_t size;
    struct timespec used;
} found;

typedef void (*visitor)(void *user, int folder, const found *f);

static bool look(found *out, int folder, const char *name) {
    struct stat st;
    size_t length;
    if (!strcmp(name, ".") || !strcmp(name, "..") || fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return false;
    *out = (found){.name = name, .size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0, .used = st.st_mtim};
    bool part = sn_file_is_part(&length, name), ours = sn_entry_of_name(&out->kind, &out->key, name, length);
    out->is = !ours ? IS_OTHER : part ? IS_PART : IS_ENTRY;
    return true;
}

/* Each file once. False: the folder cannot be read, and errno says why; one that does not exist has no files. */
static bool visit(const char *path, visitor see, void *user) {
    DIR *folder = opendir(path);
    found f;
    if (!folder) return errno == ENOENT;
    for (struct dirent *d; (d = readdir(folder));)
        if (look(&f, dirfd(folder), d->d_name)) see(user, dirfd(folder), &f);
    closedir(folder);
    return true;
}

static sn_status unreadable(sn_env *env, const char *folder) {
    return sn_fail(env, SN_ERROR_FILE, "cache %s: %s", folder, strerror(errno));
}

static void add(sn_cache_sum *sum, uint64_t bytes) {
    sum->files++;
    sum->bytes += bytes;
}

/* ---- counting ---- */

static void count(void *user, int folder, const found *f) {
    sn_cache_figures *all = user;
    (void)folder;
    add(f->is == IS_ENTRY ? &all->kinds[f->kind] : f->is == IS_PART ? &all->parts : &all->others, f->size);
}

sn_status sn_cache_stat(sn_cache_figures *out, sn_env *env, const char *folder) {
    *out = (sn_cache_figures){0};
    return visit(folder, count, out) ? SN_OK : unreadable(env, folder);
}

/* ---- checking ---- */

/* The digest of so many bytes that follow in the file. */
static bool sum_file(sn_cache_key *out, int fd, uint64_t size) {
    char piece[1 << 14];
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
    for (uint64_t left = size; left;) {
        ssize_t n = read(fd, piece, left < sizeof piece ? (size_t)left : sizeof piece);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        XXH3_128bits_update(&state, piece, (size_t)n);
        left -= (uint64_t)n;
    }
    XXH128_hash_t h = XXH3_128bits_digest(&state);
    *out = (sn_cache_key){{h.high64, h.low64}};
    return true;
}

static bool is_whole(int fd, const found *f) {
    sn_entry_head head, wanted = sn_entry_head_for(f->kind, f->key);
    sn_cache_key sum;
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || read(fd, &head, sizeof head) != (ssize_t)sizeof head)
        return false;
    return !sn_entry_fault(&head, &wanted, (uint64_t)st.st_size) && sum_file(&sum, fd, head.size) &&
           !memcmp(&sum, &head.sum, sizeof sum);
}

static bool delete(int folder, const found *f) {
    return unlinkat(folder, f->name, 0) == 0 || unlinkat(folder, f->name, AT_REMOVEDIR) == 0;
}

typedef struct verification {
    sn_cache_figures figures;
    sn_cache_sum bad;
    int64_t now;
} verification;

static void verify(void *user, int folder, const found *f) {
    verification *v = user;
    bool good = true;
    if (f->is == IS_PART) good = !sn_file_part_is_left(f->name, v->now - f->used.tv_sec);
    if (f->is == IS_ENTRY) {
        int fd = openat(folder, f->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0 && errno == ENOENT) return;
        good = fd >= 0 && is_whole(fd, f);
        if (fd >= 0) close(fd);
    }
    if (good || !delete(folder, f)) count(&v->figures, folder, f);
    if (!good) add(&v->bad, f->size);
}

sn_status sn_cache_verify(sn_cache_figures *out, sn_cache_sum *bad, sn_env *env, const char *folder) {
    verification v = {.now = time(NULL)};
    bool good = visit(folder, verify, &v);
    *out = v.figures;
    *bad = v.bad;
    return good ? SN_OK : unreadable(env, folder);
}

/* ---- deleting ---- */

typedef struct clearing {
    sn_cache_sum gone;
    int64_t now;
} clearing;

static void clear(void *user, int folder, const found *f) {
    clearing *c = user;
    bool part_in_use = f->is == IS_PART && !sn_file_part_is_left(f->name, c->now - f->used.tv_sec);
    if (f->is != IS_OTHER && !part_in_use && delete(folder, f)) add(&c->gone, f->size);
}

sn_status sn_cache_clear(sn_cache_sum *out, sn_env *env, const char *folder) {
    clearing c = {.now = time(NULL)};
    bool good = visit(folder, clear, &c);
    *out = c.gone;
    return good ? SN_OK : unreadable(env, folder);
}

/* ---- too many ---- */

/* An entry as what may go. */
typedef struct aged {
    struct timespec used;
    uint64_t size;
    sn_cache_kind kind;
    sn_cache_key key;
} aged;

typedef struct trimming {
    sn_cache_sum all;
    int64_t now;
    aged *at; /* NULL: they are counted */
    size_t n, cap;
} trimming;

/* Leftovers go along; entries are put down where there is room. */
static void gather(void *user, int folder, const found *f) {
    trimming *t = user;
    if (f->is == IS_PART && sn_file_part_is_left(f->name, t->now - f->used.tv_sec)) delete(folder, f);
    if (f->is != IS_ENTRY) return;
    add(&t->all, f->size);
    if (t->at && t->n < t->cap) t->at[t->n++] = (aged){f->used, f->size, f->kind, f->key};
}

static int by_use(const void *a, const void *b) {
    const aged *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

static void evict(sn_cache *c, const aged *a) {
    char key[SN_CACHE_KEY_TEXT], path[SN_PATH_MOST];
    sn_cache_key_text(key, a->key);
    snprintf(path, sizeof path, "%s/%s.%s", c->folder, key, sn_cache_kind_names[a->kind]);
    if (unlink(path) == 0) atomic_fetch_add(&c->evicted, 1);
}

/* Room for a quarter is made at once, so that not every compilation has to. */
void sn_cache_trim(sn_cache *c, sn_env *env) {
    trimming t = {.now = time(NULL)};
    if (!c || !atomic_exchange(&c->fresh, 0) || !visit(c->folder, gather, &t) || t.all.bytes <= c->most) return;
    sn_arena scratch;
    sn_arena_init(&scratch, env);
    t.cap = t.all.files;
    t.at = SN_NEWN(&scratch, aged, t.cap);
    t.all = (sn_cache_sum){0};
    if (visit(c->folder, gather, &t)) {
        qsort(t.at, t.n, sizeof *t.at, by_use);
        for (size_t i = 0; i < t.n && t.all.bytes > c->most - c->most / 4; i++) {
            evict(c, &t.at[i]);
            t.all.bytes -= t.at[i].size;
        }
    }
    sn_arena_free(&scratch);
}
