/* test_locale.c: a host that has set a locale: numbers and letters of what Sinter reads and writes are the C locale's, and
 * the host's locale is as it was, in its callbacks too. The locales are made with the build (SN_TEST_LOCALES).
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/sinter/sinter.h"
#include "tests/unit/onnx_file.h"

/* glibc forgets the search path that it makes of LOCPATH in each call of newlocale. Asked by the leak sanitizer. */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void) { return "leak:argz_add_sep\n"; }

/* The rest of a test runs in that locale, as after a host's setlocale(LC_ALL, ""). */
static void set_locale(const char *name) {
    setenv("LOCPATH", SN_TEST_LOCALES, 1);
    if (!setlocale(LC_ALL, name))
        cr_skip_test("there is no locale %s (localedef, and the Debian package locales)", name);
}

static bool has_comma(void) {
    char s[8];
    snprintf(s, sizeof s, "%.1f", 2.5);
    return !strcmp(s, "2,5");
}

/* A growing text. */
typedef struct heard {
    char *s;
    size_t n;
    unsigned calls, with_comma;
} heard;

static void hear(void *user, const char *text) {
    heard *h = user;
    size_t n = strlen(text);
    h->s = realloc(h->s, h->n + n + 1);
    cr_assert_not_null(h->s);
    memcpy(h->s + h->n, text, n + 1);
    h->n += n;
    h->calls++;
    h->with_comma += has_comma();
}

static void *count_realloc(void *user, void *p, size_t size) {
    heard *h = user;
    h->calls++;
    h->with_comma += has_comma();
    if (size) return realloc(p, size);
    free(p);
    return NULL;
}

/* What Sinter says about one file: its text, the module after each pass, remarks, the stages of code; or the failure. */
static void describe(heard *out, const char *path, const char *target) {
    static const char *const stages[] = {"graph", "scheduled", "llvm", "wrapper-c", "ptx"};
    sn_context_options co = {.struct_size = sizeof co, .log = hear, .log_user = out};
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .print_after = "all", .remarks = "all"};
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    char *text;
    if (target) o.device = NULL, o.target = target;
    cr_assert_eq(sn_context_create(&ctx, &co), SN_OK);
    if (sn_graph_from_file(&g, ctx, path) == SN_OK) {
        if (sn_graph_text(&text, g) == SN_OK) hear(out, text), sn_free(ctx, text);
        if (sn_compile(&p, g, &o) == SN_OK) {
            for (size_t k = 0; k < sizeof stages / sizeof *stages - !target; k++)
                if (sn_program_dump(&text, p, stages[k]) == SN_OK) hear(out, text), sn_free(ctx, text);
            sn_program_destroy(p);
        }
        sn_graph_destroy(g);
    }
    hear(out, sn_error(ctx));
    sn_context_destroy(ctx);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static char *describe_folder(const char *folder, const char *target) {
    heard h = {0};
    struct dirent **names;
    int n = scandir(folder, &names, NULL, by_name);
    cr_assert_gt(n, 10, "%s", folder);
    for (int k = 0; k < n; k++) {
        char path[1024];
        const char *end = strrchr(names[k]->d_name, '.');
        snprintf(path, sizeof path, "%s/%s", folder, names[k]->d_name);
        if (end && !strcmp(end, ".sn")) describe(&h, path, target);
        free(names[k]);
    }
    free(names);
    return h.s;
}

static void expect_same_folder(const char *folder, const char *target) {
    char *before = describe_folder(folder, target);
    set_locale("de_DE.UTF-8");
    cr_assert(has_comma());
    char *after = describe_folder(folder, target);
    size_t at = 0;
    while (before[at] && before[at] == after[at]) at++;
    cr_expect_eq(before[at], after[at], "differ at %zu: %.80s | %.80s", at, before + at, after + at);
    cr_expect(strstr(before, "remark"), "no remarks");
    free(before);
    free(after);
}

Test(locale, texts_of_all_stages_on_the_cpu) { expect_same_folder(SN_SOURCE_DIR "/tests/ops", NULL); }
Test(locale, texts_of_all_stages_for_a_gpu) { expect_same_folder(SN_SOURCE_DIR "/tests/ops", "sm_90"); }

