/* precision.c: the table of precisions of float32 products, and what a precision means for one product. */
#include "ir/base/precision.h"

#include <math.h>
#include <stddef.h>

const char *const sn_precision_words[] = {
#define SN_PRECISION(ID, name, digits, terms, doc) name,
#include "ir/base/precisions.def"
#undef SN_PRECISION
    NULL};

double sn_precision_error(sn_precision p) {
    static const int digits_of[SN_N_PRECISIONS] = {
#define SN_PRECISION(ID, name, digits, terms, doc) digits,
#include "ir/base/precisions.def"
#undef SN_PRECISION
    };
    double each = digits_of[p] ? ldexp(1, -digits_of[p]) : 0;
    return each * (2 + each); /* (1 + each)^2 - 1 */
}

uint32_t sn_precision_terms(sn_precision p) {
    static const uint32_t terms_of[SN_N_PRECISIONS] = {
#define SN_PRECISION(ID, name, digits, terms, doc) terms,
#include "ir/base/precisions.def"
#undef SN_PRECISION
    };
    return terms_of[p];
}
