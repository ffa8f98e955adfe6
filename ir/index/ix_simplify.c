/* ix_simplify.c: the rules of div, mod, min and max, and the one rewrite of sums that joins a div with its mod.
 *
 * e div k and e mod k take the same steps, so one function (`reduce`) finds for both
 *     e = k*q + g*x + low,  0 <= low < g,  g divides k
 * and then  e div k = q + x div (k/g)  and  e mod k = g*(x mod (k/g)) + low.  With g = k the rest is gone altogether.
 *   q    terms whose coefficients k divides            (8*i + j) div 4       -> 2*i + j div 4
 *   g=k  the rest lies within one block of k           (i in 0..3) div 4     -> 0
 *   g<k  common factor of the large terms              (4*q + v) div 32      -> q div 8     (v in 0..3)
 * The divisor may be symbolic (k > 0 is part of the contract): q comes from polynomial division, `low < g` from bounds
 * that may hold symbols. Relies on ranges and bounds of ix_query.c. Nothing here depends on the order of construction
 * beyond what the terms of the operands say.
 */
#include "ir/index/ix_build.h"

#include <stdlib.h>

/* ---- exact division ---- */

/* a / b for products of atoms; false when b has a factor that a has not. */
static bool divide_monos(sn_ix_mono *out, const sn_ix_mono *a, const sn_ix_mono *b) {
    uint32_t j = 0;
    out->n = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        if (j < b->n && a->f[i].i == b->f[j].i) j++;
        else out->f[out->n++] = a->f[i];
    }
    return j == b->n;
}

/* term / (c * p) when that is exact. */
static bool divide_term(sn_ix *out, sn_module *m, sn_ix_term term, int64_t c, const sn_ix_mono *p) {
    sn_ix_mono f, q;
    if (c == -1 || term.c % c != 0 || !sn_ix_factors(&f, m, term.atom) || !divide_monos(&q, &f, p)) return false;
    *out = sn_ix_scale(m, sn_ix_from_factors(m, &q), term.c / c);
    return true;
}

/* The term of highest degree leads a divisor; ties go to a positive coefficient, then to the smaller atom id. */
static bool leading_term(sn_ix_term *out, sn_ix_mono *p, const sn_module *m, sn_ix k) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(m, k, &terms, &c0, &one);
    p->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        sn_ix_mono f;
        if (!sn_ix_factors(&f, m, terms[i].atom)) return false;
        if (f.n > p->n || (f.n == p->n && out->c < 0)) *p = f, *out = terms[i];
    }
    return p->n > 0;
}

/* The first term of e that c * p divides, divided; none when there is no such term. */
static sn_ix divide_any_term(sn_module *m, sn_ix e, int64_t c, const sn_ix_mono *p) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(m, e, &terms, &c0, &one);
    sn_ix q = {0};
    for (uint32_t i = 0; i < n; i++)
        if (divide_term(&q, m, terms[i], c, p)) return q;
    return (sn_ix){0};
}

/* Polynomial division: e = q*k + rest with as many terms moved into q as k's leading term divides. Any q is right, so
 * the number of steps may be bounded, and an overflow on the way only ends it. */
static void divide_poly(sn_ix *q, sn_ix *rest, sn_module *m, sn_ix e, sn_ix k) {
    enum { MAX_STEPS = 32 };
    sn_ix_term lead = {0};
    sn_ix_mono p;
    *q = sn_ix_const(m, 0);
    *rest = e;
    if (!leading_term(&lead, &p, m, k)) return;
    for (int step = 0; step < MAX_STEPS; step++) {
        sn_ix part = divide_any_term(m, *rest, lead.c, &p);
        if (!part.i) return;
        sn_ix_trial t = sn_ix_trial_begin(m);
        sn_ix more = sn_ix_add(m, *q, part), less = sn_ix_sub(m, *rest, sn_ix_mul(m, part, k));
        if (!sn_ix_trial_end(t, m)) return;
        *q = more;
        *rest = less;
    }
}

