/* brick_bind.c: binding of class brick: what a brick has of a load comes to shared memory run by run, and goes from there to the
 * runs of the stores.
 *
 *     loop g : grid {                                      bricks
 *       loop x : block.x { loop l { loop p {               any X threads a run: run c = (T / X)*l + x div X, piece q = X*p + x mod X
 *         loop v { load x[start of run c + V*q + v]   store s[P*c + V*q + v] } } } }
 *       loop x : block.x { loop l { loop p {               the same along the runs of the stores
 *         loop v { the body; what it read from x is in s } } } }
 *     }
 *
 * brick_layout.c says how shared memory is laid out. Where a run of the stores does not begin with a sector, its pieces are counted from the
 * first one that does, and what is in front of that comes last. Runs of bytes or halves are stored by words, wherever they begin (put_words), and
 * what is in none of their words afterwards (put_left); so are those of many loops that words begin anyway, row by row (put_between) or in
 * parts. Copies of runs that begin anywhere may reach over the end of the storage: those of bricks inside do not, where others have
 * iterations behind them, and are known not to (find_origins); in other bricks a copy has as many bytes as there are. Where loads go back,
 * the elements of such a piece are tested one by one (put_last).
 *
 * Where bricks end inside of sectors, each stores those from the first that begins in it to the first that begins in the next one, and loads
 * what is `beyond` its own; the first of them has what is in front of that (put_head). Bytes and halves do so by words (put_sectors); what follows
 * the last word of a row is stored by the brick in which the sector begins (put_row_ends).
 *
 * Bricks at an end of a loop that they do not fill, or go beyond, have loops of their own, with masks.
 */
#include "passes/schedule/moves/brick.h"
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"

/* A load. */
typedef struct staged {
    uint32_t position; /* in the body */
    sn_ix ix;
    sn_buf buf, shared;
    sn_schedule_brick_part in; /* shared memory */
    bool hidden;               /* a mask: places may be none of the storage */
} staged;

typedef struct brick {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    const sn_schedule_shape *sh;
    sn_schedule_brick b;
    int64_t threads, v;
    sn_axis axes[SN_MAX_CHAIN];
    int64_t sides[SN_MAX_CHAIN];                     /* of a brick, with what is beyond it */
    sn_ix parts[SN_MAX_CHAIN], origin[SN_MAX_CHAIN]; /* which brick it is, and where that begins */
    sn_stmt grid, into;
    int64_t unit;   /* elements of a sector of the first store, */
    int64_t reach;  /* ... and the most that are in front of the first that begins in a run */
    bool words;     /* v elements are a word, but runs of the stores begin anywhere */
    bool turned;    /* runs of the stores need not begin with one: lanes begin where one does, and end in front of it */
    uint32_t last;  /* the loop at whose end runs of the stores are cut, */
    int64_t beyond; /* ... with iterations of the next brick that come to shared memory too */
    sn_ix part;     /* ... and which brick along it this is */
    sn_ix edge;     /* loops whose end the brick reaches without filling it */
    bool inside, masked; /* are there bricks with edge 0, and with others */
    staged loads[SN_MAX_BRICK_LOADS];
} brick;

/* Threads of a block along lines of `pieces`, of which there are `lines`. */
typedef struct lanes {
    sn_ix line, piece; /* of this thread and turn */
    sn_stmt into;
} lanes;

/* Threads beyond the last whole line. */
static sn_stmt leave_out_rest(brick *b, sn_stmt into, sn_ix x, int64_t along) {
    int64_t used = b->threads / along * along;
    return used == b->threads ? into : sn_put_if(b->m, sn_at_end(b->k, into), x, sn_ix_const(b->m, used));
}

/* A loop over n turns, `most` of which are written out: all, or as equal parts as can be. */
static sn_ix open_turns(brick *b, sn_stmt *into, const char *outer, const char *inner, int64_t n, int64_t most) {
    int64_t times = sn_ceil_div(n, most), part = sn_ceil_div(n, times);
    sn_ix o = sn_open_loop_in(b->m, b->k, into, outer, times, SN_AXIS_SEQ);
    sn_ix i = sn_open_loop_in(b->m, b->k, into, inner, part, SN_AXIS_UNROLL);
    return sn_ix_fma(b->m, part, o, i);
}

static int64_t after_turns(int64_t n, int64_t most) {
    return sn_ceil_div(n, sn_ceil_div(n, most)) * sn_ceil_div(n, most);
}

static lanes open_lanes(brick *b, sn_ix x, sn_stmt into, int64_t pieces, int64_t lines) {
    enum { MOST_UNROLL = 8 };
    sn_module *m = b->m;
    int64_t along = sn_schedule_brick_threads(b->threads, pieces, lines), beside = b->threads / along;
    int64_t n = sn_ceil_div(pieces, along), n_lines = sn_ceil_div(lines, beside);
    int64_t most = n < MOST_UNROLL ? MOST_UNROLL / n : 1;
    lanes l;
    into = leave_out_rest(b, into, x, along);
    l.line = sn_ix_fma(m, beside, open_turns(b, &into, "lo", "l", n_lines, most), sn_ix_divc(m, x, along));
    if (after_turns(n_lines, most) * beside > lines)
        into = sn_put_if(m, sn_at_end(b->k, into), l.line, sn_ix_const(m, lines));
    l.piece = sn_ix_fma(m, along, open_turns(b, &into, "po", "p", n, MOST_UNROLL), sn_ix_modc(m, x, along));
    if (after_turns(n, MOST_UNROLL) * along > pieces)
        into = sn_put_if(m, sn_at_end(b->k, into), l.piece, sn_ix_const(m, pieces));
    l.into = into;
    return l;
}

/* e, which tests keep from 0 to n - 1, for those who do not look at tests: the offsets of shared memory (L14). */
static sn_ix inside(sn_module *m, sn_ix e, int64_t n) {
    sn_range r = sn_ix_range(m, e);
    if (r.hi >= n) e = sn_ix_min(m, e, sn_ix_const(m, n - 1));
    return r.lo < 0 ? sn_ix_max(m, e, sn_ix_const(m, 0)) : e;
}

/* What the loops of a list are at number e, the first one fastest; *out by position. */
static void take_apart(brick *b, const uint32_t *at, uint32_t n, sn_ix e, sn_ix *out) {
    sn_ix shape[SN_MAX_CHAIN], parts[SN_MAX_CHAIN];
    if (!n) return;
    for (uint32_t k = 0; k < n; k++) shape[n - 1 - k] = sn_ix_const(b->m, b->sides[at[k]]);
    sn_ix_unflatten(b->m, e, shape, n, parts);
    for (uint32_t k = 0; k < n; k++) out[at[k]] = parts[n - 1 - k];
}

