/* ops_control.c: If, Loop, Scan. A branch is chosen, or becomes one that is taken at run time (ir/graph/cond.h). Many iterations
 * become a repeat (ir/graph/repeat.h), few ones are written out one after the other.
 *
 *     Loop(3, true, s) { s' = s + i }        ->        ((s + 0) + 1) + 2
 *     Loop(300, true, s) { s' = s + i }      ->        %s = repeat_state %s0 ..  %i = repeat_slice [0, 1, ..] ..
 *                                                      %r = repeat %s, (%s + %i) states=1 trip=[300]
 *
 *     Loop(, c, s) { s' = s / 2, c' = s' > 1 }  ->   %r = repeat %s, (%s / 2), (%s / 2) > 1 .. while=true
 *                                                      %y = cond %c, %r, %s0
 *
 * Where the number of iterations or the condition is not known at import, and no results are stacked, a loop is a repeat that may
 * end early, in a branch if it may have no iteration. Few iterations, or such as cannot be a repeat, are all computed, and each
 * changes the state only as long as the condition held. A repeat's steps are all alike, so its body is
 * imported once: where that fails with values that are not known (an index that has to be a number, a state that
 * changes its shape, a sequence), the iterations are written out.
 */
#include "frontend/onnx/import.h"
#include "ir/graph/cond.h"
#include "ir/graph/repeat.h"

static bool known_bool(bool *out, sn_onnx_call *c, const sn_onnx_value *v) {
    const sn_array *a;
    if (v->kind != SN_ONNX_TENSOR || !sn_onnx_try_array(&a, c, v->node) || a->numel != 1 || !a->i) return false;
    *out = a->i[0] != 0;
    return true;
}

static sn_onnx_value *new_values(sn_onnx_call *c, uint32_t n) { return SN_NEWN(c->arena, sn_onnx_value, n + 1); }

/* A condition of one element as a number of rank 0, which broadcasts. */
static sn_nd as_number(sn_onnx_call *c, sn_nd x) { return x.i ? sn_graph_reshape(c->m, x, NULL, 0) : x; }

/* x where the condition holds, else y: tensors of one type. */
static sn_status select_value(sn_onnx_value *out, sn_onnx_call *c, sn_nd condition, const sn_onnx_value *x,
                              const sn_onnx_value *y, const char *what) {
    if (x->kind != SN_ONNX_TENSOR || y->kind != SN_ONNX_TENSOR ||
        !sn_type_eq(sn_graph_type(c->m, x->node), sn_graph_type(c->m, y->node)))
        return sn_onnx_fail(c, "%s, and the condition is not known at import", what);
    *out = sn_onnx_tensor(sn_graph_where(c->m, condition, x->node, y->node));
    return c->m->env->status;
}

/* A failure that would not be one if the condition were known: why it is not. */
static sn_status fail_unknown(sn_onnx_call *c, sn_nd condition, const char *what) {
    const sn_array *a;
    const char *why = "";
    what = sn_strdup(c->arena, what);
    sn_env_clear(c->m->env);
    if (sn_onnx_array(&a, c, condition) != SN_OK) why = sn_strdup(c->arena, c->m->env->message);
    sn_env_clear(c->m->env);
    return sn_onnx_fail(c, "%s, and the condition is not known at import%s%s", what, why[0] ? ": " : "", why);
}

/* One branch or the other, when it runs: results of the same types. */
static sn_status take_branch(sn_onnx_call *c, sn_nd condition, const sn_onnx_value *yes, const sn_onnx_value *no) {
    sn_nd *lists = SN_NEWN(c->arena, sn_nd, 3 * c->n_out + 1), *a = lists, *b = a + c->n_out, *results = b + c->n_out;
    for (uint32_t k = 0; k < c->n_out; k++) {
        bool tensors = yes[k].kind == SN_ONNX_TENSOR && no[k].kind == SN_ONNX_TENSOR;
        if (!tensors || !sn_type_eq(sn_graph_type(c->m, yes[k].node), sn_graph_type(c->m, no[k].node)))
            return fail_unknown(c, condition, "the branches give different types");
        a[k] = yes[k].node;
        b[k] = no[k].node;
    }
    if (c->n_out) sn_graph_cond(results, c->m, condition, c->n_out, a, b);
    for (uint32_t k = 0; k < c->n_out; k++) sn_onnx_out(c, k, results[k]);
    return c->m->env->status;
}

