/* small_matrices.c: the pass `small-matrices`: on the CPU chains of products of small matrices become straight-line code before `fuse`.
 *
 *     %a = matmul %F, %P   %b = matmul %a, %G : f32[16384, 2, 2]
 *
 *     k0: loop i { loop j in 2 { loop k in 2 { %0 = reduce sum r in 2 { F[2*j + r] * P[4*i + 2*r + k] }  store a[4*i + 2*j + k], %0 } } }
 *  -> k0: loop i { store a[4*i], F[0]*P[4*i] + F[1]*P[4*i + 2]   ..   store a[4*i + 3], F[2]*P[4*i + 1] + F[3]*P[4*i + 3] }
 *
 * A product reads rows and columns of what the one before it has stored: as loops over elements the two have nothing in common but i,
 * and each goes through memory. Written out, every load names the element that a store has named, so that `fuse` makes one kernel of
 * the chain, whose lanes go along i, and no intermediate is left: filters, small linear systems, rotations in a row.
 *
 * Kernels have short rows if what is inside of one of their outer loops is SN_SMALL_ELEMENTS results or fewer, of
 * SN_SMALL_STEPS terms each at most. Those of as many rows that pass intermediates to one another are a chain; it is
 * written out if two of them or more are products, since one alone is as well off in its class (contract). Legal:
 * iterations of loops are independent, and stay in their order; sums are added up in theirs. Cost: linear in
 * statements, in what is written, and in the writers of an intermediate, one but for scatters, times its readers.
 */
#include "ir/loop/access.h"
#include "passes/loops/write_out.h"
#include "passes/schedule/base/figures.h"

typedef struct small {
    sn_stmt around; /* the loop over rows; none: the kernel has no short rows */
    int64_t rows;   /* iterations of it and those around it */
    bool product;
    uint32_t chain; /* the first kernel of its chain, by position */
} small;

/* Does the kernel sum up products of loads? */
static bool has_product(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_REDUCE || r->n_combs != 1 || r->combs[0] != SN_COMB_SUM) continue;
        sn_stmt yielded = sn_val_get(m, sn_stmt_get(m, r->last)->in[0])->def;
        if (sn_stmt_get(m, yielded)->op == SN_LOP_MUL && sn_stmt_inside(m, yielded, s)) return true;
    }
    return false;
}

/* Statements of the kernel when all inside of `around` is written out; -1: it cannot be. */
static int64_t written(const sn_module *m, sn_stmt around) {
    sn_stmt end = sn_stmt_walk_skip(m, around);
    int64_t n = 0;
    for (sn_stmt s = sn_stmt_get(m, around)->first; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        int64_t times = 1, extent;
        if (r->op == SN_LOP_ACCUM || r->op == SN_LOP_IF) return -1;
        if (r->op == SN_LOP_REDUCE && !sn_may_write_out(m, s, SN_SMALL_STEPS)) return -1;
        for (sn_stmt up = r->parent; up.i != around.i; up = sn_stmt_get(m, up)->parent)
            if (sn_ix_is_const(m, sn_stmt_extent(m, up), &extent)) times = sn_mul_clamped(times, extent);
        n = sn_add_clamped(n, times);
    }
    return n;
}

/* The outermost loop inside of which rows are short. */
static small find_rows(sn_pass_ctx *cx, sn_kern k) {
    sn_module *m = cx->m;
    const sn_kern_rec *r = sn_kern_get(m, k);
    small found = {0};
    sn_chain outer;
    int64_t extents[SN_MAX_CHAIN], row = 1;
    if (!sn_kern_is_free(r)) return found;
    sn_chain_outer(&outer, m, k);
    if (!outer.n || !sn_chain_extents(m, &outer, extents)) return found;
    uint32_t depth = outer.n;
    while (depth > 1 && row * extents[depth - 1] <= SN_SMALL_ELEMENTS) row *= extents[--depth];
    found.around = outer.at[depth - 1];
    found.rows = 1;
    for (uint32_t i = 0; i < depth; i++) found.rows = sn_mul_clamped(found.rows, extents[i]);
    int64_t n = written(m, found.around);
    if (n < 0 || n > SN_SMALL_WRITTEN || extents[depth - 1] < 2 * cx->target->vector_bytes / 4) return (small){0};
    found.product = has_product(m, k);
    return found;
}

static bool may_chain(const sn_module *m, const small *all, uint32_t a, uint32_t b) {
    if (!all[a].around.i || !all[b].around.i || all[a].rows != all[b].rows) return false;
    return sn_kern_get(m, m->kernels.at[a])->section == sn_kern_get(m, m->kernels.at[b])->section;
}

static uint32_t first_of(small *all, uint32_t i) {
    while (all[i].chain != i) i = all[i].chain = all[all[i].chain].chain;
    return i;
}

/* Who stores an intermediate is of one chain with those behind it that load it and have as many rows. */
static void find_chains(sn_pass_ctx *cx, small *all) {
    sn_module *m = cx->m;
    sn_users users;
    sn_users_find(&users, m, cx->scratch);
    for (uint32_t b = 1; b < users.n_bufs; b++) {
        const sn_user *u = users.user;
        uint32_t end = users.first[b + 1];
        if (sn_buf_get(m, (sn_buf){b})->scope != SN_BUF_TEMP) continue;
        for (uint32_t i = users.first[b]; i < end; i++)
            for (uint32_t k = i + 1; u[i].stores && k < end; k++)
                if (u[k].loads && may_chain(m, all, u[i].at, u[k].at))
                    all[first_of(all, u[k].at)].chain = first_of(all, u[i].at);
    }
}

static void write_kernel(sn_pass_ctx *cx, sn_kern k, sn_stmt around) {
    sn_write_loops_out(cx->m, k, around);
    sn_write_out(cx, k, SN_SMALL_STEPS);
    sn_kern_cse(cx->m, k);
    sn_kern_collect_params(cx->m, k);
    sn_remark(cx, sn_kern_get(cx->m, k)->name, "small matrices written out");
}

sn_status sn_pass_small_matrices(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    uint32_t n = m->kernels.n, products = 0;
    if (cx->target->is_gpu) return SN_OK;
    small *all = SN_NEWN(cx->scratch, small, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        all[i] = find_rows(cx, m->kernels.at[i]);
        all[i].chain = i;
        products += all[i].product;
    }
    if (products < SN_SMALL_PRODUCTS) return SN_OK;
    find_chains(cx, all);
    uint32_t *of_chain = SN_NEWN(cx->scratch, uint32_t, n + 1);
    for (uint32_t i = 0; i < n; i++) of_chain[first_of(all, i)] += all[i].product;
    for (uint32_t i = 0; i < n; i++) {
        if (!all[i].around.i || of_chain[first_of(all, i)] < SN_SMALL_PRODUCTS) continue;
        write_kernel(cx, m->kernels.at[i], all[i].around);
        *changed = true;
    }
    return m->env->status;
}
