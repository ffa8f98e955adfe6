/* cluster.c: what blocks do together: reductions across the blocks of a cluster, and the last block of a grid loop.
 *
 * Cluster: each block, its own state complete, writes it into a slot of every block's shared memory; after the cluster's
 * barrier each reads its own slots in order. Two areas are used in turn: a block writes to an area again only after the
 * barrier of the use in between, which every reader of the first has passed. The first write waits until all blocks have
 * started.
 *
 * Last block: what follows a grid loop runs on the block that finds itself to be the last one. Each block's stores are
 * released before one of its threads counts it; the counter wraps to 0, so the next launch finds it ready. The counters
 * are globals of the module: two runs of one kernel at the same time would share them, as they share the workspace.
 * LLVM 22 drops the order of atomicrmw, hence the inline assembly.
 */
#include "codegen-llvm/gen.h"

#include <string.h>

static lv c32(sn_gen *g, int64_t x) { return sn_em_ci(g->em.cg->i32, x); }

/* ---- clusters ---- */

static void call_void(sn_gen *g, const char *name) { sn_em_call(&g->em, name, NULL, NULL, 0); }

/* All blocks of the cluster have started: before the first write to another one. */
static void all_started(sn_gen *g) {
    if (g->cluster_waits) call_void(g, "llvm.nvvm.barrier.cluster.wait.aligned");
    g->cluster_waits = false;
}

void sn_gen_cluster_barrier(sn_gen *g) {
    all_started(g);
    call_void(g, "llvm.nvvm.barrier.cluster.arrive.aligned");
    call_void(g, "llvm.nvvm.barrier.cluster.wait.aligned");
}

/* Does every path come to the first exchange once? Then the wait stands there, behind the loads that are on their way. */
static bool first_exchange_is_straight(const sn_gen *g) {
    for (sn_stmt s = g->k->first; s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->op != SN_LOP_BARRIER && (r->op != SN_LOP_REDUCE || r->kind != SN_AXIS_CLUSTER)) continue;
        for (sn_stmt up = r->parent; up.i; up = sn_stmt_get(g->m, up)->parent) {
            const sn_stmt_rec *u = sn_stmt_get(g->m, up);
            if (u->op != SN_LOP_LOOP || (u->kind != SN_AXIS_GRID && u->kind != SN_AXIS_BLOCK_Y)) return false;
        }
        return true;
    }
    return false;
}

void sn_gen_cluster_start(sn_gen *g) {
    if (g->cluster <= 1) return;
    lv id = g->block, size = sn_em_i(&g->em, id, g->cluster);
    g->rank = LLVMBuildURem(g->em.b, id, size, "rank");
    g->block = LLVMBuildUDiv(g->em.b, id, size, "cluster");
    call_void(g, "llvm.nvvm.barrier.cluster.arrive.aligned");
    g->cluster_waits = true;
    if (!first_exchange_is_straight(g)) all_started(g);
}

static lv at(sn_gen *g, lv base, lv bytes) { return LLVMBuildInBoundsGEP2(g->em.b, g->em.cg->i8, base, &bytes, 1, ""); }

/* Slot of block `block` and row `row`: [state][block][row]. */
typedef struct slots {
    lv base;
    uint32_t offset[SN_GEN_STATES], bytes[SN_GEN_STATES], rows;
} slots;

static lv slot(sn_gen *g, const slots *sl, uint32_t k, lv block) {
    sn_em *em = &g->em;
    lv row = g->threads_y > 1 ? LLVMBuildIntCast2(em->b, g->thread_y, em->cg->i32, 0, "") : c32(g, 0);
    lv index = em_iadd(em, em_imul(em, block, c32(g, sl->rows)), row);
    return em_iadd(em, c32(g, sl->offset[k]), em_imul(em, index, c32(g, sl->bytes[k])));
}

/* Threads 0 .. cluster-1 of each row write the state of this block to block number x. */
static void send(sn_gen *g, const sn_gen_states *st, const slots *sl, const lv *x) {
    sn_em *em = &g->em;
    lv thread = LLVMBuildIntCast2(em->b, g->thread_x, em->cg->i32, 0, "");
    lv rank = LLVMBuildIntCast2(em->b, g->rank, em->cg->i32, 0, "");
    for (uint32_t first = 0; first < g->cluster; first += g->threads_x) {
        lv to = em_iadd(em, thread, c32(g, first));
        sn_em_if branch = sn_em_then(em, em_icmp(em, LLVMIntULT, to, c32(g, g->cluster)), "send");
        for (uint32_t k = 0; k < st->n; k++) {
            lv args[2] = {at(g, sl->base, slot(g, sl, k, rank)), to};
            lv remote = sn_em_call(em, "llvm.nvvm.mapa.shared.cluster", NULL, args, 2);
            lv s = LLVMBuildStore(em->b, sn_math_to_storage(em, st->dtypes[k], x[k]), remote);
            LLVMSetAlignment(s, sl->bytes[k] < 16 ? sl->bytes[k] : 16);
        }
        sn_em_end(em, &branch);
    }
}

