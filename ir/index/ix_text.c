/* ix_text.c: index expressions as text and back.
 *
 * Ids depend on the order of construction, text must not: operands are printed in an order that follows coefficients
 * and names alone, so that text that was parsed prints the same again. Relies on the lexer of base/text.h. Scopes of
 * names belong to the caller.
 */
#include <stdio.h>
#include <string.h>

#include "ir/base/text.h"
#include "ir/index/ix_build.h"

/* ---- printing ---- */

typedef struct printer {
    sn_text *t;
    const sn_module *m;
    sn_ix_namer namer;
    void *user;
} printer;

/* The name of a leaf until the next one is asked for; NULL: it has none. */
static const char *name_of(const printer *p, const sn_ix_rec *r) {
    if (p->namer) return p->namer(p->user, r->kind, r->id);
    if (r->kind == SN_IX_AXIS) return sn_axis_get(p->m, (sn_axis){r->id})->name;
    return r->kind == SN_IX_SYM ? sn_sym_get(p->m, (sn_sym){r->id})->name : NULL;
}

static void print_leaf(const printer *p, const sn_ix_rec *r) {
    const char *name = name_of(p, r);
    if (r->kind == SN_IX_VAL || !name) sn_text_put(p->t, r->kind == SN_IX_VAL ? "%" : "_");
    if (name) sn_text_put(p->t, name);
    else sn_text_number(p->t, r->id);
}

/* Two names need a copy of one, because a namer may use one buffer for all. Names that begin alike for so long are told by id. */
enum { NAME_COMPARED = 128 };

static int compare_leaves(const printer *p, const sn_ix_rec *a, const sn_ix_rec *b) {
    char first[NAME_COMPARED];
    const char *name = name_of(p, a);
    snprintf(first, sizeof first, "%s", name ? name : "");
    name = name_of(p, b);
    int order = strncmp(first, name ? name : "", sizeof first - 1);
    return order ? order : (a->id > b->id) - (a->id < b->id);
}

/* Place of each kind in a printed sum or product. */
static const int KIND_ORDER[] = {
    [SN_IX_PROD] = 0, [SN_IX_SYM] = 1, [SN_IX_AXIS] = 2, [SN_IX_VAL] = 3, [SN_IX_DIV] = 4,
    [SN_IX_MOD] = 5,  [SN_IX_MIN] = 6, [SN_IX_MAX] = 7,  [SN_IX_SUM] = 8,
};

static int compare(const printer *p, sn_ix a, sn_ix b);

static uint64_t magnitude(int64_t c) { return c < 0 ? 0 - (uint64_t)c : (uint64_t)c; }

/* Positive terms first, large coefficients first: strides before what they step over. */
static int compare_terms(const printer *p, sn_ix_term a, sn_ix_term b) {
    if ((a.c < 0) != (b.c < 0)) return a.c < 0 ? 1 : -1;
    if (a.c != b.c) return magnitude(a.c) > magnitude(b.c) ? -1 : 1;
    return compare(p, a.atom, b.atom);
}

typedef struct term_list {
    SN_VEC(sn_ix_term) terms;
    int64_t c0;
    sn_ix_term local[SN_IX_LOCAL_TERMS];
} term_list;

static void list_begin(term_list *l) {
    l->c0 = 0;
    l->terms.at = l->local;
    l->terms.n = 0;
    l->terms.cap = SN_IX_LOCAL_TERMS;
}

/* Insertion sort: sums are short. The place is found by halving, because comparing is what costs: it looks at names. */
static void list_insert(term_list *l, const printer *p, sn_ix_term term) {
    uint32_t low = 0, high = l->terms.n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (compare_terms(p, term, l->terms.at[middle]) < 0) high = middle;
        else low = middle + 1;
    }
    SN_PUSH(p->m->ixs.arena, &l->terms, term);
    memmove(&l->terms.at[low + 1], &l->terms.at[low], (l->terms.n - 1 - low) * sizeof term);
    l->terms.at[low] = term;
}

/* The operands of a node in print order: terms of a sum, factors of a product, both sides of min and max. */
static void operands(term_list *l, const printer *p, sn_ix e) {
    const sn_ix_rec *r = sn_ix_get(p->m, e);
    list_begin(l);
    if (r->kind == SN_IX_SUM) {
        l->c0 = r->c0;
        for (uint32_t i = 0; i < r->n_terms; i++) list_insert(l, p, r->terms[i]);
    } else if (r->kind == SN_IX_PROD) {
        for (; r->kind == SN_IX_PROD; e = r->b, r = sn_ix_get(p->m, e)) list_insert(l, p, (sn_ix_term){1, r->a});
        list_insert(l, p, (sn_ix_term){1, e});
    } else {
        list_insert(l, p, (sn_ix_term){1, r->a});
        list_insert(l, p, (sn_ix_term){1, r->b});
    }
}

