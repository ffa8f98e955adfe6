/* teams.c: class inner for rows that no cluster has room for: a team of blocks keeps a row, however many it takes.
 *
 *     f32[127, 316826] on 132 multiprocessors     schedule inner block_x=256 vector=4 unroll=7 cluster=12 teams=43 min_blocks=4 shared
 *
 *     loop g in 43 : grid {                        43 teams of 12 blocks: 516, which all run at once
 *       loop r in 3 {                              row 43*r + g
 *         loop c in 12 : cluster { .. }            its parts go to shared memory; what each comes to meets in global memory
 *         loop c in 12 : cluster { .. } } }        (codegen-llvm/team.c); the second reading is one of shared memory
 *
 * Memory is read once and written once, while a kernel that reads such rows twice takes half as long again. A multiprocessor
 * has several blocks, of different rows where these are many: some load or store while others wait for their row.
 *
 * Everything that waits for a block has to run while that one does, so a launch has no more blocks than fit on the device,
 * and they take all rows in turn. As many teams as have room, or fewer if no more turns come of it: then blocks are left for
 * larger teams, whose parts are smaller.
 *
 * Of rows that the device has no room for a part stays, in shared memory and in registers, and the rest is read again (row_part.c):
 * half of memory's time is spared for what stays and for what the L2 still has. So it is where all rows have room in several turns
 * of all teams, and fewer turns, in which nobody waits, are worth more than what is read again. Fewer threads have more registers, which
 * hold more of it: what computes takes as many of each thread.
 *
 * Relies on rows.c, which asks where a row stays, and on inner.c, which binds. Does not know of several rows a block.
 */
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/teams.h"

/* Bytes of shared memory for parts of rows in each of so many blocks of a multiprocessor. */
static int64_t room_of(const sn_target *t, uint32_t resident) {
    return (int64_t)(t->shared_bytes + SN_SHARED_SYSTEM) / resident - SN_SHARED_RESERVED;
}

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

/* Of reductions, one in two areas (codegen-llvm/block.c) for each column that a warp has. */
static int64_t slots_of(const sn_team_rows *ro, const sn_sched *sc) {
    uint32_t columns = ro->columns ? ro->columns : 1, beside = columns < SN_WARP ? SN_WARP : columns;
    return 2 * (int64_t)(sc->block_x / beside) * ro->states * columns;
}

/* Threads by which blocks differ: whole warps; of columns a power of two share one. */
static uint32_t thread_step(const sn_team_rows *ro, uint32_t threads) { return ro->columns ? threads / 2 : SN_WARP; }

/* Bytes of registers that a vector takes: single halves are words. */
static uint32_t vector_bytes(const sn_team_rows *ro, const sn_sched *sc) {
    uint32_t bytes = sc->vector * ro->kept;
    return bytes < SN_WORD ? SN_WORD : bytes;
}

/* Vectors that may be written out: of narrow ones more. */
static uint32_t written(const sn_target *t, const sn_team_rows *ro, const sn_sched *sc, uint32_t vectors) {
    uint32_t bytes = vector_bytes(ro, sc);
    return ro->columns && bytes < t->vector_bytes ? vectors * (t->vector_bytes / bytes) : vectors;
}

/* Blocks that run at once. Code for a generation runs on cards with fewer multiprocessors than the usual one, too. */
static int64_t at_once(const sn_target *t, uint32_t resident) {
    return (int64_t)resident * (t->exact ? t->units : t->units / SN_TEAM_CARDS);
}

/* Vectors of a thread that are written out together: as many as there can be, if they leave little of the room of a block empty,
 * else those that leave least; no more than fit. */
static bool choose_unroll(int64_t steps, int64_t most, uint32_t vectors, sn_sched *sc) {
    int64_t best = INT64_MAX;
    if (sc->unroll) return sn_ceil_div(steps, sc->unroll) * sc->unroll <= most;
    for (uint32_t u = (uint32_t)lesser(vectors, steps); u >= 1 && best - steps > steps / SN_TEAM_SPARE; u--) {
        int64_t all = sn_ceil_div(steps, u) * u;
        if (all > most || all >= best || (u == 1 && best < INT64_MAX)) continue;
        best = all, sc->unroll = u;
    }
    return best < INT64_MAX;
}

