/* scan_tiles.c: a scan is done tile by tile in shared memory (the pass `split-scan`, split_scan.c).
 *
 *     loop c in 3 { loop r in 100000 { load x[3*r + c]  %1 = accum sum %0 over r  store y[3*r + c], %1 } }
 *
 *  -> loop g in 76 : grid {                                    a part of 1320 steps, which is 3960 neighbours in memory
 *       loop x in 256 : block.x { loop u in 4 : unroll { loop v in 4 : vector { load x[..]  store k_s0[..] } } }
 *       loop x in 256 : block.x { %0 = reduce sum u in 11 { load k_s0[33*(x div 3) + 3*u + (x mod 3)] }  store k_t0[x], %0 }
 *       ...                                                    what the pieces before, and the parts before, come to
 *       loop x in 256 : block.x { loop u in 11 { load k_s0[..]  %1 = accum sum %0 over u  %2 = add %3, %1  store k_s0[..], %2 } }
 *       loop x in 256 : block.x { loop u in 4 : unroll { loop v in 4 : vector { load k_s0[..]  store y[..] } } } }
 *
 * A tile is copied as it lies in memory, in the widest pieces, whatever the scan's steps are apart; no register holds it,
 * so that a multiprocessor has as many bytes under way as its shared memory has room for. A thread has a piece of a
 * column: a run of steps. Lanes have neighbouring columns and, where these are less than a warp, pieces of an odd number
 * of steps, which lie in different banks, or, of whole rows, neighbouring rows, where less of them meet in a bank so.
 *
 * Tiles are of four kinds: parts of rows of few neighbours, in one piece of memory; parts of some columns of rows of many,
 * a line of memory for each step (what comes out of them is stored as it is made, but for halves of steps that begin
 * anywhere); the same one behind the other, where a block walks its columns from end to end; and several whole rows. The
 * last two wait for nobody. Where lines begin anywhere a tile has some columns of the one beside it, so that both store whole
 * sectors. The sums of other parts pass from block to block as those of scan_columns.c do. Parts of long
 * rows of one column are warps' (scan_warps.c).
 *
 *     loop g in 1990 : grid {                                   256 columns, each of which is a thread's
 *       loop x in 256 : block.x { store k_c0[x], 0 }
 *       loop p in 6 : seq pipe(3) {                             16 steps of them; the next ones are under way
 *         loop x in 256 : block.x bulk { .. load x[..]  store k_s0[..] }
 *         barrier
 *         loop x in 256 : block.x { %0 = load k_c0[x]  loop u in 16 : unroll {
 *           load k_s0[..]  %1 = accum sum .. over u  %2 = add %0, %1  store k_c0[x], %2  store y[..], %2 } } } }
 *
 * Legal where split-scan is, for scans that load and store a place of the same number in each buffer, one behind the other
 * in the order of the outer loops, and scalars. Which sums go together follows from numbers alone. The kernel is scheduled as it is
 * made. Cost: linear in the kernel.
 */
#include "passes/loops/scan_tiles.h"
#include "passes/schedule/base/constants.h"
#include "passes/schedule/base/figures.h"

#include <math.h>

/* ---- what the scan accesses ---- */

static bool uses_axes(const sn_tiles *t, sn_stmt s) {
    const sn_scan_cut *c = t->c;
    for (uint32_t i = 0; i < c->outer.n; i++)
        if (sn_stmt_uses_axis(t->m, s, sn_stmt_axis(t->m, c->outer.at[i]))) return true;
    return sn_stmt_uses_axis(t->m, s, sn_stmt_axis(t->m, c->nest));
}

/* The same place in each buffer; scalars are loaded besides. */
static bool find_accesses(sn_tiles *t) {
    sn_module *m = t->m;
    uint32_t stores = 0;
    for (sn_stmt s = sn_stmt_get(m, t->c->nest)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_is_access(r)) continue;
        if (sn_ix_uses_vals(m, r->ix) || r->has_mask) return false;
        if (sn_loads(r) && !uses_axes(t, s)) continue;
        if (r->op != SN_LOP_LOAD && r->op != SN_LOP_STORE) return false;
        if (t->dense.i && !sn_ix_eq(t->dense, r->ix)) return false;
        t->dense = r->ix;
        uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        if (!t->least || bytes < t->least) t->least = bytes;
        if (sn_stores(r)) {
            t->to = r->buf;
            stores++;
        } else {
            if (t->n_loads == SN_TILE_LOADS) return false;
            t->from[t->n_loads++] = r->buf;
            t->bytes += bytes;
        }
    }
    return stores == 1 && t->n_loads;
}

