/* attend_split.c: attention of whole tiles whose keys several blocks share: each goes along a part of them, and the
 * last one of the rows to finish puts together what all have left.
 *
 *     loop g in rows : grid {
 *       loop s in split : grid { tiles of keys of part s      parts[g, s, ..] = most, total, acc }
 *       most = max s { parts[g, s].most }
 *       loop s in split : seq { w = 2^(c*parts[g, s].most - c*most)   total += w*parts[g, s].total   acc += .. }
 *     }
 *     the body
 *
 * For fewer blocks of rows than the device has room for: decoding of few sequences. Parts are taken in their order,
 * whoever does it, so that results are the same bits from run to run. Only rows that there are pass through memory.
 * Relies on what follows a grid loop being done by the last block of it (docs/IR.md).
 */
#include <math.h>

#include "passes/schedule/attention/attend_bind.h"

typedef sn_attend_binding binding;
enum { MOST, TOTAL, SUMS, PAIR = 2 };

static sn_ix open_loop(binding *o, sn_cursor *at, const char *name, int64_t extent, sn_axis_kind kind) {
    return sn_contract_loop(&o->b, at, name, extent, kind);
}

static int64_t rows_of(const binding *o) { return 2 * (int64_t)o->b.nest.tiles_m; }
static int64_t sums_of(const binding *o) { return sn_mma_private(&o->sums); }

static void make_parts(binding *o) {
    static const char *const NAMES[] = {"most", "total", "sums"};
    sn_module *m = o->b.m;
    int64_t parts = (sn_ix_range(m, o->b.tile).hi + 1) * o->b.split, threads = o->b.nest.threads;
    for (int i = 0; i < 3; i++) {
        sn_ix shape[2] = {sn_ix_const(m, parts), sn_ix_const(m, threads * (i == SUMS ? sums_of(o) : rows_of(o)))};
        const char *name = sn_strf(&m->arena, "%s_%s", sn_kern_get(m, o->b.k)->name, NAMES[i]);
        o->parts[i] = sn_buf_new(m, name, SN_F32, SN_BUF_TEMP, shape, 2);
    }
}

/* A row of a thread, which exists; *at moves inside. */
typedef struct row {
    sn_ix x, h, r, own; /* own: among registers */
} row;

static row open_row(binding *o, sn_cursor *at) {
    row w = {.x = sn_attend_open_threads(o, at)};
    w.h = open_loop(o, at, "h", o->b.nest.tiles_m, SN_AXIS_UNROLL);
    w.r = open_loop(o, at, "r", 2, SN_AXIS_UNROLL);
    w.own = sn_attend_row_at(o, w.x, w.h, w.r);
    if (!o->b.edge_m) return w;
    sn_ix number = sn_ix_add(o->b.m, o->b.row, sn_mma_row(o->b.m, &o->sums, w.x, w.h, sn_ix_scale(o->b.m, w.r, 2)));
    *at = sn_at_end(o->b.k, sn_put_if(o->b.m, *at, number, sn_ix_const(o->b.m, o->a->c.m)));
    return w;
}

/* Where part s has it: neighbouring threads are neighbours. */
static sn_ix row_in_memory(binding *o, const row *w, sn_ix s) {
    sn_ix all =
        sn_ix_fma(o->b.m, rows_of(o), sn_ix_fma(o->b.m, o->b.split, o->b.tile, s), sn_ix_fma(o->b.m, 2, w->h, w->r));
    return sn_ix_fma(o->b.m, o->b.nest.threads, all, w->x);
}

/* The sums of a row, two neighbours at a time; *at moves inside. */
typedef struct sum {
    sn_ix pair, lane, own;
} sum;

static sum open_sums(binding *o, sn_cursor *at, const row *w) {
    sn_ix j = open_loop(o, at, "j", o->sums.tiles_n, SN_AXIS_UNROLL), v = open_loop(o, at, "v", PAIR, SN_AXIS_VECTOR);
    sn_ix pair = sn_ix_fma(o->b.m, 2, sn_ix_fma(o->b.m, o->sums.tiles_n, w->h, j), w->r);
    return (sum){pair, v, sn_mma_element(o->b.m, &o->sums, w->x, w->h, j, sn_ix_fma(o->b.m, PAIR, w->r, v))};
}