/* Does the thread's element of these loops exist? */
static sn_val put_mask(brick *b, sn_stmt into, const sn_ix *at, const uint32_t *loops, uint32_t n, sn_val mask) {
    sn_cursor end = sn_at_end(b->k, into);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t p = loops[k];
        if (b->b.extents[p] % b->b.sides[p] == 0 && !(b->beyond && p == b->last)) continue;
        sn_val in = sn_put_in(b->m, end, sn_ix_add(b->m, b->origin[p], at[p]), sn_ix_const(b->m, b->b.extents[p]));
        mask = mask.i ? sn_put_op2(b->m, end, SN_LOP_AND, mask, in) : in;
    }
    return mask;
}

/* ---- runs of loads ---- */

static sn_ix place_of_run(sn_module *m, const sn_schedule_brick_part *q, sn_ix run) {
    sn_ix place = sn_ix_scale(m, run, q->pitch);
    return q->group ? sn_ix_fma(m, q->gap, sn_ix_divc(m, run, q->group), place) : place;
}

/* Loops of a run that go back through memory: the last iteration of what a brick has of them comes first. */
static void turn_back(brick *b, const staged *st, sn_ix *at) {
    for (uint32_t k = 0; k < st->in.n_run; k++) {
        uint32_t p = st->in.run[k];
        if (st->in.back[p]) at[p] = sn_ix_sub(b->m, sn_ix_const(b->m, b->sides[p] - 1), at[p]);
    }
}

/* The offset of a run, whose own loops are at the iterations that come first in memory. */
static sn_ix start_of_run(brick *b, const staged *st, sn_ix run, sn_ix *at) {
    sn_ix with[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) at[p] = sn_ix_const(b->m, 0);
    turn_back(b, st, at);
    take_apart(b, st->in.runs, st->in.n_runs, run, at);
    for (uint32_t p = 0; p < b->b.n; p++) with[p] = sn_ix_add(b->m, b->origin[p], at[p]);
    return sn_ix_subst(b->m, st->ix, b->axes, with, b->b.n);
}

/* The storage ends inside of a word: its elements, and none of the words behind it. */
static void put_last(brick *b, const staged *st, sn_stmt into, sn_ix from, sn_ix to) {
    sn_module *m = b->m;
    int64_t size = st->in.size, whole = size / st->in.v * st->in.v;
    into = sn_put_if(m, sn_at_end(b->k, into), sn_ix_addc(m, from, -whole), sn_ix_const(m, size));
    sn_ix e = sn_open_loop_in(b->m, b->k, &into, "e", st->in.v, SN_AXIS_UNROLL);
    sn_cursor end = sn_at_end(b->k, into);
    from = sn_ix_add(m, from, e);
    sn_val exists = sn_put_in(m, end, from, sn_ix_const(m, size));
    sn_val none = sn_put_const(m, end, sn_buf_get(m, st->buf)->dtype, 0);
    sn_put_store(m, end, st->shared, sn_ix_add(m, to, e), sn_put_load_masked(m, end, st->buf, from, exists, none));
}

/* In front of the storage, where loops that go back have iterations beyond their last one: nothing that a body would take for an index. */
static void put_none(brick *b, const staged *st, sn_stmt into, sn_ix from, sn_ix to) {
    sn_module *m = b->m;
    sn_ix before = sn_ix_sub(m, sn_ix_const(m, -st->in.v), from);
    into = sn_put_if(m, sn_at_end(b->k, into), before, sn_ix_const(m, st->in.size));
    sn_ix e = sn_open_loop_in(b->m, b->k, &into, "e", st->in.v, SN_AXIS_VECTOR);
    sn_cursor end = sn_at_end(b->k, into);
    sn_put_store(m, end, st->shared, sn_ix_add(m, to, e), sn_put_const(m, end, sn_buf_get(m, st->buf)->dtype, 0));
}

static bool goes_back(const brick *b, const staged *st) {
    const sn_schedule_walk *w = &b->b.loads[st - b->loads];
    for (uint32_t p = 0; p < b->b.n; p++)
        if (w->back[p]) return true;
    return false;
}

/* Does the storage go on behind all runs of bricks inside, as far as their pieces reach? It does where loops have iterations that only
 * others have. */
static bool goes_on(const brick *b, const staged *st) {
    const sn_schedule_walk *w = &b->b.loads[st - b->loads];
    int64_t behind = 0;
    if (st->hidden || goes_back(b, st)) return false;
    for (uint32_t p = 0; p < b->b.n; p++) {
        int64_t side = b->b.sides[p], more = b->sides[p] - side, rest = (b->b.extents[p] - more) % side;
        if (rest * w->strides[p] > behind) behind = rest * w->strides[p];
    }
    return behind >= st->in.pieces * st->in.v - st->in.length;
}

static void put_copy(brick *b, const staged *st, sn_stmt into, sn_ix x, bool masked) {
    sn_module *m = b->m;
    lanes l = open_lanes(b, x, into, st->in.pieces, st->in.count);
    sn_ix at[SN_MAX_CHAIN], start = start_of_run(b, st, l.line, at);
    int64_t whole = st->in.size / st->in.v * st->in.v;
    sn_ix from = sn_ix_add(m, st->in.anywhere ? sn_ix_scale(m, sn_ix_divc(m, start, st->in.v), st->in.v) : start,
                           sn_ix_scale(m, l.piece, st->in.v));
    sn_ix run = inside(m, l.line, st->in.count), piece = inside(m, l.piece, st->in.pieces);
    sn_ix to = sn_ix_fma(m, st->in.v, piece, place_of_run(m, &st->in, run));
    bool reaches = st->in.anywhere && (masked || !goes_on(b, st)), ends = reaches && whole < st->in.size;
    bool turned = ends && goes_back(b, st);
    if (turned) put_last(b, st, l.into, from, to);
    if (turned && masked) put_none(b, st, l.into, from, to);
    if (turned) l.into = sn_put_if(m, sn_at_end(b->k, l.into), from, sn_ix_const(m, whole));
    sn_ix lane = sn_open_loop_in(b->m, b->k, &l.into, "v", st->in.v, SN_AXIS_VECTOR);
    sn_val mask = {0};
    if ((reaches && !ends) || (st->hidden && !st->in.anywhere))
        mask = sn_put_in(m, sn_at_end(b->k, l.into), from, sn_ix_const(m, whole));
    else if (ends && !turned)
        mask = sn_put_in(m, sn_at_end(b->k, l.into), sn_ix_add(m, from, lane), sn_ix_const(m, st->in.size));
    if (masked) mask = put_mask(b, l.into, at, st->in.runs, st->in.n_runs, mask);
    if (masked && !st->in.anywhere) {
        take_apart(b, st->in.run, st->in.n_run, sn_ix_scale(m, l.piece, st->in.v), at);
        turn_back(b, st, at);
        mask = put_mask(b, l.into, at, st->in.run, st->in.n_run, mask);
    }
    sn_cursor end = sn_at_end(b->k, l.into);
    sn_val value;
    from = sn_ix_add(m, from, lane);
    if (mask.i) {
        sn_val none = sn_put_const(m, end, sn_buf_get(m, st->buf)->dtype, 0);
        value = sn_put_load_masked(m, end, st->buf, from, mask, none);
    } else {
        value = sn_put_load(m, end, st->buf, from);
    }
    sn_put_store(m, end, st->shared, sn_ix_add(m, to, lane), value);
}

