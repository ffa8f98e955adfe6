/* deal.c: class deal: a block has a part of the result in shared memory, to which it deals out the elements of what the result is made of.
 *
 *     loop i in 3954121 { loop j in 11 { load x0[3*i + j] if j in 3   load x1[4*i + j - 3] if j - 3 in 4  ...  store y[11*i + j] } }
 *
 * For concatenations and borders of bytes and halves, and concatenations of short rows of words. Whoever makes 16 bytes
 * of the result asks for each element where it comes from, and loads it alone, or has a run of neighbours for every
 * part. But what a part has of a block's result lies side by side in memory: it is loaded by pieces that are aligned,
 * whatever is in them, all on their way together, and an element of a piece finds its place with one division for the
 * piece and a comparison. What stands in no part is filled in before. deal_bind.c has the picture of the kernel.
 *
 * Fields: tile_m elements of a block's result, vector those of a piece.
 */
#include "passes/schedule/moves/deal.h"

#include <math.h>

#include "ir/ops/scalar.h"
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"

/* ---- what the result is made of ---- */

enum { MOST_STATEMENTS = 128 }; /* of a body: parts are few */

typedef struct finder {
    sn_schedule_deal *d;
    sn_module *m;
    const sn_schedule_shape *sh;
    bool has_fill, fills_differ;
    sn_dtype fill_type;
} finder;

static const sn_stmt_rec *definition(const finder *f, sn_val v) { return sn_stmt_get(f->m, sn_val_get(f->m, v)->def); }

/* *box becomes what both have. */
static void cut(sn_schedule_box *box, uint32_t axis, int64_t low, int64_t n) {
    int64_t end = box->low[axis] + box->n[axis], other = sn_add_clamped(low, n);
    if (low > box->low[axis]) box->low[axis] = low;
    if (other < end) end = other;
    box->n[axis] = end > box->low[axis] ? end - box->low[axis] : 0;
}

static void intersect(sn_schedule_box *box, const sn_schedule_box *with, uint32_t axes) {
    for (uint32_t k = 0; k < axes; k++) cut(box, k, with->low[k], with->n[k]);
}

static int64_t elements_of(const sn_schedule_box *box, uint32_t axes) {
    int64_t n = 1;
    for (uint32_t k = 0; k < axes; k++) n = sn_mul_clamped(n, box->n[k]);
    return n;
}

static bool meet(const sn_schedule_box *a, const sn_schedule_box *b, uint32_t axes) {
    sn_schedule_box both = *a;
    intersect(&both, b, axes);
    return elements_of(&both, axes) > 0;
}

/* Where a mask holds, as far as that is in *box; false: it is made of other things than tests of loops. */
static bool cut_by(finder *f, sn_schedule_box *box, sn_val mask) {
    const sn_stmt_rec *r = definition(f, mask);
    int64_t c, at, bound;
    if (r->op == SN_LOP_AND) return cut_by(f, box, r->in[0]) && cut_by(f, box, r->in[1]);
    if (r->op != SN_LOP_IN || !sn_ix_is_const(f->m, r->bound, &bound)) return false;
    for (uint32_t k = 0; k < f->d->axes; k++) {
        sn_axis ax = sn_stmt_axis(f->m, f->sh->outer.at[k]);
        if (!sn_ix_uses_axis(f->m, r->ix, ax)) continue;
        if (!sn_ix_coef(f->m, r->ix, ax, &c) || c != 1) return false;
        if (!sn_ix_is_const(f->m, sn_ix_sub(f->m, r->ix, sn_ix_axis(f->m, ax)), &at)) return false;
        cut(box, k, -at, bound);
        return true;
    }
    return false;
}

