/* test_wrap.c: Wrapper IR: text both ways, its errors, and one broken wrapper for each invariant of
 * ir/wrap/verify.c. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ir/base/text.h"
#include "ir/module.h"

/* x -> t -> u -> y, all of 1024 bytes; v is half as large, w has a symbolic size, s is less aligned, c is a
 * constant. */
static const char HEAD[] =
    "buffer x: f32[256] input 0 align 16\n"
    "buffer t: f32[256] temp align 256\n"
    "buffer u: f32[256] temp align 256\n"
    "buffer v: f32[128] temp align 256\n"
    "buffer w: f32[N] temp align 256\n"
    "buffer y: f32[256] output 0 align 256\n"
    "buffer s: f32[256] temp align 16\n"
    "kernel @a(x: f32[256] in, t: f32[256] out) { loop i in 256 { %0 = load x[i] store t[i], %0 } }\n"
    "kernel @b(t: f32[256] in, u: f32[256] out) { loop i in 256 { %0 = load t[i] store u[i], %0 } }\n"
    "kernel @c(u: f32[256] in, y: f32[256] out) { loop i in 256 { %0 = load u[i] store y[i], %0 } }\n";

static sn_env env;
static sn_module *m;

static void setup(void) {
    sn_env_init(&env);
    m = sn_module_new(&env);
}

static void teardown(void) {
    sn_module_free(m);
    cr_assert_eq(env.bytes_now, 0u);
}

TestSuite(wrap, .init = setup, .fini = teardown);

static sn_status parse_head(void) { return sn_module_parse(m, "head.sn", HEAD, strlen(HEAD)); }

static sn_status parse_wrapper(const char *text) {
    SN_TRY(parse_head());
    return sn_module_parse(m, "test.sn", text, strlen(text));
}

static void fresh(void) {
    teardown();
    setup();
}

/* The steps of a wrapper with 4096 bytes of workspace and 2048 of prepared memory. */
static sn_status parse_steps(const char *steps) {
    char text[2048];
    snprintf(text, sizeof text, "wrapper @main workspace 4096 prepared 2048 {\n%s}\n", steps);
    return parse_wrapper(text);
}

/* ---- text ---- */

Test(wrap, text_reads_back) {
    static const char WRAPPER[] = "wrapper @main workspace 4*N + 4096 {\n"
                                  "  check x\n"
                                  "  check y\n"
                                  "  comment \"a \\\"quoted\\\" \\\\ line\\n\"\n"
                                  "  alloc t size 1024 offset 0\n"
                                  "  alloc w size 4*N offset 4096\n"
                                  "  call @a(x, t)\n"
                                  "  reuse u from t\n"
                                  "  call @b(t, u)\n"
                                  "  call @c(u, y)\n"
                                  "  free u\n"
                                  "  copy x from y size 1024\n"
                                  "}\n";
    cr_assert_eq(parse_wrapper(WRAPPER), SN_OK, "%s", env.message);
    cr_expect_str_eq(m->wrap.steps.at[2].text, "a \"quoted\" \\ line\n");
    cr_expect_eq(sn_wrap_verify(m, "test"), SN_OK, "%s", env.message);
    sn_text t;
    sn_text_init(&t, &env);
    sn_wrap_print(&t, m);
    cr_expect_str_eq(t.s, WRAPPER);
    sn_text_free(&t);
}

Test(wrap, module_text_reads_back) {
    cr_assert_eq(
        parse_steps("prepare { alloc t size 1024 offset 0\nalloc u size 1024 offset 1024 call @b(t, u) free t }"
                    "check x\nalloc s size 1024 offset 0 call @a(x, s) call @c(u, y)\n"),
        SN_OK, "%s", env.message);
    sn_text first, second;
    sn_text_init(&first, &env);
    sn_text_init(&second, &env);
    sn_module_print(&first, m);
    sn_module *copy = sn_module_new(&env);
    cr_assert_eq(sn_module_parse(copy, "printed.sn", first.s, first.n), SN_OK, "%s", env.message);
    sn_module_print(&second, copy);
    cr_expect_str_eq(first.s, second.s);
    cr_expect_eq(sn_module_verify(copy, "test"), SN_OK, "%s", env.message);
    sn_text_free(&first);
    sn_text_free(&second);
    sn_module_free(copy);
}

