/* tile_bind.c: binding of class tile: a block owns a tile, what is contiguous across it passes through shared
 * memory.
 *
 *     loop g : grid {                                   tiles; neighbouring blocks are neighbours along
 *       loop x : block.x {                              square q = T*u + x: a = q mod A, b = q div A
 *         load y, contiguous across: rows w of the square           r[V*w + v]
 *         store s, contiguous along: its columns                    s[(V*a + w), b] = r[V*v + w]
 *       }
 *       loop x : block.x {                              vector p = T*u + x of the tile: b = p mod B, row = p div B
 *         loop v { the body; what it read from y is s[row, b] }
 *       }
 *     }
 *
 * A square of V*V elements is transposed in the registers of its thread, so that every access, to global and to shared
 * memory, is V elements wide. A row of s holds its B vectors rotated: vector b of the rows V*a .. V*a + V-1 stands in
 * place (a + b) mod B. So neither the lanes of the first loop (they differ in a) nor those of the second one (in b)
 * meet in a bank. Squares of one element leave a bank empty behind each row instead, which needs no arithmetic. Staged
 * stores go the other way: the body stores to s, a third loop transposes.
 *
 * Bytes and halves that no such square fits (`runs`) are loaded from anywhere (codegen-llvm/unaligned.c), with what stands behind
 * them in their aligned pieces: what does not end the last line of all has something behind it, and that is loaded element by
 * element. Vectors of the body have as many lanes as fit there.
 *
 * They have no more than the widest access of the body takes at once, either: bytes that are stored as f64 by eight
 * lanes would be four stores, each of which has a part of a sector for each thread.
 *
 * Where tiles do not fill an extent, each of these loops exists twice: `if` the tile lies inside, as above, and `if` it
 * is at an edge, with masks around loads and stores. V divides both extents, so a mask holds for a whole square.
 */
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/moves/tile.h"

typedef struct tile {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    const sn_schedule_shape *sh;
    sn_schedule_tile tile;
    int64_t threads, unroll, v;
    int64_t lanes;              /* of a vector of the body */
    bool runs;                  /* loads from anywhere, */
    bool one_by_one;            /* ... but by element in tiles whose vectors might reach over the end of the storage */
    int64_t across, along;      /* sides */
    int64_t n_across, n_along;  /* extents of the loops */
    sn_axis axes[SN_MAX_CHAIN]; /* outer axes ... */
    sn_ix origin[SN_MAX_CHAIN]; /* ... and what they are at the first element of the tile */
    sn_stmt grid, into;         /* the grid loop, or an `if` in it; the region that loops over threads are put into */
    sn_ix edge;                 /* number of extents that the tile reaches the end of without filling it */
    sn_ix number;        /* of the tile, where those across follow each other: the last one ends the storage ... */
    int64_t n_tiles;     /* ... of so many */
    bool inside, masked; /* are there tiles with edge 0, and with others */
    struct staged {
        uint32_t position; /* of the access in the body */
        sn_lop op;
        sn_ix ix;
        sn_buf buf, shared, reg;
    } staged[SN_MAX_STAGED];
    uint32_t n_staged;
} tile;

/* ---- small pieces ---- */

/* The offset `e` at element (i, j) of the tile: i across, j along. */
static sn_ix element(tile *t, sn_ix e, sn_ix i, sn_ix j) {
    const sn_schedule_tile *p = &t->tile;
    sn_ix with[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < t->sh->outer.n; k++) with[k] = t->origin[k];
    with[p->across] = sn_ix_add(t->m, with[p->across], i);
    with[p->along] = sn_ix_add(t->m, with[p->along], j);
    return sn_ix_subst(t->m, e, t->axes, with, t->sh->outer.n);
}

/* From one row of shared memory to the next. Single elements of less than a bank share it with their neighbours. */
static int64_t pitch(const tile *t, sn_buf b) {
    uint32_t bytes = sn_dtype_bytes(sn_buf_get(t->m, b)->dtype);
    return t->v > 1 ? t->along : t->along + (bytes < SN_BANK ? SN_BANK / bytes : 1);
}

/* Vector b of a row, row div V = a, in the shared memory of a buffer. */
static sn_ix shared_vector(tile *t, sn_buf buf, sn_ix row, sn_ix a, sn_ix b) {
    sn_ix place = t->v > 1 ? sn_ix_modc(t->m, sn_ix_add(t->m, a, b), t->along / t->v) : b;
    return sn_ix_fma(t->m, pitch(t, buf), row, sn_ix_scale(t->m, place, t->v));
}

static sn_val put_test(tile *t, sn_cursor at, sn_val mask, sn_ix e, int64_t extent, int64_t side) {
    if (extent % side == 0) return mask;
    sn_val test = sn_put_in(t->m, at, e, sn_ix_const(t->m, extent));
    return mask.i ? sn_put_op2(t->m, at, SN_LOP_AND, mask, test) : test;
}

