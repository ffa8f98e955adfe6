/* contract_rows.c: class contract on GPUs where one operand has few rows: the other one is read once, as fast as
 * memory is.
 *
 *     loop i in 4 { loop j in 11008 { %s = reduce sum r in 4096 { .. a(i, r) * b(j, r) }   .. store y[..] } }
 *  -> loop g : grid {
 *       loop y : block.y { loop x : block.x { loop k {
 *         right = R * U vectors of b, all loads together
 *         sums[r, i] += a * right, for the rows i of a, which the caches have
 *       } } }
 *       loop y : block.y { loop r { loop i { %s = reduce sum x : block.x { sums }   the body } } }
 *     }
 *
 * Chooses here, binds in contract_rows_bind.c, which has the picture for operands that are contiguous the other way.
 * A thread keeps as many bytes of the long operand in flight as a multiprocessor asks for, and multiplies each
 * element by all rows of the short one; so the instructions of an element grow with the rows, and with many of them
 * tensor cores do better. Each element of the short operand is loaded once for the R columns that a thread has.
 */
#include "passes/schedule/products/contract_rows.h"

#include "passes/schedule/products/contract.h"
#include "passes/schedule/base/figures.h"

typedef struct looker {
    sn_module *m;
    sn_notes seen;                      /* sn_val */
    sn_axis step, column;               /* ... or row, of the left ones */
    uint32_t along, across;             /* bytes that loads walk with each axis; not those of rows or columns alone */
    uint32_t least_along, least_across; /* smallest such element */
    uint32_t work;                      /* statements but loads */
} looker;

static void look_at(looker *l, sn_val v) {
    if (!sn_notes_add(&l->seen, v.i)) return;
    const sn_stmt_rec *r = sn_stmt_get(l->m, sn_val_get(l->m, v)->def);
    for (uint32_t i = 0; i < r->n_in; i++) look_at(l, r->in[i]);
    if (r->op != SN_LOP_LOAD) {
        l->work += r->op != SN_LOP_CONST;
        return;
    }
    int64_t c;
    uint32_t bytes = sn_dtype_bytes(r->dtype);
    bool step = sn_ix_uses_axis(l->m, r->ix, l->step), gathers = sn_ix_uses_vals(l->m, r->ix);
    bool column = !l->column.i || sn_ix_uses_axis(l->m, r->ix, l->column);
    if ((column || gathers) && sn_ix_coef(l->m, r->ix, l->step, &c) && c == 1) {
        l->along += bytes;
        sn_schedule_smaller(&l->least_along, bytes);
    }
    if (l->column.i && (step || gathers) && sn_ix_coef(l->m, r->ix, l->column, &c) && c == 1) {
        l->across += bytes;
        sn_schedule_smaller(&l->least_across, bytes);
    }
}

static looker look_at_side(sn_pass_ctx *cx, const sn_contraction *c, bool right) {
    int64_t extent;
    looker l = {.m = cx->m, .seen = {.arena = cx->scratch}};
    l.step = sn_stmt_axis(cx->m, c->inner.at[c->inner.n - 1]);
    l.column = sn_contraction_last_axis(&extent, cx->m, c, right ? SN_SIDE_N : SN_SIDE_M);
    for (uint32_t i = 0; i < c->n_operands; i++)
        if (c->operands[i].right == right) look_at(&l, c->operands[i].value);
    return l;
}

