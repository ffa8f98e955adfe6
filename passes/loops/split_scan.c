/* split_scan.c: the pass `split-scan`: a long scan of few rows is cut into parts that run side by side.
 *
 *     k0: loop j in 1048576 { load x[j]  %1 = accum sum %0 over j  store y[j], %1 }
 *
 * Along a row, with parts that stay in registers, one kernel does it, which reads and writes every element once. A part
 * is shared by eight warps, each of which has a piece of it and scans that by shuffles alone; what they come to passes
 * from warp to warp by a prefix over them, and from block to block through posted buffers (docs/IR.md), loads of which
 * wait:
 *
 *     k0: loop s in 128 { loop w in 8 {
 *           %0 = reduce sum r in 1024 { load x[8192*s + 1024*w + r] }         what the warp has
 *           %1 = accum sum %0 over w exclusive                                what the warps before it have
 *           %2 = add %1, %0    store k0_p0[s], %2 if w = 7
 *           %3 = reduce sum q in 128 { load k0_p0[q] if q < s and w = 0 else 0 }
 *           %4 = accum sum %3 over w                                          the first warp tells the others
 *           %5 = add %4, %1
 *           loop r in 1024 { load x[8192*s + 1024*w + r]  %6 = accum sum %5 over r  %7 = add %5, %6
 *                            store y[8192*s + 1024*w + r], %7 } } }
 *
 * More than 128 parts have levels: the last part of each group of 128 posts what the group comes to, in k0_g0, and the
 * first warp of a part of a later group takes that in too (three levels from 16384 parts on). It asks for 128 words a
 * level at most, 8 bytes each beside the 64 KB that the block moves, four a thread and all at once; the others wait at
 * a barrier and ask for nothing. A part waits for the slowest one before it, and one right behind a group for that
 * group's word besides.
 *
 * The same bits come out in every run: all sums are of elements, warps, parts and groups whose numbers alone say what
 * goes together and in which order; which of them came first has no say, and nobody takes what another block has put
 * together from sums that happened to be there.
 *
 * Rows whose length vectors do not divide begin inside of one: their parts are cut where vectors begin, the first part of
 * a row has some elements less.
 *
 * The loads of a short part that begins later go to the L2 cache by a `prefetch`, while the blocks of now wait for each
 * other.
 *
 * Where the elements of a step are neighbours (columns), one kernel does it, too, of another form: scan_columns.c.
 *
 * Before all that, scans of what lies in memory without gaps are done tile by tile in shared memory, where that is faster:
 * scan_tiles.c.
 *
 * Three kernels do it where parts are longer, where there are more sums than should stay from run to run, or where the header says how many parts:
 *
 *     k0_part:   loop s in 128 { %0 = reduce sum r in 8192 { load x[8192*s + r] }  store k0_p0[s], %0 }
 *     k0_before: loop s in 128 { load k0_p0[s]  %1 = accum sum %0 over s exclusive  store k0_q0[s], %1 }
 *     k0:        loop s in 128 { %0 = load k0_q0[s]  loop r in 8192 { load x[8192*s + r]  %2 = accum sum %1 over r
 *                                %3 = add %0, %2  store y[8192*s + r], %3 } }
 *
 * That reads the operand twice, which pays where the scan would leave most of the device idle. Columns that keep memory
 * busy as they are stay whole: a thread has one, and waits for the loads of many steps together.
 *
 * Legal for kernels of one scan whose prefixes do not go into each other; sums are put together in another order, but a
 * fixed one. After `fuse`, so that whatever stands around the scan stays around it. Only on a GPU. Cost: linear in the
 * kernel.
 */
#include "passes/base/rebuild.h"
#include "passes/loops/split_scan.h"
#include "passes/schedule/base/constants.h"
#include "passes/schedule/base/figures.h"

enum { MAX_ACCUMS = SN_CUT_ACCUMS, MAX_LEVELS = 3, WARPS = SN_CUT_WARPS };

typedef sn_scan_cut scan_cut;

/* ---- is it legal? ---- */

/* The one nest of the body; none when there is more in it than values. */
static sn_stmt only_nest(const sn_module *m, sn_kern k, sn_stmt body) {
    sn_stmt nest = {0};
    for (sn_stmt s = sn_region_first(m, k, body); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_stores(r)) return (sn_stmt){0};
        if (!sn_lop_has_region(r->op)) continue;
        if (nest.i || r->op != SN_LOP_LOOP) return (sn_stmt){0};
        nest = s;
    }
    return nest;
}

