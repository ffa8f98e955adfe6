/* inputs.c: values for inputs from the command line, and tensors to people and files. */
#include "frontend/files/tensors_file.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SHOWN = 8 }; /* elements of a tensor that are printed unless all are wanted */

const char *tool_input_value(const tool_inputs *in, const char *name) {
    for (unsigned k = 0; k < in->n; k++)
        if (!strcmp(in->names[k], name)) return in->values[k];
    return NULL;
}

typedef struct check_args {
    const tool_inputs *in;
    const char *const *names;
    const bool *optional; /* by name; NULL: none is */
    unsigned n;
} check_args;

static sn_status check_given(sn_context *ctx, const check_args *c) {
    for (unsigned k = 0; k < c->in->n; k++) {
        if (tool_input_value(c->in, c->in->names[k]) != c->in->values[k])
            return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "--input %s: given twice", c->in->names[k]);
        bool known = false;
        for (unsigned j = 0; j < c->n; j++) known |= !strcmp(c->in->names[k], c->names[j]);
        if (known) continue;
        const char *list = "";
        for (unsigned j = 0; j < c->n; j++) list = sn_strf(&ctx->scratch, "%s%s%s", list, j ? ", " : "", c->names[j]);
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "--input %s: there is no such input; there are %s",
                       c->in->names[k], list);
    }
    return SN_OK;
}

static sn_status check_missing(sn_context *ctx, const check_args *c) {
    const char *missing = NULL;
    for (unsigned j = 0; j < c->n; j++) {
        if (c->in->random_rest || tool_input_value(c->in, c->names[j]) || (c->optional && c->optional[j])) continue;
        missing = missing ? sn_strf(&ctx->scratch, "%s, %s", missing, c->names[j]) : c->names[j];
    }
    if (!missing) return SN_OK;
    return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "no value for %s (--input NAME=FILE.npy, or --random SEED for all)",
                   missing);
}

static sn_status check_both(sn_context *ctx, void *args) {
    SN_TRY(check_given(ctx, args));
    return check_missing(ctx, args);
}

sn_status tool_check_inputs(const tool_inputs *in, sn_context *ctx, const char *const *names, const bool *optional,
                            unsigned n) {
    check_args args = {in, names, optional, n};
    return sn_guarded(ctx, check_both, &args);
}

/* ---- filling ---- */

typedef struct fill_args {
    sn_tensor *t;
    const char *name, *value;
    sn_random_how how;
    sn_module *graph;
    unsigned number;
} fill_args;

/* A number for each input of one seed, so that two inputs of a shape differ. */
static uint64_t mix_name(uint64_t seed, const char *name) { return sn_hash_bytes(seed, name, strlen(name)); }

bool tool_distribution(sn_distribution *out, const char *name, size_t n) {
    static const char *const names[] = {
        [SN_NORMAL] = "normal", [SN_UNIFORM] = "uniform", [SN_WIDE] = "wide", [SN_EXTREMES] = "extremes"};
    for (size_t k = 0; k < SN_COUNT(names); k++) {
        if (strlen(names[k]) != n || memcmp(name, names[k], n) != 0) continue;
        *out = (sn_distribution)k;
        return true;
    }
    return false;
}

static sn_status fill_random(const fill_args *f, uint64_t seed, sn_distribution floats) {
    sn_random_how how = f->how;
    how.floats = floats;
    how.seed = mix_name(seed, f->name);
    return sn_random_tensor(f->t, f->graph, f->number, &how);
}

static sn_status fill_equal(sn_context *ctx, const fill_args *f, int value, size_t bytes) {
    const sn_tensor_info *info = &f->t->info;
    char *data = sn_zalloc(&ctx->scratch, bytes);
    for (int64_t k = 0; value && k < info->numel; k++) {
        char *element = data + (size_t)k * sn_dtype_bytes(info->dtype);
        if (sn_is_float(info->dtype)) sn_store_float(info->dtype, element, value);
        else sn_store_int(info->dtype, element, value);
    }
    return sn_tensor_put(f->t, data, bytes);
}

static sn_status fill_special(sn_context *ctx, const fill_args *f, size_t bytes) {
    void *data = sn_alloc(&ctx->scratch, bytes);
    sn_special_fill(data, f->t->info.dtype, f->t->info.numel);
    return sn_tensor_put(f->t, data, bytes);
}

