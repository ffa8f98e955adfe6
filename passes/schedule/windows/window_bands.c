/* window_bands.c: class window of the pass `schedule`, with `bands`: windows of halves whose taps are products of matrix
 * instructions (window_bands.h): depthwise convolutions of many taps.
 *
 * Threads need a multiplication and an addition for each tap; instructions take a band of 16 elements for 8 results at a
 * time, of which 7 taps fill almost a half. So what 49 taps cost is less than what memory does.
 *
 * Legality: elements and weights are halves that were widened, windows move by one element, and nothing else is summed. The sum is
 * one in f32 of products that are exact, as in every product of halves; zeros beside the band times an infinity or a nan make nan,
 * as in groups that are joined (passes/graph/layout_groups.c).
 *
 * Counts cycles as window.c does, and is chosen where they are fewer than for all that would be chosen else.
 */
#include "passes/schedule/windows/window_bands.h"

#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/windows/window_choice.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_RUN = 64, MOST_ALIKE = 16, MOST_PARTS = 64 };

static const sn_stmt_rec *def_of(const sn_window_bands *b, sn_val v) {
    return sn_stmt_get(b->w.m, sn_val_get(b->w.m, v)->def);
}

static bool is_zero(const sn_window_bands *b, sn_val v) {
    const sn_stmt_rec *r = def_of(b, v);
    return r->op == SN_LOP_CONST && r->f == 0;
}

/* Is the value a half that was widened, or 0? */
static bool is_half(const sn_window_bands *b, sn_val v) {
    const sn_stmt_rec *r = def_of(b, v);
    if (r->op == SN_LOP_CAST) return sn_val_get(b->w.m, r->in[0])->dtype == b->half;
    if (r->op == SN_LOP_SELECT) return is_half(b, r->in[1]) && is_half(b, r->in[2]);
    return is_zero(b, v);
}

static sn_mma instruction(const sn_window_bands *b) {
    for (sn_mma i = SN_MMA_NONE + 1; i < SN_N_MMAS; i++) {
        const sn_mma_info *mma = &sn_mmas[i];
        if (sn_mma_is_async(i) || mma->sm > b->w.cx->target->sm || mma->operand != b->factor) continue;
        if (mma->n == SN_BAND && mma->m == 2 * SN_BAND && mma->k == 2 * SN_BAND && mma->state == SN_F32) return i;
    }
    return SN_MMA_NONE;
}

/* One sum in f32 of elements times weights. */
static bool find_product(sn_window_bands *b) {
    const sn_window *w = &b->w;
    const sn_stmt_rec *top = sn_stmt_get(w->m, w->nest->top);
    const sn_stmt_rec *yield = sn_stmt_get(w->m, sn_stmt_get(w->m, w->inner)->last);
    const sn_stmt_rec *product = def_of(b, yield->in[0]);
    if (top->n_combs != 1 || top->combs[0] != SN_COMB_SUM || sn_val_get(w->m, top->result)->dtype != SN_F32)
        return false;
    if (product->op != SN_LOP_MUL) return false;
    bool right = product->in[1].i == w->value.i;
    if (!right && product->in[0].i != w->value.i) return false;
    b->weight = product->in[right ? 0 : 1];
    b->half = b->factor = sn_stmt_get(w->m, w->load)->dtype;
    if (b->half == SN_F32) {
        b->n_terms = sn_precision_terms((sn_precision)sn_kern_get(w->m, w->k)->sched.precision);
        b->factor = SN_BF16;
    }
    b->mma = instruction(b);
    if (b->weight.i == w->value.i || !b->mma) return false;
    return b->n_terms || (is_half(b, w->value) && is_half(b, b->weight));
}

static bool uses(const sn_window_bands *b, sn_val v, sn_axis ax) {
    const sn_stmt_rec *r = def_of(b, v);
    if (r->ix.i && sn_ix_uses_axis(b->w.m, r->ix, ax)) return true;
    if (r->bound.i && sn_ix_uses_axis(b->w.m, r->bound, ax)) return true;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (uses(b, r->in[i], ax)) return true;
    return false;
}

/* ---- pieces ---- */

