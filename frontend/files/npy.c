/* npy.c: tensors from and to files of numpy's .npy format, versions 1 and 2.
 *
 *     \x93NUMPY  major minor  header length (u16, in version 2 u32)  header  elements
 *     header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  padded with spaces, ends in a newline
 *
 * Reads C and Fortran order, little endian; writes version 1 in C order. bf16 has no type there and travels as its bits
 * in <u2. Files are data of strangers: every length is checked before it is used.
 */
#include "frontend/files/tensors_file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

const char *sn_npy_type(sn_dtype dtype) {
    if (sn_dtypes[dtype].npy[0]) return sn_dtypes[dtype].npy;
    return sn_dtype_bytes(dtype) == 1 ? "|u1" : "<u2";
}

bool sn_npy_is(const char *descr, sn_dtype dtype) {
    const char *want = sn_npy_type(dtype);
    return strcmp(descr, want) == 0 || ((descr[0] == '=' || want[0] == '|') && strcmp(descr + 1, want + 1) == 0);
}

/* Bits in <u2 or |u1 are of a type without a descriptor only where no other type claims that for its own. */
static sn_dtype type_from(const char *descr) {
    sn_dtype bits = SN_N_DTYPES;
    for (int t = 0; t < SN_N_DTYPES; t++) {
        if (!sn_npy_is(descr, (sn_dtype)t)) continue;
        bits = (sn_dtype)t;
        if (sn_dtypes[t].npy[0]) break;
    }
    return bits;
}

/* ---- reading the header ---- */

/* Where the value of a key starts, NULL when the key is absent. */
static const char *find_key(const char *header, const char *key) {
    const char *at = strstr(header, key);
    if (!at) return NULL;
    at += strlen(key);
    while (*at == ' ') at++;
    if (*at++ != ':') return NULL;
    while (*at == ' ') at++;
    return at;
}

static bool read_descr(sn_npy_header *h, const char *at) {
    if (!at || (*at != '\'' && *at != '"')) return false;
    size_t n = strcspn(at + 1, "'\"");
    if (n == 0 || n >= sizeof h->descr) return false;
    memcpy(h->descr, at + 1, n);
    h->descr[n] = 0;
    return true;
}

static bool read_order(sn_npy_header *h, const char *at) {
    if (!at) return false;
    h->fortran = strncmp(at, "True", 4) == 0;
    return h->fortran || strncmp(at, "False", 5) == 0;
}

static bool read_shape(sn_npy_header *h, const char *at) {
    if (!at || *at++ != '(') return false;
    for (;;) {
        while (*at == ' ' || *at == ',') at++;
        if (*at == ')') return true;
        if (!isdigit((unsigned char)*at) || h->rank == SN_MAX_RANK) return false;
        char *end;
        h->shape[h->rank++] = strtoll(at, &end, 10);
        at = end;
    }
}

sn_status sn_npy_header_size(size_t *out, sn_env *env, const char *path, const char *file, size_t size) {
    const unsigned char *u = (const unsigned char *)file;
    if (size < 10 || memcmp(file, "\x93NUMPY", 6) != 0)
        return sn_fail(env, SN_ERROR_FILE, "%s: not an .npy file (it does not start with \\x93NUMPY)", path);
    if (u[6] != 1 && u[6] != 2) return sn_fail(env, SN_ERROR_FILE, "%s: .npy version %d; 1 and 2 are read", path, u[6]);
    size_t prefix = u[6] == 1 ? 10 : SN_NPY_PREFIX;
    size_t length = u[8] | (size_t)u[9] << 8;
    if (u[6] == 2 && size >= prefix) length |= (size_t)u[10] << 16 | (size_t)u[11] << 24;
    if (size < prefix || length > size - prefix)
        return sn_fail(env, SN_ERROR_FILE, "%s: truncated: its header has %zu bytes, the file %zu", path, length, size);
    if (length > SN_NPY_MAX)
        return sn_fail(env, SN_ERROR_FILE, "%s: .npy header of %zu bytes; at most %d are read", path, length,
                       SN_NPY_MAX);
    *out = prefix + length;
    return SN_OK;
}

sn_status sn_npy_header_read(sn_npy_header *h, sn_env *env, sn_arena *arena, const char *path, const char *file,
                             size_t size) {
    *h = (sn_npy_header){0};
    SN_TRY(sn_npy_header_size(&h->size, env, path, file, size));
    size_t prefix = file[6] == 1 ? 10 : SN_NPY_PREFIX;
    const char *header = sn_strndup(arena, file + prefix, h->size - prefix);
    if (!read_descr(h, find_key(header, "'descr'")) || !read_order(h, find_key(header, "'fortran_order'")) ||
        !read_shape(h, find_key(header, "'shape'")))
        return sn_fail(env, SN_ERROR_FILE, "%s: malformed .npy header", path);
    return SN_OK;
}

