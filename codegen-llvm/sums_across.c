/* sums_across.c: several vectors on the host whose lanes are added up, a sum each.
 *
 *     loop j in 4 : unroll { %0 = reduce sum v in 4 : vector { %1 = load acc[4*j + v]  yield %1 }   store y[4*i + j], %0 }
 *
 *     a0 a1 a2 a3   b0 b1 b2 b3   c0 ..   d0 ..            4 vectors
 *     a0+a2 a1+a3 b0+b2 b1+b3     c0+c2 c1+c3 d0+d2 d1+d3   of two vectors one: their halves beside one another, and added
 *     a  b  c  d                                            and so on: one vector of sums, which is stored at once
 *
 * One after the other each takes a shuffle and an addition for every halving, and a store of one element. So they end where sums
 * are short and vectors went along them: products of a few rows with rows (a step of a recurrent network, the scores of one query).
 * Statements beside the reductions run as lanes of the loop (lanes.c), where no iteration reads or stores what another one stores. Order of
 * a sum: as halving has it, for any number of vectors.
 */
#include "codegen-llvm/gen.h"

enum { MOST = 16 };

static bool is_power(int64_t n) { return n > 1 && (n & (n - 1)) == 0; }

/* A sum of floats over lanes, of what one load has. */
static bool is_sum_of_lanes(sn_gen *g, const sn_stmt_rec *r) {
    if (r->op != SN_LOP_REDUCE || r->kind != SN_AXIS_VECTOR || r->n_combs != 1 || r->combs[0] != SN_COMB_SUM)
        return false;
    const sn_stmt_rec *load = sn_stmt_get(g->m, r->first), *yield = sn_stmt_get(g->m, load->next);
    sn_dtype dtype = sn_val_get(g->m, r->result)->dtype;
    if (load->op != SN_LOP_LOAD || load->n_in || load->dtype != dtype || !is_power(sn_gen_extent(g, r->axis)))
        return false;
    if ((dtype != SN_F32 && dtype != SN_F64) || !sn_ix_uses_axis(g->m, load->ix, r->axis)) return false;
    if (sn_ix_uses_vals(g->m, load->ix)) return false; /* they may be lanes of the loop */
    return yield->op == SN_LOP_YIELD && yield->in[0].i == load->result.i;
}

/* Does what the loop stores leave alone what other iterations read and store? */
static bool is_own(sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *store) {
    int64_t step;
    if (store->op != SN_LOP_STORE || sn_ix_uses_vals(g->m, store->ix) || !sn_ix_coef(g->m, store->ix, s->axis, &step) ||
        step == 0)
        return false;
    for (sn_stmt t = s->first; t.i; t = sn_stmt_get(g->m, t)->next) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, t), *of = r->op == SN_LOP_REDUCE ? sn_stmt_get(g->m, r->first) : r;
        bool touches = sn_is_access(of) && sn_buf_eq(of->buf, store->buf);
        if (touches && (of != r || !sn_ix_eq(of->ix, store->ix))) return false;
    }
    return true;
}

static bool applies(sn_gen *g, const sn_stmt_rec *s) {
    int64_t n = sn_gen_extent(g, s->axis), sums = 0;
    if (g->gpu || g->lanes > 1 || g->apart || s->kind != SN_AXIS_UNROLL || !is_power(n) || n > MOST) return false;
    for (sn_stmt t = s->first; t.i; t = sn_stmt_get(g->m, t)->next) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, t);
        bool sum = is_sum_of_lanes(g, r);
        if (!sum && sn_lops[r->op].has_region) return false;
        if (sn_stores(r) && !is_own(g, s, r)) return false;
        if (sum && sn_gen_extent(g, r->axis) < n) return false;
        sums += sum;
    }
    return sums > 0;
}

/* Groups of `group` lanes of x, then of y: of each group its first half added to the second one. y NULL: x alone, half as many lanes come out. */
static lv halve(sn_em *em, lv x, lv y, uint32_t group) {
    uint32_t lanes = sn_em_lanes(x), n = y ? lanes : lanes / 2, first[SN_GEN_LANES], second[SN_GEN_LANES];
    for (uint32_t i = 0; i < n; i++) {
        first[i] = i / (group / 2) * group + i % (group / 2);
        second[i] = first[i] + group / 2;
    }
    lv other = y ? y : x;
    return em_add(em, sn_em_shuffle(em, x, other, first, n), sn_em_shuffle(em, x, other, second, n));
}

/* The sums of n vectors, as lanes. */
static lv add_up(sn_em *em, lv *x, uint32_t n) {
    uint32_t group = sn_em_lanes(x[0]), sums = n;
    for (; n > 1; n /= 2, group /= 2)
        for (uint32_t i = 0; i < n / 2; i++) x[i] = halve(em, x[2 * i], x[2 * i + 1], group);
    for (; sn_em_lanes(x[0]) > sums; group /= 2) x[0] = halve(em, x[0], NULL, group);
    return x[0];
}

/* The sums of r in all iterations of the loop around it. */
static bool sum_lanes(sn_gen *g, const sn_stmt_rec *s, sn_stmt_rec *r, uint32_t n) {
    lv all[MOST] = {NULL}, state[SN_GEN_STATES], *outer = g->yields;
    for (uint32_t i = 0; i < n && g->status == SN_OK; i++) {
        g->yields = state;
        sn_gen_fix(g, s->axis, i);
        bool done = sn_gen_vector_region(g, r);
        sn_gen_unfix(g);
        g->yields = outer;
        if (!done) return false;
        all[i] = state[0];
    }
    if (g->status == SN_OK) g->vals[r->result.i] = add_up(&g->em, all, n);
    return true;
}

bool sn_gen_sums_across(sn_gen *g, sn_stmt_rec *s) {
    uint32_t n = (uint32_t)sn_gen_extent(g, s->axis);
    if (!applies(g, s) || !sn_gen_others_run_as_lanes(g, s)) return false;
    for (sn_stmt t = s->first; t.i && g->status == SN_OK; t = sn_stmt_get(g->m, t)->next) {
        sn_stmt_rec *r = sn_stmt_get(g->m, t);
        if (r->op == SN_LOP_REDUCE) {
            if (!sum_lanes(g, s, r, n) && g->status == SN_OK)
                g->status = sn_fail(g->env, SN_ERROR_INTERNAL, "lanes of a sum");
            continue;
        }
        g->lane_axis = s->axis, g->lanes = n;
        g->statement(g, t);
        g->lane_axis = (sn_axis){0}, g->lanes = 1;
    }
    return true;
}
