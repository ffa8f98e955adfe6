/* contract_host.c: class contract on the CPU: which tiles and blocks a matrix product is made of.
 *
 *     1000 x 1000 x 1000 in f32 on two threads with vectors of 16:
 *     tiles of 500 x 512, parts of 250 steps; blocks of 14 rows x 2 vectors, whose 28 sums stay in registers
 *
 * contract_host_bind.c has the picture. A block is as large as registers allow and fits the tile well: what reaches over
 * is computed twice. A step of the sum multiplies and adds for each vector of the block, and loads its row and its
 * column. Operands are packed where several blocks need the same elements, or they would be read against their order.
 * Tiles are as few as keep all threads busy, since each packs its operands anew, and no larger than caches and the stack
 * hold.
 *
 * The figures are counts of cycles: they rank plans, and tell whether to wake other threads.
 */
#include "passes/schedule/contract_host.h"
#include "passes/schedule/figures.h"
#include "passes/schedule/schedules.h"

enum { HUNDRED = 100, MOST_VECTORS = 8, MOST_ROWS = 32, MOST_CUTS = 64 };

typedef struct planner {
    sn_pass_ctx *cx;
    const sn_contraction *c;
    int64_t bytes; /* of what is multiplied */
    struct factor {
        double work; /* instructions of its prologue */
        bool along;  /* it lies along the sum rather than along its rows or columns */
    } factors[SN_MOST_OPERANDS];
    uint32_t n_left, n_right;
} planner;

/* ---- operands ---- */

typedef struct expression {
    planner *pl;
    bool *seen; /* by sn_val */
    sn_axis step, side;
    double work, along, across;
} expression;

static void look_at(expression *x, sn_val v) {
    sn_module *m = x->pl->cx->m;
    if (x->seen[v.i]) return;
    x->seen[v.i] = true;
    const sn_stmt_rec *r = sn_stmt_get(m, sn_val_get(m, v)->def);
    for (uint32_t i = 0; i < r->n_in; i++) look_at(x, r->in[i]);
    if (r->op != SN_LOP_LOAD) {
        x->work += r->op != SN_LOP_CONST;
        return;
    }
    int64_t c;
    if (x->step.i && sn_ix_coef(m, r->ix, x->step, &c) && c == 1) x->along += sn_dtype_bytes(r->dtype);
    if (x->side.i && sn_ix_coef(m, r->ix, x->side, &c) && c == 1) x->across += sn_dtype_bytes(r->dtype);
}

static sn_axis last_axis(const planner *pl, sn_contraction_side side) {
    const sn_contraction *c = pl->c;
    for (uint32_t i = c->outer.n; i-- > 0;)
        if (c->side[i] == side && c->extent[i] > 1) return sn_stmt_axis(pl->cx->m, c->outer.at[i]);
    return (sn_axis){0};
}

static void look_at_operands(planner *pl) {
    const sn_contraction *c = pl->c;
    sn_module *m = pl->cx->m;
    for (uint32_t o = 0; o < c->n_operands; o++) {
        bool right = c->operands[o].right;
        expression x = {.pl = pl, .seen = SN_NEWN(pl->cx->scratch, bool, m->vals.count)};
        x.step = sn_stmt_axis(m, c->inner.at[c->inner.n - 1]);
        x.side = last_axis(pl, right ? SN_SIDE_N : SN_SIDE_M);
        look_at(&x, c->operands[o].value);
        pl->factors[o].work = x.work;
        pl->factors[o].along = right ? x.along > x.across : x.along >= x.across;
        *(right ? &pl->n_right : &pl->n_left) += 1;
    }
}

/* ---- blocks ---- */

static int64_t cuts(int64_t all, int64_t piece) { return (all + piece - 1) / piece; }

/* Cycles of a step of the sum for a block. A prologue of an operand without a panel is part of it. */
static double step_cycles(const planner *pl, const sn_contract_plan *p) {
    double loads = 0, more = 0;
    for (uint32_t o = 0; o < pl->c->n_operands; o++) {
        bool right = pl->c->operands[o].right, direct = p->panel[o] == SN_PANEL_NONE;
        int64_t n = right ? p->vectors : p->rows;
        loads += (double)n;
        if (direct) more += (double)n * pl->factors[o].work;
        if (direct && right && pl->factors[o].along) more += (double)(n * p->lanes);
    }
    double products = (double)(pl->c->n_products * p->rows * p->vectors);
    double cycles = (products * SN_HOST_FMA + more * SN_HOST_FMA) / HUNDRED;
    double least = (loads * SN_HOST_LOAD) / HUNDRED + more;
    if (cycles < least) cycles = least;
    if (cycles < SN_HOST_FMA_LATENCY) cycles = SN_HOST_FMA_LATENCY;
    return cycles + SN_HOST_STEP;
}

/* Cycles of what registers have taken in becoming sums in memory. */
static double flush_cycles(const planner *pl, const sn_contract_plan *p) {
    return (double)(pl->c->n_states * p->rows * p->vectors) * SN_HOST_FLUSH;
}

