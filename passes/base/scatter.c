/* scatter.c: how updates of a scatter that combines are dealt out. See scatter.h.
 *
 * GPU: a multiprocessor holds the sums of as many columns as its shared memory has room for, `rows` elements each, and has
 * as many elements on their way, `batch` times. Rows of updates that are shorter than that are dealt to several walkers, as long as
 * each of them has enough updates to pay for the sums that it clears and that are put together behind it; longer ones are
 * cut into strips. A walker that would add up more than SCATTER_STEPS updates one after the other has its part cut, so
 * that a row which takes all of them is as exact as other sums.
 */
#include "passes/base/scatter.h"

#include "passes/base/constants.h"
#include "passes/base/nest.h"

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
static int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }

/* Long enough that rows are not most of the work, and short enough that a row which takes all of them is as exact as other
 * sums; but not so short that parts are larger than what they add up. */
static int64_t longest_part(int64_t rows) {
    return most(most(least(rows * SN_SCATTER_TIMES_ROWS, SN_SCATTER_STEPS), SN_SCATTER_UPDATES), 2 * rows);
}

/* Rows that no cache of a core keeps are added up in memory: an update waits for its row, and some do so at a time; a sort moves each of them
 * several times. */
static bool plan_host(sn_scatter_plan *p, uint32_t bytes) {
    p->in_memory = 2 * p->rows * p->width * bytes > SN_SCATTER_BYTES;
    if (p->in_memory)
        for (p->room = 1; p->room <= p->rows;) p->room *= 2;
    p->lanes = p->walkers = p->threads = p->strips = 1;
    p->columns = p->width;
    p->batch = SN_SCATTER_GROUP;
    p->parts = sn_ceil_div(p->count, longest_part(p->rows));
    if (p->in_memory) p->parts = least(p->parts, SN_SCATTER_APART);
    p->steps = sn_ceil_div(sn_ceil_div(p->count, p->parts), SN_SCATTER_GROUP) * SN_SCATTER_GROUP;
    p->parts = sn_ceil_div(p->count, p->steps);
    return true;
}

/* Updates of a walker that pay for its sums. */
static int64_t shortest_walk(const sn_scatter_plan *p) {
    return most(p->rows / SN_SCATTER_ROWS_STEP, SN_SCATTER_BATCH);
}

/* Walkers of a block, of which a multiprocessor has room for the sums of `room` columns: more than fill a warp only where all
 * multiprocessors have some. */
static int64_t walkers_of(const sn_scatter_plan *p, const sn_target *t, int64_t room) {
    int64_t n = most(1, least(room / SN_SCATTER_BLOCKS / p->columns, SN_SCATTER_THREADS * p->lanes / p->columns));
    int64_t warp = most(1, SN_SCATTER_WARP * p->lanes / p->columns), walks = most(1, p->count / shortest_walk(p));
    n = least(least(n, walks), most(warp, walks / t->units));
    return n >= SN_SCATTER_MANY_WARPS * warp ? n - n % warp : n;
}

static bool plan_gpu(sn_scatter_plan *p, const sn_target *t, uint32_t bytes) {
    int64_t row_bytes = (p->rows + 1) * bytes, room = (t->shared_bytes - SN_SCATTER_SPARE) / row_bytes;
    for (p->lanes = least(SN_SCATTER_LANES, SN_SCATTER_LANE_BYTES / bytes); p->width % p->lanes;) p->lanes /= 2;
    int64_t whole = room - room % p->lanes, unit = SN_SCATTER_WARP * p->lanes;
    if (whole < SN_SCATTER_COLUMNS) return false;
    p->columns = least(least(p->width, whole), SN_SCATTER_THREADS * p->lanes);
    if (p->columns < p->width && p->columns > unit) p->columns -= p->columns % unit;
    p->strips = sn_ceil_div(p->width, p->columns);
    p->walkers = p->strips > 1 ? 1 : walkers_of(p, t, room);
    p->threads = p->walkers * p->columns / p->lanes;
    p->batch = SN_SCATTER_BATCH;
    int64_t resident = most(1, least(room / (p->walkers * p->columns), sn_target_blocks(t, (uint64_t)p->threads)));
    int64_t pays = sn_ceil_div(p->count, shortest_walk(p) * p->walkers);
    p->parts = most(1, least(t->units * resident / p->strips, pays));
    p->parts = most(p->parts, sn_ceil_div(p->count, p->walkers * SN_SCATTER_STEPS));
    p->steps = sn_ceil_div(sn_ceil_div(p->count, p->parts * p->walkers), SN_SCATTER_BATCH) * SN_SCATTER_BATCH;
    p->parts = sn_ceil_div(p->count, p->steps * p->walkers);
    return true;
}

bool sn_scatter_plan_make(sn_scatter_plan *out, const sn_target *target, uint32_t bytes, int64_t rows, int64_t width,
                          int64_t count) {
    enum { MOST = 1 << 20 }; /* rows, or elements of one: products of these do not overflow */
    *out = (sn_scatter_plan){.rows = rows, .width = width, .count = count, .room = rows};
    if (rows < 1 || rows > MOST || width < 1 || width > MOST || count < 1 || rows / SN_SCATTER_ROWS_EACH > count)
        return false;
    return target->is_gpu ? plan_gpu(out, target, bytes) : plan_host(out, bytes);
}
