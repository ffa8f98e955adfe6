/* cuda_module.h: PTX to loaded kernels. Private to runtime/. */
#ifndef SN_RUNTIME_CUDA_MODULE_H
#define SN_RUNTIME_CUDA_MODULE_H

#include "runtime/cubin.h"
#include "runtime/cuda_driver.h"
#include "runtime/threads.h"

typedef struct sn_cuda_code {
    CUmodule module;
    CUfunction function;
    bool is_known; /* what the assembler made of it: from its cubin, or what the driver says where it assembled */
    sn_cubin_figures figures;
} sn_cuda_code;

/* What a thread of the pool does meanwhile, in the context of the device; entered: what became of making that current. It leaves its
 * errors to whoever asks for them. */
typedef struct sn_beside {
    void (*body)(void *user, CUresult entered);
    void *user;
} sn_beside;

/* Assemble and load n kernels into out[n] (zeroed by the caller), but for those that a library runs; the context of cu is
 * current. After a failure out holds what was loaded. keep: where cubins are kept (without a cache: nowhere), and the ptxas that
 * may be asked; NULL: neither. beside is done by the end in
 * any case; NULL: there is nothing. */
sn_status sn_cuda_code_load(sn_cuda_code *out, sn_prog_times *times, sn_cuda *cu, const sn_rt_kernel *kernels,
                            uint32_t n, sn_pool *pool, const sn_cubins *keep, const sn_beside *beside);
void sn_cuda_code_unload(sn_cuda *cu, sn_cuda_code *code, uint32_t n);

#endif
