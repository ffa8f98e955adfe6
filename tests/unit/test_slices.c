/* test_slices.c: slices and squeezes of the builder, against numpy's rules written down again. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "include/sinter/sinter.h"

enum { SIZE = 5 };

static sn_context *ctx;

static sn_graph *begin(void) {
    sn_graph *g;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    cr_assert_eq(sn_graph_create(&g, ctx, "g"), SN_OK);
    return g;
}

static void end(sn_graph *g) {
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

static int64_t clamp(int64_t at, int64_t n, int64_t low, int64_t high) {
    if (at < 0) at = at < -n ? low : at + n;
    return at < low ? low : at > high ? high : at;
}

/* slice(start, stop, step).indices(n) of Python: *first and the number of elements. */
static int64_t indices(int64_t *first, int64_t n, int64_t start, int64_t stop, int64_t step) {
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n, count = 0;
    *first = clamp(start, n, low, high);
    stop = clamp(stop, n, low, high);
    for (int64_t at = *first; step > 0 ? at < stop : at > stop; at += step) count++;
    return count;
}

static const int64_t positions[] = {INT64_MIN, -9, -6, -5, -3, -1, 0, 2, 4, 5, 8, INT64_MAX};
enum { N_POSITIONS = sizeof positions / sizeof *positions };

Test(slices, have_numpys_sizes) {
    static const int64_t steps[] = {1, 2, 3, 9, -1, -2, -3, -9};
    sn_graph *g = begin();
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(3, SIZE)), none = sn_input(g, "none", SN_F32, SN_LIST(0));
    for (int a = 0; a < N_POSITIONS; a++)
        for (int b = 0; b < N_POSITIONS; b++)
            for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
                int64_t shape[8], first;
                sn_node_shape(shape, g, sn_slice(g, x, 1, positions[a], positions[b], steps[s]));
                cr_expect(shape[0] == 3 && shape[1] == indices(&first, SIZE, positions[a], positions[b], steps[s]),
                          "[%lld:%lld:%lld] has %lld", (long long)positions[a], (long long)positions[b],
                          (long long)steps[s], (long long)shape[1]);
                sn_node_shape(shape, g, sn_slice(g, none, 0, positions[a], positions[b], steps[s]));
                cr_expect_eq(shape[0], 0);
            }
    int64_t shape[8];
    sn_node_shape(shape, g, sn_slice(g, x, 1, -1, INT64_MIN, INT64_MIN));
    cr_expect_eq(shape[1], 1);
    cr_expect_eq(sn_graph_status(g), SN_OK, "%s", sn_error(ctx));
    end(g);
}

/* Every fourth start and stop, two axes at once, run. */
Test(slices, have_numpys_elements) {
    static const int64_t steps[] = {2, -1, -2};
    enum { MOST = 64 };
    struct {
        int64_t start, stop, step;
    } cases[MOST];
    unsigned n = 0;
    sn_graph *g = begin();
    sn_node x = sn_input(g, "x", SN_I32, SN_LIST(3, SIZE));
    for (int a = 0; a < N_POSITIONS; a++)
        for (int b = 0; b < N_POSITIONS; b++)
            for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
                int64_t start = positions[a], stop = positions[b], first;
                if (!indices(&first, SIZE, start, stop, steps[s]) || n == MOST || (a + b) % 3) continue;
                char name[16];
                snprintf(name, sizeof name, "y%u", n);
                sn_node y = sn_slices(g, x, 2, (int64_t[]){-1, 0}, (int64_t[]){start, 2}, (int64_t[]){stop, INT64_MIN},
                                      (int64_t[]){steps[s], -2});
                sn_output(g, name, y);
                cases[n].start = start, cases[n].stop = stop, cases[n++].step = steps[s];
            }
    cr_assert_gt(n, 20);
    sn_program *p;
    sn_tensor *in, *out[MOST];
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu"};
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    int32_t data[3 * SIZE], got[3 * SIZE];
    for (int k = 0; k < 3 * SIZE; k++) data[k] = k;
    cr_assert_eq(sn_tensor_for_input(&in, p, 0), SN_OK);
    for (unsigned k = 0; k < n; k++) cr_assert_eq(sn_tensor_for_output(&out[k], p, k), SN_OK);
    cr_assert_eq(sn_tensor_write(in, data, sizeof data), SN_OK);
    cr_assert_eq(sn_run(p, &in, out, NULL), SN_OK, "%s", sn_error(ctx));
    for (unsigned k = 0; k < n; k++) {
        int64_t first, count = indices(&first, SIZE, cases[k].start, cases[k].stop, cases[k].step);
        cr_assert_eq(sn_tensor_read(got, out[k], (size_t)count * 2 * sizeof *got), SN_OK, "%s", sn_error(ctx));
        for (int64_t i = 0; i < 2 * count; i++)
            cr_expect_eq(got[i], SIZE * (i < count ? 2 : 0) + first + i % count * cases[k].step);
        sn_tensor_destroy(out[k]);
    }
    sn_tensor_destroy(in);
    sn_program_destroy(p);
    end(g);
}

