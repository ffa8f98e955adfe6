/* cpu.c: Sinter's kernels for the CPU beside plain C.
 *
 *     cpu [CASE...]                    all cases, or those whose names begin so
 *     cpu --text CASE N                a case's graph as .sn text
 *
 * For each row of cases.def, both sizes, one and two threads: both sides run on the same inputs, their outputs are compared,
 * then they are timed in turns, ROUNDS times: some runs of one, some of the other, with a rest between, in which threads that
 * wait for work by spinning lie down. The time is the least of all runs: neighbours on the machine only add to it. A size that
 * fits a cache is found there, as a loop of steps finds it. Relies on sinter.h alone, and on memory being enough.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/cpu/cases.h"

enum { ROUNDS = 7, MAX_RUNS = 200 };

typedef struct bench_case {
    const char *name;
    bench_build *build;
    bench_plain *plain;
    int64_t n[2];
    double low, high, bound;
} bench_case;

static const bench_case cases[] = {
#define BENCH_CASE(name, plain, small, large, low, high, bound, doc)                                                   \
    {#name, build_##name, plain_##plain, {small, large}, low, high, bound},
#include "bench/cpu/cases.def"
#undef BENCH_CASE
};

typedef struct side {
    sn_tensor *t[MAX_PORTS];
    void *data[MAX_PORTS];
} side;

/* A case of one size and number of threads, ready to run. */
typedef struct job {
    const bench_case *c;
    int64_t n;
    int threads;
    sn_context *ctx;
    sn_program *p;
    unsigned n_in, n_out;
    side in, out, plain;
} job;

static void stop(const job *j) {
    fprintf(stderr, "%s: %s\n", j->c->name, sn_error(j->ctx));
    exit(1);
}

static void *element_zero(sn_tensor_info *info, const sn_tensor *t) {
    sn_tensor_get_info(info, t);
    return info->data;
}

/* ---- values ---- */

static void fill(const job *j, const sn_tensor *t) {
    sn_tensor_info info;
    void *data = element_zero(&info, t);
    static uint32_t seed = 1;
    for (int64_t k = 0; k < info.numel; k++) {
        seed = seed * 1664525u + 1013904223u;
        double u = (seed >> 8) / 16777216.0;
        double x = j->c->low + u * (j->c->high - j->c->low);
        if (info.dtype == SN_I64) ((int64_t *)data)[k] = (int64_t)(u * CLASSES);
        else if (info.dtype == SN_U8) ((uint8_t *)data)[k] = (uint8_t)x;
        else if (info.dtype == SN_U32) ((uint32_t *)data)[k] = seed;
        else if (info.dtype == SN_I32) ((int32_t *)data)[k] = (int32_t)(u * (double)j->n);
        else ((float *)data)[k] = (float)x;
    }
}

static double element(const sn_tensor_info *info, int64_t k) {
    if (info->dtype == SN_U8) return ((uint8_t *)info->data)[k];
    return info->dtype == SN_I64 ? (double)((int64_t *)info->data)[k] : (double)((float *)info->data)[k];
}

/* Largest error over largest value; of integers the share that differs. */
static double difference(const sn_tensor *x, const sn_tensor *y) {
    sn_tensor_info a, b;
    element_zero(&a, x);
    element_zero(&b, y);
    double error = 0, most = 0, differ = 0;
    for (int64_t k = 0; k < a.numel; k++) {
        double is = element(&a, k), wanted = element(&b, k), off = fabs(is - wanted);
        differ += off != 0;
        if (!(off <= error)) error = off;
        most = fmax(most, fabs(wanted));
    }
    return a.dtype == SN_I64 ? differ / (double)a.numel : error / most;
}

/* ---- running ---- */

static void run_sinter(job *j) {
    if (sn_run(j->p, j->in.t, j->out.t, NULL)) stop(j);
}

