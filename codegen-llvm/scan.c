/* scan.c: prefixes (`accum`).
 *
 * The state of an accum is a variable of the thread, reset before the outermost loop of its position: LLVM turns it
 * into registers. One execution takes in as many elements as lanes and threads count in the position:
 *
 *     lanes      running combination, lane by lane
 *     threads    what the lanes of the threads before it come to (block.c), in one fixed order
 *     state      is combined in last, and grows by what all threads came to: every thread has the same one
 *
 * On the host block axes are loops, and only lanes remain. Relies on invariant L18; what a GPU cannot do in order
 * (lanes outside threads, threads that do not all arrive) is refused here.
 */
#include "codegen-llvm/gen.h"

static sn_gen_states state_of(sn_gen *g, const sn_stmt_rec *s) {
    (void)g;
    return (sn_gen_states){.n_combs = 1, .n = 1, .combs = {s->combs[0]}, .dtypes = {s->dtype}};
}

static lv identity(sn_gen *g, const sn_stmt_rec *s) {
    sn_scalar x[2];
    sn_scalar_identity(s->combs[0], s->dtype, x);
    return sn_math_const(&g->em, s->dtype, x[0].f, x[0].i);
}

static lv combine(sn_gen *g, const sn_stmt_rec *s, lv state, lv x) {
    sn_gen_states st = state_of(g, s);
    sn_gen_combine(g, &st, &state, &x);
    return state;
}

/* ---- the state ---- */

/* Lanes that do not count in the position carry a state each. */
static uint32_t state_lanes(const sn_gen *g, const sn_stmt_rec *s) {
    bool counts = g->lanes > 1 && sn_ix_uses_axis(g->m, s->ix, g->lane_axis);
    return g->lanes > 1 && !counts && g->varies[s->result.i] ? g->lanes : 1;
}

/* In the entry block, where LLVM looks for variables. */
static lv new_variable(sn_gen *g, LLVMTypeRef type) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->em.b), entry = LLVMGetEntryBasicBlock(g->em.fn);
    LLVMValueRef first = LLVMGetFirstInstruction(entry);
    if (first) LLVMPositionBuilderBefore(g->em.b, first);
    else LLVMPositionBuilderAtEnd(g->em.b, entry);
    lv x = LLVMBuildAlloca(g->em.b, type, "prefix");
    LLVMPositionBuilderAtEnd(g->em.b, here);
    return x;
}

/* Does the loop `outer` count in the position, and none around it? */
static bool is_outermost(sn_gen *g, const sn_stmt_rec *outer, sn_ix position) {
    if (!sn_ix_uses_axis(g->m, position, outer->axis)) return false;
    for (sn_stmt up = outer->parent; up.i; up = sn_stmt_get(g->m, up)->parent) {
        sn_axis ax = sn_stmt_get(g->m, up)->axis;
        if (ax.i && sn_ix_uses_axis(g->m, position, ax)) return false;
    }
    return true;
}

void sn_gen_scan_enter(sn_gen *g, const sn_stmt_rec *loop) {
    if (!g->scans || !loop->first.i) return;
    sn_stmt end = sn_stmt_walk_skip(g->m, sn_stmt_get(g->m, loop->first)->parent);
    for (sn_stmt t = loop->first; t.i != end.i; t = sn_stmt_walk_next(g->m, t)) {
        const sn_stmt_rec *s = sn_stmt_get(g->m, t);
        if (s->op != SN_LOP_ACCUM || !is_outermost(g, loop, s->ix)) continue;
        uint32_t lanes = state_lanes(g, s);
        lv start = sn_em_splat(&g->em, identity(g, s), lanes);
        g->prefixes[s->result.i] = new_variable(g, LLVMTypeOf(start));
        LLVMBuildStore(g->em.b, start, g->prefixes[s->result.i]);
    }
}

/* ---- one step ---- */

/* The block.x axis in the position, none on the host. */
static sn_axis thread_axis(sn_gen *g, const sn_stmt_rec *s) {
    for (sn_stmt up = s->parent; up.i && g->gpu; up = sn_stmt_get(g->m, up)->parent) {
        const sn_stmt_rec *u = sn_stmt_get(g->m, up);
        bool block = u->kind == SN_AXIS_BLOCK_X || u->kind == SN_AXIS_BLOCK_Y;
        if (u->axis.i && block && sn_ix_uses_axis(g->m, s->ix, u->axis)) return u->axis;
    }
    return (sn_axis){0};
}

