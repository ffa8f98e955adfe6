/* deal_bind.c: binding of class deal.
 *
 *     loop g : grid {                                                      N elements of the result
 *       loop t : block.x { loop u { loop v { store s[..], fill } } }       where parts leave something out
 *       loop t : block.x {
 *         loop u { loop v { load x0[V*(first piece of the block + t + T*u) + v]   store r0[..] } }      for each part; all loads first
 *         loop u { loop v { store s[place of that element mod N], r0[..] if it is the block's } }
 *         if t in rest { the elements of the storage behind its last piece }
 *       }
 *       loop t : block.x { loop u { loop v { the body; what it had from the parts is in s } } }
 *     }
 *
 * An element of a part is number e of it. Its digits, by the steps of the loops, are its place among these, so that
 *
 *     place(e) = start + stride of the innermost loop * e + sum over the others (what rows are apart by * (e div step))
 *
 * and the elements of a block are those from before(N*g) to before(N*(g + 1)): before(p) of them stand in front of p.
 */
#include "passes/schedule/moves/deal.h"
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"

typedef struct deal {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    const sn_schedule_shape *sh;
    sn_schedule_deal d;
    sn_buf shared, regs[SN_MAX_DEAL];
    sn_ix g;
    /* of a part: where the block's elements of it begin and end; its first piece */
    sn_ix low[SN_MAX_DEAL], end[SN_MAX_DEAL], piece[SN_MAX_DEAL];
} deal;

/* ---- which elements ---- */

static sn_ix between(sn_module *m, sn_ix e, int64_t most) {
    return sn_ix_min(m, sn_ix_max(m, e, sn_ix_const(m, 0)), sn_ix_const(m, most));
}

static bool is_cut(const sn_schedule_deal *d, const sn_schedule_deal_part *p, uint32_t k) {
    return p->box.n[k] != d->extents[k];
}

/* Elements of the part that stand in front of position e of the result. */
static sn_ix before(deal *b, const sn_schedule_deal_part *p, sn_ix e) {
    sn_module *m = b->m;
    const sn_schedule_deal *d = &b->d;
    sn_ix all = sn_ix_const(m, 0), at[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < d->axes; k++) {
        sn_ix digit = sn_ix_divc(m, e, d->strides[k]);
        if (k) digit = sn_ix_modc(m, digit, d->extents[k]);
        at[k] = sn_ix_addc(m, digit, -p->box.low[k]);
        sn_ix n = is_cut(d, p, k) ? between(m, at[k], p->box.n[k]) : at[k];
        for (uint32_t j = 0; j < k; j++) { /* none, where a loop further out is not in the part */
            if (!is_cut(d, p, j)) continue;
            sn_ix begun = between(m, sn_ix_addc(m, at[j], 1), 1);
            sn_ix lasts = between(m, sn_ix_addc(m, sn_ix_scale(m, at[j], -1), p->box.n[j]), 1);
            n = sn_ix_min(m, n, sn_ix_scale(m, begun, p->box.n[k]));
            n = sn_ix_min(m, n, sn_ix_scale(m, lasts, p->box.n[k]));
        }
        all = sn_ix_fma(m, p->steps[k], n, all);
    }
    return between(m, all, p->count);
}

static void find_ends(deal *b, uint32_t i) {
    sn_module *m = b->m;
    const sn_schedule_deal_part *p = &b->d.parts[i];
    sn_ix from = sn_ix_scale(m, b->g, b->d.block), to = sn_ix_addc(m, from, b->d.block);
    b->low[i] = before(b, p, from);
    b->end[i] = before(b, p, sn_ix_min(m, to, sn_ix_const(m, b->d.total)));
    b->piece[i] = sn_ix_divc(m, sn_ix_addc(m, b->low[i], p->first), b->d.piece);
}

/* Is number e of the part one of the block's, and before `most`? */
static sn_val put_mask(deal *b, sn_stmt into, uint32_t i, sn_ix e, int64_t most) {
    sn_module *m = b->m;
    sn_ix end = b->end[i];
    if (most < b->d.parts[i].count) end = sn_ix_min(m, end, sn_ix_const(m, most));
    sn_ix n = sn_ix_max(m, sn_ix_sub(m, end, b->low[i]), sn_ix_const(m, 0));
    return sn_put_in(m, sn_at_end(b->k, into), sn_ix_sub(m, e, b->low[i]), n);
}

/* Where number e of the part stands in the block's result, if it does. */
static sn_ix place_of(deal *b, uint32_t i, sn_ix e) {
    sn_module *m = b->m;
    const sn_schedule_deal_part *p = &b->d.parts[i];
    int64_t start = 0, inner = 0, row = 1; /* of the loop further in: its stride, by its elements */
    sn_ix place = sn_ix_const(m, 0);
    for (uint32_t k = b->d.axes; k-- > 0;) {
        start += p->box.low[k] * b->d.strides[k];
        if (p->box.n[k] == 1) continue;
        int64_t apart = b->d.strides[k] - (inner ? inner * (p->steps[k] / row) : 0);
        place = sn_ix_fma(m, apart, sn_ix_divc(m, e, p->steps[k]), place);
        inner = b->d.strides[k];
        row = p->steps[k];
    }
    return sn_ix_modc(m, sn_ix_addc(m, place, start), b->d.block);
}

