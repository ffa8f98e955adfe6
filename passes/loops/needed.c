/* needed.c: which iterations of a short loop want what a statement makes.
 *
 *     loop c in 3 {
 *       %0 = in c, 1
 *       %1 = mul %a, %b                1: of iteration 0
 *       %2 = mul %a, %c                2: of the others
 *       %3 = select %0, %1, %2         3
 *       store y[3*i + c], %3           3
 *     }
 *
 * A concatenation of channels computes each of them in every iteration, and chooses. Written out, iteration by iteration, only what is
 * chosen is left (simplify-index): whoever weighs that has to know how much it is. Tests of numbers decide (`in`, `and`); others are
 * unknown, and both sides are wanted. Counts; changes nothing. Cost: statements times iterations.
 */
#include "passes/loops/needed.h"

typedef enum truth { UNKNOWN, NO, YES } truth;

typedef struct needed {
    sn_module *m;
    sn_axis ax;
    sn_ix at;        /* the iteration */
    sn_notes wanted; /* values, in it */
    sn_notes known;  /* truths of tests, in it */
} needed;

static truth test(needed *n, sn_val v);

static truth test_both(needed *n, const sn_stmt_rec *r) {
    truth a = test(n, r->in[0]), b = test(n, r->in[1]);
    return a == NO || b == NO ? NO : a == YES && b == YES ? YES : UNKNOWN;
}

static truth test_in(needed *n, const sn_stmt_rec *r) {
    sn_module *m = n->m;
    sn_ix e = sn_ix_subst(m, r->ix, &n->ax, &n->at, 1), bound = sn_ix_subst(m, r->bound, &n->ax, &n->at, 1);
    sn_range is = sn_ix_range(m, e), below = sn_ix_range(m, bound);
    if (sn_ix_in(m, e, bound)) return YES;
    return is.hi < 0 || is.lo >= below.hi ? NO : UNKNOWN;
}

/* Each test once, however many others are made of it. */
static truth test(needed *n, sn_val v) {
    const sn_stmt_rec *r = sn_stmt_get(n->m, sn_val_get(n->m, v)->def);
    bool both = r->op == SN_LOP_AND && r->dtype == SN_BOOL;
    uint64_t known;
    if (!both && r->op != SN_LOP_IN) return UNKNOWN;
    if (sn_notes_find(&n->known, v.i, &known)) return (truth)known;
    truth t = both ? test_both(n, r) : test_in(n, r);
    sn_notes_set(&n->known, v.i, t);
    return t;
}

static void want(void *user, sn_ix atom) {
    needed *n = user;
    const sn_ix_rec *r = sn_ix_get(n->m, atom);
    if (r->kind == SN_IX_VAL) sn_notes_add(&n->wanted, r->id);
}

static bool is_wanted(const needed *n, const sn_stmt_rec *s) {
    uint64_t note;
    if (!s->n_results) return true;
    for (uint32_t i = 0; i < s->n_results; i++)
        if (sn_notes_find(&n->wanted, sn_result(s, i).i, &note)) return true;
    return false;
}

/* What the statement wants in its turn; false: it is not there in this iteration. */
static bool take(needed *n, const sn_stmt_rec *s) {
    if (!is_wanted(n, s)) return false;
    sn_val mask = s->op == SN_LOP_SELECT ? s->in[0] : sn_stmt_mask(s);
    truth t = mask.i ? test(n, mask) : UNKNOWN;
    if (s->op == SN_LOP_SELECT && t) {
        sn_notes_add(&n->wanted, s->in[t == YES ? 1 : 2].i);
        return false;
    }
    if (sn_is_access(s) && t == NO) {
        if (s->op == SN_LOP_LOAD) sn_notes_add(&n->wanted, s->in[1].i);
        return false;
    }
    bool tested = sn_is_access(s) && mask.i && t == UNKNOWN;
    for (uint32_t i = 0; i < s->n_in; i++)
        if (!sn_is_access(s) || tested || (s->op == SN_LOP_STORE && i == 0)) sn_notes_add(&n->wanted, s->in[i].i);
    if (s->ix.i) sn_ix_walk(n->m, s->ix, want, n);
    if (s->bound.i) sn_ix_walk(n->m, s->bound, want, n);
    return true;
}

void sn_needed_find(sn_notes *out, sn_pass_ctx *cx, sn_stmt loop, sn_stmt body) {
    sn_module *m = cx->m;
    SN_VEC(sn_stmt) all = {0};
    int64_t extent = sn_ix_value(m, sn_stmt_extent(m, loop));
    for (sn_stmt s = sn_stmt_get(m, body)->first; s.i; s = sn_next(m, s)) SN_PUSH(cx->scratch, &all, s);
    uint32_t *times = SN_NEWN(cx->scratch, uint32_t, all.n + 1);
    for (int64_t i = 0; i < extent; i++) {
        needed n = {.m = m,
                    .ax = sn_stmt_axis(m, loop),
                    .at = sn_ix_const(m, i),
                    .wanted = {.arena = cx->scratch},
                    .known = {.arena = cx->scratch}};
        for (uint32_t k = all.n; k-- > 0;) times[k] += take(&n, sn_stmt_get(m, all.at[k]));
    }
    for (uint32_t k = 0; k < all.n; k++) sn_notes_set(out, all.at[k].i, times[k]);
}
