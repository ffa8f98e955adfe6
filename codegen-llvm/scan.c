/* scan.c: prefixes (`accum`).
 *
 * The state of an accum is a variable of the thread, reset before the outermost loop of its position: LLVM turns it
 * into registers. One execution takes in as many elements as lanes and threads count in the position:
 *
 *     lanes      running combination, lane by lane; on the CPU for all of them at once, in steps of 1, 2, 4, .., where nobody sees
 *                in which groups elements are combined
 *     threads    what the lanes of the threads before it come to (block.c), in one fixed order
 *     state      is combined in last, and grows by what all threads came to: every thread has the same one
 *
 * Rows of threads (block.y) take theirs in through shared memory, once: no loop counts beside them.
 *
 * A state that adds many times is kept in twice the precision, so that a long prefix is as exact as a short one. On a
 * GPU, and where the elements are f64, that is a second variable: what steps add goes to that one, which is small, and
 * from there to the state after every so many of them, but for what rounding would take. A step costs two additions,
 * the next one waits for one of them. What those steps add alone has to be a number: near the largest ones a prefix may become an infinity
 * that comes back from there. On the host block axes are loops, and only lanes remain. Relies on invariant L18; what a
 * GPU cannot do in order (lanes outside threads, threads that do not all arrive) is refused here.
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
static lv new_variable(sn_gen *g, LLVMTypeRef type, const char *name) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->em.b), entry = LLVMGetEntryBasicBlock(g->em.fn);
    LLVMValueRef first = LLVMGetFirstInstruction(entry);
    if (first) LLVMPositionBuilderBefore(g->em.b, first);
    else LLVMPositionBuilderAtEnd(g->em.b, entry);
    lv x = LLVMBuildAlloca(g->em.b, type, name);
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

/* Does the state add so often that the roundings matter? Lanes, and threads where there are any, add together. */
static bool is_long_sum(sn_gen *g, const sn_stmt_rec *s) {
    enum { FEW = 64, FEW_ON_GPU = 256 };
    int64_t steps = 1;
    if (s->combs[0] != SN_COMB_SUM || !sn_is_float(s->dtype)) return false;
    for (sn_stmt up = s->parent; up.i; up = sn_stmt_get(g->m, up)->parent) {
        const sn_stmt_rec *u = sn_stmt_get(g->m, up);
        if (!u->axis.i || u->kind == SN_AXIS_VECTOR || sn_gen_is_block(g, u->kind)) continue;
        if (!sn_ix_uses_axis(g->m, s->ix, u->axis)) continue;
        if (sn_mul_overflow(steps, sn_gen_extent(g, u->axis), &steps)) return true;
    }
    return steps > (g->gpu ? FEW_ON_GPU : FEW);
}

static lv widen(sn_gen *g, lv x) { return LLVMBuildFPExt(g->em.b, x, sn_em_shape(g->em.cg->f64, sn_em_lanes(x)), ""); }

static lv narrow(sn_gen *g, lv x) {
    return LLVMBuildFPTrunc(g->em.b, x, sn_em_shape(g->em.cg->f32, sn_em_lanes(x)), "");
}

void sn_gen_scan_enter(sn_gen *g, const sn_stmt_rec *loop) {
    if (!g->scans || !loop->first.i) return;
    sn_stmt end = sn_stmt_walk_skip(g->m, sn_stmt_get(g->m, loop->first)->parent);
    for (sn_stmt t = loop->first; t.i != end.i; t = sn_stmt_walk_next(g->m, t)) {
        const sn_stmt_rec *s = sn_stmt_get(g->m, t);
        if (s->op != SN_LOP_ACCUM || !is_outermost(g, loop, s->ix)) continue;
        uint32_t lanes = state_lanes(g, s);
        lv start = sn_em_splat(&g->em, identity(g, s), lanes);
        bool is_long = is_long_sum(g, s);
        g->lost[s->result.i].wide = is_long && !g->gpu && s->dtype == SN_F32;
        if (g->lost[s->result.i].wide) start = widen(g, start);
        g->prefixes[s->result.i] = new_variable(g, LLVMTypeOf(start), "prefix");
        LLVMBuildStore(g->em.b, start, g->prefixes[s->result.i]);
        if (!is_long || g->lost[s->result.i].wide) continue;
        g->lost[s->result.i].sum = new_variable(g, LLVMTypeOf(start), "lost");
        g->lost[s->result.i].steps = new_variable(g, g->em.cg->i32, "steps");
        LLVMBuildStore(g->em.b, start, g->lost[s->result.i].sum);
        LLVMBuildStore(g->em.b, sn_em_ci(g->em.cg->i32, 0), g->lost[s->result.i].steps);
    }
}

