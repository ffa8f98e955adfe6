/* repeat.h: loops that run at run time, in a graph.
 *
 *     %h = repeat_state %h0 repeat=1 index=0          a value that is carried from step to step
 *     %x = repeat_slice %xs repeat=1 axis=0           an element of a tensor for each step
 *     ... %h1, %y made of %h, %x, and of what does not change ...
 *     %r = repeat %h, %h1, %y repeat=1 states=1 trip=[512]
 *     %0 = project %r index=0    the last %h1         %1 = project %r index=1    all %y, stacked
 *
 * One whose end says `while` has one more operand, a bool that a step makes: the step after which it does not hold is the last
 * one, whatever `trip` says. It has at least one step, states, and no stacks, whose sizes only a run would know:
 *
 *     %r = repeat %h, %h1, %more repeat=1 states=1 trip=[512] while=true
 *
 * A repeat has no region of its own: its body is what is made of its states and slices, and its end names what of that goes on.
 * So nodes stay pure, every rule that holds for a graph holds inside too, and what does not change from step to step is outside
 * without being moved there. A repeat that is made of another one's values, or reads some, is inside of that one.
 */
#ifndef SN_IR_GRAPH_REPEAT_H
#define SN_IR_GRAPH_REPEAT_H

#include "ir/graph/graph.h"

/* By node id: the `repeat` node of the innermost loop that the node is inside of (0: of none), and, of the nodes that
 * are such ends, that of the one around. An end is not inside of itself. Where a branch is inside of that: the branch, by
 * its number of ir/graph/cond.h. */
typedef struct sn_repeat_scopes {
    uint32_t *of;
} sn_repeat_scopes;

/* Of the live nodes. Fails where a value is read outside of its loop, loops cross, or a slice has not as many elements as its
 * loop has steps. */
sn_status sn_repeat_scopes_find(sn_repeat_scopes *out, sn_module *m, sn_arena *a);

/* A number that no repeat of the graph has. */
uint32_t sn_repeat_number(const sn_module *m);
/* What code that makes graphs calls: the value of a state, an element for each step, and the end. */
sn_nd sn_graph_repeat_state(sn_module *m, uint32_t number, uint32_t index, sn_nd first);
sn_nd sn_graph_repeat_slice(sn_module *m, uint32_t number, sn_nd x, int64_t axis, bool reverse);
/* states and after: n_states each. backwards, by stack: does it begin with the last step? NULL: none does. */
typedef struct sn_graph_repeat {
    uint32_t number, n_states, n_stacks;
    const sn_nd *states, *after, *stacks;
    const bool *backwards;
    sn_ix trip;
    sn_nd goes_on; /* whether there is a next step; none: all steps are run */
} sn_graph_repeat;
/* results: the last states, then the stacks. */
void sn_graph_repeat_end(sn_nd *results, sn_module *m, const sn_graph_repeat *end);

/* Which result of which `repeat` is x; none: it is none. */
sn_nd sn_repeat_result(uint32_t *index, const sn_module *m, sn_nd x);

#endif
