/* contract_host.c: class contract on the CPU: which tiles and blocks a matrix product is made of.
 *
 *     1024 x 1024 x 1024 in f32 on two threads with vectors of 16:
 *     tiles of 342 x 512, parts of 128 steps; blocks of 6 rows x 4 vectors, whose 24 sums stay in registers
 *
 * contract_host_bind.c has the picture. A block is as large as registers allow and fits the tile well: what reaches
 * over is computed twice. A step of the sum multiplies and adds for each vector of the block, and loads its row and
 * its column. Operands are packed where several blocks need the same elements, or they would be read against their
 * order. Tiles are as few as keep all threads busy, since each packs its operands anew, and no larger than caches
 * and the stack hold.
 *
 * The figures are counts of cycles: they rank plans, and tell whether to wake other threads.
 */
#include "passes/schedule/products/contract_host.h"
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"

enum { HUNDRED = 100, MOST_VECTORS = 8, MOST_ROWS = 32, MOST_APART = 4 };

/* Cycles in which an element is packed against its order. */
static const double TRANSPOSE = (double)SN_HOST_TRANSPOSE / HUNDRED;

typedef struct planner {
    sn_pass_ctx *cx;
    const sn_contraction *c;
    sn_contract_words words;
    int64_t k;     /* steps of the sum: words */
    int64_t line;  /* columns of the last axis, where vectors of neighbours would go on in the next line; else 0 */
    int64_t bytes; /* of what is multiplied */
    struct factor {
        double work;   /* instructions of its prologue */
        bool along;    /* it lies along the sum rather than along its rows or columns */
        bool tested;   /* it has loads with masks */
        bool broken;   /* vectors of neighbouring rows or columns may lie in different places */
        bool apart;    /* loads with masks take elements that have others between them: one by one */
        bool whole;    /* its words, one by one, are words of memory */
        int64_t lanes; /* of a vector of it that is packed in the order of memory */
    } factors[SN_MOST_OPERANDS];
    uint32_t n_left, n_right;
} planner;

/* ---- operands ---- */

typedef struct expression {
    planner *pl;
    sn_notes seen; /* sn_val */
    sn_axis step, side;
    int64_t steps, sides; /* lanes that are never torn apart by the end of an axis */
    double work, along, across;
    bool tested, apart;
} expression;

/* How well a vector along the axis fits what memory has: lanes in one piece, of a line that has others between them. */
static double lined_up(const expression *x, sn_ix ix, sn_axis axis, int64_t lanes, uint32_t bytes) {
    int64_t c;
    if (!axis.i || !sn_ix_coef(x->pl->cx->m, ix, axis, &c) || c < 1 || c > MOST_APART) return 0;
    return (double)bytes * (double)lanes / (double)c;
}

static bool is_apart(const expression *x, sn_ix ix, sn_axis axis) {
    int64_t c;
    return !axis.i || !sn_ix_coef(x->pl->cx->m, ix, axis, &c) || c != 1;
}

static void look_at(expression *x, sn_val v) {
    sn_module *m = x->pl->cx->m;
    if (!sn_notes_add(&x->seen, v.i)) return;
    const sn_stmt_rec *r = sn_stmt_get(m, sn_val_get(m, v)->def);
    for (uint32_t i = 0; i < r->n_in; i++) look_at(x, r->in[i]);
    if (r->op != SN_LOP_LOAD) {
        x->work += r->op != SN_LOP_CONST;
        return;
    }
    x->tested |= r->has_mask;
    x->apart |= r->has_mask && is_apart(x, r->ix, x->step) && is_apart(x, r->ix, x->side);
    x->along += lined_up(x, r->ix, x->step, x->steps, sn_dtype_bytes(r->dtype)) / (double)x->pl->words.steps;
    x->across += lined_up(x, r->ix, x->side, x->sides, sn_dtype_bytes(r->dtype));
}

static sn_axis last_axis(const planner *pl, sn_contraction_side side) {
    const sn_contraction *c = pl->c;
    for (uint32_t i = c->outer.n; i-- > 0;)
        if (c->side[i] == side && c->extent[i] > 1) return sn_stmt_axis(pl->cx->m, c->outer.at[i]);
    return (sn_axis){0};
}

int64_t sn_contract_whole_lanes(const int64_t *extents, const sn_contraction_side *sides, uint32_t n,
                                sn_contraction_side side, int64_t lanes) {
    int64_t last = 0;
    uint32_t axes = 0;
    for (uint32_t i = 0; i < n; i++) {
        if ((sides && sides[i] != side) || extents[i] == 1) continue;
        axes++;
        last = extents[i];
    }
    while (axes > 1 && lanes > 1 && last % lanes) lanes /= 2;
    return lanes;
}

