/* model.c: what bounds a kernel of a GPU: an estimate from its statements, which the pass `schedule` says in a remark.
 *
 *     schedule: k0: bound by memory: 32 KB in flight on a multiprocessor (24 KB needed),
 *               8 blocks of 256 threads fit (threads), 31.0 waves
 *
 * Reads the bound kernel alone, so that all classes are one thing to it: each statement is counted with the extents
 * of the axes around it, and the kinds of the axes say who runs it. Nests that are boxes or have the promise mma are
 * counted as what does them, not as statements. Estimated are the blocks that fit on a multiprocessor, the bytes
 * that its threads wait for together, and the cycles that memory, the lines of accesses, boxes, shared memory,
 * tensor cores, the issue of instructions and the special functions would take if each were alone; the longest is
 * the bound. docs/SCHEDULES.md has the formulas and where the figures of targets.def come from.
 *
 * Does not know: what the code generator merges, hoists or spills, bank conflicts, hits in L1. Bytes that every
 * block reads again (a weight) are counted once. What a value of the kernel decides to do (an `if` of one) is taken
 * to be rare.
 */
#include "passes/base/costs.h"
#include "passes/schedule/base/model.h"
#include "ir/loop/box.h"
#include "ir/loop/copies.h"
#include "ir/loop/mma.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct traffic {
    sn_buf buf;
    sn_stmt phase;
    bool store;
    double bytes;
} traffic;

/* Loads that wait for memory together: those under one block axis, or in one iteration of a loop. */
typedef struct phase {
    sn_stmt s;
    double bytes, in_regs; /* of a thread: that come from memory; that come into registers */
} phase;

typedef struct model {
    sn_pass_ctx *cx;
    sn_module *m;
    const sn_target *t;
    sn_launch launch;
    sn_schedule_model *out;
    SN_VEC(traffic) traffic;
    SN_VEC(phase) phases;
    double instructions, special; /* of all threads */
    double tensor, shared, boxed; /* cycles of tensor cores; bytes of shared memory; bytes that boxes move */
    double lines;                 /* that all warps touch */
    double asked;                 /* bytes of memory, without what is unused in lines */
    double freshest;              /* largest part of a load's bytes that comes from memory, not from a cache */
    uint32_t accumulators, kept;  /* of a thread, in words */
    bool halves;                  /* all that it stores is f16 or bf16 */
} model;

/* Where a statement stands. */
typedef struct place {
    double blocks, times; /* blocks that run it; how often one of their threads does */
    double together;      /* elements of one thread, lanes and written-out loops, that an access in it moves at once */
    double lanes;         /* of the vectors around it */
    sn_stmt phase;
    sn_axis x, y, v; /* none: not inside such an axis */
    bool copies;     /* a copy to shared memory: nobody waits before the end of the block axis */
} place;

/* ---- places ---- */

/* Part of the iterations in which `0 <= ix < bound` holds. */
static double share_of(sn_module *m, const sn_stmt_rec *r) {
    int64_t bound;
    sn_range range = sn_ix_range(m, r->ix);
    if (sn_ix_uses_vals(m, r->ix)) return 0;
    bool known = range.lo != INT64_MIN && range.hi != INT64_MAX && sn_ix_is_const(m, r->bound, &bound);
    if (!known || (range.lo >= 0 && range.hi < bound)) return 1;
    double low = (double)(range.lo > 0 ? range.lo : 0), high = (double)(range.hi < bound ? range.hi + 1 : bound);
    return high > low ? (high - low) / ((double)range.hi - (double)range.lo + 1) : 0;
}

