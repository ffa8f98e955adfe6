/* access.c: see access.h.
 *
 * Reads the module and leaves no marks, so that it may be asked in the middle of anything. What it cannot prove it
 * denies; it knows nothing of threads, which the passes add: who runs an iteration follows from the kinds of the
 * axes.
 */
#include "ir/loop/access.h"

#include <stdlib.h>

/* ---- loops around an access ---- */

void sn_chain_below(sn_chain *out, const sn_module *m, sn_stmt s, sn_stmt outer) {
    out->n = 0;
    for (sn_stmt p = sn_stmt_get(m, s)->parent; p.i && p.i != outer.i; p = sn_stmt_get(m, p)->parent)
        if (sn_is_nest(sn_stmt_get(m, p)) && out->n < SN_MAX_CHAIN) out->at[out->n++] = p;
    for (uint32_t i = 0; i < out->n / 2; i++) {
        sn_stmt t = out->at[i];
        out->at[i] = out->at[out->n - 1 - i];
        out->at[out->n - 1 - i] = t;
    }
}

void sn_chain_around(sn_chain *out, const sn_module *m, sn_stmt s) { sn_chain_below(out, m, s, (sn_stmt){0}); }

static sn_ix extent(const sn_module *m, sn_stmt s) { return sn_axis_get(m, sn_stmt_get(m, s)->axis)->extent; }

sn_ix sn_ix_over(sn_module *m, sn_ix e, const sn_stmt *from, const sn_stmt *to, uint32_t n) {
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix with[SN_MAX_CHAIN];
    SN_ASSERT(n <= SN_MAX_CHAIN);
    for (uint32_t k = 0; k < n; k++) {
        axes[k] = sn_stmt_get(m, from[k])->axis;
        with[k] = sn_ix_axis(m, sn_stmt_get(m, to[k])->axis);
    }
    return n ? sn_ix_subst(m, e, axes, with, n) : e;
}

bool sn_loops_alike(const sn_module *m, const sn_stmt *a, const sn_stmt *b, uint32_t n) {
    for (uint32_t k = 0; k < n; k++)
        if (sn_stmt_get(m, a[k])->kind != sn_stmt_get(m, b[k])->kind || !sn_ix_eq(extent(m, a[k]), extent(m, b[k])))
            return false;
    return true;
}

bool sn_same_element(sn_module *m, sn_stmt a, const sn_chain *of_a, sn_stmt b, const sn_chain *of_b) {
    if (of_a->n == SN_MAX_CHAIN) return false; /* there may be more of them */
    if (of_a->n != of_b->n || !sn_loops_alike(m, of_a->at, of_b->at, of_a->n)) return false;
    sn_ix renamed = sn_ix_over(m, sn_stmt_get(m, b)->ix, of_b->at, of_a->at, of_a->n);
    return sn_ix_eq(renamed, sn_stmt_get(m, a)->ix);
}

/* ---- different iterations, different elements ----
 *
 * Can the axes be computed back from the offset? What is known grows from the offset itself:
 *   - a known sum gives its atoms when it is a mixed-radix number: each coefficient is larger than all that the terms with
 *     smaller ones can add up to;
 *   - known e mod k and e div k give e. (Collapsed axes are taken apart this way: 1152*(e div 9) + 4*(e mod 9) + v.)
 */

enum { MAX_KNOWN = 64, MAX_TERMS = 24 };

typedef struct decoder {
    sn_module *m;
    uint32_t n;
    sn_ix known[MAX_KNOWN];
} decoder;

static bool is_known(const decoder *d, sn_ix e) {
    for (uint32_t i = 0; i < d->n; i++)
        if (sn_ix_eq(d->known[i], e)) return true;
    return false;
}

static void learn(decoder *d, sn_ix e) {
    if (d->n < MAX_KNOWN && !is_known(d, e)) d->known[d->n++] = e;
}

static int by_coefficient(const void *a, const void *b) {
    uint64_t x = (uint64_t)llabs(((const sn_ix_term *)a)->c), y = (uint64_t)llabs(((const sn_ix_term *)b)->c);
    return (x > y) - (x < y);
}

