/* window_pixels_bind.c: binding of class window with `pixels` (window_pixels.h): a block has the pixels of a group, channels innermost, and
 * the taps of its results in shared memory, and its warps multiply.
 *
 *     loop g : grid {
 *       loop x : block.x { loop u { taps[..] = w[..], 0 behind the last tap of a row } }
 *       loop i in planes {
 *         loop x : block.x { loop u { turn[c] = load x[..]   s[.., c] = turn[c] } }      c in 8 channels
 *         loop x : block.x { acc = 0 }
 *         loop x : block.x mma(mma.bf16) { acc[..] += s[..] * taps[..] }                     for each eight of channels
 *         loop x : block.x { sums[..] = acc[..] }
 *         loop x : block.x { loop u { the rest of the body, of sums, by neighbours of a line } }     for each eight of results
 *       }
 *     }
 *
 * Row number `groups * row + pixel` of the product is a pixel, so that all lines of a plane are one product.
 */
#include "passes/schedule/windows/window_pixels_bind.h"

#include "passes/schedule/base/schedules.h"

#include <math.h>
#include <stdlib.h>

typedef sn_pixels_binding binding;
typedef sn_pixels_spot spot;

/* ---- operands ---- */

int64_t sn_pixels_chunks(const binding *b) { return b->p.many * b->p.parts; }
static int64_t images(const binding *b) { return sn_pixels_chunks(b) * b->p.phases; }

int64_t sn_pixels_width(int64_t depth) {
    int64_t width = SN_LINE / 2;
    while (depth % width) width /= 2;
    return width;
}

/* Terms that a term of elements is multiplied by: side by side, what is small is left out. */
static int64_t beside(const binding *b, int64_t term) { return b->p.terms - term; }

/* Of an image of those at hand, which has the pixels of an eight of channels, or of a phase of them, and a term of it. */
static sn_mma_nest nest_of(const binding *b, int64_t image, int64_t term) {
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    int64_t taps = b->p.taps;
    if (b->p.pairs) return sn_pairs_nest(b, image);
    sn_mma_nest n = {.mma = of->mma,
                     .threads = (uint32_t)of->threads,
                     .columns = 1,
                     .tiles_m = (uint32_t)of->blocks,
                     .tiles_n = (uint32_t)(of->side * beside(b, term)),
                     .depth = of->run * taps,
                     .state = b->accs[image / (b->p.parts * b->p.phases)][term]};
    n.rank = sn_ix_const(m, 0);
    n.a = (sn_mma_operand){.buf = b->images[term], .width = SN_BAND, .run = of->run};
    n.a.jump = taps > 1 ? b->p.apart * SN_BAND * of->groups : 0;
    n.b = (sn_mma_operand){.buf = b->taps[term], .rows = SN_BAND * n.tiles_n, .width = sn_pixels_width(n.depth)};
    n.a.at = sn_ix_const(m, image * of->elements);
    n.b.at = sn_ix_const(m, image * of->weights * beside(b, term));
    return n;
}

/* Channel c of an eight: of which step, and by how many planes behind the first of its group's. */
static sn_ix step_of(binding *b, sn_ix *planes, sn_ix chunk, sn_ix c) {
    sn_module *m = b->of.m;
    sn_ix group = sn_ix_divc(m, chunk, b->p.parts), part = sn_ix_modc(m, chunk, b->p.parts);
    *planes = sn_ix_scale(m, group, b->p.outs);
    if (b->p.joined == 1) return sn_ix_fma(m, SN_BAND, part, c);
    *planes = sn_ix_fma(m, b->p.own, sn_ix_divc(m, c, b->p.b.w.steps), *planes);
    return sn_ix_modc(m, c, b->p.b.w.steps);
}

sn_val sn_pixels_put_element(binding *b, sn_cursor at, sn_ix chunk, sn_ix c, sn_ix line, sn_ix place, sn_ix lane) {
    sn_ix planes, step = step_of(b, &planes, chunk, c), first = b->of.plane;
    b->of.plane = sn_ix_add(b->of.m, first, planes);
    sn_val x = sn_bands_put_element(&b->of, at, step, line, place, lane);
    b->of.plane = first;
    return x;
}

