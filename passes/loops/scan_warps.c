/* scan_warps.c: parts of long rows, which warps scan (scan_tiles.c).
 *
 *     loop r in 15184320 { load x[r]  %1 = accum sum %0 over r  store y[r], %1 }
 *
 *  -> loop g in 1854 : grid {
 *       loop w in 8 : block.y {
 *         loop x in 32 : block.x { loop u in 8 : unroll { loop v in 4 : vector { load x[..]  store k_s0[..] } } }
 *         %0 = reduce sum x in 32 : block.x { reduce sum u in 8 : unroll {
 *                %1 = reduce sum v in 4 : vector { load k_s0[..] }  store k_e0[u], %1 } }
 *         %2 = accum sum %0 over w exclusive   %3 = add %2, %0   store k_p0[g], %3 if w = 7
 *         loop u in 8 : unroll { loop x in 32 : block.x {
 *           load k_e0[u]  %4 = accum sum .. over 32*u + x exclusive  %5 = add %2, %4  store k_e0[u], %5 } }
 *         %6 = reduce sum x in 32 : block.x { load k_p0[..] }   store k_n0[w], %6        what the parts before come to,
 *       }
 *       barrier
 *       loop w in 8 : block.y {
 *         %7 = reduce sum q in 8 : unroll { load k_n0[q] }                               of all warps
 *         loop u in 8 : unroll { loop x in 32 : block.x { %8 = add %7, k_e0[u]
 *           loop v in 4 : vector { load k_s0[..]  %9 = accum sum .. over v  %10 = add %8, %9  store y[..], %10 } } } } }
 *
 * What counts is the time from the last element of a tile to its first result: blocks that begin together wait together, and
 * memory for them. So a thread sums up its vectors while the next ones come, and no barrier stands in front of that; all that
 * does not need the parts before is done while they are waited for; and results go from registers to memory.
 *
 * One exchange through the L2 cache is waited for, not two: a part takes in, one by one, the parts of its group and of the
 * group before, a word for each thread, and what the groups before those come to, which has been posted while a whole group
 * was loaded (left out above, with how the last part of a group posts that). The first half of the warps asks for the group before, the
 * other half for the part's own. Which sums go together follows from numbers alone.
 *
 * Rows that begin inside of vectors have parts that begin with vectors: the first part has some elements of the row before,
 * which count for nothing. Where steps go down in memory, so do vectors, threads and warps.
 *
 * Legal where scan_tiles.c is. One row, or some that have nine whole tiles or more each: shorter ones wait for few
 * others, and registers hold longer parts of them (split_scan.c).
 */
#include "passes/loops/scan_tiles.h"
#include "passes/schedule/base/constants.h"
#include "passes/schedule/base/figures.h"

enum { WARPS = SN_CUT_WARPS };

typedef struct warps {
    sn_tiles *t;
    int64_t turns, share;          /* vectors of a thread; elements of a warp */
    sn_stmt rows;                  /* the loop over warps */
    sn_ix w;                       /* number of the warp */
    sn_buf vectors[SN_CUT_ACCUMS]; /* registers: of each vector; then, of those before it in the warp */
    sn_buf parts[SN_CUT_ACCUMS], groups[SN_CUT_ACCUMS]; /* posted: of parts, of groups of them */
    sn_buf near[SN_CUT_ACCUMS], far[SN_CUT_ACCUMS];     /* shared: what warps have found there */
    sn_buf all[SN_CUT_ACCUMS];                          /* shared: of the part */
    sn_val start[SN_CUT_ACCUMS];                        /* what stands before the part */
} warps;

