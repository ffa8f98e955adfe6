/* random_form_attention.c: forms (random_forms.def) around an attention: scores, masks by position, by lengths, by segments,
 * from inputs, weights of which a part is not what it should be, gradients.
 */
#include "tools/random_form.h"

#include <stdio.h>
#include <string.h>

/* ---- masks ---- */

typedef struct positions {
    random_tensor i, j, both; /* of queries [rows, 1] and keys [1, columns]; what compares them */
} positions;

static positions put_positions(form_maker *f, int64_t rows, int64_t columns) {
    positions p = {.i = {.rank = 2, .at = {rows, 1}}, .j = {.rank = 2, .at = {1, columns}}};
    p.i.dtype = p.j.dtype = form_integer_dtype(f);
    const char *dtype = sn_dtypes[p.i.dtype].name;
    p.both = (random_tensor){.dtype = SN_BOOL, .rank = 2, .at = {rows, columns}};
    p.i = form_value(f, &p.i, "iota axis=0 dtype=%s shape=[%lld, 1]", dtype, (long long)rows);
    p.j = form_value(f, &p.j, "iota axis=1 dtype=%s shape=[1, %lld]", dtype, (long long)columns);
    return p;
}

static const char *compares(form_maker *f) { return form_comparisons[form_below(f, SN_COUNT(form_comparisons))]; }

static random_tensor with_number(form_maker *f, const random_tensor *x, const char *op, int64_t number) {
    return form_value(f, x, "%s %%%s, %lld", op, x->name, (long long)number);
}

/* Blocks, stripes, a band, what some arithmetic makes of the positions. */
static random_tensor by_position(form_maker *f, const positions *p) {
    static const char *const ops[] = {"add", "sub", "floordiv", "rem", "mul", "minimum", "maximum", "xor"};
    random_tensor i = p->i, j = p->j, far = p->both;
    int64_t number = 1 + form_below(f, 9), n = form_below(f, 3);
    const char *op = ops[form_below(f, SN_COUNT(ops))];
    if (n > 0) i = with_number(f, &i, op, number);
    if (n > 1) j = with_number(f, &j, form_chance(f, 70) ? op : ops[form_below(f, SN_COUNT(ops))], number);
    if (form_chance(f, 70)) return form_two(f, &p->both, compares(f), &i, &j);
    far.dtype = i.dtype;
    far = form_two(f, &far, "sub", &i, &j);
    if (form_chance(f, 50)) far = form_one(f, &far, "abs", "");
    return form_value(f, &p->both, "%s %%%s, %lld", compares(f), far.name, (long long)number);
}

/* Lengths and segments are numbers of an input, of rows, of columns or of the whole. */
static random_tensor by_numbers(form_maker *f, const positions *p, sn_dtype t) {
    random_tensor of_row = {.dtype = t, .rank = 2, .at = {p->i.at[0], 1}}, of_column = of_row;
    of_column.at[0] = 1, of_column.at[1] = p->j.at[1];
    switch (form_below(f, 4)) {
    case 0: { /* lengths of rows, or one of all */
        random_tensor length, inside = p->both;
        if (form_chance(f, 50)) inside.at[0] = of_row.at[0] = 1;
        length = form_pick_like(f, t, 2, of_row.at);
        length = form_cast(f, &length, p->j.dtype);
        return form_two(f, &inside, compares(f), &p->j, &length);
    }
    case 1: { /* segments */
        random_tensor a = form_pick_like(f, t, 2, of_row.at), b = form_pick_like(f, t, 2, of_column.at);
        return form_two(f, &p->both, compares(f), &a, &b);
    }
    case 2: return form_pick_like(f, SN_BOOL, 2, of_column.at);
    default: return form_pick_like(f, SN_BOOL, 2, p->both.at);
    }
}

static void put_masks(form_maker *f, int64_t rows, int64_t columns) {
    static const char *const joined[] = {"and", "and", "or", "xor"};
    positions p = put_positions(f, rows, columns);
    random_tensor mask = by_position(f, &p);
    for (int64_t n = form_below(f, 4); n > 0; n--) {
        random_tensor other = form_chance(f, 60) ? by_position(f, &p) : by_numbers(f, &p, form_integer_dtype(f));
        mask = form_two(f, &p.both, joined[form_below(f, SN_COUNT(joined))], &mask, &other);
    }
    for (int64_t n = form_below(f, 3); n > 0; n--) form_make_integer(f);
    for (int64_t n = form_below(f, 3); n > 0; n--) form_make_bool(f);
}

/* ---- scores and weights ---- */

/* A share of the distance of a key. */
static random_tensor slope(form_maker *f, const random_tensor *x) {
    positions p = put_positions(f, x->at[x->rank - 2], x->at[x->rank - 1]);
    random_tensor far = p.both;
    far.dtype = p.i.dtype;
    far = form_two(f, &far, "sub", &p.j, &p.i);
    far = form_cast(f, &far, x->dtype);
    far = form_one(f, &far, "mul", form_chance(f, 50) ? ", 0.0625" : ", 0.5");
    return form_two(f, x, "add", x, &far);
}

static random_tensor on_scores(form_maker *f, const random_tensor *x) {
    static const char *const fills[] = {"-inf", "-inf", "-inf", "-10000.0", "-30000.0", "0.0", "nan"};
    random_tensor y;
    switch (form_below(f, 8)) {
    case 0: return form_pick_within(&y, f, x, FORM_FLOATS) && y.dtype == x->dtype ? form_two(f, x, "add", x, &y) : *x;
    case 1: return form_one(f, x, "mul", ", 0.125");
    case 2: return form_one(f, x, "tanh", "");
    case 3: return slope(f, x);
    default: return form_masked(f, x, fills[form_below(f, SN_COUNT(fills))]);
    }
}

