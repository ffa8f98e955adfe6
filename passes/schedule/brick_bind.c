/* brick_bind.c: binding of class brick: what a brick has of a load comes to shared memory run by run, and goes from there to the
 * runs of the stores.
 *
 *     loop g : grid {                                      bricks
 *       loop x : block.x { loop l { loop p {               X threads a run: run c = (T / X)*l + x div X, piece q = X*p + x mod X
 *         loop v { load x[start of run c + V*q + v]   store s[P*c + V*q + v] } } } }
 *       loop x : block.x { loop l { loop p {               the same along the runs of the stores
 *         loop v { the body; what it read from x is in s } } } }
 *     }
 *
 * brick_layout.c says how shared memory is laid out. Where a run of the stores does not begin with a sector, its pieces are counted from the
 * first one that does, and what is in front of that comes last. Copies by words of runs that begin anywhere test whether the word is in the storage.
 *
 * Bricks at an end of a loop that they do not fill have loops of their own, with masks.
 */
#include "passes/schedule/brick.h"
#include "passes/schedule/figures.h"
#include "passes/schedule/schedules.h"

/* A load. */
typedef struct staged {
    uint32_t position; /* in the body */
    sn_ix ix;
    sn_buf buf, shared;
    sn_schedule_brick_part in; /* shared memory */
} staged;

typedef struct brick {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    const sn_schedule_shape *sh;
    sn_schedule_brick b;
    int64_t threads, v;
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix origin[SN_MAX_CHAIN];
    sn_stmt grid, into;
    int64_t unit; /* elements of a sector of the first store */
    bool turned;  /* runs of the stores need not begin with one: lanes begin where one does, and end in front of it */
    sn_ix edge;   /* loops whose end the brick reaches without filling it */
    bool inside, masked; /* are there bricks with edge 0, and with others */
    staged loads[SN_MAX_BRICK_LOADS];
} brick;

/* Threads of a block along lines of `pieces`, of which there are `lines`. */
typedef struct lanes {
    sn_ix line, piece; /* of this thread and turn */
    sn_stmt into;
} lanes;

static sn_ix open_loop(brick *b, sn_stmt *into, const char *name, int64_t extent, sn_axis_kind kind) {
    if (extent == 1 && kind != SN_AXIS_GRID && kind != SN_AXIS_BLOCK_X) return sn_ix_const(b->m, 0);
    sn_axis ax = sn_axis_new(b->m, name, sn_ix_const(b->m, extent));
    *into = sn_put_loop(b->m, sn_at_end(b->k, *into), ax, kind);
    return sn_ix_axis(b->m, ax);
}

static int64_t turns(const brick *b, int64_t x, int64_t pieces, int64_t lines) {
    return sn_ceil_div(pieces, x) * sn_ceil_div(lines, b->threads / x);
}

/* Threads of a line: many, since neighbours are in one line of memory then, but for what that leaves idle. */
static int64_t threads_of_line(const brick *b, int64_t pieces, int64_t lines) {
    enum { FEWEST = 16, IDLE = 12 };
    int64_t least = INT64_MAX, x = b->threads, fewest = sn_pow2_ceil(pieces) < FEWEST ? sn_pow2_ceil(pieces) : FEWEST;
    for (int64_t k = x; k >= fewest || k == x; k /= 2)
        if (turns(b, k, pieces, lines) < least) least = turns(b, k, pieces, lines);
    while (x > fewest && turns(b, x, pieces, lines) * 100 > least * (100 + IDLE)) x /= 2;
    return x;
}

/* A loop over n turns, `most` of which are written out: all, or as equal parts as can be. */
static sn_ix open_turns(brick *b, sn_stmt *into, const char *outer, const char *inner, int64_t n, int64_t most) {
    int64_t times = sn_ceil_div(n, most), part = sn_ceil_div(n, times);
    sn_ix o = open_loop(b, into, outer, times, SN_AXIS_SEQ), i = open_loop(b, into, inner, part, SN_AXIS_UNROLL);
    return sn_ix_fma(b->m, part, o, i);
}

static int64_t after_turns(int64_t n, int64_t most) {
    return sn_ceil_div(n, sn_ceil_div(n, most)) * sn_ceil_div(n, most);
}

static lanes open_lanes(brick *b, sn_ix x, sn_stmt into, int64_t pieces, int64_t lines) {
    enum { MOST_UNROLL = 8 };
    sn_module *m = b->m;
    int64_t along = threads_of_line(b, pieces, lines), beside = b->threads / along;
    int64_t n = sn_ceil_div(pieces, along), n_lines = sn_ceil_div(lines, beside);
    int64_t most = n < MOST_UNROLL ? MOST_UNROLL / n : 1;
    lanes l;
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
    for (uint32_t k = 0; k < n; k++) shape[n - 1 - k] = sn_ix_const(b->m, b->b.sides[at[k]]);
    sn_ix_unflatten(b->m, e, shape, n, parts);
    for (uint32_t k = 0; k < n; k++) out[at[k]] = parts[n - 1 - k];
}

