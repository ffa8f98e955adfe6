/* upload.c: constants go to the device while kernels are assembled.
 *
 * A copy from memory of the host keeps a thread waiting, and no processor busy: half a gigabyte of weights takes as long as the
 * assembler has for one kernel. The thread that copies allocates nothing and has no environment; what went wrong is said
 * afterwards, by the thread of the caller.
 */
#include "runtime/upload.h"

#include "runtime/clock.h"

void sn_uploads_run(void *user) {
    sn_uploads *u = user;
    double start = sn_now_us();
    u->call = "cuMemcpyHtoDAsync";
    for (uint32_t i = 0; i < u->list.n && u->result == CUDA_SUCCESS; i++) {
        const sn_upload *c = &u->list.at[i];
        u->result = u->cu->api.cuMemcpyHtoDAsync(sn_device_address(c->to), c->from, c->size, NULL);
    }
    if (u->result == CUDA_SUCCESS && u->list.n) {
        u->call = "cuStreamSynchronize";
        u->result = u->cu->api.cuStreamSynchronize(NULL);
    }
    u->took_us = sn_now_us() - start;
}

sn_status sn_uploads_check(const sn_uploads *u) { return sn_cuda_check(u->cu, u->result, u->call); }
