/* test_graph_eval.c: the reference evaluator against numbers worked out by hand (or by a second, naive loop). */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/text.h"
#include "ir/graph/eval_internal.h"
#include "ir/module.h"

static sn_env env;
static sn_arena arena;

/* Operands of the one-line cases. */
#define OPERANDS                                                                              \
    "  %x = constant dtype=f32 shape=[2, 3] values=[1, -2, 3, 4, 0.5, -6]\n"                  \
    "  %y = constant dtype=f32 shape=[3] values=[10, 20, 30]\n"                               \
    "  %nans = constant dtype=f32 shape=[4] values=[1, nan, inf, -inf]\n"                     \
    "  %i = constant dtype=i32 shape=[2, 3] values=[7, -7, 5, 0, 2147483647, -1]\n"           \
    "  %i8 = constant dtype=i8 shape=[3] values=[127, -128, 5]\n"                             \
    "  %u = constant dtype=u8 shape=[3] values=[255, 3, 0]\n"                                 \
    "  %b = constant dtype=bool shape=[2, 3] values=[1, 0, 1, 0, 0, 0]\n"                     \
    "  %ix = constant dtype=i64 shape=[2, 2] values=[0, -1, 2, 1]\n"                          \
    "  %row = constant dtype=i32 shape=[2] values=[1, -2]\n"                                  \
    "  %w = constant dtype=f32 shape=[3, 2] values=[1, 2, 3, 4, 5, 6]\n"                      \
    "  %img = constant dtype=f32 shape=[1, 1, 3, 3] values=[1, 2, 3, 4, 5, 6, 7, 8, 9]\n"     \
    "  %img2 = constant dtype=f32 shape=[1, 2, 1, 2] values=[1, 2, 3, 4]\n"                   \
    "  %k2 = constant dtype=f32 shape=[2, 1, 1, 2] values=[1, 10, 100, 1000]\n"               \
    "  %k = constant dtype=f32 shape=[1, 1, 2, 2] values=[1, 10, 100, 1000]\n"                \
    "  %line = constant dtype=f32 shape=[1, 1, 3] values=[3, 2, 3]\n"                         \
    "  %box = constant dtype=i32 shape=[1, 1, 2, 1, 2] values=[1, 2, 3, 4]\n"                \
    "  %ch = constant dtype=f32 shape=[2] values=[2, 3]\n"                                    \
    "  %bias = constant dtype=f32 shape=[2] values=[100, 200]\n"                              \
    "  %bn = constant dtype=f32 shape=[2, 2] values=[1, 5, 3, 9]\n"                           \
    "  %t = constant dtype=i64 shape=[2] values=[2, 0]\n"

enum { MAX_VALUES = 16 };
typedef struct eval_case {
    const char *op;
    int n;
    double want[MAX_VALUES];
} eval_case;

