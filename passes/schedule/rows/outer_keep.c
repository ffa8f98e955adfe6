/* outer_keep.c: see outer_keep.h.
 *
 *              tile: X * V columns, at least a sector wide
 *      y=0   | V  V  ..  V |  elements 0, Y, 2Y, ...          softmax over the first axis, norms over channels: each column is
 *      y=1   | V  V  ..  V |  elements 1, Y+1, ...            read once, by a block or the C blocks of a cluster, which have elements
 *      ...                                                   0 .. Y-1, Y .. 2Y-1, ..., and once more from where it is kept
 *
 * Tiles are narrow, since whole columns have to fit, and tall, since threads share them. All tiles that fit are weighed by what
 * they take beyond one reading and one writing at the speed of memory:
 *
 *   rows that threads have beyond the last        steps * Y / N
 *   blocks that are alone on a multiprocessor     1 + ALONE / r^2: with r resident ones some load while others add up or wait
 *   clusters                                      whose blocks wait for each other
 *   narrow lines                                  each halving of a line of 128 bytes
 *   the last wave                                 half of what it leaves idle: those that run then have more of the memory
 *   bytes in flight                               needed / had, where had is less
 *   few threads                                   who issue what an element takes
 *   single halves                                 twice the instructions, and stores of parts of words
 *   exchange over y                               each step as much as some elements of a thread
 *   shared memory                                 each element is stored there and loaded again
 *   rows that begin anywhere                      a sector more for each line of a tile, of more than the L2 has 2.6; or what tiles have in common
 *                                                 that store whole sectors (outer_sectors.c)
 *
 * Columns of few elements may be as many as threads of a block, each in the registers of one thread: no exchange, and all of it in
 * flight at once. Too few of them for all multiprocessors are left to threads that share them. Few columns that lie side by side and
 * beside nothing else are one tile, whose lines follow each other, however narrow they are.
 *
 * Relies on figures alone, not on a bound kernel. Cost: some hundred tiles.
 */
#include "passes/schedule/rows/outer_keep.h"

#include "passes/schedule/base/figures.h"
#include "passes/schedule/rows/rows.h"

typedef struct tile {
    uint32_t x, y, vector, unroll, cluster;
    int64_t steps;      /* elements of a thread along a column */
    bool shared, whole; /* whole: all columns that lie side by side, so that lines follow each other */
    bool sectors;       /* it stores whole ones */
    double cost;
} tile;

typedef struct keeper {
    const sn_target *t;
    const sn_schedule_shape *sh;
    uint32_t bytes, kept; /* of the smallest element; of all that is kept of an element */
    double needed;        /* bytes in flight: half of them where as much is stored */
    bool is_short, askew; /* columns of few elements; their rows do not begin at sectors */
    double parts; /* sectors that a line takes more then: memory reads what is not written of one, the L2 has it */
    uint32_t states, values; /* bytes that the largest reduction carries of a column; how many values that is */
    uint32_t vector;         /* elements of the widest accesses */
    sn_columns columns;
    bool may_overlap; /* tiles may have columns in common */
    tile best;
} keeper;

static int64_t columns_of(const tile *ti) { return (int64_t)ti->x * ti->vector; }

/* Tiles of all columns. */
static int64_t tiles_of(const keeper *ke, const tile *ti) {
    if (!ti->sectors) return sn_ceil_div(ke->sh->rows, columns_of(ti));
    return ke->sh->rows / ke->columns.along *
           sn_ceil_div(ke->columns.along, sn_columns_own(&ke->columns, columns_of(ti)));
}

/* Words of registers of a thread that keeps its elements: single halves take a word each, and so do those of which exponentials are
 * added up, all at once; of short columns, if threads meet between the nests. */
static double words_of(const keeper *ke, const tile *ti) {
    bool terms = ke->is_short ? ke->sh->n_nests > 2 && ti->y > 1 : ke->values > 1;
    bool apart = ke->bytes < 4 && (ke->bytes * ti->vector < 4 || terms);
    double each = apart ? ke->kept * 4.0 / ke->bytes : ke->kept;
    return (double)(ti->steps * ti->vector) * each / 4;
}

