/* attend_weights.c: what scores in registers become: maxima of rows, weights, their totals, and the fragment of the second
 * product. attend_bind.c has the picture, and why a weight is what it is.
 *
 * Of a nest that is lazy, a maximum is taken anew only where a weight would be above 2^8. Threads look at what they have
 * by themselves, as integers, of which one instruction takes three; only where one of a warp has a larger score do
 * those that share a row look at each other's:
 *
 *     below = bits(scores) < bits(limit)     unless all below { most' = max(most, scores)   shift'   grown   limit' }
 *
 * A nan may be below: weights and totals are nan all the same.
 *
 * Of scores that are bounded (attend_range.c) there is no maximum: factor and shift are numbers. What it costs is a part of the
 * range of f32, at both ends alike: with weights from 2^-n to 2^n, sums are finite of |v| below 2^(127-n) / keys, and normal
 * numbers of |v| above 2^(n-126), whatever weights a row has. Of scores within 50 of their middle n is 72.1: |v| from 2^-53 to
 * 2^54 / keys. f16 has n up to 8, and has no larger v. Where f takes special functions, some weights are polynomials instead
 * of more of them.
 */
#include <math.h>

#include "passes/schedule/attention/attend_bind.h"
#include "passes/schedule/base/figures.h"

enum {
    SCORES_LARGE = 28, /* 2^28: numbers are 16 apart, so that a factor is at most 2^8 */
    GROWTH = 8,        /* weights are at most 2^8 */
    WARP = 32,
    PERIOD = 4, /* blocks of a row of scores */
};

typedef sn_attend_binding binding;

static sn_ix open_loop(binding *o, sn_cursor *at, const char *name, int64_t extent, sn_axis_kind kind) {
    return sn_contract_loop(&o->b, at, name, extent, kind);
}

static sn_val put_f32(binding *o, sn_cursor at, double x) { return sn_put_const(o->b.m, at, SN_F32, x); }

/* ---- over threads that share a row ---- */

/* A combiner over n elements; *at moves inside. */
static sn_stmt open_reduce(binding *o, sn_cursor *at, const char *name, int64_t n, sn_axis_kind kind, sn_comb comb,
                           sn_dtype dtype, sn_ix *axis) {
    sn_axis ax = sn_axis_new(o->b.m, name, sn_ix_const(o->b.m, n));
    sn_stmt s = sn_put_reduce(o->b.m, *at, ax, kind, &comb, 1, &dtype);
    *at = sn_at_end(o->b.k, s);
    *axis = sn_ix_axis(o->b.m, ax);
    return s;
}

static sn_val close_reduce(binding *o, sn_cursor at, sn_stmt s, sn_val x) {
    sn_put_yield(o->b.m, at, &x, 1);
    return sn_stmt_get(o->b.m, s)->result;
}

/* Over the scores that thread x has of a row, or over their bits, in two chains. */
static sn_val put_over_row(binding *o, sn_cursor at, sn_ix x, sn_ix h, sn_ix r, sn_comb comb, sn_dtype dtype) {
    sn_ix v, j;
    sn_cursor outer = at;
    sn_stmt pairs = open_reduce(o, &outer, "v", 2, SN_AXIS_UNROLL, comb, dtype, &v);
    sn_cursor in = outer;
    sn_stmt blocks = open_reduce(o, &in, "j", o->scores.tiles_n, SN_AXIS_UNROLL, comb, dtype, &j);
    sn_ix e = sn_mma_element(o->b.m, &o->scores, x, h, j, sn_ix_fma(o->b.m, 2, r, v));
    sn_val score = sn_put_bitcast(o->b.m, in, dtype, sn_put_load(o->b.m, in, o->s, e));
    return close_reduce(o, outer, pairs, close_reduce(o, in, blocks, score));
}

/* The thread that is number l of the four that share its rows. */
static sn_ix neighbour(binding *o, sn_ix x, sn_ix l) { return sn_ix_fma(o->b.m, 4, sn_ix_divc(o->b.m, x, 4), l); }

/* ---- maxima ---- */

