/* ptx.h: targets by name, and scheduled kernels as PTX. What the files of this folder share is in nvptx.h. */
#ifndef SN_BACKEND_NVPTX_PTX_H
#define SN_BACKEND_NVPTX_PTX_H

#include "cache/cache.h"
#include "codegen-llvm/codegen.h"

/* "sm_75" .. "sm_121", "sm_90a" .. "sm_121a" or "host"; behind a GPU's name figures of a card that differ from the row of its
 * generation: "sm_90a:units=114:l2=52428800", also threads= (of a block) and shared= (bytes that a block may use). One name, one
 * target: what is compiled for it has the same bits wherever that is done. Fails with SN_ERROR_TARGET and the list of known names. */
sn_status sn_target_named(sn_target *out, sn_env *env, const char *name);
/* What is known of the generation of a device, by its compute capability (90 for 9.0): the newest row that is not
 * newer; with the instructions of its own where the architecture is the very one of a variant. Fails for devices older
 * than the oldest row. */
sn_status sn_target_for_sm(sn_target *out, sn_env *env, uint32_t sm);
/* Name a device by the figures that it has said of itself, so that sn_target_named finds the same target. */
void sn_target_name_figures(sn_target *t);

/* One kernel; the texts go to the arena. */
sn_status sn_nvptx_emit(sn_gpu_code *out, const sn_module *m, sn_kern k, const sn_target *target, bool want_llvm,
                        sn_arena *arena);
/* All kernels: out has the order of m->kernels. cache NULL: none. */
sn_status sn_nvptx_emit_all(sn_gpu_code *out, const sn_module *m, const sn_target *target, const sn_workers *workers,
                            sn_cache *cache, sn_arena *arena);

#endif
