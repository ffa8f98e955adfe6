/* graph.c: graphs as objects: creation, reading text, questions about nodes and ports, outputs, text.
 *
 * Relies on ir/ for the graph itself. Does not build operations (build.c, build_elementwise.c); sizes are in sizes.c.
 */
#include "frontend/frontend.h"
#include "frontend/context/names.h"

#include <limits.h>
#include <string.h>

bool sn_build_enter(sn_graph *g, jmp_buf *here) {
    if (!g || g->status != SN_OK) return false;
    if (!sn_guard_enter(g->ctx, here)) return false;
    g->built = (sn_nd){0};
    return true;
}

/* A failure names the line of the caller (sn_at). */
static void name_origin(sn_env *env, const char *origin) {
    char message[SN_MESSAGE_MAX];
    sn_status status = env->status;
    memcpy(message, env->message, sizeof message);
    sn_env_clear(env);
    sn_fail(env, status, "%s: %s", origin, message);
}

sn_node sn_build_leave(sn_graph *g) {
    sn_env *env = &g->ctx->env;
    if (env->status != SN_OK && g->m->graph.origin) name_origin(env, g->m->graph.origin);
    sn_guard_leave(g->ctx, env->status);
    if (env->status == SN_OK) return (sn_node){g->built.i, g->tag};
    g->status = env->status;
    memcpy(g->message, env->message, sizeof g->message);
    return (sn_node){0};
}

sn_graph *sn_graph_new(sn_context *ctx, sn_module *m) {
    sn_graph *g = sn_heap_alloc(&ctx->env, sizeof *g);
    *g = (sn_graph){.ctx = ctx, .m = m, .tag = ctx->tag + ctx->n_graphs++};
    return g;
}

static sn_status graph_create(sn_graph **out, sn_context *ctx, const char *name) {
    sn_module *m = sn_module_new(&ctx->env);
    sn_graph_init(m, sn_strdup(&m->arena, name ? name : "graph"));
    *out = sn_graph_new(ctx, m);
    return SN_OK;
}

sn_status sn_graph_create(sn_graph **out, sn_context *ctx, const char *name) {
    SN_MAKE_RETURN(out, ctx, graph_create(out, ctx, name));
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
    *out = sn_graph_new(ctx, m);
    return SN_OK;
}

sn_status sn_graph_from_text(sn_graph **out, sn_context *ctx, const char *name, const char *text, size_t size) {
    SN_MAKE_RETURN(out, ctx, graph_from_text(out, ctx, name ? name : "text", text, size), text);
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
    SN_GUARD_RETURN(g, sn_graph_load_weights_beside(g, path));
}

/* Two steps: a graph is there to hold the file of its weights. */
sn_status sn_graph_from_file(sn_graph **out, sn_context *ctx, const char *path) {
    if (out) *out = NULL;
    if (SN_IS_NULL(ctx, out, path)) return SN_ERROR_ARGUMENT;
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

sn_status sn_graph_text(char **out, sn_graph *g) { SN_MAKE_RETURN(out, g, graph_text(out, g)); }

sn_status sn_graph_status(const sn_graph *g) { return g ? g->status : SN_ERROR_ARGUMENT; }
const char *sn_graph_error(const sn_graph *g) { return g ? g->message : ""; }

/* ---- nodes ---- */

bool sn_node_is_of(const sn_graph *g, sn_node x) {
    return g && x.id && x.graph == g->tag && x.id < g->m->graph.nodes.count;
}

sn_status sn_node_check(sn_graph *g, sn_node x, const char *who, const char *what) {
    if (sn_node_is_of(g, x)) return SN_OK;
    return sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT, "%s: %s is not a value of this graph%s", who, what,
                   x.id ? "" : " (id 0: building it failed)");
}

sn_dtype sn_node_dtype(const sn_graph *g, sn_node x) {
    return sn_node_is_of(g, x) ? sn_node_get(g->m, sn_inner(x))->type.dtype : SN_N_DTYPES;
}

unsigned sn_node_rank(const sn_graph *g, sn_node x) {
    return sn_node_is_of(g, x) ? sn_node_get(g->m, sn_inner(x))->type.rank : 0;
}