/* e / k when k > 0 divides every term; none otherwise. */
static sn_ix exact_quotient(sn_module *m, sn_ix e, sn_ix k) {
    int64_t kc, c0;
    sn_ix q, rest;
    if (!sn_ix_is_const(m, k, &kc)) {
        divide_poly(&q, &rest, m, e, k);
        return sn_ix_is_const(m, rest, &c0) && c0 == 0 ? q : (sn_ix){0};
    }
    const sn_ix_term *terms;
    sn_ix_term one;
    uint32_t n = sn_ix_terms(m, e, &terms, &c0, &one);
    if (c0 % kc != 0) return (sn_ix){0};
    sn_ix_sum s;
    sn_ix_sum_begin(&s, m);
    sn_ix_sum_addc(&s, c0 / kc);
    for (uint32_t i = 0; i < n; i++) {
        if (terms[i].c % kc != 0) return (sn_ix){0};
        sn_ix_sum_add(&s, terms[i].c / kc, terms[i].atom);
    }
    return sn_ix_sum_end(&s);
}

/* ---- the common form of div and mod ---- */

typedef struct division {
    sn_ix q;         /* whole part */
    sn_ix x, g, low; /* rest = g*x + low when the rest could be divided by g > 1; g none: it could not */
    sn_ix rest;
} division;

/* Split the rest by a constant g: x from the terms that g divides, low from the others; fails when low may leave one
 * block of g. */
static bool split_rest(division *d, sn_module *m, int64_t g) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(m, d->rest, &terms, &c0, &one);
    sn_ix_sum x, low;
    sn_ix_sum_begin(&x, m);
    sn_ix_sum_begin(&low, m);
    for (uint32_t i = 0; i < n; i++) {
        if (terms[i].c % g == 0) sn_ix_sum_add(&x, terms[i].c / g, terms[i].atom);
        else SN_PUSH(&m->arena, &low.terms, terms[i]);
    }
    low.c0 = sn_floor_mod(c0, g);
    sn_range r = sn_ix_terms_range(m, low.c0, low.terms.at, low.terms.n);
    if (r.lo == INT64_MIN || r.hi == INT64_MAX) return false;
    int64_t block = sn_floor_div(r.lo, g), shift;
    if (block != sn_floor_div(r.hi, g) || sn_mul_overflow(block, -g, &shift)) return false;
    sn_ix_sum_addc(&x, sn_floor_div(c0, g));
    sn_ix_sum_addc(&x, block);
    sn_ix_sum_addc(&low, shift);
    d->g = sn_ix_const(m, g);
    d->x = sn_ix_sum_end(&x);
    d->low = sn_ix_sum_end(&low);
    return true;
}

static int by_size(const void *x, const void *y) {
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a < b) - (a > b);
}

/* Try g = k (when constant) and the common divisors of `content` with the largest coefficients, largest first. */
static bool split_by_constants(division *d, sn_module *m, int64_t content, bool whole) {
    enum { MAX_TERMS = 32 };
    uint64_t sizes[MAX_TERMS];
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(m, d->rest, &terms, &c0, &one);
    if (whole && split_rest(d, m, content)) return true;
    if (n > MAX_TERMS) return false;
    for (uint32_t i = 0; i < n; i++) sizes[i] = terms[i].c < 0 ? 0 - (uint64_t)terms[i].c : (uint64_t)terms[i].c;
    qsort(sizes, n, sizeof *sizes, by_size);
    int64_t g = content;
    for (uint32_t i = 0; i < n && g > 1; i++) {
        int64_t next = sn_gcd(g, (int64_t)sizes[i]);
        bool is_new = next != g || (i == 0 && !whole);
        g = next;
        if (is_new && g > 1 && split_rest(d, m, g)) return true;
    }
    return false;
}

/* Greatest common divisor of all coefficients and the constant. */
static int64_t content_of(const sn_module *m, sn_ix e) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t g;
    uint32_t n = sn_ix_terms(m, e, &terms, &g, &one);
    g = sn_gcd(g, 0);
    for (uint32_t i = 0; i < n && g != 1; i++) g = sn_gcd(g, terms[i].c);
    return g;
}

/* Factors that two products share. */
static void common_factors(sn_ix_mono *out, const sn_ix_mono *a, const sn_ix_mono *b) {
    out->n = 0;
    for (uint32_t i = 0, j = 0; i < a->n && j < b->n;) {
        if (a->f[i].i == b->f[j].i) out->f[out->n++] = a->f[i], i++, j++;
        else if (a->f[i].i < b->f[j].i) i++;
        else j++;
    }
}