/* Threads of a block; false: more than registers reach for. */
static bool choose_threads(const sn_target *t, const sn_team_rows *ro, uint32_t resident, sn_sched *sc) {
    uint32_t threads = sn_least(t->unit_threads, SN_RESIDENT_OTHER) / resident / SN_WARP * SN_WARP;
    if (!sc->block_x) sc->block_x = sn_least(threads, t->max_threads);
    if (ro->columns) sc->block_x = sn_pow2_floor(sc->block_x);
    sc->block_y = 1;
    sc->min_blocks = resident;
    return sc->block_x && (int64_t)sc->block_x * resident <= sn_least(t->unit_threads, SN_RESIDENT_SIMPLE);
}

/* Blocks of so many threads, which keep whole rows; false: they have no room for one. */
static bool fit_threads(const sn_target *t, const sn_team_rows *ro, uint32_t resident, sn_sched *sc) {
    int64_t blocks = at_once(t, resident), piece = (int64_t)sc->block_x * sc->vector;
    int64_t room = (room_of(t, resident) - slots_of(ro, sc)) / (sc->stages ? sc->stages : 1);
    int64_t most = room / (piece * ro->kept);
    int64_t pieces = sn_ceil_div(ro->reach, piece);
    if (room < 0 || most < 1) return false;
    int64_t least = sc->cluster ? sc->cluster : sn_ceil_div(pieces, most);
    if (least > blocks) return false;
    if (!sc->teams) {
        int64_t turns = sn_ceil_div(ro->rows, lesser(ro->rows, blocks / least));
        sc->teams = (uint32_t)sn_ceil_div(ro->rows, turns);
    }
    if (least * sc->teams > blocks) return false; /* a header may ask for any number of them */
    if (!sc->cluster) {                           /* no block without a piece */
        int64_t each = sn_ceil_div(pieces, lesser(blocks / sc->teams, pieces));
        sc->cluster = (uint32_t)sn_ceil_div(pieces, each);
    }
    return sc->cluster > 1 && (int64_t)sc->cluster * sc->teams <= blocks &&
           choose_unroll(sn_ceil_div(pieces, sc->cluster), most, written(t, ro, sc, SN_SHARED_UNROLL), sc);
}

/* A launch of so many blocks on each multiprocessor. A thread whose steps cannot be written out several at a time waits for each: a few threads
 * less have more of them, and others divide those. */
static bool fit(const sn_target *t, const sn_team_rows *ro, uint32_t resident, sn_sched *sc) {
    bool pinned = sc->block_x || sc->unroll || ro->columns;
    if (!choose_threads(t, ro, resident, sc)) return false;
    sn_sched first = *sc;
    bool fits = fit_threads(t, ro, resident, sc);
    if (!fits || pinned || sc->unroll >= SN_SHARED_LEAST) return fits;
    for (uint32_t x = first.block_x; x > first.block_x - first.block_x / SN_TEAM_FEWER; x -= SN_WARP) {
        sn_sched one = first;
        one.block_x = x;
        if (!fit_threads(t, ro, resident, &one) || one.teams < sc->teams || one.unroll < SN_SHARED_LEAST) continue;
        *sc = one;
        break;
    }
    return true;
}

/* ---- what it takes ---- */

static double cycles_of(const sn_target *t, double bytes) { return 2 * bytes / (t->units * (double)t->cycle_bytes); }

/* Reductions that wait for another one. */
static double waits(uint32_t exchanges) { return exchanges > 1 ? exchanges - 1.0 : 0; }

double sn_schedule_count_clusters(const sn_target *t, const sn_team_rows *ro, int64_t together, uint32_t resident) {
    double rows = (double)ro->rows, n = (double)together, turns = sn_waves(rows, n), first = turns, b = resident;
    double row = cycles_of(t, (double)ro->kept * (double)ro->reach);
    double wait = SN_CLUSTER_WAIT / (1 + (b - 1) * (b - 1) * SN_CLUSTER_BESIDE / 100) +
                  SN_TEAM_EXCHANGE * waits(ro->exchanges) / (b * b);
    double in_step = resident > 1 ? SN_CLUSTER_TURNS : SN_CLUSTER_ALONE;
    if (turns > in_step) first = in_step, turns = rows / n;
    return turns * n * row + first * wait;
}

