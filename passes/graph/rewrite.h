/* rewrite.h: how graph passes change a graph that only grows.
 *
 * The graph is built anew, node by node in the old order, by the ordinary constructors; a rule may answer a freshly
 * built node by another one. A second round then leaves out what nobody needs. Ids stay topological, the order of the
 * nodes stays the program's, names and inputs are kept, and equal nodes meet by interning.
 */
#ifndef SN_PASSES_GRAPH_REWRITE_H
#define SN_PASSES_GRAPH_REWRITE_H

#include "passes/base/pass.h"

/* x, or the node of the same type to use instead; none after a failure. May build any nodes. */
typedef sn_nd (*sn_node_rule)(sn_pass_ctx *cx, sn_nd x);

sn_status sn_graph_rewrite(sn_pass_ctx *cx, sn_node_rule rule, bool *changed);

/* ---- shorthands that graph passes share (rewrite.c) ---- */

/* Are all sizes constants? Their product in *numel. */
bool sn_type_static(const sn_module *m, const sn_type *t, int64_t *numel);
bool sn_same_shape(const sn_type *a, const sn_type *b);
/* x converted and broadcast to the type; x itself when it has it. */
sn_nd sn_node_as(sn_module *m, sn_nd x, const sn_type *type);
/* A node that could not be built has the type of a number: what is built on it fails too, and the first failure
 * counts. */
static inline const sn_type *sn_type_of(const sn_module *m, sn_nd x) {
    static const sn_type none = {0};
    return x.i ? &sn_node_get(m, x)->type : &none;
}

/* passes/graph/fold.c: the literal value of a node whose operands are literals (full, constant), or x. */
sn_nd sn_fold_literals(sn_pass_ctx *cx, sn_nd x);
/* passes/graph/empty.c: the literal value of a node that has no elements or reads none, or x. */
sn_nd sn_fold_empty(sn_pass_ctx *cx, sn_nd x);
/* passes/graph/picked.c: an index_select of known positions as a slice, which the rule `simplify` then sees; a slice of a concat as
 * one of its operand; or x. */
sn_nd sn_select_as_slice(sn_pass_ctx *cx, sn_nd x, sn_node_rule simplify);
sn_nd sn_slice_of_concat(sn_pass_ctx *cx, sn_nd x);
/* Is every element of x (a full) this one value? */
bool sn_is_uniform(const sn_module *m, sn_nd x, double *value);

#endif