/* Does v follow from a prefix of the nest? no: values that are known not to. */
static bool follows_prefix(const scan_cut *c, sn_val v, sn_notes *no) {
    sn_stmt def = sn_val_get(c->m, v)->def;
    const sn_stmt_rec *r = sn_stmt_get(c->m, def);
    if (!sn_stmt_inside(c->m, def, c->nest) || !sn_notes_add(no, v.i)) return false;
    if (r->op == SN_LOP_ACCUM || (r->ix.i && sn_ix_uses_vals(c->m, r->ix))) return true;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (follows_prefix(c, r->in[i], no)) return true;
    return false;
}

static bool find_accums(scan_cut *c) {
    sn_module *m = c->m;
    sn_notes no = {.arena = c->cx->scratch};
    sn_ix position = sn_ix_axis(m, sn_stmt_axis(m, c->nest));
    for (sn_stmt s = sn_stmt_get(m, c->nest)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_loads(r) && sn_kern_stores(m, c->k, r->buf)) return false;
        if (r->op != SN_LOP_ACCUM) continue;
        if (c->n == MAX_ACCUMS || !sn_ix_eq(r->ix, position) || follows_prefix(c, r->in[0], &no)) return false;
        c->accums[c->n++] = s;
    }
    return c->n > 0;
}

/* ---- is it worth it? ---- */

/* How many elements before the start of a row the vector begins that holds it: an ix over the outer loops that all
 * accesses along the row agree on. None: they do not. */
static sn_ix lead_of(const scan_cut *c, uint32_t vector) {
    sn_module *m = c->m;
    sn_axis ax = sn_stmt_axis(m, c->nest);
    sn_ix lead = {0}, a;
    for (sn_stmt s = sn_stmt_get(m, c->nest)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_is_access(r) || !sn_ix_uses_axis(m, r->ix, ax)) continue;
        if (sn_ix_uses_vals(m, r->ix) || !sn_access_lead(&a, m, r->ix, ax, vector)) return (sn_ix){0};
        if (lead.i && !sn_ix_eq(lead, a)) return (sn_ix){0};
        lead = a;
    }
    return lead;
}

/* Vectors that rows of any length begin and end inside of, as far as all accesses agree where (a single row, too, that is
 * walked from its end); else those that no row begins inside of. The end of the last row may cut one: that one is tested. */
static void find_vector(scan_cut *c) {
    c->vector = c->bytes ? sn_least(c->cx->target->vector_bytes / c->bytes, SN_CUT_LANES) : 1;
    int64_t none;
    if (!c->along || c->vector == 1) return;
    c->lead = lead_of(c, c->vector);
    while (!c->lead.i && c->rows > 1 && c->count % c->vector) c->vector /= 2;
    if (c->lead.i && sn_ix_is_const(c->m, c->lead, &none) && none == 0) c->lead = (sn_ix){0};
}

/* The longest part that stays in registers, of four blocks on a multiprocessor: halves and bytes are widened to be summed
 * up, and sums wider than what they add take two. */
static int64_t longest_part(const scan_cut *c) {
    int64_t length = (int64_t)SN_CUT_STEP * c->vector;
    bool wide = false;
    for (uint32_t i = 0; i < c->n; i++) wide |= sn_dtype_bytes(sn_stmt_get(c->m, c->accums[i])->dtype) > 4;
    if (wide && c->bytes <= 4) length /= 2;
    return c->bytes < 4 ? length / 2 : length;
}

static int64_t parts_of(const scan_cut *c, int64_t length) {
    int64_t lead = c->lead.i ? c->vector - 1 : 0;
    return (c->count + lead + length - 1) / length;
}

static bool fits_one_launch(const scan_cut *c, int64_t length) {
    const sn_sched *pinned = &sn_kern_get(c->m, c->k)->sched;
    if (!c->along || length > longest_part(c) || parts_of(c, length) > SN_CUT_POSTED) return false;
    if (pinned->block_x > 1 && pinned->block_x != SN_WARP) return false;
    if (pinned->block_y > 1 && pinned->block_y != WARPS) return false;
    return (pinned->cls == SN_SCHED_NONE || pinned->cls == SN_SCHED_INNER) && pinned->vector <= c->vector;
}

/* Do columns that nobody cuts keep memory busy? A thread has one; it waits for the loads of so many steps together
 * (steps_of_scan, schedule/moves/element.c) and takes them in one after the other. Cut, the columns are read twice: what takes
 * a quarter longer than memory does is still the faster one. */
