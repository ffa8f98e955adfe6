/* schedule.c: the pass `schedule`: choose a schedule for each kernel and bind its axes.
 *
 *     loop i in 16384 { loop j in 4096 { ... } }
 *  -> schedule element block_x=256 vector=8
 *     loop g in 32768 : grid { loop t in 256 : block.x { loop v in 8 : vector { ... } } }
 *
 * Four classes (see loop.h): element (a thread owns outputs), tile (a block transposes through shared memory), inner
 * (the threads of a row share its reduction), outer (lanes own columns). A schedule that stands in the kernel's header
 * is obeyed; zero fields are chosen. The choice is in map_choose.c and map_tile.c, the binding in map_element.c,
 * map_tile_bind.c, map_inner.c, map_mixed.c and map_outer.c, register staging in map_stage.c; map_model.c says what
 * bounds the result. Kernels with symbolic extents are an error: sizes have to be bound before.
 */
#include "passes/schedule/schedule.h"

#include <math.h>

/* ---- shape ---- */

static void smaller(uint32_t *least, uint32_t bytes) {
    if (*least == 0 || bytes < *least) *least = bytes;
}

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a < 0 ? -a : a;
}

static bool walks(sn_module *m, sn_ix e, sn_axis ax) {
    int64_t c;
    return sn_ix_coef(m, e, ax, &c) && (c == 1 || c == -1);
}

/* Does the access walk the outer loops as one, in row-major order? */
static bool is_flat(sn_module *m, const sn_schedule_shape *sh, sn_ix e) {
    int64_t stride = 1, c;
    for (uint32_t k = sh->outer.n; k-- > 0;) {
        sn_stmt s = sh->outer.at[k];
        if (!sn_ix_coef(m, e, sn_stmt_axis(m, s), &c) || c != stride) return false;
        stride = sn_mul_clamped(stride, sn_ix_value(m, sn_stmt_extent(m, s)));
    }
    return true;
}

static void count_nest_bytes(sn_schedule_shape *sh, sn_module *m, const sn_schedule_nest *nest) {
    uint32_t least;
    sn_stmt last = nest->chain.at[nest->chain.n - 1];
    sh->along_inner += sn_nest_bytes_along(m, nest->top, sn_stmt_axis(m, last), &least);
    if (least) {
        smaller(&sh->bytes_inner, least);
        sh->divisor_inner = gcd(sh->divisor_inner, sn_ix_value(m, sn_stmt_extent(m, last)));
    }
    if (!sh->outer.n) return;
    sh->along_outer += sn_nest_bytes_along(m, nest->top, sn_stmt_axis(m, sh->body), &least);
    if (least) smaller(&sh->bytes_outer, least);
}

/* Is the element the same for several iterations of some outer loop? */
static bool is_reused(sn_module *m, const sn_schedule_shape *sh, sn_ix e) {
    for (uint32_t k = 0; k < sh->outer.n; k++)
        if (!sn_ix_uses_axis(m, e, sn_stmt_axis(m, sh->outer.at[k]))) return true;
    return false;
}

/* Do iterations of the last outer axis read near each other, in windows along a line of elements that a loop of the
 * nest walks too? Rows that lie one behind the other are not windows, nor are columns. */
static bool is_in_window(sn_module *m, const sn_schedule_shape *sh, const sn_schedule_nest *nest, sn_ix e) {
    if (!sh->outer.n) return false;
    int64_t step, tap, windows = sn_ix_value(m, sn_stmt_extent(m, sh->body));
    if (!sn_ix_coef(m, e, sn_stmt_axis(m, sh->body), &step) || step == 0 || windows < SN_WINDOW_LANES) return false;
    for (uint32_t d = 0; d < nest->chain.n; d++) {
        sn_stmt s = nest->chain.at[d];
        if (!sn_ix_coef(m, e, sn_stmt_axis(m, s), &tap) || tap == 0) continue;
        double reach = fabs((double)tap) * (double)sn_ix_value(m, sn_stmt_extent(m, s)), by = fabs((double)step);
        bool near = by < reach || (by <= SN_NEAR_WINDOW && nest->chain.n > 1);
        if (near && fabs((double)tap) < by * (double)windows) return true;
    }
    return false;
}

