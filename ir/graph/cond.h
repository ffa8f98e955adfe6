/* cond.h: branches that are taken at run time, in a graph.
 *
 *     %p = lt %norm, 1                    one bool
 *     %a = matmul %x, %w                  wanted where %p holds
 *     %b = relu %x                        wanted where it does not
 *     %y = cond %p, %a, %b                the one or the other; only that is computed
 *
 * A branch has no region of its own: inside of it is what nobody wants but that branch. So nodes stay pure, what both branches or
 * others want is computed before, once, and a rewrite that makes one node of two moves it there. What the result is follows from
 * the values alone; branches say when something is computed. Of several results `%c = cond %p, %a0, %a1, %b0, %b1` is the tuple.
 *
 * Branches and repeats nest in each other. What is inside of a repeat follows from what it is made of (ir/graph/repeat.h), so
 * what a branch in a step wants, and is the same in all steps, is computed before the repeat.
 */
#ifndef SN_IR_GRAPH_COND_H
#define SN_IR_GRAPH_COND_H

#include "ir/graph/graph.h"

/* What sn_repeat_scopes calls a branch of the `cond` x: the one that is taken where its condition holds, or the other one. */
static inline uint32_t sn_cond_scope(const sn_module *m, sn_nd x, bool other) {
    return other ? m->graph.nodes.count + x.i : x.i;
}
/* The `repeat` or `cond` of a scope that is not 0. */
static inline sn_nd sn_scope_node(const sn_module *m, uint32_t scope) {
    return (sn_nd){scope < m->graph.nodes.count ? scope : scope - m->graph.nodes.count};
}

/* of: by node id, the innermost repeat of the live nodes. Becomes the innermost repeat or branch. */
void sn_cond_scopes_find(uint32_t *of, sn_module *m, sn_arena *a, const uint8_t *live);

/* n results each, where the condition holds and where it does not, of the same dtypes and shapes. */
void sn_graph_cond(sn_nd *results, sn_module *m, sn_nd condition, uint32_t n, const sn_nd *yes, const sn_nd *no);

/* Which result of which `cond` is x; none: it is none. */
sn_nd sn_cond_result(uint32_t *index, const sn_module *m, sn_nd x);

#endif
