/* test_ix.c: index expressions. Each rule has its exact text; random expressions are compared with plain arithmetic,
 * which also checks ranges, substitution and text. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/text.h"
#include "ir/index/ix.h"
#include "ir/module.h"

/* ---- a module with named atoms ---- */

/* extent 0: a symbol; extent -k: the axis has the size of the symbol of row k (counted from 1); 'v': a value. */
static const struct {
    const char *name;
    int extent;
} ATOMS[] = {
    {"N", 0},    {"M", 0}, {"K", 0},  {"i", 8},  {"j", 16},        {"v", 4}, {"q", 64},
    {"r", 1024}, {"u", 1}, {"a", -1}, {"b", -2}, {"x", INT32_MAX}, {"t", 3},
};
enum { N_ATOMS = SN_COUNT(ATOMS) };

static sn_env env;
static sn_module *m;
static sn_ix atoms[N_ATOMS];
static sn_axis axes[N_ATOMS];

static void setup(void) {
    sn_env_init(&env);
    m = sn_module_new(&env);
    for (int k = 0; k < N_ATOMS; k++) {
        int extent = ATOMS[k].extent;
        if (extent == 0) {
            atoms[k] = sn_ix_sym(m, sn_sym_named(m, ATOMS[k].name));
        } else if (extent == INT32_MAX) {
            atoms[k] = sn_ix_val(m, (sn_val){77});
        } else {
            axes[k] = sn_axis_new(m, ATOMS[k].name, extent > 0 ? sn_ix_const(m, extent) : atoms[-extent - 1]);
            atoms[k] = sn_ix_axis(m, axes[k]);
        }
    }
}

static void teardown(void) {
    sn_module_free(m);
    cr_assert_eq(env.bytes_now, 0u);
}

TestSuite(ix, .init = setup, .fini = teardown);

static int atom_number(const char *name) {
    for (int k = 0; k < N_ATOMS; k++)
        if (strcmp(ATOMS[k].name, name) == 0) return k;
    return -1;
}

static sn_ix atom(const char *name) { return atoms[atom_number(name)]; }
static sn_axis axis(const char *name) { return axes[atom_number(name)]; }

static sn_ix find(void *user, bool is_value, const char *name) {
    (void)user;
    int k = atom_number(name);
    return k < 0 || is_value != (ATOMS[k].extent == INT32_MAX) ? (sn_ix){0} : atoms[k];
}

static const char *namer(void *user, sn_ix_kind kind, uint32_t id) {
    (void)user;
    for (int k = 0; k < N_ATOMS; k++) {
        const sn_ix_rec *r = sn_ix_get(m, atoms[k]);
        if (r->kind == kind && r->id == id) return ATOMS[k].name;
    }
    return NULL;
}

static sn_status try_parse(sn_ix *out, const char *text) {
    sn_lex lx;
    SN_TRY(sn_lex_init(&lx, &env, "test", text, strlen(text)));
    SN_TRY(sn_ix_parse(out, &lx, m, find, NULL));
    return lx.tok == SN_TOK_END ? SN_OK : sn_lex_fail(&lx, "text goes on");
}

static sn_ix parse(const char *text) {
    sn_ix e = {0};
    cr_assert_eq(try_parse(&e, text), SN_OK, "%s: %s", text, env.message);
    return e;
}

static char *text_of(sn_ix e) {
    sn_text t;
    sn_text_init(&t, &env);
    sn_ix_print(&t, m, e, namer, NULL);
    char *s = sn_strdup(&m->arena, t.s);
    sn_text_free(&t);
    return s;
}

/* ---- rules, by their text ---- */

typedef struct rule {
    const char *from, *to;
} rule;

