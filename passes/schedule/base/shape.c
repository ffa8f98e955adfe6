/* shape.c: what every class of schedules is told of a kernel: its outer loops, the nests inside them, how far those are
 * contiguous. What one class alone asks stands in its file.
 *
 *     loop i in 4096 {                    outer, rows = 4096
 *       %0 = reduce sum r in 256 { ... }    a nest of 256, which walks bytes along r (along_inner)
 *       loop j in 256 { ... }               ... along its last axis, or along i (along_outer)
 *     }
 *
 * Relies on mixed_match.c, which says where the rows of such a kernel are. Reads the kernel and changes nothing, but for
 * the two functions at the end, which take its outer loops away for those who bind it. Kernels with symbolic extents are
 * an error: sizes have to be bound before.
 */
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/moments.h"
#include "passes/schedule/base/mixed.h"
#include "passes/schedule/base/model.h"

#include <math.h>

void sn_schedule_smaller(uint32_t *least, uint32_t bytes) {
    if (*least == 0 || bytes < *least) *least = bytes;
}

int64_t sn_schedule_gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a < 0 ? -a : a;
}

/* ---- nests ---- */

static void count_nest_bytes(sn_schedule_shape *sh, sn_module *m, sn_schedule_nest *nest) {
    sn_stmt last = nest->chain.at[nest->chain.n - 1];
    sh->along_inner += sn_nest_bytes_along(m, nest->top, sn_stmt_axis(m, last), &nest->least_inner);
    if (sh->outer.n)
        sh->along_outer += sn_nest_bytes_along(m, nest->top, sn_stmt_axis(m, sh->body), &nest->least_outer);
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

/* Does data say where the nest begins to read, and does it go on from there element by element? Then the elements are the row's
 * own, for all that is known: threads that share a row read them together, which rows of other threads do not. */
static bool begins_by_data(sn_module *m, const sn_schedule_nest *nest, sn_ix e) {
    int64_t step;
    sn_axis last = sn_stmt_axis(m, nest->chain.at[nest->chain.n - 1]);
    return sn_ix_uses_vals(m, e) && sn_ix_coef(m, e, last, &step) && step == 1;
}

static void look_at_loads(const sn_schedule_shape *sh, sn_module *m, const sn_schedule_nest *nest, bool *all_reused,
                          bool *all_windows) {
    sn_stmt end = sn_stmt_walk_skip(m, nest->top);
    for (sn_stmt s = nest->top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_is_access(r)) continue;
        bool reused = sn_loads(r) && is_reused(m, sh, r->ix) && !begins_by_data(m, nest, r->ix);
        *all_reused &= reused;
        *all_windows &= reused || (sn_loads(r) && is_in_window(m, sh, nest, r->ix));
    }
}

/* Does nothing go from iteration to iteration of a nest by what it stores? */
static bool is_parallel(const sn_module *m, const sn_chain *nest) {
    for (uint32_t d = 0; d < nest->n; d++)
        if (sn_is_steps(m, nest->at[d])) return false;
    return true;
}

static bool waits(const sn_module *m, sn_stmt nest) {
    sn_stmt end = sn_stmt_walk_skip(m, nest);
    for (sn_stmt s = nest; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_loads(r) && sn_buf_get(m, r->buf)->scope == SN_BUF_POSTED) return true;
    }
    return false;
}

static void look_at_nest(sn_schedule_shape *sh, sn_module *m, sn_stmt s) {
    sn_schedule_nest *nest = &sh->nests[sh->n_nests++];
    nest->top = s;
    bool straight = sn_nest_perfect(&nest->chain, m, s);
    nest->scan = sn_is_scan(m, nest->chain.at[nest->chain.n - 1]);
    nest->steps = straight && !nest->scan && nest->chain.n == 1 && sn_is_steps(m, s);
    nest->perfect = straight && is_parallel(m, &nest->chain) && (!nest->scan || nest->chain.n == 1);
    nest->count = sn_chain_count(m, &nest->chain);
    nest->waits = waits(m, s);
    sh->scans |= nest->scan;
    sh->steps |= nest->steps;
    sh->all_perfect &= nest->perfect;
    if (nest->count > sh->max_count) sh->max_count = nest->count;
    count_nest_bytes(sh, m, nest);
}

