/* attend_terms_bind.c: binding of attention of f32 by terms of bfloat16; attend_terms.c has the picture,
 * contract_terms.c what terms are, attend_bind.c rows, masks and weights.
 *
 * Keys and v come to shared memory as they are; all threads take them apart there, once for all rows of the block.
 * Terms lie as the instructions want them, in lines of up to 128 bytes of channels; those of q do, too, or are
 * fragments in the registers of the warp that has its rows, which loads it from memory. Weights are scaled by 2^23 by
 * their exponent, and become fragments of terms in the registers in which they are. Products of a tile are a sum of
 * their own, since tensor cores cut what they add up; it joins the totals in f32 when the next tile's keys have been
 * taken apart:
 *
 *     sum = sum * grown + acc
 *
 * Two barriers are all that a tile has. At each of them a warp has waited for its own products, but for those given
 * behind the last one, which read what is not stored to before the next: k's terms are stored while weights are
 * multiplied by v's, and v's while q is multiplied by k's.
 *
 * A score that terms cannot give (infinite, nan, or of operands so large that terms or sums have overflowed) is added
 * up in f32 by the thread that has it. So is a sum of weighted v, behind all keys, with weights that are computed once
 * more, unless the row has no maximum: then it is nan in any case.
 */
#include "passes/schedule/attention/attend_terms.h"

#include <math.h>

typedef struct terms {
    sn_attend_binding o;
    uint32_t n;
    sn_buf q[SN_MOST_TERMS], key[SN_MOST_TERMS], v[SN_MOST_TERMS], p[SN_MOST_TERMS];
    sn_buf fragments[SN_ATTEND_RUNS][SN_MOST_TERMS]; /* of q, instead of q, where it is in registers */
    sn_mma_operand q_at, key_at, v_at;               /* how they lie */
    sn_buf runs[SN_ATTEND_RUNS];                     /* of scores; the first one has them all in the end */
    int64_t run;                                     /* channels */
    uint32_t n_runs;
    sn_buf sum; /* of weighted v */
} terms;

static sn_ix open_loop(terms *t, sn_cursor *at, const char *name, int64_t extent, sn_axis_kind kind) {
    return sn_contract_loop(&t->o.b, at, name, extent, kind);
}

static sn_val put_f32(terms *t, sn_cursor at, double x) { return sn_put_const(t->o.b.m, at, SN_F32, x); }

/* Scores, and sums of weighted v, are 2^scale times as large while they are sums of products of terms. */
static int scale_of(const terms *t) { return t->n > 1 ? 2 * SN_TERMS_SCALE : 0; }

/* ---- elements ---- */

/* Where an element of q, k or v stands. */
typedef struct spot {
    sn_ix row, key, column, channel;
} spot;

static spot first_spot(terms *t) {
    sn_ix zero = sn_ix_const(t->o.b.m, 0);
    return (spot){zero, zero, zero, zero};
}

static void start_copier(terms *t, sn_contraction_copier *p, sn_cursor at, const spot *s) {
    const sn_attend *a = t->o.a;
    sn_contraction_place place = {t->o.b.batch, s->row, s->column, s->key};
    sn_contraction_copier_start(p, a->cx, at, t->o.b.n_vals);
    p->n = sn_contraction_axes(p->axes, p->with, t->o.b.m, &a->c, &place);
}

/* What it loads there, and 0 where the mask does not hold. */
static sn_val put_element(terms *t, sn_cursor at, sn_stmt load, const spot *s, sn_val mask) {
    sn_contraction_copier p;
    start_copier(t, &p, at, s);
    p.axes[p.n] = t->o.a->channel;
    p.with[p.n++] = s->channel;
    p.mask = mask;
    return sn_contraction_copy(&p, sn_stmt_get(t->o.b.m, load)->result);
}

/* ---- taking apart ---- */

/* Lines of channels that become terms. */
typedef struct lines {
    const sn_mma_operand *raw; /* where boxes have brought them; none: q, in memory */
    int64_t n, channels;
    const sn_mma_operand *at;
    const sn_buf *to;
} lines;

