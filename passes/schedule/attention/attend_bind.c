/* attend_bind.c: binding of class attend; attend.c has the picture.
 *
 * Tiles of q, k and v lie in shared memory alike: lines of up to 128 bytes of channels, one for each row or key,
 * permuted. Scores and sums are accumulators of instructions; weights become the fragment of the second product, for
 * which every thread has its elements already. Of a row, four threads have the maximum and the growth alike, and
 * each has a total of its own, added up at the end. With c the factor of scores and log2 e,
 *
 *     most' = max(most, scores)   shift' = c*most'   grown = 2^(shift - shift')   weight = 2^(c*score - shift')
 *
 * A weight is one fma, so that all those of a row are off by the rounding of shift, and by the same factor: totals and
 * growth are, too. Where shift is so large (a row that a mask has filled with -1e9, or the least number) that this
 * factor may be no number, c is a power of two: the product is exact, and scores that differ do so by so much that one
 * of their weights is nothing in either case. A row whose scores are all -inf so far has shift 0, so that its weights
 * are 0 and not nan.
 */
#include <math.h>

#include "passes/schedule/attention/attend_bind.h"
#include "passes/schedule/base/figures.h"

typedef sn_attend_binding binding;

static sn_ix open_loop(binding *o, sn_cursor *at, const char *name, int64_t extent, sn_axis_kind kind) {
    return sn_contract_loop(&o->b, at, name, extent, kind);
}

sn_ix sn_attend_open_threads(binding *o, sn_cursor *at) {
    return open_loop(o, at, "x", o->b.nest.threads, SN_AXIS_BLOCK_X);
}

/* ---- operands ---- */

sn_mma_operand sn_attend_make_operand(binding *o, const char *name, sn_dtype dtype, int64_t lines, int64_t channels) {
    int64_t padded = sn_attend_padded(channels);
    uint32_t bytes = sn_dtype_bytes(dtype), line = sn_attend_line(padded * bytes);
    sn_buf buf = sn_contract_local(&o->b, name, dtype, SN_BUF_SHARED, lines * padded, 1);
    sn_buf_get(o->b.m, buf)->swizzle = line;
    return (sn_mma_operand){.buf = buf, .rows = lines, .width = line / bytes};
}

/* Boxes that bring a tile: `lines` rows or keys from `from` on, of `all`; side by side what lines of channels hold.
 * axis: that of channels. */
typedef struct tile {
    sn_stmt load;
    const sn_mma_operand *to;
    sn_ix from;
    int64_t lines, all, channels;
    bool is_key;
    sn_axis channel; /* none: the columns */
} tile;

static sn_ix element(binding *o, const tile *t, sn_ix line, sn_ix channel) {
    sn_ix zero = sn_ix_const(o->b.m, 0);
    sn_contraction_place place = {o->b.batch, t->is_key ? zero : line, zero, t->is_key ? line : zero};
    sn_axis axes[2 * SN_MAX_CHAIN + 1];
    sn_ix with[2 * SN_MAX_CHAIN + 1];
    if (!t->channel.i) place.column = channel;
    uint32_t n = sn_contraction_axes(axes, with, o->b.m, &o->a->c, &place);
    if (t->channel.i) axes[n] = t->channel, with[n++] = channel;
    return sn_ix_subst(o->b.m, sn_stmt_get(o->b.m, t->load)->ix, axes, with, n);
}

