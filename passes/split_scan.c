/* split_scan.c: the pass `split-scan`: a long scan of few rows is cut into parts that run side by side.
 *
 *     k0: loop j in 1048576 { load x[j]  %1 = accum sum %0 over j  store y[j], %1 }
 *  -> k0_part:   loop s in 128 { %0 = reduce sum r in 8192 { load x[8192*s + r] }  store k0_p0[s], %0 }
 *     k0_before: loop s in 128 { load k0_p0[s]  %1 = accum sum %0 over s exclusive  store k0_q0[s], %1 }
 *     k0:        loop s in 128 { %0 = load k0_q0[s]  loop r in 8192 { load x[8192*s + r]  %2 = accum sum %1 over r
 *                                %3 = add %0, %2  store y[8192*s + r], %3 } }
 *
 * Reads the operand twice, which pays where the scan would leave most of the device idle. Legal for kernels of one scan
 * whose prefixes do not go into each other; sums are put together in another order, but a fixed one. After `fuse`, so that
 * whatever stands around the scan stays around it. Only on a GPU. Cost: linear in the kernel.
 */
#include "passes/rebuild.h"

enum {
    MIN_LENGTH = 32768,
    MIN_PART = 2048,
    MAX_PART = 8192,
    MAX_PARTS = 32768,
    MIN_COLUMN_LENGTH = 256,
    MIN_COLUMN_PART = 32
};
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
    uint32_t bytes;                              /* smallest element along the scan */
    bool along;                                  /* the elements of a row are neighbours, else those of a step */
    sn_buf sums[MAX_ACCUMS], before[MAX_ACCUMS]; /* of the parts; of all parts before */
} scan_cut;

/* ---- is it legal? ---- */

/* The one nest of the body; none when there is more in it than values. */
static sn_stmt only_nest(const sn_module *m, sn_kern k, sn_stmt body) {
    sn_stmt nest = {0};
    for (sn_stmt s = sn_region_first(m, k, body); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op == SN_LOP_STORE) return (sn_stmt){0};
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
        if (r->op == SN_LOP_LOAD && sn_kern_stores(m, c->k, r->buf)) return false;
        if (r->op != SN_LOP_ACCUM) continue;
        if (c->n == MAX_ACCUMS || !sn_ix_eq(r->ix, position) || follows_prefix(c, r->in[0])) return false;
        c->accums[c->n++] = s;
    }
    return c->n > 0;
}

/* ---- is it worth it? ---- */

static int64_t choose_length(const scan_cut *c) {
    int64_t units = c->cx->target->units, length;
    if (c->along) {
        if (c->rows >= 2 * units || c->count < MIN_LENGTH) return c->count;
        for (length = MAX_PART; length > MIN_PART && c->rows * (c->count / length) < 4 * units;) length /= 2;
        while (c->rows * (c->count / length) > MAX_PARTS) length *= 2;
        return length;
    }
    enum { RESIDENT = 1024, VECTOR = 4 };
    if (c->rows >= units * RESIDENT / 2 || c->count < MIN_COLUMN_LENGTH) return c->count;
    for (length = MIN_COLUMN_PART; c->rows * (c->count / length) > VECTOR * units * RESIDENT;) length *= 2;
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
    c->parts = (c->count + c->length - 1) / c->length;
    return c->parts > 1;
}

/* ---- the cut ---- */

