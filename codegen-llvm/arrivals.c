/* arrivals.c: barrier objects (mbarrier) that count the bytes which other blocks of a cluster send.
 *
 *     sn_gen_make_arrivals     once, before the cluster's start: two objects in the shared memory of every block (of one row)
 *     sn_gen_expect(bytes)     the exchange brings so many bytes to this block
 *     sn_gen_send(..)          one piece of them, to another block
 *     sn_gen_wait              until all have come; what they brought can be read; the next exchange
 *
 * A variable counts exchanges, the same in all threads of the cluster; where the path is straight LLVM knows its value.
 * Exchange e uses object e mod 2 in its phase e / 2: nobody sends for exchange e before everybody is done with e - 2
 * (cluster.c). Bytes may come before they are expected: a phase is over when one thread has said how many, and all are
 * there.
 */
#include "codegen-llvm/gen.h"

enum { OBJECTS = 2 };

static lv number_of(sn_gen *g, lv p) { return LLVMBuildPtrToInt(g->em.b, p, g->em.cg->i64, ""); }

static lv exchange(sn_gen *g) { return LLVMBuildLoad2(g->em.b, g->em.cg->i32, g->arrivals.exchange, "exchange"); }

static lv object(sn_gen *g, lv number) {
    lv bytes = em_imul(&g->em, em_and(&g->em, number, sn_gen_c32(g, OBJECTS - 1)), sn_gen_c32(g, 8));
    return LLVMBuildInBoundsGEP2(g->em.b, g->em.cg->i8, g->arrivals.objects, &bytes, 1, "");
}

void sn_gen_make_arrivals(sn_gen *g) {
    sn_em *em = &g->em;
    g->arrivals.exchange = LLVMBuildAlloca(em->b, em->cg->i32, "exchange");
    LLVMBuildStore(em->b, sn_gen_c32(g, 0), g->arrivals.exchange);
    g->arrivals.objects = sn_em_global(em, "sn_arrivals", LLVMArrayType2(em->cg->i64, OBJECTS), 3, 8);
    sn_em_if first = sn_em_then(&g->em, sn_gen_first_thread(g), "first_thread");
    for (uint32_t e = 0; e < OBJECTS; e++) {
        lv p = number_of(g, object(g, sn_gen_c32(g, e)));
        sn_em_assembly(em, em->cg->vd, "mbarrier.init.shared::cta.b64 [$0], 1;", "l,~{memory}", &p, 1);
    }
    sn_em_assembly(em, em->cg->vd, "fence.mbarrier_init.release.cluster;", "~{memory}", NULL, 0);
    sn_em_end(em, &first);
}

lv sn_gen_in_turn(sn_gen *g, lv even, lv odd) {
    lv bit = em_and(&g->em, exchange(g), sn_gen_c32(g, 1));
    return em_select(&g->em, em_icmp(&g->em, LLVMIntEQ, bit, sn_gen_c32(g, 0)), even, odd);
}

void sn_gen_expect(sn_gen *g, uint32_t bytes) {
    sn_em_if first = sn_em_then(&g->em, sn_gen_first_thread(g), "first_thread");
    lv args[2] = {number_of(g, object(g, exchange(g))), sn_gen_c32(g, bytes)};
    sn_em_assembly(&g->em, g->em.cg->vd, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "l,r,~{memory}",
                   args, 2);
    sn_em_end(&g->em, &first);
}

static void send_piece(sn_gen *g, lv remote, lv x, uint32_t bytes, lv theirs) {
    lv args[3] = {number_of(g, remote), x, theirs};
    if (bytes == 8)
        sn_em_assembly(&g->em, g->em.cg->vd,
                       "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [$0], $1, [$2];", "l,l,l,~{memory}",
                       args, 3);
    else
        sn_em_assembly(&g->em, g->em.cg->vd,
                       "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [$0], $1, [$2];", "l,r,l,~{memory}",
                       args, 3);
}

void sn_gen_send(sn_gen *g, lv remote, lv x, uint32_t bytes, lv to) {
    sn_em *em = &g->em;
    lv place[2] = {object(g, exchange(g)), to};
    lv theirs = number_of(g, sn_em_call(em, "llvm.nvvm.mapa.shared.cluster", NULL, place, 2));
    uint32_t each = bytes < 8 ? bytes : 8, n = bytes / each;
    LLVMTypeRef piece = each == 8 ? em->cg->i64 : em->cg->i32;
    lv pieces = em_bitcast(em, x, sn_em_shape(piece, n));
    for (uint32_t k = 0; k < n; k++) {
        lv offset = sn_gen_c32(g, k * each), one = pieces;
        if (n > 1) one = LLVMBuildExtractElement(em->b, pieces, sn_gen_c32(g, k), "");
        send_piece(g, LLVMBuildInBoundsGEP2(em->b, em->cg->i8, remote, &offset, 1, ""), one, each, theirs);
    }
}

void sn_gen_wait(sn_gen *g) {
    sn_em *em = &g->em;
    lv number = exchange(g), phase = em_and(em, em_lshr(em, number, sn_gen_c32(g, 1)), sn_gen_c32(g, 1));
    sn_gen_wait_object(g, number_of(g, object(g, number)), phase, true);
    LLVMBuildStore(em->b, em_iadd(em, number, sn_gen_c32(g, 1)), g->arrivals.exchange);
}
