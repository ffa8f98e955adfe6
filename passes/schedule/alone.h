/* alone.h: a kernel that has no schedule yet as a program of its own, and the text of that: what schedules are timed on, and
 * what decisions about them are remembered by.
 */
#ifndef SN_PASSES_SCHEDULE_ALONE_H
#define SN_PASSES_SCHEDULE_ALONE_H

#include "passes/base/nest.h"
#include "passes/base/pass.h"

/* How the text of such a program begins. */
extern const char sn_kernel_key_start[]; /* "graph @kernel(" */

/* The kernel at a position, with the small ones that take their shape from it, as a module of its own with a graph that
 * names its inputs and outputs. NULL: it cannot be one, or it has no schedule to be chosen; *why_not says so. */
sn_module *sn_kernel_alone(const char **why_not, sn_pass_ctx *cx, const sn_users *users, uint32_t at);
/* The text of that module, in scratch; NULL likewise. */
const char *sn_kernel_key(const char **why_not, sn_pass_ctx *cx, const sn_users *users, uint32_t at);
/* How often statements of a kernel without symbols run, all together. */
double sn_kernel_statements(const sn_module *m, sn_kern k);

#endif
