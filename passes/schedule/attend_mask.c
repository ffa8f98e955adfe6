/* attend_mask.c: which keys a row of attention sees, where tests say it that are linear in row and key; see attend.h.
 *
 *     %c = in i - j, 4096   %x = select %c, %y, -inf        keeps j <= i
 *     %p = index.i64 i   %q = index.i64 j   %c = ge %p, %q   the same
 *
 * A mask is an e that is not negative where the score counts. For a block of rows, each says from which key on, or
 * up to which key, there is something to see: then tiles outside of that need not be looked at, and tiles that lie
 * inside for all masks need no test. A score that is -inf has the weight 0 whatever the others are, so that nothing
 * changes; a row that sees nothing at all still has a tile, whose scores are all -inf.
 */
#include "passes/schedule/attend.h"

#include <math.h>

static const sn_stmt_rec *def_of(const sn_attend *a, sn_val v) { return sn_stmt_get(a->m, sn_val_get(a->m, v)->def); }

static bool is_infinite(const sn_attend *a, sn_val v) {
    const sn_stmt_rec *r = def_of(a, v);
    return r->op == SN_LOP_CONST && sn_is_float(r->dtype) && r->f < 0 && isinf(r->f);
}

static bool is_zero(const sn_attend *a, sn_val v) {
    const sn_stmt_rec *r = def_of(a, v);
    return r->op == SN_LOP_CONST && sn_is_float(r->dtype) && r->f == 0;
}

/* ---- tests ---- */

static sn_axis axis_of_rows(const sn_attend *a) {
    for (uint32_t i = 0; i < a->c.outer.n; i++)
        if (a->c.side[i] == SN_SIDE_M) return sn_stmt_axis(a->m, a->c.outer.at[i]);
    return (sn_axis){0};
}

/* Has the dtype all numbers that e can be? */
static bool holds(const sn_attend *a, sn_dtype dtype, sn_ix e) {
    sn_range r = sn_ix_range(a->m, e);
    return dtype == SN_I64 || (dtype == SN_I32 && r.lo >= INT32_MIN && r.hi <= INT32_MAX);
}

/* A value of i32 or i64 as an index expression; none: it is no such thing. */
static sn_ix number_of(const sn_attend *a, sn_val v) {
    const sn_stmt_rec *r = def_of(a, v);
    sn_module *m = a->m;
    sn_ix e = {0}, x, y;
    if (r->op == SN_LOP_INDEX && !sn_ix_uses_vals(m, r->ix)) e = r->ix;
    if (r->op == SN_LOP_CONST && sn_is_integral(r->dtype)) e = sn_ix_const(m, r->i);
    if (r->op == SN_LOP_CAST && sn_is_integral(sn_val_get(m, r->in[0])->dtype)) e = number_of(a, r->in[0]);
    if ((r->op == SN_LOP_ADD || r->op == SN_LOP_SUB) && (x = number_of(a, r->in[0])).i &&
        (y = number_of(a, r->in[1])).i)
        e = r->op == SN_LOP_ADD ? sn_ix_add(m, x, y) : sn_ix_sub(m, x, y);
    return e.i && holds(a, r->dtype, e) ? e : (sn_ix){0};
}

/* Is the mask one that tiles can be left out by? */
static bool is_linear(sn_attend *a, sn_ix e) {
    int64_t row, key;
    sn_axis rows = axis_of_rows(a), keys = sn_stmt_axis(a->m, a->c.top);
    return !sn_ix_uses_vals(a->m, e) && sn_ix_coef(a->m, e, rows, &row) && sn_ix_coef(a->m, e, keys, &key) &&
           (key == 1 || key == -1);
}

/* The test as one or two masks, or some of each; false: it is no such test, or there is no room. */
static bool add_masks(sn_attend *a, sn_val test) {
    const sn_stmt_rec *r = def_of(a, test);
    sn_module *m = a->m;
    sn_ix e[2] = {{0}, {0}};
    if (r->op == SN_LOP_IN) {
        e[0] = r->ix;
        e[1] = sn_ix_addc(m, sn_ix_sub(m, r->bound, r->ix), -1);
        if (sn_ix_range(m, e[0]).lo >= 0) e[0] = (sn_ix){0};
        if (sn_ix_range(m, e[1]).lo >= 0) e[1] = (sn_ix){0};
    } else if (r->op == SN_LOP_LT || r->op == SN_LOP_LE || r->op == SN_LOP_GT || r->op == SN_LOP_GE) {
        sn_ix x = number_of(a, r->in[0]), y = number_of(a, r->in[1]);
        if (!x.i || !y.i) return false;
        bool less = r->op == SN_LOP_LT || r->op == SN_LOP_LE, strict = r->op == SN_LOP_LT || r->op == SN_LOP_GT;
        e[0] = sn_ix_addc(m, less ? sn_ix_sub(m, y, x) : sn_ix_sub(m, x, y), strict ? -1 : 0);
    } else {
        return false;
    }
    uint32_t n = a->n_masks;
    for (int i = 0; i < 2; i++) {
        if (!e[i].i) continue;
        if (!is_linear(a, e[i]) || n == SN_MOST_MASKS) return false;
        a->masks[n++].e = e[i];
    }
    a->n_masks = n;
    return true;
}

