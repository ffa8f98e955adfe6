/* npz.c: .npz files: zip archives whose members are .npy files, stored or deflated.
 *
 * Relies on libzip, whose memory is not that of the context's hook. When the file is opened the header of each member
 * is read, no more; elements are inflated when somebody asks for them, and their checksum is compared then. A member
 * that claims to be larger than its bytes can become is refused before anything is allocated for it. Members that are
 * no .npy are skipped. Does not write .npz. In a build without libzip (SINTER_NPZ=OFF) every such file is refused.
 */
#include "frontend/files/tensors_file.h"

#include <string.h>

#ifdef SN_HAVE_ZIP
#include <zip.h>

enum { INFLATE_MAX = 1032, INFLATE_SLACK = 1032 }; /* deflate makes at most 1032 bytes of one, and a block's start */

/* ---- one member ---- */

static sn_status check_member(sn_weights *w, const char *label, const zip_stat_t *st) {
    sn_env *env = &w->ctx->env;
    zip_uint64_t need = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if ((st->valid & need) != need) return sn_fail(env, SN_ERROR_FILE, "%s: broken entry of the zip archive", label);
    if (st->encryption_method != ZIP_EM_NONE)
        return sn_fail(env, SN_ERROR_UNSUPPORTED, "%s: encrypted members are not read", label);
    if (st->comp_method != ZIP_CM_STORE && st->comp_method != ZIP_CM_DEFLATE)
        return sn_fail(env, SN_ERROR_UNSUPPORTED, "%s: compression method %u; stored and deflated members are read",
                       label, st->comp_method);
    bool stored = st->comp_method == ZIP_CM_STORE;
    if (st->comp_size > w->file.size)
        return sn_fail(env, SN_ERROR_FILE, "%s: truncated: %llu bytes in the archive, the file has %zu", label,
                       (unsigned long long)st->comp_size, w->file.size);
    zip_uint64_t most = stored ? st->comp_size : st->comp_size * INFLATE_MAX + INFLATE_SLACK;
    if (st->size > most || (stored && st->size != st->comp_size))
        return sn_fail(env, SN_ERROR_FILE, "%s: %llu bytes cannot become %llu", label,
                       (unsigned long long)st->comp_size, (unsigned long long)st->size);
    return SN_OK;
}

/* The next n bytes of an open member. */
static sn_status read_bytes(void *out, size_t n, zip_file_t *file, sn_env *env, const char *label) {
    for (size_t done = 0; done < n;) {
        zip_int64_t more = zip_fread(file, (char *)out + done, n - done);
        if (more < 0) return sn_fail(env, SN_ERROR_FILE, "%s: %s", label, zip_error_strerror(zip_file_get_error(file)));
        if (more == 0) return sn_fail(env, SN_ERROR_FILE, "%s: truncated after %zu bytes", label, done);
        done += (size_t)more;
    }
    return SN_OK;
}

static sn_status open_member(zip_file_t **out, const sn_weights *w, uint64_t member, const char *label) {
    *out = zip_fopen_index(w->zip, member, 0);
    if (*out) return SN_OK;
    return sn_fail(&w->ctx->env, SN_ERROR_FILE, "%s: %s", label, zip_strerror(w->zip));
}

/* The .npy header into `head`, of SN_NPY_PREFIX + SN_NPY_MAX bytes. */
static sn_status read_head(char *head, size_t *n, zip_file_t *file, sn_env *env, const char *label, size_t size) {
    *n = size < SN_NPY_PREFIX ? size : SN_NPY_PREFIX;
    SN_TRY(read_bytes(head, *n, file, env, label));
    size_t whole;
    SN_TRY(sn_npy_header_size(&whole, env, label, head, size));
    if (whole <= *n) return SN_OK;
    size_t had = *n;
    *n = whole;
    return read_bytes(head + had, whole - had, file, env, label);
}

static const char *label_of(sn_weights *w, const char *name) {
    return sn_strf(&w->ctx->scratch, "%s: %.*s", w->path, 256, name);
}

static bool is_npy(const char *name, size_t n) { return n > 4 && !strcmp(name + n - 4, ".npy"); }