/* The factor of a row whose maximum is `most`. */
sn_val sn_attend_put_factor(binding *o, sn_cursor at, sn_val most) {
    sn_module *m = o->b.m;
    double large = ldexp(1, SCORES_LARGE) * (o->scale > 1 ? o->scale : 1);
    int exponent = o->scale < 2 ? ilogb(o->scale) : 0;
    sn_val scaled = sn_put_op2(m, at, SN_LOP_MUL, most, put_f32(o, at, o->scale));
    sn_val good = sn_put_op2(m, at, SN_LOP_LT, sn_put_op1(m, at, SN_LOP_ABS, scaled), put_f32(o, at, large));
    return sn_put_op3(m, at, SN_LOP_SELECT, good, put_f32(o, at, o->scale), put_f32(o, at, ldexp(1, exponent)));
}

/* The maximum of a row: the one before where no weight is large with it. */
static sn_val put_kept(binding *o, sn_cursor at, sn_ix own, sn_val before, sn_val now) {
    sn_module *m = o->b.m;
    sn_val factor = sn_put_load(m, at, o->factor, own), shift = sn_put_load(m, at, o->shift, own);
    sn_val over = sn_put_op2(m, at, SN_LOP_SUB, sn_put_op2(m, at, SN_LOP_MUL, now, factor), shift);
    sn_val small = sn_put_op2(m, at, SN_LOP_LE, over, put_f32(o, at, GROWTH));
    sn_val kept = sn_put_op3(m, at, SN_LOP_SELECT, small, before, now);
    sn_val first = sn_put_op2(m, at, SN_LOP_EQ, before, put_f32(o, at, -INFINITY));
    return sn_put_op3(m, at, SN_LOP_SELECT, first, now, kept);
}

/* Is what each thread has of its rows below their limits? Then nothing grows. */
static void put_below(binding *o, sn_cursor at) {
    sn_module *m = o->b.m;
    sn_ix x = sn_attend_open_threads(o, &at), h, r;
    sn_attend_open_rows(o, &at, &h, &r);
    sn_ix own = sn_attend_row_at(o, x, h, r);
    sn_val largest = put_over_row(o, at, x, h, r, SN_COMB_MAX, SN_I32), limit = sn_put_load(m, at, o->limit, own);
    sn_put_store(m, at, o->below, own, sn_put_op2(m, at, SN_LOP_LT, largest, limit));
    sn_put_store(m, at, o->grown, own, put_f32(o, at, 1));
}

/* Where that is not so for all rows of the warp; *at moves inside. */
static void open_above(binding *o, sn_cursor *at, sn_ix x) {
    sn_module *m = o->b.m;
    int64_t rows = 2 * o->b.nest.tiles_m;
    sn_ix lane;
    sn_cursor in = *at;
    sn_stmt warp = open_reduce(o, &in, "l", WARP, SN_AXIS_WARP, SN_COMB_ALL, SN_BOOL, &lane);
    sn_ix other = sn_ix_fma(m, WARP, sn_ix_divc(m, x, WARP), lane);
    sn_val below = {0};
    for (int64_t i = 0; i < rows; i++) {
        sn_val one = sn_put_load(m, in, o->below, sn_ix_addc(m, sn_ix_scale(m, other, rows), i));
        below = below.i ? sn_put_op2(m, in, SN_LOP_AND, below, one) : one;
    }
    below = close_reduce(o, in, warp, below);
    sn_ix number = sn_ix_val(m, sn_put_cast(m, *at, SN_I32, below));
    *at = sn_at_end(o->b.k, sn_put_if(m, *at, number, sn_ix_const(m, 1)));
}

/* Scores whose bits are below this have no weight above 2^8, however what it is made of is rounded. Bits of negative
 * numbers have another order: nothing is below a limit that is one, nor below that of a row that has no maximum yet. */
