/* onnx.c: the public calls that read ONNX models: import, and the report of what a model needs.
 */
#include "frontend/onnx/import.h"
#include "frontend/onnx/report.h"

#include <string.h>

typedef struct source {
    const char *what, *folder; /* for messages; NULL: no external data */
    sn_bytes bytes;
} source;

static sn_status read_options(sn_import_options *out, sn_env *env, const sn_import_options *o) {
    *out = (sn_import_options){0};
    if (!o) return SN_OK;
    if (o->struct_size < sizeof(size_t) || o->struct_size > sizeof *out)
        return sn_fail(env, SN_ERROR_ARGUMENT, "import options: struct_size %zu; set it to sizeof", o->struct_size);
    memcpy(out, o, o->struct_size);
    return SN_OK;
}

static sn_status load(source *out, sn_context *ctx, const char *path) {
    char *data;
    SN_TRY(sn_file_read(&data, &out->bytes.n, &ctx->env, &ctx->scratch, path));
    out->bytes.at = (const uint8_t *)data;
    out->what = path;
    const char *slash = strrchr(path, '/');
    out->folder = slash ? sn_strndup(&ctx->scratch, path, (size_t)(slash - path) + (slash == path)) : ".";
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

/* Import into a module. Problems of nodes are in im->problems and no failure. */
static sn_status import(sn_onnx *im, sn_context *ctx, sn_module *m, const source *src,
                        const sn_import_options *options) {
    sn_pb_model *model = SN_NEW(&ctx->scratch, sn_pb_model);
    *im = (sn_onnx){.env = &ctx->env, .arena = &ctx->scratch, .m = m, .options = options, .model = model};
    im->files = (sn_onnx_files){.arena = &ctx->scratch, .folder = src->folder};
    SN_TRY(sn_pb_read_model(model, &ctx->env, &ctx->scratch, src->what, src->bytes));
    sn_graph_init(m, sn_strdup(&m->arena, graph_name(&ctx->scratch, src->what)));
    sn_status status = sn_onnx_import_model(im);
    if (status == SN_OK) return SN_OK;
    const char *message = sn_strdup(&ctx->scratch, ctx->env.message);
    sn_env_clear(&ctx->env);
    return sn_fail(&ctx->env, status, "%s: %s", src->what, message);
}

static sn_status import_graph(sn_graph **out, sn_context *ctx, const source *src, const sn_import_options *options) {
    sn_import_options o;
    sn_onnx im;
    SN_TRY(read_options(&o, &ctx->env, options));
    sn_module *m = sn_module_new(&ctx->env);
    sn_status status = import(&im, ctx, m, src, &o);
    if (status == SN_OK && im.problems.n) status = sn_onnx_problems_fail(&im, src->what);
    if (status == SN_OK) status = sn_module_verify(m, src->what);
    if (status != SN_OK) {
        sn_module_free(m);
        return status;
    }
    sn_graph *g = sn_heap_alloc(&ctx->env, sizeof *g);
    *g = (sn_graph){.ctx = ctx, .m = m};
    *out = g;
    return SN_OK;
}

static sn_status import_file(sn_graph **out, sn_context *ctx, const char *path, const sn_import_options *options) {
    source src;
    SN_TRY(load(&src, ctx, path));
    return import_graph(out, ctx, &src, options);
}

sn_status sn_import_onnx(sn_graph **out, sn_context *ctx, const char *path, const sn_import_options *options) {
    *out = NULL;
    SN_GUARD_RETURN(ctx, import_file(out, ctx, path, options));
}

sn_status sn_import_onnx_memory(sn_graph **out, sn_context *ctx, const char *name, const void *data, size_t size,
                                const char *folder, const sn_import_options *options) {
    source src = {.what = name ? name : "model", .folder = folder, .bytes = {data, size}};
    *out = NULL;
    SN_GUARD_RETURN(ctx, import_graph(out, ctx, &src, options));
}

static sn_status report(char **out, bool *all, sn_context *ctx, const char *path, const char *format,
                        const sn_import_options *options) {
    source src;
    sn_onnx im;
    sn_import_options o;
    bool csv = format && !strcmp(format, "csv");
    if (format && !csv && strcmp(format, "text"))
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "report format %s: text or csv is wanted", format);
    SN_TRY(read_options(&o, &ctx->env, options));
    SN_TRY(load(&src, ctx, path));
    sn_module *m = sn_module_new(&ctx->env);
    sn_status status = import(&im, ctx, m, &src, &o);
    if (status == SN_OK) {
        sn_text t;
        sn_text_init(&t, &ctx->env);
        sn_onnx_report_put(&t, &im, path, csv);
        *all = im.problems.n == 0;
        status = sn_text_give(out, ctx, &t);
    }
    sn_module_free(m);
    return status;
}

sn_status sn_onnx_report(char **out, bool *all, sn_context *ctx, const char *path, const char *format,
                         const sn_import_options *options) {
    bool unused;
    *out = NULL;
    SN_GUARD_RETURN(ctx, report(out, all ? all : &unused, ctx, path, format, options));
}
