/* contract_pixels.c: operands of a matrix product that are images, as convolutions have them, for class contract on
 * GPUs.
 *
 *     loop n { loop y { loop x { loop o { reduce s { reduce t { reduce c { .. image[n, y + s - 1, x + t - 1, c] if inside .. } } } } } } }
 *
 * Rows of the product (n, y, x) are pixels, steps of the sum (s, t, c) taps and channels. A box has as many pixels
 * as the tile has rows, and channels of one tap (ir/loop/box.h: lines that are pixels); a step of the pipe may have
 * boxes of several taps. Where the sum goes over pixels, as in the gradient of weights, lines are steps, and lanes
 * channels of one tap in the columns.
 *
 * Channels are counted in whole lines of 128, 64 or 32 bytes, those that waste least; what is beyond them is 0 in both
 * operands. A step of the pipe has lines of one length, and as many as divide all of them, so that no tap is beyond the
 * last one.
 *
 * Relies on channels being neighbours in memory, and on sn_contract_fits for whether boxes can be that.
 */
#include "passes/schedule/products/contract_bind.h"

#include <math.h>

static sn_axis innermost(const sn_contract *ct) { return sn_stmt_axis(ct->m, ct->c.inner.at[ct->c.inner.n - 1]); }

static const sn_stmt_rec *load_of(const sn_contract *ct, uint32_t i) {
    return sn_stmt_get(ct->m, ct->c.operands[i].load);
}

/* Are elements at these places of an operand something else than neighbours at one distance? Places: along the sum,
 * or its rows or columns. */
static bool is_bent(sn_contract *ct, uint32_t i, bool along) {
    sn_module *m = ct->m;
    const sn_contraction_operand *o = &ct->c.operands[i];
    int64_t n = along ? ct->c.k : o->right ? ct->c.n : ct->c.m, stride;
    sn_axis line = sn_axis_new(m, "i", sn_ix_const(m, n));
    sn_ix zero = sn_ix_const(m, 0);
    sn_contraction_place at = {zero, zero, zero, zero};
    *(along ? &at.step : o->right ? &at.column : &at.row) = sn_ix_axis(m, line);
    sn_axis axes[2 * SN_MAX_CHAIN];
    sn_ix with[2 * SN_MAX_CHAIN];
    uint32_t n_axes = sn_contraction_axes(axes, with, m, &ct->c, &at);
    return !sn_ix_coef(m, sn_ix_subst(m, load_of(ct, i)->ix, axes, with, n_axes), line, &stride);
}

/* ---- lines of channels ---- */

/* Elements of a step of the pipe, of lines so long, and at most so many; 0: there is no such step. As many lines as
 * fill 128 bytes, or a few more. */
static int64_t depth_of(const sn_contract *ct, int64_t line, int64_t lines, int64_t most) {
    int64_t whole = SN_LINE / sn_dtype_bytes(ct->c.operands[0].from), best = 0;
    for (int64_t q = 1; q <= lines && q * line <= most && best < whole; q++)
        if (lines % q == 0 && (!ct->n_terms || q * line == whole)) best = q * line;
    return best;
}

static int64_t padded(int64_t n, int64_t line) { return (n + line - 1) / line * line; }

/* Taps are all K axes but the innermost one. */
static bool choose_lines(sn_contract *ct) {
    sn_contraction *c = &ct->c;
    int64_t channels = c->k_extent[c->inner.n - 1], taps = c->k / channels, bytes = sn_dtype_bytes(c->operands[0].from);
    int64_t best = 0;
    for (int64_t line = SN_LINE / bytes; line * bytes >= SN_SECTOR; line /= 2) {
        bool better = !best || padded(channels, line) < padded(channels, best);
        if (better && depth_of(ct, line, taps * padded(channels, line) / line, 2 * SN_LINE / bytes)) best = line;
    }
    if (!best) return false;
    ct->line = best;
    c->k_extent[c->inner.n - 1] = padded(channels, best);
    c->k = taps * padded(channels, best);
    return true;
}

int64_t sn_contract_line(const sn_contract *ct) {
    if (ct->made) return SN_PIECES * SN_LINE / sn_dtype_bytes(ct->operand);
    return ct->line ? ct->line : SN_LINE / sn_dtype_bytes(ct->c.operands[0].from);
}

