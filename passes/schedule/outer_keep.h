/* outer_keep.h: columns that stay on the chip between the loops over them (class outer). */
#ifndef SN_PASSES_SCHEDULE_OUTER_KEEP_H
#define SN_PASSES_SCHEDULE_OUTER_KEEP_H

#include "passes/schedule/schedule.h"

/* Choose vector, threads and unroll of *sched so that a block keeps its columns, in registers (`persistent`) or in shared
 * memory (`shared`), the way that takes the least. false: it leaves *sched alone, as reading them again takes no longer. bytes: of
 * the smallest element that nests walk; vector: lanes that divide the columns. */
bool sn_schedule_keep_columns(sn_sched *sched, sn_pass_ctx *cx, const sn_schedule_shape *sh, uint32_t bytes,
                              uint32_t vector);

/* Has a block or a cluster room for whole columns, a line of them side by side, and are they enough to fill the device? `along` of
 * the columns lie side by side; bytes: of the elements of one that are read again. */
bool sn_columns_stay(const sn_target *t, int64_t columns, int64_t along, int64_t elements, int64_t bytes);

#endif