static sn_status read_member(sn_member *e, sn_weights *w, const zip_stat_t *st, char *head) {
    sn_env *env = &w->ctx->env;
    const char *label = label_of(w, st->name);
    SN_TRY(check_member(w, label, st));
    zip_file_t *file;
    size_t n;
    SN_TRY(open_member(&file, w, st->index, label));
    sn_status status = read_head(head, &n, file, env, label, st->size);
    zip_fclose(file);
    SN_TRY(status);
    sn_npy_header h;
    SN_TRY(sn_npy_header_read(&h, env, &w->arena, label, head, st->size));
    SN_TRY(sn_npy_describe(e, env, &w->arena, label, &h, st->size - h.size));
    e->info.name = sn_strndup(&w->arena, st->name, strlen(st->name) - 4);
    e->member = st->index;
    return SN_OK;
}

/* ---- the archive ---- */

static sn_status open_archive(sn_weights *w) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_buffer_create(w->file.data, w->file.size, 0, &error);
    w->zip = source ? zip_open_from_source(source, ZIP_RDONLY, &error) : NULL;
    if (!w->zip) {
        if (source) zip_source_free(source);
        sn_fail(&w->ctx->env, SN_ERROR_FILE, "%s: broken zip archive: %s", w->path, zip_error_strerror(&error));
    }
    zip_error_fini(&error);
    return w->ctx->env.status;
}

sn_status sn_npz_read(sn_weights *w) {
    SN_TRY(open_archive(w));
    w->is_npy = true;
    zip_uint64_t n = (zip_uint64_t)zip_get_num_entries(w->zip, 0), sum = 0;
    char *head = sn_alloc(&w->ctx->scratch, SN_NPY_PREFIX + SN_NPY_MAX);
    w->at = SN_NEWN(&w->arena, sn_member, n);
    for (zip_uint64_t k = 0; k < n; k++) {
        zip_stat_t st;
        if (zip_stat_index(w->zip, k, 0, &st) || !(st.valid & ZIP_STAT_NAME))
            return sn_fail(&w->ctx->env, SN_ERROR_FILE, "%s: broken entry %llu of the zip archive", w->path,
                           (unsigned long long)k);
        if (!is_npy(st.name, strlen(st.name))) continue;
        SN_TRY(read_member(&w->at[w->n], w, &st, head));
        w->n++;
        sum += st.comp_size;
        if (sum > w->file.size)
            return sn_fail(&w->ctx->env, SN_ERROR_FILE, "%s: members of the zip archive overlap", w->path);
    }
    if (n && !w->n)
        return sn_fail(&w->ctx->env, SN_ERROR_FILE,
                       "%s: no .npz file: none of the archive's %llu members is an .npy file", w->path,
                       (unsigned long long)n);
    return SN_OK;
}

void sn_npz_release(sn_weights *w) {
    if (w->zip) zip_discard(w->zip);
    w->zip = NULL;
}

/* Reading on to the end makes libzip compare the checksum. */
static sn_status read_elements(void *out, zip_file_t *file, sn_env *env, const char *label, const sn_member *e,
                               char *head) {
    char beyond;
    SN_TRY(read_bytes(head, e->skip, file, env, label));
    SN_TRY(read_bytes(out, e->info.size, file, env, label));
    zip_int64_t more = zip_fread(file, &beyond, 1);
    if (more == 0) return SN_OK;
    return sn_fail(env, SN_ERROR_FILE, "%s: %s", label,
                   more < 0 ? zip_error_strerror(zip_file_get_error(file)) : "more bytes than the archive says");
}

sn_status sn_npz_elements(void *out, const sn_weights *w, const sn_member *e) {
    char *head = sn_alloc(&w->ctx->scratch, e->skip);
    const char *label = sn_strf(&w->ctx->scratch, "%s: %.*s.npy", w->path, 256, e->info.name);
    zip_file_t *file;
    SN_TRY(open_member(&file, w, e->member, label));
    sn_status status = read_elements(out, file, &w->ctx->env, label, e, head);
    zip_fclose(file);
    return status;
}

#else

sn_status sn_npz_read(sn_weights *w) {
    return sn_fail(&w->ctx->env, SN_ERROR_UNSUPPORTED, "%s: this build of Sinter reads no .npz files", w->path);
}

void sn_npz_release(SN_UNUSED sn_weights *w) {}

sn_status sn_npz_elements(SN_UNUSED void *out, SN_UNUSED const sn_weights *w, SN_UNUSED const sn_member *e) {
    return SN_OK;
}

#endif
