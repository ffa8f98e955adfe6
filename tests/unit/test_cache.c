/* test_cache.c: the store of generated code: what is put is got, nothing else ever is, whatever happens to its files, and whoever
 * else uses the folder.
 *
 * The long form of the test of several processes: SINTER_TEST_CACHE_PROCESSES=8 SINTER_TEST_CACHE_ROUNDS=200.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache/cache.h"

enum { BYTES = 40, FILE_BYTES = 56 + BYTES };

typedef struct fixture {
    sn_env env;
    sn_arena arena;
    char root[64], folder[128];
    sn_cache *c;
} fixture;

static void reopen(fixture *f, uint64_t most) { f->c = sn_cache_open(&f->arena, f->folder, most); }

static void begin(fixture *f) {
    sn_env_init(&f->env);
    sn_arena_init(&f->arena, &f->env);
    strcpy(f->root, "/tmp/sinter-cache-XXXXXX");
    cr_assert(mkdtemp(f->root));
    snprintf(f->folder, sizeof f->folder, "%s/a/code", f->root);
    reopen(f, 1 << 20);
}

static void end(fixture *f) {
    char command[128];
    sn_arena_free(&f->arena);
    cr_expect_eq(f->env.bytes_now, 0);
    snprintf(command, sizeof command, "rm -rf %s", f->root);
    cr_expect_eq(system(command), 0);
}

static sn_cache_key key(uint64_t k) { return sn_cache_key_of(&k, sizeof k); }

/* What belongs to a key. */
static void fill(unsigned char out[BYTES], uint64_t k) {
    for (int i = 0; i < BYTES; i++) out[i] = (unsigned char)(k * 37 + (uint64_t)i * 11);
}

static void put(fixture *f, uint64_t k) {
    unsigned char bytes[BYTES];
    fill(bytes, k);
    const sn_file_part parts[] = {{bytes, 7}, {NULL, 0}, {bytes + 7, BYTES - 7}};
    sn_cache_put(f->c, SN_CACHE_PTX, key(k), parts, SN_COUNT(parts));
}

/* Found: and then it is right. */
static bool get(fixture *f, uint64_t k) {
    void *got;
    size_t size;
    unsigned char bytes[BYTES];
    fill(bytes, k);
    if (!sn_cache_get(&got, &size, f->c, SN_CACHE_PTX, key(k), &f->arena)) return false;
    cr_assert(size == BYTES && !memcmp(got, bytes, BYTES) && !((char *)got)[BYTES] && (uintptr_t)got % 16 == 0);
    return true;
}

static const char *path_of(const fixture *f, uint64_t k) {
    static char path[256];
    char text[SN_CACHE_KEY_TEXT];
    sn_cache_key_text(text, key(k));
    snprintf(path, sizeof path, "%s/%s.ptx", f->folder, text);
    return path;
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

static size_t read_file(char *out, size_t most, const char *path) {
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    size_t n = fread(out, 1, most, file);
    fclose(file);
    return n;
}

static void write_file(const char *path, const void *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fwrite(bytes, 1, n, file), n);
    cr_assert_eq(fclose(file), 0);
}

__attribute__((noinline)) static unsigned open_files(void) {
    unsigned n = 0;
    DIR *all = opendir("/proc/self/fd");
    while (readdir(all)) n++;
    closedir(all);
    return n;
}

static uint64_t entries(fixture *f) {
    sn_cache_figures figures;
    cr_assert_eq(sn_cache_stat(&figures, &f->env, f->folder), SN_OK, "%s", f->env.message);
    return figures.kinds[SN_CACHE_PTX].files;
}

