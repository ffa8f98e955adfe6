/* flat_bind.c: binding of class flat: the rows of a block come to shared memory as one piece, and go back as one.
 *
 *     loop g : grid {                                       L elements of a block: tile_m rows
 *       loop y : block.y { loop x : block.x {               pieces of V elements, all threads side by side
 *         loop u { loop v { %0 = load b[L*g + e]   store s[e], %0 } } } }
 *       loop y : block.y { loop r in turns {                row = tile_m*g + Y*r + y
 *         the body, its nests over block.x; what it reads from b is in s, what it stores goes to t } }
 *       loop y : block.y { loop x : block.x { ... store c[M*g + e], t[e] } }
 *     }
 *
 * Rows along block.x have the body in loop x { loop r { ... } }, its nests over block.y, or over none. The last block
 * may have less: then its copies are loops of their own, with a test for each element. Rows beyond the last are computed
 * from the zeros that are there instead; what they access in memory is masked.
 */
#include "passes/schedule/figures.h"
#include "passes/schedule/flat.h"
#include "passes/schedule/schedules.h"

typedef struct flat {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_schedule_flat f;
    const sn_sched *sc;
    int64_t groups; /* of a block */
    int64_t blocks, whole; /* ... of which the first ones find all that they copy */
    sn_stmt grid;
    sn_ix g;
    sn_buf shared[SN_MAX_FLAT];
    int64_t room[SN_MAX_FLAT]; /* elements of these that an access may reach, as far as ranges tell (L14) */
} flat;

static sn_ix open_loop(flat *f, sn_stmt *into, const char *name, int64_t extent, sn_axis_kind kind) {
    bool needed = extent > 1 || kind == SN_AXIS_GRID || kind == SN_AXIS_BLOCK_X;
    if (!needed) return sn_ix_const(f->m, 0);
    sn_axis ax = sn_axis_new(f->m, name, sn_ix_const(f->m, extent));
    *into = sn_put_loop(f->m, sn_at_end(f->k, *into), ax, kind);
    return sn_ix_axis(f->m, ax);
}

/* ---- copies ---- */

/* Elements of a block in a buffer. */
static int64_t piece(const flat *f, uint32_t i) { return f->groups * f->f.bufs[i].group; }

/* Elements from the base of a buffer to the last one that is touched. Where loads have masks it may end before. */
static int64_t touched(const flat *f, uint32_t i) {
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    int64_t n = (f->f.groups - 1) * b->group + b->reach, size = sn_ix_value(f->m, sn_buf_get(f->m, b->buf)->size);
    return n < size - b->base ? n : size - b->base;
}

/* An access to shared memory is made. */
static void reach(flat *f, uint32_t i, sn_ix e) {
    int64_t end = sn_ix_range(f->m, e).hi + 1;
    if (end > f->room[i]) f->room[i] = end;
}

/* Element e of a block, `place` in shared memory. */
static void copy_element(flat *f, sn_stmt into, uint32_t i, sn_ix e, sn_ix place, bool masked) {
    sn_module *m = f->m;
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    sn_ix at = sn_ix_fma(m, piece(f, i), f->g, e), from = sn_ix_addc(m, at, b->base);
    sn_cursor end = sn_at_end(f->k, into);
    sn_val mask = {0};
    reach(f, i, place);
    if (masked) mask = sn_put_in(m, end, at, sn_ix_const(m, touched(f, i)));
    if (b->stored) {
        sn_val x = sn_put_load(m, end, f->shared[i], place);
        if (masked) sn_put_store_masked(m, end, b->buf, from, x, mask);
        else sn_put_store(m, end, b->buf, from, x);
        return;
    }
    sn_val zero = {0}, x;
    if (masked) zero = sn_put_const(m, end, sn_buf_get(m, b->buf)->dtype, 0);
    x = masked ? sn_put_load_masked(m, end, b->buf, from, mask, zero) : sn_put_load(m, end, b->buf, from);
    sn_put_store(m, end, f->shared[i], place, x);
}