static void enter(place *p, sn_stmt s, const sn_stmt_rec *r, double n) {
    bool waits = false;
    switch (r->kind) {
    case SN_AXIS_GRID:
    case SN_AXIS_CLUSTER: p->blocks *= n; break;
    case SN_AXIS_BLOCK_X: p->x = r->axis, waits = true; break;
    case SN_AXIS_BLOCK_Y: p->y = r->axis, waits = true; break;
    case SN_AXIS_VECTOR: p->v = r->axis, p->lanes *= n, p->times *= n, p->together *= n; break;
    case SN_AXIS_UNROLL: p->times *= n, p->together *= n; break;
    case SN_AXIS_SEQ:
        p->times *= n;
        waits = !p->copies && (n > SN_WRITTEN_OUT || p->together > p->lanes);
        if (!waits && !p->phase.i) p->together *= n;
        break;
    case SN_AXIS_WARP:
    case SN_N_AXIS_KINDS: break;
    }
    if (waits && !p->phase.i) p->phase = s;
}

/* Iterations; of a loop that is longer on some blocks than on others, in the middle. */
static double iterations(const model *md, sn_stmt s) {
    sn_range range = sn_ix_range(md->m, sn_stmt_extent(md->m, s));
    return ((double)range.lo + (double)range.hi) / 2;
}

static place place_of(const model *md, sn_stmt s, bool copies) {
    place p = {.blocks = 1, .times = 1, .together = 1, .lanes = 1, .copies = copies};
    for (sn_stmt t = sn_stmt_get(md->m, s)->parent; t.i; t = sn_stmt_get(md->m, t)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(md->m, t);
        if (r->op == SN_LOP_IF) p.blocks *= share_of(md->m, r);
        else enter(&p, t, r, iterations(md, t));
    }
    return p;
}

/* ---- lines ---- */

typedef struct lane {
    const place *p;
    int64_t x, y, v;
} lane;

