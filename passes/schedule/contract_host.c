/* contract_host.c: class contract on the CPU: a matrix product by tiles of its result.
 *
 *     loop i in 1000 { loop j in 1000 { %s = reduce sum r in 1000 { .. a(i, r) * b(j, r) }   .. store y[1000*i + j] } }
 *  -> loop g in 64 : grid {                                    tiles, which threads share
 *       loop i in 125 { loop j in 125 { the body at row 125*(g div 8) + i, column 125*(g mod 8) + j } }
 *     }
 *
 * Stands on contraction.c, which says what the axes are. Several axes of one side count as one, row-major.
 */
#include "passes/schedule/contraction.h"
#include "passes/schedule/schedules.h"

bool sn_schedule_contract_host_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_contraction c;
    (void)sh;
    *why_not = "it is for the CPU";
    return !cx->target->is_gpu && sn_contraction_find(&c, why_not, cx, k);
}

sn_status sn_schedule_contract_host_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k,
                                               const sn_schedule_shape *sh, const sn_sched *pinned) {
    (void)sh;
    sn_contraction c;
    const char *why_not;
    sn_sched sc = *pinned;
    if (sc.cls == SN_SCHED_NONE || !sn_contraction_find(&c, &why_not, cx, k)) return SN_OK;
    if (!sc.tile_m || sc.tile_m > c.m) sc.tile_m = (uint32_t)(c.m < SN_LINE ? c.m : SN_LINE);
    if (!sc.tile_n || sc.tile_n > c.n) sc.tile_n = (uint32_t)(c.n < SN_LINE ? c.n : SN_LINE);
    sn_schedule_propose(out, cx, &sc);
    return SN_OK;
}

/* ---- binding ---- */

typedef struct tiles {
    sn_module *m;
    sn_kern k;
    const sn_contraction *c;
    sn_ix side[3]; /* by sn_contraction_side: number of the row, column or product */
} tiles;

static sn_ix open_loop(tiles *t, sn_cursor *at, const char *name, int64_t extent, sn_axis_kind kind) {
    sn_axis ax = sn_axis_new(t->m, name, sn_ix_const(t->m, extent));
    *at = sn_at_end(t->k, sn_put_loop(t->m, *at, ax, kind));
    return sn_ix_axis(t->m, ax);
}

/* The rows or columns of a tile: those of its last one may end before it does. */
static sn_ix open_side(tiles *t, sn_cursor *at, const char *name, sn_ix number, int64_t tile, int64_t n) {
    sn_ix e = sn_ix_add(t->m, sn_ix_scale(t->m, number, tile), open_loop(t, at, name, tile, SN_AXIS_SEQ));
    if (n % tile) *at = sn_at_end(t->k, sn_put_if(t->m, *at, e, sn_ix_const(t->m, n)));
    return e;
}

/* What each outer axis is at that row, column and product. */
static void find_axes(const tiles *t, sn_axis *axes, sn_ix *with) {
    const sn_contraction *c = t->c;
    for (uint32_t side = 0; side < 3; side++) {
        sn_ix shape[SN_MAX_CHAIN], parts[SN_MAX_CHAIN];
        uint32_t n = 0, part = 0;
        for (uint32_t i = 0; i < c->outer.n; i++)
            if (c->side[i] == side) shape[n++] = sn_ix_const(t->m, c->extent[i]);
        if (n) sn_ix_unflatten(t->m, t->side[side], shape, n, parts);
        for (uint32_t i = 0; i < c->outer.n; i++)
            if (c->side[i] == side) with[i] = parts[part++];
    }
    for (uint32_t i = 0; i < c->outer.n; i++) axes[i] = sn_stmt_axis(t->m, c->outer.at[i]);
}

void sn_schedule_contract_host_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    sn_contraction c;
    const char *why_not;
    sn_contraction_find(&c, &why_not, cx, k);
    tiles t = {.m = m, .k = k, .c = &c};
    int64_t across = (c.m + sc->tile_m - 1) / sc->tile_m, along = (c.n + sc->tile_n - 1) / sc->tile_n;
    sn_stmt_vec body = {0};
    sn_schedule_take_body(&body, cx, k, sh);
    sn_cursor at = sn_at_end(k, (sn_stmt){0});
    sn_ix g = open_loop(&t, &at, "g", c.batch * across * along, SN_AXIS_GRID), tile = sn_ix_divc(m, g, along);
    t.side[SN_SIDE_BATCH] = sn_ix_divc(m, tile, across);
    t.side[SN_SIDE_M] = open_side(&t, &at, "i", sn_ix_modc(m, tile, across), sc->tile_m, c.m);
    t.side[SN_SIDE_N] = open_side(&t, &at, "j", sn_ix_modc(m, g, along), sc->tile_n, c.n);
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix with[SN_MAX_CHAIN];
    find_axes(&t, axes, with);
    for (uint32_t i = 0; i < body.n; i++) {
        sn_stmt_subst(m, body.at[i], axes, with, c.outer.n);
        sn_stmt_insert(m, at, body.at[i]);
    }
}
