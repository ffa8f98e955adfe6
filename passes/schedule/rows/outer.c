/* outer.c: binding of class outer: lanes own columns, block.y shares the reduction over rows.
 *
 *     column = (g*X + x)*V + v;  element = ((uo*U + u)*C + c)*Y + y
 *
 * Columns beyond the last are computed as copies of the last vector, with stores masked, because all threads have to
 * take part in the reductions over block.y. Where several nests want the same elements a block keeps its columns
 * (outer_keep.c, stage.c), or the C blocks of a cluster or of a team do (outer_team.c). Where lines begin inside of sectors, tiles have some columns of
 * the next one (outer_sectors.c); bytes and halves of odd rows have vectors that begin anywhere (outer_odd.c).
 */
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/base/teams.h"
#include "passes/schedule/rows/outer_keep.h"
#include "passes/schedule/rows/outer_odd.h"
#include "passes/schedule/rows/rows.h"

/* ---- choosing ---- */

/* What columns ask about the shape. */
typedef struct columns {
    uint32_t bytes;  /* smallest element that nests walk along the last outer axis (0: none) */
    uint32_t states; /* values that the reductions carry, f64 and i64 counted twice */
    bool keyed;      /* positions of bytes: rows that are written out have one each (codegen-llvm/keyed.c) */
    bool summed;     /* sums and products of bytes: those of several rows are 32 bits (codegen-llvm/packed.c) */
    bool odd;        /* bytes or halves whose vectors begin anywhere (outer_odd.c) */
    bool weighed;    /* sums of exponentials, of which several are one state at a time */
    bool exps;       /* sums of exponentials of f64: one for each element and each group that is loaded together */
} columns;

static columns look_at_columns(sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    const sn_module *m = cx->m;
    columns co = {0};
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        const sn_stmt_rec *r = sn_stmt_get(m, sh->nests[i].top);
        if (sh->nests[i].least_outer) sn_schedule_smaller(&co.bytes, sh->nests[i].least_outer);
        for (uint32_t k = 0; r->op == SN_LOP_REDUCE && k < r->n_results; k++)
            co.states += sn_dtype_bytes(sn_val_get(m, sn_result(r, k))->dtype) > 4 ? 2 : 1;
        bool one = sh->n_nests == 1 && r->op == SN_LOP_REDUCE && r->n_combs == 1 && co.bytes == 1;
        co.keyed = one && sn_combs[r->combs[0]].second == SN_SECOND_POSITION;
        co.summed = one && (r->combs[0] == SN_COMB_SUM || r->combs[0] == SN_COMB_PROD);
        for (uint32_t c = 0; r->op == SN_LOP_REDUCE && c < r->n_combs; c++) {
            bool weighed = sn_combs[r->combs[c]].second == SN_SECOND_WEIGHT;
            co.weighed |= weighed;
            co.exps |= weighed && sn_val_get(m, r->result)->dtype == SN_F64;
        }
    }
    co.odd = sn_schedule_odd_columns(cx, sh, co.bytes);
    return co;
}

bool sn_schedule_outer_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    (void)cx, (void)k;
    *why_not = "the steps of a scan run in order";
    return !sh->scans && sn_schedule_has_rows(why_not, sh);
}

static int64_t blocks_of(const sn_schedule_shape *sh, const sn_sched *sc) {
    return sn_ceil_div(sh->rows, (int64_t)sc->block_x * sc->vector) * sn_sched_cluster(sc);
}

/* Elements of a column that a block has. */
static int64_t count_of(const sn_schedule_shape *sh, const sn_sched *sc) {
    return sn_ceil_div(sh->max_count, sn_sched_cluster(sc));
}

/* Few long columns that several nests walk: the blocks of a cluster share them, and lines stay as wide as they are. */
static void share(const sn_target *t, const sn_schedule_shape *sh, sn_sched *sc) {
    while (sh->n_nests > 1 && sn_sched_cluster(sc) * 2 <= t->cluster &&
           blocks_of(sh, sc) < SN_SPLIT_ENOUGH * t->units && count_of(sh, sc) >= 2 * SN_SPLIT_COLUMN)
        sc->cluster = sn_sched_cluster(sc) * 2;
}

