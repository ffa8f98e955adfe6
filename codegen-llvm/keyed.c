/* keyed.c: the largest (smallest) among the elements of one iteration, with its position, by its place in the
 * iteration.
 *
 *     u in 8 : unroll, v in 8 : vector     m = the largest value, place = the first 8u + v that has it
 *                                          position = index at u = place / 8, v = place mod 8
 *
 * Positions, of 64 bits, are computed and compared once an iteration and not for each element. Bytes leave room for
 * the place in a pair of 16 bits: the largest key of value and place has both, 1.5 instructions an element. Floats of
 * up to 32 bits go by groups of 8: their largest one, then the first that equals it, or is nan where it is: 4
 * instructions an element and one to convert it. One by one (combine.c) it takes 15 to 18, where memory leaves time
 * for 7 (bytes) and 14 (halves). An earlier place wins a tie, so that the first of equal elements wins if positions
 * grow with places, which is asked here. What a mask leaves out has the identity as its value, and comes behind what
 * it does not. GPUs alone.
 */
#include "codegen-llvm/gen.h"

enum { WORD = 4, BYTE_PLACES = 1 << 8, GROUP = 8 };

static sn_stmt_rec *def(sn_gen *g, sn_val v) { return sn_stmt_get(g->m, sn_val_get(g->m, v)->def); }

/* ---- which ---- */

/* Does e grow with the place, v within u? */
static bool grows(sn_gen *g, sn_ix e, sn_axis u, sn_axis v, bool strictly) {
    int64_t of_u = 0, of_v, lanes = sn_gen_extent(g, v);
    if (sn_ix_uses_vals(g->m, e) || !sn_ix_coef(g->m, e, v, &of_v)) return false;
    if (u.i && !sn_ix_coef(g->m, e, u, &of_u)) return false;
    if (!strictly) return of_u >= 0 && of_v >= 0;
    return of_v > 0 && (!u.i || of_u >= of_v * lanes);
}

static bool is_bound(sn_gen *g, sn_val mask, sn_axis u, sn_axis v) {
    const sn_stmt_rec *r = def(g, mask);
    if (r->op == SN_LOP_AND) return is_bound(g, r->in[0], u, v) && is_bound(g, r->in[1], u, v);
    if (r->op != SN_LOP_IN || sn_ix_uses_axis(g->m, r->bound, v) || (u.i && sn_ix_uses_axis(g->m, r->bound, u)))
        return false;
    return grows(g, r->ix, u, v, false) && sn_ix_range(g->m, r->ix).lo >= 0 && !sn_ix_uses_vals(g->m, r->bound);
}

/* An index, or where a bound does not hold the last position of all. */
static bool is_position(sn_gen *g, sn_val p, sn_axis u, sn_axis v) {
    const sn_stmt_rec *r = def(g, p);
    if (r->op == SN_LOP_INDEX) return r->dtype == SN_I64 && grows(g, r->ix, u, v, true);
    if (r->op != SN_LOP_SELECT) return false;
    const sn_stmt_rec *last = def(g, r->in[2]);
    return last->op == SN_LOP_CONST && last->i == INT64_MAX && is_bound(g, r->in[0], u, v) &&
           is_position(g, r->in[1], u, v);
}

bool sn_gen_has_keys(sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *lanes) {
    enum { SM = 90 };
    if (!g->gpu || g->lanes > 1 || g->apart || s->n_combs != 1 ||
        (s->kind != SN_AXIS_UNROLL && s->kind != SN_AXIS_VECTOR))
        return false;
    bool arg = s->combs[0] == SN_COMB_ARGMAX || s->combs[0] == SN_COMB_ARGMIN, apart = lanes->kind == SN_AXIS_VECTOR;
    int64_t n = sn_gen_extent(g, s->axis), v = apart ? sn_gen_extent(g, lanes->axis) : 1, all = s == lanes ? n : n * v;
    if (!arg || n < 2 || v & (v - 1) || (apart && !sn_gen_runs_as_lanes(g, lanes))) return false;
    if (v == 1 && n > 2 * GROUP) return false; /* single loads that are many find no registers to wait in */
    const sn_stmt_rec *yield = sn_stmt_get(g->m, lanes->last);
    sn_dtype t = sn_val_get(g->m, yield->in[0])->dtype;
    bool byte = sn_dtype_bytes(t) == 1 && t != SN_BOOL && !sn_is_float(t) && v >= WORD && all <= BYTE_PLACES;
    if (byte ? g->em.cg->target->sm < SM : t != SN_F32 && t != SN_F16 && t != SN_BF16) return false;
    return is_position(g, yield->in[1], s == lanes ? (sn_axis){0} : s->axis, lanes->axis);
}

/* ---- keys ---- */

/* Those of 16 bytes are in the upper halves of two pairs a word: odd ones as they stand, even ones moved there. */
static lv byte_keys(sn_gen *g, sn_comb comb, lv x, sn_dtype t, int64_t first, lv most) {
    sn_em *em = &g->em;
    uint32_t n = sn_em_lanes(x) / WORD;
    lv words = em_bitcast(em, x, n > 1 ? LLVMVectorType(em->cg->i32, n) : em->cg->i32);
    for (uint32_t i = 0; i < n; i++)
        for (int64_t odd = 0; odd < 2; odd++) {
            lv word = sn_em_lane(em, words, i);
            int64_t low = first + WORD * i + odd, high = low + 2;
            if (comb == SN_COMB_MAX) low = BYTE_PLACES - 1 - low, high = BYTE_PLACES - 1 - high;
            if (!odd) word = em_shl(em, word, sn_em_i(em, word, 8));
            word = em_or(em, em_and(em, word, sn_em_i(em, word, 0xff00ff00)), sn_em_i(em, word, high << 16 | low));
            most = most ? sn_gen_extreme_pair(g, comb, t, most, word) : word;
        }
    return most;
}