bool sn_tile_by_warps(sn_tiles *t) {
    int64_t units = t->c->cx->target->units, beyond = t->length % t->vector && t->outer > 1 ? t->vector - 1 : 0;
    if (!t->flat || t->inner > 1 || t->pieces != WARPS * SN_WARP || t->steps < t->vector || t->outer >= 2 * units)
        return false;
    t->steps -= t->steps % t->vector;
    t->rows = t->pieces * t->steps;
    t->parts = sn_ceil_div(t->length + beyond, t->rows);
    if (t->outer > 1 && t->length * t->bytes / SN_CUT_TILE_BYTES < SN_CUT_WARP_PARTS)
        return false; /* few wait for each other: registers hold longer parts */
    return t->parts / SN_CUT_GROUP <= WARPS * SN_WARP * SN_CUT_LANES &&
           sn_mul_clamped(t->parts, t->outer) <= SN_CUT_COLUMN_WORDS;
}

/* ---- an element ---- */

typedef struct place {
    sn_ix in_tile, element, position; /* where it lies in the tile, in memory; which step of the scan it is */
    sn_ix behind; /* elements between the start of the row, or of the vector that it begins in, and it */
    sn_val there; /* is it one of the row? none: always */
} place;

/* Elements between the start of a vector and that of the row. */
static sn_ix lead_of(const sn_tiles *t) { return sn_ix_modc(t->m, sn_tile_times(t, t->row, t->length), t->vector); }

/* Do rows begin inside of vectors? Then the first part of one may have elements of the row before. */
static bool is_led(const sn_tiles *t) { return t->outer > 1 && t->length % t->vector; }

/* Element v of a vector, as they lie in memory. Where steps go down in memory, so do vectors, threads and warps. */
static void find_place(const warps *p, place *out, sn_cursor at, sn_ix x, sn_ix u, sn_ix v) {
    sn_tiles *t = p->t;
    sn_module *m = t->m;
    sn_ix first = sn_tile_plus(t, sn_tile_times(t, p->w, p->share), sn_tile_times(t, u, SN_WARP * t->vector));
    first = sn_tile_plus(t, first, sn_tile_times(t, x, t->vector));
    if (t->reverse) first = sn_ix_sub(m, sn_tile_const(t, t->rows - t->vector), first);
    out->in_tile = sn_tile_plus(t, first, v);
    sn_ix in_row = sn_tile_plus(t, t->tile_row, out->in_tile), row = sn_tile_times(t, t->row, t->length);
    if (is_led(t)) row = sn_tile_times(t, sn_ix_divc(m, row, t->vector), t->vector);
    out->element = sn_tile_plus(t, row, in_row);
    out->behind = in_row;
    if (is_led(t)) in_row = sn_ix_sub(m, in_row, lead_of(t));
    out->position = t->reverse ? sn_ix_sub(m, sn_tile_const(t, t->length - 1), in_row) : in_row;
    out->there = (sn_val){0};
    if (is_led(t) || t->parts * t->rows != t->length)
        out->there = sn_put_in(m, at, in_row, sn_tile_const(t, t->length));
}

static sn_ix of_vector(const warps *p, sn_ix x, sn_ix u) {
    sn_tiles *t = p->t;
    sn_ix thread = sn_tile_plus(t, sn_tile_times(t, p->w, SN_WARP), x);
    return sn_tile_plus(t, sn_tile_times(t, thread, p->turns), u);
}

static sn_cursor at_end(const warps *p) { return sn_at_end(p->t->k, p->rows); }

static void open_warps(warps *p) {
    p->rows = sn_tile_loop(p->t, sn_at_end(p->t->k, p->t->grid), "w", WARPS, SN_AXIS_BLOCK_Y, &p->w).parent;
}

/* ---- copies, and what they come to ---- */

