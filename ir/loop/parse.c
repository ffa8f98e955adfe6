/* parse.c: buffers and kernels from text, the reverse of ir/loop/text.c.
 *
 * Names are resolved here, with their line and column, and so is what the builder needs to be told: operand counts and
 * dtypes. Whether a known value or axis may be used where it stands is the verifier's question. A value name may be
 * used again in a place where the older value is not visible. Nesting is bounded, so text cannot exhaust the stack.
 */
#include <stdio.h>
#include <string.h>

#include "ir/base/text.h"
#include "ir/loop/loop.h"

enum { MAX_NESTING = 200, MAX_RESULTS = 8 };

typedef struct open_axis {
    const char *name;
    sn_axis axis;
} open_axis;

typedef struct parser {
    sn_module *m;
    sn_lex *lx;
    sn_arena scratch; /* names */
    sn_kern k;
    sn_names bufs, vals;
    SN_VEC(open_axis) axes; /* of the open loops, outermost first */
    sn_stmt parent;         /* region that is being read */
    int depth;
    bool new_symbols; /* an unknown name in an ix is a new symbol */
} parser;

/* ---- small pieces ---- */

static sn_cursor here(const parser *p) { return sn_at_end(p->k, p->parent); }
static sn_dtype dtype_of(const parser *p, sn_val v) { return sn_val_get(p->m, v)->dtype; }

static int shown(const sn_lex *lx) { return lx->tok_len > 40 ? 40 : (int)lx->tok_len; }

static sn_status parse_dtype(sn_dtype *out, sn_lex *lx, sn_arena *a) {
    if (lx->tok == SN_TOK_NAME && sn_dtype_from_name(out, sn_strndup(a, lx->tok_start, lx->tok_len)))
        return sn_lex_next(lx);
    return sn_lex_fail(lx, "expected an element type, found '%.*s'", shown(lx), lx->tok_start);
}

/* A name that is declared here: no dots, since it ends up in C and PTX. */
static sn_status parse_new_name(char **out, sn_lex *lx, sn_arena *a) {
    if (lx->tok == SN_TOK_NAME && memchr(lx->tok_start, '.', lx->tok_len))
        return sn_lex_fail(lx, "a name may not contain '.': '%.*s'", shown(lx), lx->tok_start);
    return sn_lex_name(out, lx, a);
}

static sn_status parse_u32(uint32_t *out, sn_lex *lx, const char *what) {
    if (lx->tok != SN_TOK_INT || lx->integer > INT32_MAX)
        return sn_lex_fail(lx, "%s is a number from 0 to %d", what, INT32_MAX);
    *out = (uint32_t)lx->integer;
    return sn_lex_next(lx);
}

/* One literal of the dtype: exactly one of the two is set. */
static sn_status parse_literal(double *f, int64_t *i, sn_lex *lx, sn_dtype dtype) {
    if (sn_is_float(dtype)) return sn_lex_number(f, lx);
    if (dtype == SN_BOOL && (sn_lex_is_name(lx, "true") || sn_lex_is_name(lx, "false"))) {
        *i = sn_lex_is_name(lx, "true");
        return sn_lex_next(lx);
    }
    if (dtype == SN_U64 && lx->tok == SN_TOK_INT) {
        *i = (int64_t)lx->integer;
        return sn_lex_next(lx);
    }
    sn_lex at = *lx;
    SN_TRY(sn_lex_int(i, lx));
    if (sn_wrap_to(dtype, *i) != *i || (dtype == SN_U64 && *i < 0))
        return sn_lex_fail(&at, "%lld does not fit in %s", (long long)*i, sn_dtypes[dtype].name);
    return SN_OK;
}

/* ---- index expressions ---- */

static sn_ix find_symbol(void *user, bool is_value, const char *name) {
    return is_value ? (sn_ix){0} : sn_ix_sym(user, sn_sym_named(user, name));
}

static bool is_symbol(const sn_module *m, const char *name) {
    for (sn_sym s = {1}; s.i < m->syms.count; s.i++)
        if (strcmp(sn_sym_get(m, s)->name, name) == 0) return true;
    return false;
}

static sn_ix find_in_kernel(void *user, bool is_value, const char *name) {
    parser *p = user;
    if (is_value) {
        sn_val v = {sn_names_get(&p->vals, name)};
        return v.i ? sn_ix_val(p->m, v) : (sn_ix){0};
    }
    for (uint32_t i = p->axes.n; i-- > 0;)
        if (strcmp(p->axes.at[i].name, name) == 0) return sn_ix_axis(p->m, p->axes.at[i].axis);
    if (p->new_symbols || is_symbol(p->m, name)) return sn_ix_sym(p->m, sn_sym_named(p->m, name));
    return (sn_ix){0};
}

