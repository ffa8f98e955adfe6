/* box.c: see box.h. */
#include "ir/loop/box_pixels.h"
#include "ir/loop/copies.h"
#include "ir/loop/mma.h"

enum { GROUP = 8 /* lines */, ALIGN = 128 /* bytes, where lines stay as they are */ };

typedef struct finder {
    sn_module *m;
    sn_box *box;
    const char *why;
    sn_stmt loops[SN_BOX_DIMS]; /* innermost first */
    uint32_t n;
    sn_stmt index; /* the number of a pixel; none: lines are no pixels */
    bool bounded[SN_BOX_DIMS];
} finder;

static bool refuse(finder *f, const char *why) {
    f->why = why;
    return false;
}

bool sn_is_box(const sn_module *m, sn_stmt s) { return sn_stmt_get(m, s)->bulk && !sn_copy_threads(m, s).i; }

bool sn_pipe_of_boxes(const sn_module *m, sn_stmt pipe) {
    bool any = false;
    if (!pipe.i || !sn_stmt_get(m, pipe)->pipe) return false;
    for (sn_stmt s = sn_stmt_get(m, pipe)->first; s.i; s = sn_stmt_get(m, s)->next) {
        if (!sn_pipe_fills(m, s)) continue;
        if (!sn_stmt_get(m, s)->bulk || !sn_is_box(m, s)) return false;
        any = true;
    }
    return any;
}

bool sn_is_box_barrier(const sn_module *m, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    return sn_lops[r->op].syncs && sn_pipe_of_boxes(m, r->parent) && sn_pipe_barrier(m, r->parent).i == s.i;
}

uint32_t sn_kern_box_threads(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        if (!sn_stmt_get(m, s)->bulk || !sn_is_box(m, s)) continue;
        for (sn_stmt up = sn_stmt_get(m, s)->parent; up.i; up = sn_stmt_get(m, up)->parent)
            if (sn_stmt_get(m, up)->pipe) return SN_BOX_THREADS;
    }
    return 0;
}

/* setmaxnreg counts whole warpgroups, and registers by eights. */
sn_box_share sn_box_registers(uint32_t threads, uint32_t blocks) {
    enum { FILE = 65536, MOST = 255, SHARED = 240, UNIT = 8 };
    uint32_t all = threads + SN_BOX_THREADS, own = FILE / (blocks ? blocks : 1) / all / UNIT * UNIT;
    sn_box_share share = {own < MOST ? own : MOST, own < MOST ? own : MOST};
    if (own >= SHARED || own <= SN_BOX_REGS || threads % SN_BOX_THREADS) return share;
    uint32_t more = (own * all - SN_BOX_REGS * SN_BOX_THREADS) / threads / UNIT * UNIT;
    share.computes = more < SHARED ? more : SHARED;
    return share;
}

/* ---- the nest ---- */

static sn_axis axis_of(const finder *f, uint32_t k) { return sn_stmt_get(f->m, f->loops[k])->axis; }

static bool find_loops(finder *f, sn_stmt nest) {
    sn_stmt chain[SN_BOX_DIMS];
    uint32_t n = 0;
    for (sn_stmt s = nest; s.i;) {
        const sn_stmt_rec *r = sn_stmt_get(f->m, s);
        if (r->op != SN_LOP_LOOP || r->kind != SN_AXIS_SEQ) return refuse(f, "its loops are no seq loops");
        if (n == SN_BOX_DIMS) return refuse(f, "it has too many loops");
        chain[n++] = s;
        s = r->first;
        if (!s.i || !sn_lop_has_region(sn_stmt_get(f->m, s)->op)) break;
        if (sn_stmt_get(f->m, s)->next.i) return refuse(f, "its loops are no perfect nest");
    }
    f->n = n;
    for (uint32_t k = 0; k < n; k++) f->loops[k] = chain[n - 1 - k];
    return true;
}

