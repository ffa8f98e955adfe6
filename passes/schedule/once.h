/* once.h: equal kernels are scheduled once. Private to passes/schedule/. */
#ifndef SN_PASSES_SCHEDULE_ONCE_H
#define SN_PASSES_SCHEDULE_ONCE_H

#include "ir/loop/equal.h"
#include "passes/schedule/base/schedule.h"

/* By position, before any is bound: the kernel that it is equal to, which comes first; none (`of`) where it is scheduled by itself.
 * NULL: all are. */
sn_equal *sn_schedule_once(sn_pass_ctx *cx, const sn_users *users);

#endif
