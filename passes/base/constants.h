/* constants.h: the rows of constants.def as SN_<NAME>. */
#ifndef SN_PASSES_BASE_CONSTANTS_H
#define SN_PASSES_BASE_CONSTANTS_H

enum {
#define SN_CONSTANT(NAME, value, unit, ORIGIN, doc) SN_##NAME = (value),
#include "passes/base/constants.def"
#undef SN_CONSTANT
};

#endif
