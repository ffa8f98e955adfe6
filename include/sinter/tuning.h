/* tuning.h: what sn_tune is told and tells. A part of sinter.h, which includes it. */
#ifndef SINTER_TUNING_H
#define SINTER_TUNING_H

#include <stdbool.h>
#include <stddef.h>

/* A choice that was considered for a product, a convolution or a kernel. */
typedef struct sn_tune_trial {
    /* "decompose_k parts=112": a row of choices.def and its parameters; of a kernel "plain inner block_x=256 .." is what the pass
     * schedule chooses. */
    const char *choice;
    /* "timed"; "slow": the model says so; "failed", "deviates": why says more; "left": time was up, or another one was as
     * fast as memory allows */
    const char *fate;
    const char *why;   /* "" mostly */
    double us, cycles; /* least time of a run with cold caches; what the model says; 0: not known */
} sn_tune_trial;

/* A matrix product or a convolution with the elementwise operations that fuse into it; or another kernel. */
typedef struct sn_tuned_product {
    /* "matmul f16[32, 28672] x f16[28672, 32], add"; "conv .."; "exp, sum: f32[64, 64] -> f32[64]" */
    const char *title;
    const char *graph;  /* as text, with all else as inputs */
    const char *choice; /* the winner; "": none could be run, or (no trials) there was no time for it */
    double us;          /* its time */
    /* Of a kernel: the shortest timed ones whose rows stay in registers, and are looped over; 0: none was timed. */
    double persistent_us, looped_us;
    bool recorded;                   /* it was on record: nothing was timed, and there are no trials */
    double seconds, compile_seconds; /* that tuning took; of those, until all trials were compiled */
    unsigned n_trials;
    const sn_tune_trial *trials; /* from the fastest on */
} sn_tuned_product;

typedef struct sn_tune_report {
    unsigned n_products;
    const sn_tuned_product *products; /* each once, however often the graph has it */
    /* The kernels of the program that are worth it, likewise: those with several schedules to choose from, which take longer than a
     * few microseconds and share no launch. */
    unsigned n_kernels;
    const sn_tuned_product *kernels;
    const char *device;  /* that records are for */
    const char *warning; /* what is wrong with records, one line; "": nothing */
} sn_tune_report;

typedef struct sn_tune_options {
    size_t struct_size;
    /* Seconds for all together; 0: 60. Products take two thirds at most, and one trial of each is timed in any case; kernels come
     * then, in the order of the time that they take, while there is any left. */
    double budget;
    bool again; /* time what is on record, too */
    /* Called after each step of a search. NULL: not. */
    void (*progress)(void *user, const char *title, unsigned done, unsigned steps);
    void *progress_user;
} sn_tune_options;

#endif
