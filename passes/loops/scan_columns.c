/* scan_columns.c: a scan over columns is cut into parts that one launch does (the pass `split-scan`, split_scan.c).
 *
 *     loop c in 100 { loop r in 1000 { load x[100*r + c]  %1 = accum sum %0 over r  store y[100*r + c], %1 } }
 *
 *  -> loop g in 4 * 4 : grid { loop x in 32 : block.x {                    part s = g div 4, column c = 32*(g mod 4) + x
 *       loop y in 8 : block.y {
 *         %0 = reduce sum u in 32 { load x[..]  store k_r0[..] }            what the piece of the thread has: it stays in registers
 *         store k_o0[..], %0 }
 *       %1 = reduce sum y in 8 : block.y { load k_o0[..] }                  what the part has
 *       store k_p0[100*s + c], %1
 *       %2 = reduce sum y in 8 : block.y { reduce sum q in 4 { load k_p0[..] if 8*q + y < s } }    the parts before
 *       loop y in 8 : block.y {
 *         %3 = accum sum k_o0[..] over y exclusive   %4 = add %2, %3
 *         loop u in 32 { load k_r0[..]  %5 = accum sum %6 over u  %7 = add %4, %5  store y[..], %7 } } } }
 *
 * The buffers of the parts are posted ones (docs/IR.md), whose loads wait. More than 32 parts have levels, as those of
 * rows do: the last part of each group of 32 posts what the group comes to, and parts of later groups take that in.
 * Blocks are numbered by parts first, so that all columns move together, and neighbours are loaded at the same time. A
 * warp has 32 neighbouring columns; where there are less, the lanes left over have pieces of their own, up to 32 of
 * them. A part asks for the elements of the blocks that begin next, where those are neighbours in memory (`prefetch`).
 *
 * Every element is read once and written once; three kernels read it twice. A column has a word for each part, which is
 * read by those of its group: 8 bytes for 256 elements, and 128 on average when they are read, from the L2 cache.
 *
 * The kernel is scheduled as it is made, like sorts are: no class has such nests. Legal where split-scan is; which sums
 * go together follows from numbers of parts, columns and pieces alone.
 */
#include "passes/base/rebuild.h"
#include "passes/loops/split_scan.h"
#include "passes/schedule/base/constants.h"
#include "passes/schedule/base/figures.h"

enum { MAX_LOADS = 8, GROUP = SN_CUT_COLUMN_GROUP };

/* A load of the scan, over the loops that were around it. */
typedef struct fetch {
    sn_buf buf;
    sn_ix ix;
    int64_t run;
    uint32_t n_batches;
} fetch;

typedef struct columns {
    sn_scan_cut *c;
    sn_module *m;
    sn_kern k;
    int64_t x, y, steps, tiles; /* threads of a block; elements of a thread; blocks of a part */
    sn_ix part, tile,
        column; /* numbers of the block's part, of the block in it, and of the thread's column, also beyond the last one */
    sn_stmt body;              /* the loop over x */
    sn_axis thread;            /* ... its axis */
    sn_val there;              /* is there such a column? none: always */
    sn_buf own[SN_CUT_ACCUMS]; /* what a thread's piece comes to */
    sn_buf kept[MAX_LOADS];    /* what load number i of the scan loaded; none: it loads again */
    fetch fetches[MAX_LOADS];
    uint32_t n_fetches;
} columns;

/* ---- the shape ---- */

static int64_t threads_x(const sn_scan_cut *c) {
    int64_t x = 1;
    while (x < SN_WARP && x < c->rows) x *= 2;
    return x;
}

static int64_t threads_y(const sn_scan_cut *c) { return sn_least(SN_CUT_COLUMN_THREADS / threads_x(c), GROUP); }

/* Does a load of the scan, whose axis that is, have an element for each position? */
static bool is_kept(const sn_module *m, const sn_stmt_rec *r, sn_axis ax) {
    return sn_loads(r) && !sn_ix_uses_vals(m, r->ix) && sn_ix_uses_axis(m, r->ix, ax);
}

