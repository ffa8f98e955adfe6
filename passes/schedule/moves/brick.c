/* brick.c: class brick of the pass `schedule`: which kernels it is for, and the figures of its schedule.
 *
 *     loop i in 127 { loop j in 4099 { loop k in 31 { loop c in 3 {
 *       load x[1561719*k + 381*j + 3*i + c]   ...   store y[381207*i + 93*j + 3*k + c] } } } }
 *
 * A permutation walks memory in two orders: x along c, i, j and then k, y along c, k, j and then i. A block owns a *brick*, a part
 * of every loop, in which both orders have lines: here all of c and k, 64 of i and 2 of j, of which x has runs of 192 elements and y
 * of 186. The runs of the loads come to shared memory as they lie (cp.async, where elements or words of them are 4 bytes), and
 * the body goes along the runs of the stores. brick_bind.c has the picture.
 *
 * For straight-line code whose stores follow each other along one walk. Loads that walk other lines are staged: affine,
 * back or forth, of a buffer that the kernel does not write, with masks that hide little of it; so are words that lie
 * as they are stored, which the body would wait for. All else is accessed as it is. Class tile has two loops, and
 * squares in registers between them: it does better where rows are whole vectors of words that fill its tiles, and
 * begin with sectors; a brick has any number of loops, some of which both sides walk, and needs nothing to be aligned.
 * Where its runs of stores end inside of sectors, it stores whole ones, and has a little of the next brick for that.
 *
 * Fields: runs of tile_m loaded elements and tile_n stored ones, about, where loops are as long; block_x threads; vector elements
 * of a store: what begins all runs, or a word of bytes or halves wherever they begin; min_blocks that have room together.
 */
#include "passes/schedule/moves/brick.h"

#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/moves/tile.h"

#include <stdlib.h>

/* ---- walks ---- */

static bool find_walk(sn_schedule_walk *w, sn_module *m, const sn_schedule_brick *b, const sn_chain *outer,
                      const sn_stmt_rec *r) {
    *w = (sn_schedule_walk){.hidden = r->has_mask};
    if (sn_ix_uses_vals(m, r->ix)) return false;
    for (uint32_t p = 0; p < b->n; p++) {
        sn_axis ax = sn_stmt_axis(m, outer->at[p]);
        if (!sn_ix_coef(m, r->ix, ax, &w->strides[p])) return false;
        w->back[p] = w->strides[p] < 0;
        w->strides[p] = llabs(w->strides[p]);
    }
    int64_t run = 1;
    for (uint32_t p = 0; p < b->n;) {
        bool next = w->strides[p] == run && b->extents[p] > 1;
        for (uint32_t k = 0; k < w->n; k++) next &= w->at[k] != p;
        if (!next) {
            p++;
            continue;
        }
        w->at[w->n++] = p;
        run = sn_mul_clamped(run, b->extents[p]);
        p = 0;
    }
    return w->n > 0;
}

/* Elements that follow each other in both walks. */
static int64_t in_common(const sn_schedule_brick *b, const sn_schedule_walk *x, const sn_schedule_walk *y) {
    int64_t run = 1;
    for (uint32_t k = 0; k < x->n && k < y->n && x->at[k] == y->at[k] && !x->back[x->at[k]]; k++)
        run = sn_mul_clamped(run, b->extents[x->at[k]]);
    return run;
}

/* Does it walk some loop back? */
static bool turns_round(const sn_schedule_brick *b, const sn_schedule_walk *w) {
    for (uint32_t k = 0; k < w->n; k++)
        if (w->back[w->at[k]] && b->extents[w->at[k]] > 1) return true;
    return false;
}

/* The part of all iterations for which a test holds, in thousandths; of what is no test of a loop: none. */
static int64_t part_that_holds(const sn_schedule_brick *b, sn_module *m, const sn_chain *outer, sn_val mask) {
    enum { ALL = 1000 };
    const sn_stmt_rec *r = sn_stmt_get(m, sn_val_get(m, mask)->def);
    int64_t n, holds = ALL;
    if (r->op == SN_LOP_AND)
        return part_that_holds(b, m, outer, r->in[0]) * part_that_holds(b, m, outer, r->in[1]) / ALL;
    if (r->op != SN_LOP_IN || !sn_ix_is_const(m, r->bound, &n)) return 0;
    for (uint32_t p = 0; p < b->n; p++) {
        int64_t c, from = sn_ix_get(m, r->ix)->c0;
        sn_axis ax = sn_stmt_axis(m, outer->at[p]);
        if (!sn_ix_uses_axis(m, r->ix, ax)) continue;
        if (holds != ALL || !sn_ix_coef(m, r->ix, ax, &c) || llabs(c) != 1) return 0;
        if (c < 0) from -= b->extents[p] - 1;
        int64_t low = from > 0 ? from : 0, high = from + b->extents[p] < n ? from + b->extents[p] : n;
        holds = high > low ? (high - low) * ALL / b->extents[p] : 0;
    }
    return holds;
}

/* Of what a mask hides a brick loads something else, which has to be little. */
static bool is_mostly_there(const sn_schedule_brick *b, sn_module *m, const sn_chain *outer, const sn_stmt_rec *r) {
    return !r->has_mask || part_that_holds(b, m, outer, r->in[0]) >= SN_BRICK_THERE;
}

