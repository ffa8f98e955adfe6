/* precision.c: which values of a kernel are needed only as exactly as a half-precision result shows.
 *
 * A value is coarse when everything it is used for ends in a store of f16 or bf16, and nothing on the way magnifies a
 * relative error: products, quotients, roots, tanh and its like, max and min, sums of what is never negative, the sigmoid of such a number, and
 * reductions of them (a difference does, where it cancels). The results of halves have 8 or 11 significant bits; an expansion of f32 with 17 good bits cannot be told
 * from an exact one in them. Tests, comparisons, logarithms, exponents and whatever is kept in f32 ask for more. One
 * walk backwards: users come after definitions, and a reduce after its region, whose yield stands before the uses of
 * its results.
 *
 * A value is a term when all that it is used for is a sum, or a half that the sum divides, and it is e^(x - m), m the maximum of x, loaded or
 * computed, that may have a number in place of infinities: one term is 1, and it is as exact as a term of sumexp (docs/ARCHITECTURE.md,
 * Numerics). All exponentials of a kernel are terms, or none is.
 *
 * A value is blunt when it is only added to numbers of 1/2 or more, and these sums are coarse, as the erf and the tanh
 * of gelu are: then its own zeros need not be exact to the last place, for the sum does not show them.
 */
#include "codegen-llvm/gen.h"

enum { DEPTH = 16 }; /* of statements that say what is never below 0 */
enum { NEAR = 6 };   /* ... where each of them may ask two */

/* Is v a number, or nan, that is never below 0, by what at most `depth` statements behind one another say? */
static bool is_never_negative(const sn_gen *g, sn_val v, uint32_t depth) {
    sn_stmt def = sn_val_get(g->m, v)->def;
    const sn_stmt_rec *s = def.i ? sn_stmt_get(g->m, def) : NULL;
    if (!s || !depth) return false;
    switch ((int)s->op) {
    case SN_LOP_CONST: return s->f >= 0;
    case SN_LOP_ABS:
    case SN_LOP_EXP:
    case SN_LOP_SQRT:
    case SN_LOP_RSQRT:
    case SN_LOP_SIGMOID: return true;
    case SN_LOP_CAST:
        return sn_is_float(sn_val_get(g->m, s->in[0])->dtype) && is_never_negative(g, s->in[0], depth - 1);
    case SN_LOP_ERF:
    case SN_LOP_TANH: return is_never_negative(g, s->in[0], depth - 1);
    case SN_LOP_MUL:
    case SN_LOP_ADD: return is_never_negative(g, s->in[0], depth - 1) && is_never_negative(g, s->in[1], depth - 1);
    case SN_LOP_MAX: return is_never_negative(g, s->in[0], depth - 1) || is_never_negative(g, s->in[1], depth - 1);
    default: return false;
    }
}

/* Does the operation hand a relative error on without magnifying it? */
static bool hands_on(const sn_gen *g, const sn_stmt_rec *s) {
    switch ((int)s->op) {
    case SN_LOP_NEG:
    case SN_LOP_ABS:
    case SN_LOP_MUL:
    case SN_LOP_DIV:
    case SN_LOP_MAX:
    case SN_LOP_MIN:
    case SN_LOP_SQRT:
    case SN_LOP_RSQRT:
    case SN_LOP_RECIPROCAL:
    case SN_LOP_TANH: /* x f'(x) / f(x) is 1 at most, here and below */
    case SN_LOP_TANH_SHORT:
    case SN_LOP_TANH_LEVEL:
    case SN_LOP_ERF:
    case SN_LOP_ATAN:
    case SN_LOP_ASINH:
    case SN_LOP_SELECT: return true;
    case SN_LOP_SIGMOID: return is_never_negative(g, s->in[0], NEAR);
    case SN_LOP_ADD: return is_never_negative(g, s->in[0], NEAR) && is_never_negative(g, s->in[1], NEAR);
    default: return false;
    }
}

