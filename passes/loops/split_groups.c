/* split_groups.c: the pass `split-groups`: an axis of which an operand of products knows only the group becomes two.
 *
 *     loop o in 256 { reduce sum c in 64 { .. x[256*p + 64*(o div 64) + c] * w[64*o + c] } }
 *  -> loop g in 4 { loop o in 64 { reduce sum c in 64 { .. x[256*p + 64*g + c] * w[4096*g + 64*o + c] } } }
 *
 * Convolutions with groups come so: with an axis of its own a group is a product of matrices, one of a batch, and
 * class contract finds it. Only where tensor copies can bring it, and where a group has rows enough for most of a tile, or
 * sums so long that rows do not matter; else threads look at a place for each element and do not care. Legality: always, where each index is linear in both
 * axes. Phases and channels of a transposed convolution, which only its weights know, are rows both, however few. After `collapse`, which
 * sees long axes. Cost: linear in the statements, a substitution for each axis.
 */
#include "passes/base/nest.h"
#include "passes/schedule/base/figures.h"

/* Size of the groups of which the loads of a sum in s know the number; 0: none does. */
static int64_t find_group(const sn_module *m, sn_stmt s, sn_ix axis) {
    int64_t group = 0;
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s; t.i && t.i != end.i && !group; t = sn_stmt_walk_next(m, t)) {
        const sn_stmt_rec *r = sn_stmt_get(m, t);
        bool summed = r->parent.i && sn_stmt_get(m, r->parent)->op == SN_LOP_REDUCE;
        if (sn_loads(r) && summed) group = sn_ix_divisor(m, r->ix, axis);
    }
    return group;
}

/* Does one of two factors of the sums in s alone change along the axis? Then what becomes of it are two axes of rows, as of phases and channels in
 * the weights of a transposed convolution, and no groups that have fewer rows each. (Attention has more than two.) */
static bool is_of_one_factor(const sn_module *m, sn_stmt s, sn_axis axis) {
    uint32_t factors = 0, n = 0;
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s; t.i && t.i != end.i; t = sn_stmt_walk_next(m, t)) {
        const sn_stmt_rec *r = sn_stmt_get(m, t);
        bool summed = r->parent.i && sn_stmt_get(m, r->parent)->op == SN_LOP_REDUCE;
        if (!sn_loads(r) || !summed) continue;
        factors++;
        n += sn_ix_uses_axis(m, r->ix, axis);
    }
    return factors == 2 && n == 1;
}

static bool is_linear(sn_module *m, sn_ix e, sn_axis ax) {
    sn_ix coefficient, rest;
    return sn_ix_split(m, e, ax, &coefficient, &rest);
}

/* Is every index in s linear in both axes, once they stand in place of the one? */
static bool all_linear(sn_module *m, sn_stmt s, sn_axis axis, sn_ix with, const sn_axis both[2]) {
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s; t.i && t.i != end.i; t = sn_stmt_walk_next(m, t)) {
        const sn_stmt_rec *r = sn_stmt_get(m, t);
        sn_ix of[2] = {r->ix, r->bound};
        for (int k = 0; k < 2; k++) {
            if (!of[k].i || !sn_ix_uses_axis(m, of[k], axis)) continue;
            sn_ix e = sn_ix_subst(m, of[k], &axis, &with, 1);
            if (!is_linear(m, e, both[0]) || !is_linear(m, e, both[1])) return false;
        }
    }
    return true;
}

/* The region of s goes into a loop of its own. */
static void wrap_region(sn_module *m, sn_stmt s, sn_axis ax) {
    sn_kern k = sn_stmt_get(m, s)->kern;
    sn_stmt first = sn_stmt_get(m, s)->first, inner = sn_put_loop(m, sn_at_before(m, first), ax, SN_AXIS_SEQ);
    for (sn_stmt t = first, next; t.i; t = next) {
        next = sn_next(m, t);
        sn_stmt_unlink(m, t);
        sn_stmt_insert(m, sn_at_end(k, inner), t);
    }
}

/* Steps of the sums in s, one inside the other; 0: they are no numbers, or what is reduced are no sums. */
static int64_t steps_of(const sn_module *m, sn_stmt s) {
    int64_t most = 0;
    for (sn_stmt t = sn_stmt_get(m, s)->first; t.i; t = sn_next(m, t)) {
        const sn_stmt_rec *r = sn_stmt_get(m, t);
        int64_t extent, inside = steps_of(m, t);
        bool sums = r->op == SN_LOP_REDUCE && r->n_combs == 1 && r->combs[0] == SN_COMB_SUM;
        if (r->op == SN_LOP_REDUCE && (!sums || !sn_ix_is_const(m, sn_stmt_extent(m, t), &extent))) return 0;
        if (r->op == SN_LOP_REDUCE) inside = sn_mul_clamped(extent, inside ? inside : 1);
        if (inside > most) most = inside;
    }
    return most;
}

/* Is the sum longer than a group has results, or nearly so, as in a gradient of weights? Then rows may be few: its operands would be read once for each
 * of these. */
static bool has_long_sums(const sn_module *m, const sn_chain *outer, int64_t groups) {
    int64_t results = 1, extent;
    for (uint32_t i = 0; i < outer->n; i++) {
        if (!sn_ix_is_const(m, sn_stmt_extent(m, outer->at[i]), &extent)) return false;
        results = sn_mul_clamped(results, extent);
    }
    return SN_LONG_SUMS * steps_of(m, outer->at[outer->n - 1]) > results / groups;
}

static bool split(sn_module *m, const sn_chain *outer, sn_stmt s) {
    sn_axis o = sn_stmt_axis(m, s);
    int64_t extent, group = find_group(m, s, sn_ix_axis(m, o));
    const char *name = sn_axis_get(m, o)->name;
    bool whole = sn_ix_is_const(m, sn_stmt_extent(m, s), &extent) && group && extent % group == 0 && extent > group;
    if (!whole) return false;
    int64_t rows = is_of_one_factor(m, s, o) ? extent : group;
    if (2 * rows <= SN_PRODUCT_LEAST && !has_long_sums(m, outer, extent / group)) return false;
    sn_axis both[2] = {sn_axis_new(m, sn_strf(&m->arena, "%sg", name), sn_ix_const(m, extent / group)),
                       sn_axis_new(m, name, sn_ix_const(m, group))};
    sn_ix with = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, both[0]), group), sn_ix_axis(m, both[1]));
    if (!all_linear(m, s, o, with, both)) return false;
    sn_stmt_subst(m, s, &o, &with, 1);
    sn_stmt_get(m, s)->axis = both[0];
    wrap_region(m, s, both[1]);
    return true;
}

sn_status sn_pass_split_groups(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    for (uint32_t i = 0; i < m->kernels.n && cx->target->specific; i++) {
        sn_kern k = m->kernels.at[i];
        sn_chain outer;
        if (sn_kern_get(m, k)->scheduled || sn_kern_is_library(sn_kern_get(m, k))) continue;
        sn_chain_outer(&outer, m, k);
        for (uint32_t a = 0; a < outer.n; a++) {
            if (!split(m, &outer, outer.at[a])) continue;
            sn_remark(cx, sn_kern_get(m, k)->name, "groups of an axis are one of their own");
            *changed = true;
        }
    }
    return m->env->status;
}
