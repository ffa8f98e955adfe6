/* keyed.c: the largest (smallest) among the elements of one iteration, with its position, by its place in the
 * iteration.
 *
 *     u in 8 : unroll, v in 8 : vector     m = the largest value, place = the first 8u + v that has it
 *                                          position = index at u = place / 8, v = place mod 8
 *
 * Positions, of 64 bits, are computed and compared once an iteration and not for each element. Bytes leave room for
 * the place in a pair of 16 bits: the largest key of value and place has both, 1.5 instructions an element. Floats of
 * up to 32 bits go by groups of 8: their largest one, then the first that equals it, or is nan where it is: 4
 * instructions an element and one to convert it, and only where their largest is better than all that a thread had before: else
 * half an instruction. One by one (combine.c) it takes 15 to 18, where memory leaves time
 * for 7 (bytes) and 14 (halves). An earlier place wins a tie, so that the first of equal elements wins if positions
 * grow with places, which is asked here. What a mask leaves out has the identity as its value, and comes behind what
 * it does not: of a row whose first vector starts before it (passes/schedule/rows/inner.c) the place of such a lane is worse
 * than all others, and none where nothing else is left. Columns have the number of the row as their place, each
 * lane one of its own, so that their positions are made once for all rows that are written out, or once for a loop of them: of bytes in keys, of
 * others beside the value, which a later row takes the place of only if it is larger: 5 instructions an element for 18. GPUs alone.
 */
#include "codegen-llvm/gen.h"

#include <math.h>

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

/* *early: it may not hold for the first places, either. */
static bool is_bound(sn_gen *g, sn_val mask, sn_axis u, sn_axis v, bool *early) {
    const sn_stmt_rec *r = def(g, mask);
    if (r->op == SN_LOP_AND) return is_bound(g, r->in[0], u, v, early) && is_bound(g, r->in[1], u, v, early);
    if (r->op != SN_LOP_IN || sn_ix_uses_axis(g->m, r->bound, v) || (u.i && sn_ix_uses_axis(g->m, r->bound, u)))
        return false;
    *early |= !g->known[mask.i] && sn_ix_range(g->m, r->ix).lo < 0;
    return grows(g, r->ix, u, v, false) && !sn_ix_uses_vals(g->m, r->bound);
}

/* An index, or where a bound does not hold the last position of all. */
static bool is_position(sn_gen *g, sn_val p, sn_axis u, sn_axis v, bool *early) {
    const sn_stmt_rec *r = def(g, p);
    if (r->op == SN_LOP_INDEX) return r->dtype == SN_I64 && grows(g, r->ix, u, v, true);
    if (r->op != SN_LOP_SELECT) return false;
    const sn_stmt_rec *last = def(g, r->in[2]);
    return last->op == SN_LOP_CONST && last->i == INT64_MAX && is_bound(g, r->in[0], u, v, early) &&
           is_position(g, r->in[1], u, v, early);
}

/* Those of an iteration: with its axis, where the lanes are another one, and that of the lanes. */
static bool has_positions(sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *lanes, bool *early) {
    *early = false;
    sn_val p = sn_stmt_get(g->m, lanes->last)->in[1];
    return is_position(g, p, s == lanes ? (sn_axis){0} : s->axis, lanes->axis, early);
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
    bool byte = sn_dtype_bytes(t) == 1 && t != SN_BOOL && !sn_is_float(t) && v >= WORD && all <= BYTE_PLACES, early;
    if (byte ? g->em.cg->target->sm < SM : t != SN_F32 && t != SN_F16 && t != SN_BF16) return false;
    return has_positions(g, s, lanes, &early) && !(byte && early && all == BYTE_PLACES);
}

lv sn_gen_key_lanes(sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *lanes) {
    bool early;
    lv all = NULL;
    if (!has_positions(g, s, lanes, &early) || !early) return NULL;
    const sn_stmt_rec *r = def(g, sn_stmt_get(g->m, lanes->last)->in[1]);
    for (; r->op == SN_LOP_SELECT; r = def(g, r->in[1])) {
        lv mask = sn_em_splat(&g->em, g->vals[r->in[0].i], (uint32_t)sn_gen_extent(g, lanes->axis));
        all = all ? em_and(&g->em, all, mask) : mask;
    }
    return all;
}

