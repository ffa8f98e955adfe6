/* attend_mask.c: which keys a row of attention sees, where tests say it that are linear in row and key; see attend.h.
 *
 *     %c = in i - j, 4096   %x = select %c, %y, -inf        keeps j <= i
 *     %p = index.i64 i   %q = index.i64 j   %c = ge %p, %q   the same
 *     %c = gt %q, %p   %x = select %c, -inf, %y              the same
 *
 *     %a = abs (i - j)   %c = le %a, 256                     keeps what is near, by two masks
 *     %c = eq (i div 64), (j div 64)                         blocks, of rows and of keys: from the first key of one on, and up to its last
 *     %c = or %a, %b                                         one mask of two, where both end, or both begin, what is seen
 *     %c = and %a, %b   with a %b that is no such test       %a is a mask, and %b stays in the score
 *
 * A number that is very low in place of -inf makes no difference where each row sees a key: weights of what it hides are 0. That is said only
 * where it lies below all that scores may be which count: of a row in which something else makes these as low, by a bias or a factor that is
 * loaded or by a number, what is hidden would count. Of q times k alone that is no more than likely (attend_range.c).
 *
 * A mask is an e that is not negative where the score counts. For a block of rows, each says from which key on, or
 * up to which key, there is something to see: then tiles outside of that need not be looked at, and tiles that lie
 * inside for all masks need no test. A score that is -inf has the weight 0 whatever the others are, so that nothing
 * changes; a row that sees nothing at all still has a tile, whose scores are all -inf.
 */
#include "passes/schedule/attention/attend.h"

#include "passes/base/constants.h"

#include <math.h>

static const sn_stmt_rec *def_of(const sn_attend *a, sn_val v) { return sn_stmt_get(a->m, sn_val_get(a->m, v)->def); }

/* So low that nothing weighs as little that counts. */
static bool is_low(const sn_attend *a, sn_val v) {
    const sn_stmt_rec *r = def_of(a, v);
    return r->op == SN_LOP_CONST && sn_is_float(r->dtype) && r->f <= -SN_SCORE_LOW;
}

static bool is_infinite(const sn_attend *a, sn_val v) { return is_low(a, v) && isinf(def_of(a, v)->f); }

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
static sn_ix index_of(const sn_attend *a, sn_val v) {
    const sn_stmt_rec *r = def_of(a, v);
    sn_module *m = a->m;
    sn_ix e = {0}, x, y;
    if (r->op == SN_LOP_INDEX && !sn_ix_uses_vals(m, r->ix)) e = r->ix;
    if (r->op == SN_LOP_CONST && sn_is_integral(r->dtype)) e = sn_ix_const(m, r->i);
    if (r->op == SN_LOP_CAST && sn_is_integral(sn_val_get(m, r->in[0])->dtype)) e = index_of(a, r->in[0]);
    if (r->op == SN_LOP_FLOORDIV && (x = index_of(a, r->in[0])).i && (y = index_of(a, r->in[1])).i) {
        int64_t by;
        if (sn_ix_is_const(m, y, &by) && by > 0) e = sn_ix_divc(m, x, by);
    }
    if ((r->op == SN_LOP_ADD || r->op == SN_LOP_SUB) && (x = index_of(a, r->in[0])).i && (y = index_of(a, r->in[1])).i)
        e = r->op == SN_LOP_ADD ? sn_ix_add(m, x, y) : sn_ix_sub(m, x, y);
    return e.i && holds(a, r->dtype, e) ? e : (sn_ix){0};
}

/* Where e goes along the rows: 1 up, -1 down, 0 nowhere; false: it goes up and down. It has rows and quotients of rows. */
static bool find_direction(const sn_attend *a, sn_ix e, int *out) {
    sn_axis rows = axis_of_rows(a);
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0, step;
    uint32_t n = sn_ix_terms(a->m, e, &terms, &c0, &one);
    *out = 0;
    for (uint32_t i = 0; i < n && rows.i; i++) {
        const sn_ix_rec *r = sn_ix_get(a->m, terms[i].atom);
        if (!sn_ix_uses_axis(a->m, terms[i].atom, rows)) continue;
        bool rises = r->kind == SN_IX_AXIS || (r->kind == SN_IX_DIV && sn_ix_is_const(a->m, r->b, NULL) &&
                                               sn_ix_coef(a->m, r->a, rows, &step) && step > 0);
        int way = terms[i].c > 0 ? 1 : -1;
        if (!rises || *out == -way) return false;
        *out = way;
    }
    return true;
}