/* The rest split by a symbolic factor g of a one-term divisor: N*i + j by N*M with j < N. */
static bool split_by_factor(division *d, sn_module *m, const sn_ix_mono *g) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(m, d->rest, &terms, &c0, &one);
    sn_ix_sum x, low;
    sn_ix_sum_begin(&x, m);
    sn_ix_sum_begin(&low, m);
    sn_ix_sum_addc(&low, c0);
    for (uint32_t i = 0; i < n; i++) {
        sn_ix part;
        if (divide_term(&part, m, terms[i], 1, g)) sn_ix_sum_add(&x, 1, part);
        else sn_ix_sum_add(&low, terms[i].c, terms[i].atom);
    }
    sn_ix factor = sn_ix_from_factors(m, g), low_ix = sn_ix_sum_end(&low);
    if (!sn_ix_in_divisor(m, low_ix, factor)) return false;
    d->g = factor;
    d->x = sn_ix_sum_end(&x);
    d->low = low_ix;
    return true;
}

static bool split_by_factors(division *d, sn_module *m, sn_ix k) {
    const sn_ix_term *terms;
    sn_ix_term one, k_one;
    int64_t c0;
    sn_ix_mono pk, p, g;
    if (sn_ix_terms(m, k, &terms, &c0, &k_one) != 1 || c0 != 0 || !sn_ix_factors(&pk, m, terms[0].atom)) return false;
    uint32_t n = sn_ix_terms(m, d->rest, &terms, &c0, &one);
    for (uint32_t i = 0; i < n; i++) {
        if (!sn_ix_factors(&p, m, terms[i].atom)) continue;
        common_factors(&g, &p, &pk);
        if (g.n && split_by_factor(d, m, &g)) return true;
    }
    return false;
}

/* Is the rest in 0 .. k-1 (or just below 0, one block down)? Then the division is done. */
static bool rest_in_block(division *d, sn_module *m, sn_ix k) {
    sn_ix low = d->rest;
    int64_t block = 0;
    if (!sn_ix_in_divisor(m, low, k)) {
        sn_ix_trial t = sn_ix_trial_begin(m);
        low = sn_ix_add(m, low, k);
        block = -1;
        if (!sn_ix_trial_end(t, m) || !sn_ix_in_divisor(m, low, k)) return false;
    }
    d->g = k;
    d->x = sn_ix_const(m, block);
    d->low = low;
    return true;
}

static void reduce_by_const(division *d, sn_module *m, sn_ix e, int64_t k) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(m, e, &terms, &c0, &one);
    sn_ix_sum q, rest;
    sn_ix_sum_begin(&q, m);
    sn_ix_sum_begin(&rest, m);
    sn_ix_sum_addc(&q, sn_floor_div(c0, k));
    sn_ix_sum_addc(&rest, sn_floor_mod(c0, k));
    for (uint32_t i = 0; i < n; i++) {
        if (terms[i].c % k == 0) sn_ix_sum_add(&q, terms[i].c / k, terms[i].atom);
        else sn_ix_sum_add(&rest, terms[i].c, terms[i].atom);
    }
    d->q = sn_ix_sum_end(&q);
    d->rest = sn_ix_sum_end(&rest);
    split_by_constants(d, m, k, true);
}

static void reduce_by_symbol(division *d, sn_module *m, sn_ix e, sn_ix k) {
    d->q = sn_ix_const(m, 0);
    d->rest = e;
    if (rest_in_block(d, m, k)) return;
    divide_poly(&d->q, &d->rest, m, e, k);
    if (rest_in_block(d, m, k)) return;
    int64_t content = content_of(m, k);
    if (content > 1 && split_by_constants(d, m, content, false)) return;
    split_by_factors(d, m, k);
}

/* A divisor that is a constant must be positive: 0 or less is an error of whoever wrote the text. */
static bool check_divisor(sn_module *m, const char *what, sn_ix k, int64_t *kc) {
    *kc = 0;
    if (!sn_ix_is_const(m, k, kc) || *kc > 0) return true;
    sn_fail(m->env, SN_ERROR_ARGUMENT, "index expression: %s by %lld (must be positive)", what, (long long)*kc);
    return false;
}