sn_val sn_pixels_put_any(binding *b, sn_cursor at, sn_ix chunk, sn_ix c, sn_ix line, sn_ix place, sn_ix lane,
                         const sn_axis *over, uint32_t n_over) {
    sn_ix planes, step = step_of(b, &planes, chunk, c), first = b->of.plane;
    b->of.plane = sn_ix_add(b->of.m, first, planes);
    sn_val x = sn_bands_put_any(&b->of, at, step, line, place, lane, over, n_over);
    b->of.plane = first;
    return x;
}

/* The element, or its terms, to shared memory. */
static void put_factor(binding *b, sn_cursor at, sn_ix offset, sn_val x) {
    uint32_t n = b->p.b.n_terms;
    if (!n) sn_put_store(b->of.m, at, b->images[0], offset, x);
    else sn_terms_store(b->of.m, at, sn_terms_scale(b->of.m, at, x, n), n, b->images, offset);
}

/* Where what is copied goes: by phases that take turns, along lines and from line to line. */
static sn_ix image_at(binding *b, sn_ix chunk, sn_ix line, sn_ix place) {
    const sn_window_pixels *p = &b->p;
    sn_module *m = b->of.m;
    sn_ix phase = sn_ix_fma(m, p->across, sn_ix_modc(m, line, p->down), sn_ix_modc(m, place, p->across));
    sn_ix pixel = sn_ix_fma(m, p->b.groups, sn_ix_divc(m, line, p->down), sn_ix_divc(m, place, p->across));
    return sn_ix_fma(m, p->b.elements, sn_ix_fma(m, p->phases, chunk, phase), sn_ix_scale(m, pixel, SN_BAND));
}

/* Opens turns over n pixels of all images. What is none goes behind the images, or nowhere where they are phases. */
static sn_ix open_pixels(binding *b, sn_cursor *at, sn_ix *x, int64_t n) {
    sn_ix number = sn_bands_open_turns(x, &b->of, at, n);
    if (b->p.phases > 1 && sn_bands_in_turns(&b->of, n) != n)
        *at = sn_at_end(b->of.k, sn_put_if(b->of.m, *at, number, sn_ix_const(b->of.m, n)));
    return number;
}

/* Channels are loaded along the line, pixel by pixel: more neighbours at a time would store into the same banks. */
static void put_turned(binding *b, sn_cursor at) {
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    int64_t of_line = of->groups * b->p.across, of_part = of->elements * b->p.phases / SN_BAND;
    sn_ix x, number = open_pixels(b, &at, &x, of_part * sn_pixels_chunks(b)), rest = number, chunk = sn_ix_const(m, 0);
    if (sn_pixels_chunks(b) > 1) chunk = sn_ix_divc(m, number, of_part), rest = sn_ix_modc(m, number, of_part);
    if (b->p.phases > 1) chunk = sn_ix_modc(m, chunk, sn_pixels_chunks(b)), rest = sn_ix_modc(m, number, of_part);
    sn_ix line = sn_ix_divc(m, rest, of_line), place = sn_ix_modc(m, rest, of_line);
    b->of.inside =
        sn_pixels_chunks(b) > 1 ? sn_put_mask_in(m, at, (sn_val){0}, chunk, sn_pixels_chunks(b)) : (sn_val){0};
    sn_cursor in = at;
    sn_ix c = sn_open_loop(m, &in, "c", SN_BAND, SN_AXIS_UNROLL);
    sn_val value = sn_pixels_put_element(b, in, chunk, c, line, place, sn_ix_const(m, 0));
    sn_put_store(m, in, b->turn, sn_ix_fma(m, SN_BAND, x, c), value);
    c = sn_open_loop(m, &at, "c", SN_BAND, SN_AXIS_VECTOR);
    sn_ix to = sn_ix_fma(m, SN_BAND, number, c);
    if (b->p.phases > 1) to = sn_ix_add(m, image_at(b, chunk, line, place), c);
    put_factor(b, at, to, sn_put_load(m, at, b->turn, sn_ix_fma(m, SN_BAND, x, c)));
}

