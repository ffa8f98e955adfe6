/* contract_narrow.c: tiles of a matrix product with few columns, for class contract on GPUs.
 *
 *     11008 x 4096 times 4096 x 16 in bfloat16, 132 multiprocessors: 172 tiles of 64 x 16, 8 stages of 64 steps
 *
 * Such a product takes as long as its left operand takes to come from memory. Tiles are as small as an instruction,
 * and all of them run at the same time where a multiprocessor has room for its share of them: then it does not
 * matter that some have one more, since all that run share the memory. Else blocks do one tile after the other.
 * Where tiles are few, blocks share the sums of each (contract_split.c); so they do where threads compute the left operand
 * (contract_made.c), which takes longer than it takes to come. Stages are as many as keep twice the bytes
 * on their way that memory asks for. Does not choose between this and tiles.
 */
#include "passes/schedule/products/contract.h"

/* As few columns as an instruction takes. Of an operand that lies across the sum, a line for each step, of 32, 64 or 128 bytes: three short
 * lines take longer to come than a long one of which a part is beyond. Terms are made by all threads, which have to have something to do,
 * but for those of a third warpgroup. */
static uint32_t columns(const sn_contract *ct, uint32_t threads) {
    const sn_mma_info *mma = &sn_mmas[ct->mma];
    if (threads > 2 * mma->threads) threads = 2 * mma->threads;
    int64_t least = ct->n_terms ? SN_LINE / sn_dtype_bytes(SN_F32) : mma->n, step = least;
    for (uint32_t i = 0; i < ct->c.n_operands; i++) {
        int64_t bytes = sn_dtype_bytes(ct->c.operands[i].from), line = ct->across[i] ? SN_SECTOR / bytes : 0;
        while (line && line < ct->c.n && line * bytes < SN_LINE) line *= 2;
        if (ct->n_terms) line = threads * (ct->across[i] ? SN_TERMS_ACROSS : SN_TERMS_ALONG) / step;
        if (ct->c.operands[i].right && line > least) least = line;
    }
    int64_t columns = sn_ceil_div(ct->c.n, least) * least;
    return (uint32_t)(sn_mma_takes_columns(ct->mma, columns) ? columns : columns + least);
}

/* Bytes of a step of the sum, but for an operand that stays. */
static int64_t step_bytes(const sn_contract *ct, const sn_sched *sc) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < ct->c.n_operands; i++) {
        const sn_contraction_operand *o = &ct->c.operands[i];
        if (sn_contract_stays(ct, sc, i)) continue;
        bytes += (int64_t)sn_dtype_bytes(o->from) * (o->right ? sc->tile_n : sc->tile_m) / sn_contract_together(ct, i);
    }
    return bytes;
}

/* Bytes of the operand that stays, with steps of that depth; 0: none does. */
static int64_t staying_bytes(const sn_contract *ct, const sn_sched *sc, int64_t depth) {
    sn_sched deep = *sc;
    int64_t bytes = 0;
    deep.tile_k = (uint32_t)depth;
    for (uint32_t i = 0; i < ct->c.n_operands; i++)
        if (sn_contract_stays(ct, sc, i))
            bytes += sn_contract_stay_space(ct, &deep, i) * sn_dtype_bytes(ct->c.operands[i].from);
    return bytes;
}

static uint32_t rights(const sn_contract *ct) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < ct->c.n_operands; i++) n += ct->c.operands[i].right;
    return n;
}

/* How much of the sum is on its way: `flight` bytes of operands, as far as there is room; terms of right ones lie
 * beside them. */
static void choose_stages(sn_sched *sc, const sn_contract *ct, int64_t flight, int64_t room) {
    int64_t step = step_bytes(ct, sc), depth = sn_ceil_div(ct->c.k, sc->split);
    int64_t beside = (int64_t)SN_TERMS_COPIES * ct->n_terms * sn_dtype_bytes(SN_BF16) * sc->tile_n * rights(ct);
    if (!sc->tile_k) {
        sc->tile_k = (uint32_t)sn_contract_line(ct);
        for (int64_t twice = 2 * (int64_t)sc->tile_k;
             sn_contract_made_fits(ct, twice, sc->split) && step * sc->tile_k * (SN_NARROW_STAGES - 1) < flight &&
             (step * SN_NARROW_STAGES + beside) * twice <= room - staying_bytes(ct, sc, twice) && twice <= depth;
             twice *= 2)
            sc->tile_k = (uint32_t)twice;
    }
    int64_t left = room - staying_bytes(ct, sc, sc->tile_k) - beside * sc->tile_k;
    int64_t fit = left / (step * sc->tile_k), steps = sn_ceil_div(depth, sc->tile_k);
    if (fit > steps && !sc->persistent) fit = steps;
    if (!sc->stages) sc->stages = fit < 2 ? 2 : fit < SN_NARROW_STAGES ? (uint32_t)fit : SN_NARROW_STAGES;
}

