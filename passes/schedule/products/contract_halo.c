/* contract_halo.c: images whose pixels taps share, for class contract on GPUs.
 *
 *     rows of the tile, pixels:      0 1 2 3 4 5 . . . . 127              of a row of 6 results: 0 1 2 3 4 5 -
 *     lines that one box brings:     0 1 2 3 4 5 . . . . 127 128 129
 *     left operand of tap 0, 1, 2:   lines 0 .., 1 .., 2 ..
 *
 * A tap along the innermost axis of an image moves all pixels by as many lines, so one box, longer by what the last
 * tap reaches over (its halo), serves all of them: instructions begin to read at another line. For that, rows of
 * the image follow each other without a gap, and the axis of results is longer than its loop: what the last taps of
 * a row reach are pixels too, without a result. A step of the pipe has the channels of one line for all those taps.
 * Where pixels are two apart (stride 2), every other tap falls between them: boxes for each phase of that.
 *
 * The same holds for windows that overlap in memory, as those of a stem whose taps are joined to channels do
 * (passes/graph/layout_conv.c): lines are then what a window begins behind the one before.
 *
 * (What a window's last line has beyond it is multiplied by weights that are 0: an infinity there makes nan.)
 *
 * Bytes that the L2 gives are what bounds convolutions by boxes; products of pixels without a result are the price,
 * and the model of contract_tiles.c knows both. Relies on what dependence says alone: offset and tests of the image
 * are linear in both axes, and move alike.
 */
#include "ir/index/ix_build.h"
#include "passes/schedule/products/contract_bind.h"
#include "passes/schedule/base/figures.h"

enum { GROUP = 8 /* lines that are permuted alike */ };

/* ---- finding ---- */

static bool moves_alike(const sn_contract *ct, const sn_contract_motion *v, sn_ix e) {
    int64_t of_x, of_t;
    return sn_ix_coef(ct->m, e, v->x, &of_x) && sn_ix_coef(ct->m, e, v->t, &of_t) &&
           of_x * v->shift == of_t * v->phases;
}

static bool tests_move(const sn_contract *ct, const sn_contract_motion *v, sn_val mask) {
    const sn_stmt_rec *r = sn_stmt_get(ct->m, sn_val_get(ct->m, mask)->def);
    if (r->op == SN_LOP_AND) return tests_move(ct, v, r->in[0]) && tests_move(ct, v, r->in[1]);
    return r->op == SN_LOP_IN && moves_alike(ct, v, r->ix);
}

/* Is there a test of that axis? */
static bool is_tested(const sn_contract *ct, sn_axis ax, sn_val mask) {
    const sn_stmt_rec *r = sn_stmt_get(ct->m, sn_val_get(ct->m, mask)->def);
    if (r->op == SN_LOP_AND) return is_tested(ct, ax, r->in[0]) || is_tested(ct, ax, r->in[1]);
    return r->op == SN_LOP_IN && sn_ix_uses_axis(ct->m, r->ix, ax);
}

bool sn_contract_find_motion(sn_contract_motion *v, const sn_contract *ct, const sn_stmt_rec *load) {
    int64_t of_x, of_t;
    if (!sn_ix_coef(ct->m, load->ix, v->x, &of_x) || !sn_ix_coef(ct->m, load->ix, v->t, &of_t)) return false;
    if (of_x <= 0 || of_t <= 0) return false;
    int64_t common = sn_gcd(of_x, of_t);
    v->phases = of_x / common;
    v->shift = of_t / common;
    sn_val mask = sn_stmt_mask(load);
    return !mask.i || tests_move(ct, v, mask);
}

/* The K axis becomes the last one in front of the channels. */
static void put_last(sn_contraction *c, uint32_t t) {
    sn_stmt loop = c->inner.at[t];
    int64_t extent = c->k_extent[t];
    for (; t + 2 < c->inner.n; t++) {
        c->inner.at[t] = c->inner.at[t + 1];
        c->k_extent[t] = c->k_extent[t + 1];
    }
    c->inner.at[t] = loop;
    c->k_extent[t] = extent;
}

/* Taps have K axis t for themselves. Pixels of some phases are beyond the image, which only a test can tell. */
static bool find_taps(sn_contract_halo *h, const sn_contract *ct, const sn_stmt_rec *load, sn_axis x, uint32_t t) {
    const sn_contraction *c = &ct->c;
    sn_val mask = sn_stmt_mask(load);
    sn_contract_motion v = {.x = x, .t = sn_stmt_axis(ct->m, c->inner.at[t])};
    int64_t taps = c->k_extent[t];
    if (!sn_contract_find_motion(&v, ct, load) || v.phases >= taps || v.phases > SN_MOST_PHASES) return false;
    if (v.phases > 1 && (!mask.i || !is_tested(ct, x, mask))) return false;
    h->taps = taps;
    h->phases = v.phases;
    h->lines = v.shift;
    h->line = ct->line;
    h->channels = c->k_extent[c->inner.n - 1];
    h->over = h->lines * ((taps - 1) / h->phases);
    return true;
}