static sn_status name_node(sn_nd *out, sn_graph *g, sn_node x, const char *name) {
    SN_TRY(sn_node_check(g, x, "sn_named", name));
    *out = sn_inner(x);
    sn_graph_name(g->m, *out, sn_strdup(&g->m->arena, name));
    return SN_OK;
}

/* The file without its folders: where a program was built says nothing to who runs it. */
static void set_origin(sn_graph *g, const char *file, int line) {
    const char *name = file ? strrchr(file, '/') : NULL;
    name = name ? name + 1 : file;
    g->m->graph.origin = name ? sn_strf(&g->m->arena, "%s:%d", name, line) : NULL;
}

sn_graph *sn_at(sn_graph *g, const char *file, int line) {
    jmp_buf here;
    if (!sn_build_enter(g, &here)) return g;
    if (setjmp(here) == 0) set_origin(g, file, line);
    sn_build_leave(g);
    return g;
}

sn_node sn_named(sn_graph *g, sn_node x, const char *name) {
    SN_BUILD_RETURN(g, name_node(&g->built, g, x, name), name);
}

/* ---- ports ---- */

unsigned sn_graph_input_count(const sn_graph *g) { return g ? g->m->graph.inputs.n : 0; }
unsigned sn_graph_output_count(const sn_graph *g) { return g ? g->m->graph.outputs.n : 0; }

static const char *input_name(const void *at, uint32_t k) { return ((const sn_graph_input *)at)[k].name; }
static const char *output_name(const void *at, uint32_t k) { return ((const sn_graph_output *)at)[k].name; }

static sn_status find_port(unsigned *out, const sn_graph *g, bool output, const char *name) {
    const sn_graph_ir *ir = &g->m->graph;
    sn_arena *arena = &g->ctx->scratch;
    const char *where = ir->name ? sn_strf(arena, "graph %s", ir->name) : "graph"; /* a text may have kernels alone */
    sn_name_list inputs = {ir->inputs.at, ir->inputs.n, input_name};
    sn_name_list outputs = {ir->outputs.at, ir->outputs.n, output_name};
    return sn_names_find(out, &g->ctx->env, arena, output ? &outputs : &inputs, where, output ? "output" : "input",
                         name);
}

sn_status sn_graph_find_input(unsigned *out, const sn_graph *g, const char *name) {
    if (out) *out = UINT_MAX;
    SN_GUARD_RETURN(g, find_port(out, g, false, name), out, name);
}

sn_status sn_graph_find_output(unsigned *out, const sn_graph *g, const char *name) {
    if (out) *out = UINT_MAX;
    SN_GUARD_RETURN(g, find_port(out, g, true, name), out, name);
}

/* ---- outputs ---- */

/* writes NULL: storage of its own. */
static sn_status output_new(sn_graph *g, const char *name, sn_node x, const sn_node *writes) {
    sn_env *env = &g->ctx->env;
    if (!name || !name[0]) return sn_fail(env, SN_ERROR_ARGUMENT, "an output has no name");
    const char *who = sn_strf(&g->ctx->scratch, "output %s", name);
    SN_TRY(sn_node_check(g, x, who, "what it gets"));
    if (writes) SN_TRY(sn_node_check(g, *writes, who, "what it writes"));
    const sn_node_rec *input = writes ? sn_node_get(g->m, sn_inner(*writes)) : NULL;
    if (input && input->op != SN_OP_INPUT)
        return sn_fail(env, SN_ERROR_ARGUMENT, "%s: what it writes is not an input of this graph", who);
    return sn_graph_output_new(g->m, sn_strdup(&g->m->arena, name), sn_inner(x), input ? (int)input->input : -1);
}

static sn_node add_output(sn_graph *g, const char *name, sn_node x, const sn_node *writes) {
    SN_BUILD_RETURN(g, output_new(g, name, x, writes));
}

sn_status sn_output(sn_graph *g, const char *name, sn_node x) {
    add_output(g, name, x, NULL);
    return sn_graph_status(g);
}

sn_status sn_output_writes(sn_graph *g, const char *name, sn_node x, sn_node input) {
    add_output(g, name, x, &input);
    return sn_graph_status(g);
}