static void put_copies(brick *b, bool masked) {
    sn_stmt into = b->into;
    sn_ix x = sn_open_loop_in(b->m, b->k, &into, "x", b->threads, SN_AXIS_BLOCK_X);
    for (uint32_t i = 0; i < b->b.n_staged; i++) put_copy(b, &b->loads[i], into, x, masked);
}

/* ---- the body ---- */

/* Where element `at` of a brick is in shared memory. */
static sn_ix place_of(brick *b, const staged *st, const sn_ix *at) {
    sn_module *m = b->m;
    sn_ix place = sn_ix_const(m, 0), with[SN_MAX_CHAIN], from[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) from[p] = at[p];
    turn_back(b, st, from);
    for (uint32_t k = 0; k < st->in.n_run; k++)
        place = sn_ix_fma(m, st->in.steps[st->in.run[k]], from[st->in.run[k]], place);
    sn_ix run = sn_ix_const(m, 0);
    for (uint32_t k = 0; k < st->in.n_runs; k++)
        run = sn_ix_fma(m, st->in.steps[st->in.runs[k]] / st->in.pitch, at[st->in.runs[k]], run);
    place = sn_ix_add(m, place, place_of_run(m, &st->in, run));
    if (!st->in.anywhere) return place;
    for (uint32_t k = 0; k < st->in.n_run; k++) from[st->in.run[k]] = sn_ix_const(m, 0);
    turn_back(b, st, from);
    for (uint32_t p = 0; p < b->b.n; p++) with[p] = sn_ix_add(m, b->origin[p], from[p]);
    return sn_ix_add(m, place, sn_ix_modc(m, sn_ix_subst(m, st->ix, b->axes, with, b->b.n), st->in.v));
}

/* The offset of a run of the stores, whose loops are at their first iterations. */
static sn_ix start_of_stores(brick *b, const sn_stmt_vec *body, const sn_ix *at) {
    sn_module *m = b->m;
    sn_ix with[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) with[p] = sn_ix_add(m, b->origin[p], at[p]);
    for (uint32_t k = 0; k < body->n; k++) {
        const sn_stmt_rec *r = sn_stmt_get(m, body->at[k]);
        if (r->op == SN_LOP_STORE) return sn_ix_subst(m, r->ix, b->axes, with, b->b.n);
    }
    return sn_ix_const(m, 0);
}

/* Elements from number e of the run up to the first that begins a sector: half a sector is more work for the L2 than a whole one. */
static sn_ix before_sector(brick *b, const sn_stmt_vec *body, const sn_ix *at, int64_t e) {
    return sn_ix_modc(b->m, sn_ix_addc(b->m, sn_ix_scale(b->m, start_of_stores(b, body, at), -1), -e), b->unit);
}

/* The loops of a run of the stores, the fastest first, and those that count runs. */
static void split_loops(const brick *b, uint32_t *run, uint32_t *n_run, uint32_t *runs, uint32_t *n_runs) {
    bool in_run[SN_MAX_CHAIN] = {false};
    int64_t length = sn_schedule_brick_run(&b->b, &b->b.stored);
    *n_run = *n_runs = 0;
    for (int64_t so_far = 1; so_far < length;) {
        uint32_t p = run[*n_run] = b->b.stored.at[*n_run];
        in_run[p] = true;
        ++*n_run;
        so_far *= b->b.sides[p];
    }
    for (uint32_t p = b->b.n; p-- > 0;)
        if (!in_run[p] && b->b.sides[p] > 1) runs[(*n_runs)++] = p;
}

static void redirect(brick *b, const sn_stmt_vec *body, const sn_ix *at) {
    sn_module *m = b->m;
    for (uint32_t i = 0; i < b->b.n_staged; i++) {
        const staged *st = &b->loads[i];
        sn_stmt s = body->at[st->position];
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        sn_ix place = place_of(b, st, at);
        sn_cursor here = sn_at_before(m, s);
        sn_val value = st->hidden ? sn_put_load_masked(m, here, st->shared, place, r->in[0], r->in[1])
                                  : sn_put_load(m, here, st->shared, place);
        sn_val_replace(m, b->k, sn_stmt_get(m, s)->result, value);
        sn_stmt_unlink(m, s);
    }
}

/* The body at element `at` of the brick; `in` is the same for those who do not look at tests. */
static void put_element(brick *b, sn_stmt into, const sn_stmt_vec *body, const sn_ix *at, const sn_ix *in) {
    sn_ix with[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) with[p] = sn_ix_add(b->m, b->origin[p], at[p]);
    for (uint32_t k = 0; k < body->n; k++) {
        sn_stmt_subst(b->m, body->at[k], b->axes, with, b->b.n);
        sn_stmt_insert(b->m, sn_at_end(b->k, into), body->at[k]);
    }
    redirect(b, body, in);
}

static void put_body(brick *b, const sn_stmt_vec *body, bool masked) {
    sn_module *m = b->m;
    uint32_t run[SN_MAX_CHAIN], n_run, runs[SN_MAX_CHAIN], n_runs;
    int64_t length = sn_schedule_brick_run(&b->b, &b->b.stored), count = sn_schedule_brick_elements(&b->b) / length;
    int64_t v = b->words ? 1 : b->v;
    split_loops(b, run, &n_run, runs, &n_runs);
    sn_stmt into = b->into;
    sn_ix x = sn_open_loop_in(b->m, b->k, &into, "x", b->threads, SN_AXIS_BLOCK_X);
    bool shifts = b->beyond && length % b->unit; /* the next brick's first sector begins elsewhere in its run */
    int64_t pieces = (length + (shifts ? b->reach : 0)) / v;
    lanes l = open_lanes(b, x, into, pieces, count);
    sn_ix at[SN_MAX_CHAIN], first[SN_MAX_CHAIN], in[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) in[p] = first[p] = at[p] = sn_ix_const(m, 0);
    take_apart(b, runs, n_runs, l.line, first);
    take_apart(b, runs, n_runs, l.line, at);
    take_apart(b, runs, n_runs, inside(m, l.line, count), in);
    sn_ix before = b->turned ? before_sector(b, body, at, 0) : sn_ix_const(m, 0);
    if (shifts) {
        sn_ix end = sn_ix_addc(m, sn_ix_sub(m, before_sector(b, body, at, length), before), length);
        l.into = sn_put_if(m, sn_at_end(b->k, l.into), l.piece, sn_ix_divc(m, end, v));
    }
    sn_ix e = sn_ix_fma(m, v, inside(m, l.piece, pieces), before);
    if (b->turned && !b->beyond) e = sn_ix_modc(m, e, length);
    if (shifts) e = inside(m, e, length + b->reach - v + 1);
    take_apart(b, run, n_run, e, first);
    sn_val mask = {0};
    if (masked) {
        mask = put_mask(b, l.into, first, run, n_run, mask);
        mask = put_mask(b, l.into, first, runs, n_runs, mask);
    }
    sn_stmt masks = l.into;
    sn_ix lane = sn_open_loop_in(b->m, b->k, &l.into, "v", v, SN_AXIS_VECTOR);
    take_apart(b, run, n_run, sn_ix_add(m, e, lane), at);
    take_apart(b, run, n_run, sn_ix_add(m, e, lane), in);
    put_element(b, l.into, body, at, in);
    if (mask.i) sn_mask_accesses(b->cx, b->k, masks, mask, true);
}

