/* scan.c: loads of a scan, or of the steps of a repeat, go ahead of it.
 *
 * A step of a prefix waits for the step before it, and across threads for a barrier; loads must not wait with it. Once
 * a scan is bound, the loads of its written-out steps get a nest of their own and hand over through registers:
 *
 *     unroll u { loop x { loop v { %0 = load a[e(u, x, v)]  %1 = accum sum %0 over ..  store y[..], %1 } } }
 *  -> loop x'{ unroll u'{ loop v'{ %0 = load a[e(u', x', v')]  store s[p], %0 } } }
 *     unroll u { loop x { loop v { %0 = load s[p]  %1 = accum sum %0 over ..  store y[..], %1 } } }
 *
 * So do those of rows that are read beside what a team keeps (row_part.c), in loops and reductions, whose threads are few; weights stay where they are,
 * since there are not registers for all.
 *
 * p = private * thread + u*V + v. Axes around u (a column's thread and lane) are the same in both. Legal for loads
 * whose offset and mask follow from axes alone, of buffers that the nest does not store. Cost: linear.
 */
#include "passes/schedule/base/schedule.h"

enum { MAX_INSIDE = 4 };

typedef struct ahead {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    const sn_sched *sched;
    sn_stmt unroll, innermost;
    sn_stmt row;     /* only what this loads, too; none: whatever may go */
    sn_chain inside; /* unroll and the loops in it, outermost first */
    sn_axis from[SN_MAX_CHAIN];
    sn_ix to[SN_MAX_CHAIN];
    sn_stmt into;   /* innermost loop of the new nest, once there is one */
    uint32_t bytes; /* a thread keeps */
} ahead;

/* Does v follow from axes and from what stands outside the nest? */
static bool is_free(const ahead *ah, sn_val v) {
    sn_stmt def = sn_val_get(ah->m, v)->def;
    const sn_stmt_rec *r = sn_stmt_get(ah->m, def);
    if (!sn_stmt_inside(ah->m, def, ah->unroll)) return true;
    if (!sn_lops[r->op].pure || sn_loads(r) || (r->ix.i && sn_ix_uses_vals(ah->m, r->ix))) return false;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (!is_free(ah, r->in[i])) return false;
    return true;
}

static bool may_go(const ahead *ah, const sn_stmt_rec *r) {
    if (r->op != SN_LOP_LOAD || sn_buf_get(ah->m, r->buf)->scope == SN_BUF_REG) return false;
    if (ah->row.i && !sn_stmt_loads(ah->m, ah->row, r->buf)) return false;
    if (sn_ix_uses_vals(ah->m, r->ix) || sn_stmt_stores(ah->m, ah->unroll, r->buf)) return false;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (!is_free(ah, r->in[i])) return false;
    return true;
}

/* v as computed in the new nest. */
static sn_val copy_value(ahead *ah, sn_val v) {
    sn_stmt def = sn_val_get(ah->m, v)->def;
    if (!sn_stmt_inside(ah->m, def, ah->unroll)) return v;
    uint32_t n = sn_stmt_get(ah->m, def)->n_in;
    sn_val in[3];
    for (uint32_t i = 0; i < n; i++) in[i] = copy_value(ah, sn_stmt_get(ah->m, def)->in[i]);
    sn_stmt copy = sn_stmt_clone(ah->m, sn_at_end(ah->k, ah->into), def);
    for (uint32_t i = 0; i < n; i++) sn_stmt_get(ah->m, copy)->in[i] = in[i];
    sn_stmt_subst(ah->m, copy, ah->from, ah->to, ah->inside.n);
    return sn_stmt_get(ah->m, copy)->result;
}

/* ---- the new nest ---- */

/* Threads outside, so that all loads of a thread stand together. */
static void open_nest(ahead *ah) {
    sn_module *m = ah->m;
    sn_cursor at = sn_at_before(m, ah->unroll);
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t k = 0; k < ah->inside.n; k++) {
            const sn_stmt_rec *r = sn_stmt_get(m, ah->inside.at[k]);
            sn_axis_kind kind = r->kind;
            if ((kind == SN_AXIS_BLOCK_X) != (pass == 0)) continue;
            sn_axis ax = sn_axis_new(m, sn_axis_get(m, r->axis)->name, sn_axis_get(m, r->axis)->extent);
            ah->from[k] = r->axis;
            ah->to[k] = sn_ix_axis(m, ax);
            ah->into = sn_put_loop(m, at, ax, kind);
            at = sn_at_end(ah->k, ah->into);
        }
}

static uint32_t private_size(const ahead *ah) {
    return (uint32_t)sn_ix_value(ah->m, sn_stmt_extent(ah->m, ah->unroll)) * ah->sched->vector;
}

static int64_t threads_of(const ahead *ah) {
    return (int64_t)ah->sched->block_x * (ah->sched->block_y ? ah->sched->block_y : 1);
}

/* Offset in the reg, over the axes of the old nest. */
static sn_ix reg_offset(const ahead *ah) {
    sn_module *m = ah->m;
    int64_t private = private_size(ah);
    sn_ix e = sn_ix_scale(m, sn_ix_axis(m, sn_stmt_axis(m, ah->unroll)), ah->sched->vector);
    for (sn_stmt s = ah->innermost; s.i; s = sn_stmt_get(m, s)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        int64_t stride = 0;
        if (!r->axis.i) continue;
        if (r->kind == SN_AXIS_VECTOR) stride = 1;
        if (r->kind == SN_AXIS_BLOCK_X) stride = private;
        if (r->kind == SN_AXIS_BLOCK_Y) stride = private * ah->sched->block_x;
        if (r->kind == SN_AXIS_CLUSTER) stride = private * threads_of(ah);
        if (stride) e = sn_ix_add(m, e, sn_ix_scale(m, sn_ix_axis(m, r->axis), stride));
    }
    return e;
}