int64_t sn_contract_depth(const sn_contract *ct, int64_t most) {
    int64_t whole = ct->halo.taps ? ct->halo.line * ct->halo.taps : sn_contract_line(ct);
    if (ct->halo.taps) return whole <= most ? whole : 0;
    return ct->line ? depth_of(ct, ct->line, ct->c.k / ct->line, most) : whole <= most ? whole : 0;
}

bool sn_contract_divides(const sn_contract *ct, const sn_sched *sc) {
    return !ct->line || ct->c.k % ((int64_t)sc->tile_k * (sc->split > 1 ? sc->split : 1)) == 0;
}

static sn_val test_channel(const sn_contract *ct, sn_cursor at, sn_val mask, sn_axis channels, const sn_axis *axes,
                           const sn_ix *with, uint32_t n) {
    sn_ix channel = sn_ix_subst(ct->m, sn_ix_axis(ct->m, channels), axes, with, n);
    sn_val test = sn_put_in(ct->m, at, channel, sn_axis_get(ct->m, channels)->extent);
    return mask.i ? sn_put_op2(ct->m, at, SN_LOP_AND, mask, test) : test;
}

/* Of a tap, as lines have room for. */
static int64_t channels_of(const sn_contract *ct) { return ct->c.k_extent[ct->c.inner.n - 1]; }

bool sn_contract_pads_channels(const sn_contract *ct) {
    return ct->line && sn_ix_value(ct->m, sn_axis_get(ct->m, innermost(ct))->extent) != channels_of(ct);
}

sn_val sn_contract_in_channels(const sn_contract *ct, sn_cursor at, sn_val mask, const sn_axis *axes, const sn_ix *with,
                               uint32_t n) {
    return sn_contract_pads_channels(ct) ? test_channel(ct, at, mask, innermost(ct), axes, with, n) : mask;
}

/* ---- which operands ---- */

/* The axis along which neighbours of an operand stand that does not lie along the sum becomes the last one of its
 * side, so that lines of it are columns next to each other. */
static void order_side(sn_contract *ct, const sn_contraction_operand *o) {
    sn_contraction *c = &ct->c;
    const sn_stmt_rec *load = sn_stmt_get(ct->m, o->load);
    int64_t stride;
    if (sn_ix_coef(ct->m, load->ix, innermost(ct), &stride) && stride == 1) return;
    for (uint32_t i = 0; i < c->outer.n; i++) {
        if (!sn_ix_coef(ct->m, load->ix, sn_stmt_axis(ct->m, c->outer.at[i]), &stride) || stride != 1) continue;
        if (c->side[i] != (o->right ? SN_SIDE_N : SN_SIDE_M)) continue;
        sn_contraction_put_last(c, i);
    }
}

void sn_contract_order_sides(sn_contract *ct) {
    for (uint32_t i = 0; i < ct->c.n_operands; i++) order_side(ct, &ct->c.operands[i]);
}

static bool is_zero(const sn_contract *ct, sn_val v) {
    const sn_stmt_rec *r = sn_stmt_get(ct->m, sn_val_get(ct->m, v)->def);
    return r->op == SN_LOP_CONST && r->f == 0 && !signbit(r->f) && r->i == 0;
}

/* The first axis of the operand's side becomes one of batch, on which the other operands need not depend. */
static bool take_as_batch(sn_contract *ct, const sn_contraction_operand *o) {
    sn_contraction *c = &ct->c;
    sn_contraction_side side = o->right ? SN_SIDE_N : SN_SIDE_M;
    int64_t *all = o->right ? &c->n : &c->m;
    for (uint32_t i = 0; i < c->outer.n; i++) {
        if (c->side[i] != side || c->extent[i] == *all) continue;
        c->side[i] = SN_SIDE_BATCH;
        *all /= c->extent[i];
        c->batch = sn_mul_clamped(c->batch, c->extent[i]);
        return true;
    }
    return false;
}

void sn_contract_straighten(sn_contract *ct) {
    for (uint32_t i = 0; i < ct->c.n_operands; i++) {
        if (!ct->across[i] || load_of(ct, i)->has_mask) continue;
        while (is_bent(ct, i, false) && take_as_batch(ct, &ct->c.operands[i])) ct->images = true;
    }
}

