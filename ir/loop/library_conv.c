/* library_conv.c: reads a convolution off a plain nest, as the call of a library.
 *
 *     loop i in N { loop j in O { loop k in Q { %s = reduce sum r in C { reduce sum t in K {
 *       %in = in 2*k + t - 1, S       yield (load x[C*S*i + S*r + 2*k + t - 1] if %in else 0) * w[C*K*j + K*r + t] } }
 *       store y[O*Q*i + Q*j + k], %s } } }
 *  -> batch N, out O, in C; a window of K taps, stride 2, low 1, over S elements
 *
 * A test of the image's mask is a window: it says how results and taps find their place, and how large the image is. What
 * it tests is subtracted from the image's index as often as it is in there; the rest walks evenly. Windows that nothing
 * tests lie inside of the image: which axis of results goes with which one of the sum is free there, and those are taken
 * together whose windows overlap. Groups are an axis that all three walk, or one of the results of which the image takes
 * the quotient. With zeros between the elements of the image a test is of a quotient, and another one of the remainder.
 *
 * Legality: what comes out is the index of every access again, whatever was guessed. Looks at the nest alone: whether a
 * library has such a convolution, it says itself.
 */
#include "ir/loop/library_nest.h"

#include <limits.h>

enum { X = SN_NEST_A, W = SN_NEST_B, Y = SN_NEST_C, N_TENSORS = 3 };
enum { MOST_TESTS = 8, MOST_AXES = 12 };

/* in at, size: the image's index along a window. place = at*apart, where that is an integer. */
typedef struct test {
    sn_ix at, place;
    int64_t size, apart;
} test;

typedef struct conv_reader {
    sn_nest_reader *rd;
    sn_module *m;
    sn_library_conv *out;
    test tests[SN_LIBRARY_WINDOWS];
    uint32_t n_tests;
    sn_ix remainders[MOST_TESTS]; /* that are tested for 0 */
    uint32_t n_remainders;
    sn_ix image;                  /* the index, less the windows that have been found */
    sn_nest_axis free[MOST_AXES]; /* axes that no window and no group has taken */
    uint32_t n_free;
} conv_reader;

static bool refuse(conv_reader *c, const char *why) {
    if (sn_stmt_get(c->m, c->rd->access[X])->has_mask) sn_nest_refuse(c->rd, why);
    return false;
}

static const sn_ix_rec *ix(const conv_reader *c, sn_ix e) { return sn_ix_get(c->m, e); }

/* How often an atom is in e. */
static int64_t times(const conv_reader *c, sn_ix e, sn_ix atom) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(c->m, e, &terms, &c0, &one);
    for (uint32_t i = 0; i < n; i++)
        if (sn_ix_eq(terms[i].atom, atom)) return terms[i].c;
    return 0;
}

/* The only atom of that kind in e; none: there is none, or several. */
static sn_ix only_atom(const conv_reader *c, sn_ix e, sn_ix_kind kind) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    sn_ix found = {0};
    uint32_t n = sn_ix_terms(c->m, e, &terms, &c0, &one);
    for (uint32_t i = 0; i < n; i++) {
        if (ix(c, terms[i].atom)->kind != kind) continue;
        if (found.i) return (sn_ix){0};
        found = terms[i].atom;
    }
    return found;
}

/* ---- tests of the mask ---- */

static bool take_test(conv_reader *c, const sn_stmt_rec *r) {
    int64_t size, apart = 1;
    if (!sn_ix_is_const(c->m, r->bound, &size)) return refuse(c, "a size is symbolic");
    if (size == 1 && only_atom(c, r->ix, SN_IX_MOD).i) {
        if (c->n_remainders == MOST_TESTS) return refuse(c, "its mask tests too much");
        c->remainders[c->n_remainders++] = r->ix;
        return true;
    }
    if (c->n_tests == SN_LIBRARY_WINDOWS) return refuse(c, "its mask tests too much");
    sn_ix quotient = only_atom(c, r->ix, SN_IX_DIV), place = r->ix;
    if (quotient.i) {
        if (times(c, r->ix, quotient) != 1 || !sn_ix_is_const(c->m, ix(c, quotient)->b, &apart))
            return refuse(c, "its mask tests something else than a window");
        place = sn_ix_scale(c->m, sn_ix_sub(c->m, r->ix, quotient), apart);
        place = sn_ix_add(c->m, place, ix(c, quotient)->a);
    }
    c->tests[c->n_tests++] = (test){.at = r->ix, .place = place, .size = size, .apart = apart};
    return true;
}

