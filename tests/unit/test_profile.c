/* test_profile.c: what a run took, launch by launch: the table and the events agree with each other and with the program, for kernels
 * that run several times, copies and images; and what cannot be profiled is refused in words.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "include/sinter/sinter.h"

typedef struct bench {
    sn_context *ctx;
    sn_program *p;
    sn_tensor *in[4], *out[4];
} bench;

static void make_tensors(bench *b) {
    for (unsigned k = 0; k < sn_program_input_count(b->p); k++)
        cr_assert_eq(sn_tensor_for_input(&b->in[k], b->p, k), SN_OK, "%s", sn_error(b->ctx));
    for (unsigned k = 0; k < sn_program_output_count(b->p); k++) {
        sn_port port;
        cr_assert_eq(sn_program_output(&port, b->p, k), SN_OK);
        if (port.writes < 0) cr_assert_eq(sn_tensor_for_output(&b->out[k], b->p, k), SN_OK);
    }
}

static bench start(const char *text) {
    bench b = {0};
    sn_graph *g;
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 2};
    cr_assert_eq(sn_context_create(&b.ctx, NULL), SN_OK);
    cr_assert_eq(sn_graph_from_text(&g, b.ctx, "f", text, strlen(text)), SN_OK, "%s", sn_error(b.ctx));
    cr_assert_eq(sn_compile(&b.p, g, &o), SN_OK, "%s", sn_error(b.ctx));
    sn_graph_destroy(g);
    make_tensors(&b);
    return b;
}

static void finish(bench *b) {
    for (int k = 0; k < 4; k++) sn_tensor_destroy(b->in[k]), sn_tensor_destroy(b->out[k]);
    sn_program_destroy(b->p);
    sn_context_destroy(b->ctx);
}

/* Sums of the table are those of the events, which follow each other. */
static void expect_agreement(const sn_profile *p) {
    double us = 0, before = 0;
    cr_assert_gt(p->n_rows, 0);
    for (unsigned r = 0; r < p->n_rows; r++) {
        double of_events = 0;
        unsigned launches = 0;
        for (unsigned i = 0; i < p->n_events; i++) {
            if (p->events[i].row != r) continue;
            of_events += p->events[i].us;
            launches++;
        }
        cr_expect_eq(launches, p->rows[r].launches);
        cr_expect_float_eq(of_events, p->rows[r].us, 1e-6 * p->us);
        cr_expect(r == 0 || p->rows[r - 1].us >= p->rows[r].us);
        cr_expect_gt(p->rows[r].us, 0);
        cr_expect_float_eq(p->rows[r].of_bound, p->rows[r].least_us / p->rows[r].us, 1e-9);
        us += p->rows[r].us;
    }
    for (unsigned i = 0; i < p->n_events; i++) {
        cr_expect_float_eq(p->events[i].start_us, before, 1e-6 * p->us);
        before = p->events[i].start_us + p->events[i].us;
    }
    cr_expect_float_eq(us, p->us, 1e-6 * p->us);
    cr_expect_gt(p->copy_rate, 0);
}

static const sn_profile_row *row_named(const sn_profile *p, const char *name) {
    for (unsigned r = 0; r < p->n_rows; r++)
        if (!strcmp(p->rows[r].name, name)) return &p->rows[r];
    return NULL;
}

static const char layers[] = "graph @f(%x: f32[24, 96], %w: f32[96, 96]) {\n"
                             "  %a = matmul %x, %w\n"
                             "  %b = matmul %a, %w\n"
                             "  %y = matmul %b, %w\n"
                             "  return y = %y\n"
                             "}\n";

/* The same kernel thrice, or three that differ: launches, bytes and operations of all of them together. */
Test(profile, rows_count_what_a_run_does) {
    bench b = start(layers);
    sn_profile *profile;
    sn_program_info info;
    double flops = 0;
    unsigned launches = 0;
    cr_assert_eq(sn_run_profiled(&profile, b.p, b.in, b.out, NULL, NULL), SN_OK, "%s", sn_error(b.ctx));
    expect_agreement(profile);
    sn_program_get_info(&info, b.p);
    for (unsigned r = 0; r < profile->n_rows; r++) {
        const sn_profile_row *row = &profile->rows[r];
        sn_kernel_info k;
        cr_assert_geq(row->kernel, 0);
        cr_assert_eq(sn_program_kernel(&k, b.p, (unsigned)row->kernel), SN_OK);
        cr_expect_str_eq(k.name, row->name);
        cr_expect_str_eq(row->kind, k.library ? "library" : "kernel");
        cr_expect(strstr(row->made_of, "matmul"), "%s", row->made_of);
        cr_expect_gt(row->bytes, row->launches * (24 * 96 + 96 * 96) * 4.0);
        flops += row->flops;
        launches += row->launches;
    }
    cr_expect_eq(launches, info.n_launches);
    cr_expect(flops == 0 || flops >= 3 * 2.0 * 24 * 96 * 96 * 0.99, "%g", flops); /* a library's are not counted */
    sn_profile_destroy(profile);
    finish(&b);
}

