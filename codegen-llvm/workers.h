/* workers.h: pieces of code generation that may run side by side (workers.c). */
#ifndef SN_CODEGEN_LLVM_WORKERS_H
#define SN_CODEGEN_LLVM_WORKERS_H

#include "codegen-llvm/codegen.h"

/* body makes piece i out of what it only reads, in an environment of its own, on any thread. take carries the result over
 * to the caller's memory, on the caller's thread, in the order of the pieces; the piece's memory goes afterwards. */
typedef struct sn_pieces {
    sn_status (*body)(void *user, sn_env *env, uint32_t i);
    sn_status (*take)(void *user, uint32_t i);
    void *user;
} sn_pieces;
/* Pieces 0 .. n-1. When some fail, the failure is that of the lowest. */
sn_status sn_cg_pieces(sn_env *env, const sn_workers *workers, uint32_t n, const sn_pieces *work);

#endif
