/* random_form_layers.c: forms (random_forms.def) of networks and of their backward passes: convolutions, norms, and the gradients
 * of what stands in a network.
 */
#include "tools/random_form.h"

#include <stdio.h>
#include <string.h>

/* ---- convolutions ----
 *
 * Whether an infinite weight beside an image is multiplied by the zeros there is not said: weights, and the gradients that
 * stand for them, are inputs, and there are no convolutions of inputs that are infinite.
 */

typedef struct window {
    uint32_t n; /* spatial axes */
    int64_t groups, kernel[3], stride[3], dilation[3], pad[6], y[3];
} window;

static int64_t channels(form_maker *f) {
    static const int64_t usual[] = {1, 2, 3, 4, 8, 16, 17, 32};
    return usual[form_below(f, SN_COUNT(usual))];
}

/* Of an image: one that is there, or an input. */
static random_tensor any_image(form_maker *f) {
    for (int try = 0; try < FORM_TRIES; try++) {
        random_tensor x = form_pick(f, FORM_FLOATS, 1);
        if (x.rank >= 3 && x.rank <= 5 && form_elements(&x) > 0 && x.at[1] <= 64 && form_chance(f, 70)) return x;
    }
    random_tensor x = {.dtype = form_float_dtype(f), .rank = form_chance(f, 65) ? 4 : 3 + (uint32_t)form_below(f, 3)};
    x.at[0] = 1 + form_below(f, 3), x.at[1] = channels(f);
    for (uint32_t k = 2; k < x.rank; k++) x.at[k] = 1 + form_below(f, x.rank == 3 ? 130 : x.rank == 4 ? 20 : 7);
    return form_input(f, x.dtype, x.rank, x.at);
}

static window any_window(form_maker *f, const random_tensor *x, random_tensor *w) {
    window v = {.n = x->rank - 2, .groups = 1};
    *w = *x;
    w->at[0] = channels(f);
    if (form_chance(f, 25)) v.groups = x->at[1] % 2 == 0 && form_chance(f, 50) ? 2 : x->at[1];
    w->at[1] = x->at[1] / v.groups;
    w->at[0] = v.groups * (form_chance(f, 50) ? 1 : (w->at[0] + v.groups - 1) / v.groups);
    for (uint32_t k = 0; k < v.n; k++) {
        bool same = form_chance(f, 50);
        w->at[2 + k] = v.kernel[k] = same ? 1 + 2 * form_below(f, 2) : 1 + form_below(f, 4);
        v.stride[k] = 1 + form_below(f, same ? 2 : 3);
        v.dilation[k] = same ? 1 : 1 + form_below(f, 2);
        int64_t span = (v.kernel[k] - 1) * v.dilation[k] + 1;
        v.pad[k] = same ? v.kernel[k] / 2 : form_below(f, span);
        v.pad[v.n + k] = same ? v.kernel[k] / 2 : form_below(f, span);
        while (x->at[2 + k] + v.pad[k] + v.pad[v.n + k] < span) v.pad[k]++;
        v.y[k] = (x->at[2 + k] + v.pad[k] + v.pad[v.n + k] - span) / v.stride[k] + 1;
    }
    return v;
}

static random_tensor convolve(form_maker *f, const random_tensor *like, const random_tensor *x, const random_tensor *w,
                              const window *v, const int64_t *apart) {
    char list[4][FORM_TEXT];
    return form_value(f, like, "conv %%%s, %%%s%s%s%s%s groups=%lld", x->name, w->name,
                      form_list(list[0], "stride", v->stride, v->n), form_list(list[1], "padding", v->pad, 2 * v->n),
                      form_list(list[2], "dilation", v->dilation, v->n),
                      form_list(list[3], "input_dilation", apart, v->n), (long long)v->groups);
}

static random_tensor channels_first(form_maker *f, const random_tensor *x) {
    int64_t perm[SN_MAX_RANK] = {1, 0, 2, 3, 4};
    return form_permuted(f, x, perm);
}