bool sn_scan_columns_suffice(const scan_cut *c) {
    const sn_target *t = c->cx->target;
    int64_t bytes = c->column_bytes, together = sn_ceil_div(c->rows, t->units) * bytes;
    if (!bytes) return false;
    int64_t steps = sn_least(SN_SCAN_MOST_STEPS, SN_SCAN_AHEAD / c->column_bytes);
    if (steps * together > t->flight_bytes) steps = sn_ceil_div(t->flight_bytes, together);
    double step = (double)SN_CUT_LATENCY / (double)steps + SN_CUT_CHAIN, memory = 2 * (double)together / t->cycle_bytes;
    return step <= SN_CUT_SLOWER / 100.0 * memory;
}

static int64_t choose_length(const scan_cut *c) {
    int64_t units = c->cx->target->units, length;
    if (c->along) {
        if (c->rows >= 2 * units || c->count < SN_CUT_LENGTH) return c->count;
        for (length = longest_part(c); length > SN_CUT_PART && c->rows * (c->count / length) < SN_CUT_BLOCKS * units;)
            length /= 2;
        if (fits_one_launch(c, length)) return length;
        while (c->rows * (c->count / length) > SN_CUT_PARTS) length *= 2;
        return length;
    }
    if (c->rows >= units * SN_CUT_RESIDENT / 2 || c->count < SN_CUT_COLUMN || sn_scan_columns_suffice(c))
        return c->count;
    if ((length = sn_scan_columns_length(c))) return length;
    for (length = SN_CUT_COLUMN_PART; c->rows * (c->count / length) > SN_CUT_VECTOR * units * SN_CUT_RESIDENT;)
        length *= 2;
    return length;
}

static bool walks_along(scan_cut *c) {
    int64_t inner = sn_nest_bytes_along(c->m, c->nest, sn_stmt_axis(c->m, c->nest), &c->bytes);
    if (!c->outer.n) return true;
    return inner >=
           sn_nest_bytes_along(c->m, c->nest, sn_stmt_axis(c->m, c->outer.at[c->outer.n - 1]), &c->column_bytes);
}

/* Parts of three kernels begin with their rows. */
static void give_up_lead(scan_cut *c) {
    c->lead = (sn_ix){0};
    while (c->count % c->vector) c->vector /= 2;
}

/* Is it a scan that may be cut? */
static bool look(scan_cut *c) {
    sn_module *m = c->m;
    sn_chain nest;
    sn_chain_outer(&c->outer, m, c->k);
    c->nest = only_nest(m, c->k, c->outer.n ? c->outer.at[c->outer.n - 1] : (sn_stmt){0});
    if (!c->nest.i || c->outer.n + 3 > SN_MAX_CHAIN || !sn_nest_perfect(&nest, m, c->nest) || nest.n != 1) return false;
    c->rows = sn_chain_count(m, &c->outer);
    c->count = sn_chain_count(m, &nest);
    if (c->rows <= 0 || c->count <= 0 || c->count == INT64_MAX || !find_accums(c)) return false;
    c->along = walks_along(c);
    return true;
}

static bool is_worth_it(scan_cut *c) {
    find_vector(c);
    uint32_t pinned = sn_kern_get(c->m, c->k)->sched.split;
    c->length = pinned ? (c->count + pinned - 1) / pinned : choose_length(c);
    if (c->length >= c->count) return false;
    c->one_launch = fits_one_launch(c, c->length) || c->length == sn_scan_columns_length(c);
    if (!c->one_launch && c->lead.i) give_up_lead(c);
    c->share = !c->along ? c->length : c->one_launch ? (c->length + WARPS - 1) / WARPS : c->length;
    if (c->along && c->one_launch) c->length = WARPS * c->share;
    c->parts = parts_of(c, c->length);
    return c->parts > 1;
}

/* ---- the cut ---- */

/* Vectors in which another row would begin are narrowed for all parts. */
static void pin_vector(const scan_cut *c, sn_kern k) {
    if (!c->along || !c->bytes) return;
    uint32_t vector = c->vector;
    if (vector == c->cx->target->vector_bytes / c->bytes) return;
    while (c->share % vector) vector /= 2;
    if (!sn_kern_get(c->m, k)->sched.vector) sn_kern_get(c->m, k)->sched.vector = vector;
}

