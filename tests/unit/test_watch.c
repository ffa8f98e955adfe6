/* test_watch.c: runs that somebody looks at: what kernels read and write is shown in their order and as it is, and the first
 * kernel that makes a nan ends the run, in its words.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "include/sinter/sinter.h"

enum { ROWS = 3, COLUMNS = 5, N = ROWS * COLUMNS, MOST = 64 };

typedef struct bench {
    sn_context *ctx;
    sn_program *p;
    sn_tensor *in[2], *out[2];
} bench;

static bench start(const char *text) {
    bench b = {0};
    sn_graph *g;
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    cr_assert_eq(sn_context_create(&b.ctx, NULL), SN_OK);
    cr_assert_eq(sn_graph_from_text(&g, b.ctx, "f", text, strlen(text)), SN_OK, "%s", sn_error(b.ctx));
    cr_assert_eq(sn_compile(&b.p, g, &o), SN_OK, "%s", sn_error(b.ctx));
    sn_graph_destroy(g);
    for (unsigned k = 0; k < sn_program_input_count(b.p); k++)
        cr_assert_eq(sn_tensor_for_input(&b.in[k], b.p, k), SN_OK);
    for (unsigned k = 0; k < sn_program_output_count(b.p); k++)
        cr_assert_eq(sn_tensor_for_output(&b.out[k], b.p, k), SN_OK);
    return b;
}

static void finish(bench *b) {
    for (int k = 0; k < 2; k++) sn_tensor_destroy(b->in[k]), sn_tensor_destroy(b->out[k]);
    sn_program_destroy(b->p);
    sn_context_destroy(b->ctx);
}

static void fill(sn_tensor *t, double first, double step) {
    float x[N];
    sn_tensor_info info;
    sn_tensor_get_info(&info, t);
    for (int64_t i = 0; i < info.numel; i++) x[i] = (float)(first + step * (double)i);
    cr_assert_eq(sn_tensor_write(t, x, (size_t)info.numel * sizeof *x), SN_OK);
}

/* What was shown, in its order. */
typedef struct record {
    unsigned n, most; /* most: ends the run after so many; 0: never */
    sn_watched at[MOST];
    float elements[MOST][N];
} record;

static bool note(void *user, const sn_watched *w) {
    record *r = user;
    cr_assert_lt(r->n, MOST);
    cr_assert_leq(w->numel, N);
    memcpy(r->elements[r->n], w->elements, (size_t)w->numel * sizeof(float));
    r->at[r->n++] = *w;
    return !r->most || r->n < r->most;
}

static sn_status watch(bench *b, sn_watch_options o) {
    o.struct_size = sizeof o;
    return sn_run_watched(b->p, b->in, b->out, NULL, &o);
}

/* Sums of rows, and of columns of what they are subtracted from: two kernels at least, with values between them. */
static const char chain[] = "graph @f(%x: f32[3, 5]) {\n"
                            "  %s = sum %x axes=[1]\n"
                            "  %c = unsqueeze %s axes=[1]\n"
                            "  %d = sub %x, %c\n"
                            "  %t = cumsum %d axis=1\n"
                            "  %y = sum %t axes=[0]\n"
                            "  return y = %y, t = %t\n"
                            "}\n";

static void same(int *writes, const sn_watched *w, const float *shown, const float *wanted) {
    *writes += w->written;
    cr_expect_arr_eq(shown, wanted, (size_t)w->numel * sizeof *shown, "%s", w->buffer);
}

