/* contract_threads.c: matrix products on a GPU whose operands threads bring to shared memory: what they are, and tiles.
 *
 *     1000 x 1000 x 1000 in bf16 on sm_80: tiles of 64 x 64 by 128 threads, 4 stages of 64 steps
 *
 * Threads can bring what tensor copies cannot: what is computed or gathered, and what is aligned to less than 16 bytes. An
 * instruction of a warp multiplies where there is one for what all operands can become without loss, else ordinary
 * statements do. contract_bind.c has the picture.
 *
 * Tiles are those that a model of a multiprocessor does in the fewest cycles: it multiplies, reads shared memory and
 * brings operands at the same time, so the slowest of these counts; a block alone is as slow as the latency of its steps; and the
 * blocks of the last wave take as long as those of a full one. The figures rank tiles, no more.
 */
#include "passes/schedule/contract.h"

#include "ir/loop/access.h"

enum { MOST_STAGES = 4, LEAST_SIDE = 32, MOST_SIDE = 256, SIDES_OF = 16, PIECE = 16 };

/* ---- operands ---- */

static const sn_stmt_rec *def_of(const sn_contract *ct, sn_val v) {
    return sn_stmt_get(ct->m, sn_val_get(ct->m, v)->def);
}

/* What the value was before it was widened. */
static sn_val narrow(const sn_contract *ct, sn_val v) {
    for (const sn_stmt_rec *r = def_of(ct, v); r->op == SN_LOP_CAST; r = def_of(ct, v)) {
        sn_dtype from = sn_val_get(ct->m, r->in[0])->dtype;
        if (from == SN_BOOL || !sn_dtype_holds(r->dtype, from)) break;
        v = r->in[0];
    }
    return v;
}

/* Products of bf16 are what that precision allows; otherwise nothing is rounded. */
static bool may_become(sn_dtype from, sn_dtype to, sn_precision precision) {
    return sn_dtype_holds(to, from) || (from == SN_F32 && to == SN_BF16 && precision == SN_PRECISION_BF16);
}

static bool all_may_become(const sn_contract *ct, sn_dtype to, sn_precision precision) {
    for (uint32_t i = 0; i < ct->c.n_operands; i++)
        if (!may_become(sn_val_get(ct->m, ct->sources[i])->dtype, to, precision)) return false;
    return true;
}

static sn_mma instruction(const sn_contract *ct, sn_precision precision) {
    for (sn_mma i = SN_MMA_NONE + 1; i < SN_N_MMAS; i++) {
        const sn_mma_info *mma = &sn_mmas[i];
        if (sn_mma_is_async(i) || mma->sm > ct->cx->target->sm || mma->state != ct->c.dtype) continue;
        if (mma->operand != SN_F32 && all_may_become(ct, mma->operand, precision)) return i;
    }
    return SN_MMA_NONE;
}

