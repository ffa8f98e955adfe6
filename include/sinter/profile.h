/* profile.h: what sn_run_profiled tells of a run. A part of sinter.h, which includes it. */
#ifndef SINTER_PROFILE_H
#define SINTER_PROFILE_H

#include <stddef.h>
#include <stdint.h>

/* A kernel with all its launches of a run, or all copies of a run. What is not known is 0. */
typedef struct sn_profile_row {
    const char *name;    /* of the kernel; "copy" */
    const char *made_of; /* operations of the graph that it does: "conv; add, maximum" */
    const char *from;    /* where these were built: "model.c:12" (sn_at), names of values; "": nobody says */
    const char *kind;    /* "kernel"; "library": a library runs it; "copy" */
    int kernel;          /* number of sn_program_kernel; -1: copies */
    unsigned launches;   /* of a run */
    double us;           /* of all of them, in microseconds */
    double bytes;        /* that they read and write: of each buffer once where it is read, once where it is written */
    double flops;        /* operations on floats: a product and a sum count one each */
    double least_us,
        of_bound; /* what these bytes take at the rate of a copy; its share of us: 1 is as fast as a copy */
} sn_profile_row;

/* A launch or a copy. */
typedef struct sn_profile_event {
    unsigned row;        /* of the table */
    double start_us, us; /* from the beginning of the run on; how long it took */
} sn_profile_event;

typedef struct sn_profile {
    unsigned n_rows, n_events;
    const sn_profile_row *rows;     /* from the longest on */
    const sn_profile_event *events; /* of one run, in its order */
    double us;                      /* of that run: of all events, one after the other */
    double copy_rate; /* of a large copy on this device (the CPU: by the program's threads), read plus written, in bytes
                                     * per second; measured along */
} sn_profile;

typedef struct sn_profile_options {
    size_t struct_size;
    unsigned runs; /* of which the one that takes least is told; 0: 10; at most 2^20 */
} sn_profile_options;

#endif
