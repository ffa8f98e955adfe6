/* test_graph_known.c: elements of integer tensors as expressions over sizes: the shape arithmetic of exported models, each
 * operation that sizes pass through, and what is said of those that they do not. Where sizes are bound, the evaluator must
 * agree.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ir/base/text.h"
#include "ir/module.h"

static sn_env env;
static sn_module *m;

static void setup(void) {
    sn_env_init(&env);
    m = NULL;
}

static void teardown(void) {
    sn_module_free(m);
    cr_expect_eq(env.bytes_now, 0);
}

TestSuite(graph_known, .init = setup, .fini = teardown);

/* What the cases may use. */
#define SOURCES                                                                                    \
    "graph @g(%x: f32[N, 3, H, 16], %ids: i64[4]) {\n"                                             \
    "  %s = sizes elements=[N, 3, H, 16]\n"                                                        \
    "  %p = sizes elements=[N, N + 2, 5 - N]\n"                                                    \
    "  %c = constant values=[1, 2, 3, 4] dtype=i64 shape=[4]\n"                                    \
    "  %zero = constant values=[0] dtype=i64 shape=[1]\n"                                          \
    "  %one = constant values=[1] dtype=i64 shape=[1]\n"                                           \
    "  %minus = constant values=[-1] dtype=i64 shape=[1]\n"                                        \
    "  %pick = constant values=[-1, 0] dtype=i64 shape=[2]\n"                                      \
    "  %yes = constant values=[1, 0, 0, 1] dtype=bool shape=[4]\n"                                 \
    "  %w = weight name=\"w\" dtype=i64 shape=[2]\n"

/* The graph of the sources, statements and an output %r. */
static sn_nd parse(const char *statements) {
    char text[4096];
    snprintf(text, sizeof text, "%s%s\n  return r = %%r\n}\n", SOURCES, statements);
    sn_module_free(m);
    m = sn_module_new(&env);
    cr_assert_eq(sn_module_parse(m, "t.sn", text, strlen(text)), SN_OK, "%s\nin %s", env.message, statements);
    static const int64_t weight[] = {7, -2};
    sn_wt_get(m, sn_wt_named(m, "w"))->data = weight;
    return m->graph.outputs.at[0].node;
}

/* "N 3 H 16" */
static const char *print(const sn_ix *at, int64_t n) {
    static char out[2048];
    sn_text t;
    sn_text_init(&t, &env);
    for (int64_t i = 0; i < n; i++) {
        if (i) sn_text_put(&t, ", ");
        sn_ix_print(&t, m, at[i], NULL, NULL);
    }
    snprintf(out, sizeof out, "%s", t.s ? t.s : "");
    sn_text_free(&t);
    return out;
}

typedef struct known_case {
    const char *statements, *want;
} known_case;

