/* test_conv.c: convolutions without zeros between elements of the image (passes/graph/decompose_conv.c) against
 * those with them, and gradients of convolutions and transposed ones (ir/graph/conv.h) against what defines them:
 * with y = conv(x, w), every dy has <dy, y> = <dx, x> = <dw, w>. Integers, so without any rounding; for all kinds of
 * geometry.
 */
#include <criterion/criterion.h>

#include "ir/graph/build.h"
#include "ir/graph/conv.h"
#include "ir/index/ix.h"
#include "ir/module.h"
#include "passes/runner.h"
#include "tools/random.h"

static sn_env env;

typedef struct trial {
    sn_module *m;
    uint64_t state;
    sn_conv_geometry g;
    sn_type x, w; /* sizes are numbers */
    int64_t x_size[SN_CONV_AXES], w_size[SN_CONV_AXES];
} trial;

static sn_ix number(trial *t, int64_t n) { return sn_ix_const(t->m, n); }

static void draw_geometry(trial *t) {
    uint64_t *s = &t->state;
    sn_conv_geometry *g = &t->g;
    int64_t outs = 1 + random_below(s, 3), ins = 1 + random_below(s, 3);
    *g = sn_conv_plain(1 + (uint32_t)random_below(s, SN_CONV_AXES));
    g->groups = 1 + random_below(s, 3);
    t->x = t->w = (sn_type){.dtype = SN_I64, .rank = g->n + 2};
    t->x.shape[0] = number(t, 1 + random_below(s, 3));
    t->x.shape[1] = number(t, g->groups * ins);
    t->w.shape[0] = number(t, g->groups * outs);
    t->w.shape[1] = number(t, ins);
    for (uint32_t k = 0; k < g->n; k++) {
        g->stride[k] = 1 + random_below(s, 4);
        g->dilation[k] = 1 + random_below(s, 3);
        g->input_dilation[k] = 1 + random_below(s, 3);
        g->low[k] = random_below(s, 6) - 2;
        g->high[k] = random_below(s, 6) - 2;
        t->w_size[k] = 1 + random_below(s, 4);
        int64_t span = (t->w_size[k] - 1) * g->dilation[k] + 1 - g->low[k] - g->high[k];
        t->x_size[k] = 1 + random_below(s, 6);
        while ((t->x_size[k] - 1) * g->input_dilation[k] + 1 < span) t->x_size[k]++;
        t->x.shape[2 + k] = number(t, t->x_size[k]);
        t->w.shape[2 + k] = number(t, t->w_size[k]);
    }
}

/* The elements of x, drawn. */
static sn_nd drawn(trial *t, const sn_type *type) {
    int64_t shape[SN_MAX_RANK], n = 1;
    for (uint32_t k = 0; k < type->rank; k++) sn_ix_is_const(t->m, type->shape[k], &shape[k]), n *= shape[k];
    int64_t *at = SN_NEWN(&t->m->arena, int64_t, n);
    for (int64_t i = 0; i < n; i++) at[i] = random_below(&t->state, 19) - 9;
    return sn_graph_ints(t->m, SN_I64, at, shape, type->rank);
}

static sn_nd inner_product(trial *t, sn_nd x, sn_nd y) {
    int64_t axes[] = {0, 1, 2, 3, 4};
    return sn_graph_reduce(t->m, SN_OP_SUM, sn_graph_mul(t->m, x, y), axes, t->g.n + 2, false);
}

