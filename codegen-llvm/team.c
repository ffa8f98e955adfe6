/* team.c: reductions across the blocks of a team: a cluster of any size, whose blocks meet in global memory.
 *
 *     counter[block]               exchanges of the block in all launches so far
 *     word[turn][team][state][c]   number of the exchange << 32 | bits of the state of block c (posted.c)
 *
 *     exchange e:   first thread: stores its block's state with number e, turn = e mod 2
 *                   thread x: waits for blocks x, x + X, .. of its team to have number e, and combines them
 *                   the threads of the block combine what they have
 *
 * All blocks of a team make the same exchanges, so that their counters agree although nobody shares them, and every block
 * combines the same words in the same order: the same bits everywhere, and in every run. A word is stored again two
 * exchanges later, by a block that has seen all words of the one between, whose owners had read the first. A launch
 * begins when the one before has ended.
 *
 * A block waits for others that may not have started: all blocks of the launch have to run at once. The runtime launches
 * such a kernel in one piece or not at all (cuLaunchCooperativeKernel).
 *
 * Cost: a store and a load of a word that is in the L2, one or two microseconds, and two barriers a block. On the host the
 * blocks of a team are iterations of a loop, as those of a cluster are.
 */
#include "codegen-llvm/gen.h"

/* ---- start and end ---- */

static lv clock_of(sn_gen *g) { return sn_em_call(&g->em, "llvm.nvvm.read.ptx.sreg.clock64", NULL, NULL, 0); }

/* Teams come in groups, of which each is on all multiprocessors, and has memory for itself when it loads its first row: one loads
 * from then on while another waits or stores. All in step would leave memory idle when they wait: six microseconds a row on an H100. */
static void fall_out_of_step(sn_gen *g) {
    enum { MOST = 4 };
    sn_em *em = &g->em;
    const sn_target *t = em->cg->target;
    uint32_t groups = g->k->sched.min_blocks < MOST ? g->k->sched.min_blocks : MOST;
    if (groups > g->teams) groups = g->teams;
    double bytes = (double)g->teams * g->cluster * (double)g->shared_total / groups;
    int64_t cycles = t->cycle_bytes > 0 ? (int64_t)(bytes / (t->units * (double)t->cycle_bytes)) : 0;
    if (groups < 2 || !cycles) return;
    lv number = LLVMBuildIntCast2(em->b, g->team.number, em->cg->i64, 0, "");
    lv group = em_imul(em, number, sn_em_ci(em->cg->i64, groups));
    group = LLVMBuildUDiv(em->b, group, sn_em_ci(em->cg->i64, (int64_t)g->teams * g->cluster), "");
    lv wanted = em_imul(em, group, sn_em_ci(em->cg->i64, cycles)), began = clock_of(g);
    LLVMBasicBlockRef ask = sn_em_block(em, "behind"), go = sn_em_block(em, "go");
    LLVMBuildBr(em->b, ask);
    LLVMPositionBuilderAtEnd(em->b, ask);
    lv passed = em_isub(em, clock_of(g), began);
    LLVMBuildCondBr(em->b, em_icmp(em, LLVMIntUGE, passed, wanted), go, ask);
    LLVMPositionBuilderAtEnd(em->b, go);
}

static lv own_counter(sn_gen *g) {
    return LLVMBuildInBoundsGEP2(g->em.b, g->em.cg->i32, g->team.counters, &g->team.number, 1, "");
}

void sn_gen_team_start(sn_gen *g) {
    sn_em *em = &g->em;
    g->team.number = g->block;
    g->team.counters = sn_gen_kept(g, (uint64_t)g->grid * g->cluster * 4);
    g->team.exchange = LLVMBuildAlloca(em->b, em->cg->i32, "exchange");
    LLVMBuildStore(em->b, LLVMBuildLoad2(em->b, em->cg->i32, own_counter(g), ""), g->team.exchange);
    fall_out_of_step(g);
}

/* Behind the last exchange all threads have read the counter. */
void sn_gen_team_end(sn_gen *g) {
    sn_em_if first = sn_em_then(&g->em, sn_gen_first_thread(g), "first_thread");
    LLVMBuildStore(g->em.b, LLVMBuildLoad2(g->em.b, g->em.cg->i32, g->team.exchange, ""), own_counter(g));
    sn_em_end(&g->em, &first);
}

/* ---- exchange ---- */

/* The words of one state, from the first block of the team on. */
typedef struct exchange {
    sn_gen_words of[SN_GEN_STATES];
    uint32_t n;
} exchange;

