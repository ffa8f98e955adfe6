/* parse.c: reading `graph` items of .sn text (grammar: docs/IR.md). Relies on sn_graph_node for every check of
 * operations; its message is reported again with the position of the operation. No recursion apart from index
 * expressions; memory grows with the text only.
 */
#include "ir/base/text.h"
#include "ir/graph/internal.h"

#include <stdio.h>
#include <string.h>

typedef struct parser {
    sn_module *m;
    sn_lex *lx;
    sn_names values; /* name without % -> node id */
    sn_names inputs; /* name -> 1 + number of the input */
    int64_t least;   /* literal element of the node, or 0 */
    bool beyond;     /* the node has a literal element above INT64_MAX */
} parser;

typedef SN_VEC(sn_ix) ix_vec;

/* Report the failure of a builder with a position in front, keeping its status. */
static sn_status fail_at(parser *p, int line, int col) {
    sn_env *env = p->m->env;
    char text[SN_MESSAGE_MAX];
    sn_status status = env->status;
    SN_ASSERT(status != SN_OK);
    snprintf(text, sizeof text, "%s", env->message);
    sn_env_clear(env);
    return sn_fail(env, status, "%s:%d:%d: %.*s", p->lx->name, line, col, SN_MESSAGE_MAX / 2, text);
}

/* ---- shapes and types ---- */

static sn_ix find_symbol(void *user, bool is_value, const char *name) {
    parser *p = user;
    if (is_value) return (sn_ix){0};
    return sn_ix_sym(p->m, sn_sym_named(p->m, name));
}

static sn_status parse_ix(sn_ix *out, parser *p) {
    int line = p->lx->tok_line, col = p->lx->tok_col;
    SN_TRY(sn_ix_parse(out, p->lx, p->m, find_symbol, p));
    return sn_ix_ok(p->m) ? SN_OK : fail_at(p, line, col);
}

/* [e, e, ...] of at most SN_MAX_RANK entries. */
static sn_status parse_shape(sn_ix *out, uint32_t *n, parser *p) {
    bool more;
    *n = 0;
    SN_TRY(sn_lex_expect(p->lx, "["));
    SN_TRY(sn_lex_accept(&more, p->lx, "]"));
    if (more) return SN_OK;
    do {
        if (*n == SN_MAX_RANK) return sn_lex_fail(p->lx, "a tensor has at most %d axes", SN_MAX_RANK);
        SN_TRY(parse_ix(&out[(*n)++], p));
        SN_TRY(sn_lex_accept(&more, p->lx, ","));
    } while (more);
    return sn_lex_expect(p->lx, "]");
}

static sn_status parse_dtype(sn_dtype *out, sn_lex *lx) {
    char name[16];
    if (lx->tok == SN_TOK_NAME && lx->tok_len < sizeof name) {
        memcpy(name, lx->tok_start, lx->tok_len);
        name[lx->tok_len] = 0;
        if (sn_dtype_from_name(out, name)) return sn_lex_next(lx);
    }
    int n = lx->tok_len > 40 ? 40 : (int)lx->tok_len;
    return sn_lex_fail(lx, "expected a dtype, found '%.*s'", n, lx->tok_start);
}

static sn_status parse_type(sn_type *out, parser *p) {
    *out = (sn_type){0};
    SN_TRY(parse_dtype(&out->dtype, p->lx));
    return parse_shape(out->shape, &out->rank, p);
}

/* ---- literal elements ---- */

/* Literal elements are kept as float and as integer until the dtype is known: as the int64 of the same bits. */
typedef struct literals {
    SN_VEC(double) f;
    SN_VEC(int64_t) i;
    bool integers;
} literals;

static sn_status parse_literal(parser *p, literals *l) {
    sn_lex *lx = p->lx;
    bool minus = sn_lex_is(lx, "-");
    double f;
    int64_t i = 0;
    if (minus) SN_TRY(sn_lex_next(lx));
    if (lx->tok == SN_TOK_INT) {
        i = (int64_t)(minus ? 0 - lx->integer : lx->integer);
        if (minus && lx->integer > (uint64_t)INT64_MAX + 1) l->integers = false;
        if (minus && i < p->least) p->least = i;
        if (!minus && i < 0) p->beyond = true;
    } else {
        l->integers = false;
    }
    if (sn_lex_is(lx, "-")) return sn_lex_fail(lx, "expected a number, found '-'");
    SN_TRY(sn_lex_number(&f, lx));
    SN_PUSH(&p->m->arena, &l->f, minus ? -f : f);
    SN_PUSH(&p->m->arena, &l->i, i);
    return SN_OK;
}

