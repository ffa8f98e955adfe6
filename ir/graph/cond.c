/* cond.c: which nodes are inside of which branch, and a shorthand to make one. See cond.h.
 *
 *     %s  exp %x             who wants it: %a                        inside of the first branch of %y
 *     %a  add %s, 1          %y, as its first branch                 inside of the first branch of %y
 *     %b  neg %x             %y, as its second branch, and %z        inside of nothing
 *     %y  cond %p, %a, %b    %z
 *     %z  mul %y, %b
 *
 * One walk over the nodes from the last one on: who wants a node has been seen then. It is inside of what is around all who
 * want it, as far as its own repeat has that inside: a state and a slice are of their repeat, what a step reads from outside is
 * there before its repeat. Scopes are a tree: `of` of the node of a scope is the one around. Cost: operands times depth.
 */
#include "ir/graph/cond.h"

#include "ir/graph/internal.h"
#include "ir/graph/repeat.h"

typedef struct finder {
    sn_module *m;
    const uint32_t *repeat; /* by node id: the innermost repeat; of ends, the one around */
    uint32_t *of;
    bool *wanted; /* by node id: somebody has been seen who wants it */
} finder;

static bool is_repeat(const finder *f, uint32_t scope) {
    return scope && scope < f->m->graph.nodes.count && sn_node_get(f->m, (sn_nd){scope})->op == SN_OP_REPEAT;
}

static uint32_t around(const finder *f, uint32_t scope) { return f->of[sn_scope_node(f->m, scope).i]; }

/* The innermost repeat of a scope, which may be one. */
static uint32_t repeat_of(const finder *f, uint32_t scope) {
    while (scope && !is_repeat(f, scope)) scope = around(f, scope);
    return scope;
}

static uint32_t depth_of(const finder *f, uint32_t scope) {
    uint32_t depth = 0;
    for (; scope; scope = around(f, scope)) depth++;
    return depth;
}

static uint32_t around_both(const finder *f, uint32_t a, uint32_t b) {
    uint32_t da = depth_of(f, a), db = depth_of(f, b);
    for (; da > db; da--) a = around(f, a);
    for (; db > da; db--) b = around(f, b);
    for (; a != b; b = around(f, b)) a = around(f, a);
    return a;
}

/* Where x wants its operand k. */
static uint32_t wants_at(const finder *f, uint32_t x, uint32_t k) {
    const sn_node_rec *n = sn_node_get(f->m, (sn_nd){x});
    if (n->op == SN_OP_COND && k) return sn_cond_scope(f->m, (sn_nd){x}, k > n->n_results);
    return n->op == SN_OP_REPEAT && f->repeat[n->in[k].i] == x ? x : f->of[x];
}

static void want(finder *f, uint32_t in, uint32_t at) {
    for (uint32_t r = repeat_of(f, at); r != f->repeat[in] && r; r = repeat_of(f, at)) at = around(f, r);
    f->of[in] = f->wanted[in] ? around_both(f, f->of[in], at) : at;
    f->wanted[in] = true;
}

static bool is_of_its_repeat(const sn_node_rec *n) {
    return n->op == SN_OP_INPUT || n->op == SN_OP_REPEAT_STATE || n->op == SN_OP_REPEAT_SLICE;
}

static bool any_cond(const sn_module *m, const uint8_t *live) {
    for (uint32_t i = 1; i < m->graph.nodes.count; i++)
        if (live[i] && sn_node_get(m, (sn_nd){i})->op == SN_OP_COND) return true;
    return false;
}

void sn_cond_scopes_find(uint32_t *of, sn_module *m, sn_arena *a, const uint8_t *live) {
    uint32_t count = m->graph.nodes.count;
    if (!any_cond(m, live)) return;
    finder f = {m, sn_memdup(a, of, count * sizeof *of), of, SN_NEWN(a, bool, count)};
    for (uint32_t k = 0; k < m->graph.outputs.n; k++) want(&f, m->graph.outputs.at[k].node.i, 0);
    for (uint32_t x = count; x-- > 1;) {
        const sn_node_rec *n = sn_node_get(m, (sn_nd){x});
        if (!live[x]) continue;
        if (is_of_its_repeat(n)) of[x] = f.repeat[x];
        for (uint32_t k = 0; k < n->n_in; k++) want(&f, n->in[k].i, wants_at(&f, x, k));
    }
}

/* ---- making one ---- */

void sn_graph_cond(sn_nd *results, sn_module *m, sn_nd condition, uint32_t n, const sn_nd *yes, const sn_nd *no) {
    sn_nd *in = SN_NEWN(&m->arena, sn_nd, 2 * n + 1);
    bool complete = condition.i;
    in[0] = condition;
    for (uint32_t k = 0; k < n; k++) {
        in[1 + k] = yes[k];
        in[1 + n + k] = no[k];
        results[k] = (sn_nd){0};
        complete &= yes[k].i && no[k].i;
    }
    sn_nd whole = complete ? sn_graph_node(m, SN_OP_COND, in, 2 * n + 1, NULL, 0) : (sn_nd){0};
    for (uint32_t k = 0; k < n && whole.i; k++) results[k] = n == 1 ? whole : sn_graph_project(m, whole, k);
}

sn_nd sn_cond_result(uint32_t *index, const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    sn_nd whole = n->op == SN_OP_PROJECT ? n->in[0] : x;
    *index = n->op == SN_OP_PROJECT ? (uint32_t)sn_node_int(m, x, SN_ATTR_INDEX, 0) : 0;
    return sn_node_get(m, whole)->op == SN_OP_COND ? whole : (sn_nd){0};
}
