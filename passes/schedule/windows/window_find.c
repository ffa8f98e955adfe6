/* window_find.c: which kernels are reductions over windows, and how the patch of a block lies in memory (window.h).
 *
 * An outer axis and a loop of the reduction make a line if an element stays the same when the window moves on by one
 * and the tap back by as much: that is asked of everything that the nest makes of the element alone (bounds tests,
 * conversions, what stands outside), by comparing index expressions. So paddings, strides, dilations, flips and
 * prologues need no cases of their own.
 */
#include "passes/schedule/windows/window.h"

#include "passes/schedule/base/figures.h"

#include <stdlib.h>

/* ---- lines ---- */

static sn_axis outer_axis(const sn_window *w, uint32_t i) { return sn_stmt_axis(w->m, w->sh->outer.at[i]); }
static sn_axis tap_axis(const sn_window *w, uint32_t i) { return sn_stmt_axis(w->m, w->nest->chain.at[i]); }
static int64_t extent(const sn_window *w, sn_stmt s) { return sn_ix_value(w->m, sn_stmt_extent(w->m, s)); }

static int64_t floor_mod(int64_t a, int64_t b) { return ((a % b) + b) % b; }

/* step * per_outer + dilation * per_tap = 1, with small numbers where one of the two is 1. */
static void find_combination(sn_window_line *l) {
    int64_t d = llabs(l->dilation), inverse = 0;
    while (d > 1 && floor_mod(l->step * inverse, d) != 1) inverse++;
    l->per_outer = inverse;
    l->per_tap = (1 - l->step * inverse) / l->dilation;
}

static bool same_when_moved(sn_window *w, const sn_window_line *l, sn_ix e) {
    sn_module *m = w->m;
    if (!e.i || l->tap == SN_WINDOW_NO_TAP) return true;
    sn_axis axes[2] = {outer_axis(w, l->outer), tap_axis(w, l->tap)};
    sn_ix z = sn_ix_axis(m, sn_axis_new(m, "z", sn_ix_const(m, 2)));
    sn_ix with[2] = {sn_ix_add(m, sn_ix_axis(m, axes[0]), sn_ix_scale(m, z, l->dilation)),
                     sn_ix_sub(m, sn_ix_axis(m, axes[1]), sn_ix_scale(m, z, l->step))};
    return sn_ix_eq(sn_ix_subst(m, e, axes, with, 2), e);
}

/* Is the value the same wherever windows meet in it, and read from nowhere? A CPU, which computes a place before it goes into the patch, may
 * read for it what it likes. */
static bool is_of_place(sn_window *w, const sn_window_line *l, sn_val v) {
    const sn_stmt_rec *r = sn_stmt_get(w->m, sn_val_get(w->m, v)->def);
    bool read = r->op == SN_LOP_LOAD && !w->cx->target->is_gpu && !sn_ix_uses_vals(w->m, r->ix);
    if (sn_lops[r->op].has_region || (sn_is_access(r) && !read) || r->op == SN_LOP_ACCUM) return false;
    if (!same_when_moved(w, l, r->ix) || !same_when_moved(w, l, r->bound)) return false;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (!is_of_place(w, l, r->in[i])) return false;
    return true;
}

static bool load_is_of_place(sn_window *w, const sn_window_line *l) {
    const sn_stmt_rec *r = sn_stmt_get(w->m, w->load);
    if (!same_when_moved(w, l, r->ix)) return false;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (!is_of_place(w, l, r->in[i])) return false;
    return true;
}

/* The line of an outer axis and a loop of the nest; false: they make none, or no two of its windows share an
 * element. */
static bool make_line(sn_window_line *l, sn_window *w, uint32_t outer, uint32_t tap) {
    sn_ix e = sn_stmt_get(w->m, w->load)->ix;
    int64_t move, by;
    *l = (sn_window_line){.there = true, .outer = outer, .tap = tap};
    if (!sn_ix_coef(w->m, e, outer_axis(w, outer), &move) || !sn_ix_coef(w->m, e, tap_axis(w, tap), &by)) return false;
    if (move <= 0 || by == 0) return false;
    l->unit = sn_schedule_gcd(move, by);
    l->step = move / l->unit;
    l->dilation = by / l->unit;
    l->windows = extent(w, w->sh->outer.at[outer]);
    l->taps = extent(w, w->nest->chain.at[tap]);
    if (llabs(l->dilation) >= l->windows || l->step >= l->taps) return false;
    find_combination(l);
    return load_is_of_place(w, l);
}

