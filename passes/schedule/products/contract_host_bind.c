/* contract_host_bind.c: binding of class contract on the CPU.
 *
 *     loop g : grid {                                          tiles, which threads share
 *       loop p {                                               parts of the sum
 *         loop i { loop q { loop v : vector { store left[..], a(i, W*q + v) } } }
 *         loop q { loop j { loop v : vector { store right[..], b(j, q) } } }
 *         loop jb { loop ib {                                  blocks: rows * width sums, in registers
 *           loop r { ..  loop q in 64 { loop i : unroll { loop j : unroll { loop v : vector {
 *             acc[i, j, v] += left[i, q] * right[q, j, v] } } } }  .. }
 *         } }
 *       }
 *       loop jb { loop ib { loop i { loop j { loop v : vector { the rest of the body, from what was added up } } } } }
 *     }
 *
 * Where the plan has a depth, vectors lie along the sum: acc[i, j, v] += left[i, W*q + v] * right[j, W*q + v], and the
 * lanes of acc are added up behind each run; the steps that no vector has are a run without lanes.
 *
 * Panels hold what the operands are, prologues included, so that no element is computed for every block anew. Blocks and
 * tiles that would reach over the end begin earlier, so that nothing is masked but the stores of what was stored before.
 * Registers take in RUN steps; what they hold is added to sums in memory, of which each takes in RUN terms too, so that
 * long sums are as exact as short ones. A product whose sum is one part stores each block as soon as it is complete.
 */
#include "passes/schedule/products/contract_host.h"
#include "passes/schedule/base/host_bind.h"
#include "passes/schedule/base/schedules.h"

enum { RUN = SN_CONTRACT_RUN, MOST_SUMS = 12 };

typedef struct binder {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    const sn_contraction *c;
    const sn_contract_plan *p;
    const sn_stmt_vec *body;   /* what stood in the innermost outer loop */
    uint32_t n_vals;           /* of the module, before anything was made */
    sn_ix batch, row, column;  /* the tile: product, first row and column ... */
    sn_ix old_row, old_column; /* ... and where it would begin if it might reach over the end */
    int64_t blocks_m, blocks_n;
    sn_buf panel[SN_MOST_OPERANDS];
    sn_buf registers, rest; /* sums of a run, and of the steps of a part that no vector has */
    sn_buf block;           /* sums of the runs of a part */
    sn_buf sums[MOST_SUMS]; /* of a tile: of the parts, of RUN of those, ... */
    sn_buf taken; /* of each row or column of the tile: what its words lack (contract_words.h); none: nothing */
    uint32_t n_sums;
    bool direct; /* what registers hold is what the rest of the body reads */
} binder;

/* Rows ib or columns jb of a block, counted from the start of the tile, and the first of them. */
typedef struct block {
    sn_ix ib, jb, row, column;
} block;

/* ---- small pieces ---- */

static sn_buf new_local(binder *b, const char *suffix, sn_buf_scope scope, int64_t elements) {
    return sn_host_local(b->m, b->k, suffix, b->p->dtype, scope, elements);
}

/* ---- statements of the kernel at another place ---- */

/* At row, column and step of the sum; none: not asked for. */
static sn_contraction_copier place_at(binder *b, sn_cursor at, sn_ix row, sn_ix column, sn_ix step) {
    sn_ix zero = sn_ix_const(b->m, 0);
    sn_contraction_place where = {b->batch, row.i ? row : zero, column.i ? column : zero, step.i ? step : zero};
    sn_contraction_copier p;
    sn_contraction_copier_start(&p, b->cx, at, b->n_vals);
    p.n = sn_contraction_axes(p.axes, p.with, b->m, b->c, &where);
    return p;
}

/* ---- operands ---- */

/* step: of the graph, not one of words. */
static sn_val put_element(binder *b, sn_cursor at, uint32_t o, sn_ix side, sn_ix step, sn_val mask) {
    const sn_contraction_operand *op = &b->c->operands[o];
    sn_ix none = {0};
    sn_contraction_copier p = place_at(b, at, op->right ? none : side, op->right ? side : none, step);
    p.mask = mask;
    return sn_put_cast(b->m, at, b->p->dtype, sn_contraction_copy(&p, op->value));
}

