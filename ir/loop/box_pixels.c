/* box_pixels.c: boxes whose lines are pixels (box.h): what their dimensions are.
 *
 * `index` numbers the pixels, row by row, image by image. Where a test or the offset divides that number, an axis
 * ends: those places are its cuts. The number as a sum of as many axes, each times its cut, makes every coordinate
 * linear, and the rest is reading coefficients: a test bounds an axis (and says by how much pixels are apart, and
 * the tap), the offset says how far neighbours are in memory.
 *
 * An axis without a test has whatever size is touched. The terms that are left belong to the channels while they
 * stay inside a pixel, else to the axis whose stride has most in common with them, if hardware can move pixels so
 * far.
 *
 * The last axis counts images: hardware moves no tap along it. Where it has taps, or is the only one, there is one
 * image.
 */
#include "ir/loop/box_pixels.h"

#include "ir/index/ix_build.h"
#include "ir/loop/loop.h"

enum { AXES = SN_BOX_DIMS - 1, MOST_TERMS = 16, MOST_STEP = 8 /* elements from pixel to pixel */ };

typedef struct pixels {
    sn_module *m;
    sn_box *box;
    const char *why;
    sn_axis line, lane;
    sn_val number;
    sn_ix first; /* number of the first pixel */
    int64_t all; /* of pixels */
    uint32_t n;  /* axes */
    int64_t cuts[AXES];
    sn_axis axes[AXES];
    int64_t strides[AXES]; /* of the number's axes in memory; later of the array's */
    bool tested[AXES];
    sn_ix taps[AXES]; /* of axes without a test: elements */
    bool lanes_tested;
    sn_ix offset; /* what is left of it */
} pixels;

static bool refuse(pixels *p, const char *why) {
    p->why = why;
    return false;
}

sn_pixel_limits sn_pixel_limits_of(uint32_t n_axes) {
    static const sn_pixel_limits LIMITS[] = {{-32768, 32767, 65535}, {-128, 127, 255}, {-16, 15, 31}};
    return LIMITS[n_axes - 1];
}

/* ---- axes ---- */

static bool cut(pixels *p, int64_t at) {
    uint32_t i = 0;
    while (i < p->n && p->cuts[i] < at) i++;
    if (i < p->n && p->cuts[i] == at) return true;
    if (p->n + 1 == AXES) return refuse(p, "its pixels have too many axes");
    for (uint32_t k = p->n++; k > i; k--) p->cuts[k] = p->cuts[k - 1];
    p->cuts[i] = at;
    return true;
}

/* Cuts in e. *unit: how far the number goes while e counts one, if e is the number, divided or not; else 0. */
static bool find_cuts(pixels *p, sn_ix e, int64_t *unit) {
    const sn_ix_rec *r = sn_ix_get(p->m, e);
    int64_t inner, by;
    *unit = r->kind == SN_IX_VAL && r->id == p->number.i;
    if (r->kind == SN_IX_SUM)
        for (uint32_t i = 0; i < r->n_terms; i++)
            if (!find_cuts(p, r->terms[i].atom, &inner)) return false;
    if (r->kind != SN_IX_DIV && r->kind != SN_IX_MOD) return true;
    if (!sn_ix_uses_vals(p->m, r->a)) return true;
    if (!find_cuts(p, r->a, &inner)) return false;
    if (!inner || !sn_ix_is_const(p->m, r->b, &by)) return refuse(p, "the number of a pixel is divided otherwise");
    *unit = r->kind == SN_IX_DIV ? inner * by : inner;
    return cut(p, inner * by);
}

static bool find_cuts_of_mask(pixels *p, sn_val mask) {
    const sn_stmt_rec *r = sn_stmt_get(p->m, sn_val_get(p->m, mask)->def);
    int64_t unit;
    if (r->op == SN_LOP_AND) return find_cuts_of_mask(p, r->in[0]) && find_cuts_of_mask(p, r->in[1]);
    if (r->op != SN_LOP_IN) return refuse(p, "a mask is more than bounds of dimensions");
    if (sn_ix_eq(r->ix, sn_ix_val(p->m, p->number)) && !sn_ix_is_const(p->m, r->bound, &p->all))
        return refuse(p, "it has no known number of pixels");
    return find_cuts(p, r->ix, &unit);
}

static int64_t unit_of(const pixels *p, uint32_t k) { return k ? p->cuts[k - 1] : 1; }