sn_status sn_onnx_if(sn_onnx_call *c) {
    const sn_pb_graph *branch[2] = {sn_onnx_attr_graph(c, "then_branch"), sn_onnx_attr_graph(c, "else_branch")};
    sn_nd condition = as_number(c, sn_onnx_in(c, 0));
    sn_onnx_value *result[2], chosen = sn_onnx_tensor(condition);
    bool holds = false, known = condition.i && known_bool(&holds, c, &chosen);
    for (uint32_t b = 0; b < 2; b++) {
        if (!branch[b] || branch[b]->outputs.n < c->n_out) return sn_onnx_fail(c, "a branch has too few results");
        result[b] = new_values(c, branch[b]->outputs.n);
        if (known && holds != (b == 0)) continue;
        sn_status status = sn_onnx_body(result[b], c, branch[b], NULL, 0);
        if (status != SN_OK) return known || !condition.i ? status : fail_unknown(c, condition, c->m->env->message);
    }
    if (!known) return take_branch(c, condition, result[0], result[1]);
    for (uint32_t k = 0; k < c->n_out; k++) sn_onnx_out_value(c, k, result[holds ? 0 : 1][k]);
    return SN_OK;
}

/* ---- a repeat ---- */

/* Of a body: where its states are among its operands and results, its results behind them being stacks. */
typedef struct repetition {
    const sn_pb_graph *body;
    int64_t trip;
    uint32_t number, n_states, n_stacks;
    uint32_t n_in, state_in, state_out;
    sn_onnx_value *in;     /* of a step: all but the states are there; the states are first values */
    const bool *backwards; /* by stack; NULL: none is */
} repetition;

/* A repeat writes its states: they have elements. */
static bool can_be_state(const sn_onnx_call *c, const sn_onnx_value *v) {
    int64_t size;
    if (v->kind != SN_ONNX_TENSOR || !v->node.i) return false;
    const sn_type *t = sn_graph_type(c->m, v->node);
    for (uint32_t k = 0; k < t->rank; k++)
        if (sn_ix_is_const(c->m, t->shape[k], &size) && size == 0) return false;
    return true;
}

/* The body from states and slices; false where it has problems with them. */
static bool import_step(sn_onnx_value *result, sn_onnx_call *c, const repetition *r) {
    uint32_t problems = c->im->problems.n;
    sn_status status = sn_onnx_body(result, c, r->body, r->in, r->n_in);
    if (status == SN_OK && c->im->problems.n == problems) return true;
    if (status != SN_ERROR_MEMORY) sn_env_clear(c->m->env);
    c->im->problems.n = problems;
    return false;
}

/* May the results of a step be those of all? */
static bool suits(const sn_onnx_call *c, const repetition *r, const sn_onnx_value *result) {
    for (uint32_t k = 0; k < r->n_states + r->n_stacks; k++) {
        const sn_onnx_value *v = &result[r->state_out + k];
        if (v->kind != SN_ONNX_TENSOR || !v->node.i) return false;
        const sn_type *t = sn_graph_type(c->m, v->node);
        if (k >= r->n_states ? t->rank == SN_MAX_RANK
                             : !sn_type_eq(t, sn_graph_type(c->m, r->in[r->state_in + k].node)))
            return false;
    }
    return true;
}