/* Channels that lie side by side are copied by eights; in a pipe one image ahead, while warps multiply. */
static void put_copied(binding *b, sn_cursor at) {
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    sn_cursor pipe = at;
    sn_ix x, number = open_pixels(b, &at, &x, b->p.filled / SN_BAND * images(b));
    sn_ix chunk = sn_ix_modc(m, number, sn_pixels_chunks(b)), pixel = sn_ix_divc(m, number, sn_pixels_chunks(b));
    if (b->p.phases > 1) pixel = sn_ix_modc(m, pixel, b->p.filled / SN_BAND * b->p.phases);
    int64_t of_line = of->groups * b->p.across;
    sn_ix line = sn_ix_divc(m, pixel, of_line), place = sn_ix_modc(m, pixel, of_line);
    sn_stmt threads = sn_stmt_get(m, pipe.parent)->last;
    b->of.inside = (sn_val){0};
    sn_ix c = sn_open_loop(m, &at, "c", SN_BAND, SN_AXIS_VECTOR), zero = sn_ix_const(m, 0);
    sn_val value = sn_pixels_put_element(b, at, chunk, c, line, place, zero);
    put_factor(b, at, sn_ix_add(m, image_at(b, chunk, line, place), c), value);
    if (of->stages == 1) return;
    sn_stmt_get(m, threads)->bulk = true;
    sn_stmt_get(m, pipe.parent)->pipe = (uint32_t)of->stages;
    sn_put_barrier(m, pipe);
}

static sn_val both(sn_module *m, sn_cursor at, sn_val x, sn_val y) {
    return !x.i ? y : !y.i ? x : sn_put_op2(m, at, SN_LOP_AND, x, y);
}

/* Its terms go behind each other's columns, for each term that they are multiplied by. */
static void put_taps(binding *b, sn_cursor at, sn_val x, sn_ix q, sn_ix column, sn_ix chunk, sn_val mask) {
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    sn_val rest = of->n_terms ? sn_terms_scale(m, at, x, of->n_terms) : x, term = rest;
    for (int64_t t = 0; t < b->p.terms; t++) {
        if (of->n_terms) term = sn_put_cast(m, at, SN_BF16, rest);
        for (int64_t left = 0; left + t < b->p.terms; left++) {
            sn_mma_nest n = nest_of(b, 0, left);
            sn_mma_operand o = b->p.pairs ? n.a : n.b;
            o.at = sn_ix_scale(m, chunk, of->weights * beside(b, left));
            sn_ix own = sn_ix_addc(m, column, t * of->side * SN_BAND);
            sn_ix to = sn_mma_offset(m, &o, n.depth, own, q);
            if (mask.i) sn_put_store_masked(m, at, b->taps[left], to, term, mask);
            else sn_put_store(m, at, b->taps[left], to, term);
        }
        if (t + 1 < b->p.terms) rest = sn_put_op2(m, at, SN_LOP_SUB, rest, sn_put_cast(m, at, SN_F32, term));
    }
}