/* Blocks that do one tile after the other bring the short operand once, where that leaves room for as many steps of the long one. All of it has
 * to come before anything is multiplied: it may be as much as two of these steps. */
static bool let_short_stay(sn_sched *sc, const sn_contract *ct, int64_t flight, int64_t room, const sn_sched *comes) {
    enum { STEPS = 2 };
    sc->shared = sc->persistent && sc->cluster == 1;
    int64_t least = staying_bytes(ct, sc, sn_contract_line(ct));
    if (!least || least >= room) return false;
    choose_stages(sc, ct, flight, room);
    return sc->stages * sc->tile_k >= comes->stages * comes->tile_k &&
           staying_bytes(ct, sc, sc->tile_k) <= STEPS * step_bytes(ct, sc) * sc->tile_k;
}

/* A multiprocessor alone draws several times its share of the memory, so that a third of them is enough. */
static uint32_t choose_split(const sn_contract *ct, int64_t tiles) {
    int64_t units = ct->cx->target->units, line = sn_contract_line(ct);
    int64_t split = tiles * SN_NARROW_FEW <= units ? units / (tiles > 0 ? tiles : 1) : 1;
    int64_t most = sn_ceil_div(ct->c.k, line) / SN_NARROW_PART;
    if (split > most) split = most;
    return split > 1 ? (uint32_t)split : 1;
}

/* So many parts that multiprocessors, which compute what they multiply, are done first. */
static uint32_t share_made(const sn_contract *ct, int64_t tiles) {
    uint32_t best = 1;
    double least = sn_contract_made_cycles(ct, tiles);
    int64_t line = sn_contract_line(ct), most = sn_ceil_div(ct->c.k, line) * SN_PIECES / SN_NARROW_PART,
            blocks = (int64_t)SN_MADE_BLOCKS * ct->cx->target->units;
    for (uint32_t n = 2; n <= most && tiles * n <= blocks; n++) {
        double cycles = sn_contract_made_cycles(ct, tiles * n) + SN_MADE_SHARE;
        if (!sn_contract_made_fits(ct, line, n) || cycles >= least) continue;
        least = cycles;
        best = n;
    }
    return best;
}

/* Of more tiles, too, where parts of the operands come from the cache that much sooner than the last block has all sums. */
static uint32_t share_long(const sn_contract *ct, const sn_sched *sc, int64_t tiles) {
    double bytes = (double)step_bytes(ct, sc) * (double)ct->c.k;
    sn_sched parts = *sc;
    parts.split = (uint32_t)(ct->cx->target->units / tiles);
    if (parts.split < 2) return 1;
    double saved = (bytes - bytes / parts.split) / SN_PRODUCT_FETCH;
    return saved > sn_contract_share_cycles(&parts) ? parts.split : 1;
}

/* Rows of both operands that a multiprocessor takes apart for a step of the whole sum, with tiles of so many rows. */
static double taken_apart(const sn_contract *ct, int64_t rows) {
    const sn_mma_info *mma = &sn_mmas[ct->mma];
    int64_t n = columns(ct, (uint32_t)(rows / mma->m * mma->threads)),
            tiles = sn_mul_clamped(ct->c.batch, sn_ceil_div(ct->c.m, rows) * sn_ceil_div(ct->c.n, n));
    uint32_t split = choose_split(ct, tiles);
    return (double)(sn_ceil_div(tiles * split, ct->cx->target->units) * (rows + n)) / split;
}

/* Can so many warpgroups share tiles? */
static bool can_share(const sn_contract *ct, const sn_sched *pinned, uint32_t groups) {
    const sn_mma_info *mma = &sn_mmas[ct->mma];
    const char *why_not;
    sn_sched sc = *pinned;
    sc.cls = SN_SCHED_CONTRACT;
    sc.block_x = groups * mma->threads;
    sc.cluster = 1;
    if (!sc.stages) sc.stages = 2;
    if (!sc.tile_m) sc.tile_m = groups * mma->m;
    if (!sc.tile_n) sc.tile_n = columns(ct, sc.block_x);
    if (!sc.tile_k) sc.tile_k = (uint32_t)sn_contract_line(ct);
    return sc.tile_m % (groups * mma->m) == 0 && sn_contract_fits(&why_not, ct, &sc);
}

/* One warpgroup; two where threads take operands apart and have less to do so, since tiles of more rows share the
 * short operand; or where one block would do one tile after the other, whose four warps alone wait for themselves. Three, if they
 * have less to do again: where two would leave most multiprocessors idle at the end. */
