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
#include "passes/schedule/base/figures.h"
#include "passes/schedule/rows/flat.h"
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/rows/rows.h"

typedef struct flat {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_schedule_flat f;
    const sn_schedule_shape *sh;
    const sn_sched *sc;
    int64_t groups;        /* of a block */
    int64_t blocks, whole; /* along the groups; of which the first ones find all that they copy */
    sn_stmt grid;
    sn_ix g;                    /* block along the groups */
    sn_ix origin[SN_MAX_CHAIN]; /* of the outer loops before the one that `g` counts; with one count for all: none */
    sn_axis axes[SN_MAX_CHAIN]; /* of the outer loops */
    sn_ix row, group;           /* of this turn of a thread, in the block */
    sn_stmt turns;              /* the loop over those; none: there is one alone */
    sn_buf shared[SN_MAX_FLAT];
} flat;

/* ---- copies ---- */

/* Elements of shared memory from line to line. */
static int64_t pitch(const flat *f, const sn_schedule_flat_buf *b) { return f->groups * b->group + b->gap; }

/* Lines that a block copies, and vectors of each. */
static int64_t lines_of(const sn_schedule_flat_buf *b) { return b->count / b->group; }
static int64_t of_line(const flat *f, const sn_schedule_flat_buf *b) {
    return f->groups * b->group / b->vector + b->moved;
}

/* Elements of a block in a buffer; what they take of shared memory; vectors that they are. */
static int64_t piece(const flat *f, uint32_t i) { return f->groups * f->f.bufs[i].count; }
static int64_t vectors(const flat *f, uint32_t i) {
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    int64_t around =
        b->moved ? 2 * ((int64_t)b->vector - 1) : 0; /* of a piece that begins and ends inside of vectors */
    return b->lines ? lines_of(b) * of_line(f, b) : (piece(f, i) + around) / b->vector;
}
static int64_t room(const flat *f, uint32_t i) {
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    if (b->lines) return lines_of(b) * pitch(f, b);
    return b->moved ? vectors(f, i) * b->vector : piece(f, i);
}

/* Groups times what one has, up to the last element that is touched. Where loads have masks the buffer may end before. */
static int64_t touched(const flat *f, uint32_t i) {
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    if (b->lines) return f->f.along * b->group;
    int64_t n = (f->f.along - 1) * b->group + b->reach, size = sn_ix_value(f->m, sn_buf_get(f->m, b->buf)->size);
    return f->f.lines || n < size - b->base ? n : size - b->base;
}

/* One element between memory and `place`. */
static void copy_element(flat *f, sn_stmt into, uint32_t i, sn_ix from, sn_ix place, sn_val mask) {
    sn_module *m = f->m;
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    sn_cursor end = sn_at_end(f->k, into);
    if (b->stored) {
        sn_val x = sn_put_load(m, end, f->shared[i], place);
        if (mask.i) sn_put_store_masked(m, end, b->buf, from, x, mask);
        else sn_put_store(m, end, b->buf, from, x);
        return;
    }
    sn_val zero = {0}, x;
    if (mask.i) zero = sn_put_const(m, end, sn_buf_get(m, b->buf)->dtype, 0);
    x = mask.i ? sn_put_load_masked(m, end, b->buf, from, mask, zero) : sn_put_load(m, end, b->buf, from);
    sn_put_store(m, end, f->shared[i], place, x);
}

/* Where the block's part of a buffer begins, without what `g` adds. */
static sn_ix start_of(flat *f, uint32_t i) {
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    sn_ix e = sn_ix_const(f->m, b->base);
    for (uint32_t k = 0; f->f.lines && k + 1 < f->f.prefix; k++) e = sn_ix_fma(f->m, b->others[k], f->origin[k], e);
    return e;
}

/* Where line number `line` begins, without what `g` adds. */
static sn_ix start_of_line(flat *f, uint32_t i, sn_ix line) {
    sn_module *m = f->m;
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    sn_ix extents[SN_FLAT_AXES], parts[SN_FLAT_AXES], from = start_of(f, i);
    for (uint32_t k = 0; k < b->n_axes; k++) extents[k] = sn_ix_const(m, b->extents[k]);
    sn_ix_unflatten(m, line, extents, b->n_axes, parts);
    for (uint32_t k = 0; k < b->n_axes; k++) from = sn_ix_fma(m, b->strides[k], parts[k], from);
    return from;
}

/* Where elements of a line are in shared memory. */
static sn_ix place_in_line(flat *f, uint32_t i, sn_ix line, sn_ix within) {
    return sn_ix_fma(f->m, pitch(f, &f->f.bufs[i]), line, within);
}