Test(cache, what_is_put_is_got) {
    fixture f;
    void *got;
    size_t size;
    begin(&f);
    cr_expect(!get(&f, 1));
    cr_expect(!exists(f.folder), "looking makes no folder");
    put(&f, 1);
    put(&f, 2);
    cr_expect(get(&f, 1) && get(&f, 2) && !get(&f, 3));
    cr_expect(!sn_cache_get(&got, &size, f.c, SN_CACHE_OBJECT, key(1), &f.arena), "another kind");
    cr_expect(f.c->hits == 2 && f.c->misses == 3 && f.c->stored == 2 && !f.c->bad && !f.c->evicted);
    cr_expect_str_eq(f.c->warning, "");
    sn_cache_put(f.c, SN_CACHE_CUBIN, key(9), NULL, 0);
    cr_expect(sn_cache_get(&got, &size, f.c, SN_CACHE_CUBIN, key(9), &f.arena) && size == 0);
    cr_expect(!sn_cache_get(&got, &size, NULL, SN_CACHE_PTX, key(1), &f.arena), "a cache that is off");
    sn_cache_put(NULL, SN_CACHE_PTX, key(1), NULL, 0);
    sn_cache_trim(NULL, &f.env);
    reopen(&f, 1 << 20);
    cr_expect(get(&f, 1), "another opening");
    end(&f);
}

/* Write bytes in place of the entry: it is not there, is gone, and can be put again. */
static void expect_bad(fixture *f, const char *bytes, size_t n, const char *why) {
    write_file(path_of(f, 1), bytes, n);
    reopen(f, 1 << 20);
    cr_expect(!get(f, 1), "%zu bytes were taken", n);
    cr_expect(!exists(path_of(f, 1)) && f->c->bad == 1 && f->c->misses == 1 && !f->c->hits);
    cr_expect(strstr(f->c->warning, "cache entry /tmp/") == f->c->warning && strstr(f->c->warning, why), "%s",
              f->c->warning);
    put(f, 1);
    cr_expect(get(f, 1));
}

Test(cache, every_bit_counts) {
    fixture f;
    char good[FILE_BYTES + 1], bad[FILE_BYTES + 1];
    begin(&f);
    put(&f, 1);
    cr_assert_eq(read_file(good, sizeof good, path_of(&f, 1)), FILE_BYTES);
    good[FILE_BYTES] = 0;
    for (size_t i = 0; i < FILE_BYTES * 8; i++) {
        memcpy(bad, good, sizeof bad);
        bad[i / 8] ^= (char)(1 << i % 8);
        expect_bad(&f, bad, FILE_BYTES, "; made anew");
    }
    for (size_t n = 0; n < FILE_BYTES; n++) expect_bad(&f, good, n, "is cut off");
    expect_bad(&f, good, FILE_BYTES + 1, "is cut off");
    end(&f);
}

Test(cache, what_is_no_entry_of_the_name) {
    fixture f;
    char other[FILE_BYTES], old[300];
    begin(&f);
    put(&f, 1);
    put(&f, 2);
    cr_assert_eq(read_file(other, sizeof other, path_of(&f, 2)), FILE_BYTES);
    expect_bad(&f, other, FILE_BYTES, "is another entry's");
    expect_bad(&f, "# a text that somebody has put here, as long as the head of an entry, and longer", 80,
               "is cut off");
    other[8]++;
    expect_bad(&f, other, FILE_BYTES, "is of another version");
    other[0]++;
    expect_bad(&f, other, FILE_BYTES, "is no entry");
    /* an empty folder goes, a pipe and a link too, none of which is opened */
    unlink(path_of(&f, 1));
    mkdir(path_of(&f, 1), 0777);
    cr_expect(!get(&f, 1) && !exists(path_of(&f, 1)));
    mkfifo(path_of(&f, 1), 0666);
    cr_expect(!get(&f, 1) && !exists(path_of(&f, 1)));
    snprintf(old, sizeof old, "%s", path_of(&f, 2));
    cr_assert_eq(symlink(old, path_of(&f, 1)), 0);
    cr_expect(!get(&f, 1) && !exists(path_of(&f, 1)) && exists(old));
    /* one with something in it stays, and the others work */
    mkdir(path_of(&f, 1), 0777);
    snprintf(old, sizeof old, "%s/in", path_of(&f, 1));
    write_file(old, "x", 1);
    reopen(&f, 1 << 20);
    cr_expect(!get(&f, 1));
    cr_expect(strstr(f.c->warning, "is no file; not used"), "%s", f.c->warning);
    put(&f, 1);
    put(&f, 3);
    cr_expect(!get(&f, 1) && get(&f, 3) && f.c->stored == 1);
    end(&f);
}