static const known_case CASES[] = {
    {"%r = cast %s dtype=i64", "N, 3, H, 16"},
    {"%r = cast %c dtype=i32", "1, 2, 3, 4"},
    {"%r = cast %w dtype=i64", "7, -2"},
    {"%r = full value=5 dtype=i32 shape=[2]", "5, 5"},
    {"%r = iota axis=0 dtype=i64 shape=[3]", "0, 1, 2"},
    /* moves */
    {"%r = reshape %s shape=[2, 2]", "N, 3, H, 16"},
    {"%a = reshape %s shape=[2, 2] %r = permute %a perm=[1, 0]", "N, H, 3, 16"},
    {"%r = flip %s axes=[0]", "16, H, 3, N"},
    {"%r = slice %s axis=0 start=1 stop=-1", "3, H"},
    {"%r = slice %s axis=0 start=0 stop=4 step=2", "N, H"},
    {"%a = index_select %s, %zero axis=0 %r = expand %a shape=[3]", "N, N, N"},
    {"%r = gather %s, %pick axis=0", "16, N"},
    {"%r = index_select %s, %pick axis=0", "16, N"},
    {"%r = concat %s, %c axis=0", "N, 3, H, 16, 1, 2, 3, 4"},
    {"%r = concat %s, %s, %one axis=0", "N, 3, H, 16, N, 3, H, 16, 1"},
    {"%r = where %yes, %s, %c", "N, 2, 3, 16"},
    {"%r = where %yes, %c, 9", "1, 9, 9, 4"},
    /* arithmetic */
    {"%r = add %s, %c", "N + 1, 5, H + 3, 20"},
    {"%r = sub %s, 1", "N - 1, 2, H - 1, 15"},
    {"%r = mul %s, %s", "N*N, 9, H*H, 256"},
    {"%r = mul %s, 2", "2*N, 6, 2*H, 32"},
    {"%r = neg %s", "-N, -3, -H, -16"},
    {"%r = abs %s", "N, 3, H, 16"},
    {"%r = div %s, 2", "(N div 2), 1, (H div 2), 8"},
    {"%r = floordiv %p, 2", "(N div 2), (N div 2) + 1, ((1 - N) div 2) + 2"},
    {"%r = rem %s, 2", "(N mod 2), 1, (H mod 2), 0"},
    {"%r = div %s, 0", "0, 0, 0, 0"},
    {"%r = maximum %s, 4", "max(N, 4), 4, max(H, 4), 16"},
    {"%r = minimum %s, 4", "min(N, 4), 3, min(H, 4), 4"},
    {"%a = cast %s dtype=i32 %r = mul %a, %a", "N*N, 9, H*H, 256"},
    {"%r = prod %s axes=[0]", "48*H*N"},
    {"%r = sum %s axes=[0] keepdim=true", "H + N + 19"},
    {"%r = amax %p axes=[0]", "max(N + 2, 5 - N)"},
    {"%a = slice %c axis=0 start=0 stop=0 %r = prod %a axes=[0]", "1"},
    /* comparisons that sizes decide */
    {"%a = add %p, 1 %b = slice %a axis=0 start=0 stop=2 %r = eq %b, 0", "0, 0"},
    {"%a = sub %s, %s %r = eq %a, 0", "1, 1, 1, 1"},
    {"%r = ge %s, 0", "1, 1, 1, 1"},
    {"%r = lt %s, 0", "0, 0, 0, 0"},
    {"%r = ne %s, -1", "1, 1, 1, 1"},
    {"%a = eq %s, -1 %r = where %a, %c, %s", "N, 3, H, 16"},
    /* what has no symbols passes through floats: a factor of the size */
    {"%a = slice %s axis=0 start=3 stop=4 %f = cast %a dtype=f32 %g = mul %f, 1.5 %h = floor %g %r = cast %h dtype=i64",
     "24"},
    {"%a = prod %c axes=[0] %b = cast %a dtype=f32 %d = sqrt %b %r = cast %d dtype=i64", "4"},
};

static void expect_known(const known_case *c) {
    sn_ix out[SN_KNOWN_MAX];
    sn_nd r = parse(c->statements);
    sn_status status = sn_graph_known_sizes(out, m, r, NULL, 0);
    cr_expect_eq(status, SN_OK, "%s: %s", c->statements, env.message);
    if (status != SN_OK) return sn_env_clear(&env);
    int64_t n = sn_ix_value(m, sn_type_numel(m, &sn_node_get(m, r)->type));
    cr_expect_str_eq(print(out, n), c->want, "%s: %s", c->statements, print(out, n));
}

Test(graph_known, elements_as_expressions) {
    for (size_t i = 0; i < SN_COUNT(CASES); i++) expect_known(&CASES[i]);
}

static int64_t look_up(void *user, sn_ix_kind kind, uint32_t id) {
    (void)kind;
    return strcmp(sn_sym_get(user, (sn_sym){id})->name, "N") ? 5 : 7;
}

