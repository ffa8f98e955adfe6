/* rewrite.c: rebuilding a graph through a rule. See rewrite.h. Linear in the nodes of the graph. Relies on the graph's
 * constructors for interning and types; knows no operation beside inputs.
 */
#include "passes/graph/rewrite.h"

#include <string.h>

static const sn_node_rec *node_of(const sn_graph_ir *g, uint32_t i) { return sn_table_at(&g->nodes, i); }

static sn_status copy_inputs(sn_module *m, const sn_graph_ir *old, sn_nd *map) {
    for (uint32_t k = 0; k < old->inputs.n; k++) {
        const sn_graph_input *in = &old->inputs.at[k];
        const sn_type *type = &node_of(old, in->node.i)->type;
        map[in->node.i] = sn_graph_input_new(m, in->name, type, in->stride, in->offset);
        if (!map[in->node.i].i) return m->env->status;
        m->graph.inputs.at[k].otherwise = in->otherwise;
    }
    return SN_OK;
}

/* The node with its operands mapped, through the rule. */
static sn_nd rebuild_node(sn_pass_ctx *cx, const sn_node_rec *node, const sn_nd *map, sn_node_rule rule) {
    sn_module *m = cx->m;
    sn_nd *in = SN_NEWN(cx->scratch, sn_nd, node->n_in + 1);
    for (uint32_t k = 0; k < node->n_in; k++) in[k] = map[node->in[k].i];
    sn_nd x = sn_graph_node(m, node->op, in, node->n_in, node->attrs, node->n_attrs);
    if (!x.i || !rule) return x;
    sn_nd y = rule(cx, x);
    if (y.i && !sn_type_eq(sn_type_of(m, x), sn_type_of(m, y))) {
        sn_fail(m->env, SN_ERROR_INTERNAL, "%s of type %s was replaced by %s of type %s", sn_ops[node->op].name,
                sn_type_text(m, sn_type_of(m, x)), sn_ops[sn_node_get(m, y)->op].name,
                sn_type_text(m, sn_type_of(m, y)));
        return (sn_nd){0};
    }
    if (y.i && !sn_nd_eq(x, y))
        sn_remark(cx, node->name ? node->name : "graph", "%s became %s", sn_ops[node->op].name,
                  sn_ops[sn_node_get(m, y)->op].name);
    return y;
}

/* A hint belongs to what the node computes: a replacement takes it unless it has one. */
static void keep_name(sn_module *m, sn_nd x, const char *name) {
    if (name && !sn_node_get(m, x)->name) sn_graph_name(m, x, name);
}

static sn_status rebuild(sn_pass_ctx *cx, sn_node_rule rule) {
    sn_module *m = cx->m;
    const sn_graph_ir old = m->graph;
    uint8_t *live = SN_NEWN(cx->scratch, uint8_t, old.nodes.count);
    sn_nd *map = SN_NEWN(cx->scratch, sn_nd, old.nodes.count);
    sn_graph_live(m, live);
    memset(&m->graph, 0, sizeof m->graph);
    sn_graph_init(m, old.name);
    SN_TRY(copy_inputs(m, &old, map));
    for (uint32_t i = 1; i < old.nodes.count; i++) {
        const sn_node_rec *node = node_of(&old, i);
        if (!live[i] || node->op == SN_OP_INPUT) continue;
        m->graph.origin = node->origin;
        map[i] = rebuild_node(cx, node, map, rule);
        m->graph.origin = NULL;
        if (!map[i].i) return m->env->status;
        keep_name(m, map[i], node->name);
    }
    for (uint32_t k = 0; k < old.outputs.n; k++) {
        const sn_graph_output *o = &old.outputs.at[k];
        SN_TRY(sn_graph_output_new(m, o->name, map[o->node.i], o->writes));
    }
    return SN_OK;
}

/* ---- did it change? Node for node: same operation on the same ids with the same name gives the same text. ---- */

static bool same_name(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

/* The hash covers the attributes: only a collision of 64-bit hashes of nodes that agree in all else could hide a
 * change. */
static bool same_node(const sn_node_rec *a, const sn_node_rec *b) {
    return a->op == b->op && a->hash == b->hash && a->n_in == b->n_in && a->n_attrs == b->n_attrs &&
           (!a->n_in || !memcmp(a->in, b->in, a->n_in * sizeof *a->in)) && sn_type_eq(&a->type, &b->type) &&
           same_name(a->name, b->name);
}

static bool same_graph(const sn_graph_ir *a, const sn_graph_ir *b) {
    if (a->nodes.count != b->nodes.count) return false;
    for (uint32_t i = 1; i < a->nodes.count; i++)
        if (!same_node(node_of(a, i), node_of(b, i))) return false;
    for (uint32_t k = 0; k < a->outputs.n; k++)
        if (!sn_nd_eq(a->outputs.at[k].node, b->outputs.at[k].node)) return false;
    return true;
}

/* Every rebuild is a copy of the graph in the arena, so it is done only where there is something to drop. */
static sn_status drop_dead(sn_pass_ctx *cx) {
    const sn_module *m = cx->m;
    uint8_t *live = SN_NEWN(cx->scratch, uint8_t, m->graph.nodes.count);
    sn_graph_live(m, live);
    for (uint32_t i = 1; i < m->graph.nodes.count; i++)
        if (!live[i] && sn_node_get(m, (sn_nd){i})->op != SN_OP_INPUT) return rebuild(cx, NULL);
    return SN_OK;
}

/* The text shows live nodes only, so what the rule made is compared with the live part of the graph that was there. */
sn_status sn_graph_rewrite(sn_pass_ctx *cx, sn_node_rule rule, bool *changed) {
    sn_module *m = cx->m;
    *changed = false;
    if (m->graph.nodes.count <= 1 || m->kernels.n) return SN_OK; /* once there are kernels they stand for the graph */
    const sn_graph_ir old = m->graph;
    sn_status st = drop_dead(cx);
    const sn_graph_ir live = m->graph;
    if (st == SN_OK) st = rebuild(cx, rule);
    if (st == SN_OK) st = drop_dead(cx);
    if (st != SN_OK) m->graph = old;
    else if (same_graph(&live, &m->graph)) m->graph = live;
    else *changed = true;
    return st;
}

/* ---- shorthands ---- */

bool sn_type_static(const sn_module *m, const sn_type *t, int64_t *numel) {
    int64_t n = 1, size;
    for (uint32_t k = 0; k < t->rank; k++)
        if (!sn_ix_is_const(m, t->shape[k], &size) || sn_mul_overflow(n, size, &n)) return false;
    *numel = n;
    return true;
}

bool sn_same_shape(const sn_type *a, const sn_type *b) {
    return a->rank == b->rank && (!a->rank || !memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]));
}

sn_nd sn_node_as(sn_module *m, sn_nd x, const sn_type *type) {
    x = sn_graph_cast(m, x, type->dtype);
    if (!x.i || sn_same_shape(sn_type_of(m, x), type)) return x;
    return sn_graph_expand(m, x, type->shape, type->rank);
}
