/* start_early.c: the pass `start-early`: a kernel loads, or asks for, what it reads of inputs and weights before it waits for the kernel
 * in front of it.
 *
 *     k1: loop g in 96 : grid { loop y in 256 : block.y { loop u in 3 { loop v in 8 : vector { store r[..], load w[..] } } }
 *                               loop y in 256 : block.y { .. load x[..] .. }   .. load bias[8*g + v] .. }
 *  -> k1: loop g in 96 : grid { loop y in 256 : block.y { loop u in 3 { loop v in 8 : vector { store r[..], load w[..] } } }
 *                               loop y in 256 : block.y { %0 = in y, 1   prefetch bias[8*g], 8 if %0 }
 *                               wait
 *                               loop y in 256 : block.y { .. load x[..] .. }   .. load bias[8*g + v] .. }
 *
 * Where kernels are short, as in a network with one row, each waits for the one before, and then for memory. Weights need not
 * wait: the blocks of a kernel are there while the one in front of it runs (codegen-llvm/follow.c). `wait` comes in front of the
 * first nest of the grid's region that does more than load inputs and constants into registers. Of what the nests behind it
 * load of those, pieces are asked for: they come to the L2 (`prefetch`).
 *
 * Legal since no kernel of a run stores any of it (sn_buf_is_settled), and a run's first kernel begins when all that stands in front of the run
 * has ended (runtime/exec.c): so the run's others may call each other before they wait. The first kernel of the module has nobody
 * to wait for, and stays as it is.
 *
 * What is asked for: loads whose offset is a sum of axes, and which each block makes of other elements. The axes inside of the
 * grid, from the smallest step on, make pieces of neighbours; the threads of the block share the pieces. One piece is one instruction, and
 * those wait for each other, so many pieces are left alone, as are short ones, kernels that read more than a part of the L2, and those
 * of which not all blocks run at once. No kernels of several grids, of boxes (which have a warp for that), or whose blocks wait for each other. GPU
 * only, from sm_90 on. Runs when kernels are what a launch is. Cost: linear in the statements.
 */
#include "ir/loop/box.h"
#include "passes/base/nest.h"
#include "passes/schedule/base/constants.h"

enum { MOST_LOADS = 8 };

/* What a block reads by one load: pieces of n elements, one for each value of the axes. */
typedef struct pieces {
    sn_buf buf;
    sn_ix first; /* of the block: the axes are 0 */
    int64_t n;
    uint32_t n_axes;
    int64_t count, last; /* product of the extents; the last element, from the first one on */
    int64_t step[SN_MAX_CHAIN], extent[SN_MAX_CHAIN];
} pieces;

typedef struct starter {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_stmt grid;  /* the innermost one */
    sn_stmt front; /* the first statement inside that has to wait */
    int64_t blocks;
    uint32_t n;
    pieces at[MOST_LOADS];
} starter;

/* ---- kernels ---- */

static bool has_boxes(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s))
        if (sn_stmt_get(m, s)->bulk && sn_is_box(m, s)) return true;
    return false;
}

/* Finds the innermost grid loop. Each begins the region of the one around it, so that nothing is done in front of it. */
static bool look(starter *f) {
    sn_module *m = f->m;
    const sn_kern_rec *k = sn_kern_get(m, f->k);
    sn_stmt s = k->first;
    f->blocks = 1;
    if (!k->scheduled || sn_kern_is_library(k) || sn_kern_posts(m, f->k) || sn_sched_cluster(&k->sched) > 1)
        return false;
    if (sn_kern_segments(m, f->k) != 1 || has_boxes(m, f->k)) return false;
    for (; s.i && sn_is_grid(m, s); s = sn_stmt_get(m, s)->first) {
        int64_t n;
        if (!sn_ix_is_const(m, sn_stmt_extent(m, s), &n)) return false;
        f->blocks = sn_mul_clamped(f->blocks, n);
        f->grid = s;
    }
    return f->grid.i;
}

/* ---- what need not wait ---- */

/* Does it load inputs and constants into registers, and nothing else? */
static bool may_come_early(const sn_module *m, sn_stmt s) {
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s; t.i != end.i; t = sn_stmt_walk_next(m, t)) {
        const sn_stmt_rec *r = sn_stmt_get(m, t);
        const sn_buf_rec *b = sn_is_access(r) ? sn_buf_get(m, r->buf) : NULL;
        if (r->op == SN_LOP_PREFETCH || (r->op == SN_LOP_LOOP && r->kind != SN_AXIS_GRID && !r->bulk)) continue;
        if (b ? b->scope != SN_BUF_REG && !(sn_loads(r) && sn_buf_is_settled(m, b)) : !sn_lops[r->op].pure)
            return false;
    }
    return true;
}

