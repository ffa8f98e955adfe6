/* assemble.c: PTX to cubins in this process, through nvJitLink.
 *
 * nvJitLink is as fast as ptxas, needs no process and no temporary file, and kernels assemble side by side on threads.
 * It comes with the toolkit, not with the driver, so it is opened at run time and may be missing: ptxas or the driver
 * does it then (cubins.c). Worker threads allocate nothing of ours; results are fetched by the calling thread.
 * Its quick mode (-Xptxas=-Ofc=min, of 12.9 and later) would take a tenth to a quarter less time, and is not asked for: a pool took 1.36 and a softplus
 * 1.66 times as long, and kernels of boxes read from wrong addresses (13.0).
 */
#define _GNU_SOURCE /* dlinfo */
#include "runtime/assemble.h"

#include <ctype.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const libraries[] = {"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"};

enum { NVJITLINK_SUCCESS = 0, NVJITLINK_INPUT_PTX = 2 };

/* X(function, parameters): exported as nvJitLink<function>; every one returns an nvJitLinkResult. */
#define JITLINK_FUNCTIONS(X)                                                                    \
    X(Create, (void **link, uint32_t n, const char **options))                                  \
    X(Destroy, (void **link))                                                                   \
    X(AddData, (void *link, int kind, const void *data, size_t size, const char *name))         \
    X(Complete, (void *link))                                                                   \
    X(GetLinkedCubinSize, (void *link, size_t *size))                                           \
    X(GetLinkedCubin, (void *link, void *cubin))                                                \
    X(GetErrorLogSize, (void *link, size_t *size))                                              \
    X(GetErrorLog, (void *link, char *log))

struct sn_assembler {
    sn_env *env;
    void *library;
    int (*Version)(unsigned *major, unsigned *minor); /* NULL: a library that is too old to say */
#define X(function, parameters) int(*function) parameters;
    JITLINK_FUNCTIONS(X)
#undef X
};

static const struct {
    const char *symbol;
    size_t offset;
} rows[] = {
#define X(function, parameters) {"nvJitLink" #function, offsetof(sn_assembler, function)},
    JITLINK_FUNCTIONS(X)
#undef X
};

static bool resolve(sn_assembler *as) {
    for (size_t i = 0; i < SN_COUNT(rows); i++) {
        void *symbol = dlsym(as->library, rows[i].symbol);
        if (!symbol) return false;
        memcpy((char *)as + rows[i].offset, &symbol, sizeof symbol);
    }
    void *version = dlsym(as->library, "nvJitLinkVersion");
    memcpy(&as->Version, &version, sizeof version);
    return true;
}

sn_assembler *sn_assembler_open(sn_env *env) {
    sn_assembler *as = sn_heap_alloc(env, sizeof *as);
    *as = (sn_assembler){.env = env};
    for (size_t i = 0; i < SN_COUNT(libraries); i++) {
        as->library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (as->library && resolve(as)) return as;
        if (as->library) dlclose(as->library);
    }
    sn_heap_free(env, as, sizeof *as);
    return NULL;
}

void sn_assembler_close(sn_assembler *as) {
    if (!as) return;
    dlclose(as->library);
    sn_heap_free(as->env, as, sizeof *as);
}

/* ---- opened meanwhile ---- */

struct sn_warming {
    sn_env *env;
    pthread_t thread;
};

/* It stays in the process (RTLD_NODELETE). */
static void *open_and_close(void *unused) {
    (void)unused;
    for (size_t i = 0; i < SN_COUNT(libraries); i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!library) continue;
        dlclose(library);
        break;
    }
    return NULL;
}

sn_warming *sn_assembler_warm(sn_env *env) {
    sn_warming *w = sn_heap_alloc(env, sizeof *w);
    w->env = env;
    if (!env->parallel && pthread_create(&w->thread, NULL, open_and_close, NULL) == 0) return w;
    sn_heap_free(env, w, sizeof *w);
    return NULL;
}

void sn_warming_end(sn_warming *w) {
    if (!w) return;
    pthread_join(w->thread, NULL);
    sn_heap_free(w->env, w, sizeof *w);
}

/* Its patches have no number: the size of the file stands for it. */
bool sn_assembler_version(char *out, size_t size, const sn_assembler *as) {
    unsigned major, minor;
    struct stat file;
    struct link_map *map;
    if (!as->Version || as->Version(&major, &minor) != NVJITLINK_SUCCESS) return false;
    if (dlinfo(as->library, RTLD_DI_LINKMAP, &map) != 0 || stat(map->l_name, &file) != 0) return false;
    return snprintf(out, size, "nvJitLink %u.%u of %lld bytes", major, minor, (long long)file.st_size) < (int)size;
}

void sn_assembly_arch(char *out, size_t size, const char *ptx, uint32_t sm) {
    static const char key[] = ".target sm_";
    const char *target = strstr(ptx, key);
    char *end = NULL;
    uint32_t own = target ? (uint32_t)strtoul(target + strlen(key), &end, 10) : 0;
    if (own == sm && (*end == 'a' || *end == 'f')) snprintf(out, size, "-arch=sm_%u%c", sm, *end);
    else snprintf(out, size, "-arch=sm_%u", sm);
}

