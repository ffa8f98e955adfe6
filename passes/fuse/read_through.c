/* read_through.c: what has been copied for the steps of a repeat is read where it was (of the pass `interchange`, on GPUs).
 *
 *     kernel @c(x, s) { loop i in 100 { loop j in 1024 { %0 = load x[i + 100*j]  store s[1024*i + j], %0 } } }
 *     kernel @k(s, y) { loop j in 1024 { loop step in 100 { %0 = load s[1024*step + j]  .. } } }
 *  -> kernel @k(x, y) { loop j in 1024 { loop step in 100 { %0 = load x[step + 100*j]  .. } } }       @c goes, if nobody else loads s
 *
 * Slices of a repeat are windows of a tensor whose first axis counts steps: one along another axis is copied in front of the
 * repeat. A repeat that has become a loop of a kernel (interchange.c) can take slices of any tensor; each element moves once
 * instead of three times.
 *
 * Legal where the copy is the only store to a temporary, of loads as they are, at a place for each iteration that fills it row by row, in
 * front of the kernel, and where nobody stores to what it is a copy of from there on: inputs, constants, and
 * temporaries of earlier kernels of one section. Offsets are taken apart into the copy's iterations, and have to be sums of axes again.
 * Not done where neighbouring iterations of the kernel would read what lies further apart than in the copy. Cost: kernels in front of one, times
 * its loads.
 */
#include "passes/fuse/fuse.h"

typedef struct copying {
    sn_module *m;
    uint32_t from, to; /* positions of both kernels */
    sn_stmt store, load;
    sn_axis axis[SN_MAX_CHAIN]; /* loops of the copy, by how far they step in what it stores: the largest first */
    int64_t step[SN_MAX_CHAIN], extent[SN_MAX_CHAIN];
    uint32_t n;
} copying;

/* ---- the copy ---- */

static void sort_axis(copying *c, sn_axis ax, int64_t step, int64_t extent) {
    uint32_t at = c->n++;
    for (; at && c->step[at - 1] < step; at--)
        c->axis[at] = c->axis[at - 1], c->step[at] = c->step[at - 1], c->extent[at] = c->extent[at - 1];
    c->axis[at] = ax, c->step[at] = step, c->extent[at] = extent;
}

/* Does the store fill its buffer row by row, whatever the order of the loops? */
static bool fills(copying *c, const sn_chain *loops) {
    sn_module *m = c->m;
    sn_ix e = sn_stmt_get(m, c->store)->ix, zeros[SN_MAX_CHAIN];
    int64_t step, extent, first, all = 1;
    c->n = 0;
    for (uint32_t i = 0; i < loops->n; i++) {
        sn_axis ax = sn_stmt_axis(m, loops->at[i]);
        if (!sn_ix_is_const(m, sn_stmt_extent(m, loops->at[i]), &extent) || !sn_ix_coef(m, e, ax, &step)) return false;
        sort_axis(c, ax, step, extent);
        zeros[i] = sn_ix_const(m, 0);
    }
    for (uint32_t i = c->n; i-- > 0; all = sn_mul_clamped(all, c->extent[i]))
        if (c->step[i] != all) return false;
    bool starts = sn_ix_is_const(m, sn_ix_subst(m, e, c->axis, zeros, c->n), &first) && first == 0;
    return starts && sn_ix_is_const(m, sn_buf_get(m, sn_stmt_get(m, c->store)->buf)->size, &extent) && extent == all;
}

/* Who stores to b, but for the copy: nobody; or, earlier, a kernel of the copy's own section. */
static bool is_settled(const copying *c, sn_buf b) {
    const sn_module *m = c->m;
    sn_buf_scope scope = sn_buf_get(m, b)->scope;
    uint32_t section = sn_kern_get(m, m->kernels.at[c->from])->section;
    if (scope != SN_BUF_INPUT && scope != SN_BUF_CONST && scope != SN_BUF_TEMP) return false;
    if (scope == SN_BUF_TEMP && sn_kern_get(m, m->kernels.at[c->to])->section != section) return false;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        if (!sn_kern_stores(m, m->kernels.at[i], b)) continue;
        if (i >= c->from || sn_kern_get(m, m->kernels.at[i])->section != section) return false;
    }
    return true;
}

static bool is_only_store(const copying *c) {
    const sn_module *m = c->m;
    sn_buf b = sn_stmt_get(m, c->store)->buf;
    for (uint32_t i = 0; i < m->kernels.n; i++)
        for (sn_stmt s = sn_stmt_walk_first(m, m->kernels.at[i]); s.i; s = sn_stmt_walk_next(m, s))
            if (s.i != c->store.i && sn_stmt_get(m, s)->buf.i == b.i && !sn_loads(sn_stmt_get(m, s))) return false;
    return true;
}

