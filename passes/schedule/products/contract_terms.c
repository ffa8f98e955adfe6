/* contract_terms.c: products of f32 by terms of bfloat16, for class contract on GPUs.
 *
 *     2^23 * x = h + m + l,   x * y = 2^-46 * (hx*hy + hx*my + mx*hy + mx*my + hx*ly + lx*hy + less than 2^-24 of it)
 *
 * Each term is what bfloat16 has of the rest, so three of them are an f32. Threads take apart what boxes have brought:
 * the right operand to shared memory, which all warps read; the left one, of which a warp reads only its own rows, to
 * registers:
 *
 *     loop k : pipe { boxes   barrier   right terms
 *       left terms of the first piece   if (k mod run) in 1 { total += acc   acc = 0 }   barrier
 *       acc += l*h, h*l, m*m, m*h, h*m, h*h   left terms of the second piece   acc += ... }
 *
 * Shared memory and the instructions that make terms are what bounds such a kernel: registers save it the left terms.
 * While products of one piece are under way, the next one's terms are made; those of the right operand lie three times
 * in shared memory, since products of a step may still be under way in other warps when the next step begins, and are
 * over when its barrier has been passed.
 *
 * Tensor cores cut what they add to the length of the largest number, so sums stay short: that of a run of steps is
 * added to a total in f32, and small products come first. Sums of one or two terms that are not too long have no totals: terms leave
 * more than is cut off, and the registers make tiles larger. The scale makes every term of every f32 a normal bfloat16 or
 * 0: nothing depends on what tensor cores do with less. Two terms and three products (`high`) leave an error of 2^-15
 * of a product at most, one term that of bfloat16.
 */
#include "passes/base/constants.h"
#include "passes/schedule/products/contract_bind.h"
#include "passes/schedule/base/figures.h"

#include <math.h>

enum { SCALE = SN_TERMS_SCALE, VECTOR = 4, GROUP = 8 /* steps that change places */ };

static const sn_terms_pair PAIRS[SN_MOST_TERMS][SN_MOST_TERMS * (SN_MOST_TERMS + 1) / 2] = {
    {{0, 0}}, {{1, 0}, {0, 1}, {0, 0}}, {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}}};

sn_terms_pair sn_terms_pair_of(uint32_t n_terms, uint32_t i) { return PAIRS[n_terms - 1][i]; }

static bool is_scaled(const sn_contract_binding *b) { return b->n_terms > 1; }

/* ---- runs ---- */

bool sn_contract_has_totals(const sn_contract *ct) {
    double chain = (double)ct->c.k / sn_mmas[ct->mma].k * sn_terms_products(ct->n_terms);
    return ct->n_terms && (ct->n_terms == SN_MOST_TERMS || chain > SN_PRODUCT_LONGEST);
}

/* Steps of the sum, of those of the pipe, between two additions to the totals. */
static int64_t run_of(const sn_contract_binding *b) {
    int64_t step = b->sc->tile_k / sn_mmas[b->nest.mma].k * sn_terms_products(b->n_terms);
    return step < SN_PRODUCT_CHAIN ? SN_PRODUCT_CHAIN / step : 1;
}

/* ---- where terms lie ---- */

static bool is_right(const sn_contract_binding *b, uint32_t operand) { return b->ct.c.operands[operand].right; }

static int64_t size_of(const sn_contract_binding *b, uint32_t operand) {
    return sn_contract_rows(b, operand) * b->sc->tile_k;
}

/* Right term t in step k: lines of 128 bytes, or as long as a step. */
static sn_mma_operand layout(sn_contract_binding *b, uint32_t operand, uint32_t t, sn_ix k) {
    sn_buf buf = b->terms[operand][t];
    return (sn_mma_operand){.buf = buf,
                            .rows = sn_contract_rows(b, operand),
                            .width = sn_buf_get(b->m, buf)->swizzle / sn_dtype_bytes(SN_BF16),
                            .steps = b->sc->tile_k,
                            .across = b->across[operand],
                            .at = sn_ix_scale(b->m, sn_ix_modc(b->m, k, SN_TERMS_COPIES), size_of(b, operand))};
}

