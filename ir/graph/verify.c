/* verify.c: the invariants of Graph IR, numbered. Everything that sn_graph_node guarantees is checked again,
 * because passes can redirect outputs and tests can break records. Relies on sn_graph_infer for rules. Costs one
 * inference a node.
 *
 *   G1   a node is a known operation; its operands exist and have smaller ids
 *   G2   a tuple is read by project only, and project reads tuples only
 *   G3   attributes are those that ops.def lists, valid, sorted by id and in canonical form
 *   G4   the stored type and number of results are the inferred ones
 *   G5   sizes are expressions over symbols: no axes, no values
 *   G6   input nodes and the list of inputs name each other; input names are unique; a default has one element or as many as its input, which is contiguous
 *   G7   there is an output; every output is an existing tensor; output names are unique
 *   G8   `writes` names an input of the same type that no other output writes
 *   G9   equal nodes are one node
 *   G10  what is inside of a repeat is read inside of it alone; a state has a number that the repeat has; repeats nest; the axis of a slice has an element for each step
 */
#include "ir/base/text.h"
#include "ir/graph/internal.h"
#include "ir/graph/repeat.h"

#include <stdio.h>
#include <string.h>

typedef struct verifier {
    sn_module *m;
    const char *where;
    uint32_t *writer; /* by input: 1 + number of the output that writes it */
} verifier;

static sn_status broken(const verifier *v, int number, const char *format, ...) SN_PRINTF(3, 4);
static sn_status broken(const verifier *v, int number, const char *format, ...) {
    char text[SN_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args); /* may print the message of the environment */
    va_end(args);
    sn_env_clear(v->m->env);
    return sn_fail(v->m->env, SN_ERROR_VERIFY, "%s: G%d: %.*s", v->where, number, SN_MESSAGE_MAX / 2, text);
}

/* ---- sizes ---- */

static sn_status check_sizes(const verifier *v, const char *name, const sn_ix *sizes, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) {
        bool there = sizes[k].i > 0 && sizes[k].i < v->m->ixs.count;
        if (!there || !sn_ix_only_symbols(v->m, sizes[k]))
            return broken(v, 5, "%s: entry %u of a shape or of strides is not an expression over symbols", name, k);
    }
    return SN_OK;
}

/* ---- nodes ---- */

/* "node 7 (add)" */
typedef struct node_label {
    char s[64];
} node_label;

static node_label label_of(const verifier *v, sn_nd x) {
    node_label l;
    sn_op op = sn_node_get(v->m, x)->op;
    snprintf(l.s, sizeof l.s, "node %u (%s)", x.i, (unsigned)op < SN_N_OPS ? sn_ops[op].name : "?");
    return l;
}

static sn_status check_operands(const verifier *v, sn_nd x) {
    const sn_node_rec *n = sn_node_get(v->m, x);
    if ((unsigned)n->op >= SN_N_OPS) return broken(v, 1, "node %u has the unknown operation %d", x.i, (int)n->op);
    int want = sn_ops[n->op].n_in;
    if (want < 0 ? n->n_in == 0 : n->n_in != (uint32_t)want)
        return broken(v, 1, "%s has %u operands", label_of(v, x).s, n->n_in);
    for (uint32_t k = 0; k < n->n_in; k++) {
        if (n->in[k].i == 0 || n->in[k].i >= x.i)
            return broken(v, 1, "operand %u of %s is node %u, which does not come before it", k + 1, label_of(v, x).s,
                          n->in[k].i);
        bool tuple = sn_node_get(v->m, n->in[k])->n_results > 1;
        if (tuple != (n->op == SN_OP_PROJECT))
            return broken(v, 2, "operand %u of %s is %sa tuple", k + 1, label_of(v, x).s, tuple ? "" : "not ");
    }
    return SN_OK;
}

static sn_status check_attrs(const verifier *v, sn_nd x) {
    const sn_node_rec *n = sn_node_get(v->m, x);
    sn_type unused;
    sn_rule r = {v->m, n->op, n->in, n->n_in, n->attrs, n->n_attrs, 0, &unused, 1};
    if (sn_rule_check_attrs(&r) != SN_OK) return broken(v, 3, "node %u: %s", x.i, v->m->env->message);
    for (uint32_t k = 1; k < n->n_attrs; k++)
        if (n->attrs[k - 1].id >= n->attrs[k].id)
            return broken(v, 3, "attributes of %s are not sorted", label_of(v, x).s);
    return SN_OK;
}