/* With N = 7 and H = 5 the expressions have the values that the evaluator finds. */
Test(graph_known, evaluator_agrees) {
    for (size_t c = 0; c < SN_COUNT(CASES); c++) {
        sn_ix known[SN_KNOWN_MAX];
        sn_array inputs[2] = {{.dtype = SN_F32, .rank = 4, .shape = {7, 3, 5, 16}, .numel = 7 * 3 * 5 * 16},
                              {.dtype = SN_I64, .rank = 1, .shape = {4}, .numel = 4}};
        sn_array out;
        sn_arena arena;
        sn_arena_init(&arena, &env);
        sn_nd r = parse(CASES[c].statements);
        cr_assert_eq(sn_graph_known_sizes(known, m, r, NULL, 0), SN_OK, "%s", env.message);
        sn_module *bound = sn_module_new(&env);
        cr_assert_eq(sn_graph_copy(bound, m, (const char *[]){"N", "H"}, (int64_t[]){7, 5}, 2), SN_OK);
        inputs[0].f = SN_NEWN(&arena, double, inputs[0].numel);
        inputs[1].i = SN_NEWN(&arena, int64_t, 4);
        cr_assert_eq(sn_graph_eval(&out, bound, inputs, &arena), SN_OK, "%s", env.message);
        for (int64_t i = 0; i < out.numel; i++)
            cr_expect_eq(sn_ix_eval(m, known[i], look_up, m), out.i[i], "%s: element %lld", CASES[c].statements,
                         (long long)i);
        sn_arena_free(&arena);
        sn_module_free(bound);
    }
}

/* x.reshape(x.shape[0], -1) and x.view(N, C, H*W) as exporters write them. */
Test(graph_known, shapes_of_exported_models) {
    static const known_case models[] = {
        {"%n = index_select %s, %zero axis=0\n  %t = concat %n, %minus axis=0\n  %r = cast %t dtype=i64", "N, -1"},
        {"%i = constant values=[0] dtype=i64 shape=[]\n  %n = index_select %s, %i axis=0\n"
         "  %u = unsqueeze %n axes=[0]\n  %r = concat %u, %minus axis=0",
         "N, -1"},
        {"%i = constant values=[2] dtype=i64 shape=[]\n  %j = constant values=[3] dtype=i64 shape=[]\n"
         "  %h = index_select %s, %i axis=0\n  %v = index_select %s, %j axis=0\n  %hv = mul %h, %v\n"
         "  %u = unsqueeze %hv axes=[0]\n  %nc = slice %s axis=0 start=0 stop=2\n  %r = concat %nc, %u axis=0",
         "N, 3, 16*H"},
        /* expand: where(equal(target, -1), shape, target) */
        {"%t = concat %minus, %one, %minus, %one axis=0\n  %any = eq %t, -1\n  %ones = full value=1 dtype=i64 shape=[4]\n"
         "  %r = where %any, %s, %ones",
         "N, 1, H, 1"},
    };
    for (size_t i = 0; i < SN_COUNT(models); i++) expect_known(&models[i]);
}

/* The reshape that follows takes them as they are. */
Test(graph_known, a_reshape_takes_them) {
    sn_ix shape[SN_KNOWN_MAX];
    sn_nd r = parse("%n = index_select %s, %zero axis=0 %r = concat %n, %minus axis=0");
    cr_assert_eq(sn_graph_known_sizes(shape, m, r, NULL, 0), SN_OK, "%s", env.message);
    sn_nd y = sn_graph_reshape(m, m->graph.inputs.at[0].node, shape, 2);
    cr_assert_neq(y.i, 0, "%s", env.message);
    cr_expect_str_eq(print(sn_node_get(m, y)->type.shape, 2), "N, 48*H");
}

/* The value of an input that the caller has. */
Test(graph_known, numbers_that_are_given) {
    int64_t values[] = {4, 3, 2, 1};
    sn_array ids = {.dtype = SN_I64, .rank = 1, .shape = {4}, .numel = 4, .i = values}, *numbers[64] = {0};
    sn_ix out[SN_KNOWN_MAX];
    sn_nd r = parse("%r = mul %ids, %s");
    numbers[m->graph.inputs.at[1].node.i] = &ids;
    cr_assert_eq(sn_graph_known_sizes(out, m, r, numbers, SN_COUNT(numbers)), SN_OK, "%s", env.message);
    cr_expect_str_eq(print(out, 4), "4*N, 9, 2*H, 16");
}

