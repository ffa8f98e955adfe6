/* flat.c: class flat: a block owns rows that lie one behind the other in memory, and brings them to shared memory as one
 * piece.
 *
 *     loop i in 2853388 { reduce max r in 13 { load x[13*i + r] } ... loop r in 13 { ... store y[13*i + r] } }
 *
 * No 16 bytes begin a row of 13 halves, and no line holds one alone: threads of a row would be few and move two bytes
 * each. The rows of a block together are a piece that begins at a multiple of 16 bytes, whatever is in it: it is copied
 * as it lies, worked on in shared memory by whatever threads suit a row, and copied back. The same goes for what stands
 * across short axes: of [8191, 412, 16] summed over the 412, the 16 columns of a matrix are 32 bytes wide, but the matrix
 * is one piece. A *group* is what lies together: a row there, 16 columns here; a block has several groups.
 *
 *     group q = outer loops but the last ones, in row-major order;  row = inner*q + (the last ones)
 *
 * What passes through shared memory: buffers whose accesses are affine, advance from group to group by at least what a
 * group touches, and are read only, or written whole by one store. All else is accessed as it is. flat_bind.c has the
 * picture of the kernel.
 *
 * Fields: tile_m rows a block. A row has block_x threads and block_y rows are done at a time; where rows are columns, or so short that one thread
 * does each, block_x rows are done at a time by block_y threads each, since neighbouring lanes then read neighbours. vector elements of a row are
 * read at once where pieces of 16 bytes begin rows, or neighbouring columns where these are narrow and a word has several of them.
 */
#include "passes/schedule/rows/flat.h"

#include <stdlib.h>

#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/rows/rows.h"

/* ---- which buffers ---- */

typedef struct look {
    sn_pass_ctx *cx;
    sn_module *m;
    const sn_schedule_shape *sh;
    sn_chain outer;
    uint32_t prefix; /* outer loops that count groups */
    int64_t extents[SN_MAX_CHAIN];
} look;

/* An access as if it were alone in its buffer; or, `fits` false, none that can be staged. */
typedef struct part {
    sn_schedule_flat_buf is;
    int64_t high;
    bool walks, fits, in_order; /* in_order: its groups follow each other as the loops count them */
} part;

/* One more axis inside a group. */
static void add_axis(part *p, look *l, sn_ix e, sn_axis ax, int64_t extent, bool of_nest) {
    int64_t c;
    sn_schedule_flat_buf *is = &p->is;
    if (!sn_ix_coef(l->m, e, ax, &c) || c < 0 || is->n_axes == SN_FLAT_AXES) p->fits = false;
    if (!p->fits || !c || extent < 2) return;
    is->strides[is->n_axes] = c;
    is->extents[is->n_axes++] = extent;
    is->count = sn_mul_clamped(is->count, extent);
    is->side_by = of_nest && c == 1;
    p->high += c * (extent - 1);
    p->walks |= of_nest;
}

/* The offset of an access, with zeros for its axes, must be a constant. */
static bool find_start(part *p, look *l, sn_ix e, const sn_chain *nest) {
    sn_axis axes[2 * SN_MAX_CHAIN];
    sn_ix zeros[2 * SN_MAX_CHAIN];
    uint32_t n = 0;
    for (uint32_t k = 0; k < l->outer.n; k++) axes[n++] = sn_stmt_axis(l->m, l->outer.at[k]);
    for (uint32_t k = 0; k < nest->n; k++) axes[n++] = sn_stmt_axis(l->m, nest->at[k]);
    for (uint32_t k = 0; k < n; k++) zeros[k] = sn_ix_const(l->m, 0);
    if (!sn_ix_is_const(l->m, sn_ix_subst(l->m, e, axes, zeros, n), &p->is.base)) return false;
    p->high = p->is.base;
    return p->is.base >= 0;
}

/* Strides of the loops that count groups: of the last one, and whether the others follow in row-major order. */
static bool find_groups(part *p, look *l, sn_ix e) {
    int64_t c, stride = 0;
    p->in_order = true;
    for (uint32_t k = l->prefix; k-- > 0;) {
        if (!sn_ix_coef(l->m, e, sn_stmt_axis(l->m, l->outer.at[k]), &c) || c < 0) return false;
        p->is.others[k] = c;
        if (l->extents[k] == 1) continue;
        if (!stride && !c) return false; /* groups that have the same elements */
        if (!stride) p->is.group = stride = c;
        p->in_order &= c == stride;
        stride = sn_mul_clamped(stride, l->extents[k]);
    }
    return p->is.group > 0;
}

/* Do the axes with strides below a group's count all of its elements in a line, side by side? They leave the list, in which those that
 * count lines stay. */
static bool take_cell(sn_schedule_flat_buf *is) {
    int64_t cell = 1;
    for (uint32_t k = 0; k < is->n_axes;) {
        if (is->strides[k] != cell || cell == is->group) {
            k++;
            continue;
        }
        cell *= is->extents[k];
        is->n_axes--;
        for (uint32_t i = k; i < is->n_axes; i++)
            is->strides[i] = is->strides[i + 1], is->extents[i] = is->extents[i + 1];
        k = 0;
    }
    return cell == is->group;
}

/* Groups of a piece are apart from each other; those of lines are neighbours in lines that are apart. */
static void find_part(part *p, look *l, sn_ix e, const sn_chain *nest) {
    *p = (part){.is = {.count = 1}, .fits = true};
    p->fits = !sn_ix_uses_vals(l->m, e) && find_start(p, l, e, nest) && find_groups(p, l, e);
    for (uint32_t k = l->prefix; k < l->outer.n; k++)
        add_axis(p, l, e, sn_stmt_axis(l->m, l->outer.at[k]), l->extents[k], false);
    for (uint32_t k = 0; k < nest->n; k++)
        add_axis(p, l, e, sn_stmt_axis(l->m, nest->at[k]), sn_ix_value(l->m, sn_stmt_extent(l->m, nest->at[k])), true);
    if (!p->fits || !p->walks) return;
    p->is.reach = p->high - p->is.base + 1;
    if (p->in_order && p->is.reach <= p->is.group) return;
    int64_t line = sn_mul_clamped(p->is.group, l->extents[l->prefix - 1]);
    p->is.lines = take_cell(&p->is) && p->is.n_axes > 0;
    for (uint32_t k = 0; k < p->is.n_axes; k++) p->is.lines &= p->is.strides[k] >= line;
    p->fits = p->is.lines;
}