/* Everything in the region (none: the kernel) goes into a new loop. */
static sn_stmt wrap(scan_cut *c, sn_stmt region, const char *name, int64_t extent, sn_axis *out) {
    sn_module *m = c->m;
    sn_stmt first = sn_region_first(m, c->k, region);
    *out = sn_axis_new(m, name, sn_ix_const(m, extent));
    sn_stmt top = sn_put_loop(m, sn_at_end(c->k, region), *out, SN_AXIS_SEQ);
    for (sn_stmt t = first, next; t.i != top.i; t = next) {
        next = sn_next(m, t);
        sn_stmt_unlink(m, t);
        sn_stmt_insert(m, sn_at_end(c->k, top), t);
    }
    return top;
}

static sn_buf new_buffer(scan_cut *c, const char *letter, uint32_t number, int64_t n, sn_buf_scope scope) {
    sn_module *m = c->m;
    sn_ix parts = sn_ix_const(m, n), rows = sn_ix_const(m, c->rows);
    sn_ix shape[2] = {c->along ? rows : parts, c->along ? parts : rows};
    const char *name = sn_strf(&m->arena, "%s_%s%u", sn_kern_get(m, c->k)->name, letter, number);
    return sn_buf_new(m, name, sn_stmt_get(m, c->accums[number])->dtype, scope, shape, 2);
}

static sn_ix place_of(scan_cut *c, sn_ix row, sn_ix part) {
    sn_module *m = c->m;
    if (c->along) return sn_ix_add(m, sn_ix_scale(m, row, c->parts), part);
    return sn_ix_add(m, sn_ix_scale(m, part, c->rows), row);
}

/* The place of the current row and part: `outer` is the loop over the parts and those of the rows. */
static sn_ix place(scan_cut *c, const sn_chain *outer) {
    sn_ix index[SN_MAX_CHAIN], extents[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < outer->n; k++) {
        index[k] = sn_ix_axis(c->m, sn_stmt_axis(c->m, outer->at[k]));
        extents[k] = sn_stmt_extent(c->m, outer->at[k]);
    }
    return place_of(c, sn_ix_flatten(c->m, index + 1, extents + 1, outer->n - 1), index[0]);
}

/* The first position of the part, of the warp's piece of it. */
static sn_ix base_of(scan_cut *c, const sn_chain *outer) {
    sn_module *m = c->m;
    sn_ix base = sn_ix_scale(m, sn_ix_axis(m, sn_stmt_axis(m, outer->at[0])), c->length);
    if (c->warp.i) base = sn_ix_add(m, base, sn_ix_scale(m, sn_ix_axis(m, c->warp), c->share));
    return c->lead.i ? sn_ix_sub(m, base, c->lead) : base;
}

/* The scan becomes a reduction of what went into its prefixes, over this part of the row. */
static sn_stmt reduce_instead(scan_cut *c, sn_kern part, const sn_chain *outer, sn_stmt nest) {
    sn_module *m = c->m;
    sn_comb combs[MAX_ACCUMS];
    sn_dtype dtypes[MAX_ACCUMS];
    sn_val yields[MAX_ACCUMS];
    uint32_t n = 0;
    for (sn_stmt s = sn_stmt_get(m, nest)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_ACCUM) continue;
        combs[n] = r->combs[0], dtypes[n] = r->dtype, yields[n++] = r->in[0];
    }
    sn_axis old = sn_stmt_axis(m, nest), ax = sn_axis_new(m, "r", sn_axis_get(m, old)->extent);
    sn_ix to = sn_ix_axis(m, ax);
    sn_stmt reduce = sn_put_reduce(m, sn_at_before(m, nest), ax, SN_AXIS_SEQ, combs, n, dtypes);
    for (sn_stmt s = sn_stmt_get(m, nest)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        if (sn_stores(sn_stmt_get(m, s))) continue;
        sn_stmt_subst(m, s, &old, &to, 1);
        sn_stmt_insert(m, sn_at_end(part, reduce), s);
    }
    sn_put_yield(m, sn_at_end(part, reduce), yields, n);
    sn_stmt_unlink(m, nest); /* the accums, used by nobody now, go with the dead code */
    sn_chain chain = {.n = 1, .at = {reduce}};
    sn_level level = {"r", c->share, 1, SN_AXIS_SEQ};
    return sn_nest_rebuild(c->cx, part, reduce, &chain, base_of(c, outer), c->count, &level, 1);
}