/* Few columns, as of norms over the channels of small images, or of a second kernel that puts parts together, would leave most
 * multiprocessors idle: fewer threads side by side, then narrower vectors, as long as what they load together fills a sector.
 * Those that share a column become as many more (choose_rows). */
static void spread(const sn_target *t, const sn_schedule_shape *sh, const columns *co, sn_sched *sc) {
    while (2 * blocks_of(sh, sc) <= t->units && sc->vector * sc->block_x * co->bytes >= 2 * SN_SECTOR) {
        if (sc->block_x > 1) sc->block_x /= 2;
        else sc->vector /= 2;
    }
}

/* Rows that a thread loads together, as many as are useful, as far as accumulators leave registers: narrow loads are
 * more. */
static uint32_t steps_together(const sn_target *t, const sn_schedule_shape *sh, const columns *co, const sn_sched *sc) {
    uint32_t states = co->keyed || co->summed ? 1 : co->states, bytes = sc->vector * co->bytes;
    uint32_t most = SN_COLUMN_LOADS / sn_pow2_ceil(states ? states : 1);
    if (co->exps) most = SN_COLUMN_LOADS / 2;
    if (t->is_gpu && sh->n_nests == 1 && bytes && bytes < SN_COLUMN_WORD) most = most * SN_COLUMN_WORD / bytes;
    else if (t->is_gpu && sh->n_nests == 1 && bytes && bytes < t->vector_bytes && co->states > SN_FULL_STATES &&
             !co->keyed)
        most = most * t->vector_bytes / bytes; /* lanes were made few for the sake of states */
    if (bytes) most = sn_least(most, sn_pow2_floor(sn_loads_ahead(t).hi * t->vector_bytes / bytes));
    int64_t steps = sn_ceil_div(count_of(sh, sc), sc->block_y);
    bool alone = t->is_gpu && sh->n_nests == 1 && sc->block_y == 1;
    if (alone && most && steps <= (int64_t)SN_COLUMN_TURNS * most) /* as many in each turn */
        return steps ? (uint32_t)sn_ceil_div(steps, sn_ceil_div(steps, most)) : 1;
    return sn_least(most ? most : 1, sn_pow2_floor(steps));
}

/* Columns that are many and short: a thread has one for itself, and loads it in a few turns. */
static bool is_alone(const sn_target *t, const sn_schedule_shape *sh, const columns *co, const sn_sched *sc) {
    int64_t threads = sh->rows / sc->vector, most = (int64_t)SN_COLUMN_TURNS * steps_together(t, sh, co, sc);
    return sh->n_nests == 1 && sh->max_count <= most && threads >= (int64_t)t->units * t->unit_threads;
}

/* What is in flight on a multiprocessor where all blocks are as many as that, or as its registers hold. */
static double in_flight(const sn_target *t, const sn_schedule_shape *sh, const columns *co, const sn_sched *sc) {
    double blocks = (double)blocks_of(sh, sc) / t->units, threads = sc->block_x * sc->block_y;
    threads *= blocks < t->unit_blocks ? blocks : t->unit_blocks;
    if (threads > SN_COLUMN_RESIDENT) threads = SN_COLUMN_RESIDENT;
    return threads * steps_together(t, sh, co, sc) * sc->vector * co->bytes;
}

/* How long the multiprocessor with the most blocks takes, in blocks at the speed of memory: of those that it has at a time, the last ones may
 * have too little in flight. */
static double turns_of(const sn_target *t, const sn_schedule_shape *sh, const columns *co, const sn_sched *sc) {
    int64_t blocks = sn_ceil_div(blocks_of(sh, sc), t->units), threads = (int64_t)sc->block_x * sc->block_y;
    int64_t loads = (int64_t)steps_together(t, sh, co, sc) * sc->vector * co->bytes;
    int64_t regs = SN_OTHER_REGS + loads / SN_WORD + (int64_t)co->states * sc->vector,
            together = SN_FILE_REGS / (regs * threads);
    if (together > t->unit_threads / threads) together = t->unit_threads / threads;
    if (together < 1) together = 1;
    int64_t rest = blocks % together;
    double each = (double)(threads * loads) / t->flight_bytes;
    double whole = (double)together * each, last = (double)rest * each;
    return (double)(blocks - rest) / (whole < 1 ? whole : 1) + (rest ? (double)rest / (last < 1 ? last : 1) : 0);
}

