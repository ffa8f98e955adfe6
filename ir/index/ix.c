/* ix.c: records of index expressions: hash-consing, sums and products. Relies on ix_simplify.c for the one rewrite that
 * looks across terms. Does not know the rules of div, mod, min and max.
 *
 * Canonical forms kept here: terms of a sum are sorted by atom id, without zeros; a sum that is one atom is that atom;
 * a product is prod(f1, prod(f2, ...)) with factors sorted by id; a product of sums is multiplied out.
 */
#include "ir/index/ix_build.h"

#include <stdlib.h>
#include <string.h>

const sn_ix_rec *sn_ix_get(const sn_module *m, sn_ix e) { return sn_table_at(&m->ixs, e.i); }

bool sn_ix_ok(const sn_module *m) { return m->env->status == SN_OK; }

sn_ix sn_ix_overflow(sn_module *m) {
    sn_fail(m->env, SN_ERROR_UNSUPPORTED, "index arithmetic overflows");
    return sn_ix_const(m, 0);
}

sn_ix_trial sn_ix_trial_begin(const sn_module *m) { return (sn_ix_trial){m->env->status}; }

bool sn_ix_trial_end(sn_ix_trial t, sn_module *m) {
    if (t.before != SN_OK || m->env->status == SN_OK) return true;
    sn_env_clear(m->env);
    return false;
}

/* ---- hash-consing ---- */

static uint64_t hash_record(const sn_ix_rec *r) {
    uint64_t h = sn_hash(r->kind, r->id);
    h = sn_hash(h, (uint64_t)r->a.i << 32 | r->b.i);
    if (r->kind != SN_IX_SUM) return h;
    h = sn_hash(h, (uint64_t)r->c0);
    for (uint32_t i = 0; i < r->n_terms; i++) h = sn_hash(sn_hash(h, (uint64_t)r->terms[i].c), r->terms[i].atom.i);
    return h;
}

static bool same_record(const sn_ix_rec *x, const sn_ix_rec *y) {
    if (x->hash != y->hash || x->kind != y->kind || x->id != y->id || x->a.i != y->a.i || x->b.i != y->b.i ||
        x->c0 != y->c0 || x->n_terms != y->n_terms)
        return false;
    for (uint32_t i = 0; i < x->n_terms; i++)
        if (x->terms[i].c != y->terms[i].c || x->terms[i].atom.i != y->terms[i].atom.i) return false;
    return true;
}

static void grow_slots(sn_module *m) {
    uint32_t cap = m->ix_slot_cap ? m->ix_slot_cap * 2 : 256;
    m->ix_slots = SN_NEWN(&m->arena, uint32_t, cap);
    m->ix_slot_cap = cap;
    for (sn_ix e = {1}; e.i < m->ixs.count; e.i++) {
        uint32_t s = (uint32_t)sn_ix_get(m, e)->hash & (cap - 1);
        while (m->ix_slots[s]) s = (s + 1) & (cap - 1);
        m->ix_slots[s] = e.i;
    }
}

/* The id of a record like r; its terms are copied when it is new. */
static sn_ix intern(sn_module *m, sn_ix_rec r) {
    r.hash = hash_record(&r);
    if (2 * m->ixs.count >= m->ix_slot_cap) grow_slots(m);
    uint32_t s = (uint32_t)r.hash & (m->ix_slot_cap - 1);
    for (; m->ix_slots[s]; s = (s + 1) & (m->ix_slot_cap - 1)) {
        sn_ix e = {m->ix_slots[s]};
        if (same_record(sn_ix_get(m, e), &r)) return e;
    }
    r.terms = r.n_terms ? sn_memdup(&m->arena, r.terms, r.n_terms * sizeof *r.terms) : NULL;
    r.quotient = (sn_ix){0};
    sn_ix e = {sn_table_add(&m->ixs)};
    *(sn_ix_rec *)sn_table_at(&m->ixs, e.i) = r;
    m->ix_slots[s] = e.i;
    return e;
}

sn_ix sn_ix_record(sn_module *m, sn_ix_rec r) { return intern(m, r); }

