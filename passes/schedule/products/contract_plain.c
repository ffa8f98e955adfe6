/* contract_plain.c: products of a tile without instructions for matrices.
 *
 *     loop x : block.x { loop q in tile_k div (4*parts) {
 *       loop i : unroll { loop v in 4 : vector { left of 4 steps and row i -> registers } }
 *       loop j : unroll { loop v in 4 : vector { right of 4 steps and column j -> registers } }
 *       loop s in 4 : unroll { loop i : unroll { loop j : unroll { acc[i, j] += left[i, s] * right[j, s] } } }
 *     } }
 *
 * A thread has rows x columns elements of the tile, as square as can be: each element that it loads is multiplied as
 * often as its tile is wide. Loads are 16 bytes: of steps, where the operand lies along the sum, then neighbours have
 * neighbouring rows, which permuted lines keep apart; else of rows, which are next to each other then. All are written out, so that
 * the next ones are on their way while these are multiplied (with 512 products at a time in a loop, half of the code and of ptxas's time,
 * two of three products took 6 and 8 % longer on an H200).
 *
 * A block of more threads than a tile has work for takes steps apart: groups of threads have the same elements, and each has every
 * parts-th four steps. Behind the sum they pass through shared memory, and each group has a part of the rows of its threads.
 */
#include "passes/schedule/products/contract_bind.h"

enum { MOST_STEPS = 4, MOST_PARTS = 8 };

/* Elements of an access to shared memory, and steps at a time. */
static int64_t run_of(sn_dtype operand) {
    int64_t n = SN_WIDEST_ACCESS / sn_dtype_bytes(operand);
    return n < MOST_STEPS ? n : MOST_STEPS;
}

/* ---- who has what ---- */

/* Do all operands of a side lie across the sum? */
static bool all_across(const sn_contract *ct, const sn_sched *sc, bool right) {
    bool all = true;
    for (uint32_t i = 0; i < ct->c.n_operands; i++)
        if (ct->c.operands[i].right == right) all &= sn_contract_across(ct, sc, i);
    return all;
}

/* The longest run of n elements of a thread. */
static int64_t run_in(int64_t n, int64_t run) {
    while (n % run) run /= 2;
    return run;
}

/* Have groups of whole warps equal shares of the steps and of the results, and registers for their sums? */
static bool share(sn_contract_plain *p, const sn_contract *ct, const sn_sched *sc) {
    int64_t words = p->rows * p->columns * ct->c.n_states * sn_dtype_bytes(ct->c.dtype) / 4;
    int64_t down = p->parts, runs = p->columns / p->run_columns;
    while (p->rows % down) down /= 2;
    p->end_rows = p->rows / down;
    p->end_runs = runs * down / p->parts;
    if (p->parts == 1) return true;
    return p->across * p->down % SN_WARP == 0 && sc->tile_k % (run_of(ct->operand) * p->parts) == 0 &&
           runs % (p->parts / down) == 0 && words <= SN_CONTRACT_PLAIN_SUMS;
}

static bool find_group(sn_contract_plain *out, const sn_contract *ct, const sn_sched *sc, int64_t parts,
                       int64_t *best) {
    int64_t threads = sc->block_x / parts, run = run_of(ct->operand), before = *best;
    bool left = all_across(ct, sc, false), right = all_across(ct, sc, true);
    for (int64_t across = 1; across <= threads; across *= 2) {
        sn_contract_plain p = {.parts = parts, .across = across, .down = threads / across};
        if (threads % across || sc->tile_m % p.down || sc->tile_n % p.across) continue;
        p.rows = sc->tile_m / p.down;
        p.columns = sc->tile_n / p.across;
        p.run_rows = left ? run_in(p.rows, run) : 1;
        p.run_columns = right ? run_in(p.columns, run) : 1;
        int64_t read = (p.rows + p.columns) * threads;
        if (read > *best || !share(&p, ct, sc)) continue;
        *best = read;
        *out = p;
    }
    return *best < before;
}

bool sn_contract_plain_find(sn_contract_plain *out, const sn_contract *ct, const sn_sched *sc) {
    int64_t best = INT64_MAX;
    bool found = false;
    for (int64_t parts = 1; parts <= MOST_PARTS && sc->block_x % parts == 0; parts *= 2)
        found |= find_group(out, ct, sc, parts, &best);
    return found && sc->tile_k % run_of(ct->operand) == 0;
}

/* Element `i` of a thread's, number t of n threads, by runs. */
static sn_ix in_turn(sn_contract_binding *b, int64_t n, int64_t run, sn_ix t, sn_ix group, sn_ix lane) {
    return sn_ix_fma(b->m, run, sn_ix_fma(b->m, n, group, t), lane);
}

static int64_t group_of(const sn_contract_plain *p) { return p->across * p->down; }

