/* tile_host.c: class element by tiles, on the CPU: which kernels, and their binding.
 *
 *     loop i in 3005 { loop j in 3001 { load x[3005*j + i]  store y[3001*i + j] } }
 *  -> loop g : grid {                                     tiles of 16 x 32
 *       if the tile lies inside { loop r in 16 { loop u in 2 { loop v in 16 : vector { the body at row r, column 16*u + v } } } }
 *       if not                  { the same, with tests }
 *     }
 *
 * Some accesses are contiguous along one loop, the others along another one (tile.c finds them). Lanes go along the direct ones; what
 * lies across is loaded one by one, from lines that the next rows of the tile find in the nearest cache: as many rows as a line has
 * elements. Nothing passes through other memory. Rows that no vector divides have tests at their last tile alone.
 *
 * Fields: block_y rows of a tile, which is 1 in all other kernels of class element; unroll vectors of `vector` elements in each.
 */
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/host_bind.h"
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/moves/tile.h"

enum { VECTORS = 2 };

static int64_t extent_at(const sn_module *m, const sn_schedule_shape *sh, uint32_t position) {
    return sn_ix_value(m, sn_stmt_extent(m, sh->outer.at[position]));
}

bool sn_schedule_tile_host_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    if (!sn_schedule_tile_applies(why_not, cx, k, sh)) return false;
    *why_not = "it is for the CPU";
    return !cx->target->is_gpu;
}

sn_status sn_schedule_tile_host_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                           const sn_sched *pinned) {
    sn_schedule_tile t;
    sn_sched sc = *pinned;
    sn_schedule_find_tile(&t, cx, k, sh);
    if (!t.n_staged || pinned->block_x > 1 || (pinned->cls != SN_SCHED_NONE && pinned->block_y < 2)) return SN_OK;
    int64_t along = extent_at(cx->m, sh, t.along), across = extent_at(cx->m, sh, t.across),
            row = SN_HOST_LINE / t.widest;
    uint32_t vector = sn_widest(cx, t.widest);
    if (pinned->cls == SN_SCHED_NONE && (along < vector || across < SN_TILE_SMALL_AXIS)) return SN_OK;
    while (vector > along) vector /= 2;
    sc.cls = SN_SCHED_ELEMENT;
    sc.block_x = 1;
    if (!sc.block_y) sc.block_y = (uint32_t)(across < row ? across : row);
    if (!sc.vector) sc.vector = vector;
    if (!sc.unroll) sc.unroll = along > sc.vector ? VECTORS : 1;
    sn_schedule_propose(out, cx, &sc);
    return SN_OK;
}

/* ---- binding ---- */

typedef struct binder {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    const sn_schedule_shape *sh;
    sn_schedule_tile t;
    int64_t rows, columns;         /* of a tile */
    int64_t lanes;                 /* of a vector */
    int64_t all_rows, all_columns; /* extents of the loops */
    sn_axis axes[SN_MAX_CHAIN];    /* outer axes ... */
    sn_ix first[SN_MAX_CHAIN];     /* ... and what they are at the first element of the tile */
    sn_ix edge;                    /* number of extents that the tile reaches over */
} binder;

static sn_val put_test(binder *b, sn_cursor at, sn_val mask, sn_ix e, int64_t extent, int64_t side) {
    if (extent % side == 0) return mask;
    sn_val test = sn_put_in(b->m, at, e, sn_ix_const(b->m, extent));
    return mask.i ? sn_put_op2(b->m, at, SN_LOP_AND, mask, test) : test;
}