/* Blocks of half as many threads are twice as many at a time, where the last ones of larger ones would be few. */
static void even_turns(const sn_target *t, const sn_schedule_shape *sh, const columns *co, sn_sched *sc) {
    sn_sched half = *sc;
    half.block_y /= 2;
    bool wide =
        co->bytes >= 2 && sc->vector * co->bytes >= SN_WIDE_ENOUGH; /* bytes are few registers, narrow loads many */
    if (!t->is_gpu || sh->n_nests != 1 || !wide || half.block_y < 2) return;
    if (turns_of(t, sh, co, &half) * SN_COLUMN_EVEN <= turns_of(t, sh, co, sc) * 100) *sc = half;
}

/* Do threads that share columns of bytes put their states together in little time beside what each does with its rows? States of 64 bits
 * of each lane are more than a few rows of bytes. */
static bool exchanges_little(const sn_schedule_shape *sh, const columns *co, const sn_sched *sc) {
    if (co->bytes != 1 || co->states < 2) return true;
    int64_t words = (int64_t)co->states * sc->vector, exchange = 0, rows = sn_ceil_div(count_of(sh, sc), sc->block_y);
    for (uint32_t y = sc->block_y; y > 1; y /= 2) exchange += words * SN_COLUMN_EXCHANGE;
    return exchange * SN_COLUMN_LITTLE <= rows * sc->vector * SN_COLUMN_BYTE;
}

/* Threads that share the rows of a column: few where vectors are wide, more where blocks are too few for what should
 * be in flight. Narrow loads have to be many a thread instead. */
static void choose_rows(const sn_target *t, const sn_schedule_shape *sh, const columns *co, sn_sched *sc) {
    sc->block_y = 1;
    if (!t->is_gpu || is_alone(t, sh, co, sc)) return;
    uint32_t loaded = co->odd ? 2 * sc->vector * co->bytes : sc->vector * co->bytes;
    bool whole = loaded >= t->vector_bytes && co->states == 1;
    int64_t flight = !whole ? SN_COLUMN_FLIGHT : co->bytes == 1 ? SN_COLUMN_BYTES_FLIGHT : SN_COLUMN_WHOLE_FLIGHT;
    uint32_t most = blocks_of(sh, sc) < t->units ? SN_SPREAD_ROWS * SN_COLUMN_THREADS / sc->block_x
                    : whole                      ? SN_WIDE_ROWS
                                                 : SN_OTHER_ROWS;
    uint32_t full = co->states * sc->vector > SN_ACCUMULATORS ? t->max_threads / 2 : t->max_threads;
    bool narrow = sh->n_nests == 1 && co->bytes && sc->vector * co->bytes < SN_COLUMN_WORD;
    while (sc->block_y * 2 <= count_of(sh, sc) && sc->block_x * sc->block_y * 2 <= full) {
        sn_sched twice = *sc;
        twice.block_y *= 2;
        double now = in_flight(t, sh, co, sc), then = in_flight(t, sh, co, &twice);
        double enough = (double)flight / 100.0 * t->flight_bytes;
        bool few = sh->n_nests == 1 || blocks_of(sh, sc) < SN_SPLIT_COLUMN_BLOCKS * t->units;
        bool starving = few && now < enough && then > now;
        if (!starving && !exchanges_little(sh, co, &twice)) return;
        if (sc->block_y < most ? narrow && then <= now : !starving || 2 * sc->block_x * sc->block_y >= full) return;
        sc->block_y *= 2;
    }
}

/* Short columns: a block takes as long to begin as for what would be ALONE_BYTES. */
static void join_columns(const sn_target *t, const sn_schedule_shape *sh, const columns *co, sn_sched *sc) {
    int64_t each = (int64_t)sc->vector * co->bytes * sh->max_count;
    while (sh->n_nests == 1 && each && sc->block_x * 2 <= SN_COLUMN_MOST_THREADS &&
           sc->block_x * each < SN_ALONE_BYTES && blocks_of(sh, sc) >= 2 * SN_COLUMN_JOINED * t->units)
        sc->block_x *= 2;
}

/* Blocks of one reduction that are no more than a multiprocessor may begin together have the registers for it, as those have that are parts
 * (split_reduction.c). */
