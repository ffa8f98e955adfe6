/* split_reduction.c: the pass `split-reduction`: a long reduction with few results is cut into two kernels.
 *
 *     k0: %0 = reduce sum r in 268435456 { load x[r] }  store y[0], %0
 *  -> k0_part: loop s in 1024 { %0 = reduce sum r in 262144 { load x[262144*s + r] }  store k0_p0[s], %0 }
 *     k0: %0 = reduce sum s in 1024 { load k0_p0[s] }  store y[0], %0
 *
 * Decided after fusion, so that it blocks no epilogue: whatever stood behind the reduction stays behind the second one.
 * Parts of a row begin at multiples of SPLIT_EVEN elements. The order of summation is fixed, so results are the same
 * bits from run to run. Only kernels with one perfect reduce nest that would leave the device idle are cut, and only on
 * a GPU; none that a library runs. Products whose header says how they are done are left whole, and so are those of few
 * rows that keep the memory busy as they are, and those of tiles whose sums are not very long: `choose` cuts those that
 * gain by it.
 *
 * A sum and the sum of squares about what is made of it (passes/schedule/moments.c) are cut together, into parts that
 * stay on the chip, so that memory is read once. Each part has its own mean, and what the parts are off it is added:
 *
 *     k0: %0 = reduce sum r { x[r] }   %1 = f(%0)   %2 = reduce sum r { (x[r] - %1)^2 }   store y[0], %2
 *  -> k0_part: loop s { %0 = reduce sum r { x[L*s + r] }   %1 = div %0, n(s)   %2 = reduce sum r { (x[L*s + r] - %1)^2 }
 *                       store k0_p0[s], %0   store k0_q[s], %2 }
 *     k0: %0 = reduce sum s { k0_p0[s] }   %1 = f(%0)
 *         %2 = reduce sum s { k0_q[s] + n(s) * (k0_p0[s] / n(s) - %1)^2 }   store y[0], %2
 *
 * Cost: linear in the kernel.
 */
#include "passes/base/rebuild.h"

#include "passes/schedule/contract_rows.h"
#include "passes/schedule/moments.h"

typedef struct cut {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k, part;
    sn_stmt nest; /* the reduction, in k */
    sn_chain chain, outer;
    int64_t rows, count, parts, length;
    sn_buf partial[8];
    bool wrapped;    /* the outer loop was made here, around everything */
    bool in_order;   /* parts of a row follow each other, since a kernel behind reads the rows again (reverse_grid.c) */
    bool moments;    /* `nest` and the squares about what it comes to */
    sn_moments pair; /* ... in k */
    sn_buf spread;   /* squares of the parts about their own means */
} cut;

/* ---- is it worth it? ---- */

static sn_stmt only_nest(const sn_module *m, sn_kern k, sn_stmt body) {
    sn_stmt nest = {0};
    for (sn_stmt s = sn_region_first(m, k, body); s.i; s = sn_next(m, s)) {
        if (!sn_lop_has_region(sn_stmt_get(m, s)->op)) continue;
        if (nest.i || sn_stmt_get(m, s)->op != SN_LOP_REDUCE) return (sn_stmt){0};
        nest = s;
    }
    return nest;
}

static bool reduces_along(const cut *c) {
    uint32_t least;
    if (!c->outer.n) return true;
    int64_t inner = sn_nest_bytes_along(c->m, c->nest, sn_stmt_axis(c->m, c->chain.at[c->chain.n - 1]), &least);
    return inner >= sn_nest_bytes_along(c->m, c->nest, sn_stmt_axis(c->m, c->outer.at[c->outer.n - 1]), &least);
}

/* Does a kernel behind position `at` read what the nest reads, more than the cache holds? Then it finds there what was read
 * last, if that is the end of the buffer and not of every row. */
static bool is_read_again(const cut *c, const sn_users *users, uint32_t at) {
    sn_module *m = c->m;
    sn_stmt end = sn_stmt_walk_skip(m, c->nest);
    for (sn_stmt s = c->nest; s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_loads(r) || sn_buf_bytes(m, r->buf) <= (int64_t)(c->cx->target->cache_bytes / 2)) continue;
        if (sn_users_touch(users, r->buf, at + 1, m->kernels.n)) return true;
    }
    return false;
}

