/* test_scalar.c: scalar operations and combiners (ir/ops/scalar.c), with the values that differ between machines. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "ir/ops/scalar.h"

static double f2(sn_lop op, sn_dtype t, double a, double b) {
    return sn_scalar_op(op, t, (sn_scalar){.f = a}, (sn_scalar){.f = b}, (sn_scalar){0}, true).f;
}

static int64_t i2(sn_lop op, sn_dtype t, int64_t a, int64_t b) {
    return sn_scalar_op(op, t, (sn_scalar){.i = a}, (sn_scalar){.i = b}, (sn_scalar){0}, true).i;
}

Test(scalar, integer_division) {
    cr_assert_eq(sn_int_div(-7, 2), -3);
    cr_assert_eq(sn_int_floordiv(-7, 2), -4);
    cr_assert_eq(sn_int_floordiv(7, -2), -4);
    cr_assert_eq(sn_int_floordiv(6, -2), -3);
    cr_assert_eq(sn_int_rem(-7, 3), 2);
    cr_assert_eq(sn_int_rem(7, -3), -2);
    cr_assert_eq(sn_int_fmod(-7, 3), -1);
    cr_assert_eq(sn_int_fmod(7, -3), 1);
    cr_assert_eq(sn_int_div(5, 0), 0);
    cr_assert_eq(sn_int_floordiv(-5, 0), 0);
    cr_assert_eq(sn_int_rem(5, 0), 0);
    cr_assert_eq(sn_int_fmod(5, 0), 0);
    cr_assert_eq(sn_int_div(INT64_MIN, -1), INT64_MIN);
    cr_assert_eq(sn_int_floordiv(INT64_MIN, -1), INT64_MIN);
    cr_assert_eq(sn_int_rem(INT64_MIN, -1), 0);
    cr_assert_eq(sn_int_fmod(INT64_MIN, -1), 0);
}

Test(scalar, integer_power) {
    cr_assert_eq(sn_int_pow(3, 4, false), 81);
    cr_assert_eq(sn_int_pow(0, 0, false), 1);
    cr_assert_eq(sn_int_pow(2, -1, false), 0);
    cr_assert_eq(sn_int_pow(-1, -3, false), -1);
    cr_assert_eq(sn_int_pow(2, 64, false), 0);
}

/* Numbers from 2^63 on: the int64 that carries them is negative. */
Test(scalar, unsigned_of_64_bits) {
    const int64_t top = INT64_MIN, all = -1; /* 2^63 and 2^64 - 1 */
    sn_scalar none = {0};
    cr_assert_eq(i2(SN_LOP_ADD, SN_U64, all, 2), 1);
    cr_assert_eq(i2(SN_LOP_DIV, SN_U64, all, 10), 1844674407370955161);
    cr_assert_eq(i2(SN_LOP_FLOORDIV, SN_U64, 5, all), 0);
    cr_assert_eq(i2(SN_LOP_FLOORDIV, SN_U64, all, all), 1);
    cr_assert_eq(i2(SN_LOP_REM, SN_U64, all, 10), 5);
    cr_assert_eq(i2(SN_LOP_REM, SN_U64, top, all), top);
    cr_assert_eq(i2(SN_LOP_DIV, SN_U64, all, 0), 0);
    cr_assert_eq(i2(SN_LOP_REM, SN_U64, all, 0), 0);
    cr_assert_eq(i2(SN_LOP_POW, SN_U64, 3, all), -6148914691236517205); /* 3^-1 modulo 2^64 */
    cr_assert_eq(i2(SN_LOP_MAX, SN_U64, top, 1), top);
    cr_assert_eq(i2(SN_LOP_MIN, SN_U64, top, 1), 1);
    cr_assert_eq(i2(SN_LOP_SHR, SN_U64, all, 63), 1);
    cr_assert_eq(i2(SN_LOP_SHR, SN_U64, all, 64), 0);
    cr_assert_eq(i2(SN_LOP_SHR, SN_U64, all, all), 0);
    cr_assert_eq(i2(SN_LOP_SHL, SN_U64, all, 63), top);
    cr_assert_eq(i2(SN_LOP_ABS, SN_U64, all, 0), all);
    cr_assert_eq(i2(SN_LOP_SIGN, SN_U64, all, 0), 1);
    cr_assert(i2(SN_LOP_GT, SN_U64, top, 1) && i2(SN_LOP_GE, SN_U64, top, 1) && i2(SN_LOP_LE, SN_U64, all, all));
    cr_assert(i2(SN_LOP_LT, SN_U64, 1, all) && !i2(SN_LOP_LT, SN_U64, all, 1));
    cr_assert(i2(SN_LOP_LT, SN_I64, all, 1));
    cr_assert_eq(sn_scalar_cast(SN_F64, SN_U64, (sn_scalar){.i = top}, true).f, 0x1p63);
    cr_assert_eq(sn_scalar_cast(SN_F32, SN_U64, (sn_scalar){.i = all}, true).f, 0x1p64);
    /* Halfway between two floats and a little: by way of a double it would round down. */
    cr_assert_eq(sn_scalar_cast(SN_F32, SN_U64, (sn_scalar){.i = top + ((int64_t)1 << 39) + 1}, true).f, 0x1.000002p63);
    cr_assert_eq(sn_scalar_cast(SN_U32, SN_U64, (sn_scalar){.i = all}, true).i, UINT32_MAX);
    cr_assert_eq(sn_scalar_cast(SN_U64, SN_I8, (sn_scalar){.i = -1}, true).i, all);
    cr_assert_eq(sn_scalar_cast(SN_BOOL, SN_U64, (sn_scalar){.i = top}, true).i, 1);
    sn_scalar state[2], x[2] = {{.i = top}, {.i = 7}};
    sn_scalar_identity(SN_COMB_ARGMAX, SN_U64, state);
    cr_assert_eq(state[0].i, 0);
    sn_scalar_combine(SN_COMB_ARGMAX, SN_U64, state, (sn_scalar[2]){{.i = 5}, {.i = 6}}, true);
    sn_scalar_combine(SN_COMB_ARGMAX, SN_U64, state, x, true);
    cr_assert(state[0].i == top && state[1].i == 7);
    sn_scalar_identity(SN_COMB_MIN, SN_U64, &none);
    cr_assert_eq(none.i, all);
}

