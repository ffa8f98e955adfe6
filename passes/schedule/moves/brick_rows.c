/* brick_rows.c: bricks of which short rows are reduced while they are in shared memory.
 *
 *     loop i in 15419 { loop j in 2171 { %0 = reduce max r in 2 { load x[33474649*r + 15419*j + i] } ..
 *                                        loop r in 2 { load x[..]  ..  store y[4342*i + 2*j + r] } } }
 *
 * A softmax along an axis that a permutation brought loads in one order and stores in the other. With the axis of its rows as one more loop it is a
 * permutation, and a brick that has all of that loop has whole rows:
 *
 *     loop g : grid {
 *       loop x : block.x { .. load x[..]   store s[..] }                                  runs of the loads
 *       loop x : block.x { loop c { reduce r { load s[..] }  ..  loop r { .. store s[..] } } }   a thread has rows, one after the other
 *       loop x : block.x { .. load s[..]   store y[..] }                                  runs of the stores
 *     }
 *
 * For kernels of perfect nests of one short loop, of which the last one stores one buffer and all others reduce; what they load of the buffer that
 * lies across is the same in each, and of the dtype that is stored, so that results take the place of elements. All else is loaded as it is. brick.c has
 * the figures, brick_bind.c the copies and stores.
 *
 * Legal as any brick is: iterations of outer loops are apart from each other. Cost: linear in the kernel.
 */
#include "passes/schedule/moves/brick_bind.h"

#include "passes/schedule/base/schedules.h"

enum { MOST_WRITTEN = 32 /* elements of a row that registers hold */ };

/* ---- is it one? ---- */

/* The outer loops, and the loop of the last nest behind them. */
static sn_chain all_loops(const sn_schedule_shape *sh) {
    sn_chain all = sh->outer;
    all.at[all.n++] = sh->nests[sh->n_nests - 1].top;
    return all;
}

static bool has_short_nests(const sn_module *m, const sn_schedule_shape *sh) {
    if (sh->scans || sh->steps || sh->mixed || sh->team || sh->n_nests < 2) return false;
    if (!sh->outer.n || sh->outer.n == SN_MAX_CHAIN || sh->max_count < 2 || sh->max_count > SN_BRICK_SHORT_ROW)
        return false;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        const sn_schedule_nest *nest = &sh->nests[i];
        bool last = i == sh->n_nests - 1;
        if (nest->chain.n != 1 || !nest->perfect || nest->count != sh->max_count || nest->waits) return false;
        if ((sn_stmt_get(m, nest->top)->op == SN_LOP_REDUCE) == last) return false;
    }
    return true;
}

/* Is `s`, of the nest around it, the element that the last nest loads by `of`? */
static bool is_same(sn_module *m, const sn_schedule_shape *sh, sn_stmt s, sn_stmt of) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    if (!r->parent.i || r->has_mask) return false;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        if (!sn_stmt_eq(r->parent, sh->nests[i].top)) continue;
        sn_axis ax = sn_stmt_axis(m, sh->nests[i].top);
        sn_ix with = sn_ix_axis(m, sn_stmt_axis(m, sh->nests[sh->n_nests - 1].top));
        return sn_ix_eq(sn_ix_subst(m, r->ix, &ax, &with, 1), sn_stmt_get(m, of)->ix);
    }
    return false;
}

/* Has each row elements of its own? Rows that share them would leave their results in the same place. */
static bool are_apart(const sn_schedule_brick *b) {
    for (uint32_t p = 0; p < b->n; p++)
        if (b->extents[p] > 1 && !b->loads[0].strides[p]) return false;
    return true;
}

/* Accesses of the whole kernel: one store, and loads of what is staged that are all the same. Nothing that is stored is loaded: two bricks may reduce a
 * row, of which each stores a part, wherever runs begin inside of sectors. */
static bool are_rows(sn_module *m, sn_kern k, const sn_schedule_shape *sh, sn_stmt staged) {
    sn_buf x = sn_stmt_get(m, staged)->buf;
    uint32_t stores = 0;
    sn_stmt end = sn_stmt_walk_skip(m, sh->outer.at[0]);
    for (sn_stmt s = sh->outer.at[0]; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op == SN_LOP_IF || sn_lops[r->op].syncs) return false;
        if (r->op == SN_LOP_STORE &&
            (stores++ || r->has_mask || sn_buf_get(m, r->buf)->dtype != sn_buf_get(m, x)->dtype))
            return false;
        if (sn_is_access(r) && r->op != SN_LOP_STORE && r->op != SN_LOP_LOAD) return false;
        if (r->op != SN_LOP_LOAD) continue;
        if (sn_kern_stores(m, k, r->buf) || (sn_buf_eq(r->buf, x) && !is_same(m, sh, s, staged))) return false;
    }
    return stores == 1;
}