/* The load, the store and the tests of its mask; nothing else with an effect stands there. */
static bool find_statements(finder *f) {
    sn_box *b = f->box;
    for (sn_stmt s = sn_stmt_get(f->m, f->loops[0])->first; s.i; s = sn_stmt_get(f->m, s)->next) {
        const sn_stmt_rec *r = sn_stmt_get(f->m, s);
        if (sn_lop_has_region(r->op)) return refuse(f, "its loops are no perfect nest");
        if (r->op == SN_LOP_INDEX) f->index = s;
        if (sn_loads(r) && !b->load.i) b->load = s;
        else if (sn_stores(r) && !b->store.i) b->store = s;
        else if (sn_is_access(r)) return refuse(f, "it is more than one load and one store");
    }
    if (!b->load.i || !b->store.i) return refuse(f, "it is no load and a store");
    const sn_stmt_rec *load = sn_stmt_get(f->m, b->load), *store = sn_stmt_get(f->m, b->store);
    if (store->in[0].i != load->result.i) return refuse(f, "what it stores is not what it loads");
    b->fills = sn_buf_get(f->m, store->buf)->scope == SN_BUF_SHARED;
    b->global = b->fills ? load->buf : store->buf;
    b->shared = b->fills ? store->buf : load->buf;
    if (sn_buf_is_local(sn_buf_get(f->m, b->global)) || sn_buf_get(f->m, b->shared)->scope != SN_BUF_SHARED)
        return refuse(f, "it is not between global and shared memory");
    return true;
}

/* ---- dimensions ---- */

static bool find_shared(finder *f) {
    sn_box *b = f->box;
    const sn_stmt_rec *r = sn_stmt_get(f->m, b->fills ? b->store : b->load);
    sn_ix dense = sn_ix_const(f->m, 0);
    int64_t stride = 1;
    if (r->has_mask) return refuse(f, "what is masked is shared memory");
    for (uint32_t k = 0; k < f->n; k++) {
        int64_t extent;
        if (!sn_ix_is_const(f->m, sn_axis_get(f->m, axis_of(f, k))->extent, &extent) || extent < 1)
            return refuse(f, "an extent is no constant");
        b->dims[k] = (sn_box_dim){.box = extent};
        dense = sn_ix_add(f->m, dense, sn_ix_scale(f->m, sn_ix_axis(f->m, axis_of(f, k)), stride));
        stride *= extent;
    }
    b->elements = stride;
    b->rank = f->n;
    sn_ix rank = sn_cluster_rank(f->m, sn_stmt_get(f->m, f->loops[f->n - 1])->parent);
    dense = sn_shared_of_rank(f->m, b->shared, rank, dense);
    b->shared_at = sn_ix_sub(f->m, r->ix, dense);
    bool stands = !sn_ix_uses_vals(f->m, b->shared_at);
    for (uint32_t k = 0; k < f->n; k++) stands &= !sn_ix_uses_axis(f->m, b->shared_at, axis_of(f, k));
    if (!stands) return refuse(f, "it does not fill or read shared memory in order");
    const sn_buf_rec *shared = sn_buf_get(f->m, b->shared);
    uint32_t unit = shared->swizzle ? GROUP * shared->swizzle : ALIGN;
    if (!sn_ix_is_multiple(f->m, b->shared_at, unit / sn_dtype_bytes(shared->dtype)))
        return refuse(f, "it does not begin where lines of shared memory are permuted anew");
    return true;
}

/* `in e, bound`, where e is an axis of the nest and something that does not change in it. */
static bool bound(finder *f, const sn_stmt_rec *test) {
    for (uint32_t k = 0; k < f->n; k++) {
        sn_box_dim *d = &f->box->dims[k];
        int64_t c;
        if (!sn_ix_coef(f->m, test->ix, axis_of(f, k), &c)) return refuse(f, "a test is no bound of a dimension");
        if (!c) continue;
        sn_ix at = sn_ix_sub(f->m, test->ix, sn_ix_axis(f->m, axis_of(f, k)));
        for (uint32_t i = 0; i < f->n; i++)
            if (sn_ix_uses_axis(f->m, at, axis_of(f, i))) return refuse(f, "a test is no bound of a dimension");
        if (f->bounded[k] || !sn_ix_is_const(f->m, test->bound, &d->size))
            return refuse(f, "a dimension has two bounds");
        d->at = at;
        return f->bounded[k] = true;
    }
    return refuse(f, "a test does not depend on the nest");
}