/* Symbols are declared by the sizes of buffers and the extents of loops; elsewhere an unknown name is a mistake. */
static sn_status parse_ix(sn_ix *out, parser *p, bool new_symbols) {
    p->new_symbols = new_symbols;
    return sn_ix_parse(out, p->lx, p->m, find_in_kernel, p);
}

/* ---- buffers ---- */

static sn_status parse_size(sn_ix *out, sn_module *m, sn_lex *lx) {
    sn_lex at = *lx;
    int64_t c;
    SN_TRY(sn_ix_parse(out, lx, m, find_symbol, m));
    if (sn_ix_is_const(m, *out, &c) && c < 0) return sn_lex_fail(&at, "a size is not negative");
    return SN_OK;
}

static sn_status parse_shape(sn_ix *shape, uint32_t *rank, sn_module *m, sn_lex *lx) {
    *rank = 0;
    SN_TRY(sn_lex_expect(lx, "["));
    while (!sn_lex_is(lx, "]")) {
        if (*rank > 0) SN_TRY(sn_lex_expect(lx, ","));
        if (*rank == SN_MAX_RANK) return sn_lex_fail(lx, "a buffer has at most %d dimensions", SN_MAX_RANK);
        SN_TRY(parse_size(&shape[(*rank)++], m, lx));
    }
    return sn_lex_next(lx);
}

typedef SN_VEC(unsigned char) byte_vec;

/* `data [...]`: literal elements. */
static sn_status parse_data(byte_vec *out, uint64_t *count, sn_module *m, sn_lex *lx, sn_dtype dtype) {
    *count = 0;
    SN_TRY(sn_lex_expect_name(lx, "data"));
    SN_TRY(sn_lex_expect(lx, "["));
    while (!sn_lex_is(lx, "]")) {
        double f = 0;
        int64_t i = 0;
        unsigned char storage[8];
        if (*count > 0) SN_TRY(sn_lex_expect(lx, ","));
        SN_TRY(parse_literal(&f, &i, lx, dtype));
        if (sn_is_float(dtype)) sn_store_float(dtype, storage, f);
        else sn_store_int(dtype, storage, i);
        for (uint32_t k = 0; k < sn_dtype_bytes(dtype); k++) SN_PUSH(&m->arena, out, storage[k]);
        ++*count;
    }
    return sn_lex_next(lx);
}

/* `weight "name"`: one that the graph has named, or a new one of the buffer's type. */
static sn_status parse_weight(sn_wt *out, sn_module *m, sn_lex *lx, const sn_type *type) {
    sn_lex at = *lx;
    char *name;
    SN_TRY(sn_lex_expect_name(lx, "weight"));
    SN_TRY(sn_lex_string(&name, lx, &m->arena));
    if (!*name) return sn_lex_fail(&at, "a weight has a name");
    if (sn_wt_declare(out, m, name, type) == SN_OK) return SN_OK;
    char message[SN_MESSAGE_MAX];
    memcpy(message, m->env->message, sizeof message);
    sn_env_clear(m->env);
    return sn_lex_fail(&at, "%s", message);
}

static sn_status parse_scope(sn_buf_scope *out, sn_lex *lx) {
    for (int s = SN_BUF_INPUT; s < SN_BUF_FORMAL; s++)
        if (sn_lex_is_name(lx, sn_buf_scope_names[s])) {
            *out = (sn_buf_scope)s;
            return sn_lex_next(lx);
        }
    return sn_lex_fail(lx, "expected input, output, temp or const, found '%.*s'", shown(lx), lx->tok_start);
}

/* `size E`, optional. */
static sn_status parse_extent(sn_module *m, sn_lex *lx, sn_buf_rec *b) {
    bool has;
    SN_TRY(sn_lex_accept_name(&has, lx, "size"));
    return has ? parse_size(&b->size, m, lx) : SN_OK;
}

/* `align N`, optional. */
static sn_status parse_align(sn_lex *lx, sn_buf_rec *b) {
    bool has;
    SN_TRY(sn_lex_accept_name(&has, lx, "align"));
    if (!has) return SN_OK;
    uint32_t align = 0;
    sn_lex at = *lx;
    SN_TRY(parse_u32(&align, lx, "align"));
    if (align == 0 || (align & (align - 1))) return sn_lex_fail(&at, "align is a power of two");
    b->align = align;
    return SN_OK;
}