/* Is the mask one of places alone? */
static bool is_by_places(const sn_window_bands *b) {
    const sn_window *w = &b->w;
    for (uint32_t i = 0; i < w->sh->outer.n && b->mask.i; i++) {
        bool along = (w->row.there && w->row.outer == i) || w->column.outer == i;
        if (!along && uses(b, b->mask, sn_stmt_axis(w->m, w->sh->outer.at[i]))) return false;
    }
    for (uint32_t i = 0; i < w->nest->chain.n && b->mask.i; i++)
        if (sn_window_is_step(w, i) && uses(b, b->mask, sn_stmt_axis(w->m, w->nest->chain.at[i]))) return false;
    return b->image.i;
}

/* The element is what is loaded, and 0 where one mask does not hold. */
static void find_image(sn_window_bands *b) {
    const sn_stmt_rec *load = sn_stmt_get(b->w.m, b->w.load), *r = def_of(b, b->w.value);
    sn_val mask = load->has_mask ? load->in[0] : (sn_val){0};
    if (load->has_mask && !is_zero(b, load->in[1])) return;
    if (r->op == SN_LOP_SELECT) {
        if (r->in[0].i != mask.i || !is_zero(b, r->in[2])) return;
        r = def_of(b, r->in[1]);
    }
    if (b->n_terms ? r != load : r->op != SN_LOP_CAST || r->in[0].i != load->result.i) return;
    b->image = load->result;
    b->mask = mask;
}

static sn_axis outer_axis(const sn_window *w, uint32_t i) { return sn_stmt_axis(w->m, w->sh->outer.at[i]); }

/* Is e, which may count along a row, the same number of pieces of n for all else? *at becomes what it is at place 0. */
static bool by_pieces(int64_t *at, bool *along, sn_window_bands *b, sn_ix e, int64_t n) {
    sn_window *w = &b->w;
    sn_ix zero = sn_ix_const(w->m, 0), rest, begin;
    sn_axis line[] = {outer_axis(w, w->column.outer), sn_stmt_axis(w->m, w->nest->chain.at[w->column.tap])};
    sn_ix none[] = {zero, zero};
    int64_t c;
    if (!sn_ix_coef(w->m, e, line[0], &c) || (c != 0 && c != w->column.step)) return false;
    *along = c != 0;
    rest = begin = sn_ix_subst(w->m, e, line, none, SN_COUNT(line));
    for (uint32_t i = 0; i < w->sh->outer.n + w->nest->chain.n; i++) {
        sn_stmt s = i < w->sh->outer.n ? w->sh->outer.at[i] : w->nest->chain.at[i - w->sh->outer.n];
        sn_axis ax = sn_stmt_axis(w->m, s);
        begin = sn_ix_subst(w->m, begin, &ax, &zero, 1);
    }
    return sn_ix_is_const(w->m, begin, at) && sn_ix_is_multiple(w->m, sn_ix_sub(w->m, rest, begin), n);
}

/* Does the mask hold for all of a piece of n elements, or for none? */
static bool is_of_pieces(sn_window_bands *b, sn_val mask, int64_t n) {
    const sn_stmt_rec *r = def_of(b, mask);
    int64_t at, bound;
    bool along;
    if (r->op == SN_LOP_AND) return is_of_pieces(b, r->in[0], n) && is_of_pieces(b, r->in[1], n);
    if (r->op != SN_LOP_IN || sn_ix_uses_vals(b->w.m, r->ix)) return false;
    if (!sn_ix_uses_axis(b->w.m, r->ix, outer_axis(&b->w, b->w.column.outer))) return true;
    if (!sn_ix_is_const(b->w.m, r->bound, &bound) || bound % n || !by_pieces(&at, &along, b, r->ix, n)) return false;
    return along && (at + sn_window_first_place(&b->w.column) - b->lead) % n == 0;
}

/* Is the mask a test of the places of the line? */
static bool tests(const sn_window_bands *b, sn_val mask, const sn_window_line *l) {
    if (!mask.i) return false;
    const sn_stmt_rec *r = def_of(b, mask);
    if (r->op == SN_LOP_AND) return tests(b, r->in[0], l) || tests(b, r->in[1], l);
    return r->op == SN_LOP_IN && sn_ix_uses_axis(b->w.m, r->ix, outer_axis(&b->w, l->outer));
}