static int compare_operands(const printer *p, sn_ix a, sn_ix b) {
    term_list x, y;
    operands(&x, p, a);
    operands(&y, p, b);
    for (uint32_t i = 0; i < x.terms.n && i < y.terms.n; i++) {
        int order = compare_terms(p, x.terms.at[i], y.terms.at[i]);
        if (order) return order;
    }
    if (x.terms.n != y.terms.n) return x.terms.n > y.terms.n ? -1 : 1;
    return (x.c0 > y.c0) - (x.c0 < y.c0);
}

/* A total order of expressions by their text; equal only for equal ids (given distinct names). */
static int compare(const printer *p, sn_ix a, sn_ix b) {
    if (sn_ix_eq(a, b)) return 0;
    const sn_ix_rec *x = sn_ix_get(p->m, a), *y = sn_ix_get(p->m, b);
    if (x->kind != y->kind) return KIND_ORDER[x->kind] - KIND_ORDER[y->kind];
    switch (x->kind) {
    case SN_IX_SUM:
    case SN_IX_PROD:
    case SN_IX_MIN:
    case SN_IX_MAX: return compare_operands(p, a, b);
    case SN_IX_DIV:
    case SN_IX_MOD: {
        int order = compare(p, x->a, y->a);
        return order ? order : compare(p, x->b, y->b);
    }
    case SN_IX_AXIS:
    case SN_IX_SYM:
    case SN_IX_VAL: break;
    }
    return compare_leaves(p, x, y);
}

static void print(const printer *p, sn_ix e);

/* As an operand of div and mod: anything with an operator of its own gets parentheses. */
static void print_operand(const printer *p, sn_ix e) {
    const sn_ix_rec *r = sn_ix_get(p->m, e);
    bool wrap = r->kind == SN_IX_PROD || (r->kind == SN_IX_SUM && (r->n_terms || r->c0 < 0));
    if (wrap) sn_text_put(p->t, "(");
    print(p, e);
    if (wrap) sn_text_put(p->t, ")");
}

static void print_division(const printer *p, const sn_ix_rec *r, const char *op) {
    sn_text_put(p->t, "(");
    print_operand(p, r->a);
    sn_text_put(p->t, op);
    print_operand(p, r->b);
    sn_text_put(p->t, ")");
}

static void print_joined(const printer *p, sn_ix e, const char *separator) {
    term_list l;
    operands(&l, p, e);
    for (uint32_t i = 0; i < l.terms.n; i++) {
        if (i) sn_text_put(p->t, separator);
        print(p, l.terms.at[i].atom);
    }
}

/* One more summand: its sign, then its magnitude. */
static void print_sign(const printer *p, bool first, int64_t c) {
    if (first) sn_text_put(p->t, c < 0 ? "-" : "");
    else sn_text_put(p->t, c < 0 ? " - " : " + ");
}

static void print_constant(const printer *p, bool first, int64_t c) {
    print_sign(p, first, c);
    sn_text_number(p->t, magnitude(c));
}

/* `7 - i` rather than `-i + 7`. */
static void print_sum(const printer *p, sn_ix e) {
    term_list l;
    operands(&l, p, e);
    bool constant_leads = l.terms.n == 0 || (l.c0 > 0 && l.terms.at[0].c < 0);
    if (constant_leads) print_constant(p, true, l.c0);
    for (uint32_t i = 0; i < l.terms.n; i++) {
        sn_ix_term term = l.terms.at[i];
        print_sign(p, i == 0 && !constant_leads, term.c);
        if (magnitude(term.c) != 1) sn_text_number(p->t, magnitude(term.c)), sn_text_put(p->t, "*");
        print(p, term.atom);
    }
    if (l.c0 && !constant_leads) print_constant(p, false, l.c0);
}

static void print(const printer *p, sn_ix e) {
    const sn_ix_rec *r = sn_ix_get(p->m, e);
    switch (r->kind) {
    case SN_IX_SUM: print_sum(p, e); return;
    case SN_IX_AXIS:
    case SN_IX_SYM:
    case SN_IX_VAL: print_leaf(p, r); return;
    case SN_IX_DIV: print_division(p, r, " div "); return;
    case SN_IX_MOD: print_division(p, r, " mod "); return;
    case SN_IX_PROD: print_joined(p, e, "*"); return;
    case SN_IX_MIN:
    case SN_IX_MAX:
        sn_text_put(p->t, r->kind == SN_IX_MIN ? "min(" : "max(");
        print_joined(p, e, ", ");
        sn_text_put(p->t, ")");
        return;
    }
}

void sn_ix_print(sn_text *t, const sn_module *m, sn_ix e, sn_ix_namer namer, void *user) {
    print(&(printer){t, m, namer, user}, e);
}

/* ---- parsing ---- */

typedef struct parser {
    sn_lex *lx;
    sn_module *m;
    sn_ix_find find;
    void *user;
    int depth;
} parser;

/* Parentheses that a person or the printer writes stay far below; a fuzzer's do not. */
enum { MAX_DEPTH = 64 };

static sn_status parse_factor(sn_ix *out, parser *p);
static sn_status parse_sum(sn_ix *out, parser *p);