sn_status sn_buf_parse(sn_module *m, sn_lex *lx) {
    char *name;
    sn_type type = {0};
    sn_buf_scope scope = SN_BUF_TEMP;
    sn_wt weight = {0};
    uint32_t io = 0;
    byte_vec data = {0};
    uint64_t count = 0;
    SN_TRY(sn_lex_expect_name(lx, "buffer"));
    sn_lex at = *lx;
    SN_TRY(parse_new_name(&name, lx, &m->arena));
    if (sn_buf_named(m, name).i) return sn_lex_fail(&at, "buffer '%s' is declared twice", name);
    SN_TRY(sn_lex_expect(lx, ":"));
    SN_TRY(parse_dtype(&type.dtype, lx, &m->arena));
    SN_TRY(parse_shape(type.shape, &type.rank, m, lx));
    SN_TRY(parse_scope(&scope, lx));
    if (scope == SN_BUF_INPUT || scope == SN_BUF_OUTPUT)
        SN_TRY(parse_u32(&io, lx, "the position of an input or output"));
    bool literal = scope == SN_BUF_CONST && !sn_lex_is_name(lx, "weight");
    if (literal) SN_TRY(parse_data(&data, &count, m, lx, type.dtype));
    else if (scope == SN_BUF_CONST) SN_TRY(parse_weight(&weight, m, lx, &type));
    sn_buf_rec *b = sn_buf_get(m, sn_buf_new(m, name, type.dtype, scope, type.shape, type.rank));
    SN_TRY(m->env->status); /* the product of the shape may overflow */
    b->io = io;
    b->weight = weight;
    SN_TRY(parse_extent(m, lx, b));
    SN_TRY(parse_align(lx, b));
    if (!literal) return SN_OK;
    int64_t size;
    if (!sn_ix_is_const(m, b->size, &size) || (uint64_t)size != count)
        return sn_lex_fail(&at, "const '%s' has %llu elements of data, which is not its size", name,
                           (unsigned long long)count);
    b->data = data.at ? data.at : sn_zalloc(&m->arena, 1);
    return SN_OK;
}

/* ---- operands ---- */

static sn_status parse_value(sn_val *out, parser *p) {
    sn_lex *lx = p->lx;
    if (lx->tok != SN_TOK_VALUE) return sn_lex_fail(lx, "expected a %%value, found '%.*s'", shown(lx), lx->tok_start);
    out->i = sn_names_get(&p->vals, sn_strndup(&p->scratch, lx->tok_start, lx->tok_len));
    if (!out->i) return sn_lex_fail(lx, "unknown value %%%.*s", shown(lx), lx->tok_start);
    return sn_lex_next(lx);
}

/* A value whose dtype is known beforehand; `what` says what it is. */
static sn_status parse_typed(sn_val *out, parser *p, sn_dtype want, const char *what) {
    sn_lex at = *p->lx;
    SN_TRY(parse_value(out, p));
    sn_dtype found = dtype_of(p, *out);
    if (found == want) return SN_OK;
    return sn_lex_fail(&at, "%s is %s, expected %s", what, sn_dtypes[found].name, sn_dtypes[want].name);
}

static sn_status parse_buffer(sn_buf *out, parser *p) {
    sn_lex at = *p->lx;
    char *name;
    SN_TRY(sn_lex_name(&name, p->lx, &p->scratch));
    out->i = sn_names_get(&p->bufs, name);
    if (out->i) return SN_OK;
    return sn_lex_fail(&at, "'%s' is not a parameter or reg of kernel @%s", name, sn_kern_get(p->m, p->k)->name);
}

/* The `if` of a mask stands on the line of its access; one on the next line begins a statement. */
static sn_status accept_mask(bool *out, parser *p, int line) {
    *out = false;
    return p->lx->tok_line == line ? sn_lex_accept_name(out, p->lx, "if") : SN_OK;
}

/* `x[ix]` */
static sn_status parse_element(sn_buf *b, sn_ix *e, parser *p) {
    SN_TRY(parse_buffer(b, p));
    SN_TRY(sn_lex_expect(p->lx, "["));
    SN_TRY(parse_ix(e, p, false));
    return sn_lex_expect(p->lx, "]");
}

/* ---- values: one function per shape of operation; the first result is returned ---- */

static sn_status parse_scalar(sn_val *out, parser *p, sn_lop op, sn_dtype dtype) {
    (void)dtype;
    sn_val in[3];
    char what[32];
    uint32_t n = sn_lops[op].n_in, lead = op == SN_LOP_SELECT; /* operand that the others are like */
    for (uint32_t i = 0; i < n; i++) {
        if (i) SN_TRY(sn_lex_expect(p->lx, ","));
        snprintf(what, sizeof what, "operand %u of %s", i + 1, sn_lops[op].name);
        if (i < lead) SN_TRY(parse_typed(&in[i], p, SN_BOOL, what));
        else if (i == lead) SN_TRY(parse_value(&in[i], p));
        else SN_TRY(parse_typed(&in[i], p, dtype_of(p, in[lead]), what));
    }
    if (sn_lex_is(p->lx, ",")) return sn_lex_fail(p->lx, "%s has %u operands", sn_lops[op].name, n);
    *out = sn_put_op(p->m, here(p), op, in, n);
    return SN_OK;
}

