/* library_nest.h: what the readers of library calls share: the nest of a kernel as axes, two factors, a sum, a store.
 * Private to library*.c.
 */
#ifndef SN_IR_LOOP_LIBRARY_NEST_H
#define SN_IR_LOOP_LIBRARY_NEST_H

#include "ir/loop/access.h"
#include "ir/loop/library.h"

/* Who walks along an axis; a set of them says what the axis is. */
enum {
    SN_IN_A = 1,
    SN_IN_B = 2,
    SN_IN_C = 4,
    SN_OF_BATCH = SN_IN_A | SN_IN_B | SN_IN_C,
    SN_OF_M = SN_IN_A | SN_IN_C,
    SN_OF_N = SN_IN_B | SN_IN_C,
    SN_OF_K = SN_IN_A | SN_IN_B
};
enum { SN_NEST_A, SN_NEST_B, SN_NEST_C, SN_NEST_BIAS, SN_NEST_MATRICES };

typedef struct sn_nest_axis {
    sn_axis ax;
    int64_t extent;
    int64_t step[SN_NEST_MATRICES]; /* elements */
    int kind;
} sn_nest_axis;

typedef struct sn_nest_reader {
    sn_module *m;
    const sn_kern_rec *k;
    const char *why;
    sn_stmt store, yield;
    sn_val sum;
    sn_nest_axis axes[SN_MAX_CHAIN];
    uint32_t n;
    sn_stmt access[SN_NEST_MATRICES];
    int64_t offset[SN_NEST_MATRICES];
    bool relu;
} sn_nest_reader;

/* false: it is no such nest, and rd->why. Extents are numbers; of accesses nothing is known yet. */
bool sn_nest_read(sn_nest_reader *rd);
bool sn_nest_refuse(sn_nest_reader *rd, const char *why);
/* Where an access lies in the storage of its parameter: all but ld, stride and transposed. stride: elements between
 * places that all have to be aligned so. */
sn_library_matrix sn_nest_matrix(const sn_nest_reader *rd, int which, int64_t stride);

/* library_conv.c: the convolution of a nest that is no product; nothing of `out` but what is its own is written. */
bool sn_nest_read_conv(sn_library_call *out, sn_nest_reader *rd);

#endif
