/* alike.h: segments that are one program on different buffers and sizes.
 *
 * A segment is a top-level statement of a kernel; it uses nothing that is defined outside. What it does is read as a
 * `shape` (operations, dtypes, kinds, which operand comes from where, how divisible and aligned things are) and the
 * numbers that may differ from segment to segment without changing the code (`holes`: offsets, strides, bounds,
 * extents) and the buffers (`slots`). Two segments with equal shapes are alike: one piece of code does both, given a
 * row with the buffers and the numbers.
 *
 * What is part of the shape, because code depends on it: literals; the extents and the strides of block, vector and
 * unroll axes; the extents of grid axes but the outermost; of offsets, strides and bounds the power of two that divides
 * them, as far as a vector axis is long; of schedules with `runs` the sizes of buffers. Extents are constants.
 */
#ifndef SN_IR_LOOP_ALIKE_H
#define SN_IR_LOOP_ALIKE_H

#include "ir/loop/loop.h"

typedef struct sn_alike {
    sn_stmt top;
    SN_VEC(uint64_t) shape;
    SN_VEC(int64_t) holes; /* number 0 is the extent of the outermost axis */
    sn_buf_list slots;     /* global buffers by first appearance */
    uint64_t hash;         /* of the shape */
} sn_alike;

/* Read the segment `top`, a loop whose extents are constants, and so are those inside it. */
void sn_alike_read(sn_alike *out, sn_module *m, sn_arena *arena, sn_stmt top);
bool sn_alike_equal(const sn_alike *a, const sn_alike *b);
/* A copy of a segment, as it was read, at `at`: hole k is with[k]. Buffers stay. */
sn_stmt sn_alike_copy(sn_module *m, sn_cursor at, const sn_alike *a, const sn_ix *with, sn_arena *scratch);

#endif
