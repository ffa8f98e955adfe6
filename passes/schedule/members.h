/* members.h: alternatives of a kernel (sn_kern_rec.alternative_of), which the pass `schedule` makes on demand. */
#ifndef SN_PASSES_SCHEDULE_MEMBERS_H
#define SN_PASSES_SCHEDULE_MEMBERS_H

#include "passes/schedule/base/schedule.h"

/* Headers of other kinds than `first`, which is chosen for the kernel of that shape and takes so many cycles by the model. The kernel
 * stays as it is. */
sn_status sn_schedule_members(sn_sched_list *out, sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *first,
                              double of_first);

#endif