static bool is_taken(const sn_window_line *l, uint32_t outer, uint32_t tap) {
    return l->there && (l->outer == outer || l->tap == tap);
}

/* Of all lines that there may be, the one whose windows move least; none of the axes of `other`. */
static void find_line(sn_window_line *out, sn_window *w, const sn_window_line *other) {
    *out = (sn_window_line){.windows = 1, .taps = 1, .step = 1, .dilation = 1};
    for (uint32_t tap = 0; tap < w->nest->chain.n; tap++)
        for (uint32_t outer = 0; outer < w->sh->outer.n; outer++) {
            sn_window_line l;
            if (is_taken(other, outer, tap) || !make_line(&l, w, outer, tap)) continue;
            if (!out->there || l.step * l.unit < out->step * out->unit) *out = l;
        }
}

/* ---- elements ---- */

/* The only statement that uses v, with its other operands of the place alone; none: there is no such statement. */
static sn_stmt only_user(sn_window *w, sn_val v) {
    sn_stmt user = {0};
    for (sn_stmt s = sn_region_first(w->m, w->k, w->inner); s.i; s = sn_next(w->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(w->m, s);
        for (uint32_t i = 0; i < r->n_in; i++) {
            if (r->in[i].i != v.i || user.i == s.i) continue;
            if (user.i) return (sn_stmt){0};
            user = s;
        }
    }
    const sn_stmt_rec *r = user.i ? sn_stmt_get(w->m, user) : NULL;
    if (!r || r->op == SN_LOP_YIELD || sn_is_access(r) || sn_lops[r->op].has_region || r->n_results != 1)
        return (sn_stmt){0};
    for (uint32_t i = 0; i < r->n_in; i++)
        for (const sn_window_line *l = &w->row; l <= &w->column; l++)
            if (l->there && r->in[i].i != v.i && !is_of_place(w, l, r->in[i])) return (sn_stmt){0};
    return user;
}

static void find_value(sn_window *w) {
    w->value = sn_stmt_get(w->m, w->load)->result;
    for (sn_stmt u; (u = only_user(w, w->value)).i;) w->value = sn_stmt_get(w->m, u)->result;
}

/* On a CPU columns that no window walks along are the vectors of windows that go from row to row, where they lie side by side. */
static void stand_upright(sn_window *w) {
    int64_t c;
    for (uint32_t i = 0; i < w->sh->outer.n && !w->row.there; i++) {
        if (i == w->column.outer || !sn_ix_coef(w->m, sn_stmt_get(w->m, w->load)->ix, outer_axis(w, i), &c) || c != 1)
            continue;
        w->row = w->column;
        w->column = (sn_window_line){.there = true, .outer = i, .tap = SN_WINDOW_NO_TAP, .taps = 1, .step = 1};
        w->column.windows = extent(w, w->sh->outer.at[i]);
        w->column.dilation = w->column.unit = w->column.per_outer = 1;
    }
}

static bool find_lines(sn_window *w) {
    const sn_window_line none = {.there = false};
    for (sn_stmt s = sn_region_first(w->m, w->k, w->inner); s.i; s = sn_next(w->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(w->m, s);
        if (r->op != SN_LOP_LOAD || sn_ix_uses_vals(w->m, r->ix)) continue;
        w->load = s;
        find_line(&w->column, w, &none);
        if (w->column.there) break;
    }
    if (!w->column.there) return false;
    find_line(&w->row, w, &w->column);
    if (!w->cx->target->is_gpu && !w->row.there && w->column.unit != 1) stand_upright(w);
    return true;
}

/* ---- the kernel ---- */

/* Is the value made of that of the element and of what is the same for all windows? */
static bool stays(const sn_window *w, sn_val v) {
    const sn_stmt_rec *r = sn_stmt_get(w->m, sn_val_get(w->m, v)->def);
    if (v.i == w->value.i) return true;
    if (sn_lops[r->op].has_region || r->op == SN_LOP_ACCUM || (r->ix.i && sn_ix_uses_vals(w->m, r->ix))) return false;
    for (const sn_window_line *l = &w->row; l <= &w->column; l++) {
        if (l->there && r->ix.i && sn_ix_uses_axis(w->m, r->ix, outer_axis(w, l->outer))) return false;
        if (l->there && r->bound.i && sn_ix_uses_axis(w->m, r->bound, outer_axis(w, l->outer))) return false;
    }
    for (uint32_t i = 0; i < r->n_in; i++)
        if (!stays(w, r->in[i])) return false;
    return true;
}

static bool others_stay(const sn_window *w) {
    const sn_stmt_rec *yield = sn_stmt_get(w->m, sn_stmt_get(w->m, w->inner)->last);
    for (uint32_t i = 0; i < yield->n_in; i++)
        if (!stays(w, yield->in[i])) return false;
    return true;
}

/* Does what the nest makes of an element, but where that is, depend on the lines alone? */
static bool is_of_lines(const sn_window *w, sn_val v) {
    sn_stmt def = sn_val_get(w->m, v)->def;
    const sn_stmt_rec *r = sn_stmt_get(w->m, def);
    for (uint32_t i = 0; i < w->sh->outer.n && def.i != w->load.i; i++) {
        sn_axis ax = outer_axis(w, i);
        if ((w->row.there && w->row.outer == i) || w->column.outer == i) continue;
        if (r->ix.i && (sn_ix_uses_axis(w->m, r->ix, ax) || (r->bound.i && sn_ix_uses_axis(w->m, r->bound, ax))))
            return false;
    }
    for (uint32_t i = 0; i < r->n_in; i++)
        if (!is_of_lines(w, r->in[i])) return false;
    return true;
}

/* One reduction, by combiners of one state, and behind it stores of buffers that nothing loads. */
static bool has_one_reduction(const sn_window *w) {
    const sn_stmt_rec *top = sn_stmt_get(w->m, w->nest->top);
    if (top->op != SN_LOP_REDUCE || !w->nest->perfect || w->nest->scan) return false;
    for (uint32_t i = 0; i < top->n_combs; i++)
        if (sn_combs[top->combs[i]].second != SN_SECOND_NONE) return false;
    for (sn_stmt t = top->first, end = sn_stmt_walk_skip(w->m, w->nest->top); t.i && t.i != end.i;
         t = sn_stmt_walk_next(w->m, t))
        if (sn_stores(sn_stmt_get(w->m, t))) return false;
    for (sn_stmt s = sn_region_first(w->m, w->k, w->sh->body); s.i; s = sn_next(w->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(w->m, s);
        if (sn_lops[r->op].has_region && s.i != w->nest->top.i) return false;
        if (r->op == SN_LOP_ACCUM || (sn_stores(r) && sn_kern_loads(w->m, w->k, r->buf))) return false;
    }
    return true;
}

/* An outer axis along which the elements are neighbours, though windows do not move along it. */
static void find_lanes(sn_window *w) {
    int64_t c;
    w->lanes = -1, w->n_lanes = 1;
    for (uint32_t i = 0; i < w->sh->outer.n; i++) {
        bool line = (w->row.there && w->row.outer == i) || w->column.outer == i;
        if (line || !sn_ix_coef(w->m, sn_stmt_get(w->m, w->load)->ix, outer_axis(w, i), &c) || c != 1) continue;
        w->lanes = (int)i;
        w->n_lanes = extent(w, w->sh->outer.at[i]);
    }
}

/* Elements between planes of all blocks, as far as one can tell from the last axis of them. */
static int64_t last_plane(const sn_window *w) {
    int64_t c, last = 0;
    for (uint32_t i = 0; i < w->sh->outer.n; i++) {
        if ((w->row.there && w->row.outer == i) || w->column.outer == i || w->lanes == (int)i) continue;
        last = sn_ix_coef(w->m, sn_stmt_get(w->m, w->load)->ix, outer_axis(w, i), &c) ? c : 0;
    }
    return last;
}

static uint32_t cost(const sn_stmt_rec *r) { return r->op == SN_LOP_CONST || r->op == SN_LOP_YIELD ? 0 : 1; }

/* Is the value of s, in the nest, made of that of the element? It comes before its users. */
static bool is_made_of(const sn_window *w, const sn_stmt_rec *s) {
    for (uint32_t i = 0; i < s->n_in; i++) {
        sn_stmt def = sn_val_get(w->m, s->in[i])->def;
        if (s->in[i].i == w->value.i) return true;
        if (sn_stmt_inside(w->m, def, w->inner) && is_made_of(w, sn_stmt_get(w->m, def))) return true;
    }
    return false;
}

/* What is computed how often. A product that goes into a sum is one instruction with it. */
static void count(sn_window *w) {
    const sn_stmt_rec *top = sn_stmt_get(w->m, w->nest->top);
    sn_stmt value = sn_val_get(w->m, w->value)->def;
    bool ahead = true;
    w->bytes = sn_dtype_bytes(sn_stmt_get(w->m, w->load)->dtype);
    w->steps = sn_chain_count(w->m, &w->nest->chain) / w->row.taps / w->column.taps;
    for (uint32_t i = 0; i < top->n_results; i++) {
        w->state_bytes += sn_dtype_bytes(sn_val_get(w->m, sn_result(top, i))->dtype);
        w->sum_ops++;
    }
    for (sn_stmt s = sn_region_first(w->m, w->k, w->inner); s.i; s = sn_next(w->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(w->m, s);
        if (is_made_of(w, r)) w->sum_ops += r->op == SN_LOP_MUL ? 0 : cost(r);
        else
            *(ahead && s.i != w->load.i && r->op != SN_LOP_LOAD && r->op != SN_LOP_IN ? &w->element_ops
                                                                                      : &w->other_ops) += cost(r);
        ahead &= s.i != value.i;
    }
    for (sn_stmt s = sn_region_first(w->m, w->k, w->sh->body); s.i; s = sn_next(w->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(w->m, s);
        w->rest_ops += s.i == w->nest->top.i ? 0 : cost(r);
        if (sn_stores(r)) sn_schedule_smaller(&w->stored_bytes, sn_dtype_bytes(sn_buf_get(w->m, r->buf)->dtype));
    }
}

bool sn_window_is_weight(const sn_window *w, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(w->m, s);
    if (r->op != SN_LOP_LOAD || s.i == w->load.i || r->has_mask || sn_ix_uses_vals(w->m, r->ix)) return false;
    for (const sn_window_line *l = &w->row; l <= &w->column; l++)
        if (l->there && sn_ix_uses_axis(w->m, r->ix, outer_axis(w, l->outer))) return false;
    return true;
}

/* Lanes of halves on short lines, of which a thread has a whole one: with the taps of two lanes it would have too many registers (7 x 7 of
 * bf16[64, 14, 14, 384] spilled). */
static bool has_weights_apart(const sn_window *w) {
    bool two = w->lanes >= 0 && 2 * w->bytes <= SN_BANK, weights = false;
    if (!two || w->steps > 1 || w->column.windows > SN_WINDOW_OWN) return false;
    for (sn_stmt s = sn_region_first(w->m, w->k, w->inner); s.i; s = sn_next(w->m, s))
        weights |= sn_window_is_weight(w, s);
    return weights && 2 * w->row.taps * w->column.taps > SN_WINDOW_SUMS;
}

/* Are all stores of whole vectors of so many lanes, which begin at multiples of that along the axis of lanes or columns? */
static bool stores_vectors(const sn_window *w, int64_t lanes) {
    sn_module *m = w->m;
    sn_axis ax = outer_axis(w, w->lanes < 0 ? w->column.outer : (uint32_t)w->lanes);
    int64_t n = w->lanes < 0 ? w->column.windows : w->n_lanes, step;
    sn_axis v = sn_axis_new(m, "v", sn_ix_const(m, lanes));
    sn_axis whole = sn_axis_new(m, "n", sn_ix_const(m, sn_ceil_div(n, lanes)));
    sn_ix at = sn_ix_fma(m, lanes, sn_ix_axis(m, whole), sn_ix_axis(m, v));
    for (sn_stmt s = sn_region_first(m, w->k, w->sh->body); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_stores(r)) continue;
        const sn_buf_rec *buf = sn_buf_get(m, r->buf);
        int64_t bytes = lanes * sn_dtype_bytes(buf->dtype);
        if (bytes > w->cx->target->vector_bytes || bytes > buf->align) return false;
        sn_ix e = sn_ix_subst(m, r->ix, &ax, &at, 1);
        if (!sn_ix_coef(m, e, v, &step) || step != 1) return false;
        if (!sn_ix_is_multiple(m, sn_ix_sub(m, e, sn_ix_axis(m, v)), lanes)) return false;
    }
    return true;
}

static void find_store_lanes(sn_window *w) {
    for (int64_t lanes = w->cx->target->is_gpu ? w->cx->target->vector_bytes : 0; lanes > 0 && !w->store_lanes;
         lanes /= 2)
        if (stores_vectors(w, lanes)) w->store_lanes = lanes;
}

bool sn_window_find(sn_window *w, const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    *w = (sn_window){.cx = cx, .m = cx->m, .k = k, .sh = sh, .nest = &sh->nests[0]};
    *why_not = "it wants one reduction in straight-line code, of buffers that the kernel does not store to";
    if (sh->n_nests != 1 || !sh->outer.n || sh->mixed || !has_one_reduction(w)) return false;
    w->inner = w->nest->chain.at[w->nest->chain.n - 1];
    *why_not = "no outer axis moves windows that a loop of the reduction walks through";
    if (!find_lines(w)) return false;
    find_value(w);
    *why_not = "what else its nest is made of moves with the windows";
    if (!others_stay(w)) return false;
    find_lanes(w);
    w->shares = is_of_lines(w, w->value);
    w->plane = last_plane(w);
    count(w);
    w->weights_apart = has_weights_apart(w);
    *why_not = "its sum goes over images: a gradient of weights, whose windows are few and have many taps";
    bool few = w->row.windows * w->column.windows < w->row.taps * w->column.taps;
    if (cx->target->is_gpu && w->steps > 1 && few) return false;
    w->n_planes = sh->rows / w->row.windows / w->column.windows / w->n_lanes;
    find_store_lanes(w);
    return true;
}

/* ---- patches ---- */

uint32_t sn_window_planes(sn_axis *axes, sn_ix *with, const sn_window *w, sn_ix plane) {
    sn_ix shape[SN_MAX_CHAIN];
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->sh->outer.n; i++) {
        if ((w->row.there && w->row.outer == i) || w->column.outer == i || w->lanes == (int)i) continue;
        axes[n] = outer_axis(w, i);
        shape[n++] = sn_stmt_extent(w->m, w->sh->outer.at[i]);
    }
    if (n) sn_ix_unflatten(w->m, plane, shape, n, with);
    return n;
}

int64_t sn_window_plane_stride(sn_window *w, int64_t n) {
    sn_module *m = w->m;
    sn_axis axes[SN_MAX_CHAIN], block, own;
    sn_ix with[SN_MAX_CHAIN];
    int64_t c;
    if (n == 1) return 0;
    for (uint32_t i = 0; i < w->n_known; i++)
        if (w->known[i].n == n) return w->known[i].stride;
    block = sn_axis_new(m, "b", sn_ix_const(m, w->n_planes / n));
    own = sn_axis_new(m, "o", sn_ix_const(m, n));
    sn_ix plane = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, block), n), sn_ix_axis(m, own));
    uint32_t n_axes = sn_window_planes(axes, with, w, plane);
    sn_ix e = sn_ix_subst(m, sn_stmt_get(m, w->load)->ix, axes, with, n_axes);
    if (!sn_ix_coef(m, e, own, &c) || c < 0) c = -1;
    if (w->n_known < SN_COUNT(w->known)) w->known[w->n_known++] = (struct sn_window_planes_at){n, c};
    return c;
}

