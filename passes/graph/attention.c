/* attention.c: the pass `attention`: products of a softmax over scores are marked where a schedule takes them as one
 * nest with the scores.
 *
 *     %s = matmul %q, %kt        %p = softmax's nodes of f(%s)        %y = matmul %p, %v
 *  -> %s = matmul %q, %kt online=true                                 %y = matmul %p, %v online=true
 *
 * First other ways to write an attention become this one (attention_forms.c). The mark changes nothing that the graph means: `to-loops` computes the numerators of such a softmax where the
 * second product adds them up, and the scores where it asks for them, so that neither is in memory. The result is as
 * exact, but rounded elsewhere: the weights stay in the dtype of sums, whatever casts stand in between. Operands that
 * lie in memory as no schedule takes them are copied in front of it, where that pays. Numbers that q and k are multiplied
 * by become one factor of the scores, which are in no memory and not rounded: so q and k are read where they are. Legality:
 * passes/base/attention.c. Cost: the nodes of each product's left operand, one look at the graph for each attention,
 * and what attention_try.c says, which asks whether a schedule binds what would be marked.
 */
#include "passes/graph/attention.h"
#include "passes/graph/rewrite.h"

#include <string.h>

/* The operand in memory of its own, where its rows are its rows, or its columns. */
static sn_nd copied(sn_module *m, sn_nd x, bool by_columns) {
    if (!by_columns) return sn_graph_unary(m, SN_OP_COPY, x);
    return sn_attention_turned(m, sn_graph_unary(m, SN_OP_COPY, sn_attention_turned(m, x)));
}

/* x times a number in the dtype of sums: the nest rounds neither. */
static sn_nd scaled(sn_module *m, sn_nd x, double scale) {
    if (scale == 1 || !x.i) return x;
    sn_dtype t = sn_node_get(m, x)->type.dtype, wide = sn_compute_dtype(t);
    sn_nd y = sn_graph_cast(m, x, wide), by = sn_graph_full(m, wide, scale, NULL, 0);
    return sn_graph_cast(m, sn_graph_binary(m, SN_OP_MUL, y, by), t);
}

sn_nd sn_marks_put(sn_pass_ctx *cx, sn_nd x) {
    sn_marks *all = cx->notes;
    sn_module *m = cx->m;
    const sn_node_rec *n = sn_node_get(m, x);
    if (n->op != SN_OP_MATMUL) return x;
    SN_ASSERT(all->at < all->n);
    uint8_t of = all->of[all->at++];
    if (!of || sn_node_int(m, x, SN_ATTR_ONLINE, 0)) return x;
    sn_attr attrs[SN_N_ATTRS];
    sn_nd in[2] = {n->in[0], n->in[1]};
    double scale = 1;
    uint32_t n_attrs = n->n_attrs;
    memcpy(attrs, n->attrs, n_attrs * sizeof *attrs);
    attrs[n_attrs++] = (sn_attr){.id = SN_ATTR_ONLINE, .i = 1};
    if (of >> SN_MARK_PRECISION) attrs[n_attrs++] = (sn_attr){.id = SN_ATTR_PRECISION, .i = of >> SN_MARK_PRECISION};
    for (uint32_t k = 0; k < 2 && of & SN_MARK_SCALE_BEHIND; k++) in[k] = sn_attention_unscaled(m, in[k], &scale);
    for (uint32_t k = 0; k < 2 && of & SN_MARK_WIDEN; k++) in[k] = sn_graph_cast(m, in[k], SN_F32);
    if (of & SN_MARK_COPY_LEFT) in[0] = copied(m, in[0], false);
    if (of & (SN_MARK_COPY_RIGHT | SN_MARK_COPY_TURNED)) in[1] = copied(m, in[1], of & SN_MARK_COPY_TURNED);
    sn_nd y = sn_graph_node(m, SN_OP_MATMUL, in, 2, attrs, n_attrs);
    return sn_graph_cast(m, scaled(m, y, scale), n->type.dtype);
}

static const char *words(const sn_attention_answer *a) {
    static const char *const with[] = {"one nest",
                                       "one nest, of a copy of q",
                                       "one nest, of a copy of k",
                                       "one nest, of copies of q and k",
                                       "one nest, of a copy of v",
                                       "one nest, of copies of q and v",
                                       "one nest, of copies of k and v",
                                       "one nest, of copies of q, k and v"};
    return a->bound ? with[a->copies] : "no schedule takes it";
}

typedef struct found {
    SN_VEC(sn_attention) all;
    bool *keep;
    uint32_t *copies;
    const char **said; /* what became of it */
} found;

static sn_status takes(found *f, uint32_t i, sn_attention_answers *known, sn_pass_ctx *cx) {
    const sn_module *m = cx->m;
    const sn_attention *at = &f->all.at[i];
    bool free = !sn_node_attr(m, at->product, SN_ATTR_SCHEDULE) && !sn_node_attr(m, at->first, SN_ATTR_SCHEDULE);
    sn_attention_answer answer = {.bound = free && sn_attention_is_bound(cx->target, &at->sizes)};
    if (answer.bound && cx->schedule) SN_TRY(sn_attention_try(&answer, known, cx, at));
    f->keep[i] = answer.bound;
    f->copies[i] = answer.copies;
    f->said[i] = free ? words(&answer) : "it has a schedule";
    return SN_OK;
}

