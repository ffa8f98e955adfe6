/* line.c: class line of the pass `schedule`: threads go along the lines of the last loop, several lines each.
 *
 *     loop i in 73704 { loop j in 201 { %0 = load r[i]   %1 = load x[201*%0 + j]   store y[201*i + j], %1 } }
 *
 *     loop g : grid { loop t : block.x {                   X threads a line: t mod X; T / X lines side by side: t div X
 *       loop p : unroll { loop l : unroll { loop v {       line i = T/X*(L*g + l) + t div X
 *         all but the stores, at j = (V*(X*p + t mod X) + v + lead) mod 201;  what they would store goes to registers } } }
 *       loop p : unroll { loop l : unroll { loop v { the stores } } }
 *     } }
 *
 * For lines of halves or words that do not begin with a whole access (rows that are looked up, borders, parts of
 * concatenations): class element has vectors that cross their ends, and asks for each of them where it is, run by run,
 * one load behind the other. Here all that depends on the line is found once for the pieces of a thread, and what these
 * load is on its way together, in front of all stores. Accesses are narrow, but lanes have neighbours, and X threads
 * times `unroll` pieces are a line with little left over. `lead` makes them begin with the first sector of the line;
 * what is in front of it comes last. A line of more pieces is cut into parts, each of which is a block's.
 *
 * For straight-line code. Fields: block_x threads; vector elements of an access; unroll pieces of a line that a thread has; tile_m
 * lines of a block.
 */
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/moves/ends.h"

enum { SN_LINE_STORES = 4 };

/* Straight-line code with a few stores, none of which has a mask, of what it does not load. */
static bool is_straight(const sn_module *m, sn_kern k, const sn_schedule_shape *sh) {
    uint32_t stores = 0;
    for (sn_stmt s = sn_stmt_get(m, sh->body)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        bool store = r->op == SN_LOP_STORE;
        if (sn_lop_has_region(r->op) || (sn_is_access(r) && r->op != SN_LOP_LOAD && !store)) return false;
        if (store && (r->has_mask || sn_ix_uses_vals(m, r->ix) || sn_kern_loads(m, k, r->buf))) return false;
        stores += store;
    }
    return stores > 0 && stores <= SN_LINE_STORES;
}

bool sn_schedule_line_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    *why_not = "lines want elements, two loops and straight-line code, on a GPU";
    return cx->target->is_gpu && sh->outer.n >= 2 && sh->rows > 0 && !sh->n_nests && is_straight(cx->m, k, sh);
}

/* ---- choosing ---- */

/* What accesses along the last loop are like. */
typedef struct look {
    uint32_t v;             /* elements that are one access everywhere */
    uint32_t least, widest; /* bytes of the smallest and of the largest element */
    uint32_t walked;        /* accesses */
    bool apart;             /* something steps over elements */
    bool tested;            /* something is there for a part of the positions */
    bool looked_up;         /* something lies where a value says, */
    bool moved, stays;      /* ... or much of it lies otherwise than it is stored; something lies as it is stored */
} look;

static look look_at_lines(sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    sn_module *m = cx->m;
    sn_axis ax = sn_stmt_axis(m, sh->body);
    int64_t row = sn_last_outer_extent(cx, sh), c;
    look l = {.v = sn_pow2_divisor(row)};
    for (sn_stmt s = sn_stmt_get(m, sh->body)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        bool tests = r->op == SN_LOP_IN;
        l.tested |= tests;
        if ((!tests && !sn_is_access(r)) || !sn_ix_uses_axis(m, r->ix, ax)) continue;
        sn_ix rest = sn_ix_sub(m, r->ix, sn_ix_axis(m, ax));
        bool walks = sn_ix_coef(m, r->ix, ax, &c) && c == 1;
        while (l.v > 1 && walks && !sn_ix_is_multiple(m, rest, l.v)) l.v /= 2;
        while (l.v > 1 && tests && (!walks || !sn_ix_is_multiple(m, r->bound, l.v))) l.v /= 2;
        if (tests) continue;
        l.apart |= !walks;
        l.looked_up |= sn_ix_uses_vals(m, r->ix);
        bool much = sn_buf_bytes(m, r->buf) >= sn_mul_clamped(sh->rows, sn_dtype_bytes(r->dtype)) / SN_LINE_MUCH;
        l.moved |= r->op == SN_LOP_LOAD && much && !sn_schedule_walks_all(m, sh, r->ix);
        l.stays |= r->op == SN_LOP_LOAD && much && sn_schedule_walks_all(m, sh, r->ix);
        l.walked++;
        uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        sn_schedule_smaller(&l.least, bytes);
        if (bytes > l.widest) l.widest = bytes;
        while (l.v > 1 && (sn_buf_get(m, r->buf)->align < l.v * bytes || l.v * bytes > cx->target->vector_bytes))
            l.v /= 2;
    }
    return l;
}