static int64_t vector_length(const sn_contract_binding *b, uint32_t operand) {
    return b->across[operand] ? SN_TERMS_ACROSS : SN_TERMS_ALONG;
}

/* Bytes of a line: as long as a step, or as a tile of few columns. */
static uint32_t line_of(const sn_contract_binding *b, uint32_t operand) {
    int64_t bytes = (b->across[operand] ? sn_contract_rows(b, operand) : b->sc->tile_k) * sn_dtype_bytes(SN_BF16);
    return bytes % SN_LINE ? SN_LINE / 2 : SN_LINE;
}

/* Vectors of an operand in a step. */
static int64_t vectors_of(const sn_contract_binding *b, uint32_t operand) {
    return size_of(b, operand) / vector_length(b, operand);
}

/* Threads have as many vectors each, but that some whole warps may have one more. */
bool sn_contract_fits_terms(const sn_contract_binding *b) {
    bool fits = true;
    for (uint32_t i = 0; i < b->ct.c.n_operands; i++) {
        int64_t columns = sn_contract_rows(b, i) * sn_dtype_bytes(SN_BF16), all = vectors_of(b, i);
        fits &= !is_right(b, i) || !b->across[i] || columns % line_of(b, i) == 0;
        fits &= !is_right(b, i) || all < b->nest.threads || all % b->nest.threads % SN_WARP == 0;
    }
    return fits;
}

static void make_right_terms(sn_contract_binding *b, uint32_t operand) {
    static const char *const NAMES[SN_MOST_TERMS] = {"right_h", "right_m", "right_l"};
    for (uint32_t t = 0; t < b->n_terms; t++) {
        b->terms[operand][t] = sn_contract_local(b, NAMES[t], SN_BF16, SN_BUF_SHARED,
                                                 SN_TERMS_COPIES * size_of(b, operand), b->sc->cluster);
        sn_buf_get(b->m, b->terms[operand][t])->swizzle = line_of(b, operand);
    }
}

void sn_contract_make_terms(sn_contract_binding *b) {
    for (uint32_t i = 0; i < b->ct.c.n_operands; i++)
        if (is_right(b, i)) make_right_terms(b, i);
}

/* ---- taking apart ---- */

void sn_terms_store(sn_module *m, sn_cursor at, sn_val x, uint32_t n_terms, const sn_buf *to, sn_ix offset) {
    sn_val rest = x;
    for (uint32_t t = 0; t < n_terms; t++) {
        sn_val term = sn_put_cast(m, at, SN_BF16, rest);
        sn_put_store(m, at, to[t], offset, term);
        if (t + 1 < n_terms) rest = sn_put_op2(m, at, SN_LOP_SUB, rest, sn_put_cast(m, at, SN_F32, term));
    }
}

sn_val sn_terms_scale(sn_module *m, sn_cursor at, sn_val x, uint32_t n_terms) {
    return n_terms > 1 ? sn_put_op2(m, at, SN_LOP_MUL, x, sn_put_const(m, at, SN_F32, ldexp(1, SCALE))) : x;
}

void sn_contract_store_terms(sn_contract_binding *b, sn_cursor at, sn_val x, const sn_buf *to, sn_ix offset) {
    sn_terms_store(b->m, at, sn_terms_scale(b->m, at, x, b->n_terms), b->n_terms, to, offset);
}

/* ---- the right operand ---- */

/* A thread's vectors: neighbours along the line, as many as change places. They pass through registers, so that all are
 * loaded before the first one is taken apart. */
typedef struct vectors {
    sn_buf held;
    sn_ix x;
    int64_t length, each; /* of a vector; of a thread */
    int64_t from, all;    /* number of the first one; how many: threads beyond them have none */
} vectors;

/* Row and place among the steps of element e of vector u. Two lines that half a warp stores are 4 apart, where they lie
 * across: then the permutation of lines has them in different banks. */