/* Nothing can be kept: one warning, nothing left, and what is there is found. */
static void expect_no_writing(fixture *f, const char *why) {
    cr_expect(get(f, 1));
    put(f, 2);
    put(f, 3);
    cr_expect(!get(f, 2) && !get(f, 3) && get(f, 1) && !f->c->stored);
    cr_expect(strstr(f->c->warning, why) && strstr(f->c->warning, "; not kept"), "%s", f->c->warning);
    cr_expect_eq(entries(f), 1);
}

Test(cache, a_folder_that_cannot_be_written) {
    enum { NOBODY = 65534 };
    fixture f;
    char above[128];
    begin(&f);
    put(&f, 1);
    snprintf(above, sizeof above, "%s/a", f.root);
    chmod(path_of(&f, 1), 0644);
    chmod(f.folder, 0555);
    chmod(f.root, 0755);
    reopen(&f, 1 << 20);
    bool root = geteuid() == 0;
    if (root) cr_assert_eq(seteuid(NOBODY), 0); /* whom the mode binds */
    expect_no_writing(&f, strerror(EACCES));
    chmod(path_of(&f, 1), 0);
    if (root) cr_assert_eq(seteuid(0), 0);
    chmod(path_of(&f, 1), 0);
    chmod(above, 0);
    if (root) cr_assert_eq(seteuid(NOBODY), 0);
    reopen(&f, 1 << 20);
    put(&f, 1);
    cr_expect(!get(&f, 1));
    cr_expect(strstr(f.c->warning, strerror(EACCES)) && strstr(f.c->warning, "; not used"), "%s", f.c->warning);
    if (root) cr_assert_eq(seteuid(0), 0);
    chmod(above, 0755);
    chmod(f.folder, 0755);
    end(&f);
}

Test(cache, a_disk_that_is_full) {
    fixture f;
    begin(&f);
    put(&f, 1);
    reopen(&f, 1 << 20);
    struct rlimit few = {FILE_BYTES - 5, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &few), 0);
    expect_no_writing(&f, strerror(EFBIG));
    few.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &few);
    sn_cache_figures figures;
    cr_assert_eq(sn_cache_stat(&figures, &f.env, f.folder), SN_OK);
    cr_expect_eq(figures.parts.files, 0);
    end(&f);
}

Test(cache, folders_that_are_refused) {
    fixture f;
    char name[SN_PATH_MOST + 1];
    begin(&f);
    put(&f, 1);
    chmod(f.folder, 0777);
    reopen(&f, 1 << 20);
    cr_expect(!get(&f, 1) && strstr(f.c->warning, "everybody may write there; not used"), "%s", f.c->warning);
    chmod(f.folder, 0755);
    strcpy(f.folder, path_of(&f, 1));
    reopen(&f, 1 << 20);
    cr_expect(!get(&f, 1) && strstr(f.c->warning, "it is no folder; not used"), "%s", f.c->warning);
    strcat(f.folder, "/in");
    reopen(&f, 1 << 20);
    put(&f, 1);
    cr_expect(strstr(f.c->warning, strerror(ENOTDIR)), "%s", f.c->warning);
    strcpy(f.folder, "/proc/sinter/code");
    reopen(&f, 1 << 20);
    put(&f, 1);
    cr_expect(strstr(f.c->warning, "; not kept"), "%s", f.c->warning);
    memset(name, 'a', SN_PATH_MOST);
    name[0] = '/';
    name[SN_PATH_MOST] = 0;
    f.c = sn_cache_open(&f.arena, name, 1 << 20);
    put(&f, 1);
    cr_expect(!get(&f, 1) && strstr(f.c->warning, "the name is too long"), "%s", f.c->warning);
    end(&f);
}

