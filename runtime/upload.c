/* upload.c: constants go to the device while kernels are assembled.
 *
 * A copy from memory of the host keeps a thread waiting, and no processor busy: half a gigabyte of weights takes as long as the
 * assembler has for one kernel. The thread that copies allocates nothing and has no environment; what went wrong is said
 * afterwards, by the thread of the caller.
 */
#include "runtime/upload.h"

#include "runtime/clock.h"

static void note(sn_uploads *u, CUresult result, const char *call) {
    if (u->result == CUDA_SUCCESS) u->result = result, u->call = call;
}

/* Waits for what is under way after a failure, too: its memory may be freed then. */
void sn_uploads_run(void *user, CUresult entered) {
    sn_uploads *u = user;
    double start = sn_now_us();
    note(u, entered, "cuCtxPushCurrent");
    for (uint32_t i = 0; i < u->list.n && u->result == CUDA_SUCCESS; i++) {
        const sn_upload *c = &u->list.at[i];
        note(u, u->cu->api.cuMemcpyHtoDAsync(sn_device_address(c->to), c->from, c->size, NULL), "cuMemcpyHtoDAsync");
    }
    if (entered == CUDA_SUCCESS && u->list.n) note(u, u->cu->api.cuStreamSynchronize(NULL), "cuStreamSynchronize");
    u->took_us = sn_now_us() - start;
}

sn_status sn_uploads_check(const sn_uploads *u) { return sn_cuda_check(u->cu, u->result, u->call); }
