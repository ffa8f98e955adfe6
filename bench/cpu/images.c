/* images.c: the cases of bench/cpu on images and grids as graphs: those of plain_images.c. */
#include "bench/cpu/cases.h"

#include <math.h>

static sn_node scaled(sn_graph *g, sn_node x, double by) { return sn_mul(g, x, sn_number_like(g, x, by)); }
static sn_node plus(sn_graph *g, sn_node x, double by) { return sn_add(g, x, sn_number_like(g, x, by)); }

static sn_node image(sn_graph *g, const char *name, int64_t n) { return sn_input(g, name, SN_F32, SN_LIST(n, n)); }

/* The pixels that are so many rows and columns on in what has a border of one. */
static sn_node neighbour(sn_graph *g, sn_node padded, int64_t n, int64_t row, int64_t column) {
    int64_t from[2] = {row, column}, to[2] = {row + n, column + n};
    return sn_slices(g, padded, 2, NULL, from, to, NULL);
}

static sn_node bordered(sn_graph *g, sn_node x, int64_t by, double value) {
    int64_t around[2] = {by, by};
    return sn_pad(g, x, around, around, value);
}

/* Element i is element i + by of x along the axis, round the end. */
static sn_node roll(sn_graph *g, sn_node x, int64_t axis, int64_t by) {
    sn_node parts[2] = {sn_slice(g, x, axis, by, INT64_MAX, 1), sn_slice(g, x, axis, 0, by, 1)};
    return sn_concat(g, 2, parts, axis);
}

/* ---- bicubic ---- */

/* Of t in 0 .. 1, for the pixels at -1, 0, 1 and 2 (Catmull-Rom). */
static void cubic_weights(sn_graph *g, sn_node *out, sn_node t) {
    sn_node tt = sn_mul(g, t, t), ttt = sn_mul(g, tt, t);
    out[0] = sn_add(g, scaled(g, ttt, -0.5), sn_add(g, tt, scaled(g, t, -0.5)));
    out[1] = plus(g, sn_add(g, scaled(g, ttt, 1.5), scaled(g, tt, -2.5)), 1);
    out[2] = sn_add(g, scaled(g, ttt, -1.5), sn_add(g, scaled(g, tt, 2), scaled(g, t, 0.5)));
    out[3] = sn_add(g, scaled(g, ttt, 0.5), scaled(g, tt, -0.5));
}

void build_cubic(sn_graph *g, int64_t n) {
    int64_t m = n * 3 / 2;
    sn_node x = image(g, "x", n), i = sn_iota(g, SN_F32, 0, SN_LIST(m)), weight[4], place[4], y = {0};
    sn_node at = plus(g, scaled(g, plus(g, i, 0.5), 2.0 / 3), -0.5), down = sn_floor(g, at);
    cubic_weights(g, weight, sn_sub(g, at, down));
    for (int k = 0; k < 4; k++) place[k] = sn_cast(g, sn_clamp(g, plus(g, down, k - 1), 0, (double)(n - 1)), SN_I64);
    for (int r = 0; r < 4; r++) {
        sn_node row = sn_index_select(g, x, place[r], 0), sum = {0};
        for (int c = 0; c < 4; c++) {
            sn_node part = sn_mul(g, sn_index_select(g, row, place[c], 1), weight[c]);
            sum = c ? sn_add(g, sum, part) : part;
        }
        sum = sn_mul(g, sum, sn_unsqueeze(g, weight[r], SN_LIST(1)));
        y = r ? sn_add(g, y, sum) : sum;
    }
    sn_output(g, "y", y);
}

/* ---- edges ---- */

static void neighbours(sn_graph *g, sn_node *out, sn_node x, int64_t n) {
    sn_node padded = bordered(g, x, 1, 0);
    for (int k = 0; k < 9; k++) out[k] = neighbour(g, padded, n, k / 3, k % 3);
}

/* (b - a) + (d - c) + 2 (f - e) */
static sn_node slope(sn_graph *g, sn_node a, sn_node b, sn_node c, sn_node d, sn_node e, sn_node f) {
    return sn_add(g, sn_add(g, sn_sub(g, b, a), sn_sub(g, d, c)), scaled(g, sn_sub(g, f, e), 2));
}

void build_edges(sn_graph *g, int64_t n) {
    sn_node s[9], t[9], zero = sn_number(g, SN_F32, 0);
    neighbours(g, s, image(g, "x", n), n);
    sn_node dx = slope(g, s[0], s[2], s[6], s[8], s[3], s[5]), dy = slope(g, s[0], s[6], s[2], s[8], s[1], s[7]);
    sn_node m = sn_sqrt(g, sn_add(g, sn_mul(g, dx, dx), sn_mul(g, dy, dy)));
    neighbours(g, t, m, n);
    sn_node ax = sn_abs(g, dx), ay = sn_abs(g, dy);
    sn_node flat = sn_lt(g, ay, scaled(g, ax, FLAT)), steep = sn_lt(g, ax, scaled(g, ay, FLAT));
    sn_node falls = sn_gt(g, sn_mul(g, dx, dy), zero);
    sn_node before = sn_where(g, flat, t[3], sn_where(g, steep, t[1], sn_where(g, falls, t[0], t[2])));
    sn_node behind = sn_where(g, flat, t[5], sn_where(g, steep, t[7], sn_where(g, falls, t[8], t[6])));
    sn_output(g, "edges", sn_where(g, sn_and(g, sn_ge(g, m, before), sn_ge(g, m, behind)), m, zero));
}

