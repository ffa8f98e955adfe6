/* sync.c: the pass `sync`: a barrier wherever an element passes from one thread of a block to another.
 *
 *     loop x in 256 : block.x { store s[x], %0 }
 *     loop x in 256 : block.x { load s[255 - x] }
 *  -> loop x in 256 : block.x { store s[x], %0 }
 *     barrier
 *     loop x in 256 : block.x { load s[255 - x] }
 *
 * Two accesses to one buffer, at least one of them a store, need a barrier between them unless one thread makes both:
 * the region that holds both is inside all block axes, or both have the same axes around them and the same offset under
 * them. The barrier stands in the region that holds both, before the statement with the later access. What follows a
 * grid loop runs behind the last block, which needs none. Registers belong to threads; loads of what is posted wait.
 *
 * A loop outside the block axes is walked twice, since its next iteration comes after this one. Two accesses in
 * different iterations need a barrier in the loop, unless the offset steps over all elements of an iteration, or one
 * thread makes both at an offset that does not move with the loop.
 *
 * What a pipe fills (docs/IR.md) it does not fill again in its next iteration; its bulk nests have their barrier. Boxes
 * wait by themselves.
 *
 * A kernel that awaits copies has been here: `async-copy` made them between barriers, and a text that says otherwise is left to who
 * checks it.
 *
 * A barrier that may not run (in an `if`, in a loop that may be empty) orders only what stands in there with it.
 *
 * Relies on the promise of block axes that iterations of one nest do not touch each other's elements, and on a store
 * outside shared memory that meets no element twice; ir/loop/check.c tests both, and the pass. Cost: accesses to one
 * buffer between two barriers, squared.
 */
#include "ir/loop/box.h"
#include "ir/loop/mma.h"
#include "passes/base/nest.h"

/* A load or store; they are numbered in order of execution. */
typedef struct access {
    sn_stmt s;
    uint32_t number;
} access;

/* The walk through a loop that comes around again. */
typedef struct turn {
    const struct turn *outer;
    sn_stmt loop;
    uint32_t began; /* number of the first access of this iteration */
} turn;

typedef struct sync {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    SN_VEC(access) pending; /* accesses since the last barrier, in order */
    uint32_t made;          /* accesses so far */
    const turn *turn;       /* innermost */
    uint32_t block_axes;    /* kinds of block axes that the kernel has, as bits */
    sn_notes boxes;         /* by barrier: is it one of boxes? Until there are more barriers */
    sn_notes rests;         /* by offset: what is left of it beside the copies of a loop ... */
    sn_axis rests_of;       /* ... of that axis */
    bool changed;
} sync;

static uint32_t kind_bit(const sn_stmt_rec *r) {
    bool of_block = r->kind == SN_AXIS_CLUSTER || r->kind == SN_AXIS_BLOCK_X || r->kind == SN_AXIS_BLOCK_Y;
    return r->axis.i && of_block ? 1u << r->kind : 0;
}