static void check_rules(const rule *rules, size_t n) {
    for (size_t k = 0; k < n; k++) {
        sn_ix e = parse(rules[k].from);
        cr_expect_str_eq(text_of(e), rules[k].to, "%s gives %s, expected %s", rules[k].from, text_of(e), rules[k].to);
        cr_expect_eq(parse(text_of(e)).i, e.i, "%s does not read back", rules[k].to);
    }
}
#define CHECK(...) do { static const rule RULES[] = {__VA_ARGS__}; check_rules(RULES, SN_COUNT(RULES)); } while (0)

Test(ix, sums_merge_terms) {
    CHECK({"i + j + i", "2*i + j"}, {"i - i", "0"}, {"3*i + 5 - 2*i - 6", "i - 1"}, {"-i + 7", "7 - i"},
          {"2*(i + 3*j) - 4", "6*j + 2*i - 4"}, {"r + 1024*i", "1024*i + r"}, {"-i - j - 1", "-i - j - 1"},
          {"-3", "-3"}, {"--3", "3"}, {"-9223372036854775808", "-9223372036854775808"}, {"u", "u"}, {"i*0", "0"});
}

Test(ix, products_distribute) {
    CHECK({"(i + 1)*(j + 2)", "2*i + i*j + j + 2"}, {"N*(M + 1)", "M*N + N"}, {"N*M*N", "M*N*N"}, {"M*N - N*M", "0"},
          {"(N + M)*(N - M)", "N*N - M*M"}, {"2*N*3*i", "6*N*i"}, {"(N*i + b)*M", "M*N*i + M*b"});
}

Test(ix, div_splits_multiples) {
    CHECK({"(8*i + %x) div 4", "2*i + (%x div 4)"}, {"(8*i + %x) mod 4", "(%x mod 4)"},
          {"(%x + 9) div 4", "((%x + 1) div 4) + 2"}, {"(%x - 1) div 4", "((%x + 3) div 4) - 1"},
          {"(%x - 1) mod 4", "((%x + 3) mod 4)"}, {"%x div 1", "%x"}, {"%x mod 1", "0"}, {"-7 div 2", "-4"},
          {"-7 mod 2", "1"}, {"7 div 2", "3"}, {"(12*i - 4*%x + 3) div 4", "3*i - %x"});
}

Test(ix, div_folds_by_range) {
    CHECK({"v div 4", "0"}, {"v mod 4", "v"}, {"(i + 8) div 8", "1"}, {"(i + 8) mod 8", "i"}, {"(i - 8) div 8", "-1"},
          {"(7 - i) div 8", "0"}, {"(7 - i) mod 8", "7 - i"}, {"(1024*%x + r) div 1024", "%x"},
          {"(1024*%x + r) mod 1024", "r"}, {"(i + j) div 23", "0"}, {"(i + j) div 22", "((i + j) div 22)"},
          {"u mod 4", "u"});
}

Test(ix, div_reduces_common_factors) {
    CHECK({"(4*q + v) div 32", "(q div 8)"}, {"(4*q + v) mod 32", "4*(q mod 8) + v"},
          {"(4*%x + v) div 64", "(%x div 16)"}, {"(6*%x + 4) div 10", "((3*%x + 2) div 5)"},
          {"(6*%x + 4) mod 10", "2*((3*%x + 2) mod 5)"}, {"(6*%x + 5) div 10", "((3*%x + 2) div 5)"},
          {"(6*%x + 5) mod 10", "2*((3*%x + 2) mod 5) + 1"}, {"(12*%x + 4*v + t) mod 24", "4*((3*%x + v) mod 6) + t"},
          {"(12*%x + 4*t + v) mod 24", "12*(%x mod 2) + 4*t + v"}, {"(4*q + v + 4) div 32", "((q + 1) div 8)"});
}

Test(ix, nested_div_and_mod) {
    CHECK({"%x div 4 div 8", "(%x div 32)"}, {"((%x div 4) + 3) div 8", "((%x + 12) div 32)"},
          {"%x mod 32 mod 8", "(%x mod 8)"}, {"(%x mod 32) div 8", "((%x div 8) mod 4)"},
          {"%x mod 8 mod 32", "(%x mod 8)"}, {"(%x mod 8) div 8", "0"}, {"%x div N div 8", "(%x div (8*N))"},
          {"(%x mod (8*N)) div N", "((%x div N) mod 8)"}, {"(%x mod (8*N)) mod N", "(%x mod N)"});
}

