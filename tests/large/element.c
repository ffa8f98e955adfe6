/* element.c: elements of every dtype to numbers and back, for tests/large. Has its own halves: what the library thinks
 * of them is part of what is tested.
 */
#include "tests/large/case.h"

#include <math.h>
#include <string.h>

/* A float of `exponent` and `fraction` bits; exact, subnormal numbers included. */
static double small_float(unsigned bits, int exponent, int fraction) {
    unsigned e = bits >> fraction & ((1u << exponent) - 1), f = bits & ((1u << fraction) - 1);
    int bias = (1 << (exponent - 1)) - 1;
    double x = e == (1u << exponent) - 1 ? (f ? NAN : INFINITY)
               : e                       ? ldexp(f + (1u << fraction), (int)e - bias - fraction)
                                         : ldexp(f, 1 - bias - fraction);
    return bits >> (exponent + fraction) & 1 ? -x : x;
}

/* The nearest one, ties to even. */
static unsigned to_small_float(double x, int exponent, int fraction) {
    int bias = (1 << (exponent - 1)) - 1, e;
    unsigned sign = signbit(x) ? 1u << (exponent + fraction) : 0, infinite = ((1u << exponent) - 1) << fraction;
    if (isnan(x)) return infinite | 1u << (fraction - 1);
    if (isinf(x)) return sign | infinite;
    if (x == 0) return sign;
    frexp(x, &e);
    int unit = (e - 1 < 1 - bias ? 1 - bias : e - 1) - fraction; /* of the last place */
    unsigned long steps = (unsigned long)nearbyint(ldexp(fabs(x), -unit));
    /* The implicit one of a normal number counts as one more in the exponent. */
    unsigned long bits = steps + ((unsigned long)(unit + fraction + bias - 1) << fraction);
    return sign | (bits >= infinite ? infinite : (unsigned)bits);
}

#define GET(type)                                                                                                      \
    {                                                                                                                  \
        type x;                                                                                                        \
        memcpy(&x, at, sizeof x);                                                                                      \
        return (number){.i = (int64_t)x, .f = (double)x};                                                              \
    }
#define GET_FLOAT(x) return (number){.is_float = true, .f = (x)};

/* Dispatch over the dtypes. */
number element_get(sn_dtype dtype, const void *at) {
    uint16_t bits;
    float single;
    double full;
    switch (dtype) {
    case SN_F64: memcpy(&full, at, sizeof full); GET_FLOAT(full)
    case SN_F32: memcpy(&single, at, sizeof single); GET_FLOAT(single)
    case SN_F16: memcpy(&bits, at, sizeof bits); GET_FLOAT(small_float(bits, 5, 10))
    case SN_BF16: memcpy(&bits, at, sizeof bits); GET_FLOAT(small_float(bits, 8, 7))
    case SN_I64: GET(int64_t)
    case SN_I32: GET(int32_t)
    case SN_I16: GET(int16_t)
    case SN_I8: GET(int8_t)
    case SN_BOOL:
    case SN_U8: GET(uint8_t)
    case SN_U16: GET(uint16_t)
    case SN_U32: GET(uint32_t)
    case SN_U64: GET(uint64_t)
    case SN_N_DTYPES: break;
    }
    return (number){0};
}

#define PUT(type, value)                                                                                               \
    {                                                                                                                  \
        type put = (type)(value);                                                                                      \
        memcpy(at, &put, sizeof put);                                                                                  \
        return;                                                                                                        \
    }

/* Dispatch over the dtypes. */
void element_put(void *at, sn_dtype dtype, number x) {
    switch (dtype) {
    case SN_F64: PUT(double, x.f)
    case SN_F32: PUT(float, x.f)
    case SN_F16: PUT(uint16_t, to_small_float(x.f, 5, 10))
    case SN_BF16: PUT(uint16_t, to_small_float(x.f, 8, 7))
    case SN_I64: PUT(int64_t, x.i)
    case SN_I32: PUT(int32_t, x.i)
    case SN_I16: PUT(int16_t, x.i)
    case SN_I8: PUT(int8_t, x.i)
    case SN_BOOL: PUT(uint8_t, x.i != 0)
    case SN_U8: PUT(uint8_t, x.i)
    case SN_U16: PUT(uint16_t, x.i)
    case SN_U32: PUT(uint32_t, x.i)
    case SN_U64: PUT(uint64_t, x.i)
    case SN_N_DTYPES: return;
    }
}