/* Elements that are whole accesses in the middle of rows, as squares of class tile want them. */
static uint32_t whole_vector(const sn_schedule_brick *b, const sn_schedule_walk *w) {
    uint32_t v = sn_pow2_divisor(b->extents[w->at[0]]);
    for (uint32_t p = 0; p < b->n; p++)
        if (p != w->at[0] && b->extents[p] > 1) v = sn_least(v, sn_pow2_divisor(w->strides[p]));
    return v;
}

/* Is what it has to find in order as near for the stores? Lanes of class element have whole vectors that lie the other way round, and single
 * elements of all others, which are too many of what is less than a word. */
static bool lies_alike(const sn_schedule_brick *b, const sn_schedule_walk *w, uint32_t bytes) {
    uint32_t same = 0;
    while (same < w->n && same < b->stored.n && w->at[same] == b->stored.at[same]) same++;
    if (same < w->n) return false;
    return bytes >= SN_TILE_WORD || !turns_round(b, w) || whole_vector(b, w) * bytes >= SN_BRICK_VECTOR;
}

static bool stages(const sn_schedule_brick *b, sn_module *m, sn_kern k, const sn_chain *outer, const sn_stmt_rec *r,
                   const sn_schedule_walk *w) {
    uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
    int64_t all = bytes;
    for (uint32_t p = 0; p < b->n; p++) all = sn_mul_clamped(all, b->extents[p]);
    if (sn_buf_bytes(m, r->buf) < all / 2) return false; /* what is read again is in the cache */
    if (lies_alike(b, w, bytes) || in_common(b, w, &b->stored) * bytes >= SN_BRICK_RUN) return false;
    return !sn_kern_stores(m, k, r->buf) && is_mostly_there(b, m, outer, r);
}

static bool find_stores(sn_schedule_brick *b, sn_module *m, sn_kern k, const sn_chain *outer) {
    bool any = false;
    for (sn_stmt s = sn_region_first(m, k, outer->at[outer->n - 1]); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        sn_schedule_walk w;
        if (sn_lop_has_region(r->op)) return false;
        if (r->op != SN_LOP_STORE) continue;
        if (r->has_mask || !find_walk(&w, m, b, outer, r)) return false;
        for (uint32_t p = 0; p < outer->n; p++)
            if (w.back[p]) return false;
        if (any && (w.n != b->stored.n || in_common(b, &w, &b->stored) != in_common(b, &w, &w))) return false;
        for (uint32_t p = 0; p < outer->n && any; p++) /* vectors and sectors are those of all of them */
            if (w.strides[p] != b->stored.strides[p]) return false;
        uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        if (!any) b->offset = llabs(sn_ix_get(m, r->ix)->c0);
        if (!any || bytes < b->least) b->least = bytes;
        b->stored = w;
        any = true;
    }
    return any;
}

/* Does it walk the loops in the order in which the stores do, those left out along which it stays where it is? */
static bool walks_alike(const sn_schedule_brick *b, const sn_schedule_walk *w) {
    uint32_t n = 0;
    if (w->at[0] != b->stored.at[0] || turns_round(b, w)) return false;
    for (uint32_t k = 0; k < b->stored.n; k++) {
        uint32_t p = b->stored.at[k];
        if (!w->strides[p]) continue;
        if (n == w->n || w->at[n++] != p) return false;
    }
    for (uint32_t p = 0; p < b->n; p++) n += b->stored.strides[p] == 0 && w->strides[p] != 0;
    return n == w->n;
}

/* What lies as the stores do is on its way with the rest, too: a body that loads it waits for it once more, also where rows of the
 * result share it, and it is in the L2. */
static void stage_alike(sn_schedule_brick *b, sn_module *m, sn_kern k, const sn_chain *outer) {
    for (sn_stmt s = sn_region_first(m, k, outer->at[outer->n - 1]); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (b->n_staged == SN_MAX_BRICK_LOADS) return;
        sn_schedule_walk *w = &b->loads[b->n_staged];
        if (r->op != SN_LOP_LOAD || r->has_mask || !find_walk(w, m, b, outer, r)) continue;
        int64_t all = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        if (!walks_alike(b, w) || sn_kern_stores(m, k, r->buf)) continue;
        bool shared = false;
        for (uint32_t p = 0; p < b->n; p++) {
            if (w->strides[p]) all = sn_mul_clamped(all, b->extents[p]);
            shared |= !w->strides[p] && b->extents[p] > 1;
        }
        if ((!shared || all >= SN_BRICK_ALIKE) && sn_buf_bytes(m, r->buf) >= all) b->staged[b->n_staged++] = s;
    }
}

void sn_schedule_find_brick(sn_schedule_brick *out, sn_pass_ctx *cx, sn_kern k, const sn_chain *outer) {
    sn_module *m = cx->m;
    *out = (sn_schedule_brick){.n = outer->n};
    if (outer->n < 2) return;
    for (uint32_t p = 0; p < outer->n; p++) {
        out->sides[p] = 1;
        if (!sn_ix_is_const(m, sn_stmt_extent(m, outer->at[p]), &out->extents[p])) return;
    }
    if (!find_stores(out, m, k, outer)) return;
    for (sn_stmt s = sn_region_first(m, k, outer->at[outer->n - 1]); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        out->n_loads += r->op == SN_LOP_LOAD;
        if (out->n_staged == SN_MAX_BRICK_LOADS) continue;
        sn_schedule_walk *w = &out->loads[out->n_staged];
        if (r->op != SN_LOP_LOAD || !find_walk(w, m, out, outer, r) || !stages(out, m, k, outer, r, w)) continue;
        uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        out->staged[out->n_staged++] = s;
        out->bytes += bytes;
        if (bytes > out->widest) out->widest = bytes;
    }
    out->n_across = out->n_staged;
    if (out->n_staged) stage_alike(out, m, k, outer);
}

