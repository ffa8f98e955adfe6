/* case.h: one case of cases.def, and running it. */
#ifndef SN_TESTS_LARGE_CASE_H
#define SN_TESTS_LARGE_CASE_H

#include "tests/large/formula.h"

/* A row of cases.def. */
typedef struct large_case {
    const char *name, *sizes, *graph, *formulas;
    double tolerance; /* how many times as far as usual floats may be off; 0: not at all */
} large_case;

typedef struct run_options {
    const char *device, *cpu_schedule;
    int64_t scale;
    double memory;  /* bytes that a case may want; 0: as many as there are */
    bool by_device; /* small tensors too are made and checked by graphs */
    bool spoil;     /* one element of each output is wrong: does the check see it? */
} run_options;

/* LOST: failed, and the device may be of no more use to this process. */
typedef enum outcome { PASSED, FAILED, SKIPPED, LOST } outcome;

/* One line on what happened goes to `text`. */
outcome case_run(char *text, size_t size, sn_context *ctx, const large_case *c, const run_options *options);

/* Elements in the storage format of a dtype. */
number element_get(sn_dtype dtype, const void *at);
void element_put(void *at, sn_dtype dtype, number value);
bool element_is_float(sn_dtype dtype);
/* How far usual results of a float type may be off: relative to themselves, and however small they are. */
double element_unit(sn_dtype dtype);
double element_least(sn_dtype dtype);

#endif