/* Is element (i, j) of the tile one of the kernel's? none: all are. */
static sn_val put_mask(tile *t, sn_cursor at, sn_ix i, sn_ix j) {
    const sn_schedule_tile *p = &t->tile;
    sn_val mask = put_test(t, at, (sn_val){0}, sn_ix_add(t->m, t->origin[p->across], i), t->n_across, t->across);
    return put_test(t, at, mask, sn_ix_add(t->m, t->origin[p->along], j), t->n_along, t->along);
}

/* ---- the transposing loops ---- */

/* The squares of thread x: loops u, w, v around *at. */
typedef struct square {
    sn_ix a, b, w, v;    /* place of the square in the tile; row and lane inside */
    sn_ix rows, columns; /* elements w*V + v and v*V + w of the thread's registers */
    sn_val mask;
} square;

static square open_square(tile *t, sn_cursor *at, sn_ix x, bool masked) {
    square q = {.mask = {0}};
    int64_t v = t->v, per_row = t->across / v;
    sn_ix u = sn_open_loop(t->m, at, "u", t->unroll, SN_AXIS_UNROLL), number = sn_ix_fma(t->m, t->threads, u, x);
    q.a = sn_ix_modc(t->m, number, per_row);
    q.b = sn_ix_divc(t->m, number, per_row);
    if (masked && !t->runs) q.mask = put_mask(t, *at, sn_ix_scale(t->m, q.a, v), sn_ix_scale(t->m, q.b, v));
    q.w = sn_open_loop(t->m, at, "w", v, SN_AXIS_UNROLL);
    q.v = sn_open_loop(t->m, at, "v", v, t->one_by_one ? SN_AXIS_UNROLL : SN_AXIS_VECTOR);
    if (masked && t->runs) q.mask = put_mask(t, *at, sn_ix_fma(t->m, v, q.a, q.v), sn_ix_fma(t->m, v, q.b, q.w));
    sn_ix first = sn_ix_fma(t->m, t->unroll * v * v, x, sn_ix_scale(t->m, u, v * v));
    q.rows = sn_ix_add(t->m, first, sn_ix_fma(t->m, v, q.w, q.v));
    q.columns = sn_ix_add(t->m, first, sn_ix_fma(t->m, v, q.v, q.w));
    return q;
}

/* Between memory, contiguous across, and registers. */
static void move_global(tile *t, sn_cursor at, sn_ix x, const struct staged *st, bool masked) {
    sn_module *m = t->m;
    square q = open_square(t, &at, x, masked);
    sn_ix e = element(t, st->ix, sn_ix_fma(t->m, t->v, q.a, q.v), sn_ix_fma(t->m, t->v, q.b, q.w));
    if (st->op == SN_LOP_STORE) {
        sn_val value = sn_put_load(m, at, st->reg, q.columns);
        if (q.mask.i) sn_put_store_masked(m, at, st->buf, e, value, q.mask);
        else sn_put_store(m, at, st->buf, e, value);
        return;
    }
    sn_val value;
    if (q.mask.i) {
        sn_val none = sn_put_const(m, at, sn_buf_get(m, st->buf)->dtype, 0);
        value = sn_put_load_masked(m, at, st->buf, e, q.mask, none);
    } else {
        value = sn_put_load(m, at, st->buf, e);
    }
    sn_put_store(m, at, st->reg, q.rows, value);
}

/* Between registers and shared memory, contiguous along. */
static void move_shared(tile *t, sn_cursor at, sn_ix x, const struct staged *st) {
    square q = open_square(t, &at, x, false);
    sn_ix e = sn_ix_add(t->m, shared_vector(t, st->buf, sn_ix_fma(t->m, t->v, q.a, q.w), q.a, q.b), q.v);
    if (st->op == SN_LOP_STORE) sn_put_store(t->m, at, st->reg, q.rows, sn_put_load(t->m, at, st->shared, e));
    else sn_put_store(t->m, at, st->shared, e, sn_put_load(t->m, at, st->reg, q.columns));
}

/* One loop over the threads for all staged loads, or all staged stores: what has to wait for memory is begun first. */
static void put_transpose(tile *t, sn_lop op, bool masked) {
    sn_cursor at = sn_at_end(t->k, t->into);
    sn_ix x = sn_open_loop(t->m, &at, "x", t->threads, SN_AXIS_BLOCK_X);
    for (uint32_t phase = 0; phase < 2; phase++)
        for (uint32_t k = 0; k < t->n_staged; k++) {
            if (t->staged[k].op != op) continue;
            if ((op == SN_LOP_LOAD) == (phase == 0)) move_global(t, at, x, &t->staged[k], masked);
            else move_shared(t, at, x, &t->staged[k]);
        }
}