static bool is_box_barrier(sync *sy, sn_stmt s) {
    uint64_t is;
    if (!sn_lops[sn_stmt_get(sy->m, s)->op].syncs) return false;
    if (sn_notes_find(&sy->boxes, s.i, &is)) return is;
    is = sn_is_box_barrier(sy->m, s);
    sn_notes_set(&sy->boxes, s.i, is);
    return is;
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

/* One thread makes both, at one offset. Outside block axes one thread stores, but all of them load. */
static bool same_element(const sync *sy, sn_stmt a, sn_stmt b, sn_stmt region) {
    sn_module *m = sy->m;
    bool stores = sn_stores(sn_stmt_get(m, a)) && sn_stores(sn_stmt_get(m, b));
    sn_chain of_a, of_b;
    sn_chain_below(&of_a, m, a, region);
    sn_chain_below(&of_b, m, b, region);
    return (stores || kinds_around(m, a) == sy->block_axes) && sn_same_element(m, a, &of_a, b, &of_b);
}

/* ---- two iterations of a loop ---- */

/* The outermost loop that an access has come around since; none: it was made in this iteration of every loop. */
static sn_stmt carrier_of(const sync *sy, const access *a) {
    sn_stmt carrier = {0};
    for (const turn *t = sy->turn; t; t = t->outer)
        if (a->number < t->began && sn_stmt_inside(sy->m, a->s, t->loop)) carrier = t->loop;
    return carrier;
}

static bool moves(const sync *sy, sn_stmt s, sn_stmt loop) {
    sn_ix e = sn_stmt_get(sy->m, s)->ix;
    return sn_ix_uses_axis(sy->m, e, sn_stmt_axis(sy->m, loop)) || sn_ix_uses_vals(sy->m, e);
}

/* ---- the walk ---- */

/* Might s not run although what stands before it does? */
static bool may_be_skipped(const sync *sy, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(sy->m, s);
    return r->op == SN_LOP_IF || (r->axis.i && sn_ix_range(sy->m, sn_stmt_extent(sy->m, s)).lo < 1);
}

static bool settles(const sync *sy, sn_stmt barrier, sn_stmt s) {
    for (sn_stmt up = sn_stmt_get(sy->m, barrier)->parent; up.i; up = sn_stmt_get(sy->m, up)->parent)
        if (may_be_skipped(sy, up) && !sn_stmt_inside(sy->m, s, up)) return false;
    return true;
}

/* Forget what the barrier before s settles: not what this iteration has done inside s. */
static void settle(sync *sy, sn_stmt s) {
    uint32_t kept = 0;
    const turn *t = sy->turn;
    while (t && !sn_stmt_inside(sy->m, s, t->loop)) t = t->outer;
    for (uint32_t k = 0; k < sy->pending.n; k++) {
        access a = sy->pending.at[k];
        bool inside = sn_stmt_inside(sy->m, a.s, s) && (!t || a.number >= t->began);
        if (inside || !settles(sy, s, a.s)) sy->pending.at[kept++] = a;
    }
    sy->pending.n = kept;
}

/* Is s what follows a grid loop, under the region? The code generator orders it behind all blocks. */
static bool after_grid(const sn_module *m, sn_stmt first) {
    const sn_stmt_rec *r = sn_stmt_get(m, first);
    return r->op == SN_LOP_LOOP && r->kind == SN_AXIS_GRID;
}

/* Does s fill a buffer of a pipe? Its iterations have a copy each. */
static bool fills(const sync *sy, sn_stmt s, sn_stmt pipe) {
    if (!sn_stmt_get(sy->m, pipe)->pipe || sn_stmt_get(sy->m, s)->op != SN_LOP_STORE) return false;
    while (s.i != pipe.i && !sn_stmt_get(sy->m, s)->bulk) s = sn_stmt_get(sy->m, s)->parent;
    return s.i != pipe.i;
}

/* A box waits by itself until its stage of the pipe is no longer read. */
static bool fills_by_box(const sync *sy, sn_stmt s) {
    if (sn_stmt_get(sy->m, s)->op != SN_LOP_STORE || kinds_around(sy->m, s) & ~(1u << SN_AXIS_CLUSTER)) return false;
    while (s.i && !sn_stmt_get(sy->m, s)->bulk) s = sn_stmt_get(sy->m, s)->parent;
    return s.i && sn_stmt_get(sy->m, sn_stmt_get(sy->m, s)->parent)->pipe;
}

/* Stores outside the axes of threads are by the first thread, one after the other. */
static bool by_first_thread(const sync *sy, sn_stmt s) {
    return sn_stores(sn_stmt_get(sy->m, s)) && !(kinds_around(sy->m, s) & ~(1u << SN_AXIS_CLUSTER));
}

typedef struct copies {
    sn_module *m;
    sn_axis ax;
    int64_t n, step; /* step*((.. + ax) mod n) + .. */
    sn_ix atom;      /* that `mod`; none: there is none */
} copies;

static void note_copies(const copies *of, sn_ix e, copies *out) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    *out = *of;
    for (uint32_t i = 0, n = sn_ix_terms(of->m, e, &terms, &c0, &one); i < n; i++) {
        const sn_ix_rec *r = sn_ix_get(of->m, terms[i].atom);
        int64_t each;
        bool counts = r->kind == SN_IX_MOD && sn_ix_coef(of->m, r->a, of->ax, &each) && each == 1;
        if (counts && sn_ix_is_const(of->m, r->b, &out->n)) out->atom = terms[i].atom, out->step = terms[i].c;
    }
}

/* Does the test, if it fails in an iteration of the loop, fail in all later ones? */
static bool fails_for_good(const sync *sy, sn_stmt s, sn_stmt loop) {
    const sn_stmt_rec *r = sn_stmt_get(sy->m, s);
    sn_axis ax = sn_stmt_axis(sy->m, loop);
    int64_t step;
    return r->op == SN_LOP_IF && sn_ix_coef(sy->m, r->ix, ax, &step) && step >= 0 &&
           sn_ix_range(sy->m, r->ix).lo >= 0 && !sn_ix_uses_axis(sy->m, r->bound, ax) &&
           !sn_ix_uses_vals(sy->m, r->ix) && !sn_ix_uses_vals(sy->m, r->bound);
}

/* Is there a barrier between them, s coming first in the text, in every iteration of the loop that comes to them? Then all that
 * is left is the next iteration. */
