/* graph.c: graphs as objects: creation, reading text, symbolic sizes, questions about nodes, outputs, text.
 *
 * Relies on ir/ for the graph itself. Does not build operations (build.c, build_elementwise.c).
 */
#include "frontend/frontend.h"

#include <string.h>

static sn_graph *graph_new(sn_context *ctx, sn_module *m) {
    sn_graph *g = sn_heap_alloc(&ctx->env, sizeof *g);
    *g = (sn_graph){.ctx = ctx, .m = m};
    return g;
}

static sn_status graph_create(sn_graph **out, sn_context *ctx, const char *name) {
    sn_module *m = sn_module_new(&ctx->env);
    sn_graph_init(m, sn_strdup(&m->arena, name ? name : "graph"));
    *out = graph_new(ctx, m);
    return SN_OK;
}

sn_status sn_graph_create(sn_graph **out, sn_context *ctx, const char *name) {
    *out = NULL;
    SN_GUARD_RETURN(ctx, graph_create(out, ctx, name));
}

static sn_status parse_into(sn_module *m, const char *name, const char *text, size_t size) {
    SN_TRY(sn_module_parse(m, name, text, size));
    if (m->graph.outputs.n == 0 && m->kernels.n == 0)
        return sn_fail(m->env, SN_ERROR_ARGUMENT, "%s: no graph with outputs in it, and no kernels", name);
    return sn_module_verify(m, name);
}

static sn_status graph_from_text(sn_graph **out, sn_context *ctx, const char *name, const char *text, size_t size) {
    sn_module *m = sn_module_new(&ctx->env);
    sn_status status = parse_into(m, name, text, size);
    if (status != SN_OK) {
        sn_module_free(m);
        return status;
    }
    *out = graph_new(ctx, m);
    return SN_OK;
}

sn_status sn_graph_from_text(sn_graph **out, sn_context *ctx, const char *name, const char *text, size_t size) {
    *out = NULL;
    SN_GUARD_RETURN(ctx, graph_from_text(out, ctx, name, text, size));
}

static sn_status graph_from_file(sn_graph **out, sn_context *ctx, const char *path) {
    char *text;
    size_t size;
    SN_TRY(sn_file_read(&text, &size, &ctx->env, &ctx->scratch, path));
    return graph_from_text(out, ctx, path, text, size);
}

static sn_status read_graph(sn_graph **out, sn_context *ctx, const char *path) {
    SN_GUARD_RETURN(ctx, graph_from_file(out, ctx, path));
}

static sn_status load_named_weights(sn_graph *g, const char *path) {
    SN_GUARD_RETURN(g->ctx, sn_graph_load_weights_beside(g, path));
}

/* Two steps: a graph is there to hold the file of its weights. */
sn_status sn_graph_from_file(sn_graph **out, sn_context *ctx, const char *path) {
    *out = NULL;
    SN_TRY(read_graph(out, ctx, path));
    if (!(*out)->m->weights.file || load_named_weights(*out, path) == SN_OK) return SN_OK;
    sn_graph_destroy(*out);
    *out = NULL;
    return sn_error_status(ctx);
}

void sn_graph_destroy(sn_graph *g) {
    if (!g) return;
    sn_holders_drop(g->ctx, &g->holders);
    sn_module_free(g->m);
    sn_heap_free(&g->ctx->env, g, sizeof *g);
}

static sn_status graph_text(char **out, sn_graph *g) {
    sn_text t;
    sn_text_init(&t, &g->ctx->env);
    sn_module_print(&t, g->m);
    return sn_text_give(out, g->ctx, &t);
}

sn_status sn_graph_text(char **out, sn_graph *g) {
    *out = NULL;
    SN_GUARD_RETURN(g->ctx, graph_text(out, g));
}

sn_status sn_graph_status(const sn_graph *g) { return g->status; }

/* ---- symbolic sizes: INT64_MIN + id of the index expression ---- */

static sn_ix dim_find(void *user, bool is_value, const char *name) {
    sn_module *m = user;
    return is_value ? (sn_ix){0} : sn_ix_sym(m, sn_sym_named(m, name));
}

