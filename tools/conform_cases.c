/* conform_cases.c: multiplies the rows of conform.def by operations and dtypes, those of products of f32 by precisions too, and
 * writes cases as .sn text.
 *
 * What an elementwise operation takes is asked of lops.def (sn_lop_allowed), what the others take is written in
 * conform.def; ir/graph/rules.c is what both are tested against. Runs nothing.
 */
#include "tools/conform.h"

#include "ir/ops/scalar.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the rows ---- */

typedef enum dtype_set { ALL, NUMBERS, FLOATS, LONG_RANGE, SHORT, HALVES } dtype_set;

typedef struct row {
    conform_level level;
    int op, cls; /* one of them is -1 */
    dtype_set dtypes;
    const char *inputs, *expression, *refusal;
} row;

#define SN_TAKES(OP, dtypes)
#define SN_CASES(level, CLASS, inputs, expression) {CONFORM_##level, -1, SN_OPS_##CLASS, ALL, inputs, expression, NULL},
#define SN_CASE(level, OP, inputs, expression) SN_CASE_FOR(level, ALL, OP, inputs, expression)
#define SN_CASE_FOR(level, dtypes, OP, inputs, expression)                                                             \
    {CONFORM_##level, SN_OP_##OP, -1, dtypes, inputs, expression, NULL},
#define SN_REFUSED(OP, inputs, expression, message) {CONFORM_ALWAYS, SN_OP_##OP, -1, ALL, inputs, expression, message},
static const row rows[] = {
#include "tools/conform.def"
};
#undef SN_TAKES
#undef SN_CASES
#undef SN_CASE
#undef SN_CASE_FOR
#undef SN_REFUSED

static const dtype_set taken_by[SN_N_OPS] = {
#define SN_TAKES(OP, dtypes) [SN_OP_##OP] = dtypes,
#define SN_CASES(level, CLASS, inputs, expression)
#define SN_CASE(level, OP, inputs, expression)
#define SN_CASE_FOR(level, dtypes, OP, inputs, expression)
#define SN_REFUSED(OP, inputs, expression, message)
#include "tools/conform.def"
#undef SN_TAKES
#undef SN_CASES
#undef SN_CASE
#undef SN_CASE_FOR
#undef SN_REFUSED
};

static bool is_in(dtype_set set, sn_dtype t) {
    if (set == SHORT) return sn_is_float(t) && sn_dtype_bytes(t) <= 4;
    if (set == HALVES) return sn_is_float(t) && sn_dtype_bytes(t) == 2;
    if (set == LONG_RANGE) return sn_is_float(t) && sn_float_lowest(t) <= sn_float_lowest(SN_F32);
    return set == ALL || (set == NUMBERS ? t != SN_BOOL : sn_is_float(t));
}

static bool takes(sn_op op, sn_dtype t) {
    switch (sn_ops[op].cls) {
    case SN_OPS_UNARY:
    case SN_OPS_BINARY:
    case SN_OPS_COMPARE:
    case SN_OPS_TEST: return sn_lop_allowed((sn_lop)sn_ops[op].lop, t);
    case SN_OPS_SOURCE:
    case SN_OPS_ELEMENT:
    case SN_OPS_REDUCE:
    case SN_OPS_SCAN:
    case SN_OPS_VIEW:
    case SN_OPS_MOVE:
    case SN_OPS_CONTRACT:
    case SN_OPS_COMPOSITE:
    case SN_OPS_REPEAT: break;
    }
    return is_in(taken_by[op], t);
}

/* ---- text ---- */

typedef struct text {
    char *at;
    size_t n;
    FILE *file; /* open_memstream */
} text;

static bool text_open(text *t) { return (t->file = open_memstream(&t->at, &t->n)) != NULL; }

static char *text_close(text *t) { return fclose(t->file) == 0 ? t->at : NULL; }

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool is(const char *word, size_t n, const char *name) { return strlen(name) == n && !memcmp(word, name, n); }

/* A piece of a row, its words filled in; values get the case's name as a suffix when `suffixed`. */
static void put(FILE *out, const conform_case *c, const char *s, size_t n, bool suffixed) {
    bool value = false; /* the next word is the name of a value */
    for (const char *end = s + n; s < end;) {
        if (!is_word(*s)) {
            value = *s == '%';
            fputc(*s++, out);
            continue;
        }
        const char *word = s;
        while (s < end && is_word(*s)) s++;
        size_t length = (size_t)(s - word);
        if (!value && is(word, length, "T")) fputs(sn_dtypes[c->dtype].name, out);
        else if (!value && is(word, length, "U")) fputs(sn_dtypes[c->dtype2].name, out);
        else if (!value && is(word, length, "OP")) fputs(sn_ops[c->op].name, out);
        else fwrite(word, 1, length, out);
        if (value && suffixed) fprintf(out, "_%s", c->name);
        value = false;
    }
}

/* The next statement of an expression that has one behind it, NULL: none is left. `s` goes on to what follows it. */
static const char *next_statement(const char **s) {
    const char *start = *s + strspn(*s, " "), *stop = strchr(start, ';');
    if (stop) *s = stop + 1;
    return stop ? start : NULL;
}

static size_t name_length(const char *statement) { return strcspn(statement, " "); }

static bool is_output(const char *statement) { return !strncmp(statement, "out", 3); }

unsigned conform_outputs(const conform_case *c) {
    unsigned n = 1;
    for (const char *s = c->expression, *one; (one = next_statement(&s));) n += is_output(one);
    return n;
}

/* The statements of a case; the last one defines %r_NAME, unless it is a value itself. A pair is not a value that a
 * graph can return: rows take turns in which half they return. */
static void put_statements(FILE *out, const conform_case *c) {
    const char *s = c->expression;
    for (const char *one; (one = next_statement(&s));) {
        const char *equals = strchr(one, '=');
        fprintf(out, "  %%%.*s_%s ", (int)name_length(one), one, c->name);
        put(out, c, equals, (size_t)(s - 1 - equals), true);
        fputc('\n', out);
    }
    s += strspn(s, " ");
    if (*s == '%') return;
    bool pair = c->op == SN_OP_VAR_MEAN && strncmp(s, "project", 7) != 0;
    fprintf(out, "  %%%s_%s = ", pair ? "pair" : "r", c->name);
    put(out, c, s, strlen(s), true);
    if (pair) fprintf(out, "\n  %%r_%s = project %%pair_%s index=%u", c->name, c->name, c->row % 2);
    fputc('\n', out);
}

static void put_results(FILE *out, const conform_case *c) {
    fprintf(out, "%s = ", c->name);
    if (c->expression[0] == '%') put(out, c, c->expression, strlen(c->expression), true);
    else fprintf(out, "%%r_%s", c->name);
    for (const char *s = c->expression, *one; (one = next_statement(&s));) {
        int n = (int)name_length(one);
        if (is_output(one)) fprintf(out, ", %s_%.*s = %%%.*s_%s", c->name, n, one, n, one, c->name);
    }
}

char *conform_text(const conform_case *const *cases, unsigned n) {
    text t;
    if (!text_open(&t)) return NULL;
    fputs("graph @conform(", t.file);
    for (unsigned k = 0, written = 0; k < n; k++) {
        if (!cases[k]->inputs[0]) continue;
        if (written++) fputs(", ", t.file);
        put(t.file, cases[k], cases[k]->inputs, strlen(cases[k]->inputs), true);
    }
    fputs(") {\n", t.file);
    for (unsigned k = 0; k < n; k++) put_statements(t.file, cases[k]);
    fputs("  return ", t.file);
    for (unsigned k = 0; k < n; k++) {
        if (k) fputs(", ", t.file);
        put_results(t.file, cases[k]);
    }
    fputs("\n}\n", t.file);
    return text_close(&t);
}

char *conform_line(const conform_case *c) {
    text t;
    if (!text_open(&t)) return NULL;
    put(t.file, c, c->inputs, strlen(c->inputs), false);
    fputs(c->inputs[0] ? " -> " : "-> ", t.file);
    put(t.file, c, c->expression, strlen(c->expression), false);
    return text_close(&t);
}

unsigned conform_values(conform_value *out, unsigned cap, const conform_case *c) {
    static const char *const values[] = {"special", "spiked", "equal", "growing", "alternating", "uniform", "wide"};
    unsigned n = 0;
    for (const char *s = c->inputs; (s = strchr(s, '%')) && n < cap;) {
        size_t length = strcspn(++s, ":"), size = length + strlen(c->name) + 2;
        const char *value = NULL;
        for (size_t k = 0; k < SN_COUNT(values); k++)
            if (!strncmp(s, values[k], strlen(values[k]))) value = values[k];
        if (!value) continue;
        if (!(out[n].name = malloc(size))) break;
        snprintf(out[n].name, size, "%.*s_%s", (int)length, s, c->name);
        out[n++].value = value;
    }
    return n;
}

/* ---- multiplication ---- */

static conform_case *add_case(conform_suite *suite, unsigned r, sn_op op, sn_dtype t) {
    if (suite->n == suite->cap) {
        suite->cap = suite->cap ? 2 * suite->cap : 4096;
        conform_case *more = realloc(suite->at, suite->cap * sizeof *more);
        if (!more) return NULL;
        suite->at = more;
    }
    conform_case *c = &suite->at[suite->n++];
    *c = (conform_case){.row = r,
                        .op = op,
                        .dtype = t,
                        .dtype2 = t,
                        .level = rows[r].level,
                        .inputs = rows[r].inputs,
                        .expression = rows[r].expression,
                        .refusal = rows[r].refusal};
    snprintf(c->name, sizeof c->name, "%s_%s_%u", sn_ops[op].name, sn_dtypes[t].name, r);
    return c;
}

/* Does what the row computes stay about what it is when factors of products have fewer bits? Numbers near the ends of the range
 * may become infinite or 0, and the largest of nearly equal ones another. */
static bool bears_rounding(const row *r) {
    return r->dtypes != LONG_RANGE && !strstr(r->inputs, "special") && !strstr(r->inputs, "spiked") &&
           !strstr(r->expression, "argm");
}

/* The products of f32 in another precision than exact. */
static bool add_products(conform_suite *suite, sn_op op, sn_precision p) {
    for (unsigned r = 0; r < SN_COUNT(rows); r++) {
        if (rows[r].op != (int)op || rows[r].refusal || !is_in(rows[r].dtypes, SN_F32)) continue;
        if (p != SN_PRECISION_HIGH && !bears_rounding(&rows[r])) continue;
        conform_case *c = add_case(suite, r, op, SN_F32);
        if (!c) return false;
        c->precision = p;
        if (c->level == CONFORM_ALWAYS) c->level = CONFORM_SAMPLED;
        snprintf(c->name, sizeof c->name, "%s_f32_%s_%u", sn_ops[op].name, sn_precision_words[p], r);
    }
    return true;
}

/* One case, or with U in the expression one of each second dtype. */
static bool add_row(conform_suite *suite, unsigned r, sn_op op, sn_dtype t, bool first) {
    bool two = strstr(rows[r].expression, "=U") != NULL;
    for (unsigned u = 0; u < (two ? SN_N_DTYPES : 1); u++) {
        conform_case *c = add_case(suite, r, op, t);
        if (!c) return false;
        c->first = first;
        if (!two) continue;
        c->dtype2 = (sn_dtype)u;
        snprintf(c->name, sizeof c->name, "%s_%s_%s_%u", sn_ops[op].name, sn_dtypes[t].name, sn_dtypes[u].name, r);
    }
    return true;
}

/* The cases of an operation on a dtype: all its rows, or one refusal. */
static bool add_cases(conform_suite *suite, sn_op op, sn_dtype t) {
    bool first = true;
    for (unsigned r = 0; r < SN_COUNT(rows); r++) {
        if (rows[r].op != (int)op && rows[r].cls != (int)sn_ops[op].cls) continue;
        if (rows[r].refusal) {
            if (t == SN_F32 && !add_case(suite, r, op, t)) return false;
        } else if (takes(op, t) && !is_in(rows[r].dtypes, t)) {
            continue;
        } else if (takes(op, t)) {
            if (!add_row(suite, r, op, t, first)) return false;
            first = false;
        } else {
            conform_case *c = add_case(suite, r, op, t);
            if (!c) return false;
            c->refusal = sn_dtypes[t].name;
            return true;
        }
    }
    return true;
}

bool conform_make(conform_suite *out) {
    *out = (conform_suite){0};
    for (unsigned op = 0; op < SN_N_OPS; op++)
        for (unsigned t = 0; t < SN_N_DTYPES; t++)
            if (!add_cases(out, (sn_op)op, (sn_dtype)t)) return false;
    for (unsigned op = 0; op < SN_N_OPS; op++)
        for (unsigned p = SN_PRECISION_EXACT + 1; p < SN_N_PRECISIONS; p++)
            if (sn_ops[op].cls == SN_OPS_CONTRACT && !add_products(out, (sn_op)op, (sn_precision)p)) return false;
    return true;
}

void conform_free(conform_suite *suite) {
    for (unsigned k = 0; k < suite->n; k++) free(suite->at[k].message);
    free(suite->at);
}

/* A weight is a constant whose elements no case can bring along; tests/unit/test_graph_weights.c has it. */
bool conform_covers(const conform_suite *suite, sn_op op) {
    if (op == SN_OP_WEIGHT) return true;
    for (unsigned k = 0; k < suite->n; k++)
        if (suite->at[k].op == op && !suite->at[k].refusal) return true;
    return false;
}

/* u16 and u32 have the widths of i16 and i32, and no sign as u8: one row of an operation and a sample of the others
 * show whether they are there. */
bool conform_is_quick(const conform_case *c) {
    bool sampled = (c->dtype == SN_U16 || c->dtype == SN_U32) && !c->first && !c->refusal;
    if (c->level == CONFORM_SAMPLED || (c->level == CONFORM_ALWAYS && sampled))
        return sn_hash_bytes(1, c->name, strlen(c->name)) % 8 == 0;
    return c->level == CONFORM_ALWAYS;
}