/* Of a line. */
static int64_t places_of(const sn_window_bands *b) { return (b->w.column.windows - 1) * b->w.column.step + b->reach; }

/* Places that no test of its own holds off are those of windows, of which pieces are whole. */
static bool ends_with_pieces(const sn_window_bands *b, int64_t n) {
    const sn_window_line *l = &b->w.column;
    return tests(b, b->mask, l) || (b->lead == 0 && (places_of(b) % n == 0));
}

static int64_t zeros_of(sn_window_bands *b, sn_val mask);

void sn_window_bands_find_piece(sn_window_bands *b, int64_t most) {
    const sn_stmt_rec *load = sn_stmt_get(b->w.m, b->w.load);
    int64_t bytes = sn_dtype_bytes(b->half), at;
    bool along;
    for (b->piece = most; b->piece > 1; b->piece /= 2) {
        if (!b->image.i || sn_buf_get(b->w.m, load->buf)->align < b->piece * bytes) continue;
        if (!by_pieces(&at, &along, b, load->ix, b->piece) || !along) continue;
        at += sn_window_first_place(&b->w.column);
        b->lead = ((at % b->piece) + b->piece) % b->piece;
        if (ends_with_pieces(b, b->piece) && (!b->mask.i || is_of_pieces(b, b->mask, b->piece))) break;
    }
    if (b->piece == 1) b->lead = 0;
    b->zeros = zeros_of(b, b->mask);
}

/* What the mask holds off of a line in front of the image, as far as it holds off as much behind it: the end of one line is what stands in
 * front of the next. */
static int64_t zeros_of(sn_window_bands *b, sn_val mask) {
    int64_t at, bound;
    bool along;
    if (!mask.i) return 0;
    const sn_stmt_rec *r = def_of(b, mask);
    if (r->op == SN_LOP_AND) {
        int64_t x = zeros_of(b, r->in[0]), y = zeros_of(b, r->in[1]);
        return x > y ? x : y;
    }
    if (r->op != SN_LOP_IN || sn_ix_uses_vals(b->w.m, r->ix) || !by_pieces(&at, &along, b, r->ix, 1) || !along)
        return 0;
    if (!sn_ix_is_const(b->w.m, r->bound, &bound)) return 0;
    at += sn_window_first_place(&b->w.column) - b->lead;
    int64_t behind = at + b->lead + places_of(b) - bound, front = -at;
    int64_t both = front < behind ? front : behind;
    return both > 0 ? both : 0;
}

/* Bands begin where results do, or with neighbours in front of them: pairs that begin as those of memory do. */
static void find_bands(sn_window_bands *b) {
    b->run = sn_ceil_div(SN_BAND - 1 + b->reach, sn_mmas[b->mma].k) * sn_mmas[b->mma].k;
    sn_window_bands_find_piece(b, b->turned ? 1 : SN_BAND);
    int64_t room = b->run - (SN_BAND - 1) - b->reach, shift = b->lead < room ? b->lead : room;
    if ((shift - b->lead) % 2 && shift > 0) shift--;
    b->first = shift - b->lead;
}

/* The first axes of planes, as far as weights know nothing of them. */
static void find_images(sn_window_bands *b) {
    const sn_window *w = &b->w;
    b->images = 1;
    for (uint32_t i = 0; i < w->sh->outer.n; i++) {
        if ((w->row.there && w->row.outer == i) || w->column.outer == i) continue;
        if (uses(b, b->weight, outer_axis(w, i))) return;
        b->images *= sn_ix_value(w->m, sn_stmt_extent(w->m, w->sh->outer.at[i]));
    }
}

/* As many planes side by side as divide all planes of an image. */
static void find_alike(sn_window_bands *b) {
    int64_t all = b->w.n_planes / b->images;
    b->alike = 1;
    for (int64_t n = 2; n <= MOST_ALIKE && b->w.shares; n++)
        if (all % n == 0 && sn_window_plane_stride(&b->w, n) == 0) b->alike = n;
}

