/* mixed_order_reduction.h: what the files of the pass `mixed-order-reduction` share: a row kernel, and the column
 * kernels that can run along with it.
 */
#ifndef SN_PASSES_FUSE_MIXED_ORDER_REDUCTION_H
#define SN_PASSES_FUSE_MIXED_ORDER_REDUCTION_H

#include "passes/base/nest.h"

enum { SN_MIXED_COLUMN_KERNELS = 4, SN_MIXED_STATES = 8 };

/* A kernel that reduces over the rows: loops over columns around one perfect reduction. */
typedef struct sn_mixed_column {
    sn_kern k;
    sn_chain cols, red;            /* its outer loops; the reduction */
    uint32_t row_of[SN_MAX_CHAIN]; /* axis of the reduction -> position in the row loops of the row kernel */
    sn_buf part[SN_MIXED_STATES];  /* one partial result a group, by state */
    uint32_t n_states;
} sn_mixed_column;

typedef struct sn_mixed {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern a;       /* the row kernel */
    sn_chain chain;  /* its outer loops: the first n_rows number the rows */
    uint32_t n_rows; /* 0: nothing matched yet */
    int64_t rows, width;
    sn_mixed_column columns[SN_MIXED_COLUMN_KERNELS];
    uint32_t n_columns;
    int64_t shared; /* bytes that would be read once instead of twice */
    int64_t groups;
    sn_sched sched; /* of the merged kernel */
} sn_mixed;

/* Kernels by buffer. */
typedef struct sn_mixed_kernels {
    sn_kern *at;
    uint32_t n, cap;
} sn_mixed_kernels;
/* Is k a column kernel? Then it is entered into the list of each buffer whose rows it walks. */
void sn_mixed_note_columns(sn_mixed_kernels *by_buf, sn_pass_ctx *cx, sn_kern k);
/* Add column kernel b if it can run along with mx->a; false: mx is as before, *why_not says what stands against it. */
bool sn_mixed_match(sn_mixed *mx, sn_kern b, const char **why_not);
/* Choose groups and schedule; false: not worth it. */
bool sn_mixed_choose(sn_mixed *mx, const char **why_not);

#endif
