/* team.c: reductions across the blocks of a team: a cluster of any size, whose blocks meet in global memory.
 *
 *     counter[block]               exchanges of the block in all launches so far
 *     word[turn][team][state][c]   number of the exchange << 32 | bits of the state of block c (posted.c)
 *
 *     exchange e:   first thread: stores its block's state with number e, turn = e mod 2
 *                   thread x: waits for blocks x, x + X, .. of its team to have number e, and combines them
 *                   the threads of the block combine what they have
 *
 * Of columns, inside block.x, each x has words of its own, and the threads y share the blocks.
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

static lv own_counter(sn_gen *g) {
    return LLVMBuildInBoundsGEP2(g->em.b, g->em.cg->i32, g->team.counters, &g->team.number, 1, "");
}

void sn_gen_team_start(sn_gen *g) {
    sn_em *em = &g->em;
    g->team.number = g->block;
    g->team.counters = sn_gen_kept(g, (uint64_t)g->grid * g->cluster * 4);
    g->team.exchange = LLVMBuildAlloca(em->b, em->cg->i32, "exchange");
    LLVMBuildStore(em->b, LLVMBuildLoad2(em->b, em->cg->i32, own_counter(g), ""), g->team.exchange);
}

/* Behind the last exchange all threads have read the counter. */
void sn_gen_team_end(sn_gen *g) {
    sn_em_if first = sn_em_then(&g->em, sn_gen_first_thread(g), "first_thread");
    LLVMBuildStore(g->em.b, LLVMBuildLoad2(g->em.b, g->em.cg->i32, g->team.exchange, ""), own_counter(g));
    sn_em_end(&g->em, &first);
}

/* ---- exchange ---- */

/* What an exchange moves: words of each block, for each of `columns` threads that have one of their own; and who reads: the
 * threads along `axis`, of which there are n. */
typedef struct exchange {
    sn_gen_words of[SN_GEN_JOINED]; /* from the first block of the team on */
    uint32_t n;
    uint32_t columns, readers;
    lv column, reader;
    sn_axis_kind axis;
} exchange;

/* Threads of block.x share a row, and so do those of block.y a column of the x around. */
static void find_readers(sn_gen *g, exchange *ex) {
    ex->axis = g->in_x ? SN_AXIS_BLOCK_Y : SN_AXIS_BLOCK_X;
    ex->columns = g->in_x ? g->threads_x : 1;
    ex->readers = g->in_x ? g->threads_y : g->threads_x;
    ex->column = g->in_x ? g->thread_x : sn_em_ci(g->index, 0);
    ex->reader = g->in_x ? g->thread_y : g->thread_x;
    if (!g->in_x && g->threads_y > 1 && g->status == SN_OK)
        g->status = sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: several rows a block in a team", g->k->name);
}

static uint32_t words_of(sn_dtype t) { return sn_dtype_bytes(t) > 4 ? 2 : 1; }

/* The next exchange, of n elements of these dtypes. */
static void begin(sn_gen *g, exchange *ex, const sn_dtype *dtypes, uint32_t n) {
    sn_em *em = &g->em;
    const sn_cg *cg = em->cg;
    uint64_t words = 0, before = 0, each = (uint64_t)g->cluster * ex->columns;
    for (uint32_t k = 0; k < n; k++) words += words_of(dtypes[k]) * each;
    lv base = sn_gen_kept(g, 2 * g->teams * words * 8);
    lv number = em_iadd(em, LLVMBuildLoad2(em->b, cg->i32, g->team.exchange, ""), sn_gen_c32(g, 1));
    LLVMBuildStore(em->b, number, g->team.exchange);
    lv turn = em_imul(em, em_and(em, number, sn_gen_c32(g, 1)), sn_gen_c32(g, g->teams));
    lv team = LLVMBuildUDiv(em->b, g->team.number, sn_em_i(em, g->team.number, g->cluster), "");
    lv area = em_iadd(em, LLVMBuildIntCast2(em->b, team, cg->i32, 0, ""), turn);
    area = em_imul(em, LLVMBuildZExt(em->b, area, cg->i64, ""), sn_em_ci(cg->i64, (int64_t)words));
    ex->n = n;
    for (uint32_t k = 0; k < n; k++) {
        lv at = em_iadd(em, area, sn_em_ci(cg->i64, (int64_t)before));
        ex->of[k] = (sn_gen_words){LLVMBuildGEP2(em->b, cg->i64, base, &at, 1, ""), dtypes[k], number};
        before += words_of(dtypes[k]) * each;
    }
}

static lv element_of(sn_gen *g, const exchange *ex, lv block) {
    lv first = em_imul(&g->em, block, sn_em_i(&g->em, block, ex->columns));
    return em_iadd(&g->em, first, ex->column);
}

/* One thread for each column: x[k], of the storage type. */
static void tell(sn_gen *g, const exchange *ex, const lv *x) {
    sn_em *em = &g->em;
    lv first = em_icmp(em, LLVMIntEQ, ex->reader, sn_em_i(em, ex->reader, 0));
    sn_em_if branch = sn_em_then(em, first, "tell");
    for (uint32_t k = 0; k < ex->n; k++) sn_gen_put_words(g, &ex->of[k], element_of(g, ex, g->rank), x[k]);
    sn_em_end(em, &branch);
}

/* Of one thread. */
static uint32_t turns_of(const sn_gen *g, const exchange *ex) { return (g->cluster + ex->readers - 1) / ex->readers; }