/* Of a word: what is taken from bytes without a sign is taken here; behind the end of the sum are zeros. */
static sn_val put_part_of_word(binder *b, sn_cursor at, uint32_t o, sn_ix side, sn_ix step) {
    sn_module *m = b->m;
    const sn_contract_words *w = &b->p->words;
    bool ragged = b->c->k % w->steps, taken = w->low && b->c->operands[o].right == w->right_unsigned;
    sn_val mask = ragged ? sn_put_mask_in(m, at, (sn_val){0}, step, b->c->k) : (sn_val){0};
    sn_val x = put_element(b, at, o, side, step, mask);
    if (taken) x = sn_put_op2(m, at, SN_LOP_SUB, x, sn_put_const_int(m, at, SN_I32, w->low));
    return mask.i ? sn_put_op3(m, at, SN_LOP_SELECT, mask, x, sn_put_const_int(m, at, SN_I32, 0)) : x;
}

/* The operand of row or column `side`: an element, or as many steps as a word has, the first one in its low bits. */
static sn_val put_operand(binder *b, sn_cursor at, uint32_t o, sn_ix side, sn_ix step) {
    sn_module *m = b->m;
    int64_t steps = b->p->words.steps, bits = SN_WORD_BYTES * 8 / steps;
    if (steps == 1) return put_element(b, at, o, side, step, (sn_val){0});
    sn_val word = {0}, mask = sn_put_const_int(m, at, SN_I32, (1 << bits) - 1);
    for (int64_t i = 0; i < steps; i++) {
        sn_val x = put_part_of_word(b, at, o, side, sn_ix_addc(m, sn_ix_scale(m, step, steps), i));
        if (i + 1 < steps) x = sn_put_op2(m, at, SN_LOP_AND, x, mask);
        if (i) x = sn_put_op2(m, at, SN_LOP_SHL, x, sn_put_const_int(m, at, SN_I32, i * bits));
        word = i ? sn_put_op2(m, at, SN_LOP_OR, word, x) : x;
    }
    return word;
}

/* Is the panel made of rows, or of columns, whose elements along the sum lie next to each other? */
static bool is_long(const binder *b, uint32_t o) {
    if (b->c->operands[o].right) return b->p->depth > 1;
    return b->p->depth > 1 || b->p->panel[o] == SN_PANEL_ALONG;
}

static bool packs_lines(const binder *b, uint32_t o) { return sn_contract_packs_lines(b->p, b->c, o); }

/* Are the columns of each block by themselves? */
static bool is_blocked(const binder *b, uint32_t o) {
    return b->c->operands[o].right && !is_long(b, o) && !packs_lines(b, o);
}

/* From one row of a panel to the next, from one step, or from the columns of one block: an odd number of lines, or those
 * of a column would all fall on one place of the cache. */
static int64_t pitch(const binder *b, uint32_t o) {
    const sn_contract_plan *p = b->p;
    int64_t line = SN_HOST_LINE / sn_dtype_bytes(p->dtype);
    int64_t across = b->c->operands[o].right ? p->tile_n : p->tile_m;
    int64_t n = is_long(b, o) ? p->tile_k : is_blocked(b, o) ? p->tile_k * p->width : across;
    return ((n + line - 1) / line | 1) * line;
}

static int64_t panel_size(const binder *b, uint32_t o) {
    bool right = b->c->operands[o].right;
    if (is_long(b, o)) return pitch(b, o) * (right ? b->p->tile_n : b->p->tile_m);
    return pitch(b, o) * (is_blocked(b, o) ? b->blocks_n : b->p->tile_k);
}

/* Element (row or column of the tile, step of the part). Columns of a right panel that is not long are those of block
 * jb. */
static sn_ix in_panel(binder *b, uint32_t o, sn_ix jb, sn_ix side, sn_ix step) {
    if (is_long(b, o)) return sn_ix_fma(b->m, pitch(b, o), side, step);
    if (!is_blocked(b, o)) return sn_ix_fma(b->m, pitch(b, o), step, side);
    return sn_ix_fma(b->m, pitch(b, o), jb, sn_ix_fma(b->m, b->p->width, step, side));
}

/* Of a vector that is packed: where a side has several axes, none crosses from one of their iterations into the next,
 * unless only short ones would not. */
static int64_t panel_lanes(const binder *b, bool right, bool along) {
    const sn_contraction *c = b->c;
    int64_t widest = b->cx->target->vector_bytes / sn_dtype_bytes(b->p->dtype);
    int64_t whole =
        along ? sn_contract_whole_lanes(c->k_extent, NULL, c->inner.n, SN_SIDE_M, widest)
              : sn_contract_whole_lanes(c->extent, c->side, c->outer.n, right ? SN_SIDE_N : SN_SIDE_M, widest);
    return whole * 4 >= widest ? whole : widest;
}

