/* test_choose.c: products as small graphs, and decisions that the pass `choose` is given. */
#include <criterion/criterion.h>
#include <string.h>

#include "backend-nvptx/ptx.h"
#include "passes/graph/choices.h"
#include "passes/runner.h"

static sn_env env;
static sn_arena arena;
static sn_target target;

static void setup(void) {
    sn_env_init(&env);
    sn_arena_init(&arena, &env);
    cr_assert_eq(sn_target_named(&target, &env, "sm_90"), SN_OK);
}

static void teardown(void) {
    sn_arena_free(&arena);
    cr_assert_eq(env.bytes_now, 0);
}

TestSuite(choose, .init = setup, .fini = teardown);

static sn_module *parse(const char *text) {
    sn_module *m = sn_module_new(&env);
    cr_assert_eq(sn_module_parse(m, "test", text, strlen(text)), SN_OK, "%s", env.message);
    return m;
}

/* The text of the only product. */
static const char *key_of(const char *text) {
    sn_module *m = parse(text);
    sn_nd_list products = {0};
    const char *key;
    sn_product_list(&products, m, &arena);
    cr_assert_eq(products.n, 1);
    cr_assert_eq(sn_product_key(&key, m, products.at[0], &arena), SN_OK, "%s", env.message);
    sn_module_free(m);
    return key;
}

static const char LINEAR[] =
    "graph @model(%x: f32[4, 64], %w: f32[8, 64], %bias: f32[8], %rest: f32[4, 8]) {\n"
    "  %h = exp %x\n  %t = permute %w perm=[1, 0]\n  %c = matmul %h, %t\n  %d = add %c, %bias\n  %e = tanh %d\n"
    "  %f = sum %e axes=[1]\n  %g = mul %e, %rest\n  return f = %f, g = %g }";

Test(choose, product_as_small_graph) {
    const char *key = key_of(LINEAR);
    cr_assert_str_eq(key, "graph @product(%i0: f32[4, 64], %i1: f32[8, 64], %i2: f32[8], %i3: f32[4, 8]) {\n"
                          "  %0 = permute %i1 perm=[1, 0] : f32[64, 8]\n"
                          "  %1 = matmul %i0, %0 : f32[4, 8]\n"
                          "  %2 = add %1, %i2 : f32[4, 8]\n"
                          "  %3 = tanh %2 : f32[4, 8]\n"
                          "  %4 = mul %3, %i3 : f32[4, 8]\n"
                          "  return o0 = %3, o1 = %4\n"
                          "}\n");
    cr_assert_str_eq(key_of(key), key, "the small graph of a small graph is itself");
}

/* A cast that somebody else has made does not come along: what is computed, and weights, become narrower before. Those of an input
 * and of another product's result do, and one that widens. */
Test(choose, casts_of_a_small_graph) {
    cr_assert_str_eq(key_of("graph @model(%x: f32[64, 64]) {\n  %w = weight dtype=f32 name=\"w\" shape=[64, 8]\n"
                            "  %h = exp %x\n  %n = cast %h dtype=bf16\n  %v = cast %w dtype=bf16\n"
                            "  %c = matmul %n, %v\n  return c = %c }"),
                     "graph @product(%i0: bf16[64, 64], %i1: bf16[64, 8]) {\n"
                     "  %0 = matmul %i0, %i1 : bf16[64, 8]\n  return o0 = %0\n}\n");
    cr_assert_str_eq(key_of("graph @model(%x: f32[64, 64], %y: f16[64, 8]) {\n  %n = cast %x dtype=f16\n"
                            "  %h = exp %y\n  %v = cast %h dtype=f32\n  %u = cast %n dtype=f32\n"
                            "  %c = matmul %u, %v\n  return c = %c }"),
                     "graph @product(%i0: f32[64, 64], %i1: f16[64, 8]) {\n"
                     "  %0 = cast %i0 dtype=f16 : f16[64, 64]\n  %1 = cast %0 dtype=f32 : f32[64, 64]\n"
                     "  %2 = cast %i1 dtype=f32 : f32[64, 8]\n"
                     "  %3 = matmul %1, %2 : f32[64, 8]\n  return o0 = %3\n}\n");
    cr_assert(strstr(key_of("graph @model(%x: f32[64, 64], %w: bf16[64, 8]) {\n  %s = sum %x axes=[1]\n"
                            "  %r = reshape %s shape=[1, 64]\n  %n = cast %r dtype=bf16\n"
                            "  %c = matmul %n, %w\n  return c = %c }"),
                     "cast %"));
}