/* The state, and what the last steps have added to it (NULL: nobody keeps that). wide: both in one f64. */
typedef struct state {
    lv sum, lost, wide;
} state;

static lv if_number(sn_gen *g, lv x) {
    return em_select(&g->em, em_fcmp(&g->em, LLVMRealORD, x, x), x, LLVMConstNull(LLVMTypeOf(x)));
}

static state load_state(sn_gen *g, const sn_stmt_rec *s, LLVMTypeRef type) {
    lv at = g->prefixes[s->result.i], lost = g->lost[s->result.i].sum;
    if (!g->lost[s->result.i].wide)
        return (state){LLVMBuildLoad2(g->em.b, type, at, ""), lost ? LLVMBuildLoad2(g->em.b, type, lost, "") : NULL,
                       NULL};
    uint32_t lanes = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 1;
    lv wide = LLVMBuildLoad2(g->em.b, sn_em_shape(g->em.cg->f64, lanes), at, ""), sum = narrow(g, wide);
    return (state){sum, if_number(g, narrow(g, em_sub(&g->em, wide, widen(g, sum)))), wide};
}

/* The rounding of a + b is a number again, unless the sum is none. */
static lv rounding(sn_gen *g, lv a, lv b, lv sum) {
    sn_em *em = &g->em;
    lv of_b = em_sub(em, sum, a), of_a = em_sub(em, sum, of_b);
    return if_number(g, em_add(em, em_sub(em, a, of_a), em_sub(em, b, of_b)));
}

enum { EVERY = 64 }; /* steps: what they add has as many roundings of its own at most */

/* The loop, written out or a few steps of a longer one, at whose end there have been some: it needs no count. */
static sn_axis run_of_steps(sn_gen *g, const sn_stmt_rec *s) {
    enum { LEAST = 4 };
    for (sn_stmt up = s->parent; up.i; up = sn_stmt_get(g->m, up)->parent) {
        const sn_stmt_rec *u = sn_stmt_get(g->m, up);
        if (!u->axis.i || u->kind == SN_AXIS_VECTOR || sn_gen_is_block(g, u->kind)) continue;
        if (!sn_ix_uses_axis(g->m, s->ix, u->axis)) continue;
        int64_t n = sn_gen_extent(g, u->axis);
        return n >= LEAST && n <= EVERY ? u->axis : (sn_axis){0};
    }
    return (sn_axis){0};
}

/* Have there been so many steps? */
static lv is_turn(sn_gen *g, const sn_stmt_rec *s) {
    sn_em *em = &g->em;
    sn_axis run = run_of_steps(g, s);
    if (run.i) {
        sn_ix last = sn_ix_addc(g->m, sn_ix_axis(g->m, run), 1 - sn_gen_extent(g, run));
        return sn_gen_in(g, last, sn_ix_const(g->m, 1));
    }
    lv at = g->lost[s->result.i].steps, steps = LLVMBuildLoad2(em->b, em->cg->i32, at, "");
    steps = em_iadd(em, steps, sn_em_i(em, steps, 1));
    LLVMBuildStore(em->b, steps, at);
    return em_icmp(em, LLVMIntEQ, em_and(em, steps, sn_em_i(em, steps, EVERY - 1)), sn_em_i(em, steps, 0));
}