bool sn_window_halves_find(sn_window_bands *b, const char **why_not, sn_pass_ctx *cx, sn_kern k,
                           const sn_schedule_shape *sh) {
    *b = (sn_window_bands){.half = SN_F32};
    if (!sn_window_find(&b->w, why_not, cx, k, sh)) return false;
    *why_not = "matrix instructions do halves times halves, or terms of f32, summed in f32";
    if (!find_product(b)) return false;
    find_image(b);
    b->by_places = is_by_places(b);
    find_images(b);
    b->reach = llabs(b->w.column.dilation) * (b->w.column.taps - 1) + 1;
    return true;
}

bool sn_window_bands_find(sn_window_bands *b, const char **why_not, sn_pass_ctx *cx, sn_kern k,
                          const sn_schedule_shape *sh) {
    if (!sn_window_halves_find(b, why_not, cx, k, sh)) return false;
    *why_not = "bands are of halves, whose neighbours lie along a line, and of windows that move by one";
    if (b->w.column.step != 1 || (b->w.row.there && b->w.row.step != 1)) return false;
    if (b->n_terms) return false;
    if ((b->w.lanes >= 0 || b->w.column.unit != 1) && !sn_window_turned_find(b)) return false;
    find_alike(b);
    if (b->turned && b->alike > 1) return false;
    find_bands(b);
    *why_not = "windows reach over more than bands do";
    return b->run <= MOST_RUN;
}

bool sn_schedule_window_bands_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_window_bands b;
    return cx->target->is_gpu && sh && sn_window_bands_find(&b, why_not, cx, k, sh);
}

/* ---- headers ---- */

/* A line has the places of all its windows; the last ones may be those that the next line begins with, if nothing is there. */
static int64_t groups_of(const sn_window_bands *b, int64_t columns) {
    int64_t zeros = columns == b->w.column.windows ? b->zeros : 0, places = columns + b->lead + b->reach - 1 - zeros;
    return sn_ceil_div(places > columns - b->first ? places : columns - b->first, SN_BAND);
}

/* Instructions of a warp that multiply what is at hand. */
static int64_t products_of(const sn_window_bands *b) {
    return b->at_hand * b->side * b->blocks * b->w.row.taps * (b->run / sn_mmas[b->mma].k);
}

/* Threads take turns, which may be more than n. */
static int64_t in_turns(const sn_window_bands *b, int64_t n) {
    return sn_window_all_turns(sn_ceil_div(n, b->threads)) * b->threads;
}

/* Of images and bands at hand: of one stage is what moves for them, however far copies run ahead. */
static int64_t bytes_of_stages(const sn_window_bands *b, int64_t stages) {
    int64_t image = in_turns(b, b->elements / b->piece * b->at_hand) * b->piece;
    if (b->turned) image = sn_window_turned_elements(b);
    return (image * stages + b->weights * b->at_hand) * sn_dtype_bytes(b->half);
}

static int64_t bytes_of(const sn_window_bands *b) { return bytes_of_stages(b, b->stages); }

static bool is_much(const sn_window_bands *b) { return bytes_of(b) > SN_BANDS_BYTES || products_of(b) > SN_BANDS_CODE; }

static void number_blocks(sn_window_bands *b) {
    const sn_window *w = &b->w;
    b->grid[0] = b->images / b->planes, b->grid[1] = w->n_planes / b->images / b->side;
    b->grid[2] = sn_ceil_div(w->row.windows, b->rows), b->grid[3] = sn_ceil_div(w->column.windows, b->columns);
}

