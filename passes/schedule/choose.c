/* choose.c: the cost model of the pass `schedule`: class, threads, rows, vector and unroll of a kernel.
 *
 * Facts it stands on (measured on Hopper, docs/ARCHITECTURE.md has the sources): an access should be 16 bytes wide and
 * neighbouring lanes should cover whole 128-byte lines; 48 KB have to be in flight on each multiprocessor; a row of up
 * to 3072 elements is reduced fastest by one warp (no shared memory), longer ones by 64 to 1024 threads; a row that
 * fits in half of a block's registers is read once. On the CPU the same shapes hold with one thread and its SIMD width.
 */
#include "passes/schedule/schedule.h"

/* Powers of two that matter here are small: 2^30 stands for all larger ones. */
enum { POW2_MOST = 1 << 30 };

static uint32_t pow2_floor(int64_t x) {
    uint32_t p = 1;
    while (p < POW2_MOST && (int64_t)p * 2 <= x) p *= 2;
    return p;
}

static uint32_t pow2_ceil(int64_t x) {
    uint32_t p = 1;
    while (p < POW2_MOST && (int64_t)p < x) p *= 2;
    return p;
}

/* Largest power of two that divides x. */
static uint32_t pow2_divisor(int64_t x) { return x == 0 ? POW2_MOST : pow2_floor(x & -x); }

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static sn_sched_class choose_class(const sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    if (sn_schedule_tile_pays(cx, sh)) return SN_SCHED_TILE;
    if (!sh->n_nests || !sh->all_perfect || sh->max_count == 0) return SN_SCHED_ELEMENT;
    if (sh->max_count <= SN_TINY_NEST && sh->rows >= SN_MANY_ROWS) return SN_SCHED_ELEMENT;
    if ((sh->contraction || sh->windows) && sh->rows >= SN_MANY_ROWS) return SN_SCHED_ELEMENT;
    if (sh->along_outer > sh->along_inner && sh->rows >= SN_FEWEST_COLUMNS)
        return sh->scans ? SN_SCHED_ELEMENT : SN_SCHED_OUTER;
    return SN_SCHED_INNER;
}

/* Elements in one widest access of the smallest element type. Wider than the caller's storage is aligned is none: a GPU's
 * lanes would load their elements one by one, and neighbours with gaps between them. */
static uint32_t widest(const sn_pass_ctx *cx, uint32_t bytes) {
    const sn_target *t = cx->target;
    if (!bytes) return 1;
    if (!t->is_gpu) return least(t->vector_bytes / bytes, 16);
    uint32_t aligned = least(t->vector_bytes, t->io_align) / bytes;
    return aligned ? least(aligned, 8) : 1;
}

/* Steps of a scan whose loads are in flight together, `n` steps in all: as even as possible. */
static uint32_t steps_ahead(int64_t n, const sn_sched *sc) {
    int64_t most = sc->vector > 8 ? SN_SCAN_WIDE_STEPS : SN_SCAN_STEPS, turns = (n + most - 1) / most;
    return turns ? (uint32_t)((n + turns - 1) / turns) : 1;
}

static int64_t last_outer_extent(const sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    return sh->outer.n ? sn_ix_value(cx->m, sn_stmt_extent(cx->m, sh->body)) : 1;
}

/* Widest loads of a thread that should be in flight together when 1024 are resident: as many as the latency of memory
 * asks for and two, since some blocks combine while others load; at most twice as many and two, as far as registers
 * reach. */
static sn_range loads_ahead(const sn_target *t) {
    if (!t->is_gpu) return (sn_range){1, SN_LOADS_REACH};
    int64_t bytes = (int64_t)SN_LOADS_RESIDENT * t->vector_bytes, enough = (t->flight_bytes + bytes - 1) / bytes;
    return (sn_range){least((uint32_t)enough + 2, SN_LOADS_REACH), least(2 * (uint32_t)enough + 2, SN_LOADS_REACH)};
}

/* On the CPU what counts is that lanes are full. Waking a CPU thread takes longer than some elements: a small kernel is
 * one block. */