/* Vectors of four channels: first + threads*u + x, u below `each`, for so many threads. They pass through registers. */
typedef struct vectors {
    const lines *of;
    int64_t first, each, threads;
    sn_buf held;
} vectors;

/* Loops over those of thread x; *at moves inside. */
static void open_vectors(terms *t, sn_cursor *at, const vectors *v, sn_ix x, sn_ix *own, sn_ix *line, sn_ix *channel) {
    sn_module *m = t->o.b.m;
    int64_t in_line = sn_attend_padded(v->of->channels) / SN_ATTEND_VECTOR;
    sn_ix u = open_loop(t, at, "u", v->each, SN_AXIS_UNROLL),
          lane = open_loop(t, at, "v", SN_ATTEND_VECTOR, SN_AXIS_VECTOR);
    sn_ix of_threads = sn_ix_min(m, x, sn_ix_const(m, v->threads - 1)); /* which x is, as ranges do not see */
    sn_ix number = sn_ix_addc(m, sn_ix_fma(t->o.b.m, v->threads, u, of_threads), v->first);
    *own = sn_ix_fma(t->o.b.m, SN_ATTEND_VECTOR * v->each, x, sn_ix_fma(t->o.b.m, SN_ATTEND_VECTOR, u, lane));
    *line = sn_ix_divc(m, number, in_line);
    *channel = sn_ix_fma(t->o.b.m, SN_ATTEND_VECTOR, sn_ix_modc(m, number, in_line), lane);
}

/* Of q: 0 outside of rows and channels. A vector is inside, or outside. */
static sn_val put_query(terms *t, sn_cursor at, sn_ix line, sn_ix channel) {
    const sn_attend *a = t->o.a;
    sn_contract_binding *b = &t->o.b;
    spot s = first_spot(t);
    s.row = sn_ix_add(b->m, b->row, line);
    s.channel = channel;
    sn_ix vector = sn_ix_scale(b->m, sn_ix_divc(b->m, channel, SN_ATTEND_VECTOR), SN_ATTEND_VECTOR);
    sn_val mask = sn_contract_and(b, at, (sn_val){0}, b->edge_m, s.row, a->c.m);
    mask = sn_contract_and(b, at, mask, sn_attend_padded(a->depth) > a->depth,
                           a->depth % SN_ATTEND_VECTOR ? channel : vector, a->depth);
    return put_element(t, at, a->q, &s, mask);
}

/* All are loaded before the first one is taken apart. */
static void take_vectors_apart(terms *t, sn_cursor at, vectors *v) {
    sn_module *m = t->o.b.m;
    const lines *l = v->of;
    sn_ix own, line, channel;
    if (!v->each) return;
    v->held = sn_attend_registers(&t->o, "held", SN_F32, SN_ATTEND_VECTOR * v->each);
    sn_ix x = sn_attend_open_threads(&t->o, &at);
    if (v->threads < t->o.b.nest.threads) at = sn_at_end(t->o.b.k, sn_put_if(m, at, x, sn_ix_const(m, v->threads)));
    sn_cursor in = at;
    open_vectors(t, &in, v, x, &own, &line, &channel);
    sn_val raw = l->raw ? sn_put_load(m, in, l->raw->buf, sn_mma_offset(m, l->raw, 0, line, channel))
                        : put_query(t, in, line, channel);
    sn_put_store(m, in, v->held, own, raw);
    in = at;
    open_vectors(t, &in, v, x, &own, &line, &channel);
    sn_val scaled = sn_terms_scale(m, in, sn_put_load(m, in, v->held, own), t->n);
    sn_terms_store(m, in, scaled, t->n, l->to, sn_mma_offset(m, l->at, 0, line, channel));
}

/* What is left where threads have no equal shares is for the first ones. */
static void take_apart(terms *t, sn_cursor at, const lines *l) {
    int64_t threads = t->o.b.nest.threads, all = l->n * sn_attend_padded(l->channels) / SN_ATTEND_VECTOR;
    vectors whole = {.of = l, .each = all / threads, .threads = threads};
    vectors rest = {.of = l, .first = all / threads * threads, .each = all % threads != 0, .threads = all % threads};
    take_vectors_apart(t, at, &whole);
    take_vectors_apart(t, at, &rest);
}

