/* test_onnx_fused.c: what operators that stand for several refuse: attention, rotations, and those of onnxruntime's optimizer. What
 * they compute is in the cases of tests/onnx.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "include/sinter/sinter.h"
#include "ir/base/base.h"
#include "tests/unit/onnx_file.h"

TestSuite(onnx_fused, .timeout = 300);

enum { ATTRIBUTES = 3 };

typedef struct refusal {
    const char *op, *operands, *dims; /* of x, which operands name; "N" is a size that is not known */
    struct {
        const char *name;
        int64_t value;
    } attributes[ATTRIBUTES];
    const char *activation; /* NULL: none */
    const char *why;
} refusal;

/* The graph's last value is y. */
static void expect_refused(pb *g, const char *why) {
    sn_context *ctx;
    sn_graph *graph;
    put_value(g, GRAPH_OUTPUT, "y", F32, NULL);
    pb m = model_of(g, 26);
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    cr_expect_eq(sn_import_onnx_memory(&graph, ctx, "m.onnx", m.at, m.n, NULL, NULL), SN_ERROR_UNSUPPORTED);
    cr_expect(strstr(sn_error(ctx), why), "%s\n  instead of: %s", sn_error(ctx), why);
    sn_context_destroy(ctx);
}

static void check(const refusal *r, const char *domain) {
    pb g = {0}, n = node_of(r->op, r->operands, "y");
    for (int k = 0; k < ATTRIBUTES && r->attributes[k].name; k++)
        put_attr_int(&n, r->attributes[k].name, r->attributes[k].value);
    if (r->activation) {
        pb a = attr_of(strcmp(r->op, "TensorScatter") ? "activation" : "mode");
        put_text(&a, ATTR_S, r->activation);
        put_message(&n, NODE_ATTRIBUTE, &a);
    }
    put_text(&n, NODE_DOMAIN, domain);
    put_value(&g, GRAPH_INPUT, "x", F32, r->dims);
    put_value(&g, GRAPH_INPUT, "v", F32, "4");
    put_value(&g, GRAPH_INPUT, "k", F32, "3 3");
    put_value(&g, GRAPH_INPUT, "w", F32, "1 1 3 3");
    put_value(&g, GRAPH_INPUT, "cache", F32, "2 3 P 8");
    put_value(&g, GRAPH_INPUT, "packed", F32, "2 4 48");
    put_value(&g, GRAPH_INPUT, "past", F32, "2 3 5 8");
    put_value(&g, GRAPH_INPUT, "longer", F32, "2 3 6 8");
    put_value(&g, GRAPH_INPUT, "table", F32, "16 4");
    put_value(&g, GRAPH_INPUT, "empty", F32, "16 0");
    put_i64s(&g, "four", "", (int64_t[]){4}, 1);
    put_i64s(&g, "ids", "2", (int64_t[]){0, 1}, 2);
    put_message(&g, GRAPH_NODE, &n);
    expect_refused(&g, r->why);
}

Test(onnx_fused, of_onnx) {
    static const refusal cases[] = {
        {.op = "Attention",
         .operands = "x x x",
         .dims = "2 4 24",
         .why = "0 heads of an operand of shape f32[2, 4, 24]"},
        {"Attention", "x x x", "2 4 24", {{"q_num_heads", 5}, {"kv_num_heads", 3}}, NULL, "5 heads of an operand"},
        {"Attention",
         "x x x",
         "2 4 24",
         {{"q_num_heads", 3}, {"kv_num_heads", 2}},
         NULL,
         "3 heads of queries, 2 of keys"},
        {"Attention", "x x x", "2 3 4 8", {{"qk_matmul_output_mode", 4}}, NULL, "qk_matmul_output_mode 4"},
        {.op = "Attention",
         .operands = "x x x - x",
         .dims = "2 3 4 8",
         .why = "one of past_key and past_value is missing"},
        {.op = "Attention", .operands = "x x x", .dims = "2 3 4 N", .why = "the size of a head is not known"},
        {.op = "Attention", .operands = "x x x", .dims = "2 N 4 8", .why = "the number of heads is not known"},
        {.op = "RotaryEmbedding", .operands = "v v v", .dims = "1", .why = "an operand of rank 1"},
        {.op = "RotaryEmbedding", .operands = "x v v", .dims = "1 2 5", .why = "0 heads of 5"},
        {.op = "RotaryEmbedding", .operands = "x v v", .dims = "1 2 3 N", .why = "the size of a head is not known"},
        {.op = "RotaryEmbedding", .operands = "x v v", .dims = "1 2 3 6", .why = "6 elements turn, the tables have 8"},
        {.op = "RotaryEmbedding", .operands = "w x x", .dims = "1 N", .why = "the size of the last axis is not known"},
        {"TensorScatter", "x x", "2 3 4", {{"axis", 0}}, NULL, "mode linear along axis 0"},
        {.op = "TensorScatter",
         .operands = "x x",
         .dims = "2 3",
         .activation = "round",
         .why = "mode round along axis 0"},
    };
    for (size_t k = 0; k < SN_COUNT(cases); k++) check(&cases[k], "");
}