/* The place and the value of the largest key. */
static lv byte_of(sn_gen *g, sn_comb comb, sn_dtype t, lv key, lv *value) {
    sn_em *em = &g->em;
    key = sn_gen_extreme_pair(g, comb, t, key, em_shl(em, key, sn_em_i(em, key, 16)));
    *value = LLVMBuildTrunc(em->b, em_lshr(em, key, sn_em_i(em, key, 24)), em->cg->i8, "");
    lv place = em_and(em, em_lshr(em, key, sn_em_i(em, key, 16)), sn_em_i(em, key, BYTE_PLACES - 1));
    return comb == SN_COMB_MAX ? em_isub(em, sn_em_i(em, place, BYTE_PLACES - 1), place) : place;
}

/* ---- floats ---- */

/* The largest of a group goes before what was the largest so far, if it is larger, or nan where that is none. */
static lv float_of(sn_gen *g, sn_comb comb, const lv *x, int64_t n, lv *value) {
    sn_em *em = &g->em;
    lv most = NULL, place = NULL;
    for (int64_t first = 0; first < n; first += GROUP) {
        int64_t end = first + GROUP < n ? first + GROUP : n;
        lv m = x[first], at = sn_em_ci(em->cg->i32, end - 1);
        for (int64_t i = first + 1; i < end; i++)
            m = comb == SN_COMB_MAX ? sn_em_fmax(em, m, x[i]) : sn_em_fmin(em, m, x[i]);
        for (int64_t i = end - 1; i-- > first;) {
            lv is = em_or(em, em_fcmp(em, LLVMRealUNO, x[i], x[i]), em_fcmp(em, LLVMRealOEQ, x[i], m));
            at = em_select(em, is, sn_em_ci(em->cg->i32, i), at);
        }
        if (most) {
            lv before = em_fcmp(em, comb == SN_COMB_MAX ? LLVMRealUGT : LLVMRealULT, m, most);
            before = em_and(em, before, em_fcmp(em, LLVMRealORD, most, most));
            m = em_select(em, before, m, most);
            at = em_select(em, before, at, place);
        }
        most = m, place = at;
    }
    *value = most;
    return place;
}

/* ---- positions ---- */

static lv holds(sn_gen *g, sn_val mask) {
    const sn_stmt_rec *r = def(g, mask);
    if (g->known[mask.i]) return LLVMConstInt(g->em.cg->i1, g->known[mask.i] == SN_GEN_HOLDS, 0);
    if (r->op == SN_LOP_AND) return em_and(&g->em, holds(g, r->in[0]), holds(g, r->in[1]));
    return sn_gen_in(g, r->ix, r->bound);
}

static lv position(sn_gen *g, sn_val p) {
    const sn_stmt_rec *r = def(g, p);
    if (r->op == SN_LOP_SELECT) {
        lv c = holds(g, r->in[0]), x = position(g, r->in[1]);
        return em_select(&g->em, c, x, sn_em_ci(g->em.cg->i64, INT64_MAX));
    }
    return sn_math_cast(&g->em, SN_I64, g->index == g->em.cg->i64 ? SN_I64 : SN_I32,
                        sn_gen_ix(g, sn_gen_resolve(g, r->ix)));
}

static lv place_of(sn_gen *g, sn_comb comb, sn_dtype t, const lv *x, int64_t n, int64_t v, lv *value) {
    sn_em *em = &g->em;
    lv most = NULL, *each = SN_NEWN(g->arena, lv, (size_t)(n * v));
    for (int64_t i = 0; i < n; i++) {
        lv all = sn_em_splat(em, x[i], (uint32_t)v);
        if (!sn_is_float(t)) most = byte_keys(g, comb, all, t, i * v, most);
        else all = sn_math_cast(em, SN_F32, t, all);
        for (int64_t k = 0; k < v && sn_is_float(t); k++) each[i * v + k] = sn_em_lane(em, all, (uint32_t)k);
    }
    if (!sn_is_float(t)) return byte_of(g, comb, t, most, value);
    lv place = float_of(g, comb, each, n * v, value);
    *value = sn_math_cast(em, t, SN_F32, *value);
    return place;
}

void sn_gen_keyed(sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *lanes, const lv *x, lv *state) {
    sn_em *em = &g->em;
    const sn_stmt_rec *yield = sn_stmt_get(g->m, lanes->last);
    sn_dtype t = sn_val_get(g->m, yield->in[0])->dtype;
    sn_comb comb = s->combs[0] == SN_COMB_ARGMAX ? SN_COMB_MAX : SN_COMB_MIN;
    int64_t n = lanes->kind == SN_AXIS_VECTOR && s == lanes ? 1 : sn_gen_extent(g, s->axis);
    int64_t v = lanes->kind == SN_AXIS_VECTOR ? sn_gen_extent(g, lanes->axis) : 1;
    lv place = place_of(g, comb, t, x, n, v, &state[0]);
    if (g->index == em->cg->i64) place = LLVMBuildZExt(em->b, place, em->cg->i64, "");
    uint32_t mark = sn_gen_mark(g);
    g->axes[lanes->axis.i] = s == lanes ? place : em_and(em, place, sn_em_i(em, place, v - 1));
    if (s != lanes) g->axes[s->axis.i] = LLVMBuildUDiv(em->b, place, sn_em_i(em, place, v), "");
    state[1] = position(g, yield->in[1]);
    sn_gen_release(g, mark);
    g->axes[lanes->axis.i] = NULL;
    if (s != lanes) g->axes[s->axis.i] = NULL;
}