/* What is made of the product by way of something else, such as the mean of its rows, does not run with it. */
Test(choose, behind_a_small_graph) {
    cr_assert_str_eq(
        key_of("graph @model(%x: f32[64, 64], %w: f32[64, 8], %b: f32[8]) {\n  %c = matmul %x, %w\n"
               "  %d = add %c, %b\n  %m = mean %d axes=[1]\n  %k = reshape %m shape=[64, 1]\n  %e = sub %d, %k\n"
               "  %f = mul %e, %e\n  %g = neg %d\n  return f = %f, g = %g }"),
        "graph @product(%i0: f32[64, 64], %i1: f32[64, 8], %i2: f32[8]) {\n"
        "  %0 = matmul %i0, %i1 : f32[64, 8]\n  %1 = add %0, %i2 : f32[64, 8]\n"
        "  %2 = neg %1 : f32[64, 8]\n  return o0 = %1, o1 = %2\n}\n");
}

/* Views behind it belong to it, for they say where its result lies; what is read twice ends it. */
Test(choose, convolution_as_small_graph) {
    sn_module *m = parse("graph @model(%x: f32[2, 3, 8, 8], %dy: f32[2, 5, 8, 8], %rest: f32[5, 3, 3, 3]) {\n"
                         "  %h = exp %x\n  %a = permute %h perm=[1, 0, 2, 3]\n  %b = permute %dy perm=[1, 0, 2, 3]\n"
                         "  %c = conv %a, %b padding=[1, 1]\n  %d = permute %c perm=[1, 0, 2, 3]\n"
                         "  %e = relu %d\n  %f = add %e, %rest\n  %g = sum %f axes=[0]\n  return g = %g }");
    static const char want[] =
        "graph @convolution(%i0: f32[2, 3, 8, 8], %i1: f32[2, 5, 8, 8], %i2: f32[5, 3, 3, 3]) {\n"
        "  %0 = permute %i0 perm=[1, 0, 2, 3] : f32[3, 2, 8, 8]\n"
        "  %1 = permute %i1 perm=[1, 0, 2, 3] : f32[5, 2, 8, 8]\n"
        "  %2 = conv %0, %1 padding=[1, 1] : f32[3, 5, 3, 3]\n"
        "  %3 = permute %2 perm=[1, 0, 2, 3] : f32[5, 3, 3, 3]\n"
        "  %4 = relu %3 : f32[5, 3, 3, 3]\n"
        "  %5 = add %4, %i2 : f32[5, 3, 3, 3]\n"
        "  return o0 = %5\n"
        "}\n";
    for (int again = 0; again < 2; again++) {
        sn_nd_list convs = {0};
        const char *key;
        sn_convolution_list(&convs, m, &arena);
        cr_assert_eq(convs.n, 1);
        cr_assert_eq(sn_product_key(&key, m, convs.at[0], &arena), SN_OK, "%s", env.message);
        cr_assert_str_eq(key, want, "%s", again ? "the small graph of a small graph is itself" : "the small graph");
        sn_module_free(m);
        m = parse(key);
    }
    sn_module_free(m);
}

