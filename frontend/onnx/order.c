/* order.c: the order in which nodes of a model are imported: each behind those whose results it takes.
 *
 *     %y = Relu %later ;  %later = Cast %x        becomes        %later = Cast %x ;  %y = Relu %later
 *
 * ONNX wants nodes in such an order, but tools that put theirs at the end of the list (the converters to halves among them)
 * write others, and onnxruntime takes those. Nodes that are in order stay in it; where some wait for each other the
 * importer meets a name that has a maker and no value, and says so. Bodies of loops and branches name results of the nodes around them;
 * their own nodes, which may run many times, are taken as they stand. Cost: linear in operands.
 */
#include "frontend/onnx/import.h"

enum { NEW, BEGUN, DONE };

typedef struct visit {
    uint32_t node, next;
    SN_VEC(uint32_t) wants; /* nodes that come before it */
} visit;

typedef struct sorter {
    sn_arena *arena;
    sn_names *makers; /* by result: 1 + the number of the node */
    uint8_t *state;
    SN_VEC(visit) path;
} sorter;

static void want(sorter *s, visit *v, const char *name) {
    uint32_t maker = name && name[0] ? sn_names_get(s->makers, name) : 0;
    if (maker && s->state[maker - 1] == NEW) SN_PUSH(s->arena, &v->wants, maker - 1);
}

static void want_operands(sorter *s, visit *v, const sn_pb_node *n, uint32_t depth) {
    for (uint32_t k = 0; k < n->inputs.n; k++) want(s, v, n->inputs.at[k]);
    for (uint32_t k = 0; k < n->attributes.n && depth < SN_ONNX_NESTING; k++) {
        const sn_pb_graph *body = n->attributes.at[k].g;
        for (uint32_t i = 0; body && i < body->nodes.n; i++) want_operands(s, v, &body->nodes.at[i], depth + 1);
        for (uint32_t i = 0; body && i < body->outputs.n; i++) want(s, v, body->outputs.at[i].name);
    }
}

static void begin(sorter *s, const sn_pb_node *nodes, uint32_t k) {
    visit v = {.node = k};
    s->state[k] = BEGUN;
    want_operands(s, &v, &nodes[k], 0);
    SN_PUSH(s->arena, &s->path, v);
}

const uint32_t *sn_onnx_order(sn_names *makers, sn_arena *arena, const sn_pb_node *nodes, uint32_t n) {
    sorter s = {.arena = arena, .makers = makers, .state = SN_NEWN(arena, uint8_t, n + 1)};
    uint32_t *order = SN_NEWN(arena, uint32_t, n + 1), done = 0;
    sn_names_init(makers, arena);
    for (uint32_t k = n; k-- > 0;) /* of two results of one name the first one counts */
        for (uint32_t i = 0; i < nodes[k].outputs.n; i++)
            if (nodes[k].outputs.at[i] && nodes[k].outputs.at[i][0])
                sn_names_put(makers, nodes[k].outputs.at[i], k + 1);
    for (uint32_t k = 0; k < n; k++) {
        if (s.state[k] == NEW) begin(&s, nodes, k);
        while (s.path.n) {
            visit *v = &s.path.at[s.path.n - 1];
            if (v->next < v->wants.n) {
                uint32_t wanted = v->wants.at[v->next++];
                if (s.state[wanted] == NEW) begin(&s, nodes, wanted);
                continue;
            }
            s.state[v->node] = DONE;
            order[done++] = v->node;
            s.path.n--;
        }
    }
    return order;
}