/* Lines of words, some of which are not there, that do not begin with the widest access: lanes of class element ask each for itself, which takes
 * as long as wider elements do, or places without tests. */
static bool are_narrow(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const look *l) {
    int64_t row = sn_last_outer_extent(cx, sh), lines = sh->rows / row, bytes = row * l->least;
    bool narrow = l->least == SN_TILE_WORD && l->v * l->least < cx->target->vector_bytes;
    if (!narrow || !l->tested || l->looked_up || l->stays || bytes < SN_LINE_LEAST) return false;
    bool is_long = l->widest == l->least && row > SN_LINE_PIECES * SN_ELEMENT_THREADS;
    if (is_long && sn_schedule_find_ends(cx, sh, cx->target->vector_bytes / l->least).n)
        return false; /* vectors (element.c) */
    return sh->rows >= (int64_t)cx->target->units * SN_LINE_BLOCKS * SN_ELEMENT_THREADS && lines > 1;
}

/* Lines of words made of halves, or of halves that are looked up: others are in time as runs of class element. */
static bool pays(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const look *l) {
    int64_t row = sn_last_outer_extent(cx, sh), lines = sh->rows / row;
    bool words = l->v == 2, halves = l->looked_up && l->v == 1;
    if (!(l->looked_up || l->moved) || l->walked > SN_LINE_ACCESSES || l->apart || l->widest > l->least) return false;
    if (l->least >= SN_TILE_WORD) return are_narrow(cx, sh, l);
    if (2 * l->least != SN_TILE_WORD || !(words || halves)) return false;
    int64_t bytes = row * l->least, least = halves ? SN_LINE_LOOKED_UP : SN_LINE_LEAST;
    return bytes >= least && bytes <= SN_LINE_MOST && lines >= (int64_t)cx->target->units * SN_LINE_BLOCKS;
}

/* Elements of a line up to the first that begins a sector for the first store; *unit: those of a sector. Half a sector is more work for
 * the L2 than a whole one, so that pieces are counted from there. None: all lines begin sectors. */
static sn_ix before_sector(sn_pass_ctx *cx, const sn_schedule_shape *sh, int64_t *unit) {
    sn_module *m = cx->m;
    sn_ix zero = sn_ix_const(m, 0);
    sn_axis ax = sn_stmt_axis(m, sh->body);
    *unit = 1;
    for (sn_stmt s = sn_stmt_get(m, sh->body)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_STORE) continue;
        *unit = SN_SECTOR / sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        sn_ix start = sn_ix_subst(m, r->ix, &ax, &zero, 1);
        if (!sn_ix_is_multiple(m, start, *unit)) return sn_ix_modc(m, sn_ix_scale(m, start, -1), *unit);
        break;
    }
    return (sn_ix){0};
}

/* How lines lie over threads. */
typedef struct grid {
    int64_t row, lines, v;
    int64_t unit, vectors; /* of a sector, in elements; of a line */
    int64_t parts;         /* of a line, each of which is a block's */
    int64_t x, beside, turns;
    sn_ix before;
} grid;

static grid grid_of(sn_pass_ctx *cx, const sn_schedule_shape *sh, int64_t v) {
    grid g = {.row = sn_last_outer_extent(cx, sh), .v = v};
    g.lines = sh->rows / g.row;
    g.before = before_sector(cx, sh, &g.unit);
    g.vectors = g.row / v;
    g.parts = 1;
    return g;
}

