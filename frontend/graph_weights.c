/* graph_weights.c: weights of graphs: nodes for them, elements attached to them, and what keeps those alive.
 *
 *     sn_node w = sn_weight(g, "conv1.weight", SN_F32, NULL, SN_LIST(64, 3, 7, 7));
 *     sn_graph_attach_weight(g, "conv1.weight", data, size);       or, for all of them,
 *     sn_graph_load_weights(g, "model.safetensors");
 *
 * Elements are never copied here: the module's table (ir/graph/weights.h) points to them, and loading a program reads them
 * once.
 */
#include "frontend/build.h"
#include "frontend/files/tensors_file.h"

#include <string.h>

enum { SHOWN = 8 }; /* names in a message */

/* ---- nodes ---- */

sn_node sn_weight(sn_graph *g, const char *name, sn_dtype dtype, const void *data, unsigned rank,
                  const int64_t *shape) {
    sn_attr attrs[] = {{.id = SN_ATTR_NAME, .text = name},
                       {.id = SN_ATTR_DTYPE, .i = dtype},
                       {.id = SN_ATTR_SHAPE, .ints = {shape, rank}}};
    sn_node x = sn_build(g, SN_OP_WEIGHT, NULL, 0, attrs, 3);
    if (!x.id) return x;
    if (data) sn_wt_get(g->m, sn_wt_named(g->m, name))->data = data;
    return sn_named(g, x, name);
}

/* ---- elements ---- */

static sn_status attach(sn_graph *g, const char *name, const void *data, size_t size) {
    sn_env *env = &g->ctx->env;
    sn_wt w = sn_wt_named(g->m, name);
    if (!w.i) return sn_fail(env, SN_ERROR_ARGUMENT, "graph %s has no weight %s", g->m->graph.name, name);
    sn_weight_rec *rec = sn_wt_get(g->m, w);
    if (size != rec->size)
        return sn_fail(env, SN_ERROR_ARGUMENT, "weight %s: %zu bytes given, %s has %zu", name, size,
                       sn_wt_type_text(g->m, rec), rec->size);
    rec->data = data;
    return SN_OK;
}

sn_status sn_graph_attach_weight(sn_graph *g, const char *name, const void *data, size_t size) {
    if (size && SN_IS_NULL(g, data)) return SN_ERROR_ARGUMENT;
    SN_GUARD_RETURN(g, attach(g, name, data, size), name);
}

sn_status sn_graph_check_weights(sn_context *ctx, const sn_module *m) {
    const sn_graph_ir *g = &m->graph;
    uint8_t *live = SN_NEWN(&ctx->scratch, uint8_t, g->nodes.count);
    const char *names = "";
    uint32_t missing = 0;
    sn_graph_live(m, live);
    for (sn_nd x = {1}; x.i < g->nodes.count; x.i++) {
        if (!live[x.i] || sn_node_get(m, x)->op != SN_OP_WEIGHT) continue;
        const char *name = sn_node_attr(m, x, SN_ATTR_NAME)->text;
        if (sn_wt_attached(sn_wt_get(m, sn_wt_named(m, name)))) continue;
        if (missing++ < SHOWN) names = sn_strf(&ctx->scratch, "%s%s%s", names, *names ? ", " : "", name);
    }
    if (!missing) return SN_OK;
    if (missing > SHOWN) names = sn_strf(&ctx->scratch, "%s and %u more", names, missing - SHOWN);
    return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "graph %s: no elements for weight%s %s (sn_graph_load_weights)",
                   g->name, missing > 1 ? "s" : "", names);
}

/* ---- files ---- */