/* Nothing but the scan in the loops around it depends on where they are. */
static bool find_rest(const sn_tiles *t) {
    const sn_scan_cut *c = t->c;
    sn_stmt body = c->outer.n ? c->outer.at[c->outer.n - 1] : (sn_stmt){0};
    for (sn_stmt s = sn_region_first(t->m, t->k, body); s.i; s = sn_next(t->m, s))
        if (s.i != c->nest.i && uses_axes(t, s)) return false;
    return true;
}

/* Rows, steps and neighbours lie in memory as the loops run, without a gap. */
static bool find_order(sn_tiles *t) {
    const sn_scan_cut *c = t->c;
    sn_module *m = t->m;
    sn_axis ax = sn_stmt_axis(m, c->nest);
    int64_t step, coef, run, first;
    if (!sn_ix_coef(m, t->dense, ax, &step) || !(t->inner = sn_scan_run(c, t->dense, &t->n_front))) return false;
    t->reverse = step < 0;
    t->length = c->count;
    t->outer = c->rows / t->inner;
    run = t->length * t->inner;
    for (uint32_t i = t->n_front; i-- > 0;) {
        if (!sn_ix_coef(m, t->dense, sn_stmt_axis(m, c->outer.at[i]), &coef) || coef != run) return false;
        run *= sn_ix_value(m, sn_stmt_extent(m, c->outer.at[i]));
    }
    sn_axis from[SN_MAX_CHAIN + 1];
    sn_ix to[SN_MAX_CHAIN + 1];
    for (uint32_t i = 0; i <= c->outer.n; i++) {
        from[i] = i < c->outer.n ? sn_stmt_axis(m, c->outer.at[i]) : ax;
        to[i] = sn_ix_const(m, 0);
    }
    sn_ix start = sn_ix_subst(m, t->dense, from, to, c->outer.n + 1);
    return sn_ix_is_const(m, start, &first) && first == (t->reverse ? (t->length - 1) * t->inner : 0);
}

/* ---- the shape of a tile ---- */

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

static int64_t odd_below(int64_t x) { return x % 2 ? x : x - 1; }

/* Elements of a tile. */
static int64_t tile_of(const sn_tiles *t) {
    int64_t n = sn_least(t->c->cx->target->shared_bytes / SN_CUT_TILE_BLOCKS, SN_CUT_TILE_BYTES) / t->bytes;
    return n < SN_CUT_TILE_MOST ? n : SN_CUT_TILE_MOST;
}

/* How many rows, columns, .. of so many elements begin where widest vectors do. */
static int64_t whole_vectors(const sn_tiles *t, int64_t elements) {
    int64_t widest = sn_least(t->c->cx->target->vector_bytes / t->least, SN_CUT_LANES);
    return widest / common_divisor(widest, elements);
}

/* Elements of a tile of whole rows, which nobody waits for: shorter ones begin, and end, earlier. */
static int64_t short_tile(const sn_tiles *t) {
    int64_t n = SN_CUT_TILE_WHOLE / t->bytes;
    return n < tile_of(t) ? n : tile_of(t);
}

static void narrow_vector(sn_tiles *t, int64_t elements) {
    while (elements % t->vector) t->vector /= 2;
}

/* Lanes of which a bank is asked at a time: elements of 8 bytes take two turns. */
static int64_t lanes_at_a_time(const sn_tiles *t) { return t->least > SN_BANK ? SN_WARP / 2 : SN_WARP; }

/* How many of `lanes` that begin with thread `first` meet in a bank when each takes a step of its piece: those that want the same word do not. */
static uint32_t lanes_that_meet(const sn_tiles *t, int64_t first, int64_t lanes) {
    int64_t wide = t->least > SN_BANK ? t->least : SN_BANK, banks = SN_LINE / wide, words[SN_WARP];
    uint32_t most = 1, in_bank[SN_WARP] = {0};
    for (int64_t l = 0; l < lanes; l++) {
        int64_t x = first + l, rest = x / t->width, row = t->across ? rest % t->batch : rest / t->pieces,
                piece = t->across ? rest / t->batch : rest % t->pieces,
                e = row * t->pitch + piece * t->steps * t->width + x % t->width;
        words[l] = e * t->least / wide;
        bool known = false;
        for (int64_t i = 0; i < l; i++) known |= words[i] == words[l];
        uint32_t n = known ? 0 : ++in_bank[words[l] % banks];
        if (n > most) most = n;
    }
    return most;
}

