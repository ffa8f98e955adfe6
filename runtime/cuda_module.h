/* cuda_module.h: PTX to loaded kernels. Private to runtime/. */
#ifndef SN_RUNTIME_CUDA_MODULE_H
#define SN_RUNTIME_CUDA_MODULE_H

#include "cache/cache.h"
#include "runtime/cubin.h"
#include "runtime/cuda_driver.h"
#include "runtime/threads.h"

typedef struct sn_cuda_code {
    CUmodule module;
    CUfunction function;
    bool is_known; /* what the assembler made of it: from its cubin, or what the driver says where it assembled */
    sn_cubin_figures figures;
} sn_cuda_code;

/* Assemble and load n kernels into out[n] (zeroed by the caller), but for those that a library runs; the context of cu is
 * current. After a failure out holds what was loaded. cache: of cubins, NULL: none. */
sn_status sn_cuda_code_load(sn_cuda_code *out, sn_prog_times *times, sn_cuda *cu, const sn_rt_kernel *kernels,
                            uint32_t n, sn_pool *pool, sn_cache *cache);
void sn_cuda_code_unload(sn_cuda *cu, sn_cuda_code *code, uint32_t n);

/* ---- the assembler alone: needs no device ---- */

typedef struct sn_assembler sn_assembler;

/* One kernel on its way to a cubin. */
typedef struct sn_assembly {
    const char *name, *ptx;
    size_t ptx_size;
    char arch[32]; /* "-arch=sm_90a" */
    bool left_out; /* for the driver, or a library; or its cubin is there */
    void *link;    /* nvJitLinkHandle */
    int result;    /* of nvJitLink: 0 is success */
    size_t cubin_size;
    void *cubin; /* in the arena; NULL when refused */
    char *log;   /* in the arena, when refused */
} sn_assembly;

/* NULL when no libnvJitLink can be opened. */
sn_assembler *sn_assembler_open(sn_env *env);
void sn_assembler_close(sn_assembler *as);
/* What its cubins depend on besides text and architecture: "nvJitLink 13.0 of 92461096 bytes". False: it does not say. */
bool sn_assembler_version(char *out, size_t size, const sn_assembler *as);
/* Assemble all that are not left out, side by side on the pool; name, ptx, ptx_size and arch are filled in. A refusal is in the record. */
void sn_assemble(sn_assembler *as, sn_assembly *jobs, uint32_t n, sn_pool *pool, sn_arena *arena);
/* The architecture option of a PTX text: its own .target when that is the device's with a suffix (sm_90a). */
void sn_assembly_arch(char *out, size_t size, const char *ptx, uint32_t sm);
/* The first lines of an assembler's log as one line. */
char *sn_log_line(sn_arena *arena, const char *log);

#endif
