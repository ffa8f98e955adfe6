/* ix_query.c: questions about index expressions: ranges, bounds, multiples, coefficients of an axis, occurrences,
 * values.
 *
 * A range is a pair of integers; a bound is an expression over symbols, used where extents are symbolic: the upper
 * bound of N*i + j with i < M, j < N is N*M - 1. Nothing here changes an expression; bounds may add records.
 */
#include "ir/index/ix_build.h"

/* ---- range arithmetic ---- */

static const sn_range UNKNOWN = {INT64_MIN, INT64_MAX};

static int64_t clamp128(__int128 x) { return x <= INT64_MIN ? INT64_MIN : x >= INT64_MAX ? INT64_MAX : (int64_t)x; }

static bool infinite(int64_t x) { return x == INT64_MIN || x == INT64_MAX; }

/* Product of two limits; 0 * infinity is 0 because the limit 0 is reached. */
static int64_t limit_mul(int64_t a, int64_t b) {
    if (a == 0 || b == 0) return 0;
    if (infinite(a) || infinite(b)) return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
    return clamp128((__int128)a * b);
}

sn_range sn_range_add(sn_range a, sn_range b) {
    sn_range r = UNKNOWN;
    if (a.lo != INT64_MIN && b.lo != INT64_MIN && sn_add_overflow(a.lo, b.lo, &r.lo)) r.lo = INT64_MIN;
    if (a.hi != INT64_MAX && b.hi != INT64_MAX && sn_add_overflow(a.hi, b.hi, &r.hi)) r.hi = INT64_MAX;
    return r;
}

/* A lower limit that saturated upwards (or the reverse) would claim too much: weaken it. */
static sn_range weaken(sn_range r) {
    if (r.lo == INT64_MAX) r.lo = INT64_MIN;
    if (r.hi == INT64_MIN) r.hi = INT64_MAX;
    return r;
}

sn_range sn_range_scale(sn_range a, int64_t c) {
    int64_t x = limit_mul(a.lo, c), y = limit_mul(a.hi, c);
    return weaken(c < 0 ? (sn_range){y, x} : (sn_range){x, y});
}

static sn_range range_mul(sn_range a, sn_range b) {
    int64_t x[4] = {limit_mul(a.lo, b.lo), limit_mul(a.lo, b.hi), limit_mul(a.hi, b.lo), limit_mul(a.hi, b.hi)};
    sn_range r = {x[0], x[0]};
    for (int i = 1; i < 4; i++) {
        if (x[i] < r.lo) r.lo = x[i];
        if (x[i] > r.hi) r.hi = x[i];
    }
    return weaken(r);
}

static int64_t limit_div(int64_t a, int64_t k) {
    if (k == INT64_MAX) return a < 0 ? -1 : 0;
    return infinite(a) ? a : sn_floor_div(a, k);
}

/* Divisors are positive. */
static sn_range divisor_range(sn_module *m, sn_ix k) {
    sn_range r = sn_ix_range(m, k);
    if (r.lo < 1) r.lo = 1;
    if (r.hi < r.lo) r.hi = r.lo;
    return r;
}

static sn_range range_div(sn_range a, sn_range k) {
    return (sn_range){limit_div(a.lo, a.lo < 0 ? k.lo : k.hi), limit_div(a.hi, a.hi < 0 ? k.hi : k.lo)};
}

static sn_range range_mod(sn_range a, sn_range k) {
    sn_range r = {0, k.hi == INT64_MAX ? INT64_MAX : k.hi - 1};
    if (a.lo >= 0 && a.hi < r.hi) r.hi = a.hi;
    return r;
}

