/* copy.c: a copy of the live part of a graph in another module, with symbolic sizes replaced by numbers, and a precision for
 * products that leave theirs open. Every node goes through sn_graph_node, so that shapes are inferred again and sizes that do
 * not fit are reported. Relies on ids being topological: operands of nodes and of index expressions have smaller ids. Weights
 * are shared, not copied.
 */
#include "ir/graph/internal.h"
#include "ir/graph/repeat.h"

#include <string.h>

typedef struct copier {
    sn_module *to;
    const sn_module *from;
    const char *const *symbols;
    const int64_t *sizes;
    uint32_t n;
    sn_precision precision;
    sn_ix *ix;   /* by id of an expression of `from` */
    sn_nd *node; /* by id of a node of `from` */
} copier;

/* ---- index expressions ---- */

/* Which expressions of `from` are needed: the sizes of types, attributes and inputs, then what they are made of. */
static void mark_shape(uint8_t *need, const sn_ix *at, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) need[at[k].i] = 1;
}

static void mark_roots(const sn_module *m, uint8_t *need) {
    for (uint32_t i = 0; i < m->graph.inputs.n; i++) {
        const sn_graph_input *in = &m->graph.inputs.at[i];
        const sn_type *t = &sn_node_get(m, in->node)->type;
        mark_shape(need, t->shape, t->rank);
        mark_shape(need, in->stride, t->rank);
        mark_shape(need, &in->offset, 1);
    }
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++) {
        const sn_node_rec *n = sn_node_get(m, x);
        for (uint32_t k = 0; k < n->n_attrs; k++)
            if (sn_attrs[n->attrs[k].id].kind == SN_KIND_SHAPE)
                mark_shape(need, n->attrs[k].shape.at, n->attrs[k].shape.n);
    }
}

static void mark_parts(const sn_module *m, uint8_t *need) {
    for (uint32_t i = m->ixs.count; i-- > 1;) {
        const sn_ix_rec *e = sn_ix_get(m, (sn_ix){i});
        if (!need[i]) continue;
        for (uint32_t k = 0; k < e->n_terms; k++) need[e->terms[k].atom.i] = 1;
        need[e->a.i] = need[e->b.i] = 1; /* entry 0 (none) is harmless */
    }
}

static sn_ix copy_sym(copier *c, uint32_t id) {
    const char *name = sn_sym_get(c->from, (sn_sym){id})->name;
    for (uint32_t k = 0; k < c->n; k++)
        if (strcmp(c->symbols[k], name) == 0) return sn_ix_const(c->to, c->sizes[k]);
    return sn_ix_sym(c->to, sn_sym_named(c->to, name));
}

static sn_ix copy_sum(copier *c, const sn_ix_rec *e) {
    sn_ix sum = sn_ix_const(c->to, e->c0);
    for (uint32_t k = 0; k < e->n_terms; k++)
        sum = sn_ix_add(c->to, sum, sn_ix_scale(c->to, c->ix[e->terms[k].atom.i], e->terms[k].c));
    return sum;
}

static sn_ix copy_ix(copier *c, const sn_ix_rec *e) {
    sn_ix a = c->ix[e->a.i], b = c->ix[e->b.i];
    int64_t divisor;
    if ((e->kind == SN_IX_DIV || e->kind == SN_IX_MOD) && sn_ix_is_const(c->to, b, &divisor) && divisor <= 0) {
        sn_fail(c->to->env, SN_ERROR_ARGUMENT, "a size is divided by %lld", (long long)divisor);
        return sn_ix_const(c->to, 0);
    }
    switch (e->kind) {
    case SN_IX_SUM: return copy_sum(c, e);
    case SN_IX_SYM: return copy_sym(c, e->id);
    case SN_IX_DIV: return sn_ix_div(c->to, a, b);
    case SN_IX_MOD: return sn_ix_mod(c->to, a, b);
    case SN_IX_MIN: return sn_ix_min(c->to, a, b);
    case SN_IX_MAX: return sn_ix_max(c->to, a, b);
    case SN_IX_PROD: return sn_ix_mul(c->to, a, b);
    case SN_IX_AXIS:
    case SN_IX_VAL: break; /* not in a graph (invariant G9) */
    }
    return sn_ix_const(c->to, 0);
}

static void copy_ixs(copier *c) {
    uint8_t *need = SN_NEWN(&c->to->arena, uint8_t, c->from->ixs.count);
    mark_roots(c->from, need);
    mark_parts(c->from, need);
    for (uint32_t i = 1; i < c->from->ixs.count; i++)
        if (need[i]) c->ix[i] = copy_ix(c, sn_ix_get(c->from, (sn_ix){i}));
}

/* ---- inputs, nodes, outputs ---- */

static void copy_shape(const copier *c, sn_ix *out, const sn_ix *at, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) out[k] = c->ix[at[k].i];
}

static sn_status copy_input(copier *c, const sn_graph_input *in) {
    const sn_type *t = &sn_node_get(c->from, in->node)->type;
    sn_type type = {.dtype = t->dtype, .rank = t->rank};
    sn_ix stride[SN_MAX_RANK];
    copy_shape(c, type.shape, t->shape, t->rank);
    copy_shape(c, stride, in->stride, t->rank);
    c->node[in->node.i] =
        sn_graph_input_new(c->to, in->name, &type, in->contiguous ? NULL : stride, c->ix[in->offset.i]);
    const sn_graph_default *d = &in->otherwise;
    if (c->node[in->node.i].i && d->n)
        return sn_graph_input_default(c->to, c->to->graph.inputs.n - 1, d->f, d->i, d->n);
    return c->to->env->status;
}

