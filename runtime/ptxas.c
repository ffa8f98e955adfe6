/* ptxas.c: PTX to cubins by the toolkit's ptxas: a process for each text, as many at a time as the pool has threads.
 *
 *     sn_ptxas_assemble(&x, jobs, n, pool, arena);      ptxas -arch=sm_90a -o CUBIN TEXT
 *
 * Texts, cubins and what ptxas says are files in memory that have no name, which the child has open under fixed numbers: nothing
 * is on a disk that could be full, and nothing is left behind whatever happens to either process. No shell is asked. Worker
 * threads allocate nothing of ours; results are fetched by the calling thread. What goes wrong is noted once, with the first
 * kernel that it happened to: no such file, a refusal, a PTX version that is newer than ptxas (then texts of that version are
 * not tried again), a signal. The driver assembles such kernels, as without ptxas.
 */
#define _GNU_SOURCE /* memfd_create, strverscmp, environ */
#include "runtime/assemble.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- finding it ---- */

static bool is_program(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* In folders as PATH has them. An empty one, which there means the current one, is none. */
static const char *find_in(const char *folders, sn_arena *arena) {
    for (const char *at = folders; at && *at;) {
        size_t n = strcspn(at, ":");
        const char *path = sn_strf(arena, "%.*s/ptxas", (int)n, at);
        if (n && is_program(path)) return path;
        at += n + (at[n] == ':');
    }
    return NULL;
}

/* "/usr/local/cuda-13.0/bin/ptxas" before that of 12.9. */
static const char *newest(sn_arena *arena) {
    const char *best = NULL;
    glob_t found;
    if (glob("/usr/local/cuda-*/bin/ptxas", GLOB_NOSORT, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (is_program(found.gl_pathv[i]) && (!best || strverscmp(found.gl_pathv[i], best) > 0))
                best = found.gl_pathv[i];
        if (best) best = sn_strdup(arena, best);
    }
    globfree(&found);
    return best;
}

void sn_ptxas_find(sn_ptxas *out, sn_arena *arena, const char *file, const char *folders) {
    *out = (sn_ptxas){.named = file != NULL, .path = file ? sn_strdup(arena, file) : find_in(folders, arena)};
    if (!out->path) out->path = find_in("/usr/local/cuda/bin", arena);
    if (!out->path) out->path = newest(arena);
}

bool sn_ptxas_version(char *out, size_t size, const sn_ptxas *x) {
    struct stat st;
    if (!x->path || !is_program(x->path) || stat(x->path, &st) != 0) return false;
    return snprintf(out, size, "ptxas of %lld bytes from %lld.%09ld", (long long)st.st_size,
                    (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec) < (int)size;
}

/* ---- one process ---- */

enum { CHILD_TEXT = 3, CHILD_CUBIN, CHILD_FILES, LOG_BYTES = 1024 };

/* What became of a text. Bytes of the cubin are mapped until they are fetched. */
typedef struct outcome {
    const char *call; /* that failed; NULL: there was a process */
    int error;        /* errno of that */
    int status;       /* as of waitpid; 0 also where somebody else in this process has waited for the child */
    void *cubin;
    size_t size;
    bool skipped; /* it is as new as one that ptxas did not know */
    char log[LOG_BYTES];
} outcome;

typedef struct work {
    const char *path;
    const sn_assembly *jobs;
    outcome *outcomes;
    atomic_int stop;     /* a process cannot be had: no more is tried */
    atomic_uint too_new; /* the least PTX version that was not known, 83 of 8.3; 0: all were */
} work;

/* A file in memory, with a number that is none of the child's. */
static int nameless(const char *name) {
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || fd >= CHILD_FILES) return fd;
    int higher = fcntl(fd, F_DUPFD_CLOEXEC, CHILD_FILES);
    close(fd);
    return higher;
}

static bool write_all(int fd, const char *at, size_t n) {
    while (n) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        at += done, n -= (size_t)done;
    }
    return true;
}

/* Signals as a program expects them, whatever the host does with its own. */
static int spawn(pid_t *child, const char *path, const char *arch, int text, int cubin, int log) {
    char *argv[] = {(char *)(uintptr_t)path, (char *)(uintptr_t)arch, "-o", "/proc/self/fd/4", "/proc/self/fd/3", NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    if (posix_spawn_file_actions_init(&files) != 0) return ENOMEM;
    if (posix_spawnattr_init(&how) != 0) return posix_spawn_file_actions_destroy(&files), ENOMEM;
    int error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(&files, log, STDOUT_FILENO);
    if (!error) error = posix_spawn_file_actions_adddup2(&files, log, STDERR_FILENO);
    if (!error) error = posix_spawn_file_actions_adddup2(&files, text, CHILD_TEXT);
    if (!error) error = posix_spawn_file_actions_adddup2(&files, cubin, CHILD_CUBIN);
    if (!error) error = posix_spawnattr_setsigmask(&how, &none);
    if (!error) error = posix_spawnattr_setsigdefault(&how, &all);
    if (!error) error = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!error) error = posix_spawn(child, path, &files, &how, argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* A host that ignores SIGCHLD, or waits for all children, leaves no status: what the child wrote says how it went. */
static int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return 0;
    return status;
}

static void take_cubin(outcome *o, int fd) {
    struct stat st;
    char magic[4];
    if (o->status || fstat(fd, &st) != 0 || pread(fd, magic, sizeof magic, 0) != sizeof magic) return;
    if (memcmp(magic, "\177ELF", sizeof magic) != 0) return;
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) o->call = "mmap", o->error = errno;
    else o->cubin = at, o->size = (size_t)st.st_size;
}

static void run_in(outcome *o, const work *w, const sn_assembly *job, const int *fds) {
    pid_t child;
    if (!write_all(fds[0], job->ptx, job->ptx_size)) {
        o->call = "write", o->error = errno;
        return;
    }
    o->error = spawn(&child, w->path, job->arch, fds[0], fds[1], fds[2]);
    if (o->error) {
        o->call = "posix_spawn";
        return;
    }
    o->status = wait_for(child);
    take_cubin(o, fds[1]);
    ssize_t n = pread(fds[2], o->log, LOG_BYTES - 1, 0);
    o->log[n > 0 ? n : 0] = 0;
}

static void run(outcome *o, const work *w, const sn_assembly *job) {
    int fds[] = {nameless("sinter.ptx"), nameless("sinter.cubin"), nameless("sinter.log")};
    if (fds[0] < 0 || fds[1] < 0 || fds[2] < 0) o->call = "memfd_create", o->error = errno;
    else run_in(o, w, job, fds);
    for (size_t k = 0; k < SN_COUNT(fds); k++)
        if (fds[k] >= 0) close(fds[k]);
}

/* ---- all of them ---- */

/* ".version 8.3" is 83; 0: the text does not say. */
static unsigned version_of(const sn_assembly *job) {
    static const char key[] = ".version ";
    const char *at = strstr(job->ptx, key);
    char *end;
    if (!at) return 0;
    unsigned long major = strtoul(at + strlen(key), &end, 10), minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    return major < 1000 && minor < 10 ? (unsigned)(10 * major + minor) : 0;
}

static void assemble_range(void *user, int64_t begin, int64_t end) {
    work *w = user;
    for (int64_t i = begin; i < end; i++) {
        outcome *o = &w->outcomes[i];
        if (w->jobs[i].left_out) continue;
        unsigned version = version_of(&w->jobs[i]), too_new = atomic_load(&w->too_new);
        o->skipped = atomic_load(&w->stop) || (too_new && version >= too_new);
        if (o->skipped) continue;
        run(o, w, &w->jobs[i]);
        if (o->call) atomic_store(&w->stop, 1);
        if (!o->cubin && strstr(o->log, "Unsupported .version"))
            while ((!too_new || version < too_new) &&
                   !atomic_compare_exchange_weak(&w->too_new, &too_new, version ? version : 1)) {}
    }
}

static void note(sn_ptxas *x, const sn_assembly *job, const outcome *o, sn_arena *arena) {
    const char *why, *driver = "the driver assembles instead";
    if (x->note[0]) return;
    if (o->call) why = sn_strf(arena, "%s: %s", o->call, strerror(o->error));
    else if (WIFSIGNALED(o->status)) why = sn_strf(arena, "it ended by signal %d", WTERMSIG(o->status));
    else if (o->log[0]) why = sn_log_line(arena, o->log);
    else if (o->status) why = sn_strf(arena, "it ended with status %d and says nothing", WEXITSTATUS(o->status));
    else why = "it wrote no cubin";
    snprintf(x->note, sizeof x->note, "ptxas: %s makes no cubin of kernel %s: %s; %s", x->path, job->name, why, driver);
}

static void fetch(sn_ptxas *x, sn_assembly *job, outcome *o, sn_arena *arena) {
    if (o->cubin) {
        job->cubin = sn_memdup(arena, o->cubin, o->size);
        job->cubin_size = o->size;
        munmap(o->cubin, o->size);
    } else if (!o->skipped) {
        note(x, job, o, arena);
    }
}

void sn_ptxas_assemble(sn_ptxas *x, sn_assembly *jobs, uint32_t n, sn_pool *pool, sn_arena *arena) {
    work w = {.path = x->path, .jobs = jobs, .outcomes = SN_NEWN(arena, outcome, n + 1)};
    sn_pool_run(pool, n, assemble_range, &w);
    for (uint32_t i = 0; i < n; i++)
        if (!jobs[i].left_out) fetch(x, &jobs[i], &w.outcomes[i], arena);
}
