/* test_multi.c: kernels with several schedules, through the public interface, on the CPU with kernels of a GPU. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sinter/sinter.h>

enum { ROWS = 1024, COLUMNS = 4096, N = ROWS * COLUMNS };

/* In place: what a member that is only timed did to %x would be seen. */
static const char SOFTMAX[] =
    "graph @g(%x: f32[1024, 4096]) {\n  %y = softmax %x axis=1\n  return y = %y writes %x\n}\n";
static const char TWICE[] = "graph @g(%x: f32[1024, 4096]) {\n  %a = softmax %x axis=1\n  %b = softmax %a axis=1\n"
                            "  %c = add %b, %x\n  return y = %c writes %x\n}\n";

static char folder[64];
static char log_text[2000];

static void setup(void) {
    strcpy(folder, "/tmp/sinter-multi-XXXXXX");
    cr_assert(mkdtemp(folder));
}

static void teardown(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(multi, .init = setup, .fini = teardown);

static void log_line(void *user, const char *text) {
    (void)user;
    strncat(log_text, text, sizeof log_text - 1 - strlen(log_text));
}

typedef struct made {
    sn_context *ctx;
    sn_program *p;
    sn_program_info info;
} made;

static sn_status make(made *m, const char *text, const char *multi, const char *pipeline) {
    sn_compile_options o = {
        .struct_size = sizeof o, .device = "cpu", .cpu_schedule = "gpu", .target = "sm_90a", .threads = 1};
    sn_context_options options = {.struct_size = sizeof options, .log = log_line};
    sn_graph *g = NULL;
    memset(m, 0, sizeof *m);
    o.record_dir = folder;
    o.multi_kernel = multi;
    o.pipeline = pipeline;
    cr_assert_eq(sn_context_create(&m->ctx, &options), SN_OK);
    cr_assert_eq(sn_graph_from_text(&g, m->ctx, "g", text, strlen(text)), SN_OK, "%s", sn_error(m->ctx));
    sn_status status = sn_compile(&m->p, g, &o);
    char error[500];
    snprintf(error, sizeof error, "%s", sn_error(m->ctx));
    sn_graph_destroy(g);
    if (status == SN_OK) sn_program_get_info(&m->info, m->p);
    else log_line(NULL, error);
    return status;
}

static void drop(made *m) {
    sn_program_destroy(m->p);
    sn_context_destroy(m->ctx);
}

/* x after a run that updates it in place. free it. */
static float *run(made *m) {
    sn_tensor *x, *none[1] = {NULL};
    float *data = malloc(N * sizeof *data);
    for (int i = 0; i < N; i++) data[i] = (float)((unsigned)i * 7919u % 2003u) / 500.0f;
    cr_assert_eq(sn_tensor_for_input(&x, m->p, 0), SN_OK);
    cr_assert_eq(sn_tensor_write(x, data, N * sizeof *data), SN_OK);
    cr_assert_eq(sn_run(m->p, &x, none, NULL), SN_OK, "%s", sn_error(m->ctx));
    cr_assert_eq(sn_tensor_read(data, x, N * sizeof *data), SN_OK);
    sn_tensor_destroy(x);
    return data;
}

/* The kind that runs; *n: how many kernels were timed. */
static void chosen_kind(char kind[32], unsigned *n, const made *m) {
    unsigned running = 0;
    *n = 0;
    for (unsigned i = 0; i < m->info.n_kernels; i++) {
        sn_kernel_info k;
        cr_assert_eq(sn_program_kernel(&k, m->p, i), SN_OK);
        *n += k.chosen_us > 0;
        if (!k.runs || (k.chosen_us <= 0 && m->info.n_timed)) continue;
        running++;
        snprintf(kind, 32, "%s", k.kind);
        cr_assert(k.schedule[0]);
    }
    cr_assert_eq(running, 1);
}

Test(multi, off_unless_asked_for) {
    made m;
    cr_assert_eq(make(&m, SOFTMAX, NULL, NULL), SN_OK, "%s", log_text);
    cr_assert_eq(m.info.n_choices, 0);
    cr_assert_eq(m.info.n_kernels, 1);
    drop(&m);
    cr_assert_eq(make(&m, SOFTMAX, "some", NULL), SN_ERROR_ARGUMENT);
    cr_assert(strstr(log_text, "multi_kernel: 'some' is none of off, reductions, all"), "%s", log_text);
    drop(&m);
}

/* The first program times and records, what it gives is what the chosen member gives alone, and the second one times nothing. */
Test(multi, chooses_once_and_harms_nothing) {
    const char *const texts[] = {SOFTMAX, TWICE};
    for (int t = 0; t < 2; t++) {
        made first, alone, second;
        char kind[32], same[32], forced[64];
        unsigned n;
        cr_assert_eq(make(&first, texts[t], "reductions", NULL), SN_OK, "%s", log_text);
        cr_assert(first.info.n_choices >= 1 && first.info.n_timed == first.info.n_choices && first.info.choose_us > 0);
        chosen_kind(kind, &n, &first);
        cr_assert(n >= 2, "%u timed", n);
        snprintf(forced, sizeof forced, "reductions,%s", kind);
        cr_assert_eq(make(&alone, texts[t], forced, NULL), SN_OK, "%s", log_text);
        cr_assert_eq(alone.info.n_timed, 0);
        cr_assert_eq(make(&second, texts[t], "reductions", NULL), SN_OK, "%s", log_text);
        cr_assert_eq(second.info.n_timed, 0);
        cr_assert(second.info.n_choices == first.info.n_choices && second.info.n_kernels < first.info.n_kernels);
        float *a = run(&first), *b = run(&alone), *c = run(&second), *again = run(&first);
        cr_assert_eq(memcmp(a, b, N * sizeof *a), 0);
        cr_assert_eq(memcmp(a, c, N * sizeof *a), 0);
        cr_assert_eq(memcmp(a, again, N * sizeof *a), 0);
        chosen_kind(same, &n, &second);
        cr_assert_str_eq(kind, same);
        free(a), free(b), free(c), free(again);
        drop(&first), drop(&alone), drop(&second);
    }
    cr_assert_str_eq(log_text, "");
}

/* A program that has chosen is saved with what it chose alone: the same bits, and nothing to time. */
Test(multi, an_image_has_what_was_chosen) {
    made m;
    char path[96], kind[32];
    unsigned timed;
    sn_program_info info;
    sn_kernel_info first, loaded;
    cr_assert_eq(make(&m, TWICE, "reductions", NULL), SN_OK, "%s", log_text);
    chosen_kind(kind, &timed, &m);
    snprintf(path, sizeof path, "%s/image.snb", folder);
    cr_assert_eq(sn_program_save(m.p, path), SN_OK, "%s", sn_error(m.ctx));
    float *a = run(&m);
    for (unsigned i = 0; i < m.info.n_kernels; i++)
        if (sn_program_kernel(&loaded, m.p, i) == SN_OK && loaded.runs) first = loaded;
    made again = {.ctx = m.ctx};
    cr_assert_eq(sn_program_load(&again.p, m.ctx, path, NULL), SN_OK, "%s", sn_error(m.ctx));
    sn_program_get_info(&info, again.p);
    cr_expect_eq(info.n_kernels, m.info.n_kernels - timed + 1);
    cr_assert_eq(sn_program_kernel(&loaded, again.p, info.n_kernels - 1), SN_OK);
    cr_expect_str_eq(loaded.name, first.name);
    float *b = run(&again);
    cr_expect_eq(memcmp(a, b, N * sizeof *a), 0);
    free(a), free(b);
    sn_program_destroy(again.p);
    drop(&m);
}

/* Any member can be had by its name, and all give the same. */
Test(multi, forced) {
    made kept, looped, flat;
    char kind[32];
    unsigned n;
    cr_assert_eq(make(&kept, SOFTMAX, "reductions,persistent", NULL), SN_OK, "%s", log_text);
    cr_assert_eq(make(&looped, SOFTMAX, "all,looped", NULL), SN_OK, "%s", log_text);
    cr_assert_eq(make(&flat, SOFTMAX, "all,no such kind", NULL), SN_OK, "%s", log_text);
    chosen_kind(kind, &n, &looped);
    cr_assert_str_eq(kind, "looped");
    chosen_kind(kind, &n, &flat);
    cr_assert_str_eq(kind, "persistent", "%s", kind);
    float *a = run(&kept), *b = run(&looped);
    for (int i = 0; i < N; i++) cr_assert(fabsf(a[i] - b[i]) <= 1e-6f * a[i], "%d: %g %g", i, a[i], b[i]);
    free(a), free(b);
    drop(&kept), drop(&looped), drop(&flat);
}

/* A compilation that fails with a folder of records of which it has used none says what is wrong, and does not try again. */
Test(multi, failing_without_a_record) {
    made m;
    cr_assert_eq(make(&m, SOFTMAX, "reductions", NULL), SN_OK, "%s", log_text);
    drop(&m);
    cr_assert_neq(make(&m, SOFTMAX, NULL, "to-loops"), SN_OK);
    cr_assert(log_text[0] && !strstr(log_text, "a recorded choice"), "%s", log_text);
    drop(&m);
}