static bool find(sn_schedule_brick *b, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_module *m = cx->m;
    if (!cx->target->is_gpu || !has_short_nests(m, sh)) return false;
    sn_chain all = all_loops(sh);
    sn_schedule_find_brick(b, cx, k, &all);
    b->whole = true;
    /* Longer rows are read again by each nest: of words a bank at a time. */
    if (sh->max_count > MOST_WRITTEN && b->widest != SN_WORD) return false;
    return b->n_staged == 1 && b->n_across == 1 && are_apart(b) && are_rows(m, k, sh, b->staged[0]);
}

/* The last nest as a body of straight-line code. */
static sn_schedule_shape as_body(const sn_schedule_shape *sh) {
    sn_schedule_shape body = *sh;
    body.outer = all_loops(sh);
    body.body = sh->nests[sh->n_nests - 1].top;
    body.n_nests = 0;
    return body;
}

/* Has a tile of so many rows, which follow each other in an order of the loops, the last one fastest, a piece of less than two lines on either side that
 * begins inside of a sector? */
static bool has_pieces(const sn_schedule_brick *b, const uint32_t *order, int64_t rows) {
    sn_schedule_brick tile = *b;
    const sn_schedule_walk *walks[] = {&tile.loads[0], &tile.stored};
    const uint32_t bytes[] = {tile.widest, tile.least};
    for (uint32_t k = b->n - 1; k-- > 0;) {
        uint32_t p = order[k];
        tile.sides[p] = rows < b->extents[p] ? rows : b->extents[p];
        rows = sn_ceil_div(rows, b->extents[p]);
    }
    tile.sides[b->n - 1] = b->extents[b->n - 1];
    for (size_t i = 0; i < SN_COUNT(walks); i++) {
        int64_t run = sn_schedule_brick_run(&tile, walks[i]) * bytes[i];
        if (run < 2 * SN_LINE && !sn_schedule_brick_begins(&tile, walks[i], bytes[i])) return true;
    }
    return false;
}

/* Class flat has tiles of rows that follow each other as the loops do, or as they are loaded. Where those have longer pieces, or whole sectors, it is
 * faster: its threads have a row in registers. */
static bool flat_has_pieces(const sn_schedule_brick *b, int64_t rows) {
    uint32_t loops[SN_MAX_CHAIN], loaded[SN_MAX_CHAIN], n = b->n - 1;
    bool taken[SN_MAX_CHAIN] = {false};
    const sn_schedule_walk *w = &b->loads[0];
    taken[n] = true;
    for (uint32_t p = 0; p < n; p++) loops[p] = p;
    for (uint32_t i = 0, left = n; i < w->n + n; i++) {
        uint32_t p = i < w->n ? w->at[i] : i - w->n;
        if (!taken[p]) loaded[--left] = p;
        taken[p] = true;
    }
    return has_pieces(b, loops, rows) && has_pieces(b, loaded, rows);
}

bool sn_schedule_brick_rows_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_schedule_brick b;
    *why_not = "a brick wants loads and stores that walk loops in different orders, on a GPU";
    return find(&b, cx, k, sh);
}

sn_status sn_schedule_brick_rows_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                            const sn_sched *pinned) {
    sn_schedule_brick b;
    sn_sched_list flat = {0};
    if (!find(&b, cx, k, sh)) return SN_OK;
    if (pinned->cls == SN_SCHED_NONE)
        SN_TRY(sn_schedule_ask(&flat, sn_schedule_flat_applies, sn_schedule_flat_candidates, cx, k, sh, pinned));
    if (flat.n && !flat_has_pieces(&b, flat.at[0].tile_m)) return SN_OK;
    sn_schedule_shape body = as_body(sh);
    return sn_schedule_propose_bricks(out, cx, k, &body, pinned, &b);
}

/* ---- binding ---- */

typedef struct rows {
    sn_stmt_vec of[2]; /* statements of a row, of bricks inside and of others */
    int64_t count;
    const sn_sched *sc;
} rows;

/* What the rows load of the brick, and store, is in shared memory. */
static void redirect(sn_brick_binding *b, sn_stmt first, const sn_ix *at) {
    sn_module *m = b->m;
    const sn_brick_staged *st = &b->loads[0];
    sn_stmt next, end = sn_stmt_walk_skip(m, first);
    for (sn_stmt s = first; s.i && s.i != end.i; s = next) {
        sn_stmt_rec *r = sn_stmt_get(m, s);
        next = sn_stmt_walk_next(m, s);
        bool loads = r->op == SN_LOP_LOAD && sn_buf_eq(r->buf, st->buf);
        if (!loads && r->op != SN_LOP_STORE) continue;
        sn_ix in[SN_MAX_CHAIN];
        for (uint32_t p = 0; p < b->b.n; p++) in[p] = at[p];
        in[b->b.n - 1] = sn_ix_axis(m, sn_stmt_axis(m, r->parent));
        r->buf = st->shared;
        r->ix = sn_brick_place_of(b, st, in);
    }
}