static bool take_mask(conv_reader *c, sn_val mask) {
    const sn_stmt_rec *r = sn_stmt_get(c->m, sn_val_get(c->m, mask)->def);
    if (r->op == SN_LOP_AND) return take_mask(c, r->in[0]) && take_mask(c, r->in[1]);
    return r->op == SN_LOP_IN ? take_test(c, r) : refuse(c, "its mask tests something else than a window");
}

/* The quotient in the image's index whose remainder that is; none: there is none. */
static sn_ix quotient_of(const conv_reader *c, sn_ix remainder) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0, apart;
    uint32_t n = sn_ix_terms(c->m, c->image, &terms, &c0, &one);
    for (uint32_t i = 0; i < n; i++) {
        const sn_ix_rec *q = ix(c, terms[i].atom);
        if (q->kind == SN_IX_DIV && sn_ix_is_const(c->m, q->b, &apart) &&
            sn_ix_eq(sn_ix_modc(c->m, q->a, apart), remainder))
            return terms[i].atom;
    }
    return (sn_ix){0};
}

/* A window that cannot leave the image, of which the remainder alone is tested. */
static bool add_untested(conv_reader *c, sn_ix remainder) {
    sn_ix quotient = quotient_of(c, remainder);
    if (!quotient.i || c->n_tests == SN_LIBRARY_WINDOWS)
        return refuse(c, "its mask tests something else than a window");
    const sn_ix_rec *q = ix(c, quotient);
    c->tests[c->n_tests++] = (test){.at = quotient, .place = q->a, .size = INT_MAX, .apart = sn_ix_value(c->m, q->b)};
    return true;
}

/* Remainders are those of windows with zeros between elements, each once. */
static bool match_remainders(conv_reader *c) {
    uint32_t tested = c->n_tests;
    for (uint32_t i = 0; i < tested; i++) {
        if (c->tests[i].apart == 1) continue;
        sn_ix want = sn_ix_modc(c->m, c->tests[i].place, c->tests[i].apart);
        uint32_t k = 0;
        while (k < c->n_remainders && !sn_ix_eq(c->remainders[k], want)) k++;
        if (k == c->n_remainders) return refuse(c, "its mask tests something else than a window");
        c->remainders[k] = c->remainders[--c->n_remainders];
    }
    for (uint32_t k = 0; k < c->n_remainders; k++)
        if (!add_untested(c, c->remainders[k])) return false;
    return true;
}

/* ---- windows of tests ---- */

/* How many elements the image's index goes on with the test's; 0: it does not. */
static int64_t step_of(const conv_reader *c, const test *t) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(c->m, t->at, &terms, &c0, &one);
    for (uint32_t i = 0; i < n; i++) {
        bool quotient = ix(c, terms[i].atom)->kind == SN_IX_DIV;
        if (t->apart > 1 && !quotient) continue;
        int64_t have = times(c, c->image, terms[i].atom);
        return have % terms[i].c ? 0 : have / terms[i].c;
    }
    return 0;
}

static void zero_axis(conv_reader *c, sn_ix *e, sn_axis ax) {
    sn_ix zero = sn_ix_const(c->m, 0);
    *e = sn_ix_subst(c->m, *e, &ax, &zero, 1);
}

static bool tensor_step(conv_reader *c, int64_t *out, int which, sn_axis ax) {
    const sn_stmt_rec *r = sn_stmt_get(c->m, c->rd->access[which]);
    return sn_ix_coef(c->m, r->ix, ax, out) || refuse(c, "an access does not walk along its axes in even steps");
}

