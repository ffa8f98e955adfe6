/* rows.c: what the schedules of class inner have in common: the figures of a row that threads share, and its nests.
 *
 * Facts behind the figures: an access should be 16 bytes wide, and neighbouring lanes should cover whole lines; a row
 * of up to 3072 elements is reduced fastest by one warp (no shared memory), longer ones by 64 to 1024 threads; a row
 * that fits in half of a block's registers is read once, and so is one that fits in shared memory. On the CPU the same
 * shapes hold with one thread and its SIMD width.
 *
 * Relies on shape.c. Does not bind the kernel: inner.c and mixed_order.c do.
 */
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/teams.h"
#include "passes/schedule/base/mixed.h"
#include "passes/schedule/rows/rows.h"

#include <math.h>
#include <stdlib.h>

/* What rows ask about the shape. */
typedef struct rows {
    const sn_schedule_shape *sh;
    uint32_t bytes;     /* smallest element that nests walk along their last axis (0: none) */
    int64_t divisor;    /* vectors along the nest must divide this (0: no contiguous nest) */
    uint32_t stores;    /* bytes that nests of a row store at an element */
    uint32_t kept;      /* bytes of an element that nests of a row have to read again ... */
    uint32_t widest;    /* ... and of the largest of these */
    uint32_t states;    /* bytes that a reduction carries, at most */
    uint32_t exchanges; /* reductions */
    uint32_t
        together; /* elements that a nest stores of one buffer: of rows that are done together (passes/fuse/unroll_and_jam.c) */
    uint32_t again; /* nests that may read again what does not stay of a row; 0: none */
    bool both;      /* ... the first two read that together (meet_once.c) */
    bool weights;   /* weights are as long as a row */
    bool positions; /* a reduction carries positions: argmax */
    bool online;    /* one nest, with sumexp: it reads a row that does not stay on chip, once */
    bool weighs;    /* a reduction is sumexp */
    bool exp;       /* an exponential is computed of each element */
    bool once;      /* one reduction: nothing of a row is read again */
    bool alone;     /* ... of one combiner */
    bool late;      /* vectors begin before the parts of rows that it has, though these are whole vectors long */
} rows;

/* ---- a look at the row ---- */

static bool carries(const sn_stmt_rec *nest, sn_comb_second what) {
    for (uint32_t c = 0; c < nest->n_combs; c++)
        if (sn_combs[nest->combs[c]].second == what) return true;
    return false;
}

static void look_at_nest(rows *ro, const sn_module *m, sn_stmt nest) {
    sn_buf first = {0};
    uint32_t together = 0;
    sn_stmt end = sn_stmt_walk_skip(m, nest);
    for (sn_stmt s = nest; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        ro->exp |= r->op == SN_LOP_EXP;
        if (r->op != SN_LOP_STORE) continue;
        ro->stores += sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
        if (!first.i) first = r->buf;
        together += sn_buf_eq(first, r->buf);
    }
    if (together > ro->together) ro->together = together;
}

static uint32_t carried(const sn_module *m, const sn_stmt_rec *reduce) {
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < reduce->n_results; i++)
        bytes += sn_dtype_bytes(sn_val_get(m, sn_result(reduce, i))->dtype);
    return bytes;
}

/* Elements of one buffer that a nest has of a position: the first one that it names, the second one, .. */
typedef struct kept_element {
    sn_buf buf;
    sn_ix ix; /* in the nest at hand; none: it has not named that one yet */
    uint32_t number, nest;
} kept_element;

enum { MOST_KEPT = 32 };

/* The element that the nest names by r, which may be a new one; NULL: it has named that before, or there are too many. */
static kept_element *name_element(kept_element *all, uint32_t *n, const sn_stmt_rec *r, uint32_t nest) {
    uint32_t number = 0;
    for (uint32_t k = 0; k < *n; k++) {
        if (!sn_buf_eq(all[k].buf, r->buf) || !all[k].ix.i) continue;
        if (sn_ix_eq(all[k].ix, r->ix)) return NULL;
        number++;
    }
    for (uint32_t k = 0; k < *n; k++)
        if (sn_buf_eq(all[k].buf, r->buf) && all[k].number == number) return all[k].ix = r->ix, &all[k];
    if (*n == MOST_KEPT) return NULL;
    all[*n] = (kept_element){r->buf, r->ix, number, nest};
    return &all[(*n)++];
}

uint32_t sn_schedule_kept(uint32_t *widest, const sn_module *m, const sn_schedule_shape *sh) {
    kept_element all[MOST_KEPT];
    uint32_t n = 0, kept = 0;
    *widest = 0;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        sn_stmt end = sn_stmt_walk_skip(m, sh->nests[i].top);
        for (uint32_t k = 0; k < n; k++) all[k].ix = (sn_ix){0};
        for (sn_stmt s = sh->nests[i].top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            kept_element *of = r->buf.i ? name_element(all, &n, r, i) : NULL;
            if (!of || r->op != SN_LOP_LOAD || of->nest >= i) continue;
            uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
            kept += bytes;
            if (bytes > *widest) *widest = bytes;
            of->nest = UINT32_MAX; /* counted */
        }
    }
    return kept;
}

/* Is something of so many bytes loaded along the rows that is not of them, as weights are? It begins elsewhere in a vector than they do. */
static bool has_weights(const sn_module *m, const sn_schedule_shape *sh, int64_t bytes) {
    for (sn_nest_access a = {0}; sn_schedule_next_access(&a, m, sh);) {
        const sn_stmt_rec *r = sn_stmt_get(m, a.s);
        const sn_chain *c = &a.nest->chain;
        bool of_row = false;
        if (!sn_loads(r) || !c->n || !sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, c->at[c->n - 1]))) continue;
        for (uint32_t k = 0; k < sh->outer.n; k++)
            of_row |= sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, sh->outer.at[k]));
        if (!of_row && sn_buf_bytes(m, r->buf) >= bytes) return true;
    }
    return false;
}

