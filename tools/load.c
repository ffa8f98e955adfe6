/* load.c: the graph of a file: .sn text, or an ONNX model. */
#include "tools/tool.h"

#include <stdio.h>
#include <string.h>

bool tool_is_onnx(const char *path) {
    size_t n = strlen(path);
    return n > 5 && !strcmp(path + n - 5, ".onnx");
}

/* The input's value from a file, for the import: --input x=x.npy gives sizes that the model leaves open, and numbers
 * that it takes from an input. */
static sn_status add_value(tool_values *v, sn_context *ctx, const char *name, const char *value) {
    char path[4096];
    const char *end = tool_end_of_file(value);
    if (!end) return SN_OK;
    if (snprintf(path, sizeof path, "%.*s", (int)(end - value), value) >= (int)sizeof path)
        return sn_fail(&ctx->env, SN_ERROR_FILE, "--input %s: the path of the file is too long", name);
    SN_TRY(sn_weights_open(&v->files[v->n], ctx, path));
    bool one = sn_weights_count(v->files[v->n]) == 1;
    sn_status status = sn_weights_find(&v->at[v->n], v->files[v->n], *end ? end + 1 : one ? NULL : name);
    v->at[v->n++].name = name;
    return status;
}

void tool_close_values(tool_values *v) {
    for (unsigned k = 0; k < v->n; k++) sn_weights_close(v->files[k]);
    v->n = 0;
}

sn_status tool_open_values(tool_values *out, sn_context *ctx, const tool_inputs *in) {
    out->n = 0;
    for (unsigned k = 0; k < in->n; k++) SN_TRY(add_value(out, ctx, in->names[k], in->values[k]));
    return SN_OK;
}

sn_status tool_load(sn_graph **out, sn_context *ctx, const char *path, const tool_dims *dims, const tool_inputs *in) {
    static const tool_inputs none = {0};
    if (!tool_is_onnx(path)) return sn_graph_from_file(out, ctx, path);
    tool_values values;
    sn_status status = tool_open_values(&values, ctx, in ? in : &none);
    sn_import_options o = {
        .struct_size = sizeof o, .dims = dims->at, .n_dims = dims->n, .values = values.at, .n_values = values.n};
    if (status == SN_OK) status = sn_import_onnx(out, ctx, path, &o);
    tool_close_values(&values);
    return status;
}
