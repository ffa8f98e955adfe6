/* mixed_order_choose.c: is a row kernel with column sums worth having, in how many groups, and with which schedule?
 * Part of the pass `mixed-order-reduction`.
 *
 * A thread keeps for each of its columns: the accumulators, what the rows share (a weight), the elements of this row
 * and those of the next one, which are loaded ahead. That bounds its columns, hence the threads of a row, hence the
 * blocks that fit on a multiprocessor; there are as many groups as blocks that fit, or a multiple. Figures are those of
 * the classes of `schedule`: 16-byte accesses; a register file of 64K words; 128 threads in a block where rows are short.
 */
#include "passes/fuse/fuse.h"
#include "passes/fuse/mixed_order_reduction.h"
#include "passes/schedule/base/constants.h"

/* What one column costs a thread, in bytes; the smallest element. */
typedef struct footprint {
    uint32_t bytes, least;
    sn_buf seen[64];
    uint32_t n;
} footprint;

static bool is_new(footprint *fp, sn_buf b) {
    for (uint32_t i = 0; i < fp->n; i++)
        if (sn_buf_eq(fp->seen[i], b)) return false;
    if (fp->n < SN_COUNT(fp->seen)) fp->seen[fp->n++] = b;
    return true;
}

static bool is_row_loop(const sn_chain *rows, uint32_t n_rows, sn_stmt s) {
    for (uint32_t d = 0; d < n_rows; d++)
        if (rows->at[d].i == s.i) return true;
    return false;
}

/* Accesses along the columns of a row. The first n_rows loops of `rows` number the rows. */
static void count_loads(footprint *fp, sn_mixed *mx, sn_kern k, const sn_chain *rows, uint32_t n_rows) {
    sn_module *m = mx->m;
    sn_access_list in;
    sn_access_find_all(&in, mx->cx->m, mx->cx->scratch, k);
    for (uint32_t i = 0; i < in.n; i++) {
        sn_chain c;
        int64_t stride = 0;
        sn_chain_around(&c, m, in.at[i].s);
        for (uint32_t d = 0; d < c.n && stride != 1; d++)
            if (!is_row_loop(rows, n_rows, c.at[d])) sn_ix_coef(m, in.at[i].ix, sn_stmt_axis(m, c.at[d]), &stride);
        if (stride != 1) continue;
        uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, in.at[i].buf)->dtype);
        if (fp->least == 0 || bytes < fp->least) fp->least = bytes;
        if (in.at[i].store || !is_new(fp, in.at[i].buf)) continue;
        bool moves = false;
        for (uint32_t d = 0; d < n_rows; d++) moves |= sn_ix_uses_axis(m, in.at[i].ix, sn_stmt_axis(m, rows->at[d]));
        fp->bytes += moves ? 2 * bytes : bytes;
    }
}

static footprint count_column(sn_mixed *mx) {
    footprint fp = {.bytes = 0};
    count_loads(&fp, mx, mx->a, &mx->chain, mx->n_rows);
    for (uint32_t i = 0; i < mx->n_columns; i++) {
        const sn_mixed_column *col = &mx->columns[i];
        const sn_stmt_rec *red = sn_stmt_get(mx->m, col->red.at[0]);
        count_loads(&fp, mx, col->k, &col->red, col->red.n);
        for (uint32_t s = 0; s < col->n_states; s++)
            fp.bytes += sn_dtype_bytes(sn_val_get(mx->m, sn_result(red, s))->dtype);
    }
    return fp;
}

/* Threads of a row: as few as hold it, with few of them idle in the last step. Powers of two within a warp, else
 * warps. */
static bool choose_threads(sn_mixed *mx, uint32_t most_bytes) {
    sn_sched *sc = &mx->sched;
    int64_t vectors = mx->width / sc->vector, best = INT64_MAX;
    uint32_t most = SN_MIXED_DATA / most_bytes, pinned = sc->block_x;
    for (int64_t each = (most < SN_MIXED_COLUMNS ? most : SN_MIXED_COLUMNS) / sc->vector; each > 0; each--) {
        int64_t threads = (vectors + each - 1) / each, x = 1;
        while (x < threads && x < SN_WARP) x *= 2;
        if (threads > SN_WARP) x = (threads + SN_WARP - 1) / SN_WARP * SN_WARP;
        if (pinned) x = pinned;
        if (x > mx->cx->target->max_threads || x * each < vectors || x * each - vectors >= best) continue;
        best = x * each - vectors;
        sc->block_x = (uint32_t)x;
        sc->unroll = (uint32_t)((vectors + x - 1) / x);
    }
    return best != INT64_MAX;
}