/* out: last states, then stacks along their first axis. false: it cannot be a repeat, and nothing has happened. */
static bool repeated(sn_onnx_value *out, sn_onnx_value *result, sn_onnx_call *c, const repetition *r) {
    sn_module *m = c->m;
    uint32_t n = r->n_states + r->n_stacks;
    sn_nd *lists = SN_NEWN(c->arena, sn_nd, 4 * n + 1);
    sn_nd *states = lists, *after = states + n, *stacks = after + n, *results = stacks + n;
    if (!n || r->trip <= SN_ONNX_WRITTEN) return false;
    for (uint32_t k = 0; k < r->n_states; k++)
        if (!can_be_state(c, &r->in[r->state_in + k])) return false;
    for (uint32_t k = 0; k < r->n_states; k++) {
        states[k] = sn_graph_repeat_state(m, r->number, k, r->in[r->state_in + k].node);
        r->in[r->state_in + k] = sn_onnx_tensor(states[k]);
    }
    if (!import_step(result, c, r) || !suits(c, r, result)) return false;
    for (uint32_t k = 0; k < n; k++) {
        sn_nd x = result[r->state_out + k].node;
        if (k < r->n_states) after[k] = x;
        else stacks[k - r->n_states] = x;
    }
    sn_graph_repeat end = {.number = r->number,
                           .n_states = r->n_states,
                           .n_stacks = r->n_stacks,
                           .states = states,
                           .after = after,
                           .stacks = stacks,
                           .backwards = r->backwards,
                           .trip = sn_ix_const(m, r->trip)};
    sn_graph_repeat_end(results, m, &end);
    for (uint32_t k = 0; k < n; k++) out[k] = sn_onnx_tensor(results[k]);
    return m->env->status == SN_OK;
}

/* ---- results that grow by one element in each iteration ---- */

typedef struct stacked {
    SN_VEC(sn_nd) items;
} stacked;

static sn_status stack_add(stacked *st, sn_onnx_call *c, const sn_onnx_value *v, int64_t axis) {
    if (v->kind != SN_ONNX_TENSOR) return sn_onnx_fail(c, "an iteration gives a sequence; a tensor is wanted");
    if (axis < 0) axis += sn_graph_type(c->m, v->node)->rank + 1;
    sn_nd x = sn_graph_unsqueeze(c->m, v->node, &axis, 1);
    SN_PUSH(c->arena, &st->items, x);
    return c->m->env->status;
}

/* Without iterations: no elements, in the declared shape. */
static sn_nd empty_stack(sn_onnx_call *c, const sn_pb_value_info *info) {
    sn_dtype dtype;
    sn_ix shape[SN_MAX_RANK] = {sn_ix_const(c->m, 0)};
    const sn_pb_tensor_type *t = info->type ? info->type->tensor : NULL;
    if (!t || !t->shape || t->shape->dims.n >= SN_MAX_RANK || sn_onnx_dtype(&dtype, c->m->env, t->elem_type) != SN_OK) {
        sn_onnx_fail(c, "there is no iteration, and the type of its results is not declared");
        return (sn_nd){0};
    }
    for (uint32_t k = 0; k < t->shape->dims.n; k++)
        shape[k + 1] = sn_ix_const(c->m, t->shape->dims.at[k].seen & SN_PB_DIM_VALUE ? t->shape->dims.at[k].value : 1);
    return sn_graph_full(c->m, dtype, 0, shape, t->shape->dims.n + 1);
}

static sn_nd stack_end(const stacked *st, sn_onnx_call *c, const sn_pb_value_info *info, int64_t axis, bool reverse) {
    if (!st->items.n) return empty_stack(c, info);
    sn_nd *in = SN_NEWN(c->arena, sn_nd, st->items.n);
    for (uint32_t k = 0; k < st->items.n; k++) in[k] = st->items.at[reverse ? st->items.n - 1 - k : k];
    return sn_graph_concat(c->m, in, st->items.n, axis);
}

/* ---- Loop ---- */

