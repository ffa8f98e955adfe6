/* sizes.c: sizes that are known when a graph is compiled, and the numbers that stand for them in C and their text; ports of graphs, which have such.
 *
 *     int64_t n = sn_dim(g, "N");      a code: sn_dim(g, "2*N + 1") is a size, 2*n + 1 is a mistake that is refused
 *
 * A code is -(2^61 + id * 2^38 + mark): id is that of the index expression, mark 37 bits that depend on it and on the
 * graph. So the codes of a graph are few among the numbers, and what arithmetic makes of them is none of them. Nor is
 * what 32 bits keep of them, `int n = sn_dim(g, "N")`: bit 31 of a mark is 0, so that an int is negative, and among
 * negative numbers and those from 2^31 on such remains of a code are looked for.
 *   n + k                    another mark, for all |k| < 2^37
 *   2n, 3n, n + m            beyond -2^62
 *   n / k                    negative, and no code
 *   n - m                    negative, or more than 2^37: a size that a graph with names of sizes does not have
 *   4n, n * m, ...           wrap to numbers as good as random, of which one in 2^26 would pass
 * The same holds for the codes of another graph: one in 2^37 would pass. Does not know what the expressions mean (ir/index/ix.h).
 */
#include "frontend/frontend.h"

#include <string.h>

#define CODE_MIN ((int64_t)1 << 61)
#define CODE_MAX ((int64_t)1 << 62)
#define NUMBER_MAX ((int64_t)1 << MARK_BITS) /* beside names of sizes */
enum { ID_BITS = 23, ID_SHIFT = 38, MARK_BITS = 37 };

static int64_t code_of(const sn_graph *g, uint32_t id) {
    int64_t mark = (int64_t)(sn_hash(g->tag, id) >> (64 - MARK_BITS)) & ~((int64_t)1 << 31);
    return -(CODE_MIN + ((int64_t)id << ID_SHIFT) + mark);
}

/* Is it what 32 bits keep of a code? */
static bool is_cut_off(const sn_graph *g, int64_t size) {
    const int64_t near = -65536; /* such numbers have meanings of their own */
    if (size < INT32_MIN || size > UINT32_MAX || (size > near && size <= INT32_MAX)) return false;
    for (uint32_t id = 1; id < g->m->ixs.count; id++)
        if ((uint32_t)code_of(g, id) == (uint32_t)size) return true;
    return false;
}

bool sn_size_is_code(int64_t size) { return size <= -CODE_MIN && size > -CODE_MAX; }

sn_status sn_size_read(sn_ix *out, sn_graph *g, const char *who, int64_t size) {
    sn_module *m = g->m;
    bool names = m->syms.count > 1;
    bool plain = size >= INT32_MIN && (size <= NUMBER_MAX || !names); /* what is negative, its user refuses */
    if (plain && !(names && is_cut_off(g, size))) {
        *out = sn_ix_const(m, size);
        return SN_OK;
    }
    uint32_t id = sn_size_is_code(size) ? (uint32_t)((-size - CODE_MIN) >> ID_SHIFT) : 0;
    *out = (sn_ix){id};
    if (id && id < m->ixs.count && code_of(g, id) == size) return SN_OK;
    return sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT,
                   "%s: %lld is no size of this graph; what sn_dim returns is not to be calculated with and belongs to "
                   "its graph: write sn_dim(g, \"N + 1\")",
                   who, (long long)size);
}

/* ---- sn_dim ---- */

static sn_ix dim_find(void *user, bool is_value, const char *name) {
    sn_module *m = user;
    return is_value ? (sn_ix){0} : sn_ix_sym(m, sn_sym_named(m, name));
}

static sn_status dim_parse(sn_nd *out, sn_graph *g, const char *expression) {
    sn_lex lx;
    if (!expression) return sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT, "sn_dim: expression is NULL");
    SN_TRY(sn_lex_init(&lx, &g->ctx->env, "size", expression, strlen(expression)));
    sn_ix e;
    SN_TRY(sn_ix_parse(&e, &lx, g->m, dim_find, g->m));
    if (lx.tok != SN_TOK_END) return sn_lex_fail(&lx, "an expression like N or 2*N + 1 is wanted");
    if (e.i >> ID_BITS) return sn_fail(&g->ctx->env, SN_ERROR_UNSUPPORTED, "sn_dim: the graph has too many sizes");
    out->i = e.i;
    return SN_OK;
}

