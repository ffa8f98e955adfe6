/* window_taps.c: class taps of the pass `schedule`: sums over pixels for each tap of windows, on GPUs: gradients of the weights of depthwise
 * convolutions and of those with small groups.
 *
 * Finds them, and chooses what window_taps_bind.c binds: a thread has the sums of taps along a line (tile_k), of some other taps (tile_n) and of some
 * results that share pixels (tile_m), for a run of `unroll` places of the line. Each element of the line that it loads goes into as
 * many sums as taps reach it. What else there is of the sum is shared by the threads of a block, and by `split` blocks.
 * Every header is counted: instructions, lines that the nearest cache gives, bytes of the L2 and of memory, and how
 * long blocks work one after the other. The least of all has the kernel, if other classes take longer.
 *
 * The factor on the line is whatever the nest makes of an index that stays the same when the tap moves back and the place on: paddings,
 * strides, dilations and prologues are no cases of their own. It adds up what the nest does, and nothing else: no product of a zero that is not
 * in the graph.
 */
#include "passes/schedule/windows/window_taps.h"

#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/model.h"
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/products/contract_rows.h"
#include "passes/schedule/windows/window_choice.h"

#include <math.h>

/* ---- factors ---- */

typedef struct looker {
    const sn_taps *t;
    sn_notes seen; /* sn_val */
    sn_axis tap, place;
    bool refused; /* something does not stay */
    sn_stmt load; /* that moves along the line */
} looker;

static sn_axis outer_axis(const sn_taps *t, uint32_t i) { return sn_stmt_axis(t->m, t->c.outer.at[i]); }
static sn_axis inner_axis(const sn_taps *t, uint32_t i) { return sn_stmt_axis(t->m, t->c.inner.at[i]); }

/* With z taps back, of `step` each, and as many places on? */
static bool stays(const looker *l, sn_ix e) {
    const sn_taps *t = l->t;
    sn_module *m = t->m;
    if (!e.i) return true;
    sn_axis axes[2] = {l->tap, l->place};
    sn_ix z = sn_ix_axis(m, sn_axis_new(m, "z", sn_ix_const(m, 2)));
    sn_ix with[2] = {sn_ix_sub(m, sn_ix_axis(m, axes[0]), sn_ix_scale(m, z, t->step)),
                     sn_ix_add(m, sn_ix_axis(m, axes[1]), sn_ix_scale(m, z, t->apart))};
    return !sn_ix_uses_vals(m, e) && sn_ix_eq(sn_ix_subst(m, e, axes, with, 2), e);
}

/* Is there a way to copy it? */
static bool is_plain(const sn_stmt_rec *r) { return !sn_lop_has_region(r->op) && r->op != SN_LOP_ACCUM; }

static void look_along(looker *l, sn_val v) {
    const sn_stmt_rec *r = sn_stmt_get(l->t->m, sn_val_get(l->t->m, v)->def);
    if (l->refused || !sn_notes_add(&l->seen, v.i)) return;
    l->refused = !is_plain(r) || !stays(l, r->ix) || !stays(l, r->bound);
    for (uint32_t i = 0; i < r->n_in; i++) look_along(l, r->in[i]);
}

/* A load that moves with both. */
static void look_for_load(looker *l, sn_val v) {
    const sn_stmt_rec *r = sn_stmt_get(l->t->m, sn_val_get(l->t->m, v)->def);
    int64_t by, move;
    if (l->load.i || !sn_notes_add(&l->seen, v.i)) return;
    if (r->op == SN_LOP_LOAD && sn_ix_coef(l->t->m, r->ix, l->tap, &by) && by > 0 &&
        sn_ix_coef(l->t->m, r->ix, l->place, &move) && move > 0)
        l->load = sn_val_get(l->t->m, v)->def;
    for (uint32_t i = 0; i < r->n_in; i++) look_for_load(l, r->in[i]);
}

static looker start_looking(const sn_taps *t, uint32_t tap, uint32_t loop) {
    return (looker){.t = t, .seen = {.arena = t->cx->scratch}, .tap = outer_axis(t, tap), .place = inner_axis(t, loop)};
}