bool sn_contract_rows_find(sn_contract_rows *out, const char **why_not, sn_pass_ctx *cx, sn_kern k) {
    sn_contraction *c = &out->c;
    int64_t columns, rows;
    *out = (sn_contract_rows){.vector = 1, .run = 1, .beside = 1, .settled = true};
    if (!sn_contraction_find(c, why_not, cx, k)) return false;
    if (c->m > c->n) sn_contraction_swap(c);
    for (uint32_t i = 0; i < c->n_operands; i++) {
        sn_stmt load = c->operands[i].load;
        if (c->operands[i].right)
            out->settled &= load.i && sn_buf_is_settled(cx->m, sn_buf_get(cx->m, sn_stmt_get(cx->m, load)->buf));
    }
    looker l = look_at_side(cx, c, true), left = look_at_side(cx, c, false);
    sn_contraction_last_axis(&columns, cx->m, c, SN_SIDE_N);
    out->along = l.along >= l.across;
    out->bytes = out->along ? l.least_along : l.least_across;
    int64_t extent = out->along ? c->k_extent[c->inner.n - 1] : columns;
    if (out->bytes) out->vector = sn_least(cx->target->io_align / out->bytes, sn_pow2_divisor(extent));
    if (!out->vector) out->vector = 1;
    int64_t run = left.along
                      ? sn_least(cx->target->io_align / left.least_along, sn_pow2_divisor(c->k_extent[c->inner.n - 1]))
                      : 1;
    if (run > 1) out->run = (uint32_t)run;
    if (left.across && !left.along) {
        sn_contraction_last_axis(&rows, cx->m, c, SN_SIDE_M);
        int64_t beside = sn_least(cx->target->io_align / left.least_across, sn_pow2_divisor(rows));
        if (beside > 1 && rows == c->m) out->beside = (uint32_t)beside;
    }
    return true;
}

bool sn_schedule_contract_rows_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_contract_rows r;
    (void)sh;
    *why_not = "it is for GPUs";
    if (!cx->target->is_gpu || !sn_contract_rows_find(&r, why_not, cx, k)) return false;
    *why_not = "both operands have many rows";
    return r.c.m <= SN_ROWS_MOST;
}

/* ---- headers ---- */

/* Instructions for an element of the right operands, over those that a multiprocessor has time for while it comes. */
static double issue(const sn_contract_rows *r, sn_pass_ctx *cx, int64_t groups) {
    looker left = look_at_side(cx, &r->c, false), right = look_at_side(cx, &r->c, true);
    double rows = (double)r->c.m, bytes = r->along ? right.along : right.across;
    double each = right.work + rows * (r->c.n_products + (double)left.work / (double)groups);
    return bytes > 0 ? each * cx->target->cycle_bytes / (bytes * SN_ISSUES) : 1;
}

/* The same of tiles: threads take f32 apart into terms, of both operands, or compute the long one; else they have nothing to do with
 * elements. */
static double issue_of_tiles(const sn_contract_rows *r, sn_pass_ctx *cx, sn_kern k, const sn_sched *tiles) {
    sn_contract ct;
    const char *why_not;
    if (!tiles->threads && sn_contract_find(&ct, &why_not, cx, k) && ct.made)
        return sn_contract_made_work(&ct) * (double)ct.together * cx->target->cycle_bytes /
               ((double)sn_dtype_bytes(ct.c.operands[0].right ? ct.c.operands[1].from : ct.c.operands[0].from) *
                SN_ISSUES);
    if (r->c.dtype != SN_F32 || r->c.operands[0].from != SN_F32) return 0;
    double each = SN_PRODUCT_TERMS * (1.0 + (double)tiles->tile_n / tiles->tile_m);
    return each * cx->target->cycle_bytes / ((double)sn_dtype_bytes(SN_F32) * SN_ISSUES);
}

/* Are tiles so few that they draw the operands for longer than threads take to multiply? A multiprocessor alone draws but several times its
 * share. */
static bool draw_alone(const sn_contract_rows *r, const sn_target *t, const sn_sched *tiles, double work) {
    int64_t blocks = sn_mul_clamped(r->c.batch, sn_ceil_div(r->c.n, tiles->tile_m)) * (tiles->split ? tiles->split : 1);
    double times = (double)t->units / ((double)blocks * SN_NARROW_FEW);
    return r->along && r->c.m <= SN_ROWS_DRAWN && times > work;
}

/* Bytes that all threads have to keep in flight together; fewer where columns that share the loads of several rows
 * are worth more. */