static void note_fill(finder *f, sn_val v) {
    const sn_stmt_rec *r = definition(f, v);
    sn_schedule_deal *d = f->d;
    bool is_float = sn_is_float(r->dtype);
    if (r->op != SN_LOP_CONST) f->fills_differ = true;
    double x = is_float ? r->f : 0;
    int64_t i = is_float ? 0 : r->i;
    bool same = x == d->fill && signbit(x) == signbit(d->fill) && i == d->fill_int;
    if (f->has_fill && !same) f->fills_differ = true;
    d->fill = x, d->fill_int = i, f->has_fill = true, f->fill_type = r->dtype;
}

/* Steps of the load along loops, and where its part of the storage begins; false: it goes otherwise, or beyond the storage. */
static bool find_steps(finder *f, sn_schedule_deal_part *p, sn_ix e) {
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix at[SN_MAX_CHAIN];
    int64_t size, low, high;
    for (uint32_t k = 0; k < f->d->axes; k++) {
        axes[k] = sn_stmt_axis(f->m, f->sh->outer.at[k]);
        at[k] = sn_ix_const(f->m, p->box.low[k]);
        if (!sn_ix_coef(f->m, e, axes[k], &p->from[k])) return false;
    }
    if (!sn_ix_is_const(f->m, sn_buf_get(f->m, p->buf)->size, &size)) return false;
    if (!sn_ix_is_const(f->m, sn_ix_subst(f->m, e, axes, at, f->d->axes), &p->first)) return false;
    low = high = p->first;
    for (uint32_t k = 0; k < f->d->axes; k++) {
        int64_t reach = sn_mul_clamped(p->from[k], p->box.n[k] - 1);
        if (reach > 0) high = sn_add_clamped(high, reach);
        else low = sn_add_clamped(low, reach);
    }
    return low >= 0 && high < size;
}

/* Do its elements follow each other in memory as they do in the result? */
static bool is_dense(const sn_schedule_deal *d, const sn_schedule_deal_part *p) {
    for (uint32_t k = 0; k < d->axes; k++)
        if (p->box.n[k] > 1 && p->from[k] != p->steps[k]) return false;
    return true;
}

static void number_elements(const sn_schedule_deal *d, sn_schedule_deal_part *p) {
    p->count = 1;
    for (uint32_t k = d->axes; k-- > 0;) {
        p->steps[k] = p->count;
        p->count *= p->box.n[k];
    }
    p->single = !is_dense(d, p);
}

static bool add_load(finder *f, sn_stmt s, sn_schedule_box box) {
    const sn_stmt_rec *r = sn_stmt_get(f->m, s);
    sn_schedule_deal *d = f->d;
    sn_schedule_box own = box;
    if (r->has_mask && !cut_by(f, &own, r->in[0])) return false;
    if (r->has_mask && elements_of(&own, d->axes) < elements_of(&box, d->axes)) note_fill(f, r->in[1]);
    if (!elements_of(&own, d->axes)) return true;
    if (d->n == SN_MAX_DEAL || sn_buf_is_local(sn_buf_get(f->m, r->buf)) || sn_ix_uses_vals(f->m, r->ix)) return false;
    if (d->n && d->dtype != sn_buf_get(f->m, r->buf)->dtype) return false;
    sn_schedule_deal_part *p = &d->parts[d->n++];
    *p = (sn_schedule_deal_part){.load = s, .buf = r->buf, .box = own};
    d->dtype = sn_buf_get(f->m, r->buf)->dtype;
    for (uint32_t i = 0; i + 1 < d->n; i++)
        if (meet(&d->parts[i].box, &p->box, d->axes)) return false;
    if (!find_steps(f, p, r->ix)) return false;
    number_elements(d, p);
    return true;
}

