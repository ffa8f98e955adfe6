/* window_pixels.c: class window of the pass `schedule`, with `pixels`: windows of halves over several channels, as convolutions
 * with groups have, by matrix instructions whose rows are pixels (window_pixels.h).
 *
 * An instruction takes 16 steps, which are two pixels of eight channels; joined groups would multiply more zeros.
 * Groups of fewer channels are joined to eight. Where the image lies as [N, C, H, W], threads load pixels of eight
 * channels and store them as such: each element comes from memory once, and no copy with channels innermost is made in
 * memory; halves are multiplied as pairs of pixels. Where channels lie innermost, a block has several groups, so that
 * whole sectors of memory are read and written.
 *
 * Legality: as of bands (window_bands.c).
 *
 * Counts cycles as they do, and is chosen where they are fewer than for all that would be chosen else.
 */
#include "passes/schedule/windows/window_pixels.h"

#include "passes/base/constants.h"
#include "passes/schedule/products/contract_bind.h"
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/windows/window_choice.h"

#include <math.h>
#include <stdlib.h>

enum {
    MOST_PARTS = 4,
    MOST_OUTS = 64,
    MOST_RUN = 128,
    MOST_CUTS = 8, /* of a line */
    BLOCK_ROWS = 16,
    BANKS = 16
};

/* Planes side by side that have the same elements: results of a group. */
static int64_t find_own(sn_window_bands *b) {
    int64_t all = b->w.n_planes / b->images, own = 1;
    for (int64_t n = 2; n <= MOST_OUTS && b->w.shares; n++)
        if (all % n == 0 && sn_window_plane_stride(&b->w, n) == 0) own = n;
    return own;
}

/* Groups of fewer than eight channels become one. A convolution without groups is one for class contract, which multiplies nothing by the
 * zeros beside taps: infinities make nan there. */
static bool find_groups(sn_window_pixels *p) {
    sn_window_bands *b = &p->b;
    p->own = find_own(b);
    if (p->own == b->w.n_planes / b->images) return false;
    p->joined = b->w.steps < SN_BAND ? SN_BAND / b->w.steps : 1;
    p->outs = p->own * p->joined;
    p->parts = b->w.steps * p->joined / SN_BAND;
    if (b->w.steps * p->joined % SN_BAND || p->parts > MOST_PARTS || p->outs % SN_BAND) return false;
    return b->w.n_planes / b->images % p->outs == 0;
}

/* Do eight channels lie side by side, 16 bytes of memory? */
static bool has_channels_last(sn_window_pixels *p) {
    const sn_window_bands *b = &p->b;
    const sn_window *w = &b->w;
    const sn_stmt_rec *load = sn_stmt_get(w->m, w->load);
    sn_module *m = w->m;
    sn_ix e = load->ix, zero = sn_ix_const(m, 0);
    int64_t c = 1;
    if (!b->image.i || sn_buf_get(m, load->buf)->align < w->cx->target->vector_bytes) return false;
    for (uint32_t i = 0; i < w->nest->chain.n; i++) {
        sn_axis ax = sn_stmt_axis(m, w->nest->chain.at[i]);
        if (!sn_window_is_step(w, i)) continue;
        if (!sn_ix_coef(m, e, ax, &c) || c != 1) return false;
        e = sn_ix_subst(m, e, &ax, &zero, 1);
    }
    if (p->joined == 1) return sn_ix_is_multiple(m, e, SN_BAND);
    return sn_ix_is_multiple(m, e, w->steps) && sn_window_plane_stride(&p->b.w, p->own) == 0;
}

int64_t sn_window_pixels_by(const sn_window_pixels *p) { return SN_PIXELS_PAIR * p->across; }

/* The second pixel of a pair is as many places on as windows move by. */
static int64_t places_of(const sn_window_pixels *p) {
    if (p->pairs) return sn_ceil_div(p->b.reach + p->across, sn_window_pixels_by(p));
    return p->across > 1 ? (p->b.reach - 1) / p->across + 1 : p->b.reach;
}