/* The same of the first ones. */
static uint32_t lanes_in_a_bank(const sn_tiles *t) { return lanes_that_meet(t, 0, lanes_at_a_time(t)); }

/* Rows are so far apart in shared memory that lanes meet in few banks, if pieces as narrow as words will do for copies. */
static void choose_pitch(sn_tiles *t) {
    int64_t word = SN_BANK > t->least ? SN_BANK / t->least : 1, best = t->pitch, of_row = t->pitch;
    uint32_t least = lanes_in_a_bank(t);
    if (least <= SN_CUT_TILE_MEET || of_row % word || t->batch == 1) return;
    for (int64_t more = word; more < SN_LINE / t->least; more += word) {
        t->pitch = of_row + more;
        uint32_t n = lanes_in_a_bank(t);
        if (n < least) least = n, best = t->pitch;
    }
    t->pitch = best;
    if (best != of_row && t->vector > word) t->vector = word;
}

/* Rows of a tile, at least, that leave no thread without work. */
static int64_t few_rows(const sn_tiles *t) { return SN_CUT_TILE_THREADS * SN_CUT_TILE_LEAST / (t->length * t->inner); }

/* Rows that a thread has as a whole, one at a time. */
static void choose_short(sn_tiles *t, int64_t all) {
    int64_t of_row = t->length * t->inner, each = SN_CUT_TILE_THREADS / t->inner, units = t->c->cx->target->units;
    each = sn_least(each, t->outer);
    while (each > 1 && each * of_row > short_tile(t)) each /= 2;
    if (each > all) each -= each % all;
    t->pieces = 1;
    t->steps = t->length;
    t->turns = short_tile(t) / (each * of_row);
    while ((t->turns - 1) * each > few_rows(t) && t->outer / (t->turns * each) < SN_CUT_TILE_TURNS * units) t->turns--;
    if (t->turns < 1) t->turns = 1;
    t->batch = t->turns * each;
}

/* Rows of which several threads have pieces. */
static void choose_longer(sn_tiles *t, int64_t all, int64_t tile) {
    int64_t of_row = t->length * t->inner, units = t->c->cx->target->units;
    t->batch = sn_least(sn_least(tile / of_row, SN_CUT_TILE_THREADS / t->inner), t->outer);
    while (t->batch / 2 > few_rows(t) && t->outer / t->batch < SN_CUT_TILE_TURNS * units) t->batch /= 2;
    if (t->batch < 1) t->batch = 1;
    if (t->batch > all) t->batch -= t->batch % all;
    t->pieces = SN_CUT_TILE_THREADS / (t->batch * t->inner);
    t->pieces = sn_least(t->pieces, t->length / SN_CUT_TILE_LEAST);
    if (t->pieces < 1) t->pieces = 1;
    t->steps = sn_ceil_div(t->length, t->pieces);
    if (t->inner < SN_WARP && t->pieces > 1) t->steps += t->least < SN_BANK ? (6 - t->steps % 4) % 4 : 1 - t->steps % 2;
    t->pieces = sn_ceil_div(t->length, t->steps);
    sn_tiles across = *t;
    across.across = true;
    t->across = false;
    if (t->pieces > 1) t->across = lanes_in_a_bank(&across) < lanes_in_a_bank(t);
}

/* The same of halves, of which a thread has little to do in a short tile: a longer one, if that begins with a vector, and as few lanes meet in
 * a bank. */
static void choose_halves(sn_tiles *t, int64_t all) {
    sn_tiles longer = *t;
    choose_longer(&longer, all, tile_of(t));
    bool begins = longer.batch * t->length * t->inner % t->vector == 0;
    if (begins && lanes_in_a_bank(&longer) <= lanes_in_a_bank(t)) *t = longer;
}