static sn_range axis_range(sn_module *m, uint32_t id) {
    sn_range r = {0, INT64_MAX}, extent = sn_ix_range(m, sn_axis_get(m, (sn_axis){id})->extent);
    if (extent.hi != INT64_MAX) r.hi = extent.hi > 0 ? extent.hi - 1 : 0;
    return r;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

sn_range sn_ix_terms_range(sn_module *m, int64_t c0, const sn_ix_term *terms, uint32_t n) {
    sn_range r = {c0, c0};
    for (uint32_t i = 0; i < n; i++) r = sn_range_add(r, sn_range_scale(sn_ix_range(m, terms[i].atom), terms[i].c));
    return r;
}

sn_range sn_ix_range(sn_module *m, sn_ix e) {
    const sn_ix_rec *r = sn_ix_get(m, e);
    sn_range a, b;
    switch (r->kind) {
    case SN_IX_SUM: return sn_ix_terms_range(m, r->c0, r->terms, r->n_terms);
    case SN_IX_AXIS: return axis_range(m, r->id);
    case SN_IX_SYM: return (sn_range){0, INT64_MAX};
    case SN_IX_VAL: return UNKNOWN;
    case SN_IX_DIV: return range_div(sn_ix_range(m, r->a), divisor_range(m, r->b));
    case SN_IX_MOD: return range_mod(sn_ix_range(m, r->a), divisor_range(m, r->b));
    case SN_IX_PROD: return range_mul(sn_ix_range(m, r->a), sn_ix_range(m, r->b));
    case SN_IX_MIN:
        a = sn_ix_range(m, r->a), b = sn_ix_range(m, r->b);
        return (sn_range){least(a.lo, b.lo), least(a.hi, b.hi)};
    case SN_IX_MAX:
        a = sn_ix_range(m, r->a), b = sn_ix_range(m, r->b);
        return (sn_range){most(a.lo, b.lo), most(a.hi, b.hi)};
    }
    return UNKNOWN;
}

/* ---- symbolic bounds ---- */

static sn_ix bound(sn_module *m, sn_ix e, bool upper);

/* A product is monotone in its factors when none is negative. */
static sn_ix bound_product(sn_module *m, sn_ix e, bool upper) {
    const sn_ix_rec *r = sn_ix_get(m, e);
    if (sn_ix_range(m, r->a).lo < 0 || sn_ix_range(m, r->b).lo < 0) return e;
    return sn_ix_mul(m, bound(m, r->a, upper), bound(m, r->b, upper));
}

/* Monotone in what is divided. Rebuilt only when that changed: the constructor asks for bounds in turn. */
static sn_ix bound_div(sn_module *m, sn_ix e, bool upper) {
    const sn_ix_rec *r = sn_ix_get(m, e);
    sn_ix a = bound(m, r->a, upper);
    return sn_ix_eq(a, r->a) ? e : sn_ix_div(m, a, r->b);
}

static sn_ix bound_sum(sn_module *m, const sn_ix_rec *r, bool upper) {
    sn_ix_sum s;
    sn_ix_sum_begin(&s, m);
    sn_ix_sum_addc(&s, r->c0);
    for (uint32_t i = 0; i < r->n_terms; i++)
        sn_ix_sum_add(&s, r->terms[i].c, bound(m, r->terms[i].atom, (r->terms[i].c > 0) == upper));
    return sn_ix_sum_end(&s);
}

/* An expression without axes that is >= e (upper) or <= e (lower) for all values of the axes; where none is known,
 * e. */
static sn_ix bound(sn_module *m, sn_ix e, bool upper) {
    const sn_ix_rec *r = sn_ix_get(m, e);
    switch (r->kind) {
    case SN_IX_SUM: return bound_sum(m, r, upper);
    case SN_IX_PROD: return bound_product(m, e, upper);
    case SN_IX_DIV: return bound_div(m, e, upper);
    case SN_IX_MOD: return upper ? sn_ix_addc(m, r->b, -1) : sn_ix_const(m, 0);
    case SN_IX_AXIS:
        return upper ? sn_ix_addc(m, bound(m, sn_axis_get(m, (sn_axis){r->id})->extent, true), -1) : sn_ix_const(m, 0);
    case SN_IX_SYM:
    case SN_IX_MIN:
    case SN_IX_MAX:
    case SN_IX_VAL: return e;
    }
    return e;
}

/* Is e >= floor provable, where e is first replaced by its lower bound? */
static bool at_least(sn_module *m, sn_ix e, sn_ix floor) {
    sn_ix_trial t = sn_ix_trial_begin(m);
    int64_t lo = sn_ix_range(m, sn_ix_sub(m, bound(m, e, false), floor)).lo;
    return sn_ix_trial_end(t, m) && lo >= 0;
}

/* e >= 0; `k` none, or known to be positive: then k - 1 is not negative either. */
static bool not_negative(sn_module *m, sn_ix e, sn_ix k) {
    if (sn_ix_range(m, e).lo >= 0) return true;
    const sn_ix_rec *r = sn_ix_get(m, e);
    if (r->kind == SN_IX_MIN) return not_negative(m, r->a, k) && not_negative(m, r->b, k);
    if (r->kind == SN_IX_MAX) return not_negative(m, r->a, k) || not_negative(m, r->b, k);
    return at_least(m, e, sn_ix_const(m, 0)) || (k.i && at_least(m, e, sn_ix_addc(m, k, -1)));
}

/* e < n, where n is known to be at least n_min. */
static bool below(sn_module *m, sn_ix e, sn_ix n, int64_t n_min) {
    if (sn_ix_range(m, e).hi < most(n_min, sn_ix_range(m, n).lo)) return true;
    const sn_ix_rec *r = sn_ix_get(m, e);
    if (r->kind == SN_IX_MIN) return below(m, r->a, n, n_min) || below(m, r->b, n, n_min);
    if (r->kind == SN_IX_MAX) return below(m, r->a, n, n_min) && below(m, r->b, n, n_min);
    sn_ix_trial t = sn_ix_trial_begin(m);
    int64_t lo = sn_ix_range(m, sn_ix_sub(m, n, bound(m, e, true))).lo;
    return sn_ix_trial_end(t, m) && lo > 0;
}

bool sn_ix_in(sn_module *m, sn_ix e, sn_ix n) { return not_negative(m, e, (sn_ix){0}) && below(m, e, n, INT64_MIN); }

bool sn_ix_in_divisor(sn_module *m, sn_ix e, sn_ix k) { return not_negative(m, e, k) && below(m, e, k, 1); }

/* ---- multiples ---- */

static bool atom_is_multiple(sn_module *m, sn_ix e, int64_t k) {
    if (k == 1) return true;
    const sn_ix_rec *r = sn_ix_get(m, e);
    sn_range range = sn_ix_range(m, e);
    if (range.lo == range.hi) return range.lo % k == 0;
    switch (r->kind) {
    case SN_IX_MOD:
    case SN_IX_MIN:
    case SN_IX_MAX: return sn_ix_is_multiple(m, r->a, k) && sn_ix_is_multiple(m, r->b, k);
    case SN_IX_PROD: return sn_ix_is_multiple(m, r->a, k) || sn_ix_is_multiple(m, r->b, k);
    case SN_IX_SUM:
    case SN_IX_AXIS:
    case SN_IX_SYM:
    case SN_IX_DIV:
    case SN_IX_VAL: return false;
    }
    return false;
}

/* What differs from e by a multiple of k: c*mod(a, b) becomes c*a where c*b is one. */
static sn_ix without_mods(sn_module *m, sn_ix e, int64_t k) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0, b;
    uint32_t n = sn_ix_terms(m, e, &terms, &c0, &one);
    sn_ix_sum s;
    sn_ix_sum_begin(&s, m);
    sn_ix_sum_addc(&s, c0);
    for (uint32_t i = 0; i < n; i++) {
        const sn_ix_rec *r = sn_ix_get(m, terms[i].atom);
        bool same = r->kind == SN_IX_MOD && sn_ix_is_const(m, r->b, &b) && b % (k / sn_gcd(terms[i].c, k)) == 0;
        sn_ix_sum_add(&s, terms[i].c, same ? r->a : terms[i].atom);
    }
    return sn_ix_sum_end(&s);
}

