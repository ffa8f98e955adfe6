/* test_whole.c: whole programs in the cache: the second compilation of a graph runs no pass, gives the same bits, counts the same, and
 * answers all questions as the first; what differs in anything that matters is not found, and what is damaged is made anew.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/sinter/sinter.h"

typedef struct fixture {
    sn_context *ctx;
    char folder[64], log[4096];
} fixture;

static void keep_log(void *user, const char *text) {
    fixture *f = user;
    strncat(f->log, text, sizeof f->log - strlen(f->log) - 1);
}

static void begin(fixture *f) {
    sn_context_options o = {.struct_size = sizeof o, .log = keep_log, .log_user = f};
    *f = (fixture){.folder = "/tmp/sinter-whole-XXXXXX"};
    cr_assert(mkdtemp(f->folder));
    cr_assert_eq(sn_context_create(&f->ctx, &o), SN_OK);
}

static void end(fixture *f) {
    char command[128];
    sn_context_destroy(f->ctx);
    snprintf(command, sizeof command, "rm -rf %s", f->folder);
    cr_expect_eq(system(command), 0);
}

static const char network[] = "graph @net(%x: f32[N, 48], %row: f32[64] = [0.5]) {\n"
                              "  %w = weight name=\"w\" dtype=f32 shape=[48, 64]\n"
                              "  %c = constant values=[1, 2, 3, 4] dtype=f32 shape=[4]\n"
                              "  %v = exp %w\n"
                              "  %p = matmul %x, %v\n"
                              "  %a = add %p, %row\n"
                              "  %s = softmax %a axis=1\n"
                              "  %g = reshape %s shape=[N, 16, 4]\n"
                              "  %y = mul %g, %c\n"
                              "  return y = %y\n"
                              "}\n";
enum { ROWS = 24, ELEMENTS = ROWS * 64 };
static float weights[48 * 64];

static sn_program *compile_text(fixture *f, const char *text, int64_t n, sn_compile_options o) {
    sn_graph *g;
    sn_program *p;
    o.struct_size = sizeof o;
    o.device = "cpu";
    o.dims = &(sn_dim_binding){"N", n};
    o.n_dims = 1;
    o.tune = "off";
    if (!o.threads) o.threads = 2;
    if (!o.cache) o.cache = f->folder;
    cr_assert_eq(sn_graph_from_text(&g, f->ctx, "g.sn", text, strlen(text)), SN_OK, "%s", sn_error(f->ctx));
    cr_assert_eq(sn_graph_attach_weight(g, "w", weights, sizeof weights), SN_OK, "%s", sn_error(f->ctx));
    cr_assert_eq(sn_compile(&p, g, &o), SN_OK, "%s", sn_error(f->ctx));
    sn_graph_destroy(g);
    return p;
}

static sn_program *compile(fixture *f) { return compile_text(f, network, ROWS, (sn_compile_options){0}); }

static sn_program_info info_of(const sn_program *p) {
    sn_program_info info;
    sn_program_get_info(&info, p);
    return info;
}

static void run(float out[ELEMENTS], fixture *f, sn_program *p) {
    static float x[ROWS * 48];
    sn_tensor *in[2] = {NULL, NULL}, *y;
    for (int i = 0; i < ROWS * 48; i++) x[i] = (float)(i * 7 % 101) / 64 - 0.5f;
    cr_assert_eq(sn_tensor_for_input(&in[0], p, 0), SN_OK);
    cr_assert_eq(sn_tensor_write(in[0], x, sizeof x), SN_OK);
    cr_assert_eq(sn_tensor_for_output(&y, p, 0), SN_OK);
    cr_assert_eq(sn_run(p, in, &y, NULL), SN_OK, "%s", sn_error(f->ctx)); /* row: its default */
    cr_assert_eq(sn_tensor_read(out, y, ELEMENTS * sizeof *out), SN_OK);
    sn_tensor_destroy(in[0]);
    sn_tensor_destroy(y);
}

static void fill_weights(float scale) {
    for (int i = 0; i < 48 * 64; i++) weights[i] = scale * ((float)(i * 5 % 37) / 32 - 0.5f);
}

Test(whole, is_found_and_gives_the_same_bits) {
    fixture f;
    begin(&f);
    fill_weights(1);
    sn_program *cold = compile(&f), *warm = compile(&f);
    sn_program_info c = info_of(cold), w = info_of(warm);
    float a[ELEMENTS], b[ELEMENTS];
    cr_expect(!c.found && w.found && w.cached);
    cr_expect_str_empty(f.log);
    cr_expect_eq(w.passes_us, 0);
    cr_expect(w.n_kernels == c.n_kernels && w.n_launches == c.n_launches && w.workspace == c.workspace &&
              w.moved == c.moved);
    cr_expect(w.cache_hits == c.cache_misses && !w.cache_misses, "%u", w.cache_hits);
    run(a, &f, cold);
    run(b, &f, warm);
    cr_expect_eq(memcmp(a, b, sizeof a), 0);
    sn_program_destroy(cold);
    sn_program_destroy(warm);
    end(&f);
}