static int64_t at_lane(void *user, sn_ix_kind kind, uint32_t id) {
    const lane *l = user;
    if (kind != SN_IX_AXIS) return 0;
    return id == l->p->x.i ? l->x : id == l->p->y.i ? l->y : id == l->p->v.i ? l->v : 0;
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Does a loop of the thread walk the rest of the lines that the access begins? */
static bool walks_on(const model *md, sn_stmt s) {
    const sn_stmt_rec *access = sn_stmt_get(md->m, s);
    int64_t c;
    for (sn_stmt t = access->parent; t.i; t = sn_stmt_get(md->m, t)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(md->m, t);
        if (!r->axis.i || (r->kind != SN_AXIS_SEQ && r->kind != SN_AXIS_UNROLL)) continue;
        if (sn_ix_coef(md->m, access->ix, r->axis, &c) && (c == 1 || c == -1)) return true;
    }
    return false;
}

static sn_schedule_coverage cover(const model *md, const sn_stmt_rec *r, const place *p) {
    enum { MOST_LANES = 16 };
    int64_t at[SN_WARP * MOST_LANES], size = sn_dtype_bytes(sn_buf_get(md->m, r->buf)->dtype);
    uint32_t n = 0, x = md->launch.block_x, threads = x * md->launch.block_y;
    for (uint32_t t = 0; t < SN_WARP && t < threads; t++)
        for (uint32_t v = 0; v < p->lanes && v < MOST_LANES; v++) {
            lane l = {p, t % x, t / x, v};
            at[n++] = sn_ix_eval(md->m, r->ix, at_lane, &l) * size;
        }
    qsort(at, n, sizeof *at, by_value);
    sn_schedule_coverage c = {(uint32_t)size, 1, 1};
    for (uint32_t i = 1; i < n; i++) {
        c.bytes += at[i] != at[i - 1] ? (uint32_t)size : 0;
        c.sectors += at[i] / SN_SECTOR != at[i - 1] / SN_SECTOR;
        c.lines += at[i] / SN_LINE != at[i - 1] / SN_LINE;
    }
    return c;
}

/* What one access of a warp covers, and how many times the bytes that it asks for come from memory. Half-used lines
 * pass: rows that start anywhere have them. So do lines that the thread goes on to use. */
static sn_schedule_coverage look_at_lines(double *waste, const model *md, sn_stmt s, const place *p) {
    const sn_stmt_rec *r = sn_stmt_get(md->m, s);
    uint32_t size = sn_dtype_bytes(sn_buf_get(md->m, r->buf)->dtype), bytes = (uint32_t)(SN_WARP * size * p->lanes);
    *waste = 1;
    if (sn_ix_uses_vals(md->m, r->ix))
        return (sn_schedule_coverage){bytes, bytes / SN_SECTOR, (bytes + SN_LINE - 1) / SN_LINE};
    sn_schedule_coverage c = cover(md, r, p);
    if (c.lines > SN_LINES_FEW && c.lines * SN_LINE > SN_LINES_USED * c.bytes && !walks_on(md, s))
        *waste = (double)c.sectors * SN_SECTOR / c.bytes;
    return c;
}

/* ---- accesses ---- */

/* Bytes of an access that come from memory or go there: not those that another access has brought, in the same phase
 * or, when the buffer fits in the cache, before. */
static double fresh(model *md, const place *p, sn_buf b, bool store, double bytes) {
    double all = (double)sn_buf_bytes(md->m, b);
    sn_stmt phase = all <= (double)md->t->cache_bytes / 2 ? (sn_stmt){0} : p->phase;
    uint32_t i = 0;
    while (i < md->traffic.n &&
           (md->traffic.at[i].buf.i != b.i || md->traffic.at[i].phase.i != phase.i || md->traffic.at[i].store != store))
        i++;
    if (i == md->traffic.n) SN_PUSH(md->cx->scratch, &md->traffic, ((traffic){b, phase, store, 0}));
    double left = all - md->traffic.at[i].bytes, got = bytes < left ? bytes : left;
    md->traffic.at[i].bytes += got;
    return got;
}

static phase *phase_of(model *md, sn_stmt s) {
    for (uint32_t i = 0; i < md->phases.n; i++)
        if (md->phases.at[i].s.i == s.i) return &md->phases.at[i];
    SN_PUSH(md->cx->scratch, &md->phases, ((phase){s, 0, 0}));
    return &md->phases.at[md->phases.n - 1];
}

/* A load whose value goes straight to shared memory and nowhere else: cp.async. */
static bool is_copy(const model *md, const sn_stmt_rec *r) {
    if (r->op != SN_LOP_LOAD || !r->next.i || md->t->sm < SN_ASYNC_SM) return false;
    const sn_stmt_rec *to = sn_stmt_get(md->m, r->next);
    if (to->op != SN_LOP_STORE || to->in[0].i != r->result.i) return false;
    bool alone = !to->next.i || sn_stmt_get(md->m, to->next)->op == SN_LOP_LOAD;
    return alone && sn_buf_get(md->m, to->buf)->scope == SN_BUF_SHARED;
}

static void count_memory(model *md, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(md->m, s);
    bool store = r->op == SN_LOP_STORE, copies = is_copy(md, r);
    place p = place_of(md, s, copies);
    double size = sn_dtype_bytes(sn_buf_get(md->m, r->buf)->dtype), alike = 1; /* threads that move the same */
    if (!p.x.i) alike *= md->launch.block_x;
    if (!p.y.i) alike *= md->launch.block_y;
    double runs = p.blocks * md->out->threads * p.times, bytes = runs / alike * size, waste;
    double got = fresh(md, &p, r->buf, store, bytes), share = bytes > 0 ? got / bytes : 0;
    sn_schedule_coverage c = look_at_lines(&waste, md, s, &p);
    double lines = runs / p.lanes / SN_WARP * c.lines;
    md->lines += lines;
    *(store ? &md->out->stored : &md->out->loaded) += got * waste * (store && waste > 1 ? SN_STORED_PIECES : 1);
    md->asked += got;
    if (lines * waste > md->out->worst) {
        md->out->worst = lines * waste;
        md->out->lines_of = r->buf;
        md->out->covered = c;
        md->out->scattered = waste > 1;
        md->out->again = share > 0 ? 1 / share : 1;
    }
    if (store) return;
    phase *ph = phase_of(md, p.phase);
    ph->bytes += p.together * size / alike * share * waste;
    if (!copies) ph->in_regs += p.together * size;
    if (share > md->freshest) md->freshest = share;
}

/* ---- instructions ---- */

typedef struct cost {
    double instructions, special;
} cost;

sn_schedule_scalar sn_schedule_scalar_of(const sn_module *m, const sn_stmt_rec *s) {
    if (s->op >= SN_N_LOPS) return (sn_schedule_scalar){0, 0};
    sn_stmt by = s->op == SN_LOP_DIV ? sn_val_get(m, s->in[1])->def : (sn_stmt){0};
    bool is_product = by.i && sn_stmt_get(m, by)->op == SN_LOP_CONST; /* by the reciprocal */
    if (is_product || !sn_costs[s->op].half) return (sn_schedule_scalar){1, 0};
    return (sn_schedule_scalar){sn_costs[s->op].half, sn_costs[s->op].special};
}

static cost cost_of_access(const model *md, const sn_stmt_rec *r, const place *p) {
    const sn_buf_rec *b = sn_buf_get(md->m, r->buf);
    double size = sn_dtype_bytes(b->dtype), widest = md->t->vector_bytes;
    int64_t c;
    if (b->scope == SN_BUF_REG) return (cost){0, 0};
    bool wide = p->v.i && sn_ix_coef(md->m, r->ix, p->v, &c) && (c == 1 || c == 0);
    if (!wide) return (cost){1, 0};
    return (cost){1 / p->lanes > size / widest ? 1 / p->lanes : size / widest, 0};
}

/* Threads meet by shuffles, then through shared memory; all else combines one element. */
static cost cost_of_reduce(const model *md, const sn_stmt_rec *r, double n) {
    bool pair = false, sumexp = false;
    for (uint32_t c = 0; c < r->n_combs; c++) {
        pair |= sn_combs[r->combs[c]].states > 1;
        sumexp |= sn_combs[r->combs[c]].second == SN_SECOND_WEIGHT;
    }
    double each = r->n_results * (pair ? SN_REDUCE_PAIR : 1);
    if (r->kind == SN_AXIS_BLOCK_X || r->kind == SN_AXIS_BLOCK_Y)
        return (cost){each * SN_REDUCE_SHUFFLES + (md->out->threads > SN_WARP ? SN_REDUCE_MEET : 0),
                      sumexp ? SN_REDUCE_SHUFFLES : 0};
    return (cost){each * n, sumexp ? (r->kind == SN_AXIS_VECTOR ? n : 2) : 0};
}

/* A division by what stays the same for several is a product with its reciprocal. */
static cost cost_of_scalar(const model *md, sn_stmt s, const sn_stmt_rec *r) {
    cost one = {1, 0}, c = {md->halves ? sn_costs[r->op].half : sn_costs[r->op].full, sn_costs[r->op].special};
    if (r->op == SN_LOP_DIV && sn_val_stays(md->m, r->in[1], s)) return one;
    return c.instructions > 0 ? c : one;
}

double sn_schedule_op_cost(sn_lop op) { return sn_costs[op].full > 0 ? sn_costs[op].full : 1; }

double sn_schedule_half_cost(sn_lop op) { return sn_costs[op].half > 0 ? sn_costs[op].half : 1; }

uint32_t sn_schedule_instructions(const sn_module *m, sn_kern k) {
    double n = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op >= SN_N_LOPS || !r->n_results) continue;
        double words = sn_dtype_bytes(sn_val_get(m, r->result)->dtype) > 4 ? 2 : 1;
        n += words * (sn_costs[r->op].full > 0 ? sn_costs[r->op].full : 1);
    }
    return (uint32_t)n;
}