static bool use_is_coarse(const sn_gen *g, const sn_stmt_rec *s, uint32_t operand) {
    switch ((int)s->op) {
    case SN_LOP_STORE: return operand == 0 && sn_is_narrow(sn_buf_get(g->m, s->buf)->dtype);
    case SN_LOP_CAST: return sn_is_narrow(s->dtype) || (s->dtype == SN_F32 && g->coarse[s->result.i]);
    case SN_LOP_YIELD: {
        const sn_stmt_rec *reduce = sn_stmt_get(g->m, s->parent);
        bool plain = true;
        for (uint32_t c = 0; c < reduce->n_combs; c++) plain &= sn_combs[reduce->combs[c]].states == 1;
        return plain && g->coarse[reduce->result.i + operand];
    }
    default: return g->coarse[s->result.i] && hands_on(g, s) && (s->op != SN_LOP_SELECT || operand > 0);
    }
}

/* Is the other operand a number beside which errors of 2^-18 do not count? */
static bool use_is_blunt(const sn_gen *g, const sn_stmt_rec *s, uint32_t operand) {
    if ((s->op != SN_LOP_ADD && s->op != SN_LOP_SUB) || s->n_in != 2 || !g->coarse[s->result.i]) return false;
    sn_stmt def = sn_val_get(g->m, s->in[1 - operand])->def;
    const sn_stmt_rec *other = def.i ? sn_stmt_get(g->m, def) : NULL;
    return other && other->op == SN_LOP_CONST && (other->f >= 0.5 || other->f <= -0.5);
}

static const sn_stmt_rec *def_of(const sn_gen *g, sn_val v) {
    sn_stmt def = v.i ? sn_val_get(g->m, v)->def : (sn_stmt){0};
    return def.i ? sn_stmt_get(g->m, def) : NULL;
}

/* Does the mask hold where the loops of a row do, and not by data? */
static bool is_place(const sn_gen *g, sn_val mask) {
    const sn_stmt_rec *s = def_of(g, mask);
    if (s && s->op == SN_LOP_AND) return is_place(g, s->in[0]) && is_place(g, s->in[1]);
    return s && s->op == SN_LOP_IN && !sn_ix_uses_vals(g->m, s->ix);
}

/* The exponential of which v is the sum, by threads and by loops, *sum the outermost of these; NULL: it is something else. */
static const sn_stmt_rec *summed_exp(const sn_gen *g, sn_val v, const sn_stmt_rec **sum) {
    *sum = NULL;
    for (uint32_t depth = DEPTH; depth; depth--) {
        const sn_stmt_rec *s = def_of(g, v);
        if (!s) break;
        if (s->op == SN_LOP_EXP) return *sum ? s : NULL;
        if (s->op == SN_LOP_CAST) v = s->in[0];
        else if (s->op == SN_LOP_SELECT && is_place(g, s->in[0])) v = s->in[1];
        else if (s->op == SN_LOP_REDUCE && s->n_combs == 1 && s->combs[0] == SN_COMB_SUM)
            v = sn_stmt_get(g->m, s->last)->in[0], *sum = *sum ? *sum : s;
        else break;
    }
    return NULL;
}

/* A quotient by the sum that ends as a half is 0 below 2^-126, too. */
static bool use_is_term(const sn_gen *g, const sn_stmt_rec *s, uint32_t operand) {
    const sn_stmt_rec *sum;
    if (s->op == SN_LOP_SELECT) return operand > 0 && is_place(g, s->in[0]) && g->term[s->result.i];
    if (s->op == SN_LOP_DIV) return operand == 0 && g->coarse[s->result.i] && summed_exp(g, s->in[1], &sum);
    if (s->op != SN_LOP_YIELD) return false;
    const sn_stmt_rec *reduce = sn_stmt_get(g->m, s->parent);
    return reduce->n_combs == 1 && reduce->combs[0] == SN_COMB_SUM;
}

