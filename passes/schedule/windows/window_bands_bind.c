/* window_bands_bind.c: binding of class window with `bands` (window_bands.h): a block has the image of a plane and the taps as bands in
 * shared memory, and its warps multiply.
 *
 *     loop g : grid {
 *       loop x : block.x { loop u { bands[n, s, e] = w[s, e - n] if e - n in taps } }
 *       loop i in planes { loop c in steps {
 *       loop x : block.x { loop u { s[..] = load x[..] } }         lines of the image, 0 where nothing is
 *       loop x : block.x { acc = 0 }
 *       loop x : block.x mma(mma.bf16) { acc[8*row + n] += s[..] * bands[..] }
 *       loop x : block.x { the rest of the body, of acc, by pairs of neighbours }
 *     } }
 *
 * A row of the product is number `groups * row + group`, so that all lines of a plane are one product, whatever their length is.
 */
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/windows/window_bands.h"

#include <stdlib.h>

enum { PAIR = 2 };

typedef sn_bands_binding binding;

int64_t sn_bands_in_turns(const binding *b, int64_t n) {
    return sn_window_all_turns(sn_ceil_div(n, b->b.threads)) * b->b.threads;
}

sn_ix sn_bands_open_turns(sn_ix *x, binding *b, sn_cursor *at, int64_t n) {
    *x = sn_open_loop(b->m, at, "x", b->b.threads, SN_AXIS_BLOCK_X);
    return sn_ix_fma(b->m, b->b.threads, sn_window_open_turns(b->m, at, sn_ceil_div(n, b->b.threads)), *x);
}

void sn_bands_start_copier(binding *b, sn_contraction_copier *c, sn_cursor at, sn_ix plane, sn_ix step) {
    sn_ix shape[SN_MAX_CHAIN], with[SN_MAX_CHAIN];
    sn_axis axes[SN_MAX_CHAIN];
    uint32_t n = 0;
    sn_contraction_copier_start(c, b->cx, at, b->n_vals);
    c->n += sn_window_planes(c->axes + c->n, c->with + c->n, &b->b.w, plane);
    for (uint32_t i = 0; i < b->b.w.nest->chain.n; i++) {
        if (!sn_window_is_step(&b->b.w, i)) continue;
        axes[n] = sn_stmt_axis(b->m, b->b.w.nest->chain.at[i]);
        shape[n++] = sn_stmt_extent(b->m, b->b.w.nest->chain.at[i]);
    }
    if (n) sn_ix_unflatten(b->m, step, shape, n, with);
    for (uint32_t i = 0; i < n; i++) sn_window_set_axis(c, axes[i], with[i]);
}

static sn_val both(binding *b, sn_cursor at, sn_val x, sn_val y) {
    return !x.i ? y : !y.i ? x : sn_put_op2(b->m, at, SN_LOP_AND, x, y);
}

sn_val sn_bands_put_half(binding *b, sn_contraction_copier *c, sn_val v) {
    if (b->b.n_terms) return sn_contraction_copy(c, v);
    const sn_stmt_rec *r = sn_stmt_get(b->m, sn_val_get(b->m, v)->def);
    if (r->op == SN_LOP_CAST) return sn_contraction_copy(c, r->in[0]);
    if (r->op != SN_LOP_SELECT) return sn_put_const(b->m, c->at, b->b.half, 0);
    sn_val mask = sn_contraction_copy(c, r->in[0]), yes = sn_bands_put_half(b, c, r->in[1]),
           no = sn_bands_put_half(b, c, r->in[2]);
    return sn_put_op3(b->m, c->at, SN_LOP_SELECT, mask, yes, no);
}

/* ---- the image ---- */

/* Is the place, counted from the first one of that window, one that windows of the line have? What tests that itself is not asked. */
static sn_val put_place_test(binding *b, sn_cursor at, sn_val mask, const sn_window_line *l, sn_ix window,
                             sn_ix place) {
    int64_t places = sn_window_places(l, l->windows);
    if (!l->there) return mask;
    return sn_put_mask_in(b->m, at, mask, sn_ix_fma(b->m, l->step, window, place), places);
}