static cost cost_of(const model *md, sn_stmt s, const place *p) {
    const sn_stmt_rec *r = sn_stmt_get(md->m, s);
    if (r->op < SN_N_LOPS) return cost_of_scalar(md, s, r);
    if (r->op == SN_LOP_LOAD || r->op == SN_LOP_STORE) return cost_of_access(md, r, p);
    if (r->op == SN_LOP_REDUCE) return cost_of_reduce(md, r, iterations(md, s));
    if (r->op == SN_LOP_ACCUM) return (cost){2 + (p->x.i ? SN_SCAN_THREADS / p->lanes : 0), 0};
    if (r->op == SN_LOP_CAST || r->op == SN_LOP_INDEX || r->op == SN_LOP_IN) return (cost){1, 0};
    return (cost){0, 0};
}

/* A load and a store that are to or from shared memory. */
static void count_shared(model *md, const sn_stmt_rec *r, double runs) {
    const sn_buf_rec *b = sn_buf_get(md->m, r->buf);
    if (b->scope == SN_BUF_SHARED) md->shared += runs * sn_dtype_bytes(b->dtype);
}

/* ---- promises ---- */

/* Groups of threads read what they multiply out of shared memory: rows of theirs once, columns for each row of
 * blocks. */
static void count_mma(model *md, sn_stmt s) {
    sn_mma_nest n;
    const char *why_not;
    place p = place_of(md, s, false);
    if (!sn_mma_find(&n, &why_not, md->m, s)) return;
    const sn_mma_info *mma = &sn_mmas[n.mma];
    double runs = p.blocks * p.times, rows = (double)sn_mma_rows(&n), columns = (double)sn_mma_columns(&n);
    double groups = (double)n.threads / mma->threads, again = sn_mma_is_async(n.mma) ? n.tiles_m : 1;
    double read = rows * n.columns + columns * (groups / n.columns) * again;
    md->tensor += runs * rows * columns * (double)n.depth / mma->rate;
    md->shared += runs * read * (double)n.depth * sn_dtype_bytes(mma->operand);
}