/* Shared memory that threads meet in: a slot for each that no other one of its warp has a column with, and for each block of a
 * cluster two, used in turn. */
static int64_t slots_of(const keeper *ke, const tile *ti) {
    if (ti->y == 1 && ti->cluster == 1) return 0;
    int64_t column = (int64_t)ti->vector * ke->states, rows = ti->y;
    if (ti->x < SN_WARP && (ti->x & (ti->x - 1)) == 0) rows = sn_ceil_div(rows * ti->x, SN_WARP);
    return ti->x * column * (ti->cluster > 1 ? rows + 2 * ti->cluster : rows);
}

/* Blocks that fit on a multiprocessor. */
static int64_t residents(const keeper *ke, const tile *ti) {
    int64_t threads = (int64_t)ti->x * ti->y, fit = ke->t->unit_threads / threads;
    double word = ke->bytes > 4 ? ke->bytes / 4.0 : 1,
           own = ti->shared ? ti->unroll * ti->vector * word : words_of(ke, ti);
    double regs = SN_COLUMN_REGS * (word > 1 ? 1.5 : 1) + own; /* arithmetic on words of 64 bits takes more, too */
    double carried = ti->vector * ke->states / 4.0;
    if (!ke->is_short && carried > SN_COLUMN_CARRIED) regs += carried - SN_COLUMN_CARRIED;
    if (!ke->is_short && !ti->shared && ke->values > 1) regs += SN_COLUMN_TERMS;
    if (!ti->shared && ti->cluster > 1) regs += SN_COLUMN_TERMS;
    int64_t by_regs = (int64_t)(SN_FILE_REGS / (regs * (double)threads));
    if (by_regs < fit) fit = by_regs;
    if (!ti->shared) return fit;
    int64_t bytes = ti->steps * threads * ti->vector * ke->kept + SN_SHARED_RESERVED;
    int64_t by_shared = (ke->t->shared_bytes + SN_SHARED_SYSTEM) / (bytes + slots_of(ke, ti));
    return by_shared < fit ? by_shared : fit;
}

/* What threads take to meet, as a part of what they do: each step over y takes as long as some elements of a thread. */
static double meeting(const keeper *ke, const tile *ti) {
    double steps = 1, own = (double)ti->steps * ti->vector;
    for (uint32_t y = ti->y; y > 1; y /= 2) steps++;
    return steps * ke->states / 4 * SN_COLUMNS_MEETING / 100.0 / own;
}

/* What tiles take longer that store whole sectors: narrow elements are more for each byte. */
static double of_sectors(const keeper *ke, const tile *ti) {
    double over = (double)ke->columns.over / (double)sn_columns_own(&ke->columns, columns_of(ti));
    return 1 + SN_COLUMNS_OVER / 100.0 * SN_WORD / ke->bytes * over;
}

/* What long columns take besides. */
static double of_long(const keeper *ke, const tile *ti) {
    double wide = ti->x * ti->vector * ke->bytes, cost = 1 + meeting(ke, ti);
    if (ti->whole) return cost;
    if (ti->sectors) cost *= of_sectors(ke, ti);
    else if (ke->askew) cost *= 1 + ke->parts * SN_SECTOR / wide;
    for (double line = wide; line < SN_LINE; line *= 2) cost *= SN_COLUMNS_SECTOR / 100.0;
    return cost;
}