static void place_of(sn_contract_binding *b, uint32_t operand, const vectors *of, sn_ix u, sn_ix e, sn_ix *row,
                     sn_ix *p) {
    sn_module *m = b->m;
    int64_t width = SN_LINE / sn_dtype_bytes(SN_F32), depth = b->sc->tile_k;
    sn_ix number = sn_ix_addc(m, sn_ix_modc(m, sn_ix_fma(m, b->nest.threads, u, of->x), of->all), of->from);
    if (!b->across[operand]) {
        *row = sn_ix_divc(m, number, depth / of->length);
        *p = sn_ix_fma(b->m, of->length, sn_ix_modc(m, number, depth / of->length), e);
        return;
    }
    sn_ix line = sn_ix_divc(m, number, width / of->length), block = sn_ix_divc(m, line, depth);
    sn_ix in = sn_ix_fma(b->m, of->length, sn_ix_modc(m, number, width / of->length), e);
    *row = sn_ix_fma(b->m, width, block, in);
    sn_ix in_group = sn_ix_modc(m, line, GROUP), group = sn_ix_divc(m, sn_ix_modc(m, line, depth), GROUP);
    in_group = sn_ix_fma(b->m, GROUP / 2, sn_ix_modc(m, in_group, 2), sn_ix_divc(m, in_group, 2));
    *p = sn_ix_fma(b->m, GROUP, group, in_group);
}

/* Register of element e of vector u. */
static sn_ix held_at(sn_contract_binding *b, const vectors *of, sn_ix u, sn_ix e) {
    sn_ix thread = sn_ix_fma(b->m, b->nest.threads, b->nest.rank, of->x);
    return sn_ix_fma(b->m, of->length * of->each, thread, sn_ix_fma(b->m, of->length, u, e));
}

/* As memory has them: along the sum the step of place e is that of the line's vector at e. */
static void hold_vectors(sn_contract_binding *b, sn_cursor at, uint32_t operand, const vectors *of) {
    sn_ix row, p, u = sn_contract_loop(b, &at, "u", of->each, SN_AXIS_UNROLL);
    sn_ix w = sn_contract_loop(b, &at, "w", of->length / VECTOR, SN_AXIS_UNROLL);
    sn_ix v = sn_contract_loop(b, &at, "v", VECTOR, SN_AXIS_VECTOR), e = sn_ix_fma(b->m, VECTOR, w, v);
    place_of(b, operand, of, u, e, &row, &p);
    sn_val x = sn_contract_raw(b, at, operand, row, b->across[operand] ? sn_contract_step_at(b, p) : p);
    sn_put_store(b->m, at, of->held, held_at(b, of, u, e), x);
}

static void put_vectors(sn_contract_binding *b, sn_cursor at, uint32_t operand, const vectors *of, sn_ix k) {
    sn_ix row, p, u = sn_contract_loop(b, &at, "u", of->each, SN_AXIS_UNROLL);
    sn_ix v = sn_contract_loop(b, &at, "v", of->length, SN_AXIS_VECTOR);
    place_of(b, operand, of, u, v, &row, &p);
    sn_val x = sn_put_load(b->m, at, of->held, held_at(b, of, u, b->across[operand] ? v : sn_contract_step_at(b, v)));
    sn_mma_operand first = layout(b, operand, 0, k);
    sn_ix offset = sn_mma_offset(b->m, &first, first.steps, row, p);
    sn_contract_store_terms(b, at, x, b->terms[operand], sn_shared_of_rank(b->m, first.buf, b->nest.rank, offset));
}

/* So many vectors, from number `from` on. */
static void take_vectors_apart(sn_contract_binding *b, sn_cursor at, uint32_t operand, sn_ix k, int64_t from,
                               int64_t n) {
    int64_t threads = b->nest.threads, length = vector_length(b, operand);
    vectors of = {.length = length, .each = n < threads ? 1 : n / threads, .from = from, .all = n};
    of.held = sn_contract_local(b, "held", SN_F32, SN_BUF_REG, length * of.each, threads * b->sc->cluster);
    of.x = sn_contract_loop(b, &at, "x", threads, SN_AXIS_BLOCK_X);
    if (n < threads) at = sn_at_end(b->k, sn_put_if(b->m, at, of.x, sn_ix_const(b->m, n)));
    hold_vectors(b, at, operand, &of);
    put_vectors(b, at, operand, &of, k);
}