static void put_weights(binding *b, sn_cursor at) {
    const sn_window_pixels *p = &b->p;
    const sn_window_bands *of = &p->b;
    sn_module *m = b->of.m;
    sn_contraction_copier c;
    int64_t depth = of->run * p->taps, columns = of->weights / depth, all = of->weights * images(b) / SN_BAND;
    sn_ix x, number = sn_bands_open_turns(&x, &b->of, &at, all), planes;
    sn_ix channel = sn_open_loop(m, &at, "c", SN_BAND, SN_AXIS_VECTOR);
    sn_ix eight = sn_ix_modc(m, number, depth / SN_BAND), column = sn_ix_divc(m, number, depth / SN_BAND);
    sn_ix image = sn_ix_modc(m, sn_ix_divc(m, column, columns), images(b));
    sn_ix chunk = sn_ix_divc(m, image, p->phases), phase = sn_ix_modc(m, image, p->phases);
    sn_ix step = step_of(b, &planes, chunk, channel);
    /* No branch, so that what turns load is on its way together. */
    sn_val inside = sn_put_mask_in(m, at, (sn_val){0}, number, all), mask = inside;
    column = sn_ix_modc(m, column, columns);
    sn_ix plane = p->pairs ? sn_pairs_plane(b, column) : column;
    if (p->joined > 1) {
        sn_ix between = sn_ix_sub(m, sn_ix_divc(m, channel, of->w.steps), sn_ix_divc(m, plane, p->own));
        mask = both(m, at, mask, sn_put_in(m, at, between, sn_ix_const(m, 1)));
        planes = sn_ix_scale(m, sn_ix_divc(m, chunk, p->parts), p->outs);
    }
    sn_bands_start_copier(&b->of, &c, at, sn_ix_add(m, b->of.plane, sn_ix_add(m, planes, plane)), step);
    int64_t of_row = of->run / SN_BAND;
    sn_ix row = sn_ix_divc(m, eight, of_row), place = sn_ix_modc(m, eight, of_row);
    int64_t along = p->pairs ? sn_window_pixels_by(p) : p->across;
    row = sn_ix_fma(m, p->down, row, sn_ix_divc(m, phase, along));
    if (p->pairs) place = sn_pairs_place(b, sn_ix_modc(m, phase, along), column, place);
    else if (p->across > 1) place = sn_ix_fma(m, p->across, place, sn_ix_modc(m, phase, p->across));
    mask = sn_put_mask_in(m, at, mask, row, of->w.row.taps);
    mask = both(m, at, mask, sn_bands_put_taps(&b->of, &c, row, place));
    c.mask = mask;
    sn_val value = sn_bands_put_half(&b->of, &c, of->weight);
    if (mask.i) value = sn_put_op3(m, at, SN_LOP_SELECT, mask, value, sn_put_const(m, at, of->half, 0));
    put_taps(b, at, value, sn_ix_fma(m, SN_BAND, eight, channel), column, image, inside);
}

/* ---- results ---- */

static void put_zeros(binding *b, sn_cursor at) {
    sn_module *m = b->of.m;
    sn_ix x = sn_open_loop(m, &at, "x", b->p.b.threads, SN_AXIS_BLOCK_X);
    for (int64_t t = 0; t < b->p.many * b->p.terms; t++) {
        sn_mma_nest n = nest_of(b, 0, t % b->p.terms);
        sn_cursor in = at;
        sn_ix e = sn_ix_fma(m, sn_mma_private(&n), x, sn_open_loop(m, &in, "i", sn_mma_private(&n), SN_AXIS_UNROLL));
        sn_put_store(m, in, b->accs[t / b->p.terms][t % b->p.terms], e, sn_put_const(m, in, SN_F32, 0));
    }
}

/* Of all products of terms, small ones first; without their scale. */
static sn_val put_sum(binding *b, sn_cursor at, sn_ix x, sn_ix h, sn_ix e, int64_t tile) {
    sn_module *m = b->of.m;
    int64_t side = b->p.b.side;
    sn_val sum = {0};
    for (uint32_t i = 0; i < sn_terms_products((uint32_t)b->p.terms); i++) {
        sn_terms_pair pair = sn_terms_pair_of((uint32_t)b->p.terms, i);
        sn_mma_nest n = nest_of(b, 0, pair.left);
        sn_ix own = sn_ix_const(m, pair.right * side + tile % side);
        sn_val part = sn_put_load(m, at, b->accs[tile / side][pair.left], sn_mma_element(m, &n, x, h, own, e));
        sum = sum.i ? sn_put_op2(m, at, SN_LOP_ADD, sum, part) : part;
    }
    if (b->p.terms == 1) return sum;
    return sn_put_op2(m, at, SN_LOP_MUL, sum, sn_put_const(m, at, SN_F32, ldexp(1, -2 * SN_TERMS_SCALE)));
}

