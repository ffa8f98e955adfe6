/* guard.c: the pass `guard`: an access that might leave its buffer tests whether it does.
 *
 *     %1 = load x[%0]        becomes        %1 = in %0, 100   %2 = const.f32 0.0   %3 = load x[%0] if %1 else %2
 *     store y[2*i], %3                      %4 = in 2*i, 100                       store y[2*i], %3 if %4
 *
 * Which accesses cannot is shown from extents, and from what holds where the access is made: the tests around it and
 * those of its mask. `128*u + 4*x + v` is below 1000 under `128*u + 4*x in 1000` with v in 4, since both sides are
 * multiples of 4. What the passes make of a graph mostly passes; positions that a kernel computes (sorts) do not.
 *
 * Prefetches that might be of no element go.
 *
 * Legality: always; only accesses that must not happen are left out. It is in no pipeline: sn_compile runs it last on
 * kernels that came from text, which nobody vouches for. Reg and shared buffers need none of it (L14). Cost: linear in
 * the statements, times the tests around each.
 */
#include "ir/index/ix_build.h"
#include "ir/loop/box.h"
#include "passes/base/nest.h"

enum { MAX_FACTS = 16, MAX_TERMS = 32, MAX_DEPTH = 4 };

/* 0 <= e < bound, where the access is made. */
typedef struct fact {
    sn_ix e;
    int64_t bound; /* INT64_MAX: not known */
} fact;

typedef struct facts {
    sn_module *m;
    fact at[MAX_FACTS];
    uint32_t n;
    int depth; /* of facts used for what others have brought in, which may be the same again: n - r*(n div r) in r */
} facts;

/* ---- what holds ---- */

static void add_fact(facts *f, const sn_stmt_rec *test) {
    int64_t bound = sn_ix_range(f->m, test->bound).hi;
    if (f->n < MAX_FACTS) f->at[f->n++] = (fact){test->ix, bound < 0 ? 0 : bound};
}

static void add_mask(facts *f, sn_val mask, int depth) {
    const sn_stmt_rec *r = sn_stmt_get(f->m, sn_val_get(f->m, mask)->def);
    if (r->op == SN_LOP_IN) add_fact(f, r);
    for (uint32_t i = 0; r->op == SN_LOP_AND && depth < 4 && i < 2; i++) add_mask(f, r->in[i], depth + 1);
}

static void find_facts(facts *f, const sn_stmt_rec *access) {
    if (access->has_mask) add_mask(f, sn_stmt_mask(access), 0);
    for (sn_stmt up = access->parent; up.i; up = sn_stmt_get(f->m, up)->parent)
        if (sn_stmt_get(f->m, up)->op == SN_LOP_IF) add_fact(f, sn_stmt_get(f->m, up));
}

/* ---- ranges under what holds ---- */

/* Terms, a constant, and what lies somewhere in `rest`. */
typedef struct sum {
    sn_ix_term terms[MAX_TERMS];
    uint32_t n;
    int64_t c0;
    sn_range rest;
} sum;

/* tested: facts are looked at, for e and, in a sum, for its terms. */
static sn_range range_of(facts *f, sn_ix e, bool tested);

static sn_range both(sn_range a, sn_range b) {
    return (sn_range){a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}

static sn_range sum_range(facts *f, const sum *s, bool tested) {
    sn_range r = sn_range_add(s->rest, (sn_range){s->c0, s->c0});
    for (uint32_t i = 0; i < s->n; i++)
        r = sn_range_add(r, sn_range_scale(range_of(f, s->terms[i].atom, tested), s->terms[i].c));
    return r;
}

static bool open_sum(sum *s, const sn_module *m, sn_ix e) {
    const sn_ix_term *terms;
    sn_ix_term one;
    *s = (sum){.n = 0};
    uint32_t n = sn_ix_terms(m, e, &terms, &s->c0, &one);
    if (n > MAX_TERMS) return false;
    while (s->n < n) s->terms[s->n] = terms[s->n], s->n++;
    return true;
}

/* s - q * t, as terms; false when that leaves 64 bits or the room. */
static bool subtract(sum *s, const sum *t, int64_t q) {
    int64_t x;
    if (sn_mul_overflow(q, t->c0, &x) || sn_sub_overflow(s->c0, x, &s->c0)) return false;
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t k = 0;
        while (k < s->n && !sn_ix_eq(s->terms[k].atom, t->terms[i].atom)) k++;
        if (k == MAX_TERMS || sn_mul_overflow(q, t->terms[i].c, &x)) return false;
        if (k == s->n) s->terms[s->n++] = (sn_ix_term){0, t->terms[i].atom};
        if (sn_sub_overflow(s->terms[k].c, x, &s->terms[k].c)) return false;
    }
    return true;
}