int64_t sn_window_places(const sn_window_line *l, int64_t windows) {
    return l->step * (windows - 1) + llabs(l->dilation) * (l->taps - 1) + 1;
}

static bool find_parts(sn_window_patch *p, sn_window *w) {
    int64_t c;
    p->n[SN_WINDOW_ROW] = sn_window_places(&w->row, p->padded_rows), p->stride[SN_WINDOW_ROW] = w->row.unit;
    p->n[SN_WINDOW_COLUMN] = sn_window_places(&w->column, p->padded_columns),
    p->stride[SN_WINDOW_COLUMN] = w->column.unit;
    p->n[SN_WINDOW_PLANE] = p->planes, p->stride[SN_WINDOW_PLANE] = sn_window_plane_stride(w, p->planes);
    p->n[SN_WINDOW_LANE] = p->lanes, p->stride[SN_WINDOW_LANE] = w->lanes >= 0 ? 1 : 0;
    if (p->stride[SN_WINDOW_PLANE] < 0) return false;
    for (uint32_t i = 0; i < w->nest->chain.n; i++) {
        if ((w->row.there && w->row.tap == i) || w->column.tap == i) continue;
        if (!sn_ix_coef(w->m, sn_stmt_get(w->m, w->load)->ix, tap_axis(w, i), &c) || c < 0) return false;
        p->n[SN_WINDOW_STEP + i] = extent(w, w->nest->chain.at[i]), p->stride[SN_WINDOW_STEP + i] = c;
    }
    return true;
}