static bool tests(const binding *b, sn_val mask, const sn_window_line *l) {
    if (!mask.i || !l->there) return false;
    const sn_stmt_rec *r = sn_stmt_get(b->m, sn_val_get(b->m, mask)->def);
    if (r->op == SN_LOP_AND) return tests(b, r->in[0], l) || tests(b, r->in[1], l);
    return r->op == SN_LOP_IN && sn_ix_uses_axis(b->m, r->ix, sn_stmt_axis(b->m, b->b.w.sh->outer.at[l->outer]));
}

static void set_places(binding *b, sn_contraction_copier *c, sn_ix line, sn_ix place) {
    sn_window_set_line(c, &b->b.w, &b->b.w.row, b->row, line);
    sn_window_set_line(c, &b->b.w, &b->b.w.column, b->column, place);
}

/* Of the lines of the block, and of the places that windows have. */
static sn_val put_inside(binding *b, sn_cursor at, sn_ix line, sn_ix place) {
    const sn_window *w = &b->b.w;
    sn_val own = b->b.image.i ? b->b.mask : (sn_val){0};
    sn_val mask = sn_put_mask_in(b->m, at, b->inside, line, b->b.lines);
    if (!tests(b, own, &w->row)) mask = put_place_test(b, at, mask, &w->row, b->row, line);
    if (!tests(b, own, &w->column)) mask = put_place_test(b, at, mask, &w->column, b->column, place);
    return mask;
}

static sn_val put_own_mask(binding *b, sn_contraction_copier *c, sn_val mask) {
    return b->b.mask.i ? both(b, c->at, mask, sn_contraction_copy(c, b->b.mask)) : mask;
}

sn_val sn_bands_put_mask(binding *b, sn_cursor at, sn_ix line, sn_ix place) {
    sn_contraction_copier c;
    sn_val mask = put_inside(b, at, line, place);
    sn_bands_start_copier(b, &c, at, b->plane, sn_ix_const(b->m, 0));
    set_places(b, &c, line, place);
    return put_own_mask(b, &c, mask);
}

static sn_ix offset_of(binding *b, sn_cursor at, sn_ix step, sn_ix line, sn_ix place) {
    sn_contraction_copier c;
    sn_bands_start_copier(b, &c, at, b->plane, step);
    set_places(b, &c, line, place);
    return sn_contraction_copy_ix(&c, sn_stmt_get(b->m, b->b.w.load)->ix);
}

sn_val sn_bands_put_element(binding *b, sn_cursor at, sn_ix step, sn_ix line, sn_ix place, sn_ix lane) {
    const sn_window *w = &b->b.w;
    sn_contraction_copier c;
    sn_val mask = put_inside(b, at, line, place);
    sn_bands_start_copier(b, &c, at, b->plane, step);
    set_places(b, &c, line, place);
    sn_val zero = sn_put_const(b->m, at, b->b.half, 0);
    if (!b->b.image.i) {
        c.mask = mask;
        sn_val x = sn_bands_put_half(b, &c, w->value);
        return mask.i ? sn_put_op3(b->m, at, SN_LOP_SELECT, mask, x, zero) : x;
    }
    sn_buf buf = sn_stmt_get(b->m, w->load)->buf;
    mask = put_own_mask(b, &c, mask);
    sn_ix e = offset_of(b, at, step, line, sn_ix_add(b->m, place, lane));
    return mask.i ? sn_put_load_masked(b->m, at, buf, e, mask, zero) : sn_put_load(b->m, at, buf, e);
}

enum { MOST_OVER = 2 };

/* What axes add to a number: from 0 on, and at their ends as much as its range says? A range may be wider than what is there. */
static bool adds_exactly(const binding *b, sn_ix on, const sn_axis *over, uint32_t n_over) {
    sn_module *m = b->m;
    sn_ix ends[MOST_OVER];
    int64_t most;
    sn_range r = sn_ix_range(m, on);
    for (uint32_t i = 0; i < n_over; i++) ends[i] = sn_ix_addc(m, sn_axis_get(m, over[i])->extent, -1);
    return r.lo == 0 && sn_ix_is_const(m, sn_ix_subst(m, on, over, ends, n_over), &most) && most == r.hi;
}

/* Where the mask holds the first of the elements is such that all of them are in the buffer. It is kept so far from the end that they are in
 * any case; what would be kept farther away than they reach is read by its mask. */