/* An axis of the place: of the results, if the result walks along it, else of the taps. */
static bool take_place_axis(conv_reader *c, sn_library_window *w, const test *t, const sn_nest_axis *a) {
    int64_t step, weight, result;
    if (!sn_ix_uses_axis(c->m, t->place, a->ax)) return true;
    if (!sn_ix_coef(c->m, t->place, a->ax, &step) || step < 1) return refuse(c, "a window walks backwards");
    if (!tensor_step(c, &weight, W, a->ax) || !tensor_step(c, &result, Y, a->ax)) return false;
    if (sn_ix_uses_axis(c->m, c->image, a->ax)) return refuse(c, "its image walks along a window in another way");
    bool of_results = result && !weight, again = of_results ? w->c != 0 : w->b != 0;
    if (again || (!of_results && (result || !weight))) return refuse(c, "its windows are not those of libraries");
    if (of_results) w->results = a->extent, w->stride = step, w->c = result;
    else w->taps = a->extent, w->dilation = step, w->b = weight;
    return true;
}

static bool take_window(conv_reader *c, const test *t) {
    sn_library_window *w = &c->out->at[c->out->n++];
    *w = (sn_library_window){
        .size = t->size, .results = 1, .taps = 1, .stride = 1, .dilation = 1, .apart = t->apart, .a = step_of(c, t)};
    if (w->a < 1) return refuse(c, "its image does not lie in even steps along a window");
    c->image = sn_ix_sub(c->m, c->image, sn_ix_scale(c->m, t->at, w->a));
    sn_ix place = t->place;
    for (uint32_t i = 0; i < c->rd->n; i++) {
        if (!take_place_axis(c, w, t, &c->rd->axes[i])) return false;
        zero_axis(c, &place, c->rd->axes[i].ax);
    }
    if (!sn_ix_is_const(c->m, place, &w->low)) return refuse(c, "its windows are not those of libraries");
    w->low = -w->low;
    return true;
}

static bool is_of_window(const conv_reader *c, sn_axis ax) {
    for (uint32_t i = 0; i < c->n_tests; i++)
        if (sn_ix_uses_axis(c->m, c->tests[i].place, ax)) return true;
    return false;
}

/* ---- the other axes ---- */

/* The axis of results of which the image takes the quotient by a number: groups, and what is in one. Image and weights without it
 * are walked evenly. */
static bool take_quotient(conv_reader *c, sn_ix *weights) {
    sn_ix quotient = only_atom(c, c->image, SN_IX_DIV);
    int64_t size, rest, result;
    uint32_t at = 0;
    if (!quotient.i) return true;
    const sn_ix_rec *q = ix(c, quotient);
    while (at < c->rd->n && !sn_ix_eq(sn_ix_axis(c->m, c->rd->axes[at].ax), q->a)) at++;
    if (at == c->rd->n || !sn_ix_is_const(c->m, q->b, &size) || c->rd->axes[at].extent % size)
        return refuse(c, "an access does not walk along its axes in even steps");
    sn_axis ax = c->rd->axes[at].ax;
    if (!tensor_step(c, &result, Y, ax)) return false;
    int64_t image = times(c, c->image, quotient), group = times(c, *weights, quotient);
    sn_ix inside = sn_ix_modc(c->m, q->a, size);
    int64_t in_group = times(c, *weights, inside);
    c->image = sn_ix_sub(c->m, c->image, sn_ix_scale(c->m, quotient, image));
    *weights = sn_ix_sub(c->m, *weights, sn_ix_scale(c->m, quotient, group));
    *weights = sn_ix_sub(c->m, *weights, sn_ix_scale(c->m, inside, in_group));
    if (!sn_ix_coef(c->m, *weights, ax, &rest) || sn_ix_uses_axis(c->m, c->image, ax))
        return refuse(c, "an access does not walk along its axes in even steps");
    zero_axis(c, weights, ax);
    c->out->groups = (sn_library_axis){c->rd->axes[at].extent / size, image, group + rest * size, result * size};
    c->out->out = (sn_library_axis){size, 0, in_group + rest, result};
    c->rd->axes[at].extent = 1; /* nothing is left of it */
    return true;
}