/* The sum itself, of plane `plane` of the block, by one thread. */
static sn_val put_again(binding *b, sn_cursor at, sn_ix plane, sn_ix row, sn_ix column) {
    static const sn_comb SUM[] = {SN_COMB_SUM};
    static const sn_dtype f32 = SN_F32;
    const sn_window *w = &b->p.b.w;
    sn_module *m = b->of.m;
    sn_stmt sums[SN_MAX_CHAIN];
    sn_ix steps[SN_MAX_CHAIN];
    sn_contraction_copier c;
    for (uint32_t i = 0; i < w->nest->chain.n; i++) {
        sn_axis ax = sn_axis_new(m, "r", sn_stmt_extent(m, w->nest->chain.at[i]));
        sums[i] = sn_put_reduce(m, at, ax, SN_AXIS_SEQ, SUM, 1, &f32);
        steps[i] = sn_ix_axis(m, ax);
        at = sn_at_end(b->of.k, sums[i]);
    }
    sn_contraction_copier_start(&c, b->of.cx, at, b->of.n_vals);
    c.n += sn_window_planes(c.axes + c.n, c.with + c.n, w, plane);
    if (w->row.there) sn_window_set_axis(&c, sn_stmt_axis(m, w->sh->outer.at[w->row.outer]), row);
    sn_window_set_axis(&c, sn_stmt_axis(m, w->sh->outer.at[w->column.outer]), column);
    for (uint32_t i = 0; i < w->nest->chain.n; i++)
        sn_window_set_axis(&c, sn_stmt_axis(m, w->nest->chain.at[i]), steps[i]);
    sn_val x = sn_contraction_copy(&c, sn_stmt_get(m, sn_stmt_get(m, w->inner)->last)->in[0]);
    for (uint32_t i = w->nest->chain.n; i-- > 0; x = sn_stmt_get(m, sums[i])->result)
        sn_put_yield(m, sn_at_end(b->of.k, sums[i]), &x, 1);
    return x;
}

static sn_ix own_at(const binding *b, sn_ix x, sn_ix e) {
    return sn_ix_fma(b->of.m, b->p.b.blocks * sn_mma_elements(b->p.b.mma), x, e);
}

/* Between registers and an array whose elements can be numbered at run time. */
static void move_own(binding *b, sn_cursor at, sn_ix x, sn_buf to, sn_buf from) {
    sn_ix e = sn_open_loop(b->of.m, &at, "e", b->p.b.blocks * sn_mma_elements(b->p.b.mma), SN_AXIS_UNROLL);
    sn_put_store(b->of.m, at, to, own_at(b, x, e), sn_put_load(b->of.m, at, from, own_at(b, x, e)));
}

static spot spot_of(binding *b, sn_ix x, sn_ix h, sn_ix e) {
    sn_module *m = b->of.m;
    sn_mma_nest n = nest_of(b, 0, 0);
    sn_ix number = sn_mma_row(m, &n, x, h, e);
    return (spot){.plane = sn_mma_column(m, &n, x, sn_ix_const(m, 0), e),
                  .row = sn_ix_divc(m, number, b->p.b.groups),
                  .column = sn_ix_modc(m, number, b->p.b.groups)};
}

sn_val sn_pixels_put_inside(binding *b, sn_cursor at, sn_val mask, const spot *s) {
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    mask = sn_put_mask_in(m, at, mask, s->row, of->rows);
    mask = sn_put_mask_in(m, at, mask, s->column, of->columns);
    if (of->grid[2] > 1) mask = sn_put_mask_in(m, at, mask, sn_ix_add(m, b->of.row, s->row), of->w.row.windows);
    if (of->grid[3] > 1)
        mask = sn_put_mask_in(m, at, mask, sn_ix_add(m, b->of.column, s->column), of->w.column.windows);
    return mask;
}