static uint32_t host_threads(const sn_target *t, const sn_schedule_shape *sh, uint32_t vector) {
    double each = sh->n_nests ? (double)sh->max_count : 1, share = (double)sh->rows / t->units;
    int64_t rows = share * each < SN_HOST_LITTLE ? sh->rows : (sh->rows + t->units - 1) / t->units;
    int64_t threads = rows / vector;
    return threads < 1 ? 1 : threads > SN_ELEMENT_THREADS ? SN_ELEMENT_THREADS : (uint32_t)threads;
}

static void choose_element(sn_pass_ctx *cx, const sn_schedule_shape *sh, sn_sched *sc) {
    bool pinned = sc->block_x != 0;
    if (!pinned) sc->block_x = SN_ELEMENT_THREADS;
    if (!sc->vector) {
        uint32_t v = widest(cx, sh->bytes_flat);
        /* A store of two accesses would leave each line half written for a while; loads may take two. */
        if (cx->target->is_gpu && sh->bytes_stored) v = least(v, cx->target->vector_bytes / sh->bytes_stored);
        /* Vectors may cross the ends of rows, as long as what is not walked in row-major order, lane by lane then, is
         * no more than what is. */
        bool across = cx->target->is_gpu && !sh->n_nests && sh->flat >= sh->not_flat;
        if (sh->outer.n > 1 && !across) v = least(v, pow2_divisor(last_outer_extent(cx, sh)));
        if (cx->target->is_gpu && sh->windows) v = 1; /* lanes read neighbours, whatever the step */
        int64_t full = cx->target->is_gpu ? (int64_t)sc->block_x * cx->target->units : 1; /* vectors */
        while (v > 1 && sh->rows < v * full) v /= 2;
        /* What cannot become vector instructions (the searches of a sort) is written out lane by lane. */
        while (v > 1 && !cx->target->is_gpu && (int64_t)v * sh->ops > SN_MANY_OPS) v /= 2;
        sc->vector = v ? v : 1;
    }
    if (!pinned && !cx->target->is_gpu) sc->block_x = host_threads(cx->target, sh, sc->vector);
    while (sc->block_x > 32 && sh->rows < (int64_t)sc->block_x * sc->vector) sc->block_x /= 2;
    sc->block_y = 1;
    if (!sc->unroll || !sh->scans) sc->unroll = sh->scans && cx->target->is_gpu ? steps_ahead(sh->max_count, sc) : 1;
    /* One wide load a thread is in flight: many threads have to be resident, which bounds their registers. What takes
     * more than a few of those would spill, and keeps a thread busy anyway. */
    bool few = sh->ops <= SN_FEW_OPS && sh->instructions <= SN_FEW_INSTRUCTIONS;
    if (!sc->min_blocks && cx->target->is_gpu && sc->vector > 1 && !sh->n_nests && few)
        sc->min_blocks = sn_target_blocks(cx->target, sc->block_x);
}

/* Four vectors a thread (eight when they are single elements, three times as many halves; two of a short row's eight)
 * fill the pipes; more threads for a row only add exchange. */
static uint32_t row_threads(int64_t count, uint32_t vector, uint32_t bytes) {
    uint32_t each = vector == 1                            ? (bytes <= 2 ? SN_ROW_HALVES : SN_ROW_SINGLES)
                    : vector == 8 && count <= SN_SHORT_ROW ? SN_SHORT_VECTORS * vector
                                                           : SN_ROW_VECTORS * vector,
             threads = pow2_floor(count / each);
    if (vector == 1 && count >= 8 * SN_WARP && threads < SN_WARP) return SN_WARP;
    if (threads < SN_LEAST_THREADS) return SN_LEAST_THREADS;
    return threads < SN_MOST_ROW_THREADS ? threads : SN_MOST_ROW_THREADS;
}

/* Elements from the first vector of a row to the end of its last one, at most. */
static int64_t row_reach(const sn_schedule_shape *sh, const sn_sched *sc) {
    return sh->max_count + (sh->max_count % sc->vector ? sc->vector - 1 : 0);
}

static uint32_t vectors_per_thread(const sn_schedule_shape *sh, const sn_sched *sc) {
    int64_t step = (int64_t)sc->block_x * sc->vector * sn_sched_cluster(sc);
    int64_t n = (row_reach(sh, sc) + step - 1) / step;
    return n > 1 << 20 ? 1 << 20 : (uint32_t)n;
}

/* A row that is read once and not kept: what counts is loads in flight, 80 to 128 KB on a multiprocessor of an H200, in
 * as many blocks as leave 64 registers a thread: some compute or combine while others wait for memory. Few steps beyond
 * the row's end. */
