/* window_pairs_bind.c: binding of class window with `pixels` whose product has pairs of pixels as columns (window_pixels.h).
 *
 *     loop x : block.x { loop u { turn[u, c, v] = load x[..] } }                            of the first image
 *     loop x : block.x { held[..] = load bias[..] }                                         what planes have one of
 *     loop i in planes {
 *       loop x : block.x { loop u { image[even][..] = turn[.., 0]   image[odd][..] = turn[.., 1] } }
 *       loop x : block.x { loop u { if i + 1 in planes { turn[u, c, v] = load x[..] } } }
 *       loop x : block.x mma(mma.bf16) { acc[..] += taps[..] * image[phase][..] }           for each phase of each eight of channels
 *       loop x : block.x { the rest of the body, of acc, by four neighbours of a line, or two }
 *     }
 *
 * No result passes through shared memory: of a tile of 8 pairs a thread has two pairs side by side, of one plane.
 */
#include "passes/schedule/windows/window_pixels_bind.h"

enum { PAIR = SN_PIXELS_PAIR };

typedef sn_pixels_binding binding;

/* ---- operands ---- */

sn_mma_nest sn_pairs_nest(const binding *b, int64_t image) {
    const sn_window_pixels *p = &b->p;
    const sn_window_bands *of = &p->b;
    sn_module *m = b->of.m;
    int64_t by = sn_window_pixels_by(p), phase = image % p->phases;
    int64_t rows = p->down > 1 ? (of->w.row.taps - phase / by + p->down - 1) / p->down : p->taps;
    sn_mma_nest n = {.mma = of->mma,
                     .threads = (uint32_t)of->threads,
                     .columns = (uint32_t)(of->threads / SN_WARP),
                     .tiles_m = (uint32_t)of->side,
                     .tiles_n = (uint32_t)of->blocks,
                     .depth = of->run * rows,
                     .state = b->accs[0][0]};
    n.rank = sn_ix_const(m, 0);
    n.a = (sn_mma_operand){
        .buf = b->taps[0], .rows = PAIR * SN_BAND * of->side, .width = sn_pixels_width(of->run * p->taps)};
    n.b = (sn_mma_operand){.buf = b->images[0], .width = SN_BAND, .run = of->run};
    n.b.jump = rows > 1 ? p->apart * SN_BAND * of->groups / PAIR : 0;
    n.a.at = sn_ix_const(m, image * of->weights);
    int64_t first = image / p->phases * p->filled + SN_BAND * sn_window_pixels_start(p, phase % by);
    n.b.at = sn_ix_const(m, phase * of->elements + first);
    return n;
}

/* Rows of a block of 16 are eight results of the first pixel of pairs, and those of the other. */
sn_ix sn_pairs_plane(binding *b, sn_ix column) {
    sn_module *m = b->of.m;
    return sn_ix_fma(m, SN_BAND, sn_ix_divc(m, column, PAIR * SN_BAND), sn_ix_modc(m, column, SN_BAND));
}

sn_ix sn_pairs_place(binding *b, sn_ix phase, sn_ix column, sn_ix place) {
    const sn_window_pixels *p = &b->p;
    sn_module *m = b->of.m;
    int64_t by = sn_window_pixels_by(p);
    sn_ix start = sn_ix_divc(m, sn_ix_addc(m, sn_ix_scale(m, phase, -1), p->b.lead - 1 + by), by);
    sn_ix second = sn_ix_modc(m, sn_ix_divc(m, column, SN_BAND), PAIR);
    sn_ix at = sn_ix_addc(m, sn_ix_fma(m, by, sn_ix_add(m, place, start), phase), -p->b.lead);
    return sn_ix_sub(m, at, sn_ix_scale(m, second, p->across));
}

/* What a thread does in a turn: the places of a pair in a line of an eight of channels, which it has in registers at `own`, and whose images
 * have them at `to`. */
typedef struct turn {
    sn_ix chunk, line, place, own, to;
} turn;

