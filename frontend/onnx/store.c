/* store.c: files and memory that outlive an import (store.h). */
#include "frontend/onnx/store.h"

#include <string.h>

typedef struct store_file {
    const char *path;
    sn_mapping map;
} store_file;

struct sn_store {
    sn_env *env;
    sn_arena arena;
    SN_VEC(store_file) files;
};

static void close_store(void *object) {
    sn_store *s = object;
    for (uint32_t k = 0; k < s->files.n; k++) sn_mapping_close(&s->files.at[k].map);
    sn_arena_free(&s->arena);
    sn_heap_free(s->env, s, sizeof *s);
}

sn_store *sn_store_new(sn_graph *g) {
    sn_holder *h = sn_graph_holder(g);
    sn_store *s = sn_heap_alloc(&g->ctx->env, sizeof *s);
    *s = (sn_store){.env = &g->ctx->env};
    sn_arena_init(&s->arena, s->env);
    h->object = s;
    h->close = close_store;
    return s;
}

sn_arena *sn_store_arena(sn_store *s) { return &s->arena; }

sn_status sn_store_file(sn_bytes *out, sn_store *s, const char *path) {
    for (uint32_t k = 0; k < s->files.n; k++) {
        const store_file *f = &s->files.at[k];
        if (!strcmp(f->path, path)) return *out = (sn_bytes){(const uint8_t *)f->map.data, f->map.size}, SN_OK;
    }
    store_file f = {.path = sn_strdup(&s->arena, path)};
    SN_TRY(sn_mapping_open(&f.map, s->env, &s->arena, path));
    SN_PUSH(&s->arena, &s->files, f);
    *out = (sn_bytes){(const uint8_t *)f.map.data, f.map.size};
    return SN_OK;
}