static sn_status fill_spiked(sn_context *ctx, const fill_args *f, size_t bytes) {
    void *data = sn_alloc(&ctx->scratch, bytes);
    sn_spiked_fill(data, f->t->info.dtype, f->t->info.numel, mix_name(f->how.seed, f->name));
    return sn_tensor_put(f->t, data, bytes);
}

static const struct {
    const char *name;
    sn_sequence which;
} sequences[] = {{"equal", SN_EQUAL}, {"growing", SN_GROWING}, {"alternating", SN_ALTERNATING}};

static sn_status fill_sequence(sn_context *ctx, const fill_args *f, sn_sequence which, size_t bytes) {
    void *data = sn_alloc(&ctx->scratch, bytes);
    sn_sequence_fill(data, f->t->info.dtype, f->t->info.numel, which);
    return sn_tensor_put(f->t, data, bytes);
}

static sn_status fill(sn_context *ctx, void *args) {
    const fill_args *f = args;
    size_t bytes = (size_t)f->t->info.numel * sn_dtype_bytes(f->t->info.dtype);
    uint64_t seed = f->how.seed;
    sn_distribution floats = f->how.floats;
    if (!f->value || tool_distribution(&floats, f->value, strlen(f->value))) return fill_random(f, seed, floats);
    if (!strcmp(f->value, "zeros")) return fill_equal(ctx, f, 0, bytes);
    if (!strcmp(f->value, "ones")) return fill_equal(ctx, f, 1, bytes);
    if (!strcmp(f->value, "special")) return fill_special(ctx, f, bytes);
    if (!strcmp(f->value, "spiked")) return fill_spiked(ctx, f, bytes);
    for (size_t k = 0; k < SN_COUNT(sequences); k++)
        if (!strcmp(f->value, sequences[k].name)) return fill_sequence(ctx, f, sequences[k].which, bytes);
    if (!strcmp(f->value, "random")) return fill_random(f, seed, floats);
    if (strncmp(f->value, "random:", 7) != 0 || !tool_u64(&seed, f->value + 7))
        return sn_fail(
            &ctx->env, SN_ERROR_ARGUMENT,
            "--input %s=%s: a FILE.npy, FILE.npz:MEMBER, FILE.safetensors:MEMBER, random:SEED, normal, uniform, wide, "
            "extremes, zeros, ones, special, spiked, equal, growing or alternating is wanted",
            f->name, f->value);
    return fill_random(f, seed, floats);
}

/* ---- from files of several tensors ---- */

typedef struct member_args {
    sn_tensor *t;
    sn_weights *w;
    const char *member, *name;
} member_args;

static sn_status fill_member(SN_UNUSED sn_context *ctx, void *args) {
    const member_args *m = args;
    return sn_weights_fill(m->t, m->w, m->member, m->name);
}

/* "FILE.npz:MEMBER" or "FILE.npz": where the file's name ends, NULL when the value is no such thing. */
const char *tool_end_of_file(const char *value) {
    static const char *const endings[] = {".npz", ".safetensors", ".npy"};
    const char *found = NULL;
    for (size_t k = 0; k < SN_COUNT(endings); k++)
        for (const char *at = value; (at = strstr(at, endings[k]));) {
            at += strlen(endings[k]);
            if ((!*at || *at == ':') && at > found) found = at;
        }
    return found;
}

/* Without :MEMBER the one that is called like the input. */
static sn_status fill_from(sn_tensor *t, const char *name, const char *value, const char *end) {
    char path[4096];
    if (snprintf(path, sizeof path, "%.*s", (int)(end - value), value) >= (int)sizeof path)
        return sn_fail(&t->ctx->env, SN_ERROR_FILE, "--input %s: the path of the file is too long", name);
    member_args args = {.t = t, .member = *end ? end + 1 : name, .name = name};
    sn_status status = sn_weights_open(&args.w, t->ctx, path);
    if (status == SN_OK) status = sn_guarded(t->ctx, fill_member, &args);
    sn_weights_close(args.w);
    return status;
}

