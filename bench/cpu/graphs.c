/* graphs.c: the cases of bench/cpu as graphs, written as one writes them with numpy. */
#include "bench/cpu/cases.h"

#include <math.h>

/* ---- heat: u + rate * (neighbours - 4u) inside, u on the border ---- */

static sn_node square(sn_graph *g, int64_t n) { return sn_input(g, "u", SN_F32, SN_LIST(n, n)); }

static sn_node scaled(sn_graph *g, sn_node x, double by) { return sn_mul(g, x, sn_number_like(g, x, by)); }

static sn_node change(sn_graph *g, sn_node u, sn_node up, sn_node down, sn_node left, sn_node right) {
    sn_node around = sn_add(g, sn_add(g, up, down), sn_add(g, left, right));
    return scaled(g, sn_sub(g, around, scaled(g, u, 4)), HEAT_RATE);
}

/* Element i is element i + by of x along the axis, round the end. */
static sn_node roll(sn_graph *g, sn_node x, int64_t axis, int64_t by) {
    sn_node parts[2] = {sn_slice(g, x, axis, by, INT64_MAX, 1), sn_slice(g, x, axis, 0, by, 1)};
    return sn_concat(g, 2, parts, axis);
}

static sn_node on_border(sn_graph *g, int64_t n, int64_t axis) {
    sn_node i = sn_iota(g, SN_I64, axis, SN_LIST(n, n));
    sn_node low = sn_eq(g, i, sn_number(g, SN_I64, 0)), high = sn_eq(g, i, sn_number(g, SN_I64, (double)(n - 1)));
    return sn_or(g, low, high);
}

void build_heat_where(sn_graph *g, int64_t n) {
    sn_node u = square(g, n), border = sn_or(g, on_border(g, n, 0), on_border(g, n, 1));
    sn_node du = change(g, u, roll(g, u, 0, -1), roll(g, u, 0, 1), roll(g, u, 1, -1), roll(g, u, 1, 1));
    sn_output(g, "next", sn_where(g, border, u, sn_add(g, u, du)));
}

static sn_node part(sn_graph *g, sn_node u, int64_t n, int64_t row, int64_t column) {
    int64_t from[2] = {row, column}, to[2] = {row + n - 2, column + n - 2};
    return sn_slices(g, u, 2, NULL, from, to, NULL);
}

static sn_node change_inside(sn_graph *g, sn_node u, int64_t n) {
    return change(g, part(g, u, n, 1, 1), part(g, u, n, 0, 1), part(g, u, n, 2, 1), part(g, u, n, 1, 0),
                  part(g, u, n, 1, 2));
}

static sn_node step(sn_graph *g, sn_node u, int64_t n) {
    int64_t one[2] = {1, 1};
    return sn_add(g, u, sn_pad(g, change_inside(g, u, n), one, one, 0));
}

void build_heat_pad(sn_graph *g, int64_t n) { sn_output(g, "next", step(g, square(g, n), n)); }

void build_heat_twice(sn_graph *g, int64_t n) { sn_output(g, "next", step(g, step(g, square(g, n), n), n)); }

void build_heat_concat(sn_graph *g, int64_t n) {
    sn_node u = square(g, n), inside = sn_add(g, part(g, u, n, 1, 1), change_inside(g, u, n));
    sn_node rows = sn_slice(g, u, 0, 1, n - 1, 1);
    sn_node across[3] = {sn_slice(g, rows, 1, 0, 1, 1), inside, sn_slice(g, rows, 1, n - 1, n, 1)};
    sn_node down[3] = {sn_slice(g, u, 0, 0, 1, 1), sn_concat(g, 3, across, 1), sn_slice(g, u, 0, n - 1, n, 1)};
    sn_output(g, "next", sn_concat(g, 3, down, 0));
}

/* ---- bodies ---- */

void build_nbody(sn_graph *g, int64_t n) {
    sn_node at = sn_input(g, "at", SN_F32, SN_LIST(n, 3)), mass = sn_input(g, "mass", SN_F32, SN_LIST(n));
    sn_node d = sn_sub(g, sn_unsqueeze(g, at, SN_LIST(0)), sn_unsqueeze(g, at, SN_LIST(1)));
    sn_node r2 = sn_sum(g, sn_mul(g, d, d), SN_LIST(2), false);
    sn_node r = sn_rsqrt(g, sn_add(g, r2, sn_number_like(g, r2, SOFTENING)));
    sn_node pull = sn_mul(g, mass, sn_mul(g, r, sn_mul(g, r, r)));
    sn_output(g, "acceleration", sn_sum(g, sn_mul(g, d, sn_unsqueeze(g, pull, SN_LIST(2))), SN_LIST(1), false));
}

/* [n, n, 3]: from body i to body j. */
static sn_node differences(sn_graph *g, sn_node at) {
    return sn_sub(g, sn_unsqueeze(g, at, SN_LIST(0)), sn_unsqueeze(g, at, SN_LIST(1)));
}

static sn_node squares(sn_graph *g, sn_node d) { return sn_sum(g, sn_mul(g, d, d), SN_LIST(2), false); }

void build_density(sn_graph *g, int64_t n) {
    sn_node at = sn_input(g, "at", SN_F32, SN_LIST(n, 3)), mass = sn_input(g, "mass", SN_F32, SN_LIST(n));
    sn_node r2 = scaled(g, squares(g, differences(g, at)), 1 / (REACH * REACH));
    sn_node near = sn_relu(g, sn_sub(g, sn_number_like(g, r2, 1), r2));
    sn_output(g, "density", sn_sum(g, sn_mul(g, mass, sn_mul(g, near, sn_mul(g, near, near))), SN_LIST(1), false));
}

