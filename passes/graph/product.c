/* product.c: matrix products of a graph: which there are, and a small graph that stands for one, or for a convolution.
 *
 *     %t = permute %w perm=[1, 0] ;  %c = matmul %h, %t ;  %d = add %c, %bias ;  %y = gelu's nodes of %d
 *  -> graph @product(%i0: bf16[4096, 1024], %i1: bf16[1024, 1024], %i2: bf16[1024]) { ... the same ... return o0 = .. }
 *
 * The epilogue are elementwise operations of the product's own shape behind it, as the pass `fuse` would take them
 * along; behind a convolution views belong to it as well, for where its result lies is how it is done; part.c has what they
 * read. Relies on sizes being numbers. Cost: linear in the graph.
 */
#include "passes/graph/choices.h"

#include "ir/loop/mma.h"
#include "passes/graph/part.h"
#include "passes/graph/rewrite.h"

#include <string.h>

bool sn_product_find(sn_product *out, const sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    if (n->op != SN_OP_MATMUL || sn_node_attr(m, x, SN_ATTR_SCHEDULE)) return false;
    if (sn_node_int(m, x, SN_ATTR_ONLINE, 0)) return false;
    const sn_type *a = &sn_node_get(m, n->in[0])->type, *b = &sn_node_get(m, n->in[1])->type;
    *out = (sn_product){.node = x, .left = n->in[0], .right = n->in[1], .dtype = n->type.dtype};
    out->batch = out->m = out->n = 1;
    bool known = sn_ix_is_const(m, a->shape[a->rank - 1], &out->k);
    if (a->rank > 1) known &= sn_ix_is_const(m, a->shape[a->rank - 2], &out->m);
    if (b->rank > 1) known &= sn_ix_is_const(m, b->shape[b->rank - 1], &out->n);
    for (uint32_t k = 0; known && k + (a->rank > 1) + (b->rank > 1) < n->type.rank; k++) {
        int64_t size;
        known = sn_ix_is_const(m, n->type.shape[k], &size) && !sn_mul_overflow(out->batch, size, &out->batch);
    }
    return known;
}

void sn_product_list(sn_nd_list *out, const sn_module *m, sn_arena *arena) {
    uint8_t *live = SN_NEWN(arena, uint8_t, m->graph.nodes.count + 1);
    sn_product unused;
    sn_graph_live(m, live);
    for (sn_nd x = {1}; x.i < m->graph.nodes.count; x.i++)
        if (live[x.i] && sn_product_find(&unused, m, x)) SN_PUSH(arena, out, x);
}

double sn_choice_products(const sn_choice_question *q, sn_dtype dtype) {
    sn_precision precision = sn_node_precision(q->m, q->product->node);
    if (dtype != SN_F32) return 1;
    if (precision == SN_PRECISION_TF32)
        return (double)sn_mmas[SN_MMA_WGMMA_BF16].rate / sn_mmas[SN_MMA_WGMMA_TF32].rate;
    return sn_terms_products(sn_precision_terms(precision));
}

sn_nd sn_product_like(sn_module *m, const sn_product *p, sn_nd left, sn_nd right) {
    const sn_node_rec *n = sn_node_get(m, p->node);
    sn_attr attrs[SN_N_ATTRS];
    uint32_t n_attrs = 0;
    if (!left.i || !right.i) return (sn_nd){0};
    for (uint32_t k = 0; k < n->n_attrs; k++)
        if (n->attrs[k].id != SN_ATTR_SCHEDULE) attrs[n_attrs++] = n->attrs[k];
    return sn_graph_node(m, SN_OP_MATMUL, (sn_nd[]){left, right}, 2, attrs, n_attrs);
}

/* ---- the small graph ---- */

/* Of the shape of what it reads of them, element by element. */
static bool is_epilogue(const sn_node_rec *n, const sn_type *product) {
    sn_opclass cls = sn_ops[n->op].cls;
    bool elementwise = cls == SN_OPS_UNARY || cls == SN_OPS_BINARY || cls == SN_OPS_COMPARE || cls == SN_OPS_TEST ||
                       n->op == SN_OP_WHERE || n->op == SN_OP_CAST || n->op == SN_OP_CLAMP;
    /* composites that come to that; behind products they are taken apart */
    elementwise |= n->op == SN_OP_RELU || n->op == SN_OP_GELU || n->op == SN_OP_GELU_TANH || n->op == SN_OP_SILU;
    return elementwise && n->type.rank == product->rank &&
           !memcmp(n->type.shape, product->shape, product->rank * sizeof product->shape[0]);
}