static double cost_of(const keeper *ke, const tile *ti) {
    const sn_target *t = ke->t;
    double r = (double)residents(ke, ti), wide = ti->x * ti->vector * ke->bytes, threads = (double)ti->x * ti->y;
    if (r < 1 || (!ti->shared && words_of(ke, ti) > SN_KEPT_BYTES / 4 * 2)) return 0;
    double blocks = (double)tiles_of(ke, ti) * ti->cluster, all = blocks / (r * t->units);
    double waves =
        all < 1 ? 1 / (blocks / t->units < 1 ? blocks / t->units : 1) : (sn_waves(blocks, r * t->units) / all + 1) / 2;
    double own = ti->shared ? ti->unroll : (double)ti->steps;
    double there = all < 1 ? (r * all > 1 ? r * all : 1) : r; /* on a multiprocessor that is not idle */
    double flight = there * threads * own * ti->vector * ke->bytes;
    bool at_once = all < 1 && !ti->shared; /* all there is: no more could be in flight */
    double late = !at_once && flight * SN_FLIGHT_ENOUGH < ke->needed * 100 ? ke->needed / flight : 1;
    double cost = (double)(ti->steps * ti->y * ti->cluster) / (double)ke->sh->max_count * waves * late;
    if (ti->cluster > 1) cost *= (ke->values > 1 ? SN_COLUMNS_TOGETHER : SN_COLUMNS_CLUSTER) / 100.0;
    cost *= 1 + SN_COLUMNS_ALONE / 100.0 * (ke->is_short ? 2 : ke->values) / (r * r);
    if (ti->shared) cost *= SN_COLUMNS_SHARED / 100.0;
    if (r * threads < SN_IDLE_THREADS) cost *= 1 + SN_COLUMNS_FEW / 100.0 * (SN_IDLE_THREADS / (r * threads) - 1);
    if (ti->vector * ke->bytes < SN_COLUMN_WORD) cost *= SN_COLUMNS_NARROW / 100.0;
    if (ke->is_short) {
        if (ti->sectors) cost *= of_sectors(ke, ti);
        else if (ke->askew && wide <= SN_LINE) cost *= 1 + SN_SECTOR / wide;
        return wide < 2 * SN_SECTOR ? cost * SN_COLUMNS_SECTOR / 100 : cost;
    }
    return cost * of_long(ke, ti);
}

static void weigh(keeper *ke, tile ti) {
    bool single = ti.vector * ke->bytes < SN_COLUMN_WORD && ke->values > 1; /* bound by what is computed of each */
    bool over =
        ke->may_overlap && !single && !ti.whole && sn_columns_own(&ke->columns, columns_of(&ti)) < columns_of(&ti);
    for (uint32_t sectors = 0; sectors <= over; sectors++) {
        ti.sectors = sectors;
        ti.cost = cost_of(ke, &ti);
        if (ti.cost > 0 && (ke->best.cost == 0 || ti.cost < ke->best.cost * 0.98)) ke->best = ti;
    }
}

/* Steps in shared memory are whole turns of what is written out. */
static void weigh_shared(keeper *ke, tile ti, uint32_t written) {
    int64_t turns = sn_ceil_div(ti.steps, written);
    ti.shared = true;
    ti.unroll = (uint32_t)sn_ceil_div(ti.steps, turns);
    ti.steps = turns * ti.unroll;
    weigh(ke, ti);
}

static void weigh_threads(keeper *ke, uint32_t x, uint32_t vector, uint32_t cluster, bool whole) {
    for (uint32_t y = 1; y * x <= ke->t->max_threads && y <= ke->sh->max_count; y *= 2) {
        tile ti = {.x = x, .y = y, .vector = vector, .cluster = cluster, .whole = whole};
        ti.steps = sn_ceil_div(ke->sh->max_count, (int64_t)y * cluster);
        if (y * x < SN_COLUMNS_LEAST) continue;
        if (ti.steps <= SN_KEPT_BYTES / 2) {
            tile in_regs = ti;
            in_regs.unroll = (uint32_t)ti.steps;
            weigh(ke, in_regs);
        }
        for (uint32_t written = SN_COLUMNS_WRITTEN; written >= SN_COLUMN_LOADS; written /= 2)
            weigh_shared(ke, ti, cluster > 1 && ke->values == 1 ? (uint32_t)sn_ceil_div(written, vector) : written);
    }
}

/* Do nests store their elements, too? */
static bool stores_columns(const sn_module *m, const sn_schedule_shape *sh) {
    for (uint32_t i = 0; i < sh->n_nests; i++)
        if (sn_stmt_get(m, sh->nests[i].top)->op == SN_LOP_LOOP) return true;
    return false;
}

