/* outer_keep.c: see outer_keep.h.
 *
 *              tile: X * V columns, at least a sector wide
 *      y=0   | V  V  ..  V |  elements 0, Y, 2Y, ...          softmax over the first axis, norms over channels: each column is
 *      y=1   | V  V  ..  V |  elements 1, Y+1, ...            read once, by one block, and once more from where it is kept
 *      ...
 *
 * Tiles are narrow, since whole columns have to fit, and tall, since threads share them. All tiles that fit are weighed by what
 * they take beyond one reading and one writing at the speed of memory:
 *
 *   rows that threads have beyond the last        steps * Y / N
 *   blocks that are alone on a multiprocessor     1 + ALONE / r^2: with r resident ones some load while others add up
 *   narrow lines                                  a sector is half of what memory moves best
 *   the last wave                                 half of what it leaves idle: those that run then have more of the memory
 *   bytes in flight                               needed / had, where had is less
 *   few threads                                   who issue what an element takes
 *   rows that begin anywhere (short columns)      a sector more for each line that a tile has a row of, or less: so measured
 *
 * Columns of few elements may be as many as threads of a block, each in the registers of one thread: no exchange, and all of it in
 * flight at once. Too few of them for all multiprocessors are left to threads that share them.
 *
 * Relies on figures alone, not on a bound kernel. Cost: some hundred tiles.
 */
#include "passes/schedule/outer_keep.h"

#include "passes/schedule/figures.h"

typedef struct tile {
    uint32_t x, y, vector, unroll;
    int64_t steps; /* elements of a thread along a column */
    bool shared;
    double cost;
} tile;

typedef struct keeper {
    const sn_target *t;
    const sn_schedule_shape *sh;
    uint32_t bytes, kept; /* of the smallest element; of all that is kept of an element */
    double needed;        /* bytes in flight: half of them where as much is stored */
    bool is_short, askew; /* columns of few elements; their rows do not begin at sectors */
    tile best;
} keeper;

/* Words of registers of a thread that keeps its elements: single halves take a word each. */
static double words_of(const keeper *ke, const tile *ti) {
    double each = ke->bytes * ti->vector < 4 ? ke->kept * 4.0 / ke->bytes : ke->kept;
    return (double)(ti->steps * ti->vector) * each / 4;
}

/* Blocks that fit on a multiprocessor. */
static int64_t residents(const keeper *ke, const tile *ti) {
    int64_t threads = (int64_t)ti->x * ti->y, fit = ke->t->unit_threads / threads;
    double word = ke->bytes > 4 ? ke->bytes / 4.0 : 1,
           own = ti->shared ? ti->unroll * ti->vector * word : words_of(ke, ti);
    double regs = SN_COLUMN_REGS * (word > 1 ? 1.5 : 1) + own; /* arithmetic on words of 64 bits takes more, too */
    int64_t by_regs = (int64_t)(SN_FILE_REGS / (regs * (double)threads));
    if (by_regs < fit) fit = by_regs;
    if (!ti->shared) return fit;
    int64_t bytes = ti->steps * threads * ti->vector * ke->kept + SN_SHARED_RESERVED;
    int64_t by_shared = (ke->t->shared_bytes + SN_SHARED_SYSTEM) / bytes;
    return by_shared < fit ? by_shared : fit;
}

static double cost_of(const keeper *ke, const tile *ti) {
    const sn_target *t = ke->t;
    double r = (double)residents(ke, ti), wide = ti->x * ti->vector * ke->bytes, threads = (double)ti->x * ti->y;
    if (r < 1 || (!ti->shared && words_of(ke, ti) > SN_KEPT_BYTES / 4 * 2)) return 0;
    double blocks = (double)sn_ceil_div(ke->sh->rows, ti->x * ti->vector), all = blocks / (r * t->units);
    double waves =
        all < 1 ? 1 / (blocks / t->units < 1 ? blocks / t->units : 1) : (sn_waves(blocks, r * t->units) / all + 1) / 2;
    double own = ti->shared ? ti->unroll : (double)ti->steps;
    double there = all < 1 ? (r * all > 1 ? r * all : 1) : r; /* on a multiprocessor that is not idle */
    double flight = there * threads * own * ti->vector * ke->bytes;
    double late = flight * SN_FLIGHT_ENOUGH < ke->needed * 100 ? ke->needed / flight : 1;
    double cost = (double)(ti->steps * ti->y) / (double)ke->sh->max_count * waves * late;
    cost *= 1 + SN_COLUMNS_ALONE / 100.0 / (r * r);
    if (r * threads < SN_IDLE_THREADS) cost *= 1 + SN_COLUMNS_FEW / 100.0 * (SN_IDLE_THREADS / (r * threads) - 1);
    if (ke->is_short && ke->askew && wide <= SN_LINE) cost *= 1 + SN_SECTOR / wide;
    return wide < 2 * SN_SECTOR ? cost * SN_COLUMNS_SECTOR / 100 : cost;
}