/* What v is in the box. */
static bool look_at(finder *f, sn_val v, sn_schedule_box box) {
    const sn_stmt_rec *r = definition(f, v);
    sn_schedule_box chosen = box;
    switch (r->op) {
    case SN_LOP_CONST: note_fill(f, v); return true;
    case SN_LOP_LOAD: return add_load(f, sn_val_get(f->m, v)->def, box);
    case SN_LOP_CAST: return definition(f, r->in[0])->op == SN_LOP_LOAD && look_at(f, r->in[0], box);
    case SN_LOP_SELECT: break;
    default: return false;
    }
    if (!cut_by(f, &chosen, r->in[0]) || !look_at(f, r->in[1], chosen)) return false;
    uint32_t before = f->d->n;
    if (!look_at(f, r->in[2], box)) return false;
    for (uint32_t i = before; i < f->d->n; i++)
        if (meet(&f->d->parts[i].box, &chosen, f->d->axes)) return false;
    return true;
}

/* The one statement of the body that reads v; none: there are several, or none. */
static sn_stmt only_user(const finder *f, sn_val v) {
    sn_stmt user = {0};
    for (sn_stmt s = sn_stmt_get(f->m, f->sh->body)->first; s.i; s = sn_next(f->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(f->m, s);
        bool reads = false;
        for (uint32_t i = 0; i < r->n_in; i++) reads |= r->in[i].i == v.i;
        if (reads && user.i) return (sn_stmt){0};
        if (reads) user = s;
    }
    return user;
}

/* From a load on, as far as it is chosen from others and widened. */
static sn_val top_of(const finder *f, sn_val v) {
    for (;;) {
        sn_stmt s = only_user(f, v);
        const sn_stmt_rec *r = s.i ? sn_stmt_get(f->m, s) : NULL;
        bool loads = definition(f, v)->op == SN_LOP_LOAD;
        bool widens = r && r->op == SN_LOP_CAST && loads && r->dtype == SN_F32;
        if (!r || !(widens || (r->op == SN_LOP_SELECT && r->in[0].i != v.i))) return v;
        v = r->result;
    }
}

static bool fill_fits(const finder *f) {
    sn_scalar x = {f->d->fill, f->d->fill_int};
    if (!f->d->fills) return true;
    if (!f->has_fill || f->fills_differ) return false;
    sn_scalar y = sn_scalar_cast(f->d->dtype, f->fill_type, x, true);
    return sn_is_float(f->fill_type) ? y.f == x.f : y.i == x.i;
}

/* The rest of the body: stores, and loads, that walk the result. */
static bool rest_is_flat(finder *f) {
    sn_schedule_deal *d = f->d;
    for (sn_stmt s = sn_stmt_get(f->m, f->sh->body)->first; s.i; s = sn_next(f->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(f->m, s);
        const sn_lop_info *op = &sn_lops[r->op];
        bool is_part = false;
        if (op->has_region || op->syncs || op->ordered || op->has_combs || r->n_results > 1) return false;
        if (!sn_is_access(r)) continue;
        if (r->op != SN_LOP_LOAD && r->op != SN_LOP_STORE) return false;
        for (uint32_t i = 0; i < d->n; i++) is_part |= d->parts[i].load.i == s.i;
        if (is_part) continue;
        if (r->has_mask || !sn_schedule_walks_all(f->m, f->sh, r->ix)) return false;
        int64_t c0 = sn_ix_get(f->m, r->ix)->c0;
        uint32_t bytes = sn_dtype_bytes(sn_buf_get(f->m, r->buf)->dtype);
        if (c0 || sn_buf_get(f->m, r->buf)->align < SN_WIDEST_ACCESS) return false;
        if (bytes > d->stored) d->stored = bytes;
    }
    return d->stored > 0;
}

static bool stores_what_it_loads(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s))
        if (sn_stmt_get(m, s)->op == SN_LOP_STORE && sn_kern_loads(m, k, sn_stmt_get(m, s)->buf)) return true;
    return false;
}