/* All rows at the speed of memory, and in each turn what their blocks wait for each other. */
static double count(const sn_target *t, double rows, double teams, double bytes, uint32_t exchanges, bool halves) {
    double turns = sn_waves(rows, teams), wait = SN_TEAM_WAIT + SN_TEAM_EXCHANGE * waits(exchanges);
    if (halves) wait *= SN_TEAM_HALVES / 100.0;
    return turns * (teams * cycles_of(t, bytes) + wait);
}

/* With the next rows on their way, what blocks wait for costs what memory is idle for once it has brought a part of these, and all of it in
 * the last turn. */
static double count_ahead(const sn_target *t, double rows, double teams, double bytes, uint32_t exchanges,
                          bool halves) {
    double turns = sn_waves(rows, teams), wait = SN_TEAM_WAIT + SN_TEAM_EXCHANGE * waits(exchanges);
    double turn = teams * cycles_of(t, bytes);
    if (halves) wait *= SN_TEAM_HALVES / 100.0;
    double hidden = turn * SN_TEAM_HIDDEN / 100;
    return turns * (turn + (wait > hidden ? wait - hidden : 0) + SN_TEAM_TURN) + wait;
}

/* Of what teams read again, the L2 has as much. */
static double near_bytes(const sn_target *t) { return (double)t->cache_bytes / SN_TEAM_CACHE; }

/* What the nests behind the first one read of rows of which `stay` bytes do: the rest, of which the L2 has what was read last. */
static double read_again(const sn_target *t, double rows, double teams, double bytes, double stay, uint32_t again) {
    double rest = bytes > stay ? bytes - stay : 0, cached = near_bytes(t) / teams;
    double near = rest < cached ? rest : cached;
    return sn_waves(rows, teams) * teams * again * cycles_of(t, rest - near + near * SN_TEAM_NEAR / 100) / 2;
}

/* Of rows that are read three times, what does not stay is in the L2: they are in one turn. */
static bool rest_is_near(const sn_target *t, double teams, double bytes, double stay, uint32_t again) {
    return again <= 1 || (bytes - stay) * teams <= near_bytes(t);
}

/* Words of all blocks of a row, which each of them reads; and what blocks of several teams on a multiprocessor spare, where teams do
 * more than a row: of one some threads load or store while those of another wait. */
static double of_blocks(const sn_target *t, const sn_team_rows *ro, const sn_sched *sc) {
    enum { WORD = 8 };
    double words = (double)sc->teams * sc->cluster * sc->cluster * WORD / ((double)t->units * SN_PRODUCT_CACHE);
    if (ro->columns) words *= (double)ro->columns * ro->states / SN_WORD;
    uint32_t most = ro->rows > sc->teams ? sn_least(sc->teams, SN_SHARED_BLOCKS) : 0;
    return words + (most > sc->min_blocks ? SN_TEAM_ALONE * (double)(most - sc->min_blocks) : 0);
}

/* ---- rows that stay in part ---- */

/* Registers of a thread, for data or not. A multiprocessor is four of them, which share out warps. */
static int64_t registers_of(const sn_sched *sc) {
    enum { PARTS = 4, GROUP = 8, MOST = 255 };
    int64_t warps = (int64_t)sn_ceil_div(sc->block_x, SN_WARP) * (sc->min_blocks ? sc->min_blocks : 1);
    return lesser(SN_FILE_REGS / PARTS / SN_WARP / sn_ceil_div(warps, PARTS) / GROUP * GROUP, MOST);
}

/* Few threads have many registers, all of them for a row that is read twice. Halves and f64 of odd rows spill there. A row that all has
 * room for that way has it better with more threads, which are done sooner with what comes last. */