static void begin_together(const sn_target *t, const sn_schedule_shape *sh, sn_sched *sc) {
    int64_t each = sn_ceil_div(blocks_of(sh, sc), t->units), threads = (int64_t)sc->block_x * sc->block_y;
    if (sc->min_blocks || each < 2 || each > SN_SPLIT_COLUMN_BLOCKS) return;
    if (each * threads <= SN_COLUMN_BEGIN) sc->min_blocks = (uint32_t)each;
}

/* Registers that loads and states of a thread take, and states once more where places are compared. */
static int64_t registers_of(const columns *co, const sn_sched *sc) {
    int64_t words = sn_ceil_div((int64_t)sc->vector * co->bytes, SN_WORD) + co->odd;
    return SN_OTHER_REGS + (co->odd ? SN_ODD_REGS : 0) + sc->unroll * words +
           (int64_t)co->states * sc->vector * (co->keyed ? 2 : 1);
}

/* Bytes whose states are wider: tests of the last rows, lane by lane, would take the registers of so many blocks as keep
 * memory busy. */
static void bound_registers(const sn_target *t, const sn_schedule_shape *sh, const columns *co, sn_sched *sc) {
    int64_t threads = (int64_t)sc->block_x * sc->block_y, loads = (int64_t)sc->unroll * sc->vector * co->bytes;
    if (!t->is_gpu || co->states < 2 || !(co->keyed || co->summed)) return;
    int64_t blocks = sn_ceil_div((int64_t)t->flight_bytes * SN_COLUMN_BYTES_FLIGHT / 100, threads * loads),
            most = SN_FILE_REGS / (registers_of(co, sc) * threads), there = sn_ceil_div(blocks_of(sh, sc), t->units);
    if (blocks > most) blocks = most;
    if (blocks > there) blocks = there;
    if (blocks > 1) sc->min_blocks = (uint32_t)blocks;
}

/* Others, of one number a column, have as many blocks as there are registers for: where nobody says how many there will be, the assembler has some
 * of the loads wait for the first ones (of halves, 4 of 8). */
static void keep_loads_together(const sn_target *t, const sn_schedule_shape *sh, const columns *co, sn_sched *sc) {
    int64_t threads = (int64_t)sc->block_x * sc->block_y, there = sn_ceil_div(blocks_of(sh, sc), t->units);
    if (sc->min_blocks || !co->bytes || co->weighed || co->states > 1 || sc->unroll < 2) return;
    int64_t blocks = SN_FILE_REGS / (registers_of(co, sc) * threads);
    if (blocks > there) blocks = there;
    if (blocks > t->unit_blocks) blocks = t->unit_blocks;
    if (blocks > 1) sc->min_blocks = (uint32_t)blocks;
}

/* Vectors that begin anywhere. */
static bool is_odd(sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    columns co = look_at_columns(cx, sh);
    return co.odd && sc->vector == sn_schedule_odd_lanes(co.bytes) && sn_sched_cluster(sc) == 1 && !sc->teams;
}

static void choose_outer(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const columns *co, sn_sched *sc) {
    const sn_target *t = cx->target;
    bool open = !sc->vector && !sc->block_x;
    if (!sc->vector) {
        uint32_t widest = sh->n_nests == 1 ? sn_widest_alone(cx, co->bytes) : sn_widest(cx, co->bytes);
        int64_t row = sn_last_outer_extent(cx, sh);
        bool may_open = !t->is_gpu && co->bytes;
        sc->vector =
            may_open ? sn_schedule_open_vector(row, co->bytes, widest) : sn_least(widest, sn_pow2_divisor(row));
        if (t->is_gpu && co->states > SN_FULL_STATES && !co->keyed)
            sc->vector = sn_least(sc->vector, SN_STATE_LANES); /* every lane accumulates every state */
        if (t->is_gpu && co->bytes == 1 && co->states > 1) sc->vector = sn_least(sc->vector, SN_WIDENED_LANES);
        if (co->odd) sc->vector = sn_schedule_odd_lanes(co->bytes);
    }
    if (!sc->block_x)
        sc->block_x =
            t->is_gpu ? sn_least(SN_COLUMN_THREADS, sn_pow2_ceil((sh->rows + sc->vector - 1) / sc->vector)) : 1;
    bool free = open && !sc->block_y && !sc->unroll && !sc->persistent && !sc->shared && !sc->cluster && !sc->teams;
    if (free && sn_schedule_keep_columns(sc, cx, k, sh, co->bytes, sc->vector)) return;
    if (free && t->is_gpu) share(t, sh, sc);
    if (open && t->is_gpu) spread(t, sh, co, sc);
    if (open && t->is_gpu) join_columns(t, sh, co, sc);
    bool even = !sc->block_y && !sc->unroll;
    if (!sc->block_y) choose_rows(t, sh, co, sc);
    if (even) even_turns(t, sh, co, sc);
    if (!sc->unroll) sc->unroll = steps_together(t, sh, co, sc);
    /* Only a loop has interior iterations. */
    while (is_odd(cx, sh, sc) && sc->unroll > 1 && sc->unroll * sc->block_y >= sh->max_count) sc->unroll /= 2;
    if (open && !sc->min_blocks) bound_registers(t, sh, co, sc);
    if (even && t->is_gpu && sh->n_nests == 1) begin_together(t, sh, sc);
    if (even && t->is_gpu && sh->n_nests == 1) keep_loads_together(t, sh, co, sc);
}

