/* stopwatch.c: device time between two events on the default stream, for those who measure (time.c, pick.c). */
#include "runtime/stopwatch.h"

void sn_stopwatch_free(sn_cuda *cu, sn_stopwatch *w) {
    if (w->start) cu->api.cuEventDestroy(w->start);
    if (w->stop) cu->api.cuEventDestroy(w->stop);
}

sn_status sn_stopwatch_new(sn_stopwatch *w, sn_cuda *cu) {
    *w = (sn_stopwatch){0};
    SN_TRY(CU_CALL(cu, cuEventCreate, (&w->start, 0)));
    return CU_CALL(cu, cuEventCreate, (&w->stop, 0));
}

sn_status sn_stopwatch_start(sn_cuda *cu, sn_stopwatch *w) { return CU_CALL(cu, cuEventRecord, (w->start, NULL)); }

sn_status sn_stopwatch_stop(double *out_us, sn_cuda *cu, sn_stopwatch *w) {
    float milliseconds = 0;
    SN_TRY(CU_CALL(cu, cuEventRecord, (w->stop, NULL)));
    SN_TRY(CU_CALL(cu, cuEventSynchronize, (w->stop)));
    SN_TRY(CU_CALL(cu, cuEventElapsedTime, (&milliseconds, w->start, w->stop)));
    *out_us = 1e3 * (double)milliseconds;
    return SN_OK;
}
