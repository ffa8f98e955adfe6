/* prefetch.c: elements that are on their way to the L2 cache before somebody loads them (`prefetch`, docs/IR.md).
 *
 *     prefetch x[e], n if %m   ->   if the first thread and %m { cp.async.bulk.prefetch.L2 [x + e], bytes }
 *
 * One instruction of one thread moves as many bytes as a block loads, and nobody waits for it. It takes whole pieces of
 * 16 bytes: the address is rounded down, which stays in the storage, and so is the number of bytes; the last ones come
 * with the load. Hopper and later have it; elsewhere it is nothing, as it is on the host, whose caches see for
 * themselves what is walked.
 */
#include "codegen-llvm/gen.h"

enum { PREFETCH_SM = 90, PREFETCH_PTX = 80, PREFETCH_PIECE = 16 };

void sn_gen_prefetch(sn_gen *g, const sn_stmt_rec *s) {
    sn_em *em = &g->em;
    const sn_cg *cg = em->cg;
    const sn_buf_rec *b = sn_buf_get(g->m, s->buf);
    if (!g->gpu || cg->target->sm < PREFETCH_SM) return;
    sn_gen_needs_ptx(g, PREFETCH_PTX);
    sn_val mask_id = sn_stmt_mask(s);
    lv cond = sn_gen_chosen_threads(g, b->scope), mask = mask_id.i ? sn_em_lane(em, sn_gen_val(g, mask_id), 0) : NULL;
    if (mask) cond = cond ? em_and(em, cond, mask) : mask;
    sn_em_if branch;
    uint32_t mark = sn_gen_mark(g);
    if (cond) branch = sn_em_then(em, cond, "prefetch");
    lv e = sn_gen_ix(g, sn_gen_resolve(g, s->ix)), n = sn_gen_ix(g, sn_gen_resolve(g, s->bound));
    lv p = LLVMBuildInBoundsGEP2(em->b, sn_math_storage(cg, b->dtype), g->memory[s->buf.i], &e, 1, "");
    lv bytes = em_imul(em, LLVMBuildTrunc(em->b, n, cg->i32, ""), sn_gen_c32(g, sn_dtype_bytes(b->dtype)));
    lv at = LLVMBuildPtrToInt(em->b, p, cg->i64, "");
    lv args[2] = {em_and(em, at, sn_em_ci(cg->i64, -PREFETCH_PIECE)),
                  em_and(em, bytes, sn_gen_c32(g, -PREFETCH_PIECE))};
    sn_em_assembly(em, cg->vd, "cp.async.bulk.prefetch.L2.global [$0], $1;", "l,r,~{memory}", args, 2);
    if (cond) sn_em_end(em, &branch), sn_gen_release(g, mark);
}