static void put_boxes(binding *o, sn_cursor at, const tile *t) {
    sn_module *m = o->b.m;
    const sn_stmt_rec *load = sn_stmt_get(m, t->load);
    int64_t width = t->to->width, padded = sn_attend_padded(t->channels);
    for (int64_t first = 0; first < padded; first += width) {
        sn_cursor in = at;
        sn_ix i = open_loop(o, &in, "i", t->lines, SN_AXIS_SEQ), j = open_loop(o, &in, "j", width, SN_AXIS_SEQ);
        sn_stmt_get(m, sn_stmt_get(m, in.parent)->parent)->bulk = true;
        sn_ix line = sn_ix_add(m, t->from, i), channel = sn_ix_addc(m, j, first);
        sn_range seen =
            sn_ix_range(m, line); /* what no block sees may be in front of the array that the kernel is given */
        sn_val mask =
            sn_contract_and(&o->b, in, (sn_val){0}, seen.hi >= t->all, sn_ix_addc(m, line, -seen.lo), t->all - seen.lo);
        mask = sn_contract_and(&o->b, in, mask, first + width > t->channels, channel, t->channels);
        sn_ix from = element(o, t, line, channel);
        sn_val x = mask.i ? sn_put_load_masked(m, in, load->buf, from, mask, sn_put_const(m, in, load->dtype, 0))
                          : sn_put_load(m, in, load->buf, from);
        sn_put_store(m, in, t->to->buf, sn_ix_addc(m, sn_ix_fma(o->b.m, width, i, j), first * t->lines), x);
    }
}

static void put_q(binding *o, sn_cursor at) {
    const sn_attend *a = o->a;
    put_boxes(o, at, &(tile){a->q, &o->q, o->b.row, o->b.sc->tile_m, a->c.m, a->depth, false, a->channel});
}

/* Of a load that boxes bring: rows of the tile, in lines of keys. */
static sn_ix loaded_at(binding *o, uint32_t i, sn_ix row, sn_ix key) {
    const sn_buf_rec *r = sn_buf_get(o->b.m, o->loaded[i]);
    sn_mma_operand lines = {.rows = o->b.sc->tile_m, .width = r->swizzle / sn_dtype_bytes(r->dtype)};
    return sn_mma_offset(o->b.m, &lines, o->b.sc->tile_n, row, key);
}

static void put_loaded(binding *o, sn_cursor at, uint32_t number) {
    const sn_attend *a = o->a;
    sn_module *m = o->b.m;
    sn_buf to = o->loaded[number];
    sn_dtype dtype = sn_buf_get(m, to)->dtype;
    int64_t width = sn_buf_get(m, to)->swizzle / sn_dtype_bytes(dtype), keys = o->b.sc->tile_n;
    const sn_stmt_rec *load = sn_stmt_get(m, a->loads[number]);
    for (int64_t first = 0; first < keys; first += width) {
        sn_cursor in = at;
        sn_ix i = open_loop(o, &in, "i", o->b.sc->tile_m, SN_AXIS_SEQ), j = open_loop(o, &in, "j", width, SN_AXIS_SEQ);
        sn_stmt_get(m, sn_stmt_get(m, in.parent)->parent)->bulk = true;
        sn_ix row = sn_ix_add(m, o->b.row, i), inside = sn_ix_addc(m, j, first), key = sn_ix_add(m, o->keys, inside);
        sn_contraction_place place = {o->b.batch, row, sn_ix_const(m, 0), key};
        sn_axis axes[2 * SN_MAX_CHAIN];
        sn_ix with[2 * SN_MAX_CHAIN];
        uint32_t n = sn_contraction_axes(axes, with, m, &a->c, &place);
        sn_val mask = sn_contract_and(&o->b, in, (sn_val){0}, o->b.edge_m, row, a->c.m);
        mask = sn_contract_and(&o->b, in, mask, sn_ix_range(m, key).hi >= a->c.k, key, a->c.k);
        sn_ix from = sn_ix_subst(m, load->ix, axes, with, n);
        sn_val x = mask.i ? sn_put_load_masked(m, in, load->buf, from, mask, sn_put_const(m, in, dtype, 0))
                          : sn_put_load(m, in, load->buf, from);
        sn_put_store(m, in, to, loaded_at(o, number, i, inside), x);
    }
}