/* A box brings whole lines past the threads, one after the other; those of a pipe are under way together. */
static void count_box(model *md, sn_stmt s) {
    sn_box box;
    const char *why_not;
    sn_stmt outer = sn_stmt_get(md->m, s)->parent;
    place p = place_of(md, s, true);
    if (!sn_box_find(&box, &why_not, md->m, s)) return;
    double each = (double)box.elements * sn_dtype_bytes(sn_buf_get(md->m, box.global)->dtype);
    double bytes = p.blocks * p.times * each, got = fresh(md, &p, box.global, !box.fills, bytes);
    double share = bytes > 0 ? got / bytes : 0;
    uint32_t stages = outer.i ? sn_stmt_get(md->m, outer)->pipe : 0;
    md->boxed += bytes;
    md->shared += bytes;
    md->asked += got;
    *(box.fills ? &md->out->loaded : &md->out->stored) += got;
    if (!box.fills) return;
    phase_of(md, p.phase)->bytes += each * (stages ? stages : 1) * share / md->out->threads;
    if (share > md->freshest) md->freshest = share;
}

static void count_statement(model *md, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(md->m, s);
    place p = place_of(md, s, false);
    cost c = cost_of(md, s, &p);
    double runs = p.blocks * p.times * md->out->threads;
    double words = r->n_results && sn_dtype_bytes(sn_val_get(md->m, r->result)->dtype) > 4 ? 2 : 1;
    md->instructions += runs * words * c.instructions;
    md->special += runs * c.special;
    uint32_t carries = r->op == SN_LOP_REDUCE ? (uint32_t)(r->n_results * words * p.lanes) : 0;
    if (carries > md->accumulators) md->accumulators = carries;
    if (r->op != SN_LOP_LOAD && r->op != SN_LOP_STORE) return;
    if (!sn_buf_is_local(sn_buf_get(md->m, r->buf))) count_memory(md, s);
    else count_shared(md, r, runs);
}

static void count_all(model *md, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(md->m, k), next; s.i; s = next) {
        const sn_stmt_rec *r = sn_stmt_get(md->m, s);
        bool box = r->op == SN_LOP_LOOP && sn_is_box(md->m, s);
        next = r->mma || box ? sn_stmt_walk_skip(md->m, s) : sn_stmt_walk_next(md->m, s);
        if (r->mma) count_mma(md, s);
        else if (box) count_box(md, s);
        else count_statement(md, s);
    }
}

