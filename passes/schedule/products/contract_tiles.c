/* contract_tiles.c: which tiles a matrix product on a GPU is cut into: a model ranks headers.
 *
 * Cycles of a multiprocessor: blocks do tiles in turns, and the last turn may have fewer of them; a tile takes its
 * steps of the sum and what threads do with its results, or the writing of these to memory, which goes on meanwhile.
 * A step takes its products, or the bytes that the L2 has to give (once for the blocks of a cluster, what they
 * share), or what threads and shared memory do to them, or its part of the way from memory, whichever is longest. Nothing is faster
 * than memory brings and takes all bytes. Where several blocks share the sums of a tile, the last one adds up what
 * others leave (contract_split.c). Where much is computed from a result (gelu) of few steps, two blocks of a
 * multiprocessor are worth smaller tiles: products of one are under way while threads of the other compute. (Sums of
 * many steps gain nothing: the bytes of smaller tiles cost as much.) Constants are in
 * constants.def; those of H200 were fitted to times of some 500 headers of 45 shapes.
 */
#include "passes/schedule/products/contract.h"
#include "passes/schedule/base/figures.h"

static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

/* How lines of an operand lie, beside those of the cache. */
typedef enum fit { FIT, ASKEW, OVERLAP /* windows that begin inside of each other */ } fit;

static fit fit_of(const sn_contract *ct, const sn_sched *sc, uint32_t operand) {
    const sn_contraction_operand *o = &ct->c.operands[operand];
    sn_ix offset = sn_stmt_get(ct->m, o->load)->ix;
    int64_t line = SN_LINE / sn_dtype_bytes(o->from), stride;
    fit worst = FIT;
    for (uint32_t i = 0; i < ct->c.outer.n + ct->c.inner.n; i++) {
        sn_stmt loop = i < ct->c.outer.n ? ct->c.outer.at[i] : ct->c.inner.at[i - ct->c.outer.n];
        if (!sn_ix_coef(ct->m, offset, sn_stmt_axis(ct->m, loop), &stride)) return ASKEW;
        if (stride != 1 && stride % line) worst = worst == FIT ? ASKEW : worst;
        if (i < ct->c.outer.n && ct->line && stride > 1 && stride < sn_contract_lanes(ct, sc, operand)) worst = OVERLAP;
    }
    return worst;
}

/* Do all operands stay in the L2, beside what is written? Lines of pixels come no faster from there. */
static bool stay(const sn_contract *ct, const sn_target *t) {
    if (ct->images) return false;
    double bytes = sn_contraction_fetch(ct->m, &ct->c, t) * (double)t->cycle_bytes * t->units;
    return 2 * bytes <= (double)t->cache_bytes;
}

/* Bytes of the operand that a multiprocessor gets from the L2 in a cycle, when so many want some. */
static double brought_in_a_cycle(const sn_contract *ct, const sn_target *t, const sn_sched *sc, uint32_t operand,
                                 double active) {
    static const double PERCENT[] = {[FIT] = 100, [ASKEW] = SN_PRODUCT_ASKEW, [OVERLAP] = SN_PRODUCT_OVERLAP};
    fit lie = fit_of(ct, sc, operand);
    double all = (double)(lie == FIT && stay(ct, t) ? SN_PRODUCT_CACHE_LINES : SN_PRODUCT_CACHE) * t->units / active;
    return smaller(all, SN_PRODUCT_FETCH) * 100 / PERCENT[lie];
}

/* Of memory, for so many results. */
static double write_cycles(const sn_contract *ct, const sn_target *t, double results) {
    double rate = (double)t->cycle_bytes * t->units * SN_PRODUCT_WRITE / 100;
    return results * sn_dtype_bytes(ct->c.operands[0].from) / rate;
}

bool sn_contract_stays(const sn_contract *ct, const sn_sched *sc, uint32_t operand) {
    const sn_contraction *c = &ct->c;
    bool alone = c->n_operands == 2 && c->batch == 1 && !ct->in_registers, all_columns = c->n <= sc->tile_n;
    if (ct->halo.taps && operand == ct->halo.operand) return false; /* what taps share comes with each step */
    if (ct->strip.taps && operand == ct->strip.operand) return false;
    return sc->shared && !sc->threads && !sc->plain && alone &&
           (c->operands[operand].right ? all_columns : !all_columns && c->m <= sc->tile_m);
}