/* What the first brick of a run has in front of the first sector that begins in it. */
static void put_head(brick *b, const sn_stmt_vec *body, bool masked) {
    sn_module *m = b->m;
    uint32_t run[SN_MAX_CHAIN], n_run, runs[SN_MAX_CHAIN], n_runs;
    int64_t count = sn_schedule_brick_elements(&b->b) / sn_schedule_brick_run(&b->b, &b->b.stored);
    split_loops(b, run, &n_run, runs, &n_runs);
    sn_stmt into = sn_put_if(m, sn_at_end(b->k, b->into), b->part, sn_ix_const(m, 1));
    sn_ix x = sn_open_loop_in(b->m, b->k, &into, "x", b->threads, SN_AXIS_BLOCK_X);
    lanes l = open_lanes(b, x, into, b->reach, count);
    sn_ix at[SN_MAX_CHAIN], in[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) in[p] = at[p] = sn_ix_const(m, 0);
    take_apart(b, runs, n_runs, l.line, at);
    take_apart(b, runs, n_runs, inside(m, l.line, count), in);
    l.into = sn_put_if(m, sn_at_end(b->k, l.into), l.piece, before_sector(b, body, at, 0));
    sn_val mask = masked ? put_mask(b, l.into, at, runs, n_runs, (sn_val){0}) : (sn_val){0};
    take_apart(b, run, n_run, l.piece, at);
    take_apart(b, run, n_run, inside(m, l.piece, b->reach), in);
    put_element(b, l.into, body, at, in);
    if (mask.i) sn_mask_accesses(b->cx, b->k, l.into, mask, true);
}

/* ---- runs of words ---- */

/* A run of the stores, whose words begin where they do in memory. There are n or one less of them, and elements of no word at both ends. Runs
 * that begin alike follow each other in a thread: every v-th along the loops `stepped`, all along others whose strides are whole words, and parts
 * of a long run. What is left of the loops that count runs is around that. */
typedef struct words {
    uint32_t run[SN_MAX_CHAIN], n_run, runs[SN_MAX_CHAIN], n_runs; /* loops */
    uint32_t alike[SN_MAX_CHAIN], n_alike, around[SN_MAX_CHAIN], n_around;
    uint32_t stepped[SN_MAX_CHAIN], n_stepped;
    int64_t side; /* iterations of all of these */
    int64_t length, count, n;
    int64_t part, parts;       /* iterations of the last loop that a run has; runs that this loop is cut into */
    sn_ix start, before, less; /* the first element's offset; elements in front of the first word; 1: n - 1 words */
} words;

static words split_words(const brick *b) {
    words w = {.length = sn_schedule_brick_run(&b->b, &b->b.stored), .parts = 1, .side = 1};
    w.count = sn_schedule_brick_elements(&b->b) / w.length;
    w.n = w.length / b->v;
    split_loops(b, w.run, &w.n_run, w.runs, &w.n_runs);
    w.part = b->sides[w.run[w.n_run - 1]];
    for (uint32_t k = 0; k < w.n_runs; k++) {
        uint32_t p = w.runs[k];
        if (b->b.stored.strides[p] % b->v == 0) w.alike[w.n_alike++] = p;
        else if (!w.n_stepped || b->b.sides[p] > w.side) w.n_stepped = 1, w.stepped[0] = p, w.side = b->b.sides[p];
    }
    for (uint32_t k = 0; k < w.n_runs; k++)
        if (b->b.stored.strides[w.runs[k]] % b->v && w.runs[k] != w.stepped[0]) w.around[w.n_around++] = w.runs[k];
    return w;
}

/* How the words of the run whose loops are at `at` lie. */
static void begin_words(brick *b, words *w, const sn_stmt_vec *body, const sn_ix *at) {
    sn_module *m = b->m;
    w->start = start_of_stores(b, body, at);
    w->before = sn_ix_modc(m, sn_ix_scale(m, w->start, -1), b->v);
    w->less = sn_ix_divc(m, sn_ix_addc(m, w->before, b->v - 1 - w->length % b->v), b->v);
}

/* A run of several loops that begins with a word, as all runs do: its parts of as few iterations of the last loop as are
 * whole words lie alike, so that where a word's elements are in them is found once for all parts of a thread. */
static void cut_run(brick *b, words *w, const sn_stmt_vec *body) {
    enum { LEAST = 2 * SN_WARP };
    int64_t side = w->part, inner = w->length / side, part = b->v / sn_schedule_gcd(inner, b->v), zero;
    sn_ix at[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) at[p] = sn_ix_const(b->m, 0);
    sn_ix phase = sn_ix_modc(b->m, start_of_stores(b, body, at), b->v);
    if (w->n_run < 2 || w->n_alike < w->n_runs || !sn_ix_is_const(b->m, phase, &zero) || zero) return;
    while (inner * part < LEAST * b->v && side % (2 * part) == 0) part *= 2;
    int64_t whole = b->unit / sn_schedule_gcd(inner, b->unit);
    if (whole > part && side % whole == 0 && side / whole * SN_WARP >= b->threads) part = whole;
    if (side % part || part == side) return;
    w->parts = side / part;
    w->part = part;
    w->length = inner * part;
    w->n = w->length / b->v;
}

/* 1 where e, which is less than `most` and not less than -most, is not negative; else 0. */
static sn_ix from_zero(sn_module *m, sn_ix e, int64_t most) {
    most = sn_pow2_ceil(most);
    return sn_ix_divc(m, sn_ix_addc(m, e, most), most);
}

/* Which iterations of the loops of a run its element e + lane is: those of e, and the lanes that go over the end of a loop. */
static void step_apart(brick *b, const words *w, sn_ix e, sn_ix lane, sn_ix *at) {
    sn_module *m = b->m;
    sn_ix more = lane, part = w->parts > 1 ? at[w->run[w->n_run - 1]] : sn_ix_const(m, 0);
    take_apart(b, w->run, w->n_run, e, at);
    for (uint32_t k = 0; k < w->n_run; k++) {
        sn_ix *d = &at[w->run[k]], sum = sn_ix_add(m, *d, more);
        int64_t n = b->sides[w->run[k]];
        if (k + 1 < w->n_run) {
            more = sn_ix_divc(m, sum, n);
            *d = sn_ix_modc(m, sum, n);
        } else {
            *d = sn_ix_add(m, part, inside(m, sum, w->parts > 1 ? w->part : n));
        }
    }
}