/* The number as a sum over axes. */
static bool make_axes(pixels *p) {
    if (!p->all) return refuse(p, "no test bounds the number of its pixels");
    while (p->n && p->cuts[p->n - 1] >= p->all) p->n--;
    p->n++;
    for (uint32_t k = 0; k < p->n; k++) {
        int64_t end = k + 1 < p->n ? p->cuts[k] : p->all;
        if (end % unit_of(p, k)) return refuse(p, "an axis of its pixels does not divide the next one");
        p->axes[k] = sn_axis_new(p->m, "p", sn_ix_const(p->m, end / unit_of(p, k)));
        p->taps[k] = sn_ix_const(p->m, 0);
    }
    return true;
}

static int64_t count_of(const pixels *p, uint32_t k) {
    return sn_ix_value(p->m, sn_axis_get(p->m, p->axes[k])->extent);
}

static sn_ix over_axes(pixels *p, sn_ix e) {
    sn_ix number = sn_ix_const(p->m, 0);
    for (uint32_t k = 0; k < p->n; k++)
        number = sn_ix_add(p->m, number, sn_ix_scale(p->m, sn_ix_axis(p->m, p->axes[k]), unit_of(p, k)));
    return sn_ix_subst_val(p->m, e, p->number, number);
}

static bool uses_nest(const pixels *p, sn_ix e) {
    bool uses = sn_ix_uses_vals(p->m, e) || sn_ix_uses_axis(p->m, e, p->lane) || sn_ix_uses_axis(p->m, e, p->line);
    for (uint32_t k = 0; k < p->n; k++) uses |= sn_ix_uses_axis(p->m, e, p->axes[k]);
    return uses;
}

/* ---- tests ---- */

/* step * axis + what does not change in the nest: where pixels of that axis stand, and the tap. */
static bool bound_axis(pixels *p, sn_ix e, uint32_t k, int64_t step, int64_t size) {
    sn_box_dim *d = &p->box->dims[1 + k];
    sn_ix rest = sn_ix_sub(p->m, e, sn_ix_scale(p->m, sn_ix_axis(p->m, p->axes[k]), step));
    if (p->tested[k]) return refuse(p, "a dimension has two bounds");
    if (uses_nest(p, rest)) return refuse(p, "a test is no bound of a dimension");
    p->tested[k] = true;
    *d = (sn_box_dim){.size = size, .step = step, .low = sn_ix_range(p->m, rest).lo};
    if (d->low == INT64_MIN) return refuse(p, "a tap has no bounds");
    d->tap = sn_ix_addc(p->m, rest, -d->low);
    return true;
}

static bool bound_lanes(pixels *p, sn_ix e, int64_t size) {
    sn_box_dim *d = &p->box->dims[0];
    d->at = sn_ix_sub(p->m, e, sn_ix_axis(p->m, p->lane));
    d->size = size;
    if (p->lanes_tested || uses_nest(p, d->at)) return refuse(p, "a test is no bound of a dimension");
    return p->lanes_tested = true;
}

static bool find_tests(pixels *p, sn_val mask) {
    const sn_stmt_rec *r = sn_stmt_get(p->m, sn_val_get(p->m, mask)->def);
    int64_t size, step;
    if (r->op == SN_LOP_AND) return find_tests(p, r->in[0]) && find_tests(p, r->in[1]);
    if (sn_ix_eq(r->ix, sn_ix_val(p->m, p->number))) return true;
    if (!sn_ix_is_const(p->m, r->bound, &size)) return refuse(p, "a test is no bound of a dimension");
    sn_ix e = over_axes(p, r->ix);
    if (sn_ix_coef(p->m, e, p->lane, &step) && step == 1) return bound_lanes(p, e, size);
    for (uint32_t k = 0; k < p->n; k++)
        if (sn_ix_coef(p->m, e, p->axes[k], &step) && step > 0) return bound_axis(p, e, k, step, size);
    return refuse(p, "a test is no bound of a dimension");
}

/* ---- offset ---- */

