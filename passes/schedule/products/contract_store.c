/* contract_store.c: results of a tile that boxes cannot write, because rows of the array do not begin at multiples of 16 bytes, or the
 * array itself does not: they pass through shared memory too, and threads side by side write elements side by side.
 *
 *     shared results of 256 x 64     c: bf16[4095, 4097]
 *     loop x in 256 : block.x { loop w in 8 { loop u in 8 : unroll {
 *       %0 = load results[.. row 32*w + 4*u + x div 64, column x mod 64]   store c[4097*row + column], %0 if inside } } }
 *
 * A thread of a tensor core has two neighbours of eight rows: written from there, a store would touch eight lines for 64 bytes.
 * Vectors are as wide as rows are aligned. contract_bind.c decides; this relies on the columns being the contiguous axis.
 */
#include "passes/schedule/products/contract_bind.h"

/* Is the last axis of the columns the one along which the array is contiguous? */
bool sn_contract_stores_rows(const sn_contract_binding *b) {
    const sn_contraction *c = &b->ct.c;
    int64_t stride;
    if (!c->outer.n || c->side[c->outer.n - 1] != SN_SIDE_N) return false;
    return sn_ix_coef(b->m, b->store_ix, sn_stmt_axis(b->m, c->outer.at[c->outer.n - 1]), &stride) && stride == 1;
}

static uint32_t axes_at(sn_contract_binding *b, sn_axis *axes, sn_ix *with, sn_ix row, sn_ix column) {
    sn_contraction_place place = {b->batch, row, column, sn_ix_const(b->m, 0)};
    return sn_contraction_axes(axes, with, b->m, &b->ct.c, &place);
}

static sn_ix offset_at(sn_contract_binding *b, sn_ix row, sn_ix column) {
    sn_axis axes[2 * SN_MAX_CHAIN];
    sn_ix with[2 * SN_MAX_CHAIN];
    uint32_t n = axes_at(b, axes, with, row, column);
    return sn_ix_subst(b->m, b->store_ix, axes, with, n);
}

/* Do v columns from a multiple of v on lie side by side, aligned as far, and inside the array or outside together? */
static bool is_vector(sn_contract_binding *b, int64_t v) {
    sn_module *m = b->m;
    const sn_buf_rec *to = sn_buf_get(m, sn_stmt_get(m, b->store)->buf);
    const sn_contract_halo *h = &b->ct.halo;
    uint32_t at = b->ct.c.outer.n - 1;
    int64_t c, last = b->ct.c.extent[at];
    sn_axis row = sn_axis_new(m, "i", sn_ix_const(m, b->sc->tile_m)),
            number = sn_axis_new(m, "u", sn_ix_const(m, b->sc->tile_n / v)),
            lane = sn_axis_new(m, "v", sn_ix_const(m, v));
    sn_ix zero = sn_ix_const(m, 0), column = sn_ix_fma(b->m, v, sn_ix_axis(m, number), sn_ix_axis(m, lane));
    sn_ix e = offset_at(b, sn_ix_add(m, b->row, sn_ix_axis(m, row)), sn_ix_add(m, b->column, column));
    if (h->taps && h->axis == at && h->results % v) return false; /* pixels without a result follow */
    return last % v == 0 && to->align >= v * sn_dtype_bytes(to->dtype) && sn_ix_coef(m, e, lane, &c) && c == 1 &&
           sn_ix_is_multiple(m, sn_ix_subst(m, e, &lane, &zero, 1), v);
}

static int64_t vector_of(sn_contract_binding *b) {
    int64_t v = b->ct.cx->target->vector_bytes / sn_dtype_bytes(sn_buf_get(b->m, b->staged)->dtype);
    while (v > 1 && !is_vector(b, v)) v /= 2;
    return v;
}

void sn_contract_store_rows(sn_contract_binding *b, sn_cursor at, sn_ix p) {
    sn_module *m = b->m;
    int64_t v = vector_of(b), columns = b->sc->tile_n / b->n_parts, threads = b->nest.threads;
    int64_t turns = b->sc->tile_m * columns / (threads * v),
            inner = turns < SN_STORE_WRITTEN ? turns : SN_STORE_WRITTEN;
    while (turns % inner) inner--;
    sn_ix x = sn_contract_loop(b, &at, "x", threads, SN_AXIS_BLOCK_X), w = sn_ix_const(m, 0), lane = w;
    if (turns > inner) w = sn_contract_loop(b, &at, "w", turns / inner, SN_AXIS_SEQ);
    sn_ix turn = sn_ix_fma(b->m, inner, w, sn_contract_loop(b, &at, "u", inner, SN_AXIS_UNROLL));
    sn_ix number = sn_ix_fma(b->m, threads, turn, x), i = sn_ix_divc(m, number, columns / v);
    sn_ix first = sn_ix_scale(m, sn_ix_modc(m, number, columns / v), v);
    if (v > 1) lane = sn_contract_loop(b, &at, "v", v, SN_AXIS_VECTOR);
    sn_ix row = sn_ix_add(m, b->row, i), column = sn_ix_add(m, b->column, sn_ix_fma(b->m, columns, p, first));
    sn_axis axes[2 * SN_MAX_CHAIN];
    sn_ix with[2 * SN_MAX_CHAIN];
    uint32_t n = axes_at(b, axes, with, row, column);
    sn_val mask = sn_contract_and(b, at, (sn_val){0}, b->edge_m, row, b->ct.c.m);
    mask = sn_contract_and(b, at, mask, b->edge_n, column, b->ct.c.n);
    mask = sn_contract_in_image(b, at, mask, axes, with, n);
    sn_val value = sn_put_load(m, at, b->staged, sn_contract_staged_at(b, p, i, sn_ix_add(m, first, lane)));
    sn_ix to = offset_at(b, row, sn_ix_add(m, column, lane));
    sn_buf out = sn_stmt_get(m, b->store)->buf;
    if (mask.i) sn_put_store_masked(m, at, out, to, value, mask);
    else sn_put_store(m, at, out, to, value);
}