sn_assembly sn_assembly_of(const sn_rt_kernel *k, uint32_t sm) {
    sn_assembly job = {.name = k->name, .ptx = k->ptx, .ptx_size = k->ptx_size, .whole = k->whole};
    job.left_out = k->library || k->cubin || !k->ptx;
    job.cubin = (void *)(uintptr_t)k->cubin;
    job.cubin_size = k->cubin_size;
    if (!job.left_out) sn_assembly_arch(job.arch, sizeof job.arch, k->ptx, sm);
    return job;
}

/* A text, or a piece of what is aside. */
typedef struct piece {
    sn_assembly *job; /* NULL: aside */
    uint32_t at;
    size_t size;
} piece;

typedef struct work {
    sn_assembler *as;
    const sn_aside *aside;
    piece *pieces;
    uint32_t n;
} work;

static void assemble_one(const sn_assembler *as, sn_assembly *job) {
    const char *options[] = {job->arch};
    job->result = as->Create(&job->link, SN_COUNT(options), options);
    if (job->result == NVJITLINK_SUCCESS)
        job->result = as->AddData(job->link, NVJITLINK_INPUT_PTX, job->ptx, job->ptx_size + 1, job->name);
    if (job->result == NVJITLINK_SUCCESS) job->result = as->Complete(job->link);
    if (job->result == NVJITLINK_SUCCESS) job->result = as->GetLinkedCubinSize(job->link, &job->cubin_size);
}

static void assemble_range(void *user, int64_t begin, int64_t end) {
    const work *w = user;
    for (int64_t i = begin; i < end; i++) {
        const piece *p = &w->pieces[i];
        if (p->job) assemble_one(w->as, p->job);
        else w->aside->body(w->aside->user, p->at);
    }
}

static int longest_first(const void *a, const void *b) {
    const piece *x = a, *y = b;
    if (x->size != y->size) return x->size < y->size ? 1 : -1;
    if (!x->job != !y->job) return x->job ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Whoever begins with the longest is done soonest: one that begins last is waited for by all. */
static work plan(sn_assembler *as, sn_assembly *jobs, uint32_t n, const sn_aside *aside, sn_arena *arena) {
    uint32_t n_aside = aside ? aside->n : 0;
    work w = {.as = as, .aside = aside, .pieces = SN_NEWN(arena, piece, n + n_aside + 1)};
    for (uint32_t i = 0; i < n_aside; i++) w.pieces[w.n++] = (piece){.at = i, .size = aside->size[i]};
    for (uint32_t i = 0; as && i < n; i++)
        if (!jobs[i].left_out) w.pieces[w.n++] = (piece){&jobs[i], i, jobs[i].ptx_size};
    qsort(w.pieces, w.n, sizeof *w.pieces, longest_first);
    return w;
}

/* What an assembly left in nvJitLink: the cubin, or the log of the refusal. */
static void fetch(sn_assembler *as, sn_assembly *job, sn_arena *arena) {
    size_t size = 0;
    if (job->result == NVJITLINK_SUCCESS) {
        job->cubin = sn_alloc(arena, job->cubin_size);
        job->result = as->GetLinkedCubin(job->link, job->cubin);
    }
    if (job->result == NVJITLINK_SUCCESS) return;
    job->cubin = NULL;
    job->log = sn_strf(arena, "nvJitLink error %d", job->result);
    if (!job->link || as->GetErrorLogSize(job->link, &size) != NVJITLINK_SUCCESS || size <= 1) return;
    char *log = sn_zalloc(arena, size + 1);
    if (as->GetErrorLog(job->link, log) == NVJITLINK_SUCCESS && log[0]) job->log = log;
}

void sn_assemble(sn_assembler *as, sn_assembly *jobs, uint32_t n, const sn_aside *aside, sn_pool *pool,
                 sn_arena *arena) {
    work w = plan(as, jobs, n, aside, arena);
    sn_pool_run(pool, w.n, assemble_range, &w);
    for (uint32_t i = 0; as && i < n; i++) {
        if (!jobs[i].left_out) fetch(as, &jobs[i], arena);
        if (jobs[i].link) as->Destroy(&jobs[i].link);
    }
}

char *sn_log_line(sn_arena *arena, const char *log) {
    enum { LINES = 3, LINE_MAX_CHARS = 240 };
    char *text = sn_strdup(arena, "");
    for (int lines = 0; *log && lines < LINES;) {
        size_t n = strcspn(log, "\n");
        const char *line = log;
        log += n + (log[n] == '\n');
        while (n && isspace((unsigned char)*line)) line++, n--;
        while (n && isspace((unsigned char)line[n - 1])) n--;
        if (!n) continue;
        if (n > LINE_MAX_CHARS) n = LINE_MAX_CHARS;
        text = sn_strf(arena, "%s%s%.*s", text, lines++ ? "; " : "", (int)n, line);
    }
    return text;
}