static int64_t wanted(const sn_target *t, bool shares) {
    return (shares ? SN_ROWS_SHARED_FLIGHT : SN_ROWS_FLIGHT) * (int64_t)t->flight_bytes * t->units / 100;
}

static uint32_t right_operands(const sn_contract_rows *r) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->c.n_operands; i++) n += r->c.operands[i].right;
    return n;
}

/* U steps: a divisor of the steps of a thread, more than half of `most` and less than twice as many, if there is
 * one. */
static uint32_t even_steps(int64_t steps, int64_t most) {
    if (most < 1) most = 1;
    if (most > steps) most = steps;
    for (int64_t u = most; 2 * u > most; u--)
        if (steps % u == 0) return (uint32_t)u;
    for (int64_t u = most; u < 2 * most; u++)
        if (steps % u == 0) return (uint32_t)u;
    return (uint32_t)most;
}

/* Registers of a thread, about: sums, and what it has of both operands, whose loads go together. */
static int64_t registers(const sn_contract_rows *r, int64_t groups, int64_t steps) {
    int64_t lanes = r->along ? 1 : r->vector, vector = sn_ceil_div((int64_t)r->vector * r->bytes, 4);
    int64_t left = r->along ? vector : sn_ceil_div((int64_t)r->run * r->bytes, 4);
    int64_t sums = groups * r->c.m * r->c.n_states * lanes * sn_ceil_div(sn_dtype_bytes(r->c.dtype), 4);
    int64_t left_steps = r->along ? steps : 1;
    return sums + groups * steps * vector * right_operands(r) + left_steps * r->c.m * left + SN_OTHER_REGS;
}

/* The same where the short operand is wanted for all of its steps as early as for the first one: an assembler that
 * sees no loop asks for that. */
static int64_t most_registers(const sn_contract_rows *r, int64_t groups, int64_t steps) {
    int64_t early =
        r->along ? 0 : (sn_ceil_div(steps, r->run) - 1) * r->c.m * sn_ceil_div((int64_t)r->run * r->bytes, 4);
    return registers(r, groups, steps) + early;
}

static bool lies_evenly(const sn_target *t, int64_t blocks, int64_t threads, int64_t regs) {
    int64_t resident = SN_FILE_REGS / (threads * regs);
    if (resident > t->unit_threads / threads) resident = t->unit_threads / threads;
    return sn_target_lies_evenly(t, (uint64_t)blocks, (uint64_t)resident);
}

/* Vectors of the long operand's steps that a thread has for each of its columns: as far as registers reach. */
static int64_t steps_of(const sn_contract_rows *r, int64_t most, int64_t groups) {
    int64_t steps = groups && most > groups ? most / groups : 1;
    while (steps > 1 && registers(r, groups, steps) > SN_ROWS_RESIDENT) steps /= 2;
    return steps;
}

/* Warps own columns. Where columns are few, a thread has fewer of them and more steps, then, of few rows, more threads share one: warps meet
 * once for each row. */
