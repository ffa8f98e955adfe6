/* attend_rows.c: class attend on GPUs where few query rows meet the same keys, as in decoding: keys and v come from
 * memory once, as fast as that is.
 *
 *     loop .. { loop d { %m, %z, %n, %o = reduce (sumexp, sumexp) j { %s = reduce sum c { q * k }   %x = f(%s)   yield %x, 1, %x, v } .. } }
 *  -> loop g in batch : grid {
 *       loop s in split : grid {
 *         loop t : seq {
 *           loop y : block.y { loop u { loop r { %s = reduce sum x : block.x { q[r] * key }   score[u, r] = f(%s) } } }
 *           loop y, x : block { loop r { most, total, sum[r] = taken up to the new maximum, and the weights of U keys } }
 *           (in between: key, v = vectors of the keys U*(Y*t + y) + u of the next turn, all loads together)
 *         }
 *         what threads y have is put together
 *       }
 *       the last block of a batch puts together what the parts have left, in their order, and does the body
 *     }
 *
 * The threads x of a key have its channels, and the same columns of v. Heads that share keys are rows of one block.
 * Chooses here, binds in attend_rows_bind.c.
 */
#include "passes/schedule/attention/attend_rows.h"

#include "passes/schedule/base/figures.h"

#include <math.h>

/* ---- the nest ---- */

typedef struct finder {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_attend_rows *a;
    const char **why_not;
} finder;

static bool refuse(finder *f, const char *why) {
    *f->why_not = why;
    return false;
}

static const sn_stmt_rec *def_of(const finder *f, sn_val v) { return sn_stmt_get(f->m, sn_val_get(f->m, v)->def); }

static bool is_online(const sn_stmt_rec *r) {
    return r->op == SN_LOP_REDUCE && r->n_combs == 2 && r->combs[0] == SN_COMB_SUMEXP && r->combs[1] == SN_COMB_SUMEXP;
}

static bool find_reductions(finder *f, sn_kern k) {
    sn_attend_rows *a = f->a;
    sn_module *m = f->m;
    sn_chain_outer(&a->outer, m, k);
    for (sn_stmt s = sn_region_first(m, k, a->outer.n ? a->outer.at[a->outer.n - 1] : (sn_stmt){0}); s.i;
         s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_stores(r) && !a->top.i) return refuse(f, "it stores in front of the reduction");
        if (!sn_lop_has_region(r->op)) continue;
        if (!is_online(r) || a->top.i) return refuse(f, "it is more than one reduction, by weights of scores");
        a->top = s;
    }
    if (!a->top.i) return refuse(f, "it has no reduction");
    const sn_stmt_rec *top = sn_stmt_get(m, a->top);
    for (sn_stmt s = top->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_lop_has_region(r->op)) continue;
        if (a->scores.i || r->op != SN_LOP_REDUCE || r->n_combs != 1 || r->combs[0] != SN_COMB_SUM)
            return refuse(f, "its scores are not one sum");
        a->scores = s;
    }
    sn_chain inner;
    if (!a->scores.i || !sn_nest_perfect(&inner, m, a->scores) || inner.n != 1)
        return refuse(f, "its scores are not one sum");
    a->keys = top->axis, a->channel = sn_stmt_axis(m, a->scores);
    bool known = sn_chain_extents(m, &a->outer, a->extent) &&
                 sn_ix_is_const(m, sn_stmt_extent(m, a->top), &a->n_keys) &&
                 sn_ix_is_const(m, sn_stmt_extent(m, a->scores), &a->depth);
    return known ? true : refuse(f, "a size is symbolic");
}

/* What is converted exactly is taken as it was. */
static sn_val as_loaded(const finder *f, sn_val v) {
    for (const sn_stmt_rec *r = def_of(f, v); r->op == SN_LOP_CAST; r = def_of(f, v)) {
        if (!sn_dtype_holds(r->dtype, sn_val_get(f->m, r->in[0])->dtype)) break;
        v = r->in[0];
    }
    return v;
}

static bool is_one(const sn_stmt_rec *r) { return r->op == SN_LOP_CONST && r->f == 1; }