/* Elements of a thread: as many as its registers hold of all loads. */
static int64_t steps_of(const sn_scan_cut *c) {
    int64_t bytes = 0, steps = SN_CUT_COLUMN_STEPS;
    for (sn_stmt s = sn_stmt_get(c->m, c->nest)->first; s.i; s = sn_next(c->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(c->m, s);
        if (is_kept(c->m, r, sn_stmt_axis(c->m, c->nest)))
            bytes += sn_dtype_bytes(r->dtype) > 4 ? sn_dtype_bytes(r->dtype) : 4;
    }
    while (steps > SN_CUT_COLUMN_LEAST && steps * bytes > SN_SCAN_LITTLE) steps /= 2;
    return steps;
}

int64_t sn_scan_columns_length(const sn_scan_cut *c) {
    const sn_sched *pinned = &sn_kern_get(c->m, c->k)->sched;
    int64_t length = threads_y(c) * steps_of(c), parts = sn_ceil_div(c->count, length);
    if (c->along || pinned->cls != SN_SCHED_NONE || pinned->split || parts > (int64_t)GROUP * GROUP * GROUP) return 0;
    return sn_mul_clamped(parts, c->rows) <= SN_CUT_COLUMN_WORDS && !sn_kern_has_products(c->m, c->k) ? length : 0;
}

/* ---- names and numbers ---- */

static sn_buf new_buffer(columns *co, const char *letter, uint32_t number, sn_dtype dtype, sn_buf_scope scope,
                         int64_t n) {
    sn_module *m = co->m;
    sn_ix size = sn_ix_const(m, n);
    const char *name = sn_strf(&m->arena, "%s_%s%u", sn_kern_get(m, co->k)->name, letter, number);
    return sn_buf_new(m, name, dtype, scope, &size, 1);
}

static sn_buf new_reg(columns *co, const char *letter, uint32_t number, sn_dtype dtype, int64_t private) {
    sn_buf b = new_buffer(co, letter, number, dtype, SN_BUF_REG, private * co->x * co->y);
    sn_buf_get(co->m, b)->private_size = (uint32_t)private;
    return b;
}

static sn_axis new_axis(columns *co, const char *name, int64_t extent) {
    return sn_axis_new(co->m, name, sn_ix_const(co->m, extent));
}

static sn_comb comb_of(const columns *co, uint32_t i) { return sn_stmt_get(co->m, co->c->accums[i])->combs[0]; }
static sn_dtype dtype_of(const columns *co, uint32_t i) { return sn_stmt_get(co->m, co->c->accums[i])->dtype; }

static sn_val combine(columns *co, sn_cursor at, uint32_t i, sn_val a, sn_val b) {
    return sn_put_op2(co->m, at, sn_comb_lops[comb_of(co, i)], a, b);
}

static sn_val both(columns *co, sn_cursor at, sn_val a, sn_val b) {
    return a.i && b.i ? sn_put_op2(co->m, at, SN_LOP_AND, a, b) : a.i ? a : b;
}

/* Place `step` of the thread in row y of a buffer of `private` elements each. */
static sn_ix place(columns *co, sn_axis y, int64_t private, sn_ix step) {
    sn_module *m = co->m;
    sn_ix thread = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, y), co->x), sn_ix_axis(m, co->thread));
    return sn_ix_add(m, sn_ix_scale(m, thread, private), step);
}

/* Step u of the thread in row y is that position of the column. */
static sn_ix position(columns *co, sn_axis y, sn_axis u) {
    sn_module *m = co->m;
    sn_ix e = sn_ix_add(m, sn_ix_scale(m, co->part, co->c->length), sn_ix_scale(m, sn_ix_axis(m, y), co->steps));
    return sn_ix_add(m, e, sn_ix_axis(m, u));
}

/* none: all positions are there. */
static sn_val is_position(columns *co, sn_cursor at, sn_ix e) {
    if (co->c->parts * co->c->length == co->c->count) return (sn_val){0};
    return sn_put_in(co->m, at, e, sn_ix_const(co->m, co->c->count));
}

/* Blocks that a multiprocessor has at a time. */
static int64_t blocks_of(const columns *co) {
    bool wide = false;
    for (uint32_t i = 0; i < co->c->n; i++) wide |= sn_dtype_bytes(dtype_of(co, i)) > 4;
    return (wide ? SN_CUT_COLUMN_WIDE : SN_CUT_COLUMN_RESIDENT) / (co->x * co->y);
}

/* ---- the loops around ---- */

