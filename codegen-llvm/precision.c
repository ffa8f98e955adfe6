/* precision.c: which values of a kernel are needed only as exactly as a half-precision result shows.
 *
 * A value is coarse when everything it is used for ends in a store of f16 or bf16, and nothing on the way magnifies a
 * relative error: products, quotients, roots, tanh and its like, max and min, and reductions of them (a difference does,
 * where it cancels). The results of halves have 8 or 11 significant bits; an expansion of f32 with 17 good bits cannot be told
 * from an exact one in them. Tests, comparisons, logarithms, exponents and whatever is kept in f32 ask for more. One
 * walk backwards: users come after definitions, and a reduce after its region, whose yield stands before the uses of
 * its results.
 *
 * A value is a term when all that it is used for is a sum, or a half that the sum divides, and it is e^(x - m), m the maximum of x, loaded or
 * computed, that may have something else in place of infinities: one term is 1, and it is as exact as a term of sumexp (docs/ARCHITECTURE.md,
 * Numerics). All exponentials of a kernel are terms, or none is.
 *
 * A value is blunt when it is only added to numbers of 1/2 or more, and these sums are coarse, as the erf and the tanh
 * of gelu are: then its own zeros need not be exact to the last place, for the sum does not show them.
 */
#include "codegen-llvm/gen.h"

enum { DEPTH = 16 }; /* of statements that say what is never below 0 */

/* Does the operation hand a relative error on without magnifying it? */
static bool hands_on(sn_lop op) {
    switch ((int)op) {
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
    case SN_LOP_ERF:
    case SN_LOP_ATAN:
    case SN_LOP_ASINH:
    case SN_LOP_SELECT: return true;
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
    default: return hands_on(s->op) && (s->op != SN_LOP_SELECT || operand > 0) && g->coarse[s->result.i];
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

/* The exponential of which v is the sum, by threads and by loops; NULL: it is something else. */
static const sn_stmt_rec *summed_exp(const sn_gen *g, sn_val v) {
    bool sum = false;
    for (uint32_t depth = DEPTH; depth; depth--) {
        const sn_stmt_rec *s = def_of(g, v);
        if (!s) break;
        if (s->op == SN_LOP_EXP) return sum ? s : NULL;
        if (s->op == SN_LOP_CAST) v = s->in[0];
        else if (s->op == SN_LOP_SELECT && is_place(g, s->in[0])) v = s->in[1];
        else if (s->op == SN_LOP_REDUCE && s->n_combs == 1 && s->combs[0] == SN_COMB_SUM)
            v = sn_stmt_get(g->m, s->last)->in[0], sum = true;
        else break;
    }
    return NULL;
}

/* A quotient by the sum that ends as a half is 0 below 2^-126, too. */
static bool use_is_term(const sn_gen *g, const sn_stmt_rec *s, uint32_t operand) {
    if (s->op == SN_LOP_SELECT) return operand > 0 && is_place(g, s->in[0]) && g->term[s->result.i];
    if (s->op == SN_LOP_DIV) return operand == 0 && g->coarse[s->result.i] && summed_exp(g, s->in[1]);
    if (s->op != SN_LOP_YIELD) return false;
    const sn_stmt_rec *reduce = sn_stmt_get(g->m, s->parent);
    return reduce->n_combs == 1 && reduce->combs[0] == SN_COMB_SUM;
}

/* What the registers or the shared memory that the load finds it in have been given before it; none: not by one store. */
static sn_val given(const sn_gen *g, const sn_stmt_rec *load) {
    sn_val v = {0};
    uint32_t n = 0;
    for (sn_stmt s = g->k->first; s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r == load) break;
        if (r->op == SN_LOP_STORE && r->buf.i == load->buf.i) v = r->in[0], n++;
    }
    return n == 1 ? v : (sn_val){0};
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

/* Do both loads walk the same elements, as far as their ends show it? */
static bool walk_the_same(const sn_gen *g, const sn_stmt_rec *a, const sn_stmt_rec *b) {
    if (a->op != SN_LOP_LOAD || b->op != SN_LOP_LOAD || a->buf.i != b->buf.i) return false;
    sn_range one = sn_ix_range(g->m, a->ix), two = sn_ix_range(g->m, b->ix);
    return one.lo == two.lo && one.hi == two.hi;
}

static bool is_scalar(const sn_stmt_rec *s) { return s->op < SN_N_LOPS || s->op == SN_LOP_CONST; }

/* Are both the same function of the same elements? *left: pairs that may still be looked at. */
static bool are_alike(const sn_gen *g, sn_val a, sn_val b, uint32_t *left) {
    a = source_of(g, a, false), b = source_of(g, b, false);
    const sn_stmt_rec *s = def_of(g, a), *t = def_of(g, b);
    if (!s || !t || !*left) return false;
    if (a.i == b.i) return true;
    --*left;
    if (walk_the_same(g, s, t)) return true;
    if (s->op == SN_LOP_LOAD && sn_buf_is_local(sn_buf_get(g->m, s->buf))) return are_alike(g, given(g, s), b, left);
    if (t->op == SN_LOP_LOAD && sn_buf_is_local(sn_buf_get(g->m, t->buf))) return are_alike(g, a, given(g, t), left);
    bool alike = s->op == t->op && s->n_in == t->n_in && is_scalar(s) && s->dtype == t->dtype;
    if (alike && s->op == SN_LOP_CONST) alike = s->f == t->f && s->i == t->i;
    for (uint32_t k = 0; k < s->n_in && alike; k++) alike = are_alike(g, s->in[k], t->in[k], left);
    return alike;
}

/* Is the value e^(x - m), m the maximum of x? */
static bool is_shifted_exp(const sn_gen *g, const sn_stmt_rec *s) {
    enum { MOST = 64 };
    const sn_stmt_rec *sub = s->op == SN_LOP_EXP ? def_of(g, s->in[0]) : NULL;
    const sn_stmt_rec *m = sub && sub->op == SN_LOP_SUB ? def_of(g, sub->in[1]) : NULL;
    sn_val most = m ? sub->in[1] : (sn_val){0};
    uint32_t left = MOST;
    if (m && m->op == SN_LOP_SELECT) most = m->in[2], m = def_of(g, most);
    if (!m || m->op != SN_LOP_REDUCE) return false;
    return are_alike(g, sub->in[0], source_of(g, most, true), &left);
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
    const sn_stmt_rec *s = def_of(g, v), *e = summed_exp(g, v);
    if (e) return is_shifted_exp(g, e);
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
    if (s->op == SN_LOP_EXP) g->term[s->result.i] = g->term[s->result.i] && is_shifted_exp(g, s);
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
