/* constants.h: the rows of constants.def as SN_<NAME>. Passes of other families that decide by them include this alone. */
#ifndef SN_PASSES_SCHEDULE_BASE_CONSTANTS_H
#define SN_PASSES_SCHEDULE_BASE_CONSTANTS_H

#include "passes/base/constants.h"

#include <stdint.h>

enum {
#define SN_CONSTANT(NAME, value, unit, ORIGIN, doc) SN_##NAME = (value),
#include "passes/schedule/base/constants.def"
#undef SN_CONSTANT
};

/* How many elements of `bytes` bytes a row may have to stay in the registers of a block between the loops over it,
 * leaving it room to work (the same on the CPU, which takes the kernels of GPUs). */
static inline int64_t sn_row_registers(uint32_t bytes) {
    return SN_KEPT_THREADS * (bytes <= 4 ? SN_KEPT_BYTES / 4 : SN_KEPT_BYTES / bytes);
}

#endif