/* Vectors that the end of the row would cut are narrowed for all parts. */
static void pin_vector(const scan_cut *c, sn_kern k) {
    if (!c->along || !c->bytes) return;
    uint32_t widest = c->cx->target->vector_bytes / c->bytes, vector = widest;
    while (c->count % vector) vector /= 2;
    if (vector == widest) return;
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

static sn_buf new_buffer(scan_cut *c, const char *letter, uint32_t number) {
    sn_module *m = c->m;
    sn_ix parts = sn_ix_const(m, c->parts), rows = sn_ix_const(m, c->rows);
    sn_ix shape[2] = {c->along ? rows : parts, c->along ? parts : rows};
    const char *name = sn_strf(&m->arena, "%s_%s%u", sn_kern_get(m, c->k)->name, letter, number);
    return sn_buf_new(m, name, sn_stmt_get(m, c->accums[number])->dtype, SN_BUF_TEMP, shape, 2);
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

/* The scan becomes a reduction of what went into its prefixes. */
static sn_stmt reduce_instead(scan_cut *c, sn_kern part, sn_stmt nest) {
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
        if (sn_stmt_get(m, s)->op == SN_LOP_STORE) continue;
        sn_stmt_subst(m, s, &old, &to, 1);
        sn_stmt_insert(m, sn_at_end(part, reduce), s);
    }
    sn_put_yield(m, sn_at_end(part, reduce), yields, n);
    sn_stmt_unlink(m, nest); /* the accums, used by nobody now, go with the dead code */
    return reduce;
}

/* The first kernel: a copy of k, which has the loop over the parts by now, that sums up each part. */
static sn_kern make_sums(scan_cut *c, sn_stmt top) {
    sn_module *m = c->m;
    sn_kern part = sn_kern_new(m, sn_strf(&m->arena, "%s_part", sn_kern_get(m, c->k)->name));
    sn_kern_get(m, part)->note = sn_kern_get(m, c->k)->note;
    sn_stmt_clone(m, sn_at_end(part, (sn_stmt){0}), top);
    sn_chain outer, chain;
    sn_chain_outer(&outer, m, part);
    sn_stmt body = outer.at[outer.n - 1], nest = reduce_instead(c, part, only_nest(m, part, body));
    sn_nest_perfect(&chain, m, nest);
    sn_level level = {"r", c->length, 1, SN_AXIS_SEQ};
    nest = sn_nest_rebuild(c->cx, part, nest, &chain, base_of(c, &outer), c->count, &level, 1);
    for (uint32_t i = 0; i < c->n; i++)
        sn_put_store(m, sn_at_end(part, body), c->sums[i], place(c, &outer), sn_result(sn_stmt_get(m, nest), i));
    sn_kern_dead_code(m, part);
    sn_kern_collect_params(m, part);
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
    sn_chain outer, chain = {.n = 1, .at = {c->nest}};
    sn_chain_outer(&outer, m, c->k);
    sn_cursor front = sn_at_before(m, c->nest);
    sn_val start[MAX_ACCUMS];
    for (uint32_t i = 0; i < c->n; i++) start[i] = sn_put_load(m, front, c->before[i], place(c, &outer));
    sn_level level = {"r", c->length, 1, SN_AXIS_SEQ};
    sn_stmt nest = sn_nest_rebuild(c->cx, c->k, c->nest, &chain, base_of(c, &outer), c->count, &level, 1);
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

sn_status sn_pass_split_scan(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    if (!cx->target->is_gpu) return SN_OK;
    sn_kern_list out = {0};
    uint32_t n = m->kernels.n;
    for (uint32_t i = 0; i < n; i++) {
        scan_cut c = {.cx = cx, .m = m, .k = m->kernels.at[i]};
        if (!sn_kern_get(m, c.k)->scheduled && look(&c)) {
            sn_remark(cx, sn_kern_get(m, c.k)->name, "%lld scans of %lld elements: cut into %lld parts",
                      (long long)c.rows, (long long)c.count, (long long)c.parts);
            for (uint32_t k = 0; k < c.n; k++) c.sums[k] = new_buffer(&c, "p", k), c.before[k] = new_buffer(&c, "q", k);
            sn_kern sums = make_sums(&c, wrap_in_parts(&c)), before = make_before(&c);
            finish_parts(&c);
            SN_PUSH(&m->arena, &out, sums);
            SN_PUSH(&m->arena, &out, before);
            *changed = true;
        }
        SN_PUSH(&m->arena, &out, c.k);
    }
    m->kernels = out;
    return m->env->status;
}
