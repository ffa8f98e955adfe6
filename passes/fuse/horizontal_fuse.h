/* horizontal_fuse.h: the order of kernels as a graph, for the pass `horizontal-fuse`. */
#ifndef SN_PASSES_FUSE_HORIZONTAL_FUSE_H
#define SN_PASSES_FUSE_HORIZONTAL_FUSE_H

#include "passes/base/nest.h"

/* Which kernels must have run before which, by position in m->kernels. */
typedef struct sn_kern_order {
    uint32_t n;
    uint32_t *first; /* n + 1: the predecessors of kernel k are pred[first[k]] .. pred[first[k + 1] - 1] */
    uint32_t *pred;
    uint32_t *level; /* 0 without predecessors, else one more than the deepest: equal levels are independent */
} sn_kern_order;

void sn_kern_order_find(sn_kern_order *out, sn_pass_ctx *cx);
/* m->kernels again, when kernels have become one: leader[k] is the position of the kernel that k went into (itself, or
 * one of the same level). A kernel stands where the first of its members stood, after what they need; nothing else
 * moves. */
void sn_kern_order_apply(const sn_kern_order *o, sn_pass_ctx *cx, const uint32_t *leader);

#endif