/* The scan becomes that of this part, begun with what stands before it. */
static void scan_part(scan_cut *c, const sn_chain *outer, const sn_val *start) {
    sn_module *m = c->m;
    sn_chain chain = {.n = 1, .at = {c->nest}};
    sn_level level = {"r", c->share, 1, SN_AXIS_SEQ};
    sn_nest_rebuild(c->cx, c->k, c->nest, &chain, base_of(c, outer), c->count, &level, 1);
    for (uint32_t i = 0; i < c->n; i++) {
        const sn_stmt_rec *r = sn_stmt_get(m, c->accums[i]);
        sn_val whole = sn_put_op2(m, sn_at_after(m, c->accums[i]), sn_comb_lops[r->combs[0]], start[i], r->result);
        sn_val_replace(m, c->k, r->result, whole);
        sn_stmt_get(m, sn_val_get(m, whole)->def)->in[1] = r->result;
    }
    if (sn_kern_get(m, c->k)->sched.split) sn_kern_get(m, c->k)->sched.split = 1; /* done */
    sn_kern_collect_params(m, c->k);
    pin_vector(c, c->k);
}

/* ---- one kernel ---- */

static sn_val combine(scan_cut *c, sn_cursor at, uint32_t i, sn_val a, sn_val b) {
    return sn_put_op2(c->m, at, sn_comb_lops[sn_stmt_get(c->m, c->accums[i])->combs[0]], a, b);
}

/* out[i]: what the warps up to this one have in from[i]; exclusive: up to the one before. */
static void over_warps(scan_cut *c, sn_cursor at, const sn_val *from, bool exclusive, sn_val *out) {
    sn_ix w = sn_ix_axis(c->m, c->warp);
    for (uint32_t i = 0; i < c->n; i++)
        out[i] = sn_put_accum(c->m, at, sn_stmt_get(c->m, c->accums[i])->combs[0], from[i], w, exclusive);
}

static sn_val is_warp(scan_cut *c, sn_cursor at, int64_t number) {
    sn_module *m = c->m;
    return sn_put_in(m, at, sn_ix_addc(m, sn_ix_axis(m, c->warp), -number), sn_ix_const(m, 1));
}

/* out[i]: elements first .. first + n-1 of from[i] combined, n below `most`, where `wanted`; else the identity. */
static void combine_posted(scan_cut *c, sn_cursor at, const sn_buf *from, sn_ix first, sn_ix n, int64_t most,
                           sn_val wanted, sn_val *out) {
    sn_module *m = c->m;
    sn_comb combs[MAX_ACCUMS];
    sn_dtype dtypes[MAX_ACCUMS];
    for (uint32_t i = 0; i < c->n; i++) {
        combs[i] = sn_stmt_get(m, c->accums[i])->combs[0];
        dtypes[i] = sn_stmt_get(m, c->accums[i])->dtype;
    }
    sn_axis q = sn_axis_new(m, "q", sn_ix_const(m, most));
    sn_stmt reduce = sn_put_reduce(m, at, q, SN_AXIS_SEQ, combs, c->n, dtypes);
    sn_stmt_get(m, reduce)->from = sn_stmt_get(m, c->accums[0])->from;
    sn_cursor in = sn_at_end(at.kern, reduce);
    sn_ix number = sn_ix_axis(m, q), e = sn_ix_add(m, first, number);
    sn_val earlier = sn_put_op2(m, in, SN_LOP_AND, sn_put_in(m, in, number, n), wanted);
    for (uint32_t i = 0; i < c->n; i++) {
        sn_val none = sn_put_identity(m, in, combs[i], 0, dtypes[i]);
        out[i] = sn_put_load_masked(m, in, from[i], e, earlier, none);
    }
    sn_put_yield(m, in, out, c->n);
    for (uint32_t i = 0; i < c->n; i++) out[i] = sn_result(sn_stmt_get(m, reduce), i);
}

/* A level has the sums of parts (level 0), of whole groups of parts (1), of groups of those (2). */
typedef struct level {
    int64_t n, most; /* sums of a row; of a group of them */
    sn_ix number;    /* how many are before this part, or the group that it is in */
    sn_ix row;       /* where those of the row begin */
} level;

static level level_of(scan_cut *c, const sn_chain *outer, uint32_t which) {
    sn_module *m = c->m;
    sn_ix s = sn_ix_axis(m, c->part), row = sn_ix_divc(m, sn_ix_sub(m, place(c, outer), s), c->parts);
    level l = {.n = c->parts, .number = s};
    for (uint32_t k = 0; k < which; k++) l.n /= SN_CUT_GROUP, l.number = sn_ix_divc(m, l.number, SN_CUT_GROUP);
    l.most = SN_WARP; /* threads have as many each */
    while (l.most < l.n && l.most < SN_CUT_GROUP) l.most *= 2;
    l.row = sn_ix_scale(m, row, l.n);
    return l;
}