sn_status tool_fill(sn_tensor *t, const tool_inputs *in, const char *name, sn_module *graph, unsigned number) {
    fill_args args = {t, name, tool_input_value(in, name), in->how, graph, number};
    const char *end = args.value ? tool_end_of_file(args.value) : NULL;
    if (end && !*end && !strncmp(end - 4, ".npy", 4)) return sn_tensor_load_npy(t, name, args.value);
    if (end) return fill_from(t, name, args.value, end);
    return sn_guarded(t->ctx, fill, &args);
}

/* ---- tensors of a program ---- */

static sn_status make_tensors(sn_tensor **inputs, sn_tensor **outputs, sn_program *p, const tool_inputs *in) {
    for (unsigned k = 0; k < p->n_inputs; k++) {
        if (p->inputs[k].optional && !tool_input_value(in, p->inputs[k].name)) continue;
        SN_TRY(sn_tensor_for_input(&inputs[k], p, k));
        SN_TRY(tool_fill(inputs[k], in, p->inputs[k].name, p->source->graph.outputs.n ? p->source : NULL, k));
    }
    for (unsigned k = 0; k < p->n_outputs; k++)
        if (p->outputs[k].writes < 0) SN_TRY(sn_tensor_for_output(&outputs[k], p, k));
    return SN_OK;
}

sn_status tool_program_tensors(sn_tensor **inputs, sn_tensor **outputs, sn_program *p, const tool_inputs *in) {
    const char **names = calloc(p->n_inputs + 1, sizeof *names);
    bool *optional = calloc(p->n_inputs + 1, sizeof *optional);
    for (unsigned k = 0; names && optional && k < p->n_inputs; k++) {
        names[k] = p->inputs[k].name;
        optional[k] = p->inputs[k].optional;
    }
    sn_status status = SN_ERROR_MEMORY;
    if (names && optional) status = tool_check_inputs(in, p->ctx, names, optional, p->n_inputs);
    free(names);
    free(optional);
    return status != SN_OK ? status : make_tensors(inputs, outputs, p, in);
}

void tool_free_tensors(sn_tensor **tensors, unsigned n) {
    for (unsigned k = 0; tensors && k < n; k++) sn_tensor_destroy(tensors[k]);
    free(tensors);
}

/* ---- output ---- */

static void print_element(sn_dtype dtype, const char *element) {
    if (!sn_is_float(dtype)) {
        int64_t x = sn_load_int(dtype, element);
        if (dtype == SN_U64) printf(" %" PRIu64, (uint64_t)x);
        else printf(" %" PRId64, x);
        return;
    }
    double x = sn_load_float(dtype, element);
    if (isnan(x)) printf(" nan"); /* never -nan: the sign of a nan means nothing */
    else printf(" %.*g", dtype == SN_F64 ? 17 : dtype == SN_F32 ? 9 : 5, x);
}

void tool_print_elements(sn_dtype dtype, const void *elements, int64_t n, bool all) {
    int64_t shown = all || n < SHOWN ? n : SHOWN;
    for (int64_t k = 0; k < shown; k++)
        print_element(dtype, (const char *)elements + (size_t)k * sn_dtype_bytes(dtype));
    if (shown < n) printf(" ...");
}

sn_status tool_print_tensor(const char *name, const sn_tensor *t, bool all) {
    const sn_tensor_info *info = &t->info;
    size_t bytes = (size_t)info->numel * sn_dtype_bytes(info->dtype);
    char *data = malloc(bytes + 1);
    if (!data) return SN_ERROR_MEMORY;
    sn_status status = sn_tensor_read(data, t, bytes);
    if (status == SN_OK) {
        printf("%s = %s[", name, sn_dtypes[info->dtype].name);
        for (unsigned k = 0; k < info->rank; k++) printf("%s%" PRId64, k ? ", " : "", info->shape[k]);
        printf("]");
        tool_print_elements(info->dtype, data, info->numel, all);
        printf("\n");
    }
    free(data);
    return status;
}

sn_status tool_save(const char *dir, const char *name, const sn_tensor *t) {
    char path[4096];
    mkdir(dir, 0777); /* where that fails, saving says why */
    if (snprintf(path, sizeof path, "%s/%s.npy", dir, name) >= (int)sizeof path)
        return sn_fail(&t->ctx->env, SN_ERROR_FILE, "--output-dir: the path of %s.npy is too long", name);
    return sn_tensor_save_npy(t, path);
}