/* The part of next larger stride that has no place yet; SN_WINDOW_PARTS: none is left. */
static uint32_t next_part(const sn_window_patch *p, const bool *placed) {
    uint32_t best = SN_WINDOW_PARTS;
    for (uint32_t i = 0; i < SN_WINDOW_PARTS; i++)
        if (!placed[i] && p->stride[i] && p->n[i] > 1 && (best == SN_WINDOW_PARTS || p->stride[i] < p->stride[best]))
            best = i;
    return best;
}

/* Does the patch have all positions of the part that there are? */
static bool is_whole(const sn_window_patch *p, const sn_window *w, uint32_t part) {
    return part >= SN_WINDOW_STEP || (part == SN_WINDOW_LANE && p->lanes == w->n_lanes);
}

/* Parts that fill memory with few gaps are one line, all others count lines. Behind whole parts a gap of an intermediate is memory that
 * nobody has written: pieces would read it. */
static bool lay_out(sn_window_patch *p, const sn_window *w) {
    bool placed[SN_WINDOW_PARTS] = {false}, in_line = true, whole = true;
    bool temp = sn_buf_get(w->m, sn_stmt_get(w->m, w->load)->buf)->scope == SN_BUF_TEMP;
    int64_t length = 1, at = sn_buf_get(w->m, sn_stmt_get(w->m, w->load)->buf)->align / w->bytes;
    p->piece = sn_pow2_floor(w->cx->target->vector_bytes / w->bytes);
    if (at < p->piece) p->piece = at > 1 ? at : 1;
    p->lines = 1;
    for (uint32_t i; (i = next_part(p, placed)) < SN_WINDOW_PARTS; placed[i] = true) {
        if (temp && whole && p->stride[i] > length) return false;
        whole &= is_whole(p, w, i);
        in_line &= (p->stride[i] - length) * 100 <= length * SN_WINDOW_GAP;
        if (in_line) {
            p->pitch[i] = p->stride[i];
            length += p->stride[i] * (p->n[i] - 1);
            continue;
        }
        while (p->stride[i] % p->piece) p->piece /= 2;
        p->by_lines[i] = p->lines;
        p->lines = sn_mul_clamped(p->lines, p->n[i]);
    }
    p->line = (length + p->piece - 1 + p->piece - 1) / p->piece;
    for (uint32_t i = 0; i < SN_WINDOW_PARTS; i++)
        if (p->by_lines[i]) p->pitch[i] = p->by_lines[i] * p->line * p->piece;
    return p->lines * p->line < SN_POW2_MOST;
}