static void run_plain(job *j) { j->c->plain(j->plain.data, (const void *const *)j->in.data, j->n, j->threads); }

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* The least of some runs and what was the least before. About 30 ms, at least two runs. */
static double least(double before, job *j, void (*run)(job *)) {
    struct timespec rest = {.tv_nsec = 20000000};
    nanosleep(&rest, NULL);
    double start = now_ms();
    for (int k = 0; k < MAX_RUNS && (k < 2 || now_ms() - start < 30); k++) {
        double from = now_ms();
        run(j);
        before = fmin(before, now_ms() - from);
    }
    return before;
}

static void open_job(job *j) {
    sn_graph *g;
    sn_compile_options options = {.struct_size = sizeof options, .device = "cpu", .threads = (unsigned)j->threads};
    if (sn_context_create(&j->ctx, NULL)) exit(1);
    if (sn_graph_create(&g, j->ctx, j->c->name)) stop(j);
    j->c->build(g, j->n);
    if (sn_compile(&j->p, g, &options)) stop(j);
    sn_graph_destroy(g);
    sn_tensor_info info;
    j->n_in = sn_program_input_count(j->p), j->n_out = sn_program_output_count(j->p);
    for (unsigned k = 0; k < j->n_in; k++) {
        if (sn_tensor_for_input(&j->in.t[k], j->p, k)) stop(j);
        j->in.data[k] = element_zero(&info, j->in.t[k]);
        fill(j, j->in.t[k]);
    }
    for (unsigned k = 0; k < j->n_out; k++) {
        if (sn_tensor_for_output(&j->out.t[k], j->p, k) || sn_tensor_for_output(&j->plain.t[k], j->p, k)) stop(j);
        j->plain.data[k] = element_zero(&info, j->plain.t[k]);
    }
}

static void close_job(job *j) {
    for (unsigned k = 0; k < j->n_in; k++) sn_tensor_destroy(j->in.t[k]);
    for (unsigned k = 0; k < j->n_out; k++) sn_tensor_destroy(j->out.t[k]), sn_tensor_destroy(j->plain.t[k]);
    sn_program_destroy(j->p);
    sn_context_destroy(j->ctx);
}

/* One line of the table; false where the sides differ. */
static bool measure(const bench_case *c, int64_t n, int threads) {
    job j = {.c = c, .n = n, .threads = threads};
    open_job(&j);
    run_sinter(&j);
    run_plain(&j);
    double error = 0, sinter = INFINITY, plain = INFINITY;
    for (unsigned k = 0; k < j.n_out; k++) error = fmax(error, difference(j.out.t[k], j.plain.t[k]));
    for (int k = 0; k < ROUNDS; k++) sinter = least(sinter, &j, run_sinter), plain = least(plain, &j, run_plain);
    bool ok = error <= c->bound;
    printf("| %-14s | %7lld | %d | %9.3f | %9.3f | %5.2f | %.1e%s |\n", c->name, (long long)n, threads, sinter, plain,
           sinter / plain, error, ok ? "" : " differs");
    fflush(stdout);
    close_job(&j);
    return ok;
}

static bool wanted(const char *name, int argc, char **argv) {
    for (int k = 1; k < argc; k++)
        if (!strncmp(name, argv[k], strlen(argv[k]))) return true;
    return argc < 2;
}

static int print_text(const char *name, int64_t n) {
    job j = {0};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        if (!strcmp(cases[k].name, name)) j.c = &cases[k];
    if (!j.c) return fprintf(stderr, "no case %s\n", name), 1;
    sn_graph *g;
    char *text;
    if (sn_context_create(&j.ctx, NULL)) return 1;
    if (sn_graph_create(&g, j.ctx, name)) stop(&j);
    j.c->build(g, n);
    if (sn_graph_text(&text, g)) stop(&j);
    fputs(text, stdout);
    sn_free(j.ctx, text);
    sn_graph_destroy(g);
    sn_context_destroy(j.ctx);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "--text")) return print_text(argv[2], atoll(argv[3]));
    bool ok = true;
    printf(
        "| case | n | threads | Sinter ms | C ms | ratio | difference |\n| --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int run = 0; run < 4 && wanted(cases[k].name, argc, argv); run++)
            ok &= measure(&cases[k], cases[k].n[run / 2], 1 + run % 2);
    return !ok;
}
