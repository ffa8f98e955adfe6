/* flat.c: class flat: a block owns rows that lie one behind the other in memory, and brings them to shared memory as one
 * piece.
 *
 *     loop i in 2853388 { reduce max r in 13 { load x[13*i + r] } ... loop r in 13 { ... store y[13*i + r] } }
 *
 * No 16 bytes begin a row of 13 halves, and no line holds one alone: threads of a row would be few and move two bytes
 * each. The rows of a block together are a piece that begins at a multiple of 16 bytes, whatever is in it: it is copied
 * as it lies, worked on in shared memory by whatever threads suit a row, and copied back. The same goes for what stands
 * across short axes: of [8191, 412, 16] summed over the 412, the 16 columns of a matrix are 32 bytes wide, but the matrix
 * is one piece. A *group* is what lies together: a row there, 16 columns here; a block has several groups.
 *
 *     group q = outer loops but the last ones, in row-major order;  row = inner*q + (the last ones)
 *
 * Which buffers these are, and what a group is, finds flat_find.c; flat_bind.c has the picture of the kernel. Here stands
 * whether it pays, and how many rows a block and how many threads a row has.
 *
 * Fields: tile_m rows a block. A row has block_x threads and block_y rows are done at a time; where rows are columns,
 * or so short that one thread does each, block_x rows are done at a time by block_y threads each, since neighbouring
 * lanes then read neighbours. vector elements of a row are read at once where pieces of 16 bytes begin rows, or
 * neighbouring columns where these are narrow and a word has several of them.
 */
#include "passes/schedule/rows/flat.h"

#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/rows/rows.h"

bool sn_schedule_flat_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_schedule_flat f;
    *why_not = "it is for GPUs";
    if (!cx->target->is_gpu) return false;
    *why_not = "its rows do not lie one behind the other";
    sn_schedule_find_flat(&f, cx, k, sh);
    if (!f.n) return false;
    *why_not = "its scans are too long for one thread";
    return !sh->scans || (f.by_columns && sh->max_count <= SN_FLAT_ALONE);
}

/* Has a multiprocessor room for a few blocks of as few groups as there can be? Columns that one thread has in its registers anyway take more. */
static bool has_blocks(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_schedule_flat *f) {
    int64_t room = sn_add_clamped(sn_schedule_flat_room(f, f->unit), SN_SHARED_RESERVED);
    int64_t blocks = SN_FLAT_ALONE_BLOCKS * (sh->one_thread ? SN_FLAT_ALONE_TINY : 1);
    return sn_mul_clamped(room, blocks) <= cx->target->shared_bytes + SN_SHARED_SYSTEM;
}

/* Has a block one group, which is stored where it was read, or begins anywhere? */
static bool is_single(const sn_schedule_flat *f) {
    bool single = false;
    for (uint32_t i = 0; i < f->n; i++) single |= !f->bufs[i].lines && (f->bufs[i].over || f->bufs[i].moved);
    return single && f->unit == 1;
}

/* Do accesses as they are leave most of a line, or of a thread's 16 bytes, unused? Rows that are longer do well by
 * themselves, and so do lines alone; pieces beside lines do not, whatever the kernel begins with. */
static bool pays(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_schedule_flat *f) {
    if (sh->max_count < 2 || sn_mul_clamped(f->bytes, f->groups) < SN_FLAT_SMALL) return false;
    if (f->lines) return f->along >= SN_FEWEST_COLUMNS;
    if (f->piece < SN_WIDE_ENOUGH || (is_single(f) && !has_blocks(cx, sh, f))) return false;
    if (f->turns) return true;
    bool narrow = sn_pow2_divisor(f->run) < SN_WIDE_ENOUGH && f->groups >= SN_SPLIT_ENOUGH * cx->target->units;
    narrow &= f->words ||
              sn_schedule_flat_is_alone(sh, f); /* single halves of shared memory take as long as those of memory */
    bool again = sh->n_nests > 1, any = again && has_blocks(cx, sh, f);
    int64_t most = !narrow ? 2 * SN_LINE : any ? INT64_MAX : SN_FLAT_ODD_COLUMNS;
    bool plain = !again && !f->words && !narrow; /* whose lanes have vectors of columns in class outer */
    int64_t least = plain && is_single(f) ? SN_SECTOR : SN_LINE;
    if (f->inner > 1) return f->run < least || (f->run % cx->target->vector_bytes && f->run < most && !plain);
    bool odd = f->run % cx->target->vector_bytes != 0;
    if (sn_schedule_few_vectors(cx, sh)) return false; /* a thread of class inner has each */
    if (!odd && f->vector == 1 && !sn_schedule_flat_is_alone(sh, f) && f->run % SN_LINE == 0)
        return false; /* eight threads have 16 bytes each */
    return f->run < (odd ? SN_FLAT_ODD_ROW : SN_FLAT_ROW);
}

