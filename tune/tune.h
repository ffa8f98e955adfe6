/* tune.h: choices for matrix products, convolutions and kernels by timing: what to try, the search, and what is remembered on disk.
 *
 * Nothing here compiles, runs or reads a clock: the caller gives a machine that does (frontend/tune.c has one made of
 * programs, tests have one made of numbers), so that the search follows from what the machine says alone. Nothing here prints;
 * what goes wrong with records is one line for the caller, and never a failure.
 */
#ifndef SN_TUNE_TUNE_H
#define SN_TUNE_TUNE_H

#include "passes/graph/choices.h"
#include "passes/runner.h"

/* ---- what to try (trials.c) ---- */

typedef enum sn_trial_fate {
    SN_TRIAL_OPEN,     /* not looked at: time ran out, or another one is as fast as memory allows */
    SN_TRIAL_TIMED,    /* us is known */
    SN_TRIAL_SLOW,     /* the model says that another one is much faster */
    SN_TRIAL_FAILED,   /* does not compile, or does not run */
    SN_TRIAL_DEVIATES, /* gives something else than most others */
    SN_N_TRIAL_FATES
} sn_trial_fate;
extern const char *const sn_trial_fate_names[SN_N_TRIAL_FATES]; /* "left" "timed" "slow" "failed" "deviates" */

typedef struct sn_trial {
    const char *choice; /* "decompose_k parts=16" */
    double cycles;      /* by the model; 0: it does not know */
    sn_trial_fate fate;
    const char *why;  /* FAILED, DEVIATES */
    double us;        /* least */
    uint32_t samples; /* how often it was timed */
} sn_trial;
typedef struct sn_trial_list {
    sn_arena *arena; /* for what is said of them */
    sn_trial *at;
    uint32_t n, cap;
} sn_trial_list;

/* The choices that are worth trying for a product or a convolution, which is given by the text of its small graph. The first one is the product
 * as it is, if that is allowed. library: that products may be left to; NULL: there is none. pipeline: the one that programs are
 * compiled by. */
sn_status sn_trials_list(sn_trial_list *out, sn_env *env, const char *product, const sn_target *target,
                         const sn_library *library, const char *pipeline, const char *allowed);
/* kernel_trials.c: those for a kernel, which is given by its text alone (passes/schedule/alone.h): "plain inner block_x=..", what the pass
 * chooses, and "schedule inner block_x=..", what else its classes propose, and what is near the first. */
sn_status sn_kernel_trials_list(sn_trial_list *out, sn_env *env, const char *kernel, const sn_target *target);
/* What stands behind "schedule" in a choice, in the arena. */
const char *sn_trial_header(sn_env *env, const struct sn_sched *header, sn_arena *arena);

/* ---- which kernels (kernels.c) ---- */

typedef struct sn_kernel_subject {
    const char *key, *title; /* "amax; sub, exp, sum; div: f32[64, 1000] -> f32[64, 1000]" */
    double bytes;            /* that a run moves at least */
    sn_trial_list *trials;
    double one, weight; /* cycles by the model, or statements; of all kernels of this text */
    sn_kern kernel;     /* the first of them */
    uint32_t order;     /* in which they were found */
} sn_kernel_subject;
typedef struct sn_kernel_list {
    sn_kernel_subject *at;
    uint32_t n, cap;
} sn_kernel_list;

typedef struct sn_kernels_how {
    const sn_target *target;
    const sn_library *library;
    sn_choosing choosing;        /* what is decided about products */
    const char *before, *behind; /* the passes before `schedule`, and from there on */
    bool products;               /* there are some, and they were asked about */
} sn_kernels_how;
/* Those of a graph that are worth timing, what takes longest first; in the arena. The module goes through the passes. */
sn_status sn_kernels_list(sn_kernel_list *out, sn_module *m, const sn_kernels_how *how, sn_arena *arena);

/* ---- the search (search.c) ---- */

/* The functions set fate FAILED and why on a trial that they cannot serve. */
typedef struct sn_trial_machine {
    void *user;
    /* Make programs of all open ones, side by side if the machine can. */
    void (*compile)(void *user, sn_trial_list *trials);
    /* Do two give the same result on the same inputs, but for roundings? *why: where they differ. */
    bool (*same)(const char **why, void *user, sn_trial_list *trials, uint32_t reference, uint32_t trial);
    /* Microseconds of a run with cold caches. */
    double (*time)(void *user, sn_trial_list *trials, uint32_t trial);
    double (*seconds)(void *user);                              /* a clock */
    void (*progress)(void *user, uint32_t done, uint32_t most); /* NULL: nobody listens */
    void *progress_user;
    double bound_us; /* that no run can be shorter than; 0: not known */
} sn_trial_machine;

typedef struct sn_search {
    uint32_t best; /* the winner; UINT32_MAX: none can be run */
    double compile_seconds, seconds;
} sn_search;

/* Find the fastest one within so many seconds, compiling included; at least one is timed. */
void sn_trials_search(sn_search *out, sn_trial_list *trials, const sn_trial_machine *machine, double seconds);
/* From the fastest to the slowest, then those without a time, in their order. at[trials->n]: positions. */
void sn_trials_rank(uint32_t *at, const sn_trial_list *trials);

/* ---- records (records.c) ---- */

/* Where records are and for whom. What a record was made with is compared word for word. */
typedef struct sn_record_place {
    const char *folder;   /* NULL: there are no records */
    bool nowhere;         /* there would be some, but nobody says where: the warning tells that they are not kept */
    const char *device;   /* "NVIDIA H200, sm_90, ..." */
    const char *versions; /* of Sinter, driver, code generator, libraries */
    const char *choices;  /* that were allowed; "" : all */
    char warning[320];    /* the first thing that went wrong, one line; "": nothing has */
    /* sn_record_list: names of the records that were there, in order; false: nobody has looked, each is looked for. */
    bool listed;
    const uint64_t *names;
    uint32_t n_names;
} sn_record_place;

/* Look into the folder once, for all who ask afterwards; what is saved later is not seen. Returns how many records there are. */
uint32_t sn_record_list(sn_record_place *place, sn_arena *arena);

/* Which schedules these are, for `versions`: a record of others does not count. In the arena. */
const char *sn_record_schedules(sn_arena *arena);
/* What was found for a product or a kernel, by its text: its choice, in the arena, and how long it takes. NULL: nothing, or nothing that can be
 * used, and then the warning may say why. */
const char *sn_record_find(double *us, sn_record_place *place, const char *product, sn_arena *arena);
/* Remember it: whole or not at all, whoever else writes at the same time. */
void sn_record_save(sn_record_place *place, const char *product, const sn_trial_list *trials, uint32_t best);

#endif
