/* scalar.h: meaning of one scalar operation or combiner, from lops.def and combs.def. Shared by the evaluators and the
 * constant folder.
 */
#ifndef SN_IR_OPS_SCALAR_H
#define SN_IR_OPS_SCALAR_H

#include "ir/ops/ops.h"

/* One value: f for float dtypes, i for the rest: an unsigned one of 64 bits as the int64 of the same bits. */
typedef struct sn_scalar {
    double f;
    int64_t i;
} sn_scalar;

/* dtype: of the operands (for SELECT: of operand 1). round: round float results to dtype, as hardware would.
 * The operation must exist on the dtype (sn_lop_allowed). */
sn_scalar sn_scalar_op(sn_lop op, sn_dtype dtype, sn_scalar a, sn_scalar b, sn_scalar c, bool round);
sn_scalar sn_scalar_cast(sn_dtype to, sn_dtype from, sn_scalar x, bool round);
bool sn_lop_allowed(sn_lop op, sn_dtype dtype);
/* state <- combine(state, x); arrays of sn_combs[comb].states values. */
void sn_scalar_combine(sn_comb comb, sn_dtype dtype, sn_scalar *state, const sn_scalar *x, bool round);
/* Identity of the combiner. */
void sn_scalar_identity(sn_comb comb, sn_dtype dtype, sn_scalar *state);

bool sn_int_less(int64_t a, int64_t b, bool is_unsigned);
int64_t sn_int_div(int64_t a, int64_t b);
int64_t sn_int_floordiv(int64_t a, int64_t b);
int64_t sn_int_rem(int64_t a, int64_t b);
int64_t sn_int_fmod(int64_t a, int64_t b);
int64_t sn_uint_div(int64_t a, int64_t b);
int64_t sn_uint_rem(int64_t a, int64_t b);
int64_t sn_int_pow(int64_t a, int64_t b, bool is_unsigned);
int64_t sn_int_shr(int64_t a, int64_t b, int bits, bool is_unsigned);
int64_t sn_int_dot2(int64_t a, int64_t b, int64_t c);
int64_t sn_int_dot4(int64_t a, int64_t b, int64_t c);
double sn_float_cbrt(double a);
double sn_float_rem(double a, double b);
double sn_float_max(double a, double b);
double sn_float_min(double a, double b);

#endif