#define E1 2.718281828459045
/* e^0 + e^-1 + ... of the softmax of [1, 2, 3]-like rows are spelled with exp() in the tests below. */
static const eval_case CASES[] = {
    {"neg %x", 6, {-1, 2, -3, -4, -0.5, 6}},
    {"abs %i8", 3, {127, -128, 5}},
    {"sign %nans", 4, {1, NAN, 1, -1}},
    {"round %x", 6, {1, -2, 3, 4, 0, -6}},
    {"not %b", 6, {0, 1, 0, 1, 1, 1}},
    {"not %u", 3, {0, 252, 255}},
    {"isnan %nans", 4, {0, 1, 0, 0}},
    {"isinf %nans", 4, {0, 0, 1, 1}},
    {"add %x, %y", 6, {11, 18, 33, 14, 20.5, 24}},
    {"add %i8, %i8", 3, {-2, 0, 10}},
    {"add %u, %i8", 3, {382, -125, 5}},
    {"add %i, 1", 6, {8, -6, 6, 1, -2147483648.0, 0}},
    {"add %b, %b", 6, {1, 0, 1, 0, 0, 0}},
    {"div %i, 2", 6, {3, -3, 2, 0, 1073741823, 0}},
    {"floordiv %i, 2", 6, {3, -4, 2, 0, 1073741823, -1}},
    {"rem %i, 4", 6, {3, 1, 1, 0, 3, 3}},
    {"div %i, 0", 6, {0, 0, 0, 0, 0, 0}},
    {"div %x, 4", 6, {0.25, -0.5, 0.75, 1, 0.125, -1.5}},
    {"pow %y, 2", 3, {100, 400, 900}},
    {"hypot %nans, 0", 4, {1, NAN, INFINITY, INFINITY}},
    {"maximum %nans, 2", 4, {2, NAN, INFINITY, 2}},
    {"shl %u, 1", 3, {254, 6, 0}},
    {"shr %i8, 1", 3, {63, -64, 2}},
    {"xor %i8, %i8", 3, {0, 0, 0}},
    {"lt %x, %y", 6, {1, 1, 1, 1, 1, 1}},
    {"ne %nans, %nans", 4, {0, 1, 0, 0}},
    {"where %b, %x, %y", 6, {1, 20, 3, 10, 20, 30}},
    {"where %b, %i, 9", 6, {7, 9, 5, 9, 9, 9}},
    {"cast %nans dtype=i32", 4, {1, 0, 2147483647, -2147483648.0}},
    {"cast %x dtype=u8", 6, {1, 0, 3, 4, 0, 0}},
    {"cast %x dtype=bool", 6, {1, 1, 1, 1, 1, 1}},
    {"cast %i dtype=f16", 6, {7, -7, 5, 0, INFINITY, -1}},
    {"cast %i dtype=i8", 6, {7, -7, 5, 0, -1, -1}},
    {"clamp %x min=-1 max=2", 6, {1, -1, 2, 2, 0.5, -1}},
    {"clamp %nans max=0", 4, {0, NAN, 0, -INFINITY}},
    {"clamp %i min=0", 6, {7, 0, 5, 0, 2147483647, 0}},
    {"full value=0.1 dtype=f32 shape=[2]", 2, {0.1f, 0.1f}},
    {"iota axis=1 dtype=f32 shape=[2, 3]", 6, {0, 1, 2, 0, 1, 2}},
    {"iota axis=0 dtype=i8 shape=[3]", 3, {0, 1, 2}},
    {"sum %x axes=[1]", 2, {2, -1.5}},
    {"sum %x axes=[0]", 3, {5, -1.5, -3}},
    {"sum %x axes=[0, 1] keepdim=true", 1, {0.5}},
    {"sum %i8 axes=[0]", 1, {4}},
    {"sum %b axes=[1]", 2, {2, 0}},
    {"prod %x axes=[1]", 2, {-6, -12}},
    {"mean %x axes=[1]", 2, {2.0 / 3, -0.5}},
    {"amax %nans axes=[0]", 1, {NAN}},
    {"amin %x axes=[0]", 3, {1, -2, -6}},
    {"amax %i axes=[1]", 2, {7, 2147483647}},
    {"argmax %x axes=[1]", 2, {2, 0}},
    {"argmax %nans axes=[0]", 1, {1}},
    {"argmin %x axes=[0, 1]", 1, {5}},
    {"argmax %b axes=[1]", 2, {0, 0}},
    {"cumsum %x axis=1", 6, {1, -1, 2, 4, 4.5, -1.5}},
    {"cumsum %x axis=0", 6, {1, -2, 3, 5, -1.5, -3}},
    {"cumsum %x axis=1 exclusive=true", 6, {0, 1, -1, 0, 4, 4.5}},
    {"cumsum %x axis=1 reverse=true", 6, {2, 1, 3, -1.5, -5.5, -6}},
    {"cumsum %x axis=1 exclusive=true reverse=true", 6, {1, 3, 0, -5.5, -6, 0}},
    {"cumprod %x axis=1", 6, {1, -2, -6, 4, 2, -12}},
    {"cummax %i axis=1 exclusive=true", 6, {-2147483648.0, 7, 7, -2147483648.0, 0, 2147483647}},
    {"cummin %x axis=1", 6, {1, -2, -2, 4, 0.5, -6}},
    {"cummax %nans axis=0 reverse=true", 4, {NAN, NAN, INFINITY, -INFINITY}},
    {"any %b axes=[1]", 2, {1, 0}},
    {"all %x axes=[1]", 2, {1, 1}},
    {"var %x axes=[1]", 2, {19.0 / 3, 25.75}},
    {"var %x axes=[1] correction=0", 2, {38.0 / 9, 51.5 / 3}},
    {"reshape %x shape=[3, 2]", 6, {1, -2, 3, 4, 0.5, -6}},
    {"permute %x perm=[1, 0]", 6, {1, 4, -2, 0.5, 3, -6}},
    {"expand %y shape=[2, 3]", 6, {10, 20, 30, 10, 20, 30}},
    {"unsqueeze %y axes=[0]", 3, {10, 20, 30}},
    {"squeeze %k axes=[0, 1]", 4, {1, 10, 100, 1000}},
    {"slice %x axis=1 start=-2 stop=99", 4, {-2, 3, 0.5, -6}},
    {"slice %y axis=0 start=0 stop=3 step=2", 2, {10, 30}},
    {"slice %y axis=0 start=1 stop=3 step=9223372036854775807", 1, {20}},
    {"unfold %x axis=1 size=2", 8, {1, -2, -2, 3, 4, 0.5, 0.5, -6}},
    {"unfold %y axis=0 size=2 step=9 dilation=[2]", 2, {10, 30}},
    {"unfold %x axis=0 size=2", 6, {1, 4, -2, 0.5, 3, -6}},
    {"flip %x axes=[1]", 6, {3, -2, 1, -6, 0.5, 4}},
    {"copy %x", 6, {1, -2, 3, 4, 0.5, -6}},
    {"pad %y low=[1] high=[2] value=7", 6, {7, 10, 20, 30, 7, 7}},
    {"pad %y low=[-1] high=[1]", 3, {20, 30, 0}},
    {"pad %y low=[-5] high=[4] value=1", 2, {1, 1}},
    {"concat %x, %x axis=1", 12, {1, -2, 3, 1, -2, 3, 4, 0.5, -6, 4, 0.5, -6}},
    {"concat %y, %i8 axis=0", 6, {10, 20, 30, 127, -128, 5}},
    {"gather %x, %ix axis=1", 4, {1, 3, -6, 0.5}},
    {"index_select %y, %ix axis=0", 4, {10, 30, 30, 20}},
    {"index_select %x, %row axis=1", 4, {-2, -2, 0.5, 0.5}},
    {"scatter %x, %row, %x", 6, {4, 0.5, -6, 1, -2, 3}},
    {"scatter %y, %t, %ch", 3, {3, 20, 2}},
    {"scatter_sum %y, %t, %ch", 3, {13, 20, 32}},
    {"scatter_prod %bias, %t, %ch", 2, {300, 200}},
    {"scatter_max %ch, %row, %bias", 2, {200, 100}},
    {"scatter_min %y, %row, %ch", 3, {10, 2, 30}},
    {"matmul %x, %w", 4, {10, 12, -24.5, -26}},
    {"matmul %y, %w", 2, {220, 280}},
    {"matmul %y, %y", 1, {1400}},
    {"matmul %x, %y", 2, {60, -130}},
    {"matmul %i8, %i8", 1, {(127 * 127 + 128 * 128 + 25) % 256}},
    {"conv %img, %k", 4, {5421, 6532, 8754, 9865}},
    {"conv %img, %k padding=[1, 1] stride=[2, 2]", 4, {1000, 3200, 7040, 9865}},
    {"conv %img, %k padding=[0, 0, 1, 0] dilation=[2, 2]", 2, {9731, 64}},
    {"conv %img2, %k2 groups=2", 2, {21, 4300}},
    {"conv %img, %k input_dilation=[2, 2] stride=[2, 2]", 4, {1, 2, 4, 5}},
    {"conv %img, %k padding=[-1, 0, 0, 0]", 2, {8754, 9865}},
    {"conv %line, %line input_dilation=[2] padding=[1, 0]", 4, {6, 15, 4, 15}},
    {"conv %box, %box padding=[0, 0, 0, 1, 0, 0]", 2, {30, 11}},
    {"relu %nans", 4, {1, NAN, INFINITY, 0}},
    {"relu %i", 6, {7, 0, 5, 0, 2147483647, 0}},
    {"rms_norm %bn, %ch eps=0", 4, {0.5547001962252291, 4.160251471689218, 0.8944271909999159, 4.024922359499621}},
    {"batch_norm %bn, %ch, %bias, %ch, %ch eps=1",
     4,
     {2 * (1 - 2) * 0.5773502691896258 + 100, 3 * (5 - 3) * 0.5 + 200, 2 * (3 - 2) * 0.5773502691896258 + 100,
      3 * (9 - 3) * 0.5 + 200}},
    {"layer_norm %bn, %ch, %bias eps=0", 4, {98, 203, 98, 203}},
    {"logsumexp %y axes=[0]", 1, {30.000045400960370}},
    {"softmax %ch axis=0", 2, {1 / (1 + E1), E1 / (1 + E1)}},
    {"log_softmax %ch axis=0", 2, {-1.3132616875182228, -0.3132616875182228}},
    {"cross_entropy %x, %t", 1, {0.0813198600928624}},
};

