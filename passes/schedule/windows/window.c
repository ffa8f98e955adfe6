/* window.c: class window of the pass `schedule`: reductions over windows that overlap, on GPUs: depthwise and grouped
 * convolutions, pooling.
 *
 * Finds them in window_find.c, binds them in window_bind.c, and chooses here the patch of a block (tile_m rows of
 * tile_n columns, in tile_k planes, or lanes where neighbours in memory are no columns) and the results of a thread
 * (unroll rows of vector columns). Every header is counted: bytes that memory and the L2 move, instructions, what
 * shared memory moves, and how long a block waits for its elements and works on them while others that are resident
 * do so too. Class element, which reads each tap from the cache, is counted in the same way, and class contract
 * counts itself: the least of all has the kernel.
 */
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/windows/window_choice.h"

#include <math.h>

bool sn_schedule_window_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_window w;
    return cx->target->is_gpu && sh && sn_window_find(&w, why_not, cx, k, sh);
}

/* ---- cycles of a multiprocessor ---- */

/* Bytes that memory moves once. */
static double memory_bytes(const sn_window *w) {
    const sn_window_line *l[] = {&w->row, &w->column};
    double in = (double)sn_buf_bytes(w->m, sn_stmt_get(w->m, w->load)->buf), read = (double)w->sh->rows * w->bytes;
    for (uint32_t i = 0; i < SN_COUNT(l); i++) read *= (double)l[i]->step;
    return fmin(in, read * (double)w->steps) + (double)w->sh->rows * w->stored_bytes;
}

/* What a thread does for its results, what shared memory does for its warp, and the registers that it takes. */
typedef struct work {
    double instructions, shared, regs;
    double out;     /* bytes of results that pass through shared memory */
    double written; /* statements that are written out for the sums of a thread */
} work;

/* Where the elements of thread number x begin in the patch of a block, in bytes. */
static int64_t begin_of(const sn_window *w, const sn_window_patch *p, int64_t x) {
    int64_t lane = x % (p->lanes / p->own_lanes), columns = p->padded_columns / p->own_columns;
    int64_t rows = p->padded_rows / p->own_rows;
    x /= p->lanes / p->own_lanes;
    int64_t e = lane * p->own_lanes * p->pitch[SN_WINDOW_LANE];
    e += x % columns * p->own_columns * w->column.step * p->pitch[SN_WINDOW_COLUMN];
    x /= columns;
    e += x % rows * p->own_rows * w->row.step * p->pitch[SN_WINDOW_ROW];
    return (e + x / rows * p->pitch[SN_WINDOW_PLANE]) * w->bytes;
}

/* Cycles of shared memory, for an access of so many bytes of the threads of a warp: those that go together meet in
 * banks. */
static double shared_cycles(const sn_window *w, const sn_window_patch *p, int64_t bytes) {
    int64_t together = SN_LINE / (bytes < SN_BANK ? SN_BANK : bytes), cycles = 0;
    int64_t threads = p->tiles < SN_WARP ? p->tiles : SN_WARP;
    for (int64_t first = 0; first < threads; first += together) {
        int64_t last[SN_BANKS], worst = 1; /* the word that a bank gave last: the same once more costs nothing */
        uint8_t used[SN_BANKS] = {0};
        for (int64_t x = first; x < first + together && x < threads; x++) {
            int64_t word = begin_of(w, p, x) / SN_BANK, end = word + (bytes + SN_BANK - 1) / SN_BANK;
            for (; word < end; word++) {
                uint64_t bank = (uint64_t)word % SN_BANKS;
                if (used[bank] && last[bank] == word) continue;
                last[bank] = word;
                if (++used[bank] > worst) worst = used[bank];
            }
        }
        cycles += worst;
    }
    return (double)cycles;
}