static division reduce(sn_module *m, sn_ix e, sn_ix k, int64_t kc) {
    division d = {0};
    if (kc) reduce_by_const(&d, m, e, kc);
    else reduce_by_symbol(&d, m, e, k);
    return d;
}

/* The rest as 1*atom + c0 with an atom of that kind, or NULL. */
static const sn_ix_rec *lone_atom(const sn_module *m, sn_ix e, sn_ix_kind kind, int64_t *c0) {
    const sn_ix_term *terms;
    sn_ix_term one;
    if (sn_ix_terms(m, e, &terms, c0, &one) != 1 || terms[0].c != 1) return NULL;
    const sn_ix_rec *r = sn_ix_get(m, terms[0].atom);
    return r->kind == kind ? r : NULL;
}

/* a * b unless that overflows (then none). */
static sn_ix try_mul(sn_module *m, sn_ix a, sn_ix b) {
    sn_ix_trial t = sn_ix_trial_begin(m);
    sn_ix e = sn_ix_mul(m, a, b);
    return sn_ix_trial_end(t, m) ? e : (sn_ix){0};
}

/* div of a rest that no factor splits. */
static sn_ix div_rest(sn_module *m, sn_ix e, sn_ix k) {
    int64_t c0;
    const sn_ix_rec *r = lone_atom(m, e, SN_IX_DIV, &c0);
    if (r) { /* (x div a + c0) div k = (x + c0*a) div (a*k) */
        sn_ix ak = try_mul(m, r->b, k), shift = try_mul(m, r->b, sn_ix_const(m, c0));
        if (ak.i && shift.i) return sn_ix_div(m, sn_ix_add(m, r->a, shift), ak);
    }
    r = lone_atom(m, e, SN_IX_MOD, &c0);
    if (r && c0 == 0) { /* (x mod a*k) div k = (x div k) mod a */
        sn_ix a = exact_quotient(m, r->b, k);
        if (a.i) return sn_ix_mod(m, sn_ix_div(m, r->a, k), a);
    }
    return sn_ix_atom(m, SN_IX_DIV, 0, e, k);
}

/* mod of a rest that no factor splits. */
static sn_ix mod_rest(sn_module *m, sn_ix e, sn_ix k) {
    int64_t c0;
    const sn_ix_rec *r = lone_atom(m, e, SN_IX_MOD, &c0);
    if (r && c0 == 0 && exact_quotient(m, r->b, k).i) return sn_ix_mod(m, r->a, k);
    return sn_ix_atom(m, SN_IX_MOD, 0, e, k);
}

sn_ix sn_ix_div(sn_module *m, sn_ix a, sn_ix k) {
    int64_t kc;
    if (!check_divisor(m, "div", k, &kc)) return sn_ix_const(m, 0);
    if (kc == 1) return a;
    division d = reduce(m, a, k, kc);
    if (!d.g.i) return sn_ix_add(m, d.q, div_rest(m, d.rest, k));
    if (sn_ix_eq(d.g, k)) return sn_ix_add(m, d.q, d.x);
    return sn_ix_add(m, d.q, sn_ix_div(m, d.x, exact_quotient(m, k, d.g)));
}

sn_ix sn_ix_mod(sn_module *m, sn_ix a, sn_ix k) {
    int64_t kc;
    if (!check_divisor(m, "mod", k, &kc) || kc == 1) return sn_ix_const(m, 0);
    division d = reduce(m, a, k, kc);
    if (!d.g.i) return mod_rest(m, d.rest, k);
    if (sn_ix_eq(d.g, k)) return d.low;
    sn_ix high = sn_ix_mod(m, d.x, exact_quotient(m, k, d.g));
    return sn_ix_add(m, sn_ix_mul(m, d.g, high), d.low);
}

sn_ix sn_ix_divc(sn_module *m, sn_ix a, int64_t k) { return sn_ix_div(m, a, sn_ix_const(m, k)); }
sn_ix sn_ix_modc(sn_module *m, sn_ix a, int64_t k) { return sn_ix_mod(m, a, sn_ix_const(m, k)); }

sn_ix sn_ix_ceildiv(sn_module *m, sn_ix a, sn_ix k) { return sn_ix_div(m, sn_ix_addc(m, sn_ix_add(m, a, k), -1), k); }

/* ---- min and max ---- */

