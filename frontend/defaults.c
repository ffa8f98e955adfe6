/* defaults.c: inputs that runs may leave out: sn_input_default, and their storage for a compiled program.
 *
 * In the graph a default is one value for all elements, or all of them (ir/base/store.h); a program has all of them in the storage
 * format, where it runs. What an output writes has to be given: its new value would be lost.
 */
#include "frontend/frontend.h"

static sn_status set_default(sn_graph *g, sn_node x, const void *elements, size_t size) {
    sn_env *env = &g->ctx->env;
    SN_TRY(sn_node_check(g, x, "sn_input_default", "input"));
    const sn_node_rec *n = sn_node_get(g->m, sn_inner(x));
    size_t bytes = sn_dtype_bytes(n->type.dtype);
    if (n->op != SN_OP_INPUT)
        return sn_fail(env, SN_ERROR_ARGUMENT, "sn_input_default: input is a value that is computed");
    const char *name = g->m->graph.inputs.at[n->input].name;
    int64_t count = (int64_t)(size / bytes), numel = 1;
    sn_ix_is_const(g->m, sn_type_numel(g->m, &n->type), &numel);
    if (size % bytes || (count != 1 && count != numel))
        return sn_fail(env, SN_ERROR_ARGUMENT,
                       "input %s: a default of %zu bytes; those of one element or of all are wanted", name, size);
    sn_array a = sn_array_from(&g->ctx->scratch, n->type.dtype, 1, &count, elements);
    return sn_graph_input_default(g->m, n->input, a.f, a.i, (uint64_t)count);
}

sn_status sn_input_default(sn_graph *g, sn_node input, const void *elements, size_t size) {
    SN_GUARD_RETURN(g, set_default(g, input, elements, size), elements);
}

sn_status sn_default_elements(void **out, sn_module *m, uint32_t input, sn_arena *arena) {
    sn_array a;
    SN_TRY(sn_graph_default_array(&a, m, input, arena));
    *out = sn_alloc(arena, (size_t)a.numel * sn_dtype_bytes(a.dtype));
    sn_array_store(*out, &a);
    return SN_OK;
}

sn_status sn_program_load_defaults(sn_program *p) {
    sn_arena *a = &p->ctx->scratch;
    const void **data = SN_NEWN(a, const void *, p->n_inputs + 1);
    size_t *bytes = SN_NEWN(a, size_t, p->n_inputs + 1);
    for (uint32_t k = 0; k < p->n_inputs; k++) {
        void *elements;
        if (!p->inputs[k].optional) continue;
        SN_TRY(sn_default_elements(&elements, p->source, k, a));
        data[k] = elements;
        bytes[k] = sn_port_bytes(&p->inputs[k]);
    }
    return sn_defaults_load(&p->defaults, &p->ctx->env, &p->arena, p->runner.cu, data, bytes, p->n_inputs);
}
