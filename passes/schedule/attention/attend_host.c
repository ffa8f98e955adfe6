/* attend_host.c: class attend on the CPU: which tiles and blocks an attention is made of.
 *
 *     12 heads of 1024 queries and keys, 64 channels, in f32 on two threads with vectors of 16:
 *     tiles of 64 queries x 64 keys; scores by blocks of 6 keys x 4 vectors of queries, sums by blocks of 4 queries x 4
 *     vectors of columns
 *
 * attend_host_bind.c has the picture. The lanes of scores are query rows, so that a maximum and a sum over keys are
 * those of vectors, keys are read as they lie, and no key is turned around for each tile of rows: only the tile of
 * queries is, once. Weights are numbers for the second product, whose lanes are columns of v; or vectors, where columns
 * are few or leave lanes of a vector empty, and elements of v are numbers.
 *
 * The figures are counts of cycles: they rank plans, and tell whether to wake other threads.
 */
#include "passes/schedule/attention/attend_host.h"

#include "passes/base/attention.h"
#include "passes/schedule/base/figures.h"

enum { HUNDRED = 100, MOST_VECTORS = 8, MOST_ROWS = 32, MOST_TOGETHER = 8, FEW_TOGETHER = 4 };

/* ---- blocks ---- */

/* Cycles of a product of m rows x n vectors over so many steps, by such blocks. */
static double product_cycles(const sn_attend_block *b, int64_t m, int64_t n, int64_t steps) {
    double sums = (double)(b->rows * b->vectors), step = sums * SN_HOST_FMA / HUNDRED;
    double loads = (double)(b->vectors * SN_HOST_LOAD + b->rows * SN_HOST_SPREAD) / HUNDRED;
    if (step < loads) step = loads;
    if (step < SN_HOST_FMA_LATENCY) step = SN_HOST_FMA_LATENCY;
    double blocks = (double)(sn_ceil_div(m, b->rows) * sn_ceil_div(n, b->vectors));
    double runs = (double)sn_ceil_div(steps, SN_ATTEND_RUN);
    return blocks * ((double)steps * (step + SN_HOST_STEP) + runs * sums * SN_HOST_FLUSH);
}

/* What a block has to divide. */
typedef enum whole { NOTHING, VECTORS, BOTH } whole;

/* The block that does the product in the fewest cycles, of those that registers hold with what a step loads. */
static double choose_block(sn_attend_block *out, const sn_target *t, int64_t m, int64_t n, int64_t steps, whole whole) {
    double least = 0;
    *out = (sn_attend_block){0};
    for (int64_t rows = 1; rows <= MOST_ROWS && rows <= m; rows++)
        for (int64_t vectors = 1; vectors <= MOST_VECTORS && vectors <= n; vectors++) {
            sn_attend_block b = {rows, vectors};
            if ((whole >= VECTORS && n % vectors) || (whole == BOTH && m % rows)) continue;
            if (rows * vectors > 1 && rows * vectors + vectors + 1 > t->vector_regs) continue;
            double cycles = product_cycles(&b, m, n, steps);
            if (out->rows && cycles >= least) continue;
            *out = b;
            least = cycles;
        }
    return least;
}

/* ---- tiles ---- */

/* Are elements of other dtypes than is multiplied, or rows apart that share few places of the cache? */
static bool is_packed(const sn_attend *a, sn_stmt load, int64_t channels) {
    const sn_stmt_rec *r = sn_stmt_get(a->m, load);
    int64_t pitch;
    if (r->dtype != a->c.dtype) return true;
    return !sn_ix_coef(a->m, r->ix, sn_stmt_axis(a->m, a->c.top), &pitch) || pitch != channels;
}