static sn_ix part_of(sn_contract_binding *b, sn_ix x) { return sn_ix_divc(b->m, x, group_of(&b->plain)); }
static sn_ix down_of(sn_contract_binding *b, sn_ix x) {
    return sn_ix_divc(b->m, sn_ix_modc(b->m, x, group_of(&b->plain)), b->plain.across);
}
static sn_ix across_of(sn_contract_binding *b, sn_ix x) { return sn_ix_modc(b->m, x, b->plain.across); }

/* Numbers among the rows and runs of a thread of those that its group stores. */
static sn_ix end_row(sn_contract_binding *b, sn_ix x, sn_ix h) {
    sn_ix part = sn_ix_modc(b->m, part_of(b, x), b->plain.rows / b->plain.end_rows);
    return sn_ix_fma(b->m, b->plain.end_rows, part, h);
}

static sn_ix end_run(sn_contract_binding *b, sn_ix x, sn_ix j) {
    sn_ix part = sn_ix_divc(b->m, part_of(b, x), b->plain.rows / b->plain.end_rows);
    return sn_ix_fma(b->m, b->plain.end_runs, part, j);
}

sn_ix sn_contract_plain_row(sn_contract_binding *b, sn_ix x, sn_ix h) {
    int64_t run = b->plain.run_rows;
    h = end_row(b, x, h);
    return in_turn(b, b->plain.down, run, down_of(b, x), sn_ix_divc(b->m, h, run), sn_ix_modc(b->m, h, run));
}

sn_ix sn_contract_plain_column(sn_contract_binding *b, sn_ix x, sn_ix j, sn_ix v) {
    return in_turn(b, b->plain.across, b->plain.run_columns, across_of(b, x), end_run(b, x, j), v);
}

/* The place of a thread's sum. */
static sn_ix element(sn_contract_binding *b, sn_ix x, sn_ix h, sn_ix j, sn_ix v) {
    const sn_contract_plain *p = &b->plain;
    sn_ix own = sn_ix_fma(b->m, p->columns, h, sn_ix_fma(b->m, p->run_columns, j, v));
    return sn_ix_fma(b->m, p->rows * p->columns, x, own);
}

/* ---- products ---- */

/* A thread's elements of an operand at a few steps: [row or column][step]. */
typedef struct fragment {
    sn_buf buf;
    int64_t n, run, steps;
} fragment;

static sn_ix in_fragment(sn_contract_binding *b, const fragment *f, sn_ix x, sn_ix i, sn_ix s) {
    return sn_ix_fma(b->m, f->n * f->steps, x, sn_ix_fma(b->m, f->steps, i, s));
}

static void put_load(sn_contract_binding *b, sn_cursor at, uint32_t o, const fragment *f, sn_ix x, sn_ix group,
                     sn_ix lane, sn_ix q, sn_ix s) {
    bool right = b->ct.c.operands[o].right;
    const sn_contract_plain *p = &b->plain;
    sn_ix t = right ? across_of(b, x) : down_of(b, x);
    sn_ix place = in_turn(b, right ? p->across : p->down, f->run, t, group, lane);
    sn_mma_operand layout = sn_contract_operand_of(b, o);
    sn_ix from = sn_mma_offset(b->m, &layout, b->sc->tile_k, place, sn_ix_fma(b->m, f->steps, q, s));
    sn_val y = sn_put_load(b->m, at, b->shared[o], sn_shared_of_rank(b->m, b->shared[o], b->nest.rank, from));
    sn_ix to = in_fragment(b, f, x, sn_ix_fma(b->m, f->run, group, lane), s);
    sn_put_store(b->m, at, f->buf, to, sn_put_cast(b->m, at, b->ct.c.dtype, y));
}

static void put_loads(sn_contract_binding *b, sn_cursor at, uint32_t o, const fragment *f, sn_ix x, sn_ix q) {
    sn_ix zero = sn_ix_const(b->m, 0);
    if (b->across[o]) {
        sn_ix s = sn_contract_loop(b, &at, "s", f->steps, SN_AXIS_UNROLL);
        sn_ix i = sn_contract_loop(b, &at, "i", f->n / f->run, SN_AXIS_UNROLL);
        sn_ix v = f->run > 1 ? sn_contract_loop(b, &at, "v", f->run, SN_AXIS_VECTOR) : zero;
        put_load(b, at, o, f, x, i, v, q, s);
        return;
    }
    sn_ix i = sn_contract_loop(b, &at, "i", f->n / f->run, SN_AXIS_UNROLL);
    sn_ix w = f->run > 1 ? sn_contract_loop(b, &at, "w", f->run, SN_AXIS_UNROLL) : zero;
    sn_ix s = sn_contract_loop(b, &at, "v", f->steps, SN_AXIS_VECTOR);
    put_load(b, at, o, f, x, i, w, q, s);
}

