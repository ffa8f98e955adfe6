/* scan_tiles_sums.c: the sums of a scan that is done tile by tile (scan_tiles.c).
 *
 * A thread sums up its piece of a column, from shared memory. What the pieces before it come to: each piece takes in the
 * groups of pieces before its own, and the pieces before it in that. What the parts before come to passes through posted buffers: a part posts its sums, the last part of each group what the
 * group comes to, and so on, and each part takes in those before it in its group and the groups before. Then each thread walks its piece once more.
 *
 * A thread that has a column of all parts, one behind the other, keeps what stands before the next one, as it makes that.
 */
#include "passes/loops/scan_tiles.h"
#include "passes/schedule/base/constants.h"
#include "passes/schedule/base/figures.h"

enum { MAX_LEVELS = 3 };

/* ---- a piece ---- */

/* Step u of the piece of a thread. */
typedef struct step {
    sn_ix place;  /* in shared memory */
    sn_val there; /* is there such a step? none: always, or it makes no difference */
    sn_val kept;  /* may the result be stored? */
    sn_axis from[SN_MAX_CHAIN + 1];
    sn_ix to[SN_MAX_CHAIN + 1];
    sn_ix element; /* in global memory */
} step;

static void make_step(sn_tiles *t, step *out, sn_cursor at, sn_ix x, sn_ix turn, sn_ix u) {
    sn_module *m = t->m;
    sn_ix batch = sn_tile_plus(t, sn_tile_times(t, turn, t->batch / t->turns), sn_tile_batch(t, x));
    const sn_scan_cut *c = t->c;
    sn_ix piece = sn_tile_piece(t, x), lo = sn_tile_plus(t, sn_tile_times(t, piece, t->steps), u), row = lo,
          extents[SN_MAX_CHAIN];
    if (t->reverse) row = sn_ix_sub(m, sn_tile_const(t, t->rows - 1), lo);
    out->place = sn_tile_plus(t, sn_tile_plus(t, sn_tile_times(t, batch, t->pitch), sn_tile_times(t, row, t->width)),
                              sn_tile_column(t, x));
    if (!t->flat) out->place = sn_tile_plus(t, sn_tile_times(t, row, t->pitch), sn_tile_column(t, x));
    if (t->skewed) out->place = sn_tile_plus(t, out->place, sn_ix_modc(m, sn_tile_line_start(t, row), t->vector));
    out->place = sn_ix_addc(m, sn_tile_plus(t, out->place, sn_tile_lead(t)), t->pad);
    int64_t beyond = t->parts * t->rows - t->length;
    sn_ix position = t->whole ? lo : sn_tile_plus(t, sn_tile_times(t, t->part, t->rows), lo);
    if (t->reverse && !t->whole) position = sn_ix_addc(m, position, -beyond);
    sn_ix of_row = sn_tile_plus(t, t->column, sn_tile_column(t, x)), in_row = sn_tile_plus(t, t->tile_row, row);
    sn_ix front = t->whole ? sn_tile_plus(t, t->row, batch) : t->row;
    out->there = out->kept = (sn_val){0};
    if (t->whole && t->pieces * t->steps != t->length)
        out->there = out->kept = sn_put_in(m, at, lo, sn_tile_const(t, t->length));
    if (t->reverse && !t->whole && beyond) out->there = sn_put_in(m, at, position, sn_tile_const(t, t->length));
    if (!sn_tile_stays(t) && beyond && !t->inside) out->kept = sn_put_in(m, at, in_row, sn_tile_const(t, t->length));
    if (t->over) {
        sn_ix first, end, number = sn_tile_plus(t, sn_tile_times(t, front, t->length), in_row);
        sn_tile_sectors(t, number, &first, &end);
        sn_ix rest = sn_ix_sub(m, sn_tile_column(t, x), first);
        out->kept = sn_tile_both(t, at, out->kept, sn_put_in(m, at, rest, sn_ix_sub(m, end, first)));
    }
    out->element = sn_tile_plus(
        t, sn_tile_times(t, sn_tile_plus(t, sn_tile_times(t, front, t->length), in_row), t->inner), of_row);
    for (uint32_t i = 0; i <= c->outer.n; i++)
        out->from[i] = sn_stmt_axis(m, i < c->outer.n ? c->outer.at[i] : c->nest);
    for (uint32_t i = 0; i < c->outer.n; i++) extents[i] = sn_stmt_extent(m, c->outer.at[i]);
    sn_ix_unflatten(m, front, extents, t->n_front, out->to);
    sn_ix_unflatten(m, of_row, extents + t->n_front, c->outer.n - t->n_front, out->to + t->n_front);
    out->to[c->outer.n] = position;
}

