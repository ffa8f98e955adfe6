/* count.c: what an element of a node takes, for the pass `to-loops` on a CPU.
 *
 *     %d = sub %a, %b   %q = mul %d, %d   %r = add %q, %d          3 operations, 2 reads: %d is computed once
 *     %l = slice %r ..  %h = slice %r ..  %s = add %l, %h          7 operations, 4 reads of 2 buffers: %r is, twice
 *
 * An operation that several others read at the same element is one instruction of a kernel (the memo of element.c), and a sum over
 * operands, as the other rules of realize.c count, has it as often as there are ways to it: what follows from the square of a
 * distance soon counts as hundreds of operations. What is read through different views, pads and concatenations is computed at
 * different elements, as often as there are such paths. A GPU goes by the sums, with which its thresholds were measured.
 *
 * Two paths are taken for one if the same views stand on them; the same element by other views is counted twice. Relies on the
 * operands of x being decided. Cost: what is counted of a node ends at MOST steps, and nodes below few operations are not counted.
 */
#include "passes/base/constants.h"
#include "passes/lower/lower.h"

enum { MOST = SN_REALIZE_SATURATED / 2, SLOTS = 1024 /* a power of two, twice as many as there are steps at least */ };

/* A node at the element where a path leads; path 0: at that of x itself. */
typedef struct place {
    uint32_t node;
    uint64_t path;
} place;

typedef struct counting {
    const sn_lower *lw;
    place seen[SLOTS];
    uint32_t n;
    sn_lower_count *out;
} counting;

/* Was it not there yet? */
static bool add(counting *c, sn_nd x, uint64_t path) {
    uint32_t at = (uint32_t)sn_hash(path, x.i) & (SLOTS - 1);
    for (; c->seen[at].node; at = (at + 1) & (SLOTS - 1))
        if (c->seen[at].node == x.i && c->seen[at].path == path) return false;
    c->seen[at] = (place){x.i, path};
    c->n++;
    return true;
}

/* At another element than x for each operand, so that its number is part of the path. */
static bool moves(const sn_node_rec *n) { return sn_ops[n->op].cls == SN_OPS_VIEW || sn_ops[n->op].cls == SN_OPS_MOVE; }

static void count_read(counting *c, sn_nd x, uint64_t path) {
    enum { ANYWHERE = 1 }; /* a path that none has: the node is a buffer that was met */
    c->out->reads += add(c, x, path);
    c->out->buffers += add(c, x, ~(uint64_t)ANYWHERE);
}

/* x, `times` elements of it. */
static void count(counting *c, sn_nd x, uint64_t path, uint32_t times) {
    const sn_lower_node *info = &c->lw->nodes[x.i];
    const sn_node_rec *n = sn_node_get(c->lw->m, x);
    if (c->n >= MOST) return;
    if (info->realized) {
        count_read(c, x, path);
        return;
    }
    if (!add(c, x, path)) return;
    bool reduces = sn_ops[n->op].cls == SN_OPS_REDUCE, moved = moves(n) || reduces;
    if (reduces) times *= (uint32_t)sn_lower_reduced(c->lw, x);
    c->out->ops += times * sn_lower_own_ops(n);
    for (uint32_t k = 0; k < n->n_in; k++)
        count(c, n->in[k], moved ? sn_hash(sn_hash(path, sn_node_hash_what(n)), k) : path, times);
}

void sn_lower_count_node(sn_lower_count *out, const sn_lower *lw, sn_nd x) {
    counting c = {.lw = lw, .out = out};
    const sn_node_rec *n = sn_node_get(lw->m, x);
    *out = (sn_lower_count){.ops = sn_lower_own_ops(n)};
    uint64_t path = sn_hash(0, moves(n) ? sn_node_hash_what(n) : 0);
    for (uint32_t k = 0; k < n->n_in; k++) count(&c, n->in[k], moves(n) ? sn_hash(path, k) : path, 1);
    if (c.n >= MOST) *out = (sn_lower_count){SN_REALIZE_SATURATED, SN_REALIZE_SATURATED, SN_REALIZE_SATURATED};
}