static bool lines_follow(sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    sn_module *m = cx->m;
    int64_t c, along = sn_last_outer_extent(cx, sh);
    for (sn_nest_access a = {0}; sn_schedule_next_access(&a, m, sh);) {
        const sn_chain *nest = &a.nest->chain;
        sn_axis last = sn_stmt_axis(m, nest->at[nest->n - 1]);
        if (!sn_ix_coef(m, sn_stmt_get(m, a.s)->ix, last, &c) || c != along) return false;
    }
    return sh->n_nests > 0;
}

static void look_at_states(keeper *ke, const sn_module *m, const sn_schedule_shape *sh) {
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        const sn_stmt_rec *r = sn_stmt_get(m, sh->nests[i].top);
        uint32_t bytes = 0;
        for (uint32_t k = 0; r->op == SN_LOP_REDUCE && k < r->n_results; k++)
            bytes += sn_dtype_bytes(sn_val_get(m, sn_result(r, k))->dtype);
        if (bytes > ke->states) ke->states = bytes, ke->values = r->n_results;
    }
}

/* Tiles of which a block, or a cluster, has whole columns. */
static void weigh_tiles(keeper *ke, uint32_t vector, uint32_t cluster) {
    uint32_t most = ke->is_short ? SN_COLUMN_MOST_THREADS : SN_COLUMN_MOST_THREADS / 2;
    for (uint32_t v = vector; v >= 1; v /= 2)
        for (uint32_t x = most; x >= 1 && x * v * ke->bytes >= SN_SECTOR; x /= 2)
            if (ke->is_short || x * v * ke->bytes <= 4 * SN_LINE) weigh_threads(ke, x, v, cluster, false);
}

/* Reading columns again, by lines as wide as 32 threads make them. */
static double again(const keeper *ke) {
    double cost = SN_COLUMNS_AGAIN / 100.0, each = ke->vector * ke->bytes;
    if (each < SN_COLUMN_WORD) cost *= SN_COLUMNS_NARROW / 100.0;
    return ke->askew ? cost * (1 + SN_SECTOR / (each * SN_COLUMN_THREADS)) : cost;
}

static bool is_worth_it(const keeper *ke) {
    if (ke->best.cost == 0) return false;
    int64_t wide = ke->best.x * ke->best.vector;
    if (ke->is_short && ke->sh->rows < wide * ke->t->units) return false;
    double idle = (double)ke->t->units / (double)sn_ceil_div(ke->sh->rows, wide); /* so it is either way */
    return ke->best.cost <= again(ke) * (idle > 1 && ke->best.cluster == 1 ? idle : 1);
}

/* What one block has no room for, or by narrow lines, a cluster may have, or all of few columns together. */
static void weigh_clusters(keeper *ke, sn_pass_ctx *cx, uint32_t vector) {
    int64_t along = sn_last_outer_extent(cx, ke->sh);
    bool follow = lines_follow(cx, ke->sh);
    for (uint32_t c = 1; c <= ke->t->cluster && (c == 1 || ke->sh->max_count >= c * SN_CLUSTER_COLUMN); c *= 2) {
        if (c > 1) weigh_tiles(ke, vector, c);
        for (uint32_t v = sn_least(vector, sn_pow2_divisor(along)); v >= 1 && follow; v /= 2)
            if (along / v <= SN_COLUMN_MOST_THREADS) weigh_threads(ke, (uint32_t)(along / v), v, c, true);
    }
}