/* What tested dimensions add to it is taken away, all at once: the sum of it may be simpler than its parts. */
static bool find_strides(pixels *p, sn_ix offset) {
    int64_t one;
    offset = over_axes(p, offset);
    if (!sn_ix_coef(p->m, offset, p->lane, &one) || one != 1) return refuse(p, "its rows are not contiguous");
    sn_ix known = sn_ix_axis(p->m, p->lane);
    if (p->lanes_tested) known = sn_ix_add(p->m, known, p->box->dims[0].at);
    for (uint32_t k = 0; k < p->n; k++) {
        const sn_box_dim *d = &p->box->dims[1 + k];
        if (!sn_ix_coef(p->m, offset, p->axes[k], &p->strides[k]) || p->strides[k] <= 0)
            return refuse(p, "a dimension has no constant stride");
        known = sn_ix_add(p->m, known, sn_ix_scale(p->m, sn_ix_axis(p->m, p->axes[k]), p->strides[k]));
        if (!p->tested[k]) continue;
        if (p->strides[k] % d->step) return refuse(p, "a dimension has no constant stride");
        p->strides[k] /= d->step;
        known = sn_ix_add(p->m, known, sn_ix_scale(p->m, sn_ix_addc(p->m, d->tap, d->low), p->strides[k]));
    }
    p->offset = sn_ix_sub(p->m, offset, known);
    return uses_nest(p, p->offset) ? refuse(p, "a dimension has no constant stride") : true;
}

/* The smallest stride of pixels. */
static int64_t pixel_size(const pixels *p) {
    int64_t least = INT64_MAX;
    for (uint32_t k = 0; k < p->n; k++) {
        int64_t step = p->tested[k] ? p->box->dims[1 + k].step : 1;
        if (p->strides[k] * step < least) least = p->strides[k] * step;
    }
    return least;
}

/* c * atom, of the offset. */
static bool give_term(pixels *p, const sn_ix_term *t) {
    sn_box_dim *lanes = &p->box->dims[0];
    sn_ix e = sn_ix_scale(p->m, t->atom, t->c), with = sn_ix_add(p->m, lanes->at, e);
    sn_range own = sn_ix_range(p->m, e), all = sn_ix_range(p->m, with);
    uint32_t best = p->n;
    int64_t most = 0;
    if (own.lo < 0 || own.hi > INT32_MAX) return refuse(p, "where it begins has no bounds");
    for (uint32_t k = 0; k < p->n; k++) {
        int64_t common = sn_gcd(t->c, p->strides[k]);
        bool near = common && p->strides[k] / common <= MOST_STEP;
        if (!p->tested[k] && near && common > most) best = k, most = common;
    }
    if (!p->lanes_tested && (best == p->n || all.hi + lanes->box <= pixel_size(p))) {
        lanes->at = with;
        return true;
    }
    if (best == p->n) return refuse(p, "a part of its offset belongs to no dimension");
    p->taps[best] = sn_ix_add(p->m, p->taps[best], e);
    return true;
}

/* A test of lanes that always holds bounds nothing: what is left of the offset may be channels, too, as where a group begins. */
static void drop_idle_test(pixels *p) {
    const sn_box_dim *d = &p->box->dims[0];
    sn_range at = sn_ix_range(p->m, d->at);
    if (at.lo >= 0 && at.hi <= d->size - d->box) p->lanes_tested = false;
}

/* Short terms first, which may be channels. */
static bool share_out(pixels *p) {
    const sn_ix_term *terms;
    sn_ix_term one, sorted[MOST_TERMS];
    uint32_t n = sn_ix_terms(p->m, p->offset, &terms, &p->box->offset, &one);
    if (p->lanes_tested) drop_idle_test(p);
    if (n > MOST_TERMS) return refuse(p, "its offset has too many terms");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i;
        for (; k && sorted[k - 1].c > terms[i].c; k--) sorted[k] = sorted[k - 1];
        sorted[k] = terms[i];
    }
    for (uint32_t i = 0; i < n; i++)
        if (!give_term(p, &sorted[i])) return false;
    return true;
}

/* ---- dimensions ---- */

/* Of an axis that no test bounds: as long as it is touched. */
static void measure(pixels *p, uint32_t k) {
    sn_box_dim *d = &p->box->dims[1 + k];
    int64_t stride = p->strides[k], c0;
    const sn_ix_term *terms;
    sn_ix_term one;
    uint32_t n = sn_ix_terms(p->m, p->taps[k], &terms, &c0, &one);
    for (uint32_t i = 0; i < n; i++) stride = sn_gcd(stride, terms[i].c);
    *d = (sn_box_dim){.step = p->strides[k] / stride, .tap = sn_ix_divc(p->m, p->taps[k], stride)};
    p->strides[k] = stride;
    d->size = (count_of(p, k) - 1) * d->step + sn_ix_range(p->m, d->tap).hi + 1;
}