static void put_limit(binding *o, sn_cursor at, sn_ix own, sn_val none, sn_val factor, sn_val shift) {
    sn_module *m = o->b.m;
    sn_val least = sn_put_const_int(m, at, SN_I32, INT32_MIN);
    sn_val limit = sn_put_op2(m, at, SN_LOP_ADD, shift, put_f32(o, at, GROWTH));
    limit = sn_put_op2(m, at, SN_LOP_MUL, limit, sn_put_op1(m, at, SN_LOP_RECIPROCAL, factor));
    limit = sn_put_op2(m, at, SN_LOP_MUL, limit, put_f32(o, at, 1 - ldexp(1, -19)));
    sn_val ordered = sn_put_op2(m, at, SN_LOP_GE, limit, put_f32(o, at, 0));
    limit = sn_put_op3(m, at, SN_LOP_SELECT, ordered, sn_put_bitcast(m, at, SN_I32, limit), least);
    sn_put_store(m, at, o->limit, own, sn_put_op3(m, at, SN_LOP_SELECT, none, least, limit));
}

void sn_attend_put_most(binding *o, sn_cursor at) {
    sn_module *m = o->b.m;
    if (o->lazy) put_below(o, at);
    sn_ix x = sn_attend_open_threads(o, &at), h, r, l;
    if (o->lazy) open_above(o, &at, x);
    sn_attend_open_rows(o, &at, &h, &r);
    sn_cursor in = at;
    sn_stmt group = open_reduce(o, &in, "l", 4, SN_AXIS_WARP, SN_COMB_MAX, SN_F32, &l);
    sn_val most = close_reduce(o, in, group, put_over_row(o, in, neighbour(o, x, l), h, r, SN_COMB_MAX, SN_F32));
    sn_ix own = sn_attend_row_at(o, x, h, r);
    sn_val before = sn_put_load(m, at, o->most, own), now = sn_put_op2(m, at, SN_LOP_MAX, before, most);
    if (o->lazy) now = put_kept(o, at, own, before, now);
    sn_val never = put_f32(o, at, -INFINITY), none = sn_put_op2(m, at, SN_LOP_EQ, now, never);
    sn_val factor = sn_attend_put_factor(o, at, now), first = sn_put_op2(m, at, SN_LOP_EQ, before, never);
    sn_val old = sn_put_op3(m, at, SN_LOP_SELECT, first, never, sn_put_load(m, at, o->shift, own));
    sn_val shift = sn_put_op2(m, at, SN_LOP_MUL, now, factor);
    if (o->raised) shift = sn_put_op2(m, at, SN_LOP_SUB, shift, put_f32(o, at, o->raised));
    shift = sn_put_op3(m, at, SN_LOP_SELECT, none, put_f32(o, at, 0), shift);
    sn_val grown = sn_put_op1(m, at, SN_LOP_EXP2_NORMAL, sn_put_op2(m, at, SN_LOP_SUB, old, shift));
    sn_put_store(m, at, o->most, own, now);
    sn_put_store(m, at, o->factor, own, factor);
    sn_put_store(m, at, o->shift, own, shift);
    sn_put_store(m, at, o->grown, own, grown);
    if (o->lazy) put_limit(o, at, own, none, factor, shift);
}

/* ---- weights ---- */

/* Weights go from 2^-n to 2^n. Of f16 they are normal numbers, as they are above those of a lazy maximum; of bf16 n is what
 * a cap of 50 takes, and no more, for it is taken from what they weigh. A middle that is far off is rounded by as much as weights
 * have exponents. */
void sn_attend_find_bound(binding *o, sn_dtype weights) {
    enum { MOST_F16 = GROWTH, MOST_BF16 = 73, FAR = 1 << 20 };
    sn_attend_range r = sn_attend_range_of(o->a);
    double reach = (r.hi - r.lo) / 2 * SN_LOG2_E, center = (r.lo + r.hi) / 2 * SN_LOG2_E;
    o->bounded = reach <= (weights == SN_F16 ? MOST_F16 : MOST_BF16) && fabs(center) < FAR;
    o->holes = r.holes;
    o->center = o->bounded ? center : 0;
}

/* Exponents may be below those of normal numbers: these make weights 0. */
static bool is_low(const binding *o) { return !o->bounded || o->holes; }

/* Of PERIOD weights, how many are better made by products and sums than by special functions: as long as those take longer
 * than instructions, and than products of tensor cores. Where a weight is the only special function they never do. */
