/* contract_split.c: a matrix product on a GPU whose sums several blocks share: each does a part of the steps, and the block of a
 * tile that is the last to finish adds up what all have left.
 *
 *     loop g in tiles : grid {
 *       loop s in groups : grid {
 *         loop t in split div groups : grid { steps of a part      loop x : block.x { parts[g, s, t, ..] = sums } }
 *         loop t { loop x : block.x { sums += parts[g, s, t, ..] } }      loop x : block.x { parts[g, s, 0, ..] = sums }
 *       }
 *       loop s in groups { loop x : block.x { sums += parts[g, s, 0, ..] } }      the body
 *     }
 *
 * For products with fewer tiles than a device has room for. One block draws no more from the L2 than a multiprocessor does, so
 * many parts are added in groups side by side first; few have one group, and one loop. Parts are added in their order, whoever
 * does it, so that results are the same bits from run to run. What blocks leave is in the L2 when it is read; elements of
 * neighbouring threads are neighbours, two at a time. Relies on what follows a grid loop being done by the last block of it
 * (docs/IR.md).
 */
#include "passes/schedule/products/contract_bind.h"

enum { PAIR = 2 };

/* ---- groups ---- */

/* Cycles until a tile's last block has its sums, with parts in so many groups. What blocks leave in memory, the last one
 * of them reads. */
static double cycles(const sn_sched *sc, int64_t groups) {
    double part = (double)sc->tile_m * sc->tile_n * sn_dtype_bytes(SN_F32), split = sc->split;
    double reads = groups > 1 ? split / (double)groups + (double)groups : split;
    return (groups > 1 ? 2 : 1) * SN_PRODUCT_SHARE + part * reads / SN_PRODUCT_FETCH;
}

int64_t sn_contract_groups(const sn_sched *sc) {
    int64_t best = 1;
    for (int64_t n = 2; 2 * n <= sc->split; n++)
        if (sc->split % n == 0 && cycles(sc, n) < cycles(sc, best)) best = n;
    return best;
}

double sn_contract_share_cycles(const sn_sched *sc) { return sc->split > 1 ? cycles(sc, sn_contract_groups(sc)) : 0; }

/* ---- parts ---- */

/* Those of a thread. */
static int64_t elements(const sn_contract_binding *b) { return sn_buf_get(b->m, b->states[0])->private_size; }

/* Loops over threads x and pairs of elements; *at moves inside. What it is called with, by part and state: */
typedef struct element {
    sn_ix x, pair, lane;
} element;

static element open_elements(sn_contract_binding *b, sn_cursor *at) {
    sn_ix x = sn_contract_loop(b, at, "x", b->nest.threads, SN_AXIS_BLOCK_X);
    sn_ix pair = sn_contract_loop(b, at, "e", elements(b) / PAIR, SN_AXIS_UNROLL);
    return (element){x, pair, sn_contract_loop(b, at, "v", PAIR, SN_AXIS_VECTOR)};
}

static sn_ix in_registers(sn_contract_binding *b, const element *e) {
    return sn_ix_fma(b->m, elements(b), e->x, sn_ix_fma(b->m, PAIR, e->pair, e->lane));
}

static sn_ix in_memory(sn_contract_binding *b, const element *e, sn_ix part) {
    sn_ix all = sn_ix_fma(b->m, b->split, b->tile, part), pairs = sn_ix_fma(b->m, elements(b) / PAIR, all, e->pair);
    return sn_ix_fma(b->m, PAIR, sn_ix_fma(b->m, b->nest.threads, pairs, e->x), e->lane);
}

static void make_parts(sn_contract_binding *b) {
    const char *name = sn_kern_get(b->m, b->k)->name;
    int64_t tiles = sn_ix_range(b->m, b->tile).hi + 1;
    sn_ix shape[2] = {sn_ix_const(b->m, tiles * b->split), sn_ix_const(b->m, elements(b) * b->nest.threads)};
    for (uint32_t i = 0; i < b->ct.c.n_states; i++)
        b->parts[i] = sn_buf_new(b->m, sn_strf(&b->m->arena, "%s_p%u", name, i), b->ct.c.dtype, SN_BUF_TEMP, shape, 2);
}

static void put_parts(sn_contract_binding *b, sn_cursor at, sn_ix part) {
    element e = open_elements(b, &at);
    for (uint32_t i = 0; i < b->ct.c.n_states; i++) {
        sn_val sum = sn_put_load(b->m, at, sn_contract_sums(b, i), in_registers(b, &e));
        sn_put_store(b->m, at, b->parts[i], in_memory(b, &e, part), sum);
    }
}

/* Which parts are added up: n of them, so far apart. */
typedef struct run {
    sn_ix first;
    int64_t step, n;
} run;

/* So many of them are read together that a thread has enough loads on their way. */
static int64_t together(const sn_contract_binding *b, const run *r) {
    int64_t n = 1;
    for (int64_t k = 2; k <= r->n && k * elements(b) / PAIR <= SN_SHARE_LOADS; k++)
        if (r->n % k == 0) n = k;
    return n;
}

static sn_val put_sum(sn_contract_binding *b, sn_cursor at, const element *e, uint32_t state, const run *r) {
    sn_module *m = b->m;
    static const sn_comb sum = SN_COMB_SUM;
    sn_axis own = sn_axis_new(m, "u", sn_ix_const(m, r->n));
    sn_stmt all = sn_put_reduce(m, at, own, SN_AXIS_UNROLL, &sum, 1, &b->ct.c.dtype);
    sn_ix from = in_memory(b, e, sn_ix_fma(b->m, r->step, sn_ix_axis(m, own), r->first));
    sn_val one = sn_put_load(m, sn_at_end(b->k, all), b->parts[state], from);
    sn_put_yield(m, sn_at_end(b->k, all), &one, 1);
    return sn_result(sn_stmt_get(m, all), 0);
}

/* All elements of a thread in each turn: their loads go together. */
static void add_parts(sn_contract_binding *b, sn_cursor at, const run *r) {
    int64_t n = together(b, r);
    for (uint32_t i = 0; i < b->ct.c.n_states; i++) sn_contract_zero(b, at, sn_contract_sums(b, i));
    sn_ix turn = n < r->n ? sn_contract_loop(b, &at, "s", r->n / n, SN_AXIS_SEQ) : sn_ix_const(b->m, 0);
    run some = {sn_ix_fma(b->m, r->step * n, turn, r->first), r->step, n};
    element e = open_elements(b, &at);
    for (uint32_t i = 0; i < b->ct.c.n_states; i++) {
        sn_ix own = in_registers(b, &e);
        sn_val sum = put_sum(b, at, &e, i, &some), before = sn_put_load(b->m, at, sn_contract_sums(b, i), own);
        sn_put_store(b->m, at, sn_contract_sums(b, i), own, sn_put_op2(b->m, at, SN_LOP_ADD, before, sum));
    }
}

void sn_contract_share_sums(sn_contract_binding *b, sn_cursor *at) {
    int64_t each = b->split / b->groups;
    sn_ix first = sn_ix_scale(b->m, b->group, each);
    make_parts(b);
    put_parts(b, *at, b->part);
    *at = sn_at_end(b->k, b->in_group);
    add_parts(b, *at, &(run){first, 1, each});
    if (b->groups == 1) return;
    put_parts(b, *at, first);
    *at = sn_at_end(b->k, b->tiles);
    add_parts(b, *at, &(run){sn_ix_const(b->m, 0), each, b->groups});
}