/* Of halves that lie along lines there are pairs. */
static bool take_form(sn_window_pixels *p, uint32_t vector) {
    sn_window_bands *b = &p->b;
    p->pairs = vector == SN_PIXELS_PAIR;
    if (p->pairs && (p->last || b->n_terms)) return false;
    const sn_pixels_lines *l = p->pairs ? &p->two : &p->one;
    b->piece = l->piece, b->lead = l->lead, b->zeros = l->zeros;
    p->phases = p->down * (p->pairs ? sn_window_pixels_by(p) : p->across);
    b->run = sn_ceil_div(places_of(p) * SN_BAND, sn_mmas[b->mma].k) * sn_mmas[b->mma].k;
    return p->pairs || vector == SN_BAND;
}

int64_t sn_window_pixels_start(const sn_window_pixels *p, int64_t phase) {
    return sn_ceil_div(p->b.lead - phase, sn_window_pixels_by(p));
}

static void find_lines(sn_window_pixels *p) {
    sn_window_bands *b = &p->b;
    sn_window_bands_find_piece(b, sn_window_pixels_by(p));
    p->two = (sn_pixels_lines){b->piece, b->lead, b->zeros};
    sn_window_bands_find_piece(b, 1);
    p->one = (sn_pixels_lines){b->piece, b->lead, b->zeros};
}

static bool find_phases(sn_window_pixels *p) {
    sn_window_bands *b = &p->b;
    const sn_window_line *row = &b->w.row, *column = &b->w.column;
    p->down = row->there ? row->step : 1, p->across = column->step;
    if (p->down > 2 || p->across > 2 || (p->down > 1 && llabs(row->dilation) != 1)) return false;
    p->taps = p->down > 1 ? sn_ceil_div(row->taps, p->down) : row->taps;
    p->apart = p->down > 1 ? 1 : llabs(row->dilation);
    find_lines(p);
    return take_form(p, SN_BAND);
}

bool sn_window_pixels_find(sn_window_pixels *p, const char **why_not, sn_pass_ctx *cx, sn_kern k,
                           const sn_schedule_shape *sh) {
    sn_window_bands *b = &p->b;
    *p = (sn_window_pixels){.parts = 0};
    if (!sn_window_halves_find(b, why_not, cx, k, sh)) return false;
    *why_not = "pixels are of eight channels, or a few eights, whose results are eights, too";
    sn_window_take_lanes(&b->w);
    p->terms = b->n_terms ? b->n_terms : 1;
    if (!find_groups(p)) return false;
    *why_not = "neither pixels nor channels are neighbours in memory";
    p->last = b->w.column.unit > 1;
    if (p->last && !has_channels_last(p)) return false;
    *why_not = "windows move by one place or two, and their taps do not lie apart then";
    if (!find_phases(p)) return false;
    *why_not = "windows reach over more than rows of a product do";
    return b->run <= MOST_RUN;
}

bool sn_schedule_window_pixels_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_window_pixels p;
    return cx->target->is_gpu && sh && sn_window_pixels_find(&p, why_not, cx, k, sh);
}

/* ---- headers ---- */

/* Neighbours that a thread stores together. */
static int64_t together(const sn_window_pixels *p, int64_t columns, int64_t most) {
    while (columns % most || p->b.w.column.windows % most) most /= 2;
    return most;
}

/* n pixels as pairs, of which no two that are stored together are of two lines. */
static int64_t pairs_of(const sn_window_pixels *p, int64_t columns, int64_t n) {
    int64_t some = together(p, columns, 2 * SN_PIXELS_PAIR), whole = sn_ceil_div(n, 2 * SN_BAND) * 2 * SN_BAND;
    if (some < SN_PIXELS_PAIR) some = SN_PIXELS_PAIR;
    return 4 * n < 3 * whole ? sn_ceil_div(n, some) * some : whole;
}

/* Pixels of a line; the last ones may be those that the next line begins with. Lines of whole eights have their parts in registers for the
 * next row of taps, which is worth a few pixels. */
static int64_t pixels_of(const sn_window_pixels *p, int64_t columns) {
    const sn_window_bands *b = &p->b;
    int64_t zeros = columns == b->w.column.windows ? b->zeros : 0, n = columns + b->lead + b->reach - 1 - zeros;
    if (p->pairs) {
        n = sn_ceil_div((columns - 1) * p->across + b->lead + b->reach - zeros, p->across);
        return pairs_of(p, columns, n > columns ? n : columns);
    }
    if (p->across > 1) n = columns + (b->reach - 1) / p->across;
    else if (n < columns) n = columns;
    int64_t whole = sn_ceil_div(n, SN_BAND) * SN_BAND;
    return 4 * n < 3 * whole ? n : whole;
}

