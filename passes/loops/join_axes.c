/* join_axes.c: the pass `join-axes`: axes too short for the side of a tile become one with those that lie behind them.
 *
 *     loop i in 3899 { loop j in 8123 { loop k in 2 { load x[31671577*k + 3899*j + i]  store y[16246*i + 2*j + k] } } }
 *  -> loop i in 3899 { loop jk in 16246 { load x[31671577*(jk mod 2) + 3899*(jk div 2) + i]  store y[16246*i + jk] } }
 *
 * A permutation stores contiguously along one loop and loads so along another one; class tile makes a tile of these two
 * (schedule/moves/tile.c). Where one of them is short, or leaves much of its last tile empty, what the store has behind it in
 * memory joins it, and what the load has behind its own. A loop that both want goes to the store. The other access of a
 * joined axis is affine no more, which costs a division for a piece of a line.
 *
 * Only straight-line kernels of a GPU, whose store and load are affine, and only where both sides are long enough for a
 * tile afterwards. Legal because outer loops are parallel. After `collapse`, which joins what no access minds. Cost:
 * linear in the kernel.
 */
#include "passes/base/nest.h"
#include "passes/schedule/moves/brick.h"

/* Loops that an access walks one behind the other, the one of stride 1 first. */
typedef struct side {
    int64_t strides[SN_MAX_CHAIN]; /* of the access, by loop */
    uint32_t at[SN_MAX_CHAIN], n;
    int64_t extent, wanted;
} side;

typedef struct join {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_chain outer;
    int64_t extents[SN_MAX_CHAIN];
    bool taken[SN_MAX_CHAIN];
    side stored, loaded;
} join;

/* ---- is there something to join? ---- */

/* The next loop of the side: its stride is what the side has so far. */
static bool grow(join *j, side *s) {
    for (uint32_t p = 0; p < j->outer.n; p++) {
        if (j->taken[p] || s->strides[p] != s->extent) continue;
        j->taken[p] = true;
        s->at[s->n++] = p;
        s->extent *= j->extents[p];
        return true;
    }
    return false;
}

static bool look_at_access(join *j, side *s, const sn_stmt_rec *r) {
    uint32_t bytes = sn_dtype_bytes(sn_buf_get(j->m, r->buf)->dtype);
    *s = (side){.extent = 1, .wanted = 2 * SN_LINE / bytes};
    if (r->has_mask || sn_ix_uses_vals(j->m, r->ix)) return false;
    for (uint32_t p = 0; p < j->outer.n; p++)
        if (!sn_ix_coef(j->m, r->ix, sn_stmt_axis(j->m, j->outer.at[p]), &s->strides[p])) return false;
    return true;
}