/* ---- blocks that fit ---- */

/* Rows in registers are the loads of a moment ago; arithmetic and addresses take OTHER_REGS, the rest is known. An
 * estimate. */
static uint32_t registers(const model *md, const sn_sched *sc, double in_regs) {
    enum { STEP = 8, LEAST = 16, MOST = 255 };
    double words = md->kept > in_regs / 4 ? md->kept : in_regs / 4;
    uint32_t n = (uint32_t)(SN_OTHER_REGS + words) + md->accumulators;
    n = (n + STEP - 1) / STEP * STEP;
    uint32_t bound = sc->min_blocks ? SN_FILE_REGS / (sc->min_blocks * md->out->threads) / STEP * STEP : MOST;
    if (n > bound) n = bound < LEAST ? LEAST : bound;
    return n < MOST ? n : MOST;
}

static void count_residents(model *md, const sn_sched *sc, uint32_t shared, double in_regs) {
    sn_schedule_model *out = md->out;
    uint32_t warps = (out->threads + SN_WARP - 1) / SN_WARP;
    out->regs = registers(md, sc, in_regs);
    uint32_t fits[SN_N_LIMITS] = {
        [SN_LIMIT_THREADS] = md->t->unit_threads / (warps * SN_WARP),
        [SN_LIMIT_BLOCKS] = md->t->unit_blocks,
        [SN_LIMIT_REGS] = SN_FILE_REGS / (out->regs * warps * SN_WARP),
        [SN_LIMIT_SHARED] =
            shared ? (md->t->shared_bytes + SN_SHARED_SYSTEM) / (shared + SN_SHARED_SYSTEM) : UINT32_MAX,
    };
    for (uint32_t i = 0; i < SN_N_LIMITS; i++)
        if (fits[i] < fits[out->limit]) out->limit = (sn_schedule_limit)i;
    out->resident = fits[out->limit] ? fits[out->limit] : 1;
    out->waves = out->blocks / ((double)out->resident * md->t->units);
}

/* ---- the estimate ---- */

static void decide(model *md, double bytes) {
    sn_schedule_model *out = md->out;
    const sn_target *t = md->t;
    double busy = out->blocks < t->units ? out->blocks : t->units, moved = out->loaded + out->stored;
    double residents = out->waves < 1 ? out->blocks / t->units : out->resident;
    if (moved <= 0) return;
    out->flight = md->freshest > 0 ? residents * out->threads * bytes / md->freshest : 0;
    out->needed = t->flight_bytes * out->loaded / moved;
    out->memory = moved / (t->units * (double)t->cycle_bytes);
    out->lines = md->lines / busy;
    out->issue = md->instructions / (SN_ISSUES * busy);
    out->special = md->special / (t->special * busy);
    out->tensor = md->tensor / busy;
    out->shared = md->shared / (SN_LINE * busy);
    out->cache = md->boxed / (SN_PRODUCT_CACHE * busy);
    double slow = out->flight * SN_FLIGHT_ENOUGH < out->needed * 100 ? out->needed / out->flight : 1,
           longest = out->memory * slow;
    double unused = moved / md->asked; /* times as many lines as bytes would fill */
    out->bound = unused >= 2 && unused > slow ? SN_BOUND_LINES : slow > 1 ? SN_BOUND_LATENCY : SN_BOUND_MEMORY;
    const struct {
        double cycles;
        sn_schedule_bound bound;
    } others[] = {{out->lines, SN_BOUND_LINES},   {out->issue, SN_BOUND_ISSUE},   {out->special, SN_BOUND_SPECIAL},
                  {out->tensor, SN_BOUND_TENSOR}, {out->shared, SN_BOUND_SHARED}, {out->cache, SN_BOUND_CACHE}};
    for (size_t i = 0; i < SN_COUNT(others); i++)
        if (others[i].cycles > longest) longest = others[i].cycles, out->bound = others[i].bound;
    out->cycles = longest;
}

