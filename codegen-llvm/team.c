/* team.c: reductions across the blocks of a team: a cluster of any size, whose blocks meet in global memory.
 *
 *     counter[block]               exchanges of the block in all launches so far
 *     word[turn][team][state][c]   number of the exchange << 32 | bits of the state of block c (posted.c)
 *
 * A state is one of a row, which the threads x have alike, or, inside of a block.x axis, one of each column of the block, which the
 * threads y do (class outer): word[turn][team][state][column][c], or [c][lane][x] where half a warp and more are side by side, so that
 * neighbours ask for neighbours.
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

/* The words of one state, from the first block of the team on. */
typedef struct exchange {
    sn_gen_words of[SN_GEN_STATES];
    uint32_t n, lanes; /* states; columns of a thread */
    uint32_t columns;  /* of the block */
    lv x, sender;      /* threads in front of this one that have other columns, of those that have the same ones */
    uint32_t senders;  /* how many those are */
} exchange;

/* Whose states are exchanged, `lanes` of a thread. */
static exchange between(sn_gen *g, uint32_t lanes) {
    lv zero = sn_em_ci(g->index, 0), x = g->thread_x, y = g->threads_y > 1 ? g->thread_y : zero;
    if (!g->in_x) return (exchange){.lanes = 1, .columns = 1, .x = zero, .sender = x, .senders = g->threads_x};
    return (exchange){.lanes = lanes, .columns = g->threads_x * lanes, .x = x, .sender = y, .senders = g->threads_y};
}

/* The next exchange, of states of these dtypes. */
static exchange begin(sn_gen *g, const sn_dtype *dtypes, uint32_t n, uint32_t lanes) {
    sn_em *em = &g->em;
    const sn_cg *cg = em->cg;
    exchange ex = between(g, lanes);
    ex.n = n;
    uint64_t words = 0, before = 0, columns = ex.columns;
    for (uint32_t k = 0; k < n; k++) words += sn_dtype_bytes(dtypes[k]) > 4 ? 2 : 1;
    uint64_t each = words * columns * g->cluster;
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
        before += (uint64_t)(sn_dtype_bytes(dtypes[k]) > 4 ? 2 : 1) * columns * g->cluster;
    }
    return ex;
}

/* The number of a word of a lane's column: that of block `block`. */
static lv word_of(sn_gen *g, const exchange *ex, uint32_t lane, lv block) {
    enum { SIDE_BY_SIDE = 16 };
    sn_em *em = &g->em;
    if (ex->columns >= SIDE_BY_SIDE * ex->lanes) {
        lv column = em_iadd(em, ex->x, sn_em_i(em, ex->x, (int64_t)lane * (ex->columns / ex->lanes)));
        return em_iadd(em, em_imul(em, block, sn_em_i(em, block, ex->columns)), column);
    }
    lv column = em_iadd(em, em_imul(em, ex->x, sn_em_i(em, ex->x, ex->lanes)), sn_em_i(em, ex->x, lane));
    return em_iadd(em, em_imul(em, column, sn_em_i(em, column, g->cluster)), block);
}

static void tell(sn_gen *g, const exchange *ex, const lv *stored) {
    sn_em *em = &g->em;
    sn_em_if first = sn_em_then(em, em_icmp(em, LLVMIntEQ, ex->sender, sn_em_i(em, ex->sender, 0)), "first_thread");
    for (uint32_t k = 0; k < ex->n; k++)
        for (uint32_t i = 0; i < ex->lanes; i++) {
            lv x = ex->lanes > 1 ? sn_em_lane(em, stored[k], i) : stored[k];
            sn_gen_put_words(g, &ex->of[k], word_of(g, ex, i, g->rank), x);
        }
    sn_em_end(em, &first);
}

static uint32_t turns_of(const sn_gen *g, const exchange *ex) { return (g->cluster + ex->senders - 1) / ex->senders; }

/* out[(k*turns + i)*lanes + j]: state k of lane j of block sender + (first + i)*senders; wanted[i] NULL: there are so many blocks. */
static void hear(sn_gen *g, const exchange *ex, uint32_t first, uint32_t turns, lv *wanted, lv *out) {
    sn_em *em = &g->em;
    uint32_t n = ex->n * turns * ex->lanes;
    sn_gen_words *words = SN_NEWN(g->arena, sn_gen_words, n);
    lv *elements = SN_NEWN(g->arena, lv, n), *asked = SN_NEWN(g->arena, lv, n);
    for (uint32_t i = 0; i < turns; i++) {
        lv block = em_iadd(em, ex->sender, sn_em_i(em, ex->sender, (int64_t)(first + i) * ex->senders));
        bool all = (uint64_t)(first + i + 1) * ex->senders <= g->cluster;
        wanted[i] = all ? NULL : em_icmp(em, LLVMIntULT, block, sn_em_i(em, block, g->cluster));
        for (uint32_t k = 0; k < ex->n; k++)
            for (uint32_t j = 0; j < ex->lanes; j++) {
                uint32_t at = (k * turns + i) * ex->lanes + j;
                words[at] = ex->of[k];
                elements[at] = word_of(g, ex, j, block);
                asked[at] = wanted[i];
            }
    }
    sn_gen_await_words(g, words, elements, asked, n, out);
}

