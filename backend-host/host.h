/* host.h: what the files of backend-host/ share. Others use codegen-llvm/codegen.h. */
#ifndef SN_BACKEND_HOST_HOST_H
#define SN_BACKEND_HOST_HOST_H

#include "backend-host/host_code.h"
#include "codegen-llvm/llvm.h"

/* What a wrapper does, as the table that its function walks: all that its code depends on. */
typedef struct sn_wrapper_rows {
    const int64_t *words;
    uint32_t n, most;      /* most: places of a row */
    uint32_t slots, depth; /* addresses that change from step to step of a repeat; repeats around each other, at most */
    bool tests;            /* it looks at bools that kernels make */
} sn_wrapper_rows;
sn_status sn_wrapper_tabulate(sn_wrapper_rows *out, sn_module *m, sn_arena *arena);
/* Generate it as an sn_wrapper_fn of that name into `mod`. */
LLVMValueRef sn_wrapper_llvm(sn_cg *cg, LLVMModuleRef mod, const sn_wrapper_rows *rows, const char *name);

/* An object with kernels first .. first+n-1, whose functions are `symbols`.0, .1, ... (link.c). */
enum { SN_HOST_SYMBOL = 48 };
typedef struct sn_host_object {
    void *bytes;
    size_t size;
    uint32_t first, n;
    char symbols[SN_HOST_SYMBOL];
} sn_host_object;
/* All but what they were made for. */
sn_status sn_host_link(sn_host_image *out, sn_env *env, const sn_host_object *objects, uint32_t n, uint32_t n_kernels,
                       sn_arena *arena);

#endif
