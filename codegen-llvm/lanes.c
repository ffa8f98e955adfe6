/* lanes.c: the vector axis: a region once, with values that are vectors where they differ between the lanes.
 *
 *     loop j in 4 : vector { %0 = load x[4*i + j]  %1 = load w[i] }   ->   %0: one load of 4 elements, %1: a scalar
 *
 * Whether the state of a loop differs must be known before its body exists, hence the small analysis before the region
 * is translated. It also finds what cannot run as lanes (a test of a region that lanes answer differently, a loop whose
 * extent does): such an axis is written out by the caller, for kinds never change the meaning.
 */
#include "codegen-llvm/gen.h"

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

bool sn_gen_runs_as_lanes(sn_gen *g, const sn_stmt_rec *s) {
    int64_t n = sn_gen_extent(g, s->axis);
    if (g->lanes > 1 || n < 2 || n > SN_GEN_LANES) return false;
    g->lane_axis = s->axis;
    g->lanes = (uint32_t)n;
    bool can = analyse_region(g, s->first);
    g->lanes = 1;
    g->lane_axis = (sn_axis){0};
    return can;
}

bool sn_gen_others_run_as_lanes(sn_gen *g, const sn_stmt_rec *s) {
    int64_t n = sn_gen_extent(g, s->axis);
    bool can = g->lanes == 1 && n > 1 && n <= SN_GEN_LANES;
    g->lane_axis = s->axis;
    g->lanes = (uint32_t)n;
    for (sn_stmt t = s->first; t.i && can; t = sn_stmt_get(g->m, t)->next) {
        sn_stmt_rec *r = sn_stmt_get(g->m, t);
        if (r->op == SN_LOP_REDUCE)
            for (uint32_t i = 0; i < r->n_results; i++) g->varies[r->result.i + i] = true;
        else can = analyse(g, r);
    }
    g->lanes = 1;
    g->lane_axis = (sn_axis){0};
    return can;
}

bool sn_gen_vector_region(sn_gen *g, sn_stmt_rec *s) {
    if (!sn_gen_runs_as_lanes(g, s)) return false;
    g->lane_axis = s->axis;
    g->lanes = (uint32_t)sn_gen_extent(g, s->axis);
    sn_gen_region(g, s->first);
    g->lanes = 1;
    g->lane_axis = (sn_axis){0};
    return true;
}