/* The steps of an axis that no window has, in what is left of each index. */
static bool read_steps(conv_reader *c, sn_nest_axis *a, sn_ix weights) {
    const sn_ix left[] = {c->image, weights, sn_stmt_get(c->m, c->rd->access[Y])->ix};
    a->kind = 0;
    for (int which = 0; which < N_TENSORS; which++) {
        if (!sn_ix_coef(c->m, left[which], a->ax, &a->step[which]))
            return refuse(c, "an access does not walk along its axes in even steps");
        if (a->step[which] < 0 && which != W) return refuse(c, "an access walks backwards");
        a->kind |= a->step[which] ? 1 << which : 0;
    }
    return true;
}

static bool is_alone(const sn_library_axis *a) { return a->size == 1; }

static bool take_axis(conv_reader *c, const sn_nest_axis *a) {
    sn_library_axis own = {a->extent, a->step[X], a->step[W], a->step[Y]};
    if (a->kind == SN_OF_BATCH && is_alone(&c->out->groups)) {
        c->out->groups = own;
    } else if (a->kind == SN_OF_N && is_alone(&c->out->out)) {
        c->out->out = own;
    } else if ((a->kind == SN_OF_M || a->kind == SN_OF_K) && c->n_free < MOST_AXES) {
        c->free[c->n_free++] = *a;
    } else {
        return refuse(c, "its axes are not those of a convolution");
    }
    return true;
}

static bool take_axes(conv_reader *c, sn_ix *weights) {
    for (uint32_t i = 0; i < c->rd->n; i++) {
        sn_nest_axis *a = &c->rd->axes[i];
        if (a->extent == 1 || is_of_window(c, a->ax)) continue;
        if (!read_steps(c, a, *weights) || !take_axis(c, a)) return false;
    }
    return true;
}

/* ---- windows inside of the image ---- */

/* What the free axes are: that of the batch, that of the sum over channels, and windows of one of each kind, or one alone. */
typedef struct assignment {
    int batch, in;       /* positions; -1: none */
    int with[MOST_AXES]; /* of an axis of results: its axis of taps; -1: none */
    int64_t cost;
} assignment;

/* What tells likely assignments from unlikely ones; all are right. A factor is worth at most MOST_RATIO. */
enum { NO_BATCH = 100, APART = 200, ALONE = 1000, MOST_RATIO = 2000, NO_CHANNELS = 3000, TORN = 1000000 };

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

static bool is_row(const conv_reader *c, int i) { return c->free[i].kind == SN_OF_M; }

/* Do windows along the two share elements? */
static bool overlap(const sn_nest_axis *row, const sn_nest_axis *sum) {
    return row->step[X] / sum->step[X] <= sum->extent - 1 - (row->step[X] % sum->step[X] != 0) &&
           sum->step[X] / row->step[X] <= row->extent - 1 - (sum->step[X] % row->step[X] != 0);
}

static int64_t cost_of_pair(const sn_nest_axis *row, const sn_nest_axis *sum) {
    int64_t a = row->step[X], b = sum->step[X], ratio = (a > b ? a : b) / gcd(a, b);
    if (ratio > MOST_RATIO) ratio = MOST_RATIO;
    if (overlap(row, sum)) return ratio;
    return sum->extent - 1 < (a + b - 1) / b ? ratio + APART : TORN;
}

static int64_t cost_of(const conv_reader *c, const assignment *as) {
    int64_t cost = (as->batch < 0 ? NO_BATCH : 0) + (as->in < 0 ? NO_CHANNELS : 0), windows = c->n_tests;
    uint32_t paired = 0;
    for (int i = 0; i < (int)c->n_free; i++) {
        if (!is_row(c, i)) continue;
        for (int k = 0; k < (int)c->n_free; k++)
            if (!is_row(c, k) && as->with[i] != k && overlap(&c->free[i], &c->free[k])) cost += TORN;
        if (i == as->batch) continue;
        windows++;
        cost += as->with[i] < 0 ? ALONE : cost_of_pair(&c->free[i], &c->free[as->with[i]]);
        if (as->with[i] >= 0) paired |= 1u << as->with[i];
    }
    for (int k = 0; k < (int)c->n_free; k++)
        if (!is_row(c, k) && k != as->in && !(paired >> k & 1)) windows++, cost += ALONE;
    return windows > SN_LIBRARY_WINDOWS ? INT64_MAX : cost;
}

