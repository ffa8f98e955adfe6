/* ops_found.c: operators whose results have as many elements as some condition finds: Compress, NonZero, Unique,
 * NonMaxSuppression.
 *
 *     y = Compress(x, [true, false, true])     ->     y = index_select(x, [0, 2])
 *
 * Shapes of a graph do not depend on elements, so the elements that decide have to be known at import: they are
 * constants, follow from shapes, or are inputs whose values were given. What is found is computed here, on them, and
 * becomes a constant.
 */
#include "frontend/onnx/import.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef SN_VEC(int64_t) int_list;

static sn_nd constant_list(sn_onnx_call *c, const int_list *l) {
    return sn_graph_ints(c->m, SN_I64, l->at, (int64_t[]){l->n}, 1);
}

/* The elements of x, which decide how many results there are. */
static sn_status decisive(const sn_array **out, sn_onnx_call *c, sn_nd x) {
    if (sn_onnx_array(out, c, x) == SN_OK || !x.i) return c->m->env->status;
    const char *why = sn_strdup(c->arena, c->m->env->message);
    sn_env_clear(c->m->env);
    return sn_onnx_fail(c, "elements decide how many results there are, and %s", why);
}

/* x as one axis. */
static sn_nd flattened(sn_module *m, sn_nd x) {
    sn_ix numel = sn_type_numel(m, sn_graph_type(m, x));
    return sn_graph_reshape(m, x, &numel, 1);
}

static bool is_zero(const sn_array *a, int64_t k) { return sn_is_float(a->dtype) ? a->f[k] == 0 : a->i[k] == 0; }

sn_status sn_onnx_compress(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    const sn_array *condition;
    int_list kept = {0};
    bool along = sn_onnx_has_attr(c, "axis");
    int64_t axis = sn_onnx_attr_int(c, "axis", 0);
    SN_TRY(decisive(&condition, c, sn_onnx_in(c, 1)));
    for (int64_t k = 0; k < condition->numel; k++)
        if (!is_zero(condition, k)) SN_PUSH(c->arena, &kept, k);
    sn_nd at = constant_list(c, &kept);
    return sn_onnx_done(c, sn_graph_index_select(c->m, along ? x : flattened(c->m, x), at, axis));
}

/* A row of subscripts for each axis, in row-major order of the elements. */
sn_status sn_onnx_non_zero(sn_onnx_call *c) {
    const sn_array *x;
    int_list found = {0};
    SN_TRY(decisive(&x, c, sn_onnx_in(c, 0)));
    for (int64_t k = 0; k < x->numel; k++)
        if (!is_zero(x, k)) SN_PUSH(c->arena, &found, k);
    int64_t *at = SN_NEWN(c->arena, int64_t, (uint64_t)found.n * x->rank + 1);
    for (uint32_t e = 0; e < found.n; e++) {
        int64_t rest = found.at[e];
        for (uint32_t k = x->rank; k-- > 0; rest /= x->shape[k]) at[k * found.n + e] = rest % x->shape[k];
    }
    return sn_onnx_done(c, sn_graph_ints(c->m, SN_I64, at, (int64_t[]){x->rank, found.n}, 2));
}

/* ---- Unique ---- */

/* Element number `at` along an axis with all that belongs to it: [outer, n, inner] of a tensor. */
typedef struct entry {
    const sn_array *a;
    int64_t n, inner, at, group;
} entry;

static int compare_numbers(const sn_array *a, int64_t x, int64_t y) {
    if (!sn_is_float(a->dtype)) return a->i[x] < a->i[y] ? -1 : a->i[x] > a->i[y];
    double f = a->f[x], g = a->f[y];
    if (isnan(f) || isnan(g)) return !!isnan(f) - !!isnan(g); /* one value, the largest */
    return f < g ? -1 : f > g;
}

static int compare_elements(const entry *x, const entry *y) {
    int64_t outer = x->a->numel / (x->n * x->inner);
    int order = 0;
    for (int64_t k = 0; k < outer * x->inner && order == 0; k++) {
        int64_t base = k / x->inner * x->n * x->inner + k % x->inner;
        order = compare_numbers(x->a, base + x->at * x->inner, base + y->at * x->inner);
    }
    return order;
}