void build_cutoff(sn_graph *g, int64_t n) {
    sn_node at = sn_input(g, "at", SN_F32, SN_LIST(n, 3)), r2 = squares(g, differences(g, at));
    sn_node near = sn_lt(g, r2, sn_number_like(g, r2, REACH * REACH));
    sn_node s = sn_div(g, sn_number_like(g, r2, 1), sn_add(g, r2, sn_number_like(g, r2, SOFTENING)));
    sn_node each = sn_where(g, near, sn_mul(g, s, sn_mul(g, s, s)), sn_number_like(g, s, 0));
    sn_output(g, "energy", sn_sum(g, each, SN_LIST(1), false));
    sn_output(g, "neighbours", sn_sum(g, sn_cast(g, near, SN_F32), SN_LIST(1), false));
}

void build_kernel_sums(sn_graph *g, int64_t n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(n, DIMS)), w = sn_input(g, "w", SN_F32, SN_LIST(n));
    sn_node e = sn_exp(g, sn_neg(g, squares(g, differences(g, x))));
    sn_output(g, "sums", sn_sum(g, sn_mul(g, e, w), SN_LIST(1), false));
}

/* ---- groups ---- */

static sn_node counted(sn_graph *g, sn_node index, int64_t n, int64_t rows) {
    return sn_scatter_sum(g, sn_full(g, SN_F32, 0, SN_LIST(rows)), index, sn_full(g, SN_F32, 1, SN_LIST(n)));
}

void build_histogram(sn_graph *g, int64_t n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(n));
    sn_output(g, "counts", counted(g, sn_cast(g, scaled(g, x, BINS), SN_I32), n, BINS));
}

void build_segments(sn_graph *g, int64_t n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(n, WIDTH)), u = sn_input(g, "u", SN_F32, SN_LIST(n));
    sn_node segment = sn_cast(g, scaled(g, u, SEGMENTS), SN_I32);
    sn_node sums = sn_scatter_sum(g, sn_full(g, SN_F32, 0, SN_LIST(SEGMENTS, WIDTH)), segment, x);
    sn_node counts = counted(g, segment, n, SEGMENTS);
    sn_node least = sn_maximum(g, counts, sn_number_like(g, counts, 1));
    sn_output(g, "means", sn_div(g, sums, sn_unsqueeze(g, least, SN_LIST(1))));
}

void build_attend(sn_graph *g, int64_t n) {
    sn_node q = sn_input(g, "q", SN_F32, SN_LIST(n, 3)), k = sn_input(g, "k", SN_F32, SN_LIST(n, 3));
    sn_node v = sn_input(g, "v", SN_F32, SN_LIST(n, 3));
    sn_node weights = sn_softmax(g, sn_matmul(g, q, sn_transpose(g, k, 0, 1)), 1);
    sn_output(g, "seen", sn_matmul(g, weights, v));
}

/* ---- k-means ---- */

typedef struct points {
    sn_node x, c, label;
} points;

static points assign(sn_graph *g, int64_t n) {
    points p = {.x = sn_input(g, "x", SN_F32, SN_LIST(n, DIMS)), .c = sn_input(g, "c", SN_F32, SN_LIST(CENTRES, DIMS))};
    sn_node d = sn_sub(g, sn_unsqueeze(g, p.x, SN_LIST(1)), p.c);
    p.label = sn_argmin(g, sn_sum(g, sn_mul(g, d, d), SN_LIST(2), false), SN_LIST(1), false);
    sn_output(g, "label", p.label);
    return p;
}

static void put_centres(sn_graph *g, sn_node sums, sn_node counts) {
    sn_node least = sn_maximum(g, counts, sn_number_like(g, counts, 1));
    sn_output(g, "centres", sn_div(g, sums, sn_unsqueeze(g, least, SN_LIST(1))));
}

void build_kmeans_scatter(sn_graph *g, int64_t n) {
    points p = assign(g, n);
    sn_node sums = sn_scatter_sum(g, sn_full(g, SN_F32, 0, SN_LIST(CENTRES, DIMS)), p.label, p.x);
    sn_node ones = sn_full(g, SN_F32, 1, SN_LIST(n));
    put_centres(g, sums, sn_scatter_sum(g, sn_full(g, SN_F32, 0, SN_LIST(CENTRES)), p.label, ones));
}

void build_kmeans_product(sn_graph *g, int64_t n) {
    points p = assign(g, n);
    sn_node hit = sn_eq(g, sn_unsqueeze(g, p.label, SN_LIST(1)), sn_iota(g, SN_I64, 0, SN_LIST(CENTRES)));
    sn_node member = sn_cast(g, hit, SN_F32);
    put_centres(g, sn_matmul(g, sn_transpose(g, member, 0, 1), p.x), sn_sum(g, member, SN_LIST(0), false));
}

/* ---- options ---- */

static sn_node normal_cdf(sn_graph *g, sn_node x) {
    sn_node e = sn_erf(g, scaled(g, x, 1 / sqrt(2)));
    return scaled(g, sn_add(g, e, sn_number_like(g, e, 1)), 0.5);
}

void build_black_scholes(sn_graph *g, int64_t n) {
    sn_node price = sn_input(g, "price", SN_F32, SN_LIST(n)), strike = sn_input(g, "strike", SN_F32, SN_LIST(n));
    sn_node years = sn_input(g, "years", SN_F32, SN_LIST(n)), sigma = sn_input(g, "sigma", SN_F32, SN_LIST(n));
    sn_node spread = sn_mul(g, sigma, sn_sqrt(g, years));
    sn_node drift = sn_add(g, scaled(g, sn_mul(g, sigma, sigma), 0.5), sn_number(g, SN_F32, INTEREST));
    sn_node d1 = sn_div(g, sn_add(g, sn_log(g, sn_div(g, price, strike)), sn_mul(g, drift, years)), spread);
    sn_node n1 = normal_cdf(g, d1), n2 = normal_cdf(g, sn_sub(g, d1, spread));
    sn_node later = sn_mul(g, strike, sn_exp(g, scaled(g, years, -INTEREST)));
    sn_node call = sn_sub(g, sn_mul(g, price, n1), sn_mul(g, later, n2));
    sn_output(g, "call", call);
    sn_output(g, "put", sn_add(g, call, sn_sub(g, later, price)));
}

