/* external.c: elements that a model keeps in files beside it: location, offset and length of external_data.
 *
 * A location is a path inside the model's folder: one that leads out of it is refused, since models come from
 * strangers. So is a pipe or a device, which might never end.
 */
#include "frontend/onnx/tensor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *entry(const sn_pb_tensor *t, const char *key) {
    for (uint32_t k = 0; k < t->external_data.n; k++) {
        const sn_pb_entry *e = &t->external_data.at[k];
        if (e->key && e->value && !strcmp(e->key, key)) return e->value;
    }
    return NULL;
}

static sn_status read_number(uint64_t *out, sn_env *env, const sn_pb_tensor *t, const char *key, uint64_t otherwise) {
    const char *text = entry(t, key);
    *out = otherwise;
    if (!text) return SN_OK;
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno)
        return sn_fail(env, SN_ERROR_FILE, "%s: external data with %s %s", t->name ? t->name : "a constant", key, text);
    return SN_OK;
}

/* Inside the folder: relative, and no part of it is "..". */
static bool stays_inside(const char *path) {
    if (path[0] == '/' || path[0] == 0) return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (!strncmp(part, "..", 2) && (part[2] == '/' || part[2] == 0)) return false;
    }
    return true;
}

sn_status sn_onnx_external(sn_bytes *out, sn_env *env, sn_onnx_files *files, const sn_pb_tensor *t) {
    const char *name = t->name ? t->name : "a constant", *location = entry(t, "location");
    if (!location || !location[0]) return sn_fail(env, SN_ERROR_FILE, "%s: external data without a location", name);
    if (!files || !files->folder)
        return sn_fail(env, SN_ERROR_FILE, "%s: its elements are in a file %s, and no folder is given", name, location);
    if (!stays_inside(location))
        return sn_fail(env, SN_ERROR_FILE, "%s: external data at %s, outside of the model's folder", name, location);
    const char *path = sn_strf(sn_store_arena(files->store), "%s/%s", files->folder, location);
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return sn_fail(env, SN_ERROR_FILE, "%s: external data at %s, which is no file", name, location);
    sn_bytes all;
    uint64_t offset, length;
    SN_TRY(sn_store_file(&all, files->store, path));
    SN_TRY(read_number(&offset, env, t, "offset", 0));
    SN_TRY(read_number(&length, env, t, "length", offset <= all.n ? all.n - offset : 0));
    if (offset > all.n || length > all.n - offset)
        return sn_fail(env, SN_ERROR_FILE, "%s: external data at %llu + %llu of %s, which has %zu bytes", name,
                       (unsigned long long)offset, (unsigned long long)length, location, all.n);
    *out = (sn_bytes){all.at + offset, (size_t)length};
    return SN_OK;
}