bool sn_schedule_is_flat(const sn_schedule_flat *f, sn_buf b, uint32_t *which) {
    for (*which = 0; *which < f->n; ++*which)
        if (sn_buf_eq(f->bufs[*which].buf, b)) return true;
    return false;
}

static bool same_lines(const sn_schedule_flat_buf *a, const sn_schedule_flat_buf *b) {
    bool same = a->n_axes == b->n_axes && a->base == b->base;
    for (uint32_t k = 0; same && k < a->n_axes; k++)
        same = a->strides[k] == b->strides[k] && a->extents[k] == b->extents[k];
    return same;
}

/* The buffer joins those that are staged, or what is known of it becomes wider. */
static bool join(sn_schedule_flat *f, sn_buf b, const part *p, bool store) {
    uint32_t i;
    const sn_schedule_flat_buf *is = &p->is;
    if (!sn_schedule_is_flat(f, b, &i)) {
        if (f->n == SN_MAX_FLAT) return false;
        f->bufs[f->n] = *is;
        f->bufs[f->n].buf = b;
        f->bufs[f->n++].stored = store;
        return true;
    }
    sn_schedule_flat_buf *fb = &f->bufs[i];
    if (store || fb->stored || is->group != fb->group || is->lines != fb->lines) return false;
    if (is->lines) return same_lines(is, fb);
    int64_t low = is->base < fb->base ? is->base : fb->base, end = fb->base + fb->reach;
    if (p->high >= end) end = p->high + 1;
    if (end - low > fb->group) return false;
    fb->side_by &= is->side_by;
    fb->base = low;
    fb->reach = end - low;
    return true;
}

static void drop(sn_schedule_flat *f, sn_buf b) {
    uint32_t i;
    if (sn_schedule_is_flat(f, b, &i)) f->bufs[i] = f->bufs[--f->n];
}

/* Has every group the same elements, as weights of a norm are? Those come from a cache. */
static bool is_shared(const look *l, sn_ix e) {
    for (uint32_t k = 0; k < l->prefix; k++)
        if (l->extents[k] > 1 && sn_ix_uses_axis(l->m, e, sn_stmt_axis(l->m, l->outer.at[k]))) return false;
    return !sn_ix_uses_vals(l->m, e);
}

static bool walks_nest(const look *l, sn_ix e, const sn_chain *nest) {
    bool walks = false;
    for (uint32_t k = 0; k < nest->n; k++) walks |= sn_ix_uses_axis(l->m, e, sn_stmt_axis(l->m, nest->at[k]));
    return walks;
}

/* Bytes that the accesses of nests walk which differ from group to group: all, those that groups have together, and those that are
 * stored along rows as they are. */
typedef struct walked {
    int64_t all, flat, along;
} walked;

/* Are rows, of groups in which they lie across each other, stored in lines of their own? Threads that go along them do that as it is. */
static bool goes_along(const sn_schedule_flat *f, look *l, const sn_stmt_rec *store, const sn_schedule_nest *nest) {
    int64_t c, bytes = sn_dtype_bytes(sn_buf_get(l->m, store->buf)->dtype);
    if (f->inner < 2 || nest->chain.n != 1 || nest->count <= SN_FLAT_ALONE || nest->count * bytes < SN_LINE)
        return false;
    return sn_ix_coef(l->m, store->ix, sn_stmt_axis(l->m, nest->top), &c) && c == 1;
}

/* Does all that nests access of a staged buffer lie in what is staged of it? Other loads of it, of the row before, say, were refused, but
 * would be sent there, too. */
static bool has_all(const sn_schedule_flat *f, look *l) {
    sn_module *m = l->m;
    for (uint32_t i = 0; i < l->sh->n_nests; i++) {
        const sn_schedule_nest *nest = &l->sh->nests[i];
        sn_stmt end = sn_stmt_walk_skip(m, nest->top);
        for (sn_stmt s = nest->top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            uint32_t at;
            part p;
            if (!sn_is_access(r) || !sn_schedule_is_flat(f, r->buf, &at)) continue;
            const sn_schedule_flat_buf *fb = &f->bufs[at];
            find_part(&p, l, r->ix, &nest->chain);
            bool inside = p.in_order && p.is.base >= fb->base && p.high < fb->base + fb->reach;
            if (!p.fits || p.is.group != fb->group) return false;
            if (fb->lines ? !p.is.lines || !same_lines(&p.is, fb) : !inside) return false;
        }
    }
    return true;
}

/* A buffer that was refused once stays so: it is dropped at its second access, and there is no third chance. */
static bool find_bufs(sn_schedule_flat *f, look *l) {
    enum { MOST = 75, LEAST_PART = 4 };
    sn_module *m = l->m;
    walked w = {0};
    for (uint32_t i = 0; i < l->sh->n_nests; i++) {
        const sn_schedule_nest *nest = &l->sh->nests[i];
        sn_stmt end = sn_stmt_walk_skip(m, nest->top);
        for (sn_stmt s = nest->top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            if (!sn_is_access(r)) continue;
            part p;
            bool store = r->op == SN_LOP_STORE;
            int64_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
            find_part(&p, l, r->ix, &nest->chain);
            bool whole = p.is.lines || p.is.count == p.is.group,
                 some = p.is.lines || p.is.count >= p.is.group / LEAST_PART;
            if (!is_shared(l, r->ix)) w.all += bytes;
            else f->weights += walks_nest(l, r->ix, &nest->chain);
            some &= whole || sn_buf_get(m, r->buf)->scope != SN_BUF_TEMP; /* gaps of ours may never be written */
            bool fits = p.fits && p.walks && (store ? whole && !r->has_mask : some);
            fits &= !(store && p.is.lines && p.is.group > 1 && goes_along(f, l, r, nest));
            if (fits && join(f, r->buf, &p, store)) w.flat += bytes;
            else if (store) {
                drop(f, r->buf);
                if (goes_along(f, l, r, nest)) w.along += bytes;
            }
        }
    }
    f->direct = w.along > 0;
    for (uint32_t i = 0; i < f->n; i++) { /* gaps between groups would be copied, too */
        f->lines |= f->bufs[i].lines;
        if (!f->bufs[i].lines && f->bufs[i].reach * 100 < f->bufs[i].group * MOST) return false;
    }
    if (f->direct && f->lines) return false;
    return f->n && (w.flat + w.along) * 100 >= w.all * MOST && has_all(f, l);
}

