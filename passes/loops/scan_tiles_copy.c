/* scan_tiles_copy.c: blocks of a scan that is done tile by tile, and how tiles come and go (scan_tiles.c).
 *
 * A tile that is one piece of memory is copied in the widest pieces that it, and all others, begin and end with; what is
 * left behind the last one of all, element by element. Tiles of whole rows that begin inside of a vector come with all of that, and what they have of
 * the vectors at both ends is stored element by element. Places beyond the last element of a row, or of all rows, are zero:
 * they come behind all others, or, where steps go down, are left out of the sums. Tiles of some columns are copied line by line: with the vectors that
 * a line begins and ends in; of halves, results go the same way, whole vectors first and then both ends.
 *
 * Parts that a block walks come by whole vectors alone: what is behind the last one of all is loaded where it is wanted (scan_tiles_sums.c).
 *
 * Copies wait for nothing but their memory, and `async-copy` makes them asynchronous.
 */
#include "passes/loops/scan_tiles.h"
#include "passes/schedule/base/constants.h"

/* ---- the block ---- */

/* The block's loop over the parts of its columns, whose copies run ahead. */
static void open_walk(sn_tiles *t) {
    sn_module *m = t->m;
    sn_axis p = sn_axis_new(m, "p", sn_tile_const(t, t->parts));
    sn_tile_carry(t);
    t->into = sn_put_loop(m, sn_at_end(t->k, t->grid), p, SN_AXIS_SEQ);
    sn_stmt_get(m, t->into)->pipe = (uint32_t)t->stages;
    t->part = sn_ix_axis(m, p);
}

void sn_tile_grid(sn_tiles *t) {
    sn_module *m = t->m;
    const sn_scan_cut *c = t->c;
    int64_t of_part = t->outer * t->side;
    int64_t blocks = t->whole ? sn_ceil_div(t->outer, t->batch) : t->stages ? of_part : t->parts * of_part;
    sn_axis g = sn_axis_new(m, "g", sn_tile_const(t, blocks));
    sn_ix number = sn_ix_axis(m, g);
    sn_stmt body = c->outer.n ? c->outer.at[c->outer.n - 1] : (sn_stmt){0};
    sn_stmt first = sn_region_first(m, t->k, body), top = c->outer.n ? c->outer.at[0] : (sn_stmt){0};
    t->grid = t->into = sn_put_loop(m, sn_at_end(t->k, (sn_stmt){0}), g, SN_AXIS_GRID);
    for (sn_stmt s = first, next; s.i && s.i != t->grid.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        if (s.i != c->nest.i) sn_stmt_insert(m, sn_at_end(t->k, t->grid), s);
    }
    if (top.i) sn_stmt_unlink(m, top);
    t->part = t->whole ? sn_tile_const(t, 0) : sn_ix_divc(m, number, of_part);
    t->row = t->whole ? sn_tile_times(t, number, t->batch) : sn_ix_modc(m, sn_ix_divc(m, number, t->side), t->outer);
    t->column = sn_tile_times(t, sn_ix_modc(m, number, t->side), sn_tile_apart(t));
    if (t->whole) t->column = sn_tile_const(t, 0);
    if (t->stages) open_walk(t);
    sn_ix last = sn_tile_const(t, t->parts - 1);
    t->tile_row = sn_tile_times(t, t->reverse ? sn_ix_sub(m, last, t->part) : t->part, t->rows);
}

/* Those whose sectors begin in its own ones; the first tile begins with the line. A line begins anywhere, so the sectors of each do elsewhere. */
void sn_tile_sectors(const sn_tiles *t, sn_ix number, sn_ix *first, sn_ix *end) {
    int64_t back = t->inner % t->over * (t->over - 1) %
                   t->over; /* times the number: elements in front of the line's first whole sector */
    sn_ix front = sn_ix_modc(t->m, sn_tile_times(t, number, back), t->over);
    *first = sn_ix_min(t->m, front, t->column);
    *end = sn_ix_addc(t->m, front, sn_tile_apart(t));
}

/* ---- copies ---- */

