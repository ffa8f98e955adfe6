/* moments.c: see moments.h.
 *
 *     %s = reduce sum r in N { .. yield %x }   %c = f(%s)
 *     %q = reduce sum r in N { .. %d = sub %x, %c   %e = mul %d, %d   yield %e }
 *
 * Such a pair need not read a row twice: of parts p of n_p elements, with their sums s_p and the squares about their own
 * means q_p, sum (x - c)^2 = sum over p of q_p + n_p (s_p/n_p - c)^2, whatever c is. All terms are positive, so that
 * nothing cancels: a mean that is large against the deviations costs no digits (Chan, Golub and LeVeque 1979).
 *
 * A row is cut if it does not stay on the chip between the loops, or if there are too few to fill the device. A part
 * is so long that several blocks with one each fit on a multiprocessor, in registers; where threads own columns, that the
 * nearest cache still has it. Cost: linear in the kernel, and an entry for each value of the module.
 */
#include "passes/schedule/base/moments.h"

#include "passes/base/twins.h"
#include "passes/schedule/base/constants.h"
#include "passes/schedule/base/teams.h"

/* ---- is it one? ---- */

static bool is_sum(const sn_module *m, const sn_chain *nest) {
    const sn_stmt_rec *r = sn_stmt_get(m, nest->at[0]);
    for (uint32_t c = 0; c < r->n_combs; c++)
        if (r->combs[c] != SN_COMB_SUM || !sn_is_float(sn_val_get(m, sn_result(r, c))->dtype)) return false;
    return r->kind == SN_AXIS_SEQ && !sn_stmt_stores(m, nest->at[0], (sn_buf){0});
}

/* The two nests, if they are the only ones and add up floats. */
static bool find_nests(sn_moments *mo, const sn_module *m, sn_kern k) {
    uint32_t n = 0;
    sn_chain *nests[] = {&mo->sum, &mo->squares};
    sn_chain_outer(&mo->outer, m, k);
    sn_stmt body = mo->outer.n ? mo->outer.at[mo->outer.n - 1] : (sn_stmt){0};
    for (sn_stmt s = sn_region_first(m, k, body); s.i; s = sn_next(m, s)) {
        if (!sn_lop_has_region(sn_stmt_get(m, s)->op)) continue;
        if (n == SN_COUNT(nests) || sn_stmt_get(m, s)->op != SN_LOP_REDUCE) return false;
        if (!sn_nest_perfect(nests[n], m, s) || !is_sum(m, nests[n])) return false;
        n++;
    }
    return n == SN_COUNT(nests);
}

static sn_stmt yield_of(const sn_module *m, const sn_chain *c) { return sn_stmt_get(m, c->at[c->n - 1])->last; }

/* Is v the same in all iterations of the nest? In front of `licm` it may be computed there. */
static bool is_fixed(const sn_module *m, const sn_chain *nest, sn_val v, uint32_t *looks) {
    sn_stmt def = sn_val_get(m, v)->def;
    const sn_stmt_rec *r = sn_stmt_get(m, def);
    if (!sn_stmt_inside(m, def, nest->at[0])) return true;
    if (!*looks || sn_lop_has_region(r->op) || sn_lops[r->op].ordered) return false;
    --*looks;
    for (uint32_t k = 0; k < nest->n && r->ix.i; k++)
        if (sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, nest->at[k]))) return false;
    if ((r->ix.i && sn_ix_uses_vals(m, r->ix)) || r->bound.i) return false;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (!is_fixed(m, nest, r->in[i], looks)) return false;
    return true;
}