/* What was computed from them when the first was loaded is computed again. */
Test(whole, has_the_weights_of_its_graph) {
    fixture f;
    float a[ELEMENTS], b[ELEMENTS], c[ELEMENTS];
    begin(&f);
    fill_weights(1);
    sn_program *first = compile(&f);
    run(a, &f, first);
    fill_weights(2);
    sn_program *second = compile(&f), *plain = compile_text(&f, network, ROWS, (sn_compile_options){.cache = "off"});
    cr_expect(info_of(second).found && !info_of(plain).found);
    run(b, &f, second);
    run(c, &f, plain);
    cr_expect_neq(memcmp(a, b, sizeof a), 0);
    cr_expect_eq(memcmp(b, c, sizeof b), 0);
    sn_program_destroy(first);
    sn_program_destroy(second);
    sn_program_destroy(plain);
    end(&f);
}

Test(whole, counts_what_it_stands_for) {
    fixture f;
    begin(&f);
    fill_weights(1);
    uint64_t after[2][64];
    unsigned n = sn_counter_count();
    cr_assert_leq(n, 64);
    for (int round = 0; round < 2; round++) {
        sn_counters_reset(f.ctx);
        sn_program_destroy(compile(&f));
        for (unsigned k = 0; k < n; k++) cr_assert_eq(sn_counter(&after[round][k], f.ctx, sn_counter_name(k)), SN_OK);
    }
    for (unsigned k = 0; k < n; k++)
        if (strncmp(sn_counter_name(k), "cache_", 6) != 0)
            cr_expect_eq(after[0][k], after[1][k], "%s: %d, %d", sn_counter_name(k), (int)after[0][k],
                         (int)after[1][k]);
    end(&f);
}

Test(whole, answers_as_the_first_one) {
    static const char *const stages[] = {"graph", "loops", "fused", "scheduled", "llvm", "wrapper", "memory"};
    fixture f;
    begin(&f);
    fill_weights(1);
    sn_program *cold = compile(&f), *warm = compile(&f);
    cr_assert(info_of(warm).found);
    for (size_t s = 0; s < sizeof stages / sizeof *stages; s++) {
        char *a, *b;
        cr_assert_eq(sn_program_dump(&a, cold, stages[s]), SN_OK, "%s", sn_error(f.ctx));
        cr_assert_eq(sn_program_dump(&b, warm, stages[s]), SN_OK, "%s: %s", stages[s], sn_error(f.ctx));
        cr_expect_str_eq(a, b, "%s", stages[s]);
        sn_free(f.ctx, a);
        sn_free(f.ctx, b);
    }
    for (unsigned k = 0; k < info_of(cold).n_kernels; k++) {
        sn_kernel_info a, b;
        cr_assert_eq(sn_program_kernel(&a, cold, k), SN_OK);
        cr_assert_eq(sn_program_kernel(&b, warm, k), SN_OK);
        cr_expect_str_eq(a.name, b.name);
        cr_expect_str_eq(a.note, b.note);
        cr_expect_str_eq(a.from, b.from);
        cr_expect_str_eq(a.schedule, b.schedule);
        cr_expect_str_eq(a.kind, b.kind);
        cr_expect(a.grid == b.grid && a.block_x == b.block_x && a.block_y == b.block_y);
        cr_expect(!a.library == !b.library && (!a.library || !strcmp(a.library, b.library)));
    }
    sn_program_destroy(cold);
    sn_program_destroy(warm);
    end(&f);
}

static void write_input(sn_tensor **in, const sn_program *p) {
    static const float x[ROWS * 48] = {1, 2, 3};
    cr_assert_eq(sn_tensor_for_input(in, p, 0), SN_OK);
    cr_assert_eq(sn_tensor_write(*in, x, sizeof x), SN_OK);
}

Test(whole, is_checked_and_profiled_as_any_other) {
    fixture f;
    begin(&f);
    fill_weights(1);
    sn_program_destroy(compile(&f));
    sn_program *p = compile(&f);
    sn_tensor *in[2] = {NULL, NULL}, *y;
    sn_check check;
    sn_profile *profile;
    cr_assert(info_of(p).found);
    write_input(&in[0], p);
    cr_assert_eq(sn_tensor_for_output(&y, p, 0), SN_OK);
    cr_expect_eq(sn_program_check(&check, p, in, &y, false), SN_OK, "%s", sn_error(f.ctx));
    cr_assert_eq(sn_run_profiled(&profile, p, in, &y, NULL, NULL), SN_OK, "%s", sn_error(f.ctx));
    cr_expect_gt(profile->rows[0].bytes, 0);
    sn_profile_destroy(profile);
    cr_expect_eq(sn_program_set_constant(p, "w", weights, sizeof weights), SN_ERROR_UNSUPPORTED);
    sn_tensor_destroy(in[0]);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
    end(&f);
}