static sn_status complete(sn_sched *sc, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    columns co = look_at_columns(cx, sh);
    sc->cls = SN_SCHED_OUTER;
    choose_outer(cx, k, sh, &co, sc);
    SN_TRY(sn_schedule_check_teams(cx, k, sc));
    sn_columns overlap;
    bool may = sc->sectors && !sc->teams && !is_odd(cx, sh, sc) && sn_columns_overlap(&overlap, cx, k, sh);
    sc->sectors = may && overlap.along % sc->vector == 0 &&
                  sn_columns_own(&overlap, (int64_t)sc->vector * sc->block_x) < (int64_t)sc->vector * sc->block_x;
    bool open = sc->block_y == 1 && sn_schedule_has_open_rows(cx, sh, sc);
    if (open && sn_sched_cluster(sc) > 1) /* those of teams, too */
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                       "kernel %s: the schedule's vector=%u does not divide its rows, whose columns no cluster shares",
                       sn_kern_get(cx->m, k)->name, sc->vector);
    if (sh->rows % sc->vector == 0 || open || is_odd(cx, sh, sc)) return SN_OK;
    return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                   "kernel %s: the schedule's vector=%u does not divide its %lld columns", sn_kern_get(cx->m, k)->name,
                   sc->vector, (long long)sh->rows);
}

/* Too few columns for lanes, unless a team of blocks keeps them. */
static bool is_for_team(const sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    return cx->target->is_gpu && !sh->by_columns && sh->along_outer > sh->along_inner && sh->n_nests > 1;
}

/* Other candidates: twice as many threads for the rows of a column, and half. */
sn_status sn_schedule_outer_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                       const sn_sched *pinned) {
    sn_sched first = *pinned;
    bool for_team = pinned->cls == SN_SCHED_NONE && is_for_team(cx, sh);
    if (pinned->cls == SN_SCHED_NONE && (!sh->max_count || sh->one_thread || !(sh->by_columns || for_team)))
        return SN_OK;
    SN_TRY(complete(&first, cx, k, sh));
    if (for_team && !first.teams) return SN_OK;
    sn_schedule_propose(out, cx, &first);
    uint32_t y[] = {first.block_y * 2, first.block_y / 2};
    for (size_t i = 0; i < SN_COUNT(y) && !pinned->block_y && !first.teams; i++) {
        sn_sched other = *pinned;
        other.block_y = y[i];
        if (!y[i] || y[i] > sh->max_count || y[i] > cx->target->max_threads) continue;
        SN_TRY(complete(&other, cx, k, sh)); /* the first may have fewer columns */
        if (other.block_x * other.block_y <= cx->target->max_threads) sn_schedule_propose(out, cx, &other);
    }
    return SN_OK;
}

/* ---- binding ---- */

