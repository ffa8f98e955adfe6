/* formula.c: formulas: read, computed for one position, built as a graph. See formula.h for the language.
 *
 * Reading is recursive descent, one function for each level of precedence by way of a table. A term is known by its
 * number in the sheet. Philox is here a third time, so that random numbers too are checked by something of their own.
 */
#include "tests/large/formula.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONSTANT = 256,
    POSITION,
    SLOT,
    CHOOSE,
    SUM,
    RANDOM,
    NORMAL,
    SHIFT,
    LE,
    GE,
    EQ,
    NE,
    EXP,
    LOG,
    SQRT,
    FLOOR,
    FLOAT,
    MIN,
    MAX,
    INVERSE
};

/* ---- reading ---- */

static int fail(sheet *s, const char *what) {
    if (!s->error[0]) snprintf(s->error, sizeof s->error, "%s at \"%.40s\"", what, s->at);
    return 0;
}

static void blanks(sheet *s) {
    while (isspace((unsigned char)*s->at)) s->at++;
}

static bool take(sheet *s, const char *word) {
    blanks(s);
    size_t n = strlen(word);
    if (strncmp(s->at, word, n)) return false;
    s->at += n;
    return true;
}

static void expect(sheet *s, const char *word) {
    if (!take(s, word)) fail(s, word);
}

static bool take_name(sheet *s, char *out) {
    blanks(s);
    int n = 0;
    if (!isalpha((unsigned char)*s->at)) return false;
    while (isalnum((unsigned char)s->at[n]) || s->at[n] == '_') n++;
    if (n > NAME_MAX_LENGTH) return fail(s, "long name");
    memcpy(out, s->at, (size_t)n);
    out[n] = 0;
    s->at += n;
    return true;
}

/* A new term; what it uses is what its operands use. */
static int put(sheet *s, term t) {
    if (s->n_terms == SHEET_TERMS) return fail(s, "too many terms");
    for (int k = 0; k < 3; k++) {
        const term *in = &s->terms[t.in[k]];
        t.uses_p |= in->uses_p;
        t.slots |= in->slots;
    }
    s->terms[s->n_terms] = t;
    return s->n_terms++;
}

static int put_number(sheet *s, number value) {
    return put(s, (term){.op = CONSTANT, .is_float = value.is_float, .known = true, .value = value});
}

static int any(sheet *s);

static int literal(sheet *s) {
    char *end;
    const char *from = s->at;
    int64_t i = strtoll(from, &end, 10);
    if (*end != '.' && *end != 'e') {
        s->at = end;
        return put_number(s, (number){.i = i, .f = (double)i});
    }
    double f = strtod(from, &end);
    s->at = end;
    return put_number(s, (number){.is_float = true, .f = f});
}

static int sum(sheet *s) {
    if (s->n_slots == SHEET_SLOTS) return fail(s, "sums in sums");
    int slot = s->n_slots;
    if (!take_name(s, s->slot_name[slot])) return fail(s, "a variable is wanted");
    expect(s, ",");
    int n = any(s);
    expect(s, ",");
    s->n_slots++;
    int e = any(s);
    s->n_slots--;
    expect(s, ")");
    if (s->terms[e].uses_p || s->terms[n].uses_p) return fail(s, "a sum that uses p");
    int t = put(s, (term){.op = SUM, .in = {n, e}, .slot = slot, .is_float = s->terms[e].is_float});
    s->terms[t].slots &= ~(1u << slot);
    return t;
}

static int call(sheet *s, const char *name) {
    static const struct {
        const char *name;
        int op, n_in;
        bool is_float;
    } functions[] = {{"exp", EXP, 1, true},         {"log", LOG, 1, true},       {"sqrt", SQRT, 1, true},
                     {"floor", FLOOR, 1, true},     {"float", FLOAT, 1, true},   {"min", MIN, 2, false},
                     {"max", MAX, 2, false},        {"random", RANDOM, 1, true}, {"normal", NORMAL, 1, true},
                     {"inverse", INVERSE, 2, false}};
    if (!strcmp(name, "sum")) return sum(s);
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        if (strcmp(name, functions[k].name)) continue;
        term t = {.op = functions[k].op, .is_float = functions[k].is_float};
        for (int i = 0; i < functions[k].n_in; i++) {
            if (i) expect(s, ",");
            t.in[i] = any(s);
            t.is_float |= s->terms[t.in[i]].is_float;
        }
        expect(s, ")");
        t.uses_p = t.op == RANDOM || t.op == NORMAL;
        return put(s, t);
    }
    return fail(s, "no such function");
}

