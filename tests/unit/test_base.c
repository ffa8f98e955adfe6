/* test_base.c: environment, arenas, tables, text, lexer, names, and element types. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/text.h"
#include "ir/base/ids.h"

static sn_env env;
static sn_arena arena;

static void setup(void) {
    sn_env_init(&env);
    sn_arena_init(&arena, &env);
}

static void teardown(void) {
    sn_arena_free(&arena);
    cr_assert_eq(env.bytes_now, 0u);
}

TestSuite(base, .init = setup, .fini = teardown);

/* ---- environment and memory ---- */

Test(base, first_failure_wins) {
    cr_expect_eq(sn_fail(&env, SN_ERROR_TYPE, "first %d", 1), SN_ERROR_TYPE);
    cr_expect_eq(sn_fail(&env, SN_ERROR_FILE, "second"), SN_ERROR_FILE);
    cr_expect_eq(env.status, SN_ERROR_TYPE);
    cr_expect_str_eq(env.message, "first 1");
    sn_env_clear(&env);
    cr_expect_eq(env.status, SN_OK);
    cr_expect_str_eq(env.message, "");
}

Test(base, arena_memory_is_aligned_and_apart) {
    char *last = NULL;
    for (size_t k = 1; k < 3000; k += 7) {
        char *p = sn_alloc(&arena, k);
        cr_expect_eq((uintptr_t)p % 16, 0u);
        memset(p, (int)k, k);
        if (last) cr_expect_eq((unsigned char)last[0], (unsigned char)(k - 7));
        last = p;
    }
    memset(sn_alloc(&arena, 3 << 20), 1, 3 << 20); /* larger than any chunk */
    cr_expect_str_eq(sn_strf(&arena, "%s-%d", "a", 5), "a-5");
    cr_expect_str_eq(sn_strndup(&arena, "abcdef", 3), "abc");
    cr_expect_geq(env.bytes_now, (size_t)3 << 20);
}

/* Fails from the n-th allocation on. */
static void *failing_realloc(void *user, void *p, size_t size) {
    int *left = user;
    if (size == 0) {
        free(p);
        return NULL;
    }
    return (*left)-- > 0 ? realloc(p, size) : NULL;
}

Test(base, out_of_memory_goes_to_the_guard) {
    jmp_buf guard;
    int left = 3;
    env.realloc_fn = failing_realloc;
    env.realloc_user = &left;
    env.guard = &guard;
    if (setjmp(guard) == 0) {
        for (;;) sn_alloc(&arena, 100000);
    }
    cr_expect_eq(env.status, SN_ERROR_MEMORY);
    cr_expect_neq(strstr(env.message, "out of memory"), NULL);
}

Test(base, table_addresses_stay) {
    sn_table t;
    sn_table_init(&t, &arena, sizeof(int));
    cr_assert_eq(t.count, 1u);
    int *first = NULL;
    for (int k = 1; k <= 5000; k++) {
        uint32_t id = sn_table_add(&t);
        cr_assert_eq(id, (uint32_t)k);
        int *p = sn_table_at(&t, id);
        cr_assert_eq(*p, 0);
        *p = k;
        if (!first) first = p;
    }
    cr_expect_eq((void *)first, sn_table_at(&t, 1));
    for (uint32_t k = 1; k <= 5000; k++) cr_assert_eq(*(int *)sn_table_at(&t, k), (int)k);
}

Test(base, vectors_grow) {
    SN_VEC(int) v = {0};
    for (int k = 0; k < 1000; k++) SN_PUSH(&arena, &v, k * k);
    cr_assert_eq(v.n, 1000u);
    for (int k = 0; k < 1000; k++) cr_assert_eq(v.at[k], k * k);
}

Test(base, names) {
    sn_names t;
    char name[16];
    sn_names_init(&t, &arena);
    cr_expect_eq(sn_names_get(&t, "a"), 0u);
    for (uint32_t k = 1; k < 500; k++) {
        snprintf(name, sizeof name, "n%u", k);
        sn_names_put(&t, name, k);
    }
    sn_names_put(&t, "n7", 1007);
    cr_expect_eq(sn_names_get(&t, "n7"), 1007u);
    cr_expect_eq(sn_names_get(&t, "n499"), 499u);
    cr_expect_eq(sn_names_get(&t, "n500"), 0u);
}

/* ---- text and lexer ---- */

static void expect_double(double x, const char *text) {
    sn_text t;
    sn_text_init(&t, &env);
    sn_text_double(&t, x);
    cr_expect_str_eq(t.s, text);
    sn_text_free(&t);
}

Test(base, doubles_as_text) {
    expect_double(0.1, "0.1");
    expect_double(1, "1.0");
    expect_double(1e-5, "1e-05");
    expect_double(-2.5, "-2.5");
    expect_double(NAN, "nan");
    expect_double(-INFINITY, "-inf");
    expect_double(1.0 / 3, "0.3333333333333333");
}

