/* time.c: measuring: runs of a program with cold caches, and the copy rate that bandwidth-bound kernels are held
 * against.
 *
 * On a device a run is timed between two events. The write that flushes the caches is queued before the first event and
 * takes longer than the host needs to queue the run, so no launch gap of the host is inside the measurement. It leaves
 * the cache full of lines that have to be written; a program that reads after it (sn_flush) has them written before.
 */
#include "runtime/clock.h"
#include "runtime/prog.h"
#include "runtime/stopwatch.h"

#include <stdlib.h>
#include <string.h>

/* ---- runs of a program ---- */

typedef struct {
    sn_prog_state *st;
    void *const *inputs, *const *outputs;
    const sn_flush *how;
    void *flush;
} timing;

static sn_status one_gpu_run(double *out_us, const timing *t, sn_stopwatch *w) {
    sn_cuda *cu = t->st->cu;
    /* What the run before wanted kept (backend-nvptx/stream.c) would outlast the flush. */
    SN_TRY(CU_CALL(cu, cuCtxResetPersistingL2Cache, ()));
    SN_TRY(sn_cuda_fill(cu, t->flush, 0, t->how->bytes, NULL));
    if (t->how->reader) SN_TRY(sn_prog_run_plainly(t->how->reader, t->how->inputs, t->how->outputs, NULL, false));
    SN_TRY(sn_stopwatch_start(cu, w));
    SN_TRY(sn_prog_run_plainly(t->st, t->inputs, t->outputs, NULL, false));
    return sn_stopwatch_stop(out_us, cu, w);
}

static sn_status gpu_runs(double *out, uint32_t runs, const timing *t) {
    sn_cuda *cu = t->st->cu;
    sn_stopwatch w;
    SN_TRY(sn_cuda_enter(cu));
    sn_status status = sn_stopwatch_new(&w, cu);
    for (uint32_t i = 0; i < runs && status == SN_OK; i++) status = one_gpu_run(&out[i], t, &w);
    sn_stopwatch_free(cu, &w);
    sn_cuda_leave(cu);
    return status;
}

static sn_status host_runs(double *out, uint32_t runs, const timing *t) {
    for (uint32_t i = 0; i < runs; i++) {
        if (t->flush) memset(t->flush, (int)i, t->how->bytes);
        double start = sn_now_us();
        SN_TRY(sn_prog_run_plainly(t->st, t->inputs, t->outputs, NULL, false));
        out[i] = sn_now_us() - start;
    }
    return SN_OK;
}

sn_status sn_prog_time(double *out, uint32_t runs, sn_prog_state *st, void *const *inputs, void *const *outputs,
                       const sn_flush *flush) {
    timing t = {st, inputs, outputs, flush, NULL};
    SN_TRY(sn_prog_run_plainly(st, inputs, outputs, NULL, false)); /* warm-up: lazy loading of kernels, page faults */
    if (st->cu) SN_TRY(sn_cuda_sync(st->cu, NULL));
    SN_TRY(sn_storage_alloc(&t.flush, st->env, st->cu, flush->bytes));
    sn_status status = st->cu ? gpu_runs(out, runs, &t) : host_runs(out, runs, &t);
    sn_storage_free(st->env, st->cu, t.flush, flush->bytes);
    return status;
}

/* ---- copy rate ---- */

/* Clocks need some milliseconds of work to come up. */
enum { COPY_BYTES = 1 << 30, COPY_WARM_UP = 20, COPY_RUNS = 50 };

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static sn_status timed_copies(double *out_us, sn_cuda *cu, void *to, const void *from) {
    sn_stopwatch w;
    double ignored = 0;
    sn_status status = sn_stopwatch_new(&w, cu);
    for (int i = -COPY_WARM_UP; i < COPY_RUNS && status == SN_OK; i++) {
        status = sn_stopwatch_start(cu, &w);
        if (status == SN_OK) status = sn_cuda_copy(cu, to, from, COPY_BYTES, NULL);
        if (status == SN_OK) status = sn_stopwatch_stop(i < 0 ? &ignored : &out_us[i], cu, &w);
    }
    sn_stopwatch_free(cu, &w);
    return status;
}

static sn_status copy_times(double *out_us, sn_cuda *cu) {
    void *from = NULL, *to = NULL;
    sn_status status = sn_cuda_malloc(&from, cu, COPY_BYTES);
    if (status == SN_OK) status = sn_cuda_malloc(&to, cu, COPY_BYTES);
    if (status == SN_OK) status = sn_cuda_fill(cu, from, 1, COPY_BYTES, NULL);
    if (status == SN_OK) status = timed_copies(out_us, cu, to, from);
    sn_cuda_free(cu, to, COPY_BYTES);
    sn_cuda_free(cu, from, COPY_BYTES);
    sn_cuda_trim(cu);
    return status;
}

sn_status sn_cuda_copy_rate(double *out, sn_cuda *cu) {
    double us[COPY_RUNS];
    SN_TRY(sn_cuda_enter(cu));
    sn_status status = copy_times(us, cu);
    sn_cuda_leave(cu);
    if (status != SN_OK) return status;
    qsort(us, COPY_RUNS, sizeof *us, compare_doubles);
    double median = (us[COPY_RUNS / 2 - 1] + us[COPY_RUNS / 2]) / 2;
    *out = 2.0 * COPY_BYTES / (median * 1e-6);
    return SN_OK;
}
