/* short_rows.c: the pass `short-rows`: on the CPU short rows become straight-line code, so that lanes go along the axis around them.
 *
 *     loop i in 1000 { loop c in 3 { %0 = load x[3*i + c]  %1 = load b[c]  store y[3*i + c], %0 + %1 } }
 *  -> loop i in 1000 { store y[3*i], x[3*i] + b[0]  store y[3*i + 1], x[3*i + 1] + b[1]  store y[3*i + 2], .. }
 *
 * Pixels, coordinates of points, small matrices: a vector along such a row has room for several of them and goes through one; and what
 * rows choose by the channel (a concatenation of channels) is computed for all of them. Written out, channels are vectors of rows, which
 * come and go by whole vectors (codegen-llvm/apart.c), tests of the channel are decided, what channels share is computed once, and so is
 * what one of them alone wants (needed.c).
 *
 * Legal: iterations of loops are independent, and stay in their order; reductions combine in theirs. Not done where
 * every access walks rows as one (collapse), where nothing lies apart along the rows, of windows that overlap (class
 * window), where class contract has vectors of columns, and where it takes more instructions: both sides are counted,
 * for as many rows as a vector has lanes. Cost: linear in what is written.
 */
#include "passes/loops/needed.h"
#include "passes/loops/write_out.h"
#include "passes/schedule/products/contraction.h"
#include "passes/schedule/base/figures.h"

typedef struct rows {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_stmt around; /* the loop over rows, along which lanes would go */
    int64_t lanes;
    double before, after; /* instructions for as many rows as a vector has lanes */
    double written;
    sn_notes needed; /* of statements in loops without loops: in how many iterations (needed.c) */
    bool flat;       /* every access walks rows as one, and nothing is tested */
    bool stores;     /* something lies at equal distances that lanes reach by whole vectors */
    bool apart;      /* ... and some of what is loaded or stored not side by side */
} rows;

static bool extent_of(const rows *r, sn_stmt s, int64_t *out) {
    return sn_ix_is_const(r->m, sn_stmt_extent(r->m, s), out);
}

/* ---- what may be written out ---- */

/* Iterations of the loops around s, inside of the loop over rows. */
static int64_t times(const rows *r, sn_stmt s) {
    int64_t n = 1, extent;
    for (sn_stmt up = sn_stmt_get(r->m, s)->parent; up.i != r->around.i; up = sn_stmt_get(r->m, up)->parent)
        if (sn_is_nest(sn_stmt_get(r->m, up)) && extent_of(r, up, &extent)) n = sn_mul_clamped(n, extent);
    return n;
}

static bool may_write(rows *r, sn_stmt s) {
    const sn_stmt_rec *of = sn_stmt_get(r->m, s);
    int64_t extent;
    if (of->op == SN_LOP_ACCUM || of->op == SN_LOP_IF) return false;
    if (!sn_is_nest(of)) return !sn_lop_has_region(of->op);
    if (of->kind != SN_AXIS_SEQ || !extent_of(r, s, &extent) || extent > SN_SHORT_STEPS) return false;
    return of->op == SN_LOP_LOOP || sn_may_write_out(r->m, s, SN_SHORT_STEPS);
}

/* ---- what it takes ---- */

static bool chooses(const sn_stmt_rec *s) {
    return s->op == SN_LOP_IN || s->op == SN_LOP_CONST || s->op == SN_LOP_SELECT || s->op == SN_LOP_AND;
}

/* Do a reduction's windows overlap, from row to row? */
static bool slides(const rows *r, sn_stmt s) {
    const sn_stmt_rec *of = sn_stmt_get(r->m, s);
    int64_t of_rows, step, extent;
    if (!sn_ix_coef(r->m, of->ix, sn_stmt_axis(r->m, r->around), &of_rows) || of_rows < 1) return false;
    for (sn_stmt up = of->parent; up.i != r->around.i; up = sn_stmt_get(r->m, up)->parent) {
        if (sn_stmt_get(r->m, up)->op != SN_LOP_REDUCE || !extent_of(r, up, &extent)) continue;
        if (!sn_ix_coef(r->m, of->ix, sn_stmt_axis(r->m, up), &step) || step < 1) continue;
        if (step <= of_rows && of_rows < step * extent) return true;
    }
    return false;
}