/* Number of parts, a power of two; 1: leave it whole. */
static int64_t choose_parts(const cut *c, bool inner) {
    int64_t units = c->cx->target->units, wanted;
    if (inner) {
        if (c->rows >= SN_SPLIT_ENOUGH * units || c->count < SN_SPLIT_LENGTH) return 1;
        wanted = SN_SPLIT_ROW_BLOCKS * units / (c->rows ? c->rows : 1);
        if (wanted > c->count / SN_SPLIT_PART) wanted = c->count / SN_SPLIT_PART;
    } else {
        int64_t blocks = (c->rows + SN_SPLIT_COLUMNS - 1) / SN_SPLIT_COLUMNS;
        if (blocks >= SN_SPLIT_ENOUGH * units || c->count < SN_SPLIT_COLUMN) return 1;
        wanted = SN_SPLIT_COLUMN_BLOCKS * units / (blocks ? blocks : 1);
        if (wanted > c->count / SN_SPLIT_COLUMN_PART) wanted = c->count / SN_SPLIT_COLUMN_PART;
    }
    if (wanted < 2) return 1;
    int64_t parts = 1;
    while (parts * 2 <= wanted) parts *= 2;
    return parts;
}

/* Do tiles of a product fill the device well enough? Their operands are shared, so that few blocks do what many rows would. */
static bool is_tiled(const cut *c) {
    sn_contraction product;
    const char *why_not;
    double cycles;
    if (c->count >= SN_SPLIT_LENGTH || !sn_contraction_find(&product, &why_not, c->cx, c->k)) return false;
    if (product.m < 2 || product.n < 2) return false;
    return sn_schedule_count(&cycles, c->cx, c->k, SN_SCHED_CONTRACT) == SN_OK && cycles > 0;
}

/* A mean and a variance, of rows that are better read by parts. */
static bool look_at_moments(cut *c) {
    sn_module *m = c->m;
    if (!sn_moments_find(&c->pair, c->cx, c->k)) return false;
    sn_val centre = sn_stmt_get(m, c->pair.distance)->in[1];
    if (sn_stmt_inside(m, sn_val_get(m, centre)->def, c->pair.squares.at[0])) return false;
    c->outer = c->pair.outer;
    c->chain = c->pair.sum;
    c->nest = c->chain.at[0];
    c->rows = sn_chain_count(m, &c->outer);
    c->count = sn_chain_count(m, &c->chain);
    uint32_t pinned = sn_kern_get(m, c->k)->sched.split;
    if (c->rows <= 0 || c->count <= 0 || c->count == INT64_MAX) return false;
    c->length = pinned ? sn_ceil_div(c->count, pinned) : sn_moments_part(&c->pair, c->cx, true);
    if (!c->length || c->length == c->count) return false;
    c->parts = sn_ceil_div(c->count, c->length);
    return c->moments = true;
}

static bool look(cut *c) {
    sn_module *m = c->m;
    if (look_at_moments(c)) return true;
    sn_chain_outer(&c->outer, m, c->k);
    sn_stmt body = c->outer.n ? c->outer.at[c->outer.n - 1] : (sn_stmt){0};
    c->nest = only_nest(m, c->k, body);
    if (!c->nest.i || !sn_nest_perfect(&c->chain, m, c->nest)) return false;
    c->rows = sn_chain_count(m, &c->outer);
    c->count = sn_chain_count(m, &c->chain);
    if (c->rows <= 0 || c->count <= 0 || c->count == INT64_MAX) return false;
    uint32_t pinned = sn_kern_get(m, c->k)->sched.split;
    bool contract = sn_kern_get(m, c->k)->sched.cls == SN_SCHED_CONTRACT;
    if (contract || (!pinned && (sn_contract_rows_fill(c->cx, c->k) || is_tiled(c)))) return false;
    c->parts = pinned ? pinned : choose_parts(c, reduces_along(c));
    c->length = sn_ceil_div(c->count, c->parts);
    if (pinned || !reduces_along(c)) return c->parts > 1;
    c->length = sn_ceil_div(c->length, SN_SPLIT_EVEN) * SN_SPLIT_EVEN;
    c->parts = sn_ceil_div(c->count, c->length);
    return c->parts > 1;
}

