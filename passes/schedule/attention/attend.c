/* attend.c: class attend: attention on GPUs in one kernel, whose scores never leave registers.
 *
 *     loop .. { loop i in Sq { loop d in Dv { %m, %z, %m2, %o = reduce (sumexp, sumexp) j in Sk { .. }   .. store y[..] } } }
 *  -> loop g : grid { loop w in 1 : seq pipe(1) {
 *       box q -> sq   barrier   loop x : block.x { most = -inf, total = 0, acc = 0 }
 *       loop t in number of tiles : seq pipe(stages) {
 *         box k -> sk   box v -> sv   barrier
 *         s = sq * sk  (mma)   masks and f over s   most, and by how much it grew   s = e^(s - most)   total   p = s   acc *= ..
 *         acc += p * sv  (mma)
 *       }
 *       the body, at the elements of acc that are the thread's
 *     } }
 *
 * Finds the nest and chooses tiles here; attend_mask.c reads masks, attend_bind.c binds. A row is shared by four
 * neighbouring threads, as instructions share it. Where a mask hides whole tiles of keys from a block, its loop over
 * them is shorter.
 *
 * Legality: weights are rounded to the dtype of v for their product, as those of a graph in that dtype are.
 */
#include "passes/schedule/attention/attend.h"
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/model.h"

/* ---- the nest ---- */

static bool refuse(const char **why_not, const char *why) {
    *why_not = why;
    return false;
}

static const sn_stmt_rec *def_of(const sn_attend *a, sn_val v) { return sn_stmt_get(a->m, sn_val_get(a->m, v)->def); }

/* The load of an element that is used as it is, converted exactly at most; none: it is another value. */
static sn_stmt load_of(const sn_attend *a, sn_val v) {
    sn_stmt def = sn_val_get(a->m, v)->def;
    for (const sn_stmt_rec *r = sn_stmt_get(a->m, def); r->op == SN_LOP_CAST; r = sn_stmt_get(a->m, def)) {
        if (!sn_dtype_holds(r->dtype, sn_val_get(a->m, r->in[0])->dtype)) break;
        def = sn_val_get(a->m, r->in[0])->def;
    }
    const sn_stmt_rec *r = sn_stmt_get(a->m, def);
    return r->op == SN_LOP_LOAD && !r->has_mask ? def : (sn_stmt){0};
}

static bool is_one(const sn_attend *a, sn_val v) {
    const sn_stmt_rec *r = def_of(a, v);
    return r->op == SN_LOP_CONST && r->f == 1;
}

/* The only reduction of the body, and the yield of its nest. */
static bool find_reduction(sn_attend *a, const char **why_not) {
    sn_contraction *c = &a->c;
    sn_module *m = a->m;
    sn_chain_outer(&c->outer, m, a->k);
    c->body = c->outer.n ? c->outer.at[c->outer.n - 1] : (sn_stmt){0};
    for (sn_stmt s = sn_region_first(m, a->k, c->body); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_stores(r) && !c->top.i) return refuse(why_not, "it stores in front of the reduction");
        if (!sn_lop_has_region(r->op)) continue;
        if (r->op != SN_LOP_REDUCE || c->top.i) return refuse(why_not, "it is more than one reduction");
        c->top = s;
    }
    if (!c->top.i) return refuse(why_not, "it has no reduction");
    const sn_stmt_rec *top = sn_stmt_get(m, c->top);
    bool online = top->n_combs == 2 && top->combs[0] == SN_COMB_SUMEXP && top->combs[1] == SN_COMB_SUMEXP;
    if (!online) return refuse(why_not, "it adds up no weights of scores and what they weigh");
    c->inner = (sn_chain){.at = {c->top}, .n = 1};
    c->dtype = top->dtype;
    c->n_states = 4;
    if (!sn_chain_extents(m, &c->outer, c->extent) || !sn_chain_extents(m, &c->inner, c->k_extent))
        return refuse(why_not, "a size is symbolic");
    c->k = c->k_extent[0];
    return true;
}

/* The region: a sum of products, and what is yielded. */
static bool find_products(sn_attend *a, const char **why_not) {
    sn_module *m = a->m;
    const sn_stmt_rec *top = sn_stmt_get(m, a->c.top), *yield = sn_stmt_get(m, top->last);
    for (sn_stmt s = top->first; s.i; s = sn_next(m, s)) {
        if (!sn_lop_has_region(sn_stmt_get(m, s)->op)) continue;
        if (a->scores.i) return refuse(why_not, "its scores are more than one product");
        a->scores = s;
    }
    const sn_stmt_rec *sum = a->scores.i ? sn_stmt_get(m, a->scores) : NULL;
    if (!sum || sum->op != SN_LOP_REDUCE || sum->n_combs != 1 || sum->combs[0] != SN_COMB_SUM ||
        sum->dtype != a->c.dtype)
        return refuse(why_not, "its scores are no product");
    const sn_stmt_rec *product = def_of(a, sn_stmt_get(m, sum->last)->in[0]);
    if (product->op != SN_LOP_MUL || product->parent.i != a->scores.i)
        return refuse(why_not, "its scores are no product");
    if (!sn_val_eq(yield->in[0], yield->in[2]) || !is_one(a, yield->in[1]))
        return refuse(why_not, "it adds up no weights of scores");
    a->sum = sum->result;
    a->score = yield->in[0];
    a->channel = sum->axis;
    a->q = load_of(a, product->in[0]);
    a->key = load_of(a, product->in[1]);
    a->v = load_of(a, yield->in[3]);
    if (!a->q.i || !a->key.i || !a->v.i) return refuse(why_not, "an operand has a prologue");
    if (!sn_ix_is_const(m, sn_axis_get(m, a->channel)->extent, &a->depth)) return refuse(why_not, "a size is symbolic");
    return true;
}