/* Are sums of all terms longer than tensor cores may add up? */
static bool is_long(const sn_window_pixels *p) {
    int64_t steps = p->phases * p->parts * p->taps * (p->b.run / sn_mmas[p->b.mma].k);
    return p->terms == SN_MOST_TERMS && steps > SN_PRODUCT_CHAIN;
}

static int64_t in_turns(const sn_window_bands *b, int64_t n) {
    return sn_window_all_turns(sn_ceil_div(n, b->threads)) * b->threads;
}

/* With room for what turns copy behind the last pair. */
static void place_pairs(sn_window_pixels *p) {
    sn_window_bands *b = &p->b;
    int64_t of_part = p->filled / SN_BAND * p->down, of_line = b->groups / SN_PIXELS_PAIR * p->down;
    p->turns = sn_ceil_div(of_part * p->parts, b->threads);
    int64_t whole = p->parts > 1 ? of_part : p->down > 1 ? of_line : 1;
    b->elements = sn_ceil_div(p->turns * b->threads, whole) * (whole > 1 ? whole / p->down : 1) * SN_BAND;
}

/* In shared memory no two of what threads do at once meet in a bank: eights of channels that are copied side by side, results of pixels. */
static void place(sn_window_pixels *p) {
    sn_window_bands *b = &p->b;
    int64_t groups = b->w.n_planes / b->images / p->outs, tiles = b->side, apart;
    int64_t own = b->blocks * b->side * 4 * sn_terms_products((uint32_t)p->terms);
    p->many = 1;
    while (p->last && tiles * SN_BAND == p->outs && groups % (2 * p->many) == 0 && 2 * p->many * own <= SN_BANDS_SUMS &&
           2 * p->many * p->outs * sn_dtype_bytes(b->half) <= SN_PIXELS_SIDE)
        p->many *= 2;
    apart = p->last && p->many * p->parts > 1 ? sn_ceil_div(SN_BAND, p->many * p->parts) : 0;
    b->elements = p->filled;
    if (p->last) { /* what threads copy in their turns stays in front of the next eight */
        int64_t chunks = p->many * p->parts, turns = sn_ceil_div(p->filled / SN_BAND * chunks, b->threads);
        b->elements = sn_ceil_div(sn_window_all_turns(turns) * b->threads, chunks) * SN_BAND;
    }
    if (p->pairs) place_pairs(p);
    while (apart && b->elements / SN_BAND % SN_BAND != apart % SN_BAND) b->elements += SN_BAND;
    b->stages = p->last && b->planes > 1 && !b->n_terms && p->phases == 1 ? 2 : 1;
    p->sums = p->last || p->pairs ? 0 : sn_ceil_div(p->all, BANKS) * BANKS + BANKS / 4;
    p->wide = together(p, b->columns, p->pairs ? 2 * SN_PIXELS_PAIR : SN_BAND);
}

/* What windows of the last rows of the product see, too. */
static void fill(sn_window_pixels *p) {
    sn_window_bands *b = &p->b;
    int64_t by = p->pairs ? SN_PIXELS_PAIR : 1, of_line = b->groups / by;
    int64_t pixels = p->all / by - 1 + (p->taps - 1) * p->apart * of_line + b->run / SN_BAND;
    if (p->pairs) pixels += sn_window_pixels_start(p, 0);
    p->filled = (p->pairs && p->down == 1 ? pixels : sn_ceil_div(pixels, of_line) * of_line) * SN_BAND;
    b->weights = b->side * by * SN_BAND * b->run * p->taps;
}

