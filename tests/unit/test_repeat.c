/* test_repeat.c: loops that run at run time: the builder functions and their errors, and the invariants of their text. */
#include <criterion/criterion.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "frontend/frontend.h"

static sn_context *ctx;
static sn_graph *g;

static void begin(void) {
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    cr_assert_eq(sn_graph_create(&g, ctx, "g"), SN_OK);
}

static void end(void) {
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

static sn_repeat ended(unsigned loop, int64_t steps, const sn_node *state, const sn_node *after, const sn_node *stack) {
    return (sn_repeat){.struct_size = sizeof(sn_repeat),
                       .loop = loop,
                       .steps = steps,
                       .n_states = 1,
                       .states = state,
                       .after = after,
                       .n_stacks = stack ? 1 : 0,
                       .stacks = stack};
}

/* h = tanh(h + x[t]) over x[7, 3], with all h stacked. */
static void build(int64_t steps) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(steps, 3)), r[2];
    unsigned loop = sn_repeat_begin(g);
    sn_node h = sn_repeat_state(g, loop, 0, sn_full(g, SN_F32, 0.5, SN_LIST(3)));
    sn_node next = sn_tanh(g, sn_add(g, h, sn_repeat_slice(g, loop, x, 0, false)));
    sn_repeat e = ended(loop, steps, &h, &next, &next);
    sn_repeat_end(r, g, &e);
    cr_expect_eq(sn_node_rank(g, r[1]), 2);
    sn_output(g, "last", r[0]);
    sn_output(g, "all", r[1]);
}

Test(repeat, runs, .init = begin, .fini = end) {
    enum { STEPS = 7, WIDTH = 3 };
    float x[STEPS * WIDTH], last[WIDTH], all[STEPS * WIDTH];
    sn_tensor *in, *out[2];
    sn_program *p;
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .verify = "paranoid"};
    build(STEPS);
    cr_assert_eq(sn_graph_status(g), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    for (int i = 0; i < STEPS * WIDTH; i++) x[i] = (float)(i % 5) / 4 - 0.5f;
    cr_assert_eq(sn_tensor_wrap(&in, ctx, SN_CPU, x, SN_F32, SN_LIST(STEPS, WIDTH), NULL, 0), SN_OK);
    cr_assert_eq(sn_tensor_wrap(&out[0], ctx, SN_CPU, last, SN_F32, SN_LIST(WIDTH), NULL, 0), SN_OK);
    cr_assert_eq(sn_tensor_wrap(&out[1], ctx, SN_CPU, all, SN_F32, SN_LIST(STEPS, WIDTH), NULL, 0), SN_OK);
    cr_assert_eq(sn_run(p, (sn_tensor *[]){in}, out, NULL), SN_OK, "%s", sn_error(ctx));
    for (int k = 0; k < WIDTH; k++) {
        double h = 0.5;
        for (int t = 0; t < STEPS; t++) {
            h = tanh(h + (double)x[t * WIDTH + k]);
            cr_expect(fabs((double)all[t * WIDTH + k] - h) < 1e-6);
        }
        cr_expect(fabs((double)last[k] - h) < 1e-6);
    }
    sn_tensor_destroy(in);
    for (int k = 0; k < 2; k++) sn_tensor_destroy(out[k]);
    sn_program_destroy(p);
}

static void fails(const char *message) {
    sn_program *p = NULL;
    cr_expect_eq(sn_compile(&p, g, NULL), SN_ERROR_TYPE);
    cr_expect(strstr(sn_error(ctx), message), "%s", sn_error(ctx));
    cr_expect_null(p);
}

Test(repeat, needs_as_many_elements_as_steps, .init = begin, .fini = end) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(7, 3)), r[1];
    unsigned loop = sn_repeat_begin(g);
    sn_node h = sn_repeat_state(g, loop, 0, sn_full(g, SN_F32, 0, SN_LIST(3)));
    sn_node next = sn_add(g, h, sn_repeat_slice(g, loop, x, 0, false));
    sn_repeat e = ended(loop, 6, &h, &next, NULL);
    sn_repeat_end(r, g, &e);
    sn_output(g, "y", r[0]);
    fails("the axis has 7 elements, repeat 1 has 6 steps");
}

