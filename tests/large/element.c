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

/* Of the rows of dtypes.def; a float has the exponent bits that its significand and its sign leave. */
static const struct row {
    enum { FLOAT, INT, UINT, BOOL } cls;
    int bytes, digits;
} rows[SN_N_DTYPES] = {
#define SN_DTYPE(ID, name, bytes, cls, digits, npy, dlpack) [SN_##ID] = {cls, bytes, digits},
#include "include/sinter/dtypes.def"
#undef SN_DTYPE
};

bool element_is_float(sn_dtype dtype) { return rows[dtype].cls == FLOAT; }

double element_unit(sn_dtype dtype) {
    if (rows[dtype].bytes < 4) return ldexp(2, -rows[dtype].digits);
    return dtype == SN_F64 ? 1e-11 : 4e-6;
}

double element_least(sn_dtype dtype) {
    if (rows[dtype].bytes >= 4 || dtype == SN_BF16) return 1e-30;
    return small_float(1, 8 * rows[dtype].bytes - rows[dtype].digits, rows[dtype].digits - 1);
}

/* The bytes of an element are the lower ones of `bits`. */
number element_get(sn_dtype dtype, const void *at) {
    const struct row *r = &rows[dtype];
    int unused = 64 - 8 * r->bytes;
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)r->bytes);
    if (r->cls == FLOAT) {
        float single;
        double full;
        if (r->bytes == 4) return memcpy(&single, at, sizeof single), (number){.is_float = true, .f = single};
        if (r->bytes == 8) return memcpy(&full, at, sizeof full), (number){.is_float = true, .f = full};
        return (number){.is_float = true, .f = small_float((unsigned)bits, 8 * r->bytes - r->digits, r->digits - 1)};
    }
    if (r->cls == INT) bits = (uint64_t)((int64_t)(bits << unused) >> unused);
    return (number){.i = (int64_t)bits, .f = r->cls == INT ? (double)(int64_t)bits : (double)bits};
}

void element_put(void *at, sn_dtype dtype, number x) {
    const struct row *r = &rows[dtype];
    uint64_t bits = (uint64_t)(r->cls == BOOL ? x.i != 0 : x.i);
    float single = (float)x.f;
    if (r->cls == FLOAT && r->bytes == 8) memcpy(&bits, &x.f, sizeof x.f);
    else if (r->cls == FLOAT && r->bytes == 4) memcpy(&bits, &single, sizeof single);
    else if (r->cls == FLOAT) bits = to_small_float(x.f, 8 * r->bytes - r->digits, r->digits - 1);
    memcpy(at, &bits, (size_t)r->bytes);
}