/* ---- the kernel ---- */

static sn_status check_sizes(sn_module *m, sn_kern k) {
    int64_t extent;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s))
        if (sn_is_nest(sn_stmt_get(m, s)) && !sn_ix_is_const(m, sn_stmt_extent(m, s), &extent))
            return sn_fail(m->env, SN_ERROR_UNSUPPORTED,
                           "kernel %s: a loop has a symbolic size; bind its dimensions (--dim NAME=SIZE)",
                           sn_kern_get(m, k)->name);
    return SN_OK;
}

/* A part whose sum is posted (split_scan.c) belongs to several rows of threads: the loop over them stands around its nests,
 * and prefixes that count it pass from row to row. It is an outer loop that only a whole block may take. */
static void find_team(sn_schedule_shape *sh, const sn_module *m, sn_kern k) {
    sn_stmt s = sn_region_first(m, k, sh->body);
    int64_t rows;
    if (!sn_kern_posts(m, k) || !s.i || sn_next(m, s).i || sh->outer.n == SN_MAX_CHAIN) return;
    if (!sn_is_scan(m, s) || !sn_ix_is_const(m, sn_stmt_extent(m, s), &rows)) return;
    bool around = false;
    for (sn_stmt t = sn_stmt_get(m, s)->first; t.i; t = sn_next(m, t)) around |= sn_is_nest(sn_stmt_get(m, t));
    if (!around) return;
    sh->team = (uint32_t)rows;
    sh->outer.at[sh->outer.n++] = sh->body = s;
    sh->rows *= rows;
}

sn_status sn_schedule_look(sn_schedule_shape *sh, sn_pass_ctx *cx, const sn_users *users, uint32_t at) {
    sn_module *m = cx->m;
    sn_kern k = m->kernels.at[at];
    bool all_reused = true, all_windows = true;
    *sh = (sn_schedule_shape){.users = users, .at = at, .all_perfect = true};
    SN_TRY(check_sizes(m, k));
    sn_chain_outer(&sh->outer, m, k);
    sh->rows = sn_chain_count(m, &sh->outer);
    sh->body = sh->outer.n ? sh->outer.at[sh->outer.n - 1] : (sn_stmt){0};
    find_team(sh, m, k);
    sh->mixed = sn_schedule_find_mixed(cx, k, sh);
    for (sn_stmt s = sn_region_first(m, k, sh->mixed ? sh->mixed->row : sh->body); s.i; s = sn_next(m, s)) {
        if (!sn_lop_has_region(sn_stmt_get(m, s)->op)) continue;
        if (!sn_is_nest(sn_stmt_get(m, s)) || sh->n_nests == SN_MAX_NESTS) {
            sh->all_perfect = false;
            continue;
        }
        look_at_nest(sh, m, s);
        look_at_loads(sh, m, &sh->nests[sh->n_nests - 1], &all_reused, &all_windows);
    }
    if (sh->n_nests > 1 && !sh->mixed) sh->about = sn_moments_about(cx, k, sh->nests[0].top, sh->nests[1].top);
    if (sn_mul_clamped(sh->rows, sh->max_count > 1 ? sh->max_count : 1) > SN_MOST_STEPS)
        return sn_fail(m->env, SN_ERROR_UNSUPPORTED, "kernel %s is too large: more than 2^56 iterations",
                       sn_kern_get(m, k)->name);
    bool reused = sh->reused = sh->n_nests && all_reused;
    sh->windows = sh->n_nests && all_windows && !all_reused;
    /* A thread a row leaves multiprocessors idle where rows are fewer than fill them, and each is long. */
    bool fills = !cx->target->is_gpu || sh->max_count <= SN_LONG_NEST || sh->rows >= SN_DEVICE_ROWS;
    reused &= fills;
    /* Lanes of the CPU go along what is contiguous, whoever reads it again. */
    reused &= cx->target->is_gpu || sh->along_outer >= sh->along_inner;
    sh->one_thread = sh->rows >= SN_MANY_ROWS && (sh->max_count <= SN_TINY_NEST || reused || (sh->windows && fills));
    sh->by_columns = sh->along_outer > sh->along_inner && sh->rows >= (cx->target->is_gpu ? SN_FEWEST_COLUMNS : 2);
    sh->lanes_are_rows = sn_schedule_lanes_are_rows(cx, sh);
    sh->one_thread |= sh->lanes_are_rows;
    sh->ops = sn_kern_ops(m, k);
    sh->instructions = sn_schedule_instructions(m, k);
    return SN_OK;
}