static bool hold_all(sn_row_parts *parts, const sn_team_rows *ro, const sn_sched *sc, int64_t room, int64_t each) {
    int64_t registers = registers_of(sc), words = registers - SN_TEAM_BESIDE - (ro->kept > SN_WORD ? SN_TEAM_WIDE : 0);
    if (ro->again != 1 || registers < SN_TEAM_REGS || (ro->tests && ro->kept != SN_WORD)) return false;
    if (ro->tests) words -= SN_TEAM_WIDE;
    if (ro->columns) words -= 2 * ro->states / SN_WORD;            /* of two loops at a time */
    room += SN_SHARED_RESERVED - SN_SHARED_SYSTEM - SN_TEAM_SLACK; /* slots are counted */
    int64_t held = words * SN_WORD * sc->vector * ro->kept / vector_bytes(ro, sc);
    bool others = ro->kept <= SN_WORD; /* more threads hold something of f64 in shared memory alone */
    if (others && sn_sched_cluster(sc) * (room + sc->block_x * held) >= ro->reach * ro->kept) return false;
    int64_t in_registers = (int64_t)vector_bytes(ro, sc) * sc->unroll;
    bool ahead = registers >= 2 * in_registers / SN_WORD + SN_TEAM_BESIDE;
    *parts = (sn_row_parts){
        .stay = room / (sc->block_x * each), .held = words * SN_WORD / in_registers, .twice = true, .ahead = ahead};
    return true;
}

sn_row_parts sn_schedule_team_parts(const sn_target *t, const sn_team_rows *ro, const sn_sched *sc) {
    int64_t room = room_of(t, sc->min_blocks ? sc->min_blocks : 1) - slots_of(ro, sc);
    int64_t each = (int64_t)sc->vector * sc->unroll * ro->kept;
    sn_row_parts parts = {.stay = room < 0 ? 0 : room / (sc->block_x * each)};
    if (t->sm != SN_HOPPER || hold_all(&parts, ro, sc, room, each)) return parts;
    int64_t held = ro->columns ? SN_TEAM_HELD - (int64_t)(ro->states / SN_WORD) : SN_TEAM_HELD;
    if (ro->tests) held -= SN_TEAM_WIDE;
    else if (vector_bytes(ro, sc) < SN_WORD * sc->vector && !ro->columns && !ro->both)
        held *= 2, parts.words = true; /* halves stay words */
    if (ro->kept <= SN_WORD && held > 0) parts.held = held / ((int64_t)sc->vector * sc->unroll);
    return parts;
}

/* So many teams, all of which blocks there are, with what a thread has in flight in registers. */
static bool fit_part(double *cycles, const sn_target *t, const sn_team_rows *ro, int64_t teams, sn_sched *sc) {
    int64_t blocks = at_once(t, sc->min_blocks), piece = (int64_t)sc->block_x * sc->vector,
            pieces = sn_ceil_div(ro->reach, piece);
    if (!sc->cluster) sc->cluster = (uint32_t)lesser(blocks / teams, pieces);
    sc->teams = (uint32_t)teams;
    if (sc->cluster < 2 || (int64_t)sc->cluster * teams > blocks) return false;
    int64_t steps = sn_ceil_div(sn_ceil_div(pieces, sc->cluster), sc->unroll);
    sn_row_parts parts = sn_schedule_team_parts(t, ro, sc);
    if (parts.stay < 1 || parts.stay >= steps) return false;
    double of_step = (double)(sc->unroll * piece * sc->cluster * ro->kept), rows = (double)ro->rows, n = (double)teams;
    double bytes = (double)ro->reach * ro->kept, stay = (double)(parts.stay + parts.held) * of_step;
    if (!rest_is_near(t, n, bytes, stay, ro->again)) return false;
    *cycles = count(t, rows, n, bytes, ro->exchanges, ro->kept < SN_WORD) + of_blocks(t, ro, sc) + SN_TEAM_PART_WAIT +
              read_again(t, rows, n, bytes, stay, ro->again);
    return true;
}

static void better(sn_sched *best, double *cycles, const sn_sched *sc, double all) {
    if (best->cls == SN_SCHED_NONE || all < *cycles) *best = *sc, *cycles = all;
}