static void copy_in(warps *p) {
    sn_tiles *t = p->t;
    sn_module *m = t->m;
    sn_ix x, u, v;
    place e;
    sn_cursor at = sn_tile_loop(t, at_end(p), "x", SN_WARP, SN_AXIS_BLOCK_X, &x);
    at = sn_tile_loop(t, at, "u", p->turns, SN_AXIS_UNROLL, &u);
    at = sn_tile_loop(t, at, "v", t->vector, SN_AXIS_VECTOR, &v);
    find_place(p, &e, at, x, u, v);
    if (is_led(t)) /* the first vector comes as a whole */
        e.there = sn_put_in(m, at, e.behind, sn_tile_plus(t, sn_tile_const(t, t->length), lead_of(t)));
    for (uint32_t i = 0; i < t->n_loads; i++) {
        sn_dtype dtype = sn_buf_get(m, t->from[i])->dtype;
        t->staged[i] = sn_tile_buffer(t, "s", i, dtype, SN_BUF_SHARED, t->rows);
        sn_val value = e.there.i
                           ? sn_put_load_masked(m, at, t->from[i], e.element, e.there, sn_put_const(m, at, dtype, 0))
                           : sn_put_load(m, at, t->from[i], e.element);
        sn_put_store(m, at, t->staged[i], e.in_tile, value);
    }
}

/* The statements of the scan, or of a copy of it, for one element. start[i]: what stands before the vector; NULL: prefixes
 * and stores are left out. taken[i]: what goes into prefix number i. */
static void move_element(warps *p, sn_cursor at, sn_stmt nest, const place *e, sn_ix v, const sn_val *start,
                         sn_val *taken) {
    sn_tiles *t = p->t;
    sn_module *m = t->m;
    sn_axis own = sn_stmt_axis(m, nest);
    sn_ix number = sn_ix_axis(m, own);
    sn_axis scanned = sn_stmt_axis(m, t->c->nest);
    sn_ix dense = sn_ix_subst(m, t->dense, &scanned, &number, 1);
    uint32_t n = 0, load = 0, outer = t->c->outer.n;
    sn_axis from[SN_MAX_CHAIN + 1];
    sn_ix to[SN_MAX_CHAIN + 1], extents[SN_MAX_CHAIN];
    for (uint32_t i = 0; i < outer; i++) {
        from[i] = sn_stmt_axis(m, t->c->outer.at[i]);
        extents[i] = sn_stmt_extent(m, t->c->outer.at[i]);
    }
    sn_ix_unflatten(m, t->row, extents, outer, to);
    from[outer] = own, to[outer] = e->position;
    for (sn_stmt s = sn_stmt_get(m, nest)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        bool exclusive = r->exclusive, stores = sn_stores(r);
        sn_val old = r->result, x = r->n_in ? r->in[0] : old;
        if (r->op == SN_LOP_LOAD && sn_ix_eq(r->ix, dense)) {
            sn_val_replace(m, t->k, old, sn_put_load(m, at, t->staged[load++], e->in_tile));
        } else if (r->op == SN_LOP_ACCUM) {
            if ((t->reverse || is_led(t)) && e->there.i)
                x = sn_put_op3(m, at, SN_LOP_SELECT, e->there, x, sn_tile_identity(t, at, n));
            taken[n] = x;
            if (start) {
                sn_val prefix = sn_put_accum(m, at, sn_tile_comb(t, n), x, v, exclusive);
                sn_val_replace(m, t->k, old, sn_tile_combine(t, at, n, start[n], prefix));
            }
            n++;
        } else if (!stores) {
            sn_stmt_unlink(m, s);
            sn_stmt_subst(m, s, from, to, outer + 1);
            sn_stmt_insert(m, at, s);
            continue;
        } else if (start && e->there.i) {
            sn_put_store_masked(m, at, t->to, e->element, x, e->there);
        } else if (start) {
            sn_put_store(m, at, t->to, e->element, x);
        }
        sn_stmt_unlink(m, s);
    }
    sn_stmt_unlink(m, nest);
}

