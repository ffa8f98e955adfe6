/* tile.c: class tile of the pass `schedule`: which kernels it is for, and the figures of its schedule.
 *
 *     loop i in 8192 { loop j in 8192 { load x[8192*i + j]  load y[8192*j + i]  ...  store z[8192*i + j] } }
 *
 * Of any two outer loops, one is walked contiguously by the direct accesses (`along`, here j), the other one by the
 * staged accesses (`across`, here i: those of y). Staged accesses pass through shared memory, so that all of them move
 * whole lines; tile_bind.c has the picture. What can be staged: loads and stores without a mask, whose offset has
 * stride 1 in i and moves on by more than all of i with j, so that it does not touch an element twice, of a buffer that
 * the kernel does not also write or read. All else is left as it is in the body, which has to be straight-line code.
 *
 * Fields: a tile has `rows` elements across, and as many along as `threads` * `unroll` squares of `vector` * `vector`
 * elements fill. Facts behind the figures: 256 bytes of a row in both directions are two whole lines; 64 bytes a thread
 * and several blocks on a multiprocessor keep enough in flight; a square of more than 8 * 8 elements would not leave
 * room in the registers. Where a size or a stride is odd, the square is one element; lanes still touch neighbours.
 */
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/moves/tile.h"

#include <stdlib.h>

enum { MOST_VECTOR = 8, MOST_PINNED = 16 };

static uint32_t least(int64_t a, int64_t b) { return (uint32_t)(a < b ? a : b); }

static sn_stmt loop_at(const sn_schedule_shape *sh, uint32_t position) { return sh->outer.at[position]; }

static int64_t extent_at(const sn_module *m, const sn_schedule_shape *sh, uint32_t position) {
    return sn_ix_value(m, sn_stmt_extent(m, loop_at(sh, position)));
}

/* ---- which accesses ---- */

/* Stride of an access along an outer loop; 0 when there is none that is constant. */
static int64_t stride(sn_module *m, const sn_schedule_shape *sh, const sn_stmt_rec *r, uint32_t position) {
    int64_t c;
    return sn_ix_coef(m, r->ix, sn_stmt_axis(m, loop_at(sh, position)), &c) ? c : 0;
}

/* The same of a loop that stands for several (join_axes.c): from its first iteration to the second. */
static int64_t first_step(sn_module *m, const sn_schedule_shape *sh, const sn_stmt_rec *r, uint32_t position) {
    sn_ix zero = sn_ix_const(m, 0), one = sn_ix_const(m, 1);
    sn_axis ax = sn_stmt_axis(m, loop_at(sh, position));
    int64_t c;
    sn_ix step = sn_ix_sub(m, sn_ix_subst(m, r->ix, &ax, &one, 1), sn_ix_subst(m, r->ix, &ax, &zero, 1));
    return sn_ix_is_const(m, step, &c) ? c : 0;
}

/* Does it walk `along`, another line for each iteration of `across`? A broadcast or a window of lines does not. */
static bool is_direct(sn_module *m, const sn_schedule_shape *sh, const sn_schedule_tile *t, const sn_stmt_rec *r) {
    int64_t c;
    if (stride(m, sh, r, t->along) != 1) return false;
    if (sn_ix_uses_vals(m, r->ix) || !sn_ix_coef(m, r->ix, sn_stmt_axis(m, loop_at(sh, t->across)), &c)) return true;
    return llabs(c) >= SN_TILE_SMALL_AXIS || llabs(c) >= extent_at(m, sh, t->along);
}

static bool can_stage(sn_module *m, sn_kern k, const sn_schedule_shape *sh, const sn_schedule_tile *t,
                      const sn_stmt_rec *r) {
    if (r->has_mask || sn_ix_uses_vals(m, r->ix) || t->n_staged == SN_MAX_STAGED) return false;
    if (stride(m, sh, r, t->across) != 1) return false;
    if (llabs(first_step(m, sh, r, t->along)) < extent_at(m, sh, t->across)) return false;
    return r->op == SN_LOP_LOAD ? !sn_kern_stores(m, k, r->buf) : !sn_kern_loads(m, k, r->buf);
}