Test(ix, div_and_mod_join) {
    CHECK({"4*(%x div 4) + %x mod 4", "%x"}, {"12*(%x div 4) + 3*(%x mod 4) + i", "3*%x + i"},
          {"-4*(%x div 4) - %x mod 4", "-%x"}, {"8*(%x div 4) + %x mod 4", "8*(%x div 4) + (%x mod 4)"},
          {"4*(%x div 4 mod 8) + %x mod 4", "(%x mod 32)"}, {"32*(%x div 32) + 4*(%x div 4 mod 8) + %x mod 4", "%x"},
          {"N*(%x div N) + %x mod N", "%x"}, {"N*((%x div N) mod M) + %x mod N", "(%x mod (M*N))"},
          {"M*N*(%x div (N*M)) + N*((%x div N) mod M) + %x mod N", "%x"},
          {"(N + 1)*(%x div (N + 1)) + %x mod (N + 1)", "%x"}, {"4*(%x + 5) div 4", "%x + 5"},
          {"4*((%x + 5) div 4) + (%x + 5) mod 4", "%x + 5"}, {"16*(q div 4) + 4*(q mod 4) + v", "4*q + v"},
          {"M*N*(%x div M) + N*(%x mod M)", "N*%x"}, {"4*N*(%x div 4) + N*(%x mod 4)", "N*%x"},
          {"4*N*(%x div 4 mod 8) + N*(%x mod 4)", "N*(%x mod 32)"},
          {"K*M*N*(%x div M div N) + K*(%x mod M) + K*M*(%x div M mod N)", "K*%x"});
}

Test(ix, symbolic_divisors) {
    CHECK({"N div N", "1"}, {"N mod N", "0"}, {"N*%x div N", "%x"}, {"N*%x mod N", "0"}, {"(N*i + a) div N", "i"},
          {"(N*i + a) mod N", "a"}, {"a div N", "0"}, {"a mod N", "a"}, {"(M*N*%x + N*b + a) div (M*N)", "%x"},
          {"(M*N*%x + N*b + a) mod (M*N)", "N*b + a"}, {"(M*N*%x + N*b + a) div N mod M", "b"},
          {"(N*%x + a) div (N*M)", "(%x div M)"}, {"(N*%x + a) mod (N*M)", "N*(%x mod M) + a"},
          {"(4*%x + v) div (4*N)", "(%x div N)"}, {"(4*%x + v) mod (4*N)", "4*(%x mod N) + v"},
          {"(N - 1 - a) div N", "0"}, {"(N*i - 1) div N", "i - 1"}, {"(N - 1) mod N", "N - 1"},
          {"((N + 1)*%x) div (N + 1)", "%x"}, {"(N + 5) div (N + 3)", "1"}, {"(N + 5) mod (N + 3)", "2"},
          {"5 div N", "(5 div N)"}, {"a div M", "(a div M)"});
    cr_expect_eq(sn_ix_ceildiv(m, parse("N*i"), atom("N")).i, atom("i").i);
    cr_expect_eq(sn_ix_ceildiv(m, sn_ix_const(m, 9), sn_ix_const(m, 4)).i, sn_ix_const(m, 3).i);
}

Test(ix, min_and_max) {
    CHECK({"min(3, 5)", "3"}, {"max(3, 5)", "5"}, {"min(i, 7)", "i"}, {"min(7, i)", "i"}, {"max(i, 7)", "7"},
          {"min(j, i)", "min(i, j)"}, {"min(i, j)", "min(i, j)"}, {"max(N, 0)", "N"}, {"min(N + 1, N)", "N"},
          {"min(N + i, N + 8)", "N + i"}, {"min(i, i)", "i"}, {"max(min(i, j), 0)", "min(i, j)"},
          {"min(min(i, j), j)", "min(i, j)"}, {"2*max(N, M)", "2*max(M, N)"});
}