bool sn_window_pixels_measure(sn_window_pixels *p, const sn_sched *sc) {
    sn_window_bands *b = &p->b;
    const sn_window *w = &b->w;
    int64_t warps = sc->block_x / SN_WARP;
    b->rows = sc->tile_m, b->columns = sc->tile_n, b->planes = sc->tile_k, b->threads = sc->block_x;
    b->blocks = sc->unroll;
    if (!b->rows || !b->columns || !b->planes || !b->blocks || !warps || sc->block_x % SN_WARP) return false;
    if (b->rows > w->row.windows || b->columns > w->column.windows || b->images % b->planes) return false;
    if (!take_form(p, sc->vector) || (p->pairs && b->columns < w->column.windows && b->columns % SN_PIXELS_PAIR))
        return false;
    b->groups = pixels_of(p, b->columns);
    b->lines = sn_window_places(&w->row, b->rows);
    p->all = warps * b->blocks * BLOCK_ROWS;
    if (p->all < b->rows * b->groups) return false;
    b->side = SN_BANDS_SUMS / (b->blocks * 4 * sn_terms_products((uint32_t)p->terms));
    if (b->side > p->outs / SN_BAND) b->side = p->outs / SN_BAND;
    while (b->side > 1 && p->outs / SN_BAND % b->side) b->side--;
    if (b->side < 1 || is_long(p) || (p->joined > 1 && b->side * SN_BAND != p->outs)) return false;
    fill(p);
    b->at_hand = w->steps;
    b->grid[0] = b->images / b->planes;
    place(p);
    if (p->pairs && p->turns * sn_window_pixels_by(p) * SN_BAND / 2 > SN_PIXELS_LOADED) return false;
    b->grid[1] = w->n_planes / b->images / (p->many * b->side * SN_BAND);
    b->grid[2] = sn_ceil_div(w->row.windows, b->rows), b->grid[3] = sn_ceil_div(w->column.windows, b->columns);
    return true;
}

static int64_t chunks(const sn_window_pixels *p) { return p->many * p->parts * p->phases; }
/* Of terms, for one of elements. */
static double products(const sn_window_pixels *p) { return sn_terms_products((uint32_t)p->terms); }

/* Shared memory: images and weights as halves, eight planes of results. */
static double bytes_of(const sn_window_pixels *p) {
    const sn_window_bands *b = &p->b;
    int64_t image = chunks(p) * b->elements;
    if (!p->last) image = in_turns(b, image / SN_BAND) * SN_BAND;
    if (p->pairs) image = b->elements * p->phases;
    double images = (double)(image * b->stages * p->terms);
    double weights = (double)(chunks(p) * b->weights) * products(p);
    return (images + weights) * sn_dtype_bytes(b->factor) + (double)(SN_BAND * p->sums * sn_dtype_bytes(SN_F32));
}

/* Parts of 16 pixels that a warp loads for a row of taps, of those that it multiplies: lines that it has are loaded once. */
static double loaded(const sn_window_pixels *p) {
    const sn_window_bands *b = &p->b;
    double lines = (double)(b->blocks * BLOCK_ROWS) / (double)b->groups, taps = (double)p->taps;
    bool again = b->groups % (p->pairs ? 2 * SN_BAND : SN_BAND) || lines < 1;
    return again ? 1 : (lines + taps - 1) / (lines * taps);
}

/* Instructions of a warp that multiply for an image. */
static double products_of(const sn_window_pixels *p) {
    const sn_window_bands *b = &p->b;
    return (double)(chunks(p) * b->side * b->blocks * p->taps * (b->run / sn_mmas[b->mma].k)) * products(p);
}

/* A turn of pairs loads eight channels of both pixels together, and their results go straight to memory. */
static double issued_for_pairs(const sn_window_pixels *p) {
    const sn_window_bands *b = &p->b;
    double by = (double)sn_window_pixels_by(p);
    double items = (double)(p->many * p->parts * p->filled * p->down) / SN_BAND * by / (double)b->piece;
    double sums = (double)(b->side * SN_BAND * p->all);
    double issued = items * (SN_PIXELS_TURN + (double)b->piece * SN_BAND);
    issued += sums * (b->w.rest_ops + 0.5 + SN_PIXELS_STORE / (double)p->wide);
    issued += (double)(chunks(p) * b->weights) * SN_PIXELS_TAP / (double)b->planes;
    return issued + (double)b->threads * SN_WINDOW_BEGIN;
}