/* ---- rows of three ---- */

static sn_node column(sn_graph *g, sn_node x, int64_t at) { return sn_slice(g, x, 1, at, at + 1, 1); }

void build_colours(sn_graph *g, int64_t n) {
    static const double of[3][4] = {
        {0.299, 0.587, 0.114, 0.5}, {-0.169, -0.331, 0.5, 128.5}, {0.5, -0.419, -0.081, 128.5}};
    sn_node rgb = sn_input(g, "rgb", SN_U8, SN_LIST(n, 3)), yuv[3];
    for (int c = 0; c < 3; c++) {
        sn_node sum = sn_number(g, SN_F32, of[c][3]);
        for (int k = 0; k < 3; k++) sum = sn_add(g, sum, scaled(g, sn_cast(g, column(g, rgb, k), SN_F32), of[c][k]));
        yuv[c] = sn_cast(g, sn_clamp(g, sum, 0, 255), SN_U8);
    }
    sn_output(g, "yuv", sn_concat(g, 3, yuv, 1));
}

static void cross(sn_graph *g, sn_node *out, const sn_node *a, const sn_node *b) {
    for (int c = 0; c < 3; c++) {
        int d = (c + 1) % 3, e = (c + 2) % 3;
        out[c] = sn_sub(g, sn_mul(g, a[d], b[e]), sn_mul(g, a[e], b[d]));
    }
}

/* p + w t + u x t, t = 2 u x p */
void build_rotate(sn_graph *g, int64_t n) {
    sn_node q = sn_input(g, "q", SN_F32, SN_LIST(n, 4)), at = sn_input(g, "at", SN_F32, SN_LIST(n, 3));
    sn_node u[3], p[3], t[3], turned[3], w = column(g, q, 0);
    for (int c = 0; c < 3; c++) u[c] = column(g, q, c + 1), p[c] = column(g, at, c);
    cross(g, t, u, p);
    for (int c = 0; c < 3; c++) t[c] = scaled(g, t[c], 2);
    cross(g, turned, u, t);
    for (int c = 0; c < 3; c++) turned[c] = sn_add(g, sn_add(g, p[c], sn_mul(g, w, t[c])), turned[c]);
    sn_output(g, "turned", sn_concat(g, 3, turned, 1));
}

void build_turn(sn_graph *g, int64_t n) {
    sn_output(g, "y", sn_transpose(g, sn_input(g, "x", SN_F32, SN_LIST(n, n + 4)), 0, 1));
}

/* cofactor(i, j) of the transpose over the determinant; m[3 i + j] */
void build_inverse(sn_graph *g, int64_t n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(n, 9)), m[9], r[9];
    for (int k = 0; k < 9; k++) m[k] = column(g, x, k);
    for (int k = 0; k < 9; k++) {
        int a = (k % 3 + 1) % 3, b = (k % 3 + 2) % 3, c = (k / 3 + 1) % 3, d = (k / 3 + 2) % 3;
        r[k] = sn_sub(g, sn_mul(g, m[3 * a + c], m[3 * b + d]), sn_mul(g, m[3 * a + d], m[3 * b + c]));
    }
    sn_node first = sn_add(g, sn_mul(g, m[0], r[0]), sn_mul(g, m[1], r[3]));
    sn_node by = sn_reciprocal(g, sn_add(g, first, sn_mul(g, m[2], r[6])));
    for (int k = 0; k < 9; k++) r[k] = sn_mul(g, r[k], by);
    sn_output(g, "inverse", sn_concat(g, 9, r, 1));
}

/* ---- images ---- */

void build_life(sn_graph *g, int64_t n) {
    int64_t one[2] = {1, 1};
    sn_node u = sn_input(g, "u", SN_U8, SN_LIST(n, n)), around = sn_pad(g, u, one, one, 0), sum = sn_neg(g, u);
    for (int64_t k = 0; k < 9; k++) sum = sn_add(g, sum, part(g, around, n + 2, k / 3, k % 3));
    sn_node three = sn_eq(g, sum, sn_number_like(g, sum, 3)), two = sn_eq(g, sum, sn_number_like(g, sum, 2));
    sn_node lives = sn_or(g, three, sn_and(g, two, sn_eq(g, u, sn_number_like(g, u, 1))));
    sn_output(g, "next", sn_cast(g, lives, SN_U8));
}

/* From a to b by the weight w. */
static sn_node between(sn_graph *g, sn_node a, sn_node b, sn_node w) {
    return sn_add(g, a, sn_mul(g, sn_sub(g, b, a), w));
}

void build_resize(sn_graph *g, int64_t n) {
    int64_t m = n * 3 / 2;
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(n, n)), i = sn_iota(g, SN_F32, 0, SN_LIST(m));
    sn_node at = sn_sub(g, scaled(g, sn_add(g, i, sn_number_like(g, i, 0.5)), 2.0 / 3), sn_number_like(g, i, 0.5));
    at = sn_clamp(g, at, 0, (double)(n - 1));
    sn_node down = sn_floor(g, at), w = sn_sub(g, at, down), low = sn_cast(g, down, SN_I64);
    sn_node high = sn_add(g, low, sn_number_like(g, low, 1));
    high = sn_minimum(g, high, sn_number_like(g, low, (double)(n - 1)));
    sn_node rows[2] = {sn_index_select(g, x, low, 0), sn_index_select(g, x, high, 0)};
    for (int k = 0; k < 2; k++)
        rows[k] = between(g, sn_index_select(g, rows[k], low, 1), sn_index_select(g, rows[k], high, 1), w);
    sn_output(g, "y", between(g, rows[0], rows[1], sn_unsqueeze(g, w, SN_LIST(1))));
}

