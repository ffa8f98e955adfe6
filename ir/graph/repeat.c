/* repeat.c: which nodes are inside of which repeat, and shorthands to make one. See repeat.h.
 *
 *     %h  state of 1         of 1           the end of 1 is node 9, that of 2 is node 6:
 *     %s  state of 2 of %h   of 2, in 1     of[%s] = 6, of[6] = 9, of[9] = 0
 *     %q  add %s, %h         of 2, in 1
 *
 * Of two loops that a node is made of, one is inside of the other: it ends first, so its end has the smaller id. Which one
 * is around it is known when a node of both, or its end, has been seen: all of them stand before its end. One walk over the
 * nodes; a step of it follows as many loops as are around each other.
 */
#include "ir/graph/repeat.h"

#include "ir/graph/cond.h"
#include "ir/graph/internal.h"

typedef struct finder {
    sn_module *m;
    uint32_t *of;  /* as sn_repeat_scopes: of ends, the loop around */
    uint32_t *end; /* by number of a repeat: its end */
} finder;

static const sn_node_rec *node_of(const finder *f, uint32_t x) { return sn_node_get(f->m, (sn_nd){x}); }

static uint32_t number_of(const finder *f, uint32_t x) {
    return (uint32_t)sn_node_int(f->m, (sn_nd){x}, SN_ATTR_REPEAT, 0);
}

/* An end that nobody reads counts where there is no other: what is read of its loop is a value inside of it. */
static sn_status find_ends(finder *f, const uint8_t *live) {
    for (uint32_t i = 1; i < f->m->graph.nodes.count; i++) {
        if (node_of(f, i)->op != SN_OP_REPEAT) continue;
        uint32_t *end = &f->end[number_of(f, i)];
        if (*end && !live[i]) continue;
        if (*end && live[*end])
            return sn_fail(f->m->env, SN_ERROR_TYPE, "repeat: number %u ends twice: only one may have it",
                           number_of(f, i));
        *end = i;
    }
    return SN_OK;
}

/* `around` is around `in`: what is around that already is inside of it, or outside. */
static void nest(finder *f, uint32_t in, uint32_t around) {
    for (uint32_t now = f->of[in]; around && now != around; now = f->of[in]) {
        bool closer = !now || around < now;
        f->of[in] = closer ? around : now;
        in = f->of[in];
        around = closer ? now : around;
    }
}

/* The inner one of two loops. */
static uint32_t inner(finder *f, uint32_t a, uint32_t b) {
    if (!a || !b || a == b) return a ? a : b;
    uint32_t first = a < b ? a : b;
    nest(f, first, a < b ? b : a);
    return first;
}

static sn_status check_slice(const finder *f, uint32_t x, uint32_t end) {
    const sn_node_rec *n = node_of(f, x);
    sn_ix trip = sn_node_attr(f->m, (sn_nd){end}, SN_ATTR_TRIP)->shape.at[0];
    const sn_type *t = &sn_node_get(f->m, n->in[0])->type;
    sn_ix size = t->shape[sn_node_int(f->m, (sn_nd){x}, SN_ATTR_AXIS, 0)];
    if (sn_ix_eq(size, trip)) return SN_OK;
    return sn_fail(f->m->env, SN_ERROR_TYPE, "repeat_slice: the axis has %s elements, repeat %u has %s steps",
                   sn_ix_text(f->m, size), number_of(f, x), sn_ix_text(f->m, trip));
}

/* It has a number that the repeat has, and is something at first before that begins. */
static sn_status check_state(const finder *f, uint32_t x, uint32_t end) {
    int64_t index = sn_node_int(f->m, (sn_nd){x}, SN_ATTR_INDEX, 0);
    int64_t states = sn_node_int(f->m, (sn_nd){end}, SN_ATTR_STATES, 0);
    uint32_t in = f->of[node_of(f, x)->in[0].i];
    if (index >= states)
        return sn_fail(f->m->env, SN_ERROR_TYPE, "repeat_state: index=%lld, repeat %u has %lld states",
                       (long long)index, number_of(f, x), (long long)states);
    while (in && in < end) in = f->of[in];
    if (in != end) return SN_OK;
    return sn_fail(f->m->env, SN_ERROR_TYPE, "repeat_state: what it is at first is a value inside of repeat %u itself",
                   number_of(f, x));
}

static sn_status look(finder *f, uint32_t x) {
    const sn_node_rec *n = node_of(f, x);
    uint32_t scope = 0;
    if (n->op == SN_OP_REPEAT_STATE || n->op == SN_OP_REPEAT_SLICE) {
        scope = f->end[number_of(f, x)];
        if (!scope)
            return sn_fail(f->m->env, SN_ERROR_TYPE, "%s: repeat %u has no end", sn_ops[n->op].name, number_of(f, x));
        if (n->op == SN_OP_REPEAT_SLICE) SN_TRY(check_slice(f, x, scope));
        else SN_TRY(check_state(f, x, scope));
    }
    if (n->op == SN_OP_REPEAT) scope = x;
    for (uint32_t k = 0; k < n->n_in; k++) {
        uint32_t in = f->of[n->in[k].i];
        if (in && in < x)
            return sn_fail(f->m->env, SN_ERROR_TYPE, "%s: operand %u is a value inside of repeat %u, which is over",
                           sn_ops[n->op].name, k + 1, number_of(f, in));
        scope = inner(f, scope, in);
    }
    if (n->op != SN_OP_REPEAT) f->of[x] = scope; /* of an end: `inner` has noted what is around it */
    return SN_OK;
}