/* Sums that are not below 2^80 may be none: the thread that has them adds up the products themselves. */
static void put_bad_again(binding *b, sn_cursor at, sn_ix x, int64_t tile) {
    sn_module *m = b->of.m;
    uint32_t each = sn_mma_elements(b->p.b.mma);
    move_own(b, at, x, b->spare, b->own);
    sn_cursor in = at;
    sn_ix h = sn_open_loop(m, &in, "h", b->p.b.blocks, SN_AXIS_SEQ), e = sn_open_loop(m, &in, "e", each, SN_AXIS_SEQ);
    sn_ix own = own_at(b, x, sn_ix_fma(m, each, h, e));
    spot s = spot_of(b, x, h, e);
    sn_val bad = sn_terms_bad(m, in, sn_put_load(m, in, b->spare, own), -2 * SN_TERMS_SCALE);
    bad = sn_pixels_put_inside(b, in, bad, &s);
    in = sn_at_end(b->of.k, sn_put_if(m, in, sn_terms_test(m, in, bad), sn_ix_const(m, 1)));
    sn_ix plane = sn_ix_add(m, b->of.plane, sn_ix_addc(m, s.plane, tile * SN_BAND));
    sn_ix row = sn_ix_add(m, b->of.row, s.row), column = sn_ix_add(m, b->of.column, s.column);
    sn_put_store(m, in, b->spare, own, put_again(b, in, plane, row, column));
    move_own(b, at, x, b->own, b->spare);
}

/* What terms have added up, of eight results. */
static void put_sums(binding *b, sn_cursor at, sn_ix x, int64_t tile) {
    static const sn_comb MOST[] = {SN_COMB_MAX}; /* one instruction for each; nan where one is */
    static const sn_dtype f32 = SN_F32;
    sn_module *m = b->of.m;
    uint32_t each = sn_mma_elements(b->p.b.mma);
    sn_cursor in = at;
    sn_ix h = sn_open_loop(m, &in, "h", b->p.b.blocks, SN_AXIS_UNROLL),
          e = sn_open_loop(m, &in, "e", each, SN_AXIS_UNROLL);
    sn_put_store(m, in, b->own, own_at(b, x, sn_ix_fma(m, each, h, e)), put_sum(b, in, x, h, e, tile));
    sn_axis ax = sn_axis_new(m, "e", sn_ix_const(m, b->p.b.blocks * each));
    sn_stmt most = sn_put_reduce(m, at, ax, SN_AXIS_UNROLL, MOST, 1, &f32);
    in = sn_at_end(b->of.k, most);
    sn_val size = sn_put_op1(m, in, SN_LOP_ABS, sn_put_load(m, in, b->own, own_at(b, x, sn_ix_axis(m, ax))));
    sn_put_yield(m, in, &size, 1);
    sn_val bad = sn_terms_bad(m, at, sn_stmt_get(m, most)->result, -2 * SN_TERMS_SCALE);
    put_bad_again(b, sn_at_end(b->of.k, sn_put_if(m, at, sn_terms_test(m, at, bad), sn_ix_const(m, 1))), x, tile);
}

static sn_val put_own(binding *b, sn_cursor at, sn_ix x, sn_ix h, sn_ix e, int64_t tile) {
    sn_ix own = own_at(b, x, sn_ix_fma(b->of.m, sn_mma_elements(b->p.b.mma), h, e));
    return b->p.terms > 1 ? sn_put_load(b->of.m, at, b->own, own) : put_sum(b, at, x, h, e, tile);
}

void sn_pixels_put_result(binding *b, sn_cursor at, const spot *s, sn_val sum, sn_val mask) {
    const sn_window *w = &b->p.b.w;
    sn_module *m = b->of.m;
    sn_contraction_copier c;
    sn_bands_start_copier(&b->of, &c, at, sn_ix_add(m, b->of.plane, s->plane), sn_ix_const(m, 0));
    if (w->row.there)
        sn_window_set_axis(&c, sn_stmt_axis(m, w->sh->outer.at[w->row.outer]), sn_ix_add(m, b->of.row, s->row));
    sn_window_set_axis(&c, sn_stmt_axis(m, w->sh->outer.at[w->column.outer]), sn_ix_add(m, b->of.column, s->column));
    c.mask = mask;
    sn_contraction_becomes(&c, sn_stmt_get(m, w->nest->top)->result, sum);
    for (uint32_t i = 0; i < b->n_held; i++) {
        sn_val held = sn_put_load(m, at, b->held[i], b->held_at);
        sn_contraction_becomes(&c, sn_stmt_get(m, b->of_plane[i])->result, held);
    }
    sn_window_put_stores(&c, w);
}