/* Largest vector, from *v down, that keeps pieces of an access aligned which walks the loop with stride 1. */
static void bound_vector(uint32_t *v, sn_module *m, const sn_schedule_shape *sh, const sn_stmt_rec *r,
                         uint32_t position) {
    uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype), align = sn_buf_get(m, r->buf)->align;
    sn_ix rest = sn_ix_sub(m, r->ix, sn_ix_axis(m, sn_stmt_axis(m, loop_at(sh, position))));
    while (*v > 1 && (least(*v * bytes, SN_WIDEST_ACCESS) > align || !sn_ix_is_multiple(m, rest, *v))) *v /= 2;
}

/* Do all other loops, and what they are made of, move on by a line or more along the one of stride 1? Then what follows a line
 * in memory is loaded, too, but for the last one. */
static bool is_of_lines(sn_module *m, const sn_schedule_shape *sh, const sn_stmt_rec *r, uint32_t across) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0, line = extent_at(m, sh, across);
    sn_axis ax = sn_stmt_axis(m, loop_at(sh, across));
    uint32_t n = sn_ix_terms(m, r->ix, &terms, &c0, &one);
    for (uint32_t i = 0; i < n; i++)
        if (!sn_ix_uses_axis(m, terms[i].atom, ax) && terms[i].c < line) return false;
    for (uint32_t p = 0; p < sh->outer.n; p++)
        if (p != across && first_step(m, sh, r, p) < line) return false;
    return line >= SN_TILE_LEAST_SIDE;
}

static void sort_accesses(sn_schedule_tile *t, const sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_module *m = cx->m;
    t->vector = MOST_VECTOR;
    t->lanes = MOST_PINNED;
    t->rows_meet = t->columns_meet = t->ragged = true;
    while (extent_at(m, sh, t->along) % t->lanes) t->lanes /= 2;
    while (extent_at(m, sh, t->along) % t->vector || extent_at(m, sh, t->across) % t->vector) t->vector /= 2;
    for (sn_stmt s = sn_region_first(m, k, sh->body); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_LOAD && r->op != SN_LOP_STORE) continue;
        uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        if (is_direct(m, sh, t, r)) {
            bool cached = r->op == SN_LOP_LOAD && sn_schedule_is_cached(cx, sh, r);
            t->direct += cached ? 0 : bytes;
            t->rows_meet &= stride(m, sh, r, t->across) == extent_at(m, sh, t->along);
            bound_vector(&t->vector, m, sh, r, t->along);
            bound_vector(&t->lanes, m, sh, r, t->along);
            while (t->lanes * bytes > SN_WIDEST_ACCESS && t->lanes > 1) t->lanes /= 2;
        } else if (can_stage(m, k, sh, t, r)) {
            t->staged[t->n_staged++] = s;
            t->bytes += bytes;
            t->columns_meet &= stride(m, sh, r, t->along) == extent_at(m, sh, t->across);
            if (bytes > t->widest) t->widest = bytes;
            t->ragged &= r->op == SN_LOP_LOAD && bytes < SN_RUNS_WIDE && is_of_lines(m, sh, r, t->across);
            bound_vector(&t->vector, m, sh, r, t->across);
        }
    }
}

static bool is_straight(const sn_module *m, sn_kern k, const sn_schedule_shape *sh) {
    for (sn_stmt s = sn_region_first(m, k, sh->body); s.i; s = sn_next(m, s))
        if (sn_lop_has_region(sn_stmt_get(m, s)->op)) return false;
    return true;
}

void sn_schedule_find_tile(sn_schedule_tile *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_module *m = cx->m;
    *out = (sn_schedule_tile){.n_staged = 0};
    for (uint32_t along = sh->outer.n; along-- > 0;)
        for (uint32_t across = sh->outer.n; across-- > 0;) {
            sn_schedule_tile t = {.along = along, .across = across};
            if (along == across || extent_at(m, sh, along) < 2 || extent_at(m, sh, across) < 2) continue;
            sort_accesses(&t, cx, k, sh);
            if (t.bytes <= t.direct && t.bytes > out->bytes) *out = t;
        }
}

/* Straight-line code over two loops. */
bool sn_schedule_tile_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    *why_not = "a tile wants two loops and straight-line code";
    return sh->outer.n >= 2 && !sh->n_nests && is_straight(cx->m, k, sh);
}

