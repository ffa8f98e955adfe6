/* split_scan.c: the pass `split-scan`: a long scan of few rows is cut into parts that run side by side.
 *
 *     k0: loop j in 1048576 { load x[j]  %1 = accum sum %0 over j  store y[j], %1 }
 *
 * Along a row, with parts that stay in registers, one kernel does it, which reads and writes every element once. The
 * sums of the parts go from block to block through posted buffers (docs/IR.md), loads of which wait:
 *
 *     k0: loop s in 128 { %0 = reduce sum r in 8192 { load x[8192*s + r] }  store k0_p0[s], %0
 *                         %1 = reduce sum q in 256 { load k0_p0[256*(s div 256) + q] if q in s mod 256 else 0 }
 *                         loop r in 8192 { load x[8192*s + r]  %3 = accum sum %2 over r  %4 = add %1, %3
 *                                          store y[8192*s + r], %4 } }
 *
 * More than 256 parts have two levels: the last part of each group of 256 posts what the group comes to, in k0_g0, and
 * the parts of later groups take that in too. The same bits come out in every run: a block waits for all the sums that
 * it needs and combines them as any `reduce` does, in the order that the text gives; which of them came first has no
 * say, and nobody takes what another block has put together from sums that happened to be there. A part waits for the
 * slowest one before it, twice if there are two levels. It loads up to 256 sums and one for each group, 8 bytes each:
 * at most 10 KB (2^18 parts) beside the 64 that it moves.
 *
 * Three kernels do it where parts are longer, where elements have less than 4 bytes, or where the elements of a step
 * are neighbours, so that each part has many sums and all those before would be more to load than the operand once
 * more:
 *
 *     k0_part:   loop s in 128 { %0 = reduce sum r in 8192 { load x[8192*s + r] }  store k0_p0[s], %0 }
 *     k0_before: loop s in 128 { load k0_p0[s]  %1 = accum sum %0 over s exclusive  store k0_q0[s], %1 }
 *     k0:        loop s in 128 { %0 = load k0_q0[s]  loop r in 8192 { load x[8192*s + r]  %2 = accum sum %1 over r
 *                                %3 = add %0, %2  store y[8192*s + r], %3 } }
 *
 * That reads the operand twice, which pays where the scan would leave most of the device idle.
 *
 * Legal for kernels of one scan whose prefixes do not go into each other; sums are put together in another order, but a
 * fixed one. After `fuse`, so that whatever stands around the scan stays around it. Only on a GPU. Cost: linear in the
 * kernel.
 */
#include "passes/base/rebuild.h"
#include "passes/schedule/constants.h"

enum { MAX_ACCUMS = 4 };

typedef struct scan_cut {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_stmt nest; /* the scan, in k */
    sn_chain outer;
    sn_stmt accums[MAX_ACCUMS];
    uint32_t n;
    int64_t rows, count, parts, length;
    uint32_t bytes; /* smallest element along the scan */
    bool along;     /* the elements of a row are neighbours, else those of a step */
    bool one_launch;
    sn_buf sums[MAX_ACCUMS], before[MAX_ACCUMS]; /* of the parts; of all parts before, or of groups (one launch) */
} scan_cut;

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

/* Does v follow from a prefix of the nest? */
static bool follows_prefix(const scan_cut *c, sn_val v) {
    sn_stmt def = sn_val_get(c->m, v)->def;
    const sn_stmt_rec *r = sn_stmt_get(c->m, def);
    if (!sn_stmt_inside(c->m, def, c->nest)) return false;
    if (r->op == SN_LOP_ACCUM || (r->ix.i && sn_ix_uses_vals(c->m, r->ix))) return true;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (follows_prefix(c, r->in[i])) return true;
    return false;
}

static bool find_accums(scan_cut *c) {
    sn_module *m = c->m;
    sn_ix position = sn_ix_axis(m, sn_stmt_axis(m, c->nest));
    for (sn_stmt s = sn_stmt_get(m, c->nest)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_loads(r) && sn_kern_stores(m, c->k, r->buf)) return false;
        if (r->op != SN_LOP_ACCUM) continue;
        if (c->n == MAX_ACCUMS || !sn_ix_eq(r->ix, position) || follows_prefix(c, r->in[0])) return false;
        c->accums[c->n++] = s;
    }
    return c->n > 0;
}