/* Returns the new nest. */
static sn_stmt bind_nest(sn_pass_ctx *cx, sn_kern k, const sn_schedule_nest *nest, const sn_sched *sc) {
    sn_level levels[4];
    uint32_t n = 0;
    int64_t y = sc->block_y, c = sn_sched_cluster(sc), steps = sn_ceil_div(nest->count, c * y);
    int64_t unroll = sc->unroll < steps ? sc->unroll : steps, outer = unroll ? sn_ceil_div(steps, unroll) : 0;
    if (c > 1) levels[n++] = (sn_level){"c", c, y, SN_AXIS_CLUSTER};
    if (y > 1) levels[n++] = (sn_level){"y", y, 1, SN_AXIS_BLOCK_Y};
    if (outer != 1) levels[n++] = (sn_level){"uo", outer, unroll * c * y, SN_AXIS_SEQ};
    if (unroll > 1) levels[n++] = (sn_level){"u", unroll, c * y, SN_AXIS_UNROLL};
    if (n == 0) levels[n++] = (sn_level){"u", 1, 1, SN_AXIS_UNROLL};
    if (nest->parts) return sn_nest_rebuild_masked(cx, k, nest->top, &nest->chain, nest->count, levels, n);
    return sn_nest_rebuild(cx, k, nest->top, &nest->chain, sn_ix_const(cx->m, 0), nest->count, levels, n);
}

/* What fits stays on the chip: registers leave a thread half of its own to compute with. */
static void keep(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_stmt body, const sn_sched *sc) {
    const sn_target *t = cx->target;
    uint32_t budget = sc->shared ? t->shared_bytes - SN_SHARED_SLOTS : t->max_regs * 6;
    if (t->is_gpu && (sc->persistent || sc->shared)) sn_schedule_stage(cx, k, sh, body, sc, budget);
    sn_schedule_hold_parts(cx, k, sh, body, sc);
}

static sn_ix put_loop(sn_module *m, sn_kern k, sn_stmt *into, const char *name, int64_t extent, sn_axis_kind kind) {
    sn_axis ax = sn_axis_new(m, name, sn_ix_const(m, extent));
    *into = sn_put_loop(m, sn_at_end(k, *into), ax, kind);
    return sn_ix_axis(m, ax);
}

/* Columns of open rows: a vector a block, since threads of a block are none on the CPU. */
static void bind_open_rows(sn_pass_ctx *cx, sn_kern k, const sn_stmt_vec *body, const sn_schedule_shape *sh,
                           const sn_sched *sc) {
    sn_module *m = cx->m;
    sn_stmt into = {0};
    int64_t n = sn_schedule_open_vectors(cx, sh, sc), x = sc->block_x;
    sn_ix g = put_loop(m, k, &into, "g", sn_ceil_div(n, x), SN_AXIS_GRID);
    sn_ix p = sn_ix_add(m, sn_ix_scale(m, g, x), put_loop(m, k, &into, "x", x, SN_AXIS_BLOCK_X));
    if (n % x) into = sn_put_if(m, sn_at_end(k, into), p, sn_ix_const(m, n));
    sn_ix lane = put_loop(m, k, &into, "v", sc->vector, SN_AXIS_VECTOR);
    sn_schedule_open_body(cx, k, into, body, sh, sc, p, lane);
}

/* Of vector `number`; of those beyond the last one, of that. A multiple of V that says so, or else no lanes would lie side by
 * side where the column is taken apart (div and mod of outer loops). */
static sn_ix first_column(sn_module *m, sn_ix number, int64_t rows, int64_t v) {
    return sn_ix_scale(m, sn_ix_min(m, number, sn_ix_const(m, rows / v - 1)), v);
}

/* The loops that count tiles, outermost first; *tile: the number of the tile inside of them. */
static sn_stmt open_tiles(sn_pass_ctx *cx, sn_kern k, int64_t tiles, const sn_sched *sc, sn_ix *tile) {
    sn_module *m = cx->m;
    int64_t at_once = sc->teams ? sc->teams : tiles;
    sn_stmt into = {0};
    *tile = put_loop(m, k, &into, "g", at_once, SN_AXIS_GRID);
    if (tiles > at_once) {
        sn_ix turn = put_loop(m, k, &into, "r", sn_ceil_div(tiles, at_once), SN_AXIS_SEQ);
        *tile = sn_ix_add(m, *tile, sn_ix_scale(m, turn, at_once));
    }
    if (tiles % at_once)
        into = sn_put_if(m, sn_at_end(k, into), *tile, sn_ix_const(m, tiles)); /* all threads of a team agree */
    return into;
}

/* Columns of rows that no words begin: those beyond the last vector are copies of it, whose stores are masked like those of lanes that another vector
 * has. */
