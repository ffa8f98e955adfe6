/* model.h: what the pass `schedule` knows of a bound kernel on a GPU without running it, and what operations cost. */
#ifndef SN_PASSES_SCHEDULE_BASE_MODEL_H
#define SN_PASSES_SCHEDULE_BASE_MODEL_H

#include "passes/schedule/base/schedule.h"

/* Instructions of a kernel's scalar operations, once each; those of 64 bits count twice. */
uint32_t sn_schedule_instructions(const sn_module *m, sn_kern k);
/* Of one operation on f32. */
double sn_schedule_op_cost(sn_lop op);
/* The same where the result ends as a half. */
double sn_schedule_half_cost(sn_lop op);
/* Does the kernel store halves alone? */
bool sn_schedule_stores_halves(const sn_module *m, sn_kern k);

/* ---- a bound kernel (model.c) ---- */

/* What is known of a bound kernel on a GPU without running it (model.c). */
typedef enum sn_schedule_limit {
    SN_LIMIT_THREADS,
    SN_LIMIT_BLOCKS,
    SN_LIMIT_REGS,
    SN_LIMIT_SHARED,
    SN_N_LIMITS
} sn_schedule_limit;
typedef enum sn_schedule_bound {
    SN_BOUND_MEMORY,  /* its bandwidth */
    SN_BOUND_LATENCY, /* too few bytes are in flight for that */
    SN_BOUND_LINES,   /* lines that warps touch */
    SN_BOUND_ISSUE,   /* instructions */
    SN_BOUND_SPECIAL, /* special functions */
    SN_BOUND_TENSOR,  /* products of tensor cores */
    SN_BOUND_SHARED,  /* bytes of shared memory */
    SN_BOUND_CACHE    /* bytes that boxes bring from the L2 */
} sn_schedule_bound;
typedef struct sn_schedule_coverage {
    uint32_t bytes, sectors, lines; /* of one access of a warp: different ones; 32 bytes each; 128 bytes each */
} sn_schedule_coverage;
typedef struct sn_schedule_model {
    double blocks;                        /* of the grid */
    uint32_t threads, regs;               /* of a block; of a thread, about */
    uint32_t resident;                    /* blocks that fit on a multiprocessor ... */
    sn_schedule_limit limit;              /* ... and what it is that has no room for more */
    double waves;                         /* blocks over those that fit on all multiprocessors */
    double loaded, stored;                /* bytes of memory, with what is unused in lines */
    double flight, needed;                /* bytes in flight on a multiprocessor; that its memory takes to be busy */
    double memory, lines, issue, special; /* cycles that each would take alone, ... */
    double tensor, shared, cache;         /* ... each of these too, ... */
    double cycles;                        /* ... and the longest, with the time that latency adds */
    sn_schedule_bound bound;
    /* The access that touches or wastes most lines: */
    sn_buf lines_of;
    sn_schedule_coverage covered;
    bool scattered;      /* it leaves most of them unused */
    double worst, again; /* how many; how often it reads each byte */
} sn_schedule_model;
/* What a scalar operation takes on a GPU whose result ends in a half; other statements take nothing. */
typedef struct sn_schedule_scalar {
    double instructions, special; /* special: functions (ex2, rcp, ..) among them */
} sn_schedule_scalar;
sn_schedule_scalar sn_schedule_scalar_of(const sn_module *m, const sn_stmt_rec *s);
void sn_schedule_estimate(sn_schedule_model *out, sn_pass_ctx *cx, sn_kern k, const sn_sched *sched);
/* Say in a remark what bounds the kernel. */
void sn_schedule_explain(sn_pass_ctx *cx, sn_kern k, const sn_sched *sched);

#endif