Test(watch, arguments_are_what_the_run_has) {
    bench b = start(chain);
    record r = {0};
    float y[COLUMNS], t[N], x[N];
    fill(b.in[0], -2, 0.5);
    cr_assert_eq(watch(&b, (sn_watch_options){.watch = note, .user = &r, .reads = true}), SN_OK, "%s", sn_error(b.ctx));
    cr_assert_eq(sn_tensor_read(y, b.out[0], sizeof y), SN_OK);
    cr_assert_eq(sn_tensor_read(t, b.out[1], sizeof t), SN_OK);
    cr_assert_eq(sn_tensor_read(x, b.in[0], sizeof x), SN_OK);
    int writes = 0;
    for (unsigned k = 0; k < r.n; k++) {
        const sn_watched *w = &r.at[k];
        if (k) cr_expect_geq(w->call, r.at[k - 1].call);
        cr_expect_eq(w->dtype, SN_F32);
        if (!strcmp(w->buffer, "x")) same(&writes, w, r.elements[k], x);
        if (!strcmp(w->buffer, "y")) same(&writes, w, r.elements[k], y);
        if (!strcmp(w->buffer, "t")) same(&writes, w, r.elements[k], t);
    }
    cr_expect_gt(r.n, 2);
    cr_expect_eq(writes, 2);
    finish(&b);
}

Test(watch, figures) {
    bench b = start("graph @f(%x: f32[3, 5]) {\n  %y = log %x\n  return y = %y\n}\n");
    record r = {0};
    float x[N];
    for (int i = 0; i < N; i++) x[i] = expf((float)i - 7);
    x[0] = 0, x[1] = -1, x[2] = INFINITY, x[3] = NAN;
    cr_assert_eq(sn_tensor_write(b.in[0], x, sizeof x), SN_OK);
    cr_assert_eq(watch(&b, (sn_watch_options){.watch = note, .user = &r}), SN_OK, "%s", sn_error(b.ctx));
    cr_assert_eq(r.n, 1);
    const sn_watched *w = &r.at[0];
    cr_expect(w->written);
    cr_expect_str_eq(w->made_of, "log");
    cr_expect_str_eq(w->buffer, "y");
    cr_expect_eq(w->numel, N);
    cr_expect_eq(w->nans, 2);
    cr_expect_eq(w->infinities, 2);
    cr_expect_float_eq(w->least, -3, 1e-5);
    cr_expect_float_eq(w->most, 7, 1e-5);
    cr_expect_float_eq(w->mean, 2, 1e-5);
    cr_expect_float_eq(w->deviation, sqrt(10), 1e-5); /* of -3 .. 7: (n^2 - 1) / 12 with n = 11 */
    finish(&b);
}

Test(watch, the_first_kernel_that_makes_a_nan) {
    bench b = start("graph @f(%x: f32[3, 5]) {\n"
                    "  %s = sum %x axes=[1]\n"
                    "  %l = log %s\n"
                    "  %t = cumsum %l axis=0\n"
                    "  %y = sum %t axes=[0]\n"
                    "  return t = %t, y = %y\n"
                    "}\n");
    fill(b.in[0], 1, 1);
    cr_expect_eq(watch(&b, (sn_watch_options){.stop_at = "nan"}), SN_OK, "%s", sn_error(b.ctx));
    fill(b.in[0], 9, -1); /* sums of rows: 35, 10, -15 */
    cr_expect_eq(watch(&b, (sn_watch_options){.stop_at = "nan"}), SN_ERROR_MISMATCH);
    cr_expect(strstr(sn_error(b.ctx), " writes nan to "), "%s", sn_error(b.ctx));
    cr_expect(strstr(sn_error(b.ctx), " at [2]; there was none in what it reads"), "%s", sn_error(b.ctx));
    cr_expect(strstr(sn_error(b.ctx), "log"), "%s", sn_error(b.ctx));
    fill(b.in[0], NAN, 0);
    cr_expect_eq(watch(&b, (sn_watch_options){.stop_at = "nan"}), SN_ERROR_MISMATCH);
    cr_expect(strstr(sn_error(b.ctx), "there was one in x already"), "%s", sn_error(b.ctx));
    fill(b.in[0], 0, 0); /* log 0 */
    cr_expect_eq(watch(&b, (sn_watch_options){.stop_at = "nan"}), SN_OK, "%s", sn_error(b.ctx));
    cr_expect_eq(watch(&b, (sn_watch_options){.stop_at = "infinity"}), SN_ERROR_MISMATCH);
    cr_expect(strstr(sn_error(b.ctx), "an infinity"), "%s", sn_error(b.ctx));
    cr_expect_eq(sn_run(b.p, b.in, b.out, NULL), SN_OK, "%s", sn_error(b.ctx));
    finish(&b);
}