/* Eight neighbouring planes: threads store what they have of them, two together. */
static void put_neighbours(binding *b, sn_cursor at, sn_ix x, int64_t tile) {
    enum { PAIR = 2 };
    sn_module *m = b->of.m;
    if (b->p.terms > 1) put_sums(b, at, x, tile);
    sn_ix h = sn_open_loop(m, &at, "h", b->p.b.blocks, SN_AXIS_UNROLL);
    sn_ix e = sn_open_loop(m, &at, "e", sn_mma_elements(b->p.b.mma) / PAIR, SN_AXIS_UNROLL);
    e = sn_ix_scale(m, e, PAIR);
    spot s = spot_of(b, x, h, e);
    sn_val mask = sn_pixels_put_inside(b, at, (sn_val){0}, &s);
    sn_ix v = sn_open_loop(m, &at, "v", PAIR, SN_AXIS_VECTOR);
    s.plane = sn_ix_addc(m, sn_ix_add(m, s.plane, v), tile * SN_BAND);
    sn_pixels_put_result(b, at, &s, put_own(b, at, x, h, sn_ix_add(m, e, v), tile), mask);
}

/* Eight planes pass through shared memory, and leave as neighbours of a line: half sectors would keep the L2 busy for longer. */
static void put_lines(binding *b, sn_cursor at, int64_t tile) {
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    sn_cursor in = at;
    sn_ix x = sn_open_loop(m, &in, "x", of->threads, SN_AXIS_BLOCK_X);
    if (b->p.terms > 1) put_sums(b, in, x, tile);
    sn_ix h = sn_open_loop(m, &in, "h", of->blocks, SN_AXIS_UNROLL),
          e = sn_open_loop(m, &in, "e", sn_mma_elements(of->mma), SN_AXIS_UNROLL);
    sn_mma_nest n = nest_of(b, 0, 0);
    sn_ix row = sn_mma_row(m, &n, x, h, e), column = sn_mma_column(m, &n, x, sn_ix_const(m, 0), e);
    sn_put_store(m, in, b->sums, sn_ix_fma(m, b->p.sums, column, row), put_own(b, in, x, h, e, tile));
    int64_t of_row = of->columns / b->p.wide, of_plane = of->rows * of_row;
    sn_ix number = sn_bands_open_turns(&x, &b->of, &at, SN_BAND * of_plane), plane = sn_ix_divc(m, number, of_plane);
    sn_ix first = sn_ix_scale(m, sn_ix_modc(m, number, of_row), b->p.wide);
    spot s = {.plane = sn_ix_addc(m, plane, tile * SN_BAND), .column = first};
    s.row = sn_ix_divc(m, sn_ix_modc(m, number, of_plane), of_row);
    sn_val mask = sn_pixels_put_inside(b, at, sn_put_mask_in(m, at, (sn_val){0}, plane, SN_BAND), &s);
    sn_ix v = sn_open_loop(m, &at, "v", b->p.wide, SN_AXIS_VECTOR);
    s.column = sn_ix_add(m, first, v);
    sn_ix pixel = sn_ix_fma(m, of->groups, s.row, s.column);
    sn_ix from = sn_ix_fma(m, b->p.sums, sn_ix_modc(m, plane, SN_BAND), pixel);
    sn_pixels_put_result(b, at, &s, sn_put_load(m, at, b->sums, from), mask);
}

/* All products, then all results: no thread waits for others between stores of neighbours. */
static void put_tiles(binding *b, sn_cursor at) {
    int64_t tiles = b->p.many * b->p.b.side;
    put_zeros(b, at);
    for (int64_t image = 0; image < images(b); image++)
        for (int64_t term = b->p.terms; term-- > 0;) {
            sn_mma_nest n = nest_of(b, image, term);
            if (n.depth) sn_mma_put(b->of.m, at, &n);
        }
    if (b->p.pairs) sn_pairs_put_results(b, at);
    for (int64_t tile = 0; tile < tiles && !b->p.last && !b->p.pairs; tile++) put_lines(b, at, tile);
    if (!b->p.last) return;
    sn_ix x = sn_open_loop(b->of.m, &at, "x", b->p.b.threads, SN_AXIS_BLOCK_X);
    for (int64_t tile = 0; tile < tiles; tile++) put_neighbours(b, at, x, tile);
}