/* Is the mask one that tiles can be left out by? */
static bool is_linear(sn_attend *a, sn_ix e) {
    enum { MOST = 1 << 30 };
    int64_t row = 0, key;
    int way;
    sn_axis rows = axis_of_rows(a), keys = sn_stmt_axis(a->m, a->c.top);
    sn_range all = sn_ix_range(a->m, e);
    if (a->c.group && sn_ix_uses_axis(a->m, e, sn_stmt_axis(a->m, a->c.outer.at[a->c.grouped]))) return false;
    bool small = all.lo > -MOST && all.hi < MOST; /* as are the ends of tiles */
    bool along = !rows.i || sn_ix_coef(a->m, e, rows, &row) || (!a->c.group && find_direction(a, e, &way));
    return small && along && !sn_ix_uses_vals(a->m, e) && sn_ix_coef(a->m, e, keys, &key) && (key == 1 || key == -1);
}

/* e, of a quotient of the key, is not negative where this is not, which has the key itself: rest - key div c is that up to the last
 * key of a block, rest + key div c from the first one of a block on. */
static sn_ix of_key(const sn_attend *a, sn_ix e) {
    sn_module *m = a->m;
    sn_axis keys = sn_stmt_axis(m, a->c.top);
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0, by;
    uint32_t n = e.i ? sn_ix_terms(m, e, &terms, &c0, &one) : 0;
    for (uint32_t i = 0; i < n; i++) {
        const sn_ix_rec *r = sn_ix_get(m, terms[i].atom);
        int64_t c = terms[i].c;
        if (r->kind != SN_IX_DIV || !sn_ix_eq(r->a, sn_ix_axis(m, keys)) || !sn_ix_is_const(m, r->b, &by)) continue;
        if (c != 1 && c != -1) return e;
        sn_ix rest = sn_ix_sub(m, e, sn_ix_scale(m, terms[i].atom, c)), scaled = sn_ix_scale(m, rest, by);
        return sn_ix_addc(m, sn_ix_fma(m, c, sn_ix_axis(m, keys), scaled), c < 0 ? by - 1 : 0);
    }
    return e;
}

/* What is not negative where a comparison of integers holds, or, not `seen`, where it does not. */
static sn_ix compared(const sn_attend *a, const sn_stmt_rec *r, bool seen) {
    sn_module *m = a->m;
    sn_ix x = index_of(a, r->in[0]), y = index_of(a, r->in[1]);
    if (!x.i || !y.i) return (sn_ix){0};
    bool less = r->op == SN_LOP_LT || r->op == SN_LOP_LE, strict = r->op == SN_LOP_LT || r->op == SN_LOP_GT;
    if (!seen) less = !less, strict = !strict;
    return of_key(a, sn_ix_addc(m, less ? sn_ix_sub(m, y, x) : sn_ix_sub(m, x, y), strict ? -1 : 0));
}

/* Where both are the same number. */
static uint32_t equal(sn_ix *e, const sn_attend *a, const sn_stmt_rec *r) {
    sn_ix x = index_of(a, r->in[0]), y = index_of(a, r->in[1]);
    if (!x.i || !y.i) return 0;
    e[0] = of_key(a, sn_ix_sub(a->m, x, y));
    e[1] = of_key(a, sn_ix_sub(a->m, y, x));
    return 2;
}

/* |x| against y: both x and -x are. */
static uint32_t near(sn_ix *e, const sn_attend *a, const sn_stmt_rec *r, bool seen) {
    sn_module *m = a->m;
    bool less = r->op == SN_LOP_LT || r->op == SN_LOP_LE, strict = r->op == SN_LOP_LT || r->op == SN_LOP_GT;
    if (!seen) less = !less, strict = !strict;
    const sn_stmt_rec *size = def_of(a, r->in[less ? 0 : 1]);
    if (size->op != SN_LOP_ABS) return 0;
    sn_ix x = index_of(a, size->in[0]), y = index_of(a, r->in[less ? 1 : 0]);
    if (!x.i || !y.i) return 0;
    e[0] = of_key(a, sn_ix_addc(m, sn_ix_sub(m, y, x), strict ? -1 : 0));
    e[1] = of_key(a, sn_ix_addc(m, sn_ix_add(m, y, x), strict ? -1 : 0));
    return 2;
}

