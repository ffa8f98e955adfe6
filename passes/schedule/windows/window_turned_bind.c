/* window_turned_bind.c: binding of class window with `bands` where channels lie innermost (window_turned.c).
 *
 *     loop x : block.x { loop u { turn[u, v, c] = load x[..] } }                            of the first image
 *     loop x : block.x { loop u { bands[c, n, s, e] = w[c, s, e - n] if e - n in taps } }
 *     loop i in planes {
 *       loop x : block.x { loop u { image[c][.. v] = turn[u, v, c] } }                      c in 8 channels, v in 2 pixels
 *       loop x : block.x { loop u { if i + 1 in planes { turn[u, v, c] = load x[..] } } }
 *       loop x : block.x mma(mma.bf16) { acc[..] += image[c][..] * bands[c, ..] }           for each channel
 *       loop x : block.x { own[.., c] = acc[..]    the rest of the body, of own, by neighbouring channels }
 *     }
 */
#include "passes/schedule/windows/window_bands.h"

#include <stdlib.h>

enum { PAIR = 2 };

typedef struct binding {
    sn_bands_binding *of;
    const sn_window_bands *b;
    sn_buf accs[SN_BANDS_SIDE], own, turn;
} binding;

/* ---- the image ---- */

/* What a thread does in a turn: a pair of places of a line, of an eight of channels, which it has in registers at `own`; those of the first
 * channel go `to`. */
typedef struct turn {
    sn_ix eight, line, place, own, to;
} turn;

static turn open_turn(binding *b, sn_cursor *at) {
    const sn_window_bands *of = b->b;
    sn_module *m = b->of->m;
    int64_t eights = of->side / SN_BAND, of_line = SN_BAND * of->groups / PAIR;
    sn_ix x, number = sn_bands_open_turns(&x, b->of, at, of->filled / PAIR * eights);
    sn_ix pair = sn_ix_divc(m, number, eights);
    turn t = {.eight = sn_ix_modc(m, number, eights)};
    t.line = sn_ix_divc(m, pair, of_line);
    t.place = sn_ix_scale(m, sn_ix_modc(m, pair, of_line), PAIR);
    t.own =
        sn_ix_fma(m, of->turns * PAIR * SN_BAND, x, sn_ix_scale(m, sn_ix_divc(m, number, of->threads), PAIR * SN_BAND));
    t.to = sn_ix_fma(m, sn_window_turned_at(of, SN_BAND), t.eight, sn_ix_scale(m, pair, PAIR));
    return t;
}

/* Of image number `image` of the block, if it is one: neighbouring channels, from anywhere where a mask is to be asked later: who asked at
 * once would wait for them. */
static void put_loads(binding *b, sn_cursor at, sn_ix plane, sn_ix image) {
    sn_module *m = b->of->m;
    sn_ix images = sn_ix_const(m, b->b->planes), here = b->of->plane;
    turn t = open_turn(b, &at);
    if (!sn_ix_in(m, image, images)) at = sn_at_end(at.kern, sn_put_if(m, at, image, images));
    sn_ix v = sn_open_loop(m, &at, "v", PAIR, SN_AXIS_UNROLL), c = sn_open_loop(m, &at, "c", SN_BAND, SN_AXIS_VECTOR);
    b->of->inside = (sn_val){0};
    b->of->plane = sn_ix_add(m, plane, sn_ix_fma(m, SN_BAND, t.eight, c));
    sn_ix zero = sn_ix_const(m, 0);
    sn_ix place = sn_ix_add(m, t.place, v);
    sn_axis channels = sn_stmt_axis(m, at.parent);
    sn_val y = b->b->by_places ? sn_bands_put_any(b->of, at, zero, t.line, place, zero, &channels, 1)
                               : sn_bands_put_element(b->of, at, zero, t.line, place, zero);
    sn_put_store(m, at, b->turn, sn_ix_add(m, t.own, sn_ix_fma(m, SN_BAND, v, c)), y);
    b->of->plane = here;
}