/* ---- sides ---- */

int64_t sn_schedule_brick_run(const sn_schedule_brick *b, const sn_schedule_walk *w) {
    int64_t run = 1;
    for (uint32_t k = 0; k < w->n; k++) {
        run *= b->sides[w->at[k]];
        if (b->sides[w->at[k]] < b->extents[w->at[k]]) break;
    }
    return run;
}

uint32_t sn_schedule_brick_piece(const sn_schedule_brick *b, const sn_schedule_walk *w) {
    return sn_least(16, sn_pow2_divisor(in_common(b, w, &b->stored) * b->widest));
}

int64_t sn_schedule_brick_elements(const sn_schedule_brick *b) {
    int64_t all = 1;
    for (uint32_t p = 0; p < b->n; p++) all = sn_mul_clamped(all, b->sides[p]);
    return all;
}

static int64_t equal_part(int64_t extent, int64_t wanted) {
    int64_t parts = (extent + wanted / 2) / wanted;
    return sn_ceil_div(extent, parts > 1 ? parts : 1);
}

/* About so much of a loop: of few parts, equal ones; of whole units, where they are small. */
static int64_t part_of(int64_t extent, int64_t wanted, int64_t unit) {
    if (extent >= SN_BRICK_MANY * wanted) return wanted < unit ? wanted : (wanted + unit / 2) / unit * unit;
    int64_t part = equal_part(extent, wanted), whole = sn_ceil_div(part, unit) * unit;
    return whole > part + part / 8 || whole >= extent ? part : whole;
}

/* Do rows that a walk goes along begin inside of sectors, as their neighbours do? Then it is all the same where runs of theirs are cut. */
static bool begins_anywhere(const sn_schedule_brick *b, const sn_schedule_walk *w, uint32_t bytes) {
    for (uint32_t p = 0; p < b->n; p++)
        if (b->extents[p] > 1 && w->strides[p] * bytes >= SN_LINE && w->strides[p] * bytes % SN_SECTOR) return true;
    return false;
}

static void lengthen(sn_schedule_brick *b, const sn_schedule_walk *w, int64_t wanted, uint32_t bytes) {
    int64_t run = 1;
    bool anywhere = w != &b->stored && begins_anywhere(b, w, bytes);
    for (uint32_t k = 0; k < w->n && run < wanted; k++) {
        int64_t *side = &b->sides[w->at[k]], extent = b->extents[w->at[k]];
        int64_t unit = SN_SECTOR / sn_least(SN_SECTOR, sn_pow2_divisor(run) * bytes);
        /* Of runs that begin inside of words, those begin alike that are as many apart as a word has elements: whole turns of them. */
        int64_t most = sn_ceil_div(wanted, run), v = b->least < SN_TILE_WORD ? SN_TILE_WORD / b->least : 1;
        if (run * bytes % SN_TILE_WORD == 0 || most <= v) v = 1;
        most = most / v * v;
        int64_t part = part_of(extent, most, unit);
        if (anywhere && extent < SN_BRICK_FEW * most) part = sn_ceil_div(equal_part(extent, most), v) * v;
        if (part > extent) part = extent;
        if (part > *side) *side = part;
        if (*side < extent) break;
        run = sn_mul_clamped(run, extent);
    }
}

void sn_schedule_size_brick(sn_schedule_brick *b, int64_t loaded, int64_t stored) {
    for (uint32_t p = 0; p < b->n; p++) b->sides[p] = 1;
    for (uint32_t i = 0; i < b->n_across; i++) lengthen(b, &b->loads[i], loaded, b->widest);
    lengthen(b, &b->stored, stored, b->least);
    if (b->whole) b->sides[b->n - 1] = b->extents[b->n - 1];
}

/* ---- figures ---- */

static int64_t all_elements(const sn_schedule_brick *b) {
    int64_t all = 1;
    for (uint32_t p = 0; p < b->n; p++) all = sn_mul_clamped(all, b->extents[p]);
    return all;
}

static int64_t shared_bytes(sn_module *m, const sn_schedule_brick *b) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < b->n_staged; i++) {
        sn_schedule_brick_part part;
        sn_schedule_lay_out_brick(&part, m, b, i);
        bytes = sn_add_clamped(bytes, sn_mul_clamped(sn_schedule_brick_room(&part), part.bytes));
    }
    return bytes;
}

/* Does a brick have all of the loops that its loads go along? */
static bool has_whole_rows(const sn_schedule_brick *b) {
    for (uint32_t i = 0; i < b->n_across; i++)
        if (b->sides[b->loads[i].at[0]] < b->extents[b->loads[i].at[0]]) return false;
    return true;
}

