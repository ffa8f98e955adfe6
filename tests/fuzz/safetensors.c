/* safetensors.c: any bytes after the length of a header as a .safetensors file. Opening it fails with one line, or all elements
 * can be read. The length itself is made to fit in three of four cases, which mutation alone would hardly keep right.
 */
#include "tests/fuzz/weights.h"

#include "runtime/safetensors.h"

typedef struct seen {
    sn_weights *all;
    unsigned n;
    const uint8_t *file;
    size_t size;
} seen;

/* Bytes inside the file, and what the other reader says of the tensor. */
static sn_status compare(void *user, const sn_safetensor *t) {
    seen *s = user;
    sn_weight_info info;
    const uint8_t *at = t->data;
    if (at < s->file || t->size > s->size || at > s->file + (s->size - t->size)) abort();
    s->n++;
    if (!s->all || sn_weights_find(&info, s->all, t->name) != SN_OK) return SN_OK;
    if (info.size != t->size || info.rank != t->rank || strcmp(info.type, t->type) != 0) abort();
    for (unsigned k = 0; k < info.rank; k++)
        if (info.shape[k] != t->shape[k]) abort();
    return SN_OK;
}

/* libsinter-rt's reader looks at less. What the other one takes, it takes alike. */
static void read_alone(sn_weights *all, const uint8_t *file, size_t size) {
    sn_env env;
    sn_arena arena;
    jmp_buf here;
    if (size > 1 && file[0] == 'P' && file[1] == 'K') all = NULL; /* it was opened as an archive */
    seen s = {.all = all, .file = file, .size = size};
    sn_env_init(&env);
    sn_arena_init(&arena, &env);
    env.guard = &here;
    if (setjmp(here) == 0) {
        sn_status status = sn_safetensors_walk(&env, &arena, "file", file, size, compare, &s);
        if (status != SN_OK && (!env.message[0] || strchr(env.message, '\n'))) abort();
        if (all && (status != SN_OK || s.n != sn_weights_count(all))) {
            fprintf(stderr, "%s; %u tensors\n", env.message, s.n);
            abort();
        }
    }
    sn_env_release(&env, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *file = malloc(size + 1);
    if (!file) abort();
    if (size) memcpy(file, data, size);
    uint64_t length = 0;
    if (size > 8) {
        for (size_t k = 8; k < size && data[k] >= ' ' && data[k] < 127; k++) length++;
        if (data[0] % 4) memcpy(file, &length, sizeof length);
    }
    fuzz_weights(file, size, read_alone);
    free(file);
    return 0;
}