static rows look_at_rows(sn_module *m, const sn_schedule_shape *sh) {
    rows ro = {.sh = sh};
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        const sn_schedule_nest *nest = &sh->nests[i];
        const sn_stmt_rec *r = sn_stmt_get(m, nest->top);
        sn_stmt last = nest->chain.at[nest->chain.n - 1];
        if (nest->least_inner) {
            sn_schedule_smaller(&ro.bytes, nest->least_inner);
            ro.divisor = sn_schedule_gcd(ro.divisor, sn_ix_value(m, sn_stmt_extent(m, last)));
        }
        ro.divisor = sn_schedule_gcd(ro.divisor, nest->count);
        ro.weighs |= r->op == SN_LOP_REDUCE && carries(r, SN_SECOND_WEIGHT);
        ro.positions |= r->op == SN_LOP_REDUCE && carries(r, SN_SECOND_POSITION);
        if (r->op == SN_LOP_REDUCE && carried(m, r) > ro.states) ro.states = carried(m, r);
        ro.exchanges += r->op == SN_LOP_REDUCE;
        look_at_nest(&ro, m, nest->top);
    }
    ro.online = sh->n_nests == 1 && carries(sn_stmt_get(m, sh->nests[0].top), SN_SECOND_WEIGHT);
    ro.once = sh->n_nests == 1 && !sh->scans && sn_stmt_get(m, sh->nests[0].top)->op == SN_LOP_REDUCE;
    ro.alone = ro.once && sn_stmt_get(m, sh->nests[0].top)->n_combs == 1;
    ro.kept = sn_schedule_kept(&ro.widest, m, sh);
    ro.again = sh->n_nests && sn_schedule_has_parts(m, sh) ? sh->n_nests - 1 : 0;
    ro.both = ro.again && sh->about.i && sn_schedule_stands_alone(m, sh);
    ro.weights = has_weights(m, sh, sh->max_count);
    ro.late = ro.bytes && ro.bytes < SN_WIDEST_ACCESS && sn_schedule_rows_late(m, sh, SN_WIDEST_ACCESS / ro.bytes);
    return ro;
}

/* ---- figures ---- */

/* Vectors of `vector` elements of `size` bytes that lie one behind the other, in accesses of a row or to what all rows have in common. */
static bool is_of_vectors(sn_module *m, const sn_schedule_shape *sh, const sn_schedule_nest *nest, uint32_t size,
                          uint32_t vector) {
    sn_stmt end = sn_stmt_walk_skip(m, nest->top);
    for (sn_stmt s = nest->top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        int64_t c;
        if (!sn_is_access(r)) continue;
        if (r->has_mask || sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype) != size || sn_ix_uses_vals(m, r->ix))
            return false;
        if (!sn_ix_coef(m, r->ix, sn_stmt_axis(m, nest->top), &c) || c != 1) return false;
        for (uint32_t k = 0; k < sh->outer.n; k++)
            if (!sn_ix_coef(m, r->ix, sn_stmt_axis(m, sh->outer.at[k]), &c) || c % vector) return false;
    }
    return true;
}

bool sn_schedule_few_vectors(const sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    sn_module *m = cx->m;
    uint32_t size = sh->n_nests ? sh->nests[0].least_inner : 0, v = size ? SN_WIDEST_ACCESS / size : 1;
    int64_t n = sh->max_count / v;
    bool few = cx->target->is_gpu && size > 1 && v > 1 && sn_widest(cx, size) >= v && sh->max_count % v == 0 && n > 1 &&
               n <= SN_LEAST_THREADS && (n & (n - 1)) == 0 && !sh->scans && !sh->mixed && !sh->team && !sh->windows &&
               !sh->reused && !sh->lanes_are_rows;
    bool along = false; /* something is stored along them */
    for (uint32_t i = 0; i < sh->n_nests && few; i++) {
        const sn_schedule_nest *nest = &sh->nests[i];
        const sn_stmt_rec *r = sn_stmt_get(m, nest->top);
        along |= r->op != SN_LOP_REDUCE;
        few = nest->chain.n == 1 && !nest->waits && nest->count == sh->max_count &&
              is_of_vectors(m, sh, nest, size, v) && !(r->op == SN_LOP_REDUCE && carries(r, SN_SECOND_POSITION));
    }
    return few && (along || n < SN_LEAST_THREADS);
}

/* Four vectors a thread (eight when they are single elements, three times as many halves; two of a short row's eight)
 * fill the pipes; more threads for a row only add exchange. */
static uint32_t row_threads(int64_t count, uint32_t vector, uint32_t bytes, bool once, bool kept) {
    bool narrow = vector == 1 || (bytes == 2 && vector * bytes == SN_WORD);
    uint32_t each = narrow                                 ? (bytes <= 2 ? SN_ROW_HALVES : SN_ROW_SINGLES)
                    : vector == 8 && count <= SN_SHORT_ROW ? SN_SHORT_VECTORS * vector
                                                           : SN_ROW_VECTORS * vector,
             threads = sn_pow2_floor(count / each);
    if (narrow && !kept && count >= 8 * SN_WARP && threads < SN_WARP) return SN_WARP;
    if (once && vector * bytes >= SN_WIDEST_ACCESS)
        return sn_least(threads < SN_LEAST_ONCE ? SN_LEAST_ONCE : threads, SN_MOST_ROW_THREADS);
    if (threads < SN_LEAST_THREADS) return SN_LEAST_THREADS;
    return threads < SN_MOST_ROW_THREADS ? threads : SN_MOST_ROW_THREADS;
}

