/* outer_odd.h: columns of bytes and halves whose rows no words begin (class outer). */
#ifndef SN_PASSES_SCHEDULE_ROWS_OUTER_ODD_H
#define SN_PASSES_SCHEDULE_ROWS_OUTER_ODD_H

#include "passes/schedule/base/schedule.h"

/* Do vectors of columns begin anywhere, in a GPU's reduction? `bytes`: of the smallest element along the columns. */
bool sn_schedule_odd_columns(sn_pass_ctx *cx, const sn_schedule_shape *sh, uint32_t bytes);
/* Columns of such a vector. */
uint32_t sn_schedule_odd_lanes(uint32_t bytes);
/* How many vectors there are. */
int64_t sn_schedule_odd_vectors(const sn_pass_ctx *cx, const sn_schedule_shape *sh, uint32_t v);
/* The body, at the end of region `into`, for lane `lane` of vector number `number`. Returns the test whether the lane's column is its own. */
sn_val sn_schedule_odd_body(sn_pass_ctx *cx, sn_kern k, sn_stmt into, const sn_stmt_vec *body,
                            const sn_schedule_shape *sh, uint32_t v, sn_ix number, sn_ix lane);

#endif
