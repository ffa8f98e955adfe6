/* safetensors.c: reading and writing of .safetensors.
 *
 *     length of the header (u64)   {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}   elements
 *
 * Offsets count from the end of the header. The tensors cover the rest of the file, without holes or overlaps. The
 * entry __metadata__ (texts) is skipped. Relies on jansson for JSON, whose memory is not that of the context's hook.
 * The file is data of a stranger: nothing of it is used before it is checked.
 */
#include "cache/files.h"
#include "frontend/files/tensors_file.h"
#include "runtime/safetensors.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, HEADER_MAX = 100000000 }; /* the limit of the format's own library */
enum { TENSORS_MAX = HEADER_MAX / 48 };            /* entries that such a header has room for */
static const char METADATA[] = "__metadata__";

static sn_dtype type_from(const char *name) {
    for (int t = 0; t < SN_N_DTYPES; t++)
        if (!strcmp(sn_safetensors_type_name((sn_dtype)t), name)) return (sn_dtype)t;
    return SN_N_DTYPES;
}

/* ---- the header ---- */

static sn_status parse_header(size_t *elements, sn_weights *w) {
    sn_env *env = &w->ctx->env;
    uint64_t length = 0;
    for (int k = 0; k < LENGTH_BYTES; k++) length |= (uint64_t)(unsigned char)w->file.data[k] << 8 * k;
    if (length > w->file.size - LENGTH_BYTES)
        return sn_fail(env, SN_ERROR_FILE, "%s: truncated: its header has %llu bytes, the file %zu", w->path,
                       (unsigned long long)length, w->file.size);
    if (length > HEADER_MAX)
        return sn_fail(env, SN_ERROR_FILE, "%s: header of %llu bytes; at most %d are read", w->path,
                       (unsigned long long)length, HEADER_MAX);
    json_error_t error;
    w->json = json_loadb(w->file.data + LENGTH_BYTES, length, JSON_REJECT_DUPLICATES, &error);
    if (!w->json)
        return sn_fail(env, SN_ERROR_FILE, "%s: malformed header: %s (byte %d)", w->path, error.text, error.position);
    *elements = LENGTH_BYTES + length;
    return SN_OK;
}

/* A list of n or fewer integers >= 0. */
static bool read_sizes(int64_t *out, unsigned *n, const json_t *list) {
    if (!json_is_array(list) || json_array_size(list) > *n) return false;
    *n = (unsigned)json_array_size(list);
    for (unsigned k = 0; k < *n; k++) {
        const json_t *number = json_array_get(list, k);
        if (!json_is_integer(number) || json_integer_value(number) < 0) return false;
        out[k] = json_integer_value(number);
    }
    return true;
}

static sn_status check_bytes(const sn_weights *w, const sn_weight_info *info) {
    sn_env *env = &w->ctx->env;
    int64_t bytes = sn_dtype_bytes(info->dtype);
    for (unsigned k = 0; k < info->rank; k++)
        if (sn_mul_overflow(bytes, info->shape[k], &bytes))
            return sn_fail(env, SN_ERROR_FILE, "%s: %s: shape %s has too many elements", w->path, info->name,
                           sn_sizes_text(&w->ctx->scratch, info->shape, info->rank));
    if ((size_t)bytes == info->size) return SN_OK;
    return sn_fail(env, SN_ERROR_FILE, "%s: %s: %s%s has %lld bytes, its data_offsets span %zu", w->path, info->name,
                   info->type, sn_sizes_text(&w->ctx->scratch, info->shape, info->rank), (long long)bytes, info->size);
}

/* Of a type that Sinter has not, the size of an element is not known: nobody will read them. */
static sn_status read_tensor(sn_member *e, sn_weights *w, const char *name, const json_t *entry, size_t elements) {
    sn_env *env = &w->ctx->env;
    sn_weight_info *info = &e->info;
    int64_t span[2];
    unsigned n_span = 2;
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    info->name = sn_strdup(&w->arena, name);
    info->rank = SN_MAX_RANK;
    if (!type) return sn_fail(env, SN_ERROR_FILE, "%s: %s: no dtype in the header", w->path, name);
    if (!read_sizes(info->shape, &info->rank, json_object_get(entry, "shape")))
        return sn_fail(env, SN_ERROR_FILE, "%s: %s: its shape is no list of up to %d sizes", w->path, name,
                       SN_MAX_RANK);
    if (!read_sizes(span, &n_span, json_object_get(entry, "data_offsets")) || n_span != 2 || span[0] > span[1])
        return sn_fail(env, SN_ERROR_FILE, "%s: %s: its data_offsets are not two ascending numbers", w->path, name);
    if ((uint64_t)span[1] > w->file.size - elements)
        return sn_fail(env, SN_ERROR_FILE, "%s: truncated: tensor %s ends at byte %lld of the elements, there are %zu",
                       w->path, name, (long long)span[1], w->file.size - elements);
    info->type = sn_strdup(&w->arena, type);
    info->dtype = type_from(type);
    info->size = (size_t)(span[1] - span[0]);
    e->raw = w->file.data + elements + span[0];
    return info->dtype == SN_N_DTYPES ? SN_OK : check_bytes(w, info);
}

