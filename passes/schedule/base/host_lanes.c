/* host_lanes.c: vectors of the CPU along the rows of a kernel, for class element.
 *
 *     loop i { argmin c in 32 { sum r in 16 { x[16*i + r], c[16*c + r] .. } } }
 *  -> loop t { loop v in 32 : vector {
 *       loop r in 16 { store s[32*r + v] = load x[16*(32*t + v) + r] }           once
 *       argmin c in 32 { sum r in 16 { s[32*r + v], c[16*c + r] .. } } } }       each c: a vector and a number
 *
 * Lanes go along a reduction where that is contiguous (class inner), or along rows that lie side by side. This is for the
 * others: what one row reads is the same for all rows (a number for all lanes: the other bodies, the centres), and what
 * is its own is the same all along the nest, or again and again. Elements of neighbouring rows that lie apart are
 * loaded one by one; those that the nest reads again are collected once, in private memory, lanes side by side.
 *
 * Legal: a private copy of elements that the nest only loads; nothing in the kernel stores to their buffer. Cost: linear
 * in statements times depth.
 */
#include "passes/schedule/base/figures.h"

#include <stdlib.h>

/* ---- choosing ---- */

/* Bytes of the largest value. */
static uint32_t widest_value(const sn_module *m, sn_kern k) {
    uint32_t most = 1;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        for (uint32_t i = 0; i < r->n_results; i++) {
            uint32_t bytes = sn_dtype_bytes(sn_val_get(m, sn_result(r, i))->dtype);
            if (bytes > most) most = bytes;
        }
        if (sn_is_access(r) && sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype) > most)
            most = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
    }
    return most;
}

uint32_t sn_host_widest(const sn_pass_ctx *cx, sn_kern k, uint32_t bytes) {
    uint32_t some = sn_widest(cx, bytes), all = bytes ? cx->target->vector_bytes / widest_value(cx->m, k) : 1;
    return some > all ? some : all;
}

static bool is_along(sn_module *m, sn_ix e, sn_axis ax) {
    int64_t c;
    return sn_ix_coef(m, e, ax, &c) && c == 1;
}

static bool varies_in(const sn_module *m, sn_ix e, const sn_chain *nest) {
    for (uint32_t d = 0; d < nest->n; d++)
        if (sn_ix_uses_axis(m, e, sn_stmt_axis(m, nest->at[d]))) return true;
    return false;
}

/* Lanes that lie a few apart are loaded as whole vectors. */
static double access_cost(sn_module *m, sn_ix e, sn_axis ax, double lanes) {
    int64_t step;
    if (!sn_ix_uses_axis(m, e, ax)) return 1;
    if (!sn_ix_coef(m, e, ax, &step) || llabs(step) > SN_MOST_APART) return lanes;
    return (double)llabs(step);
}

/* What a step of a vector takes, in instructions: lanes along the nest, and lanes along the rows. */
typedef struct step_cost {
    double inner, outer;
} step_cost;

static step_cost cost_of(sn_module *m, const sn_schedule_shape *sh, const sn_schedule_nest *nest, double lanes) {
    step_cost c = {0};
    sn_axis row = sn_stmt_axis(m, sh->body), last = sn_stmt_axis(m, nest->chain.at[nest->chain.n - 1]);
    sn_stmt end = sn_stmt_walk_skip(m, nest->top);
    for (sn_stmt s = nest->top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        bool in_nest = sn_is_access(r) && varies_in(m, r->ix, &nest->chain);
        if (!sn_is_access(r)) c.inner += r->n_results, c.outer += r->n_results;
        if (!in_nest) continue;
        c.inner += access_cost(m, r->ix, last, lanes);
        c.outer += access_cost(m, r->ix, row, lanes);
    }
    return c;
}

bool sn_schedule_lanes_are_rows(const sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    int64_t lanes = cx->target->vector_bytes / 4;
    double inner = 0, outer = 0;
    bool reduces = false;
    if (cx->target->is_gpu || !sh->outer.n || sh->scans || sh->mixed) return false;
    if (sh->all_perfect && sh->by_columns) return false;
    if (sn_last_outer_extent(cx, sh) < lanes * cx->target->units) return false;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        const sn_schedule_nest *nest = &sh->nests[i];
        reduces |= sn_stmt_get(cx->m, nest->top)->op == SN_LOP_REDUCE;
        step_cost c = cost_of(cx->m, sh, nest, (double)lanes);
        inner += c.inner * (double)nest->count, outer += c.outer * (double)nest->count;
    }
    return reduces && (!sh->all_perfect || outer < inner);
}

/* Values that the nests compute in a step. */
static uint32_t values_of(const sn_module *m, const sn_schedule_shape *sh) {
    uint32_t values = 0;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        sn_stmt end = sn_stmt_walk_skip(m, sh->nests[i].top);
        for (sn_stmt s = sh->nests[i].top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s))
            if (!sn_is_access(sn_stmt_get(m, s))) values += sn_stmt_get(m, s)->n_results;
    }
    return values;
}

/* A number that is loaded for all lanes serves several vectors, whose sums do not wait for each other, as far as
 * registers reach. */