static void measure_lanes(pixels *p) {
    sn_box_dim *d = &p->box->dims[0];
    d->stride = 1;
    if (!p->lanes_tested) d->size = sn_ix_range(p->m, d->at).hi + d->box;
}

static bool moves(pixels *p, uint32_t k) {
    const sn_box_dim *d = &p->box->dims[1 + k];
    return d->step != 1 || d->low || sn_ix_range(p->m, d->tap).hi;
}

/* Behind the last axis, if that counts no images; its stride means nothing. */
static bool add_images(pixels *p) {
    enum { UNIT = 16 };
    sn_box *b = p->box;
    const sn_box_dim *last = &b->dims[p->n];
    bool counts = p->n > 1 && !moves(p, p->n - 1) && last->size == count_of(p, p->n - 1);
    if (counts) return true;
    if (p->n == AXES) return refuse(p, "its pixels have too many axes");
    b->dims[b->rank++] = (sn_box_dim){.stride = (last->stride * last->size + UNIT - 1) / UNIT * UNIT,
                                      .size = 1,
                                      .box = 1,
                                      .step = 1,
                                      .count = 1,
                                      .tap = sn_ix_const(p->m, 0),
                                      .at = sn_ix_divc(p->m, p->first, p->all)};
    return true;
}

static void place(pixels *p) {
    sn_box *b = p->box;
    for (uint32_t k = 0; k < p->n; k++) {
        sn_box_dim *d = &b->dims[1 + k];
        sn_ix at = sn_ix_divc(p->m, p->first, unit_of(p, k));
        if (k + 2 < b->rank) at = sn_ix_modc(p->m, at, count_of(p, k));
        d->stride = p->strides[k];
        d->count = count_of(p, k);
        d->box = k ? 1 : b->pixels;
        d->at = sn_ix_addc(p->m, sn_ix_scale(p->m, at, d->step), d->low);
    }
}

/* cuTensorMapEncodeIm2col of the CUDA driver API, and offsets of cp.async.bulk.tensor.im2col in PTX. */
static bool fits(pixels *p) {
    enum { MOST_PIXELS = 1024, MOST_LANES = 256 };
    const sn_box *b = p->box;
    sn_pixel_limits limits = sn_pixel_limits_of(b->rank - 2);
    if (b->pixels > MOST_PIXELS || b->dims[0].box > MOST_LANES) return refuse(p, "a dimension is too long");
    for (uint32_t k = 1; k + 1 < b->rank; k++) {
        const sn_box_dim *d = &b->dims[k];
        int64_t high = d->low + (d->count - 1) * d->step + 1 - d->size;
        if (d->step > MOST_STEP) return refuse(p, "its pixels are too far apart");
        if (d->low < limits.least || d->low > limits.most || high < limits.least || high > limits.most ||
            sn_ix_range(p->m, d->tap).hi > limits.tap)
            return refuse(p, "a tap is too far from its pixel");
    }
    return true;
}

bool sn_box_find_pixels(sn_box *b, const char **why, sn_module *m, sn_stmt index, const sn_stmt *loops) {
    const sn_stmt_rec *r = sn_stmt_get(m, index), *load = sn_stmt_get(m, b->load);
    pixels p = {.m = m, .box = b, .number = r->result};
    int64_t one, unit;
    sn_val mask = sn_stmt_mask(load);
    p.lane = sn_stmt_get(m, loops[0])->axis;
    p.line = sn_stmt_get(m, loops[1])->axis;
    p.first = sn_ix_sub(m, r->ix, sn_ix_axis(m, p.line));
    b->pixels = b->dims[1].box;
    b->dims[0].at = sn_ix_const(m, 0);
    *why = "lines are no pixels that follow each other";
    if (!sn_ix_coef(m, r->ix, p.line, &one) || one != 1 || uses_nest(&p, p.first) || !mask.i) return false;
    bool found = find_cuts_of_mask(&p, mask) && find_cuts(&p, load->ix, &unit) && make_axes(&p);
    b->rank = 1 + p.n;
    found = found && find_tests(&p, mask) && find_strides(&p, load->ix) && share_out(&p);
    for (uint32_t k = 0; k < p.n && found; k++)
        if (!p.tested[k]) measure(&p, k);
    if (found) {
        measure_lanes(&p);
        b->dims[1 + p.n - 1].stride = p.strides[p.n - 1];
        found = add_images(&p);
    }
    if (found) place(&p);
    found = found && fits(&p);
    if (!found) *why = p.why;
    return found;
}
