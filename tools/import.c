/* import.c: `sinter import`: an ONNX model to .sn text with its weights beside it, or the report of what of it is not
 * supported.
 */
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph/weights.h"

static const char help[] =
    "usage: sinter import [options] MODEL.onnx\n"
    "  -o FILE.sn              where the graph goes (standard output); its weights go to FILE.safetensors\n"
    "  --report[=FORMAT]       what of the model is not supported, as text or csv; exit code 1 when something is not\n"
    "  --dim N=8               the size that a name in shapes stands for (repeat)\n"
    "  --input NAME=FILE       the value of an input that the graph has to know: .npy, .npz:MEMBER,\n"
    "                          .safetensors:MEMBER (repeat)\n";

typedef struct import_args {
    const char *path, *out, *report;
    tool_dims dims;
    tool_inputs in;
    bool show_help;
} import_args;

static int parse(import_args *r, int argc, char **argv) {
    static const struct option options[] = {{"report", optional_argument, NULL, 'r'},
                                            {"dim", required_argument, NULL, 'n'},
                                            {"input", required_argument, NULL, 'i'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "o:", options, NULL)) != -1;) {
        switch (c) {
        case 'o': r->out = optarg; break;
        case 'r': r->report = optarg ? optarg : "text"; break;
        case 'n':
            if (!tool_add_dim(&r->dims, optarg)) return tool_misuse("--dim %s: NAME=NUMBER is wanted", optarg);
            break;
        case 'i':
            if (!tool_add_input(&r->in, optarg)) return tool_misuse("--input %s: NAME=FILE is wanted", optarg);
            if (!tool_end_of_file(r->in.values[r->in.n - 1]))
                return tool_misuse("--input %s: a file .npy, .npz or .safetensors is wanted", optarg);
            break;
        case 'h': r->show_help = true; return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (argc - optind != 1) return tool_misuse("import: one MODEL.onnx is wanted, %d given", argc - optind);
    r->path = argv[optind];
    return TOOL_OK;
}

static int report(sn_context *ctx, const import_args *r) {
    char *text;
    bool all;
    tool_values values;
    sn_status status = tool_open_values(&values, ctx, &r->in);
    sn_import_options o = {
        .struct_size = sizeof o, .dims = r->dims.at, .n_dims = r->dims.n, .values = values.at, .n_values = values.n};
    if (status == SN_OK) status = sn_onnx_report(&text, &all, ctx, r->path, r->report, &o);
    tool_close_values(&values);
    if (status != SN_OK) return tool_fail(ctx);
    tool_print(ctx, text);
    return all ? TOOL_OK : TOOL_FAILED;
}

/* "dir/model.sn" -> "dir/model.safetensors" */
static char *weights_path(const char *out) {
    size_t n = strlen(out);
    if (n > 3 && !strcmp(out + n - 3, ".sn")) n -= 3;
    char *path = malloc(n + sizeof ".safetensors");
    if (path) sprintf(path, "%.*s.safetensors", (int)n, out);
    return path;
}

static sn_status save_weights(sn_context *ctx, const sn_module *m, const char *path) {
    uint32_t n = m->weights.recs.count - 1;
    sn_weight_info *at = calloc(n, sizeof *at);
    if (!at) return SN_ERROR_MEMORY;
    for (uint32_t k = 0; k < n; k++) {
        const sn_weight_rec *w = sn_wt_get(m, (sn_wt){k + 1});
        at[k] = (sn_weight_info){.name = w->name, .dtype = w->dtype, .rank = w->rank, .data = w->data, .size = w->size};
        memcpy(at[k].shape, w->shape, sizeof w->shape);
    }
    sn_status status = sn_weights_save(ctx, path, n, at);
    free(at);
    return status;
}

/* Weights first: a graph without its weights is of no use. */
static sn_status write_graph(sn_context *ctx, sn_graph *g, const char *out) {
    char *text, *weights = NULL;
    sn_status status = SN_OK;
    if (g->m->weights.recs.count > 1) {
        weights = weights_path(out);
        status = weights ? save_weights(ctx, g->m, weights) : SN_ERROR_MEMORY;
        const char *slash = strrchr(weights ? weights : "", '/'); /* the text names a file beside itself */
        if (status == SN_OK) g->m->weights.file = sn_strdup(&g->m->arena, slash ? slash + 1 : weights);
        free(weights);
    }
    if (status == SN_OK) status = sn_graph_text(&text, g);
    if (status != SN_OK) return status;
    status = sn_file_write(&ctx->env, out, text, strlen(text));
    sn_free(ctx, text);
    return status;
}

int tool_import(sn_context *ctx, int argc, char **argv) {
    import_args r = {0};
    int code = parse(&r, argc, argv);
    if (code != TOOL_OK) return code;
    if (r.show_help) return fputs(help, stdout), TOOL_OK;
    if (r.report) return report(ctx, &r);
    sn_graph *g = NULL;
    char *text;
    sn_status status = tool_load(&g, ctx, r.path, &r.dims, &r.in);
    if (status == SN_OK && r.out) status = write_graph(ctx, g, r.out);
    if (status == SN_OK && !r.out && (status = sn_graph_text(&text, g)) == SN_OK) tool_print(ctx, text);
    sn_graph_destroy(g);
    return status == SN_OK ? TOOL_OK : tool_fail(ctx);
}