/* Vector p of the block's lines: those that begin inside of one come with it, as far as the buffer goes. */
static void copy_of_lines(flat *f, sn_stmt into, uint32_t i, sn_ix p, bool masked) {
    sn_module *m = f->m;
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    sn_ix line = sn_ix_divc(m, p, of_line(f, b)), q = sn_ix_modc(m, p, of_line(f, b));
    sn_ix from = start_of_line(f, i, line), size = sn_buf_get(m, b->buf)->size;
    sn_ix lane = sn_open_loop_in(m, f->k, &into, "v", b->vector, SN_AXIS_VECTOR);
    sn_ix within = sn_ix_fma(m, b->vector, q, lane), at = sn_ix_fma(m, f->groups * b->group, f->g, within);
    sn_val mask = {0};
    if (b->moved) {
        sn_ix first = sn_ix_divc(m, sn_ix_fma(m, f->groups * b->group, f->g, from), b->vector);
        from = sn_ix_fma(m, b->vector, first, within);
        if (sn_ix_range(m, from).hi >= sn_ix_value(m, size)) mask = sn_put_in(m, sn_at_end(f->k, into), from, size);
    } else {
        from = sn_ix_add(m, from, at);
        if (masked) mask = sn_put_in(m, sn_at_end(f->k, into), at, sn_ix_const(m, touched(f, i)));
    }
    copy_element(f, into, i, from, place_in_line(f, i, line, within), mask);
}

/* Vector p of those that lines which begin inside of one have whole. */
static void store_whole(flat *f, sn_stmt into, uint32_t i, sn_ix p) {
    sn_module *m = f->m;
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    int64_t wide = f->groups * b->group, v = b->vector;
    sn_ix line = sn_ix_divc(m, p, wide / v), q = sn_ix_modc(m, p, wide / v);
    sn_ix start = sn_ix_fma(m, wide, f->g, start_of_line(f, i, line));
    sn_ix late = sn_ix_divc(m, sn_ix_addc(m, sn_ix_modc(m, start, v), v - 1), v);
    into = sn_put_if(m, sn_at_end(f->k, into), sn_ix_add(m, q, late), sn_ix_const(m, wide / v));
    sn_ix lane = sn_open_loop_in(m, f->k, &into, "v", v, SN_AXIS_VECTOR);
    sn_ix number = sn_ix_add(m, q, sn_ix_divc(m, sn_ix_addc(m, start, v - 1), v));
    sn_ix place = place_in_line(f, i, line, sn_ix_fma(m, v, sn_ix_add(m, q, late), lane));
    copy_element(f, into, i, sn_ix_fma(m, v, number, lane), place, (sn_val){0});
}

/* Element p of what is left at both ends of such lines: together a vector. Threads that have none ask for no room behind the last line. */
static void store_ends(flat *f, sn_stmt into, uint32_t i, sn_ix p) {
    sn_module *m = f->m;
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    int64_t wide = f->groups * b->group, v = b->vector;
    sn_ix last = sn_ix_const(m, lines_of(b) - 1);
    sn_ix line = sn_ix_min(m, sn_ix_divc(m, p, v), last), e = sn_ix_modc(m, p, v);
    sn_ix start = sn_ix_fma(m, wide, f->g, start_of_line(f, i, line)), lead = sn_ix_modc(m, start, v);
    into = sn_put_if(m, sn_at_end(f->k, into), sn_ix_addc(m, lead, -1), sn_ix_const(m, v));
    e = sn_ix_fma(m, wide - v, sn_ix_divc(m, sn_ix_add(m, e, lead), v), e);
    copy_element(f, into, i, sn_ix_add(m, start, e), place_in_line(f, i, line, sn_ix_add(m, lead, e)), (sn_val){0});
}

/* Element p of such lines, of which the last block has less. */
static void store_single(flat *f, sn_stmt into, uint32_t i, sn_ix p) {
    sn_module *m = f->m;
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    int64_t wide = f->groups * b->group;
    sn_ix line = sn_ix_divc(m, p, wide), e = sn_ix_modc(m, p, wide);
    sn_ix from = start_of_line(f, i, line), at = sn_ix_fma(m, wide, f->g, e);
    sn_ix lead = sn_ix_modc(m, from, b->vector);
    into = sn_put_if(m, sn_at_end(f->k, into), at, sn_ix_const(m, touched(f, i)));
    copy_element(f, into, i, sn_ix_add(m, from, at), place_in_line(f, i, line, sn_ix_add(m, lead, e)), (sn_val){0});
}

/* Where the block's piece begins, and how far behind the start of a vector. */
static sn_ix start_of_piece(flat *f, uint32_t i) { return sn_ix_fma(f->m, piece(f, i), f->g, start_of(f, i)); }
static sn_ix lead_of_piece(flat *f, uint32_t i) { return sn_ix_modc(f->m, start_of_piece(f, i), f->f.bufs[i].vector); }

/* Vector p of those around the block's piece, as far as the buffer goes. */
static void copy_around_piece(flat *f, sn_stmt into, uint32_t i, sn_ix p) {
    sn_module *m = f->m;
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    sn_ix lane = sn_open_loop_in(m, f->k, &into, "v", b->vector, SN_AXIS_VECTOR);
    sn_ix place = sn_ix_fma(m, b->vector, p, lane), size = sn_buf_get(m, b->buf)->size;
    sn_ix from = sn_ix_fma(m, b->vector, sn_ix_divc(m, start_of_piece(f, i), b->vector), place);
    bool inside = sn_ix_range(m, from).hi < sn_ix_value(m, size);
    copy_element(f, into, i, from, place, inside ? (sn_val){0} : sn_put_in(m, sn_at_end(f->k, into), from, size));
}