/* 0 where nothing is, pixel by pixel. */
static void put_masks(binding *b, sn_cursor at, const turn *t) {
    sn_module *m = b->of->m;
    sn_ix v = sn_open_loop(m, &at, "v", PAIR, SN_AXIS_UNROLL);
    sn_val mask = sn_bands_put_mask(b->of, at, t->line, sn_ix_add(m, t->place, v));
    if (!mask.i) return;
    sn_ix c = sn_open_loop(m, &at, "c", SN_BAND, SN_AXIS_VECTOR);
    sn_ix own = sn_ix_add(m, t->own, sn_ix_fma(m, SN_BAND, v, c));
    sn_val zero = sn_put_const(m, at, b->b->half, 0), y = sn_put_load(m, at, b->turn, own);
    sn_put_store(m, at, b->turn, own, sn_put_op3(m, at, SN_LOP_SELECT, mask, y, zero));
}

static void put_stores(binding *b, sn_cursor at) {
    sn_module *m = b->of->m;
    turn t = open_turn(b, &at);
    b->of->inside = (sn_val){0};
    if (b->b->by_places) put_masks(b, at, &t);
    sn_ix c = sn_open_loop(m, &at, "c", SN_BAND, SN_AXIS_UNROLL), v = sn_open_loop(m, &at, "v", PAIR, SN_AXIS_VECTOR);
    sn_val y = sn_put_load(m, at, b->turn, sn_ix_add(m, t.own, sn_ix_fma(m, SN_BAND, v, c)));
    sn_put_store(m, at, b->of->image, sn_ix_add(m, t.to, sn_ix_fma(m, b->b->elements, c, v)), y);
}

/* ---- products ---- */

static sn_mma_nest nest_of(const binding *b, int64_t channel) {
    const sn_window_bands *of = b->b;
    sn_module *m = b->of->m;
    sn_mma_nest n = {.mma = of->mma,
                     .threads = (uint32_t)of->threads,
                     .columns = 1,
                     .tiles_m = (uint32_t)of->blocks,
                     .tiles_n = 1,
                     .depth = of->run * of->w.row.taps,
                     .state = b->accs[channel]};
    n.rank = sn_ix_const(m, 0);
    n.a = (sn_mma_operand){.buf = b->of->image, .width = SN_BAND, .run = of->run};
    if (of->w.row.taps > 1) n.a.jump = llabs(of->w.row.dilation) * SN_BAND * of->groups;
    n.b = (sn_mma_operand){.buf = b->of->weights, .rows = SN_BAND, .width = n.depth};
    n.a.at = sn_ix_const(m, sn_window_turned_at(of, channel));
    n.b.at = sn_ix_const(m, channel * SN_BAND * n.depth);
    return n;
}

static int64_t sums_of(const binding *b) { return b->b->blocks * sn_mma_elements(b->b->mma); }

static void put_products(binding *b, sn_cursor at) {
    sn_module *m = b->of->m;
    sn_cursor in = at;
    sn_ix x = sn_open_loop(m, &in, "x", b->b->threads, SN_AXIS_BLOCK_X),
          i = sn_open_loop(m, &in, "i", sums_of(b), SN_AXIS_UNROLL);
    for (int64_t c = 0; c < b->b->side; c++)
        sn_put_store(m, in, b->accs[c], sn_ix_fma(m, sums_of(b), x, i), sn_put_const(m, in, SN_F32, 0));
    for (int64_t c = 0; c < b->b->side; c++) {
        sn_mma_nest n = nest_of(b, c);
        sn_mma_put(m, at, &n);
    }
}

/* ---- results ---- */

/* Channel c of sum number i of thread x, side by side. */
static sn_ix own_at(const binding *b, sn_ix x, sn_ix i, sn_ix c) {
    sn_module *m = b->of->m;
    return sn_ix_fma(m, sums_of(b) * b->b->side, x, sn_ix_fma(m, b->b->side, i, c));
}

static void gather(binding *b, sn_cursor at, sn_ix x) {
    sn_module *m = b->of->m;
    sn_ix i = sn_open_loop(m, &at, "i", sums_of(b), SN_AXIS_UNROLL);
    for (int64_t c = 0; c < b->b->side; c++) {
        sn_val sum = sn_put_load(m, at, b->accs[c], sn_ix_fma(m, sums_of(b), x, i));
        sn_put_store(m, at, b->own, own_at(b, x, i, sn_ix_const(m, c)), sum);
    }
}