int64_t sn_contract_stay_space(const sn_contract *ct, const sn_sched *sc, uint32_t operand) {
    int64_t rows = ct->c.operands[operand].right ? sc->tile_n : sc->tile_m;
    return rows * sn_ceil_div(ct->c.k, sc->tile_k) * sc->tile_k;
}

/* Bytes of what is brought once. */
static int64_t resident_bytes(const sn_contract *ct, const sn_sched *sc) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < ct->c.n_operands; i++)
        if (sn_contract_stays(ct, sc, i))
            bytes += sn_contract_stay_space(ct, sc, i) * sn_dtype_bytes(ct->c.operands[i].from);
    return bytes;
}

/* Do all operands come in whole lines? */
static bool is_even(const sn_contract *ct, const sn_sched *sc) {
    bool even = !ct->images;
    for (uint32_t i = 0; i < ct->c.n_operands; i++) even &= fit_of(ct, sc, i) == FIT;
    return even;
}

/* Of one step of the sum: its products, and the bytes that the L2 gives. */
typedef struct step {
    double products, fetch, rows; /* rows and columns of operands */
    bool even;
} step;

static step step_of(const sn_contract *ct, const sn_target *t, const sn_sched *sc, double active) {
    const sn_contraction *c = &ct->c;
    double m = sc->tile_m, n = sc->tile_n, k = sc->tile_k, rows = 0, fetch = 0;
    bool even = is_even(ct, sc);
    for (uint32_t i = 0; i < c->n_operands; i++) {
        double lines = (double)sn_contract_lines(ct, sc, i) / (c->operands[i].right ? sc->cluster : 1);
        double line = (double)sn_contract_lanes(ct, sc, i) * sn_dtype_bytes(c->operands[i].from);
        double bytes = lines * larger(line, SN_PRODUCT_LINE);
        rows += c->operands[i].right ? n : m;
        if (!sn_contract_stays(ct, sc, i)) fetch += bytes / brought_in_a_cycle(ct, t, sc, i, active);
    }
    double for_one = ct->n_terms ? sn_terms_products(ct->n_terms) : 1;
    double products = m * n * k * c->n_products * for_one / sn_mmas[ct->mma].rate;
    products *= 100.0 / (even ? SN_PRODUCT_BUSY : SN_PRODUCT_BUSY_ODD);
    return (step){products, fetch, rows, even};
}

/* Cycles of shared memory in a step of terms: boxes write it, threads read it and write terms of right operands, and instructions read
 * these for each block of rows. */
static double shared_cycles(const sn_contract *ct, const sn_sched *sc) {
    const sn_mma_info *mma = &sn_mmas[ct->mma];
    double k = sc->tile_k, term = sn_dtype_bytes(mma->operand), bytes = 0;
    for (uint32_t i = 0; i < ct->c.n_operands; i++) {
        const sn_contraction_operand *o = &ct->c.operands[i];
        double raw = sn_dtype_bytes(o->from), rows = o->right ? sc->tile_n : sc->tile_m;
        bytes += ((double)sn_contract_space(ct, sc, i) + rows * k) * raw;
        if (o->right) bytes += rows * k * term * ct->n_terms;
    }
    double blocks = (double)sc->tile_m / mma->m * sn_terms_products(ct->n_terms) * ct->c.n_products;
    return (bytes + blocks * sc->tile_n * k * term) / SN_PRODUCT_SHARED;
}

/* ... of several blocks of a multiprocessor that take turns: each waits for its own operands meanwhile. */
static double step_in_turn(const sn_sched *sc, const step *s) {
    double cycles = larger(s->products, s->fetch) + smaller(s->products, s->fetch) * SN_PRODUCT_BESIDE / 100;
    return cycles + (s->even ? SN_PRODUCT_STEP : SN_PRODUCT_STEP_ODD) +
           (s->even ? SN_PRODUCT_MEMBER : SN_PRODUCT_MEMBER_ODD) * (sc->cluster - 1.0);
}

