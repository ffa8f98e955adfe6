/* sync.c: the pass `sync`: a barrier wherever an element passes from one thread of a block to another.
 *
 *     loop x in 256 : block.x { store s[x], %0 }
 *     loop x in 256 : block.x { load s[255 - x] }
 *  -> loop x in 256 : block.x { store s[x], %0 }
 *     barrier
 *     loop x in 256 : block.x { load s[255 - x] }
 *
 * Two accesses to one buffer, at least one of them a store, need a barrier between them unless one thread makes both: the
 * region that holds both is inside all block axes, or both have the same axes around them and the same offset under
 * them. The barrier stands in the region that holds both, before the statement with the later access. What follows a
 * grid loop runs behind the last block, which needs none. A `seq` loop is walked twice, since its next iteration comes
 * after this one. Registers belong to threads. Relies on the promise of block axes that iterations of one nest do not
 * touch each other's elements. Cost: accesses to one buffer between two barriers, squared.
 */
#include "passes/nest.h"

typedef struct sync {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    SN_VEC(sn_stmt) pending; /* accesses since the last barrier, in order of execution */
    uint32_t block_axes;     /* kinds of block axes that the kernel has, as bits */
    bool changed;
} sync;

static uint32_t kind_bit(const sn_stmt_rec *r) {
    bool of_block = r->kind == SN_AXIS_CLUSTER || r->kind == SN_AXIS_BLOCK_X || r->kind == SN_AXIS_BLOCK_Y;
    return r->axis.i && of_block ? 1u << r->kind : 0;
}

/* ---- do two accesses belong to one thread? ---- */

static uint32_t depth_of(const sn_module *m, sn_stmt s) {
    uint32_t n = 0;
    while ((s = sn_stmt_get(m, s)->parent).i) n++;
    return n;
}

/* Innermost statement around both, none: the kernel; *a and *b become its children that hold them. */
static sn_stmt common_parent(const sn_module *m, sn_stmt *a, sn_stmt *b) {
    uint32_t at_a = depth_of(m, *a), at_b = depth_of(m, *b);
    for (; at_a > at_b; at_a--) *a = sn_stmt_get(m, *a)->parent;
    for (; at_b > at_a; at_b--) *b = sn_stmt_get(m, *b)->parent;
    while (sn_stmt_get(m, *a)->parent.i != sn_stmt_get(m, *b)->parent.i)
        *a = sn_stmt_get(m, *a)->parent, *b = sn_stmt_get(m, *b)->parent;
    return sn_stmt_get(m, *a)->parent;
}

static uint32_t kinds_around(const sn_module *m, sn_stmt s) {
    uint32_t bits = 0;
    for (; s.i; s = sn_stmt_get(m, s)->parent) bits |= kind_bit(sn_stmt_get(m, s));
    return bits;
}

/* Axes between an access and the region, outermost first. */
static uint32_t axes_below(sn_stmt *out, const sn_module *m, sn_stmt s, sn_stmt region) {
    sn_chain around;
    uint32_t n = 0;
    sn_chain_around(&around, m, s);
    for (uint32_t k = 0; k < around.n; k++)
        if (!region.i || sn_stmt_inside(m, around.at[k], region)) out[n++] = around.at[k];
    return n;
}

static bool same_element(const sync *sy, sn_stmt a, sn_stmt b, sn_stmt region) {
    sn_module *m = sy->m;
    sn_stmt at_a[SN_MAX_CHAIN], at_b[SN_MAX_CHAIN];
    sn_axis from[SN_MAX_CHAIN];
    sn_ix to[SN_MAX_CHAIN];
    uint32_t n = axes_below(at_a, m, a, region), bits = kinds_around(m, region);
    if (n != axes_below(at_b, m, b, region)) return false;
    for (uint32_t k = 0; k < n; k++) {
        const sn_stmt_rec *ra = sn_stmt_get(m, at_a[k]), *rb = sn_stmt_get(m, at_b[k]);
        if (ra->kind != rb->kind || !sn_ix_eq(sn_stmt_extent(m, at_a[k]), sn_stmt_extent(m, at_b[k]))) return false;
        from[k] = sn_stmt_axis(m, at_b[k]);
        to[k] = sn_ix_axis(m, sn_stmt_axis(m, at_a[k]));
        bits |= kind_bit(ra);
    }
    return bits == sy->block_axes &&
           sn_ix_eq(sn_ix_subst(m, sn_stmt_get(m, b)->ix, from, to, n), sn_stmt_get(m, a)->ix);
}