/* ---- products ---- */

static sn_mma_operand term_of(const sn_mma_operand *at, sn_buf buf) {
    sn_mma_operand term = *at;
    term.buf = buf;
    return term;
}

/* The part of it that a run of channels multiplies. */
static sn_mma_operand run_of(terms *t, const sn_mma_operand *at, sn_buf buf, uint32_t run) {
    sn_mma_operand term = term_of(at, buf);
    sn_ix zero = sn_ix_const(t->o.b.m, 0);
    term.at = sn_mma_offset(t->o.b.m, at, 0, zero, sn_ix_const(t->o.b.m, run * t->run));
    return term;
}

/* The product of a run of channels; without operands. */
static sn_mma_nest nest_of(const terms *t, uint32_t run) {
    sn_mma_nest nest = t->o.scores;
    int64_t left = nest.depth - run * t->run;
    nest.depth = left < t->run ? left : t->run;
    nest.state = t->runs[run];
    return nest;
}

static void put_scores(terms *t, sn_cursor at) {
    for (uint32_t r = 0; r < t->n_runs; r++) sn_contract_zero(&t->o.b, at, t->runs[r]);
    for (uint32_t i = 0; i < sn_terms_products(t->n); i++)
        for (uint32_t r = 0; r < t->n_runs; r++) {
            sn_terms_pair of = sn_terms_pair_of(t->n, i);
            sn_mma_nest nest = nest_of(t, r);
            if (sn_attend_terms_keeps_q(t->o.b.sc))
                nest.a = (sn_mma_operand){.buf = t->fragments[r][of.left], .in_registers = true};
            else nest.a = run_of(t, &t->q_at, t->q[of.left], r);
            nest.b = run_of(t, &t->key_at, t->key[of.right], r);
            sn_mma_put(t->o.b.m, at, &nest);
        }
}

/* Elements of a thread are, in their order: blocks of rows h, steps s of the instruction, halves i of those, rows r
 * that are 8 apart, neighbours e (ir/loop/mma.h). */
static void load_fragment(terms *t, sn_cursor at, uint32_t run) {
    enum { LANES = 4 /* that share a row */ };
    sn_module *m = t->o.b.m;
    sn_mma_nest nest = nest_of(t, run);
    int64_t own = sn_mma_fragment_private(&nest), k = sn_mmas[nest.mma].k, c = sn_mma_neighbours(nest.mma);
    sn_buf held = sn_attend_registers(&t->o, "held", SN_F32, own);
    sn_ix x = sn_attend_open_threads(&t->o, &at), base = sn_ix_scale(m, x, own);
    sn_cursor in = at;
    sn_ix h = open_loop(t, &in, "h", nest.tiles_m, SN_AXIS_UNROLL),
          s = open_loop(t, &in, "s", nest.depth / k, SN_AXIS_UNROLL), i = open_loop(t, &in, "i", 2, SN_AXIS_UNROLL),
          r = open_loop(t, &in, "r", 2, SN_AXIS_UNROLL), e = open_loop(t, &in, "e", c, SN_AXIS_VECTOR);
    sn_ix lane = sn_ix_fma(t->o.b.m, c, sn_ix_modc(m, x, LANES), e);
    sn_ix channel = sn_ix_addc(m, sn_ix_fma(t->o.b.m, k, s, sn_ix_fma(t->o.b.m, LANES * c, i, lane)), run * t->run);
    sn_ix element = sn_ix_fma(t->o.b.m, 2, sn_ix_fma(t->o.b.m, 2, sn_ix_fma(t->o.b.m, nest.depth / k, h, s), i), r);
    sn_val q = put_query(t, in, sn_mma_row(m, &nest, x, h, sn_ix_scale(m, r, 2)), channel);
    sn_put_store(m, in, held, sn_ix_add(m, base, sn_ix_fma(t->o.b.m, c, element, e)), q);
    in = at;
    sn_ix u = open_loop(t, &in, "u", own / c, SN_AXIS_UNROLL), v = open_loop(t, &in, "v", c, SN_AXIS_VECTOR);
    sn_ix offset = sn_ix_add(m, base, sn_ix_fma(t->o.b.m, c, u, v));
    sn_val scaled = sn_terms_scale(m, in, sn_put_load(m, in, held, offset), t->n);
    sn_terms_store(m, in, scaled, t->n, t->fragments[run], offset);
}