/* ---- what goes ---- */

static void used_before(const fixture *f, uint64_t k, time_t seconds) {
    struct timespec at = {.tv_sec = time(NULL) - seconds};
    cr_assert_eq(utimensat(AT_FDCWD, path_of(f, k), (struct timespec[]){at, at}, 0), 0);
}

Test(cache, what_was_used_longest_ago_goes) {
    enum { N = 10, HOUR = 3600 };
    fixture f;
    begin(&f);
    for (uint64_t k = 1; k <= N; k++) put(&f, k);
    for (uint64_t k = 1; k <= N; k++) used_before(&f, k, (time_t)(N - k + 1) * HOUR);
    reopen(&f, N * FILE_BYTES);
    cr_expect(get(&f, 2), "it is the youngest now");
    sn_cache_trim(f.c, &f.env);
    cr_expect_eq(entries(&f), N, "nothing was stored");
    put(&f, N + 1);
    sn_cache_trim(f.c, &f.env);
    /* three quarters of ten stay: of 11 the four oldest go, which are 1, 3, 4 and 5 */
    cr_expect_eq(f.c->evicted, 4);
    cr_expect_eq(entries(&f), 7);
    for (uint64_t k = 1; k <= N + 1; k++) cr_expect_eq(exists(path_of(&f, k)), k == 2 || k > 5, "entry %d", (int)k);
    sn_cache_trim(f.c, &f.env);
    cr_expect_eq(entries(&f), 7);
    reopen(&f, FILE_BYTES - 1);
    put(&f, 99);
    cr_expect(!exists(path_of(&f, 99)), "larger than all may be together");
    end(&f);
}

Test(cache, verify_and_clear) {
    fixture f;
    char path[512];
    sn_cache_figures figures;
    sn_cache_sum sum;
    begin(&f);
    cr_expect_eq(sn_cache_verify(&figures, &sum, &f.env, f.folder), SN_OK, "there is no folder");
    for (uint64_t k = 1; k <= 4; k++) put(&f, k);
    cr_assert_eq(truncate(path_of(&f, 2), FILE_BYTES - 1), 0);
    write_file(path_of(&f, 3), "x", 1);
    pid_t child = fork();
    if (!child) _exit(0);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    snprintf(path, sizeof path, "%s.part-%ld-abcdef", path_of(&f, 5), (long)child);
    write_file(path, "left", 4);
    snprintf(path, sizeof path, "%s.part-%ld-abcdef", path_of(&f, 5), (long)getpid());
    write_file(path, "being written", 13);
    snprintf(path, sizeof path, "%s/notes.txt", f.folder);
    write_file(path, "mine", 4);
    cr_assert_eq(sn_cache_verify(&figures, &sum, &f.env, f.folder), SN_OK);
    cr_expect(sum.files == 3 && sum.bytes == FILE_BYTES - 1 + 1 + 4, "%d", (int)sum.files);
    cr_expect(figures.kinds[SN_CACHE_PTX].files == 2 && figures.parts.files == 1 && figures.others.files == 1);
    cr_assert_eq(sn_cache_verify(&figures, &sum, &f.env, f.folder), SN_OK);
    cr_expect_eq(sum.files, 0);
    cr_expect(get(&f, 1) && get(&f, 4));
    cr_assert_eq(sn_cache_clear(&sum, &f.env, f.folder), SN_OK);
    cr_expect(sum.files == 2 && sum.bytes == 2 * FILE_BYTES && !get(&f, 1) && exists(path));
    cr_expect_eq(sn_cache_stat(&figures, &f.env, path), SN_ERROR_FILE);
    cr_expect(strstr(f.env.message, "notes.txt: "), "%s", f.env.message);
    end(&f);
}