/* The store that gave the registers or the shared memory of the load what it finds; NULL: not one store did. */
static const sn_stmt_rec *filler(const sn_gen *g, const sn_stmt_rec *load) {
    const sn_stmt_rec *store = NULL;
    uint32_t n = 0;
    for (sn_stmt s = g->k->first; s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r == load) break;
        if (r->op == SN_LOP_STORE && r->buf.i == load->buf.i) store = r, n++;
    }
    return n == 1 ? store : NULL;
}

/* What v is behind conversions and tests of places; `over`: and behind the maximum that it is. */
static sn_val source_of(const sn_gen *g, sn_val v, bool over) {
    for (uint32_t depth = DEPTH; depth; depth--) {
        const sn_stmt_rec *s = def_of(g, v);
        if (!s) break;
        if (s->op == SN_LOP_CAST) v = s->in[0];
        else if (s->op == SN_LOP_SELECT && is_place(g, s->in[0])) v = s->in[1];
        else if (over && s->op == SN_LOP_REDUCE && s->n_combs == 1 && s->combs[0] == SN_COMB_MAX)
            v = sn_stmt_get(g->m, s->last)->in[0];
        else break;
    }
    return v;
}

/* ---- the same elements ---- */

/* Loops that walk the same: axis from[i] stands for to[i], one after another. A filling loop stands for whoever reads what it fills, an
 * axis of the maximum for one of the exponential alone. */
typedef struct pairing {
    const sn_gen *g;
    const sn_stmt_rec *most, *sum; /* what is around the maximum, or the sum (NULL: there is none), stands still */
    struct {
        sn_axis from, to;
        bool fills;
    } at[16];
    uint32_t n, left; /* pairs of axes; pairs of values that may still be looked at */
} pairing;

typedef struct axes {
    sn_axis at[16];
    uint32_t n;
} axes;

static bool is_around(const sn_gen *g, const sn_stmt_rec *s, sn_axis axis) {
    for (; s && s->parent.i; s = sn_stmt_get(g->m, s->parent)) {
        const sn_stmt_rec *nest = sn_stmt_get(g->m, s->parent);
        if (sn_is_nest(nest) && nest->axis.i == axis.i) return true;
    }
    return false;
}

/* May the axis be paired? */
static bool is_free(const pairing *p, sn_axis axis) {
    for (uint32_t i = 0; i < p->n; i++)
        if (!p->at[i].fills && p->at[i].to.i == axis.i) return false;
    return !is_around(p->g, p->most, axis) && !is_around(p->g, p->sum, axis);
}

static sn_ix renamed(const pairing *p, sn_ix e) {
    for (uint32_t i = 0; i < p->n; i++) {
        sn_ix with = sn_ix_axis(p->g->m, p->at[i].to);
        e = sn_ix_subst(p->g->m, e, &p->at[i].from, &with, 1);
    }
    return e;
}

static void add_axis(void *user, sn_ix atom) {
    axes *all = ((void **)user)[0];
    const sn_gen *g = ((void **)user)[1];
    const sn_ix_rec *r = sn_ix_get(g->m, atom);
    if (r->kind == SN_IX_AXIS && all->n < SN_COUNT(all->at)) all->at[all->n++] = (sn_axis){r->id};
}

static axes axes_of(const sn_gen *g, sn_ix e) {
    axes all = {.n = 0};
    void *user[] = {&all, (void *)g};
    sn_ix_walk(g->m, e, add_axis, user);
    return all;
}

static bool move_alike(const pairing *p, sn_ix a, sn_axis x, sn_ix b, sn_axis y) {
    sn_module *m = p->g->m;
    int64_t one, two;
    if (sn_axis_get(m, x)->extent.i != sn_axis_get(m, y)->extent.i) return false;
    return sn_ix_coef(m, a, x, &one) && sn_ix_coef(m, b, y, &two) && one == two;
}