static void put_sums(terms *t, sn_cursor at) {
    sn_contract_zero(&t->o.b, at, t->o.sums.state);
    for (uint32_t i = 0; i < sn_terms_products(t->n); i++) {
        sn_terms_pair of = sn_terms_pair_of(t->n, i);
        sn_mma_nest nest = t->o.sums;
        nest.a = (sn_mma_operand){.buf = t->p[of.left], .in_registers = true};
        nest.b = term_of(&t->v_at, t->v[of.right]);
        sn_mma_put(t->o.b.m, at, &nest);
    }
}

/* Of the tile before: what it adds to the sums; nothing in front of the first one. */
static void add_to_sums(terms *t, sn_cursor at) {
    sn_attend_binding *o = &t->o;
    sn_module *m = o->b.m;
    sn_ix x = sn_attend_open_threads(o, &at), h, r;
    sn_attend_open_rows(o, &at, &h, &r);
    sn_val grown = sn_put_load(m, at, o->grown, sn_attend_row_at(o, x, h, r));
    sn_ix j = open_loop(t, &at, "j", o->sums.tiles_n, SN_AXIS_UNROLL);
    sn_ix e = sn_ix_fma(t->o.b.m, 2, r, open_loop(t, &at, "v", 2, SN_AXIS_VECTOR));
    sn_ix own = sn_mma_element(m, &o->sums, x, h, j, e);
    sn_val sum = sn_put_op2(m, at, SN_LOP_MUL, sn_put_load(m, at, t->sum, own), grown);
    sn_put_store(m, at, t->sum, own, sn_put_op2(m, at, SN_LOP_ADD, sum, sn_put_load(m, at, o->sums.state, own)));
}

/* Elements of a fragment are those of scores, in their order (attend_bind.c). */
static void put_fragments(terms *t, sn_cursor at) {
    sn_attend_binding *o = &t->o;
    sn_module *m = o->b.m;
    sn_ix x = sn_attend_open_threads(o, &at), h = open_loop(t, &at, "h", o->b.nest.tiles_m, SN_AXIS_UNROLL);
    sn_ix j = open_loop(t, &at, "j", o->scores.tiles_n, SN_AXIS_UNROLL), r = open_loop(t, &at, "r", 2, SN_AXIS_UNROLL);
    sn_ix e = sn_ix_fma(t->o.b.m, 2, r, open_loop(t, &at, "v", 2, SN_AXIS_VECTOR));
    sn_ix own = sn_mma_element(m, &o->scores, x, h, j, e);
    sn_terms_store(m, at, sn_put_load(m, at, o->s, own), t->n, t->p, own);
}

/* ---- what terms cannot give ---- */

/* In the region of the threads x: is any of a thread's sums bad? Then all lose their scale. Returns the test. */
static sn_ix put_unscale(terms *t, sn_cursor at, sn_buf sums, sn_ix x) {
    static const sn_comb MOST[] = {SN_COMB_MAX};
    static const sn_dtype f32 = SN_F32;
    sn_module *m = t->o.b.m;
    int64_t own = sn_buf_get(m, sums)->private_size;
    sn_axis e = sn_axis_new(m, "e", sn_ix_const(m, own));
    sn_stmt most = sn_put_reduce(m, at, e, SN_AXIS_UNROLL, MOST, 1, &f32);
    sn_cursor in = sn_at_end(t->o.b.k, most);
    sn_val size = sn_put_op1(m, in, SN_LOP_ABS, sn_put_load(m, in, sums, sn_ix_fma(m, own, x, sn_ix_axis(m, e))));
    sn_put_yield(m, in, &size, 1);
    in = at;
    sn_ix offset = sn_ix_fma(t->o.b.m, own, x, open_loop(t, &in, "e", own, SN_AXIS_UNROLL));
    sn_val scaled = sn_put_load(m, in, sums, offset);
    sn_put_store(m, in, sums, offset, sn_put_op2(m, in, SN_LOP_MUL, scaled, put_f32(t, in, ldexp(1, -scale_of(t)))));
    return sn_terms_test(m, at, sn_terms_bad(m, at, sn_stmt_get(m, most)->result, 0));
}

