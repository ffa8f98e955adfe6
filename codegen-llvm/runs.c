/* runs.c: a vector whose lanes are runs of neighbours (ir/loop/runs.h): its region once a run, for the lanes from there on.
 *
 *     loop v in 16 : vector { load x[20*row[(p + v) div 11] + (p + v) mod 11]  ...  store y[p + v] }
 *
 *     lanes from 0:   the region as if all 16 were in the run of lane 0, whose tests and divisions are scalars: one access
 *     end = 11 - p mod 11
 *     while (end < 16) { the region as if all were in the run of lane `end`;  lanes from `end` on are these;  end = the next one }
 *     store 16 lanes
 *
 * Most vectors of long rows have one run. Loads are whole vectors that start anywhere (unaligned.c); of those which selections
 * choose from by the tests that are their masks, as concatenations do, one is made. What is loaded for lanes of other runs is
 * thrown away.
 *
 * For vectors of schedules that say so (`runs`), where all stores are aligned and every size is a number. Others are made as
 * lanes (lanes.c); the meaning is the same.
 */
#include "codegen-llvm/gen.h"
#include "ir/loop/runs.h"

enum { LEAST_VECTOR = 4 };

/* ---- which vectors ---- */

static sn_ix at_first_lane(sn_gen *g, sn_ix e, sn_axis ax) {
    sn_ix zero = sn_ix_const(g->m, 0);
    return sn_ix_subst(g->m, sn_gen_resolve(g, e), &ax, &zero, 1);
}

static bool can_access(sn_gen *g, const sn_stmt_rec *s, sn_axis ax, uint32_t lanes) {
    enum { PIECE = 16 };
    const sn_buf_rec *b = sn_buf_get(g->m, s->buf);
    int64_t size, step;
    uint32_t bytes = sn_dtype_bytes(b->dtype), piece = lanes * bytes < PIECE ? lanes * bytes : PIECE;
    if (s->op == SN_LOP_LOAD) {
        if (!sn_ix_run(g->m, s->ix, ax, &step, NULL, NULL) || !step) return true;
        return sn_ix_is_const(g->m, b->size, &size) && size > 0 && lanes * bytes >= LEAST_VECTOR;
    }
    return !g->gpu || (b->align >= piece && sn_ix_is_multiple(g->m, at_first_lane(g, s->ix, ax), piece / bytes));
}

static bool can_run(sn_gen *g, const sn_stmt_rec *loop, uint32_t lanes) {
    uint32_t stores = 0;
    for (sn_stmt s = loop->first; s.i; s = sn_stmt_get(g->m, s)->next) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->op != SN_LOP_LOAD && r->op != SN_LOP_STORE) continue;
        if (!can_access(g, r, loop->axis, lanes)) return false;
        stores += r->op == SN_LOP_STORE;
    }
    return stores <= SN_GEN_STATES;
}

/* ---- loads of which one is made ---- */

static const sn_stmt_rec *definition(const sn_gen *g, sn_val v) { return sn_stmt_get(g->m, sn_val_get(g->m, v)->def); }

/* Halves travel as floats. */
static const sn_stmt_rec *load_below(const sn_gen *g, sn_val v) {
    const sn_stmt_rec *r = definition(g, v);
    return r->op == SN_LOP_CAST ? definition(g, r->in[0]) : r;
}

static uint32_t uses(const sn_gen *g, const sn_stmt_rec *loop, sn_val v) {
    uint32_t n = 0;
    for (sn_stmt s = loop->first; s.i; s = sn_stmt_get(g->m, s)->next) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        for (uint32_t i = 0; i < r->n_in; i++) n += r->in[i].i == v.i;
    }
    return n;
}

static bool is_joined(const sn_gen *g, sn_val v) {
    for (uint32_t i = 0; i < g->run.n_joined; i++)
        if (g->run.joined[i].v.i == v.i) return true;
    return false;
}

