/* threads.c: the threads of a GPU block as all emitters see them: their barrier, the first one, which axes count them, how they
 * wait for a barrier object.
 *
 * What passes between threads is in shared.c and block.c. That all of them come to a barrier is for its caller to know.
 * The host has no threads; there only sn_gen_is_block is called.
 */
#include "codegen-llvm/gen.h"

bool sn_gen_is_block(const sn_gen *g, sn_axis_kind kind) {
    return g->gpu && (kind == SN_AXIS_CLUSTER || kind == SN_AXIS_BLOCK_X || kind == SN_AXIS_BLOCK_Y);
}

/* Those that compute have one of their own where others copy. */
void sn_gen_barrier(sn_gen *g) {
    if (g->role == SN_GEN_COMPUTES) {
        lv args[2] = {LLVMConstInt(g->em.cg->i32, 1, 0), LLVMConstInt(g->em.cg->i32, g->threads_x * g->threads_y, 0)};
        sn_em_call(&g->em, "llvm.nvvm.barrier.cta.sync.aligned.count", NULL, args, 2);
        return;
    }
    lv zero = LLVMConstInt(g->em.cg->i32, 0, 0);
    sn_em_call(&g->em, "llvm.nvvm.barrier.cta.sync.aligned.all", NULL, &zero, 1);
}

lv sn_gen_first_thread(sn_gen *g) {
    lv zero = sn_em_i(&g->em, g->thread_x, 0), first = em_icmp(&g->em, LLVMIntEQ, g->thread_x, zero);
    return em_and(&g->em, first, em_icmp(&g->em, LLVMIntEQ, g->thread_y, zero));
}

lv sn_gen_group_number(sn_gen *g, uint32_t threads) {
    enum { ALL_LANES = -1, CLAMP = 31 };
    sn_em *em = &g->em;
    LLVMTypeRef i32 = em->cg->i32;
    lv x = g->index == i32 ? g->thread_x : LLVMBuildTrunc(em->b, g->thread_x, i32, "");
    lv args[4] = {sn_em_ci(i32, ALL_LANES), LLVMBuildUDiv(em->b, x, sn_em_ci(i32, threads), ""), sn_em_ci(i32, 0),
                  sn_em_ci(i32, CLAMP)};
    return sn_em_call(em, "llvm.nvvm.shfl.sync.idx.i32", NULL, args, 4);
}

/* An address of 32 bits is one in shared memory, of 64 a generic one. */
void sn_gen_wait_object(sn_gen *g, lv at, lv phase, bool of_cluster) {
    sn_em *em = &g->em;
    lv args[2] = {at, phase};
    LLVMBasicBlockRef wait = sn_em_block(em, "wait"), arrived = sn_em_block(em, "arrived");
    LLVMBuildBr(em->b, wait);
    LLVMPositionBuilderAtEnd(em->b, wait);
    lv all = sn_em_assembly(em, em->cg->i32,
                            of_cluster ? "{\n\t.reg .pred p;\n\t"
                                         "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [$1], $2;\n\t"
                                         "selp.u32 $0, 1, 0, p;\n\t}"
                                       : "{\n\t.reg .pred p;\n\t"
                                         "mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2;\n\t"
                                         "selp.u32 $0, 1, 0, p;\n\t}",
                            LLVMTypeOf(at) == em->cg->i32 ? "=r,r,r,~{memory}" : "=r,l,r,~{memory}", args, 2);
    LLVMBuildCondBr(em->b, em_icmp(em, LLVMIntNE, all, sn_gen_c32(g, 0)), arrived, wait);
    LLVMPositionBuilderAtEnd(em->b, arrived);
}
