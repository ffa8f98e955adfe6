/* attend_host.h: what attend_host.c plans for attention on the CPU and attend_host_bind.c binds. */
#ifndef SN_PASSES_SCHEDULE_ATTENTION_ATTEND_HOST_H
#define SN_PASSES_SCHEDULE_ATTENTION_ATTEND_HOST_H

#include "passes/schedule/attention/attend.h"

/* Keys of a tile, steps that a register takes in, and tiles whose sums one sum takes in, at most: so long sums are as
 * exact as short ones. */
enum { SN_ATTEND_RUN = 64 };

/* Sums that stay in registers while a product goes along its steps. */
typedef struct sn_attend_block {
    int64_t rows, vectors;
} sn_attend_block;

typedef struct sn_attend_plan {
    sn_dtype dtype;         /* that is multiplied and added up */
    int64_t lanes;          /* query rows in a vector of scores ... */
    int64_t vectors;        /* ... vectors of a tile, and how many there are in all: the last one begins earlier */
    int64_t all_vectors;    /* where it would reach beyond the rows */
    int64_t together;       /* vectors that go along the keys of a tile side by side: a divisor of `vectors` */
    int64_t columns;        /* of v, in a vector of sums */
    int64_t v_vectors;      /* of all columns; the last one begins earlier */
    int64_t keys;           /* of a tile */
    int64_t tiles;          /* of rows, in each product of the batch */
    sn_attend_block scores; /* rows are keys, vectors those of query rows */
    sn_attend_block sums;   /* rows are query rows, vectors those of columns */
    bool across;            /* the other way round: rows of `sums` are columns, vectors those of query rows */
    bool packs_key, packs_v;
    bool alone;    /* one thread does all products of the batch */
    double cycles; /* of a thread, about, with all tiles */
} sn_attend_plan;

/* Choose what is open in *sc and plan for it. false: its buffers do not fit. */
bool sn_attend_plan_find(sn_attend_plan *out, sn_sched *sc, sn_attend *a);

#endif
