/* loops.c: loops of the generated code: one counter, and values that are carried from one iteration to the next.
 *
 *     before -> body: i = phi(first, i + 1), carried = phi(before, next) ... -> i + 1 < n ? body : done
 *
 * A loop that may be empty stands behind a test of its own. Knows nothing of statements: whoever opens a loop fills its
 * body and closes it (statements and reductions, the fold over slots in block.c, the blocks of the host in kernel.c).
 * What the body has computed is forgotten behind the loop, since it does not dominate what follows.
 *
 * ptxas writes out loops whose iterations it can count, up to all 256 of a sum, and takes as long for a piece of code
 * that hardly ever runs as for any other. Loops that are not worth it say so (`rolled`); PTX has it as .pragma
 * "nounroll".
 *
 * Loops of copies that run ahead have an address and tests for each copy. LLVM's loop strength reduction, whose time grows
 * with the square of their number, would make each of them a register that is counted; ptxas, given the arithmetic, makes
 * fewer instructions of it.
 */
#include "codegen-llvm/gen.h"

#include <llvm-c/DebugInfo.h>
#include <string.h>

/* The same number, of which LLVM does not know that it counts. */
static lv uncounted(sn_gen *g, lv i) {
    LLVMTypeRef type = LLVMTypeOf(i);
    return sn_em_assembly(&g->em, type, "", type == g->em.cg->i64 ? "=l,0" : "=r,0", &i, 1);
}

void sn_gen_loop_begin(sn_gen *g, sn_gen_loop *l, sn_axis ax, lv first, lv n, bool may_be_empty) {
    sn_em *em = &g->em;
    *l = (sn_gen_loop){
        .ax = ax, .n = n, .guarded = may_be_empty, .rolled = g->rare, .mark = sn_gen_mark(g), .turn = g->turn};
    if (may_be_empty) l->guard = sn_em_then(em, em_icmp(em, LLVMIntSLT, first, n), "loop");
    l->before = LLVMGetInsertBlock(em->b);
    l->body = sn_em_block(em, "body");
    LLVMBuildBr(em->b, l->body);
    LLVMPositionBuilderAtEnd(em->b, l->body);
    l->i = LLVMBuildPhi(em->b, LLVMTypeOf(n), "");
    LLVMAddIncoming(l->i, &first, &l->before, 1);
    if (ax.i) g->axes[ax.i] = g->runs_ahead && g->gpu ? uncounted(g, l->i) : l->i;
    g->unseen = true;
}

void sn_gen_loop_carry(sn_gen *g, sn_gen_loop *l, lv *phis, lv *state, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) {
        phis[k] = LLVMBuildPhi(g->em.b, LLVMTypeOf(state[k]), "");
        LLVMAddIncoming(phis[k], &state[k], &l->before, 1);
        state[k] = phis[k];
    }
}

/* A loop's name is a node that names itself: two loops would be one otherwise. */
void sn_gen_keep_rolled(sn_gen *g, lv back) {
    static const char WORD[] = "llvm.loop.unroll.disable", NAME[] = "llvm.loop";
    LLVMContextRef cx = g->em.cg->cx;
    if (!g->gpu) return;
    LLVMMetadataRef word = LLVMMDStringInContext2(cx, WORD, strlen(WORD)), self = LLVMTemporaryMDNode(cx, NULL, 0);
    LLVMMetadataRef nodes[] = {self, LLVMMDNodeInContext2(cx, &word, 1)};
    LLVMMetadataRef name = LLVMMDNodeInContext2(cx, nodes, SN_COUNT(nodes));
    LLVMMetadataReplaceAllUsesWith(self, name);
    LLVMSetMetadata(back, LLVMGetMDKindIDInContext(cx, NAME, (unsigned)strlen(NAME)), LLVMMetadataAsValue(cx, name));
}

void sn_gen_loop_end(sn_gen *g, sn_gen_loop *l, lv *phis, lv *next, uint32_t n_phis) {
    sn_em *em = &g->em;
    sn_gen_settle(g, &l->turn);
    lv i = LLVMBuildNSWAdd(em->b, l->i, sn_em_i(em, l->i, 1), "");
    LLVMBasicBlockRef last = LLVMGetInsertBlock(em->b);
    LLVMAddIncoming(l->i, &i, &last, 1);
    for (uint32_t k = 0; k < n_phis; k++) LLVMAddIncoming(phis[k], &next[k], &last, 1);
    l->after = sn_em_block(em, "done");
    lv back = LLVMBuildCondBr(em->b, em_icmp(em, LLVMIntSLT, i, l->n), l->body, l->after);
    if (l->rolled) sn_gen_keep_rolled(g, back);
    LLVMPositionBuilderAtEnd(em->b, l->after);
    sn_gen_release(g, l->mark);
    if (l->ax.i) g->axes[l->ax.i] = NULL;
    if (!l->guarded) return;
    sn_em_end(em, &l->guard);
    for (uint32_t k = 0; k < n_phis; k++)
        next[k] = sn_em_merge(em, &l->guard, l->after, next[k], LLVMGetIncomingValue(phis[k], 0));
}