Test(ix, syntax_errors) {
    static const struct {
        const char *text;
        const char *message;
    } BAD[] = {
        {"i +", "test:1:4: expected an index expression"},
        {"i + z", "test:1:6: unknown name z in an index expression"},
        {"%i", "test:1:3: unknown name %i in an index expression"},
        {"min(i)", "test:1:6: expected ',', found ')'"},
        {"9223372036854775808", "test:1:1: integer does not fit in 64 bits"},
        {"i div 0", "test:1:1: index expression: div by 0 (must be positive)"},
        {"i mod (1 - 3)", "test:1:1: index expression: mod by -2 (must be positive)"},
        {"9223372036854775807 + 1", "test:1:1: index arithmetic overflows"},
        {"4611686018427387904*i*2", "test:1:1: index arithmetic overflows"},
        {"i*i*i*i*i*i*i*i*i*i*i*i*i*i*i*i*i", "test:1:1: index expression has a product of more than 16 factors"},
    };
    for (size_t k = 0; k < SN_COUNT(BAD); k++) {
        sn_ix e;
        cr_expect_neq(try_parse(&e, BAD[k].text), SN_OK, "%s", BAD[k].text);
        cr_expect_str_eq(env.message, BAD[k].message, "%s: %s", BAD[k].text, env.message);
        cr_expect_not(sn_ix_ok(m));
        sn_env_clear(&env);
    }
    char deep[1000];
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    sn_ix e;
    cr_expect_eq(try_parse(&e, deep), SN_ERROR_SYNTAX);
    sn_env_clear(&env);
    memset(deep, '-', sizeof deep - 1);
    cr_expect_eq(try_parse(&e, deep), SN_ERROR_SYNTAX);
}

/* Text follows names, not the order in which atoms were made. */
Test(ix, text_does_not_depend_on_construction) {
    sn_module *other = sn_module_new(&env);
    sn_ix y = sn_ix_axis(other, sn_axis_new(other, "y", sn_ix_const(other, 9)));
    sn_ix x = sn_ix_axis(other, sn_axis_new(other, "x", sn_ix_const(other, 9)));
    sn_text t;
    sn_text_init(&t, &env);
    sn_ix e = sn_ix_add(other, sn_ix_add(other, y, x), sn_ix_min(other, y, x));
    sn_ix_print(&t, other, sn_ix_add(other, e, sn_ix_mul(other, y, x)), NULL, NULL);
    cr_expect_str_eq(t.s, "x*y + x + y + min(x, y)");
    sn_text_free(&t);
    sn_module_free(other);
}

/* ---- questions ---- */

static void count_ends(void *user, sn_ix a, int64_t k) {
    (void)a;
    *(int64_t *)user = *(int64_t *)user * 100 + k;
}

Test(ix, runs_end_where_divisions_do) {
    int64_t k, ends = 0;
    cr_expect(sn_ix_run(m, parse("7*((16*i + j) div 11) + ((16*i + j) mod 11)"), axis("j"), &k, count_ends, &ends));
    cr_expect(k == 1 && ends == 1111);
    cr_expect(sn_ix_run(m, parse("3*((16*i + j) div 11)"), axis("j"), &k, NULL, NULL) && k == 0);
    cr_expect(sn_ix_run(m, parse("5*i + j"), axis("i"), &k, NULL, NULL) && k == 5);
    cr_expect_not(sn_ix_run(m, parse("((16*i + 2*j) mod 11)"), axis("j"), &k, NULL, NULL));
    cr_expect_not(sn_ix_run(m, parse("min(j, i)"), axis("j"), &k, NULL, NULL));
}

