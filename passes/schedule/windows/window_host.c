/* window_host.c: class window on the CPU: reductions over windows that overlap: depthwise and grouped convolutions,
 * pooling, stencils.
 *
 *     192 planes of 56 x 56, windows of 3 x 3, in f32 with vectors of 16:
 *     a plane is a task; its patch has 58 lines of 80; blocks of 2 rows x 4 vectors, whose sums stay in registers
 *
 * window_host_bind.c has the picture. Taken are windows whose columns lie side by side in memory. Chosen are here the
 * patch of a task (tile_m rows of tile_n columns, of tile_k planes that have the same elements), and the vectors of a
 * block (unroll of vector lanes). As in contract_host.c the figures are counts of cycles. They rank headers, and decide
 * against the other classes: a product, which packs an element once for each of its taps, and class element, which
 * loads and tests each tap.
 */
#include "passes/schedule/windows/window_host.h"

#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"

enum { HUNDRED = 100, MOST_VECTORS = 4, MOST_PLANES = 512, MOST_PARTS = 64 };

bool sn_schedule_window_host_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_window w;
    if (cx->target->is_gpu || !sh || !sn_window_find(&w, why_not, cx, k, sh)) return false;
    *why_not = "its columns alone do not lie side by side";
    return w.column.unit == 1 && w.lanes < 0;
}

/* ---- tasks ---- */

static int64_t states(const sn_window *w) { return sn_stmt_get(w->m, w->nest->top)->n_results; }

/* Vectors of sums that leave room for elements and what they are multiplied with. */
static int64_t most_sums(const sn_window *w) {
    int64_t most = (int64_t)w->cx->target->vector_regs * 3 / 4 / states(w);
    return most > 1 ? most : 1;
}

static int64_t divisor_up_to(int64_t n, int64_t most) {
    int64_t d = most < n ? most : n;
    while (d > 1 && n % d) d--;
    return d > 1 ? d : 1;
}

/* Planes first, which share what is loaded; then rows, until sums do not wait for each other. */
static void choose_own(sn_window_task *t, const sn_window *w) {
    int64_t most = most_sums(w) / t->vectors;
    t->own_planes = divisor_up_to(t->planes, most);
    t->own_rows = sn_ceil_div(SN_WINDOW_HOST_CHAINS, t->own_planes * t->vectors);
    if (t->own_rows > most / t->own_planes) t->own_rows = most / t->own_planes;
    if (t->own_rows > t->rows) t->own_rows = t->rows;
    if (t->own_rows < 1) t->own_rows = 1;
    t->blocks_plane = t->planes / t->own_planes;
    t->block_rows = sn_ceil_div(t->rows, t->own_rows);
    t->block_columns = sn_ceil_div(t->columns, t->vectors * t->lanes);
}

static int64_t patch_bytes(const sn_window_task *t, const sn_window *w) {
    int64_t bytes = sn_dtype_bytes(sn_val_get(w->m, w->value)->dtype);
    return sn_mul_clamped(w->steps, sn_mul_clamped(t->row_places, sn_mul_clamped(t->pitch, bytes)));
}

bool sn_window_task_find(sn_window_task *t, sn_window *w, const sn_sched *sc) {
    *t = (sn_window_task){.planes = sc->tile_k, .rows = sc->tile_m, .columns = sc->tile_n};
    t->vectors = sc->unroll, t->lanes = sc->vector;
    if (!t->planes || !t->rows || !t->columns || !t->vectors || !t->lanes || (t->lanes & (t->lanes - 1))) return false;
    if (t->rows > w->row.windows || t->columns > w->column.windows || w->n_planes % t->planes) return false;
    if (t->planes > 1 && (!w->shares || sn_window_plane_stride(w, t->planes))) return false;
    if (t->vectors > most_sums(w)) return false;
    choose_own(t, w);
    int64_t width = t->block_columns * t->vectors * t->lanes;
    t->row_places = sn_window_places(&w->row, t->block_rows * t->own_rows);
    /* A vector of every second element reads the ones between them, too. */
    t->pitch = sn_ceil_div(sn_window_places(&w->column, width) + w->column.step - 1, t->lanes) * t->lanes;
    t->tasks[0] = w->n_planes / t->planes;
    t->tasks[1] = sn_ceil_div(w->row.windows, t->rows);
    t->tasks[2] = sn_ceil_div(w->column.windows, t->columns);
    return patch_bytes(t, w) <= SN_HOST_STACK;
}