static sn_status parse_literals(literals *l, parser *p) {
    *l = (literals){.integers = true};
    bool more;
    SN_TRY(sn_lex_expect(p->lx, "["));
    SN_TRY(sn_lex_accept(&more, p->lx, "]"));
    if (more) return SN_OK;
    do {
        SN_TRY(parse_literal(p, l));
        SN_TRY(sn_lex_accept(&more, p->lx, ","));
    } while (more);
    return sn_lex_expect(p->lx, "]");
}

/* ---- inputs ---- */

static sn_status define(parser *p, const char *name, sn_nd node, int line, int col) {
    if (sn_names_get(&p->values, name))
        return sn_fail(p->m->env, SN_ERROR_SYNTAX, "%s:%d:%d: %%%s is defined twice", p->lx->name, line, col, name);
    sn_names_put(&p->values, name, node.i);
    return SN_OK;
}

static sn_status parse_strides(sn_ix *out, parser *p, uint32_t rank) {
    uint32_t n;
    int line = p->lx->tok_line, col = p->lx->tok_col;
    SN_TRY(parse_shape(out, &n, p));
    if (n == rank) return SN_OK;
    return sn_fail(p->m->env, SN_ERROR_SYNTAX, "%s:%d:%d: %u strides for %u axes", p->lx->name, line, col, n, rank);
}

/* Integers above INT64_MAX are of u64 alone, which has none below 0. */
static sn_status parse_default(literals *l, parser *p, const sn_type *type) {
    p->least = 0;
    p->beyond = false;
    SN_TRY(parse_literals(l, p));
    bool is_u64 = type->dtype == SN_U64;
    if (is_u64 ? p->least < 0 : p->beyond) l->integers = false;
    p->least = 0;
    p->beyond = false;
    return SN_OK;
}

static sn_status parse_input(parser *p) {
    sn_lex *lx = p->lx;
    int line = lx->tok_line, col = lx->tok_col;
    sn_ix stride[SN_MAX_RANK], offset = {0};
    bool has_strides, has_offset, has_default;
    char *name;
    sn_type type;
    literals l = {0};
    SN_TRY(sn_lex_value(&name, lx, &p->m->arena));
    SN_TRY(sn_lex_expect(lx, ":"));
    SN_TRY(parse_type(&type, p));
    SN_TRY(sn_lex_accept(&has_default, lx, "="));
    if (has_default) SN_TRY(parse_default(&l, p, &type));
    SN_TRY(sn_lex_accept_name(&has_strides, lx, "strides"));
    if (has_strides) SN_TRY(parse_strides(stride, p, type.rank));
    SN_TRY(sn_lex_accept_name(&has_offset, lx, "offset"));
    if (has_offset) SN_TRY(parse_ix(&offset, p));
    sn_nd x = sn_graph_input_new(p->m, name, &type, has_strides ? stride : NULL, offset);
    if (x.i == 0) return fail_at(p, line, col);
    const int64_t *ints = l.integers ? l.i.at : NULL;
    if (has_default && sn_graph_input_default(p->m, p->m->graph.inputs.n - 1, l.f.at, ints, l.f.n) != SN_OK)
        return fail_at(p, line, col);
    sn_names_put(&p->inputs, name, p->m->graph.inputs.n);
    return define(p, name, x, line, col);
}

static sn_status parse_inputs(parser *p) {
    bool more;
    SN_TRY(sn_lex_expect(p->lx, "("));
    SN_TRY(sn_lex_accept(&more, p->lx, ")"));
    if (more) return SN_OK;
    do {
        SN_TRY(parse_input(p));
        SN_TRY(sn_lex_accept(&more, p->lx, ","));
    } while (more);
    return sn_lex_expect(p->lx, ")");
}

/* ---- operands ---- */

/* An operand: a value, or a number that becomes a rank-0 `full` of another operand's dtype. */
typedef struct operand {
    sn_nd node; /* none: a number */
    double number;
    bool rounded; /* it is an integer that no double holds */
    int line, col;
} operand;