/* Does the thread's element of these loops exist? */
static sn_val put_mask(brick *b, sn_stmt into, const sn_ix *at, const uint32_t *loops, uint32_t n, sn_val mask) {
    sn_cursor end = sn_at_end(b->k, into);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t p = loops[k];
        if (b->b.extents[p] % b->b.sides[p] == 0) continue;
        sn_val in = sn_put_in(b->m, end, sn_ix_add(b->m, b->origin[p], at[p]), sn_ix_const(b->m, b->b.extents[p]));
        mask = mask.i ? sn_put_op2(b->m, end, SN_LOP_AND, mask, in) : in;
    }
    return mask;
}

/* ---- runs of loads ---- */

/* The offset of a run, whose own loops are at their first iterations. */
static sn_ix start_of_run(brick *b, const staged *st, sn_ix run, sn_ix *at) {
    sn_ix with[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) at[p] = sn_ix_const(b->m, 0);
    take_apart(b, st->in.runs, st->in.n_runs, run, at);
    for (uint32_t p = 0; p < b->b.n; p++) with[p] = sn_ix_add(b->m, b->origin[p], at[p]);
    return sn_ix_subst(b->m, st->ix, b->axes, with, b->b.n);
}

static void put_copy(brick *b, const staged *st, sn_stmt into, sn_ix x, bool masked) {
    sn_module *m = b->m;
    lanes l = open_lanes(b, x, into, st->in.pieces, st->in.count);
    sn_ix at[SN_MAX_CHAIN], start = start_of_run(b, st, l.line, at);
    sn_ix size = sn_ix_const(m, sn_ix_value(m, sn_buf_get(m, st->buf)->size));
    sn_ix lane = open_loop(b, &l.into, "v", st->in.v, SN_AXIS_VECTOR);
    sn_ix from = sn_ix_add(m, st->in.anywhere ? sn_ix_scale(m, sn_ix_divc(m, start, st->in.v), st->in.v) : start,
                           sn_ix_scale(m, l.piece, st->in.v));
    sn_val mask = {0};
    if (st->in.anywhere) mask = sn_put_in(m, sn_at_end(b->k, l.into), from, size);
    if (masked) mask = put_mask(b, l.into, at, st->in.runs, st->in.n_runs, mask);
    if (masked && !st->in.anywhere) {
        take_apart(b, st->in.run, st->in.n_run, sn_ix_scale(m, l.piece, st->in.v), at);
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
    sn_ix run = inside(m, l.line, st->in.count), piece = inside(m, l.piece, st->in.pieces);
    sn_ix to = sn_ix_fma(m, st->in.pitch, run, sn_ix_fma(m, st->in.v, piece, lane));
    sn_put_store(m, end, st->shared, to, value);
}

static void put_copies(brick *b, bool masked) {
    sn_stmt into = b->into;
    sn_ix x = open_loop(b, &into, "x", b->threads, SN_AXIS_BLOCK_X);
    for (uint32_t i = 0; i < b->b.n_staged; i++) put_copy(b, &b->loads[i], into, x, masked);
}

/* ---- the body ---- */

/* Where element `at` of a brick is in shared memory. */
static sn_ix place_of(brick *b, const staged *st, const sn_ix *at) {
    sn_module *m = b->m;
    sn_ix place = sn_ix_const(m, 0), with[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++)
        if (b->b.sides[p] > 1) place = sn_ix_fma(m, st->in.steps[p], at[p], place);
    if (!st->in.anywhere) return place;
    for (uint32_t p = 0; p < b->b.n; p++) with[p] = sn_ix_add(m, b->origin[p], at[p]);
    for (uint32_t k = 0; k < st->in.n_run; k++) with[st->in.run[k]] = b->origin[st->in.run[k]];
    return sn_ix_add(m, place, sn_ix_modc(m, sn_ix_subst(m, st->ix, b->axes, with, b->b.n), st->in.v));
}

/* Elements of a run of the stores, whose loops are at their first iterations, up to the first that begins a sector: half a sector is more
 * work for the L2 than a whole one. */
static sn_ix before_sector(brick *b, const sn_stmt_vec *body, const sn_ix *at) {
    sn_module *m = b->m;
    sn_ix with[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) with[p] = sn_ix_add(m, b->origin[p], at[p]);
    for (uint32_t k = 0; k < body->n; k++) {
        const sn_stmt_rec *r = sn_stmt_get(m, body->at[k]);
        if (r->op != SN_LOP_STORE) continue;
        sn_ix start = sn_ix_subst(m, r->ix, b->axes, with, b->b.n);
        return sn_ix_modc(m, sn_ix_scale(m, start, -1), b->unit);
    }
    return sn_ix_const(m, 0);
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
        sn_val value = sn_put_load(m, sn_at_before(m, s), st->shared, place_of(b, st, at));
        sn_val_replace(m, b->k, sn_stmt_get(m, s)->result, value);
        sn_stmt_unlink(m, s);
    }
}

