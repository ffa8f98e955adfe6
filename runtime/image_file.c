/* image_file.c: images as files.
 *
 *     head      mark, version, byte order, size of the file, place and size of the fields, checksum of the fields, of the head
 *     blobs     constants, host code, PTX, cubins: each at a multiple of what it wants
 *     fields    everything else (image_stream.c)
 *
 * The fields stand at the end, since they have the places of the blobs. Written beside its place and moved there (cache/files.c),
 * so that a full disk or a crash leaves what was there. Read by mapping: constants come from the file as they are used. All
 * checksums are compared before something runs: they find what was cut or flipped, not what was made up. Those of code and constants, which
 * is where the bytes are, side by side, and only of the part that is used.
 */
#include "runtime/image.h"
#include "runtime/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char mark[8] = {(char)0x89, 'S', 'N', 'I', 'M', 'G', '\r', '\n'};
enum { ORDER = 0x01020304 };

typedef struct head {
    char mark[8];
    uint32_t version, order;
    uint64_t file_size, fields_at, fields_size;
    sn_cache_key fields, self; /* self: of the head with zeroes here */
} head;

static const char zeroes[SN_IMAGE_ALIGN];

/* Head, blobs with what lies between them, fields: one after the other. */
typedef struct layout {
    head head;
    sn_text fields;
    SN_VEC(sn_file_part) parts;
} layout;

static sn_cache_key sum_head(head h) {
    memset(&h.self, 0, sizeof h.self);
    return sn_cache_key_of(&h, sizeof h);
}

static void lay_out(layout *l, const sn_image *image, sn_arena *arena) {
    sn_image_blob *blobs;
    uint32_t n;
    uint64_t at = sizeof l->head;
    sn_text_init(&l->fields, arena->env);
    sn_image_put(&l->fields, &blobs, &n, image, sizeof l->head, arena);
    SN_PUSH(arena, &l->parts, ((sn_file_part){&l->head, sizeof l->head}));
    for (uint32_t i = 0; i < n; i++) {
        SN_PUSH(arena, &l->parts, ((sn_file_part){zeroes, (size_t)(blobs[i].offset - at)}));
        SN_PUSH(arena, &l->parts, ((sn_file_part){blobs[i].at, (size_t)blobs[i].size}));
        at = blobs[i].offset + blobs[i].size;
    }
    SN_PUSH(arena, &l->parts, ((sn_file_part){l->fields.s, l->fields.n}));
    l->head = (head){.version = SN_IMAGE_VERSION,
                     .order = ORDER,
                     .file_size = at + l->fields.n,
                     .fields_at = at,
                     .fields_size = l->fields.n,
                     .fields = sn_cache_key_of(l->fields.s, l->fields.n)};
    memcpy(l->head.mark, mark, sizeof mark);
    l->head.self = sum_head(l->head);
}

sn_status sn_image_write(sn_env *env, const sn_image *image, const char *path) {
    layout l = {0};
    sn_arena scratch;
    sn_arena_init(&scratch, env);
    lay_out(&l, image, &scratch);
    bool done = sn_file_place(path, l.parts.at, l.parts.n, SN_FILE_LASTS | SN_FILE_PUBLIC);
    int why = errno;
    sn_text_free(&l.fields);
    sn_arena_free(&scratch);
    return done ? SN_OK : sn_fail(env, SN_ERROR_FILE, "cannot write %s: %s", path, strerror(why));
}

sn_status sn_image_encode(sn_image_bytes *out, const sn_image *image, sn_arena *arena) {
    layout l = {0};
    lay_out(&l, image, arena);
    char *bytes = sn_alloc(arena, (size_t)l.head.file_size + SN_IMAGE_ALIGN), *at;
    bytes += -(uintptr_t)bytes % SN_IMAGE_ALIGN;
    at = bytes;
    for (uint32_t i = 0; i < l.parts.n; i++) {
        if (l.parts.at[i].size) memcpy(at, l.parts.at[i].at, l.parts.at[i].size);
        at += l.parts.at[i].size;
    }
    sn_text_free(&l.fields);
    *out = (sn_image_bytes){bytes, l.head.file_size};
    return SN_OK;
}

bool sn_image_is(const void *bytes, size_t size) { return size >= sizeof mark && !memcmp(bytes, mark, sizeof mark); }

/* ---- reading ---- */

