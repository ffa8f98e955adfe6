/* cluster.c: reductions across the blocks of a cluster.
 *
 * Each block, its own state complete, writes it into a slot of every block's shared memory; when all have arrived each
 * reads its own slots in order. Two areas are used in turn: a block writes to an area again only after the exchange in
 * between, which every reader of the first has passed: the threads of a block meet between two exchanges. The first
 * write waits until all blocks have started.
 *
 * A state is one of a row, which the threads x have alike, or, inside of a block.x axis, one of a column, which the threads y do
 * (class outer). Those that have it alike send it, each to another block.
 *
 * How a block knows that all have arrived: states of whole words, of one row or of all columns of the block, are stored asynchronously and counted
 * (arrivals.c): a thread waits for the bytes of its own block's slots, for nothing else. No block ends too early: it waits for all that
 * is sent to it. For other states, those of very many columns, and in blocks of several rows, the cluster's barrier stands before the exchange,
 * in it and behind it, each time with a wait for all that threads have stored.
 */
#include "codegen-llvm/gen.h"

static void call_void(sn_gen *g, const char *name) { sn_em_call(&g->em, name, NULL, NULL, 0); }

/* ---- start ---- */

/* All blocks of the cluster have started: before the first write to another one. */
static void all_started(sn_gen *g) {
    if (g->cluster_waits) call_void(g, "llvm.nvvm.barrier.cluster.wait.aligned");
    g->cluster_waits = false;
}

void sn_gen_cluster_barrier(sn_gen *g) {
    if (g->teams) {
        sn_gen_team_barrier(g);
        return;
    }
    all_started(g);
    call_void(g, "llvm.nvvm.barrier.cluster.arrive.aligned");
    call_void(g, "llvm.nvvm.barrier.cluster.wait.aligned");
}

/* Does every path come to the first exchange once? Then the wait stands there, behind the loads that are on their
 * way. */
static bool first_is_straight(const sn_gen *g) {
    for (sn_stmt s = g->k->first; s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->op != SN_LOP_BARRIER && (r->op != SN_LOP_REDUCE || r->kind != SN_AXIS_CLUSTER)) continue;
        for (sn_stmt up = r->parent; up.i; up = sn_stmt_get(g->m, up)->parent) {
            const sn_stmt_rec *u = sn_stmt_get(g->m, up);
            bool once = u->kind == SN_AXIS_GRID || u->kind == SN_AXIS_BLOCK_X || u->kind == SN_AXIS_BLOCK_Y;
            if (u->op != SN_LOP_LOOP || (!once && u->kind != SN_AXIS_VECTOR)) return false;
        }
        return true;
    }
    return false;
}

/* Are all exchanges those of columns, whose threads x stand around them? */
static bool columns_meet(const sn_gen *g) {
    for (sn_stmt s = g->k->first; s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        bool in_x = false;
        if (r->op != SN_LOP_REDUCE || r->kind != SN_AXIS_CLUSTER) continue;
        for (sn_stmt up = r->parent; up.i; up = sn_stmt_get(g->m, up)->parent)
            in_x |= sn_stmt_get(g->m, up)->kind == SN_AXIS_BLOCK_X;
        if (!in_x) return false;
    }
    return true;
}

void sn_gen_cluster_start(sn_gen *g) {
    g->rank = sn_em_ci(g->index, 0); /* of an axis of one block */
    if (g->cluster <= 1) return;
    lv id = g->block, size = sn_em_i(&g->em, id, g->cluster);
    g->rank = LLVMBuildURem(g->em.b, id, size, "rank");
    if (g->teams) sn_gen_team_start(g);
    g->block = LLVMBuildUDiv(g->em.b, id, size, "cluster");
    if (g->teams) return;
    if (g->threads_y == 1 || columns_meet(g)) sn_gen_make_arrivals(g);
    call_void(g, "llvm.nvvm.barrier.cluster.arrive.relaxed.aligned");
    g->cluster_waits = true;
    if (!first_is_straight(g)) all_started(g);
}

/* ---- exchange ---- */

static lv at(sn_gen *g, lv base, lv bytes) { return LLVMBuildInBoundsGEP2(g->em.b, g->em.cg->i8, base, &bytes, 1, ""); }

/* Slot of block `block` and row `row` (or column): [state][block][row]. */
typedef struct slots {
    lv base, row, sender; /* of this thread: its row; its number among those that have the state of the row alike */
    uint32_t offset[SN_GEN_STATES], bytes[SN_GEN_STATES], rows, senders;
    bool counted;
} slots;