/* ---- memory that runs out ---- */

static bool refuse;

static void *unwilling(void *user, void *p, size_t size) {
    (void)user;
    if (size && refuse) return NULL;
    if (size) return realloc(p, size);
    free(p);
    return NULL;
}

Test(cache, memory_runs_out) {
    fixture f;
    jmp_buf here;
    volatile int jumps = 0;
    begin(&f);
    f.env.realloc_fn = unwilling;
    put(&f, 1);
    put(&f, 2);
    unsigned before = open_files();
    f.env.guard = &here;
    sn_arena_free(&f.arena);
    sn_cache c = {.folder = f.folder, .most = FILE_BYTES, .fresh = 1};
    f.c = &c;
    refuse = true;
    if (setjmp(here)) jumps++;
    else get(&f, 1);
    if (setjmp(here)) jumps++;
    else sn_cache_trim(f.c, &f.env);
    refuse = false;
    cr_expect_eq(jumps, 2);
    cr_expect_eq(open_files(), before);
    f.env.guard = NULL;
    sn_env_clear(&f.env);
    cr_expect(get(&f, 1));
    end(&f);
}

/* ---- several processes ---- */

static long parameter(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

enum { KEYS = 24 };

/* Gets and puts, and now and then makes room. */
static void use(fixture *f, long rounds, uint64_t seed) {
    for (long i = 0; i < rounds * KEYS; i++) {
        uint64_t k = sn_draw(&seed) % KEYS;
        if (!get(f, k)) put(f, k);
        if (i % 50 == 0) sn_cache_trim(f->c, &f->env);
        sn_arena_free(&f->arena);
    }
    _exit(0);
}

/* Damages one entry after the other, by writing into the very file. */
static void damage(const fixture *f, uint64_t seed) {
    for (;;) {
        uint64_t k = sn_draw(&seed) % KEYS, at = sn_draw(&seed) % FILE_BYTES;
        int fd = open(path_of(f, k), O_RDWR);
        if (fd < 0) continue;
        if (seed & 1 && ftruncate(fd, (off_t)at) != 0) _exit(1);
        if (!(seed & 1) && pwrite(fd, "\xa5", 1, (off_t)at) != 1) _exit(1);
        close(fd);
        if (seed % 7 == 0) unlink(path_of(f, k));
    }
}

Test(cache, several_processes, .timeout = 600) {
    enum { MOST = 64 };
    long n = parameter("SINTER_TEST_CACHE_PROCESSES", 3), rounds = parameter("SINTER_TEST_CACHE_ROUNDS", 20);
    fixture f;
    pid_t users[MOST], vandal;
    cr_assert_leq(n, MOST);
    begin(&f);
    sn_cache c = {.folder = f.folder, .most = KEYS * FILE_BYTES * 3 / 4};
    f.c = &c;
    put(&f, 0);
    if (!(vandal = fork())) damage(&f, 1);
    for (long i = 0; i < n; i++)
        if (!(users[i] = fork())) use(&f, rounds, (uint64_t)i);
    for (long i = 0; i < n; i++) {
        int status;
        cr_assert_eq(waitpid(users[i], &status, 0), users[i]);
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %ld: status %d", i, status);
    }
    kill(vandal, SIGKILL);
    waitpid(vandal, NULL, 0);
    sn_cache_figures figures;
    sn_cache_sum bad;
    cr_assert_eq(sn_cache_verify(&figures, &bad, &f.env, f.folder), SN_OK);
    cr_assert_eq(sn_cache_verify(&figures, &bad, &f.env, f.folder), SN_OK);
    cr_expect(bad.files == 0 && figures.parts.files == 0 && figures.others.files == 0);
    for (uint64_t k = 0; k < KEYS; k++) cr_expect_eq(get(&f, k), exists(path_of(&f, k)));
    end(&f);
}
