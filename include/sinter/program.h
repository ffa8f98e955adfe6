/* program.h: what is known of a compiled program and of its kernels. A part of sinter.h, which includes it. */
#ifndef SINTER_PROGRAM_H
#define SINTER_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of sn_program_get_info. Times are microseconds, texts live as long as the program. */
typedef struct sn_program_info {
    int device;         /* SN_CPU or CUDA ordinal */
    bool runnable;      /* false: compiled for a target to look at */
    const char *target; /* "host", "sm_90", "sm_90a" */
    unsigned n_inputs, n_outputs;
    unsigned n_kernels; /* that differ: each is compiled once */
    size_t workspace;   /* bytes of intermediates */
    size_t moved; /* bytes of all inputs and weights that are used and all outputs: what a run has to move at least */
    double passes_us, codegen_us, assemble_us, load_us, total_us; /* host time of the phases of sn_compile */
    unsigned n_launches;               /* of kernels, in a run: one kernel may be launched many times */
    bool cached;                       /* compiled with a cache of generated code, whose figures follow: */
    unsigned cache_hits, cache_misses; /* entries that were asked for */
    unsigned cache_stored, cache_evicted, cache_damaged; /* new ones; old ones that made room; ones that do not count */
    bool found;                  /* all of it was in that cache: no pass ran, no code was made */
    unsigned n_choices, n_timed; /* kernels with several schedules; of those: chosen by timing in this call */
    double choose_us;            /* host time that it took, a part of total_us */
} sn_program_info;

/* Of sn_program_kernel. */
typedef struct sn_kernel_info {
    const char *name;
    const char *note; /* what was fused into it: "conv, add, sum" */
    int64_t grid;     /* blocks, and threads of a block; on the CPU blocks are handed to threads */
    unsigned block_x, block_y;
    const char *ptx; /* NULL on the CPU */
    const char
        *library; /* "cuBLASLt 13.1.0", "cuDNN 9.10.2": runs it; it has no code of its own then. NULL: none does */
    const char *
        from; /* where that was built: "model.c:12, model.c:14" (sn_at), names of values of .sn text; "": nobody says */
    const char *schedule; /* "inner block_x=512 vector=8 unroll=4 persistent" */
    const char *kind;     /* of the schedule, in a word: "persistent", "looped", "flat" .. */
    int instead_of;       /* number of the kernel that it is an alternative of (multi_kernel); -1: of none */
    bool runs;            /* false: another one of its alternatives is what runs launch */
    double chosen_us;     /* device time of a run when it was timed for that choice; 0: it was not */
} sn_kernel_info;

#endif