static sn_status parse_const(sn_val *out, parser *p, sn_lop op, sn_dtype dtype) {
    (void)op;
    double f = 0;
    int64_t i = 0;
    SN_TRY(parse_literal(&f, &i, p->lx, dtype));
    *out = sn_is_float(dtype) ? sn_put_const(p->m, here(p), dtype, f) : sn_put_const_int(p->m, here(p), dtype, i);
    return SN_OK;
}

static sn_status parse_cast(sn_val *out, parser *p, sn_lop op, sn_dtype dtype) {
    sn_lex at = *p->lx;
    sn_val x;
    SN_TRY(parse_value(&x, p));
    sn_dtype from = dtype_of(p, x);
    if (from == dtype) return sn_lex_fail(&at, "%s: the value is %s already", sn_lops[op].name, sn_dtypes[dtype].name);
    if (op == SN_LOP_BITCAST && sn_dtype_bytes(from) != sn_dtype_bytes(dtype))
        return sn_lex_fail(&at, "bitcast from %s to %s: the sizes differ", sn_dtypes[from].name, sn_dtypes[dtype].name);
    *out = op == SN_LOP_CAST ? sn_put_cast(p->m, here(p), dtype, x) : sn_put_bitcast(p->m, here(p), dtype, x);
    return SN_OK;
}

static sn_status parse_index(sn_val *out, parser *p, sn_lop op, sn_dtype dtype) {
    (void)op;
    sn_ix e;
    SN_TRY(parse_ix(&e, p, false));
    *out = sn_put_index(p->m, here(p), dtype, e);
    return SN_OK;
}

static sn_status parse_in(sn_val *out, parser *p, sn_lop op, sn_dtype dtype) {
    (void)op, (void)dtype;
    sn_ix e, bound;
    SN_TRY(parse_ix(&e, p, false));
    SN_TRY(sn_lex_expect(p->lx, ","));
    SN_TRY(parse_ix(&bound, p, false));
    *out = sn_put_in(p->m, here(p), e, bound);
    return SN_OK;
}

static sn_status parse_load(sn_val *out, parser *p, sn_lop op, sn_dtype dtype) {
    (void)op, (void)dtype;
    sn_buf b;
    sn_ix e;
    sn_val mask, otherwise;
    bool masked;
    int line = p->lx->tok_line;
    SN_TRY(parse_element(&b, &e, p));
    SN_TRY(accept_mask(&masked, p, line));
    if (!masked) {
        *out = sn_put_load(p->m, here(p), b, e);
        return SN_OK;
    }
    SN_TRY(parse_typed(&mask, p, SN_BOOL, "the mask"));
    SN_TRY(sn_lex_expect_name(p->lx, "else"));
    SN_TRY(parse_typed(&otherwise, p, sn_buf_get(p->m, b)->dtype, "the other value"));
    *out = sn_put_load_masked(p->m, here(p), b, e, mask, otherwise);
    return SN_OK;
}

/* ---- regions ---- */

static sn_status parse_stmt(parser *p);

/* `{ statements }` of s. */
static sn_status parse_region(parser *p, sn_stmt s) {
    if (p->depth == MAX_NESTING) return sn_lex_fail(p->lx, "statements are nested more than %d deep", MAX_NESTING);
    SN_TRY(sn_lex_expect(p->lx, "{"));
    sn_stmt outer = p->parent;
    p->parent = s;
    p->depth++;
    while (!sn_lex_is(p->lx, "}")) SN_TRY(parse_stmt(p));
    p->depth--;
    p->parent = outer;
    return sn_lex_next(p->lx);
}

/* `i in 8192 : grid`: the axis is visible until axes.n is taken back. */
static sn_status parse_axis(sn_axis *out, sn_axis_kind *kind, parser *p) {
    char *name;
    sn_ix extent;
    bool has_kind;
    SN_TRY(parse_new_name(&name, p->lx, &p->scratch));
    SN_TRY(sn_lex_expect_name(p->lx, "in"));
    SN_TRY(parse_ix(&extent, p, true));
    *out = sn_axis_new(p->m, name, extent);
    SN_PUSH(&p->scratch, &p->axes, ((open_axis){name, *out}));
    *kind = SN_AXIS_SEQ;
    SN_TRY(sn_lex_accept(&has_kind, p->lx, ":"));
    if (!has_kind) return SN_OK;
    for (int i = 0; i < SN_N_AXIS_KINDS; i++)
        if (sn_lex_is_name(p->lx, sn_axis_kind_names[i])) {
            *kind = (sn_axis_kind)i;
            return sn_lex_next(p->lx);
        }
    return sn_lex_fail(p->lx, "unknown axis kind '%.*s'", shown(p->lx), p->lx->tok_start);
}