/* As few parts as have no more pieces than so many threads with n each. */
static void cut_lines(grid *g, int64_t threads, int64_t n) { g->parts = sn_ceil_div(g->vectors, threads * n); }

/* Threads of a line, or of its part, that has n pieces for each: whole sectors. */
static int64_t threads_of_line(const grid *g, uint32_t n) {
    int64_t x = sn_ceil_div(g->vectors, n * g->parts), unit = g->before.i && g->unit > g->v ? g->unit / g->v : 1;
    return sn_ceil_div(x, unit) * unit;
}

/* As little is left over as can be. */
static uint32_t choose_pieces(const grid *g, uint32_t bytes) {
    enum { PERCENT = 100 };
    uint32_t best = 1;
    int64_t least = INT32_MAX;
    for (uint32_t n = 1; n <= SN_LINE_PIECES; n++) {
        int64_t x = threads_of_line(g, n), share = x * n * g->parts * PERCENT / g->vectors;
        if (n > 1 && x * g->v * bytes < SN_LINE_SIDE) break;
        if (x > SN_ELEMENT_THREADS || share > least + SN_LINE_ALIKE) continue;
        best = n;
        if (share < least) least = share;
    }
    return best;
}

/* As many lines side by side as leave the fewest lanes of the last warp idle. */
static int64_t lines_beside(int64_t x) {
    int64_t most = SN_ELEMENT_THREADS / x, best = most > 0 ? most : 1;
    for (int64_t y = best; y > most / 2 && y > 0; y--)
        if (sn_ceil_div(x * y, SN_WARP) * best < sn_ceil_div(x * best, SN_WARP) * y) best = y;
    return best;
}

/* The lines of a complete schedule. */
static grid lines_of(sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    grid g = grid_of(cx, sh, sc->vector);
    cut_lines(&g, sc->block_x, sc->unroll);
    g.x = threads_of_line(&g, sc->unroll);
    g.beside = sc->block_x / g.x;
    return g;
}

static void complete(sn_sched *sc, sn_pass_ctx *cx, const sn_schedule_shape *sh, const look *l) {
    sc->cls = SN_SCHED_LINE;
    grid g = grid_of(cx, sh, sc->vector);
    cut_lines(&g, sc->block_x ? sc->block_x : SN_ELEMENT_THREADS, sc->unroll ? sc->unroll : SN_LINE_PIECES);
    if (!sc->unroll) sc->unroll = choose_pieces(&g, l->least);
    int64_t x = threads_of_line(&g, sc->unroll), most = cx->target->max_threads, beside = lines_beside(x);
    if (!sc->block_x) sc->block_x = (uint32_t)(x * beside < most ? x * beside : most);
    beside = sc->block_x / x ? sc->block_x / x : 1;
    uint32_t turns = 1, most_turns = l->looked_up ? SN_LINE_LOOKED : SN_LINE_WRITTEN;
    while (2 * turns <= most_turns && 2 * turns * sc->unroll * sc->vector * l->widest <= SN_LINE_FLIGHT &&
           2 * turns * sc->unroll <= SN_LINE_WRITTEN &&
           g.lines / (2 * turns * beside) >= (int64_t)cx->target->units * SN_LINE_BLOCKS)
        turns *= 2;
    if (!sc->tile_m) sc->tile_m = (uint32_t)(beside * turns);
    sc->block_y = 1;
}

sn_status sn_schedule_line_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                      const sn_sched *pinned) {
    sn_sched sc = *pinned;
    look l = look_at_lines(cx, sh);
    if (pinned->cls == SN_SCHED_NONE && !pays(cx, sh, &l)) return SN_OK;
    if (!sc.vector) sc.vector = l.v;
    if (sn_last_outer_extent(cx, sh) % sc.vector || l.v % sc.vector)
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                       "kernel %s: the schedule's vector=%u does not divide what begins lines",
                       sn_kern_get(cx->m, k)->name, sc.vector);
    complete(&sc, cx, sh, &l);
    if (!lines_of(cx, sh, &sc).beside) /* it has whole sectors of threads */
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                       "kernel %s: the schedule's %u threads are fewer than a line has with unroll=%u",
                       sn_kern_get(cx->m, k)->name, sc.block_x, sc.unroll);
    sn_schedule_propose(out, cx, &sc);
    return SN_OK;
}

