/* precision.h: the precision of float32 products, from precisions.def. */
#ifndef SN_IR_BASE_PRECISION_H
#define SN_IR_BASE_PRECISION_H

#include <stdint.h>

/* One for each row: SN_PRECISION_EXACT, ... */
typedef enum sn_precision {
#define SN_PRECISION(ID, name, digits, terms, doc) SN_PRECISION_##ID,
#include "ir/base/precisions.def"
#undef SN_PRECISION
    SN_N_PRECISIONS
} sn_precision;

extern const char *const sn_precision_words[]; /* "exact" "high" ..., NULL at the end */

/* How far x * y may be off, as a share of |x * y|, besides what float32 rounds. */
double sn_precision_error(sn_precision p);

/* bfloat16 terms of a factor, if it is taken apart into some. */
uint32_t sn_precision_terms(sn_precision p);
/* Products of terms that make one of float32: those that are small by more than one term has of the rest are left
 * out. */
static inline uint32_t sn_terms_products(uint32_t terms) { return terms * (terms + 1) / 2; }

#endif