/* Elements of an access to the patch: pieces of a line where all threads begin at the same place of one. */
static int64_t width_of(const sn_window *w, const sn_window_patch *p) {
    int64_t steps = p->own_columns * w->column.step, wide = p->piece;
    if (w->lanes >= 0 || p->pitch[SN_WINDOW_COLUMN] != 1) return p->own_lanes;
    if (p->blocks[1] > 1) steps |= p->rows * w->row.step * p->stride[SN_WINDOW_ROW];
    if (p->blocks[2] > 1) steps |= p->columns * w->column.step;
    if (w->row.there) steps |= p->pitch[SN_WINDOW_ROW];
    if (p->planes > 1) steps |= p->pitch[SN_WINDOW_PLANE];
    else if (w->n_planes > 1) steps |= p->blocks[0] > 1 ? w->plane : 0;
    while (steps % wide) wide /= 2;
    return wide;
}

/* Results that are stored together, where they pass through shared memory: as many as divide what lies behind each
 * other. */
static int64_t run_of(const sn_window *w, const sn_window_patch *p) {
    int64_t run = p->columns, line = w->column.windows, most = w->cx->target->vector_bytes / w->stored_bytes;
    if (run == line)
        run = p->rows < w->row.windows ? sn_schedule_gcd(p->rows * line, w->row.windows * line)
                                       : p->planes * p->rows * line;
    run = sn_pow2_divisor(run * p->lanes);
    return run < most ? run : most < 1 ? 1 : most;
}

static work work_of(const sn_window *w, const sn_window_patch *p) {
    work o = {0};
    double results = (double)(p->own_planes * p->own_rows * p->own_columns * p->own_lanes);
    double taps = (double)(w->row.taps * w->column.taps), rows = (double)p->row_places * (double)w->steps;
    int64_t wide = width_of(w, p);
    double loads =
        ceil((double)p->column_places / (w->lanes < 0 ? (double)wide : 1)) + (w->lanes < 0 && wide > 1 ? 1 : 0);
    double elements = (double)(p->column_places * p->own_lanes), others = taps * (double)(p->own_lanes * p->own_planes);
    o.instructions = rows * (loads + elements * (w->element_ops + 1)) + SN_WINDOW_BEGIN;
    o.instructions += (double)w->steps * (taps * results * w->sum_ops + others * w->other_ops);
    o.written = taps * results;
    o.shared = rows * loads * shared_cycles(w, p, wide * w->bytes);
    o.shared += p->weights_pitch ? taps : 0;
    o.regs = SN_OTHER_REGS + results * w->state_bytes / 4 + elements + fmin(others, SN_WINDOW_SUMS);
    o.out = (double)sn_window_out_bytes(w, p);
    return o;
}

static sn_window_count count_patch(const sn_window *w, const sn_window_patch *p) {
    const sn_target *t = w->cx->target;
    work o = work_of(w, p);
    double turns = ceil((double)p->tiles / (double)p->threads), threads = (double)p->threads;
    double taps = p->weights_pitch ? (double)(w->row.taps * w->column.taps) : 0;
    double pieces = (double)(p->lines * p->line), patch = (double)sn_window_patch_bytes(w, p);
    double blocks = (double)p->blocks[0] * (double)p->blocks[1] * (double)p->blocks[2] * (double)p->blocks[3];
    double fit = sn_window_fit(t, threads, ceil(o.regs / 8) * 8, patch + o.out);
    if (fit < 1 || o.regs > SN_WINDOW_REGS || o.written > SN_WINDOW_CODE) return (sn_window_count){0};
    double results = (double)(p->planes * p->rows * p->columns * p->lanes);
    double rest = results * w->rest_ops + (o.out > 0 ? results / (double)run_of(w, p) * SN_WINDOW_PASS : 0);
    double copies = pieces * (p->lines > 1 ? SN_WINDOW_COPY_LINES : SN_WINDOW_COPY);
    copies += taps * (double)p->lanes * SN_WINDOW_WEIGHT;
    double each = ceil(blocks / t->units), issued = o.instructions * turns * threads + copies + rest;
    double moved = o.shared * turns * threads / SN_WARP + (patch + 3 * o.out) / SN_LINE;
    double alone = SN_CONTRACT_LATENCY + issued / threads * SN_WINDOW_PACE / 100;
    double memory = memory_bytes(w) / t->units / t->cycle_bytes, cache = each * patch / SN_PRODUCT_CACHE;
    double parts[] = {memory, cache, each * issued / SN_ISSUES, each * moved, each * SN_WINDOW_START};
    return (sn_window_count){fmax(sn_window_beside(parts, SN_COUNT(parts), fit), ceil(each / fit) * alone), fit};
}

