/* cond.h: the builder function of branches that are taken when the program runs. A part of sinter.h, which includes it where the
 * other builder functions are. Rules of threads and ownership are theirs.
 */
#ifndef SINTER_COND_H
#define SINTER_COND_H

#include "sinter.h"

/* One of two lists of values, by a bool that the program computes; only what is wanted of the list that is taken is computed.
 *
 *     sn_node far = sn_gt(g, sn_amax(g, x, 0, NULL, false), sn_number(g, SN_F32, 10));
 *     sn_node yes = sn_matmul(g, x, w), no = sn_relu(g, x);            // nothing is computed here yet
 *     sn_node y;
 *     sn_cond(&y, g, far, 1, &yes, &no);                               // the product where far holds, else the other one
 *
 * The condition is a bool of one element. results, n: yes[k] where it holds, no[k] where it does not, which are of one dtype and
 * shape; all invalid where it fails. Lists are read during the call. What nobody but yes (or no) wants is computed when the
 * condition holds (or does not); what both want, or others, is computed before, and so is what a loop around the branch does not
 * change. On a GPU each run waits there for what is queued on its stream, since the host has to see the condition: such a run
 * returns later than others, cannot be captured in a CUDA graph, and is never made one (sn_compile_options.graphs). */
SN_API void sn_cond(sn_node *results, sn_graph *g, sn_node condition, unsigned n, const sn_node *yes,
                    const sn_node *no);

#endif
