/* interior.c: iterations of a loop that no edge of a row touches.
 *
 * Where vectors start before a row and end behind it, each lane has its own test (passes/schedule/inner.c), which only fails
 * in the first iteration and the last one. Written out, the others are known to hold; in a loop that counts, the region
 * is translated twice:
 *
 *     if (the tests hold at the smallest position of the iteration and at the largest) { region, tests are true }
 *     else { region }
 */
#include "codegen-llvm/gen.h"

enum { MAX_INNER = 4, MAX_TESTS = 8 };

/* The written-out loops inside the region around a statement, up to `loop`: their axes, first and last positions. */
typedef struct inner_axes {
    sn_axis at[MAX_INNER];
    sn_ix first[MAX_INNER], last[MAX_INNER];
    uint32_t n;
    int64_t lanes;
} inner_axes;

static bool find_inner(inner_axes *in, sn_gen *g, sn_stmt s, const sn_stmt_rec *loop) {
    *in = (inner_axes){.lanes = 1};
    for (const sn_stmt_rec *r = sn_stmt_get(g->m, sn_stmt_get(g->m, s)->parent); r != loop;
         r = sn_stmt_get(g->m, r->parent)) {
        int64_t n = r->axis.i ? sn_gen_extent(g, r->axis) : -1;
        if (n < 1 || in->n == MAX_INNER) return false;
        if (r->kind == SN_AXIS_VECTOR) in->lanes = n;
        in->at[in->n] = r->axis;
        in->first[in->n] = sn_ix_const(g->m, 0);
        in->last[in->n++] = sn_ix_const(g->m, n - 1);
    }
    return true;
}

/* Does the test of s differ between lanes, and is it monotone in the inner axes? Its first and last position. */
static bool is_edge_test(sn_gen *g, sn_stmt s, const sn_stmt_rec *loop, sn_ix *first, sn_ix *last) {
    const sn_stmt_rec *r = sn_stmt_get(g->m, s);
    inner_axes in;
    int64_t c;
    if (r->op != SN_LOP_IN) return false;
    sn_ix e = sn_gen_resolve(g, r->ix), bound = sn_gen_resolve(g, r->bound);
    if (sn_ix_uses_vals(g->m, e) || sn_ix_uses_vals(g->m, bound)) return false;
    if (!find_inner(&in, g, s, loop) || in.lanes == 1) return false;
    for (uint32_t k = 0; k < in.n; k++)
        if (!sn_ix_coef(g->m, e, in.at[k], &c) || c < 0 || sn_ix_uses_axis(g->m, bound, in.at[k])) return false;
    *first = sn_ix_subst(g->m, e, in.at, in.first, in.n);
    *last = sn_ix_subst(g->m, e, in.at, in.last, in.n);
    return !sn_ix_is_multiple(g->m, *first, in.lanes) || !sn_ix_is_multiple(g->m, bound, in.lanes);
}

static sn_stmt behind(const sn_gen *g, const sn_stmt_rec *loop) {
    return loop->last.i ? sn_stmt_walk_skip(g->m, loop->last) : loop->last;
}

/* Threads may go either way, so nothing in the region may wait for others; and only the innermost loop has two
 * versions. */
static bool can_have_two(sn_gen *g, const sn_stmt_rec *loop) {
    for (sn_stmt s = loop->first, end = behind(g, loop); s.i && s.i != end.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        bool written_out = r->kind == SN_AXIS_UNROLL || r->kind == SN_AXIS_VECTOR;
        if (sn_lops[r->op].syncs || sn_lops[r->op].ordered || r->op == SN_LOP_IF || (r->axis.i && !written_out))
            return false;
    }
    return true;
}

/* The condition under which all edge tests hold; NULL: there are none. Their values are marked. */
static lv interior(sn_gen *g, const sn_stmt_rec *loop) {
    if (g->lanes > 1 || !can_have_two(g, loop)) return NULL;
    lv all = NULL;
    sn_ix seen[MAX_TESTS][2], bound[MAX_TESTS], pair[2];
    uint32_t n = 0;
    for (sn_stmt s = loop->first, end = behind(g, loop); s.i && s.i != end.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (!is_edge_test(g, s, loop, &pair[0], &pair[1]) || n == MAX_TESTS) continue;
        g->holds[r->result.i] = true;
        bound[n] = r->bound;
        for (uint32_t k = 0; k < 2; k++) {
            bool known = false;
            seen[n][k] = pair[k];
            for (uint32_t i = 0; i < n; i++) known |= sn_ix_eq(seen[i][k], pair[k]) && sn_ix_eq(bound[i], r->bound);
            lv in = known ? NULL : sn_gen_in(g, pair[k], r->bound);
            all = !in ? all : all ? em_and(&g->em, all, in) : in;
        }
        n++;
    }
    return all;
}

static void forget(sn_gen *g, const sn_stmt_rec *loop) {
    for (sn_stmt s = loop->first, end = behind(g, loop); s.i && s.i != end.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->op == SN_LOP_IN) g->holds[r->result.i] = false;
    }
}

void sn_gen_iteration(sn_gen *g, const sn_stmt_rec *loop, void (*body)(sn_gen *g, void *user), void *user, lv *state,
                      uint32_t n) {
    sn_em *em = &g->em;
    lv cond = interior(g, loop), before[SN_GEN_STATES], inside[SN_GEN_STATES];
    if (!cond) {
        body(g, user);
        return;
    }
    LLVMBasicBlockRef blocks[2] = {sn_em_block(em, "interior"), sn_em_block(em, "edge")},
                      join = sn_em_block(em, "iteration");
    LLVMBuildCondBr(em->b, cond, blocks[0], blocks[1]);
    for (uint32_t k = 0; k < n; k++) before[k] = state[k];
    for (int part = 0; part < 2 && g->status == SN_OK; part++) {
        uint32_t mark = sn_gen_mark(g);
        LLVMPositionBuilderAtEnd(em->b, blocks[part]);
        body(g, user);
        sn_gen_release(g, mark);
        blocks[part] = LLVMGetInsertBlock(em->b);
        LLVMBuildBr(em->b, join);
        if (part) break;
        forget(g, loop);
        for (uint32_t k = 0; k < n; k++) inside[k] = state[k], state[k] = before[k];
    }
    LLVMPositionBuilderAtEnd(em->b, join);
    for (uint32_t k = 0; k < n && g->status == SN_OK; k++) {
        lv phi = LLVMBuildPhi(em->b, LLVMTypeOf(state[k]), "");
        LLVMAddIncoming(phi, (lv[]){inside[k], state[k]}, blocks, 2);
        state[k] = phi;
    }
}
