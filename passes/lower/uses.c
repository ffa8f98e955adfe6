/* uses.c: what is known of a node from those who read it, before it is decided what gets memory (realize.c). Part of the pass `to-loops`.
 *
 * Who reads it, and whether an output is it element by element; whether it is made of constants, for whom; whether it is a residual sum.
 * Operands have smaller ids, so that each fact takes one walk over the nodes, from the last or from the first.
 */
#include "passes/lower/lower.h"

double sn_lower_elements(const sn_lower *lw, sn_nd x) {
    const sn_type *t = &sn_node_get(lw->m, x)->type;
    double n = 1;
    int64_t size;
    for (uint32_t k = 0; k < t->rank; k++) n *= sn_ix_is_const(lw->m, t->shape[k], &size) ? (double)size : 0;
    return n;
}

static sn_ix last_size(const sn_lower *lw, sn_nd x) {
    const sn_type *t = &sn_node_get(lw->m, x)->type;
    return t->rank ? t->shape[t->rank - 1] : sn_ix_const(lw->m, 1);
}

bool sn_lower_joins_rows(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    return n->op == SN_OP_RESHAPE && !sn_ix_eq(last_size(lw, x), last_size(lw, n->in[0]));
}

/* ---- who reads it ---- */

/* x, and what it is a view of, is walked by a reshape that joins its rows. */
static void note_flat(sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    for (; sn_ops[n->op].cls == SN_OPS_VIEW || n->op == SN_OP_CAST; n = sn_node_get(lw->m, x)) {
        lw->nodes[x.i].walked_flat = true;
        x = n->in[0];
    }
    lw->nodes[x.i].walked_flat = true;
}

static void count_users(sn_lower *lw) {
    const sn_graph_ir *g = &lw->m->graph;
    uint8_t *live = SN_NEWN(lw->cx->scratch, uint8_t, g->nodes.count);
    sn_graph_live(lw->m, live);
    for (uint32_t i = 1; i < g->nodes.count; i++) {
        lw->nodes[i].live = live[i];
        if (!live[i]) continue;
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        for (uint32_t k = 0; k < n->n_in; k++) lw->nodes[n->in[k].i].users++;
        if (sn_lower_is_lookup(n)) lw->nodes[n->in[0].i].looked_up += sn_lower_elements(lw, (sn_nd){i});
        if (sn_lower_joins_rows(lw, (sn_nd){i})) note_flat(lw, n->in[0]);
    }
    for (uint32_t k = 0; k < g->outputs.n; k++) lw->nodes[g->outputs.at[k].node.i].users++;
    for (uint32_t k = 0; k < g->outputs.n; k++) lw->nodes[g->outputs.at[k].node.i].ways++;
    for (uint32_t i = g->nodes.count; i-- > 1;) {
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        uint32_t ways = sn_ops[n->op].cls == SN_OPS_VIEW ? lw->nodes[i].ways : 1;
        for (uint32_t k = 0; k < n->n_in && live[i]; k++) lw->nodes[n->in[k].i].ways += ways;
    }
    sn_lower_count_places(lw);
}

/* ---- made of constants ---- */

/* Who is made of constants alone, and whose elements do runs want? Operands have smaller ids. */
static void find_constants(sn_lower *lw) {
    const sn_graph_ir *g = &lw->m->graph;
    for (uint32_t i = 1; i < g->nodes.count; i++) {
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        lw->nodes[i].constant = n->op != SN_OP_INPUT && sn_ops[n->op].cls != SN_OPS_REPEAT;
        for (uint32_t k = 0; k < n->n_in; k++) lw->nodes[i].constant &= lw->nodes[n->in[k].i].constant;
    }
    for (uint32_t i = g->nodes.count; i-- > 1;) {
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        const sn_lower_node *info = &lw->nodes[i];
        bool passes_on = !info->constant || (info->for_runs && sn_ops[n->op].cls == SN_OPS_VIEW);
        double readers = info->constant ? info->readers : sn_lower_elements(lw, (sn_nd){i});
        for (uint32_t k = 0; k < n->n_in && info->live && passes_on; k++) {
            sn_lower_node *in = &lw->nodes[n->in[k].i];
            in->for_runs = true;
            if (readers > in->readers) in->readers = readers;
        }
    }
}

/* ---- what becomes of it ---- */

static bool is_by_element(const sn_node_rec *n) {
    sn_opclass cls = sn_ops[n->op].cls;
    return cls == SN_OPS_UNARY || cls == SN_OPS_BINARY || cls == SN_OPS_ELEMENT;
}

/* Does operand k have an element for each of the node's? */
static bool is_as_large(const sn_lower *lw, const sn_node_rec *n, uint32_t k) {
    const sn_type *t = &sn_node_get(lw->m, n->in[k])->type;
    if (t->rank != n->type.rank) return false;
    for (uint32_t i = 0; i < t->rank; i++)
        if (!sn_ix_eq(t->shape[i], n->type.shape[i])) return false;
    return true;
}

/* Whose elements each become one of an output, and nothing else. Operands have smaller ids. */
static void find_kept(sn_lower *lw) {
    for (uint32_t i = lw->m->graph.nodes.count; i-- > 1;) {
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        for (uint32_t k = 0; k < n->n_in && lw->nodes[i].live; k++) {
            bool passes = sn_lower_is_same_elements(n) || (is_by_element(n) && is_as_large(lw, n, k));
            lw->nodes[n->in[k].i].kept |= !passes || lw->nodes[i].kept;
        }
    }
}

/* What x shows all elements of, as far as nobody else reads it. */
static sn_nd shown_by(const sn_lower *lw, sn_nd x) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    while (lw->nodes[x.i].users == 1 && (n->op == SN_OP_COPY || sn_lower_is_same_elements(n)))
        n = sn_node_get(lw->m, x = n->in[0]);
    return x;
}

/* A sum that goes on beside another product, as residual sums of networks do, is what its own product leaves in memory: then
 * nobody reads that product, and what else went into the sum, once more.
 *
 *     %a = matmul ..   %h = add %x, %a   %n = layer_norm %h   %b = matmul %n ..   %y = add %h, %b
 *
 * %a: the product of %h. %h is joined: several read it, one of them (%y) beside the product %b. On a GPU views may stand between a product
 * and its sum (windows of an image, tokens across channels). */
static void find_joined(sn_lower *lw) {
    const sn_graph_ir *g = &lw->m->graph;
    for (uint32_t i = 1; i < g->nodes.count; i++) {
        const sn_node_rec *n = sn_node_get(lw->m, (sn_nd){i});
        if (!lw->nodes[i].live || !is_by_element(n)) continue;
        sn_nd product = {0};
        for (uint32_t k = 0; k < n->n_in; k++) {
            sn_nd x = lw->cx->target->is_gpu ? shown_by(lw, n->in[k]) : n->in[k];
            const sn_lower_node *in = &lw->nodes[x.i];
            bool is_one = sn_ops[sn_node_get(lw->m, x)->op].cls == SN_OPS_CONTRACT;
            if (in->users == 1 && is_as_large(lw, n, k)) product = is_one ? x : in->product.i ? in->product : product;
        }
        lw->nodes[i].product = product;
        for (uint32_t k = 0; k < n->n_in && product.i; k++) {
            sn_lower_node *in = &lw->nodes[n->in[k].i];
            in->joined |= in->users > 1 && in->product.i && is_as_large(lw, n, k);
        }
    }
}

void sn_lower_find_uses(sn_lower *lw) {
    count_users(lw);
    find_constants(lw);
    find_joined(lw);
    find_kept(lw);
}
