/* window_pixels_bind.c: binding of class window with `pixels` (window_pixels.h): a block has the pixels of a group, channels innermost, and
 * the taps of its results in shared memory, and its warps multiply.
 *
 *     loop g : grid {
 *       loop x : block.x { loop u { taps[..] = w[..], 0 behind the last tap of a row } }
 *       loop i in planes {
 *         loop x : block.x { loop u { turn[c, v] = load x[..]   s[v, c] = turn[c, v] } }      c in 8 channels, v a piece of a line
 *         loop x : block.x { acc = 0 }
 *         loop x : block.x mma(mma.bf16) { acc[..] += s[..] * taps[..] }                     for each eight of channels
 *         for each eight of results:
 *           loop x : block.x { sums[..] = acc[..] }
 *           loop x : block.x { loop u { the rest of the body, of sums, by vectors of neighbours } }
 *       }
 *     }
 *
 * Row number `groups * row + pixel` of the product is a pixel, so that all lines of a plane are one product.
 */
#include "passes/schedule/schedules.h"
#include "passes/schedule/window_pixels.h"

#include <stdlib.h>

typedef struct binding {
    sn_bands_binding of;
    sn_window_pixels p;
    sn_buf turn, sums;
} binding;

/* ---- operands ---- */

static sn_mma_nest nest_of(const binding *b, int64_t part) {
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    int64_t taps = of->w.row.taps;
    sn_mma_nest n = {.mma = of->mma,
                     .threads = (uint32_t)of->threads,
                     .columns = 1,
                     .tiles_m = (uint32_t)of->blocks,
                     .tiles_n = (uint32_t)of->side,
                     .depth = of->run * taps,
                     .state = b->of.acc};
    n.rank = sn_ix_const(m, 0);
    n.a = (sn_mma_operand){.buf = b->of.image, .width = SN_BAND, .run = of->run};
    n.a.jump = taps > 1 ? llabs(of->w.row.dilation) * SN_BAND * of->groups : 0;
    n.b = (sn_mma_operand){.buf = b->of.weights, .rows = SN_BAND * of->side, .width = n.depth};
    n.a.at = sn_ix_const(m, part * of->elements);
    n.b.at = sn_ix_const(m, part * of->weights);
    return n;
}

/* Channels of a piece are loaded along the line, and stored pixel by pixel. */
static void put_image(binding *b, sn_cursor at) {
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    int64_t piece = of->piece, of_line = of->groups / piece, of_part = of->elements / SN_BAND / piece;
    int64_t own = SN_BAND * piece;
    sn_ix x, number = sn_bands_open_turns(&x, &b->of, &at, of_part * b->p.parts);
    sn_ix part = sn_ix_divc(m, number, of_part), line = sn_ix_divc(m, sn_ix_modc(m, number, of_part), of_line);
    sn_ix place = sn_ix_addc(m, sn_ix_scale(m, sn_ix_modc(m, number, of_line), piece), -of->lead);
    if (b->p.parts == 1) line = sn_ix_divc(m, number, of_line);
    b->of.inside = b->p.parts == 1 ? (sn_val){0} : sn_window_put_test(m, at, (sn_val){0}, part, b->p.parts);
    sn_cursor in = at;
    sn_ix c = sn_open_loop(m, &in, "c", SN_BAND, SN_AXIS_UNROLL), v = sn_open_loop(m, &in, "v", piece, SN_AXIS_VECTOR);
    sn_ix step = b->p.parts == 1 ? c : sn_ix_fma(m, SN_BAND, part, c);
    sn_val value = sn_bands_put_element(&b->of, in, step, line, place, v);
    sn_put_store(m, in, b->turn, sn_ix_fma(m, own, x, sn_ix_fma(m, piece, c, v)), value);
    sn_ix pixel = sn_open_loop(m, &at, "p", piece, SN_AXIS_UNROLL);
    c = sn_open_loop(m, &at, "c", SN_BAND, SN_AXIS_VECTOR);
    value = sn_put_load(m, at, b->turn, sn_ix_fma(m, own, x, sn_ix_fma(m, piece, c, pixel)));
    sn_put_store(m, at, b->of.image, sn_ix_fma(m, own, number, sn_ix_fma(m, SN_BAND, pixel, c)), value);
}