sn_ix sn_ix_atom(sn_module *m, sn_ix_kind kind, uint32_t id, sn_ix a, sn_ix b) {
    return intern(m, (sn_ix_rec){.kind = kind, .id = id, .a = a, .b = b});
}

sn_ix sn_ix_const(sn_module *m, int64_t c) { return intern(m, (sn_ix_rec){.kind = SN_IX_SUM, .c0 = c}); }
sn_ix sn_ix_axis(sn_module *m, sn_axis ax) { return sn_ix_atom(m, SN_IX_AXIS, ax.i, (sn_ix){0}, (sn_ix){0}); }
sn_ix sn_ix_sym(sn_module *m, sn_sym s) { return sn_ix_atom(m, SN_IX_SYM, s.i, (sn_ix){0}, (sn_ix){0}); }
sn_ix sn_ix_val(sn_module *m, sn_val v) { return sn_ix_atom(m, SN_IX_VAL, v.i, (sn_ix){0}, (sn_ix){0}); }

bool sn_ix_is_const(const sn_module *m, sn_ix e, int64_t *out) {
    const sn_ix_rec *r = sn_ix_get(m, e);
    if (r->kind != SN_IX_SUM || r->n_terms) return false;
    if (out) *out = r->c0;
    return true;
}

int64_t sn_ix_value(const sn_module *m, sn_ix e) {
    int64_t c = 0;
    bool is_const = sn_ix_is_const(m, e, &c);
    SN_ASSERT(is_const);
    (void)is_const;
    return c;
}

uint32_t sn_ix_terms(const sn_module *m, sn_ix e, const sn_ix_term **terms, int64_t *c0, sn_ix_term *one) {
    const sn_ix_rec *r = sn_ix_get(m, e);
    if (r->kind == SN_IX_SUM) {
        *terms = r->terms;
        *c0 = r->c0;
        return r->n_terms;
    }
    *one = (sn_ix_term){1, e};
    *terms = one;
    *c0 = 0;
    return 1;
}

/* ---- sums ---- */

void sn_ix_sum_begin(sn_ix_sum *s, sn_module *m) {
    s->m = m;
    s->c0 = 0;
    s->overflow = false;
    s->terms.at = s->local;
    s->terms.n = 0;
    s->terms.cap = SN_IX_LOCAL_TERMS;
}

void sn_ix_sum_addc(sn_ix_sum *s, int64_t c) {
    if (sn_add_overflow(s->c0, c, &s->c0)) s->overflow = true;
}

void sn_ix_sum_add(sn_ix_sum *s, int64_t c, sn_ix e) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0, ck;
    uint32_t n = sn_ix_terms(s->m, e, &terms, &c0, &one);
    if (sn_mul_overflow(c0, c, &ck)) s->overflow = true;
    else sn_ix_sum_addc(s, ck);
    for (uint32_t i = 0; i < n; i++) {
        if (sn_mul_overflow(terms[i].c, c, &ck)) s->overflow = true;
        else if (ck) SN_PUSH(&s->m->arena, &s->terms, ((sn_ix_term){ck, terms[i].atom}));
    }
}

static int by_atom(const void *x, const void *y) {
    uint32_t a = ((const sn_ix_term *)x)->atom.i, b = ((const sn_ix_term *)y)->atom.i;
    return (a > b) - (a < b);
}

/* Sort by atom, merge equal atoms, drop zeros. */
static void sum_normalise(sn_ix_sum *s) {
    sn_ix_term *t = s->terms.at;
    bool sorted = true;
    for (uint32_t i = 1; i < s->terms.n; i++) sorted &= t[i - 1].atom.i < t[i].atom.i;
    if (sorted) return;
    qsort(t, s->terms.n, sizeof *t, by_atom);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->terms.n;) {
        sn_ix_term sum = t[i++];
        for (; i < s->terms.n && sn_ix_eq(t[i].atom, sum.atom); i++)
            if (sn_add_overflow(sum.c, t[i].c, &sum.c)) s->overflow = true;
        if (sum.c) t[n++] = sum;
    }
    s->terms.n = n;
}