/* What no whole vector has brought is loaded where it is. */
static sn_val take_rest(sn_tiles *t, sn_cursor at, sn_buf from, const step *st, sn_val staged) {
    sn_module *m = t->m;
    int64_t rest = sn_tile_rest(t), whole = t->outer * t->length * t->inner - rest;
    sn_val wanted = sn_put_in(m, at, sn_ix_addc(m, st->element, -whole), sn_tile_const(t, rest));
    sn_val none = sn_put_const(m, at, sn_buf_get(m, from)->dtype, 0);
    return sn_put_op3(m, at, SN_LOP_SELECT, wanted, sn_put_load_masked(m, at, from, st->element, wanted, none), staged);
}

/* What the scan loads at each step is in the staged tile. */
static void take_staged(sn_tiles *t, sn_cursor at, sn_stmt nest, const step *st) {
    sn_module *m = t->m;
    sn_axis ax = sn_stmt_axis(m, t->c->nest);
    sn_ix own = sn_ix_axis(m, sn_stmt_axis(m, nest)), dense = sn_ix_subst(m, t->dense, &ax, &own, 1);
    uint32_t number = 0;
    for (sn_stmt s = sn_stmt_get(m, nest)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_LOAD || !sn_ix_eq(r->ix, dense)) continue;
        sn_buf b = t->staged[number++];
        sn_val old = r->result, x;
        sn_buf from = r->buf;
        if (st->kept.i && t->whole)
            x = sn_put_load_masked(m, at, b, st->place, st->kept, sn_put_const(m, at, sn_buf_get(m, b)->dtype, 0));
        else x = sn_put_load(m, at, b, st->place);
        if (t->ends) x = take_rest(t, at, from, st, x);
        sn_val_replace(m, t->k, old, x);
        sn_stmt_unlink(m, s);
    }
}

static void put_result(sn_tiles *t, sn_cursor at, const step *st, sn_val x) {
    sn_buf to = sn_tile_stays(t) ? t->out : t->to;
    sn_ix e = sn_tile_stays(t) ? st->place : st->element;
    if (st->kept.i) sn_put_store_masked(t->m, at, to, e, x, st->kept);
    else sn_put_store(t->m, at, to, e, x);
}

/* The statements of the scan, or of a copy of it, go to `at`, for that step, which is number u of its piece. taken[i]: what
 * goes into prefix number i. start[i]: what stands before the piece (none: nothing); NULL: prefixes and stores are left out. */
static void move_step(sn_tiles *t, sn_cursor at, sn_stmt nest, const step *st, sn_val *taken, const sn_val *start,
                      sn_ix u) {
    sn_module *m = t->m;
    uint32_t n = 0;
    for (sn_stmt s = sn_stmt_get(m, nest)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_ACCUM && !sn_stores(r)) {
            sn_stmt_unlink(m, s);
            sn_stmt_subst(m, s, st->from, st->to, t->c->outer.n + 1);
            sn_stmt_insert(m, at, s);
            continue;
        }
        sn_val x = r->in[0], old = r->result;
        bool accum = r->op == SN_LOP_ACCUM, exclusive = r->exclusive;
        if (accum && st->there.i && !t->whole)
            x = sn_put_op3(m, at, SN_LOP_SELECT, st->there, x, sn_tile_identity(t, at, n));
        if (accum && start) {
            sn_val prefix = sn_put_accum(m, at, sn_tile_comb(t, n), x, u, exclusive);
            sn_val whole = start[n].i ? sn_tile_combine(t, at, n, start[n], prefix) : prefix;
            sn_val_replace(m, t->k, old, whole);
            if (t->stages && exclusive) whole = sn_tile_combine(t, at, n, whole, x);
            if (t->stages) sn_put_store(m, at, t->carried[n], t->thread, whole);
        }
        if (!accum && start) put_result(t, at, st, x);
        if (accum) taken[n++] = x;
        sn_stmt_unlink(m, s);
    }
    sn_stmt_unlink(m, nest);
}