static bool find_bounds(finder *f, sn_val mask) {
    const sn_stmt_rec *r = sn_stmt_get(f->m, sn_val_get(f->m, mask)->def);
    if (r->op == SN_LOP_AND) return find_bounds(f, r->in[0]) && find_bounds(f, r->in[1]);
    return r->op == SN_LOP_IN ? bound(f, r) : refuse(f, "a mask is more than bounds of dimensions");
}

/* The constant too, longest strides first, so that boxes of one array side by side have one map. */
static void share_out_constant(finder *f) {
    sn_box *b = f->box;
    for (int64_t below = INT64_MAX; b->offset > 0;) {
        sn_box_dim *best = NULL;
        for (uint32_t k = 0; k < f->n; k++) {
            sn_box_dim *d = &b->dims[k];
            if (!f->bounded[k] && d->stride > 0 && d->stride < below && (!best || d->stride > best->stride)) best = d;
        }
        if (!best) return;
        best->at = sn_ix_addc(f->m, best->at, b->offset / best->stride);
        b->offset %= best->stride;
        below = best->stride;
    }
}

/* e with a - a mod n as n * (a div n): what a bounded dimension has taken away, where steps of the sum and the part of one in its line were
 * one number, as in rows of weights that are as long as their lines. */
static sn_ix without_remainders(sn_module *m, sn_ix e) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    sn_ix out = e;
    uint32_t n = sn_ix_terms(m, e, &terms, &c0, &one);
    for (uint32_t i = 0; i < n; i++) {
        const sn_ix_rec *r = sn_ix_get(m, terms[i].atom);
        if (r->kind != SN_IX_MOD || terms[i].c >= 0) continue;
        /* One after the other: together the two would be the remainder again. */
        out = sn_ix_sub(m, out, sn_ix_scale(m, terms[i].atom, terms[i].c));
        out = sn_ix_add(m, out, sn_ix_scale(m, r->a, terms[i].c));
        out = sn_ix_sub(m, out, sn_ix_scale(m, sn_ix_mul(m, sn_ix_div(m, r->a, r->b), r->b), terms[i].c));
    }
    return sn_ix_range(m, out).lo >= 0 ? out : e;
}

/* What is left of the offset goes to the unbounded dimensions, each term to the longest stride that divides it; the
 * rest of it is a dimension of its own. */
static bool share_out(finder *f, sn_ix rest) {
    sn_box *b = f->box;
    const sn_ix_term *terms;
    sn_ix_term one;
    sn_ix left = sn_ix_const(f->m, 0);
    int64_t unit = 0;
    uint32_t n = sn_ix_terms(f->m, rest, &terms, &b->offset, &one);
    for (uint32_t i = 0; i < n; i++) {
        sn_ix_term term = terms[i];
        sn_box_dim *best = NULL;
        for (uint32_t k = 0; k < f->n; k++) {
            sn_box_dim *d = &b->dims[k];
            if (!f->bounded[k] && d->stride > 0 && term.c % d->stride == 0 && (!best || d->stride > best->stride))
                best = d;
        }
        if (best) best->at = sn_ix_add(f->m, best->at, sn_ix_scale(f->m, term.atom, term.c / best->stride));
        else left = sn_ix_add(f->m, left, sn_ix_scale(f->m, term.atom, term.c));
        for (int64_t c = term.c < 0 ? -term.c : term.c, t; !best && c; t = unit % c, unit = c, c = t) continue;
    }
    share_out_constant(f);
    if (!unit) return true;
    if (b->rank == SN_BOX_DIMS) return refuse(f, "its array has too many dimensions");
    b->dims[b->rank++] = (sn_box_dim){.stride = unit, .box = 1, .at = sn_ix_divc(f->m, left, unit)};
    return true;
}