static slots slots_of(sn_gen *g) {
    lv x = LLVMBuildIntCast2(g->em.b, g->thread_x, g->em.cg->i32, 0, ""), y = x;
    if (g->threads_y > 1) y = LLVMBuildIntCast2(g->em.b, g->thread_y, g->em.cg->i32, 0, "");
    else y = sn_gen_c32(g, 0);
    bool counted = g->arrivals.objects != NULL;
    if (g->in_x)
        return (slots){.row = x, .sender = y, .rows = g->threads_x, .senders = g->threads_y, .counted = counted};
    return (slots){.row = y, .sender = x, .rows = g->threads_y, .senders = g->threads_x, .counted = counted};
}

static lv slot(sn_gen *g, const slots *sl, uint32_t k, lv block) {
    sn_em *em = &g->em;
    lv index = em_iadd(em, em_imul(em, block, sn_gen_c32(g, sl->rows)), sl->row);
    return em_iadd(em, sn_gen_c32(g, sl->offset[k]), em_imul(em, index, sn_gen_c32(g, sl->bytes[k])));
}

/* Threads 0 .. cluster-1 of each row write the state of this block to the block of their number. */
static void send(sn_gen *g, const sn_gen_states *st, const slots *sl, const lv *x) {
    sn_em *em = &g->em;
    lv rank = LLVMBuildIntCast2(em->b, g->rank, em->cg->i32, 0, "");
    for (uint32_t first = 0; first < g->cluster; first += sl->senders) {
        lv to = em_iadd(em, sl->sender, sn_gen_c32(g, first));
        sn_em_if branch = sn_em_then(em, em_icmp(em, LLVMIntULT, to, sn_gen_c32(g, g->cluster)), "send");
        for (uint32_t k = 0; k < st->n; k++) {
            lv args[2] = {at(g, sl->base, slot(g, sl, k, rank)), to};
            lv remote = sn_em_call(em, "llvm.nvvm.mapa.shared.cluster", NULL, args, 2);
            lv stored = sn_math_to_storage(em, st->dtypes[k], x[k]);
            if (sl->counted) sn_gen_send(g, remote, stored, sl->bytes[k], to);
            else LLVMSetAlignment(LLVMBuildStore(em->b, stored, remote), sl->bytes[k] < 16 ? sl->bytes[k] : 16);
        }
        sn_em_end(em, &branch);
    }
}

static void receive(sn_gen *g, const sn_gen_states *st, const slots *sl, const uint32_t *lanes, lv *x) {
    sn_em *em = &g->em;
    uint32_t n = g->cluster;
    lv *all = SN_NEWN(g->arena, lv, (size_t)st->n * n);
    for (uint32_t k = 0; k < st->n; k++)
        for (uint32_t block = 0; block < n; block++) {
            LLVMTypeRef type = sn_em_shape(sn_math_storage(em->cg, st->dtypes[k]), lanes[k]);
            lv l = LLVMBuildLoad2(em->b, type, at(g, sl->base, slot(g, sl, k, sn_gen_c32(g, block))), "");
            LLVMSetAlignment(l, sl->bytes[k] < 16 ? sl->bytes[k] : 16);
            all[(size_t)k * n + block] = sn_math_from_storage(em, st->dtypes[k], l);
        }
    sn_gen_combine_all(g, st, all, n, x);
}

void sn_gen_cluster_reduce(sn_gen *g, const sn_gen_states *st, lv *x, bool met) {
    enum { MOST_COUNTED = 8 << 10 }; /* bytes of slots, of which there are two areas then */
    if (g->cluster <= 1) return;
    if (g->teams) {
        sn_gen_team_reduce(g, st, x);
        return;
    }
    slots sl = slots_of(g);
    uint32_t lanes[SN_GEN_STATES], total = 0, bytes = 0;
    for (uint32_t k = 0; k < st->n; k++) {
        lanes[k] = sn_em_lanes(x[k]);
        sl.offset[k] = total;
        sl.bytes[k] = 1;
        while (sl.bytes[k] < sn_dtype_bytes(st->dtypes[k]) * lanes[k]) sl.bytes[k] *= 2;
        bytes += sl.bytes[k] * g->cluster * sl.rows;
        sl.counted &= sl.bytes[k] >= 4;
        total += (sl.bytes[k] * g->cluster * sl.rows + 15) / 16 * 16;
    }
    sl.counted &= total <= MOST_COUNTED;
    sl.base = sn_gen_cluster_area(g, 0, total);
    if (sl.counted) sl.base = sn_gen_in_turn(g, sl.base, sn_gen_cluster_area(g, 1, total));
    if (sl.counted && !met) sn_gen_barrier(g);
    if (sl.counted) all_started(g), sn_gen_expect(g, bytes);
    else sn_gen_cluster_barrier(g);
    send(g, st, &sl, x);
    if (sl.counted) sn_gen_wait(g);
    else sn_gen_cluster_barrier(g);
    receive(g, st, &sl, lanes, x);
    if (!sl.counted) sn_gen_cluster_barrier(g);
}