/* out[k*turns + i]: element k of the i-th block that the thread reads; wanted[i] NULL: there are so many blocks. */
static void hear(sn_gen *g, const exchange *ex, lv *wanted, lv *out) {
    sn_em *em = &g->em;
    uint32_t turns = turns_of(g, ex), n = ex->n * turns;
    sn_gen_words *words = SN_NEWN(g->arena, sn_gen_words, n);
    lv *elements = SN_NEWN(g->arena, lv, n), *asked = SN_NEWN(g->arena, lv, n);
    for (uint32_t i = 0; i < turns; i++) {
        lv block = em_iadd(em, ex->reader, sn_em_i(em, ex->reader, (int64_t)i * ex->readers));
        bool all = (uint64_t)(i + 1) * ex->readers <= g->cluster;
        wanted[i] = all ? NULL : em_icmp(em, LLVMIntULT, block, sn_em_i(em, block, g->cluster));
        for (uint32_t k = 0; k < ex->n; k++) {
            words[k * turns + i] = ex->of[k];
            elements[k * turns + i] = element_of(g, ex, block);
            asked[k * turns + i] = wanted[i];
        }
    }
    sn_gen_await_words(g, words, elements, asked, n, out);
}

/* ---- reductions ---- */

/* Lanes of a state go one by one: *n elements and their dtypes. */
static void take_apart(sn_gen *g, const sn_gen_states *st, const lv *x, sn_dtype *dtypes, lv *stored, uint32_t *n) {
    *n = 0;
    for (uint32_t k = 0; k < st->n; k++)
        for (uint32_t lane = 0, lanes = sn_em_lanes(x[k]); lane < lanes && g->status == SN_OK; lane++) {
            if (*n == SN_GEN_JOINED) {
                g->status = sn_fail(g->env, SN_ERROR_UNSUPPORTED,
                                    "kernel %s: more than %d values of a thread pass between the blocks of a team",
                                    g->k->name, SN_GEN_JOINED);
                return;
            }
            lv one = lanes > 1 ? sn_em_lane(&g->em, x[k], lane) : x[k];
            dtypes[*n] = st->dtypes[k];
            stored[(*n)++] = sn_math_to_storage(&g->em, st->dtypes[k], one);
        }
}

/* The states of the i-th block that the thread reads, of as many lanes as those of the block itself. */
static void put_together(sn_gen *g, const sn_gen_states *st, const lv *own, const lv *heard, uint32_t turns, uint32_t i,
                         lv *out) {
    uint32_t number = 0;
    for (uint32_t k = 0; k < st->n; k++) {
        uint32_t lanes = sn_em_lanes(own[k]);
        lv all = lanes > 1 ? LLVMGetPoison(LLVMTypeOf(own[k])) : NULL;
        for (uint32_t lane = 0; lane < lanes; lane++, number++) {
            lv one = sn_math_from_storage(&g->em, st->dtypes[k], heard[number * turns + i]);
            all = lanes > 1 ? sn_em_with_lane(&g->em, all, lane, one) : one;
        }
        out[k] = all;
    }
}

void sn_gen_team_reduce(sn_gen *g, const sn_gen_states *st, lv *x) {
    sn_em *em = &g->em;
    exchange ex;
    sn_dtype dtypes[SN_GEN_JOINED];
    lv stored[SN_GEN_JOINED], state[SN_GEN_STATES], none[SN_GEN_STATES];
    uint32_t n;
    find_readers(g, &ex);
    take_apart(g, st, x, dtypes, stored, &n);
    if (g->status != SN_OK) return;
    begin(g, &ex, dtypes, n);
    uint32_t turns = turns_of(g, &ex);
    lv *wanted = SN_NEWN(g->arena, lv, turns), *heard = SN_NEWN(g->arena, lv, (size_t)n * turns);
    tell(g, &ex, stored);
    hear(g, &ex, wanted, heard);
    sn_gen_identities(g, st, none);
    for (uint32_t i = 0; i < turns; i++) {
        put_together(g, st, x, heard, turns, i, i ? state : stored);
        for (uint32_t k = 0; k < st->n; k++) {
            lv *y = &(i ? state : stored)[k];
            lv nothing = sn_em_lanes(*y) > 1 ? sn_em_splat(em, none[k], sn_em_lanes(*y)) : none[k];
            if (wanted[i]) *y = em_select(em, wanted[i], *y, nothing);
        }
        if (i) sn_gen_combine(g, st, stored, state);
    }
    for (uint32_t k = 0; k < st->n; k++) x[k] = stored[k];
    sn_gen_block_reduce(g, st, ex.axis, x);
}

/* What any thread of the team stored before is seen by all of them behind it. */
void sn_gen_team_barrier(sn_gen *g) {
    sn_em *em = &g->em;
    const sn_dtype word = SN_I32;
    exchange ex;
    find_readers(g, &ex);
    begin(g, &ex, &word, 1);
    lv *wanted = SN_NEWN(g->arena, lv, turns_of(g, &ex)), *heard = SN_NEWN(g->arena, lv, turns_of(g, &ex));
    lv zero = sn_gen_c32(g, 0);
    sn_em_assembly(em, em->cg->vd, "fence.acq_rel.gpu;", "~{memory}", NULL, 0);
    sn_gen_barrier(g);
    tell(g, &ex, &zero);
    hear(g, &ex, wanted, heard);
    sn_em_assembly(em, em->cg->vd, "fence.acq_rel.gpu;", "~{memory}", NULL, 0);
    sn_gen_barrier(g);
}