/* What all threads have as much of, and the rest. */
static void take_right_apart(sn_contract_binding *b, sn_cursor at, uint32_t operand, sn_ix k) {
    int64_t all = vectors_of(b, operand), rest = all % b->nest.threads;
    if (all > rest) take_vectors_apart(b, at, operand, k, 0, all - rest);
    if (rest) take_vectors_apart(b, at, operand, k, all - rest, rest);
}

/* ---- sums ---- */

/* What products have added up, without their scale. With the addition to a total it is one instruction, as that alone would be. */
static sn_val put_unscaled(sn_contract_binding *b, sn_cursor at, sn_buf sums, sn_ix e) {
    sn_val sum = sn_put_load(b->m, at, sums, e);
    if (!is_scaled(b)) return sum;
    return sn_put_op2(b->m, at, SN_LOP_MUL, sum, sn_put_const(b->m, at, SN_F32, ldexp(1, -2 * SCALE)));
}

static void add_to_totals(sn_contract_binding *b, sn_cursor at) {
    sn_module *m = b->m;
    int64_t own = sn_mma_private(&b->nest);
    sn_ix x = sn_contract_loop(b, &at, "x", b->nest.threads, SN_AXIS_BLOCK_X);
    sn_ix e = sn_contract_loop(b, &at, "e", own, SN_AXIS_UNROLL);
    e = sn_ix_fma(b->m, own, sn_ix_fma(b->m, b->nest.threads, b->nest.rank, x), e);
    for (uint32_t i = 0; i < b->ct.c.n_states; i++) {
        sn_val total = sn_put_load(m, at, b->totals[i], e), acc = put_unscaled(b, at, b->states[i], e);
        sn_put_store(m, at, b->totals[i], e, sn_put_op2(m, at, SN_LOP_ADD, total, acc));
    }
}

static void put_products(sn_contract_binding *b, sn_cursor at, int64_t piece, sn_ix k) {
    const sn_contraction *c = &b->ct.c;
    for (uint32_t i = 0; i < sn_terms_products(b->n_terms); i++)
        for (uint32_t p = 0; p < c->n_products; p++) {
            sn_terms_pair terms = sn_terms_pair_of(b->n_terms, i);
            sn_mma_nest nest = sn_contract_piece(b);
            nest.state = b->states[c->products[p].state];
            nest.a =
                (sn_mma_operand){.buf = b->fragments[c->products[p].left][piece][terms.left], .in_registers = true};
            nest.b = layout(b, c->products[p].right, terms.right, k);
            sn_contract_choose_piece(b, &nest.b, piece);
            sn_mma_put(b->m, at, &nest);
        }
}

/* Where a run begins; in front of a barrier, where threads wait for each other anyway. The first one is a step shorter: it begins with
 * the sums, when there is nothing to be added yet. */
static void begin_run(sn_contract_binding *b, sn_cursor at, sn_ix k) {
    int64_t run = run_of(b), steps = sn_ix_range(b->m, k).hi + 1;
    if (!sn_contract_has_totals(&b->ct) || steps <= run) return;
    sn_ix before = sn_ix_addc(b->m, sn_ix_modc(b->m, k, run), 1 - run);
    at = sn_at_end(b->k, sn_put_if(b->m, at, before, sn_ix_const(b->m, 1)));
    add_to_totals(b, at);
    for (uint32_t i = 0; i < b->ct.c.n_states; i++) sn_contract_zero(b, at, b->states[i]);
}

void sn_contract_put_terms(sn_contract_binding *b, sn_cursor at, sn_ix k) {
    for (uint32_t i = 0; i < b->ct.c.n_operands; i++)
        if (is_right(b, i)) take_right_apart(b, at, i, k);
    for (int64_t piece = 0; piece < SN_PIECES; piece++) {
        for (uint32_t i = 0; i < b->ct.c.n_operands; i++)
            if (!is_right(b, i)) sn_contract_load_left(b, at, i, piece);
        if (piece == 0) begin_run(b, at, k);
        if (piece == 0) sn_put_barrier(b->m, at);
        put_products(b, at, piece, k);
    }
}