/* What thread number `thread` copies of a buffer: every so-many-th piece. */
static void put_copy(flat *f, sn_stmt into, uint32_t i, sn_ix thread, bool masked) {
    enum { MOST_UNROLL = 8 };
    sn_module *m = f->m;
    int64_t v = f->f.bufs[i].vector, threads = (int64_t)f->sc->block_x * f->sc->block_y, n = piece(f, i) / v;
    int64_t steps = sn_ceil_div(n, threads), turns = sn_ceil_div(steps, MOST_UNROLL), unroll = sn_ceil_div(steps, turns);
    sn_ix uo = open_loop(f, &into, "uo", turns, SN_AXIS_SEQ), u = open_loop(f, &into, "u", unroll, SN_AXIS_UNROLL);
    sn_ix p = sn_ix_fma(m, threads, sn_ix_fma(m, unroll, uo, u), thread);
    if (turns * unroll * threads > n) into = sn_put_if(m, sn_at_end(f->k, into), p, sn_ix_const(m, n));
    sn_ix lane = open_loop(f, &into, "v", v, SN_AXIS_VECTOR);
    sn_ix e = sn_ix_fma(m, v, p, lane), place = e;
    if (f->f.bufs[i].gap) place = sn_ix_fma(m, f->f.bufs[i].gap, sn_ix_divc(m, p, f->f.bufs[i].group / v), e);
    copy_element(f, into, i, e, place, masked);
}

static void put_copies_of(flat *f, sn_stmt into, bool stored, bool masked) {
    sn_ix y = open_loop(f, &into, "y", f->sc->block_y, SN_AXIS_BLOCK_Y);
    sn_ix x = open_loop(f, &into, "x", f->sc->block_x, SN_AXIS_BLOCK_X);
    sn_ix thread = sn_ix_fma(f->m, f->sc->block_x, y, x);
    for (uint32_t i = 0; i < f->f.n; i++)
        if (f->f.bufs[i].stored == stored) put_copy(f, into, i, thread, masked);
}

static void put_copies(flat *f, bool stored) {
    sn_module *m = f->m;
    bool any = false;
    for (uint32_t i = 0; i < f->f.n; i++) any |= f->f.bufs[i].stored == stored;
    if (!any) return;
    if (f->whole == f->blocks) {
        put_copies_of(f, f->grid, stored, false);
        return;
    }
    sn_ix last = sn_ix_sub(m, f->g, sn_ix_const(m, f->whole)), one = sn_ix_const(m, 1);
    if (f->whole) put_copies_of(f, sn_put_if(m, sn_at_end(f->k, f->grid), f->g, sn_ix_const(m, f->whole)), stored, false);
    put_copies_of(f, f->whole ? sn_put_if(m, sn_at_end(f->k, f->grid), last, one) : f->grid, stored, true);
}

/* ---- the body ---- */

static void bind_nest(flat *f, const sn_schedule_nest *nest) {
    sn_level levels[4];
    uint32_t n = 0;
    const sn_sched *sc = f->sc;
    int64_t share = f->f.by_columns ? sc->block_y : sc->block_x, v = sc->vector, step = share * v;
    int64_t steps = sn_ceil_div(nest->count, step), unroll = sc->unroll < steps ? sc->unroll : steps;
    int64_t outer = unroll ? sn_ceil_div(steps, unroll) : 0;
    if (share > 1) levels[n++] = f->f.by_columns ? (sn_level){"y", share, v, SN_AXIS_BLOCK_Y}
                                                 : (sn_level){"x", share, v, SN_AXIS_BLOCK_X};
    if (outer != 1) levels[n++] = (sn_level){"uo", outer, unroll * step, SN_AXIS_SEQ};
    if (unroll > 1) levels[n++] = (sn_level){"u", unroll, step, SN_AXIS_UNROLL};
    if (v > 1) levels[n++] = (sn_level){"v", v, 1, SN_AXIS_VECTOR};
    if (n == 0) levels[n++] = (sn_level){"u", 1, 1, SN_AXIS_UNROLL};
    sn_nest_rebuild_masked(f->cx, f->k, nest->top, &nest->chain, nest->count, levels, n);
}

/* The access of a row is one to shared memory, if it is to what the block has there. */
static void redirect(flat *f, sn_stmt s, sn_ix row) {
    sn_module *m = f->m;
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    sn_axis g = {sn_ix_get(m, f->g)->id};
    sn_ix zero = sn_ix_const(m, 0);
    uint32_t i;
    if (!sn_schedule_is_flat(&f->f, r->buf, &i)) return;
    sn_ix e = sn_ix_subst(m, r->ix, &g, &zero, 1), moved = sn_ix_sub(m, r->ix, e);
    if (!sn_ix_eq(moved, sn_ix_scale(m, f->g, piece(f, i)))) return;
    e = sn_ix_addc(m, e, -f->f.bufs[i].base);
    if (f->f.bufs[i].gap) e = sn_ix_fma(m, f->f.bufs[i].gap, row, e); /* a group is a row there */
    reach(f, i, e);
    sn_cursor at = sn_at_before(m, s);
    sn_val mask = sn_stmt_mask(r);
    if (r->op == SN_LOP_STORE && mask.i) sn_put_store_masked(m, at, f->shared[i], e, r->in[0], mask);
    else if (r->op == SN_LOP_STORE) sn_put_store(m, at, f->shared[i], e, r->in[0]);
    else if (mask.i) sn_val_replace(m, f->k, r->result, sn_put_load_masked(m, at, f->shared[i], e, r->in[0], r->in[1]));
    else sn_val_replace(m, f->k, r->result, sn_put_load(m, at, f->shared[i], e));
    sn_stmt_unlink(m, s);
}