static bool find_operands(finder *f) {
    sn_attend_rows *a = f->a;
    const sn_stmt_rec *yield = sn_stmt_get(f->m, sn_stmt_get(f->m, a->top)->last);
    const sn_stmt_rec *product = def_of(f, sn_stmt_get(f->m, sn_stmt_get(f->m, a->scores)->last)->in[0]);
    if (!sn_val_eq(yield->in[0], yield->in[2]) || !is_one(def_of(f, yield->in[1])))
        return refuse(f, "it adds up no weights of scores");
    if (product->op != SN_LOP_MUL) return refuse(f, "its scores are no product");
    a->score = yield->in[0];
    a->dtype = sn_val_get(f->m, a->score)->dtype;
    a->q = as_loaded(f, product->in[0]), a->key = as_loaded(f, product->in[1]), a->v = as_loaded(f, yield->in[3]);
    return a->dtype == SN_F32 ? true : refuse(f, "its states are not f32");
}

/* ---- sides ---- */

/* Does v, or what it is made of, hang on the axis once axes[i] are with[i]? */
static bool uses(finder *f, sn_val v, sn_axis ax, const sn_axis *axes, const sn_ix *with, uint32_t n) {
    const sn_stmt_rec *r = def_of(f, v);
    sn_ix all[2] = {r->ix, r->bound};
    if (sn_lop_has_region(r->op)) return v.i != sn_stmt_get(f->m, f->a->scores)->result.i;
    for (uint32_t i = 0; i < SN_COUNT(all); i++)
        if (all[i].i && sn_ix_uses_axis(f->m, n ? sn_ix_subst(f->m, all[i], axes, with, n) : all[i], ax)) return true;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (uses(f, r->in[i], ax, axes, with, n)) return true;
    return false;
}

static bool uses_now(finder *f, sn_val v, sn_axis ax) { return uses(f, v, ax, NULL, NULL, 0); }

/* How many iterations of an axis in a row have the same keys and v: the largest divisor of its extent that does. */
static int64_t shared_by(finder *f, sn_axis ax, int64_t extent) {
    enum { HEADS = 256 /* of a group, at most */ };
    if (!uses_now(f, f->a->key, ax) && !uses_now(f, f->a->v, ax)) return extent;
    for (int64_t n = extent < HEADS ? extent : HEADS; n > 1; n--) {
        if (extent % n) continue;
        sn_axis low = sn_axis_new(f->m, "low", sn_ix_const(f->m, n));
        sn_axis high = sn_axis_new(f->m, "high", sn_ix_const(f->m, extent / n));
        sn_ix with = sn_ix_add(f->m, sn_ix_scale(f->m, sn_ix_axis(f->m, high), n), sn_ix_axis(f->m, low));
        if (!uses(f, f->a->key, low, &ax, &with, 1) && !uses(f, f->a->v, low, &ax, &with, 1)) return n;
    }
    return 1;
}

/* The largest divisor of n that is no larger than `most`. */
static int64_t divisor(int64_t n, int64_t most) {
    while (n % most) most--;
    return most;
}

static bool find_sides(finder *f) {
    sn_attend_rows *a = f->a;
    if (uses_now(f, a->q, a->keys)) {
        sn_val other = a->q;
        a->q = a->key, a->key = other;
    }
    if (uses_now(f, a->q, a->keys) || !uses_now(f, a->key, a->channel) || !uses_now(f, a->q, a->channel))
        return refuse(f, "its scores are no product of two sides");
    if (uses_now(f, a->v, a->channel)) return refuse(f, "v hangs on the channel");
    a->column = SN_MAX_CHAIN;
    a->batch = a->rows = a->meet = a->queries = 1;
    for (uint32_t i = 0; i < a->outer.n; i++) {
        sn_axis ax = sn_stmt_axis(f->m, a->outer.at[i]);
        bool of_scores = uses_now(f, a->q, ax) || uses_now(f, a->key, ax) || uses_now(f, a->score, ax);
        if (uses_now(f, a->v, ax) && !of_scores) {
            if (a->column < SN_MAX_CHAIN) return refuse(f, "v has two axes of columns");
            a->column = i, a->width = a->extent[i], a->shared[i] = 1;
            continue;
        }
        int64_t all = shared_by(f, ax, a->extent[i]);
        if (!uses_now(f, a->key, ax) && !uses_now(f, a->v, ax)) a->queries = sn_mul_clamped(a->queries, all);
        a->meet = sn_mul_clamped(a->meet, all);
        a->shared[i] = divisor(all, SN_ROWS_MOST / a->rows < all ? SN_ROWS_MOST / a->rows : all);
        a->rows *= a->shared[i];
        a->batch = sn_mul_clamped(a->batch, a->extent[i] / a->shared[i]);
    }
    return a->column < SN_MAX_CHAIN ? true : refuse(f, "v has no columns");
}