/* ---- sums that terms cannot give ---- */

sn_ix sn_terms_test(sn_module *m, sn_cursor at, sn_val bad) {
    return sn_ix_val(m, sn_put_cast(m, at, SN_I32, sn_put_op1(m, at, SN_LOP_NOT, bad)));
}

sn_val sn_terms_bad(sn_module *m, sn_cursor at, sn_val sum, int scale) {
    enum { LARGEST = 126 };
    sn_val most = sn_put_const(m, at, SN_F32, ldexp(1, LARGEST + scale));
    sn_val good = sn_put_op2(m, at, SN_LOP_LT, sn_put_op1(m, at, SN_LOP_ABS, sum), most);
    return sn_put_op1(m, at, SN_LOP_NOT, good);
}

/* Element `from` of the operand at a place. */
static sn_val put_element(sn_contract_binding *b, sn_cursor at, uint32_t operand, const sn_contraction_place *place) {
    sn_contraction_copier p;
    sn_contraction_copier_start(&p, b->ct.cx, at, b->n_vals);
    p.n = sn_contraction_axes(p.axes, p.with, b->m, &b->ct.c, place);
    p.mask = sn_contract_and(b, at, (sn_val){0}, b->split > 1 && b->edge_k, place->step, b->ct.c.k);
    p.mask = sn_contract_in_channels(&b->ct, at, p.mask, p.axes, p.with, p.n);
    return sn_contraction_copy(&p, sn_stmt_get(b->m, b->ct.c.operands[operand].load)->result);
}

/* Sums that are computed once more, of a thread: those of one block of rows and columns at a time, so that what is loaded for a step
 * serves all of them. Registers cannot be numbered at run time: all totals pass through an array that can, and registers have those of
 * the block. More of them at a time would share more loads, and be more code, which is compiled for each kernel and hardly ever runs. */
typedef struct again {
    uint32_t state;
    sn_buf spare;       /* array of all totals */
    sn_buf old, sums;   /* of the block: as they were, and once more */
    sn_buf part;        /* of those in a run of steps: rounding grows with the number of terms */
    sn_buf left, right; /* its operands in `steps` steps */
    sn_ix x;            /* the thread */
    sn_ix h, j;         /* block of rows, and of columns */
    int64_t steps, all; /* steps whose loads go together; those of the block's part of the sum */
} again;

static int64_t elements_of(const sn_contract_binding *b) { return sn_mma_elements(b->nest.mma); }

/* Register q of n that thread x has. */
static sn_ix own_at(const sn_contract_binding *b, const again *a, int64_t n, sn_ix q) {
    return sn_ix_fma(b->m, n, sn_ix_fma(b->m, b->nest.threads, b->nest.rank, a->x), q);
}

/* Opens a loop over the sums of the block, and gives the register that has the one it is at. */
static sn_ix open_block(sn_contract_binding *b, sn_cursor *at, const again *a) {
    return own_at(b, a, elements_of(b), sn_contract_loop(b, at, "e", elements_of(b), SN_AXIS_UNROLL));
}

/* 0 for `if` where a sum of the block is bad and, what is computed of it, no nan yet: nothing else comes of one that is. */
static sn_ix put_goes_on(sn_contract_binding *b, sn_cursor at, const again *a, bool begun) {
    static const sn_comb ANY[] = {SN_COMB_ANY};
    static const sn_dtype boolean = SN_BOOL;
    sn_module *m = b->m;
    sn_axis ax = sn_axis_new(m, "e", sn_ix_const(m, elements_of(b)));
    sn_stmt any = sn_put_reduce(m, at, ax, SN_AXIS_UNROLL, ANY, 1, &boolean);
    sn_cursor in = sn_at_end(b->k, any);
    sn_ix e = own_at(b, a, elements_of(b), sn_ix_axis(m, ax));
    sn_val bad = sn_terms_bad(m, in, sn_put_load(m, in, a->old, e), -2 * SCALE);
    if (begun) {
        sn_val sum = sn_put_load(m, in, a->sums, e);
        bad = sn_put_op2(m, in, SN_LOP_AND, bad, sn_put_op2(m, in, SN_LOP_EQ, sum, sum));
    }
    sn_put_yield(m, in, &bad, 1);
    return sn_terms_test(m, at, sn_stmt_get(m, any)->result);
}