/* The next exchange, of states of these dtypes. */
static exchange begin(sn_gen *g, const sn_dtype *dtypes, uint32_t n) {
    sn_em *em = &g->em;
    const sn_cg *cg = em->cg;
    exchange ex = {.n = n};
    uint64_t words = 0, before = 0;
    for (uint32_t k = 0; k < n; k++) words += sn_dtype_bytes(dtypes[k]) > 4 ? 2 : 1;
    uint64_t each = words * g->cluster;
    lv base = sn_gen_kept(g, 2 * g->teams * each * 8);
    lv number = em_iadd(em, LLVMBuildLoad2(em->b, cg->i32, g->team.exchange, ""), sn_gen_c32(g, 1));
    LLVMBuildStore(em->b, number, g->team.exchange);
    lv turn = em_imul(em, em_and(em, number, sn_gen_c32(g, 1)), sn_gen_c32(g, g->teams));
    lv team = LLVMBuildUDiv(em->b, g->team.number, sn_em_i(em, g->team.number, g->cluster), "");
    lv area = em_iadd(em, LLVMBuildIntCast2(em->b, team, cg->i32, 0, ""), turn);
    area = em_imul(em, LLVMBuildZExt(em->b, area, cg->i64, ""), sn_em_ci(cg->i64, (int64_t)each));
    for (uint32_t k = 0; k < n; k++) {
        lv at = em_iadd(em, area, sn_em_ci(cg->i64, (int64_t)before));
        ex.of[k] = (sn_gen_words){LLVMBuildGEP2(em->b, cg->i64, base, &at, 1, ""), dtypes[k], number};
        before += (uint64_t)(sn_dtype_bytes(dtypes[k]) > 4 ? 2 : 1) * g->cluster;
    }
    return ex;
}

static void tell(sn_gen *g, const exchange *ex, const lv *stored) {
    sn_em_if first = sn_em_then(&g->em, sn_gen_first_thread(g), "first_thread");
    for (uint32_t k = 0; k < ex->n; k++) sn_gen_put_words(g, &ex->of[k], g->rank, stored[k]);
    sn_em_end(&g->em, &first);
}

/* out[k*turns + i]: state k of block thread_x + i*X; wanted[i] NULL: there are so many blocks. */
static void hear(sn_gen *g, const exchange *ex, uint32_t turns, lv *wanted, lv *out) {
    sn_em *em = &g->em;
    uint32_t n = ex->n * turns;
    sn_gen_words *words = SN_NEWN(g->arena, sn_gen_words, n);
    lv *elements = SN_NEWN(g->arena, lv, n), *asked = SN_NEWN(g->arena, lv, n);
    for (uint32_t i = 0; i < turns; i++) {
        lv block = em_iadd(em, g->thread_x, sn_em_i(em, g->thread_x, (int64_t)i * g->threads_x));
        bool all = (uint64_t)(i + 1) * g->threads_x <= g->cluster;
        wanted[i] = all ? NULL : em_icmp(em, LLVMIntULT, block, sn_em_i(em, block, g->cluster));
        for (uint32_t k = 0; k < ex->n; k++) {
            words[k * turns + i] = ex->of[k];
            elements[k * turns + i] = block;
            asked[k * turns + i] = wanted[i];
        }
    }
    sn_gen_await_words(g, words, elements, asked, n, out);
}

static uint32_t turns_of(const sn_gen *g) { return (g->cluster + g->threads_x - 1) / g->threads_x; }

void sn_gen_team_reduce(sn_gen *g, const sn_gen_states *st, lv *x) {
    sn_em *em = &g->em;
    uint32_t turns = turns_of(g);
    if (g->threads_y > 1 && g->status == SN_OK)
        g->status = sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: several rows a block in a team", g->k->name);
    lv stored[SN_GEN_STATES], state[SN_GEN_STATES], none[SN_GEN_STATES];
    for (uint32_t k = 0; k < st->n; k++) {
        if (sn_em_lanes(x[k]) > 1 && g->status == SN_OK)
            g->status = sn_fail(g->env, SN_ERROR_UNSUPPORTED,
                                "kernel %s: lanes of a reduction over the blocks of a team", g->k->name);
        if (g->status != SN_OK) return;
        stored[k] = sn_math_to_storage(em, st->dtypes[k], x[k]);
    }
    exchange ex = begin(g, st->dtypes, st->n);
    lv *wanted = SN_NEWN(g->arena, lv, turns), *heard = SN_NEWN(g->arena, lv, (size_t)st->n * turns);
    tell(g, &ex, stored);
    hear(g, &ex, turns, wanted, heard);
    sn_gen_identities(g, st, none);
    for (uint32_t i = 0; i < turns; i++) {
        for (uint32_t k = 0; k < st->n; k++) {
            lv y = sn_math_from_storage(em, st->dtypes[k], heard[k * turns + i]);
            (i ? state : x)[k] = wanted[i] ? em_select(em, wanted[i], y, none[k]) : y;
        }
        if (i) sn_gen_combine(g, st, x, state);
    }
    sn_gen_block_reduce(g, st, SN_AXIS_BLOCK_X, x);
}

/* What any thread of the team stored before is seen by all of them behind it. */
void sn_gen_team_barrier(sn_gen *g) {
    sn_em *em = &g->em;
    const sn_dtype word = SN_I32;
    uint32_t turns = turns_of(g);
    exchange ex = begin(g, &word, 1);
    lv *wanted = SN_NEWN(g->arena, lv, turns), *heard = SN_NEWN(g->arena, lv, turns), zero = sn_gen_c32(g, 0);
    sn_em_assembly(em, em->cg->vd, "fence.acq_rel.gpu;", "~{memory}", NULL, 0);
    sn_gen_barrier(g);
    tell(g, &ex, &zero);
    hear(g, &ex, turns, wanted, heard);
    sn_em_assembly(em, em->cg->vd, "fence.acq_rel.gpu;", "~{memory}", NULL, 0);
    sn_gen_barrier(g);
}
