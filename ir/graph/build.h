/* build.h: shorthands over sn_graph_node for code that writes whole expressions: importers and decompositions.
 *
 * Failures stick in the environment, as everywhere; a none operand gives a none node, so that an expression can be
 * written down without looking in between.
 */
#ifndef SN_IR_GRAPH_BUILD_H
#define SN_IR_GRAPH_BUILD_H

#include "ir/graph/graph.h"

/* Type of a node; that of an f32 number for none. */
const sn_type *sn_graph_type(const sn_module *m, sn_nd x);

/* ---- sources ---- */

/* A number of rank 0 with the dtype of x. */
sn_nd sn_graph_number(sn_module *m, sn_nd x, double value);
/* Elements in row-major order. */
sn_nd sn_graph_ints(sn_module *m, sn_dtype dtype, const int64_t *at, const int64_t *shape, uint32_t rank);
sn_nd sn_graph_floats(sn_module *m, sn_dtype dtype, const double *at, const int64_t *shape, uint32_t rank);
sn_nd sn_graph_iota(sn_module *m, sn_dtype dtype, int64_t axis, const sn_ix *shape, uint32_t rank);

/* ---- elementwise ---- */

sn_nd sn_graph_where(sn_module *m, sn_nd condition, sn_nd x, sn_nd y);
/* op of x and a number. */
sn_nd sn_graph_with(sn_module *m, sn_op op, sn_nd x, double value);
/* x, as f32 where its elements are halves: for formulas that are to round once, at the end. */
sn_nd sn_graph_widen(sn_module *m, sn_nd x);
sn_nd sn_graph_add(sn_module *m, sn_nd x, sn_nd y);
sn_nd sn_graph_sub(sn_module *m, sn_nd x, sn_nd y);
sn_nd sn_graph_mul(sn_module *m, sn_nd x, sn_nd y);
sn_nd sn_graph_div(sn_module *m, sn_nd x, sn_nd y);
/* op of integers x and a size, which may be an expression over names. */
sn_nd sn_graph_with_size(sn_module *m, sn_op op, sn_nd x, sn_ix size);

/* ---- shapes ---- */

sn_nd sn_graph_reshape_to(sn_module *m, sn_nd x, const int64_t *shape, uint32_t rank);
sn_nd sn_graph_squeeze(sn_module *m, sn_nd x, const int64_t *axes, uint32_t n);
/* Elements start, start+step, ... before stop, as numpy has it; a negative step is a flip and a slice. */
sn_nd sn_graph_slice(sn_module *m, sn_nd x, int64_t axis, int64_t start, int64_t stop, int64_t step);
/* x with axes of size 1 after its own, so that its first one meets axis `axis` of a tensor of that rank. */
sn_nd sn_graph_align(sn_module *m, sn_nd x, uint32_t axis, uint32_t rank);
/* Windows along an axis: out[.., i, .., k] = x[.., i * step + k * dilation, ..]. */
sn_nd sn_graph_unfold(sn_module *m, sn_nd x, int64_t axis, int64_t size, int64_t step, int64_t dilation);
/* Element `at` of an axis, which goes. */
sn_nd sn_graph_pick(sn_module *m, sn_nd x, int64_t axis, int64_t at);
sn_nd sn_graph_flip(sn_module *m, sn_nd x, int64_t axis);
/* x in memory of its own, in the order of its axes: in the dtype that it has been widened from, if it has. */
sn_nd sn_graph_copied(sn_module *m, sn_nd x);
sn_nd sn_graph_pad(sn_module *m, sn_nd x, const int64_t *low, const int64_t *high, double value);
sn_nd sn_graph_concat(sn_module *m, const sn_nd *in, uint32_t n, int64_t axis);
/* x with its axis `from` moved to place `to`. */
sn_nd sn_graph_move_axis(sn_module *m, sn_nd x, uint32_t from, uint32_t to);

/* ---- the rest ---- */

sn_nd sn_graph_gather(sn_module *m, sn_nd x, sn_nd index, int64_t axis);
sn_nd sn_graph_index_select(sn_module *m, sn_nd x, sn_nd index, int64_t axis);
/* scatter, scatter_sum, ... */
sn_nd sn_graph_scatter(sn_module *m, sn_op op, sn_nd x, sn_nd index, sn_nd updates);
/* Tuple of values and positions. */
sn_nd sn_graph_topk(sn_module *m, sn_nd x, int64_t k, int64_t axis, bool largest);
sn_nd sn_graph_scan(sn_module *m, sn_op op, sn_nd x, int64_t axis, bool exclusive, bool reverse);
/* softmax, log_softmax. */
sn_nd sn_graph_along(sn_module *m, sn_op op, sn_nd x, int64_t axis);
sn_nd sn_graph_matmul(sn_module *m, sn_nd x, sn_nd y);

#endif