static void put_product(sn_contract_binding *b, sn_cursor at, const sn_contraction_product *pr, const fragment *f,
                        sn_ix x) {
    sn_module *m = b->m;
    const sn_contract_plain *p = &b->plain;
    const fragment *left = &f[pr->left], *right = &f[pr->right];
    sn_buf state = b->states[pr->state];
    sn_ix s = sn_contract_loop(b, &at, "s", left->steps, SN_AXIS_UNROLL);
    sn_ix h = sn_contract_loop(b, &at, "i", p->rows, SN_AXIS_UNROLL);
    sn_ix c = sn_contract_loop(b, &at, "j", p->columns, SN_AXIS_UNROLL);
    sn_val y = sn_put_load(m, at, left->buf, in_fragment(b, left, x, h, s));
    sn_val z = sn_put_load(m, at, right->buf, in_fragment(b, right, x, c, s));
    sn_ix j = sn_ix_divc(m, c, p->run_columns), v = sn_ix_modc(m, c, p->run_columns);
    sn_ix place = element(b, x, h, j, v);
    sn_val product = sn_put_op2(m, at, SN_LOP_MUL, y, z);
    sn_val sum = sn_put_op2(m, at, SN_LOP_ADD, sn_put_load(m, at, state, place), product);
    sn_put_store(m, at, state, place, sum);
}

void sn_contract_plain_put(sn_contract_binding *b, sn_cursor at) {
    const sn_contraction *c = &b->ct.c;
    const sn_contract_plain *p = &b->plain;
    int64_t steps = run_of(b->ct.operand);
    fragment f[SN_MOST_OPERANDS];
    sn_ix x = sn_contract_loop(b, &at, "x", b->sc->block_x, SN_AXIS_BLOCK_X);
    int64_t turns = b->sc->tile_k / steps / p->parts;
    sn_ix q = sn_contract_loop(b, &at, "q", turns, turns > SN_PLAIN_WRITTEN ? SN_AXIS_SEQ : SN_AXIS_UNROLL);
    q = sn_ix_fma(b->m, p->parts, q, part_of(b, x));
    for (uint32_t o = 0; o < c->n_operands; o++) {
        bool right = c->operands[o].right;
        f[o] =
            (fragment){.n = right ? p->columns : p->rows, .run = right ? p->run_columns : p->run_rows, .steps = steps};
        f[o].buf = sn_contract_local(b, right ? "fb" : "fa", c->dtype, SN_BUF_REG, f[o].n * steps, b->sc->block_x);
        put_loads(b, at, o, &f[o], x, q);
    }
    for (uint32_t i = 0; i < c->n_products; i++) put_product(b, at, &c->products[i], f, x);
}

/* ---- sums of several groups ---- */

/* Where sums of group `part` stand for the others: threads of a group are neighbours. */
static sn_ix given_at(sn_contract_binding *b, sn_ix part, sn_ix x, sn_ix h, sn_ix j, sn_ix v) {
    const sn_contract_plain *p = &b->plain;
    sn_ix number = sn_ix_fma(b->m, p->columns / p->run_columns, sn_ix_fma(b->m, p->rows, part, h), j);
    sn_ix thread = sn_ix_fma(b->m, group_of(p), number, sn_ix_modc(b->m, x, group_of(p)));
    return sn_ix_fma(b->m, p->run_columns, thread, v);
}

void sn_contract_plain_share(sn_contract_binding *b, sn_cursor at) {
    const sn_contract_plain *p = &b->plain;
    if (p->parts == 1) return;
    for (uint32_t i = 0; i < b->ct.c.n_states; i++) {
        sn_cursor in = at;
        b->given[i] = sn_contract_local(b, "given", b->ct.c.dtype, SN_BUF_SHARED, p->rows * p->columns * b->sc->block_x,
                                        b->sc->cluster);
        sn_ix x = sn_contract_loop(b, &in, "x", b->sc->block_x, SN_AXIS_BLOCK_X);
        sn_ix h = sn_contract_loop(b, &in, "h", p->rows, SN_AXIS_UNROLL);
        sn_ix j = sn_contract_loop(b, &in, "j", p->columns / p->run_columns, SN_AXIS_UNROLL);
        sn_ix v =
            p->run_columns > 1 ? sn_contract_loop(b, &in, "v", p->run_columns, SN_AXIS_VECTOR) : sn_ix_const(b->m, 0);
        sn_val sum = sn_put_load(b->m, in, b->states[i], element(b, x, h, j, v));
        sn_put_store(b->m, in, b->given[i], given_at(b, part_of(b, x), x, h, j, v), sum);
    }
}

sn_val sn_contract_plain_sum(sn_contract_binding *b, sn_cursor at, uint32_t i, sn_ix x, sn_ix h, sn_ix j, sn_ix v) {
    sn_val sum = {0};
    if (b->plain.parts == 1) return sn_put_load(b->m, at, b->states[i], element(b, x, h, j, v));
    for (int64_t part = 0; part < b->plain.parts; part++) {
        sn_ix from = given_at(b, sn_ix_const(b->m, part), x, end_row(b, x, h), end_run(b, x, j), v);
        sn_val y = sn_put_load(b->m, at, b->given[i], from);
        sum = part ? sn_put_op2(b->m, at, SN_LOP_ADD, sum, y) : y;
    }
    return sum;
}
