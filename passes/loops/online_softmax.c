/* online_softmax.c: the pass `online-softmax`: the maximum of a row and the sum of e^(x - maximum) in one reading of
 * the row.
 *
 *     %m = reduce max r in N { %0 = load x[r]  yield %0 }
 *     %s = reduce sum r in N { %1 = load x[r]  %2 = sub %1, %m  %3 = exp %2  yield %3 }
 *  -> %m, %t = reduce sumexp r in N { %0 = load x[r]  %1 = const 1  yield %0, %1 }
 *     %2 = sub %m, %m  %3 = exp %2  %s = mul %t, %3
 *
 * Legal because sum e^(x - c) = t * e^(m - c) for every c (ir/ops/combs.def); the product gives infinite maxima the sum
 * that the two loops give. What is subtracted may be the maximum, or the maximum with something else in place of
 * infinities. The two nests must have the same extents and compute x alike from memory that the kernel does not store
 * to.
 *
 * Costs an exponential a group of elements, and rescaling; saves a reading. It pays where the row does not stay in
 * registers between the two loops (stays_in_registers). Of f64 an exponential is dozens of operations, more than a reading
 * of shared memory: rows that stay there on a GPU are left as they are (stays_in_shared), so that what is added up is
 * computed once and stays for the loop that divides it (schedule/rows/stage.c). Cost of the pass: pairs of nests of a kernel times statements
 * in them.
 */
#include "passes/base/twins.h"
#include "passes/schedule/base/constants.h"

enum { MAX_STATES = 8 };

typedef struct online {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_chain outer, max, sum;
    uint32_t comb, state; /* of the maximum, in the reduce `max` */
    sn_val shifts[4];     /* what is subtracted in `sum`, by combiner */
    sn_twins twins;       /* of `max` and `sum` */
} online;

static const sn_stmt_rec *def_of(const sn_module *m, sn_val v) { return sn_stmt_get(m, sn_val_get(m, v)->def); }

/* ---- is it the pair of loops? ---- */

static bool is_reduce(const sn_module *m, sn_stmt s) {
    return sn_stmt_get(m, s)->op == SN_LOP_REDUCE && sn_stmt_get(m, s)->kind == SN_AXIS_SEQ;
}

/* c is m, or select(isinf m, something, m) outside of the loop `sum`. */
static bool is_shift(const online *on, sn_val c, sn_val max) {
    const sn_module *m = on->m;
    if (c.i == max.i) return true;
    const sn_stmt_rec *r = def_of(m, c);
    if (r->op != SN_LOP_SELECT || r->in[2].i != max.i) return false;
    if (sn_stmt_inside(m, sn_val_get(m, c)->def, on->sum.at[0])) return false;
    const sn_stmt_rec *test = def_of(m, r->in[0]);
    return test->op == SN_LOP_ISINF && test->in[0].i == max.i;
}

static sn_stmt yield_of(const sn_module *m, const sn_chain *c) { return sn_stmt_get(m, c->at[c->n - 1])->last; }

/* Does the combiner c of `sum` add up e^(x - shift), x being what the combiner on->comb of `max` sees? */
static bool matches_one(online *on, uint32_t c) {
    const sn_module *m = on->m;
    const sn_stmt_rec *max = sn_stmt_get(m, on->max.at[0]), *sum = sn_stmt_get(m, on->sum.at[0]);
    const sn_stmt_rec *e = def_of(m, sn_stmt_get(m, yield_of(m, &on->sum))->in[c]);
    if (sum->combs[c] != SN_COMB_SUM || e->op != SN_LOP_EXP) return false;
    const sn_stmt_rec *sub = def_of(m, e->in[0]);
    if (sub->op != SN_LOP_SUB || !is_shift(on, sub->in[1], sn_result(max, on->state))) return false;
    on->shifts[c] = sub->in[1];
    return sn_twins_alike(&on->twins, sn_stmt_get(m, yield_of(m, &on->max))->in[on->state], sub->in[0]);
}

/* Every combiner of `sum` has to match: one that does not would still read the row. Nor may it store on the way. */
static bool matches(online *on) {
    const sn_stmt_rec *sum = sn_stmt_get(on->m, on->sum.at[0]);
    if (sn_stmt_stores(on->m, on->sum.at[0], (sn_buf){0})) return false;
    for (uint32_t c = 0; c < sum->n_combs; c++)
        if (sn_combs[sum->combs[c]].states != 1 || !matches_one(on, c)) return false;
    return true;
}

/* Sets comb and state to the maximum that `sum` belongs to. */
static bool find_max(online *on) {
    const sn_stmt_rec *max = sn_stmt_get(on->m, on->max.at[0]);
    if (!sn_twins_extents(&on->twins) || max->n_results == MAX_STATES) return false;
    on->state = 0;
    for (on->comb = 0; on->comb < max->n_combs; on->state += sn_combs[max->combs[on->comb++]].states)
        if (max->combs[on->comb] == SN_COMB_MAX && sn_is_float(sn_val_get(on->m, sn_result(max, on->state))->dtype) &&
            matches(on))
            return true;
    return false;
}