/* Of all threads for an image. */
static double instructions(const sn_window_pixels *p) {
    const sn_window_bands *b = &p->b;
    if (p->pairs) return issued_for_pairs(p);
    double pieces = (double)(chunks(p) * p->filled) / SN_BAND;
    double sums = (double)(p->many * b->side * SN_BAND * p->all);
    double each = p->last ? SN_WINDOW_COPY_LINES : SN_PIXELS_TURN + 3 * SN_BAND;
    double terms = b->n_terms ? pieces * (double)(SN_BAND * p->terms) * SN_PIXELS_TERM : 0;
    double store = p->last ? SN_BANDS_STORE / 2.0 : 3 + SN_WINDOW_PASS / (double)p->wide;
    double issued = terms + pieces * each + sums * (products(p) - 1 + store + b->w.rest_ops);
    issued += (double)(chunks(p) * b->weights) * SN_PIXELS_TAP * (double)p->terms / (double)b->planes;
    return issued + (double)b->threads * SN_WINDOW_BEGIN;
}

/* Lines of shared memory for an image. */
static double moved(const sn_window_pixels *p) {
    const sn_window_bands *b = &p->b;
    double warps = (double)b->threads / SN_WARP, rows = (double)(p->taps * (b->run / sn_mmas[b->mma].k));
    double steps = warps * rows * (double)chunks(p);
    double copied = (double)(chunks(p) * p->filled * p->terms) * sn_dtype_bytes(b->factor);
    double left = (double)b->blocks * 4 * loaded(p) * (double)p->terms, right = (double)b->side * 2 * products(p);
    if (p->pairs) left = (double)b->blocks * 2 * loaded(p), right = (double)b->side * 4;
    double factors = steps * SN_LINE * (left + right);
    double sums = p->last || p->pairs ? 0 : 2 * (double)(b->side * SN_BAND * p->all) * sn_dtype_bytes(SN_F32);
    return (copied + factors + sums) / SN_LINE;
}

/* Parts of pixels are used up as they come. */
static double registers(const sn_window_pixels *p) {
    const sn_window_bands *b = &p->b;
    int64_t turns = b->planes > 1 ? SN_BAND / 2 * sn_window_pixels_by(p) * p->turns : 0;
    if (p->pairs) return 2 * SN_OTHER_REGS + (double)(b->blocks * (4 * b->side + 2) + 4 * b->side + turns);
    return 2 * SN_OTHER_REGS + (double)(p->many * b->blocks * b->side * 4) * products(p) + 2 * (double)b->blocks;
}

/* Are halves turned on their way, one by one? */
static bool is_turned(const sn_window_pixels *p) { return p->down * p->across == 1 && p->terms == 1 && !p->last; }

static sn_window_count count(void *of, const sn_sched *sc) {
    sn_window_pixels *p = of;
    const sn_window_bands *b = &p->b;
    const sn_target *t = b->w.cx->target;
    const sn_mma_info *mma = &sn_mmas[b->mma];
    if (!sn_window_pixels_measure(p, sc)) return (sn_window_count){0};
    double fit = sn_window_fit(t, (double)b->threads, registers(p), bytes_of(p));
    if (fit < 1) return (sn_window_count){0};
    double blocks = (double)(b->grid[0] * b->grid[1] * b->grid[2] * b->grid[3]);
    double each = sn_waves(blocks, t->units) * (double)b->planes, issued = instructions(p);
    double given = (double)b->threads / SN_WARP * products_of(p);
    int64_t places = sn_ceil_div(b->lines, p->down) * b->groups / (p->pairs ? SN_PIXELS_PAIR : 1);
    double image = (double)(chunks(p) * places * SN_BAND) * sn_dtype_bytes(b->half);
    double results = (double)b->w.sh->rows * b->w.stored_bytes;
    double parts[] = {(blocks * (double)b->planes * image + results) / t->units / t->cycle_bytes,
                      each * image / SN_PRODUCT_CACHE,
                      each * (issued + given * SN_WARP * 2) / SN_ISSUES,
                      each * given * mma->m * mma->n * mma->k / mma->rate,
                      each * moved(p),
                      each / (double)b->planes * SN_WINDOW_START};
    double alone = issued / (double)b->threads * SN_WINDOW_PACE / 100, waves = sn_waves(blocks, t->units * fit);
    double waits = p->pairs ? 2 * SN_CONTRACT_LATENCY + (double)b->planes * SN_PIXELS_STEP
                            : 2 * (double)b->planes * SN_CONTRACT_LATENCY;
    double beside = p->pairs ? fit * (double)b->threads / SN_PIXELS_BESIDE : fit;
    double all = fmax(sn_window_beside(parts, SN_COUNT(parts), beside), waves * (waits + (double)b->planes * alone));
    if (!p->pairs && is_turned(p)) all = all * SN_PIXELS_TURNED / 100;
    if (p->down * p->across > 1 && !p->pairs) all = all * SN_PIXELS_PHASES / 100;
    if (p->last && b->w.steps == 1 && p->terms == 1) all = all * SN_PIXELS_DEPTHWISE / 100;
    return (sn_window_count){p->terms > 1 ? all * SN_PIXELS_TERMS / 100 : all, fit};
}