static sn_status check_metadata(const sn_weights *w, json_t *entry) {
    const char *key;
    json_t *text;
    if (!json_is_object(entry))
        return sn_fail(&w->ctx->env, SN_ERROR_FILE, "%s: %s is not an object", w->path, METADATA);
    json_object_foreach(entry, key, text) {
        if (!json_is_string(text))
            return sn_fail(&w->ctx->env, SN_ERROR_FILE, "%s: %s: %s is not a text", w->path, METADATA, key);
    }
    return SN_OK;
}

/* ---- no holes, no overlaps ---- */

static int compare_places(const void *a, const void *b) {
    const sn_member *x = a, *y = b;
    if (x->raw != y->raw) return x->raw < y->raw ? -1 : 1;
    return x->info.size < y->info.size ? -1
                                       : x->info.size > y->info.size; /* an empty one before what begins there too */
}

static sn_status check_cover(sn_weights *w, size_t elements) {
    sn_env *env = &w->ctx->env;
    const char *at = w->file.data + elements, *end = w->file.data + w->file.size, *last = "the header";
    for (uint32_t k = 0; k < w->n; k++) {
        const sn_member *e = &w->at[k];
        if (e->raw < at)
            return sn_fail(env, SN_ERROR_FILE, "%s: tensors %s and %s overlap", w->path, last, e->info.name);
        if (e->raw > at)
            return sn_fail(env, SN_ERROR_FILE, "%s: %zu bytes between %s and %s belong to no tensor", w->path,
                           (size_t)(e->raw - at), last, e->info.name);
        at += e->info.size;
        last = e->info.name;
    }
    if (at == end) return SN_OK;
    return sn_fail(env, SN_ERROR_FILE, "%s: %zu bytes after the last tensor", w->path, (size_t)(end - at));
}

sn_status sn_safetensors_read(sn_weights *w) {
    size_t elements;
    SN_TRY(parse_header(&elements, w));
    w->at = SN_NEWN(&w->arena, sn_member, json_object_size(w->json));
    const char *name;
    json_t *entry;
    json_object_foreach(w->json, name, entry) {
        if (!strcmp(name, METADATA)) SN_TRY(check_metadata(w, entry));
        else SN_TRY(read_tensor(&w->at[w->n++], w, name, entry, elements));
    }
    if (w->n) qsort(w->at, w->n, sizeof *w->at, compare_places);
    sn_safetensors_release(w);
    return check_cover(w, elements);
}

void sn_safetensors_release(sn_weights *w) {
    json_decref(w->json);
    w->json = NULL;
}

/* ---- writing ---- */

static sn_status check_tensor(sn_env *env, sn_arena *arena, const char *path, const sn_weight_info *t) {
    const char *name = t->name ? t->name : "(no name)";
    if (!t->name || !t->name[0] || !strcmp(name, METADATA))
        return sn_fail(env, SN_ERROR_ARGUMENT, "%s: '%s' cannot be the name of a tensor", path, name);
    if (t->dtype >= SN_N_DTYPES || t->rank > SN_MAX_RANK)
        return sn_fail(env, SN_ERROR_ARGUMENT, "%s: %s: element type %d, rank %u", path, name, (int)t->dtype, t->rank);
    int64_t bytes = sn_dtype_bytes(t->dtype);
    bool bad = false;
    for (unsigned k = 0; k < t->rank; k++) bad |= t->shape[k] < 0 || sn_mul_overflow(bytes, t->shape[k], &bytes);
    if (bad || (size_t)bytes != t->size || (bytes && !t->data))
        return sn_fail(env, SN_ERROR_ARGUMENT, "%s: %s: %zu bytes of elements are given for %s%s", path, name,
                       t->data ? t->size : 0, sn_safetensors_type_name(t->dtype),
                       sn_sizes_text(arena, t->shape, t->rank));
    return SN_OK;
}