static sn_status parse_comb(sn_comb *out, parser *p) {
    sn_lex at = *p->lx;
    char *name;
    SN_TRY(sn_lex_name(&name, p->lx, &p->scratch));
    if (sn_comb_from_name(out, name)) return SN_OK;
    return sn_lex_fail(&at, "unknown combiner '%s'", name);
}

static sn_status parse_combs(sn_comb *combs, uint32_t max, uint32_t *n, parser *p) {
    bool many;
    *n = 1;
    SN_TRY(sn_lex_accept(&many, p->lx, "("));
    SN_TRY(parse_comb(&combs[0], p));
    while (many && !sn_lex_is(p->lx, ")")) {
        SN_TRY(sn_lex_expect(p->lx, ","));
        if (*n == max) return sn_lex_fail(p->lx, "a reduce has at most %u combiners", max);
        SN_TRY(parse_comb(&combs[(*n)++], p));
    }
    return many ? sn_lex_next(p->lx) : SN_OK;
}

static sn_status parse_accum(sn_val *out, parser *p, sn_lop op, sn_dtype dtype) {
    (void)op, (void)dtype;
    sn_lex at = *p->lx;
    sn_comb comb;
    sn_val x;
    sn_ix position;
    bool exclusive;
    SN_TRY(parse_comb(&comb, p));
    if (sn_combs[comb].states != 1) return sn_lex_fail(&at, "accum has one state, %s has 2", sn_combs[comb].name);
    SN_TRY(parse_value(&x, p));
    SN_TRY(sn_lex_expect_name(p->lx, "over"));
    SN_TRY(parse_ix(&position, p, false));
    SN_TRY(sn_lex_accept_name(&exclusive, p->lx, "exclusive"));
    *out = sn_put_accum(p->m, here(p), comb, x, position, exclusive);
    return SN_OK;
}

/* The yield gives the dtypes of the states, so the results are typed when the region has been read. */
static sn_status type_results(parser *p, sn_stmt s, sn_lex *at) {
    sn_stmt_rec *r = sn_stmt_get(p->m, s);
    const sn_stmt_rec *y = r->last.i ? sn_stmt_get(p->m, r->last) : NULL;
    if (!y || y->op != SN_LOP_YIELD || y->n_in != r->n_results)
        return sn_lex_fail(at, "the region of this reduce does not end in a yield of %u value%s", r->n_results,
                           r->n_results == 1 ? "" : "s");
    for (uint32_t k = 0; k < r->n_results; k++) sn_val_get(p->m, sn_result(r, k))->dtype = dtype_of(p, y->in[k]);
    r->dtype = dtype_of(p, y->in[0]);
    return SN_OK;
}

static sn_status parse_reduce(sn_val *out, parser *p, sn_lop op, sn_dtype dtype) {
    (void)op, (void)dtype;
    static const sn_dtype NOT_YET[MAX_RESULTS] = {0};
    sn_lex at = *p->lx;
    sn_comb combs[4];
    uint32_t n;
    sn_axis ax;
    sn_axis_kind kind;
    SN_TRY(parse_combs(combs, SN_COUNT(combs), &n, p));
    SN_TRY(parse_axis(&ax, &kind, p));
    sn_stmt s = sn_put_reduce(p->m, here(p), ax, kind, combs, n, NOT_YET);
    SN_TRY(parse_region(p, s));
    p->axes.n--;
    *out = sn_stmt_get(p->m, s)->result;
    return type_results(p, s, &at);
}

/* ---- statements ---- */

typedef sn_status (*parse_fn)(sn_val *out, parser *p, sn_lop op, sn_dtype dtype);

static parse_fn value_parser(sn_lop op) {
    if (op < SN_N_LOPS) return parse_scalar;
    switch ((int)op) {
    case SN_LOP_CONST: return parse_const;
    case SN_LOP_CAST:
    case SN_LOP_BITCAST: return parse_cast;
    case SN_LOP_INDEX: return parse_index;
    case SN_LOP_IN: return parse_in;
    case SN_LOP_LOAD: return parse_load;
    case SN_LOP_ACCUM: return parse_accum;
    case SN_LOP_REDUCE: return parse_reduce;
    }
    return NULL;
}

static bool has_suffix(sn_lop op) {
    return op == SN_LOP_CONST || op == SN_LOP_CAST || op == SN_LOP_BITCAST || op == SN_LOP_INDEX;
}