/* What is not negative, all together, where the test holds, or does not: up to two; 0: it is no such test. */
static uint32_t numbers_of(sn_ix *e, const sn_attend *a, sn_val test, bool seen) {
    const sn_stmt_rec *r = def_of(a, test);
    sn_module *m = a->m;
    uint32_t n = 0;
    if (r->op == SN_LOP_LT || r->op == SN_LOP_LE || r->op == SN_LOP_GT || r->op == SN_LOP_GE) {
        e[0] = compared(a, r, seen);
        return e[0].i ? 1 : near(e, a, r, seen);
    }
    if (r->op == (seen ? SN_LOP_EQ : SN_LOP_NE)) return equal(e, a, r);
    if (r->op != SN_LOP_IN) return 0;
    sn_ix ends[] = {r->ix, sn_ix_addc(m, sn_ix_sub(m, r->bound, r->ix), -1)};
    for (int i = 0; i < 2; i++)
        if (sn_ix_range(m, ends[i]).lo < 0) e[n++] = ends[i];
    if (!seen && n != 1) return 0; /* in front or behind: no one mask */
    if (!seen) e[0] = sn_ix_addc(m, sn_ix_scale(m, e[0], -1), -1);
    return n;
}

static int64_t along_keys(const sn_attend *a, sn_ix e) {
    int64_t key = 0;
    sn_ix_coef(a->m, e, sn_stmt_axis(a->m, a->c.top), &key);
    return key;
}

/* One mask of two tests of which one is to hold, or not to hold. */
static bool add_either(sn_attend *a, const sn_stmt_rec *r, bool seen) {
    sn_ix e[2][2];
    for (uint32_t i = 0; i < 2; i++)
        if (numbers_of(e[i], a, r->in[i], seen) != 1 || !is_linear(a, e[i][0])) return false;
    if (a->n_masks == SN_MOST_MASKS || along_keys(a, e[0][0]) != along_keys(a, e[1][0])) return false;
    a->masks[a->n_masks++] = (sn_attend_mask){.e = e[0][0], .other = e[1][0]};
    a->told[a->n_told++] = (sn_attend_told){r->result, seen};
    return true;
}

/* Masks of all tests that hold together where this one does, or does not. Are these all that it says? */
static bool add_all(sn_attend *a, sn_val test, bool seen) {
    const sn_stmt_rec *r = def_of(a, test);
    sn_ix e[2];
    if (r->op == SN_LOP_NOT) return add_all(a, r->in[0], !seen);
    if (r->op == (seen ? SN_LOP_OR : SN_LOP_AND)) return add_either(a, r, seen);
    if (r->op == (seen ? SN_LOP_AND : SN_LOP_OR)) {
        bool first = add_all(a, r->in[0], seen);
        return add_all(a, r->in[1], seen) && first;
    }
    uint32_t n = numbers_of(e, a, test, seen), before = a->n_masks;
    for (uint32_t i = 0; i < n && a->n_masks < SN_MOST_MASKS; i++)
        if (is_linear(a, e[i])) a->masks[a->n_masks++].e = e[i];
    if (n && a->n_masks == before + n) {
        a->told[a->n_told++] = (sn_attend_told){test, seen};
        return true;
    }
    for (uint32_t i = before; i < a->n_masks; i++) a->masks[i].in_score = true;
    return false;
}

/* ---- the score ---- */

/* Of what is chosen by a test, as the one or the other value: where the score counts. */
typedef struct choice {
    sn_val test, score; /* score: what is chosen there */
    bool seen;          /* the test holds there */
    bool infinite;      /* elsewhere it is -inf, not a number that is low */
    bool added;         /* elsewhere the number is added to the score */
    double low;         /* that number */
} choice;

/* Is it very low on one side? */
static bool is_choice(choice *out, const sn_attend *a, const sn_stmt_rec *r) {
    if (r->op != SN_LOP_SELECT) return false;
    bool first = is_low(a, r->in[1]), second = is_low(a, r->in[2]);
    *out = (choice){.test = r->in[0], .score = r->in[second ? 1 : 2], .seen = second};
    if (first == second) return false;
    out->infinite = is_infinite(a, r->in[second ? 2 : 1]);
    out->low = def_of(a, r->in[second ? 2 : 1])->f;
    return true;
}