/* Is this the last part of a group of that level? */
static sn_val ends_group(scan_cut *c, sn_cursor at, uint32_t which) {
    sn_module *m = c->m;
    int64_t group = SN_CUT_GROUP;
    for (uint32_t k = 0; k < which; k++) group *= SN_CUT_GROUP;
    sn_ix number = sn_ix_modc(m, sn_ix_axis(m, c->part), group);
    return sn_put_in(m, at, sn_ix_addc(m, number, 1 - group), sn_ix_const(m, 1));
}

/* all[i] becomes an element of posted[i], a buffer for that level, where `mask` holds. */
static void post(scan_cut *c, sn_cursor at, const level *l, uint32_t which, const sn_val *all, sn_val mask,
                 sn_buf *posted) {
    static const char *const LETTERS[MAX_LEVELS] = {"p", "g", "h"};
    sn_module *m = c->m;
    sn_ix shape[2] = {sn_ix_const(m, c->rows), sn_ix_const(m, l->n)};
    for (uint32_t i = 0; i < c->n; i++) {
        const char *name = sn_strf(&m->arena, "%s_%s%u", sn_kern_get(m, c->k)->name, LETTERS[which], i);
        posted[i] = sn_buf_new(m, name, sn_stmt_get(m, c->accums[i])->dtype, SN_BUF_POSTED, shape, 2);
        sn_put_store_masked(m, at, posted[i], sn_ix_add(m, l->row, l->number), all[i], mask);
    }
}

/* out[i]: what stands before this part in prefix i, in the first warp, where all[i] is what the part itself comes to, in
 * the last one. That one asks for what its group comes to as well, where it has to post that. */
static void combine_levels(scan_cut *c, sn_cursor at, const sn_chain *outer, sn_val *all, sn_val *out) {
    sn_module *m = c->m;
    sn_val first = is_warp(c, at, 0), last = is_warp(c, at, WARPS - 1), posts = last, before[MAX_ACCUMS];
    sn_buf posted[MAX_ACCUMS];
    bool more = true;
    for (uint32_t which = 0; more; which++) {
        level l = level_of(c, outer, which);
        sn_ix group = sn_ix_const(m, 0); /* of the highest level all are asked for */
        sn_val wanted = first;
        post(c, at, &l, which, all, posts, posted);
        more = l.n > SN_CUT_GROUP;
        if (more) {
            group = sn_ix_scale(m, sn_ix_divc(m, l.number, SN_CUT_GROUP), SN_CUT_GROUP);
            posts = sn_put_op2(m, at, SN_LOP_AND, last, ends_group(c, at, which));
            wanted = sn_put_op2(m, at, SN_LOP_OR, first, posts);
        }
        combine_posted(c, at, posted, sn_ix_add(m, l.row, group), sn_ix_sub(m, l.number, group), l.most, wanted,
                       before);
        for (uint32_t i = 0; i < c->n; i++) {
            out[i] = which ? combine(c, at, i, before[i], out[i]) : before[i];
            if (more) all[i] = combine(c, at, i, before[i], all[i]);
        }
    }
    for (uint32_t i = 0; i < c->n && c->parts > SN_CUT_GROUP; i++) {
        const sn_stmt_rec *r = sn_stmt_get(m, c->accums[i]);
        sn_val none = sn_put_identity(m, at, r->combs[0], 0, r->dtype);
        out[i] = sn_put_op3(m, at, SN_LOP_SELECT, first, out[i], none);
    }
}

/* Blocks of parts that a multiprocessor has: as many as there is room for, since blocks that wait for each other leave
 * memory idle unless others load; 0: a thread keeps too much. */