/* Pieces of a group whose sum is taken at once. */
static int64_t pieces_together(const sn_tiles *t) {
    int64_t n = 1;
    if (t->pieces <= SN_CUT_TILE_FEW) return t->pieces;
    while (n * n < t->pieces) n++;
    return n;
}

/* What each piece comes to. */
static void sum_pieces(sn_tiles *t) {
    sn_module *m = t->m;
    const sn_scan_cut *c = t->c;
    sn_ix x;
    sn_cursor in = sn_tile_threads(t, t->active, &x);
    sn_axis turns = sn_axis_new(m, "u", sn_tile_const(t, t->steps));
    sn_ix u = sn_ix_axis(m, turns);
    sn_comb combs[SN_CUT_ACCUMS];
    sn_dtype dtypes[SN_CUT_ACCUMS];
    sn_val taken[SN_CUT_ACCUMS];
    step st;
    for (uint32_t i = 0; i < c->n; i++) combs[i] = sn_tile_comb(t, i), dtypes[i] = sn_tile_dtype(t, i);
    sn_stmt reduce = sn_put_reduce(m, in, turns, SN_AXIS_UNROLL, combs, c->n, dtypes);
    sn_cursor at = sn_at_end(t->k, reduce);
    make_step(t, &st, at, x, sn_tile_const(t, 0), u);
    sn_stmt nest = sn_stmt_clone(m, at, c->nest);
    st.from[c->outer.n] = sn_stmt_axis(m, nest);
    take_staged(t, sn_at_before(m, nest), nest, &st);
    move_step(t, sn_at_before(m, nest), nest, &st, taken, NULL, u);
    sn_put_yield(m, at, taken, c->n);
    for (uint32_t i = 0; i < c->n; i++) {
        int64_t n = t->active + pieces_together(t) * t->width;
        t->own[i] = sn_tile_buffer(t, "o", i, dtypes[i], SN_BUF_SHARED, n);
        sn_put_store(m, in, t->own[i], sn_tile_own(t, x), sn_result(sn_stmt_get(m, reduce), i));
    }
}

/* ---- what stands before a piece in its part ---- */

/* The elements first + stride*q of `b` for q below n, or below the smaller `some`, combined. */
static sn_val combine_run(sn_tiles *t, sn_cursor at, uint32_t i, sn_buf b, sn_ix first, int64_t stride, int64_t n,
                          sn_ix some) {
    sn_module *m = t->m;
    sn_axis q = sn_axis_new(m, "q", sn_tile_const(t, n));
    sn_comb comb = sn_tile_comb(t, i);
    sn_dtype dtype = sn_tile_dtype(t, i);
    sn_stmt reduce = sn_put_reduce(m, at, q, SN_AXIS_UNROLL, &comb, 1, &dtype);
    sn_cursor in = sn_at_end(t->k, reduce);
    sn_ix e = sn_tile_plus(t, first, sn_tile_times(t, sn_ix_axis(m, q), stride));
    sn_val x;
    if (some.i)
        x = sn_put_load_masked(m, in, b, e, sn_put_in(m, in, sn_ix_axis(m, q), some), sn_tile_identity(t, in, i));
    else x = sn_put_load(m, in, b, e);
    sn_put_yield(m, in, &x, 1);
    return sn_result(sn_stmt_get(m, reduce), 0);
}