/* x - c, where `squares` adds up (x - c)^2 alone and c is the same for the whole row; none otherwise. */
static sn_stmt find_distance(const sn_moments *mo, const sn_module *m) {
    const sn_stmt_rec *yield = sn_stmt_get(m, yield_of(m, &mo->squares));
    if (yield->n_in != 1) return (sn_stmt){0};
    const sn_stmt_rec *mul = sn_stmt_get(m, sn_val_get(m, yield->in[0])->def);
    if (mul->op != SN_LOP_MUL || mul->in[0].i != mul->in[1].i) return (sn_stmt){0};
    sn_stmt sub = sn_val_get(m, mul->in[0])->def;
    const sn_stmt_rec *r = sn_stmt_get(m, sub);
    if (r->op != SN_LOP_SUB || !sn_stmt_inside(m, sub, mo->squares.at[0])) return (sn_stmt){0};
    uint32_t looks = 64;
    return is_fixed(m, &mo->squares, r->in[1], &looks) ? sub : (sn_stmt){0};
}

static bool is_by_columns(const sn_moments *mo, sn_module *m) {
    uint32_t least;
    if (!mo->outer.n) return false;
    int64_t along = sn_nest_bytes_along(m, mo->sum.at[0], sn_stmt_axis(m, mo->sum.at[mo->sum.n - 1]), &least);
    return sn_nest_bytes_along(m, mo->sum.at[0], sn_stmt_axis(m, mo->outer.at[mo->outer.n - 1]), &least) > along;
}

/* Are the two nests found a sum and the squares of the same elements about something? */
static bool is_pair(sn_moments *mo, sn_pass_ctx *cx, sn_kern k) {
    sn_module *m = cx->m;
    mo->distance = find_distance(mo, m);
    sn_twins twins = {m, k, &mo->sum, &mo->squares, {0}};
    if (!mo->distance.i || !sn_twins_extents(&twins)) return false;
    twins.twin.arena = cx->scratch;
    const sn_stmt_rec *yield = sn_stmt_get(m, yield_of(m, &mo->sum));
    while (mo->state < yield->n_in &&
           !sn_twins_alike(&twins, yield->in[mo->state], sn_stmt_get(m, mo->distance)->in[0]))
        mo->state++;
    return mo->state < yield->n_in;
}

bool sn_moments_find(sn_moments *mo, sn_pass_ctx *cx, sn_kern k) {
    *mo = (sn_moments){0};
    if (!find_nests(mo, cx->m, k) || !is_pair(mo, cx, k)) return false;
    mo->columns = is_by_columns(mo, cx->m);
    return true;
}

sn_val sn_moments_about(sn_pass_ctx *cx, sn_kern k, sn_stmt sum, sn_stmt squares) {
    sn_module *m = cx->m;
    sn_moments mo = {0};
    sn_stmt nests[] = {sum, squares};
    sn_chain *chains[] = {&mo.sum, &mo.squares};
    for (uint32_t i = 0; i < SN_COUNT(nests); i++) {
        const sn_stmt_rec *r = sn_stmt_get(m, nests[i]);
        bool one = r->op == SN_LOP_REDUCE && r->n_combs == 1 && r->combs[0] == SN_COMB_SUM;
        if (!one || !sn_nest_perfect(chains[i], m, nests[i]) || !is_sum(m, chains[i])) return (sn_val){0};
    }
    sn_chain_outer(&mo.outer, m, k);
    sn_dtype t = sn_stmt_get(m, sum)->dtype;
    bool counts = t == SN_F32 || t == SN_F64; /* halves have no room for how many elements there are */
    if (!counts || t != sn_stmt_get(m, squares)->dtype || !is_pair(&mo, cx, k)) return (sn_val){0};
    sn_val about = sn_stmt_get(m, mo.distance)->in[1];
    return sn_stmt_inside(m, sn_val_get(m, about)->def, squares) ? (sn_val){0} : about;
}

/* ---- is it cut? ---- */

/* Bytes of memory that an element of a row is made of. */
static uint32_t bytes_of_element(const sn_moments *mo, const sn_module *m) {
    uint32_t bytes = 0;
    sn_stmt end = sn_stmt_walk_skip(m, mo->sum.at[0]);
    for (sn_stmt s = mo->sum.at[0]; s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_loads(r)) bytes += sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
    }
    return bytes ? bytes : 1;
}

