/* cond.c: branches in the pass `to-loops`: the buffers of their conditions and results, and their kernels in sections.
 *
 *     %p = lt %n, 1   %a = exp %x   %b = neg %x            kernel @k0(n, p)    section 0: what decides
 *     %y = cond %p, %a, %b                          ->     kernel @k1(x, y)    section 1: where p holds
 *     %z = sum %y                                          kernel @k2(x, y)    section 2: where not
 *                                                          kernel @k3(y, z)    section 3
 *     cond p sections 1 1 else 2 2
 *
 * A condition has a buffer of its own, which the wrapper reads and no pass takes away; a result has one that both branches
 * store to. What gives them is stored straight there; where it is something else already (an input, a value that others read,
 * too) a copy does the rest. A result that nobody reads is not stored. What is computed outside of a branch is realized as it
 * would be without that: it runs once in any case.
 */
#include "ir/graph/cond.h"

#include "passes/lower/lower.h"

static const sn_node_rec *node_of(const sn_lower *lw, sn_nd x) { return sn_node_get(lw->m, x); }

/* Result k of a branch. */
static sn_nd given(const sn_lower *lw, sn_nd x, uint32_t k, bool other) {
    const sn_node_rec *n = node_of(lw, x);
    return n->in[1 + k + (other ? n->n_results : 0)];
}

static void make_results(sn_lower *lw, sn_nd x) {
    uint32_t n = node_of(lw, x)->n_results;
    sn_buf *rows = lw->nodes[x.i].rows = SN_NEWN(lw->cx->scratch, sn_buf, n);
    for (uint32_t k = 0; k < n; k++) {
        sn_nd result = sn_lower_result_of(lw, x, k);
        if (!result.i) continue;
        const sn_node_rec *r = node_of(lw, result);
        if (!lw->nodes[result.i].buf.i)
            sn_lower_give(lw, result, sn_lower_buffer(lw, r->name ? r->name : "y", &r->type, SN_BUF_STEP));
        rows[k] = lw->nodes[result.i].buf;
        for (int other = 0; other < 2; other++)
            sn_lower_claim(lw, sn_cond_scope(lw->m, x, other), given(lw, x, k, other), rows[k]);
    }
}

void sn_lower_make_branches(sn_lower *lw) {
    for (sn_nd x = {lw->m->graph.nodes.count}; x.i-- > 1;) { /* the outer ones first */
        if (!lw->nodes[x.i].live || node_of(lw, x)->op != SN_OP_COND) continue;
        sn_nd condition = node_of(lw, x)->in[0];
        sn_repeat_rec *r = &lw->repeats[x.i];
        r->trip = sn_ix_const(lw->m, 1);
        const sn_node_rec *c = node_of(lw, condition);
        r->flag = sn_lower_buffer(lw, c->name ? c->name : "taken", &c->type, SN_BUF_STEP);
        make_results(lw, x);
        sn_lower_claim(lw, lw->scope[x.i], condition, r->flag);
    }
}

static sn_status lower_branch(sn_lower *lw, sn_nd x, bool other) {
    sn_lower_begin_section(lw);
    SN_TRY(sn_lower_scope(lw, sn_cond_scope(lw->m, x, other), x.i));
    for (uint32_t k = 0; k < node_of(lw, x)->n_results; k++)
        sn_lower_store_rest(lw, given(lw, x, k, other), lw->nodes[x.i].rows[k]);
    return SN_OK;
}

sn_status sn_lower_cond(sn_lower *lw, sn_nd x) {
    sn_module *m = lw->m;
    sn_repeat_rec *r = &lw->repeats[x.i];
    uint32_t at = m->repeats.n;
    sn_lower_store_rest(lw, node_of(lw, x)->in[0], r->flag);
    SN_PUSH(&m->arena, &m->repeats, *r); /* those inside stand behind it */
    r->first = lw->sections + 1;
    SN_TRY(lower_branch(lw, x, false));
    r->otherwise = lw->sections + 1;
    SN_TRY(lower_branch(lw, x, true));
    r->last = lw->section;
    m->repeats.at[at] = *r;
    sn_lower_begin_section(lw);
    return SN_OK;
}
