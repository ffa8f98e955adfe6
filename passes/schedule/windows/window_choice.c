/* window_choice.c: see window_choice.h. */
#include "passes/schedule/windows/window_choice.h"

#include <math.h>

enum { MOST_BLOCKS = 8, MOST_WARPS = 8, MOST_PLANES = 16, BLOCK_ROWS = 16 };

void sn_window_consider(sn_window_choice *c, const sn_sched *sc) {
    sn_window_count n = c->count(c->of, sc);
    if (!n.cycles || (c->cycles && n.cycles >= c->cycles)) return;
    c->cycles = n.cycles;
    c->best = *sc;
    if (!sc->min_blocks) c->best.min_blocks = (uint32_t)n.fit;
}

void sn_window_add_option(sn_window_options *o, int64_t x) {
    for (uint32_t i = 0; i < o->n; i++)
        if (o->at[i] == x) return;
    if (o->n < SN_WINDOW_MOST_OPTIONS && x > 0) o->at[o->n++] = x;
}

/* ---- products ---- */

/* The fewest blocks of rows for each warp that have all rows of the product. */
static void consider_warps(sn_window_choice *c, const sn_window_products *p, sn_sched sc, int64_t warps) {
    sc.block_x = c->pinned->block_x ? c->pinned->block_x : (uint32_t)(warps * SN_WARP);
    int64_t rows = BLOCK_ROWS * (sc.block_x / SN_WARP);
    if (!rows) return;
    int64_t blocks = sn_ceil_div(sc.tile_m * p->rows_of_line(c->of, &sc), rows);
    sc.unroll = c->pinned->unroll ? c->pinned->unroll : (uint32_t)blocks;
    if (blocks <= MOST_BLOCKS || c->pinned->unroll) sn_window_consider(c, &sc);
}

/* Equal parts of the rows. */
static void consider_rows(sn_window_choice *c, const sn_window *w, const sn_window_products *p, sn_sched sc) {
    int64_t windows = w->row.windows;
    for (int64_t parts = 1; parts <= windows; parts++) {
        if (!c->pinned->tile_m) sc.tile_m = (uint32_t)sn_ceil_div(windows, parts);
        for (int64_t warps = 1; warps <= MOST_WARPS; warps *= 2) {
            if (c->pinned->block_x && warps > 1) break;
            consider_warps(c, p, sc, warps);
        }
        if (c->pinned->tile_m) break;
    }
}

void sn_window_consider_products(sn_window_choice *c, const sn_window *w, const sn_window_products *p, sn_sched sc) {
    for (int64_t planes = 1; planes <= MOST_PLANES; planes *= 2)
        for (int64_t parts = 1; parts <= p->most_parts; parts = p->halved ? 2 * parts : parts + 1) {
            int64_t columns = sn_ceil_div(w->column.windows, parts);
            if (parts > 1) columns = sn_ceil_div(columns, p->unit) * p->unit;
            if ((c->pinned->tile_k && planes > 1) || (c->pinned->tile_n && parts > 1)) continue;
            if (columns > w->column.windows) continue;
            sc.tile_k = c->pinned->tile_k ? c->pinned->tile_k : (uint32_t)planes;
            sc.tile_n = c->pinned->tile_n ? c->pinned->tile_n : (uint32_t)columns;
            consider_rows(c, w, p, sc);
        }
}

/* ---- counts ---- */

double sn_window_fit(const sn_target *t, double threads, double regs, double bytes) {
    double fit = fmin(sn_target_blocks(t, (uint64_t)threads), floor(t->shared_bytes / (bytes + SN_SHARED_SYSTEM)));
    fit = fmin(fit, floor(SN_FILE_REGS / (regs * threads)));
    return regs > SN_WINDOW_REGS || bytes + SN_SHARED_RESERVED > t->shared_bytes ? 0 : fit;
}

double sn_window_beside(const double *parts, uint32_t n, double fit) {
    double longest = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++) longest = fmax(longest, parts[i]), sum += parts[i];
    return longest + (sum - longest) / fmin(fit, SN_WINDOW_BESIDE);
}
