/* attend_host_bind.c: binding of class attend on the CPU.
 *
 *     loop g : grid {                                               tiles of rows, which threads share
 *       loop u { loop c { loop i : vector { queries[u, c, i] = q(row, c) } } }
 *       most = -inf   total = 0   sums = 0
 *       loop t in number of tiles {                                 those keys that a mask does not hide
 *         loop j { loop c : vector { keys[j, c] = k(key, c) } }     where keys are not read as they lie; v alike
 *         loop jb { loop ib {                                       blocks of scores: keys x vectors of rows
 *           loop c { s[j, i : vector] += keys[j, c] * queries[c, i : vector] } } }
 *         s = f(s), masks   most = max(most, s)   growth = e^(most before - most)
 *         s = e^(s - most)  total = total * growth + sum of s       lanes are rows: nothing goes from one to another
 *         loop jb { loop ib {                                       blocks of sums: rows x vectors of columns, or columns
 *           loop j { sum[i, d : vector] += s[j, i] * v[j, d : vector] }   x vectors of rows;  sums = sums * growth + sum } }
 *       }
 *       the rest of the body, by vectors of columns
 *     }
 *
 * Vectors of rows and of columns, blocks, tiles of rows and the last tile of keys begin earlier where they would reach
 * beyond the end, so that no load has a mask. What was there before is computed again, in a place of its own where it
 * is added up, and stored once; keys that were there before have the score -inf.
 *
 * A maximum that is infinite counts as 0, as in the combiner `sumexp`: then sums are 0, infinite or nan, as those have
 * to be. A comparison passes by a nan, which its weight brings into total and sums.
 *
 * Sums of RUN tiles go into sums of groups of tiles, relative to the maximum at their end, so that none takes in many
 * terms.
 */
#include "passes/schedule/attention/attend_host.h"
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/host_bind.h"
#include "passes/schedule/base/schedules.h"

#include <math.h>

enum { RUN = SN_ATTEND_RUN };

typedef struct binder {
    sn_attend *a;
    sn_module *m;
    sn_kern k;
    const sn_attend_plan *p;
    const sn_sched *sc;
    const sn_stmt_vec *body;                        /* what stood in the innermost outer loop */
    uint32_t n_vals;                                /* of the module, before anything was made */
    sn_ix batch, first;                             /* the tile: product, its first vector of rows ... */
    sn_ix old_first;                                /* ... and which that would be if it might reach beyond the end */
    sn_ix keys, old_keys;                           /* of the tile of keys: the first one, the same */
    int64_t row_blocks, vector_blocks;              /* of sums */
    sn_buf queries, key, v;                         /* panels; none: it is read as it lies */
    sn_buf s;                                       /* scores, then weights: slot of the row + rows * key */
    sn_buf most, base, growth, total, sums;         /* of rows; base: what weights are relative to */
    sn_buf most_before, group_total, group_sums;    /* ... of groups of tiles; none: there is one group */
    sn_buf scores_block, sums_block, largest, part; /* registers */
} binder;

/* ---- small pieces ---- */

/* Loops over `all` elements by vectors. */
static sn_ix open_vectors(binder *b, sn_cursor *at, int64_t all) {
    return sn_host_vectors(b->m, at, all, b->p->lanes > b->p->columns ? b->p->lanes : b->p->columns);
}

static sn_buf new_local(binder *b, const char *suffix, sn_buf_scope scope, int64_t elements) {
    return sn_host_local(b->m, b->k, suffix, b->p->dtype, scope, elements);
}

static sn_val constant(binder *b, sn_cursor at, double x) { return sn_put_const(b->m, at, b->p->dtype, x); }

static void put_fill(binder *b, sn_cursor at, sn_buf to, double x) {
    sn_ix e = open_vectors(b, &at, sn_buf_get(b->m, to)->private_size);
    sn_put_store(b->m, at, to, e, constant(b, at, x));
}

/* x * y + z */
static sn_val put_fma(binder *b, sn_cursor at, sn_val x, sn_val y, sn_val z) {
    return sn_put_op2(b->m, at, SN_LOP_ADD, sn_put_op2(b->m, at, SN_LOP_MUL, x, y), z);
}

/* e^(factor * (x - base)) */
static sn_val put_weight(binder *b, sn_cursor at, sn_val x, sn_val base) {
    sn_val d = sn_put_op2(b->m, at, SN_LOP_SUB, x, base);
    d = sn_put_op2(b->m, at, SN_LOP_MUL, d, constant(b, at, b->a->factor * SN_LOG2_E));
    return sn_put_op1(b->m, at, SN_LOP_EXP2_NORMAL, d);
}

/* ---- places ---- */

static int64_t slots(const binder *b) { return b->p->vectors * b->p->lanes; }

