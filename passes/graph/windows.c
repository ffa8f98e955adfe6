/* windows.c: the pass `windows`: long windows are reduced in steps, whose results neighbours share.
 *
 *     %u = unfold %x axis=1 size=501 : f32[8, 60001] -> f32[8, 59501, 501]         500 additions a result
 *     %y = sum %u axes=[2]
 *  -> %0 = unfold %x axis=1 size=50 ;              %1 = sum %0 axes=[2]              49, of windows of 50,
 *     %2 = unfold %1 axis=1 size=10 dilation=50 ;  %3 = sum %2 axes=[2]              9, of ten of those,
 *     %4 = slice %x axis=1 start=500 .. ;          %y = add %3, %4                   and one, of what is left
 *
 * A window over several axes is one over each, one after the other: 31 + 31 elements in place of 31 * 31. Largest and
 * smallest elements need no rest: their last short window may begin earlier and overlap the one before it. Steps,
 * dilation, padding and one cast in front are all the same to it: short windows begin at the steps of the long ones, so
 * that their length is a multiple where steps are longer than an element.
 *
 * Legal for sums, maxima and minima: every element goes into the result as often as before (sums: once), in an order
 * that the shape decides; sums are reassociated, as everywhere. No sum is a difference of others, so that nothing
 * cancels. Done where it saves so many elements a result that writing and reading what is between costs less. Cost:
 * linear in the window for each reduction.
 */
#include "ir/graph/build.h"
#include "passes/base/constants.h"
#include "passes/base/nest.h"
#include "passes/graph/rewrite.h"

typedef struct window {
    int64_t axis, size, step, dilation;
} window;

typedef struct windows {
    sn_module *m;
    sn_op op, join; /* the reduction, and of two results */
    window at[SN_MAX_RANK];
    uint32_t n;
    sn_nd base;   /* what the windows are of */
    sn_dtype sum; /* what their elements are cast to */
} windows;

/* ---- what stands there ---- */

static window window_of(const sn_module *m, sn_nd unfold) {
    const sn_attr *dilation = sn_node_attr(m, unfold, SN_ATTR_DILATION);
    return (window){.axis = sn_node_int(m, unfold, SN_ATTR_AXIS, 0),
                    .size = sn_node_int(m, unfold, SN_ATTR_SIZE, 1),
                    .step = sn_node_int(m, unfold, SN_ATTR_STEP, 1),
                    .dilation = dilation ? dilation->ints.at[0] : 1};
}

static bool find_windows(windows *w, sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    uint32_t mask = sn_node_axes_mask(m, x), rank = sn_type_of(m, n->in[0])->rank;
    *w = (windows){.m = m, .op = n->op, .base = n->in[0], .sum = sn_type_of(m, n->in[0])->dtype};
    w->join = n->op == SN_OP_SUM ? SN_OP_ADD : n->op == SN_OP_AMAX ? SN_OP_MAXIMUM : SN_OP_MINIMUM;
    if (sn_node_get(m, w->base)->op == SN_OP_CAST) w->base = sn_node_get(m, w->base)->in[0];
    for (const sn_node_rec *u; (u = sn_node_get(m, w->base))->op == SN_OP_UNFOLD; w->base = u->in[0]) {
        for (uint32_t i = w->n; i > 0; i--) w->at[i] = w->at[i - 1];
        w->at[0] = window_of(m, w->base);
        w->n++;
    }
    uint32_t outer = rank - w->n;
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->at[i].axis < 0) w->at[i].axis += outer + i;
        for (uint32_t k = 0; k < i; k++)
            if (w->at[k].axis == w->at[i].axis) return false;
        if (w->at[i].axis >= outer) return false; /* a window of windows */
    }
    return w->n && mask == ((1u << rank) - 1) >> outer << outer;
}

/* ---- how ---- */

/* Elements that are combined for a result by short windows of so many; those left over are the rest of a sum. Results of short windows are
 * far apart, and count as several. */
static int64_t elements_by(const windows *w, const window *a, int64_t size) {
    int64_t whole = a->size / size, rest = a->size % size;
    return size + SN_WINDOW_FAR * whole + (w->op == SN_OP_SUM ? rest : rest > 0);
}

/* May short windows of that size begin where the steps of the long ones are? */
static bool fits(const windows *w, const window *a, int64_t size) {
    bool overlaps = w->op != SN_OP_SUM && a->size % size;
    return size * a->dilation % a->step == 0 && (!overlaps || (a->size - size) * a->dilation % a->step == 0);
}

/* The best size; that of the window itself: it stays. */
static int64_t choose(const windows *w, const window *a) {
    int64_t best = a->size, least = a->size - SN_WINDOW_SAVED;
    for (int64_t size = 2; 2 * size <= a->size && size <= least; size++)
        if (fits(w, a, size) && elements_by(w, a, size) <= least) {
            best = size;
            least = elements_by(w, a, size) - 1;
        }
    return best;
}

