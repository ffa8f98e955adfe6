/* figures.h: numbers that several classes take from the target: powers of two, widths, loads in flight. */
#ifndef SN_PASSES_SCHEDULE_BASE_FIGURES_H
#define SN_PASSES_SCHEDULE_BASE_FIGURES_H

#include "passes/schedule/base/schedule.h"

/* Powers of two that matter here are small: 2^30 stands for all larger ones. */
enum { SN_POW2_MOST = 1 << 30 };

static inline uint32_t sn_pow2_floor(int64_t x) {
    uint32_t p = 1;
    while (p < SN_POW2_MOST && (int64_t)p * 2 <= x) p *= 2;
    return p;
}

static inline uint32_t sn_pow2_ceil(int64_t x) {
    uint32_t p = 1;
    while (p < SN_POW2_MOST && (int64_t)p < x) p *= 2;
    return p;
}

/* Largest power of two that divides x. */
static inline uint32_t sn_pow2_divisor(int64_t x) { return x == 0 ? SN_POW2_MOST : sn_pow2_floor(x & -x); }

/* Turns in which so many of n are done at once. */
static inline double sn_waves(double n, double at_once) { return (double)(int64_t)((n + at_once - 1) / at_once); }

/* log2 e: exponentials are powers of two. */
static const double SN_LOG2_E = 0x1.71547652b82fep+0;

static inline uint32_t sn_least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Elements in one widest access of the smallest element type. Wider than the caller's storage is aligned is none: a
 * GPU's lanes would load their elements one by one, and neighbours with gaps between them. */
static inline uint32_t sn_widest(const sn_pass_ctx *cx, uint32_t bytes) {
    const sn_target *t = cx->target;
    if (!bytes) return 1;
    if (!t->is_gpu) return sn_least(t->vector_bytes / bytes, 16);
    uint32_t aligned = sn_least(t->vector_bytes, t->io_align) / bytes;
    return aligned ? sn_least(aligned, 8) : 1;
}

/* ... where bytes are all that is accessed, as by reductions of a GPU: 16 of them. */
static inline uint32_t sn_widest_alone(const sn_pass_ctx *cx, uint32_t bytes) {
    const sn_target *t = cx->target;
    return t->is_gpu && bytes == 1 ? sn_least(t->vector_bytes, t->io_align) : sn_widest(cx, bytes);
}

/* Elements of a row that is read once, of which no vectors begin one, from which on they start before it. */
static inline int64_t sn_odd_row(uint32_t wide, uint32_t bytes) {
    return bytes == 1 ? (int64_t)SN_ODD_VECTORS * wide : SN_LONG_ODD_ROW;
}

/* Blocks of rows that are read once (rows.c) that a multiprocessor has at a time. online: a sum of exponentials. */
static inline uint32_t sn_once_blocks(uint32_t lanes, bool online) {
    return SN_ONLINE_BLOCKS - (!online && lanes > SN_ONLINE_LANES);
}

/* Does a warp scan a row of halves that begins where no word does? By vectors that begin before it, a few a lane, most of which have a part
 * of it: a tile would go through such halves one by one. */
static inline bool sn_warp_scans(int64_t length, uint32_t bytes, int64_t vector) {
    int64_t reach = length + vector - 1, turn = SN_WARP * vector, turns = (reach + turn - 1) / turn;
    return bytes == 2 && length % 2 && turns <= SN_SCAN_WARP && reach * 100 >= turns * turn * SN_SCAN_WARP_FULL;
}

/* Steps of a scan whose loads are in flight together, `n` steps in all: as even as possible. */
static inline uint32_t sn_steps_ahead(int64_t n, const sn_sched *sc) {
    int64_t most = sc->vector > 8 ? SN_SCAN_WIDE_STEPS : SN_SCAN_STEPS, turns = (n + most - 1) / most;
    return turns ? (uint32_t)((n + turns - 1) / turns) : 1;
}

static inline int64_t sn_last_outer_extent(const sn_pass_ctx *cx, const sn_schedule_shape *sh) {
    return sh->outer.n ? sn_ix_value(cx->m, sn_stmt_extent(cx->m, sh->body)) : 1;
}

/* Widest loads of a thread that should be in flight together when 1024 are resident: as many as the latency of memory
 * asks for and two, since some blocks combine while others load; at most twice as many and two, as far as registers
 * reach. */
static inline sn_range sn_loads_ahead(const sn_target *t) {
    if (!t->is_gpu) return (sn_range){1, SN_LOADS_REACH};
    int64_t bytes = (int64_t)SN_LOADS_RESIDENT * t->vector_bytes, enough = (t->flight_bytes + bytes - 1) / bytes;
    return (sn_range){sn_least((uint32_t)enough + 2, SN_LOADS_REACH),
                      sn_least(2 * (uint32_t)enough + 2, SN_LOADS_REACH)};
}

/* ---- open_rows.c: rows of the last outer axis, on the CPU ---- */

/* Lanes along rows of so many elements: those that divide a row, or, where these are half as many vectors, of open
 * rows. */
uint32_t sn_schedule_open_vector(int64_t row, uint32_t bytes, uint32_t widest);
/* Are they such of that header? */
bool sn_schedule_has_open_rows(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc);
/* How many vectors all rows have. */
int64_t sn_schedule_open_vectors(const sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc);
/* The body goes to the end of `into`, for lane `lane` of vector number p. */
void sn_schedule_open_body(sn_pass_ctx *cx, sn_kern k, sn_stmt into, const sn_stmt_vec *body,
                           const sn_schedule_shape *sh, const sn_sched *sc, sn_ix p, sn_ix lane);

/* ---- host_lanes.c: vectors of the CPU along rows that have nothing else in common with their neighbours ---- */

/* Where lanes stand: `vector` of a thread, `threads` of a block. */
typedef struct sn_host_lanes {
    sn_ix thread, lane;
    int64_t vector, threads;
} sn_host_lanes;
/* Lanes of a vector whose smallest elements have so many bytes; more of them where all that the kernel computes is narrow. */
uint32_t sn_host_widest(const sn_pass_ctx *cx, sn_kern k, uint32_t bytes);
/* Are lanes along rows cheaper than along what rows reduce, though rows do not lie side by side? */
bool sn_schedule_lanes_are_rows(const sn_pass_ctx *cx, const sn_schedule_shape *sh);
/* How many, then. */
uint32_t sn_schedule_lanes_of_rows(const sn_pass_ctx *cx, const sn_schedule_shape *sh);
/* Elements of rows that a nest reads again and again are collected in front of it, lanes side by side. The nests of sh are
 * still in the kernel. */
void sn_schedule_collect_rows(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_host_lanes *lanes);

#endif