Test(repeat, state_begins_outside, .init = begin, .fini = end) {
    unsigned loop = sn_repeat_begin(g);
    sn_node e = sn_repeat_slice(g, loop, sn_input(g, "x", SN_F32, SN_LIST(4, 3)), 0, false), r[1];
    sn_node h = sn_repeat_state(g, loop, 0, sn_neg(g, e)), next = sn_add(g, h, e);
    sn_repeat whole = ended(loop, 4, &h, &next, NULL);
    sn_repeat_end(r, g, &whole);
    sn_output(g, "y", r[0]);
    fails("what it is at first is a value inside of repeat 1 itself");
}

Test(repeat, is_not_read_from_outside, .init = begin, .fini = end) {
    unsigned loop = sn_repeat_begin(g);
    sn_node h = sn_repeat_state(g, loop, 0, sn_input(g, "x", SN_F32, SN_LIST(3))), next = sn_neg(g, h), r[1];
    sn_repeat e = ended(loop, 4, &h, &next, NULL);
    sn_repeat_end(r, g, &e);
    sn_output(g, "y", sn_add(g, r[0], next));
    fails("operand 2 is a value inside of repeat 1, which is over");
}

/* Also where nobody reads what the loop ends with. */
Test(repeat, inside_alone_is_not_read, .init = begin, .fini = end) {
    unsigned loop = sn_repeat_begin(g);
    sn_node h = sn_repeat_state(g, loop, 0, sn_input(g, "x", SN_F32, SN_LIST(3))), next = sn_neg(g, h), r[1];
    sn_repeat e = ended(loop, 4, &h, &next, NULL);
    sn_repeat_end(r, g, &e);
    sn_output(g, "y", next);
    fails("output y is a value inside of repeat 1");
}

Test(repeat, has_an_end, .init = begin, .fini = end) {
    sn_node h = sn_repeat_state(g, sn_repeat_begin(g), 0, sn_input(g, "x", SN_F32, SN_LIST(3)));
    sn_output(g, "y", sn_neg(g, h));
    fails("repeat 1 has no end");
}

Test(repeat, lists_are_checked, .init = begin, .fini = end) {
    sn_node r[1];
    sn_repeat e = ended(sn_repeat_begin(g), 4, NULL, NULL, NULL);
    sn_repeat_end(r, g, &e);
    cr_expect_eq(sn_graph_status(g), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_error(ctx), "a list of nodes is NULL"), "%s", sn_error(ctx));
    cr_expect_eq(sn_repeat_begin(g), 0);
}

/* ---- loops that end early, and branches ---- */

enum { WIDE = 4 };

/* x = 1, 2, 3, 4: doubled until the largest is `bound` or more, at most 10 times; negated if the last is above 20. */
static void build_decisions(sn_node bound) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(WIDE)), last, y;
    unsigned loop = sn_repeat_begin(g);
    sn_node h = sn_repeat_state(g, loop, 0, x), next = sn_add(g, h, h);
    sn_repeat e = ended(loop, 10, &h, &next, NULL);
    e.goes_on = sn_lt(g, sn_amax(g, next, 0, NULL, false), bound);
    sn_repeat_end(&last, g, &e);
    sn_node large = sn_gt(g, sn_amax(g, last, 0, NULL, false), sn_number(g, SN_F32, 20));
    sn_node yes = sn_neg(g, last), no = last;
    sn_cond(&y, g, large, 1, &yes, &no);
    sn_output(g, "y", y);
}

static void expect_decisions(sn_program *p, float bound, float first) {
    float x[WIDE] = {1, 2, 3, 4}, y[WIDE];
    sn_tensor *in[2], *out;
    cr_assert_eq(sn_tensor_wrap(&in[0], ctx, SN_CPU, &bound, SN_F32, 0, NULL, NULL, 0), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_tensor_wrap(&in[1], ctx, SN_CPU, x, SN_F32, SN_LIST(WIDE), NULL, 0), SN_OK);
    cr_assert_eq(sn_tensor_wrap(&out, ctx, SN_CPU, y, SN_F32, SN_LIST(WIDE), NULL, 0), SN_OK);
    cr_assert_eq(sn_run(p, in, &out, NULL), SN_OK, "%s", sn_error(ctx));
    for (int k = 0; k < WIDE; k++) cr_expect_eq(y[k], first * x[k], "%g: %g", (double)bound, (double)y[k]);
    for (int k = 0; k < 2; k++) sn_tensor_destroy(in[k]);
    sn_tensor_destroy(out);
}