Test(wrap, syntax_errors) {
    static const struct {
        const char *text, *message;
    } BAD[] = {
        {"wrapper main { }", "test.sn:1:9: expected an @name, found 'main'"},
        {"wrapper @m { grow t }",
         "test.sn:1:14: expected check, alloc, reuse, free, call, copy, repeat, window, carry, while, if, else, end, comment or '}'"},
        {"wrapper @m { free z }", "test.sn:1:19: there is no buffer z"},
        {"wrapper @m { call @z }", "test.sn:1:19: there is no kernel @z"},
        {"wrapper @m { call @a }", "test.sn:1:22: expected '(', found '}'"},
        {"wrapper @m { call @a(x, z) }", "test.sn:1:25: there is no buffer z"},
        {"wrapper @m { alloc t offset 0 }", "test.sn:1:22: expected size after alloc"},
        {"wrapper @m { reuse t u }", "test.sn:1:22: expected 'from', found 'u'"},
        {"wrapper @m { copy t from u }", "test.sn:1:28: expected size after copy"},
        {"wrapper @m { comment t }", "test.sn:1:22: expected a string, found 't'"},
        {"wrapper @m { alloc t size %x }", "test.sn:1:30: unknown name %x in an index expression"},
        {"wrapper @m { check x",
         "test.sn:1:21: expected check, alloc, reuse, free, call, copy, repeat, window, carry, while, if, else, end, comment or '}'"},
        {"wrapper @m { } wrapper @n { }", "test.sn:1:16: the module has a wrapper already (@m)"},
        {"rapper", "test.sn:1:1: expected weights, graph, buffer, repeat, cond, kernel or wrapper, found 'rapper'"},
    };
    for (size_t k = 0; k < SN_COUNT(BAD); k++) {
        fresh();
        cr_expect_eq(parse_wrapper(BAD[k].text), SN_ERROR_SYNTAX);
        cr_expect_str_eq(env.message, BAD[k].message, "%s: %s", BAD[k].text, env.message);
    }
}

/* ---- invariants ---- */

static const char *const GOOD[] = {
    /* a run has memory of its own: s lies in none of u */
    "prepare { alloc t size 1024 offset 0 alloc u size 1024 offset 1024 call @b(t, u) free t }"
    "check x alloc s size 1024 offset 1024 call @a(x, s) call @c(u, y) free s",
    /* fresh bytes for each */
    "alloc t size 1024 offset 0 call @a(x, t) alloc u size 1024 offset 1024 call @b(t, u) free t call @c(u, y) free u",
    /* bytes of the dead one again */
    "alloc t size 1024 offset 0 alloc u size 1024 offset 1024 call @a(x, t) call @b(t, u) free t alloc v size 512 offset 0 "
    "free v call @c(u, y) free u",
    /* in place; a `free` of what was handed on is allowed */
    "alloc t size 1024 offset 0 call @a(x, t) reuse u from t call @b(t, u) free t call @c(u, y) free u",
    /* everything in the storage of the output */
    "reuse t from y call @a(x, t) reuse u from t call @b(t, u) call @c(u, y) free u",
    /* from a freed one */
    "alloc t size 1024 offset 0 alloc u size 1024 offset 1024 call @a(x, t) call @b(t, u) free t call @c(u, y) free u alloc v size 512 "
    "offset 0 free v copy x from y size 1024",
    /* not planned yet */
    "alloc t size 1024 alloc u size 1024 call @a(x, t) call @b(t, u) call @c(u, y)",
    /* symbolic sizes */
    "alloc t size 1024 offset 0 alloc u size 1024 offset 1024 alloc w size 4*N offset 2048 call @a(x, t) call @b(t, u) call @c(u, y)",
};

Test(wrap, good_wrappers_verify) {
    for (size_t k = 0; k < SN_COUNT(GOOD); k++) {
        fresh();
        cr_assert_eq(parse_steps(GOOD[k]), SN_OK, "%s: %s", GOOD[k], env.message);
        cr_expect_eq(sn_wrap_verify(m, "test"), SN_OK, "%s: %s", GOOD[k], env.message);
    }
}

