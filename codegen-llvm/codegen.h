/* codegen.h: scheduled Loop IR to LLVM IR, for both back ends, through the LLVM C API.
 *
 * A session is one LLVM context on one thread. LLVM's fatal errors reach the environment's guard by longjmp (SN_ERROR_
 * INTERNAL): whatever the input, the process goes on. Only this folder and backend-* see LLVM headers; here its types
 * are opaque.
 */
#ifndef SN_CODEGEN_LLVM_CODEGEN_H
#define SN_CODEGEN_LLVM_CODEGEN_H

#include "ir/base/text.h"
#include "ir/module.h"
#include "ir/base/target.h"

/* Who works on several kernels at a time: run calls piece(user, begin, end) for ranges that make up 0 .. n-1, on any
 * threads, and returns when all are done. NULL in place of it: one after the other. */
typedef struct sn_workers {
    void (*run)(void *pool, int64_t n, void (*piece)(void *user, int64_t begin, int64_t end), void *user);
    void *pool;
} sn_workers;

/* Both back ends generate each kernel from a module of its own (sn_module_of_kernel): m is only read. */

/* ---- NVPTX (backend-nvptx/) ---- The generated function is a ptx_kernel named like the kernel, with one global
 * pointer per kernel parameter, in the order of kern->params; for a kernel of several segments with one parameter, an
 * array of these pointers by value (param_block). Where kept_bytes is not 0, one more parameter follows: the address of so
 * much memory, 256-aligned, that lasts from run to run and was zero before the first; runs that may go on at once have each
 * their own. Its block size is fixed (.reqntid). Shared memory is static up to 48 KB, else dynamic: the launch asks for
 * shared_bytes, for which the function has to be prepared. */
typedef struct sn_gpu_code {
    char *ptx;       /* NUL-terminated, in the arena */
    size_t ptx_size; /* without the NUL */
    char *llvm;      /* LLVM IR text before optimisation when asked for, else NULL */
    uint32_t block_x, block_y;
    uint32_t cluster;      /* blocks; above 8 the function has to be prepared for a size that is not portable */
    uint32_t shared_bytes; /* dynamic shared memory of a block; what the code declares itself does not count */
    int64_t grid;          /* blocks; a multiple of the cluster that the code asks for (.reqnctapercluster) */
    bool param_block;      /* the addresses are one parameter, not one each */
    uint64_t kept_bytes;   /* 0: no such parameter */
} sn_gpu_code;
sn_status sn_nvptx_emit(sn_gpu_code *out, const sn_module *m, sn_kern k, const sn_target *target, bool want_llvm,
                        sn_arena *arena);
/* All kernels: out has the order of m->kernels. */
sn_status sn_nvptx_emit_all(sn_gpu_code *out, const sn_module *m, const sn_target *target, const sn_workers *workers,
                            sn_arena *arena);

/* ---- host (backend-host/) ----
 * A kernel is compiled to `void k(void *const *params, int64_t begin, int64_t end)`: blocks begin .. end-1 of the grid;
 * behind the buffers params has the address of kept memory, as on a GPU, where the kernel needs some. Kernels that follow
 * each other share an object when they are small; the wrapper has one of its own. */
typedef void (*sn_host_kernel)(void *const *params, int64_t begin, int64_t end);

/* Launch callback of the generated wrapper: kernel number (position in m->kernels) and its parameter addresses.
 * Returns 0 or a sn_status that the wrapper passes on. */
typedef int (*sn_launch_fn)(void *user, uint32_t kernel, void *const *params);
/* Copy callback: size bytes between two storages. */
typedef int (*sn_copy_fn)(void *user, void *to, const void *from, int64_t size);
/* The generated wrapper. inputs, outputs: storage addresses by graph number; consts: addresses by buffer id order of
 * the CONST buffers; workspace: wrap.workspace bytes, 256-aligned. */
typedef int (*sn_wrapper_fn)(void *const *inputs, void *const *outputs, void *const *consts, char *workspace,
                             sn_launch_fn launch, sn_copy_fn copy, void *user);

typedef struct sn_host_code sn_host_code; /* owns the machine code */
/* with_kernels false: only the wrapper (kernels run on a GPU). */
sn_status sn_host_compile(sn_host_code **out, sn_module *m, bool with_kernels, const sn_target *target,
                          const sn_workers *workers);
void sn_host_code_free(sn_host_code *code);
sn_host_kernel sn_host_code_kernel(const sn_host_code *code, uint32_t kernel);
uint64_t sn_host_code_kept_bytes(const sn_host_code *code, uint32_t kernel);
sn_wrapper_fn sn_host_code_wrapper(const sn_host_code *code);
/* LLVM IR text of all kernels as the host would compile them. */
sn_status sn_host_llvm(char **out, sn_module *m, const sn_target *target, sn_arena *arena);

/* ---- the wrapper as C source (backend-host/wrapper_c.c) ---- a complete .c file for `sinter emit --stage=wrapper-c`:
 * kernel PTX embedded as strings (ptx may be NULL: names only), driver calls through cuda.h, the planned workspace. */
sn_status sn_wrapper_c(sn_text *out, sn_module *m, const sn_gpu_code *codes);

/* Version of the LLVM that is linked: "22.1.8". */
const char *sn_llvm_version(void);

#endif