static int primary(sheet *s) {
    char name[NAME_MAX_LENGTH + 1];
    blanks(s);
    if (isdigit((unsigned char)*s->at)) return literal(s);
    if (take(s, "(")) {
        int e = any(s);
        expect(s, ")");
        return e;
    }
    if (take(s, "-")) {
        int e = primary(s);
        return put(s, (term){.op = '-', .in = {put_number(s, (number){0}), e}, .is_float = s->terms[e].is_float});
    }
    if (!take_name(s, name)) return fail(s, "a number or name is wanted");
    if (take(s, "(")) return call(s, name);
    for (int k = s->n_slots; k-- > 0;)
        if (!strcmp(name, s->slot_name[k])) return put(s, (term){.op = SLOT, .slot = k, .slots = 1u << k});
    if (!strcmp(name, "p")) return put(s, (term){.op = POSITION, .uses_p = true});
    int e = sheet_find(s, name);
    return e < 0 ? fail(s, "unknown name before") : e;
}

/* Levels of precedence, the loosest first; longer words before their beginnings. */
static const struct {
    const char *word;
    int op, level;
} operators[] = {{"^", '^', 0}, {"&", '&', 1}, {"==", EQ, 2}, {"!=", NE, 2}, {">>", SHIFT, 4},
                 {"<=", LE, 3}, {">=", GE, 3}, {"<", '<', 3}, {">", '>', 3}, {"+", '+', 5},
                 {"-", '-', 5}, {"*", '*', 6}, {"/", '/', 6}, {"%", '%', 6}};
enum { LEVELS = 7, N_OPERATORS = sizeof operators / sizeof *operators };

static int take_operator(sheet *s, int level) {
    for (int k = 0; k < N_OPERATORS; k++) {
        const char *before = s->at;
        if (!take(s, operators[k].word)) continue;
        if (operators[k].level == level) return operators[k].op;
        s->at = before;
        return 0;
    }
    return 0;
}

static bool is_test(int op) { return op == '<' || op == '>' || op == LE || op == GE || op == EQ || op == NE; }

static int level(sheet *s, int k) {
    if (k == LEVELS) return primary(s);
    int a = level(s, k + 1);
    for (int op; !s->error[0] && (op = take_operator(s, k));) {
        int b = level(s, k + 1);
        bool is_float = !is_test(op) && (s->terms[a].is_float || s->terms[b].is_float);
        a = put(s, (term){.op = op, .in = {a, b}, .is_float = is_float});
    }
    return a;
}

static int any(sheet *s) {
    int c = level(s, 0);
    if (s->error[0] || !take(s, "?")) return c;
    int a = any(s);
    expect(s, ":");
    int b = any(s);
    return put(s, (term){.op = CHOOSE, .in = {c, a, b}, .is_float = s->terms[a].is_float || s->terms[b].is_float});
}

/* ---- names ---- */

int sheet_find(const sheet *s, const char *name) {
    for (int k = 0; k < s->n_names; k++)
        if (!strcmp(s->names[k].name, name)) return s->names[k].term;
    return -1;
}

static void define(sheet *s, const char *name, int t) {
    if (s->n_names == SHEET_NAMES) fail(s, "too many names");
    else if (sheet_find(s, name) >= 0) fail(s, "a name twice before");
    else {
        memcpy(s->names[s->n_names].name, name, strlen(name) + 1);
        s->names[s->n_names++].term = t;
    }
}

/* Term 0 stands for an operand that is not there. */
static void start(sheet *s, const char *text) {
    s->at = text;
    if (!s->n_terms) put_number(s, (number){0});
}

bool sheet_sizes(sheet *s, const char *text, int64_t scale) {
    char name[NAME_MAX_LENGTH + 1];
    start(s, text);
    while (!s->error[0] && take_name(s, name)) {
        expect(s, "=");
        int full = primary(s);
        expect(s, ">");
        int least = primary(s);
        int64_t n = s->terms[full].value.i / scale;
        if (n < s->terms[least].value.i) n = s->terms[least].value.i;
        define(s, name, put_number(s, (number){.i = n, .f = (double)n}));
    }
    if (*s->at) fail(s, "a size is wanted");
    return !s->error[0];
}