static void look_at_nest(sn_schedule_shape *sh, sn_module *m, sn_schedule_nest *nest, bool *all_reused,
                         bool *all_windows) {
    sn_stmt end = sn_stmt_walk_skip(m, nest->top);
    count_nest_bytes(sh, m, nest);
    for (sn_stmt s = nest->top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_LOAD && r->op != SN_LOP_STORE) continue;
        if (r->op == SN_LOP_STORE) sh->row_stores += sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        bool reused = r->op == SN_LOP_LOAD && is_reused(m, sh, r->ix);
        *all_reused &= reused;
        *all_windows &= reused || (r->op == SN_LOP_LOAD && is_in_window(m, sh, nest, r->ix));
    }
}

static void count_states(sn_schedule_shape *sh, const sn_module *m, sn_stmt nest) {
    const sn_stmt_rec *r = sn_stmt_get(m, nest);
    if (r->op != SN_LOP_REDUCE) return;
    for (uint32_t k = 0; k < r->n_results; k++)
        sh->states += sn_dtype_bytes(sn_val_get(m, sn_result(r, k))->dtype) > 4 ? 2 : 1;
    for (uint32_t c = 0; c < r->n_combs; c++) sh->positions |= sn_combs[r->combs[c]].second == SN_SECOND_POSITION;
}

static bool carries_weights(const sn_stmt_rec *nest) {
    for (uint32_t c = 0; c < nest->n_combs; c++)
        if (sn_combs[nest->combs[c]].second == SN_SECOND_WEIGHT) return true;
    return false;
}

/* Does every store of a nest of loops move with each of them? One that does not carries something from iteration to
 * iteration, as the loop over rows of the pass `mixed-order-reduction` does. */
static bool is_parallel(const sn_module *m, const sn_schedule_nest *nest) {
    sn_stmt end = sn_stmt_walk_skip(m, nest->top);
    if (sn_stmt_get(m, nest->top)->op != SN_LOP_LOOP) return true;
    for (sn_stmt s = nest->top; s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        for (uint32_t d = 0; d < nest->chain.n && r->op == SN_LOP_STORE; d++) {
            bool once = sn_ix_value(m, sn_stmt_extent(m, nest->chain.at[d])) <= 1;
            if (!once && !sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, nest->chain.at[d]))) return false;
        }
    }
    return true;
}

/* Buffers that a nest reads after another one has read or written them. */
static void find_kept(sn_schedule_shape *sh, const sn_module *m) {
    enum { MAX = 16 };
    sn_buf seen[MAX];
    uint32_t in_nest[MAX], n = 0;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        sn_stmt end = sn_stmt_walk_skip(m, sh->nests[i].top);
        for (sn_stmt s = sh->nests[i].top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            if (!r->buf.i) continue;
            uint32_t k = 0;
            while (k < n && !sn_buf_eq(seen[k], r->buf)) k++;
            if (k == n && n < MAX) seen[n] = r->buf, in_nest[n++] = i;
            else if (k < n && r->op == SN_LOP_LOAD && in_nest[k] < i) {
                uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
                sh->kept += bytes;
                if (bytes > sh->kept_width) sh->kept_width = bytes;
                in_nest[k] = UINT32_MAX; /* counted */
            }
        }
    }
}