/* x is out->score where the test says so, else very low: either chosen, or by adding 0 or that. */
static bool is_masked(choice *out, const sn_attend *a, sn_val x) {
    const sn_stmt_rec *r = def_of(a, x);
    if (is_choice(out, a, r)) return true;
    for (uint32_t i = 0; i < 2 && r->op == SN_LOP_ADD; i++) {
        if (!is_choice(out, a, def_of(a, r->in[i])) || !is_zero(a, out->score)) continue;
        out->score = r->in[1 - i], out->added = true;
        return true;
    }
    return false;
}

/* Is what the choice takes elsewhere so low that its weight is 0 beside any score that counts? */
static bool is_below(const sn_attend *a, const choice *c) {
    sn_attend_range r = sn_attend_range_likely(a, c->score);
    return !r.holes && c->low + (c->added ? r.hi : 0) <= r.lo - SN_SCORE_BELOW;
}

/* Does each row see a key, by what the masks say? Ends of what is seen: key >= -e without its key, or key <= that. */
static bool rows_see(const sn_attend *a) {
    sn_module *m = a->m;
    sn_axis keys = sn_stmt_axis(m, a->c.top);
    sn_ix zero = sn_ix_const(m, 0), end[SN_MOST_MASKS];
    for (uint32_t i = 0; i < a->n_masks; i++) {
        end[i] = sn_ix_subst(m, a->masks[i].e, &keys, &zero, 1);
        bool begins = along_keys(a, a->masks[i].e) > 0;
        if (sn_ix_range(m, begins ? sn_ix_addc(m, end[i], a->c.k - 1) : end[i]).lo < 0) return false;
    }
    for (uint32_t i = 0; i < a->n_masks; i++)
        for (uint32_t k = 0; k < i; k++) {
            bool differ = along_keys(a, a->masks[i].e) != along_keys(a, a->masks[k].e);
            if (differ && sn_ix_range(m, sn_ix_add(m, end[i], end[k])).lo < 0) return false;
        }
    return true;
}

/* Masks of one choice; does it leave the rest as a score without it? */
static bool take_choice(sn_attend *a, const choice *c) {
    uint32_t before = a->n_masks, told = a->n_told;
    bool all = add_all(a, c->test, c->seen);
    if (c->infinite) return all;
    if (all && is_below(a, c) && rows_see(a)) return true;
    for (uint32_t i = before; i < a->n_masks; i++) a->masks[i] = (sn_attend_mask){0};
    a->n_masks = before;
    a->n_told = told;
    return false;
}

/* ---- the factor ---- */

