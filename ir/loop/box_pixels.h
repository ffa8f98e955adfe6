/* box_pixels.h: the second form of a box, whose lines are pixels: for box.c alone. */
#ifndef SN_IR_LOOP_BOX_PIXELS_H
#define SN_IR_LOOP_BOX_PIXELS_H

#include "ir/loop/box.h"

/* Most of what axes of pixels may be, by how many there are: the hardware has 32 bits for all of them. */
typedef struct sn_pixel_limits {
    int64_t least, most; /* distance of the first pixel and of the last one from the ends of the axis */
    int64_t tap;
} sn_pixel_limits;
sn_pixel_limits sn_pixel_limits_of(uint32_t n_axes);

/* Dimensions of a box whose lines (loops[1]) `index` numbers; its lanes are loops[0]. *why is set where there are
 * none. */
bool sn_box_find_pixels(sn_box *b, const char **why, sn_module *m, sn_stmt index, const sn_stmt *loops);

#endif