/* Vector p of those that such a piece has whole. */
static void store_whole_of_piece(flat *f, sn_stmt into, uint32_t i, sn_ix p) {
    sn_module *m = f->m;
    int64_t v = f->f.bufs[i].vector;
    sn_ix start = start_of_piece(f, i), lead = lead_of_piece(f, i);
    sn_ix q = sn_ix_add(m, p, sn_ix_divc(m, sn_ix_addc(m, lead, v - 1), v));
    into = sn_put_if(m, sn_at_end(f->k, into), q, sn_ix_divc(m, sn_ix_addc(m, lead, piece(f, i)), v));
    sn_ix lane = sn_open_loop_in(m, f->k, &into, "v", v, SN_AXIS_VECTOR), place = sn_ix_fma(m, v, q, lane);
    copy_element(f, into, i, sn_ix_fma(m, v, sn_ix_divc(m, start, v), place), place, (sn_val){0});
}

/* Element p of what is left at its begin, number p - V of what is left at its end; fewer than a vector each. */
static void store_ends_of_piece(flat *f, sn_stmt into, uint32_t i, sn_ix p) {
    sn_module *m = f->m;
    int64_t v = f->f.bufs[i].vector;
    sn_ix start = start_of_piece(f, i), lead = lead_of_piece(f, i), end = sn_ix_addc(m, lead, piece(f, i));
    sn_ix first = sn_ix_scale(m, sn_ix_divc(m, start, v), v), of_end = sn_ix_addc(m, p, -v);
    sn_stmt begins = sn_put_if(m, sn_at_end(f->k, into), sn_ix_addc(m, lead, -1), sn_ix_const(m, v));
    begins = sn_put_if(m, sn_at_end(f->k, begins), sn_ix_add(m, lead, p), sn_ix_const(m, v));
    sn_ix place = sn_ix_add(m, lead, p);
    copy_element(f, begins, i, sn_ix_add(m, first, place), place, (sn_val){0});
    sn_stmt ends = sn_put_if(m, sn_at_end(f->k, into), of_end, sn_ix_modc(m, end, v));
    place = sn_ix_fma(m, v, sn_ix_divc(m, end, v), of_end);
    copy_element(f, ends, i, sn_ix_add(m, first, place), place, (sn_val){0});
}

/* Element p of such a piece, of which the last block has less. */
static void store_single_of_piece(flat *f, sn_stmt into, uint32_t i, sn_ix p) {
    sn_module *m = f->m;
    sn_ix at = sn_ix_fma(m, piece(f, i), f->g, p);
    into = sn_put_if(m, sn_at_end(f->k, into), at, sn_ix_const(m, touched(f, i)));
    copy_element(f, into, i, sn_ix_add(m, start_of(f, i), at), sn_ix_add(m, lead_of_piece(f, i), p), (sn_val){0});
}

/* Vector p of the block's piece. */
static void copy_of_piece(flat *f, sn_stmt into, uint32_t i, sn_ix p, bool masked) {
    sn_module *m = f->m;
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    int64_t v = b->vector;
    sn_ix lane = sn_open_loop_in(f->m, f->k, &into, "v", v, SN_AXIS_VECTOR);
    sn_ix place = sn_ix_fma(m, v, p, lane), at = sn_ix_fma(m, piece(f, i), f->g, place);
    if (b->gap) place = sn_ix_fma(m, b->gap, sn_ix_divc(m, p, b->group / v), place);
    sn_val mask = {0};
    if (masked) mask = sn_put_in(m, sn_at_end(f->k, into), at, sn_ix_const(m, touched(f, i)));
    copy_element(f, into, i, sn_ix_add(m, start_of(f, i), at), place, mask);
}

/* The loops over every so-many-th of n, that thread number `thread` has; returns its number. */
static sn_ix open_turns(flat *f, sn_stmt *into, int64_t n, sn_ix thread) {
    sn_module *m = f->m;
    int64_t threads = (int64_t)f->sc->block_x * f->sc->block_y;
    int64_t steps = sn_ceil_div(n, threads), turns = sn_ceil_div(steps, SN_FLAT_UNROLL),
            unroll = sn_ceil_div(steps, turns);
    sn_ix uo = sn_open_loop_in(f->m, f->k, into, "uo", turns, SN_AXIS_SEQ);
    sn_ix u = sn_open_loop_in(f->m, f->k, into, "u", unroll, SN_AXIS_UNROLL);
    sn_ix p = sn_ix_fma(m, threads, sn_ix_fma(m, unroll, uo, u), thread);
    if (turns * unroll * threads > n) *into = sn_put_if(m, sn_at_end(f->k, *into), p, sn_ix_const(m, n));
    return p;
}

/* A piece that begins anywhere. */
static void put_moved_piece(flat *f, sn_stmt into, uint32_t i, sn_ix thread, bool masked) {
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    sn_stmt ends = into;
    if (!b->stored) {
        sn_ix p = open_turns(f, &into, vectors(f, i), thread);
        copy_around_piece(f, into, i, p);
    } else if (masked) {
        sn_ix p = open_turns(f, &into, piece(f, i), thread);
        store_single_of_piece(f, into, i, p);
    } else {
        sn_ix p = open_turns(f, &into, piece(f, i) / b->vector, thread);
        store_whole_of_piece(f, into, i, p);
        p = open_turns(f, &ends, 2 * (int64_t)b->vector, thread);
        store_ends_of_piece(f, ends, i, p);
    }
}