/* The body at all elements of the tile. */
static void put_tile(binder *b, sn_cursor at, const sn_stmt_vec *body, bool masked) {
    sn_module *m = b->m;
    sn_ix with[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < b->sh->outer.n; k++) with[k] = b->first[k];
    sn_ix row = sn_ix_add(m, with[b->t.across], sn_open_loop(m, &at, "r", b->rows, SN_AXIS_SEQ));
    if (masked && b->all_rows % b->rows) at = sn_at_end(b->k, sn_put_if(m, at, row, sn_ix_const(m, b->all_rows)));
    sn_ix u = sn_open_loop(m, &at, "u", b->columns / b->lanes, SN_AXIS_SEQ);
    sn_ix v = sn_open_loop(m, &at, "v", b->lanes, SN_AXIS_VECTOR);
    sn_ix column = sn_ix_add(m, with[b->t.along], sn_ix_fma(m, b->lanes, u, v));
    sn_val mask = masked ? put_test(b, at, (sn_val){0}, column, b->all_columns, b->columns) : (sn_val){0};
    with[b->t.across] = row, with[b->t.along] = column;
    for (uint32_t k = 0; k < body->n; k++) {
        sn_stmt_subst(m, body->at[k], b->axes, with, b->sh->outer.n);
        sn_stmt_insert(m, at, body->at[k]);
    }
    if (mask.i) sn_mask_accesses(b->cx, b->k, at.parent, mask, true);
}

/* The grid counts iterations of the other loops, tiles across, tiles along. */
static sn_cursor open_grid(binder *b) {
    sn_module *m = b->m;
    uint32_t n = b->sh->outer.n, others = 0;
    sn_ix shape[SN_MAX_CHAIN], parts[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < n; k++)
        if (k != b->t.along && k != b->t.across) shape[others++] = sn_stmt_extent(m, b->sh->outer.at[k]);
    shape[n - 2] = sn_ix_const(m, sn_ceil_div(b->all_rows, b->rows));
    shape[n - 1] = sn_ix_const(m, sn_ceil_div(b->all_columns, b->columns));
    sn_cursor at = sn_at_end(b->k, (sn_stmt){0});
    sn_ix g = sn_open_loop(m, &at, "g", sn_ix_value(m, sn_ix_product(m, shape, n)), SN_AXIS_GRID);
    sn_ix_unflatten(m, g, shape, n, parts);
    b->edge = sn_ix_const(m, 0);
    int64_t whole_rows = b->all_rows / b->rows, whole_columns = b->all_columns / b->columns;
    if (b->all_rows % b->rows && whole_rows) b->edge = sn_ix_divc(m, parts[n - 2], whole_rows);
    if (b->all_columns % b->columns && whole_columns)
        b->edge = sn_ix_add(m, b->edge, sn_ix_divc(m, parts[n - 1], whole_columns));
    others = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (k == b->t.across) b->first[k] = sn_ix_scale(m, parts[n - 2], b->rows);
        else if (k == b->t.along) b->first[k] = sn_ix_scale(m, parts[n - 1], b->columns);
        else b->first[k] = parts[others++];
    }
    return at;
}

void sn_schedule_tile_host_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    binder b = {.cx = cx, .m = m, .k = k, .sh = sh, .rows = sc->block_y, .lanes = sc->vector};
    b.columns = b.lanes * sc->unroll;
    sn_schedule_find_tile(&b.t, cx, k, sh);
    b.all_rows = extent_at(m, sh, b.t.across), b.all_columns = extent_at(m, sh, b.t.along);
    for (uint32_t i = 0; i < sh->outer.n; i++) b.axes[i] = sn_stmt_axis(m, sh->outer.at[i]);
    sn_stmt_vec body = {0};
    sn_schedule_take_body(&body, cx, k, sh);
    sn_cursor at = open_grid(&b);
    bool inside = b.all_rows >= b.rows && b.all_columns >= b.columns;
    bool over = b.all_rows % b.rows || b.all_columns % b.columns;
    sn_ix one = sn_ix_const(m, 1), two = sn_ix_const(m, 2);
    sn_stmt_vec copy = inside && over ? sn_schedule_copy_body(cx, k, &body) : body;
    if (inside && !over) put_tile(&b, at, &body, false);
    if (inside && over) put_tile(&b, sn_at_end(k, sn_put_if(m, at, b.edge, one)), &body, false);
    if (inside && over) at = sn_at_end(k, sn_put_if(m, at, sn_ix_addc(m, b.edge, -1), two));
    if (over) put_tile(&b, at, &copy, true);
}
