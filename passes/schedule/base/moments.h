/* moments.h: kernels that compute a sum over each row and the sum of squares about what is made of it: mean and variance.
 * `fuse` and `split-reduction` agree here on which of them are cut into parts that stay on the chip.
 */
#ifndef SN_PASSES_SCHEDULE_BASE_MOMENTS_H
#define SN_PASSES_SCHEDULE_BASE_MOMENTS_H

#include "passes/base/nest.h"

typedef struct sn_moments {
    sn_chain outer, sum, squares; /* the two nests are all loops inside the outer ones */
    uint32_t state;               /* of the sum of x among the results of `sum` */
    sn_stmt distance;             /* x - c in `squares`; c is the same for the whole row */
    bool columns;                 /* elements are contiguous along the outer loops, not along the nests */
} sn_moments;

/* Is the kernel of that kind? */
bool sn_moments_find(sn_moments *out, sn_pass_ctx *cx, sn_kern k);
/* The same of two nests of a kernel that may have others: what the squares are about, a value that is there in front of them; none: they are no
 * such pair, or have other results. */
sn_val sn_moments_about(sn_pass_ctx *cx, sn_kern k, sn_stmt sum, sn_stmt squares);
/* Where something else wants the rows, too, are they read once for both sums by teams of blocks that meet once (passes/schedule/rows/meet_once.c)? Rows are multiples
 * of `piece` bytes. */
bool sn_moments_once(const sn_moments *mo, const sn_module *m, uint32_t piece);
/* Elements of a part of a row; 0: it stays whole. alone: nothing but the two sums wants the row. */
int64_t sn_moments_part(const sn_moments *mo, sn_pass_ctx *cx, bool alone);

#endif