typedef struct loop {
    const sn_pb_graph *body;
    int64_t trips;           /* INT64_MAX: the condition alone ends it, or .. */
    sn_nd limit;             /* .. this number of trips, which is not known; none: it is */
    uint32_t n_state;        /* carried values */
    sn_onnx_value condition; /* NONE: true */
    sn_nd active;            /* where the condition is not known: did it hold so far? */
    sn_onnx_value *state;
    stacked *stacks;
} loop;

/* One iteration. *goes_on: the loop is not known to end here. */
static sn_status iterate(bool *goes_on, loop *l, sn_onnx_call *c, int64_t number) {
    sn_onnx_value *in = new_values(c, l->n_state + 2), *out = new_values(c, l->body->outputs.n);
    in[0] = sn_onnx_tensor(sn_graph_ints(c->m, SN_I64, &number, NULL, 0));
    in[1] = l->condition.kind != SN_ONNX_NONE ? l->condition : sn_onnx_tensor(sn_graph_scalar(c->m, SN_BOOL, 1));
    for (uint32_t k = 0; k < l->n_state; k++) in[k + 2] = l->state[k];
    SN_TRY(sn_onnx_body(out, c, l->body, in, l->n_state + 2));
    for (uint32_t k = 0; k < l->n_state; k++) {
        const char *what = "a value changes its type from iteration to iteration";
        if (l->active.i) SN_TRY(select_value(&l->state[k], c, l->active, &out[k + 1], &l->state[k], what));
        else l->state[k] = out[k + 1];
    }
    for (uint32_t k = l->n_state + 1; k < l->body->outputs.n; k++)
        SN_TRY(stack_add(&l->stacks[k - l->n_state - 1], c, &out[k], 0));
    l->condition = out[0];
    bool holds = true;
    if (out[0].kind != SN_ONNX_TENSOR || known_bool(&holds, c, &out[0])) return *goes_on = holds, SN_OK;
    sn_nd now = as_number(c, out[0].node);
    l->active = l->active.i ? sn_graph_binary(c->m, SN_OP_AND, l->active, now) : now;
    return c->m->env->status;
}

static sn_status run_loop(loop *l, sn_onnx_call *c) {
    bool goes_on = true;
    if (l->condition.kind == SN_ONNX_TENSOR && !known_bool(&goes_on, c, &l->condition))
        l->active = as_number(c, l->condition.node);
    for (int64_t k = 0; goes_on && k < l->trips; k++) {
        if (k == SN_ONNX_ITERATIONS) return sn_onnx_fail(c, "more than %d iterations", SN_ONNX_ITERATIONS);
        if ((l->active.i || l->limit.i) && l->trips == INT64_MAX)
            return sn_onnx_fail(c, "the number of iterations is not known at import");
        SN_TRY(iterate(&goes_on, l, c, k));
    }
    if (l->active.i && l->body->outputs.n > l->n_state + 1)
        return sn_onnx_fail(c, "the number of iterations, which is a size of its results, is not known at import");
    return SN_OK;
}

/* 0, 1, ..: the number of each step. */
static sn_onnx_value step_number(sn_onnx_call *c, uint32_t repeat, int64_t trip) {
    sn_ix shape = sn_ix_const(c->m, trip);
    return sn_onnx_tensor(sn_graph_repeat_slice(c->m, repeat, sn_graph_iota(c->m, SN_I64, 0, &shape, 1), 0, false));
}