/* Those that were kept until now but are not any more. */
static void keep_alone(found *f, sn_pass_ctx *cx) {
    bool *before = SN_NEWN(cx->scratch, bool, f->all.n + 1);
    memcpy(before, f->keep, f->all.n);
    sn_attention_keep_alone(f->keep, f->all.at, f->all.n, cx->m, cx->scratch);
    for (uint32_t i = 0; i < f->all.n; i++)
        if (before[i] && !f->keep[i]) f->said[i] = "something else reads its scores or weights";
}

static sn_status find_all(found *out, sn_pass_ctx *cx, const uint8_t *live) {
    sn_module *m = cx->m;
    sn_attention_answers known = {0};
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++) {
        sn_attention at;
        const char *why_not;
        if (!live[x.i] || sn_node_get(m, x)->op != SN_OP_MATMUL) continue;
        if (sn_attention_find(&at, &why_not, m, cx->scratch, x)) SN_PUSH(cx->scratch, &out->all, at);
    }
    out->keep = SN_NEWN(cx->scratch, bool, out->all.n + 1);
    out->copies = SN_NEWN(cx->scratch, uint32_t, out->all.n + 1);
    out->said = SN_NEWN(cx->scratch, const char *, out->all.n + 1);
    memset(out->keep, 1, out->all.n);
    keep_alone(out, cx);
    for (uint32_t i = 0; i < out->all.n; i++)
        if (out->keep[i]) SN_TRY(takes(out, i, &known, cx));
    return SN_OK;
}

static void give_way(found *f, uint32_t i, const char *why) {
    f->keep[i] = false;
    f->said[i] = why;
}

/* Attentions that share a first product have to want the same of it, and no product is the first one of one and the second of
 * another: each has one mark. Without one that is no nest, those that share with it are none. */
static void agree(found *f, sn_pass_ctx *cx) {
    for (uint32_t i = 0; i < f->all.n; i++)
        for (uint32_t k = 0; k < i; k++) {
            const sn_attention *a = &f->all.at[i], *b = &f->all.at[k];
            if (!f->keep[i] || !f->keep[k]) continue;
            if (sn_nd_eq(a->first, b->product)) give_way(f, i, "its scores are the result of another one");
            if (!sn_nd_eq(a->first, b->first)) continue;
            uint32_t of_scores = SN_ATTENTION_Q | SN_ATTENTION_K;
            bool same =
                sn_mark_of_first(0, a) == sn_mark_of_first(0, b) && !((f->copies[i] ^ f->copies[k]) & of_scores);
            if (same) continue;
            give_way(f, i, "another one with its scores wants other copies");
            give_way(f, k, "another one with its scores wants other copies");
        }
    keep_alone(f, cx);
}

static void tell(const found *f, sn_pass_ctx *cx) {
    for (uint32_t i = 0; i < f->all.n; i++) {
        const sn_attention_sizes *s = &f->all.at[i].sizes;
        const char *name = sn_node_get(cx->m, f->all.at[i].product)->name;
        sn_remark(cx, name ? name : "graph",
                  "attention of %lld rows (%lld share keys), %lld keys, heads %lld and %lld %s: %s", (long long)s->rows,
                  (long long)s->shared, (long long)s->keys, (long long)s->depth, (long long)s->width,
                  sn_dtypes[s->dtype].name, f->said[i]);
    }
}

static sn_status mark_all(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    uint32_t count = m->graph.nodes.count;
    uint8_t *live = SN_NEWN(cx->scratch, uint8_t, count), *of = SN_NEWN(cx->scratch, uint8_t, count);
    uint8_t *marks = SN_NEWN(cx->scratch, uint8_t, count);
    sn_marks all = {.of = marks};
    found f = {0};
    bool any = false;
    sn_graph_live(m, live);
    SN_TRY(find_all(&f, cx, live));
    agree(&f, cx);
    tell(&f, cx);
    for (uint32_t i = 0; i < f.all.n; i++) {
        const sn_attention *at = &f.all.at[i];
        if (!f.keep[i]) continue;
        any = true;
        of[at->first.i] = sn_mark_of_first(f.copies[i], at);
        of[at->product.i] = sn_mark_of_product(f.copies[i]);
    }
    for (sn_nd x = {1}; x.i < count; x.i++)
        if (live[x.i] && sn_node_get(m, x)->op == SN_OP_MATMUL) marks[all.n++] = of[x.i];
    if (!any) return SN_OK;
    cx->notes = &all;
    sn_status status = sn_graph_rewrite(cx, sn_marks_put, changed);
    cx->notes = NULL;
    return status;
}

sn_status sn_pass_attention(sn_pass_ctx *cx, bool *changed) {
    bool marked = false;
    if (cx->m->kernels.n || cx->m->graph.nodes.count <= 1) return SN_OK;
    SN_TRY(sn_graph_rewrite(cx, sn_attention_form, changed));
    sn_status status = mark_all(cx, &marked);
    *changed |= marked;
    return status;
}