/* ... of a block, when so many are at work. */
static double step_cycles(const sn_contract *ct, const sn_target *t, const sn_sched *sc, double active) {
    step s = step_of(ct, t, sc, active);
    double k = sc->tile_k, cycles = larger(s.products, s.fetch), waits = cycles;
    if (sc->stages == 2)
        waits = s.products + s.fetch; /* a stage is filled again when the products behind it are done */
    if (sn_waves((double)ct->c.k, k) > sc->stages) waits = larger(waits, SN_PRODUCT_LATENCY / (sc->stages - 1.0));
    if (ct->n_terms) {
        double threads = larger(s.rows * k * SN_PRODUCT_TERMS / SN_ISSUES, shared_cycles(ct, sc));
        return larger(waits, threads) + SN_PRODUCT_MEET;
    }
    return step_in_turn(sc, &s) + waits - cycles;
}

static double tiles_of(const sn_contract *ct, const sn_sched *sc) {
    double down = sn_waves(sn_waves((double)ct->c.m, sc->tile_m), sc->cluster) * sc->cluster;
    return (double)ct->c.batch * down * sn_waves((double)ct->c.n, sc->tile_n);
}

static double steps_of(const sn_contract *ct, const sn_sched *sc) {
    return sn_waves((double)ct->c.k, (double)sc->tile_k * (sc->split > 1 ? sc->split : 1));
}

/* Of a tile, behind another one. */
static double tile_cycles(const sn_contract *ct, const sn_target *t, const sn_sched *sc, double active) {
    double results = (double)sc->tile_m * sc->tile_n;
    double element = SN_PRODUCT_ELEMENT + ct->behind * SN_PRODUCT_BEHIND / 100;
    double own =
        steps_of(ct, sc) * step_cycles(ct, t, sc, active) + results / sc->block_x * element + SN_PRODUCT_RESULTS;
    if (ct->halo.taps) own += SN_PRODUCT_RESULTS; /* threads meet once more, to write rows */
    return larger(own, write_cycles(ct, t, results * active));
}

/* Of tiles that so many blocks of a multiprocessor do beside each other. */
static double side_by_side(const sn_contract *ct, const sn_target *t, const sn_sched *sc, double n) {
    double results = n * sc->tile_m * sc->tile_n;
    step s = step_of(ct, t, sc, t->units);
    double issued = results * (ct->behind + SN_PRODUCT_STORE) / (SN_ISSUES * SN_WARP);
    double shared = larger(n * steps_of(ct, sc) * step_in_turn(sc, &s), issued);
    return larger(tile_cycles(ct, t, sc, t->units), larger(shared, write_cycles(ct, t, results * t->units)));
}

/* Of all tiles, in turns. */
static double turns_cycles(const sn_contract *ct, const sn_target *t, const sn_sched *sc, double tiles) {
    double blocks = sc->min_blocks > 1 ? sc->min_blocks : 1, at_once = blocks * t->units;
    double turns = (double)(int64_t)(tiles / at_once), rest = tiles - turns * at_once, sum = 0;
    if (turns > 0) sum += turns * (blocks > 1 ? side_by_side(ct, t, sc, blocks) : tile_cycles(ct, t, sc, t->units));
    if (rest > t->units) sum += side_by_side(ct, t, sc, rest / t->units);
    else if (rest > 0) sum += tile_cycles(ct, t, sc, rest);
    return sum;
}

static double cycles(const sn_contract *ct, const sn_target *t, const sn_sched *sc) {
    const sn_contraction *c = &ct->c;
    double tiles = tiles_of(ct, sc) * (sc->split > 1 ? sc->split : 1), sum = turns_cycles(ct, t, sc, tiles);
    double memory =
        sn_contraction_fetch(ct->m, c, t) + write_cycles(ct, t, (double)c->batch * (double)c->m * (double)c->n);
    double last = (double)sc->tile_m * sc->tile_n * smaller(tiles, t->units);
    double first = (double)resident_bytes(ct, sc) / SN_PRODUCT_CACHE;
    double both = larger(sum, memory) + smaller(sum, memory) / 100; /* of two that memory bounds, what has less to do */
    return SN_PRODUCT_BEGIN + first + both + sn_contract_share_cycles(sc) +
           write_cycles(ct, t, last) * SN_PRODUCT_LAST / 100;
}