/* The kernel becomes a loop over blocks and one over columns of each, with all that was around the scan. */
static void open_blocks(columns *co) {
    sn_module *m = co->m;
    const sn_chain *outer = &co->c->outer;
    sn_axis from[SN_MAX_CHAIN], g = new_axis(co, "g", co->c->parts * co->tiles);
    sn_ix to[SN_MAX_CHAIN], extents[SN_MAX_CHAIN];
    co->thread = new_axis(co, "x", co->x);
    co->part = sn_ix_divc(m, sn_ix_axis(m, g), co->tiles);
    co->tile = sn_ix_modc(m, sn_ix_axis(m, g), co->tiles);
    co->column = sn_ix_add(m, sn_ix_scale(m, co->tile, co->x), sn_ix_axis(m, co->thread));
    sn_stmt grid = sn_put_loop(m, sn_at_end(co->k, (sn_stmt){0}), g, SN_AXIS_GRID);
    co->body = sn_put_loop(m, sn_at_end(co->k, grid), co->thread, SN_AXIS_BLOCK_X);
    bool all = co->tiles * co->x == co->c->rows;
    for (uint32_t i = 0; i < outer->n; i++) {
        from[i] = sn_stmt_axis(m, outer->at[i]);
        extents[i] = sn_stmt_extent(m, outer->at[i]);
    }
    sn_ix last = sn_ix_const(m, co->c->rows - 1);
    sn_ix_unflatten(m, all ? co->column : sn_ix_min(m, co->column, last), extents, outer->n, to);
    for (sn_stmt s = sn_stmt_get(m, outer->at[outer->n - 1])->first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        sn_stmt_subst(m, s, from, to, outer->n);
        sn_stmt_insert(m, sn_at_end(co->k, co->body), s);
    }
    sn_stmt_unlink(m, outer->at[0]);
    if (!all) co->there = sn_put_in(m, sn_at_before(m, co->c->nest), co->column, sn_ix_const(m, co->c->rows));
}

/* ---- what a piece comes to ---- */

/* What a copy of the scan loads for each step stays in registers. */
static void keep_loads(columns *co, sn_stmt nest, sn_axis y, sn_axis u) {
    sn_module *m = co->m;
    uint32_t number = 0;
    int64_t bytes = 0;
    for (sn_stmt s = sn_stmt_get(m, nest)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!is_kept(m, r, sn_stmt_axis(m, nest)) || number == MAX_LOADS) continue;
        uint32_t i = number++;
        bytes += co->steps * sn_dtype_bytes(r->dtype);
        if (bytes > SN_SCAN_LITTLE) continue;
        co->kept[i] = new_reg(co, "r", i, r->dtype, co->steps);
        s = sn_put_store(m, sn_at_after(m, s), co->kept[i], place(co, y, co->steps, sn_ix_axis(m, u)), r->result);
    }
}

static void sum_pieces(columns *co) {
    sn_module *m = co->m;
    sn_axis y = new_axis(co, "y", co->y), u = new_axis(co, "u", co->steps);
    sn_stmt rows = sn_put_loop(m, sn_at_before(m, co->c->nest), y, SN_AXIS_BLOCK_Y);
    sn_stmt nest = sn_stmt_clone(m, sn_at_end(co->k, rows), co->c->nest);
    sn_axis copied = sn_stmt_axis(m, nest);
    sn_comb combs[SN_CUT_ACCUMS];
    sn_dtype dtypes[SN_CUT_ACCUMS];
    sn_val yields[SN_CUT_ACCUMS];
    uint32_t n = 0;
    for (sn_stmt s = sn_stmt_get(m, nest)->first; s.i; s = sn_next(m, s))
        if (sn_stmt_get(m, s)->op == SN_LOP_ACCUM) yields[n++] = sn_stmt_get(m, s)->in[0];
    for (uint32_t i = 0; i < n; i++) combs[i] = comb_of(co, i), dtypes[i] = dtype_of(co, i);
    sn_stmt reduce = sn_put_reduce(m, sn_at_before(m, nest), u, SN_AXIS_UNROLL, combs, n, dtypes);
    sn_ix e = position(co, y, u);
    sn_val inside = is_position(co, sn_at_end(co->k, reduce), e);
    keep_loads(co, nest, y, u);
    for (sn_stmt s = sn_stmt_get(m, nest)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        sn_stmt_unlink(m, s);
        if (r->op == SN_LOP_ACCUM || (sn_stores(r) && sn_buf_get(m, r->buf)->scope != SN_BUF_REG)) continue;
        sn_stmt_subst(m, s, &copied, &e, 1);
        sn_stmt_insert(m, sn_at_end(co->k, reduce), s);
    }
    sn_cursor end = sn_at_end(co->k, reduce);
    for (uint32_t i = 0; i < n && inside.i; i++) {
        sn_val none = sn_put_identity(m, end, combs[i], 0, dtypes[i]);
        yields[i] = sn_put_op3(m, end, SN_LOP_SELECT, inside, yields[i], none);
    }
    sn_put_yield(m, end, yields, n);
    sn_stmt_unlink(m, nest);
    if (inside.i) sn_mask_accesses(co->c->cx, co->k, reduce, inside, true);
    for (uint32_t i = 0; i < n; i++) {
        co->own[i] = new_reg(co, "o", i, dtypes[i], 1);
        sn_put_store(m, sn_at_end(co->k, rows), co->own[i], place(co, y, 1, sn_ix_const(m, 0)),
                     sn_result(sn_stmt_get(m, reduce), i));
    }
}