/* The row of lane v in vector u of the tile. */
static sn_ix row_at(binder *b, sn_ix u, sn_ix v) {
    return sn_ix_add(b->m, sn_host_start(b->m, sn_ix_add(b->m, b->first, u), b->p->lanes, b->a->c.m), v);
}

static sn_ix column_at(binder *b, sn_ix u, sn_ix v) {
    return sn_ix_add(b->m, sn_host_start(b->m, u, b->p->columns, b->a->c.n), v);
}

static sn_contraction_copier at_place(binder *b, sn_cursor at, sn_ix row, sn_ix column, sn_ix key) {
    sn_ix zero = sn_ix_const(b->m, 0);
    sn_contraction_place place = {b->batch, row.i ? row : zero, column.i ? column : zero, key.i ? key : zero};
    sn_contraction_copier p;
    sn_contraction_copier_start(&p, b->a->cx, at, b->n_vals);
    p.n = sn_contraction_axes(p.axes, p.with, b->m, &b->a->c, &place);
    return p;
}

/* What `load` gives at a place, to be multiplied. channel: none for v. */
static sn_val put_operand(binder *b, sn_stmt load, sn_contraction_copier *p, sn_ix channel) {
    if (channel.i) p->axes[p->n] = b->a->channel, p->with[p->n++] = channel;
    return sn_put_cast(b->m, p->at, b->p->dtype, sn_contraction_copy(p, sn_stmt_get(b->m, load)->result));
}

static sn_val put_q(binder *b, sn_cursor at, sn_ix row, sn_ix channel) {
    sn_contraction_copier p = at_place(b, at, row, (sn_ix){0}, (sn_ix){0});
    return put_operand(b, b->a->q, &p, channel);
}

static sn_val put_key(binder *b, sn_cursor at, sn_ix j, sn_ix channel) {
    sn_contraction_copier p = at_place(b, at, (sn_ix){0}, (sn_ix){0}, sn_ix_add(b->m, b->keys, j));
    return put_operand(b, b->a->key, &p, channel);
}

static sn_val put_v(binder *b, sn_cursor at, sn_ix j, sn_ix column) {
    sn_contraction_copier p = at_place(b, at, (sn_ix){0}, column, sn_ix_add(b->m, b->keys, j));
    return put_operand(b, b->a->v, &p, (sn_ix){0});
}

/* ---- panels ---- */

/* From one key of a panel to the next: an odd number of lines, or those of a column would all fall on one place of the
 * cache. */
static int64_t pitch(const binder *b, int64_t channels) {
    int64_t line = SN_HOST_LINE / sn_dtype_bytes(b->p->dtype);
    return ((channels + line - 1) / line | 1) * line;
}

/* Lane v of vector u, channel c: those of a block of scores lie together. */
static sn_ix in_queries(binder *b, sn_ix u, sn_ix v, sn_ix c) {
    int64_t vectors = b->p->scores.vectors;
    sn_ix block = sn_ix_divc(b->m, u, vectors), slot = sn_ix_fma(b->m, b->p->lanes, sn_ix_modc(b->m, u, vectors), v);
    return sn_ix_fma(b->m, vectors * b->p->lanes, sn_ix_fma(b->m, b->a->depth, block, c), slot);
}

static void put_queries(binder *b, sn_cursor at) {
    sn_ix u = sn_open_loop(b->m, &at, "u", b->p->vectors, SN_AXIS_SEQ),
          c = sn_open_loop(b->m, &at, "c", b->a->depth, SN_AXIS_SEQ);
    sn_ix v = sn_open_loop(b->m, &at, "v", b->p->lanes, SN_AXIS_VECTOR);
    sn_put_store(b->m, at, b->queries, in_queries(b, u, v, c), put_q(b, at, row_at(b, u, v), c));
}

/* Keys of the tile, or their v. */
static void put_panel(binder *b, sn_cursor at, sn_buf to, bool of_v) {
    int64_t channels = of_v ? b->a->c.n : b->a->depth;
    if (!to.i) return;
    sn_ix j = sn_open_loop(b->m, &at, "j", b->p->keys, SN_AXIS_SEQ), c = open_vectors(b, &at, channels);
    sn_val x = of_v ? put_v(b, at, j, c) : put_key(b, at, j, c);
    sn_put_store(b->m, at, to, sn_ix_fma(b->m, pitch(b, channels), j, c), x);
}

/* ---- products ---- */

/* A product by blocks: m rows x n vectors, each of `lanes`. */
typedef struct product {
    sn_attend_block block;
    int64_t m, n, lanes, steps;
    sn_buf registers;
    sn_val (*left)(binder *b, sn_cursor at, sn_ix row, sn_ix step);
    sn_val (*right)(binder *b, sn_cursor at, sn_ix vector, sn_ix lane, sn_ix step);
} product;

