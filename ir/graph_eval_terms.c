/* graph_eval_terms.c: how large the terms are that an output is the sum of.
 *
 *     %s = sum %x axes=[0]        sqrt(x0^2 + x1^2 + ...)
 *     %d = sub %s, 35.4           sqrt(35.4^2 + x0^2 + x1^2 + ...)
 *
 * That is the size of a sum whose terms have random signs. What linear operations make of the squares of terms is what
 * they make of elements, so these are evaluated on squares; all other operations count as terms of their own, as large
 * as they are. Values are needed beside the squares, which makes this twice the work of the evaluation.
 */
#include "ir/graph_eval_internal.h"

#include <math.h>

/* The squares of a node's terms, from those of its operands. */
typedef enum rule {
    OWN,    /* those of its elements */
    SAME,   /* those of the operand */
    LINEAR, /* the operation itself, on squares */
    MINUS,  /* the sum of both */
    RATIO,  /* those of the dividend, over the elements of the divisor */
    AVERAGE /* the operation itself, over the count */
} rule;

static const rule RULES[SN_N_OPS] = {
    [SN_OP_NEG] = SAME,         [SN_OP_ABS] = SAME,
    [SN_OP_RELU] = SAME,        [SN_OP_CAST] = SAME,
    [SN_OP_ADD] = LINEAR,       [SN_OP_SUB] = MINUS,
    [SN_OP_MUL] = LINEAR,       [SN_OP_DIV] = RATIO,
    [SN_OP_WHERE] = LINEAR,     [SN_OP_SUM] = LINEAR,
    [SN_OP_MEAN] = AVERAGE,     [SN_OP_CUMSUM] = LINEAR,
    [SN_OP_RESHAPE] = LINEAR,   [SN_OP_PERMUTE] = LINEAR,
    [SN_OP_EXPAND] = LINEAR,    [SN_OP_SQUEEZE] = LINEAR,
    [SN_OP_UNSQUEEZE] = LINEAR, [SN_OP_SLICE] = LINEAR,
    [SN_OP_UNFOLD] = LINEAR,    [SN_OP_FLIP] = LINEAR,
    [SN_OP_CONCAT] = LINEAR,    [SN_OP_GATHER] = LINEAR,
    [SN_OP_PAD] = LINEAR,       [SN_OP_MATMUL] = LINEAR,
    [SN_OP_CONV2D] = LINEAR,    [SN_OP_INDEX_SELECT] = LINEAR,
    [SN_OP_SCATTER] = LINEAR,   [SN_OP_SCATTER_SUM] = LINEAR,
    [SN_OP_PROJECT] = LINEAR,
};

/* f(x) for each element of a float array; integers stay: they are indices and conditions. */
static sn_array *mapped(const sn_array *a, double (*f)(double), sn_arena *arena) {
    sn_array *out = SN_NEW(arena, sn_array);
    *out = *a;
    if (!sn_is_float(a->dtype)) return out;
    out->f = SN_NEWN(arena, double, a->numel);
    for (int64_t i = 0; i < a->numel; i++) out->f[i] = f(a->f[i]);
    return out;
}

static double square(double x) { return x * x; }
static double negative(double x) { return -x; }

/* Own squares of each result of node x. */
static sn_array *own_squares(const sn_array *results, uint32_t n, sn_arena *arena) {
    sn_array *out = SN_NEWN(arena, sn_array, n);
    for (uint32_t k = 0; k < n; k++) out[k] = *mapped(&results[k], square, arena);
    return out;
}

/* Node x on squares, its last operand replaced for the while. */
static sn_status eval_with(sn_array **squares, sn_array *last, sn_module *m, sn_nd x, sn_arena *arena) {
    const sn_node_rec *n = sn_node_get(m, x);
    sn_array **place = &squares[n->in[n->n_in - 1].i], *kept = *place;
    *place = last;
    sn_status status = sn_eval_node(squares, m, x, arena);
    *place = kept;
    return status;
}

static sn_status find_squares(sn_array **squares, sn_array **values, sn_module *m, sn_nd x, sn_arena *arena) {
    const sn_node_rec *n = sn_node_get(m, x);
    const sn_array *a = n->n_in ? values[n->in[0].i] : NULL, *last = n->n_in ? values[n->in[n->n_in - 1].i] : NULL;
    rule how = sn_is_float(values[x.i]->dtype) && a ? RULES[n->op] : OWN;
    if (how == SAME && !sn_is_float(a->dtype)) how = OWN;
    switch (how) {
    case OWN: squares[x.i] = own_squares(values[x.i], n->n_results, arena); return SN_OK;
    case SAME: squares[x.i] = squares[n->in[0].i]; return SN_OK;
    case LINEAR: return sn_eval_node(squares, m, x, arena);
    case MINUS: return eval_with(squares, mapped(squares[n->in[1].i], negative, arena), m, x, arena);
    case RATIO: return eval_with(squares, mapped(last, square, arena), m, x, arena);
    case AVERAGE:
        SN_TRY(sn_eval_node(squares, m, x, arena));
        for (int64_t i = 0; i < squares[x.i]->numel; i++)
            squares[x.i]->f[i] *= (double)squares[x.i]->numel / (double)(a->numel ? a->numel : 1);
    }
    return SN_OK;
}

sn_status sn_graph_eval_terms(double *out, sn_module *m, const sn_array *inputs, sn_arena *arena) {
    const sn_graph_ir *g = &m->graph;
    sn_array **values = SN_NEWN(arena, sn_array *, g->nodes.count);
    sn_array **squares = SN_NEWN(arena, sn_array *, g->nodes.count);
    SN_TRY(sn_eval_graph(values, m, inputs, arena));
    for (sn_nd x = {1}; x.i < g->nodes.count; x.i++)
        if (values[x.i]) SN_TRY(find_squares(squares, values, m, x, arena));
    for (uint32_t k = 0; k < g->outputs.n; k++) {
        const sn_array *s = squares[g->outputs.at[k].node.i];
        out[k] = 0;
        for (int64_t i = 0; sn_is_float(s->dtype) && i < s->numel; i++)
            if (isfinite(s->f[i])) out[k] = fmax(out[k], sqrt(s->f[i]));
    }
    return SN_OK;
}
