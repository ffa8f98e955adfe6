/* precision.h: the precision of float32 products, from precisions.def. */
#ifndef SN_IR_BASE_PRECISION_H
#define SN_IR_BASE_PRECISION_H

/* One for each row: SN_PRECISION_EXACT, ... */
typedef enum sn_precision {
#define SN_PRECISION(ID, name, digits, doc) SN_PRECISION_##ID,
#include "ir/base/precisions.def"
#undef SN_PRECISION
    SN_N_PRECISIONS
} sn_precision;

extern const char *const sn_precision_words[]; /* "exact" "high" ..., NULL at the end */

/* How far x * y may be off, as a share of |x * y|, besides what float32 rounds. */
double sn_precision_error(sn_precision p);

#endif