/* Numbers of the tensors, widest elements first, so that each begins at a multiple of its element's size. */
static uint32_t *order_of(sn_arena *arena, unsigned n, const sn_weight_info *tensors) {
    uint32_t *order = SN_NEWN(arena, uint32_t, n), filled = 0;
    for (uint32_t bytes = 8; bytes; bytes /= 2)
        for (uint32_t k = 0; k < n; k++)
            if (sn_dtype_bytes(tensors[k].dtype) == bytes) order[filled++] = k;
    return order;
}

static json_t *entry_of(const sn_weight_info *t, size_t at) {
    json_t *shape = json_array();
    for (unsigned k = 0; k < t->rank; k++) json_array_append_new(shape, json_integer(t->shape[k]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", sn_safetensors_type_name(t->dtype), "shape", shape,
                     "data_offsets", (json_int_t)at, (json_int_t)(at + t->size));
}

/* The header's text; free it. jansson's memory ends before anything else is allocated. */
static sn_status header_text(char **out, sn_env *env, const char *path, const sn_weight_info *tensors, unsigned n,
                             const uint32_t *order) {
    json_t *header = json_object();
    const char *wrong = NULL;
    size_t at = 0;
    for (unsigned k = 0; k < n && !wrong; k++) {
        const sn_weight_info *t = &tensors[order[k]];
        if (json_object_get(header, t->name)) wrong = "is given twice";
        else if (json_object_set_new(header, t->name, entry_of(t, at))) wrong = "is not UTF-8, or memory ran out";
        if (wrong) sn_fail(env, SN_ERROR_ARGUMENT, "%s: the name %s %s", path, t->name, wrong);
        at += t->size;
    }
    *out = wrong ? NULL : json_dumps(header, JSON_COMPACT);
    json_decref(header);
    if (!*out) sn_fail(env, SN_ERROR_MEMORY, "%s: out of memory for the header", path);
    return env->status;
}

static sn_status write_file(sn_env *env, sn_arena *arena, const char *path, const char *header,
                            const sn_weight_info *tensors, unsigned n, const uint32_t *order) {
    size_t used = strlen(header), length = (LENGTH_BYTES + used + 63) / 64 * 64 - LENGTH_BYTES;
    char *head = sn_alloc(arena, LENGTH_BYTES + length);
    for (int k = 0; k < LENGTH_BYTES; k++) head[k] = (char)(length >> 8 * k & 255);
    memcpy(head + LENGTH_BYTES, header, used);
    memset(head + LENGTH_BYTES + used, ' ', length - used);
    sn_file_part *parts = SN_NEWN(arena, sn_file_part, n + 1);
    parts[0] = (sn_file_part){head, LENGTH_BYTES + length};
    for (unsigned k = 0; k < n; k++) parts[k + 1] = (sn_file_part){tensors[order[k]].data, tensors[order[k]].size};
    if (sn_file_place(path, parts, n + 1, SN_FILE_LASTS | SN_FILE_PUBLIC)) return SN_OK;
    return sn_fail(env, SN_ERROR_FILE, "cannot write %s: %s", path, strerror(errno));
}

static sn_status save(sn_context *ctx, const char *path, unsigned n, const sn_weight_info *tensors) {
    if (n > TENSORS_MAX || (n && !tensors))
        return sn_fail(&ctx->env, SN_ERROR_ARGUMENT, "%s: %u tensors%s; at most %d", path, n,
                       tensors ? "" : " announced, and tensors is NULL", TENSORS_MAX);
    for (unsigned k = 0; k < n; k++) SN_TRY(check_tensor(&ctx->env, &ctx->scratch, path, &tensors[k]));
    uint32_t *order = order_of(&ctx->scratch, n, tensors);
    char *text;
    SN_TRY(header_text(&text, &ctx->env, path, tensors, n, order));
    const char *header = sn_strdup(&ctx->scratch, text);
    free(text);
    return write_file(&ctx->env, &ctx->scratch, path, header, tensors, n, order);
}

sn_status sn_weights_save(sn_context *ctx, const char *path, unsigned n, const sn_weight_info *tensors) {
    SN_GUARD_RETURN(ctx, save(ctx, path, n, tensors), path);
}