static sn_module *eval_text(sn_array *out, const char *body, const sn_array *inputs) {
    sn_env_init(&env);
    sn_module *m = sn_module_new(&env);
    sn_arena_init(&arena, &env);
    if (sn_module_parse(m, "t.sn", body, strlen(body)) == SN_OK) sn_graph_eval(out, m, inputs, &arena);
    return m;
}

static void eval_end(sn_module *m) {
    sn_arena_free(&arena);
    sn_module_free(m);
}

static double value_at(const sn_array *a, int64_t i) { return sn_is_float(a->dtype) ? a->f[i] : (double)a->i[i]; }

static bool close_to(double a, double b) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabs(a - b) <= 1e-12 * fmax(1, fabs(b));
}

static void check_case(const eval_case *c) {
    char text[4096];
    sn_array out = {0};
    snprintf(text, sizeof text, "graph @g() {\n%s  %%res = %s\n  return out = %%res\n}\n", OPERANDS, c->op);
    sn_module *m = eval_text(&out, text, NULL);
    cr_expect_eq(env.status, SN_OK, "%s: %s", c->op, env.message);
    if (env.status == SN_OK) cr_expect_eq(out.numel, c->n, "%s: %d elements", c->op, (int)out.numel);
    for (int i = 0; env.status == SN_OK && i < c->n && i < out.numel; i++)
        cr_expect(close_to(value_at(&out, i), c->want[i]), "%s: element %d is %.17g, not %.17g", c->op, i,
                  value_at(&out, i), c->want[i]);
    eval_end(m);
}