/* `add` or `const.f32` */
static sn_status parse_op(sn_lop *op, sn_dtype *dtype, parser *p) {
    sn_lex at = *p->lx;
    char *word;
    SN_TRY(sn_lex_name(&word, p->lx, &p->scratch));
    char *suffix = strchr(word, '.');
    if (suffix) *suffix++ = 0;
    if (!sn_lop_from_name(op, word) || !value_parser(*op)) return sn_lex_fail(&at, "unknown operation '%s'", word);
    *dtype = SN_F32;
    if (!suffix && has_suffix(*op)) return sn_lex_fail(&at, "%s needs an element type: %s.f32", word, word);
    if (!suffix) return SN_OK;
    if (!has_suffix(*op)) return sn_lex_fail(&at, "%s takes no element type", word);
    if (!sn_dtype_from_name(dtype, suffix)) return sn_lex_fail(&at, "unknown element type '%s'", suffix);
    return SN_OK;
}

/* Is the value visible in the region that is being read? */
static bool visible(const parser *p, sn_val v) {
    sn_stmt home = sn_stmt_get(p->m, sn_val_get(p->m, v)->def)->parent;
    return home.i == 0 || home.i == p->parent.i || (p->parent.i && sn_stmt_inside(p->m, p->parent, home));
}

static sn_status parse_result_name(char **out, parser *p) {
    sn_lex at = *p->lx;
    SN_TRY(sn_lex_value(out, p->lx, &p->scratch));
    sn_val old = {sn_names_get(&p->vals, *out)};
    if (old.i && visible(p, old)) return sn_lex_fail(&at, "%%%s is defined twice", *out);
    return SN_OK;
}

/* `%0, %1 = op ...` */
static sn_status parse_values(parser *p) {
    char *names[MAX_RESULTS];
    uint32_t n = 0;
    bool more = true;
    while (more) {
        if (n == MAX_RESULTS) return sn_lex_fail(p->lx, "a statement has at most %d results", MAX_RESULTS);
        SN_TRY(parse_result_name(&names[n++], p));
        SN_TRY(sn_lex_accept(&more, p->lx, ","));
    }
    SN_TRY(sn_lex_expect(p->lx, "="));
    sn_lex at = *p->lx;
    sn_lop op;
    sn_dtype dtype;
    sn_val v;
    SN_TRY(parse_op(&op, &dtype, p));
    SN_TRY(value_parser(op)(&v, p, op, dtype));
    uint32_t n_results = sn_stmt_get(p->m, sn_val_get(p->m, v)->def)->n_results;
    if (n_results != n) return sn_lex_fail(&at, "%s gives %u results, %u are named", sn_lops[op].name, n_results, n);
    for (uint32_t i = 0; i < n; i++) sn_names_put(&p->vals, names[i], v.i + i);
    return SN_OK;
}

static sn_status parse_store(parser *p) {
    sn_buf b;
    sn_ix e;
    sn_val x, mask;
    bool masked;
    SN_TRY(parse_element(&b, &e, p));
    SN_TRY(sn_lex_expect(p->lx, ","));
    int line = p->lx->tok_line;
    SN_TRY(parse_typed(&x, p, sn_buf_get(p->m, b)->dtype, "the stored value"));
    SN_TRY(accept_mask(&masked, p, line));
    if (masked) SN_TRY(parse_typed(&mask, p, SN_BOOL, "the mask"));
    if (masked) sn_put_store_masked(p->m, here(p), b, e, x, mask);
    else sn_put_store(p->m, here(p), b, e, x);
    return SN_OK;
}

static sn_status parse_loop(parser *p) {
    sn_axis ax;
    sn_axis_kind kind;
    SN_TRY(parse_axis(&ax, &kind, p));
    SN_TRY(parse_region(p, sn_put_loop(p->m, here(p), ax, kind)));
    p->axes.n--;
    return SN_OK;
}

static sn_status parse_if(parser *p) {
    sn_ix e, bound;
    SN_TRY(parse_ix(&e, p, false));
    SN_TRY(sn_lex_expect_name(p->lx, "in"));
    SN_TRY(parse_ix(&bound, p, false));
    return parse_region(p, sn_put_if(p->m, here(p), e, bound));
}

static sn_status parse_yield(parser *p) {
    sn_val in[MAX_RESULTS];
    uint32_t n = 0;
    bool more = true;
    while (more) {
        if (n == MAX_RESULTS) return sn_lex_fail(p->lx, "a yield has at most %d operands", MAX_RESULTS);
        SN_TRY(parse_value(&in[n++], p));
        SN_TRY(sn_lex_accept(&more, p->lx, ","));
    }
    sn_put_yield(p->m, here(p), in, n);
    return SN_OK;
}

static sn_status parse_barrier(parser *p) {
    sn_put_barrier(p->m, here(p));
    return SN_OK;
}

