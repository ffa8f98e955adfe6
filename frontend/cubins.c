/* cubins.c: the cubins of a program: which ptxas makes them, where they are kept, and what there is to say about it in the log.
 *
 * The work is runtime/cubins.c. Loading keeps cubins where the option `cache` names a folder, saving keeps them anyway, and finds
 * those there that loading or an earlier saving has made.
 */
#include "frontend/frontend.h"

void sn_program_find_ptxas(sn_program *p, const sn_settings *s) {
    p->with_ptxas = p->gpu_code && s->with_ptxas;
    if (p->with_ptxas) sn_ptxas_find(&p->ptxas, &p->arena, s->ptxas, s->ptxas_folders);
    p->cache_folder = s->cache ? sn_strdup(&p->arena, s->cache) : NULL;
    p->cache_size = s->cache_size;
}

sn_cubins sn_program_cubins(sn_program *p, sn_cache *cache) {
    return (sn_cubins){.cache = cache, .ptxas = p->with_ptxas ? &p->ptxas : NULL};
}

void sn_program_say_ptxas(sn_program *p) {
    if (p->ptxas.note[0]) sn_context_say(p->ctx, sn_strf(&p->ctx->scratch, "%s\n", p->ptxas.note));
    p->ptxas.note[0] = 0;
}

void sn_program_assemble(sn_program *p, sn_image_part *part, sn_arena *arena) {
    sn_cache *cache = p->cache_folder ? sn_cache_open(arena, p->cache_folder, p->cache_size) : NULL;
    sn_cubins keep = sn_program_cubins(p, cache);
    sn_image_assemble(part, &keep, &p->ctx->env, arena);
    sn_program_say_ptxas(p);
    if (!cache) return;
    sn_cache_trim(cache, &p->ctx->env);
    if (cache->warning[0]) sn_context_say(p->ctx, sn_strf(&p->ctx->scratch, "%s\n", cache->warning));
}