/* ---- the body ---- */

static void redirect(tile *t, const struct staged *st, sn_stmt access, sn_ix e) {
    sn_cursor at = sn_at_before(t->m, access);
    const sn_stmt_rec *r = sn_stmt_get(t->m, access);
    if (st->op == SN_LOP_STORE) sn_put_store(t->m, at, st->shared, e, r->in[0]);
    else sn_val_replace(t->m, t->k, r->result, sn_put_load(t->m, at, st->shared, e));
    sn_stmt_unlink(t->m, access);
}

static void put_body(tile *t, const sn_stmt_vec *body, bool masked) {
    sn_module *m = t->m;
    int64_t per_row = t->along / t->lanes, lanes = t->lanes;
    sn_cursor at = sn_at_end(t->k, t->into);
    sn_ix x = sn_open_loop(t->m, &at, "x", t->threads, SN_AXIS_BLOCK_X);
    sn_stmt threads = at.parent;
    int64_t turns = t->unroll * t->v * t->v / lanes;
    sn_ix u = sn_open_loop(t->m, &at, "u", turns, SN_AXIS_UNROLL), number = sn_ix_fma(t->m, t->threads, u, x);
    sn_ix b = sn_ix_modc(m, number, per_row), row = sn_ix_divc(m, number, per_row), first = sn_ix_scale(m, b, lanes);
    sn_val mask = {0};
    if (masked) mask = put_mask(t, at, row, first);
    sn_ix v = sn_open_loop(t->m, &at, "v", lanes, SN_AXIS_VECTOR);
    sn_ix with[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < t->sh->outer.n; k++)
        with[k] = element(t, sn_ix_axis(m, t->axes[k]), row, sn_ix_add(m, first, v));
    for (uint32_t k = 0; k < body->n; k++) {
        sn_stmt_subst(m, body->at[k], t->axes, with, t->sh->outer.n);
        sn_stmt_insert(m, at, body->at[k]);
    }
    for (uint32_t k = 0; k < t->n_staged; k++) {
        const struct staged *st = &t->staged[k];
        sn_ix place = shared_vector(t, st->buf, row, sn_ix_divc(m, row, t->v), sn_ix_divc(m, first, t->v));
        sn_ix e = sn_ix_add(m, place, sn_ix_add(m, sn_ix_modc(m, first, t->v), v));
        redirect(t, st, body->at[st->position], e);
    }
    if (masked) sn_mask_accesses(t->cx, t->k, threads, mask, true);
}

/* ---- tiles inside and at the edges ---- */

/* Where the loops for one kind of tiles go; false when there are no such tiles. */
static bool choose_tiles(tile *t, bool masked) {
    if (!(masked ? t->masked : t->inside)) return false;
    t->into = t->grid;
    if (!t->inside || !t->masked) return true;
    sn_ix edge = masked ? sn_ix_addc(t->m, t->edge, -1) : t->edge, kinds = sn_ix_const(t->m, masked ? 2 : 1);
    t->into = sn_put_if(t->m, sn_at_end(t->k, t->grid), edge, kinds);
    return true;
}

static void put_transposes(tile *t, sn_lop op) {
    bool any = false;
    for (uint32_t k = 0; k < t->n_staged; k++) any |= t->staged[k].op == op;
    if (any && choose_tiles(t, false)) put_transpose(t, op, false);
    if (any && choose_tiles(t, true)) put_transpose(t, op, true);
}

/* Loads from anywhere; what they bring from behind their vectors may be missing at the end of the last line, in two tiles. */
static void put_ragged_loads(tile *t) {
    enum { LAST = 2 };
    sn_module *m = t->m;
    sn_stmt grid = t->grid;
    sn_ix others = sn_ix_const(m, t->n_tiles > LAST ? t->n_tiles - LAST : 0);
    if (t->n_tiles > LAST) {
        t->grid = sn_put_if(m, sn_at_end(t->k, grid), t->number, others);
        put_transposes(t, SN_LOP_LOAD);
    }
    t->into = sn_put_if(m, sn_at_end(t->k, grid), sn_ix_sub(m, t->number, others), sn_ix_const(m, LAST));
    t->one_by_one = true;
    put_transpose(t, SN_LOP_LOAD, t->masked);
    t->one_by_one = false;
    t->grid = grid;
}

static void put_bodies(tile *t, const sn_stmt_vec *body) {
    sn_stmt_vec copy = *body;
    if (t->inside && t->masked) copy = sn_schedule_copy_body(t->cx, t->k, body);
    if (choose_tiles(t, false)) put_body(t, body, false);
    if (choose_tiles(t, true)) put_body(t, &copy, true);
}

/* ---- binding ---- */

