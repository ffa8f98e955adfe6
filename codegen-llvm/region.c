/* region.c: statements, loops and the vector axis.
 *
 * A region is translated in program order; written-out axes translate it again with the axis a constant. Values are
 * LLVM scalars, or vectors where they differ between the lanes of the vector axis. Whether a loop's state differs must
 * be known before its body exists, hence the small analysis at each vector axis. A vector axis that cannot be one (a
 * test that lanes answer differently) is written out: kinds never change the meaning. Relies on access.c, index.c,
 * reduce.c, block.c.
 */
#include "codegen-llvm/gen.h"

#include <string.h>

/* ---- loops ---- */

static void iteration(sn_gen *g, void *user) {
    const sn_stmt_rec *loop = user;
    sn_gen_region(g, loop->first);
    sn_gen_part_made(g, loop);
}

static void seq_loop(sn_gen *g, sn_stmt_rec *s) {
    sn_ix extent = sn_gen_resolve(g, sn_axis_get(g->m, s->axis)->extent);
    sn_gen_loop l;
    sn_gen_loop_begin(g, &l, s->axis, sn_em_ci(g->index, 0), sn_gen_ix(g, extent), sn_ix_range(g->m, extent).lo < 1);
    sn_gen_iteration(g, s, iteration, s, NULL, 0);
    sn_gen_loop_end(g, &l, NULL, NULL, 0);
}

static void unrolled_loop(sn_gen *g, sn_stmt_rec *s, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        sn_gen_part_used(g, s, i, n);
        sn_gen_fix(g, s->axis, i);
        sn_gen_region(g, s->first);
        sn_gen_unfix(g);
        sn_gen_part_made(g, s);
    }
}

/* ---- vector axis ---- */

typedef struct lane_query {
    sn_gen *g;
    bool varies;
} lane_query;

static void note_lane(void *user, sn_ix atom) {
    lane_query *q = user;
    const sn_ix_rec *r = sn_ix_get(q->g->m, atom);
    if (r->kind == SN_IX_AXIS && r->id == q->g->lane_axis.i) q->varies = true;
    if (r->kind == SN_IX_VAL && q->g->varies[r->id]) q->varies = true;
}

static bool ix_varies(sn_gen *g, sn_ix e) {
    lane_query q = {g, false};
    if (e.i) sn_ix_walk(g->m, sn_gen_resolve(g, e), note_lane, &q);
    return q.varies;
}

static bool operands_vary(sn_gen *g, const sn_stmt_rec *s) {
    for (uint32_t i = 0; i < s->n_in; i++)
        if (g->varies[s->in[i].i]) return true;
    return false;
}

static bool test_varies(sn_gen *g, const sn_stmt_rec *s) {
    if (!ix_varies(g, s->ix) && !ix_varies(g, s->bound)) return false;
    return !sn_gen_in_uniform(g, sn_gen_resolve(g, s->ix), sn_gen_resolve(g, s->bound));
}

/* Marks what varies in the region; false when the region cannot run as lanes. */
static bool analyse_region(sn_gen *g, sn_stmt first);

/* Do the results of s, whose region has been looked at? Those of a region are what it yields. */
static bool results_vary(sn_gen *g, const sn_stmt_rec *s) {
    const sn_lop_info *op = &sn_lops[s->op];
    if (op->has_region) return operands_vary(g, sn_stmt_get(g->m, s->last));
    return operands_vary(g, s) || (op->has_bound ? test_varies(g, s) : ix_varies(g, s->ix));
}

static bool analyse(sn_gen *g, sn_stmt_rec *s) {
    const sn_lop_info *op = &sn_lops[s->op];
    if (op->has_axis && ix_varies(g, sn_axis_get(g->m, s->axis)->extent)) return false;
    if (op->has_region && op->has_bound && test_varies(g, s)) return false;
    if (op->has_region && !analyse_region(g, s->first)) return false;
    bool any = s->n_results && results_vary(g, s);
    for (uint32_t i = 0; i < s->n_results; i++) g->varies[s->result.i + i] = any;
    return true;
}

