/* store.c: one entry read, checked, written: a file for each key and kind.
 *
 *     FOLDER/5f0c7e91d2b8463f5a0c7e91d2b84611.ptx
 *     | mark | version | kind | size | key | sum of the bytes |  bytes ...
 *
 * All of a file is read, then checked: a cut, a flipped bit and a file that was moved here from another name are found, whoever
 * writes at the same time. Memory is taken before the file is opened, so that running out of it leaves nothing open. The
 * time of a file is that of its last use, give or take a quarter of an hour. Digests are XXH3 of 128 bits: they find accidents,
 * they stop nobody who may write to the folder; a folder that everybody may write to is refused for that.
 */
#define XXH_INLINE_ALL
#include "cache/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

const char *const sn_cache_kind_names[SN_N_CACHE_KINDS] = {"ptx", "cubin", "object", "image"};

const char *const sn_cache_event_names[SN_N_CACHE_WHATS] = {"hit", "miss", "stored", "damaged"};

static const char entry_mark[8] = {'S', 'i', 'n', 't', 'e', 'r', '\n', 0};
enum { ENTRY_VERSION = 1, USE_SECONDS = 15 * 60 };

void sn_cache_warn(sn_cache *c, const char *format, ...) {
    va_list args;
    if (atomic_exchange(&c->warned, true)) return;
    va_start(args, format);
    vsnprintf(c->warning, sizeof c->warning, format, args);
    va_end(args);
}

/* ---- events ---- */

/* An entry is looked for, found broken, and stored, at most; a kernel has PTX and a cubin, the wrapper an object. */
void sn_cache_note(sn_cache *c, sn_arena *arena, uint32_t kernels) {
    enum { EVENTS = 3, ENTRIES = 2, OTHERS = 2 };
    c->most_events = EVENTS * (ENTRIES * kernels + OTHERS);
    c->events = SN_NEWN(arena, sn_cache_event, c->most_events);
}

/* Threads have a place each: whoever reads them comes when all are done. */
static void note(sn_cache *c, sn_cache_what what, sn_cache_kind kind, sn_cache_key key, uint64_t bytes) {
    if (!c->events) return;
    uint32_t at = atomic_fetch_add(&c->n_events, 1);
    if (at < c->most_events) c->events[at] = (sn_cache_event){what, kind, key, bytes};
}

/* ---- keys and names ---- */

static sn_cache_key key_from(XXH128_hash_t h) { return (sn_cache_key){{h.high64, h.low64}}; }

sn_cache_key sn_cache_key_of(const void *text, size_t size) { return key_from(XXH3_128bits(text, size)); }

void sn_cache_key_text(char out[SN_CACHE_KEY_TEXT], sn_cache_key key) {
    snprintf(out, SN_CACHE_KEY_TEXT, "%016llx%016llx", (unsigned long long)key.at[0], (unsigned long long)key.at[1]);
}

static bool path_of(char *out, const sn_cache *c, sn_cache_kind kind, sn_cache_key key) {
    char text[SN_CACHE_KEY_TEXT];
    sn_cache_key_text(text, key);
    return snprintf(out, SN_PATH_MOST, "%s/%s.%s", c->folder, text, sn_cache_kind_names[kind]) < SN_PATH_MOST;
}

static bool read_digit(uint64_t *out, char c) {
    if (c >= '0' && c <= '9') *out = (uint64_t)(c - '0');
    else if (c >= 'a' && c <= 'f') *out = (uint64_t)(c - 'a' + 10);
    else return false;
    return true;
}

bool sn_entry_of_name(sn_cache_kind *kind, sn_cache_key *key, const char *name, size_t length) {
    enum { DIGITS = SN_CACHE_KEY_TEXT - 1 };
    if (length < DIGITS + 2 || name[DIGITS] != '.') return false;
    *key = (sn_cache_key){{0, 0}};
    for (int i = 0; i < DIGITS; i++) {
        uint64_t digit, *word = &key->at[2 * i / DIGITS];
        if (!read_digit(&digit, name[i])) return false;
        *word = *word << 4 | digit;
    }
    for (int k = 0; k < SN_N_CACHE_KINDS; k++) {
        size_t n = strlen(sn_cache_kind_names[k]);
        *kind = (sn_cache_kind)k;
        if (length == DIGITS + 1 + n && !memcmp(name + DIGITS + 1, sn_cache_kind_names[k], n)) return true;
    }
    return false;
}