static void choose_along(sn_sched *sc, const sn_contract_rows *r, sn_pass_ctx *cx) {
    const sn_target *t = cx->target;
    int64_t own = SN_ROWS_OWN / (int64_t)right_operands(r), columns = sn_mul_clamped(r->c.batch, r->c.n), groups;
    int64_t line = sn_ceil_div(r->c.k, r->vector), most = own / ((int64_t)r->vector * r->bytes);
    bool open = !sc->block_x;
    if (open) sc->block_x = (uint32_t)(line < SN_WARP ? sn_pow2_ceil(line) : SN_WARP);
    int64_t least = wanted(t, r->c.m > 1), threads = SN_ROWS_THREADS > sc->block_x ? SN_ROWS_THREADS : sc->block_x;
    for (groups = most < 4 ? most : 4; groups > 1; groups /= 2) {
        int64_t regs = registers(r, groups, steps_of(r, most, groups)),
                blocks = columns * sc->block_x / (groups * threads);
        bool enough = columns / groups * sc->block_x * own >= (groups > 2 ? 2 : 1) * least;
        if (enough && lies_evenly(t, blocks, threads, regs)) break;
    }
    if (groups < 1) groups = 1;
    while (open && r->c.m <= SN_ROWS_MEET && columns * sc->block_x * own < wanted(t, false) &&
           sc->block_x < SN_ROWS_THREADS && line >= 4 * (int64_t)sc->block_x)
        sc->block_x *= 2;
    if (!sc->block_y) sc->block_y = sc->block_x < SN_ROWS_THREADS ? SN_ROWS_THREADS / sc->block_x : 1;
    if (!sc->tile_n) sc->tile_n = (uint32_t)groups * sc->block_y;
    groups = sn_contract_rows_groups(r, sc);
    int64_t steps = steps_of(r, most, groups);
    if (!sc->tile_k && groups) sc->tile_k = even_steps(sn_ceil_div(line, sc->block_x), steps) * sc->block_x * r->vector;
}

/* Bytes of the long operands in all. */
static int64_t bytes_of_right(const sn_contract_rows *r) {
    int64_t columns = sn_mul_clamped(r->c.batch, r->c.n);
    return sn_mul_clamped(sn_mul_clamped(columns, r->c.k), (int64_t)r->bytes * right_operands(r));
}

bool sn_contract_rows_early(const sn_contract_rows *r, const sn_target *t) {
    return t->sm >= SN_EARLY_SM && r->settled &&
           bytes_of_right(r) <= (int64_t)t->units * SN_EARLY_THREADS * SN_ROWS_OWN;
}

/* Vectors of columns side by side: a warp's, fewer where blocks are. Lines of memory stay whole, but for what comes early: there all
 * multiprocessors should have a block. */
static uint32_t choose_width(const sn_contract_rows *r, const sn_target *t, int64_t vectors) {
    int64_t piece = (int64_t)r->vector * r->bytes, x = SN_WARP;
    while (x * piece > SN_LINE && vectors / x < t->units) x /= 2;
    while (x * piece > SN_SECTOR && sn_contract_rows_early(r, t) && 2 * vectors <= x * t->units) x /= 2;
    return (uint32_t)x;
}

/* Threads own vectors of columns, and as many of them share a sum as are wanted. */
static void choose_across(sn_sched *sc, const sn_contract_rows *r, sn_pass_ctx *cx) {
    const sn_target *t = cx->target;
    int64_t vectors = sn_mul_clamped(r->c.batch, sn_ceil_div(r->c.n, r->vector)),
            own = SN_ROWS_OWN / (int64_t)right_operands(r);
    int64_t most = own / ((int64_t)r->vector * r->bytes);
    if (!sc->block_x) sc->block_x = choose_width(r, t, vectors);
    if (!sc->block_y && sn_contract_rows_early(r, t)) {
        sc->block_y = 1;
        while (sc->block_y * sc->block_x < SN_EARLY_THREADS && (int64_t)sc->block_y * SN_EARLY_STEPS < r->c.k)
            sc->block_y *= 2;
    } else if (!sc->block_y) {
        sc->block_y = 1;
        while (sc->block_y * sc->block_x < t->max_threads / 2 && vectors * sc->block_y * own < wanted(t, false) &&
               2 * (int64_t)sc->block_y <= r->c.k)
            sc->block_y *= 2;
        while (sc->block_y * sc->block_x < SN_ROWS_THREADS && 2 * (int64_t)sc->block_y <= r->c.k) sc->block_y *= 2;
        int64_t blocks = sn_ceil_div(vectors, sc->block_x), threads = (int64_t)sc->block_x * sc->block_y;
        int64_t regs = registers(r, 1, most < 1 ? 1 : most);
        /* Whether one more block fits hangs on a few registers. */
        bool even = lies_evenly(t, blocks, threads, regs) && lies_evenly(t, blocks, threads, regs * 3 / 4);
        if (threads > SN_ROWS_THREADS && !even && lies_evenly(t, blocks, threads / 2, regs)) sc->block_y /= 2;
    }
    if (!sc->tile_n) sc->tile_n = sc->block_x * r->vector;
    uint32_t groups = sn_contract_rows_groups(r, sc);
    int64_t steps = sn_ceil_div(r->c.k, sc->block_y), threads = (int64_t)sc->block_x * sc->block_y;
    if (sc->tile_k || !groups) return;
    if (sn_contract_rows_early(r, t) && most_registers(r, groups, steps) * threads <= SN_FILE_REGS)
        most = steps * groups;
    steps = even_steps(steps, most > groups ? most / groups : 1);
    while (steps > 1 && most_registers(r, groups, steps) * threads > SN_FILE_REGS) steps /= 2;
    sc->tile_k = (uint32_t)steps * sc->block_y;
}