/* A copy of the tile: what threads do in a turn, and which tests say that it is there. */
typedef struct turn {
    sn_cursor at;
    sn_ix place, element; /* in shared memory, in global memory */
    sn_val there;         /* none: always */
    sn_stmt threads;
} turn;

/* In one piece of memory: it begins at `start` of what has `limit` elements, those of all rows or of one. */
static void flat_tile(const sn_tiles *t, sn_ix *start, sn_ix *base, int64_t *limit) {
    int64_t of_row = t->length * t->inner;
    *start = t->whole ? sn_tile_times(t, t->row, of_row) : sn_tile_times(t, t->tile_row, t->inner);
    *base = t->whole ? sn_tile_const(t, 0) : sn_tile_times(t, t->row, of_row);
    *limit = t->whole ? t->outer * of_row : of_row;
}

static int64_t sn_tile_elements(const sn_tiles *t) { return t->batch * t->rows * t->width; }

sn_ix sn_tile_lead(const sn_tiles *t) {
    if (!t->moved) return sn_tile_const(t, 0);
    return sn_ix_modc(t->m, sn_tile_times(t, t->row, t->length * t->inner), t->vector);
}

/* Vectors that have elements of a tile: a part of another one where it begins inside of one. */
static int64_t tile_vectors(const sn_tiles *t) {
    return sn_ceil_div(sn_tile_elements(t) + (t->moved ? t->vector - 1 : 0), t->vector);
}

/* Of a tile that begins inside of a vector, counted from where that begins: where it ends, and the first vector that is whole. */
static sn_ix moved_end(const sn_tiles *t) {
    int64_t all = t->outer * t->length * t->inner, n = sn_tile_elements(t);
    sn_ix start = sn_tile_times(t, t->row, t->length * t->inner), lead = sn_tile_lead(t);
    sn_ix end = sn_ix_addc(t->m, lead, n);
    if (all % n == 0) return end;
    return sn_ix_min(t->m, end, sn_tile_plus(t, sn_ix_sub(t->m, sn_tile_const(t, all), start), lead));
}
static sn_ix first_whole(const sn_tiles *t) {
    return sn_ix_divc(t->m, sn_ix_addc(t->m, sn_tile_lead(t), t->vector - 1), t->vector);
}

/* Where element e of the tile is in shared memory. */
static sn_ix place_of(const sn_tiles *t, sn_ix e) {
    int64_t of_row = t->rows * t->width;
    if (t->pitch == of_row) return sn_ix_addc(t->m, e, t->pad);
    return sn_ix_addc(t->m, sn_tile_plus(t, e, sn_tile_times(t, sn_ix_divc(t->m, e, of_row), t->pitch - of_row)),
                      t->pad);
}

/* `exact`: no place beyond the tile. */
static void open_flat(sn_tiles *t, turn *out, bool exact) {
    sn_module *m = t->m;
    sn_ix x, u = sn_tile_const(t, 0), v = u, start, base;
    int64_t limit, n = sn_tile_elements(t), at_once = t->threads * t->vector,
                   turns = sn_ceil_div(tile_vectors(t), t->threads);
    flat_tile(t, &start, &base, &limit);
    out->at = sn_tile_threads(t, t->threads, &x);
    out->threads = out->at.parent;
    if (turns > 1) out->at = sn_tile_loop(t, out->at, "u", turns, SN_AXIS_UNROLL, &u);
    sn_ix number = sn_tile_plus(t, sn_tile_times(t, u, t->threads), x), vectors = sn_ix_divc(m, start, t->vector);
    out->there = (sn_val){0};
    if (exact && t->moved) {
        sn_ix first = first_whole(t), whole = sn_ix_sub(m, sn_ix_divc(m, moved_end(t), t->vector), first);
        out->there = sn_put_in(m, out->at, sn_ix_sub(m, number, first), whole);
    } else if (exact && n % at_once) {
        out->there = sn_put_in(m, out->at, number, sn_tile_const(t, n / t->vector));
    }
    if (exact ? !t->moved && (n % at_once || limit % n) : true)
        out->there =
            sn_tile_both(t, out->at, out->there,
                         sn_put_in(m, out->at, sn_tile_plus(t, vectors, number), sn_tile_const(t, limit / t->vector)));
    if (t->vector > 1) out->at = sn_tile_loop(t, out->at, "v", t->vector, SN_AXIS_VECTOR, &v);
    sn_ix e = sn_tile_plus(t, sn_tile_times(t, number, t->vector), v);
    out->place = place_of(t, e);
    if (t->moved) start = sn_tile_times(t, vectors, t->vector);
    out->element = sn_tile_plus(t, sn_tile_plus(t, base, start), e);
}