static double blocks_cycles(const planner *pl, const sn_contract_plan *p) {
    double runs = (double)cuts(pl->c->k, SN_CONTRACT_RUN);
    double blocks = (double)(cuts(p->tile_m, p->rows) * cuts(p->tile_n, p->width));
    return blocks * ((double)pl->c->k * step_cycles(pl, p) + runs * flush_cycles(pl, p));
}

/* Sums, a step of all columns, and a row at a time have to fit the registers. */
static bool fits_registers(const planner *pl, const sn_contract_plan *p) {
    int64_t all = pl->cx->target->vector_regs;
    return pl->c->n_states * p->rows * p->vectors + pl->n_right * p->vectors + pl->n_left <= all;
}

/* Is the panel worth being made? blocks: that read it. */
static sn_contract_panel choose_panel(const planner *pl, const sn_contract_plan *p, uint32_t o, int64_t blocks) {
    bool right = pl->c->operands[o].right, along = pl->factors[o].along;
    int64_t bytes = (right ? p->tile_n : p->tile_m) * pl->c->k * pl->bytes;
    double lanes = (double)p->lanes, vector = pl->factors[o].work + 2;
    double pack = right && along ? SN_HOST_TRANSPOSE : vector / lanes;
    double again = right ? pl->factors[o].work / lanes + (along ? 1 : 0) : pl->factors[o].work;
    if (blocks > 1 && bytes > SN_HOST_NEAR / 2) again += pack;
    if (pack >= (double)blocks * again) return SN_PANEL_NONE;
    return along ? SN_PANEL_ALONG : SN_PANEL_ACROSS;
}

static void choose_panels(const planner *pl, sn_contract_plan *p) {
    for (uint32_t o = 0; o < pl->c->n_operands; o++) {
        bool right = pl->c->operands[o].right;
        int64_t blocks = right ? cuts(p->tile_m, p->rows) : cuts(p->tile_n, p->width);
        p->panel[o] = choose_panel(pl, p, o, blocks);
    }
}

/* The block that does the tile in the fewest cycles. */
static void choose_block(const planner *pl, sn_contract_plan *p) {
    sn_contract_plan best = {0}, try = *p;
    double fewest = 0;
    for (try.vectors = 1; try.vectors <= MOST_VECTORS && try.vectors * p->lanes <= p->tile_n; try.vectors++)
        for (try.rows = 1; try.rows <= MOST_ROWS && try.rows <= p->tile_m; try.rows++) {
            try.width = try.vectors * p->lanes;
            if (!fits_registers(pl, &try) && try.vectors * try.rows > 1) continue;
            choose_panels(pl, &try);
            double cycles = blocks_cycles(pl, &try);
            if (best.rows && cycles >= fewest) continue;
            fewest = cycles;
            best = try;
        }
    *p = best;
}

/* ---- parts of the sum ---- */

/* A divisor of n in [least, most], the largest; 0: there is none. */
static int64_t divisor(int64_t n, int64_t least, int64_t most) {
    for (int64_t d = most; d >= least; d--)
        if (n % d == 0) return d;
    return 0;
}

/* Parts whose columns of a block stay near; without panels, as long as sums allow. The same number of steps in all
 * parts, and in all runs of a part, spares code for the last ones. */
static void choose_parts(const planner *pl, sn_contract_plan *p) {
    int64_t k = pl->c->k, most = SN_CONTRACT_RUN * SN_CONTRACT_RUN, run = SN_CONTRACT_RUN;
    bool panels = false;
    for (uint32_t o = 0; o < pl->c->n_operands; o++) panels |= p->panel[o] != SN_PANEL_NONE;
    if (panels) most = SN_HOST_NEAR / (p->width * pl->bytes);
    if (most < run) most = run;
    if (most > run * run / 2) most = run * run / 2; /* runs may be half as long */
    if (!p->tile_k && k <= most) p->tile_k = k;
    if (!p->tile_k) p->tile_k = divisor(k, most / 2, most);
    if (!p->tile_k) p->tile_k = cuts(cuts(k, cuts(k, most)), run) * run;
    p->parts = cuts(k, p->tile_k);
    p->run = p->tile_k <= run ? p->tile_k : divisor(p->tile_k, run / 2, run);
    if (!p->run) p->run = run;
}

/* ---- tiles ---- */

/* Each tile fetches its operands, and packs those that have panels. */
static double operand_cycles(const planner *pl, const sn_contract_plan *p) {
    double cycles = 0;
    for (uint32_t o = 0; o < pl->c->n_operands; o++) {
        bool right = pl->c->operands[o].right;
        double elements = (double)((right ? p->tile_n : p->tile_m) * pl->c->k);
        cycles += elements * sn_dtype_bytes(pl->c->operands[o].from) / SN_HOST_LINE * SN_HOST_FETCH;
        if (p->panel[o] == SN_PANEL_NONE) continue;
        cycles += elements * (pl->factors[o].work + 2) / (double)p->lanes;
        if (right && pl->factors[o].along) cycles += elements * SN_HOST_TRANSPOSE;
    }
    return cycles;
}