sn_ix sn_ix_sum_end(sn_ix_sum *s) {
    do sum_normalise(s);
    while (!s->overflow && sn_ix_recombine(s));
    if (s->overflow) return sn_ix_overflow(s->m);
    if (s->c0 == 0 && s->terms.n == 1 && s->terms.at[0].c == 1) return s->terms.at[0].atom;
    return intern(s->m, (sn_ix_rec){.kind = SN_IX_SUM, .c0 = s->c0, .n_terms = s->terms.n, .terms = s->terms.at});
}

static sn_ix combine(sn_module *m, sn_ix a, int64_t ca, sn_ix b, int64_t cb) {
    sn_ix_sum s;
    sn_ix_sum_begin(&s, m);
    sn_ix_sum_add(&s, ca, a);
    sn_ix_sum_add(&s, cb, b);
    return sn_ix_sum_end(&s);
}

sn_ix sn_ix_add(sn_module *m, sn_ix a, sn_ix b) { return combine(m, a, 1, b, 1); }
sn_ix sn_ix_sub(sn_module *m, sn_ix a, sn_ix b) { return combine(m, a, 1, b, -1); }

sn_ix sn_ix_scale(sn_module *m, sn_ix a, int64_t c) {
    if (c == 1) return a;
    sn_ix_sum s;
    sn_ix_sum_begin(&s, m);
    sn_ix_sum_add(&s, c, a);
    return sn_ix_sum_end(&s);
}

sn_ix sn_ix_addc(sn_module *m, sn_ix a, int64_t c) {
    if (c == 0) return a;
    sn_ix_sum s;
    sn_ix_sum_begin(&s, m);
    sn_ix_sum_add(&s, 1, a);
    sn_ix_sum_addc(&s, c);
    return sn_ix_sum_end(&s);
}

sn_ix sn_ix_fma(sn_module *m, int64_t c, sn_ix a, sn_ix e) {
    sn_ix_sum s;
    sn_ix_sum_begin(&s, m);
    sn_ix_sum_add(&s, c, a);
    sn_ix_sum_add(&s, 1, e);
    return sn_ix_sum_end(&s);
}

/* ---- products ---- */

/* Sizes and strides have a few terms; a power of a long sum would fill memory. */
enum { MAX_PRODUCT_TERMS = 4096 };

bool sn_ix_factors(sn_ix_mono *out, const sn_module *m, sn_ix atom) {
    out->n = 0;
    const sn_ix_rec *r = sn_ix_get(m, atom);
    for (; r->kind == SN_IX_PROD; atom = r->b, r = sn_ix_get(m, atom)) {
        if (out->n + 1 == SN_IX_MAX_FACTORS) return false;
        out->f[out->n++] = r->a;
    }
    out->f[out->n++] = atom;
    return true;
}

sn_ix sn_ix_from_factors(sn_module *m, const sn_ix_mono *p) {
    if (p->n == 0) return sn_ix_const(m, 1);
    sn_ix e = p->f[p->n - 1];
    for (uint32_t i = p->n - 1; i-- > 0;) e = sn_ix_atom(m, SN_IX_PROD, 0, p->f[i], e);
    return e;
}

/* Product of two atoms (or products): merges the sorted factors. */
static sn_ix mul_atoms(sn_module *m, sn_ix a, sn_ix b) {
    sn_ix_mono x, y, p = {.n = 0};
    if (!sn_ix_factors(&x, m, a) || !sn_ix_factors(&y, m, b) || x.n + y.n > SN_IX_MAX_FACTORS) {
        sn_fail(m->env, SN_ERROR_UNSUPPORTED, "index expression has a product of more than %d factors",
                SN_IX_MAX_FACTORS);
        return sn_ix_const(m, 0);
    }
    for (uint32_t i = 0, j = 0; i < x.n || j < y.n;)
        p.f[p.n++] = j == y.n || (i < x.n && x.f[i].i <= y.f[j].i) ? x.f[i++] : y.f[j++];
    return sn_ix_from_factors(m, &p);
}