/* Elements that a group has of a line, at least, and bytes. */
static void least_of_lines(const sn_schedule_flat *f, int64_t *elements, int64_t *bytes) {
    *elements = *bytes = INT64_MAX;
    for (uint32_t i = 0; i < f->n; i++) {
        const sn_schedule_flat_buf *b = &f->bufs[i];
        if (!b->lines) continue;
        if (b->group < *elements) *elements = b->group;
        if (b->group * b->size < *bytes) *bytes = b->group * b->size;
    }
}

/* Groups of which all lines are so many sectors. */
static int64_t groups_of_sectors(const sn_schedule_flat *f, int64_t sectors) {
    int64_t n = f->unit;
    for (uint32_t i = 0; i < f->n; i++) {
        int64_t bytes = f->bufs[i].group * f->bufs[i].size, of = sn_ceil_div(sectors * SN_SECTOR, bytes);
        if (f->bufs[i].lines && of > n) n = sn_ceil_div(of, f->unit) * f->unit;
    }
    return n;
}

/* Groups of which lines that begin anywhere are four sectors, where three blocks have room for them, or two: they come with one more. */
static int64_t choose_moved(const sn_pass_ctx *cx, const sn_schedule_flat *f, int64_t least) {
    int64_t four = groups_of_sectors(f, 4), two = groups_of_sectors(f, 2);
    bool moved = false;
    for (uint32_t i = 0; i < f->n; i++) moved |= f->bufs[i].moved;
    if (moved && four > least && sn_schedule_flat_room(f, four) * 3 <= sn_schedule_flat_most_room(cx) * 2) return four;
    return moved && two > least && sn_schedule_flat_room(f, two) <= sn_schedule_flat_most_room(cx) ? two : least;
}

/* Of lines: as much of each as fills a block, but sides of a sector at least, with little left over at their ends; twice that
 * where it fits. */
static int64_t choose_side(const sn_pass_ctx *cx, const sn_schedule_flat *f) {
    int64_t most = sn_pow2_floor(SN_FLAT_BLOCK / f->bytes), n = f->unit, elements, bytes;
    least_of_lines(f, &elements, &bytes);
    int64_t least = choose_moved(cx, f, sn_ceil_div(sn_ceil_div(SN_FLAT_SIDE, elements), f->unit) * f->unit);
    for (int64_t side = f->unit; side <= most && side < 2 * f->along; side *= 2)
        if (side <= 2 * f->unit || sn_ceil_div(f->along, side) * side * 100 <= f->along * SN_FLAT_OVER) n = side;
    if (sn_schedule_flat_room(f, least) > sn_schedule_flat_most_room(cx) && f->unit * bytes >= SN_SECTOR)
        least = f->unit;
    return n < least && f->along >= least ? least : n;
}

/* Groups of a block: as many as fill it, in whole units; fewer where multiprocessors would be idle. */
static int64_t choose_groups(const sn_pass_ctx *cx, const sn_schedule_flat *f) {
    if (f->lines) return choose_side(cx, f);
    int64_t n = SN_FLAT_BLOCK / f->bytes / f->unit * f->unit, most = f->groups / cx->target->units;
    if (n > most) n = most / f->unit * f->unit;
    return n > f->unit ? n : f->unit;
}

/* Words of a bank that a warp wants at once where each x of its lanes have a row, one element after the other. */
static int64_t words_of_bank(const sn_schedule_flat *f, uint32_t x) {
    int64_t most = 1;
    for (uint32_t i = 0; i < f->n; i++) {
        const sn_schedule_flat_buf *b = &f->bufs[i];
        int64_t n = sn_schedule_flat_words_at_once(b->size, b->group + b->gap, x);
        if (n > most) most = n;
    }
    return most;
}