/* ---- steps, small matrices, order ---- */

/* z - (z^3 - a) / (3 z^2 + 1), from a on */
void build_newton(sn_graph *g, int64_t n) {
    unsigned loop = sn_repeat_begin(g);
    sn_node a = sn_input(g, "a", SN_F32, SN_LIST(n)), z = sn_repeat_state(g, loop, 0, a), root;
    sn_node zz = sn_mul(g, z, z), slope = sn_add(g, scaled(g, zz, 3), sn_number_like(g, z, 1));
    sn_node next = sn_sub(g, z, sn_div(g, sn_sub(g, sn_mul(g, zz, z), a), slope));
    sn_repeat_end(&root, g,
                  &(sn_repeat){.struct_size = sizeof(sn_repeat),
                               .loop = loop,
                               .steps = NEWTON_STEPS,
                               .n_states = 1,
                               .states = &z,
                               .after = &next});
    sn_output(g, "root", root);
}

void build_predict(sn_graph *g, int64_t n) {
    sn_node p = sn_input(g, "p", SN_F32, SN_LIST(n, STATES, STATES)),
            f = sn_input(g, "f", SN_F32, SN_LIST(STATES, STATES));
    sn_node q = sn_input(g, "q", SN_F32, SN_LIST(STATES, STATES));
    sn_node moved = sn_matmul(g, sn_matmul(g, f, p), sn_transpose(g, f, 0, 1));
    sn_output(g, "next", sn_add(g, moved, q));
}

void build_sorted(sn_graph *g, int64_t n) {
    sn_node sorted;
    sn_sort(&sorted, NULL, g, sn_input(g, "x", SN_F32, SN_LIST(n)), 0, false);
    sn_output(g, "sorted", sorted);
}

/* ---- a fluid ---- */

/* by[k] of each, summed up; of numbers in -1, 0, 1. */
static sn_node moment(sn_graph *g, const sn_node *f, int axis) {
    sn_node sum = {0};
    for (int k = 0; k < DIRECTIONS; k++) {
        int by = axis < 0 ? 1 : directions[k][axis];
        if (by && !sum.id) sum = by > 0 ? f[k] : sn_neg(g, f[k]);
        else if (by) sum = by > 0 ? sn_add(g, sum, f[k]) : sn_sub(g, sum, f[k]);
    }
    return sum;
}

void build_lattice(sn_graph *g, int64_t n) {
    sn_node all = sn_input(g, "f", SN_F32, SN_LIST(DIRECTIONS, n, n)), f[DIRECTIONS];
    for (int64_t k = 0; k < DIRECTIONS; k++) {
        f[k] = sn_squeeze(g, sn_slice(g, all, 0, k, k + 1, 1), SN_LIST(0));
        for (int axis = 0; axis < 2; axis++)
            if (directions[k][axis]) f[k] = roll(g, f[k], axis, -directions[k][axis]);
    }
    sn_node density = moment(g, f, -1), v = sn_div(g, moment(g, f, 0), density),
            u = sn_div(g, moment(g, f, 1), density);
    sn_node one = sn_number(g, SN_F32, 1),
            rest = sn_sub(g, one, scaled(g, sn_add(g, sn_mul(g, u, u), sn_mul(g, v, v)), 1.5));
    for (int k = 0; k < DIRECTIONS; k++) {
        const int *to = directions[k];
        sn_node along = sn_add(g, scaled(g, v, to[0]), scaled(g, u, to[1]));
        sn_node e = sn_add(g, rest, sn_add(g, scaled(g, along, 3), scaled(g, sn_mul(g, along, along), 4.5)));
        e = scaled(g, sn_mul(g, e, density), to[2] / 36.0);
        f[k] = sn_unsqueeze(g, sn_add(g, f[k], scaled(g, sn_sub(g, e, f[k]), RELAXATION)), SN_LIST(0));
    }
    sn_output(g, "next", sn_concat(g, DIRECTIONS, f, 0));
}

/* ---- stereo ---- */

/* Sums over windows of an axis, around each element; outside are zeros. */
static sn_node box(sn_graph *g, sn_node x, int64_t axis) {
    int64_t by[3] = {0}, n = 2 * REACH_OF_WINDOW + 1;
    by[axis] = REACH_OF_WINDOW;
    return sn_sum(g, sn_unfold(g, sn_pad(g, x, by, by, 0), axis, n, 1, 1), SN_LIST(3), false);
}

/* Right of a pixel there is one of the left image's that many columns on, the first of those that differ least around it. */
void build_stereo(sn_graph *g, int64_t n) {
    sn_node left = sn_input(g, "left", SN_F32, SN_LIST(n, n)), right = sn_input(g, "right", SN_F32, SN_LIST(n, n));
    sn_node moved[DISPARITIES];
    int64_t before[2] = {0, DISPARITIES - 1}, none[2] = {0};
    right = sn_pad(g, right, before, none, 0);
    for (int64_t d = 0; d < DISPARITIES; d++)
        moved[d] = sn_unsqueeze(g, sn_slice(g, right, 1, DISPARITIES - 1 - d, DISPARITIES - 1 - d + n, 1), SN_LIST(0));
    sn_node off = sn_abs(g, sn_sub(g, left, sn_concat(g, DISPARITIES, moved, 0)));
    sn_output(g, "disparity", sn_argmin(g, box(g, box(g, off, 1), 2), SN_LIST(0), false));
}

/* ---- particles in a periodic box, spins ---- */

static sn_node plus(sn_graph *g, sn_node x, double by) { return sn_add(g, x, sn_number_like(g, x, by)); }