/* Tiles of keys that a tile of rows looks at, on average. */
static double tiles_of_keys(const sn_attend_plan *p, const sn_sched *sc, sn_attend *a) {
    enum { LOOKS = 16 };
    int64_t all = sn_ceil_div(a->c.k, p->keys), n = p->tiles < LOOKS ? p->tiles : LOOKS, row, number;
    double sum = 0;
    for (int64_t i = 0; i < n && a->n_masks; i++) {
        sn_ix zero = sn_ix_const(a->m, 0), first, count;
        row = i * p->tiles / n * sc->tile_m;
        sn_attend_tiles(&first, &count, a, sc, zero, sn_ix_const(a->m, row));
        sum += (double)(sn_ix_is_const(a->m, count, &number) ? number : all);
    }
    return a->n_masks ? sum / (double)n : (double)all;
}

static int64_t bytes_of_keys(const sn_attend *a, int64_t keys) {
    const sn_stmt_rec *key = sn_stmt_get(a->m, a->key), *v = sn_stmt_get(a->m, a->v);
    return sn_mul_clamped(keys, a->depth * sn_dtype_bytes(key->dtype) + a->c.n * sn_dtype_bytes(v->dtype));
}

/* Sums go along columns, or along query rows where that takes fewer cycles: of three columns 64 rows are 12 vectors, not
 * 128 of two lanes. */
static double choose_sums(sn_attend_plan *p, const sn_attend *a) {
    const sn_target *t = a->cx->target;
    sn_attend_block across;
    double along_rows = choose_block(&across, t, a->c.n, p->vectors, p->keys, BOTH);
    double cycles = choose_block(&p->sums, t, p->lanes * p->vectors, p->v_vectors, p->keys, NOTHING);
    p->across = along_rows < cycles;
    if (!p->across) return cycles;
    p->sums = across;
    return along_rows;
}

/* Of a tile of rows: its queries are turned around; then for each tile of keys both products and the weights in
 * between. Meanwhile keys and values come, again and again where they do not stay near. */
static double tile_cycles(sn_attend_plan *p, const sn_sched *sc, sn_attend *a) {
    const sn_target *t = a->cx->target;
    double lanes = (double)p->lanes, rows = lanes * (double)p->vectors, keys = (double)p->keys;
    double tile = choose_block(&p->scores, t, p->keys, p->vectors, a->depth, VECTORS);
    tile += choose_sums(p, a);
    tile += keys * (double)p->vectors * SN_HOST_WEIGHTS;
    if (p->packs_key) tile += keys * (double)a->depth * 2 / lanes;
    if (p->packs_v) tile += keys * (double)a->c.n * 2 / lanes;
    double fetch = (double)bytes_of_keys(a, p->keys) / SN_HOST_LINE * SN_HOST_FETCH;
    if (bytes_of_keys(a, a->c.k) <= SN_HOST_CACHE / 2) fetch /= (double)p->tiles;
    if (tile < fetch) tile = fetch;
    return rows * (double)a->depth * SN_HOST_TRANSPOSE / HUNDRED + tiles_of_keys(p, sc, a) * tile;
}

/* Do scores, queries, sums and panels stay in the cache, or, of the smallest tile, on the stack? */
static bool fits(const sn_attend_plan *p, const sn_attend *a) {
    int64_t rows = p->lanes * p->vectors, bytes = sn_dtype_bytes(p->dtype), line = SN_HOST_LINE / bytes;
    int64_t sums = sn_mul_clamped(rows + MOST_ROWS, (p->v_vectors + MOST_VECTORS) * p->columns);
    int64_t all = sn_add_clamped(sn_mul_clamped(rows, a->depth), sn_mul_clamped(rows, p->keys));
    if (a->c.k > SN_ATTEND_RUN * p->keys) sums = sn_mul_clamped(sums, 2);
    all = sn_add_clamped(all, sums);
    if (p->packs_key) all = sn_add_clamped(all, sn_mul_clamped(p->keys, a->depth + 2 * line));
    if (p->packs_v) all = sn_add_clamped(all, sn_mul_clamped(p->keys, a->c.n + 2 * line));
    return sn_mul_clamped(all, bytes) <= (p->vectors > 1 ? SN_HOST_CACHE : SN_HOST_STACK);
}