/* The lanes of a thread, heard one by one, side by side again. */
static lv join_lanes(sn_gen *g, const exchange *ex, const lv *heard) {
    if (ex->lanes == 1) return heard[0];
    lv all = LLVMGetPoison(sn_em_shape(LLVMTypeOf(heard[0]), ex->lanes));
    for (uint32_t j = 0; j < ex->lanes; j++) all = sn_em_with_lane(&g->em, all, j, heard[j]);
    return all;
}

/* Vectors of the same length; 0: lanes of a row, which nothing makes. */
static uint32_t lanes_of(sn_gen *g, const sn_gen_states *st, lv *x) {
    uint32_t lanes = 1;
    for (uint32_t k = 0; k < st->n; k++)
        if (sn_em_lanes(x[k]) > lanes) lanes = sn_em_lanes(x[k]);
    for (uint32_t k = 0; k < st->n; k++) x[k] = sn_em_splat(&g->em, x[k], lanes);
    return lanes > 1 && !g->in_x ? 0 : lanes;
}

/* x = what all blocks have said to this thread; so many words at a time as registers have room for beside those of a row. */
static void combine_heard(sn_gen *g, const exchange *ex, const sn_gen_states *st, lv *x) {
    enum { WORDS = 16 };
    sn_em *em = &g->em;
    uint32_t all = turns_of(g, ex), each = st->n * ex->lanes, most = each < WORDS ? WORDS / each : 1;
    lv *wanted = SN_NEWN(g->arena, lv, most), *heard = SN_NEWN(g->arena, lv, (size_t)each * most);
    lv state[SN_GEN_STATES], none[SN_GEN_STATES];
    sn_gen_identities(g, st, none);
    for (uint32_t first = 0; first < all; first += most) {
        uint32_t turns = all - first < most ? all - first : most;
        hear(g, ex, first, turns, wanted, heard);
        for (uint32_t i = 0; i < turns; i++) {
            for (uint32_t k = 0; k < st->n; k++) {
                lv y = join_lanes(g, ex, heard + (size_t)(k * turns + i) * ex->lanes);
                y = sn_math_from_storage(em, st->dtypes[k], y);
                if (wanted[i]) y = em_select(em, wanted[i], y, sn_em_splat(em, none[k], ex->lanes));
                (first + i ? state : x)[k] = y;
            }
            if (first + i) sn_gen_combine(g, st, x, state);
        }
    }
}

void sn_gen_team_reduce(sn_gen *g, const sn_gen_states *st, lv *x) {
    sn_em *em = &g->em;
    uint32_t lanes = lanes_of(g, st, x);
    if (!g->in_x && g->threads_y > 1 && g->status == SN_OK)
        g->status = sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: several rows a block in a team", g->k->name);
    if (!lanes && g->status == SN_OK)
        g->status = sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: lanes of a reduction over the blocks of a team",
                            g->k->name);
    if (g->status != SN_OK) return;
    lv stored[SN_GEN_STATES];
    for (uint32_t k = 0; k < st->n; k++) stored[k] = sn_math_to_storage(em, st->dtypes[k], x[k]);
    exchange ex = begin(g, st->dtypes, st->n, lanes);
    if (ex.senders == 1) sn_gen_barrier(g); /* nothing else has all threads of the block meet */
    tell(g, &ex, stored);
    combine_heard(g, &ex, st, x);
    sn_gen_block_reduce(g, st, g->in_x ? SN_AXIS_BLOCK_Y : SN_AXIS_BLOCK_X, x);
}

/* What any thread of the team stored before is seen by all of them behind it. */
void sn_gen_team_barrier(sn_gen *g) {
    sn_em *em = &g->em;
    const sn_dtype word = SN_I32;
    exchange ex = begin(g, &word, 1, 1);
    uint32_t turns = turns_of(g, &ex);
    lv *wanted = SN_NEWN(g->arena, lv, turns), *heard = SN_NEWN(g->arena, lv, turns), zero = sn_gen_c32(g, 0);
    sn_em_assembly(em, em->cg->vd, "fence.acq_rel.gpu;", "~{memory}", NULL, 0);
    sn_gen_barrier(g);
    tell(g, &ex, &zero);
    hear(g, &ex, 0, turns, wanted, heard);
    sn_em_assembly(em, em->cg->vd, "fence.acq_rel.gpu;", "~{memory}", NULL, 0);
    sn_gen_barrier(g);
}