/* own[i]: what the warp comes to. */
static void sum_up(warps *p, sn_val *own) {
    sn_tiles *t = p->t;
    sn_module *m = t->m;
    sn_comb combs[SN_CUT_ACCUMS];
    sn_dtype dtypes[SN_CUT_ACCUMS];
    sn_val taken[SN_CUT_ACCUMS];
    sn_stmt loops[3];
    sn_axis axes[3] = {sn_axis_new(m, "x", sn_tile_const(t, SN_WARP)), sn_axis_new(m, "u", sn_tile_const(t, p->turns)),
                       sn_axis_new(m, "v", sn_tile_const(t, t->vector))};
    static const sn_axis_kind KINDS[3] = {SN_AXIS_BLOCK_X, SN_AXIS_UNROLL, SN_AXIS_VECTOR};
    uint32_t n = t->c->n;
    place e;
    for (uint32_t i = 0; i < n; i++) {
        combs[i] = sn_tile_comb(t, i), dtypes[i] = sn_tile_dtype(t, i);
        p->vectors[i] = sn_tile_buffer(t, "e", i, dtypes[i], SN_BUF_REG, t->threads * p->turns);
        sn_buf_get(m, p->vectors[i])->private_size = (uint32_t)p->turns;
    }
    sn_cursor at = at_end(p);
    for (uint32_t k = 0; k < 3; k++) {
        loops[k] = sn_put_reduce(m, at, axes[k], KINDS[k], combs, n, dtypes);
        at = sn_at_end(t->k, loops[k]);
    }
    sn_ix x = sn_ix_axis(m, axes[0]), u = sn_ix_axis(m, axes[1]), v = sn_ix_axis(m, axes[2]);
    find_place(p, &e, at, x, u, v);
    sn_stmt nest = sn_stmt_clone(m, at, t->c->nest);
    move_element(p, sn_at_before(m, nest), nest, &e, v, NULL, taken);
    sn_put_yield(m, at, taken, n);
    for (uint32_t k = 2; k-- > 0;) {
        at = sn_at_end(t->k, loops[k]);
        for (uint32_t i = 0; i < n; i++) {
            own[i] = sn_result(sn_stmt_get(m, loops[k + 1]), i);
            if (k == 1) sn_put_store(m, at, p->vectors[i], of_vector(p, x, u), own[i]);
        }
        sn_put_yield(m, at, own, n);
    }
    for (uint32_t i = 0; i < n; i++) own[i] = sn_result(sn_stmt_get(m, loops[0]), i);
}

/* What stands before each vector in its part; earlier[i]: before its warp. */
static void scan_vectors(warps *p, const sn_val *earlier) {
    sn_tiles *t = p->t;
    sn_module *m = t->m;
    sn_ix x, u;
    sn_cursor at = sn_tile_loop(t, at_end(p), "u", p->turns, SN_AXIS_UNROLL, &u);
    at = sn_tile_loop(t, at, "x", SN_WARP, SN_AXIS_BLOCK_X, &x);
    for (uint32_t i = 0; i < t->c->n; i++) {
        sn_val own = sn_put_load(m, at, p->vectors[i], of_vector(p, x, u));
        sn_ix position = sn_tile_plus(t, sn_tile_times(t, u, SN_WARP), x);
        own = sn_put_accum(m, at, sn_tile_comb(t, i), own, position, true);
        own = sn_tile_combine(t, at, i, earlier[i], own);
        sn_put_store(m, at, p->vectors[i], of_vector(p, x, u), own);
    }
}

/* ---- what stands before the part ---- */

static sn_val is_warp(warps *p, sn_cursor at, int64_t number) {
    sn_module *m = p->t->m;
    return sn_put_in(m, at, sn_ix_addc(m, p->w, -number), sn_ix_const(m, 1));
}

static sn_buf new_posted(warps *p, const char *letter, uint32_t i, int64_t n) {
    return sn_tile_buffer(p->t, letter, i, sn_tile_dtype(p->t, i), SN_BUF_POSTED, n * p->t->outer);
}

/* The threads ask for elements of `from`, which has `all` for each row: number first + (number of the thread), and those as many on as threads
 * are, `each` in all, where that is one of n. What those of each warp come to goes to shared memory. */