typedef SN_VEC(operand) operand_vec;

static bool takes_numbers(sn_op op) {
    return sn_ops[op].cls == SN_OPS_BINARY || sn_ops[op].cls == SN_OPS_COMPARE || op == SN_OP_WHERE;
}

static bool at_number(const sn_lex *lx) {
    return lx->tok == SN_TOK_INT || lx->tok == SN_TOK_FLOAT || sn_lex_is(lx, "-") || sn_lex_is_name(lx, "nan") ||
           sn_lex_is_name(lx, "inf");
}

static sn_status parse_value(sn_nd *out, parser *p) {
    sn_lex *lx = p->lx;
    int line = lx->tok_line, col = lx->tok_col;
    char *name;
    SN_TRY(sn_lex_value(&name, lx, &p->m->arena));
    out->i = sn_names_get(&p->values, name);
    if (out->i) return SN_OK;
    return sn_fail(p->m->env, SN_ERROR_SYNTAX, "%s:%d:%d: unknown value %%%s", lx->name, line, col, name);
}

/* The largest i64 and u64 are told by the doubles above them (sn_rule_number). */
static sn_status parse_number(operand *out, sn_lex *lx) {
    bool minus;
    SN_TRY(sn_lex_accept(&minus, lx, "-"));
    if (minus && sn_lex_is(lx, "-")) return sn_lex_fail(lx, "expected a number, found '-'");
    uint64_t i = lx->tok == SN_TOK_INT ? lx->integer : 0;
    bool largest = !minus && (i == INT64_MAX || i == UINT64_MAX);
    out->rounded = i && !largest && i >> __builtin_ctzll(i) >= (uint64_t)1 << 53;
    SN_TRY(sn_lex_number(&out->number, lx));
    if (minus) out->number = -out->number;
    return SN_OK;
}

static sn_status parse_operands(operand_vec *out, parser *p, sn_op op) {
    sn_lex *lx = p->lx;
    bool more = lx->tok == SN_TOK_VALUE || at_number(lx);
    while (more) {
        operand x = {.line = lx->tok_line, .col = lx->tok_col};
        if (at_number(lx)) {
            if (!takes_numbers(op)) return sn_lex_fail(lx, "%s: does not take a number as operand", sn_ops[op].name);
            SN_TRY(parse_number(&x, lx));
        } else {
            SN_TRY(parse_value(&x.node, p));
        }
        SN_PUSH(&p->m->arena, out, x);
        SN_TRY(sn_lex_accept(&more, lx, ","));
    }
    return SN_OK;
}

/* Make nodes of the numbers; their dtype is that of the partner operand. */
static sn_status build_operands(sn_nd **out, parser *p, sn_op op, const operand_vec *in) {
    sn_nd *nodes = SN_NEWN(&p->m->arena, sn_nd, in->n);
    uint32_t first = op == SN_OP_WHERE ? 1 : 0; /* the condition has no partner */
    for (uint32_t k = 0; k < in->n; k++) {
        const operand *x = &in->at[k];
        nodes[k] = x->node;
        if (x->node.i) continue;
        uint32_t partner = k == first ? first + 1 : first;
        if (k < first || partner >= in->n || in->at[partner].node.i == 0)
            return sn_fail(p->m->env, SN_ERROR_SYNTAX, "%s:%d:%d: %s: a number needs a tensor beside it", p->lx->name,
                           x->line, x->col, sn_ops[op].name);
        sn_dtype t = sn_node_get(p->m, in->at[partner].node)->type.dtype;
        if (x->rounded && !sn_is_float(t))
            return sn_fail(p->m->env, SN_ERROR_TYPE, "%s:%d:%d: %s: a number has 53 bits; write a constant",
                           p->lx->name, x->line, x->col, sn_ops[op].name);
        nodes[k] = sn_graph_scalar(p->m, t, x->number);
        if (nodes[k].i == 0) return fail_at(p, x->line, x->col);
    }
    *out = nodes;
    return SN_OK;
}

/* ---- attributes ---- */

static sn_status parse_numbers(sn_attr *out, parser *p) {
    literals l;
    SN_TRY(parse_literals(&l, p));
    out->numbers.f = l.f.at;
    out->numbers.i = l.integers ? l.i.at : NULL;
    out->numbers.n = l.f.n;
    return SN_OK;
}