static int64_t rows_of_line(void *of, const sn_sched *sc) {
    sn_window_pixels p = *(const sn_window_pixels *)of;
    return take_form(&p, sc->vector) ? pixels_of(&p, sc->tile_n) : 0;
}

/* Four lanes store neighbours of a line: where those are no whole sector, the L2 is busy for longer than with lines from shared memory (3 x 3
 * of bf16[64, 512, 14, 14] in 32 groups 26 us for 22 on an H200). */
static void consider_all(sn_window_choice *c) {
    static const sn_window_products of_pixels = {rows_of_line, MOST_CUTS, false, 1},
                                    of_pairs = {rows_of_line, MOST_CUTS, false, 2 * SN_PIXELS_PAIR};
    const sn_window_pixels *p = c->of;
    static const uint32_t vectors[] = {SN_BAND, SN_PIXELS_PAIR};
    sn_sched sc = *c->pinned;
    sc.cls = SN_SCHED_WINDOW, sc.pixels = true;
    for (uint32_t i = 0; i < SN_COUNT(vectors); i++) {
        sc.vector = vectors[i];
        bool pairs = sc.vector == SN_PIXELS_PAIR;
        if (c->pinned->vector && c->pinned->vector != sc.vector) continue;
        if (!c->pinned->vector && pairs && p->b.w.column.windows % (2 * SN_PIXELS_PAIR)) continue;
        sn_window_consider_products(c, &p->b.w, pairs ? &of_pairs : &of_pixels, sc);
    }
}

/* Of bands, which are taken where they are fewer by as much as for other classes, or of what would be chosen instead of these. */
static sn_status other_cycles(double *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                              const sn_sched *pinned) {
    sn_sched_list bands;
    SN_TRY(sn_schedule_ask(&bands, sn_schedule_window_bands_applies, sn_schedule_window_bands_candidates, cx, k, sh,
                           pinned));
    if (bands.n) return *out = bands.cycles * 100 / SN_BANDS_GAIN, SN_OK;
    return sn_window_bands_other_cycles(out, cx, k, sh, pinned);
}

sn_status sn_schedule_window_pixels_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k,
                                               const sn_schedule_shape *sh, const sn_sched *pinned) {
    sn_window_pixels p;
    const char *why_not;
    bool open = pinned->cls == SN_SCHED_NONE;
    double other = 0;
    sn_window_choice c = {.of = &p, .pinned = pinned, .count = count};
    if (!open && !pinned->pixels) return SN_OK;
    if (!sn_window_pixels_find(&p, &why_not, cx, k, sh)) return SN_OK;
    consider_all(&c);
    if (!c.cycles && pinned->pixels)
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT, "kernel %s: there are no pixels of windows as its schedule says",
                       sn_kern_get(cx->m, k)->name);
    if (!c.cycles) return SN_OK;
    if (open) SN_TRY(other_cycles(&other, cx, k, sh, pinned));
    if (p.last && p.b.w.steps > 1) other = other * SN_PIXELS_LAST / 100;
    sn_remark(cx, sn_kern_get(cx->m, k)->name, "pixels: %.0f cycles; else: %.0f", c.cycles, other);
    /* What pairs take was measured, and so was what rows of pixels do instead; other classes are counted as these were. */
    bool pairs = c.best.vector == SN_PIXELS_PAIR;
    double counted = pairs || !is_turned(&p) ? c.cycles : c.cycles * 100 / SN_PIXELS_TURNED;
    if (open && counted * 100 > other * (pairs ? 100 : SN_WINDOW_GAIN)) return SN_OK;
    sn_schedule_propose(out, cx, &c.best);
    out->cycles = c.cycles;
    return SN_OK;
}
