/* known.c: the elements of a small integer tensor as index expressions, where they follow from sizes and
 * literals. Exported models compute shapes with tensors; an importer needs them as shapes:
 *
 *     %s = sizes elements=[N, 3, 224, 224]                  N, 3, 224, 224
 *     %n = slice %s axis=0 start=0 stop=1                   N
 *     %m = constant values=[-1] dtype=i64 shape=[1]         -1
 *     %t = concat %n, %m axis=0                             N, -1       what the reshape is told
 *
 * A value is either *numbers*, of any dtype, or *symbolic*: an i64 or i32 tensor of which an element is the id of an
 * index expression. What has numbers as operands alone is a matter of the reference evaluator. So is what only moves
 * elements, since ids move as numbers do: views, concat, gathers, where. Arithmetic on ids is here, element by element;
 * what turns out to be without symbols is numbers again, so that a factor of known sizes can pass through floats.
 *
 * Sizes are taken to fit their integer type. A divisor that may be 0 is taken to be positive: binding it to 0 is
 * refused when the graph is copied. Linear in the nodes before x; values of more than SN_KNOWN_MAX elements are not
 * looked at.
 */
#include "ir/graph/eval_internal.h"

#include <string.h>

typedef struct known {
    sn_module *m;
    sn_arena *arena;
    sn_array **at;     /* by node: its value, once it is known */
    uint8_t *needed;   /* by node */
    uint8_t *symbolic; /* by node: elements are ids */
} known;

static sn_status unknown(const known *k, sn_nd x, const char *why) {
    const sn_node_rec *n = sn_node_get(k->m, x);
    return sn_fail(k->m->env, SN_ERROR_UNSUPPORTED, "elements of %s%s%s (%s) are not known when the graph is built: %s",
                   sn_type_text(k->m, &n->type), n->name ? " %" : "", n->name ? n->name : "", sn_ops[n->op].name, why);
}

/* ---- elements ---- */

static sn_ix get(const sn_array *a, int64_t i) { return (sn_ix){(uint32_t)a->i[i]}; }

static bool at_least(sn_module *m, sn_ix e, int64_t c) { return sn_ix_range(m, e).lo >= c; }

/* none: there is no such expression. The quotient is rounded down, which is towards zero where a is not negative. */
static sn_ix divide(sn_module *m, sn_op op, sn_ix a, sn_ix b) {
    int64_t c;
    bool is_const = sn_ix_is_const(m, b, &c);
    if (is_const && c == 0) return sn_ix_const(m, 0);
    if (is_const ? c < 0 : !at_least(m, b, 0)) return (sn_ix){0};
    if (op == SN_OP_DIV && !at_least(m, a, 0)) return (sn_ix){0};
    return op == SN_OP_REM ? sn_ix_mod(m, a, b) : sn_ix_div(m, a, b);
}

/* 1 or 0 where the sign of a - b tells, else none. */
static sn_ix compare(sn_module *m, sn_op op, sn_ix a, sn_ix b) {
    sn_range d = sn_ix_range(m, sn_ix_sub(m, a, b));
    bool less = d.hi < 0, more = d.lo > 0, equal = d.lo == 0 && d.hi == 0;
    bool not_less = d.lo >= 0, not_more = d.hi <= 0;
    int yes = 0, no = 0;
    switch (op) {
    case SN_OP_EQ: yes = equal, no = less || more; break;
    case SN_OP_NE: yes = less || more, no = equal; break;
    case SN_OP_LT: yes = less, no = not_less; break;
    case SN_OP_LE: yes = not_more, no = more; break;
    case SN_OP_GT: yes = more, no = not_more; break;
    case SN_OP_GE: yes = not_less, no = less; break;
    default: break;
    }
    return yes || no ? sn_ix_const(m, yes) : (sn_ix){0};
}

static sn_ix combine(sn_module *m, sn_op op, sn_ix a, sn_ix b) {
    if (sn_ops[op].cls == SN_OPS_COMPARE) return compare(m, op, a, b);
    switch (op) {
    case SN_OP_ADD:
    case SN_OP_SUM: return sn_ix_add(m, a, b);
    case SN_OP_SUB: return sn_ix_sub(m, a, b);
    case SN_OP_MUL:
    case SN_OP_PROD: return sn_ix_mul(m, a, b);
    case SN_OP_MAXIMUM:
    case SN_OP_AMAX: return sn_ix_max(m, a, b);
    case SN_OP_MINIMUM:
    case SN_OP_AMIN: return sn_ix_min(m, a, b);
    case SN_OP_DIV:
    case SN_OP_FLOORDIV:
    case SN_OP_REM: return divide(m, op, a, b);
    default: return (sn_ix){0};
    }
}