/* Coefficients sorted by size: is each one larger than the reach of those before it? */
static bool is_mixed_radix(sn_module *m, const sn_ix_term *terms, uint32_t n) {
    int64_t reach = 0, walk;
    for (uint32_t i = 0; i < n; i++) {
        int64_t c = llabs(terms[i].c);
        if (c <= reach) return false;
        if (i + 1 == n) return true; /* nothing follows: its range may be unknown */
        sn_range r = sn_ix_range(m, terms[i].atom);
        if (r.lo == INT64_MIN || r.hi == INT64_MAX) return false;
        if (sn_mul_overflow(c, r.hi - r.lo, &walk) || sn_add_overflow(reach, walk, &reach)) return false;
    }
    return true;
}

static void learn_atoms(decoder *d, sn_ix e) {
    const sn_ix_term *terms;
    sn_ix_term one, sorted[MAX_TERMS];
    int64_t c0;
    uint32_t n = sn_ix_terms(d->m, e, &terms, &c0, &one);
    if (n == 0 || n > MAX_TERMS) return;
    for (uint32_t i = 0; i < n; i++) sorted[i] = terms[i];
    qsort(sorted, n, sizeof *sorted, by_coefficient);
    if (!is_mixed_radix(d->m, sorted, n)) return;
    for (uint32_t i = 0; i < n; i++) learn(d, sorted[i].atom);
}

static void learn_whole(decoder *d, sn_ix e) {
    const sn_ix_rec *rec = sn_ix_get(d->m, e);
    if (rec->kind == SN_IX_MOD && is_known(d, sn_ix_div(d->m, rec->a, rec->b))) learn(d, rec->a);
}

bool sn_access_distinct(sn_module *m, sn_stmt s) {
    decoder d = {.m = m};
    sn_ix e = sn_stmt_get(m, s)->ix;
    int64_t count;
    if (sn_ix_uses_vals(m, e)) return false;
    learn(&d, e);
    for (uint32_t before = 0; before != d.n;) {
        before = d.n;
        for (uint32_t i = 0; i < d.n; i++) learn_atoms(&d, d.known[i]);
        for (uint32_t i = 0; i < d.n; i++) learn_whole(&d, d.known[i]);
    }
    for (sn_stmt p = sn_stmt_get(m, s)->parent; p.i; p = sn_stmt_get(m, p)->parent) {
        sn_axis ax = sn_stmt_get(m, p)->axis;
        if (!ax.i || (sn_ix_is_const(m, extent(m, p), &count) && count <= 1)) continue;
        if (!is_known(&d, sn_ix_axis(m, ax))) return false;
    }
    return true;
}

/* The offset of an iteration of the loop, without what is the same in all of them; *step: how far it moves. */
static bool offset_in(sn_range *out, int64_t *step, sn_module *m, sn_stmt s, sn_stmt loop) {
    sn_chain around;
    int64_t c;
    sn_ix e = sn_stmt_get(m, s)->ix, zero = sn_ix_const(m, 0);
    sn_axis moving = sn_stmt_get(m, loop)->axis;
    if (!sn_ix_coef(m, e, moving, step)) return false;
    e = sn_ix_subst(m, e, &moving, &zero, 1);
    sn_chain_around(&around, m, loop);
    for (uint32_t k = 0; k < around.n; k++) {
        sn_axis ax = sn_stmt_get(m, around.at[k])->axis;
        if (!sn_ix_coef(m, e, ax, &c)) return false;
        e = sn_ix_subst(m, e, &ax, &zero, 1);
    }
    *out = sn_ix_range(m, e);
    return out->lo > INT64_MIN / 2 && out->hi < INT64_MAX / 2;
}

/* The offset steps over all elements of an iteration. */
bool sn_access_apart(sn_module *m, sn_stmt a, sn_stmt b, sn_stmt loop) {
    sn_range at_a, at_b;
    int64_t step_a, step_b;
    if (!offset_in(&at_a, &step_a, m, a, loop) || !offset_in(&at_b, &step_b, m, b, loop) || step_a != step_b)
        return false;
    int64_t lo = at_a.lo < at_b.lo ? at_a.lo : at_b.lo, hi = at_a.hi > at_b.hi ? at_a.hi : at_b.hi;
    return hi - lo < (step_a < 0 ? -step_a : step_a);
}

