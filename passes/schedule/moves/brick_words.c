/* brick_words.c: class brick: runs of the stores go to memory by words, wherever they begin.
 *
 *     loop x : block.x { loop q { loop p { loop l {          run c = (T / X)*l + x div X of those that begin alike, word n = X*p + x mod X
 *       loop v { the body at element `before` + V*n + v;   store y[the n-th word of the run + v] } } } } }
 *
 * A run of bytes or halves begins in the middle of a word, as a rule: `before` elements in front of its first word, and what is behind its last one,
 * are stored one by one (put_left). Where bricks end inside of sectors, words go from the first sector that begins in a run to the first that begins in
 * the next brick's (put_sectors), and what follows the last word of a row is stored by the brick in which its sector begins (put_row_ends). Runs of
 * many loops that words begin anyway go row by row, or in parts that lie alike: then where a word's elements are in shared memory is
 * found once for many (put_between has the words of two rows).
 *
 * Relies on brick_bind.c for threads, masks and the body. It does not decide whether a kernel is stored so: sn_schedule_brick_word does (brick.c).
 */
#include "passes/schedule/moves/brick_bind.h"
#include "passes/schedule/base/figures.h"

/* ---- runs ---- */

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

static words split_words(const sn_brick_binding *b) {
    words w = {.length = sn_schedule_brick_run(&b->b, &b->b.stored), .parts = 1, .side = 1};
    w.count = sn_schedule_brick_elements(&b->b) / w.length;
    w.n = w.length / b->v;
    sn_brick_split_loops(b, w.run, &w.n_run, w.runs, &w.n_runs);
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
static void begin_words(sn_brick_binding *b, words *w, const sn_stmt_vec *body, const sn_ix *at) {
    sn_module *m = b->m;
    w->start = sn_brick_start_of_stores(b, body, at);
    w->before = sn_ix_modc(m, sn_ix_scale(m, w->start, -1), b->v);
    w->less = sn_ix_divc(m, sn_ix_addc(m, w->before, b->v - 1 - w->length % b->v), b->v);
}

/* A run of several loops that begins with a word, as all runs do: its parts of as few iterations of the last loop as are
 * whole words lie alike, so that where a word's elements are in them is found once for all parts of a thread. */
static void cut_run(sn_brick_binding *b, words *w, const sn_stmt_vec *body) {
    enum { LEAST = 2 * SN_WARP };
    int64_t side = w->part, inner = w->length / side, part = b->v / sn_schedule_gcd(inner, b->v), zero;
    sn_ix at[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) at[p] = sn_ix_const(b->m, 0);
    sn_ix phase = sn_ix_modc(b->m, sn_brick_start_of_stores(b, body, at), b->v);
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
static void step_apart(sn_brick_binding *b, const words *w, sn_ix e, sn_ix lane, sn_ix *at) {
    sn_module *m = b->m;
    sn_ix more = lane, part = w->parts > 1 ? at[w->run[w->n_run - 1]] : sn_ix_const(m, 0);
    sn_brick_take_apart(b, w->run, w->n_run, e, at);
    for (uint32_t k = 0; k < w->n_run; k++) {
        sn_ix *d = &at[w->run[k]], sum = sn_ix_add(m, *d, more);
        int64_t n = b->sides[w->run[k]];
        if (k + 1 < w->n_run) {
            more = sn_ix_divc(m, sum, n);
            *d = sn_ix_modc(m, sum, n);
        } else {
            *d = sn_ix_add(m, part, sn_brick_inside(m, sum, w->parts > 1 ? w->part : n));
        }
    }
}

/* Do runs of shared memory follow each other as elements of a run of the stores do? Then nobody asks which loops those are. */
static bool follows_runs(const sn_brick_binding *b, const words *w) {
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
static uint32_t digits(const sn_brick_binding *b, const words *w) {
    uint32_t n = 0;
    for (uint32_t k = 0; k + 1 < w->n_run; k++)
        n += sn_pow2_divisor(b->sides[w->run[k]]) == b->sides[w->run[k]] ? 1 : 2;
    return n;
}

/* Would a word's elements be looked for one by one, at some length, in runs that words begin, but not sectors? What a warp stores ends
 * inside of sectors then, which takes less time. */
static bool looks_for_each(const sn_brick_binding *b, const words *w) {
    if (!b->turned || b->words || b->beyond || b->v < 2 || b->v * b->b.least != SN_TILE_WORD) return false;
    for (uint32_t i = 0; i < b->b.n_staged; i++)
        if (b->loads[i].in.common % b->v == 0) return false;
    int64_t each = b->b.least == 1 ? SN_BRICK_DIGITS_BYTES : SN_BRICK_DIGITS;
    return digits(b, w) >= each && !follows_runs(b, w);
}

/* Does a run go by its rows, each of which has its own words, of whose elements all are in it? Few words are in two rows then (put_between). */
static bool goes_by_rows(const sn_brick_binding *b, const words *w) {
    return looks_for_each(b, w) && b->sides[w->run[0]] >= SN_BRICK_ROW * b->v;
}

static void take_rows(const sn_brick_binding *b, words *w) {
    int64_t row = b->sides[w->run[0]], rows = w->length * w->parts / row;
    w->n_stepped = w->n_run - 1;
    for (uint32_t k = 0; k < w->n_stepped; k++) w->stepped[k] = w->run[k + 1];
    w->side = rows, w->n_run = 1, w->parts = 1;
    w->length = w->part = row, w->n = row / b->v, w->count *= rows;
}

/* The same for those who do not look at tests, where element e + lane is one of the brick's. */
static void step_inside(sn_brick_binding *b, const words *w, sn_ix e, sn_ix lane, sn_ix *in) {
    if (follows_runs(b, w)) sn_brick_take_apart(b, w->run, w->n_run, sn_ix_add(b->m, e, lane), in);
    else step_apart(b, w, e, lane, in);
}

/* Threads of a run, and runs at a time, of those that begin alike; q: the first of them along the loop of which every v-th does. */
typedef struct word_lanes {
    int64_t along, beside, steps, turns;
    sn_ix q, piece;
    sn_stmt into;
} word_lanes;

static word_lanes open_words(sn_brick_binding *b, const words *w, sn_ix x, sn_stmt into, sn_ix *at) {
    sn_module *m = b->m;
    int64_t side = w->side, alike = w->parts;
    for (uint32_t k = 0; k < w->n_alike; k++) alike *= b->b.sides[w->alike[k]];
    word_lanes l = {.steps = sn_ceil_div(side, b->v)};
    l.along = sn_schedule_brick_threads(b->threads, w->n, l.steps * alike);
    if (w->parts > 1 && l.along < SN_WARP) l.along = SN_WARP; /* lanes in two parts meet in a bank */
    l.beside = b->threads / l.along;
    l.turns = sn_ceil_div(l.steps * alike, l.beside);
    into = sn_brick_leave_out_rest(b, into, x, l.along);
    for (uint32_t k = 0; k < w->n_around; k++)
        at[w->around[k]] = sn_open_loop_in(b->m, b->k, &into, "r", b->b.sides[w->around[k]], SN_AXIS_SEQ);
    /* Written out, places of a word's elements are constants from each other; little of what takes long. */
    bool few = b->sh->instructions * b->v <= SN_FEW_INSTRUCTIONS;
    l.q = sn_open_loop_in(b->m, b->k, &into, "q", side < b->v ? side : b->v, few ? SN_AXIS_UNROLL : SN_AXIS_SEQ);
    sn_brick_take_apart(b, w->stepped, w->n_stepped, l.q, at);
    sn_ix p = sn_open_loop_in(b->m, b->k, &into, "p", sn_ceil_div(w->n, l.along), SN_AXIS_SEQ);
    l.piece = sn_ix_fma(m, l.along, p, sn_ix_modc(m, x, l.along));
    l.into = into;
    return l;
}

/* Where the loops of runs that lie alike are in run `number` of these. */
static void take_alike(sn_brick_binding *b, const words *w, sn_ix number, sn_ix *at) {
    sn_module *m = b->m;
    if (w->parts > 1) at[w->run[w->n_run - 1]] = sn_ix_scale(m, sn_ix_modc(m, number, w->parts), w->part);
    sn_brick_take_apart(b, w->alike, w->n_alike, sn_ix_divc(m, number, w->parts), at);
}

/* The run of this thread and turn. */
static void enter_run(sn_brick_binding *b, const words *w, word_lanes *l, sn_ix x, sn_ix *at, sn_ix *in) {
    enum { MOST_UNROLL = 8 };
    sn_module *m = b->m;
    sn_ix number = sn_brick_open_turns(b, &l->into, "lo", "l", l->turns, MOST_UNROLL);
    int64_t alike = w->parts, side = w->side;
    for (uint32_t k = 0; k < w->n_alike; k++) alike *= b->b.sides[w->alike[k]];
    number = sn_ix_fma(m, l->beside, number, sn_ix_divc(m, x, l->along));
    if (sn_brick_after_turns(l->turns, MOST_UNROLL) * l->beside > l->steps * alike)
        l->into = sn_put_if(m, sn_at_end(b->k, l->into), number, sn_ix_const(m, l->steps * alike));
    sn_ix step = sn_ix_fma(m, b->v, sn_ix_divc(m, number, alike), l->q),
          within = sn_brick_inside(m, number, l->steps * alike);
    if (side > 1 && side % b->v) l->into = sn_put_if(m, sn_at_end(b->k, l->into), step, sn_ix_const(m, side));
    take_alike(b, w, sn_ix_modc(m, number, alike), at);
    take_alike(b, w, sn_ix_modc(m, within, alike), in);
    sn_ix exists = sn_brick_inside(m, sn_ix_fma(m, b->v, sn_ix_divc(m, within, alike), l->q), side);
    sn_brick_take_apart(b, w->stepped, w->n_stepped, step, at);
    sn_brick_take_apart(b, w->stepped, w->n_stepped, exists, in);
}

/* Runs of several long rows, whose words are found each for itself: few of them have elements of two rows. */
static bool stays_in_row(const sn_brick_binding *b, const words *w) {
    enum { WARPS = 2 };
    return w->n_run > 1 && w->parts == 1 && b->sides[w->run[0]] >= WARPS * SN_WARP * b->v;
}

/* The word of element e, which goes to `first`, and those of other stores as far from it as they begin behind the first one; `stays`: all of it is in
 * one row of the run. */
static void put_word(sn_brick_binding *b, const words *w, sn_stmt into, const sn_stmt_vec *body, sn_ix first, sn_ix e,
                     sn_ix *at, sn_ix *in, bool stays) {
    sn_module *m = b->m;
    sn_ix lane = sn_open_loop_in(m, b->k, &into, "v", b->v, SN_AXIS_VECTOR);
    if (stays) {
        uint32_t p = w->run[0];
        sn_brick_take_apart(b, w->run, w->n_run, e, at);
        sn_brick_take_apart(b, w->run, w->n_run, e, in);
        at[p] = sn_ix_add(m, at[p], lane);
        in[p] = sn_ix_add(m, sn_brick_inside(m, in[p], b->sides[p] - b->v + 1), lane);
    } else {
        step_apart(b, w, e, lane, at);
        step_inside(b, w, e, lane, in);
    }
    sn_brick_put_element(b, into, body, at, in);
    sn_ix of_first = {0};
    for (uint32_t k = 0; k < body->n; k++) {
        sn_stmt_rec *r = sn_stmt_get(m, body->at[k]);
        if (r->op != SN_LOP_STORE) continue;
        if (!of_first.i) of_first = r->ix;
        r->ix = sn_ix_add(m, sn_ix_add(m, first, lane), sn_ix_sub(m, r->ix, of_first));
    }
}

/* All words of which the run has no more than a part left out; what comes from run to run is found once. */
static void put_words(sn_brick_binding *b, const sn_stmt_vec *body, sn_stmt into, sn_ix x, bool masked) {
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
    sn_ix e = sn_brick_inside(m, sn_ix_fma(m, b->v, word_in, w.before), w.length - b->v + 1);
    for (uint32_t p = 0; p < b->b.n; p++) in[p] = at[p];
    enter_run(b, &w, &l, x, at, in);
    words here = w;
    begin_words(b, &here, body, at);
    sn_ix word = sn_ix_add(m, sn_ix_divc(m, sn_ix_addc(m, here.start, b->v - 1), b->v), l.piece);
    sn_ix first = sn_ix_scale(m, word, b->v);
    sn_val mask = masked ? sn_brick_put_mask(b, l.into, at, w.runs, w.n_runs, (sn_val){0}) : (sn_val){0};
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
static void put_between(sn_brick_binding *b, const sn_stmt_vec *body, sn_stmt into, sn_ix x, bool masked) {
    sn_module *m = b->m;
    words w = split_words(b);
    sn_ix at[SN_MAX_CHAIN], in[SN_MAX_CHAIN];
    int64_t row = b->sides[w.run[0]];
    sn_brick_lanes l = sn_brick_open_lanes(b, x, into, w.length / row - 1, w.count);
    for (uint32_t p = 0; p < b->b.n; p++) in[p] = at[p] = sn_ix_const(m, 0);
    sn_brick_take_apart(b, w.runs, w.n_runs, l.line, at);
    sn_brick_take_apart(b, w.runs, w.n_runs, sn_brick_inside(m, l.line, w.count), in);
    sn_val mask = masked ? sn_brick_put_mask(b, l.into, at, w.runs, w.n_runs, (sn_val){0}) : (sn_val){0};
    sn_ix ends = sn_ix_fma(m, row, l.piece, sn_ix_const(m, row)),
          to = sn_ix_add(m, sn_brick_start_of_stores(b, body, at), ends);
    sn_ix rest = sn_ix_modc(m, to, b->v);
    sn_stmt masks = sn_put_if(m, sn_at_end(b->k, l.into), sn_ix_addc(m, rest, -1), sn_ix_const(m, b->v - 1));
    sn_ix e = sn_brick_inside(m, sn_ix_sub(m, ends, rest), w.length - b->v + 1);
    put_word(b, &w, masks, body, sn_ix_scale(m, sn_ix_divc(m, to, b->v), b->v), e, at, in, false);
    if (mask.i) sn_mask_accesses(b->cx, b->k, masks, mask, true);
}

/* What is in no word. */
static void put_left(sn_brick_binding *b, const sn_stmt_vec *body, sn_stmt into, sn_ix x, bool masked) {
    sn_module *m = b->m;
    words w = split_words(b);
    sn_ix at[SN_MAX_CHAIN], in[SN_MAX_CHAIN];
    int64_t rest = w.length % b->v, most = rest == b->v - 1 ? rest : rest + b->v;
    if (!most) return;
    sn_brick_lanes l = sn_brick_open_lanes(b, x, into, most, w.count);
    for (uint32_t p = 0; p < b->b.n; p++) in[p] = at[p] = sn_ix_const(m, 0);
    sn_brick_take_apart(b, w.runs, w.n_runs, l.line, at);
    sn_brick_take_apart(b, w.runs, w.n_runs, sn_brick_inside(m, l.line, w.count), in);
    begin_words(b, &w, body, at);
    sn_val mask = masked ? sn_brick_put_mask(b, l.into, at, w.runs, w.n_runs, (sn_val){0}) : (sn_val){0};
    if (most != rest)
        l.into = sn_put_if(m, sn_at_end(b->k, l.into), l.piece, sn_ix_addc(m, sn_ix_scale(m, w.less, b->v), rest));
    sn_ix behind = from_zero(m, sn_ix_sub(m, l.piece, w.before), 2 * b->v);
    sn_ix skipped = sn_ix_sub(m, sn_ix_scale(m, behind, w.n), sn_ix_min(m, behind, w.less));
    sn_ix e = sn_brick_inside(m, sn_ix_fma(m, b->v, skipped, l.piece), w.length);
    sn_brick_take_apart(b, w.run, w.n_run, e, at);
    sn_brick_take_apart(b, w.run, w.n_run, e, in);
    sn_brick_put_element(b, l.into, body, at, in);
    if (mask.i) sn_mask_accesses(b->cx, b->k, l.into, mask, true);
}

/* ---- runs of words that end where sectors do ---- */

/* The offset of the first sector that begins at `start` or behind it. */
static sn_ix first_sector(const sn_brick_binding *b, sn_ix start) {
    return sn_ix_scale(b->m, sn_ix_divc(b->m, sn_ix_addc(b->m, start, b->unit - 1), b->unit), b->unit);
}

/* Elements from the beginning of the brick's runs to the end of the loop at which they are cut. */
static sn_ix left_of_row(const sn_brick_binding *b, const words *w) {
    sn_ix rest = sn_ix_sub(b->m, sn_ix_const(b->m, b->b.extents[b->last]), b->origin[b->last]);
    return sn_ix_scale(b->m, rest, w->length / b->b.sides[b->last]);
}

/* Words from the first sector that begins in the run to the first that begins in the next brick's. They are so many in all runs, or
 * differ by those of a sector. */
static void put_sectors(sn_brick_binding *b, const sn_stmt_vec *body, sn_stmt into, sn_ix x, bool masked) {
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
    sn_ix start = sn_brick_start_of_stores(b, body, at), first = first_sector(b, start);
    sn_ix words = sn_ix_divc(m, sn_ix_sub(m, first_sector(b, sn_ix_addc(m, start, w.length)), first), b->v);
    if (!alike) l.into = sn_put_if(m, sn_at_end(b->k, l.into), l.piece, words);
    sn_ix word = sn_ix_divc(m, sn_ix_addc(m, start, b->v - 1), b->v);
    sn_ix skipped = sn_ix_modc(m, sn_ix_scale(m, word, -1), of_sector);
    int64_t most = w.length + b->reach - b->v;
    sn_ix e = sn_ix_fma(m, b->v, sn_brick_inside(m, sn_ix_add(m, l.piece, skipped), most / b->v + 1), w.before);
    e = sn_brick_inside(m, e, most + 1);
    sn_val mask = {0};
    if (masked) {
        sn_cursor end = sn_at_end(b->k, l.into);
        mask = sn_brick_put_mask(b, l.into, at, w.runs, w.n_runs, mask);
        sn_val whole = sn_put_in(m, end, sn_ix_addc(m, e, b->v - 1), left_of_row(b, &w));
        mask = mask.i ? sn_put_op2(m, sn_at_end(b->k, l.into), SN_LOP_AND, mask, whole) : whole;
    }
    sn_stmt masks = l.into;
    sn_ix lane = sn_open_loop_in(b->m, b->k, &l.into, "v", b->v, SN_AXIS_VECTOR);
    sn_ix to = sn_ix_fma(m, b->v, l.piece, first);
    step_apart(b, &w, e, lane, at);
    step_inside(b, &w, e, lane, in);
    sn_brick_put_element(b, l.into, body, at, in);
    for (uint32_t k = 0; k < body->n; k++)
        if (sn_stmt_get(m, body->at[k])->op == SN_LOP_STORE) sn_stmt_get(m, body->at[k])->ix = sn_ix_add(m, to, lane);
    if (mask.i) sn_mask_accesses(b->cx, b->k, masks, mask, true);
}

/* Does every row of the stores end with a word? */
static bool rows_end_words(const sn_brick_binding *b, const sn_stmt_vec *body, const words *w) {
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
static void put_row_ends(sn_brick_binding *b, const sn_stmt_vec *body, sn_stmt into, sn_ix x) {
    sn_module *m = b->m;
    words w = split_words(b);
    if (rows_end_words(b, body, &w)) return;
    sn_brick_lanes l = sn_brick_open_lanes(b, x, into, b->v - 1, w.count);
    sn_ix at[SN_MAX_CHAIN], in[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) in[p] = at[p] = sn_ix_const(m, 0);
    sn_brick_take_apart(b, w.runs, w.n_runs, l.line, at);
    sn_brick_take_apart(b, w.runs, w.n_runs, sn_brick_inside(m, l.line, w.count), in);
    sn_ix start = sn_brick_start_of_stores(b, body, at), rest = left_of_row(b, &w), end = sn_ix_add(m, start, rest);
    sn_ix first = sn_ix_divc(m, first_sector(b, start), b->unit);
    sn_ix next = sn_ix_divc(m, first_sector(b, sn_ix_addc(m, start, w.length)), b->unit);
    sn_val mask = sn_brick_put_mask(b, l.into, at, w.runs, w.n_runs, (sn_val){0});
    l.into = sn_put_if(m, sn_at_end(b->k, l.into), l.piece, sn_ix_modc(m, end, b->v));
    sn_ix number = sn_ix_sub(m, sn_ix_divc(m, end, b->unit), first);
    l.into = sn_put_if(m, sn_at_end(b->k, l.into), number, sn_ix_sub(m, next, first));
    sn_ix e = sn_ix_add(m, sn_ix_sub(m, rest, sn_ix_modc(m, end, b->v)), l.piece);
    e = sn_brick_inside(m, e, w.length + b->reach);
    sn_brick_take_apart(b, w.run, w.n_run, e, at);
    sn_brick_take_apart(b, w.run, w.n_run, e, in);
    sn_brick_put_element(b, l.into, body, at, in);
    if (mask.i) sn_mask_accesses(b->cx, b->k, l.into, mask, true);
}

bool sn_brick_ends_inside(const sn_brick_binding *b) {
    words w = split_words(b);
    for (uint32_t k = 0; k < w.n_run; k++)
        if (b->b.extents[w.run[k]] % b->b.sides[w.run[k]]) return true;
    return false;
}

bool sn_brick_has_parts(sn_brick_binding *b, const sn_stmt_vec *body) {
    words w = split_words(b);
    cut_run(b, &w, body);
    return goes_by_rows(b, &w) || (w.parts > 1 && (!b->turned || looks_for_each(b, &w)));
}

void sn_brick_put_runs(sn_brick_binding *b, const sn_stmt_vec *body, bool masked) {
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

void sn_brick_put_runs_beyond(sn_brick_binding *b, const sn_stmt_vec *body, bool masked) {
    sn_stmt into = b->into;
    sn_ix x = sn_open_loop_in(b->m, b->k, &into, "x", b->threads, SN_AXIS_BLOCK_X);
    sn_stmt_vec left = masked ? sn_schedule_copy_body(b->cx, b->k, body) : (sn_stmt_vec){0};
    put_sectors(b, body, into, x, masked);
    if (masked) put_row_ends(b, &left, into, x);
}