bool sheet_formulas(sheet *s, const char *text) {
    char name[NAME_MAX_LENGTH + 1];
    start(s, text);
    while (!s->error[0] && take_name(s, name)) {
        expect(s, "=");
        define(s, name, any(s));
        if (!take(s, ";")) break;
    }
    blanks(s);
    if (*s->at) fail(s, "end wanted");
    return !s->error[0];
}

bool sheet_expand(sheet *s, char *out, size_t size, const char *text) {
    size_t n = 0;
    start(s, text);
    while (*s->at && !s->error[0]) {
        /* The braces of a graph's body stand beside white space. */
        if (*s->at == '{' && !isspace((unsigned char)s->at[1])) {
            s->at++;
            number v = sheet_value(s, any(s), 0);
            expect(s, "}");
            n += (size_t)snprintf(out + n, size - n, "%lld", (long long)v.i);
        } else out[n++] = *s->at++;
        if (n + 32 > size) return fail(s, "long graph");
    }
    out[n] = 0;
    return !s->error[0];
}

/* ---- one position ---- */

static void philox(uint32_t c[4], uint64_t seed) {
    uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53 * c[0], b = (uint64_t)0xCD9E8D57 * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1],
                            (uint32_t)a};
        memcpy(c, next, sizeof next);
        k[0] += 0x9E3779B9;
        k[1] += 0xBB67AE85;
    }
}

static double uniform(int64_t seed, int64_t i) {
    uint64_t counter = (uint64_t)i / 4;
    uint32_t word[4] = {(uint32_t)counter, (uint32_t)(counter >> 32)};
    philox(word, (uint64_t)seed);
    return (word[i % 4] >> 8) / 16777216.0;
}

static double normal(int64_t seed, int64_t i) {
    return sqrt(-2 * log(1 - uniform(seed, 2 * i))) * cos(2 * M_PI * uniform(seed, 2 * i + 1));
}

static int64_t inverse(int64_t a, int64_t n) {
    int64_t r[2] = {n, a % n}, x[2] = {0, 1};
    while (r[1]) {
        int64_t q = r[0] / r[1], r2 = r[0] - q * r[1], x2 = x[0] - q * x[1];
        r[0] = r[1], r[1] = r2, x[0] = x[1], x[1] = x2;
    }
    return (x[0] % n + n) % n;
}

static number integer(int64_t i) { return (number){.i = i, .f = (double)i}; }

static number real(double f) { return (number){.is_float = true, .f = f}; }

static number sum_value(sheet *s, const term *t) {
    double f = 0;
    int64_t i = 0, n = sheet_value(s, t->in[0], 0).i;
    for (int64_t k = 0; k < n; k++) {
        s->slot[t->slot] = k;
        number x = sheet_value(s, t->in[1], 0);
        i += x.i;
        f += x.f;
    }
    return t->is_float ? real(f) : integer(i);
}

/* Dispatch over the operations. */
static number compute(sheet *s, const term *t, int64_t p) {
    if (t->op == SUM) return sum_value(s, t);
    if (t->op == CHOOSE) {
        number x = sheet_value(s, t->in[sheet_value(s, t->in[0], p).i ? 1 : 2], p);
        return t->is_float ? real(x.f) : x;
    }
    number a = sheet_value(s, t->in[0], p), b = sheet_value(s, t->in[1], p);
    switch (t->op) {
    case CONSTANT: return t->value;
    case POSITION: return integer(p);
    case SLOT: return integer(s->slot[t->slot]);
    case '+': return t->is_float ? real(a.f + b.f) : integer(a.i + b.i);
    case '-': return t->is_float ? real(a.f - b.f) : integer(a.i - b.i);
    case '*': return t->is_float ? real(a.f * b.f) : integer(a.i * b.i);
    case '/': return t->is_float ? real(a.f / b.f) : integer(b.i ? a.i / b.i : 0);
    case '%': return integer(b.i ? a.i % b.i : 0);
    case '&': return integer(a.i & b.i);
    case '^': return integer(a.i ^ b.i);
    case SHIFT: return integer(a.i >> b.i);
    case '<': return integer(a.is_float || b.is_float ? a.f < b.f : a.i < b.i);
    case '>': return integer(a.is_float || b.is_float ? a.f > b.f : a.i > b.i);
    case LE: return integer(a.is_float || b.is_float ? a.f <= b.f : a.i <= b.i);
    case GE: return integer(a.is_float || b.is_float ? a.f >= b.f : a.i >= b.i);
    case EQ: return integer(a.is_float || b.is_float ? a.f == b.f : a.i == b.i);
    case NE: return integer(a.is_float || b.is_float ? a.f != b.f : a.i != b.i);
    case EXP: return real(exp(a.f));
    case LOG: return real(log(a.f));
    case SQRT: return real(sqrt(a.f));
    case FLOOR: return real(floor(a.f));
    case FLOAT: return real(a.f);
    case MIN: return t->is_float ? real(fmin(a.f, b.f)) : integer(a.i < b.i ? a.i : b.i);
    case MAX: return t->is_float ? real(fmax(a.f, b.f)) : integer(a.i > b.i ? a.i : b.i);
    case INVERSE: return integer(inverse(a.i, b.i));
    case RANDOM: return real(uniform(a.i, p));
    case NORMAL: return real(normal(a.i, p));
    }
    return integer(0);
}