static bool stores_and_loads(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op == SN_LOP_STORE && sn_kern_loads(m, k, r->buf)) return true;
    }
    return false;
}

/* ---- the groups ---- */

static bool has_pieces(const sn_schedule_flat *f) {
    for (uint32_t i = 0; i < f->n; i++)
        if (!f->bufs[i].lines) return true;
    return false;
}

/* Elements of a row that lie side by side and begin at multiples of so many, in all pieces: beside lines, too, since threads that have
 * columns store whole vectors of a row without meeting in a bank. */
static uint32_t row_vector(const sn_schedule_flat *f, const look *l) {
    uint32_t v = 16;
    if (f->inner > 1 || l->sh->scans || (f->lines && (!has_pieces(f) || l->sh->max_count <= SN_FLAT_ALONE))) return 1;
    for (uint32_t i = 0; i < f->n; i++) {
        const sn_schedule_flat_buf *b = &f->bufs[i];
        if (b->lines) continue;
        v = b->side_by ? sn_least(v, sn_least(b->vector, sn_pow2_divisor(b->group))) : 1;
        if (v == 1) return 1;
    }
    for (uint32_t i = 0; i < l->sh->n_nests; i++) {
        const sn_chain *c = &l->sh->nests[i].chain;
        if (c->n > 1) return 1;
        v = sn_least(v, sn_pow2_divisor(l->sh->nests[i].count));
    }
    return v;
}

/* Do accesses of the staged buffers find so many neighbours of the last outer axis side by side, in a vector of them? */
static bool has_lanes(const sn_schedule_flat *f, look *l, int64_t lanes) {
    sn_module *m = l->m;
    sn_axis last = sn_stmt_axis(m, l->outer.at[l->outer.n - 1]);
    for (uint32_t i = 0; i < l->sh->n_nests; i++) {
        const sn_schedule_nest *nest = &l->sh->nests[i];
        sn_stmt end = sn_stmt_walk_skip(m, nest->top);
        for (sn_stmt s = nest->top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            uint32_t at;
            int64_t c;
            if (!sn_is_access(r) || !sn_schedule_is_flat(f, r->buf, &at)) continue;
            if (!sn_ix_coef(m, r->ix, last, &c) || c != 1) return false;
            for (uint32_t k = l->prefix; k + 1 < l->outer.n; k++)
                if (!sn_ix_coef(m, r->ix, sn_stmt_axis(m, l->outer.at[k]), &c) || c % lanes) return false;
            for (uint32_t k = 0; k < nest->chain.n; k++)
                if (!sn_ix_coef(m, r->ix, sn_stmt_axis(m, nest->chain.at[k]), &c) || c % lanes) return false;
        }
    }
    return true;
}

/* Neighbouring columns of pieces that a thread has together: narrow elements of a word, which single loads would take as long for. */
static uint32_t column_lanes(const sn_schedule_flat *f, look *l) {
    uint32_t v = SN_WORD, size = SN_WORD;
    if (f->inner < 2 || f->lines || f->direct || l->sh->scans) return 1;
    for (uint32_t i = 0; i < f->n; i++) {
        const sn_schedule_flat_buf *b = &f->bufs[i];
        sn_schedule_smaller(&size, b->size);
        v = sn_least(v, sn_least(b->vector, sn_pow2_divisor(b->group)));
        if (b->base) v = sn_least(v, sn_pow2_divisor(b->base));
    }
    v = sn_least(v, sn_least(SN_WORD / size, sn_pow2_divisor(l->extents[l->outer.n - 1])));
    return v > 1 && has_lanes(f, l, v) ? v : 1;
}

uint32_t sn_schedule_flat_lanes(const sn_schedule_flat *f, const sn_sched *sc) {
    return f->lanes > 1 ? sn_least(sc->vector, f->lanes) : 1; /* check() refuses more */
}

/* Has a row one thread? Short rows of bytes that are read once have: to put together what eight of them have takes longer. */
static bool is_alone(const sn_schedule_shape *sh, const sn_schedule_flat *f) {
    bool bytes = sh->n_nests == 1 && f->run == sh->max_count && f->run <= SN_FLAT_ALONE_BYTES;
    return sh->scans || bytes || sh->max_count / (f->lines ? 1 : f->vector) <= SN_FLAT_ALONE;
}

/* Elements of a copy: whole 16 bytes, as far as bases and strides are multiples. */
static uint32_t copy_vector(const sn_schedule_flat *f, const look *l, const sn_schedule_flat_buf *b) {
    uint32_t wide = sn_widest(l->cx, b->size);
    uint32_t whole = sn_least(l->cx->target->vector_bytes, l->cx->target->io_align) / b->size;
    if (wide < whole) wide = whole; /* bytes: a copy has no lanes */
    if (b->base) wide = sn_least(wide, sn_pow2_divisor(b->base));
    if (!b->lines) return f->along == f->groups ? wide : sn_least(wide, sn_pow2_divisor(f->along * b->group));
    for (uint32_t k = 0; k < b->n_axes; k++) wide = sn_least(wide, sn_pow2_divisor(b->strides[k]));
    for (uint32_t k = 0; k + 1 < f->prefix; k++)
        if (l->extents[k] > 1) wide = sn_least(wide, sn_pow2_divisor(b->others[k]));
    return sn_least(wide, SN_FLAT_LINE);
}

/* Lines that begin anywhere come by the whole vectors around them. What a block has of a line is whole vectors long. */
static void move_lines(sn_schedule_flat_buf *b, const look *l) {
    if (!b->lines || b->vector * b->size >= SN_WIDE_ENOUGH) return;
    b->moved = true;
    b->vector = sn_least(sn_least(l->cx->target->vector_bytes, l->cx->target->io_align) / b->size, SN_FLAT_LINE);
    b->gap = b->vector;
}

/* Where only so many groups are whole vectors as a block had better not have, each piece comes by the vectors around it. */
static void move_pieces(sn_schedule_flat *f, const look *l) {
    int64_t unit = sn_add_clamped(sn_mul_clamped(f->bytes, f->unit), SN_SHARED_RESERVED);
    if (f->lines || sn_mul_clamped(unit, SN_FLAT_UNIT_BLOCKS) <= l->cx->target->shared_bytes + SN_SHARED_SYSTEM) return;
    uint32_t bytes = sn_least(l->cx->target->vector_bytes, l->cx->target->io_align);
    bool worth = !f->words; /* words that are only read are whole loads as they are */
    for (uint32_t i = 0; i < f->n; i++) worth |= f->bufs[i].stored;
    if (!worth) return;
    for (uint32_t i = 0; i < f->n; i++) {
        const sn_schedule_flat_buf *b = &f->bufs[i];
        if (b->base || bytes / b->size < 2 || b->group < 2 * (int64_t)(bytes / b->size)) return;
    }
    for (uint32_t i = 0; i < f->n; i++) {
        sn_schedule_flat_buf *b = &f->bufs[i];
        b->vector = bytes / b->size;
        b->moved = b->group % b->vector != 0;
    }
    f->unit = 1;
}