double sn_contract_tiles_cycles(const sn_contract *ct, const sn_sched *sc) { return cycles(ct, ct->cx->target, sc); }

/* Of an element of a left operand that passes through registers: its terms, or as it is. */
static int64_t fragment_bytes(const sn_contract *ct) {
    return (int64_t)sn_dtype_bytes(sn_mmas[ct->mma].operand) * (ct->n_terms ? ct->n_terms : 1);
}

int64_t sn_contract_shared_bytes(const sn_target *t, const sn_sched *sc) {
    int64_t blocks = sc->min_blocks > 1 ? sc->min_blocks : 1;
    return ((int64_t)t->shared_bytes + SN_SHARED_SYSTEM) / blocks - SN_SHARED_SYSTEM;
}

/* An assembler refuses an instruction whose sums, and what else it names, take more registers than threads begin with, whatever those that
 * compute are given later. */
static bool begins_with_enough(const sn_contract *ct, const sn_sched *sc) {
    const sn_mma_info *mma = &sn_mmas[ct->mma];
    int64_t sums = (int64_t)sc->tile_n * mma->m / mma->threads;
    return sums + SN_PRODUCT_NAMED <= (int64_t)sn_box_registers(sc->block_x, sc->min_blocks).all;
}

/* Registers of a thread for sums and left operands, and shared memory of a block for operands, beside results: tiles
 * or at least lines of them, two in turn (contract_bind.c); one line where terms take the room, or lines of tall
 * tiles. */
static bool has_room(const sn_contract *ct, const sn_target *t, sn_sched *sc, bool stages_open) {
    enum { REGISTER = 4 };
    const sn_contraction *c = &ct->c;
    int64_t sums = (int64_t)sc->tile_m * sc->tile_n / sc->block_x * c->n_states * (sn_contract_has_totals(ct) ? 2 : 1);
    int64_t space = 0, right = 0, bytes = sn_dtype_bytes(c->operands[0].from);
    for (uint32_t i = 0; i < c->n_operands; i++) {
        if (!sn_contract_stays(ct, sc, i)) space += sn_contract_space(ct, sc, i);
        if (c->operands[i].right) right += sc->tile_n;
    }
    int64_t stage = space * bytes, terms = SN_TERMS_COPIES * right * sc->tile_k * ct->n_terms * sn_dtype_bytes(SN_BF16);
    bool one = ct->n_terms || sc->tile_m > 2 * sn_mmas[ct->mma].m;
    int64_t line = (one ? 1 : 2) * (int64_t)sc->tile_m * SN_LINE;
    int64_t tile = 2 * (int64_t)sc->tile_m * sc->tile_n * bytes;
    int64_t room = sn_contract_shared_bytes(t, sc) - SN_PRODUCT_SPARE - terms - tile - resident_bytes(ct, sc);
    if (!stages_open || SN_PRODUCT_STAGES * stage > room) room += tile - line;
    while (stages_open && sc->stages > 2 && sc->stages * stage > room) sc->stages--;
    int64_t regs = ct->n_terms ? SN_PRODUCT_TOTALS : SN_PRODUCT_REGS,
            share = (int64_t)sn_box_registers(sc->block_x, sc->min_blocks).computes - SN_CONTRACT_REGS;
    if (!begins_with_enough(ct, sc)) return false;
    int64_t fragments =
        ct->in_registers ? (int64_t)sc->tile_m * sc->tile_k * fragment_bytes(ct) / sc->block_x / REGISTER : 0;
    bool third = sc->block_x > 2 * sn_mmas[ct->mma].threads; /* group of threads: then each has fewer */
    if ((sc->min_blocks > 1 || third) && share < regs) regs = share;
    return sums + fragments <= regs && sc->stages * stage <= room;
}