/* A thread has neighbouring lanes of one bank, but one where the taps of two would be too many registers; and planes that have the same elements,
 * as many as its registers take. */
static void share_among_threads(sn_window_patch *p, const sn_window *w) {
    int64_t sums = p->own_rows * p->own_columns;
    bool same = w->shares && w->lanes < 0 && p->planes > 1 && !p->stride[SN_WINDOW_PLANE], alone = w->weights_apart;
    while (w->lanes >= 0 && !alone && p->own_lanes * 2 * w->bytes <= SN_BANK && p->lanes % (p->own_lanes * 2) == 0)
        p->own_lanes *= 2;
    while (same && p->planes % (p->own_planes * 2) == 0 && p->own_planes * 2 * sums <= SN_WINDOW_SUMS)
        p->own_planes *= 2;
    p->tiles = p->planes / p->own_planes * (p->padded_rows / p->own_rows) * (p->padded_columns / p->own_columns) *
               (p->lanes / p->own_lanes);
}

/* Rows are a bank apart from whole ones, for threads that copy taps. */
static void place_weights(sn_window_patch *p, const sn_window *w) {
    int64_t bank = SN_BANK / w->bytes;
    if (w->weights_apart && p->lanes > 1) p->weights_pitch = sn_ceil_div(p->lanes, 2 * bank) * 2 * bank + bank;
}