/* ---- the new graph ---- */

/* Elements of the base are cast first; results are not: sums of them, of i64 say, may be of more bits than what is summed. */
static sn_nd reduce(const windows *w, sn_nd x, const window *a, bool is_base) {
    sn_nd u = sn_graph_unfold(w->m, x, a->axis, a->size, a->step, a->dilation);
    if (is_base) u = sn_graph_cast(w->m, u, w->sum);
    int64_t last = sn_type_of(w->m, x)->rank;
    return sn_graph_reduce(w->m, w->op, u, &last, 1, false);
}

/* n elements of x along the axis from `start` on. */
static sn_nd part(const windows *w, sn_nd x, const window *a, int64_t start, int64_t n) {
    return sn_graph_slice(w->m, x, a->axis, start, start + n, 1);
}

static sn_nd reduce_in_steps(const windows *w, sn_nd x, const window *a) {
    bool is_base = sn_nd_eq(x, w->base);
    int64_t size = choose(w, a), whole = a->size / size, rest = a->size % size;
    if (size == a->size) return reduce(w, x, a, is_base);
    int64_t length = sn_ix_value(w->m, sn_type_of(w->m, x)->shape[a->axis]), between = size * a->dilation;
    int64_t n = (length - (a->size - 1) * a->dilation - 1) / a->step + 1;
    window shorter = *a, of_those = {a->axis, whole, 1, between / a->step}, left = *a;
    shorter.size = size, left.size = rest;
    sn_nd each = reduce(w, x, &shorter, is_base), those = part(w, each, a, 0, n + (whole - 1) * of_those.dilation);
    sn_nd y = reduce(w, those, &of_those, false);
    if (!rest) return y;
    if (w->op != SN_OP_SUM) {
        sn_nd last = part(w, each, a, (a->size - size) * a->dilation / a->step, n);
        return sn_graph_binary(w->m, w->join, y, last);
    }
    int64_t from = whole * between;
    return sn_graph_binary(w->m, w->join, y, reduce(w, part(w, x, a, from, length - from), &left, is_base));
}

/* On a CPU axes are taken one after the other where they are not cut any further: the last one first, for each place where steps of the others
 * begin. What is between has to fill vectors, and where it goes to memory more has to be saved. */
static bool pays_by_axes(const sn_pass_ctx *cx, const windows *w, sn_nd x, int64_t elements) {
    const sn_target *t = cx->target;
    const sn_type *type = sn_type_of(w->m, x);
    int64_t apart = 0, places = 1, row, n;
    if (t->is_gpu || w->n < 2 || !type->rank || !sn_ix_is_const(w->m, type->shape[type->rank - 1], &row)) return false;
    for (uint32_t i = 0; i < w->n; i++) {
        apart += sn_mul_clamped(w->at[i].size, places);
        places = sn_mul_clamped(places, w->at[i].step);
        if (apart > elements) return false;
    }
    int64_t bytes = sn_dtype_bytes(type->dtype);
    bool is_near =
        sn_type_static(w->m, type, &n) && sn_mul_clamped(n, bytes) <= (int64_t)(t->cache_bytes / SN_SHIFTED_CACHE);
    if (sn_mul_clamped(row, bytes) < (int64_t)t->vector_bytes) return false;
    return elements - apart >= (is_near ? SN_WINDOW_SAVED_HOST : SN_WINDOW_SAVED_FAR);
}

static sn_nd rule(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *n = sn_node_get(m, x);
    windows w;
    int64_t elements = 1, after = 0, shape[SN_MAX_RANK], all;
    if (n->op != SN_OP_SUM && n->op != SN_OP_AMAX && n->op != SN_OP_AMIN) return x;
    if (!find_windows(&w, m, x) || !sn_type_static(m, sn_type_of(m, w.base), &all) || all == 0) return x;
    for (uint32_t i = 0; i < w.n; i++) {
        int64_t size = choose(&w, &w.at[i]);
        elements *= w.at[i].size;
        after += size == w.at[i].size ? size : elements_by(&w, &w.at[i], size);
    }
    if (elements - after < SN_WINDOW_SAVED && !pays_by_axes(cx, &w, x, elements)) return x;
    sn_nd y = w.base;
    for (uint32_t i = w.n; i-- > 0;) y = reduce_in_steps(&w, y, &w.at[i]);
    const sn_type *t = sn_type_of(m, x);
    for (uint32_t k = 0; k < t->rank; k++) shape[k] = sn_ix_value(m, t->shape[k]);
    return sn_graph_reshape_to(m, sn_graph_cast(m, y, t->dtype), shape, t->rank);
}

sn_status sn_pass_windows(sn_pass_ctx *cx, bool *changed) {
    if (cx->m->kernels.n) return SN_OK; /* they stand for the graph */
    return sn_graph_rewrite(cx, rule, changed);
}