void build_forces(sn_graph *g, int64_t n) {
    sn_node at = sn_input(g, "at", SN_F32, SN_LIST(n, 3)), d = differences(g, at);
    d = sn_sub(g, d, sn_round(g, d));
    sn_node r2 = squares(g, d), s = sn_div(g, sn_number(g, SN_F32, SOFTENING), plus(g, r2, SOFTENING));
    sn_node s3 = sn_mul(g, s, sn_mul(g, s, s)), s6 = sn_mul(g, s3, s3);
    sn_node pull = sn_mul(g, sn_sub(g, scaled(g, s6, 2), s3), s);
    pull = sn_where(g, sn_lt(g, r2, sn_number_like(g, r2, CUT_OFF * CUT_OFF)), pull, sn_number_like(g, pull, 0));
    sn_output(g, "force", sn_sum(g, sn_mul(g, d, sn_unsqueeze(g, pull, SN_LIST(2))), SN_LIST(1), false));
    sn_output(g, "energy", sn_sum(g, sn_sub(g, s6, s3), SN_LIST(1), false));
}

/* A spin turns round where a random number is below e^(-what that costs). */
void build_spins(sn_graph *g, int64_t n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(n, n)), u = sn_input(g, "u", SN_F32, SN_LIST(n, n));
    sn_node i = sn_iota(g, SN_I32, 0, SN_LIST(n, n)), j = sn_iota(g, SN_I32, 1, SN_LIST(n, n));
    sn_node colour = sn_rem(g, sn_add(g, i, j), sn_number(g, SN_I32, 2)), half = sn_number(g, SN_F32, 0.5);
    sn_node s = sn_where(g, sn_lt(g, x, half), sn_number_like(g, x, -1), sn_number_like(g, x, 1));
    for (int c = 0; c < 2; c++) {
        sn_node around =
            sn_add(g, sn_add(g, roll(g, s, 0, -1), roll(g, s, 0, 1)), sn_add(g, roll(g, s, 1, -1), roll(g, s, 1, 1)));
        sn_node turns = sn_lt(g, u, sn_exp(g, scaled(g, sn_mul(g, s, around), -2 * COUPLING)));
        turns = sn_and(g, turns, sn_eq(g, colour, sn_number(g, SN_I32, c)));
        s = sn_where(g, turns, sn_neg(g, s), s);
    }
    sn_output(g, "next", s);
}

/* ---- looking for things ---- */

void build_nearest(sn_graph *g, int64_t n) {
    sn_node all = sn_input(g, "all", SN_F32, SN_LIST(n, FEATURES)), one = sn_input(g, "one", SN_F32, SN_LIST(FEATURES));
    sn_node length = sn_sqrt(g, sn_sum(g, sn_mul(g, all, all), SN_LIST(1), false)), cosine, which;
    sn_node angle = sn_div(g, sn_matmul(g, all, one), plus(g, length, 1e-6));
    sn_topk(&cosine, &which, g, angle, FOUND, 0, true);
    sn_output(g, "cosine", cosine);
    sn_output(g, "which", which);
}

static sn_node place_on_map(sn_graph *g, sn_node along, sn_node distance) {
    sn_node at = plus(g, sn_mul(g, along, distance), MAP / 2);
    return sn_cast(g, sn_clamp(g, at, 0, MAP - 1), SN_I32);
}

void build_rays(sn_graph *g, int64_t n) {
    sn_node map = sn_input(g, "map", SN_F32, SN_LIST(MAP * MAP)), angle = sn_input(g, "angle", SN_F32, SN_LIST(n));
    sn_node turn = scaled(g, angle, 6.2831853), x = sn_cos(g, turn), y = sn_sin(g, turn), range;
    unsigned loop = sn_repeat_begin(g);
    sn_node t = sn_repeat_state(g, loop, 0, sn_full(g, SN_F32, 0, SN_LIST(n)));
    sn_node at = sn_add(g, scaled(g, place_on_map(g, y, t), MAP), place_on_map(g, x, t));
    sn_node cell = sn_index_select(g, map, at, 0);
    sn_node next = sn_where(g, sn_lt(g, cell, sn_number_like(g, cell, FULL_CELL)), plus(g, t, 1), t);
    sn_repeat_end(&range, g,
                  &(sn_repeat){.struct_size = sizeof(sn_repeat),
                               .loop = loop,
                               .steps = RAY_STEPS,
                               .n_states = 1,
                               .states = &t,
                               .after = &next});
    sn_output(g, "range", range);
}

static sn_node mixed(sn_graph *g, sn_node h, double by, double factor) {
    h = sn_xor(g, h, sn_shr(g, h, sn_number(g, SN_U32, by)));
    return factor != 0 ? sn_mul(g, h, sn_number(g, SN_U32, factor)) : h;
}

void build_hashed(sn_graph *g, int64_t n) {
    sn_node id = sn_input(g, "id", SN_U32, SN_LIST(n)), w = sn_input(g, "w", SN_F32, SN_LIST(n));
    sn_node h = mixed(g, mixed(g, mixed(g, id, 16, 0x7feb352d), 15, 0x846ca68b), 16, 0);
    sn_node bin = sn_cast(g, sn_and(g, h, sn_number(g, SN_U32, HASH_BINS - 1)), SN_I32);
    sn_node minus = sn_ne(g, sn_and(g, h, sn_number(g, SN_U32, HASH_BINS)), sn_number(g, SN_U32, 0));
    sn_node zero = sn_full(g, SN_F32, 0, SN_LIST(HASH_BINS));
    sn_output(g, "bins", sn_scatter_sum(g, zero, bin, sn_where(g, minus, sn_neg(g, w), w)));
}

/* ---- along time ---- */

