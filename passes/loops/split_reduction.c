/* split_reduction.c: the pass `split-reduction`: a long reduction with few results is cut into two kernels.
 *
 *     k0: %0 = reduce sum r in 268435456 { load x[r] }  store y[0], %0
 *  -> k0_part: loop s in 1024 { %0 = reduce sum r in 262144 { load x[262144*s + r] }  store k0_p0[s], %0 }
 *     k0: %0 = reduce sum s in 1024 { load k0_p0[s] }  store y[0], %0
 *
 * Decided after fusion, so that it blocks no epilogue: whatever stood behind the reduction stays behind the second one.
 * The order of summation is fixed, so results are the same bits from run to run. Only kernels with one perfect reduce
 * nest that would leave the device idle are cut, and only on a GPU; none that a library runs. Products whose header says
 * how they are done are left whole, and so are those of few rows that keep the memory busy as they are, and those of tiles
 * whose sums are not very long: `choose` cuts those that gain by it. Cost: linear in the kernel.
 */
#include "passes/base/rebuild.h"

#include "passes/schedule/contract_rows.h"

typedef struct cut {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k, part;
    sn_stmt nest; /* the reduction, in k */
    sn_chain chain, outer;
    int64_t rows, count, parts, length;
    sn_ix row; /* flat position of the outer loops, in k */
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
    c->parts = pinned ? pinned : choose_parts(c, reduces_along(c));
    c->length = (c->count + c->parts - 1) / c->parts;
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
    for (uint32_t r = 0; r < nest->n_results; r++) {
        const char *name = sn_strf(&c->m->arena, "%s_p%u", sn_kern_get(c->m, c->k)->name, r);
        c->partial[r] = sn_buf_new(c->m, name, sn_val_get(c->m, sn_result(nest, r))->dtype, SN_BUF_TEMP, shape, 2);
        sn_buf_get(c->m, c->partial[r])->align = 256;
    }
}

/* The first kernel: a copy of k whose reduction covers one part and whose results go to the partial buffers. */
static void make_part(cut *c) {
    sn_module *m = c->m;
    c->part = sn_kern_new(m, sn_strf(&m->arena, "%s_part", sn_kern_get(m, c->k)->name));
    sn_kern_get(m, c->part)->note = sn_kern_get(m, c->k)->note;
    sn_axis s = sn_axis_new(m, "s", sn_ix_const(m, c->parts));
    sn_stmt top = sn_put_loop(m, sn_at_end(c->part, (sn_stmt){0}), s, SN_AXIS_SEQ);
    sn_stmt copy = sn_stmt_clone(m, sn_at_end(c->part, top), c->outer.at[0]);
    sn_chain outer = {.n = 1, .at = {copy}}, chain;
    while (outer.n < c->outer.n) outer.at[outer.n] = sn_stmt_get(m, outer.at[outer.n - 1])->first, outer.n++;
    sn_stmt body = outer.at[outer.n - 1], nest = only_nest(m, c->part, body);
    sn_nest_perfect(&chain, m, nest);
    for (sn_stmt t = sn_stmt_get(m, body)->first, next; t.i; t = next) {
        next = sn_next(m, t);
        if (sn_stores(sn_stmt_get(m, t))) sn_stmt_unlink(m, t);
    }
    sn_level level = {"r", c->length, 1, SN_AXIS_SEQ};
    sn_ix base = sn_ix_scale(m, sn_ix_axis(m, s), c->length);
    nest = sn_nest_rebuild(c->cx, c->part, nest, &chain, base, c->count, &level, 1);
    sn_ix at = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, s), c->rows), flat_row(c, &outer));
    for (uint32_t r = 0; r < sn_stmt_get(m, nest)->n_results; r++)
        sn_put_store(m, sn_at_end(c->part, body), c->partial[r], at, sn_result(sn_stmt_get(m, nest), r));
    sn_kern_dead_code(m, c->part);
    sn_kern_collect_params(m, c->part);
    sn_kern_set_precision(m, c->part, sn_kern_get(m, c->k)->sched.precision);
}

/* The second kernel: k with its reduction over the parts. */
static void finish_kernel(cut *c) {
    sn_module *m = c->m;
    const sn_stmt_rec *old = sn_stmt_get(m, c->nest);
    sn_dtype dtypes[8];
    sn_val yields[8];
    for (uint32_t r = 0; r < old->n_results; r++) dtypes[r] = sn_val_get(m, sn_result(old, r))->dtype;
    sn_axis s = sn_axis_new(m, "s", sn_ix_const(m, c->parts));
    sn_stmt nest = sn_put_reduce(m, sn_at_before(m, c->nest), s, SN_AXIS_SEQ, old->combs, old->n_combs, dtypes);
    sn_ix at = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, s), c->rows), flat_row(c, &c->outer));
    for (uint32_t r = 0; r < old->n_results; r++) yields[r] = sn_put_load(m, sn_at_end(c->k, nest), c->partial[r], at);
    sn_put_yield(m, sn_at_end(c->k, nest), yields, old->n_results);
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
            sn_remark(cx, sn_kern_get(m, c.k)->name, "%lld results of %lld elements: cut into %lld parts",
                      (long long)c.rows, (long long)c.count, (long long)c.parts);
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