Test(graph_eval, operations) {
    for (size_t i = 0; i < SN_COUNT(CASES); i++) check_case(&CASES[i]);
}

Test(graph_eval, float_functions) {
    static const struct {
        const char *name;
        double (*f)(double);
    } rows[] = {
        {"exp", exp},     {"exp2", exp2},   {"expm1", expm1}, {"log", log},     {"log2", log2},
        {"log1p", log1p}, {"sqrt", sqrt},   {"sin", sin},     {"cos", cos},     {"tanh", tanh},
        {"erf", erf},     {"floor", floor}, {"ceil", ceil},   {"trunc", trunc},
    };
    for (size_t i = 0; i < SN_COUNT(rows); i++) {
        char op[32];
        eval_case c = {op, 6, {0}};
        const double x[6] = {1, -2, 3, 4, 0.5, -6};
        snprintf(op, sizeof op, "%s %%x", rows[i].name);
        for (int k = 0; k < 6; k++) c.want[k] = rows[i].f(x[k]);
        check_case(&c);
    }
}

Test(graph_eval, activations) {
    static const char *const names[] = {"gelu", "gelu_tanh", "silu", "sigmoid", "rsqrt", "reciprocal"};
    for (size_t i = 0; i < SN_COUNT(names); i++) {
        char op[32];
        eval_case c = {op, 3, {0}};
        snprintf(op, sizeof op, "%s %%y", names[i]);
        for (int k = 0; k < 3; k++) {
            double x = 10 * (k + 1), s = 1 / (1 + exp(-x)), inner = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
            const double want[] = {
                x * 0.5 * (1 + erf(x * M_SQRT1_2)), 0.5 * x * (1 + tanh(inner)), x * s, s, 1 / sqrt(x), 1 / x};
            c.want[k] = want[i];
        }
        check_case(&c);
    }
}