static int64_t partial_bytes(const sn_mixed *mx) {
    uint32_t states = 0;
    for (uint32_t i = 0; i < mx->n_columns; i++) states += mx->columns[i].n_states;
    return 2 * mx->groups * mx->width * states * 4; /* written and read */
}

static uint32_t registers(const sn_mixed *mx, uint32_t bytes) {
    return (mx->sched.unroll * mx->sched.vector * bytes / 4 + SN_MIXED_OTHER_REGS + 7) / 8 * 8;
}

/* As many groups as blocks fit, then evenly; more of them when an accumulator would take in so many rows that their
 * roundings add up. */
static void choose_groups(sn_mixed *mx) {
    int64_t rows = mx->sched.block_y, most = (int64_t)mx->sched.min_blocks * mx->cx->target->units;
    int64_t steps = (mx->rows + most * rows - 1) / (most * rows), waves = (steps + SN_MIXED_STEPS - 1) / SN_MIXED_STEPS;
    if (waves > 1) steps = (steps + waves - 1) / waves;
    mx->groups = (mx->rows + steps * rows - 1) / (steps * rows);
}

static bool is_worth_it(const sn_mixed *mx) {
    return mx->rows >= SN_MIXED_ROWS * mx->groups && mx->shared >= SN_MIXED_GAIN * partial_bytes(mx);
}

static bool divides_nests(const sn_mixed *mx, uint32_t vector) {
    const sn_module *m = mx->m;
    sn_chain nest;
    if (mx->width % vector) return false;
    for (sn_stmt s = sn_region_first(m, mx->a, mx->chain.at[mx->n_rows - 1]); s.i; s = sn_next(m, s))
        if (sn_is_nest(sn_stmt_get(m, s)) && sn_nest_perfect(&nest, m, s) && sn_chain_count(m, &nest) % vector)
            return false;
    return true;
}

bool sn_mixed_choose(sn_mixed *mx, const char **why_not) {
    sn_sched *sc = &mx->sched;
    *sc = sn_kern_get(mx->m, mx->a)->sched;
    int64_t pinned = sc->split > 1 ? sc->split : 0;
    footprint fp = count_column(mx);
    *why_not = "no load walks the columns";
    if (!fp.least) return false;
    if (!sc->vector) {
        sc->vector = mx->cx->target->vector_bytes / fp.least;
        if (sc->vector > 8) sc->vector = 8;
        while (!divides_nests(mx, sc->vector)) sc->vector /= 2;
    }
    *why_not = "a row does not fit in the registers of a block";
    if (!divides_nests(mx, sc->vector) || !choose_threads(mx, fp.bytes)) return false;
    if (!sc->block_y) sc->block_y = sc->block_x < SN_MIXED_THREADS ? SN_MIXED_THREADS / sc->block_x : 1;
    *why_not = "a block would have too many threads";
    if ((uint64_t)sc->block_x * sc->block_y > mx->cx->target->max_threads) return false;
    *why_not = "a row does not fit in the registers of a block";
    uint32_t threads = sc->block_x * sc->block_y, blocks = SN_FILE_REGS / registers(mx, fp.bytes) / threads;
    if (!pinned && !blocks) return false;
    *why_not = "what they share is small";
    if (!pinned && mx->shared < SN_MIXED_SHARED) return false;
    *why_not = "each group would have few rows";
    uint32_t resident = sn_target_blocks(mx->cx->target, threads);
    if (resident > SN_MIXED_BLOCKS) resident = SN_MIXED_BLOCKS;
    if (blocks > resident) blocks = resident;
    if (!sc->min_blocks) sc->min_blocks = blocks ? blocks : 1;
    choose_groups(mx);
    while (!is_worth_it(mx) && (sc->min_blocks - 1) * threads >= SN_MIXED_RESIDENT) sc->min_blocks--, choose_groups(mx);
    if (pinned) mx->groups = pinned < mx->rows ? pinned : mx->rows;
    if (!pinned && !is_worth_it(mx)) return false;
    sc->cls = SN_SCHED_INNER;
    sc->split = 1;
    return true;
}