/* What lies in an output before a run is nobody's, and what a run leaves there again counts. */
Test(watch, a_nan_that_was_there_before) {
    bench b = start("graph @f(%x: f32[3, 5], %y: f32[3, 5]) {\n"
                    "  %a = cumsum %x axis=0\n"
                    "  %b = cumsum %y axis=1\n"
                    "  %z = concat %a, %b axis=1\n"
                    "  return z = %z\n"
                    "}\n");
    float nans[2 * N], z[2 * N];
    for (int i = 0; i < 2 * N; i++) nans[i] = NAN;
    fill(b.in[0], 1, 1);
    fill(b.in[1], 1, 1);
    cr_assert_eq(sn_tensor_write(b.out[0], nans, sizeof nans), SN_OK);
    cr_expect_eq(watch(&b, (sn_watch_options){.stop_at = "infinity"}), SN_OK, "%s", sn_error(b.ctx));
    cr_assert_eq(sn_tensor_read(z, b.out[0], sizeof z), SN_OK);
    for (int i = 0; i < 2 * N; i++) cr_expect(isfinite(z[i]));
    fill(b.in[1], NAN, 0);
    for (int again = 0; again < 2; again++) {
        cr_expect_eq(watch(&b, (sn_watch_options){.stop_at = "nan"}), SN_ERROR_MISMATCH);
        cr_expect(strstr(sn_error(b.ctx), "writes nan to"), "%s", sn_error(b.ctx));
    }
    finish(&b);
}

/* What is written in place is read as the run has it. */
Test(watch, an_infinity_that_is_read_in_place) {
    bench b = start("graph @f(%x: f32[3, 5]) {\n"
                    "  %y = div 1.0, %x\n"
                    "  return y = %y writes %x\n"
                    "}\n");
    float x[N];
    fill(b.in[0], INFINITY, 0);
    b.out[0] = (sn_tensor_destroy(b.out[0]), NULL);
    cr_expect_eq(watch(&b, (sn_watch_options){.stop_at = "infinity"}), SN_OK, "%s", sn_error(b.ctx));
    cr_assert_eq(sn_tensor_read(x, b.in[0], sizeof x), SN_OK);
    for (int i = 0; i < N; i++) cr_expect_eq(x[i], 0);
    finish(&b);
}

Test(watch, some_kernels_and_an_early_end) {
    bench b = start(chain);
    record all = {0}, some = {0}, few = {.most = 1};
    fill(b.in[0], 0, 1);
    cr_assert_eq(watch(&b, (sn_watch_options){.watch = note, .user = &all}), SN_OK);
    const char *last = all.at[all.n - 1].kernel;
    cr_assert_str_neq(last, all.at[0].kernel);
    cr_assert_eq(watch(&b, (sn_watch_options){.watch = note, .user = &some, .kernels = last}), SN_OK);
    cr_assert_gt(some.n, 0);
    cr_expect_lt(some.n, all.n);
    for (unsigned k = 0; k < some.n; k++) cr_expect_str_eq(some.at[k].kernel, last);
    cr_expect_eq(some.at[0].call, all.at[all.n - 1].call);
    cr_expect_eq(watch(&b, (sn_watch_options){.watch = note, .user = &few}), SN_ERROR_ARGUMENT);
    cr_expect_eq(few.n, 1);
    cr_expect(strstr(sn_error(b.ctx), "ended by who watches it"), "%s", sn_error(b.ctx));
    finish(&b);
}

