/* contract_tiles.c: which tiles a matrix product on a GPU is cut into: a model ranks headers.
 *
 * Cycles of a multiprocessor: tiles come in waves, and the last wave takes as long as the others; a tile takes its steps of the
 * sum and the storing of its results; a step takes its products, or the bytes that the L2 has to give, or what threads do to
 * them, whichever is longest. Constants are in constants.def.
 */
#include "passes/schedule/contract.h"

static double larger(double a, double b) { return a > b ? a : b; }
static double waves_of(double n, double at_once) { return (double)(int64_t)((n + at_once - 1) / at_once); }

/* Products of terms that make one of f32. */
static uint32_t pairs(uint32_t n_terms) { return n_terms ? n_terms * (n_terms + 1) / 2 : 1; }

static double cycles(const sn_contract *ct, const sn_target *t, const sn_sched *sc) {
    const sn_contraction *c = &ct->c;
    double m = sc->tile_m, n = sc->tile_n, k = sc->tile_k, rows = 0;
    double tiles = (double)c->batch * waves_of((double)c->m, m) * waves_of((double)c->n, n);
    for (uint32_t i = 0; i < c->n_operands; i++) rows += c->operands[i].right ? n : m;
    double bytes = sn_dtype_bytes(c->operands[0].from);
    double products = m * n * k * c->n_products * pairs(ct->n_terms) / sn_mmas[ct->mma].rate;
    double step = larger(products, rows * k * bytes / SN_PRODUCT_CACHE);
    if (ct->n_terms) step = larger(step, rows * k * SN_PRODUCT_TERMS / SN_ISSUES);
    step += ct->n_terms ? SN_PRODUCT_MEET : SN_PRODUCT_STEP;
    double results = m * n * bytes / SN_PRODUCT_STORE + SN_PRODUCT_RESULTS;
    return SN_PRODUCT_BEGIN + waves_of(tiles, t->units) * (waves_of((double)c->k, k) * step + results);
}

/* Registers of a thread for sums, and shared memory of a block for operands. */
static bool has_room(const sn_contract *ct, const sn_target *t, sn_sched *sc, bool stages_open) {
    const sn_contraction *c = &ct->c;
    int64_t sums = (int64_t)sc->tile_m * sc->tile_n / sc->block_x * c->n_states * (ct->n_terms ? 2 : 1), rows = 0,
            right = 0;
    for (uint32_t i = 0; i < c->n_operands; i++) {
        rows += c->operands[i].right ? sc->tile_n : sc->tile_m;
        if (c->operands[i].right) right += sc->tile_n;
    }
    int64_t stage = rows * sc->tile_k * sn_dtype_bytes(c->operands[0].from);
    int64_t terms = 3 * right * sc->tile_k * ct->n_terms * sn_dtype_bytes(SN_BF16);
    int64_t results = (int64_t)sc->tile_m * SN_LINE,
            room = (int64_t)t->shared_bytes - SN_PRODUCT_SPARE - terms - results;
    while (stages_open && sc->stages > 2 && sc->stages * stage > room) sc->stages--;
    return sums <= (ct->n_terms ? SN_PRODUCT_TOTALS : SN_PRODUCT_REGS) && sc->stages * stage <= room;
}

/* Does the instruction make such tiles, and the pipe of boxes such steps? */
static bool is_possible(const sn_contract *ct, const sn_target *t, const sn_sched *sc) {
    enum { WIDEST = 256, MOST_THREADS = 1024 };
    const sn_mma_info *mma = &sn_mmas[ct->mma];
    uint32_t groups = sc->block_x / mma->threads, line = SN_LINE / sn_dtype_bytes(ct->c.operands[0].from);
    return groups && sc->block_x % mma->threads == 0 && sc->block_x + SN_BOX_THREADS <= MOST_THREADS &&
           sc->tile_m % (mma->m * groups) == 0 && sc->tile_n % mma->n == 0 && sc->tile_n <= WIDEST &&
           sc->tile_k % line == 0 && sc->tile_k % mma->k == 0 && sc->stages >= 2 && sc->stages <= SN_MAX_PIPE &&
           sc->cluster <= t->cluster && (!ct->n_terms || sc->tile_k == line);
}

/* Insert by cycles. */
static void rank(sn_sched_list *list, double *cost, sn_arena *arena, const sn_sched *sc, double c) {
    SN_PUSH(arena, list, *sc);
    uint32_t at = list->n - 1;
    for (; at > 0 && cost[at - 1] > c; at--) list->at[at] = list->at[at - 1], cost[at] = cost[at - 1];
    list->at[at] = *sc;
    cost[at] = c;
}

void sn_contract_tiles(sn_sched_list *out, const sn_contract *ct, const sn_sched *pinned) {
    static const uint32_t WIDTHS[] = {256, 192, 128, 64}, HEIGHTS[] = {128, 256};
    sn_sched_list list = {0};
    double cost[SN_COUNT(WIDTHS) * SN_COUNT(HEIGHTS)];
    const sn_target *t = ct->cx->target;
    for (size_t h = 0; h < SN_COUNT(HEIGHTS); h++)
        for (size_t w = 0; w < SN_COUNT(WIDTHS); w++) {
            sn_sched sc = *pinned;
            sc.cls = SN_SCHED_CONTRACT;
            if (!sc.block_x) sc.block_x = 2 * sn_mmas[ct->mma].threads;
            if (!sc.tile_m) sc.tile_m = HEIGHTS[h];
            if (!sc.tile_n) sc.tile_n = WIDTHS[w];
            if (!sc.tile_k) sc.tile_k = SN_LINE / sn_dtype_bytes(ct->c.operands[0].from);
            if (!sc.stages) sc.stages = SN_PRODUCT_STAGES;
            if (!sc.cluster) sc.cluster = 1;
            if (pinned->cls == SN_SCHED_NONE) sc.persistent = true;
            bool pinned_tile = pinned->tile_m && pinned->tile_n;
            if (pinned_tile && list.n) continue;
            if (!is_possible(ct, t, &sc) || !has_room(ct, t, &sc, !pinned->stages)) continue;
            rank(&list, cost, ct->cx->scratch, &sc, cycles(ct, t, &sc));
        }
    for (uint32_t i = 0; i < list.n; i++) sn_schedule_propose(out, ct->cx, &list.at[i]);
    if (list.n) out->cycles = cost[0];
}