/* Columns of the tile line by line, so that no vector goes on in the next line. */
static sn_ix open_lines(binder *b, sn_cursor *at, int64_t n) {
    int64_t line = b->p->line, widest = b->cx->target->vector_bytes / sn_dtype_bytes(b->p->dtype);
    sn_ix first = sn_ix_scale(b->m, sn_open_loop(b->m, at, "l", n / line, SN_AXIS_SEQ), line);
    return sn_ix_add(b->m, first, sn_host_vectors(b->m, at, line, sn_contract_line_lanes(line, widest)));
}

/* Elements are read by vectors, in the order in which they lie; they become neighbours in the panel, or do not. */
static void put_panel(binder *b, sn_cursor at, uint32_t o, sn_ix first, int64_t steps) {
    const sn_contract_plan *p = b->p;
    bool right = b->c->operands[o].right, along = p->panel[o] == SN_PANEL_ALONG, blocks = is_blocked(b, o);
    int64_t n = blocks ? p->width : right ? p->tile_n : p->tile_m;
    int64_t lanes = panel_lanes(b, right, along);
    sn_ix zero = sn_ix_const(b->m, 0), jb = zero, side, step, start = right ? b->column : b->row;
    if (!along) step = sn_open_loop(b->m, &at, "k", steps, SN_AXIS_SEQ);
    if (blocks) jb = sn_open_loop(b->m, &at, "jb", b->blocks_n, SN_AXIS_SEQ);
    if (blocks) start = sn_ix_add(b->m, start, sn_host_start(b->m, jb, p->width, p->tile_n));
    if (along) side = sn_open_loop(b->m, &at, "i", n, SN_AXIS_SEQ);
    else if (packs_lines(b, o)) side = open_lines(b, &at, n);
    else side = sn_host_vectors(b->m, &at, n, lanes);
    if (along) step = sn_host_vectors(b->m, &at, steps, lanes);
    sn_ix place = sn_ix_add(b->m, start, side);
    sn_val x = put_operand(b, at, o, place, sn_ix_add(b->m, first, step));
    sn_put_store(b->m, at, b->panel[o], in_panel(b, o, jb, side, step), x);
}

/* ---- sums ---- */

/* The elements of a block: loops over them at *at. */
typedef struct element {
    sn_ix i, j; /* row and column in the block */
} element;

static element open_block(binder *b, sn_cursor *at, sn_axis_kind kind) {
    element e;
    e.i = sn_open_loop(b->m, at, "i", b->p->rows, kind);
    e.j = sn_ix_scale(b->m, sn_open_loop(b->m, at, "j", b->p->vectors, kind), b->p->lanes);
    e.j = sn_ix_add(b->m, e.j, sn_open_loop(b->m, at, "v", b->p->lanes, SN_AXIS_VECTOR));
    return e;
}

/* Its place among the sums of state s in registers, or in memory that has those of a block. */
static sn_ix in_block(binder *b, uint32_t s, element e) {
    return sn_ix_addc(b->m, sn_ix_fma(b->m, b->p->width, e.i, e.j), s * b->p->rows * b->p->width);
}

/* ... in memory that has those of a tile. */
static sn_ix in_tile(binder *b, uint32_t s, const block *at, element e) {
    int64_t size = b->c->n_states * b->p->rows * b->p->width;
    return sn_ix_fma(b->m, size, sn_ix_fma(b->m, b->blocks_m, at->jb, at->ib), in_block(b, s, e));
}

static void put_zeros(binder *b, sn_cursor cursor, sn_buf to) {
    sn_ix e = sn_host_vectors(b->m, &cursor, sn_buf_get(b->m, to)->private_size, b->p->lanes);
    sn_put_store(b->m, cursor, to, e, sn_put_const(b->m, cursor, b->p->dtype, 0));
}

/* The sums of a block are added to those of a tile. */
static void put_sums(binder *b, sn_cursor cursor, sn_buf to, const block *at, sn_buf from) {
    sn_module *m = b->m;
    element e = open_block(b, &cursor, SN_AXIS_SEQ);
    for (uint32_t s = 0; s < b->c->n_states; s++) {
        sn_ix place = in_tile(b, s, at, e);
        sn_val sum = sn_put_load(m, cursor, to, place), x = sn_put_load(m, cursor, from, in_block(b, s, e));
        sn_put_store(m, cursor, to, place, sn_put_op2(m, cursor, SN_LOP_ADD, sum, x));
    }
}

/* ---- products ---- */

