/* whole.c: whole programs in the cache: a graph that was compiled before, with the same options for the same machine, is read as an
 * image instead of going through the passes.
 *
 *     key    code whole, sources .., llvm .., target ..      of whoever makes it (codegen-llvm/key.c), all figures of the target
 *            sources ..                                      of passes, runtime and the rest (cmake/Digest.cmake)
 *            machine .. options ..                           of the CPU; options that decide what is made
 *            product .. choice ..                            what records say, and when their folder changed last
 *            graph @f(..) { .. }                             with its sizes bound
 *     entry  | head: figures and counters | image without weights and cubins |
 *
 * Elements of weights are in neither: what depends on them alone is computed when a program is loaded. Cubins have entries of their
 * own. Somebody who wants to see passes at work (remarks, dumps, metric tables), to time choices, or who brings kernels gets none of
 * it: they are compiled. An entry that cannot be read is dropped, and the program compiled. What such a program is asked about its
 * kernels makes its passes run after all (sn_program_look), in a call of its own: what it makes outlives the one that asks.
 */
#include "frontend/frontend.h"

#include <string.h>
#include <sys/stat.h>

#include "frontend/whole.h"

/* In front of the image. What the image does not say of the program, and what the compilation has counted. */
typedef struct head {
    uint64_t moved, pieces, counters[SN_N_COUNTERS];
} head;
enum { HEAD_BYTES = (sizeof(head) + SN_IMAGE_ALIGN - 1) / SN_IMAGE_ALIGN * SN_IMAGE_ALIGN };

/* ---- which programs ---- */

static bool is_watched(const sn_settings *s) {
    const sn_pass_options *o = &s->passes;
    const sn_metric_settings *m = &s->metrics;
    return o->remarks || o->print_before || o->print_after || o->print_changed || o->time_passes || o->repro_dir ||
           o->look || o->verify > SN_VERIFY_ENDS || m->tables || m->row || m->log;
}

static bool is_possible(const sn_program *p, const sn_settings *s) {
    bool decides = s->tune == SN_TUNE_ON || s->passes.choosing.multi || s->multi_forced;
    return s->cache && p->runnable && !s->idle && !s->trusted && !decides && !is_watched(s) && !p->source->kernels.n;
}

/* ---- keys ---- */