static bool uses(const sn_attend *a, sn_stmt load, sn_axis ax) {
    return sn_ix_uses_axis(a->m, sn_stmt_get(a->m, load)->ix, ax);
}

/* How many iterations of an axis in a row meet the same keys and v: heads of a group. */
static int64_t heads_of(const sn_attend *a, sn_axis ax, int64_t extent) {
    enum { MOST = 256 };
    sn_module *m = a->m;
    const sn_ix of[] = {sn_stmt_get(m, a->key)->ix, sn_stmt_get(m, a->v)->ix};
    for (int64_t n = extent < MOST ? extent : MOST; n > 1; n--) {
        if (extent % n) continue;
        sn_axis low = sn_axis_new(m, "low", sn_ix_const(m, n)),
                high = sn_axis_new(m, "high", sn_ix_const(m, extent / n));
        sn_ix with = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, high), n), sn_ix_axis(m, low));
        bool hang = false;
        for (size_t i = 0; i < SN_COUNT(of); i++) hang |= sn_ix_uses_axis(m, sn_ix_subst(m, of[i], &ax, &with, 1), low);
        if (!hang) return n;
    }
    return 1;
}

/* Elements from a row to the next one, each a query of a head of a group. */
static bool find_row_stride(const sn_attend *a, sn_ix e, int64_t *out) {
    sn_axis axes[2 * SN_MAX_CHAIN], row = sn_axis_new(a->m, "row", sn_ix_const(a->m, a->c.m)),
                                    b = sn_axis_new(a->m, "b", sn_ix_const(a->m, a->c.batch));
    sn_ix with[2 * SN_MAX_CHAIN], zero = sn_ix_const(a->m, 0);
    sn_contraction_place place = {sn_ix_axis(a->m, b), sn_ix_axis(a->m, row), zero, zero};
    uint32_t n = sn_contraction_axes(axes, with, a->m, &a->c, &place);
    return sn_ix_coef(a->m, sn_ix_subst(a->m, e, axes, with, n), row, out);
}

/* The heads that share keys are rows, each with all queries: where no axis is q's alone, as in decoding, or so few queries that tiles
 * have room for those of other heads, whose rows then lie evenly behind one another. */
static bool take_heads_as_rows(sn_attend *a, int64_t queries) {
    sn_contraction *c = &a->c;
    int64_t stride;
    for (uint32_t i = 0; i < c->outer.n; i++) {
        sn_axis ax = sn_stmt_axis(a->m, c->outer.at[i]);
        int64_t n = uses(a, a->q, ax) && uses(a, a->key, ax) ? heads_of(a, ax, c->extent[i]) : 1;
        if (n == 1) continue;
        sn_contraction before = *c;
        c->grouped = i, c->group = n, c->m = n * queries;
        c->extent[i] /= n;
        c->batch /= n;
        if (queries == 1 || find_row_stride(a, sn_stmt_get(a->m, a->q)->ix, &stride)) return true;
        *c = before;
    }
    return false;
}

/* Rows: the longest axis that q alone has. All others but the columns are batch. */
static bool find_sides(sn_attend *a, const char **why_not) {
    sn_contraction *c = &a->c;
    sn_axis keys = sn_stmt_axis(a->m, c->top);
    if (uses(a, a->key, keys) == uses(a, a->q, keys)) return refuse(why_not, "its scores are no product of two sides");
    if (uses(a, a->q, keys)) {
        sn_stmt other = a->q;
        a->q = a->key;
        a->key = other;
    }
    uint32_t rows = SN_MAX_CHAIN, columns = SN_MAX_CHAIN;
    c->batch = c->m = c->n = 1;
    for (uint32_t i = 0; i < c->outer.n; i++) {
        sn_axis ax = sn_stmt_axis(a->m, c->outer.at[i]);
        bool of_q = uses(a, a->q, ax), of_k = uses(a, a->key, ax), of_v = uses(a, a->v, ax);
        if (of_q && !of_k && !of_v && (rows == SN_MAX_CHAIN || c->extent[i] > c->extent[rows])) rows = i;
        if (of_v && !of_q && !of_k && columns != SN_MAX_CHAIN) return refuse(why_not, "v has two axes of columns");
        if (of_v && !of_q && !of_k) columns = i;
    }
    if (columns == SN_MAX_CHAIN) return refuse(why_not, "it has no columns");
    for (uint32_t i = 0; i < c->outer.n; i++) {
        c->side[i] = i == rows ? SN_SIDE_M : i == columns ? SN_SIDE_N : SN_SIDE_BATCH;
        if (i != rows && i != columns) c->batch = sn_mul_clamped(c->batch, c->extent[i]);
    }
    c->n = c->extent[columns];
    c->m = rows == SN_MAX_CHAIN ? 1 : c->extent[rows];
    bool few = a->cx->target->is_gpu && 2 * c->m <= sn_mmas[SN_MMA_WGMMA_BF16].m;
    if (few && take_heads_as_rows(a, c->m)) return true;
    return rows != SN_MAX_CHAIN ? true : refuse(why_not, "it has no rows");
}