static void put_copy(flat *f, sn_stmt into, uint32_t i, sn_ix thread, bool masked) {
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    sn_stmt ends = into;
    if (b->moved && !b->lines) {
        put_moved_piece(f, into, i, thread, masked);
        return;
    }
    int64_t lines = lines_of(b), wide = f->groups * b->group;
    if (b->moved && b->stored && masked) {
        sn_ix p = open_turns(f, &into, lines * wide, thread);
        store_single(f, into, i, p);
    } else if (b->moved && b->stored) {
        sn_ix p = open_turns(f, &into, lines * (wide / b->vector), thread);
        store_whole(f, into, i, p);
        p = open_turns(f, &ends, lines * b->vector, thread);
        store_ends(f, ends, i, p);
    } else {
        sn_ix p = open_turns(f, &into, vectors(f, i), thread);
        if (b->lines) copy_of_lines(f, into, i, p, masked);
        else copy_of_piece(f, into, i, p, masked);
    }
}

static void put_copies_of(flat *f, sn_stmt into, bool stored, bool masked) {
    sn_ix y = sn_open_loop_in(f->m, f->k, &into, "y", f->sc->block_y, SN_AXIS_BLOCK_Y);
    sn_ix x = sn_open_loop_in(f->m, f->k, &into, "x", f->sc->block_x, SN_AXIS_BLOCK_X);
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
    if (f->whole)
        put_copies_of(f, sn_put_if(m, sn_at_end(f->k, f->grid), f->g, sn_ix_const(m, f->whole)), stored, false);
    put_copies_of(f, f->whole ? sn_put_if(m, sn_at_end(f->k, f->grid), last, one) : f->grid, stored, true);
}

/* ---- the body ---- */

/* Elements of a row that are read at once. */
static int64_t of_row(const flat *f) { return f->f.lanes > 1 ? 1 : f->sc->vector; }

static void bind_nest(flat *f, sn_schedule_nest *nest) {
    sn_level levels[4];
    uint32_t n = 0;
    const sn_sched *sc = f->sc;
    int64_t share = f->f.by_columns ? sc->block_y : sc->block_x, v = of_row(f), step = share * v;
    int64_t steps = sn_ceil_div(nest->count, step), unroll = sc->unroll < steps ? sc->unroll : steps;
    int64_t outer = unroll ? sn_ceil_div(steps, unroll) : 0;
    if (share > 1)
        levels[n++] =
            f->f.by_columns ? (sn_level){"y", share, v, SN_AXIS_BLOCK_Y} : (sn_level){"x", share, v, SN_AXIS_BLOCK_X};
    if (outer != 1) levels[n++] = (sn_level){"uo", outer, unroll * step, SN_AXIS_SEQ};
    if (unroll > 1) levels[n++] = (sn_level){"u", unroll, step, SN_AXIS_UNROLL};
    if (v > 1) levels[n++] = (sn_level){"v", v, 1, SN_AXIS_VECTOR};
    if (n == 0) levels[n++] = (sn_level){"u", 1, 1, SN_AXIS_UNROLL};
    nest->top = sn_nest_rebuild_masked(f->cx, f->k, nest->top, &nest->chain, nest->count, levels, n);
}

/* What several nests read of a row comes to registers once, where threads share rows; else the compiler sees that by itself. */
static void keep_elements(flat *f, const sn_schedule_shape *sh, sn_stmt rows) {
    uint32_t least = 0;
    for (uint32_t i = 0; i < f->f.n; i++)
        if (!f->f.bufs[i].stored)
            sn_schedule_smaller(&least, sn_dtype_bytes(sn_buf_get(f->m, f->f.bufs[i].buf)->dtype));
    if (f->f.by_columns || f->sc->block_x < 2 || sh->n_nests < 2) return;
    sn_schedule_stage(f->cx, f->k, sh, rows, f->sc, SN_KEPT_BYTES * sn_least(least, SN_WORD) / SN_WORD);
}

/* ---- weights ---- */

/* A nest over the threads of a row: its loops, and those of a copy of it. */
typedef struct levels {
    sn_stmt at[SN_MAX_LEVELS], copy[SN_MAX_LEVELS];
    uint32_t n;
    int64_t own; /* elements of a thread; 0: they are walked */
} levels;

static void find_levels(levels *lv, const sn_module *m, sn_stmt top) {
    *lv = (levels){.own = 1};
    for (sn_stmt s = top; s.i && lv->n < SN_MAX_LEVELS;) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->kind == SN_AXIS_SEQ) lv->own = 0;
        if (r->kind != SN_AXIS_BLOCK_X) lv->own *= sn_ix_value(m, sn_stmt_extent(m, s));
        lv->at[lv->n++] = s;
        sn_stmt inner = {0};
        for (sn_stmt t = r->first; t.i; t = sn_next(m, t))
            if (sn_lop_has_region(sn_stmt_get(m, t)->op)) inner = t;
        s = inner;
    }
}