/* out: states, then stacks. */
static bool repeat_loop(sn_onnx_value *out, const loop *l, sn_onnx_call *c) {
    uint32_t n = l->body->outputs.n;
    bool holds = true;
    if (l->trips == INT64_MAX || l->trips <= SN_ONNX_WRITTEN) return false;
    if (l->condition.kind != SN_ONNX_NONE && !(known_bool(&holds, c, &l->condition) && holds)) return false;
    sn_onnx_value *in = new_values(c, l->n_state + 2), *result = new_values(c, n);
    repetition r = {.body = l->body, .trip = l->trips, .number = sn_repeat_number(c->m), .n_states = l->n_state};
    r.n_stacks = n - l->n_state - 1, r.n_in = l->n_state + 2, r.state_in = 2, r.state_out = 1, r.in = in;
    in[0] = step_number(c, r.number, l->trips);
    in[1] = sn_onnx_tensor(sn_graph_scalar(c->m, SN_BOOL, 1));
    for (uint32_t k = 0; k < l->n_state; k++) in[k + 2] = l->state[k];
    return repeated(out, result, c, &r) && known_bool(&holds, c, &result[0]) && holds;
}

static sn_nd both(sn_onnx_call *c, sn_nd a, sn_nd b) {
    return a.i && b.i ? sn_graph_binary(c->m, SN_OP_AND, a, b) : a.i ? a : b;
}

/* Is `step` below the limit? None: there is no limit, or it is known. */
static sn_nd below_limit(const loop *l, sn_onnx_call *c, sn_nd step) {
    return l->limit.i ? sn_graph_binary(c->m, SN_OP_LT, step, l->limit) : (sn_nd){0};
}

/* The end of one step of a repeat that may end early; the counter of steps is its last state. */
static bool end_while(sn_nd *results, const loop *l, sn_onnx_call *c, const repetition *r,
                      const sn_onnx_value *result) {
    enum { WITHOUT_END = INT32_MAX /* steps of a loop that nothing but its condition ends */ };
    uint32_t n = l->n_state;
    sn_nd *states = SN_NEWN(c->arena, sn_nd, 2 * n + 2), *after = states + n + 1;
    bool holds = true;
    for (uint32_t k = 0; k < n; k++) {
        states[k] = r->in[2 + k].node;
        after[k] = result[1 + k].node;
    }
    states[n] = r->in[0].node;
    after[n] = sn_graph_binary(c->m, SN_OP_ADD, states[n], sn_graph_scalar(c->m, SN_I64, 1));
    bool decided = known_bool(&holds, c, &result[0]);
    sn_nd more = both(c, decided ? (sn_nd){0} : as_number(c, result[0].node), below_limit(l, c, after[n]));
    if (decided && !holds) return false; /* one iteration */
    sn_graph_repeat end = {.number = r->number,
                           .n_states = n + 1,
                           .states = states,
                           .after = after,
                           .trip = sn_ix_const(c->m, l->trips == INT64_MAX ? WITHOUT_END : l->trips),
                           .goes_on = more};
    if (!more.i && l->trips == INT64_MAX) return false; /* it never ends */
    sn_graph_repeat_end(results, c->m, &end);
    return c->m->env->status == SN_OK;
}

/* out: states. false: it cannot be a repeat that may end early. */
static bool while_loop(sn_onnx_value *out, const loop *l, sn_onnx_call *c) {
    uint32_t n = l->n_state;
    bool holds = true, decided = l->condition.kind == SN_ONNX_NONE || known_bool(&holds, c, &l->condition);
    if (l->trips <= SN_ONNX_WRITTEN || l->body->outputs.n != n + 1 || !n || !holds) return false;
    for (uint32_t k = 0; k < n; k++)
        if (!can_be_state(c, &l->state[k])) return false;
    sn_onnx_value *in = new_values(c, n + 2), *result = new_values(c, n + 1);
    repetition r = {.body = l->body, .number = sn_repeat_number(c->m), .n_states = n, .n_in = n + 2, .in = in};
    r.state_in = 2, r.state_out = 1;
    sn_nd zero = sn_graph_scalar(c->m, SN_I64, 0), *results = SN_NEWN(c->arena, sn_nd, 3 * n + 1);
    sn_nd *first = results + n + 1, *last = first + n;
    in[1] = sn_onnx_tensor(sn_graph_scalar(c->m, SN_BOOL, 1));
    for (uint32_t k = 0; k < n; k++) {
        first[k] = l->state[k].node;
        in[2 + k] = sn_onnx_tensor(sn_graph_repeat_state(c->m, r.number, k, first[k]));
    }
    in[0] = sn_onnx_tensor(sn_graph_repeat_state(c->m, r.number, n, zero));
    if (!import_step(result, c, &r) || !suits(c, &r, result) || result[0].kind != SN_ONNX_TENSOR) return false;
    if (!end_while(results, l, c, &r, result)) return false;
    sn_nd begins = both(c, decided ? (sn_nd){0} : as_number(c, l->condition.node), below_limit(l, c, zero));
    if (begins.i) sn_graph_cond(last, c->m, begins, n, results, first);
    for (uint32_t k = 0; k < n; k++) out[k] = sn_onnx_tensor(begins.i ? last[k] : results[k]);
    return c->m->env->status == SN_OK;
}