/* Registers cannot be numbered at run time, so they pass through an array that can. */
static void copy_own(terms *t, sn_cursor at, sn_buf to, sn_buf from, sn_ix x) {
    int64_t own = sn_buf_get(t->o.b.m, from)->private_size;
    sn_ix e = sn_ix_fma(t->o.b.m, own, x, open_loop(t, &at, "e", own, SN_AXIS_UNROLL));
    sn_put_store(t->o.b.m, at, to, e, sn_put_load(t->o.b.m, at, from, e));
}

/* *at moves to where e is below n, if it may not be. */
static void open_if(terms *t, sn_cursor *at, bool may_not, sn_ix e, int64_t n) {
    if (may_not) *at = sn_at_end(t->o.b.k, sn_put_if(t->o.b.m, *at, e, sn_ix_const(t->o.b.m, n)));
}

static void open_test(terms *t, sn_cursor *at, sn_ix test) { open_if(t, at, true, test, 1); }

/* *at moves to where the sum at `offset`, without its scale, is bad. */
static void open_bad(terms *t, sn_cursor *at, sn_buf spare, sn_ix offset) {
    sn_module *m = t->o.b.m;
    sn_val bad = sn_terms_bad(m, *at, sn_put_load(m, *at, spare, offset), -scale_of(t));
    open_test(t, at, sn_terms_test(m, *at, bad));
}

static sn_stmt open_sum(terms *t, sn_cursor *at, const char *name, int64_t n, sn_ix *axis) {
    static const sn_comb SUM[] = {SN_COMB_SUM};
    static const sn_dtype f32 = SN_F32;
    sn_axis ax = sn_axis_new(t->o.b.m, name, sn_ix_const(t->o.b.m, n));
    sn_stmt sum = sn_put_reduce(t->o.b.m, *at, ax, SN_AXIS_SEQ, SUM, 1, &f32);
    *at = sn_at_end(t->o.b.k, sum);
    *axis = sn_ix_axis(t->o.b.m, ax);
    return sum;
}

/* The product of q and k at (row, key). */
static sn_val put_plain_product(terms *t, sn_cursor at, sn_ix row, sn_ix key) {
    sn_module *m = t->o.b.m;
    spot s = first_spot(t);
    s.row = row;
    s.key = key;
    sn_stmt sum = open_sum(t, &at, "c", t->o.a->depth, &s.channel);
    sn_val q = put_element(t, at, t->o.a->q, &s, (sn_val){0}), k = put_element(t, at, t->o.a->key, &s, (sn_val){0});
    sn_val product = sn_put_op2(m, at, SN_LOP_MUL, q, k);
    sn_put_yield(m, at, &product, 1);
    return sn_stmt_get(m, sum)->result;
}

static void redo_scores(terms *t, sn_cursor at, sn_ix x) {
    sn_attend_binding *o = &t->o;
    sn_module *m = o->b.m;
    sn_buf spare = sn_attend_registers(o, "spare", SN_F32, sn_mma_private(&o->scores));
    copy_own(t, at, spare, o->s, x);
    sn_cursor in = at;
    sn_ix h = open_loop(t, &in, "h", o->b.nest.tiles_m, SN_AXIS_SEQ);
    sn_ix j = open_loop(t, &in, "j", o->scores.tiles_n, SN_AXIS_SEQ);
    sn_ix e = open_loop(t, &in, "e", sn_mma_elements(o->a->mma), SN_AXIS_SEQ);
    sn_ix row = sn_ix_add(m, o->b.row, sn_mma_row(m, &o->scores, x, h, e));
    sn_ix key = sn_ix_add(m, o->keys, sn_mma_column(m, &o->scores, x, j, e));
    sn_ix own = sn_mma_element(m, &o->scores, x, h, j, e);
    open_if(t, &in, o->b.edge_m, row, o->a->c.m);
    open_if(t, &in, sn_ix_range(m, key).hi >= o->a->c.k, key, o->a->c.k);
    open_bad(t, &in, spare, own);
    sn_put_store(m, in, spare, own, put_plain_product(t, in, row, key));
    copy_own(t, at, o->s, spare, x);
}