bool sn_window_bands_measure(sn_window_bands *b, const sn_sched *sc) {
    const sn_window *w = &b->w;
    const sn_mma_info *mma = &sn_mmas[b->mma];
    int64_t warps = sc->block_x / SN_WARP;
    b->rows = sc->tile_m, b->columns = sc->tile_n, b->planes = sc->tile_k, b->threads = sc->block_x;
    b->blocks = sc->unroll;
    if (!b->rows || !b->columns || !b->planes || !b->blocks || !warps || sc->block_x % SN_WARP) return false;
    if (b->rows > w->row.windows || b->columns > w->column.windows || b->images % b->planes) return false;
    if (b->columns < w->column.windows && b->columns % SN_BAND) return false;
    b->groups = groups_of(b, b->columns);
    b->lines = sn_window_places(&w->row, b->rows);
    int64_t all = warps * b->blocks * mma->m, jump = llabs(w->row.dilation) * SN_BAND * b->groups;
    if (all < b->rows * b->groups) return false;
    b->side = SN_BANDS_SUMS / (mma->m / 4) / b->blocks;
    if (b->side > b->alike) b->side = b->alike;
    while (b->side > 1 && b->alike % b->side) b->side--;
    if (b->side < 1) b->side = 1;
    b->weights = b->side * SN_BAND * b->run * w->row.taps;
    /* A whole number of lines, of which rows of the product that have no result see some. */
    b->elements = (all - 1) * SN_BAND + (w->row.taps - 1) * jump + b->run;
    b->elements = sn_ceil_div(b->elements, SN_BAND * b->groups) * SN_BAND * b->groups;
    if (b->turned) return sn_window_turned_measure(b, sc) && (number_blocks(b), true);
    b->at_hand = w->steps;
    b->stages = 1;
    while (w->steps % b->at_hand || (b->at_hand > 1 && is_much(b))) b->at_hand--;
    if (b->image.i && b->piece * sn_dtype_bytes(b->half) >= SN_BANK && b->planes * w->steps > b->at_hand) b->stages = 2;
    number_blocks(b);
    return true;
}

double sn_window_bands_memory(const sn_window *w) {
    double in = (double)sn_buf_bytes(w->m, sn_stmt_get(w->m, w->load)->buf), read = (double)w->sh->rows * w->bytes;
    return fmin(in, read) + (double)w->sh->rows * w->stored_bytes;
}

/* Instructions of all threads for an image. */
static double instructions(const sn_window_bands *b) {
    const sn_window *w = &b->w;
    if (b->turned) return sn_window_turned_instructions(b);
    double copied = (double)b->elements / (double)b->piece, pairs = (double)(b->rows * b->groups * SN_BAND) / 2;
    double copy = b->image.i ? SN_WINDOW_COPY_LINES : SN_WINDOW_COPY_LINES + w->element_ops;
    double weights = (double)b->weights * SN_BANDS_WEIGHT / (double)(b->at_hand == w->steps ? b->planes : 1);
    double issued = (double)w->steps * (copied * copy + weights) + (double)b->threads * SN_WINDOW_BEGIN;
    return issued + pairs * (double)b->side * (SN_BANDS_STORE + 2.0 * w->rest_ops);
}

static double registers(const sn_window_bands *b) {
    if (b->turned) return sn_window_turned_registers(b);
    double once = SN_OTHER_REGS + 2 * (double)b->side * 2;
    return once + (double)b->blocks * (double)(4 * b->side + 2 * 4) + (double)(b->w.steps > 1 ? SN_OTHER_REGS : 0);
}

static sn_window_count count(void *of, const sn_sched *sc) {
    sn_window_bands *b = of;
    const sn_target *t = b->w.cx->target;
    const sn_mma_info *mma = &sn_mmas[b->mma];
    if (!sn_window_bands_measure(b, sc)) return (sn_window_count){0};
    double bytes = (double)bytes_of_stages(b, 1), turns = (double)(b->w.steps / b->at_hand);
    double fit = sn_window_fit(t, (double)b->threads, registers(b), (double)bytes_of(b));
    if (fit < 1) return (sn_window_count){0};
    double blocks = (double)(b->grid[0] * b->grid[1] * b->grid[2] * b->grid[3]), images = blocks * (double)b->planes;
    double each = sn_waves(blocks, t->units) * (double)b->planes;
    double given = (double)b->threads / SN_WARP * (double)products_of(b) * turns;
    double issued = instructions(b) + given * SN_WARP;
    double moved = 3 * bytes * turns / SN_LINE, memory = sn_window_bands_memory(&b->w) / t->units / t->cycle_bytes;
    double cache = images * bytes * turns / t->units / SN_PRODUCT_CACHE;
    double parts[] = {memory,
                      cache,
                      each * issued / SN_ISSUES,
                      each * given * mma->m * mma->n * mma->k / mma->rate,
                      each * moved,
                      each / (double)b->planes * SN_WINDOW_START};
    double alone = (1 + turns) * SN_CONTRACT_LATENCY + issued / (double)b->threads * SN_WINDOW_PACE / 100;
    double all = fmax(sn_window_beside(parts, SN_COUNT(parts), fit),
                      sn_waves(blocks, t->units * fit) * (double)b->planes * alone);
    /* Registers are counted from below: 13 x 13 of 192 channels spilled with no more of them, and 7 x 7 took 2 % longer. */
    return (sn_window_count){b->turned ? all * SN_BANDS_TURNED / 100 : all, 0};
}