static void bind_odd(sn_pass_ctx *cx, sn_kern k, const sn_stmt_vec *body, const sn_schedule_shape *sh,
                     const sn_sched *sc, int64_t vectors) {
    sn_module *m = cx->m;
    sn_ix number;
    sn_stmt into = open_tiles(cx, k, sn_ceil_div(vectors, sc->block_x), sc, &number);
    number = sn_ix_scale(m, number, sc->block_x);
    number = sn_ix_add(m, number, put_loop(m, k, &into, "x", sc->block_x, SN_AXIS_BLOCK_X));
    sn_val there = {0};
    if (vectors % sc->block_x) there = sn_put_in(m, sn_at_end(k, into), number, sn_ix_const(m, vectors));
    number = sn_ix_min(m, number, sn_ix_const(m, vectors - 1));
    sn_ix lane = put_loop(m, k, &into, "v", sc->vector, SN_AXIS_VECTOR);
    sn_val mask = sn_schedule_odd_body(cx, k, into, body, sh, sc->vector, number, lane);
    if (there.i) mask = sn_put_op2(m, sn_at_after(m, sn_val_get(m, mask)->def), SN_LOP_AND, mask, there);
    sn_mask_accesses(cx, k, into, mask, false);
}

/* The loops over tiles and threads; returns the first column of the thread. *mask: it is one of those; none: it always is. */
static sn_ix open_columns(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_stmt *into, const sn_sched *sc,
                          sn_val *mask) {
    sn_module *m = cx->m;
    int64_t v = sc->vector, tile = v * sc->block_x;
    sn_ix number;
    *into = open_tiles(cx, k, sn_ceil_div(sh->rows, tile), sc, &number);
    number = sn_ix_scale(m, number, sc->block_x);
    number = sn_ix_add(m, number, put_loop(m, k, into, "x", sc->block_x, SN_AXIS_BLOCK_X));
    if (sh->rows % tile == 0) return sn_ix_scale(m, number, v);
    *mask = sn_put_in(m, sn_at_end(k, *into), sn_ix_scale(m, number, v), sn_ix_const(m, sh->rows));
    return first_column(m, number, sh->rows, v);
}

void sn_schedule_outer_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    int64_t v = sc->vector;
    bool odd = is_odd(cx, sh, sc); /* what the nests are before they are bound */
    int64_t vectors = odd ? sn_schedule_odd_vectors(cx, sh, sc->vector) : 0;
    sn_columns tiles;
    if (sc->sectors) sn_columns_overlap(&tiles, cx, k, sh);
    sn_row_parts parts = sn_schedule_column_parts(cx, sh, sc);
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        sh->nests[i].parts = parts.stay > 0;
        sh->nests[i].top = bind_nest(cx, k, &sh->nests[i], sc);
    }
    sn_stmt_vec body = {0};
    sn_schedule_take_body(&body, cx, k, sh);
    if (sc->block_y == 1 && sn_schedule_has_open_rows(cx, sh, sc)) {
        bind_open_rows(cx, k, &body, sh, sc);
        return;
    }
    if (odd) {
        bind_odd(cx, k, &body, sh, sc, vectors);
        return;
    }
    sn_stmt into = {0};
    sn_val mask = {0};
    sn_axis lane = {0};
    sn_ix column = sc->sectors ? sn_columns_open(cx, k, &tiles, &into, sh->rows / tiles.along, sc)
                               : open_columns(cx, k, sh, &into, sc, &mask);
    sn_stmt columns = into;
    if (v > 1) {
        lane = sn_axis_new(m, "v", sn_ix_const(m, v));
        into = sn_put_loop(m, sn_at_end(k, into), lane, SN_AXIS_VECTOR);
        column = sn_ix_add(m, column, sn_ix_axis(m, lane));
    }
    for (uint32_t i = 0; i < body.n; i++) sn_stmt_insert(m, sn_at_end(k, into), body.at[i]);
    sn_schedule_subst_outer(cx, &body, sh, column);
    for (uint32_t i = 0; i < sh->n_nests && parts.stay; i++) sn_schedule_part_row(cx, k, sh, i, &parts, sc);
    keep(cx, k, sh, into, sc);
    if (mask.i) sn_mask_accesses(cx, k, columns, mask, false);
    if (sc->sectors) sn_columns_mask(m, &tiles, columns, lane);
}