/* ---- is it worth it? ---- */

/* Elements of a vector that no row begins inside of. The end of the last row may cut one: that one is tested. */
static uint32_t whole_vector(const scan_cut *c) {
    uint32_t vector = c->bytes ? c->cx->target->vector_bytes / c->bytes : 1;
    while (c->rows > 1 && c->count % vector) vector /= 2;
    return vector;
}

/* The longest part that stays in registers. */
static int64_t longest_part(const scan_cut *c) {
    int64_t length = (int64_t)SN_CUT_STEP * whole_vector(c);
    return length < SN_CUT_MOST_PART ? length : SN_CUT_MOST_PART;
}

static int64_t parts_of(const scan_cut *c, int64_t length) { return (c->count + length - 1) / length; }

/* Blocks of halves carry so few bytes that they wait longer than a second reading takes. */
static bool fits_one_launch(const scan_cut *c, int64_t length) {
    const sn_sched *pinned = &sn_kern_get(c->m, c->k)->sched;
    if (!c->along || c->bytes < SN_CUT_WORD || length > longest_part(c) ||
        c->rows * parts_of(c, length) > SN_CUT_POSTED)
        return false;
    return (pinned->cls == SN_SCHED_NONE || pinned->cls == SN_SCHED_INNER) && pinned->block_y <= 1;
}

static int64_t choose_length(const scan_cut *c) {
    int64_t units = c->cx->target->units, length;
    if (c->along) {
        if (c->rows >= 2 * units || c->count < SN_CUT_LENGTH) return c->count;
        for (length = longest_part(c); length > SN_CUT_PART && c->rows * (c->count / length) < 4 * units;) length /= 2;
        if (fits_one_launch(c, length)) return length;
        while (c->rows * (c->count / length) > SN_CUT_PARTS) length *= 2;
        return length;
    }
    if (c->rows >= units * SN_CUT_RESIDENT / 2 || c->count < SN_CUT_COLUMN) return c->count;
    for (length = SN_CUT_COLUMN_PART; c->rows * (c->count / length) > SN_CUT_VECTOR * units * SN_CUT_RESIDENT;)
        length *= 2;
    return length;
}

static bool walks_along(scan_cut *c) {
    uint32_t least;
    int64_t inner = sn_nest_bytes_along(c->m, c->nest, sn_stmt_axis(c->m, c->nest), &c->bytes);
    if (!c->outer.n) return true;
    return inner >= sn_nest_bytes_along(c->m, c->nest, sn_stmt_axis(c->m, c->outer.at[c->outer.n - 1]), &least);
}

static bool look(scan_cut *c) {
    sn_module *m = c->m;
    sn_chain nest;
    sn_chain_outer(&c->outer, m, c->k);
    c->nest = only_nest(m, c->k, c->outer.n ? c->outer.at[c->outer.n - 1] : (sn_stmt){0});
    if (!c->nest.i || c->outer.n + 2 > SN_MAX_CHAIN || !sn_nest_perfect(&nest, m, c->nest) || nest.n != 1) return false;
    c->rows = sn_chain_count(m, &c->outer);
    c->count = sn_chain_count(m, &nest);
    if (c->rows <= 0 || c->count <= 0 || c->count == INT64_MAX || !find_accums(c)) return false;
    c->along = walks_along(c);
    uint32_t pinned = sn_kern_get(m, c->k)->sched.split;
    c->length = pinned ? (c->count + pinned - 1) / pinned : choose_length(c);
    c->parts = parts_of(c, c->length);
    c->one_launch = fits_one_launch(c, c->length);
    return c->parts > 1;
}

/* ---- the cut ---- */

/* Vectors in which another row would begin are narrowed for all parts. */
static void pin_vector(const scan_cut *c, sn_kern k) {
    if (!c->along || !c->bytes) return;
    uint32_t vector = whole_vector(c);
    if (vector == c->cx->target->vector_bytes / c->bytes) return;
    while (c->length % vector) vector /= 2;
    if (!sn_kern_get(c->m, k)->sched.vector) sn_kern_get(c->m, k)->sched.vector = vector;
}