/* Class element: each tap is an access, a test of each line that there is, and what is made of it. Lanes lie along the last outer loop: an access
 * of a warp is a line for each where neighbours in memory are of another. */
static double element_cycles(const sn_window *w) {
    const sn_target *t = w->cx->target;
    double taps = (double)(w->row.taps * w->column.taps * w->steps);
    double each = taps * (w->element_ops + w->sum_ops + w->other_ops + SN_WINDOW_TAP);
    double memory = memory_bytes(w) / t->units / t->cycle_bytes, threads = (double)w->sh->rows / t->units;
    double alone = SN_CONTRACT_LATENCY + each * SN_WINDOW_PACE / 100;
    bool apart = w->lanes >= 0 && (uint32_t)w->lanes + 1 < w->sh->outer.n;
    double issued = threads * (apart ? fmax(each / SN_ISSUES, taps) : each / SN_ISSUES);
    return fmax(fmax(issued, memory), ceil(threads / t->unit_threads) * alone);
}

/* ---- headers ---- */

enum { MOST_PARTS = 6 };

/* Results of a thread along a line: powers of two, and what divides the line. */
static sn_window_options own_options(int64_t windows, int64_t up_to, uint32_t pinned) {
    sn_window_options o = {0};
    for (int64_t x = 1; x <= up_to && x <= windows && !pinned; x++)
        if (windows % x == 0 || (x & (x - 1)) == 0) sn_window_add_option(&o, x);
    sn_window_add_option(&o, pinned);
    return o;
}

/* ... of a patch: equal parts of the line. */
static sn_window_options side_options(int64_t windows, int64_t own, uint32_t pinned) {
    sn_window_options o = {0};
    for (int64_t parts = 1; parts <= windows && o.n < MOST_PARTS && !pinned; parts *= 2) {
        int64_t side = (windows + parts - 1) / parts;
        if (parts > 1) side = (side + own - 1) / own * own;
        sn_window_add_option(&o, side < windows ? side : windows);
    }
    sn_window_add_option(&o, pinned);
    return o;
}

/* Planes, or lanes of at least a sector. */
static sn_window_options depth_options(const sn_window *w, uint32_t pinned) {
    sn_window_options o = {0};
    int64_t n = w->lanes >= 0 ? w->n_lanes : w->n_planes, fewest = w->lanes >= 0 ? SN_SECTOR / w->bytes : 1;
    for (int64_t x = 1; x <= SN_WINDOW_THREADS && x <= n && !pinned; x++)
        if (n % x == 0 && (x >= fewest || x == n)) sn_window_add_option(&o, x);
    if (!o.n && !pinned) sn_window_add_option(&o, 1);
    sn_window_add_option(&o, pinned);
    return o;
}

/* Turns are as even as threads can take them. */
static sn_window_count count(void *of, const sn_sched *sc) {
    sn_window_patch p;
    if (!sn_window_measure(&p, of, sc)) return (sn_window_count){0};
    return count_patch(of, &p);
}

static void consider(sn_window_choice *c, sn_sched sc) {
    sn_window_patch p;
    sc.block_x = 1;
    if (!sn_window_measure(&p, c->of, &sc)) return;
    int64_t turns = sn_ceil_div(p.tiles, SN_WINDOW_THREADS), threads = sn_ceil_div(p.tiles, turns);
    sc.block_x = c->pinned->block_x ? c->pinned->block_x : (uint32_t)(sn_ceil_div(threads, SN_WARP) * SN_WARP);
    sn_window_consider(c, &sc);
}