void build_paths(sn_graph *g, int64_t n) {
    sn_node z = sn_input(g, "z", SN_F32, SN_LIST(PATH_STEPS, n));
    sn_node price = sn_exp(g, sn_cumsum(g, plus(g, scaled(g, z, 0.05), -0.001), 0, false, false));
    sn_node gain = sn_relu(g, plus(g, sn_mean(g, price, SN_LIST(0), false), -1));
    sn_output(g, "worth", sn_mean(g, gain, SN_LIST(0), false));
}

void build_filter(sn_graph *g, int64_t n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(FILTER_STEPS, n)), zero = sn_full(g, SN_F32, 0, SN_LIST(n)), all[3];
    unsigned loop = sn_repeat_begin(g);
    sn_node s[2] = {sn_repeat_state(g, loop, 0, zero), sn_repeat_state(g, loop, 1, zero)};
    sn_node xt = sn_repeat_slice(g, loop, x, 0, false), y = sn_add(g, scaled(g, xt, 0.2), s[0]);
    sn_node after[2] = {sn_add(g, sn_add(g, scaled(g, xt, 0.4), scaled(g, y, 0.5)), s[1]),
                        sn_sub(g, scaled(g, xt, 0.2), scaled(g, y, 0.3))};
    sn_repeat_end(all, g,
                  &(sn_repeat){.struct_size = sizeof(sn_repeat),
                               .loop = loop,
                               .steps = FILTER_STEPS,
                               .n_states = 2,
                               .states = s,
                               .after = after,
                               .n_stacks = 1,
                               .stacks = &y});
    sn_output(g, "y", all[2]);
}

/* ---- Kalman filters ---- */

/* Inverses of 2 x 2 matrices. */
static sn_node inverse_of_two(sn_graph *g, sn_node s) {
    int64_t axes[2] = {1, 2};
    sn_node e[4], rows[2];
    for (int k = 0; k < 4; k++) {
        int64_t from[2] = {k / 2, k % 2}, to[2] = {k / 2 + 1, k % 2 + 1};
        e[k] = sn_slices(g, s, 2, axes, from, to, NULL);
    }
    sn_node det = sn_sub(g, sn_mul(g, e[0], e[3]), sn_mul(g, e[1], e[2]));
    sn_node low[2] = {e[3], sn_neg(g, e[1])}, high[2] = {sn_neg(g, e[2]), e[0]};
    rows[0] = sn_concat(g, 2, low, 2), rows[1] = sn_concat(g, 2, high, 2);
    return sn_div(g, sn_concat(g, 2, rows, 1), det);
}

void build_track(sn_graph *g, int64_t n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(n, STATES, 1)),
            p = sn_input(g, "p", SN_F32, SN_LIST(n, STATES, STATES));
    sn_node z = sn_input(g, "z", SN_F32, SN_LIST(n, MEASURED, 1)),
            f = sn_input(g, "f", SN_F32, SN_LIST(STATES, STATES));
    sn_node h = sn_input(g, "h", SN_F32, SN_LIST(MEASURED, STATES)),
            q = sn_input(g, "q", SN_F32, SN_LIST(STATES, STATES));
    sn_node noise = sn_cast(g,
                            sn_eq(g, sn_iota(g, SN_I32, 0, SN_LIST(MEASURED, MEASURED)),
                                  sn_iota(g, SN_I32, 1, SN_LIST(MEASURED, MEASURED))),
                            SN_F32);
    x = sn_matmul(g, f, x);
    p = sn_add(g, sn_matmul(g, sn_matmul(g, f, p), sn_transpose(g, f, 0, 1)), q);
    sn_node seen = sn_matmul(g, p, sn_transpose(g, h, 0, 1)), s = sn_add(g, sn_matmul(g, h, seen), noise);
    sn_node gain = sn_matmul(g, seen, inverse_of_two(g, s));
    sn_output(g, "next_x", sn_add(g, x, sn_matmul(g, gain, sn_sub(g, z, sn_matmul(g, h, x)))));
    sn_output(g, "next_p", sn_sub(g, p, sn_matmul(g, sn_matmul(g, gain, h), p)));
}

/* ---- numbers of both sides ---- */

void blur_weights(float *out) {
    double w[BLUR], sum = 0;
    for (int k = 0; k < BLUR; k++) w[k] = exp(-(k - BLUR / 2) * (k - BLUR / 2) / 4.5), sum += w[k];
    for (int k = 0; k < BLUR; k++) out[k] = (float)(w[k] / sum);
}

void roots_of_one(float *cosine, float *sine, int64_t m) {
    for (int64_t k = 0; k < m; k++) {
        double angle = 3.141592653589793 * (double)k / (double)m;
        cosine[k] = (float)cos(angle), sine[k] = (float)-sin(angle);
    }
}

/* ---- graphs, flocks, trees ---- */

void build_ranks(sn_graph *g, int64_t n) {
    sn_node rank = sn_input(g, "rank", SN_F32, SN_LIST(n)), weight = sn_input(g, "weight", SN_F32, SN_LIST(EDGES * n));
    sn_node from = sn_input(g, "from", SN_I32, SN_LIST(EDGES * n)), to = sn_input(g, "to", SN_I32, SN_LIST(EDGES * n));
    sn_node sent = sn_mul(g, weight, sn_index_select(g, rank, from, 0));
    sn_node came = sn_scatter_sum(g, sn_full(g, SN_F32, 0, SN_LIST(n)), to, sent);
    sn_output(g, "next", plus(g, scaled(g, came, DAMPING), (1 - DAMPING) / (double)n));
}

static sn_node within(sn_graph *g, sn_node squared, double distance) {
    return sn_cast(g, sn_lt(g, squared, sn_number_like(g, squared, distance * distance)), SN_F32);
}