/* ---- keys ---- */

static lv as_words(sn_em *em, lv bytes) {
    uint32_t n = sn_em_lanes(bytes) / WORD;
    return em_bitcast(em, bytes, n > 1 ? LLVMVectorType(em->cg->i32, n) : em->cg->i32);
}

/* The places of two lanes, as they are in keys; where `in`, whose bytes stand below them, says that a lane is none, the
 * last one of all. */
static lv byte_places(sn_em *em, sn_comb comb, int64_t low, int64_t high, lv in) {
    bool max = comb == SN_COMB_MAX;
    if (max) low = BYTE_PLACES - 1 - low, high = BYTE_PLACES - 1 - high;
    lv places = sn_em_ci(em->cg->i32, high << 16 | low);
    if (!in) return places;
    return max ? em_and(em, places, in)
               : em_or(em, places, em_and(em, LLVMBuildNot(em->b, in, ""), sn_em_i(em, in, 0x00ff00ff)));
}

/* Those of 16 bytes are in the upper halves of two pairs a word: odd ones as they stand, even ones moved there. in: the
 * lanes that are any, NULL: all. */
static lv byte_keys(sn_gen *g, sn_comb comb, lv x, lv in, sn_dtype t, int64_t first, lv most) {
    sn_em *em = &g->em;
    lv words = as_words(em, x);
    if (in) in = as_words(em, LLVMBuildSExt(em->b, in, LLVMTypeOf(x), ""));
    for (uint32_t i = 0; i < sn_em_lanes(words); i++)
        for (int64_t odd = 0; odd < 2; odd++) {
            lv word = sn_em_lane(em, words, i), valid = in ? sn_em_lane(em, in, i) : NULL;
            int64_t low = first + WORD * i + odd;
            if (!odd) word = em_shl(em, word, sn_em_i(em, word, 8));
            else if (in) valid = em_lshr(em, valid, sn_em_i(em, valid, 8));
            lv places = byte_places(em, comb, low, low + 2, valid);
            word = em_or(em, em_and(em, word, sn_em_i(em, word, 0xff00ff00)), places);
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
static lv float_of(sn_gen *g, sn_comb comb, const lv *x, const lv *in, int64_t n, lv *value) {
    sn_em *em = &g->em;
    lv most = NULL, place = NULL;
    for (int64_t first = 0; first < n; first += GROUP) {
        int64_t end = first + GROUP < n ? first + GROUP : n;
        lv m = x[first], at = sn_em_ci(em->cg->i32, end - 1);
        for (int64_t i = first + 1; i < end; i++)
            m = comb == SN_COMB_MAX ? sn_em_fmax(em, m, x[i]) : sn_em_fmin(em, m, x[i]);
        for (int64_t i = end - 1; i-- > first;) {
            lv is = em_or(em, em_fcmp(em, LLVMRealUNO, x[i], x[i]), em_fcmp(em, LLVMRealOEQ, x[i], m));
            if (in[i]) is = em_and(em, is, in[i]);
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
        return sn_em_choose(&g->em, c, x, sn_em_ci(g->em.cg->i64, INT64_MAX));
    }
    return sn_math_cast(&g->em, SN_I64, g->index == g->em.cg->i64 ? SN_I64 : SN_I32,
                        sn_gen_ix(g, sn_gen_resolve(g, r->ix)));
}

/* ---- only where something is better ---- */

/* Does x go before s, which is of an earlier place? */
static lv goes_before(sn_em *em, sn_comb comb, sn_dtype t, lv x, lv s) {
    bool max = comb == SN_COMB_MAX;
    if (!sn_is_float(t)) return sn_math_op(em, max ? SN_LOP_GT : SN_LOP_LT, t, (lv[]){x, s}, 2);
    sn_dtype wide = t == SN_F64 ? SN_F64 : SN_F32;
    x = sn_math_cast(em, wide, t, x), s = sn_math_cast(em, wide, t, s);
    return em_and(em, em_fcmp(em, max ? LLVMRealUGT : LLVMRealULT, x, s), em_fcmp(em, LLVMRealORD, s, s));
}

static lv larger(sn_em *em, sn_comb comb, lv x, lv y) {
    return comb == SN_COMB_MAX ? sn_em_fmax(em, x, y) : sn_em_fmin(em, x, y);
}

/* The vectors of halves that those of an iteration were widened from; false: they were not. */
static bool find_halves(sn_gen *g, sn_comb comb, const lv *x, int64_t n, lv *out) {
    for (int64_t i = 0; i < n; i++) {
        out[i] = sn_gen_widened_halves(&g->em, x[i], comb == SN_COMB_MAX ? -INFINITY : INFINITY);
        if (!out[i] || LLVMTypeOf(out[i]) != LLVMTypeOf(out[0])) return false;
    }
    return true;
}

/* A number that is the larger the better x is, as long as x is none. */
static lv rank(sn_em *em, sn_comb comb, lv x) {
    x = LLVMBuildFAdd(em->b, x, LLVMConstNull(LLVMTypeOf(x)), ""); /* zeros are equal */
    lv bits = sn_em_ibits(em, x), sign = LLVMBuildAShr(em->b, bits, sn_em_i(em, bits, 31), "");
    lv up = em_xor(em, bits, em_and(em, sign, sn_em_i(em, bits, INT32_MAX)));
    return comb == SN_COMB_MAX ? up : LLVMBuildNot(em->b, up, "");
}

/* May x be the best of all, or is some thread that comes along here ahead of it already? Each lane of a warp would go on to
 * become better than itself. Whoever is there may be asked: what is worse than anything is not the best. */
static lv may_be_best(sn_gen *g, sn_comb comb, lv x, lv best) {
    enum { SM = 80 };
    sn_em *em = &g->em;
    if (g->em.cg->target->sm < SM) return LLVMConstInt(em->cg->i1, 1, 0);
    lv own = rank(em, comb, best);
    lv ahead = sn_em_assembly(em, em->cg->i32,
                              "{\n\t.reg .b32 here;\n\tactivemask.b32 here;\n\tredux.sync.max.s32 $0, $1, here;\n\t}",
                              "=r,r", &own, 1);
    return em_or(em, em_icmp(em, LLVMIntSGE, rank(em, comb, x), ahead), em_fcmp(em, LLVMRealUNO, x, x));
}

/* Is the largest of the iteration better than all before it, or is there nothing yet? Halves are compared two at a time, as
 * they are. */
static lv is_better(sn_gen *g, sn_comb comb, sn_dtype t, const lv *x, int64_t n, int64_t v) {
    sn_em *em = &g->em;
    lv most = NULL, *halves = SN_NEWN(g->arena, lv, (size_t)n);
    bool narrow = find_halves(g, comb, x, n, halves);
    for (int64_t i = 0; i < n; i++) {
        lv all = narrow ? halves[i] : sn_em_splat(em, x[i], (uint32_t)v);
        most = most ? larger(em, comb, most, all) : all;
    }
    for (uint32_t k = (uint32_t)v; k > 1; k /= 2)
        most = larger(em, comb, sn_em_slice(em, most, 0, k / 2), sn_em_slice(em, most, k / 2, k / 2));
    most = narrow ? LLVMBuildFPExt(em->b, most, em->cg->f32, "") : sn_math_cast(em, SN_F32, t, most);
    lv best = sn_math_cast(em, SN_F32, t, g->best[0]);
    lv none = em_icmp(em, LLVMIntEQ, g->best[1], sn_em_ci(em->cg->i64, INT64_MAX));
    lv better = em_or(em, none, goes_before(em, comb, SN_F32, most, best));
    return em_and(em, better, may_be_best(g, comb, most, best));
}

static lv place_of(sn_gen *g, sn_comb comb, sn_dtype t, const lv *x, const lv *in, int64_t n, int64_t v, lv *value) {
    sn_em *em = &g->em;
    lv most = NULL, *each = SN_NEWN(g->arena, lv, (size_t)(n * v)), *valid = SN_NEWN(g->arena, lv, (size_t)(n * v));
    for (int64_t i = 0; i < n; i++) {
        lv all = sn_em_splat(em, x[i], (uint32_t)v);
        if (!sn_is_float(t)) most = byte_keys(g, comb, all, in[i], t, i * v, most);
        else all = sn_math_cast(em, SN_F32, t, all);
        for (int64_t k = 0; k < v && sn_is_float(t); k++) {
            each[i * v + k] = sn_em_lane(em, all, (uint32_t)k);
            valid[i * v + k] = in[i] ? sn_em_lane(em, in[i], (uint32_t)k) : NULL;
        }
    }
    if (!sn_is_float(t)) return byte_of(g, comb, t, most, value);
    lv place = float_of(g, comb, each, valid, n * v, value);
    *value = sn_math_cast(em, t, SN_F32, *value);
    return place;
}

static void keyed(sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *lanes, const lv *x, const lv *in, lv *state) {
    sn_em *em = &g->em;
    const sn_stmt_rec *yield = sn_stmt_get(g->m, lanes->last);
    sn_dtype t = sn_val_get(g->m, yield->in[0])->dtype;
    sn_comb comb = s->combs[0] == SN_COMB_ARGMAX ? SN_COMB_MAX : SN_COMB_MIN;
    int64_t n = lanes->kind == SN_AXIS_VECTOR && s == lanes ? 1 : sn_gen_extent(g, s->axis);
    int64_t v = lanes->kind == SN_AXIS_VECTOR ? sn_gen_extent(g, lanes->axis) : 1;
    lv place = place_of(g, comb, t, x, in, n, v, &state[0]), none = NULL;
    for (int64_t i = 0; i < n && !sn_is_float(t); i++)
        if (in[i]) none = em_icmp(em, LLVMIntEQ, place, sn_em_i(em, place, BYTE_PLACES - 1));
    if (g->index == em->cg->i64) place = LLVMBuildZExt(em->b, place, em->cg->i64, "");
    uint32_t mark = sn_gen_mark(g);
    g->axes[lanes->axis.i] = s == lanes ? place : em_and(em, place, sn_em_i(em, place, v - 1));
    if (s != lanes) g->axes[s->axis.i] = LLVMBuildUDiv(em->b, place, sn_em_i(em, place, v), "");
    state[1] = position(g, yield->in[1]);
    if (none) state[1] = em_select(em, none, sn_em_ci(em->cg->i64, INT64_MAX), state[1]);
    sn_gen_release(g, mark);
    g->axes[lanes->axis.i] = NULL;
    if (s != lanes) g->axes[s->axis.i] = NULL;
}

/* What is the best so far stays that, whatever position comes with what is no better. */
void sn_gen_keyed(sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *lanes, const lv *x, const lv *in, lv *state) {
    sn_em *em = &g->em;
    sn_dtype t = sn_val_get(g->m, sn_stmt_get(g->m, lanes->last)->in[0])->dtype;
    if (g->better != s || !sn_is_float(t)) {
        keyed(g, s, lanes, x, in, state);
        return;
    }
    int64_t n = lanes->kind == SN_AXIS_VECTOR && s == lanes ? 1 : sn_gen_extent(g, s->axis);
    int64_t v = lanes->kind == SN_AXIS_VECTOR ? sn_gen_extent(g, lanes->axis) : 1;
    sn_comb comb = s->combs[0] == SN_COMB_ARGMAX ? SN_COMB_MAX : SN_COMB_MIN;
    lv before[2] = {g->best[0], g->best[1]};
    sn_em_if better = sn_em_then(em, is_better(g, comb, t, x, n, v), "better");
    uint32_t mark = sn_gen_mark(g);
    keyed(g, s, lanes, x, in, state);
    sn_gen_release(g, mark);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(em->b);
    sn_em_end(em, &better);
    for (uint32_t k = 0; k < 2; k++) state[k] = sn_em_merge(em, &better, end, state[k], before[k]);
}

/* ---- columns ---- */

static bool is_byte(sn_dtype t) { return sn_dtype_bytes(t) == 1 && t != SN_BOOL && !sn_is_float(t); }

/* Rows of columns that are written out, whose positions grow with them. */
bool sn_gen_has_key_rows(sn_gen *g, const sn_stmt_rec *s) {
    int64_t n = sn_gen_extent(g, s->axis);
    bool written_out = s->kind == SN_AXIS_UNROLL ? n <= BYTE_PLACES : s->kind == SN_AXIS_SEQ && n <= 2 * GROUP;
    if (!g->gpu || g->apart || s->n_combs != 1 || !written_out || n < 2) return false;
    sn_dtype t = sn_val_get(g->m, sn_stmt_get(g->m, s->last)->in[0])->dtype;
    bool early, arg = s->combs[0] == SN_COMB_ARGMAX || s->combs[0] == SN_COMB_ARGMIN;
    return arg && t != SN_BOOL && (is_byte(t) || g->lanes > 1) && has_positions(g, s, s, &early) && !early;
}

/* The first of the largest values of columns, row by row, and their places. */
static lv places_of_rows(sn_gen *g, sn_comb comb, sn_dtype t, const lv *x, int64_t n, lv *value) {
    sn_em *em = &g->em;
    lv most = sn_em_splat(em, x[0], g->lanes), place = LLVMConstNull(sn_em_shape(em->cg->i32, g->lanes));
    for (int64_t i = 1; i < n; i++) {
        lv all = sn_em_splat(em, x[i], g->lanes), before = goes_before(em, comb, t, all, most);
        most = em_select(em, before, all, most);
        place = em_select(em, before, sn_em_i(em, place, i), place);
    }
    *value = most;
    return place;
}

/* Keys of one word of all rows: even bytes in the first pair, odd ones in the second. */
static void word_keys(sn_gen *g, sn_comb comb, sn_dtype t, const lv *x, int64_t n, uint32_t w, lv out[2]) {
    sn_em *em = &g->em;
    out[0] = out[1] = NULL;
    for (int64_t i = 0; i < n; i++)
        for (uint32_t odd = 0; odd < 2; odd++) {
            lv word = sn_em_lane(em, as_words(em, sn_em_splat(em, x[i], g->lanes)), w);
            if (!odd) word = em_shl(em, word, sn_em_i(em, word, 8));
            word = em_or(em, em_and(em, word, sn_em_i(em, word, 0xff00ff00)), byte_places(em, comb, i, i, NULL));
            out[odd] = i ? sn_gen_extreme_pair(g, comb, t, out[odd], word) : word;
        }
}

/* The largest values of columns, and their places as bytes; of words. */
static lv places_of_words(sn_gen *g, sn_comb comb, sn_dtype t, const lv *x, int64_t n, lv *value) {
    sn_em *em = &g->em;
    LLVMTypeRef i32 = em->cg->i32, bytes = LLVMVectorType(em->cg->i8, g->lanes);
    uint32_t words = g->lanes / WORD;
    lv values = LLVMGetPoison(words > 1 ? LLVMVectorType(i32, words) : i32), places = values, pair[2];
    for (uint32_t w = 0; w < words; w++) {
        word_keys(g, comb, t, x, n, w, pair);
        lv low = sn_em_i(em, pair[0], 0x00ff00ff), high = sn_em_i(em, pair[0], 0xff00ff00),
           by = sn_em_i(em, pair[0], 8);
        lv most = em_or(em, em_and(em, em_lshr(em, pair[0], by), low), em_and(em, pair[1], high));
        lv place = em_or(em, em_and(em, pair[0], low), em_and(em, em_shl(em, pair[1], by), high));
        if (comb == SN_COMB_MAX) place = LLVMBuildNot(em->b, place, "");
        values = words > 1 ? sn_em_with_lane(em, values, w, most) : most;
        places = words > 1 ? sn_em_with_lane(em, places, w, place) : place;
    }
    *value = em_bitcast(em, values, bytes);
    return em_bitcast(em, places, bytes);
}

/* The same of columns that are no words: a key is 32 bits. */
static lv places_of_bytes(sn_gen *g, sn_comb comb, sn_dtype t, const lv *x, int64_t n, lv *value) {
    sn_em *em = &g->em;
    LLVMTypeRef bytes = sn_em_shape(em->cg->i8, g->lanes), wide = sn_em_shape(em->cg->i32, g->lanes);
    lv most = NULL;
    for (int64_t i = 0; i < n; i++) {
        lv all = sn_em_splat(em, x[i], g->lanes);
        lv key = sn_is_unsigned(t) ? LLVMBuildZExt(em->b, all, wide, "") : LLVMBuildSExt(em->b, all, wide, "");
        key = em_or(em, em_shl(em, key, sn_em_i(em, key, 8)),
                    sn_em_i(em, key, comb == SN_COMB_MAX ? BYTE_PLACES - 1 - i : i));
        most = i ? em_call2(em, comb == SN_COMB_MAX ? "llvm.smax" : "llvm.smin", most, key) : key;
    }
    lv place = LLVMBuildTrunc(em->b, most, bytes, "");
    *value = LLVMBuildTrunc(em->b, em_lshr(em, most, sn_em_i(em, most, 8)), bytes, "");
    return comb == SN_COMB_MAX ? LLVMBuildNot(em->b, place, "") : place;
}

/* The positions of places in the rows of s, and of the loop `of` around them, if there is one. They are selected as long as masks
 * hold, which do so up to one of the rows: all of them do where the first one is any. */
static void key_positions(sn_gen *g, const sn_stmt_rec *s, sn_axis of, lv round, lv place, lv *state) {
    sn_em *em = &g->em;
    const sn_stmt_rec *at = def(g, sn_stmt_get(g->m, s->last)->in[1]);
    lv any = NULL;
    uint32_t mark = sn_gen_mark(g);
    g->axes[s->axis.i] = sn_em_ci(g->index, 0);
    if (of.i) g->axes[of.i] = g->axes[s->axis.i];
    for (; at->op == SN_LOP_SELECT; at = def(g, at->in[1])) {
        lv first[2] = {holds(g, at->in[0]), any};
        if (any) sn_em_unify(em, first, 2);
        any = any ? em_and(em, first[0], first[1]) : first[0];
    }
    sn_gen_release(g, mark);
    g->axes[s->axis.i] = place;
    if (of.i) g->axes[of.i] = round;
    lv index =
        sn_math_cast(em, SN_I64, g->index == em->cg->i64 ? SN_I64 : SN_I32, sn_gen_ix(g, sn_gen_resolve(g, at->ix)));
    if (any) index = sn_em_choose(em, any, index, sn_em_ci(em->cg->i64, INT64_MAX));
    state[1] = sn_em_splat(em, index, g->lanes);
    sn_gen_release(g, mark);
    g->axes[s->axis.i] = NULL;
    if (of.i) g->axes[of.i] = NULL;
}

void sn_gen_keyed_rows(sn_gen *g, const sn_stmt_rec *s, const lv *x, lv *state) {
    enum { SM = 90 };
    sn_em *em = &g->em;
    const sn_stmt_rec *yield = sn_stmt_get(g->m, s->last);
    sn_dtype t = sn_val_get(g->m, yield->in[0])->dtype;
    sn_comb comb = s->combs[0] == SN_COMB_ARGMAX ? SN_COMB_MAX : SN_COMB_MIN;
    bool words = g->lanes % WORD == 0 && em->cg->target->sm >= SM;
    int64_t n = sn_gen_extent(g, s->axis);
    lv place = (!is_byte(t) ? places_of_rows : words ? places_of_words : places_of_bytes)(g, comb, t, x, n, &state[0]);
    g->places = place;
    lv row = LLVMBuildZExtOrBitCast(em->b, place, sn_em_shape(g->index, g->lanes), "");
    key_positions(g, s, (sn_axis){0}, NULL, row, state);
}

/* ---- loops over rows ---- */

/* A loop over such rows, whose positions grow with it: what is larger than all before it has its place and the number of its
 * iteration in a word. */
bool sn_gen_has_key_loop(sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *rows) {
    enum { MOST = 1 << 22 };
    bool early, arg = s->combs[0] == SN_COMB_ARGMAX || s->combs[0] == SN_COMB_ARGMIN;
    int64_t n = sn_gen_extent(g, s->axis);
    return s->n_combs == 1 && arg && s->kind == SN_AXIS_SEQ && n > 1 && n < MOST && sn_gen_has_key_rows(g, rows) &&
           has_positions(g, s, rows, &early) && !early;
}

/* Nothing: beyond all bytes; of others that which none is worse than, in the first row of all. */
void sn_gen_key_loop_begin(sn_gen *g, const sn_stmt_rec *s, lv *state) {
    LLVMTypeRef wide = sn_em_shape(g->em.cg->i32, g->lanes);
    sn_dtype t = sn_val_get(g->m, s->result)->dtype;
    bool u = sn_is_unsigned(t), max = s->combs[0] == SN_COMB_ARGMAX;
    int64_t none = max ? (u ? -1 : INT8_MIN - 1) : (u ? UINT8_MAX + 1 : INT8_MAX + 1);
    state[1] = LLVMConstNull(wide);
    state[0] = sn_em_i(&g->em, state[1], none);
    if (is_byte(t)) return;
    sn_scalar x[2];
    sn_scalar_identity(s->combs[0], t, x);
    state[0] = sn_em_splat(&g->em, sn_math_const(&g->em, t, x[0].f, x[0].i), g->lanes);
}

void sn_gen_key_loop_next(sn_gen *g, const sn_stmt_rec *s, lv value, lv *state) {
    sn_em *em = &g->em;
    LLVMTypeRef wide = LLVMTypeOf(state[1]);
    sn_dtype t = sn_val_get(g->m, s->result)->dtype;
    bool u = sn_is_unsigned(t), max = s->combs[0] == SN_COMB_ARGMAX;
    lv x = !is_byte(t) ? sn_em_splat(em, value, g->lanes)
           : u         ? LLVMBuildZExt(em->b, value, wide, "")
                       : LLVMBuildSExt(em->b, value, wide, "");
    lv round =
        g->index == em->cg->i64 ? LLVMBuildTrunc(em->b, g->axes[s->axis.i], em->cg->i32, "") : g->axes[s->axis.i];
    round = sn_em_splat(em, em_shl(em, round, sn_em_i(em, round, 8)), g->lanes);
    lv better = is_byte(t) ? em_icmp(em, max ? LLVMIntSGT : LLVMIntSLT, x, state[0])
                           : goes_before(em, max ? SN_COMB_MAX : SN_COMB_MIN, t, x, state[0]);
    state[1] = em_select(em, better, em_or(em, round, LLVMBuildZExtOrBitCast(em->b, g->places, wide, "")), state[1]);
    state[0] = em_select(em, better, x, state[0]);
}

void sn_gen_key_loop_end(sn_gen *g, const sn_stmt_rec *s, const sn_stmt_rec *rows, lv *state) {
    sn_em *em = &g->em;
    LLVMTypeRef index = sn_em_shape(g->index, g->lanes);
    lv place = em_and(em, state[1], sn_em_i(em, state[1], BYTE_PLACES - 1));
    lv round = em_lshr(em, state[1], sn_em_i(em, state[1], 8));
    if (is_byte(sn_val_get(g->m, s->result)->dtype))
        state[0] = LLVMBuildTrunc(em->b, state[0], sn_em_shape(em->cg->i8, g->lanes), "");
    key_positions(g, rows, s->axis, LLVMBuildZExtOrBitCast(em->b, round, index, ""),
                  LLVMBuildZExtOrBitCast(em->b, place, index, ""), state);
}