bool sn_window_measure(sn_window_patch *p, sn_window *w, const sn_sched *sc) {
    bool lanes = w->lanes >= 0;
    *p = (sn_window_patch){.planes = lanes ? 1 : sc->tile_k, .lanes = lanes ? sc->tile_k : 1, .rows = sc->tile_m};
    p->columns = sc->tile_n, p->threads = sc->block_x;
    p->own_rows = sc->unroll, p->own_columns = sc->vector, p->own_planes = p->own_lanes = 1;
    if (!p->planes || !p->lanes || !p->rows || !p->columns || !p->own_rows || !p->own_columns) return false;
    if (p->rows > w->row.windows || p->columns > w->column.windows) return false;
    if (p->own_rows > w->row.windows || p->own_columns > w->column.windows) return false;
    if (w->n_planes % p->planes || w->n_lanes % p->lanes) return false;
    p->padded_rows = sn_ceil_div(p->rows, p->own_rows) * p->own_rows;
    p->padded_columns = sn_ceil_div(p->columns, p->own_columns) * p->own_columns;
    p->blocks[0] = w->n_planes / p->planes, p->blocks[1] = sn_ceil_div(w->row.windows, p->rows);
    p->blocks[2] = sn_ceil_div(w->column.windows, p->columns), p->blocks[3] = w->n_lanes / p->lanes;
    p->row_places = sn_window_places(&w->row, p->own_rows),
    p->column_places = sn_window_places(&w->column, p->own_columns);
    if (!find_parts(p, w) || !lay_out(p, w)) return false;
    share_among_threads(p, w);
    place_weights(p, w);
    return true;
}

