/* product.c: matrix products of a graph: which there are, and a small graph that stands for one.
 *
 *     %t = permute %w perm=[1, 0] ;  %c = matmul %h, %t ;  %d = add %c, %bias ;  %y = gelu's nodes of %d
 *  -> graph @product(%i0: bf16[4096, 1024], %i1: bf16[1024, 1024], %i2: bf16[1024]) { ... the same ... return o0 = .. }
 *
 * The epilogue are elementwise operations of the product's own shape behind it, as the pass `fuse` would take them
 * along. What they read beside it becomes an input, and so do operands once views and casts are looked through,
 * which cost nothing and decide how memory is walked. Relies on sizes being numbers. Cost: linear in the graph.
 */
#include "passes/graph/choices.h"

#include "ir/loop/mma.h"

#include <string.h>

bool sn_product_find(sn_product *out, const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (n->op != SN_OP_MATMUL || sn_node_attr(m, x, SN_ATTR_SCHEDULE)) return false;
    if (sn_node_int(m, x, SN_ATTR_ONLINE, 0)) return false;
    const sn_type *a = &sn_node_get(m, n->in[0])->type, *b = &sn_node_get(m, n->in[1])->type;
    *out = (sn_product){.node = x, .left = n->in[0], .right = n->in[1], .dtype = n->type.dtype};
    out->batch = out->m = out->n = 1;
    bool known = sn_ix_is_const(m, a->shape[a->rank - 1], &out->k);
    if (a->rank > 1) known &= sn_ix_is_const(m, a->shape[a->rank - 2], &out->m);
    if (b->rank > 1) known &= sn_ix_is_const(m, b->shape[b->rank - 1], &out->n);
    for (uint32_t k = 0; known && k + (a->rank > 1) + (b->rank > 1) < n->type.rank; k++) {
        int64_t size;
        known = sn_ix_is_const(m, n->type.shape[k], &size) && !sn_mul_overflow(out->batch, size, &out->batch);
    }
    return known;
}

void sn_product_list(sn_nd_list *out, const sn_module *m, sn_arena *arena) {
    uint8_t *live = SN_NEWN(arena, uint8_t, m->graph.nodes.count + 1);
    sn_product unused;
    sn_graph_live(m, live);
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++)
        if (live[x.i] && sn_product_find(&unused, m, x)) SN_PUSH(arena, out, x);
}

double sn_choice_products(const sn_choice_question *q, sn_dtype dtype) {
    sn_precision precision = sn_node_precision(q->m, q->product->node);
    if (dtype != SN_F32) return 1;
    if (precision == SN_PRECISION_TF32)
        return (double)sn_mmas[SN_MMA_WGMMA_BF16].rate / sn_mmas[SN_MMA_WGMMA_TF32].rate;
    return sn_terms_products(sn_precision_terms(precision));
}

sn_nd sn_product_like(sn_module *m, const sn_product *p, sn_nd left, sn_nd right) {
    const sn_node_rec *n = sn_node_get(m, p->node);
    sn_attr attrs[SN_N_ATTRS];
    uint32_t n_attrs = 0;
    if (!left.i || !right.i) return (sn_nd){0};
    for (uint32_t k = 0; k < n->n_attrs; k++)
        if (n->attrs[k].id != SN_ATTR_SCHEDULE) attrs[n_attrs++] = n->attrs[k];
    return sn_graph_node(m, SN_OP_MATMUL, (sn_nd[]){left, right}, 2, attrs, n_attrs);
}

/* ---- the small graph ---- */

typedef struct extractor {
    sn_module *to;
    const sn_module *from;
    sn_arena scratch;
    uint8_t *live;
    uint8_t *member; /* by id in `from`: the product, or of its epilogue */
    sn_nd *map;
    uint32_t n_members, n_inputs, n_outputs;
} extractor;

static bool is_looked_through(const sn_node_rec *n) { return sn_ops[n->op].cls == SN_OPS_VIEW || n->op == SN_OP_CAST; }

/* Of the shape of the product, element by element. */
static bool is_epilogue(const sn_node_rec *n, const sn_type *product) {
    sn_opclass cls = sn_ops[n->op].cls;
    bool elementwise = cls == SN_OPS_UNARY || cls == SN_OPS_BINARY || cls == SN_OPS_COMPARE || cls == SN_OPS_TEST ||
                       n->op == SN_OP_WHERE || n->op == SN_OP_CAST || n->op == SN_OP_CLAMP;
    return elementwise && n->type.rank == product->rank &&
           !memcmp(n->type.shape, product->shape, product->rank * sizeof product->shape[0]);
}

static void find_members(extractor *ex, sn_nd x) {
    const sn_type *product = &sn_node_get(ex->from, x)->type;
    ex->member[x.i] = 1;
    for (sn_nd y = {x.i + 1}; y.i < ex->from->graph.nodes.count && ex->n_members < SN_CHOICE_EPILOGUE; y.i++) {
        const sn_node_rec *n = sn_node_get(ex->from, y);
        bool reads = false;
        for (uint32_t k = 0; k < n->n_in; k++) reads |= ex->member[n->in[k].i];
        if (!ex->live[y.i] || !reads || !is_epilogue(n, product)) continue;
        ex->member[y.i] = 1;
        ex->n_members++;
    }
}

static sn_status number(sn_ix *out, extractor *ex, sn_ix e) {
    int64_t value = 0;
    if (!sn_ix_is_const(ex->from, e, &value))
        return sn_fail(ex->to->env, SN_ERROR_ARGUMENT, "a product is timed when its sizes are numbers");
    *out = sn_ix_const(ex->to, value);
    return SN_OK;
}