/* The dtype of what v is loaded as, or of all that it may be: old keys, or new ones behind them. */
static sn_dtype held_as(const finder *f, sn_val v) {
    const sn_stmt_rec *r = def_of(f, as_loaded(f, v));
    sn_dtype own = sn_val_get(f->m, as_loaded(f, v))->dtype;
    if (r->op != SN_LOP_SELECT) return own;
    sn_dtype a = held_as(f, r->in[1]), b = held_as(f, r->in[2]);
    return a == b ? a : own;
}

/* Elements of one widest access that channels and columns are made of. */
static uint32_t vector_of(finder *f) {
    const sn_attend_rows *a = f->a;
    uint32_t key = sn_dtype_bytes(a->key_dtype), v = sn_dtype_bytes(a->v_dtype);
    f->a->bytes = key > v ? key : v;
    uint32_t widest = sn_widest(f->cx, f->a->bytes);
    return sn_least(widest, sn_least(sn_pow2_divisor(a->depth), sn_pow2_divisor(a->width)));
}

bool sn_attend_rows_find(sn_attend_rows *out, const char **why_not, sn_pass_ctx *cx, sn_kern k) {
    finder f = {.cx = cx, .m = cx->m, .a = out, .why_not = why_not};
    *out = (sn_attend_rows){0};
    if (!find_reductions(&f, k) || !find_operands(&f) || !find_sides(&f)) return false;
    out->key_dtype = held_as(&f, out->key), out->v_dtype = held_as(&f, out->v);
    out->vector = vector_of(&f);
    return true;
}

bool sn_schedule_attend_rows_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_attend_rows a;
    (void)sh;
    *why_not = "it is for GPUs";
    return cx->target->is_gpu && sn_attend_rows_find(&a, why_not, cx, k);
}

/* ---- headers ---- */

/* Registers of a thread: its rows of q and of the sums; keys and v that it waits for, scores and what rows carry.
 * With one stage v may come as late as keys are done with. */
static int64_t registers(const sn_attend_rows *a, const sn_sched *sc) {
    int64_t key = sn_attend_rows_vectors(sc, a->depth), v = sn_attend_rows_vectors(sc, a->width);
    int64_t waits = sc->stages > 1 ? key + v : key > v ? key : v;
    waits *= sn_ceil_div((int64_t)sc->unroll * sc->vector * a->bytes, 4);
    return a->rows * (key + v) * sc->vector + waits + a->rows * (sc->unroll + 2) + SN_OTHER_REGS;
}

/* As many keys together as registers have room for; two stages where that is as many as are wanted. */
static void choose_keys(sn_sched *sc, const sn_attend_rows *a) {
    bool open = !sc->unroll;
    if (open) sc->unroll = SN_ATTEND_KEYS;
    if (!sc->stages) {
        sc->stages = 2;
        if (registers(a, sc) > SN_ATTEND_REGS) sc->stages = 1;
    }
    while (open && sc->unroll > 1 && registers(a, sc) > SN_ATTEND_REGS) sc->unroll /= 2;
}

/* Blocks of a multiprocessor. An assembler is never held to fewer registers than the larger of these two. */
static int64_t resident(const sn_attend_rows *a, const sn_sched *sc, const sn_target *t) {
    int64_t regs = registers(a, sc), threads = (int64_t)sc->block_x * sc->block_y;
    int64_t most = SN_FILE_REGS / (threads * (regs > SN_ATTEND_REGS ? regs : SN_ATTEND_REGS));
    return most < 1 ? 1 : sn_least((uint32_t)most, sn_target_blocks(t, (uint64_t)threads));
}