/* Do runs of shared memory follow each other as elements of a run of the stores do? Then nobody asks which loops those are. */
static bool follows_runs(const brick *b, const words *w) {
    for (uint32_t i = 0; i < b->b.n_staged; i++) {
        const sn_schedule_brick_part *q = &b->loads[i].in;
        const uint32_t *loops = i < b->b.n_across ? q->runs : q->run;
        if (w->parts > 1 || (i < b->b.n_across ? q->n_runs : q->n_run) < w->n_run) return false;
        for (uint32_t k = 0; k < w->n_run; k++)
            if (loops[k] != w->run[k]) return false;
    }
    return true;
}

/* Operations that find where an element of a run is: a division and a remainder for each loop but the last one. */
static uint32_t digits(const brick *b, const words *w) {
    uint32_t n = 0;
    for (uint32_t k = 0; k + 1 < w->n_run; k++)
        n += sn_pow2_divisor(b->sides[w->run[k]]) == b->sides[w->run[k]] ? 1 : 2;
    return n;
}

/* Would a word's elements be looked for one by one, at some length, in runs that words begin, but not sectors? What a warp stores ends
 * inside of sectors then, which takes less time. */
static bool looks_for_each(const brick *b, const words *w) {
    if (!b->turned || b->words || b->beyond || b->v < 2 || b->v * b->b.least != SN_TILE_WORD) return false;
    for (uint32_t i = 0; i < b->b.n_staged; i++)
        if (b->loads[i].in.common % b->v == 0) return false;
    int64_t each = b->b.least == 1 ? SN_BRICK_DIGITS_BYTES : SN_BRICK_DIGITS;
    return digits(b, w) >= each && !follows_runs(b, w);
}

/* Does a run go by its rows, each of which has its own words, of whose elements all are in it? Few words are in two rows then (put_between). */
static bool goes_by_rows(const brick *b, const words *w) {
    return looks_for_each(b, w) && b->sides[w->run[0]] >= SN_BRICK_ROW * b->v;
}

static void take_rows(const brick *b, words *w) {
    int64_t row = b->sides[w->run[0]], rows = w->length * w->parts / row;
    w->n_stepped = w->n_run - 1;
    for (uint32_t k = 0; k < w->n_stepped; k++) w->stepped[k] = w->run[k + 1];
    w->side = rows, w->n_run = 1, w->parts = 1;
    w->length = w->part = row, w->n = row / b->v, w->count *= rows;
}

/* The same for those who do not look at tests, where element e + lane is one of the brick's. */
static void step_inside(brick *b, const words *w, sn_ix e, sn_ix lane, sn_ix *in) {
    if (follows_runs(b, w)) take_apart(b, w->run, w->n_run, sn_ix_add(b->m, e, lane), in);
    else step_apart(b, w, e, lane, in);
}

/* Threads of a run, and runs at a time, of those that begin alike; q: the first of them along the loop of which every v-th does. */
typedef struct word_lanes {
    int64_t along, beside, steps, turns;
    sn_ix q, piece;
    sn_stmt into;
} word_lanes;

static word_lanes open_words(brick *b, const words *w, sn_ix x, sn_stmt into, sn_ix *at) {
    sn_module *m = b->m;
    int64_t side = w->side, alike = w->parts;
    for (uint32_t k = 0; k < w->n_alike; k++) alike *= b->b.sides[w->alike[k]];
    word_lanes l = {.steps = sn_ceil_div(side, b->v)};
    l.along = sn_schedule_brick_threads(b->threads, w->n, l.steps * alike);
    if (w->parts > 1 && l.along < SN_WARP) l.along = SN_WARP; /* lanes in two parts meet in a bank */
    l.beside = b->threads / l.along;
    l.turns = sn_ceil_div(l.steps * alike, l.beside);
    into = leave_out_rest(b, into, x, l.along);
    for (uint32_t k = 0; k < w->n_around; k++)
        at[w->around[k]] = sn_open_loop_in(b->m, b->k, &into, "r", b->b.sides[w->around[k]], SN_AXIS_SEQ);
    /* Written out, places of a word's elements are constants from each other; little of what takes long. */
    bool few = b->sh->instructions * b->v <= SN_FEW_INSTRUCTIONS;
    l.q = sn_open_loop_in(b->m, b->k, &into, "q", side < b->v ? side : b->v, few ? SN_AXIS_UNROLL : SN_AXIS_SEQ);
    take_apart(b, w->stepped, w->n_stepped, l.q, at);
    sn_ix p = sn_open_loop_in(b->m, b->k, &into, "p", sn_ceil_div(w->n, l.along), SN_AXIS_SEQ);
    l.piece = sn_ix_fma(m, l.along, p, sn_ix_modc(m, x, l.along));
    l.into = into;
    return l;
}

/* Where the loops of runs that lie alike are in run `number` of these. */
static void take_alike(brick *b, const words *w, sn_ix number, sn_ix *at) {
    sn_module *m = b->m;
    if (w->parts > 1) at[w->run[w->n_run - 1]] = sn_ix_scale(m, sn_ix_modc(m, number, w->parts), w->part);
    take_apart(b, w->alike, w->n_alike, sn_ix_divc(m, number, w->parts), at);
}

/* The run of this thread and turn. */
static void enter_run(brick *b, const words *w, word_lanes *l, sn_ix x, sn_ix *at, sn_ix *in) {
    enum { MOST_UNROLL = 8 };
    sn_module *m = b->m;
    sn_ix number = open_turns(b, &l->into, "lo", "l", l->turns, MOST_UNROLL);
    int64_t alike = w->parts, side = w->side;
    for (uint32_t k = 0; k < w->n_alike; k++) alike *= b->b.sides[w->alike[k]];
    number = sn_ix_fma(m, l->beside, number, sn_ix_divc(m, x, l->along));
    if (after_turns(l->turns, MOST_UNROLL) * l->beside > l->steps * alike)
        l->into = sn_put_if(m, sn_at_end(b->k, l->into), number, sn_ix_const(m, l->steps * alike));
    sn_ix step = sn_ix_fma(m, b->v, sn_ix_divc(m, number, alike), l->q), within = inside(m, number, l->steps * alike);
    if (side > 1 && side % b->v) l->into = sn_put_if(m, sn_at_end(b->k, l->into), step, sn_ix_const(m, side));
    take_alike(b, w, sn_ix_modc(m, number, alike), at);
    take_alike(b, w, sn_ix_modc(m, within, alike), in);
    sn_ix exists = inside(m, sn_ix_fma(m, b->v, sn_ix_divc(m, within, alike), l->q), side);
    take_apart(b, w->stepped, w->n_stepped, step, at);
    take_apart(b, w->stepped, w->n_stepped, exists, in);
}

/* Runs of several long rows, whose words are found each for itself: few of them have elements of two rows. */
static bool stays_in_row(const brick *b, const words *w) {
    enum { WARPS = 2 };
    return w->n_run > 1 && w->parts == 1 && b->sides[w->run[0]] >= WARPS * SN_WARP * b->v;
}