/* What is v a load of, or a choice of loads, of neighbours for this use alone? SN_N_DTYPES: it is none. */
static sn_dtype joins_as(sn_gen *g, const sn_stmt_rec *loop, sn_val v) {
    const sn_stmt_rec *r = definition(g, v), *load = load_below(g, v);
    int64_t step;
    if (uses(g, loop, v) != 1) return SN_N_DTYPES;
    if (r->op == SN_LOP_SELECT) return is_joined(g, r->in[1]) ? load_below(g, r->in[1])->dtype : SN_N_DTYPES;
    if (load != r && uses(g, loop, r->in[0]) != 1) return SN_N_DTYPES;
    bool is = load->op == SN_LOP_LOAD && sn_ix_run(g->m, load->ix, loop->axis, &step, NULL, NULL) && step;
    return is ? load->dtype : SN_N_DTYPES;
}

static void join_value(sn_gen *g, sn_val v) {
    const sn_stmt_rec *r = definition(g, v);
    g->run.joined[g->run.n_joined++].v = v;
    if (r->op == SN_LOP_CAST) g->run.joined[g->run.n_joined++].v = r->in[0];
}

/* Selections by the mask of the first of two. */
static void find_joined(sn_gen *g, const sn_stmt_rec *loop) {
    for (sn_stmt s = loop->first; s.i; s = sn_stmt_get(g->m, s)->next) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (r->op != SN_LOP_SELECT || g->run.n_joined + 4 > SN_GEN_JOINED) continue;
        const sn_stmt_rec *load = load_below(g, r->in[1]);
        if (load->op != SN_LOP_LOAD || !load->has_mask || sn_stmt_mask(load).i != r->in[0].i) continue;
        sn_dtype x = joins_as(g, loop, r->in[1]), y = joins_as(g, loop, r->in[2]);
        if (x != y || x == SN_N_DTYPES) continue;
        join_value(g, r->in[1]);
        join_value(g, r->in[2]);
    }
}

/* ---- where runs end ---- */

/* Ends that no vector has inside go. */
static void keep_inner_ends(sn_gen *g, sn_runs *runs, sn_axis ax, uint32_t lanes) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < runs->ends.n; i++) {
        sn_run_end e = runs->ends.at[i];
        sn_ix first = at_first_lane(g, e.at, ax), of = sn_gen_resolve(g, e.of);
        sn_range r = sn_ix_range(g->m, sn_gen_resolve(g, e.at)), b = sn_ix_range(g->m, of);
        bool whole = sn_ix_is_multiple(g->m, first, lanes) && sn_ix_is_multiple(g->m, of, lanes);
        bool decided = e.test && (r.hi < 0 || (r.lo >= 0 && r.hi < b.lo) || r.lo >= b.hi);
        if (!whole && !decided && !(r.lo >= 0 && r.hi < b.lo)) runs->ends.at[n++] = e;
    }
    runs->ends.n = n;
}

static lv least(sn_em *em, lv x, lv y) { return em_select(em, em_icmp(em, LLVMIntULT, x, y), x, y); }

/* Lanes behind this one in its run, or more than there are. As unsigned numbers, those before an end that is behind are many. */
static lv lanes_behind(sn_gen *g, const sn_run_end *e) {
    sn_em *em = &g->em;
    sn_ix at = sn_gen_resolve(g, e->at), of = sn_gen_resolve(g, e->of);
    if (!e->test) at = sn_ix_mod(g->m, at, of);
    lv to_end = sn_gen_ix(g, sn_ix_addc(g->m, sn_ix_sub(g->m, of, at), -1));
    if (!e->test || sn_ix_range(g->m, at).lo >= 0) return to_end;
    return least(em, to_end, sn_gen_ix(g, sn_ix_addc(g->m, sn_ix_scale(g->m, at, -1), -1)));
}

/* The lane that the next run starts with, or one that there is not. */
static lv next_run(sn_gen *g, const sn_runs *runs, uint32_t lanes) {
    sn_em *em = &g->em;
    lv behind = sn_em_ci(g->index, lanes);
    for (uint32_t i = 0; i < runs->ends.n; i++) behind = least(em, lanes_behind(g, &runs->ends.at[i]), behind);
    lv next = em_iadd(em, behind, sn_em_i(em, behind, 1));
    return g->run.start ? em_iadd(em, g->run.start, next) : next;
}

/* ---- the vector ---- */