static bool reads_only(const sn_contract *ct) {
    for (sn_stmt s = sn_stmt_walk_first(ct->m, ct->k); s.i; s = sn_stmt_walk_next(ct->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(ct->m, s);
        if (sn_loads(r) && sn_kern_stores(ct->m, ct->k, r->buf)) return false;
    }
    return true;
}

bool sn_contract_find_threads(sn_contract *ct, const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_sched *sc) {
    *ct = (sn_contract){.cx = cx, .m = cx->m, .k = k};
    sn_contraction *c = &ct->c;
    if (!sn_contraction_find(c, why_not, cx, k)) return false;
    *why_not = "it has no elements";
    if (!c->batch || !c->m || !c->n || !c->k) return false;
    for (uint32_t i = 0; i < c->n_operands; i++) ct->sources[i] = narrow(ct, c->operands[i].value);
    for (uint32_t i = 0; i < c->n_operands; i++) ct->across[i] = sn_contraction_lies_across(cx, c, i);
    ct->reads_only = reads_only(ct);
    ct->mma = sc->plain ? SN_MMA_NONE : instruction(ct, sc->precision);
    ct->operand = sn_val_get(cx->m, ct->sources[0])->dtype;
    if (ct->mma) ct->operand = sn_mmas[ct->mma].operand;
    else if (!all_may_become(ct, ct->operand, SN_PRECISION_EXACT)) ct->operand = c->dtype;
    return true;
}

/* ---- tiles ---- */

static int64_t rows_of(const sn_contract *ct, const sn_sched *sc, uint32_t i) {
    return ct->c.operands[i].right ? sc->tile_n : sc->tile_m;
}

bool sn_contract_across(const sn_contract *ct, const sn_sched *sc, uint32_t i) {
    return ct->across[i] && (sc->plain || sn_mmas[ct->mma].across);
}

/* Lines are as long as can be: 128 bytes, or all rows of a tile that are less. */
uint32_t sn_contract_swizzle(const sn_contract *ct, const sn_sched *sc, uint32_t i) {
    int64_t bytes = rows_of(ct, sc, i) * sn_dtype_bytes(ct->operand), line = SN_LINE;
    if (sn_contract_across(ct, sc, i))
        while (bytes % line) line /= 2;
    return (uint32_t)line;
}

uint32_t sn_contract_columns(const sn_contract *ct, const sn_sched *sc) {
    const sn_mma_info *mma = &sn_mmas[ct->mma];
    uint32_t warps = sc->block_x / SN_WARP, best = 0, least = UINT32_MAX;
    for (uint32_t columns = 1; columns <= warps; columns++) {
        uint32_t down = warps / columns;
        if (warps % columns || sc->tile_m % (mma->m * down) || sc->tile_n % (mma->n * columns)) continue;
        if (sc->tile_m / down + sc->tile_n / columns >= least) continue;
        least = sc->tile_m / down + sc->tile_n / columns;
        best = columns;
    }
    return best;
}

/* Bytes of shared memory of a step's operands. */
static int64_t part_bytes(const sn_contract *ct, const sn_sched *sc) {
    int64_t rows = 0;
    for (uint32_t i = 0; i < ct->c.n_operands; i++) rows += rows_of(ct, sc, i);
    return rows * sc->tile_k * sn_dtype_bytes(ct->operand);
}

/* Whole lines, and the same number of pieces for each thread. */
static bool fits(const sn_contract *ct, const sn_sched *sc) {
    const sn_target *t = ct->cx->target;
    int64_t bytes = sn_dtype_bytes(ct->operand);
    sn_contract_plain plain;
    if (sc->block_x % SN_WARP || sc->block_x > t->max_threads || sc->cluster != 1) return false;
    if (sc->tile_m % SIDES_OF || sc->tile_n % SIDES_OF || sc->tile_k * bytes % SN_LINE) return false;
    for (uint32_t i = 0; i < ct->c.n_operands; i++) {
        if (rows_of(ct, sc, i) * sc->tile_k * bytes / PIECE % sc->block_x) return false;
        if (sn_contract_swizzle(ct, sc, i) < SN_SECTOR) return false;
    }
    if (part_bytes(ct, sc) * sc->stages + SN_SHARED_RESERVED > t->shared_bytes) return false;
    return sc->plain ? sn_contract_plain_find(&plain, ct, sc) : sn_contract_columns(ct, sc) > 0;
}

/* ---- the model ---- */

static int64_t parts(int64_t n, int64_t of) { return (n + of - 1) / of; }
static double most(double a, double b) { return a > b ? a : b; }

/* Bytes that a block reads of shared memory in a step. */
static double read_bytes(const sn_contract *ct, const sn_sched *sc) {
    double left = sc->tile_m, right = sc->tile_n, sum = 0;
    sn_contract_plain p;
    if (sc->plain && sn_contract_plain_find(&p, ct, sc)) {
        left = (double)(p.rows * sc->block_x);
        right = (double)(p.columns * sc->block_x);
    } else {
        uint32_t columns = sn_contract_columns(ct, sc);
        left *= columns;
        right *= sc->block_x / SN_WARP / columns;
    }
    for (uint32_t i = 0; i < ct->c.n_operands; i++) sum += ct->c.operands[i].right ? right : left;
    return sum * sc->tile_k * sn_dtype_bytes(ct->operand);
}

/* Registers of a thread that hold sums. */
static int64_t sum_words(const sn_contract *ct, const sn_sched *sc) {
    int64_t words = parts(sn_dtype_bytes(ct->c.dtype), 4);
    return (int64_t)ct->c.n_states * sc->tile_m * sc->tile_n / sc->block_x * words;
}

/* Blocks that fit on a multiprocessor. */
static int64_t resident(const sn_contract *ct, const sn_sched *sc) {
    const sn_target *t = ct->cx->target;
    int64_t bytes = part_bytes(ct, sc) * sc->stages + SN_SHARED_SYSTEM, blocks = sn_target_blocks(t, sc->block_x);
    int64_t by_shared = (t->shared_bytes + SN_SHARED_SYSTEM) / bytes;
    int64_t by_regs = SN_FILE_REGS / (sc->block_x * (sum_words(ct, sc) + SN_CONTRACT_REGS));
    if (by_shared < blocks) blocks = by_shared;
    return by_regs < blocks ? by_regs : blocks;
}

/* Cycles of a multiprocessor for a step of a tile. */
static double step_cycles(const sn_contract *ct, const sn_sched *sc) {
    int64_t words = parts(sn_dtype_bytes(ct->c.dtype), 4);
    double products = (double)ct->c.n_products * sc->tile_m * sc->tile_n * sc->tile_k;
    double rate = sc->plain ? (double)SN_ISSUES / (double)words : sn_mmas[ct->mma].rate;
    double part = (double)part_bytes(ct, sc);
    double shared = (read_bytes(ct, sc) + part) / SN_LINE;
    return most(products / rate, most(shared, part / SN_CONTRACT_FETCH));
}

/* Cycles in which a multiprocessor does n tiles side by side. */
static double wave_cycles(const sn_contract *ct, const sn_sched *sc, int64_t n) {
    double steps = (double)parts(ct->c.k, sc->tile_k), ahead = sc->stages > 1 ? sc->stages - 1 : 1;
    double least = most(SN_CONTRACT_STEP, SN_CONTRACT_LATENCY / ahead);
    double results = (double)n * sc->tile_m * sc->tile_n * sn_dtype_bytes(ct->c.dtype) / SN_CONTRACT_FETCH;
    return most((double)n * step_cycles(ct, sc), least) * steps + SN_CONTRACT_LATENCY + results;
}

static double cycles_of(const sn_contract *ct, const sn_sched *sc) {
    int64_t tiles = ct->c.batch * parts(ct->c.m, sc->tile_m) * parts(ct->c.n, sc->tile_n);
    int64_t units = ct->cx->target->units, side_by_side = resident(ct, sc), wave = units * side_by_side;
    double cycles = (double)(tiles / wave) * wave_cycles(ct, sc, side_by_side);
    return cycles + (tiles % wave ? wave_cycles(ct, sc, parts(tiles % wave, units)) : 0);
}

/* ---- choosing ---- */

typedef struct search {
    const sn_contract *ct;
    const sn_sched *pinned;
    sn_sched best;
    double cycles; /* of the best; 0: there is none */
} search;

static void try_tile(search *s, const sn_sched *sc) {
    int64_t words = sc->plain ? SN_CONTRACT_PLAIN_SUMS : SN_CONTRACT_SUMS;
    bool pinned = s->pinned->tile_m && s->pinned->tile_n && s->pinned->block_x;
    if (!fits(s->ct, sc) || (!pinned && sum_words(s->ct, sc) > words)) return;
    if (!pinned && resident(s->ct, sc) < 1) return;
    double cycles = pinned && resident(s->ct, sc) < 1 ? 1 : cycles_of(s->ct, sc);
    if (s->cycles > 0 && cycles >= s->cycles) return;
    s->best = *sc;
    s->cycles = cycles;
}

static void try_stages(search *s, sn_sched sc) {
    static const uint32_t THREADS[] = {128, 256, 64};
    for (size_t i = 0; i < SN_COUNT(THREADS); i++)
        for (uint32_t stages = MOST_STAGES; stages > 1; stages--) {
            sc.block_x = s->pinned->block_x ? s->pinned->block_x : THREADS[i];
            sc.stages = s->pinned->stages ? s->pinned->stages : stages;
            try_tile(s, &sc);
        }
}

bool sn_contract_complete_threads(sn_sched *sc, double *cycles, const sn_contract *ct) {
    sn_sched pinned = *sc;
    search s = {.ct = ct, .pinned = &pinned};
    sc->cls = SN_SCHED_CONTRACT;
    sc->threads = true;
    if (!ct->mma) sc->plain = true;
    if (!sc->cluster) sc->cluster = 1;
    if (!sc->tile_k) sc->tile_k = SN_LINE / sn_dtype_bytes(ct->operand);
    for (uint32_t rows = MOST_SIDE; rows >= LEAST_SIDE; rows /= 2)
        for (uint32_t columns = MOST_SIDE; columns >= LEAST_SIDE; columns /= 2) {
            sn_sched tile = *sc;
            if (!tile.tile_m) tile.tile_m = rows;
            if (!tile.tile_n) tile.tile_n = columns;
            try_stages(&s, tile);
        }
    *sc = s.best;
    *cycles = s.cycles;
    return s.cycles > 0;
}