/* The operand at an element of a block and a step of the part that begins at `first`. */
static sn_val put_factor(binder *b, sn_cursor cursor, uint32_t o, const block *at, element e, sn_ix first, sn_ix step) {
    sn_module *m = b->m;
    bool right = b->c->operands[o].right, blocks = is_blocked(b, o);
    sn_ix side = right ? e.j : e.i, of_tile = sn_ix_add(m, right ? at->column : at->row, side);
    if (b->p->panel[o] != SN_PANEL_NONE)
        return sn_put_load(m, cursor, b->panel[o], in_panel(b, o, at->jb, blocks ? side : of_tile, step));
    sn_ix place = sn_ix_add(m, right ? b->column : b->row, of_tile);
    return put_operand(b, cursor, o, place, sn_ix_add(m, first, step));
}

/* A part of the sum for a block: `steps` steps from number `from` of the part that begins at `first`, by vectors of
 * `depth` steps. */
typedef struct run {
    const block *at;
    sn_ix first, from;
    int64_t steps, depth;
} run;

/* The elements of a block in registers: sums of vectors along the sum have a lane for each of its steps. */
static element open_registers(binder *b, sn_cursor *at, int64_t depth, sn_ix *lane) {
    *lane = sn_ix_const(b->m, 0);
    if (b->p->depth == 1) return open_block(b, at, SN_AXIS_UNROLL);
    element e;
    e.i = sn_open_loop(b->m, at, "i", b->p->rows, SN_AXIS_UNROLL);
    e.j = sn_open_loop(b->m, at, "j", b->p->width, SN_AXIS_UNROLL);
    if (depth > 1) *lane = sn_open_loop(b->m, at, "v", depth, SN_AXIS_VECTOR);
    return e;
}

static sn_ix in_registers(binder *b, uint32_t s, element e, int64_t depth, sn_ix lane) {
    return sn_ix_fma(b->m, depth, in_block(b, s, e), lane);
}

static sn_buf registers_of(const binder *b, int64_t depth) { return depth == b->p->depth ? b->registers : b->rest; }

/* What is at that place, plus left * right. */
static sn_val put_product(binder *b, sn_cursor at, sn_buf sums, sn_ix place, sn_val left, sn_val right) {
    sn_module *m = b->m;
    const sn_contract_words *w = &b->p->words;
    sn_val product = w->steps == 1 ? sn_put_op2(m, at, SN_LOP_MUL, left, right) : (sn_val){0};
    sn_val sum = sn_put_load(m, at, sums, place);
    if (product.i) return sn_put_op2(m, at, SN_LOP_ADD, sum, product);
    if (w->steps == 2) return sn_put_op3(m, at, SN_LOP_DOT2, sum, left, right);
    bool swap = w->right_unsigned;
    return sn_put_op3(m, at, SN_LOP_DOT4, sum, swap ? right : left, swap ? left : right);
}

/* The registers take in a run. */
static void put_run(binder *b, sn_cursor cursor, const run *r) {
    sn_module *m = b->m;
    sn_buf to = registers_of(b, r->depth);
    sn_cursor inner = cursor;
    sn_ix lane;
    element e = open_registers(b, &inner, r->depth, &lane);
    for (uint32_t s = 0; s < b->c->n_states; s++)
        sn_put_store(m, inner, to, in_registers(b, s, e, r->depth, lane), sn_put_const(m, inner, b->p->dtype, 0));
    inner = cursor;
    sn_ix q = sn_open_loop(b->m, &inner, "k", r->steps / r->depth, SN_AXIS_SEQ);
    e = open_registers(b, &inner, r->depth, &lane);
    sn_ix step = sn_ix_add(m, r->from, sn_ix_fma(b->m, r->depth, q, lane));
    sn_val factor[SN_MOST_OPERANDS];
    for (uint32_t o = 0; o < b->c->n_operands; o++) factor[o] = put_factor(b, inner, o, r->at, e, r->first, step);
    for (uint32_t i = 0; i < b->c->n_products; i++) {
        const sn_contraction_product *pr = &b->c->products[i];
        sn_ix place = in_registers(b, pr->state, e, r->depth, lane);
        sn_put_store(m, inner, to, place, put_product(b, inner, to, place, factor[pr->left], factor[pr->right]));
    }
}

/* What the registers hold for an element; the lanes of a vector along the sum become one. */
static sn_val put_from_registers(binder *b, sn_cursor cursor, uint32_t s, element e, int64_t depth) {
    sn_module *m = b->m;
    sn_buf from = registers_of(b, depth);
    if (depth == 1) return sn_put_load(m, cursor, from, in_block(b, s, e));
    sn_axis ax = sn_axis_new(m, "v", sn_ix_const(m, depth));
    sn_comb sum = SN_COMB_SUM;
    sn_stmt lanes = sn_put_reduce(m, cursor, ax, SN_AXIS_VECTOR, &sum, 1, &b->p->dtype);
    sn_cursor inner = sn_at_end(b->k, lanes);
    sn_val x = sn_put_load(m, inner, from, in_registers(b, s, e, depth, sn_ix_axis(m, ax)));
    sn_put_yield(m, inner, &x, 1);
    return sn_stmt_get(m, lanes)->result;
}