/* Of a block: its number, row and vector of the first element. */
typedef struct spot {
    sn_ix ib, jb, row, vector;
} spot;

static spot open_blocks(binder *b, sn_cursor *at, const product *p) {
    spot s;
    s.jb = sn_open_loop(b->m, at, "jb", (p->n + p->block.vectors - 1) / p->block.vectors, SN_AXIS_SEQ);
    s.ib = sn_open_loop(b->m, at, "ib", (p->m + p->block.rows - 1) / p->block.rows, SN_AXIS_SEQ);
    s.row = sn_host_start(b->m, s.ib, p->block.rows, p->m);
    s.vector = sn_host_start(b->m, s.jb, p->block.vectors, p->n);
    return s;
}

/* The elements of a block: row i, vector j and lane v of it. */
typedef struct element {
    sn_ix i, j, v;
} element;

static element open_block(binder *b, sn_cursor *at, const product *p) {
    element e;
    e.i = sn_open_loop(b->m, at, "i", p->block.rows, SN_AXIS_UNROLL);
    e.j = sn_open_loop(b->m, at, "j", p->block.vectors, SN_AXIS_UNROLL);
    e.v = sn_open_loop(b->m, at, "v", p->lanes, SN_AXIS_VECTOR);
    return e;
}

static sn_ix in_block(binder *b, const product *p, element e) {
    return sn_ix_fma(b->m, p->lanes, sn_ix_fma(b->m, p->block.vectors, e.i, e.j), e.v);
}

/* The registers take in `steps` steps from `first` on. */
static void put_run(binder *b, sn_cursor at, const product *p, const spot *s, sn_ix first, int64_t steps) {
    sn_module *m = b->m;
    sn_cursor in = at;
    element e = open_block(b, &in, p);
    sn_put_store(m, in, p->registers, in_block(b, p, e), constant(b, in, 0));
    in = at;
    sn_ix step = sn_ix_add(m, first, sn_open_loop(b->m, &in, "c", steps, SN_AXIS_SEQ));
    e = open_block(b, &in, p);
    sn_val left = p->left(b, in, sn_ix_add(m, s->row, e.i), step);
    sn_val right = p->right(b, in, sn_ix_add(m, s->vector, e.j), e.v, step);
    sn_ix own = in_block(b, p, e);
    sn_put_store(m, in, p->registers, own, put_fma(b, in, left, right, sn_put_load(m, in, p->registers, own)));
}

/* ---- scores ---- */

/* From one key to the next: where rows are long, an odd number of lines. */
static int64_t score_pitch(const binder *b) {
    int64_t line = SN_HOST_LINE / sn_dtype_bytes(b->p->dtype), n = slots(b);
    return n < SN_HOST_SCORES_LONG * line ? n : pitch(b, n);
}

/* Of key j and slot e of the rows. */
static sn_ix in_scores(binder *b, sn_ix j, sn_ix e) { return sn_ix_fma(b->m, score_pitch(b), j, e); }

static sn_val key_of_tile(binder *b, sn_cursor at, sn_ix j, sn_ix channel) {
    if (!b->key.i) return put_key(b, at, j, channel);
    return sn_put_load(b->m, at, b->key, sn_ix_fma(b->m, pitch(b, b->a->depth), j, channel));
}

static sn_val query_of_tile(binder *b, sn_cursor at, sn_ix vector, sn_ix lane, sn_ix channel) {
    return sn_put_load(b->m, at, b->queries, in_queries(b, vector, lane, channel));
}

/* s = registers, or s + registers. */
static void put_scores_of(binder *b, sn_cursor at, const product *p, const spot *s, bool add) {
    sn_module *m = b->m;
    element e = open_block(b, &at, p);
    sn_ix slot = sn_ix_fma(b->m, p->lanes, sn_ix_add(m, s->vector, e.j), e.v);
    sn_ix to = in_scores(b, sn_ix_add(m, s->row, e.i), slot);
    sn_val x = sn_put_load(m, at, p->registers, in_block(b, p, e));
    if (add) x = sn_put_op2(m, at, SN_LOP_ADD, sn_put_load(m, at, b->s, to), x);
    sn_put_store(m, at, b->s, to, x);
}