Test(scalar, unsigned_storage) {
    uint64_t bits;
    memset(&bits, 0xff, sizeof bits);
    cr_assert_eq(sn_load_int(SN_U16, &bits), 65535);
    cr_assert_eq(sn_load_int(SN_U32, &bits), UINT32_MAX);
    cr_assert_eq(sn_load_int(SN_U64, &bits), -1);
    sn_store_int(SN_U16, &bits, 65536 + 7);
    cr_assert_eq(bits, 0xffffffffffff0007);
    sn_store_int(SN_U32, &bits, -2);
    cr_assert_eq(bits, 0xfffffffffffffffe);
    cr_assert_eq(sn_wrap_to(SN_U16, -1), 65535);
    cr_assert_eq(sn_wrap_to(SN_U32, -1), UINT32_MAX);
    cr_assert_eq(i2(SN_LOP_SUB, SN_U16, 0, 1), 65535);
    cr_assert_eq(i2(SN_LOP_MUL, SN_U32, 65537, 65537), 131073);
}

Test(scalar, float_helpers) {
    cr_assert_eq(sn_float_rem(-7, 3), 2);
    cr_assert_eq(sn_float_rem(7, -3), -2);
    cr_assert(isnan(sn_float_rem(1, 0)));
    cr_assert(isnan(sn_float_max(NAN, 1)) && isnan(sn_float_max(1, NAN)) && isnan(sn_float_min(1, NAN)));
    cr_assert_eq(sn_float_min(-INFINITY, 3), -INFINITY);
}