/* Everything in k goes into a loop over the parts. */
static sn_stmt wrap_in_parts(scan_cut *c) {
    sn_module *m = c->m;
    sn_stmt first = sn_kern_get(m, c->k)->first;
    sn_axis s = sn_axis_new(m, "s", sn_ix_const(m, c->parts));
    sn_stmt top = sn_put_loop(m, sn_at_end(c->k, (sn_stmt){0}), s, SN_AXIS_SEQ);
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

/* The first position of the part. */
static sn_ix base_of(scan_cut *c, const sn_chain *outer) {
    return sn_ix_scale(c->m, sn_ix_axis(c->m, sn_stmt_axis(c->m, outer->at[0])), c->length);
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
    sn_level level = {"r", c->length, 1, SN_AXIS_SEQ};
    return sn_nest_rebuild(c->cx, part, reduce, &chain, base_of(c, outer), c->count, &level, 1);
}

/* The scan becomes that of this part, begun with what stands before it. */
static void scan_part(scan_cut *c, const sn_chain *outer, const sn_val *start) {
    sn_module *m = c->m;
    sn_chain chain = {.n = 1, .at = {c->nest}};
    sn_level level = {"r", c->length, 1, SN_AXIS_SEQ};
    sn_stmt nest = sn_nest_rebuild(c->cx, c->k, c->nest, &chain, base_of(c, outer), c->count, &level, 1);
    for (uint32_t i = 0; i < c->n; i++) {
        sn_stmt_rec *r = sn_stmt_get(m, c->accums[i]);
        r->ix = sn_ix_axis(m, sn_stmt_axis(m, nest));
        sn_val whole = sn_put_op2(m, sn_at_after(m, c->accums[i]), sn_comb_lops[r->combs[0]], start[i], r->result);
        sn_val_replace(m, c->k, r->result, whole);
        sn_stmt_get(m, sn_val_get(m, whole)->def)->in[1] = r->result;
    }
    if (sn_kern_get(m, c->k)->sched.split) sn_kern_get(m, c->k)->sched.split = 1; /* done */
    sn_kern_collect_params(m, c->k);
    pin_vector(c, c->k);
}

/* ---- one kernel ---- */

/* out[i]: elements first .. first + n-1 of from[i] combined, n below `most`. */
static void combine_posted(scan_cut *c, sn_cursor at, const sn_buf *from, sn_ix first, sn_ix n, int64_t most,
                           sn_val *out) {
    sn_module *m = c->m;
    sn_comb combs[MAX_ACCUMS];
    sn_dtype dtypes[MAX_ACCUMS];
    for (uint32_t i = 0; i < c->n; i++) {
        combs[i] = sn_stmt_get(m, c->accums[i])->combs[0];
        dtypes[i] = sn_stmt_get(m, c->accums[i])->dtype;
    }
    sn_axis q = sn_axis_new(m, "q", sn_ix_const(m, most));
    sn_stmt reduce = sn_put_reduce(m, at, q, SN_AXIS_SEQ, combs, c->n, dtypes);
    sn_cursor in = sn_at_end(at.kern, reduce);
    sn_ix number = sn_ix_axis(m, q), e = sn_ix_add(m, first, number);
    sn_val earlier = sn_put_in(m, in, number, n);
    for (uint32_t i = 0; i < c->n; i++) {
        sn_val none = sn_put_identity(m, in, combs[i], 0, dtypes[i]);
        out[i] = sn_put_load_masked(m, in, from[i], e, earlier, none);
    }
    sn_put_yield(m, in, out, c->n);
    for (uint32_t i = 0; i < c->n; i++) out[i] = sn_result(sn_stmt_get(m, reduce), i);
}

static sn_val combine(scan_cut *c, sn_cursor at, uint32_t i, sn_val a, sn_val b) {
    return sn_put_op2(c->m, at, sn_comb_lops[sn_stmt_get(c->m, c->accums[i])->combs[0]], a, b);
}

/* Groups with all their parts: each posts what it comes to. */
static int64_t groups_of(const scan_cut *c) { return c->parts / SN_CUT_GROUP; }

/* The last part of each group posts what the group comes to; out[i]: all groups before this one, combined. */
static void combine_groups(scan_cut *c, sn_cursor at, sn_ix row_start, sn_ix s, const sn_val *sums,
                           const sn_val *in_group, sn_val *out) {
    enum { WIDEST = 16 };
    sn_module *m = c->m;
    int64_t groups = groups_of(c), most = (groups + WIDEST - 1) / WIDEST * WIDEST; /* vectors of any width divide it */
    sn_ix group = sn_ix_divc(m, s, SN_CUT_GROUP), row = sn_ix_scale(m, sn_ix_divc(m, row_start, c->parts), groups);
    sn_val last = sn_put_in(m, at, sn_ix_addc(m, sn_ix_modc(m, s, SN_CUT_GROUP), 1 - SN_CUT_GROUP), sn_ix_const(m, 1));
    for (uint32_t i = 0; i < c->n; i++) {
        sn_val all = combine(c, at, i, in_group[i], sums[i]);
        sn_put_store_masked(m, at, c->before[i], sn_ix_add(m, row, group), all, last);
    }
    combine_posted(c, at, c->before, row, group, most, out);
}

/* out[i]: what stands before this part in prefix i, if sums[i] is what the part itself comes to. */
static void combine_parts(scan_cut *c, sn_cursor at, const sn_chain *outer, const sn_val *sums, sn_val *out) {
    sn_module *m = c->m;
    sn_ix s = sn_ix_axis(m, sn_stmt_axis(m, outer->at[0])), here = place(c, outer), row_start = sn_ix_sub(m, here, s);
    sn_ix first = sn_ix_add(m, row_start, sn_ix_scale(m, sn_ix_divc(m, s, SN_CUT_GROUP), SN_CUT_GROUP));
    for (uint32_t i = 0; i < c->n; i++) sn_put_store(m, at, c->sums[i], here, sums[i]);
    combine_posted(c, at, c->sums, first, sn_ix_modc(m, s, SN_CUT_GROUP), SN_CUT_GROUP, out);
    if (c->parts <= SN_CUT_GROUP) return;
    sn_val of_groups[MAX_ACCUMS];
    combine_groups(c, at, row_start, s, sums, out, of_groups);
    for (uint32_t i = 0; i < c->n; i++) out[i] = combine(c, at, i, of_groups[i], out[i]);
}

static void scan_in_one_launch(scan_cut *c) {
    sn_module *m = c->m;
    wrap_in_parts(c);
    sn_chain outer;
    sn_chain_outer(&outer, m, c->k);
    sn_cursor front = sn_at_before(m, c->nest);
    sn_stmt reduce = reduce_instead(c, c->k, &outer, sn_stmt_clone(m, front, c->nest));
    sn_val sums[MAX_ACCUMS], start[MAX_ACCUMS];
    for (uint32_t i = 0; i < c->n; i++) {
        sums[i] = sn_result(sn_stmt_get(m, reduce), i);
        c->sums[i] = new_buffer(c, "p", i, c->parts, SN_BUF_POSTED);
        if (c->parts > SN_CUT_GROUP) c->before[i] = new_buffer(c, "g", i, groups_of(c), SN_BUF_POSTED);
    }
    combine_parts(c, front, &outer, sums, start);
    scan_part(c, &outer, start);
    sn_kern_dead_code(m, c->k);
    sn_kern_get(m, c->k)->sched.cls = SN_SCHED_INNER; /* one part a block: */
    sn_kern_get(m, c->k)->sched.block_y = 1;
}

/* ---- three kernels ---- */

/* The first kernel: a copy of k, which has the loop over the parts by now, that sums up each part. */
static sn_kern make_sums(scan_cut *c, sn_stmt top) {
    sn_module *m = c->m;
    sn_kern part = sn_kern_new(m, sn_strf(&m->arena, "%s_part", sn_kern_get(m, c->k)->name));
    sn_kern_get(m, part)->note = sn_kern_get(m, c->k)->note;
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
    sn_kern sums = make_sums(c, wrap_in_parts(c)), before = make_before(c);
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
        if (!sn_kern_get(m, c.k)->scheduled && look(&c)) {
            sn_remark(cx, sn_kern_get(m, c.k)->name, "%lld scans of %lld elements: cut into %lld parts, %s",
                      (long long)c.rows, (long long)c.count, (long long)c.parts,
                      c.one_launch ? "one launch" : "three launches");
            if (c.one_launch) scan_in_one_launch(&c);
            else scan_in_three_launches(&c, &out);
            *changed = true;
        }
        SN_PUSH(&m->arena, &out, c.k);
    }
    m->kernels = out;
    return m->env->status;
}