/* Scores become those of all runs, without their scale. */
static void finish_scores(terms *t, sn_cursor at) {
    sn_attend_binding *o = &t->o;
    sn_module *m = o->b.m;
    int64_t own = sn_mma_private(&o->scores);
    if (t->n_runs == 1 && !scale_of(t)) return;
    sn_ix x = sn_attend_open_threads(o, &at);
    for (uint32_t r = 1; r < t->n_runs; r++) {
        sn_cursor in = at;
        sn_ix e = sn_ix_fma(t->o.b.m, own, x, open_loop(t, &in, "e", own, SN_AXIS_UNROLL));
        sn_val some = sn_put_load(m, in, o->s, e), more = sn_put_load(m, in, t->runs[r], e);
        sn_put_store(m, in, o->s, e, sn_put_op2(m, in, SN_LOP_ADD, some, more));
    }
    if (!scale_of(t)) return;
    open_test(t, &at, put_unscale(t, at, o->s, x));
    redo_scores(t, at, x);
}

/* Of all keys: weight * v at (row, column), of a row that has this factor and shift. */
static sn_val put_plain_sum(terms *t, sn_cursor at, sn_ix row, sn_ix column, sn_val factor, sn_val shift) {
    sn_attend_binding *o = &t->o;
    sn_module *m = o->b.m;
    sn_contraction_copier p;
    spot s = first_spot(t);
    s.row = row;
    s.column = column;
    sn_cursor in = at;
    sn_stmt sum = open_sum(t, &in, "j", o->a->c.k, &s.key);
    sn_val product = put_plain_product(t, in, row, s.key);
    start_copier(t, &p, in, &s);
    sn_contraction_becomes(&p, o->a->sum, product);
    sn_val score = sn_attend_put_seen(o, in, row, s.key, sn_attend_put_score(o, &p));
    sn_val weight = sn_attend_put_weight(o, in, score, factor, shift);
    weight = sn_put_op2(m, in, SN_LOP_MUL, weight, put_f32(t, in, ldexp(1, -o->raised)));
    sn_val weighted = sn_put_op2(m, in, SN_LOP_MUL, weight, put_element(t, in, o->a->v, &s, (sn_val){0}));
    sn_put_yield(m, in, &weighted, 1);
    return sn_stmt_get(m, sum)->result;
}

/* Of the row h, r of thread x, if it has a maximum: otherwise all of it is nan. */
static void redo_row(terms *t, sn_cursor at, sn_buf spare, sn_ix x, sn_ix h, sn_ix r) {
    sn_attend_binding *o = &t->o;
    sn_module *m = o->b.m;
    sn_ix own = sn_attend_row_at(o, x, h, r);
    sn_ix row = sn_ix_add(m, o->b.row, sn_mma_row(m, &o->sums, x, h, sn_ix_scale(m, r, 2)));
    sn_val factor = sn_put_load(m, at, o->factor, own), shift = sn_put_load(m, at, o->shift, own);
    sn_val size = sn_put_op1(m, at, SN_LOP_ABS, sn_put_load(m, at, o->most, own));
    sn_val has = sn_put_op2(m, at, SN_LOP_LT, size, put_f32(t, at, INFINITY));
    open_test(t, &at, sn_terms_test(m, at, has));
    open_if(t, &at, o->b.edge_m, row, o->a->c.m);
    sn_ix j = open_loop(t, &at, "j", o->sums.tiles_n, SN_AXIS_SEQ);
    sn_ix e = sn_ix_fma(t->o.b.m, 2, r, open_loop(t, &at, "v", 2, SN_AXIS_SEQ)),
          column = sn_mma_column(m, &o->sums, x, j, e);
    sn_ix element = sn_mma_element(m, &o->sums, x, h, j, e);
    open_if(t, &at, o->b.edge_n, column, o->a->c.n);
    open_bad(t, &at, spare, element);
    sn_put_store(m, at, spare, element, put_plain_sum(t, at, row, column, factor, shift));
}