/* ---- does it pay? ---- */

/* Does another nest of the row load what `max` loads? */
static bool row_is_wanted(const online *on) {
    sn_stmt body = on->outer.n ? on->outer.at[on->outer.n - 1] : (sn_stmt){0};
    sn_stmt end = sn_stmt_walk_skip(on->m, on->max.at[0]);
    for (sn_stmt load = on->max.at[0]; load.i != end.i; load = sn_stmt_walk_next(on->m, load)) {
        if (!sn_loads(sn_stmt_get(on->m, load))) continue;
        for (sn_stmt s = sn_region_first(on->m, on->k, body); s.i; s = sn_next(on->m, s)) {
            if (!sn_is_nest(sn_stmt_get(on->m, s)) || s.i == on->max.at[0].i || s.i == on->sum.at[0].i) continue;
            if (sn_stmt_loads(on->m, s, sn_stmt_get(on->m, load)->buf)) return true;
        }
    }
    return false;
}

static bool is_f64(const online *on) {
    return sn_val_get(on->m, sn_result(sn_stmt_get(on->m, on->max.at[0]), on->state))->dtype == SN_F64;
}

/* Does a row consist of pieces shorter than a line, others' between them? What goes on where an axis ends is one axis with it. */
static bool is_in_pieces(const online *on) {
    uint32_t least;
    sn_stmt last = on->max.at[on->max.n - 1];
    sn_nest_bytes_along(on->m, on->max.at[0], sn_stmt_axis(on->m, last), &least);
    return on->max.n > 1 && sn_mul_clamped(least, sn_ix_value(on->m, sn_stmt_extent(on->m, last))) < SN_LINE;
}

/* A row along memory stays in registers up to a length, if it is wanted again. A longer one may stay in shared memory,
 * but then blocks of a cluster put it together: once instead of twice. Columns are not kept, but a few of their
 * elements are still in the cache; nor are rows of pieces that nothing else wants: what stands side by side is read once, as columns
 * (wide_columns.c). On a GPU a term of f64 in sumexp is shorter than an exponential, so that rows of any length that
 * nothing else wants are read once. */
static bool stays_in_registers(const online *on) {
    int64_t count = sn_chain_count(on->m, &on->max);
    uint32_t bytes, least;
    int64_t along = sn_nest_bytes_along(on->m, on->max.at[0], sn_stmt_axis(on->m, on->max.at[on->max.n - 1]), &bytes);
    sn_stmt body = on->outer.n ? on->outer.at[on->outer.n - 1] : (sn_stmt){0};
    if (body.i && sn_nest_bytes_along(on->m, on->max.at[0], sn_stmt_axis(on->m, body), &least) > along)
        return count <= SN_SHORT_COLUMN;
    const sn_target *t = on->cx->target;
    bool once =
        count > SN_LONG_ROW || (t && t->is_gpu && (is_f64(on) || (count > SN_SHORT_COLUMN && is_in_pieces(on))));
    if (once && !row_is_wanted(on)) return false;
    return count <= sn_row_registers(bytes);
}

/* Rows (or sectors of columns) of f64 that a class of rows will keep in shared memory: they fit with room to spare, of a
 * cluster or of a block, and fill the device, since those that are too few are cut, which wants one reduction. */
static bool stays_in_shared(const online *on) {
    const sn_module *m = on->m;
    const sn_target *t = on->cx->target;
    if (!t || !t->is_gpu || !on->outer.n || !row_is_wanted(on)) return false;
    if (!is_f64(on)) return false;
    int64_t count = sn_chain_count(m, &on->max), rows = sn_chain_count(m, &on->outer), room = t->shared_bytes / 2;
    int64_t bytes = count * sn_dtype_bytes(SN_F64), columns = SN_SECTOR / sn_dtype_bytes(SN_F64);
    uint32_t least;
    int64_t along = sn_nest_bytes_along(on->m, on->max.at[0], sn_stmt_axis(m, on->max.at[on->max.n - 1]), &least);
    sn_stmt body = on->outer.at[on->outer.n - 1];
    if (sn_nest_bytes_along(on->m, on->max.at[0], sn_stmt_axis(m, body), &least) > along)
        return bytes * columns <= room * t->cluster && rows * t->cluster >= columns * t->units;
    return bytes <= room * t->cluster && rows * t->cluster >= t->units;
}

/* ---- one loop ---- */