/* The id of an expression travels like that of a node, so that the builder's guard serves here too. */
static sn_node dim_id(sn_graph *g, const char *expression) { SN_BUILD_RETURN(g, dim_parse(&g->built, g, expression)); }

static int64_t size_of(const sn_graph *g, sn_ix e) {
    int64_t number;
    return sn_ix_is_const(g->m, e, &number) ? number : code_of(g, e.i);
}

int64_t sn_dim(sn_graph *g, const char *expression) {
    sn_node e = dim_id(g, expression);
    return e.id ? size_of(g, (sn_ix){e.id}) : 0;
}

static sn_status size_text(char **out, sn_graph *g, int64_t size) {
    sn_ix e;
    sn_text t;
    SN_TRY(sn_size_read(&e, g, "sn_size_text", size));
    sn_text_init(&t, &g->ctx->env);
    sn_ix_print(&t, g->m, e, NULL, NULL);
    return sn_text_give(out, g->ctx, &t);
}

sn_status sn_size_text(char **out, sn_graph *g, int64_t size) { SN_MAKE_RETURN(out, g, size_text(out, g, size)); }

void sn_node_shape(int64_t *out, const sn_graph *g, sn_node x) {
    if (!g || SN_IS_NULL(g, out) || !sn_node_is_of(g, x)) return;
    const sn_type *t = &sn_node_get(g->m, sn_inner(x))->type;
    for (uint32_t k = 0; k < t->rank; k++) out[k] = size_of(g, t->shape[k]);
}

/* ---- ports of a graph ---- */

static sn_port port_of(const sn_graph *g, const char *name, sn_nd x) {
    const sn_type *t = &sn_node_get(g->m, x)->type;
    sn_port port = {.name = name, .dtype = t->dtype, .rank = t->rank, .align = sn_dtype_bytes(t->dtype), .writes = -1};
    sn_ix step = sn_ix_const(g->m, 1);
    for (uint32_t k = t->rank; k-- > 0; step = sn_ix_mul(g->m, step, t->shape[k])) {
        port.shape[k] = size_of(g, t->shape[k]);
        port.strides[k] = size_of(g, step);
    }
    return port;
}

static sn_status no_such_port(const sn_graph *g, const char *what, unsigned number, uint32_t n) {
    return sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT, "%s %u: the graph has %u", what, number, n);
}

static sn_status input_port(sn_port *out, const sn_graph *g, unsigned input) {
    const sn_graph_ir *ir = &g->m->graph;
    if (input >= ir->inputs.n) return no_such_port(g, "input", input, ir->inputs.n);
    const sn_graph_input *in = &ir->inputs.at[input];
    *out = port_of(g, in->name, in->node);
    for (unsigned k = 0; k < out->rank; k++) out->strides[k] = size_of(g, in->stride[k]);
    out->offset = size_of(g, in->offset);
    out->optional = in->otherwise.n && !in->writer;
    return SN_OK;
}

static sn_status output_port(sn_port *out, const sn_graph *g, unsigned output) {
    const sn_graph_ir *ir = &g->m->graph;
    if (output >= ir->outputs.n) return no_such_port(g, "output", output, ir->outputs.n);
    *out = port_of(g, ir->outputs.at[output].name, ir->outputs.at[output].node);
    out->writes = ir->outputs.at[output].writes;
    return SN_OK;
}

sn_status sn_graph_input_port(sn_port *out, const sn_graph *g, unsigned input) {
    SN_GUARD_RETURN(g, input_port(out, g, input), out);
}

sn_status sn_graph_output_port(sn_port *out, const sn_graph *g, unsigned output) {
    SN_GUARD_RETURN(g, output_port(out, g, output), out);
}
