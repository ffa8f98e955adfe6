/* random_conv.c: random graphs around a convolution or an attention, as .sn text (random.h).
 *
 * A convolution over 1 to 3 axes with any geometry, of images with channels innermost or not, perhaps with a bias
 * for each channel; or softmax(q k^T * scale ...) v with masks by position, a bias, a cap, heads of queries that
 * share those of keys. Then up to three steps of what stands behind. All sizes fit, as in random_product.c.
 */
#include "tools/random_text.h"

#include <stdio.h>

enum { MOST_STEPS = 3 << 20, TEXT = 256 };

/* ---- convolutions ---- */

typedef struct window {
    uint32_t n; /* spatial axes */
    int64_t groups, kernel[3], stride[3], dilation[3], apart[3], pad[6], y[3];
} window;

static const char *put_list(char *out, const char *name, const int64_t *at, uint32_t n) {
    int used = snprintf(out, TEXT, " %s=[", name);
    for (uint32_t k = 0; k < n; k++) used += snprintf(out + used, TEXT, "%s%lld", k ? ", " : "", (long long)at[k]);
    snprintf(out + used, TEXT, "]");
    return out;
}

/* Channels: few, a prime, or whole vectors. */
static int64_t channels(random_maker *r) {
    static const int64_t usual[] = {1, 3, 8, 16, 17, 32, 64};
    return random_chance(&r->state, 70) ? usual[random_below(&r->state, SN_COUNT(usual))]
                                        : 1 + random_below(&r->state, 70);
}

/* The window, and sizes of image and weights that it fits. */
static window draw_window(random_maker *r, random_tensor *x, random_tensor *w) {
    window v = {.n = random_chance(&r->state, 70) ? 2 : 1 + (uint32_t)random_below(&r->state, 3), .groups = 1};
    int64_t in = channels(r), out = channels(r);
    if (random_chance(&r->state, 25)) v.groups = 1 + random_below(&r->state, 9);
    if (random_chance(&r->state, 10)) v.groups = in, in = 1, out = 1;
    x->rank = w->rank = 2 + v.n;
    x->at[0] = 1 + random_below(&r->state, 4);
    x->at[1] = v.groups * in, w->at[0] = v.groups * out, w->at[1] = in;
    for (uint32_t k = 0; k < v.n; k++) {
        bool same = random_chance(&r->state, 50);
        v.kernel[k] = same ? 1 + 2 * random_below(&r->state, 3) : 1 + random_below(&r->state, 7);
        v.stride[k] = same ? 1 + random_below(&r->state, 2) : 1 + random_below(&r->state, 3);
        v.dilation[k] = same ? 1 : 1 + random_below(&r->state, 3);
        v.apart[k] = random_chance(&r->state, 85) ? 1 : 1 + random_below(&r->state, 3);
        v.pad[k] = v.pad[v.n + k] = v.kernel[k] / 2;
        if (!same) v.pad[k] = random_below(&r->state, 6) - 1, v.pad[v.n + k] = random_below(&r->state, 6) - 1;
        int64_t span = (v.kernel[k] - 1) * v.dilation[k] + 1 - v.pad[k] - v.pad[v.n + k];
        x->at[2 + k] = 1 + random_below(&r->state, v.n == 1 ? 200 : v.n == 2 ? 40 : 9);
        while ((x->at[2 + k] - 1) * v.apart[k] + 1 < span) x->at[2 + k]++;
        v.y[k] = ((x->at[2 + k] - 1) * v.apart[k] + 1 - span) / v.stride[k] + 1;
        w->at[2 + k] = v.kernel[k];
    }
    return v;
}

static int64_t products(const window *v, const random_tensor *x, const random_tensor *w) {
    int64_t all = x->at[0] * w->at[0] * w->at[1];
    for (uint32_t k = 0; k < v->n; k++) all *= v->y[k] * v->kernel[k];
    return all;
}