bool sn_ix_is_multiple(sn_module *m, sn_ix e, int64_t k) {
    SN_ASSERT(k > 0);
    sn_ix_trial t = sn_ix_trial_begin(m);
    sn_ix plain = without_mods(m, e, k);
    if (sn_ix_trial_end(t, m) && !sn_ix_eq(plain, e)) return sn_ix_is_multiple(m, plain, k);
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(m, e, &terms, &c0, &one);
    if (c0 % k != 0) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!atom_is_multiple(m, terms[i].atom, k / sn_gcd(terms[i].c, k))) return false;
    return true;
}

/* ---- coefficients of an axis ---- */

/* The atom as ax * (*others); false when the axis occurs in it in any other way. */
static bool split_atom(sn_ix *others, sn_module *m, sn_ix atom, sn_axis ax) {
    sn_ix_mono p, rest = {.n = 0};
    if (!sn_ix_factors(&p, m, atom)) return false;
    uint32_t found = 0;
    for (uint32_t i = 0; i < p.n; i++) {
        const sn_ix_rec *r = sn_ix_get(m, p.f[i]);
        if (r->kind == SN_IX_AXIS && r->id == ax.i) found++;
        else if (sn_ix_uses_axis(m, p.f[i], ax)) return false;
        else rest.f[rest.n++] = p.f[i];
    }
    *others = sn_ix_from_factors(m, &rest);
    return found == 1;
}

