/* needed.h: which iterations of a short loop want what a statement makes (needed.c). */
#ifndef SN_PASSES_LOOPS_NEEDED_H
#define SN_PASSES_LOOPS_NEEDED_H

#include "passes/base/nest.h"

/* Notes for each statement of `body`, by its id, in how many iterations of the loop something hangs on it. `body` is the loop, or
 * one inside of it, and has no regions inside. */
void sn_needed_find(sn_notes *out, sn_pass_ctx *cx, sn_stmt loop, sn_stmt body);

#endif
