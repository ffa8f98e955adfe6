/* demand.c: what the users of an input ask of its values: that they are valid positions, that they are not negative.
 *
 * In a graph both are found by following the input through views and casts to its users. A variance
 * is an operand of a batch norm, or what reaches a square root after it was scaled or added to: 0.999*v + 0.001*g^2, v
 * + eps. (The square root of an input as it is may well be one that a test wants nan from.) A kernel says as much by its
 * accesses: in `load t[64*max(min(%6, 999), 0) + j]` what %6 is made of is a position below 1000, and what reaches a
 * square root or a logarithm, through whatever elementwise operations, had better be positive. What a reduction or a scan makes of
 * an element counts for nothing: a sum is no position because its terms are. Cost: linear in both, for each input.
 */
#include "frontend/demand.h"

/* ---- nodes ---- */

/* Axis of operand 0 that operand 1 gives positions on; false for operations that take no positions. */
static bool indexed_axis(int64_t *axis, const sn_module *m, sn_nd x) {
    sn_op op = sn_node_get(m, x)->op;
    *axis = op == SN_OP_CROSS_ENTROPY ? 1 : sn_node_int(m, x, SN_ATTR_AXIS, 0);
    return op == SN_OP_GATHER || op == SN_OP_INDEX_SELECT || op == SN_OP_CROSS_ENTROPY;
}

/* What a node is of the input: the same values, or a part of a sum of them. */
enum { NOT_FROM_INPUT, IS_INPUT, HAS_INPUT };

static void look_at_user(sn_demand *d, const sn_module *m, sn_nd user, const uint8_t *from_input) {
    const sn_node_rec *n = sn_node_get(m, user);
    int64_t axis, size;
    if (indexed_axis(&axis, m, user) && from_input[n->in[1].i] == IS_INPUT) {
        const sn_type *x = &sn_node_get(m, n->in[0])->type;
        if (sn_ix_is_const(m, x->shape[axis < 0 ? axis + x->rank : axis], &size) && size < d->positions)
            d->positions = size;
    }
    bool normalises = n->op == SN_OP_BATCH_NORM || n->op == SN_OP_BATCH_NORM_TRAIN;
    if (normalises && from_input[n->in[4].i] == IS_INPUT) d->positive = true;
    bool roots = n->op == SN_OP_SQRT || n->op == SN_OP_RSQRT;
    if (roots && from_input[n->in[0].i] == HAS_INPUT) d->positive = true;
}

static bool is_positive_number(const sn_module *m, sn_nd x) {
    return sn_node_get(m, x)->op == SN_OP_FULL && sn_node_float(m, x, SN_ATTR_VALUE, 0) > 0;
}

static uint8_t origin_of(const sn_module *m, const sn_node_rec *n, const uint8_t *from_input) {
    if (sn_ops[n->op].cls == SN_OPS_VIEW || n->op == SN_OP_CAST || n->op == SN_OP_REPEAT_SLICE)
        return from_input[n->in[0].i];
    if (n->op != SN_OP_ADD && n->op != SN_OP_MUL) return NOT_FROM_INPUT;
    for (int k = 0; k < 2; k++)
        if (from_input[n->in[k].i] && (n->op == SN_OP_ADD || is_positive_number(m, n->in[1 - k]))) return HAS_INPUT;
    return NOT_FROM_INPUT;
}

static void ask_graph(sn_demand *d, const sn_module *m, sn_arena *arena, uint32_t input) {
    uint32_t count = m->graph.nodes.count;
    uint8_t *from_input = SN_NEWN(arena, uint8_t, count);
    from_input[m->graph.inputs.at[input].node.i] = IS_INPUT;
    for (uint32_t i = 1; i < count; i++) {
        uint8_t origin = origin_of(m, sn_node_get(m, (sn_nd){i}), from_input);
        if (origin) from_input[i] = origin;
        look_at_user(d, m, (sn_nd){i}, from_input);
    }
}

/* ---- kernels ---- */

typedef struct looker {
    const sn_module *m;
    const bool *derived; /* by value: an element of the input, or computed from one */
    sn_demand *d;
} looker;

static void at_most(sn_demand *d, int64_t positions) {
    if (positions < 1) positions = 1;
    if (positions < d->positions) d->positions = positions;
}

/* The expression is below `whole`: so many values may those of the input have in it. */
static void look_at_ix(const looker *l, sn_ix e, int64_t whole) {
    const sn_ix_rec *r = sn_ix_get(l->m, e);
    int64_t c;
    if (r->kind == SN_IX_VAL && l->derived[r->id]) at_most(l->d, whole);
    for (uint32_t k = 0; k < r->n_terms; k++) {
        int64_t step = r->terms[k].c < 0 ? -r->terms[k].c : r->terms[k].c;
        look_at_ix(l, r->terms[k].atom, step > 0 ? whole / step : whole);
    }
    if (!r->a.i) return;
    bool bounded = r->kind == SN_IX_MIN && sn_ix_is_const(l->m, r->b, &c);
    if (!bounded) bounded = r->kind == SN_IX_MIN && sn_ix_is_const(l->m, r->a, &c);
    if (bounded && c < whole) whole = c + 1;
    look_at_ix(l, r->a, whole);
    look_at_ix(l, r->b, whole);
}

static void look_at_stmt(const looker *l, const sn_stmt_rec *r) {
    int64_t whole;
    sn_ix bound = r->bound;
    bool access = r->op == SN_LOP_LOAD || sn_stores(r);
    if (access) bound = sn_buf_get(l->m, r->buf)->size;
    if (r->ix.i && bound.i && sn_ix_is_const(l->m, bound, &whole)) look_at_ix(l, r->ix, whole);
    bool wants = r->op == SN_LOP_SQRT || r->op == SN_LOP_RSQRT || r->op == SN_LOP_LOG;
    if (wants && l->derived[r->in[0].i]) l->d->positive = true;
}

static bool is_derived(const looker *l, const sn_stmt_rec *r, uint32_t input) {
    if (r->op == SN_LOP_LOAD) {
        const sn_buf_rec *b = sn_buf_get(l->m, r->buf);
        return b->scope == SN_BUF_INPUT && b->io == input;
    }
    for (uint32_t k = 0; k < r->n_in && !sn_lop_has_region(r->op); k++)
        if (l->derived[r->in[k].i]) return true;
    return false;
}

/* derived: false for all values of the kernel, as of those of others. */
static void ask_kernel(sn_demand *d, const sn_module *m, bool *derived, sn_kern k, uint32_t input) {
    looker l = {m, derived, d};
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        look_at_stmt(&l, r);
        if (r->n_results == 1) derived[r->result.i] = is_derived(&l, r, input);
    }
}

bool sn_demands_positions(const sn_module *m) {
    for (uint32_t k = 0; k < m->kernels.n; k++)
        for (sn_stmt s = sn_stmt_walk_first(m, m->kernels.at[k]); s.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            if ((r->op == SN_LOP_LOAD || sn_stores(r)) && sn_ix_uses_vals(m, r->ix)) return true;
        }
    return false;
}

sn_demand sn_demand_of(const sn_module *m, uint32_t input, sn_arena *arena) {
    sn_demand d = {.positions = INT64_MAX};
    bool *derived = m->kernels.n ? SN_NEWN(arena, bool, m->vals.count + 1) : NULL;
    ask_graph(&d, m, arena, input);
    for (uint32_t k = 0; k < m->kernels.n; k++) ask_kernel(&d, m, derived, m->kernels.at[k], input);
    return d;
}