static void check_gradients(uint64_t seed) {
    sn_env_init(&env);
    trial t = {.m = sn_module_new(&env), .state = seed};
    sn_arena arena;
    sn_array out[3];
    sn_arena_init(&arena, &env);
    sn_graph_init(t.m, "g");
    draw_geometry(&t);
    sn_nd x = drawn(&t, &t.x), w = drawn(&t, &t.w), y = sn_graph_conv(t.m, x, w, &t.g, (sn_conv_more){0});
    cr_assert_eq(env.status, SN_OK, "%s", env.message);
    sn_type of_y = *sn_graph_type(t.m, y);
    sn_nd dy = drawn(&t, &of_y);
    sn_nd dx = sn_graph_conv_data_grad(t.m, dy, w, t.x.shape + 2, &t.g, (sn_conv_more){0});
    sn_nd dw = sn_graph_conv_weight_grad(t.m, x, dy, t.w_size, &t.g, (sn_conv_more){0});
    sn_graph_output_new(t.m, "by_y", inner_product(&t, dy, y), -1);
    sn_graph_output_new(t.m, "by_x", inner_product(&t, dx, x), -1);
    sn_graph_output_new(t.m, "by_w", inner_product(&t, dw, w), -1);
    cr_assert_eq(env.status, SN_OK, "%s", env.message);
    cr_assert_eq(sn_graph_eval(out, t.m, NULL, &arena), SN_OK, "%s", env.message);
    cr_expect_eq(out[0].i[0], out[1].i[0], "seed %d: the data gradient", (int)seed);
    cr_expect_eq(out[0].i[0], out[2].i[0], "seed %d: the weight gradient", (int)seed);
    sn_arena_free(&arena);
    sn_module_free(t.m);
}

Test(conv, gradients_are_the_transposed_maps) {
    for (uint64_t seed = 1; seed <= 300; seed++) check_gradients(seed);
}

/* What is made of geometry is read back from the node's attributes. */
Test(conv, geometry_survives_attributes) {
    sn_env_init(&env);
    for (uint64_t seed = 1; seed <= 100; seed++) {
        trial t = {.m = sn_module_new(&env), .state = seed};
        draw_geometry(&t);
        sn_nd y = sn_graph_conv(t.m, drawn(&t, &t.x), drawn(&t, &t.w), &t.g, (sn_conv_more){0});
        sn_conv_geometry g = sn_node_conv(t.m, y);
        cr_expect(g.n == t.g.n && g.groups == t.g.groups);
        for (uint32_t k = 0; k < g.n; k++)
            cr_expect(g.stride[k] == t.g.stride[k] && g.dilation[k] == t.g.dilation[k] && g.low[k] == t.g.low[k] &&
                      g.high[k] == t.g.high[k] && g.input_dilation[k] == t.g.input_dilation[k]);
        sn_module_free(t.m);
    }
}

/* Every geometry with zeros between elements means the same without. */
static void check_phases(uint64_t seed) {
    sn_env_init(&env);
    trial t = {.m = sn_module_new(&env), .state = seed};
    sn_target target = {.name = "host", .units = 1};
    sn_pass_options options = {.pipeline = "decompose,simplify", .verify = SN_VERIFY_EACH};
    sn_arena arena;
    sn_array before, after;
    sn_arena_init(&arena, &env);
    sn_graph_init(t.m, "g");
    draw_geometry(&t);
    t.g.input_dilation[random_below(&t.state, t.g.n)] += 1 + random_below(&t.state, 2);
    sn_nd y = sn_graph_conv(t.m, drawn(&t, &t.x), drawn(&t, &t.w), &t.g, (sn_conv_more){0});
    sn_graph_output_new(t.m, "y", y, -1);
    cr_assert_eq(sn_graph_eval(&before, t.m, NULL, &arena), SN_OK, "%s", env.message);
    cr_assert_eq(sn_passes_run(&t.m, &target, &options), SN_OK, "%s", env.message);
    cr_assert_eq(sn_graph_eval(&after, t.m, NULL, &arena), SN_OK, "%s", env.message);
    cr_assert_eq(before.numel, after.numel, "seed %d", (int)seed);
    for (int64_t i = 0; i < before.numel; i++)
        cr_assert_eq(before.i[i], after.i[i], "seed %d: element %d", (int)seed, (int)i);
    for (sn_nd x = {1}; x.i < t.m->graph.nodes.count; x.i++)
        if (sn_node_get(t.m, x)->op == SN_OP_CONV)
            for (uint32_t k = 0; k < t.g.n; k++) cr_expect_eq(sn_node_conv(t.m, x).input_dilation[k], 1);
    sn_arena_free(&arena);
    sn_module_free(t.m);
}

Test(conv, phases_mean_the_same) {
    for (uint64_t seed = 1; seed <= 500; seed++) check_phases(seed);
}