bool sn_schedule_brick_begins(const sn_schedule_brick *b, const sn_schedule_walk *w, uint32_t bytes) {
    int64_t run = sn_schedule_brick_run(b, w), whole = 1, unit = SN_SECTOR / bytes;
    for (uint32_t k = 0; k < w->n && whole < run; k++) {
        uint32_t p = w->at[k];
        if (b->sides[p] < b->extents[p] && whole * b->sides[p] % unit) return false;
        whole *= b->sides[p];
    }
    for (uint32_t p = 0; p < b->n; p++)
        if (b->extents[p] > 1 && w->strides[p] >= run && w->strides[p] % unit) return false;
    return true;
}

/* ---- order ---- */

/* Bytes that follow each other in memory of what so many bricks have, which follow each other in that order. */
static int64_t piece_together(const sn_schedule_brick *b, const sn_schedule_walk *w, const uint32_t *order,
                              int64_t bricks, uint32_t bytes) {
    int64_t covered[SN_MAX_CHAIN], run = 1;
    for (uint32_t k = b->n; k-- > 0;) {
        uint32_t p = order[k];
        int64_t parts = sn_ceil_div(b->extents[p], b->sides[p]);
        covered[p] = parts < bricks ? parts : bricks;
        bricks = sn_ceil_div(bricks, parts);
    }
    for (uint32_t k = 0; k < w->n; k++) {
        uint32_t p = w->at[k];
        int64_t part = sn_mul_clamped(covered[p], b->sides[p]);
        run = sn_mul_clamped(run, part < b->extents[p] ? part : b->extents[p]);
        if (part < b->extents[p]) break;
    }
    return sn_mul_clamped(run, bytes);
}

void sn_schedule_order_bricks(uint32_t *order, const sn_pass_ctx *cx, const sn_schedule_brick *b) {
    uint32_t turned[SN_MAX_CHAIN], n = 0;
    bool taken[SN_MAX_CHAIN] = {false};
    const sn_schedule_walk *w = &b->loads[0];
    int64_t together = (int64_t)cx->target->units * SN_BRICK_TOGETHER, best;
    for (uint32_t p = 0; p < b->n; p++) order[p] = p;
    int64_t loaded = piece_together(b, w, order, together, b->widest),
            stored = piece_together(b, &b->stored, order, together, b->least);
    best = loaded < stored ? loaded : stored;
    if (sn_schedule_brick_begins(b, w, b->widest)) return;
    for (uint32_t k = 0; k < w->n; k++) { /* the first k + 1 loops of the load are the fastest */
        taken[w->at[k]] = true;
        n = 0;
        for (uint32_t p = 0; p < b->n; p++)
            if (!taken[p]) turned[n++] = p;
        for (uint32_t i = k + 1; i-- > 0;) turned[n++] = w->at[i];
        loaded = piece_together(b, w, turned, together, b->widest);
        stored = piece_together(b, &b->stored, turned, together, b->least);
        int64_t least = loaded < stored ? loaded : stored;
        if (best >= SN_BRICK_PIECE || least < 2 * best) continue;
        best = least;
        for (uint32_t p = 0; p < b->n; p++) order[p] = turned[p];
    }
}

/* ---- sizes ---- */

/* What a byte takes that such bricks move, in parts of what it takes in a copy. Sectors of which two bricks load a part come from the L2 the second time,
 * and so does half of what is beyond a brick; those that two bricks store in part cost half of BRICK_SPLIT. Short runs are pages of memory opened for little,
 * of loads for more than of stores, and the fewer bricks a multiprocessor has, the longer it waits for the last ones. Those that it has at a time begin
 * together: of few turns of them the first loads while nobody stores, and the last stores while nobody loads. A small one waits for as long as others
 * before it moves anything. */
static double cost_of_brick(const sn_pass_ctx *cx, const sn_schedule_brick *b) {
    uint32_t last;
    double loaded = 0, stored = (double)sn_schedule_brick_run(b, &b->stored) * b->least, idle = 1;
    double more = (double)sn_schedule_brick_beyond(&last, b), bricks = 1, cost = 2;
    for (uint32_t i = 0; i < b->n_across; i++) {
        double run = (double)sn_schedule_brick_run(b, &b->loads[i]) * b->widest;
        if (!sn_schedule_brick_begins(b, &b->loads[i], b->widest)) cost += SN_SECTOR / run / 2 / b->n_across;
        if (!loaded || run < loaded) loaded = run;
    }
    for (uint32_t p = 0; p < b->n; p++) {
        double parts = (double)sn_ceil_div(b->extents[p], b->sides[p]);
        bricks *= parts;
        idle *= parts * (double)b->sides[p] / (double)b->extents[p];
    }
    double row = more > 0 ? stored / (double)b->sides[last] * (double)b->extents[last] : stored;
    if (more > 0) cost += (double)sn_schedule_brick_more(b) * b->least / stored / 2;
    if (!sn_schedule_brick_begins_sectors(b)) cost += SN_BRICK_SPLIT / row / (more > 0 ? 4 : 2);
    cost += SN_BRICK_PAGE / loaded + SN_BRICK_PAGE_STORED / stored + (idle - 1) / 4;
    double together = (double)cx->target->shared_bytes / (double)(shared_bytes(cx->m, b) + SN_SHARED_SYSTEM);
    double most = (double)cx->target->unit_threads / SN_TILE_THREADS;
    double turns = bricks / (cx->target->units * (together < most ? together : most));
    double begin = (double)SN_BRICK_BEGIN / (double)(sn_schedule_brick_elements(b) * (b->widest + b->least));
    return cost * (1 + begin + cx->target->units / bricks / 2 + 1 / (turns * turns * SN_BRICK_TURN));
}