void sn_attend_put_keys(binding *o, sn_cursor at) {
    const sn_attend *a = o->a;
    int64_t keys = o->b.sc->tile_n;
    for (uint32_t i = 0; i < a->n_loads; i++)
        if (a->boxed[i]) put_loaded(o, at, i);
    put_boxes(o, at, &(tile){a->key, &o->key, o->keys, keys, a->c.k, a->depth, true, a->channel});
    put_boxes(o, at, &(tile){a->v, &o->v, o->keys, keys, a->c.k, a->c.n, true, {0}});
}

/* ---- elements and rows of a thread ---- */

sn_ix sn_attend_row_at(binding *o, sn_ix x, sn_ix h, sn_ix r) {
    return sn_contract_row_at(&o->b, x, h, sn_ix_scale(o->b.m, r, 2));
}

/* Loops over the rows of a thread. */
void sn_attend_open_rows(binding *o, sn_cursor *at, sn_ix *h, sn_ix *r) {
    *h = open_loop(o, at, "h", o->b.nest.tiles_m, SN_AXIS_UNROLL);
    *r = open_loop(o, at, "r", 2, SN_AXIS_UNROLL);
}

/* Loops over what it has of a row of scores, innermost pairs of neighbours: j-th block, element e of it. */
void sn_attend_open_pairs(binding *o, sn_cursor *at, sn_ix r, sn_ix *j, sn_ix *e) {
    *j = open_loop(o, at, "j", o->scores.tiles_n, SN_AXIS_UNROLL);
    *e = sn_ix_fma(o->b.m, 2, r, open_loop(o, at, "v", 2, SN_AXIS_VECTOR));
}

void sn_attend_store_all(binding *o, sn_cursor at, sn_buf buf, double value) {
    int64_t own = sn_buf_get(o->b.m, buf)->private_size;
    sn_dtype dtype = sn_buf_get(o->b.m, buf)->dtype;
    sn_ix x = sn_attend_open_threads(o, &at), e = open_loop(o, &at, "e", own, SN_AXIS_UNROLL);
    sn_put_store(o->b.m, at, buf, sn_ix_fma(o->b.m, own, x, e), sn_put_const(o->b.m, at, dtype, value));
}

/* ---- scores ---- */

static void zero(binding *o, sn_cursor at, sn_buf buf) { sn_contract_zero(&o->b, at, buf); }

/* The score at p. What counts of one is its absolute error, so that a hyperbolic tangent of limited weight need not be exact
 * near 0. */
sn_val sn_attend_put_score(binding *o, sn_contraction_copier *p) {
    enum { MOST_WEIGHT = 256 };
    sn_module *m = o->b.m;
    const sn_stmt_rec *r = sn_stmt_get(m, sn_val_get(m, o->a->score)->def);
    if (r->op != SN_LOP_TANH || r->dtype != SN_F32 || o->a->factor > MOST_WEIGHT) return sn_attend_copy_score(o->a, p);
    return sn_put_op1(m, p->at, SN_LOP_TANH_LEVEL, sn_contraction_copy(p, r->in[0]));
}

/* Of a score: element e of block j of thread x. */
typedef struct spot {
    sn_ix own;      /* its register */
    sn_ix row, key; /* in the tile */
    sn_contraction_copier p;
} spot;

/* Loops over the scores of a thread; *at moves inside. What is copied there is loaded for rows and keys that exist. */
static void open_scores(binding *o, sn_cursor *at, spot *out) {
    sn_attend *a = o->a;
    sn_module *m = o->b.m;
    sn_ix x = sn_attend_open_threads(o, at), h, r, j, e;
    sn_attend_open_rows(o, at, &h, &r);
    sn_attend_open_pairs(o, at, r, &j, &e);
    out->row = sn_mma_row(m, &o->scores, x, h, e);
    out->key = sn_mma_column(m, &o->scores, x, j, e);
    sn_ix row = sn_ix_add(m, o->b.row, out->row), key = sn_ix_add(m, o->keys, out->key);
    out->own = sn_mma_element(m, &o->scores, x, h, j, e);
    sn_contraction_copier_start(&out->p, a->cx, *at, o->b.n_vals);
    sn_contraction_place place = {o->b.batch, row, sn_ix_const(m, 0), key};
    out->p.n = sn_contraction_axes(out->p.axes, out->p.with, m, &a->c, &place);
    out->p.mask = sn_contract_and(&o->b, *at, (sn_val){0}, o->b.edge_m, row, a->c.m);
    out->p.mask = sn_contract_and(&o->b, *at, out->p.mask, sn_ix_range(m, key).hi >= a->c.k, key, a->c.k);
}