static int64_t shares_of(const binding *o) {
    const sn_attend *a = o->a;
    double special = a->cx->target->special, channels = (double)(a->depth + a->c.n);
    int64_t n = 0;
    if (!o->p.i || !a->specials) return 0; /* weights of f32 are more exact */
    for (; n < PERIOD; n++) {
        double share = (double)(n + 1) / PERIOD, functions = (a->specials + 1 - share) / special;
        double instructions = SN_ATTEND_EXP2 + a->instructions + share * (SN_ATTEND_POLYNOMIAL + is_low(o));
        if (functions < instructions / (SN_WARP * SN_SCHEDULERS) || functions < channels / sn_mmas[a->mma].rate) break;
    }
    return n;
}

sn_val sn_attend_put_weight(binding *o, sn_cursor at, sn_val score, sn_val factor, sn_val shift) {
    sn_val scaled = sn_put_op2(o->b.m, at, SN_LOP_MUL, score, factor);
    return sn_put_op1(o->b.m, at, SN_LOP_EXP2_NORMAL, sn_put_op2(o->b.m, at, SN_LOP_SUB, scaled, shift));
}

/* The exponent of a weight; one that is bounded has a factor and a shift that are the same for all. */
static sn_val put_exponent(binding *o, sn_cursor at, sn_val score, sn_ix own) {
    sn_module *m = o->b.m;
    sn_val factor = o->bounded ? put_f32(o, at, o->scale) : sn_put_load(m, at, o->factor, own);
    sn_val x = sn_put_op2(m, at, SN_LOP_MUL, score, factor);
    if (o->bounded && o->center == 0) return x;
    sn_val shift = o->bounded ? put_f32(o, at, o->center) : sn_put_load(m, at, o->shift, own);
    return sn_put_op2(m, at, SN_LOP_SUB, x, shift);
}

/* Every PERIOD blocks of a row, some have weights that take no special function: of 2^-127, 0 stands for the power. */
void sn_attend_put_weights(binding *o, sn_cursor at) {
    const double NONE = -127;
    sn_module *m = o->b.m;
    int64_t all = o->scores.tiles_n, period = all % PERIOD ? 2 : PERIOD, plain = shares_of(o) * period / PERIOD;
    sn_ix x = sn_attend_open_threads(o, &at), h, r;
    sn_attend_open_rows(o, &at, &h, &r);
    sn_ix own = sn_attend_row_at(o, x, h, r);
    if (!plain) period = 1;
    sn_ix first = open_loop(o, &at, "j", all / period, SN_AXIS_UNROLL);
    for (int64_t i = 0; i < period; i++) {
        sn_cursor in = at;
        sn_ix j = sn_ix_addc(m, sn_ix_scale(m, first, period), i);
        sn_ix e = sn_ix_fma(m, 2, r, open_loop(o, &in, "v", 2, SN_AXIS_VECTOR));
        sn_ix score = sn_mma_element(m, &o->scores, x, h, j, e);
        sn_val y = put_exponent(o, in, sn_put_load(m, in, o->s, score), own);
        if (i < plain && is_low(o)) y = sn_put_op2(m, in, SN_LOP_MAX, y, put_f32(o, in, NONE));
        sn_put_store(m, in, o->s, score, sn_put_op1(m, in, i < plain ? SN_LOP_EXP2_SHORT : SN_LOP_EXP2_NORMAL, y));
    }
}

void sn_attend_put_sum(binding *o, sn_cursor at) {
    sn_module *m = o->b.m;
    sn_ix x = sn_attend_open_threads(o, &at), h, r;
    sn_attend_open_rows(o, &at, &h, &r);
    sn_ix own = sn_attend_row_at(o, x, h, r);
    sn_val sum = put_over_row(o, at, x, h, r, SN_COMB_SUM, SN_F32), part = sn_put_load(m, at, o->part, own);
    if (!o->bounded) part = sn_put_op2(m, at, SN_LOP_MUL, part, sn_put_load(m, at, o->grown, own));
    sn_put_store(m, at, o->part, own, sn_put_op2(m, at, SN_LOP_ADD, part, sum));
}

/* Elements of a fragment are, in their order: blocks of rows h, steps of the instruction, halves of those, rows r,
 * neighbours. Two blocks of scores are a step. */