/* Rows of a block (two, or one of 8), or columns. */
static int64_t lines_of(const sn_contract_binding *b, bool right) { return right ? 2 : elements_of(b) / 2; }

/* Does it come by pairs of columns, which are neighbours? Else by steps. */
static bool by_pairs(const sn_contract_binding *b, uint32_t operand) {
    return is_right(b, operand) && b->across[operand];
}

/* Register of line i in step u, so that what is loaded together lies together. */
static sn_ix operand_at(sn_contract_binding *b, const again *a, uint32_t operand, sn_ix i, sn_ix u) {
    int64_t n = lines_of(b, is_right(b, operand));
    sn_ix q = by_pairs(b, operand) ? sn_ix_fma(b->m, n, u, i) : sn_ix_fma(b->m, a->steps, i, u);
    return own_at(b, a, n * a->steps, q);
}

/* Row of line i of the left operand. */
static sn_ix row_again(sn_contract_binding *b, const again *a, sn_ix i) {
    sn_ix row = sn_mma_row(b->m, &b->nest, a->x, a->h, sn_ix_scale(b->m, i, 2));
    return sn_contract_inside(b, b->edge_m, sn_ix_add(b->m, b->row, row), b->ct.c.m);
}

/* Column of line i of the right one. There are as many pairs of columns as there are, where they lie side by side: boxes want that. */
static sn_ix column_again(sn_contract_binding *b, const again *a, sn_ix i) {
    sn_module *m = b->m;
    bool even = b->ct.c.n % 2 == 0;
    sn_ix column = sn_mma_column(m, &b->nest, a->x, a->j, even ? sn_ix_const(m, 0) : i);
    column = sn_contract_inside(b, b->edge_n, sn_ix_add(m, b->column, column), b->ct.c.n - even);
    return even ? sn_ix_add(m, column, i) : column;
}

/* Rows or columns of the block in the steps from `step` on. */
static void load_again(sn_contract_binding *b, sn_cursor at, const again *a, uint32_t operand, sn_ix step) {
    sn_module *m = b->m;
    bool right = is_right(b, operand), pairs = by_pairs(b, operand);
    sn_axis_kind steps = !b->across[operand] && a->steps > 1 ? SN_AXIS_VECTOR : SN_AXIS_UNROLL;
    int64_t lines = lines_of(b, right);
    sn_ix u = {0}, i, zero = sn_ix_const(m, 0);
    if (pairs) u = sn_contract_loop(b, &at, "u", a->steps, SN_AXIS_UNROLL);
    i = sn_contract_loop(b, &at, right ? "c" : "r", lines, pairs ? SN_AXIS_VECTOR : SN_AXIS_UNROLL);
    if (!pairs) u = sn_contract_loop(b, &at, "u", a->steps, steps);
    sn_contraction_place place = {b->batch, row_again(b, a, right ? zero : i), column_again(b, a, right ? i : zero),
                                  sn_ix_fma(m, a->all, b->part, sn_ix_add(m, step, u))};
    sn_val value = put_element(b, at, operand, &place);
    sn_put_store(m, at, right ? a->right : a->left, operand_at(b, a, operand, i, u), value);
}