/* Shared memory for a brick. */
static int64_t room_for(const sn_schedule_brick *b, const sn_schedule_brick *sized) {
    if (b->widest < SN_TILE_WORD || b->least < SN_TILE_WORD) return SN_BRICK_NARROW;
    if (b->n_staged > b->n_across) return SN_BRICK_NARROW; /* twice as much moves: five blocks do */
    return b->widest > SN_BANK && !has_whole_rows(sized) ? SN_BRICK_PART : SN_BRICK_SHARED;
}

/* Are there bricks of about such runs, and enough of them? */
static bool try_runs(sn_schedule_brick *out, const sn_pass_ctx *cx, const sn_schedule_brick *b, uint32_t loaded,
                     uint32_t stored) {
    *out = *b;
    sn_schedule_size_brick(out, loaded, stored);
    bool many = all_elements(b) >= sn_mul_clamped(sn_schedule_brick_elements(out), cx->target->units * 2);
    return many && shared_bytes(cx->m, out) <= room_for(b, out);
}

/* The cheapest of those that fit; returns what they cost, 0: none fits. */
static double choose_cheapest(sn_sched *sc, const sn_pass_ctx *cx, const sn_schedule_brick *b) {
    enum { MOST_LINES = 64 };
    uint32_t loaded = sc->tile_m, stored = sc->tile_n;
    double least = 0;
    for (uint32_t i = 1; i <= (loaded ? 1 : MOST_LINES); i *= 2)
        for (uint32_t k = 1; k <= (stored ? 1 : MOST_LINES); k *= 2) {
            sn_schedule_brick t;
            uint32_t x = loaded ? loaded : i * SN_LINE / b->widest, y = stored ? stored : k * SN_LINE / b->least;
            if (!try_runs(&t, cx, b, x, y)) continue;
            double cost = cost_of_brick(cx, &t);
            if (least > 0 && cost >= least) continue;
            least = cost, sc->tile_m = x, sc->tile_n = y;
        }
    return least;
}

/* Runs of two lines where they fit; stores have the longer ones, since half a sector that is written is worse than one that is read. Others where
 * they cost clearly less, and where bytes or halves are loaded or stored. */
static bool choose_runs(sn_sched *sc, const sn_pass_ctx *cx, const sn_schedule_brick *b) {
    static const uint32_t runs[][2] = {{64, 64}, {32, 32}, {16, 16}, {8, 8}, {4, 4}, {2, 4}, {2, 2}, {1, 2}, {1, 1}};
    uint32_t loaded = sc->tile_m, stored = sc->tile_n;
    sn_sched other = *sc;
    sn_schedule_brick t;
    double least = choose_cheapest(&other, cx, b);
    for (size_t i = 0; i < SN_COUNT(runs); i++) {
        sc->tile_m = loaded ? loaded : runs[i][0] * SN_LINE / b->widest;
        sc->tile_n = stored ? stored : runs[i][1] * SN_LINE / b->least;
        if ((loaded && stored) || try_runs(&t, cx, b, sc->tile_m, sc->tile_n)) break;
    }
    bool fits = try_runs(&t, cx, b, sc->tile_m, sc->tile_n),
         narrow = b->widest < SN_TILE_WORD || b->least < SN_TILE_WORD;
    if (loaded && stored) return fits;
    if (least > 0 && (!fits || narrow || least * 100 < cost_of_brick(cx, &t) * SN_BRICK_CHEAPER)) *sc = other;
    return fits || least > 0;
}

/* A word at least. */
uint32_t sn_schedule_brick_vector(sn_module *m, const sn_schedule_brick *b, const sn_schedule_shape *sh) {
    uint32_t piece = 16;
    int64_t run = sn_schedule_brick_run(b, &b->stored);
    for (uint32_t i = 0; i < b->n_staged; i++) piece = sn_least(piece, sn_schedule_brick_piece(b, &b->loads[i]));
    uint32_t v = (piece > SN_TILE_WORD ? piece : SN_TILE_WORD) / b->least;
    int64_t whole = 1;
    bool in_run[SN_MAX_CHAIN] = {false};
    if (v < 2) return 1;
    for (sn_stmt s = sn_stmt_get(m, sh->body)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_STORE) continue;
        int64_t c0 = sn_ix_get(m, r->ix)->c0;
        while (v > 1 && (c0 % v || sn_buf_get(m, r->buf)->align < v * b->least)) v /= 2;
    }
    for (uint32_t k = 0; k < b->stored.n; k++) {
        uint32_t p = b->stored.at[k];
        in_run[p] = true;
        if (b->sides[p] < b->extents[p]) {
            while (v > 1 && (whole * b->sides[p] % v || whole * (b->extents[p] % b->sides[p]) % v)) v /= 2;
            break;
        }
        whole *= b->extents[p];
    }
    for (uint32_t p = 0; p < b->n; p++)
        while (v > 1 && !in_run[p] && b->extents[p] > 1 && b->stored.strides[p] % v) v /= 2;
    while (run % v) v /= 2;
    return v;
}