/* to = registers, or to + registers; at: place of the block in `to`, which has a tile; NULL: it has a block. */
static void put_registers(binder *b, sn_cursor cursor, sn_buf to, const block *at, int64_t depth, bool add) {
    sn_module *m = b->m;
    sn_ix lane;
    element e = open_registers(b, &cursor, 1, &lane);
    for (uint32_t s = 0; s < b->c->n_states; s++) {
        sn_val x = put_from_registers(b, cursor, s, e, depth);
        sn_ix place = at ? in_tile(b, s, at, e) : in_block(b, s, e);
        if (add) x = sn_put_op2(m, cursor, SN_LOP_ADD, sn_put_load(m, cursor, to, place), x);
        sn_put_store(m, cursor, to, place, x);
    }
}

/* n runs like r, one after the other, are added to the sums of the block. */
static void put_runs(binder *b, sn_cursor cursor, const run *r, int64_t n) {
    run next = *r;
    sn_ix x = sn_open_loop(b->m, &cursor, "r", n, SN_AXIS_SEQ);
    next.from = sn_ix_fma(b->m, r->steps, x, r->from);
    put_run(b, cursor, &next);
    put_registers(b, cursor, b->block, NULL, r->depth, true);
}

/* The steps of a part, into b->block or, where there are several parts, the sums of the tile. */
static void put_block(binder *b, sn_cursor cursor, const block *at, sn_ix first, int64_t steps) {
    bool last = !b->n_sums;
    sn_buf to = last ? b->block : b->sums[0];
    const block *place = last ? NULL : at;
    int64_t depth = b->p->depth, whole = steps / depth * depth;
    run r = {at, first, sn_ix_const(b->m, 0), whole < b->p->run ? whole : b->p->run, depth};
    if (r.steps == steps) {
        put_run(b, cursor, &r);
        if (!b->direct) put_registers(b, cursor, to, place, depth, !last);
        return;
    }
    put_zeros(b, cursor, b->block);
    int64_t done = r.steps ? whole / r.steps * r.steps : 0;
    if (done) put_runs(b, cursor, &r, done / r.steps);
    run more = {at, first, sn_ix_const(b->m, done), whole - done, depth},
        single = {at, first, sn_ix_const(b->m, whole), steps - whole, 1};
    if (more.steps) put_runs(b, cursor, &more, 1);
    if (single.steps) put_runs(b, cursor, &single, 1);
    if (!last) put_sums(b, cursor, to, place, b->block);
}

/* ---- the rest of the body ---- */

/* Statements of the body but for the reduction, in their order. */
static void put_rest(binder *b, sn_contraction_copier *p, sn_val mask) {
    for (uint32_t i = 0; i < b->body->n; i++) {
        sn_stmt s = b->body->at[i];
        const sn_stmt_rec *r = sn_stmt_get(b->m, s);
        if (s.i == b->c->top.i) continue;
        if (r->n_results) sn_contraction_copy(p, r->result);
        else sn_contraction_copy_store(p, r, mask);
    }
}

/* The registers have it, or the sums of the tile or, where it has none, of the block. */
static sn_val put_sum(binder *b, sn_cursor at, uint32_t s, const block *bl, element e) {
    if (b->direct) return put_from_registers(b, at, s, e, b->p->depth);
    if (!b->n_sums) return sn_put_load(b->m, at, b->block, in_block(b, s, e));
    return sn_put_load(b->m, at, b->sums[b->n_sums - 1], in_tile(b, s, bl, e));
}

/* The sum of an element. */
static sn_val put_result(binder *b, sn_cursor at, uint32_t s, const block *bl, element e) {
    sn_module *m = b->m;
    sn_val sum = put_sum(b, at, s, bl, e);
    if (!b->taken.i) return sum;
    sn_ix side = b->p->words.right_unsigned ? sn_ix_add(m, bl->row, e.i) : sn_ix_add(m, bl->column, e.j);
    return sn_put_op2(m, at, SN_LOP_ADD, sum, sn_put_load(m, at, b->taken, side));
}

/* Columns of a row of a block: as vectors, or one by one where what registers hold becomes numbers. */
static sn_ix open_columns(binder *b, sn_cursor *at) {
    const sn_contract_plan *p = b->p;
    if (b->direct && p->depth > 1) return sn_open_loop(b->m, at, "j", p->width, SN_AXIS_UNROLL);
    sn_ix j = sn_open_loop(b->m, at, "j", p->vectors, b->direct ? SN_AXIS_UNROLL : SN_AXIS_SEQ);
    return sn_ix_fma(b->m, p->lanes, j, sn_open_loop(b->m, at, "v", p->lanes, SN_AXIS_VECTOR));
}