/* The levels of `max` again, with sumexp in place of the maximum; the old results are replaced. Returns the sum. */
static sn_val rebuild_max(online *on) {
    sn_module *m = on->m;
    const sn_stmt_rec *old = sn_stmt_get(m, on->max.at[0]);
    sn_stmt made[SN_MAX_CHAIN], yield = yield_of(m, &on->max);
    sn_comb combs[SN_COUNT(old->combs)];
    sn_dtype dtypes[MAX_STATES];
    sn_val x[MAX_STATES];
    uint32_t n = old->n_results + 1, sum = on->state + 1, last = on->max.n - 1;
    for (uint32_t c = 0; c < old->n_combs; c++) combs[c] = c == on->comb ? SN_COMB_SUMEXP : old->combs[c];
    for (uint32_t r = 0; r < n; r++) dtypes[r] = sn_val_get(m, sn_result(old, r < sum ? r : r - 1))->dtype;
    for (uint32_t l = 0; l <= last; l++) {
        made[l] = sn_put_reduce(m, l ? sn_at_end(on->k, made[l - 1]) : sn_at_before(m, on->max.at[0]),
                                sn_stmt_axis(m, on->max.at[l]), SN_AXIS_SEQ, combs, old->n_combs, dtypes);
        sn_stmt_get(m, made[l])->from = old->from;
    }
    for (sn_stmt s = sn_stmt_get(m, on->max.at[last])->first, next; s.i != yield.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        sn_stmt_insert(m, sn_at_end(on->k, made[last]), s);
    }
    sn_cursor inside = sn_at_end(on->k, made[last]);
    for (uint32_t r = 0; r < n; r++)
        x[r] = r == sum ? sn_put_const(m, inside, dtypes[sum], 1) : sn_stmt_get(m, yield)->in[r < sum ? r : r - 1];
    for (uint32_t l = on->max.n; l-- > 0;) {
        sn_put_yield(m, sn_at_end(on->k, made[l]), x, n);
        for (uint32_t r = 0; r < n; r++) x[r] = sn_result(sn_stmt_get(m, made[l]), r);
    }
    for (uint32_t r = 0; r < n; r++)
        if (r != sum) sn_val_replace(m, on->k, sn_result(old, r < sum ? r : r - 1), x[r]);
    sn_stmt_unlink(m, on->max.at[0]);
    return x[sum];
}

static void rewrite(online *on) {
    sn_module *m = on->m;
    sn_val old = sn_result(sn_stmt_get(m, on->max.at[0]), on->state);
    sn_val total = rebuild_max(on), max = {total.i - 1};
    const sn_stmt_rec *sum = sn_stmt_get(m, on->sum.at[0]);
    sn_cursor at = sn_at_before(m, on->sum.at[0]);
    for (uint32_t c = 0; c < sum->n_combs; c++) {
        sn_val rest = sn_put_op2(m, at, SN_LOP_SUB, max, on->shifts[c].i == old.i ? max : on->shifts[c]);
        sn_val scaled = sn_put_op2(m, at, SN_LOP_MUL, total, sn_put_op1(m, at, SN_LOP_EXP, rest));
        sn_val_replace(m, on->k, sn_result(sum, c), scaled);
    }
    sn_stmt_unlink(m, on->sum.at[0]);
}

/* ---- the pass ---- */

static bool first_pair(online *on) {
    sn_module *m = on->m;
    sn_stmt body = on->outer.n ? on->outer.at[on->outer.n - 1] : (sn_stmt){0};
    for (sn_stmt two = sn_region_first(m, on->k, body); two.i; two = sn_next(m, two)) {
        if (!is_reduce(m, two) || !sn_nest_perfect(&on->sum, m, two)) continue;
        for (sn_stmt one = sn_region_first(m, on->k, body); one.i != two.i; one = sn_next(m, one))
            if (is_reduce(m, one) && sn_nest_perfect(&on->max, m, one) && find_max(on) && !stays_in_registers(on) &&
                !stays_in_shared(on))
                return true;
    }
    return false;
}

/* A pair is two; most kernels have none, and need no notes about all values of the module. */
static bool has_two_reductions(const sn_module *m, sn_kern k) {
    uint32_t n = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s))
        n += sn_stmt_get(m, s)->op == SN_LOP_REDUCE;
    return n > 1;
}

sn_status sn_pass_online_softmax(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        online on = {.cx = cx, .m = m, .k = m->kernels.at[i]};
        bool any = false;
        if (sn_kern_get(m, on.k)->scheduled || !has_two_reductions(m, on.k)) continue;
        sn_chain_outer(&on.outer, m, on.k);
        for (;; any = true) {
            on.twins = (sn_twins){m, on.k, &on.max, &on.sum, {.arena = cx->scratch}};
            if (!first_pair(&on)) break;
            sn_remark(cx, sn_kern_get(m, on.k)->name, "maximum and sum of %lld exponentials in one reading",
                      (long long)sn_chain_count(m, &on.max));
            rewrite(&on);
        }
        if (any) sn_kern_dead_code(m, on.k), sn_kern_cse(m, on.k);
        *changed |= any;
    }
    return m->env->status;
}