bool sn_schedule_find_deal(sn_schedule_deal *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_module *m = cx->m;
    finder f = {.d = out, .m = m, .sh = sh};
    sn_schedule_box all = {{0}, {0}};
    *out = (sn_schedule_deal){.axes = sh->outer.n, .total = sh->rows};
    if (!sh->outer.n || sh->n_nests || stores_what_it_loads(m, k)) return false;
    int64_t stride = 1;
    for (uint32_t p = sh->outer.n; p-- > 0;) {
        all.n[p] = out->extents[p] = sn_ix_value(m, sn_stmt_extent(m, sh->outer.at[p]));
        out->strides[p] = stride;
        stride = sn_mul_clamped(stride, out->extents[p]);
    }
    const sn_stmt_rec *load = NULL;
    uint32_t statements = 0;
    for (sn_stmt s = sn_stmt_get(m, sh->body)->first; s.i && statements <= MOST_STATEMENTS; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op == SN_LOP_LOAD && r->has_mask) load = r;
        statements++;
    }
    if (!load || statements > MOST_STATEMENTS) return false;
    out->top = top_of(&f, load->result);
    if (!look_at(&f, out->top, all) || !out->n) return false;
    int64_t in_parts = 0;
    for (uint32_t i = 0; i < out->n; i++) in_parts += elements_of(&out->parts[i].box, out->axes);
    out->fills = in_parts < out->total;
    out->bytes = sn_dtype_bytes(out->dtype);
    return fill_fits(&f) && rest_is_flat(&f);
}

/* ---- sizes ---- */

/* Elements of a part, by loops from k on, among n of the result that follow each other, at most. */
static int64_t most_among(const sn_schedule_deal *d, const sn_schedule_deal_part *p, uint32_t k, int64_t n) {
    if (k == d->axes || !n) return n > 0;
    int64_t own = p->box.n[k] * p->steps[k];
    int64_t most = n / d->strides[k] * p->steps[k] + most_among(d, p, k + 1, n % d->strides[k]);
    return most < own ? most : own;
}

void sn_schedule_size_deal(sn_schedule_deal *d, int64_t block, int64_t piece, uint32_t threads) {
    d->block = block;
    d->piece = piece;
    d->threads = threads;
    for (uint32_t i = 0; i < d->n; i++) {
        sn_schedule_deal_part *p = &d->parts[i];
        int64_t most = most_among(d, p, 0, block), pieces = sn_ceil_div(most - 1, piece) + 1;
        p->turns = sn_ceil_div(p->single ? most : pieces, threads);
    }
}

/* ---- choosing ---- */

bool sn_schedule_deal_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    (void)k;
    *why_not = "dealing wants straight-line code over loops, on a GPU";
    return cx->target->is_gpu && sh->outer.n && !sh->n_nests && !sh->scans;
}

/* Elements that begin everything at which parts, rows and storage begin. */
static int64_t common_piece(const sn_schedule_deal *d) {
    uint32_t v = 16;
    for (uint32_t i = 0; i < d->n; i++) {
        const sn_schedule_deal_part *p = &d->parts[i];
        v = sn_least(v, sn_pow2_divisor(p->first));
        for (uint32_t k = 0; k < d->axes; k++) {
            bool whole = p->box.n[k] == d->extents[k];
            if (!whole) v = sn_least(v, sn_pow2_divisor(p->box.low[k] * d->strides[k]));
            if (!whole) v = sn_least(v, sn_pow2_divisor(p->box.n[k] * p->steps[k]));
            if (!whole) v = sn_least(v, sn_pow2_divisor(d->extents[k] * d->strides[k]));
        }
    }
    return v;
}

/* Elements between two places at which a part or a row of it ends, on average. */
static int64_t run_length(const sn_schedule_deal *d) {
    int64_t runs = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        const sn_schedule_deal_part *p = &d->parts[i];
        int64_t run = 1;
        for (uint32_t k = d->axes; k-- > 0;) {
            run *= p->box.n[k];
            if (p->box.n[k] != d->extents[k]) break;
        }
        runs += elements_of(&p->box, d->axes) / run;
    }
    return d->total / (runs ? runs : 1);
}

