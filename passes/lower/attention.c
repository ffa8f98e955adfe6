/* attention.c: products around a softmax as one nest, for the pass `to-loops`: those that the pass `attention` has
 * marked.
 *
 *     y[b, i, d] = sum over j of softmax(x[b, i, ..])[j] * v[b, j, d],    x = scores of s[b, i, j] = sum over c of q * k
 *
 *     %m, %z, %n, %o = reduce (sumexp, sumexp) j {
 *       %s = reduce sum c { .. yield %q * %k }     %x = scores(%s)     %v = load v
 *       yield %x, 1, %x, %v
 *     }
 *     %y = div %o, %z
 *
 * A sink joins the maximum and the sum, and rows that count as 0 are chosen, behind the nest.
 *
 * Both states of the reduction are relative to the same maximum, so that it falls out of the quotient; where it is
 * infinite, the states are 0 or infinite as the softmax has it (ir/ops/combs.def), and the result is nan. Members of
 * an attention are never realized: who asks for an element of the weights gets the score, who asks for one of the
 * first product gets its sum, in that place.
 */
#include "passes/lower/lower.h"

#include <math.h>
#include <string.h>

/* Whatever the index: these elements are asked for in place of the node's. */
static void stand_for(sn_lower *lw, const sn_attention *at) {
    sn_nd x = sn_node_get(lw->m, at->product)->in[0];
    for (; !sn_nd_eq(x, at->quotient); x = sn_node_get(lw->m, x)->in[0])
        if (sn_node_get(lw->m, x)->op == SN_OP_CAST) lw->nodes[x.i].instead = sn_node_get(lw->m, x)->in[0];
    lw->nodes[x.i].instead = at->scores;
}

void sn_lower_find_attentions(sn_lower *lw) {
    SN_VEC(sn_attention) all = {0};
    for (sn_nd x = {1}; x.i < lw->m->graph.nodes.count; x.i++) {
        sn_attention at;
        const char *why_not;
        if (!lw->nodes[x.i].live || !sn_node_int(lw->m, x, SN_ATTR_ONLINE, 0)) continue;
        if (!sn_attention_find(&at, &why_not, lw->m, lw->cx->scratch, x) || at.misplaced) continue;
        SN_PUSH(lw->cx->scratch, &all, at);
    }
    bool *keep = SN_NEWN(lw->cx->scratch, bool, all.n + 1);
    memset(keep, 1, all.n);
    sn_attention_keep_alone(keep, all.at, all.n, lw->m, lw->cx->scratch);
    for (uint32_t i = 0; i < all.n; i++) {
        const sn_attention *at = &all.at[i];
        if (!keep[i]) continue;
        lw->nodes[at->product.i].attention = at;
        for (uint32_t k = 0; k < at->members.n; k++) lw->nodes[at->members.at[k].i].within = true;
        stand_for(lw, at);
    }
}

/* Behind the nest: maximum, sum of numerators, sum of what they weigh. */
typedef struct states {
    sn_val most, total, sum;
    sn_dtype dtype;
} states;

static sn_val put2(sn_lower *lw, sn_lop op, sn_val x, sn_val y) { return sn_put_op2(lw->m, lw->at, op, x, y); }

static sn_val number(sn_lower *lw, const states *s, double x) { return sn_put_const(lw->m, lw->at, s->dtype, x); }

/* The score of the sink of the row: asked for as the weights are, for no key. */
static sn_val put_sink(sn_lower *lw, const sn_attention *at, const sn_lower_product *p, const states *s) {
    sn_ix index[SN_MAX_RANK];
    if (!at->sink_of.i) return number(lw, s, 0);
    memcpy(index, p->a_index, sizeof index);
    index[p->a_k] = sn_ix_const(lw->m, 0);
    lw->nodes[at->quotient.i].instead = at->sink_of;
    sn_val x = sn_put_cast(lw->m, lw->at, s->dtype, sn_lower_element(lw, p->a, index));
    lw->nodes[at->quotient.i].instead = at->scores;
    return x;
}