Test(graph_eval, every_operation_can_be_evaluated) {
    /* Class functions and op functions together leave no gap: the cases above name each operation once at least, or it
     * has a file of its own in tests/ops. */
    static const char *const elsewhere[] = {
        "input", "full",      "constant", "iota",    "project", "var_mean",   "batch_norm_train",
        "exp",   "exp2",      "expm1",    "log",     "log2",    "log1p",      "sqrt",
        "sin",   "cos",       "tanh",     "erf",     "floor",   "ceil",       "trunc",
        "gelu",  "gelu_tanh", "silu",     "sigmoid", "rsqrt",   "reciprocal", "sub",
        "mul",   "minimum",   "and",      "or",      "eq",      "le",         "gt",
        "ge",    "weight" /* test_graph_weights.c */};
    for (int op = 0; op < SN_N_OPS; op++) {
        bool found = false;
        size_t n = strlen(sn_ops[op].name);
        for (size_t i = 0; i < SN_COUNT(CASES) && !found; i++)
            found = strncmp(CASES[i].op, sn_ops[op].name, n) == 0 && CASES[i].op[n] == ' ';
        for (size_t i = 0; i < SN_COUNT(elsewhere) && !found; i++) found = strcmp(elsewhere[i], sn_ops[op].name) == 0;
        char file[512];
        snprintf(file, sizeof file, SN_SOURCE_DIR "/tests/ops/%s.sn", sn_ops[op].name);
        found = found || access(file, R_OK) == 0;
        cr_expect(found, "no case for %s", sn_ops[op].name);
    }
}

Test(graph_eval, plain_operations) {
    static const eval_case cases[] = {
        {"sub %y, %x", 6, {9, 22, 27, 6, 19.5, 36}},
        {"mul %i8, %i8", 3, {1, 0, 25}},
        {"minimum %y, 15", 3, {10, 15, 15}},
        {"and %i8, 4", 3, {4, 0, 4}},
        {"or %u, 4", 3, {255, 7, 4}},
        {"eq %y, 20", 3, {0, 1, 0}},
        {"le %y, 20", 3, {1, 1, 0}},
        {"gt %y, 20", 3, {0, 0, 1}},
        {"ge %y, 20", 3, {0, 1, 1}},
    };
    for (size_t i = 0; i < SN_COUNT(cases); i++) check_case(&cases[i]);
}

/* The known answers that Random123 publishes (kat_vectors, philox 4x32 10). tests/ops/random.sn has those that a
 * graph can ask for, whose counter words 2 and 3 are 0. */
Test(graph_eval, philox_known_answers) {
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } rows[] = {
        {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < SN_COUNT(rows); i++) {
        uint32_t word[4];
        memcpy(word, rows[i].counter, sizeof word);
        sn_philox(word, rows[i].key);
        cr_expect_arr_eq(word, rows[i].want, sizeof word, "row %zu", i);
    }
}

Test(graph_eval, tuples) {
    sn_array out[7] = {{0}};
    sn_module *m =
        eval_text(out,
                  "graph @g() {\n" OPERANDS "  %t1 = batch_norm_train %bn, %ch, %bias, %ch, %ch eps=0 momentum=0.25\n"
                  "  %p0 = project %t1 index=0\n  %p1 = project %t1 index=1\n  %p2 = project %t1 index=2\n"
                  "  %p3 = project %t1 index=3\n  %p4 = project %t1 index=4\n"
                  "  %t2 = var_mean %x axes=[1]\n  %v = project %t2 index=0\n  %m = project %t2 index=1\n"
                  "  return a = %p0, b = %p1, c = %p2, d = %p3, e = %p4, f = %v, g = %m\n}\n",
                  NULL);
    cr_assert_eq(env.status, SN_OK, "%s", env.message);
    /* Channel 0 is [1, 3]: mean 2, biased variance 1, unbiased 2; channel 1 is [5, 9]: mean 7, 4, 8. */
    static const double want[7][4] = {
        {98, 197, 102, 203}, {2, 4},         {0.75 * 2 + 0.25 * 2, 0.75 * 3 + 0.25 * 8}, {2, 7}, {1, 0.5},
        {19.0 / 3, 25.75},   {2.0 / 3, -0.5}};
    for (int k = 0; k < 7; k++)
        for (int i = 0; i < out[k].numel; i++)
            cr_expect(close_to(out[k].f[i], want[k][i]), "result %d element %d: %.17g", k, i, out[k].f[i]);
    eval_end(m);
}

