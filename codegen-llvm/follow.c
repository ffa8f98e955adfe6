/* follow.c: kernels that follow each other in a stream overlap at the edge (griddepcontrol, sm_90 and later).
 *
 *     wait                 what the kernels before have stored is there
 *     launch_dependents    the blocks of the next kernel may come: they are set up, and wait
 *
 * Blocks that come early take the first room that there is. Where the next launch is like this one and does not find
 * room beside it, its last blocks come as blocks of this one end, several to the multiprocessors that are done first
 * and none to others, and that lasts for all of its time: 172 blocks, two to a multiprocessor, of 11008 x 4096 times
 * 4096 x 16 in bf16 took 29.2 us in a row of such launches on an H200, and 23.0 where nobody comes before the last
 * one has ended. So kernels of boxes, whose shared memory says how many fit, call others early where these find
 * room, or where each launch fills (nearly) all the room that there is anyway. Knows nothing of other kernels, which
 * call others at once: their waves are many and short.
 *
 * A kernel with a `wait` (pass `start-early`) has something to load in front of it that no kernel of the run stores. It calls the next
 * one first, so that the blocks of several kernels may load beside the one that computes: behind its own wait, one token of GPT-2
 * took 8 to 15 % longer (H100). What is between kernels is there behind the wait alone, since each waits for the one in front, which has
 * waited itself.
 */
#include "codegen-llvm/gen.h"

/* Blocks of this kernel on a multiprocessor. Warpgroups that share out registers (kernel.c) have all of them. */
static uint64_t resident(const sn_gen *g) {
    enum { SYSTEM = 1 << 10 /* of a block's shared memory */ };
    const sn_target *t = g->em.cg->target;
    uint64_t by_shared = (t->shared_bytes + SYSTEM) / (g->shared_total + SYSTEM);
    uint64_t by_threads = sn_target_blocks(t, (uint64_t)g->threads_x * g->threads_y + SN_BOX_THREADS);
    uint64_t blocks = by_shared < by_threads ? by_shared : by_threads;
    return blocks > 1 && g->threads_x > SN_BOX_THREADS ? 1 : blocks;
}

static bool calls_early(const sn_gen *g) {
    return !g->produces || sn_target_lies_evenly(g->em.cg->target, (uint64_t)g->grid * g->cluster, resident(g));
}

static bool is_able(const sn_gen *g) {
    enum { FIRST_SM = 90 };
    return g->em.cg->target->sm >= FIRST_SM;
}

static void wait_for_kernels(sn_gen *g) { sn_em_call(&g->em, "llvm.nvvm.griddepcontrol.wait", NULL, NULL, 0); }

static void call_next(sn_gen *g) { sn_em_call(&g->em, "llvm.nvvm.griddepcontrol.launch.dependents", NULL, NULL, 0); }

void sn_gen_follow(sn_gen *g) {
    if (!is_able(g)) return;
    wait_for_kernels(g);
    if (calls_early(g)) call_next(g);
}

/* Kernels of boxes wait when their warps part. */
static bool has_wait(const sn_gen *g) {
    if (g->segments || g->produces || g->cluster > 1 || sn_kern_posts(g->m, g->kern)) return false;
    for (sn_stmt s = g->k->first; s.i; s = sn_stmt_walk_next(g->m, s))
        if (sn_stmt_get(g->m, s)->op == SN_LOP_WAIT) return true;
    return false;
}

void sn_gen_start(sn_gen *g) {
    g->waits_late = is_able(g) && has_wait(g);
    if (g->waits_late) call_next(g);
    else if (!g->produces) sn_gen_follow(g);
}

void sn_gen_wait_for_kernels(sn_gen *g) {
    if (g->waits_late) wait_for_kernels(g);
}
