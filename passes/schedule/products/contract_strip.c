/* contract_strip.c: sums over pixels whose taps share them, as the gradient of weights has, for class contract on GPUs.
 *
 *     g[o, s, t, c] = sum over n, y, x of dy[n, y, x, o] * image[n, y + s, x + t, c]
 *
 * Both operands lie across the sum: lines are pixels, columns of the tile taps and channels. Those of tap t are the
 * lines of tap 0 from the t-th one on, so one strip of lines serves the taps of a tile, each 128 bytes further:
 *
 *     element (column, q) of the right operand in shared memory:  line q + column div 64, lane column mod 64
 *
 * which is how instructions find columns that lie across, with one line from each 64 of them to the next. So columns
 * are numbered with the taps in front of the lanes of a line, and rows of pixels follow each other without a gap: where
 * the last taps of a row have no pixel of their own, dy is 0 (and a product with an infinity of the image nan).
 */
#include "passes/schedule/products/contract_bind.h"

enum { GROUP = 8 /* lines that are permuted alike */, MOST_TAPS = 4 /* columns of an instruction */ };

/* ---- finding ---- */

static int64_t lanes_of(const sn_contract *ct) { return SN_LINE / sn_dtype_bytes(ct->c.operands[0].from); }

/* Axis i of the outer ones: do so many lines further on stand the pixels of the next tap? Then that is *lines. */
static bool is_tap(int64_t *lines, const sn_contract *ct, const sn_stmt_rec *load, uint32_t i) {
    const sn_contraction *c = &ct->c;
    sn_contract_motion v = {.x = sn_stmt_axis(ct->m, c->inner.at[c->inner.n - 1]),
                            .t = sn_stmt_axis(ct->m, c->outer.at[i])};
    if (c->side[i] != SN_SIDE_N || c->extent[i] < 2 || c->extent[i] > MOST_TAPS) return false;
    if (!sn_contract_find_motion(&v, ct, load) || v.phases != 1) return false;
    *lines = v.shift;
    return v.shift <= SN_MMA_LINES;
}

/* The axis of channels: neighbours, whole lines of them. */
static bool find_channels(uint32_t *at, const sn_contract *ct, const sn_stmt_rec *load) {
    const sn_contraction *c = &ct->c;
    int64_t stride;
    for (uint32_t i = 0; i < c->outer.n; i++) {
        if (c->side[i] != SN_SIDE_N || c->extent[i] % lanes_of(ct)) continue;
        *at = i;
        if (sn_ix_coef(ct->m, load->ix, sn_stmt_axis(ct->m, c->outer.at[i]), &stride) && stride == 1) return true;
    }
    return false;
}

bool sn_contract_find_strip(sn_contract *ct) {
    sn_contraction *c = &ct->c;
    sn_contract_strip s = {.operand = ct->pixels[0] ? 0 : 1};
    if (c->n_operands != 2 || ct->in_registers || !ct->across[0] || !ct->across[1]) return false;
    if (ct->pixels[0] == ct->pixels[1] || !sn_mmas[ct->mma].across) return false;
    if (!c->operands[s.operand].right) sn_contraction_swap(c);
    const sn_stmt_rec *load = sn_stmt_get(ct->m, c->operands[s.operand].load);
    uint32_t tap = c->outer.n, channels;
    for (uint32_t i = 0; i < c->outer.n && tap == c->outer.n; i++)
        if (is_tap(&s.lines, ct, load, i)) tap = i;
    if (tap == c->outer.n || !find_channels(&channels, ct, load)) return false;
    s.taps = c->extent[tap];
    sn_stmt last = c->outer.at[channels];
    sn_contraction_put_last(c, tap);
    for (channels = 0; c->outer.at[channels].i != last.i;) channels++;
    sn_contraction_put_last(c, channels);
    c->cut = lanes_of(ct);
    uint32_t x = c->inner.n - 1;
    s.results = c->k_extent[x];
    c->k_extent[x] += s.lines * (s.taps - 1);
    c->k = c->k / s.results * c->k_extent[x];
    ct->pixels[!s.operand] = true;
    ct->strip = s;
    return true;
}

/* ---- tiles ---- */

bool sn_contract_has_taps(const sn_contract *ct, const sn_sched *sc) {
    int64_t taps = sc->tile_n / lanes_of(ct);
    return !ct->strip.taps || (sc->tile_n % lanes_of(ct) == 0 && taps > 1 && ct->strip.taps % taps == 0);
}

int64_t sn_contract_strip_lines(const sn_contract *ct, const sn_sched *sc) {
    return sc->tile_k + (sc->tile_n / lanes_of(ct) - 1) * ct->strip.lines;
}

int64_t sn_contract_strip_space(const sn_contract *ct, const sn_sched *sc) {
    return sn_ceil_div(sn_contract_strip_lines(ct, sc), GROUP) * GROUP * lanes_of(ct);
}

/* ---- binding ---- */

void sn_contract_put_strip(sn_contract_binding *b, sn_cursor at, sn_ix k) {
    sn_contract_box box = {.operand = b->ct.strip.operand,
                           .lines = sn_contract_strip_lines(&b->ct, b->sc),
                           .step = sn_ix_scale(b->m, k, b->sc->tile_k)};
    sn_contract_put_box(b, at, &box);
}

sn_val sn_contract_in_row(sn_contract_binding *b, sn_cursor at, sn_val mask, uint32_t operand, const sn_axis *axes,
                          const sn_ix *with, uint32_t n) {
    const sn_contract_strip *s = &b->ct.strip;
    if (!s->taps || operand == s->operand) return mask;
    sn_axis x = sn_stmt_axis(b->m, b->ct.c.inner.at[b->ct.c.inner.n - 1]);
    return sn_contract_and(b, at, mask, true, sn_ix_subst(b->m, sn_ix_axis(b->m, x), axes, with, n), s->results);
}