static bool is_used_once(const sn_attend *a, sn_val v) {
    uint32_t uses = 0;
    sn_stmt end = sn_stmt_walk_skip(a->m, a->c.top);
    for (sn_stmt s = sn_stmt_get(a->m, a->c.top)->first; s.i != end.i; s = sn_stmt_walk_next(a->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(a->m, s);
        for (uint32_t i = 0; i < r->n_in; i++) uses += sn_val_eq(r->in[i], v);
    }
    return uses == 1;
}

/* Where something else is -inf, the factor of the rest is one of all. */
static void find_factor(sn_attend *a) {
    choice c;
    sn_val x = a->score;
    a->factor = 1;
    while (is_choice(&c, a, def_of(a, x)) && c.infinite) x = c.score;
    const sn_stmt_rec *r = def_of(a, x);
    for (uint32_t i = 0; i < 2 && r->op == SN_LOP_MUL && r->dtype == a->c.dtype; i++) {
        const sn_stmt_rec *by = def_of(a, r->in[i]);
        if (by->op != SN_LOP_CONST || !(by->f > 0) || isinf(by->f)) continue;
        if (sn_val_eq(x, a->score)) a->score = r->in[1 - i];
        else if (is_used_once(a, x)) a->scaled = x, a->unscaled = r->in[1 - i];
        else return;
        a->factor = by->f;
        return;
    }
}

void sn_attend_find_masks(sn_attend *a) {
    choice c;
    while (is_masked(&c, a, a->score) && take_choice(a, &c)) a->score = c.score;
    find_factor(a);
}

sn_val sn_attend_copy_score(const sn_attend *a, sn_contraction_copier *p) {
    for (uint32_t i = 0; i < a->n_told; i++)
        sn_contraction_becomes(p, a->told[i].test, sn_put_const_int(a->m, p->at, SN_BOOL, a->told[i].holds));
    if (a->scaled.i) sn_contraction_becomes(p, a->scaled, sn_contraction_copy(p, a->unscaled));
    return sn_contraction_copy(p, a->score);
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
    sn_ix e = at_place(a, a->masks[i].e, batch, row, key), other = a->masks[i].other;
    return other.i ? sn_ix_max(a->m, e, at_place(a, other, batch, row, key)) : e;
}

/* Of rows that are queries of several heads, the first query of the row's head; and how many of them a tile has at most. */
static sn_ix first_query(const sn_attend *a, sn_ix row, const sn_sched *sc, int64_t *queries) {
    int64_t each = a->c.group ? a->c.m / a->c.group : 0;
    *queries = each && each < sc->tile_m ? each : sc->tile_m;
    return each ? sn_ix_scale(a->m, sn_ix_divc(a->m, row, each), each) : row;
}

/* e at key, and at the one of `queries` rows from `row` on where it is least, or largest. */
static sn_ix at_end(sn_attend *a, sn_ix e, sn_ix batch, sn_ix row, int64_t queries, sn_ix key, bool least) {
    sn_axis rows = axis_of_rows(a);
    int64_t step = 0;
    int way = 0;
    bool linear = !rows.i || sn_ix_coef(a->m, e, rows, &step);
    find_direction(a, e, &way);
    if (way != (least ? -1 : 1)) return at_place(a, e, batch, row, key);
    if (linear) return sn_ix_addc(a->m, at_place(a, e, batch, row, key), step * (queries - 1));
    return at_place(a, e, batch, sn_ix_addc(a->m, row, queries - 1), key);
}

/* The least value of e over a tile. */
static sn_ix least_of(sn_attend *a, sn_ix e, const sn_sched *sc, sn_ix batch, sn_ix row, sn_ix key) {
    int64_t queries;
    sn_ix first = first_query(a, row, sc, &queries);
    return sn_ix_addc(a->m, at_end(a, e, batch, first, queries, key, true),
                      along_keys(a, e) < 0 ? -(int64_t)(sc->tile_n - 1) : 0);
}

sn_ix sn_attend_mask_least(sn_attend *a, uint32_t i, const sn_sched *sc, sn_ix batch, sn_ix row, sn_ix key) {
    sn_ix e = least_of(a, a->masks[i].e, sc, batch, row, key), other = a->masks[i].other;
    return other.i ? sn_ix_max(a->m, e, least_of(a, other, sc, batch, row, key)) : e;
}

/* The largest value of e over the rows of a tile, at key 0. */
static sn_ix most_of(sn_attend *a, sn_ix e, const sn_sched *sc, sn_ix batch, sn_ix row) {
    int64_t queries;
    sn_ix first = first_query(a, row, sc, &queries);
    return at_end(a, e, batch, first, queries, sn_ix_const(a->m, 0), false);
}

static sn_ix most_at_first_key(sn_attend *a, uint32_t i, const sn_sched *sc, sn_ix batch, sn_ix row) {
    sn_ix e = most_of(a, a->masks[i].e, sc, batch, row), other = a->masks[i].other;
    return other.i ? sn_ix_max(a->m, e, most_of(a, other, sc, batch, row)) : e;
}

void sn_attend_tiles(sn_ix *first, sn_ix *number, sn_attend *a, const sn_sched *sc, sn_ix batch, sn_ix row) {
    sn_module *m = a->m;
    int64_t all = (a->c.k + sc->tile_n - 1) / sc->tile_n;
    sn_ix from = sn_ix_const(m, 0), end = sn_ix_const(m, all);
    for (uint32_t i = 0; i < a->n_masks; i++) {
        sn_ix most = most_at_first_key(a, i, sc, batch, row);
        /* e = most + key: seen from key -most on; e = most - key: up to key `most`. */
        if (along_keys(a, a->masks[i].e) > 0)
            from = sn_ix_max(m, from, sn_ix_divc(m, sn_ix_scale(m, most, -1), sc->tile_n));
        else end = sn_ix_min(m, end, sn_ix_addc(m, sn_ix_divc(m, most, sc->tile_n), 1));
    }
    *first = sn_ix_min(m, from, sn_ix_const(m, all - 1));
    *number = sn_ix_max(m, sn_ix_sub(m, end, *first), sn_ix_const(m, 1));
    /* Where nothing is seen, what is looked at has to exist. */
    sn_ix left = sn_ix_sub(m, sn_ix_const(m, all), *first);
    *number = sn_ix_min(m, *number, left);
}