/* Finds where to wait; returns whether anything is loaded in front of it. */
static bool find_front(starter *f) {
    bool loads = false;
    f->front = sn_stmt_get(f->m, f->grid)->first;
    for (; f->front.i && may_come_early(f->m, f->front); f->front = sn_next(f->m, f->front)) {
        sn_stmt end = sn_stmt_walk_skip(f->m, f->front);
        for (sn_stmt s = f->front; s.i != end.i; s = sn_stmt_walk_next(f->m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(f->m, s);
            loads |= sn_loads(r) && sn_buf_is_settled(f->m, sn_buf_get(f->m, r->buf));
        }
    }
    return loads;
}

/* ---- loads that are asked for ---- */

/* Steps fall from axis to axis. */
static void add_axis(pieces *p, int64_t step, int64_t extent) {
    uint32_t i = p->n_axes++;
    for (; i && p->step[i - 1] < step; i--) p->step[i] = p->step[i - 1], p->extent[i] = p->extent[i - 1];
    p->step[i] = step, p->extent[i] = extent;
}

/* Axes that go on where the piece ends make it longer; the others number the pieces, and go on where the next one ends. */
static void join(pieces *p) {
    for (; p->n_axes && p->step[p->n_axes - 1] <= p->n; p->n_axes--)
        p->n = sn_add_clamped(p->n, sn_mul_clamped(p->step[p->n_axes - 1], p->extent[p->n_axes - 1] - 1));
    p->count = 1;
    p->last = p->n - 1;
    for (uint32_t i = 0; i < p->n_axes; i++) {
        p->count = sn_mul_clamped(p->count, p->extent[i]);
        p->last = sn_add_clamped(p->last, sn_mul_clamped(p->step[i], p->extent[i] - 1));
    }
    for (uint32_t i = p->n_axes; i-- > 1;) {
        if (p->step[i - 1] != sn_mul_clamped(p->step[i], p->extent[i])) continue;
        p->extent[i - 1] *= p->extent[i], p->step[i - 1] = p->step[i];
        for (uint32_t k = i; k + 1 < p->n_axes; k++) p->step[k] = p->step[k + 1], p->extent[k] = p->extent[k + 1];
        p->n_axes--;
    }
}

/* What the load touches in a block: false where its offset is no sum of axes. */
static bool find_pieces(pieces *p, starter *f, sn_stmt s) {
    sn_module *m = f->m;
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    sn_chain around;
    sn_chain_below(&around, m, s, f->grid);
    *p = (pieces){.buf = r->buf, .first = r->ix, .n = 1};
    if (around.n == SN_MAX_CHAIN || sn_ix_uses_vals(m, r->ix)) return false;
    for (uint32_t i = 0; i < around.n; i++) {
        sn_axis ax = sn_stmt_axis(m, around.at[i]);
        int64_t step, extent;
        if (!sn_ix_coef(m, p->first, ax, &step) || step < 0) return false;
        if (!sn_ix_is_const(m, sn_stmt_extent(m, around.at[i]), &extent) || extent < 1) return false;
        if (!step || extent == 1) continue;
        add_axis(p, step, extent);
    }
    for (uint32_t i = 0; i < around.n; i++) {
        sn_axis ax = sn_stmt_axis(m, around.at[i]);
        sn_ix none = sn_ix_const(m, 0);
        p->first = sn_ix_subst(m, p->first, &ax, &none, 1);
    }
    join(p);
    return true;
}

/* Is it of others than the kernels before, does each block read something else, and is it worth an instruction? */
static bool is_worth(starter *f, const pieces *p) {
    int64_t bytes = sn_dtype_bytes(sn_buf_get(f->m, p->buf)->dtype), c;
    if (!sn_buf_is_settled(f->m, sn_buf_get(f->m, p->buf)) || p->n * bytes < SN_EARLY_PIECE ||
        p->count > SN_EARLY_PIECES)
        return false;
    if (sn_ix_range(f->m, p->first).lo < 0)
        return false; /* of a part that stands behind others: what is in front is masked */
    if (f->blocks > 1 && sn_ix_is_const(f->m, p->first, &c)) return false;
    int64_t all = sn_mul_clamped(sn_mul_clamped(p->n * bytes, p->count), f->blocks);
    return all <= (int64_t)f->cx->target->cache_bytes / SN_EARLY_PART;
}

static bool is_known(const starter *f, const pieces *p) {
    for (uint32_t i = 0; i < f->n; i++)
        if (sn_buf_eq(f->at[i].buf, p->buf) && sn_ix_eq(f->at[i].first, p->first)) return true;
    return false;
}

static void find_loads(starter *f) {
    sn_stmt end = sn_stmt_walk_skip(f->m, f->grid);
    for (sn_stmt s = f->front; s.i != end.i && f->n < MOST_LOADS; s = sn_stmt_walk_next(f->m, s)) {
        pieces *p = &f->at[f->n];
        if (sn_stmt_get(f->m, s)->op != SN_LOP_LOAD || !find_pieces(p, f, s)) continue;
        if (is_worth(f, p) && !is_known(f, p)) f->n++;
    }
}

/* ---- requests ---- */

/* Where piece number `number` begins. */
static sn_ix begin_of(starter *f, const pieces *p, sn_ix number) {
    sn_ix shape[SN_MAX_CHAIN], part[SN_MAX_CHAIN], e = p->first;
    for (uint32_t i = 0; i < p->n_axes; i++) shape[i] = sn_ix_const(f->m, p->extent[i]);
    if (p->n_axes) sn_ix_unflatten(f->m, number, shape, p->n_axes, part);
    for (uint32_t i = 0; i < p->n_axes; i++) e = sn_ix_fma(f->m, p->step[i], part[i], e);
    return e;
}

static sn_val both(sn_module *m, sn_cursor at, sn_val x, sn_val y) {
    return !x.i ? y : !y.i ? x : sn_put_op2(m, at, SN_LOP_AND, x, y);
}

/* Blocks at an edge have accesses with masks: what lies behind the end of the buffer is not asked for. */
static void put_requests(starter *f, sn_cursor front, const pieces *p, const sn_launch *launch) {
    sn_module *m = f->m;
    sn_cursor at = front;
    int64_t threads = (int64_t)launch->block_x * launch->block_y;
    sn_ix y = sn_open_loop(f->m, &at, "y", launch->block_y, SN_AXIS_BLOCK_Y);
    sn_ix x = sn_open_loop(f->m, &at, "x", launch->block_x, SN_AXIS_BLOCK_X);
    sn_ix turn = sn_open_loop(f->m, &at, "p", sn_ceil_div(p->count, threads), SN_AXIS_SEQ);
    sn_ix number = sn_ix_fma(m, threads, turn, sn_ix_fma(m, launch->block_x, y, x)), count = sn_ix_const(m, p->count);
    sn_ix e = begin_of(f, p, number), size = sn_buf_get(m, p->buf)->size;
    sn_val mask = sn_ix_in(m, number, count) ? (sn_val){0} : sn_put_in(m, at, number, count);
    if (!sn_ix_in(m, sn_ix_addc(m, p->first, p->last), size))
        mask = both(m, at, mask, sn_put_in(m, at, sn_ix_addc(m, e, p->n - 1), size));
    sn_put_prefetch(m, at, p->buf, e, sn_ix_const(m, p->n), mask);
}

static bool start_early(sn_pass_ctx *cx, sn_kern k) {
    sn_module *m = cx->m;
    starter f = {.cx = cx, .m = m, .k = k};
    if (!look(&f)) return false;
    bool loads = find_front(&f);
    if (!f.front.i || sn_stmt_get(m, f.front)->op == SN_LOP_WAIT) return false;
    sn_launch launch = sn_kern_launch(m, k);
    uint32_t resident = sn_target_blocks(cx->target, (uint64_t)launch.block_x * launch.block_y);
    if (f.blocks <= (int64_t)cx->target->units * resident) find_loads(&f);
    if (!loads && !f.n) return false;
    for (uint32_t p = 0; p < f.n; p++) put_requests(&f, sn_at_before(m, f.front), &f.at[p], &launch);
    sn_put_wait(m, sn_at_before(m, f.front));
    return true;
}

sn_status sn_pass_start_early(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    if (!cx->target || !cx->target->is_gpu || cx->target->sm < SN_EARLY_SM) return SN_OK;
    for (uint32_t i = 1; i < m->kernels.n; i++) *changed |= start_early(cx, m->kernels.at[i]);
    return m->env->status;
}