static void put_weights(binding *b, sn_cursor at) {
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    sn_contraction_copier c;
    int64_t depth = of->run * of->w.row.taps, columns = of->side * SN_BAND;
    sn_ix x, number = sn_bands_open_turns(&x, &b->of, &at, of->weights * b->p.parts);
    sn_ix q = sn_ix_modc(m, number, depth), column = sn_ix_divc(m, number, depth), part = sn_ix_const(m, 0);
    sn_val inside = sn_window_put_test(m, at, (sn_val){0}, column, columns * b->p.parts);
    if (b->p.parts > 1) part = sn_ix_divc(m, column, columns), column = sn_ix_modc(m, column, columns);
    sn_ix step = sn_ix_fma(m, SN_BAND, part, sn_ix_modc(m, q, SN_BAND));
    sn_bands_start_copier(&b->of, &c, at, sn_ix_add(m, b->of.plane, column), step);
    sn_ix place = sn_ix_divc(m, sn_ix_modc(m, q, of->run), SN_BAND);
    sn_val mask = sn_bands_put_taps(&b->of, &c, sn_ix_divc(m, q, of->run), place);
    if (mask.i && inside.i) mask = sn_put_op2(m, at, SN_LOP_AND, mask, inside);
    else if (inside.i) mask = inside;
    c.mask = mask;
    sn_val value = sn_bands_put_half(&b->of, &c, of->weight);
    if (mask.i) value = sn_put_op3(m, at, SN_LOP_SELECT, mask, value, sn_put_const(m, at, of->half, 0));
    sn_put_store(m, at, b->of.weights, number, value);
}

/* ---- results ---- */

/* Eight planes of results, number j of the block's. */
static void put_sums(binding *b, sn_cursor at, int64_t j) {
    sn_module *m = b->of.m;
    sn_mma_nest n = nest_of(b, 0);
    sn_ix x = sn_open_loop(m, &at, "x", b->p.b.threads, SN_AXIS_BLOCK_X);
    sn_ix h = sn_open_loop(m, &at, "h", b->p.b.blocks, SN_AXIS_UNROLL),
          e = sn_open_loop(m, &at, "e", sn_mma_elements(n.mma), SN_AXIS_UNROLL), zero = sn_ix_const(m, 0);
    sn_ix row = sn_mma_row(m, &n, x, h, e), column = sn_mma_column(m, &n, x, zero, e);
    sn_val sum = sn_put_load(m, at, b->of.acc, sn_mma_element(m, &n, x, h, sn_ix_const(m, j), e));
    sn_put_store(m, at, b->sums, sn_ix_fma(m, b->p.sums, column, row), sum);
}

static void put_results(binding *b, sn_cursor at, int64_t j) {
    const sn_window_bands *of = &b->p.b;
    const sn_window *w = &of->w;
    sn_module *m = b->of.m;
    sn_contraction_copier c;
    int64_t of_row = of->columns / b->p.wide, of_plane = of->rows * of_row;
    sn_ix x, number = sn_bands_open_turns(&x, &b->of, &at, SN_BAND * of_plane);
    sn_ix plane = sn_ix_divc(m, number, of_plane), row = sn_ix_divc(m, sn_ix_modc(m, number, of_plane), of_row);
    sn_ix first = sn_ix_scale(m, sn_ix_modc(m, number, of_row), b->p.wide);
    sn_val mask = sn_window_put_test(m, at, (sn_val){0}, plane, SN_BAND);
    if (of->grid[2] > 1) mask = sn_window_put_test(m, at, mask, sn_ix_add(m, b->of.row, row), w->row.windows);
    if (of->grid[3] > 1) mask = sn_window_put_test(m, at, mask, sn_ix_add(m, b->of.column, first), w->column.windows);
    sn_ix v = sn_open_loop(m, &at, "v", b->p.wide, SN_AXIS_VECTOR), column = sn_ix_add(m, first, v);
    sn_bands_start_copier(&b->of, &c, at, sn_ix_add(m, b->of.plane, sn_ix_addc(m, plane, j * SN_BAND)),
                          sn_ix_const(m, 0));
    if (w->row.there)
        sn_window_set_axis(&c, sn_stmt_axis(m, w->sh->outer.at[w->row.outer]), sn_ix_add(m, b->of.row, row));
    sn_window_set_axis(&c, sn_stmt_axis(m, w->sh->outer.at[w->column.outer]), sn_ix_add(m, b->of.column, column));
    c.mask = mask;
    sn_ix pixel = sn_ix_fma(m, of->groups, row, sn_ix_addc(m, column, of->lead));
    sn_ix from = sn_ix_fma(m, b->p.sums, sn_ix_modc(m, plane, SN_BAND), pixel);
    sn_val sum = sn_put_load(m, at, b->sums, from);
    sn_contraction_becomes(&c, sn_stmt_get(m, w->nest->top)->result, sum);
    sn_window_put_stores(&c, w);
}

