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
 * What others read of the rows of scores (a logsumexp, say) the kernel stores, too, with the first column:
 *
 *     %l = add %m, (log %z)     %c = in d, 1     store l[b, i], %l if %c
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

/* The kernel of an attention stores what others are told of its rows, as soon as its operands are there; that of the
 * first of several that share scores does. */
static void note_told(sn_lower *lw, const sn_attention *at) {
    bool any = false;
    for (uint32_t i = 1; i < lw->m->graph.nodes.count; i++) {
        if (at->statistic[i]) lw->nodes[i].statistic = at->statistic[i];
        lw->nodes[i].of_rows |= at->told.n && at->of_rows[i];
    }
    for (uint32_t k = 0; k < at->told.n; k++) {
        sn_lower_node *told = &lw->nodes[at->told.at[k].i];
        if (told->teller.i) continue;
        told->teller = at->product;
        any = true;
    }
    if (!any) return;
    lw->nodes[at->product.i].beside = lw->nodes[at->ready.i].follows;
    lw->nodes[at->ready.i].follows = at->product;
}

/* Is all that the kernel stores in its section? */
static bool is_told_here(const sn_lower *lw, const sn_attention *at) {
    uint32_t scope = lw->scope[at->product.i];
    bool here = lw->scope[at->ready.i] == scope;
    for (uint32_t k = 0; k < at->told.n; k++) here &= lw->scope[at->told.at[k].i] == scope;
    return here || !at->told.n;
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
    for (uint32_t i = 0; i < all.n; i++) keep[i] &= is_told_here(lw, &all.at[i]);
    sn_attention_keep_alone(keep, all.at, all.n, lw->m, lw->cx->scratch); /* others may have shared with those */
    for (uint32_t i = 0; i < all.n; i++) {
        const sn_attention *at = &all.at[i];
        if (!keep[i]) continue;
        lw->nodes[at->product.i].attention = at;
        for (uint32_t k = 0; k < at->members.n; k++) lw->nodes[at->members.at[k].i].within = true;
        stand_for(lw, at);
        note_told(lw, at);
    }
}

static sn_val put2(sn_lower *lw, sn_lop op, sn_val x, sn_val y) { return sn_put_op2(lw->m, lw->at, op, x, y); }

static sn_val number(sn_lower *lw, const sn_lower_states *s, double x) {
    return sn_put_const(lw->m, lw->at, s->dtype, x);
}

/* The score of the sink of the row: asked for as the weights are, for no key. */
static sn_val put_sink(sn_lower *lw, const sn_attention *at, const sn_lower_product *p, const sn_lower_states *s) {
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
static sn_val put_share(sn_lower *lw, const sn_attention *at, const sn_lower_product *p, const sn_lower_states *s) {
    sn_val sink = put_sink(lw, at, p, s), most = put2(lw, SN_LOP_MAX, s->most, sink);
    sn_val keys = sn_put_op1(lw->m, lw->at, SN_LOP_EXP, put2(lw, SN_LOP_SUB, s->most, most));
    sn_val other = sn_put_op1(lw->m, lw->at, SN_LOP_EXP, put2(lw, SN_LOP_SUB, sink, most));
    sn_val total = put2(lw, SN_LOP_MUL, s->total, keys), all = put2(lw, SN_LOP_ADD, total, other);
    if (at->sink == SN_ATTENTION_SINK_KEY) return put2(lw, SN_LOP_DIV, keys, all);
    return put2(lw, SN_LOP_DIV, put2(lw, SN_LOP_DIV, total, all), s->total);
}

static sn_val put_result(sn_lower *lw, const sn_attention *at, const sn_lower_product *p, const sn_lower_states *s) {
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

sn_val sn_lower_attention(sn_lower_states *out, sn_lower *lw, sn_nd x, const sn_ix *index) {
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
    *out = (sn_lower_states){sn_result(r, 0), sn_result(r, 1), sn_result(r, 3), t};
    return put_result(lw, lw->nodes[x.i].attention, &p, out);
}

sn_val sn_lower_statistic(sn_lower *lw, sn_nd x) {
    const sn_lower_states *s = lw->states;
    SN_ASSERT(s);
    if (lw->nodes[x.i].statistic == SN_ATTENTION_MOST) return s->most;
    if (lw->nodes[x.i].statistic == SN_ATTENTION_FINITE) {
        /* Who reads the maximum has the sum relative to it: of scores that are bounded it is not (attend_weights.c). And weights of
         * tensor cores are nan where it is inf. */
        sn_val inf = number(lw, s, INFINITY);
        return sn_put_op3(lw->m, lw->at, SN_LOP_SELECT, put2(lw, SN_LOP_EQ, s->most, inf), inf, s->total);
    }
    sn_val size = sn_put_op1(lw->m, lw->at, SN_LOP_ABS, s->most);
    sn_val infinite = put2(lw, SN_LOP_EQ, size, number(lw, s, INFINITY));
    return sn_put_op3(lw->m, lw->at, SN_LOP_SELECT, infinite, number(lw, s, NAN), s->total);
}

/* The thread of the first column stores. While x is stored it is computed, not loaded, and so is what it is made of. */
static void tell(sn_lower *lw, sn_nd x, sn_buf b, const sn_ix *row, sn_ix column) {
    sn_module *m = lw->m;
    sn_val v = sn_put_cast(m, lw->at, sn_node_get(m, x)->type.dtype, sn_lower_element(lw, x, row));
    sn_val first = sn_put_in(m, lw->at, column, sn_ix_const(m, 1));
    sn_put_store_masked(m, lw->at, b, sn_lower_place(lw, x, b, row), v, first);
}

void sn_lower_tell(sn_lower *lw, sn_nd product, const sn_lower_states *states, const sn_ix *index) {
    const sn_nd_list *told = &lw->nodes[product.i].attention->told;
    uint32_t last = sn_node_get(lw->m, product)->type.rank - 1;
    sn_buf *bufs = SN_NEWN(lw->cx->scratch, sn_buf, told->n + 1);
    sn_ix row[SN_MAX_RANK];
    memcpy(row, index, last * sizeof *row);
    row[last] = sn_ix_const(lw->m, 0); /* where the axis of keys is kept */
    lw->states = states;
    for (uint32_t k = 0; k < told->n; k++) {
        sn_lower_node *info = &lw->nodes[told->at[k].i];
        if (!sn_nd_eq(info->teller, product)) continue;
        bufs[k] = info->buf.i ? info->buf : sn_lower_temp_of(lw, told->at[k]);
        info->buf = (sn_buf){0};
    }
    for (uint32_t k = 0; k < told->n; k++)
        if (bufs[k].i) tell(lw, told->at[k], bufs[k], row, index[last]);
    for (uint32_t k = 0; k < told->n; k++)
        if (bufs[k].i) lw->nodes[told->at[k].i].buf = bufs[k];
    lw->states = NULL;
}