/* Elements from the first vector of a row to the end of its last one, at most. */
static int64_t row_reach(const rows *ro, const sn_sched *sc) {
    return ro->sh->max_count + (ro->sh->max_count % sc->vector || ro->late ? sc->vector - 1 : 0);
}

static uint32_t vectors_per_thread(const rows *ro, const sn_sched *sc) {
    int64_t step = (int64_t)sc->block_x * sc->vector * sn_sched_cluster(sc);
    int64_t n = (row_reach(ro, sc) + step - 1) / step;
    return n > 1 << 20 ? 1 << 20 : (uint32_t)n;
}

/* Beside rows of threads that a header asks for. */
static uint32_t most_threads(const sn_target *t, const sn_sched *sc) {
    if (sc->block_y <= 1) return t->max_threads;
    return sc->block_y < t->max_threads ? sn_pow2_floor(t->max_threads / sc->block_y) : 1;
}

/* A row that is read once and not kept: what counts is loads in flight, 80 to 128 KB on a multiprocessor of an H200, in
 * as many blocks as leave 64 registers a thread: some compute or combine while others wait for memory. Few steps beyond
 * the row's end. */
static void choose_once(const sn_target *t, const rows *ro, sn_sched *sc) {
    sn_range loads = sn_loads_ahead(t);
    uint32_t bytes = sc->vector * ro->bytes, narrower = bytes && bytes < t->vector_bytes ? t->vector_bytes / bytes : 1;
    for (; narrower > 1 && 2 * loads.lo <= SN_ONCE_LOADS; narrower /= 2) loads.lo *= 2, loads.hi *= 2;
    if (loads.hi > SN_ONCE_LOADS && loads.hi > loads.lo) loads.hi = loads.lo > SN_ONCE_LOADS ? loads.lo : SN_ONCE_LOADS;
    if (!sc->block_x) sc->block_x = sn_least(SN_ONLINE_THREADS, most_threads(t, sc));
    if (!sc->block_y) sc->block_y = 1;
    uint32_t n = vectors_per_thread(ro, sc), best = UINT32_MAX, spare = bytes < t->vector_bytes ? 0 : n / SN_ONCE_STEPS;
    for (uint32_t u = (uint32_t)loads.hi, pinned = sc->unroll; u >= loads.lo && !pinned; u--) {
        uint32_t steps = (n + u - 1) / u * u;
        if (steps + spare < best) best = steps, sc->unroll = u;
    }
    if (!sc->min_blocks && sc->block_x * sc->block_y <= SN_ONLINE_THREADS)
        sc->min_blocks = sn_once_blocks(sc->vector, ro->online);
}

/* Threads, no more than `most`, and unroll, no less than `least`, that leave the least of a row's room empty: all steps of a thread have their
 * place in it. Returns the room, of elements. */
static int64_t fit_steps(const rows *ro, uint32_t most, uint32_t least, sn_sched *sc) {
    static const uint32_t THREADS[] = {256, 288, 224, 320, 192, 160, 128}; /* the last two where no others fit */
    enum { USUAL = 5, LONE = 3 };
    int64_t best = INT64_MAX;
    sn_sched pinned = *sc;
    for (uint32_t i = 0; i < SN_COUNT(THREADS) && (i < USUAL || best == INT64_MAX || sc->block_x < THREADS[USUAL - 1]);
         i++)
        for (uint32_t unroll = SN_SHARED_UNROLL; unroll >= least; unroll--) {
            uint32_t threads = most ? THREADS[i] : THREADS[i] * LONE;
            uint32_t x = pinned.block_x ? pinned.block_x : threads, u = pinned.unroll ? pinned.unroll : unroll;
            int64_t step = (int64_t)x * pinned.vector * sn_sched_cluster(&pinned);
            int64_t steps = (row_reach(ro, &pinned) + step - 1) / step, room = (steps + u - 1) / u * u * step;
            if ((most && threads > most) || room >= best) continue;
            best = room;
            sc->block_x = x;
            sc->unroll = u;
        }
    return best;
}

/* Blocks of a multiprocessor that have room for their part of so many elements, and for their threads. */
static int64_t blocks_beside(const sn_target *t, const rows *ro, int64_t room, const sn_sched *sc) {
    int64_t blocks =
        (t->shared_bytes + SN_SHARED_SYSTEM) / (ro->kept * room / sn_sched_cluster(sc) + SN_SHARED_RESERVED);
    uint32_t most = sn_least(SN_RESIDENT_OTHER / sc->block_x, SN_SHARED_BLOCKS);
    return blocks < most ? blocks : most;
}

/* Threads of each of so many blocks that have room for their parts, at most. Those of a cluster wait for each other: all of these are to be
 * there at once, and some of them load or store meanwhile. 0: a block is alone on its multiprocessor, and has three times as many. */
static uint32_t threads_beside(const rows *ro, const sn_sched *sc, int64_t blocks) {
    if (blocks < 2) return 0;
    if (sn_sched_cluster(sc) < 2 || ro->sh->ops <= SN_FEW_OPS) return SN_RESIDENT_OTHER;
    uint32_t most = SN_RESIDENT_OTHER / (blocks < SN_SHARED_BLOCKS ? (uint32_t)blocks : SN_SHARED_BLOCKS);
    return most < SN_CLUSTER_THREADS ? SN_CLUSTER_THREADS : most;
}