/* Weights of the scores: a softmax, its parts, or parts of which one is not what it should be. whole: what the product is divided by. */
static random_tensor put_weights(form_maker *f, const random_tensor *s, random_tensor *whole, bool *later) {
    random_tensor e = *s;
    uint32_t last = s->rank - 1;
    *later = false;
    if (form_chance(f, 55)) return form_one(f, s, "softmax", form_chance(f, 90) ? " axis=-1" : " axis=-2");
    if (form_chance(f, 75)) {
        static const char *const tops[] = {"amax", "amax", "amax", "logsumexp", "mean"};
        random_tensor top = form_row(f, s, tops[form_below(f, SN_COUNT(tops))], form_chance(f, 90) ? last : last - 1);
        e = form_two(f, s, "sub", s, &top);
    }
    random_tensor before = e = form_one(f, &e, "exp", "");
    if (form_chance(f, 25)) e = form_masked(f, &e, "0.0");
    *whole = form_row(f, form_chance(f, 85) ? &e : &before, "sum", form_chance(f, 95) ? last : last - 1);
    if (form_chance(f, 20)) *whole = form_one(f, whole, "add", form_chance(f, 50) ? ", 1.0" : ", 1e-6");
    *later = whole->at[last] == 1 && whole->at[last - 1] == s->at[last - 1] && form_chance(f, 40);
    return *later ? e : form_two(f, s, "div", &e, whole);
}

/* ---- the whole ---- */

/* x[B, h, S, D] for all the heads of queries that share those of keys. */
static random_tensor shared_heads(form_maker *f, const random_tensor *x, int64_t groups) {
    random_tensor y = *x;
    char list[FORM_TEXT];
    if (groups == 1) return y;
    y.rank = 5, y.at[2] = 1, y.at[3] = x->at[2], y.at[4] = x->at[3];
    y = form_value(f, &y, "unsqueeze %%%s axes=[2]", x->name);
    y.at[2] = groups;
    y = form_value(f, &y, "expand %%%s%s", y.name, form_list(list, "shape", y.at, 5));
    y.rank = 4, y.at[1] = x->at[1] * groups, y.at[2] = x->at[2], y.at[3] = x->at[3];
    return form_value(f, &y, "reshape %%%s%s", y.name, form_list(list, "shape", y.at, 4));
}

/* Gradients of softmax(s) v, by that of y: of v, of the scores, of q and k. */
static void put_gradients(form_maker *f, const random_tensor *q, const random_tensor *k, const random_tensor *v,
                          const random_tensor *weights, const random_tensor *y) {
    random_tensor dy = form_pick_like(f, y->dtype, y->rank, y->at), turned = form_swapped(f, weights);
    form_product(f, &turned, &dy);
    turned = form_swapped(f, v);
    random_tensor dw = form_product(f, &dy, &turned);
    random_tensor both = form_two(f, &dw, "mul", &dw, weights), all = form_row(f, &both, "sum", dw.rank - 1);
    random_tensor less = form_two(f, &dw, "sub", &dw, &all), ds = form_two(f, &dw, "mul", &less, weights);
    form_product(f, &ds, k);
    turned = form_swapped(f, &ds);
    form_product(f, &turned, q);
}

void form_make_attention(form_maker *f) {
    static const int64_t depths[] = {1, 8, 16, 32, 64, 80};
    sn_dtype t = form_float_dtype(f);
    bool batched = form_chance(f, 35);
    int64_t groups = batched && form_chance(f, 50) ? 1 + form_below(f, 3) : 1, h = 1 + form_below(f, 3);
    int64_t d = depths[form_below(f, SN_COUNT(depths))], rows = form_chance(f, 8) ? 1 : form_size(f),
            b = 1 + form_below(f, 2);
    int64_t columns = form_chance(f, 60) ? rows : form_size(f), axes = batched ? b * h * groups : h;
    if (axes * rows * columns > FORM_MOST_ELEMENTS || axes * rows * columns * d > 2 * FORM_MOST_STEPS) return;
    if (f->n + 60 > FORM_MOST_VALUES || !rows || !columns) return;
    const int64_t *of_q = (int64_t[]){b, h * groups, rows, d}, *of_k = (int64_t[]){b, h, columns, d};
    uint32_t rank = batched ? 4 : 3, skip = batched ? 0 : 1;
    random_tensor q = form_input(f, t, rank, of_q + skip), k = form_input(f, t, rank, of_k + skip);
    random_tensor v = form_chance(f, 15) ? k : form_input(f, t, rank, of_k + skip), whole = q, y;
    bool later;
    put_masks(f, rows, columns);
    k = shared_heads(f, &k, groups), v = shared_heads(f, &v, groups);
    if (form_chance(f, 30)) q = form_one(f, &q, "mul", ", 0.125");
    random_tensor turned = form_swapped(f, &k), s = form_product(f, &q, &turned);
    for (int64_t n = form_below(f, 5); n > 0; n--) s = on_scores(f, &s);
    s = put_weights(f, &s, &whole, &later);
    if (form_chance(f, 20)) s = form_masked(f, &s, "0.0");
    y = form_product(f, &s, &v);
    if (later) form_two(f, &y, "div", &y, &whole);
    if (form_chance(f, 25)) put_gradients(f, &q, &k, &v, &s, &y);
}