/* Enough in flight? */
static bool flies(const sn_target *t, const sn_team_rows *ro, const sn_sched *sc) {
    double flight = (double)sc->unroll * sc->block_x * sc->min_blocks * sc->vector * ro->kept;
    bool ahead = sn_schedule_team_parts(t, ro, sc).ahead;
    return flight * 100 >= (double)t->flight_bytes * (ahead ? SN_TEAM_AHEAD : SN_TEAM_FLIGHT);
}

/* Threads and unroll that leave little of the room of a block empty, and enough in flight, if any do. Registers reach for more vectors where
 * few threads have many. */
static void try_steps(sn_sched *best, double *cycles, const sn_target *t, const sn_team_rows *ro, int64_t teams,
                      const sn_sched *sc, uint32_t pinned_x) {
    uint32_t most = written(t, ro, sc, SN_TEAM_PART_UNROLL), step = thread_step(ro, sc->block_x);
    for (uint32_t unroll = sc->unroll ? sc->unroll : 2 * most; unroll; unroll--) {
        for (uint32_t x = sc->block_x; x && x >= sc->block_x / 2; x -= sn_least(step, x)) {
            sn_sched one = *sc;
            double all;
            one.block_x = x, one.unroll = unroll;
            bool fits = fit_part(&all, t, ro, teams, &one);
            bool wide =
                !ro->both || ro->kept >= SN_WORD; /* halves of a step are words until there are squares of them */
            bool reach = sc->unroll || unroll <= most || (wide && sn_schedule_team_parts(t, ro, &one).twice);
            if (fits && reach && (best->cls == SN_SCHED_NONE || flies(t, ro, &one))) better(best, cycles, &one, all);
            if (pinned_x) break;
        }
        if (sc->unroll) break;
    }
}

/* The more teams, the fewer turns, and the less of each row stays. What is read three times stays in one turn, in which they wait
 * twice, and what does not stay is in the L2. */
static void try_parts(sn_sched *best, double *cycles, const sn_target *t, const sn_team_rows *ro, uint32_t resident,
                      const sn_sched *sc) {
    sn_sched all = *sc;
    if (!ro->again || ro->rows < 1 || !choose_threads(t, ro, resident, &all)) return;
    for (int64_t turns = 1, last = 0;
         turns <= ro->rows && (turns == 1 || ro->again == 1 || ro->exchanges < 2 || sc->teams); turns++) {
        int64_t teams = sc->teams ? sc->teams : sn_ceil_div(ro->rows, turns);
        if (teams == last || teams > at_once(t, resident)) continue;
        try_steps(best, cycles, t, ro, teams, &all, sc->block_x);
        last = teams;
    }
}

/* ---- choosing ---- */

/* Rows of which a team has room for two: the next one is on its way while it is at work on one. */
static void try_ahead(sn_sched *best, double *cycles, const sn_target *t, const sn_team_rows *ro, uint32_t resident,
                      const sn_sched *sc) {
    sn_sched one = *sc;
    if (!one.stages) one.stages = SN_TEAM_STAGES;
    if (t->sm < SN_ASYNC_SM || ro->columns || sc->stages == 1 || (sc->min_blocks && resident != sc->min_blocks)) return;
    if (!fit(t, ro, resident, &one) || ro->rows <= one.teams) return;
    better(best, cycles, &one,
           count_ahead(t, (double)ro->rows, one.teams, (double)ro->kept * (double)ro->reach, ro->exchanges,
                       ro->kept < SN_WORD) +
               of_blocks(t, ro, &one));
}