/* ---- cycles ---- */

static double most(double a, double b) { return a > b ? a : b; }

/* Of a vector of elements that are `step` apart: what is between them is loaded, too. */
static double load_cycles(const sn_window *w, const sn_window_task *t, bool near) {
    double loads = w->column.step > SN_WINDOW_HOST_STEP ? (double)t->lanes : (double)(2 * w->column.step - 1);
    return loads * SN_HOST_LOAD / HUNDRED * (near ? 1 : 2);
}

/* A product of vectors; of shorter ones two go at once. */
static double product_cycle(const sn_window *w, const sn_window_task *t) {
    int64_t bytes = t->lanes * sn_dtype_bytes(sn_val_get(w->m, w->value)->dtype);
    return (double)SN_HOST_FMA / HUNDRED / (2 * bytes <= (int64_t)w->cx->target->vector_bytes ? 2 : 1);
}

/* Of a tap of a block. */
static double tap_cycles(const sn_window *w, const sn_window_task *t) {
    double elements = (double)(t->own_rows * t->vectors), sums = elements * (double)t->own_planes;
    double loads = elements * load_cycles(w, t, patch_bytes(t, w) <= SN_HOST_NEAR);
    double others = (double)t->own_planes * (w->other_ops ? (double)SN_HOST_SPREAD / HUNDRED : 0);
    return most(most(sums * w->sum_ops * product_cycle(w, t), loads + others), SN_HOST_FMA_LATENCY);
}

static void count_cycles(const sn_window *w, sn_window_task *t) {
    double taps = (double)(w->row.taps * w->column.taps * w->steps), patch = (double)patch_bytes(t, w);
    double copies = (double)(w->steps * t->row_places * (t->pitch / t->lanes)) * (w->element_ops + SN_HOST_COPY);
    double blocks = (double)(t->blocks_plane * t->block_rows * t->block_columns);
    double sums = (double)(t->own_planes * t->own_rows * t->vectors * states(w));
    double runs = taps / SN_CONTRACT_RUN, steps = taps / (double)w->column.taps;
    double block = taps * tap_cycles(w, t) + steps * SN_HOST_STEP + runs * sums * SN_HOST_FLUSH;
    block += (double)(t->own_planes * t->own_rows * t->vectors) * (w->rest_ops + SN_HOST_REST);
    double task = copies + patch / SN_HOST_LINE * SN_HOST_FETCH + blocks * block;
    int64_t n = t->tasks[0] * t->tasks[1] * t->tasks[2];
    double alone = (double)n * task;
    t->cycles = (double)sn_ceil_div(n, w->cx->target->units) * task + (n > 1 ? SN_HOST_WAKE : 0);
    t->together = alone <= t->cycles;
    if (t->together) t->cycles = alone;
}

/* Class element: each tap is tested and loaded, by whole vectors where such lie side by side. */
static double element_cycles(const sn_window *w) {
    double taps = (double)(w->row.taps * w->column.taps * w->steps), results = (double)w->sh->rows;
    double ops = w->element_ops + w->sum_ops + SN_HOST_TAP;
    int64_t widest = w->cx->target->vector_bytes / w->bytes, lanes = sn_pow2_divisor(w->column.windows);
    if (lanes > widest) lanes = widest;
    return results * taps * (w->column.step == 1 ? ops / (double)lanes : ops) / w->cx->target->units;
}

/* ---- headers ---- */

typedef struct choice {
    sn_window *w;
    const sn_sched *pinned;
    sn_sched best;
    double cycles; /* 0: there is none yet */
} choice;

/* Columns without taps: are they a strip so narrow that rows of it, each in another page, are a line or two? Disparities of f32[1024, 1024] took
 * 51 ms with strips of one line, 43 with four. */
