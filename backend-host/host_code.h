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
/* Test callback: *holds becomes 1 or 0, the bool that a kernel has stored there. */
typedef int (*sn_test_fn)(void *user, const void *flag, int *holds);
/* The generated wrapper. inputs, outputs: storage addresses by graph number; consts: addresses by buffer id order of
 * the CONST buffers; workspace: wrap.workspace bytes, 256-aligned. */
typedef int (*sn_wrapper_fn)(void *const *inputs, void *const *outputs, void *const *consts, char *workspace,
                             sn_launch_fn launch, sn_copy_fn copy, sn_test_fn test, void *user);

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
    bool is_jump;       /* the 8 bytes in front of it are a jump there, and nothing else reads it */
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
/* What code for a target is made from, besides kernels, as the beginning of a cache's key: whoever makes it, the figures of the
 * target, the processor at hand. */
void sn_host_key(sn_text *t, const char *kind, const sn_target *target);
sn_status sn_host_code_link(sn_host_image *out, const sn_host_code *code, sn_env *env, sn_arena *arena);
/* LLVM IR text of all kernels as the host would compile them. */
sn_status sn_host_llvm(char **out, sn_module *m, const sn_target *target, sn_arena *arena);

/* The processor at hand, as LLVM calls it. */
void sn_host_processor(char *out, size_t size);

/* ---- a program as C source (wrapper_c.c, source.c) ---- */

/* What code of the CPU needs: LLVM's name, where cpuid says so, and registers that the system has to save. */
typedef struct sn_source_feature {
    const char *name;
    uint32_t leaf, subleaf, word, bit, saved;
} sn_source_feature;

/* Of whom the C source is: kernels of a GPU (codes) or of the CPU (host). */
typedef struct sn_source {
    const sn_gpu_code *codes;   /* by kernel; NULL: the CPU */
    const sn_file_part *cubins; /* by kernel, {0}: none, NULL: of no kernel */
    uint32_t sm;                /* GPU: compute capability that the code needs at least; */
    bool only;                  /* no other one runs it */
    const sn_host_image *host;  /* CPU */
    const uint64_t *host_kept;  /* CPU: bytes of kept memory, by kernel */
    const sn_source_feature *features;
    uint32_t n_features;
    bool weights_given; /* whoever creates a program says where its weights are; else they are constants like others */
    bool constants_in_file; /* which is mapped; else they are in the C source */
} sn_source;

/* A program without a library: NAME.h and NAME.c, and the parts of NAME.bin where constants are in a file. C11 and C++11; for a GPU
 * it needs libcuda alone, for the CPU the C library. Kernels that a library runs are refused. */
typedef struct sn_source_files {
    const char *name; /* in the arena */
    sn_text header, source;
    SN_VEC(sn_file_part) constants; /* empty: there is no file */
} sn_source_files;
sn_status sn_source_print(sn_source_files *out, sn_module *m, const sn_source *source, sn_arena *arena);
void sn_source_free(sn_source_files *files);
/* The same as one text, for `sinter emit --stage=wrapper-c`. */
sn_status sn_wrapper_c(sn_text *out, sn_module *m, const sn_source *source);

#endif