/* An element takes what brings it to its place in a word, too, unless words stand so in memory. */
static void look_at_words(planner *pl, uint32_t o, const expression *x) {
    const sn_contraction_operand *op = &pl->c->operands[o];
    struct factor *f = &pl->factors[o];
    bool taken = pl->words.low && op->right == pl->words.right_unsigned;
    int64_t step;
    f->work = (double)pl->words.steps * (f->work + SN_HOST_WORD);
    f->whole = op->load.i && !f->tested && !taken && sn_dtype_bytes(op->from) * pl->words.steps == SN_WORD_BYTES &&
               sn_ix_coef(pl->cx->m, sn_stmt_get(pl->cx->m, op->load)->ix, x->step, &step) && step == 1;
}

int64_t sn_contract_line_lanes(int64_t line, int64_t widest) { return sn_least(sn_pow2_floor(line), (uint32_t)widest); }

bool sn_contract_packs_lines(const sn_contract_plan *p, const sn_contraction *c, uint32_t operand) {
    return p->line && c->operands[operand].right && p->panel[operand] == SN_PANEL_ACROSS;
}

/* Lines of an image that no vectors fit, but some of at most that length do. */
static void look_at_lines(planner *pl) {
    const sn_contraction *c = pl->c;
    int64_t widest = pl->cx->target->vector_bytes / pl->bytes, line;
    sn_contraction_last_axis(&line, pl->cx->m, c, SN_SIDE_N);
    if (line < c->n && line > 2 && line % widest && !c->cut) pl->line = line;
}

static void look_at_operands(planner *pl) {
    const sn_contraction *c = pl->c;
    sn_module *m = pl->cx->m;
    int64_t widest = pl->cx->target->vector_bytes / pl->bytes;
    for (uint32_t o = 0; o < c->n_operands; o++) {
        bool right = c->operands[o].right;
        expression x = {.pl = pl, .seen = {.arena = pl->cx->scratch}};
        x.step = sn_stmt_axis(m, c->inner.at[c->inner.n - 1]);
        x.side = last_axis(pl, right ? SN_SIDE_N : SN_SIDE_M);
        x.steps = sn_contract_whole_lanes(c->k_extent, NULL, c->inner.n, SN_SIDE_M, widest);
        x.sides = sn_contract_whole_lanes(c->extent, c->side, c->outer.n, right ? SN_SIDE_N : SN_SIDE_M, widest);
        look_at(&x, c->operands[o].value);
        pl->factors[o].work = x.work;
        pl->factors[o].tested = x.tested || c->k % pl->words.steps;
        pl->factors[o].along = right ? x.along > x.across : x.along >= x.across;
        pl->factors[o].broken = x.sides < widest;
        pl->factors[o].apart = x.apart;
        pl->factors[o].lanes = pl->factors[o].along ? x.steps : x.sides;
        if (pl->words.steps > 1) look_at_words(pl, o, &x);
        *(right ? &pl->n_right : &pl->n_left) += 1;
    }
}

/* ---- blocks ---- */

static int64_t cuts(int64_t all, int64_t piece) { return (all + piece - 1) / piece; }

/* Steps that registers take in: rounding grows with their number, and integers have none. */
static int64_t longest_run(const sn_contract_plan *p) { return sn_is_float(p->dtype) ? SN_CONTRACT_RUN : INT32_MAX; }

/* Vectors of a block. */
static int64_t sums(const sn_contract_plan *p) { return p->rows * (p->depth > 1 ? p->width : p->vectors); }

/* Cycles of a step of the sum for a block, or of as many steps as a vector has. What an operand without a panel
 * takes is part of it. */
static double step_cycles(const planner *pl, const sn_contract_plan *p) {
    double loads = 0, more = 0;
    for (uint32_t o = 0; o < pl->c->n_operands; o++) {
        bool right = pl->c->operands[o].right, vector = right || p->depth > 1;
        double n = (double)(!right ? p->rows : p->depth > 1 ? p->width : p->vectors);
        loads += n * (vector ? SN_HOST_LOAD : pl->bytes < 4 ? SN_HOST_SPREAD_SMALL : SN_HOST_SPREAD);
        if (p->panel[o] != SN_PANEL_NONE) continue;
        if (vector || !pl->factors[o].whole) more += n * pl->factors[o].work;
        if (vector && pl->factors[o].along != (p->depth > 1)) more += n * (double)(p->lanes * p->depth);
    }
    double products = (double)(pl->c->n_products * sums(p));
    double cycles = (products * SN_HOST_FMA) / HUNDRED + more, least = loads / HUNDRED + more;
    if (cycles < least) cycles = least;
    if (cycles < SN_HOST_FMA_LATENCY) cycles = SN_HOST_FMA_LATENCY;
    return cycles + SN_HOST_STEP;
}

