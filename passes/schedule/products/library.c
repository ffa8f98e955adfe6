/* library.c: class library: a library runs the kernel, so that nothing is chosen and no axis bound.
 *
 * For kernels whose header asks for it, where the target's library takes the very product or convolution that the nest is, epilogue
 * included (ir/loop/library.h). The nest stays as it is, and says what the kernel means.
 */
#include "passes/schedule/base/schedules.h"

bool sn_schedule_library_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    (void)sh;
    return sn_pass_library_runs(why_not, cx, k);
}

sn_status sn_schedule_library_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                         const sn_sched *pinned) {
    (void)k, (void)sh;
    if (pinned->cls == SN_SCHED_LIBRARY) sn_schedule_propose(out, cx, pinned);
    return SN_OK;
}

void sn_schedule_library_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    (void)cx, (void)k, (void)sh, (void)sc;
}
