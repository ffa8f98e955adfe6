/* onnx.c: the public calls that read ONNX models: import, and the report of what a model needs.
 */
#include "frontend/onnx/import.h"
#include "frontend/onnx/report.h"

#include <string.h>

typedef struct source {
    const char *what, *folder; /* for messages; NULL: no external data */
    sn_bytes bytes;
} source;

static sn_status check_list(sn_env *env, const char *what, unsigned n, const void *at) {
    if (n && !at) return sn_fail(env, SN_ERROR_ARGUMENT, "%s: %u are said to be given, none is", what, n);
    return n <= SN_LIST_MAX ? SN_OK
                            : sn_fail(env, SN_ERROR_ARGUMENT, "%s: %u are given; at most %d", what, n, SN_LIST_MAX);
}

/* As many texts as the shape has places, and all of them are there. */
static sn_status check_text(sn_env *env, const sn_text_tensor *t) {
    int64_t n = 1;
    bool bad = t->rank > SN_MAX_RANK;
    for (unsigned k = 0; !bad && k < t->rank; k++) bad = t->shape[k] < 0 || sn_mul_overflow(n, t->shape[k], &n);
    for (int64_t k = 0; !bad && k < n; k++) bad = !t->at || !t->at[k];
    return bad ? sn_fail(env, SN_ERROR_ARGUMENT, "text %s: its texts do not fill its shape", t->name ? t->name : "")
               : SN_OK;
}

static sn_status read_options(sn_import_options *out, sn_env *env, const sn_import_options *o) {
    *out = (sn_import_options){0};
    SN_TRY(sn_options_read(out, sizeof *out, env, "sn_import_options", o));
    SN_TRY(check_list(env, "dims", out->n_dims, out->dims));
    SN_TRY(check_list(env, "values", out->n_values, out->values));
    SN_TRY(check_list(env, "texts", out->n_texts, out->texts));
    for (unsigned k = 0; k < out->n_dims; k++)
        if (!out->dims[k].name) return sn_fail(env, SN_ERROR_ARGUMENT, "dims: size %u has no name", k);
    for (unsigned k = 0; k < out->n_texts; k++) SN_TRY(check_text(env, &out->texts[k]));
    return SN_OK;
}

/* "dir/resnet-50.onnx" -> resnet_50 */
static const char *graph_name(sn_arena *arena, const char *what) {
    const char *slash = strrchr(what, '/'), *base = slash ? slash + 1 : what, *dot = strchr(base, '.');
    char *name = sn_strf(arena, "%.*s", (int)(dot ? dot - base : (long)strlen(base)), base);
    for (char *s = name; *s; s++)
        if (!(*s >= 'a' && *s <= 'z') && !(*s >= 'A' && *s <= 'Z') && !(*s >= '0' && *s <= '9')) *s = '_';
    return *name ? name : "model";
}

static void destroy_half(void *g) { sn_graph_destroy(g); }

/* An empty graph that owns what its weights will point into. A failure of the call destroys it. */
static sn_graph *begin(sn_store **store, sn_context *ctx, const source *src) {
    sn_module *m = sn_module_new(&ctx->env);
    sn_graph *g = sn_graph_new(ctx, m);
    sn_making_begin(ctx, g, destroy_half);
    *store = sn_store_new(g);
    sn_graph_init(m, sn_strdup(&m->arena, graph_name(&ctx->scratch, src->what)));
    return g;
}

/* The file is mapped; weights in memory of the caller are copied. */
static sn_status load(source *src, sn_context *ctx, sn_store *store) {
    if (src->bytes.at) {
        src->bytes.at = sn_memdup(sn_store_arena(store), src->bytes.at, src->bytes.n);
        return SN_OK;
    }
    const char *path = src->what, *slash = strrchr(path, '/');
    src->folder = slash ? sn_strndup(&ctx->scratch, path, (size_t)(slash - path) + (slash == path)) : ".";
    return sn_store_file(&src->bytes, store, path);
}

/* Problems of nodes are in im->problems and no failure. */
static sn_status import(sn_onnx *im, sn_context *ctx, sn_graph *g, source *src, sn_store *store,
                        const sn_import_options *options) {
    sn_pb_model *model = SN_NEW(&ctx->scratch, sn_pb_model);
    SN_TRY(load(src, ctx, store));
    *im = (sn_onnx){.env = &ctx->env, .arena = &ctx->scratch, .m = g->m, .options = options, .model = model};
    im->files = (sn_onnx_files){.store = store, .folder = src->folder};
    SN_TRY(sn_pb_read_model(model, &ctx->env, &ctx->scratch, src->what, src->bytes));
    sn_status status = sn_onnx_import_model(im);
    if (status == SN_OK) return SN_OK;
    const char *message = sn_strdup(&ctx->scratch, ctx->env.message);
    sn_env_clear(&ctx->env);
    return sn_fail(&ctx->env, status, "%s: %s", src->what, message);
}

static sn_status import_graph(sn_graph **out, sn_context *ctx, source *src, const sn_import_options *options) {
    sn_import_options o;
    sn_onnx im;
    sn_store *store;
    SN_TRY(read_options(&o, &ctx->env, options));
    sn_graph *g = begin(&store, ctx, src);
    SN_TRY(import(&im, ctx, g, src, store, &o));
    if (im.problems.n) return sn_onnx_problems_fail(&im, src->what);
    if (g->m->graph.outputs.n) SN_TRY(sn_module_verify(g->m, src->what)); /* none: all of them were text */
    sn_making_end(ctx, g);
    *out = g;
    return SN_OK;
}

sn_status sn_import_onnx(sn_graph **out, sn_context *ctx, const char *path, const sn_import_options *options) {
    source src = {.what = path};
    SN_MAKE_RETURN(out, ctx, import_graph(out, ctx, &src, options), path);
}

sn_status sn_import_onnx_memory(sn_graph **out, sn_context *ctx, const char *name, const void *data, size_t size,
                                const char *folder, const sn_import_options *options) {
    source src = {.what = name ? name : "model", .folder = folder, .bytes = {data, size}};
    SN_MAKE_RETURN(out, ctx, import_graph(out, ctx, &src, options), data);
}

static sn_status report(char **out, bool *all, sn_context *ctx, const char *path, const char *format,
                        const sn_import_options *options) {
    source src = {.what = path};
    sn_onnx im;
    sn_import_options o;
    sn_store *store;
    bool csv = format && !strcmp(format, "csv");
    if (format && !csv && strcmp(format, "text"))
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "report format %s: text or csv is wanted", format);
    SN_TRY(read_options(&o, &ctx->env, options));
    sn_graph *g = begin(&store, ctx, &src);
    SN_TRY(import(&im, ctx, g, &src, store, &o));
    sn_text t;
    sn_text_init(&t, &ctx->env);
    sn_onnx_report_put(&t, &im, path, csv);
    if (all) *all = im.problems.n == 0;
    SN_TRY(sn_text_give(out, ctx, &t));
    sn_making_end(ctx, g);
    sn_graph_destroy(g);
    return SN_OK;
}

sn_status sn_onnx_report(char **out, bool *all, sn_context *ctx, const char *path, const char *format,
                         const sn_import_options *options) {
    if (all) *all = false;
    SN_MAKE_RETURN(out, ctx, report(out, all, ctx, path, format, options), path);
}
