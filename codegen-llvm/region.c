/* region.c: how a region runs: in program order; by the blocks of a grid axis; by the threads of a block axis.
 *
 * A region is made of statements and statements have regions. Nothing here knows what a statement is: g->statement
 * makes the code of one (statement.c) and comes back for the regions inside it. Grid axes number the blocks row-major,
 * and what follows a grid loop is for its last block (last_block.c). Threads past the extent of a block axis do
 * nothing.
 */
#include "codegen-llvm/gen.h"

/* ---- grid axes ---- */

/* On the host a loop that something follows is a plain one, and so are those of a kernel that posts. */
bool sn_gen_is_spread(const sn_gen *g, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(g->m, s);
    if (r->op != SN_LOP_LOOP || r->kind != SN_AXIS_GRID) return false;
    return g->gpu || (!sn_stmt_has_tail(g->m, s) && !sn_kern_posts(g->m, r->kern));
}

/* Grid axes number the blocks row-major; `block` becomes what is left for the axes inside. */
static int64_t grid_inside(sn_gen *g, sn_stmt first) {
    int64_t most = 1;
    for (sn_stmt s = first; s.i; s = sn_stmt_get(g->m, s)->next) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (!sn_lop_has_region(r->op)) continue;
        int64_t n = grid_inside(g, r->first);
        if (sn_gen_is_spread(g, s)) n *= sn_gen_extent(g, r->axis);
        if (n > most) most = n;
    }
    return most;
}

static void region_of(sn_gen *g, void *user) {
    const sn_stmt_rec *s = user;
    sn_gen_region(g, s->first);
}

/* Are elements of a part kept in registers until it is reduced once more (passes/schedule/base/moments.c), and does its number say which of them there
 * are? Without tests they stay what they were converted to: of so few that these have room beside all else. */
static bool keeps_parts(const sn_gen *g, const sn_stmt_rec *s) {
    enum { MOST_KEPT = 32 };
    bool keeps = false, asks = false;
    if (!s->last.i) return false;
    for (sn_stmt t = s->first, end = sn_stmt_walk_skip(g->m, s->last); t.i && t.i != end.i;
         t = sn_stmt_walk_next(g->m, t)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, t);
        if (!r->parent.i || sn_stmt_get(g->m, r->parent)->op != SN_LOP_REDUCE) continue;
        const sn_buf_rec *b = r->op == SN_LOP_STORE ? sn_buf_get(g->m, r->buf) : NULL;
        if (b && b->scope == SN_BUF_REG && b->private_size > MOST_KEPT) return false;
        keeps |= b && b->scope == SN_BUF_REG;
        asks |= r->op == SN_LOP_IN && sn_ix_uses_axis(g->m, r->ix, s->axis);
    }
    return keeps && asks;
}

void sn_gen_grid_region(sn_gen *g, sn_stmt_rec *s) {
    int64_t inside = grid_inside(g, s->first);
    lv all = g->block, mine = all;
    if (inside > 1) {
        mine = LLVMBuildUDiv(g->em.b, all, sn_em_i(&g->em, all, inside), "");
        g->block = LLVMBuildURem(g->em.b, all, sn_em_i(&g->em, all, inside), "");
    }
    /* An axis of one iteration has no part in the number, which the axis around it may have taken whole. */
    g->axes[s->axis.i] = sn_gen_extent(g, s->axis) == 1 ? sn_em_i(&g->em, all, 0) : mine;
    bool has_ends = sn_kern_posts(g->m, g->kern) || keeps_parts(g, s);
    if (g->gpu && inside == 1 && has_ends) sn_gen_part(g, s, region_of, s);
    else sn_gen_region(g, s->first);
    g->block = all;
}

/* ---- block axes ---- */

/* What a block axis counts, how many there are, and whether we are inside one. */
typedef struct block_axis {
    lv number;
    int64_t extent;
    bool *in;
} block_axis;

static block_axis block_axis_of(sn_gen *g, sn_axis_kind kind) {
    if (kind == SN_AXIS_CLUSTER) return (block_axis){g->rank, g->cluster, &g->in_cluster};
    if (kind == SN_AXIS_BLOCK_X) return (block_axis){g->thread_x, g->threads_x, &g->in_x};
    return (block_axis){g->thread_y, g->threads_y, &g->in_y};
}

/* Does a thread have several steps, all written out, and has a row so many warps that most hold no end of it? */
static bool has_written_steps(sn_gen *g, const sn_stmt_rec *s) {
    enum { THREADS = 128 };
    if (g->threads_x < THREADS) return false;
    for (sn_stmt t = s->first; t.i; t = sn_stmt_get(g->m, t)->next) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, t);
        if (r->kind == SN_AXIS_UNROLL && sn_lop_has_region(r->op) && sn_gen_extent(g, r->axis) > 1) return true;
    }
    return false;
}

static void run_block_region(sn_gen *g, sn_stmt_rec *s) {
    block_axis b = block_axis_of(g, s->kind);
    bool *in = b.in, before = *in;
    *in = true;
    g->axes[s->axis.i] = b.number;
    uint32_t states = s->op == SN_LOP_REDUCE ? s->n_results : 0;
    for (uint32_t k = 0; k < states; k++) g->yields[k] = NULL;
    /* Tests of lanes stand between the loads of a thread, which then wait for each other. */
    if (g->scans && s->kind == SN_AXIS_BLOCK_X && !sn_kern_posts(g->m, g->kern) && has_written_steps(g, s))
        sn_gen_iteration(g, s, region_of, s, g->yields, states);
    else sn_gen_region(g, s->first);
    if (s->kind == SN_AXIS_BLOCK_X) sn_gen_end_copies(g, s);
    *in = before;
}

/* Threads past the extent do nothing; a reduction inside would then hang, so that is refused. */
void sn_gen_block_region(sn_gen *g, sn_stmt_rec *s) {
    block_axis b = block_axis_of(g, s->kind);
    int64_t n = sn_gen_extent(g, s->axis);
    if (n == b.extent) {
        run_block_region(g, s);
        return;
    }
    uint32_t mark = sn_gen_mark(g), exchanges = g->turn.made;
    lv thread = b.number;
    bool divergent = g->divergent;
    g->divergent = true;
    sn_em_if branch = sn_em_then(&g->em, em_icmp(&g->em, LLVMIntULT, thread, sn_em_i(&g->em, thread, n)), "threads");
    run_block_region(g, s);
    sn_em_end(&g->em, &branch);
    g->divergent = divergent;
    sn_gen_release(g, mark);
    if ((n < 0 || g->turn.made != exchanges || s->op == SN_LOP_REDUCE) && g->status == SN_OK)
        g->status = sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: %s axes of different extents share a reduction",
                            g->k->name, sn_axis_kind_names[s->kind]);
}

/* ---- in order ---- */

/* What follows a grid loop is for its last block. */
void sn_gen_region(sn_gen *g, sn_stmt first) {
    sn_gen_tail tail = {.open = false};
    for (sn_stmt s = first; s.i && g->status == SN_OK; s = sn_stmt_get(g->m, s)->next) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        g->statement(g, s);
        if (g->gpu && sn_gen_is_spread(g, s) && r->next.i && g->role != SN_GEN_COPIES && g->status == SN_OK)
            sn_gen_tail_begin(g, &tail, grid_inside(g, r->first) * sn_gen_extent(g, r->axis));
    }
    sn_gen_tail_end(g, &tail);
}