static sn_status parse_stmt(parser *p) {
    static const struct {
        const char *word;
        sn_status (*parse)(parser *p);
    } WORDS[] = {
        {"store", parse_store}, {"loop", parse_loop},       {"if", parse_if},
        {"yield", parse_yield}, {"barrier", parse_barrier},
    };
    if (p->lx->tok == SN_TOK_VALUE) return parse_values(p);
    for (size_t i = 0; i < SN_COUNT(WORDS); i++)
        if (sn_lex_is_name(p->lx, WORDS[i].word)) {
            SN_TRY(sn_lex_next(p->lx));
            return WORDS[i].parse(p);
        }
    if (p->lx->tok == SN_TOK_END) return sn_lex_fail(p->lx, "expected a statement or '}', found the end of the text");
    return sn_lex_fail(p->lx, "expected a statement or '}', found '%.*s'", shown(p->lx), p->lx->tok_start);
}

/* ---- kernels ---- */

static sn_status parse_role(sn_role *out, sn_lex *lx) {
    for (int r = SN_ROLE_IN; r < SN_N_ROLES; r++)
        if (sn_lex_is_name(lx, sn_role_names[r])) {
            *out = (sn_role)r;
            return sn_lex_next(lx);
        }
    return sn_lex_fail(lx, "expected in, out or inout, found '%.*s'", shown(lx), lx->tok_start);
}

/* `x: f32[8192, 1024] in noalias invariant align 16`, the name already read. */
static sn_status parse_formal(parser *p, const char *name) {
    sn_lex *lx = p->lx;
    sn_buf_rec like = {0};
    SN_TRY(sn_lex_expect(lx, ":"));
    SN_TRY(parse_dtype(&like.dtype, lx, &p->scratch));
    SN_TRY(parse_shape(like.shape, &like.rank, p->m, lx));
    like.size = sn_ix_product(p->m, like.shape, like.rank);
    like.align = sn_dtype_bytes(like.dtype);
    SN_TRY(p->m->env->status); /* the product of the shape may overflow */
    sn_buf_rec *b = sn_buf_get(p->m, sn_formal_new(p->m, p->k, name, &like));
    SN_TRY(parse_role(&b->role, lx));
    SN_TRY(parse_extent(p->m, lx, b));
    SN_TRY(sn_lex_accept_name(&b->noalias, lx, "noalias"));
    SN_TRY(sn_lex_accept_name(&b->invariant, lx, "invariant"));
    return parse_align(lx, b);
}

/* Buffers of the module, or formals. */
static sn_status parse_param(parser *p) {
    sn_lex at = *p->lx;
    char *name;
    sn_kern_rec *k = sn_kern_get(p->m, p->k);
    SN_TRY(sn_lex_name(&name, p->lx, &p->scratch));
    if (sn_names_get(&p->bufs, name)) return sn_lex_fail(&at, "parameter '%s' is named twice", name);
    bool formal = sn_lex_is(p->lx, ":");
    if (k->params.n && formal != sn_kern_is_function(p->m, p->k))
        return sn_lex_fail(&at, "the parameters of a kernel are buffers, or all have types");
    if (formal) {
        if (strchr(name, '.')) return sn_lex_fail(&at, "a name may not contain '.': '%s'", name);
        SN_TRY(parse_formal(p, name));
        sn_names_put(&p->bufs, name, k->params.at[k->params.n - 1].i);
        return SN_OK;
    }
    sn_buf b = sn_buf_named(p->m, name);
    if (!b.i || !sn_buf_is_global(sn_buf_get(p->m, b))) return sn_lex_fail(&at, "unknown buffer '%s'", name);
    sn_names_put(&p->bufs, name, b.i);
    SN_PUSH(&p->m->arena, &k->params, b);
    return SN_OK;
}

static sn_status parse_params(parser *p) {
    SN_TRY(sn_lex_expect(p->lx, "("));
    for (bool first = true; !sn_lex_is(p->lx, ")"); first = false) {
        if (!first) SN_TRY(sn_lex_expect(p->lx, ","));
        SN_TRY(parse_param(p));
    }
    return sn_lex_next(p->lx);
}