sn_val sn_bands_put_any(binding *b, sn_cursor at, sn_ix step, sn_ix line, sn_ix place, sn_ix lane, const sn_axis *over,
                        uint32_t n_over) {
    sn_module *m = b->m;
    sn_buf buf = sn_stmt_get(m, b->b.w.load)->buf;
    int64_t piece = b->b.piece, size = sn_ix_value(m, sn_buf_get(m, buf)->size);
    sn_ix none[MOST_OVER] = {sn_ix_const(m, 0), sn_ix_const(m, 0)};
    SN_ASSERT(n_over <= MOST_OVER);
    sn_ix e = offset_of(b, at, step, line, sn_ix_add(m, place, lane)), first = sn_ix_subst(m, e, over, none, n_over);
    sn_ix on = sn_ix_sub(m, e, first);
    if (!adds_exactly(b, on, over, n_over)) return sn_bands_put_element(b, at, step, line, place, lane);
    if (!sn_ix_is_multiple(m, first, piece)) piece = 1;
    int64_t last = (size - 1 - sn_ix_range(m, on).hi) / piece;
    SN_ASSERT(last >= 0);
    sn_ix number = sn_ix_min(m, sn_ix_max(m, sn_ix_divc(m, first, piece), none[0]), sn_ix_const(m, last));
    return sn_put_load(m, at, buf, sn_ix_fma(m, piece, number, on));
}

static sn_ix step_of(binding *b, sn_ix at_hand) { return sn_ix_fma(b->m, b->b.at_hand, b->turn, at_hand); }

/* In a pipe copies run one turn ahead, while warps multiply. */
static void put_image(binding *b, sn_cursor at) {
    sn_cursor pipe = at;
    int64_t pieces = b->b.elements / b->b.piece, of_line = SN_BAND * b->b.groups / b->b.piece;
    sn_ix thread, number = sn_bands_open_turns(&thread, b, &at, pieces * b->b.at_hand), step = sn_ix_const(b->m, 0),
                  own = number;
    if (b->b.at_hand > 1) step = sn_ix_divc(b->m, number, pieces), own = sn_ix_modc(b->m, number, pieces);
    sn_ix line = sn_ix_divc(b->m, own, of_line), piece = sn_ix_modc(b->m, own, of_line);
    sn_ix place = sn_ix_addc(b->m, sn_ix_scale(b->m, piece, b->b.piece), -b->b.lead);
    sn_val inside = {0};
    sn_stmt threads = sn_stmt_get(b->m, pipe.parent)->last;
    if (b->b.at_hand > 1) inside = sn_put_mask_in(b->m, at, inside, step, b->b.at_hand);
    b->inside = inside;
    sn_ix lane = sn_open_loop(b->m, &at, "v", b->b.piece, SN_AXIS_VECTOR);
    sn_val x = sn_bands_put_element(b, at, step_of(b, step), line, place, lane);
    sn_put_store(b->m, at, b->image, sn_ix_fma(b->m, b->b.piece, number, lane), x);
    if (b->b.stages == 1) return;
    sn_stmt_get(b->m, threads)->bulk = true;
    sn_stmt_get(b->m, pipe.parent)->pipe = (uint32_t)b->b.stages;
    sn_put_barrier(b->m, pipe);
}

/* ---- the bands ---- */

/* Place e of a band along the line is tap number e div by, if it is one; counted from the end where windows are flipped. */
static sn_ix tap_at(binding *b, const sn_window_line *l, sn_ix place) {
    sn_ix t = sn_ix_divc(b->m, place, llabs(l->dilation));
    return l->dilation < 0 ? sn_ix_sub(b->m, sn_ix_const(b->m, l->taps - 1), t) : t;
}

static sn_ix flipped(binding *b, const sn_window_line *l, sn_ix number) {
    return l->dilation < 0 ? sn_ix_sub(b->m, sn_ix_const(b->m, l->taps - 1), number) : number;
}