/* What the sum is multiplied by. With both relative to the larger of maximum and sink, nothing overflows; a row of which
 * all is -inf has the sum 0. */
static sn_val put_share(sn_lower *lw, const sn_attention *at, const sn_lower_product *p, const states *s) {
    sn_val sink = put_sink(lw, at, p, s), most = put2(lw, SN_LOP_MAX, s->most, sink);
    sn_val keys = sn_put_op1(lw->m, lw->at, SN_LOP_EXP, put2(lw, SN_LOP_SUB, s->most, most));
    sn_val other = sn_put_op1(lw->m, lw->at, SN_LOP_EXP, put2(lw, SN_LOP_SUB, sink, most));
    sn_val total = put2(lw, SN_LOP_MUL, s->total, keys), all = put2(lw, SN_LOP_ADD, total, other);
    if (at->sink == SN_ATTENTION_SINK_KEY) return put2(lw, SN_LOP_DIV, keys, all);
    return put2(lw, SN_LOP_DIV, put2(lw, SN_LOP_DIV, total, all), s->total);
}

static sn_val put_result(sn_lower *lw, const sn_attention *at, const sn_lower_product *p, const states *s) {
    if (at->sink) return put2(lw, SN_LOP_MUL, s->sum, put_share(lw, at, p, s));
    if (!at->rows) return put2(lw, SN_LOP_DIV, s->sum, s->total);
    sn_val zero = number(lw, s, 0), one = number(lw, s, 1);
    sn_val x = put2(lw, SN_LOP_MUL, s->sum, put2(lw, SN_LOP_DIV, one, s->total));
    if (at->rows == SN_ATTENTION_ROWS_EMPTY)
        return sn_put_op3(lw->m, lw->at, SN_LOP_SELECT, put2(lw, SN_LOP_EQ, s->total, zero), zero, x);
    sn_val some = put2(lw, SN_LOP_GT, s->total, zero);
    sn_val counts = put2(lw, SN_LOP_AND, some, put2(lw, SN_LOP_LT, s->total, number(lw, s, INFINITY)));
    return sn_put_op3(lw->m, lw->at, SN_LOP_SELECT, counts, x, zero);
}

sn_val sn_lower_attention(sn_lower *lw, sn_nd x, const sn_ix *index) {
    static const sn_comb combs[2] = {SN_COMB_SUMEXP, SN_COMB_SUMEXP};
    sn_module *m = lw->m;
    sn_dtype t = sn_compute_dtype(sn_node_get(m, x)->type.dtype);
    sn_lower_product p;
    sn_lower_product_at(&p, lw, x, index);
    sn_axis key = sn_axis_new(m, "r", p.steps);
    sn_stmt nest = sn_put_reduce(m, lw->at, key, SN_AXIS_SEQ, combs, 2, (sn_dtype[]){t, t, t, t});
    sn_cursor outside = lw->at;
    lw->at = sn_at_end(lw->kern, nest);
    p.a_index[p.a_k] = p.b_index[p.b_k] = sn_ix_axis(m, key);
    bool outer = lw->scores;
    lw->scores = true;
    sn_val score = sn_put_cast(m, lw->at, t, sn_lower_element(lw, p.a, p.a_index));
    lw->scores = outer;
    sn_val v = sn_put_cast(m, lw->at, t, sn_lower_element(lw, p.b, p.b_index));
    sn_put_yield(m, lw->at, (sn_val[]){score, sn_put_const(m, lw->at, t, 1), score, v}, 4);
    lw->at = outside;
    const sn_stmt_rec *r = sn_stmt_get(m, nest);
    states s = {sn_result(r, 0), sn_result(r, 1), sn_result(r, 3), t};
    return put_result(lw, lw->nodes[x.i].attention, &p, &s);
}