static bool barrier_behind(sync *sy, sn_stmt s, sn_stmt earlier, sn_stmt loop) {
    common_parent(sy->m, &s, &earlier);
    for (sn_stmt up = sn_stmt_get(sy->m, s)->parent; up.i != loop.i; up = sn_stmt_get(sy->m, up)->parent)
        if (!fails_for_good(sy, up, loop)) return false;
    for (; s.i && s.i != earlier.i; s = sn_next(sy->m, s))
        if (sn_lops[sn_stmt_get(sy->m, s)->op].syncs && !is_box_barrier(sy, s)) return true;
    return false;
}

/* Is the copy the same one in all of an iteration of the loop: does it hang on no loop inside, and on no value? */
static bool is_turn_of(const sync *sy, sn_ix atom, sn_stmt a, sn_stmt b, sn_stmt loop) {
    sn_ix turn = sn_ix_get(sy->m, atom)->a;
    if (sn_ix_uses_vals(sy->m, turn)) return false;
    for (int i = 0; i < 2; i++)
        for (sn_stmt up = sn_stmt_get(sy->m, i ? b : a)->parent; up.i != loop.i; up = sn_stmt_get(sy->m, up)->parent)
            if (sn_stmt_get(sy->m, up)->axis.i && sn_ix_uses_axis(sy->m, turn, sn_stmt_axis(sy->m, up))) return false;
    return true;
}

/* The offset in a copy of the buffer. */
static sn_ix rest_of(sync *sy, sn_ix e, const copies *of) {
    uint64_t rest;
    if (!sn_axis_eq(sy->rests_of, of->ax)) sy->rests = (sn_notes){.arena = sy->cx->scratch};
    sy->rests_of = of->ax;
    if (sn_notes_find(&sy->rests, e.i, &rest)) return (sn_ix){(uint32_t)rest};
    sn_ix left = sn_ix_sub(sy->m, e, sn_ix_scale(sy->m, of->atom, of->step));
    sn_notes_set(&sy->rests, e.i, left.i);
    return left;
}

/* Do both walk over copies of the buffer, another one in the next iteration: c*((.. + loop) mod n) + an offset below c? */
static bool alternate(sync *sy, sn_stmt a, sn_stmt b, sn_stmt loop) {
    copies of = {.m = sy->m, .ax = sn_stmt_axis(sy->m, loop)}, of_a, of_b;
    sn_ix e[] = {sn_stmt_get(sy->m, a)->ix, sn_stmt_get(sy->m, b)->ix};
    note_copies(&of, e[0], &of_a);
    note_copies(&of, e[1], &of_b);
    int64_t step = of_a.step;
    if (!of_a.atom.i || of_a.atom.i != of_b.atom.i || of_a.n < 2 || step != of_b.step) return false;
    if (!barrier_behind(sy, b, a, loop) || !is_turn_of(sy, of_a.atom, a, b, loop)) return false;
    for (int i = 0; i < 2; i++) {
        sn_ix rest = rest_of(sy, e[i], &of_a);
        sn_range range = sn_ix_range(sy->m, rest);
        if (sn_ix_uses_axis(sy->m, rest, of.ax) || range.lo < 0 || range.hi >= step) return false;
    }
    return true;
}

/* The offset in iteration i of the loop, from where the elements of the thread's own block begin. */
static sn_range offsets_in(const sync *sy, sn_stmt s, sn_stmt loop, int64_t i) {
    const sn_stmt_rec *r = sn_stmt_get(sy->m, s);
    sn_axis axes[] = {sn_stmt_axis(sy->m, loop)};
    sn_ix with[] = {sn_ix_const(sy->m, i)}, none = sn_ix_const(sy->m, 0);
    sn_ix rank = sn_cluster_rank(sy->m, r->parent);
    sn_ix own = sn_ix_sub(sy->m, r->ix, sn_shared_of_rank(sy->m, r->buf, rank, none));
    return sn_ix_range(sy->m, sn_ix_subst(sy->m, own, axes, with, 1));
}

/* An inner loop has both, and a barrier between them in each iteration: then the last one of an iteration of the outer loop meets
 * the first one of the next alone. Are these apart? */
static bool ends_meet_apart(sync *sy, sn_stmt earlier, sn_stmt s, sn_stmt outer) {
    sn_stmt a = earlier, b = s, loop = common_parent(sy->m, &a, &b);
    const sn_stmt_rec *r = loop.i ? sn_stmt_get(sy->m, loop) : NULL;
    int64_t n;
    if (!r || loop.i == outer.i || !r->axis.i || (r->kind != SN_AXIS_SEQ && r->kind != SN_AXIS_UNROLL) || r->pipe)
        return false;
    if (!sn_ix_is_const(sy->m, sn_stmt_extent(sy->m, loop), &n) || !barrier_behind(sy, s, earlier, loop)) return false;
    sn_range last = offsets_in(sy, earlier, loop, n - 1), first = offsets_in(sy, s, loop, 0);
    return last.hi < first.lo || first.hi < last.lo;
}