uint32_t sn_schedule_brick_word(sn_module *m, const sn_schedule_brick *b, const sn_schedule_shape *sh) {
    uint32_t stores = 0;
    if (b->least >= SN_TILE_WORD || sn_schedule_brick_run(b, &b->stored) < SN_BRICK_WORDS * SN_SECTOR / b->least)
        return 0;
    for (sn_stmt s = sn_stmt_get(m, sh->body)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_STORE) continue;
        if (stores++ || sn_buf_get(m, r->buf)->align < SN_TILE_WORD) return 0;
    }
    return SN_TILE_WORD / b->least;
}

bool sn_schedule_brick_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_schedule_brick b;
    *why_not = "a brick wants loads and stores that walk loops in different orders, on a GPU";
    if (!cx->target->is_gpu || sh->n_nests || sh->outer.n < 2) return false;
    sn_schedule_find_brick(&b, cx, k, &sh->outer);
    return b.n_staged;
}

/* Do threads that store lines find whole sectors to load, as class element has them? */
static bool is_near(const sn_schedule_brick *b, const sn_schedule_walk *w) {
    sn_schedule_brick t = *b;
    for (uint32_t p = 0; p < t.n; p++) t.sides[p] = 1;
    lengthen(&t, &t.stored, SN_WARP * SN_WIDEST_ACCESS / t.least, t.least);
    int64_t run = sn_schedule_brick_run(&t, w), unit = SN_SECTOR / t.widest;
    for (uint32_t p = 0; p < t.n; p++)
        if (w->strides[p] >= run && t.extents[p] > 1 && w->strides[p] % unit) return false;
    return run >= 2 * unit;
}

bool sn_schedule_brick_begins_sectors(const sn_schedule_brick *b) {
    return sn_schedule_brick_begins(b, &b->stored, b->least);
}

int64_t sn_schedule_brick_reach(const sn_schedule_brick *b) {
    const sn_schedule_walk *w = &b->stored;
    int64_t run = sn_schedule_brick_run(b, w), inner = 1, unit = SN_SECTOR / b->least;
    int64_t alike = sn_schedule_gcd(unit, b->offset);
    for (uint32_t k = 0; k < w->n && inner < run; k++) {
        uint32_t p = w->at[k];
        inner *= b->sides[p];
        if (b->sides[p] < b->extents[p]) alike = sn_schedule_gcd(alike, inner);
    }
    for (uint32_t p = 0; p < b->n; p++)
        if (b->extents[p] > 1 && w->strides[p] >= run) alike = sn_schedule_gcd(alike, w->strides[p]);
    return unit - alike;
}

/* Has each run of the loads one element of a run of the stores? Then so many more runs are beyond a brick as elements, whatever the loop is at
 * whose end it is cut. */
static bool has_elements_beyond(const sn_schedule_brick *b) {
    int64_t stored = sn_schedule_brick_run(b, &b->stored);
    for (uint32_t i = 0; i < b->n_staged; i++) {
        int64_t loaded = sn_schedule_brick_run(b, &b->loads[i]), run = 1;
        for (uint32_t k = 0; run < loaded; k++) {
            uint32_t p = b->loads[i].at[k];
            run *= b->sides[p];
            for (int64_t j = 0, inner = 1; inner < stored; inner *= b->sides[b->stored.at[j++]])
                if (b->stored.at[j] == p) return false;
        }
    }
    return true;
}

int64_t sn_schedule_brick_more(const sn_schedule_brick *b) {
    uint32_t last;
    int64_t more = sn_schedule_brick_beyond(&last, b), run = sn_schedule_brick_run(b, &b->stored);
    return has_elements_beyond(b) ? sn_schedule_brick_reach(b) : more * run / b->sides[last];
}

int64_t sn_schedule_brick_beyond(uint32_t *last, const sn_schedule_brick *b) {
    int64_t inner = 1;
    *last = 0;
    if (sn_schedule_brick_begins_sectors(b)) return 0;
    for (uint32_t k = 0; k < b->stored.n; k++) {
        uint32_t p = *last = b->stored.at[k];
        if (b->sides[p] < b->extents[p]) {
            int64_t reach = sn_schedule_brick_reach(b), more = sn_ceil_div(reach, inner);
            int64_t beyond = has_elements_beyond(b) ? reach : more * inner;
            bool pays = beyond * SN_BRICK_BEYOND <= b->sides[p] * inner && beyond * b->least <= SN_BRICK_SPLIT;
            return pays && b->sides[p] > 1 && b->sides[p] + more < b->extents[p] ? more : 0;
        }
        inner *= b->extents[p];
    }
    return 0;
}

/* Elements that stores find in order before the loop that the load begins with: what `join-axes` can make a side of a tile of. */
static int64_t stored_side(const sn_schedule_brick *b, const sn_schedule_walk *w) {
    int64_t side = 1;
    for (uint32_t k = 0; k < b->stored.n && b->stored.at[k] != w->at[0]; k++)
        side = sn_mul_clamped(side, b->extents[b->stored.at[k]]);
    return side;
}

/* Does the axis fill tiles of two lines, if it has more than one? */
static bool fills_tiles(const sn_schedule_brick *b, int64_t extent) {
    int64_t side = 2 * SN_LINE / b->widest;
    return extent <= side || extent * 100 >= sn_ceil_div(extent, side) * side * SN_TILE_FULL;
}

/* Do lines that class tile stores begin with sectors, whatever part of its side they are? The side is a loop, or short ones that join; what
 * meets behind it in memory is stored with it. */
