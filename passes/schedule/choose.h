/* choose.h: what the pass `schedule` says of one kernel without binding it (schedule.c), for whoever compares kernels: tuning,
 * kernels with several schedules, passes that ask what it would make of theirs. */
#ifndef SN_PASSES_SCHEDULE_CHOOSE_H
#define SN_PASSES_SCHEDULE_CHOOSE_H

#include "passes/schedule/base/schedule.h"

/* What all classes that can bind the kernel at a position propose, and what the model says of each (0: it
 * knows GPUs alone). The kernel stays as it is. */
sn_status sn_schedule_list(sn_sched_list *out, double **cycles, sn_pass_ctx *cx, uint32_t at);
/* What the pass chooses for the kernel at a position, which stays as it is, and what the model says. */
sn_status sn_schedule_first(sn_sched *out, double *cycles, sn_pass_ctx *cx, uint32_t at);
/* What the class of a header makes of it for that kernel, and what the model says (0: it does not); class none: it cannot
 * be bound so. */
sn_status sn_schedule_complete(sn_sched *sched, double *cycles, sn_pass_ctx *cx, uint32_t at);
/* The cycles that a kernel takes whose loops have no schedule yet, as the first row of that class counts them
 * which can bind it; 0: none can, or it does not count. Needs no shape of the kernel: classes contract and taps alone. */
sn_status sn_schedule_count(double *cycles, sn_pass_ctx *cx, sn_kern k, sn_sched_class cls);
/* Is it so small that it may take its shape from a kernel in front of it? */
bool sn_schedule_may_follow(const sn_schedule_shape *sh);

#endif