static sn_ix sum_in_memory(binding *o, const row *w, const sum *e, sn_ix s) {
    sn_ix all = sn_ix_fma(o->b.m, sums_of(o) / PAIR, sn_ix_fma(o->b.m, o->b.split, o->b.tile, s), e->pair);
    return sn_ix_fma(o->b.m, PAIR, sn_ix_fma(o->b.m, o->b.nest.threads, all, w->x), e->lane);
}

void sn_attend_put_parts(binding *o, sn_cursor at) {
    sn_module *m = o->b.m;
    make_parts(o);
    row w = open_row(o, &at);
    sn_put_store(m, at, o->parts[MOST], row_in_memory(o, &w, o->b.part), sn_put_load(m, at, o->most, w.own));
    sn_put_store(m, at, o->parts[TOTAL], row_in_memory(o, &w, o->b.part), sn_put_load(m, at, o->part, w.own));
    sum e = open_sums(o, &at, &w);
    sn_put_store(m, at, o->parts[SUMS], sum_in_memory(o, &w, &e, o->b.part), sn_put_load(m, at, o->sums.state, e.own));
}

/* The largest score of all parts, and the factor and shift that weights are counted from. */
static void put_most(binding *o, sn_cursor at) {
    static const sn_comb MAX[] = {SN_COMB_MAX};
    static const sn_dtype f32 = SN_F32;
    sn_module *m = o->b.m;
    row w = open_row(o, &at);
    sn_axis s = sn_axis_new(m, "s", sn_ix_const(m, o->b.split));
    sn_stmt all = sn_put_reduce(m, at, s, SN_AXIS_UNROLL, MAX, 1, &f32);
    sn_cursor in = sn_at_end(o->b.k, all);
    sn_val one = sn_put_load(m, in, o->parts[MOST], row_in_memory(o, &w, sn_ix_axis(m, s)));
    sn_put_yield(m, in, &one, 1);
    sn_val most = sn_stmt_get(m, all)->result, factor = sn_attend_put_factor(o, at, most);
    sn_val none = sn_put_op2(m, at, SN_LOP_EQ, most, sn_put_const(m, at, SN_F32, -INFINITY));
    sn_val shift = sn_put_op3(m, at, SN_LOP_SELECT, none, sn_put_const(m, at, SN_F32, 0),
                              sn_put_op2(m, at, SN_LOP_MUL, most, factor));
    sn_put_store(m, at, o->most, w.own, most);
    sn_put_store(m, at, o->factor, w.own, factor);
    sn_put_store(m, at, o->shift, w.own, shift);
}

/* The element of registers grows by w times what the part has left. */
static void add(binding *o, sn_cursor at, sn_buf to, sn_ix own, sn_val w, sn_buf left, sn_ix from) {
    sn_module *m = o->b.m;
    sn_val x = sn_put_op2(m, at, SN_LOP_MUL, sn_put_load(m, at, left, from), w);
    sn_put_store(m, at, to, own, sn_put_op2(m, at, SN_LOP_ADD, sn_put_load(m, at, to, own), x));
}

void sn_attend_add_parts(binding *o, sn_cursor at) {
    sn_module *m = o->b.m;
    int64_t together = o->b.split % SN_ATTEND_SPLIT_LOADS ? 1 : SN_ATTEND_SPLIT_LOADS;
    const sn_buf sums[] = {o->most, o->part, o->sums.state}; /* also of rows that there are not */
    for (size_t i = 0; i < SN_COUNT(sums); i++) sn_contract_zero(&o->b, at, sums[i]);
    put_most(o, at);
    sn_ix s = open_loop(o, &at, "s", o->b.split / together, SN_AXIS_SEQ);
    row w = open_row(o, &at);
    if (together > 1) s = sn_ix_fma(o->b.m, together, s, open_loop(o, &at, "u", together, SN_AXIS_UNROLL));
    sn_val most = sn_put_load(m, at, o->parts[MOST], row_in_memory(o, &w, s));
    sn_val scaled = sn_put_op2(m, at, SN_LOP_MUL, most, sn_put_load(m, at, o->factor, w.own));
    sn_val weight = sn_put_op1(m, at, SN_LOP_EXP2_NORMAL,
                               sn_put_op2(m, at, SN_LOP_SUB, scaled, sn_put_load(m, at, o->shift, w.own)));
    add(o, at, o->part, w.own, weight, o->parts[TOTAL], row_in_memory(o, &w, s));
    sum e = open_sums(o, &at, &w);
    add(o, at, o->sums.state, e.own, weight, o->parts[SUMS], sum_in_memory(o, &w, &e, s));
}