Test(scalar, results_are_rounded_and_wrapped) {
    cr_assert_eq(f2(SN_LOP_ADD, SN_F32, 16777216, 1), 16777216);
    cr_assert_eq(f2(SN_LOP_ADD, SN_F64, 16777216, 1), 16777217);
    cr_assert_eq(f2(SN_LOP_ADD, SN_F16, 2048, 1), 2048);
    cr_assert_eq(i2(SN_LOP_ADD, SN_I8, 127, 1), -128);
    cr_assert_eq(i2(SN_LOP_SUB, SN_U8, 0, 1), 255);
    cr_assert_eq(i2(SN_LOP_SHL, SN_I32, 1, 31), INT32_MIN);
    cr_assert_eq(i2(SN_LOP_SHL, SN_I32, 1, 32), 0);
    cr_assert_eq(i2(SN_LOP_SHR, SN_I32, -8, 40), -1);
    cr_assert_eq(i2(SN_LOP_ADD, SN_BOOL, 1, 1), 1);
    cr_assert_eq(i2(SN_LOP_NOT, SN_BOOL, 1, 0), 0);
    cr_assert_eq(i2(SN_LOP_NOT, SN_U8, 1, 0), 254);
    cr_assert_eq(i2(SN_LOP_NEG, SN_I64, INT64_MIN, 0), INT64_MIN);
}

static int64_t i3(sn_lop op, sn_dtype t, int64_t a, int64_t b, int64_t c) {
    return sn_scalar_op(op, t, (sn_scalar){.i = a}, (sn_scalar){.i = b}, (sn_scalar){.i = c}, true).i;
}

Test(scalar, products_of_words) {
    int64_t least = INT32_MIN | 0x8000; /* both halves -32768 */
    cr_assert_eq(i3(SN_LOP_DOT2, SN_I32, 10, 3 << 16 | 0xffff, 5 << 16 | 2), 10 - 2 + 15);
    cr_assert_eq(i3(SN_LOP_DOT2, SN_I32, 0, least, least), INT32_MIN); /* 2^31 wraps */
    cr_assert_eq(i3(SN_LOP_DOT2, SN_I64, 0, least, least), (int64_t)1 << 31);
    cr_assert_eq(i3(SN_LOP_DOT4, SN_I32, 1, -1, -1), 1 - 4 * 255);
    cr_assert_eq(i3(SN_LOP_DOT4, SN_I32, 0, 0x04030201, 0x7f80ff01), 1 - 2 - 3 * 128 + 4 * 127);
    cr_assert_eq(i3(SN_LOP_DOT4, SN_I32, INT32_MAX, 1, 1), INT32_MIN);
    cr_assert(!sn_lop_allowed(SN_LOP_DOT2, SN_F32) && !sn_lop_allowed(SN_LOP_DOT4, SN_BOOL));
}

Test(scalar, compare_and_select) {
    sn_scalar one = {.f = 1}, two = {.f = 2}, yes = {.i = 1}, no = {0};
    cr_assert_eq(sn_scalar_op(SN_LOP_LT, SN_F32, one, two, no, true).i, 1);
    cr_assert_eq(sn_scalar_op(SN_LOP_ISNAN, SN_F32, (sn_scalar){.f = NAN}, no, no, true).i, 1);
    cr_assert_eq(sn_scalar_op(SN_LOP_SELECT, SN_F32, yes, one, two, true).f, 1);
    cr_assert_eq(sn_scalar_op(SN_LOP_SELECT, SN_F32, no, one, two, true).f, 2);
    cr_assert_eq(sn_scalar_op(SN_LOP_SELECT, SN_I32, no, (sn_scalar){.i = 5}, (sn_scalar){.i = 6}, true).i, 6);
}

Test(scalar, what_exists) {
    cr_assert(sn_lop_allowed(SN_LOP_EXP, SN_F16) && !sn_lop_allowed(SN_LOP_EXP, SN_I32));
    cr_assert(sn_lop_allowed(SN_LOP_NEG, SN_F32) && sn_lop_allowed(SN_LOP_NEG, SN_U8));
    cr_assert(!sn_lop_allowed(SN_LOP_AND, SN_F32) && sn_lop_allowed(SN_LOP_AND, SN_BOOL));
    cr_assert(!sn_lop_allowed(SN_LOP_SUB, SN_BOOL) && sn_lop_allowed(SN_LOP_ADD, SN_BOOL));
    cr_assert_str_eq(sn_lops[SN_LOP_SELECT].name, "select");
    cr_assert_str_eq(sn_lops[SN_LOP_YIELD].name, "yield");
}

static int64_t to_int(sn_dtype t, double x) { return sn_scalar_cast(t, SN_F64, (sn_scalar){.f = x}, true).i; }