static void choose_online(const sn_target *t, const sn_schedule_shape *sh, sn_sched *sc) {
    sn_range loads = loads_ahead(t);
    if (!sc->block_x) sc->block_x = SN_ONLINE_THREADS;
    if (!sc->block_y) sc->block_y = 1;
    uint32_t n = vectors_per_thread(sh, sc), best = UINT32_MAX;
    for (uint32_t u = (uint32_t)loads.hi, pinned = sc->unroll; u >= loads.lo && !pinned; u--) {
        uint32_t steps = (n + u - 1) / u * u;
        if (steps < best) best = steps, sc->unroll = u;
    }
    if (!sc->min_blocks && sc->block_x * sc->block_y <= SN_ONLINE_THREADS) sc->min_blocks = SN_ONLINE_BLOCKS;
}

/* Threads and unroll that leave the least of a row's room empty: all steps of a thread have their place in it. */
static void fit_steps(const sn_schedule_shape *sh, sn_sched *sc) {
    static const uint32_t THREADS[] = {256, 288, 224, 320, 192};
    int64_t best = INT64_MAX;
    sn_sched pinned = *sc;
    for (uint32_t i = 0; i < SN_COUNT(THREADS); i++)
        for (uint32_t unroll = SN_SHARED_UNROLL; unroll >= 2; unroll--) {
            uint32_t x = pinned.block_x ? pinned.block_x : THREADS[i], u = pinned.unroll ? pinned.unroll : unroll;
            int64_t step = (int64_t)x * pinned.vector * sn_sched_cluster(&pinned);
            int64_t steps = (row_reach(sh, &pinned) + step - 1) / step, room = (steps + u - 1) / u * u * step;
            if (room >= best) continue;
            best = room;
            sc->block_x = x;
            sc->unroll = u;
        }
}

/* Are there so few rows that as many more blocks would still leave multiprocessors idle, and long ones? */
static bool few_rows(const sn_target *t, const sn_schedule_shape *sh, uint32_t blocks) {
    return t->cluster > 1 && sh->kept && sh->rows * blocks * 2 <= t->units &&
           sh->max_count >= 2 * SN_CLUSTER_PART * (int64_t)blocks;
}

/* A row that does not fit in the registers of a block stays in shared memory, of a cluster where one block has too
 * little. Small blocks in large clusters: the more of them a multiprocessor has, the more of them load or store while
 * others reduce. */
static void keep_in_shared(const sn_target *t, const sn_schedule_shape *sh, sn_sched *sc) {
    int64_t all = t->shared_bytes + SN_SHARED_SYSTEM, bytes = sh->kept * sh->max_count;
    uint32_t cluster = sn_sched_cluster(sc);
    if (!sh->kept || !t->is_gpu) return;
    while (!sc->cluster && sc->block_y <= 1 && cluster < t->cluster && /* the blocks of a cluster share one row */
           (bytes / cluster > all / SN_SHARED_BLOCKS - SN_SHARED_RESERVED || few_rows(t, sh, cluster)))
        cluster *= 2;
    if (bytes > (int64_t)(t->shared_bytes - SN_SHARED_RESERVED) * cluster) return;
    if (cluster > 1) sc->cluster = cluster;
    sc->shared = true;
    fit_steps(sh, sc);
    if (!sc->block_y) sc->block_y = 1;
    uint32_t resident =
        least(t->unit_threads,
              sh->ops <= SN_FEW_OPS ? SN_RESIDENT_SIMPLE : SN_RESIDENT_OTHER); /* threads, as far as registers reach */
    uint32_t blocks = (uint32_t)(all / (bytes / cluster + SN_SHARED_RESERVED)),
             most = resident / (sc->block_x * sc->block_y);
    if (!sc->min_blocks && blocks > 1 && most > 1) sc->min_blocks = least(blocks, most);
}

/* Is there room in the registers of a block for what is kept of a row? */
static bool has_room(const sn_schedule_shape *sh) {
    enum { LANES = 8 };
    int64_t odd = sh->max_count % LANES ? LANES - 1 : 0; /* vectors may begin before the row and end behind it */
    return !sh->kept || sh->max_count + odd <= sn_row_registers(sh->kept);
}