static sn_status parse_schedule(parser *p, sn_sched *s) {
    const struct {
        const char *name;
        uint32_t *value;
    } FIELDS[] = {
        {"block_x", &s->block_x}, {"block_y", &s->block_y}, {"vector", &s->vector},         {"unroll", &s->unroll},
        {"cluster", &s->cluster}, {"split", &s->split},     {"min_blocks", &s->min_blocks},
    };
    sn_lex *lx = p->lx;
    int cls = 0;
    while (cls < SN_N_SCHED_CLASSES && !sn_lex_is_name(lx, sn_sched_class_names[cls])) cls++;
    if (cls == SN_N_SCHED_CLASSES) return sn_lex_fail(lx, "unknown schedule class '%.*s'", shown(lx), lx->tok_start);
    s->cls = (sn_sched_class)cls;
    SN_TRY(sn_lex_next(lx));
    for (size_t i = 0; i < SN_COUNT(FIELDS);) {
        if (!sn_lex_is_name(lx, FIELDS[i].name)) {
            i++;
            continue;
        }
        SN_TRY(sn_lex_next(lx));
        SN_TRY(sn_lex_expect(lx, "="));
        SN_TRY(parse_u32(FIELDS[i].value, lx, FIELDS[i].name));
        i = 0; /* the fields may come in any order */
    }
    SN_TRY(sn_lex_accept_name(&s->persistent, lx, "persistent"));
    return sn_lex_accept_name(&s->shared, lx, "shared");
}

static sn_status parse_header(parser *p) {
    sn_kern_rec *k = sn_kern_get(p->m, p->k);
    bool has;
    SN_TRY(sn_lex_accept_name(&has, p->lx, "schedule"));
    if (has) SN_TRY(parse_schedule(p, &k->sched));
    SN_TRY(sn_lex_accept_name(&k->scheduled, p->lx, "scheduled"));
    SN_TRY(sn_lex_accept_name(&has, p->lx, "note"));
    if (!has) return SN_OK;
    char *note;
    SN_TRY(sn_lex_string(&note, p->lx, &p->m->arena));
    k->note = note;
    return SN_OK;
}

/* `reg s: f32 private 8 size 1024`, `shared ...`, `posted s: f32 size 64`. Two kernels may use the same name: the later
 * one is renamed in the module. */
static sn_status parse_local(parser *p, sn_buf_scope scope) {
    sn_lex *lx = p->lx, at;
    char *name;
    sn_dtype dtype;
    uint32_t private_size = 0;
    sn_ix size;
    SN_TRY(sn_lex_next(lx));
    at = *lx;
    SN_TRY(parse_new_name(&name, lx, &p->scratch));
    if (sn_names_get(&p->bufs, name)) return sn_lex_fail(&at, "buffer '%s' is declared twice", name);
    SN_TRY(sn_lex_expect(lx, ":"));
    SN_TRY(parse_dtype(&dtype, lx, &p->scratch));
    if (scope != SN_BUF_POSTED) {
        SN_TRY(sn_lex_expect_name(lx, "private"));
        SN_TRY(parse_u32(&private_size, lx, "private"));
    }
    SN_TRY(sn_lex_expect_name(lx, "size"));
    SN_TRY(parse_size(&size, p->m, lx));
    sn_buf b = sn_buf_new(p->m, name, dtype, scope, NULL, 0);
    sn_buf_get(p->m, b)->private_size = private_size;
    sn_buf_get(p->m, b)->size = size;
    sn_names_put(&p->bufs, name, b.i);
    SN_PUSH(&p->m->arena, &sn_kern_get(p->m, p->k)->locals, b);
    return SN_OK;
}

static sn_status parse_kernel(parser *p) {
    sn_lex at;
    char *name;
    SN_TRY(sn_lex_expect_name(p->lx, "kernel"));
    at = *p->lx;
    SN_TRY(sn_lex_at(&name, p->lx, &p->scratch));
    if (sn_kern_named(p->m, name).i) return sn_lex_fail(&at, "kernel @%s is declared twice", name);
    p->k = sn_kern_new(p->m, name);
    if (strcmp(sn_kern_get(p->m, p->k)->name, name) != 0)
        return sn_lex_fail(&at, "the name of a kernel is letters, digits and _: '%s'", name);
    SN_TRY(parse_params(p));
    SN_TRY(parse_header(p));
    SN_TRY(sn_lex_expect(p->lx, "{"));
    for (;;) {
        int scope = SN_BUF_REG;
        while (scope <= SN_BUF_POSTED && !sn_lex_is_name(p->lx, sn_buf_scope_names[scope])) scope++;
        if (scope > SN_BUF_POSTED) break;
        SN_TRY(parse_local(p, (sn_buf_scope)scope));
    }
    while (!sn_lex_is(p->lx, "}")) SN_TRY(parse_stmt(p));
    return sn_lex_next(p->lx);
}

sn_status sn_kern_parse(sn_module *m, sn_lex *lx) {
    parser p = {.m = m, .lx = lx};
    sn_arena_init(&p.scratch, m->env);
    sn_names_init(&p.bufs, &p.scratch);
    sn_names_init(&p.vals, &p.scratch);
    sn_status st = parse_kernel(&p);
    sn_arena_free(&p.scratch);
    return st;
}