/* Lanes along rows: neighbours and numbers take an instruction, others at equal distances one a vector and one to put it
 * in place, the rest one a lane. */
static double access_cost(rows *r, const sn_stmt_rec *s) {
    sn_axis ax = sn_stmt_axis(r->m, r->around);
    int64_t c;
    if (sn_ix_uses_vals(r->m, s->ix)) return (double)r->lanes;
    if (!sn_ix_uses_axis(r->m, s->ix, ax)) return 1;
    if (!sn_ix_coef(r->m, s->ix, ax, &c) || c < 1 || c > SN_MOST_APART) return (double)r->lanes;
    r->stores |= s->op == SN_LOP_STORE;
    r->apart |= c > 1;
    return c == 1 ? 1 : s->op == SN_LOP_STORE ? (double)c : 2 * (double)c - 1;
}

/* Which part of the iterations of its loop wants s? */
static double share_of(const rows *r, sn_stmt s) {
    uint64_t wanted;
    int64_t extent;
    if (!sn_notes_find(&r->needed, s.i, &wanted) || !extent_of(r, sn_stmt_get(r->m, s)->parent, &extent)) return 1;
    return (double)wanted / (double)extent;
}

/* How often s is there when loops are written out and equal loads are one: by the loops whose axes it uses. */
static double copies_of(const rows *r, sn_stmt s) {
    const sn_stmt_rec *of = sn_stmt_get(r->m, s);
    int64_t n = 1, extent;
    if (of->op == SN_LOP_LOAD && of->has_mask) return 1;
    for (sn_stmt up = of->parent; up.i != r->around.i; up = sn_stmt_get(r->m, up)->parent) {
        bool used = !sn_is_access(of) || sn_ix_uses_axis(r->m, of->ix, sn_stmt_axis(r->m, up));
        if (used && extent_of(r, up, &extent)) n *= extent;
    }
    return (double)n * (sn_is_access(of) ? 1 : share_of(r, s));
}

/* Does the access go from row to row as from element to element of it? */
static bool walks_as_one(const rows *r, const sn_stmt_rec *s, sn_stmt inner) {
    int64_t of_rows, of_elements, extent;
    sn_axis ax = sn_stmt_axis(r->m, r->around);
    if (!sn_ix_coef(r->m, s->ix, ax, &of_rows) || !extent_of(r, inner, &extent)) return false;
    return sn_ix_coef(r->m, s->ix, sn_stmt_axis(r->m, inner), &of_elements) && of_rows == of_elements * extent;
}

/* The loop along which lanes would go else: the row itself, if it is the last of the outer loops (perfect), or a reduction of whole
 * vectors; none: it is done one by one. */
static sn_stmt lanes_of(const rows *r, sn_stmt s, bool perfect, sn_stmt inner) {
    sn_stmt up = sn_stmt_get(r->m, s)->parent;
    int64_t extent;
    if (perfect) return inner;
    return up.i != r->around.i && extent_of(r, up, &extent) && extent >= r->lanes ? up : (sn_stmt){0};
}

static void count(rows *r, sn_stmt s, bool perfect, sn_stmt inner) {
    const sn_stmt_rec *of = sn_stmt_get(r->m, s);
    double each = sn_is_access(of) ? access_cost(r, of) : 1;
    if (sn_lop_has_region(of->op) || of->op == SN_LOP_YIELD) return;
    int64_t n = times(r, s), extent = 1, c;
    sn_stmt along = lanes_of(r, s, perfect, inner);
    bool lanes = along.i && extent_of(r, along, &extent);
    r->written += (double)n * share_of(r, s);
    r->after += chooses(of) ? 0 : copies_of(r, s) * each;
    bool whole =
        !lanes || !sn_is_access(of) || (sn_ix_coef(r->m, of->ix, sn_stmt_axis(r->m, along), &c) && (c == 0 || c == 1));
    r->before += (double)(r->lanes * n) / (lanes && whole ? (double)extent : 1);
    if (sn_is_access(of) ? !walks_as_one(r, of, inner) : of->op == SN_LOP_IN || of->op == SN_LOP_INDEX) r->flat = false;
}