/* Channels in runs: the first one, others as long, and what is left. */
static void put_scores(binder *b, sn_cursor at) {
    const sn_attend_plan *pl = b->p;
    int64_t depth = b->a->depth, run = depth < RUN ? depth : RUN, more = depth / run - 1;
    product p = {pl->scores, pl->keys, pl->vectors, pl->lanes, depth, b->scores_block, key_of_tile, query_of_tile};
    spot s = open_blocks(b, &at, &p);
    put_run(b, at, &p, &s, sn_ix_const(b->m, 0), run);
    put_scores_of(b, at, &p, &s, false);
    if (more) {
        sn_cursor in = at;
        sn_ix r = sn_open_loop(b->m, &in, "r", more, SN_AXIS_SEQ);
        put_run(b, in, &p, &s, sn_ix_addc(b->m, sn_ix_scale(b->m, r, run), run), run);
        put_scores_of(b, in, &p, &s, true);
    }
    if (depth % run == 0) return;
    put_run(b, at, &p, &s, sn_ix_const(b->m, depth / run * run), depth % run);
    put_scores_of(b, at, &p, &s, true);
}

/* ---- masks ---- */

typedef sn_ix test_fn(binder *b, uint32_t mask, sn_ix row, sn_ix j);

static sn_ix test_of_mask(binder *b, uint32_t mask, sn_ix row, sn_ix j) {
    return sn_attend_mask_at(b->a, mask, b->batch, row, sn_ix_add(b->m, b->keys, j));
}

/* Has the key not been there before? */
static sn_ix test_of_end(binder *b, uint32_t mask, sn_ix row, sn_ix j) {
    (void)mask, (void)row;
    return sn_ix_add(b->m, sn_ix_sub(b->m, b->keys, b->old_keys), j);
}

/* A bound that e is below in any case, of a test whether it is negative. */
static sn_ix above(binder *b, sn_ix e) {
    int64_t most = sn_ix_range(b->m, e).hi;
    return sn_ix_const(b->m, most < 0 ? 1 : most < INT64_MAX ? most + 1 : most);
}

/* Scores become -inf where the test is negative. Nothing happens where `least`, which it is nowhere below, is not. */
static void put_mask(binder *b, sn_cursor at, sn_ix least, uint32_t mask, test_fn *test_at) {
    sn_module *m = b->m;
    sn_ix worst = sn_ix_addc(m, sn_ix_scale(m, least, -1), -1);
    if (sn_ix_range(m, worst).hi < 0) return;
    at = sn_at_end(b->k, sn_put_if(m, at, worst, above(b, worst)));
    sn_ix u = sn_open_loop(b->m, &at, "u", b->p->vectors, SN_AXIS_SEQ),
          j = sn_open_loop(b->m, &at, "j", b->p->keys, SN_AXIS_SEQ);
    sn_ix v = sn_open_loop(b->m, &at, "v", b->p->lanes, SN_AXIS_VECTOR);
    sn_ix test = test_at(b, mask, row_at(b, u, v), j), to = in_scores(b, j, sn_ix_fma(b->m, b->p->lanes, u, v));
    sn_val keep = sn_put_in(m, at, test, above(b, test));
    sn_val x = sn_put_op3(m, at, SN_LOP_SELECT, keep, sn_put_load(m, at, b->s, to), constant(b, at, -INFINITY));
    sn_put_store(m, at, b->s, to, x);
}

/* ---- weights ---- */

/* A group of vectors that go along the keys side by side: slot of a lane, and where registers have it. */
typedef struct lane {
    sn_ix slot, own, row;
} lane;

static lane open_lanes(binder *b, sn_cursor *at, sn_ix group) {
    lane l;
    sn_ix u = sn_open_loop(b->m, at, "u", b->p->together, SN_AXIS_UNROLL);
    sn_ix v = sn_open_loop(b->m, at, "v", b->p->lanes, SN_AXIS_VECTOR),
          vector = sn_ix_fma(b->m, b->p->together, group, u);
    l.own = sn_ix_fma(b->m, b->p->lanes, u, v);
    l.slot = sn_ix_fma(b->m, b->p->lanes, vector, v);
    l.row = row_at(b, vector, v);
    return l;
}

static sn_ix open_groups(binder *b, sn_cursor *at) {
    return sn_open_loop(b->m, at, "q", b->p->vectors / b->p->together, SN_AXIS_SEQ);
}

/* f of each score. */
static void put_function(binder *b, sn_cursor at) {
    const sn_attend *a = b->a;
    if (sn_val_eq(a->score, a->sum)) return;
    sn_ix group = open_groups(b, &at), j = sn_open_loop(b->m, &at, "j", b->p->keys, SN_AXIS_SEQ);
    lane l = open_lanes(b, &at, group);
    sn_ix e = in_scores(b, j, l.slot);
    sn_contraction_copier p = at_place(b, at, l.row, (sn_ix){0}, sn_ix_add(b->m, b->keys, j));
    sn_contraction_becomes(&p, a->sum, sn_put_load(b->m, at, b->s, e));
    sn_put_store(b->m, at, b->s, e, sn_attend_copy_score(a, &p));
}