bool sn_moments_once(const sn_moments *mo, const sn_module *m, uint32_t piece) {
    int64_t count = sn_chain_count(m, &mo->sum);
    if (sn_mul_clamped(count, bytes_of_element(mo, m)) % piece) return false;
    return !mo->columns && sn_val_get(m, sn_stmt_get(m, mo->sum.at[0])->result)->dtype == SN_F32;
}

/* Does a cluster have room for a row, or, where something else wants it too, a team? If so, and if nothing but the two sums wants it, it is cut all the same where rows are
 * few: parts fill the device evenly. */
static bool row_stays(const sn_target *t, int64_t rows, int64_t count, uint32_t bytes, bool alone, bool once) {
    if (count <= SN_MOMENTS_SHORT) return true;
    if (!alone && sn_team_pays(t, &(sn_team_need){rows, sn_mul_clamped(count, bytes), once ? 1 : 2, once ? 1 : 2,
                                                  .together = false}))
        return true;
    int64_t room = (int64_t)(t->shared_bytes - SN_SHARED_RESERVED) * t->cluster;
    return sn_mul_clamped(count, bytes) <= room && (!alone || rows >= SN_SPLIT_ENOUGH * t->units);
}

/* Columns: a sector of them, from the first row to the last. */
static bool columns_stay(const sn_target *t, int64_t columns, int64_t count) {
    int64_t blocks = sn_ceil_div(columns, SN_SPLIT_COLUMNS);
    return blocks >= SN_SPLIT_ENOUGH * t->units || count <= t->shared_bytes / SN_SECTOR;
}

/* Shorter parts, as many as all turns of blocks that run at once have room for, where turns are so few that a last one with little to do counts. */
static int64_t fill_turns(const sn_target *t, int64_t rows, int64_t count, int64_t length, int64_t least) {
    int64_t at_once = (int64_t)t->units * SN_MOMENTS_BLOCKS, parts = sn_ceil_div(count, length);
    int64_t turns = sn_ceil_div(sn_mul_clamped(rows, parts), at_once);
    if (turns > SN_MOMENTS_TURNS || turns * at_once / rows <= parts) return length;
    int64_t shorter = sn_ceil_div(count, turns * at_once / rows);
    return shorter < least ? length : shorter;
}

int64_t sn_moments_part(const sn_moments *mo, sn_pass_ctx *cx, bool alone) {
    const sn_target *t = cx->target;
    int64_t rows = sn_chain_count(cx->m, &mo->outer), count = sn_chain_count(cx->m, &mo->sum);
    uint32_t bytes = bytes_of_element(mo, cx->m);
    if (!t->is_gpu || rows <= 0 || count <= 0 || count == INT64_MAX || rows == INT64_MAX) return 0;
    if (mo->columns ? columns_stay(t, rows, count)
                    : row_stays(t, rows, count, bytes, alone, sn_moments_once(mo, cx->m, 1)))
        return 0;
    int64_t beside = 1, most = SN_MOMENTS_BYTES, length = SN_MOMENTS_PART, least = SN_MOMENTS_LEAST;
    if (mo->columns) {
        beside = rows < SN_SPLIT_COLUMNS ? rows : SN_SPLIT_COLUMNS;
        most = SN_MOMENTS_NEAR, least = SN_SPLIT_COLUMN_PART;
    }
    while (length > least && length * bytes * beside > most) length /= 2;
    while (length > least && sn_mul_clamped(rows, count) / beside / length < SN_SPLIT_ENOUGH * t->units) length /= 2;
    if (!mo->columns) length = fill_turns(t, rows, count, length, least);
    length = sn_ceil_div(count, sn_ceil_div(count, length));
    /* Vectors begin where the row's do; threads that share columns have as many rows each. */
    int64_t each = mo->columns ? SN_MOMENTS_ROWS : SN_SPLIT_LINE;
    length = sn_ceil_div(length, each) * each;
    return length < count ? length : 0;
}
