/* decompose.h: building blocks that decompose.c shares with decompose_norm.c. Nodes that come out of these compute in
 * sn_compute_dtype; the caller in decompose.c casts the last one to the dtype of the replaced node.
 */
#ifndef SN_PASSES_GRAPH_DECOMPOSE_H
#define SN_PASSES_GRAPH_DECOMPOSE_H

#include "passes/graph/rewrite.h"

/* f32 for half dtypes, else the dtype itself. */
/* Operand k of node x in the compute dtype. */
sn_nd sn_dec_operand(sn_module *m, sn_nd x, uint32_t k);
/* A rank-0 literal of the dtype of `like`. */
sn_nd sn_dec_scalar(sn_module *m, sn_nd like, double value);
/* Reductions of x over the axes in the mask, which stay with size 1 (so that all users share one reduction). */
sn_nd sn_dec_reduce(sn_module *m, sn_op op, sn_nd x, uint32_t mask);
sn_nd sn_dec_mean(sn_module *m, sn_nd x, uint32_t mask);
/* sum((x - mean)^2) */
sn_nd sn_dec_squares(sn_module *m, sn_nd x, uint32_t mask);
/* Drop the axes in the mask. */
sn_nd sn_dec_squeeze(sn_module *m, sn_nd x, uint32_t mask);
/* Number of elements that are reduced, less the correction, in the dtype of x. */
sn_nd sn_dec_count(sn_module *m, sn_nd x, uint32_t mask, int64_t correction);
sn_nd sn_dec_square(sn_module *m, sn_nd x);

/* decompose_norm.c */
sn_nd sn_dec_layer_norm(sn_module *m, sn_nd x);
sn_nd sn_dec_rms_norm(sn_module *m, sn_nd x);
sn_nd sn_dec_batch_norm(sn_module *m, sn_nd x);
sn_nd sn_dec_batch_norm_train(sn_module *m, sn_nd x, int64_t k);

/* decompose_conv.c */
sn_nd sn_dec_conv(sn_pass_ctx *cx, sn_nd x);

/* decompose_bands.c */
sn_nd sn_dec_bands(sn_pass_ctx *cx, sn_nd x);

/* decompose_product.c */
sn_nd sn_dec_matmul(sn_pass_ctx *cx, sn_nd x);

/* decompose_lanes.c */
sn_nd sn_dec_lanes(sn_pass_ctx *cx, sn_nd x);

/* decompose_pairs.c */
sn_nd sn_dec_pairs(sn_pass_ctx *cx, sn_nd x);

/* decompose_random.c */
sn_nd sn_dec_dropout(sn_module *m, sn_nd x);
sn_nd sn_dec_random_normal(sn_module *m, sn_nd x);

/* decompose_scatter.c: scatter_sum, scatter_prod, scatter_max, scatter_min */
sn_nd sn_dec_scatter_reduce(sn_pass_ctx *cx, sn_nd x);

#endif