/* `steps` steps of all sums of the block, in order. */
static void add_again(sn_contract_binding *b, sn_cursor at, const again *a, sn_ix step) {
    sn_module *m = b->m;
    const sn_contraction *c = &b->ct.c;
    for (uint32_t p = 0; p < c->n_products; p++) {
        if (c->products[p].state != a->state) continue;
        load_again(b, at, a, c->products[p].left, step);
        load_again(b, at, a, c->products[p].right, step);
        sn_cursor in = at;
        sn_ix u = sn_contract_loop(b, &in, "u", a->steps, SN_AXIS_UNROLL);
        sn_ix e = sn_contract_loop(b, &in, "e", elements_of(b), SN_AXIS_UNROLL), own = own_at(b, a, elements_of(b), e);
        sn_val x = sn_put_load(m, in, a->left, operand_at(b, a, c->products[p].left, sn_ix_divc(m, e, 2), u));
        sn_val y = sn_put_load(m, in, a->right, operand_at(b, a, c->products[p].right, sn_ix_modc(m, e, 2), u));
        sn_val sum = sn_put_load(m, in, a->part, own), product = sn_put_op2(m, in, SN_LOP_MUL, x, y);
        sn_put_store(m, in, a->part, own, sn_put_op2(m, in, SN_LOP_ADD, sum, product));
    }
}

static void clear_again(sn_contract_binding *b, sn_cursor at, const again *a, sn_buf sums) {
    sn_ix e = open_block(b, &at, a);
    sn_put_store(b->m, at, sums, e, sn_put_const(b->m, at, SN_F32, 0));
}

static void add_part(sn_contract_binding *b, sn_cursor at, const again *a) {
    sn_module *m = b->m;
    sn_ix e = open_block(b, &at, a);
    sn_val sum = sn_put_load(m, at, a->sums, e), part = sn_put_load(m, at, a->part, e);
    sn_put_store(m, at, a->sums, e, sn_put_op2(m, at, SN_LOP_ADD, sum, part));
}

/* Between the block's registers and its places among all totals. */
static sn_ix open_spare(sn_contract_binding *b, sn_cursor *at, const again *a, sn_ix *own) {
    sn_ix e = sn_contract_loop(b, at, "e", elements_of(b), SN_AXIS_UNROLL);
    *own = own_at(b, a, elements_of(b), e);
    return sn_mma_element(b->m, &b->nest, a->x, a->h, a->j, e);
}

/* The sums of the block, or the parts of them that are the thread block's, as f32 has them, take the places of the bad ones. */
static void redo_block(sn_contract_binding *b, sn_cursor at, const again *a) {
    sn_module *m = b->m;
    int64_t turns = a->all / a->steps, run = turns < SN_PRODUCT_AGAIN ? turns : SN_PRODUCT_AGAIN;
    clear_again(b, at, a, a->sums);
    sn_cursor in = at;
    sn_ix r = sn_contract_loop(b, &in, "r", sn_ceil_div(turns, run), SN_AXIS_SEQ);
    in = sn_at_end(b->k, sn_put_if(m, in, put_goes_on(b, in, a, true), sn_ix_const(m, 1)));
    clear_again(b, in, a, a->part);
    sn_cursor steps = in;
    r = sn_ix_fma(m, run, r, sn_contract_loop(b, &steps, "r", run, SN_AXIS_SEQ));
    if (turns % run) steps = sn_at_end(b->k, sn_put_if(m, steps, r, sn_ix_const(m, turns)));
    add_again(b, steps, a, sn_ix_scale(m, r, a->steps));
    add_part(b, in, a);
    sn_ix own, spare = open_spare(b, &at, a, &own);
    sn_val old = sn_put_load(m, at, a->old, own), sum = sn_put_load(m, at, a->sums, own);
    sn_val bad = sn_terms_bad(m, at, old, -2 * SCALE);
    sn_put_store(m, at, a->spare, spare, sn_put_op3(m, at, SN_LOP_SELECT, bad, sum, old));
}

static sn_buf again_registers(sn_contract_binding *b, const char *name, int64_t n) {
    return sn_contract_local(b, name, SN_F32, SN_BUF_REG, n, (int64_t)b->nest.threads * b->sc->cluster);
}

static again start_again(sn_contract_binding *b, uint32_t state, sn_buf spare, sn_ix x) {
    enum { STEPS = 4 }; /* 16 bytes of a line */
    int64_t step = (int64_t)b->sc->tile_k * b->split;
    again a = {.state = state, .spare = spare, .x = x};
    a.all = b->split > 1 ? (b->ct.c.k + step - 1) / step * b->sc->tile_k : b->ct.c.k;
    a.steps = sn_least(STEPS, sn_pow2_divisor(a.all));
    a.old = again_registers(b, "again_old", elements_of(b));
    a.sums = again_registers(b, "again", elements_of(b));
    a.part = again_registers(b, "again_part", elements_of(b));
    a.left = again_registers(b, "again_left", a.steps * lines_of(b, false));
    a.right = again_registers(b, "again_right", a.steps * lines_of(b, true));
    return a;
}

