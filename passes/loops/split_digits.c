/* split_digits.c: the pass `split-digits`: an axis of which a load knows the digits becomes an axis for each of them.
 *
 *     loop i in 1000 { loop j in 8256 { load x[8256*i + 129*(j mod 64) + (j div 64)]  store y[8256*i + j] } }
 *  -> loop i in 1000 { loop j in 129 { loop j_1 in 64 { load x[8256*i + 129*j_1 + j]  store y[8256*i + 64*j + j_1] } } }
 *
 * Who permutes and then reshapes (patches, heads, planes of pixels that are shuffled) has loops over the reshaped axes.
 * What a load finds in order is a digit of one of them then, which classes tile and brick do not see: they want loops, and
 * accesses that are affine in them. Done for straight-line kernels of a GPU, where all accesses become affine in all axes,
 * the digits of an axis divide each other, and a load of much that is stored walks other lines than the stores do, as
 * classes brick and tile have them. All others, and small ones, keep their long axes, which vectors go along. Legal because
 * outer loops are parallel. After `collapse`, which would find nothing to do. Cost: accesses times axes.
 */
#include "passes/base/nest.h"
#include "passes/schedule/moves/brick.h"

#include <stdlib.h>
#include <string.h>

typedef struct digits {
    sn_module *m;
    sn_kern k;
    sn_chain outer;
    sn_axis from[SN_MAX_CHAIN];
    sn_ix to[SN_MAX_CHAIN];
    sn_axis axes[SN_MAX_CHAIN]; /* all of them, in their order */
    int64_t extents[SN_MAX_CHAIN], all;
    uint32_t n;
} digits;

/* Where digits of an axis end, the smallest first. */
typedef struct ends {
    int64_t at[SN_MAX_CHAIN];
    uint32_t n;
} ends;

/* ---- which ---- */

static bool add_end(ends *d, int64_t end) {
    uint32_t p = 0;
    while (p < d->n && d->at[p] < end) p++;
    if (p < d->n && d->at[p] == end) return true;
    if (d->n == SN_MAX_CHAIN) return false;
    for (uint32_t i = d->n++; i > p; i--) d->at[i] = d->at[i - 1];
    d->at[p] = end;
    return true;
}

/* What e, made of the axis by div and mod alone, knows of it: one step of e is *unit iterations. */
static bool find_ends(ends *d, int64_t *unit, const sn_module *m, sn_ix e, sn_ix axis) {
    const sn_ix_rec *r = sn_ix_get(m, e);
    int64_t by, end;
    *unit = 1;
    if (sn_ix_eq(e, axis)) return true;
    if (r->kind != SN_IX_DIV && r->kind != SN_IX_MOD) return false;
    if (!find_ends(d, unit, m, r->a, axis) || !sn_ix_is_const(m, r->b, &by)) return false;
    if (sn_mul_overflow(*unit, by, &end) || !add_end(d, end)) return false;
    if (r->kind == SN_IX_DIV) *unit = end;
    return true;
}

static bool find_ends_in(ends *d, sn_module *m, sn_ix e, sn_axis ax) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t constant, unit;
    sn_ix axis = sn_ix_axis(m, ax);
    uint32_t n = sn_ix_terms(m, e, &terms, &constant, &one);
    for (uint32_t i = 0; i < n; i++)
        if (sn_ix_uses_axis(m, terms[i].atom, ax) && !find_ends(d, &unit, m, terms[i].atom, axis)) return false;
    return true;
}

/* The digits that loads know of the axis of a loop become axes, the slowest first. */
static bool look_at_loop(digits *d, uint32_t p) {
    sn_module *m = d->m;
    sn_stmt loop = d->outer.at[p];
    sn_axis ax = d->from[p] = sn_stmt_axis(m, loop);
    ends e = {.n = 0};
    int64_t extent, unit;
    if (!sn_ix_is_const(m, sn_stmt_extent(m, loop), &extent) || extent < 1) return false;
    for (sn_stmt s = sn_region_first(m, d->k, d->outer.at[d->outer.n - 1]); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_lop_has_region(r->op)) return false;
        if (r->ix.i && !find_ends_in(&e, m, r->ix, ax)) return false;
    }
    while (e.n && e.at[e.n - 1] >= extent) e.n--;
    if (d->n + e.n + d->outer.n - p > SN_MAX_CHAIN) return false;
    d->all = sn_mul_clamped(d->all, extent);
    d->to[p] = sn_ix_const(m, 0);
    for (uint32_t i = e.n + 1; i-- > 0; extent = unit) {
        unit = i ? e.at[i - 1] : 1;
        if (extent % unit) return false;
        d->extents[d->n] = extent / unit;
        d->axes[d->n] = sn_axis_new(m, sn_axis_get(m, ax)->name, sn_ix_const(m, extent / unit));
        d->to[p] = sn_ix_fma(m, unit, sn_ix_axis(m, d->axes[d->n++]), d->to[p]);
    }
    return true;
}

