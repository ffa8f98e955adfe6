/* formula.h: elements of a tensor as formulas of their position, for cases.def.
 *
 *     r = p / C; j = p % C; x = (j * 7919 + r * 31) % C; y = exp((x - C) / 16.0)
 *
 * A formula is computed in two ways that share nothing but its text: here, one position at a time, and by a graph of
 * many positions. So a tensor of billions of elements can be made and checked on the device, and the device's word for
 * it be sampled on the host.
 *
 * Numbers are integers (64 bits) or floats (f64); an operation with one float is one of floats. `/` and `%` of integers
 * are for operands >= 0. Names: p, the sizes of the case, the formulas before. Conditions are 0 and 1.
 *     + - * / %  & ^ >>  < <= > >= == !=  c ? a : b  exp log sqrt floor float min max
 *     sum(k, n, e)   of e for k = 0 .. n-1; without p
 *     inverse(a, n)  b with a * b mod n = 1
 *     random(seed)   element p of a random f32; normal(seed): of random_normal
 */
#ifndef SN_TESTS_LARGE_FORMULA_H
#define SN_TESTS_LARGE_FORMULA_H

#include <sinter/sinter.h>

enum { SHEET_TERMS = 1024, SHEET_NAMES = 64, SHEET_SLOTS = 4, NAME_MAX_LENGTH = 31 };

typedef struct number {
    bool is_float;
    int64_t i;
    double f;
} number;

typedef struct term {
    int op;    /* a character, or one of those in formula.c */
    int in[3]; /* terms */
    int slot;  /* variable of a sum */
    bool is_float;
    bool uses_p;
    unsigned slots; /* variables that it uses */
    bool known;     /* the value has been computed: it uses neither */
    number value;
} term;

/* The formulas of a case. */
typedef struct sheet {
    term terms[SHEET_TERMS];
    int n_terms;
    struct {
        char name[NAME_MAX_LENGTH + 1];
        int term;
    } names[SHEET_NAMES];
    int n_names;
    int64_t slot[SHEET_SLOTS];
    char slot_name[SHEET_SLOTS][NAME_MAX_LENGTH + 1];
    int n_slots;
    const char *at;  /* reading */
    char error[160]; /* the first failure, "" when there is none */
} sheet;

/* Sizes "R=8191>19 C=131072>257": full and least; scale divides the full one. */
bool sheet_sizes(sheet *s, const char *text, int64_t scale);
/* "name = formula; ..." */
bool sheet_formulas(sheet *s, const char *text);
/* The formula of that name, -1 when there is none. */
int sheet_find(const sheet *s, const char *name);
/* `text` with a number for each {formula}. */
bool sheet_expand(sheet *s, char *out, size_t size, const char *text);

/* Element p. */
number sheet_value(sheet *s, int t, int64_t p);
double sheet_float(sheet *s, int t, int64_t p);

/* Elements at .. at + n - 1 as a node: i64 or f64. at: i64 of rank 0, a multiple of 4. */
typedef struct stretch {
    sn_graph *g;
    sn_node at;
    int64_t n;
} stretch;
sn_node sheet_node(sheet *s, int t, const stretch *on);

#endif