Test(cond, runs, .init = begin, .fini = end) {
    static const char *const wrappers[] = {"generated", "interpreted"};
    build_decisions(sn_input(g, "bound", SN_F32, 0, NULL));
    cr_assert_eq(sn_graph_status(g), SN_OK, "%s", sn_error(ctx));
    for (size_t k = 0; k < SN_COUNT(wrappers); k++) {
        sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .verify = "paranoid", .wrapper = wrappers[k]};
        sn_program *p;
        cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
        expect_decisions(p, 1, 2);        /* one step: 8 */
        expect_decisions(p, 8, 2);        /* 8 is not below 8 */
        expect_decisions(p, 9, 4);        /* 16 */
        expect_decisions(p, 17, -8);      /* 32 */
        expect_decisions(p, 1e9f, -1024); /* all 10 */
        sn_program_destroy(p);
    }
}

static void fails_now(const char *message) {
    cr_expect_neq(sn_graph_status(g), SN_OK);
    cr_expect(strstr(sn_error(ctx), message), "%s", sn_error(ctx));
}

Test(cond, needs_one_bool, .init = begin, .fini = end) {
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(3)), y;
    sn_cond(&y, g, sn_gt(g, x, x), 1, &x, &x);
    fails_now("cond: its condition is one bool, not bool[3]");
    cr_expect_eq(y.id, 0);
}

Test(cond, gives_one_type, .init = begin, .fini = end) {
    sn_node p = sn_input(g, "p", SN_BOOL, 0, NULL), a = sn_input(g, "a", SN_F32, SN_LIST(3)), y;
    sn_node b = sn_input(g, "b", SN_F32, SN_LIST(4));
    sn_cond(&y, g, p, 1, &a, &b);
    fails_now("cond: result 0 is f32[3] where the condition holds, and f32[4] where it does not");
}

Test(cond, lists_are_checked, .init = begin, .fini = end) {
    sn_node p = sn_input(g, "p", SN_BOOL, 0, NULL), y = p;
    sn_cond(&y, g, p, 0, &p, &p);
    fails_now("cond: 0 results; at least one");
}

Test(cond, lists_are_there, .init = begin, .fini = end) {
    sn_node p = sn_input(g, "p", SN_BOOL, 0, NULL), y = p;
    sn_cond(&y, g, p, 1, &p, NULL);
    fails_now("cond: a list of nodes is NULL");
    cr_expect_eq(y.id, 0);
}

Test(repeat, that_ends_early_has_no_stacks, .init = begin, .fini = end) {
    sn_node h = sn_repeat_state(g, sn_repeat_begin(g), 0, sn_input(g, "x", SN_F32, SN_LIST(3))), n = sn_neg(g, h), r[2];
    sn_repeat e = ended(1, 4, &h, &n, &n);
    e.goes_on = sn_input(g, "p", SN_BOOL, 0, NULL);
    sn_repeat_end(r, g, &e);
    fails_now("repeat: one that may end early has no stacks");
}

Test(repeat, that_ends_early_ends_by_one_bool, .init = begin, .fini = end) {
    sn_node h = sn_repeat_state(g, sn_repeat_begin(g), 0, sn_input(g, "x", SN_F32, SN_LIST(3))), n = sn_neg(g, h), r[1];
    sn_repeat e = ended(1, 4, &h, &n, NULL);
    e.goes_on = n;
    sn_repeat_end(r, g, &e);
    fails_now("repeat: whether it goes on is one bool, not f32[3]");
}

/* Who was compiled with a shorter sn_repeat has none of its later members. */
Test(repeat, old_structs_do, .init = begin, .fini = end) {
    sn_node h = sn_repeat_state(g, sn_repeat_begin(g), 0, sn_input(g, "x", SN_F32, SN_LIST(3))), n = sn_neg(g, h), r[1];
    sn_repeat e = ended(1, 4, &h, &n, NULL);
    e.struct_size = offsetof(sn_repeat, goes_on);
    e.goes_on = h;
    sn_repeat_end(r, g, &e);
    cr_expect_eq(sn_graph_status(g), SN_OK, "%s", sn_error(ctx));
}

/* ---- the invariants of text ---- */

static const char BUFFERS[] = "buffer x: f32[6, 256] input 0 align 16\nbuffer y: f32[256] output 0 align 16\n"
                              "buffer x_t: f32[256] step align 16\nbuffer h: f32[256] step\nbuffer n: f32[256] step\n"
                              "buffer p: bool[] step\nbuffer p2: bool[2] step\n";