static void measure(sn_schedule_flat *f, look *l) {
    f->unit = 1;
    f->run = INT64_MAX;
    f->words = true;
    f->piece = UINT32_MAX;
    f->along = f->lines ? l->extents[l->prefix - 1] : f->groups;
    int64_t bytes = 0;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        sn_schedule_flat_buf *b = &f->bufs[i];
        rows += !b->lines && b->side_by;
        b->size = sn_dtype_bytes(sn_buf_get(l->m, b->buf)->dtype);
        b->vector = copy_vector(f, l, b);
        move_lines(b, l);
        if (!b->lines) b->count = b->group;
        uint32_t even = b->lines ? SN_FLAT_LINE : b->vector;
        even /= sn_least(even, sn_pow2_divisor(b->group));
        if (even > f->unit) f->unit = even;
        f->words &= b->size >= SN_WORD;
        int64_t run = (f->inner > 1 ? f->inner : b->group) * b->size;
        if (run < f->run) f->run = run;
        if (b->vector * b->size < f->piece) f->piece = b->vector * b->size;
        bytes = sn_add_clamped(bytes, sn_mul_clamped(b->count, b->size));
    }
    f->bytes = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
    move_pieces(f, l);
    f->turns = rows && rows < f->n;
    f->vector = row_vector(f, l);
    f->lanes = column_lanes(f, l);
    f->by_columns = f->lines || (f->inner > 1 && !f->direct) || is_alone(l->sh, f);
}

/* Where the access of a nest is in a group, over the axes of the first nest, if they count alike. */
static bool place_in_group(sn_ix *out, sn_module *m, const sn_schedule_shape *sh, const sn_schedule_flat_buf *b,
                           sn_ix e, const sn_chain *nest) {
    const sn_chain *first = &sh->nests[0].chain;
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix with[SN_MAX_CHAIN];
    if (nest->n != first->n) return false;
    for (uint32_t k = 0; k < nest->n; k++) {
        if (!sn_ix_eq(sn_stmt_extent(m, nest->at[k]), sn_stmt_extent(m, first->at[k]))) return false;
        axes[k] = sn_stmt_axis(m, nest->at[k]);
        with[k] = sn_ix_axis(m, sn_stmt_axis(m, first->at[k]));
    }
    *out = sn_ix_addc(m, sn_ix_subst(m, e, axes, with, nest->n), -b->base);
    return true;
}

/* Is the only element of both that a thread accesses at a position of a row the one that stands there, and is none loaded behind the
 * store? Then what is stored may take the place of what was loaded: nobody else reads it. */
bool sn_schedule_flat_same_places(const sn_schedule_flat *f, sn_module *m, const sn_schedule_shape *sh, uint32_t in,
                                  uint32_t out) {
    sn_ix place = {0}, here;
    bool stored = false;
    for (uint32_t k = 0; k < sh->n_nests; k++) {
        const sn_schedule_nest *nest = &sh->nests[k];
        sn_stmt end = sn_stmt_walk_skip(m, nest->top);
        for (sn_stmt s = nest->top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            if (!sn_is_access(r)) continue;
            bool loads = sn_buf_eq(r->buf, f->bufs[in].buf);
            if (!loads && !sn_buf_eq(r->buf, f->bufs[out].buf)) continue;
            if (loads && stored) return false;
            stored |= !loads;
            if (!place_in_group(&here, m, sh, &f->bufs[loads ? in : out], r->ix, &nest->chain)) return false;
            if (place.i && !sn_ix_eq(here, place)) return false;
            place = here;
        }
    }
    return true;
}

/* Are positions behind a nest's last one behind all elements of a group? Tests of these load what is nobody's, then. */
static bool ends_with_nest(const sn_schedule_flat *f, look *l, sn_buf buf, int64_t group) {
    sn_module *m = l->m;
    for (uint32_t i = 0; i < l->sh->n_nests; i++) {
        const sn_schedule_nest *nest = &l->sh->nests[i];
        sn_stmt end = sn_stmt_walk_skip(m, nest->top);
        for (sn_stmt s = nest->top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            int64_t c;
            if (!sn_is_access(r) || !sn_buf_eq(r->buf, buf)) continue;
            if (!sn_ix_coef(m, r->ix, sn_stmt_axis(m, nest->chain.at[0]), &c)) return false;
            if (sn_mul_clamped(c, sn_ix_value(m, sn_stmt_extent(m, nest->chain.at[0]))) != group) return false;
        }
    }
    return f->by_columns;
}

/* May the stored piece take the places of the piece that is read, where a block has one group of both? */
static bool may_take(const sn_schedule_flat *f, look *l, const sn_schedule_flat_buf *out, uint32_t in, uint32_t at) {
    const sn_schedule_flat_buf *a = &f->bufs[in];
    bool alike = !a->lines && !a->stored && a->group == out->group && a->gap == out->gap && a->moved == out->moved &&
                 a->base == out->base && a->reach == out->reach && !l->sh->scans;
    alike &= sn_buf_get(l->m, a->buf)->dtype == sn_buf_get(l->m, out->buf)->dtype;
    for (uint32_t o = 0; o < at; o++) alike &= f->bufs[o].over != in + 1;
    return alike && ends_with_nest(f, l, a->buf, a->group) && ends_with_nest(f, l, out->buf, a->group) &&
           sn_schedule_flat_same_places(f, l->m, l->sh, in, at);
}

static void share_pieces(sn_schedule_flat *f, look *l) {
    for (uint32_t i = 0; i < f->n; i++)
        for (uint32_t k = 0; k < f->n && !f->bufs[i].lines && f->bufs[i].stored && !f->bufs[i].over; k++)
            if (may_take(f, l, &f->bufs[i], k, i)) f->bufs[i].over = k + 1;
}

