/* llvm.h: what codegen-llvm/ and backend-* share: one LLVM context with the types, the guard around LLVM's fatal
 * errors, and the translation of a scheduled kernel. Only these folders see it; everybody else uses codegen.h.
 */
#ifndef SN_CODEGEN_LLVM_LLVM_H
#define SN_CODEGEN_LLVM_LLVM_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "codegen-llvm/codegen.h"

/* A session: one LLVM context on one thread. */
typedef struct sn_cg {
    sn_env *env;
    LLVMContextRef cx;
    const sn_target *target;
    sn_arena scratch;       /* of translations; freed by sn_cg_close, also after a jump out of one */
    LLVMBuilderRef builder; /* the same; so are the next three, where they are set */
    LLVMTargetMachineRef tm;
    LLVMMemoryBufferRef emitted;
    char *printed;
    bool has_f16;  /* half <-> float are instructions */
    bool has_bf16; /* bfloat <-> float are instructions */
    LLVMTypeRef i1, i8, i16, i32, i64, f16, bf16, f32, f64, ptr, global_ptr, shared_ptr, vd;
} sn_cg;

/* Open a session; LLVM's targets are initialised once per process (thread-safe). */
sn_status sn_cg_open(sn_cg *cg, sn_env *env, const sn_target *target);
void sn_cg_close(sn_cg *cg);

/* What a launch has to provide besides the parameters of kern->params, and what the target must have. */
typedef struct sn_cg_needs {
    uint32_t shared_bytes;     /* dynamic shared memory of a block */
    uint64_t kept_bytes;       /* that last between runs, zero before the first; the address is the next parameter */
    const sn_tensor_map *maps; /* GPU: the last parameters, by value; here as long as the session */
    uint32_t n_maps;
    uint32_t ptx;  /* GPU: version times ten; 0: what the target has anyway */
    bool specific; /* GPU: instructions that this architecture alone has */
    bool whole;    /* GPU: registers that move between warps, or shared memory aligned for boxes */
} sn_cg_needs;
/* Generate kernel k into `mod`; index expressions are interned in m while code is made.
 * GPU: ptx_kernel void name(ptr addrspace(1) p0, p1, ...), one per kern->params.
 * Host: void name(ptr params, i64 begin, i64 end): blocks begin .. end-1 of the grid; params is an array of addresses.
 * The module's triple and data layout must be set before (the caller's target machine knows them). */
sn_status sn_cg_kernel(LLVMValueRef *out, sn_cg_needs *needs, sn_cg *cg, LLVMModuleRef mod, sn_module *m, sn_kern k);
/* Will it need kept memory? */
bool sn_cg_keeps(const sn_module *m, sn_kern k, bool gpu);

/* ---- what code is made from (key.c) ---- */

/* Digest of the sources that code depends on. */
extern const char sn_cg_sources[];
/* Begin the text for code of a kind; add a kernel of a module of its own, but not its name. */
void sn_cg_key(sn_text *t, const char *kind, const sn_target *target);
void sn_cg_key_kernel(sn_text *t, const sn_module *m, sn_kern k);

/* LLVMVerifyModule as a status: what it finds is a bug of ours. */
sn_status sn_cg_verify(sn_cg *cg, LLVMModuleRef mod);
/* Run a pass pipeline ("sroa,early-cse") over the module. */
sn_status sn_cg_optimise(sn_cg *cg, LLVMModuleRef mod, LLVMTargetMachineRef tm, const char *passes);
/* The text of a module, in the arena. */
char *sn_cg_text(sn_cg *cg, LLVMModuleRef mod, sn_arena *arena);

/* Run body(user) so that LLVM's fatal errors and error diagnostics come out as statuses instead of ending the process.
 * After a fatal error the context is in an unknown state: the caller must not use it again and gives it up (sn_cg_close
 * then leaks it on purpose). Nests. */
sn_status sn_cg_guarded(sn_cg *cg, sn_status (*body)(void *user), void *user);

#endif