/* What f loads, before the products that it stands behind. */
void sn_attend_put_loads(binding *o, sn_cursor at) {
    const sn_attend *a = o->a;
    spot s;
    if (!sn_attend_loaded(a, false)) return;
    open_scores(o, &at, &s);
    for (uint32_t i = 0; i < a->n_loads; i++) {
        if (a->boxed[i]) continue;
        sn_val x = sn_stmt_get(o->b.m, a->loads[i])->result;
        sn_put_store(o->b.m, at, o->loaded[i], s.own, sn_contraction_copy(&s.p, x));
    }
}

/* f of each score. */
void sn_attend_put_function(binding *o, sn_cursor at) {
    const sn_attend *a = o->a;
    spot s;
    if (sn_val_eq(a->score, a->sum)) return;
    open_scores(o, &at, &s);
    sn_contraction_becomes(&s.p, a->sum, sn_put_load(o->b.m, at, o->s, s.own));
    for (uint32_t i = 0; i < a->n_loads; i++) {
        sn_ix from = a->boxed[i] ? loaded_at(o, i, s.row, s.key) : s.own;
        sn_contraction_becomes(&s.p, sn_stmt_get(o->b.m, a->loads[i])->result,
                               sn_put_load(o->b.m, at, o->loaded[i], from));
    }
    sn_put_store(o->b.m, at, o->s, s.own, sn_attend_put_score(o, &s.p));
}

/* The score where e is not negative, else -inf; of what are weights already, 0. */
static sn_val put_seen(binding *o, sn_cursor at, sn_ix e, sn_val score) {
    sn_module *m = o->b.m;
    int64_t bound = sn_ix_range(m, e).hi;
    sn_val keep = sn_put_in(m, at, e, sn_ix_const(m, bound < 0 ? 1 : bound < INT32_MAX ? bound + 1 : INT32_MAX));
    return sn_put_op3(m, at, SN_LOP_SELECT, keep, score, sn_put_const(m, at, SN_F32, o->bounded ? 0 : -INFINITY));
}

sn_val sn_attend_put_seen(binding *o, sn_cursor at, sn_ix row, sn_ix key, sn_val score) {
    for (uint32_t i = 0; i < o->a->n_masks; i++) {
        if (o->a->masks[i].in_score) continue;
        score = put_seen(o, at, sn_attend_mask_at(o->a, i, o->b.batch, row, key), score);
    }
    return score;
}

/* Where the test holds somewhere in the tile: scores become -inf where e is negative. */
static void put_mask(binding *o, sn_cursor at, sn_ix least, uint32_t mask, bool keys_end) {
    sn_module *m = o->b.m;
    sn_ix worst = sn_ix_addc(m, sn_ix_scale(m, least, -1), -1);
    int64_t most = sn_ix_range(m, worst).hi;
    if (most < 0) return;
    at = sn_at_end(o->b.k, sn_put_if(m, at, worst, sn_ix_const(m, most < INT32_MAX ? most + 1 : INT32_MAX)));
    sn_ix x = sn_attend_open_threads(o, &at), h, r, j, e;
    sn_attend_open_rows(o, &at, &h, &r);
    sn_attend_open_pairs(o, &at, r, &j, &e);
    sn_ix key = sn_ix_add(m, o->keys, sn_mma_column(m, &o->scores, x, j, e));
    sn_ix row = sn_ix_add(m, o->b.row, sn_mma_row(m, &o->scores, x, h, e));
    sn_ix test = keys_end ? sn_ix_addc(m, sn_ix_scale(m, key, -1), o->a->c.k - 1)
                          : sn_attend_mask_at(o->a, mask, o->b.batch, row, key);
    sn_ix own = sn_mma_element(m, &o->scores, x, h, j, e);
    sn_put_store(m, at, o->s, own, put_seen(o, at, test, sn_put_load(m, at, o->s, own)));
}