/* ---- the block ---- */

static void put_fill(deal *b, sn_stmt into) {
    sn_module *m = b->m;
    const sn_schedule_deal *d = &b->d;
    int64_t v = b->cx->target->vector_bytes / d->bytes;
    sn_ix t = sn_open_loop_in(b->m, b->k, &into, "t", d->threads, SN_AXIS_BLOCK_X);
    sn_ix u = sn_open_loop_in(b->m, b->k, &into, "u", sn_ceil_div(d->block, v * d->threads), SN_AXIS_UNROLL);
    sn_ix at = sn_ix_fma(m, d->threads, u, t);
    if (d->block % (v * d->threads)) into = sn_put_if(m, sn_at_end(b->k, into), at, sn_ix_const(m, d->block / v));
    sn_ix lane = sn_open_loop_in(b->m, b->k, &into, "v", v, SN_AXIS_VECTOR);
    sn_cursor end = sn_at_end(b->k, into);
    sn_val fill = sn_is_float(d->dtype) ? sn_put_const(m, end, d->dtype, d->fill)
                                        : sn_put_const_int(m, end, d->dtype, d->fill_int);
    sn_put_store(m, end, b->shared, sn_ix_fma(m, v, at, lane), fill);
}

static int64_t pieces_of(deal *b, uint32_t i) {
    return sn_ix_value(b->m, sn_buf_get(b->m, b->d.parts[i].buf)->size) / b->d.piece;
}

/* Number of an element in the registers of a thread. */
static sn_ix kept(deal *b, uint32_t i, sn_ix t, sn_ix u, sn_ix lane) {
    int64_t v = b->d.piece;
    return sn_ix_fma(b->m, b->d.parts[i].turns * v, t, sn_ix_fma(b->m, v, u, lane));
}

/* Pieces behind the last one that has something for the block are that one once more. */
static void put_loads(deal *b, uint32_t i, sn_stmt into, sn_ix t) {
    sn_module *m = b->m;
    const sn_schedule_deal *d = &b->d;
    const sn_schedule_deal_part *p = &d->parts[i];
    sn_ix u = sn_open_loop_in(b->m, b->k, &into, "u", p->turns, SN_AXIS_UNROLL);
    sn_ix lane = sn_open_loop_in(b->m, b->k, &into, "v", d->piece, SN_AXIS_VECTOR);
    sn_ix last = sn_ix_divc(m, sn_ix_max(m, sn_ix_addc(m, b->end[i], p->first - 1), sn_ix_const(m, 0)), d->piece);
    last = sn_ix_min(m, last, sn_ix_const(m, pieces_of(b, i) - 1));
    sn_ix at = sn_ix_min(m, sn_ix_fma(m, d->threads, u, sn_ix_add(m, b->piece[i], t)), last);
    sn_cursor end = sn_at_end(b->k, into);
    sn_val x = sn_put_load(m, end, p->buf, sn_ix_fma(m, d->piece, at, lane));
    sn_put_store(m, end, b->regs[i], kept(b, i, t, u, lane), x);
}

/* One element after the other. */
static void put_single(deal *b, uint32_t i, sn_stmt into, sn_ix t, bool loads) {
    sn_module *m = b->m;
    const sn_schedule_deal *d = &b->d;
    const sn_schedule_deal_part *p = &d->parts[i];
    sn_ix u = sn_open_loop_in(b->m, b->k, &into, "u", p->turns, SN_AXIS_UNROLL);
    sn_ix e = sn_ix_fma(m, d->threads, u, sn_ix_add(m, b->low[i], t)), in = sn_ix_fma(m, p->turns, t, u);
    sn_val is_own = put_mask(b, into, i, e, p->count);
    sn_cursor end = sn_at_end(b->k, into);
    if (!loads) {
        sn_put_store_masked(m, end, b->shared, place_of(b, i, e), sn_put_load(m, end, b->regs[i], in), is_own);
        return;
    }
    sn_ix at = sn_ix_const(m, p->first), left = sn_ix_min(m, e, sn_ix_const(m, p->count - 1));
    for (uint32_t k = 0; k < d->axes; k++) {
        if (p->box.n[k] == 1) continue;
        at = sn_ix_fma(m, p->from[k], sn_ix_divc(m, left, p->steps[k]), at);
        left = sn_ix_modc(m, left, p->steps[k]);
    }
    sn_val none = sn_put_const(m, end, d->dtype, 0);
    sn_put_store(m, end, b->regs[i], in, sn_put_load_masked(m, end, p->buf, at, is_own, none));
}

