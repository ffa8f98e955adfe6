/* image_files.c: constants that are not in the image but in a .safetensors file, which is mapped: one copy of the weights for any
 * number of images.
 *
 *     saving:   constants that a file has, by name, become names of a tensor there, and a checksum   (sn_image_refer)
 *     loading:  the files are mapped, the tensors found, and their bytes are the constants'          (sn_image_open_files)
 *
 * Dtype and shape have to be those of the constant, and the checksum is compared like all others (sn_image_verify), unless the caller
 * names a file to take instead: its elements are another training's. A file that moved with its image is found: it is named
 * from the image's folder where it lies in there, and by its whole path else. Who maps it must not let it be written or cut.
 */
#include "runtime/image.h"
#include "runtime/safetensors.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- a constant and a tensor ---- */

static const char *shape_text(sn_arena *a, const int64_t *shape, uint32_t rank) {
    const char *text = "";
    for (uint32_t k = 0; k < rank; k++) text = sn_strf(a, "%s%s%lld", text, k ? ", " : "", (long long)shape[k]);
    return sn_strf(a, "[%s]", text);
}

static sn_status check_tensor(sn_env *env, sn_arena *a, const char *path, const sn_image_const *c,
                              const sn_safetensor *t) {
    uint64_t bytes = sn_dtype_bytes(c->dtype);
    bool same = !strcmp(t->type, sn_safetensors_type_name(c->dtype)) && t->rank == c->rank;
    for (uint32_t k = 0; k < c->rank; k++) {
        bytes *= (uint64_t)c->shape[k];
        same = same && t->shape[k] == c->shape[k];
    }
    if (!same)
        return sn_fail(env, SN_ERROR_FILE, "constant %s: tensor %s of %s is %s%s, wanted is %s%s", c->name, t->name,
                       path, t->type, shape_text(a, t->shape, t->rank < SN_MAX_RANK ? t->rank : SN_MAX_RANK),
                       sn_safetensors_type_name(c->dtype), shape_text(a, c->shape, c->rank));
    if (t->size == bytes) return SN_OK;
    return sn_fail(env, SN_ERROR_FILE, "constant %s: tensor %s of %s has %llu bytes, its shape wants %llu", c->name,
                   t->name, path, (unsigned long long)t->size, (unsigned long long)bytes);
}

/* ---- loading ---- */

typedef struct opening {
    sn_env *env;
    sn_arena *arena;
    sn_image *image;
    uint32_t file; /* 1 + its number */
    const char *path;
    const sn_image_given *given;
    uint32_t n_given;
} opening;

/* Not where the caller gives its elements. */
static bool is_wanted(const opening *o, const sn_image_const *c) {
    for (uint32_t i = 0; i < o->n_given; i++)
        if (!strcmp(o->given[i].name, c->name)) return false;
    return c->file == o->file;
}

static sn_status find_tensor(void *user, const sn_safetensor *t) {
    const opening *o = user;
    for (uint32_t i = 0; i < o->image->n_consts; i++) {
        sn_image_const *c = &o->image->consts[i];
        if (!is_wanted(o, c) || strcmp(c->tensor, t->name) != 0) continue;
        if (c->data.at) return sn_fail(o->env, SN_ERROR_FILE, "%s: tensor %s is there twice", o->path, t->name);
        SN_TRY(check_tensor(o->env, o->arena, o->path, c, t));
        c->data = (sn_image_bytes){t->data, t->size};
    }
    return SN_OK;
}

static sn_status open_file(opening *o, sn_image_bytes *map) {
    bool any = false;
    for (uint32_t i = 0; i < o->image->n_consts; i++) any |= is_wanted(o, &o->image->consts[i]);
    if (!any) return SN_OK;
    SN_TRY(sn_image_map(map, o->env, o->path));
    SN_TRY(sn_safetensors_walk(o->env, o->arena, o->path, map->at, map->size, find_tensor, o));
    for (uint32_t i = 0; i < o->image->n_consts; i++) {
        const sn_image_const *c = &o->image->consts[i];
        if (is_wanted(o, c) && !c->data.at)
            return sn_fail(o->env, SN_ERROR_FILE, "constant %s: %s has no tensor %s", c->name, o->path, c->tensor);
    }
    return SN_OK;
}

/* They are compared like those of bytes in the image. */
static void add_sums(sn_image *image, sn_arena *arena) {
    sn_image_sum *sums = SN_NEWN(arena, sn_image_sum, image->n_sums + image->n_consts + 1);
    if (image->n_sums) memcpy(sums, image->sums, image->n_sums * sizeof *sums);
    for (uint32_t i = 0; i < image->n_consts; i++) {
        const sn_image_const *c = &image->consts[i];
        if (!c->file || !c->data.at) continue;
        sums[image->n_sums++] = (sn_image_sum){.bytes = c->data, .sum = c->sum, .part = UINT32_MAX, .file = c->file};
    }
    image->sums = sums;
}