/* Maximum and growth of rows. */
static void put_most(binder *b, sn_cursor at) {
    sn_module *m = b->m;
    sn_ix group = open_groups(b, &at);
    sn_cursor in = at;
    lane l = open_lanes(b, &in, group);
    sn_put_store(m, in, b->largest, l.own, sn_put_load(m, in, b->most, l.slot));
    in = at;
    sn_ix j = sn_open_loop(b->m, &in, "j", b->p->keys, SN_AXIS_SEQ);
    l = open_lanes(b, &in, group);
    sn_val x = sn_put_load(m, in, b->s, in_scores(b, j, l.slot)), largest = sn_put_load(m, in, b->largest, l.own);
    x = sn_put_op3(m, in, SN_LOP_SELECT, sn_put_op2(m, in, SN_LOP_GT, x, largest), x, largest);
    sn_put_store(m, in, b->largest, l.own, x);
    l = open_lanes(b, &at, group);
    sn_val before = sn_put_load(m, at, b->most, l.slot), now = sn_put_load(m, at, b->largest, l.own);
    sn_val infinite = sn_put_op1(m, at, SN_LOP_ISINF, now);
    sn_val base = sn_put_op3(m, at, SN_LOP_SELECT, infinite, constant(b, at, 0), now);
    sn_val grows = put_weight(b, at, before, base); /* inf of inf: times the 0 that a group starts with it were nan */
    grows = sn_put_op3(m, at, SN_LOP_SELECT, infinite, constant(b, at, 1), grows);
    sn_put_store(m, at, b->growth, l.slot, grows);
    sn_put_store(m, at, b->most, l.slot, now);
    sn_put_store(m, at, b->base, l.slot, base);
}

static void put_weights(binder *b, sn_cursor at) {
    sn_module *m = b->m;
    sn_ix group = open_groups(b, &at);
    sn_cursor in = at;
    lane l = open_lanes(b, &in, group);
    sn_put_store(m, in, b->part, l.own, constant(b, in, 0));
    in = at;
    sn_ix j = sn_open_loop(b->m, &in, "j", b->p->keys, SN_AXIS_SEQ);
    l = open_lanes(b, &in, group);
    sn_ix e = in_scores(b, j, l.slot);
    sn_val weight = put_weight(b, in, sn_put_load(m, in, b->s, e), sn_put_load(m, in, b->base, l.slot));
    sn_put_store(m, in, b->s, e, weight);
    sn_put_store(m, in, b->part, l.own, sn_put_op2(m, in, SN_LOP_ADD, sn_put_load(m, in, b->part, l.own), weight));
    l = open_lanes(b, &at, group);
    sn_val total = sn_put_load(m, at, b->total, l.slot), growth = sn_put_load(m, at, b->growth, l.slot);
    sn_put_store(m, at, b->total, l.slot, put_fma(b, at, total, growth, sn_put_load(m, at, b->part, l.own)));
}

/* ---- sums ---- */

static sn_val weight_of_tile(binder *b, sn_cursor at, sn_ix slot, sn_ix j) {
    return sn_put_load(b->m, at, b->s, in_scores(b, j, slot));
}

static sn_val v_of_column(binder *b, sn_cursor at, sn_ix column, sn_ix j) {
    if (!b->v.i) return put_v(b, at, j, column);
    return sn_put_load(b->m, at, b->v, sn_ix_fma(b->m, pitch(b, b->a->c.n), j, column));
}

static sn_val v_of_tile(binder *b, sn_cursor at, sn_ix vector, sn_ix lane, sn_ix j) {
    return v_of_column(b, at, column_at(b, vector, lane), j);
}

/* Lanes along rows: v is a number, weights are vectors. */
static sn_val weights_of_tile(binder *b, sn_cursor at, sn_ix vector, sn_ix lane, sn_ix j) {
    return weight_of_tile(b, at, sn_ix_fma(b->m, b->p->lanes, vector, lane), j);
}

static product product_of_sums(const binder *b) {
    const sn_attend_plan *p = b->p;
    if (p->across)
        return (product){p->sums, b->a->c.n,     p->vectors,  p->lanes,
                         p->keys, b->sums_block, v_of_column, weights_of_tile};
    return (product){p->sums, slots(b), p->v_vectors, p->columns, p->keys, b->sums_block, weight_of_tile, v_of_tile};
}

/* The slot of its row. */
static sn_ix slot_of(binder *b, const product *p, const spot *s, element e) {
    if (!b->p->across) return sn_ix_add(b->m, s->row, e.i);
    return sn_ix_fma(b->m, p->lanes, sn_ix_add(b->m, s->vector, e.j), e.v);
}