/* Threads take their elements all at once: those of one thread have to be the lanes, and all threads have to arrive. */
static void check_threads(sn_gen *g, const sn_stmt_rec *s, sn_axis ax, uint32_t lanes) {
    int64_t step = 0;
    const char *why = NULL;
    uint32_t n = g->threads_x;
    bool whole = n % 32 == 0 || (n < 32 && !(n & (n - 1)));
    if (g->axes[ax.i] == g->thread_y) why = "runs over block.y";
    else if (!sn_ix_coef(g->m, sn_gen_resolve(g, s->ix), ax, &step) || step != lanes)
        why = "has loops other than one vector inside block.x";
    else if (state_lanes(g, s) > 1) why = "has lanes of its own beside the threads";
    else if (g->divergent) why = "stands where not all threads of the block come";
    else if (!whole) why = "needs a power of two of threads or whole warps";
    if (why && g->status == SN_OK)
        g->status = sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: a prefix %s", g->k->name, why);
}

/* What the lanes before each lane, and it itself, come to. */
static void across_lanes(sn_gen *g, const sn_stmt_rec *s, lv *x, uint32_t lanes) {
    for (uint32_t i = 1; i < lanes; i++) x[i] = combine(g, s, x[i - 1], x[i]);
}

static lv from_lanes(sn_gen *g, const sn_stmt_rec *s, lv base, const lv *prefix, uint32_t lanes) {
    lv all = lanes > 1 ? LLVMGetPoison(sn_em_shape(LLVMTypeOf(base), lanes)) : NULL;
    for (uint32_t i = 0; i < lanes; i++) {
        lv x = base;
        if (!s->exclusive) x = combine(g, s, base, prefix[i]);
        else if (i) x = combine(g, s, base, prefix[i - 1]);
        all = lanes > 1 ? sn_em_with_lane(&g->em, all, i, x) : x;
    }
    return all;
}

/* Every lane walks a sequence of its own. */
static void step_alone(sn_gen *g, const sn_stmt_rec *s, lv x) {
    lv at = g->prefixes[s->result.i], before = identity(g, s);
    uint32_t lanes = state_lanes(g, s);
    x = sn_em_splat(&g->em, x, lanes);
    if (at) before = LLVMBuildLoad2(g->em.b, LLVMTypeOf(x), at, "");
    else before = sn_em_splat(&g->em, before, lanes); /* one element: no loop counts */
    lv after = combine(g, s, before, x);
    if (at) LLVMBuildStore(g->em.b, after, at);
    g->vals[s->result.i] = s->exclusive ? before : after;
}

void sn_gen_accum(sn_gen *g, sn_stmt_rec *s) {
    sn_em *em = &g->em;
    lv x = sn_gen_val(g, s->in[0]), at = g->prefixes[s->result.i], lane[SN_GEN_LANES];
    uint32_t lanes = g->lanes > 1 && sn_ix_uses_axis(g->m, s->ix, g->lane_axis) ? g->lanes : 1;
    sn_axis threads = thread_axis(g, s);
    if (lanes == 1 && !threads.i) {
        step_alone(g, s, x);
        return;
    }
    SN_ASSERT(at);
    x = sn_em_splat(em, x, lanes);
    for (uint32_t i = 0; i < lanes; i++) lane[i] = sn_em_lane(em, x, i);
    across_lanes(g, s, lane, lanes);
    lv all = lane[lanes - 1], base = LLVMBuildLoad2(em->b, LLVMTypeOf(all), at, ""), next;
    if (threads.i) {
        check_threads(g, s, threads, lanes);
        if (g->status != SN_OK) return;
        sn_gen_states st = state_of(g, s);
        lv before = all;
        sn_gen_block_scan(g, &st, identity(g, s), &before, &all);
        next = combine(g, s, base, all);
        base = combine(g, s, base, before);
    } else {
        next = combine(g, s, base, all);
    }
    LLVMBuildStore(em->b, next, at);
    g->vals[s->result.i] = from_lanes(g, s, base, lane, lanes);
}
