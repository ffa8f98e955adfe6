/* dtype.c: the element type table, and the conversion of one element between its storage and double / int64.
 *
 * Rounding to the narrow float types is to nearest even, done once from the double (never through float32, which would
 * round twice). Overflow gives an infinity; a NaN stays a quiet NaN with its sign. Relies on the compiler's double and
 * float being IEEE 754. What a type is like
 * follows from its row of dtypes.def. Arrays and text are not handled here.
 */
#include "ir/base/ids.h"

#include <math.h>
#include <string.h>

const sn_dtype_info sn_dtypes[SN_N_DTYPES] = {
#define SN_DTYPE(ID, name, bytes, cls, digits, npy, dlpack)                                                               \
    [SN_##ID] = {name, bytes, SN_CLASS_##cls, digits, npy, dlpack},
#include "include/sinter/dtypes.def"
#undef SN_DTYPE
};

bool sn_dtype_from_name(sn_dtype *out, const char *name) {
    for (int t = 0; t < SN_N_DTYPES; t++)
        if (strcmp(sn_dtypes[t].name, name) == 0) {
            *out = (sn_dtype)t;
            return true;
        }
    return false;
}

bool sn_dtype_holds(sn_dtype to, sn_dtype from) {
    int from_digits = (int)sn_dtypes[from].digits, to_digits = (int)sn_dtypes[to].digits;
    if (from == to || from == SN_BOOL) return true;
    if (to == SN_BOOL) return false;
    if (sn_is_float(from)) /* subnormal numbers, too */
        return sn_is_float(to) && from_digits <= to_digits && sn_float_highest(from) <= sn_float_highest(to) &&
               sn_float_lowest(to) - to_digits <= sn_float_lowest(from) - from_digits;
    int bits = 8 * (int)sn_dtype_bytes(from) - !sn_is_unsigned(from); /* without the sign */
    if (sn_is_float(to)) return bits <= to_digits && bits <= sn_float_highest(to) + 1;
    if (sn_is_unsigned(to)) return sn_is_unsigned(from) && bits <= 8 * (int)sn_dtype_bytes(to);
    return bits <= 8 * (int)sn_dtype_bytes(to) - 1;
}

/* ---- narrow floats ---- */

/* x rounded to a multiple of the spacing that the type has around x. Scaling by powers of two is exact here, and
 * rint rounds to nearest even in the default rounding mode. */
static double narrow_round(sn_dtype t, double x) {
    int mantissa_bits = (int)sn_dtypes[t].digits - 1, lowest = sn_float_lowest(t), highest = sn_float_highest(t), e;
    if (x == 0 || !isfinite(x)) return x;
    frexp(x, &e);
    e -= 1; /* |x| = 1.m * 2^e */
    if (e > highest) return copysign(INFINITY, x);
    if (e < lowest) e = lowest; /* subnormal: fixed spacing */
    double y = ldexp(rint(ldexp(x, mantissa_bits - e)), e - mantissa_bits);
    return fabs(y) >= ldexp(1, highest + 1) ? copysign(INFINITY, x) : y;
}

static uint16_t narrow_encode(sn_dtype t, double x) {
    int mantissa_bits = (int)sn_dtypes[t].digits - 1, lowest = sn_float_lowest(t), top = 8 * (int)sn_dtype_bytes(t) - 1;
    uint16_t sign = (uint16_t)(signbit(x) ? 1 << top : 0);
    uint16_t infinity = (uint16_t)((1 << top) - (1 << mantissa_bits));
    if (isnan(x)) return (uint16_t)(sign | infinity | 1 << (mantissa_bits - 1));
    x = fabs(narrow_round(t, x));
    if (isinf(x)) return sign | infinity;
    if (x == 0) return sign;
    int e;
    frexp(x, &e);
    e -= 1;
    if (e < lowest) return (uint16_t)(sign | (uint16_t)ldexp(x, mantissa_bits - lowest));
    /* The leading one of the mantissa carries into the exponent field, hence no + 1 there. */
    return (uint16_t)(sign | (((e - lowest) << mantissa_bits) + (int)ldexp(x, mantissa_bits - e)));
}

static double narrow_decode(sn_dtype t, uint16_t bits) {
    int mantissa_bits = (int)sn_dtypes[t].digits - 1, lowest = sn_float_lowest(t), top = 8 * (int)sn_dtype_bytes(t) - 1;
    int most = (1 << (top - mantissa_bits)) - 1;
    int e = bits >> mantissa_bits & most, m = bits & ((1 << mantissa_bits) - 1);
    double x;
    if (e == most) x = m ? NAN : INFINITY;
    else if (e == 0) x = ldexp(m, lowest - mantissa_bits);
    else x = ldexp(m + (1 << mantissa_bits), e - 1 + lowest - mantissa_bits);
    return copysign(x, bits >> top ? -1.0 : 1.0);
}

/* ---- elements ---- */

#define READ(type, p) ({ type v_; memcpy(&v_, (p), sizeof v_); v_; })
#define WRITE(type, p, x) ({ type v_ = (type)(x); memcpy((p), &v_, sizeof v_); })

double sn_load_float(sn_dtype t, const void *p) {
    SN_ASSERT(sn_is_float(t));
    switch (sn_dtype_bytes(t)) {
    case 8: return READ(double, p);
    case 4: return (double)READ(float, p);
    case 2: return narrow_decode(t, READ(uint16_t, p));
    default: return narrow_decode(t, READ(uint8_t, p));
    }
}

void sn_store_float(sn_dtype t, void *p, double x) {
    SN_ASSERT(sn_is_float(t));
    switch (sn_dtype_bytes(t)) {
    case 8: WRITE(double, p, x); return;
    case 4: WRITE(float, p, x); return;
    case 2: WRITE(uint16_t, p, narrow_encode(t, x)); return;
    default: WRITE(uint8_t, p, narrow_encode(t, x)); return;
    }
}

int64_t sn_load_int(sn_dtype t, const void *p) {
    SN_ASSERT(sn_is_integral(t));
    bool is_signed = !sn_is_unsigned(t);
    switch (sn_dtype_bytes(t)) {
    case 8: return READ(int64_t, p);
    case 4: return is_signed ? READ(int32_t, p) : (int64_t)READ(uint32_t, p);
    case 2: return is_signed ? READ(int16_t, p) : READ(uint16_t, p);
    default: return t == SN_BOOL ? READ(uint8_t, p) != 0 : is_signed ? READ(int8_t, p) : READ(uint8_t, p);
    }
}

void sn_store_int(sn_dtype t, void *p, int64_t x) {
    SN_ASSERT(sn_is_integral(t));
    switch (sn_dtype_bytes(t)) {
    case 8: WRITE(int64_t, p, x); return;
    case 4: WRITE(uint32_t, p, x); return;
    case 2: WRITE(uint16_t, p, x); return;
    default: WRITE(uint8_t, p, t == SN_BOOL ? x != 0 : x); return;
    }
}

double sn_round_to(sn_dtype t, double x) {
    SN_ASSERT(sn_is_float(t));
    if (t == SN_F64) return x;
    return t == SN_F32 ? (double)(float)x : narrow_round(t, x);
}

int64_t sn_wrap_to(sn_dtype t, int64_t x) {
    unsigned char storage[8];
    sn_store_int(t, storage, x);
    return sn_load_int(t, storage);
}

/* Rows begin at lines, so that a box touches no more of them than it has to, or else at multiples of the unit of tensor copies,
 * where that makes them little longer. Short ones stay as they are: of so few elements nobody makes boxes. Those that begin
 * at sectors already are left alone: one behind the other they are one long row for everybody else. */
int64_t sn_dtype_pitch(sn_dtype t, int64_t length) {
    enum { LINE = 128, SECTOR = 32, UNIT = 16, MOST_ADDED = 8 };
    static const int64_t steps[] = {LINE, UNIT};
    int64_t bytes = sn_dtype_bytes(t);
    for (size_t k = 0; length % (SECTOR / bytes) && k < SN_COUNT(steps); k++) {
        int64_t unit = steps[k] / bytes, pitch = (length + unit - 1) / unit * unit;
        if ((pitch - length) * MOST_ADDED <= length) return pitch;
    }
    return length;
}

bool sn_dtype_widens(sn_dtype from, sn_dtype to) {
    bool grows = sn_dtype_bytes(to) > sn_dtype_bytes(from);
    if (sn_is_float(from) || sn_is_float(to)) return sn_is_float(from) && sn_is_float(to) && grows;
    return from != SN_BOOL && grows && (sn_is_unsigned(from) || !sn_is_unsigned(to));
}