/* Behind all keys. */
static void finish_sums(terms *t, sn_cursor at) {
    sn_attend_binding *o = &t->o;
    sn_ix h, r;
    if (!scale_of(t)) return;
    sn_buf spare = sn_attend_registers(o, "spare", SN_F32, sn_mma_private(&o->sums));
    sn_ix x = sn_attend_open_threads(o, &at);
    open_test(t, &at, put_unscale(t, at, t->sum, x));
    copy_own(t, at, spare, t->sum, x);
    sn_cursor in = at;
    sn_attend_open_rows(o, &in, &h, &r);
    redo_row(t, in, spare, x, h, r);
    copy_own(t, at, t->sum, spare, x);
}

/* ---- all of it ---- */

static sn_mma_operand make_shared(terms *t, sn_buf *to, const char *const *names, int64_t n, int64_t channels) {
    sn_mma_operand at = {0};
    for (uint32_t i = 0; i < t->n; i++) {
        at = sn_attend_make_operand(&t->o, names[i], SN_BF16, n, channels);
        to[i] = at.buf;
    }
    return at;
}

static void make_queries(terms *t) {
    static const char *const Q[] = {"q_h", "q_m", "q_l"};
    const sn_sched *sc = t->o.b.sc;
    if (!sn_attend_terms_keeps_q(sc)) {
        t->q_at = make_shared(t, t->q, Q, sc->tile_m, t->o.a->depth);
        return;
    }
    for (uint32_t r = 0; r < t->n_runs; r++) {
        sn_mma_nest nest = nest_of(t, r);
        for (uint32_t i = 0; i < t->n; i++)
            t->fragments[r][i] = sn_attend_registers(&t->o, Q[i], SN_BF16, sn_mma_fragment_private(&nest));
    }
}

static void start(terms *t, sn_attend *a, const sn_sched *sc, sn_sched *sums) {
    static const char *const K[] = {"k_h", "k_m", "k_l"}, *const V[] = {"v_h", "v_m", "v_l"},
                             *const P[] = {"p_h", "p_m", "p_l"};
    *t = (terms){.n = sn_attend_terms_number(a), .run = sn_attend_terms_run(a)};
    sn_attend_binding *o = &t->o;
    sn_attend_start(o, a, sc, sums);
    o->raised = scale_of(t) / 2;
    o->key = sn_attend_make_operand(o, "k", SN_F32, sc->tile_n, a->depth);
    o->v = sn_attend_make_operand(o, "v", SN_F32, sc->tile_n, a->c.n);
    t->key_at = make_shared(t, t->key, K, sc->tile_n, a->depth);
    t->v_at = make_shared(t, t->v, V, sc->tile_n, a->c.n);
    t->v_at.rows = sn_attend_padded(a->c.n);
    t->v_at.across = true;
    for (uint32_t i = 0; i < t->n; i++) t->p[i] = sn_attend_registers(o, P[i], SN_BF16, sn_mma_private(&o->scores));
    t->n_runs = (uint32_t)((o->scores.depth + t->run - 1) / t->run);
    t->runs[0] = o->s;
    for (uint32_t r = 1; r < t->n_runs; r++)
        t->runs[r] = sn_attend_registers(o, "run", SN_F32, sn_mma_private(&o->scores));
    make_queries(t);
    t->sum = sn_attend_registers(o, "sum", SN_F32, sn_mma_private(&o->sums));
}

