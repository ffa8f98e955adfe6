/* test_math.c: every float row of codegen-llvm/lowering.def, compiled for the CPU, against long double libm: the error must
 * stay within the bound that the row states, on dense samples of the whole range, on special values and on their pairs,
 * as scalars and as vectors. Integer operations and casts are compared with ir/ops/scalar.c, exactly.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

#include "backend-host/host_code.h"
#include "codegen-llvm/math.h"
#include "ir/ops/scalar.h"

enum { SAMPLES = 80000, LANES = 8 };

static const double SPECIAL[] = {
    0.0,
    -0.0,
    1,
    -1,
    0.5,
    -0.5,
    2,
    -2,
    3,
    -3,
    0.1,
    -0.1,
    1.5,
    2.5,
    0.75,
    10,
    -10,
    88,
    89,
    -87,
    -88,
    -103,
    -104,
    709,
    710,
    -745,
    1e-30,
    -1e-30,
    1e30,
    -1e30,
    1e-40,
    -1e-45,
    3e38,
    -3e38,
    16777216,
    16777217,
    8388609.5,
    1e5,
    1.0000001e5,
    1e10,
    1e300,
    1e-310,
    0.6931471805599453,
    0.34657359,
    3.14159265358979,
    1.5707963267948966,
    0.7853981633974483,
    4,
    6,
    5.9,
    3.9,
    0.98,
    1.02,
    3e9,
    0x1p32,
    0x1.8p63,
    0x1.fffffep63,
    0x1p64,
    INFINITY,
    -INFINITY,
    NAN,
};

/* ---- running one operation ---- */

typedef struct bench {
    sn_env env;
    sn_target target;
    sn_dtype dtype;
    uint32_t n;
    double *a, *b; /* operands, already values of the dtype */
    void *in[2], *out;
    sn_dtype out_dtype;
} bench;

/* kernel @k(a, b, y): y[i] = op a[i], b[i], a[i], as many as it has, with the innermost axis of the kind. */
static sn_kern build(sn_module *m, bench *t, sn_lop op, sn_axis_kind kind, sn_dtype cast_to) {
    sn_ix n = sn_ix_const(m, t->n);
    sn_buf a = sn_buf_new(m, "a", t->dtype, SN_BUF_INPUT, &n, 1), b = sn_buf_new(m, "b", t->dtype, SN_BUF_INPUT, &n, 1);
    sn_buf y = sn_buf_new(m, "y", t->out_dtype, SN_BUF_OUTPUT, &n, 1);
    sn_kern k = sn_kern_new(m, "k");
    sn_axis i = sn_axis_new(m, "i", sn_ix_const(m, t->n / LANES)), v = sn_axis_new(m, "v", sn_ix_const(m, LANES));
    sn_stmt outer = sn_put_loop(m, sn_at_end(k, (sn_stmt){0}), i, SN_AXIS_SEQ);
    sn_stmt inner = sn_put_loop(m, sn_at_end(k, outer), v, kind);
    sn_cursor at = sn_at_end(k, inner);
    sn_ix e = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, i), LANES), sn_ix_axis(m, v));
    sn_val x = sn_put_load(m, at, a, e), r;
    if (op == SN_LOP_CAST) r = sn_put_cast(m, at, cast_to, x);
    else if (sn_lops[op].n_in == 1) r = sn_put_op1(m, at, op, x);
    else if (sn_lops[op].n_in == 2) r = sn_put_op2(m, at, op, x, sn_put_load(m, at, b, e));
    else r = sn_put_op3(m, at, op, x, sn_put_load(m, at, b, e), x);
    sn_put_store(m, at, y, e, r);
    sn_kern_collect_params(m, k);
    return k;
}

static void run(bench *t, sn_lop op, sn_axis_kind kind) {
    sn_module *m = sn_module_new(&t->env);
    sn_kern k = build(m, t, op, kind, t->out_dtype);
    sn_host_code *code = NULL;
    cr_assert_eq(sn_host_compile(&code, m, true, &t->target, NULL, NULL), SN_OK, "%s: %s", sn_lops[op].name,
                 t->env.message);
    void *params[3];
    for (uint32_t i = 0; i < sn_kern_get(m, k)->params.n; i++) {
        const char *name = sn_buf_get(m, sn_kern_get(m, k)->params.at[i])->name;
        params[i] = name[0] == 'y' ? t->out : t->in[name[0] - 'a'];
    }
    sn_host_code_kernel(code, 0)(params, 0, 1);
    sn_host_code_free(code);
    sn_module_free(m);
}

