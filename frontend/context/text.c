/* text.c: texts for the caller, and whole files.
 *
 * A text is a block that knows where it came from and its size, so that the memory hook's accounting stays right.
 */
#include "frontend/context/context.h"

#include "cache/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- texts ---- */

typedef struct text_block {
    sn_env *env;
    size_t size;
    char text[];
} text_block;

sn_status sn_text_give(char **out, sn_context *ctx, sn_text *t) {
    size_t size = sizeof(text_block) + t->n + 1;
    text_block *block = sn_heap_alloc(&ctx->env, size);
    block->env = &ctx->env;
    block->size = size;
    memcpy(block->text, t->s, t->n + 1);
    sn_text_free(t);
    *out = block->text;
    return SN_OK;
}

void sn_free(SN_UNUSED sn_context *ctx, char *text) {
    if (!text) return;
    text_block *block = (text_block *)(void *)(text - offsetof(text_block, text));
    sn_heap_free(block->env, block, block->size);
}

/* ---- files ---- */

static sn_status read_stream(char **out, size_t *size, sn_env *env, sn_arena *arena, FILE *file, const char *path) {
    size_t cap = 1 << 14, n = 0;
    char *text = sn_alloc(arena, cap);
    for (;;) {
        n += fread(text + n, 1, cap - 1 - n, file);
        if (n < cap - 1) break;
        char *more = sn_alloc(arena, cap * 2);
        memcpy(more, text, n);
        text = more;
        cap *= 2;
    }
    if (ferror(file)) return sn_fail(env, SN_ERROR_FILE, "cannot read %s: %s", path, strerror(errno));
    text[n] = 0;
    *out = text;
    *size = n;
    return SN_OK;
}

sn_status sn_file_read(char **out, size_t *size, sn_env *env, sn_arena *arena, const char *path) {
    if (!strcmp(path, "-")) return read_stream(out, size, env, arena, stdin, "standard input");
    FILE *file = fopen(path, "rb");
    if (!file) return sn_fail(env, SN_ERROR_FILE, "cannot open %s: %s", path, strerror(errno));
    sn_status status = read_stream(out, size, env, arena, file, path);
    fclose(file);
    return status;
}

sn_status sn_file_write(sn_env *env, const char *path, const void *data, size_t size) {
    if (sn_file_place(path, &(sn_file_part){data, size}, 1, SN_FILE_PUBLIC)) return SN_OK;
    return sn_fail(env, SN_ERROR_FILE, "cannot write %s: %s", path, strerror(errno));
}