/* Are both the same element where axes that move alike are at the same place? `fills`: b is stored, a loaded. */
static bool same_place(pairing *p, sn_ix a, sn_ix b, bool fills) {
    sn_module *m = p->g->m;
    a = renamed(p, a), b = renamed(p, b);
    axes xs = axes_of(p->g, a), ys = axes_of(p->g, b);
    for (uint32_t i = 0; i < ys.n; i++) {
        sn_axis y = ys.at[i];
        if (sn_ix_uses_axis(m, a, y) || !is_free(p, y)) continue;
        for (uint32_t j = 0; j < xs.n && p->n < SN_COUNT(p->at); j++) {
            sn_axis x = xs.at[j];
            if (sn_ix_uses_axis(m, b, x) || !(fills || is_free(p, x)) || !move_alike(p, a, x, b, y)) continue;
            p->at[p->n].from = y, p->at[p->n].to = x, p->at[p->n++].fills = fills;
            b = renamed(p, b);
            break;
        }
    }
    return a.i == b.i;
}

static bool is_scalar(const sn_stmt_rec *s) { return s->op < SN_N_LOPS || s->op == SN_LOP_CONST; }

static bool is_local_load(const sn_gen *g, const sn_stmt_rec *s) {
    return s->op == SN_LOP_LOAD && sn_buf_is_local(sn_buf_get(g->m, s->buf));
}

/* What the load finds, of the same place; none: nobody knows. */
static sn_val given(pairing *p, const sn_stmt_rec *load) {
    const sn_stmt_rec *store = filler(p->g, load);
    return store && same_place(p, load->ix, store->ix, true) ? store->in[0] : (sn_val){0};
}

/* Are both the same function of the same elements? */
static bool are_alike(pairing *p, sn_val a, sn_val b) {
    const sn_gen *g = p->g;
    a = source_of(g, a, false), b = source_of(g, b, false);
    const sn_stmt_rec *s = def_of(g, a), *t = def_of(g, b);
    if (!s || !t || !p->left) return false;
    if (a.i == b.i) return true;
    p->left--;
    if (s->op == SN_LOP_LOAD && t->op == SN_LOP_LOAD && s->buf.i == t->buf.i) return same_place(p, s->ix, t->ix, false);
    if (is_local_load(g, s)) return are_alike(p, given(p, s), b);
    if (is_local_load(g, t)) return are_alike(p, a, given(p, t));
    bool alike = s->op == t->op && s->n_in == t->n_in && is_scalar(s) && s->dtype == t->dtype;
    if (alike && s->op == SN_LOP_CONST) alike = s->f == t->f && s->i == t->i;
    for (uint32_t k = 0; k < s->n_in && alike; k++) alike = are_alike(p, s->in[k], t->in[k]);
    return alike;
}

/* Does the statement choose a number in place of an infinite `most`, its last operand? */
static bool replaces_infinite(const sn_gen *g, const sn_stmt_rec *s) {
    const sn_stmt_rec *test = def_of(g, s->in[0]), *number = def_of(g, s->in[1]);
    if (!test || test->op != SN_LOP_ISINF || !number || number->op != SN_LOP_CONST) return false;
    return source_of(g, test->in[0], false).i == source_of(g, s->in[2], false).i;
}

/* Is the value e^(x - m), m the maximum of x, over what `sum` adds up where there is one? */
static bool is_shifted_exp(const sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *sum) {
    enum { MOST = 64 };
    const sn_stmt_rec *sub = s->op == SN_LOP_EXP ? def_of(g, s->in[0]) : NULL;
    const sn_stmt_rec *m = sub && sub->op == SN_LOP_SUB ? def_of(g, sub->in[1]) : NULL;
    sn_val most = m ? sub->in[1] : (sn_val){0};
    if (m && m->op == SN_LOP_SELECT) {
        if (!replaces_infinite(g, m)) return false;
        most = m->in[2], m = def_of(g, most);
    }
    if (!m || m->op != SN_LOP_REDUCE) return false;
    pairing p = {.g = g, .most = m, .sum = sum, .left = MOST};
    return are_alike(&p, sub->in[0], source_of(g, most, true));
}