static bool is_narrow_strip(const sn_window *w, const sn_sched *sc) {
    int64_t least = SN_HOST_STRIP * SN_HOST_LINE / w->bytes;
    if (w->column.tap != SN_WINDOW_NO_TAP) return false;
    return sc->tile_n < (least < w->column.windows ? least : w->column.windows);
}

static void consider(choice *c, const sn_sched *sc) {
    sn_window_task t;
    if (!c->pinned->tile_n && is_narrow_strip(c->w, sc)) return;
    if (!sn_window_task_find(&t, c->w, sc)) return;
    count_cycles(c->w, &t);
    if (c->cycles && t.cycles >= c->cycles) return;
    c->cycles = t.cycles;
    c->best = *sc;
}

/* Equal parts of a line, whole pieces each. */
static uint32_t part_of(int64_t windows, int64_t parts, int64_t piece) {
    int64_t side = sn_ceil_div(sn_ceil_div(windows, parts), piece) * piece;
    return (uint32_t)(side < windows ? side : windows);
}

static void consider_sides(choice *c, sn_sched sc) {
    const sn_window *w = c->w;
    const sn_sched *pinned = c->pinned;
    for (int64_t i = 1; i <= MOST_PARTS && i <= w->row.windows; i *= 2)
        for (int64_t j = 1; j <= w->column.windows; j *= 2) {
            sc.tile_m = pinned->tile_m ? pinned->tile_m : part_of(w->row.windows, i, 1);
            sc.tile_n = pinned->tile_n ? pinned->tile_n : part_of(w->column.windows, j, (int64_t)sc.vector * sc.unroll);
            consider(c, &sc);
            if (pinned->tile_n || sc.tile_n <= sc.vector * sc.unroll) break;
        }
}

static void consider_all(choice *c) {
    const sn_window *w = c->w;
    const sn_sched *pinned = c->pinned;
    int64_t widest = w->cx->target->vector_bytes / sn_dtype_bytes(sn_val_get(w->m, w->value)->dtype);
    sn_sched sc = *pinned;
    sc.cls = SN_SCHED_WINDOW;
    for (int64_t planes = 1; planes <= MOST_PLANES && planes <= w->n_planes; planes++) {
        if (w->n_planes % planes) continue;
        sc.tile_k = pinned->tile_k ? pinned->tile_k : (uint32_t)planes;
        for (int64_t lanes = widest; lanes > 0; lanes /= 2)
            for (uint32_t vectors = 1; vectors <= MOST_VECTORS; vectors++) {
                sc.vector = pinned->vector ? pinned->vector : (uint32_t)lanes;
                sc.unroll = pinned->unroll ? pinned->unroll : vectors;
                consider_sides(c, sc);
            }
        if (pinned->tile_k || !w->shares) break;
    }
}

sn_status sn_schedule_window_host_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k,
                                             const sn_schedule_shape *sh, const sn_sched *pinned) {
    sn_window w;
    const char *why_not, *name = sn_kern_get(cx->m, k)->name;
    sn_sched open = {.split = pinned->split, .precision = pinned->precision};
    choice c = {.w = &w, .pinned = pinned->bands || pinned->pixels ? &open : pinned};
    sn_sched_list product = {0};
    if (!sn_window_find(&w, &why_not, cx, k, sh)) return SN_OK;
    consider_all(&c);
    if (!c.cycles && pinned->cls) { /* a header that a GPU follows, say */
        c.pinned = &open;
        consider_all(&c);
    }
    if (!c.cycles) return SN_OK;
    if (!pinned->cls)
        SN_TRY(sn_schedule_ask(&product, sn_schedule_contract_host_applies, sn_schedule_contract_host_candidates, cx, k,
                               sh, pinned));
    double element = element_cycles(&w), contract = product.cycles;
    sn_remark(cx, name, "windows: %.0f cycles; tap by tap: %.0f; as a product: %.0f", c.cycles, element, contract);
    double other = contract && contract < element ? contract : element;
    if (!pinned->cls && c.cycles >= other) return SN_OK;
    sn_schedule_propose(out, cx, &c.best);
    return SN_OK;
}
