/* observe.c: what looking costs: compile time with metric tables and without, a run with debugging off, and reading a counter.
 *
 *     observe [FILE.sn ...]          (bench/suite when none is given: name the files)
 *
 * A graph is compiled for sm_90a to look at, in turn without tables, with the three that are meant to be on all the time
 * (kernel_metadata, graph_stats, fusion_failures) and with all of them, ROUNDS times; the median of the differences of a round is
 * shown, as a share of the compile time without, so that a machine that slows down hits all alike. A run is that of a graph of one
 * small kernel on the CPU. Relies on sinter.h alone.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <sinter/sinter.h>

enum { ROUNDS = 31, TABLES = 3, RUNS = 200000 };

static const char *const tables[TABLES] = {"off", "kernel_metadata,graph_stats,fusion_failures", "all"};

static double now_us(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void on_row(void *user, const sn_metric_row *row) {
    (void)row;
    ++*(unsigned long *)user;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

/* Processor time of this thread and of those that it starts. */
static bool compile_us(double *out, sn_graph *g, const char *metrics) {
    unsigned long rows = 0;
    sn_program *p;
    sn_compile_options o = {.struct_size = sizeof o,
                            .target = "sm_90a",
                            .threads = 1,
                            .tune = "off",
                            .metrics = metrics,
                            .metrics_row = on_row,
                            .metrics_user = &rows};
    double start = now_us(CLOCK_PROCESS_CPUTIME_ID);
    if (sn_compile(&p, g, &o) != SN_OK) return false;
    *out = now_us(CLOCK_PROCESS_CPUTIME_ID) - start;
    sn_program_destroy(p);
    return true;
}

static bool compare(sn_context *ctx, const char *path) {
    static double us[TABLES][ROUNDS], more[TABLES][ROUNDS];
    sn_graph *g;
    if (sn_graph_from_file(&g, ctx, path) != SN_OK) return false;
    for (int round = -1; round < ROUNDS; round++) /* the first one warms up */
        for (int k = 0; k < TABLES; k++) {
            double took;
            if (!compile_us(&took, g, tables[k])) return sn_graph_destroy(g), false;
            if (round >= 0) us[k][round] = took;
        }
    for (int k = 1; k < TABLES; k++)
        for (int round = 0; round < ROUNDS; round++) more[k][round] = us[k][round] / us[0][round] - 1;
    printf("%-60s %8.2f ms  %+6.2f %%  %+6.2f %%\n", path, median(us[0]) / 1e3, 100 * median(more[1]),
           100 * median(more[2]));
    sn_graph_destroy(g);
    return true;
}

/* A run of one small kernel, and the same with a counter that is read. */
static bool time_runs(sn_context *ctx) {
    sn_graph *g;
    sn_program *p;
    sn_tensor *x, *y;
    uint64_t kernels;
    sn_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    if (sn_graph_create(&g, ctx, "run") != SN_OK) return false;
    sn_output(g, "y", sn_neg(g, sn_input(g, "x", SN_F32, SN_LIST(16))));
    if (sn_compile(&p, g, &o) != SN_OK) return false;
    if (sn_tensor_for_input(&x, p, 0) != SN_OK || sn_tensor_for_output(&y, p, 0) != SN_OK) return false;
    double start = now_us(CLOCK_MONOTONIC);
    for (int k = 0; k < RUNS; k++)
        if (sn_run(p, &x, &y, NULL) != SN_OK) return false;
    double runs = now_us(CLOCK_MONOTONIC);
    for (int k = 0; k < RUNS; k++)
        if (sn_counter(&kernels, ctx, "kernels") != SN_OK) return false;
    double reads = now_us(CLOCK_MONOTONIC);
    printf("a run %.0f ns, none of it for counters; to read a counter %.0f ns\n", (runs - start) * 1e3 / RUNS,
           (reads - runs) * 1e3 / RUNS);
    sn_tensor_destroy(x);
    sn_tensor_destroy(y);
    sn_program_destroy(p);
    sn_graph_destroy(g);
    return true;
}

int main(int argc, char **argv) {
    sn_context *ctx;
    if (sn_context_create(&ctx, NULL) != SN_OK) return 1;
    printf("%-60s %11s  %8s  %8s\n", "processor time of compiling for sm_90a", "no tables", "three", "all");
    bool good = true;
    for (int k = 1; k < argc && good; k++) good = compare(ctx, argv[k]);
    if (good) good = time_runs(ctx);
    if (!good) fprintf(stderr, "observe: %s\n", sn_error(ctx));
    sn_context_destroy(ctx);
    return good ? 0 : 1;
}