/* Of the image: a convolution of dy, its elements apart, with the weights turned round. */
static void put_data_gradient(form_maker *f, const random_tensor *x, const random_tensor *w, const random_tensor *dy,
                              const window *v) {
    random_tensor turned = channels_first(f, w);
    window back = *v;
    int64_t axes[3] = {2, 3, 4};
    char list[FORM_TEXT];
    turned = form_value(f, &turned, "flip %%%s%s", turned.name, form_list(list, "axes", axes, v->n));
    for (uint32_t k = 0; k < v->n; k++) {
        int64_t span = (v->kernel[k] - 1) * v->dilation[k], wide = (v->y[k] - 1) * v->stride[k] + 1;
        back.stride[k] = 1;
        back.pad[k] = span - v->pad[k];
        back.pad[v->n + k] = x->at[2 + k] - (wide + back.pad[k] - span);
    }
    convolve(f, x, dy, &turned, &back, v->stride);
}

/* Of the weights: a convolution of the image with dy, channels and images swapped. */
static void put_weight_gradient(form_maker *f, const random_tensor *x, const random_tensor *w, const random_tensor *dy,
                                const window *v) {
    random_tensor image = channels_first(f, x), by = channels_first(f, dy), whole = *x;
    static const int64_t ones[3] = {1, 1, 1};
    window over = *v;
    whole.at[0] = x->at[1], whole.at[1] = dy->at[1];
    for (uint32_t k = 0; k < v->n; k++) {
        over.stride[k] = v->dilation[k], over.dilation[k] = v->stride[k];
        int64_t left = x->at[2 + k] + v->pad[k] + v->pad[v->n + k] - ((v->y[k] - 1) * v->stride[k] + 1);
        whole.at[2 + k] = left / v->dilation[k] + 1;
    }
    whole = convolve(f, &whole, &image, &by, &over, ones);
    for (uint32_t k = 0; k < v->n; k++)
        if (whole.at[2 + k] != w->at[2 + k]) whole = form_sliced(f, &whole, 2 + k, 0, w->at[2 + k], 1);
    channels_first(f, &whole);
}

/* A bias or a norm by channel, an activation, a residual. */
static random_tensor behind(form_maker *f, const random_tensor *x) {
    int64_t by_channel[SN_MAX_RANK] = {x->at[1], 1, 1, 1};
    random_tensor y = *x, b;
    if (form_chance(f, 50)) {
        b = form_pick_like(f, x->dtype, x->rank - 1, by_channel);
        y = form_two(f, x, "add", &y, &b);
    }
    if (form_chance(f, 30)) {
        random_tensor scale = form_pick_like(f, x->dtype, 1, by_channel),
                      bias = form_pick_like(f, x->dtype, 1, by_channel);
        random_tensor mean = form_pick_like(f, x->dtype, 1, by_channel),
                      var = random_input(&f->r, x->dtype, 1, by_channel);
        y = form_value(f, x, "batch_norm %%%s, %%%s, %%%s, %%%s, %%%s eps=0.001", y.name, scale.name, bias.name,
                       mean.name, var.name);
    }
    if (form_chance(f, 30)) {
        b = form_pick_like(f, x->dtype, x->rank, x->at);
        y = form_two(f, x, "add", &y, &b);
    }
    return form_chance(f, 50) ? form_one(f, &y, random_activation(&f->r, x->dtype), "") : y;
}

static random_tensor finite_like(form_maker *f, sn_dtype dtype, uint32_t rank, const int64_t *at) {
    random_tensor x = form_pick_like(f, dtype, rank, at);
    return x.name[0] == 'x' ? x : form_input(f, dtype, rank, at);
}

void form_make_conv(form_maker *f) {
    static const int64_t ones[3] = {1, 1, 1};
    if (f->inputs == SN_EXTREMES) return;
    random_tensor x = any_image(f), w, y = x;
    window v = any_window(f, &x, &w);
    y.at[1] = w.at[0];
    int64_t steps = w.at[1];
    for (uint32_t k = 0; k < v.n; k++) y.at[2 + k] = v.y[k], steps *= v.kernel[k];
    if (!form_fits(&y) || !form_fits(&w) || form_elements(&y) * steps > FORM_MOST_STEPS) return;
    if (f->n + 30 > FORM_MOST_VALUES) return;
    w = finite_like(f, x.dtype, w.rank, w.at);
    y = convolve(f, &y, &x, &w, &v, ones);
    if (form_chance(f, 60)) behind(f, &y);
    if (v.groups > 1 || !form_chance(f, 35)) return;
    random_tensor dy = finite_like(f, y.dtype, y.rank, y.at);
    put_data_gradient(f, &x, &w, &dy, &v);
    put_weight_gradient(f, &x, &w, &dy, &v);
}