Test(ix, split_and_coefficient) {
    sn_ix c, rest;
    cr_assert(sn_ix_split(m, parse("N*i + 3*i + j + 4"), axis("i"), &c, &rest));
    cr_expect_str_eq(text_of(c), "N + 3");
    cr_expect_str_eq(text_of(rest), "j + 4");
    cr_assert(sn_ix_split(m, parse("j"), axis("i"), &c, &rest));
    cr_expect_str_eq(text_of(c), "0");
    cr_expect_not(sn_ix_split(m, parse("i + (i*j) div 5"), axis("i"), &c, &rest));
    cr_expect_not(sn_ix_split(m, parse("i*i"), axis("i"), &c, &rest));
    int64_t k;
    cr_expect(sn_ix_coef(m, parse("5*i + N*j"), axis("i"), &k) && k == 5);
    cr_expect_not(sn_ix_coef(m, parse("5*i + N*j"), axis("j"), &k));
    cr_expect(sn_ix_coef(m, parse("5*i"), axis("j"), &k) && k == 0);
}

Test(ix, ranges) {
    static const struct {
        const char *text;
        int64_t lo, hi;
    } RANGES[] = {
        {"i", 0, 7},
        {"3*i - j", -15, 21},
        {"u", 0, 0},
        {"N", 0, INT64_MAX},
        {"a", 0, INT64_MAX},
        {"%x", INT64_MIN, INT64_MAX},
        {"%x mod 6", 0, 5},
        {"(i + j) div 4", 0, 5},
        {"i*j", 0, 105},
        {"min(N, 5)", 0, 5},
        {"max(%x, 5)", 5, INT64_MAX},
        {"-N", INT64_MIN, 0},
        {"i*(j - 20)", -140, 105 - 0},
        {"i mod N", 0, 7},
        {"i div N", 0, 7},
        {"0 - 5*N + 3", INT64_MIN, 3},
    };
    for (size_t k = 0; k < SN_COUNT(RANGES); k++) {
        sn_range r = sn_ix_range(m, parse(RANGES[k].text));
        cr_expect_eq(r.lo, RANGES[k].lo, "%s: lo %lld", RANGES[k].text, (long long)r.lo);
        cr_expect_eq(r.hi, RANGES[k].hi, "%s: hi %lld", RANGES[k].text, (long long)r.hi);
    }
}

Test(ix, in_bounds) {
    static const struct {
        const char *e, *n;
        bool in;
    } CASES[] = {
        {"i", "8", true},
        {"i", "7", false},
        {"i - 1", "8", false},
        {"a", "N", true},
        {"a + 1", "N", false},
        {"a", "N + 1", true},
        {"N*b + a", "M*N", true},
        {"M*a + b", "N*M", true},
        {"M*b + a", "N*M", false},
        {"N - 1 - a", "N", true},
        {"N - 1", "N", false},
        {"%x mod N", "N", true},
        {"%x", "N", false},
        {"min(max(%x, 0), 7)", "8", true},
        {"min(a + 3, a)", "N", true},
        {"max(0, min(%x, a))", "N", false},
        {"max(a - 1, a)", "N", true},
        {"(M*a + b) div M", "N", true},
        {"4*a + v", "4*N", true},
        {"5*a + v", "4*N", false},
        {"a", "M", false},
    };
    for (size_t k = 0; k < SN_COUNT(CASES); k++)
        cr_expect_eq(sn_ix_in(m, parse(CASES[k].e), parse(CASES[k].n)), CASES[k].in, "%s in %s", CASES[k].e,
                     CASES[k].n);
}