static int64_t rows_of_line(void *of, const sn_sched *sc) { return groups_of(of, sc->tile_n); }

static void consider_all(sn_window_choice *c) {
    static const sn_window_products products = {rows_of_line, MOST_PARTS, true, SN_BAND};
    const sn_window_bands *b = c->of;
    sn_sched sc = *c->pinned;
    sc.cls = SN_SCHED_WINDOW, sc.bands = true;
    for (int64_t side = SN_BAND; side <= (b->turned ? SN_BANDS_SIDE : SN_BAND); side *= 2) {
        if (!c->pinned->vector) sc.vector = (uint32_t)side;
        else if (side > SN_BAND) break;
        sn_window_consider_products(c, &b->w, &products, sc);
    }
}

/* What would be chosen else: class window answers for itself and those that it compares itself with; where it gives way, it is the
 * product by tiles. 0: nobody knows. */
static sn_status ask_others(double *out, sn_sched *header, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                            const sn_sched *pinned) {
    sn_sched_list threads, tiles;
    *out = 0;
    SN_TRY(sn_schedule_ask(&threads, sn_schedule_window_applies, sn_schedule_window_candidates, cx, k, sh, pinned));
    if (threads.n) return *out = threads.cycles, *header = threads.at[0], SN_OK;
    SN_TRY(sn_schedule_ask(&tiles, sn_schedule_contract_applies, sn_schedule_contract_candidates, cx, k, sh, pinned));
    *out = tiles.cycles;
    return SN_OK;
}

sn_status sn_window_bands_other_cycles(double *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                       const sn_sched *pinned) {
    sn_sched header;
    return ask_others(out, &header, cx, k, sh, pinned);
}

/* Threads whose lanes are pieces of two sectors. */
static bool has_whole_pieces(const sn_window_bands *b, const sn_sched *threads) {
    return threads->cls == SN_SCHED_WINDOW && threads->tile_k * sn_dtype_bytes(b->half) >= 2 * SN_SECTOR;
}

sn_status sn_schedule_window_bands_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k,
                                              const sn_schedule_shape *sh, const sn_sched *pinned) {
    sn_window_bands b;
    const char *why_not;
    bool open = pinned->cls == SN_SCHED_NONE;
    double other = 0;
    sn_sched header = {0};
    sn_window_choice c = {.of = &b, .pinned = pinned, .count = count};
    if ((!open && !pinned->bands) || pinned->pixels) return SN_OK;
    if (!sn_window_bands_find(&b, &why_not, cx, k, sh)) return SN_OK;
    consider_all(&c);
    if (!c.cycles && pinned->bands)
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT, "kernel %s: there are no bands of windows as its schedule says",
                       sn_kern_get(cx->m, k)->name);
    if (!c.cycles) return SN_OK;
    if (open) SN_TRY(ask_others(&other, &header, cx, k, sh, pinned));
    if (b.turned && has_whole_pieces(&b, &header)) other = other * SN_BANDS_PIECES / 100;
    sn_remark(cx, sn_kern_get(cx->m, k)->name, "bands: %.0f cycles; else: %.0f", c.cycles, other);
    if (open && c.cycles * 100 > other * SN_BANDS_GAIN) return SN_OK;
    sn_schedule_propose(out, cx, &c.best);
    out->cycles = c.cycles;
    return SN_OK;
}