/* Is the load alike in all turns, of an element that the loops of the nest alone say, with no mask or a test by these? */
static bool is_weight(const flat *f, const levels *lv, sn_stmt s) {
    const sn_module *m = f->m;
    const sn_stmt_rec *r = sn_stmt_get(m, s), *mask = NULL;
    if (r->op != SN_LOP_LOAD || sn_ix_uses_vals(m, r->ix) || sn_buf_is_local(sn_buf_get(m, r->buf))) return false;
    if (r->has_mask) mask = sn_stmt_get(m, sn_val_get(m, r->in[0])->def);
    if (mask && (mask->op != SN_LOP_IN || sn_stmt_get(m, sn_val_get(m, r->in[1])->def)->op != SN_LOP_CONST))
        return false;
    for (uint32_t i = 0; i < f->f.n; i++)
        if (sn_buf_eq(r->buf, f->shared[i])) return false;
    bool moved = false;
    for (uint32_t k = 0; k < lv->n; k++) moved |= sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, lv->at[k]));
    for (sn_stmt t = sn_stmt_get(m, lv->at[0])->parent; t.i; t = sn_stmt_get(m, t)->parent) {
        sn_axis ax = sn_stmt_get(m, t)->axis;
        if (ax.i && (sn_ix_uses_axis(m, r->ix, ax) || (mask && sn_ix_uses_axis(m, mask->ix, ax)))) return false;
    }
    return moved && sn_stmt_get(m, s)->parent.i == lv->at[lv->n - 1].i && !sn_kern_stores(m, f->k, r->buf);
}

/* Offset in a reg buffer of `own` elements of each thread; of: the loops of the nest or of its copy. */
static sn_ix own_offset(const flat *f, const levels *lv, const sn_stmt *of) {
    sn_module *m = f->m;
    int64_t rest = lv->own;
    sn_ix e = sn_ix_const(m, 0);
    sn_stmt rows = sn_stmt_get(m, f->grid)->last;
    for (uint32_t k = 0; k < lv->n; k++) {
        bool thread = sn_stmt_get(m, of[k])->kind == SN_AXIS_BLOCK_X;
        if (!thread) rest /= sn_ix_value(m, sn_stmt_extent(m, of[k]));
        e = sn_ix_fma(m, thread ? lv->own : rest, sn_ix_axis(m, sn_stmt_axis(m, of[k])), e);
    }
    if (sn_stmt_get(m, rows)->kind != SN_AXIS_BLOCK_Y) return e;
    return sn_ix_fma(m, lv->own * f->sc->block_x, sn_ix_axis(m, sn_stmt_axis(m, rows)), e);
}

static void open_copy(flat *f, levels *lv) {
    sn_module *m = f->m;
    sn_cursor at = sn_at_before(m, f->turns);
    for (uint32_t k = 0; k < lv->n; k++) {
        const sn_axis_rec *ax = sn_axis_get(m, sn_stmt_axis(m, lv->at[k]));
        lv->copy[k] = sn_put_loop(m, at, sn_axis_new(m, ax->name, ax->extent), sn_stmt_get(m, lv->at[k])->kind);
        at = sn_at_end(f->k, lv->copy[k]);
    }
}

static void load_ahead(flat *f, levels *lv, sn_stmt s, uint32_t number) {
    sn_module *m = f->m;
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    const char *name = sn_strf(&m->arena, "%s_w%u", sn_kern_get(m, f->k)->name, number);
    int64_t threads = f->sc->block_x * f->sc->block_y;
    sn_buf reg = sn_local_new(m, name, sn_buf_get(m, r->buf)->dtype, SN_BUF_REG, lv->own, threads);
    if (!lv->copy[0].i) open_copy(f, lv);
    sn_cursor at = sn_at_end(f->k, lv->copy[lv->n - 1]);
    sn_ix from = sn_ix_over(m, r->ix, lv->at, lv->copy, lv->n);
    sn_val x;
    if (r->has_mask) {
        const sn_stmt_rec *test = sn_stmt_get(m, sn_val_get(m, r->in[0])->def);
        sn_val mask = sn_put_in(m, at, sn_ix_over(m, test->ix, lv->at, lv->copy, lv->n), test->bound);
        sn_stmt otherwise = sn_stmt_clone(m, at, sn_val_get(m, r->in[1])->def);
        x = sn_put_load_masked(m, at, r->buf, from, mask, sn_stmt_get(m, otherwise)->result);
    } else {
        x = sn_put_load(m, at, r->buf, from);
    }
    sn_put_store(m, at, reg, own_offset(f, lv, lv->copy), x);
    sn_val y = sn_put_load(m, sn_at_before(m, s), reg, own_offset(f, lv, lv->at));
    sn_val_replace(m, f->k, r->result, y);
    sn_stmt_unlink(m, s);
}

