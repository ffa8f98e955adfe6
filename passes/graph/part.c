/* part.c: see part.h. Casts and views cost nothing and decide how memory is walked: they come along, but for casts that
 * somebody else has made. Cost: linear in the graph.
 */
#include "passes/graph/part.h"
#include "passes/base/constants.h"

typedef struct copier {
    sn_module *to;
    sn_part *part;
    sn_arena *scratch;
    uint32_t n_inputs;
} copier;

static const sn_node_rec *node(const copier *c, sn_nd x) { return sn_node_get(c->part->from, x); }

static bool is_looked_through(const sn_node_rec *n) { return sn_ops[n->op].cls == SN_OPS_VIEW || n->op == SN_OP_CAST; }

static sn_status number(sn_ix *out, copier *c, sn_ix e) {
    int64_t value = 0;
    if (!sn_ix_is_const(c->part->from, e, &value))
        return sn_fail(c->to->env, SN_ERROR_ARGUMENT, "a part of a graph is taken out when its sizes are numbers");
    *out = sn_ix_const(c->to, value);
    return SN_OK;
}

static sn_status numbers(sn_ix *out, copier *c, const sn_ix *at, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) SN_TRY(number(&out[k], c, at[k]));
    return SN_OK;
}

static sn_ix last_size(const sn_type *t) { return t->rank ? t->shape[t->rank - 1] : (sn_ix){0}; }

/* Does somebody see x as rows of another length? */
static bool is_walked_flat(const copier *c, sn_nd x) {
    for (sn_nd y = {x.i + 1}; y.i < c->part->from->graph.nodes.count; y.i++) {
        const sn_node_rec *n = node(c, y);
        if (!is_looked_through(n) || !sn_nd_eq(n->in[0], x)) continue;
        bool joins = n->op == SN_OP_RESHAPE && !sn_ix_eq(last_size(&n->type), last_size(&node(c, x)->type));
        if (joins || is_walked_flat(c, y)) return true;
    }
    return false;
}

/* May to-loops give it longer rows, as it does what it stores for products? */
static bool may_be_lengthened(const copier *c, sn_nd x) {
    const sn_node_rec *n = node(c, x);
    int64_t size;
    if (!c->part->computes || sn_ops[n->op].cls == SN_OPS_SOURCE || !sn_is_float(n->type.dtype)) return false;
    bool known = n->type.rank && sn_ix_is_const(c->part->from, last_size(&n->type), &size);
    return known && size * sn_dtype_bytes(n->type.dtype) % SN_WIDEST_ACCESS && !is_walked_flat(c, x);
}

static sn_status add_input(copier *c, sn_nd x) {
    const sn_node_rec *n = node(c, x);
    const sn_graph_input *in = n->op == SN_OP_INPUT ? &c->part->from->graph.inputs.at[n->input] : NULL;
    sn_type type = {.dtype = n->type.dtype, .rank = n->type.rank};
    sn_ix stride[SN_MAX_RANK], offset = {0};
    bool placed = in && !in->contiguous;
    SN_TRY(numbers(type.shape, c, n->type.shape, n->type.rank));
    if (placed) SN_TRY(numbers(stride, c, in->stride, type.rank));
    if (placed) SN_TRY(number(&offset, c, in->offset));
    const char *name = sn_strf(&c->to->arena, "i%u", c->n_inputs++);
    sn_nd own = sn_graph_input_new(c->to, name, &type, placed ? stride : NULL, offset);
    c->part->map[x.i] = may_be_lengthened(c, x) ? sn_graph_unary(c->to, SN_OP_NEG, own) : own;
    return c->to->env->status;
}

/* The node, its operands being there. */
static sn_status add_node(copier *c, sn_nd x) {
    const sn_node_rec *n = node(c, x);
    sn_attr attrs[SN_N_ATTRS];
    sn_ix shape[SN_MAX_RANK];
    sn_nd in[4] = {{0}};
    SN_ASSERT(n->n_in <= SN_COUNT(in));
    for (uint32_t k = 0; k < n->n_in; k++) in[k] = c->part->map[n->in[k].i];
    for (uint32_t k = 0; k < n->n_attrs; k++) {
        attrs[k] = n->attrs[k];
        if (sn_attrs[attrs[k].id].kind != SN_KIND_SHAPE) continue;
        SN_TRY(numbers(shape, c, n->attrs[k].shape.at, n->attrs[k].shape.n));
        attrs[k].shape.at = shape;
    }
    c->part->map[x.i] = sn_graph_node(c->to, n->op, in, n->n_in, attrs, n->n_attrs);
    return c->to->env->status;
}

/* The first of views and casts, from x on, that is no view and no cast. */
static sn_nd base_of(const copier *c, sn_nd x) {
    while (is_looked_through(node(c, x))) x = node(c, x)->in[0];
    return x;
}

/* Floats that become narrower ones on the way to a product stand so in memory where elementwise operations compute them, which do
 * that as well, and where a kernel that runs once does (to-loops). What stands in memory as it was (inputs, sums, other products)
 * is converted in each run. */
static bool is_narrowed(const copier *c, sn_nd x) {
    const sn_node_rec *n = node(c, x), *base = node(c, base_of(c, x));
    sn_opclass cls = sn_ops[base->op].cls;
    bool stands = base->op == SN_OP_INPUT || cls == SN_OPS_REDUCE || cls == SN_OPS_SCAN || cls == SN_OPS_CONTRACT ||
                  base->op == SN_OP_PROJECT || base->op == SN_OP_SCATTER;
    if (n->op != SN_OP_CAST || stands) return false;
    sn_dtype from = node(c, n->in[0])->type.dtype;
    return sn_is_float(from) && sn_is_float(n->type.dtype) && !sn_dtype_widens(from, n->type.dtype);
}

/* An operand from outside: what it is made of by views and casts, then those. */
static sn_status add_operand(copier *c, sn_nd x) {
    SN_VEC(sn_nd) chain = {0};
    for (; !c->part->map[x.i].i && is_looked_through(node(c, x)) && !is_narrowed(c, x); x = node(c, x)->in[0])
        SN_PUSH(c->scratch, &chain, x);
    if (!c->part->map[x.i].i) {
        sn_op op = node(c, x)->op;
        SN_TRY(op == SN_OP_FULL || op == SN_OP_IOTA ? add_node(c, x) : add_input(c, x));
    }
    while (chain.n) SN_TRY(add_node(c, chain.at[--chain.n]));
    return SN_OK;
}

sn_status sn_part_copy(sn_module *to, sn_part *part, sn_arena *scratch) {
    copier c = {to, part, scratch, 0};
    part->map = SN_NEWN(scratch, sn_nd, part->from->graph.nodes.count);
    for (sn_nd x = {1}; x.i < part->from->graph.nodes.count; x.i++) {
        const sn_node_rec *n = node(&c, x);
        if (!part->member[x.i]) continue;
        for (uint32_t k = 0; k < n->n_in; k++)
            if (!part->map[n->in[k].i].i) SN_TRY(add_operand(&c, n->in[k]));
        SN_TRY(add_node(&c, x));
    }
    return SN_OK;
}