/* After check_type: canonical form is defined for valid nodes only. */
static sn_status check_canonical(const verifier *v, sn_nd x) {
    const sn_node_rec *n = sn_node_get(v->m, x);
    sn_attr attrs[SN_N_ATTRS];
    sn_attr_store store;
    for (uint32_t k = 0; k < n->n_attrs; k++) attrs[k] = n->attrs[k];
    sn_attrs_canonical(v->m, n->op, n->in, n->n_in, &n->type, attrs, n->n_attrs, &store);
    for (uint32_t k = 0; k < n->n_attrs; k++)
        if (!sn_attr_eq(&attrs[k], &n->attrs[k]))
            return broken(v, 3, "attribute '%s' of %s is not in canonical form", sn_attrs[attrs[k].id].name,
                          label_of(v, x).s);
    return SN_OK;
}

static sn_status check_type(const verifier *v, sn_nd x) {
    const sn_node_rec *n = sn_node_get(v->m, x);
    sn_type type;
    uint32_t n_results;
    if (sn_graph_infer(&type, &n_results, v->m, n->op, n->in, n->n_in, n->attrs, n->n_attrs, 0) != SN_OK)
        return broken(v, 4, "node %u: %s", x.i, v->m->env->message);
    if (!sn_type_eq(&type, &n->type))
        return broken(v, 4, "%s has type %s but gives %s", label_of(v, x).s, sn_type_text(v->m, &n->type),
                      sn_type_text(v->m, &type));
    if (n_results != n->n_results)
        return broken(v, 4, "%s has %u results but gives %u", label_of(v, x).s, n->n_results, n_results);
    return SN_OK;
}

static sn_status check_dtype_and_sizes(const verifier *v, sn_nd x) {
    const sn_node_rec *n = sn_node_get(v->m, x);
    if ((unsigned)n->type.dtype >= SN_N_DTYPES || n->type.rank > SN_MAX_RANK)
        return broken(v, 4, "%s has no valid type", label_of(v, x).s);
    const sn_attr *elements = sn_node_attr(v->m, x, SN_ATTR_ELEMENTS);
    if (elements) SN_TRY(check_sizes(v, label_of(v, x).s, elements->shape.at, elements->shape.n));
    return check_sizes(v, label_of(v, x).s, n->type.shape, n->type.rank);
}

static sn_status check_node(const verifier *v, sn_nd x) {
    const sn_node_rec *n = sn_node_get(v->m, x);
    const sn_graph_ir *g = &v->m->graph;
    SN_TRY(check_operands(v, x));
    SN_TRY(check_dtype_and_sizes(v, x));
    if (n->op == SN_OP_INPUT) {
        bool known = n->input < g->inputs.n && sn_nd_eq(g->inputs.at[n->input].node, x);
        return known && n->n_results == 1 ? SN_OK
                                          : broken(v, 6, "%s is not input number %u", label_of(v, x).s, n->input);
    }
    SN_TRY(check_attrs(v, x));
    SN_TRY(check_type(v, x));
    SN_TRY(check_canonical(v, x));
    sn_nd same = sn_graph_find(v->m, n);
    return sn_nd_eq(same, x) ? SN_OK : broken(v, 9, "%s equals node %u", label_of(v, x).s, same.i);
}

/* ---- inputs and outputs ---- */