bool sn_contract_is_direct(const sn_contract_plan *p, const sn_contraction *c) {
    bool whole =
        c->m % p->tile_m == 0 && c->n % p->tile_n == 0 && p->tile_m % p->rows == 0 && p->tile_n % p->width == 0;
    return whole && p->k <= longest_run(p) * p->depth && p->k % p->depth == 0;
}

/* Cycles of the rest of the body for a block: written out, or by loops over what registers have left in memory. */
static double rest_cycles(const planner *pl, const sn_contract_plan *p) {
    if (sn_contract_is_direct(p, pl->c)) return (double)(p->rows * (p->depth > 1 ? p->width : p->vectors));
    return (double)(p->rows * p->vectors * SN_HOST_REST);
}

static double blocks_cycles(const planner *pl, const sn_contract_plan *p) {
    double runs = (double)cuts(pl->k, longest_run(p) * p->depth), steps = (double)(pl->k / p->depth);
    double blocks = (double)(cuts(p->tile_m, p->rows) * cuts(p->tile_n, p->width));
    double flush = (double)(pl->c->n_states * sums(p)) * (p->depth > 1 ? SN_HOST_LANES : SN_HOST_FLUSH);
    double rest = (double)(pl->k % p->depth * sums(p));
    return blocks * (steps * step_cycles(pl, p) + runs * flush + rest + rest_cycles(pl, p));
}

/* Sums, what a step has of all columns, and a row at a time have to fit the registers. */
static bool fits_registers(const planner *pl, const sn_contract_plan *p) {
    int64_t all = pl->cx->target->vector_regs, columns = p->depth > 1 ? p->width : p->vectors;
    return pl->c->n_states * sums(p) + pl->n_right * columns + pl->n_left <= all;
}

/* Cycles in which an element is packed. */
static double pack_cycles(const planner *pl, const sn_contract_plan *p, uint32_t o, bool turned) {
    const struct factor *f = &pl->factors[o];
    int64_t lanes = p->lanes * p->depth, widest = pl->cx->target->vector_bytes / pl->bytes;
    double more = turned ? TRANSPOSE : f->apart ? SN_HOST_APART : 0;
    if (turned && pl->words.steps == 1) return TRANSPOSE;
    if (p->line && pl->c->operands[o].right && !f->along)
        return (f->work + 2) * (double)cuts(p->line, sn_contract_line_lanes(p->line, widest)) / (double)p->line + more;
    return (f->work + 2) / (double)(lanes < f->lanes ? lanes : f->lanes) + more;
}

/* Is the panel worth being made? Tests are kept out of the loop over the sum in any case. */
static sn_contract_panel choose_panel(const planner *pl, const sn_contract_plan *p, uint32_t o) {
    bool right = pl->c->operands[o].right, along = pl->factors[o].along;
    int64_t blocks = right ? cuts(p->tile_m, p->rows) : cuts(p->tile_n, p->width);
    int64_t bytes = (right ? p->tile_n : p->tile_m) * pl->k * pl->bytes, lanes = p->lanes * p->depth;
    bool vector = right || p->depth > 1, turned = vector && along != (p->depth > 1);
    bool broken = p->depth == 1 && pl->factors[o].broken && !(right && p->line);
    double work = pl->factors[o].work, pack = pack_cycles(pl, p, o, turned);
    if (pl->factors[o].whole && !vector) return SN_PANEL_NONE;
    double again = (vector ? work / (double)lanes : work) + (turned || broken);
    if (blocks > 1 && bytes > SN_HOST_NEAR / 2 && p->depth == 1) again += pack;
    if (pack >= (double)blocks * again && !pl->factors[o].tested) return SN_PANEL_NONE;
    return along ? SN_PANEL_ALONG : SN_PANEL_ACROSS;
}

static void choose_panels(const planner *pl, sn_contract_plan *p) {
    for (uint32_t o = 0; o < pl->c->n_operands; o++) p->panel[o] = choose_panel(pl, p, o);
}

/* Each tile fetches its operands, and packs those that have panels. */
static double operand_cycles(const planner *pl, const sn_contract_plan *p) {
    double cycles = 0;
    for (uint32_t o = 0; o < pl->c->n_operands; o++) {
        bool right = pl->c->operands[o].right,
             turned = (right || p->depth > 1) && pl->factors[o].along != (p->depth > 1);
        double elements = (double)((right ? p->tile_n : p->tile_m) * pl->k);
        cycles += elements * (double)(sn_dtype_bytes(pl->c->operands[o].from) * pl->words.steps) / SN_HOST_LINE *
                  SN_HOST_FETCH;
        if (p->panel[o] == SN_PANEL_NONE) continue;
        cycles += elements * pack_cycles(pl, p, o, turned);
    }
    return cycles;
}