static bool tile_begins_sectors(const sn_schedule_brick *b, const sn_schedule_walk *w) {
    int64_t side = 1, unit = SN_SECTOR / b->least;
    for (uint32_t k = 0; k < b->stored.n && b->stored.at[k] != w->at[0] && side * b->least < 2 * SN_LINE; k++)
        side = sn_mul_clamped(side, b->extents[b->stored.at[k]]);
    for (uint32_t p = 0; p < b->n; p++) {
        int64_t stride = b->stored.strides[p];
        bool meets = stride == side && p == w->at[0] && side * b->least < 2 * SN_LINE;
        if (b->extents[p] > 1 && stride >= side && !meets && stride % unit) return false;
    }
    return true;
}

/* The same of squares of bytes and halves, of which each is much work: do they leave hardly any lane without an element? */
static bool fills_squares(const sn_schedule_brick *b, int64_t extent) {
    int64_t whole = sn_pow2_ceil(extent), side = 2 * SN_LINE / b->widest;
    if (whole < side) side = whole;
    return extent * 100 >= sn_ceil_div(extent, side) * side * SN_SQUARES_FULL;
}

/* Elements that the load finds in order, of loops that do not make the side of the stores: what `join-axes` makes the other side of a tile of. */
static int64_t loaded_side(const sn_schedule_brick *b, const sn_schedule_walk *w) {
    int64_t side = 1;
    for (uint32_t k = 0; k < w->n && side < 2 * SN_LINE / b->widest; k++) {
        for (uint32_t i = 0; i < b->stored.n && b->stored.at[i] != w->at[0]; i++)
            if (b->stored.at[i] == w->at[k]) return side;
        side = sn_mul_clamped(side, b->extents[w->at[k]]);
    }
    return side;
}

/* Does a tile of whole vectors of bytes or halves leave few of its lanes without an element? Where one side is short, the other is so much longer (tile.c). */
static bool fills_wide_tiles(const sn_schedule_brick *b, int64_t loaded, int64_t stored) {
    int64_t side = 2 * SN_LINE / b->widest, across = sn_pow2_ceil(loaded), along = sn_pow2_ceil(stored);
    if (side > SN_TILE_MOST_SIDE) side = SN_TILE_MOST_SIDE;
    if (across > side) across = side;
    if (along > side * side / across) along = side * side / across;
    across = sn_pow2_ceil(loaded) < side * side / along ? sn_pow2_ceil(loaded) : side * side / along;
    double full = (double)loaded / (double)(sn_ceil_div(loaded, across) * across);
    return full * (double)stored / (double)(sn_ceil_div(stored, along) * along) * 100 >= SN_TILE_WIDE_FULL;
}

/* Do the widest accesses begin all rows that class tile stores, with eight lanes? */
static bool stores_wide(const sn_schedule_brick *b) {
    enum { LANES = 8 };
    return sn_least(whole_vector(b, &b->stored), LANES) * b->least >= SN_BRICK_VECTOR;
}

/* Is class tile, or element, as good? Lanes of class element load what is less than a word one by one, and more of that than memory has time
 * for. Tiles have squares of whole vectors, unaligned ones of halves that are stored by 16 bytes, or lanes of words, which do well where stores begin
 * with sectors. Where they do not, sectors that tiles store in part cost more than narrow vectors save. */
static bool is_better_off(const sn_schedule_brick *b, const sn_schedule_walk *w) {
    int64_t loaded = b->extents[w->at[0]], stored = stored_side(b, w), side = loaded < stored ? loaded : stored;
    bool sectors = tile_begins_sectors(b, w) && sn_schedule_brick_begins_sectors(b);
    if (is_near(b, w)) return sn_schedule_brick_piece(b, w) >= SN_TILE_WORD;
    if (w->back[w->at[0]] || (w->hidden && b->n_loads > 1)) return false; /* class tile does not stage that */
    if (w->at[0] == b->stored.at[0]) return false;
    if (b->widest >= SN_TILE_WORD && !(fills_tiles(b, loaded) && fills_tiles(b, stored))) return false;
    uint32_t whole = sn_least(whole_vector(b, w), whole_vector(b, &b->stored));
    bool narrow = b->widest < SN_TILE_WORD && b->least < SN_TILE_WORD;
    if (whole > 1 && whole * b->widest >= SN_TILE_WORD && narrow && !fills_wide_tiles(b, loaded_side(b, w), stored))
        return false;
    if (whole > 1 && whole * b->widest >= SN_TILE_WORD)
        return sectors || whole * b->widest >= (narrow ? SN_BRICK_NARROW_VECTOR : SN_BRICK_VECTOR);
    if (narrow)
        return side >= SN_TILE_LEAST_SIDE && stores_wide(b) && fills_squares(b, stored) &&
               b->sides[w->at[0]] < b->extents[w->at[0]];
    /* A brick has whole rows of 8 bytes, and stores words of what is loaded by bytes as it stores others. */
    if (b->widest > SN_BANK || b->widest < SN_TILE_WORD) return false;
    return side >= SN_TILE_SMALL_AXIS && sectors;
}

