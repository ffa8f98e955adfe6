/* inplace.c: may a kernel write its result over one of its operands? Part of the pass `plan`.
 *
 *     loop i in 64 : grid { loop j in 8 : block.x { %0 = load b[8*i + j] ; %1 = exp %0 ; store t[8*i + j], %1 } }
 *
 * Yes here: t may have the storage of b. Legality, given that nothing else in the kernel touches b or t:
 *   - all loads of b and all stores of t have the same offset, when the axes around them are named alike from the outside
 *     in; their extents and kinds must be equal too. So an element belongs to the same block, thread and lane everywhere
 *     (also where a reduction reads a row in one loop and a later loop writes it).
 *   - that offset differs between any two iterations of these axes. So no other iteration touches the element.
 *   - the block axes around them are all that the kernel has, so that no two threads run the same iteration.
 *   - every load stands before the first store in the text, so that a thread reads the element before it is overwritten.
 * Gathers and scatters are refused. Cost: a walk over the kernel.
 *
 * A code generator must not promise LLVM that b and t do not alias (see sn_step_kind REUSE).
 */
#include "passes/plan/plan.h"

#include <stdlib.h>

enum { MAX_DEPTH = 24 };

/* Where a load or store stands: the axes around it, outermost first. */
typedef struct place {
    sn_stmt stmt;
    uint32_t n;
    sn_axis axes[MAX_DEPTH];
    sn_axis_kind kinds[MAX_DEPTH];
} place;

static bool place_of(place *out, const sn_module *m, sn_stmt s) {
    *out = (place){.stmt = s};
    for (sn_stmt p = sn_stmt_get(m, s)->parent; p.i; p = sn_stmt_get(m, p)->parent) {
        const sn_stmt_rec *loop = sn_stmt_get(m, p);
        if (loop->op == SN_LOP_IF) continue;
        if (out->n == MAX_DEPTH) return false;
        out->axes[out->n] = loop->axis;
        out->kinds[out->n++] = loop->kind;
    }
    for (uint32_t i = 0; i < out->n / 2; i++) {
        uint32_t j = out->n - 1 - i;
        sn_axis ax = out->axes[i];
        sn_axis_kind kind = out->kinds[i];
        out->axes[i] = out->axes[j];
        out->kinds[i] = out->kinds[j];
        out->axes[j] = ax;
        out->kinds[j] = kind;
    }
    return true;
}

static sn_ix extent(const sn_module *m, sn_axis ax) { return sn_axis_get(m, ax)->extent; }

/* Do both places run the same iterations on the same threads, and touch the same element in each? */
static bool same_elements(sn_module *m, const place *a, const place *b) {
    sn_ix with[MAX_DEPTH];
    if (a->n != b->n) return false;
    /* Two grids side by side are segments: their blocks have nothing to do with each other. */
    if (a->n && a->kinds[0] == SN_AXIS_GRID && !sn_axis_eq(a->axes[0], b->axes[0])) return false;
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->kinds[i] != b->kinds[i] || !sn_ix_eq(extent(m, a->axes[i]), extent(m, b->axes[i]))) return false;
        with[i] = sn_ix_axis(m, b->axes[i]);
    }
    sn_ix renamed = sn_ix_subst(m, sn_stmt_get(m, a->stmt)->ix, a->axes, with, a->n);
    return sn_ix_eq(renamed, sn_stmt_get(m, b->stmt)->ix);
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

static bool distinct_elements(sn_module *m, const place *p) {
    decoder d = {.m = m};
    sn_ix e = sn_stmt_get(m, p->stmt)->ix;
    int64_t count;
    if (sn_ix_uses_vals(m, e)) return false;
    learn(&d, e);
    for (uint32_t before = 0; before != d.n;) {
        before = d.n;
        for (uint32_t i = 0; i < d.n; i++) learn_atoms(&d, d.known[i]);
        for (uint32_t i = 0; i < d.n; i++) learn_whole(&d, d.known[i]);
    }
    for (uint32_t i = 0; i < p->n; i++) {
        if (sn_ix_is_const(m, extent(m, p->axes[i]), &count) && count <= 1) continue;
        if (!is_known(&d, sn_ix_axis(m, p->axes[i]))) return false;
    }
    return true;
}

/* ---- every thread on its own ---- */

static bool inside_kind(const place *p, sn_axis_kind kind) {
    for (uint32_t i = 0; i < p->n; i++)
        if (p->kinds[i] == kind) return true;
    return false;
}

/* Outside a block axis all threads run the same iteration: one could read what another has written. All axes of a block
 * kind have the same extent (invariant L12), so that one of them is all threads. */
static bool on_all_threads(const sn_module *m, sn_kern k, const place *p) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *rec = sn_stmt_get(m, s);
        if (rec->op != SN_LOP_LOOP && rec->op != SN_LOP_REDUCE) continue;
        bool block = rec->kind == SN_AXIS_CLUSTER || rec->kind == SN_AXIS_BLOCK_X || rec->kind == SN_AXIS_BLOCK_Y;
        if (block && !inside_kind(p, rec->kind)) return false;
    }
    return true;
}

/* ---- the question ---- */

static sn_stmt first_store(const sn_module *m, sn_kern k, sn_buf b) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *rec = sn_stmt_get(m, s);
        if (rec->op == SN_LOP_STORE && sn_buf_eq(rec->buf, b)) return s;
    }
    return (sn_stmt){0};
}

static bool same_storage_size(sn_module *m, sn_buf a, sn_buf b) {
    const sn_buf_rec *x = sn_buf_get(m, a), *y = sn_buf_get(m, b);
    return sn_ix_eq(x->size, y->size) && sn_dtype_bytes(x->dtype) == sn_dtype_bytes(y->dtype);
}

bool sn_plan_in_place(sn_pass_ctx *cx, sn_kern k, sn_buf from, sn_buf to) {
    sn_module *m = cx->m;
    place store, other;
    bool stored = false;
    if (!same_storage_size(m, from, to) || sn_kern_stores(m, k, from) || sn_kern_loads(m, k, to)) return false;
    sn_stmt first = first_store(m, k, to);
    if (!first.i || !place_of(&store, m, first)) return false;
    if (!distinct_elements(m, &store) || !on_all_threads(m, k, &store)) return false;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *rec = sn_stmt_get(m, s);
        bool load = rec->op == SN_LOP_LOAD && sn_buf_eq(rec->buf, from);
        bool write = rec->op == SN_LOP_STORE && sn_buf_eq(rec->buf, to);
        stored = stored || write;
        if (!load && !write) continue;
        if ((load && stored) || !place_of(&other, m, s) || !same_elements(m, &other, &store)) return false;
    }
    return true;
}