static sn_status check_input(const verifier *v, sn_names *names, uint32_t i) {
    const sn_graph_input *in = &v->m->graph.inputs.at[i];
    if (in->node.i == 0 || in->node.i >= v->m->graph.nodes.count || sn_node_get(v->m, in->node)->op != SN_OP_INPUT ||
        sn_node_get(v->m, in->node)->input != i)
        return broken(v, 6, "input %u has no input node", i);
    if (!sn_is_plain_name(in->name)) return broken(v, 6, "input %u has no valid name", i);
    if (sn_names_get(names, in->name)) return broken(v, 6, "two inputs are named %s", in->name);
    sn_names_put(names, in->name, 1);
    const sn_type *type = &sn_node_get(v->m, in->node)->type;
    const sn_graph_default *d = &in->otherwise;
    int64_t numel = 1;
    bool all = d->n <= 1 || (sn_ix_is_const(v->m, sn_type_numel(v->m, type), &numel) && (uint64_t)numel == d->n);
    if (d->n && (!in->contiguous || !all || (sn_is_float(type->dtype) ? !d->f : !d->i)))
        return broken(v, 6, "the default of input %s does not fit it", in->name);
    SN_TRY(check_sizes(v, in->name, in->stride, type->rank));
    return check_sizes(v, in->name, &in->offset, 1);
}

static sn_status check_writes(const verifier *v, uint32_t i) {
    const sn_graph_ir *g = &v->m->graph;
    const sn_graph_output *out = &g->outputs.at[i];
    if (out->writes < 0) return SN_OK;
    if (out->writes >= (int)g->inputs.n)
        return broken(v, 8, "output %s writes input number %d of %u", out->name, out->writes, g->inputs.n);
    const sn_type *a = &sn_node_get(v->m, out->node)->type,
                  *b = &sn_node_get(v->m, g->inputs.at[out->writes].node)->type;
    if (!sn_type_eq(a, b))
        return broken(v, 8, "output %s is %s but writes input %s, which is %s", out->name, sn_type_text(v->m, a),
                      g->inputs.at[out->writes].name, sn_type_text(v->m, b));
    uint32_t *writer = &v->writer[out->writes];
    if (*writer)
        return broken(v, 8, "outputs %s and %s both write input %s", g->outputs.at[*writer - 1].name, out->name,
                      g->inputs.at[out->writes].name);
    *writer = i + 1;
    return SN_OK;
}

static sn_status check_output(const verifier *v, sn_names *names, uint32_t i) {
    const sn_graph_ir *g = &v->m->graph;
    const sn_graph_output *out = &g->outputs.at[i];
    if (!sn_is_plain_name(out->name)) return broken(v, 7, "output %u has no valid name", i);
    if (sn_names_get(names, out->name)) return broken(v, 7, "two outputs are named %s", out->name);
    sn_names_put(names, out->name, 1);
    if (out->node.i == 0 || out->node.i >= g->nodes.count) return broken(v, 7, "output %s has no node", out->name);
    if (sn_node_get(v->m, out->node)->n_results > 1) return broken(v, 7, "output %s is a tuple", out->name);
    return check_writes(v, i);
}

static sn_status check_repeats(const verifier *v, sn_arena *scratch) {
    sn_repeat_scopes unused;
    if (sn_repeat_scopes_find(&unused, v->m, scratch) == SN_OK) return SN_OK;
    return broken(v, 10, "%s", v->m->env->message);
}

static sn_status check_all(const verifier *v, sn_arena *scratch) {
    const sn_graph_ir *g = &v->m->graph;
    sn_names inputs, outputs;
    sn_names_init(&inputs, scratch);
    sn_names_init(&outputs, scratch);
    for (sn_nd x = {1}; x.i < g->nodes.count; x.i++) SN_TRY(check_node(v, x));
    for (uint32_t i = 0; i < g->inputs.n; i++) SN_TRY(check_input(v, &inputs, i));
    if (g->outputs.n == 0) return broken(v, 7, "graph @%s has no output", g->name);
    for (uint32_t i = 0; i < g->outputs.n; i++) SN_TRY(check_output(v, &outputs, i));
    return check_repeats(v, scratch);
}

sn_status sn_graph_verify(sn_module *m, const char *where) {
    verifier v = {.m = m, .where = where};
    sn_arena scratch;
    if (m->env->status != SN_OK) return m->env->status;
    if (!m->graph.name) return SN_OK;
    sn_arena_init(&scratch, m->env);
    v.writer = SN_NEWN(&scratch, uint32_t, m->graph.inputs.n);
    sn_status status = check_all(&v, &scratch);
    sn_arena_free(&scratch);
    return status;
}
