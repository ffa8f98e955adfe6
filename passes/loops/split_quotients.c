/* split_quotients.c: the pass `split-quotients`: an axis of which a result of a reduction knows only the group becomes two.
 *
 *     k0: loop i { loop g in 2 { %0 = reduce sum r in 130 { load x[260*i + 130*g + r] }  store t[2*i + g], %0 } }
 *     k1: loop i { loop j in 260 { load x[260*i + j]  load t[2*i + j div 130]  ... store y[260*i + j] } }
 *  -> k1: loop i { loop g in 2 { loop j in 130 { load x[260*i + 130*g + j]  load t[2*i + g]  ... store y[260*i + 130*g + j] } } }
 *
 * Norms over groups of channels come so, whose weights know the channels: `fuse` finds the loops of k0 in k1 then, and a
 * row stays on the chip between the two. Legality: always; done where each index of the kernel is linear in both axes,
 * so that none becomes harder to read. Not in an attention, whose keys and values heads share: what wants its rows side by side finds its
 * heads as one axis in `fuse`, and split-groups makes them two afterwards. Where the kernels stay apart, `collapse` puts together what it can. Before
 * `fuse`. An image that was enlarged along two axes has two such: both become two (class tile turns it around then). Cost: linear in the
 * statements, a substitution for each axis.
 */
#include "passes/base/nest.h"

typedef struct quotients {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_users users;
    uint32_t at; /* position of the kernel */
} quotients;

/* Does the kernel that stores to b reduce something? */
static bool is_reduced(const quotients *q, sn_buf b) {
    uint32_t by = sn_users_storer(&q->users, b, q->at);
    if (sn_buf_get(q->m, b)->scope != SN_BUF_TEMP || by == UINT32_MAX) return false;
    for (sn_stmt s = sn_stmt_walk_first(q->m, q->m->kernels.at[by]); s.i; s = sn_stmt_walk_next(q->m, s))
        if (sn_stmt_get(q->m, s)->op == SN_LOP_REDUCE) return true;
    return false;
}

static int64_t find_group(const quotients *q, sn_stmt loop) {
    int64_t group = 0;
    sn_ix axis = sn_ix_axis(q->m, sn_stmt_axis(q->m, loop));
    sn_stmt end = sn_stmt_walk_skip(q->m, loop);
    for (sn_stmt s = loop; s.i != end.i && !group; s = sn_stmt_walk_next(q->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(q->m, s);
        if (sn_loads(r)) group = sn_ix_divisor(q->m, r->ix, axis);
        if (group && !is_reduced(q, r->buf)) group = 0;
    }
    return group;
}

/* Is every index in the loop linear in both axes, once outer*group + inner stands in place of its own? */
static bool stays_linear(sn_module *m, sn_stmt loop, int64_t group, int64_t groups) {
    sn_axis own = sn_stmt_axis(m, loop),
            both[2] = {sn_axis_new(m, "g", sn_ix_const(m, groups)), sn_axis_new(m, "j", sn_ix_const(m, group))};
    sn_ix with = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, both[0]), group), sn_ix_axis(m, both[1]));
    sn_stmt end = sn_stmt_walk_skip(m, loop);
    for (sn_stmt s = loop; s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        sn_ix of[2] = {r->ix, r->bound}, coefficient, rest;
        for (int k = 0; k < 2; k++) {
            if (!of[k].i || !sn_ix_uses_axis(m, of[k], own)) continue;
            sn_ix e = sn_ix_subst(m, of[k], &own, &with, 1);
            if (!sn_ix_split(m, e, both[0], &coefficient, &rest) || !sn_ix_split(m, e, both[1], &coefficient, &rest))
                return false;
        }
    }
    return true;
}

static bool split(const quotients *q, sn_stmt loop) {
    sn_module *m = q->m;
    int64_t extent, group = find_group(q, loop);
    sn_axis outer, inner;
    if (group < 2 || !sn_ix_is_const(m, sn_stmt_extent(m, loop), &extent)) return false;
    if (extent % group || extent == group || !stays_linear(m, loop, group, extent / group)) return false;
    sn_stmt_split_axis(m, loop, group, &outer, &inner);
    return true;
}

sn_status sn_pass_split_quotients(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    quotients q = {.cx = cx, .m = m};
    sn_users_find(&q.users, m, cx->scratch);
    for (uint32_t i = 1; i < m->kernels.n; i++) {
        sn_kern k = m->kernels.at[i];
        sn_chain outer;
        q.at = i;
        if (sn_kern_get(m, k)->scheduled || sn_kern_is_library(sn_kern_get(m, k)) || sn_kern_is_attention(m, k))
            continue;
        sn_chain_outer(&outer, m, k);
        for (uint32_t a = 0; a < outer.n && outer.n < SN_MAX_CHAIN; a++) {
            if (!split(&q, outer.at[a])) continue;
            sn_remark(cx, sn_kern_get(m, k)->name, "groups of an axis that a reduction knows are one of their own");
            *changed = true;
            sn_chain_outer(&outer, m, k);
            a++; /* what it became two of is not looked at again */
        }
    }
    return m->env->status;
}