/* Names, what the inputs are made of and what reads the results make no difference; layouts do, and so does what fuses. */
Test(choose, equal_products_have_equal_keys) {
    const char *plain = key_of("graph @a(%x: f32[4, 8], %y: f32[8, 4]) { %z = matmul %x, %y return z = %z }");
    cr_assert_str_eq(key_of("graph @b(%u: f32[4, 8], %v: f32[8, 4]) { %q = neg %v %r = matmul %u, %q "
                            "%s = sum %r axes=[0] return s = %s }"),
                     plain);
    cr_assert_str_neq(key_of("graph @a(%x: f32[4, 8] strides [16, 1], %y: f32[8, 4]) { %z = matmul %x, %y "
                             "return z = %z }"),
                      plain);
    cr_assert_str_neq(key_of("graph @a(%x: f32[4, 8], %y: f32[4, 8]) { %t = permute %y perm=[1, 0] "
                             "%z = matmul %x, %t return z = %z }"),
                      plain);
    cr_assert_str_neq(key_of("graph @a(%x: f32[4, 8], %y: f32[8, 4]) { %z = matmul %x, %y %e = exp %z return e = %e }"),
                      plain);
}

/* The graph after the pass, with one decision. */
static sn_status choose(char **out, const char *text, const char *key, const char *choice) {
    sn_module *m = parse(text);
    sn_decision decision = {key, choice};
    sn_pass_options o = {.pipeline = "choose", .verify = SN_VERIFY_PARANOID, .choosing = {.at = &decision, .n = 1}};
    sn_status status = sn_passes_run(&m, &target, &o);
    sn_text t;
    sn_text_init(&t, &env);
    sn_module_print(&t, m);
    *out = sn_strdup(&arena, t.s);
    sn_text_free(&t);
    sn_module_free(m);
    return status;
}

Test(choose, decision_is_applied_to_its_product_alone) {
    char *text;
    const char *key = key_of(LINEAR);
    cr_assert_eq(choose(&text, LINEAR, key, "schedule inner block_x=64"), SN_OK, "%s", env.message);
    cr_assert(strstr(text, "%c = matmul %h, %t schedule=\"inner block_x=64\" : f32[4, 8]"), "%s", text);
    cr_assert_eq(choose(&text, LINEAR, key, "transposed"), SN_OK, "%s", env.message);
    cr_assert(strstr(text, "%c = permute"), "%s", text);
    cr_assert_eq(choose(&text, LINEAR, "another product", "transposed"), SN_OK);
    cr_assert(strstr(text, "%c = matmul %h, %t : f32[4, 8]"), "%s", text);
}

/* Weights are padded once, when a program is loaded. Trials of the product alone would pad them in each run: no decision counts. */
Test(choose, padded_weights_are_settled) {
    static const char model[] =
        "graph @model(%x: bf16[512, 4104]) {\n  %w = weight dtype=bf16 name=\"w\" shape=[4104, 4104]\n"
        "  %c = matmul %x, %w\n  return c = %c }";
    char *text;
    cr_assert_eq(sn_target_named(&target, &env, "sm_90a"), SN_OK);
    cr_assert_eq(choose(&text, model, key_of(model), "schedule inner block_x=64"), SN_OK, "%s", env.message);
    cr_assert(strstr(text, "pad %w") && !strstr(text, "schedule="), "%s", text);
    sn_module *m = parse(model);
    cr_assert(sn_choice_is_settled(m, &target, NULL, NULL, m->graph.outputs.at[0].node, &arena));
    cr_assert(!sn_choice_is_settled(m, &target, NULL, "plain", m->graph.outputs.at[0].node, &arena));
    sn_module_free(m);
}

Test(choose, decisions_that_make_no_sense) {
    static const char *const cases[][2] = {
        {"fastest", "choose: 'fastest' is no choice for a product"},
        {"decompose_k parts=7", "choose: decompose_k: 'parts=7': parts=N is wanted, where N divides K = 64"},
        {"decompose_k", "choose: decompose_k: '': parts=N is wanted, where N divides K = 64"},
        {"decompose_k parts=8x", "choose: decompose_k: 'parts=8x': parts=N is wanted, where N divides K = 64"},
        {"flattened", "choose: flattened: its matrices do not share their right operand"},
        {"schedule nobody", "choose: matmul: schedule:1:1: unknown schedule class 'nobody'"},
    };
    const char *key = key_of(LINEAR);
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        char *text;
        cr_assert_neq(choose(&text, LINEAR, key, cases[k][0]), SN_OK, "%s", cases[k][0]);
        cr_assert_str_eq(env.message, cases[k][1]);
        sn_env_clear(&env);
    }
}