/* Lines that are stored where others were read. */
static void share_places(sn_schedule_flat *f, const look *l) {
    for (uint32_t i = 0; i < f->n; i++)
        for (uint32_t k = 0; k < f->n && f->bufs[i].lines && f->bufs[i].stored; k++) {
            const sn_schedule_flat_buf *a = &f->bufs[k];
            sn_schedule_flat_buf *b = &f->bufs[i];
            bool alike = a->lines && !a->stored && same_lines(a, b) && a->group == b->group && a->gap == b->gap &&
                         a->moved == b->moved && a->vector == b->vector && !l->sh->scans;
            for (uint32_t p = 0; p + 1 < f->prefix; p++) alike &= a->others[p] == b->others[p];
            bool taken = false;
            for (uint32_t o = 0; o < i; o++) taken |= f->bufs[o].takes == k + 1;
            alike &= sn_buf_get(l->m, a->buf)->dtype == sn_buf_get(l->m, b->buf)->dtype;
            if (alike && !taken && !b->takes && sn_schedule_flat_same_places(f, l->m, l->sh, k, i)) b->takes = k + 1;
        }
}

/* Words of a bank that a warp wants at once where each x of its lanes have neighbours, and the next ones others that lie so far apart. */
static int64_t words_at_once(int64_t size, int64_t apart, int64_t x) {
    enum { BANKS = 32 };
    int64_t most = 1, last[BANKS] = {0}, words[BANKS] = {0};
    for (int64_t lane = 0; lane < SN_WARP; lane++) {
        int64_t word = (lane / x * apart + lane % x) * size / SN_WORD, *n = &words[word % BANKS];
        *n += !*n || last[word % BANKS] != word;
        last[word % BANKS] = word;
        if (*n > most) most = *n;
    }
    return most;
}

/* Threads that have a row each read at strides of a row: where that is a multiple of 32 bytes they would meet in a few
 * banks. A piece between rows spreads them; rows are whole pieces there. So does one between lines that lanes have one each of, and one between
 * matrices of few columns, which lanes have next to those of others. */
static void spread_rows(sn_schedule_flat *f) {
    enum { MEET = 32 };
    for (uint32_t i = 0; i < f->n && f->inner > 1; i++)
        if (f->bufs[i].lines) f->bufs[i].gap = f->bufs[i].vector;
    for (uint32_t i = 0; i < f->n && f->by_columns; i++) {
        sn_schedule_flat_buf *b = &f->bufs[i];
        if (b->lines || b->group % b->vector) continue;
        int64_t v = f->lanes, size = v * b->size, beside = f->inner / v;
        bool meet = f->inner > 1 ? 2 * words_at_once(size, (b->group + b->vector) / v, beside) <=
                                       words_at_once(size, b->group / v, beside)
                                 : b->group * b->size % MEET == 0;
        if (meet) b->gap = b->vector;
    }
}

/* Are all of them lines of columns that begin anywhere, and that one thread each loads and stores? Other lines alone are columns, of which
 * class outer has more. */
static bool are_moved(const sn_schedule_flat *f, const sn_schedule_shape *sh) {
    bool stored = false, few = sh->max_count <= SN_FLAT_FEWEST && !sh->scans;
    bool tiny = sh->max_count <= SN_TINY_NEST && !sh->windows && !sh->lanes_are_rows;
    if ((sh->one_thread && (!tiny || few)) || sh->max_count > SN_FLAT_ALONE) return false;
    for (uint32_t i = 0; i < f->n; i++) {
        if (!f->bufs[i].moved || f->bufs[i].group > 1) return false;
        stored |= f->bufs[i].stored;
    }
    return stored && !f->direct;
}

/* Bytes of shared memory of so many groups. */
static int64_t room_for(const sn_schedule_flat *f, int64_t groups) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        const sn_schedule_flat_buf *b = &f->bufs[i];
        if (b->takes || (b->over && groups == 1)) continue;
        int64_t n = sn_mul_clamped(groups, b->count), gaps = b->lines ? b->count / b->group : groups;
        if (b->moved && !b->lines) n = sn_add_clamped(n, 2 * (int64_t)b->vector);
        bytes = sn_add_clamped(bytes, sn_mul_clamped(sn_add_clamped(n, sn_mul_clamped(gaps, b->gap)), b->size));
    }
    return bytes;
}

/* Bytes of shared memory of a block: two of them at least have room, one loads. */
static int64_t room_of(const sn_pass_ctx *cx) { return (cx->target->shared_bytes - SN_SHARED_SLOTS) / 2; }

/* With the outer loops in the order of `l`. Groups of as few rows as make pieces of all buffers, if a block has room for one; else those of
 * some buffers. */
static void find_in_order(sn_schedule_flat *out, look *l) {
    int64_t inner = 1;
    *out = (sn_schedule_flat){0};
    for (uint32_t p = 0; p < l->outer.n; p++) l->extents[p] = sn_ix_value(l->m, sn_stmt_extent(l->m, l->outer.at[p]));
    for (l->prefix = l->outer.n; l->prefix > 0; l->prefix--) {
        sn_schedule_flat f = {.outer = l->outer, .prefix = l->prefix, .inner = inner, .groups = l->sh->rows / inner};
        inner = sn_mul_clamped(inner, l->extents[l->prefix - 1]);
        if (!find_bufs(&f, l)) continue;
        measure(&f, l);
        if (!has_pieces(&f) && !are_moved(&f, l->sh)) continue;
        spread_rows(&f);
        share_places(&f, l);
        share_pieces(&f, l);
        bool fits = !f.lines && sn_mul_clamped(f.bytes, f.unit) <= l->cx->target->shared_bytes / 2;
        if (fits || !out->n) *out = f;
        if (fits) return;
    }
}

/* What a block has no room for in the kernel's order may be rows of groups that another one of the loops counts, as where what leads in a
 * result lies innermost in what it is made of: the loops that lead are inside then, one after the other. */
void sn_schedule_find_flat(sn_schedule_flat *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    look l = {.m = cx->m, .cx = cx, .sh = sh, .outer = sh->outer};
    *out = (sn_schedule_flat){0};
    if (!sh->n_nests || !sh->outer.n || !sh->all_perfect || sh->mixed || stores_and_loads(cx->m, k)) return;
    find_in_order(out, &l);
    for (uint32_t i = 1; i < sh->outer.n && (!out->n || room_for(out, out->unit) > room_of(cx)); i++) {
        sn_schedule_flat f;
        for (uint32_t p = 0; p < sh->outer.n; p++) l.outer.at[p] = sh->outer.at[(p + i) % sh->outer.n];
        find_in_order(&f, &l);
        if (f.n && has_pieces(&f) && (f.lines || f.direct) && room_for(&f, f.unit) <= room_of(cx)) *out = f;
    }
}

