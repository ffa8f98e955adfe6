/* join.c: PTX texts of several kernels as one text.
 *
 *     HEAD .visible .entry a(..) {..}     HEAD .visible .entry b(..) {..}      ->     HEAD .visible .entry a(..) {..} .visible .entry b(..) {..}
 *
 * An assembler takes some milliseconds for each text before it reads anything, as long as for a small kernel, and the driver as long
 * for each module. What it makes of a kernel does not depend on those beside it. Where few threads assemble they take several
 * kernels at a time; texts stay small enough to be shared out evenly. Joined are texts with the same head, of version, target
 * and the memory that a launch gives, and one kernel behind it: labels and what else these declare is in their braces. What is
 * kept (in a cache, in an image) is kept kernel by kernel and not joined.
 */
#include "runtime/assemble.h"

#include <string.h>

static const char ENTRY[] = "\n.visible .entry ";

/* Nothing but these stands in front of a kernel that can be joined. */
static bool may_be_shared(const char *line) {
    static const char *const words[] = {".version ", ".target ", ".address_size ", ".extern .shared "};
    for (size_t k = 0; k < SN_COUNT(words); k++)
        if (!strncmp(line, words[k], strlen(words[k]))) return true;
    return false;
}

/* The lines before the kernel, without comments; NULL: it stands alone. */
static const char *head_of(const sn_assembly *job, sn_arena *arena) {
    sn_text t;
    const char *entry = strstr(job->ptx, ENTRY);
    if (!entry || strstr(entry + 1, ENTRY)) return NULL;
    sn_text_init(&t, arena->env);
    bool fits = true;
    for (const char *at = job->ptx; fits && at <= entry; at += strcspn(at, "\n") + 1) {
        const char *line = at + strspn(at, " \t");
        if (*line == '\n' || !strncmp(line, "//", 2)) continue;
        fits = may_be_shared(line);
        sn_text_putn(&t, line, strcspn(line, "\n") + 1);
    }
    const char *head = fits ? sn_strndup(arena, t.s, t.n) : NULL;
    sn_text_free(&t);
    return head;
}

/* Kernels that go as one text, while there may be more of them. */
typedef struct pack {
    const char *head;
    bool whole;
    uint32_t first, last;
    size_t size;
} pack;

typedef struct packs {
    pack *at; /* with heads that differ */
    uint32_t n;
    size_t most; /* bytes of a text */
} packs;

static void join_one(packs *p, sn_assembly *jobs, uint32_t i, const char *head) {
    sn_assembly *job = &jobs[i];
    uint32_t k = 0;
    while (k < p->n && (p->at[k].whole != job->whole || strcmp(p->at[k].head, head) != 0)) k++;
    pack *to = &p->at[k];
    if (k < p->n && to->size + job->ptx_size <= p->most) {
        jobs[to->last].next = i;
        job->is_joined = job->left_out = true;
        job->first = to->first;
        to->size += job->ptx_size;
        to->last = i;
    } else {
        *to = (pack){head, job->whole, i, i, job->ptx_size};
        if (k == p->n) p->n++;
    }
}

static void write_joined(sn_assembly *jobs, uint32_t first, const char *head, sn_arena *arena) {
    sn_text t;
    sn_text_init(&t, arena->env);
    sn_text_put(&t, head);
    uint32_t i = first;
    do sn_text_put(&t, strstr(jobs[i].ptx, ENTRY));
    while ((i = jobs[i].next));
    jobs[first].alone = jobs[first].ptx;
    jobs[first].alone_size = jobs[first].ptx_size;
    jobs[first].ptx_size = t.n;
    jobs[first].ptx = sn_strndup(arena, t.s, t.n);
    sn_text_free(&t);
}

void sn_assemblies_join(sn_assembly *jobs, uint32_t n, uint32_t threads, sn_arena *arena) {
    enum { TEXTS_PER_THREAD = 8, MOST_BYTES = 1 << 19 }; /* assembled in half a second and 20 MB more than one alone */
    const char **heads = SN_NEWN(arena, const char *, n + 1);
    packs p = {.at = SN_NEWN(arena, pack, n + 1)};
    for (uint32_t i = 0; i < n; i++) {
        if (!jobs[i].left_out && (heads[i] = head_of(&jobs[i], arena))) p.most += jobs[i].ptx_size;
    }
    if (threads > 1) p.most /= TEXTS_PER_THREAD * (size_t)threads;
    if (p.most > MOST_BYTES) p.most = MOST_BYTES;
    for (uint32_t i = 0; i < n; i++)
        if (heads[i]) join_one(&p, jobs, i, heads[i]);
    for (uint32_t i = 0; i < n; i++)
        if (heads[i] && jobs[i].next && !jobs[i].is_joined) write_joined(jobs, i, heads[i], arena);
}

void sn_assemblies_part(sn_assembly *jobs, uint32_t first) {
    sn_assembly *job = &jobs[first];
    if (!job->alone) return;
    job->ptx = job->alone;
    job->ptx_size = job->alone_size;
    job->alone = NULL;
    for (uint32_t i = job->next, next; i; i = next) {
        next = jobs[i].next;
        jobs[i].is_joined = jobs[i].left_out = false;
        jobs[i].next = 0;
    }
    job->next = 0;
}