/* Several rows in one piece of memory. */
static bool choose_rows(sn_tiles *t) {
    int64_t of_row = t->length * t->inner, all = whole_vectors(t, of_row);
    t->flat = t->whole = true;
    t->rows = t->length;
    t->width = t->inner;
    t->pitch = of_row;
    t->side = t->parts = 1;
    if (t->length < 2 * SN_CUT_TILE_LEAST) choose_short(t, all);
    else choose_longer(t, all, short_tile(t));
    if (t->length >= 2 * SN_CUT_TILE_LEAST && t->least < SN_BANK) choose_halves(t, all);
    t->moved = of_row >= t->vector && t->batch * of_row % t->vector;
    choose_pitch(t);
    if (t->pitch != of_row) t->moved = false;
    if (!t->moved) narrow_vector(t, t->batch * of_row);
    if (t->reverse) t->pad = sn_ceil_div((t->pieces * t->steps - t->length) * t->inner, t->vector) * t->vector;
    return true;
}

/* Lines of as many vectors; where a step does not begin with one, of one more. */
static void choose_lines(sn_tiles *t) {
    t->skewed = t->inner % t->vector != 0;
    t->width = sn_ceil_div(t->width, t->vector) * t->vector;
}

/* Elements of shared memory from line to line. */
static int64_t line_pitch(const sn_tiles *t) { return t->flat ? t->width : t->width + (t->skewed ? t->vector : 0); }

/* Do steps begin anywhere, of elements so small that threads that load one each ask for little? */
static bool is_odd(const sn_tiles *t) { return t->inner % t->vector != 0 && t->least <= SN_BANK; }

/* Are whole columns, of steps that begin anywhere, lines in a tile, with all threads? */
static bool are_wide(const sn_tiles *t) {
    int64_t width = tile_of(t) / t->length;
    if (is_odd(t) && t->length >= SN_CUT_TILE_LEAST) width = sn_least(width, t->threads);
    int64_t wide = is_odd(t) && t->least < SN_BANK ? SN_CUT_TILE_WIDE_HALVES : SN_CUT_TILE_WIDE;
    return t->inner % t->vector && width <= t->threads && width * t->least >= wide * SN_LINE;
}

/* Tiles side by side of so many columns. */
static void choose_side(sn_tiles *t, int64_t columns) {
    t->side = sn_ceil_div(t->inner, columns);
    t->width = sn_ceil_div(t->inner, t->side);
}

/* The same, with some columns of the next tile where lines begin anywhere, so that both store whole sectors. */
static void choose_sectors(sn_tiles *t, int64_t columns) {
    int64_t sector = SN_SECTOR / t->least;
    bool whole = t->inner % t->vector == 0 || columns >= t->inner;
    choose_side(t, whole ? columns : sn_ceil_div(columns, sector) * sector);
    if (whole) return;
    t->over = sector;
    t->width = (sn_ceil_div(t->width, sector) + 1) * sector;
}

/* Some columns from end to end. */
static bool choose_columns(sn_tiles *t) {
    int64_t line = sn_least(t->least * SN_WARP, SN_LINE) / t->least;
    t->threads = SN_CUT_TILE_THREADS;
    t->flat = false;
    t->batch = 1;
    t->width = sn_least(tile_of(t) / t->length / line * line, t->threads);
    if (t->width < line) t->width = line;
    t->side = sn_ceil_div(t->inner, t->width);
    if (is_odd(t) && t->least < SN_BANK) choose_side(t, t->width);
    t->pieces = sn_least(t->threads / t->width, sn_ceil_div(t->length, SN_CUT_TILE_LEAST));
    t->steps = sn_ceil_div(t->length, t->pieces);
    t->pieces = sn_ceil_div(t->length, t->steps);
    choose_lines(t);
    t->rows = t->pieces * t->steps;
    t->pitch = line_pitch(t);
    t->parts = 1;
    return true;
}

/* Elements of a line of a tile. Where steps begin anywhere two lines of memory have fewer ends; but columns of many parts, whose sums
 * are read by others, have longer parts where lines are short. */
static int64_t line_of(const sn_tiles *t) {
    int64_t wide = 2 * SN_LINE / t->least;
    bool begins = t->inner % t->vector == 0;
    return begins || t->length / (tile_of(t) / wide) > SN_CUT_TILE_PARTS ? wide / 2 : wide;
}