static turn open_turn(binding *b, sn_cursor *at) {
    const sn_window_pixels *p = &b->p;
    const sn_window_bands *of = &p->b;
    sn_module *m = b->of.m;
    int64_t by = sn_window_pixels_by(p), of_line = of->groups / PAIR, of_part = p->filled / SN_BAND * p->down;
    int64_t own = sn_buf_get(m, b->turn)->private_size, chunks = sn_pixels_chunks(b);
    sn_ix x, number = sn_bands_open_turns(&x, &b->of, at, of_part * chunks), rest = number;
    turn t = {.chunk = sn_ix_const(m, 0)};
    if (chunks > 1) t.chunk = sn_ix_divc(m, number, of_part), rest = sn_ix_modc(m, number, of_part);
    b->of.inside = chunks > 1 ? sn_put_mask_in(m, *at, (sn_val){0}, t.chunk, chunks) : (sn_val){0};
    t.line = sn_ix_divc(m, rest, of_line);
    sn_ix pair = sn_ix_modc(m, rest, of_line);
    t.place = sn_ix_addc(m, sn_ix_scale(m, pair, by), -of->lead);
    t.own = sn_ix_fma(m, own, x, sn_ix_scale(m, sn_ix_divc(m, number, of->threads), by * SN_BAND));
    if (p->down > 1) number = sn_ix_fma(m, of_line, sn_ix_divc(m, t.line, p->down), pair);
    if (p->down > 1) number = sn_ix_fma(m, p->filled / SN_BAND, t.chunk, number);
    t.to = sn_ix_fma(m, SN_BAND, number, sn_ix_scale(m, sn_ix_modc(m, t.line, p->down), by * of->elements));
    return t;
}

/* All of them, channel by channel: from anywhere, where a mask is to be asked later. Where x in extent. */
static void put_loads(binding *b, sn_cursor at, sn_ix x, int64_t extent) {
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    int64_t by = sn_window_pixels_by(&b->p);
    bool whole = of->piece == by;
    turn t = open_turn(b, &at);
    if (!sn_ix_in(m, x, sn_ix_const(m, extent))) at = sn_at_end(at.kern, sn_put_if(m, at, x, sn_ix_const(m, extent)));
    sn_axis c = sn_axis_new(m, "c", sn_ix_const(m, SN_BAND)), v = sn_axis_new(m, "v", sn_ix_const(m, by));
    at = sn_at_end(at.kern, sn_put_loop(m, at, c, SN_AXIS_UNROLL));
    at = sn_at_end(at.kern, sn_put_loop(m, at, v, whole ? SN_AXIS_VECTOR : SN_AXIS_UNROLL));
    sn_ix channel = sn_ix_axis(m, c), lane = sn_ix_axis(m, v), zero = sn_ix_const(m, 0);
    const sn_axis over[] = {c, v};
    sn_ix place = whole ? t.place : sn_ix_add(m, t.place, lane);
    if (!whole) lane = zero;
    sn_val y;
    if (of->by_places) y = sn_pixels_put_any(b, at, t.chunk, channel, t.line, place, lane, over, whole ? 2 : 1);
    else y = sn_pixels_put_element(b, at, t.chunk, channel, t.line, place, lane);
    sn_put_store(m, at, b->turn, sn_ix_add(m, t.own, sn_ix_fma(m, by, channel, sn_ix_axis(m, v))), y);
}

/* Each goes where its phase is. */
static void put_stores(binding *b, sn_cursor at) {
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    int64_t by = sn_window_pixels_by(&b->p);
    turn t = open_turn(b, &at);
    for (int64_t phase = 0; phase < by; phase++) {
        sn_ix place = of->piece == by ? t.place : sn_ix_addc(m, t.place, phase);
        sn_val mask = of->by_places ? sn_bands_put_mask(&b->of, at, t.line, place) : (sn_val){0};
        sn_cursor in = at;
        sn_ix c = sn_open_loop(m, &in, "c", SN_BAND, SN_AXIS_VECTOR);
        sn_ix from = sn_ix_addc(m, sn_ix_add(m, t.own, sn_ix_scale(m, c, by)), phase);
        sn_val pixel = sn_put_load(m, in, b->turn, from);
        if (mask.i) pixel = sn_put_op3(m, in, SN_LOP_SELECT, mask, pixel, sn_put_const(m, in, of->half, 0));
        sn_put_store(m, in, b->images[0], sn_ix_addc(m, sn_ix_add(m, t.to, c), phase * of->elements), pixel);
    }
}

void sn_pairs_put_first(binding *b, sn_cursor at) { put_loads(b, at, sn_ix_const(b->of.m, 0), 1); }

void sn_pairs_put_image(binding *b, sn_cursor at, sn_ix image, int64_t apart) {
    sn_ix here = b->of.plane;
    put_stores(b, at);
    if (b->p.b.planes == 1) return;
    b->of.plane = sn_ix_addc(b->of.m, here, apart);
    put_loads(b, at, sn_ix_addc(b->of.m, image, 1), b->p.b.planes);
    b->of.plane = here;
}