static uint32_t threads(const sn_contract *ct, const sn_sched *pinned) {
    const sn_mma_info *mma = &sn_mmas[ct->mma];
    bool alone = ct->c.batch * sn_ceil_div(ct->c.m, mma->m) > (int64_t)SN_NARROW_BLOCKS * ct->cx->target->units;
    if (!ct->n_terms || (!alone && taken_apart(ct, 2 * mma->m) >= taken_apart(ct, mma->m))) return mma->threads;
    bool three = alone && taken_apart(ct, 3 * mma->m) < taken_apart(ct, 2 * mma->m);
    if (three && can_share(ct, pinned, 3)) return 3 * mma->threads;
    return can_share(ct, pinned, 2) ? 2 * mma->threads : mma->threads;
}

/* Does the instruction make such tiles of such steps, and the pipe so many of them? What stands in a header may be anything. */
static bool is_possible(const sn_contract *ct, const sn_sched *sc) {
    const sn_target *t = ct->cx->target;
    const sn_mma_info *mma = &sn_mmas[ct->mma];
    uint32_t groups = sc->block_x / mma->threads;
    return groups && sc->block_x % mma->threads == 0 && sc->block_x + SN_BOX_THREADS <= t->max_threads && sc->tile_m &&
           sc->tile_m % (mma->m * groups) == 0 && sn_mma_takes_columns(ct->mma, sc->tile_n) &&
           sc->tile_k % mma->k == 0 && sc->tile_k % sn_contract_line(ct) == 0 && sc->stages >= 2 &&
           sc->stages <= SN_MAX_PIPE && sc->cluster <= t->cluster && (sc->cluster == 1 || sc->split == 1) &&
           (!sc->shared || (staying_bytes(ct, sc, sc->tile_k) && sc->persistent && sc->cluster == 1));
}

void sn_contract_narrow(sn_sched_list *out, const sn_contract *ct, const sn_sched *pinned) {
    const sn_target *t = ct->cx->target;
    const sn_mma_info *mma = &sn_mmas[ct->mma];
    sn_sched sc = *pinned;
    sc.cls = SN_SCHED_CONTRACT;
    if (!sc.block_x) sc.block_x = threads(ct, &sc);
    if (!sc.tile_m) sc.tile_m = mma->m * (sc.block_x / mma->threads);
    if (!sc.tile_n) sc.tile_n = columns(ct, sc.block_x);
    if (!sc.cluster) sc.cluster = 1;
    if (sc.block_x % mma->threads || !sc.tile_m) return;
    int64_t tiles = sn_mul_clamped(ct->c.batch, sn_ceil_div(ct->c.m, sc.tile_m) * sn_ceil_div(ct->c.n, sc.tile_n));
    bool open = !sc.split && !sc.persistent && sc.cluster == 1 && tiles > 0;
    if (!sc.split) sc.split = !open ? 1 : ct->made ? share_made(ct, tiles) : choose_split(ct, tiles);
    if (open && !ct->made && sc.split == 1) sc.split = share_long(ct, &sc, tiles);
    tiles = sn_mul_clamped(tiles, sc.split);
    /* Several warpgroups take all registers of a multiprocessor (codegen-llvm/kernel.c). */
    int64_t each = sn_ceil_div(tiles, t->units), blocks = tiles,
            most = sc.block_x > mma->threads ? 1
                   : ct->made                ? SN_MADE_BLOCKS
                                             : SN_NARROW_BLOCKS;
    if (pinned->cls == SN_SCHED_NONE) sc.persistent = each > most;
    if (sc.persistent) each = 1, blocks = t->units;
    if (each > most) each = most, blocks = each * t->units;
    int64_t room = (t->shared_bytes + SN_SHARED_SYSTEM) / each - SN_SHARED_RESERVED - SN_PRODUCT_SPARE;
    int64_t flight = SN_NARROW_FLIGHT * sn_ceil_div((int64_t)t->flight_bytes * t->units, blocks);
    sn_sched stays = sc;
    choose_stages(&sc, ct, flight, room);
    if (pinned->cls == SN_SCHED_NONE && let_short_stay(&stays, ct, flight, room, &sc)) sc = stays;
    if (pinned->cls != SN_SCHED_NONE && !is_possible(ct, &sc)) return;
    sn_schedule_propose(out, ct->cx, &sc);
    out->cycles = SN_PRODUCT_BEGIN + sn_contraction_fetch(ct->m, &ct->c, t) + SN_PRODUCT_RESULTS;
    if (ct->made) {
        double busy = sn_contract_made_cycles(ct, tiles) + SN_PRODUCT_BEGIN + (sc.split > 1 ? SN_MADE_SHARE : 0);
        if (busy > out->cycles) out->cycles = busy;
    }
    /* Threads that take several left operands apart are what a block waits for. */
    if (ct->n_terms && ct->c.n_states > 1) {
        double busy = sn_contract_tiles_cycles(ct, &sc);
        if (busy > out->cycles) out->cycles = busy;
    }
}