static sn_buf ask_posted(warps *p, const char *letter, uint32_t i, sn_buf from, int64_t all, sn_ix first, sn_ix n,
                         int64_t each) {
    sn_tiles *t = p->t;
    sn_module *m = t->m;
    sn_comb comb = sn_tile_comb(t, i);
    sn_dtype dtype = sn_tile_dtype(t, i);
    sn_axis x = sn_axis_new(m, "x", sn_tile_const(t, SN_WARP)), v = {0};
    sn_stmt reduce = sn_put_reduce(m, at_end(p), x, SN_AXIS_BLOCK_X, &comb, 1, &dtype), words = reduce;
    sn_ix thread = sn_tile_plus(t, sn_tile_times(t, p->w, SN_WARP), sn_ix_axis(m, x)),
          e = sn_tile_plus(t, first, thread);
    if (each > 1) {
        v = sn_axis_new(m, "v", sn_tile_const(t, each));
        words = sn_put_reduce(m, sn_at_end(t->k, reduce), v, SN_AXIS_VECTOR, &comb, 1, &dtype);
        e = sn_tile_plus(t, e, sn_tile_times(t, sn_ix_axis(m, v), t->threads));
    }
    sn_cursor in = sn_at_end(t->k, words);
    sn_val wanted = sn_put_in(m, in, e, n);
    e = sn_tile_plus(t, sn_tile_times(t, t->row, all), e);
    sn_val word = sn_put_load_masked(m, in, from, e, wanted, sn_tile_identity(t, in, i));
    sn_put_yield(m, in, &word, 1);
    if (each > 1) {
        word = sn_result(sn_stmt_get(m, words), 0);
        sn_put_yield(m, sn_at_end(t->k, reduce), &word, 1);
    }
    sn_buf sums = sn_tile_buffer(t, letter, i, dtype, SN_BUF_SHARED, WARPS);
    sn_put_store(m, at_end(p), sums, p->w, sn_result(sn_stmt_get(m, reduce), 0));
    return sums;
}

/* What warps first .. first + n-1 have found. */
static sn_val combine_warps(warps *p, uint32_t i, sn_buf sums, int64_t first, int64_t n) {
    sn_tiles *t = p->t;
    sn_module *m = t->m;
    sn_comb comb = sn_tile_comb(t, i);
    sn_dtype dtype = sn_tile_dtype(t, i);
    sn_axis q = sn_axis_new(m, "q", sn_tile_const(t, n));
    sn_stmt reduce = sn_put_reduce(m, at_end(p), q, SN_AXIS_UNROLL, &comb, 1, &dtype);
    sn_cursor in = sn_at_end(t->k, reduce);
    sn_val x = sn_put_load(m, in, sums, sn_ix_addc(m, sn_ix_axis(m, q), first));
    sn_put_yield(m, in, &x, 1);
    return sn_result(sn_stmt_get(m, reduce), 0);
}

/* The parts of the group before and of the own one, one by one, and the groups before those. */
static void ask(warps *p, uint32_t i) {
    sn_tiles *t = p->t;
    int64_t groups = t->parts / SN_CUT_GROUP;
    sn_ix before = sn_ix_addc(t->m, sn_ix_divc(t->m, t->part, SN_CUT_GROUP), -1);
    if (groups) p->groups[i] = new_posted(p, "g", i, groups);
    if (groups > 1)
        p->far[i] = ask_posted(p, "f", i, p->groups[i], groups, sn_tile_const(t, 0), before,
                               sn_ceil_div(groups - 1, t->threads));
    p->near[i] = ask_posted(p, "n", i, p->parts[i], t->parts, sn_tile_times(t, before, SN_CUT_GROUP), t->part, 1);
}