/* Its place among the sums of a tile: each block has its own, or blocks do not meet. */
static sn_ix in_sums(binder *b, const product *p, const spot *s, element e) {
    if (b->p->across) return sn_ix_fma(b->m, slots(b), sn_ix_add(b->m, s->row, e.i), slot_of(b, p, s, e));
    int64_t size = p->block.rows * p->block.vectors * p->lanes;
    return sn_ix_fma(b->m, size, sn_ix_fma(b->m, b->row_blocks, s->jb, s->ib), in_block(b, p, e));
}

/* to = to * growth + x, for an element of a block. */
static void put_grown(binder *b, sn_cursor at, sn_buf to, sn_ix place, sn_ix slot, sn_val x) {
    sn_val sum = sn_put_load(b->m, at, to, place), growth = sn_put_load(b->m, at, b->growth, slot);
    sn_put_store(b->m, at, to, place, put_fma(b, at, sum, growth, x));
}

static void put_sums(binder *b, sn_cursor at) {
    product p = product_of_sums(b);
    spot s = open_blocks(b, &at, &p);
    put_run(b, at, &p, &s, sn_ix_const(b->m, 0), p.steps);
    element e = open_block(b, &at, &p);
    sn_val x = sn_put_load(b->m, at, p.registers, in_block(b, &p, e));
    put_grown(b, at, b->sums, in_sums(b, &p, &s, e), slot_of(b, &p, &s, e), x);
}

/* What a group of tiles has added up goes into the sums of groups. */
static void put_group(binder *b, sn_cursor at) {
    sn_module *m = b->m;
    sn_cursor in = at;
    lane l = open_lanes(b, &in, open_groups(b, &in));
    sn_val before = sn_put_load(m, in, b->most_before, l.slot), base = sn_put_load(m, in, b->base, l.slot);
    sn_val growth = put_weight(b, in, before, base), total = sn_put_load(m, in, b->group_total, l.slot);
    sn_put_store(m, in, b->growth, l.slot, growth);
    sn_put_store(m, in, b->most_before, l.slot, sn_put_load(m, in, b->most, l.slot));
    sn_put_store(m, in, b->group_total, l.slot, put_fma(b, in, total, growth, sn_put_load(m, in, b->total, l.slot)));
    product p = product_of_sums(b);
    spot s = open_blocks(b, &at, &p);
    element e = open_block(b, &at, &p);
    sn_ix place = in_sums(b, &p, &s, e);
    put_grown(b, at, b->group_sums, place, slot_of(b, &p, &s, e), sn_put_load(m, at, b->sums, place));
}

/* ---- the rest of the body ---- */

/* Statements of the body but for the reduction, in their order. What is divided by the total of a row is multiplied by
 * its inverse. */
static void put_body(binder *b, sn_contraction_copier *p, sn_val mask, sn_val inverse) {
    const sn_stmt_rec *top = sn_stmt_get(b->m, b->a->c.top);
    for (uint32_t i = 0; i < b->body->n; i++) {
        const sn_stmt_rec *r = sn_stmt_get(b->m, b->body->at[i]);
        if (b->body->at[i].i == b->a->c.top.i) continue;
        if (r->op == SN_LOP_DIV && sn_val_eq(r->in[1], sn_result(top, 1)))
            sn_contraction_becomes(p, r->result,
                                   sn_put_op2(b->m, p->at, SN_LOP_MUL, sn_contraction_copy(p, r->in[0]), inverse));
        else if (r->n_results) sn_contraction_copy(p, r->result);
        else sn_contraction_copy_store(p, r, mask);
    }
}

/* 1 / total of each row, where growth was. */
static void put_inverses(binder *b, sn_cursor at, sn_buf total) {
    lane l = open_lanes(b, &at, open_groups(b, &at));
    sn_val x = sn_put_op2(b->m, at, SN_LOP_DIV, constant(b, at, 1), sn_put_load(b->m, at, total, l.slot));
    sn_put_store(b->m, at, b->growth, l.slot, x);
}

/* In which blocks the rest of the body goes along columns: those of the sums, or rows one by one. */
static product product_of_rest(const binder *b) {
    const sn_attend_plan *p = b->p;
    product all = product_of_sums(b);
    if (p->across) all.block = (sn_attend_block){1, 1}, all.m = slots(b), all.n = p->v_vectors, all.lanes = p->columns;
    return all;
}