sn_val sn_bands_put_taps(binding *b, sn_contraction_copier *c, sn_ix row, sn_ix place) {
    const sn_window *w = &b->b.w;
    int64_t by = llabs(w->column.dilation);
    sn_val mask = sn_put_mask_in(b->m, c->at, (sn_val){0}, place, b->b.reach);
    if (by > 1) mask = both(b, c->at, mask, sn_put_in(b->m, c->at, sn_ix_modc(b->m, place, by), sn_ix_const(b->m, 1)));
    sn_window_set_tap(c, w, &w->row, flipped(b, &w->row, row));
    sn_window_set_tap(c, w, &w->column, tap_at(b, &w->column, place));
    return mask;
}

/* What a thread has of a row of taps: zeros as far as any band reaches, between them the taps. */
static int64_t own_taps(const binding *b) { return b->b.run + SN_BAND - 1; }

void sn_bands_new_weights(binding *b) {
    b->weights = sn_local_new(b->m, "bands", b->b.half, SN_BUF_SHARED, b->b.weights * b->b.at_hand, 1);
    b->row_taps = sn_local_new(b->m, "taps", b->b.half, SN_BUF_REG, own_taps(b), b->b.threads);
}

/* A thread loads the taps of a row together, and stores the band of each result. */
void sn_bands_put_weights(binding *b, sn_cursor at) {
    const sn_window *w = &b->b.w;
    sn_module *m = b->m;
    sn_contraction_copier c;
    int64_t rows = b->b.side * w->row.taps, all = rows * b->b.at_hand;
    sn_ix x, number = sn_bands_open_turns(&x, b, &at, all), step = sn_ix_const(m, 0);
    sn_ix own = sn_ix_scale(m, x, own_taps(b));
    if (sn_bands_in_turns(b, all) != all) at = sn_at_end(b->k, sn_put_if(m, at, number, sn_ix_const(m, all)));
    number = sn_ix_modc(m, number, all); /* as index expressions can tell */
    if (b->b.at_hand > 1) step = sn_ix_divc(m, number, rows), number = sn_ix_modc(m, number, rows);
    sn_ix side = sn_ix_divc(m, number, w->row.taps), row = sn_ix_modc(m, number, w->row.taps);
    sn_cursor in = at;
    sn_ix t = sn_open_loop(m, &in, "t", own_taps(b), SN_AXIS_UNROLL);
    sn_put_store(m, in, b->row_taps, sn_ix_add(m, own, t), sn_put_const(m, in, b->b.half, 0));
    in = at, t = sn_open_loop(m, &in, "t", w->column.taps, SN_AXIS_UNROLL);
    sn_bands_start_copier(b, &c, in, sn_ix_add(m, b->plane, side), step_of(b, step));
    sn_window_set_tap(&c, w, &w->row, flipped(b, &w->row, row));
    sn_window_set_tap(&c, w, &w->column, flipped(b, &w->column, t));
    /* Column n is the result first + n of its group, whose window begins there. */
    sn_ix place = sn_ix_addc(m, sn_ix_scale(m, t, llabs(w->column.dilation)), SN_BAND - 1 + b->b.first + b->b.lead);
    sn_put_store(m, in, b->row_taps, sn_ix_add(m, own, place), sn_bands_put_half(b, &c, b->b.weight));
    sn_ix n = sn_open_loop(m, &at, "n", SN_BAND, SN_AXIS_UNROLL),
          part = sn_open_loop(m, &at, "p", b->b.run / SN_BAND, SN_AXIS_UNROLL),
          q = sn_ix_fma(m, SN_BAND, part, sn_open_loop(m, &at, "v", SN_BAND, SN_AXIS_VECTOR));
    sn_ix band = sn_ix_fma(m, SN_BAND, sn_ix_fma(m, b->b.side, step, side), n);
    sn_ix to = sn_ix_fma(m, b->b.run, sn_ix_fma(m, w->row.taps, band, row), q);
    sn_ix from = sn_ix_addc(m, sn_ix_sub(m, q, n), SN_BAND - 1);
    sn_put_store(m, at, b->weights, to, sn_put_load(m, at, b->row_taps, sn_ix_add(m, own, from)));
}

/* ---- products ---- */

