/* tensors_file.c: files of named tensors (sn_weights): opening, listing, finding, loading.
 *
 *     sn_weights_open(&w, ctx, "model.safetensors");
 *     sn_tensor_load(t, w, "wte.weight");
 *
 * The formats are in safetensors.c, npz.c and npy.c. A file that cannot be mapped (a pipe) is read into memory. What is
 * inflated or transposed is kept for the caller who got its address; sn_tensor_load keeps nothing.
 */
#include "frontend/files/tensors_file.h"

#include "frontend/context/names.h"
#include "runtime/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

/* A name for the tensor of an .npy file: that of the file. */
static char *stem(sn_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strlen(name);
    return sn_strndup(arena, name, n > 4 && !strcmp(name + n - 4, ".npy") ? n - 4 : n);
}

static sn_status read_npy(sn_weights *w) {
    sn_env *env = &w->ctx->env;
    sn_npy_header h;
    SN_TRY(sn_npy_header_read(&h, env, &w->arena, w->path, w->file.data, w->file.size));
    w->is_npy = true;
    w->at = SN_NEW(&w->arena, sn_member);
    w->n = 1;
    SN_TRY(sn_npy_describe(w->at, env, &w->arena, w->path, &h, w->file.size - h.size));
    w->at->info.name = stem(&w->arena, w->path);
    w->at->raw = w->file.data + h.size;
    return SN_OK;
}

static sn_status read_any(sn_weights *w) {
    if (w->file.size >= 6 && memcmp(w->file.data, "\x93NUMPY", 6) == 0) return read_npy(w);
    if (w->file.size >= 9 && w->file.data[8] == '{') return sn_safetensors_read(w);
    if (w->file.size >= 4 && (memcmp(w->file.data, "PK\3\4", 4) == 0 || memcmp(w->file.data, "PK\5\6", 4) == 0))
        return sn_npz_read(w);
    return sn_fail(&w->ctx->env, SN_ERROR_FILE,
                   "%s: no file of tensors: its first bytes are not those of .safetensors, "
                   ".npz or .npy",
                   w->path);
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(sn_member *const *)a)->info.name, (*(sn_member *const *)b)->info.name);
}

static sn_status sort_names(sn_weights *w) {
    w->by_name = SN_NEWN(&w->arena, sn_member *, w->n);
    for (uint32_t k = 0; k < w->n; k++) w->by_name[k] = &w->at[k];
    if (w->n) qsort(w->by_name, w->n, sizeof *w->by_name, compare_names);
    for (uint32_t k = 1; k < w->n; k++)
        if (!compare_names(&w->by_name[k - 1], &w->by_name[k]))
            return sn_fail(&w->ctx->env, SN_ERROR_FILE, "%s: there are two tensors %s", w->path,
                           w->by_name[k]->info.name);
    return SN_OK;
}

static void close_half(void *w) { sn_weights_close(w); }

sn_status sn_weights_read(sn_weights **out, sn_context *ctx, const char *path) {
    sn_weights *w = sn_heap_alloc(&ctx->env, sizeof *w);
    *w = (sn_weights){.ctx = ctx};
    sn_arena_init(&w->arena, &ctx->env);
    sn_making_begin(ctx, w, close_half);
    w->path = sn_strdup(&w->arena, path);
    SN_TRY(sn_mapping_open(&w->file, &ctx->env, &w->arena, w->path));
    SN_TRY(read_any(w));
    SN_TRY(sort_names(w));
    sn_making_end(ctx, w);
    *out = w;
    return SN_OK;
}

sn_status sn_weights_open(sn_weights **out, sn_context *ctx, const char *path) {
    SN_MAKE_RETURN(out, ctx, sn_weights_read(out, ctx, path), path);
}

void sn_weights_close(sn_weights *w) {
    if (!w) return;
    sn_env *env = &w->ctx->env;
    for (uint32_t k = 0; k < w->n; k++) sn_heap_free(env, w->at[k].owned, w->at[k].info.size);
    sn_safetensors_release(w);
    sn_npz_release(w);
    sn_mapping_close(&w->file);
    sn_arena_free(&w->arena);
    sn_heap_free(env, w, sizeof *w);
}

/* ---- elements ---- */

sn_status sn_weights_elements(sn_weights *w, sn_member *e) {
    sn_env *env = &w->ctx->env;
    if (e->have) return SN_OK;
    const char *data = e->raw;
    void *inflated = NULL, *rows = NULL;
    size_t size = e->info.size;
    if (!data) {
        inflated = sn_heap_alloc(env, size);
        SN_TRY(sn_npz_elements(inflated, w, e));
        data = inflated;
    }
    if (e->fortran && e->info.dtype != SN_N_DTYPES) {
        rows = sn_heap_alloc(env, size);
        sn_npy_transpose(rows, data, sn_dtype_bytes(e->info.dtype), e->info.rank, e->info.shape);
        sn_heap_free(env, inflated, size);
        data = rows;
    }
    e->info.data = data;
    e->owned = rows ? rows : inflated;
    e->have = true;
    return SN_OK;
}

static void forget(sn_weights *w, sn_member *e) {
    sn_heap_free(&w->ctx->env, e->owned, e->info.size);
    e->owned = NULL;
    e->info.data = NULL;
    e->have = false;
}

/* ---- finding ---- */

static const char *member_name(const void *at, uint32_t k) { return ((const sn_member *)at)[k].info.name; }

