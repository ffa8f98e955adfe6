/* contract_split.c: a matrix product on a GPU whose sums several blocks share: each does a part of the steps, and the block of a
 * tile that is the last to finish adds up what all have left.
 *
 *     loop g in tiles : grid {
 *       loop s in split : grid { steps of part s      loop x : block.x { parts[g, s, ..] = sums } }
 *       loop x : block.x { sums = reduce sum s in split { load parts[g, s, ..] } }      the body
 *     }
 *
 * For products with fewer tiles than a device has room for. Parts are added in their order, whoever does it, so that results are
 * the same bits from run to run. What blocks leave is in the L2 when it is read; elements of neighbouring threads are
 * neighbours, two at a time. Relies on what follows a grid loop being done by the last block of it (docs/IR.md).
 */
#include "passes/schedule/contract_bind.h"

enum { TOGETHER = 8 /* loads of a thread for one element */, PAIR = 2 };

static sn_buf sums_of(const sn_contract_binding *b, uint32_t state) {
    return b->n_terms ? b->totals[state] : b->states[state];
}

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
    return sn_contract_fma(b, elements(b), e->x, sn_contract_fma(b, PAIR, e->pair, e->lane));
}

static sn_ix in_memory(sn_contract_binding *b, const element *e, sn_ix part) {
    sn_ix all = sn_contract_fma(b, b->split, b->tile, part),
          pairs = sn_contract_fma(b, elements(b) / PAIR, all, e->pair);
    return sn_contract_fma(b, PAIR, sn_contract_fma(b, b->nest.threads, pairs, e->x), e->lane);
}

static void make_parts(sn_contract_binding *b) {
    const char *name = sn_kern_get(b->m, b->k)->name;
    int64_t tiles = sn_ix_range(b->m, b->tile).hi + 1;
    sn_ix shape[2] = {sn_ix_const(b->m, tiles * b->split), sn_ix_const(b->m, elements(b) * b->nest.threads)};
    for (uint32_t i = 0; i < b->ct.c.n_states; i++)
        b->parts[i] = sn_buf_new(b->m, sn_strf(&b->m->arena, "%s_p%u", name, i), b->ct.c.dtype, SN_BUF_TEMP, shape, 2);
}

void sn_contract_put_parts(sn_contract_binding *b, sn_cursor at) {
    make_parts(b);
    element e = open_elements(b, &at);
    for (uint32_t i = 0; i < b->ct.c.n_states; i++) {
        sn_val sum = sn_put_load(b->m, at, sums_of(b, i), in_registers(b, &e));
        sn_put_store(b->m, at, b->parts[i], in_memory(b, &e, b->part), sum);
    }
}

/* One loop over the parts, or one over groups of them whose loads go together. */
static sn_val put_sum(sn_contract_binding *b, sn_cursor at, const element *e, uint32_t state) {
    sn_module *m = b->m;
    static const sn_comb sum = SN_COMB_SUM;
    int64_t together = b->split;
    while (together > TOGETHER || b->split % together) together--;
    sn_axis groups = sn_axis_new(m, "s", sn_ix_const(m, b->split / together));
    sn_axis own = sn_axis_new(m, "u", sn_ix_const(m, together));
    sn_ix part = sn_contract_fma(b, together, sn_ix_axis(m, groups), sn_ix_axis(m, own));
    sn_stmt all = {0};
    if (together < b->split) all = sn_put_reduce(m, at, groups, SN_AXIS_SEQ, &sum, 1, &b->ct.c.dtype);
    else part = sn_ix_axis(m, own);
    sn_cursor in = all.i ? sn_at_end(b->k, all) : at;
    sn_stmt some = sn_put_reduce(m, in, own, SN_AXIS_UNROLL, &sum, 1, &b->ct.c.dtype);
    sn_val one = sn_put_load(m, sn_at_end(b->k, some), b->parts[state], in_memory(b, e, part));
    sn_put_yield(m, sn_at_end(b->k, some), &one, 1);
    sn_val result = sn_result(sn_stmt_get(m, some), 0);
    if (!all.i) return result;
    sn_put_yield(m, in, &result, 1);
    return sn_result(sn_stmt_get(m, all), 0);
}

void sn_contract_add_parts(sn_contract_binding *b, sn_cursor at) {
    element e = open_elements(b, &at);
    for (uint32_t i = 0; i < b->ct.c.n_states; i++) {
        sn_val sum = put_sum(b, at, &e, i);
        sn_put_store(b->m, at, sums_of(b, i), in_registers(b, &e), sum);
    }
}