/* ---- the cut ---- */

/* A single loop around everything, so that the kernel can be cloned as one statement. */
static void wrap_in_loop(cut *c) {
    sn_module *m = c->m;
    sn_stmt_vec body = {0};
    for (sn_stmt s = sn_kern_get(m, c->k)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        SN_PUSH(c->cx->scratch, &body, s);
    }
    sn_stmt loop = sn_put_loop(m, sn_at_end(c->k, (sn_stmt){0}), sn_axis_new(m, "i", sn_ix_const(m, 1)), SN_AXIS_SEQ);
    for (uint32_t k = 0; k < body.n; k++) sn_stmt_insert(m, sn_at_end(c->k, loop), body.at[k]);
    sn_chain_outer(&c->outer, m, c->k);
    c->wrapped = true;
}

static sn_ix flat_row(const cut *c, const sn_chain *outer) {
    sn_ix index[SN_MAX_CHAIN], shape[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < outer->n; k++) {
        index[k] = sn_ix_axis(c->m, sn_stmt_axis(c->m, outer->at[k]));
        shape[k] = sn_stmt_extent(c->m, outer->at[k]);
    }
    return sn_ix_flatten(c->m, index, shape, outer->n);
}

static void make_partial_buffers(cut *c) {
    const sn_stmt_rec *nest = sn_stmt_get(c->m, c->nest);
    sn_ix shape[2] = {sn_ix_const(c->m, c->parts), sn_ix_const(c->m, c->rows)};
    uint32_t n = nest->n_results;
    for (uint32_t r = 0; r < n + c->moments; r++) {
        const char *name = sn_strf(&c->m->arena, r < n ? "%s_p%u" : "%s_q", sn_kern_get(c->m, c->k)->name, r);
        sn_dtype dtype = sn_val_get(c->m, sn_result(nest, r < n ? r : c->pair.state))->dtype;
        sn_buf b = sn_buf_new(c->m, name, dtype, SN_BUF_TEMP, shape, 2);
        sn_buf_get(c->m, b)->align = 256;
        *(r < n ? &c->partial[r] : &c->spread) = b;
    }
}

/* Elements of part s. */
static sn_val count_of_part(const cut *c, sn_cursor at, sn_axis s) {
    sn_module *m = c->m;
    sn_dtype dtype = sn_buf_get(m, c->spread)->dtype;
    if (c->count % c->length == 0) return sn_put_const(m, at, dtype, (double)c->length);
    sn_ix left = sn_ix_sub(m, sn_ix_const(m, c->count), sn_ix_scale(m, sn_ix_axis(m, s), c->length));
    return sn_put_cast(m, at, dtype, sn_put_index(m, at, SN_I64, sn_ix_min(m, left, sn_ix_const(m, c->length))));
}

/* The squares of a part are those about its own mean. */
static void centre_part(cut *c, sn_axis s) {
    sn_module *m = c->m;
    sn_moments pair;
    bool found = sn_moments_find(&pair, c->cx, c->part);
    SN_ASSERT(found), (void)found;
    sn_cursor at = sn_at_before(m, pair.squares.at[0]);
    sn_val sum = sn_result(sn_stmt_get(m, pair.sum.at[0]), pair.state);
    sn_val mean = sn_put_op2(m, at, SN_LOP_DIV, sum, count_of_part(c, at, s));
    const sn_stmt_rec *d = sn_stmt_get(m, pair.distance);
    sn_val_replace(m, c->part, d->result, sn_put_op2(m, sn_at_before(m, pair.distance), SN_LOP_SUB, d->in[0], mean));
    sn_stmt_unlink(m, pair.distance);
}