/* What is behind the last whole vector of all, in the loop over threads `in` or in one of its own (none); false: nothing. */
static bool open_rest(sn_tiles *t, turn *out, sn_stmt in) {
    sn_module *m = t->m;
    sn_ix x, start, base;
    int64_t limit, n = sn_tile_elements(t);
    flat_tile(t, &start, &base, &limit);
    int64_t rest = limit % t->vector;
    if (!t->flat || !rest) return false;
    if (in.i) out->at = sn_tile_threads_in(t, in, rest, &x);
    else out->at = sn_tile_threads(t, rest, &x);
    sn_ix e = sn_ix_addc(m, x, limit - rest), place = sn_ix_sub(m, e, start);
    out->there = sn_put_in(m, out->at, place, sn_tile_const(t, n));
    if (t->moved) place = sn_tile_plus(t, place, sn_tile_lead(t)), n += t->vector - 1;
    place = sn_ix_max(m, sn_tile_const(t, 0), sn_ix_min(m, place, sn_tile_const(t, n - 1)));
    out->place = place_of(t, place);
    out->element = sn_tile_plus(t, base, e);
    return true;
}

static int64_t lanes_of(const sn_tiles *t) { return t->pitch / t->vector; }
static int64_t lines_of(const sn_tiles *t) { return t->threads / lanes_of(t); }

/* The element that line number `line` of the tile begins with. */
sn_ix sn_tile_line_start(const sn_tiles *t, sn_ix line) {
    sn_ix row = sn_tile_plus(t, sn_tile_times(t, t->row, t->length), sn_tile_plus(t, t->tile_row, line));
    return sn_tile_plus(t, sn_tile_times(t, row, t->inner), t->column);
}

/* Lines of the tile, each of which lies somewhere else: with all vectors that have elements of it. */
static void open_lines(sn_tiles *t, turn *out) {
    sn_module *m = t->m;
    int64_t lanes = lanes_of(t), lines = lines_of(t), turns = sn_ceil_div(t->rows, lines);
    int64_t all = t->outer * t->length * t->inner;
    sn_ix x, u = sn_tile_const(t, 0), v = u;
    out->at = sn_tile_threads(t, lanes * lines, &x);
    if (turns > 1) out->at = sn_tile_loop(t, out->at, "u", turns, SN_AXIS_UNROLL, &u);
    sn_ix line = sn_tile_plus(t, sn_tile_times(t, u, lines), sn_ix_divc(m, x, lanes)),
          row = sn_tile_plus(t, t->tile_row, line);
    sn_ix lane = sn_ix_modc(m, x, lanes), first = sn_ix_divc(m, sn_tile_line_start(t, line), t->vector);
    out->there = (sn_val){0};
    if (t->rows % lines) out->there = sn_put_in(m, out->at, line, sn_tile_const(t, t->rows));
    if (t->rows * t->parts != t->length)
        out->there = sn_tile_both(t, out->at, out->there, sn_put_in(m, out->at, row, sn_tile_const(t, t->length)));
    if (t->skewed || t->side * t->width != t->inner) /* what is behind the last column is of another line */
        out->there =
            sn_tile_both(t, out->at, out->there,
                         sn_put_in(m, out->at, sn_tile_plus(t, first, lane), sn_tile_const(t, all / t->vector)));
    if (t->vector > 1) out->at = sn_tile_loop(t, out->at, "v", t->vector, SN_AXIS_VECTOR, &v);
    out->place =
        sn_tile_plus(t, sn_tile_times(t, line, t->pitch), sn_tile_plus(t, sn_tile_times(t, lane, t->vector), v));
    out->element = sn_tile_plus(t, sn_tile_times(t, sn_tile_plus(t, first, lane), t->vector), v);
}