/* ---- norms ---- */

static void put_train_norm(form_maker *f, const random_tensor *x) {
    random_tensor in[4], tuple, row = {.dtype = x->dtype, .rank = 1, .at = {x->at[1]}};
    for (int k = 0; k < 3; k++) in[k] = form_pick_like(f, x->dtype, 1, row.at);
    in[3] = random_input(&f->r, x->dtype, 1, row.at);
    tuple = form_tuple(f, "batch_norm_train %%%s, %%%s, %%%s, %%%s, %%%s eps=0.001 momentum=0.25", x->name, in[0].name,
                       in[1].name, in[2].name, in[3].name);
    form_result(f, x, &tuple, 0);
    for (uint32_t k = 1; k < 5; k++)
        if (form_chance(f, 60)) form_result(f, &row, &tuple, k);
}

void form_make_norm(form_maker *f) {
    random_tensor x = form_pick(f, FORM_FLOATS, 1), w, b;
    uint32_t over = 1 + (uint32_t)form_below(f, x.rank);
    if (!form_elements(&x)) return;
    if (x.rank >= 2 && form_elements(&x) > x.at[1] && form_chance(f, 30)) {
        put_train_norm(f, &x);
        return;
    }
    w = form_pick_like(f, x.dtype, over, x.at + x.rank - over);
    if (form_chance(f, 40)) {
        form_value(f, &x, "rms_norm %%%s, %%%s eps=0.001", x.name, w.name);
        return;
    }
    b = form_pick_like(f, x.dtype, over, x.at + x.rank - over);
    form_value(f, &x, "layer_norm %%%s, %%%s, %%%s eps=0.001", x.name, w.name, b.name);
}

/* ---- gradients ---- */

/* y (dy - sum(dy y)). */
static void of_softmax(form_maker *f, const random_tensor *x, const random_tensor *dy) {
    uint32_t axis = form_chance(f, 70) ? x->rank - 1 : (uint32_t)form_below(f, x->rank);
    char text[FORM_TEXT];
    snprintf(text, sizeof text, " axis=%u", axis);
    random_tensor y = form_one(f, x, "softmax", text), both = form_two(f, x, "mul", &y, dy);
    random_tensor all = form_row(f, &both, "sum", axis), part = form_two(f, x, "mul", &y, &all);
    form_two(f, x, "sub", &both, &part);
}

/* r (g - mean(g) - z mean(g z)) with z = (x - mean) r; of the weights sums over the other axes. */
static void of_norm(form_maker *f, const random_tensor *x, const random_tensor *dy) {
    uint32_t axis = form_chance(f, 75) ? x->rank - 1 : (uint32_t)form_below(f, x->rank);
    random_tensor mean = form_row(f, x, "mean", axis), less = form_two(f, x, "sub", x, &mean);
    random_tensor square = form_two(f, x, "mul", &less, &less), var = form_row(f, &square, "mean", axis);
    var = form_one(f, &var, "add", ", 0.001");
    random_tensor r = form_one(f, &var, "rsqrt", ""), z = form_two(f, x, "mul", &less, &r);
    random_tensor w = form_pick_like(f, x->dtype, 1, &x->at[x->rank - 1]), g = form_two(f, x, "mul", dy, &w);
    random_tensor gz = form_two(f, x, "mul", &g, &z), a = form_row(f, &g, "mean", axis),
                  b = form_row(f, &gz, "mean", axis);
    b = form_two(f, x, "mul", &z, &b);
    a = form_two(f, x, "sub", &g, &a);
    a = form_two(f, x, "sub", &a, &b);
    form_two(f, x, "mul", &a, &r);
    random_tensor of_w = form_two(f, x, "mul", dy, &z);
    if (x->rank > 1) form_row(f, &of_w, "sum", x->rank - 2), form_row(f, dy, "sum", x->rank - 2);
}