bool sn_schedule_choose_team(double *cycles, const sn_target *t, const sn_team_rows *ro, sn_sched *sc) {
    sn_sched best = {.cls = SN_SCHED_NONE};
    for (uint32_t resident = 1; resident <= SN_SHARED_BLOCKS; resident++) {
        sn_sched one = *sc;
        try_ahead(&best, cycles, t, ro, resident, sc);
        if ((sc->min_blocks && resident != sc->min_blocks) || sc->stages > 1) continue;
        double bytes = (double)ro->kept * (double)ro->reach;
        if (fit(t, ro, resident, &one))
            better(&best, cycles, &one,
                   count(t, (double)ro->rows, one.teams, bytes, ro->exchanges, ro->kept < SN_WORD) +
                       of_blocks(t, ro, &one));
    }
    bool several = best.cls != SN_SCHED_NONE && ro->rows > best.teams, whole = sc->stages > 1;
    for (uint32_t resident = SN_TEAM_PART_BLOCKS; resident <= SN_SHARED_BLOCKS; resident++)
        if (!whole && (several || best.cls == SN_SCHED_NONE) && (!sc->min_blocks || resident == sc->min_blocks))
            try_parts(&best, cycles, t, ro, resident, sc);
    if (best.cls == SN_SCHED_NONE) return false;
    *sc = best;
    sc->shared = true;
    sc->persistent = false;
    return true;
}

/* Is what all rows are of on the chip at a time: in shared memory, in registers, of which a part is for what threads compute, or in the L2? */
static bool all_is_near(const sn_target *t, const sn_team_need *need, int64_t room) {
    enum { COMPUTE = 3 };
    double registers = (double)t->units * SN_FILE_REGS * SN_WORD * (COMPUTE - 1) / COMPUTE;
    return (double)need->rows * (double)need->bytes <= (double)room + registers + near_bytes(t);
}

bool sn_team_pays(const sn_target *t, const sn_team_need *need) {
    int64_t room = t->is_gpu ? room_of(t, 1) * at_once(t, 1) : 0, rows = need->rows, bytes = need->bytes;
    room -= room / SN_TEAM_SPARE;
    if (room < 1 || rows < 1 || bytes < 1 || sn_mul_clamped(rows, bytes) < SN_TEAM_BYTES) return false;
    double instead = 1.5 * cycles_of(t, (double)rows * (double)bytes) + SN_TEAM_AGAIN;
    if (bytes <= room && !need->together) {
        int64_t turns = sn_ceil_div(rows, lesser(rows, room / bytes)), teams = sn_ceil_div(rows, turns);
        double cycles = count(t, (double)rows, (double)teams, (double)bytes, need->exchanges, false);
        if (cycles * SN_TEAM_BETTER < instead * 100) return true;
    }
    if (2 * bytes <= room && rows > 1 && !need->together) {
        double teams = (double)lesser(rows, room / (2 * bytes));
        double cycles = count_ahead(t, (double)rows, teams, (double)bytes, need->exchanges, false);
        if (cycles * SN_TEAM_BETTER < instead * 100) return true;
    }
    if (!need->again || rows >= t->units || (need->together && !all_is_near(t, need, room))) return false;
    /* What is read three times, in one turn of all teams: they wait twice in each. */
    for (int64_t teams = need->again > 1 || need->together ? rows : 1; teams <= rows; teams++) {
        double n = (double)teams, stay = (double)(room / teams), all = (double)rows;
        if (!rest_is_near(t, n, (double)bytes, stay, need->again)) continue;
        double cycles = count(t, all, n, (double)bytes, need->exchanges, false) + SN_TEAM_PART_WAIT +
                        read_again(t, all, n, (double)bytes, stay, need->again);
        if (cycles * SN_TEAM_BETTER < instead * 100) return true;
    }
    return false;
}

sn_status sn_schedule_check_teams(const sn_pass_ctx *cx, sn_kern k, const sn_sched *sc) {
    if (sc->cls == SN_SCHED_INNER && (sc->stages > SN_MAX_PIPE || (sc->stages > 1 && !sc->teams)))
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                       "kernel %s: the schedule's stages=%u are rows of a team, %d at most%s",
                       sn_kern_get(cx->m, k)->name, sc->stages, SN_MAX_PIPE, sc->teams ? "" : ": teams is missing");
    if (!sc->teams || sn_sched_cluster(sc) > 1) return SN_OK;
    return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                   "kernel %s: the schedule's teams=%u are of one block each: cluster is missing",
                   sn_kern_get(cx->m, k)->name, sc->teams);
}