/* What groups of pieces come to; then each piece takes in the groups before its own, and the pieces before in that. */
static void scan_pieces(sn_tiles *t) {
    sn_module *m = t->m;
    int64_t n = pieces_together(t), groups = sn_ceil_div(t->pieces, n);
    for (uint32_t i = 0; i < t->c->n; i++) {
        sn_ix x;
        sn_dtype dtype = sn_tile_dtype(t, i);
        if (groups > 1) {
            int64_t full = t->pieces / n; /* the last one, if it is smaller, is before nobody */
            t->sums[i] = sn_tile_buffer(t, "t", i, dtype, SN_BUF_SHARED, t->batch * full * t->width);
            sn_cursor at = sn_tile_threads(t, t->batch * full * t->width, &x);
            sn_ix column = sn_tile_column(t, x), rest = sn_ix_divc(m, x, t->width);
            sn_ix group = sn_ix_modc(m, rest, full), batch = sn_ix_divc(m, rest, full);
            sn_ix first = sn_tile_plus(t, sn_tile_times(t, batch, t->pieces), sn_tile_times(t, group, n));
            sn_val all = combine_run(t, at, i, t->own[i], sn_tile_plus(t, sn_tile_times(t, first, t->width), column),
                                     t->width, n, (sn_ix){0});
            sn_put_store(m, at, t->sums[i], x, all);
        }
        sn_cursor at = sn_tile_threads(t, t->active, &x);
        sn_ix column = sn_tile_column(t, x), piece = sn_tile_piece(t, x), batch = sn_tile_batch(t, x);
        sn_ix group = groups > 1 ? sn_ix_divc(m, piece, n) : sn_tile_const(t, 0);
        sn_ix first = sn_tile_plus(t, sn_tile_times(t, batch, t->pieces), sn_tile_times(t, group, n));
        int64_t most = n - 1 < t->pieces ? n - 1 : t->pieces;
        sn_val before = sn_tile_identity(t, at, i);
        if (groups > 1) {
            int64_t full = t->pieces / n;
            sn_ix start = sn_tile_plus(t, sn_tile_times(t, sn_tile_times(t, batch, full), t->width), column);
            before = combine_run(t, at, i, t->sums[i], start, t->width, full, group);
        }
        if (most > 0) {
            sn_ix start = sn_tile_plus(t, sn_tile_times(t, first, t->width), column);
            sn_val near = combine_run(t, at, i, t->own[i], start, t->width, most,
                                      sn_ix_sub(m, piece, sn_tile_times(t, group, n)));
            before = groups > 1 ? sn_tile_combine(t, at, i, before, near) : near;
        }
        t->before[i] = sn_tile_reg(t, "b", i, dtype);
        sn_put_store(m, at, t->before[i], t->thread, before);
        if (t->parts == 1) continue;
        t->all[i] = sn_tile_reg(t, "a", i, dtype);
        sn_put_store(m, at, t->all[i], t->thread, sn_tile_combine(t, at, i, before, sn_put_load(m, at, t->own[i], x)));
    }
}

/* ---- what stands before the part ---- */

static sn_buf new_posted(sn_tiles *t, uint32_t which, uint32_t i, int64_t n) {
    static const char *const LETTERS[MAX_LEVELS] = {"p", "g", "h"};
    SN_ASSERT(which < MAX_LEVELS);
    return sn_tile_buffer(t, LETTERS[which], i, sn_tile_dtype(t, i), SN_BUF_POSTED, n * t->outer * t->inner);
}

/* A level of parts, of groups of them, of groups of those. */
typedef struct level {
    int64_t n;     /* of a row */
    sn_ix number;  /* of the part, or of the group that it is in */
    sn_ix first;   /* of those that are combined, which are the ones up to number - 1 */
    sn_ix place;   /* of number 0 of the row in its buffer: one behind the other ... */
    int64_t apart; /* ... are so far apart */
} level;

static sn_ix place_in(const sn_tiles *t, const level *l, sn_ix number) {
    return sn_tile_plus(t, l->place, sn_tile_times(t, number, l->apart));
}

