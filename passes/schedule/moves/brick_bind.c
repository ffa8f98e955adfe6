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
 * first one that does, and what is in front of that comes last. Runs of bytes or halves, and those of many loops, are stored by words
 * (brick_words.c). Copies of runs that begin anywhere may reach over the end of the storage: those of bricks inside do not, where others have
 * iterations behind them, and are known not to (find_origins); in other bricks a copy has as many bytes as there are. Where loads go back,
 * the elements of such a piece are tested one by one (put_last).
 *
 * Where bricks end inside of sectors, each stores those from the first that begins in it to the first that begins in the next one, and loads
 * what is `beyond` its own; the first of them has what is in front of that (put_head).
 *
 * Bricks at an end of a loop that they do not fill, or go beyond, have loops of their own, with masks.
 */
#include "passes/schedule/moves/brick_bind.h"
#include "passes/schedule/base/schedules.h"

sn_stmt sn_brick_leave_out_rest(sn_brick_binding *b, sn_stmt into, sn_ix x, int64_t along) {
    int64_t used = b->threads / along * along;
    return used == b->threads ? into : sn_put_if(b->m, sn_at_end(b->k, into), x, sn_ix_const(b->m, used));
}

sn_ix sn_brick_open_turns(sn_brick_binding *b, sn_stmt *into, const char *outer, const char *inner, int64_t n,
                          int64_t most) {
    int64_t times = sn_ceil_div(n, most), part = sn_ceil_div(n, times);
    sn_ix o = sn_open_loop_in(b->m, b->k, into, outer, times, SN_AXIS_SEQ);
    sn_ix i = sn_open_loop_in(b->m, b->k, into, inner, part, SN_AXIS_UNROLL);
    return sn_ix_fma(b->m, part, o, i);
}

int64_t sn_brick_after_turns(int64_t n, int64_t most) {
    return sn_ceil_div(n, sn_ceil_div(n, most)) * sn_ceil_div(n, most);
}

sn_brick_lanes sn_brick_open_lanes(sn_brick_binding *b, sn_ix x, sn_stmt into, int64_t pieces, int64_t lines) {
    enum { MOST_UNROLL = 8 };
    sn_module *m = b->m;
    int64_t along = sn_schedule_brick_threads(b->threads, pieces, lines), beside = b->threads / along;
    int64_t n = sn_ceil_div(pieces, along), n_lines = sn_ceil_div(lines, beside);
    int64_t most = n < MOST_UNROLL ? MOST_UNROLL / n : 1;
    sn_brick_lanes l;
    into = sn_brick_leave_out_rest(b, into, x, along);
    l.line = sn_ix_fma(m, beside, sn_brick_open_turns(b, &into, "lo", "l", n_lines, most), sn_ix_divc(m, x, along));
    if (sn_brick_after_turns(n_lines, most) * beside > lines)
        into = sn_put_if(m, sn_at_end(b->k, into), l.line, sn_ix_const(m, lines));
    l.piece = sn_ix_fma(m, along, sn_brick_open_turns(b, &into, "po", "p", n, MOST_UNROLL), sn_ix_modc(m, x, along));
    if (sn_brick_after_turns(n, MOST_UNROLL) * along > pieces)
        into = sn_put_if(m, sn_at_end(b->k, into), l.piece, sn_ix_const(m, pieces));
    l.into = into;
    return l;
}

sn_ix sn_brick_inside(sn_module *m, sn_ix e, int64_t n) {
    sn_range r = sn_ix_range(m, e);
    if (r.hi >= n) e = sn_ix_min(m, e, sn_ix_const(m, n - 1));
    return r.lo < 0 ? sn_ix_max(m, e, sn_ix_const(m, 0)) : e;
}

void sn_brick_take_apart(sn_brick_binding *b, const uint32_t *at, uint32_t n, sn_ix e, sn_ix *out) {
    sn_ix shape[SN_MAX_CHAIN], parts[SN_MAX_CHAIN];
    if (!n) return;
    for (uint32_t k = 0; k < n; k++) shape[n - 1 - k] = sn_ix_const(b->m, b->sides[at[k]]);
    sn_ix_unflatten(b->m, e, shape, n, parts);
    for (uint32_t k = 0; k < n; k++) out[at[k]] = parts[n - 1 - k];
}