/* Halves are wider in registers than in memory: long rows of them have it better in shared memory. */
static bool fits_registers(const sn_target *t, const sn_schedule_shape *sh) {
    if (sh->kept == 2 && sh->max_count > SN_LONG_HALVES && sh->ops > SN_FEW_OPS) return false;
    return !few_rows(t, sh, 1) && has_room(sh);
}

/* Vectors that divide a row, or wide ones that start before it and end behind it (map_inner.c). Those cost a test a
 * lane: it pays in long rows, whose threads have many vectors, where a lane does little else. */
static uint32_t row_vector(sn_pass_ctx *cx, const sn_schedule_shape *sh, uint32_t bytes) {
    uint32_t wide = widest(cx, bytes), even = least(wide, pow2_divisor(sh->divisor_inner));
    if (!cx->target->is_gpu || even == wide || even * bytes >= SN_WIDE_ENOUGH) return even;
    if (sh->max_count < SN_LONG_ODD_ROW || sh->positions) return even;
    return sn_schedule_row_lead(cx->m, sh, wide).i ? wide : even;
}

static void choose_inner(sn_pass_ctx *cx, const sn_schedule_shape *sh, sn_sched *sc) {
    const sn_target *t = cx->target;
    bool shared = sc->shared || (t->is_gpu && sh->kept && !sc->persistent && !fits_registers(t, sh));
    uint32_t width =
        shared ? sh->kept_width : sh->bytes_inner; /* in shared memory a thread has 16 bytes, then its neighbour */
    if (!sc->vector) sc->vector = row_vector(cx, sh, width);
    if (t->is_gpu && sh->online && !sh->kept && sh->max_count > SN_LONG_ROW) {
        choose_online(t, sh, sc);
        return;
    }
    if (sh->scans) sc->cluster = 0, sc->shared = false; /* blocks run in no order; a row is walked once */
    else if (sc->shared || (!sc->persistent && !fits_registers(t, sh))) keep_in_shared(t, sh, sc);
    if (!sc->block_x && !t->is_gpu) sc->block_x = 1;
    if (!sc->block_x) {
        sc->block_x = row_threads(sh->max_count, sc->vector, sh->bytes_inner);
        while (sc->block_x < t->max_threads) {
            uint32_t n = vectors_per_thread(sh, sc);
            bool too_long = n * sc->vector > (sh->bytes_inner <= 2 ? SN_ROW_REGS / 2 : SN_ROW_REGS); /* halves widen */
            too_long &= !sh->scans; /* more threads wait for each other longer */
            bool idle = sh->rows * sc->block_x < (int64_t)t->units * SN_IDLE_THREADS && n > 2;
            if (!too_long && !idle) break;
            sc->block_x *= 2;
        }
        if (sc->block_x > t->max_threads) sc->block_x = t->max_threads;
    }
    if (!sc->block_y) {
        bool alone = !t->is_gpu || sc->block_x >= SN_ALONE_THREADS ||
                     sh->max_count * (sh->bytes_inner + sh->row_stores) >= SN_ALONE_BYTES;
        sc->block_y = alone ? 1 : SN_ALONE_THREADS / sc->block_x;
        while (sc->block_y > 1 && sh->rows < (int64_t)sc->block_y * t->units) sc->block_y /= 2;
    }
    uint32_t n = vectors_per_thread(sh, sc);
    if (!sc->unroll && sh->scans) sc->unroll = t->is_gpu ? steps_ahead(n, sc) : 1;
    bool fits = t->is_gpu && n * sc->vector <= SN_ROW_REGS && has_room(sh);
    if (!sc->unroll) sc->unroll = fits ? n : least(SN_REST_UNROLL, n);
    sc->persistent = t->is_gpu && !sc->shared && sc->unroll >= n;
}