/* Exponentials of one kernel are terms together, or none is: two of the same element are one where registers have that. */
static void agree_on_terms(sn_gen *g) {
    bool all = true;
    for (sn_stmt s = g->k->first; s.i && all; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->op == SN_LOP_EXP) all = g->term[r->result.i];
    }
    for (sn_stmt s = g->k->first; s.i && !all; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->op == SN_LOP_EXP) g->term[r->result.i] = false;
    }
}

/* Is v the weight of a sumexp of elements that weigh 1 each? */
static bool is_weight(const sn_gen *g, sn_val v) {
    for (uint32_t depth = DEPTH; depth; depth--) {
        const sn_stmt_rec *s = def_of(g, v);
        if (!s) break;
        if (s->op == SN_LOP_CONST) return s->f == 1;
        if (s->op == SN_LOP_CAST) v = s->in[0];
        else if (s->op == SN_LOP_SELECT && is_place(g, s->in[0])) v = s->in[1];
        else if (s->op == SN_LOP_REDUCE && s->n_combs == 1 && s->combs[0] == SN_COMB_SUMEXP && v.i == s->result.i + 1)
            v = sn_stmt_get(g->m, s->last)->in[1];
        else break;
    }
    return false;
}

/* Is v a sum of exponentials of which the largest is 1? Its reciprocal is an ordinary number then. */
static bool is_middle(const sn_gen *g, sn_val v) {
    const sn_stmt_rec *s = def_of(g, v), *sum, *e = summed_exp(g, v, &sum);
    if (e) return is_shifted_exp(g, e, sum);
    return s && s->op == SN_LOP_REDUCE && is_weight(g, v);
}

static void not_coarse(void *user, sn_ix atom) {
    sn_gen *g = user;
    const sn_ix_rec *r = sn_ix_get(g->m, atom);
    if (r->kind == SN_IX_VAL) g->coarse[r->id] = g->blunt[r->id] = g->term[r->id] = false;
}

/* ---- sums of exponentials ---- */

static sn_gen_positive lesser(sn_gen_positive a, sn_gen_positive b) { return a < b ? a : b; }

static sn_gen_positive is_positive(const sn_gen *g, sn_val v, uint32_t depth);

/* Result number k of a sum of what is positive, or the weight of exponentials. */
static sn_gen_positive sum_is_positive(const sn_gen *g, const sn_stmt_rec *reduce, uint32_t k, uint32_t depth) {
    uint32_t first = 0;
    for (uint32_t c = 0; c < reduce->n_combs; first += sn_combs[reduce->combs[c++]].states) {
        sn_val each = sn_stmt_get(g->m, reduce->last)->in[k];
        if (reduce->combs[c] == SN_COMB_SUMEXP && k == first + 1) return is_positive(g, each, depth);
        if (reduce->combs[c] == SN_COMB_SUM && k == first) return lesser(is_positive(g, each, depth), SN_GEN_SUM);
    }
    return SN_GEN_ANY;
}

/* Is v never below 0, by what at most `depth` statements behind one another say? */
static sn_gen_positive is_positive(const sn_gen *g, sn_val v, uint32_t depth) {
    sn_stmt def = sn_val_get(g->m, v)->def;
    const sn_stmt_rec *s = def.i ? sn_stmt_get(g->m, def) : NULL;
    if (!s || !depth || !v.i || !sn_is_float(sn_val_get(g->m, v)->dtype)) return SN_GEN_ANY;
    uint32_t first = s->op == SN_LOP_SELECT;
    switch ((int)s->op) {
    case SN_LOP_EXP: return SN_GEN_WEIGHT;
    case SN_LOP_CONST: return s->f >= 0 ? SN_GEN_WEIGHT : SN_GEN_ANY;
    case SN_LOP_REDUCE: return sum_is_positive(g, s, v.i - s->result.i, depth - 1);
    case SN_LOP_CAST: return is_positive(g, s->in[0], depth - 1);
    case SN_LOP_SELECT:
    case SN_LOP_MUL:
    case SN_LOP_ADD:
        return lesser(is_positive(g, s->in[first], depth - 1), is_positive(g, s->in[first + 1], depth - 1));
    default: return SN_GEN_ANY;
    }
}