/* A short axis gives no line by itself, but rows that meet in memory do. Small matrices are in the nearest cache. */
static bool pays(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_schedule_tile *t) {
    if (!t->n_staged || !cx->target->is_gpu || sh->rows < SN_TILE_SMALL / t->bytes) return false;
    int64_t along = extent_at(cx->m, sh, t->along), across = extent_at(cx->m, sh, t->across);
    if (along * across < SN_TILE_LEAST_SIDE * SN_TILE_LEAST_SIDE) return false;
    return (t->rows_meet || along >= SN_TILE_SMALL_AXIS) && (t->columns_meet || across >= SN_TILE_SMALL_AXIS);
}

/* ---- figures ---- */

static uint32_t between(uint32_t low, uint32_t x, uint32_t high) { return x < low ? low : x > high ? high : x; }

static uint32_t pow2_ceil(int64_t x) {
    uint32_t p = 1;
    while (p < x && p < 1u << 20) p *= 2;
    return p;
}

/* A thread holds a square of each staged access in its registers. */
static uint32_t choose_vector(const sn_pass_ctx *cx, const sn_schedule_tile *t, uint32_t most) {
    uint32_t v = least(most, cx->target->vector_bytes / t->widest);
    while (v > 1 && v * v * t->bytes > SN_TILE_SQUARES) v /= 2;
    return v;
}

/* Bytes and halves of which squares that fit would have no more than a word in a row: loads from anywhere, and as many lanes for
 * the body as fit there. Pieces come in twos, so that half as much is kept. */
static void choose_squares(sn_sched *sc, const sn_pass_ctx *cx, const sn_schedule_shape *sh,
                           const sn_schedule_tile *t) {
    int64_t across = extent_at(cx->m, sh, t->across), along = extent_at(cx->m, sh, t->along);
    uint32_t fits = choose_vector(cx, t, t->vector), v = choose_vector(cx, t, MOST_VECTOR);
    while (v > 1 && 2 * v * v * t->bytes > SN_TILE_SQUARES) v /= 2;
    bool long_enough = across >= SN_TILE_LEAST_SIDE && along >= SN_TILE_LEAST_SIDE && t->ragged;
    sc->runs = cx->target->is_gpu && fits * t->widest < SN_TILE_WORD && long_enough && v > fits;
    sc->vector = sc->runs ? v : fits;
}

/* A tile with sides of two lines; where one axis is shorter than that, the other side gets what is left. Smaller when
 * it does not fit, or when there would not be two for each multiprocessor. Unaligned loads take twice the registers: no more
 * than a thread has to have in flight, and rather long rows to store. */
static void choose_sides(uint32_t *across, uint32_t *along, const sn_pass_ctx *cx, const sn_schedule_shape *sh,
                         const sn_schedule_tile *t, const sn_sched *sc) {
    uint32_t vector = sc->vector, room = sc->runs ? SN_TILE_THREADS * SN_TILE_FLIGHT : SN_TILE_SHARED;
    uint32_t most = vector < 4 ? SN_TILE_MOST_SIDE / 2 : SN_TILE_MOST_SIDE,
             side = between(SN_TILE_LEAST_SIDE, 2 * SN_LINE / t->widest, most);
    uint32_t fewest = between(SN_TILE_LEAST_SIDE, SN_LINE / t->widest, side);
    uint32_t rows = pow2_ceil(extent_at(cx->m, sh, t->across)), columns = pow2_ceil(extent_at(cx->m, sh, t->along));
    *across = least(rows, side);
    *along = least(columns, side * side / *across);
    *across = least(rows, side * side / *along);
    for (;;) {
        bool few = sh->rows < (int64_t)*across * *along * cx->target->units * 2;
        if (*across * *along <= fewest * fewest || (!few && *across * *along * t->bytes <= room)) break;
        *(*across > *along || (sc->runs && *across == *along) ? across : along) /= 2;
    }
}

