/* dtype.c: the element type table, and the conversion of one element between its storage and double / int64.
 *
 * Rounding to the narrow float types is to nearest even, done once from the double (never through float32, which would
 * round twice). Overflow gives an infinity; a NaN stays a quiet NaN with its sign. Relies on the compiler's double and
 * float being IEEE 754. Arrays and text are not handled here.
 */
#include "ir/base/ids.h"

#include <math.h>
#include <string.h>

const sn_dtype_info sn_dtypes[SN_N_DTYPES] = {
#define SN_DTYPE(ID, name, bytes, cls, npy) [SN_##ID] = {name, bytes, SN_CLASS_##cls, npy},
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

/* ---- 16-bit floats: one format description serves both ---- */

typedef struct half_format {
    int mantissa_bits;
    int exponent_min; /* of the smallest normal number */
    int exponent_max; /* of the largest finite number */
} half_format;

static const half_format F16_FORMAT = {10, -14, 15};
static const half_format BF16_FORMAT = {7, -126, 127};

/* x rounded to a multiple of the spacing that the format has around x. Scaling by powers of two is exact here, and
 * rint rounds to nearest even in the default rounding mode. */
static double half_round(half_format f, double x) {
    if (x == 0 || !isfinite(x)) return x;
    int e;
    frexp(x, &e);
    e -= 1; /* |x| = 1.m * 2^e */
    if (e > f.exponent_max) return copysign(INFINITY, x);
    if (e < f.exponent_min) e = f.exponent_min; /* subnormal: fixed spacing */
    double y = ldexp(rint(ldexp(x, f.mantissa_bits - e)), e - f.mantissa_bits);
    return fabs(y) >= ldexp(1, f.exponent_max + 1) ? copysign(INFINITY, x) : y;
}

static uint16_t half_encode(half_format f, double x) {
    int exponent_bits = 15 - f.mantissa_bits;
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    uint16_t infinity = (uint16_t)(((1 << exponent_bits) - 1) << f.mantissa_bits);
    if (isnan(x)) return (uint16_t)(sign | infinity | 1 << (f.mantissa_bits - 1));
    x = fabs(half_round(f, x));
    if (isinf(x)) return sign | infinity;
    if (x == 0) return sign;
    int e;
    frexp(x, &e);
    e -= 1;
    if (e < f.exponent_min) return (uint16_t)(sign | (uint16_t)ldexp(x, f.mantissa_bits - f.exponent_min));
    /* The leading one of the mantissa carries into the exponent field, hence no + 1 there. */
    return (uint16_t)(sign | (((e - f.exponent_min) << f.mantissa_bits) + (int)ldexp(x, f.mantissa_bits - e)));
}

static double half_decode(half_format f, uint16_t bits) {
    int exponent_bits = 15 - f.mantissa_bits, top = (1 << exponent_bits) - 1;
    int e = bits >> f.mantissa_bits & top, m = bits & ((1 << f.mantissa_bits) - 1);
    double x;
    if (e == top) x = m ? NAN : INFINITY;
    else if (e == 0) x = ldexp(m, f.exponent_min - f.mantissa_bits);
    else x = ldexp(m + (1 << f.mantissa_bits), e - 1 + f.exponent_min - f.mantissa_bits);
    return copysign(x, bits & 0x8000 ? -1.0 : 1.0);
}

/* ---- elements ---- */

#define READ(type, p) ({ type v_; memcpy(&v_, (p), sizeof v_); v_; })
#define WRITE(type, p, x) ({ type v_ = (type)(x); memcpy((p), &v_, sizeof v_); })

double sn_load_float(sn_dtype t, const void *p) {
    switch (t) {
    case SN_F64: return READ(double, p);
    case SN_F32: return (double)READ(float, p);
    case SN_F16: return half_decode(F16_FORMAT, READ(uint16_t, p));
    case SN_BF16: return half_decode(BF16_FORMAT, READ(uint16_t, p));
    case SN_I64:
    case SN_I32:
    case SN_I16:
    case SN_I8:
    case SN_U8:
    case SN_BOOL:
    case SN_U16:
    case SN_U32:
    case SN_U64:
    case SN_N_DTYPES: break;
    }
    SN_ASSERT(!"a float dtype");
    return 0;
}

void sn_store_float(sn_dtype t, void *p, double x) {
    switch (t) {
    case SN_F64: WRITE(double, p, x); return;
    case SN_F32: WRITE(float, p, x); return;
    case SN_F16: WRITE(uint16_t, p, half_encode(F16_FORMAT, x)); return;
    case SN_BF16: WRITE(uint16_t, p, half_encode(BF16_FORMAT, x)); return;
    case SN_I64:
    case SN_I32:
    case SN_I16:
    case SN_I8:
    case SN_U8:
    case SN_BOOL:
    case SN_U16:
    case SN_U32:
    case SN_U64:
    case SN_N_DTYPES: break;
    }
    SN_ASSERT(!"a float dtype");
}

int64_t sn_load_int(sn_dtype t, const void *p) {
    switch (t) {
    case SN_I64: return READ(int64_t, p);
    case SN_I32: return READ(int32_t, p);
    case SN_I16: return READ(int16_t, p);
    case SN_I8: return READ(int8_t, p);
    case SN_U8: return READ(uint8_t, p);
    case SN_BOOL: return READ(uint8_t, p) != 0;
    case SN_U16: return READ(uint16_t, p);
    case SN_U32: return READ(uint32_t, p);
    case SN_U64: return (int64_t)READ(uint64_t, p);
    case SN_F64:
    case SN_F32:
    case SN_F16:
    case SN_BF16:
    case SN_N_DTYPES: break;
    }
    SN_ASSERT(!"an integral dtype");
    return 0;
}

void sn_store_int(sn_dtype t, void *p, int64_t x) {
    switch (t) {
    case SN_I64:
    case SN_U64: WRITE(int64_t, p, x); return;
    case SN_I32:
    case SN_U32: WRITE(uint32_t, p, x); return;
    case SN_I16:
    case SN_U16: WRITE(uint16_t, p, x); return;
    case SN_I8:
    case SN_U8: WRITE(uint8_t, p, x); return;
    case SN_BOOL: WRITE(uint8_t, p, x != 0); return;
    case SN_F64:
    case SN_F32:
    case SN_F16:
    case SN_BF16:
    case SN_N_DTYPES: break;
    }
    SN_ASSERT(!"an integral dtype");
}

double sn_round_to(sn_dtype t, double x) {
    switch (t) {
    case SN_F64: return x;
    case SN_F32: return (double)(float)x;
    case SN_F16: return half_round(F16_FORMAT, x);
    case SN_BF16: return half_round(BF16_FORMAT, x);
    case SN_I64:
    case SN_I32:
    case SN_I16:
    case SN_I8:
    case SN_U8:
    case SN_BOOL:
    case SN_U16:
    case SN_U32:
    case SN_U64:
    case SN_N_DTYPES: break;
    }
    SN_ASSERT(!"a float dtype");
    return x;
}

int64_t sn_wrap_to(sn_dtype t, int64_t x) {
    unsigned char storage[8];
    sn_store_int(t, storage, x);
    return sn_load_int(t, storage);
}
