/* split_reduction.c: the pass `split-reduction`: a long reduction with few results is cut into two kernels.
 *
 *     k0: %0 = reduce sum r in 268435456 { load x[r] }  store y[0], %0
 *  -> k0_part: loop s in 528 { %0 = reduce sum r in 508416 { load x[508416*s + r] }  store k0_p0[s], %0 }
 *     k0: %0 = reduce sum s in 528 { load k0_p0[s] }  store y[0], %0
 *
 * There are as many parts as keep all multiprocessors busy equally long, and parts of a row begin with a line of
 * memory, so that their vectors are whole ones.
 *
 * Columns that are few, or no multiple of a vector, become wide ones: what stands side by side in memory is reduced
 * side by side, and put together by the second kernel. Either W iterations of the reduction that follow each other,
 *
 *     loop i in 3 { reduce sum r in 4000000 { load x[3*r + i] } }
 *  -> k0_part: loop s in 66 { loop j in 192 { reduce sum q in 947 { load x[181824*s + 192*q + j] }  store k0_p0[192*s + j] } }
 *     k0: loop i in 3 { reduce sum s in 66 { reduce sum w in 64 { load k0_p0[192*s + 3*w + i] } }  store y[i] }
 *
 * or those of an axis of the reduction that stands behind the columns, if these are pieces shorter than a line, or odd:
 *
 *     loop i in 16300 { reduce sum r in 256 { reduce sum c in 3 { load x[48900*r + 3*i + c] } } }
 *  -> k0_part: loop j in 48900 { reduce sum r in 256 { load x[48900*r + j] }  store k0_p0[j] }
 *     k0: loop i in 16300 { reduce sum w in 3 { load k0_p0[3*i + w] }  store y[i] }
 *
 * Decided after fusion, so that it blocks no epilogue: whatever stood behind the reduction stays behind the second
 * one. The order of summation is fixed, so results are the same bits from run to run. Only kernels with one perfect
 * reduce nest that would leave the device idle are cut, or whose columns become wider, and only on a GPU; none that a
 * library runs. Products whose header says how they are done are left whole, and so are those of few rows that keep
 * the memory busy as they are, and those of tiles whose sums are not very long: `choose` cuts those that gain by it.
 * Cost: linear in the kernel.
 */
#include "passes/base/rebuild.h"

#include "passes/schedule/contract_rows.h"
#include "passes/schedule/figures.h"