static bool analyse_region(sn_gen *g, sn_stmt first) {
    for (sn_stmt s = first; s.i; s = sn_stmt_get(g->m, s)->next)
        if (!analyse(g, sn_stmt_get(g->m, s))) return false;
    return true;
}

bool sn_gen_vector_region(sn_gen *g, sn_stmt_rec *s) {
    int64_t n = sn_gen_extent(g, s->axis);
    if (g->lanes > 1 || n < 2 || n > SN_GEN_LANES) return false;
    g->lane_axis = s->axis;
    g->lanes = (uint32_t)n;
    bool can = analyse_region(g, s->first);
    if (can) sn_gen_region(g, s->first);
    g->lanes = 1;
    g->lane_axis = (sn_axis){0};
    return can;
}

/* ---- statements ---- */

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

static void run_block_region(sn_gen *g, sn_stmt_rec *s) {
    block_axis b = block_axis_of(g, s->kind);
    bool *in = b.in, before = *in;
    *in = true;
    g->axes[s->axis.i] = b.number;
    sn_gen_region(g, s->first);
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

/* A grid loop whose iterations run in any order. On the host one that something follows is a plain loop, and so are
 * those of a kernel that posts. */
static bool is_spread(const sn_gen *g, sn_stmt s) {
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
        if (is_spread(g, s)) n *= sn_gen_extent(g, r->axis);
        if (n > most) most = n;
    }
    return most;
}

static void grid_loop(sn_gen *g, sn_stmt_rec *s) {
    int64_t inside = grid_inside(g, s->first);
    lv all = g->block, mine = all;
    if (inside > 1) {
        mine = LLVMBuildUDiv(g->em.b, all, sn_em_i(&g->em, all, inside), "");
        g->block = LLVMBuildURem(g->em.b, all, sn_em_i(&g->em, all, inside), "");
    }
    g->axes[s->axis.i] = mine;
    sn_gen_region(g, s->first);
    g->block = all;
}

/* On the host, where registers are arrays, code that is written out gains nothing and takes its time to compile. */
static bool is_written_out(const sn_gen *g, sn_axis_kind kind, int64_t n) {
    enum { FEW = 4 };
    return n >= 0 && (kind == SN_AXIS_VECTOR || (kind == SN_AXIS_UNROLL && (g->gpu || n <= FEW)));
}

static void loop(sn_gen *g, sn_stmt id, sn_stmt_rec *s) {
    int64_t n = sn_gen_extent(g, s->axis);
    sn_gen_scan_enter(g, s);
    if (is_spread(g, id)) grid_loop(g, s);
    else if (sn_gen_is_block(g, s->kind)) sn_gen_block_region(g, s);
    else if (g->gpu && s->pipe) sn_gen_pipe(g, id);
    else if (n == 1 || sn_gen_waits_for_parts(g, s)) unrolled_loop(g, s, n);
    else if (s->kind == SN_AXIS_VECTOR && sn_gen_vector_region(g, s)) return;
    else if (is_written_out(g, s->kind, n)) unrolled_loop(g, s, n);
    else seq_loop(g, s);
}

static void note_thread(void *user, sn_ix atom) {
    sn_gen *g = user;
    const sn_ix_rec *r = sn_ix_get(g->m, atom);
    lv x = r->kind == SN_IX_AXIS ? g->axes[r->id] : NULL;
    bool is_thread = x && (x == g->rank || x == g->thread_x || x == g->thread_y);
    if (is_thread || r->kind == SN_IX_VAL) g->divergent = true;
}

static void conditional(sn_gen *g, sn_stmt_rec *s) {
    lv cond = sn_em_lane(&g->em, sn_gen_in(g, s->ix, s->bound), 0);
    uint32_t mark = sn_gen_mark(g);
    sn_gen_turn turn = g->turn;
    bool divergent = g->divergent;
    if (g->gpu) sn_ix_walk(g->m, s->ix, note_thread, g);
    if (g->gpu) sn_ix_walk(g->m, s->bound, note_thread, g);
    sn_em_if branch = sn_em_then(&g->em, cond, "if");
    sn_gen_region(g, s->first);
    sn_gen_settle(g, &turn);
    sn_em_end(&g->em, &branch);
    sn_gen_release(g, mark);
    g->divergent = divergent;
}