/* Where the value before was positive; of what is smooth its derivative. */
static void of_activation(form_maker *f, const random_tensor *x, const random_tensor *dy) {
    random_tensor seen = *x, y;
    seen.dtype = SN_BOOL;
    switch (form_below(f, 3)) {
    case 0:
        seen = form_value(f, &seen, "gt %%%s, 0.0", x->name);
        form_value(f, x, "where %%%s, %%%s, 0.0", seen.name, dy->name);
        return;
    case 1:
        y = form_one(f, x, "tanh", "");
        y = form_two(f, x, "mul", &y, &y);
        y = form_value(f, x, "sub 1.0, %%%s", y.name);
        break;
    default: {
        random_tensor s = form_one(f, x, "sigmoid", "");
        y = form_value(f, x, "sub 1.0, %%%s", s.name);
        y = form_two(f, x, "mul", x, &y);
        y = form_one(f, &y, "add", ", 1.0");
        y = form_two(f, x, "mul", &s, &y);
    }
    }
    form_two(f, x, "mul", dy, &y);
}

/* Of x w: dy w^T, x^T dy and the sum of rows. */
static void of_product(form_maker *f, const random_tensor *x, const random_tensor *dy) {
    random_tensor turned = form_swapped(f, x);
    int64_t k = x->at[x->rank - 1];
    if (form_elements(dy) * k > FORM_MOST_STEPS || k * k > FORM_MOST_ELEMENTS) return;
    form_product(f, &turned, dy);
    form_row(f, dy, "sum", x->rank - 2);
    random_tensor w = form_pick_like(f, x->dtype, 2, (int64_t[]){k, k});
    w = form_swapped(f, &w);
    form_product(f, dy, &w);
}

/* The loss of classes, and its gradient: softmax(x) less one at the target. */
static void of_loss(form_maker *f, const random_tensor *x) {
    if (x->rank != 2 || !form_elements(x)) return;
    random_tensor loss = {.dtype = x->dtype}, target = random_input(&f->r, SN_I64, 1, x->at), at = *x;
    form_value(f, &loss, "cross_entropy %%%s, %%%s", x->name, target.name);
    at.dtype = SN_I64, at.at[0] = 1;
    at = form_value(f, &at, "iota axis=1 dtype=i64 shape=[1, %lld]", (long long)x->at[1]);
    random_tensor of_row = {.dtype = SN_I64, .rank = 2, .at = {x->at[0], 1}}, hit = *x;
    of_row = form_value(f, &of_row, "unsqueeze %%%s axes=[1]", target.name);
    hit.dtype = SN_BOOL;
    hit = form_two(f, &hit, "eq", &at, &of_row);
    hit = form_cast(f, &hit, x->dtype);
    random_tensor y = form_one(f, x, "softmax", " axis=1");
    y = form_two(f, x, "sub", &y, &hit);
    form_one(f, &y, "mul", ", 0.25");
}

/* Rows of a table, and sums into it by the same positions. */
static void of_embedding(form_maker *f, const random_tensor *x) {
    random_tensor index, y = *x;
    if (!form_positions(&index, f, x->at[0])) return;
    y.at[0] = index.at[0];
    if (!form_fits(&y)) return;
    y = form_value(f, &y, "index_select %%%s, %%%s axis=0", x->name, index.name);
    random_tensor dy = form_pick_like(f, y.dtype, y.rank, y.at);
    form_value(f, x, "scatter_sum %%%s, %%%s, %%%s", x->name, index.name, form_chance(f, 50) ? dy.name : y.name);
}

void form_make_gradient(form_maker *f) {
    random_tensor x = form_pick(f, FORM_FLOATS, 1);
    if (f->n + 30 > FORM_MOST_VALUES || !form_elements(&x)) return;
    random_tensor dy = form_pick_like(f, x.dtype, x.rank, x.at);
    switch (form_below(f, 7)) {
    case 0: of_softmax(f, &x, &dy); return;
    case 1:
    case 2: of_norm(f, &x, &dy); return;
    case 3: of_activation(f, &x, &dy); return;
    case 4:
        if (x.rank > 1) of_product(f, &x, &dy);
        return;
    case 5: of_loss(f, &x); return;
    default: of_embedding(f, &x);
    }
}