/* What of the last line of all is behind the last whole vector. */
static bool open_last(sn_tiles *t, turn *out) {
    sn_module *m = t->m;
    int64_t all = t->outer * t->length * t->inner, rest = all % t->vector;
    sn_ix x, line = sn_ix_sub(m, sn_tile_const(t, t->length - 1), t->tile_row);
    if (t->flat || !rest) return false;
    out->at = sn_tile_threads(t, rest, &x);
    sn_val there = sn_put_in(m, out->at, line, sn_tile_const(t, t->rows));
    line = sn_ix_max(m, sn_tile_const(t, 0), sn_ix_min(m, line, sn_tile_const(t, t->rows - 1)));
    out->element = sn_ix_addc(m, x, all - rest);
    sn_ix start = sn_tile_line_start(t, line), place = sn_ix_sub(m, out->element, start);
    there = sn_tile_both(t, out->at, there, sn_put_in(m, out->at, place, sn_tile_const(t, t->width)));
    out->there = there;
    place = sn_tile_plus(t, place, sn_ix_modc(m, start, t->vector));
    place = sn_ix_max(m, sn_tile_const(t, 0), sn_ix_min(m, place, sn_tile_const(t, t->pitch - 1)));
    out->place = sn_tile_plus(t, sn_tile_times(t, line, t->pitch), place);
    return true;
}

int64_t sn_tile_staged(const sn_tiles *t) {
    int64_t at_once = t->threads * t->vector, n = sn_tile_elements(t);
    if (!t->flat) return sn_ceil_div(t->rows, lines_of(t)) * lines_of(t) * t->pitch;
    n = sn_ceil_div(tile_vectors(t), t->threads) * at_once;
    if (t->whole) n += (n - 1) / (t->rows * t->width) * (t->pitch - t->rows * t->width);
    int64_t walked = t->whole ? (t->batch - 1) * t->pitch + t->pieces * t->steps * t->width : n;
    if (t->moved) walked += t->vector - 1;
    return t->pad + (walked > n ? walked : n);
}

static void put_copy(sn_tiles *t, const turn *at, uint32_t i) {
    sn_module *m = t->m;
    sn_val zero = {0};
    if (at->there.i) zero = sn_put_const(m, at->at, sn_buf_get(m, t->from[i])->dtype, 0);
    sn_val x = at->there.i ? sn_put_load_masked(m, at->at, t->from[i], at->element, at->there, zero)
                           : sn_put_load(m, at->at, t->from[i], at->element);
    sn_put_store(m, at->at, t->staged[i], at->place, x);
}

/* What stands in a pipe runs ahead if it says so. */
static void mark_bulk(const sn_tiles *t, sn_stmt s) {
    while (sn_stmt_get(t->m, s)->kind != SN_AXIS_BLOCK_X) s = sn_stmt_get(t->m, s)->parent;
    sn_stmt_get(t->m, s)->bulk = true;
}

void sn_tile_copy_in(sn_tiles *t) {
    turn at;
    for (uint32_t i = 0; i < t->n_loads; i++) {
        sn_dtype dtype = sn_buf_get(t->m, t->from[i])->dtype;
        t->staged[i] = sn_tile_buffer(t, "s", i, dtype, SN_BUF_SHARED, sn_tile_staged(t));
        if (dtype == sn_buf_get(t->m, t->to)->dtype) t->out = t->staged[i];
        if (t->flat) open_flat(t, &at, false);
        else open_lines(t, &at);
        put_copy(t, &at, i);
        if (t->stages) mark_bulk(t, at.at.parent);
        if (t->stages) continue;
        if (!open_rest(t, &at, (sn_stmt){0}) && !open_last(t, &at)) continue;
        sn_val x =
            sn_put_load_masked(t->m, at.at, t->from[i], at.element, at.there, sn_put_const(t->m, at.at, dtype, 0));
        sn_put_store_masked(t->m, at.at, t->staged[i], at.place, x, at.there);
    }
    if (t->stages) sn_put_barrier(t->m, sn_at_end(t->k, t->into));
    sn_dtype dtype = sn_buf_get(t->m, t->to)->dtype;
    if (!t->out.i && sn_tile_stays(t))
        t->out = sn_tile_buffer(t, "s", t->n_loads, dtype, SN_BUF_SHARED, sn_tile_staged(t));
}