static const known_case UNKNOWN[] = {
    {"%a = add %ids, %s %r = slice %a axis=0 start=0 stop=1",
     "elements of i64[4] %ids (input) are not known when the graph is built: it is an input"},
    {"%r = iota axis=0 dtype=i64 shape=[N]",
     "elements of i64[N] %r (iota) are not known when the graph is built: their number depends on sizes"},
    {"%r = iota axis=0 dtype=i64 shape=[65]",
     "elements of i64[65] %r (iota) are not known when the graph is built: there are too many"},
    {"%r = cast %s dtype=f32",
     "elements of f32[4] %r (cast) are not known when the graph is built: they are not integers"},
    {"%a = cast %s dtype=f32 %r = cast %a dtype=i64",
     "f32[4] %a (cast) are not known when the graph is built: they depend on sizes in a way that sizes cannot say"},
    {"%r = eq %s, 1", "%r (eq) are not known when the graph is built: they depend on sizes in a way"},
    {"%r = div %p, 2", "%r (div) are not known when the graph is built: they depend on sizes in a way"},
    {"%r = floordiv %s, -2", "%r (floordiv) are not known when the graph is built: they depend on sizes in a way"},
    {"%r = cast %s dtype=i8", "%r (cast) are not known when the graph is built: they depend on sizes in a way"},
    {"%i = slice %s axis=0 start=0 stop=1 %r = gather %c, %i axis=0",
     "%r (gather) are not known when the graph is built: positions or a condition depend on sizes"},
    {"%r = cumsum %s axis=0",
     "%r (cumsum) are not known when the graph is built: sizes do not pass through this operation"},
    {"%big = constant values=[9] dtype=i64 shape=[1] %r = index_select %s, %big axis=0",
     "index_select: index 9 is outside an axis of 4 elements"},
    {"%b = constant values=[4611686018427387904] dtype=i64 shape=[1] %a = mul %s, %b %r = mul %a, 4",
     "index arithmetic overflows"},
};

Test(graph_known, what_is_not_known_is_named) {
    for (size_t i = 0; i < SN_COUNT(UNKNOWN); i++) {
        sn_ix out[SN_KNOWN_MAX];
        sn_nd r = parse(UNKNOWN[i].statements);
        cr_expect_neq(sn_graph_known_sizes(out, m, r, NULL, 0), SN_OK, "%s", UNKNOWN[i].statements);
        cr_expect(strstr(env.message, UNKNOWN[i].want), "%s: %s", UNKNOWN[i].statements, env.message);
        sn_env_clear(&env);
    }
}

Test(graph_known, weights_without_elements_are_named) {
    sn_ix out[SN_KNOWN_MAX];
    sn_nd r = parse("%r = add %w, 1");
    sn_wt_get(m, sn_wt_named(m, "w"))->data = NULL;
    cr_expect_eq(sn_graph_known_sizes(out, m, r, NULL, 0), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(env.message, "weight: w has no elements yet");
}

/* A chain as long as a model: each node once, without recursion. */
Test(graph_known, long_chains_cost_each_node_once) {
    enum { LENGTH = 20000 };
    sn_ix out[SN_KNOWN_MAX];
    m = sn_module_new(&env);
    sn_graph_init(m, "g");
    sn_ix n = sn_ix_sym(m, sn_sym_named(m, "N"));
    sn_nd x = sn_graph_sizes(m, &n, 1), y = x;
    for (int i = 0; i < LENGTH; i++) {
        sn_nd sum = sn_graph_binary(m, SN_OP_SUB, y, x); /* 0 and N in turn: two paths a node */
        y = sn_graph_binary(m, SN_OP_ADD, sum, sn_graph_binary(m, SN_OP_SUB, y, sum));
        y = sn_graph_binary(m, SN_OP_MAXIMUM, y, sn_graph_scalar(m, SN_I64, -1 - i));
    }
    cr_assert_eq(sn_graph_known_sizes(out, m, y, NULL, 0), SN_OK, "%s", env.message);
    cr_expect(sn_ix_eq(out[0], n));
}