/* The smaller of two when that is provable for all values; none otherwise. */
static sn_ix provably_smaller(sn_module *m, sn_ix a, sn_ix b) {
    sn_range ra = sn_ix_range(m, a), rb = sn_ix_range(m, b);
    if (ra.hi <= rb.lo) return a;
    if (rb.hi <= ra.lo) return b;
    sn_ix_trial t = sn_ix_trial_begin(m);
    sn_range d = sn_ix_range(m, sn_ix_sub(m, a, b));
    if (!sn_ix_trial_end(t, m)) return (sn_ix){0};
    return d.hi <= 0 ? a : d.lo >= 0 ? b : (sn_ix){0};
}

/* min(a, min(a, b)): the outer one adds nothing. */
static bool absorbs(const sn_module *m, sn_ix_kind kind, sn_ix a, sn_ix b) {
    const sn_ix_rec *r = sn_ix_get(m, a);
    return r->kind == kind && (sn_ix_eq(r->a, b) || sn_ix_eq(r->b, b));
}

static sn_ix extremum(sn_module *m, sn_ix_kind kind, sn_ix a, sn_ix b) {
    if (sn_ix_eq(a, b) || absorbs(m, kind, a, b)) return a;
    if (absorbs(m, kind, b, a)) return b;
    sn_ix small = provably_smaller(m, a, b);
    if (small.i) return sn_ix_eq(small, a) == (kind == SN_IX_MIN) ? a : b;
    return a.i < b.i ? sn_ix_atom(m, kind, 0, a, b) : sn_ix_atom(m, kind, 0, b, a);
}

sn_ix sn_ix_min(sn_module *m, sn_ix a, sn_ix b) { return extremum(m, SN_IX_MIN, a, b); }
sn_ix sn_ix_max(sn_module *m, sn_ix a, sn_ix b) { return extremum(m, SN_IX_MAX, a, b); }

/* ---- joining div and mod in a sum ---- */

static int64_t coefficient_of(const sn_ix_sum *s, sn_ix atom) {
    uint32_t lo = 0, hi = s->terms.n;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (s->terms.at[mid].atom.i < atom.i) lo = mid + 1;
        else hi = mid;
    }
    return lo < s->terms.n && s->terms.at[lo].atom.i == atom.i ? s->terms.at[lo].c : 0;
}

/* A term read as scale * mod, where scale holds its coefficient and the other factors of its product. */
typedef struct mod_term {
    sn_ix_term term;
    const sn_ix_rec *mod;
    sn_ix atom, scale;
} mod_term;

/* Reads the term with its number-th factor as the mod; false when that factor is none. */
static bool read_mod(mod_term *out, sn_module *m, sn_ix_term term, uint32_t number) {
    sn_ix_mono p;
    if (!sn_ix_factors(&p, m, term.atom)) return false;
    *out = (mod_term){.term = term, .mod = sn_ix_get(m, p.f[number]), .atom = p.f[number]};
    if (out->mod->kind != SN_IX_MOD) return false;
    for (p.n--; number < p.n; number++) p.f[number] = p.f[number + 1];
    out->scale = p.n ? sn_ix_scale(m, sn_ix_from_factors(m, &p), term.c) : sn_ix_const(m, term.c);
    return true;
}

static uint32_t factor_count(const sn_module *m, sn_ix atom) {
    uint32_t n = 1;
    for (const sn_ix_rec *r = sn_ix_get(m, atom); r->kind == SN_IX_PROD; r = sn_ix_get(m, r->b)) n++;
    return n;
}

/* Replace the term and `part` by scale * joined, if all terms of part are in s with the coefficients that they have. */
static bool join(sn_ix_sum *s, const mod_term *t, sn_ix part, sn_ix joined) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(s->m, part, &terms, &c0, &one);
    if (n == 0 || c0 != 0 || t->term.c == INT64_MIN) return false;
    for (uint32_t i = 0; i < n; i++)
        if (terms[i].c == INT64_MIN || coefficient_of(s, terms[i].atom) != terms[i].c) return false;
    sn_ix with = try_mul(s->m, t->scale, joined);
    if (!with.i) return false;
    sn_ix_sum_add(s, -1, part);
    sn_ix_sum_add(s, -t->term.c, t->term.atom);
    sn_ix_sum_add(s, 1, with);
    return true;
}