#define AT(n, kind, step) "test: W" #n ": wrapper @main, step " #step " (" kind "): "

#define PREPARE "prepare { alloc t size 1024 offset 0 alloc u size 1024 offset 1024 call @b(t, u) }"

static const struct {
    const char *steps, *message;
} BROKEN[] = {
    {"prepare { check x }", AT(13, "check", 0) "nothing to prepare"},
    {"prepare { alloc t size 1024 offset 0 call @a(x, t) }", AT(13, "call", 1) "x is of a run"},
    {"prepare { alloc t size 1024 offset 1280 }",
     AT(7, "alloc", 0) "t (1024 bytes at 1280) is outside the prepared memory of 2048 bytes"},
    {PREPARE "free u", AT(14, "free", 3) "u was prepared for all runs"},
    {PREPARE "reuse s from u", AT(14, "reuse", 3) "u was prepared for all runs"},
    {PREPARE "call @b(t, u)", AT(14, "call", 3) "u was prepared for all runs"},
    {"check t", AT(1, "check", 0) "t has the scope temp"},
    {"alloc y size 1024 offset 0", AT(1, "alloc", 0) "y has the scope output"},
    {"reuse y from t", AT(1, "reuse", 0) "y has the scope output"},
    {"copy x from x size 4", AT(1, "copy", 0) "x is both source and target"},
    {"alloc t size 1024 offset 0 alloc t size 1024 offset 1024", AT(2, "alloc", 1) "t has a place already"},
    {"alloc t size 1024 offset 0 free t alloc t size 1024 offset 0", AT(2, "alloc", 2) "t has a place already"},
    {"alloc t size 1024 offset 0 alloc u size 1024 offset 1024 reuse t from u",
     AT(2, "reuse", 2) "t has a place already"},
    {"call @a(x, t)", AT(3, "call", 0) "t has no place yet"},
    {"free t", AT(3, "free", 0) "t has no place yet"},
    {"reuse t from u", AT(3, "reuse", 0) "u has no place yet"},
    {"copy y from t size 4", AT(3, "copy", 0) "t has no place yet"},
    {"alloc t size 1024 offset 0 free t call @a(x, t)", AT(4, "call", 2) "t was freed before"},
    {"alloc t size 1024 offset 0 free t free t", AT(4, "free", 2) "t was freed before"},
    {"alloc t size 1024 offset 0 call @a(x, t) reuse u from t call @b(t, u) copy y from t size 4",
     AT(4, "copy", 4) "the storage of t was taken by u"},
    {"reuse t from y call @a(x, t) alloc u size 1024 offset 0 call @b(t, u) call @c(u, y) copy x from t size 4",
     AT(4, "copy", 5) "the storage of t was taken by y"},
    {"alloc t size 1024 offset 0 reuse v from t", AT(5, "reuse", 1) "v and t differ in size"},
    {"alloc s size 1024 offset 0 reuse t from s", AT(5, "reuse", 1) "s is not as aligned as t has to be"},
    {"reuse t from x", AT(5, "reuse", 0) "x has the scope input: its storage cannot be reused"},
    {"alloc u size 1024 offset 1024 call @c(u, y) reuse t from y", AT(5, "reuse", 2) "output y was written before"},
    {"reuse t from y reuse u from y", AT(6, "reuse", 1) "t is alive in the storage of y"},
    {"alloc t size 1024 offset 0 free t alloc v size 512 offset 512 reuse u from t",
     AT(6, "reuse", 3) "v is alive in the storage of t"},
    {"alloc t size 1020 offset 0", AT(7, "alloc", 0) "t needs 1024 bytes, not 1020"},
    {"alloc t size 1024 offset 128", AT(7, "alloc", 0) "offset 128 of t is no multiple of 256"},
    {"alloc t size 1024 offset 3328",
     AT(7, "alloc", 0) "t (1024 bytes at 3328) is outside the workspace of 4096 bytes"},
    {"alloc t size 1024 offset 0 alloc u size 1024 offset 768", AT(8, "alloc", 1) "u overlaps t, which is alive"},
    {"alloc w size 4*N offset 0 alloc u size 1024 offset 0", AT(8, "alloc", 1) "u overlaps w, which is alive"},
    {"alloc t size 1024 offset 0 reuse u from t alloc v size 512 offset 512",
     AT(8, "alloc", 2) "v overlaps t, which is alive"},
    {"alloc t size 1024 offset 0 call @a(x, t)", AT(9, "end", 2) "@b is never called"},
    {"alloc t size 0 - 4 offset 0", AT(10, "alloc", 0) "the size is -4"},
    {"alloc t size 1024 offset 0 copy y from t size 2048", AT(10, "copy", 1) "copies 2048 bytes, y has 1024"},
};