/* Straight-line code with a store, and a load that is contiguous along another loop. */
static bool find_sides(join *j) {
    sn_stmt body = j->outer.at[j->outer.n - 1], store = {0};
    for (sn_stmt s = sn_region_first(j->m, j->k, body); s.i; s = sn_next(j->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(j->m, s);
        if (sn_lop_has_region(r->op)) return false;
        if (r->op == SN_LOP_STORE && !store.i) store = s;
    }
    if (!store.i || !look_at_access(j, &j->stored, sn_stmt_get(j->m, store)) || !grow(j, &j->stored)) return false;
    for (sn_stmt s = sn_region_first(j->m, j->k, body); s.i; s = sn_next(j->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(j->m, s);
        if (r->op != SN_LOP_LOAD || sn_buf_bytes(j->m, r->buf) < SN_TILE_SMALL) continue; /* that stays in the cache */
        if (!look_at_access(j, &j->loaded, r)) continue;
        if (j->loaded.strides[j->stored.at[0]] != 1 && grow(j, &j->loaded)) return true;
    }
    return false;
}

/* Does it fill its tiles so badly that a division is cheaper? */
static bool is_short(const side *s) {
    int64_t tile = SN_TILE_LEAST_SIDE;
    while (tile < s->wanted && tile < s->extent) tile *= 2;
    return s->extent * 100 < sn_ceil_div(s->extent, tile) * tile * SN_TILE_JOINED;
}

/* Long enough, or followed in memory by all of the other side. */
static bool is_worth_a_tile(const join *j, const side *s, const side *other) {
    int64_t run = s->extent;
    for (uint32_t k = 0; k < other->n; k++) {
        if (s->strides[other->at[k]] != run) return s->extent >= SN_TILE_SMALL_AXIS;
        run = sn_mul_clamped(run, j->extents[other->at[k]]);
    }
    return true;
}

static bool look(join *j) {
    int64_t all = 1;
    sn_chain_outer(&j->outer, j->m, j->k);
    for (uint32_t p = 0; p < j->outer.n; p++) {
        if (!sn_ix_is_const(j->m, sn_stmt_extent(j->m, j->outer.at[p]), &j->extents[p])) return false;
        all = sn_mul_clamped(all, j->extents[p]);
    }
    if (j->outer.n < 3 || !find_sides(j) || all < j->stored.wanted * SN_TILE_SMALL / (2 * SN_LINE)) return false;
    while (is_short(&j->stored) && grow(j, &j->stored)) {}
    while (is_short(&j->loaded) && grow(j, &j->loaded)) {}
    if (!is_worth_a_tile(j, &j->stored, &j->loaded) || !is_worth_a_tile(j, &j->loaded, &j->stored)) return false;
    return j->stored.n > 1 || j->loaded.n > 1;
}

/* ---- the new loops ---- */

/* A loop inside *into for the axes of a side; what these are then goes to `to`. */
static void put_side(join *j, const side *s, sn_stmt *into, sn_ix *to) {
    sn_ix shape[SN_MAX_CHAIN], parts[SN_MAX_CHAIN];
    const char *name = "";
    for (uint32_t k = s->n; k-- > 0;) {
        shape[s->n - 1 - k] = sn_ix_const(j->m, j->extents[s->at[k]]);
        name = sn_strf(&j->m->arena, "%s%s", name, sn_axis_get(j->m, sn_stmt_axis(j->m, j->outer.at[s->at[k]]))->name);
    }
    sn_axis ax = sn_axis_new(j->m, name, sn_ix_const(j->m, s->extent));
    *into = sn_put_loop(j->m, sn_at_end(j->k, *into), ax, SN_AXIS_SEQ);
    sn_ix_unflatten(j->m, sn_ix_axis(j->m, ax), shape, s->n, parts);
    for (uint32_t k = 0; k < s->n; k++) to[s->at[k]] = parts[s->n - 1 - k];
}

static void join_loops(join *j) {
    sn_module *m = j->m;
    sn_axis from[SN_MAX_CHAIN];
    sn_ix to[SN_MAX_CHAIN];
    sn_stmt into = {0}, body = j->outer.at[j->outer.n - 1];
    for (uint32_t p = 0; p < j->outer.n; p++) {
        from[p] = sn_stmt_axis(m, j->outer.at[p]);
        if (j->taken[p]) continue;
        sn_axis ax = sn_axis_new(m, sn_axis_get(m, from[p])->name, sn_ix_const(m, j->extents[p]));
        into = sn_put_loop(m, sn_at_end(j->k, into), ax, SN_AXIS_SEQ);
        to[p] = sn_ix_axis(m, ax);
    }
    put_side(j, &j->loaded, &into, to);
    put_side(j, &j->stored, &into, to);
    for (sn_stmt s = sn_stmt_get(m, body)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        sn_stmt_subst(m, s, from, to, j->outer.n);
        sn_stmt_insert(m, sn_at_end(j->k, into), s);
    }
    sn_stmt_unlink(m, j->outer.at[0]);
}

sn_status sn_pass_join_axes(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    for (uint32_t i = 0; i < m->kernels.n && cx->target->is_gpu; i++) {
        join j = {.cx = cx, .m = m, .k = m->kernels.at[i]};
        const sn_kern_rec *r = sn_kern_get(m, j.k);
        if (!sn_kern_is_free(r) || !look(&j)) continue;
        if (sn_schedule_wants_brick(cx, j.k, &j.outer)) continue;
        sn_remark(cx, r->name, "tiles of %lld by %lld axes", (long long)j.loaded.n, (long long)j.stored.n);
        join_loops(&j);
        *changed = true;
    }
    return m->env->status;
}