/* What steps have added goes to the sum; what rounding takes from that stays with the next ones. */
static void give_back(sn_gen *g, const sn_stmt_rec *s, state st) {
    sn_em *em = &g->em;
    sn_em_if now = sn_em_then(em, is_turn(g, s), "give_back");
    lv sum = em_add(em, st.sum, st.lost);
    LLVMBuildStore(em->b, sum, g->prefixes[s->result.i]);
    LLVMBuildStore(em->b, rounding(g, st.sum, st.lost, sum), g->lost[s->result.i].sum);
    sn_em_end(em, &now);
}

static state grow_state(sn_gen *g, const sn_stmt_rec *s, state old, lv x) {
    state new = {NULL, NULL, NULL};
    if (old.wide) {
        new.wide = em_add(&g->em, old.wide, widen(g, x));
        LLVMBuildStore(g->em.b, new.wide, g->prefixes[s->result.i]);
        return new;
    }
    if (old.lost) {
        new = (state){.sum = old.sum, .lost = combine(g, s, old.lost, x)};
        LLVMBuildStore(g->em.b, new.lost, g->lost[s->result.i].sum);
        give_back(g, s, new);
        return new;
    }
    new.sum = combine(g, s, old.sum, x);
    LLVMBuildStore(g->em.b, new.sum, g->prefixes[s->result.i]);
    return new;
}