static void put_epilogue(binder *b, sn_cursor at, const block *bl) {
    sn_module *m = b->m;
    const sn_contract_plan *pl = b->p;
    element e;
    e.i = sn_open_loop(b->m, &at, "i", pl->rows, b->direct ? SN_AXIS_UNROLL : SN_AXIS_SEQ);
    sn_ix row = sn_ix_add(m, bl->row, e.i);
    at = sn_host_if(b->m, b->k, at, sn_ix_sub(m, row, sn_ix_scale(m, bl->ib, pl->rows)), pl->rows);
    row = sn_ix_add(m, b->row, row);
    at = sn_host_if(b->m, b->k, at, sn_ix_sub(m, row, b->old_row), pl->tile_m);
    e.j = open_columns(b, &at);
    sn_ix column = sn_ix_add(m, bl->column, e.j);
    sn_val mask =
        sn_put_mask_in(b->m, at, (sn_val){0}, sn_ix_sub(m, column, sn_ix_scale(m, bl->jb, pl->width)), pl->width);
    column = sn_ix_add(m, b->column, column);
    mask = sn_put_mask_in(b->m, at, mask, sn_ix_sub(m, column, b->old_column), pl->tile_n);
    sn_contraction_copier p = place_at(b, at, row, column, (sn_ix){0});
    sn_val result = sn_stmt_get(m, b->c->top)->result;
    for (uint32_t s = 0; s < b->c->n_states; s++)
        sn_contraction_becomes(&p, (sn_val){result.i + s},
                               sn_put_cast(m, at, b->c->dtype, put_result(b, at, s, bl, e)));
    put_rest(b, &p, mask);
}

/* ---- tiles ---- */

/* Blocks of a tile. Row by row is the order of what is stored, column by column keeps those of the right operand near. */
static block open_blocks(binder *b, sn_cursor *at, bool by_rows) {
    block bl;
    if (by_rows) bl.ib = sn_open_loop(b->m, at, "ib", b->blocks_m, SN_AXIS_SEQ);
    bl.jb = sn_open_loop(b->m, at, "jb", b->blocks_n, SN_AXIS_SEQ);
    if (!by_rows) bl.ib = sn_open_loop(b->m, at, "ib", b->blocks_m, SN_AXIS_SEQ);
    bl.column = sn_host_start(b->m, bl.jb, b->p->width, b->p->tile_n);
    bl.row = sn_host_start(b->m, bl.ib, b->p->rows, b->p->tile_m);
    return bl;
}

/* Does what the right operand has of a part stay in the cache of a core while rows go by? */
static bool is_near(const binder *b) {
    int64_t bytes = b->p->tile_n * b->p->tile_k * sn_dtype_bytes(b->p->dtype);
    return bytes <= SN_HOST_CACHE / 2;
}

/* Part of the sum that begins at `first`. */
static void put_part(binder *b, sn_cursor at, sn_ix first, int64_t steps) {
    for (uint32_t o = 0; o < b->c->n_operands; o++)
        if (b->p->panel[o] != SN_PANEL_NONE) put_panel(b, at, o, first, steps);
    block bl = open_blocks(b, &at, !b->n_sums && is_near(b));
    put_block(b, at, &bl, first, steps);
    if (!b->n_sums) put_epilogue(b, at, &bl);
}

/* Part number x: the last one may have fewer steps. */
static void put_numbered_part(binder *b, sn_cursor at, sn_ix x) {
    sn_module *m = b->m;
    const sn_contract_plan *p = b->p;
    int64_t rest = p->k % p->tile_k, whole = p->k / p->tile_k;
    sn_ix first = sn_ix_scale(m, x, p->tile_k);
    if (!rest) {
        put_part(b, at, first, p->tile_k);
        return;
    }
    put_part(b, sn_at_end(b->k, sn_put_if(m, at, x, sn_ix_const(m, whole))), first, p->tile_k);
    sn_stmt last = sn_put_if(m, at, sn_ix_addc(m, x, -whole), sn_ix_const(m, 1));
    put_part(b, sn_at_end(b->k, last), sn_ix_const(m, whole * p->tile_k), rest);
}