/* Is everything that scores are made of the same for all columns? */
static bool scores_know_no_column(const sn_attend *a) {
    int64_t n;
    sn_axis columns = sn_contraction_last_axis(&n, a->m, &a->c, SN_SIDE_N);
    sn_stmt end = sn_stmt_walk_skip(a->m, a->c.top);
    for (sn_stmt s = sn_stmt_get(a->m, a->c.top)->first; s.i != end.i && columns.i; s = sn_stmt_walk_next(a->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(a->m, s);
        if (s.i != a->v.i && ((r->ix.i && sn_ix_uses_axis(a->m, r->ix, columns)) ||
                              (r->bound.i && sn_ix_uses_axis(a->m, r->bound, columns))))
            return false;
    }
    return true;
}

/* Is the result rounded to halves before anything else is done than sharing it out by the total, as that of a product of halves is?
 * Of a product of f32 the weights have more bits, even if v is halves in memory. */
static bool is_rounded(const sn_attend *a) {
    enum { OF_SUM = 1, OF_TOTAL = 2 };
    const sn_stmt_rec *top = sn_stmt_get(a->m, a->c.top);
    sn_notes of = {.arena = a->cx->scratch};
    bool rounded = false;
    sn_notes_set(&of, sn_result(top, 3).i, OF_SUM);
    sn_notes_set(&of, sn_result(top, 1).i, OF_TOTAL);
    for (sn_stmt s = sn_stmt_walk_skip(a->m, a->c.top); s.i; s = sn_stmt_walk_next(a->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(a->m, s);
        uint64_t reads = 0, one;
        for (uint32_t i = 0; i < r->n_in; i++)
            if (sn_notes_find(&of, r->in[i].i, &one)) reads |= one;
        bool shares = r->op == SN_LOP_DIV || r->op == SN_LOP_MUL || r->op == SN_LOP_SELECT;
        bool halves = r->op == SN_LOP_CAST && (r->dtype == SN_BF16 || r->dtype == SN_F16);
        if (reads == OF_TOTAL && r->n_results) sn_notes_set(&of, r->result.i, OF_TOTAL);
        else if (reads == OF_TOTAL) continue; /* a statistic of the row that is stored: no weight is in it */
        else if (reads == (OF_SUM | OF_TOTAL) && shares) sn_notes_set(&of, r->result.i, OF_SUM);
        else if (reads && !halves) return false;
        else rounded |= reads;
    }
    return rounded;
}

static bool find_instruction(sn_attend *a, const char **why_not) {
    sn_stmt loads[] = {a->q, a->key, a->v};
    sn_dtype operand = sn_stmt_get(a->m, a->q)->dtype;
    for (size_t i = 0; i < SN_COUNT(loads); i++) {
        const sn_stmt_rec *r = sn_stmt_get(a->m, loads[i]);
        if (r->dtype != operand) return refuse(why_not, "its operands have different dtypes");
        if (sn_buf_get(a->m, r->buf)->align < SN_WIDEST_ACCESS)
            return refuse(why_not, "an operand does not begin at 16 bytes");
    }
    bool halves = (operand == SN_BF16 || operand == SN_F16) && a->c.dtype == SN_F32;
    a->mma = operand == SN_BF16 ? SN_MMA_WGMMA_BF16 : SN_MMA_WGMMA_F16;
    if (!halves) return refuse(why_not, "there is no instruction for its dtypes");
    return is_rounded(a) ? true : refuse(why_not, "its weights are f32");
}

/* What the value is made of up to the sum: loads that change along the keys. */
static void find_loads(sn_attend *a, sn_val v, sn_notes *seen) {
    sn_stmt s = sn_val_get(a->m, v)->def;
    const sn_stmt_rec *r = sn_stmt_get(a->m, s);
    if (sn_val_eq(v, a->sum) || !sn_notes_add(seen, v.i)) return;
    for (uint32_t i = 0; i < r->n_in; i++) find_loads(a, r->in[i], seen);
    if (r->op != SN_LOP_LOAD || r->has_mask || a->n_loads == SN_MOST_LOADS || !uses(a, s, sn_stmt_axis(a->m, a->c.top)))
        return;
    for (uint32_t i = 0; i < a->n_loads; i++)
        if (a->loads[i].i == s.i) return;
    a->loads[a->n_loads++] = s;
}

void sn_attend_find_loads(sn_attend *a) { find_loads(a, a->score, &(sn_notes){.arena = a->cx->scratch}); }

int64_t sn_attend_loaded(const sn_attend *a, bool boxed) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < a->n_loads; i++)
        if (a->boxed[i] == boxed) bytes += sn_dtype_bytes(sn_stmt_get(a->m, a->loads[i])->dtype);
    return bytes;
}