/* What does not fit, one after the other; NULL: nothing. */
static const char *misfits(sn_context *ctx, sn_module *m, const sn_weights *w) {
    sn_env *env = &ctx->env;
    const char *list = NULL;
    uint32_t wrong = 0;
    for (sn_wt x = {1}; x.i < m->weights.recs.count; x.i++) {
        const sn_weight_rec *rec = sn_wt_get(m, x);
        const sn_member *e = sn_weights_look_up(w, rec->name);
        if (!e && sn_wt_attached(rec)) continue; /* the caller has it */
        sn_tensor_info want = {.dtype = rec->dtype, .rank = rec->rank};
        memcpy(want.shape, rec->shape, sizeof rec->shape);
        if (e && sn_weight_fits(&e->info, w->is_npy, env, &ctx->scratch, rec->name, &want) == SN_OK) continue;
        const char *what = e ? env->message : sn_strf(&ctx->scratch, "%s: not in the file", rec->name);
        if (wrong++ < SHOWN) list = sn_strf(&ctx->scratch, "%s%s%s", list ? list : "", list ? "; " : "", what);
        sn_env_clear(env);
    }
    return wrong > SHOWN ? sn_strf(&ctx->scratch, "%s; and %u more", list, wrong - SHOWN) : list;
}

/* First all that can fail, then the addresses. */
static sn_status attach_file(sn_context *ctx, sn_module *m, sn_weights *w) {
    const char *list = misfits(ctx, m, w);
    if (list) return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "%s: %s", w->path, list);
    const void **data = SN_NEWN(&ctx->scratch, const void *, m->weights.recs.count + 1);
    for (sn_wt x = {1}; x.i < m->weights.recs.count; x.i++) {
        sn_member *e = sn_weights_look_up(w, sn_wt_get(m, x)->name);
        if (e) SN_TRY(sn_weights_elements(w, e));
        data[x.i] = e ? e->info.data : sn_wt_get(m, x)->data;
    }
    for (sn_wt x = {1}; x.i < m->weights.recs.count; x.i++) sn_wt_get(m, x)->data = data[x.i];
    return SN_OK;
}

static void close_weights(void *object) { sn_weights_close(object); }

sn_status sn_module_load_weights(sn_weights **out, sn_context *ctx, sn_module *m, const char *path) {
    *out = NULL;
    sn_weights *w;
    SN_TRY(sn_weights_read(&w, ctx, path));
    sn_making_begin(ctx, w, close_weights); /* until all fits */
    SN_TRY(attach_file(ctx, m, w));
    sn_making_end(ctx, w);
    *out = w;
    return SN_OK;
}

const char *sn_path_beside(sn_arena *arena, const char *file, const char *path) {
    const char *slash = strrchr(file, '/');
    if (*path == '/' || !slash) return path;
    return sn_strf(arena, "%.*s%s", (int)(slash + 1 - file), file, path);
}

static sn_status load_weights(sn_graph *g, const char *path) {
    sn_holder *h = sn_graph_holder(g);
    sn_weights *w;
    SN_TRY(sn_module_load_weights(&w, g->ctx, g->m, path));
    h->object = w;
    h->close = close_weights;
    return SN_OK;
}

sn_status sn_graph_load_weights_beside(sn_graph *g, const char *path) {
    return load_weights(g, sn_path_beside(&g->ctx->scratch, path, g->m->weights.file));
}

sn_status sn_graph_load_weights(sn_graph *g, const char *path) { SN_GUARD_RETURN(g, load_weights(g, path), path); }

/* ---- what holds elements ---- */

sn_holder *sn_graph_holder(sn_graph *g) {
    sn_holder *h = sn_heap_alloc(&g->ctx->env, sizeof *h);
    *h = (sn_holder){.users = 1};
    SN_PUSH(&g->m->arena, &g->holders, h);
    sn_heap_keep(h);
    return h;
}

void sn_holders_share(sn_program *p, const sn_graph *g) {
    for (uint32_t k = 0; k < g->holders.n; k++) {
        SN_PUSH(&p->arena, &p->holders, g->holders.at[k]);
        g->holders.at[k]->users++;
    }
}

void sn_holders_drop(sn_context *ctx, const sn_holder_list *list) {
    for (uint32_t k = 0; k < list->n; k++) {
        sn_holder *h = list->at[k];
        if (--h->users) continue;
        if (h->object) h->close(h->object);
        sn_heap_free(&ctx->env, h, sizeof *h);
    }
}