/* Of step number `step` of those at hand. */
static void find_nest(binding *b, int64_t step) {
    const sn_window_bands *of = &b->b;
    int64_t jump = of->w.row.there ? llabs(of->w.row.dilation) * SN_BAND * of->groups : 0;
    b->nest = (sn_mma_nest){.mma = of->mma,
                            .threads = (uint32_t)of->threads,
                            .columns = 1,
                            .tiles_m = (uint32_t)of->blocks,
                            .tiles_n = (uint32_t)of->side,
                            .depth = of->run * of->w.row.taps};
    b->nest.rank = sn_ix_const(b->m, 0);
    b->nest.a = (sn_mma_operand){.buf = b->image, .width = SN_BAND, .run = of->run};
    b->nest.a.jump = of->w.row.taps > 1 ? jump : 0;
    b->nest.b = (sn_mma_operand){.buf = b->weights, .rows = SN_BAND * of->side, .width = b->nest.depth};
    b->nest.a.at = sn_ix_const(b->m, step * of->elements);
    b->nest.b.at = sn_ix_const(b->m, step * of->weights);
    b->nest.state = b->acc;
}

static int64_t own_sums(const binding *b) { return b->b.blocks * b->b.side * sn_mma_elements(b->b.mma); }

static void put_zeros(binding *b, sn_cursor at) {
    int64_t own = own_sums(b);
    sn_ix x = sn_open_loop(b->m, &at, "x", b->b.threads, SN_AXIS_BLOCK_X),
          i = sn_open_loop(b->m, &at, "i", own, SN_AXIS_UNROLL);
    sn_put_store(b->m, at, b->acc, sn_ix_fma(b->m, own, x, i), sn_put_const(b->m, at, SN_F32, 0));
}

static void put_products(binding *b, sn_cursor at) {
    for (int64_t step = 0; step < b->b.at_hand; step++) {
        find_nest(b, step);
        sn_mma_put(b->m, at, &b->nest);
    }
}

static void new_buffers(binding *b) {
    int64_t pieces = b->b.elements / b->b.piece * b->b.at_hand, own = own_sums(b);
    b->acc = sn_local_new(b->m, "acc", SN_F32, SN_BUF_REG, own, b->b.threads);
    sn_bands_new_weights(b);
    b->image = sn_local_new(b->m, "image", b->b.half, SN_BUF_SHARED, sn_bands_in_turns(b, pieces) * b->b.piece, 1);
}

/* ---- results ---- */