static const char text[] = "graph @f(%x: f32[3]) {\n"
                           "  %0 = full dtype=f32 shape=[] value=2.5 : f32[]\n"
                           "  %y = mul %x, %0 : f32[3]\n"
                           "  return y = %y\n"
                           "}\n";

Test(locale, numbers_of_text_run_and_come_back) {
    set_locale("de_DE.UTF-8");
    heard memory = {0}, log = {0};
    sn_context_options co = {
        .struct_size = sizeof co, .realloc_fn = count_realloc, .realloc_user = &memory, .log = hear, .log_user = &log};
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    sn_tensor *x, *y;
    char *again;
    cr_assert_eq(sn_context_create(&ctx, &co), SN_OK);
    cr_assert_eq(sn_graph_from_text(&g, ctx, "f", text, strlen(text)), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_graph_text(&again, g), SN_OK);
    cr_expect_str_eq(again, text);
    sn_free(ctx, again);
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .print_after = "all"};
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    float in[3] = {1, 2, -4}, out[3];
    cr_assert_eq(sn_tensor_for_input(&x, p, 0), SN_OK);
    cr_assert_eq(sn_tensor_for_output(&y, p, 0), SN_OK);
    cr_assert_eq(sn_tensor_write(x, in, sizeof in), SN_OK);
    cr_assert_eq(sn_run(p, &x, &y, NULL), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_tensor_read(out, y, sizeof out), SN_OK);
    for (int k = 0; k < 3; k++) cr_expect_eq(out[k], 2.5f * in[k]);
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
    cr_expect_eq(sn_full(g, SN_I32, 2.5, 0, NULL).id, 0);
    cr_expect(strstr(sn_error(ctx), "2.5"), "%s", sn_error(ctx));
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
    cr_expect(has_comma(), "the host's locale is as it was");
    cr_expect_gt(log.calls, 0);
    cr_expect_eq(log.with_comma, log.calls, "the log is called in the host's locale");
    cr_expect_gt(memory.calls, 0);
    cr_expect_eq(memory.with_comma, memory.calls, "and so is the memory hook");
    free(log.s);
}

/* A thread of the host that has a locale of its own gets it back, after a failure too. */
Test(locale, of_one_thread) {
    setenv("LOCPATH", SN_TEST_LOCALES, 1);
    locale_t german = newlocale(LC_ALL_MASK, "de_DE.UTF-8", (locale_t)0);
    if (!german) cr_skip_test("there is no locale de_DE.UTF-8 (localedef, and the Debian package locales)");
    uselocale(german);
    sn_context *ctx;
    sn_graph *g;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    cr_expect_eq(sn_graph_from_text(&g, ctx, "f", "graph @f(", 9), SN_ERROR_SYNTAX);
    cr_expect_eq(uselocale((locale_t)0), german);
    cr_assert_eq(sn_graph_from_text(&g, ctx, "f", text, strlen(text)), SN_OK, "%s", sn_error(ctx));
    cr_expect_eq(uselocale((locale_t)0), german);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
    uselocale(LC_GLOBAL_LOCALE);
    freelocale(german);
}

/* The upper case of i is not I in Turkish. */
Test(locale, letters_are_those_of_ascii) {
    enum { STRING = 8 };
    static const char *const words[] = {"INFINITY", "-INF", "2.5"};
    set_locale("tr_TR.UTF-8");
    sn_text_tensor in = {.name = "s", .rank = 1, .shape = {3}, .at = words};
    sn_import_options o = {.struct_size = sizeof o, .texts = &in, .n_texts = 1};
    pb graph = {0}, cast = node_of("Cast", "s", "y");
    put_attr_int(&cast, "to", F32);
    put_value(&graph, GRAPH_INPUT, "s", STRING, "3");
    put_message(&graph, GRAPH_NODE, &cast);
    put_value(&graph, GRAPH_OUTPUT, "y", F32, "3");
    pb model = model_of(&graph, 17);
    sn_context *ctx;
    sn_graph *g;
    char *out;
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    cr_assert_eq(sn_import_onnx_memory(&g, ctx, "m", model.at, model.n, NULL, &o), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_graph_text(&out, g), SN_OK);
    cr_expect(strstr(out, "values=[inf, -inf, 2.5]"), "%s", out);
    sn_free(ctx, out);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}