/* Cycles that a warp takes for weights of a row: some for each load, which registers spare all rows of a thread but the first where weights are
 * few (flat_bind.c); else the load once more, since it waits for those of shared memory. */
static int64_t cycles_of_weights(const sn_schedule_flat *f, int64_t steps, int64_t rows) {
    int64_t loads = steps * f->weights;
    return loads * SN_WORD <= SN_KEPT_BYTES ? sn_ceil_div(SN_FLAT_WEIGHT * loads, rows) : SN_FLAT_WEIGHT_AGAIN * loads;
}

/* Threads of a row of about FLAT_STEPS elements each; more, if those of fewer rows meet in fewer banks, or keep weights, and that takes less. What
 * is stored as it is has the lanes of a warp side by side. */
static uint32_t threads_of_row(const sn_schedule_shape *sh, const sn_schedule_flat *f, uint32_t rows) {
    if (f->direct) return sn_least(sn_pow2_ceil(sh->max_count), SN_WARP);
    uint32_t x = sn_pow2_ceil(sn_ceil_div(sh->max_count, (int64_t)f->vector * SN_FLAT_STEPS)), best;
    best = x < SN_LEAST_THREADS ? SN_LEAST_THREADS : sn_least(x, SN_WARP);
    x = f->vector > 1 ? best : sn_least(x < 2 ? 2 : x, SN_WARP);
    int64_t least = INT64_MAX;
    bool wide = false; /* elements of f64 take twice as many accesses, and much to compute */
    for (uint32_t i = 0; i < f->n; i++) wide |= f->bufs[i].size > SN_WORD;
    for (; x <= SN_WARP && f->vector == 1; x *= 2) {
        if (x < SN_LEAST_THREADS && (wide || rows * x < SN_FLAT_THREADS / 2)) continue; /* a block would have few */
        int64_t steps = sn_ceil_div(sh->max_count, x), exchange = SN_FLAT_EXCHANGE;
        for (uint32_t with = 1; with < x; with *= 2) exchange += SN_FLAT_EXCHANGE;
        int64_t weights = cycles_of_weights(f, steps, sn_ceil_div((int64_t)rows * x, SN_FLAT_THREADS));
        int64_t cycles = (2 * steps * words_of_bank(f, x) + weights + exchange) * x;
        if (cycles < least) least = cycles, best = x;
    }
    return best;
}

/* Rows that are done at a time when a row has `each` threads: all, or equal parts. */
static uint32_t rows_at_a_time(int64_t rows, int64_t each) {
    int64_t turns = sn_ceil_div(rows * each, SN_FLAT_THREADS);
    if (turns > rows) turns = rows;
    while (rows % turns) turns++;
    return (uint32_t)(rows / turns);
}

/* Threads that have columns, alone or together: as many more as shared memory leaves a multiprocessor without, whose few blocks are large. */
static uint32_t threads_of_columns(const sn_pass_ctx *cx, const sn_schedule_flat *f, uint32_t rows, bool alone) {
    int64_t threads = alone ? SN_FLAT_THREADS / 2 : SN_FLAT_THREADS,
            enough = alone ? SN_IDLE_THREADS : SN_COLUMN_RESIDENT;
    int64_t bytes = sn_schedule_flat_room(f, rows / f->inner) + SN_SHARED_RESERVED;
    int64_t blocks = (cx->target->shared_bytes + SN_SHARED_SYSTEM) / bytes;
    while (threads * 2 <= cx->target->max_threads && blocks * threads * 2 <= enough) threads *= 2;
    return (uint32_t)threads;
}

/* Threads of rows that one thread does: all turns alike, where that can be. */
static uint32_t threads_alone(uint32_t rows, uint32_t most) {
    uint32_t turns = (uint32_t)sn_ceil_div(rows, most);
    return rows % turns ? most : rows / turns;
}