/* ---- choosing ---- */

bool sn_schedule_flat_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_schedule_flat f;
    *why_not = "it is for GPUs";
    if (!cx->target->is_gpu) return false;
    *why_not = "its rows do not lie one behind the other";
    sn_schedule_find_flat(&f, cx, k, sh);
    if (!f.n) return false;
    *why_not = "its scans are too long for one thread";
    return !sh->scans || (f.by_columns && sh->max_count <= SN_FLAT_ALONE);
}

/* Has a multiprocessor room for a few blocks of as few groups as there can be? Columns that one thread has in its registers anyway take more. */
static bool has_blocks(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_schedule_flat *f) {
    int64_t room = sn_add_clamped(room_for(f, f->unit), SN_SHARED_RESERVED);
    int64_t blocks = SN_FLAT_ALONE_BLOCKS * (sh->one_thread ? SN_FLAT_ALONE_TINY : 1);
    return sn_mul_clamped(room, blocks) <= cx->target->shared_bytes + SN_SHARED_SYSTEM;
}

/* Has a block one group, which is stored where it was read, or begins anywhere? */
static bool is_single(const sn_schedule_flat *f) {
    bool single = false;
    for (uint32_t i = 0; i < f->n; i++) single |= !f->bufs[i].lines && (f->bufs[i].over || f->bufs[i].moved);
    return single && f->unit == 1;
}

/* Do accesses as they are leave most of a line, or of a thread's 16 bytes, unused? Rows that are longer do well by
 * themselves, and so do lines alone; pieces beside lines do not, whatever the kernel begins with. */
static bool pays(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_schedule_flat *f) {
    if (sh->max_count < 2 || sn_mul_clamped(f->bytes, f->groups) < SN_FLAT_SMALL) return false;
    if (f->lines) return f->along >= SN_FEWEST_COLUMNS;
    if (f->piece < SN_WIDE_ENOUGH || (is_single(f) && !has_blocks(cx, sh, f))) return false;
    if (f->turns) return true;
    bool narrow = sn_pow2_divisor(f->run) < SN_WIDE_ENOUGH && f->groups >= SN_SPLIT_ENOUGH * cx->target->units;
    narrow &= f->words || is_alone(sh, f); /* single halves of shared memory take as long as those of memory */
    bool again = sh->n_nests > 1, any = again && has_blocks(cx, sh, f);
    int64_t most = !narrow ? 2 * SN_LINE : any ? INT64_MAX : SN_FLAT_ODD_COLUMNS;
    bool plain = !again && !f->words && !narrow; /* whose lanes have vectors of columns in class outer */
    int64_t least = plain && is_single(f) ? SN_SECTOR : SN_LINE;
    if (f->inner > 1) return f->run < least || (f->run % cx->target->vector_bytes && f->run < most && !plain);
    bool odd = f->run % cx->target->vector_bytes != 0;
    if (sn_schedule_few_vectors(cx, sh)) return false; /* a thread of class inner has each */
    if (!odd && f->vector == 1 && !is_alone(sh, f) && f->run % SN_LINE == 0)
        return false; /* eight threads have 16 bytes each */
    return f->run < (odd ? SN_FLAT_ODD_ROW : SN_FLAT_ROW);
}

/* Elements that a group has of a line, at least, and bytes. */
static void least_of_lines(const sn_schedule_flat *f, int64_t *elements, int64_t *bytes) {
    *elements = *bytes = INT64_MAX;
    for (uint32_t i = 0; i < f->n; i++) {
        const sn_schedule_flat_buf *b = &f->bufs[i];
        if (!b->lines) continue;
        if (b->group < *elements) *elements = b->group;
        if (b->group * b->size < *bytes) *bytes = b->group * b->size;
    }
}

/* Groups of which all lines are so many sectors. */
static int64_t groups_of_sectors(const sn_schedule_flat *f, int64_t sectors) {
    int64_t n = f->unit;
    for (uint32_t i = 0; i < f->n; i++) {
        int64_t bytes = f->bufs[i].group * f->bufs[i].size, of = sn_ceil_div(sectors * SN_SECTOR, bytes);
        if (f->bufs[i].lines && of > n) n = sn_ceil_div(of, f->unit) * f->unit;
    }
    return n;
}

/* Groups of which lines that begin anywhere are four sectors, where three blocks have room for them, or two: they come with one more. */
static int64_t choose_moved(const sn_pass_ctx *cx, const sn_schedule_flat *f, int64_t least) {
    int64_t four = groups_of_sectors(f, 4), two = groups_of_sectors(f, 2);
    bool moved = false;
    for (uint32_t i = 0; i < f->n; i++) moved |= f->bufs[i].moved;
    if (moved && four > least && room_for(f, four) * 3 <= room_of(cx) * 2) return four;
    return moved && two > least && room_for(f, two) <= room_of(cx) ? two : least;
}

/* Of lines: as much of each as fills a block, but sides of a sector at least, with little left over at their ends; twice that
 * where it fits. */
static int64_t choose_side(const sn_pass_ctx *cx, const sn_schedule_flat *f) {
    int64_t most = sn_pow2_floor(SN_FLAT_BLOCK / f->bytes), n = f->unit, elements, bytes;
    least_of_lines(f, &elements, &bytes);
    int64_t least = choose_moved(cx, f, sn_ceil_div(sn_ceil_div(SN_FLAT_SIDE, elements), f->unit) * f->unit);
    for (int64_t side = f->unit; side <= most && side < 2 * f->along; side *= 2)
        if (side <= 2 * f->unit || sn_ceil_div(f->along, side) * side * 4 <= f->along * 5) n = side;
    if (room_for(f, least) > room_of(cx) && f->unit * bytes >= SN_SECTOR) least = f->unit;
    return n < least && f->along >= least ? least : n;
}

/* Groups of a block: as many as fill it, in whole units; fewer where multiprocessors would be idle. */
static int64_t choose_groups(const sn_pass_ctx *cx, const sn_schedule_flat *f) {
    if (f->lines) return choose_side(cx, f);
    int64_t n = SN_FLAT_BLOCK / f->bytes / f->unit * f->unit, most = f->groups / cx->target->units;
    if (n > most) n = most / f->unit * f->unit;
    return n > f->unit ? n : f->unit;
}