static void redirect_all(flat *f, const sn_stmt_vec *body, sn_ix row) {
    for (uint32_t i = 0; i < body->n; i++) {
        sn_stmt end = sn_stmt_walk_skip(f->m, body->at[i]);
        for (sn_stmt s = body->at[i], next; s.i && s.i != end.i; s = next) {
            next = sn_stmt_walk_next(f->m, s);
            if (sn_is_access(sn_stmt_get(f->m, s))) redirect(f, s, row);
        }
    }
}

/* `into` and the position of the row among those of the block. */
static sn_ix open_rows(flat *f, sn_stmt *into) {
    sn_module *m = f->m;
    const sn_sched *sc = f->sc;
    bool columns = f->f.by_columns;
    int64_t at_a_time = columns ? sc->block_x : sc->block_y, turns = sn_ceil_div(sc->tile_m, at_a_time);
    sn_ix t = columns ? open_loop(f, into, "x", at_a_time, SN_AXIS_BLOCK_X)
                      : open_loop(f, into, "y", at_a_time, SN_AXIS_BLOCK_Y);
    sn_ix row = sn_ix_fma(m, at_a_time, open_loop(f, into, "r", turns, SN_AXIS_SEQ), t);
    if (turns * at_a_time > sc->tile_m) *into = sn_put_if(m, sn_at_end(f->k, *into), row, sn_ix_const(m, sc->tile_m));
    return row;
}

static void put_body(flat *f, const sn_stmt_vec *body, const sn_schedule_shape *sh) {
    sn_module *m = f->m;
    sn_stmt into = f->grid;
    sn_ix in_block = open_rows(f, &into), row = sn_ix_fma(m, f->sc->tile_m, f->g, in_block);
    bool partial = sh->rows % f->sc->tile_m != 0;
    sn_val mask = {0};
    if (partial) mask = sn_put_in(m, sn_at_end(f->k, into), row, sn_ix_const(m, sh->rows));
    for (uint32_t i = 0; i < body->n; i++) sn_stmt_insert(m, sn_at_end(f->k, into), body->at[i]);
    sn_schedule_subst_outer(f->cx, body, sh, row);
    redirect_all(f, body, in_block);
    if (partial) sn_mask_accesses(f->cx, f->k, into, mask, true);
}

static void new_shared(flat *f) {
    for (uint32_t i = 0; i < f->f.n; i++) {
        sn_ix size = sn_ix_const(f->m, piece(f, i));
        const char *name = sn_strf(&f->m->arena, "%s_s%u", sn_kern_get(f->m, f->k)->name, i);
        f->shared[i] = sn_buf_new(f->m, name, sn_buf_get(f->m, f->f.bufs[i].buf)->dtype, SN_BUF_SHARED, &size, 1);
    }
}

/* Tests keep accesses inside the piece, but what has no test yet would be out of bounds: there is room for that. */
static void size_shared(flat *f) {
    for (uint32_t i = 0; i < f->f.n; i++) {
        sn_buf_rec *b = sn_buf_get(f->m, f->shared[i]);
        b->shape[0] = b->size = sn_ix_const(f->m, f->room[i]);
        b->private_size = (uint32_t)f->room[i];
    }
}

void sn_schedule_flat_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    flat f = {.cx = cx, .m = cx->m, .k = k, .sc = sc};
    sn_schedule_find_flat(&f.f, cx, k, sh);
    f.groups = sc->tile_m / f.f.inner;
    f.blocks = sn_ceil_div(f.f.groups, f.groups);
    f.whole = f.blocks;
    for (uint32_t i = 0; i < f.f.n; i++)
        if (touched(&f, i) / piece(&f, i) < f.whole) f.whole = touched(&f, i) / piece(&f, i);
    for (uint32_t i = 0; i < sh->n_nests; i++) bind_nest(&f, &sh->nests[i]);
    sn_stmt_vec body = {0};
    sn_schedule_take_body(&body, cx, k, sh);
    f.g = open_loop(&f, &f.grid, "g", f.blocks, SN_AXIS_GRID);
    new_shared(&f);
    put_copies(&f, false);
    put_body(&f, &body, sh);
    put_copies(&f, true);
    size_shared(&f);
}