/* Vectors of a thread that are few a turn are more, if as many blocks still have room. */
static void choose_steps(const sn_target *t, const rows *ro, uint32_t most, sn_sched *sc) {
    enum { FEWEST = 2 };
    sn_sched more = *sc, open = *sc;
    int64_t room = fit_steps(ro, most, FEWEST, sc), other = fit_steps(ro, most, SN_SHARED_LEAST, &more);
    bool one_turn = vectors_per_thread(ro, sc) <= sc->unroll;
    if (open.unroll || sc->unroll >= SN_SHARED_LEAST || one_turn) return;
    if (blocks_beside(t, ro, other, &more) >= blocks_beside(t, ro, room, sc)) *sc = more;
}

/* Are there so few rows that as many more blocks would still leave multiprocessors idle, and long ones? */
static bool few_rows(const sn_target *t, const rows *ro, uint32_t blocks) {
    return t->cluster > 1 && ro->kept && ro->sh->rows * blocks * 2 <= t->units &&
           ro->sh->max_count >= 2 * SN_CLUSTER_PART * (int64_t)blocks;
}

/* Blocks of a multiprocessor that have room for their parts of a row which so many blocks share. */
static int64_t blocks_of_part(const sn_target *t, int64_t bytes, uint32_t cluster) {
    return (t->shared_bytes + SN_SHARED_SYSTEM) / (bytes / cluster + SN_SHARED_RESERVED);
}

/* Clusters of Hopper may be twice as large as those that any processor has: where so many blocks of them have room on a multiprocessor, and
 * fewer than four of the others, some load or store while others reduce. */
static bool is_for_wide(const sn_target *t, const rows *ro, int64_t bytes, int64_t least) {
    int64_t blocks = blocks_of_part(t, bytes, t->cluster);
    if (t->sm != SN_HOPPER || blocks >= SN_WIDE_BLOCKS || few_rows(t, ro, t->cluster)) return false;
    if (ro->weights && ro->exchanges > 1 && blocks < SN_WIDE_WEIGHTS) return false;
    if (ro->exp && ro->widest > SN_WORD) return false; /* which take longer than what waits */
    return blocks_of_part(t, bytes, SN_WIDE_CLUSTER) >= least;
}

/* A row that does not fit in the registers of a block stays in shared memory, of a cluster where one block has too
 * little. Small blocks in large clusters: the more of them a multiprocessor has, the more of them load or store while
 * others reduce. *at_once: rows that are done together; false: there is no room. wide_blocks: that there have to be of a wide cluster. */
static bool keep_in_cluster(int64_t *at_once, const sn_target *t, const rows *ro, int64_t wide_blocks, sn_sched *sc) {
    int64_t all = t->shared_bytes + SN_SHARED_SYSTEM, bytes = ro->kept * ro->sh->max_count;
    uint32_t cluster = sn_sched_cluster(sc);
    while (!sc->cluster && sc->block_y <= 1 && cluster < t->cluster && /* the blocks of a cluster share one row */
           (bytes / cluster > all / SN_SHARED_BLOCKS - SN_SHARED_RESERVED || few_rows(t, ro, cluster)))
        cluster *= 2;
    bool wide = !sc->cluster && cluster == t->cluster && is_for_wide(t, ro, bytes, wide_blocks);
    if (wide) cluster = SN_WIDE_CLUSTER;
    if (bytes > (int64_t)(t->shared_bytes - SN_SHARED_RESERVED) * cluster) return false;
    if (cluster > 1) sc->cluster = cluster;
    sc->shared = true;
    uint32_t blocks = (uint32_t)blocks_of_part(t, bytes, cluster);
    if (wide && ro->sh->ops > SN_FEW_OPS) blocks = SN_WIDE_BLOCKS; /* of whole 256 threads */
    choose_steps(t, ro, threads_beside(ro, sc, blocks), sc);
    if (!sc->block_y) sc->block_y = 1;
    uint32_t resident = sn_least(t->unit_threads, ro->sh->ops <= SN_FEW_OPS
                                                      ? SN_RESIDENT_SIMPLE
                                                      : SN_RESIDENT_OTHER); /* threads, as far as registers reach */
    uint32_t most = resident / (sc->block_x * sc->block_y);
    if (!sc->min_blocks && blocks > 1 && most > 1) sc->min_blocks = sn_least(blocks, most);
    *at_once = (int64_t)t->units * (sc->min_blocks ? sc->min_blocks : 1) * sc->block_y / cluster;
    return true;
}

static sn_team_rows team_of(const rows *ro, const sn_sched *sc) {
    bool tests = ro->sh->rows > 1 && ro->sh->max_count % sc->vector;
    return (sn_team_rows){.rows = ro->sh->rows,
                          .reach = row_reach(ro, sc),
                          .kept = ro->kept,
                          .states = ro->states,
                          .exchanges = ro->exchanges - (ro->sh->about.i != 0), /* meet_once.c */
                          .tests = tests,
                          .again = ro->both ? 1 : ro->again,
                          .both = ro->both};
}

sn_row_parts sn_schedule_row_parts(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    rows ro = look_at_rows(cx->m, sh);
    sn_row_parts none = {0};
    if (!cx->target->is_gpu || !sc->teams || !sc->shared || !sc->unroll || !ro.kept || !ro.again) return none;
    sn_team_rows of = team_of(&ro, sc);
    sn_row_parts parts = sn_schedule_team_parts(cx->target, &of, sc);
    parts.both = ro.both;
    return parts.stay < sn_ceil_div(vectors_per_thread(&ro, sc), sc->unroll) ? parts : none;
}

/* Does a team keep the row (teams.c)? Where a cluster does, too, of long rows alone; where none does and rows are many, if that
 * takes less time than reading them again. Few rows have become one kernel for it (passes/fuse/match.c). */
