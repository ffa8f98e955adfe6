/* copy.c: asynchronous copies from global to shared memory.
 *
 *     %0 = load x[i]   store s[j], %0        in a bulk nest
 *
 * becomes cp.async. Pieces are 4, 8 or 16 bytes; a masked copy fills with zeros, also behind the
 * last lane that its test lets through. A thread waits for its own copies at
 * the end of a block.x axis that is bulk. Copies of a bulk loop inside one are a group for each iteration, and its
 * await loop waits for one group at a time:
 *
 *     loop x { loop u in 4 { copies; commit_group } }   reduce x { reduce u in 4 { wait_group 3 - u; loads } }
 *
 * Copies that run ahead in a pipe are waited for there (pipe.c). Relies on the promises (docs/IR.md), which the pass
 * `async-copy` makes. GPUs before sm_80 have no such copies: there, and where what the kernel copies from may share its
 * storage with what it writes, a load and a store are what they always are.
 */
#include "codegen-llvm/gen.h"

#include <stdio.h>

void sn_gen_make_copies(sn_gen *g) {
    enum { FIRST_SM = 80 };
    sn_kern_copies(&g->copied, g->m, g->kern, g->arena);
    if (g->em.cg->target->sm < FIRST_SM || g->threads_x == 1 || !g->copied.n) return;
    g->copies = SN_NEWN(g->arena, uint8_t, g->m->vals.count);
    for (uint32_t i = 0; i < g->copied.n; i++) {
        const sn_stmt_rec *load = sn_stmt_get(g->m, g->copied.at[i].load);
        if (g->copied.at[i].bulk.i && g->steady[load->buf.i]) g->copies[load->result.i] = 1;
    }
}

/* One piece: `bytes` bytes from global p to shared q, or zeros behind the first `some` of them (none: all). */
void sn_gen_copy_piece(sn_gen *g, lv q, lv p, uint32_t bytes, lv some) {
    sn_em *em = &g->em;
    char name[64];
    snprintf(name, sizeof name, "llvm.nvvm.cp.async.%s.shared.global.%u%s", bytes == 16 ? "cg" : "ca", bytes,
             some ? ".s" : "");
    lv args[3] = {q, p, some};
    sn_em_call(em, name, NULL, args, some ? 3 : 2);
    g->copying = true;
}

void sn_gen_commit_copies(sn_gen *g) { sn_em_call(&g->em, "llvm.nvvm.cp.async.commit.group", NULL, NULL, 0); }

void sn_gen_wait_copies(sn_gen *g, int64_t under_way) {
    lv rest = sn_em_ci(g->em.cg->i32, under_way);
    sn_em_call(&g->em, "llvm.nvvm.cp.async.wait.group", NULL, &rest, 1);
}

void sn_gen_end_copies(sn_gen *g, const sn_stmt_rec *threads) {
    if (!g->copying || !threads->bulk || g->runs_ahead) return;
    sn_em_call(&g->em, "llvm.nvvm.cp.async.wait.all", NULL, NULL, 0);
    g->copying = false;
}

void sn_gen_part_made(sn_gen *g, const sn_stmt_rec *loop) {
    if (g->copying && loop->bulk) sn_gen_commit_copies(g);
}

bool sn_gen_waits_for_parts(const sn_gen *g, const sn_stmt_rec *loop) { return g->copying && loop->await; }

void sn_gen_part_used(sn_gen *g, const sn_stmt_rec *loop, int64_t i, int64_t n) {
    if (!sn_gen_waits_for_parts(g, loop)) return;
    sn_gen_wait_copies(g, n - 1 - i);
    if (i == n - 1) g->copying = false;
}