Test(graph_eval, batched_matmul_broadcasts) {
    static double a[2 * 1 * 2 * 3], b[4 * 3 * 2];
    for (int i = 0; i < 12; i++) a[i] = i - 5;
    for (int i = 0; i < 24; i++) b[i] = i % 7;
    sn_array in[] = {{SN_F32, 4, {2, 1, 2, 3}, 12, a, NULL}, {SN_F32, 3, {4, 3, 2}, 24, b, NULL}}, out;
    sn_module *m = eval_text(
        &out, "graph @g(%a: f32[2, 1, 2, 3], %b: f32[4, 3, 2]) {\n  %c = matmul %a, %b\n  return c = %c\n}", in);
    cr_assert_eq(env.status, SN_OK, "%s", env.message);
    cr_assert_eq(out.numel, 2 * 4 * 2 * 2);
    for (int p = 0; p < 2; p++)
        for (int q = 0; q < 4; q++)
            for (int i = 0; i < 4; i++) {
                double want = 0;
                for (int k = 0; k < 3; k++) want += a[p * 6 + i / 2 * 3 + k] * b[q * 6 + k * 2 + i % 2];
                cr_expect(close_to(out.f[(p * 4 + q) * 4 + i], want));
            }
    eval_end(m);
}

Test(graph_eval, failures_are_explained) {
    static const struct {
        const char *op, *want;
    } rows[] = {
        {"gather %x, %big axis=1", "gather: index 3 is outside an axis of 3 elements"},
        {"index_select %x, %low axis=0", "index_select: index -3 is outside an axis of 2 elements"},
        {"cross_entropy %x, %low", "cross_entropy: target -3 is not a class (0 .. 2)"},
        {"full value=1 dtype=f32 shape=[4611686018427387904]", "more than 268435456 elements"},
        {"full value=1 dtype=f32 shape=[N]", "evaluation needs constant sizes, found f32[N]"},
    };
    for (size_t i = 0; i < SN_COUNT(rows); i++) {
        char text[4096];
        sn_array out;
        snprintf(text, sizeof text,
                 "graph @g() {\n%s  %%big = constant dtype=i64 shape=[1, 1] values=[3]\n"
                 "  %%low = constant dtype=i64 shape=[2] values=[0, -3]\n  %%res = %s\n  return out = %%res\n}\n",
                 OPERANDS, rows[i].op);
        sn_module *m = eval_text(&out, text, NULL);
        cr_expect(strstr(env.message, rows[i].want), "%s: %s", rows[i].op, env.message);
        eval_end(m);
    }
}

Test(graph_eval, no_elements_is_no_work) {
    sn_array out[2];
    sn_module *m = eval_text(out,
                             "graph @g() {\n  %x = full value=0 dtype=f32 shape=[1099511627776, 0]\n"
                             "  %y = softmax %x axis=1\n  %s = sum %x axes=[0, 1]\n  return y = %y, s = %s\n}\n",
                             NULL);
    cr_assert_eq(env.status, SN_OK, "%s", env.message);
    cr_expect_eq(out[0].numel, 0);
    cr_expect_eq(out[1].f[0], 0);
    eval_end(m);
}

/* What is moved is exact, what is computed has a rounding of its own and those of its operands; what is broadcast adds
 * up. */
