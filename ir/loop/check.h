/* check.h: what the evaluator tells the checker of kernels (check.c) while it runs one as written.
 *
 * One checker serves all kernels of a module, one after the other. Axes come and go as a stack.
 */
#ifndef SN_IR_LOOP_CHECK_H
#define SN_IR_LOOP_CHECK_H

#include "ir/loop/loop.h"

typedef struct sn_loop_checker sn_loop_checker;

/* Lives in the arena. */
sn_loop_checker *sn_check_new(sn_module *m, sn_arena *arena);
sn_status sn_check_kernel(sn_loop_checker *c, sn_kern k);
/* The loop or reduce s begins; its next iteration is number i; it has ended. */
void sn_check_enter(sn_loop_checker *c, sn_stmt s);
sn_status sn_check_turn(sn_loop_checker *c, int64_t i);
sn_status sn_check_leave(sn_loop_checker *c);
sn_status sn_check_barrier(sn_loop_checker *c, sn_stmt s);
/* The load or store s touches element `at`, which exists and, for a load, has been written. */
sn_status sn_check_access(sn_loop_checker *c, sn_stmt s, int64_t at);
/* Where s runs: "block 3, thread (5, 0), r = 2". */
const char *sn_check_place(const sn_loop_checker *c, sn_stmt s);

#endif
