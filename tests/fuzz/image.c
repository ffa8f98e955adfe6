/* image.c: any bytes as an image. Reading them fails with one line, or gives an image that prints and that a program is made
 * of, up to its first run. Its code is not run: whoever writes an image decides what runs, and no reader can help that.
 *
 * The checksums of head and fields are made right first, so that what lies behind them is reached.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/image.h"

enum { FILE_SIZE = 16, FIELDS_AT = 24, FIELDS_SIZE = 32, FIELDS_SUM = 40, SELF_SUM = 56, HEAD = 72 };

static void mend(unsigned char *bytes, uint64_t size) {
    uint64_t at, length;
    memcpy(&at, bytes + FIELDS_AT, sizeof at);
    memcpy(&length, bytes + FIELDS_SIZE, sizeof length);
    if (at < HEAD || at > size) at = size;
    length = size - at;
    memcpy(bytes + FILE_SIZE, &size, sizeof size);
    memcpy(bytes + FIELDS_AT, &at, sizeof at);
    memcpy(bytes + FIELDS_SIZE, &length, sizeof length);
    sn_cache_key sum = sn_cache_key_of(bytes + at, (size_t)length);
    memcpy(bytes + FIELDS_SUM, &sum, sizeof sum);
    memset(bytes + SELF_SUM, 0, sizeof sum);
    sum = sn_cache_key_of(bytes, HEAD);
    memcpy(bytes + SELF_SUM, &sum, sizeof sum);
}

/* What prepares, or is timed for a choice, would run code, and a library would be opened for every input. */
static bool may_load(const sn_image_part *p) {
    for (uint32_t i = 0; i < p->n_kernels; i++)
        if (p->kernels[i].library || p->kernels[i].launch.alternative_of) return false;
    return !p->sm && !p->n_prepare;
}

static void refused(const sn_env *env) {
    if (env->message[0] && !strchr(env->message, '\n')) return;
    fprintf(stderr, "not one line: \"%s\"\n", env->message);
    abort();
}

static void use(sn_env *env, const sn_image *image) {
    sn_text t;
    const sn_image_part *part;
    sn_text_init(&t, env);
    sn_image_print(&t, image);
    sn_text_free(&t);
    if (sn_image_choose(&part, env, image, NULL) != SN_OK) refused(env);
    sn_env_clear(env);
    for (uint32_t i = 0; i < image->n_parts; i++) {
        sn_loaded loaded;
        if (!may_load(&image->parts[i])) continue;
        if (sn_image_load(&loaded, env, image, &image->parts[i], NULL, 0, NULL, 1, NULL) != SN_OK) refused(env);
        sn_loaded_free(&loaded);
        sn_env_clear(env);
    }
}

/* What lies behind a checksum that does not match is reached, too. */
static void look(sn_env *env, const sn_image *image) {
    if (sn_image_verify(env, image, NULL, 1) != SN_OK) refused(env);
    sn_env_clear(env);
    use(env, image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sn_env env;
    sn_arena arena;
    sn_image *image;
    jmp_buf here;
    unsigned char *bytes = aligned_alloc(SN_IMAGE_ALIGN, size + SN_IMAGE_ALIGN - size % SN_IMAGE_ALIGN);
    if (size) memcpy(bytes, data, size);
    if (size >= HEAD) mend(bytes, size);
    sn_env_init(&env);
    sn_arena_init(&arena, &env);
    env.guard = &here;
    if (setjmp(here) == 0) {
        if (sn_image_read(&image, &env, &arena, "image", (sn_image_bytes){bytes, size}) != SN_OK) refused(&env);
        else look(&env, image);
    }
    sn_env_release(&env, 0);
    free(bytes);
    return 0;
}