/* All axes of taps for the axis of results `row` and those behind it. */
static void assign_rows(const conv_reader *c, assignment *best, assignment *as, int row, uint32_t used) {
    while (row < (int)c->n_free && (!is_row(c, row) || row == as->batch)) row++;
    if (row == (int)c->n_free) {
        as->cost = cost_of(c, as);
        if (as->cost < best->cost) *best = *as;
        return;
    }
    for (int k = -1; k < (int)c->n_free; k++) {
        if (k >= 0 && (is_row(c, k) || k == as->in || (used >> k & 1))) continue;
        as->with[row] = k;
        assign_rows(c, best, as, row + 1, k < 0 ? used : used | 1u << k);
    }
    as->with[row] = -1;
}

static bool before(const sn_nest_axis *a, const sn_nest_axis *b) {
    return a->step[X] != b->step[X] ? a->step[X] > b->step[X] : a->step[W] > b->step[W];
}

/* By the steps of the image, the largest first: equal costs, and it is the first that is taken. */
static void sort_free(conv_reader *c) {
    for (uint32_t i = 1; i < c->n_free; i++)
        for (uint32_t k = i; k > 0 && before(&c->free[k], &c->free[k - 1]); k--) {
            sn_nest_axis a = c->free[k];
            c->free[k] = c->free[k - 1];
            c->free[k - 1] = a;
        }
}

/* Elements to the last of so many; false: more than there can be. */
static bool go(int64_t *at, int64_t size, int64_t step) {
    int64_t far;
    return size <= INT_MAX && !sn_mul_overflow(size - 1, step, &far) && !sn_add_overflow(*at, far, at);
}

static void add_free_window(conv_reader *c, const sn_nest_axis *row, const sn_nest_axis *sum) {
    int64_t a = row ? row->step[X] : 0, b = sum ? sum->step[X] : 0, step = gcd(a, b);
    sn_library_window w = {.results = row ? row->extent : 1,
                           .taps = sum ? sum->extent : 1,
                           .a = step,
                           .b = sum ? sum->step[W] : 0,
                           .c = row ? row->step[Y] : 0,
                           .stride = row ? a / step : 1,
                           .dilation = sum ? b / step : 1,
                           .apart = 1};
    w.size = 1;
    bool fits = go(&w.size, w.results, w.stride) && go(&w.size, w.taps, w.dilation);
    if (!fits) w.size = INT64_MAX; /* take_offsets says so */
    c->out->at[c->out->n++] = w;
}

static bool assign_free(conv_reader *c) {
    assignment best = {.cost = INT64_MAX}, as;
    enum { MOST_FREE = 2 * SN_LIBRARY_WINDOWS + 2 };
    if (c->n_free > MOST_FREE) return refuse(c, "its axes are not those of a convolution");
    sort_free(c);
    for (int batch = -1; batch < (int)c->n_free; batch++)
        for (int in = -1; in < (int)c->n_free; in++) {
            if ((batch >= 0 && !is_row(c, batch)) || (in >= 0 && is_row(c, in))) continue;
            as = (assignment){.batch = batch, .in = in};
            for (int i = 0; i < MOST_AXES; i++) as.with[i] = -1;
            assign_rows(c, &best, &as, 0, 0);
        }
    if (best.cost >= TORN) return refuse(c, "its windows are not those of libraries");
    uint32_t paired = 0;
    for (int i = 0; i < (int)c->n_free; i++) {
        const sn_nest_axis *a = &c->free[i];
        sn_library_axis own = {a->extent, a->step[X], a->step[W], a->step[Y]};
        if (i == best.batch) c->out->batch = own;
        if (i == best.in) c->out->in = own;
        if (!is_row(c, i) || i == best.batch) continue;
        add_free_window(c, a, best.with[i] < 0 ? NULL : &c->free[best.with[i]]);
        if (best.with[i] >= 0) paired |= 1u << best.with[i];
    }
    for (int k = 0; k < (int)c->n_free; k++)
        if (!is_row(c, k) && k != best.in && !(paired >> k & 1)) add_free_window(c, NULL, &c->free[k]);
    return true;
}