static sn_ix change(sn_module *m, sn_op op, sn_dtype to, sn_ix a) {
    sn_ix zero = sn_ix_const(m, 0);
    if (op == SN_OP_NEG) return sn_ix_sub(m, zero, a);
    if (op == SN_OP_ABS) return at_least(m, a, 0) ? a : (sn_ix){0};
    if (op == SN_OP_CAST && (to == SN_I64 || to == SN_I32)) return a;
    if (op == SN_OP_CAST && to == SN_BOOL) return compare(m, SN_OP_NE, a, zero);
    return (sn_ix){0};
}

/* ---- nodes ---- */

/* An array of the node's type without elements in it. */
static sn_array *array_of(const known *k, sn_nd x) {
    const sn_type *t = &sn_node_get(k->m, x)->type;
    sn_array *a = SN_NEW(k->arena, sn_array);
    *a = (sn_array){.dtype = t->dtype, .rank = t->rank, .numel = 1};
    for (uint32_t d = 0; d < t->rank; d++) a->numel *= a->shape[d] = sn_ix_value(k->m, t->shape[d]);
    a->i = SN_NEWN(k->arena, int64_t, a->numel + 1);
    return a;
}

/* Numbers as ids. */
static sn_array *as_ids(const known *k, sn_nd x) {
    if (k->symbolic[x.i]) return k->at[x.i];
    sn_array *a = array_of(k, x);
    for (int64_t i = 0; i < a->numel; i++) a->i[i] = sn_ix_const(k->m, k->at[x.i]->i[i]).i;
    return a;
}

/* The value is made of ids: as numbers when no symbol is left, which it has to be unless it is i64 or i32. */
static sn_status settle(known *k, sn_nd x, sn_array *a) {
    int64_t *numbers = SN_NEWN(k->arena, int64_t, a->numel + 1);
    bool all = true;
    k->at[x.i] = a;
    for (int64_t i = 0; i < a->numel; i++) {
        if (!a->i[i]) return unknown(k, x, "they depend on sizes in a way that sizes cannot say");
        all = all && sn_ix_is_const(k->m, get(a, i), &numbers[i]);
    }
    k->symbolic[x.i] = !all;
    if (!all && a->dtype != SN_I64 && a->dtype != SN_I32) return unknown(k, x, "sizes stay i64 or i32");
    for (int64_t i = 0; all && i < a->numel; i++) a->i[i] = sn_wrap_to(a->dtype, numbers[i]);
    return SN_OK;
}

/* Elements of operands first .. end-1 go where the evaluator puts them, as ids; the other operands say where. */
static sn_status move(known *k, sn_nd x, uint32_t first, uint32_t end) {
    const sn_node_rec *n = sn_node_get(k->m, x);
    sn_array **kept = SN_NEWN(k->arena, sn_array *, n->n_in + 1);
    for (uint32_t j = 0; j < n->n_in; j++) {
        bool moved = j >= first && j < end;
        if (!moved && k->symbolic[n->in[j].i]) return unknown(k, x, "positions or a condition depend on sizes");
        kept[j] = moved ? as_ids(k, n->in[j]) : k->at[n->in[j].i];
    }
    for (uint32_t j = 0; j < n->n_in; j++) {
        sn_array *ids = kept[j];
        kept[j] = k->at[n->in[j].i];
        k->at[n->in[j].i] = ids;
    }
    sn_status status = sn_eval_node(k->at, k->m, x, k->arena);
    for (uint32_t j = n->n_in; j-- > 0;) k->at[n->in[j].i] = kept[j];
    SN_TRY(status);
    return settle(k, x, k->at[x.i]);
}

static sn_status elementwise(known *k, sn_nd x) {
    const sn_node_rec *n = sn_node_get(k->m, x);
    sn_array *out = array_of(k, x), *a = as_ids(k, n->in[0]), *b = n->n_in > 1 ? as_ids(k, n->in[1]) : NULL;
    sn_walk w = sn_walk_over(out->shape, out->rank);
    sn_walk_broadcast(&w, 0, a);
    if (b) sn_walk_broadcast(&w, 1, b);
    for (int64_t i = 0; i < out->numel; i++, sn_walk_next(&w)) {
        sn_ix e = get(a, w.at[0]);
        out->i[i] = (b ? combine(k->m, n->op, e, get(b, w.at[1])) : change(k->m, n->op, n->type.dtype, e)).i;
    }
    return settle(k, x, out);
}

static sn_status reduce(known *k, sn_nd x) {
    const sn_node_rec *n = sn_node_get(k->m, x);
    sn_array *out = array_of(k, x), *a = as_ids(k, n->in[0]);
    sn_groups gr = sn_groups_of(k->arena, a, sn_node_axes_mask(k->m, x));
    bool starts = n->op == SN_OP_SUM || n->op == SN_OP_PROD; /* the others are not of no elements */
    for (int64_t g = 0; g < gr.n; g++) {
        sn_ix e = starts ? sn_ix_const(k->m, n->op == SN_OP_PROD) : get(a, gr.base[g] + gr.offset[0]);
        for (int64_t j = 0; e.i && j < gr.members; j++) e = combine(k->m, n->op, e, get(a, gr.base[g] + gr.offset[j]));
        out->i[g] = e.i;
    }
    return settle(k, x, out);
}