static sn_status check(const sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_schedule_tile *t,
                       const sn_sched *sc) {
    const char *name = sn_kern_get(cx->m, k)->name;
    sn_env *env = cx->m->env;
    int64_t a = extent_at(cx->m, sh, t->across), b = extent_at(cx->m, sh, t->along);
    if (sc->vector > MOST_PINNED)
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: the schedule's vector=%u is more than %u", name, sc->vector,
                       (unsigned)MOST_PINNED);
    if (sc->runs && (!t->ragged || (sc->vector & (sc->vector - 1))))
        return sn_fail(env, SN_ERROR_ARGUMENT,
                       "kernel %s: only loads of bytes and halves, by powers of two, are runs of a tile", name);
    if (!sc->runs && (a % sc->vector || b % sc->vector))
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: the schedule's vector=%u does not divide %lld and %lld",
                       name, sc->vector, (long long)a, (long long)b);
    int64_t squares = (int64_t)sc->block_x * sc->unroll, room = cx->target->shared_bytes;
    if (room && squares > room / (sc->vector * sc->vector * t->bytes))
        return sn_fail(env, SN_ERROR_ARGUMENT,
                       "kernel %s: %lld squares of the schedule's vector=%u take more than %lld bytes of shared memory",
                       name, (long long)squares, sc->vector, (long long)room);
    if (sc->block_y % sc->vector || squares % (sc->block_y / sc->vector))
        return sn_fail(env, SN_ERROR_ARGUMENT,
                       "kernel %s: %lld squares of the schedule's vector=%u do not fill a tile of block_y=%u", name,
                       (long long)squares, sc->vector, sc->block_y);
    return SN_OK;
}

static sn_status complete(sn_sched *sc, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                          const sn_schedule_tile *t) {
    uint32_t across, along;
    sc->cls = SN_SCHED_TILE;
    if (!sc->vector) choose_squares(sc, cx, sh, t);
    choose_sides(&across, &along, cx, sh, t, sc);
    if (!sc->block_y) sc->block_y = across < sc->vector ? sc->vector : across;
    if (along < sc->vector) along = sc->vector;
    uint32_t elements = least((int64_t)sc->block_y * along, 1 << 20), squares = elements / (sc->vector * sc->vector);
    if (!squares) squares = 1;
    if (!sc->block_x && sc->unroll) sc->block_x = squares > sc->unroll ? squares / sc->unroll : 1;
    if (!sc->block_x) {
        uint32_t wanted = elements * (t->widest < 4 ? 4 : t->widest) / SN_TILE_FLIGHT;
        sc->block_x = least(squares, between(32, wanted, SN_TILE_THREADS));
    }
    if (!sc->unroll) sc->unroll = squares > sc->block_x ? squares / sc->block_x : 1;
    return check(cx, k, sh, t, sc);
}

/* Other candidates: the same tile by twice as many threads, and by half. */
sn_status sn_schedule_tile_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                      const sn_sched *pinned) {
    sn_schedule_tile t;
    sn_sched sc = *pinned;
    sn_schedule_find_tile(&t, cx, k, sh);
    if (pinned->cls == SN_SCHED_NONE && !pays(cx, sh, &t)) return SN_OK;
    if (!t.n_staged)
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                       "kernel %s: class tile wants accesses that are contiguous along different loops",
                       sn_kern_get(cx->m, k)->name);
    SN_TRY(complete(&sc, cx, k, sh, &t));
    sn_schedule_propose(out, cx, &sc);
    sn_remark(cx, sn_kern_get(cx->m, k)->name, "%u of %u bytes an element are contiguous along %s, the rest along %s",
              t.bytes, t.bytes + t.direct, sn_axis_get(cx->m, sn_stmt_axis(cx->m, loop_at(sh, t.across)))->name,
              sn_axis_get(cx->m, sn_stmt_axis(cx->m, loop_at(sh, t.along)))->name);
    if (pinned->block_x || pinned->unroll) return SN_OK;
    sn_sched more = sc, fewer = sc;
    more.block_x = sc.block_x * 2, more.unroll = sc.unroll / 2;
    fewer.block_x = sc.block_x / 2, fewer.unroll = sc.unroll * 2;
    if (sc.unroll % 2 == 0 && more.block_x <= cx->target->max_threads) sn_schedule_propose(out, cx, &more);
    if (sc.block_x % 2 == 0 && fewer.block_x >= SN_WARP) sn_schedule_propose(out, cx, &fewer);
    return SN_OK;
}