/* Wider elements do well lane by lane, where a place has one load, or as runs, where rows are long. */
static bool is_odd(const sn_schedule_deal *d) {
    if (common_piece(d) * d->bytes >= SN_DEAL_WHOLE || d->bytes > SN_TILE_WORD) return false;
    int64_t run = run_length(d) * d->bytes;
    return d->bytes == SN_TILE_WORD ? d->n > 1 && run <= SN_DEAL_WIDE_RUN
                                    : run <= (d->bytes == 1 ? SN_DEAL_BYTE_RUN : SN_DEAL_RUN);
}

static bool pays(const sn_pass_ctx *cx, const sn_schedule_deal *d) {
    int64_t single = 0;
    if (!is_odd(d) || d->total * d->bytes < (int64_t)SN_DEAL_BLOCK * cx->target->units * SN_DEAL_BLOCKS) return false;
    bool narrow = d->total <= INT32_MAX / d->stored; /* divisions of 64 bits take longer than all else */
    for (uint32_t i = 0; i < d->n; i++) {
        narrow &= sn_buf_bytes(cx->m, d->parts[i].buf) <= INT32_MAX;
        if (d->parts[i].single) single += d->parts[i].count;
    }
    return narrow && single * SN_DEAL_SINGLE <= d->total * d->bytes;
}

sn_status sn_schedule_deal_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                      const sn_sched *pinned) {
    sn_schedule_deal d;
    sn_sched sc = *pinned;
    const char *name = sn_kern_get(cx->m, k)->name;
    bool open = pinned->cls == SN_SCHED_NONE, fits = sn_schedule_find_deal(&d, cx, k, sh);
    if (!fits && open) return SN_OK;
    if (!fits)
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                       "kernel %s: class deal wants loads that tests of loops choose, each of a place of its own, "
                       "and results that begin with vectors",
                       name);
    if (open && !pays(cx, &d)) return SN_OK;
    sc.cls = SN_SCHED_DEAL;
    if (!sc.block_x) sc.block_x = SN_DEAL_THREADS;
    if (!sc.vector)
        sc.vector = sn_least(d.axes > 2 || d.bytes == 1 ? SN_DEAL_PIECE : SN_DEAL_LANES, SN_DEAL_PIECE / d.bytes);
    if (!sc.tile_m) sc.tile_m = SN_DEAL_BLOCK / d.bytes;
    sc.block_y = 1;
    if (!sc.min_blocks && d.n <= SN_DEAL_FEW) sc.min_blocks = SN_DEAL_RESIDENT * SN_DEAL_THREADS / sc.block_x;
    int64_t each = (int64_t)sc.block_x * (cx->target->vector_bytes / d.stored);
    if ((sc.tile_m & (sc.tile_m - 1)) || sc.tile_m % each || sc.tile_m * d.bytes > cx->target->shared_bytes)
        return sn_fail(
            cx->m->env, SN_ERROR_ARGUMENT,
            "kernel %s: the schedule's tile_m=%u is no power of 2, no whole vectors of its threads, or more than shared memory",
            name, sc.tile_m);
    for (uint32_t i = 0; i < d.n; i++) {
        const sn_buf_rec *b = sn_buf_get(cx->m, d.parts[i].buf);
        if (d.parts[i].single || (b->align >= sc.vector * d.bytes && sn_ix_value(cx->m, b->size) >= sc.vector))
            continue;
        if (open) return SN_OK;
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT, "kernel %s: %s has no pieces of the schedule's vector=%u", name,
                       b->name, sc.vector);
    }
    uint32_t stored = cx->target->vector_bytes / d.stored;
    SN_TRY(sn_schedule_check_dealt(cx, k, sc.block_x, sc.vector > stored ? sc.vector : stored));
    sn_schedule_propose(out, cx, &sc);
    return SN_OK;
}