/* Parts whose sums are combined at a time: pieces of a column ask for some of them each, all at once. Few pieces have registers for few. */
static int64_t group_of(const sn_tiles *t) {
    if (t->width >= SN_WARP) return SN_CUT_COLUMN_GROUP;
    return sn_least(SN_CUT_GROUP, sn_least(t->pieces, SN_WARP) * SN_CUT_TILE_WORDS);
}

/* Steps of a piece of a tile that is one piece of memory: of as many as there is room for down to an eighth less, those with which fewest lanes meet
 * in a bank. Every tile begins with a vector. */
static void choose_steps(sn_tiles *t, int64_t all) {
    int64_t threads = t->pieces * t->width, most = t->steps, best = most,
            less = most / 8 < all - 1 ? all - 1 : most / 8;
    uint32_t least = UINT32_MAX;
    for (t->steps = most; t->steps > 0 && t->steps >= most - less; t->steps--) {
        uint32_t n = 0;
        if (t->pieces * t->steps % all) continue;
        for (int64_t x = 0, lanes; x < threads; x += lanes) {
            lanes = threads - x < lanes_at_a_time(t) ? threads - x : lanes_at_a_time(t);
            n += lanes_that_meet(t, x, lanes);
        }
        if (n < least) least = n, best = t->steps;
    }
    t->steps = best;
}

/* A part of a row, or of some columns of one. */
static bool choose_part(sn_tiles *t) {
    const sn_scan_cut *c = t->c;
    int64_t units = c->cx->target->units, threads;
    t->flat = t->inner * t->least <= 2 * SN_LINE;
    t->batch = 1;
    int64_t line = t->flat ? t->inner : line_of(t);
    if (is_odd(t) && t->least == SN_BANK && line < t->inner) choose_sectors(t, line - SN_SECTOR / t->least);
    else choose_side(t, line);
    if (!t->flat) choose_lines(t);
    for (threads = t->threads = SN_CUT_TILE_THREADS; threads >= SN_CUT_TILE_THREADS / 2; threads -= SN_WARP)
        if (threads / t->width * t->width * t->threads > t->threads / t->width * t->width * threads)
            t->threads = threads;
    t->pieces = t->threads / t->width;
    if (!t->pieces) return false;
    int64_t all = t->flat ? whole_vectors(t, t->inner) : t->skewed ? t->vector : 1;
    bool odd = !t->skewed && t->width < SN_WARP;
    if (odd && t->pieces >= all) t->pieces -= t->pieces % all;
    int64_t few = SN_CUT_TILE_TURNS * units, each = t->outer * t->side;
    t->steps = tile_of(t) / (t->pieces * line_pitch(t));
    while (t->steps >= 2 * SN_CUT_TILE_LEAST && each * (t->length / (t->pieces * t->steps)) < few) t->steps /= 2;
    t->group = group_of(t);
    if ((t->warps = sn_tile_by_warps(t))) return t->parts > 1;
    if (t->inner == 1) return false;
    if (t->flat) choose_steps(t, all);
    else t->steps = odd ? odd_below(t->steps) : t->steps >= all ? t->steps - t->steps % all : t->steps;
    if (t->steps < SN_CUT_TILE_LEAST - 1) return false;
    t->rows = t->pieces * t->steps;
    t->pitch = t->rows * t->width;
    t->parts = sn_ceil_div(t->length, t->rows);
    if (t->flat) narrow_vector(t, t->rows * t->inner);
    if (t->flat && t->outer > 1) narrow_vector(t, t->length * t->inner);
    if (!t->flat) t->pitch = line_pitch(t);
    int64_t words = sn_mul_clamped(t->parts, c->rows);
    return t->parts > 1 && words <= SN_CUT_COLUMN_WORDS && t->parts <= t->group * t->group * t->group;
}