/* Does the image have elements where its pixels are that many, and their lines so long? */
static bool is_inside(const sn_contract *ct, const sn_stmt_rec *load, const sn_contract_motion *v, int64_t pixels,
                      int64_t line) {
    sn_module *m = ct->m;
    sn_axis axes[] = {v->x, v->t};
    sn_ix with[] = {sn_ix_axis(m, sn_axis_new(m, "x", sn_ix_const(m, pixels))),
                    sn_ix_axis(m, sn_axis_new(m, "c", sn_ix_const(m, line)))};
    int64_t size;
    return sn_ix_is_const(m, sn_buf_get(m, load->buf)->size, &size) &&
           sn_ix_range(m, sn_ix_subst(m, load->ix, axes, with, 2)).hi < size;
}

/* Taps are among the channels: windows overlap, each begins `line` elements behind the one before. */
static bool find_windows(sn_contract_halo *h, const sn_contract *ct, const sn_stmt_rec *load, sn_axis x) {
    const sn_contraction *c = &ct->c;
    int64_t room = c->k_extent[c->inner.n - 1], bytes = sn_dtype_bytes(c->operands[0].from);
    sn_contract_motion v = {.x = x, .t = sn_stmt_axis(ct->m, c->inner.at[c->inner.n - 1])};
    if (!sn_contract_find_motion(&v, ct, load) || v.shift != 1) return false;
    int64_t line = v.phases, taps = room / line, pixels = c->extent[h->axis] + taps - 1;
    if (taps < 2 || room % line || line * bytes < SN_SECTOR || SN_LINE % (line * bytes)) return false;
    if (line % sn_mmas[ct->mma].k || !is_inside(ct, load, &v, pixels, line)) return false;
    h->taps = taps;
    h->phases = h->lines = 1;
    h->line = h->channels = line;
    h->over = taps - 1;
    return true;
}

/* The outer axis of pixels: the last one of their side. */
static bool find_pixels(uint32_t *axis, const sn_contract *ct, bool right) {
    const sn_contraction *c = &ct->c;
    for (uint32_t i = c->outer.n; i-- > 0;)
        if (c->side[i] == (right ? SN_SIDE_N : SN_SIDE_M) && c->extent[i] > 1) return *axis = i, true;
    return false;
}

/* Of all that share pixels, those that reach over least. */
static bool find_nearest(sn_contract_halo *h, sn_contract *ct, const sn_stmt_rec *load) {
    sn_axis x = sn_stmt_axis(ct->m, ct->c.outer.at[h->axis]);
    uint32_t last = ct->c.inner.n - 1, best = last;
    bool any = find_windows(h, ct, load, x);
    for (uint32_t t = 0; t < last; t++) {
        sn_contract_halo other = *h;
        if (!find_taps(&other, ct, load, x, t) || (any && other.over >= h->over)) continue;
        *h = other;
        any = true;
        best = t;
    }
    if (best < last) put_last(&ct->c, best);
    return any;
}

bool sn_contract_find_halo(sn_contract *ct) {
    sn_contraction *c = &ct->c;
    sn_contract_halo h = {.operand = ct->pixels[0] ? 0 : 1};
    if (!ct->line || c->n_operands != 2 || ct->in_registers) return false;
    const sn_contraction_operand *o = &c->operands[h.operand];
    const sn_stmt_rec *load = sn_stmt_get(ct->m, o->load);
    if (ct->pixels[0] == ct->pixels[1] || ct->across[0] || ct->across[1]) return false;
    if (!find_pixels(&h.axis, ct, o->right)) return false;
    h.results = c->extent[h.axis];
    if (!find_nearest(&h, ct, load)) return false;
    int64_t *all = o->right ? &c->n : &c->m;
    c->extent[h.axis] += h.over;
    *all = *all / h.results * c->extent[h.axis];
    ct->halo = h;
    return true;
}

/* ---- steps ---- */

static bool is_image(const sn_contract *ct, uint32_t operand) { return ct->halo.taps && operand == ct->halo.operand; }

static int64_t rows_of(const sn_contract *ct, const sn_sched *sc, uint32_t operand) {
    return ct->c.operands[operand].right ? sc->tile_n : sc->tile_m;
}

/* Do lines of taps follow each other in the weights? Those of windows do; others, if channels fill them. */
static bool fills_lines(const sn_contract *ct) {
    const sn_contract_halo *h = &ct->halo;
    bool windows = h->channels != ct->c.k_extent[ct->c.inner.n - 1];
    return h->line == h->channels && (windows || !sn_contract_pads_channels(ct));
}