void sn_tile_fetch_ahead(sn_tiles *t, int64_t blocks) {
    sn_module *m = t->m;
    int64_t running = blocks * t->c->cx->target->units, ahead = running / 2, whole = t->length / t->rows;
    if (!t->warps || t->outer > 1 || whole < SN_CUT_TILE_WAVES * running) return;
    sn_ix part = t->reverse ? sn_ix_sub(m, sn_tile_const(t, t->parts - 1), t->part) : t->part;
    sn_ix later = sn_ix_addc(m, part, t->reverse ? -ahead : ahead);
    sn_cursor at = sn_at_end(t->k, t->grid);
    sn_val there = sn_put_in(m, at, later, sn_tile_const(t, whole));
    for (uint32_t i = 0; i < t->n_loads; i++)
        sn_put_prefetch(m, at, t->from[i], sn_tile_times(t, later, t->rows), sn_tile_const(t, t->rows), there);
}

static void put_store(sn_tiles *t, const turn *at) {
    sn_module *m = t->m;
    if (at->there.i) {
        sn_val zero = sn_put_const(m, at->at, sn_buf_get(m, t->out)->dtype, 0);
        sn_val x = sn_put_load_masked(m, at->at, t->out, at->place, at->there, zero);
        sn_put_store_masked(m, at->at, t->to, at->element, x, at->there);
    } else {
        sn_put_store(m, at->at, t->to, at->element, sn_put_load(m, at->at, t->out, at->place));
    }
}

/* What a tile that begins inside of a vector has of that, and of the one that it ends in. */
static void put_ends(sn_tiles *t, sn_stmt threads) {
    sn_module *m = t->m;
    sn_ix x, lead = sn_tile_lead(t), first = sn_tile_times(t, first_whole(t), t->vector), end = moved_end(t);
    sn_ix back = sn_tile_times(t, sn_ix_divc(m, end, t->vector), t->vector);
    sn_ix start = sn_ix_sub(m, sn_tile_times(t, t->row, t->length * t->inner), lead);
    turn at = {.at = sn_tile_threads_in(t, threads, t->vector, &x)};
    at.there = sn_put_in(m, at.at, sn_ix_sub(m, x, lead), sn_ix_sub(m, first, lead));
    at.place = place_of(t, x);
    at.element = sn_tile_plus(t, start, x);
    put_store(t, &at);
    at.there = sn_put_in(m, at.at, x, sn_ix_sub(m, end, back));
    at.place = place_of(t, sn_tile_plus(t, back, x));
    at.element = sn_tile_plus(t, sn_tile_plus(t, start, back), x);
    put_store(t, &at);
}

/* Of a line of results, counted from where the vector begins that it begins in: its first element, how many it has, and where
 * the vector begins that it ends in, or that begins at its end. */
typedef struct piece {
    sn_ix line, lead, n, back;
    sn_val there; /* is there such a line? none: always */
} piece;

static void find_piece(sn_tiles *t, sn_cursor at, sn_ix line, bool always, piece *out) {
    sn_module *m = t->m;
    out->line = always ? line : sn_ix_min(m, line, sn_tile_const(t, t->rows - 1));
    out->lead = sn_ix_modc(m, sn_tile_line_start(t, out->line), t->vector);
    out->n = sn_tile_const(t, t->width);
    if (t->side * t->width != t->inner)
        out->n = sn_ix_min(m, out->n, sn_ix_sub(m, sn_tile_const(t, t->inner), t->column));
    out->back = sn_tile_times(t, sn_ix_divc(m, sn_tile_plus(t, out->lead, out->n), t->vector), t->vector);
    out->there = (sn_val){0};
    if (!always) out->there = sn_put_in(m, at, line, sn_tile_const(t, t->rows));
    if (t->rows * t->parts == t->length) return;
    sn_val in_row = sn_put_in(m, at, sn_tile_plus(t, t->tile_row, line), sn_tile_const(t, t->length));
    out->there = sn_tile_both(t, at, out->there, in_row);
}