/* The word of element e, which goes to `first`; `stays`: all of it is in one row of the run. */
static void put_word(brick *b, const words *w, sn_stmt into, const sn_stmt_vec *body, sn_ix first, sn_ix e, sn_ix *at,
                     sn_ix *in, bool stays) {
    sn_module *m = b->m;
    sn_ix lane = sn_open_loop_in(m, b->k, &into, "v", b->v, SN_AXIS_VECTOR);
    if (stays) {
        uint32_t p = w->run[0];
        take_apart(b, w->run, w->n_run, e, at);
        take_apart(b, w->run, w->n_run, e, in);
        at[p] = sn_ix_add(m, at[p], lane);
        in[p] = sn_ix_add(m, inside(m, in[p], b->sides[p] - b->v + 1), lane);
    } else {
        step_apart(b, w, e, lane, at);
        step_inside(b, w, e, lane, in);
    }
    put_element(b, into, body, at, in);
    for (uint32_t k = 0; k < body->n; k++)
        if (sn_stmt_get(m, body->at[k])->op == SN_LOP_STORE)
            sn_stmt_get(m, body->at[k])->ix = sn_ix_add(m, first, lane);
}

/* All words of which the run has no more than a part left out; what comes from run to run is found once. */
static void put_words(brick *b, const sn_stmt_vec *body, sn_stmt into, sn_ix x, bool masked) {
    sn_module *m = b->m;
    words w = split_words(b);
    sn_ix at[SN_MAX_CHAIN], in[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) at[p] = sn_ix_const(m, 0);
    cut_run(b, &w, body);
    if (goes_by_rows(b, &w)) take_rows(b, &w);
    word_lanes l = open_words(b, &w, x, into, at);
    begin_words(b, &w, body, at);
    bool all = w.length % b->v == b->v - 1 && w.n % l.along == 0;
    if (!all) l.into = sn_put_if(m, sn_at_end(b->k, l.into), l.piece, sn_ix_sub(m, sn_ix_const(m, w.n), w.less));
    sn_ix word_in = all ? l.piece : sn_ix_min(m, l.piece, sn_ix_sub(m, sn_ix_const(m, w.n - 1), w.less));
    sn_ix e = inside(m, sn_ix_fma(m, b->v, word_in, w.before), w.length - b->v + 1);
    for (uint32_t p = 0; p < b->b.n; p++) in[p] = at[p];
    enter_run(b, &w, &l, x, at, in);
    words here = w;
    begin_words(b, &here, body, at);
    sn_ix word = sn_ix_add(m, sn_ix_divc(m, sn_ix_addc(m, here.start, b->v - 1), b->v), l.piece);
    sn_ix first = sn_ix_scale(m, word, b->v);
    sn_val mask = masked ? put_mask(b, l.into, at, w.runs, w.n_runs, (sn_val){0}) : (sn_val){0};
    sn_stmt masks = l.into;
    if (stays_in_row(b, &w)) {
        sn_stmt_vec rest = sn_schedule_copy_body(b->cx, b->k, body);
        int64_t row = b->sides[w.run[0]], whole = row - b->v + 1;
        sn_ix from = sn_ix_modc(m, e, row);
        put_word(b, &w, sn_put_if(m, sn_at_end(b->k, masks), from, sn_ix_const(m, whole)), body, first, e, at, in,
                 true);
        from = sn_ix_addc(m, from, -whole);
        sn_stmt end = sn_put_if(m, sn_at_end(b->k, masks), from, sn_ix_const(m, b->v - 1));
        put_word(b, &w, end, &rest, first, e, at, in, false);
    } else {
        put_word(b, &w, l.into, body, first, e, at, in, false);
    }
    if (mask.i) sn_mask_accesses(b->cx, b->k, masks, mask, true);
}

/* Words of two rows, where runs go by rows. */
static void put_between(brick *b, const sn_stmt_vec *body, sn_stmt into, sn_ix x, bool masked) {
    sn_module *m = b->m;
    words w = split_words(b);
    sn_ix at[SN_MAX_CHAIN], in[SN_MAX_CHAIN];
    int64_t row = b->sides[w.run[0]];
    lanes l = open_lanes(b, x, into, w.length / row - 1, w.count);
    for (uint32_t p = 0; p < b->b.n; p++) in[p] = at[p] = sn_ix_const(m, 0);
    take_apart(b, w.runs, w.n_runs, l.line, at);
    take_apart(b, w.runs, w.n_runs, inside(m, l.line, w.count), in);
    sn_val mask = masked ? put_mask(b, l.into, at, w.runs, w.n_runs, (sn_val){0}) : (sn_val){0};
    sn_ix ends = sn_ix_fma(m, row, l.piece, sn_ix_const(m, row)), to = sn_ix_add(m, start_of_stores(b, body, at), ends);
    sn_ix rest = sn_ix_modc(m, to, b->v);
    sn_stmt masks = sn_put_if(m, sn_at_end(b->k, l.into), sn_ix_addc(m, rest, -1), sn_ix_const(m, b->v - 1));
    sn_ix e = inside(m, sn_ix_sub(m, ends, rest), w.length - b->v + 1);
    put_word(b, &w, masks, body, sn_ix_scale(m, sn_ix_divc(m, to, b->v), b->v), e, at, in, false);
    if (mask.i) sn_mask_accesses(b->cx, b->k, masks, mask, true);
}

/* What is in no word. */
static void put_left(brick *b, const sn_stmt_vec *body, sn_stmt into, sn_ix x, bool masked) {
    sn_module *m = b->m;
    words w = split_words(b);
    sn_ix at[SN_MAX_CHAIN], in[SN_MAX_CHAIN];
    int64_t rest = w.length % b->v, most = rest == b->v - 1 ? rest : rest + b->v;
    if (!most) return;
    lanes l = open_lanes(b, x, into, most, w.count);
    for (uint32_t p = 0; p < b->b.n; p++) in[p] = at[p] = sn_ix_const(m, 0);
    take_apart(b, w.runs, w.n_runs, l.line, at);
    take_apart(b, w.runs, w.n_runs, inside(m, l.line, w.count), in);
    begin_words(b, &w, body, at);
    sn_val mask = masked ? put_mask(b, l.into, at, w.runs, w.n_runs, (sn_val){0}) : (sn_val){0};
    if (most != rest)
        l.into = sn_put_if(m, sn_at_end(b->k, l.into), l.piece, sn_ix_addc(m, sn_ix_scale(m, w.less, b->v), rest));
    sn_ix behind = from_zero(m, sn_ix_sub(m, l.piece, w.before), 2 * b->v);
    sn_ix skipped = sn_ix_sub(m, sn_ix_scale(m, behind, w.n), sn_ix_min(m, behind, w.less));
    sn_ix e = inside(m, sn_ix_fma(m, b->v, skipped, l.piece), w.length);
    take_apart(b, w.run, w.n_run, e, at);
    take_apart(b, w.run, w.n_run, e, in);
    put_element(b, l.into, body, at, in);
    if (mask.i) sn_mask_accesses(b->cx, b->k, l.into, mask, true);
}

/* ---- runs of words that end where sectors do ---- */

/* The offset of the first sector that begins at `start` or behind it. */
static sn_ix first_sector(const brick *b, sn_ix start) {
    return sn_ix_scale(b->m, sn_ix_divc(b->m, sn_ix_addc(b->m, start, b->unit - 1), b->unit), b->unit);
}