static void receive(sn_gen *g, const sn_gen_states *st, const slots *sl, const uint32_t *lanes, lv *x) {
    sn_em *em = &g->em;
    for (uint32_t block = 0; block < g->cluster; block++) {
        lv other[SN_GEN_STATES];
        for (uint32_t k = 0; k < st->n; k++) {
            LLVMTypeRef type = sn_em_shape(sn_math_storage(em->cg, st->dtypes[k]), lanes[k]);
            lv l = LLVMBuildLoad2(em->b, type, at(g, sl->base, slot(g, sl, k, c32(g, block))), "");
            LLVMSetAlignment(l, sl->bytes[k] < 16 ? sl->bytes[k] : 16);
            other[k] = sn_math_from_storage(em, st->dtypes[k], l);
            if (!block) x[k] = other[k];
        }
        if (block) sn_gen_combine(g, st, x, other);
    }
}

void sn_gen_cluster_reduce(sn_gen *g, const sn_gen_states *st, lv *x) {
    if (g->cluster <= 1) return;
    slots sl = {.rows = g->threads_y};
    uint32_t lanes[SN_GEN_STATES], total = 0;
    for (uint32_t k = 0; k < st->n; k++) {
        lanes[k] = sn_em_lanes(x[k]);
        sl.offset[k] = total;
        sl.bytes[k] = 1;
        while (sl.bytes[k] < sn_dtype_bytes(st->dtypes[k]) * lanes[k]) sl.bytes[k] *= 2;
        total += (sl.bytes[k] * g->cluster * sl.rows + 15) / 16 * 16;
    }
    sl.base = sn_gen_area(g, true, total);
    all_started(g);
    send(g, st, &sl, x);
    sn_gen_cluster_barrier(g);
    receive(g, st, &sl, lanes, x);
}

/* ---- the last block ---- */

static lv assembly(sn_gen *g, LLVMTypeRef result, const char *text, const char *constraints, lv *args, unsigned n) {
    LLVMTypeRef types[4];
    for (unsigned i = 0; i < n; i++) types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef type = LLVMFunctionType(result, types, n, 0);
    lv code =
        LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints), 1, 0, LLVMInlineAsmDialectATT, 0);
    return LLVMBuildCall2(g->em.b, type, code, args, n, "");
}

static void fence(sn_gen *g) { assembly(g, g->em.cg->vd, "fence.acq_rel.gpu;", "~{memory}", NULL, 0); }

static lv new_global(sn_gen *g, const char *name, LLVMTypeRef type, unsigned space) {
    lv v = LLVMAddGlobalInAddressSpace(g->em.mod, type, name, space);
    LLVMSetInitializer(v, space == 3 ? LLVMGetUndef(type) : LLVMConstNull(type));
    LLVMSetLinkage(v, LLVMInternalLinkage);
    LLVMSetAlignment(v, 4);
    return v;
}

/* Counts this block; true on the last of `blocks` blocks of its group. */
static lv is_last(sn_gen *g, lv group, int64_t groups, int64_t blocks) {
    sn_em *em = &g->em;
    lv counters = new_global(g, "sn_blocks_done", LLVMArrayType2(em->cg->i32, (uint64_t)groups), 1);
    lv answer = new_global(g, "sn_block_number", em->cg->i32, 3);
    sn_gen_barrier(g);
    lv zero = sn_em_i(em, g->thread_x, 0);
    lv first = em_and(em, em_icmp(em, LLVMIntEQ, g->thread_x, zero), em_icmp(em, LLVMIntEQ, g->thread_y, zero));
    sn_em_if branch = sn_em_then(em, first, "count");
    fence(g);
    lv counter = LLVMBuildInBoundsGEP2(em->b, em->cg->i32, counters, &group, 1, "");
    lv args[2] = {counter, c32(g, blocks - 1)};
    lv old = assembly(g, em->cg->i32, "atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;", "=r,l,r,~{memory}", args, 2);
    LLVMSetAlignment(LLVMBuildStore(em->b, old, answer), 4);
    sn_em_end(em, &branch);
    sn_gen_barrier(g);
    lv number = LLVMBuildLoad2(em->b, em->cg->i32, answer, "");
    LLVMSetAlignment(number, 4);
    return em_icmp(em, LLVMIntEQ, number, c32(g, blocks - 1));
}

void sn_gen_tail_begin(sn_gen *g, sn_gen_tail *t, int64_t blocks) {
    *t = (sn_gen_tail){.open = true, .mark = sn_gen_mark(g), .turns = g->turns};
    if (g->cluster > 1 && g->status == SN_OK)
        g->status =
            sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: a cluster and a last block in one kernel", g->k->name);
    int64_t groups = g->grid / blocks;
    lv group = sn_em_i(&g->em, g->block_number, 0);
    if (groups > 1) group = LLVMBuildUDiv(g->em.b, g->block_number, sn_em_i(&g->em, g->block_number, blocks), "");
    t->branch = sn_em_then(&g->em, is_last(g, group, groups, blocks), "last_block");
    fence(g);
}

void sn_gen_tail_end(sn_gen *g, sn_gen_tail *t) {
    if (!t->open) return;
    sn_gen_settle(g, &t->turns);
    sn_em_end(&g->em, &t->branch);
    sn_gen_release(g, t->mark);
}
