/* host.h: what the files of backend-host/ share. Others use codegen-llvm/codegen.h. */
#ifndef SN_BACKEND_HOST_HOST_H
#define SN_BACKEND_HOST_HOST_H

#include "backend-host/host_code.h"
#include "codegen-llvm/llvm.h"

/* Generate the wrapper of m as an sn_wrapper_fn of that name into `mod`. */
sn_status sn_wrapper_llvm(LLVMValueRef *out, sn_cg *cg, LLVMModuleRef mod, sn_module *m, const char *name,
                          sn_arena *scratch);

#endif