/* The region for the lanes of the run of lane 0, or of that in g->run.start. */
static void make_run(sn_gen *g, const sn_stmt_rec *loop) {
    g->run.n_stored = 0;
    if (!g->run.start) sn_gen_fix(g, loop->axis, 0);
    sn_gen_region(g, loop->first);
    if (!g->run.start) sn_gen_unfix(g);
}

/* What the other runs store goes behind what the first one does. */
static void make_others(sn_gen *g, const sn_stmt_rec *loop, const sn_runs *runs, lv next) {
    sn_em *em = &g->em;
    uint32_t n = g->run.n_stored, mark = sn_gen_mark(g), lanes = g->run.lanes;
    lv before[SN_GEN_STATES], inside[SN_GEN_STATES];
    for (uint32_t k = 0; k < n; k++) before[k] = g->run.stored[k];
    lv other = em_icmp(em, LLVMIntULT, next, sn_em_i(em, next, lanes));
    sn_em_if branch = sn_em_then(em, other, "runs");
    LLVMBasicBlockRef enter = LLVMGetInsertBlock(em->b), body = sn_em_block(em, "run"), done = sn_em_block(em, "ran");
    LLVMBuildBr(em->b, body);
    LLVMPositionBuilderAtEnd(em->b, body);
    lv start = LLVMBuildPhi(em->b, g->index, "");
    for (uint32_t k = 0; k < n; k++) inside[k] = LLVMBuildPhi(em->b, LLVMTypeOf(before[k]), "");
    LLVMAddIncoming(start, &next, &enter, 1);
    g->axes[loop->axis.i] = g->run.start = start;
    lv after = next_run(g, runs, lanes);
    make_run(g, loop);
    for (uint32_t k = 0; k < n; k++) g->run.stored[k] = sn_gen_join_runs(g, inside[k], g->run.stored[k], start);
    g->run.start = g->axes[loop->axis.i] = NULL;
    LLVMBasicBlockRef last = LLVMGetInsertBlock(em->b);
    LLVMAddIncoming(start, &after, &last, 1);
    for (uint32_t k = 0; k < n; k++)
        LLVMAddIncoming(inside[k], (lv[]){before[k], g->run.stored[k]}, (LLVMBasicBlockRef[]){enter, last}, 2);
    other = em_icmp(em, LLVMIntULT, after, sn_em_i(em, after, lanes));
    sn_gen_keep_rolled(g, LLVMBuildCondBr(em->b, other, body, done));
    LLVMPositionBuilderAtEnd(em->b, done);
    sn_em_end(em, &branch);
    sn_gen_release(g, mark);
    for (uint32_t k = 0; k < n; k++) g->run.stored[k] = sn_em_merge(em, &branch, done, g->run.stored[k], before[k]);
}

bool sn_gen_runs(sn_gen *g, sn_stmt id) {
    const sn_stmt_rec *s = sn_stmt_get(g->m, id);
    int64_t n = sn_gen_extent(g, s->axis);
    sn_runs runs;
    if (!g->k->sched.runs || g->lanes > 1 || g->run.lanes || n < 2 || n > SN_GEN_LANES || n & (n - 1)) return false;
    if (!sn_runs_find(&runs, g->m, id, g->arena) || !can_run(g, s, (uint32_t)n)) return false;
    g->run = (sn_gen_run){.axis = s->axis, .lanes = (uint32_t)n};
    keep_inner_ends(g, &runs, s->axis, (uint32_t)n);
    find_joined(g, s);
    lv next = NULL;
    if (runs.ends.n) {
        sn_gen_fix(g, s->axis, 0);
        next = next_run(g, &runs, (uint32_t)n);
        sn_gen_unfix(g);
    }
    make_run(g, s);
    if (next && g->status == SN_OK) make_others(g, s, &runs, next);
    sn_gen_run made = g->run;
    g->run = (sn_gen_run){.lanes = 0};
    g->lane_axis = s->axis;
    g->lanes = (uint32_t)n;
    for (uint32_t k = 0; k < made.n_stored && g->status == SN_OK; k++)
        sn_gen_store_value(g, made.stores[k], made.stored[k]);
    g->lanes = 1;
    g->lane_axis = (sn_axis){0};
    return true;
}