bool sn_ix_split(sn_module *m, sn_ix e, sn_axis ax, sn_ix *coefficient, sn_ix *rest) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(m, e, &terms, &c0, &one);
    sn_ix_sum c, r;
    sn_ix_sum_begin(&c, m);
    sn_ix_sum_begin(&r, m);
    sn_ix_sum_addc(&r, c0);
    for (uint32_t i = 0; i < n; i++) {
        sn_ix others;
        if (!sn_ix_uses_axis(m, terms[i].atom, ax)) sn_ix_sum_add(&r, terms[i].c, terms[i].atom);
        else if (split_atom(&others, m, terms[i].atom, ax)) sn_ix_sum_add(&c, terms[i].c, others);
        else return false;
    }
    *coefficient = sn_ix_sum_end(&c);
    *rest = sn_ix_sum_end(&r);
    return true;
}

bool sn_ix_coef(sn_module *m, sn_ix e, sn_axis ax, int64_t *out) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(m, e, &terms, &c0, &one);
    *out = 0;
    for (uint32_t i = 0; i < n; i++) {
        const sn_ix_rec *r = sn_ix_get(m, terms[i].atom);
        if (r->kind == SN_IX_AXIS && r->id == ax.i) *out = terms[i].c;
        else if (sn_ix_uses_axis(m, terms[i].atom, ax)) return false;
    }
    return true;
}

bool sn_ix_run(sn_module *m, sn_ix e, sn_axis ax, int64_t *step, void (*end)(void *user, sn_ix a, int64_t k),
               void *user) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0, k, inner;
    uint32_t n = sn_ix_terms(m, e, &terms, &c0, &one);
    *step = 0;
    for (uint32_t i = 0; i < n; i++) {
        const sn_ix_rec *r = sn_ix_get(m, terms[i].atom);
        if (!sn_ix_uses_axis(m, terms[i].atom, ax)) continue;
        if (r->kind == SN_IX_AXIS) {
            *step += terms[i].c;
            continue;
        }
        if ((r->kind != SN_IX_DIV && r->kind != SN_IX_MOD) || !sn_ix_is_const(m, r->b, &k)) return false;
        if (!sn_ix_run(m, r->a, ax, &inner, end, user) || inner < 0 || inner > 1) return false;
        if (inner && end) end(user, r->a, k);
        if (r->kind == SN_IX_MOD) *step += inner * terms[i].c;
    }
    return true;
}

/* ---- occurrences ---- */

static bool uses(const sn_module *m, sn_ix e, sn_ix_kind kind, uint32_t id) {
    const sn_ix_rec *r = sn_ix_get(m, e);
    switch (r->kind) {
    case SN_IX_SUM:
        for (uint32_t i = 0; i < r->n_terms; i++)
            if (uses(m, r->terms[i].atom, kind, id)) return true;
        return false;
    case SN_IX_AXIS:
    case SN_IX_SYM:
    case SN_IX_VAL: return r->kind == kind && (id == 0 || r->id == id);
    case SN_IX_DIV:
    case SN_IX_MOD:
    case SN_IX_MIN:
    case SN_IX_MAX:
    case SN_IX_PROD: return uses(m, r->a, kind, id) || uses(m, r->b, kind, id);
    }
    return false;
}

