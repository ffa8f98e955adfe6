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

#include <math.h>

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
    p->lanes = p->walkers = p->adders = p->threads = p->strips = 1;
    p->columns = p->width;
    p->batch = SN_SCATTER_GROUP;
    p->parts = sn_ceil_div(p->count, longest_part(p->rows));
    if (p->in_memory) p->parts = least(p->parts, most(SN_SCATTER_APART, sn_ceil_div(p->count, SN_SCATTER_LONGEST)));
    p->steps = sn_ceil_div(sn_ceil_div(p->count, p->parts), SN_SCATTER_GROUP) * SN_SCATTER_GROUP;
    p->parts = sn_ceil_div(p->count, p->steps);
    return true;
}

/* Blocks that share a multiprocessor: a thread's elements of a batch take so many registers that it has no more than
 * SCATTER_THREADS. */
static int64_t resident(const sn_scatter_plan *p, int64_t room, int64_t threads) {
    return most(1, least(room / (p->walkers * p->columns), SN_SCATTER_THREADS / threads));
}

/* Few threads clear and hand on many rows of sums for longer than they add up: then others help. */
static void add_helpers(sn_scatter_plan *p, int64_t room) {
    int64_t elements = p->rows * p->columns, helped = elements * p->walkers / SN_SCATTER_HELPED;
    p->threads = p->adders;
    if (elements / p->adders <= p->steps) return;
    helped = least(helped, SN_SCATTER_THREADS / resident(p, room, p->adders));
    p->threads = most(p->adders, helped - helped % SN_SCATTER_WARP);
}

/* Walkers of a block, and parts of the updates: at most so many. */
static void deal(sn_scatter_plan *p, int64_t room, int64_t walkers, int64_t parts) {
    p->walkers = walkers;
    p->adders = walkers * p->columns / p->lanes;
    parts = most(parts, sn_ceil_div(p->count, walkers * SN_SCATTER_STEPS));
    p->steps = sn_ceil_div(sn_ceil_div(p->count, parts * walkers), SN_SCATTER_BATCH) * SN_SCATTER_BATCH;
    p->parts = sn_ceil_div(p->count, p->steps * walkers);
    add_helpers(p, room);
}

/* Cycles: batches wait for memory, rows of sums are cleared and handed on, and parts are stored and added up. */
static double cycles(const sn_scatter_plan *p, const sn_target *t, int64_t room, uint32_t bytes) {
    double at_once = (double)t->units * (double)resident(p, room, p->threads);
    double turns = ceil((double)(p->parts * p->strips) / at_once), sums = (double)p->rows * (double)p->width * bytes;
    double walk = (double)(p->steps / p->batch) * SN_SCATTER_BATCH_CYCLES;
    double rows = (double)(p->rows * p->columns) / (double)p->threads;
    double hand = rows * (SN_SCATTER_HAND + (double)p->walkers * SN_SCATTER_OF_WALKER);
    return turns * (walk + hand) + 2 * (double)p->parts * sums / ((double)t->units * SN_SCATTER_PART_BYTES);
}

enum { PLACE = 2 * 4 /* bytes: where an update of a batch goes, and one of the next batch (lower/scatter_block.c) */ };

/* As many as there is room for, of which several blocks share a multiprocessor; of more than a warp no more than have a batch each. */
static int64_t most_walkers(const sn_scatter_plan *p, const sn_target *t, int64_t room, uint32_t bytes) {
    int64_t warp = most(1, SN_SCATTER_WARP * p->lanes / p->columns);
    int64_t batches = p->count / (SN_SCATTER_BATCH * (int64_t)t->units);
    int64_t n = most(1, least(room / SN_SCATTER_BLOCKS / p->columns, SN_SCATTER_THREADS * p->lanes / p->columns));
    n = most(1, least(n, (int64_t)t->shared_bytes / ((p->rows + 1) * p->columns * bytes + SN_SCATTER_BATCH * PLACE)));
    if (batches > warp) n = least(n, batches);
    return n >= SN_SCATTER_MANY_WARPS * warp ? n - n % warp : n;
}

/* The fastest of the numbers of walkers that halves give, and of the numbers of parts likewise. Returns its cycles. */
static double deal_best(sn_scatter_plan *p, const sn_target *t, int64_t room, uint32_t bytes) {
    sn_scatter_plan best = {0};
    double fastest = 0;
    for (int64_t walkers = p->strips > 1 ? 1 : most_walkers(p, t, room, bytes); walkers >= 1; walkers /= 2) {
        p->walkers = walkers;
        int64_t blocks = t->units * resident(p, room, walkers * p->columns / p->lanes);
        for (int64_t parts = most(1, blocks / p->strips); parts >= 1; parts /= 2) {
            deal(p, room, walkers, parts);
            double now = cycles(p, t, room, bytes);
            if (best.parts && now >= fastest) continue;
            best = *p, fastest = now;
        }
    }
    *p = best;
    return fastest;
}

static bool plan_gpu(sn_scatter_plan *p, const sn_target *t, uint32_t bytes) {
    int64_t row_bytes = (p->rows + 1) * bytes, room = (t->shared_bytes - SN_SCATTER_SPARE) / row_bytes;
    for (p->lanes = least(SN_SCATTER_LANES, SN_SCATTER_LANE_BYTES / bytes); p->width % p->lanes;) p->lanes /= 2;
    int64_t whole = room - room % p->lanes, unit = SN_SCATTER_WARP * p->lanes;
    if (!whole) return false;
    p->columns = least(least(p->width, whole), SN_SCATTER_THREADS * p->lanes);
    if (p->columns < p->width && p->columns > unit) p->columns -= p->columns % unit;
    p->strips = sn_ceil_div(p->width, p->columns);
    p->batch = SN_SCATTER_BATCH;
    double own = deal_best(p, t, room, bytes), moved = (double)p->count * (double)p->width * bytes * SN_SCATTER_MOVED;
    double sorted = SN_SCATTER_SORTED + (double)p->count * SN_SCATTER_SORT_EACH;
    return own < sorted + moved / ((double)t->units * SN_SCATTER_PART_BYTES);
}

bool sn_scatter_plan_make(sn_scatter_plan *out, const sn_target *target, uint32_t bytes, int64_t rows, int64_t width,
                          int64_t count) {
    enum { MOST = 1 << 20 }; /* rows, or elements of one: products of these do not overflow */
    *out = (sn_scatter_plan){.rows = rows, .width = width, .count = count, .room = rows};
    if (rows < 1 || rows > MOST || width < 1 || width > MOST || count < 1 || rows / SN_SCATTER_ROWS_EACH > count)
        return false;
    return target->is_gpu ? plan_gpu(out, target, bytes) : plan_host(out, bytes);
}