/* ---- shared memory ---- */

int64_t sn_window_direct(const sn_window *w, const sn_window_patch *p) {
    bool by_lanes = w->lanes >= 0;
    int64_t most = by_lanes ? p->own_lanes : p->own_columns, bytes = w->cx->target->vector_bytes;
    if (!by_lanes && p->padded_columns != p->columns) return 0;
    for (int64_t lanes = w->store_lanes; lanes >= 1; lanes /= 2) {
        if (most % lanes || (by_lanes && lanes < most)) continue;
        if ((by_lanes ? p->lanes : lanes) * w->stored_bytes >= (by_lanes ? SN_SECTOR : bytes)) return lanes;
    }
    return 0;
}

/* Planes that numbers of tiles below n reach: the last turn has some that are none. */
static int64_t planes_reached(const sn_window_patch *p) {
    int64_t of_plane = p->tiles / (p->planes / p->own_planes), turns = sn_ceil_div(p->tiles, p->threads);
    return ((turns * p->threads - 1) / of_plane + 1) * p->own_planes;
}

int64_t sn_window_patch_bytes(const sn_window *w, const sn_window_patch *p) {
    int64_t turns = sn_ceil_div(p->lines * p->line, p->threads);
    int64_t n = sn_window_all_turns(turns) * p->threads * p->piece, reached = 2 * p->piece;
    reached += p->pitch[SN_WINDOW_ROW] * (sn_window_places(&w->row, p->padded_rows) - 1);
    reached += p->pitch[SN_WINDOW_COLUMN] * (sn_window_places(&w->column, p->padded_columns) + p->piece - 1);
    reached += p->pitch[SN_WINDOW_PLANE] * (planes_reached(p) - 1) + p->pitch[SN_WINDOW_LANE] * (p->lanes - 1);
    for (uint32_t i = SN_WINDOW_STEP; i < SN_WINDOW_PARTS; i++)
        if (p->pitch[i]) reached += p->pitch[i] * (p->n[i] - 1);
    int64_t weights = w->row.taps * w->column.taps * p->weights_pitch;
    return ((reached > n ? reached : n) + weights) * w->bytes;
}

int64_t sn_window_out_bytes(const sn_window *w, const sn_window_patch *p) {
    if (sn_window_direct(w, p)) return 0;
    int64_t of_plane = p->rows * p->columns * p->lanes, results = p->planes * of_plane, planes = planes_reached(p);
    for (int64_t lanes = 1; lanes <= w->cx->target->vector_bytes / w->stored_bytes && results % lanes == 0;
         lanes *= 2) {
        int64_t turns = sn_window_all_turns(sn_ceil_div(results / lanes, p->threads));
        int64_t reached = (turns * p->threads * lanes - 1) / of_plane + 1;
        if (reached > planes) planes = reached;
    }
    return planes * p->padded_rows * p->padded_columns * p->lanes * w->state_bytes;
}