/* A gradient of weights of single channels: sums longer than results are many, over pixels that taps share. A row of a reduction does better, whose
 * lanes lie along the pixels. */
static bool shares_pixels(const sn_contract_rows *r, const sn_module *m) {
    return r->c.m == 1 && sn_contraction_is_masked(m, &r->c) && r->c.k > r->c.n;
}

/* Are its elements read again and again, as those of an image by windows that overlap? Tiles take them from the caches for many columns at once.
 * What is around an image is counted, too, so that twice is the least. */
static bool overlaps(const sn_contract_rows *r, const sn_module *m) {
    bool any = false;
    for (uint32_t i = 0; i < r->c.n_operands; i++) {
        sn_stmt load = r->c.operands[i].right ? r->c.operands[i].load : (sn_stmt){0};
        sn_dtype dtype = load.i ? sn_stmt_get(m, load)->dtype : SN_F32;
        any |= load.i && sn_mul_clamped(sn_mul_clamped(r->c.n, r->c.k), sn_dtype_bytes(dtype)) >
                             SN_ROWS_AGAIN * (int64_t)sn_buf_bytes(m, sn_stmt_get(m, load)->buf);
    }
    return any;
}

/* Have tiles, whose longer side lies along the long operand, a block for each multiprocessor, and are more than half of their columns there? */
static bool are_filled(const sn_contract_rows *r, const sn_target *t, const sn_sched *tiles) {
    int64_t wide = tiles->tile_m > tiles->tile_n ? tiles->tile_m : tiles->tile_n;
    int64_t narrow = tiles->tile_m > tiles->tile_n ? tiles->tile_n : tiles->tile_m;
    int64_t blocks = sn_mul_clamped(r->c.batch, sn_ceil_div(r->c.n, wide)) * (tiles->split ? tiles->split : 1);
    return blocks >= t->units && 2 * r->c.m > narrow;
}

/* One row times columns that are odd, and too many to be loaded in one turn: threads would load them one by one, in as many blocks as columns
 * give. Columns of a reduction have parts of the sum each. */
static bool is_odd(const sn_contract_rows *r, const sn_target *t) {
    return r->c.m == 1 && !r->along && r->vector == 1 && !sn_contract_rows_early(r, t);
}

/* Does the header say what a thread has, and is there room for it? */
static bool possible(const sn_contract_rows *r, const sn_sched *sc, const sn_target *t) {
    uint64_t threads = (uint64_t)sc->block_x * sc->block_y;
    uint32_t a = r->along ? sc->block_y : sc->block_x * r->vector, b = r->along ? sc->block_x * r->vector : sc->block_y;
    if (!sc->tile_n || !sc->tile_k || !a || !b || sc->tile_n % a || sc->tile_k % b || threads > t->max_threads)
        return false;
    if (sc->stages > 1 || sc->cluster > 1 || sc->persistent || sc->threads || sc->plain ||
        (int64_t)sc->tile_m != r->c.m)
        return false;
    uint64_t words = sn_dtype_bytes(r->c.dtype) > 4 ? 2 : 1, lanes = r->along ? 1 : r->vector;
    uint64_t groups = sc->tile_n / a, steps = sc->tile_k / b;
    uint64_t sums = groups * (uint64_t)r->c.m * r->c.n_states * lanes, held = groups * steps * r->vector;
    return (sums + held * right_operands(r)) * words <= SN_ROWS_REGS;
}