bool sn_contract_find_pixels(const char **why_not, sn_contract *ct) {
    bool along = false;
    *why_not = "an operand has a prologue";
    for (uint32_t i = 0; i < ct->c.n_operands; i++) {
        const sn_stmt_rec *load = load_of(ct, i);
        bool computed =
            ct->made && !ct->c.operands[i].right; /* masks are for what is computed, not for what is brought */
        if (computed) continue;
        if (load->has_mask && !is_zero(ct, load->in[1])) return false;
        ct->pixels[i] = load->has_mask || is_bent(ct, i, ct->across[i]);
        ct->images |= ct->pixels[i];
        along |= ct->pixels[i] && !ct->across[i];
    }
    *why_not = "its channels fill no lines";
    return !along || ct->c.inner.n == 1 || choose_lines(ct);
}

/* ---- tiles ---- */

bool sn_contract_wants_whole_tiles(const sn_contract *ct, bool right) {
    bool wants = false;
    for (uint32_t i = 0; i < ct->c.n_operands; i++) {
        const sn_contraction_operand *o = &ct->c.operands[i];
        wants |= o->right == right && ct->pixels[i] && ct->across[i] && !load_of(ct, i)->has_mask;
    }
    return wants;
}

bool sn_contract_has_whole_tiles(const sn_contract *ct, const sn_sched *sc) {
    return (!sn_contract_wants_whole_tiles(ct, false) || ct->c.m % sc->tile_m == 0) &&
           (!sn_contract_wants_whole_tiles(ct, true) || ct->c.n % sc->tile_n == 0);
}

/* ---- boxes ---- */

sn_val sn_contract_put_pixel(sn_contract_binding *b, sn_cursor at, const sn_contract_box *box, sn_ix line, sn_ix lane) {
    sn_module *m = b->m;
    uint32_t i = box->operand;
    const sn_contraction_operand *o = &b->ct.c.operands[i];
    sn_contraction_place place = {b->batch, b->row, b->column, box->step};
    sn_ix *side = o->right ? &place.column : &place.row;
    *side = sn_ix_addc(m, *side, box->place);
    sn_ix *lines = b->across[i] ? &place.step : side, *lanes = b->across[i] ? side : &place.step;
    int64_t all = b->across[i] ? b->ct.c.k : o->right ? b->ct.c.n : b->ct.c.m;
    *lanes = sn_ix_add(m, *lanes, lane);
    *lines = sn_ix_val(m, sn_put_index(m, at, SN_I64, sn_ix_add(m, *lines, line)));
    sn_contraction_copier p;
    sn_contraction_copier_start(&p, b->ct.cx, at, b->n_vals);
    p.n = sn_contraction_axes(p.axes, p.with, m, &b->ct.c, &place);
    p.mask = sn_put_in(m, at, *lines, sn_ix_const(m, all));
    p.mask = sn_contract_in_row(b, at, p.mask, i, p.axes, p.with, p.n);
    /* Several lines of a tap that is tested: so are channels, for what is left of the offset to be nothing. */
    sn_axis channels = innermost(&b->ct);
    int64_t n = b->ct.line ? channels_of(&b->ct) : 0;
    bool windows = b->ct.halo.taps && b->ct.halo.channels != n; /* lanes of one are pixels of the next ones */
    if (b->across[i]) channels = sn_contraction_last_axis(&n, m, &b->ct.c, o->right ? SN_SIDE_N : SN_SIDE_M);
    if (load_of(&b->ct, i)->has_mask && !windows && n > sn_contract_operand_of(b, i).width)
        p.mask = test_channel(&b->ct, at, p.mask, channels, p.axes, p.with, p.n);
    else if (!b->across[i] && !windows) p.mask = sn_contract_in_channels(&b->ct, at, p.mask, p.axes, p.with, p.n);
    if (!b->across[i]) p.mask = sn_contract_and(b, at, p.mask, b->edge_k, place.step, b->ct.c.k);
    return sn_contraction_copy(&p, load_of(&b->ct, i)->result);
}