/* All parts from number RUN^level * x on that sums[level - 1] takes in, at most RUN^level. */
static void put_parts(binder *b, sn_cursor at, uint32_t level, sn_ix x) {
    sn_module *m = b->m;
    if (!level) {
        put_numbered_part(b, at, x);
        return;
    }
    int64_t below = 1, n;
    for (uint32_t i = 1; i < level; i++) below *= RUN;
    n = (b->p->parts + below - 1) / below;
    if (n > RUN) {
        sn_ix y = sn_open_loop(b->m, &at, "p", RUN, SN_AXIS_SEQ);
        x = sn_ix_fma(b->m, RUN, x, y);
        if (n % RUN) at = sn_at_end(b->k, sn_put_if(m, at, x, sn_ix_const(m, n)));
    } else {
        x = sn_open_loop(b->m, &at, "p", n, SN_AXIS_SEQ);
    }
    if (level > 1) put_zeros(b, at, b->sums[level - 2]);
    put_parts(b, at, level - 1, x);
    if (level == 1) return;
    sn_ix e = sn_host_vectors(b->m, &at, sn_buf_get(m, b->sums[0])->private_size, b->p->lanes);
    sn_val sum = sn_put_load(m, at, b->sums[level - 1], e), more = sn_put_load(m, at, b->sums[level - 2], e);
    sn_put_store(m, at, b->sums[level - 1], e, sn_put_op2(m, at, SN_LOP_ADD, sum, more));
}

/* Is the rest of the body written out behind the registers, with no memory in between? It has to be short. */
static bool is_direct(const binder *b) {
    const sn_contract_plan *p = b->p;
    int64_t sums = p->rows * (p->depth > 1 ? p->width : p->vectors);
    return sn_contract_is_direct(p, b->c) && p->run == p->k && b->body->n * sums <= SN_MANY_OPS;
}

/* low times the sum of the other factor, of rows that lie along the sum: its steps are lanes. */
static void put_taken_of_rows(binder *b, sn_cursor at, uint32_t o) {
    sn_module *m = b->m;
    int64_t lanes = sn_pow2_divisor(b->c->k), widest = b->cx->target->vector_bytes / SN_WORD_BYTES;
    sn_axis ax;
    sn_comb sum = SN_COMB_SUM;
    sn_dtype t = SN_I32;
    if (lanes > widest) lanes = widest;
    sn_buf lane = new_local(b, "lanes", SN_BUF_REG, lanes);
    sn_ix i = sn_open_loop(m, &at, "i", b->p->tile_m, SN_AXIS_SEQ);
    sn_cursor in = at;
    sn_ix v = sn_open_loop(m, &in, "v", lanes, SN_AXIS_VECTOR);
    sn_put_store(m, in, lane, v, sn_put_const_int(m, in, t, 0));
    in = at;
    sn_ix q = sn_open_loop(m, &in, "k", b->c->k / lanes, SN_AXIS_SEQ);
    v = sn_open_loop(m, &in, "v", lanes, SN_AXIS_VECTOR);
    sn_val x = put_element(b, in, o, sn_ix_add(m, b->row, i), sn_ix_fma(m, lanes, q, v), (sn_val){0});
    sn_put_store(m, in, lane, v, sn_put_op2(m, in, SN_LOP_ADD, sn_put_load(m, in, lane, v), x));
    ax = sn_axis_new(m, "v", sn_ix_const(m, lanes));
    sn_stmt all = sn_put_reduce(m, at, ax, SN_AXIS_VECTOR, &sum, 1, &t);
    in = sn_at_end(b->k, all);
    x = sn_put_load(m, in, lane, sn_ix_axis(m, ax));
    sn_put_yield(m, in, &x, 1);
    x = sn_put_op2(m, at, SN_LOP_MUL, sn_stmt_get(m, all)->result, sn_put_const_int(m, at, t, b->p->words.low));
    sn_put_store(m, at, b->taken, i, x);
}

