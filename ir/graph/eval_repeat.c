/* eval_repeat.c: the reference for repeats, their body step by step, and for branches.
 *
 * A step has an arena of its own, which ends with it: what goes on (states, elements of stacks) is copied to arrays of the
 * result. States are read by the whole step before one of them changes. Of a branch that is not taken nothing is computed.
 */
#include <string.h>

#include "ir/graph/cond.h"
#include "ir/graph/eval_internal.h"

typedef struct repeat {
    sn_eval_run *r;
    sn_nd x;
    const sn_node_rec *n;
    uint32_t n_states;
    int64_t trip;
    sn_array *results;
} repeat;

static void copy_elements(sn_array *to, int64_t at, const sn_array *from, int64_t from_at, int64_t n) {
    if (sn_is_float(to->dtype)) memcpy(to->f + at, from->f + from_at, (size_t)n * sizeof *to->f);
    else memcpy(to->i + at, from->i + from_at, (size_t)n * sizeof *to->i);
}

static sn_status make_results(repeat *rp, sn_arena *arena) {
    sn_module *m = rp->r->m;
    rp->results = SN_NEWN(arena, sn_array, rp->n->n_results);
    for (uint32_t k = 0; k < rp->n->n_results; k++) {
        sn_type t;
        uint32_t count;
        SN_TRY(sn_graph_infer(&t, &count, m, rp->n->op, rp->n->in, rp->n->n_in, rp->n->attrs, rp->n->n_attrs, k));
        SN_TRY(sn_array_new(&rp->results[k], m, &t, arena));
    }
    return SN_OK;
}

static sn_status slice(repeat *rp, sn_nd s, int64_t t) {
    sn_eval_run *r = rp->r;
    const sn_node_rec *n = sn_node_get(r->m, s);
    const sn_array *from = r->all[n->in[0].i];
    uint32_t axis = (uint32_t)sn_node_int(r->m, s, SN_ATTR_AXIS, 0);
    int64_t inner = 1, outer = 1, at = sn_node_int(r->m, s, SN_ATTR_REVERSE, 0) ? rp->trip - 1 - t : t;
    sn_array *out = r->all[s.i] = SN_NEW(r->arena, sn_array);
    SN_TRY(sn_array_new(out, r->m, &n->type, r->arena));
    for (uint32_t k = 0; k < axis; k++) outer *= from->shape[k];
    for (uint32_t k = axis + 1; k < from->rank; k++) inner *= from->shape[k];
    for (int64_t i = 0; i < outer; i++) copy_elements(out, i * inner, from, (i * rp->trip + at) * inner, inner);
    return SN_OK;
}

/* What the step reads: its states, which are the results so far, and its slices. */
static sn_status begin_step(repeat *rp, int64_t t) {
    sn_eval_run *r = rp->r;
    for (sn_nd x = {1}; x.i < rp->x.i; x.i++) {
        sn_op op = sn_node_get(r->m, x)->op;
        if (!r->live[x.i] || r->scope[x.i] != rp->x.i || (op != SN_OP_REPEAT_STATE && op != SN_OP_REPEAT_SLICE))
            continue;
        if (op == SN_OP_REPEAT_SLICE) SN_TRY(slice(rp, x, t));
        else r->all[x.i] = &rp->results[sn_node_int(r->m, x, SN_ATTR_INDEX, 0)];
        if (r->watch) SN_TRY(r->watch->node(r, x));
    }
    return SN_OK;
}

static void end_step(repeat *rp, int64_t t) {
    sn_eval_run *r = rp->r;
    const sn_attr *back = sn_node_attr(r->m, rp->x, SN_ATTR_BACKWARDS);
    sn_array *after = SN_NEWN(r->arena, sn_array, rp->n_states + 1);
    for (uint32_t k = 0; k < rp->n_states; k++) {
        after[k] = *r->all[rp->n->in[rp->n_states + k].i];
        if (sn_is_float(after[k].dtype)) after[k].f = sn_memdup(r->arena, after[k].f, (size_t)after[k].numel * 8);
        else after[k].i = sn_memdup(r->arena, after[k].i, (size_t)after[k].numel * 8);
    }
    for (uint32_t k = rp->n_states; k < rp->n->n_results; k++) {
        const sn_array *y = r->all[rp->n->in[rp->n_states + k].i];
        int64_t at = t;
        for (uint32_t i = 0; back && i < back->ints.n; i++)
            if (back->ints.at[i] == k - rp->n_states) at = rp->trip - 1 - t;
        copy_elements(&rp->results[k], at * y->numel, y, 0, y->numel);
    }
    for (uint32_t k = 0; k < rp->n_states; k++) copy_elements(&rp->results[k], 0, &after[k], 0, after[k].numel);
}

/* What was inside of the scope is there no more. */
static void forget(sn_eval_run *r, uint32_t scope, uint32_t end) {
    for (uint32_t i = 1; i < end; i++)
        if (r->scope[i] == scope) r->all[i] = NULL;
}

static sn_status run_step(bool *goes_on, repeat *rp, int64_t t) {
    sn_eval_run *r = rp->r;
    r->t = t;
    SN_TRY(begin_step(rp, t));
    SN_TRY(sn_eval_scope(r, rp->x.i, rp->x.i));
    r->t = t;
    if (r->watch) SN_TRY(r->watch->after(r, rp->x, t));
    end_step(rp, t);
    if (sn_node_int(r->m, rp->x, SN_ATTR_WHILE, 0)) *goes_on = r->all[rp->n->in[2 * rp->n_states].i]->i[0];
    forget(r, rp->x.i, rp->x.i);
    return SN_OK;
}

sn_status sn_eval_repeat(sn_eval_run *r, sn_nd x) {
    repeat rp = {.r = r, .x = x, .n = sn_node_get(r->m, x)};
    sn_arena *outside = r->arena, step;
    sn_status status = SN_OK;
    bool goes_on = true;
    rp.n_states = (uint32_t)sn_node_int(r->m, x, SN_ATTR_STATES, 0);
    sn_ix trip = sn_node_attr(r->m, x, SN_ATTR_TRIP)->shape.at[0];
    if (!sn_ix_is_const(r->m, trip, &rp.trip))
        return sn_fail(r->m->env, SN_ERROR_UNSUPPORTED, "evaluation needs a constant number of steps, found %s",
                       sn_ix_text(r->m, trip));
    SN_TRY(make_results(&rp, outside));
    for (uint32_t k = 0; k < rp.n_states; k++) {
        const sn_array *first = r->all[sn_node_get(r->m, rp.n->in[k])->in[0].i];
        copy_elements(&rp.results[k], 0, first, 0, first->numel);
    }
    for (int64_t t = 0; t < rp.trip && goes_on && status == SN_OK; t++) {
        sn_arena_init(&step, r->m->env);
        r->arena = &step;
        status = run_step(&goes_on, &rp, t);
        sn_arena_free(&step);
    }
    r->arena = outside;
    r->all[x.i] = rp.results;
    return status;
}

sn_status sn_eval_cond(sn_eval_run *r, sn_nd x) {
    const sn_node_rec *n = sn_node_get(r->m, x);
    bool other = !r->all[n->in[0].i]->i[0];
    uint32_t scope = sn_cond_scope(r->m, x, other);
    SN_TRY(sn_eval_scope(r, scope, x.i));
    sn_array *results = SN_NEWN(r->arena, sn_array, n->n_results);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = *r->all[n->in[1 + k + (other ? n->n_results : 0)].i];
    r->all[x.i] = results;
    if (r->watch) SN_TRY(r->watch->after(r, x, other));
    forget(r, scope, x.i);
    return SN_OK;
}