bool sn_schedule_stores_halves(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_STORE || sn_buf_is_local(sn_buf_get(m, r->buf))) continue;
        if (!sn_is_narrow(sn_buf_get(m, r->buf)->dtype)) return false;
    }
    return true;
}

/* Bytes of shared memory of a block; the words that a thread keeps are counted meanwhile. */
static uint32_t count_buffers(model *md, sn_kern k) {
    sn_copy_list copies = {0};
    const sn_kern_rec *r = sn_kern_get(md->m, k);
    uint32_t shared = 0;
    sn_kern_copies(&copies, md->m, k, md->cx->scratch);
    for (uint32_t i = 0; i < r->locals.n; i++) {
        const sn_buf_rec *b = sn_buf_get(md->m, r->locals.at[i]);
        uint32_t bytes = b->private_size * sn_dtype_bytes(b->dtype);
        if (b->scope == SN_BUF_REG) md->kept += (bytes + 3) / 4;
        else shared += bytes * sn_copy_stages(md->m, &copies, r->locals.at[i]);
    }
    return shared;
}

void sn_schedule_estimate(sn_schedule_model *out, sn_pass_ctx *cx, sn_kern k, const sn_sched *sc) {
    *out = (sn_schedule_model){.limit = SN_LIMIT_THREADS};
    model md = {.cx = cx, .m = cx->m, .t = cx->target, .launch = sn_kern_launch(cx->m, k), .out = out};
    md.halves = sn_schedule_stores_halves(cx->m, k);
    out->blocks = (double)sn_ix_value(cx->m, md.launch.grid);
    out->threads = md.launch.block_x * md.launch.block_y;
    uint32_t shared = count_buffers(&md, k);
    count_all(&md, k);
    double bytes = 0, in_regs = 0;
    for (uint32_t i = 0; i < md.phases.n; i++) {
        bytes = fmax(bytes, md.phases.at[i].bytes);
        in_regs = fmax(in_regs, md.phases.at[i].in_regs);
    }
    count_residents(&md, sc, shared, in_regs);
    decide(&md, bytes);
}

/* ---- in words ---- */

enum { WORDS = 160 };

static const char *const LIMITS[SN_N_LIMITS] = {"threads", "no more are possible", "registers", "shared memory"};
static const char *const BOUNDS[] = {[SN_BOUND_MEMORY] = "memory",
                                     [SN_BOUND_LATENCY] = "latency",
                                     [SN_BOUND_LINES] = "lines",
                                     [SN_BOUND_ISSUE] = "instructions",
                                     [SN_BOUND_SPECIAL] = "special functions",
                                     [SN_BOUND_TENSOR] = "tensor cores",
                                     [SN_BOUND_SHARED] = "shared memory",
                                     [SN_BOUND_CACHE] = "the L2"};

static void put_bytes(char *out, size_t size, double bytes) {
    if (bytes >= 10240) snprintf(out, size, "%.0f KB", bytes / 1024);
    else if (bytes >= 1024) snprintf(out, size, "%.1f KB", bytes / 1024);
    else snprintf(out, size, "%.0f bytes", bytes);
}

/* "8 blocks of 256 threads fit (about 32 registers), 1.1 waves, the last one 12 % full" */
static void put_blocks(char *out, const sn_schedule_model *md) {
    enum { MANY_WAVES = 4, HALF = 50 };
    char regs[16] = "";
    double last = 100 * (md->waves - floor(md->waves));
    bool one = md->resident == 1;
    if (md->limit == SN_LIMIT_REGS) snprintf(regs, sizeof regs, "about %u ", md->regs);
    int n = snprintf(out, WORDS, "%u block%s of %u threads fit%s (%s%s), ", md->resident, one ? "" : "s", md->threads,
                     one ? "s" : "", regs, LIMITS[md->limit]);
    if (md->waves <= 1) snprintf(out + n, WORDS - (size_t)n, "all at once");
    else if (md->waves < MANY_WAVES && last > 0 && last <= HALF)
        snprintf(out + n, WORDS - (size_t)n, "%.1f waves, the last one %.0f %% full", md->waves, fmax(last, 1));
    else snprintf(out + n, WORDS - (size_t)n, "%.1f waves", md->waves);
}