static void redo(sn_contract_binding *b, sn_cursor at, uint32_t state, sn_buf spare, sn_ix x) {
    sn_module *m = b->m;
    int64_t all = sn_mma_private(&b->nest);
    again a = start_again(b, state, spare, x);
    sn_cursor in = at;
    sn_ix own, e = own_at(b, &a, all, sn_contract_loop(b, &in, "e", all, SN_AXIS_UNROLL));
    sn_put_store(m, in, spare, e, sn_put_load(m, in, sn_contract_sums(b, state), e));
    sn_cursor block = at;
    a.h = sn_contract_loop(b, &block, "h", b->nest.tiles_m, SN_AXIS_SEQ);
    a.j = sn_contract_loop(b, &block, "j", b->nest.tiles_n, SN_AXIS_SEQ);
    in = block;
    e = open_spare(b, &in, &a, &own);
    sn_put_store(m, in, a.old, own, sn_put_load(m, in, spare, e));
    redo_block(b, sn_at_end(b->k, sn_put_if(m, block, put_goes_on(b, block, &a, false), sn_ix_const(m, 1))), &a);
    in = at;
    e = own_at(b, &a, all, sn_contract_loop(b, &in, "e", all, SN_AXIS_UNROLL));
    sn_put_store(m, in, sn_contract_sums(b, state), e, sn_put_load(m, in, spare, e));
}

/* Sums that have no totals lose their scale. One that was not below 2^80 may be none: the thread that has it adds up the products
 * themselves. */
static void check_sums(sn_contract_binding *b, sn_cursor at, uint32_t state) {
    static const sn_comb MOST[] = {SN_COMB_MAX}; /* one instruction for each; nan where one is */
    static const sn_dtype f32 = SN_F32;
    sn_module *m = b->m;
    int64_t own = sn_mma_private(&b->nest);
    sn_buf sums = sn_contract_sums(b, state);
    sn_buf spare = sn_contract_local(b, "spare", SN_F32, SN_BUF_REG, own, (int64_t)b->nest.threads * b->sc->cluster);
    sn_ix x = sn_contract_loop(b, &at, "x", b->nest.threads, SN_AXIS_BLOCK_X);
    sn_ix thread = sn_ix_fma(b->m, b->nest.threads, b->nest.rank, x);
    sn_cursor in = at;
    if (!sn_contract_has_totals(&b->ct)) {
        sn_ix offset = sn_ix_fma(b->m, own, thread, sn_contract_loop(b, &in, "e", own, SN_AXIS_UNROLL));
        sn_put_store(m, in, sums, offset, put_unscaled(b, in, sums, offset));
    }
    sn_axis e = sn_axis_new(m, "e", sn_ix_const(m, own));
    sn_stmt most = sn_put_reduce(m, at, e, SN_AXIS_UNROLL, MOST, 1, &f32);
    in = sn_at_end(b->k, most);
    sn_ix offset = sn_ix_fma(b->m, own, thread, sn_ix_axis(m, e));
    sn_val size = sn_put_op1(m, in, SN_LOP_ABS, sn_put_load(m, in, sums, offset));
    sn_put_yield(m, in, &size, 1);
    sn_ix test = sn_terms_test(m, at, sn_terms_bad(m, at, sn_stmt_get(m, most)->result, -2 * SCALE));
    redo(b, sn_at_end(b->k, sn_put_if(m, at, test, sn_ix_const(m, 1))), state, spare, x);
}

void sn_contract_finish_terms(sn_contract_binding *b, sn_cursor at) {
    if (sn_contract_has_totals(&b->ct)) add_to_totals(b, at);
    for (uint32_t i = 0; i < b->ct.c.n_states && is_scaled(b); i++) check_sums(b, at, i);
}