/* ---- what later blocks load ---- */

int64_t sn_scan_run(const sn_scan_cut *c, sn_ix e, uint32_t *batches) {
    int64_t run = 1, coef, step;
    if (sn_ix_uses_vals(c->m, e) || !sn_ix_coef(c->m, e, sn_stmt_axis(c->m, c->nest), &step) || step == 0) return 0;
    if (step < 0) step = -step;
    for (*batches = c->outer.n; run != step; run *= sn_ix_value(c->m, sn_stmt_extent(c->m, c->outer.at[*batches]))) {
        if (*batches == 0 || run > step) return 0;
        if (!sn_ix_coef(c->m, e, sn_stmt_axis(c->m, c->outer.at[--*batches]), &coef) || coef != run) return 0;
    }
    return run;
}

/* Before the loops around the scan are others. */
static void find_fetches(columns *co) {
    const sn_scan_cut *c = co->c;
    for (sn_stmt s = sn_stmt_get(co->m, c->nest)->first; s.i && co->n_fetches < MAX_LOADS; s = sn_next(co->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(co->m, s);
        fetch f = {.buf = r->buf, .ix = r->ix};
        if (!sn_loads(r) || !(f.run = sn_scan_run(c, r->ix, &f.n_batches))) continue;
        if (c->rows / f.run <= SN_CUT_COLUMN_FETCHES * co->tiles) co->fetches[co->n_fetches++] = f;
    }
}

/* A part is a run of neighbours for each of the batches: the blocks of the part that is so many on share them. */
static void fetch_runs(columns *co, sn_cursor at, const fetch *f, sn_ix part, sn_val wanted) {
    sn_module *m = co->m;
    const sn_scan_cut *c = co->c;
    sn_axis from[SN_MAX_CHAIN + 1];
    sn_ix to[SN_MAX_CHAIN + 1], extents[SN_MAX_CHAIN];
    int64_t step, batches = c->rows / f->run, shares = 1;
    if (batches < co->tiles) shares = co->tiles / batches;
    for (uint32_t i = 0; i < c->outer.n; i++) {
        from[i] = sn_stmt_axis(m, c->outer.at[i]);
        extents[i] = sn_stmt_extent(m, c->outer.at[i]);
        to[i] = sn_ix_const(m, 0);
    }
    from[c->outer.n] = sn_stmt_axis(m, c->nest);
    sn_ix_coef(m, f->ix, from[c->outer.n], &step);
    to[c->outer.n] = sn_ix_addc(m, sn_ix_scale(m, part, c->length), step < 0 ? c->length - 1 : 0);
    for (int64_t first = 0; first < batches * shares; first += co->tiles) {
        int64_t n = c->length * f->run / shares;
        sn_ix number = sn_ix_addc(m, co->tile, first), batch = sn_ix_divc(m, number, shares);
        sn_val there = both(co, at, wanted, sn_put_in(m, at, batch, sn_ix_const(m, batches)));
        sn_ix_unflatten(m, batch, extents, f->n_batches, to);
        sn_ix e = sn_ix_subst(m, f->ix, from, to, c->outer.n + 1);
        e = sn_ix_add(m, e, sn_ix_scale(m, sn_ix_modc(m, number, shares), n));
        sn_put_prefetch(m, at, f->buf, e, sn_ix_const(m, n), there);
    }
}

/* While the blocks of a part wait for each other, that which begins when they are done goes to the cache. */
static void fetch_ahead(columns *co, sn_cursor at) {
    sn_module *m = co->m;
    const sn_scan_cut *c = co->c;
    int64_t ahead = sn_ceil_div((blocks_of(co) + 1) * c->cx->target->units, co->tiles), whole = c->count / c->length;
    sn_ix part = sn_ix_addc(m, co->part, ahead);
    if (ahead >= whole || !co->n_fetches) return;
    sn_val wanted = sn_put_in(m, at, part, sn_ix_const(m, whole));
    wanted = both(co, at, wanted, sn_put_in(m, at, sn_ix_axis(m, co->thread), sn_ix_const(m, 1)));
    for (uint32_t i = 0; i < co->n_fetches; i++) fetch_runs(co, at, &co->fetches[i], part, wanted);
}

/* ---- what stands before the part ---- */

/* out[i]: what the pieces of the part come to. */
static void sum_part(columns *co, sn_cursor at, sn_val *out) {
    sn_module *m = co->m;
    for (uint32_t i = 0; i < co->c->n; i++) {
        sn_axis y = new_axis(co, "y", co->y);
        sn_comb comb = comb_of(co, i);
        sn_dtype dtype = dtype_of(co, i);
        sn_stmt reduce = sn_put_reduce(m, at, y, SN_AXIS_BLOCK_Y, &comb, 1, &dtype);
        sn_cursor in = sn_at_end(co->k, reduce);
        sn_val x = sn_put_load(m, in, co->own[i], place(co, y, 1, sn_ix_const(m, 0)));
        sn_put_yield(m, in, &x, 1);
        out[i] = sn_result(sn_stmt_get(m, reduce), 0);
    }
}

/* The elements first .. first + n-1 of the thread's column in `posted`, combined: each row of threads asks for its share at once. */
static sn_val combine_posted(columns *co, sn_cursor at, uint32_t i, sn_buf posted, sn_ix first, sn_ix n) {
    sn_module *m = co->m;
    sn_axis y = new_axis(co, "y", co->y), q = new_axis(co, "q", GROUP / co->y);
    sn_comb comb = comb_of(co, i);
    sn_dtype dtype = dtype_of(co, i);
    sn_stmt rows = sn_put_reduce(m, at, y, SN_AXIS_BLOCK_Y, &comb, 1, &dtype), turns = {0};
    sn_cursor in = sn_at_end(co->k, rows);
    sn_ix number = sn_ix_axis(m, y);
    if (co->y < GROUP) {
        turns = sn_put_reduce(m, in, q, SN_AXIS_VECTOR, &comb, 1, &dtype);
        in = sn_at_end(co->k, turns);
        number = sn_ix_add(m, number, sn_ix_scale(m, sn_ix_axis(m, q), co->y));
    }
    sn_ix e = sn_ix_add(m, sn_ix_scale(m, sn_ix_add(m, first, number), co->c->rows), co->column);
    sn_val wanted = both(co, in, sn_put_in(m, in, number, n), co->there);
    sn_val x = sn_put_load_masked(m, in, posted, e, wanted, sn_put_identity(m, in, comb, 0, dtype));
    sn_put_yield(m, in, &x, 1);
    if (turns.i) x = sn_result(sn_stmt_get(m, turns), 0), sn_put_yield(m, sn_at_end(co->k, rows), &x, 1);
    return sn_result(sn_stmt_get(m, rows), 0);
}

/* out: what stands before the part in prefix i, which itself comes to `all`. */
static sn_val sum_before(columns *co, sn_cursor at, uint32_t i, sn_val all) {
    static const char *const LETTERS[] = {"p", "g", "h"};
    sn_module *m = co->m;
    sn_val out = {0}, posts = co->there;
    sn_ix number = co->part; /* of the part, of its group, of the group of that */
    int64_t n = co->c->parts;
    for (uint32_t which = 0;; which++) {
        SN_ASSERT(which < SN_COUNT(LETTERS));
        sn_buf posted = new_buffer(co, LETTERS[which], i, dtype_of(co, i), SN_BUF_POSTED, n * co->c->rows);
        sn_ix e = sn_ix_add(m, sn_ix_scale(m, number, co->c->rows), co->column), first = sn_ix_const(m, 0);
        if (posts.i) sn_put_store_masked(m, at, posted, e, all, posts);
        else sn_put_store(m, at, posted, e, all);
        bool more = n > GROUP;
        if (more) first = sn_ix_scale(m, sn_ix_divc(m, number, GROUP), GROUP);
        sn_val before = combine_posted(co, at, i, posted, first, sn_ix_sub(m, number, first));
        out = which ? combine(co, at, i, before, out) : before;
        if (!more) return out;
        all = combine(co, at, i, before, all);
        sn_ix rest = sn_ix_addc(m, sn_ix_modc(m, number, GROUP), 1 - GROUP);
        posts = both(co, at, sn_put_in(m, at, rest, sn_ix_const(m, 1)), posts);
        number = sn_ix_divc(m, number, GROUP);
        n /= GROUP;
    }
}

/* ---- the scan itself ---- */

/* What the first copy has kept is taken from there. */
static void take_kept(columns *co, sn_stmt nest, sn_axis y, sn_axis u) {
    sn_module *m = co->m;
    uint32_t number = 0;
    for (sn_stmt s = sn_stmt_get(m, nest)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!is_kept(m, r, sn_stmt_axis(m, nest)) || number == MAX_LOADS) continue;
        sn_buf b = co->kept[number++];
        if (!b.i) continue;
        sn_val x = sn_put_load(m, sn_at_before(m, s), b, place(co, y, co->steps, sn_ix_axis(m, u)));
        sn_val_replace(m, co->k, r->result, x);
        sn_stmt_unlink(m, s);
    }
}

