/* windowed.c: is a kernel a reduction over windows that overlap? Part of the pass `fuse`.
 *
 *     loop i { loop j { %0 = reduce sum r in 5 { load x[1024*i + j + r] } .. } }      j moves by as much as r does, and less far than all of r
 *
 * On a CPU class window copies what windows share once for all of their taps, of one place in one nest. Windows of several buffers in one
 * kernel are for class element, which loads and tests each tap of each of them: five sums over 5 x 5 took three times as long in one
 * kernel as in five. Those of one buffer (a mean and a variance) are read once. Cost: accesses squared times axes.
 */
#include "passes/fuse/fuse.h"

#include <stdlib.h>

static bool overlaps(sn_module *m, sn_ix e, sn_axis outer, sn_axis inner) {
    int64_t step, tap, taps, reach;
    if (!sn_ix_coef(m, e, outer, &step) || !sn_ix_coef(m, e, inner, &tap) || step == 0 || tap == 0) return false;
    if (!sn_ix_is_const(m, sn_axis_get(m, inner)->extent, &taps) || sn_mul_overflow(tap, taps, &reach)) return false;
    return step % tap == 0 && llabs(step) < llabs(reach);
}

/* Along one of the outer loops, and a loop of a nest around the access. */
static bool is_in_windows(sn_module *m, const sn_chain *outer, const sn_stmt_rec *r) {
    for (sn_stmt up = r->parent; up.i; up = sn_stmt_get(m, up)->parent) {
        if (sn_stmt_get(m, up)->op != SN_LOP_REDUCE) continue;
        for (uint32_t d = 0; d < outer->n; d++)
            if (overlaps(m, r->ix, sn_stmt_axis(m, outer->at[d]), sn_stmt_axis(m, up))) return true;
    }
    return false;
}

/* The first load in windows behind `s`, if so of that buffer; none: there is none. */
static sn_stmt next_in_windows(sn_module *m, const sn_chain *outer, sn_stmt s, sn_buf of) {
    for (; s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_loads(r) || sn_ix_uses_vals(m, r->ix) || (of.i && !sn_buf_eq(r->buf, of))) continue;
        if (is_in_windows(m, outer, r)) return s;
    }
    return s;
}

bool sn_fuse_has_windows(sn_module *m, sn_kern k) {
    sn_chain outer;
    sn_chain_outer(&outer, m, k);
    return next_in_windows(m, &outer, sn_stmt_walk_first(m, k), (sn_buf){0}).i;
}

/* Is each buffer that a has windows of one that b has windows of, too? Where borders are tested, what one computes of an element may be
 * tested as well, and class window wants one value of each. */
static bool has_all_of(sn_module *m, sn_kern b, sn_kern a) {
    sn_chain outer, of_b;
    sn_chain_outer(&outer, m, a);
    sn_chain_outer(&of_b, m, b);
    sn_stmt s = next_in_windows(m, &outer, sn_stmt_walk_first(m, a), (sn_buf){0});
    for (; s.i; s = next_in_windows(m, &outer, sn_stmt_walk_next(m, s), (sn_buf){0})) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->n_in || !next_in_windows(m, &of_b, sn_stmt_walk_first(m, b), r->buf).i) return false;
    }
    return true;
}

bool sn_fuse_same_windows(sn_module *m, sn_kern a, sn_kern b) { return has_all_of(m, b, a) && has_all_of(m, a, b); }