static sn_status find_leaf(sn_ix *out, parser *p, bool is_value, const char *name) {
    *out = p->find ? p->find(p->user, is_value, name) : (sn_ix){0};
    if (out->i) return SN_OK;
    return sn_lex_fail(p->lx, "unknown name %s%s in an index expression", is_value ? "%" : "", name);
}

static sn_status parse_leaf(sn_ix *out, parser *p, bool is_value) {
    char *name;
    if (is_value) SN_TRY(sn_lex_value(&name, p->lx, &p->m->arena));
    else SN_TRY(sn_lex_name(&name, p->lx, &p->m->arena));
    return find_leaf(out, p, is_value, name);
}

/* Models have sizes that are called min and max: without a parenthesis they are names. */
static sn_status parse_extremum(sn_ix *out, parser *p) {
    bool is_min = sn_lex_is_name(p->lx, "min"), is_call;
    sn_ix a, b;
    SN_TRY(sn_lex_next(p->lx));
    SN_TRY(sn_lex_accept(&is_call, p->lx, "("));
    if (!is_call) return find_leaf(out, p, false, is_min ? "min" : "max");
    SN_TRY(parse_sum(&a, p));
    SN_TRY(sn_lex_expect(p->lx, ","));
    SN_TRY(parse_sum(&b, p));
    SN_TRY(sn_lex_expect(p->lx, ")"));
    *out = is_min ? sn_ix_min(p->m, a, b) : sn_ix_max(p->m, a, b);
    return SN_OK;
}

static sn_status parse_integer(sn_ix *out, parser *p, bool minus) {
    if (p->lx->integer > (uint64_t)INT64_MAX + minus) return sn_lex_fail(p->lx, "integer does not fit in 64 bits");
    *out = sn_ix_const(p->m, (int64_t)(minus ? 0 - p->lx->integer : p->lx->integer));
    return sn_lex_next(p->lx);
}

static sn_status parse_primary(sn_ix *out, parser *p) {
    sn_lex *lx = p->lx;
    bool minus, paren;
    SN_TRY(sn_lex_accept(&minus, lx, "-"));
    if (lx->tok == SN_TOK_INT) return parse_integer(out, p, minus);
    if (minus) {
        SN_TRY(parse_factor(out, p));
        *out = sn_ix_scale(p->m, *out, -1);
        return SN_OK;
    }
    SN_TRY(sn_lex_accept(&paren, lx, "("));
    if (paren) {
        SN_TRY(parse_sum(out, p));
        return sn_lex_expect(lx, ")");
    }
    if (sn_lex_is_name(lx, "min") || sn_lex_is_name(lx, "max")) return parse_extremum(out, p);
    if (lx->tok == SN_TOK_VALUE || lx->tok == SN_TOK_NAME) return parse_leaf(out, p, lx->tok == SN_TOK_VALUE);
    return sn_lex_fail(lx, "expected an index expression");
}

static sn_status parse_factor(sn_ix *out, parser *p) {
    if (p->depth == MAX_DEPTH)
        return sn_lex_fail(p->lx, "index expression is nested more than %d levels deep", MAX_DEPTH);
    p->depth++;
    sn_status st = parse_primary(out, p);
    p->depth--;
    return st;
}

typedef sn_ix (*binary)(sn_module *m, sn_ix a, sn_ix b);

/* The operator at the current token, stepped over; NULL when it is none of that level. */
static sn_status parse_operator(binary *out, parser *p, bool products) {
    sn_lex *lx = p->lx;
    *out = NULL;
    if (products) {
        if (sn_lex_is(lx, "*")) *out = sn_ix_mul;
        else if (sn_lex_is_name(lx, "div")) *out = sn_ix_div;
        else if (sn_lex_is_name(lx, "mod")) *out = sn_ix_mod;
    } else {
        if (sn_lex_is(lx, "+")) *out = sn_ix_add;
        else if (sn_lex_is(lx, "-")) *out = sn_ix_sub;
    }
    return *out ? sn_lex_next(lx) : SN_OK;
}

static sn_status parse_product(sn_ix *out, parser *p) {
    SN_TRY(parse_factor(out, p));
    for (;;) {
        binary op;
        sn_ix b;
        SN_TRY(parse_operator(&op, p, true));
        if (!op) return SN_OK;
        SN_TRY(parse_factor(&b, p));
        *out = op(p->m, *out, b);
    }
}

static sn_status parse_sum(sn_ix *out, parser *p) {
    SN_TRY(parse_product(out, p));
    for (;;) {
        binary op;
        sn_ix b;
        SN_TRY(parse_operator(&op, p, false));
        if (!op) return SN_OK;
        SN_TRY(parse_product(&b, p));
        *out = op(p->m, *out, b);
    }
}

/* Constructors report through the environment and know no position: put the place of the expression in front. */
sn_status sn_ix_parse(sn_ix *out, sn_lex *lx, sn_module *m, sn_ix_find find, void *user) {
    parser p = {.lx = lx, .m = m, .find = find, .user = user};
    int line = lx->tok_line, col = lx->tok_col;
    (void)parse_sum(out, &p);
    return sn_lex_place(lx, line, col);
}