/* ---- what an entry is ---- */

sn_entry_head sn_entry_head_for(sn_cache_kind kind, sn_cache_key key) {
    sn_entry_head head = {.version = ENTRY_VERSION, .kind = kind, .key = key};
    memcpy(head.mark, entry_mark, sizeof head.mark);
    return head;
}

const char *sn_entry_fault(const sn_entry_head *head, const sn_entry_head *wanted, uint64_t file_size) {
    if (file_size < sizeof *head || head->size != file_size - sizeof *head) return "is cut off";
    if (memcmp(head->mark, wanted->mark, sizeof head->mark) != 0) return "is no entry";
    if (head->version != wanted->version) return "is of another version";
    if (head->kind != wanted->kind || memcmp(&head->key, &wanted->key, sizeof head->key) != 0)
        return "is another entry's";
    return NULL;
}

/* ---- opening ---- */

sn_cache *sn_cache_open(sn_arena *arena, const char *folder, uint64_t most) {
    sn_cache *c = SN_NEW(arena, sn_cache);
    struct stat st;
    c->folder = folder;
    c->most = most;
    char path[SN_PATH_MOST];
    if (!path_of(path, c, SN_CACHE_OBJECT, (sn_cache_key){{0, 0}})) {
        sn_cache_warn(c, "cache %.200s...: the name is too long; not used", folder);
    } else if (stat(folder, &st) != 0) {
        if (errno == ENOENT) return c;
        sn_cache_warn(c, "cache %s: %s; not used", folder, strerror(errno));
    } else if (!S_ISDIR(st.st_mode)) {
        sn_cache_warn(c, "cache %s: it is no folder; not used", folder);
    } else if (st.st_mode & S_IWOTH) {
        sn_cache_warn(c, "cache %s: everybody may write there; not used", folder);
    } else {
        return c;
    }
    c->off = true;
    return c;
}

/* ---- reading ---- */

static void drop(sn_cache *c, const char *path, const char *why) {
    atomic_fetch_add(&c->bad, 1);
    bool gone = unlink(path) == 0 || rmdir(path) == 0;
    sn_cache_warn(c, "cache entry %s %s; %s", path, why, gone ? "made anew" : "not used");
}