/* ---- the loops ---- */

/* Loops without regions inside. */
static bool is_innermost(const sn_module *m, sn_stmt s) {
    for (sn_stmt t = sn_stmt_get(m, s)->first; t.i; t = sn_next(m, t))
        if (sn_lop_has_region(sn_stmt_get(m, t)->op)) return false;
    return sn_is_nest(sn_stmt_get(m, s));
}

/* Rows of the loop `around`: is their code to be written out? perfect: they are one loop, `inner`. */
static bool gains(rows *r, bool perfect, sn_stmt inner) {
    sn_module *m = r->m;
    sn_stmt end = sn_stmt_walk_skip(m, r->around);
    bool nests = false;
    r->flat = perfect;
    for (sn_stmt s = sn_stmt_get(m, r->around)->first; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        if (!may_write(r, s) || (sn_stmt_get(m, s)->op == SN_LOP_LOAD && slides(r, s))) return false;
        nests |= sn_is_nest(sn_stmt_get(m, s));
        if (is_innermost(m, s)) sn_needed_find(&r->needed, r->cx, s, s);
    }
    for (sn_stmt s = sn_stmt_get(m, r->around)->first; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s))
        count(r, s, perfect, inner);
    return nests && r->stores && r->apart && !r->flat && r->written <= SN_SHORT_WRITTEN && r->after < r->before;
}

/* A product of matrices of which several rows meet a vector of columns? */
static bool is_product(sn_pass_ctx *cx, sn_kern k) {
    sn_contraction c;
    const char *why_not;
    return sn_contraction_find(&c, &why_not, cx, k) && c.m > 1 &&
           c.n >= cx->target->vector_bytes / sn_dtype_bytes(c.dtype);
}

/* Lanes along the loop: of the smallest elements that lie side by side there, or at equal distances. 1: there are none. */
static int64_t lanes_along(sn_pass_ctx *cx, sn_kern k, sn_stmt around) {
    sn_module *m = cx->m;
    uint32_t bytes = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        int64_t c;
        if (!sn_is_access(r) || !sn_ix_coef(m, r->ix, sn_stmt_axis(m, around), &c) || c < 1 || c > SN_MOST_APART)
            continue;
        sn_schedule_smaller(&bytes, sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype));
    }
    return sn_host_widest(cx, k, bytes);
}

static bool write_rows(sn_pass_ctx *cx, sn_kern k) {
    sn_module *m = cx->m;
    sn_chain outer;
    int64_t extent;
    if (is_product(cx, k)) return false;
    sn_chain_outer(&outer, m, k);
    for (uint32_t depth = outer.n > 1 ? outer.n - 1 : outer.n; depth && depth <= outer.n; depth++) {
        rows r = {.cx = cx, .m = m, .k = k, .around = outer.at[depth - 1], .needed = {.arena = cx->scratch}};
        r.lanes = lanes_along(cx, k, r.around);
        bool perfect = depth < outer.n;
        if (!extent_of(&r, r.around, &extent) || r.lanes < 2 || extent < 2 * r.lanes) continue;
        sn_stmt inner = perfect ? outer.at[depth] : (sn_stmt){0};
        for (sn_stmt s = sn_stmt_get(m, r.around)->first; s.i && !inner.i; s = sn_next(m, s))
            if (sn_is_nest(sn_stmt_get(m, s))) inner = s;
        if (!inner.i || !gains(&r, perfect, inner)) continue;
        sn_write_loops_out(m, k, r.around);
        sn_write_out(cx, k, SN_SHORT_STEPS);
        sn_kern_cse(m, k);
        sn_kern_collect_params(m, k);
        sn_remark(cx, sn_kern_get(m, k)->name, "rows written out: %.0f statements", r.written);
        return true;
    }
    return false;
}

sn_status sn_pass_short_rows(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    if (cx->target->is_gpu) return SN_OK;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        sn_kern k = m->kernels.at[i];
        if (sn_kern_is_free(sn_kern_get(m, k))) *changed |= write_rows(cx, k);
    }
    return m->env->status;
}