static sn_status look(sn_schedule_shape *sh, sn_pass_ctx *cx, sn_kern k) {
    sn_module *m = cx->m;
    *sh = (sn_schedule_shape){.all_perfect = true};
    sn_chain_outer(&sh->outer, m, k);
    sh->rows = sn_chain_count(m, &sh->outer);
    sh->body = sh->outer.n ? sh->outer.at[sh->outer.n - 1] : (sn_stmt){0};
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        int64_t extent;
        if (sn_is_nest(r) && !sn_ix_is_const(m, sn_stmt_extent(m, s), &extent))
            return sn_fail(m->env, SN_ERROR_UNSUPPORTED,
                           "kernel %s: a loop has a symbolic size; bind its dimensions (--dim NAME=SIZE)",
                           sn_kern_get(m, k)->name);
        if (r->buf.i && sh->outer.n)
            *(is_flat(m, sh, r->ix) ? &sh->flat : &sh->not_flat) += sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        if ((r->op != SN_LOP_LOAD && r->op != SN_LOP_STORE) || !sh->outer.n ||
            !walks(m, r->ix, sn_stmt_axis(m, sh->body)))
            continue;
        uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        smaller(&sh->bytes_flat, bytes);
        if (r->op == SN_LOP_STORE && bytes > sh->bytes_stored) sh->bytes_stored = bytes;
    }
    bool all_reused = true, all_windows = true;
    sn_stmt inside = sn_schedule_find_mixed(sh, cx, k) ? sh->row : sh->body;
    for (sn_stmt s = sn_region_first(m, k, inside); s.i; s = sn_next(m, s)) {
        if (!sn_lop_has_region(sn_stmt_get(m, s)->op)) continue;
        if (!sn_is_nest(sn_stmt_get(m, s)) || sh->n_nests == SN_MAX_NESTS) {
            sh->all_perfect = false;
            continue;
        }
        sn_schedule_nest *nest = &sh->nests[sh->n_nests++];
        nest->top = s;
        nest->perfect = sn_nest_perfect(&nest->chain, m, s) && is_parallel(m, nest);
        nest->scan = sn_is_scan(m, nest->chain.at[nest->chain.n - 1]);
        nest->perfect &= !nest->scan || nest->chain.n == 1;
        sh->scans |= nest->scan;
        nest->count = sn_chain_count(m, &nest->chain);
        sh->all_perfect &= nest->perfect;
        sh->divisor_inner = gcd(sh->divisor_inner, nest->count);
        if (nest->count > sh->max_count) sh->max_count = nest->count;
        count_states(sh, m, s);
        look_at_nest(sh, m, nest, &all_reused, &all_windows);
    }
    sh->online = sh->n_nests == 1 && carries_weights(sn_stmt_get(m, sh->nests[0].top));
    sh->contraction = sh->n_nests && all_reused;
    sh->windows = sh->n_nests && all_windows && !all_reused;
    if (sn_mul_clamped(sh->rows, sh->max_count > 1 ? sh->max_count : 1) > SN_MOST_STEPS)
        return sn_fail(m->env, SN_ERROR_UNSUPPORTED, "kernel %s is too large: more than 2^56 iterations",
                       sn_kern_get(m, k)->name);
    find_kept(sh, m);
    sh->ops = sn_kern_ops(m, k);
    sh->instructions = sn_schedule_instructions(m, k);
    if (!sh->n_nests && sh->all_perfect) sn_schedule_tile_look(&sh->tile, cx, k, sh);
    return SN_OK;
}

/* ---- taking a kernel apart ---- */

void sn_schedule_take_body(sn_stmt_vec *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_module *m = cx->m;
    for (sn_stmt s = sn_region_first(m, k, sh->body), next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        SN_PUSH(cx->scratch, out, s);
    }
    if (sh->outer.n) sn_stmt_unlink(m, sh->outer.at[0]);
}

void sn_schedule_subst_outer(sn_pass_ctx *cx, const sn_stmt_vec *body, const sn_schedule_shape *sh, sn_ix flat) {
    sn_module *m = cx->m;
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix extents[SN_MAX_CHAIN], parts[SN_MAX_CHAIN];
    if (!sh->outer.n) return;
    for (uint32_t k = 0; k < sh->outer.n; k++) {
        axes[k] = sn_stmt_axis(m, sh->outer.at[k]);
        extents[k] = sn_stmt_extent(m, sh->outer.at[k]);
    }
    sn_ix_unflatten(m, flat, extents, sh->outer.n, parts);
    for (uint32_t k = 0; k < body->n; k++) sn_stmt_subst(m, body->at[k], axes, parts, sh->outer.n);
}