/* Pieces of each column ask for a share, all at once, and put together what they have got. */
static sn_val combine_columns(sn_tiles *t, sn_cursor *at, sn_ix *x, uint32_t i, sn_buf posted, sn_buf slots,
                              const level *l) {
    sn_module *m = t->m;
    sn_comb comb = sn_tile_comb(t, i);
    sn_dtype dtype = sn_tile_dtype(t, i);
    int64_t askers = sn_least(t->pieces, SN_WARP), each = sn_ceil_div(t->group, askers);
    sn_cursor ask = sn_tile_threads(t, askers * t->width, x);
    sn_ix piece = sn_ix_divc(m, *x, t->width), number = piece, q = piece;
    sn_stmt turns = {0};
    sn_cursor in = ask;
    if (each > 1) {
        sn_axis ax = sn_axis_new(m, "q", sn_tile_const(t, each));
        turns = sn_put_reduce(m, in, ax, SN_AXIS_VECTOR, &comb, 1, &dtype);
        in = sn_at_end(t->k, turns);
        q = sn_ix_axis(m, ax);
        number = sn_tile_plus(t, piece, sn_tile_times(t, q, askers));
    }
    sn_val wanted = sn_put_in(m, in, number, sn_ix_sub(m, l->number, l->first));
    sn_ix of_row = sn_tile_plus(t, t->column, sn_tile_column(t, *x));
    if (t->side * t->width != t->inner)
        wanted = sn_tile_both(t, in, wanted, sn_put_in(m, in, of_row, sn_tile_const(t, t->inner)));
    sn_ix place = sn_tile_plus(t, place_in(t, l, sn_tile_plus(t, l->first, number)), of_row);
    sn_val e = sn_put_load_masked(m, in, posted, place, wanted, sn_tile_identity(t, in, i));
    if (turns.i) sn_put_yield(m, in, &e, 1), e = sn_result(sn_stmt_get(m, turns), 0);
    sn_put_store(m, ask, slots, *x, e);
    *at = sn_tile_threads(t, t->active, x);
    return combine_run(t, *at, i, slots, sn_tile_column(t, *x), t->width, askers, (sn_ix){0});
}

static level first_level(const sn_tiles *t) {
    return (level){t->parts, t->part, sn_tile_const(t, 0), sn_tile_times(t, t->row, t->inner), t->outer * t->inner};
}

/* The ones that are combined, if there are more levels. */
static bool has_more(sn_tiles *t, level *l) {
    if (l->n <= t->group) return false;
    l->first = sn_tile_times(t, sn_ix_divc(t->m, l->number, t->group), t->group);
    return true;
}

static sn_val ends_group(sn_tiles *t, sn_cursor at, const level *l) {
    sn_ix rest = sn_ix_addc(t->m, sn_ix_modc(t->m, l->number, t->group), 1 - t->group);
    return sn_put_in(t->m, at, rest, sn_tile_const(t, 1));
}

static void next_level(sn_tiles *t, level *l) {
    l->number = sn_ix_divc(t->m, l->number, t->group);
    l->first = sn_tile_const(t, 0);
    l->n /= t->group;
}

/* The last piece of each column has what the part comes to, and posts it. */
static void look_back(sn_tiles *t, uint32_t i) {
    sn_module *m = t->m;
    sn_dtype dtype = sn_tile_dtype(t, i);
    sn_buf slots = sn_tile_buffer(t, "q", i, dtype, SN_BUF_SHARED, sn_least(t->pieces, SN_WARP) * t->width);
    t->earlier[i] = sn_tile_reg(t, "e", i, dtype);
    level l = first_level(t);
    for (uint32_t which = 0;; which++) {
        sn_ix x;
        sn_buf posted = new_posted(t, which, i, l.n);
        sn_cursor at = sn_tile_threads(t, t->active, &x);
        sn_ix of_row = sn_tile_plus(t, t->column, sn_tile_column(t, x)),
              last = sn_ix_addc(m, sn_tile_piece(t, x), 1 - t->pieces);
        sn_val posts = sn_put_in(m, at, last, sn_tile_const(t, 1));
        if (t->side * t->width != t->inner)
            posts = sn_tile_both(t, at, posts, sn_put_in(m, at, of_row, sn_tile_const(t, t->inner)));
        if (t->over) {
            sn_val own = sn_put_in(m, at, sn_tile_column(t, x), sn_tile_const(t, sn_tile_apart(t)));
            posts = sn_tile_both(t, at, posts, own);
        }
        level up = first_level(t);
        for (uint32_t k = 0; k < which; k++) {
            posts = sn_tile_both(t, at, posts, ends_group(t, at, &up));
            next_level(t, &up);
        }
        sn_val all = sn_put_load(m, at, t->all[i], t->thread);
        sn_put_store_masked(m, at, posted, sn_tile_plus(t, place_in(t, &l, l.number), of_row), all, posts);
        bool more = has_more(t, &l);
        sn_val before = combine_columns(t, &at, &x, i, posted, slots, &l);
        if (more)
            sn_put_store(m, at, t->all[i], t->thread,
                         sn_tile_combine(t, at, i, before, sn_put_load(m, at, t->all[i], t->thread)));
        if (which) before = sn_tile_combine(t, at, i, before, sn_put_load(m, at, t->earlier[i], t->thread));
        sn_put_store(m, at, t->earlier[i], t->thread, before);
        if (!more) return;
        next_level(t, &l);
    }
}