static void expect_broken(const char *text, const char *message) {
    sn_env env;
    sn_env_init(&env);
    sn_module *m = sn_module_new(&env);
    char all[4096];
    int n = snprintf(all, sizeof all, "%s%s", strncmp(text, "graph", 5) ? BUFFERS : "", text);
    cr_assert_eq(sn_module_parse(m, "t", all, (size_t)n), SN_OK, "%s", env.message);
    sn_status status = sn_module_verify(m, "t");
    if (message) cr_expect(status == SN_ERROR_VERIFY && strstr(env.message, message), "%s: %s", text, env.message);
    else cr_expect_eq(status, SN_OK, "%s: %s", text, env.message);
    sn_module_free(m);
}

#define FIRST "kernel @a(h) { loop i in 256 { %0 = const.f32 0 store h[i], %0 } }\n"
#define STEP                                                                                                           \
    "kernel @b(x_t, h, n) section 1 { loop i in 256 { %0 = load x_t[i] %1 = load h[i] %2 = add %0, %1 store n[i], %2 } }\n"
#define LAST "kernel @c(h, y) section 2 { loop i in 256 { %0 = load h[i] store y[i], %0 } }\n"
#define WINDOW "window x_t from x offset 0 by 256 "

Test(repeat, module_text) {
    expect_broken("repeat steps 6 sections 1 1 { " WINDOW "carry h from n }\n" FIRST STEP LAST, NULL);
    expect_broken(
        "repeat steps 6 sections 1 1 { window x_t from x offset 1280 by -256 carry h from n }\n" FIRST STEP LAST, NULL);
    expect_broken("repeat steps 6 sections 1 1 { " WINDOW "carry h from n }\n" LAST STEP FIRST,
                  "R1: kernel @b of section 1 stands");
    expect_broken("repeat steps 0 sections 1 1 { }\n" FIRST, "R2: 0 steps");
    expect_broken("repeat steps 6 sections 1 2 { }\nrepeat steps 6 sections 2 3 { }\n" FIRST,
                  "R2: two repeats cross in section 2");
    expect_broken("repeat steps 7 sections 1 1 { " WINDOW "carry h from n }\n" FIRST STEP LAST, "R3: x_t leaves x");
    expect_broken("repeat steps 6 sections 1 1 { window y from x offset 0 by 256 }\n" FIRST,
                  "R3: y is no buffer of scope step");
    expect_broken("repeat steps 6 sections 1 1 { carry h from h }\n" FIRST, "R4: h is named twice");
    expect_broken("repeat steps 6 sections 2 2 { " WINDOW "carry h from n }\n" FIRST STEP LAST,
                  "R5: kernel @b touches x_t outside of its repeat");
}

#define DECIDES "kernel @p(p) { %0 = const.bool true store p[0], %0 }\n"

Test(cond, module_text) {
    expect_broken("cond p sections 1 1 else 2 2\n" DECIDES STEP LAST, NULL);
    expect_broken("repeat steps 6 sections 1 1 { " WINDOW "carry h from n while p }\n" FIRST
                  "kernel @b(x_t, h, n, p) section 1 { loop i in 256 { %0 = load x_t[i] %1 = load h[i] %2 = add %0, %1 "
                  "store n[i], %2 %3 = const.bool true store p[0], %3 } }\n" LAST,
                  NULL);
    expect_broken("cond p sections 2 1 else 2 2\n" DECIDES,
                  "R2: sections 2 to 2, of which the second branch begins with 2");
    expect_broken("cond p sections 1 1 else 2 2\nrepeat steps 6 sections 1 2 { }\n" DECIDES,
                  "R2: two repeats cross in section 1");
    expect_broken("cond p2 sections 1 1 else 2 2\n" DECIDES, "R6: p2 is not one bool");
    expect_broken("cond h sections 1 1 else 2 2\n" DECIDES, "R6: h is not one bool");
    expect_broken("cond y sections 1 1 else 2 2\n" DECIDES, "R6: y is no buffer of scope step");
    expect_broken("cond p sections 1 1 else 2 2\ncond p sections 3 3 else 4 4\n" DECIDES, "R6: p is named twice");
    expect_broken("cond p sections 1 1 else 2 2\nkernel @p(p) section 2 { %0 = const.bool true store p[0], %0 }\n",
                  "R6: kernel @p stores to p, by which it is taken");
    expect_broken("repeat steps 6 sections 1 1 { while p }\n" DECIDES, "R5: kernel @p touches p outside of its repeat");
}