/* Can a box bring the load for a tile? It has rows of keys that begin at multiples of 16 bytes. */
static bool can_be_boxed(const sn_attend *a, sn_stmt load) {
    const sn_stmt_rec *r = sn_stmt_get(a->m, load);
    const sn_contraction *c = &a->c;
    sn_axis keys = sn_stmt_axis(a->m, c->top);
    int64_t bytes = sn_dtype_bytes(r->dtype), stride;
    if (bytes < 2 || bytes > 4 || r->has_mask || sn_buf_is_local(sn_buf_get(a->m, r->buf)) ||
        sn_buf_get(a->m, r->buf)->align < SN_WIDEST_ACCESS)
        return false;
    if (!sn_ix_coef(a->m, r->ix, keys, &stride) || stride != 1) return false;
    sn_ix rest = sn_ix_sub(a->m, r->ix, sn_ix_axis(a->m, keys));
    for (uint32_t i = 0; i < c->outer.n; i++) {
        if (!sn_ix_coef(a->m, rest, sn_stmt_axis(a->m, c->outer.at[i]), &stride) || stride < 0) return false;
    }
    bool rows = find_row_stride(a, rest, &stride) && stride;
    return rows && !sn_ix_uses_vals(a->m, rest) && sn_ix_is_multiple(a->m, rest, SN_WIDEST_ACCESS / bytes);
}

bool sn_attend_find_nest(sn_attend *a, const char **why_not, sn_pass_ctx *cx, sn_kern k) {
    *a = (sn_attend){.cx = cx, .m = cx->m, .k = k};
    if (!find_reduction(a, why_not) || !find_products(a, why_not) || !find_sides(a, why_not)) return false;
    if (!scores_know_no_column(a)) return refuse(why_not, "its scores hang on columns");
    sn_attend_find_masks(a);
    return true;
}

/* What f takes for a score: all that v is made of, up to the sum. */
static void count_function(sn_attend *a, sn_val v, bool *seen) {
    const sn_stmt_rec *r = def_of(a, v);
    if (sn_val_eq(v, a->sum) || seen[v.i]) return;
    seen[v.i] = true;
    sn_schedule_scalar one = sn_schedule_scalar_of(a->m, r);
    a->specials += one.special, a->instructions += one.instructions;
    for (uint32_t i = 0; i < r->n_in; i++) count_function(a, r->in[i], seen);
}

bool sn_attend_find(sn_attend *a, const char **why_not, sn_pass_ctx *cx, sn_kern k) {
    if (!sn_attend_find_nest(a, why_not, cx, k) || !find_instruction(a, why_not)) return false;
    sn_attend_find_loads(a);
    count_function(a, a->score, SN_NEWN(cx->scratch, bool, a->m->vals.count));
    for (uint32_t i = 0; i < a->n_loads; i++) a->boxed[i] = can_be_boxed(a, a->loads[i]);
    return true;
}

bool sn_attend_has_warpgroups(const sn_target *t) {
    return t->is_gpu && t->specific && t->sm == sn_mmas[SN_MMA_WGMMA_BF16].sm;
}

bool sn_schedule_attend_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_attend a;
    (void)sh;
    *why_not = "it is for GPUs with instructions of warpgroups";
    return sn_attend_has_warpgroups(cx->target) && sn_attend_find(&a, why_not, cx, k);
}

/* ---- headers ---- */

int64_t sn_attend_padded(int64_t channels) {
    int64_t step = sn_mmas[SN_MMA_WGMMA_BF16].k;
    return (channels + step - 1) / step * step;
}

/* Lines of a sector, seven of which are a row of 112 channels, take longer than the room that is lost in long ones where that is little: 128 us for
 * 117 (of 80 channels 173 for 176, and of 96, in lines of two sectors, 107 for 109). */
int64_t sn_attend_stored(int64_t channels) {
    int64_t padded = sn_attend_padded(channels), half = sn_dtype_bytes(SN_BF16), line = SN_SECTOR;
    while (line < SN_LINE && line < padded * half) line *= 2;
    int64_t stored = sn_ceil_div(padded * half, line) * line / half;
    bool whole = channels * half % SN_SECTOR == 0, longer = padded * half % (2 * SN_SECTOR) == 0;
    return whole && (longer || 100 * stored > SN_ATTEND_LONG_LINES * padded) ? padded : stored;
}

uint32_t sn_attend_line(int64_t bytes) {
    uint32_t line = SN_LINE;
    while (bytes % line) line /= 2;
    return line;
}

static int64_t room_of(const sn_attend *a, const sn_sched *sc, uint32_t queries) {
    int64_t depth = sn_attend_stored(a->depth), width = sn_attend_stored(a->c.n);
    int64_t halves = queries * sc->tile_m * depth + (int64_t)sc->stages * sc->tile_n * (depth + width);
    int64_t loaded = (int64_t)sc->stages * sc->tile_m * sc->tile_n * sn_attend_loaded(a, true);
    return halves * sn_dtype_bytes(SN_BF16) + loaded;
}