static void put_records(sn_text *t, const sn_program *p, const sn_settings *s) {
    struct stat st;
    for (uint32_t k = 0; k < p->choosing.n; k++)
        sn_text_printf(t, "product %s\nchoice %s\n", p->choosing.at[k].key, p->choosing.at[k].choice);
    if (s->tune == SN_TUNE_OFF || !s->record_dir || stat(s->record_dir, &st) != 0) return;
    sn_text_printf(t, "records %s %lld.%09ld\n", s->record_dir, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

/* Places of the caller's lines are in the graph's text: they are what messages and kernels name. */
static sn_cache_key key_of(sn_program *p, const sn_settings *s) {
    sn_text t;
    sn_text_init(&t, &p->ctx->env);
    sn_host_key(&t, "whole", &p->target);
    sn_text_printf(&t, "sources %s\noptions %d %d %u %s %s\n", sn_all_sources, p->gpu_code, p->interpreted, s->threads,
                   s->passes.pipeline ? s->passes.pipeline : "-",
                   s->passes.choosing.allowed ? s->passes.choosing.allowed : "-");
    if (p->library.takes)
        for (int of_convs = 0; of_convs < 2; of_convs++)
            sn_text_printf(&t, "library %s\n", sn_program_library_name(p, of_convs));
    put_records(&t, p, s);
    sn_module_print(&t, p->source);
    sn_cache_key key = sn_cache_key_of(t.s, t.n);
    sn_text_free(&t);
    return key;
}

/* ---- finding ---- */

/* An image begins at a multiple of its alignment, an entry does not. */
static sn_image_bytes image_in(sn_program *p, const char *entry, size_t size) {
    char *room = sn_alloc(&p->arena, size - HEAD_BYTES + SN_IMAGE_ALIGN);
    char *at = room + (SN_IMAGE_ALIGN - (uintptr_t)room % SN_IMAGE_ALIGN) % SN_IMAGE_ALIGN;
    memcpy(at, entry + HEAD_BYTES, size - HEAD_BYTES);
    return (sn_image_bytes){at, size - HEAD_BYTES};
}

static void take_figures(sn_program *p, const head *h) {
    p->info.found = p->info.cached = true;
    p->info.moved = (size_t)h->moved;
    p->info.cache_hits = (unsigned)h->pieces;
    for (int c = 0; c < SN_N_COUNTERS; c++) sn_metric_count(p->metrics, (sn_counter_id)c, h->counters[c]);
    sn_metric_count(p->metrics, SN_COUNTER_CACHE_HITS, h->pieces);
}

/* Of a folder that cannot be used whoever compiles says so. */
static void say(sn_program *p, const sn_settings *s, const sn_cache *c) {
    if (c->warning[0] && !c->off && s->passes.print)
        s->passes.print(s->passes.print_user, sn_strf(&p->ctx->scratch, "%s\n", c->warning));
}

/* False: there is no such entry, or none that can be used. */
static bool find(sn_program *p, sn_cuda *cu, sn_cache *c, sn_cache_key key) {
    void *entry;
    size_t size;
    head h;
    if (!sn_cache_get(&entry, &size, c, SN_CACHE_IMAGE, key, &p->ctx->scratch)) return false;
    sn_cubins keep = sn_program_cubins(p, c);
    if (size <= HEAD_BYTES || sn_program_take_image(p, image_in(p, entry, size), cu, &keep) != SN_OK) {
        sn_env_clear(&p->ctx->env);
        sn_cache_reject(c, SN_CACHE_IMAGE, key);
        return false;
    }
    memcpy(&h, entry, sizeof h);
    take_figures(p, &h);
    return true;
}

bool sn_whole_find(sn_program *p, sn_cuda *cu, const sn_settings *s) {
    if (!is_possible(p, s)) return false;
    sn_cache *c = sn_cache_open(&p->arena, sn_strdup(&p->arena, s->cache), s->cache_size);
    p->threads = s->threads;
    bool found = find(p, cu, c, key_of(p, s));
    sn_program_say_ptxas(p);
    say(p, s, c);
    return found;
}

/* ---- keeping ---- */

static void put(sn_program *p, const sn_settings *s, const sn_image_bytes *image) {
    union {
        head h;
        char bytes[HEAD_BYTES];
    } front = {.bytes = {0}};
    front.h.moved = p->info.moved;
    front.h.pieces = p->info.cache_hits + p->info.cache_misses;
    for (int c = 0; c < SN_N_COUNTERS; c++)
        front.h.counters[c] = sn_counter_rows[c].in_hits ? p->metrics->counters[c] : 0;
    sn_file_part parts[] = {{front.bytes, sizeof front.bytes}, {image->at, (size_t)image->size}};
    sn_cache *c = sn_cache_open(&p->arena, sn_strdup(&p->arena, s->cache), s->cache_size);
    sn_cache_put(c, SN_CACHE_IMAGE, key_of(p, s), parts, SN_COUNT(parts));
    sn_cache_trim(c, &p->ctx->env);
}

/* What an image cannot hold is not kept. */
void sn_whole_keep(sn_program *p, const sn_settings *s) {
    sn_image image;
    sn_image_bytes bytes;
    sn_image_how how = {.without_weights = true, .without_cubins = true};
    sn_arena *a = &p->ctx->scratch;
    if (!is_possible(p, s)) return;
    sn_status status = sn_image_of(&image, p->ctx, &p, 1, &how, a);
    if (status == SN_OK) status = sn_image_encode(&bytes, &image, a);
    if (status == SN_OK) put(p, s, &bytes);
    sn_env_clear(&p->ctx->env);
}

/* ---- looking into a program that was found ---- */

static void drop_module(void *user) {
    sn_module *const *m = user;
    if (*m) sn_module_free(*m);
}

static sn_status make_full(sn_program *p) {
    sn_pass_options o = {.pipeline = p->pipeline, .verify = SN_VERIFY_OFF};
    sn_module **m = SN_NEW(&p->ctx->scratch, sn_module *);
    sn_making_begin(p->ctx, m, drop_module);
    SN_TRY(sn_program_run_passes(m, p, &o));
    sn_making_end(p->ctx, m);
    p->full = *m;
    return SN_OK;
}

sn_status sn_program_look(sn_program *p) {
    if (!p || !p->info.found || p->full) return SN_OK;
    SN_GUARD_RETURN(p, make_full(p));
}