/* ---- elements ---- */

static sn_status check_bytes(sn_env *env, const char *path, size_t size, size_t want) {
    if (size < want)
        return sn_fail(env, SN_ERROR_FILE, "%s: truncated: %zu bytes of elements, %zu are wanted", path, size, want);
    if (size > want) return sn_fail(env, SN_ERROR_FILE, "%s: %zu bytes after the last element", path, size - want);
    return SN_OK;
}

/* Of a type that Sinter has not, the size of an element is not known: nobody will read them. */
sn_status sn_npy_describe(sn_member *out, sn_env *env, sn_arena *arena, const char *path, const sn_npy_header *h,
                          size_t data_size) {
    sn_weight_info *info = &out->info;
    *info = (sn_weight_info){.type = sn_strdup(arena, h->descr), .dtype = type_from(h->descr), .rank = h->rank};
    info->size = data_size;
    out->fortran = h->fortran && h->rank > 1;
    out->skip = h->size;
    memcpy(info->shape, h->shape, sizeof h->shape);
    if (info->dtype == SN_N_DTYPES) return SN_OK;
    int64_t bytes = sn_dtype_bytes(info->dtype);
    for (unsigned k = 0; k < h->rank; k++)
        if (sn_mul_overflow(bytes, h->shape[k], &bytes))
            return sn_fail(env, SN_ERROR_FILE, "%s: shape %s has too many elements", path,
                           sn_sizes_text(arena, h->shape, h->rank));
    return check_bytes(env, path, data_size, (size_t)bytes);
}

void sn_npy_transpose(void *out, const char *data, size_t bytes, unsigned rank, const int64_t *shape) {
    char *to = out;
    int64_t at[SN_MAX_RANK] = {0}, numel = 1;
    for (unsigned k = 0; k < rank; k++) numel *= shape[k];
    for (int64_t n = 0; n < numel; n++) {
        int64_t from = 0;
        for (unsigned k = rank; k-- > 0;) from = from * shape[k] + at[k];
        memcpy(to + (size_t)n * bytes, data + (size_t)from * bytes, bytes);
        for (unsigned k = rank; k-- > 0;) {
            if (++at[k] < shape[k]) break;
            at[k] = 0;
        }
    }
}

static sn_status load(sn_tensor *t, const char *name, const char *path) {
    sn_env *env = &t->ctx->env;
    sn_arena *arena = &t->ctx->scratch;
    char *file;
    size_t size;
    SN_TRY(sn_file_read(&file, &size, env, arena, path));
    sn_npy_header h;
    SN_TRY(sn_npy_header_read(&h, env, arena, path, file, size));
    sn_weight_info f = {.type = h.descr, .rank = h.rank};
    memcpy(f.shape, h.shape, sizeof h.shape);
    SN_TRY(sn_weight_fits(&f, true, env, arena, name, &t->info));
    size_t bytes = sn_dtype_bytes(t->info.dtype), want = (size_t)t->info.numel * bytes;
    SN_TRY(check_bytes(env, path, size - h.size, want));
    if (!h.fortran || h.rank < 2) return sn_tensor_put(t, file + h.size, want);
    char *rows = sn_alloc(arena, want);
    sn_npy_transpose(rows, file + h.size, bytes, h.rank, h.shape);
    return sn_tensor_put(t, rows, want);
}

sn_status sn_tensor_load_npy(sn_tensor *t, const char *name, const char *path) {
    SN_GUARD_RETURN(t, load(t, name ? name : path, path), path);
}

/* ---- writing ---- */

static sn_status save(const sn_tensor *t, const char *path) {
    sn_env *env = &t->ctx->env;
    sn_arena *arena = &t->ctx->scratch;
    const char *shape = "";
    for (unsigned k = 0; k < t->info.rank; k++)
        shape = sn_strf(arena, "%s%lld,%s", shape, (long long)t->info.shape[k], k + 1 < t->info.rank ? " " : "");
    char *header =
        sn_strf(arena, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", sn_npy_type(t->info.dtype), shape);
    size_t length = (10 + strlen(header) + 1 + 63) / 64 * 64 - 10; /* elements start at a multiple of 64 */
    size_t bytes = (size_t)t->info.numel * sn_dtype_bytes(t->info.dtype);
    char *file = sn_alloc(arena, 10 + length + bytes);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (char)(length & 255);
    file[9] = (char)(length >> 8);
    snprintf(file + 10, length + 1, "%-*s", (int)length, header);
    file[10 + length - 1] = '\n';
    SN_TRY(sn_tensor_fetch(file + 10 + length, t, bytes));
    return sn_file_write(env, path, file, 10 + length + bytes);
}

sn_status sn_tensor_save_npy(const sn_tensor *t, const char *path) { SN_GUARD_RETURN(t, save(t, path), path); }
