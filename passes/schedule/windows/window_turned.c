/* window_turned.c: windows of halves as bands (window_bands.h) where channels lie innermost in memory: which kernels they are, and the
 * parts of a header.
 *
 * A block has eight channels of an image, or a few eights. Threads load pairs of neighbouring pixels, eight channels at a time, and
 * store them to shared memory channel by channel, so that lines of a channel lie there as bands want them:
 *
 *     | p0c0 p0c1 .. p0c7 |            c0: p0 p1
 *     | p1c0 p1c1 .. p1c7 |    ->      c1: p0 p1        two loads of 16 bytes, eight stores of 4
 *                                      ..
 *
 * Each channel is a product of its own. A warp has the same pixels of all channels, so a thread has all channels of its pixels when the
 * last product is done, and stores them as they lie in memory: nothing is turned back.
 *
 * Legality: as of bands (window_bands.c).
 */
#include "passes/schedule/base/figures.h"
#include "passes/schedule/windows/window_bands.h"

enum {
    PAIR = 2,
    BANKED = 64 /* elements: half of all banks */
};

void sn_window_take_lanes(sn_window *w) {
    w->n_planes *= w->n_lanes;
    w->lanes = -1, w->n_lanes = 1;
}

/* Are eight channels 16 bytes of memory, wherever the window is? They are the last planes, so that neighbours have neighbouring numbers. */
bool sn_window_turned_find(sn_window_bands *b) {
    sn_window *w = &b->w;
    sn_module *m = w->m;
    const sn_stmt_rec *load = sn_stmt_get(m, w->load);
    sn_ix zero = sn_ix_const(m, 0);
    int64_t c;
    if (w->lanes < 0 || w->steps != 1 || w->n_lanes % SN_BAND || !b->image.i) return false;
    for (uint32_t i = (uint32_t)w->lanes + 1; i < w->sh->outer.n; i++)
        if (i != w->column.outer && !(w->row.there && i == w->row.outer)) return false;
    sn_axis ax = sn_stmt_axis(m, w->sh->outer.at[w->lanes]);
    if (!sn_ix_coef(m, load->ix, ax, &c) || c != 1) return false;
    if (!sn_ix_is_multiple(m, sn_ix_subst(m, load->ix, &ax, &zero, 1), SN_BAND)) return false;
    if (sn_buf_get(m, load->buf)->align < (uint64_t)SN_BAND * w->bytes) return false;
    b->turned = true;
    b->wide = w->store_lanes < SN_BAND ? w->store_lanes : SN_BAND;
    if (b->wide < 1) b->wide = 1;
    sn_window_take_lanes(w);
    return true;
}

int64_t sn_window_turned_at(const sn_window_bands *b, int64_t channel) {
    int64_t eights = b->side / SN_BAND;
    return channel * b->elements + channel / SN_BAND * (eights > 1 ? BANKED / eights : 0);
}

/* What threads store in their turns stays in front of the next eight. */
bool sn_window_turned_measure(sn_window_bands *b, const sn_sched *sc) {
    int64_t eights = sc->vector / SN_BAND, pairs;
    b->side = sc->vector;
    if (b->side < SN_BAND || b->side % SN_BAND || b->w.n_planes / b->images % b->side) return false;
    if (b->side * b->blocks * 4 > SN_BANDS_TURNED_SUMS) return false;
    b->weights = b->side * SN_BAND * b->run * b->w.row.taps;
    b->filled = b->elements;
    pairs = b->filled / PAIR * eights;
    b->turns = sn_ceil_div(pairs, b->threads);
    if (b->turns > SN_BANDS_TURNS) return false;
    b->elements = sn_ceil_div(sn_ceil_div(b->turns * b->threads, eights) * PAIR, SN_BAND) * SN_BAND;
    b->at_hand = b->stages = 1;
    return true;
}

int64_t sn_window_turned_elements(const sn_window_bands *b) { return sn_window_turned_at(b, b->side); }

double sn_window_turned_instructions(const sn_window_bands *b) {
    double pairs = (double)(b->turns * b->threads), results = (double)(b->rows * b->groups * SN_BAND * b->side);
    double issued = pairs * (SN_PIXELS_TURN + 2 * SN_BAND) + (double)b->threads * SN_WINDOW_BEGIN;
    issued += (double)b->weights * SN_BANDS_WEIGHT / (double)b->planes;
    return issued + results * (b->w.rest_ops + 0.5 + SN_BANDS_STORE / (double)b->wide);
}

double sn_window_turned_registers(const sn_window_bands *b) {
    double ahead = b->planes > 1 ? (double)(b->turns * PAIR * SN_BAND / 2) : 0;
    return 2 * SN_OTHER_REGS + (double)(b->side * b->blocks * 4) + ahead;
}