/* All patches for these results of a thread. Planes lie side by side only where a patch has them whole. */
static void consider_patches(sn_window_choice *c, const sn_window_options *depths, sn_sched sc) {
    const sn_window *w = c->of;
    sn_window_options rows = side_options(w->row.windows, sc.unroll, c->pinned->tile_m);
    sn_window_options columns = side_options(w->column.windows, sc.vector, c->pinned->tile_n);
    for (uint32_t i = 0; i < rows.n; i++)
        for (uint32_t j = 0; j < columns.n; j++)
            for (uint32_t k = 0; k < depths->n; k++) {
                bool whole = rows.at[i] >= w->row.windows && columns.at[j] >= w->column.windows;
                if (w->lanes < 0 && depths->at[k] > 1 && !whole && !c->pinned->tile_k) break;
                sc.tile_m = (uint32_t)rows.at[i], sc.tile_n = (uint32_t)columns.at[j];
                sc.tile_k = (uint32_t)depths->at[k];
                consider(c, sc);
            }
}

static void consider_all(sn_window_choice *c) {
    const sn_window *w = c->of;
    sn_sched sc = *c->pinned;
    sc.cls = SN_SCHED_WINDOW;
    sn_window_options depths = depth_options(w, c->pinned->tile_k);
    sn_window_options columns =
        own_options(w->column.windows, w->lanes < 0 ? SN_WINDOW_OWN : SN_WINDOW_OWN / 2, c->pinned->vector);
    sn_window_options rows = own_options(w->row.windows, SN_WINDOW_OWN / 2, c->pinned->unroll);
    for (uint32_t i = 0; i < columns.n; i++)
        for (uint32_t j = 0; j < rows.n; j++) {
            sc.vector = (uint32_t)columns.at[i], sc.unroll = (uint32_t)rows.at[j];
            if (sc.vector * sc.unroll <= SN_WINDOW_SUMS) consider_patches(c, &depths, sc);
        }
}

sn_status sn_schedule_window_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                        const sn_sched *pinned) {
    sn_window w;
    const char *why_not, *name = sn_kern_get(cx->m, k)->name;
    sn_window_choice c = {.of = &w, .pinned = pinned, .count = count};
    sn_sched_list product = {0}, by_rows = {0};
    if (!sn_window_find(&w, &why_not, cx, k, sh)) return SN_OK;
    if (pinned->bands || pinned->pixels) /* whose rows have been asked before */
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT, "kernel %s: its windows are not done by %s, as its schedule says",
                       name, pinned->bands ? "bands" : "pixels");
    consider_all(&c);
    bool said =
        pinned->block_x || pinned->vector || pinned->unroll || pinned->tile_m || pinned->tile_n || pinned->tile_k;
    if (!c.cycles && pinned->cls && said)
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT, "kernel %s: there is no patch of windows as its schedule says",
                       name);
    if (!c.cycles) return SN_OK;
    /* By tiles; class contract's rows of threads count on elements that are read once. */
    if (!pinned->cls)
        SN_TRY(sn_schedule_ask(&product, sn_schedule_contract_applies, sn_schedule_contract_candidates, cx, k, sh,
                               pinned));
    double element = element_cycles(&w), contract = product.cycles;
    sn_remark(cx, name, "windows: %.0f cycles; tap by tap: %.0f; as a product: %.0f", c.cycles, element, contract);
    /* Many rows that class element does not see as windows are done by others, which do worse. */
    bool seen = sh->one_thread || sh->rows < SN_MANY_ROWS;
    double other = contract && (contract < element || !seen) ? contract : element;
    /* Would threads do it row by row, as a product with few rows? They read each element once for every tap. */
    if (!pinned->cls && seen && !contract)
        SN_TRY(sn_schedule_ask(&by_rows, sn_schedule_contract_rows_applies, sn_schedule_contract_rows_candidates, cx, k,
                               sh, pinned));
    double gain = by_rows.n ? SN_WINDOW_ROWS : SN_WINDOW_GAIN;
    if (!pinned->cls && (seen || contract) && c.cycles * 100 > other * gain) return SN_OK;
    sn_schedule_propose(out, cx, &c.best);
    out->cycles = c.cycles;
    return SN_OK;
}
