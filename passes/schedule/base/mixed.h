/* mixed.h: kernels of the pass `mixed-order-reduction`, which walk rows and sum up columns at once (mixed_match.c). */
#ifndef SN_PASSES_SCHEDULE_BASE_MIXED_H
#define SN_PASSES_SCHEDULE_BASE_MIXED_H

#include "passes/schedule/base/schedule.h"

/* A kernel of the pass `mixed-order-reduction`: each outer iteration does several rows, one after the other. */
struct sn_schedule_mixed {
    sn_stmt rows_loop;
    sn_stmt row;     /* its region is a row: rows_loop, or the `if` in it */
    int64_t width;   /* elements of a row that accumulates */
    uint32_t n_sums; /* buffers that it accumulates in */
    sn_buf sums[SN_MAX_NESTS];
    sn_comb combs[SN_MAX_NESTS];
    sn_val identities[SN_MAX_NESTS];
};

/* Is the kernel of the kind that `mixed-order-reduction` makes (mixed_match.c)? NULL: no. */
const sn_schedule_mixed *sn_schedule_find_mixed(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);
/* Which of its sums a buffer is; -1: none. */
int sn_schedule_sum_of(const sn_schedule_mixed *mo, sn_buf b);
/* The offset e in the nest as an expression in p, the position in the nest. */
sn_ix sn_schedule_at_position(sn_module *m, const sn_chain *nest, sn_ix e, sn_ix p);

#endif