/* Elements from the beginning of the brick's runs to the end of the loop at which they are cut. */
static sn_ix left_of_row(const brick *b, const words *w) {
    sn_ix rest = sn_ix_sub(b->m, sn_ix_const(b->m, b->b.extents[b->last]), b->origin[b->last]);
    return sn_ix_scale(b->m, rest, w->length / b->b.sides[b->last]);
}

/* Words from the first sector that begins in the run to the first that begins in the next brick's. They are so many in all runs, or
 * differ by those of a sector. */
static void put_sectors(brick *b, const sn_stmt_vec *body, sn_stmt into, sn_ix x, bool masked) {
    sn_module *m = b->m;
    words w = split_words(b);
    int64_t of_sector = b->unit / b->v;
    bool alike = w.length % b->unit == 0;
    w.n = sn_ceil_div(w.length, b->unit) * of_sector;
    sn_ix at[SN_MAX_CHAIN], in[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) at[p] = sn_ix_const(m, 0);
    word_lanes l = open_words(b, &w, x, into, at);
    begin_words(b, &w, body, at);
    if (alike && w.n % l.along) l.into = sn_put_if(m, sn_at_end(b->k, l.into), l.piece, sn_ix_const(m, w.n));
    for (uint32_t p = 0; p < b->b.n; p++) in[p] = at[p];
    enter_run(b, &w, &l, x, at, in);
    sn_ix start = start_of_stores(b, body, at), first = first_sector(b, start);
    sn_ix words = sn_ix_divc(m, sn_ix_sub(m, first_sector(b, sn_ix_addc(m, start, w.length)), first), b->v);
    if (!alike) l.into = sn_put_if(m, sn_at_end(b->k, l.into), l.piece, words);
    sn_ix word = sn_ix_divc(m, sn_ix_addc(m, start, b->v - 1), b->v);
    sn_ix skipped = sn_ix_modc(m, sn_ix_scale(m, word, -1), of_sector);
    int64_t most = w.length + b->reach - b->v;
    sn_ix e = sn_ix_fma(m, b->v, inside(m, sn_ix_add(m, l.piece, skipped), most / b->v + 1), w.before);
    e = inside(m, e, most + 1);
    sn_val mask = {0};
    if (masked) {
        sn_cursor end = sn_at_end(b->k, l.into);
        mask = put_mask(b, l.into, at, w.runs, w.n_runs, mask);
        sn_val whole = sn_put_in(m, end, sn_ix_addc(m, e, b->v - 1), left_of_row(b, &w));
        mask = mask.i ? sn_put_op2(m, sn_at_end(b->k, l.into), SN_LOP_AND, mask, whole) : whole;
    }
    sn_stmt masks = l.into;
    sn_ix lane = sn_open_loop_in(b->m, b->k, &l.into, "v", b->v, SN_AXIS_VECTOR);
    sn_ix to = sn_ix_fma(m, b->v, l.piece, first);
    step_apart(b, &w, e, lane, at);
    step_inside(b, &w, e, lane, in);
    put_element(b, l.into, body, at, in);
    for (uint32_t k = 0; k < body->n; k++)
        if (sn_stmt_get(m, body->at[k])->op == SN_LOP_STORE) sn_stmt_get(m, body->at[k])->ix = sn_ix_add(m, to, lane);
    if (mask.i) sn_mask_accesses(b->cx, b->k, masks, mask, true);
}

/* Does every row of the stores end with a word? */
static bool rows_end_words(const brick *b, const sn_stmt_vec *body, const words *w) {
    int64_t end = w->length / b->b.sides[b->last] * b->b.extents[b->last];
    for (uint32_t k = 0; k < body->n; k++) {
        const sn_stmt_rec *r = sn_stmt_get(b->m, body->at[k]);
        if (r->op == SN_LOP_STORE) end += sn_ix_get(b->m, r->ix)->c0;
    }
    for (uint32_t p = 0; p < b->b.n; p++) {
        bool in_run = false;
        for (uint32_t k = 0; k < w->n_run; k++) in_run |= w->run[k] == p;
        if (!in_run && b->b.extents[p] > 1 && b->b.stored.strides[p] % b->v) return false;
    }
    return end % b->v == 0;
}

/* What follows the last word of a row, which the brick stores in which the sector of that begins. */
static void put_row_ends(brick *b, const sn_stmt_vec *body, sn_stmt into, sn_ix x) {
    sn_module *m = b->m;
    words w = split_words(b);
    if (rows_end_words(b, body, &w)) return;
    lanes l = open_lanes(b, x, into, b->v - 1, w.count);
    sn_ix at[SN_MAX_CHAIN], in[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) in[p] = at[p] = sn_ix_const(m, 0);
    take_apart(b, w.runs, w.n_runs, l.line, at);
    take_apart(b, w.runs, w.n_runs, inside(m, l.line, w.count), in);
    sn_ix start = start_of_stores(b, body, at), rest = left_of_row(b, &w), end = sn_ix_add(m, start, rest);
    sn_ix first = sn_ix_divc(m, first_sector(b, start), b->unit);
    sn_ix next = sn_ix_divc(m, first_sector(b, sn_ix_addc(m, start, w.length)), b->unit);
    sn_val mask = put_mask(b, l.into, at, w.runs, w.n_runs, (sn_val){0});
    l.into = sn_put_if(m, sn_at_end(b->k, l.into), l.piece, sn_ix_modc(m, end, b->v));
    sn_ix number = sn_ix_sub(m, sn_ix_divc(m, end, b->unit), first);
    l.into = sn_put_if(m, sn_at_end(b->k, l.into), number, sn_ix_sub(m, next, first));
    sn_ix e = sn_ix_add(m, sn_ix_sub(m, rest, sn_ix_modc(m, end, b->v)), l.piece);
    e = inside(m, e, w.length + b->reach);
    take_apart(b, w.run, w.n_run, e, at);
    take_apart(b, w.run, w.n_run, e, in);
    put_element(b, l.into, body, at, in);
    if (mask.i) sn_mask_accesses(b->cx, b->k, l.into, mask, true);
}

/* Runs that end inside of a brick are stored element by element. */
static bool ends_inside(const brick *b) {
    words w = split_words(b);
    for (uint32_t k = 0; k < w.n_run; k++)
        if (b->b.extents[w.run[k]] % b->b.sides[w.run[k]]) return true;
    return false;
}

/* Vectors that begin all runs go by parts that lie alike, or by rows, too. */
static bool has_parts(brick *b, const sn_stmt_vec *body) {
    words w = split_words(b);
    cut_run(b, &w, body);
    return goes_by_rows(b, &w) || (w.parts > 1 && (!b->turned || looks_for_each(b, &w)));
}

