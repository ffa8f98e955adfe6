/* image_assemble.c: cubins for an image, made where it is made. Needs no device.
 *
 * A cubin spares whoever loads the image the assembler, which may not be there. PTX stays beside it: for newer GPUs, and for
 * kernels that nvJitLink does not assemble well (sn_rt_kernel.whole) or refuses, which the driver takes then.
 */
#include "runtime/cuda_module.h"
#include "runtime/image.h"

void sn_image_assemble(sn_image_part *part, sn_env *env, sn_arena *arena) {
    sn_assembler *as = sn_assembler_open(env);
    if (!as) return;
    sn_assembly *jobs = SN_NEWN(arena, sn_assembly, part->n_kernels + 1);
    sn_pool *pool = sn_pool_new(env, 0);
    for (uint32_t i = 0; i < part->n_kernels; i++) {
        const sn_rt_kernel *k = &part->kernels[i].launch;
        jobs[i] = (sn_assembly){.name = k->name, .ptx = k->ptx, .ptx_size = k->ptx_size};
        jobs[i].left_out = k->whole || k->library || !k->ptx;
        if (!jobs[i].left_out) sn_assembly_arch(jobs[i].arch, sizeof jobs[i].arch, k->ptx, part->sm);
    }
    sn_assemble(as, jobs, part->n_kernels, pool, arena);
    for (uint32_t i = 0; i < part->n_kernels; i++) {
        if (jobs[i].left_out || !jobs[i].cubin) continue;
        part->kernels[i].launch.cubin = jobs[i].cubin;
        part->kernels[i].launch.cubin_size = jobs[i].cubin_size;
    }
    sn_pool_free(pool);
    sn_assembler_close(as);
}