/* An input of that type, with its channels innermost in memory. */
static random_tensor channels_last(random_maker *r, const random_tensor *want) {
    char perm[TEXT];
    int64_t at[SN_MAX_RANK], order[SN_MAX_RANK] = {0, want->rank - 1};
    for (uint32_t k = 0; k < want->rank; k++) at[k] = want->at[k == 0 ? 0 : k + 1 < want->rank ? k + 1 : 1];
    for (uint32_t k = 2; k < want->rank; k++) order[k] = k - 1;
    random_tensor x = random_input(r, want->dtype, want->rank, at);
    return random_value(r, want, "permute %%%s%s", x.name, put_list(perm, "perm", order, want->rank));
}

static random_tensor image(random_maker *r, const random_tensor *want) {
    if (random_chance(&r->state, 35)) return channels_last(r, want);
    random_tensor x = random_input(r, want->dtype, want->rank, want->at);
    return random_chance(&r->state, 15) ? random_unary(r, &x, random_activation(r, x.dtype)) : x;
}

static random_tensor convolution(random_maker *r) {
    static const char *const words[] = {"exact", "high", "tf32", "bf16"};
    random_tensor x, w, y;
    char text[8 * TEXT], list[5][TEXT];
    window v;
    do v = draw_window(r, &x, &w);
    while (products(&v, &x, &w) > MOST_STEPS);
    x.dtype = w.dtype = random_dtype(r);
    x = image(r, &x), w = image(r, &w);
    y = x;
    y.at[1] = w.at[0];
    for (uint32_t k = 0; k < v.n; k++) y.at[2 + k] = v.y[k];
    const char *precision = words[random_below(&r->state, SN_COUNT(words))];
    bool says = x.dtype == SN_F32 && random_chance(&r->state, 30);
    snprintf(text, sizeof text, "%s%s%s%s%s groups=%lld%s%s", w.name, put_list(list[0], "stride", v.stride, v.n),
             put_list(list[1], "padding", v.pad, 2 * v.n), put_list(list[2], "dilation", v.dilation, v.n),
             put_list(list[3], "input_dilation", v.apart, v.n), (long long)v.groups, says ? " precision=" : "",
             says ? precision : "");
    y = random_value(r, &y, "conv %%%s, %%%s", x.name, text);
    if (random_chance(&r->state, 50)) return y;
    int64_t of_channels[SN_MAX_RANK] = {w.at[0], 1, 1, 1};
    random_tensor bias = random_input(r, y.dtype, v.n + 1, of_channels);
    return random_binary(r, &y, "add", &bias);
}

/* ---- attention ---- */

/* %x where a comparison of the positions of query and key holds, else -inf. */
static random_tensor masked(random_maker *r, const random_tensor *x) {
    int64_t rows = x->at[2], columns = x->at[3];
    random_tensor like = {.dtype = SN_I32, .rank = 2, .at = {rows, 1}};
    char text[TEXT];
    snprintf(text, sizeof text, "axis=0 dtype=i32 shape=[%lld, 1]", (long long)rows);
    random_tensor i = random_value(r, &like, "iota %s%s", text, "");
    like.at[0] = 1, like.at[1] = columns;
    snprintf(text, sizeof text, "axis=1 dtype=i32 shape=[1, %lld]", (long long)columns);
    random_tensor j = random_value(r, &like, "iota %s%s", text, "");
    snprintf(text, sizeof text, "%lld",
             (long long)(random_chance(&r->state, 50) ? 0
                         : columns > rows             ? columns - rows
                                                      : 1));
    random_tensor last = random_value(r, &i, "add %%%s, %s", i.name, text);
    like.at[0] = rows, like.dtype = SN_BOOL;
    snprintf(text, sizeof text, "%s, %%%s", last.name, j.name);
    random_tensor seen = random_value(r, &like, "ge %%%s%s", text, "");
    if (random_chance(&r->state, 40)) {
        random_tensor width = random_value(r, &i, "sub %%%s, %s", i.name, random_chance(&r->state, 50) ? "9" : "70");
        snprintf(text, sizeof text, "%s, %%%s", width.name, j.name);
        random_tensor near = random_value(r, &like, "le %%%s%s", text, "");
        seen = random_binary(r, &seen, "and", &near);
    }
    return random_value(r, x, "where %%%s, %%%s, -inf", seen.name, x->name);
}