static lv value_of(sn_gen *g, state st) {
    if (st.wide) return narrow(g, st.wide);
    return st.lost ? em_add(&g->em, st.sum, st.lost) : st.sum;
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
    if (!sn_ix_coef(g->m, sn_gen_resolve(g, s->ix), ax, &step) || step != lanes)
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

/* The same from a state with more than its sum: what is small is added up first. */
static lv from_exact(sn_gen *g, const sn_stmt_rec *s, state base, lv before, const lv *prefix, uint32_t lanes) {
    lv all = lanes > 1 ? LLVMGetPoison(sn_em_shape(LLVMTypeOf(base.sum), lanes)) : NULL;
    for (uint32_t i = 0; i < lanes; i++) {
        lv x = !s->exclusive ? prefix[i] : i ? prefix[i - 1] : identity(g, s);
        all = lanes > 1 ? sn_em_with_lane(&g->em, all, i, x) : x;
    }
    lv small = before ? em_add(&g->em, base.lost, before) : base.lost;
    all = em_add(&g->em, sn_em_splat(&g->em, small, lanes), all);
    return em_add(&g->em, sn_em_splat(&g->em, base.sum, lanes), all);
}

/* Each lane has the one so many before it, the first ones have what changes nothing. */
static lv moved_up(sn_gen *g, const sn_stmt_rec *s, lv x, uint32_t by) {
    lv from[SN_GEN_LANES];
    uint32_t lanes = sn_em_lanes(x);
    for (uint32_t i = 0; i < lanes; i++) from[i] = sn_em_ci(g->em.cg->i32, i < by ? 0 : (int64_t)lanes + i - by);
    lv none = sn_em_splat(&g->em, identity(g, s), lanes);
    return LLVMBuildShuffleVector(g->em.b, none, x, LLVMConstVector(from, lanes), "");
}

/* Sums and products of floats may leave the range of their dtype in one grouping and not in another. */
static bool groups_freely(const sn_stmt_rec *s) {
    bool extreme = s->combs[0] == SN_COMB_MAX || s->combs[0] == SN_COMB_MIN || s->combs[0] == SN_COMB_ANY ||
                   s->combs[0] == SN_COMB_ALL;
    return extreme || !sn_is_float(s->dtype);
}

/* The lanes of the CPU, where no threads count: as many steps as their number has digits. */
static void step_lanes(sn_gen *g, const sn_stmt_rec *s, lv x) {
    sn_em *em = &g->em;
    uint32_t lanes = sn_em_lanes(x);
    for (uint32_t by = 1; by < lanes; by *= 2) x = combine(g, s, moved_up(g, s, x, by), x);
    lv all = sn_em_lane(em, x, lanes - 1);
    state base = load_state(g, s, LLVMTypeOf(all));
    grow_state(g, s, base, all);
    if (s->exclusive) x = moved_up(g, s, x, 1);
    g->vals[s->result.i] = combine(g, s, sn_em_splat(em, base.sum, lanes), x);
}

/* Every lane walks a sequence of its own. */
static void step_alone(sn_gen *g, const sn_stmt_rec *s, lv x) {
    uint32_t lanes = state_lanes(g, s);
    x = sn_em_splat(&g->em, x, lanes);
    state before = {.sum = sn_em_splat(&g->em, identity(g, s), lanes)}, after; /* one element: no loop counts */
    if (g->prefixes[s->result.i]) {
        before = load_state(g, s, LLVMTypeOf(x));
        after = grow_state(g, s, before, x);
    } else {
        after = (state){.sum = combine(g, s, before.sum, x)};
    }
    g->vals[s->result.i] = value_of(g, s->exclusive ? before : after);
}

static bool is_of_row(sn_gen *g, const sn_stmt_rec *s) {
    for (sn_stmt up = s->parent; up.i; up = sn_stmt_get(g->m, up)->parent)
        if (sn_stmt_get(g->m, up)->kind == SN_AXIS_BLOCK_X) return false;
    return true;
}

/* The rows of threads of a block, one element each. */
static void step_rows(sn_gen *g, const sn_stmt_rec *s, sn_axis ax, lv x) {
    sn_gen_states st = state_of(g, s);
    const char *why = NULL;
    if (!sn_ix_eq(s->ix, sn_ix_axis(g->m, ax))) why = "runs over block.y and over something else";
    else if (g->divergent) why = "stands where not all threads of the block come";
    if (why && g->status == SN_OK)
        g->status = sn_fail(g->env, SN_ERROR_UNSUPPORTED, "kernel %s: a prefix %s", g->k->name, why);
    if (g->status != SN_OK) return;
    lv before = x;
    sn_gen_rows_scan(g, &st, identity(g, s), is_of_row(g, s), &before);
    g->vals[s->result.i] = s->exclusive ? before : combine(g, s, before, x);
}

void sn_gen_accum(sn_gen *g, sn_stmt_rec *s) {
    sn_em *em = &g->em;
    lv x = sn_gen_val(g, s->in[0]), lane[SN_GEN_LANES], before = NULL;
    uint32_t lanes = g->lanes > 1 && sn_ix_uses_axis(g->m, s->ix, g->lane_axis) ? g->lanes : 1;
    sn_axis threads = thread_axis(g, s);
    if (threads.i && g->axes[threads.i] == g->thread_y) {
        step_rows(g, s, threads, x);
        return;
    }
    if (lanes == 1 && !threads.i) {
        step_alone(g, s, x);
        return;
    }
    SN_ASSERT(g->prefixes[s->result.i]);
    x = sn_em_splat(em, x, lanes);
    if (!g->gpu && groups_freely(s)) {
        step_lanes(g, s, x);
        return;
    }
    for (uint32_t i = 0; i < lanes; i++) lane[i] = sn_em_lane(em, x, i);
    across_lanes(g, s, lane, lanes);
    lv all = lane[lanes - 1];
    state base = load_state(g, s, LLVMTypeOf(all));
    if (threads.i) {
        check_threads(g, s, threads, lanes);
        if (g->status != SN_OK) return;
        sn_gen_states st = state_of(g, s);
        before = all;
        sn_gen_block_scan(g, &st, identity(g, s), &before, &all);
    }
    grow_state(g, s, base, all);
    if (base.lost) g->vals[s->result.i] = from_exact(g, s, base, before, lane, lanes);
    else g->vals[s->result.i] = from_lanes(g, s, before ? combine(g, s, base.sum, before) : base.sum, lane, lanes);
}