Test(cond, graph_text) {
    expect_broken("graph @g(%p: bool[1], %a: f32[3]) { %b = neg %a %c = cond %p, %a, %b return y = %c }", NULL);
    expect_broken("graph @g(%p: bool[], %a: f32[3]) { %b = neg %a %c = cond %p, %a, %b, %b, %a %0 = project %c index=0 "
                  "%1 = project %c index=1 return y = %0, z = %1 }",
                  NULL);
}

#define FORMS                                                                                                          \
    "kernel @a(h: f32[256] out) { loop i in 256 { %0 = const.f32 0 store h[i], %0 } }\n"                               \
    "kernel @b(x: f32[256] in, h: f32[256] in, n: f32[256] out) { loop i in 256 { %0 = load x[i] %1 = load h[i] "      \
    "%2 = add %0, %1 store n[i], %2 } }\n"                                                                             \
    "kernel @c(h: f32[256] in, y: f32[256] out) { loop i in 256 { %0 = load h[i] store y[i], %0 } }\n"
#define WRAPPER(steps) FORMS "wrapper @w workspace 2048 {\ncheck x\nalloc h size 1024 offset 0\ncall @a(h)\n" steps "}\n"
#define TWO "alloc n size 1024 offset 1024\n"
#define BODY "window x_t from x by 1024 offset 0\ncall @b(x_t, h, n)\ncarry h from n\n"

Test(repeat, graph_text) {
    expect_broken(
        "graph @g(%a: f32[3]) { %h = repeat_state %a repeat=1 index=0 %n = neg %h %r = repeat %h, %n repeat=1 states=1 "
        "trip=[4] %y = add %r, %n return y = %y }",
        "G10: add: operand 2 is a value inside of repeat 1, which is over");
    expect_broken("graph @g(%a: f32[3]) { %h = repeat_state %a repeat=1 index=0 return y = %h }",
                  "G10: repeat_state: repeat 1 has no end");
    expect_broken("graph @g(%a: f32[3]) { %h = repeat_state %a repeat=1 index=0 %n = neg %h %r = repeat %n repeat=1 "
                  "states=0 trip=[4] return y = %r }",
                  "G10: repeat_state: index=0, repeat 1 has 0 states");
    /* each reads a state of the other one */
    expect_broken(
        "graph @g(%a: f32[3]) { %h = repeat_state %a repeat=1 index=0 %k = repeat_state %a repeat=2 index=0 "
        "%n = add %h, %k %r = repeat %k, %n repeat=2 states=1 trip=[4] %q = repeat %h, %r repeat=1 states=1 trip=[4] "
        "return y = %q }",
        NULL);
    expect_broken(
        "graph @g(%a: f32[3]) { %h = repeat_state %a repeat=1 index=0 %k = repeat_state %a repeat=2 index=0 "
        "%n = add %h, %k %r = repeat %k, %n repeat=2 states=1 trip=[4] %q = repeat %h, %n repeat=1 states=1 trip=[4] "
        "return y = %q }",
        "G10");
}

Test(repeat, wrapper_text) {
    expect_broken(WRAPPER(TWO "repeat steps 6\n" BODY "end\ncall @c(h, y)\nfree h\nfree n\n"), NULL);
    expect_broken(WRAPPER("repeat steps 6\nwindow x_t from x by 1024 offset 0\nreuse n from h\ncall @b(x_t, h, n)\n"
                          "carry h from n\nend\ncall @c(h, y)\nfree h\n"),
                  NULL);
    expect_broken(WRAPPER(TWO "repeat steps 6\n" BODY "call @c(h, y)\n"),
                  "W15: wrapper @w, step 9 (end): a repeat or an if has no end");
    expect_broken(WRAPPER(TWO "end\n"), "W15: wrapper @w, step 4 (end): there is no repeat or if to end");
    expect_broken(WRAPPER(TWO "carry h from n\n"), "h is carried outside of a repeat");
    expect_broken(WRAPPER("window x_t from x by 1024 offset 0\n"), "x_t is a window outside of a repeat");
    expect_broken(WRAPPER(TWO "repeat steps 6\n" BODY "free n\nend\n"),
                  "W17: wrapper @w, step 8 (free): h may have its place");
    expect_broken(WRAPPER("repeat steps 6\n" TWO BODY "end\n"), "n is placed inside and not freed");
    expect_broken(WRAPPER("repeat steps 6\nfree h\nend\n"), "h was placed before the repeat and is not as it was");
    expect_broken(WRAPPER(TWO "repeat steps 7\n" BODY "end\n"), "W16: wrapper @w, step 5 (window): x_t leaves x");
    expect_broken(WRAPPER(TWO "repeat steps 6\nwindow x_t from x by 1020 offset 0\nend\n"),
                  "x_t is not always aligned to 16 bytes");
    expect_broken(WRAPPER(TWO "repeat steps 6\nend\ncall @b(x_t, h, n)\n"),
                  "W3: wrapper @w, step 6 (call): x_t has no place yet");
}