/* The value itself, where halves have been widened and narrowed again. */
static sn_val without_casts(const sn_module *m, sn_val v) {
    const sn_stmt_rec *narrow = sn_stmt_get(m, sn_val_get(m, v)->def);
    if (narrow->op != SN_LOP_CAST) return v;
    const sn_stmt_rec *wide = sn_stmt_get(m, sn_val_get(m, narrow->in[0])->def);
    if (wide->op != SN_LOP_CAST || wide->dtype != SN_F32) return v;
    sn_dtype from = sn_val_get(m, wide->in[0])->dtype;
    return from == narrow->dtype && (from == SN_F16 || from == SN_BF16) ? wide->in[0] : v;
}

static bool is_copy(copying *c, const sn_chain *loops, sn_stmt s) {
    sn_module *m = c->m;
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    if (r->op != SN_LOP_STORE || r->has_mask || sn_ix_uses_vals(m, r->ix)) return false;
    c->store = s;
    c->load = sn_val_get(m, without_casts(m, r->in[0]))->def;
    const sn_stmt_rec *q = sn_stmt_get(m, c->load);
    if (q->op != SN_LOP_LOAD || q->has_mask || q->parent.i != r->parent.i || sn_ix_uses_vals(m, q->ix)) return false;
    if (q->dtype != sn_buf_get(m, r->buf)->dtype || sn_buf_get(m, r->buf)->scope != SN_BUF_TEMP) return false;
    return fills(c, loops) && is_only_store(c) && is_settled(c, q->buf);
}

/* The copy that fills b, in a kernel in front of c->to. */
static bool find_copy(copying *c, sn_buf b) {
    sn_module *m = c->m;
    for (c->from = 0; c->from < c->to; c->from++) {
        sn_chain loops;
        sn_chain_outer(&loops, m, m->kernels.at[c->from]);
        if (!loops.n || !sn_kern_stores(m, m->kernels.at[c->from], b)) continue;
        for (sn_stmt s = sn_stmt_get(m, loops.at[loops.n - 1])->first; s.i; s = sn_next(m, s))
            if (sn_stores(sn_stmt_get(m, s)) && sn_buf_eq(sn_stmt_get(m, s)->buf, b)) return is_copy(c, &loops, s);
        return false;
    }
    return false;
}

/* ---- the load ---- */

/* Is e a sum of the axes around s, and as close together along the kernel's last outer loop as what s loads now? */
static bool suits(const copying *c, sn_stmt s, sn_ix e) {
    sn_module *m = c->m;
    int64_t step, now;
    sn_chain outer;
    sn_chain_outer(&outer, m, m->kernels.at[c->to]);
    for (sn_stmt p = sn_stmt_get(m, s)->parent; p.i; p = sn_stmt_get(m, p)->parent)
        if (sn_is_nest(sn_stmt_get(m, p)) && !sn_ix_coef(m, e, sn_stmt_axis(m, p), &step)) return false;
    if (!outer.n) return true;
    sn_axis last = sn_stmt_axis(m, outer.at[outer.n - 1]);
    return sn_ix_coef(m, e, last, &step) && sn_ix_coef(m, sn_stmt_get(m, s)->ix, last, &now) && step == now;
}

static bool read_through(const copying *c, sn_stmt s) {
    sn_module *m = c->m;
    sn_stmt_rec *r = sn_stmt_get(m, s);
    sn_ix at[SN_MAX_CHAIN];
    for (uint32_t i = 0; i < c->n; i++) {
        at[i] = sn_ix_divc(m, r->ix, c->step[i]);
        if (i) at[i] = sn_ix_modc(m, at[i], c->extent[i]);
    }
    const sn_stmt_rec *from = sn_stmt_get(m, c->load);
    sn_ix e = sn_ix_subst(m, from->ix, c->axis, at, c->n);
    if (!suits(c, s, e)) return false;
    r->ix = e;
    r->buf = from->buf;
    return true;
}

bool sn_fuse_read_through(sn_pass_ctx *cx, sn_kern k) {
    sn_module *m = cx->m;
    copying c = {.m = m};
    sn_chain outer;
    bool any = false;
    sn_chain_outer(&outer, m, k);
    sn_stmt body = outer.n ? outer.at[outer.n - 1] : (sn_stmt){0};
    while (m->kernels.at[c.to].i != k.i) c.to++;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_LOAD || r->parent.i == body.i) continue; /* what states begin with, fuse brings */
        if (sn_buf_get(m, r->buf)->scope != SN_BUF_TEMP || sn_ix_uses_vals(m, r->ix)) continue;
        if (find_copy(&c, r->buf)) any |= read_through(&c, s);
    }
    if (any) sn_kern_collect_params(m, k);
    return any;
}
