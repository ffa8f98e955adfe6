/* bench.h: what `sinter bench` measured, and its report (bench_report.c): a table for people, JSON lines for
 * bench/compare. */
#ifndef SN_TOOLS_BENCH_H
#define SN_TOOLS_BENCH_H

#include <stdio.h>

#include "tools/tool.h"

/* What all workloads of a call share. */
typedef struct bench_device {
    int number;         /* SN_CPU or the ordinal */
    char name[128];     /* "cpu", "NVIDIA H200" */
    char cuda[16];      /* version of CUDA that the driver offers, "" on the CPU */
    char driver[64];    /* version of the kernel driver, "" where it is not told */
    double copy_rate;   /* bytes per second, 0: unknown */
    sn_program *reader; /* reads more than the L2 holds; NULL on the CPU */
    sn_tensor **reader_in, **reader_out;
} bench_device;

typedef struct bench_result {
    char name[256];     /* of the file, without folder and .sn */
    const char *method; /* "events", "graph", "wall" */
    bool cached;
    unsigned cache_hits, cache_misses;
    double bytes, us, events_us, rate, share, compile_ms, passes_ms, codegen_ms, assemble_ms,
        load_ms;             /* events_us: GPU, as the peer's */
    double flops, flop_rate; /* of contractions; 0: there is none */
    const char *precision;   /* --precision, NULL without it */
    const char *inputs;      /* --error: what the inputs are, NULL without it */
    double err, err_rms;
    unsigned kernels, launches, runs;
    unsigned graph_runs, graph_sets; /* method graph */
    size_t workspace;
    enum { BITS_UNKNOWN, BITS_SAME, BITS_DIFFER } bits; /* --check-repeat */
    bool tuned;                                         /* products were timed, or are on record */
    char choices[256];                                  /* of its products, decided by that */
    sn_profile *profile;                                /* --profile, NULL without it */
    char error[SN_MESSAGE_MAX];                         /* "": measured */
} bench_result;

/* How far the outputs are from float64 on these inputs (bench_error.c). */
sn_status bench_error(bench_result *out, sn_program *p, sn_tensor *const *inputs, sn_tensor *const *outputs);

void bench_find_device(bench_device *out, const sn_cuda *cu); /* cu NULL: the CPU */

void bench_print_head(const bench_device *d);
void bench_print(const bench_result *r);
/* The same as JSON, a line each, written at once: a call that is cut short leaves what it had. */
void bench_json_head(FILE *f, const bench_device *d);
void bench_json(FILE *f, const bench_result *r, const bench_device *d);

#endif