/* How often it runs at most, as far as that is known. */
static sn_status read_trips(loop *l, sn_onnx_call *c) {
    const sn_array *a;
    if (!sn_onnx_has(c, 0)) return SN_OK;
    sn_nd trips = as_number(c, sn_onnx_in(c, 0));
    if (!trips.i) return c->m->env->status;
    if (sn_onnx_try_array(&a, c, trips)) return sn_onnx_int(&l->trips, c, 0);
    l->limit = trips;
    return SN_OK;
}

sn_status sn_onnx_loop(sn_onnx_call *c) {
    loop l = {.body = sn_onnx_attr_graph(c, "body"), .trips = INT64_MAX, .n_state = c->n_in > 2 ? c->n_in - 2 : 0};
    if (!l.body || l.body->outputs.n < l.n_state + 1) return sn_onnx_fail(c, "the body has too few results");
    SN_TRY(read_trips(&l, c));
    if (sn_onnx_has(c, 1)) l.condition = c->in[1];
    l.state = new_values(c, l.n_state);
    for (uint32_t k = 0; k < l.n_state; k++) l.state[k] = c->in[k + 2];
    l.stacks = SN_NEWN(c->arena, stacked, l.body->outputs.n);
    sn_onnx_value *out = new_values(c, l.body->outputs.n);
    if (repeat_loop(out, &l, c) || (c->m->env->status == SN_OK && while_loop(out, &l, c))) {
        for (uint32_t k = 0; k < c->n_out && k + 1 < l.body->outputs.n; k++) sn_onnx_out_value(c, k, out[k]);
        return c->m->env->status;
    }
    SN_TRY(run_loop(&l, c));
    for (uint32_t k = 0; k < l.n_state; k++) sn_onnx_out_value(c, k, l.state[k]);
    for (uint32_t k = l.n_state; k < c->n_out && k + 1 < l.body->outputs.n; k++)
        sn_onnx_out(c, k, stack_end(&l.stacks[k - l.n_state], c, &l.body->outputs.at[k + 1], 0, false));
    return c->m->env->status;
}

/* ---- Scan ---- */

typedef struct scan {
    const sn_pb_graph *body;
    uint32_t n_state, n_in, n_out; /* of states, scanned inputs, stacked outputs */
    const int64_t *in_axes, *in_directions, *out_axes, *out_directions;
    uint32_t n_in_axes, n_in_directions, n_out_axes, n_out_directions;
} scan;

static int64_t entry(const int64_t *at, uint32_t n, uint32_t k) { return k < n ? at[k] : 0; }

