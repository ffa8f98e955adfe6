/* attention.c: the pass `attention`: products of a softmax over scores are marked where a schedule takes them as one
 * nest with the scores.
 *
 *     %s = matmul %q, %kt        %p = softmax's nodes of f(%s)        %y = matmul %p, %v
 *  -> %s = matmul %q, %kt online=true                                 %y = matmul %p, %v online=true
 *
 * The mark changes nothing that the graph means: `to-loops` computes the numerators of such a softmax where the
 * second product adds them up, and the scores where it asks for them, so that neither is in memory. The result is as
 * exact, but rounded elsewhere: the weights stay in the dtype of sums, whatever casts stand in between. Legality:
 * passes/base/attention.c. Cost: the nodes of each product's left operand, and one look at the graph for each
 * attention.
 */
#include "passes/base/attention.h"
#include "passes/graph/rewrite.h"

#include <string.h>

/* By number of the live products, in the order of their ids: the pass walks them twice. */
typedef struct marks {
    bool *online;
    uint32_t n, at;
} marks;

static sn_nd mark(sn_pass_ctx *cx, sn_nd x) {
    marks *all = cx->notes;
    const sn_node_rec *n = sn_node_get(cx->m, x);
    if (n->op != SN_OP_MATMUL) return x;
    SN_ASSERT(all->at < all->n);
    if (!all->online[all->at++] || sn_node_int(cx->m, x, SN_ATTR_ONLINE, 0)) return x;
    sn_attr attrs[SN_N_ATTRS];
    memcpy(attrs, n->attrs, n->n_attrs * sizeof *attrs);
    attrs[n->n_attrs] = (sn_attr){.id = SN_ATTR_ONLINE, .i = 1};
    return sn_graph_node(cx->m, n->op, n->in, n->n_in, attrs, n->n_attrs + 1);
}

static bool takes(sn_pass_ctx *cx, sn_attention *out, sn_nd x) {
    const sn_module *m = cx->m;
    const char *why_not, *name = sn_node_get(m, x)->name;
    if (!sn_attention_find(out, &why_not, m, cx->scratch, x)) return false;
    const sn_attention_sizes *s = &out->sizes;
    bool free = !sn_node_attr(m, x, SN_ATTR_SCHEDULE) && !sn_node_attr(m, out->first, SN_ATTR_SCHEDULE);
    bool bound = free && sn_attention_is_bound(cx->target, s);
    sn_remark(cx, name ? name : "graph",
              "attention of %lld rows (%lld share keys), %lld keys, heads %lld and %lld %s: %s", (long long)s->rows,
              (long long)s->shared, (long long)s->keys, (long long)s->depth, (long long)s->width,
              sn_dtypes[s->dtype].name,
              bound  ? "one nest"
              : free ? "no schedule takes it"
                     : "it has a schedule");
    return bound;
}

sn_status sn_pass_attention(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    uint32_t count = m->graph.nodes.count;
    if (m->kernels.n || count <= 1) return SN_OK;
    uint8_t *live = SN_NEWN(cx->scratch, uint8_t, count);
    bool *online = SN_NEWN(cx->scratch, bool, count), any = false;
    marks all = {.online = SN_NEWN(cx->scratch, bool, count)};
    sn_graph_live(m, live);
    for (sn_nd x = {1}; x.i < count; x.i++) {
        sn_attention a;
        if (!live[x.i] || sn_node_get(m, x)->op != SN_OP_MATMUL || !takes(cx, &a, x)) continue;
        any = online[a.first.i] = online[a.product.i] = true;
    }
    for (sn_nd x = {1}; x.i < count; x.i++)
        if (live[x.i] && sn_node_get(m, x)->op == SN_OP_MATMUL) all.online[all.n++] = online[x.i];
    if (!any) return SN_OK;
    cx->notes = &all;
    sn_status status = sn_graph_rewrite(cx, mark, changed);
    cx->notes = NULL;
    return status;
}