/* The shape of a tile of a walk by so many blocks of a multiprocessor at a time, of which all multiprocessors take so many turns. */
static bool choose_walk_of(sn_tiles *t, int64_t resident, int64_t turns, int64_t longer) {
    int64_t room = t->c->cx->target->shared_bytes + SN_CUT_TILE_RESERVED;
    int64_t sides = resident * turns * t->c->cx->target->units / t->outer;
    t->flat = false;
    t->batch = t->pieces = 1;
    choose_sectors(t, sn_ceil_div(t->inner, sides > 1 ? sides : 1));
    choose_lines(t);
    t->threads = sn_ceil_div(t->width, SN_WARP) * SN_WARP;
    if (t->threads * resident > SN_CUT_WALK_THREADS || t->threads > SN_CUT_WALK_BLOCK) return false;
    if (t->width * t->least < SN_LINE) return false;
    t->pitch = line_pitch(t);
    t->rows = t->steps = longer * SN_CUT_WALK_PIECE / t->bytes;
    if (t->length / t->steps < SN_CUT_WALK_LEAST) return false;
    t->parts = sn_ceil_div(t->length, t->steps);
    if (t->parts > SN_CUT_WALK_MOST) return false;
    t->resident = resident;
    t->stages = (room / resident - SN_CUT_TILE_RESERVED) / (sn_tile_staged(t) * t->bytes);
    if (t->stages > SN_MAX_PIPE) t->stages = SN_MAX_PIPE;
    return t->stages >= SN_CUT_WALK_STAGES;
}

/* What a walk leaves of memory's time for what it has to move: multiprocessors have no block in the last turn; columns of the next block are
 * loaded twice; parts may be too few to keep memory busy; and the first one of each turn is waited for. */
static double walk_share(const sn_tiles *t) {
    const sn_target *target = t->c->cx->target;
    double turns = (double)(t->outer * t->side) / (double)(target->units * t->resident), all = ceil(turns);
    double own = (double)sn_tile_apart(t) / (double)t->width;
    double memory = 2.0 * (double)(t->c->rows * t->length * t->bytes) / (double)target->units / target->cycle_bytes;
    double share = turns / all * own / (1 + all * SN_CUT_WALK_BEGINS / memory);
    double under_way = (double)((t->stages - 1) * t->resident * sn_tile_staged(t) * t->bytes) / target->flight_bytes;
    return under_way < 1 ? share * under_way : share;
}

/* Columns of steps that begin anywhere, or so few of f64 and i64 that threads load too little: a block walks some of them from end to end, part by part,
 * with the next parts under way. So memory is asked for whole vectors, and nobody waits for others. All multiprocessors have as many, as far as that goes:
 * columns of a block are as many as leave none of them idle in the last turn. */
static bool choose_walk(sn_tiles *t) {
    bool begins = t->inner % t->vector == 0;
    if (begins && (t->least <= SN_BANK || t->c->rows > (int64_t)SN_CUT_WALK_FEW * t->c->cx->target->units))
        return false;
    sn_tiles best = *t;
    double most = 0;
    for (int64_t resident = 1; resident <= SN_CUT_WALK_THREADS / SN_WARP; resident++)
        for (int64_t turns = 1; turns <= SN_CUT_WALK_TURNS; turns++)
            for (int64_t longer = 1; longer <= 2; longer++) {
                sn_tiles o = *t;
                if (!choose_walk_of(&o, resident, turns, longer)) continue;
                double share = walk_share(&o);
                if (share > most) most = share, best = o;
            }
    if (most < SN_CUT_WALK_SHARE / 100.0) return false;
    *t = best;
    return true;
}

/* Has a block room for the tile, and for the sums of pieces? */
static bool has_room(const sn_tiles *t) {
    int64_t sums = 0;
    for (uint32_t i = 0; i < t->c->n; i++) sums += 3 * t->threads * sn_dtype_bytes(sn_tile_dtype(t, i));
    return sn_mul_clamped(sn_tile_staged(t), t->bytes) + sums <= (int64_t)t->c->cx->target->shared_bytes;
}

/* Do columns keep memory busy alone? Those of odd steps, of which threads load one element each, do not where several steps are a piece of
 * memory, nor where threads of words are so many that each loads few steps ahead. */
static bool columns_suffice(const sn_tiles *t) {
    int64_t line = 2 * SN_LINE / t->least, part = tile_of(t) / line;
    bool words = t->inner % 2 && t->least == SN_BANK,
         many = t->c->rows > (int64_t)SN_SCAN_FEW * t->c->cx->target->units;
    if (is_odd(t) && t->inner <= line) return false;
    if (is_odd(t) && words && many && t->length >= SN_CUT_TILE_SEVERAL * part) return false;
    return t->c->rows >= t->c->cx->target->units * SN_CUT_RESIDENT / 2 || sn_scan_columns_suffice(t->c);
}