/* The statement that a barrier must stand before, so that s comes after the earlier access; none: nothing is needed. */
static sn_stmt barrier_between(sync *sy, const access *earlier, sn_stmt s) {
    const sn_stmt none = {0};
    sn_stmt carrier = carrier_of(sy, earlier), first = earlier->s, later = s;
    if (by_first_thread(sy, first) && by_first_thread(sy, s)) return none;
    if (carrier.i) {
        bool shared = sn_buf_get(sy->m, sn_stmt_get(sy->m, s)->buf)->scope == SN_BUF_SHARED;
        if ((first.i == s.i && !shared) || fills(sy, s, carrier)) return none;
        while (sn_stmt_get(sy->m, later)->parent.i != carrier.i) later = sn_stmt_get(sy->m, later)->parent;
        bool still = !moves(sy, earlier->s, carrier) && !moves(sy, s, carrier);
        if (still && same_element(sy, earlier->s, s, carrier)) return none;
        if (alternate(sy, earlier->s, s, carrier) || (shared && ends_meet_apart(sy, earlier->s, s, carrier)))
            return none;
        return sn_access_apart(sy->m, earlier->s, s, carrier) ? none : later;
    }
    sn_stmt region = common_parent(sy->m, &first, &later);
    if (kinds_around(sy->m, region) == sy->block_axes || after_grid(sy->m, first)) return none;
    return same_element(sy, earlier->s, s, region) ? none : later;
}

/* The barrier of a pipe of boxes waits for them, and for no thread. */
static void settle_boxes(sync *sy) {
    uint32_t kept = 0;
    for (uint32_t k = 0; k < sy->pending.n; k++)
        if (!fills_by_box(sy, sy->pending.at[k].s)) sy->pending.at[kept++] = sy->pending.at[k];
    sy->pending.n = kept;
}

static void visit_access(sync *sy, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(sy->m, s);
    sn_buf_scope scope = sn_buf_get(sy->m, r->buf)->scope;
    if (scope == SN_BUF_REG || scope == SN_BUF_POSTED) return;
    for (uint32_t k = fills_by_box(sy, s) ? 0 : sy->pending.n; k-- > 0;) {
        const sn_stmt_rec *p = sn_stmt_get(sy->m, sy->pending.at[k].s);
        if (!sn_buf_eq(p->buf, r->buf) || (!sn_stores(p) && !sn_stores(r))) continue;
        sn_stmt before = barrier_between(sy, &sy->pending.at[k], s);
        if (!before.i) continue;
        sn_put_barrier(sy->m, sn_at_before(sy->m, before));
        sy->boxes = (sn_notes){.arena = sy->cx->scratch};
        settle(sy, before);
        sy->changed = true;
        break;
    }
    SN_PUSH(sy->cx->scratch, &sy->pending, ((access){s, sy->made++}));
}

static void visit_region(sync *sy, sn_stmt first);

static void visit(sync *sy, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(sy->m, s);
    if (!r->parent.i && sn_is_grid(sy->m, s)) sy->pending.n = 0; /* no segment reads what another one stores */
    if (sn_is_access(r)) visit_access(sy, s);
    else if (is_box_barrier(sy, s)) settle_boxes(sy);
    else if (sn_lops[r->op].syncs) settle(sy, s);
    bool again = sn_is_nest(r) && (r->kind == SN_AXIS_SEQ || r->kind == SN_AXIS_UNROLL);
    if (!again || kinds_around(sy->m, s) == sy->block_axes) {
        visit_region(sy, r->first);
        return;
    }
    turn t = {sy->turn, s, sy->made};
    sy->turn = &t;
    visit_region(sy, r->first);
    t.began = sy->made;
    visit_region(sy, sn_stmt_get(sy->m, s)->first);
    sy->turn = t.outer;
}

static void visit_region(sync *sy, sn_stmt first) {
    for (sn_stmt s = first; s.i; s = sn_next(sy->m, s)) visit(sy, s);
}

sn_status sn_pass_sync(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        sync sy = {.cx = cx, .m = m, .k = m->kernels.at[i], .boxes.arena = cx->scratch, .rests.arena = cx->scratch};
        if (!sn_kern_get(m, sy.k)->scheduled) continue;
        bool awaits = false;
        for (sn_stmt s = sn_stmt_walk_first(m, sy.k); s.i; s = sn_stmt_walk_next(m, s)) {
            sy.block_axes |= kind_bit(sn_stmt_get(m, s));
            awaits |= sn_stmt_get(m, s)->await;
        }
        if (!sy.block_axes || awaits) continue;
        visit_region(&sy, sn_kern_get(m, sy.k)->first);
        *changed |= sy.changed;
    }
    return m->env->status;
}
