/* safetensors.h: what is in a .safetensors file. */
#ifndef SN_RUNTIME_SAFETENSORS_H
#define SN_RUNTIME_SAFETENSORS_H

#include "ir/base/store.h"

/* A tensor of the file. Texts are in the arena. */
typedef struct sn_safetensor {
    const char *name, *type; /* "F32" */
    uint32_t rank;           /* more than SN_MAX_RANK: the shape is cut off */
    int64_t shape[SN_MAX_RANK];
    const void *data; /* in the file */
    uint64_t size;
} sn_safetensor;

/* All of them, in the order of the header. `path`: for messages. The bytes may be anybody's: what is not as it should be fails with
 * SN_ERROR_FILE, and what is given to `visit`, whose failure ends it, lies inside the file. */
sn_status sn_safetensors_walk(sn_env *env, sn_arena *arena, const char *path, const void *file, uint64_t size,
                              sn_status (*visit)(void *user, const sn_safetensor *t), void *user);
/* The format's name of a type: "F32". */
const char *sn_safetensors_type_name(sn_dtype dtype);

#endif