static sn_status parse_ints(sn_attr *out, parser *p) {
    SN_VEC(int64_t) list = {0};
    bool more;
    SN_TRY(sn_lex_expect(p->lx, "["));
    SN_TRY(sn_lex_accept(&more, p->lx, "]"));
    if (more) return SN_OK;
    do {
        int64_t i;
        SN_TRY(sn_lex_int(&i, p->lx));
        SN_PUSH(&p->m->arena, &list, i);
        SN_TRY(sn_lex_accept(&more, p->lx, ","));
    } while (more);
    out->ints.at = list.at;
    out->ints.n = list.n;
    return sn_lex_expect(p->lx, "]");
}

static sn_status parse_bool(sn_attr *out, sn_lex *lx) {
    out->i = sn_lex_is_name(lx, "true");
    return sn_lex_next(lx);
}

static sn_status parse_dtype_attr(sn_attr *out, sn_lex *lx) {
    sn_dtype t;
    SN_TRY(parse_dtype(&t, lx));
    out->i = t;
    return SN_OK;
}

static sn_status parse_shape_attr(sn_attr *out, parser *p) {
    sn_ix shape[SN_MAX_RANK];
    SN_TRY(parse_shape(shape, &out->shape.n, p));
    out->shape.at = sn_memdup(&p->m->arena, shape, out->shape.n * sizeof *shape);
    return SN_OK;
}

static sn_status parse_string(sn_attr *out, parser *p) {
    char *text;
    SN_TRY(sn_lex_string(&text, p->lx, &p->m->arena));
    out->text = text;
    return SN_OK;
}

static sn_status parse_word(sn_attr *out, sn_lex *lx, sn_op op) {
    char what[64];
    uint32_t word;
    snprintf(what, sizeof what, "%s: %s", sn_ops[op].name, sn_attrs[out->id].name);
    SN_TRY(sn_lex_word(&word, lx, what, sn_attrs[out->id].words));
    out->i = word;
    return SN_OK;
}

/* Does a value of the kind begin at the current token? */
static bool kind_begins(const sn_lex *lx, sn_attr_kind kind) {
    switch (kind) {
    case SN_KIND_INT: return lx->tok == SN_TOK_INT || sn_lex_is(lx, "-");
    case SN_KIND_FLOAT: return at_number(lx);
    case SN_KIND_BOOL: return sn_lex_is_name(lx, "true") || sn_lex_is_name(lx, "false");
    case SN_KIND_DTYPE:
    case SN_KIND_WORD: return lx->tok == SN_TOK_NAME;
    case SN_KIND_INTS:
    case SN_KIND_SHAPE:
    case SN_KIND_NUMBERS: return sn_lex_is(lx, "[");
    case SN_KIND_STRING: return lx->tok == SN_TOK_STRING;
    }
    return false;
}

static sn_status parse_attr_value(sn_attr *out, parser *p, sn_op op) {
    static const char *const takes[] = {
        [SN_KIND_INT] = "an integer",
        [SN_KIND_FLOAT] = "a number",
        [SN_KIND_BOOL] = "true or false",
        [SN_KIND_DTYPE] = "a dtype",
        [SN_KIND_INTS] = "a list of integers",
        [SN_KIND_SHAPE] = "a list of sizes",
        [SN_KIND_NUMBERS] = "a list of numbers",
        [SN_KIND_STRING] = "a text in quotes",
        [SN_KIND_WORD] = "a word",
    };
    sn_lex *lx = p->lx;
    sn_attr_kind kind = sn_attrs[out->id].kind;
    if (!kind_begins(lx, kind))
        return sn_lex_fail(lx, "%s: attribute '%s' takes %s, not '%.*s'", sn_ops[op].name, sn_attrs[out->id].name,
                           takes[kind], lx->tok_len > 40 ? 40 : (int)lx->tok_len, lx->tok_start);
    switch (kind) {
    case SN_KIND_INT: return sn_lex_int(&out->i, lx);
    case SN_KIND_FLOAT: return sn_lex_number(&out->f, lx);
    case SN_KIND_BOOL: return parse_bool(out, lx);
    case SN_KIND_DTYPE: return parse_dtype_attr(out, lx);
    case SN_KIND_INTS: return parse_ints(out, p);
    case SN_KIND_SHAPE: return parse_shape_attr(out, p);
    case SN_KIND_NUMBERS: return parse_numbers(out, p);
    case SN_KIND_STRING: return parse_string(out, p);
    case SN_KIND_WORD: return parse_word(out, lx, op);
    }
    return SN_OK;
}