/* Element e of that. */
static void place_in_line(const sn_tiles *t, turn *out, const piece *p, sn_ix e) {
    out->place = sn_tile_plus(t, sn_tile_times(t, p->line, t->pitch), e);
    out->element = sn_tile_plus(t, sn_ix_sub(t->m, sn_tile_line_start(t, p->line), p->lead), e);
}

/* Whole vectors of lines that begin anywhere. */
static void put_whole(sn_tiles *t) {
    sn_module *m = t->m;
    int64_t lanes = lanes_of(t), lines = lines_of(t), turns = sn_ceil_div(t->rows, lines);
    sn_ix x, u = sn_tile_const(t, 0), v, none = u;
    piece p;
    turn at = {.at = sn_tile_threads(t, lanes * lines, &x)};
    if (turns > 1) at.at = sn_tile_loop(t, at.at, "u", turns, SN_AXIS_UNROLL, &u);
    sn_ix line = sn_tile_plus(t, sn_tile_times(t, u, lines), sn_ix_divc(m, x, lanes));
    find_piece(t, at.at, line, t->rows % lines == 0, &p);
    sn_ix first = sn_tile_times(t, sn_ix_modc(m, x, lanes), t->vector);
    sn_ix starts = sn_ix_max(m, none, sn_ix_addc(m, p.n, 1 - t->vector)); /* of whole vectors */
    at.there = sn_tile_both(t, at.at, p.there, sn_put_in(m, at.at, sn_ix_sub(m, first, p.lead), starts));
    at.at = sn_tile_loop(t, at.at, "v", t->vector, SN_AXIS_VECTOR, &v);
    place_in_line(t, &at, &p, sn_tile_plus(t, first, v));
    put_store(t, &at);
}

/* What lines have of the vectors that they begin and end in. */
static void put_line_ends(sn_tiles *t) {
    sn_module *m = t->m;
    int64_t lines = t->threads / t->vector, turns = sn_ceil_div(t->rows, lines);
    sn_ix x, u = sn_tile_const(t, 0), none = u;
    piece p;
    turn at = {.at = sn_tile_threads(t, lines * t->vector, &x)};
    if (turns > 1) at.at = sn_tile_loop(t, at.at, "u", turns, SN_AXIS_UNROLL, &u);
    sn_ix line = sn_tile_plus(t, sn_tile_times(t, u, lines), sn_ix_divc(m, x, t->vector));
    find_piece(t, at.at, line, t->rows % lines == 0, &p);
    sn_ix e = sn_ix_modc(m, x, t->vector), whole = sn_ix_divc(m, sn_ix_addc(m, p.lead, t->vector - 1), t->vector);
    sn_ix front = sn_ix_sub(m, sn_ix_min(m, sn_tile_times(t, whole, t->vector), p.back), p.lead);
    at.there = sn_put_in(m, at.at, sn_ix_sub(m, e, p.lead), sn_ix_max(m, none, front));
    at.there = sn_tile_both(t, at.at, p.there, at.there);
    place_in_line(t, &at, &p, e);
    put_store(t, &at);
    e = sn_tile_plus(t, p.back, e);
    at.there = sn_tile_both(t, at.at, p.there, sn_put_in(m, at.at, sn_ix_sub(m, e, p.lead), p.n));
    place_in_line(t, &at, &p, e);
    put_store(t, &at);
}

void sn_tile_copy_out(sn_tiles *t) {
    turn at;
    if (!t->flat) {
        put_whole(t);
        put_line_ends(t);
        return;
    }
    open_flat(t, &at, true);
    put_store(t, &at);
    if (t->moved) put_ends(t, at.threads);
    else if (open_rest(t, &at, at.threads)) put_store(t, &at);
}
