/* build_repeat.c: the public builder functions of loops that run at run time (ir/graph/repeat.h). Shape and dtype rules are
 * in ir/graph/rules_repeat.c; what is inside of which loop is looked at when the whole graph is there.
 */
#include "frontend/build.h"

#include <stddef.h>

static sn_attr attr_int(sn_attr_id id, int64_t i) { return (sn_attr){.id = id, .i = i}; }

unsigned sn_repeat_begin(sn_graph *g) { return g && g->status == SN_OK ? ++g->m->graph.repeats : 0; }

sn_node sn_repeat_state(sn_graph *g, unsigned loop, unsigned index, sn_node first) {
    sn_attr attrs[] = {attr_int(SN_ATTR_REPEAT, loop), attr_int(SN_ATTR_INDEX, index)};
    return sn_build(g, SN_OP_REPEAT_STATE, &first, 1, attrs, 2);
}

sn_node sn_repeat_slice(sn_graph *g, unsigned loop, sn_node x, int64_t axis, bool reverse) {
    sn_attr attrs[] = {attr_int(SN_ATTR_REPEAT, loop), attr_int(SN_ATTR_AXIS, axis), attr_int(SN_ATTR_REVERSE, 1)};
    return sn_build(g, SN_OP_REPEAT_SLICE, &x, 1, attrs, reverse ? 3 : 2);
}

static sn_status check(sn_graph *g, const sn_repeat *r, const sn_node *results) {
    sn_env *env = &g->ctx->env;
    if (!results) return sn_fail(env, SN_ERROR_ARGUMENT, "repeat: results is NULL");
    if (r->n_states + r->n_stacks < 1 || r->n_states > SN_LIST_MAX || r->n_stacks > SN_LIST_MAX)
        return sn_fail(env, SN_ERROR_ARGUMENT, "repeat: %u states and %u stacks; at least one, and at most %d of each",
                       r->n_states, r->n_stacks, SN_LIST_MAX);
    if ((r->n_states && (!r->states || !r->after)) || (r->n_stacks && !r->stacks))
        return sn_fail(env, SN_ERROR_ARGUMENT, "repeat: a list of nodes is NULL");
    return SN_OK;
}

/* The lists of the end as operands of its node. */
static sn_status read_end(sn_repeat *out, sn_node **in, uint32_t *n_in, int64_t **backwards, uint32_t *n_backwards,
                          sn_graph *g, const sn_repeat *repeat, const sn_node *results) {
    *out = (sn_repeat){0};
    SN_TRY(sn_options_read(out, sizeof *out, &g->ctx->env, "sn_repeat", repeat));
    SN_TRY(check(g, out, results));
    uint32_t n = 0, back = 0;
    *in = SN_NEWN(&g->m->arena, sn_node, 2 * out->n_states + out->n_stacks + 2);
    *backwards = SN_NEWN(&g->m->arena, int64_t, out->n_stacks + 1);
    for (unsigned k = 0; k < out->n_states; k++) (*in)[n++] = out->states[k];
    for (unsigned k = 0; k < out->n_states; k++) (*in)[n++] = out->after[k];
    for (unsigned k = 0; k < out->n_stacks; k++) {
        (*in)[n++] = out->stacks[k];
        if (out->backwards && out->backwards[k]) (*backwards)[back++] = k;
    }
    if (out->goes_on.id) (*in)[n++] = out->goes_on;
    *n_in = n;
    *n_backwards = back;
    return SN_OK;
}

/* What is read for the call of the general builder. */
typedef struct end {
    sn_repeat r;
    sn_node *in;
    int64_t *backwards;
    uint32_t n_in, n_backwards;
} end;

static sn_node read_call(end *e, sn_graph *g, const sn_repeat *repeat, const sn_node *results) {
    SN_BUILD_RETURN(g, read_end(&e->r, &e->in, &e->n_in, &e->backwards, &e->n_backwards, g, repeat, results), e, repeat,
                    results);
}

/* Nothing comes of a call that is refused. */
static void give_none(sn_node *results, const sn_repeat *repeat) {
    bool known = results && repeat && repeat->struct_size >= offsetof(sn_repeat, goes_on) &&
                 repeat->n_states <= SN_LIST_MAX && repeat->n_stacks <= SN_LIST_MAX;
    for (unsigned k = 0; known && k < repeat->n_states + repeat->n_stacks; k++) results[k] = (sn_node){0};
}

void sn_repeat_end(sn_node *results, sn_graph *g, const sn_repeat *repeat) {
    end e = {0};
    read_call(&e, g, repeat, results);
    unsigned n = e.r.n_states + e.r.n_stacks;
    if (!e.in) {
        give_none(results, repeat);
        return;
    }
    sn_attr attrs[5] = {attr_int(SN_ATTR_REPEAT, e.r.loop),
                        attr_int(SN_ATTR_STATES, e.r.n_states),
                        {.id = SN_ATTR_TRIP, .ints = {&e.r.steps, 1}}};
    unsigned n_attrs = 3;
    if (e.r.goes_on.id) attrs[n_attrs++] = attr_int(SN_ATTR_WHILE, 1);
    if (e.n_backwards) attrs[n_attrs++] = (sn_attr){.id = SN_ATTR_BACKWARDS, .ints = {e.backwards, e.n_backwards}};
    sn_node whole = sn_build(g, SN_OP_REPEAT, e.in, e.n_in, attrs, n_attrs);
    for (unsigned k = 0; k < n; k++) {
        sn_attr index = attr_int(SN_ATTR_INDEX, k);
        results[k] = n == 1 ? whole : sn_build(g, SN_OP_PROJECT, &whole, 1, &index, 1);
    }
}
