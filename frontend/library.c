/* library.c: the libraries of matrix products and convolutions that a program may use: what passes ask, and their names.
 *
 * A program that runs is told of the libraries that are here. One that is compiled for a target to look at is shown what one
 * with the target's libraries would be. Kernels that were scheduled for a GPU and run on the CPU have none.
 */
#include "frontend/frontend.h"

#include <string.h>

static bool takes(void *user, const sn_library_call *call, char why[SN_LIBRARY_WHY]) {
    const sn_program *p = user;
    return p->runnable ? sn_library_takes(sn_program_cuda(p), call, why) : sn_library_has(call, p->gpu_code, why);
}

void sn_program_find_library(sn_program *p, const sn_settings *s, sn_phase last) {
    if (!s->gpu_schedule && last != SN_PHASE_SOURCE) p->library = (sn_library){takes, p};
}

sn_cuda *sn_program_cuda(const sn_program *p) { return p->device == SN_CPU ? NULL : p->ctx->cuda[p->device]; }

const char *sn_program_library_name(const sn_program *p, bool of_convs) {
    char name[SN_LIBRARY_WHY], *blas = p->ctx->blas;
    bool is_blas = p->device == SN_CPU && !of_convs;
    if (p->runnable && is_blas && blas[0]) return blas;
    if (!p->runnable || !sn_library_name(name, sn_program_cuda(p), of_convs))
        return !p->gpu_code ? "BLAS" : of_convs ? "cuDNN" : "cuBLASLt";
    return is_blas ? strcpy(blas, name) : sn_strdup(&p->ctx->scratch, name);
}