Test(scalar, casts) {
    cr_assert_eq(to_int(SN_I32, -2.9), -2);
    cr_assert_eq(to_int(SN_I32, 3e9), INT32_MAX);
    cr_assert_eq(to_int(SN_I32, -3e9), INT32_MIN);
    cr_assert_eq(to_int(SN_I32, 2147483647.5), INT32_MAX);
    cr_assert_eq(to_int(SN_I64, 1e30), INT64_MAX);
    cr_assert_eq(to_int(SN_I64, -1e30), INT64_MIN);
    cr_assert_eq(to_int(SN_U8, -1), 0);
    cr_assert_eq(to_int(SN_U8, 255.9), 255);
    cr_assert_eq(to_int(SN_I64, NAN), 0);
    cr_assert_eq(to_int(SN_U16, 65535.9), 65535);
    cr_assert_eq(to_int(SN_U32, 4e9), 4000000000);
    cr_assert_eq(to_int(SN_U32, 0x1p32), UINT32_MAX);
    cr_assert_eq(to_int(SN_U64, 0x1.8p63), (int64_t)0xC000000000000000);
    cr_assert_eq(to_int(SN_U64, 0x1p64), -1);
    cr_assert_eq(to_int(SN_U64, -3.0), 0);
    cr_assert_eq(to_int(SN_U64, NAN), 0);
    cr_assert_eq(to_int(SN_BOOL, 0.25), 1);
    cr_assert_eq(to_int(SN_BOOL, NAN), 1);
    cr_assert_eq(sn_scalar_cast(SN_F32, SN_I64, (sn_scalar){.i = 16777217}, true).f, 16777216);
    cr_assert_eq(sn_scalar_cast(SN_I8, SN_I32, (sn_scalar){.i = 300}, true).i, 44);
    cr_assert_eq(sn_scalar_cast(SN_BOOL, SN_I32, (sn_scalar){.i = 2}, true).i, 1);
}

Test(scalar, identities) {
    sn_scalar s[2];
    sn_scalar_identity(SN_COMB_MAX, SN_F32, s);
    cr_assert_eq(s[0].f, -INFINITY);
    sn_scalar_identity(SN_COMB_MAX, SN_I8, s);
    cr_assert_eq(s[0].i, -128);
    sn_scalar_identity(SN_COMB_MIN, SN_U8, s);
    cr_assert_eq(s[0].i, 255);
    sn_scalar_identity(SN_COMB_MIN, SN_I64, s);
    cr_assert_eq(s[0].i, INT64_MAX);
    sn_scalar_identity(SN_COMB_PROD, SN_F32, s);
    cr_assert_eq(s[0].f, 1);
    sn_scalar_identity(SN_COMB_ALL, SN_BOOL, s);
    cr_assert_eq(s[0].i, 1);
    sn_scalar_identity(SN_COMB_ARGMIN, SN_F32, s);
    cr_assert(s[0].f == INFINITY && s[1].i == INT64_MAX);
}

/* Position that argmax or argmin ends at, elements fed in the given order. */
static int64_t position(sn_comb comb, const double *x, const int64_t *order, int n) {
    sn_scalar state[2];
    sn_scalar_identity(comb, SN_F32, state);
    for (int k = 0; k < n; k++) {
        sn_scalar in[2] = {{.f = x[order[k]]}, {.i = order[k]}};
        sn_scalar_combine(comb, SN_F32, state, in, true);
    }
    return state[1].i;
}

