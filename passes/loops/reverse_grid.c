/* reverse_grid.c: the pass `reverse-grid`: a kernel begins where the one before it ended.
 *
 *     k0: loop g in 8192 : grid { ... load x[4096*g + ..] }            reads x from its beginning to its end
 *     k1: loop g in 8192 : grid { ... load x[4096*g + ..] }
 *  -> k1: loop g in 8192 : grid { ... load x[-4096*g + 33550336 + ..] }    from its end to its beginning
 *
 * The cache (L2) then still has what k0 touched last, which is what k1 wants first; in the same direction each line would
 * be gone just before it is wanted. Blocks that all run at once and share what they walk through (those of a reduction over
 * columns) go together, step by step: then it is their steps that have a direction. Norms and softmax of rows that no
 * cluster has room for read them twice like that, and so does any chain of kernels that could not be merged. Buffers that
 * the cache holds as a whole, and kernels that walk in no one direction, have no say.
 *
 * Legal because the iterations of a grid may run in any order; kernels whose blocks wait for earlier ones (posted
 * buffers) are left alone, and so are launches of several grids and classes that choose the order of their tiles
 * themselves. Runs when kernels are what a launch is. GPU only. Cost: linear in the statements, and for each kernel the
 * parameters of those before it as far back as the cache reaches.
 */
#include "passes/base/nest.h"
#include "passes/schedule/base/constants.h"

enum { SAMPLES = 8 };

typedef struct walker {
    sn_module *m;
    const sn_target *t;
    sn_kern k;
    sn_stmt grid; /* its one grid loop; none: it has no direction */
    int64_t blocks;
} walker;

/* ---- directions ---- */

static bool is_grid(const sn_module *m, sn_stmt s) {
    return sn_stmt_get(m, s)->op == SN_LOP_LOOP && sn_stmt_get(m, s)->kind == SN_AXIS_GRID;
}

/* May its blocks run from the last to the first? */
static bool is_free(const sn_module *m, sn_kern k) {
    const sn_kern_rec *r = sn_kern_get(m, k);
    bool plain = r->sched.cls == SN_SCHED_ELEMENT || r->sched.cls == SN_SCHED_INNER || r->sched.cls == SN_SCHED_OUTER;
    return r->scheduled && plain && sn_sched_cluster(&r->sched) == 1 && !sn_kern_posts(m, k);
}

static walker look(sn_pass_ctx *cx, sn_kern k) {
    sn_module *m = cx->m;
    walker w = {.m = m, .t = cx->target, .k = k};
    sn_stmt first = sn_kern_get(m, k)->first;
    if (!is_free(m, k) || !first.i || !is_grid(m, first)) return w;
    for (sn_stmt s = sn_stmt_walk_next(m, first); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (is_grid(m, s)) return w;
        if (r->axis.i && sn_ix_uses_axis(m, sn_stmt_extent(m, s), sn_stmt_axis(m, first))) return w;
    }
    if (!sn_ix_is_const(m, sn_stmt_extent(m, first), &w.blocks) || w.blocks < SAMPLES) return w;
    w.grid = first;
    return w;
}

typedef struct turn {
    sn_axis axis;
    int64_t number;
} turn;

static int64_t at_turn(void *user, sn_ix_kind kind, uint32_t id) {
    const turn *t = user;
    return kind == SN_IX_AXIS && id == t->axis.i ? t->number : 0;
}

/* 1: iteration i of n touches what is about i/n of the buffer's size from its beginning; -1: from its end; 0: neither. */
static int direction_of(sn_module *m, sn_axis axis, int64_t n, sn_ix e, int64_t size) {
    int64_t off[2] = {0, 0};
    for (int64_t i = 0; i <= SAMPLES; i++) {
        turn t = {axis, i * (n - 1) / SAMPLES};
        double at = (double)sn_ix_eval(m, e, at_turn, &t) / (double)size, part = (double)t.number / (double)n;
        for (int back = 0; back < 2; back++) {
            double d = at - (back ? 1 - part : part);
            off[back] += d > 1.0 / SAMPLES || d < -1.0 / SAMPLES;
        }
    }
    return !off[0] ? 1 : !off[1] ? -1 : 0;
}