static bool read_all(int fd, void *out, size_t size) {
    char *at = out;
    for (size_t left = size; left;) {
        ssize_t n = read(fd, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n, left -= (size_t)n;
    }
    return true;
}

/* Others may touch what this process may not. */
static void note_use(int fd, const struct stat *st) {
    if (time(NULL) - st->st_mtim.tv_sec > USE_SECONDS) futimens(fd, NULL);
}

/* All of a file of which st is known; false: it is another one by now, or cannot be read. */
static bool read_file(char *out, const char *path, const struct stat *st) {
    struct stat now;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return false;
    bool good = fstat(fd, &now) == 0 && now.st_size == st->st_size && read_all(fd, out, (size_t)st->st_size);
    if (good) note_use(fd, &now);
    close(fd);
    return good;
}

static bool miss(sn_cache *c, sn_cache_kind kind, sn_cache_key key) {
    atomic_fetch_add(&c->misses, 1);
    note(c, SN_CACHE_MISS, kind, key, 0);
    return false;
}

/* An entry that does not count: gone, and missed. */
static bool damaged(sn_cache *c, sn_cache_kind kind, sn_cache_key key, const char *path, const char *why) {
    drop(c, path, why);
    note(c, SN_CACHE_DAMAGED, kind, key, 0);
    return miss(c, kind, key);
}

/* Whole entry in memory; the bytes begin behind the head. */
static const char *check(const char *file, size_t size, sn_cache_kind kind, sn_cache_key key) {
    sn_entry_head head, wanted = sn_entry_head_for(kind, key);
    memcpy(&head, file, sizeof head);
    const char *why = sn_entry_fault(&head, &wanted, size);
    if (why) return why;
    sn_cache_key sum = sn_cache_key_of(file + sizeof head, head.size);
    return memcmp(&sum, &head.sum, sizeof sum) != 0 ? "is damaged" : NULL;
}

bool sn_cache_get(void **out, size_t *size, sn_cache *c, sn_cache_kind kind, sn_cache_key key, sn_arena *arena) {
    enum { HEAD_ROOM = (sizeof(sn_entry_head) + 15) / 16 * 16 };
    char path[SN_PATH_MOST];
    struct stat st;
    if (!c || c->off || !path_of(path, c, kind, key)) return false;
    if (lstat(path, &st) != 0) {
        if (errno != ENOENT) sn_cache_warn(c, "cache entry %s: %s; not used", path, strerror(errno));
        return miss(c, kind, key);
    }
    if (!S_ISREG(st.st_mode)) return damaged(c, kind, key, path, "is no file");
    if ((uint64_t)st.st_size < sizeof(sn_entry_head)) return damaged(c, kind, key, path, "is cut off");
    char *room = sn_alloc(arena, (size_t)st.st_size + 16), *file = room + (HEAD_ROOM - sizeof(sn_entry_head));
    errno = 0;
    if (!read_file(file, path, &st)) {
        if (errno && errno != ENOENT) sn_cache_warn(c, "cache entry %s: %s; not used", path, strerror(errno));
        return miss(c, kind, key);
    }
    const char *why = check(file, (size_t)st.st_size, kind, key);
    if (why) return damaged(c, kind, key, path, why);
    file[st.st_size] = 0;
    *out = file + sizeof(sn_entry_head);
    *size = (size_t)st.st_size - sizeof(sn_entry_head);
    atomic_fetch_add(&c->hits, 1);
    note(c, SN_CACHE_HIT, kind, key, *size);
    return true;
}

void sn_cache_reject(sn_cache *c, sn_cache_kind kind, sn_cache_key key) {
    char path[SN_PATH_MOST];
    if (!path_of(path, c, kind, key)) return;
    atomic_fetch_sub(&c->hits, 1);
    atomic_fetch_add(&c->misses, 1);
    drop(c, path, "is not what it should be");
    note(c, SN_CACHE_DAMAGED, kind, key, 0);
}

/* ---- writing ---- */

enum { PARTS_MOST = 8 };

static sn_cache_key sum_of(uint64_t *size, const sn_file_part *parts, uint32_t n) {
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
    *size = 0;
    for (uint32_t i = 0; i < n; i++) {
        XXH3_128bits_update(&state, parts[i].at, parts[i].size);
        *size += parts[i].size;
    }
    return key_from(XXH3_128bits_digest(&state));
}

/* The folder is made when the first entry finds none. *why 0: it went away again, somebody clears it at this moment. */
static bool place(int *why, const sn_cache *c, const char *path, const sn_file_part *parts, uint32_t n) {
    if (sn_file_place(path, parts, n, 0)) return true;
    *why = errno;
    if (*why != ENOENT) return false;
    if (!sn_folder_make(c->folder)) return *why = errno, false;
    if (sn_file_place(path, parts, n, 0)) return true;
    *why = errno == ENOENT ? 0 : errno;
    return false;
}

void sn_cache_put(sn_cache *c, sn_cache_kind kind, sn_cache_key key, const sn_file_part *parts, uint32_t n) {
    char path[SN_PATH_MOST];
    sn_file_part all[PARTS_MOST + 1];
    if (!c || c->off || c->no_writing || !path_of(path, c, kind, key)) return;
    SN_ASSERT(n <= PARTS_MOST);
    sn_entry_head head = sn_entry_head_for(kind, key);
    head.sum = sum_of(&head.size, parts, n);
    if (head.size + sizeof head > c->most) return;
    all[0] = (sn_file_part){&head, sizeof head};
    for (uint32_t i = 0; i < n; i++) all[i + 1] = parts[i];
    int why;
    if (place(&why, c, path, all, n + 1)) {
        atomic_fetch_add(&c->stored, 1);
        atomic_fetch_add(&c->fresh, head.size + sizeof head);
        note(c, SN_CACHE_STORED, kind, key, head.size);
        return;
    }
    if (!why) return;
    if (why != EISDIR) c->no_writing = true; /* a folder that somebody made in place of one entry */
    sn_cache_warn(c, "cache entry %s: %s; not kept", path, strerror(why));
}