static sn_status dim_parse(sn_nd *out, sn_graph *g, const char *expression) {
    sn_lex lx;
    SN_TRY(sn_lex_init(&lx, &g->ctx->env, "size", expression, strlen(expression)));
    sn_ix e;
    SN_TRY(sn_ix_parse(&e, &lx, g->m, dim_find, g->m));
    if (lx.tok != SN_TOK_END) return sn_lex_fail(&lx, "an expression like N or 2*N + 1 is wanted");
    out->i = e.i;
    return SN_OK;
}

/* The id of an expression travels like that of a node, so that the builder's guard serves here too. */
static sn_node dim_id(sn_graph *g, const char *expression) { SN_BUILD_RETURN(g, dim_parse(&g->built, g, expression)); }

int64_t sn_dim(sn_graph *g, const char *expression) {
    sn_node e = dim_id(g, expression);
    if (!e.id) return 0;
    int64_t constant;
    if (sn_ix_is_const(g->m, (sn_ix){e.id}, &constant)) return constant;
    return INT64_MIN + (int64_t)e.id;
}

/* ---- questions ---- */

static const sn_type *type_of(const sn_graph *g, sn_node x) {
    if (x.id == 0 || x.id >= g->m->graph.nodes.count) return NULL;
    return &sn_node_get(g->m, sn_inner(x))->type;
}

sn_dtype sn_node_dtype(const sn_graph *g, sn_node x) {
    const sn_type *t = type_of(g, x);
    return t ? t->dtype : SN_N_DTYPES;
}

unsigned sn_node_rank(const sn_graph *g, sn_node x) {
    const sn_type *t = type_of(g, x);
    return t ? t->rank : 0;
}

void sn_node_shape(int64_t *out, const sn_graph *g, sn_node x) {
    const sn_type *t = type_of(g, x);
    for (uint32_t k = 0; t && k < t->rank; k++)
        if (!sn_ix_is_const(g->m, t->shape[k], &out[k])) out[k] = INT64_MIN + (int64_t)t->shape[k].i;
}

static sn_status name_node(sn_nd *out, sn_graph *g, sn_node x, const char *name) {
    *out = sn_inner(x);
    if (!type_of(g, x)) return sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT, "%s: not a value of this graph", name);
    sn_graph_name(g->m, *out, sn_strdup(&g->m->arena, name));
    return SN_OK;
}

sn_node sn_named(sn_graph *g, sn_node x, const char *name) { SN_BUILD_RETURN(g, name_node(&g->built, g, x, name)); }

/* ---- outputs ---- */

static sn_status output_new(sn_graph *g, const char *name, sn_node x, int writes) {
    sn_env *env = &g->ctx->env;
    if (!name || !name[0]) return sn_fail(env, SN_ERROR_ARGUMENT, "an output has no name");
    if (!type_of(g, x)) return sn_fail(env, SN_ERROR_ARGUMENT, "output %s: not a value of this graph", name);
    return sn_graph_output_new(g->m, sn_strdup(&g->m->arena, name), sn_inner(x), writes);
}

static sn_node add_output(sn_graph *g, const char *name, sn_node x, int writes) {
    SN_BUILD_RETURN(g, output_new(g, name, x, writes));
}

sn_status sn_output(sn_graph *g, const char *name, sn_node x) {
    add_output(g, name, x, -1);
    return g->status;
}

sn_status sn_output_writes(sn_graph *g, const char *name, sn_node x, sn_node input) {
    const sn_node_rec *rec = type_of(g, input) ? sn_node_get(g->m, sn_inner(input)) : NULL;
    if (g->status == SN_OK && (!rec || rec->op != SN_OP_INPUT)) {
        sn_env_clear(&g->ctx->env);
        g->status =
            sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT, "output %s: what it writes is not an input of this graph", name);
        memcpy(g->message, g->ctx->env.message, sizeof g->message);
    }
    if (g->status != SN_OK) return g->status;
    add_output(g, name, x, (int)rec->input);
    return g->status;
}