/* What a tested sum can be: inside the bound, and its constant modulo what divides its terms. */
static sn_range tested_range(facts *f, const fact *x, const sum *t) {
    int64_t g = 0;
    sn_range r = both((sn_range){0, x->bound == INT64_MAX ? INT64_MAX : x->bound - 1}, sum_range(f, t, false));
    for (uint32_t i = 0; i < t->n; i++) g = sn_gcd(g, t->terms[i].c);
    if (g < 2 || r.hi == INT64_MAX) return r;
    int64_t first = sn_floor_mod(t->c0, g);
    if (r.hi >= first) r.hi -= (r.hi - first) % g;
    return r;
}

static uint64_t width(sn_range r) {
    return r.lo == INT64_MIN || r.hi == INT64_MAX ? UINT64_MAX : (uint64_t)r.hi - (uint64_t)r.lo;
}

/* A multiple of what is tested that takes term i of s away, if there is one. */
static int64_t quotient(const sum *s, uint32_t i, const sum *t) {
    for (uint32_t k = 0; k < t->n; k++) {
        int64_t c = s->terms[i].c, d = t->terms[k].c;
        if (sn_ix_eq(s->terms[i].atom, t->terms[k].atom) && d && c != INT64_MIN && c % d == 0) return c / d;
    }
    return 0;
}

/* Put the part of s that a test bounds into s->rest, where that tells more. */
static void use_fact(facts *f, sum *s, const fact *x) {
    sum t;
    if (!open_sum(&t, f->m, x->e)) return;
    for (uint32_t i = 0; i < s->n; i++) {
        sum with = *s;
        int64_t q = quotient(s, i, &t);
        if (!q || !subtract(&with, &t, q)) continue;
        with.rest = sn_range_add(with.rest, sn_range_scale(tested_range(f, x, &t), q));
        if (width(sum_range(f, &with, false)) >= width(sum_range(f, s, false))) continue;
        *s = with;
        return;
    }
}

/* Of an atom with operands. */
static sn_range pair_range(facts *f, const sn_ix_rec *r, sn_range plain) {
    int64_t k;
    sn_range a = range_of(f, r->a, true);
    bool constant = sn_ix_is_const(f->m, r->b, &k) && k > 0;
    if (r->kind == SN_IX_DIV && constant) {
        if (a.lo != INT64_MIN) a.lo = sn_floor_div(a.lo, k);
        if (a.hi != INT64_MAX) a.hi = sn_floor_div(a.hi, k);
        return both(plain, a);
    }
    if (r->kind == SN_IX_MOD && constant) return a.lo >= 0 && a.hi < k ? both(plain, a) : plain;
    if (r->kind != SN_IX_MIN && r->kind != SN_IX_MAX) return plain;
    sn_range b = range_of(f, r->b, true);
    bool least = r->kind == SN_IX_MIN;
    sn_range chosen = {least == (a.lo < b.lo) ? a.lo : b.lo, least == (a.hi < b.hi) ? a.hi : b.hi};
    return both(plain, chosen);
}

static sn_range range_of(facts *f, sn_ix e, bool tested) {
    const sn_ix_rec *r = sn_ix_get(f->m, e);
    sn_range range = sn_ix_range(f->m, e);
    sum s;
    if (!tested) return range;
    if (r->a.i) range = pair_range(f, r, range);
    for (uint32_t i = 0; i < f->n; i++)
        if (sn_ix_eq(f->at[i].e, e) && f->at[i].bound != INT64_MAX)
            range = both(range, (sn_range){0, f->at[i].bound - 1});
    if (!open_sum(&s, f->m, e)) return range;
    bool more = f->depth < MAX_DEPTH;
    f->depth += more;
    for (uint32_t i = 0; more && i < f->n; i++) use_fact(f, &s, &f->at[i]);
    range = both(range, sum_range(f, &s, r->kind == SN_IX_SUM));
    f->depth -= more;
    return range;
}