/* Beside them two copies of results, or of halves of them, so that one is stored while the next one is made. */
static bool has_room_for_two(const sn_attend *a, const sn_sched *sc, uint32_t queries) {
    int64_t results = (int64_t)sc->tile_m * sn_attend_padded(a->c.n) * sn_dtype_bytes(SN_BF16);
    return room_of(a, sc, queries) + results + SN_PRODUCT_SPARE <= sn_contract_shared_bytes(a->cx->target, sc);
}

uint32_t sn_attend_queries(const sn_attend *a, const sn_sched *sc) {
    return sc->persistent && has_room_for_two(a, sc, 2) ? 2 : 1;
}

int64_t sn_attend_room(const sn_attend *a, const sn_sched *sc) { return room_of(a, sc, sn_attend_queries(a, sc)); }

/* Registers of a thread: sums of its rows, scores, weights, what f loads and computes, and what addresses and rows
 * take. */
static int64_t registers(const sn_attend *a, const sn_sched *sc) {
    int64_t rows = (int64_t)sc->tile_m / (sc->block_x / sn_mmas[a->mma].threads), threads = sn_mmas[a->mma].threads;
    int64_t scores = rows * sc->tile_n / threads;
    int64_t loaded = scores * sn_attend_loaded(a, false) / sn_dtype_bytes(SN_F32);
    return rows * sn_attend_padded(a->c.n) / threads + scores + scores / 2 + loaded + SN_ATTEND_REGS_BESIDE +
           (a->specials > 0 ? SN_ATTEND_REGS_SPECIAL : 0);
}

/* Tiles of keys that all rows see alike; 0: masks say how many. */
static int64_t tiles_of(const sn_attend *a, const sn_sched *sc) {
    sn_attend of = *a;
    sn_ix first, number;
    if (!a->n_masks) return sn_ceil_div(a->c.k, sc->tile_n);
    sn_axis batch = sn_axis_new(a->m, "b", sn_ix_const(a->m, a->c.batch)),
            row = sn_axis_new(a->m, "i", sn_ix_const(a->m, a->c.m));
    sn_attend_tiles(&first, &number, &of, sc, sn_ix_axis(a->m, batch), sn_ix_axis(a->m, row));
    return sn_ix_is_const(a->m, number, NULL) ? sn_ix_value(a->m, number) : 0;
}

/* ... that rows see, those of one block like those of another: where masks hide keys, the mean. */
static double tiles_seen(const sn_attend *a, const sn_sched *sc) {
    enum { MOST = 64 /* blocks of rows that are looked at */ };
    int64_t blocks = sn_ceil_div(a->c.m, sc->tile_m), looks = blocks < MOST ? blocks : MOST;
    double sum = 0;
    if (!a->n_masks) return sn_waves((double)a->c.k, sc->tile_n);
    for (int64_t i = 0; i < looks; i++) sum += (double)sn_attend_tiles_at(a, sc, blocks * i / looks * sc->tile_m);
    return sum / (double)looks;
}

/* ... that the rows from `row` on see in any batch, at least: a mask may say something else for each of them. */
static int64_t least_at(const sn_attend *a, const sn_sched *sc, int64_t row) {
    sn_attend of = *a;
    sn_ix first, number;
    sn_axis batch = sn_axis_new(a->m, "b", sn_ix_const(a->m, a->c.batch));
    sn_attend_tiles(&first, &number, &of, sc, sn_ix_axis(a->m, batch), sn_ix_const(a->m, row));
    return sn_ix_range(a->m, number).lo;
}

/* ... that rows see which see fewest. */
static int64_t least_tiles(const sn_attend *a, const sn_sched *sc) {
    enum { MOST = 64 };
    int64_t all = tiles_of(a, sc), blocks = sn_ceil_div(a->c.m, sc->tile_m), least = INT64_MAX;
    if (all || blocks > MOST) return all;
    for (int64_t i = 0; i < blocks; i++) {
        int64_t n = least_at(a, sc, i * sc->tile_m);
        if (n < least) least = n;
    }
    return least;
}

/* Is there a part for each block that shares the keys? Of any number above (split - 1)^2, there is. */
static bool can_be_shared(const sn_attend *a, const sn_sched *sc) {
    int64_t tiles = tiles_of(a, sc), split = sc->split;
    if (split == 1 || sc->persistent) return split == 1;
    if (!tiles) return least_tiles(a, sc) > (split - 1) * (split - 1);
    return (split - 1) * sn_ceil_div(tiles, split) < tiles;
}

/* The assembler takes no instruction whose sums, and what else it holds then, are more than the registers that a thread begins with. */
static bool has_registers_for(const sn_attend *a, const sn_sched *sc, int64_t columns) {
    const sn_mma_info *mma = &sn_mmas[a->mma];
    return mma->m * columns / mma->threads + SN_ATTEND_NAMED <= sn_box_registers(sc->block_x, sc->min_blocks).all;
}

int64_t sn_attend_most_registers(const sn_sched *sc) { return sn_box_registers(sc->block_x, sc->min_blocks).computes; }

bool sn_attend_has_tiles(const sn_attend *a, const sn_sched *sc) {
    enum { WIDEST = 256, GROUPS = 3 };
    const sn_mma_info *mma = &sn_mmas[a->mma];
    uint32_t groups = sc->block_x / mma->threads;
    if (!groups || groups > GROUPS || sc->block_x % mma->threads || sc->tile_m != mma->m * groups) return false;
    return sc->tile_n && sc->tile_n % mma->k == 0 && sc->tile_n <= WIDEST && sn_attend_padded(a->c.n) <= WIDEST;
}