/* What is alike in all turns of a thread comes to its registers before the first one. */
static void keep_weights(flat *f, const sn_schedule_shape *sh) {
    sn_module *m = f->m;
    uint32_t number = 0;
    int64_t left = SN_KEPT_BYTES;
    for (uint32_t i = 0; i < sh->n_nests && f->turns.i && !f->f.by_columns && f->sc->block_x > 1; i++) {
        levels lv;
        find_levels(&lv, m, sh->nests[i].top);
        sn_stmt end = sn_stmt_walk_skip(m, sh->nests[i].top);
        for (sn_stmt s = sh->nests[i].top, next; s.i && s.i != end.i && lv.own; s = next) {
            next = sn_stmt_walk_next(m, s);
            if (lv.own * SN_WORD > left || !is_weight(f, &lv, s)) continue;
            left -= lv.own * SN_WORD;
            load_ahead(f, &lv, s, number++);
        }
    }
}

/* ---- accesses ---- */

/* The offset of an access to a staged buffer, in shared memory. Of a piece: without what the loops that count groups add,
 * but from group to group of the block. Of lines: the number of the line, counted by the axes that do. */
static sn_ix place_of(flat *f, uint32_t i, sn_ix e, const sn_chain *nest) {
    sn_module *m = f->m;
    const sn_schedule_flat_buf *b = &f->f.bufs[i];
    sn_ix zeros[SN_MAX_CHAIN];
    if (!b->lines) {
        for (uint32_t k = 0; k < f->f.prefix; k++) zeros[k] = sn_ix_const(m, 0);
        e = sn_ix_addc(m, sn_ix_subst(m, e, f->axes, zeros, f->f.prefix), -b->base);
        if (b->moved) e = sn_ix_add(m, e, lead_of_piece(f, i));
        return sn_ix_fma(m, b->group + b->gap, f->group, e);
    }
    sn_ix line = sn_ix_const(m, 0), within = sn_ix_scale(m, f->group, b->group), from = start_of(f, i);
    uint32_t n = f->f.outer.n - f->f.prefix + nest->n;
    for (uint32_t k = 0, at = 0; k < n; k++) {
        uint32_t outer = f->f.prefix + k;
        sn_axis ax = outer < f->f.outer.n ? f->axes[outer] : sn_stmt_axis(m, nest->at[outer - f->f.outer.n]);
        int64_t c, extent = sn_ix_value(m, sn_axis_get(m, ax)->extent);
        if (!sn_ix_coef(m, e, ax, &c) || !c || extent < 2) continue;
        if (c < b->group) {
            within = sn_ix_fma(m, c, sn_ix_axis(m, ax), within);
            continue;
        }
        from = sn_ix_fma(m, c, sn_ix_axis(m, ax), from);
        line = sn_ix_fma(m, b->extents[at++], line, sn_ix_axis(m, ax));
    }
    if (b->moved) within = sn_ix_add(m, within, sn_ix_modc(m, from, b->vector));
    return sn_ix_fma(m, pitch(f, b), line, within);
}

/* Is the access of a nest one of those that were found? What stands outside of nests is accessed as it is. */
static void redirect(flat *f, sn_stmt s, const sn_chain *nest) {
    sn_module *m = f->m;
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    uint32_t i;
    if (!sn_schedule_is_flat(&f->f, r->buf, &i)) return;
    sn_ix e = place_of(f, i, r->ix, nest);
    sn_cursor at = sn_at_before(m, s);
    if (r->op == SN_LOP_STORE) sn_put_store(m, at, f->shared[i], e, r->in[0]);
    else if (r->has_mask)
        sn_val_replace(m, f->k, r->result, sn_put_load_masked(m, at, f->shared[i], e, r->in[0], r->in[1]));
    else sn_val_replace(m, f->k, r->result, sn_put_load(m, at, f->shared[i], e));
    sn_stmt_unlink(m, s);
}

static void redirect_nest(flat *f, const sn_schedule_nest *nest) {
    sn_stmt end = sn_stmt_walk_skip(f->m, nest->top);
    for (sn_stmt s = nest->top, next; s.i && s.i != end.i; s = next) {
        next = sn_stmt_walk_next(f->m, s);
        if (sn_is_access(sn_stmt_get(f->m, s))) redirect(f, s, &nest->chain);
    }
}

/* Rows from lane to lane of threads that have one each. Those of bytes or halves that no words begin are so many apart that
 * lanes read an odd number of words apart, in a bank each. What is accessed as it is, row by row, has to be little then:
 * lanes are no neighbours. */
static int64_t rows_apart(const flat *f, const sn_stmt_vec *body) {
    int64_t bytes = 0, direct = 0, apart;
    uint32_t i;
    for (i = 0; i < f->f.n; i++) {
        int64_t row = f->f.bufs[i].group * sn_dtype_bytes(sn_buf_get(f->m, f->f.bufs[i].buf)->dtype);
        if (f->f.bufs[i].lines || f->f.bufs[i].gap || (bytes && row != bytes)) return 1;
        bytes = row;
    }
    for (uint32_t k = 0; k < body->n; k++) {
        const sn_stmt_rec *r = sn_stmt_get(f->m, body->at[k]);
        if (sn_is_access(r) && !sn_schedule_is_flat(&f->f, r->buf, &i))
            direct += sn_dtype_bytes(sn_buf_get(f->m, r->buf)->dtype);
    }
    apart = SN_BANK / sn_schedule_gcd(SN_BANK, bytes);
    bool turns = f->sc->block_x % (SN_WARP * apart) == 0 && f->sc->tile_m % f->sc->block_x == 0;
    return turns && f->f.inner == 1 && f->sc->block_y == 1 && direct * SN_FLAT_LITTLE <= bytes ? apart : 1;
}