/* All tests that hold together where this one does. */
static bool add_all(sn_attend *a, sn_val test) {
    const sn_stmt_rec *r = def_of(a, test);
    uint32_t before = a->n_masks;
    if (r->op != SN_LOP_AND) return add_masks(a, test);
    if (add_all(a, r->in[0]) && add_all(a, r->in[1])) return true;
    a->n_masks = before;
    return false;
}

/* ---- the score ---- */

/* x is y where the test holds, else -inf: either chosen, or by adding 0 or -inf. */
static bool is_masked(const sn_attend *a, sn_val x, sn_val *y, sn_val *test) {
    const sn_stmt_rec *r = def_of(a, x);
    if (r->op == SN_LOP_SELECT && is_infinite(a, r->in[2])) return *test = r->in[0], *y = r->in[1], true;
    for (uint32_t i = 0; i < 2 && r->op == SN_LOP_ADD; i++) {
        const sn_stmt_rec *added = def_of(a, r->in[i]);
        if (added->op != SN_LOP_SELECT || !is_zero(a, added->in[1]) || !is_infinite(a, added->in[2])) continue;
        return *test = added->in[0], *y = r->in[1 - i], true;
    }
    return false;
}

void sn_attend_find_masks(sn_attend *a) {
    sn_val y, test;
    a->factor = 1;
    while (is_masked(a, a->score, &y, &test) && add_all(a, test)) a->score = y;
    const sn_stmt_rec *r = def_of(a, a->score);
    for (uint32_t i = 0; i < 2 && r->op == SN_LOP_MUL && r->dtype == SN_F32; i++) {
        const sn_stmt_rec *by = def_of(a, r->in[i]);
        if (by->op != SN_LOP_CONST || !(by->f > 0) || isinf(by->f)) continue;
        a->factor = by->f;
        a->score = r->in[1 - i];
        return;
    }
}

/* ---- places ---- */

static sn_ix at_place(sn_attend *a, sn_ix e, sn_ix batch, sn_ix row, sn_ix key) {
    sn_contraction_place place = {batch, row, sn_ix_const(a->m, 0), key};
    sn_axis axes[2 * SN_MAX_CHAIN];
    sn_ix with[2 * SN_MAX_CHAIN];
    uint32_t n = sn_contraction_axes(axes, with, a->m, &a->c, &place);
    return sn_ix_subst(a->m, e, axes, with, n);
}

sn_ix sn_attend_mask_at(sn_attend *a, uint32_t i, sn_ix batch, sn_ix row, sn_ix key) {
    return at_place(a, a->masks[i].e, batch, row, key);
}

static void steps_of(sn_attend *a, uint32_t i, int64_t *row, int64_t *key) {
    sn_ix_coef(a->m, a->masks[i].e, axis_of_rows(a), row);
    sn_ix_coef(a->m, a->masks[i].e, sn_stmt_axis(a->m, a->c.top), key);
}

sn_ix sn_attend_mask_least(sn_attend *a, uint32_t i, const sn_sched *sc, sn_ix batch, sn_ix row, sn_ix key) {
    int64_t by_row, by_key;
    steps_of(a, i, &by_row, &by_key);
    sn_ix e = sn_attend_mask_at(a, i, batch, row, key);
    return sn_ix_addc(a->m, e,
                      (by_row < 0 ? by_row * (sc->tile_m - 1) : 0) + (by_key < 0 ? by_key * (sc->tile_n - 1) : 0));
}

/* The largest value over the rows of a tile, at key 0. */
static sn_ix most_at_first_key(sn_attend *a, uint32_t i, const sn_sched *sc, sn_ix batch, sn_ix row) {
    int64_t by_row, by_key;
    steps_of(a, i, &by_row, &by_key);
    sn_ix e = sn_attend_mask_at(a, i, batch, row, sn_ix_const(a->m, 0));
    return sn_ix_addc(a->m, e, by_row > 0 ? by_row * (sc->tile_m - 1) : 0);
}

void sn_attend_tiles(sn_ix *first, sn_ix *number, sn_attend *a, const sn_sched *sc, sn_ix batch, sn_ix row) {
    sn_module *m = a->m;
    int64_t all = (a->c.k + sc->tile_n - 1) / sc->tile_n, by_row, by_key;
    sn_ix from = sn_ix_const(m, 0), end = sn_ix_const(m, all);
    for (uint32_t i = 0; i < a->n_masks; i++) {
        sn_ix most = most_at_first_key(a, i, sc, batch, row);
        steps_of(a, i, &by_row, &by_key);
        /* e = most + key: seen from key -most on; e = most - key: up to key `most`. */
        if (by_key > 0) from = sn_ix_max(m, from, sn_ix_divc(m, sn_ix_scale(m, most, -1), sc->tile_n));
        else end = sn_ix_min(m, end, sn_ix_addc(m, sn_ix_divc(m, most, sc->tile_n), 1));
    }
    *first = sn_ix_min(m, from, sn_ix_const(m, all - 1));
    *number = sn_ix_max(m, sn_ix_sub(m, end, *first), sn_ix_const(m, 1));
    /* Where nothing is seen, what is looked at has to exist. */
    sn_ix left = sn_ix_sub(m, sn_ix_const(m, all), *first);
    *number = sn_ix_min(m, *number, left);
}