/* ---- the whole ---- */

/* Gradients count their results by all of an image with zeros between its elements. */
int64_t sn_library_crop(sn_library_window *w) {
    int64_t last = ((w->results - 1) * w->stride + (w->taps - 1) * w->dilation - w->low) / w->apart;
    int64_t first = w->low < 0 && w->apart == 1 ? -w->low : 0;
    if ((w->apart == 1 || w->size == INT_MAX) && last >= 0 && last < w->size) w->size = last + 1;
    if (first >= w->size) first = 0;
    w->size -= first;
    w->low += first;
    return first * w->a;
}

/* From the first place that is an integer on. */
static int64_t crop_further(sn_library_window *w) {
    int64_t first = w->low < 0 ? (w->apart - 1 - w->low) / w->apart : 0;
    if (first >= w->size) first = 0;
    w->size -= first;
    w->low += first * w->apart;
    return first * w->a;
}

/* Of two along which the image goes on alike, one has a single place. */
static bool stands_before(const sn_library_window *x, const sn_library_window *y) {
    int64_t x_step = x->b < 0 ? -x->b : x->b, y_step = y->b < 0 ? -y->b : y->b;
    return x->a != y->a ? x->a > y->a : x_step > y_step;
}

static void sort_windows(sn_library_conv *v) {
    for (uint32_t i = 1; i < v->n; i++)
        for (uint32_t k = i; k > 0 && stands_before(&v->at[k], &v->at[k - 1]); k--) {
            sn_library_window w = v->at[k];
            v->at[k] = v->at[k - 1];
            v->at[k - 1] = w;
        }
}

/* Where an access begins, and that it goes no further than its buffer: from and to, in elements from there. */
static bool take_offset(conv_reader *c, int which, sn_ix e, int64_t from, int64_t to) {
    int64_t size;
    for (uint32_t i = 0; i < c->rd->n; i++) zero_axis(c, &e, c->rd->axes[i].ax);
    const sn_buf_rec *b = sn_buf_get(c->m, sn_stmt_get(c->m, c->rd->access[which])->buf);
    if (!sn_ix_is_const(c->m, e, &c->rd->offset[which]) || !sn_ix_is_const(c->m, b->size, &size))
        return refuse(c, "an access does not walk along its axes in even steps");
    int64_t at = c->rd->offset[which];
    return (at + from >= 0 && at + to < size) || refuse(c, "an access leaves its buffer");
}

/* Weights lie where the first of them in memory is. */
static bool take_weights(conv_reader *c, sn_ix e) {
    const sn_library_conv *v = c->out;
    const sn_library_axis *axes[] = {&v->batch, &v->groups, &v->out, &v->in};
    int64_t first = 0, last = 0;
    bool fits = true;
    for (size_t i = 0; i < SN_COUNT(axes) && fits; i++)
        fits = go(axes[i]->b < 0 ? &first : &last, axes[i]->size, axes[i]->b);
    for (uint32_t i = 0; i < v->n && fits; i++) fits = go(v->at[i].b < 0 ? &first : &last, v->at[i].taps, v->at[i].b);
    if (!fits) return refuse(c, "a size is not one that libraries count");
    if (!take_offset(c, W, e, first, last)) return false;
    c->rd->offset[W] += first;
    return true;
}

static bool take_result(conv_reader *c) {
    const sn_library_conv *v = c->out;
    const sn_library_axis *axes[] = {&v->batch, &v->groups, &v->out};
    int64_t last = 0;
    bool fits = true;
    for (size_t i = 0; i < SN_COUNT(axes) && fits; i++) fits = go(&last, axes[i]->size, axes[i]->c);
    for (uint32_t i = 0; i < v->n && fits; i++) fits = go(&last, v->at[i].results, v->at[i].c);
    if (!fits) return refuse(c, "a size is not one that libraries count");
    return take_offset(c, Y, sn_stmt_get(c->m, c->rd->access[Y])->ix, 0, last);
}