/* ---- binding ---- */

typedef struct line {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    const sn_schedule_shape *sh;
    grid at;
    int64_t pieces;
    sn_ix g, part, t;
    sn_axis axes[SN_MAX_CHAIN];
    sn_buf regs[SN_LINE_STORES];
} line;

/* Pieces of the lines of a block, at `into`: loops over pieces and, inside of them, lines. */
typedef struct place {
    sn_stmt lanes;              /* the innermost loop */
    sn_ix with[SN_MAX_CHAIN];   /* the outer loops there */
    sn_ix kept;                 /* number of the element in the registers of the thread */
    sn_val exists, line_exists; /* does it, in its line; none: it does */
} place;

static place open_pieces(line *l, sn_stmt into, bool past) {
    sn_module *m = l->m;
    const grid *at = &l->at;
    place out = {.lanes = {0}};
    uint32_t last = l->sh->outer.n - 1;
    sn_ix extents[SN_MAX_CHAIN];
    for (uint32_t p = 0; p <= last; p++) extents[p] = sn_stmt_extent(m, l->sh->outer.at[p]);
    sn_ix p = sn_open_loop_in(m, l->k, &into, "p", l->pieces, SN_AXIS_UNROLL);
    sn_ix turn = sn_open_loop_in(m, l->k, &into, "l", at->turns, SN_AXIS_UNROLL);
    sn_ix number = sn_ix_fma(m, at->beside, sn_ix_fma(m, at->turns, l->g, turn), sn_ix_divc(m, l->t, at->x));
    sn_ix_unflatten(m, number, extents, last, out.with);
    sn_ix piece = sn_ix_fma(m, l->pieces, l->part, p);
    sn_ix first = sn_ix_scale(m, sn_ix_fma(m, at->x, piece, sn_ix_modc(m, l->t, at->x)), at->v);
    sn_cursor end = sn_at_end(l->k, into);
    if (at->x * l->pieces * at->parts * at->v > at->row) out.exists = sn_put_in(m, end, first, extents[last]);
    if (at->before.i)
        first = sn_ix_modc(m, sn_ix_add(m, first, sn_ix_subst(m, at->before, l->axes, out.with, last)), at->row);
    if (past) out.line_exists = sn_put_in(m, end, number, sn_ix_const(m, at->lines));
    out.lanes = into;
    sn_ix lane = sn_open_loop_in(m, l->k, &out.lanes, "v", at->v, SN_AXIS_VECTOR);
    out.with[last] = sn_ix_add(m, first, lane);
    sn_ix own = sn_ix_fma(m, l->pieces * at->turns * at->v, l->t, lane);
    out.kept = sn_ix_fma(m, at->turns * at->v, p, sn_ix_fma(m, at->v, turn, own));
    return out;
}

static sn_val both(sn_module *m, sn_cursor at, sn_val a, sn_val b) {
    return a.i && b.i ? sn_put_op2(m, at, SN_LOP_AND, a, b) : a.i ? a : b;
}

/* A load of the body happens where its element exists. */
static void mask_load(line *l, sn_stmt s, sn_val mask) {
    sn_module *m = l->m;
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    sn_cursor at = sn_at_before(m, s);
    sn_val other = r->has_mask ? r->in[1] : sn_put_const(m, at, r->dtype, 0);
    if (r->has_mask) mask = both(m, at, mask, r->in[0]);
    sn_val_replace(m, l->k, r->result, sn_put_load_masked(m, at, r->buf, r->ix, mask, other));
    sn_stmt_unlink(m, s);
}

/* What lines are found by is loaded for all lanes of a line alike. */
static void put_loads(line *l, const place *at, const sn_stmt_vec *body) {
    sn_module *m = l->m;
    uint32_t n = l->sh->outer.n, stores = 0;
    sn_cursor end = sn_at_end(l->k, at->lanes);
    sn_val all = both(m, end, at->line_exists, at->exists);
    for (uint32_t i = 0; i < body->n; i++) {
        sn_stmt s = body->at[i];
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op == SN_LOP_STORE) sn_put_store(m, end, l->regs[stores++], at->kept, r->in[0]);
        else sn_stmt_insert(m, end, s);
    }
    for (uint32_t i = 0; i < body->n; i++) {
        sn_stmt s = body->at[i];
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op == SN_LOP_STORE) continue;
        sn_val mask = r->ix.i && sn_ix_uses_axis(m, r->ix, l->axes[n - 1]) ? all : at->line_exists;
        sn_stmt_subst(m, s, l->axes, at->with, n);
        if (r->op == SN_LOP_LOAD && mask.i) mask_load(l, s, mask);
    }
}