number sheet_value(sheet *s, int at, int64_t p) {
    term *t = &s->terms[at];
    if (t->known) return t->value;
    number x = compute(s, t, p);
    if (!t->uses_p && !t->slots) {
        t->known = true;
        t->value = x;
    }
    return x;
}

double sheet_float(sheet *s, int t, int64_t p) { return sheet_value(s, t, p).f; }

/* ---- a stretch of positions, as a graph ---- */

static sn_node random_node(const stretch *on, number seed, bool is_normal) {
    sn_graph *g = on->g;
    sn_node key = sn_number(g, SN_I64, (double)seed.i);
    sn_node from = sn_div(g, on->at, sn_number(g, SN_I64, is_normal ? 2 : 4));
    sn_node x = is_normal ? sn_random_normal(g, SN_F32, key, from, SN_LIST(on->n))
                          : sn_random(g, SN_F32, key, from, SN_LIST(on->n));
    return sn_cast(g, x, SN_F64);
}

static sn_node test_node(sn_graph *g, int op, sn_node a, sn_node b) {
    sn_node x = op == '<'   ? sn_lt(g, a, b)
                : op == '>' ? sn_gt(g, a, b)
                : op == LE  ? sn_le(g, a, b)
                : op == GE  ? sn_ge(g, a, b)
                : op == EQ  ? sn_eq(g, a, b)
                            : sn_ne(g, a, b);
    return sn_cast(g, x, SN_I64);
}

/* Dispatch over the operations that remain. */
static sn_node operation(sn_graph *g, int op, sn_node a, sn_node b) {
    switch (op) {
    case '+': return sn_add(g, a, b);
    case '-': return sn_sub(g, a, b);
    case '*': return sn_mul(g, a, b);
    case '/': return sn_div(g, a, b);
    case '%': return sn_rem(g, a, b);
    case '&': return sn_and(g, a, b);
    case '^': return sn_xor(g, a, b);
    case SHIFT: return sn_shr(g, a, b);
    case EXP: return sn_exp(g, a);
    case LOG: return sn_log(g, a);
    case SQRT: return sn_sqrt(g, a);
    case FLOOR: return sn_floor(g, a);
    case FLOAT: return a;
    case MIN: return sn_minimum(g, a, b);
    case MAX: return sn_maximum(g, a, b);
    }
    return (sn_node){0};
}

sn_node sheet_node(sheet *s, int at, const stretch *on) {
    const term *t = &s->terms[at];
    sn_graph *g = on->g;
    if (!t->uses_p) {
        number x = sheet_value(s, at, 0);
        return sn_number(g, t->is_float ? SN_F64 : SN_I64, x.f);
    }
    if (t->op == POSITION) return sn_add(g, on->at, sn_iota(g, SN_I64, 0, SN_LIST(on->n)));
    if (t->op == RANDOM || t->op == NORMAL) return random_node(on, sheet_value(s, t->in[0], 0), t->op == NORMAL);
    sn_node in[3];
    bool mixed = t->is_float;
    for (int k = 0; k < 3; k++) mixed |= s->terms[t->in[k]].is_float;
    for (int k = 0; k < 3; k++) {
        bool condition = t->op == CHOOSE && k == 0;
        in[k] = sheet_node(s, t->in[k], on);
        if (mixed && !condition && !s->terms[t->in[k]].is_float) in[k] = sn_cast(g, in[k], SN_F64);
    }
    if (is_test(t->op)) return test_node(g, t->op, in[0], in[1]);
    if (t->op == CHOOSE) return sn_where(g, sn_cast(g, in[0], SN_BOOL), in[1], in[2]);
    return operation(g, t->op, in[0], in[1]);
}