static void send_ahead(ahead *ah, sn_stmt load) {
    sn_module *m = ah->m;
    if (!ah->into.i) open_nest(ah);
    sn_buf b = sn_stmt_get(m, load)->buf;
    sn_dtype dtype = sn_buf_get(m, b)->dtype;
    const char *name = sn_strf(&m->arena, "%s_%s", sn_kern_get(m, ah->k)->name, sn_buf_get(m, b)->name);
    int64_t own = private_size(ah), threads = threads_of(ah) * sn_sched_cluster(ah->sched);
    sn_buf reg = sn_local_new(m, name, dtype, SN_BUF_REG, own, threads);
    sn_ix offset = reg_offset(ah);
    sn_val early = copy_value(ah, sn_stmt_get(m, load)->result);
    sn_put_store(m, sn_at_end(ah->k, ah->into), reg, sn_ix_subst(m, offset, ah->from, ah->to, ah->inside.n), early);
    sn_val late = sn_put_load(m, sn_at_before(m, load), reg, offset);
    sn_val_replace(m, ah->k, sn_stmt_get(m, load)->result, late);
    sn_stmt_unlink(m, load);
    ah->bytes += (uint32_t)own * sn_dtype_bytes(dtype);
}

/* The loops of the bound scan below its written-out steps; false when it is not of that form. */
static bool find_inside(ahead *ah) {
    const sn_module *m = ah->m;
    for (sn_stmt s = ah->unroll; s.i;) {
        if (ah->inside.n == MAX_INSIDE) return false;
        ah->inside.at[ah->inside.n++] = ah->innermost = s;
        sn_stmt inner = {0};
        for (sn_stmt t = sn_stmt_get(m, s)->first; t.i; t = sn_next(m, t)) {
            const sn_stmt_rec *r = sn_stmt_get(m, t);
            if (!sn_lop_has_region(r->op)) continue;
            bool fits = r->op == SN_LOP_LOOP || (ah->row.i && r->op == SN_LOP_REDUCE);
            if (inner.i || !fits || r->kind == SN_AXIS_SEQ) return false;
            inner = t;
        }
        s = inner;
    }
    return true;
}

/* Does a step load what steps store? Others wait for none, although they store over it (sn_is_steps). */
static bool reads_state(const sn_module *m, sn_stmt loop) {
    sn_stmt end = sn_stmt_walk_skip(m, loop);
    for (sn_stmt s = loop; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s))
        if (sn_stores(sn_stmt_get(m, s)) && sn_stmt_loads(m, loop, sn_stmt_get(m, s)->buf)) return true;
    return false;
}

/* Steps of a repeat are as many as have room, or a few more, so that all turns are as long (element.c). */
static uint32_t most_bytes(const ahead *ah) {
    return sn_is_scan(ah->m, ah->unroll) ? SN_SCAN_AHEAD : SN_STEPS_AHEAD + SN_STEPS_AHEAD / 4;
}

/* Those of a written-out loop. Returns how many. */
static uint32_t all_ahead(ahead *ah) {
    sn_module *m = ah->m;
    uint32_t n = 0;
    if (!find_inside(ah)) return 0;
    for (sn_stmt t = sn_stmt_get(m, ah->innermost)->first, next; t.i; t = next) {
        next = sn_next(m, t);
        const sn_stmt_rec *load = sn_stmt_get(m, t);
        if (!may_go(ah, load)) continue;
        if (ah->bytes + private_size(ah) * sn_dtype_bytes(load->dtype) > most_bytes(ah)) continue;
        send_ahead(ah, t);
        n++;
    }
    return n;
}

void sn_schedule_loads_of_steps(sn_pass_ctx *cx, sn_kern k, sn_stmt steps, sn_stmt row, const sn_sched *sched) {
    sn_stmt end = sn_stmt_walk_skip(cx->m, steps);
    for (sn_stmt s = steps; s.i && s.i != end.i; s = sn_stmt_walk_next(cx->m, s)) {
        if (sn_stmt_get(cx->m, s)->kind != SN_AXIS_UNROLL) continue;
        ahead ah = {.cx = cx, .m = cx->m, .k = k, .sched = sched, .unroll = s, .row = row};
        all_ahead(&ah);
        return;
    }
}

uint32_t sn_schedule_loads_ahead(sn_pass_ctx *cx, sn_kern k, const sn_sched *sched) {
    sn_module *m = cx->m;
    uint32_t most = 0, n = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, k), after; s.i; s = after) {
        after = sn_stmt_walk_next(m, s);
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_LOOP || r->kind != SN_AXIS_UNROLL) continue;
        if (!sn_is_scan(m, s) && !reads_state(m, s)) continue;
        after = sn_stmt_walk_skip(m, s); /* what is inside may leave it */
        ahead ah = {.cx = cx, .m = m, .k = k, .sched = sched, .unroll = s};
        n += all_ahead(&ah);
        if (ah.bytes > most) most = ah.bytes;
    }
    if (n) sn_remark(cx, sn_kern_get(m, k)->name, "%u loads go ahead of a scan", n);
    return most;
}
