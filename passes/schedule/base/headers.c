/* headers.c: lists of headers that classes propose, and what one class asks another. */
#include "passes/schedule/base/schedules.h"

void sn_schedule_propose(sn_sched_list *out, sn_pass_ctx *cx, const sn_sched *sched) {
    for (uint32_t i = 0; i < out->n; i++) {
        bool same = out->at[i].cls == sched->cls;
        for (int f = 0; f < SN_N_SCHED_FIELDS; f++)
            same &= sn_sched_get(&out->at[i], (sn_sched_field)f) == sn_sched_get(sched, (sn_sched_field)f);
        if (same) return;
    }
    SN_PUSH(cx->scratch, out, *sched);
}

sn_status sn_schedule_ask(sn_sched_list *out, sn_schedule_applies *applies, sn_schedule_candidates *candidates,
                          sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_sched *pinned) {
    const char *why_not;
    sn_pass_ctx quiet = *cx;
    quiet.remark = NULL;
    *out = (sn_sched_list){0};
    if (!applies(&why_not, &quiet, k, sh)) return SN_OK;
    SN_TRY(candidates(out, &quiet, k, sh, pinned));
    if (!out->n) out->cycles = 0;
    return SN_OK;
}