/* "a, b, c": the names nearest to one. */
static const char *nearest(const sn_weights *w, sn_arena *arena, const char *name) {
    return sn_names_nearest(arena, &(sn_name_list){w->at, w->n, member_name}, name);
}

sn_member *sn_weights_look_up(const sn_weights *w, const char *name) {
    sn_member wanted = {.info = {.name = name}}, *key = &wanted;
    sn_member **at = w->n ? bsearch(&key, w->by_name, w->n, sizeof *at, compare_names) : NULL;
    return at ? *at : NULL;
}

static sn_status find(sn_member **out, sn_weights *w, const char *name) {
    sn_env *env = &w->ctx->env;
    sn_arena *arena = &w->ctx->scratch;
    if (!name) {
        *out = w->at;
        if (w->n == 1) return SN_OK;
        return sn_fail(env, SN_ERROR_ARGUMENT, "%s: which of its %u tensors is meant? There are %s%s", w->path, w->n,
                       nearest(w, arena, ""), w->n > SN_NAMES_NEAR ? ", ..." : "");
    }
    *out = sn_weights_look_up(w, name);
    if (*out) return SN_OK;
    if (!w->n) return sn_fail(env, SN_ERROR_ARGUMENT, "%s: no tensor %s; the file has none", w->path, name);
    return sn_fail(env, SN_ERROR_ARGUMENT, "%s: no tensor %s; nearest of its %u: %s", w->path, name, w->n,
                   nearest(w, arena, name));
}

static sn_status refuse_type(const sn_weight_info *f, sn_env *env, const char *label) {
    if (f->type[0] == '>')
        return sn_fail(env, SN_ERROR_FILE, "%s: file is big endian (%s); little endian is read", label, f->type);
    return sn_fail(env, SN_ERROR_UNSUPPORTED, "%s: file has elements %s, a type that Sinter has not", label, f->type);
}

sn_status sn_weight_fits(const sn_weight_info *f, bool is_npy, sn_env *env, sn_arena *arena, const char *label,
                         const sn_tensor_info *t) {
    const char *want = is_npy ? sn_npy_type(t->dtype) : sn_safetensors_type_name(t->dtype);
    if (f->type[0] == '>') return refuse_type(f, env, label);
    if (is_npy ? !sn_npy_is(f->type, t->dtype) : strcmp(f->type, want) != 0)
        return sn_fail(env, SN_ERROR_TYPE, "%s: file has elements %s, the graph wants %s (%s)", label, f->type,
                       sn_dtypes[t->dtype].name, want);
    bool same = f->rank == t->rank;
    for (unsigned k = 0; same && k < t->rank; k++) same = f->shape[k] == t->shape[k];
    if (same) return SN_OK;
    return sn_fail(env, SN_ERROR_TYPE, "%s: file has shape %s, the graph wants %s", label,
                   sn_sizes_text(arena, f->shape, f->rank), sn_sizes_text(arena, t->shape, t->rank));
}

/* ---- the public functions ---- */

unsigned sn_weights_count(const sn_weights *w) { return w ? w->n : 0; }

static sn_status get(sn_weight_info *out, sn_weights *w, unsigned k) {
    if (k >= w->n) return sn_fail(&w->ctx->env, SN_ERROR_ARGUMENT, "%s: tensor %u: the file has %u", w->path, k, w->n);
    SN_TRY(sn_weights_elements(w, &w->at[k]));
    *out = w->at[k].info;
    return SN_OK;
}

sn_status sn_weights_get(sn_weight_info *out, sn_weights *w, unsigned k) { SN_GUARD_RETURN(w, get(out, w, k), out); }

static sn_status find_known(sn_weight_info *out, sn_weights *w, const char *name) {
    sn_member *e;
    SN_TRY(find(&e, w, name));
    if (e->info.dtype == SN_N_DTYPES)
        return refuse_type(&e->info, &w->ctx->env, sn_strf(&w->ctx->scratch, "%s: %s", w->path, e->info.name));
    SN_TRY(sn_weights_elements(w, e));
    *out = e->info;
    return SN_OK;
}

sn_status sn_weights_find(sn_weight_info *out, sn_weights *w, const char *name) {
    SN_GUARD_RETURN(w, find_known(out, w, name), out);
}

sn_status sn_weights_fill(sn_tensor *t, sn_weights *w, const char *name, const char *label) {
    sn_member *e;
    if (t->ctx != w->ctx)
        return sn_fail(&w->ctx->env, SN_ERROR_ARGUMENT, "%s: the tensor belongs to another context", w->path);
    SN_TRY(find(&e, w, name));
    if (!label) label = sn_strf(&w->ctx->scratch, "%s: %s", w->path, e->info.name);
    SN_TRY(sn_weight_fits(&e->info, w->is_npy, &w->ctx->env, &w->ctx->scratch, label, &t->info));
    bool had = e->have;
    SN_TRY(sn_weights_elements(w, e));
    sn_status status = sn_tensor_put(t, e->info.data, e->info.size);
    if (!had) forget(w, e);
    return status;
}

sn_status sn_tensor_load(sn_tensor *t, sn_weights *w, const char *name) {
    if (!w && SN_IS_NULL(t, w)) return SN_ERROR_ARGUMENT;
    SN_GUARD_RETURN(w, sn_weights_fill(t, w, name, NULL), t);
}