static void put_bound(char *out, const sn_schedule_model *md, const sn_pass_ctx *cx) {
    char flight[24], needed[24], blocks[48] = "";
    const char *name = md->lines_of.i ? sn_buf_get(cx->m, md->lines_of)->name : "";
    put_bytes(flight, sizeof flight, md->flight);
    put_bytes(needed, sizeof needed, md->needed);
    if (md->blocks < cx->target->units)
        snprintf(blocks, sizeof blocks, ", %.0f block%s for %u of them", md->blocks, md->blocks > 1 ? "s" : "",
                 cx->target->units);
    switch (md->bound) {
    case SN_BOUND_MEMORY:
        snprintf(out, WORDS, "memory: %s in flight on a multiprocessor (%s needed)", flight, needed);
        break;
    case SN_BOUND_LATENCY:
        snprintf(out, WORDS, "latency: %s in flight on a multiprocessor of %s needed%s", flight, needed, blocks);
        break;
    case SN_BOUND_LINES:
        if (md->scattered)
            snprintf(out, WORDS, "scattered accesses: a warp finds %u bytes of %.64s in %u lines of %u",
                     md->covered.bytes, name, md->covered.lines, (unsigned)SN_LINE);
        else snprintf(out, WORDS, "accesses to the cache: each byte of %.64s is read %.0f times", name, md->again);
        break;
    case SN_BOUND_ISSUE:
        snprintf(out, WORDS, "instructions: %.1f times as long as memory", md->issue / md->memory);
        break;
    case SN_BOUND_SPECIAL:
        snprintf(out, WORDS, "special functions: %.1f times as long as memory", md->special / md->memory);
        break;
    case SN_BOUND_TENSOR:
        snprintf(out, WORDS, "tensor cores: %.1f times as long as memory", md->tensor / md->memory);
        break;
    case SN_BOUND_SHARED:
        snprintf(out, WORDS, "shared memory: %.1f times as long as memory", md->shared / md->memory);
        break;
    case SN_BOUND_CACHE:
        snprintf(out, WORDS, "the L2: boxes take %.1f times as long as memory", md->cache / md->memory);
        break;
    }
}

static void record(sn_pass_ctx *cx, sn_kern k, const sn_schedule_model *md, const char *why) {
    sn_row_estimates *row = SN_ADD_ROW(cx->metrics, ESTIMATES, estimates);
    if (!row) return;
    *row = (sn_row_estimates){.kernel = sn_metric_text(cx->metrics, sn_kern_get(cx->m, k)->name),
                              .bound = BOUNDS[md->bound],
                              .why = sn_metric_text(cx->metrics, why),
                              .cycles = md->cycles,
                              .us = md->cycles / cx->target->mhz,
                              .memory = md->memory,
                              .loaded = md->loaded,
                              .stored = md->stored,
                              .flight = md->flight,
                              .needed = md->needed,
                              .registers = md->regs,
                              .resident = md->resident,
                              .limit = LIMITS[md->limit],
                              .waves = md->waves};
}

void sn_schedule_explain(sn_pass_ctx *cx, sn_kern k, const sn_sched *sc) {
    sn_schedule_model md;
    char bound[WORDS], blocks[WORDS];
    if (!cx->target->is_gpu || (!cx->remark && !sn_metric_wanted(cx->metrics, SN_METRIC_ESTIMATES))) return;
    sn_schedule_estimate(&md, cx, k, sc);
    put_bound(bound, &md, cx);
    put_blocks(blocks, &md);
    record(cx, k, &md, sn_strf(cx->scratch, "%s, %s", bound, blocks));
    sn_remark(cx, sn_kern_get(cx->m, k)->name, "bound by %s, %s", bound, blocks);
}