/* Storage of an input with strides: less or more than its shape says. */
Test(watch, inputs_with_strides) {
    bench b = start("graph @f(%x: f32[3, 5] strides [0, 1], %z: f32[2, 2] strides [5, 2]) {\n"
                    "  %y = neg %x\n"
                    "  %w = exp %z\n"
                    "  return y = %y, w = %w\n"
                    "}\n");
    record r = {0};
    float x[N] = {0};
    cr_assert_eq(sn_tensor_write(b.in[0], x, sizeof x), SN_OK);
    cr_assert_eq(sn_tensor_write(b.in[1], x, 4 * sizeof *x), SN_OK);
    cr_assert_eq(watch(&b, (sn_watch_options){.watch = note, .user = &r, .reads = true}), SN_OK, "%s", sn_error(b.ctx));
    for (unsigned k = 0; k < r.n; k++) {
        if (!strcmp(r.at[k].buffer, "x")) cr_expect(r.at[k].rank == 1 && r.at[k].shape[0] == 5 && r.at[k].numel == 5);
        if (!strcmp(r.at[k].buffer, "z")) cr_expect(r.at[k].rank == 1 && r.at[k].shape[0] == 8 && r.at[k].numel == 8);
    }
    cr_expect_geq(r.n, 4);
    finish(&b);
}

Test(watch, what_makes_no_sense) {
    bench b = start(chain);
    record r = {0};
    cr_expect_eq(watch(&b, (sn_watch_options){.stop_at = NULL}), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_error(b.ctx), "nobody looks"), "%s", sn_error(b.ctx));
    cr_expect_eq(watch(&b, (sn_watch_options){.watch = note, .user = &r, .kernels = "k0,nothing"}), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_error(b.ctx), "no kernel nothing; there are: k0, "), "%s", sn_error(b.ctx));
    cr_expect_eq(watch(&b, (sn_watch_options){.stop_at = "zero"}), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_error(b.ctx), "nan or infinity is wanted"), "%s", sn_error(b.ctx));
    cr_expect_eq(sn_run_watched(b.p, b.in, b.out, NULL, NULL), SN_ERROR_ARGUMENT);
    cr_expect_eq(sn_run_watched(NULL, b.in, b.out, NULL, NULL), SN_ERROR_ARGUMENT);
    cr_expect_eq(r.n, 0);
    finish(&b);
}

/* A program that says where it builds is told where the nan comes from: the line of the call, in this file. */
Test(watch, a_nan_names_the_line_that_built_it) {
    sn_context *ctx;
    sn_graph *g;
    sn_program *p;
    sn_tensor *in, *out;
    sn_kernel_info info;
    char line[32], built[80];
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    sn_watch_options stop = {.struct_size = sizeof stop, .stop_at = "nan"};
    cr_assert_eq(sn_context_create(&ctx, NULL), SN_OK);
    cr_assert_eq(sn_graph_create(&g, ctx, "f"), SN_OK);
    sn_node x = sn_input(g, "x", SN_F32, SN_LIST(3, 5));
    sn_node y = sn_log(SN_HERE(g), x);
    snprintf(line, sizeof line, "test_watch.c:%d", __LINE__ - 1);
    sn_output(g, "y", sn_sum(SN_HERE(g), y, SN_LIST(1), false));
    snprintf(built, sizeof built, "%s, test_watch.c:%d", line, __LINE__ - 1);
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(ctx));
    cr_assert_eq(sn_program_kernel(&info, p, 0), SN_OK);
    cr_expect_str_eq(info.from, built);
    cr_assert(sn_tensor_for_input(&in, p, 0) == SN_OK && sn_tensor_for_output(&out, p, 0) == SN_OK);
    fill(in, -1, 0);
    cr_expect_eq(sn_run_watched(p, &in, &out, NULL, &stop), SN_ERROR_MISMATCH);
    cr_expect_not_null(strstr(sn_error(ctx), line), "%s", sn_error(ctx));
    snprintf(built, sizeof built, "; log makes it, of %s", line);
    cr_expect_not_null(strstr(sn_error(ctx), built), "%s", sn_error(ctx));
    cr_expect_null(strstr(sn_error(ctx), "tests/unit"), "%s", sn_error(ctx));
    sn_tensor_destroy(in);
    sn_tensor_destroy(out);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    sn_context_destroy(ctx);
}

/* ---- the option debug ---- */

typedef struct lines {
    int n;
    char text[4096];
} lines;

