/* codegen.h: scheduled Loop IR to LLVM IR, for both back ends, through the LLVM C API.
 *
 * A session is one LLVM context on one thread. LLVM's fatal errors reach the environment's guard by longjmp
 * (SN_ERROR_INTERNAL): whatever the input, the process goes on. Only this folder and backend-* see LLVM headers; here
 * its types are opaque.
 */
#ifndef SN_CODEGEN_LLVM_CODEGEN_H
#define SN_CODEGEN_LLVM_CODEGEN_H

#include "ir/base/text.h"
#include "ir/loop/library.h"
#include "ir/module.h"
#include "ir/base/target.h"
#include "ir/base/tensor_map.h"

/* Who works on several kernels at a time: run calls piece(user, begin, end) for ranges that make up 0 .. n-1, on any
 * threads, and returns when all are done. NULL in place of it: one after the other. */
typedef struct sn_workers {
    void (*run)(void *pool, int64_t n, void (*piece)(void *user, int64_t begin, int64_t end), void *user);
    void *pool;
} sn_workers;

/* The CPU at hand, with so many threads. */
void sn_target_host(sn_target *out, uint32_t threads);

/* Both back ends generate each kernel from a module of its own (sn_module_of_kernel): m is only read. */

/* ---- what becomes of a kernel for a GPU (backend-nvptx/) ----
 * The generated function is a ptx_kernel named like the kernel, with one global pointer per kernel parameter, in the
 * order of kern->params; for a kernel of several segments with one parameter, an array of these pointers by value
 * (param_block). Where kept_bytes is not 0, one more parameter follows: the address of so much memory, 256-aligned,
 * that lasts from run to run and was zero before the first; runs that may go on at once have each their own. Then come
 * tensor maps, each 128 bytes by value, 64-aligned, encoded for the address that its pointer parameter has. The block
 * size is fixed (.reqntid). Shared memory is static up to 48 KB, else dynamic: the launch asks for shared_bytes, for
 * which the function has to be prepared. A kernel that a library runs has no function: its texts are a comment. */
typedef struct sn_gpu_code {
    char *ptx;       /* NUL-terminated, in the arena */
    size_t ptx_size; /* without the NUL */
    char *llvm;      /* LLVM IR text before optimisation when asked for, else NULL */
    uint32_t block_x, block_y;
    uint32_t cluster;      /* blocks; above 8 the function has to be prepared for a size that is not portable */
    uint32_t shared_bytes; /* dynamic shared memory of a block; what the code declares itself does not count */
    int64_t grid;          /* blocks; a multiple of the cluster that the code asks for (.reqnctapercluster) */
    bool together;         /* its blocks wait for each other: all have to run at once (cuLaunchCooperativeKernel) */
    bool param_block;      /* the addresses are one parameter, not one each */
    uint64_t kept_bytes;   /* 0: no such parameter */
    sn_tensor_map *maps;   /* in the arena */
    uint32_t n_maps;
    bool whole; /* it is a program of its own: an assembler that would link it to others gives it less */
} sn_gpu_code;

/* Version of the LLVM that is linked: "22.1.8". */
const char *sn_llvm_version(void);

#endif