uint32_t sn_schedule_lanes_of_rows(const sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    uint32_t values = values_of(cx->m, sh), lanes = cx->target->vector_bytes / 4;
    uint32_t vectors = values <= SN_HOST_ROWS_FEW    ? SN_HOST_ROWS_VECTORS
                       : values <= SN_HOST_ROWS_MORE ? SN_HOST_ROWS_VECTORS / 2
                                                     : 1;
    int64_t row = sn_last_outer_extent(cx, sh);
    while (vectors > 1 && (row % (lanes * vectors) || row < 2 * (int64_t)(lanes * vectors) * cx->target->units))
        vectors /= 2;
    return sh->outer.n > 1 ? sn_schedule_open_vector(row, 4, lanes * vectors) : lanes * vectors;
}

/* ---- collecting ---- */

typedef struct collector {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    const sn_schedule_shape *sh;
    const sn_access_list *all;
    sn_stmt top;                /* of the nest */
    sn_axis axes[SN_MAX_CHAIN]; /* of loops in it that an offset uses */
    sn_ix extents[SN_MAX_CHAIN];
    uint32_t n;
    int64_t steps, again; /* elements of a row; how often each is read */
} collector;

/* Does the load read elements of a row, which lie apart from those of the next, again and again? */
static bool is_read_again(collector *c, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(c->m, s);
    sn_axis row = sn_stmt_axis(c->m, c->sh->body);
    if (r->op != SN_LOP_LOAD || r->n_in || sn_ix_uses_vals(c->m, r->ix)) return false;
    if (!sn_ix_uses_axis(c->m, r->ix, row) || is_along(c->m, r->ix, row)) return false;
    if (sn_access_stored(c->all, c->m, r->buf, c->top)) return false;
    c->n = 0, c->steps = c->again = 1;
    for (sn_stmt up = r->parent; up.i; up = sn_stmt_get(c->m, up)->parent) {
        if (!sn_is_nest(sn_stmt_get(c->m, up))) return false;
        int64_t extent = sn_ix_value(c->m, sn_stmt_extent(c->m, up));
        bool used = sn_ix_uses_axis(c->m, r->ix, sn_stmt_axis(c->m, up));
        *(used ? &c->steps : &c->again) = sn_mul_clamped(used ? c->steps : c->again, extent);
        if (used && c->n == SN_MAX_CHAIN) return false;
        if (used) c->axes[c->n] = sn_stmt_axis(c->m, up), c->extents[c->n++] = sn_stmt_extent(c->m, up);
        if (up.i == c->top.i) break;
    }
    return c->n && c->again > 1;
}

/* The innermost loop last. */
static void turn_around(collector *c) {
    for (uint32_t k = 0; 2 * k + 1 < c->n; k++) {
        sn_axis axis = c->axes[k];
        sn_ix extent = c->extents[k];
        c->axes[k] = c->axes[c->n - 1 - k], c->extents[k] = c->extents[c->n - 1 - k];
        c->axes[c->n - 1 - k] = axis, c->extents[c->n - 1 - k] = extent;
    }
}

/* A loop over the elements in front of the nest, and the load is one of its copy. */
static void collect(collector *c, sn_stmt s, const sn_host_lanes *lanes, uint32_t number) {
    sn_module *m = c->m;
    sn_stmt_rec *r = sn_stmt_get(m, s);
    sn_dtype dtype = sn_buf_get(m, r->buf)->dtype;
    int64_t private = c->steps * lanes->vector;
    sn_ix with[SN_MAX_CHAIN];
    const char *name = sn_strf(&m->arena, "%s_a%u", sn_kern_get(m, c->k)->name, number);
    sn_buf reg = sn_local_new(m, name, dtype, SN_BUF_REG, private, lanes->threads);
    sn_axis q = sn_axis_new(m, "q", sn_ix_const(m, c->steps));
    sn_cursor at = sn_at_end(c->k, sn_put_loop(m, sn_at_before(m, c->top), q, SN_AXIS_SEQ));
    sn_ix_unflatten(m, sn_ix_axis(m, q), c->extents, c->n, with);
    sn_val v = sn_put_load(m, at, r->buf, sn_ix_subst(m, r->ix, c->axes, with, c->n));
    sn_ix mine = sn_ix_add(m, sn_ix_scale(m, lanes->thread, private), lanes->lane), own[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < c->n; k++) own[k] = sn_ix_axis(m, c->axes[k]);
    sn_put_store(m, at, reg, sn_ix_add(m, mine, sn_ix_scale(m, sn_ix_axis(m, q), lanes->vector)), v);
    r = sn_stmt_get(m, s);
    r->ix = sn_ix_add(m, mine, sn_ix_scale(m, sn_ix_flatten(m, own, c->extents, c->n), lanes->vector));
    r->buf = reg;
}

void sn_schedule_collect_rows(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_host_lanes *lanes) {
    sn_access_list all;
    uint32_t number = 0;
    int64_t left = SN_HOST_NEAR / 2;
    sn_access_find_all(&all, cx->m, cx->scratch, k);
    collector c = {.cx = cx, .m = cx->m, .k = k, .sh = sh, .all = &all};
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        c.top = sh->nests[i].top;
        sn_stmt end = sn_stmt_walk_skip(c.m, c.top);
        for (sn_stmt s = c.top, next; s.i && s.i != end.i; s = next) {
            next = sn_stmt_walk_next(c.m, s);
            if (!is_read_again(&c, s)) continue;
            int64_t bytes = sn_mul_clamped(c.steps * lanes->vector, sn_dtype_bytes(sn_stmt_get(c.m, s)->dtype));
            if (bytes > left) continue;
            left -= bytes;
            turn_around(&c);
            collect(&c, s, lanes, number++);
        }
    }
}