void build_flock(sn_graph *g, int64_t n) {
    sn_node at = sn_input(g, "at", SN_F32, SN_LIST(n, 2)), v = sn_input(g, "v", SN_F32, SN_LIST(n, 2));
    sn_node d = differences(g, at), r = squares(g, d);
    sn_node near = within(g, r, SIGHT), close = within(g, r, CLOSE), count = sn_sum(g, near, SN_LIST(1), true);
    sn_node centre = sn_div(g, sn_matmul(g, near, at), count), heading = sn_div(g, sn_matmul(g, near, v), count);
    sn_node apart = sn_sum(g, sn_mul(g, d, sn_unsqueeze(g, close, SN_LIST(2))), SN_LIST(1), false);
    sn_node turn = sn_add(g, scaled(g, sn_sub(g, centre, at), 0.01), scaled(g, sn_sub(g, heading, v), 0.1));
    sn_node next = sn_add(g, v, sn_sub(g, turn, scaled(g, apart, 0.05)));
    sn_output(g, "next_v", next);
    sn_output(g, "next_at", sn_add(g, at, scaled(g, next, 0.1)));
}

/* Trees one behind the other, each level by level: children of node k are 2k + 1 and 2k + 2. */
void build_forest(sn_graph *g, int64_t n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(n, TESTED));
    sn_node feature = sn_input(g, "feature", SN_I32, SN_LIST(TREES * SPLITS));
    sn_node limit = sn_input(g, "limit", SN_F32, SN_LIST(TREES * SPLITS));
    sn_node leaf = sn_input(g, "leaf", SN_F32, SN_LIST(TREES * (SPLITS + 1)));
    sn_node tree = sn_iota(g, SN_I32, 0, SN_LIST(TREES)), node = sn_full(g, SN_I32, 0, SN_LIST(n, TREES));
    feature = sn_rem(g, feature, sn_number(g, SN_I32, TESTED));
    for (int level = 0; level < LEVELS; level++) {
        sn_node at = sn_add(g, node, scaled(g, tree, SPLITS));
        sn_node tested = sn_gather(g, x, sn_index_select(g, feature, at, 0), 1);
        sn_node right = sn_cast(g, sn_gt(g, tested, sn_index_select(g, limit, at, 0)), SN_I32);
        node = sn_add(g, plus(g, scaled(g, node, 2), 1), right);
    }
    sn_node at = sn_add(g, plus(g, node, -SPLITS), scaled(g, tree, SPLITS + 1));
    sn_output(g, "y", sn_mean(g, sn_index_select(g, leaf, at, 0), SN_LIST(1), false));
}

/* ---- images and series ---- */

static sn_node blurred(sn_graph *g, sn_node x, sn_node weights) {
    for (int64_t axis = 0; axis < 2; axis++) {
        int64_t around[2] = {axis ? 0 : BLUR / 2, axis ? BLUR / 2 : 0};
        sn_node windows = sn_unfold(g, sn_pad(g, x, around, around, 0), axis, BLUR, 1, 1);
        x = sn_sum(g, sn_mul(g, windows, weights), SN_LIST(2), false);
    }
    return x;
}

void build_similar(sn_graph *g, int64_t n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(n, n)), y = sn_input(g, "y", SN_F32, SN_LIST(n, n));
    float w[BLUR];
    blur_weights(w);
    sn_node weights = sn_constant(g, SN_F32, w, SN_LIST(BLUR));
    sn_node mx = blurred(g, x, weights), my = blurred(g, y, weights), both = sn_mul(g, mx, my);
    sn_node of_x = sn_mul(g, mx, mx), of_y = sn_mul(g, my, my);
    sn_node vx = sn_sub(g, blurred(g, sn_mul(g, x, x), weights), of_x);
    sn_node vy = sn_sub(g, blurred(g, sn_mul(g, y, y), weights), of_y);
    sn_node cov = sn_sub(g, blurred(g, sn_mul(g, x, y), weights), both);
    sn_node high = sn_mul(g, plus(g, scaled(g, both, 2), 1e-4), plus(g, scaled(g, cov, 2), 9e-4));
    sn_node low = sn_mul(g, plus(g, sn_add(g, of_x, of_y), 1e-4), plus(g, sn_add(g, vx, vy), 9e-4));
    sn_output(g, "similarity", sn_mean(g, sn_div(g, high, low), SN_LIST(0, 1), false));
}

void build_drawdown(sn_graph *g, int64_t n) {
    sn_node p = sn_input(g, "p", SN_F32, SN_LIST(n, PRICES));
    sn_node change = sn_div(g, sn_slice(g, p, 1, 1, PRICES, 1), sn_slice(g, p, 1, 0, PRICES - 1, 1));
    sn_node value = sn_exp(g, sn_cumsum(g, scaled(g, sn_log(g, change), 0.1), 1, false, false));
    sn_node left = sn_div(g, value, sn_cummax(g, value, 1, false, false));
    sn_output(g, "loss", sn_amax(g, sn_sub(g, sn_number_like(g, left, 1), left), SN_LIST(1), false));
}

void build_grey(sn_graph *g, int64_t n) {
    static const double share[3] = {0.299, 0.587, 0.114};
    sn_node x = sn_cast(g, sn_input(g, "x", SN_U8, SN_LIST(n, n, 3)), SN_F32), y = {0};
    for (int c = 0; c < 3; c++) {
        sn_node part = scaled(g, sn_squeeze(g, sn_slice(g, x, 2, c, c + 1, 1), SN_LIST(2)), share[c]);
        y = c ? sn_add(g, y, part) : part;
    }
    sn_node mean = sn_mean(g, y, SN_LIST(0, 1), false);
    sn_output(g, "mean", mean);
    sn_output(g, "above", sn_sum(g, sn_cast(g, sn_gt(g, y, mean), SN_F32), SN_LIST(0, 1), false));
}