static void put_begin(terms *t, sn_cursor at) {
    const sn_attend *a = t->o.a;
    if (!sn_attend_terms_keeps_q(t->o.b.sc))
        take_apart(t, at, &(lines){NULL, t->o.b.sc->tile_m, a->depth, &t->q_at, t->q});
    else
        for (uint32_t r = 0; r < t->n_runs; r++) load_fragment(t, at, r);
    sn_attend_store_all(&t->o, at, t->o.most, -INFINITY);
    sn_attend_store_all(&t->o, at, t->o.shift, 0);
    sn_attend_store_all(&t->o, at, t->o.part, 0);
    sn_attend_store_all(&t->o, at, t->o.grown, 0);
    sn_contract_zero(&t->o.b, at, t->o.sums.state);
    sn_contract_zero(&t->o.b, at, t->sum);
}

static void put_tile(terms *t, sn_cursor at) {
    sn_attend_binding *o = &t->o;
    const sn_attend *a = o->a;
    sn_mma_operand v_lines = t->v_at; /* as threads store them */
    v_lines.rows = o->b.sc->tile_n;
    v_lines.across = false;
    sn_attend_put_keys(o, at);
    sn_put_barrier(o->b.m, at);
    take_apart(t, at, &(lines){&o->key, o->b.sc->tile_n, a->depth, &t->key_at, t->key});
    add_to_sums(t, at);
    sn_put_barrier(o->b.m, at);
    sn_attend_put_loads(o, at);
    put_scores(t, at);
    take_apart(t, at, &(lines){&o->v, o->b.sc->tile_n, a->c.n, &v_lines, t->v});
    finish_scores(t, at);
    sn_attend_put_function(o, at);
    sn_attend_put_masks(o, at);
    sn_attend_put_most(o, at);
    sn_attend_put_weights(o, at);
    sn_attend_put_sum(o, at);
    put_fragments(t, at);
    sn_put_barrier(o->b.m, at);
    put_sums(t, at);
}

/* The boxes stand in a kernel of their own meanwhile. */
bool sn_attend_terms_fits(const char **why_not, const sn_attend *of, const sn_sched *sc) {
    sn_module *m = of->m;
    sn_attend a = *of;
    sn_sched sums;
    terms t;
    sn_box box;
    bool fits = true;
    start(&t, &a, sc, &sums);
    t.o.b.k = sn_kern_new(m, sn_strf(&m->arena, "%s_boxes", sn_kern_get(m, a.k)->name));
    sn_cursor at = sn_at_end(t.o.b.k, (sn_stmt){0});
    sn_attend_open_blocks(&t.o, &at, false);
    sn_attend_open_tiles(&t.o, &at);
    sn_attend_put_keys(&t.o, at);
    for (sn_stmt s = sn_stmt_get(m, at.parent)->first; s.i && fits; s = sn_next(m, s))
        if (sn_stmt_get(m, s)->bulk) fits = sn_box_find(&box, why_not, m, s);
    sn_kern_remove(m, t.o.b.k);
    return fits;
}

void sn_schedule_attend_terms_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_attend a;
    const char *why_not;
    sn_sched sums;
    terms t;
    sn_attend_binding *o = &t.o;
    sn_attend_terms_find(&a, &why_not, cx, k);
    start(&t, &a, sc, &sums);
    sn_schedule_take_body(&o->b.body, cx, k, sh);
    sn_cursor at = sn_at_end(k, (sn_stmt){0});
    sn_attend_open_blocks(o, &at, false);
    put_begin(&t, at);
    sn_cursor in = at;
    sn_attend_open_tiles(o, &in);
    put_tile(&t, in);
    add_to_sums(&t, at);
    finish_sums(&t, at);
    sn_attend_put_totals(o, at);
    sums.tile_n = (uint32_t)sn_attend_padded(a.c.n);
    o->b.sc = &sums;
    o->b.states[0] = o->b.states[2] = o->shift;
    o->b.states[1] = o->total;
    o->b.states[3] = t.sum;
    o->b.by_row[0] = o->b.by_row[1] = o->b.by_row[2] = true;
    /* What other blocks of a multiprocessor have is no room for results either. */
    int64_t used = sn_attend_terms_room(&a, sc) + cx->target->shared_bytes - sn_attend_terms_shared(&a, sc);
    sn_contract_put_results(&o->b, at, used);
}
