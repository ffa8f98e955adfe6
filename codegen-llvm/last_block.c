/* last_block.c: what follows a grid loop runs on the block that finds itself to be the last one of it.
 *
 * Each block's stores are released before one of its threads counts it; the counter wraps to 0, so the next launch
 * finds it ready. The counters are kept memory (kept.c). LLVM 22 drops the order of atomicrmw, hence the inline assembly.
 */
#include "codegen-llvm/gen.h"

static void fence(sn_gen *g) { sn_em_assembly(&g->em, g->em.cg->vd, "fence.acq_rel.gpu;", "~{memory}", NULL, 0); }

/* Counts this block; true on the last of `blocks` blocks of its group. */
static lv is_last(sn_gen *g, lv group, int64_t groups, int64_t blocks) {
    sn_em *em = &g->em;
    lv counters = sn_gen_kept(g, (uint64_t)groups * 4);
    lv answer = sn_em_global(em, "sn_block_number", em->cg->i32, 3, 4);
    sn_gen_barrier(g);
    sn_em_if branch = sn_em_then(em, sn_gen_first_thread(g), "count");
    fence(g);
    lv counter = LLVMBuildInBoundsGEP2(em->b, em->cg->i32, counters, &group, 1, "");
    lv args[2] = {counter, sn_gen_c32(g, blocks - 1)};
    lv old =
        sn_em_assembly(em, em->cg->i32, "atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;", "=r,l,r,~{memory}", args, 2);
    LLVMSetAlignment(LLVMBuildStore(em->b, old, answer), 4);
    sn_em_end(em, &branch);
    sn_gen_barrier(g);
    lv number = LLVMBuildLoad2(em->b, em->cg->i32, answer, "");
    LLVMSetAlignment(number, 4);
    return em_icmp(em, LLVMIntEQ, number, sn_gen_c32(g, blocks - 1));
}

void sn_gen_tail_begin(sn_gen *g, sn_gen_tail *t, int64_t blocks) {
    *t = (sn_gen_tail){.open = true, .mark = sn_gen_mark(g), .turn = g->turn};
    if (g->cluster > 1 && g->status == SN_OK)
        g->status =
            sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: a cluster and a last block in one kernel", g->k->name);
    if (blocks == 0 && g->status == SN_OK)
        g->status =
            sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: a grid without blocks has no last one", g->k->name);
    if (g->status != SN_OK) blocks = 1;
    int64_t groups = g->grid / blocks;
    lv group = sn_em_i(&g->em, g->block_number, 0);
    if (groups > 1) group = LLVMBuildUDiv(g->em.b, g->block_number, sn_em_i(&g->em, g->block_number, blocks), "");
    t->branch = sn_em_then(&g->em, is_last(g, group, groups, blocks), "last_block");
    fence(g);
}

void sn_gen_tail_end(sn_gen *g, sn_gen_tail *t) {
    if (!t->open) return;
    sn_gen_settle(g, &t->turn);
    sn_em_end(&g->em, &t->branch);
    sn_gen_release(g, t->mark);
}