void sn_attend_put_masks(binding *o, sn_cursor at) {
    sn_attend *a = o->a;
    for (uint32_t i = 0; i < a->n_masks; i++)
        if (!a->masks[i].in_score)
            put_mask(o, at, sn_attend_mask_least(a, i, o->b.sc, o->b.batch, o->b.row, o->keys), i, false);
    if (a->c.k % o->b.sc->tile_n == 0) return;
    sn_ix least = sn_ix_addc(o->b.m, sn_ix_scale(o->b.m, o->keys, -1), a->c.k - o->b.sc->tile_n);
    put_mask(o, at, least, 0, true);
}

/* ---- all of it ---- */

sn_buf sn_attend_registers(binding *o, const char *name, sn_dtype dtype, int64_t own) {
    return sn_contract_local(&o->b, name, dtype, SN_BUF_REG, own, o->b.nest.threads);
}

/* Shared memory for a load of all scores of a tile. */
static sn_buf make_lines(binding *o, sn_dtype dtype) {
    int64_t rows = o->b.sc->tile_m, keys = o->b.sc->tile_n;
    uint32_t line = SN_LINE;
    while (keys * sn_dtype_bytes(dtype) % line) line /= 2;
    sn_buf buf = sn_contract_local(&o->b, "loaded", dtype, SN_BUF_SHARED, rows * keys, 1);
    sn_buf_get(o->b.m, buf)->swizzle = line;
    return buf;
}

/* Those that have one element for each row of a thread, and for each score. */
static void make_rows(binding *o) {
    const sn_attend *a = o->a;
    int64_t rows = 2 * o->b.nest.tiles_m;
    o->s = sn_attend_registers(o, "s", SN_F32, sn_mma_private(&o->scores));
    o->most = sn_attend_registers(o, "most", SN_F32, rows);
    o->factor = sn_attend_registers(o, "factor", SN_F32, rows);
    o->shift = sn_attend_registers(o, "shift", SN_F32, rows);
    o->grown = sn_attend_registers(o, "grown", SN_F32, rows);
    o->part = sn_attend_registers(o, "part", SN_F32, rows);
    o->total = sn_attend_registers(o, "total", SN_F32, rows);
    for (uint32_t i = 0; i < a->n_loads; i++) {
        sn_dtype dtype = sn_stmt_get(o->b.m, a->loads[i])->dtype;
        o->loaded[i] =
            a->boxed[i] ? make_lines(o, dtype) : sn_attend_registers(o, "loaded", dtype, sn_mma_private(&o->scores));
    }
}

static void make_operands(binding *o) {
    const sn_attend *a = o->a;
    const sn_sched *sc = o->b.sc;
    sn_dtype dtype = sn_mmas[a->mma].operand;
    o->q = sn_attend_make_operand(o, "q", dtype, sc->tile_m, sn_attend_stored(a->depth));
    o->key = sn_attend_make_operand(o, "k", dtype, sc->tile_n, sn_attend_stored(a->depth));
    o->v = sn_attend_make_operand(o, "v", dtype, sc->tile_n, sn_attend_stored(a->c.n));
    o->p = sn_attend_registers(o, "p", dtype, sn_mma_private(&o->scores));
    o->scores.a = o->q;
    o->scores.b = o->key;
    o->sums.a = (sn_mma_operand){.buf = o->p, .in_registers = true};
    o->sums.b =
        (sn_mma_operand){.buf = o->v.buf, .rows = sn_attend_padded(a->c.n), .width = o->v.width, .across = true};
}