/* Weights of all taps of a step are neighbours, if it has all channels. */
int64_t sn_contract_lanes(const sn_contract *ct, const sn_sched *sc, uint32_t operand) {
    const sn_contract_halo *h = &ct->halo;
    if (ct->made)
        return sn_least(SN_LINE / sn_dtype_bytes(ct->c.operands[operand].from),
                        sn_pow2_divisor(sc->tile_k / sn_contract_together(ct, operand)));
    if (!h->taps) return sn_contract_line(ct);
    if (operand == h->operand || !fills_lines(ct)) return h->line;
    int64_t line = SN_LINE / sn_dtype_bytes(ct->c.operands[operand].from);
    while (sc->tile_k % line) line /= 2;
    return line;
}

int64_t sn_contract_lines(const sn_contract *ct, const sn_sched *sc, uint32_t operand) {
    int64_t rows = rows_of(ct, sc, operand);
    if (ct->strip.taps && operand == ct->strip.operand) return sn_contract_strip_lines(ct, sc);
    if (is_image(ct, operand)) return ct->halo.phases * (rows + ct->halo.over);
    return rows * (sc->tile_k / sn_contract_lanes(ct, sc, operand));
}

/* Of a box of an image: whole groups of lines. */
static int64_t phase_lines(const sn_contract *ct, const sn_sched *sc) {
    return sn_ceil_div(rows_of(ct, sc, ct->halo.operand) + ct->halo.over, GROUP) * GROUP;
}

int64_t sn_contract_space(const sn_contract *ct, const sn_sched *sc, uint32_t operand) {
    if (ct->strip.taps && operand == ct->strip.operand) return sn_contract_strip_space(ct, sc);
    if (!is_image(ct, operand)) return rows_of(ct, sc, operand) * sc->tile_k;
    return ct->halo.phases * phase_lines(ct, sc) * ct->halo.line;
}

/* Number of the first step of the sum that tap t has of those of step k of the pipe. */
static sn_ix step_at(sn_contract_binding *b, sn_ix k, int64_t t) {
    sn_module *m = b->m;
    const sn_contract_halo *h = &b->ct.halo;
    int64_t chunks = h->channels / h->line;
    sn_ix tap = sn_ix_addc(m, sn_ix_scale(m, sn_ix_divc(m, k, chunks), h->taps), t);
    return sn_ix_fma(b->m, h->channels, tap, sn_ix_scale(m, sn_ix_modc(m, k, chunks), h->line));
}

static void put_image(sn_contract_binding *b, sn_cursor at, sn_ix k, int64_t to) {
    const sn_contract_halo *h = &b->ct.halo;
    sn_contract_box box = {.operand = h->operand, .lines = sn_contract_rows(b, h->operand) + h->over};
    for (int64_t t = 0; t < h->phases; t++) {
        box.step = step_at(b, k, t);
        box.to = to + t * phase_lines(&b->ct, b->sc) * h->line;
        sn_contract_put_box(b, at, &box);
    }
}

/* Lines of one tap after the other, or of as many as are neighbours. */
static void put_weights(sn_contract_binding *b, sn_cursor at, uint32_t i, sn_ix k, int64_t to) {
    const sn_contract_halo *h = &b->ct.halo;
    int64_t lanes = sn_contract_lanes(&b->ct, b->sc, i);
    sn_contract_box box = {.operand = i, .lines = sn_contract_rows(b, i)};
    for (int64_t e = 0; e < b->sc->tile_k; e += lanes) {
        box.step = sn_ix_addc(b->m, step_at(b, k, e / h->line), e % h->line);
        box.to = to + e * box.lines;
        sn_contract_put_box(b, at, &box);
    }
}

void sn_contract_put_halo_boxes(sn_contract_binding *b, sn_cursor at, uint32_t i, sn_ix k, int64_t to) {
    if (is_image(&b->ct, i)) put_image(b, at, k, to);
    else put_weights(b, at, i, k, to);
}

void sn_contract_choose_tap(sn_contract_binding *b, sn_mma_operand *o, uint32_t operand, int64_t t) {
    const sn_contract_halo *h = &b->ct.halo;
    int64_t from = (t % h->phases * phase_lines(&b->ct, b->sc) + t / h->phases * h->lines) * h->line;
    sn_ix zero = sn_ix_const(b->m, 0);
    o->at = is_image(&b->ct, operand) ? sn_ix_const(b->m, from)
                                      : sn_mma_offset(b->m, o, b->sc->tile_k, zero, sn_ix_const(b->m, t * h->line));
}

/* ---- results ---- */

sn_val sn_contract_in_image(sn_contract_binding *b, sn_cursor at, sn_val mask, const sn_axis *axes, const sn_ix *with,
                            uint32_t n) {
    const sn_contract_halo *h = &b->ct.halo;
    if (!h->over) return mask;
    sn_axis ax = sn_stmt_axis(b->m, b->ct.c.outer.at[h->axis]);
    return sn_contract_and(b, at, mask, true, sn_ix_subst(b->m, sn_ix_axis(b->m, ax), axes, with, n), h->results);
}