Test(slices, of_an_axis_whose_size_is_a_name) {
    sn_graph *g = begin();
    int64_t n = sn_dim(g, "N");
    sn_node x = sn_input(g, "x", SN_F32, 1, &n);
    sn_output(g, "y", sn_slice(g, x, 0, -2, INT64_MIN, -1)); /* all but the last one, backwards */
    sn_output(g, "z", sn_slices(g, x, 1, NULL, (int64_t[]){3}, (int64_t[]){0}, (int64_t[]){-2})); /* 3, 1 */
    sn_program *p;
    sn_tensor *in, *out[2];
    sn_dim_binding dim = {"N", 6};
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .dims = &dim, .n_dims = 1};
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    float data[6] = {0, 1, 2, 3, 4, 5}, y[5], z[2];
    cr_assert_eq(sn_tensor_for_input(&in, p, 0), SN_OK);
    for (unsigned k = 0; k < 2; k++) cr_assert_eq(sn_tensor_for_output(&out[k], p, k), SN_OK);
    sn_tensor_write(in, data, sizeof data);
    cr_assert_eq(sn_run(p, &in, out, NULL), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_tensor_read(y, out[0], sizeof y), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_tensor_read(z, out[1], sizeof z), SN_OK, "%s", sn_error(ctx));
    for (int k = 0; k < 5; k++) cr_expect_eq(y[k], 4 - k);
    cr_expect(z[0] == 3 && z[1] == 1);
    sn_tensor_destroy(in);
    for (unsigned k = 0; k < 2; k++) sn_tensor_destroy(out[k]);
    sn_program_destroy(p);
    end(g);
}

Test(slices, say_what_is_wrong) {
    static const struct {
        unsigned n;
        int64_t axes[2], steps[2];
        const char *message;
    } cases[] = {
        {2, {1, -1}, {1, 1}, "slice: axis 1 is listed twice"},
        {1, {2}, {1}, "slice: axis 2 is not in -2 .. 1"},
        {1, {0}, {0}, "slice: step is 0"},
        {9, {0}, {1}, "slice: starts has 9 numbers; at most 8 axes"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        sn_graph *g = begin();
        static const int64_t zeros[9];
        sn_node x = sn_input(g, "x", SN_F32, SN_LIST(3, SIZE));
        cr_expect_eq(sn_slices(g, x, cases[k].n, cases[k].axes, zeros, zeros, cases[k].steps).id, 0);
        cr_expect(strstr(sn_error(ctx), cases[k].message), "%s", sn_error(ctx));
        end(g);
    }
}

Test(slices, squeeze_without_axes_drops_all_of_size_1) {
    sn_graph *g = begin();
    int64_t sizes[] = {1, 3, 1, sn_dim(g, "N"), 1}, shape[8];
    sn_node x = sn_squeeze(g, sn_input(g, "x", SN_F32, 5, sizes), 0, NULL);
    cr_expect_eq(sn_node_rank(g, x), 2);
    sn_node_shape(shape, g, x);
    cr_expect(shape[0] == 3 && shape[1] == sizes[3]);
    cr_expect_eq(sn_node_rank(g, sn_squeeze(g, x, 0, NULL)), 2);
    cr_expect_eq(sn_node_rank(g, sn_squeeze(g, sn_input(g, "y", SN_F32, SN_LIST(1, 1)), 0, NULL)), 0);
    end(g);
}
