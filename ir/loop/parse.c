/* parse.c: buffers and kernels from text, the reverse of ir/loop/text.c.
 *
 * What a statement looks like is the format in its row of ir/ops/lops.def. Names are resolved here, with their line
 * and column, and so is what the builder needs to be told: operand counts and dtypes. Whether a known value or axis may
 * be used where it stands is the verifier's question. A value name may be used again in a place where the older value
 * is not visible. Nesting is bounded, so text cannot exhaust the stack.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ir/base/text.h"
#include "ir/loop/mma.h"

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
    return sn_lex_fail(lx, "expected input, output, temp, const or step, found '%.*s'", shown(lx), lx->tok_start);
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

static sn_status parse_kind(sn_stmt_rec *r, parser *p) {
    for (int i = 0; i < SN_N_AXIS_KINDS; i++)
        if (sn_lex_is_name(p->lx, sn_axis_kind_names[i])) {
            r->kind = (sn_axis_kind)i;
            return sn_lex_next(p->lx);
        }
    return sn_lex_fail(p->lx, "unknown axis kind '%.*s'", shown(p->lx), p->lx->tok_start);
}

/* What stands behind `mma`: `(wgmma.bf16)` or `(mma.bf16, 2)`. */
static sn_status parse_mma(sn_stmt_rec *r, parser *p) {
    bool more;
    SN_TRY(sn_lex_expect(p->lx, "("));
    for (uint32_t i = SN_MMA_NONE + 1; i < SN_N_MMAS; i++)
        if (sn_lex_is_name(p->lx, sn_mmas[i].name)) r->mma = i;
    if (!r->mma) return sn_lex_fail(p->lx, "unknown matrix instruction '%.*s'", shown(p->lx), p->lx->tok_start);
    SN_TRY(sn_lex_next(p->lx));
    r->mma_columns = 1;
    SN_TRY(sn_lex_accept(&more, p->lx, ","));
    if (more) SN_TRY(parse_u32(&r->mma_columns, p->lx, "mma"));
    return sn_lex_expect(p->lx, ")");
}

/* `bulk`, `await`, `once`, `pipe(3)` and `mma(..)`, in this order. */
static sn_status parse_promises(sn_stmt_rec *r, parser *p) {
    bool is_pipe, is_mma;
    SN_TRY(sn_lex_accept_name(&r->bulk, p->lx, "bulk"));
    SN_TRY(sn_lex_accept_name(&r->await, p->lx, "await"));
    SN_TRY(sn_lex_accept_name(&r->once, p->lx, "once"));
    SN_TRY(sn_lex_accept_name(&is_pipe, p->lx, "pipe"));
    SN_TRY(sn_lex_accept_name(&is_mma, p->lx, "mma"));
    if (is_mma) return parse_mma(r, p);
    if (!is_pipe) return SN_OK;
    SN_TRY(sn_lex_expect(p->lx, "("));
    if (p->lx->tok != SN_TOK_INT || p->lx->integer < 1 || p->lx->integer > SN_MAX_PIPE)
        return sn_lex_fail(p->lx, "a pipe has 1 to %d stages", SN_MAX_PIPE);
    r->pipe = (uint32_t)p->lx->integer;
    SN_TRY(sn_lex_next(p->lx));
    return sn_lex_expect(p->lx, ")");
}

/* `i in 8192 : grid`: the axis is visible until axes.n is taken back. */
static sn_status parse_axis(sn_stmt_rec *r, parser *p) {
    char *name;
    sn_ix extent;
    bool has_kind;
    SN_TRY(parse_new_name(&name, p->lx, &p->scratch));
    SN_TRY(sn_lex_expect_name(p->lx, "in"));
    SN_TRY(parse_ix(&extent, p, true));
    r->axis = sn_axis_new(p->m, name, extent);
    SN_PUSH(&p->scratch, &p->axes, ((open_axis){name, r->axis}));
    SN_TRY(sn_lex_accept(&has_kind, p->lx, ":"));
    if (!has_kind) return SN_OK;
    SN_TRY(parse_kind(r, p));
    return parse_promises(r, p);
}

static sn_status parse_comb(sn_comb *out, parser *p) {
    sn_lex at = *p->lx;
    char *name;
    SN_TRY(sn_lex_name(&name, p->lx, &p->scratch));
    if (sn_comb_from_name(out, name)) return SN_OK;
    return sn_lex_fail(&at, "unknown combiner '%s'", name);
}

