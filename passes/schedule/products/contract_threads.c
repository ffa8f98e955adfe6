/* contract_threads.c: matrix products on a GPU whose operands threads bring to shared memory: what they are, and tiles.
 *
 *     1000 x 1000 x 1000 in bf16 on sm_80: tiles of 64 x 64 by 128 threads, 4 stages of 64 steps
 *
 * Threads can bring what tensor copies cannot: what is computed or gathered, and what is aligned to less than 16
 * bytes. An instruction of a warp multiplies where there is one for what all operands can become without loss, else
 * ordinary statements do. contract_bind.c has the picture.
 *
 * Tiles are those that a model of a multiprocessor does in the fewest cycles: it multiplies, reads shared memory and
 * brings operands at the same time, so the slowest of these counts; a block alone is as slow as the latency of its
 * steps; and the blocks of the last wave take as long as those of a full one. The figures rank tiles, no more.
 */
#include "passes/schedule/products/contract.h"

#include "ir/loop/access.h"
#include "passes/base/constants.h"
#include "passes/schedule/base/model.h"

enum { LEAST_STAGES = 2, MOST_STAGES = 4, MOST_LINES = 2, SIDES_OF = 16 };

/* ---- operands ---- */

static const sn_stmt_rec *def_of(const sn_contract *ct, sn_val v) {
    return sn_stmt_get(ct->m, sn_val_get(ct->m, v)->def);
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

/* Elements of it that threads bring together: what a load stands for has to lie side by side, aligned as far. */
static int64_t piece(const sn_contract *ct, uint32_t i) {
    const sn_contraction *c = &ct->c;
    const sn_stmt_rec *r = def_of(ct, ct->sources[i]);
    int64_t n = SN_WIDEST_ACCESS / sn_dtype_bytes(ct->operand), all = c->operands[i].right ? c->n : c->m, stride;
    while (n > 1 && (ct->across[i] ? all : c->k) % n) n /= 2;
    if (r->op != SN_LOP_LOAD) return n;
    for (uint32_t k = 0; k < c->outer.n + c->inner.n; k++) {
        bool outer = k < c->outer.n;
        sn_stmt s = outer ? c->outer.at[k] : c->inner.at[k - c->outer.n];
        if (!sn_ix_coef(ct->m, r->ix, sn_stmt_axis(ct->m, s), &stride)) return 1;
        if (stride == 1) stride = outer ? c->extent[k] : c->k_extent[k - c->outer.n];
        while (n > 1 && stride % n) n /= 2;
    }
    return n;
}

static bool reads_only(const sn_contract *ct) {
    for (sn_stmt s = sn_stmt_walk_first(ct->m, ct->k); s.i; s = sn_stmt_walk_next(ct->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(ct->m, s);
        if (sn_loads(r) && sn_kern_stores(ct->m, ct->k, r->buf)) return false;
    }
    return true;
}

/* Instructions with which an element of an operand is computed from what is loaded; 0: it is copied. */
static double work_for(sn_notes *seen, const sn_contract *ct, sn_val v) {
    const sn_stmt_rec *r = def_of(ct, v);
    double work = 0;
    if (r->op == SN_LOP_LOAD || sn_lop_has_region(r->op) || !sn_notes_add(seen, v.i)) return 0;
    for (uint32_t i = 0; i < r->n_in; i++) work += work_for(seen, ct, r->in[i]);
    return work + (r->op == SN_LOP_CONST ? 0 : sn_schedule_op_cost((sn_lop)r->op));
}

bool sn_contract_find_threads(sn_contract *ct, const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_sched *sc) {
    *ct = (sn_contract){.cx = cx, .m = cx->m, .k = k};
    sn_contraction *c = &ct->c;
    if (!sn_contraction_find(c, why_not, cx, k)) return false;
    *why_not = "it has no elements";
    if (!c->batch || !c->m || !c->n || !c->k) return false;
    for (uint32_t i = 0; i < c->n_operands; i++) {
        sn_notes seen = {.arena = cx->scratch};
        ct->sources[i] = sn_contract_narrowed(ct, c->operands[i].value);
        ct->work[i] = work_for(&seen, ct, ct->sources[i]);
    }
    for (uint32_t i = 0; i < c->n_operands; i++) ct->across[i] = sn_contraction_lies_across(cx, c, i);
    ct->reads_only = reads_only(ct);
    ct->mma = sc->plain ? SN_MMA_NONE : instruction(ct, sc->precision);
    ct->operand = sn_val_get(cx->m, ct->sources[0])->dtype;
    if (ct->mma) ct->operand = sn_mmas[ct->mma].operand;
    else if (!all_may_become(ct, ct->operand, SN_PRECISION_EXACT)) ct->operand = c->dtype;
    for (uint32_t i = 0; i < c->n_operands; i++) ct->pieces[i] = piece(ct, i);
    ct->behind = sn_contract_behind(ct);
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

/* How threads share the tile of a header where there is no instruction; of one group where there is. The same for all stages. */
static bool find_shares(sn_contract_plain *out, const sn_contract *ct, const sn_sched *sc) {
    *out = (sn_contract_plain){.parts = 1};
    if (!sc->plain) return sn_contract_columns(ct, sc) > 0;
    return sn_contract_plain_find(out, ct, sc);
}

/* Bytes of shared memory of a step's operands. */
static int64_t part_bytes(const sn_contract *ct, const sn_sched *sc) {
    int64_t rows = 0;
    for (uint32_t i = 0; i < ct->c.n_operands; i++) rows += rows_of(ct, sc, i);
    return rows * sc->tile_k * sn_dtype_bytes(ct->operand);
}

/* ... and of what groups of threads give each other. */
static int64_t given_bytes(const sn_contract *ct, const sn_sched *sc, const sn_contract_plain *p) {
    if (p->parts == 1) return 0;
    return (int64_t)ct->c.n_states * sc->tile_m * sc->tile_n * p->parts * sn_dtype_bytes(ct->c.dtype);
}

/* Whole lines, and the same number of pieces for each thread; whoever has which elements. */
static bool divides(const sn_contract *ct, const sn_sched *sc) {
    const sn_target *t = ct->cx->target;
    int64_t bytes = sn_dtype_bytes(ct->operand);
    if (sc->block_x % SN_WARP || sc->block_x > t->max_threads || sc->cluster != 1) return false;
    if (sc->tile_m % SIDES_OF || sc->tile_n % SIDES_OF || sc->tile_k * bytes % SN_LINE) return false;
    for (uint32_t i = 0; i < ct->c.n_operands; i++) {
        if (rows_of(ct, sc, i) * sc->tile_k / ct->pieces[i] % sc->block_x) return false;
        if (sn_contract_swizzle(ct, sc, i) < SN_SECTOR) return false;
    }
    return true;
}

static bool fits(const sn_contract *ct, const sn_sched *sc, const sn_contract_plain *p) {
    int64_t bytes = part_bytes(ct, sc) * sc->stages + given_bytes(ct, sc, p) + SN_SHARED_RESERVED;
    return bytes <= (int64_t)ct->cx->target->shared_bytes;
}

/* ---- the model ---- */

/* Blocks that share the sums of a tile. */
static int64_t parts_of(const sn_sched *sc) { return sc->split > 1 ? sc->split : 1; }

static double most(double a, double b) { return a > b ? a : b; }

/* What warps do in a step of a tile. */
typedef struct work {
    double warps, issue; /* of a block; instructions of one of them */
    double waits;        /* how often a warp alone waits for what it has loaded */
    double tensor;       /* cycles of the matrix instructions of one warp */
    double shared;       /* bytes that all warps move in shared memory */
    double fetched;      /* bytes that come from memory */
    bool computes;       /* what is no copy is not on its way while others are multiplied */
} work;

/* Elements that threads copy at a time. */
static double piece_of(const sn_contract *ct, uint32_t i) { return (double)ct->pieces[i]; }

static void add_copies(work *w, const sn_contract *ct, const sn_sched *sc) {
    for (uint32_t i = 0; i < ct->c.n_operands; i++) {
        double each = (double)(rows_of(ct, sc, i) * sc->tile_k) / sc->block_x;
        w->issue += each * (SN_CONTRACT_COPY / piece_of(ct, i) + ct->work[i]);
    }
    w->fetched = (double)part_bytes(ct, sc);
    w->shared += w->fetched;
}

static int64_t words_of(const sn_contract *ct) { return sn_ceil_div(sn_dtype_bytes(ct->c.dtype), 4); }

/* A thread's products, and the loads of what it multiplies: 16 bytes where they can be. */
static void add_plain(work *w, const sn_contract *ct, const sn_sched *sc, const sn_contract_plain *p) {
    double bytes = sn_dtype_bytes(ct->operand), steps = (double)(sc->tile_k / p->parts), loads = 0;
    double run = SN_WIDEST_ACCESS / bytes < 4 ? SN_WIDEST_ACCESS / bytes : 4;
    for (uint32_t i = 0; i < ct->c.n_operands; i++) {
        bool right = ct->c.operands[i].right, across = sn_contract_across(ct, sc, i);
        double n = (double)(right ? p->columns : p->rows), rows = (double)(right ? p->run_columns : p->run_rows);
        loads += n * steps / (across ? rows : run);
        w->shared += n * steps * sc->block_x * bytes / SN_CONTRACT_BROADCAST;
    }
    w->issue += (double)(p->rows * p->columns * ct->c.n_products * words_of(ct)) * steps + loads;
    w->waits += steps / run;
}

/* A warp's matrix instructions. */
static void add_mma(work *w, const sn_contract *ct, const sn_sched *sc) {
    const sn_mma_info *mma = &sn_mmas[ct->mma];
    double bytes = sn_dtype_bytes(ct->operand), columns = sn_contract_columns(ct, sc), down = w->warps / columns;
    double products = (double)ct->c.n_products * sc->tile_m * sc->tile_n * sc->tile_k / w->warps;
    for (uint32_t i = 0; i < ct->c.n_operands; i++)
        w->shared += (ct->c.operands[i].right ? sc->tile_n * down : sc->tile_m * columns) * sc->tile_k * bytes;
    w->tensor = products * SN_SCHEDULERS / mma->rate;
    w->issue += 2 * products / (double)(mma->m * mma->n * mma->k);
    w->waits += (double)sc->tile_k / mma->k;
}

static work work_of(const sn_contract *ct, const sn_sched *sc, const sn_contract_plain *p) {
    work w = {.warps = (double)sc->block_x / SN_WARP};
    for (uint32_t i = 0; i < ct->c.n_operands; i++) w.computes |= ct->work[i] > 0;
    add_copies(&w, ct, sc);
    if (sc->plain) add_plain(&w, ct, sc, p);
    else add_mma(&w, ct, sc);
    return w;
}

/* Registers of a thread that hold sums, and what is multiplied together. */
static int64_t sum_words(const sn_contract *ct, const sn_sched *sc, const sn_contract_plain *p) {
    return (int64_t)ct->c.n_states * sc->tile_m * sc->tile_n * p->parts / sc->block_x * words_of(ct);
}

/* Blocks that fit on a multiprocessor. */
static int64_t resident(const sn_contract *ct, const sn_sched *sc, const sn_contract_plain *p) {
    const sn_target *t = ct->cx->target;
    int64_t bytes = part_bytes(ct, sc) * sc->stages + given_bytes(ct, sc, p) + SN_SHARED_SYSTEM;
    int64_t blocks = sn_target_blocks(t, sc->block_x), by_shared = (t->shared_bytes + SN_SHARED_SYSTEM) / bytes;
    int64_t by_regs = SN_FILE_REGS / (sc->block_x * (sum_words(ct, sc, p) + SN_CONTRACT_REGS));
    if (by_shared < blocks) blocks = by_shared;
    return by_regs < blocks ? by_regs : blocks;
}

/* Of resources that work side by side the slowest counts, and a part of the others, since none is busy all the time. */
static double together(const double *cycles, size_t n) {
    double longest = 0, sum = 0;
    for (size_t i = 0; i < n; i++) longest = most(longest, cycles[i]), sum += cycles[i];
    return longest + (sum - longest) / SN_CONTRACT_BESIDE;
}

/* Cycles in which a multiprocessor does a step of n tiles side by side: its schedulers begin instructions of their
 * warps, shared memory and the L2 give operands; or a warp waits for what it loads, or for copies that are on their
 * way. */
static double step_cycles(const sn_sched *sc, const work *w, double n) {
    double ahead = sc->stages > 1 && !w->computes ? sc->stages - 1 : 1, own = most(w->issue, w->tensor);
    double each = most(n * w->warps / SN_SCHEDULERS, 1);
    double busy[] = {each * own, n * w->shared / SN_LINE, n * w->fetched / SN_CONTRACT_CACHE};
    double cycles = most(together(busy, SN_COUNT(busy)), own + w->waits * SN_CONTRACT_WAIT);
    return most(cycles + SN_CONTRACT_MEET, SN_CONTRACT_LATENCY / ahead);
}

/* Cycles in which threads of n tiles compute results from their sums: warps of a scheduler take turns. */
static double behind_cycles(const sn_contract *ct, const sn_sched *sc, double n) {
    double warps = n * sc->block_x / SN_WARP / SN_SCHEDULERS, each = (double)sc->tile_m * sc->tile_n / sc->block_x;
    return each * ct->behind * most(SN_PRODUCT_BEHIND / 100.0, warps);
}

/* Of a block: of the whole sum, or of its part. */
static int64_t steps_of(const sn_contract *ct, const sn_sched *sc) {
    return sn_ceil_div(sn_ceil_div(ct->c.k, sc->tile_k), parts_of(sc));
}

/* Cycles in which a multiprocessor does n tiles side by side. */
static double wave_cycles(const sn_contract *ct, const sn_sched *sc, const sn_contract_plain *p, const work *w,
                          int64_t n) {
    double results = (double)n * sc->tile_m * sc->tile_n * sn_dtype_bytes(ct->c.dtype) / SN_CONTRACT_CACHE;
    double given = 2.0 * (double)n * (double)given_bytes(ct, sc, p) / SN_LINE;
    return step_cycles(sc, w, (double)n) * (double)steps_of(ct, sc) + SN_CONTRACT_LATENCY + results + given +
           behind_cycles(ct, sc, (double)n);
}

static int64_t tiles_of(const sn_contract *ct, const sn_sched *sc) {
    return sn_mul_clamped(ct->c.batch, sn_ceil_div(ct->c.m, sc->tile_m) * sn_ceil_div(ct->c.n, sc->tile_n));
}

static double cycles_of(const sn_contract *ct, const sn_sched *sc, const sn_contract_plain *p) {
    int64_t blocks = sn_mul_clamped(tiles_of(ct, sc), parts_of(sc)), units = ct->cx->target->units;
    int64_t side_by_side = resident(ct, sc, p), wave = units * side_by_side;
    work w = work_of(ct, sc, p);
    double cycles = (double)(blocks / wave) * wave_cycles(ct, sc, p, &w, side_by_side);
    cycles += blocks % wave ? wave_cycles(ct, sc, p, &w, sn_ceil_div(blocks % wave, units)) : 0;
    return cycles + sn_contract_share_cycles(sc);
}

/* Parts of the sums, so many that all blocks run at once, each with a few steps; where there are matrix instructions, whose
 * sums contract_split.c adds up. */
static uint32_t parts_for(const sn_contract *ct, const sn_sched *sc, const sn_contract_plain *p) {
    int64_t most = sn_ceil_div(ct->c.k, sc->tile_k) / SN_CONTRACT_PART, n = resident(ct, sc, p) * ct->cx->target->units;
    int64_t parts = sc->plain ? 1 : n / tiles_of(ct, sc);
    if (parts > most) parts = most;
    return parts > 1 ? (uint32_t)parts : 1;
}

/* ---- choosing ---- */

typedef struct search {
    const sn_contract *ct;
    const sn_sched *pinned;
    sn_sched best;
    double cycles; /* of the best; 0: there is none */
} search;

static bool is_pinned(const search *s) { return s->pinned->tile_m && s->pinned->tile_n && s->pinned->block_x; }

static bool has_room(const search *s, const sn_sched *sc, const sn_contract_plain *p) {
    int64_t words = sc->plain ? SN_CONTRACT_PLAIN_SUMS : SN_CONTRACT_SUMS;
    return fits(s->ct, sc, p) && (is_pinned(s) || sum_words(s->ct, sc, p) <= words);
}

static void try_parts(search *s, const sn_sched *sc, const sn_contract_plain *p, uint32_t parts) {
    sn_sched some = *sc;
    if (!some.split) some.split = parts;
    double cycles = resident(s->ct, sc, p) < 1 ? 1 : cycles_of(s->ct, &some, p);
    if (s->cycles > 0 && cycles >= s->cycles) return;
    s->best = some;
    s->cycles = cycles;
}

static void try_tile(search *s, const sn_sched *sc, const sn_contract_plain *p) {
    if (!has_room(s, sc, p)) return;
    bool none = resident(s->ct, sc, p) < 1;
    if (!is_pinned(s) && none) return;
    uint32_t parts = none || sc->split || s->pinned->cls ? 1 : parts_for(s->ct, sc, p);
    try_parts(s, sc, p, 1);
    if (parts > 1) try_parts(s, sc, p, parts);
}

/* Most tiles have no room even as one group of threads with the fewest stages: who has which elements is not asked. A header
 * may have more stages than a pipe. */
static bool may_do(const search *s, sn_sched sc) {
    const sn_contract_plain one = {.parts = 1};
    sc.stages = s->pinned->stages ? s->pinned->stages : LEAST_STAGES;
    return sc.stages <= SN_MAX_PIPE && divides(s->ct, &sc) && has_room(s, &sc, &one);
}

static void try_stages(search *s, sn_sched sc) {
    static const uint32_t THREADS[] = {128, 256, 64};
    uint32_t line = SN_LINE / sn_dtype_bytes(s->ct->operand);
    for (size_t i = 0; i < SN_COUNT(THREADS); i++)
        for (uint32_t lines = 1; lines <= MOST_LINES; lines *= 2) {
            sn_contract_plain shares;
            sc.block_x = s->pinned->block_x ? s->pinned->block_x : THREADS[i];
            sc.tile_k = s->pinned->tile_k ? s->pinned->tile_k : lines * line;
            if (!may_do(s, sc) || !find_shares(&shares, s->ct, &sc)) continue;
            for (uint32_t stages = MOST_STAGES; stages >= LEAST_STAGES; stages--) {
                sc.stages = s->pinned->stages ? s->pinned->stages : stages;
                try_tile(s, &sc, &shares);
            }
        }
}

/* Blocks of matrix instructions stand at constant offsets of each other in tiles whose sides are powers of two. */
static bool has_even_sides(const sn_sched *sc) {
    return !(sc->tile_m & (sc->tile_m - 1)) && !(sc->tile_n & (sc->tile_n - 1));
}

/* Warps of all schedulers, and their matrix instructions, take that long for what is multiplied. */
static double product_cycles(const sn_contract *ct) {
    enum { HUNDRED = 100 };
    double lanes = SN_WARP * SN_SCHEDULERS,
           products = (double)ct->c.batch * ct->c.m * ct->c.n * ct->c.k * ct->c.n_products;
    double fewer = (double)(ct->c.m < ct->c.n ? ct->c.m : ct->c.n),
           percent = SN_CONTRACT_PLAIN + SN_CONTRACT_PLAIN_FEW / fewer;
    double each = ct->mma ? 1.0 / sn_mmas[ct->mma].rate : (double)words_of(ct) / lanes * percent / HUNDRED;
    return products * each / ct->cx->target->units;
}

static double fetch_cycles(const sn_contract *ct) {
    return sn_contraction_fetch(ct->m, &ct->c, ct->cx->target) * 100 / SN_CONTRACT_MEMORY + SN_CONTRACT_LATENCY;
}

double sn_contract_threads_least(const sn_contract *ct) { return most(product_cycles(ct), fetch_cycles(ct)); }

bool sn_contract_complete_threads(sn_sched *sc, double *cycles, const sn_contract *ct) {
    static const uint32_t SIDES[] = {256, 192, 128, 96, 80, 64, 48, 32, 16};
    sn_sched pinned = *sc;
    search s = {.ct = ct, .pinned = &pinned};
    sc->cls = SN_SCHED_CONTRACT;
    sc->threads = true;
    if (!ct->mma) sc->plain = true;
    if (!sc->cluster) sc->cluster = 1;
    /* Other blocks would not be what the model has counted, and may cost registers. */
    if (!sc->min_blocks) sc->min_blocks = 1;
    for (size_t i = 0; i < SN_COUNT(SIDES); i++)
        for (size_t j = 0; j < SN_COUNT(SIDES); j++) {
            sn_sched tile = *sc;
            if (!tile.tile_m) tile.tile_m = SIDES[i];
            if (!tile.tile_n) tile.tile_n = SIDES[j];
            if (pinned.tile_m && i) continue;
            if (pinned.tile_n && j) continue;
            if (!sc->plain && !(pinned.tile_m && pinned.tile_n) && !has_even_sides(&tile)) continue;
            try_stages(&s, tile);
        }
    *sc = s.best;
    *cycles = most(s.cycles, sn_contract_threads_least(ct));
    return s.cycles > 0;
}