/* m goes back to n by a copy, in each of the runs; y = old n * x. */
static const char counting[] = "graph @f(%x: f32[24, 96], %n: f32[24, 96]) {\n"
                               "  %m = add %n, %x\n"
                               "  %old = flip %n axes=[0, 1]\n"
                               "  %y = mul %old, %x\n"
                               "  return y = %y, m = %m writes %n\n"
                               "}\n";

Test(profile, copies_count_and_runs_are_runs) {
    enum { N = 24 * 96, RUNS = 5 };
    bench b = start(counting);
    sn_profile *profile;
    static float x[N], n[N];
    sn_profile_options o = {.struct_size = sizeof o, .runs = RUNS};
    for (int i = 0; i < N; i++) x[i] = 1;
    cr_assert_eq(sn_tensor_write(b.in[0], x, sizeof x), SN_OK);
    cr_assert_eq(sn_tensor_write(b.in[1], n, sizeof n), SN_OK);
    cr_assert_eq(sn_run_profiled(&profile, b.p, b.in, b.out, NULL, &o), SN_OK, "%s", sn_error(b.ctx));
    expect_agreement(profile);
    const sn_profile_row *copy = row_named(profile, "copy");
    cr_assert_not_null(copy);
    cr_expect(copy->kernel == -1 && copy->launches == 1 && copy->bytes == 2.0 * sizeof n && copy->flops == 0);
    cr_expect_str_eq(copy->kind, "copy");
    cr_assert_eq(sn_tensor_read(n, b.in[1], sizeof n), SN_OK);
    cr_expect_eq(n[0], RUNS + 1, "%g", n[0]); /* and one to warm up */
    sn_profile_destroy(profile);
    finish(&b);
}

Test(profile, an_image_has_one) {
    char path[] = "/tmp/sinter-profile-XXXXXX";
    int fd = mkstemp(path);
    bench b = start(layers);
    sn_program *compiled = b.p;
    sn_profile *profile;
    sn_load_options o = {.struct_size = sizeof o, .threads = 2};
    cr_assert_geq(fd, 0);
    close(fd);
    cr_assert_eq(sn_program_save(compiled, path), SN_OK, "%s", sn_error(b.ctx));
    cr_assert_eq(sn_program_load(&b.p, b.ctx, path, &o), SN_OK, "%s", sn_error(b.ctx));
    sn_program_destroy(compiled);
    cr_assert_eq(sn_run_profiled(&profile, b.p, b.in, b.out, NULL, NULL), SN_OK, "%s", sn_error(b.ctx));
    expect_agreement(profile);
    cr_expect_geq(profile->rows[0].bytes, (24 * 96 + 96 * 96 + 24 * 96) * 4.0);
    cr_expect_eq(profile->rows[0].flops, 0);
    sn_program_destroy(b.p); /* the profile outlives it */
    b.p = NULL;
    cr_expect(strstr(profile->rows[0].made_of, "matmul"));
    sn_profile_destroy(profile);
    unlink(path);
    finish(&b);
}

Test(profile, bad_calls_are_refused) {
    bench b = start(layers);
    sn_profile *profile = (sn_profile *)&b;
    sn_profile_options many = {.struct_size = sizeof many, .runs = 1u << 21}, odd = {.struct_size = 3};
    cr_expect_eq(sn_run_profiled(&profile, b.p, NULL, b.out, NULL, NULL), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_error(b.ctx), "input x: no tensor given");
    cr_expect_null(profile);
    cr_expect_eq(sn_run_profiled(&profile, b.p, b.in, b.out, NULL, &many), SN_ERROR_ARGUMENT);
    cr_expect_str_eq(sn_error(b.ctx), "sn_run_profiled: 2097152 runs; at most 1048576");
    cr_expect_eq(sn_run_profiled(&profile, b.p, b.in, b.out, NULL, &odd), SN_ERROR_ARGUMENT);
    cr_expect(strstr(sn_error(b.ctx), "sn_profile_options: struct_size is 3"));
    cr_expect_eq(sn_run_profiled(NULL, b.p, b.in, b.out, NULL, NULL), SN_ERROR_ARGUMENT);
    cr_expect_eq(sn_run_profiled(&profile, NULL, b.in, b.out, NULL, NULL), SN_ERROR_ARGUMENT);
    sn_profile_destroy(NULL);
    finish(&b);
}