static bool keep_in_team(double *cycles, const sn_target *t, const rows *ro, const sn_sched *cluster, sn_sched *sc) {
    int64_t bytes = ro->kept * ro->sh->max_count;
    sn_team_rows of = team_of(ro, sc);
    if (!sc->teams) {
        bool once = ro->sh->about.i && !ro->weights; /* meet_once.c: blocks wait once for each other */
        if (cluster && cluster->min_blocks > 1 && of.again > 1 && !once) of.again = 0; /* it reads none three times */
        if (of.rows >= t->units) of.again = 0; /* a block has a row as a whole, of which the cache has a part */
        if (sc->cluster || sc->block_y > 1 || sn_mul_clamped(of.rows, bytes) < SN_TEAM_BYTES) return false;
        if (cluster ? bytes < SN_TEAM_ROW
                    : of.rows >= t->units &&
                          !sn_team_pays(t, &(sn_team_need){of.rows, bytes, of.exchanges, of.again, .together = false}))
            return false;
    }
    return sn_schedule_choose_team(cycles, t, &of, sc);
}

/* ... and a wide cluster of four blocks, rather than a team of many turns. */
static void keep_in_shared(const sn_target *t, const rows *ro, sn_sched *sc) {
    sn_sched team = *sc, cluster = *sc;
    double of_team;
    int64_t at_once = 1;
    if (!ro->kept || !t->is_gpu) return;
    bool has_cluster = !sc->teams && keep_in_cluster(&at_once, t, ro, SN_WIDE_BLOCKS + 1, &cluster);
    bool has_team = keep_in_team(&of_team, t, ro, has_cluster ? &cluster : NULL, &team);
    if (has_cluster && has_team) {
        sn_team_rows of = team_of(ro, sc);
        of.reach = ro->sh->max_count, of.exchanges = ro->exchanges;
        double of_cluster =
            sn_schedule_count_clusters(t, &of, at_once < 1 ? 1 : at_once, cluster.min_blocks ? cluster.min_blocks : 1);
        has_team = of_team * SN_TEAM_BETTER < of_cluster * 100;
    }
    sn_sched wide = *sc;
    if (has_team && !sc->teams && keep_in_cluster(&at_once, t, ro, SN_WIDE_BLOCKS, &wide) &&
        wide.cluster == SN_WIDE_CLUSTER && ro->sh->rows >= SN_WIDE_TURNS * at_once)
        *sc = wide;
    else if (has_team) *sc = team;
    else if (has_cluster) *sc = cluster;
}

/* Is there room in the registers of a block for what is kept of a row? */
static bool has_room(const rows *ro) {
    enum { LANES = 8 };
    int64_t odd = ro->sh->max_count % LANES ? LANES - 1 : 0; /* vectors may begin before the row and end behind it */
    return !ro->kept || ro->sh->max_count + odd <= sn_row_registers(ro->kept);
}

/* Halves are wider in registers than in memory: long rows of them have it better in shared memory, where their accesses are wide. So have rows
 * for which a block would be alone on its multiprocessor, where clusters have room for several parts of them there, and long rows of f64 of which
 * exponentials are added up: these take as long as a third of the loads, and of more blocks some load meanwhile. Not so rows of floats with weights
 * that are done one at a time: their weights take what there is to gain. */
static bool fits_registers(const sn_target *t, const rows *ro) {
    bool wide = ro->divisor % 2 == 0 && ro->sh->ops > SN_FEW_OPS;
    bool narrow = ro->kept == 2 || (ro->together > 1 && ro->widest == 2);
    int64_t bytes = ro->sh->max_count * ro->kept, halves = narrow ? bytes / 2 : 0;
    if (ro->widest > SN_WORD && ro->exp && ro->sh->max_count > SN_LONG_DOUBLES && ro->divisor % 2 == 0) return false;
    if (halves > SN_LONG_HALVES && wide) return false;
    if (halves > SN_ALONE_HALVES) return false;
    bool by_lanes = ro->weights && ro->widest == SN_WORD && ro->together < 2;
    if (t->cluster > 1 && bytes > SN_ROW_ALONE && !by_lanes) return false;
    return !few_rows(t, ro, 1) && has_room(ro);
}

bool sn_schedule_row_is_open(const sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    if (cx->target->is_gpu || sh->mixed) return false;
    for (uint32_t i = 0; i < sh->n_nests; i++)
        if (sh->nests[i].chain.n != 1 || !sh->nests[i].perfect) return false;
    return true;
}

/* On the CPU: whole vectors, of which the last one is tested; elements of less than four bytes are loaded one by one
 * there, which pays behind others. */
static uint32_t open_vector(const rows *ro, uint32_t wide, uint32_t even, uint32_t bytes) {
    uint32_t v = ro->sh->max_count < wide ? sn_pow2_ceil((uint32_t)ro->sh->max_count) : wide;
    if (ro->positions || !ro->divisor || (bytes < 4 && ro->sh->max_count < 2 * (int64_t)v)) return even;
    return v;
}

/* Rows of halves that no word begins, too short for wide vectors that start before them: words that do, two tests each in the first one and
 * the last. A warp loads and stores whole lines by them, and weights lane by lane as it would anyway. */
static uint32_t word_vector(sn_pass_ctx *cx, const rows *ro, uint32_t even, uint32_t bytes) {
    if (bytes != 2 || even * bytes >= SN_WORD || ro->sh->max_count < SN_ODD_WORDS * SN_WARP) return even;
    return sn_schedule_row_lead(cx->m, ro->sh, SN_WORD / bytes).i ? SN_WORD / bytes : even;
}

/* Vectors that divide a row, but no wider than parts of rows that stay begin with, where that is a word: lanes of others would be loaded one by one, each a
 * vector away from its neighbour's. So are those of rows that no word begins, whatever they are. */