static bool is_possible(const sn_attend *a, const sn_sched *sc) {
    if (!sn_attend_has_tiles(a, sc)) return false;
    if (sc->stages < 2 || sc->stages > SN_MAX_PIPE || registers(a, sc) > sn_attend_most_registers(sc)) return false;
    if (!has_registers_for(a, sc, sc->tile_n) || !has_registers_for(a, sc, sn_attend_padded(a->c.n))) return false;
    if (sn_attend_room(a, sc) + SN_PRODUCT_SPARE > sn_contract_shared_bytes(a->cx->target, sc)) return false;
    return can_be_shared(a, sc);
}

/* Blocks that share a multiprocessor. */
static double beside(const sn_sched *sc) { return sc->min_blocks > 1 ? sc->min_blocks : 1; }

static double groups_of(const sn_attend *a, const sn_sched *sc) {
    return (double)sc->block_x / sn_mmas[a->mma].threads;
}

/* Tiles of rows, of a part of the keys each. */
static double tiles_of_rows(const sn_attend *a, const sn_sched *sc) {
    return (double)a->c.batch * sn_waves((double)a->c.m, sc->tile_m) * sc->split;
}

/* Blocks on a multiprocessor that has most of them, and warpgroups: of few rows not as many as there is room for. */
static double together(const sn_attend *a, const sn_sched *sc) {
    double most = sn_waves(tiles_of_rows(a, sc), a->cx->target->units);
    return most < beside(sc) ? most : beside(sc);
}

static double groups_together(const sn_attend *a, const sn_sched *sc) { return together(a, sc) * groups_of(a, sc); }

static double channels_of(const sn_attend *a) {
    return (double)(sn_attend_padded(a->depth) + sn_attend_padded(a->c.n));
}

/* Cycles of a multiprocessor for the products of a tile, and for its weights, of all its blocks. */
static double products_of(const sn_attend *a, const sn_sched *sc) {
    return together(a, sc) * sc->tile_m * sc->tile_n * channels_of(a) / sn_mmas[a->mma].rate;
}

static double weights_of(const sn_attend *a, const sn_sched *sc) {
    double one = SN_ATTEND_WEIGHT / 100.0 + a->specials / a->cx->target->special;
    return together(a, sc) * sc->tile_m * sc->tile_n * one;
}

/* Cycles of a tile of keys for what a warpgroup waits for, and others do not hide. Where products and weights take about as
 * long, and groups take turns, each of the others hides as much. */
static double waits_of(const sn_attend *a, const sn_sched *sc) {
    const double EVEN = 0.6;
    double others = groups_of(a, sc) - 1;
    if (!sc->turns || others < 1 || a->specials || weights_of(a, sc) < EVEN * products_of(a, sc)) return SN_ATTEND_TILE;
    return SN_ATTEND_TURN / others;
}

/* How much of the shorter of products and weights the longer does not hide. A warpgroup by itself has nothing beside it; of one tile of
 * keys the product of weights stands in front of no other weights, and only other blocks are at another place. */
static double not_hidden(const sn_attend *a, const sn_sched *sc) {
    if (a->c.k <= sc->tile_n) return 1 / together(a, sc);
    return groups_together(a, sc) < 2 ? 1 : SN_ATTEND_BESIDE / 100.0;
}

/* Warpgroups do well to give their products in turn where weights take half as long as those at least, so that they are
 * worth overlapping; not where what f loads, or keys of few rows, are waited for as well. */
static bool has_turns(const sn_attend *a, const sn_sched *sc) {
    bool several = sc->block_x > sn_mmas[a->mma].threads && a->c.k > sc->tile_n && sc->split == 1;
    return several && !a->n_loads && 2 * weights_of(a, sc) >= products_of(a, sc);
}

/* Bytes that boxes bring for a tile of keys, of all blocks on a multiprocessor: in the mean of the device, whose cache they come from. */
static double brought_of(const sn_attend *a, const sn_sched *sc) {
    double mean = tiles_of_rows(a, sc) / a->cx->target->units, blocks = mean < beside(sc) ? mean : beside(sc);
    double halves = channels_of(a) * sn_dtype_bytes(SN_BF16), loaded = (double)sc->tile_m * sn_attend_loaded(a, true);
    return (blocks > 1 ? blocks : 1) * sc->tile_n * (halves + loaded);
}

/* Cycles for the tiles of keys that masks cut, of a tile of rows: others are not tested. */
static double cuts_of(const sn_attend *a, const sn_sched *sc) {
    double tiles = sn_waves(sc->tile_m, sc->tile_n) * a->n_masks;
    return together(a, sc) * tiles * sc->tile_m * sc->tile_n * SN_ATTEND_MASK / 100;
}

