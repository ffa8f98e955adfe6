/* schedules.h: what a row of schedules.def is asked. */
#ifndef SN_PASSES_SCHEDULE_BASE_SCHEDULES_H
#define SN_PASSES_SCHEDULE_BASE_SCHEDULES_H

#include "passes/schedule/base/schedule.h"

/* applies: can it bind the kernel at all? *why_not goes on from "class inner does not fit: ".
 *
 * candidates: headers worth trying, complete, the best by its own rules first. They agree with what is not zero in
 * *pinned; where that names the class, there is one if the class can do it at all, and it is an error if a field is
 * impossible. None: something else does better.
 *
 * bind: give the kernel the axes of the header; may bound its registers in *sched once it is known what a thread keeps.
 * The shape is the kernel's own; it describes nothing afterwards.
 */
#define SN_SCHEDULE(name, CLASS)                                                                                       \
    bool sn_schedule_##name##_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);  \
    sn_status sn_schedule_##name##_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k,                          \
                                              const sn_schedule_shape *sh, const sn_sched *pinned);                    \
    void sn_schedule_##name##_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sched);
#include "passes/schedule/base/schedules.def"
#undef SN_SCHEDULE

typedef bool sn_schedule_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh);
typedef sn_status sn_schedule_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                         const sn_sched *pinned);

/* What another row would do, which says nothing in remarks; none where it does not apply. For classes that compare themselves with it. */
sn_status sn_schedule_ask(sn_sched_list *out, sn_schedule_applies *applies, sn_schedule_candidates *candidates,
                          sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_sched *pinned);

#endif