static uint32_t even_vector(sn_pass_ctx *cx, const rows *ro, uint32_t wide, uint32_t bytes) {
    uint32_t even = sn_least(wide, sn_pow2_divisor(ro->divisor));
    int64_t at;
    if (!cx->target->is_gpu || ro->sh->n_nests < 2 || ro->late) return even;
    for (uint32_t v = even; v && v * bytes >= SN_WORD; v /= 2) {
        sn_ix lead = sn_schedule_row_lead(cx->m, ro->sh, v);
        if (v == 1 || !lead.i || sn_ix_is_const(cx->m, lead, &at)) return v;
    }
    return even;
}

/* Vectors that divide a row, or wide ones that start before it and end behind it (inner.c). Those cost a test a
 * lane: it pays in long rows, whose threads have many vectors, where a lane does little else. Threads that scan put
 * together what they have once a vector, which takes more than the tests of its lanes. */
static uint32_t row_vector(sn_pass_ctx *cx, const rows *ro, uint32_t bytes) {
    uint32_t wide = ro->once ? sn_widest_alone(cx, bytes) : sn_widest(cx, bytes),
             even = even_vector(cx, ro, wide, bytes);
    if (even < wide && sn_schedule_row_is_open(cx, ro->sh)) return open_vector(ro, wide, even, bytes);
    if (!cx->target->is_gpu || even == wide) return even;
    bool of_warp = ro->sh->scans && sn_warp_scans(ro->sh->max_count, bytes, wide);
    if (of_warp || (ro->sh->scans && ro->sh->max_count >= SN_SCAN_LEAD * (int64_t)wide))
        return sn_schedule_row_lead(cx->m, ro->sh, wide).i ? wide : even;
    if (even * bytes >= SN_WIDE_ENOUGH && ro->sh->max_count * bytes < SN_TEAM_ROW) return even;
    if (ro->sh->max_count < (ro->alone ? sn_odd_row(wide, bytes) : SN_LONG_ODD_ROW))
        return word_vector(cx, ro, even, bytes);
    bool words = bytes == 2 && even * bytes == SN_WORD && ro->sh->max_count * bytes < SN_TEAM_ROW;
    if (words && ro->together < 2 && has_weights(cx->m, ro->sh, 0)) return even;
    return sn_schedule_row_lead(cx->m, ro->sh, wide).i ? wide : even;
}

/* Are the elements that nests load at places that they load or compute, or a few apart, as a channel of pixels is? The CPU has vectors
 * of such. */
static bool has_lanes_apart(sn_module *m, const sn_schedule_shape *sh) {
    bool any = false;
    for (sn_nest_access a = {0}; sn_schedule_next_access(&a, m, sh);) {
        const sn_stmt_rec *r = sn_stmt_get(m, a.s);
        const sn_chain *nest = &a.nest->chain;
        sn_axis last = sn_stmt_axis(m, nest->at[nest->n - 1]);
        int64_t step;
        if (!sn_ix_uses_vals(m, r->ix) && !sn_ix_uses_axis(m, r->ix, last)) continue;
        bool apart = sn_ix_coef(m, r->ix, last, &step) && llabs(step) <= SN_MOST_APART;
        if (!sn_loads(r) || (!apart && !sn_ix_uses_vals(m, r->ix))) return false;
        any = true;
    }
    return any;
}

/* Has every multiprocessor a row, but do blocks follow each other so little that it rests while one begins and another
 * ends? */
static bool in_few_turns(const sn_target *t, const rows *ro) {
    return ro->sh->rows >= t->units && ro->sh->rows <= (int64_t)SN_ONLINE_TURNS * SN_ONLINE_BLOCKS * t->units;
}

/* Bytes that nothing reads again stay words (codegen-llvm/packed.c). */
static bool is_packed(const rows *ro) { return ro->once && ro->bytes == 1; }

/* Rows of bytes that a block of the most threads would step through a few times, the last time with little left to do. */
static bool is_of_bytes(const rows *ro, const sn_sched *sc) {
    return ro->bytes == 1 && sc->vector > 1 &&
           ro->sh->max_count > (int64_t)SN_ROW_VECTORS * sc->vector * SN_ONLINE_THREADS;
}

/* How much of all turns of blocks, of so many threads and a row each, is done by as many as there is room for. */
static double fullness(const sn_target *t, const rows *ro, uint32_t threads) {
    double turns = (double)ro->sh->rows * threads / ((double)t->units * SN_ROW_RESIDENT);
    return turns <= 1 ? 1 : turns / ceil(turns);
}

/* Blocks that are half as long make up for a last turn of few: a scan is bound by what its blocks wait for, not by their threads. */
static void fill_turns(const sn_target *t, const rows *ro, sn_sched *sc) {
    while (sc->block_x > SN_SCAN_LEAST &&
           fullness(t, ro, sc->block_x / 2) * 100 > fullness(t, ro, sc->block_x) * (100 + SN_SCAN_FULLER))
        sc->block_x /= 2;
}

/* Elements of a row that a thread has in registers, at most. */
static uint32_t most_each(const rows *ro) {
    if (is_packed(ro)) return SN_ROW_BYTES;
    return ro->bytes <= 2 ? SN_ROW_REGS / 2 : SN_ROW_REGS; /* halves widen */
}

/* Threads of a row that stays in registers are as many warps as it takes, not a power of two of them, where a multiprocessor has more rows at a
 * time for it. */
