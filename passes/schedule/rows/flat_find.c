/* flat_find.c: what class flat stages (flat.h): the groups of a kernel's rows, and the buffers that pass through shared memory.
 *
 *     loop i in 2853388 { reduce max r in 13 { load x[13*i + r] } ... loop r in 13 { ... store y[13*i + r] } }
 *     group = a row: x and y are pieces of 13 elements, groups follow each other
 *
 * What passes through shared memory: buffers whose accesses are affine, advance from group to group by at least what a
 * group touches, and are read only, or written whole by one store. All else is accessed as it is.
 *
 * Groups are tried from single rows on, by one more of the outer loops inside of a group each time, until all buffers are
 * pieces and a block has room for one; then with the loops in another order. How a block lays pieces and lines out in
 * shared memory (gaps, whole vectors around them, results that take the places of operands) is found here, too, since it says
 * how much room they need.
 */
#include "passes/schedule/rows/flat.h"

#include "passes/schedule/base/figures.h"

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
    for (sn_nest_access a = {0}; sn_schedule_next_access(&a, l->m, l->sh);) {
        const sn_stmt_rec *r = sn_stmt_get(l->m, a.s);
        uint32_t at;
        part p;
        if (!sn_schedule_is_flat(f, r->buf, &at)) continue;
        const sn_schedule_flat_buf *fb = &f->bufs[at];
        find_part(&p, l, r->ix, &a.nest->chain);
        bool inside = p.in_order && p.is.base >= fb->base && p.high < fb->base + fb->reach;
        if (!p.fits || p.is.group != fb->group) return false;
        if (fb->lines ? !p.is.lines || !same_lines(&p.is, fb) : !inside) return false;
    }
    return true;
}