/* Is x no output, and what one node alone reads? */
static bool is_read_once(const uint8_t *live, const sn_module *m, sn_nd x) {
    uint32_t readers = 0;
    for (uint32_t k = 0; k < m->graph.outputs.n; k++)
        if (sn_nd_eq(m->graph.outputs.at[k].node, x)) return false;
    for (sn_nd y = {x.i + 1}; y.i < m->graph.nodes.count; y.i++) {
        const sn_node_rec *n = sn_node_get(m, y);
        for (uint32_t k = 0; k < n->n_in && live[y.i]; k++) readers += sn_nd_eq(n->in[k], x);
    }
    return readers == 1;
}

enum { OUTSIDE, MEMBER, BEHIND /* no member, but made of one: what reads it does not run with the product */ };

static uint8_t place_of(const uint8_t *place, const uint8_t *live, const sn_module *m, sn_nd y, bool is_conv) {
    const sn_node_rec *n = sn_node_get(m, y);
    bool joins = false, reads = false, behind = false;
    for (uint32_t k = 0; k < n->n_in && live[y.i]; k++) {
        behind |= place[n->in[k].i] == BEHIND;
        if (place[n->in[k].i] != MEMBER) continue;
        reads = true;
        joins |= is_epilogue(n, sn_type_of(m, n->in[k]));
        joins |= is_conv && sn_ops[n->op].cls == SN_OPS_VIEW && is_read_once(live, m, n->in[k]);
    }
    return joins && !behind ? MEMBER : reads || behind ? BEHIND : OUTSIDE;
}

/* member: room for one number a node, zeros. */
static void find_members(uint8_t *member, const uint8_t *live, const sn_module *m, sn_nd x) {
    const bool is_conv = sn_node_get(m, x)->op == SN_OP_CONV;
    uint32_t n_members = 0;
    member[x.i] = MEMBER;
    for (sn_nd y = {x.i + 1}; y.i < m->graph.nodes.count && n_members < SN_CHOICE_EPILOGUE; y.i++) {
        member[y.i] = place_of(member, live, m, y, is_conv);
        n_members += member[y.i] == MEMBER;
    }
    for (sn_nd y = x; y.i < m->graph.nodes.count; y.i++) member[y.i] = member[y.i] == MEMBER;
}

/* Members that somebody else reads. */
static sn_status add_outputs(sn_module *to, const sn_part *part, const uint8_t *live, sn_arena *scratch) {
    const sn_graph_ir *g = &part->from->graph;
    uint8_t *read = SN_NEWN(scratch, uint8_t, g->nodes.count);
    uint32_t n_outputs = 0;
    for (sn_nd x = {1}; x.i < g->nodes.count; x.i++) {
        const sn_node_rec *n = sn_node_get(part->from, x);
        for (uint32_t k = 0; live[x.i] && !part->member[x.i] && k < n->n_in; k++) read[n->in[k].i] = 1;
    }
    for (uint32_t k = 0; k < g->outputs.n; k++) read[g->outputs.at[k].node.i] = 1;
    for (sn_nd x = {1}; x.i < g->nodes.count; x.i++) {
        if (!part->member[x.i] || !read[x.i]) continue;
        const char *name = sn_strf(&to->arena, "o%u", n_outputs++);
        SN_TRY(sn_graph_output_new(to, name, part->map[x.i], -1));
    }
    return SN_OK;
}

static sn_status extract(sn_module *to, const sn_module *from, sn_nd x, sn_arena *scratch) {
    uint8_t *live = SN_NEWN(scratch, uint8_t, from->graph.nodes.count);
    sn_part part = {.from = from, .member = SN_NEWN(scratch, uint8_t, from->graph.nodes.count)};
    sn_graph_live(from, live);
    sn_graph_init(to, sn_node_get(from, x)->op == SN_OP_CONV ? "convolution" : "product");
    find_members(part.member, live, from, x);
    SN_TRY(sn_part_copy(to, &part, scratch));
    return add_outputs(to, &part, live, scratch);
}

sn_status sn_product_extract(sn_module *to, const sn_module *from, sn_nd x) {
    sn_arena scratch;
    sn_arena_init(&scratch, to->env);
    sn_status status = extract(to, from, x, &scratch);
    sn_arena_free(&scratch);
    return status;
}

sn_status sn_product_key(const char **out, const sn_module *m, sn_nd x, sn_arena *arena) {
    sn_module *small = sn_module_new(m->env);
    sn_text t;
    sn_text_init(&t, m->env);
    sn_status status = sn_product_extract(small, m, x);
    if (status == SN_OK) sn_module_print(&t, small);
    *out = sn_strdup(arena, t.s ? t.s : "");
    sn_text_free(&t);
    sn_module_free(small);
    return status;
}