static bool choose(sn_tiles *t) {
    const sn_scan_cut *c = t->c;
    const sn_sched *pinned = &sn_kern_get(t->m, t->k)->sched;
    if (pinned->cls != SN_SCHED_NONE || pinned->split || pinned->block_x || sn_kern_has_products(t->m, t->k))
        return false;
    if (!find_accesses(t) || !find_rest(t) || !find_order(t)) return false;
    if (t->least == 1) return false; /* vectors of bytes widen to more registers than there are */
    bool same = false;
    for (uint32_t i = 0; i < t->n_loads; i++)
        same |= sn_buf_get(t->m, t->from[i])->dtype == sn_buf_get(t->m, t->to)->dtype;
    if (!same) t->bytes += sn_dtype_bytes(sn_buf_get(t->m, t->to)->dtype);
    t->vector = sn_least(c->cx->target->vector_bytes / t->least, SN_CUT_LANES);
    t->threads = SN_CUT_TILE_THREADS;
    bool narrow = t->inner * t->least < SN_LINE;
    int64_t of_row = sn_mul_clamped(t->length, t->inner * t->bytes);
    if (sn_mul_clamped(of_row, t->outer) < SN_CUT_TILE_WORTH) return false;
    bool aligned = t->length * t->least % c->cx->target->vector_bytes == 0;
    if (t->inner == 1 && sn_warp_scans(t->length, (uint32_t)t->least, t->vector)) return false;
    if (of_row <= SN_CUT_TILE_ROW && t->inner == 1 && (t->length <= SN_FLAT_ALONE ? !t->reverse : aligned))
        return false;
    bool few = t->outer < 2 * c->cx->target->units && t->length >= SN_CUT_LENGTH;
    if (t->inner == 1 && t->outer > 1 && of_row > SN_CUT_TILE_ROW && !few)
        return false; /* a row is a block's own (class inner) */
    bool rows = of_row <= SN_CUT_TILE_ROW;
    if (rows && (narrow || (is_odd(t) && t->inner <= t->threads))) return choose_rows(t);
    if (rows && (!is_odd(t) || t->least == SN_BANK)) return false;
    if (!narrow && are_wide(t)) return choose_columns(t);
    if (rows) return false;
    if (!narrow && columns_suffice(t)) return choose_walk(t);
    if (!narrow && t->inner % t->vector && choose_walk(t)) return true;
    return choose_part(t);
}

static bool look(sn_tiles *t) { return choose(t) && has_room(t); }

/* Blocks that a multiprocessor has room for. */
static uint32_t blocks_of(const sn_tiles *t) {
    bool wide = !t->flat;
    for (uint32_t i = 0; i < t->c->n; i++) wide |= sn_dtype_bytes(sn_tile_dtype(t, i)) > 4;
    int64_t room = t->c->cx->target->shared_bytes + SN_CUT_TILE_RESERVED;
    int64_t by_memory = room / (t->shared + SN_CUT_TILE_RESERVED);
    int64_t by_threads = (wide ? SN_CUT_TILE_FEWER : SN_CUT_TILE_RESIDENT) / t->threads;
    return (uint32_t)(by_memory < by_threads ? by_memory : by_threads);
}

bool sn_scan_tiles(sn_scan_cut *c) {
    sn_tiles t = {.c = c, .m = c->m, .k = c->k, .turns = 1};
    if (!look(&t)) return false;
    sn_module *m = c->m;
    t.active = t.batch / t.turns * t.pieces * t.width;
    c->parts = t.parts;
    sn_tile_grid(&t);
    sn_tile_fetch_ahead(&t, blocks_of(&t));
    if (t.warps) {
        sn_tile_scan_by_warps(&t);
    } else {
        sn_tile_copy_in(&t);
        sn_tile_sum(&t);
        sn_tile_scan(&t);
        if (sn_tile_stays(&t)) sn_tile_copy_out(&t);
    }
    sn_kern_dead_code(m, c->k);
    sn_kern_collect_params(m, c->k);
    sn_kern_rec *k = sn_kern_get(m, c->k);
    k->sched.block_x = (uint32_t)(t.warps ? SN_WARP : t.threads);
    k->sched.block_y = t.warps ? SN_CUT_WARPS : 1;
    k->sched.min_blocks = t.stages ? (uint32_t)t.resident : blocks_of(&t);
    k->scheduled = true;
    return true;
}