/* ---- windows ---- */

static sn_node squares_of(sn_graph *g, sn_node x, double outside) {
    const int64_t size = 2 * REACH_OF_WINDOW + 1;
    return sn_unfold(g, sn_unfold(g, bordered(g, x, REACH_OF_WINDOW, outside), 0, size, 1, 1), 1, size, 1, 1);
}

void build_opening(sn_graph *g, int64_t n) {
    sn_node x = sn_input(g, "x", SN_U8, SN_LIST(n, n)), least = sn_amin(g, squares_of(g, x, 255), SN_LIST(2, 3), false);
    sn_output(g, "y", sn_amax(g, squares_of(g, least, 0), SN_LIST(2, 3), false));
}

static sn_node around(sn_graph *g, sn_node x, sn_node y) {
    return sn_sum(g, squares_of(g, sn_mul(g, x, y), 0), SN_LIST(2, 3), false);
}

void build_flow(sn_graph *g, int64_t n) {
    sn_node a = image(g, "a", n), b = image(g, "b", n), s[9], dt = sn_sub(g, b, a);
    neighbours(g, s, a, n);
    sn_node dx = scaled(g, sn_sub(g, s[5], s[3]), 0.5), dy = scaled(g, sn_sub(g, s[7], s[1]), 0.5);
    sn_node xx = around(g, dx, dx), xy = around(g, dx, dy), yy = around(g, dy, dy);
    sn_node xt = around(g, dx, dt), yt = around(g, dy, dt);
    sn_node det = plus(g, sn_sub(g, sn_mul(g, xx, yy), sn_mul(g, xy, xy)), REGULARISED);
    sn_output(g, "u", sn_div(g, sn_sub(g, sn_mul(g, xy, yt), sn_mul(g, yy, xt)), det));
    sn_output(g, "v", sn_div(g, sn_sub(g, sn_mul(g, xy, xt), sn_mul(g, xx, yt)), det));
}

/* ---- water ---- */

/* Half the step times what comes in along an axis. */
static sn_node inflow(sn_graph *g, sn_node flux, int64_t axis) {
    return scaled(g, sn_sub(g, roll(g, flux, axis, 1), roll(g, flux, axis, -1)), STEP_OF_WATER / 2);
}

void build_water(sn_graph *g, int64_t n) {
    sn_node h = plus(g, image(g, "h", n), 1), u = image(g, "hu", n), v = image(g, "hv", n), of[3] = {h, u, v};
    sn_node pressure = scaled(g, sn_mul(g, h, h), GRAVITY / 2), both = sn_div(g, sn_mul(g, u, v), h);
    sn_node right[3] = {u, sn_add(g, sn_div(g, sn_mul(g, u, u), h), pressure), both};
    sn_node down[3] = {v, both, sn_add(g, sn_div(g, sn_mul(g, v, v), h), pressure)};
    const char *name[3] = {"h_next", "hu_next", "hv_next"};
    for (int k = 0; k < 3; k++) {
        sn_node rows = sn_add(g, roll(g, of[k], 0, 1), roll(g, of[k], 0, -1));
        sn_node mean = scaled(g, sn_add(g, rows, sn_add(g, roll(g, of[k], 1, 1), roll(g, of[k], 1, -1))), 0.25);
        sn_output(g, name[k], sn_sub(g, mean, sn_add(g, inflow(g, right[k], 1), inflow(g, down[k], 0))));
    }
}

/* ---- distances ---- */

/* Of element j of each row: the least of all k of element k and (j - k)^2. */
static sn_node along_rows(sn_graph *g, sn_node x, int64_t n) {
    sn_node i = sn_iota(g, SN_F32, 0, SN_LIST(n)), d = sn_sub(g, sn_unsqueeze(g, i, SN_LIST(1)), i);
    return sn_amin(g, sn_add(g, sn_unsqueeze(g, x, SN_LIST(1)), sn_mul(g, d, d)), SN_LIST(2), false);
}

void build_distances(sn_graph *g, int64_t n) {
    sn_node x = image(g, "x", n), seed = sn_gt(g, x, sn_number_like(g, x, SEEDS));
    sn_node rows = along_rows(g, sn_where(g, seed, sn_number_like(g, x, 0), sn_number_like(g, x, FAR)), n);
    sn_node both = sn_transpose(g, along_rows(g, sn_transpose(g, rows, 0, 1), n), 0, 1);
    sn_output(g, "distance", sn_sqrt(g, both));
}

/* ---- quantised ---- */

static sn_node centred(sn_graph *g, sn_node x, double zero) { return plus(g, sn_cast(g, x, SN_I32), -zero); }

void build_quantised(sn_graph *g, int64_t n) {
    sn_node x = sn_input(g, "x", SN_U8, SN_LIST(1, FILTERS, n, n));
    sn_node w = sn_input(g, "w", SN_U8, SN_LIST(FILTERS, FILTERS, TAPS, TAPS));
    int64_t by = TAPS / 2;
    sn_conv_options around = {.struct_size = sizeof around, .padding = {by, by, by, by}};
    sn_node sum = sn_conv2d(g, centred(g, x, ZERO_POINT), centred(g, w, ZERO_OF_WEIGHTS), &around);
    sn_node y = sn_round(g, scaled(g, sn_cast(g, sum, SN_F32), SCALE));
    sn_output(g, "y", sn_cast(g, plus(g, y, ZERO_POINT), SN_U8));
}