Test(ix, multiples) {
    static const struct {
        const char *e;
        int64_t k;
        bool yes;
    } CASES[] = {
        {"4*i + 8", 4, true},
        {"4*i + 6", 4, false},
        {"2*i*(2*j + 4*%x)", 4, true},
        {"4*(%x div 3)", 4, true},
        {"%x div 3", 4, false},
        {"min(4*%x, 8*i)", 4, true},
        {"N", 1, true},
        {"N*4", 2, true},
        {"6*i", 4, false},
        {"u", 4, true},
        {"6*(4*%x mod 20)", 8, true},
        {"33*%x - (33*%x mod 8) + 8*j", 8, true},
        {"33*%x - (%x mod 8) + 8*j", 16, false},
        {"33*%x - (%x mod 16)", 16, true},
        {"33*%x - 2*(%x mod 8)", 8, false},
        {"33*%x - (%x mod 12)", 8, false},
    };
    for (size_t k = 0; k < SN_COUNT(CASES); k++)
        cr_expect_eq(sn_ix_is_multiple(m, parse(CASES[k].e), CASES[k].k), CASES[k].yes, "%s", CASES[k].e);
}

static void count_atom(void *user, sn_ix e) { (void)e, ++*(int *)user; }

Test(ix, occurrences) {
    sn_ix e = parse("i + (i + 2*j) mod 5 + min(N, i*%x)");
    int n = 0;
    sn_ix_walk(m, e, count_atom, &n);
    cr_expect_eq(n, 4);
    cr_expect(sn_ix_uses_axis(m, e, axis("j")));
    cr_expect_not(sn_ix_uses_axis(m, e, axis("q")));
    cr_expect(sn_ix_uses_vals(m, e));
    cr_expect_not(sn_ix_uses_vals(m, parse("i")));
}

/* ---- rewriting ---- */

Test(ix, substitution) {
    sn_axis ax[] = {axis("i"), axis("j")};
    sn_ix with[] = {atom("j"), atom("i")};
    cr_expect_str_eq(text_of(sn_ix_subst(m, parse("16*i + j"), ax, with, 2)), "16*j + i");
    sn_ix vector[] = {parse("4*q + v"), atom("j")};
    cr_expect_str_eq(text_of(sn_ix_subst(m, parse("(i mod 4) + 8*(i div 4)"), ax, vector, 1)), "8*q + v");
    cr_expect_str_eq(text_of(sn_ix_subst_sym(m, parse("N*i + a"), (sn_sym){1}, sn_ix_const(m, 32))), "32*i + a");
    cr_expect_str_eq(text_of(sn_ix_subst_val(m, parse("(%x div 3)*N"), (sn_val){77}, parse("3*i"))), "N*i");
    sn_ix same = parse("N*i + (a mod 3)");
    cr_expect_eq(sn_ix_subst_val(m, same, (sn_val){77}, parse("3*i")).i, same.i);
}

static void check_unflatten(const char *flat, const char *const *shape, uint32_t n) {
    sn_ix dims[4], index[4], e = parse(flat);
    for (uint32_t k = 0; k < n; k++) dims[k] = parse(shape[k]);
    sn_ix_unflatten(m, e, dims, n, index);
    sn_ix back = sn_ix_flatten(m, index, dims, n);
    cr_expect_eq(back.i, e.i, "%s came back as %s", flat, text_of(back));
}

Test(ix, flatten_is_the_inverse_of_unflatten) {
    check_unflatten("%x", (const char *const[]){"8", "16", "4"}, 3);
    check_unflatten("%x", (const char *const[]){"N", "16", "M", "3"}, 4);
    check_unflatten("%x", (const char *const[]){"7", "1", "5", "1"}, 4);
    check_unflatten("M*a + b", (const char *const[]){"N", "M"}, 2);
    check_unflatten("16*i + j", (const char *const[]){"4", "32"}, 2);
    check_unflatten("5*i + j", (const char *const[]){"3", "4", "8"}, 3);
    sn_ix out[2], shape[] = {sn_ix_const(m, 8), sn_ix_const(m, 16)};
    sn_ix_unflatten(m, parse("16*i + j"), shape, 2, out);
    cr_expect_eq(out[0].i, atom("i").i);
    cr_expect_eq(out[1].i, atom("j").i);
}

/* ---- random expressions against plain arithmetic ---- */

