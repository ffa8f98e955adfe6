/* turn_operands.h: operands that lie across the others (turn_operands.c). */
#ifndef SN_PASSES_LOOPS_TURN_OPERANDS_H
#define SN_PASSES_LOOPS_TURN_OPERANDS_H

#include "passes/base/nest.h"

/* What a kernel that reduces something loads in another order than most of what it accesses comes from a copy in that order, which kernels
 * of their own make: they are appended to `made`, in front of where k has to run. Buffers of fewer bytes than `least` are left alone.
 * false: there are none; then the kernel stays as it is. */
bool sn_turn_operands(sn_pass_ctx *cx, sn_kern k, int64_t least, sn_kern_list *made);
/* Are there some? The kernel stays as it is. */
bool sn_has_turned_operands(sn_pass_ctx *cx, sn_kern k, int64_t least);

#endif