static void choose_outer(sn_pass_ctx *cx, const sn_schedule_shape *sh, sn_sched *sc) {
    const sn_target *t = cx->target;
    if (!sc->vector) {
        sc->vector = least(widest(cx, sh->bytes_outer), pow2_divisor(last_outer_extent(cx, sh)));
        if (t->is_gpu && sh->states > SN_FULL_STATES)
            sc->vector = least(sc->vector, SN_STATE_LANES); /* every lane accumulates every state */
    }
    if (!sc->block_x)
        sc->block_x = t->is_gpu ? least(SN_COLUMN_THREADS, pow2_ceil((sh->rows + sc->vector - 1) / sc->vector)) : 1;
    if (!sc->block_y) {
        sc->block_y = 1;
        int64_t blocks = (sh->rows + (int64_t)sc->block_x * sc->vector - 1) / ((int64_t)sc->block_x * sc->vector);
        bool whole = sc->vector * sh->bytes_outer >= t->vector_bytes && sh->states == 1;
        uint32_t most = blocks < t->units ? SN_SPREAD_ROWS : whole ? SN_WIDE_ROWS : SN_OTHER_ROWS;
        uint32_t full = sh->states * sc->vector > SN_ACCUMULATORS ? t->max_threads / 2 : t->max_threads;
        while (t->is_gpu && sc->block_y < most && sc->block_y * 2 <= sh->max_count && sc->block_x * sc->block_y < full)
            sc->block_y *= 2;
    }
    if (!sc->unroll) { /* loads in flight, as many as are useful, as far as accumulators leave registers */
        uint32_t most = SN_COLUMN_LOADS / pow2_ceil(sh->states ? sh->states : 1), bytes = sc->vector * sh->bytes_outer;
        if (bytes) most = least(most, pow2_floor(loads_ahead(t).hi * t->vector_bytes / bytes));
        sc->unroll = least(most ? most : 1, pow2_floor((sh->max_count + sc->block_y - 1) / sc->block_y));
    }
}

/* A pinned vector has to leave no odd lanes in a row unless vectors can start before it, and to fit in the columns. */
static sn_status check_vector(const sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_sched *sc) {
    const char *name = sn_kern_get(cx->m, k)->name;
    for (uint32_t i = 0; sc->cls == SN_SCHED_INNER && i < sh->n_nests; i++)
        if (sh->nests[i].count % sc->vector && !sn_schedule_row_lead(cx->m, sh, sc->vector).i)
            return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                           "kernel %s: the schedule's vector=%u does not divide a row of %lld", name, sc->vector,
                           (long long)sh->nests[i].count);
    if (sc->cls == SN_SCHED_INNER && sn_sched_cluster(sc) > 1 && sc->block_y > 1)
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                       "kernel %s: the schedule's cluster=%u shares one row: block_y=%u is not possible", name,
                       sc->cluster, sc->block_y);
    if (sc->cls == SN_SCHED_OUTER && sh->rows < sc->vector)
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                       "kernel %s: the schedule's vector=%u is wider than its %lld columns", name, sc->vector,
                       (long long)sh->rows);
    return SN_OK;
}

sn_status sn_schedule_choose(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_sched *sc) {
    sn_sched_class possible = choose_class(cx, sh);
    bool no_rows = sh->scans && sc->cls == SN_SCHED_OUTER; /* rows would share a column */
    bool by_rows = sc->cls == SN_SCHED_INNER || sc->cls == SN_SCHED_OUTER;
    if (sc->cls == SN_SCHED_NONE || (by_rows && (!sh->n_nests || !sh->all_perfect || no_rows))) sc->cls = possible;
    if (sc->cls == SN_SCHED_INNER) choose_inner(cx, sh, sc);
    /* Rows that follow each other on a block keep their sums in registers; else one thread does them all. */
    bool alone = sh->rows_loop.i && (sc->cls != SN_SCHED_INNER || !sc->persistent || sn_sched_cluster(sc) > 1);
    if (alone) *sc = (sn_sched){.cls = SN_SCHED_ELEMENT};
    if (sc->cls == SN_SCHED_OUTER) choose_outer(cx, sh, sc);
    else if (sc->cls == SN_SCHED_TILE) SN_TRY(sn_schedule_tile_choose(cx, k, sh, sc));
    else if (sc->cls != SN_SCHED_INNER) choose_element(cx, sh, sc);
    if (!sc->split) sc->split = 1;
    sn_remark(cx, sn_kern_get(cx->m, k)->name, "%s: %lld rows of %lld, block_x=%u block_y=%u vector=%u unroll=%u%s",
              sn_sched_class_names[sc->cls], (long long)sh->rows, (long long)sh->max_count, sc->block_x, sc->block_y,
              sc->vector, sc->unroll, sc->persistent ? " persistent" : "");
    return check_vector(cx, k, sh, sc);
}