static void on_line(void *user, const char *text) {
    lines *l = user;
    l->n++;
    cr_assert_lt(strlen(l->text) + strlen(text), sizeof l->text);
    strcat(l->text, text);
}

static sn_program *debugged(sn_context **ctx, lines *l, const char *words, const char *kernels) {
    sn_context_options c = {.struct_size = sizeof c, .log = on_line, .log_user = l};
    sn_compile_options o = {
        .struct_size = sizeof o, .device = "cpu", .threads = 1, .debug = words, .debug_kernels = kernels};
    sn_graph *g;
    sn_program *p = NULL;
    *l = (lines){0};
    cr_assert_eq(sn_context_create(ctx, &c), SN_OK);
    cr_assert_eq(sn_graph_from_text(&g, *ctx, "f", chain, sizeof chain - 1), SN_OK);
    sn_compile(&p, g, &o);
    sn_graph_destroy(g);
    return p;
}

static void run_debugged(sn_context *ctx, sn_program *p, bool state, double first, sn_status want) {
    sn_tensor *x, *out[2];
    sn_run_state *st;
    cr_assert_eq(sn_tensor_for_input(&x, p, 0), SN_OK);
    for (unsigned k = 0; k < 2; k++) cr_assert_eq(sn_tensor_for_output(&out[k], p, k), SN_OK);
    fill(x, first, 1);
    if (state) {
        cr_assert_eq(sn_run_state_create(&st, p), SN_OK);
        cr_expect_eq(sn_run_with(st, &x, out, NULL), want, "%s", sn_run_state_error(st));
        if (want != SN_OK) cr_expect_not_null(strstr(sn_run_state_error(st), "there was one in x already"));
        sn_run_state_destroy(st);
    } else {
        cr_expect_eq(sn_run(p, &x, out, NULL), want, "%s", sn_error(ctx));
        if (want != SN_OK) cr_expect_not_null(strstr(sn_error(ctx), "there was one in x already"));
    }
    sn_tensor_destroy(x);
    for (unsigned k = 0; k < 2; k++) sn_tensor_destroy(out[k]);
}

Test(debug, every_run_says_what_it_does) {
    sn_context *ctx;
    lines l;
    for (int state = 0; state < 2; state++) {
        sn_program *p = debugged(&ctx, &l, "names", NULL);
        cr_assert_not_null(p, "%s", sn_error(ctx));
        run_debugged(ctx, p, state, 0, SN_OK);
        sn_program_info info;
        sn_program_get_info(&info, p);
        cr_expect_eq(l.n, (int)info.n_launches);
        cr_expect_eq(strncmp(l.text, "0 k0 (", 6), 0, "%s", l.text);
        sn_program_destroy(p);
        sn_context_destroy(ctx);
        p = debugged(&ctx, &l, "print,stop-at-nan", "k0");
        run_debugged(ctx, p, state, 0, SN_OK);
        cr_expect_not_null(strstr(l.text, "0 k0 (sum"), "%s", l.text);
        cr_expect_null(strstr(l.text, "1 k"), "%s", l.text);
        run_debugged(ctx, p, state, NAN, SN_ERROR_MISMATCH);
        sn_program_destroy(p);
        sn_context_destroy(ctx);
    }
}

Test(debug, off_and_what_makes_no_sense) {
    sn_context *ctx;
    lines l;
    sn_program *p = debugged(&ctx, &l, "off", "k0");
    run_debugged(ctx, p, false, NAN, SN_OK);
    cr_expect_eq(l.n, 0);
    sn_program_destroy(p);
    sn_context_destroy(ctx);
    cr_expect_null(debugged(&ctx, &l, "names,all", NULL));
    cr_expect_str_eq(sn_error(ctx),
                     "debug: 'all' is none of off, names, print, save, stop-at-nan, stop-at-infinity, nvtx");
    sn_context_destroy(ctx);
    cr_expect_null(debugged(&ctx, &l, "names", "k77"));
    cr_expect(strstr(sn_error(ctx), "debug_kernels: no kernel k77; there are: k0, "), "%s", sn_error(ctx));
    sn_context_destroy(ctx);
}