Test(onnx_fused, of_onnxruntime) {
    static const refusal cases[] = {
        {.op = "MultiHeadAttention",
         .operands = "x",
         .dims = "2 4 24",
         .why = "queries, keys and values in one operand"},
        {"MultiHeadAttention", "x x x - - - - - v", "2 4 24", {{"num_heads", 3}}, NULL, "operand 9 is not supported"},
        {"MultiHeadAttention", "x x x - v", "2 4 24", {{"num_heads", 3}}, NULL, "a mask of shape f32[4]"},
        {"MultiHeadAttention", "x x x - w", "2 4 24", {{"num_heads", 3}}, NULL, "a mask of shape f32[1, 1, 3, 3]"},
        {"Attention", "x k", "1 2 3", {{"do_rotary", 1}}, NULL, "do_rotary and past_present_share_buffer"},
        {"Attention", "x k - - - - v", "1 2 3", {{"num_heads", 1}}, NULL, "operand 7 is not supported"},
        {"Attention", "x k - - v", "1 2 3", {{"num_heads", 1}}, NULL, "past is no tensor of rank 5"},
        {"Attention", "x k", "3 3", {{"num_heads", 1}}, NULL, "an operand of rank 2"},
        {"RotaryEmbedding", "x ids v v", "1 2 3 8", {{"is_packed_batching", 1}}, NULL, "is_packed_batching and scale"},
        {"GroupQueryAttention",
         "x x x - - ids ids",
         "2 4 24",
         {{"num_heads", 3}, {"kv_num_heads", 3}, {"smooth_softmax", 1}},
         NULL,
         "smooth_softmax"},
        {"GroupQueryAttention",
         "x x x - - ids ids - - - - v",
         "2 4 24",
         {{"num_heads", 3}, {"kv_num_heads", 3}},
         NULL,
         "operand 12 is not supported"},
        {"GroupQueryAttention",
         "x x x - - ids v",
         "2 4 24",
         {{"num_heads", 3}, {"kv_num_heads", 3}},
         NULL,
         "it depends on the value of input v"},
        {"GroupQueryAttention",
         "x x x cache cache ids four",
         "2 4 24",
         {{"num_heads", 3}, {"kv_num_heads", 3}},
         NULL,
         "the size of the cache is not known"},
        {.op = "EmbedLayerNormalization", .operands = "ids - x x - v", .dims = "2 4", .why = "ids of rank 1"},
        {.op = "FusedGemm", .operands = "x x", .dims = "2 2", .activation = "Clip", .why = "activation Clip"},
        {.op = "FusedGemm", .operands = "x x", .dims = "2 2", .activation = "Softmax", .why = "activation Softmax"},
        {.op = "FusedConv",
         .operands = "x w",
         .dims = "1 1 5 5",
         .activation = "Clip",
         .why = "activation Clip with 0 parameters"},
    };
    for (size_t k = 0; k < SN_COUNT(cases); k++) check(&cases[k], "com.microsoft");
}