void sn_attend_put_fragment(binding *o, sn_cursor at) {
    sn_module *m = o->b.m;
    sn_ix x = sn_attend_open_threads(o, &at), h = open_loop(o, &at, "h", o->b.nest.tiles_m, SN_AXIS_UNROLL);
    sn_ix j = open_loop(o, &at, "j", o->scores.tiles_n, SN_AXIS_UNROLL), r = open_loop(o, &at, "r", 2, SN_AXIS_UNROLL);
    sn_ix e = sn_ix_fma(o->b.m, 2, r, open_loop(o, &at, "v", 2, SN_AXIS_VECTOR));
    sn_val weight = sn_put_load(m, at, o->s, sn_mma_element(m, &o->scores, x, h, j, e));
    sn_dtype operand = sn_buf_get(m, o->p)->dtype;
    sn_put_store(m, at, o->p, sn_mma_element(m, &o->scores, x, h, j, e), sn_put_cast(m, at, operand, weight));
}

/* Where the maximum of a row of the thread has grown; *at moves inside. */
static void open_grown(binding *o, sn_cursor *at, sn_ix x) {
    sn_module *m = o->b.m;
    int64_t rows = 2 * o->b.nest.tiles_m;
    sn_val same = {0}; /* for all of them */
    for (int64_t i = 0; i < rows; i++) {
        sn_ix own = sn_ix_addc(m, sn_ix_scale(m, x, rows), i);
        sn_val one = sn_put_op2(m, *at, SN_LOP_EQ, sn_put_load(m, *at, o->grown, own), put_f32(o, *at, 1));
        same = same.i ? sn_put_op2(m, *at, SN_LOP_AND, same, one) : one;
    }
    sn_ix number = sn_ix_val(m, sn_put_cast(m, *at, SN_I32, same));
    *at = sn_at_end(o->b.k, sn_put_if(m, *at, number, sn_ix_const(m, 1)));
}

void sn_attend_put_growth(binding *o, sn_cursor at) {
    sn_module *m = o->b.m;
    sn_ix x = sn_attend_open_threads(o, &at), h, r;
    if (o->lazy) open_grown(o, &at, x);
    sn_attend_open_rows(o, &at, &h, &r);
    sn_val grown = sn_put_load(m, at, o->grown, sn_attend_row_at(o, x, h, r));
    sn_ix j = open_loop(o, &at, "j", o->sums.tiles_n, SN_AXIS_UNROLL);
    sn_ix e = sn_ix_fma(o->b.m, 2, r, open_loop(o, &at, "v", 2, SN_AXIS_VECTOR));
    sn_ix own = sn_mma_element(m, &o->sums, x, h, j, e);
    sn_val sum = sn_put_load(m, at, o->sums.state, own);
    sn_put_store(m, at, o->sums.state, own, sn_put_op2(m, at, SN_LOP_MUL, sum, grown));
}

/* Behind all keys: totals of rows, and their maximum as scores have it. */
void sn_attend_put_totals(binding *o, sn_cursor at) {
    sn_module *m = o->b.m;
    sn_ix x = sn_attend_open_threads(o, &at), h, r, l;
    sn_attend_open_rows(o, &at, &h, &r);
    sn_cursor in = at;
    sn_stmt group = open_reduce(o, &in, "l", 4, SN_AXIS_WARP, SN_COMB_SUM, SN_F32, &l);
    sn_val part = sn_put_load(m, in, o->part, sn_attend_row_at(o, neighbour(o, x, l), h, r));
    sn_ix own = sn_attend_row_at(o, x, h, r);
    sn_val total = close_reduce(o, in, group, part);
    if (o->raised) total = sn_put_op2(m, at, SN_LOP_MUL, total, put_f32(o, at, ldexp(1, -o->raised)));
    if (o->inverse) total = sn_put_op1(m, at, SN_LOP_RECIPROCAL, total);
    sn_put_store(m, at, o->total, own, total);
    if (o->bounded) return;
    sn_val most = sn_put_load(m, at, o->most, own);
    sn_put_store(m, at, o->shift, own, sn_put_op2(m, at, SN_LOP_MUL, most, put_f32(o, at, o->a->factor)));
}