static sn_status parse_attr(sn_attr *out, parser *p, sn_op op) {
    sn_lex *lx = p->lx;
    for (int id = 0; id < SN_N_ATTRS; id++) {
        if (!sn_lex_text_is(lx, sn_attrs[id].name)) continue;
        *out = (sn_attr){.id = (sn_attr_id)id};
        SN_TRY(sn_lex_next(lx));
        SN_TRY(sn_lex_expect(lx, "="));
        return parse_attr_value(out, p, op);
    }
    int n = lx->tok_len > 40 ? 40 : (int)lx->tok_len;
    return sn_lex_fail(lx, "%s: there is no attribute '%.*s'", sn_ops[op].name, n, lx->tok_start);
}

static sn_status parse_attrs(sn_attr *out, uint32_t *n, parser *p, sn_op op) {
    sn_lex *lx = p->lx;
    for (*n = 0; lx->tok == SN_TOK_NAME && !sn_lex_is_name(lx, "return") && !sn_lex_is_name(lx, "at"); (*n)++) {
        if (*n == SN_N_ATTRS) return sn_lex_fail(lx, "%s: too many attributes", sn_ops[op].name);
        SN_TRY(parse_attr(&out[*n], p, op));
    }
    return SN_OK;
}

/* Integers above INT64_MAX are of u64 alone, which has none below 0. */
static sn_status check_literals(parser *p, sn_op op, sn_attr *attrs, uint32_t n, int line, int col) {
    bool is_u64 = false;
    for (uint32_t k = 0; k < n; k++) is_u64 |= attrs[k].id == SN_ATTR_DTYPE && attrs[k].i == SN_U64;
    if (is_u64 && p->least < 0)
        return sn_fail(p->m->env, SN_ERROR_TYPE, "%s:%d:%d: %s: value %lld is not a value of u64", p->lx->name, line,
                       col, sn_ops[op].name, (long long)p->least);
    for (uint32_t k = 0; k < n; k++)
        if (attrs[k].id == SN_ATTR_VALUES && p->beyond && !is_u64) attrs[k].numbers.i = NULL;
    return SN_OK;
}

/* ---- statements ---- */

static sn_status parse_op(sn_op *out, sn_lex *lx) {
    char name[32];
    if (lx->tok == SN_TOK_NAME && lx->tok_len < sizeof name) {
        memcpy(name, lx->tok_start, lx->tok_len);
        name[lx->tok_len] = 0;
        if (sn_op_from_name(out, name)) return sn_lex_next(lx);
    }
    int n = lx->tok_len > 40 ? 40 : (int)lx->tok_len;
    if (lx->tok == SN_TOK_NAME)
        return sn_lex_fail(lx, "unknown operation '%.*s' (`sinter list ops` names all)", n, lx->tok_start);
    return sn_lex_fail(lx, "expected an operation, found '%.*s'", n, lx->tok_start);
}

/* [: type [tuple n]] must agree with the inferred type. */
static sn_status check_result_type(parser *p, sn_nd x) {
    sn_lex *lx = p->lx;
    const sn_node_rec *n = sn_node_get(p->m, x);
    bool present, tuple;
    sn_type type;
    int64_t results = 1;
    SN_TRY(sn_lex_accept(&present, lx, ":"));
    if (!present) return SN_OK;
    int line = lx->tok_line, col = lx->tok_col;
    SN_TRY(parse_type(&type, p));
    SN_TRY(sn_lex_accept_name(&tuple, lx, "tuple"));
    if (tuple) SN_TRY(sn_lex_int(&results, lx));
    if (!sn_type_eq(&type, &n->type))
        return sn_fail(p->m->env, SN_ERROR_TYPE, "%s:%d:%d: %s: the result is %s, not %s", lx->name, line, col,
                       sn_ops[n->op].name, sn_type_text(p->m, &n->type), sn_type_text(p->m, &type));
    if (results != n->n_results)
        return sn_fail(p->m->env, SN_ERROR_TYPE, "%s:%d:%d: %s: gives %u result%s, not %lld", lx->name, line, col,
                       sn_ops[n->op].name, n->n_results, n->n_results == 1 ? "" : "s", (long long)results);
    return SN_OK;
}

