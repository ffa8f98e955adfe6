/* time_kernels.c: how long each kernel of a program takes in a run, one after the other.
 *
 * Through the step interpreter: each call is timed alone, between two events on a device, which costs some microseconds that
 * are in the figure; by the clock of the host on the CPU. A kernel that is called several times has the sum. Of several
 * runs the least of each counts. What one call leaves in the caches the next one finds, as in a run; the input of the first
 * kernels may be there from the run before.
 */
#include "runtime/clock.h"
#include "runtime/prog.h"

static sn_status call_gpu(double *us, sn_prog_state *st, int (*launch)(void *, uint32_t, void *const *),
                          const sn_rt_step *s) {
    sn_cuda *cu = st->cu;
    const sn_kernel_clock *c = st->clock;
    float milliseconds = 0;
    SN_TRY(CU_CALL(cu, cuEventRecord, (c->start, NULL)));
    SN_TRY((sn_status)launch(st, s->kernel, st->params));
    SN_TRY(CU_CALL(cu, cuEventRecord, (c->stop, NULL)));
    SN_TRY(CU_CALL(cu, cuEventSynchronize, (c->stop)));
    SN_TRY(CU_CALL(cu, cuEventElapsedTime, (&milliseconds, c->start, c->stop)));
    *us = 1e3 * (double)milliseconds;
    return SN_OK;
}

sn_status sn_clock_call(sn_prog_state *st, int (*launch)(void *, uint32_t, void *const *), const sn_rt_step *s) {
    double us = 0, start = sn_now_us();
    if (st->cu) {
        SN_TRY(call_gpu(&us, st, launch, s));
    } else {
        SN_TRY((sn_status)launch(st, s->kernel, st->params));
        us = sn_now_us() - start;
    }
    st->clock->us[s->kernel] += us;
    return SN_OK;
}

static sn_status one_run(double *out, sn_kernel_clock *c, sn_prog_state *st, void *const *inputs, void *const *outputs,
                         bool first) {
    for (uint32_t k = 0; k < st->p->n_codes; k++) c->us[k] = 0;
    st->clock = c;
    sn_status status = sn_prog_run_plainly(st, inputs, outputs, NULL, true);
    st->clock = NULL;
    for (uint32_t k = 0; k < st->p->n_codes; k++)
        if (first || c->us[k] < out[k]) out[k] = c->us[k];
    return status;
}

static sn_status make_events(sn_kernel_clock *c, sn_cuda *cu) {
    SN_TRY(CU_CALL(cu, cuEventCreate, (&c->start, 0)));
    return CU_CALL(cu, cuEventCreate, (&c->stop, 0));
}

static void free_events(sn_kernel_clock *c, sn_cuda *cu) {
    if (c->start) cu->api.cuEventDestroy(c->start);
    if (c->stop) cu->api.cuEventDestroy(c->stop);
}

sn_status sn_prog_time_kernels(double *out, uint32_t runs, sn_prog_state *st, void *const *inputs,
                               void *const *outputs) {
    sn_arena scratch;
    sn_arena_init(&scratch, st->env);
    sn_kernel_clock c = {.us = SN_NEWN(&scratch, double, st->p->n_codes + 1)};
    sn_status status = sn_prog_run_plainly(st, inputs, outputs, NULL, true); /* warm up */
    if (st->cu && status == SN_OK) status = sn_cuda_enter(st->cu);
    if (st->cu && status == SN_OK) {
        status = make_events(&c, st->cu);
        sn_cuda_leave(st->cu);
    }
    for (uint32_t i = 0; i < runs && status == SN_OK; i++) status = one_run(out, &c, st, inputs, outputs, i == 0);
    if (st->cu && sn_cuda_enter(st->cu) == SN_OK) {
        free_events(&c, st->cu);
        sn_cuda_leave(st->cu);
    }
    sn_arena_free(&scratch);
    return status;
}