static void spare_threads(const sn_target *t, const rows *ro, sn_sched *sc) {
    uint32_t n = vectors_per_thread(ro, sc), most = sn_least(SN_ROW_VECTORS, most_each(ro) / sc->vector);
    int64_t reach = row_reach(ro, sc);
    if (!ro->kept || !has_room(ro) || sc->vector * ro->bytes < t->vector_bytes) return;
    for (uint32_t u = n; u <= most; u++) {
        uint32_t x = (uint32_t)sn_ceil_div(reach, (int64_t)u * sc->vector * SN_WARP) * SN_WARP;
        if (x < SN_SPARE_THREADS || ro->sh->rows * x < (int64_t)t->units * SN_IDLE_THREADS) continue;
        if (SN_ROW_RESIDENT / x > SN_ROW_RESIDENT / sc->block_x) sc->block_x = x;
    }
}

static void choose_row(sn_pass_ctx *cx, const rows *ro, sn_sched *sc) {
    const sn_target *t = cx->target;
    uint32_t threads = most_threads(t, sc);
    bool shared = sc->shared || (t->is_gpu && ro->kept && !sc->persistent && !fits_registers(t, ro));
    uint32_t width = shared ? ro->widest : ro->bytes; /* in shared memory a thread has 16 bytes, then its neighbour */
    if (!t->is_gpu && !width && has_lanes_apart(cx->m, ro->sh)) width = SN_WORD;
    bool few = !sc->block_x && sn_schedule_few_vectors(cx, ro->sh) &&
               (!sc->vector || sc->vector * ro->bytes == SN_WIDEST_ACCESS);
    if (!sc->vector) sc->vector = few ? SN_WIDEST_ACCESS / ro->bytes : row_vector(cx, ro, width);
    if (t->is_gpu && !ro->kept && ro->sh->max_count > SN_LONG_ROW &&
        (ro->online || (ro->once && (in_few_turns(t, ro) || ro->positions || is_of_bytes(ro, sc))))) {
        choose_once(t, ro, sc);
        return;
    }
    if (ro->sh->scans)
        sc->cluster = sc->teams = 0, sc->shared = false; /* blocks run in no order; a row is walked once */
    else if (sc->shared || (!sc->persistent && !fits_registers(t, ro))) keep_in_shared(t, ro, sc);
    if (!sc->block_x && !t->is_gpu) sc->block_x = 1;
    if (!sc->block_x) {
        sc->block_x = row_threads(ro->sh->max_count, sc->vector, ro->bytes, ro->once, ro->kept && !ro->stores);
        if (few) sc->block_x = (uint32_t)(ro->sh->max_count / sc->vector);
        bool of_warp = t->is_gpu && ro->sh->scans && sn_warp_scans(ro->sh->max_count, ro->bytes, sc->vector);
        if (of_warp) sc->block_x = SN_WARP;
        if (of_warp && !sc->block_y && ro->sh->rows >= SN_SCAN_WARP_ROWS * (int64_t)t->units)
            sc->block_y = SN_SCAN_WARP_ROWS;
        while (sc->block_x < threads) {
            uint32_t n = vectors_per_thread(ro, sc);
            bool too_long = n * sc->vector > most_each(ro);
            too_long &= !ro->sh->scans; /* more threads wait for each other longer */
            bool idle = ro->sh->rows * sc->block_x < (int64_t)t->units * SN_IDLE_THREADS && n > 2;
            if (!too_long && !idle) break;
            sc->block_x *= 2;
        }
        if (sc->block_x > threads) sc->block_x = threads;
        if (ro->sh->scans && ro->bytes <= SN_BANK) fill_turns(t, ro, sc);
        if (!ro->sh->scans && t->is_gpu) spare_threads(t, ro, sc);
    }
    if (!sc->block_y) {
        bool alone = !t->is_gpu || sc->block_x >= SN_ALONE_THREADS ||
                     ro->sh->max_count * (ro->bytes + ro->stores) >= SN_ALONE_BYTES;
        sc->block_y = alone ? 1 : SN_ALONE_THREADS / sc->block_x;
        /* Short rows that are read once: a block takes as long to begin as for what would be ALONE_BYTES. */
        while (!alone && ro->once && sc->block_x * sc->block_y < SN_SHORT_ROWS_THREADS &&
               2 * ro->sh->max_count * ro->bytes * sc->block_y <= SN_ALONE_BYTES)
            sc->block_y *= 2;
        if (few) sc->block_y = (ro->stores ? SN_ELEMENT_THREADS : SN_SHORT_ROWS_THREADS) / sc->block_x;
        while (sc->block_y > 1 && ro->sh->rows < (int64_t)sc->block_y * t->units) sc->block_y /= 2;
    }
    uint32_t n = vectors_per_thread(ro, sc);
    if (!sc->unroll && ro->sh->scans) {
        sc->unroll = t->is_gpu ? sn_steps_ahead(n, sc) : 1;
        if (ro->bytes == 2 && ro->sh->max_count % sc->vector) sc->unroll = sn_least(sc->unroll, SN_SCAN_ODD_HALVES);
    }
    bool fits =
        t->is_gpu && n * sc->vector <= (is_packed(ro) && sc->vector > 1 ? SN_ROW_BYTES : SN_ROW_REGS) && has_room(ro);
    if (!sc->unroll) sc->unroll = fits ? n : sn_least(SN_REST_UNROLL, n);
    sc->persistent = t->is_gpu && !sc->shared && sc->unroll >= n;
}

/* A pinned vector has to leave no odd lanes in a row, unless vectors can start before it or end behind it. */
static sn_status check_row(const sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_sched *sc) {
    const char *name = sn_kern_get(cx->m, k)->name;
    for (uint32_t i = 0; i < sh->n_nests; i++)
        if (sh->nests[i].count % sc->vector && !sn_schedule_row_is_open(cx, sh) &&
            !sn_schedule_row_lead(cx->m, sh, sc->vector).i)
            return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                           "kernel %s: the schedule's vector=%u does not divide a row of %lld", name, sc->vector,
                           (long long)sh->nests[i].count);
    SN_TRY(sn_schedule_check_teams(cx, k, sc));
    if (sn_sched_cluster(sc) > 1 && sc->block_y > 1)
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                       "kernel %s: the schedule's cluster=%u shares one row: block_y=%u is not possible", name,
                       sc->cluster, sc->block_y);
    return SN_OK;
}