/* Words of a bank that a warp wants at once, of which `beside` threads have columns, the next ones those of the next row. */
static int64_t words_of_columns(const sn_schedule_flat *f, const sn_schedule_flat_buf *b, int64_t lanes,
                                int64_t beside) {
    int64_t most = 1, n[SN_BANKS] = {0}, last[SN_BANKS] = {0}, each = f->inner / lanes;
    for (int64_t t = 0; t < SN_WARP; t++) {
        int64_t column = t % beside, at = column / each * (b->group + b->gap) + column % each * lanes;
        int64_t word = (at + t / beside * f->inner) * b->size / SN_WORD, bank = word % SN_BANKS;
        if (n[bank] && last[bank] == word) continue;
        last[bank] = word;
        if (++n[bank] > most) most = n[bank];
    }
    return most;
}

/* Words of a bank that a warp wants at once of any piece. */
static int64_t most_words_of_columns(const sn_schedule_flat *f, int64_t lanes, int64_t beside) {
    int64_t most = 1;
    for (uint32_t i = 0; i < f->n; i++) {
        int64_t n = words_of_columns(f, &f->bufs[i], lanes, beside);
        if (n > most) most = n;
    }
    return most;
}

/* Columns of a block that threads have at a time, where several share each: fewer, by more threads, if those of other groups lie in the same banks
 * and half as many words meet in one then. */
static int64_t columns_together(const sn_schedule_flat *f, int64_t columns, int64_t lanes) {
    if (f->lines || f->inner < 2 || columns < 1) return columns;
    int64_t all = most_words_of_columns(f, lanes, columns);
    if (all < SN_FLAT_MEET) return columns;
    for (int64_t beside = columns; beside % 2 == 0 && beside / 2 >= f->inner / lanes; beside /= 2)
        if (2 * most_words_of_columns(f, lanes, beside / 2) <= all) return beside / 2;
    return columns;
}

uint32_t sn_schedule_flat_lanes(const sn_schedule_flat *f, const sn_sched *sc) {
    return f->lanes > 1 ? sn_least(sc->vector, f->lanes) : 1; /* check() refuses more */
}

static void choose_threads(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_schedule_flat *f,
                           sn_sched *sc) {
    if (!f->by_columns) {
        if (!sc->block_x) sc->block_x = threads_of_row(sh, f, sc->tile_m);
        if (!sc->block_y) sc->block_y = rows_at_a_time(sc->tile_m, sc->block_x);
        return;
    }
    uint32_t each = sn_schedule_flat_lanes(f, sc), columns = (uint32_t)sn_ceil_div(sc->tile_m, each);
    bool alone = sn_schedule_flat_is_alone(sh, f);
    uint32_t most = threads_of_columns(cx, f, sc->tile_m, alone);
    if (!sc->block_x) sc->block_x = alone ? threads_alone(columns, most) : (uint32_t)columns_together(f, columns, each);
    if (sc->block_y) return;
    sc->block_y = 1;
    while (!alone && sc->block_x * sc->block_y * 2 <= most && sc->block_y * SN_LEAST_THREADS <= sh->max_count)
        sc->block_y *= 2;
}

/* Rows of a block. One thread's rows are whole turns of all threads; those that share a column meet at barriers: all columns at a time. */
static uint32_t choose_block(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_schedule_flat *f) {
    int64_t groups = choose_groups(cx, f), turn = SN_FLAT_THREADS / 2 * f->lanes;
    if (sn_schedule_flat_is_alone(sh, f)) {
        if (turn % (f->unit * f->inner) == 0 && groups * f->inner > turn)
            groups = groups * f->inner / turn * turn / f->inner;
    } else if (f->by_columns) {
        while (groups > f->unit && groups * f->inner > SN_FLAT_THREADS * f->lanes)
            groups = groups / 2 / f->unit * f->unit;
    }
    int64_t rows = sn_mul_clamped(groups < f->unit ? f->unit : groups, f->inner);
    return rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX;
}

/* Elements that lie side by side and are one thread's, at most: of a row, or of neighbouring columns. */
static uint32_t most_beside(const sn_schedule_flat *f) { return f->lanes > 1 ? f->lanes : f->vector; }

/* Rows that are done at a time. */
static int64_t rows_together(const sn_schedule_flat *f, const sn_sched *sc) {
    return f->by_columns ? (int64_t)sc->block_x * sn_schedule_flat_lanes(f, sc) : sc->block_y;
}

