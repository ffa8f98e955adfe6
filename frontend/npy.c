/* npy.c: tensors from and to files of numpy's .npy format, versions 1 and 2.
 *
 *     \x93NUMPY  major minor  header length (u16, in version 2 u32)  header  elements
 *     header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  padded with spaces, ends in a newline
 *
 * Reads C and Fortran order, little endian; writes version 1 in C order. bf16 has no type there and travels as its bits
 * in <u2. Files are data of strangers: every length is checked before it is used.
 */
#include "frontend/frontend.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct npy_header {
    char descr[16];
    bool fortran;
    unsigned rank;
    int64_t shape[SN_MAX_RANK];
    const char *data;
    size_t data_size;
} npy_header;

static const char *descr_of(sn_dtype dtype) { return sn_dtypes[dtype].npy[0] ? sn_dtypes[dtype].npy : "<u2"; }

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

static bool read_descr(npy_header *h, const char *at) {
    if (!at || (*at != '\'' && *at != '"')) return false;
    size_t n = strcspn(at + 1, "'\"");
    if (n == 0 || n >= sizeof h->descr) return false;
    memcpy(h->descr, at + 1, n);
    h->descr[n] = 0;
    return true;
}

static bool read_order(npy_header *h, const char *at) {
    if (!at) return false;
    h->fortran = strncmp(at, "True", 4) == 0;
    return h->fortran || strncmp(at, "False", 5) == 0;
}

static bool read_shape(npy_header *h, const char *at) {
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

static sn_status read_header(npy_header *h, sn_env *env, sn_arena *arena, const char *path, const char *file,
                             size_t size) {
    *h = (npy_header){0};
    const unsigned char *u = (const unsigned char *)file;
    if (size < 10 || memcmp(file, "\x93NUMPY", 6) != 0)
        return sn_fail(env, SN_ERROR_FILE, "%s: not an .npy file (it does not start with \\x93NUMPY)", path);
    if (u[6] != 1 && u[6] != 2) return sn_fail(env, SN_ERROR_FILE, "%s: .npy version %d; 1 and 2 are read", path, u[6]);
    size_t prefix = u[6] == 1 ? 10 : 12;
    size_t length = u[8] | (size_t)u[9] << 8;
    if (u[6] == 2 && size >= prefix) length |= (size_t)u[10] << 16 | (size_t)u[11] << 24;
    if (size < prefix || length > size - prefix)
        return sn_fail(env, SN_ERROR_FILE, "%s: truncated: its header has %zu bytes, the file %zu", path, length, size);
    const char *header = sn_strndup(arena, file + prefix, length);
    if (!read_descr(h, find_key(header, "'descr'")) || !read_order(h, find_key(header, "'fortran_order'")) ||
        !read_shape(h, find_key(header, "'shape'")))
        return sn_fail(env, SN_ERROR_FILE, "%s: malformed .npy header", path);
    h->data = file + prefix + length;
    h->data_size = size - prefix - length;
    return SN_OK;
}

/* ---- checks ---- */

static sn_status check_type(const npy_header *h, sn_env *env, const char *name, sn_dtype dtype) {
    if (h->descr[0] == '>')
        return sn_fail(env, SN_ERROR_FILE, "%s: file is big endian (%s); little endian is read", name, h->descr);
    const char *want = descr_of(dtype);
    bool same = strcmp(h->descr, want) == 0 || (h->descr[0] == '=' && strcmp(h->descr + 1, want + 1) == 0);
    if (same || (want[0] == '|' && strcmp(h->descr + 1, want + 1) == 0)) return SN_OK;
    return sn_fail(env, SN_ERROR_TYPE, "%s: file has elements %s, the graph wants %s (%s)", name, h->descr,
                   sn_dtypes[dtype].name, want);
}

static sn_status check_shape(const npy_header *h, sn_env *env, sn_arena *arena, const char *name,
                             const sn_tensor_info *t) {
    bool same = h->rank == t->rank;
    for (unsigned k = 0; same && k < t->rank; k++) same = h->shape[k] == t->shape[k];
    if (same) return SN_OK;
    return sn_fail(env, SN_ERROR_TYPE, "%s: file has shape %s, the graph wants %s", name,
                   sn_sizes_text(arena, h->shape, h->rank), sn_sizes_text(arena, t->shape, t->rank));
}

/* Column-major elements to row-major ones. */
static char *transposed(sn_arena *arena, const char *data, const sn_tensor_info *t) {
    size_t bytes = sn_dtype_bytes(t->dtype);
    char *out = sn_alloc(arena, (size_t)t->numel * bytes);
    int64_t at[SN_MAX_RANK] = {0};
    for (int64_t n = 0; n < t->numel; n++) {
        int64_t from = 0;
        for (unsigned k = t->rank; k-- > 0;) from = from * t->shape[k] + at[k];
        memcpy(out + (size_t)n * bytes, data + (size_t)from * bytes, bytes);
        for (unsigned k = t->rank; k-- > 0;) {
            if (++at[k] < t->shape[k]) break;
            at[k] = 0;
        }
    }
    return out;
}

static sn_status load(sn_tensor *t, const char *name, const char *path) {
    sn_env *env = &t->ctx->env;
    sn_arena *arena = &t->ctx->scratch;
    char *file;
    size_t size;
    SN_TRY(sn_file_read(&file, &size, env, arena, path));
    npy_header h;
    SN_TRY(read_header(&h, env, arena, path, file, size));
    SN_TRY(check_type(&h, env, name, t->info.dtype));
    SN_TRY(check_shape(&h, env, arena, name, &t->info));
    size_t want = (size_t)t->info.numel * sn_dtype_bytes(t->info.dtype);
    if (h.data_size < want)
        return sn_fail(env, SN_ERROR_FILE, "%s: truncated: %zu bytes of elements, %zu are wanted", path, h.data_size,
                       want);
    if (h.data_size > want)
        return sn_fail(env, SN_ERROR_FILE, "%s: %zu bytes after the last element", path, h.data_size - want);
    return sn_tensor_put(t, h.fortran && t->info.rank > 1 ? transposed(arena, h.data, &t->info) : h.data, want);
}

sn_status sn_tensor_load_npy(sn_tensor *t, const char *name, const char *path) {
    SN_GUARD_RETURN(t->ctx, load(t, name ? name : path, path));
}

/* ---- writing ---- */

static sn_status save(const sn_tensor *t, const char *path) {
    sn_env *env = &t->ctx->env;
    sn_arena *arena = &t->ctx->scratch;
    const char *shape = "";
    for (unsigned k = 0; k < t->info.rank; k++)
        shape = sn_strf(arena, "%s%lld,%s", shape, (long long)t->info.shape[k], k + 1 < t->info.rank ? " " : "");
    char *header =
        sn_strf(arena, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr_of(t->info.dtype), shape);
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

sn_status sn_tensor_save_npy(const sn_tensor *t, const char *path) { SN_GUARD_RETURN(t->ctx, save(t, path)); }