/* Words of a bank that a warp wants at once where each x of its lanes have a row, one element after the other. */
static int64_t words_of_bank(const sn_schedule_flat *f, uint32_t x) {
    int64_t most = 1;
    for (uint32_t i = 0; i < f->n; i++) {
        const sn_schedule_flat_buf *b = &f->bufs[i];
        int64_t n = words_at_once(b->size, b->group + b->gap, x);
        if (n > most) most = n;
    }
    return most;
}

/* Cycles that a warp takes for weights of a row: some for each load, which registers spare all rows of a thread but the first where weights are
 * few (flat_bind.c); else the load once more, since it waits for those of shared memory. */
static int64_t cycles_of_weights(const sn_schedule_flat *f, int64_t steps, int64_t rows) {
    enum { EACH = 3, AGAIN = 4 }; /* where it lies, the load, a conversion */
    int64_t loads = steps * f->weights;
    return loads * SN_WORD <= SN_KEPT_BYTES ? sn_ceil_div(EACH * loads, rows) : AGAIN * loads;
}

/* Threads of a row of about FLAT_STEPS elements each; more, if those of fewer rows meet in fewer banks, or keep weights, and that takes less. What
 * is stored as it is has the lanes of a warp side by side. */
static uint32_t threads_of_row(const sn_schedule_shape *sh, const sn_schedule_flat *f, uint32_t rows) {
    if (f->direct) return sn_least(sn_pow2_ceil(sh->max_count), SN_WARP);
    uint32_t x = sn_pow2_ceil(sn_ceil_div(sh->max_count, (int64_t)f->vector * SN_FLAT_STEPS)), best;
    best = x < SN_LEAST_THREADS ? SN_LEAST_THREADS : sn_least(x, SN_WARP);
    x = f->vector > 1 ? best : sn_least(x < 2 ? 2 : x, SN_WARP);
    int64_t least = INT64_MAX;
    bool wide = false; /* elements of f64 take twice as many accesses, and much to compute */
    for (uint32_t i = 0; i < f->n; i++) wide |= f->bufs[i].size > SN_WORD;
    for (; x <= SN_WARP && f->vector == 1; x *= 2) {
        if (x < SN_LEAST_THREADS && (wide || rows * x < SN_FLAT_THREADS / 2)) continue; /* a block would have few */
        int64_t steps = sn_ceil_div(sh->max_count, x), exchange = SN_FLAT_EXCHANGE;
        for (uint32_t with = 1; with < x; with *= 2) exchange += SN_FLAT_EXCHANGE;
        int64_t weights = cycles_of_weights(f, steps, sn_ceil_div((int64_t)rows * x, SN_FLAT_THREADS));
        int64_t cycles = (2 * steps * words_of_bank(f, x) + weights + exchange) * x;
        if (cycles < least) least = cycles, best = x;
    }
    return best;
}

/* Rows that are done at a time when a row has `each` threads: all, or equal parts. */
static uint32_t rows_at_a_time(int64_t rows, int64_t each) {
    int64_t turns = sn_ceil_div(rows * each, SN_FLAT_THREADS);
    if (turns > rows) turns = rows;
    while (rows % turns) turns++;
    return (uint32_t)(rows / turns);
}

/* Threads that have columns, alone or together: as many more as shared memory leaves a multiprocessor without, whose few blocks are large. */
static uint32_t threads_of_columns(const sn_pass_ctx *cx, const sn_schedule_flat *f, uint32_t rows, bool alone) {
    int64_t threads = alone ? SN_FLAT_THREADS / 2 : SN_FLAT_THREADS,
            enough = alone ? SN_IDLE_THREADS : SN_COLUMN_RESIDENT;
    int64_t bytes = room_for(f, rows / f->inner) + SN_SHARED_RESERVED;
    int64_t blocks = (cx->target->shared_bytes + SN_SHARED_SYSTEM) / bytes;
    while (threads * 2 <= cx->target->max_threads && blocks * threads * 2 <= enough) threads *= 2;
    return (uint32_t)threads;
}

/* Threads of rows that one thread does: all turns alike, where that can be. */
static uint32_t threads_alone(uint32_t rows, uint32_t most) {
    uint32_t turns = (uint32_t)sn_ceil_div(rows, most);
    return rows % turns ? most : rows / turns;
}

/* Words of a bank that a warp wants at once, of which `beside` threads have columns, the next ones those of the next row. */
static int64_t words_of_columns(const sn_schedule_flat *f, const sn_schedule_flat_buf *b, int64_t lanes,
                                int64_t beside) {
    enum { BANKS = 32 };
    int64_t most = 1, n[BANKS] = {0}, last[BANKS] = {0}, each = f->inner / lanes;
    for (int64_t t = 0; t < SN_WARP; t++) {
        int64_t column = t % beside, at = column / each * (b->group + b->gap) + column % each * lanes;
        int64_t word = (at + t / beside * f->inner) * b->size / SN_WORD, bank = word % BANKS;
        if (n[bank] && last[bank] == word) continue;
        last[bank] = word;
        if (++n[bank] > most) most = n[bank];
    }
    return most;
}

/* Words of a bank that a warp wants at once of any piece. */
static int64_t most_words_of_columns(const sn_schedule_flat *f, int64_t lanes, int64_t beside) {
    int64_t most = 1;
    for (uint32_t i = 0; i < f->n; i++) {
        int64_t n = words_of_columns(f, &f->bufs[i], lanes, beside);
        if (n > most) most = n;
    }
    return most;
}

/* Columns of a block that threads have at a time, where several share each: fewer, by more threads, if those of other groups lie in the same banks
 * and half as many words meet in one then. */
static int64_t columns_together(const sn_schedule_flat *f, int64_t columns, int64_t lanes) {
    if (f->lines || f->inner < 2 || columns < 1) return columns;
    int64_t all = most_words_of_columns(f, lanes, columns);
    if (all < SN_FLAT_MEET) return columns;
    for (int64_t beside = columns; beside % 2 == 0 && beside / 2 >= f->inner / lanes; beside /= 2)
        if (2 * most_words_of_columns(f, lanes, beside / 2) <= all) return beside / 2;
    return columns;
}