sn_status sn_repeat_scopes_find(sn_repeat_scopes *out, sn_module *m, sn_arena *a) {
    const sn_graph_ir *g = &m->graph;
    finder f = {.m = m, .of = SN_NEWN(a, uint32_t, g->nodes.count)};
    uint8_t *live = SN_NEWN(a, uint8_t, g->nodes.count);
    out->of = f.of;
    f.end = SN_NEWN(a, uint32_t, g->repeats + 1);
    sn_graph_live(m, live);
    SN_TRY(find_ends(&f, live));
    for (uint32_t i = 1; i < g->nodes.count && g->repeats; i++)
        if (live[i]) SN_TRY(look(&f, i));
    for (uint32_t k = 0; k < g->outputs.n; k++) {
        uint32_t in = f.of[g->outputs.at[k].node.i];
        if (in && sn_node_get(m, g->outputs.at[k].node)->op != SN_OP_REPEAT)
            return sn_fail(m->env, SN_ERROR_TYPE, "output %s is a value inside of repeat %u", g->outputs.at[k].name,
                           number_of(&f, in));
    }
    sn_cond_scopes_find(f.of, m, a, live);
    return SN_OK;
}

/* ---- making one ---- */

uint32_t sn_repeat_number(const sn_module *m) { return m->graph.repeats + 1; }

static sn_attr int_attr(sn_attr_id id, int64_t i) { return (sn_attr){.id = id, .i = i}; }

sn_nd sn_graph_repeat_state(sn_module *m, uint32_t number, uint32_t index, sn_nd first) {
    sn_attr attrs[] = {int_attr(SN_ATTR_REPEAT, number), int_attr(SN_ATTR_INDEX, index)};
    return first.i ? sn_graph_node(m, SN_OP_REPEAT_STATE, &first, 1, attrs, 2) : first;
}

sn_nd sn_graph_repeat_slice(sn_module *m, uint32_t number, sn_nd x, int64_t axis, bool reverse) {
    sn_attr attrs[] = {int_attr(SN_ATTR_REPEAT, number), int_attr(SN_ATTR_AXIS, axis), int_attr(SN_ATTR_REVERSE, 1)};
    return x.i ? sn_graph_node(m, SN_OP_REPEAT_SLICE, &x, 1, attrs, reverse ? 3 : 2) : x;
}

void sn_graph_repeat_end(sn_nd *results, sn_module *m, const sn_graph_repeat *end) {
    uint32_t n = 0, n_back = 0, count = end->n_states + end->n_stacks;
    sn_nd *in = SN_NEWN(&m->arena, sn_nd, 2 * end->n_states + end->n_stacks + 2);
    int64_t *back = SN_NEWN(&m->arena, int64_t, end->n_stacks + 1);
    for (uint32_t k = 0; k < end->n_states; k++) in[n++] = end->states[k];
    for (uint32_t k = 0; k < end->n_states; k++) in[n++] = end->after[k];
    for (uint32_t k = 0; k < end->n_stacks; k++) {
        in[n++] = end->stacks[k];
        if (end->backwards && end->backwards[k]) back[n_back++] = k;
    }
    if (end->goes_on.i) in[n++] = end->goes_on;
    for (uint32_t k = 0; k < count; k++) results[k] = (sn_nd){0};
    for (uint32_t k = 0; k < n; k++)
        if (!in[k].i) return;
    sn_attr attrs[5] = {int_attr(SN_ATTR_REPEAT, end->number),
                        int_attr(SN_ATTR_STATES, end->n_states),
                        {.id = SN_ATTR_TRIP, .shape = {&end->trip, 1}}};
    uint32_t n_attrs = 3;
    if (end->goes_on.i) attrs[n_attrs++] = int_attr(SN_ATTR_WHILE, 1);
    if (n_back) attrs[n_attrs++] = (sn_attr){.id = SN_ATTR_BACKWARDS, .ints = {back, n_back}};
    sn_nd whole = sn_graph_node(m, SN_OP_REPEAT, in, n, attrs, n_attrs);
    for (uint32_t k = 0; k < count && whole.i; k++) results[k] = count == 1 ? whole : sn_graph_project(m, whole, k);
}

sn_nd sn_repeat_result(uint32_t *index, const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    sn_nd whole = n->op == SN_OP_PROJECT ? n->in[0] : x;
    *index = n->op == SN_OP_PROJECT ? (uint32_t)sn_node_int(m, x, SN_ATTR_INDEX, 0) : 0;
    return sn_node_get(m, whole)->op == SN_OP_REPEAT ? whole : (sn_nd){0};
}