Test(graph_eval, errors_of_elements) {
    const double unit = 2e-6, of_sum = 10 * (1 + sqrt(6) / 256), terms = 1 + 4 + 9 + 16 + 0.25 + 36;
    /* The last element of the square of [1 5; 3 9], of which 9 is 225 + 6561 in squares; and a filter on itself. */
    const double of_pair = 10 * (1 + sqrt(2) / 256), products = 225 + 6561;
    const double of_filter = 10 * (1 + sqrt(4) / 256), filter = 1 + 1e4 + 1e8 + 1e12;
    const struct {
        const char *before, *op;
        double squares; /* of the largest error of an element, in units */
    } cases[] = {
        {"", "permute %x perm=[1, 0]", 0},
        {"", "neg %y", 900},
        {"", "sub %x, %y", 36 * 36},
        {"  %s = neg %y\n", "flip %s axes=[0]", 900},
        {"  %s = neg %y\n", "mul %s, 2", 3600 + 3600},
        {"  %s = neg %y\n", "sub %s, %s", 0},
        {"  %s = neg %y\n", "where %b, %s, %x", 900},
        {"  %s = neg %y\n", "amin %s axes=[0]", 900 + 900},
        {"", "sum %x axes=[0, 1]", of_sum * of_sum * terms + 0.25},
        {"", "mean %x axes=[0, 1]", (of_sum * of_sum * terms + 0.25) / 36},
        {"  %s = neg %ch\n  %last = slice %s axis=0 start=1 stop=2 step=1\n", "expand %last shape=[4]", 9},
        {"", "cast %x dtype=i32", 0},
        {"  %s = neg %bn\n", "matmul %s, %s", 2 * products + of_pair * of_pair * products + 96 * 96},
        {"  %s = neg %bn\n  %a = abs %s\n", "matmul %s, %a", 3 * products + of_pair * of_pair * products + 96 * 96},
        {"  %s = neg %k\n", "conv %s, %s", 2 * filter + of_filter * of_filter * filter + 1010101.0 * 1010101.0},
    };
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        char text[4096];
        sn_array out;
        double *errors, largest = 0;
        snprintf(text, sizeof text, "graph @g() {\n%s%s  %%r = %s\n  return r = %%r\n}\n", OPERANDS, cases[k].before,
                 cases[k].op);
        sn_module *m = eval_text(&out, text, NULL);
        cr_assert_eq(env.status, SN_OK, "%s: %s", cases[k].op, env.message);
        cr_assert_eq(sn_graph_eval_errors(&errors, m, NULL, &arena), SN_OK);
        for (int64_t i = 0; i < out.numel; i++) largest = fmax(largest, errors[i] / unit);
        cr_expect(fabs(largest * largest - cases[k].squares) <= 1e-3 * cases[k].squares + 1e-30, "%s: %g, not %g",
                  cases[k].op, largest * largest, cases[k].squares);
        eval_end(m);
    }
}

/* What is an integer, or 0, without a rounding decides: nobody may take the neighbour for it. A factor that is infinite has no share to be
 * off by. */
Test(graph_eval, certain_steps_have_no_errors) {
    static const char *const ops[] = {
        "  %r = cast %i dtype=f64\n  %a = cast %r dtype=i8\n",
        "  %r = cast %b dtype=bf16\n  %a = cast %r dtype=bool\n",
        "  %n = mul %x, -1.7\n  %r = maximum %n, 0\n  %a = gt %r, 0\n",
        "  %n = mul %x, 2.3\n  %r = floor %n\n  %a = cast %r dtype=i64\n",
        "  %n = mul %x, inf\n  %a = matmul %n, %x precision=bf16\n",
    };
    for (size_t k = 0; k < SN_COUNT(ops); k++) {
        char text[512];
        sn_array out;
        double *errors;
        snprintf(text, sizeof text,
                 "graph @g() {\n  %%x = constant values=[1, 3, 5, 7] dtype=f32 shape=[2, 2]\n"
                 "  %%i = constant values=[0, 5, -7, 100] dtype=i32 shape=[4]\n"
                 "  %%b = constant values=[0, 1, 0, 1] dtype=bool shape=[4]\n%s  return a = %%a\n}\n",
                 ops[k]);
        sn_module *m = eval_text(&out, text, NULL);
        cr_assert_eq(env.status, SN_OK, "%s: %s", ops[k], env.message);
        cr_assert_eq(sn_graph_eval_errors(&errors, m, NULL, &arena), SN_OK);
        for (int64_t i = 0; i < out.numel; i++)
            cr_expect(errors[i] < 0.5, "%s: element %d may be off by %g", ops[k], (int)i, errors[i]);
        eval_end(m);
    }
}

