/* flat.h: what flat.c finds and flat_bind.c binds. */
#ifndef SN_PASSES_SCHEDULE_FLAT_H
#define SN_PASSES_SCHEDULE_FLAT_H

#include "passes/schedule/schedule.h"

enum { SN_MAX_FLAT = 8 };

/* A buffer of which group q of rows has the elements base + group*q .. base + group*(q + 1) - 1, and no other group. */
typedef struct sn_schedule_flat_buf {
    sn_buf buf;
    bool side_by; /* a nest walks neighbours */
    bool stored; /* all elements of a group are, by one store; else it is only read */
    int64_t base, group;
    int64_t reach;   /* elements of a group from its base to the last one that is touched */
    uint32_t vector; /* elements of a piece of 16 bytes, or fewer where the base is not aligned */
    uint32_t gap;    /* elements of shared memory between two groups, so that lanes do not meet in a bank */
} sn_schedule_flat_buf;

/* Rows in groups: group q has the rows inner*q .. inner*(q + 1) - 1, counted over all outer loops. */
typedef struct sn_schedule_flat {
    sn_schedule_flat_buf bufs[SN_MAX_FLAT];
    uint32_t n; /* 0: no groups were found */
    int64_t inner, groups;
    uint32_t bytes;   /* of a group in all those buffers */
    uint32_t piece;   /* bytes that a copy moves at once, at least */
    uint32_t unit;    /* groups that a block has a multiple of, so that its pieces are aligned */
    int64_t run;      /* bytes that lie one behind the other where one step of the reduction finds them */
    uint32_t vector;  /* elements of a row that lie side by side in an aligned piece, of all buffers */
    bool by_columns;  /* rows stand along block.x, what threads share of a row along block.y; else the other way */
} sn_schedule_flat;

void sn_schedule_find_flat(sn_schedule_flat *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);
/* Is the access to the buffer one that passes through shared memory? */
bool sn_schedule_is_flat(const sn_schedule_flat *f, sn_buf b, uint32_t *which);

#endif