static void make_nests(binding *o) {
    const sn_attend *a = o->a;
    const sn_sched *sc = o->b.sc;
    const sn_mma_info *mma = &sn_mmas[a->mma];
    int64_t depth = sn_attend_padded(a->depth), columns = sn_attend_padded(a->c.n);
    o->scores = o->sums = o->b.nest;
    o->scores.tiles_n = sc->tile_n / mma->n;
    o->scores.depth = depth;
    o->sums.tiles_n = (uint32_t)columns / mma->n;
    o->sums.depth = sc->tile_n;
    o->b.nest.tiles_n = o->sums.tiles_n;
    make_rows(o);
    o->scores.state = o->s;
    o->sums.state = sn_attend_registers(o, "acc", SN_F32, sn_mma_private(&o->sums));
}

/* sums: those of instructions, with tiles as wide as all columns. */
void sn_attend_start(binding *o, sn_attend *a, const sn_sched *sc, sn_sched *sums) {
    sn_contract ct = {.cx = a->cx, .m = a->m, .k = a->k, .c = a->c, .mma = a->mma};
    *o = (binding){.a = a, .scale = a->factor * SN_LOG2_E};
    *sums = *sc;
    sums->tile_k = sc->tile_n;
    sums->cluster = 1;
    o->b = (sn_contract_binding){.ct = ct, .sc = sc, .m = a->m, .k = a->k, .n_vals = a->m->vals.count};
    o->b.nest = (sn_mma_nest){.mma = a->mma, .threads = sc->block_x, .columns = 1, .tiles_m = 1};
    o->b.nest.rank = sn_ix_const(a->m, 0);
    o->b.split = sc->split > 1 ? sc->split : 1;
    o->b.turn = o->b.column = o->b.part = sn_ix_const(a->m, 0);
    o->b.edge_m = a->c.m % sc->tile_m != 0;
    o->b.edge_n = a->c.n % sn_attend_padded(a->c.n) != 0;
    make_nests(o);
}

/* A pipe of so many stages, 0: no pipe; *at moves inside. */
static sn_ix open_pipe(binding *o, sn_cursor *at, const char *name, sn_ix extent, uint32_t stages) {
    sn_axis ax = sn_axis_new(o->b.m, name, extent);
    *at = sn_at_end(o->b.k, sn_put_loop(o->b.m, *at, ax, SN_AXIS_SEQ));
    sn_stmt_get(o->b.m, at->parent)->pipe = stages;
    return sn_ix_axis(o->b.m, ax);
}

/* The loops over blocks of rows, a pipe where boxes bring q; *at moves inside. A persistent block does one after the other: q and
 * keys of the next come while this one's results are stored. */
void sn_attend_open_blocks(binding *o, sn_cursor *at, bool pipe) {
    sn_module *m = o->b.m;
    sn_attend_order order;
    sn_ix tile;
    sn_attend_order_find(&order, o->a, o->b.sc);
    sn_ix g = open_loop(o, at, "g", order.blocks, SN_AXIS_GRID);
    o->b.tiles = at->parent;
    o->b.tile = g;
    if (o->b.split > 1) o->b.part = open_loop(o, at, "s", o->b.split, SN_AXIS_GRID);
    sn_ix w = open_pipe(o, at, "w", sn_attend_order_turns(&order, m, g), pipe ? sn_attend_queries(o->a, o->b.sc) : 0);
    if (order.blocks < order.all) o->b.turn = w;
    sn_attend_order_place(&o->b.batch, &tile, &order, m, w, g);
    o->b.row = sn_ix_scale(m, tile, o->b.sc->tile_m);
}