/* `into` and the row and group of the block that stand there; neighbouring columns of a thread are lanes. */
static void open_rows(flat *f, sn_stmt *into, const sn_stmt_vec *body) {
    sn_module *m = f->m;
    const sn_sched *sc = f->sc;
    bool columns = f->f.by_columns;
    int64_t lanes = sn_schedule_flat_lanes(&f->f, sc), rows = sc->tile_m / lanes;
    int64_t at_a_time = columns ? sc->block_x : sc->block_y, turns = sn_ceil_div(rows, at_a_time);
    sn_ix t = columns ? sn_open_loop_in(f->m, f->k, into, "x", at_a_time, SN_AXIS_BLOCK_X)
                      : sn_open_loop_in(f->m, f->k, into, "y", at_a_time, SN_AXIS_BLOCK_Y);
    int64_t apart = columns ? rows_apart(f, body) : 1;
    if (apart > 1) {
        sn_ix warp = sn_ix_divc(m, t, SN_WARP), lane = sn_ix_modc(m, t, SN_WARP);
        t = sn_ix_fma(m, apart, lane, sn_ix_modc(m, warp, apart));
        t = sn_ix_fma(m, SN_WARP * apart, sn_ix_divc(m, warp, apart), t);
    }
    f->row = sn_ix_fma(m, at_a_time, sn_open_loop_in(f->m, f->k, into, "r", turns, SN_AXIS_SEQ), t);
    if (turns > 1) f->turns = *into;
    if (turns * at_a_time > rows) *into = sn_put_if(m, sn_at_end(f->k, *into), f->row, sn_ix_const(m, rows));
    if (lanes > 1) f->row = sn_ix_fma(m, lanes, f->row, sn_open_loop_in(f->m, f->k, into, "v", lanes, SN_AXIS_VECTOR));
    f->group = sn_ix_divc(m, f->row, f->f.inner);
}

/* What the outer axes are in that row. */
static void find_outer(flat *f, sn_ix *with) {
    sn_module *m = f->m;
    sn_ix extents[SN_MAX_CHAIN], group = sn_ix_fma(m, f->groups, f->g, f->group);
    uint32_t n = f->f.outer.n, p = f->f.prefix;
    for (uint32_t k = 0; k < n; k++) extents[k] = sn_stmt_extent(m, f->f.outer.at[k]);
    if (f->f.lines) {
        for (uint32_t k = 0; k + 1 < p; k++) with[k] = f->origin[k];
        with[p - 1] = group;
    } else {
        sn_ix_unflatten(m, group, extents, p, with);
    }
    if (p < n) sn_ix_unflatten(m, sn_ix_modc(m, f->row, f->f.inner), extents + p, n - p, with + p);
}

static void put_body(flat *f, const sn_stmt_vec *body, sn_schedule_shape *sh) {
    sn_module *m = f->m;
    sn_stmt into = f->grid;
    sn_ix with[SN_MAX_CHAIN], along;
    open_rows(f, &into, body);
    find_outer(f, with);
    along = sn_ix_fma(m, f->groups, f->g, f->group);
    bool partial = f->f.along % f->groups != 0;
    sn_val mask = {0};
    if (partial) mask = sn_put_in(m, sn_at_end(f->k, into), along, sn_ix_const(m, f->f.along));
    for (uint32_t i = 0; i < body->n; i++) sn_stmt_insert(m, sn_at_end(f->k, into), body->at[i]);
    for (uint32_t i = 0; i < sh->n_nests; i++) redirect_nest(f, &sh->nests[i]);
    for (uint32_t i = 0; i < body->n; i++) sn_stmt_subst(m, body->at[i], f->axes, with, f->f.outer.n);
    for (uint32_t i = 0; i < sh->n_nests; i++) bind_nest(f, &sh->nests[i]);
    keep_elements(f, sh, sn_stmt_get(m, f->grid)->last);
    keep_weights(f, sh);
    for (uint32_t i = 0; i < f->f.n; i++) sn_buf_get(m, f->shared[i])->scope = SN_BUF_SHARED;
    if (partial) sn_mask_moved(f->cx, f->k, into, mask);
}

/* Do the threads of a row walk all of its nests without a test? Where one does not hold, a load reads what is another thread's. */
static bool is_whole(const flat *f) {
    const sn_sched *sc = f->sc;
    int64_t step = (int64_t)(f->f.by_columns ? sc->block_y : sc->block_x) * of_row(f);
    for (uint32_t k = 0; k < f->sh->n_nests; k++) {
        int64_t count = f->sh->nests[k].count, steps = sn_ceil_div(count, step);
        int64_t unroll = sc->unroll < steps ? sc->unroll : steps;
        if (unroll && count % (unroll * step)) return false;
    }
    return true;
}

/* The piece whose room the stored piece `out` takes, the lines that it is made of or one that is only read; UINT32_MAX: there is none. Only the
 * first stored one of its kind does. */