/* A box touches nothing beyond the dimensions that it has been found to have: those of pixels are no sums of axes. */
static bool box_stays_inside(sn_module *m, sn_stmt s, sn_ix size) {
    sn_box box;
    const char *why;
    sn_stmt nest = sn_stmt_get(m, s)->parent;
    while (nest.i && !sn_stmt_get(m, nest)->bulk) nest = sn_stmt_get(m, nest)->parent;
    if (!nest.i || !sn_is_box(m, nest) || !sn_box_find(&box, &why, m, nest)) return false;
    int64_t last = box.offset, reach;
    for (uint32_t k = 0; k < box.rank; k++)
        if (sn_mul_overflow(box.dims[k].size - 1, box.dims[k].stride, &reach) || sn_add_overflow(last, reach, &last))
            return false;
    return last < sn_ix_range(m, size).lo;
}

/* Positions from which what is accessed is in the buffer, counted from 0. */
static sn_ix positions(sn_module *m, const sn_stmt_rec *access) {
    sn_ix size = sn_buf_get(m, access->buf)->size;
    return access->op == SN_LOP_PREFETCH ? sn_ix_addc(m, sn_ix_sub(m, size, access->bound), 1) : size;
}

/* What is asked for early may be nothing, from nowhere: nobody misses it. */
static bool asks_for_nothing(sn_module *m, const sn_stmt_rec *access) {
    return access->op == SN_LOP_PREFETCH && sn_ix_range(m, access->bound).lo < 1;
}

static bool stays_inside(sn_module *m, sn_stmt s) {
    const sn_stmt_rec *access = sn_stmt_get(m, s);
    sn_ix size = positions(m, access);
    if (sn_ix_in(m, access->ix, size) || box_stays_inside(m, s, size)) return true;
    facts f = {.m = m};
    find_facts(&f, access);
    sn_range r = range_of(&f, access->ix, true);
    return r.lo >= 0 && r.hi < sn_ix_range(m, size).lo;
}

/* ---- tests ---- */

static void test(sn_module *m, sn_stmt s) {
    sn_stmt_rec *r = sn_stmt_get(m, s);
    sn_cursor at = sn_at_before(m, s);
    sn_val inside = sn_put_in(m, at, r->ix, positions(m, r)), mask = sn_stmt_mask(r), zero = {0};
    if (mask.i) inside = sn_put_op2(m, at, SN_LOP_AND, mask, inside);
    else if (r->op == SN_LOP_LOAD) zero = sn_put_const(m, at, sn_buf_get(m, r->buf)->dtype, 0);
    uint32_t n = sn_lops[r->op].n_in;
    sn_val *in = SN_NEWN(&m->arena, sn_val, 2);
    if (n) in[0] = r->in[0]; /* what is stored */
    in[n] = inside;
    if (r->op == SN_LOP_LOAD) in[1] = mask.i ? r->in[1] : zero;
    r->in = in;
    r->n_in = r->op == SN_LOP_PREFETCH ? 1 : 2;
    r->has_mask = true;
}

sn_status sn_pass_guard(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        uint32_t n = 0;
        for (sn_stmt s = sn_stmt_walk_first(m, m->kernels.at[i]), next; s.i; s = next) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            next = sn_stmt_walk_next(m, s);
            if (!r->buf.i || sn_buf_is_private(sn_buf_get(m, r->buf))) continue;
            bool goes = asks_for_nothing(m, r);
            if (goes) sn_stmt_unlink(m, s);
            *changed |= goes;
            if (goes || stays_inside(m, s)) continue;
            test(m, s);
            n++;
        }
        if (n) sn_remark(cx, sn_kern_get(m, m->kernels.at[i])->name, "%u accesses test their bounds", n);
        *changed |= n > 0;
    }
    return m->env->status;
}