/* A path that stands in an image, from the folder of the image. */
static const char *beside(sn_arena *arena, const char *image, const char *path) {
    const char *slash = image ? strrchr(image, '/') : NULL;
    if (!slash || path[0] == '/') return path;
    return sn_strf(arena, "%.*s%s", (int)(slash + 1 - image), image, path);
}

sn_status sn_image_open_files(sn_image *image, sn_env *env, sn_arena *arena, const char *path, const char *instead,
                              const sn_image_given *given, uint32_t n_given) {
    opening o = {.env = env, .arena = arena, .image = image, .given = given, .n_given = n_given};
    if (!image->n_files && instead) /* the caller would run with other weights than these, and not know */
        return sn_fail(env, SN_ERROR_ARGUMENT, "weights: %s is not looked at: the image has all constants itself",
                       instead);
    if (!image->n_files) return SN_OK;
    image->maps = SN_NEWN(arena, sn_image_bytes, image->n_files);
    for (o.file = 1; o.file <= image->n_files; o.file++) {
        o.path = instead ? instead : beside(arena, path, image->files[o.file - 1]);
        image->files[o.file - 1] = o.path; /* how messages call it from now on */
        SN_TRY(open_file(&o, &image->maps[o.file - 1]));
    }
    if (!instead) add_sums(image, arena);
    return SN_OK;
}

void sn_image_close_files(sn_image *image) {
    for (uint32_t i = 0; image && image->maps && i < image->n_files; i++) sn_image_unmap(&image->maps[i]);
}

/* ---- saving ---- */

typedef struct referring {
    sn_env *env;
    sn_arena *arena;
    sn_image *image;
    const char *path;
    bool any;
} referring;

static sn_status refer(void *user, const sn_safetensor *t) {
    referring *r = user;
    for (uint32_t i = 0; i < r->image->n_consts; i++) {
        sn_image_const *c = &r->image->consts[i];
        if (c->given || strcmp(c->name, t->name) != 0) continue;
        if (c->file) return sn_fail(r->env, SN_ERROR_FILE, "%s: tensor %s is there twice", r->path, t->name);
        SN_TRY(check_tensor(r->env, r->arena, r->path, c, t));
        if (t->size && memcmp(c->data.at, t->data, (size_t)t->size) != 0)
            return sn_fail(r->env, SN_ERROR_FILE, "constant %s: %s has other elements for it", c->name, r->path);
        c->file = 1;
        c->tensor = t->name;
        c->sum = sn_cache_key_of(t->data, (size_t)t->size);
        c->data = (sn_image_bytes){0};
        r->any = true;
    }
    return SN_OK;
}

/* From the folder of the image where the file lies in there, else whole. */
static sn_status name_file(const char **out, sn_env *env, sn_arena *arena, const char *image, const char *file) {
    char folder[PATH_MAX], whole[PATH_MAX];
    const char *slash = strrchr(image, '/');
    const char *in = slash == image ? "/" : slash ? sn_strf(arena, "%.*s", (int)(slash - image), image) : ".";
    if (!realpath(file, whole)) return sn_fail(env, SN_ERROR_FILE, "cannot read %s", file);
    size_t n = realpath(in, folder) ? strlen(folder) : 0;
    while (n && folder[n - 1] == '/') n--;
    bool inside = realpath(in, folder) && !strncmp(whole, folder, n) && whole[n] == '/';
    *out = sn_strdup(arena, inside ? whole + n + 1 : whole);
    return SN_OK;
}

static sn_status refer_to(referring *r, const char *image_path, sn_image_bytes *map) {
    SN_TRY(sn_image_map(map, r->env, r->path));
    SN_TRY(sn_safetensors_walk(r->env, r->arena, r->path, map->at, map->size, refer, r));
    if (!r->any)
        return sn_fail(r->env, SN_ERROR_ARGUMENT, "%s: it has none of the program's constants, by their names",
                       r->path);
    r->image->files = SN_NEWN(r->arena, const char *, 1);
    r->image->n_files = 1;
    return name_file(r->image->files, r->env, r->arena, image_path, r->path);
}

sn_status sn_image_refer(sn_image *image, sn_env *env, sn_arena *arena, const char *image_path, const char *file) {
    referring r = {.env = env, .arena = arena, .image = image, .path = file};
    sn_image_bytes map = {0};
    sn_status status = refer_to(&r, image_path, &map);
    sn_image_unmap(&map);
    return status;
}