bool sn_schedule_has_rows(const char **why_not, const sn_schedule_shape *sh) {
    *why_not = !sh->n_nests       ? "it has no loops inside its outer ones"
               : !sh->all_perfect ? "not all loops inside its outer ones are perfect nests"
                                  : "its rows follow each other";
    return sh->n_nests && sh->all_perfect && !sh->mixed;
}

bool sn_schedule_next_access(sn_nest_access *a, const sn_module *m, const sn_schedule_shape *sh) {
    for (;;) {
        if (a->s.i) a->s = sn_stmt_walk_next(m, a->s);
        if (!a->s.i || a->s.i == a->end.i) {
            if (a->n == sh->n_nests) return false;
            a->nest = &sh->nests[a->n++];
            a->s = a->nest->top;
            a->end = sn_stmt_walk_skip(m, a->s);
        }
        if (sn_is_access(sn_stmt_get(m, a->s))) return true;
    }
}

bool sn_schedule_reads_again(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_stmt_rec *load) {
    int64_t element = sn_dtype_bytes(sn_buf_get(cx->m, load->buf)->dtype);
    return sn_buf_bytes(cx->m, load->buf) <= sn_mul_clamped(sh->rows / SN_CACHED_AGAIN, element);
}

bool sn_schedule_is_cached(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_stmt_rec *load) {
    bool room = sn_buf_bytes(cx->m, load->buf) <= (int64_t)(cx->target->cache_bytes / 2);
    return room && sn_schedule_reads_again(cx, sh, load);
}

bool sn_schedule_walks_all(sn_module *m, const sn_schedule_shape *sh, sn_ix e) {
    int64_t stride = 1, c;
    for (uint32_t k = sh->outer.n; k-- > 0;) {
        sn_stmt s = sh->outer.at[k];
        if (!sn_ix_coef(m, e, sn_stmt_axis(m, s), &c) || c != stride) return false;
        stride = sn_mul_clamped(stride, sn_ix_value(m, sn_stmt_extent(m, s)));
    }
    return true;
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

sn_stmt_vec sn_schedule_copy_body(sn_pass_ctx *cx, sn_kern k, const sn_stmt_vec *body) {
    sn_module *m = cx->m;
    sn_stmt_vec out = {0};
    sn_stmt none = {0};
    sn_axis once = sn_axis_new(m, "none", sn_ix_const(m, 1));
    sn_stmt holder = sn_put_loop(m, sn_at_end(k, none), once, SN_AXIS_SEQ);
    for (uint32_t i = 0; i < body->n; i++) sn_stmt_insert(m, sn_at_end(k, holder), body->at[i]);
    sn_stmt copy = sn_stmt_clone(m, sn_at_end(k, none), holder);
    for (uint32_t i = 0; i < body->n; i++) {
        sn_stmt s = sn_region_first(m, k, copy);
        sn_stmt_unlink(m, s);
        SN_PUSH(cx->scratch, &out, s);
        sn_stmt_unlink(m, body->at[i]);
    }
    sn_stmt_unlink(m, copy);
    sn_stmt_unlink(m, holder);
    return out;
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