Test(scalar, positions_do_not_depend_on_the_order) {
    static const int64_t UP[] = {0, 1, 2, 3}, DOWN[] = {3, 2, 1, 0};
    static const double TIE[] = {1, 3, 3, 2}, NANS[] = {1, NAN, 5, NAN},
                        LOWEST[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    cr_assert_eq(position(SN_COMB_ARGMAX, TIE, UP, 4), 1);
    cr_assert_eq(position(SN_COMB_ARGMAX, TIE, DOWN, 4), 1);
    cr_assert_eq(position(SN_COMB_ARGMIN, TIE, DOWN, 4), 0);
    cr_assert_eq(position(SN_COMB_ARGMAX, NANS, DOWN, 4), 1);
    cr_assert_eq(position(SN_COMB_ARGMIN, NANS, UP, 4), 1);
    cr_assert_eq(position(SN_COMB_ARGMAX, LOWEST, DOWN, 4), 0);
}

/* sum e^(x - max) of elements fed in the given order. */
static sn_scalar exponentials(const double *x, int n) {
    sn_scalar state[2];
    sn_scalar_identity(SN_COMB_SUMEXP, SN_F64, state);
    for (int k = 0; k < n; k++)
        sn_scalar_combine(SN_COMB_SUMEXP, SN_F64, state, (sn_scalar[]){{.f = x[k]}, {.f = 1}}, true);
    return state[1];
}

Test(scalar, sums_of_exponentials) {
    static const double UP[] = {-1000, 0, 1000, 1000}, NONE[] = {-INFINITY, -INFINITY},
                        SOME[] = {-INFINITY, 3, -INFINITY}, INF[] = {5, INFINITY, -INFINITY},
                        NANS[] = {1, NAN, INFINITY};
    sn_scalar s[2];
    sn_scalar_identity(SN_COMB_SUMEXP, SN_F32, s);
    cr_assert(s[0].f == -INFINITY && s[1].f == 0);
    cr_assert_eq(exponentials(UP, 4).f, 2);
    cr_assert_eq(exponentials(NONE, 2).f, 0);
    cr_assert_eq(exponentials(SOME, 3).f, 1);
    cr_assert_eq(exponentials(INF, 3).f, INFINITY);
    cr_assert(isnan(exponentials(NANS, 3).f));
    /* Two halves, combined in either order. */
    sn_scalar a[2] = {{.f = 2}, {.f = 3}}, b[2] = {{.f = 1}, {.f = 5}}, c[2] = {b[0], b[1]};
    sn_scalar_combine(SN_COMB_SUMEXP, SN_F64, c, a, true);
    sn_scalar_combine(SN_COMB_SUMEXP, SN_F64, a, b, true);
    cr_assert(a[0].f == 2 && c[0].f == 2 && a[1].f == c[1].f && fabs(a[1].f - (3 + 5 * exp(-1))) < 1e-15);
}

/* Squares about the mean, of parts of any sizes in either order, and of numbers that lie far from 0. */
Test(scalar, moments) {
    static const double X[] = {1e6 + 1, 1e6 + 2, 1e6 + 4, 1e6 + 9};
    sn_scalar none[3], all[3], left[3], right[3], other[3];
    sn_scalar_identity(SN_COMB_MOMENTS, SN_F32, none);
    cr_assert(none[0].f == 0 && none[1].f == 0 && none[2].f == 0);
    for (int k = 0; k < 3; k++) all[k] = left[k] = right[k] = none[k];
    for (int i = 0; i < 4; i++) {
        sn_scalar one[] = {{.f = X[i]}, {.f = 0}, {.f = 1}};
        sn_scalar_combine(SN_COMB_MOMENTS, SN_F32, all, one, true);
        sn_scalar_combine(SN_COMB_MOMENTS, SN_F32, i < 3 ? left : right, one, true);
    }
    cr_assert(all[0].f == 4e6 + 16 && all[1].f == 38 && all[2].f == 4);
    for (int k = 0; k < 3; k++) other[k] = right[k];
    sn_scalar_combine(SN_COMB_MOMENTS, SN_F32, other, left, true);
    sn_scalar_combine(SN_COMB_MOMENTS, SN_F32, left, right, true);
    sn_scalar_combine(SN_COMB_MOMENTS, SN_F32, left, none, true);
    for (int k = 0; k < 3; k++) cr_assert(left[k].f == other[k].f && fabs(left[k].f - all[k].f) < 1e-4);
}

Test(scalar, combine) {
    sn_scalar s = {.f = 2};
    sn_scalar_combine(SN_COMB_SUM, SN_F32, &s, &(sn_scalar){.f = 3}, true);
    cr_assert_eq(s.f, 5);
    sn_scalar_combine(SN_COMB_MAX, SN_F32, &s, &(sn_scalar){.f = NAN}, true);
    cr_assert(isnan(s.f));
    sn_scalar b = {.i = 0};
    sn_scalar_combine(SN_COMB_ANY, SN_BOOL, &b, &(sn_scalar){.i = 1}, true);
    cr_assert_eq(b.i, 1);
    sn_scalar_combine(SN_COMB_ALL, SN_BOOL, &b, &(sn_scalar){.i = 0}, true);
    cr_assert_eq(b.i, 0);
}