Test(wrap, each_invariant_has_a_breaker) {
    for (size_t k = 0; k < SN_COUNT(BROKEN); k++) {
        fresh();
        cr_assert_eq(parse_steps(BROKEN[k].steps), SN_OK, "%s: %s", BROKEN[k].steps, env.message);
        cr_expect_eq(sn_wrap_verify(m, "test"), SN_ERROR_VERIFY, "%s", BROKEN[k].steps);
        cr_expect_str_eq(env.message, BROKEN[k].message, "%s: %s", BROKEN[k].steps, env.message);
    }
}

/* What was in an input is gone once a kernel stores to the output that lives there. */
Test(wrap, states_end_with_a_store) {
    static const struct {
        const char *steps, *message;
    } CASES[] = {{"call @k(s, y) call @put(x, n)", NULL},
                 {"call @k(s, n)", NULL},
                 {"call @put(x, n) call @k(n, y)", NULL},
                 {"call @put(x, n) call @k(s, y) copy s from n size 1024", NULL},
                 {"call @put(x, n) call @k(s, y)", AT(4, "call", 1) "the storage of s was taken by n"},
                 {"call @put(x, n) copy y from s size 1024", AT(4, "copy", 1) "the storage of s was taken by n"},
                 {"call @far(s, n)", AT(12, "call", 0) "s is noalias, and another argument has its storage"}};
    for (size_t k = 0; k < SN_COUNT(CASES); k++) {
        sn_text t;
        fresh();
        sn_text_init(&t, &env);
        sn_text_printf(
            &t,
            "graph @main(%%x: f32[256], %%s: f32[256]) { %%y = exp %%s  %%n = exp %%x  return y = %%y, n = %%n writes %%s }\n"
            "buffer x: f32[256] input 0\nbuffer s: f32[256] input 1\n"
            "buffer y: f32[256] output 0\nbuffer n: f32[256] output 1\n"
            "kernel @k(a: f32[256] in, b: f32[256] out) { loop i in 256 { %%0 = load a[i] store b[i], %%0 } }\n"
            "kernel @put(a: f32[256] in, b: f32[256] out) { loop i in 256 { %%0 = load a[i] store b[i], %%0 } }\n"
            "kernel @far(a: f32[256] in noalias, b: f32[256] out) { loop i in 256 { %%0 = load a[i] store b[i], %%0 } }\n"
            "wrapper @main workspace 0 {\n%s\n}\n",
            CASES[k].steps);
        sn_module *of = sn_module_new(&env);
        cr_assert_eq(sn_module_parse(of, "test.sn", t.s, t.n), SN_OK, "%s", env.message);
        sn_status status = sn_wrap_verify(of, "test");
        if (CASES[k].message) cr_expect_str_eq(env.message, CASES[k].message);
        else
            cr_expect(status == SN_OK || strstr(env.message, "is never called"), "%s: %s", CASES[k].steps, env.message);
        sn_module_free(of);
        sn_text_free(&t);
        sn_env_clear(&env);
    }
}