static void new_buffers(binding *b) {
    const sn_window_bands *of = &b->p.b;
    sn_module *m = b->of.m;
    int64_t own = of->blocks * of->side * sn_mma_elements(of->mma), turned = SN_BAND * of->piece;
    int64_t pieces = of->elements / turned * b->p.parts;
    b->of.acc = sn_local_new(m, "acc", SN_F32, SN_BUF_REG, own, of->threads);
    b->turn = sn_local_new(m, "turn", of->half, SN_BUF_REG, turned, of->threads);
    b->of.weights =
        sn_local_new(m, "taps", of->half, SN_BUF_SHARED, sn_bands_in_turns(&b->of, of->weights * b->p.parts), 1);
    b->of.image = sn_local_new(m, "image", of->half, SN_BUF_SHARED, sn_bands_in_turns(&b->of, pieces) * turned, 1);
    b->sums = sn_local_new(m, "sums", SN_F32, SN_BUF_SHARED, SN_BAND * b->p.sums, 1);
}

void sn_schedule_window_pixels_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    binding b = {.of = {.cx = cx, .m = m, .k = k}};
    const char *why_not;
    sn_ix shape[4], block[4];
    int64_t blocks = 1;
    bool fits = sn_window_pixels_find(&b.p, &why_not, cx, k, sh) && sn_window_pixels_measure(&b.p, sc);
    SN_ASSERT(fits);
    (void)fits;
    const sn_window_bands *of = &b.p.b;
    b.of.b = *of;
    b.of.n_vals = m->vals.count;
    for (uint32_t i = 0; i < SN_COUNT(shape); i++) {
        shape[i] = sn_ix_const(m, of->grid[i]);
        blocks *= of->grid[i];
    }
    sn_cursor at = sn_at_end(k, (sn_stmt){0});
    sn_ix g = sn_open_loop(m, &at, "g", blocks, SN_AXIS_GRID);
    sn_ix_unflatten(m, g, shape, SN_COUNT(shape), block);
    sn_ix side = sn_ix_scale(m, block[1], of->side * SN_BAND);
    b.of.turn = sn_ix_const(m, 0);
    b.of.plane = side; /* weights are those of any image */
    b.of.row = sn_ix_scale(m, block[2], of->rows), b.of.column = sn_ix_scale(m, block[3], of->columns);
    new_buffers(&b);
    put_weights(&b, at);
    sn_ix image = sn_ix_fma(m, of->planes, block[0], sn_open_loop(m, &at, "i", of->planes, SN_AXIS_SEQ));
    b.of.plane = sn_ix_fma(m, of->grid[1] * of->side * SN_BAND, image, side);
    put_image(&b, at);
    sn_bands_put_zeros(&b.of, at);
    for (int64_t part = 0; part < b.p.parts; part++) {
        sn_mma_nest n = nest_of(&b, part);
        sn_mma_put(m, at, &n);
    }
    for (int64_t j = 0; j < of->side; j++) {
        put_sums(&b, at, j);
        put_results(&b, at, j);
    }
    sn_stmt_unlink(m, sh->outer.at[0]);
}