static bool is_counted(const sn_library_window *w) {
    return w->low > -INT_MAX && w->low < INT_MAX && w->apart < INT_MAX && w->stride < INT_MAX &&
           w->dilation < INT_MAX && w->size >= 1 && w->size <= INT_MAX && w->a < INT_MAX;
}

/* Where nothing tests that a place is in the image, its index may begin before the first that is an integer. */
static bool take_image(conv_reader *c) {
    sn_library_conv *v = c->out;
    const sn_library_axis *axes[] = {&v->batch, &v->groups, &v->in};
    int64_t last = 0, at;
    bool fits = true;
    for (uint32_t i = 0; i < v->n && fits; i++) {
        fits = is_counted(&v->at[i]);
        if (fits) c->image = sn_ix_addc(c->m, c->image, sn_library_crop(&v->at[i]));
    }
    if (!fits) return refuse(c, "a size is not one that libraries count");
    sn_ix first = c->image;
    for (uint32_t i = 0; i < c->rd->n; i++) zero_axis(c, &first, c->rd->axes[i].ax);
    if (sn_ix_is_const(c->m, first, &at) && at < 0)
        for (uint32_t i = 0; i < v->n; i++) c->image = sn_ix_addc(c->m, c->image, crop_further(&v->at[i]));
    for (size_t i = 0; i < SN_COUNT(axes) && fits; i++) fits = go(&last, axes[i]->size, axes[i]->a);
    for (uint32_t i = 0; i < v->n && fits; i++) fits = go(&last, v->at[i].size, v->at[i].a);
    if (!fits) return refuse(c, "a size is not one that libraries count");
    return take_offset(c, X, c->image, 0, last);
}

static bool read(conv_reader *c) {
    sn_nest_reader *rd = c->rd;
    const sn_stmt_rec *image = sn_stmt_get(c->m, rd->access[X]);
    sn_ix weights = sn_stmt_get(c->m, rd->access[W])->ix;
    if (sn_stmt_get(c->m, rd->access[W])->has_mask) return sn_nest_refuse(rd, "both factors have a mask");
    if (rd->relu || rd->access[SN_NEST_BIAS].i) return refuse(c, "it does more than a convolution");
    if (image->has_mask && (!take_mask(c, sn_stmt_mask(image)) || !match_remainders(c))) return false;
    for (uint32_t i = 0; i < c->n_tests; i++)
        if (!take_window(c, &c->tests[i])) return false;
    if (!take_quotient(c, &weights) || !take_axes(c, &weights) || !assign_free(c)) return false;
    if (!c->out->n) return refuse(c, "its axes are not those of a convolution");
    sort_windows(c->out);
    return take_image(c) && take_weights(c, weights) && take_result(c);
}

bool sn_nest_read_conv(sn_library_call *out, sn_nest_reader *rd) {
    const sn_library_axis none = {.size = 1};
    if (sn_stmt_get(rd->m, rd->access[W])->has_mask) { /* the image comes first */
        sn_stmt weights = rd->access[X];
        rd->access[X] = rd->access[W];
        rd->access[W] = weights;
    }
    *out = (sn_library_call){.is_conv = true,
                             .conv = {.batch = none, .groups = none, .out = none, .in = none},
                             .sum = sn_val_get(rd->m, rd->sum)->dtype,
                             .precision = rd->k->sched.precision,
                             .algo = rd->k->sched.algo};
    conv_reader c = {.rd = rd, .m = rd->m, .out = &out->conv, .image = sn_stmt_get(rd->m, rd->access[X])->ix};
    if (!read(&c)) return false;
    out->a = sn_nest_matrix(rd, X, 0);
    out->b = sn_nest_matrix(rd, W, 0);
    out->c = sn_nest_matrix(rd, Y, 0);
    return true;
}