static void scan_pieces(columns *co, const sn_val *before) {
    sn_module *m = co->m;
    sn_scan_cut *c = co->c;
    sn_axis y = new_axis(co, "y", co->y), u = new_axis(co, "u", co->steps), old = sn_stmt_axis(m, c->nest);
    sn_stmt rows = sn_put_loop(m, sn_at_before(m, c->nest), y, SN_AXIS_BLOCK_Y);
    sn_val start[SN_CUT_ACCUMS];
    for (uint32_t i = 0; i < c->n; i++) {
        sn_cursor in = sn_at_end(co->k, rows);
        sn_val x = sn_put_load(m, in, co->own[i], place(co, y, 1, sn_ix_const(m, 0)));
        x = sn_put_accum(m, in, comb_of(co, i), x, sn_ix_axis(m, y), true);
        start[i] = combine(co, in, i, before[i], x);
    }
    sn_stmt steps = sn_put_loop(m, sn_at_end(co->k, rows), u, SN_AXIS_UNROLL);
    sn_ix e = position(co, y, u);
    sn_cursor in = sn_at_end(co->k, steps);
    sn_val mask = both(co, in, is_position(co, in, e), co->there);
    take_kept(co, c->nest, y, u);
    for (sn_stmt s = sn_stmt_get(m, c->nest)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        sn_stmt_subst(m, s, &old, &e, 1);
        if (sn_stmt_get(m, s)->op == SN_LOP_ACCUM) sn_stmt_get(m, s)->ix = sn_ix_axis(m, u);
        sn_stmt_insert(m, sn_at_end(co->k, steps), s);
    }
    sn_stmt_unlink(m, c->nest);
    for (uint32_t i = 0; i < c->n; i++) {
        const sn_stmt_rec *r = sn_stmt_get(m, c->accums[i]);
        sn_val whole = combine(co, sn_at_after(m, c->accums[i]), i, start[i], r->result);
        sn_val_replace(m, co->k, r->result, whole);
        sn_stmt_get(m, sn_val_get(m, whole)->def)->in[1] = r->result;
    }
    if (mask.i) sn_mask_accesses(c->cx, co->k, steps, mask, true);
}

void sn_scan_columns(sn_scan_cut *c) {
    sn_module *m = c->m;
    columns co = {.c = c, .m = m, .k = c->k, .x = threads_x(c), .y = threads_y(c), .steps = steps_of(c)};
    sn_val before[SN_CUT_ACCUMS], all[SN_CUT_ACCUMS];
    co.tiles = sn_ceil_div(c->rows, co.x);
    find_fetches(&co);
    open_blocks(&co);
    sum_pieces(&co);
    sn_cursor at = sn_at_before(m, c->nest);
    sum_part(&co, at, all);
    fetch_ahead(&co, at);
    for (uint32_t i = 0; i < c->n; i++) before[i] = sum_before(&co, at, i, all[i]);
    scan_pieces(&co, before);
    sn_kern_dead_code(m, c->k);
    sn_kern_collect_params(m, c->k);
    sn_kern_rec *k = sn_kern_get(m, c->k);
    k->sched.block_x = (uint32_t)co.x;
    k->sched.block_y = (uint32_t)co.y;
    k->sched.min_blocks = (uint32_t)blocks_of(&co);
    k->scheduled = true;
}