/* How many vectors of n go along the keys side by side; 0: too many are left over. */
static int64_t together_of(int64_t n) { return n <= MOST_TOGETHER ? n : n % FEW_TOGETHER ? 0 : FEW_TOGETHER; }

static bool plan_tile(sn_attend_plan *p, const sn_sched *sc, sn_attend *a) {
    const sn_contraction *c = &a->c;
    p->together = together_of(p->vectors);
    if (!p->together || p->vectors > p->all_vectors || !fits(p, a)) return false;
    p->tiles = sn_ceil_div(p->all_vectors, p->vectors);
    double one = tile_cycles(p, sc, a);
    int64_t blocks = sn_mul_clamped(c->batch, p->tiles);
    double by_one = (double)blocks * one;
    p->cycles = (double)sn_ceil_div(blocks, a->cx->target->units) * one + (blocks > 1 ? SN_HOST_WAKE : 0);
    p->alone = p->tiles == 1 && by_one <= p->cycles;
    if (p->alone) p->cycles = by_one;
    return true;
}

/* Keys of a tile: as many in all of them, or as many as a header says. */
static int64_t keys_of(int64_t all, int64_t pinned) {
    if (pinned) return pinned < all ? pinned : all;
    return sn_ceil_div(all, sn_ceil_div(all, SN_ATTEND_RUN));
}

bool sn_attend_plan_find(sn_attend_plan *out, sn_sched *sc, sn_attend *a) {
    enum { MOST = 16 };
    const sn_contraction *c = &a->c;
    int64_t widest = a->cx->target->vector_bytes / sn_dtype_bytes(c->dtype);
    sn_attend_plan p = {.dtype = c->dtype, .lanes = widest, .columns = widest};
    bool found = false;
    if (!c->m || !c->n || !c->k || !c->batch || !a->depth || sc->tile_n > SN_ATTEND_RUN) return false;
    while (p.lanes > c->m) p.lanes /= 2;
    while (p.columns > c->n) p.columns /= 2;
    p.all_vectors = sn_ceil_div(c->m, p.lanes);
    p.v_vectors = sn_ceil_div(c->n, p.columns);
    p.keys = keys_of(c->k, sc->tile_n);
    p.packs_key = is_packed(a, a->key, a->depth);
    p.packs_v = is_packed(a, a->v, c->n);
    int64_t pinned = sn_ceil_div(sc->tile_m, p.lanes);
    if (pinned > p.all_vectors) pinned = p.all_vectors;
    for (p.vectors = pinned ? pinned : 1; p.vectors <= (pinned ? pinned : MOST); p.vectors++) {
        sn_sched try = *sc;
        try.tile_m = (uint32_t)(p.vectors * p.lanes);
        try.tile_n = (uint32_t)p.keys;
        if (!plan_tile(&p, &try, a) || (found && p.cycles >= out->cycles)) continue;
        *out = p;
        found = true;
    }
    if (!found) return false;
    sc->cls = SN_SCHED_ATTEND;
    sc->tile_m = (uint32_t)(out->vectors * out->lanes);
    sc->tile_n = (uint32_t)out->keys;
    return true;
}

/* ---- the class ---- */

bool sn_schedule_attend_host_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_attend a;
    (void)sh;
    *why_not = "it is for the CPU";
    return !cx->target->is_gpu && sn_attend_find_nest(&a, why_not, cx, k);
}

sn_status sn_schedule_attend_host_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k,
                                             const sn_schedule_shape *sh, const sn_sched *pinned) {
    sn_attend a;
    sn_attend_plan p;
    const char *why_not;
    sn_sched sc = *pinned;
    (void)sh;
    if (!sn_attend_find_nest(&a, &why_not, cx, k) || !sn_attend_plan_find(&p, &sc, &a)) return SN_OK;
    sn_schedule_propose(out, cx, &sc);
    out->cycles = p.cycles;
    return SN_OK;
}