/* Of an element of a block, which no block, tile or vector before has stored. */
static void put_rest(binder *b, sn_cursor at) {
    sn_module *m = b->m;
    const sn_attend_plan *pl = b->p;
    sn_buf total = b->group_total.i ? b->group_total : b->total, sums = b->group_sums.i ? b->group_sums : b->sums;
    product p = product_of_rest(b);
    put_inverses(b, at, total);
    spot s = open_blocks(b, &at, &p);
    element e;
    e.i = sn_open_loop(b->m, &at, "i", p.block.rows, SN_AXIS_SEQ);
    sn_ix slot = sn_ix_add(m, s.row, e.i), u = sn_ix_divc(m, slot, pl->lanes), lane = sn_ix_modc(m, slot, pl->lanes);
    at = sn_host_if(b->m, b->k, at, sn_ix_sub(m, slot, sn_ix_scale(m, s.ib, p.block.rows)), p.block.rows);
    sn_ix vector = sn_ix_add(m, b->first, u), row = row_at(b, u, lane);
    at = sn_host_if(b->m, b->k, at, sn_ix_sub(m, vector, b->old_first), pl->vectors);
    at = sn_host_if(b->m, b->k, at, sn_ix_sub(m, row, sn_ix_scale(m, vector, pl->lanes)), pl->lanes);
    e.j = sn_open_loop(b->m, &at, "j", p.block.vectors, SN_AXIS_SEQ);
    sn_ix of_v = sn_ix_add(m, s.vector, e.j);
    at = sn_host_if(b->m, b->k, at, sn_ix_sub(m, of_v, sn_ix_scale(m, s.jb, p.block.vectors)), p.block.vectors);
    sn_val states[4], most = sn_put_load(m, at, b->most, slot);
    states[1] = sn_put_load(m, at, total, slot);
    sn_val scaled = sn_put_op2(m, at, SN_LOP_MUL, most, constant(b, at, b->a->factor));
    sn_val passed = sn_put_op1(m, at, SN_LOP_ISNAN, states[1]); /* a nan that comparisons have passed by */
    states[0] = states[2] = sn_put_op3(m, at, SN_LOP_SELECT, passed, states[1], scaled);
    sn_val inverse = sn_put_load(m, at, b->growth, slot);
    e.v = sn_open_loop(b->m, &at, "v", p.lanes, SN_AXIS_VECTOR);
    sn_ix column = column_at(b, of_v, e.v);
    sn_val mask = sn_put_mask_in(b->m, at, (sn_val){0}, sn_ix_sub(m, column, sn_ix_scale(m, of_v, p.lanes)), p.lanes);
    states[3] = sn_put_load(m, at, sums, pl->across ? sn_ix_fma(b->m, slots(b), column, slot) : in_sums(b, &p, &s, e));
    sn_contraction_copier c = at_place(b, at, row, column, (sn_ix){0});
    for (uint32_t i = 0; i < SN_COUNT(states); i++)
        sn_contraction_becomes(&c, sn_result(sn_stmt_get(m, b->a->c.top), i), states[i]);
    put_body(b, &c, mask, inverse);
}

/* ---- all of it ---- */

static void make_buffers(binder *b, bool groups) {
    const sn_attend_plan *p = b->p;
    product of = product_of_sums(b);
    int64_t of_sums = p->sums.rows * p->sums.vectors * of.lanes, rows = slots(b);
    b->row_blocks = (of.m + p->sums.rows - 1) / p->sums.rows;
    b->vector_blocks = (of.n + p->sums.vectors - 1) / p->sums.vectors;
    b->queries = new_local(b, "queries", SN_BUF_SHARED, rows * b->a->depth);
    if (p->packs_key) b->key = new_local(b, "keys", SN_BUF_SHARED, p->keys * pitch(b, b->a->depth));
    if (p->packs_v) b->v = new_local(b, "values", SN_BUF_SHARED, p->keys * pitch(b, b->a->c.n));
    b->s = new_local(b, "scores", SN_BUF_SHARED, score_pitch(b) * p->keys);
    b->most = new_local(b, "most", SN_BUF_SHARED, rows);
    b->base = new_local(b, "base", SN_BUF_SHARED, rows);
    b->growth = new_local(b, "growth", SN_BUF_SHARED, rows);
    b->total = new_local(b, "total", SN_BUF_SHARED, rows);
    b->sums = new_local(b, "sums", SN_BUF_SHARED, of_sums * b->row_blocks * b->vector_blocks);
    b->scores_block = new_local(b, "score", SN_BUF_REG, p->scores.rows * p->scores.vectors * p->lanes);
    b->sums_block = new_local(b, "acc", SN_BUF_REG, of_sums);
    b->largest = new_local(b, "largest", SN_BUF_REG, p->together * p->lanes);
    b->part = new_local(b, "part", SN_BUF_REG, p->together * p->lanes);
    if (!groups) return;
    b->most_before = new_local(b, "most_before", SN_BUF_SHARED, rows);
    b->group_total = new_local(b, "group_total", SN_BUF_SHARED, rows);
    b->group_sums = new_local(b, "group_sums", SN_BUF_SHARED, of_sums * b->row_blocks * b->vector_blocks);
}