sn_ix sn_ix_mul(sn_module *m, sn_ix a, sn_ix b) {
    int64_t c;
    if (sn_ix_is_const(m, a, &c)) return sn_ix_scale(m, b, c);
    if (sn_ix_is_const(m, b, &c)) return sn_ix_scale(m, a, c);
    const sn_ix_term *ta, *tb;
    sn_ix_term one_a, one_b;
    int64_t ca, cb;
    uint32_t na = sn_ix_terms(m, a, &ta, &ca, &one_a), nb = sn_ix_terms(m, b, &tb, &cb, &one_b);
    if ((uint64_t)na * nb > MAX_PRODUCT_TERMS) {
        sn_fail(m->env, SN_ERROR_UNSUPPORTED, "index expression has a product of %u by %u terms", na, nb);
        return sn_ix_const(m, 0);
    }
    sn_ix_sum s;
    sn_ix_sum_begin(&s, m);
    sn_ix_sum_add(&s, ca, b);
    for (uint32_t i = 0; i < na; i++) {
        if (sn_mul_overflow(ta[i].c, cb, &c)) s.overflow = true;
        else sn_ix_sum_add(&s, c, ta[i].atom);
        for (uint32_t j = 0; j < nb; j++) {
            if (sn_mul_overflow(ta[i].c, tb[j].c, &c)) s.overflow = true;
            else sn_ix_sum_add(&s, c, mul_atoms(m, ta[i].atom, tb[j].atom));
        }
    }
    return sn_ix_sum_end(&s);
}

sn_ix sn_ix_product(sn_module *m, const sn_ix *factors, uint32_t n) {
    sn_ix e = sn_ix_const(m, 1);
    for (uint32_t i = 0; i < n; i++) e = sn_ix_mul(m, e, factors[i]);
    return e;
}

/* ---- row-major order ---- */

sn_ix sn_ix_flatten(sn_module *m, const sn_ix *index, const sn_ix *shape, uint32_t n) {
    sn_ix stride = sn_ix_const(m, 1);
    sn_ix flat = sn_ix_const(m, 0);
    for (uint32_t i = n; i-- > 0;) {
        flat = sn_ix_add(m, flat, sn_ix_mul(m, index[i], stride));
        if (i) stride = sn_ix_mul(m, stride, shape[i]);
    }
    return flat;
}

/* The first subscript takes the whole quotient: no mod, since flat is inside the shape. */
void sn_ix_unflatten(sn_module *m, sn_ix flat, const sn_ix *shape, uint32_t n, sn_ix *out) {
    int64_t c;
    for (uint32_t i = n; i-- > 0;) {
        if (i == 0) {
            out[i] = flat;
        } else if (sn_ix_is_const(m, shape[i], &c) && c <= 1) {
            out[i] = sn_ix_const(m, 0); /* also an empty shape, which has no subscripts */
        } else {
            out[i] = sn_ix_mod(m, flat, shape[i]);
            flat = sn_ix_div(m, flat, shape[i]);
        }
    }
}

/* ---- axes and symbols ---- */

sn_axis sn_axis_new(sn_module *m, const char *name, sn_ix extent) {
    sn_axis ax = {sn_table_add(&m->axes)};
    *sn_axis_get(m, ax) = (sn_axis_rec){.extent = extent, .name = sn_strdup(&m->arena, name)};
    return ax;
}

sn_axis_rec *sn_axis_get(const sn_module *m, sn_axis ax) { return sn_table_at(&m->axes, ax.i); }

/* A module has a handful of symbols, so a scan is the table. */
sn_sym sn_sym_named(sn_module *m, const char *name) {
    for (sn_sym s = {1}; s.i < m->syms.count; s.i++)
        if (strcmp(sn_sym_get(m, s)->name, name) == 0) return s;
    sn_sym s = {sn_table_add(&m->syms)};
    sn_sym_get(m, s)->name = sn_strdup(&m->arena, name);
    return s;
}

sn_sym_rec *sn_sym_get(const sn_module *m, sn_sym s) { return sn_table_at(&m->syms, s.i); }