/* Do panels stay in the cache, and all buffers on the stack? */
static bool fits_memory(const planner *pl, const sn_contract_plan *p) {
    int64_t all = 0, left = 0;
    for (uint32_t o = 0; o < pl->c->n_operands; o++) {
        if (p->panel[o] == SN_PANEL_NONE) continue;
        int64_t bytes = p->tile_k * (pl->c->operands[o].right ? p->tile_n + p->width : p->tile_m + p->rows) * pl->bytes;
        if (!pl->c->operands[o].right) left += bytes;
        all += bytes;
    }
    for (int64_t n = p->parts; n > 1; n = cuts(n, SN_CONTRACT_RUN))
        all += pl->c->n_states * (p->tile_m + p->rows) * (p->tile_n + p->width) * pl->bytes;
    return left <= SN_HOST_CACHE / 2 && all <= SN_HOST_STACK;
}

/* Plan for a tile of tile_m x tile_n; tile_k 0: open. */
static bool plan_tile(sn_contract_plan *p, const planner *pl) {
    const sn_contraction *c = pl->c;
    p->lanes = pl->cx->target->vector_bytes / pl->bytes;
    while (p->lanes > p->tile_n) p->lanes /= 2;
    p->tiles_m = cuts(c->m, p->tile_m);
    p->tiles_n = cuts(c->n, p->tile_n);
    choose_block(pl, p);
    choose_parts(pl, p);
    int64_t tiles = c->batch * p->tiles_m * p->tiles_n;
    double tile = blocks_cycles(pl, p) + operand_cycles(pl, p);
    p->cycles = (double)cuts(tiles, pl->cx->target->units) * tile + (tiles > 1 ? SN_HOST_WAKE : 0);
    return fits_memory(pl, p);
}

static int64_t next_count(int64_t n) { return n < 16 ? n + 1 : 2 * n; }

static bool choose_tile(sn_contract_plan *out, const planner *pl, const sn_sched *sc) {
    const sn_contraction *c = pl->c;
    int64_t line = SN_HOST_LINE / pl->bytes;
    bool found = false;
    for (int64_t i = 1; i <= c->m; i = sc->tile_m ? c->m + 1 : next_count(i))
        for (int64_t j = 1; j <= c->n; j = sc->tile_n ? c->n + 1 : next_count(j)) {
            sn_contract_plan p = {
                .dtype = out->dtype, .tile_m = sc->tile_m, .tile_n = sc->tile_n, .tile_k = sc->tile_k};
            if (!p.tile_m) p.tile_m = cuts(c->m, i);
            if (!p.tile_n) p.tile_n = cuts(cuts(c->n, j), line) * line;
            if (p.tile_m > c->m) p.tile_m = c->m;
            if (p.tile_n > c->n) p.tile_n = c->n;
            if (p.tile_k > c->k) p.tile_k = c->k;
            if (!plan_tile(&p, pl) || (found && p.cycles >= out->cycles)) continue;
            *out = p;
            found = true;
        }
    return found;
}

bool sn_contract_plan_find(sn_contract_plan *out, sn_sched *sc, sn_pass_ctx *cx, const sn_contraction *c) {
    /* Products of bytes take as long as those of two, and their low bytes are the same. */
    sn_dtype dtype = c->dtype == SN_I8 ? SN_I16 : c->dtype == SN_U8 ? SN_U16 : c->dtype;
    planner pl = {.cx = cx, .c = c, .bytes = sn_dtype_bytes(dtype)};
    *out = (sn_contract_plan){.dtype = dtype};
    if (!c->m || !c->n || !c->k || !c->batch) return false;
    look_at_operands(&pl);
    if (!choose_tile(out, &pl, sc)) return false;
    sc->cls = SN_SCHED_CONTRACT;
    sc->tile_m = (uint32_t)out->tile_m;
    sc->tile_n = (uint32_t)out->tile_n;
    sc->tile_k = (uint32_t)out->tile_k;
    return true;
}

bool sn_schedule_contract_host_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_contraction c;
    (void)sh;
    *why_not = "it is for the CPU";
    return !cx->target->is_gpu && sn_contraction_find(&c, why_not, cx, k);
}

sn_status sn_schedule_contract_host_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k,
                                               const sn_schedule_shape *sh, const sn_sched *pinned) {
    sn_contraction c;
    sn_contract_plan p;
    const char *why_not;
    sn_sched sc = *pinned;
    (void)sh;
    if (!sn_contraction_find(&c, &why_not, cx, k)) return SN_OK;
    if (pinned->cls == SN_SCHED_NONE && (c.m == 1 || c.n == 1)) return SN_OK;
    if (!sn_contract_plan_find(&p, &sc, cx, &c)) return SN_OK;
    sn_schedule_propose(out, cx, &sc);
    return SN_OK;
}