/* Blocks that all run at once walk together, by the outermost loop that a thread goes through step by step. */
static int direction_of_steps(const walker *w, sn_stmt s, sn_ix e, int64_t size) {
    const sn_sched *sc = &sn_kern_get(w->m, w->k)->sched;
    int64_t threads = (int64_t)sc->block_x * (sc->block_y ? sc->block_y : 1), n = 0;
    sn_axis axis = {0};
    if (w->blocks * threads * SN_REVERSE_ROOM > (int64_t)w->t->units * w->t->unit_threads) return 0;
    for (sn_stmt p = sn_stmt_get(w->m, s)->parent; p.i; p = sn_stmt_get(w->m, p)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(w->m, p);
        if (sn_is_nest(r) && r->kind == SN_AXIS_SEQ) axis = sn_stmt_axis(w->m, p);
    }
    if (!axis.i || !sn_ix_is_const(w->m, sn_axis_get(w->m, axis)->extent, &n) || n < SN_REVERSE_STEPS) return 0;
    return direction_of(w->m, axis, n, e, size);
}

/* In which direction the kernel walks through b. */
static int direction(const walker *w, sn_buf b, bool before) {
    int64_t size;
    if (!w->grid.i || !sn_ix_is_const(w->m, sn_buf_get(w->m, b)->size, &size) || size <= 0) return 0;
    sn_stmt end = sn_stmt_walk_skip(w->m, w->grid);
    for (sn_stmt s = w->grid; s.i != end.i; s = sn_stmt_walk_next(w->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(w->m, s);
        if (!sn_is_access(r) || !sn_buf_eq(r->buf, b) || sn_ix_uses_vals(w->m, r->ix)) continue;
        int found = direction_of(w->m, sn_stmt_axis(w->m, w->grid), w->blocks, r->ix, size);
        if (!found && before) found = direction_of_steps(w, s, r->ix, size);
        if (found) return found;
    }
    return 0;
}

/* ---- kernels before ---- */

static int64_t bytes_touched(const sn_module *m, sn_kern k) {
    const sn_kern_rec *r = sn_kern_get(m, k);
    int64_t bytes = 0;
    for (uint32_t i = 0; i < r->params.n; i++) bytes = sn_add_clamped(bytes, sn_buf_bytes(m, r->params.at[i]));
    return bytes;
}

/* Bytes of what both walk through in the same direction, less those in opposite ones. */
static int64_t same_way(const walker *before, const walker *w) {
    int64_t bytes = 0;
    const sn_kern_rec *r = sn_kern_get(w->m, w->k);
    for (uint32_t i = 0; i < r->params.n; i++) {
        sn_buf b = r->params.at[i];
        int way = sn_kern_loads(w->m, w->k, b) ? direction(before, b, true) * direction(w, b, false) : 0;
        bytes += way * sn_buf_bytes(w->m, b);
    }
    return bytes;
}

/* Of the kernels before position `at` that the cache still knows something of: the last one that touches more than stays. */
static bool should_reverse(sn_pass_ctx *cx, uint32_t at, const walker *w) {
    int64_t cache = (int64_t)cx->target->cache_bytes, between = 0;
    sn_kern instead_of = sn_kern_get(cx->m, w->k)->alternative_of;
    for (uint32_t i = at; i-- > 0 && between < cache / 2;) {
        sn_kern k = cx->m->kernels.at[i];
        if (sn_kern_get(cx->m, k)->alternative_of.i || sn_kern_eq(k, instead_of)) continue;
        int64_t bytes = bytes_touched(cx->m, k);
        if (bytes > cache / 2) {
            walker before = look(cx, k);
            return same_way(&before, w) > cache / 2;
        }
        between = sn_add_clamped(between, bytes);
    }
    return false;
}

sn_status sn_pass_reverse_grid(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    if (!cx->target || !cx->target->is_gpu) return SN_OK;
    for (uint32_t i = 1; i < m->kernels.n; i++) {
        walker w = look(cx, m->kernels.at[i]);
        if (!w.grid.i || !should_reverse(cx, i, &w)) continue;
        sn_axis g = sn_stmt_axis(m, w.grid);
        sn_ix back = sn_ix_sub(m, sn_ix_const(m, w.blocks - 1), sn_ix_axis(m, g));
        for (sn_stmt s = sn_stmt_get(m, w.grid)->first; s.i; s = sn_next(m, s)) sn_stmt_subst(m, s, &g, &back, 1);
        sn_remark(cx, sn_kern_get(m, w.k)->name, "begins where the kernel before it ended");
        *changed = true;
    }
    return m->env->status;
}
