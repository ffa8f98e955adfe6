/* host_code.h: kernels and the wrapper as machine code of this process, and the wrapper as C source. What the files of this
 * folder share is in host.h.
 */
#ifndef SN_BACKEND_HOST_HOST_CODE_H
#define SN_BACKEND_HOST_HOST_CODE_H

#include "cache/cache.h"
#include "codegen-llvm/codegen.h"

/* ---- machine code ----
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
/* with_kernels false: only the wrapper (kernels run on a GPU). cache NULL: none. */
sn_status sn_host_compile(sn_host_code **out, sn_module *m, bool with_kernels, const sn_target *target,
                          const sn_workers *workers, sn_cache *cache);
void sn_host_code_free(sn_host_code *code);
/* NULL: a library runs it. */
sn_host_kernel sn_host_code_kernel(const sn_host_code *code, uint32_t kernel);
uint64_t sn_host_code_kept_bytes(const sn_host_code *code, uint32_t kernel);
sn_wrapper_fn sn_host_code_wrapper(const sn_host_code *code);

/* The kernels as one piece of code that may lie anywhere, for an image (link.c): bytes into which a loader writes addresses. */
typedef struct sn_host_slot {
    uint64_t at;        /* where the address goes */
    const char *import; /* of a function of the C library; NULL: of the code itself, */
    uint64_t target;    /* at this byte */
} sn_host_slot;
typedef struct sn_host_image {
    void *bytes;
    size_t size;
    uint64_t *entries; /* by kernel: where its function begins; UINT64_MAX: a library runs it */
    sn_host_slot *slots;
    uint32_t n_slots;
    char *machine, *cpu, *features; /* "x86_64"; the processor that it was made for, and what that has, as LLVM says */
} sn_host_image;
/* Everything in the arena. Fails where code has what an image cannot hold. */
sn_status sn_host_code_link(sn_host_image *out, const sn_host_code *code, sn_env *env, sn_arena *arena);
/* LLVM IR text of all kernels as the host would compile them. */
sn_status sn_host_llvm(char **out, sn_module *m, const sn_target *target, sn_arena *arena);

/* The processor at hand, as LLVM calls it. */
void sn_host_processor(char *out, size_t size);

/* ---- the wrapper as C source (wrapper_c.c) ----
 * A complete .c file for `sinter emit --stage=wrapper-c`: kernel PTX embedded as strings (ptx may be NULL: names only),
 * driver calls through cuda.h, the planned workspace. Kernels that a library runs are refused. debug: what its runs say of each
 * kernel (wrapper_c_debug.c); NULL: nothing, and nothing of it is in the text. */
typedef struct sn_wrapper_debug {
    bool names, print, save, stop_at_nan, stop_at_infinity;
    const bool *kernels; /* by position in m->kernels: of which */
    const char *dir;     /* where files go */
} sn_wrapper_debug;
sn_status sn_wrapper_c(sn_text *out, sn_module *m, const sn_gpu_code *codes, const sn_wrapper_debug *debug);

#endif