static sn_status sizes(known *k, sn_nd x) {
    const sn_attr *elements = sn_node_attr(k->m, x, SN_ATTR_ELEMENTS);
    sn_array *out = array_of(k, x);
    for (uint32_t i = 0; i < elements->shape.n; i++) out->i[i] = elements->shape.at[i].i;
    return settle(k, x, out);
}

/* A node some of whose operands are symbolic. */
static sn_status evaluate_symbolic(known *k, sn_nd x) {
    const sn_node_rec *n = sn_node_get(k->m, x);
    switch (sn_ops[n->op].cls) {
    case SN_OPS_UNARY:
    case SN_OPS_BINARY:
    case SN_OPS_COMPARE: return elementwise(k, x);
    case SN_OPS_REDUCE: return reduce(k, x);
    case SN_OPS_VIEW: return move(k, x, 0, 1);
    case SN_OPS_ELEMENT:
        if (n->op == SN_OP_CAST) return elementwise(k, x);
        if (n->op == SN_OP_WHERE) return move(k, x, 1, 3);
        break;
    case SN_OPS_MOVE:
        if (n->op == SN_OP_CONCAT) return move(k, x, 0, n->n_in);
        if (n->op == SN_OP_GATHER || n->op == SN_OP_INDEX_SELECT) return move(k, x, 0, 1);
        break;
    case SN_OPS_SOURCE:
    case SN_OPS_TEST:
    case SN_OPS_SCAN:
    case SN_OPS_CONTRACT:
    case SN_OPS_COMPOSITE:
    case SN_OPS_REPEAT: break;
    }
    return unknown(k, x, "sizes do not pass through this operation");
}

static sn_status evaluate(known *k, sn_nd x) {
    const sn_node_rec *n = sn_node_get(k->m, x);
    bool symbolic = false;
    if (n->op == SN_OP_SIZES) return sizes(k, x);
    for (uint32_t j = 0; j < n->n_in; j++) symbolic = symbolic || k->symbolic[n->in[j].i];
    return symbolic ? evaluate_symbolic(k, x) : sn_eval_node(k->at, k->m, x, k->arena);
}

/* ---- the cone ---- */

static sn_status check_node(const known *k, sn_nd x) {
    const sn_node_rec *n = sn_node_get(k->m, x);
    int64_t numel = 1, size;
    if (n->op == SN_OP_INPUT && !k->at[x.i]) return unknown(k, x, "it is an input");
    for (uint32_t d = 0; d < n->type.rank; d++) {
        if (!sn_ix_is_const(k->m, n->type.shape[d], &size)) return unknown(k, x, "their number depends on sizes");
        if (sn_mul_overflow(numel, size, &numel) || numel > SN_KNOWN_MAX) return unknown(k, x, "there are too many");
    }
    return SN_OK;
}

static sn_status mark(known *k, sn_nd x) {
    k->needed[x.i] = 1;
    for (uint32_t i = x.i + 1; i-- > 1;) {
        const sn_node_rec *n = sn_node_get(k->m, (sn_nd){i});
        if (!k->needed[i]) continue;
        SN_TRY(check_node(k, (sn_nd){i}));
        for (uint32_t j = 0; j < n->n_in && !k->at[i]; j++) k->needed[n->in[j].i] = 1;
    }
    return SN_OK;
}

static sn_status find(sn_ix *out, known *k, sn_nd x) {
    if (sn_is_float(sn_node_get(k->m, x)->type.dtype)) return unknown(k, x, "they are not integers");
    SN_TRY(mark(k, x));
    for (uint32_t i = 1; i <= x.i; i++)
        if (k->needed[i] && !k->at[i]) SN_TRY(evaluate(k, (sn_nd){i}));
    const sn_array *ids = as_ids(k, x);
    for (int64_t i = 0; i < ids->numel; i++) out[i] = get(ids, i);
    return k->m->env->status; /* index arithmetic overflows there */
}

sn_status sn_graph_known_sizes(sn_ix *out, sn_module *m, sn_nd x, sn_array *const *numbers, uint32_t n) {
    sn_arena arena;
    sn_arena_init(&arena, m->env);
    known k = {.m = m, .arena = &arena};
    k.at = SN_NEWN(&arena, sn_array *, x.i + 1);
    k.needed = SN_NEWN(&arena, uint8_t, x.i + 1);
    k.symbolic = SN_NEWN(&arena, uint8_t, x.i + 1);
    for (uint32_t i = 1; i <= x.i && i < n; i++) k.at[i] = numbers[i];
    sn_status status = find(out, &k, x);
    sn_arena_free(&arena);
    return status;
}