/* The nest of a part at its elements alone; its results go to `to`. */
static void shorten(cut *c, sn_stmt body, sn_stmt nest, sn_axis s, sn_ix row, const sn_buf *to) {
    sn_module *m = c->m;
    sn_chain chain;
    sn_nest_perfect(&chain, m, nest);
    sn_level level = {"r", c->length, 1, SN_AXIS_SEQ};
    sn_ix base = sn_ix_scale(m, sn_ix_axis(m, s), c->length);
    nest = sn_nest_rebuild(c->cx, c->part, nest, &chain, base, c->count, &level, 1);
    sn_ix at = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, s), c->rows), row);
    for (uint32_t r = 0; r < sn_stmt_get(m, nest)->n_results; r++)
        sn_put_store(m, sn_at_end(c->part, body), to[r], at, sn_result(sn_stmt_get(m, nest), r));
}

static sn_stmt next_nest(const sn_module *m, sn_stmt s) {
    while (s.i && !sn_lop_has_region(sn_stmt_get(m, s)->op)) s = sn_next(m, s);
    return s;
}

/* The outer loops of k around a copy of its body, which is returned, and a loop over parts: outside, or inside where memory is
 * to be walked from its beginning to its end. */
static sn_stmt copy_loops(cut *c, sn_chain *outer, sn_axis s) {
    sn_module *m = c->m;
    sn_stmt top = {0};
    if (!c->wrapped && !c->in_order) top = sn_put_loop(m, sn_at_end(c->part, top), s, SN_AXIS_SEQ);
    *outer = (sn_chain){.n = 1, .at = {sn_stmt_clone(m, sn_at_end(c->part, top), c->outer.at[0])}};
    while (outer->n < c->outer.n) outer->at[outer->n] = sn_stmt_get(m, outer->at[outer->n - 1])->first, outer->n++;
    sn_stmt body = outer->at[outer->n - 1];
    if (c->wrapped) sn_stmt_get(m, body)->axis = s; /* nothing counts by a loop of one iteration */
    if (c->wrapped || !c->in_order) return body;
    sn_stmt first = sn_stmt_get(m, body)->first, parts = sn_put_loop(m, sn_at_end(c->part, body), s, SN_AXIS_SEQ);
    for (sn_stmt t = first, next; t.i != parts.i; t = next) {
        next = sn_next(m, t);
        sn_stmt_unlink(m, t);
        sn_stmt_insert(m, sn_at_end(c->part, parts), t);
    }
    return parts;
}

/* The first kernel: a copy of k whose reduction covers one part and whose results go to the partial buffers. */
static void make_part(cut *c) {
    sn_module *m = c->m;
    c->part = sn_kern_new(m, sn_strf(&m->arena, "%s_part", sn_kern_get(m, c->k)->name));
    sn_kern_get(m, c->part)->note = sn_kern_get(m, c->k)->note;
    sn_axis s = sn_axis_new(m, "s", sn_ix_const(m, c->parts));
    sn_chain outer;
    sn_stmt body = copy_loops(c, &outer, s);
    for (sn_stmt t = sn_stmt_get(m, body)->first, next; t.i; t = next) {
        next = sn_next(m, t);
        if (sn_stores(sn_stmt_get(m, t))) sn_stmt_unlink(m, t);
    }
    if (c->moments) centre_part(c, s);
    sn_stmt nest = next_nest(m, sn_stmt_get(m, body)->first), squares = next_nest(m, sn_next(m, nest));
    sn_ix row = c->wrapped ? sn_ix_const(m, 0) : flat_row(c, &outer);
    shorten(c, body, nest, s, row, c->partial);
    if (c->moments) shorten(c, body, squares, s, row, &c->spread);
    sn_kern_dead_code(m, c->part);
    sn_kern_collect_params(m, c->part);
    sn_kern_set_precision(m, c->part, sn_kern_get(m, c->k)->sched.precision);
}

/* In the place of the nest `old`: a reduction over the parts, without its yield. */
static sn_stmt over_parts(cut *c, sn_stmt old, sn_axis *s) {
    sn_module *m = c->m;
    const sn_stmt_rec *r = sn_stmt_get(m, old);
    sn_dtype dtypes[8];
    for (uint32_t k = 0; k < r->n_results; k++) dtypes[k] = sn_val_get(m, sn_result(r, k))->dtype;
    *s = sn_axis_new(m, "s", sn_ix_const(m, c->parts));
    return sn_put_reduce(m, sn_at_before(m, old), *s, SN_AXIS_SEQ, r->combs, r->n_combs, dtypes);
}