static void try_block(sn_contract_plan *best, const planner *pl, sn_contract_plan *try) {
    if (!fits_registers(pl, try) && sums(try) > 1) return;
    choose_panels(pl, try);
    try->cycles = blocks_cycles(pl, try) + operand_cycles(pl, try);
    if (!best->rows || try->cycles < best->cycles) *best = *try;
}

/* The block that does the tile in the fewest cycles: with vectors along columns, or along the sum. */
static void choose_block(const planner *pl, sn_contract_plan *p) {
    sn_contract_plan best = {0}, try = *p;
    int64_t widest = pl->cx->target->vector_bytes / pl->bytes;
    for (try.rows = 1; try.rows <= MOST_ROWS && try.rows <= p->tile_m; try.rows++) {
        try.depth = 1;
        for (try.lanes = widest; try.lanes > p->tile_n;) try.lanes /= 2;
        for (try.vectors = 1; try.vectors <= MOST_VECTORS && try.vectors * try.lanes <= p->tile_n; try.vectors++) {
            try.width = try.vectors * try.lanes;
            try_block(&best, pl, &try);
        }
        try.depth = widest;
        for (try.width = 1; try.width <= MOST_VECTORS && try.width <= p->tile_n && pl->k >= widest; try.width++) {
            try.lanes = try.width & -try.width;
            try.vectors = try.width / try.lanes;
            try_block(&best, pl, &try);
        }
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

/* Parts whose columns of a block stay near; of operands that come from far as they are, lines that follow each
 * other; else as long as sums allow. The same number of steps in all parts, and in all runs of a part, spares code
 * for the last ones. */
static void choose_parts(const planner *pl, sn_contract_plan *p) {
    int64_t k = pl->k, run = longest_run(p) * p->depth, least = SN_CONTRACT_RUN * p->depth,
            most = SN_CONTRACT_RUN / 2 * run;
    bool panels = false, far = false;
    for (uint32_t o = 0; o < pl->c->n_operands; o++) {
        panels |= p->panel[o] != SN_PANEL_NONE;
        far |= p->panel[o] == SN_PANEL_NONE && pl->c->operands[o].right && p->tile_n * k * pl->bytes > SN_HOST_CACHE;
    }
    int64_t near = SN_HOST_NEAR / ((p->depth > 1 ? p->rows + p->width : p->width) * pl->bytes);
    if (far && p->depth == 1) most = SN_HOST_STREAMS;
    else if (panels && near < most) most = near < least ? least : near;
    if (!p->tile_k && k <= most) p->tile_k = k;
    if (!p->tile_k) p->tile_k = divisor(k, most / 2, most);
    if (!p->tile_k) p->tile_k = most < run ? most : cuts(cuts(k, cuts(k, most)), run) * run;
    p->parts = cuts(k, p->tile_k);
    p->run =
        p->tile_k <= run ? p->tile_k / p->depth * p->depth : divisor(p->tile_k, run / 2, run) / p->depth * p->depth;
    if (p->run < run / 2 && p->tile_k > run) p->run = run;
}

/* ---- tiles ---- */

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
    p->line = pl->line && p->tile_n % pl->line == 0 ? pl->line : 0;
    p->tiles_m = cuts(c->m, p->tile_m);
    p->tiles_n = cuts(c->n, p->tile_n);
    choose_block(pl, p);
    choose_parts(pl, p);
    int64_t tiles = c->batch * p->tiles_m * p->tiles_n;
    double alone = (double)c->batch * p->cycles;
    p->cycles = (double)cuts(tiles, pl->cx->target->units) * p->cycles + (tiles > 1 ? SN_HOST_WAKE : 0);
    p->together = p->tiles_m * p->tiles_n == 1 && alone <= p->cycles;
    if (p->together) p->cycles = alone;
    return fits_memory(pl, p);
}

/* How many tiles of a side are tried. */
static int64_t next_count(int64_t n) { return n < 8 ? n + 1 : n & (n - 1) ? n / 3 * 4 : n / 2 * 3; }

/* Is it one of more tiles than share the work evenly, or too large to be looked at? */
static bool is_hopeless(const sn_contract_plan *p, const planner *pl, bool found) {
    const sn_contraction *c = pl->c;
    int64_t tiles = cuts(c->m, p->tile_m) * cuts(c->n, p->tile_n);
    if (found && tiles > 1 && sn_mul_clamped(tiles, c->batch) > SN_HOST_EVEN * (int64_t)pl->cx->target->units)
        return true;
    return tiles > 1 && p->tile_m * p->tile_n > SN_HOST_STACK / pl->bytes && p->tile_k != pl->k;
}

static bool choose_tile(sn_contract_plan *out, const planner *pl, const sn_sched *sc) {
    const sn_contraction *c = pl->c;
    int64_t line = pl->line ? pl->line : SN_HOST_LINE / pl->bytes;
    bool found = false;
    for (int64_t i = 1; i <= c->m; i = sc->tile_m ? c->m + 1 : next_count(i))
        for (int64_t j = 1; j <= c->n; j = sc->tile_n ? c->n + 1 : next_count(j)) {
            sn_contract_plan p = {.dtype = out->dtype,
                                  .words = pl->words,
                                  .k = pl->k,
                                  .tile_m = sc->tile_m,
                                  .tile_n = sc->tile_n,
                                  .tile_k = sc->tile_k};
            if (!p.tile_m) p.tile_m = cuts(c->m, i);
            if (!p.tile_n) p.tile_n = cuts(cuts(c->n, j), line) * line;
            if (p.tile_m > c->m) p.tile_m = c->m;
            if (p.tile_n > c->n) p.tile_n = c->n;
            if (p.tile_k > pl->k) p.tile_k = pl->k;
            if (is_hopeless(&p, pl, found)) continue;
            if (!plan_tile(&p, pl) || (found && p.cycles >= out->cycles)) continue;
            *out = p;
            found = true;
        }
    return found;
}

/* The best plan by words of that kind; of no rows: none fits. */
static sn_contract_plan plan_by_words(sn_pass_ctx *cx, const sn_contraction *c, const sn_sched *sc,
                                      sn_contract_words words) {
    /* Products of bytes take as long as those of two, and their low bytes are the same. */
    sn_dtype dtype = c->dtype == SN_I8 ? SN_I16 : c->dtype == SN_U8 ? SN_U16 : c->dtype;
    planner pl = {.cx = cx, .c = c, .words = words, .k = cuts(c->k, words.steps), .bytes = sn_dtype_bytes(dtype)};
    sn_contract_plan out = {.dtype = dtype, .words = words, .k = pl.k};
    look_at_lines(&pl);
    look_at_operands(&pl);
    return choose_tile(&out, &pl, sc) ? out : (sn_contract_plan){.cycles = 0};
}

bool sn_contract_plan_find(sn_contract_plan *out, sn_sched *sc, sn_pass_ctx *cx, const sn_contraction *c) {
    *out = (sn_contract_plan){.cycles = 0};
    if (!c->m || !c->n || !c->k || !c->batch) return false;
    sn_contract_words words = sn_contract_words_find(cx, c);
    *out = plan_by_words(cx, c, sc, words);
    if (words.steps > 1) { /* what one row reads once is not worth being put together */
        sn_contract_plan single = plan_by_words(cx, c, sc, (sn_contract_words){.steps = 1});
        if (!out->rows || (single.rows && single.cycles < out->cycles)) *out = single;
    }
    if (!out->rows) return false;
    sc->cls = SN_SCHED_CONTRACT;
    sc->tile_m = (uint32_t)out->tile_m;
    sc->tile_n = (uint32_t)out->tile_n;
    sc->tile_k = (uint32_t)out->tile_k;
    return true;
}

/* Would columns be packed of which a single row reads each element once, as it could where they are? */
static bool packs_for_one_row(const sn_contract_plan *p, const sn_contraction *c) {
    bool packs = false;
    for (uint32_t o = 0; o < c->n_operands; o++) packs |= c->operands[o].right && p->panel[o] == SN_PANEL_ACROSS;
    return c->m == 1 && packs;
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
    if (!sn_contraction_find(&c, &why_not, cx, k)) return SN_OK;
    if (pinned->cls == SN_SCHED_NONE && c.n == 1) return SN_OK;
    /* Sums of what is computed from pairs: nothing that a panel keeps is read again. */
    if (pinned->cls == SN_SCHED_NONE && c.m == 1 && sh && sh->lanes_are_rows) return SN_OK;
    if (!sn_contract_plan_find(&p, &sc, cx, &c)) return SN_OK;
    if (pinned->cls == SN_SCHED_NONE && packs_for_one_row(&p, &c)) return SN_OK;
    sn_schedule_propose(out, cx, &sc);
    out->cycles = p.cycles;
    return SN_OK;
}