typedef struct random_tree {
    enum { T_CONST, T_ATOM, T_ADD, T_SUB, T_MUL, T_DIV, T_MOD, T_MIN, T_MAX } op;
    int64_t c;
    int a, b; /* children, or number of the atom */
} random_tree;

enum { MAX_NODES = 160, N_ASSIGNMENTS = 24 };
static random_tree tree[MAX_NODES];
static int n_nodes;
static uint64_t seed;

static uint32_t rnd(uint32_t n) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(seed >> 33) % n;
}

static int new_node(random_tree t) {
    cr_assert_lt(n_nodes, MAX_NODES);
    tree[n_nodes] = t;
    return n_nodes++;
}

static int random_divisor(void) {
    static const int64_t CONSTANTS[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64, 1024};
    int c = new_node((random_tree){T_CONST, CONSTANTS[rnd(SN_COUNT(CONSTANTS))], 0, 0});
    if (rnd(3)) return c;
    int s = new_node((random_tree){T_ATOM, 0, (int)rnd(3), 0});
    switch (rnd(4)) {
    case 0: return s;
    case 1: return new_node((random_tree){T_MUL, 0, c, s});
    case 2: return new_node((random_tree){T_ADD, 0, c, s});
    default: return new_node((random_tree){T_MUL, 0, s, new_node((random_tree){T_ATOM, 0, (int)rnd(3), 0})});
    }
}

static int random_node(int depth) {
    if (depth == 0 || n_nodes > 40 || rnd(6) == 0) {
        if (rnd(4)) return new_node((random_tree){T_ATOM, 0, (int)rnd(N_ATOMS), 0});
        return new_node((random_tree){T_CONST, (int64_t)rnd(41) - 20, 0, 0});
    }
    random_tree t = {0};
    t.op = (int)(T_ADD + rnd(7));
    if (t.op > T_MOD && rnd(3)) t.op = T_ADD + rnd(5);
    t.a = random_node(depth - 1);
    if (t.op == T_DIV || t.op == T_MOD) {
        t.b = random_divisor();
    } else if (t.op == T_MUL && rnd(4)) {
        static const int64_t FACTORS[] = {-4, -1, 2, 3, 4, 8, 16, 64};
        t.b = new_node((random_tree){T_CONST, FACTORS[rnd(SN_COUNT(FACTORS))], 0, 0});
    } else {
        t.b = random_node(depth - 1);
    }
    return new_node(t);
}

static sn_ix build(int k) {
    random_tree t = tree[k];
    switch (t.op) {
    case T_CONST: return sn_ix_const(m, t.c);
    case T_ATOM: return atoms[t.a];
    case T_ADD: return sn_ix_add(m, build(t.a), build(t.b));
    case T_SUB: return sn_ix_sub(m, build(t.a), build(t.b));
    case T_MUL: return sn_ix_mul(m, build(t.a), build(t.b));
    case T_DIV: return sn_ix_div(m, build(t.a), build(t.b));
    case T_MOD: return sn_ix_mod(m, build(t.a), build(t.b));
    case T_MIN: return sn_ix_min(m, build(t.a), build(t.b));
    case T_MAX: return sn_ix_max(m, build(t.a), build(t.b));
    }
    return (sn_ix){0};
}

static int64_t floor_div(int64_t a, int64_t k) { return a >= 0 ? a / k : -((-a + k - 1) / k); }

static int64_t plain(int k, const int64_t *values) {
    random_tree t = tree[k];
    if (t.op == T_CONST) return t.c;
    if (t.op == T_ATOM) return values[t.a];
    int64_t a = plain(t.a, values), b = plain(t.b, values);
    switch (t.op) {
    case T_ADD: return a + b;
    case T_SUB: return a - b;
    case T_MUL: return a * b;
    case T_DIV: return floor_div(a, b);
    case T_MOD: return a - b * floor_div(a, b);
    case T_MIN: return a < b ? a : b;
    case T_MAX: return a > b ? a : b;
    case T_CONST:
    case T_ATOM: break;
    }
    return 0;
}