/* With its weights, whoever compiled it. */
Test(whole, can_be_saved) {
    fixture f;
    float a[ELEMENTS], b[ELEMENTS];
    char path[96];
    begin(&f);
    fill_weights(1);
    sn_program *cold = compile(&f), *warm = compile(&f), *loaded;
    cr_assert(info_of(warm).found);
    snprintf(path, sizeof path, "%s/net.snb", f.folder);
    cr_assert_eq(sn_program_save(warm, path), SN_OK, "%s", sn_error(f.ctx));
    run(a, &f, cold);
    sn_program_destroy(cold);
    sn_program_destroy(warm);
    cr_assert_eq(sn_program_load(&loaded, f.ctx, path, NULL), SN_OK, "%s", sn_error(f.ctx));
    run(b, &f, loaded);
    cr_expect_eq(memcmp(a, b, sizeof a), 0);
    sn_program_destroy(loaded);
    end(&f);
}

/* ---- what is not found ---- */

static void expect_miss(fixture *f, const char *what, const char *text, int64_t n, sn_compile_options o) {
    sn_program *p = compile_text(f, text, n, o);
    cr_expect(!info_of(p).found, "%s", what);
    sn_program_destroy(p);
}

Test(whole, differs_by_all_that_matters) {
    fixture f;
    char other[sizeof network];
    begin(&f);
    fill_weights(1);
    sn_program_destroy(compile(&f));
    strcpy(other, network);
    *strstr(other, "exp") = 't', memcpy(strstr(other, "txp"), "sin", 3);
    expect_miss(&f, "the graph", other, ROWS, (sn_compile_options){0});
    expect_miss(&f, "a size", network, ROWS + 1, (sn_compile_options){0});
    expect_miss(&f, "threads", network, ROWS, (sn_compile_options){.threads = 3});
    expect_miss(&f, "precision", network, ROWS, (sn_compile_options){.precision = "bf16"});
    expect_miss(&f, "alignment", network, ROWS, (sn_compile_options){.alignment = 16});
    expect_miss(&f, "choices", network, ROWS, (sn_compile_options){.choices = "template"});
    expect_miss(&f, "schedules", network, ROWS, (sn_compile_options){.cpu_schedule = "gpu", .target = "sm_80"});
    sn_program *p = compile(&f);
    cr_expect(info_of(p).found);
    sn_program_destroy(p);
    end(&f);
}

/* Somebody looks at the passes. */
Test(whole, is_not_asked_for_by_those_who_watch) {
    fixture f;
    begin(&f);
    fill_weights(1);
    sn_program_destroy(compile(&f));
    expect_miss(&f, "remarks", network, ROWS, (sn_compile_options){.remarks = "schedule"});
    cr_expect(f.log[0]);
    expect_miss(&f, "times", network, ROWS, (sn_compile_options){.time_passes = true});
    expect_miss(&f, "text", network, ROWS, (sn_compile_options){.print_after = "fuse"});
    expect_miss(&f, "verify", network, ROWS, (sn_compile_options){.verify = "each"});
    end(&f);
}

static unsigned each_image(const fixture *f, void (*body)(const char *path)) {
    DIR *d = opendir(f->folder);
    unsigned n = 0;
    cr_assert(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[400];
        if (!strstr(e->d_name, ".image")) continue;
        snprintf(path, sizeof path, "%s/%s", f->folder, e->d_name);
        if (body) body(path);
        n++;
    }
    closedir(d);
    return n;
}

static void flip(const char *path) {
    FILE *file = fopen(path, "r+b");
    cr_assert(file && fseek(file, 3000, SEEK_SET) == 0);
    int c = fgetc(file);
    cr_assert(c != EOF && fseek(file, 3000, SEEK_SET) == 0 && fputc(c ^ 1, file) != EOF && fclose(file) == 0);
}

Test(whole, is_made_anew_when_damaged) {
    fixture f;
    float a[ELEMENTS], b[ELEMENTS];
    begin(&f);
    fill_weights(1);
    sn_program *p = compile(&f);
    run(a, &f, p);
    sn_program_destroy(p);
    cr_assert_eq(each_image(&f, flip), 1);
    p = compile(&f);
    cr_expect(!info_of(p).found);
    cr_expect(strstr(f.log, "is damaged; made anew"), "%s", f.log);
    run(b, &f, p);
    cr_expect_eq(memcmp(a, b, sizeof a), 0);
    sn_program_destroy(p);
    p = compile(&f);
    cr_expect(info_of(p).found);
    sn_program_destroy(p);
    end(&f);
}

/* Less room than it takes: nothing is kept, and nothing fails. */
Test(whole, stays_within_the_size) {
    fixture f;
    begin(&f);
    fill_weights(1);
    for (int round = 0; round < 2; round++) {
        sn_program *p = compile_text(&f, network, ROWS, (sn_compile_options){.cache_size = "1K"});
        cr_expect(!info_of(p).found);
        sn_program_destroy(p);
    }
    cr_expect_eq(each_image(&f, NULL), 0);
    end(&f);
}