Test(base, text_grows) {
    sn_text t;
    sn_text_init(&t, &env);
    for (int k = 0; k < 1000; k++) sn_text_printf(&t, "%03d", k);
    sn_text_indent(&t, 2);
    cr_expect_eq(t.n, 3004u);
    cr_expect_eq(memcmp(t.s + 2997, "999    ", 8), 0);
    sn_text_free(&t);
}

Test(base, tokens) {
    static const char TEXT[] = "name.x %v @f 42 1.5e3 -7 \"a\\\"b\\n\" -> # comment\n ; more\n [nan";
    sn_lex lx;
    char *s;
    int64_t i;
    double f;
    cr_assert_eq(sn_lex_init(&lx, &env, "t", TEXT, strlen(TEXT)), SN_OK);
    cr_expect_eq(sn_lex_name(&s, &lx, &arena), SN_OK);
    cr_expect_str_eq(s, "name.x");
    cr_expect_eq(sn_lex_value(&s, &lx, &arena), SN_OK);
    cr_expect_str_eq(s, "v");
    cr_expect_eq(sn_lex_at(&s, &lx, &arena), SN_OK);
    cr_expect_str_eq(s, "f");
    cr_expect_eq(sn_lex_int(&i, &lx), SN_OK);
    cr_expect_eq(i, 42);
    cr_expect_eq(sn_lex_number(&f, &lx), SN_OK);
    cr_expect_eq(f, 1500.0);
    cr_expect_eq(sn_lex_int(&i, &lx), SN_OK);
    cr_expect_eq(i, -7);
    cr_expect_eq(sn_lex_string(&s, &lx, &arena), SN_OK);
    cr_expect_str_eq(s, "a\"b\n");
    cr_expect_eq(sn_lex_expect(&lx, "->"), SN_OK);
    cr_expect_eq(sn_lex_expect(&lx, "["), SN_OK);
    cr_expect_eq(lx.tok_line, 3);
    cr_expect_eq(sn_lex_number(&f, &lx), SN_OK);
    cr_expect(isnan(f));
    cr_expect_eq(lx.tok, SN_TOK_END);
}

Test(base, lexer_errors) {
    static const struct {
        const char *text, *message;
    } BAD[] = {
        {"a\n  $", "t:2:3: unexpected character '$'"},
        {"a \"open", "t:1:3: string is not closed"},
        {"a \"open\n\"", "t:1:3: string is not closed on its line"},
        {"a 99999999999999999999", "t:1:3: integer 99999999999999999999 does not fit in 64 bits"},
        {"a \x01", "t:1:3: unexpected byte 0x01"},
    };
    for (size_t k = 0; k < SN_COUNT(BAD); k++) {
        sn_lex lx;
        sn_env_clear(&env);
        cr_assert_eq(sn_lex_init(&lx, &env, "t", BAD[k].text, strlen(BAD[k].text)), SN_OK);
        cr_expect_eq(sn_lex_next(&lx), SN_ERROR_SYNTAX);
        cr_expect_str_eq(env.message, BAD[k].message);
    }
    sn_lex lx; /* a model where text is wanted */
    sn_env_clear(&env);
    cr_expect_eq(sn_lex_init(&lx, &env, "t", "\x08\x07", 2), SN_ERROR_SYNTAX);
    cr_expect_str_eq(env.message, "t:1:1: unexpected byte 0x08: this is no .sn text");
}

/* ---- element types ---- */

Test(base, dtype_names) {
    for (int k = 0; k < SN_N_DTYPES; k++) {
        sn_dtype t;
        cr_expect(sn_dtype_from_name(&t, sn_dtypes[k].name));
        cr_expect_eq(t, (sn_dtype)k);
    }
    sn_dtype t;
    cr_expect_not(sn_dtype_from_name(&t, "f33"));
    cr_expect(sn_is_float(SN_BF16));
    cr_expect(sn_is_integral(SN_BOOL));
    cr_expect_eq(sn_dtype_bytes(SN_I16), 2u);
}

static double from_bits(sn_dtype t, uint16_t bits) { return sn_load_float(t, &bits); }

static uint16_t to_bits(sn_dtype t, double x) {
    uint16_t bits = 0;
    sn_store_float(t, &bits, x);
    return bits;
}

