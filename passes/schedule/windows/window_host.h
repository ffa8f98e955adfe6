/* window_host.h: class window on the CPU: what window_host.c chooses and window_host_bind.c binds. */
#ifndef SN_PASSES_SCHEDULE_WINDOWS_WINDOW_HOST_H
#define SN_PASSES_SCHEDULE_WINDOWS_WINDOW_HOST_H

#include "passes/schedule/windows/window.h"

/* Results that a thread makes from one patch of elements, and the block of them whose sums stay in registers. */
typedef struct sn_window_task {
    int64_t planes, rows, columns;                   /* of the patch; planes have the same elements */
    int64_t own_planes, own_rows, vectors, lanes;    /* of a block: vectors side by side */
    int64_t block_rows, block_columns, blocks_plane; /* blocks of the patch along rows and columns, and of planes */
    int64_t row_places, pitch;                       /* lines of the patch for a step, elements of a line */
    int64_t tasks[3];                                /* along planes, rows, columns */
    bool together;                                   /* all by one thread */
    double cycles;                                   /* of all of them */
} sn_window_task;

/* The task of a header; false: there is none. */
bool sn_window_task_find(sn_window_task *out, sn_window *w, const sn_sched *sc);

#endif