Test(cond, wrapper_text) {
    const char *decides =
        FORMS "kernel @p(p: bool[] out) { %0 = const.bool true store p[0], %0 }\nwrapper @w workspace 4096 {\n"
              "check x\nalloc p size 1 offset 0\nalloc h size 1024 offset 256\ncall @p(p)\n";
    static const struct {
        const char *steps, *message;
    } cases[] = {
        {"if p\ncall @a(h)\nelse\ncall @a(h)\nend\ncall @c(h, y)\nfree h\nfree p\n", "W9: "}, /* all but @b is right */
        {"if p\ncall @a(h)\nelse\ncall @a(h)\n", "W15: wrapper @w, step 8 (end): a repeat or an if has no end"},
        {"else\nend\n", "W15: wrapper @w, step 4 (else): there is no if"},
        {"if p\nelse\nelse\nend\n", "W15: wrapper @w, step 6 (else): there is no if"},
        {"if p\nfree h\nelse\nend\n",
         "W15: wrapper @w, step 6 (else): h was placed before the branch and is not as it was"},
        {"if p\nelse\nalloc n size 1024 offset 1280\nend\n",
         "W15: wrapper @w, step 7 (end): n is placed inside and not freed"},
        {"if h\nend\n", "W18: wrapper @w, step 4 (if): h is not one bool"},
        {"free p\nif p\nend\n", "W4: wrapper @w, step 5 (if): p was freed before"},
        {"if x\nend\n", "W1: wrapper @w, step 4 (if): x has the scope input"},
        {"while p\n", "W15: wrapper @w, step 4 (while): p ends no repeat here"},
        {"repeat steps 3\nif p\nwhile p\nend\nend\n", "W15: wrapper @w, step 6 (while): p ends no repeat here"},
        {"repeat steps 3\nwhile h\nend\n", "W18: wrapper @w, step 5 (while): h is not one bool"},
        {"repeat steps 3\nif p\nwindow x_t from x by 1024 offset 0\nend\nend\n", "x_t is a window outside of a repeat"},
        {"if p\nalloc n size 1024 offset 1280\nfree n\nelse\ncall @a(n)\nend\n",
         "W4: wrapper @w, step 8 (call): n was freed before"},
        /* What changed inside of the inner one changed inside of the outer one. */
        {"if p\nif p\nalloc n size 1024 offset 1280\nelse\nend\nend\n",
         "W15: wrapper @w, step 7 (else): n is placed inside and not freed"},
        {"if p\nalloc n size 1024 offset 1280\nif p\nelse\nfree n\nend\nend\n",
         "W15: wrapper @w, step 9 (end): n was placed before the branch and is not as it was"},
        {"if p\nalloc n size 1024 offset 1280\nif p\ncall @a(n)\nend\nfree n\nend\nif p\nfree h\nend\n",
         "W15: wrapper @w, step 13 (end): h was placed before the branch and is not as it was"},
        {"if p\nif p\ncall @a(h)\nelse\nfree h\nend\nend\n",
         "W15: wrapper @w, step 9 (end): h was placed before the branch and is not as it was"},
        /* The other branch has not written the output, whose alignment is looked at after that. */
        {"if p\ncall @a(y)\nelse\nreuse n from y\nfree n\nend\n", "y is not as aligned as n has to be"},
        {"if p\nif p\ncall @a(y)\nelse\nend\nelse\nreuse n from y\nfree n\nend\n",
         "y is not as aligned as n has to be"},
        {"if p\nif p\ncall @a(y)\nelse\nend\nend\nreuse n from y\n",
         "W5: wrapper @w, step 10 (reuse): output y was written before"},
        {"if p\nif p\nelse\ncall @a(y)\nend\nend\nreuse n from y\n",
         "W5: wrapper @w, step 10 (reuse): output y was written before"},
    };
    for (size_t k = 0; k < SN_COUNT(cases); k++) {
        char text[4096];
        snprintf(text, sizeof text, "%s%s}\n", decides, cases[k].steps);
        expect_broken(text, cases[k].message);
    }
}
