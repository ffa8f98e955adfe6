/* attend_rows.h: what attend_rows.c, which chooses, and attend_rows_bind.c, which binds, know of an attention whose
 * keys meet few query rows.
 */
#ifndef SN_PASSES_SCHEDULE_ATTENTION_ATTEND_ROWS_H
#define SN_PASSES_SCHEDULE_ATTENTION_ATTEND_ROWS_H

#include "passes/base/attention.h"
#include "passes/schedule/products/contraction.h"
#include "passes/schedule/base/schedules.h"

typedef struct sn_attend_rows {
    sn_chain outer; /* loops around the reduction; parallel */
    int64_t extent[SN_MAX_CHAIN];
    int64_t shared
        [SN_MAX_CHAIN];  /* so many of its iterations in a row are rows of one block, as they meet the same keys: all of
                                     an axis of queries, the heads of a group, 1 of a batch */
    uint32_t column;     /* which loop goes along the columns of v */
    sn_stmt top, scores; /* the reductions: over keys, and of q * k in it */
    sn_axis keys, channel;
    sn_val q, key, v;            /* factors; as they are in memory where they are loads */
    sn_dtype key_dtype, v_dtype; /* that hold them exactly */
    sn_val score;                /* what the weights are e^ of */
    sn_dtype dtype;              /* of the states */
    int64_t queries;             /* of one product of q and k */
    int64_t meet;                /* query rows that meet the same keys ... */
    int64_t rows, batch;         /* ... those of them that a block does; others are blocks of their own */
    int64_t n_keys, depth, width;
    uint32_t bytes;  /* of an element of keys or v, the larger one */
    uint32_t vector; /* elements of a widest access along channels and columns */
} sn_attend_rows;

bool sn_attend_rows_find(sn_attend_rows *out, const char **why_not, sn_pass_ctx *cx, sn_kern k);

/* Vectors that each of the block_x threads of a key has of it, and of its v. */
static inline int64_t sn_attend_rows_vectors(const sn_sched *sc, int64_t channels) {
    int64_t all = (int64_t)sc->block_x * sc->vector;
    return (channels + all - 1) / all;
}

#endif