static void put_stores(line *l, const place *at, const sn_stmt_rec *stores, uint32_t n) {
    sn_module *m = l->m;
    sn_cursor end = sn_at_end(l->k, at->lanes);
    sn_val mask = both(m, end, at->line_exists, at->exists);
    for (uint32_t i = 0; i < n; i++) {
        sn_val x = sn_put_load(m, end, l->regs[i], at->kept);
        sn_ix e = sn_ix_subst(m, stores[i].ix, l->axes, at->with, l->sh->outer.n);
        if (mask.i) sn_put_store_masked(m, end, stores[i].buf, e, x, mask);
        else sn_put_store(m, end, stores[i].buf, e, x);
    }
}

/* All that is loaded, and what comes of it, stands in front of all stores: so it is on its way together. */
static void put_lines(line *l, sn_stmt into, const sn_stmt_vec *body, bool past) {
    sn_stmt_rec stores[SN_LINE_STORES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < body->n; i++)
        if (sn_stmt_get(l->m, body->at[i])->op == SN_LOP_STORE) stores[n++] = *sn_stmt_get(l->m, body->at[i]);
    place at = open_pieces(l, into, past);
    put_loads(l, &at, body);
    at = open_pieces(l, into, past);
    put_stores(l, &at, stores, n);
}

/* Registers for what the stores of the body wait for. */
static void new_registers(line *l, const sn_stmt_vec *body) {
    sn_module *m = l->m;
    const grid *at = &l->at;
    int64_t own = l->pieces * at->turns * at->v;
    for (uint32_t i = 0, n = 0; i < body->n; i++) {
        const sn_stmt_rec *r = sn_stmt_get(m, body->at[i]);
        if (r->op != SN_LOP_STORE) continue;
        const char *name = sn_strf(&m->arena, "%s_r%u", sn_kern_get(m, l->k)->name, n);
        l->regs[n++] = sn_local_new(m, name, sn_buf_get(m, r->buf)->dtype, SN_BUF_REG, own, at->x * at->beside);
    }
}

void sn_schedule_line_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    line l = {.cx = cx, .m = m, .k = k, .sh = sh, .at = lines_of(cx, sh, sc), .pieces = sc->unroll};
    grid *at = &l.at;
    for (uint32_t p = 0; p < sh->outer.n; p++) l.axes[p] = sn_stmt_axis(m, sh->outer.at[p]);
    at->turns = sn_ceil_div(sc->tile_m, at->beside);
    int64_t block = at->turns * at->beside, whole = at->lines / block;
    sc->block_x = (uint32_t)(at->beside * at->x);
    sn_stmt_vec body = {0};
    sn_schedule_take_body(&body, cx, k, sh);
    sn_stmt into = {0};
    sn_ix g = sn_open_loop_in(m, k, &into, "g", sn_ceil_div(at->lines, block) * at->parts, SN_AXIS_GRID);
    l.g = sn_ix_divc(m, g, at->parts);
    l.part = sn_ix_modc(m, g, at->parts);
    l.t = sn_open_loop_in(m, k, &into, "t", at->beside * at->x, SN_AXIS_BLOCK_X);
    new_registers(&l, &body);
    if (at->lines % block == 0 || !whole) {
        put_lines(&l, into, &body, !whole);
        return;
    }
    sn_stmt_vec rest = sn_schedule_copy_body(cx, k, &body);
    put_lines(&l, sn_put_if(m, sn_at_end(k, into), l.g, sn_ix_const(m, whole)), &body, false);
    sn_ix last = sn_ix_sub(m, l.g, sn_ix_const(m, whole));
    put_lines(&l, sn_put_if(m, sn_at_end(k, into), last, sn_ix_const(m, 1)), &rest, true);
}
