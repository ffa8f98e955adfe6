/* defaults.c: storage of inputs that a run may leave out: one block for all of a program. No run writes it. */
#include "runtime/defaults.h"

#include <string.h>

static sn_status put(sn_cuda *cu, void *to, const void *from, size_t size) {
    if (cu) return sn_cuda_to_device(cu, to, from, size, NULL);
    memcpy(to, from, size);
    return SN_OK;
}

sn_status sn_defaults_load(sn_defaults *out, sn_env *env, sn_arena *arena, sn_cuda *cu, const void *const *data,
                           const size_t *bytes, uint32_t n) {
    size_t size = 0;
    *out = (sn_defaults){0};
    for (uint32_t k = 0; k < n; k++) size += bytes[k] ? sn_storage_round(bytes[k]) : 0;
    if (!size) return SN_OK;
    SN_TRY(sn_storage_alloc(&out->block, env, cu, size));
    out->size = size;
    out->at = SN_NEWN(arena, void *, n);
    char *next = out->block;
    for (uint32_t k = 0; k < n; k++) {
        if (!bytes[k]) continue;
        SN_TRY(put(cu, next, data[k], bytes[k]));
        out->at[k] = next;
        next += sn_storage_round(bytes[k]);
    }
    return SN_OK;
}

void sn_defaults_free(sn_defaults *d, sn_env *env, sn_cuda *cu) {
    sn_storage_free(env, cu, d->block, d->size);
    *d = (sn_defaults){0};
}