/* A buffer that was refused once stays so: it is dropped at its second access, and there is no third chance. */
static bool find_bufs(sn_schedule_flat *f, look *l) {
    sn_module *m = l->m;
    walked w = {0};
    for (sn_nest_access a = {0}; sn_schedule_next_access(&a, m, l->sh);) {
        const sn_stmt_rec *r = sn_stmt_get(m, a.s);
        part p;
        bool store = r->op == SN_LOP_STORE, along = store && goes_along(f, l, r, a.nest);
        int64_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        find_part(&p, l, r->ix, &a.nest->chain);
        bool whole = p.is.lines || p.is.count == p.is.group,
             some = p.is.lines || p.is.count >= p.is.group / SN_FLAT_TOUCHED;
        if (!is_shared(l, r->ix)) w.all += bytes;
        else f->weights += walks_nest(l, r->ix, &a.nest->chain);
        some &= whole || sn_buf_get(m, r->buf)->scope != SN_BUF_TEMP; /* gaps of ours may never be written */
        bool fits = p.fits && p.walks && (store ? whole && !r->has_mask : some);
        fits &= !(along && p.is.lines && p.is.group > 1);
        if (fits && join(f, r->buf, &p, store)) w.flat += bytes;
        else if (store) {
            drop(f, r->buf);
            if (along) w.along += bytes;
        }
    }
    f->direct = w.along > 0;
    for (uint32_t i = 0; i < f->n; i++) { /* gaps between groups would be copied, too */
        f->lines |= f->bufs[i].lines;
        if (!f->bufs[i].lines && f->bufs[i].reach * 100 < f->bufs[i].group * SN_FLAT_MOST) return false;
    }
    if (f->direct && f->lines) return false;
    return f->n && (w.flat + w.along) * 100 >= w.all * SN_FLAT_MOST && has_all(f, l);
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
    for (sn_nest_access a = {0}; sn_schedule_next_access(&a, m, l->sh);) {
        const sn_stmt_rec *r = sn_stmt_get(m, a.s);
        const sn_chain *nest = &a.nest->chain;
        uint32_t at;
        int64_t c;
        if (!sn_schedule_is_flat(f, r->buf, &at)) continue;
        if (!sn_ix_coef(m, r->ix, last, &c) || c != 1) return false;
        for (uint32_t k = l->prefix; k + 1 < l->outer.n; k++)
            if (!sn_ix_coef(m, r->ix, sn_stmt_axis(m, l->outer.at[k]), &c) || c % lanes) return false;
        for (uint32_t k = 0; k < nest->n; k++)
            if (!sn_ix_coef(m, r->ix, sn_stmt_axis(m, nest->at[k]), &c) || c % lanes) return false;
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

/* Short rows of bytes that are read once have: to put together what eight threads have takes longer. */
bool sn_schedule_flat_is_alone(const sn_schedule_shape *sh, const sn_schedule_flat *f) {
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
    f->by_columns = f->lines || (f->inner > 1 && !f->direct) || sn_schedule_flat_is_alone(l->sh, f);
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
    for (sn_nest_access a = {0}; sn_schedule_next_access(&a, m, sh);) {
        const sn_stmt_rec *r = sn_stmt_get(m, a.s);
        bool loads = sn_buf_eq(r->buf, f->bufs[in].buf);
        if (!loads && !sn_buf_eq(r->buf, f->bufs[out].buf)) continue;
        if (loads && stored) return false;
        stored |= !loads;
        if (!place_in_group(&here, m, sh, &f->bufs[loads ? in : out], r->ix, &a.nest->chain)) return false;
        if (place.i && !sn_ix_eq(here, place)) return false;
        place = here;
    }
    return true;
}

/* Are positions behind a nest's last one behind all elements of a group? Tests of these load what is nobody's, then. */
static bool ends_with_nest(const sn_schedule_flat *f, look *l, sn_buf buf, int64_t group) {
    sn_module *m = l->m;
    for (sn_nest_access a = {0}; sn_schedule_next_access(&a, m, l->sh);) {
        const sn_stmt_rec *r = sn_stmt_get(m, a.s);
        sn_stmt first = a.nest->chain.at[0];
        int64_t c;
        if (!sn_buf_eq(r->buf, buf)) continue;
        if (!sn_ix_coef(m, r->ix, sn_stmt_axis(m, first), &c)) return false;
        if (sn_mul_clamped(c, sn_ix_value(m, sn_stmt_extent(m, first))) != group) return false;
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

int64_t sn_schedule_flat_words_at_once(int64_t size, int64_t apart, int64_t x) {
    int64_t most = 1, last[SN_BANKS] = {0}, words[SN_BANKS] = {0};
    for (int64_t lane = 0; lane < SN_WARP; lane++) {
        int64_t word = (lane / x * apart + lane % x) * size / SN_WORD, *n = &words[word % SN_BANKS];
        *n += !*n || last[word % SN_BANKS] != word;
        last[word % SN_BANKS] = word;
        if (*n > most) most = *n;
    }
    return most;
}

/* Threads that have a row each read at strides of a row: where that is a multiple of 32 bytes they would meet in a few
 * banks. A piece between rows spreads them; rows are whole pieces there. So does one between lines that lanes have one each of, and one between
 * matrices of few columns, which lanes have next to those of others. */
static void spread_rows(sn_schedule_flat *f) {
    for (uint32_t i = 0; i < f->n && f->inner > 1; i++)
        if (f->bufs[i].lines) f->bufs[i].gap = f->bufs[i].vector;
    for (uint32_t i = 0; i < f->n && f->by_columns; i++) {
        sn_schedule_flat_buf *b = &f->bufs[i];
        if (b->lines || b->group % b->vector) continue;
        int64_t v = f->lanes, size = v * b->size, beside = f->inner / v;
        bool meet = f->inner > 1 ? 2 * sn_schedule_flat_words_at_once(size, (b->group + b->vector) / v, beside) <=
                                       sn_schedule_flat_words_at_once(size, b->group / v, beside)
                                 : b->group * b->size % SN_FLAT_EVEN_ROW == 0;
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

int64_t sn_schedule_flat_room(const sn_schedule_flat *f, int64_t groups) {
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

int64_t sn_schedule_flat_most_room(const sn_pass_ctx *cx) { return (cx->target->shared_bytes - SN_SHARED_SLOTS) / 2; }

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
    for (uint32_t i = 1;
         i < sh->outer.n && (!out->n || sn_schedule_flat_room(out, out->unit) > sn_schedule_flat_most_room(cx)); i++) {
        sn_schedule_flat f;
        for (uint32_t p = 0; p < sh->outer.n; p++) l.outer.at[p] = sh->outer.at[(p + i) % sh->outer.n];
        find_in_order(&f, &l);
        if (f.n && has_pieces(&f) && (f.lines || f.direct) &&
            sn_schedule_flat_room(&f, f.unit) <= sn_schedule_flat_most_room(cx))
            *out = f;
    }
}