/* Does it leave open what the copy says? */
static bool has_open_precision(const copier *c, sn_nd x) {
    const sn_node_rec *n = sn_node_get(c->from, x);
    return c->precision != SN_PRECISION_EXACT && sn_ops[n->op].cls == SN_OPS_CONTRACT && n->type.dtype == SN_F32 &&
           !sn_node_attr(c->from, x, SN_ATTR_PRECISION);
}

static sn_status copy_node(copier *c, sn_nd x) {
    const sn_node_rec *n = sn_node_get(c->from, x);
    uint32_t n_attrs = n->n_attrs;
    sn_attr attrs[SN_N_ATTRS];
    sn_ix shape[SN_MAX_RANK];
    sn_nd *in = SN_NEWN(&c->to->arena, sn_nd, n->n_in);
    for (uint32_t k = 0; k < n->n_in; k++) in[k] = c->node[n->in[k].i];
    for (uint32_t k = 0; k < n->n_attrs; k++) {
        attrs[k] = n->attrs[k];
        if (sn_attrs[attrs[k].id].kind != SN_KIND_SHAPE) continue;
        copy_shape(c, shape, n->attrs[k].shape.at, n->attrs[k].shape.n); /* no operation has two shapes */
        attrs[k].shape.at = shape;
    }
    if (has_open_precision(c, x)) attrs[n_attrs++] = (sn_attr){.id = SN_ATTR_PRECISION, .i = c->precision};
    c->to->graph.origin = n->origin ? sn_strdup(&c->to->arena, n->origin) : NULL;
    c->node[x.i] = sn_graph_node(c->to, n->op, in, n->n_in, attrs, n_attrs);
    c->to->graph.origin = NULL;
    if (c->node[x.i].i == 0) return c->to->env->status;
    if (n->name) sn_graph_name(c->to, c->node[x.i], n->name);
    return SN_OK;
}

/* The end of a loop of which something is live, though nobody reads its results: check_repeats then says what reads a value of its
 * inside, and not that it has no end. */
static void keep_ends(uint8_t *live, const sn_module *from, sn_arena *a) {
    const sn_graph_ir *g = &from->graph;
    uint8_t *inside = SN_NEWN(a, uint8_t, g->repeats + 1); /* by number of a repeat */
    for (sn_nd x = {1}; x.i < g->nodes.count && g->repeats; x.i++) {
        sn_op op = sn_node_get(from, x)->op;
        int64_t number = sn_node_int(from, x, SN_ATTR_REPEAT, 0);
        if (live[x.i] && (op == SN_OP_REPEAT_STATE || op == SN_OP_REPEAT_SLICE)) inside[number] = 1;
        if (op == SN_OP_REPEAT && inside[number]) live[x.i] = 1;
    }
    for (uint32_t i = g->nodes.count - 1; i && g->repeats; i--) {
        const sn_node_rec *n = sn_node_get(from, (sn_nd){i});
        for (uint32_t k = 0; live[i] && k < n->n_in; k++) live[n->in[k].i] = 1;
    }
}

/* What is inside of which is known when the whole graph is there: a user is told before a pass looks. */
static sn_status check_repeats(sn_module *m) {
    sn_repeat_scopes unused;
    return sn_repeat_scopes_find(&unused, m, &m->arena);
}

sn_status sn_graph_copy(sn_module *to, const sn_module *from, const char *const *symbols, const int64_t *sizes,
                        uint32_t n) {
    return sn_graph_copy_in(to, from, symbols, sizes, n, SN_PRECISION_EXACT);
}

sn_status sn_graph_copy_in(sn_module *to, const sn_module *from, const char *const *symbols, const int64_t *sizes,
                           uint32_t n, sn_precision precision) {
    const sn_graph_ir *g = &from->graph;
    copier c = {to,
                from,
                symbols,
                sizes,
                n,
                precision,
                SN_NEWN(&to->arena, sn_ix, from->ixs.count),
                SN_NEWN(&to->arena, sn_nd, g->nodes.count)};
    uint8_t *live = SN_NEWN(&to->arena, uint8_t, g->nodes.count);
    for (uint32_t k = 0; k < n; k++)
        if (sizes[k] < 0)
            return sn_fail(to->env, SN_ERROR_ARGUMENT, "size %s is %lld", symbols[k], (long long)sizes[k]);
    sn_graph_init(to, g->name);
    copy_ixs(&c);
    if (!sn_ix_ok(to)) return to->env->status;
    for (uint32_t i = 0; i < g->inputs.n; i++) SN_TRY(copy_input(&c, &g->inputs.at[i]));
    sn_graph_live(from, live);
    keep_ends(live, from, &to->arena);
    for (sn_nd x = {1}; x.i < g->nodes.count; x.i++)
        if (live[x.i] && sn_node_get(from, x)->op != SN_OP_INPUT) SN_TRY(copy_node(&c, x));
    sn_wt_share(to, from);
    if (from->weights.file) to->weights.file = sn_strdup(&to->arena, from->weights.file);
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        const sn_graph_output *out = &g->outputs.at[i];
        SN_TRY(sn_graph_output_new(to, out->name, c.node[out->node.i], out->writes));
    }
    return check_repeats(to);
}
