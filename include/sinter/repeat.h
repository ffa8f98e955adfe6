/* repeat.h: builder functions of loops that run when the program runs. A part of sinter.h, which includes it where the other
 * builder functions are. Rules of threads and ownership are theirs: calls on one graph are made one at a time, and a failure stays
 * with the graph.
 */
#ifndef SINTER_REPEAT_H
#define SINTER_REPEAT_H

#include "sinter.h"

/* A loop that runs when the program runs: it is compiled once, however many steps it has, and each step launches its kernels; where all that a
 * step does is element by element, the loop stands in one kernel.
 *
 *     unsigned loop = sn_repeat_begin(g);
 *     sn_node h = sn_repeat_state(g, loop, 0, h0);               // h0 in the first step, then what the step before has made
 *     sn_node x = sn_repeat_slice(g, loop, xs, 0, false);        // xs[t] in step t
 *     sn_node h1 = sn_tanh(g, sn_add(g, sn_matmul(g, h, w), x));
 *     sn_node r[2];                                              // the last h1; all h1, [steps, ..]
 *     sn_repeat_end(r, g, &(sn_repeat){.struct_size = sizeof(sn_repeat), .loop = loop, .steps = 512, .n_states = 1,
 *                                      .states = &h, .after = &h1, .n_stacks = 1, .stacks = &h1});
 *
 * The loop's body is all that is made of its states and slices; everything else that it reads is computed once. Values of the
 * body are read by the body alone, and what the end names goes on. Loops nest: one that reads values of another one's body, or
 * begins with some, runs inside of it.
 *
 * A loop with `goes_on` makes `steps` steps at most, and one at least: after a step whose goes_on does not hold there is no other,
 * and the states are what that one has made. It has states and no stacks, whose sizes would not be known. One that may make no
 * step at all stands in a branch (sn_cond). On a GPU every step of it waits for what is queued, as a branch does.
 *
 * A loop that is never ended, a value that is read outside of it, and loops that cross are
 * refused when the graph is compiled (SN_ERROR_TYPE). */

/* A number for a loop that has no states and slices yet; 0: the graph has failed. */
SN_API unsigned sn_repeat_begin(sn_graph *g);
/* State number `index` (0, 1, ...) of the loop, as in `first` in the first step; of its dtype and shape, which has elements. */
SN_API sn_node sn_repeat_state(sn_graph *g, unsigned loop, unsigned index, sn_node first);
/* Element t of an axis of x in step t, or, in reverse, of the t-th element from its end; the axis goes. It has to have as many
 * elements as the loop has steps. Axis 0 costs nothing; for others x is copied in another order. */
SN_API sn_node sn_repeat_slice(sn_graph *g, unsigned loop, sn_node x, int64_t axis, bool reverse);
typedef struct sn_repeat {
    size_t struct_size;
    unsigned loop;                 /* what sn_repeat_begin gave */
    int64_t steps;                 /* a number, at least 1, or a size of sn_dim */
    unsigned n_states;             /* those of sn_repeat_state, in the order of their numbers, ... */
    const sn_node *states, *after; /* ... and what a step makes of each, of the same dtype and shape */
    unsigned n_stacks;             /* values of the body of which those of all steps are kept ... */
    const sn_node *stacks;         /* ... along a new first axis */
    const bool *backwards;         /* by stack: does the last step come first? NULL: for none */
    sn_node goes_on; /* a bool of one element: the step after which it does not hold is the last; {0}: none ends */
} sn_repeat;
/* results, n_states + n_stacks: the states after the last step, then the stacks; all invalid where it fails. Lists are read
 * during the call. */
SN_API void sn_repeat_end(sn_node *results, sn_graph *g, const sn_repeat *repeat);

#endif