/* ---- who ---- */

static bool is_store_to(const sn_stmt_rec *r, sn_buf b) { return sn_stores(r) && (!b.i || sn_buf_eq(r->buf, b)); }
static bool is_load_of(const sn_stmt_rec *r, sn_buf b) { return sn_loads(r) && (!b.i || sn_buf_eq(r->buf, b)); }

static bool any(const sn_module *m, sn_stmt s, sn_stmt until, sn_buf b, bool (*is)(const sn_stmt_rec *r, sn_buf b)) {
    for (; s.i && s.i != until.i; s = sn_stmt_walk_next(m, s))
        if (is(sn_stmt_get(m, s), b)) return true;
    return false;
}

bool sn_stmt_stores(const sn_module *m, sn_stmt s, sn_buf b) {
    return any(m, s, sn_stmt_walk_skip(m, s), b, is_store_to);
}
bool sn_stmt_loads(const sn_module *m, sn_stmt s, sn_buf b) {
    return any(m, s, sn_stmt_walk_skip(m, s), b, is_load_of);
}
bool sn_kern_stores(const sn_module *m, sn_kern k, sn_buf b) {
    return any(m, sn_stmt_walk_first(m, k), (sn_stmt){0}, b, is_store_to);
}
bool sn_kern_loads(const sn_module *m, sn_kern k, sn_buf b) {
    return any(m, sn_stmt_walk_first(m, k), (sn_stmt){0}, b, is_load_of);
}
bool sn_stores_between(const sn_module *m, sn_stmt s, sn_stmt until, sn_buf b) {
    return any(m, s, until, b, is_store_to);
}

/* ---- lists ---- */

void sn_access_find(sn_access_list *out, const sn_module *m, sn_arena *a, sn_stmt s, sn_stmt until) {
    *out = (sn_access_list){0};
    for (; s.i && s.i != until.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_is_access(r)) SN_PUSH(a, out, ((sn_access){s, r->buf, r->ix, sn_stores(r)}));
    }
}

void sn_access_find_all(sn_access_list *out, const sn_module *m, sn_arena *a, sn_kern k) {
    sn_access_find(out, m, a, sn_stmt_walk_first(m, k), (sn_stmt){0});
}

bool sn_access_stored(const sn_access_list *list, const sn_module *m, sn_buf b, sn_stmt nest) {
    for (uint32_t i = 0; i < list->n; i++) {
        const sn_access *x = &list->at[i];
        if (x->store && sn_buf_eq(x->buf, b) && sn_stmt_inside(m, x->s, nest)) return true;
    }
    return false;
}

/* ---- kernels, by buffer ---- */

/* Walk all accesses; `put` is what becomes of them. last: by buffer, the user that the last access made, from 1. */
static void walk_users(sn_users *u, const sn_module *m, uint32_t *last, uint32_t *next, bool put) {
    for (uint32_t at = 0; at < m->kernels.n; at++) {
        if (sn_kern_get(m, m->kernels.at[at])->alternative_of.i) continue;
        for (sn_stmt s = sn_stmt_walk_first(m, m->kernels.at[at]); s.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            if (!sn_is_access(r)) continue;
            if (last[r->buf.i] != at + 1) next[r->buf.i]++;
            last[r->buf.i] = at + 1;
            if (!put) continue;
            sn_user *user = &u->user[next[r->buf.i] - 1];
            *user = (sn_user){at, user->loads | sn_loads(r), user->stores | sn_stores(r)};
        }
    }
}

void sn_users_find(sn_users *out, const sn_module *m, sn_arena *a) {
    uint32_t n = m->bufs.count;
    *out = (sn_users){.n_bufs = n, .first = SN_NEWN(a, uint32_t, n + 1)};
    uint32_t *next = SN_NEWN(a, uint32_t, n);
    walk_users(out, m, SN_NEWN(a, uint32_t, n), next, false);
    for (uint32_t b = 0; b < n; b++) {
        out->first[b + 1] = out->first[b] + next[b];
        next[b] = out->first[b];
    }
    out->user = SN_NEWN(a, sn_user, out->first[n]);
    walk_users(out, m, SN_NEWN(a, uint32_t, n), next, true);
}