/* Parts of the keys: so many blocks that they lie evenly on the device, and none so short that beginning takes longer, or that
 * joining what they leave does. Returns turns until all is done. */
static double choose_parts(sn_sched *sc, const sn_attend_rows *a, const sn_target *t) {
    int64_t together = (int64_t)sc->block_y * sc->unroll, pinned = sc->split;
    double least = INFINITY;
    for (int64_t n = pinned ? pinned : 1; n <= (pinned ? pinned : SN_ATTEND_PARTS); n++) {
        if (n > 1 && !pinned && a->n_keys < n * together) break;
        double turns = (double)sn_ceil_div(sn_ceil_div(a->n_keys, n), together) + SN_ATTEND_BEGIN;
        double waves = (double)sn_ceil_div(sn_mul_clamped(a->batch, n), t->units * resident(a, sc, t));
        double all = waves * turns + (n > 1 ? SN_ATTEND_JOIN : 0);
        if (all < least) least = all, sc->split = (uint32_t)n;
    }
    return least;
}

static bool possible(const sn_attend_rows *a, const sn_sched *sc, const sn_target *t) {
    bool lanes = sc->block_x <= SN_WARP && !(sc->block_x & (sc->block_x - 1));
    if (!lanes || !sc->block_y || (int64_t)sc->block_x * sc->block_y > t->max_threads) return false;
    if (sc->tile_m > 1 || sc->tile_n > 1 || sc->stages > 2 || sc->unroll > SN_ATTEND_MOST_KEYS) return false;
    if (sc->vector > a->vector || sc->vector & (sc->vector - 1) || sc->split > SN_ATTEND_PARTS) return false;
    return registers(a, sc) <= SN_ATTEND_MOST_REGS;
}

/* Widest accesses; of many rows narrower ones, so that more threads share them. */
static void choose_lanes(sn_sched *sc, const sn_attend_rows *a) {
    int64_t longest = a->depth > a->width ? a->depth : a->width, own = a->rows * (a->depth + a->width);
    bool open = !sc->vector && !sc->block_x;
    if (!sc->vector) sc->vector = a->vector;
    if (!sc->block_x) sc->block_x = sn_least(SN_WARP, sn_pow2_ceil(sn_ceil_div(longest, sc->vector)));
    while (open && sc->vector > 1 && sc->block_x < SN_WARP && own > SN_ATTEND_OWN * (int64_t)sc->block_x)
        sc->vector /= 2, sc->block_x *= 2;
}

sn_status sn_schedule_attend_rows_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k,
                                             const sn_schedule_shape *sh, const sn_sched *pinned) {
    sn_attend_rows a;
    const char *why_not;
    sn_sched sc = *pinned;
    (void)sh;
    if (!sn_attend_rows_find(&a, &why_not, cx, k)) return SN_OK;
    sn_attention_sizes sizes = {
        .shared = a.meet, .queries = a.queries, .keys = a.n_keys, .depth = a.depth, .width = a.width, .dtype = SN_F32};
    if (pinned->cls == SN_SCHED_NONE && !sn_attention_has_few_rows(cx->target, &sizes)) return SN_OK;
    sc.cls = SN_SCHED_ATTEND;
    choose_lanes(&sc, &a);
    bool open = !sc.block_y;
    if (open) sc.block_y = sc.block_x < SN_ATTEND_THREADS ? SN_ATTEND_THREADS / sc.block_x : 1;
    choose_keys(&sc, &a);
    if (!possible(&a, &sc, cx->target)) return SN_OK;
    sn_sched twice = sc;
    twice.block_y *= 2;
    double turns = choose_parts(&sc, &a, cx->target);
    if (open && possible(&a, &twice, cx->target) && choose_parts(&twice, &a, cx->target) < turns) sc = twice;
    if (!sc.min_blocks) sc.min_blocks = (uint32_t)resident(&a, &sc, cx->target);
    sn_schedule_propose(out, cx, &sc);
    return SN_OK;
}