void build_query(sn_graph *g, int64_t n) {
    sn_node q = sn_input(g, "q", SN_F32, SN_LIST(HEADS, 1, HEAD));
    sn_node k = sn_input(g, "k", SN_F32, SN_LIST(HEADS, n, HEAD)),
            v = sn_input(g, "v", SN_F32, SN_LIST(HEADS, n, HEAD));
    sn_node scores = scaled(g, sn_matmul(g, q, sn_transpose(g, k, 1, 2)), 0.125);
    sn_output(g, "y", sn_matmul(g, sn_softmax(g, scores, 2), v));
}

/* ---- Fourier ---- */

/* Both halves of a stage, [n, 2, m, s], become its pairs, [n, m, 2, s]. */
static sn_node paired(sn_graph *g, sn_node sum, sn_node turned, int64_t n) {
    sn_node parts[2] = {sn_unsqueeze(g, sum, SN_LIST(2)), sn_unsqueeze(g, turned, SN_LIST(2))};
    return sn_reshape(g, sn_concat(g, 2, parts, 2), SN_LIST(n, SIGNAL));
}

static sn_node half(sn_graph *g, sn_node x, int64_t at) {
    return sn_squeeze(g, sn_slice(g, x, 1, at, at + 1, 1), SN_LIST(1));
}

void build_fourier(sn_graph *g, int64_t n) {
    sn_node re = sn_input(g, "re", SN_F32, SN_LIST(n, SIGNAL)), im = sn_input(g, "im", SN_F32, SN_LIST(n, SIGNAL));
    float cosine[SIGNAL / 2], sine[SIGNAL / 2];
    for (int64_t m = SIGNAL / 2; m >= 1; m /= 2) {
        int64_t s = SIGNAL / 2 / m;
        roots_of_one(cosine, sine, m);
        sn_node wr = sn_constant(g, SN_F32, cosine, SN_LIST(m, 1)), wi = sn_constant(g, SN_F32, sine, SN_LIST(m, 1));
        re = sn_reshape(g, re, SN_LIST(n, 2, m, s)), im = sn_reshape(g, im, SN_LIST(n, 2, m, s));
        sn_node ar = half(g, re, 0), br = half(g, re, 1), ai = half(g, im, 0), bi = half(g, im, 1);
        sn_node dr = sn_sub(g, ar, br), di = sn_sub(g, ai, bi);
        re = paired(g, sn_add(g, ar, br), sn_sub(g, sn_mul(g, dr, wr), sn_mul(g, di, wi)), n);
        im = paired(g, sn_add(g, ai, bi), sn_add(g, sn_mul(g, dr, wi), sn_mul(g, di, wr)), n);
    }
    sn_output(g, "out_re", re);
    sn_output(g, "out_im", im);
}

/* ---- orders ---- */

void build_median(sn_graph *g, int64_t n) {
    sn_node windows = sn_input(g, "x", SN_F32, SN_LIST(n, n)), sorted;
    const int64_t inside = n - MEDIAN_OF + 1, all = MEDIAN_OF * MEDIAN_OF;
    for (int64_t axis = 0; axis < 2; axis++) windows = sn_unfold(g, windows, axis, MEDIAN_OF, 1, 1);
    sn_sort(&sorted, NULL, g, sn_reshape(g, windows, SN_LIST(inside, inside, all)), 2, false);
    sn_output(g, "median", sn_squeeze(g, sn_slice(g, sorted, 2, all / 2, all / 2 + 1, 1), SN_LIST(2)));
}

void build_neighbours(sn_graph *g, int64_t n) {
    sn_node distance, which;
    sn_node r2 = squares(g, differences(g, sn_input(g, "at", SN_F32, SN_LIST(n, 3))));
    sn_topk(&distance, &which, g, r2, AROUND, 1, false);
    sn_output(g, "distance", sn_sqrt(g, distance));
    sn_output(g, "which", which);
}

/* ---- a training step ---- */

static void descend(sn_graph *g, const char *name, sn_node w, sn_node dw) {
    sn_output(g, name, sn_sub(g, w, scaled(g, dw, LEARNING_RATE)));
}

void build_mlp_step(sn_graph *g, int64_t n) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(n, PIXELS)), label = sn_input(g, "label", SN_I64, SN_LIST(n));
    sn_node w1 = sn_input(g, "w1", SN_F32, SN_LIST(PIXELS, HIDDEN)), b1 = sn_input(g, "b1", SN_F32, SN_LIST(HIDDEN));
    sn_node w2 = sn_input(g, "w2", SN_F32, SN_LIST(HIDDEN, CLASSES)), b2 = sn_input(g, "b2", SN_F32, SN_LIST(CLASSES));
    sn_node h = sn_relu(g, sn_add(g, sn_matmul(g, x, w1), b1));
    sn_node y = sn_add(g, sn_matmul(g, h, w2), b2);
    sn_node hit = sn_eq(g, sn_unsqueeze(g, label, SN_LIST(1)), sn_iota(g, SN_I64, 0, SN_LIST(CLASSES)));
    sn_node dy = scaled(g, sn_sub(g, sn_softmax(g, y, 1), sn_cast(g, hit, SN_F32)), 1 / (double)n);
    sn_node back = sn_matmul(g, dy, sn_transpose(g, w2, 0, 1));
    sn_node dh = sn_where(g, sn_gt(g, h, sn_number_like(g, h, 0)), back, sn_number_like(g, back, 0));
    sn_output(g, "loss", sn_cross_entropy(g, y, label));
    descend(g, "next_w1", w1, sn_matmul(g, sn_transpose(g, x, 0, 1), dh));
    descend(g, "next_b1", b1, sn_sum(g, dh, SN_LIST(0), false));
    descend(g, "next_w2", w2, sn_matmul(g, sn_transpose(g, h, 0, 1), dy));
    descend(g, "next_b2", b2, sn_sum(g, dy, SN_LIST(0), false));
}