/* a*b*c, or none when that overflows. */
static sn_ix try_mul3(sn_module *m, sn_ix a, sn_ix b, sn_ix c) {
    sn_ix ab = try_mul(m, a, b);
    return ab.i ? try_mul(m, ab, c) : ab;
}

/* The quotient of t's mod as it was when first asked for: what rules joins out. Extents of axes may have changed since, so what joins asks
 * again. */
static sn_ix quotient_before(sn_module *m, const mod_term *t) {
    if (!t->mod->quotient.i) {
        sn_ix quotient = sn_ix_div(m, t->mod->a, t->mod->b);
        ((sn_ix_rec *)sn_table_at(&m->ixs, t->atom.i))->quotient = quotient;
    }
    return t->mod->quotient;
}

/* Where scale and k are constants, scale * k * quotient is what the quotient is, each term times c = scale * k. */
static bool may_hold_quotient(const sn_ix_sum *s, const mod_term *t, sn_ix quotient) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c, scale, k, c0;
    if (!sn_ix_is_const(s->m, t->scale, &scale) || !sn_ix_is_const(s->m, t->mod->b, &k)) return true;
    if (sn_mul_overflow(scale, k, &c)) return false;
    uint32_t n = sn_ix_terms(s->m, quotient, &terms, &c0, &one);
    for (uint32_t i = 0; i < n; i++) {
        int64_t wanted;
        if (sn_mul_overflow(c, terms[i].c, &wanted) || coefficient_of(s, terms[i].atom) != wanted) return false;
    }
    return n > 0 && c0 == 0;
}

/* c*(k*(e div k) + e mod k) -> c*e */
static bool join_div(sn_ix_sum *s, const mod_term *t) {
    if (!may_hold_quotient(s, t, quotient_before(s->m, t))) return false;
    sn_ix part = try_mul3(s->m, t->scale, t->mod->b, sn_ix_div(s->m, t->mod->a, t->mod->b));
    return part.i && join(s, t, part, t->mod->a);
}

/* c*(k*((e div k) mod a) + e mod k) -> c*(e mod a*k), with the mod on the left found in the sum. */
static bool join_mods(sn_ix_sum *s, const mod_term *t, sn_ix other) {
    const sn_ix_rec *mod = sn_ix_get(s->m, other);
    if (mod->kind != SN_IX_MOD || !sn_ix_eq(mod->a, quotient_before(s->m, t)) ||
        !sn_ix_eq(mod->a, sn_ix_div(s->m, t->mod->a, t->mod->b)))
        return false;
    sn_ix part = try_mul3(s->m, t->scale, t->mod->b, other);
    sn_ix modulus = try_mul(s->m, mod->b, t->mod->b);
    return part.i && modulus.i && join(s, t, part, sn_ix_mod(s->m, t->mod->a, modulus));
}

static bool join_mod(sn_ix_sum *s, const mod_term *t) {
    for (uint32_t i = 0; i < s->terms.n; i++) {
        sn_ix_mono p;
        if (sn_ix_eq(s->terms.at[i].atom, t->term.atom) || !sn_ix_factors(&p, s->m, s->terms.at[i].atom)) continue;
        while (p.n-- > 0)
            if (join_mods(s, t, p.f[p.n])) return true;
    }
    return false;
}

/* Joining needs a mod and something that holds its div: most sums are ruled out by this. */
static bool may_join(const sn_ix_sum *s) {
    uint32_t mods = 0, partners = 0;
    for (uint32_t i = 0; i < s->terms.n; i++) {
        sn_ix_kind kind = sn_ix_get(s->m, s->terms.at[i].atom)->kind;
        mods += kind == SN_IX_MOD || kind == SN_IX_PROD;
        partners += kind == SN_IX_DIV || kind == SN_IX_MOD || kind == SN_IX_PROD;
    }
    return mods > 0 && partners > 1;
}

bool sn_ix_recombine(sn_ix_sum *s) {
    if (!may_join(s)) return false;
    for (uint32_t i = 0; i < s->terms.n; i++)
        for (uint32_t number = factor_count(s->m, s->terms.at[i].atom); number-- > 0;) {
            mod_term t;
            if (read_mod(&t, s->m, s->terms.at[i], number) && (join_div(s, &t) || join_mod(s, &t))) return true;
        }
    return false;
}
