/* cubin.h: what an assembled kernel says of itself. Needs no device. */
#ifndef SN_RUNTIME_CUBIN_H
#define SN_RUNTIME_CUBIN_H

#include "ir/base/base.h"

typedef struct sn_cubin_figures {
    uint32_t registers; /* of a thread */
    uint32_t
        stack; /* bytes of a thread in local memory: registers that were spilled, arrays that have no place in registers */
    uint32_t shared; /* bytes of static shared memory of a block, with what the system keeps of it */
} sn_cubin_figures;

/* Of a kernel by name; NULL: the first one. False: the bytes are no cubin, or have no such kernel. Bytes may be anybody's:
 * every offset and length is checked. */
bool sn_cubin_read(sn_cubin_figures *out, const void *bytes, size_t size, const char *kernel);

#endif