bool sn_schedule_wants_brick(sn_pass_ctx *cx, sn_kern k, const sn_chain *outer) {
    sn_schedule_brick b;
    if (!cx->target->is_gpu || !outer->n) return false;
    sn_schedule_find_brick(&b, cx, k, outer);
    sn_sched sc = {.cls = SN_SCHED_BRICK};
    if (!b.n_staged || sn_mul_clamped(all_elements(&b), b.bytes) < SN_TILE_SMALL || !choose_runs(&sc, cx, &b))
        return false;
    sn_schedule_size_brick(&b, sc.tile_m, sc.tile_n);
    for (uint32_t i = 0; i < b.n_across; i++)
        if (is_better_off(&b, &b.loads[i])) return false;
    return true;
}

static sn_status check(const sn_pass_ctx *cx, sn_kern k, const sn_schedule_brick *b, const sn_sched *sc,
                       uint32_t vector, uint32_t word) {
    const char *name = sn_kern_get(cx->m, k)->name;
    sn_env *env = cx->m->env;
    int64_t room = cx->target->shared_bytes, bytes = shared_bytes(cx->m, b);
    if (vector % sc->vector && sc->vector != word)
        return sn_fail(env, SN_ERROR_ARGUMENT,
                       "kernel %s: runs of its stores do not begin with the schedule's vector=%u", name, sc->vector);
    if ((sc->block_x & (sc->block_x - 1)) || sc->block_x < SN_WARP || sc->block_x > cx->target->max_threads)
        return sn_fail(env, SN_ERROR_ARGUMENT, "kernel %s: the schedule's block_x=%u is no power of 2 from %u to %u",
                       name, sc->block_x, (unsigned)SN_WARP, cx->target->max_threads);
    if (sn_schedule_brick_run(b, &b->stored) < 2)
        return sn_fail(env, SN_ERROR_ARGUMENT,
                       "kernel %s: runs of the schedule's tile_m=%u and tile_n=%u are single elements of its stores",
                       name, sc->tile_m, sc->tile_n);
    if (bytes > room)
        return sn_fail(
            env, SN_ERROR_ARGUMENT,
            "kernel %s: runs of the schedule's tile_m=%u and tile_n=%u take more than %lld bytes of shared memory",
            name, sc->tile_m, sc->tile_n, (long long)room);
    return SN_OK;
}

/* Do all copies leave the L1 alone, as those of 16 bytes do? */
static bool bypass_cache(sn_module *m, const sn_schedule_brick *b) {
    for (uint32_t i = 0; i < b->n_staged; i++) {
        sn_schedule_brick_part part;
        sn_schedule_lay_out_brick(&part, m, b, i);
        if (part.v * part.bytes < SN_WIDEST_ACCESS) return false;
    }
    return true;
}

/* Blocks for which a multiprocessor has room. Registers that an assembler gives away for copies and stores that it moves about would leave half of it
 * idle; a body that takes more of them, or loads more that is not staged than what is, has what it wants. Shared memory is taken from the L1, which words are copied through. */
static uint32_t resident(const sn_pass_ctx *cx, const sn_schedule_brick *b, const sn_schedule_shape *sh,
                         const sn_sched *sc) {
    int64_t room = cx->target->shared_bytes, each = shared_bytes(cx->m, b) + SN_SHARED_SYSTEM;
    if (room > SN_BRICK_THROUGH && !bypass_cache(cx->m, b)) room = SN_BRICK_THROUGH;
    int64_t fit = room / each;
    int64_t most = (int64_t)SN_BRICK_TOGETHER * SN_TILE_THREADS / sc->block_x;
    if (b->n_loads > 2 * b->n_staged || (int64_t)sh->instructions * sc->vector > SN_FEW_INSTRUCTIONS) return 0;
    return sn_least((uint32_t)(fit < most ? fit : most), sn_target_blocks(cx->target, sc->block_x));
}

/* Other candidates: twice as many threads, and half. */
sn_status sn_schedule_propose_bricks(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                     const sn_sched *pinned, sn_schedule_brick *b) {
    sn_sched sc = *pinned;
    sc.cls = SN_SCHED_BRICK;
    if (!choose_runs(&sc, cx, b) && pinned->cls == SN_SCHED_NONE) return SN_OK;
    if (!sc.block_x) sc.block_x = SN_TILE_THREADS;
    sc.block_y = 1;
    sn_schedule_size_brick(b, sc.tile_m, sc.tile_n);
    uint32_t vector = sn_schedule_brick_vector(cx->m, b, sh), word = sn_schedule_brick_word(cx->m, b, sh);
    if (!sc.vector) sc.vector = vector < word ? word : vector;
    SN_TRY(check(cx, k, b, &sc, vector, word));
    bool bound = !pinned->min_blocks;
    if (bound) sc.min_blocks = resident(cx, b, sh, &sc);
    sn_schedule_propose(out, cx, &sc);
    uint32_t threads[] = {sc.block_x * 2, sc.block_x / 2};
    for (size_t i = 0; i < SN_COUNT(threads) && !pinned->block_x; i++) {
        sc.block_x = threads[i];
        if (bound) sc.min_blocks = resident(cx, b, sh, &sc);
        sn_schedule_propose(out, cx, &sc);
    }
    return SN_OK;
}

sn_status sn_schedule_brick_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                       const sn_sched *pinned) {
    sn_schedule_brick b;
    if (pinned->cls == SN_SCHED_NONE && !sn_schedule_wants_brick(cx, k, &sh->outer)) return SN_OK;
    sn_schedule_find_brick(&b, cx, k, &sh->outer);
    return sn_schedule_propose_bricks(out, cx, k, sh, pinned, &b);
}