/* Cycles in which a tile of rows begins and stores. */
static double begin_of(const sn_attend *a, const sn_sched *sc, bool waits) {
    if (sn_attend_queries(a, sc) < 2) return SN_ATTEND_BLOCK;
    bool ahead = sc->stages > 2 && a->c.k > sc->tile_n && !waits && beside(sc) < 2;
    return groups_together(a, sc) * SN_ATTEND_NEXT - (ahead ? SN_ATTEND_AHEAD : 0);
}

/* Of all blocks. A tile takes its products or its weights, whichever is longer, and a part of the other, which
 * warpgroups do meanwhile; more where few registers are left to do so. Keys come from the cache, for each block that is on a
 * multiprocessor. Few rows wait for them from memory, and the last block of those that share them for what each part has
 * left. */
static double cycles(const sn_attend *a, const sn_sched *sc) {
    const sn_contraction *c = &a->c;
    double products = products_of(a, sc), weights = weights_of(a, sc);
    double longer = products > weights ? products : weights, shorter = products > weights ? weights : products;
    int64_t pressed = registers(a, sc) - SN_ATTEND_EASY;
    double tile = longer + shorter * not_hidden(a, sc) + waits_of(a, sc);
    if (pressed > 0) tile += (double)pressed * SN_ATTEND_PRESSED;
    bool waits = c->m < SN_ATTEND_LEAST || sc->split > 1;
    /* Keys that other tiles of rows have, too, come from the cache: as timed for chunks; parts of keys that all rows see alike are
     * taken to come from memory. */
    bool alone = c->m <= sc->tile_m || tiles_of(a, sc), memory = c->m <= sn_mmas[a->mma].m || (waits && alone);
    double brought = brought_of(a, sc) / (memory ? a->cx->target->cycle_bytes : SN_ATTEND_CACHE);
    if (brought > tile) tile = brought;
    double units = a->cx->target->units * beside(sc), blocks = tiles_of_rows(a, sc), turns = sn_waves(blocks, units);
    if (a->n_masks && !waits)
        turns = blocks > units ? blocks / units : 1; /* of different lengths: begun when others end */
    double keys = tiles_seen(a, sc), rows = (double)(c->m < sc->tile_m ? c->m : sc->tile_m);
    double left = rows * (double)c->n * sn_dtype_bytes(SN_F32) / SN_ATTEND_LOADS; /* by a part */
    double join = sc->split > 1 ? sc->split * (left > SN_ATTEND_PART ? left : SN_ATTEND_PART) : 0;
    /* Where a block has more to do than others, those beside it leave it the multiprocessor. */
    if (sc->persistent && a->n_masks) turns *= 1 + (sn_attend_excess(a, sc) - 1) / beside(sc);
    if (sc->split > 1) keys = sn_waves(keys, sc->split);
    return turns * (keys * tile + cuts_of(a, sc) + begin_of(a, sc, waits)) + join;
}

/* Blocks do several tiles one after the other: q of the next one comes while this one's results are stored. Of tiles
 * with masks some are longer than others, and the device shares them out better, unless q comes early. */
static bool is_persistent(const sn_attend *a, const sn_sched *sc) {
    sn_sched one = *sc, several = *sc;
    one.persistent = false, several.persistent = true;
    return has_room_for_two(a, sc, a->n_masks ? 2 : 1) && cycles(a, &several) <= cycles(a, &one);
}

/* Are there rows enough for the device? */
static bool is_many(const sn_attend *a, const sn_sched *sc) {
    int64_t blocks = a->c.batch * sn_ceil_div(a->c.m, sc->tile_m);
    return a->c.m >= SN_ATTEND_LEAST && 2 * blocks > a->cx->target->units;
}

/* Of few rows: as many parts of the keys as take the least cycles. A block that has them all may be persistent. */
static uint32_t parts_of(const sn_attend *a, const sn_sched *sc, bool open) {
    int64_t tiles = least_tiles(a, sc);
    uint32_t best = 1;
    double least = 0;
    if (is_many(a, sc)) return 1;
    for (uint32_t n = 1; n <= SN_ATTEND_PARTS && n <= tiles; n++) {
        sn_sched one = *sc;
        one.split = n;
        if (open && n == 1) one.persistent = is_persistent(a, &one);
        if (!can_be_shared(a, &one)) continue;
        double now = cycles(a, &one);
        if (n > 1 && now >= least) continue;
        least = now, best = n;
    }
    return best;
}

static sn_sched complete(const sn_attend *a, const sn_sched *pinned, uint32_t groups, uint32_t blocks, uint32_t keys,
                         uint32_t stages) {
    const sn_mma_info *mma = &sn_mmas[a->mma];
    sn_sched sc = *pinned;
    sc.cls = SN_SCHED_ATTEND;
    if (!sc.tile_m) sc.tile_m = sc.block_x ? mma->m * (sc.block_x / mma->threads) : mma->m * groups;
    if (!sc.block_x) sc.block_x = sc.tile_m / mma->m * mma->threads;
    if (!sc.tile_n) sc.tile_n = keys;
    if (!sc.stages) sc.stages = stages;
    if (!pinned->cls && blocks > 1) sc.min_blocks = blocks;
    if (!sc.split) sc.split = parts_of(a, &sc, !pinned->cls);
    if (!pinned->cls) sc.turns = has_turns(a, &sc);
    if (!pinned->cls) sc.persistent = sc.split == 1 && is_persistent(a, &sc);
    return sc;
}