/* Left operands that pass through registers do so in pieces of a step: of whole instructions, in whole lines or equal
 * parts of one. */
static bool has_pieces(const sn_contract *ct, const sn_sched *sc) {
    int64_t piece = sc->tile_k / SN_PIECES, line = sn_contract_line(ct);
    if (!ct->in_registers) return true;
    return sc->tile_k % (SN_PIECES * sn_mmas[ct->mma].k) == 0 && (piece % line == 0 || line % piece == 0);
}

/* Does the instruction make such tiles, and the pipe of boxes such steps? */
static bool is_possible(const sn_contract *ct, const sn_target *t, const sn_sched *sc) {
    enum { MOST_THREADS = 1024 };
    const sn_mma_info *mma = &sn_mmas[ct->mma];
    uint32_t groups = sc->block_x / mma->threads, whole = SN_LINE / sn_dtype_bytes(ct->c.operands[0].from);
    if (sc->shared && (!resident_bytes(ct, sc) || !sc->persistent || sc->cluster > 1)) return false;
    bool plain_grid = sc->split <= 1 || (sc->cluster == 1 && !sc->persistent); /* or there is no last block of a tile */
    return plain_grid && groups && sc->block_x % mma->threads == 0 && sc->block_x + SN_BOX_THREADS <= MOST_THREADS &&
           sc->tile_m % (mma->m * groups) == 0 && sn_mma_takes_columns(ct->mma, sc->tile_n) &&
           (ct->halo.taps ? sn_contract_depth(ct, sc->tile_k) == sc->tile_k : sc->tile_k % sn_contract_line(ct) == 0) &&
           sc->tile_k % mma->k == 0 && has_pieces(ct, sc) && sn_contract_divides(ct, sc) && sc->stages >= 2 &&
           sc->stages <= SN_MAX_PIPE && sc->cluster <= t->cluster && (!ct->n_terms || sc->tile_k == whole) &&
           sn_contract_has_taps(ct, sc) && sn_contract_has_whole_tiles(ct, sc);
}

/* Of a header of the list. */
enum { ALL = 0 /* parts as blocks are free */ };
typedef struct shape {
    uint32_t m, n, depth, cluster, split, blocks; /* of a multiprocessor */
    bool stays;                                   /* an operand, for all tiles */
} shape;

/* As many as a tile has steps. More of them would only fetch later tiles, and keep the L2 from what is stored
 * meanwhile. */
static uint32_t stages_for(const sn_contract *ct, const sn_sched *sc) {
    double steps = sn_waves((double)ct->c.k, sc->tile_k);
    if (ct->n_terms || steps < SN_PRODUCT_STAGES) return SN_PRODUCT_STAGES;
    return steps < SN_MAX_PIPE ? (uint32_t)steps : SN_MAX_PIPE;
}

/* Parts of the sum, so many that each multiprocessor has one; of taps a whole number each. */
static uint32_t parts_for(const sn_contract *ct, const sn_sched *sc) {
    double steps = sn_waves((double)ct->c.k, sc->tile_k);
    sn_sched one = *sc;
    one.split = (uint32_t)smaller(ct->cx->target->units / tiles_of(ct, sc), steps / SN_PRODUCT_STAGES);
    for (; one.split > 1 && !sn_contract_divides(ct, &one); one.split--) continue;
    return one.split > 1 ? one.split : 1;
}

