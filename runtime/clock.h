/* clock.h: wall-clock time. Private to runtime/. */
#ifndef SN_RUNTIME_CLOCK_H
#define SN_RUNTIME_CLOCK_H

#include <time.h>

/* Microseconds since some fixed moment. */
static inline double sn_now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

#endif