static void put_results(binding *b, sn_cursor at) {
    const sn_window_bands *of = b->b;
    const sn_window *w = &of->w;
    sn_module *m = b->of->m;
    sn_contraction_copier c;
    sn_mma_nest n = nest_of(b, 0);
    sn_ix x = sn_open_loop(m, &at, "x", of->threads, SN_AXIS_BLOCK_X), zero = sn_ix_const(m, 0);
    gather(b, at, x);
    bool pairs = of->columns % PAIR == 0 && w->column.windows % PAIR == 0; /* of which both exist or neither */
    sn_ix h = sn_open_loop(m, &at, "h", of->blocks, SN_AXIS_UNROLL),
          half = sn_open_loop(m, &at, "e", sn_mma_elements(of->mma) / PAIR, SN_AXIS_UNROLL);
    sn_ix e = sn_ix_scale(m, half, PAIR), number = sn_mma_row(m, &n, x, h, e);
    sn_ix row = sn_ix_divc(m, number, of->groups), group = sn_ix_modc(m, number, of->groups);
    sn_ix first = sn_ix_fma(m, SN_BAND, group, sn_mma_column(m, &n, x, zero, zero));
    sn_val mask = pairs ? sn_bands_put_window_test(b->of, at, row, first) : (sn_val){0};
    sn_ix second = sn_open_loop(m, &at, "p", PAIR, SN_AXIS_UNROLL), column = sn_ix_add(m, first, second);
    if (!pairs) mask = sn_bands_put_window_test(b->of, at, row, column);
    sn_ix part = sn_open_loop(m, &at, "j", of->side / of->wide, SN_AXIS_UNROLL);
    sn_ix own = sn_ix_fma(m, of->wide, part, sn_open_loop(m, &at, "v", of->wide, SN_AXIS_VECTOR));
    sn_bands_start_copier(b->of, &c, at, sn_ix_add(m, b->of->plane, own), zero);
    sn_bands_set_window(b->of, &c, row, column);
    c.mask = mask;
    sn_ix i = sn_ix_fma(m, sn_mma_elements(of->mma), h, sn_ix_add(m, e, second));
    sn_contraction_becomes(&c, sn_stmt_get(m, w->nest->top)->result, sn_put_load(m, at, b->own, own_at(b, x, i, own)));
    sn_window_put_stores(&c, w);
}

static void new_buffers(binding *b) {
    const sn_window_bands *of = b->b;
    sn_module *m = b->of->m;
    for (int64_t c = 0; c < of->side; c++)
        b->accs[c] = sn_local_new(m, "acc", SN_F32, SN_BUF_REG, sums_of(b), of->threads);
    b->own = sn_local_new(m, "own", SN_F32, SN_BUF_REG, sums_of(b) * of->side, of->threads);
    b->turn = sn_local_new(m, "turn", of->half, SN_BUF_REG, of->turns * PAIR * SN_BAND, of->threads);
    sn_bands_new_weights(b->of);
    b->of->image = sn_local_new(m, "image", of->half, SN_BUF_SHARED, sn_window_turned_elements(of), 1);
}

void sn_window_turned_bind(sn_bands_binding *of, sn_cursor at, sn_ix images, sn_ix side) {
    binding b = {.of = of, .b = &of->b};
    sn_module *m = of->m;
    int64_t of_image = of->b.grid[1] * of->b.side;
    sn_ix zero = sn_ix_const(m, 0), first = sn_ix_fma(m, of_image, sn_ix_scale(m, images, of->b.planes), side);
    new_buffers(&b);
    put_loads(&b, at, first, zero);
    of->plane = side; /* weights are those of any image */
    sn_bands_put_weights(of, at);
    sn_ix image = sn_open_loop(m, &at, "i", of->b.planes, SN_AXIS_SEQ);
    of->plane = sn_ix_fma(m, of_image, image, first);
    put_stores(&b, at);
    if (of->b.planes > 1) put_loads(&b, at, sn_ix_addc(m, of->plane, of_image), sn_ix_addc(m, image, 1));
    put_products(&b, at);
    put_results(&b, at);
}
