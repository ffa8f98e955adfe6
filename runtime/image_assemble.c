/* image_assemble.c: cubins for an image, made where it is made. Needs no device.
 *
 * A cubin spares whoever loads the image the assembler, which may not be there. PTX stays beside it: for newer GPUs, and for
 * kernels that no assembler here takes, which the driver takes then.
 */
#include "runtime/assemble.h"
#include "runtime/image.h"

#include <stdio.h>

/* Nobody who starts a bundle would find out why it takes seconds. */
static void note_missing(sn_ptxas *x, uint32_t n, const char *target) {
    if (n && !x->path && !x->note[0])
        snprintf(x->note, sizeof x->note,
                 "ptxas: none in PATH, CUDA_HOME/bin and /usr/local/cuda*/bin; %u kernel%s for %s %s no cubin: whoever "
                 "loads it has the driver assemble %s",
                 n, n == 1 ? "" : "s", target, n == 1 ? "has" : "have", n == 1 ? "it" : "them");
}

void sn_image_assemble(sn_image_part *part, const sn_cubins *keep, sn_env *env, sn_arena *arena) {
    sn_assembly *jobs = SN_NEWN(arena, sn_assembly, part->n_kernels + 1);
    sn_pool *pool = sn_pool_new(env, 0);
    uint32_t without = 0;
    for (uint32_t i = 0; i < part->n_kernels; i++) jobs[i] = sn_assembly_of(&part->kernels[i].launch, part->sm);
    sn_cubins_make(jobs, part->n_kernels, keep, NULL, pool, arena);
    for (uint32_t i = 0; i < part->n_kernels; i++) {
        sn_rt_kernel *k = &part->kernels[i].launch;
        k->cubin = jobs[i].cubin;
        k->cubin_size = jobs[i].cubin ? jobs[i].cubin_size : 0;
        without += !k->cubin && !k->library && k->ptx;
    }
    sn_pool_free(pool);
    if (keep && keep->ptxas) note_missing(keep->ptxas, without, part->target);
}