sn_val sn_brick_put_mask(sn_brick_binding *b, sn_stmt into, const sn_ix *at, const uint32_t *loops, uint32_t n,
                         sn_val mask) {
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
static void turn_back(sn_brick_binding *b, const sn_brick_staged *st, sn_ix *at) {
    for (uint32_t k = 0; k < st->in.n_run; k++) {
        uint32_t p = st->in.run[k];
        if (st->in.back[p]) at[p] = sn_ix_sub(b->m, sn_ix_const(b->m, b->sides[p] - 1), at[p]);
    }
}

/* The offset of a run, whose own loops are at the iterations that come first in memory. */
static sn_ix start_of_run(sn_brick_binding *b, const sn_brick_staged *st, sn_ix run, sn_ix *at) {
    sn_ix with[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) at[p] = sn_ix_const(b->m, 0);
    turn_back(b, st, at);
    sn_brick_take_apart(b, st->in.runs, st->in.n_runs, run, at);
    for (uint32_t p = 0; p < b->b.n; p++) with[p] = sn_ix_add(b->m, b->origin[p], at[p]);
    return sn_ix_subst(b->m, st->ix, b->axes, with, b->b.n);
}

/* The storage ends inside of a word: its elements, and none of the words behind it. */
static void put_last(sn_brick_binding *b, const sn_brick_staged *st, sn_stmt into, sn_ix from, sn_ix to) {
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
static void put_none(sn_brick_binding *b, const sn_brick_staged *st, sn_stmt into, sn_ix from, sn_ix to) {
    sn_module *m = b->m;
    sn_ix before = sn_ix_sub(m, sn_ix_const(m, -st->in.v), from);
    into = sn_put_if(m, sn_at_end(b->k, into), before, sn_ix_const(m, st->in.size));
    sn_ix e = sn_open_loop_in(b->m, b->k, &into, "e", st->in.v, SN_AXIS_VECTOR);
    sn_cursor end = sn_at_end(b->k, into);
    sn_put_store(m, end, st->shared, sn_ix_add(m, to, e), sn_put_const(m, end, sn_buf_get(m, st->buf)->dtype, 0));
}

static bool goes_back(const sn_brick_binding *b, const sn_brick_staged *st) {
    const sn_schedule_walk *w = &b->b.loads[st - b->loads];
    for (uint32_t p = 0; p < b->b.n; p++)
        if (w->back[p]) return true;
    return false;
}

/* Does the storage go on behind all runs of bricks inside, as far as their pieces reach? It does where loops have iterations that only
 * others have. */
static bool goes_on(const sn_brick_binding *b, const sn_brick_staged *st) {
    const sn_schedule_walk *w = &b->b.loads[st - b->loads];
    int64_t behind = 0;
    if (st->hidden || goes_back(b, st)) return false;
    for (uint32_t p = 0; p < b->b.n; p++) {
        int64_t side = b->b.sides[p], more = b->sides[p] - side, rest = (b->b.extents[p] - more) % side;
        if (rest * w->strides[p] > behind) behind = rest * w->strides[p];
    }
    return behind >= st->in.pieces * st->in.v - st->in.length;
}

static void put_copy(sn_brick_binding *b, const sn_brick_staged *st, sn_stmt into, sn_ix x, bool masked) {
    sn_module *m = b->m;
    sn_brick_lanes l = sn_brick_open_lanes(b, x, into, st->in.pieces, st->in.count);
    sn_ix at[SN_MAX_CHAIN], start = start_of_run(b, st, l.line, at);
    int64_t whole = st->in.size / st->in.v * st->in.v;
    sn_ix from = sn_ix_add(m, st->in.anywhere ? sn_ix_scale(m, sn_ix_divc(m, start, st->in.v), st->in.v) : start,
                           sn_ix_scale(m, l.piece, st->in.v));
    sn_ix run = sn_brick_inside(m, l.line, st->in.count), piece = sn_brick_inside(m, l.piece, st->in.pieces);
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
    if (masked) mask = sn_brick_put_mask(b, l.into, at, st->in.runs, st->in.n_runs, mask);
    if (masked && !st->in.anywhere) {
        sn_brick_take_apart(b, st->in.run, st->in.n_run, sn_ix_scale(m, l.piece, st->in.v), at);
        turn_back(b, st, at);
        mask = sn_brick_put_mask(b, l.into, at, st->in.run, st->in.n_run, mask);
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

static void put_copies(sn_brick_binding *b, bool masked) {
    sn_stmt into = b->into;
    sn_ix x = sn_open_loop_in(b->m, b->k, &into, "x", b->threads, SN_AXIS_BLOCK_X);
    for (uint32_t i = 0; i < b->b.n_staged; i++) put_copy(b, &b->loads[i], into, x, masked);
}

/* ---- the body ---- */

sn_ix sn_brick_place_of(sn_brick_binding *b, const sn_brick_staged *st, const sn_ix *at) {
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

sn_ix sn_brick_start_of_stores(sn_brick_binding *b, const sn_stmt_vec *body, const sn_ix *at) {
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
static sn_ix before_sector(sn_brick_binding *b, const sn_stmt_vec *body, const sn_ix *at, int64_t e) {
    return sn_ix_modc(b->m, sn_ix_addc(b->m, sn_ix_scale(b->m, sn_brick_start_of_stores(b, body, at), -1), -e),
                      b->unit);
}

void sn_brick_split_loops(const sn_brick_binding *b, uint32_t *run, uint32_t *n_run, uint32_t *runs, uint32_t *n_runs) {
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

static void redirect(sn_brick_binding *b, const sn_stmt_vec *body, const sn_ix *at) {
    sn_module *m = b->m;
    for (uint32_t i = 0; i < b->b.n_staged; i++) {
        const sn_brick_staged *st = &b->loads[i];
        sn_stmt s = body->at[st->position];
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        sn_ix place = sn_brick_place_of(b, st, at);
        sn_cursor here = sn_at_before(m, s);
        sn_val value = st->hidden ? sn_put_load_masked(m, here, st->shared, place, r->in[0], r->in[1])
                                  : sn_put_load(m, here, st->shared, place);
        sn_val_replace(m, b->k, sn_stmt_get(m, s)->result, value);
        sn_stmt_unlink(m, s);
    }
}

void sn_brick_put_element(sn_brick_binding *b, sn_stmt into, const sn_stmt_vec *body, const sn_ix *at,
                          const sn_ix *in) {
    sn_ix with[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) with[p] = sn_ix_add(b->m, b->origin[p], at[p]);
    for (uint32_t k = 0; k < body->n; k++) {
        sn_stmt_subst(b->m, body->at[k], b->axes, with, b->b.n);
        sn_stmt_insert(b->m, sn_at_end(b->k, into), body->at[k]);
    }
    redirect(b, body, in);
}

static void put_body(sn_brick_binding *b, const sn_stmt_vec *body, bool masked) {
    sn_module *m = b->m;
    uint32_t run[SN_MAX_CHAIN], n_run, runs[SN_MAX_CHAIN], n_runs;
    int64_t length = sn_schedule_brick_run(&b->b, &b->b.stored), count = sn_schedule_brick_elements(&b->b) / length;
    int64_t v = b->words ? 1 : b->v;
    sn_brick_split_loops(b, run, &n_run, runs, &n_runs);
    sn_stmt into = b->into;
    sn_ix x = sn_open_loop_in(b->m, b->k, &into, "x", b->threads, SN_AXIS_BLOCK_X);
    bool shifts = b->beyond && length % b->unit; /* the next brick's first sector begins elsewhere in its run */
    int64_t pieces = (length + (shifts ? b->reach : 0)) / v;
    sn_brick_lanes l = sn_brick_open_lanes(b, x, into, pieces, count);
    sn_ix at[SN_MAX_CHAIN], first[SN_MAX_CHAIN], in[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) in[p] = first[p] = at[p] = sn_ix_const(m, 0);
    sn_brick_take_apart(b, runs, n_runs, l.line, first);
    sn_brick_take_apart(b, runs, n_runs, l.line, at);
    sn_brick_take_apart(b, runs, n_runs, sn_brick_inside(m, l.line, count), in);
    sn_ix before = b->turned ? before_sector(b, body, at, 0) : sn_ix_const(m, 0);
    if (shifts) {
        sn_ix end = sn_ix_addc(m, sn_ix_sub(m, before_sector(b, body, at, length), before), length);
        l.into = sn_put_if(m, sn_at_end(b->k, l.into), l.piece, sn_ix_divc(m, end, v));
    }
    sn_ix e = sn_ix_fma(m, v, sn_brick_inside(m, l.piece, pieces), before);
    if (b->turned && !b->beyond) e = sn_ix_modc(m, e, length);
    if (shifts) e = sn_brick_inside(m, e, length + b->reach - v + 1);
    sn_brick_take_apart(b, run, n_run, e, first);
    sn_val mask = {0};
    if (masked) {
        mask = sn_brick_put_mask(b, l.into, first, run, n_run, mask);
        mask = sn_brick_put_mask(b, l.into, first, runs, n_runs, mask);
    }
    sn_stmt masks = l.into;
    sn_ix lane = sn_open_loop_in(b->m, b->k, &l.into, "v", v, SN_AXIS_VECTOR);
    sn_brick_take_apart(b, run, n_run, sn_ix_add(m, e, lane), at);
    sn_brick_take_apart(b, run, n_run, sn_ix_add(m, e, lane), in);
    sn_brick_put_element(b, l.into, body, at, in);
    if (mask.i) sn_mask_accesses(b->cx, b->k, masks, mask, true);
}

/* What the first brick of a run has in front of the first sector that begins in it. */
static void put_head(sn_brick_binding *b, const sn_stmt_vec *body, bool masked) {
    sn_module *m = b->m;
    uint32_t run[SN_MAX_CHAIN], n_run, runs[SN_MAX_CHAIN], n_runs;
    int64_t count = sn_schedule_brick_elements(&b->b) / sn_schedule_brick_run(&b->b, &b->b.stored);
    sn_brick_split_loops(b, run, &n_run, runs, &n_runs);
    sn_stmt into = sn_put_if(m, sn_at_end(b->k, b->into), b->part, sn_ix_const(m, 1));
    sn_ix x = sn_open_loop_in(b->m, b->k, &into, "x", b->threads, SN_AXIS_BLOCK_X);
    sn_brick_lanes l = sn_brick_open_lanes(b, x, into, b->reach, count);
    sn_ix at[SN_MAX_CHAIN], in[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) in[p] = at[p] = sn_ix_const(m, 0);
    sn_brick_take_apart(b, runs, n_runs, l.line, at);
    sn_brick_take_apart(b, runs, n_runs, sn_brick_inside(m, l.line, count), in);
    l.into = sn_put_if(m, sn_at_end(b->k, l.into), l.piece, before_sector(b, body, at, 0));
    sn_val mask = masked ? sn_brick_put_mask(b, l.into, at, runs, n_runs, (sn_val){0}) : (sn_val){0};
    sn_brick_take_apart(b, run, n_run, l.piece, at);
    sn_brick_take_apart(b, run, n_run, sn_brick_inside(m, l.piece, b->reach), in);
    sn_brick_put_element(b, l.into, body, at, in);
    if (mask.i) sn_mask_accesses(b->cx, b->k, l.into, mask, true);
}

/* ---- bodies ---- */

static void put_bodies(sn_brick_binding *b, const sn_stmt_vec *body, bool masked) {
    sn_stmt_vec head = b->beyond ? sn_schedule_copy_body(b->cx, b->k, body) : (sn_stmt_vec){0};
    bool ends = masked && !b->beyond && sn_brick_ends_inside(b);
    if (ends || !(b->words || sn_brick_has_parts(b, body))) put_body(b, body, masked);
    else if (b->words && b->beyond) sn_brick_put_runs_beyond(b, body, masked);
    else sn_brick_put_runs(b, body, masked);
    if (b->beyond) put_head(b, &head, masked);
}

/* ---- bricks inside and at the edges ---- */

/* Where bricks begin. Those inside no later than the last one inside: offsets of loads that go on to the end of a piece are known to be in the
 * storage then. */
static void find_origins(sn_brick_binding *b, bool inside) {
    for (uint32_t p = 0; p < b->b.n; p++) {
        int64_t more = p == b->last ? b->beyond : 0, whole = (b->b.extents[p] - more) / b->b.sides[p];
        sn_ix part = b->parts[p];
        if (inside && sn_ix_range(b->m, part).hi >= whole) part = sn_ix_min(b->m, part, sn_ix_const(b->m, whole - 1));
        b->origin[p] = sn_ix_scale(b->m, part, b->b.sides[p]);
    }
}

/* Where the loops for one kind of bricks go; false when there are no such bricks. */
static bool choose_bricks(sn_brick_binding *b, bool masked) {
    if (!(masked ? b->masked : b->inside)) return false;
    b->into = b->grid;
    if (!b->inside || !b->masked) return true;
    sn_ix edge = masked ? sn_ix_addc(b->m, b->edge, -1) : b->edge;
    b->into = sn_put_if(b->m, sn_at_end(b->k, b->grid), edge, sn_ix_const(b->m, masked ? SN_MAX_CHAIN : 1));
    return true;
}

/* ---- binding ---- */

static void note_staged(sn_brick_binding *b, const sn_stmt_vec *body) {
    sn_module *m = b->m;
    for (uint32_t i = 0; i < b->b.n_staged; i++) {
        const sn_stmt_rec *r = sn_stmt_get(m, b->b.staged[i]);
        sn_brick_staged *st = &b->loads[i];
        *st = (sn_brick_staged){.ix = r->ix, .buf = r->buf, .hidden = r->has_mask};
        while (body->at[st->position].i != b->b.staged[i].i) st->position++;
        sn_schedule_lay_out_brick(&st->in, m, &b->b, i);
        const char *name = sn_strf(&m->arena, "%s_s%u", sn_kern_get(m, b->k)->name, i);
        int64_t room = sn_schedule_brick_room(&st->in);
        st->shared = sn_local_new(m, name, sn_buf_get(m, st->buf)->dtype, SN_BUF_SHARED, room, 1);
    }
}

/* Bricks follow each other in the order that brick.c finds. */
static void open_grid(sn_brick_binding *b) {
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

void sn_brick_bind_body(sn_brick_binding *b, sn_stmt_vec body, uint32_t vector,
                        void (*between)(sn_brick_binding *b, bool masked, void *user), void *user) {
    b->unit = SN_SECTOR / b->b.least;
    b->words = vector % b->v != 0;
    b->turned = b->unit > (b->words ? 1 : b->v) && !sn_schedule_brick_begins_sectors(&b->b);
    b->reach = sn_schedule_brick_reach(&b->b);
    b->beyond = b->turned ? sn_schedule_brick_beyond(&b->last, &b->b) : 0;
    for (uint32_t p = 0; p < b->b.n; p++) b->sides[p] = b->b.sides[p] + (p == b->last ? b->beyond : 0);
    note_staged(b, &body);
    open_grid(b);
    sn_stmt_vec edge = b->inside && b->masked ? sn_schedule_copy_body(b->cx, b->k, &body) : body;
    find_origins(b, b->inside);
    if (choose_bricks(b, false)) put_copies(b, false);
    find_origins(b, false);
    if (choose_bricks(b, true)) put_copies(b, true);
    if (between && choose_bricks(b, false)) between(b, false, user);
    if (between && choose_bricks(b, true)) between(b, true, user);
    if (choose_bricks(b, false)) put_bodies(b, &body, false);
    if (choose_bricks(b, true)) put_bodies(b, &edge, true);
}

void sn_schedule_brick_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    sn_brick_binding b = {.cx = cx, .m = m, .k = k, .sh = sh, .threads = sc->block_x, .v = sc->vector};
    sn_schedule_find_brick(&b.b, cx, k, &sh->outer);
    sn_schedule_size_brick(&b.b, sc->tile_m, sc->tile_n);
    for (uint32_t p = 0; p < sh->outer.n; p++) b.axes[p] = sn_stmt_axis(m, sh->outer.at[p]);
    uint32_t vector = sn_schedule_brick_vector(m, &b.b, sh);
    sn_stmt_vec body = {0};
    sn_schedule_take_body(&body, cx, k, sh);
    sn_brick_bind_body(&b, body, vector, NULL, NULL);
}