/* Is v made of a sum of exponentials, or, where `summed`, of an exponential? */
static bool has_exp(const sn_gen *g, sn_val v, bool summed, uint32_t depth) {
    const sn_stmt_rec *s = v.i && depth ? def_of(g, v) : NULL;
    uint32_t first = 0;
    if (!s) return false;
    switch ((int)s->op) {
    case SN_LOP_EXP: return summed;
    case SN_LOP_CAST: return has_exp(g, s->in[0], summed, depth - 1);
    case SN_LOP_SELECT: first = 1; break;
    case SN_LOP_MUL:
    case SN_LOP_ADD: break;
    case SN_LOP_REDUCE:
        for (uint32_t c = 0; c < s->n_combs; c++)
            if (s->combs[c] == SN_COMB_SUMEXP) return true;
        return has_exp(g, sn_stmt_get(g->m, s->last)->in[v.i - s->result.i], true, depth - 1);
    default: return false;
    }
    return has_exp(g, s->in[first], summed, depth - 1) || has_exp(g, s->in[first + 1], summed, depth - 1);
}

/* Quotients of f64, and those on the CPU, are rounded correctly, but for those by sums of exponentials. */
static sn_gen_positive divisor_of(const sn_gen *g, sn_val v) {
    bool exact = !g->gpu || sn_val_get(g->m, v)->dtype == SN_F64;
    if (exact && !has_exp(g, v, false, DEPTH)) return SN_GEN_ANY;
    return is_positive(g, v, DEPTH);
}

/* ---- the walk ---- */

static void visit_region(sn_gen *g, sn_stmt last);

static void visit(sn_gen *g, sn_stmt id) {
    const sn_stmt_rec *s = sn_stmt_get(g->m, id);
    visit_region(g, s->last);
    for (uint32_t k = 0; k < s->n_in; k++) {
        g->coarse[s->in[k].i] &= use_is_coarse(g, s, k);
        g->blunt[s->in[k].i] &= use_is_blunt(g, s, k);
        g->term[s->in[k].i] &= use_is_term(g, s, k);
    }
    if (s->op == SN_LOP_DIV) g->positive[s->in[1].i] = divisor_of(g, s->in[1]);
    if (s->op == SN_LOP_DIV) g->middle[s->in[1].i] = is_middle(g, s->in[1]);
    if (s->op == SN_LOP_EXP) g->term[s->result.i] = g->term[s->result.i] && is_shifted_exp(g, s, NULL);
    if (s->ix.i) sn_ix_walk(g->m, s->ix, not_coarse, g);
    if (s->bound.i) sn_ix_walk(g->m, s->bound, not_coarse, g);
}

static void visit_region(sn_gen *g, sn_stmt last) {
    for (sn_stmt s = last; s.i; s = sn_stmt_get(g->m, s)->prev) visit(g, s);
}

void sn_gen_find_coarse(sn_gen *g) {
    g->coarse = SN_NEWN(g->arena, bool, g->m->vals.count);
    g->blunt = SN_NEWN(g->arena, bool, g->m->vals.count);
    g->term = SN_NEWN(g->arena, bool, g->m->vals.count);
    g->middle = SN_NEWN(g->arena, bool, g->m->vals.count);
    g->positive = SN_NEWN(g->arena, uint8_t, g->m->vals.count);
    for (uint32_t i = 0; i < g->m->vals.count; i++) g->coarse[i] = g->blunt[i] = g->term[i] = true;
    visit_region(g, g->k->last);
    agree_on_terms(g);
}