static void weigh(keeper *ke, tile ti) {
    ti.cost = cost_of(ke, &ti);
    if (ti.cost > 0 && (ke->best.cost == 0 || ti.cost < ke->best.cost * 0.98)) ke->best = ti;
}

/* Steps in shared memory are whole turns of what is written out. */
static void weigh_shared(keeper *ke, tile ti, uint32_t written) {
    int64_t turns = sn_ceil_div(ti.steps, written);
    ti.shared = true;
    ti.unroll = (uint32_t)sn_ceil_div(ti.steps, turns);
    ti.steps = turns * ti.unroll;
    weigh(ke, ti);
}

static void weigh_threads(keeper *ke, uint32_t x, uint32_t vector) {
    for (uint32_t y = 1; y * x <= ke->t->max_threads && y <= ke->sh->max_count; y *= 2) {
        tile ti = {.x = x, .y = y, .vector = vector, .steps = sn_ceil_div(ke->sh->max_count, y)};
        if (y * x < SN_COLUMNS_LEAST) continue;
        if (ti.steps <= SN_KEPT_BYTES / 2) {
            tile in_regs = ti;
            in_regs.unroll = (uint32_t)ti.steps;
            weigh(ke, in_regs);
        }
        for (uint32_t written = SN_COLUMNS_WRITTEN; written >= SN_COLUMN_LOADS; written /= 2)
            weigh_shared(ke, ti, written);
    }
}

/* Do nests store their elements, too? */
static bool stores_columns(const sn_module *m, const sn_schedule_shape *sh) {
    for (uint32_t i = 0; i < sh->n_nests; i++)
        if (sn_stmt_get(m, sh->nests[i].top)->op == SN_LOP_LOOP) return true;
    return false;
}

bool sn_schedule_keep_columns(sn_sched *sc, sn_pass_ctx *cx, const sn_schedule_shape *sh, uint32_t bytes,
                              uint32_t vector) {
    uint32_t widest;
    keeper ke = {.t = cx->target, .sh = sh, .bytes = bytes, .kept = sn_schedule_kept(&widest, cx->m, sh)};
    ke.needed = stores_columns(cx->m, sh) ? ke.t->flight_bytes / 2.0 : ke.t->flight_bytes;
    if (!ke.t->is_gpu || !ke.kept || !bytes) return false;
    ke.is_short = sh->max_count <= SN_SHORT_COLUMN;
    ke.askew = sn_last_outer_extent(cx, sh) * bytes % SN_SECTOR != 0;
    uint32_t most = ke.is_short ? SN_COLUMN_MOST_THREADS : SN_COLUMN_THREADS;
    for (uint32_t v = vector; v >= 1; v /= 2)
        for (uint32_t x = most; x >= 1 && x * v * bytes >= SN_SECTOR; x /= 2)
            if (ke.is_short || x * v * bytes <= 4 * SN_LINE) weigh_threads(&ke, x, v);
    if (ke.best.cost == 0) return false;
    int64_t wide = ke.best.x * ke.best.vector;
    if (ke.is_short && sh->rows < wide * ke.t->units) return false;
    double idle = (double)ke.t->units / (double)sn_ceil_div(sh->rows, wide); /* so it is either way */
    if (ke.best.cost * 100 > SN_COLUMNS_AGAIN * (idle > 1 ? idle : 1)) return false;
    sc->vector = ke.best.vector, sc->block_x = ke.best.x, sc->block_y = ke.best.y, sc->unroll = ke.best.unroll;
    sc->persistent = !ke.best.shared, sc->shared = ke.best.shared;
    if (!sc->min_blocks && residents(&ke, &ke.best) > 1) sc->min_blocks = (uint32_t)residents(&ke, &ke.best);
    return true;
}