/* A size of 0 was divided by, and the sizes of a node that had failed were taken: the process ended. */
Test(onnx_fused, sizes_that_are_none) {
    static const struct {
        const char *operands, *dims;
        int64_t heads, groups, turns;
        const char *why;
    } cases[] = {
        {"packed - - - - ids four", "1", 2, -1, 0, "2 heads of queries, -1 of keys"},
        {"x x x - - ids four", "2 4 24", 0, 3, 0, "0 heads of queries, 3 of keys"},
        {"packed - - - - ids four", "1", 3, 1, 0, "3 heads of queries and 1 of keys and of values in 48 elements"},
        {"packed - - - - ids four", "1", 3, INT64_MAX, 0, "3 heads of queries and 9223372036854775807 of keys"},
        {"packed - - - - ids four", "1", INT64_MAX, 1, 0, "9223372036854775807 heads of queries and 1 of keys"},
        {"x x x past past ids four", "2 4 24", 3, 3, 1, "do_rotary needs operands 8 and 9"},
        {"x x x - - ids four table", "2 4 24", 3, 3, 1, "do_rotary needs operands 8 and 9"},
        {"x x x - - ids four table v", "2 4 24", 3, 3, 1, "operands 8 and 9 of rank 2 and 1, not 2"},
        {"x x x - - ids four empty empty", "2 4 24", 3, 3, 1, "tables of 0 columns"},
        {"x x x past past ids four table table", "2 4 18", 3, 3, 1,
         "tables of 4 columns turn twice as many elements, a head has 6"},
        {"packed x x - - ids four table table", "2 4 18", 3, 3, 1, "a head has 6"},
        {"x x x - - ids four table k", "2 4 24", 3, 3, 1, "do not broadcast"},
        {"x x x past past v four table table", "2 1 24", 3, 3, 1, "shape [4] has 4 elements, [2, 1, 1, 1] has 2"},
        {"x x x v v ids four", "2 4 24", 3, 3, 0, "a cache of shape f32[4]"},
        {"x x x past longer ids four", "2 4 24", 3, 3, 0, "a cache of 5 keys and 6 values"},
        {"x x x past - ids four", "2 4 24", 3, 3, 0, "a cache of 5 keys and 0 values"},
    };
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        refusal r = {"GroupQueryAttention",
                     cases[k].operands,
                     cases[k].dims,
                     {{"num_heads", cases[k].heads}, {"kv_num_heads", cases[k].groups}, {"do_rotary", cases[k].turns}},
                     NULL,
                     cases[k].why};
        check(&r, "com.microsoft");
    }
    refusal rotary = {
        .op = "RotaryEmbedding", .operands = "x ids empty empty", .dims = "1 2 16", .why = "tables of 0 columns"};
    check(&rotary, "com.microsoft");
    rotary.operands = "x empty empty";
    check(&rotary, "");
}

/* Sizes of queries, keys and values are those of a stranger: their sum overflowed. */
Test(onnx_fused, hidden_sizes) {
    static const struct {
        int64_t sizes[3];
        const char *why;
    } cases[] = {
        {{INT64_MAX, INT64_MAX, 2}, "weights of 3 columns for queries, keys and values of 9223372036854775807, "},
        {{1, INT64_MAX, 1}, "of 1, 9223372036854775807 and 1"},
        {{-1, 2, 2}, "of -1, 2 and 2"},
        {{1, 1, 2}, "of 1, 1 and 2"},
        {{1, 1, 0}, "of 1, 1 and 0"},
    };
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        pb g = {0}, n = node_of("Attention", "x w", "y"), sizes = attr_of("qkv_hidden_sizes");
        for (int i = 0; i < 3; i++) put_int(&sizes, ATTR_INTS, cases[k].sizes[i]);
        put_message(&n, NODE_ATTRIBUTE, &sizes);
        put_attr_int(&n, "num_heads", 1);
        put_text(&n, NODE_DOMAIN, "com.microsoft");
        put_value(&g, GRAPH_INPUT, "x", F32, "2 4 3");
        put_value(&g, GRAPH_INPUT, "w", F32, "3 3");
        put_message(&g, GRAPH_NODE, &n);
        expect_refused(&g, cases[k].why);
    }
}