/* A call of one more kernel, whose arguments do not fit. */
Test(wrap, arguments_fit_formals) {
    static const struct {
        const char *params, *steps, *message;
    } BAD[] = {
        {"t, u", "call @k()", AT(9, "call", 0) "the parameters of @k are no formals"},
        {"t: f32[256] in, u: f32[256] out", "call @k(x)",
         AT(11, "call", 0) "@k has 2 parameters, the call 1 arguments"},
        {"t: f32[256] in, u: f32[256] out", "call @k(i, y)", AT(11, "call", 0) "i is i32, t is f32"},
        {"t: f32[256] in, u: f32[256] out", "call @k(x, o)", AT(11, "call", 0) "o is a const"},
        {"t: f32[300] in, u: f32[256] out", "call @k(x, y)",
         AT(11, "call", 0) "x has 256 elements from 0 on, t has 300"},
        {"t: f32[256] in align 32, u: f32[256] out", "call @k(x, y)",
         AT(11, "call", 0) "element 0 of x is not aligned to 32 bytes as t is"},
        {"t: f32[8] in, u: f32[256] out", "call @k(x + 252, y)",
         AT(11, "call", 0) "x has 4 elements from 252 on, t has 8"},
        {"t: f32[8] in, u: f32[256] out", "call @k(x + 257, y)",
         AT(11, "call", 0) "x has 0 elements from 257 on, t has 8"},
        {"t: f32[8] in, u: f32[256] out", "call @k(x + -1, y)", AT(11, "call", 0) "element -1 of x is outside of it"},
        {"t: f32[8] in align 16, u: f32[256] out", "call @k(x + 2, y)",
         AT(11, "call", 0) "element 2 of x is not aligned to 16 bytes as t is"},
        {"t: f32[256] in, u: f32[256] out noalias", "call @k(y, y)",
         AT(12, "call", 0) "y is noalias, and another argument has its storage"},
        {"t: f32[256] in noalias, u: f32[256] out", "reuse t from y call @k(t, y)",
         AT(12, "call", 1) "t is noalias, and another argument has its storage"},
        {"t: f32[256] in invariant, u: f32[256] out", "reuse t from y call @k(t, y)",
         AT(12, "call", 1) "t is invariant, and its storage is stored to"},
    };
    for (size_t k = 0; k < SN_COUNT(BAD); k++) {
        char text[1024];
        fresh();
        snprintf(text, sizeof text,
                 "buffer i: i32[256] input 1\nbuffer o: f32[256] const weight \"w\"\n"
                 "kernel @k(%s) { loop i in 256 { %%0 = load t[i] store u[i], %%0 } }\n"
                 "wrapper @main workspace 4096 {\n%s}\n",
                 BAD[k].params, BAD[k].steps);
        cr_assert_eq(parse_wrapper(text), SN_OK, "%s: %s", text, env.message);
        cr_expect_eq(sn_wrap_verify(m, "test"), SN_ERROR_VERIFY, "%s", text);
        cr_expect_str_eq(env.message, BAD[k].message, "%s: %s", text, env.message);
    }
}

/* What text cannot say. */
Test(wrap, broken_records) {
    static const struct {
        sn_step step;
        const char *message;
    } BAD[] = {
        {{.kind = SN_STEP_CHECK}, AT(1, "check", 0) "there is no buffer 0"},
        {{.kind = SN_STEP_FREE, .buf = {99}}, AT(1, "free", 0) "there is no buffer 99"},
        {{.kind = SN_STEP_REUSE, .buf = {2}}, AT(1, "reuse", 0) "there is no buffer 0"},
        {{.kind = SN_STEP_CALL}, AT(1, "call", 0) "the kernel is not in the module"},
        {{.kind = SN_STEP_ALLOC, .buf = {2}}, AT(10, "alloc", 0) "t has no size"},
    };
    for (size_t k = 0; k < SN_COUNT(BAD); k++) {
        fresh();
        cr_assert_eq(parse_head(), SN_OK);
        sn_wrap_add(m, BAD[k].step);
        cr_expect_eq(sn_wrap_verify(m, "test"), SN_ERROR_VERIFY);
        cr_expect_str_eq(env.message, BAD[k].message, "%s", env.message);
    }
    fresh();
    cr_assert_eq(parse_head(), SN_OK);
    sn_ix axis = sn_ix_axis(m, sn_axis_new(m, "i", sn_ix_const(m, 4)));
    sn_wrap_add(m, (sn_step){.kind = SN_STEP_ALLOC, .buf = {2}, .size = axis});
    cr_expect_eq(sn_wrap_verify(m, "test"), SN_ERROR_VERIFY);
    cr_expect_str_eq(env.message, AT(10, "alloc", 0) "the size is not an expression over symbols");
}