/* Registers that an assembler gives only where it is told that one block of them is enough. */
static bool needs_all(const sn_contract_rows *r, const sn_sched *sc) {
    int64_t groups = sn_contract_rows_groups(r, sc), b = r->along ? (int64_t)sc->block_x * r->vector : sc->block_y;
    return registers(r, groups, sc->tile_k / b) > SN_ROWS_RESIDENT;
}

sn_status sn_schedule_contract_rows_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k,
                                               const sn_schedule_shape *sh, const sn_sched *pinned) {
    sn_contract_rows r;
    const char *why_not;
    sn_sched sc = *pinned;
    if (!sn_contract_rows_find(&r, &why_not, cx, k)) return SN_OK;
    bool open = pinned->cls == SN_SCHED_NONE;
    if (open && (shares_pixels(&r, cx->m) || is_odd(&r, cx->target))) return SN_OK;
    int64_t least = r.c.m > 1 ? SN_ROWS_SHARED_STEPS : SN_ROWS_STEPS;
    if (!r.bytes || (open && (r.c.n < SN_ROWS_COLUMNS || r.c.k < least))) return SN_OK;
    sc.cls = SN_SCHED_CONTRACT;
    if (!sc.tile_m) sc.tile_m = (uint32_t)r.c.m;
    if (r.along) choose_along(&sc, &r, cx);
    else choose_across(&sc, &r, cx);
    if (!possible(&r, &sc, cx->target)) return SN_OK;
    if (!sc.min_blocks && needs_all(&r, &sc)) sc.min_blocks = 1;
    double work = issue(&r, cx, sn_contract_rows_groups(&r, &sc));
    if (open && (work > SN_ROWS_ISSUE / 100.0 || overlaps(&r, cx->m))) {
        sn_sched_list tiles = {0};
        SN_TRY(sn_schedule_contract_candidates(&tiles, cx, k, sh, pinned));
        const sn_sched *first = tiles.n ? &tiles.at[0] : NULL;
        if (first && overlaps(&r, cx->m) && are_filled(&r, cx->target, first)) return SN_OK;
        if (first && !first->plain && issue_of_tiles(&r, cx, k, first) < work &&
            !draw_alone(&r, cx->target, first, work))
            return SN_OK;
    }
    sn_schedule_propose(out, cx, &sc);
    out->cycles = SN_PRODUCT_BEGIN + sn_contraction_fetch(cx->m, &r.c, cx->target) * (work > 1 ? work : 1);
    return SN_OK;
}

bool sn_contract_rows_fill(sn_pass_ctx *cx, sn_kern k) {
    const char *why_not;
    sn_sched_list headers = {0};
    sn_sched open = {.cls = SN_SCHED_NONE};
    sn_contract_rows r;
    if (sn_contract_is_narrow(cx, k)) return true;
    if (!sn_schedule_contract_rows_applies(&why_not, cx, k, NULL)) return false;
    if (sn_schedule_contract_rows_candidates(&headers, cx, k, NULL, &open) != SN_OK || !headers.n) return false;
    sn_contract_rows_find(&r, &why_not, cx, k);
    int64_t blocks = sn_mul_clamped(r.c.batch, sn_ceil_div(r.c.n, headers.at[0].tile_n));
    if (blocks * SN_ROWS_SHARE >= cx->target->units) return true;
    return sn_contract_rows_early(&r, cx->target) && bytes_of_right(&r) / blocks <= SN_ROWS_WHOLE;
}