/* All of bricks whose runs do not reach beyond their ends. */
static void put_runs(brick *b, const sn_stmt_vec *body, bool masked) {
    sn_stmt into = b->into;
    sn_ix x = sn_open_loop_in(b->m, b->k, &into, "x", b->threads, SN_AXIS_BLOCK_X);
    words w = split_words(b);
    cut_run(b, &w, body); /* as put_words asks */
    bool between = goes_by_rows(b, &w) && b->sides[w.run[0]] % b->v;
    sn_stmt_vec left = b->words ? sn_schedule_copy_body(b->cx, b->k, body) : (sn_stmt_vec){0};
    sn_stmt_vec two = between ? sn_schedule_copy_body(b->cx, b->k, body) : (sn_stmt_vec){0};
    put_words(b, body, into, x, masked);
    if (between) put_between(b, &two, into, x, masked);
    if (b->words) put_left(b, &left, into, x, masked);
}

/* The same of bricks that have a little of the next one, ... */
static void put_runs_beyond(brick *b, const sn_stmt_vec *body, bool masked) {
    sn_stmt into = b->into;
    sn_ix x = sn_open_loop_in(b->m, b->k, &into, "x", b->threads, SN_AXIS_BLOCK_X);
    sn_stmt_vec left = masked ? sn_schedule_copy_body(b->cx, b->k, body) : (sn_stmt_vec){0};
    put_sectors(b, body, into, x, masked);
    if (masked) put_row_ends(b, &left, into, x);
}

static void put_bodies(brick *b, const sn_stmt_vec *body, bool masked) {
    sn_stmt_vec head = b->beyond ? sn_schedule_copy_body(b->cx, b->k, body) : (sn_stmt_vec){0};
    bool ends = masked && !b->beyond && ends_inside(b);
    if (ends || !(b->words || has_parts(b, body))) put_body(b, body, masked);
    else if (b->words && b->beyond) put_runs_beyond(b, body, masked);
    else put_runs(b, body, masked);
    if (b->beyond) put_head(b, &head, masked);
}

/* ---- bricks inside and at the edges ---- */

/* Where bricks begin. Those inside no later than the last one inside: offsets of loads that go on to the end of a piece are known to be in the
 * storage then. */
static void find_origins(brick *b, bool inside) {
    for (uint32_t p = 0; p < b->b.n; p++) {
        int64_t more = p == b->last ? b->beyond : 0, whole = (b->b.extents[p] - more) / b->b.sides[p];
        sn_ix part = b->parts[p];
        if (inside && sn_ix_range(b->m, part).hi >= whole) part = sn_ix_min(b->m, part, sn_ix_const(b->m, whole - 1));
        b->origin[p] = sn_ix_scale(b->m, part, b->b.sides[p]);
    }
}

/* Where the loops for one kind of bricks go; false when there are no such bricks. */
static bool choose_bricks(brick *b, bool masked) {
    if (!(masked ? b->masked : b->inside)) return false;
    b->into = b->grid;
    if (!b->inside || !b->masked) return true;
    sn_ix edge = masked ? sn_ix_addc(b->m, b->edge, -1) : b->edge;
    b->into = sn_put_if(b->m, sn_at_end(b->k, b->grid), edge, sn_ix_const(b->m, masked ? SN_MAX_CHAIN : 1));
    return true;
}

/* ---- binding ---- */

static void note_staged(brick *b, const sn_stmt_vec *body) {
    sn_module *m = b->m;
    for (uint32_t i = 0; i < b->b.n_staged; i++) {
        const sn_stmt_rec *r = sn_stmt_get(m, b->b.staged[i]);
        staged *st = &b->loads[i];
        *st = (staged){.ix = r->ix, .buf = r->buf, .hidden = r->has_mask};
        while (body->at[st->position].i != b->b.staged[i].i) st->position++;
        sn_schedule_lay_out_brick(&st->in, m, &b->b, i);
        const char *name = sn_strf(&m->arena, "%s_s%u", sn_kern_get(m, b->k)->name, i);
        int64_t room = sn_schedule_brick_room(&st->in);
        st->shared = sn_local_new(m, name, sn_buf_get(m, st->buf)->dtype, SN_BUF_SHARED, room, 1);
    }
}

/* Bricks follow each other in the order that brick.c finds. */
static void open_grid(brick *b) {
    sn_module *m = b->m;
    sn_ix shape[SN_MAX_CHAIN], in_order[SN_MAX_CHAIN];
    uint32_t n = b->b.n, order[SN_MAX_CHAIN];
    sn_schedule_order_bricks(order, b->cx, &b->b);
    for (uint32_t p = 0; p < n; p++)
        shape[p] = sn_ix_const(m, sn_ceil_div(b->b.extents[order[p]], b->b.sides[order[p]]));
    sn_ix g = sn_open_loop_in(b->m, b->k, &b->grid, "g", sn_ix_value(m, sn_ix_product(m, shape, n)), SN_AXIS_GRID);
    sn_ix_unflatten(m, g, shape, n, in_order);
    for (uint32_t p = 0; p < n; p++) b->parts[order[p]] = in_order[p];
    b->edge = sn_ix_const(m, 0);
    b->inside = true;
    b->part = b->parts[b->last];
    for (uint32_t p = 0; p < n; p++) {
        int64_t more = p == b->last ? b->beyond : 0, whole = (b->b.extents[p] - more) / b->b.sides[p];
        if (!more && b->b.extents[p] % b->b.sides[p] == 0) continue;
        b->edge = sn_ix_add(m, b->edge, sn_ix_divc(m, b->parts[p], whole));
        b->masked = true;
    }
}

void sn_schedule_brick_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    brick b = {.cx = cx, .m = m, .k = k, .sh = sh, .threads = sc->block_x, .v = sc->vector};
    sn_schedule_find_brick(&b.b, cx, k, &sh->outer);
    sn_schedule_size_brick(&b.b, sc->tile_m, sc->tile_n);
    for (uint32_t p = 0; p < sh->outer.n; p++) b.axes[p] = sn_stmt_axis(m, sh->outer.at[p]);
    sn_stmt_vec body = {0};
    b.unit = SN_SECTOR / b.b.least;
    b.words = sn_schedule_brick_vector(m, &b.b, sh) % sc->vector != 0;
    b.turned = b.unit > (b.words ? 1 : b.v) && !sn_schedule_brick_begins_sectors(&b.b);
    sn_schedule_take_body(&body, cx, k, sh);
    b.reach = sn_schedule_brick_reach(&b.b);
    b.beyond = b.turned ? sn_schedule_brick_beyond(&b.last, &b.b) : 0;
    for (uint32_t p = 0; p < b.b.n; p++) b.sides[p] = b.b.sides[p] + (p == b.last ? b.beyond : 0);
    note_staged(&b, &body);
    open_grid(&b);
    sn_stmt_vec edge = b.inside && b.masked ? sn_schedule_copy_body(cx, k, &body) : body;
    find_origins(&b, b.inside);
    if (choose_bricks(&b, false)) put_copies(&b, false);
    find_origins(&b, false);
    if (choose_bricks(&b, true)) put_copies(&b, true);
    if (choose_bricks(&b, false)) put_bodies(&b, &body, false);
    if (choose_bricks(&b, true)) put_bodies(&b, &edge, true);
}