static sn_status scan_length(int64_t *out, const scan *s, sn_onnx_call *c, const sn_onnx_value *in) {
    *out = -1;
    for (uint32_t k = 0; k < s->n_in; k++) {
        uint32_t axis;
        int64_t shape[SN_MAX_RANK];
        if (in[k].kind != SN_ONNX_TENSOR) return sn_onnx_fail(c, "it scans a sequence; a tensor is wanted");
        SN_TRY(sn_onnx_axis(&axis, c, entry(s->in_axes, s->n_in_axes, k), sn_graph_type(c->m, in[k].node)->rank));
        SN_TRY(sn_onnx_shape(shape, c, in[k].node));
        if (*out >= 0 && *out != shape[axis])
            return sn_onnx_fail(c, "it scans %lld and %lld elements", (long long)*out, (long long)shape[axis]);
        *out = shape[axis];
    }
    return SN_OK;
}

/* The same as run_scan, as a repeat. */
static bool repeat_scan(sn_onnx_value *out, const scan *s, sn_onnx_call *c, const sn_onnx_value *values,
                        int64_t length) {
    sn_onnx_value *in = new_values(c, s->n_state + s->n_in), *result = new_values(c, s->body->outputs.n);
    bool *backwards = SN_NEWN(c->arena, bool, s->n_out + 1);
    repetition r = {.body = s->body, .trip = length, .number = sn_repeat_number(c->m), .n_states = s->n_state};
    r.n_stacks = s->n_out, r.n_in = s->n_state + s->n_in, r.in = in, r.backwards = backwards;
    if (length <= SN_ONNX_WRITTEN || s->n_out > SN_MAX_RANK)
        return false; /* which of them are backwards is a list as long as that */
    for (uint32_t k = 0; k < s->n_state; k++) in[k] = values[k];
    for (uint32_t k = 0; k < s->n_in; k++)
        in[s->n_state + k] = sn_onnx_tensor(sn_graph_repeat_slice(c->m, r.number, values[s->n_state + k].node,
                                                                  entry(s->in_axes, s->n_in_axes, k),
                                                                  entry(s->in_directions, s->n_in_directions, k)));
    for (uint32_t k = 0; k < s->n_out; k++) backwards[k] = entry(s->out_directions, s->n_out_directions, k);
    if (c->m->env->status != SN_OK || !repeated(out, result, c, &r)) return false;
    for (uint32_t k = 0; k < s->n_out; k++) {
        sn_onnx_value *v = &out[s->n_state + k];
        uint32_t axis;
        if (sn_onnx_axis(&axis, c, entry(s->out_axes, s->n_out_axes, k), sn_graph_type(c->m, v->node)->rank) != SN_OK)
            return false;
        *v = sn_onnx_tensor(sn_graph_move_axis(c->m, v->node, 0, axis));
    }
    return true;
}

/* values: states, then what is scanned; out: states, then stacks. */
static sn_status run_scan(sn_onnx_value *out, const scan *s, sn_onnx_call *c, const sn_onnx_value *values) {
    int64_t length;
    SN_TRY(scan_length(&length, s, c, values + s->n_state));
    if (repeat_scan(out, s, c, values, length)) return SN_OK;
    SN_TRY(c->m->env->status);
    if (length > SN_ONNX_ITERATIONS) return sn_onnx_fail(c, "more than %d iterations", SN_ONNX_ITERATIONS);
    stacked *stacks = SN_NEWN(c->arena, stacked, s->n_out + 1);
    sn_onnx_value *in = new_values(c, s->n_state + s->n_in), *result = new_values(c, s->body->outputs.n);
    for (uint32_t k = 0; k < s->n_state; k++) in[k] = values[k];
    for (int64_t t = 0; t < length; t++) {
        for (uint32_t k = 0; k < s->n_in; k++) {
            int64_t at = entry(s->in_directions, s->n_in_directions, k) ? length - 1 - t : t;
            in[s->n_state + k] = sn_onnx_tensor(
                sn_graph_pick(c->m, values[s->n_state + k].node, entry(s->in_axes, s->n_in_axes, k), at));
        }
        SN_TRY(sn_onnx_body(result, c, s->body, in, s->n_state + s->n_in));
        for (uint32_t k = 0; k < s->n_state; k++) in[k] = result[k];
        for (uint32_t k = 0; k < s->n_out; k++)
            SN_TRY(stack_add(&stacks[k], c, &result[s->n_state + k], entry(s->out_axes, s->n_out_axes, k)));
    }
    for (uint32_t k = 0; k < s->n_state; k++) out[k] = in[k];
    for (uint32_t k = 0; k < s->n_out; k++)
        out[s->n_state + k] = sn_onnx_tensor(stack_end(&stacks[k], c, &s->body->outputs.at[s->n_state + k],
                                                       entry(s->out_axes, s->n_out_axes, k),
                                                       entry(s->out_directions, s->n_out_directions, k)));
    return c->m->env->status;
}

