/* stopwatch.h: device time between two events on the default stream. Private to runtime/. */
#ifndef SN_RUNTIME_STOPWATCH_H
#define SN_RUNTIME_STOPWATCH_H

#include "runtime/cuda_driver.h"

typedef struct sn_stopwatch {
    CUevent start, stop;
} sn_stopwatch;

/* The context of the device is current for all of these. */
sn_status sn_stopwatch_new(sn_stopwatch *w, sn_cuda *cu);
void sn_stopwatch_free(sn_cuda *cu, sn_stopwatch *w); /* also one that was made by half */
sn_status sn_stopwatch_start(sn_cuda *cu, sn_stopwatch *w);
/* Waits for the device. */
sn_status sn_stopwatch_stop(double *out_us, sn_cuda *cu, sn_stopwatch *w);

#endif