/* Threads along what a run of the loads has side by side, each with a row at a time. */
static void reduce_rows(sn_brick_binding *b, bool masked, void *user) {
    enum { MOST_UNROLL = 4 };
    rows *ro = user;
    sn_module *m = b->m;
    uint32_t loops[SN_MAX_CHAIN], n = 0, last = b->b.n - 1;
    bool taken[SN_MAX_CHAIN] = {false};
    int64_t count = 1;
    taken[last] = true;
    const sn_schedule_walk *w = &b->b.loads[0];
    for (uint32_t i = 0; i < w->n + b->b.n; i++) {
        uint32_t p = i < w->n ? w->at[i] : i - w->n;
        if (!taken[p] && b->sides[p] > 1) loops[n++] = p, count *= b->sides[p];
        taken[p] = true;
    }
    sn_stmt into = b->into;
    sn_ix x = sn_open_loop_in(m, b->k, &into, "x", b->threads, SN_AXIS_BLOCK_X);
    int64_t turns = sn_ceil_div(count, b->threads), most = MOST_UNROLL / ro->count;
    sn_ix turn = sn_brick_open_turns(b, &into, "lo", "l", turns, most > 1 ? most : 1);
    sn_ix row = sn_ix_fma(m, b->threads, turn, x);
    if (sn_brick_after_turns(turns, most > 1 ? most : 1) * b->threads > count)
        into = sn_put_if(m, sn_at_end(b->k, into), row, sn_ix_const(m, count));
    sn_ix at[SN_MAX_CHAIN], in[SN_MAX_CHAIN], with[SN_MAX_CHAIN];
    for (uint32_t p = 0; p < b->b.n; p++) at[p] = in[p] = sn_ix_const(m, 0);
    sn_brick_take_apart(b, loops, n, row, at);
    sn_brick_take_apart(b, loops, n, sn_brick_inside(m, row, count), in);
    for (uint32_t p = 0; p < last; p++) with[p] = sn_ix_add(m, b->origin[p], at[p]);
    for (uint32_t k = 0; k < n && masked; k++) /* rows beyond the last ones are none */
        into = sn_put_if(m, sn_at_end(b->k, into), with[loops[k]], sn_ix_const(m, b->b.extents[loops[k]]));
    sn_stmt_vec *of = &ro->of[masked && b->inside];
    for (uint32_t i = 0; i < of->n; i++) {
        sn_stmt s = of->at[i];
        sn_stmt_subst(m, s, b->axes, with, last);
        sn_stmt_insert(m, sn_at_end(b->k, into), s);
        if (!sn_lop_has_region(sn_stmt_get(m, s)->op)) continue;
        if (ro->count <= MOST_WRITTEN) sn_stmt_get(m, s)->kind = SN_AXIS_UNROLL;
        redirect(b, s, in);
    }
}

/* A loop that copies the element of the last nest, from where that loads it to where that stores its result. */
static sn_stmt put_copy(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_stmt staged) {
    sn_module *m = cx->m;
    sn_stmt last = sh->nests[sh->n_nests - 1].top, store = {0}, into = sh->body;
    for (sn_stmt s = sn_stmt_get(m, last)->first; s.i; s = sn_next(m, s))
        if (sn_stmt_get(m, s)->op == SN_LOP_STORE) store = s;
    sn_axis ax = sn_stmt_axis(m, last);
    sn_ix e = sn_open_loop_in(m, k, &into, "e", sh->max_count, SN_AXIS_SEQ);
    sn_ix from = sn_ix_subst(m, sn_stmt_get(m, staged)->ix, &ax, &e, 1);
    sn_val value = sn_put_load(m, sn_at_end(k, into), sn_stmt_get(m, staged)->buf, from);
    sn_ix to = sn_ix_subst(m, sn_stmt_get(m, store)->ix, &ax, &e, 1);
    sn_put_store(m, sn_at_end(k, into), sn_stmt_get(m, store)->buf, to, value);
    return into;
}

void sn_schedule_brick_rows_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    rows ro = {.count = sh->max_count, .sc = sc};
    sn_brick_binding b = {.cx = cx, .m = m, .k = k, .sh = sh, .threads = sc->block_x, .v = sc->vector};
    find(&b.b, cx, k, sh);
    sn_schedule_shape as = as_body(sh);
    sn_stmt copy = put_copy(cx, k, sh, b.b.staged[0]);
    as.outer.at[as.outer.n - 1] = as.body = copy;
    sn_schedule_find_brick(&b.b, cx, k, &as.outer);
    b.b.whole = true;
    sn_schedule_size_brick(&b.b, sc->tile_m, sc->tile_n);
    for (uint32_t p = 0; p < as.outer.n; p++) b.axes[p] = sn_stmt_axis(m, as.outer.at[p]);
    uint32_t vector = sn_schedule_brick_vector(m, &b.b, &as);
    sn_stmt_vec body = {0};
    for (sn_stmt s = sn_stmt_get(m, copy)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        SN_PUSH(cx->scratch, &body, s);
    }
    sn_stmt_unlink(m, copy);
    sn_schedule_take_body(&ro.of[0], cx, k, sh);
    ro.of[1] = sn_schedule_copy_body(cx, k, &ro.of[0]);
    sn_brick_bind_body(&b, body, vector, reduce_rows, &ro);
}