static void choose_threads(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_schedule_flat *f,
                           sn_sched *sc) {
    if (!f->by_columns) {
        if (!sc->block_x) sc->block_x = threads_of_row(sh, f, sc->tile_m);
        if (!sc->block_y) sc->block_y = rows_at_a_time(sc->tile_m, sc->block_x);
        return;
    }
    uint32_t each = sn_schedule_flat_lanes(f, sc), columns = (uint32_t)sn_ceil_div(sc->tile_m, each);
    bool alone = is_alone(sh, f);
    uint32_t most = threads_of_columns(cx, f, sc->tile_m, alone);
    if (!sc->block_x) sc->block_x = alone ? threads_alone(columns, most) : (uint32_t)columns_together(f, columns, each);
    if (sc->block_y) return;
    sc->block_y = 1;
    while (!alone && sc->block_x * sc->block_y * 2 <= most && sc->block_y * SN_LEAST_THREADS <= sh->max_count)
        sc->block_y *= 2;
}

/* Rows of a block. One thread's rows are whole turns of all threads; those that share a column meet at barriers: all columns at a time. */
static uint32_t choose_block(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_schedule_flat *f) {
    int64_t groups = choose_groups(cx, f), turn = SN_FLAT_THREADS / 2 * f->lanes;
    if (is_alone(sh, f)) {
        if (turn % (f->unit * f->inner) == 0 && groups * f->inner > turn)
            groups = groups * f->inner / turn * turn / f->inner;
    } else if (f->by_columns) {
        while (groups > f->unit && groups * f->inner > SN_FLAT_THREADS * f->lanes)
            groups = groups / 2 / f->unit * f->unit;
    }
    int64_t rows = sn_mul_clamped(groups < f->unit ? f->unit : groups, f->inner);
    return rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX;
}

/* Elements that lie side by side and are one thread's, at most: of a row, or of neighbouring columns. */
static uint32_t most_beside(const sn_schedule_flat *f) { return f->lanes > 1 ? f->lanes : f->vector; }

/* Rows that are done at a time. */
static int64_t rows_together(const sn_schedule_flat *f, const sn_sched *sc) {
    return f->by_columns ? (int64_t)sc->block_x * sn_schedule_flat_lanes(f, sc) : sc->block_y;
}

static void choose(sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_schedule_flat *f, sn_sched *sc) {
    sc->cls = SN_SCHED_FLAT;
    if (!sc->tile_m) sc->tile_m = choose_block(cx, sh, f);
    if (!sc->vector) sc->vector = !sc->block_x || sc->tile_m % (sc->block_x * f->lanes) == 0 ? most_beside(f) : 1;
    choose_threads(cx, sh, f, sc);
    int64_t share = f->by_columns ? sc->block_y : sc->block_x;
    int64_t steps = sn_ceil_div(sh->max_count, share * (f->lanes > 1 ? 1 : sc->vector));
    /* Written out, only the last step has tests; rows of one thread are so in parts. */
    bool parts = share == 1 && steps > SN_FLAT_STEPS;
    if (!sc->unroll && parts) sc->unroll = (uint32_t)sn_ceil_div(steps, sn_ceil_div(steps, SN_FLAT_STEPS));
    if (!sc->unroll) sc->unroll = sn_least(steps, steps <= SN_FLAT_STEPS ? SN_FLAT_STEPS : SN_COLUMN_LOADS);
}

static sn_status check(const sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_schedule_flat *f,
                       const sn_sched *sc) {
    const char *name = sn_kern_get(cx->m, k)->name;
    sn_env *env = cx->m->env;
    int64_t unit = f->unit * f->inner, room = cx->target->shared_bytes - SN_SHARED_SLOTS;
    int64_t at_a_time = rows_together(f, sc);
    if (sc->tile_m % unit)
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: %u rows of the schedule's tile_m are no multiple of %lld",
                       name, sc->tile_m, (long long)unit);
    if (!sc->tile_m || room_for(f, sc->tile_m / f->inner) > room)
        return sn_fail(env, SN_ERROR_ARGUMENT,
                       "kernel %s: %u rows of the schedule's tile_m take more than %lld bytes of shared memory", name,
                       sc->tile_m, (long long)room);
    if (sc->block_x * sc->block_y > cx->target->max_threads)
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: the schedule's %u threads are more than %u", name,
                       sc->block_x * sc->block_y, cx->target->max_threads);
    bool meet = f->by_columns ? sc->block_y > 1 : sc->block_x > 1;
    if (meet && sc->tile_m % at_a_time)
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: %u rows of the schedule's tile_m are no whole turns of %lld",
                       name, sc->tile_m, (long long)at_a_time);
    if (sh->scans && (!f->by_columns || sc->block_y > 1))
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: the steps of a scan have one thread", name);
    if (most_beside(f) % sc->vector)
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: the schedule's vector=%u does not divide %u", name,
                       sc->vector, most_beside(f));
    return SN_OK;
}

/* Is it complete, and would it pass the check? Of headers that nobody pinned. */
static bool is_possible(const sn_pass_ctx *cx, const sn_schedule_flat *f, const sn_sched *sc) {
    int64_t at_a_time = rows_together(f, sc), share = f->by_columns ? sc->block_y : sc->block_x;
    if (!sc->tile_m || sc->tile_m % (f->unit * f->inner) || sc->block_x * sc->block_y > cx->target->max_threads)
        return false;
    return room_for(f, sc->tile_m / f->inner) <= room_of(cx) && (share == 1 || sc->tile_m % at_a_time == 0);
}

/* Other candidates: half as many rows a block, and twice as many. */
sn_status sn_schedule_flat_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                      const sn_sched *pinned) {
    sn_schedule_flat f;
    sn_sched first = *pinned;
    sn_schedule_find_flat(&f, cx, k, sh);
    bool open = pinned->cls == SN_SCHED_NONE;
    if (open && !pays(cx, sh, &f)) return SN_OK;
    choose(cx, sh, &f, &first);
    if (open && !is_possible(cx, &f, &first)) return SN_OK;
    SN_TRY(check(cx, k, sh, &f, &first));
    sn_schedule_propose(out, cx, &first);
    uint32_t rows[] = {first.tile_m / 2, first.tile_m * 2};
    for (size_t i = 0; i < SN_COUNT(rows) && !pinned->tile_m && !pinned->block_x && !pinned->block_y; i++) {
        sn_sched other = *pinned;
        if (!(other.tile_m = rows[i])) continue;
        choose(cx, sh, &f, &other);
        if (is_possible(cx, &f, &other)) sn_schedule_propose(out, cx, &other);
    }
    return SN_OK;
}