static sn_status check_head(head *h, sn_env *env, const char *name, sn_image_bytes file) {
    if (!sn_image_is(file.at, (size_t)file.size))
        return sn_fail(env, SN_ERROR_FILE, "%s: it is no image of Sinter", name);
    if (file.size < sizeof *h)
        return sn_fail(env, SN_ERROR_FILE, "%s: the image is cut off: %llu bytes", name, (unsigned long long)file.size);
    memcpy(h, file.at, sizeof *h);
    if (h->order != ORDER)
        return sn_fail(env, SN_ERROR_FILE, "%s: the image was made on a machine of the other byte order", name);
    if (h->version != SN_IMAGE_VERSION)
        return sn_fail(env, SN_ERROR_FILE, "%s: the image has version %u of the format; this Sinter reads version %d",
                       name, h->version, SN_IMAGE_VERSION);
    sn_cache_key self = sum_head(*h);
    if (memcmp(&self, &h->self, sizeof self) != 0)
        return sn_fail(env, SN_ERROR_FILE, "%s: the image is damaged: the checksum of its head does not match", name);
    if (h->file_size > file.size)
        return sn_fail(env, SN_ERROR_FILE, "%s: the image is cut off: it has %llu of %llu bytes", name,
                       (unsigned long long)file.size, (unsigned long long)h->file_size);
    if (h->file_size < file.size)
        return sn_fail(env, SN_ERROR_FILE, "%s: the image is damaged: it goes on behind its end, at %llu", name,
                       (unsigned long long)h->file_size);
    if (h->fields_at > h->file_size || h->fields_size > h->file_size - h->fields_at)
        return sn_fail(env, SN_ERROR_FILE, "%s: the image is damaged: its fields lie outside of the file", name);
    return SN_OK;
}

sn_status sn_image_read(sn_image **out, sn_env *env, sn_arena *arena, const char *name, sn_image_bytes file) {
    head h;
    *out = NULL;
    if ((uintptr_t)file.at % SN_IMAGE_ALIGN)
        return sn_fail(env, SN_ERROR_ARGUMENT, "%s: an image in memory begins at a multiple of %d bytes", name,
                       SN_IMAGE_ALIGN);
    SN_TRY(check_head(&h, env, name, file));
    sn_image_bytes fields = {(const char *)file.at + h.fields_at, h.fields_size};
    sn_cache_key sum = sn_cache_key_of(fields.at, (size_t)fields.size);
    if (memcmp(&sum, &h.fields, sizeof sum) != 0)
        return sn_fail(env, SN_ERROR_FILE, "%s: the image is damaged: the checksum of its fields does not match", name);
    return sn_image_get(out, env, arena, name, fields, (sn_image_bytes){file.at, h.file_size});
}

/* ---- checksums of code and constants ---- */

typedef struct verifying {
    const sn_image *image;
    const sn_image_part *part;
    atomic_uint differs; /* 1 + the number of a sum that does; 0: none does */
} verifying;

static void verify_range(void *user, int64_t begin, int64_t end) {
    verifying *v = user;
    for (int64_t i = begin; i < end; i++) {
        const sn_image_sum *s = &v->image->sums[i];
        if (v->part && s->part < v->image->n_parts && &v->image->parts[s->part] != v->part) continue;
        sn_cache_key is = sn_cache_key_of(s->bytes.at, (size_t)s->bytes.size);
        if (memcmp(&is, &s->sum, sizeof is) != 0) atomic_store(&v->differs, (uint32_t)i + 1);
    }
}

sn_status sn_image_verify(sn_env *env, const sn_image *image, const sn_image_part *part, uint32_t threads) {
    enum { ALONE = 1 << 20 }; /* bytes for which threads cost more than they gain */
    verifying v = {.image = image, .part = part};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < image->n_sums; i++) bytes += image->sums[i].bytes.size;
    sn_pool *pool = sn_pool_new(env, bytes > ALONE ? threads : 1);
    sn_pool_run(pool, image->n_sums, verify_range, &v);
    sn_pool_free(pool);
    uint32_t which = atomic_load(&v.differs);
    if (!which) return SN_OK;
    if (image->sums[which - 1].file)
        return sn_fail(env, SN_ERROR_FILE, "%s: a checksum of constants of the image %s does not match: it was changed",
                       image->files[image->sums[which - 1].file - 1], image->file);
    return sn_fail(env, SN_ERROR_FILE,
                   "%s: the image is damaged: a checksum of code or constants does not match: it was changed",
                   image->file);
}

sn_status sn_image_map(sn_image_bytes *out, sn_env *env, const char *path) {
    struct stat st;
    *out = (sn_image_bytes){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe that nobody writes to is no image */
    if (fd < 0 || fstat(fd, &st) != 0) {
        int why = errno;
        if (fd >= 0) close(fd);
        return sn_fail(env, SN_ERROR_FILE, "cannot read %s: %s", path, strerror(why));
    }
    bool usable = S_ISREG(st.st_mode) && st.st_size > 0;
    void *at = usable ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    int why = errno;
    close(fd);
    if (!usable) return sn_fail(env, SN_ERROR_FILE, "%s: it is no image of Sinter", path);
    if (at == MAP_FAILED) return sn_fail(env, SN_ERROR_FILE, "cannot map %s: %s", path, strerror(why));
    *out = (sn_image_bytes){at, (uint64_t)st.st_size};
    return SN_OK;
}

void sn_image_unmap(sn_image_bytes *file) {
    if (file->size) munmap((void *)(uintptr_t)file->at, (size_t)file->size);
    *file = (sn_image_bytes){0};
}