/* Do the tap and the loop make a line of the factor? */
static bool make_line(sn_taps *t, sn_val factor, uint32_t tap, uint32_t loop) {
    looker l = start_looking(t, tap, loop);
    int64_t by, move;
    look_for_load(&l, factor);
    if (!l.load.i) return false;
    sn_ix e = sn_stmt_get(t->m, l.load)->ix;
    sn_ix_coef(t->m, e, l.tap, &by);
    sn_ix_coef(t->m, e, l.place, &move);
    int64_t unit = sn_schedule_gcd(by, move);
    t->step = move / unit, t->apart = by / unit;
    t->loop = loop, t->places = t->c.k_extent[loop];
    if (t->step > t->c.extent[tap] || 2 * t->apart > t->places) return false;
    l = start_looking(t, tap, loop);
    look_along(&l, factor);
    return !l.refused;
}

/* What is asked of the other factor: it can be copied. */
static bool can_copy(const sn_taps *t, sn_notes *seen, sn_val v) {
    const sn_stmt_rec *r = sn_stmt_get(t->m, sn_val_get(t->m, v)->def);
    if (!sn_notes_add(seen, v.i)) return true;
    if (!is_plain(r)) return false;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (!can_copy(t, seen, r->in[i])) return false;
    return true;
}

/* ---- axes ---- */

/* Does the load move by one element with the axis? */
static bool walks(const sn_taps *t, sn_stmt load, sn_axis ax) {
    int64_t c;
    return load.i && sn_ix_coef(t->m, sn_stmt_get(t->m, load)->ix, ax, &c) && c == 1;
}

static sn_contraction_side side_of(const sn_taps *t, uint32_t operand) {
    return t->c.operands[operand].right ? SN_SIDE_N : SN_SIDE_M;
}

/* The outer axis of batch along which neighbours of both factors lie; UINT32_MAX: none. */
static uint32_t find_lanes(const sn_taps *t) {
    for (uint32_t i = 0; i < t->c.outer.n; i++) {
        bool both = t->c.side[i] == SN_SIDE_BATCH && t->c.extent[i] > 1;
        for (uint32_t o = 0; o < t->c.n_operands; o++) both &= walks(t, t->c.operands[o].load, outer_axis(t, i));
        if (both) return i;
    }
    return UINT32_MAX;
}

static void name_parts(sn_taps *t, uint32_t operand, uint32_t tap, uint32_t lanes) {
    for (uint32_t p = 0; p < SN_TAPS_PARTS; p++) t->n[p] = 1;
    for (uint32_t i = 0; i < t->c.outer.n; i++) {
        bool moves = t->c.side[i] == side_of(t, operand);
        t->part[i] = i == tap                        ? SN_TAPS_LINE
                     : i == lanes                    ? SN_TAPS_LANES
                     : t->c.side[i] == SN_SIDE_BATCH ? SN_TAPS_BATCH
                     : moves                         ? SN_TAPS_MOVED
                                                     : SN_TAPS_STILL;
        t->n[t->part[i]] = sn_mul_clamped(t->n[t->part[i]], t->c.extent[i]);
    }
}

/* Of all lines the one with most taps: of one across neighbours in memory lanes read these side by side. */
static bool find_line(sn_taps *t) {
    sn_taps best = {0};
    uint32_t lanes = find_lanes(t);
    bool found = false, best_across = false;
    for (uint32_t o = 0; o < t->c.n_operands; o++)
        for (uint32_t tap = 0; tap < t->c.outer.n; tap++)
            for (uint32_t loop = 0; loop < t->c.inner.n; loop++) {
                bool across = lanes != UINT32_MAX || loop + 1 < t->c.inner.n;
                if (t->c.side[tap] != side_of(t, o) || t->c.extent[tap] < 2) continue;
                if (!make_line(t, t->c.operands[o].value, tap, loop)) continue;
                if (found &&
                    (best_across > across || (best_across == across && best.n[SN_TAPS_LINE] >= t->c.extent[tap])))
                    continue;
                t->moved = t->c.operands[o].value, t->still = t->c.operands[1 - o].value;
                name_parts(t, o, tap, lanes);
                best = *t, found = true, best_across = across;
            }
    if (found) *t = best;
    return found;
}

/* ---- costs ---- */