typedef struct cut {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k, part;
    sn_stmt nest; /* the reduction, in k */
    sn_chain chain, outer;
    int64_t rows, count, parts, length;
    int64_t width; /* iterations that become columns; 1: none */
    bool behind;   /* ... those of the last axis of the reduction; else ones that follow each other in it */
    sn_buf partial[8];
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

/* About `wanted` parts of so many blocks each: a number that leaves multiprocessors hardly idle at the end. A little
 * fewer, if they are of equal length, else the first one that is no smaller, or what comes nearest. */
static int64_t even_parts(const cut *c, int64_t blocks, int64_t wanted, int64_t most) {
    int64_t units = c->cx->target->units, parts = wanted, steps = sn_ceil_div(c->count, c->width);
    double best = 0;
    for (int64_t p = wanted - wanted / SN_SPLIT_FEWER; p <= most && p < wanted + SN_SPLIT_TRIES; p++) {
        double turns = (double)(p * blocks) / (double)units, even = turns / (double)sn_ceil_div(p * blocks, units);
        if (p <= wanted && even * 100 >= SN_SPLIT_EVEN && steps % p == 0) return p;
        if (p >= wanted && best * 100 < SN_SPLIT_EVEN && even > best) best = even, parts = p;
    }
    return parts;
}

/* As many parts as that many blocks a multiprocessor take, of at least so many iterations each. */
static int64_t parts_for(const cut *c, int64_t blocks, int64_t per_unit, int64_t least) {
    int64_t wanted = per_unit * c->cx->target->units / (blocks ? blocks : 1), most = c->count / c->width / least;
    if (c->width > 1 && most > SN_SPLIT_SECOND / c->width) most = SN_SPLIT_SECOND / c->width;
    if (wanted > most) wanted = most;
    return wanted < 2 ? 1 : even_parts(c, blocks, wanted, most < 2 * wanted ? most : 2 * wanted);
}

/* Columns that lie side by side. */
static int64_t columns_of(const cut *c) {
    return c->outer.n ? c->width * sn_ix_value(c->m, sn_stmt_extent(c->m, c->outer.at[c->outer.n - 1])) : 1;
}

/* Number of parts; 1: leave it whole. */
static int64_t choose_parts(const cut *c, bool inner) {
    int64_t units = c->cx->target->units;
    if (inner) {
        if (c->rows >= SN_SPLIT_ENOUGH * units || c->count < SN_SPLIT_LENGTH) return 1;
        return parts_for(c, c->rows, SN_SPLIT_ROW_BLOCKS, SN_SPLIT_PART);
    }
    int64_t blocks = sn_ceil_div(c->rows * c->width, SN_SPLIT_COLUMNS);
    if (blocks >= SN_SPLIT_ENOUGH * units || c->count / c->width < SN_SPLIT_COLUMN) return 1;
    return parts_for(c, blocks, SN_SPLIT_COLUMN_BLOCKS, SN_SPLIT_COLUMN_PART);
}

/* ---- wide columns ---- */

/* What wide columns are made of. */
typedef struct columns {
    uint32_t bytes; /* of the smallest element */
    uint32_t
        lanes; /* that start where a vector may: of the widest accesses, or those that all other axes leave aligned */
} columns;

/* Largest power of two that divides the steps of all axes of a chain but the last one. */
static uint32_t steps_divisor(const cut *c, sn_ix e, const sn_chain *in) {
    uint32_t d = SN_POW2_MOST;
    int64_t step;
    for (uint32_t k = 0; k + 1 < in->n; k++)
        d = sn_ix_coef(c->m, e, sn_stmt_axis(c->m, in->at[k]), &step) ? sn_least(d, sn_pow2_divisor(step)) : 1;
    return d;
}

/* Does everything that the reduction loads lie side by side along the last axis of the reduction and the last outer
 * one together? behind: an element of the latter has those of the former; else an element of the former has those of
 * the latter. */
static bool lies_beside(columns *out, const cut *c, bool behind) {
    sn_module *m = c->m;
    sn_axis r = sn_stmt_axis(m, c->chain.at[c->chain.n - 1]), i = sn_stmt_axis(m, c->outer.at[c->outer.n - 1]);
    int64_t of_r, of_i, n_r = sn_ix_value(m, sn_axis_get(m, r)->extent),
                        n_i = sn_ix_value(m, sn_axis_get(m, i)->extent);
    sn_stmt end = sn_stmt_walk_skip(m, c->nest);
    *out = (columns){0, SN_POW2_MOST};
    for (sn_stmt s = c->nest; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *st = sn_stmt_get(m, s);
        if (!sn_is_access(st)) continue;
        if (!sn_ix_coef(m, st->ix, r, &of_r) || !sn_ix_coef(m, st->ix, i, &of_i) || st->has_mask) return false;
        if (behind ? of_r != 1 || of_i != n_r : of_i != 1 || of_r != n_i) return false;
        sn_schedule_smaller(&out->bytes, sn_dtype_bytes(sn_buf_get(m, st->buf)->dtype));
        out->lanes =
            sn_least(out->lanes, sn_least(steps_divisor(c, st->ix, &c->outer), steps_divisor(c, st->ix, &c->chain)));
    }
    if (out->bytes) out->lanes = sn_least(out->lanes, sn_widest_alone(c->cx, out->bytes));
    return out->bytes > 0;
}

/* Is the row that a part of is small enough for a second kernel to be worth it? One is made anyway where results are
 * few. */
static bool is_worth_it(const cut *c, const columns *co, int64_t blocks, int64_t least) {
    int64_t bytes = sn_mul_clamped(sn_mul_clamped(c->rows, c->count), co->bytes);
    return bytes >= (blocks < SN_SPLIT_ENOUGH * c->cx->target->units ? SN_SPLIT_BYTES : least);
}

/* Those of the last axis of the reduction, where they are pieces of lines, or odd. */
static void widen_behind(cut *c, const columns *co, int64_t n, int64_t last) {
    bool odd = sn_least(co->lanes, sn_pow2_divisor(last)) < sn_least(co->lanes, sn_pow2_divisor(n * last));
    bool pieces = last * co->bytes < SN_LINE;
    c->behind = (pieces || odd) && n * last >= SN_SPLIT_COLUMNS && c->count / last >= SN_SPLIT_WIDE_COLUMN &&
                is_worth_it(c, co, c->rows, pieces ? SN_SPLIT_BYTES : SN_SPLIT_ODD_BYTES);
    if (c->behind) c->width = last;
}

static void widen(cut *c) {
    columns co;
    c->width = 1;
    if (!c->outer.n) return;
    int64_t n = columns_of(c), last = sn_ix_value(c->m, sn_stmt_extent(c->m, c->chain.at[c->chain.n - 1])), w = 1;
    if (c->chain.n > 1 && lies_beside(&co, c, true)) {
        widen_behind(c, &co, n, last);
        return;
    }
    if (!lies_beside(&co, c, false)) return;
    bool pieces = n * co.bytes < SN_LINE;
    if (!pieces && sn_pow2_divisor(n) >= co.lanes) return;
    if (!is_worth_it(c, &co, sn_ceil_div(c->rows, SN_SPLIT_COLUMNS), pieces ? SN_SPLIT_BYTES : SN_SPLIT_ODD_BYTES))
        return;
    while (w * n < SN_SPLIT_COLUMNS || sn_pow2_divisor(w * n) < co.lanes) w *= 2;
    if (c->count / w >= SN_SPLIT_WIDE_COLUMN && (c->chain.n == 1 || last % w == 0)) c->width = w;
}

/* Do tiles of a product fill the device well enough? Their operands are shared, so that few blocks do what many rows
 * would. */
static bool is_tiled(const cut *c) {
    sn_contraction product;
    const char *why_not;
    double cycles;
    if (c->count >= SN_SPLIT_LENGTH || !sn_contraction_find(&product, &why_not, c->cx, c->k)) return false;
    if (product.m < 2 || product.n < 2) return false;
    return sn_schedule_count(&cycles, c->cx, c->k, SN_SCHED_CONTRACT) == SN_OK && cycles > 0;
}

static bool look(cut *c) {
    sn_module *m = c->m;
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
    c->width = 1;
    if (!pinned) widen(c);
    bool inner = c->width == 1 && reduces_along(c);
    c->parts = pinned ? pinned : choose_parts(c, inner);
    c->length = sn_ceil_div(sn_ceil_div(c->count, c->width), c->parts);
    if (!pinned && inner) c->length = sn_ceil_div(c->length, SN_SPLIT_LINE) * SN_SPLIT_LINE;
    if (!pinned) c->parts = sn_ceil_div(sn_ceil_div(c->count, c->width), c->length);
    return c->parts > 1 || c->width > 1;
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
}

/* The flat position in the partial results of a part. column: in the last outer axis, which is of so many columns;
 * none: the axis. */
static sn_ix flat_row(const cut *c, const sn_chain *outer, sn_ix column, int64_t columns) {
    sn_ix index[SN_MAX_CHAIN], shape[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < outer->n; k++) {
        index[k] = sn_ix_axis(c->m, sn_stmt_axis(c->m, outer->at[k]));
        shape[k] = sn_stmt_extent(c->m, outer->at[k]);
    }
    if (column.i) index[outer->n - 1] = column, shape[outer->n - 1] = sn_ix_const(c->m, columns);
    return sn_ix_flatten(c->m, index, shape, outer->n);
}

static void make_partial_buffers(cut *c) {
    const sn_stmt_rec *nest = sn_stmt_get(c->m, c->nest);
    sn_ix shape[2] = {sn_ix_const(c->m, c->parts), sn_ix_const(c->m, c->rows * c->width)};
    for (uint32_t r = 0; r < nest->n_results; r++) {
        const char *name = sn_strf(&c->m->arena, "%s_p%u", sn_kern_get(c->m, c->k)->name, r);
        c->partial[r] = sn_buf_new(c->m, name, sn_val_get(c->m, sn_result(nest, r))->dtype, SN_BUF_TEMP, shape, 2);
        sn_buf_get(c->m, c->partial[r])->align = 256;
    }
}

/* The loop over columns, in the copy, becomes one over wide ones. Out: which of the W iterations a column is of, and
 * the test of what goes beyond the last one: rows of W columns are whole, or each column has a test of its own. */
static sn_ix widen_columns(cut *c, sn_stmt loop, sn_nest_test *test) {
    sn_module *m = c->m;
    sn_axis i = sn_stmt_axis(m, loop);
    int64_t w = c->width, n = sn_ix_value(m, sn_axis_get(m, i)->extent);
    sn_axis j = sn_axis_new(m, "j", sn_ix_const(m, n * w));
    sn_ix at = sn_ix_axis(m, j), column = c->behind ? sn_ix_divc(m, at, w) : sn_ix_modc(m, at, n),
          turn = c->behind ? sn_ix_modc(m, at, w) : sn_ix_divc(m, at, n);
    sn_stmt_subst(m, loop, &i, &column, 1);
    sn_stmt_get(m, loop)->axis = j;
    bool whole = c->count % w == 0;
    *test = (sn_nest_test){whole ? 1 : n, whole ? sn_ix_scale(m, turn, -1) : column};
    return turn;
}

/* The first kernel: a copy of k whose reduction covers one part and whose results go to the partial buffers. */
static void make_part(cut *c) {
    sn_module *m = c->m;
    c->part = sn_kern_new(m, sn_strf(&m->arena, "%s_part", sn_kern_get(m, c->k)->name));
    sn_kern_get(m, c->part)->note = sn_kern_get(m, c->k)->note;
    sn_axis s = sn_axis_new(m, "s", sn_ix_const(m, c->parts));
    sn_stmt top = {0};
    if (c->parts > 1) top = sn_put_loop(m, sn_at_end(c->part, (sn_stmt){0}), s, SN_AXIS_SEQ);
    sn_stmt copy = sn_stmt_clone(m, sn_at_end(c->part, top), c->outer.at[0]);
    sn_chain outer = {.n = 1, .at = {copy}}, chain;
    while (outer.n < c->outer.n) outer.at[outer.n] = sn_stmt_get(m, outer.at[outer.n - 1])->first, outer.n++;
    sn_stmt body = outer.at[outer.n - 1], nest = only_nest(m, c->part, body);
    for (sn_stmt t = sn_stmt_get(m, body)->first, next; t.i; t = next) {
        next = sn_next(m, t);
        if (sn_stores(sn_stmt_get(m, t))) sn_stmt_unlink(m, t);
    }
    sn_nest_test test;
    sn_ix turn = c->width > 1 ? widen_columns(c, body, &test) : (sn_ix){0};
    sn_nest_perfect(&chain, m, nest);
    sn_level level = {c->width > 1 ? "q" : "r", c->length, c->width, SN_AXIS_SEQ};
    sn_ix of_part = c->parts > 1 ? sn_ix_axis(m, s) : sn_ix_const(m, 0);
    sn_ix base = sn_ix_scale(m, of_part, c->length * c->width);
    if (turn.i) base = sn_ix_add(m, base, turn);
    nest = sn_nest_rebuild_by(c->cx, c->part, nest, &chain, base, c->count, &level, 1, turn.i ? &test : NULL);
    sn_ix at = sn_ix_add(m, sn_ix_scale(m, of_part, c->rows * c->width), flat_row(c, &outer, (sn_ix){0}, 0));
    for (uint32_t r = 0; r < sn_stmt_get(m, nest)->n_results; r++)
        sn_put_store(m, sn_at_end(c->part, body), c->partial[r], at, sn_result(sn_stmt_get(m, nest), r));
    sn_kern_dead_code(m, c->part);
    sn_kern_collect_params(m, c->part);
    sn_kern_set_precision(m, c->part, sn_kern_get(m, c->k)->sched.precision);
}

/* Where the partial results of part s and iteration w of each result are. */
static sn_ix partial_at(const cut *c, sn_ix s, sn_ix w) {
    sn_module *m = c->m;
    sn_ix column = {0};
    if (w.i) {
        sn_axis i = sn_stmt_axis(m, c->outer.at[c->outer.n - 1]);
        int64_t n = sn_ix_value(m, sn_axis_get(m, i)->extent);
        column = c->behind ? sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, i), c->width), w)
                           : sn_ix_add(m, sn_ix_scale(m, w, n), sn_ix_axis(m, i));
    }
    sn_ix row = flat_row(c, &c->outer, column, columns_of(c));
    return s.i ? sn_ix_add(m, sn_ix_scale(m, s, c->rows * c->width), row) : row;
}