/* What is open in the pinned header becomes that of a tile of the list. */
static sn_sched complete(const sn_contract *ct, const sn_sched *pinned, const shape *s) {
    enum { MOST_GROUPS = 2 };
    const sn_mma_info *mma = &sn_mmas[ct->mma];
    sn_sched sc = *pinned;
    sc.cls = SN_SCHED_CONTRACT;
    sc.halo = ct->halo.taps || ct->strip.taps;
    if (!sc.tile_m) sc.tile_m = s->m;
    if (!sc.tile_n) sc.tile_n = s->n;
    if (!sc.cluster) sc.cluster = s->cluster;
    if (!sc.tile_k) sc.tile_k = s->depth;
    if (!sc.split) sc.split = s->split == ALL ? parts_for(ct, &sc) : s->split;
    if (pinned->cls == SN_SCHED_NONE && s->blocks > 1) sc.min_blocks = s->blocks;
    uint32_t most = sc.min_blocks > 1 ? 1 : MOST_GROUPS, groups = sc.tile_m / mma->m;
    bool odd = groups == MOST_GROUPS + 1; /* three, which no fewer share */
    if (groups > most && !odd) groups = most;
    if (!sc.block_x) sc.block_x = groups * mma->threads;
    if (pinned->cls == SN_SCHED_NONE) sc.persistent = sc.split <= 1;
    if (pinned->cls == SN_SCHED_NONE) sc.shared = s->stays;
    if (!sc.stages) sc.stages = stages_for(ct, &sc);
    return sc;
}

/* Are pixels what blocks of a cluster would share? Each block brings its own. */
static bool brings_pixels(const sn_contract *ct) {
    bool any = false;
    for (uint32_t i = 0; i < ct->c.n_operands; i++) any |= ct->c.operands[i].right && ct->pixels[i];
    return any;
}

/* Two blocks of a multiprocessor are for results that take long, of sums whose operands have all room at once. Blocks
 * of a cluster have tiles below each other. Threads that take operands apart do it for themselves, and have more to do
 * with few rows. Several blocks share sums where tiles alone leave some without any, and each has enough steps. */
static bool is_wanted(const sn_contract *ct, const sn_target *t, const sn_sched *sc, const sn_sched *pinned) {
    uint32_t least = sn_mmas[ct->mma].m;
    bool beside = sc->min_blocks > 1 && !pinned->min_blocks;
    bool all_at_once = sn_waves((double)ct->c.k, sc->tile_k) <= sc->stages;
    if (beside && (ct->n_terms || ct->behind <= 0 || !all_at_once || tiles_of(ct, sc) <= t->units)) return false;
    if (sc->split > 1 && !pinned->split) {
        double steps = sn_waves((double)ct->c.k, sc->tile_k);
        if (sc->persistent || sc->cluster > 1 || tiles_of(ct, sc) * sc->split > t->units ||
            steps < sc->split * SN_PRODUCT_STAGES)
            return false;
    }
    if (sc->cluster > 1 && !pinned->cluster && (ct->n_terms || ct->c.m <= sc->tile_m || brings_pixels(ct)))
        return false;
    if (pinned->tile_m) return true;
    if (ct->n_terms) return sc->tile_m > least;
    if (sc->tile_m == 3 * least) return false; /* is for terms; two groups have more registers for others */
    bool tall = sc->tile_m > 2 * least;        /* instead of a wide one, of which the right edge cuts off more */
    return !tall || (2 * sc->tile_n <= sc->tile_m && sc->cluster == 1);
}

/* Steps are as long as can be while there is room for enough of them. */
static bool find_depth(sn_sched *out, const sn_contract *ct, const sn_sched *pinned, shape *s) {
    int64_t bytes = sn_dtype_bytes(ct->c.operands[0].from), taps = ct->halo.taps ? ct->halo.taps : 1;
    int64_t depth = sn_contract_depth(ct, 2 * taps * SN_LINE / bytes);
    bool found = false;
    for (; depth; depth = sn_contract_depth(ct, depth - 1)) {
        s->depth = (uint32_t)depth;
        sn_sched sc = complete(ct, pinned, s);
        if (!is_possible(ct, ct->cx->target, &sc) || !has_room(ct, ct->cx->target, &sc, !pinned->stages)) continue;
        if (found && sc.stages <= out->stages) return true;
        *out = sc;
        found = true;
        if (sc.stages >= SN_PRODUCT_STAGES || pinned->tile_k) return true;
    }
    return found;
}

/* Channels are seldom a multiple of 64: as many columns as tiles of equal width have, where none of the usual ones
 * is that; 0: one is. */