/* Do later rows see more keys? */
static bool grows(binder *b) {
    sn_module *m = b->m;
    sn_ix first, least, most, zero = sn_ix_const(m, 0), last = sn_ix_const(m, (b->p->tiles - 1) * slots(b));
    sn_attend_tiles(&first, &least, b->a, b->sc, zero, zero);
    sn_attend_tiles(&first, &most, b->a, b->sc, zero, last);
    return sn_ix_range(m, most).hi > sn_ix_range(m, least).hi;
}

/* The grid counts products and tiles of rows: those that see most keys first, so that what is left at the end is
 * short. */
static sn_cursor open_tiles(binder *b) {
    sn_module *m = b->m;
    const sn_attend_plan *p = b->p;
    sn_cursor at = sn_at_end(b->k, (sn_stmt){0});
    sn_ix g = sn_open_loop(b->m, &at, "g", p->alone ? 1 : b->a->c.batch * p->tiles, SN_AXIS_GRID);
    if (p->alone) g = sn_open_loop(b->m, &at, "n", b->a->c.batch, SN_AXIS_SEQ);
    sn_ix tile = sn_ix_modc(m, g, p->tiles);
    if (p->tiles > 1 && grows(b)) tile = sn_ix_addc(m, sn_ix_scale(m, tile, -1), p->tiles - 1);
    b->batch = sn_ix_divc(m, g, p->tiles);
    b->first = sn_host_start(b->m, tile, p->vectors, p->all_vectors);
    b->old_first = sn_ix_scale(m, tile, p->vectors);
    return at;
}

static void put_tile(binder *b, sn_cursor at, sn_ix number, sn_ix row) {
    sn_attend *a = b->a;
    b->keys = sn_host_start(b->m, number, b->p->keys, a->c.k);
    b->old_keys = sn_ix_scale(b->m, number, b->p->keys);
    put_panel(b, at, b->key, false);
    put_scores(b, at);
    put_function(b, at);
    for (uint32_t i = 0; i < a->n_masks; i++)
        if (!a->masks[i].in_score)
            put_mask(b, at, sn_attend_mask_least(a, i, b->sc, b->batch, row, b->keys), i, test_of_mask);
    put_mask(b, at, sn_ix_sub(b->m, b->keys, b->old_keys), 0, test_of_end);
    put_most(b, at);
    put_weights(b, at);
    put_panel(b, at, b->v, true);
    put_sums(b, at);
}

static sn_ix open_keys(binder *b, sn_cursor *at, const char *name, sn_ix extent) {
    sn_axis ax = sn_axis_new(b->m, name, extent);
    *at = sn_at_end(b->k, sn_put_loop(b->m, *at, ax, SN_AXIS_SEQ));
    return sn_ix_axis(b->m, ax);
}

static void put_start(binder *b, sn_cursor at) {
    put_fill(b, at, b->total, 0);
    put_fill(b, at, b->sums, 0);
}

void sn_schedule_attend_host_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    sn_attend a;
    sn_attend_plan p;
    const char *why_not;
    sn_stmt_vec body = {0};
    sn_attend_find_nest(&a, &why_not, cx, k);
    sn_attend_plan_find(&p, sc, &a);
    binder b = {.a = &a, .m = m, .k = k, .p = &p, .sc = sc, .body = &body, .n_vals = m->vals.count};
    sn_schedule_take_body(&body, cx, k, sh);
    sn_cursor at = open_tiles(&b), in = at;
    sn_ix first, number, row = row_at(&b, sn_ix_const(m, 0), sn_ix_const(m, 0)), before = sn_ix_const(m, 0);
    sn_attend_tiles(&first, &number, &a, sc, b.batch, row);
    bool groups = sn_ix_range(m, number).hi > RUN;
    make_buffers(&b, groups);
    put_queries(&b, at);
    put_fill(&b, at, b.most, -INFINITY);
    if (groups) {
        put_fill(&b, at, b.most_before, -INFINITY);
        put_fill(&b, at, b.group_total, 0);
        put_fill(&b, at, b.group_sums, 0);
        before = sn_ix_scale(m, open_keys(&b, &in, "p", sn_ix_divc(m, sn_ix_addc(m, number, RUN - 1), RUN)), RUN);
        number = sn_ix_min(m, sn_ix_const(m, RUN), sn_ix_sub(m, number, before));
    }
    put_start(&b, in);
    sn_cursor tile = in;
    sn_ix t = open_keys(&b, &tile, "t", number);
    put_tile(&b, tile, sn_ix_add(m, first, sn_ix_add(m, before, t)), row);
    if (groups) put_group(&b, in);
    put_rest(&b, at);
}