static sn_status numbers(sn_ix *out, extractor *ex, const sn_ix *at, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) SN_TRY(number(&out[k], ex, at[k]));
    return SN_OK;
}

static sn_status add_input(extractor *ex, sn_nd x) {
    const sn_node_rec *n = sn_node_get(ex->from, x);
    const sn_graph_input *in = n->op == SN_OP_INPUT ? &ex->from->graph.inputs.at[n->input] : NULL;
    sn_type type = {.dtype = n->type.dtype, .rank = n->type.rank};
    sn_ix stride[SN_MAX_RANK], offset = {0};
    bool placed = in && !in->contiguous;
    SN_TRY(numbers(type.shape, ex, n->type.shape, n->type.rank));
    if (placed) SN_TRY(numbers(stride, ex, in->stride, type.rank));
    if (placed) SN_TRY(number(&offset, ex, in->offset));
    const char *name = sn_strf(&ex->to->arena, "i%u", ex->n_inputs++);
    ex->map[x.i] = sn_graph_input_new(ex->to, name, &type, placed ? stride : NULL, offset);
    return ex->to->env->status;
}

/* The node, its operands being there. */
static sn_status add_node(extractor *ex, sn_nd x) {
    const sn_node_rec *n = sn_node_get(ex->from, x);
    sn_attr attrs[SN_N_ATTRS];
    sn_ix shape[SN_MAX_RANK];
    sn_nd in[4] = {{0}};
    SN_ASSERT(n->n_in <= SN_COUNT(in));
    for (uint32_t k = 0; k < n->n_in; k++) in[k] = ex->map[n->in[k].i];
    for (uint32_t k = 0; k < n->n_attrs; k++) {
        attrs[k] = n->attrs[k];
        if (sn_attrs[attrs[k].id].kind != SN_KIND_SHAPE) continue;
        SN_TRY(numbers(shape, ex, n->attrs[k].shape.at, n->attrs[k].shape.n));
        attrs[k].shape.at = shape;
    }
    ex->map[x.i] = sn_graph_node(ex->to, n->op, in, n->n_in, attrs, n->n_attrs);
    return ex->to->env->status;
}

/* An operand from outside: what it is made of by views and casts, then those. */
static sn_status add_operand(extractor *ex, sn_nd x) {
    SN_VEC(sn_nd) chain = {0};
    for (; !ex->map[x.i].i && is_looked_through(sn_node_get(ex->from, x)); x = sn_node_get(ex->from, x)->in[0])
        SN_PUSH(&ex->scratch, &chain, x);
    if (!ex->map[x.i].i) {
        sn_op op = sn_node_get(ex->from, x)->op;
        SN_TRY(op == SN_OP_FULL || op == SN_OP_IOTA ? add_node(ex, x) : add_input(ex, x));
    }
    while (chain.n) SN_TRY(add_node(ex, chain.at[--chain.n]));
    return SN_OK;
}

static sn_status add_members(extractor *ex) {
    for (sn_nd x = {1}; x.i < ex->from->graph.nodes.count; x.i++) {
        const sn_node_rec *n = sn_node_get(ex->from, x);
        if (!ex->member[x.i]) continue;
        for (uint32_t k = 0; k < n->n_in; k++)
            if (!ex->map[n->in[k].i].i) SN_TRY(add_operand(ex, n->in[k]));
        SN_TRY(add_node(ex, x));
    }
    return SN_OK;
}

/* Members that somebody else reads. */
static sn_status add_outputs(extractor *ex) {
    const sn_graph_ir *g = &ex->from->graph;
    uint8_t *read = SN_NEWN(&ex->scratch, uint8_t, g->nodes.count);
    for (sn_nd x = {1}; x.i < g->nodes.count; x.i++) {
        const sn_node_rec *n = sn_node_get(ex->from, x);
        for (uint32_t k = 0; ex->live[x.i] && !ex->member[x.i] && k < n->n_in; k++) read[n->in[k].i] = 1;
    }
    for (uint32_t k = 0; k < g->outputs.n; k++) read[g->outputs.at[k].node.i] = 1;
    for (sn_nd x = {1}; x.i < g->nodes.count; x.i++) {
        if (!ex->member[x.i] || !read[x.i]) continue;
        const char *name = sn_strf(&ex->to->arena, "o%u", ex->n_outputs++);
        SN_TRY(sn_graph_output_new(ex->to, name, ex->map[x.i], -1));
    }
    return SN_OK;
}

static sn_status extract(extractor *ex, sn_nd x) {
    uint32_t n = ex->from->graph.nodes.count;
    ex->live = SN_NEWN(&ex->scratch, uint8_t, n);
    ex->member = SN_NEWN(&ex->scratch, uint8_t, n);
    ex->map = SN_NEWN(&ex->scratch, sn_nd, n);
    sn_graph_live(ex->from, ex->live);
    sn_graph_init(ex->to, "product");
    find_members(ex, x);
    SN_TRY(add_members(ex));
    return add_outputs(ex);
}

sn_status sn_product_extract(sn_module *to, const sn_module *from, sn_nd x) {
    extractor ex = {.to = to, .from = from};
    sn_arena_init(&ex.scratch, to->env);
    sn_status status = extract(&ex, x);
    sn_arena_free(&ex.scratch);
    return status;
}

sn_status sn_product_key(const char **out, const sn_module *m, sn_nd x, sn_arena *arena) {
    sn_module *small = sn_module_new(m->env);
    sn_text t;
    sn_text_init(&t, m->env);
    sn_status status = sn_product_extract(small, m, x);
    if (status == SN_OK) sn_module_print(&t, small);
    *out = sn_strdup(arena, t.s ? t.s : "");
    sn_text_free(&t);
    sn_module_free(small);
    return status;
}