/* The second kernel: k with its reduction over the parts. */
static void finish_kernel(cut *c) {
    sn_module *m = c->m;
    const sn_stmt_rec *old = sn_stmt_get(m, c->nest);
    sn_dtype dtypes[8];
    sn_val yields[8];
    for (uint32_t r = 0; r < old->n_results; r++) dtypes[r] = sn_val_get(m, sn_result(old, r))->dtype;
    sn_axis axes[2];
    sn_stmt nests[2];
    sn_ix at[2] = {{0}, {0}}; /* part; iteration of a wide column */
    uint32_t n = 0;
    int64_t extents[2] = {c->parts, c->width};
    for (uint32_t i = 0; i < 2; i++) {
        if (extents[i] == 1) continue;
        sn_cursor into = n ? sn_at_end(c->k, nests[n - 1]) : sn_at_before(m, c->nest);
        axes[n] = sn_axis_new(m, i ? "w" : "s", sn_ix_const(m, extents[i]));
        at[i] = sn_ix_axis(m, axes[n]);
        nests[n] = sn_put_reduce(m, into, axes[n], SN_AXIS_SEQ, old->combs, old->n_combs, dtypes);
        n++;
    }
    sn_ix place = partial_at(c, at[0], at[1]);
    for (uint32_t r = 0; r < old->n_results; r++)
        yields[r] = sn_put_load(m, sn_at_end(c->k, nests[n - 1]), c->partial[r], place);
    for (uint32_t i = n; i-- > 0;) {
        sn_put_yield(m, sn_at_end(c->k, nests[i]), yields, old->n_results);
        for (uint32_t r = 0; r < old->n_results; r++) yields[r] = sn_result(sn_stmt_get(m, nests[i]), r);
    }
    sn_stmt nest = nests[0];
    for (uint32_t r = 0; r < old->n_results; r++)
        sn_val_replace(m, c->k, sn_result(old, r), sn_result(sn_stmt_get(m, nest), r));
    sn_stmt_unlink(m, c->nest);
    if (sn_kern_get(m, c->k)->sched.split) sn_kern_get(m, c->k)->sched.split = 1; /* done */
    sn_kern_dead_code(m, c->k);
    sn_kern_collect_params(m, c->k);
    sn_kern_set_precision(m, c->k, sn_kern_get(m, c->k)->sched.precision);
}

sn_status sn_pass_split_reduction(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    if (!cx->target->is_gpu) return SN_OK;
    sn_kern_list out = {0};
    const char *why_not;
    uint32_t n = m->kernels.n;
    for (uint32_t i = 0; i < n; i++) {
        cut c = {.cx = cx, .m = m, .k = m->kernels.at[i]};
        if (!sn_kern_get(m, c.k)->scheduled && look(&c) && !sn_stmt_stores(m, c.nest, (sn_buf){0}) &&
            !sn_pass_library_runs(&why_not, cx, c.k)) {
            sn_remark(cx, sn_kern_get(m, c.k)->name, "%lld results of %lld elements: cut into %lld parts%s",
                      (long long)c.rows, (long long)c.count, (long long)c.parts, c.width > 1 ? " of wide columns" : "");
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