sn_status sn_schedule_complete_row(sn_sched *sc, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    rows ro = look_at_rows(cx->m, sh);
    ro.late &= cx->target->is_gpu;
    sc->cls = SN_SCHED_INNER;
    if (sh->team) sc->block_x = SN_WARP, sc->block_y = sh->team; /* a row of threads is a warp: it scans by shuffles */
    choose_row(cx, &ro, sc);
    return check_row(cx, k, sh, sc);
}

/* ---- nests ---- */

/* So parts of rows do that no vectors begin, whose length is a multiple of vectors: each begins as its row does. Those that are read once: a part
 * that stays for a second sum has tests in all of its vectors (variances of f16[55, 1234999] 72 us for 51 on an H200). */
bool sn_schedule_rows_late(sn_module *m, const sn_schedule_shape *sh, uint32_t vector) {
    int64_t at;
    if (sh->scans || sh->n_nests != 1 || sh->rows < 2 || vector < 2 || sh->max_count % vector) return false;
    sn_ix lead = sn_schedule_row_lead(m, sh, vector);
    return lead.i && !sn_ix_is_const(m, lead, &at);
}

sn_ix sn_schedule_row_lead(sn_module *m, const sn_schedule_shape *sh, uint32_t vector) {
    sn_ix lead = {0}, a;
    if (sh->team || sh->mixed || sh->max_count < (int64_t)SN_LEAD_VECTORS * vector) return lead;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        const sn_schedule_nest *nest = &sh->nests[i];
        if (nest->count != sh->max_count) return (sn_ix){0};
        sn_axis ax = sn_axis_new(m, "p", sn_ix_const(m, nest->count));
        sn_stmt end = sn_stmt_walk_skip(m, nest->top);
        for (sn_stmt s = nest->top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            int64_t c;
            if (r->op != SN_LOP_LOAD && r->op != SN_LOP_STORE) continue;
            sn_ix e = sn_schedule_at_position(m, &nest->chain, r->ix, sn_ix_axis(m, ax));
            if (!sn_ix_coef(m, e, ax, &c) || (c < 0 && !sh->scans) || !sn_access_lead(&a, m, e, ax, vector)) continue;
            bool of_row = false;
            for (uint32_t k = 0; k < sh->outer.n; k++)
                of_row |= sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, sh->outer.at[k]));
            if (!of_row && sh->rows > 1) continue; /* weights: lane by lane */
            if (sn_ix_uses_vals(m, r->ix) || (lead.i && !sn_ix_eq(lead, a))) return (sn_ix){0};
            lead = a;
        }
    }
    return lead;
}

/* Words that other blocks post are asked for all at once, as lanes, and by neighbouring threads side by side. */
static sn_stmt bind_waiting_nest(sn_pass_ctx *cx, sn_kern k, const sn_schedule_nest *nest, const sn_sched *sc) {
    int64_t x = sc->block_x, v = nest->count / x;
    sn_level levels[] = {{"x", x, 1, SN_AXIS_BLOCK_X}, {"v", v, x, SN_AXIS_VECTOR}};
    return sn_nest_rebuild(cx, k, nest->top, &nest->chain, sn_ix_const(cx->m, 0), nest->count, levels, v > 1 ? 2 : 1);
}

sn_stmt sn_schedule_bind_row_nest(sn_pass_ctx *cx, sn_kern k, const sn_schedule_nest *nest, const sn_sched *sc) {
    sn_level levels[5];
    uint32_t n = 0;
    if (nest->waits && nest->count % sc->block_x == 0 && nest->count <= SN_ROW_POSTED * (int64_t)sc->block_x)
        return bind_waiting_nest(cx, k, nest, sc);
    int64_t v = sc->vector, x = sc->block_x, c = sn_sched_cluster(sc), step = v * x * c;
    int64_t reach = nest->count + (nest->lead.i ? v - 1 : 0), steps = (reach + step - 1) / step;
    int64_t unroll = sc->unroll < steps ? sc->unroll : steps;
    int64_t outer = unroll ? (steps + unroll - 1) / unroll : 0;
    if (c > 1) levels[n++] = (sn_level){"c", c, v * x, SN_AXIS_CLUSTER};
    if (x > 1 && !nest->scan) levels[n++] = (sn_level){"x", x, v, SN_AXIS_BLOCK_X};
    if (outer != 1) levels[n++] = (sn_level){"uo", outer, unroll * step, SN_AXIS_SEQ};
    if (unroll > 1) levels[n++] = (sn_level){"u", unroll, step, SN_AXIS_UNROLL};
    if (x > 1 && nest->scan) levels[n++] = (sn_level){"x", x, v, SN_AXIS_BLOCK_X};
    if (v > 1) levels[n++] = (sn_level){"v", v, 1, SN_AXIS_VECTOR};
    if (n == 0) levels[n++] = (sn_level){"u", 1, 1, SN_AXIS_UNROLL};
    if (nest->parts && !nest->lead.i)
        return sn_nest_rebuild_masked(cx, k, nest->top, &nest->chain, nest->count, levels, n);
    sn_ix base = nest->lead.i ? sn_ix_scale(cx->m, nest->lead, -1) : sn_ix_const(cx->m, 0);
    return sn_nest_rebuild(cx, k, nest->top, &nest->chain, base, nest->count, levels, n);
}