static uint64_t random_bits(uint64_t *s) {
    *s ^= *s << 13, *s ^= *s >> 7, *s ^= *s << 17;
    return *s;
}

/* Four kinds of numbers in turn: any bit pattern; uniform in -12 .. 12; uniform in -120 .. 120 (f32) or -800 .. 800;
 * uniform in -1.25 .. 1.25, where inverse functions begin and end. */
static double sample(sn_dtype t, uint64_t *s, uint32_t i) {
    uint64_t bits = random_bits(s);
    double unit = (double)(bits >> 11) * 0x1p-53 * 2 - 1;
    double x;
    if (i % 4 == 1) x = unit * 12;
    else if (i % 4 == 2) x = unit * (t == SN_F64 ? 800 : 120);
    else if (i % 4 == 3) x = unit * 1.25;
    else x = sn_load_float(t, &bits);
    return sn_round_to(t, x);
}

static void fill(bench *t, sn_dtype dtype, bool pairs) {
    enum { N = SN_COUNT(SPECIAL) };
    *t = (bench){.dtype = dtype, .out_dtype = dtype, .n = SAMPLES / LANES * LANES};
    sn_env_init(&t->env);
    sn_target_host(&t->target, 1);
    t->a = calloc(t->n, 8), t->b = calloc(t->n, 8), t->in[0] = calloc(t->n, 8), t->in[1] = calloc(t->n, 8),
    t->out = calloc(t->n, 8);
    uint64_t s = 88172645463325252u;
    uint32_t special = pairs ? N * N : N;
    for (uint32_t i = 0; i < t->n; i++) {
        t->a[i] = i < special ? sn_round_to(dtype, SPECIAL[i % N]) : sample(dtype, &s, i);
        t->b[i] = i < special ? sn_round_to(dtype, SPECIAL[i / N]) : sample(dtype, &s, i / 4);
        sn_store_float(dtype, (char *)t->in[0] + i * sn_dtype_bytes(dtype), t->a[i]);
        sn_store_float(dtype, (char *)t->in[1] + i * sn_dtype_bytes(dtype), t->b[i]);
    }
}

static void drop(bench *t) { free(t->a), free(t->b), free(t->in[0]), free(t->in[1]), free(t->out); }

/* ---- reference ---- */

typedef long double ld;