static bool find_pixels(finder *f) {
    return f->n == 2 && f->box->fills ? sn_box_find_pixels(f->box, &f->why, f->m, f->index, f->loops)
                                      : refuse(f, "it has pixels, but no lines of them");
}

static bool find_dims(finder *f) {
    sn_box *b = f->box;
    if (f->index.i) return find_pixels(f);
    const sn_stmt_rec *r = sn_stmt_get(f->m, b->fills ? b->load : b->store);
    sn_val mask = sn_stmt_mask(r);
    sn_ix rest = r->ix;
    if (mask.i && !find_bounds(f, mask)) return false;
    for (uint32_t k = 0; k < f->n; k++) {
        sn_box_dim *d = &b->dims[k];
        if (!sn_ix_coef(f->m, rest, axis_of(f, k), &d->stride)) return refuse(f, "a dimension has no constant stride");
        if (!f->bounded[k]) d->at = sn_ix_const(f->m, 0);
        sn_ix from = sn_ix_add(f->m, sn_ix_axis(f->m, axis_of(f, k)), d->at);
        rest = sn_ix_sub(f->m, rest, sn_ix_scale(f->m, from, d->stride));
    }
    for (uint32_t k = 0; k < f->n; k++)
        if (sn_ix_uses_axis(f->m, rest, axis_of(f, k))) return refuse(f, "a dimension has no constant stride");
    if (!share_out(f, without_remainders(f->m, rest))) return false;
    for (uint32_t k = 0; k < b->rank; k++) {
        sn_box_dim *d = &b->dims[k];
        if (k < f->n && f->bounded[k]) continue;
        sn_range range = sn_ix_range(f->m, d->at);
        if (range.lo < 0 || range.hi > INT64_MAX / 2) return refuse(f, "where it begins has no bounds");
        d->size = range.hi + d->box;
    }
    return true;
}

/* What the hardware takes: cuTensorMapEncodeTiled of the CUDA driver API. */
static bool fits(finder *f) {
    enum { MOST_BOX = 256, UNIT = 16 };
    const sn_box *b = f->box;
    const sn_buf_rec *shared = sn_buf_get(f->m, b->shared);
    int64_t bytes = sn_dtype_bytes(shared->dtype), row = b->dims[0].box * bytes;
    if (b->dims[0].stride != 1) return refuse(f, "its rows are not contiguous");
    if (row % UNIT || (shared->swizzle && row > shared->swizzle)) return refuse(f, "its rows do not fit the swizzle");
    /* An H100 calls the instruction illegal else. */
    if (!sn_ix_is_multiple(f->m, b->dims[0].at, UNIT / bytes))
        return refuse(f, "its rows begin at no multiple of 16 bytes");
    if (b->offset * bytes % UNIT || b->offset < 0)
        return refuse(f, "its array does not begin at a multiple of 16 bytes");
    for (uint32_t k = 0; k < b->rank; k++) {
        const sn_box_dim *d = &b->dims[k];
        if ((d->box > MOST_BOX && !b->pixels) || d->size > INT32_MAX || d->size < 1)
            return refuse(f, "a dimension is too long");
        if (sn_ix_uses_vals(f->m, d->at)) return refuse(f, "where it begins is a value of the kernel");
        if (k && (d->stride * bytes % UNIT || d->stride <= 0 || d->stride > ((int64_t)1 << 40) / bytes - 1))
            return refuse(f, "a stride is no multiple of 16 bytes");
    }
    return true;
}

bool sn_box_find(sn_box *out, const char **why_not, sn_module *m, sn_stmt nest) {
    finder f = {.m = m, .box = out};
    *out = (sn_box){0};
    bool found = find_loops(&f, nest) && find_statements(&f) && find_shared(&f) && find_dims(&f) && fits(&f);
    if (!found) *why_not = f.why;
    return found;
}
