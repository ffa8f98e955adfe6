/* defaults.h: storage of inputs that a run may leave out. */
#ifndef SN_RUNTIME_DEFAULTS_H
#define SN_RUNTIME_DEFAULTS_H

#include "runtime/runtime.h"

/* Made when a program is loaded, read by all runs. */
typedef struct sn_defaults {
    void **at; /* by input; NULL: it has to be given. The list is NULL where all have to be */
    void *block;
    size_t size;
} sn_defaults;

/* data[k], of bytes[k] (0: none), are elements on the host. The list goes to the arena, the storage to the device (cu NULL: the
 * CPU), aligned for every kernel. */
sn_status sn_defaults_load(sn_defaults *out, sn_env *env, sn_arena *arena, sn_cuda *cu, const void *const *data,
                           const size_t *bytes, uint32_t n);
void sn_defaults_free(sn_defaults *d, sn_env *env, sn_cuda *cu);

#endif