static uint32_t blocks_of(const scan_cut *c) {
    int64_t kept = 0, steps = c->share / SN_WARP;
    for (sn_stmt s = sn_stmt_get(c->m, c->nest)->first; s.i; s = sn_next(c->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(c->m, s);
        bool of_part = sn_loads(r) && sn_ix_uses_axis(c->m, r->ix, sn_stmt_axis(c->m, c->nest));
        kept += of_part ? steps * sn_dtype_bytes(r->dtype) : 0;
    }
    return kept > SN_SCAN_LITTLE ? 0 : SN_ROW_RESIDENT / (SN_WARP * WARPS);
}

/* How many parts on the blocks begin that follow those that run; 0: what these and those have would not stay in the L2
 * cache until it is needed, beside what is stored. */
static int64_t ahead_of(const scan_cut *c) {
    int64_t blocks = (int64_t)blocks_of(c) * c->cx->target->units;
    if (blocks * c->length * c->bytes > (int64_t)c->cx->target->cache_bytes / SN_CUT_CACHE) return 0;
    return sn_ceil_div(blocks, c->rows);
}

/* What the nest loads in another part, `ahead` parts on, goes to the cache, whole but for the last part: while blocks wait for each other,
 * and while they store, memory has nothing else to read. Asked for behind what the blocks of now have loaded. */
static void fetch_ahead(scan_cut *c, sn_cursor at, const sn_chain *outer) {
    sn_module *m = c->m;
    sn_axis ax = sn_stmt_axis(m, c->nest);
    int64_t whole = c->count / c->length; /* wherever in a vector a row begins */
    sn_ix part = sn_ix_axis(m, c->part), later = sn_ix_addc(m, part, ahead_of(c)), first = base_of(c, outer);
    if (!ahead_of(c) || ahead_of(c) >= whole) return;
    first = sn_ix_subst(m, first, (sn_axis[]){c->part, c->warp}, (sn_ix[]){later, sn_ix_const(m, 0)}, 2);
    sn_val there = sn_put_in(m, at, later, sn_ix_const(m, whole));
    there = sn_put_op2(m, at, SN_LOP_AND, there, is_warp(c, at, WARPS / 2));
    for (sn_stmt s = sn_stmt_get(m, c->nest)->first; s.i; s = sn_stmt_get(m, s)->next) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        int64_t step;
        if (!sn_loads(r) || sn_ix_uses_vals(m, r->ix) || !sn_ix_coef(m, r->ix, ax, &step)) continue;
        if (step != 1 && step != -1) continue;
        sn_ix lowest = step == 1 ? first : sn_ix_addc(m, first, c->length - 1);
        sn_put_prefetch(m, at, r->buf, sn_ix_subst(m, r->ix, &ax, &lowest, 1), sn_ix_const(m, c->length), there);
    }
}

static void scan_in_one_launch(scan_cut *c) {
    sn_module *m = c->m;
    sn_chain outer;
    wrap(c, (sn_stmt){0}, "s", c->parts, &c->part);
    sn_chain_outer(&outer, m, c->k);
    wrap(c, outer.at[outer.n - 1], "w", WARPS, &c->warp);
    sn_cursor front = sn_at_before(m, c->nest);
    sn_stmt reduce = reduce_instead(c, c->k, &outer, sn_stmt_clone(m, front, c->nest));
    sn_val own[MAX_ACCUMS], earlier[MAX_ACCUMS], all[MAX_ACCUMS], before[MAX_ACCUMS];
    for (uint32_t i = 0; i < c->n; i++) own[i] = sn_result(sn_stmt_get(m, reduce), i);
    over_warps(c, front, own, true, earlier);
    for (uint32_t i = 0; i < c->n; i++) all[i] = combine(c, front, i, earlier[i], own[i]);
    fetch_ahead(c, front, &outer);
    combine_levels(c, front, &outer, all, before);
    over_warps(c, front, before, false, before);
    for (uint32_t i = 0; i < c->n; i++) before[i] = combine(c, front, i, before[i], earlier[i]);
    uint32_t blocks = blocks_of(c);
    scan_part(c, &outer, before);
    sn_kern_dead_code(m, c->k);
    sn_sched *pinned = &sn_kern_get(m, c->k)->sched;
    if (!pinned->min_blocks) pinned->min_blocks = blocks;
    pinned->cls = SN_SCHED_INNER; /* a part is a block's, a piece a warp's: */
    pinned->block_x = SN_WARP;
    pinned->block_y = WARPS;
}

/* ---- three kernels ---- */

/* The first kernel: a copy of k, which has the loop over the parts by now, that sums up each part. */
static sn_kern make_sums(scan_cut *c, sn_stmt top) {
    sn_module *m = c->m;
    sn_kern part = sn_kern_new(m, sn_strf(&m->arena, "%s_part", sn_kern_get(m, c->k)->name));
    sn_kern_get(m, part)->note = sn_kern_get(m, c->k)->note;
    sn_kern_get(m, part)->from = sn_kern_get(m, c->k)->from;
    sn_kern_get(m, part)->section = sn_kern_get(m, c->k)->section;
    sn_stmt_clone(m, sn_at_end(part, (sn_stmt){0}), top);
    sn_chain outer;
    sn_chain_outer(&outer, m, part);
    sn_stmt body = outer.at[outer.n - 1], nest = reduce_instead(c, part, &outer, only_nest(m, part, body));
    for (uint32_t i = 0; i < c->n; i++)
        sn_put_store(m, sn_at_end(part, body), c->sums[i], place(c, &outer), sn_result(sn_stmt_get(m, nest), i));
    sn_kern_dead_code(m, part);
    sn_kern_collect_params(m, part);
    sn_kern_set_precision(m, part, sn_kern_get(m, c->k)->sched.precision);
    pin_vector(c, part);
    return part;
}