static void choose(sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_schedule_flat *f, sn_sched *sc) {
    sc->cls = SN_SCHED_FLAT;
    if (!sc->tile_m) sc->tile_m = choose_block(cx, sh, f);
    if (!sc->vector) sc->vector = !sc->block_x || sc->tile_m % (sc->block_x * f->lanes) == 0 ? most_beside(f) : 1;
    choose_threads(cx, sh, f, sc);
    int64_t share = f->by_columns ? sc->block_y : sc->block_x;
    int64_t steps = sn_ceil_div(sh->max_count, share * (f->lanes > 1 ? 1 : sc->vector));
    /* Written out, only the last step has tests; rows of one thread are so in parts. */
    bool parts = share == 1 && steps > SN_FLAT_STEPS;
    if (!sc->unroll && parts) sc->unroll = (uint32_t)sn_ceil_div(steps, sn_ceil_div(steps, SN_FLAT_STEPS));
    if (!sc->unroll) sc->unroll = sn_least(steps, steps <= SN_FLAT_STEPS ? SN_FLAT_STEPS : SN_COLUMN_LOADS);
}

static sn_status check(const sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_schedule_flat *f,
                       const sn_sched *sc) {
    const char *name = sn_kern_get(cx->m, k)->name;
    sn_env *env = cx->m->env;
    int64_t unit = f->unit * f->inner, room = cx->target->shared_bytes - SN_SHARED_SLOTS;
    int64_t at_a_time = rows_together(f, sc);
    if (sc->tile_m % unit)
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: %u rows of the schedule's tile_m are no multiple of %lld",
                       name, sc->tile_m, (long long)unit);
    if (!sc->tile_m || sn_schedule_flat_room(f, sc->tile_m / f->inner) > room)
        return sn_fail(env, SN_ERROR_ARGUMENT,
                       "kernel %s: %u rows of the schedule's tile_m take more than %lld bytes of shared memory", name,
                       sc->tile_m, (long long)room);
    if (sc->block_x * sc->block_y > cx->target->max_threads)
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: the schedule's %u threads are more than %u", name,
                       sc->block_x * sc->block_y, cx->target->max_threads);
    bool meet = f->by_columns ? sc->block_y > 1 : sc->block_x > 1;
    if (meet && sc->tile_m % at_a_time)
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: %u rows of the schedule's tile_m are no whole turns of %lld",
                       name, sc->tile_m, (long long)at_a_time);
    if (sh->scans && (!f->by_columns || sc->block_y > 1))
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: the steps of a scan have one thread", name);
    if (most_beside(f) % sc->vector)
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: the schedule's vector=%u does not divide %u", name,
                       sc->vector, most_beside(f));
    return SN_OK;
}

/* Is it complete, and would it pass the check? Of headers that nobody pinned. */
static bool is_possible(const sn_pass_ctx *cx, const sn_schedule_flat *f, const sn_sched *sc) {
    int64_t at_a_time = rows_together(f, sc), share = f->by_columns ? sc->block_y : sc->block_x;
    if (!sc->tile_m || sc->tile_m % (f->unit * f->inner) || sc->block_x * sc->block_y > cx->target->max_threads)
        return false;
    return sn_schedule_flat_room(f, sc->tile_m / f->inner) <= sn_schedule_flat_most_room(cx) &&
           (share == 1 || sc->tile_m % at_a_time == 0);
}

/* Other candidates: half as many rows a block, and twice as many. */
sn_status sn_schedule_flat_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                      const sn_sched *pinned) {
    sn_schedule_flat f;
    sn_sched first = *pinned;
    sn_schedule_find_flat(&f, cx, k, sh);
    bool open = pinned->cls == SN_SCHED_NONE;
    if (open && !pays(cx, sh, &f)) return SN_OK;
    choose(cx, sh, &f, &first);
    if (open && !is_possible(cx, &f, &first)) return SN_OK;
    SN_TRY(check(cx, k, sh, &f, &first));
    sn_schedule_propose(out, cx, &first);
    uint32_t rows[] = {first.tile_m / 2, first.tile_m * 2};
    for (size_t i = 0; i < SN_COUNT(rows) && !pinned->tile_m && !pinned->block_x && !pinned->block_y; i++) {
        sn_sched other = *pinned;
        if (!(other.tile_m = rows[i])) continue;
        choose(cx, sh, &f, &other);
        if (is_possible(cx, &f, &other)) sn_schedule_propose(out, cx, &other);
    }
    return SN_OK;
}