static int by_elements(const void *p, const void *q) {
    const entry *x = p, *y = q;
    int order = x->a->numel ? compare_elements(x, y) : 0;
    return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static int by_place(const void *p, const void *q) {
    const entry *x = p, *y = q;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* What is distinct: where it is first, how often, and which of them each entry is. */
typedef struct distinct {
    int_list first, counts;
    int64_t *which;
} distinct;

static void find_distinct(distinct *out, sn_arena *arena, entry *all, int64_t n, bool sorted) {
    *out = (distinct){.which = SN_NEWN(arena, int64_t, n + 1)};
    qsort(all, (size_t)n, sizeof *all, by_elements);
    for (int64_t k = 0; k < n; k++) /* the first of equal ones stands for them */
        all[k].group = k && (!all->a->numel || !compare_elements(&all[k - 1], &all[k])) ? all[k - 1].group : all[k].at;
    for (int64_t k = 0; k < n; k++) out->which[all[k].at] = all[k].group;
    if (!sorted) qsort(all, (size_t)n, sizeof *all, by_place);
    int64_t *number = SN_NEWN(arena, int64_t, n + 1);
    for (int64_t k = 0; k < n; k++) {
        if (all[k].group != all[k].at) continue;
        number[all[k].at] = out->first.n;
        SN_PUSH(arena, &out->first, all[k].at);
        SN_PUSH(arena, &out->counts, 0);
    }
    for (int64_t k = 0; k < n; k++) out->counts.at[out->which[k] = number[out->which[k]]]++;
}

sn_status sn_onnx_unique(sn_onnx_call *c) {
    const sn_array *a;
    bool along = sn_onnx_has_attr(c, "axis"), sorted = sn_onnx_attr_int(c, "sorted", 1);
    sn_nd x = along ? sn_onnx_in(c, 0) : flattened(c->m, sn_onnx_in(c, 0));
    uint32_t axis;
    SN_TRY(sn_onnx_axis(&axis, c, sn_onnx_attr_int(c, "axis", 0), sn_graph_type(c->m, x)->rank));
    SN_TRY(decisive(&a, c, x));
    int64_t n = a->shape[axis], inner = 1;
    for (uint32_t k = axis + 1; k < a->rank; k++) inner *= a->shape[k];
    entry *all = SN_NEWN(c->arena, entry, n + 1);
    for (int64_t k = 0; k < n; k++) all[k] = (entry){a, n, inner, k, k};
    distinct d;
    find_distinct(&d, c->arena, all, n, sorted);
    sn_nd first = constant_list(c, &d.first);
    sn_onnx_out(c, 1, first);
    sn_onnx_out(c, 2, sn_graph_ints(c->m, SN_I64, d.which, &n, 1));
    sn_onnx_out(c, 3, constant_list(c, &d.counts));
    return sn_onnx_done(c, sn_graph_index_select(c->m, x, first, axis));
}

/* ---- NonMaxSuppression ---- */

typedef struct box {
    double low[2], high[2], score;
    int64_t at;
} box;

typedef struct suppression {
    const sn_array *boxes, *scores; /* [batch, n, 4], [batch, classes, n] */
    int64_t most;                   /* of a class */
    double overlap, least;          /* thresholds of overlap and score */
    bool centers;                   /* x, y, width, height instead of y, x, y, x of two corners */
} suppression;

static box read_box(const suppression *s, int64_t batch, int64_t class, int64_t at) {
    int64_t n = s->boxes->shape[1], classes = s->scores->shape[1];
    const double *b = s->boxes->f + 4 * (batch * n + at);
    box out = {.score = s->scores->f[(batch * classes + class) * n + at], .at = at};
    for (int k = 0; k < 2; k++) {
        double one = s->centers ? b[k] - b[k + 2] / 2 : b[k], other = s->centers ? b[k] + b[k + 2] / 2 : b[k + 2];
        out.low[k] = fmin(one, other);
        out.high[k] = fmax(one, other);
    }
    return out;
}

static int by_score(const void *p, const void *q) {
    const box *x = p, *y = q;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static double area(const double low[2], const double high[2]) {
    return fmax(high[0] - low[0], 0) * fmax(high[1] - low[1], 0);
}

/* Intersection over union. */
static double overlap(const box *x, const box *y) {
    double low[] = {fmax(x->low[0], y->low[0]), fmax(x->low[1], y->low[1])};
    double high[] = {fmin(x->high[0], y->high[0]), fmin(x->high[1], y->high[1])};
    double common = area(low, high), all = area(x->low, x->high) + area(y->low, y->high) - common;
    return all > 0 ? common / all : 0;
}

enum { COMPARISONS = 64 }; /* of boxes: as much as an element of a table */

/* Boxes of a class, best score first, each unless it overlaps one before it too much. */
static sn_status select_class(int_list *found, sn_onnx_call *c, const suppression *s, int64_t batch, int64_t class) {
    sn_arena *arena = c->arena;
    int64_t n = s->boxes->shape[1], n_all = 0, n_kept = 0;
    box *all = SN_NEWN(arena, box, n + 1);
    for (int64_t k = 0; k < n; k++) {
        all[n_all] = read_box(s, batch, class, k);
        n_all += all[n_all].score > s->least;
    }
    qsort(all, (size_t)n_all, sizeof *all, by_score);
    for (int64_t k = 0; k < n_all && n_kept < s->most; k++) {
        bool free_place = true;
        SN_TRY(sn_onnx_room(c, n_kept / COMPARISONS));
        for (int64_t j = 0; free_place && j < n_kept; j++) free_place = overlap(&all[j], &all[k]) <= s->overlap;
        if (!free_place) continue;
        SN_PUSH(arena, found, batch);
        SN_PUSH(arena, found, class);
        SN_PUSH(arena, found, all[k].at);
        all[n_kept++] = all[k];
    }
    return SN_OK;
}

static sn_status threshold(double *out, sn_onnx_call *c, uint32_t k, double otherwise) {
    const sn_array *a;
    *out = otherwise;
    if (!sn_onnx_has(c, k)) return SN_OK;
    SN_TRY(sn_onnx_array(&a, c, sn_onnx_in(c, k)));
    if (a->numel != 1 || !sn_is_float(a->dtype)) return sn_onnx_fail(c, "operand %u is no number", k + 1);
    *out = a->f[0];
    return SN_OK;
}

static sn_status check_boxes(sn_onnx_call *c, const sn_array *boxes, const sn_array *scores) {
    bool fits = sn_is_float(boxes->dtype) && sn_is_float(scores->dtype) && boxes->rank == 3 && scores->rank == 3;
    fits = fits && boxes->shape[2] == 4 && boxes->shape[0] == scores->shape[0] && boxes->shape[1] == scores->shape[2];
    return fits ? SN_OK : sn_onnx_fail(c, "boxes are [batch, n, 4], scores [batch, classes, n]");
}

sn_status sn_onnx_non_max_suppression(sn_onnx_call *c) {
    suppression s = {.centers = sn_onnx_attr_int(c, "center_point_box", 0)};
    int_list found = {0};
    SN_TRY(decisive(&s.boxes, c, sn_onnx_in(c, 0)));
    SN_TRY(decisive(&s.scores, c, sn_onnx_in(c, 1)));
    SN_TRY(check_boxes(c, s.boxes, s.scores));
    if (sn_onnx_has(c, 2)) SN_TRY(sn_onnx_int(&s.most, c, 2));
    SN_TRY(threshold(&s.overlap, c, 3, 0));
    SN_TRY(threshold(&s.least, c, 4, -INFINITY));
    for (int64_t batch = 0; batch < s.scores->shape[0]; batch++)
        for (int64_t class = 0; class < s.scores->shape[1]; class++) SN_TRY(select_class(&found, c, &s, batch, class));
    return sn_onnx_done(c, sn_graph_ints(c->m, SN_I64, found.at, (int64_t[]){found.n / 3, 3}, 2));
}