static void put_places(deal *b, uint32_t i, sn_stmt into, sn_ix t) {
    sn_module *m = b->m;
    const sn_schedule_deal *d = &b->d;
    const sn_schedule_deal_part *p = &d->parts[i];
    sn_ix u = sn_open_loop_in(b->m, b->k, &into, "u", p->turns, SN_AXIS_UNROLL);
    sn_ix lane = sn_open_loop_in(b->m, b->k, &into, "v", d->piece, SN_AXIS_VECTOR);
    sn_ix at = sn_ix_fma(m, d->threads, u, sn_ix_add(m, b->piece[i], t));
    sn_ix e = sn_ix_addc(m, sn_ix_fma(m, d->piece, at, lane), -p->first);
    sn_val is_own = put_mask(b, into, i, e, pieces_of(b, i) * d->piece - p->first);
    sn_cursor end = sn_at_end(b->k, into);
    sn_val x = sn_put_load(m, end, b->regs[i], kept(b, i, t, u, lane));
    sn_put_store_masked(m, end, b->shared, place_of(b, i, e), x, is_own);
}

/* What the storage of a part has behind its last piece. */
static void put_rest(deal *b, uint32_t i, sn_stmt into, sn_ix t) {
    sn_module *m = b->m;
    const sn_schedule_deal_part *p = &b->d.parts[i];
    int64_t whole = pieces_of(b, i) * b->d.piece, rest = p->first + p->count - whole;
    if (rest <= 0) return;
    into = sn_put_if(m, sn_at_end(b->k, into), t, sn_ix_const(m, rest));
    sn_ix e = sn_ix_addc(m, t, whole - p->first), zero = sn_ix_const(m, 0);
    sn_val is_own = put_mask(b, into, i, e, p->count);
    sn_cursor end = sn_at_end(b->k, into);
    sn_val none = sn_put_const(m, end, b->d.dtype, 0);
    sn_ix at = sn_ix_min(m, sn_ix_addc(m, t, whole), sn_ix_const(m, p->first + p->count - 1));
    sn_val x = sn_put_load_masked(m, end, p->buf, sn_ix_max(m, at, zero), is_own, none);
    sn_put_store_masked(m, end, b->shared, place_of(b, i, e), x, is_own);
}

static void put_parts(deal *b, sn_stmt into) {
    sn_ix t = sn_open_loop_in(b->m, b->k, &into, "t", b->d.threads, SN_AXIS_BLOCK_X);
    const sn_schedule_deal_part *parts = b->d.parts;
    for (uint32_t i = 0; i < b->d.n; i++)
        if (parts[i].single) put_single(b, i, into, t, true);
        else put_loads(b, i, into, t);
    for (uint32_t i = 0; i < b->d.n; i++)
        if (parts[i].single) put_single(b, i, into, t, false);
        else put_places(b, i, into, t);
    for (uint32_t i = 0; i < b->d.n; i++)
        if (!parts[i].single) put_rest(b, i, into, t);
}

/* ---- all of it ---- */

static sn_buf new_buffer(deal *b, const char *what, uint32_t i, sn_buf_scope scope, int64_t own, int64_t copies) {
    const char *name = sn_strf(&b->m->arena, "%s_%s%u", sn_kern_get(b->m, b->k)->name, what, i);
    return sn_local_new(b->m, name, b->d.dtype, scope, own, copies);
}

void sn_schedule_deal_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    deal b = {.cx = cx, .m = cx->m, .k = k, .sh = sh};
    sn_schedule_deal *d = &b.d;
    sn_schedule_find_deal(d, cx, k, sh);
    sn_schedule_size_deal(d, sc->tile_m, sc->vector, sc->block_x);
    sn_stmt_vec body = {0};
    sn_schedule_take_body(&body, cx, k, sh);
    b.shared = new_buffer(&b, "s", 0, SN_BUF_SHARED, d->block, 1);
    for (uint32_t i = 0; i < d->n; i++) {
        int64_t own = d->parts[i].turns * (d->parts[i].single ? 1 : d->piece);
        b.regs[i] = new_buffer(&b, "r", i, SN_BUF_REG, own, d->threads);
    }
    sn_stmt into = {0};
    b.g = sn_open_loop_in(b.m, k, &into, "g", sn_ceil_div(d->total, d->block), SN_AXIS_GRID);
    for (uint32_t i = 0; i < d->n; i++) find_ends(&b, i);
    if (d->fills) put_fill(&b, into);
    put_parts(&b, into);
    sn_schedule_dealt all = {.cx = cx,
                             .k = k,
                             .sh = sh,
                             .shared = b.shared,
                             .g = b.g,
                             .top = d->top,
                             .block = d->block,
                             .total = d->total,
                             .stored = d->stored,
                             .threads = d->threads};
    sn_schedule_put_dealt(&all, into, &body);
}