/* ---- the pass ---- */

/* A small kernel that reads what another one's blocks leave takes the shape of those blocks, so that it can be their
 * tail: one result by one block, or the same columns by the same threads. */
static void follow(sn_pass_ctx *cx, const sn_users *users, uint32_t at, const sn_schedule_shape *sh, sn_sched *sched) {
    sn_module *m = cx->m;
    uint32_t first = sn_schedule_follows(m, users, at);
    if (first == UINT32_MAX || !cx->target->is_gpu || sched->cls != SN_SCHED_NONE || !sh->all_perfect) return;
    const sn_kern_rec *a = sn_kern_get(m, m->kernels.at[first]);
    if (!a->scheduled || !sh->n_nests || sh->rows * sh->max_count > SN_FOLLOW_MOST || sn_sched_cluster(&a->sched) > 1)
        return;
    bool one = sh->rows == 1 && sh->max_count <= SN_FOLLOW_ONE;
    bool columns = a->sched.cls == SN_SCHED_OUTER && sh->rows > 1 &&
                   sh->rows % (a->sched.block_x * a->sched.vector) == 0 && sh->along_outer > sh->along_inner;
    bool rows = a->sched.cls == SN_SCHED_INNER && sh->rows > 1 && sh->max_count * sh->rows <= SN_FOLLOW_ROWS &&
                sh->along_outer <= sh->along_inner;
    if (!one && (sh->scans || (!columns && !rows))) return;
    sched->cls = columns ? SN_SCHED_OUTER : SN_SCHED_INNER;
    sched->block_x = a->sched.block_x;
    sched->block_y = a->sched.block_y;
    if (columns) sched->vector = a->sched.vector;
}

/* No more blocks are wanted than a multiprocessor holds, however small they are. */
static void fit_blocks(const sn_target *t, sn_sched *sched) {
    if (!t->is_gpu || !sched->min_blocks) return;
    uint32_t most = sn_target_blocks(t, (uint64_t)sched->block_x * sched->block_y);
    if (sched->min_blocks > most) sched->min_blocks = most;
}

static sn_status map_kernel(sn_pass_ctx *cx, const sn_users *users, uint32_t at) {
    sn_module *m = cx->m;
    sn_kern k = m->kernels.at[at];
    sn_schedule_shape sh;
    SN_TRY(look(&sh, cx, k));
    sn_sched sched = sn_kern_get(m, k)->sched;
    follow(cx, users, at, &sh, &sched);
    SN_TRY(sn_schedule_choose(cx, k, &sh, &sched));
    if (sh.rows_loop.i && sched.cls == SN_SCHED_INNER) sn_schedule_bind_mixed(cx, k, &sh, &sched);
    else if (sched.cls == SN_SCHED_INNER) sn_schedule_bind_inner(cx, k, &sh, &sched);
    else if (sched.cls == SN_SCHED_OUTER) sn_schedule_bind_outer(cx, k, &sh, &sched);
    else if (sched.cls == SN_SCHED_TILE) sn_schedule_bind_tile(cx, k, &sh, &sched);
    else sn_schedule_bind_element(cx, k, &sh, &sched);
    sn_kern_dead_code(m, k);
    sn_kern_cse(m, k);
    sn_kern_collect_params(m, k);
    fit_blocks(cx->target, &sched);
    sn_kern_rec *r = sn_kern_get(m, k);
    r->sched = sched;
    r->scheduled = true;
    sn_schedule_explain(cx, k, &sched);
    return m->env->status;
}

sn_status sn_pass_schedule(sn_pass_ctx *cx, bool *changed) {
    sn_users users;
    sn_users_find(&users, cx->m, cx->scratch);
    for (uint32_t i = 0; i < cx->m->kernels.n; i++) {
        if (sn_kern_get(cx->m, cx->m->kernels.at[i])->scheduled) continue;
        SN_TRY(map_kernel(cx, &users, i));
        *changed = true;
    }
    return cx->m->env->status;
}