void sn_attend_open_tiles(binding *o, sn_cursor *at) {
    sn_ix number;
    sn_attend_tiles(&o->first, &number, o->a, o->b.sc, o->b.batch, o->b.row);
    if (o->b.split > 1) {
        sn_ix each = sn_ix_divc(o->b.m, sn_ix_addc(o->b.m, number, o->b.split - 1), o->b.split);
        sn_ix before = sn_ix_mul(o->b.m, o->b.part, each), left = sn_ix_sub(o->b.m, number, before);
        o->first = sn_ix_add(o->b.m, o->first, before);
        number = sn_ix_max(o->b.m, sn_ix_min(o->b.m, left, each), sn_ix_const(o->b.m, 1)); /* as is known of all */
    }
    sn_ix t = open_pipe(o, at, "t", number, o->b.sc->stages);
    o->keys = sn_ix_scale(o->b.m, sn_ix_add(o->b.m, o->first, t), o->b.sc->tile_n);
}

/* Then nothing is summed yet that could grow. */
static bool is_one_tile(const binding *o) { return o->a->c.k <= o->b.sc->tile_n; }

static void put_tile(binding *o, sn_cursor at) {
    sn_attend_put_loads(o, at);
    sn_attend_put_keys(o, at);
    sn_put_barrier(o->b.m, at);
    zero(o, at, o->s);
    sn_mma_put(o->b.m, at, &o->scores);
    sn_attend_put_function(o, at);
    if (!o->bounded) {
        sn_attend_put_masks(o, at);
        sn_attend_put_most(o, at);
    }
    sn_attend_put_weights(o, at);
    if (o->bounded) sn_attend_put_masks(o, at);
    sn_attend_put_sum(o, at);
    sn_attend_put_fragment(o, at);
    if (!is_one_tile(o) && !o->bounded) sn_attend_put_growth(o, at);
    sn_mma_put(o->b.m, at, &o->sums);
}

