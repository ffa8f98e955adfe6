/* runs.h: vectors whose lanes are runs: neighbours in memory, until a row, a part of a concatenation or a border comes to
 * its end. What such a loop is, is answered here alone: for the pass that chooses the schedule and for code generation.
 */
#ifndef SN_IR_LOOP_RUNS_H
#define SN_IR_LOOP_RUNS_H

#include "ir/loop/loop.h"

/* Where runs end: at multiples of `of` (a row), or where a position becomes 0 or `of` (a test). */
typedef struct sn_run_end {
    sn_ix at, of;
    bool test;
} sn_run_end;

typedef struct sn_runs {
    SN_VEC(sn_run_end) ends;
    uint32_t loads;       /* of neighbours */
    uint32_t bytes, most; /* of the smallest and the largest such element */
    uint32_t stored;      /* bytes of the largest element that is stored */
    bool by_vectors;      /* each such load is affine along the axis */
} sn_runs;

/* Is the region of the loop one for runs along its axis: straight-line code whose tests of positions hold all along a
 * run or not at all, whose loads read neighbours or one element, and whose stores, without masks, store neighbours
 * along the whole axis? */
bool sn_runs_find(sn_runs *out, sn_module *m, sn_stmt loop, sn_arena *arena);

#endif