static uint32_t own_width(const sn_contract *ct) {
    enum { WIDEST = 256, USUAL = 64 };
    int64_t unit = SN_LINE / 2 / sn_dtype_bytes(ct->c.operands[0].from), tiles = (ct->c.n + WIDEST - 1) / WIDEST;
    int64_t width = ((ct->c.n + tiles - 1) / tiles + unit - 1) / unit * unit;
    while (sn_contract_wants_whole_tiles(ct, true) && width > unit && ct->c.n % width) width -= unit;
    return ct->images && width % USUAL ? (uint32_t)width : 0;
}

static bool fits(const sn_contract *ct, const sn_sched *sc) {
    const char *why_not;
    return sn_contract_fits(&why_not, ct, sc);
}

/* Headers and what they cost, the best first. */
typedef struct ranking {
    sn_sched_list list;
    SN_VEC(double) cost;
} ranking;

/* Insert by cycles; what differs by rounding stays in the order of the list. */
static void rank(ranking *r, sn_arena *arena, const sn_sched *sc, double c) {
    SN_PUSH(arena, &r->list, *sc);
    SN_PUSH(arena, &r->cost, c);
    uint32_t at = r->list.n - 1;
    for (; at > 0 && r->cost.at[at - 1] > c * 1.0001; at--)
        r->list.at[at] = r->list.at[at - 1], r->cost.at[at] = r->cost.at[at - 1];
    r->list.at[at] = *sc;
    r->cost.at[at] = c;
}

static void rank_tiles(ranking *r, const sn_contract *ct, const sn_sched *pinned) {
    static const uint32_t WIDTHS[] = {256, 192, 128, 64}, HEIGHTS[] = {128, 64, 256, 192};
    static const shape SHARED[] = {{.cluster = 1, .split = 1, .stays = true},
                                   {.cluster = 1, .split = 1},
                                   {.cluster = 2, .split = 1},
                                   {.cluster = 1, .split = 1, .blocks = 2},
                                   {.cluster = 2, .split = 1, .blocks = 2},
                                   {.cluster = 1, .split = 2},
                                   {.cluster = 1, .split = 3},
                                   {.cluster = 1, .split = 4},
                                   {.cluster = 1, .split = 6},
                                   {.cluster = 1, .split = 8},
                                   {.cluster = 1, .split = ALL}};
    const sn_target *t = ct->cx->target;
    uint32_t own = own_width(ct);
    for (size_t h = 0; h < SN_COUNT(HEIGHTS); h++)
        for (size_t w = 0; w <= SN_COUNT(WIDTHS); w++)
            for (size_t s = 0; s < SN_COUNT(SHARED); s++) {
                uint32_t width = w < SN_COUNT(WIDTHS) ? WIDTHS[w] : own;
                if (!width) continue;
                shape tile = SHARED[s];
                tile.m = HEIGHTS[h], tile.n = width;
                sn_sched sc;
                if (!find_depth(&sc, ct, pinned, &tile) || !is_wanted(ct, t, &sc, pinned)) continue;
                if (width == own && !fits(ct, &sc)) continue;
                rank(r, ct->cx->scratch, &sc, cycles(ct, t, &sc));
            }
}

/* The same where taps share pixels, if boxes can bring those. */
static void rank_sharing(ranking *r, const sn_contract *ct, const sn_sched *pinned) {
    ranking own = {0};
    sn_contract shared = *ct;
    if (!sn_contract_find_halo(&shared) && !sn_contract_find_strip(&shared)) return;
    rank_tiles(&own, &shared, pinned);
    if (!own.list.n || !fits(&shared, &own.list.at[0])) return;
    for (uint32_t i = 0; i < own.list.n; i++) rank(r, ct->cx->scratch, &own.list.at[i], own.cost.at[i]);
}

void sn_contract_tiles(sn_sched_list *out, const sn_contract *ct, const sn_sched *pinned) {
    ranking r = {0};
    if (!pinned->halo) rank_tiles(&r, ct, pinned);
    if (!pinned->cls || pinned->halo) rank_sharing(&r, ct, pinned);
    for (uint32_t i = 0; i < r.list.n && out->n < SN_PRODUCT_HEADERS; i++)
        sn_schedule_propose(out, ct->cx, &r.list.at[i]);
    if (r.list.n) out->cycles = r.cost.at[0];
}
