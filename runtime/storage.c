/* storage.c: memory that kernels work on: of a device, or of the host and then aligned like that of a device.
 *
 * Does not keep account of what is out: who asks for a block remembers its size.
 */
#include "runtime/runtime.h"

#include <string.h>

enum { STORAGE_ALIGN = 256 };

/* Host blocks remember their start in the word before the aligned address. */
static void *host_alloc(sn_env *env, size_t size) {
    if (size > SIZE_MAX / 2) sn_out_of_memory(env, size);
    char *start = sn_heap_alloc(env, size + 2 * STORAGE_ALIGN);
    char *p = (char *)sn_storage_round((uintptr_t)start + sizeof(void *));
    memcpy(p - sizeof start, &start, sizeof start);
    return p;
}

static void host_free(sn_env *env, void *p, size_t size) {
    char *start;
    memcpy(&start, (char *)p - sizeof start, sizeof start);
    sn_heap_free(env, start, size + 2 * STORAGE_ALIGN);
}

size_t sn_storage_round(size_t size) { return (size + STORAGE_ALIGN - 1) / STORAGE_ALIGN * STORAGE_ALIGN; }

sn_status sn_storage_alloc(void **out, sn_env *env, sn_cuda *cu, size_t size) {
    *out = NULL;
    if (!size) return SN_OK;
    if (cu) return sn_cuda_malloc(out, cu, size);
    *out = host_alloc(env, size);
    return SN_OK;
}

void sn_storage_free(sn_env *env, sn_cuda *cu, void *memory, size_t size) {
    if (!memory) return;
    if (cu) sn_cuda_free(cu, memory, size);
    else host_free(env, memory, size);
}