static void add_cost(sn_taps *t, sn_taps_cost *cost, sn_notes *seen, sn_val v) {
    const sn_stmt_rec *r = sn_stmt_get(t->m, sn_val_get(t->m, v)->def);
    if (!sn_notes_add(seen, v.i)) return;
    for (uint32_t i = 0; i < r->n_in; i++) add_cost(t, cost, seen, r->in[i]);
    if (r->op != SN_LOP_LOAD) {
        cost->instructions += sn_schedule_op_cost((sn_lop)r->op);
        return;
    }
    int64_t c, step;
    sn_axis ax = inner_axis(t, t->c.inner.n - 1);
    for (uint32_t i = 0; i < t->c.outer.n; i++)
        if (t->part[i] == SN_TAPS_LANES) ax = outer_axis(t, i);
    if (!sn_ix_coef(t->m, r->ix, ax, &c)) c = SN_LINE;
    step = (c < 0 ? -c : c) * sn_dtype_bytes(r->dtype);
    cost->loads++;
    cost->bytes += (double)sn_buf_bytes(t->m, r->buf);
    if (step > cost->step) cost->step = step;
}

static void count_costs(sn_taps *t) {
    sn_notes moved = {.arena = t->cx->scratch}, still = {.arena = t->cx->scratch};
    t->along = t->n[SN_TAPS_LANES] == 1 && t->loop == t->c.inner.n - 1;
    add_cost(t, &t->of_moved, &moved, t->moved);
    add_cost(t, &t->of_still, &still, t->still);
    for (sn_stmt s = sn_region_first(t->m, t->k, t->c.body); s.i; s = sn_next(t->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(t->m, s);
        if (sn_stores(r)) t->stored += (double)sn_buf_bytes(t->m, r->buf);
    }
}

/* ---- the kernel ---- */

/* What stands behind the sum is stored, and can be copied. */
static bool can_copy_rest(const sn_taps *t) {
    for (sn_stmt s = sn_region_first(t->m, t->k, t->c.body); s.i; s = sn_next(t->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(t->m, s);
        if (s.i == t->c.top.i) continue;
        if (!is_plain(r) || (sn_stores(r) && (r->op != SN_LOP_STORE || sn_kern_loads(t->m, t->k, r->buf))))
            return false;
    }
    return true;
}

bool sn_taps_find(sn_taps *out, const char **why_not, sn_pass_ctx *cx, sn_kern k) {
    *out = (sn_taps){.cx = cx, .m = cx->m, .k = k};
    const sn_contraction *c = &out->c;
    sn_notes seen = {.arena = cx->scratch};
    if (!sn_contraction_find(&out->c, why_not, cx, k)) return false;
    *why_not = "it is no sum of products of two factors in f32";
    if (c->n_products != 1 || c->n_states != 1 || c->n_operands != 2 || c->dtype != SN_F32) return false;
    for (uint32_t o = 0; o < c->n_operands; o++)
        if (sn_val_get(cx->m, c->operands[o].value)->dtype != SN_F32) return false;
    *why_not = "its sums are not longer than they are many";
    if (c->k <= sn_mul_clamped(c->m, c->n)) return false;
    *why_not = "no factor moves on with a tap as with a step of the sum";
    if (!find_line(out)) return false;
    *why_not = "what it is made of cannot be computed elsewhere";
    if (!can_copy(out, &seen, out->still) || !can_copy_rest(out)) return false;
    count_costs(out);
    return true;
}

bool sn_schedule_window_taps_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_taps t;
    (void)sh;
    *why_not = "it is for GPUs";
    return cx->target->is_gpu && sn_taps_find(&t, why_not, cx, k);
}

/* ---- tiles ---- */

bool sn_taps_measure(sn_taps_tile *out, const sn_taps *t, const sn_sched *sc) {
    bool lanes = t->n[SN_TAPS_LANES] > 1;
    *out = (sn_taps_tile){.run = sc->unroll, .taps = sc->tile_k, .moved = sc->tile_n, .still = sc->tile_m};
    if (!sc->unroll || !sc->tile_k || !sc->tile_n || !sc->tile_m || !sc->block_x || !sc->block_y) return false;
    if (out->run > t->places || out->taps > t->n[SN_TAPS_LINE] || out->taps < t->step) return false;
    if (out->moved > t->n[SN_TAPS_MOVED] || out->still > t->n[SN_TAPS_STILL] || out->run > SN_TAPS_RUN) return false;
    if (!lanes && sc->block_x != SN_WARP) return false;
    if (sn_mul_clamped(sn_mul_clamped(out->taps, out->moved), out->still) > SN_TAPS_SUMS) return false;
    out->sums = out->taps * out->moved * out->still;
    out->elements = t->step * (out->run - 1) + out->taps;
    out->lanes = sc->block_x, out->rows = sc->block_y;
    out->sharing = lanes ? out->rows : out->rows * out->lanes;
    out->results = out->sums * (lanes ? out->lanes : 1);
    out->blocks[SN_TAPS_BATCH] = t->n[SN_TAPS_BATCH];
    out->blocks[SN_TAPS_LANES] = lanes ? sn_ceil_div(t->n[SN_TAPS_LANES], out->lanes) : 1;
    out->blocks[SN_TAPS_LINE] = sn_ceil_div(t->n[SN_TAPS_LINE], out->taps);
    out->blocks[SN_TAPS_MOVED] = sn_ceil_div(t->n[SN_TAPS_MOVED], out->moved);
    out->blocks[SN_TAPS_STILL] = sn_ceil_div(t->n[SN_TAPS_STILL], out->still);
    out->chunks = sn_ceil_div(t->places, out->run * t->apart) * t->apart;
    out->positions = sn_mul_clamped(t->c.k / t->places, out->chunks);
    int64_t parts = sc->split ? sc->split : 1, threads = sn_mul_clamped(parts, out->sharing);
    out->turns = sn_ceil_div(out->positions, threads);
    out->each = out->turns * out->sharing;
    out->parts = sn_ceil_div(out->positions, out->each);
    return out->lanes * out->rows <= t->cx->target->max_threads;
}

/* ---- cycles of a multiprocessor ---- */

/* Lines of memory that an access of a warp asks the nearest cache for, on average of where it begins. */
static double lines_of(const sn_taps *t, const sn_taps_tile *p, const sn_taps_cost *cost) {
    double reach = (double)SN_WARP * (double)cost->step * (t->along ? (double)p->run : 1);
    return cost->loads * fmin(SN_WARP, 1 + reach / SN_LINE);
}

static double instructions_of(const sn_taps_cost *cost) {
    return cost->instructions + cost->loads * (1 + SN_TAPS_LOAD);
}

/* What a thread does for a chunk, and for its sums in the end. */
typedef struct work {
    double instructions, lines, end, written, regs;
} work;

static work work_of(const sn_taps *t, const sn_taps_tile *p) {
    work o;
    double run = (double)p->run, elements = (double)(p->moved * p->elements), still = (double)p->still * run;
    bool lanes = t->n[SN_TAPS_LANES] > 1;
    o.written = (double)p->sums * run;
    o.instructions =
        SN_WINDOW_BEGIN + o.written + elements * instructions_of(&t->of_moved) + still * instructions_of(&t->of_still);
    o.lines = elements * lines_of(t, p, &t->of_moved) + still * lines_of(t, p, &t->of_still);
    o.end = (double)p->sums * (lanes ? 2 : SN_TAPS_MEET) +
            (double)sn_ceil_div(p->results, p->lanes * p->rows) * (SN_WINDOW_PASS + 2 * (double)p->rows);
    o.regs = SN_TAPS_REGS + (double)p->sums + still + (double)p->elements;
    return o;
}

static int64_t shared_bytes(const sn_taps_tile *p) { return p->rows * p->results * sn_dtype_bytes(SN_F32); }

static sn_window_count count_tile(const sn_taps *t, const sn_taps_tile *p) {
    const sn_target *g = t->cx->target;
    work o = work_of(t, p);
    double threads = (double)(p->lanes * p->rows), turns = (double)p->turns, blocks = (double)p->parts;
    for (uint32_t i = 0; i < SN_TAPS_PARTS; i++) blocks *= (double)p->blocks[i];
    double fit = sn_window_fit(g, threads, ceil(o.regs / 8) * 8, (double)shared_bytes(p));
    if (fit < 1 || o.written > SN_WINDOW_CODE) return (sn_window_count){0};
    double each = ceil(blocks / g->units), thread = o.instructions * turns + o.end;
    double again = t->of_moved.bytes * (double)p->blocks[SN_TAPS_STILL] +
                   t->of_still.bytes * (double)(p->blocks[SN_TAPS_MOVED] * p->blocks[SN_TAPS_LINE]);
    double memory = (t->of_moved.bytes + t->of_still.bytes + t->stored) / g->units / g->cycle_bytes;
    double parts[] = {memory, again / g->units / SN_CONTRACT_CACHE, each * thread * threads / SN_ISSUES,
                      each * o.lines * turns * threads / SN_WARP, each * SN_WINDOW_START};
    double alone = turns * SN_CONTRACT_LATENCY + thread * SN_WINDOW_PACE / 100;
    double cycles = fmax(sn_window_beside(parts, SN_COUNT(parts), fit), ceil(each / fit) * alone);
    double gather = (double)(p->parts * p->results) * sn_dtype_bytes(SN_F32) / SN_PRODUCT_FETCH;
    return (sn_window_count){p->parts == 1 ? cycles : cycles + SN_PRODUCT_SHARE + gather, fit};
}

/* Of all terms, of so many instructions each. */
static double term_cycles(const sn_taps *t, double each) {
    double terms = (double)t->c.k;
    for (uint32_t i = 0; i < SN_TAPS_PARTS; i++) terms *= (double)t->n[i];
    return terms * each / SN_ISSUES / t->cx->target->units;
}

/* Term by term, as rows of a reduction do it. */
static double row_cycles(const sn_taps *t) {
    double loads = t->of_moved.loads + t->of_still.loads;
    double each = 1 + SN_WINDOW_TAP + t->of_moved.instructions + t->of_still.instructions + loads;
    return term_cycles(t, each) * SN_TAPS_ROWS / 100;
}

/* By threads that have all of the few rows: they load an element of the long factor for each tap, which goes into as many terms as there are
 * rows, and one of the short one for each of the columns that they have. */
static double product_cycles(const sn_taps *t, const sn_sched_list *rows) {
    sn_contract_rows r;
    const char *why_not;
    if (!sn_contract_rows_find(&r, &why_not, t->cx, t->k)) return rows->cycles;
    bool moved = t->n[SN_TAPS_LINE] * t->n[SN_TAPS_MOVED] > t->n[SN_TAPS_STILL];
    double groups = fmax(1, sn_contract_rows_groups(&r, &rows->at[0]));
    double longer = instructions_of(moved ? &t->of_moved : &t->of_still);
    double shorter = instructions_of(moved ? &t->of_still : &t->of_moved);
    return fmax(rows->cycles, term_cycles(t, 1 + longer / (double)r.c.m + shorter / groups));
}

/* By tiles, whose operands threads bring element by element where a mask tells the borders. */
static double tile_cycles(const sn_taps *t, const sn_sched_list *tiles) {
    bool masked = sn_contraction_is_masked(t->m, &t->c);
    return tiles->cycles * (masked && tiles->at[0].threads ? SN_TAPS_TILES / 100.0 : 1);
}

/* ---- headers ---- */

enum { MOST_RUNS = 12, MOST_PIECES = 8, MOST_SPLIT = 64 };

/* The largest one below `limit` of what equal parts of n have; 0: there is none. Lines may be long: parts are not tried one by one. */
static int64_t piece_below(int64_t n, int64_t limit) {
    return n > 0 && limit > 1 ? sn_ceil_div(n, sn_ceil_div(n, limit - 1)) : 0;
}

/* Equal pieces of n. */
static sn_window_options piece_options(int64_t n, int64_t most, uint32_t pinned) {
    sn_window_options o = {0};
    for (int64_t x = piece_below(n, most + 1); x && o.n < MOST_PIECES && !pinned; x = piece_below(n, x))
        sn_window_add_option(&o, x);
    sn_window_add_option(&o, pinned);
    return o;
}

/* Runs that divide the line, and some that do not. */
static sn_window_options run_options(const sn_taps *t, uint32_t pinned) {
    sn_window_options o = {0};
    int64_t all = sn_ceil_div(t->places, t->apart), most = all < SN_TAPS_RUN ? all : SN_TAPS_RUN;
    for (int64_t x = most; x >= 1 && o.n < MOST_RUNS && !pinned; x--)
        if (t->places % (x * t->apart) == 0) sn_window_add_option(&o, x);
    for (int64_t x = piece_below(all, most + 1); x && o.n < MOST_RUNS && !pinned; x = piece_below(all, x))
        sn_window_add_option(&o, x);
    sn_window_add_option(&o, pinned);
    return o;
}

static sn_window_count count(void *of, const sn_sched *sc) {
    sn_taps_tile p;
    return sn_taps_measure(&p, of, sc) ? count_tile(of, &p) : (sn_window_count){0};
}

static void consider(sn_window_choice *c, sn_sched sc) {
    sn_taps_tile p;
    int64_t last = 0;
    for (int64_t split = 1; split <= MOST_SPLIT; split += sn_ceil_div(split, 4)) {
        sc.split = c->pinned->split ? c->pinned->split : (uint32_t)split;
        if (!sn_taps_measure(&p, c->of, &sc)) return;
        if (!c->pinned->split) sc.split = (uint32_t)p.parts; /* as many as have something to do */
        if (p.parts != last) sn_window_consider(c, &sc);
        if (c->pinned->split || p.turns == 1) return;
        last = p.parts;
    }
}

static void consider_threads(sn_window_choice *c, sn_sched sc) {
    const sn_taps *t = c->of;
    int64_t lanes = t->n[SN_TAPS_LANES], x = lanes > 1 ? sn_least(SN_WARP, sn_pow2_ceil(lanes)) : SN_WARP;
    sc.block_x = c->pinned->block_x ? c->pinned->block_x : (uint32_t)x;
    for (int64_t threads = SN_TAPS_THREADS; threads >= SN_TAPS_THREADS / 4; threads /= 2) {
        sc.block_y = c->pinned->block_y ? c->pinned->block_y : (uint32_t)(threads / sc.block_x);
        consider(c, sc);
        if (c->pinned->block_y) return;
    }
}

static void consider_all(sn_window_choice *c) {
    const sn_taps *t = c->of;
    sn_sched sc = *c->pinned;
    sc.cls = SN_SCHED_TAPS;
    sn_window_options taps = piece_options(t->n[SN_TAPS_LINE], SN_TAPS_SUMS, c->pinned->tile_k);
    sn_window_options moved = piece_options(t->n[SN_TAPS_MOVED], SN_TAPS_SUMS, c->pinned->tile_n);
    sn_window_options still = piece_options(t->n[SN_TAPS_STILL], SN_TAPS_SUMS, c->pinned->tile_m);
    sn_window_options runs = run_options(t, c->pinned->unroll);
    for (uint32_t i = 0; i < taps.n; i++)
        for (uint32_t j = 0; j < moved.n; j++)
            for (uint32_t k = 0; k < still.n; k++)
                for (uint32_t l = 0; l < runs.n; l++) {
                    if (taps.at[i] * moved.at[j] * still.at[k] > SN_TAPS_SUMS) break;
                    sc.tile_k = (uint32_t)taps.at[i], sc.tile_n = (uint32_t)moved.at[j];
                    sc.tile_m = (uint32_t)still.at[k], sc.unroll = (uint32_t)runs.at[l];
                    consider_threads(c, sc);
                }
}

/* The classes that are asked next, of which the first has the kernel: products of few rows, or by tiles. */
static sn_status other_cycles(double *out, const sn_taps *t, const sn_schedule_shape *sh, const sn_sched *pinned) {
    sn_sched_list rows = {0}, tiles = {0};
    const char *why_not;
    sn_pass_ctx quiet = *t->cx;
    quiet.remark = NULL;
    if (sn_schedule_contract_rows_applies(&why_not, &quiet, t->k, sh))
        SN_TRY(sn_schedule_contract_rows_candidates(&rows, &quiet, t->k, sh, pinned));
    if (!rows.n && sn_schedule_contract_applies(&why_not, &quiet, t->k, sh))
        SN_TRY(sn_schedule_contract_candidates(&tiles, &quiet, t->k, sh, pinned));
    *out = rows.n ? product_cycles(t, &rows) : tiles.n ? tile_cycles(t, &tiles) : row_cycles(t);
    return SN_OK;
}

sn_status sn_schedule_window_taps_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k,
                                             const sn_schedule_shape *sh, const sn_sched *pinned) {
    sn_taps t;
    const char *why_not, *name = sn_kern_get(cx->m, k)->name;
    sn_window_choice c = {.of = &t, .pinned = pinned, .count = count};
    double other = 0;
    if (!sn_taps_find(&t, &why_not, cx, k)) return SN_OK;
    consider_all(&c);
    if (!c.cycles && pinned->cls)
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT, "kernel %s: there are no sums for taps as its schedule says",
                       name);
    if (!c.cycles) return SN_OK;
    if (!pinned->cls) SN_TRY(other_cycles(&other, &t, sh, pinned));
    if (!pinned->cls) sn_remark(cx, name, "sums for taps: %.0f cycles; otherwise: %.0f", c.cycles, other);
    if (!pinned->cls && c.cycles * 100 > other * SN_WINDOW_GAIN) return SN_OK;
    sn_schedule_propose(out, cx, &c.best);
    out->cycles = c.cycles;
    return SN_OK;
}