/* ... of columns, which are lanes. */
static void put_taken_of_columns(binder *b, sn_cursor at, uint32_t o) {
    sn_module *m = b->m;
    int64_t lanes = b->cx->target->vector_bytes / SN_WORD_BYTES;
    while (lanes > b->p->tile_n) lanes /= 2;
    sn_buf lane = new_local(b, "lanes", SN_BUF_REG, lanes);
    sn_ix first = sn_host_start(m, sn_open_loop(m, &at, "j", (b->p->tile_n + lanes - 1) / lanes, SN_AXIS_SEQ), lanes,
                                b->p->tile_n);
    sn_cursor in = at;
    sn_ix v = sn_open_loop(m, &in, "v", lanes, SN_AXIS_VECTOR);
    sn_put_store(m, in, lane, v, sn_put_const_int(m, in, SN_I32, 0));
    in = at;
    sn_ix q = sn_open_loop(m, &in, "k", b->c->k, SN_AXIS_SEQ);
    v = sn_open_loop(m, &in, "v", lanes, SN_AXIS_VECTOR);
    sn_ix column = sn_ix_add(m, b->column, sn_ix_add(m, first, v));
    sn_val x = put_element(b, in, o, column, q, (sn_val){0});
    sn_put_store(m, in, lane, v, sn_put_op2(m, in, SN_LOP_ADD, sn_put_load(m, in, lane, v), x));
    v = sn_open_loop(m, &at, "v", lanes, SN_AXIS_VECTOR);
    x = sn_put_op2(m, at, SN_LOP_MUL, sn_put_load(m, at, lane, v), sn_put_const_int(m, at, SN_I32, b->p->words.low));
    sn_put_store(m, at, b->taken, sn_ix_add(m, first, v), x);
}

static void put_taken(binder *b, sn_cursor at) {
    bool rows = b->p->words.right_unsigned;
    b->taken = new_local(b, "taken", SN_BUF_SHARED, rows ? b->p->tile_m : b->p->tile_n);
    for (uint32_t o = 0; o < b->c->n_operands; o++) {
        if (b->c->operands[o].right == rows) continue;
        if (rows) put_taken_of_rows(b, at, o);
        else put_taken_of_columns(b, at, o);
    }
}

static void make_buffers(binder *b) {
    const sn_contract_plan *p = b->p;
    int64_t of_block = b->c->n_states * p->rows * p->width;
    for (uint32_t o = 0; o < b->c->n_operands; o++)
        if (p->panel[o] != SN_PANEL_NONE)
            b->panel[o] = new_local(b, b->c->operands[o].right ? "right" : "left", SN_BUF_SHARED, panel_size(b, o));
    b->registers = new_local(b, "acc", SN_BUF_REG, of_block * p->depth);
    b->rest = p->depth > 1 ? new_local(b, "rest", SN_BUF_REG, of_block) : b->registers;
    b->block = new_local(b, "block", SN_BUF_SHARED, of_block);
    for (int64_t n = p->parts; n > 1; n = (n + RUN - 1) / RUN)
        b->sums[b->n_sums++] = new_local(b, "sums", SN_BUF_SHARED, of_block * b->blocks_m * b->blocks_n);
}

/* The grid counts products, tiles of rows, tiles of columns. */
static sn_cursor open_tiles(binder *b) {
    sn_module *m = b->m;
    const sn_contract_plan *p = b->p;
    sn_cursor at = sn_at_end(b->k, (sn_stmt){0});
    sn_ix g = sn_open_loop(b->m, &at, "g", p->together ? 1 : b->c->batch * p->tiles_m * p->tiles_n, SN_AXIS_GRID);
    if (p->together) g = sn_open_loop(b->m, &at, "n", b->c->batch, SN_AXIS_SEQ);
    sn_ix tile = sn_ix_divc(m, g, p->tiles_n), tm = sn_ix_modc(m, tile, p->tiles_m), tn = sn_ix_modc(m, g, p->tiles_n);
    b->batch = sn_ix_divc(m, tile, p->tiles_m);
    b->row = sn_host_start(b->m, tm, p->tile_m, b->c->m);
    b->column = sn_host_start(b->m, tn, p->tile_n, b->c->n);
    b->old_row = sn_ix_scale(m, tm, p->tile_m);
    b->old_column = sn_ix_scale(m, tn, p->tile_n);
    b->blocks_m = (p->tile_m + p->rows - 1) / p->rows;
    b->blocks_n = (p->tile_n + p->width - 1) / p->width;
    return at;
}

void sn_schedule_contract_host_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    sn_contraction c;
    sn_contract_plan p;
    const char *why_not;
    sn_stmt_vec body = {0};
    sn_contraction_find(&c, &why_not, cx, k);
    sn_contract_plan_find(&p, sc, cx, &c);
    binder b = {.cx = cx, .m = m, .k = k, .c = &c, .p = &p, .body = &body, .n_vals = m->vals.count};
    sn_schedule_take_body(&body, cx, k, sh);
    sn_cursor at = open_tiles(&b), inner = at;
    b.direct = is_direct(&b);
    make_buffers(&b);
    if (b.n_sums) put_zeros(&b, at, b.sums[b.n_sums - 1]);
    if (p.words.low) put_taken(&b, at);
    put_parts(&b, at, b.n_sums, sn_ix_const(m, 0));
    if (!b.n_sums) return;
    block bl = open_blocks(&b, &inner, true);
    put_epilogue(&b, inner, &bl);
}
