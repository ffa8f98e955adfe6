/* features.c: what the code of a kernel asks of the target beyond what every device of the generation has: a newer version
 * of PTX, instructions that only the very architecture knows (sm_90a).
 *
 * The emitter of an instruction says so as it emits it; what comes together decides for which processor and in which
 * version the PTX of this kernel is written (backend-nvptx/emit.c). So kernels that ask for nothing stay portable.
 */
#include "codegen-llvm/gen.h"

void sn_gen_needs_ptx(sn_gen *g, uint32_t version) {
    if (version > g->ptx) g->ptx = version;
}

void sn_gen_needs_specific(sn_gen *g) {
    const sn_target *t = g->em.cg->target;
    g->specific = true;
    if (t->specific || g->status != SN_OK) return;
    g->status = sn_fail(g->env, SN_ERROR_TARGET,
                        "kernel %s: its schedule needs instructions that one architecture alone has; target %s leaves "
                        "them out (sm_90a has those of 9.0)",
                        g->k->name, t->name);
}