/* Python's remainder. */
static ld rem_ld(ld a, ld b) {
    ld r = fmodl(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* The meanings of lops.def once more, in long double: tgmath.h reads exp(a) as expl(a). A remainder and a cube root of
 * its own, because those of scalar.c are of doubles. */
static ld reference(sn_lop op, ld a, ld b) {
    if (op == SN_LOP_REM) return rem_ld(a, b);
    if (op == SN_LOP_CBRT) return cbrtl(a);
    SN_UNUSED ld c = 0, NA = NAN;
    switch ((int)op) {
#define SN_LOP(ID, name, n_in, result, f, i) \
    case SN_LOP_##ID: return f;
#include "ir/ops/lops.def"
    }
    return NAN;
}

/* Error in units of the last place of the exact result. What overflows may be off by as much as it overflows. */
static double ulps(sn_dtype t, double got, ld want) {
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (isnan(got)) return INFINITY;
    if (got == (double)want && (ld)got == want) return 0;
    int digits = t == SN_F64 ? 53 : 24, lowest = t == SN_F64 ? -1022 : -126, e;
    ld limit = ldexpl(1, t == SN_F64 ? 1024 : 128);
    if (isinf(want) && isinf(got)) return (want > 0) == (got > 0) ? 0 : INFINITY;
    if (isinf(got)) got = got > 0 ? (double)INFINITY : -INFINITY;
    frexpl(want, &e);
    e -= 1;
    if (e < lowest) e = lowest;
    ld unit = ldexpl(1, e - digits + 1), y = isinf(got) ? copysignl(limit, got) : (ld)got;
    if (fabsl(want) > limit) want = copysignl(limit, want);
    return (double)(fabsl(y - want) / unit);
}

static void check_float(sn_lop op, sn_dtype dtype, sn_axis_kind kind) {
    double bound = sn_math_bound(op, dtype);
    if (op == SN_LOP_FLOORDIV) return; /* floor of a rounded quotient: no ULP to speak of; cases below */
    bench t;
    fill(&t, dtype, sn_lops[op].n_in == 2);
    if (sn_lops[op].result == SN_RESULT_BOOL) t.out_dtype = SN_BOOL;
    run(&t, op, kind);
    double worst = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < t.n; i++) {
        const void *p = (char *)t.out + i * sn_dtype_bytes(t.out_dtype);
        double got = t.out_dtype == SN_BOOL ? (double)sn_load_int(SN_BOOL, p) : sn_load_float(dtype, p);
        double error = ulps(dtype, got, reference(op, t.a[i], t.b[i]));
        if (error > worst) worst = error, at = i;
    }
    double got = t.out_dtype == SN_BOOL ? 0 : sn_load_float(dtype, (char *)t.out + at * sn_dtype_bytes(dtype));
    cr_expect(worst <= bound + 0.01, "%s.%s: %.3f ulp at (%a, %a): %a, want %La; the bound is %g", sn_lops[op].name,
              sn_dtypes[dtype].name, worst, t.a[at], t.b[at], got, reference(op, t.a[at], t.b[at]), bound);
    if (getenv("SN_TEST_VERBOSE"))
        fprintf(stderr, "%-10s %s %.3f of %g\n", sn_lops[op].name, sn_dtypes[dtype].name, worst, bound);
    drop(&t);
}

static void check_all(sn_dtype dtype, sn_axis_kind kind) {
    for (int op = 0; op < SN_N_LOPS; op++)
        if (sn_math_bound((sn_lop)op, dtype) >= 0) check_float((sn_lop)op, dtype, kind);
}

Test(math, f32_vector) { check_all(SN_F32, SN_AXIS_VECTOR); }
Test(math, f64_vector) { check_all(SN_F64, SN_AXIS_VECTOR); }
Test(math, f32_scalar) {
    static const sn_lop LONG[] = {SN_LOP_SIN,   SN_LOP_POW,  SN_LOP_REM,   SN_LOP_FMOD, SN_LOP_EXP,
                                  SN_LOP_LOG1P, SN_LOP_CBRT, SN_LOP_ATAN2, SN_LOP_HYPOT};
    for (size_t i = 0; i < SN_COUNT(LONG); i++) check_float(LONG[i], SN_F32, SN_AXIS_SEQ);
}

/* ---- 16-bit floats, integers and casts: the bits of ir/ops/scalar.c ---- */

static sn_scalar element(sn_dtype t, const void *array, uint32_t i) {
    const char *p = (const char *)array + i * sn_dtype_bytes(t);
    return sn_is_float(t) ? (sn_scalar){.f = sn_load_float(t, p)} : (sn_scalar){.i = sn_load_int(t, p)};
}

static bool same(sn_dtype t, sn_scalar x, sn_scalar y) {
    if (!sn_is_float(t)) return x.i == y.i;
    return x.f == y.f || (isnan(x.f) && isnan(y.f));
}

/* Small numbers often, so that shifts, powers and divisions by 0 and -1 happen. */
static void fill_any(bench *t, sn_dtype from, sn_dtype to, uint32_t n) {
    static const int64_t EDGE[] = {0,         1,         -1,        2,         -2,       7,        8,
                                   31,        32,        63,        64,        INT8_MIN, INT8_MAX, INT16_MIN,
                                   INT32_MIN, INT32_MAX, INT64_MIN, INT64_MAX, 255,      256,      65536};
    enum { N = SN_COUNT(EDGE) };
    *t = (bench){.dtype = from, .out_dtype = to, .n = n};
    sn_env_init(&t->env);
    sn_target_host(&t->target, 1);
    t->a = calloc(1, 1), t->b = calloc(1, 1), t->in[0] = calloc(n, 8), t->in[1] = calloc(n, 8), t->out = calloc(n, 8);
    uint64_t s = 1234567;
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) {
            char *p = (char *)t->in[k] + i * sn_dtype_bytes(from);
            uint64_t bits = random_bits(&s);
            if (sn_is_float(from)) {
                double x = i % 4 == 3 ? SPECIAL[(k ? i / 4 / SN_COUNT(SPECIAL) : i / 4) % SN_COUNT(SPECIAL)]
                           : i % 4    ? (double)(int64_t)bits * 0x1p-56
                                      : sn_load_float(from, &bits);
                sn_store_float(from, p, x);
            } else {
                sn_store_int(from, p,
                             i < N * N ? EDGE[k ? i / N : i % N]
                             : i % 2   ? (int64_t)bits
                                       : (int64_t)(bits >> 60) - 8);
            }
        }
}