/* The second kernel: what the parts before each part come to. */
static sn_kern make_before(scan_cut *c) {
    sn_module *m = c->m;
    sn_kern k = sn_kern_new(m, sn_strf(&m->arena, "%s_before", sn_kern_get(m, c->k)->name));
    sn_kern_get(m, k)->note = sn_kern_get(m, c->k)->note;
    sn_kern_get(m, k)->from = sn_kern_get(m, c->k)->from;
    sn_kern_get(m, k)->section = sn_kern_get(m, c->k)->section;
    sn_stmt into = {0};
    sn_ix row = sn_ix_const(m, 0);
    if (c->rows > 1) {
        sn_axis i = sn_axis_new(m, "i", sn_ix_const(m, c->rows));
        into = sn_put_loop(m, sn_at_end(k, into), i, SN_AXIS_SEQ);
        row = sn_ix_axis(m, i);
    }
    sn_axis s = sn_axis_new(m, "s", sn_ix_const(m, c->parts));
    into = sn_put_loop(m, sn_at_end(k, into), s, SN_AXIS_SEQ);
    sn_cursor at = sn_at_end(k, into);
    for (uint32_t i = 0; i < c->n; i++) {
        sn_ix e = place_of(c, row, sn_ix_axis(m, s));
        sn_val x = sn_put_load(m, at, c->sums[i], e);
        x = sn_put_accum(m, at, sn_stmt_get(m, c->accums[i])->combs[0], x, sn_ix_axis(m, s), true);
        sn_put_store(m, at, c->before[i], e, x);
    }
    sn_kern_collect_params(m, k);
    return k;
}

/* The third kernel: k, each part for itself, begun with what stands before it. */
static void finish_parts(scan_cut *c) {
    sn_module *m = c->m;
    sn_chain outer;
    sn_chain_outer(&outer, m, c->k);
    sn_cursor front = sn_at_before(m, c->nest);
    sn_val start[MAX_ACCUMS];
    for (uint32_t i = 0; i < c->n; i++) start[i] = sn_put_load(m, front, c->before[i], place(c, &outer));
    scan_part(c, &outer, start);
}

static void scan_in_three_launches(scan_cut *c, sn_kern_list *out) {
    for (uint32_t i = 0; i < c->n; i++) {
        c->sums[i] = new_buffer(c, "p", i, c->parts, SN_BUF_TEMP);
        c->before[i] = new_buffer(c, "q", i, c->parts, SN_BUF_TEMP);
    }
    sn_kern sums = make_sums(c, wrap(c, (sn_stmt){0}, "s", c->parts, &c->part)), before = make_before(c);
    finish_parts(c);
    SN_PUSH(&c->m->arena, out, sums);
    SN_PUSH(&c->m->arena, out, before);
}

sn_status sn_pass_split_scan(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    if (!cx->target->is_gpu) return SN_OK;
    sn_kern_list out = {0};
    uint32_t n = m->kernels.n;
    for (uint32_t i = 0; i < n; i++) {
        scan_cut c = {.cx = cx, .m = m, .k = m->kernels.at[i]};
        bool found = !sn_kern_get(m, c.k)->scheduled && look(&c);
        if (found && sn_scan_tiles(&c)) {
            sn_remark(cx, sn_kern_get(m, c.k)->name, "%lld scans of %lld elements: in tiles, %lld of a scan",
                      (long long)c.rows, (long long)c.count, (long long)c.parts);
            *changed = true;
        } else if (found && is_worth_it(&c)) {
            sn_remark(cx, sn_kern_get(m, c.k)->name, "%lld scans of %lld elements: cut into %lld parts, %s",
                      (long long)c.rows, (long long)c.count, (long long)c.parts,
                      c.one_launch ? "one launch" : "three launches");
            if (c.one_launch && c.along) scan_in_one_launch(&c);
            else if (c.one_launch) sn_scan_columns(&c);
            else scan_in_three_launches(&c, &out);
            *changed = true;
        }
        SN_PUSH(&m->arena, &out, c.k);
    }
    m->kernels = out;
    return m->env->status;
}