void sn_attend_rank(sn_sched_list *list, double *cost, sn_arena *arena, const sn_sched *sc, double c) {
    enum { MOST = SN_ATTEND_HEADERS };
    uint32_t at = list->n < MOST ? list->n : MOST - 1;
    if (list->n == MOST && cost[at] <= c) return;
    if (list->n < MOST) SN_PUSH(arena, list, *sc);
    for (; at > 0 && cost[at - 1] > c; at--) list->at[at] = list->at[at - 1], cost[at] = cost[at - 1];
    list->at[at] = *sc;
    cost[at] = c;
}

/* Few rows leave most of an instruction idle, which costs nothing where memory is what takes time, or blocks share keys.
 * Else multiplying row by row does better (attend_rows.c), or three kernels with the scores in memory, which read keys
 * for each head. */
static bool is_worth(const sn_attend *a, const sn_sched *sc, double own) {
    enum { KERNELS = 3 };
    const sn_contraction *c = &a->c;
    double scores = (double)c->batch * (double)c->m * (double)c->k;
    double rows = 100.0 * (double)c->m / (c->m <= SN_ATTEND_WIDEST_ROWS ? SN_ATTEND_ROWS_BUSY : SN_ATTEND_MANY_BUSY);
    if (is_many(a, sc)) return true;
    double memory = sn_dtype_bytes(SN_BF16) / ((double)a->cx->target->cycle_bytes * a->cx->target->units);
    double read = (double)c->batch * (double)c->k * (double)(a->depth + c->n) * memory;
    double plain =
        read * (c->group ? (double)c->group : 1) + KERNELS * SN_ATTEND_BLOCK + SN_ATTEND_MOVED * scores * memory;
    double by_row = (rows > 1 ? rows : 1) * read + KERNELS * SN_ATTEND_BLOCK; /* begins, shares, ends: as long */
    return own < plain && (own < by_row || c->m >= SN_ATTEND_LEAST);
}

/* Two blocks of a warpgroup each bring keys of their own, which takes long of rows that are no whole lines of two sectors: 24 channels 27.4 us for 22.3, 40 263
 * for 135, 48 103 for 71, with three warpgroups that share keys. Not where all tiles are done in one turn. */
static bool is_better_in_two(const sn_attend *a, const sn_sched *sc) {
    int64_t line = 2 * SN_SECTOR, half = sn_dtype_bytes(SN_BF16);
    bool whole = a->depth * half % line == 0 && a->c.n * half % line == 0;
    return whole || sn_attend_loaded(a, false) || tiles_of_rows(a, sc) <= beside(sc) * a->cx->target->units;
}

/* Headers for a block of so many warpgroups, of which so many blocks share a multiprocessor. Those begin and end under
 * each other's tiles, and have their queries early; several of one warpgroup, that of two each have no registers. */
static void rank_tiles(sn_sched_list *list, double *cost, const sn_attend *a, const sn_sched *pinned, uint32_t groups,
                       uint32_t blocks) {
    enum { MOST_KEYS = 256, MOST_STAGES = 4 };
    uint32_t step = sn_mmas[a->mma].k;
    for (uint32_t keys = MOST_KEYS; keys > step; keys -= step)
        for (uint32_t stages = 2; stages <= MOST_STAGES; stages++) {
            sn_sched sc = complete(a, pinned, groups, blocks, keys, stages);
            if (!is_possible(a, &sc)) continue;
            if (blocks == 2 && !pinned->cls && !is_better_in_two(a, &sc)) continue;
            if (blocks > 1 && (sn_attend_queries(a, &sc) < 2 || !is_many(a, &sc))) continue;
            sn_attend_rank(list, cost, a->cx->scratch, &sc, cycles(a, &sc));
        }
}

sn_status sn_schedule_attend_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                        const sn_sched *pinned) {
    enum { MOST_GROUPS = 3, MOST_BLOCKS = 3 };
    sn_attend a;
    const char *why_not;
    double cost[SN_ATTEND_HEADERS];
    sn_sched_list list = {0};
    (void)sh;
    if (!sn_attend_find(&a, &why_not, cx, k)) return SN_OK;
    int64_t high = sn_ceil_div(a.c.m, sn_mmas[a.mma].m);
    uint32_t most = high < MOST_GROUPS && !pinned->cls ? (uint32_t)high : MOST_GROUPS;
    for (uint32_t groups = most; groups > 0; groups--)
        for (uint32_t blocks = 1; blocks <= (groups > 1 || pinned->cls ? 1 : MOST_BLOCKS); blocks++)
            rank_tiles(&list, cost, &a, pinned, groups, blocks);
    if (list.n && !pinned->cls && !is_worth(&a, &list.at[0], cost[0])) return SN_OK;
    for (uint32_t i = 0; i < list.n; i++)
        if (sn_attend_fits(&why_not, &a, &list.at[i])) sn_schedule_propose(out, cx, &list.at[i]);
    if (list.n && !out->n) sn_remark(cx, sn_kern_get(cx->m, k)->name, "its operands do not come by boxes: %s", why_not);
    if (list.n) out->cycles = cost[0];
    return SN_OK;
}