static void check_exact(sn_lop op, sn_dtype from, sn_dtype to, sn_axis_kind kind) {
    bench t;
    fill_any(&t, from, to, 2048);
    run(&t, op, kind);
    for (uint32_t i = 0; i < t.n; i++) {
        sn_scalar a = element(from, t.in[0], i), b = element(from, t.in[1], i), got = element(to, t.out, i);
        sn_scalar want = op == SN_LOP_CAST ? sn_scalar_cast(to, from, a, true) : sn_scalar_op(op, from, a, b, a, true);
        cr_expect(same(to, got, want), "%s %s to %s at (%lld %a, %lld %a): %lld %a, want %lld %a", sn_lops[op].name,
                  sn_dtypes[from].name, sn_dtypes[to].name, (long long)a.i, a.f, (long long)b.i, b.f, (long long)got.i,
                  got.f, (long long)want.i, want.f);
        if (!same(to, got, want)) break;
    }
    drop(&t);
}

static void check_integers(sn_dtype t) {
    for (int op = 0; op < SN_N_LOPS; op++)
        if (op != SN_LOP_SELECT && sn_lop_allowed((sn_lop)op, t))
            check_exact((sn_lop)op, t, sn_lops[op].result == SN_RESULT_BOOL ? SN_BOOL : t,
                        op % 2 ? SN_AXIS_SEQ : SN_AXIS_VECTOR);
}

Test(math, i64) { check_integers(SN_I64); }
Test(math, i32) { check_integers(SN_I32); }
Test(math, i16) { check_integers(SN_I16); }
Test(math, i8) { check_integers(SN_I8); }
Test(math, u8) { check_integers(SN_U8); }
Test(math, u16) { check_integers(SN_U16); }
Test(math, u32) { check_integers(SN_U32); }
Test(math, u64) { check_integers(SN_U64); }
Test(math, bool) { check_integers(SN_BOOL); }

Test(math, casts) {
    for (int from = 0; from < SN_N_DTYPES; from++)
        for (int to = 0; to < SN_N_DTYPES; to++)
            for (int lanes = 0; lanes < 2 && from != to; lanes++)
                check_exact(SN_LOP_CAST, (sn_dtype)from, (sn_dtype)to, lanes ? SN_AXIS_VECTOR : SN_AXIS_SEQ);
}

/* One rounding to f32 and one to the narrow type is what they promise; these operations are exact in f32. */
Test(math, narrow_floats) {
    static const sn_lop EXACT[] = {SN_LOP_NEG,   SN_LOP_ABS,   SN_LOP_SIGN,  SN_LOP_FLOOR, SN_LOP_CEIL, SN_LOP_ROUND,
                                   SN_LOP_TRUNC, SN_LOP_ISNAN, SN_LOP_ISINF, SN_LOP_MUL,   SN_LOP_MAX,  SN_LOP_MIN,
                                   SN_LOP_LT,    SN_LOP_EQ,    SN_LOP_NE,    SN_LOP_FMOD};
    for (int t = 0; t < SN_N_DTYPES; t++)
        for (size_t i = 0; i < SN_COUNT(EXACT) && sn_is_narrow((sn_dtype)t); i++)
            check_exact(EXACT[i], (sn_dtype)t, sn_lops[EXACT[i]].result == SN_RESULT_BOOL ? SN_BOOL : (sn_dtype)t,
                        i % 2 ? SN_AXIS_SEQ : SN_AXIS_VECTOR);
}
