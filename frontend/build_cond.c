/* build_cond.c: the public builder function of branches that are taken at run time (ir/graph/cond.h). Shape and dtype rules are
 * in ir/graph/rules_repeat.c; what is inside of which branch is looked at when the whole graph is there.
 */
#include "frontend/build.h"

/* The operands of the node: the condition, the one list, the other. */
static sn_status read_operands(sn_node **out, sn_graph *g, sn_node condition, unsigned n, const sn_node *yes,
                               const sn_node *no, const sn_node *results) {
    sn_env *env = &g->ctx->env;
    if (n < 1 || n > SN_LIST_MAX / 4)
        return sn_fail(env, SN_ERROR_ARGUMENT, "cond: %u results; at least one, and at most %d", n, SN_LIST_MAX / 4);
    if (!results || !yes || !no) return sn_fail(env, SN_ERROR_ARGUMENT, "cond: a list of nodes is NULL");
    *out = SN_NEWN(&g->m->arena, sn_node, 2 * n + 1);
    (*out)[0] = condition;
    for (unsigned k = 0; k < n; k++) {
        (*out)[1 + k] = yes[k];
        (*out)[1 + n + k] = no[k];
    }
    return SN_OK;
}

static sn_node read_call(sn_node **out, sn_graph *g, sn_node condition, unsigned n, const sn_node *yes,
                         const sn_node *no, const sn_node *results) {
    SN_BUILD_RETURN(g, read_operands(out, g, condition, n, yes, no, results), out);
}

void sn_cond(sn_node *results, sn_graph *g, sn_node condition, unsigned n, const sn_node *yes, const sn_node *no) {
    sn_node *in = NULL;
    read_call(&in, g, condition, n, yes, no, results);
    for (unsigned k = 0; results && !in && k < n && n <= SN_LIST_MAX / 4; k++) results[k] = (sn_node){0};
    if (!in) return;
    sn_node whole = sn_build(g, SN_OP_COND, in, 2 * n + 1, NULL, 0);
    for (unsigned k = 0; k < n; k++) {
        sn_attr index = {.id = SN_ATTR_INDEX, .i = k};
        results[k] = n == 1 ? whole : sn_build(g, SN_OP_PROJECT, &whole, 1, &index, 1);
    }
}