/* Fill in the counts: how many of the n values are states. */
static sn_status read_scan(scan *s, sn_onnx_call *c, uint32_t n) {
    *s = (scan){.body = sn_onnx_attr_graph(c, "body"), .n_in = (uint32_t)sn_onnx_attr_int(c, "num_scan_inputs", 0)};
    if (!s->body || s->n_in > n || s->n_in == 0) return sn_onnx_fail(c, "it scans %u of %u values", s->n_in, n);
    s->n_state = n - s->n_in;
    if (s->body->outputs.n < s->n_state) return sn_onnx_fail(c, "the body has too few results");
    s->n_out = s->body->outputs.n - s->n_state;
    return SN_OK;
}

sn_status sn_onnx_scan(sn_onnx_call *c) {
    scan s;
    SN_TRY(read_scan(&s, c, c->n_in));
    sn_onnx_attr_ints(&s.in_axes, &s.n_in_axes, c, "scan_input_axes");
    sn_onnx_attr_ints(&s.in_directions, &s.n_in_directions, c, "scan_input_directions");
    sn_onnx_attr_ints(&s.out_axes, &s.n_out_axes, c, "scan_output_axes");
    sn_onnx_attr_ints(&s.out_directions, &s.n_out_directions, c, "scan_output_directions");
    sn_onnx_value *out = new_values(c, s.body->outputs.n);
    SN_TRY(run_scan(out, &s, c, c->in));
    for (uint32_t k = 0; k < c->n_out && k < s.body->outputs.n; k++) sn_onnx_out_value(c, k, out[k]);
    return c->m->env->status;
}

/* Opset 8: every value has a batch axis in front, and lengths may be given, which are not supported. */
sn_status sn_onnx_scan_batched(sn_onnx_call *c) {
    scan s;
    if (c->n_in < 2) return sn_onnx_fail(c, "there is nothing to scan");
    if (sn_onnx_has(c, 0)) return sn_onnx_fail(c, "sequence lengths are not supported");
    SN_TRY(read_scan(&s, c, c->n_in - 1));
    sn_onnx_attr_ints(&s.in_directions, &s.n_in_directions, c, "directions");
    int64_t shape[SN_MAX_RANK] = {1};
    SN_TRY(sn_onnx_shape(shape, c, sn_onnx_in(c, 1)));
    stacked *stacks = SN_NEWN(c->arena, stacked, s.body->outputs.n);
    sn_onnx_value *in = new_values(c, c->n_in), *out = new_values(c, s.body->outputs.n);
    for (int64_t b = 0; b < shape[0]; b++) {
        for (uint32_t k = 1; k < c->n_in; k++) in[k - 1] = sn_onnx_tensor(sn_graph_pick(c->m, sn_onnx_in(c, k), 0, b));
        SN_TRY(run_scan(out, &s, c, in));
        for (uint32_t k = 0; k < s.body->outputs.n; k++) SN_TRY(stack_add(&stacks[k], c, &out[k], 0));
    }
    for (uint32_t k = 0; k < c->n_out && k < s.body->outputs.n; k++)
        sn_onnx_out(c, k, stack_end(&stacks[k], c, &s.body->outputs.at[k], 0, false));
    return c->m->env->status;
}