/* Do all stores of the body take pairs of neighbours, of which both exist or neither? */
static bool stores_pairs(binding *b) {
    const sn_window *w = &b->b.w;
    int64_t c;
    if (b->b.first % PAIR || w->column.windows % PAIR || b->b.columns % PAIR) return false;
    for (sn_stmt s = sn_region_first(b->m, b->k, w->sh->body); s.i; s = sn_next(b->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(b->m, s);
        if (!sn_stores(r)) continue;
        for (uint32_t i = 0; i < w->sh->outer.n; i++) {
            bool column = w->column.outer == i;
            if (!sn_ix_coef(b->m, r->ix, sn_stmt_axis(b->m, w->sh->outer.at[i]), &c)) return false;
            if (column ? c != 1 : c % PAIR) return false;
        }
        if (!sn_ix_is_multiple(
                b->m, sn_ix_sub(b->m, r->ix, sn_ix_axis(b->m, sn_stmt_axis(b->m, w->sh->outer.at[w->column.outer]))),
                PAIR))
            return false;
    }
    return true;
}

sn_val sn_bands_put_window_test(binding *b, sn_cursor at, sn_ix row, sn_ix tested) {
    const sn_window *w = &b->b.w;
    sn_val mask = sn_put_mask_in(b->m, at, (sn_val){0}, row, b->b.rows);
    if (b->b.grid[2] > 1) mask = sn_put_mask_in(b->m, at, mask, sn_ix_add(b->m, b->row, row), w->row.windows);
    mask = sn_put_mask_in(b->m, at, mask, tested, b->b.columns);
    if (b->b.grid[3] == 1) return mask;
    return sn_put_mask_in(b->m, at, mask, sn_ix_add(b->m, b->column, tested), w->column.windows);
}

void sn_bands_set_window(binding *b, sn_contraction_copier *c, sn_ix row, sn_ix column) {
    const sn_window *w = &b->b.w;
    if (w->row.there)
        sn_window_set_axis(c, sn_stmt_axis(b->m, w->sh->outer.at[w->row.outer]), sn_ix_add(b->m, b->row, row));
    sn_window_set_axis(c, sn_stmt_axis(b->m, w->sh->outer.at[w->column.outer]), sn_ix_add(b->m, b->column, column));
}

static void put_results(binding *b, sn_cursor at) {
    const sn_window *w = &b->b.w;
    sn_contraction_copier c;
    bool pairs = stores_pairs(b);
    sn_ix x = sn_open_loop(b->m, &at, "x", b->b.threads, SN_AXIS_BLOCK_X);
    sn_ix h = sn_open_loop(b->m, &at, "h", b->b.blocks, SN_AXIS_UNROLL),
          j = sn_open_loop(b->m, &at, "j", b->b.side, SN_AXIS_UNROLL);
    sn_ix half = sn_open_loop(b->m, &at, "e", PAIR, SN_AXIS_UNROLL);
    sn_ix zero = sn_ix_const(b->m, 0), e = sn_ix_scale(b->m, half, PAIR);
    sn_ix number = sn_mma_row(b->m, &b->nest, x, h, e);
    sn_ix row = sn_ix_divc(b->m, number, b->b.groups), group = sn_ix_modc(b->m, number, b->b.groups);
    sn_ix column = sn_ix_fma(b->m, SN_BAND, group, sn_mma_column(b->m, &b->nest, x, zero, zero));
    column = sn_ix_addc(b->m, column, b->b.first);
    sn_ix lane = sn_open_loop(b->m, &at, "v", PAIR, pairs ? SN_AXIS_VECTOR : SN_AXIS_UNROLL);
    sn_ix own = sn_ix_add(b->m, column, lane), tested = pairs ? column : own;
    sn_val mask = sn_bands_put_window_test(b, at, row, tested);
    sn_bands_start_copier(b, &c, at, sn_ix_add(b->m, b->plane, j), zero);
    sn_bands_set_window(b, &c, row, own);
    c.mask = mask;
    sn_ix from = sn_mma_element(b->m, &b->nest, x, h, j, sn_ix_add(b->m, e, lane));
    sn_contraction_becomes(&c, sn_stmt_get(b->m, w->nest->top)->result, sn_put_load(b->m, at, b->acc, from));
    sn_window_put_stores(&c, w);
}

/* Steps whose images are not at hand together. */
static void put_turns(binding *b, sn_cursor at) {
    b->turn = sn_open_loop(b->m, &at, "c", b->b.w.steps / b->b.at_hand, SN_AXIS_SEQ);
    put_image(b, at);
    sn_bands_put_weights(b, at);
    put_products(b, at);
}

void sn_schedule_window_bands_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    binding b = {.cx = cx, .m = m, .k = k};
    const char *why_not;
    sn_ix block[4];
    bool fits = sn_window_bands_find(&b.b, &why_not, cx, k, sh) && sn_window_bands_measure(&b.b, sc);
    SN_ASSERT(fits);
    (void)fits;
    b.n_vals = m->vals.count;
    sn_cursor at = sn_window_open_grid(block, m, k, b.b.grid, SN_COUNT(block), false);
    bool whole = b.b.at_hand == b.b.w.steps;
    sn_ix side = sn_ix_scale(m, block[1], b.b.side);
    b.turn = sn_ix_const(m, 0);
    b.plane = side; /* weights are those of any image */
    b.row = sn_ix_scale(m, block[2], b.b.rows), b.column = sn_ix_scale(m, block[3], b.b.columns);
    if (b.b.turned) {
        sn_window_turned_bind(&b, at, block[0], side);
        sn_stmt_unlink(m, sh->outer.at[0]);
        return;
    }
    new_buffers(&b);
    if (whole) sn_bands_put_weights(&b, at);
    sn_ix image = sn_ix_fma(m, b.b.planes, block[0], sn_open_loop(b.m, &at, "i", b.b.planes, SN_AXIS_SEQ));
    b.plane = sn_ix_fma(m, b.b.grid[1] * b.b.side, image, side);
    if (whole) {
        put_image(&b, at);
        put_zeros(&b, at);
        put_products(&b, at);
    } else {
        put_zeros(&b, at);
        put_turns(&b, at);
    }
    put_results(&b, at);
    sn_stmt_unlink(m, sh->outer.at[0]);
}