void sn_tile_carry(sn_tiles *t) {
    sn_ix x;
    sn_cursor at = sn_tile_threads(t, t->threads, &x);
    for (uint32_t i = 0; i < t->c->n; i++) {
        t->before[i] = t->carried[i] = sn_tile_reg(t, "c", i, sn_tile_dtype(t, i));
        sn_put_store(t->m, at, t->carried[i], x, sn_tile_identity(t, at, i));
    }
}

/* What stands before each piece: in its tile, and in the parts before. */
void sn_tile_sum(sn_tiles *t) {
    if (t->pieces == 1 && (t->parts == 1 || t->stages)) return;
    sum_pieces(t);
    scan_pieces(t);
    for (uint32_t i = 0; i < t->c->n && t->parts > 1; i++) look_back(t, i);
}

/* ---- the scan itself ---- */

static void walk_tile(sn_tiles *t, sn_stmt nest) {
    sn_module *m = t->m;
    const sn_scan_cut *c = t->c;
    sn_ix x, u;
    sn_cursor in = sn_tile_threads(t, t->active, &x);
    sn_val start[SN_CUT_ACCUMS], taken[SN_CUT_ACCUMS];
    step st;
    if (!t->flat && t->side * t->width != t->inner)
        in = sn_at_end(t->k,
                       sn_put_if(m, in, sn_tile_plus(t, t->column, sn_tile_column(t, x)), sn_tile_const(t, t->inner)));
    for (uint32_t i = 0; i < c->n; i++) {
        start[i] = t->pieces == 1 && t->parts == 1 ? (sn_val){0} : sn_put_load(m, in, t->before[i], t->thread);
        if (t->parts == 1 || t->stages) continue;
        start[i] = sn_tile_combine(t, in, i, sn_put_load(m, in, t->earlier[i], t->thread), start[i]);
    }
    sn_ix turn = sn_tile_const(t, 0);
    if (t->turns > 1) in = sn_tile_loop(t, in, "w", t->turns, SN_AXIS_UNROLL, &turn);
    sn_cursor at = sn_tile_loop(t, in, "u", t->steps, SN_AXIS_UNROLL, &u);
    make_step(t, &st, at, x, turn, u);
    sn_stmt_insert(m, at, nest);
    st.from[c->outer.n] = sn_stmt_axis(m, nest);
    take_staged(t, sn_at_before(m, nest), nest, &st);
    move_step(t, sn_at_before(m, nest), nest, &st, taken, start, u);
}

/* What is stored where it is made has no tests in tiles that are whole. */
void sn_tile_scan(sn_tiles *t) {
    sn_module *m = t->m;
    int64_t whole = t->length / t->rows;
    bool rest = t->stages && sn_tile_rest(t);
    sn_stmt home = t->into;
    if (rest && whole == t->parts) whole--;
    if (sn_tile_stays(t) || !whole || whole == t->parts) {
        t->inside = whole == t->parts;
        walk_tile(t, t->c->nest);
        return;
    }
    sn_ix tile = t->reverse ? sn_ix_sub(m, sn_tile_const(t, t->parts - 1), t->part) : t->part;
    sn_stmt copy = sn_stmt_clone(m, sn_at_end(t->k, home), t->c->nest);
    sn_stmt_unlink(m, copy);
    t->into = sn_put_if(m, sn_at_end(t->k, home), tile, sn_tile_const(t, whole));
    t->inside = true;
    walk_tile(t, copy);
    t->into = sn_put_if(m, sn_at_end(t->k, home), sn_ix_addc(m, tile, -whole), sn_tile_const(t, 1));
    t->inside = false;
    t->ends = rest;
    walk_tile(t, t->c->nest);
    t->into = home;
}