/* What all of them come to. The last part of a group posts what that comes to. */
static sn_val look_back(warps *p, uint32_t i) {
    sn_tiles *t = p->t;
    sn_module *m = t->m;
    int64_t groups = t->parts / SN_CUT_GROUP, half = WARPS / 2;
    sn_val own = combine_warps(p, i, p->near[i], half, half);
    if (!groups) return own;
    sn_cursor at = at_end(p);
    sn_ix rest = sn_ix_addc(m, sn_ix_modc(m, t->part, SN_CUT_GROUP), 1 - SN_CUT_GROUP);
    sn_val ends = sn_put_in(m, at, rest, sn_tile_const(t, 1)), first = is_warp(p, at, 0);
    ends = sn_tile_both(t, at, ends, first);
    sn_val all = sn_put_load(m, at, p->all[i], sn_tile_const(t, 0));
    all = sn_tile_combine(t, at, i, own, all);
    sn_ix group = sn_tile_plus(t, sn_tile_times(t, t->row, groups), sn_ix_divc(m, t->part, SN_CUT_GROUP));
    sn_put_store_masked(m, at, p->groups[i], group, all, ends);
    sn_val before = combine_warps(p, i, p->near[i], 0, half);
    own = sn_tile_combine(t, at, i, before, own);
    if (groups == 1) return own;
    before = combine_warps(p, i, p->far[i], 0, sn_least(sn_ceil_div(groups - 1, SN_WARP), WARPS));
    return sn_tile_combine(t, at, i, before, own);
}

static void add_parts(warps *p, const sn_val *own) {
    sn_tiles *t = p->t;
    sn_module *m = t->m;
    sn_val earlier[SN_CUT_ACCUMS];
    uint32_t n = t->c->n;
    for (uint32_t i = 0; i < n; i++) {
        earlier[i] = sn_put_accum(m, at_end(p), sn_tile_comb(t, i), own[i], p->w, true);
        sn_val all = sn_tile_combine(t, at_end(p), i, earlier[i], own[i]), last = is_warp(p, at_end(p), WARPS - 1);
        p->parts[i] = new_posted(p, "p", i, t->parts);
        sn_ix part = sn_tile_plus(t, sn_tile_times(t, t->row, t->parts), t->part);
        sn_put_store_masked(m, at_end(p), p->parts[i], part, all, last);
        if (t->parts < SN_CUT_GROUP) continue;
        p->all[i] = sn_tile_buffer(t, "a", i, sn_tile_dtype(t, i), SN_BUF_SHARED, 1);
        sn_put_store_masked(m, at_end(p), p->all[i], sn_tile_const(t, 0), all, last);
    }
    scan_vectors(p, earlier);
    for (uint32_t i = 0; i < n; i++) ask(p, i);
    open_warps(p);
    for (uint32_t i = 0; i < n; i++) p->start[i] = look_back(p, i);
}

/* ---- results ---- */

static void put_results(warps *p) {
    sn_tiles *t = p->t;
    sn_module *m = t->m;
    sn_ix x, u, v;
    sn_val start[SN_CUT_ACCUMS], taken[SN_CUT_ACCUMS];
    place e;
    sn_cursor at = sn_tile_loop(t, at_end(p), "u", p->turns, SN_AXIS_UNROLL, &u);
    at = sn_tile_loop(t, at, "x", SN_WARP, SN_AXIS_BLOCK_X, &x);
    for (uint32_t i = 0; i < t->c->n; i++) {
        start[i] = sn_put_load(m, at, p->vectors[i], of_vector(p, x, u));
        start[i] = sn_tile_combine(t, at, i, p->start[i], start[i]);
    }
    at = sn_tile_loop(t, at, "v", t->vector, SN_AXIS_VECTOR, &v);
    find_place(p, &e, at, x, u, t->reverse ? sn_ix_sub(m, sn_tile_const(t, t->vector - 1), v) : v);
    sn_stmt nest = t->c->nest;
    sn_stmt_insert(m, at, nest);
    move_element(p, sn_at_before(m, nest), nest, &e, v, start, taken);
}

void sn_tile_scan_by_warps(sn_tiles *t) {
    warps p = {.t = t};
    sn_val own[SN_CUT_ACCUMS];
    p.turns = t->steps / t->vector;
    p.share = p.turns * SN_WARP * t->vector;
    open_warps(&p);
    copy_in(&p);
    sum_up(&p, own);
    add_parts(&p, own);
    put_results(&p);
}