/* Is v nothing but what other numbers are less? */
static bool is_only_subtracted(const sn_attend *a, sn_val v) {
    for (sn_stmt s = sn_stmt_walk_skip(a->m, a->c.top); s.i; s = sn_stmt_walk_next(a->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(a->m, s);
        for (uint32_t i = 0; i < r->n_in; i++)
            if (sn_val_eq(r->in[i], v) && (r->op != SN_LOP_SUB || i == 0)) return false;
    }
    return true;
}

static bool is_larger_one(const sn_attend *a, const sn_stmt_rec *r) {
    return r->op == SN_LOP_MAX && is_only_subtracted(a, r->result);
}

/* Does the body know the maximum itself, not only sums relative to it? Or, where it may be `lazy`, more of it than how far it is below the
 * larger one of it and a sink: what sums are relative to is as good for that. */
static bool wants_maximum(const sn_attend *a, bool lazy) {
    sn_val most = sn_stmt_get(a->m, a->c.top)->result;
    for (sn_stmt s = sn_stmt_walk_skip(a->m, a->c.top); s.i; s = sn_stmt_walk_next(a->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(a->m, s);
        for (uint32_t i = 0; i < r->n_in; i++) {
            if (r->in[i].i != most.i && r->in[i].i != most.i + 2) continue;
            bool below =
                r->op == SN_LOP_SUB && i == 0 && is_larger_one(a, sn_stmt_get(a->m, sn_val_get(a->m, r->in[1])->def));
            if (!lazy || (!is_larger_one(a, r) && !below)) return true;
        }
    }
    return false;
}

/* The body divides sums by totals, and does nothing else with those: then it multiplies by what one division a row gives. */
static void find_quotient(binding *o) {
    sn_module *m = o->b.m;
    sn_val total = sn_result(sn_stmt_get(m, o->a->c.top), 1), sum = sn_result(sn_stmt_get(m, o->a->c.top), 3);
    sn_stmt quotient = {0};
    uint32_t uses = 0;
    for (sn_stmt s = sn_stmt_walk_skip(m, o->a->c.top); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        for (uint32_t i = 0; i < r->n_in; i++) uses += r->in[i].i == total.i;
        if (r->op == SN_LOP_DIV && sn_val_eq(r->in[0], sum) && sn_val_eq(r->in[1], total)) quotient = s;
    }
    o->inverse = quotient.i && uses == 1;
    if (o->inverse) sn_stmt_get(m, quotient)->op = SN_LOP_MUL;
}

/* The boxes stand in a kernel of their own meanwhile. */
bool sn_attend_fits(const char **why_not, const sn_attend *of, const sn_sched *sc) {
    sn_module *m = of->m;
    sn_attend a = *of;
    sn_sched sums;
    binding o;
    sn_box box;
    bool fits = true;
    sn_attend_start(&o, &a, sc, &sums);
    make_operands(&o);
    o.b.k = sn_kern_new(m, sn_strf(&m->arena, "%s_boxes", sn_kern_get(m, a.k)->name));
    sn_cursor at = sn_at_end(o.b.k, (sn_stmt){0});
    sn_attend_open_blocks(&o, &at, true);
    put_q(&o, at);
    sn_cursor in = at;
    sn_attend_open_tiles(&o, &in);
    sn_attend_put_keys(&o, in);
    for (sn_stmt s = sn_stmt_get(m, at.parent)->first; s.i && fits; s = sn_stmt_walk_next(m, s))
        if (sn_stmt_get(m, s)->bulk) fits = sn_box_find(&box, why_not, m, s);
    sn_kern_remove(m, o.b.k);
    return fits;
}

/* What a maximum that is lazy is told by; nothing is below the first limit. */
static void put_lazy(binding *o, sn_cursor at) {
    int64_t rows = 2 * o->b.nest.tiles_m;
    o->limit = sn_attend_registers(o, "limit", SN_I32, rows);
    o->below = sn_attend_registers(o, "below", SN_BOOL, rows);
    sn_attend_store_all(o, at, o->factor, 1);
    sn_attend_store_all(o, at, o->limit, INT32_MIN);
}

void sn_schedule_attend_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_attend a;
    const char *why_not;
    sn_sched sums;
    binding o;
    sn_attend_find(&a, &why_not, cx, k);
    sn_attend_start(&o, &a, sc, &sums);
    make_operands(&o);
    if (sc->split == 1 && !wants_maximum(&a, false)) sn_attend_find_bound(&o, sn_mmas[a.mma].operand);
    o.lazy = !o.bounded && !wants_maximum(&a, true) && !is_one_tile(&o);
    find_quotient(&o);
    sn_schedule_take_body(&o.b.body, cx, k, sh);
    sn_cursor at = sn_at_end(k, (sn_stmt){0});
    sn_attend_open_blocks(&o, &at, true);
    put_q(&o, at);
    sn_put_barrier(o.b.m, at);
    if (!o.bounded) {
        sn_attend_store_all(&o, at, o.most, -INFINITY);
        sn_attend_store_all(&o, at, o.shift, 0);
    }
    if (o.lazy) put_lazy(&o, at);
    sn_attend_store_all(&o, at, o.part, 0);
    zero(&o, at, o.sums.state);
    sn_cursor in = at;
    sn_attend_open_tiles(&o, &in);
    put_tile(&o, in);
    if (o.b.split > 1) {
        sn_attend_put_parts(&o, at);
        at = sn_at_end(k, o.b.tiles);
        sn_attend_add_parts(&o, at);
    }
    sn_attend_put_totals(&o, at);
    sums.tile_n = (uint32_t)sn_attend_padded(a.c.n);
    o.b.sc = &sums;
    o.b.states[0] = o.b.states[2] = o.shift;
    o.b.states[1] = o.total;
    o.b.states[3] = o.sums.state;
    o.b.by_row[0] = o.b.by_row[1] = o.b.by_row[2] = true;
    sn_contract_put_results(&o.b, at, sn_attend_room(&a, sc));
}