static sn_buf new_local(tile *t, sn_buf like, const char *suffix, uint32_t number, sn_buf_scope scope, int64_t private,
                        int64_t copies) {
    const char *name = sn_strf(&t->m->arena, "%s_%s%u", sn_kern_get(t->m, t->k)->name, suffix, number);
    return sn_local_new(t->m, name, sn_buf_get(t->m, like)->dtype, scope, private, copies);
}

static void note_staged(tile *t, const sn_stmt_vec *body) {
    for (uint32_t k = 0; k < t->tile.n_staged; k++) {
        const sn_stmt_rec *r = sn_stmt_get(t->m, t->tile.staged[k]);
        struct staged st = {.op = r->op, .ix = r->ix, .buf = r->buf};
        while (body->at[st.position].i != t->tile.staged[k].i) st.position++;
        st.shared = new_local(t, st.buf, "t", k, SN_BUF_SHARED, t->across * pitch(t, st.buf), 1);
        st.reg = new_local(t, st.buf, "r", k, SN_BUF_REG, t->unroll * t->v * t->v, t->threads);
        t->staged[t->n_staged++] = st;
    }
}

/* Tile number i of an extent reaches its end when i div (number of whole tiles) is 1. */
static void find_edges(tile *t, sn_ix across, sn_ix along) {
    int64_t whole_across = t->n_across / t->across, whole_along = t->n_along / t->along;
    t->edge = sn_ix_const(t->m, 0);
    t->inside = whole_across && whole_along;
    t->masked = t->n_across % t->across || t->n_along % t->along;
    if (!t->inside) return;
    if (t->n_across % t->across) t->edge = sn_ix_divc(t->m, across, whole_across);
    if (t->n_along % t->along) t->edge = sn_ix_add(t->m, t->edge, sn_ix_divc(t->m, along, whole_along));
}

/* The grid counts iterations of the other loops, tiles across, tiles along. */
static void open_grid(tile *t) {
    sn_module *m = t->m;
    const sn_schedule_tile *p = &t->tile;
    uint32_t n = t->sh->outer.n, others = 0;
    sn_ix shape[SN_MAX_CHAIN], parts[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < n; k++)
        if (k != p->along && k != p->across) shape[others++] = sn_stmt_extent(m, t->sh->outer.at[k]);
    shape[n - 2] = sn_ix_const(m, (t->n_across + t->across - 1) / t->across);
    shape[n - 1] = sn_ix_const(m, (t->n_along + t->along - 1) / t->along);
    sn_cursor at = sn_at_end(t->k, (sn_stmt){0});
    sn_ix g = sn_open_loop(t->m, &at, "g", sn_ix_value(m, sn_ix_product(m, shape, n)), SN_AXIS_GRID);
    t->grid = at.parent;
    sn_ix_unflatten(m, g, shape, n, parts);
    find_edges(t, parts[n - 2], parts[n - 1]);
    int64_t along = sn_ix_value(m, shape[n - 1]), across = sn_ix_value(m, shape[n - 2]);
    t->number = sn_ix_fma(m, along, sn_ix_divc(m, g, along * across), parts[n - 1]);
    t->number = sn_ix_fma(m, across, t->number, parts[n - 2]);
    t->n_tiles = sn_ix_value(m, sn_ix_product(m, shape, n));
    others = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (k == p->across) t->origin[k] = sn_ix_scale(m, parts[n - 2], t->across);
        else if (k == p->along) t->origin[k] = sn_ix_scale(m, parts[n - 1], t->along);
        else t->origin[k] = parts[others++];
    }
}

void sn_schedule_tile_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    tile t = {.cx = cx, .m = m, .k = k, .sh = sh, .threads = sc->block_x, .unroll = sc->unroll, .v = sc->vector};
    sn_schedule_find_tile(&t.tile, cx, k, sh);
    t.runs = sc->runs;
    t.lanes = t.tile.lanes < t.v ? t.tile.lanes : t.v;
    t.across = sc->block_y;
    t.along = t.threads * t.unroll * t.v * t.v / t.across;
    t.n_across = sn_ix_value(m, sn_stmt_extent(m, sh->outer.at[t.tile.across]));
    t.n_along = sn_ix_value(m, sn_stmt_extent(m, sh->outer.at[t.tile.along]));
    for (uint32_t i = 0; i < sh->outer.n; i++) t.axes[i] = sn_stmt_axis(m, sh->outer.at[i]);
    sn_stmt_vec body = {0};
    sn_schedule_take_body(&body, cx, k, sh);
    note_staged(&t, &body);
    open_grid(&t);
    if (t.runs) put_ragged_loads(&t);
    else put_transposes(&t, SN_LOP_LOAD);
    put_bodies(&t, &body);
    put_transposes(&t, SN_LOP_STORE);
}