/* [at "model.c:12"]; else it comes from the value of that name. */
static sn_status parse_origin(parser *p, sn_nd x, const char *name) {
    bool has;
    char *text;
    sn_node_rec *n = sn_node_get(p->m, x);
    SN_TRY(sn_lex_accept_name(&has, p->lx, "at"));
    if (has) SN_TRY(sn_lex_string(&text, p->lx, &p->m->arena));
    if (!n->origin) n->origin = has ? text : sn_strf(&p->m->arena, "%%%s", name);
    return SN_OK;
}

static bool is_number_name(const char *name) { return name[strspn(name, "0123456789")] == 0; }

static sn_status parse_node(parser *p) {
    sn_lex *lx = p->lx;
    int name_line = lx->tok_line, name_col = lx->tok_col;
    operand_vec operands = {0};
    sn_attr attrs[SN_N_ATTRS];
    uint32_t n_attrs;
    sn_nd *in = NULL;
    sn_op op;
    char *name;
    SN_TRY(sn_lex_value(&name, lx, &p->m->arena));
    SN_TRY(sn_lex_expect(lx, "="));
    int line = lx->tok_line, col = lx->tok_col;
    SN_TRY(parse_op(&op, lx));
    SN_TRY(parse_operands(&operands, p, op));
    p->least = 0, p->beyond = false;
    SN_TRY(parse_attrs(attrs, &n_attrs, p, op));
    SN_TRY(check_literals(p, op, attrs, n_attrs, line, col));
    SN_TRY(build_operands(&in, p, op, &operands));
    sn_nd x = sn_graph_node(p->m, op, in, operands.n, attrs, n_attrs);
    if (x.i == 0) return fail_at(p, line, col);
    if (!is_number_name(name)) sn_graph_name(p->m, x, name);
    SN_TRY(check_result_type(p, x));
    SN_TRY(parse_origin(p, x, name));
    return define(p, name, x, name_line, name_col);
}

static sn_status parse_output(parser *p) {
    sn_lex *lx = p->lx;
    int line = lx->tok_line, col = lx->tok_col, writes = -1;
    char *name, *input;
    bool has_writes;
    sn_nd x;
    SN_TRY(sn_lex_name(&name, lx, &p->m->arena));
    SN_TRY(sn_lex_expect(lx, "="));
    SN_TRY(parse_value(&x, p));
    SN_TRY(sn_lex_accept_name(&has_writes, lx, "writes"));
    if (has_writes) {
        int input_line = lx->tok_line, input_col = lx->tok_col;
        SN_TRY(sn_lex_value(&input, lx, &p->m->arena));
        writes = (int)sn_names_get(&p->inputs, input) - 1;
        if (writes < 0)
            return sn_fail(p->m->env, SN_ERROR_SYNTAX, "%s:%d:%d: %%%s is not an input", lx->name, input_line,
                           input_col, input);
    }
    return sn_graph_output_new(p->m, name, x, writes) == SN_OK ? SN_OK : fail_at(p, line, col);
}

static sn_status parse_body(parser *p) {
    sn_lex *lx = p->lx;
    bool more;
    SN_TRY(sn_lex_expect(lx, "{"));
    while (lx->tok == SN_TOK_VALUE) SN_TRY(parse_node(p));
    SN_TRY(sn_lex_expect_name(lx, "return"));
    do {
        SN_TRY(parse_output(p));
        SN_TRY(sn_lex_accept(&more, lx, ","));
    } while (more);
    return sn_lex_expect(lx, "}");
}

sn_status sn_graph_parse(sn_module *m, sn_lex *lx) {
    parser p = {.m = m, .lx = lx};
    char *name;
    if (m->graph.name) return sn_lex_fail(lx, "a module holds one graph; @%s came before", m->graph.name);
    SN_TRY(sn_lex_expect_name(lx, "graph"));
    SN_TRY(sn_lex_at(&name, lx, &m->arena));
    sn_names_init(&p.values, &m->arena);
    sn_names_init(&p.inputs, &m->arena);
    sn_graph_init(m, name);
    SN_TRY(parse_inputs(&p));
    return parse_body(&p);
}