bool sn_ix_uses_axis(const sn_module *m, sn_ix e, sn_axis ax) { return uses(m, e, SN_IX_AXIS, ax.i); }
bool sn_ix_uses_vals(const sn_module *m, sn_ix e) { return uses(m, e, SN_IX_VAL, 0); }

enum { LOCAL_ATOMS = 32 };
typedef SN_VEC(sn_ix) atom_list;

static void collect(atom_list *list, const sn_module *m, sn_ix e) {
    const sn_ix_rec *r = sn_ix_get(m, e);
    switch (r->kind) {
    case SN_IX_SUM:
        for (uint32_t i = 0; i < r->n_terms; i++) collect(list, m, r->terms[i].atom);
        return;
    case SN_IX_AXIS:
    case SN_IX_SYM:
    case SN_IX_VAL:
        for (uint32_t i = 0; i < list->n; i++)
            if (sn_ix_eq(list->at[i], e)) return;
        SN_PUSH(m->ixs.arena, list, e);
        return;
    case SN_IX_DIV:
    case SN_IX_MOD:
    case SN_IX_MIN:
    case SN_IX_MAX:
    case SN_IX_PROD:
        collect(list, m, r->a);
        collect(list, m, r->b);
        return;
    }
}

void sn_ix_walk(const sn_module *m, sn_ix e, void (*f)(void *user, sn_ix atom), void *user) {
    sn_ix local[LOCAL_ATOMS];
    atom_list list = {local, 0, LOCAL_ATOMS};
    collect(&list, m, e);
    for (uint32_t i = 0; i < list.n; i++) f(user, list.at[i]);
}

typedef struct symbols {
    const sn_module *m;
    bool only;
} symbols;

static void see_symbol(void *user, sn_ix atom) {
    symbols *seen = user;
    seen->only &= sn_ix_get(seen->m, atom)->kind == SN_IX_SYM;
}

bool sn_ix_only_symbols(const sn_module *m, sn_ix e) {
    symbols seen = {m, true};
    sn_ix_walk(m, e, see_symbol, &seen);
    return seen.only;
}

/* ---- values ---- */

/* Wraps around instead of overflowing, so that evaluating an unverified module is harmless. */
int64_t sn_ix_eval(const sn_module *m, sn_ix e, sn_ix_lookup lookup, void *user) {
    const sn_ix_rec *r = sn_ix_get(m, e);
    if (r->kind == SN_IX_SUM) {
        uint64_t sum = (uint64_t)r->c0;
        for (uint32_t i = 0; i < r->n_terms; i++)
            sum += (uint64_t)r->terms[i].c * (uint64_t)sn_ix_eval(m, r->terms[i].atom, lookup, user);
        return (int64_t)sum;
    }
    if (!r->a.i) return lookup(user, r->kind, r->id);
    int64_t a = sn_ix_eval(m, r->a, lookup, user), b = sn_ix_eval(m, r->b, lookup, user);
    switch (r->kind) {
    case SN_IX_DIV: return b > 0 ? sn_floor_div(a, b) : 0;
    case SN_IX_MOD: return b > 0 ? sn_floor_mod(a, b) : 0;
    case SN_IX_MIN: return least(a, b);
    case SN_IX_MAX: return most(a, b);
    case SN_IX_PROD: return (int64_t)((uint64_t)a * (uint64_t)b);
    case SN_IX_SUM:
    case SN_IX_AXIS:
    case SN_IX_SYM:
    case SN_IX_VAL: break;
    }
    return 0;
}

int64_t sn_ix_divisor(const sn_module *m, sn_ix e, sn_ix of) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t constant, by = 0;
    uint32_t n = sn_ix_terms(m, e, &terms, &constant, &one);
    for (uint32_t i = 0; i < n; i++) {
        const sn_ix_rec *atom = sn_ix_get(m, terms[i].atom);
        if (atom->kind == SN_IX_DIV && sn_ix_eq(atom->a, of)) sn_ix_is_const(m, atom->b, &by);
    }
    return by;
}
