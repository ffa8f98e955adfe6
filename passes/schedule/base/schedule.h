/* schedule.h: the ground floor of the pass `schedule`: what every class is told of a kernel, and what several of them choose
 * and bind with. The classes stand on it; schedules.h says what each of them is asked, and only schedule.c asks.
 */
#ifndef SN_PASSES_SCHEDULE_BASE_SCHEDULE_H
#define SN_PASSES_SCHEDULE_BASE_SCHEDULE_H

#include "passes/base/rebuild.h"
#include "passes/schedule/base/constants.h"

/* ---- the shape of a kernel (shape.c) ---- */

typedef struct sn_schedule_nest {
    sn_stmt top;
    sn_chain chain;
    int64_t count;
    sn_ix lead; /* elements between a vector boundary and the start of the row; none: vectors start and end with it */
    uint32_t least_inner,
        least_outer; /* smallest element that it walks along its last axis / the last outer axis; 0: none */
    bool perfect, scan;
    bool steps; /* iterations wait for one another by what they store: those of a repeat (passes/fuse/interchange.c) */
    bool waits; /* it loads what other blocks post */
    bool parts; /* it reads what does not stay of a row, too (row_part.c): */
    sn_stmt kept; /* ... beside this loop over what does; none: all does */
    sn_stmt held; /* ... and this one over what registers hold ... */
    sn_stmt rest; /* ... and this one over what is read again; none: nothing is */
} sn_schedule_nest;

typedef struct sn_schedule_mixed sn_schedule_mixed; /* mixed.h */

typedef struct sn_schedule_shape {
    const sn_users *users; /* of the module as it was before kernels were bound ... */
    uint32_t at;           /* ... and the position of this one */
    sn_chain outer;        /* parallel loops */
    int64_t rows;          /* their iterations */
    sn_stmt body;          /* innermost outer loop, none: the kernel itself */
    uint32_t team; /* rows of threads that share a row of the kernel, and count in the last outer loop; 0: none do */
    sn_schedule_nest nests[SN_MAX_NESTS];
    uint32_t n_nests;
    sn_val about; /* the first two nests are a sum and the squares about this (moments.c); none: they are not */
    uint32_t ops; /* values that the kernel computes */
    uint32_t instructions; /* that its scalar operations take, once each */
    bool all_perfect;
    bool scans;                       /* a nest is a scan: its iterations run in order */
    bool steps;                       /* a nest is the steps of a repeat: so do they */
    int64_t max_count;                /* largest nest */
    int64_t along_inner, along_outer; /* bytes that nests walk along their last axis / along the last outer axis */
    bool
        windows; /* loads of nests are in windows that move along the last outer axis (pooling), or shared by several rows */
    bool reused;                    /* all that nests load other rows load too */
    bool one_thread;                /* rows are many, and tiny, in windows, or reused: a thread each does best */
    bool lanes_are_rows;            /* vectors of the CPU go along rows, although these do not lie side by side */
    bool by_columns;                /* most bytes are contiguous along the last outer axis */
    const sn_schedule_mixed *mixed; /* the nests are those of one of its rows; NULL: not of that kind */
} sn_schedule_shape;

/* Of the kernel at a position. */
sn_status sn_schedule_look(sn_schedule_shape *out, sn_pass_ctx *cx, const sn_users *users, uint32_t at);
/* Are there rows that run side by side, made of perfect nests? */
bool sn_schedule_has_rows(const char **why_not, const sn_schedule_shape *sh);
/* Does an access with the offset e walk the outer loops as one, in row-major order? */
bool sn_schedule_walks_all(sn_module *m, const sn_schedule_shape *sh, sn_ix e);
/* Is each element of what is loaded read many times over? */
bool sn_schedule_reads_again(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_stmt_rec *load);
/* ... and does a load so find it in the cache, after the first few of all positions? Nobody waits for memory there, whichever way it
 * is walked. */
bool sn_schedule_is_cached(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_stmt_rec *load);

/* The accesses of the nests, one after the other: for (sn_nest_access a = {0}; sn_schedule_next_access(&a, m, sh);). Nothing may be
 * moved meanwhile. */
typedef struct sn_nest_access {
    const sn_schedule_nest *nest;
    sn_stmt s;
    sn_stmt end; /* behind the nest */
    uint32_t n;  /* nests that were begun */
} sn_nest_access;
bool sn_schedule_next_access(sn_nest_access *a, const sn_module *m, const sn_schedule_shape *sh);

/* *least becomes the smaller one; 0 stands for none. */
void sn_schedule_smaller(uint32_t *least, uint32_t bytes);
int64_t sn_schedule_gcd(int64_t a, int64_t b);

/* ---- headers (headers.c) ---- */

typedef struct sn_sched_list {
    sn_sched *at;
    uint32_t n, cap;
    double cycles; /* of a unit of the device, with the first one, as its class counts them; 0: it does not */
} sn_sched_list;
/* Append a header, unless it is there already. */
void sn_schedule_propose(sn_sched_list *out, sn_pass_ctx *cx, const sn_sched *sched);

/* ---- binding ---- */

/* Detach the statements inside the outer loops, drop the loops (linked by `next` no more: the list is in out). */
void sn_schedule_take_body(sn_stmt_vec *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);
/* A second body, detached like the first one. */
sn_stmt_vec sn_schedule_copy_body(sn_pass_ctx *cx, sn_kern k, const sn_stmt_vec *body);
/* The outer axes become the row-major parts of `flat` in all statements of the list. */
void sn_schedule_subst_outer(sn_pass_ctx *cx, const sn_stmt_vec *body, const sn_schedule_shape *sh, sn_ix flat);

/* The loads of written-out steps of scans stand ahead of them. Returns the bytes that a thread keeps. */
uint32_t sn_schedule_loads_ahead(sn_pass_ctx *cx, sn_kern k, const sn_sched *sched);
/* The same of the written-out loop in `steps`, of buffers that the nest `row` loads, too. */
void sn_schedule_loads_of_steps(sn_pass_ctx *cx, sn_kern k, sn_stmt steps, sn_stmt row, const sn_sched *sched);

#endif