/* ---- the walk ---- */

/* Accesses before the barrier are settled; those inside the statement that it stands before are not. */
static void put_barrier(sync *sy, sn_stmt before) {
    uint32_t kept = 0;
    sn_put_barrier(sy->m, sn_at_before(sy->m, before));
    for (uint32_t k = 0; k < sy->pending.n; k++)
        if (sn_stmt_inside(sy->m, sy->pending.at[k], before)) sy->pending.at[kept++] = sy->pending.at[k];
    sy->pending.n = kept;
    sy->changed = true;
}

/* Is s what follows a grid loop, under the region? The code generator orders it behind all blocks. */
static bool after_grid(const sn_module *m, sn_stmt first) {
    const sn_stmt_rec *r = sn_stmt_get(m, first);
    return r->op == SN_LOP_LOOP && r->kind == SN_AXIS_GRID;
}

static void visit_access(sync *sy, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(sy->m, s);
    if (sn_buf_get(sy->m, r->buf)->scope == SN_BUF_REG) return;
    for (uint32_t k = sy->pending.n; k-- > 0;) {
        sn_stmt first = sy->pending.at[k], later = s;
        const sn_stmt_rec *p = sn_stmt_get(sy->m, first);
        if (!sn_buf_eq(p->buf, r->buf) || (p->op == SN_LOP_LOAD && r->op == SN_LOP_LOAD) || first.i == s.i) continue;
        sn_stmt region = common_parent(sy->m, &first, &later);
        if (kinds_around(sy->m, region) == sy->block_axes || after_grid(sy->m, first)) continue;
        if (same_element(sy, sy->pending.at[k], s, region)) continue;
        put_barrier(sy, later);
        break;
    }
    SN_PUSH(sy->cx->scratch, &sy->pending, s);
}

static void visit_region(sync *sy, sn_stmt first);

static void visit(sync *sy, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(sy->m, s);
    if (!r->parent.i && sn_is_grid(sy->m, s)) sy->pending.n = 0; /* no segment reads what another one stores */
    if (r->op == SN_LOP_LOAD || r->op == SN_LOP_STORE) visit_access(sy, s);
    else if (r->op == SN_LOP_BARRIER) sy->pending.n = 0;
    visit_region(sy, r->first);
    bool again = sn_is_nest(r) && (r->kind == SN_AXIS_SEQ || r->kind == SN_AXIS_UNROLL);
    if (again && kinds_around(sy->m, s) != sy->block_axes) visit_region(sy, r->first);
}

static void visit_region(sync *sy, sn_stmt first) {
    for (sn_stmt s = first; s.i; s = sn_next(sy->m, s)) visit(sy, s);
}

sn_status sn_pass_sync(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        sync sy = {.cx = cx, .m = m, .k = m->kernels.at[i]};
        if (!sn_kern_get(m, sy.k)->scheduled) continue;
        for (sn_stmt s = sn_stmt_walk_first(m, sy.k); s.i; s = sn_stmt_walk_next(m, s))
            sy.block_axes |= kind_bit(sn_stmt_get(m, s));
        if (!sy.block_axes) continue;
        visit_region(&sy, sn_kern_get(m, sy.k)->first);
        *changed |= sy.changed;
    }
    return m->env->status;
}