static random_tensor on_scores(random_maker *r, const random_tensor *x) {
    random_tensor y = *x;
    switch (random_below(&r->state, 6)) {
    case 0: {
        bool all = random_chance(&r->state, 50);
        random_tensor bias = all ? random_input(r, x->dtype, x->rank, x->at) : random_input(r, x->dtype, 1, &x->at[3]);
        return random_binary(r, x, "add", &bias);
    }
    case 1:
        y = random_value(r, x, "div %%%s, %s", x->name, "5");
        y = random_unary(r, &y, "tanh");
        return random_value(r, &y, "mul %%%s, %s", y.name, "5");
    case 2:
    case 3: return masked(r, x);
    case 4: return random_cast(r, x, SN_F32);
    default: return *x;
    }
}

/* x[B, h, S, D] for B * groups heads of queries. */
static random_tensor shared_heads(random_maker *r, const random_tensor *x, int64_t groups) {
    random_tensor y = *x;
    char text[TEXT];
    if (groups == 1) return *x;
    y.rank = 5;
    y.at[2] = 1, y.at[3] = x->at[2], y.at[4] = x->at[3];
    y = random_value(r, &y, "unsqueeze %%%s%s", x->name, " axes=[2]");
    y.at[2] = groups;
    y = random_value(r, &y, "expand %%%s%s", y.name, put_list(text, "shape", y.at, 5));
    y.rank = 4;
    y.at[1] = x->at[1] * groups, y.at[2] = x->at[2], y.at[3] = x->at[3];
    return random_value(r, &y, "reshape %%%s%s", y.name, put_list(text, "shape", y.at, 4));
}

static random_tensor attention(random_maker *r) {
    static const int64_t heads[] = {8, 16, 32, 64, 128};
    sn_dtype t = random_dtype(r);
    if (!sn_is_float(t)) t = SN_F32;
    r->chain = true;
    int64_t groups = random_chance(&r->state, 25) ? 1 + random_below(&r->state, 4) : 1;
    int64_t b = 1 + random_below(&r->state, 2), h = 1 + random_below(&r->state, 3);
    int64_t d = heads[random_below(&r->state, SN_COUNT(heads))], e = random_chance(&r->state, 75) ? d : random_size(r);
    int64_t q = random_chance(&r->state, 15) ? 1 : random_size(r),
            k = random_chance(&r->state, 50) ? q : random_size(r);
    while (b * h * groups * q * k * (d + e) > MOST_STEPS) q = (q + 1) / 2, k = (k + 1) / 2, b = 1;
    random_tensor x = random_input(r, t, 4, (int64_t[]){b, h * groups, q, d});
    random_tensor y = random_input(r, t, 4, (int64_t[]){b, h, k, d}),
                  v = random_input(r, t, 4, (int64_t[]){b, h, k, e});
    y = shared_heads(r, &y, groups), v = shared_heads(r, &v, groups);
    y = random_swapped(r, &y);
    random_tensor s = x;
    s.at[3] = k;
    s = random_value(r, &s, "matmul %%%s, %%%s", x.name, y.name);
    s = random_value(r, &s, "mul %%%s, %s", s.name, "0.125");
    for (int64_t steps = random_below(&r->state, 3); steps > 0; steps--) s = on_scores(r, &s);
    s = random_value(r, &s, "softmax %%%s%s", s.name, " axis=-1");
    if (s.dtype != t) s = random_cast(r, &s, t);
    x.at[3] = e;
    return random_value(r, &x, "matmul %%%s, %%%s", s.name, v.name);
}

static sn_status made(sn_text *out, sn_context *ctx, uint64_t seed, random_tensor make(random_maker *r)) {
    random_maker r;
    random_begin(&r, &ctx->env, seed);
    random_tensor x = make(&r);
    random_end(out, &r, &x);
    return SN_OK;
}

sn_status random_convolution(sn_text *out, sn_context *ctx, uint64_t seed) { return made(out, ctx, seed, convolution); }

sn_status random_attention(sn_text *out, sn_context *ctx, uint64_t seed) { return made(out, ctx, seed, attention); }