/* Steps of an access along the axes, or of a test; false: it is not affine in one of them. */
static bool find_steps(int64_t *steps, digits *d, sn_ix e) {
    if (!e.i) return true;
    e = sn_ix_subst(d->m, e, d->from, d->to, d->outer.n);
    for (uint32_t i = 0; i < d->n; i++)
        if (!sn_ix_coef(d->m, e, d->axes[i], &steps[i])) return false;
    return true;
}

/* The axis along which an access goes on when it has walked `run` elements; d->n: there is none. */
static uint32_t next_axis(const digits *d, const int64_t *steps, int64_t run) {
    for (uint32_t i = 0; i < d->n; i++)
        if (d->extents[i] > 1 && llabs(steps[i]) == run) return i;
    return d->n;
}

/* Do both walk fewer bytes together than a line has, and both go on then, another way each? */
static bool crosses(const digits *d, const int64_t *stored, const sn_stmt_rec *r, const int64_t *loaded) {
    uint32_t bytes = sn_dtype_bytes(sn_buf_get(d->m, r->buf)->dtype);
    int64_t run = 1;
    if (sn_ix_uses_vals(d->m, r->ix) || sn_kern_stores(d->m, d->k, r->buf)) return false;
    int64_t all = sn_mul_clamped(d->all, bytes);
    if (all < SN_TILE_SMALL || sn_buf_bytes(d->m, r->buf) < all / 2) return false;
    for (;;) {
        uint32_t a = next_axis(d, stored, run), b = next_axis(d, loaded, run);
        if (a == d->n || b == d->n || run * bytes >= SN_LINE) return false;
        if (a != b) return true;
        run = sn_mul_clamped(run, d->extents[a]);
    }
}

/* Steps of all stores, which are the same, without masks. */
static bool find_stored(int64_t *stored, digits *d) {
    bool any = false;
    for (sn_stmt s = sn_region_first(d->m, d->k, d->outer.at[d->outer.n - 1]); s.i; s = sn_next(d->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(d->m, s);
        int64_t steps[SN_MAX_CHAIN] = {0};
        if (!find_steps(steps, d, r->ix)) return false;
        if (r->op != SN_LOP_STORE) continue;
        if (r->has_mask || (any && memcmp(stored, steps, sizeof steps) != 0)) return false;
        memcpy(stored, steps, sizeof steps);
        any = true;
    }
    return any;
}

static bool is_crossed(digits *d) {
    int64_t stored[SN_MAX_CHAIN] = {0}, loaded[SN_MAX_CHAIN] = {0};
    if (!find_stored(stored, d)) return false;
    for (sn_stmt s = sn_region_first(d->m, d->k, d->outer.at[d->outer.n - 1]); s.i; s = sn_next(d->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(d->m, s);
        if (r->op == SN_LOP_LOAD && find_steps(loaded, d, r->ix) && crosses(d, stored, r, loaded)) return true;
    }
    return false;
}

static bool look(digits *d) {
    sn_chain_outer(&d->outer, d->m, d->k);
    for (uint32_t p = 0; p < d->outer.n; p++)
        if (!look_at_loop(d, p)) return false;
    return d->n > d->outer.n && is_crossed(d);
}

/* ---- the new loops ---- */

static void split(digits *d) {
    sn_module *m = d->m;
    sn_stmt into = {0}, body = d->outer.at[d->outer.n - 1];
    for (uint32_t i = 0; i < d->n; i++) into = sn_put_loop(m, sn_at_end(d->k, into), d->axes[i], SN_AXIS_SEQ);
    for (sn_stmt s = sn_stmt_get(m, body)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        sn_stmt_subst(m, s, d->from, d->to, d->outer.n);
        sn_stmt_insert(m, sn_at_end(d->k, into), s);
    }
    sn_stmt_unlink(m, d->outer.at[0]);
}

sn_status sn_pass_split_digits(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    for (uint32_t i = 0; i < m->kernels.n && cx->target->is_gpu; i++) {
        digits d = {.m = m, .k = m->kernels.at[i], .all = 1};
        const sn_kern_rec *r = sn_kern_get(m, d.k);
        if (!sn_kern_is_free(r) || !look(&d)) continue;
        sn_remark(cx, r->name, "%u loops over what were digits of %u", d.n, d.outer.n);
        split(&d);
        *changed = true;
    }
    return m->env->status;
}