static void put_body(brick *b, const sn_stmt_vec *body, bool masked) {
    sn_module *m = b->m;
    uint32_t run[SN_MAX_CHAIN], n_run, runs[SN_MAX_CHAIN], n_runs;
    int64_t length = sn_schedule_brick_run(&b->b, &b->b.stored), count = sn_schedule_brick_elements(&b->b) / length;
    split_loops(b, run, &n_run, runs, &n_runs);
    sn_stmt into = b->into;
    sn_ix x = open_loop(b, &into, "x", b->threads, SN_AXIS_BLOCK_X);
    lanes l = open_lanes(b, x, into, length / b->v, count);
    sn_ix at[SN_MAX_CHAIN], first[SN_MAX_CHAIN], with[SN_MAX_CHAIN], in[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) in[p] = first[p] = at[p] = sn_ix_const(m, 0);
    take_apart(b, runs, n_runs, l.line, first);
    take_apart(b, runs, n_runs, l.line, at);
    take_apart(b, runs, n_runs, inside(m, l.line, count), in);
    sn_ix e = sn_ix_scale(m, inside(m, l.piece, length / b->v), b->v);
    if (b->turned) e = sn_ix_modc(m, sn_ix_add(m, e, before_sector(b, body, at)), length);
    take_apart(b, run, n_run, e, first);
    sn_val mask = {0};
    if (masked) {
        mask = put_mask(b, l.into, first, run, n_run, mask);
        mask = put_mask(b, l.into, first, runs, n_runs, mask);
    }
    sn_stmt masks = l.into;
    sn_ix lane = open_loop(b, &l.into, "v", b->v, SN_AXIS_VECTOR);
    take_apart(b, run, n_run, sn_ix_add(m, e, lane), at);
    take_apart(b, run, n_run, sn_ix_add(m, e, lane), in);
    for (uint32_t p = 0; p < b->b.n; p++) with[p] = sn_ix_add(m, b->origin[p], at[p]);
    for (uint32_t k = 0; k < body->n; k++) {
        sn_stmt_subst(m, body->at[k], b->axes, with, b->b.n);
        sn_stmt_insert(m, sn_at_end(b->k, l.into), body->at[k]);
    }
    redirect(b, body, in);
    if (mask.i) sn_mask_accesses(b->cx, b->k, masks, mask, true);
}

/* ---- bricks inside and at the edges ---- */

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
        *st = (staged){.ix = r->ix, .buf = r->buf};
        while (body->at[st->position].i != b->b.staged[i].i) st->position++;
        sn_schedule_lay_out_brick(&st->in, m, &b->b, i);
        sn_ix size = sn_ix_const(m, st->in.pitch * st->in.count);
        const char *name = sn_strf(&m->arena, "%s_s%u", sn_kern_get(m, b->k)->name, i);
        st->shared = sn_buf_new(m, name, sn_buf_get(m, st->buf)->dtype, SN_BUF_SHARED, &size, 1);
        sn_buf_get(m, st->shared)->private_size = (uint32_t)(st->in.pitch * st->in.count);
    }
}

/* Bricks follow each other as the loops do. */
static void open_grid(brick *b) {
    sn_module *m = b->m;
    sn_ix shape[SN_MAX_CHAIN], parts[SN_MAX_CHAIN];
    uint32_t n = b->b.n;
    for (uint32_t p = 0; p < n; p++) shape[p] = sn_ix_const(m, sn_ceil_div(b->b.extents[p], b->b.sides[p]));
    sn_ix g = open_loop(b, &b->grid, "g", sn_ix_value(m, sn_ix_product(m, shape, n)), SN_AXIS_GRID);
    sn_ix_unflatten(m, g, shape, n, parts);
    b->edge = sn_ix_const(m, 0);
    b->inside = true;
    for (uint32_t p = 0; p < n; p++) {
        int64_t whole = b->b.extents[p] / b->b.sides[p];
        b->origin[p] = sn_ix_scale(m, parts[p], b->b.sides[p]);
        if (b->b.extents[p] % b->b.sides[p] == 0) continue;
        b->edge = sn_ix_add(m, b->edge, sn_ix_divc(m, parts[p], whole));
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
    b.turned = b.unit > b.v && !sn_schedule_brick_begins_sectors(&b.b);
    sn_schedule_take_body(&body, cx, k, sh);
    note_staged(&b, &body);
    open_grid(&b);
    sn_stmt_vec edge = b.inside && b.masked ? sn_schedule_copy_body(cx, k, &body) : body;
    if (choose_bricks(&b, false)) put_copies(&b, false);
    if (choose_bricks(&b, true)) put_copies(&b, true);
    if (choose_bricks(&b, false)) put_body(&b, &body, false);
    if (choose_bricks(&b, true)) put_body(&b, &edge, true);
}