/* Tables of ai.onnx.ml: what their attributes may not say. */
Test(onnx_fused, tables) {
    static const struct {
        const char *op, *text, *value, *floats;
        uint32_t n;
        int type;
        const char *why;
    } cases[] = {
        {"Scaler", NULL, NULL, "offset", 2, F32, "2 numbers of offset for 3 columns"},
        {"Scaler", NULL, NULL, "scale", 1, BOOL, "a table of bool"},
        {"Normalizer", "norm", "L3", NULL, 0, F32, "norm L3"},
        {"LinearRegressor", "post_transform", "PROBIT", NULL, 0, F32, "post_transform PROBIT"},
        {"LinearRegressor", NULL, NULL, "coefficients", 4, F32, "4 coefficients for 3 columns and 1 targets"},
        {"Imputer", NULL, NULL, NULL, 0, F32, "attribute imputed_value_floats is missing"},
        {"Imputer", NULL, NULL, "imputed_value_floats", 1, I64, "attribute imputed_value_int64s is missing"},
    };
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        enum { ATTR_FLOATS = 7 };
        sn_context *ctx;
        sn_graph *graph;
        pb g = {0}, n = node_of(cases[k].op, "x", "y");
        pb text = attr_of(cases[k].text ? cases[k].text : ""), floats = attr_of(cases[k].floats ? cases[k].floats : "");
        if (cases[k].text) {
            put_text(&text, ATTR_S, cases[k].value);
            put_message(&n, NODE_ATTRIBUTE, &text);
        }
        for (uint32_t i = 0; i < cases[k].n; i++) put_float(&floats, ATTR_FLOATS, 1);
        if (cases[k].floats) put_message(&n, NODE_ATTRIBUTE, &floats);
        put_text(&n, NODE_DOMAIN, "ai.onnx.ml");
        put_value(&g, GRAPH_INPUT, "x", cases[k].type, "4 3");
        put_message(&g, GRAPH_NODE, &n);
        put_value(&g, GRAPH_OUTPUT, "y", F32, NULL);
        pb m = model_of(&g, 26);
        cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
        cr_expect_eq(sn_import_onnx_memory(&graph, ctx, "m.onnx", m.at, m.n, NULL, NULL), SN_ERROR_UNSUPPORTED, "%zu",
                     k);
        cr_expect(strstr(sn_error(ctx), cases[k].why), "%s\n  instead of: %s", sn_error(ctx), cases[k].why);
        sn_context_destroy(ctx);
    }
}

static void put_numbers(pb *node, const char *name, uint32_t attribute_list, uint32_t n) {
    enum { ATTR_FLOATS = 7 };
    pb a = attr_of(name);
    for (uint32_t k = 0; k < n; k++)
        if (attribute_list == ATTR_FLOATS) put_float(&a, attribute_list, 1);
        else put_int(&a, attribute_list, (int64_t)1 << 40);
    put_message(node, NODE_ATTRIBUTE, &a);
}

/* Lists of which the length does not fit, or a number. */
Test(onnx_fused, lists_of_numbers) {
    enum { ATTR_FLOATS = 7, ATTR_INTS = 8, I32 = 6 };
    static const struct {
        const char *op, *operands, *domain, *shape;
        int type;
        struct {
            const char *name;
            uint32_t list, n;
        } lists[2];
        const char *why;
    } cases[] = {
        {"LinearRegressor",
         "x",
         "ai.onnx.ml",
         "4 3",
         F32,
         {{"coefficients", ATTR_FLOATS, 3}, {"intercepts", ATTR_FLOATS, 3}},
         "3 intercepts for 1 targets"},
        {"Imputer",
         "x",
         "ai.onnx.ml",
         "4 3",
         I64,
         {{"imputed_value_int64s", ATTR_INTS, 2}},
         "2 numbers of imputed_value_int64s for 3 columns"},
        {"Imputer",
         "x",
         "ai.onnx.ml",
         "4 3",
         I32,
         {{"imputed_value_int64s", ATTR_INTS, 1}},
         "1099511627776 for a column of i32"},
        {"Attention",
         "x w",
         "com.microsoft",
         "2 4 3",
         F32,
         {{"qkv_hidden_sizes", ATTR_INTS, 2}},
         "2 numbers of qkv_hidden_sizes, where 3 are wanted"},
    };
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        pb g = {0}, n = node_of(cases[k].op, cases[k].operands, "y");
        for (int i = 0; i < 2 && cases[k].lists[i].name; i++)
            put_numbers(&n, cases[k].lists[i].name, cases[k].lists[i].list, cases[k].lists[i].n);
        put_text(&n, NODE_DOMAIN, cases[k].domain);
        put_value(&g, GRAPH_INPUT, "x", cases[k].type, cases[k].shape);
        put_value(&g, GRAPH_INPUT, "w", F32, "3 3");
        put_message(&g, GRAPH_NODE, &n);
        expect_refused(&g, cases[k].why);
    }
}
