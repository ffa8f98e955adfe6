/* outer_sectors.c: class outer where lines begin inside of sectors: tiles of columns that store whole ones (`sectors`).
 *
 * Of a sector of which two tiles store a part memory reads the rest before it writes it. So a tile owns fewer columns than it has, and its stores of a
 * line are the elements whose sectors begin in its own columns:
 *
 *     line 0   0 1 2 3 | 4 5 6 7 8 9 a b | c d ..        tile t has columns own*t + (0 .. own+over-1), and all of their elements:
 *     line 1     0 1 | 2 3 4 5 6 7 8 9 | a b ..          reductions are those of whole columns
 *                                                        it stores (line, k) where k - (elements of k's sector in front of it), 0 at least, is
 *                                                        one of its own
 *
 * The first elements of a line, whose sector began in the line before, are the first tile's. So each element is stored by one tile, wherever its buffer begins.
 * What tiles have in common is loaded and computed twice; memory brings it once, since neighbours run together.
 *
 * Legal: what the kernel stores it does not load, as another tile may own it, and all lines begin at multiples of the vector. Relies on class outer (outer.c),
 * which binds the rest. Cost: linear in the kernel.
 */
#include "passes/base/nest.h"
#include "passes/schedule/base/figures.h"
#include "passes/schedule/rows/outer_keep.h"

static bool in_a_nest(const sn_module *m, const sn_schedule_shape *sh, sn_stmt s) {
    for (uint32_t i = 0; i < sh->n_nests; i++)
        if (sn_stmt_inside(m, s, sh->nests[i].top)) return true;
    return false;
}

/* Bytes of the smallest element that nests store, neighbours along a line; 0: there is none, or the kernel loads what it stores. */
static uint32_t least_stored(sn_module *m, sn_kern k, const sn_schedule_shape *sh) {
    uint32_t least = 0;
    int64_t c;
    sn_axis last = sn_stmt_axis(m, sh->outer.at[sh->outer.n - 1]);
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_stores(r) || sn_buf_is_local(sn_buf_get(m, r->buf))) continue;
        if (r->op != SN_LOP_STORE || sn_kern_loads(m, k, r->buf)) return 0;
        if (in_a_nest(m, sh, s) && sn_ix_coef(m, r->ix, last, &c) && c == 1)
            sn_schedule_smaller(&least, sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype));
    }
    return least;
}

bool sn_columns_overlap(sn_columns *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    *out = (sn_columns){.along = sn_last_outer_extent(cx, sh)};
    uint32_t bytes = sh->outer.n && cx->target->is_gpu ? least_stored(cx->m, k, sh) : 0;
    if (!bytes || bytes >= SN_SECTOR || out->along < 1) return false;
    out->grain = sn_pow2_divisor(out->along);
    if (out->grain >= SN_SECTOR / bytes) return false;
    out->over = SN_SECTOR / bytes - out->grain;
    return true;
}

int64_t sn_columns_own(const sn_columns *co, int64_t wide) {
    return wide < co->along && wide > co->over ? wide - co->over : wide;
}

sn_ix sn_columns_open(sn_pass_ctx *cx, sn_kern k, sn_columns *co, sn_stmt *into, int64_t lines, const sn_sched *sc) {
    sn_module *m = cx->m;
    int64_t v = sc->vector, tiles;
    co->own = sn_columns_own(co, v * sc->block_x);
    tiles = sn_ceil_div(co->along, co->own);
    sn_axis ag = sn_axis_new(m, "g", sn_ix_const(m, lines * tiles)),
            ax = sn_axis_new(m, "x", sn_ix_const(m, sc->block_x));
    *into = sn_put_loop(m, sn_at_end(k, *into), ag, SN_AXIS_GRID);
    *into = sn_put_loop(m, sn_at_end(k, *into), ax, SN_AXIS_BLOCK_X);
    sn_ix g = sn_ix_axis(m, ag), tile = sn_ix_modc(m, g, tiles);
    sn_ix number = sn_ix_fma(m, co->own / v, tile, sn_ix_axis(m, ax));
    co->first = sn_ix_scale(m, tile, co->own);
    co->column = sn_ix_scale(m, number, v);
    co->there = sn_ix_scale(m, sn_ix_min(m, number, sn_ix_const(m, co->along / v - 1)), v);
    co->x = ax;
    return sn_ix_fma(m, co->along, sn_ix_divc(m, g, tiles), co->there);
}

/* Elements in front of the vector in its sector, of which there are multiples of the grain; none where it is not stored along its line. */
static sn_ix in_front(sn_module *m, const sn_columns *co, const sn_stmt_rec *store, sn_axis lane) {
    int64_t sector = SN_SECTOR / sn_dtype_bytes(sn_buf_get(m, store->buf)->dtype), grain = co->grain;
    /* Of narrower results no tile has more of the next one. */
    if (sector > co->over + co->grain) sector = co->over + co->grain;
    if (grain > sector) grain = sector;
    sn_ix line = sn_ix_sub(m, store->ix, co->there);
    if (lane.i) line = sn_ix_sub(m, line, sn_ix_axis(m, lane));
    if (sn_ix_uses_axis(m, line, co->x) || (lane.i && sn_ix_uses_axis(m, line, lane)) || sn_ix_uses_vals(m, line))
        return sn_ix_const(m, 0);
    return sn_ix_scale(m, sn_ix_divc(m, sn_ix_modc(m, sn_ix_add(m, line, co->column), sector), grain), grain);
}

void sn_columns_mask(sn_module *m, const sn_columns *co, sn_stmt columns, sn_axis lane) {
    sn_stmt end = sn_stmt_walk_skip(m, columns);
    for (sn_stmt s = columns, next; s.i && s.i != end.i; s = next) {
        next = sn_stmt_walk_next(m, s);
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_STORE || sn_buf_is_local(sn_buf_get(m, r->buf))) continue;
        sn_cursor at = sn_at_before(m, s);
        sn_ix begins = sn_ix_max(m, sn_ix_sub(m, co->column, in_front(m, co, r, lane)), sn_ix_const(m, 0));
        sn_val owns = sn_put_in(m, at, sn_ix_sub(m, begins, co->first), sn_ix_const(m, co->own)),
               there = sn_put_in(m, at, co->column, sn_ix_const(m, co->along));
        owns = sn_put_op2(m, at, SN_LOP_AND, there, owns);
        r = sn_stmt_get(m, s);
        if (r->has_mask) owns = sn_put_op2(m, at, SN_LOP_AND, r->in[1], owns);
        sn_put_store_masked(m, at, r->buf, r->ix, r->in[0], owns);
        sn_stmt_unlink(m, s);
    }
}