/* Every value is its own image; between two neighbours the nearer one wins, and the even one on a tie. */
static void check_narrow(sn_dtype t) {
    uint16_t sign = (uint16_t)(1 << (8 * sn_dtype_bytes(t) - 1));
    uint16_t infinity = (uint16_t)(sign - (1 << (sn_dtypes[t].digits - 1)));
    for (uint32_t b = 0; b < infinity; b++) {
        double x = from_bits(t, (uint16_t)b);
        cr_assert_eq(to_bits(t, x), b);
        cr_assert_eq(to_bits(t, -x), b | sign);
        cr_assert_eq(sn_round_to(t, x), x);
        /* What follows the largest finite value, for rounding, is the power of two after it. */
        double next = b + 1 < infinity ? from_bits(t, (uint16_t)(b + 1)) : 2 * x - from_bits(t, (uint16_t)(b - 1));
        double middle = x + (next - x) / 2;
        cr_assert_eq(to_bits(t, middle), b + (b & 1));
        cr_assert_eq(to_bits(t, nextafter(middle, 0)), b);
        cr_assert_eq(to_bits(t, nextafter(middle, INFINITY)), b + 1);
        cr_assert_eq(sn_round_to(t, -nextafter(middle, INFINITY)), -from_bits(t, (uint16_t)(b + 1)));
    }
    cr_expect_eq(to_bits(t, INFINITY), infinity);
    cr_expect_eq(to_bits(t, -1e300), infinity | sign);
    cr_expect_eq(to_bits(t, 5e-324), 0);
    cr_expect_eq(to_bits(t, -5e-324), sign);
    cr_expect(isnan(from_bits(t, to_bits(t, NAN))));
    cr_expect(isnan(sn_round_to(t, NAN)));
    for (uint32_t b = infinity + 1u; b < sign; b++) cr_assert(isnan(from_bits(t, (uint16_t)b)));
}

Test(base, narrow_floats_round_to_nearest_even) {
    for (int t = 0; t < SN_N_DTYPES; t++)
        if (sn_is_narrow((sn_dtype)t)) check_narrow((sn_dtype)t);
}

Test(base, bits_of_f16) {
    cr_expect_eq(from_bits(SN_F16, 0x3c00), 1.0);
    cr_expect_eq(from_bits(SN_F16, 0x7bff), 65504.0);
    cr_expect_eq(from_bits(SN_F16, 0x0001), ldexp(1, -24));
    cr_expect_eq(from_bits(SN_F16, 0x7c00), INFINITY);
}

Test(base, bits_of_bf16) {
    cr_expect_eq(from_bits(SN_BF16, 0x3f80), 1.0);
    cr_expect_eq(from_bits(SN_BF16, 0x0001), ldexp(1, -133));
    for (uint32_t b = 0; b < 0x7f80; b++) { /* bf16 is the upper half of a float */
        uint32_t wide = b << 16;
        float f;
        memcpy(&f, &wide, sizeof f);
        cr_assert_eq(from_bits(SN_BF16, (uint16_t)b), (double)f);
    }
}

Test(base, dtypes_that_hold_another) {
    static const struct {
        sn_dtype to, from;
        bool holds;
    } pairs[] = {
        {SN_BF16, SN_I8, true},   {SN_BF16, SN_U8, true},   {SN_BF16, SN_I16, false}, {SN_F16, SN_I8, true},
        {SN_F16, SN_I16, false},  {SN_F32, SN_I16, true},   {SN_F32, SN_I32, false},  {SN_F64, SN_I32, true},
        {SN_F64, SN_I64, false},  {SN_F32, SN_BF16, true},  {SN_F32, SN_F16, true},   {SN_BF16, SN_F16, false},
        {SN_F16, SN_BF16, false}, {SN_F32, SN_F64, false},  {SN_F64, SN_F32, true},   {SN_I16, SN_I8, true},
        {SN_I16, SN_U8, true},    {SN_I8, SN_U8, false},    {SN_U8, SN_I8, false},    {SN_U16, SN_I8, false},
        {SN_I32, SN_BOOL, true},  {SN_BF16, SN_BOOL, true}, {SN_BOOL, SN_U8, false},  {SN_I32, SN_F16, false},
        {SN_BOOL, SN_BOOL, true}, {SN_I64, SN_U32, true},   {SN_U64, SN_U32, true},   {SN_U32, SN_U64, false},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        cr_expect_eq(sn_dtype_holds(pairs[i].to, pairs[i].from), pairs[i].holds, "%s of %s",
                     sn_dtypes[pairs[i].to].name, sn_dtypes[pairs[i].from].name);
}

Test(base, wide_floats) {
    char p[8];
    sn_store_float(SN_F32, p, 0.1);
    cr_expect_eq(sn_load_float(SN_F32, p), (double)0.1f);
    cr_expect_eq(sn_round_to(SN_F32, 0.1), (double)0.1f);
    cr_expect_eq(sn_round_to(SN_F64, 0.1), 0.1);
    cr_expect(isinf(sn_round_to(SN_F32, 1e300)));
}

Test(base, integers_wrap) {
    cr_expect_eq(sn_wrap_to(SN_I8, 200), -56);
    cr_expect_eq(sn_wrap_to(SN_U8, -1), 255);
    cr_expect_eq(sn_wrap_to(SN_I16, 0x18000), -32768);
    cr_expect_eq(sn_wrap_to(SN_I32, INT64_MAX), -1);
    cr_expect_eq(sn_wrap_to(SN_I64, INT64_MIN), INT64_MIN);
    cr_expect_eq(sn_wrap_to(SN_BOOL, 256), 1);
    char p[8] = {(char)0xff, (char)0xff};
    cr_expect_eq(sn_load_int(SN_BOOL, p), 1);
    cr_expect_eq(sn_load_int(SN_I16, p), -1);
}
