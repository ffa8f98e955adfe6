/* deal.h: class deal: what its two files know of a kernel. */
#ifndef SN_PASSES_SCHEDULE_MOVES_DEAL_H
#define SN_PASSES_SCHEDULE_MOVES_DEAL_H

#include "passes/schedule/base/schedule.h"

enum { SN_MAX_DEAL = 12 };

/* Iterations of the outer loops, from low on. */
typedef struct sn_schedule_box {
    int64_t low[SN_MAX_CHAIN], n[SN_MAX_CHAIN];
} sn_schedule_box;

/* A load that has one part of the result. Its elements have numbers, in the order of the result; those that do not follow each other in memory
 * likewise are single. */
typedef struct sn_schedule_deal_part {
    sn_stmt load;
    sn_buf buf;
    sn_schedule_box box;
    bool single;
    int64_t first, count;        /* the offset of number 0; elements */
    int64_t steps[SN_MAX_CHAIN]; /* numbers from one iteration to the next, */
    int64_t from[SN_MAX_CHAIN];  /* ... and elements of the storage */
    int64_t turns;               /* pieces of a thread, or elements */
} sn_schedule_deal_part;

typedef struct sn_schedule_deal {
    sn_schedule_deal_part parts[SN_MAX_DEAL];
    uint32_t n;
    uint32_t axes;
    int64_t extents[SN_MAX_CHAIN], strides[SN_MAX_CHAIN]; /* of the result */
    int64_t total;
    sn_val top;             /* what the body has of the parts; the rest of it hangs on this */
    sn_dtype dtype;         /* of the parts */
    bool fills;             /* there is something between parts: */
    double fill;            /* ... this, */
    int64_t fill_int;       /* ... or this, where it is no float */
    uint32_t bytes, stored; /* of an element of the parts; of the largest one that is stored */
    int64_t block, piece;   /* elements of a block's part of the result; of a load */
    uint32_t threads;
} sn_schedule_deal;

/* false: the kernel is not of that kind. */
bool sn_schedule_find_deal(sn_schedule_deal *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);
/* With blocks of so many elements and threads, and loads of so many elements. */
void sn_schedule_size_deal(sn_schedule_deal *d, int64_t block, int64_t piece, uint32_t threads);

/* A block's part of the result as it stands in shared memory, from element `front` on, and the body that makes the result of it. */
typedef struct sn_schedule_dealt {
    sn_pass_ctx *cx;
    sn_kern k;
    const sn_schedule_shape *sh;
    sn_buf shared;
    sn_ix g;                     /* number of the block */
    sn_val top;                  /* what the body has of it */
    int64_t front, block, total; /* elements: in front of it, of a block, of the result */
    uint32_t stored, threads;    /* bytes of the largest element that is stored */
} sn_schedule_dealt;

/* Is there a thread for each element of a vector that is not whole? */
sn_status sn_schedule_check_dealt(sn_pass_ctx *cx, sn_kern k, uint32_t threads, uint32_t vector);
void sn_schedule_put_dealt(const sn_schedule_dealt *b, sn_stmt into, sn_stmt_vec *body);

#endif