/* `sum`, or `(sum, max)` of what has a region. */
static sn_status parse_combs(sn_stmt_rec *r, parser *p) {
    sn_lex at = *p->lx;
    bool many = false;
    r->n_combs = 1;
    if (sn_lops[r->op].has_region) SN_TRY(sn_lex_accept(&many, p->lx, "("));
    SN_TRY(parse_comb(&r->combs[0], p));
    if (!sn_lops[r->op].has_region && sn_combs[r->combs[0]].states != 1)
        return sn_lex_fail(&at, "%s has one state, %s has %u", sn_lops[r->op].name, sn_combs[r->combs[0]].name,
                           sn_combs[r->combs[0]].states);
    while (many && !sn_lex_is(p->lx, ")")) {
        SN_TRY(sn_lex_expect(p->lx, ","));
        if (r->n_combs == SN_COUNT(r->combs))
            return sn_lex_fail(p->lx, "a %s has at most %zu combiners", sn_lops[r->op].name, SN_COUNT(r->combs));
        SN_TRY(parse_comb(&r->combs[r->n_combs++], p));
    }
    return many ? sn_lex_next(p->lx) : SN_OK;
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

/* ---- fields ---- */

/* The first operand says what the others are; a bool in front of it says nothing. With a buffer all are of its dtype.
 */
static sn_status parse_operand(sn_stmt_rec *r, parser *p) {
    const sn_lop_info *op = &sn_lops[r->op];
    uint32_t lead = sn_lop_lead(r->op), i = r->n_in++;
    char what[32];
    snprintf(what, sizeof what, "operand %u of %s", i + 1, op->name);
    if (op->has_buffer) return parse_typed(&r->in[i], p, sn_buf_get(p->m, r->buf)->dtype, "the stored value");
    if (i < lead) return parse_typed(&r->in[i], p, SN_BOOL, what);
    if (i == lead || op->n_in == SN_ANY_OPERANDS) return parse_value(&r->in[i], p);
    return parse_typed(&r->in[i], p, dtype_of(p, r->in[lead]), what);
}

static sn_status parse_operands(sn_stmt_rec *r, parser *p) {
    const sn_lop_info *op = &sn_lops[r->op];
    bool more = true;
    while (more) {
        if (r->n_in == MAX_RESULTS) return sn_lex_fail(p->lx, "a %s has at most %d operands", op->name, MAX_RESULTS);
        SN_TRY(parse_operand(r, p));
        more = op->n_in == SN_ANY_OPERANDS ? sn_lex_is(p->lx, ",") : r->n_in < op->n_in;
        if (more) SN_TRY(sn_lex_expect(p->lx, ","));
    }
    if (sn_lex_is(p->lx, ",")) return sn_lex_fail(p->lx, "%s has %u operands", op->name, op->n_in);
    return SN_OK;
}

/* Operands and a type that is asked for: a conversion. */
static sn_status parse_converted(sn_stmt_rec *r, parser *p) {
    sn_lex at = *p->lx;
    SN_TRY(parse_operands(r, p));
    sn_dtype from = dtype_of(p, r->in[0]);
    const char *name = sn_lops[r->op].name, *to = sn_dtypes[r->dtype].name;
    if (from == r->dtype) return sn_lex_fail(&at, "%s: the value is %s already", name, to);
    if (r->op == SN_LOP_BITCAST && sn_dtype_bytes(from) != sn_dtype_bytes(r->dtype))
        return sn_lex_fail(&at, "bitcast from %s to %s: the sizes differ", sn_dtypes[from].name, to);
    return SN_OK;
}

/* The `if` of a mask stands on the line of what it follows; one on the next line begins a statement. */
static sn_status parse_mask(sn_stmt_rec *r, parser *p, int line, bool otherwise) {
    if (p->lx->tok_line == line) SN_TRY(sn_lex_accept_name(&r->has_mask, p->lx, "if"));
    if (!r->has_mask) return SN_OK;
    SN_TRY(parse_typed(&r->in[r->n_in++], p, SN_BOOL, "the mask"));
    if (!otherwise) return SN_OK;
    SN_TRY(sn_lex_expect_name(p->lx, "else"));
    return parse_typed(&r->in[r->n_in++], p, sn_buf_get(p->m, r->buf)->dtype, "the other value");
}

static sn_status parse_constant(sn_stmt_rec *r, parser *p) {
    SN_TRY(parse_literal(&r->f, &r->i, p->lx, r->dtype));
    if (sn_is_float(r->dtype)) r->f = sn_round_to(r->dtype, r->f);
    return SN_OK;
}

/* One field of a format of lops.def. line: where the piece before it begins. */
static sn_status parse_field(sn_stmt_rec *r, parser *p, char field, int line) {
    switch (field) {
    case 'L': return parse_constant(r, p);
    case 'V': return sn_lops[r->op].has_type ? parse_converted(r, p) : parse_operands(r, p);
    case 'I': return parse_ix(&r->ix, p, false);
    case 'N': return parse_ix(&r->bound, p, false);
    case 'B': return parse_buffer(&r->buf, p);
    case 'A': return parse_axis(r, p);
    case 'C': return parse_combs(r, p);
    case 'M':
    case 'E': return parse_mask(r, p, line, field == 'E');
    case 'X': return sn_lex_accept_name(&r->exclusive, p->lx, "exclusive");
    default: return SN_OK; /* the type was part of the name, the region follows the statement */
    }
}

/* What is no field stands in the text as it does in the format. */
static sn_status parse_word(const char **f, parser *p) {
    char word[16];
    size_t n = islower((unsigned char)**f) ? strspn(*f, "abcdefghijklmnopqrstuvwxyz") : 1;
    SN_ASSERT(n < sizeof word);
    memcpy(word, *f, n);
    word[n] = 0;
    *f += n;
    return islower((unsigned char)word[0]) ? sn_lex_expect_name(p->lx, word) : sn_lex_expect(p->lx, word);
}

static sn_status parse_fields(sn_stmt_rec *r, parser *p) {
    int line = 0;
    for (const char *f = sn_lops[r->op].format; *f;) {
        int began = p->lx->tok_line;
        f += strspn(f, " ()"); /* parentheses belong to the index expression inside */
        if (isupper((unsigned char)*f)) SN_TRY(parse_field(r, p, *f++, line));
        else if (*f) SN_TRY(parse_word(&f, p));
        line = began;
    }
    return SN_OK;
}

/* ---- statements ---- */

/* `add` or `const.f32`: an operation with results, or without any. */
static sn_status parse_op(sn_stmt_rec *r, parser *p) {
    sn_lex at = *p->lx;
    char *word;
    SN_TRY(sn_lex_name(&word, p->lx, &p->scratch));
    char *suffix = strchr(word, '.');
    if (suffix) *suffix++ = 0;
    if (!sn_lop_from_name(&r->op, word) || sn_lops[r->op].result == SN_RESULT_NONE)
        return sn_lex_fail(&at, "unknown operation '%s'", word);
    bool has_type = sn_lops[r->op].has_type;
    if (!suffix && has_type) return sn_lex_fail(&at, "%s needs an element type: %s.f32", word, word);
    if (!suffix) return SN_OK;
    if (!has_type) return sn_lex_fail(&at, "%s takes no element type", word);
    if (!sn_dtype_from_name(&r->dtype, suffix)) return sn_lex_fail(&at, "unknown element type '%s'", suffix);
    return SN_OK;
}

/* `at "model.c:12"`, or nothing. */
static sn_status parse_from(sn_stmt_rec *r, parser *p) {
    bool has;
    char *text;
    SN_TRY(sn_lex_accept_name(&has, p->lx, "at"));
    if (!has) return SN_OK;
    SN_TRY(sn_lex_string(&text, p->lx, &p->m->arena));
    r->from = text;
    return SN_OK;
}

/* What stands behind the name of r->op, its region included. */
static sn_status parse_rest(sn_stmt *out, sn_stmt_rec *r, parser *p) {
    static const sn_dtype NOT_YET[MAX_RESULTS] = {0};
    const sn_lop_info *op = &sn_lops[r->op];
    sn_val in[MAX_RESULTS + 2]; /* and those of a mask */
    sn_lex at = *p->lx;
    r->in = in;
    SN_TRY(parse_fields(r, p));
    SN_TRY(parse_from(r, p));
    *out = sn_put_stmt(p->m, here(p), r, NOT_YET);
    if (op->has_region) SN_TRY(parse_region(p, *out));
    if (op->has_axis) p->axes.n--;
    return op->result == SN_RESULT_STATES ? type_results(p, *out, &at) : SN_OK;
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
    sn_stmt_rec r = {0};
    sn_stmt out;
    SN_TRY(parse_op(&r, p));
    SN_TRY(parse_rest(&out, &r, p));
    const sn_stmt_rec *made = sn_stmt_get(p->m, out);
    if (made->n_results != n)
        return sn_lex_fail(&at, "%s gives %u results, %u are named", sn_lops[r.op].name, made->n_results, n);
    for (uint32_t i = 0; i < n; i++) sn_names_put(&p->vals, names[i], sn_result(made, i).i);
    return SN_OK;
}

static sn_status parse_stmt(parser *p) {
    if (p->lx->tok == SN_TOK_VALUE) return parse_values(p);
    if (p->lx->tok == SN_TOK_END) return sn_lex_fail(p->lx, "expected a statement or '}', found the end of the text");
    sn_stmt_rec r = {0};
    sn_stmt out;
    bool known =
        p->lx->tok == SN_TOK_NAME && sn_lop_from_name(&r.op, sn_strndup(&p->scratch, p->lx->tok_start, p->lx->tok_len));
    if (!known || sn_lops[r.op].result != SN_RESULT_NONE)
        return sn_lex_fail(p->lx, "expected a statement or '}', found '%.*s'", shown(p->lx), p->lx->tok_start);
    SN_TRY(sn_lex_next(p->lx));
    return parse_rest(&out, &r, p);
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

/* `alternative @k0`, of a kernel that stands before this one. */
static sn_status parse_alternative(parser *p, sn_kern_rec *k) {
    bool has;
    char *name;
    SN_TRY(sn_lex_accept_name(&has, p->lx, "alternative"));
    if (!has) return SN_OK;
    sn_lex at = *p->lx;
    SN_TRY(sn_lex_at(&name, p->lx, &p->scratch));
    k->alternative_of = sn_kern_named(p->m, name);
    bool known = k->alternative_of.i && !sn_kern_eq(k->alternative_of, p->k);
    return known ? SN_OK : sn_lex_fail(&at, "no kernel @%s stands before this one", name);
}

static sn_status parse_header(parser *p) {
    sn_kern_rec *k = sn_kern_get(p->m, p->k);
    bool has;
    SN_TRY(sn_lex_accept_name(&has, p->lx, "schedule"));
    if (has) SN_TRY(sn_sched_parse(&k->sched, p->lx));
    SN_TRY(sn_lex_accept_name(&k->scheduled, p->lx, "scheduled"));
    char *text;
    SN_TRY(parse_alternative(p, k));
    SN_TRY(sn_lex_accept_name(&has, p->lx, "section"));
    if (has) SN_TRY(parse_u32(&k->section, p->lx, "section"));
    SN_TRY(sn_lex_accept_name(&has, p->lx, "note"));
    if (has) SN_TRY(sn_lex_string(&text, p->lx, &p->m->arena));
    if (has) k->note = text;
    SN_TRY(sn_lex_accept_name(&has, p->lx, "from"));
    if (has) SN_TRY(sn_lex_string(&text, p->lx, &p->m->arena));
    if (has) k->from = text;
    return SN_OK;
}

/* `swizzle 128`, or nothing. */
static sn_status parse_swizzle(uint32_t *out, sn_lex *lx) {
    bool has;
    SN_TRY(sn_lex_accept_name(&has, lx, "swizzle"));
    if (!has) return SN_OK;
    sn_lex at = *lx;
    SN_TRY(parse_u32(out, lx, "swizzle"));
    return *out == 32 || *out == 64 || *out == 128 ? SN_OK : sn_lex_fail(&at, "swizzle: 32, 64 or 128 bytes");
}

/* `reg s: f32 private 8 size 1024`, `shared ...`, `posted s: f32 size 64`. Two kernels may use the same name: the later
 * one is renamed in the module. */
static sn_status parse_local(parser *p, sn_buf_scope scope) {
    sn_lex *lx = p->lx, at;
    char *name;
    sn_dtype dtype;
    uint32_t private_size = 0, swizzle = 0;
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
    if (scope == SN_BUF_SHARED) SN_TRY(parse_swizzle(&swizzle, lx));
    SN_TRY(sn_lex_expect_name(lx, "size"));
    SN_TRY(parse_size(&size, p->m, lx));
    sn_buf b = sn_buf_new(p->m, name, dtype, scope, NULL, 0);
    sn_buf_get(p->m, b)->private_size = private_size;
    sn_buf_get(p->m, b)->swizzle = swizzle;
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