/* Where an operand that is off may meet a pole everything may come out, until something bounds it. Roots end without one. */
Test(graph_eval, errors_at_poles) {
    static const struct {
        const char *ops;
        double least, most;
    } cases[] = {
        {"  %t = full dtype=f32 shape=[] value=10\n  %a = tanh %t\n  %r = atanh %a\n", INFINITY, INFINITY},
        {"  %t = full dtype=f32 shape=[] value=-10\n  %a = tanh %t\n  %r = log1p %a\n", INFINITY, INFINITY},
        {"  %t = full dtype=f32 shape=[] value=10\n  %a = tanh %t\n  %b = atanh %a\n  %r = mul %b, %t\n", INFINITY,
         INFINITY},
        {"  %t = full dtype=f32 shape=[] value=10\n  %a = tanh %t\n  %b = atanh %a\n  %c = expand %b shape=[4]\n  %r = sum %c axes=[0]\n",
         INFINITY, INFINITY},
        {"  %t = full dtype=f32 shape=[] value=10\n  %a = tanh %t\n  %b = atanh %a\n  %r = tanh %b\n", 1, 3},
        {"  %t = full dtype=f32 shape=[] value=1\n  %a = tanh %t\n  %r = atanh %a\n", 1e-7, 1e-4},
        {"  %t = full dtype=f32 shape=[] value=10\n  %a = tanh %t\n  %b = sub %a, %a\n  %r = sqrt %b\n", 0, 1e-3},
    };
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        char text[512];
        sn_array out;
        double *errors;
        snprintf(text, sizeof text, "graph @g() {\n%s  return r = %%r\n}\n", cases[k].ops);
        sn_module *m = eval_text(&out, text, NULL);
        cr_assert_eq(env.status, SN_OK, "%s: %s", cases[k].ops, env.message);
        cr_assert_eq(sn_graph_eval_errors(&errors, m, NULL, &arena), SN_OK);
        cr_expect(errors[0] >= cases[k].least && errors[0] <= cases[k].most, "%s: %g", cases[k].ops, errors[0]);
        eval_end(m);
    }
}

/* A reference that adds one after the other would be off by 1e-11 itself. */
Test(graph_eval, long_sums_are_exact) {
    static const struct {
        const char *op;
        double want;
    } cases[] = {
        {"sum %x axes=[0]", 1e5},
        {"mean %x axes=[0]", 0.1},
        {"slice %s axis=0 start=999999 stop=1000000 step=1", 1e5},
        {"rms_norm %x, %x eps=0", 0.1},
        {"logsumexp %x axes=[0]", 0.1 + 6 * 2.302585092994046},
    };
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        char text[512];
        sn_array out;
        snprintf(text, sizeof text,
                 "graph @g() {\n  %%x = full dtype=f64 shape=[1000000] value=0.1\n  %%s = cumsum %%x axis=0\n"
                 "  %%r = %s\n  return r = %%r\n}\n",
                 cases[k].op);
        sn_module *m = eval_text(&out, text, NULL);
        cr_assert_eq(env.status, SN_OK, "%s: %s", cases[k].op, env.message);
        cr_expect(fabs(out.f[0] - cases[k].want) < 1e-15 * cases[k].want, "%s: %.17g", cases[k].op, out.f[0]);
        eval_end(m);
    }
}

Test(graph_eval, inputs_must_fit_and_outputs_are_copies) {
    double x[] = {1, 2};
    sn_array in = {SN_F32, 1, {2}, 2, x, NULL}, out;
    sn_module *m = eval_text(&out, "graph @g(%x: f32[2]) {\n  return y = %x\n}", &in);
    cr_assert_eq(env.status, SN_OK, "%s", env.message);
    cr_expect(out.f != x && out.f[1] == 2);
    in.dtype = SN_F64;
    cr_expect_eq(sn_graph_eval(&out, m, &in, &arena), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(env.message, "input x: an array of another type was given for f32[2]");
    eval_end(m);
}

Test(graph_eval, large_tensors_are_quick) {
    sn_array out[3];
    clock_t start = clock();
    sn_module *m = eval_text(out,
                             "graph @g() {\n"
                             "  %x = iota axis=1 dtype=f32 shape=[1000, 1000]\n"
                             "  %s = softmax %x axis=1\n  %a = add %s, %x\n  %r = sum %a axes=[1]\n"
                             "  %i = full value=0.5 dtype=f32 shape=[2, 16, 8, 8]\n"
                             "  %k = full value=1 dtype=f32 shape=[32, 16, 3, 3]\n  %c = conv %i, %k\n"
                             "  %m = matmul %x, %x\n  %q = sum %m axes=[0, 1]\n"
                             "  return r = %r, c = %c, q = %q\n}\n",
                             NULL);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    cr_assert_eq(env.status, SN_OK, "%s", env.message);
    cr_expect(close_to(out[0].f[999], 499501));
    cr_expect(close_to(out[1].f[7], 72));
    cr_expect(close_to(out[2].f[0], 499500.0 * 499500.0 * 1000));
    cr_expect_lt(seconds, 10.0, "%.2f s", seconds);
    eval_end(m);
}
