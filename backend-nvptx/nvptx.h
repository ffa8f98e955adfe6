/* nvptx.h: what the files of backend-nvptx/ share. Others use codegen-llvm/codegen.h and ir/base/target.h. */
#ifndef SN_BACKEND_NVPTX_NVPTX_H
#define SN_BACKEND_NVPTX_NVPTX_H

#include "backend-nvptx/ptx.h"
#include "codegen-llvm/llvm.h"
#include "ir/base/text.h"
#include "ir/base/target.h"

/* LLVM's name of the processor and the PTX version (times ten) of a GPU target: the newest of its generation that is not
 * newer than the compute capability; specific: the variant of that very architecture. false: there is none. */
bool sn_nvptx_cpu(const sn_target *target, bool specific, const char **cpu, uint32_t *ptx);

/* Pairs of bfloat become floats by shifts and masks; after the optimiser. */
void sn_nvptx_widen(const sn_cg *cg, LLVMModuleRef mod);

/* Does the kernel move so much that what it loads should leave the L2 last? Then sn_nvptx_stream puts that into its
 * PTX. */
bool sn_nvptx_streams(const sn_target *t, const sn_module *m, sn_kern k, sn_arena *scratch);
void sn_nvptx_stream(sn_text *t, const char *ptx, size_t size, bool posts, bool once);
/* Does it say of what some of its loops load that nobody reads it again? */
bool sn_nvptx_has_once(const sn_module *m, sn_kern k);

#endif
