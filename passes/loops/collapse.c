/* collapse.c: the pass `collapse`: adjacent axes that every access walks contiguously become one.
 *
 *     loop n in 2 { loop c in 32 { loop h in 6 { loop w in 6 { load x[1152*n + 36*c + 6*h + w]  load b[c] ... } } } }
 *  -> loop n in 2 { loop c in 32 { loop hw in 36 { load x[1152*n + 36*c + hw]  load b[c] ... } } }
 *
 * A pair (a outer, b inner, perfectly nested, both loops or both reduces with the same combiners) merges into f when
 * replacing a by f div B and b by f mod B leaves no div or mod of f in any index of the region: that is exactly the
 * case stride(a) = stride(b) * B for every access. In straight-line code a test `0 <= a + e < n` is one of `0 <= f + e*B < n*B` then: what
 * a border or a part of a concatenation is along a, it is along f. Two reduces merge because the elements keep their order; a sum of
 * sums becomes one sum, so its last bits may change. Runs after fusion, so that loop orders can still be matched there.
 * Cost: one substitution per pair of axes and region.
 */
#include "passes/base/nest.h"

/* A test that holds for all of b or for none. */
static bool tests_outer(sn_module *m, const sn_stmt_rec *r, const sn_axis ab[2]) {
    int64_t c, bound;
    return r->op == SN_LOP_IN && sn_ix_coef(m, r->ix, ab[0], &c) && c == 1 && !sn_ix_uses_axis(m, r->ix, ab[1]) &&
           sn_ix_is_const(m, r->bound, &bound);
}

static bool is_straight(const sn_module *m, sn_stmt loop) {
    if (sn_stmt_get(m, loop)->op != SN_LOP_LOOP) return false;
    for (sn_stmt s = sn_stmt_get(m, loop)->first; s.i; s = sn_next(m, s))
        if (sn_lop_has_region(sn_stmt_get(m, s)->op)) return false;
    return true;
}

/* Is every ix of the region of s affine in f after the substitution, but for tests of a? Tried without changing anything. */
static bool stays_affine(sn_module *m, sn_stmt s, const sn_axis ab[2], const sn_ix with[2], sn_axis f, bool tests) {
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s; t.i && t.i != end.i; t = sn_stmt_walk_next(m, t)) {
        const sn_stmt_rec *r = sn_stmt_get(m, t);
        if (tests && tests_outer(m, r, ab)) continue;
        sn_ix both[2] = {r->ix, r->bound}, coefficient, rest;
        for (uint32_t k = 0; k < 2; k++) {
            if (!both[k].i) continue;
            if (!sn_ix_uses_axis(m, both[k], ab[0]) && !sn_ix_uses_axis(m, both[k], ab[1])) continue;
            if (!sn_ix_split(m, sn_ix_subst(m, both[k], ab, with, 2), f, &coefficient, &rest)) return false;
        }
    }
    return true;
}

/* Tests of a become tests of f. */
static void widen_tests(sn_module *m, sn_stmt inner, const sn_axis ab[2], int64_t b, sn_axis f) {
    sn_ix none = sn_ix_const(m, 0), flat = sn_ix_axis(m, f);
    for (sn_stmt s = sn_stmt_get(m, inner)->first; s.i; s = sn_next(m, s)) {
        sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!tests_outer(m, r, ab)) continue;
        sn_ix rest = sn_ix_subst(m, r->ix, &ab[0], &none, 1), bound = sn_ix_scale(m, r->bound, b);
        r = sn_stmt_get(m, s);
        r->ix = sn_ix_fma(m, b, rest, flat);
        r->bound = bound;
    }
}

/* Put the region of `inner` in place of it. For reduces, the inner yield becomes the outer one. */
static void absorb(sn_module *m, sn_stmt s, sn_stmt inner) {
    sn_stmt old_yield = sn_next(m, inner);
    if (old_yield.i) sn_stmt_unlink(m, old_yield);
    for (sn_stmt t = sn_stmt_get(m, inner)->first, next; t.i; t = next) {
        next = sn_next(m, t);
        sn_stmt_unlink(m, t);
        sn_stmt_insert(m, sn_at_end(sn_stmt_get(m, s)->kern, s), t);
    }
    sn_stmt_unlink(m, inner);
}

static bool collapse_pair(sn_pass_ctx *cx, sn_stmt s) {
    sn_module *m = cx->m;
    sn_stmt inner = sn_nest_inner(m, s);
    if (!inner.i || sn_stmt_get(m, s)->kind != SN_AXIS_SEQ) return false;
    sn_axis ab[2] = {sn_stmt_axis(m, s), sn_stmt_axis(m, inner)};
    sn_ix extents[2] = {sn_stmt_extent(m, s), sn_stmt_extent(m, inner)}, with[2];
    const char *names[2] = {sn_axis_get(m, ab[0])->name, sn_axis_get(m, ab[1])->name};
    sn_axis f = sn_axis_new(m, sn_strf(&m->arena, "%s%s", names[0], names[1]), sn_ix_mul(m, extents[0], extents[1]));
    sn_ix_unflatten(m, sn_ix_axis(m, f), extents, 2, with);
    int64_t b;
    bool tests = sn_ix_is_const(m, extents[1], &b) && b > 0 && is_straight(m, inner);
    if (!stays_affine(m, s, ab, with, f, tests)) return false;
    if (tests) widen_tests(m, inner, ab, b, f);
    sn_stmt_subst(m, s, ab, with, 2);
    sn_stmt_get(m, s)->axis = f;
    absorb(m, s, inner);
    return true;
}

sn_status sn_pass_collapse(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        uint32_t merged = 0;
        if (sn_kern_get(m, m->kernels.at[i])->scheduled) continue;
        for (sn_stmt s = sn_stmt_walk_first(m, m->kernels.at[i]); s.i; s = sn_stmt_walk_next(m, s))
            while (sn_is_nest(sn_stmt_get(m, s)) && collapse_pair(cx, s)) merged++;
        if (!merged) continue;
        sn_remark(cx, sn_kern_get(m, m->kernels.at[i])->name, "%u axes merged into their neighbours", merged);
        *changed = true;
    }
    return m->env->status;
}
