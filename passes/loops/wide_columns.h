/* wide_columns.h: columns of a reduction that split_reduction.c makes wide: what lies side by side in memory. */
#ifndef SN_PASSES_LOOPS_WIDE_COLUMNS_H
#define SN_PASSES_LOOPS_WIDE_COLUMNS_H

#include "passes/base/nest.h"

/* A piece of memory without gaps: the last `beside` outer axes and the last `behind` ones of the reduction, in the order of
 * their strides, and `rounds` iterations of the axis of the reduction around those, one after the other. */
typedef struct sn_wide_columns {
    uint32_t beside, behind;
    uint32_t bytes;                   /* of an element; 0: accesses differ */
    int64_t size;                     /* elements of the axes together */
    int64_t rest;                     /* of those of the reduction alone */
    int64_t rounds;                   /* 1: one */
    int64_t strides[2][SN_MAX_CHAIN]; /* of the outer axes, of those of the reduction; by their place in the chain */
} sn_wide_columns;

/* Those of the nest `chain` inside of `outer`, whose results are so many. Where no wider ones are worth it: the columns that
 * there are, with rounds of 1 and nothing behind. */
void sn_wide_columns_find(sn_wide_columns *out, sn_pass_ctx *cx, const sn_chain *outer, const sn_chain *chain);

/* Iterations of the reduction that became columns. */
static inline int64_t sn_wide_columns_width(const sn_wide_columns *wc) { return wc->rest * wc->rounds; }

#endif