static uint32_t takes_room_of(const flat *f, uint32_t out) {
    const sn_schedule_flat_buf *b = &f->f.bufs[out];
    if (b->takes) return b->takes - 1;
    if (b->over && f->groups == 1) return b->over - 1;
    for (uint32_t i = 0; i < f->f.n; i++) {
        const sn_schedule_flat_buf *a = &f->f.bufs[i];
        bool alike = a->stored != b->stored && a->group == b->group && a->count == b->count && a->gap == b->gap &&
                     a->moved == b->moved;
        if (!alike || !b->stored || a->lines || b->lines || f->sh->scans || !is_whole(f)) continue;
        if (sn_buf_get(f->m, a->buf)->dtype != sn_buf_get(f->m, b->buf)->dtype ||
            !sn_schedule_flat_same_places(&f->f, f->m, f->sh, i, out))
            continue;
        bool taken = false;
        for (uint32_t k = 0; k < out; k++) taken |= f->f.bufs[k].stored && takes_room_of(f, k) == i;
        if (!taken) return i;
    }
    return UINT32_MAX;
}

/* Until the nests are bound they count as memory, so that tests of positions beyond a row are at their accesses, too. */
static void new_shared(flat *f) {
    uint32_t rooms[SN_MAX_FLAT];
    for (uint32_t i = 0; i < f->f.n; i++) rooms[i] = takes_room_of(f, i);
    for (uint32_t i = 0; i < f->f.n; i++) {
        if (rooms[i] != UINT32_MAX) continue;
        sn_ix size = sn_ix_const(f->m, room(f, i));
        const char *name = sn_strf(&f->m->arena, "%s_s%u", sn_kern_get(f->m, f->k)->name, i);
        f->shared[i] = sn_buf_new(f->m, name, sn_buf_get(f->m, f->f.bufs[i].buf)->dtype, SN_BUF_TEMP, &size, 1);
    }
    for (uint32_t i = 0; i < f->f.n; i++)
        if (rooms[i] != UINT32_MAX) f->shared[i] = f->shared[rooms[i]];
}

/* Tests keep accesses inside the piece, but what L14 asks of ranges are offsets without their tests: there is room for
 * those. */
static void size_shared(flat *f) {
    sn_module *m = f->m;
    int64_t rooms[SN_MAX_FLAT];
    uint32_t i;
    for (i = 0; i < f->f.n; i++) rooms[i] = room(f, i);
    for (sn_stmt s = sn_stmt_walk_first(m, f->k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!r->buf.i) continue;
        for (i = 0; i < f->f.n && !sn_buf_eq(f->shared[i], r->buf); i++) {}
        if (i == f->f.n) continue;
        int64_t end = sn_ix_range(m, r->ix).hi + 1;
        if (end > rooms[i]) rooms[i] = end;
    }
    for (i = 0; i < f->f.n; i++) {
        sn_buf_rec *b = sn_buf_get(m, f->shared[i]);
        if ((int64_t)b->private_size >= rooms[i]) continue; /* of two that share it, the one with more */
        b->shape[0] = b->size = sn_ix_const(m, rooms[i]);
        b->private_size = (uint32_t)rooms[i];
    }
}

/* The grid counts the outer loops before those that groups follow along, and blocks of groups. */
static void open_grid(flat *f) {
    sn_module *m = f->m;
    uint32_t n = f->f.lines ? f->f.prefix - 1 : 0;
    sn_ix shape[SN_MAX_CHAIN], parts[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < n; k++) shape[k] = sn_stmt_extent(m, f->f.outer.at[k]);
    shape[n] = sn_ix_const(m, f->blocks);
    sn_ix g = sn_open_loop_in(f->m, f->k, &f->grid, "g", sn_ix_value(m, sn_ix_product(m, shape, n + 1)), SN_AXIS_GRID);
    sn_ix_unflatten(m, g, shape, n + 1, parts);
    for (uint32_t k = 0; k < n; k++) f->origin[k] = parts[k];
    f->g = parts[n];
}

void sn_schedule_flat_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    flat f = {.cx = cx, .m = cx->m, .k = k, .sc = sc, .sh = sh};
    sn_schedule_find_flat(&f.f, cx, k, sh);
    for (uint32_t i = 0; i < f.f.outer.n; i++) f.axes[i] = sn_stmt_axis(cx->m, f.f.outer.at[i]);
    f.groups = sc->tile_m / f.f.inner;
    f.blocks = sn_ceil_div(f.f.along, f.groups);
    f.whole = f.blocks;
    for (uint32_t i = 0; i < f.f.n; i++) {
        if (f.f.bufs[i].moved && !f.f.bufs[i].stored) continue;
        int64_t each = f.f.bufs[i].lines ? f.groups * f.f.bufs[i].group : piece(&f, i);
        if (touched(&f, i) / each < f.whole) f.whole = touched(&f, i) / each;
    }
    sn_stmt_vec body = {0};
    sn_schedule_take_body(&body, cx, k, sh);
    open_grid(&f);
    new_shared(&f);
    put_copies(&f, false);
    put_body(&f, &body, sh);
    put_copies(&f, true);
    size_shared(&f);
}