static void random_values(int64_t *values) {
    for (int k = 0; k < N_ATOMS; k++) {
        int extent = ATOMS[k].extent;
        if (extent == 0) values[k] = 1 + rnd(rnd(2) ? 4 : 40);
        else if (extent == INT32_MAX) values[k] = (int64_t)rnd(2001) - 1000;
        else values[k] = rnd(extent > 0 ? (uint32_t)extent : (uint32_t)values[-extent - 1]);
    }
}

static int64_t lookup(void *user, sn_ix_kind kind, uint32_t id) {
    return ((const int64_t *)user)[atom_number(namer(NULL, kind, id))];
}

static void check_values(sn_ix e, int root) {
    sn_range range = sn_ix_range(m, e);
    bool in_n = sn_ix_in(m, e, atoms[0]), multiple = sn_ix_is_multiple(m, e, 4);
    sn_ix c = {0}, rest = {0};
    bool split = sn_ix_split(m, e, axis("i"), &c, &rest);
    sn_axis from[] = {axis("i"), axis("j")};
    sn_ix with[] = {parse("4*t + v - 1"), parse("i")};
    sn_ix moved = sn_ix_subst(m, e, from, with, 2);
    for (int k = 0; k < N_ASSIGNMENTS; k++) {
        int64_t values[N_ATOMS];
        random_values(values);
        int64_t x = sn_ix_eval(m, e, lookup, values);
        cr_assert_eq(x, plain(root, values), "seed %llu: %s is %lld, plain arithmetic gives %lld",
                     (unsigned long long)seed, text_of(e), (long long)x, (long long)plain(root, values));
        cr_assert(range.lo <= x && x <= range.hi, "range of %s", text_of(e));
        cr_assert(!in_n || (0 <= x && x < values[0]), "%s in N", text_of(e));
        cr_assert(!multiple || x % 4 == 0, "%s is a multiple of 4", text_of(e));
        if (split) cr_assert_eq(x, sn_ix_eval(m, c, lookup, values) * values[3] + sn_ix_eval(m, rest, lookup, values));
        /* The old i may have any of 8 values, so only pairs that map into its range say something. */
        int64_t i = 4 * values[atom_number("t")] + values[atom_number("v")] - 1;
        if (i < 0 || i >= 8) continue;
        int64_t y = sn_ix_eval(m, moved, lookup, values);
        values[4] = values[3];
        values[3] = i;
        cr_assert_eq(y, plain(root, values), "substitution in %s", text_of(e));
    }
}

Test(ix, random_expressions) {
    int unstable = 0;
    for (int round = 0; round < 12000; round++) {
        if (round % 500 == 499) {
            teardown();
            setup();
        }
        seed = 1000003u * (uint64_t)round + 17;
        n_nodes = 0;
        int root = random_node(2 + round % 4);
        sn_ix e = build(root);
        cr_assert(sn_ix_ok(m), "round %d: %s", round, env.message);
        check_values(e, root);
        sn_ix again = parse(text_of(e));
        unstable += again.i != e.i;
        cr_assert_str_eq(text_of(parse(text_of(again))), text_of(again));
    }
    cr_expect_eq(unstable, 0, "%d expressions do not read back as themselves", unstable);
}

/* Many expressions in one module: the table must not make building slower as it fills. */
Test(ix, large_module) {
    for (int k = 0; k < 60000; k++) {
        sn_ix e = sn_ix_addc(m, sn_ix_scale(m, atom("i"), 1 + k % 300), k);
        e = sn_ix_add(m, e, sn_ix_modc(m, sn_ix_add(m, atom("%x" + 1), sn_ix_scale(m, atom("j"), k)), 32));
        cr_assert(sn_ix_ok(m));
        sn_axis ax = axis("j");
        sn_ix with = parse("4*t + v");
        sn_ix_subst(m, e, &ax, &with, 1);
    }
}