static void take_over(cut *c, sn_stmt old, sn_stmt nest, const sn_val *yields) {
    sn_module *m = c->m;
    const sn_stmt_rec *r = sn_stmt_get(m, old);
    sn_put_yield(m, sn_at_end(c->k, nest), yields, r->n_results);
    for (uint32_t k = 0; k < r->n_results; k++)
        sn_val_replace(m, c->k, sn_result(r, k), sn_result(sn_stmt_get(m, nest), k));
    sn_stmt_unlink(m, old);
}

/* The squares about c of all parts: those about the mean of each, and how far that is from c. */
static void finish_squares(cut *c) {
    sn_module *m = c->m;
    sn_axis s;
    sn_val centre = sn_stmt_get(m, c->pair.distance)->in[1];
    sn_stmt nest = over_parts(c, c->pair.squares.at[0], &s);
    sn_cursor in = sn_at_end(c->k, nest);
    sn_ix at = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, s), c->rows), flat_row(c, &c->outer));
    sn_val sum = sn_put_load(m, in, c->partial[c->pair.state], at), own = sn_put_load(m, in, c->spread, at);
    sn_val n = count_of_part(c, in, s);
    sn_val d = sn_put_op2(m, in, SN_LOP_SUB, sn_put_op2(m, in, SN_LOP_DIV, sum, n), centre);
    sn_val off = sn_put_op2(m, in, SN_LOP_MUL, sn_put_op2(m, in, SN_LOP_MUL, d, d), n);
    sn_val all = sn_put_op2(m, in, SN_LOP_ADD, own, off);
    take_over(c, c->pair.squares.at[0], nest, &all);
}

/* The second kernel: k with its reduction over the parts. */
static void finish_kernel(cut *c) {
    sn_module *m = c->m;
    sn_axis s;
    sn_val yields[8];
    sn_stmt nest = over_parts(c, c->nest, &s);
    sn_ix at = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, s), c->rows), flat_row(c, &c->outer));
    for (uint32_t r = 0; r < sn_stmt_get(m, c->nest)->n_results; r++)
        yields[r] = sn_put_load(m, sn_at_end(c->k, nest), c->partial[r], at);
    take_over(c, c->nest, nest, yields);
    if (c->moments) finish_squares(c);
    if (sn_kern_get(m, c->k)->sched.split) sn_kern_get(m, c->k)->sched.split = 1; /* done */
    sn_kern_dead_code(m, c->k);
    sn_kern_collect_params(m, c->k);
    sn_kern_set_precision(m, c->k, sn_kern_get(m, c->k)->sched.precision);
}

sn_status sn_pass_split_reduction(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    if (!cx->target->is_gpu) return SN_OK;
    sn_kern_list out = {0};
    sn_users users;
    const char *why_not;
    uint32_t n = m->kernels.n;
    sn_users_find(&users, m, cx->scratch);
    for (uint32_t i = 0; i < n; i++) {
        cut c = {.cx = cx, .m = m, .k = m->kernels.at[i]};
        if (!sn_kern_get(m, c.k)->scheduled && look(&c) && !sn_stmt_stores(m, c.nest, (sn_buf){0}) &&
            !sn_pass_library_runs(&why_not, cx, c.k)) {
            sn_remark(cx, sn_kern_get(m, c.k)->name, "%lld results of %lld elements: cut into %lld parts%s",
                      (long long)c.rows, (long long)c.count, (long long)c.parts,
                      c.moments ? ", means and squares about them in one reading" : "");
            c.in_order = c.rows > 1 && reduces_along(&c) && is_read_again(&c, &users, i);
            if (!c.outer.n) wrap_in_loop(&c);
            make_partial_buffers(&c);
            make_part(&c);
            finish_kernel(&c);
            SN_PUSH(&m->arena, &out, c.part);
            *changed = true;
        }
        SN_PUSH(&m->arena, &out, c.k);
    }
    m->kernels = out;
    return m->env->status;
}