/* The first user of b at a position or behind it; at the end of them: there is none. */
static uint32_t lower_bound(const sn_users *u, sn_buf b, uint32_t at) {
    uint32_t lo = u->first[b.i], hi = u->first[b.i + 1];
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        if (u->user[middle].at < at) lo = middle + 1;
        else hi = middle;
    }
    return lo;
}

uint32_t sn_users_storer(const sn_users *u, sn_buf b, uint32_t at) {
    if (b.i >= u->n_bufs) return UINT32_MAX;
    for (uint32_t i = lower_bound(u, b, at); i-- > u->first[b.i];)
        if (u->user[i].stores) return u->user[i].at;
    return UINT32_MAX;
}

const sn_user *sn_users_get(const sn_users *u, sn_buf b, uint32_t at) {
    if (b.i >= u->n_bufs) return NULL;
    uint32_t i = lower_bound(u, b, at);
    return i < u->first[b.i + 1] && u->user[i].at == at ? &u->user[i] : NULL;
}

bool sn_users_touch(const sn_users *u, sn_buf b, uint32_t from, uint32_t until) {
    if (b.i >= u->n_bufs) return false;
    uint32_t i = lower_bound(u, b, from);
    return i < u->first[b.i + 1] && u->user[i].at < until;
}

bool sn_users_load_elsewhere(const sn_users *u, sn_buf b, uint32_t at) {
    if (b.i >= u->n_bufs) return false;
    for (uint32_t i = u->first[b.i]; i < u->first[b.i + 1]; i++)
        if (u->user[i].loads && u->user[i].at != at) return true;
    return false;
}

/* An entry that becomes equal to another one tells it what it knows, and stands behind it. */
void sn_users_move(sn_users *u, sn_buf b, uint32_t from, uint32_t into) {
    if (!sn_users_get(u, b, from)) return;
    uint32_t i = lower_bound(u, b, from), to = lower_bound(u, b, into);
    sn_user moved = {into, u->user[i].loads, u->user[i].stores};
    for (; i > to; i--) u->user[i] = u->user[i - 1];
    bool met = to + 1 < u->first[b.i + 1] && u->user[to + 1].at == into;
    if (met) moved.loads |= u->user[to + 1].loads, moved.stores |= u->user[to + 1].stores;
    u->user[to] = moved;
    if (met) u->user[to + 1] = moved;
}

/* ---- kernels of constants ---- */

/* Given what is known of temporaries (false: a run makes their elements). */
static bool reads_constants(const sn_module *m, sn_kern k, const bool *constant) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        sn_buf b = sn_stmt_get(m, s)->buf;
        if (b.i && !constant[b.i]) return false;
    }
    return true;
}

static bool store_no_constants(bool *constant, const sn_module *m, sn_kern k) {
    bool changed = false;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!r->buf.i || !sn_stores(r)) continue;
        changed |= constant[r->buf.i];
        constant[r->buf.i] = false;
    }
    return changed;
}

bool *sn_kerns_constant(const sn_module *m, sn_arena *a) {
    bool *constant = SN_NEWN(a, bool, m->bufs.count + 1), *out = SN_NEWN(a, bool, m->kernels.n + 1);
    for (uint32_t i = 1; i < m->bufs.count; i++) {
        sn_buf_scope scope = sn_buf_get(m, (sn_buf){i})->scope;
        constant[i] = scope == SN_BUF_TEMP || scope == SN_BUF_CONST || scope > SN_BUF_STEP;
    }
    for (uint32_t i = 0; i < m->kernels.n; i++) out[i] = true;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < m->kernels.n; i++) {
            if (!out[i] || reads_constants(m, m->kernels.at[i], constant)) continue;
            out[i] = false;
            changed |= store_no_constants(constant, m, m->kernels.at[i]);
        }
    }
    return out;
}