bool sn_schedule_keep_columns(sn_sched *sc, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, uint32_t bytes,
                              uint32_t vector) {
    uint32_t widest;
    keeper ke = {.t = cx->target, .sh = sh, .bytes = bytes, .kept = sn_schedule_kept(&widest, cx->m, sh)};
    ke.needed = stores_columns(cx->m, sh) ? ke.t->flight_bytes / 2.0 : ke.t->flight_bytes;
    if (!ke.t->is_gpu || !ke.kept || !bytes) return false;
    ke.is_short = sh->max_count <= SN_SHORT_COLUMN;
    ke.askew = sn_last_outer_extent(cx, sh) * bytes % SN_SECTOR != 0;
    bool in_cache = 2 * sn_mul_clamped(sn_mul_clamped(sh->rows, sh->max_count), bytes) <= (int64_t)ke.t->cache_bytes;
    ke.parts = in_cache ? 1 : SN_COLUMNS_ASKEW / 100.0;
    look_at_states(&ke, cx->m, sh);
    ke.vector = vector;
    ke.may_overlap = sn_columns_overlap(&ke.columns, cx, k, sh) && ke.columns.along % vector == 0;
    weigh_tiles(&ke, vector, 1);
    if (!ke.is_short) weigh_clusters(&ke, cx, vector);
    bool alone = ke.best.cost > 0 && ke.best.cluster == 1, worth = is_worth_it(&ke);
    double of_team;
    sn_sched team = *sc;
    if (!(worth && alone) && sn_schedule_team_columns(&of_team, &team, cx, sh, bytes, vector) &&
        (!worth || of_team * SN_TEAM_BETTER < ke.best.cost * 100)) {
        *sc = team;
        return true;
    }
    if (!worth) return false;
    sc->vector = ke.best.vector, sc->block_x = ke.best.x, sc->block_y = ke.best.y, sc->unroll = ke.best.unroll;
    sc->persistent = !ke.best.shared, sc->shared = ke.best.shared, sc->sectors = ke.best.sectors;
    if (ke.best.cluster > 1) sc->cluster = ke.best.cluster;
    if (!sc->min_blocks && residents(&ke, &ke.best) > 1) sc->min_blocks = (uint32_t)residents(&ke, &ke.best);
    return true;
}

/* Of columns side by side that are so wide, or of all there are. */
static int64_t tile_bytes(int64_t wide, int64_t along, int64_t elements, int64_t bytes) {
    int64_t line = sn_ceil_div(wide * elements, bytes);
    return sn_mul_clamped(along < line ? along : line, bytes);
}

bool sn_columns_stay(const sn_target *t, int64_t columns, int64_t along, int64_t elements, int64_t bytes) {
    if (!t->is_gpu || columns <= 0 || along <= 0 || elements <= 0 || bytes <= 0) return false;
    int64_t tile = tile_bytes(SN_LINE, along, elements, bytes), room = t->shared_bytes / 2;
    int64_t blocks = sn_mul_clamped(columns / (tile / bytes), sn_ceil_div(tile, room));
    return tile <= room * t->cluster && blocks >= t->units;
}

/* A block may keep half a line, and a cluster lines, each of them a sector more where rows begin anywhere. Of f64 exponentials that are kept are not
 * computed again (stage.c). Where two blocks have room for a line those of a cluster wait little for each other, and are better than reading memory again. */
bool sn_columns_dear(const sn_target *t, int64_t columns, int64_t along, int64_t elements, int64_t bytes) {
    enum { READINGS = 3, HALF = SN_LINE / 2 };
    int64_t room = t->shared_bytes / 2;
    if (!t->is_gpu || columns <= 0 || along <= 0 || elements <= 0 || bytes <= 0) return false;
    if (bytes / elements > SN_WORD || along * (bytes / elements) % SN_SECTOR == 0) return false;
    bool in_cache = sn_mul_clamped(columns, bytes) <= (int64_t)t->cache_bytes;
    if (tile_bytes(SN_LINE, along, elements, bytes) <= (in_cache ? room : 2 * room)) return false;
    bool block = tile_bytes(HALF, along, elements, bytes) <= room;
    double cost = (block ? SN_COLUMNS_SECTOR : SN_COLUMNS_TOGETHER) / 100.0 * SN_COLUMNS_SHARED / 100.0;
    cost *= 1 + (double)SN_SECTOR / (block ? HALF : SN_LINE);
    double copy = 2.0 * (double)columns * (double)bytes / (t->units * (double)t->cycle_bytes);
    return copy * (cost - READINGS / 2.0) > SN_TEAM_AGAIN;
}