static void new_buffers(binding *b) {
    static const char *const IMAGES[] = {"image", "image_m", "image_l"}, *const TAPS[] = {"taps", "taps_m", "taps_l"},
                             *const ACCS[] = {"acc", "acc_m", "acc_l"};
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    int64_t pixels = of->elements / SN_BAND * images(b);
    int64_t own = of->blocks * sn_mma_elements(of->mma), width = sn_pixels_width(of->run * b->p.taps);
    if (b->p.pairs) pixels = of->elements / SN_BAND * b->p.phases;
    else if (!b->p.last) pixels = sn_bands_in_turns(&b->of, pixels);
    for (int64_t t = 0; t < b->p.terms; t++) {
        int64_t tiles = of->side * beside(b, t), taps = of->weights * images(b) * beside(b, t);
        for (int64_t i = 0; i < b->p.many; i++)
            b->accs[i][t] = sn_local_new(m, ACCS[t], SN_F32, SN_BUF_REG, own * tiles, of->threads);
        b->taps[t] = sn_local_new(m, TAPS[t], of->factor, SN_BUF_SHARED, taps, 1);
        sn_buf_get(m, b->taps[t])->swizzle = (uint32_t)(width * sn_dtype_bytes(of->factor));
        b->images[t] = sn_local_new(m, IMAGES[t], of->factor, SN_BUF_SHARED, pixels * SN_BAND, 1);
    }
    if (b->p.terms > 1) b->own = sn_local_new(m, "own", SN_F32, SN_BUF_REG, own, of->threads);
    if (b->p.terms > 1) b->spare = sn_local_new(m, "spare", SN_F32, SN_BUF_REG, own, of->threads);
    if (!b->p.last && !b->p.pairs) b->sums = sn_local_new(m, "sums", SN_F32, SN_BUF_SHARED, SN_BAND * b->p.sums, 1);
    int64_t turn = SN_BAND;
    if (b->p.pairs) turn = b->p.turns * sn_window_pixels_by(&b->p) * SN_BAND;
    if (!b->p.last) b->turn = sn_local_new(m, "turn", of->half, SN_BUF_REG, turn, of->threads);
}

void sn_schedule_window_pixels_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    binding b = {.of = {.cx = cx, .m = m, .k = k}};
    const char *why_not;
    sn_ix block[4];
    bool fits = sn_window_pixels_find(&b.p, &why_not, cx, k, sh) && sn_window_pixels_measure(&b.p, sc);
    SN_ASSERT(fits);
    (void)fits;
    const sn_window_bands *of = &b.p.b;
    b.of.b = *of;
    b.of.n_vals = m->vals.count;
    sn_cursor at = sn_window_open_grid(block, m, k, of->grid, SN_COUNT(block), false);
    sn_ix side = sn_ix_scale(m, block[1], b.p.many * of->side * SN_BAND);
    b.of.turn = sn_ix_const(m, 0);
    b.of.row = sn_ix_scale(m, block[2], of->rows), b.of.column = sn_ix_scale(m, block[3], of->columns);
    new_buffers(&b);
    int64_t of_image = of->grid[1] * b.p.many * of->side * SN_BAND;
    sn_ix first = sn_ix_fma(m, of_image * of->planes, block[0], side);
    b.of.plane = first;
    if (b.p.pairs) sn_pairs_put_first(&b, at);
    if (b.p.pairs) sn_pairs_hold(&b, at, of_image);
    b.of.plane = side; /* weights are those of any image */
    put_weights(&b, at);
    sn_ix image = sn_open_loop(m, &at, "i", of->planes, SN_AXIS_SEQ);
    b.of.plane = sn_ix_fma(m, of_image, image, first);
    if (b.p.pairs) sn_pairs_put_image(&b, at, image, of_image);
    else if (b.p.last) put_copied(&b, at);
    else put_turned(&b, at);
    put_tiles(&b, at);
    sn_stmt_unlink(m, sh->outer.at[0]);
}