static lv index_value(sn_gen *g, const sn_stmt_rec *s) {
    lv x = sn_gen_ix(g, sn_gen_resolve(g, s->ix));
    return sn_math_cast(&g->em, s->dtype, g->index == g->em.cg->i64 ? SN_I64 : SN_I32, x);
}

static lv scalar_value(sn_gen *g, const sn_stmt_rec *s) {
    sn_em *em = &g->em;
    lv in[3];
    SN_ASSERT(s->n_in <= SN_COUNT(in));
    for (uint32_t i = 0; i < s->n_in; i++) in[i] = sn_gen_val(g, s->in[i]);
    sn_dtype from = s->n_in ? sn_val_get(g->m, s->in[s->n_in - 1])->dtype : s->dtype;
    switch ((int)s->op) {
    case SN_LOP_CONST: return sn_math_const(em, s->dtype, s->f, s->i);
    case SN_LOP_CAST: return sn_math_cast(em, s->dtype, from, in[0]);
    case SN_LOP_BITCAST: return sn_math_bitcast(em, s->dtype, from, in[0]);
    case SN_LOP_INDEX: return index_value(g, s);
    case SN_LOP_IN: return g->holds[s->result.i] ? LLVMConstInt(em->cg->i1, 1, 0) : sn_gen_in(g, s->ix, s->bound);
    default: break;
    }
    em->coarse = g->gpu && g->coarse[s->result.i];
    lv x = sn_math_op(em, s->op, from, in, s->n_in);
    em->coarse = false;
    return x;
}

/* Threads that do not come here would leave the others waiting. */
static void barrier(sn_gen *g) {
    if (g->divergent && g->status == SN_OK)
        g->status = sn_fail(g->env, SN_ERROR_UNSUPPORTED,
                            "kernel %s: a barrier stands where not all threads of the block come", g->k->name);
    if (g->gpu && g->cluster > 1) sn_gen_cluster_barrier(g);
    else if (g->gpu) sn_gen_barrier(g);
}

static void statement(sn_gen *g, sn_stmt id) {
    sn_stmt_rec *s = sn_stmt_get(g->m, id);
    switch (s->op) {
    case SN_LOP_LOAD: sn_gen_load(g, s); return;
    case SN_LOP_STORE: sn_gen_store(g, s); return;
    case SN_LOP_ACCUM: sn_gen_accum(g, s); return;
    case SN_LOP_LOOP: loop(g, id, s); return;
    case SN_LOP_REDUCE: sn_gen_reduce(g, s); return;
    case SN_LOP_BARRIER: barrier(g); return;
    case SN_LOP_IF: conditional(g, s); return;
    case SN_LOP_YIELD:
        for (uint32_t i = 0; i < s->n_in; i++) g->yields[i] = sn_gen_val(g, s->in[i]);
        return;
    case SN_LOP_CONST:
    case SN_LOP_CAST:
    case SN_LOP_BITCAST:
    case SN_LOP_INDEX:
    case SN_LOP_IN:
#define SN_LOP(ID, name, n_in, result, f, i) case SN_LOP_##ID:
#include "ir/ops/lops.def"
        g->vals[s->result.i] = scalar_value(g, s);
        return;
    case SN_N_ALL_LOPS: return;
    }
}

/* What follows a grid loop is for its last block. */
void sn_gen_region(sn_gen *g, sn_stmt first) {
    sn_gen_tail tail = {.open = false};
    for (sn_stmt s = first; s.i && g->status == SN_OK; s = sn_stmt_get(g->m, s)->next) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        statement(g, s);
        if (g->gpu && is_spread(g, s) && r->next.i && g->status == SN_OK)
            sn_gen_tail_begin(g, &tail, grid_inside(g, r->first) * sn_gen_extent(g, r->axis));
    }
    sn_gen_tail_end(g, &tail);
}

void sn_gen_segment(sn_gen *g, sn_stmt s) { statement(g, s); }