/* ---- what planes have one of ---- */

static void hold(binding *b, sn_cursor at, sn_stmt load, int64_t apart) {
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    const sn_stmt_rec *r = sn_stmt_get(m, load);
    sn_dtype dtype = r->dtype;
    sn_axis image = sn_axis_new(m, "i", sn_ix_const(m, of->planes));
    sn_mma_nest n = sn_pairs_nest(b, 0);
    sn_contraction_copier c;
    sn_cursor in = at;
    int64_t size;
    sn_ix x = sn_open_loop(m, &in, "x", of->threads, SN_AXIS_BLOCK_X);
    sn_stmt nest = in.parent;
    sn_ix h = sn_open_loop(m, &in, "h", of->side, SN_AXIS_UNROLL);
    sn_ix plane = sn_ix_add(m, b->of.plane, sn_pairs_plane(b, sn_mma_row(m, &n, x, h, sn_ix_const(m, 0))));
    sn_bands_start_copier(&b->of, &c, in, sn_ix_fma(m, apart, sn_ix_axis(m, image), plane), sn_ix_const(m, 0));
    sn_ix from = sn_contraction_copy_ix(&c, r->ix);
    sn_range range = sn_ix_range(m, from);
    bool there = sn_ix_is_const(m, sn_buf_get(m, r->buf)->size, &size) && range.lo >= 0 && range.hi < size;
    if (!there || sn_ix_uses_axis(m, from, image)) {
        sn_stmt_unlink(m, nest);
        return;
    }
    sn_buf buf = sn_local_new(m, "held", dtype, SN_BUF_REG, of->side, of->threads);
    sn_put_store(m, in, buf, sn_ix_fma(m, of->side, x, h), sn_put_load(m, in, r->buf, from));
    b->of_plane[b->n_held] = load;
    b->held[b->n_held++] = buf;
}

void sn_pairs_hold(binding *b, sn_cursor at, int64_t apart) {
    const sn_window *w = &b->p.b.w;
    sn_stmt s = sn_region_first(w->m, w->k, w->sh->body);
    for (; s.i && b->n_held < SN_MOST_AHEAD && b->p.b.planes > 1; s = sn_next(w->m, s))
        if (sn_window_is_of_plane(w, s)) hold(b, at, s, apart);
}

/* ---- results ---- */

/* Of the four sums of a tile, which neighbour has which: columns are pairs, rows 8 and above their second pixels. */
static sn_ix sum_of(binding *b, sn_ix number) {
    sn_module *m = b->of.m;
    return sn_ix_fma(m, PAIR, sn_ix_modc(m, number, PAIR), sn_ix_divc(m, number, PAIR));
}

void sn_pairs_put_results(binding *b, sn_cursor at) {
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    sn_mma_nest n = sn_pairs_nest(b, 0);
    sn_ix x = sn_open_loop(m, &at, "x", of->threads, SN_AXIS_BLOCK_X), zero = sn_ix_const(m, 0);
    sn_ix h = sn_open_loop(m, &at, "h", of->side, SN_AXIS_UNROLL),
          j = sn_open_loop(m, &at, "j", of->blocks, SN_AXIS_UNROLL);
    sn_ix some = sn_open_loop(m, &at, "e", sn_mma_elements(of->mma) / b->p.wide, SN_AXIS_UNROLL);
    sn_ix first = sn_ix_fma(m, PAIR, sn_mma_column(m, &n, x, j, zero), sn_ix_scale(m, some, b->p.wide));
    sn_pixels_spot s = {.row = sn_ix_divc(m, first, of->groups), .column = sn_ix_modc(m, first, of->groups)};
    s.plane = sn_pairs_plane(b, sn_mma_row(m, &n, x, h, zero));
    b->held_at = sn_ix_fma(m, of->side, x, h);
    sn_val mask = sn_pixels_put_inside(b, at, (sn_val){0}, &s);
    sn_ix v = sn_open_loop(m, &at, "v", b->p.wide, SN_AXIS_VECTOR);
    sn_ix e = sum_of(b, sn_ix_fma(m, b->p.wide, some, v));
    s.column = sn_ix_add(m, s.column, v);
    sn_val sum = sn_put_load(m, at, b->accs[0][0], sn_mma_element(m, &n, x, h, j, e));
    sn_pixels_put_result(b, at, &s, sum, mask);
}
