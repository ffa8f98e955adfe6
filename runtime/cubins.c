/* cubins.c: who makes the cubins of a program, and what is remembered of them.
 *
 *     nvJitLink, in this process          all but kernels that are a program of their own (sn_rt_kernel.whole)
 *     ptxas, a process for each           what is left, where cubins are kept (in the cache, or in an image), or several threads assemble
 *     the driver, which gives none away   what is left then (cuda_module.c)
 *
 * What the caller has to do beside (the driver's texts, constants that go to the device) is done by the same threads in one go with
 * nvJitLink's turn: one after the other would take as long as the longest of both together.
 * A process takes some milliseconds to start. The driver takes none, but assembles one text at a time: ptxas has a turn only where somebody is
 * spared the assembler later on, or several threads are (cuda_module.c). Cubins are remembered by text, architecture and version of the assembler; a turn in which everything
 * was remembered assembles nothing. One that nvJitLink refuses (a text newer than it) has a second chance with ptxas.
 */
#include "runtime/assemble.h"

#include <stdio.h>
#include <string.h>

/* One of the two assemblers. */
typedef struct turn {
    sn_assembler *link;
    sn_ptxas *ptxas;
    char version[96]; /* "": it does not say, and nothing is remembered */
    sn_cache *cache;
    const sn_aside *aside; /* NULL: nothing is left of it */
    sn_pool *pool;
    sn_arena *arena;
} turn;

static sn_cache_key key_of(const sn_assembly *job, const char *version, sn_env *env) {
    sn_text t;
    sn_text_init(&t, env);
    sn_text_printf(&t, "cubin\n%s\n%s\n", version, job->arch);
    sn_text_putn(&t, job->ptx, job->ptx_size);
    sn_cache_key key = sn_cache_key_of(t.s, t.n);
    sn_text_free(&t);
    return key;
}

static void assemble(const turn *t, sn_assembly *jobs, uint32_t n) {
    if (t->link) sn_assemble(t->link, jobs, n, t->aside, t->pool, t->arena);
    else sn_ptxas_assemble(t->ptxas, jobs, n, t->pool, t->arena);
}

/* Those that are remembered are not assembled; the others are remembered. */
static void take_turn(const turn *t, sn_assembly *jobs, uint32_t n) {
    if (!t->cache || !t->version[0]) {
        assemble(t, jobs, n);
        return;
    }
    sn_cache_key *keys = SN_NEWN(t->arena, sn_cache_key, n);
    for (uint32_t i = 0; i < n; i++) {
        sn_assembly *job = &jobs[i];
        if (job->left_out) continue;
        keys[i] = key_of(job, t->version, t->arena->env);
        job->left_out = sn_cache_get(&job->cubin, &job->cubin_size, t->cache, SN_CACHE_CUBIN, keys[i], t->arena);
    }
    assemble(t, jobs, n);
    for (uint32_t i = 0; i < n; i++) {
        sn_file_part part = {jobs[i].cubin, jobs[i].cubin_size};
        if (!jobs[i].left_out && jobs[i].cubin) sn_cache_put(t->cache, SN_CACHE_CUBIN, keys[i], &part, 1);
    }
}

/* Whose work is it? idle: of jobs that were never anybody's. */
static bool share_out(sn_assembly *jobs, uint32_t n, const bool *idle, bool whole) {
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        jobs[i].left_out = idle[i] || jobs[i].cubin || (jobs[i].whole && !whole);
        any |= !jobs[i].left_out;
    }
    return any;
}

static void note_absent(sn_ptxas *x) {
    if (x->named && !x->note[0])
        snprintf(x->note, sizeof x->note, "ptxas: %s cannot be run; the driver assembles instead", x->path);
}

void sn_cubins_make(sn_assembly *jobs, uint32_t n, const sn_cubins *keep, const sn_aside *aside, sn_pool *pool,
                    sn_arena *arena) {
    turn t = {.cache = keep ? keep->cache : NULL, .aside = aside, .pool = pool, .arena = arena};
    bool *idle = SN_NEWN(arena, bool, n + 1);
    for (uint32_t i = 0; i < n; i++) idle[i] = jobs[i].left_out;
    /* It is large: a program that has all its cubins is not kept waiting. */
    if (share_out(jobs, n, idle, false) && (t.link = sn_assembler_open(arena->env))) {
        if (!sn_assembler_version(t.version, sizeof t.version, t.link)) t.version[0] = 0;
        take_turn(&t, jobs, n);
        sn_assembler_close(t.link);
        t.link = NULL;
    } else {
        sn_assemble(NULL, NULL, 0, aside, pool, arena);
    }
    t.ptxas = keep ? keep->ptxas : NULL;
    if (!t.ptxas || !share_out(jobs, n, idle, true)) return;
    if (!sn_ptxas_version(t.version, sizeof t.version, t.ptxas)) note_absent(t.ptxas);
    else take_turn(&t, jobs, n);
}
