/* contract_rows_bind.c: binding of class contract where one operand is read once, by threads that multiply it by all
 * of the few rows of the other one; contract_rows.c has the picture.
 *
 * Right operands that are contiguous along the sum: the threads x of a column share its sum, y are other columns.
 *
 *     column = tile_n*g + R*y + r        step = ((U*k + u)*X + x)*V + v
 *
 * Contiguous along the columns: threads x are columns, threads y share their sums.
 *
 *     column = tile_n*g + (X*r + x)*V + v        step = (Y*k + y)*U + u
 *
 * Columns beyond the last are computed as copies of the last ones, with stores masked, since all threads take part in
 * the sums; steps beyond the last add products of zeros.
 *
 * All threads that share a sum get it, and go on with it side by side, row by row. Where that is long (the cell of an
 * LSTM behind its gates) the sums of all rows go to shared memory instead, and each thread of the block goes on with
 * others:
 *
 *     element = (Y*q + y)*X + x of R * M * W      r, row, w = digits of it      column = tile_n*g + R*w + r, or + W*r + w
 *
 * of W threads that own columns, or of W = X*V columns side by side. Where rows are side by side in what is stored,
 * rows are the lowest digit.
 */
#include "passes/schedule/products/contract_rows.h"
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/model.h"

enum { MOST_STATES = 4 };

typedef struct binding {
    sn_contract_rows r;
    const sn_sched *sc;
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    int64_t rows, groups, steps, lanes; /* of a thread: M; R; U; columns of a group that it has: 1, or V */
    int64_t run, beside;                /* steps, and rows, of a left operand that it loads together */
    sn_ix batch, first;                 /* of the block: product, column */
    bool turned;                        /* all threads go on with the sums, not those that share one each ... */
    bool by_rows;                       /* ... where rows of a column are side by side as well ... */
    int64_t width;                      /* ... W, ... */
    sn_buf totals[MOST_STATES];         /* ... from here: [R, M, W], or [R * W, M] by rows */
    sn_buf sums, right[SN_MOST_OPERANDS], left[SN_MOST_OPERANDS];
} binding;

/* ---- small pieces ---- */

/* The lanes of a vector: always a loop, so that what is masked stands alone. */
static sn_ix open_lanes(binding *b, sn_cursor *at, int64_t n) {
    sn_axis ax = sn_axis_new(b->m, "v", sn_ix_const(b->m, n));
    *at = sn_at_end(b->k, sn_put_loop(b->m, *at, ax, n > 1 ? SN_AXIS_VECTOR : SN_AXIS_UNROLL));
    return sn_ix_axis(b->m, ax);
}

static int64_t threads(const binding *b) { return (int64_t)b->sc->block_x * b->sc->block_y; }

static sn_buf new_registers(binding *b, const char *name, sn_dtype dtype, int64_t own) {
    return sn_local_new(b->m, name, dtype, SN_BUF_REG, own, threads(b));
}

/* Register e of thread (x, y). */
static sn_ix own(binding *b, sn_buf buf, sn_ix x, sn_ix y, sn_ix e) {
    return sn_ix_fma(b->m, sn_buf_get(b->m, buf)->private_size, sn_ix_fma(b->m, b->sc->block_x, y, x), e);
}

/* ---- places ---- */

typedef struct thread {
    sn_ix x, y;
} thread;

static sn_ix step_at(binding *b, thread t, sn_ix k, sn_ix u) {
    if (!b->r.along) return sn_ix_fma(b->m, b->steps, sn_ix_fma(b->m, b->sc->block_y, k, t.y), u);
    return sn_ix_scale(b->m, sn_ix_fma(b->m, b->sc->block_x, sn_ix_fma(b->m, b->steps, k, u), t.x), b->r.vector);
}

/* The first column that thread t has in group r. */
static sn_ix column_at(binding *b, thread t, sn_ix r) {
    sn_ix own = b->r.along ? sn_ix_fma(b->m, b->groups, t.y, r)
                           : sn_ix_scale(b->m, sn_ix_fma(b->m, b->sc->block_x, r, t.x), b->lanes);
    return sn_ix_add(b->m, b->first, own);
}

static bool columns_beyond(const binding *b) { return b->r.c.n % b->sc->tile_n != 0; }
static bool steps_beyond(const binding *b) { return b->r.c.k % b->sc->tile_k != 0; }

static sn_ix clamped(binding *b, sn_ix column) {
    if (!columns_beyond(b)) return column;
    return sn_ix_min(b->m, column, sn_ix_const(b->m, b->r.c.n - b->lanes));
}

/* ---- products ---- */

static int64_t turns(const binding *b) { return sn_ceil_div(b->r.c.k, b->sc->tile_k); }

/* What comes early, long before it is multiplied, takes less room as it is; else the two are side by side. */
static sn_dtype held_as(const binding *b, const sn_contraction_operand *o) {
    bool early = turns(b) == 1 && sn_contract_rows_early(&b->r, b->cx->target);
    return o->load.i && early ? o->from : b->r.c.dtype;
}

/* `to` = the operand, or 0 where mask does not hold, for the lanes of the loop at `at`. */
static void put_operand(binding *b, sn_cursor at, const sn_contraction_operand *o, sn_contraction_place place,
                        sn_buf to, sn_ix offset, sn_val mask) {
    sn_module *m = b->m;
    sn_contraction_operand held = *o;
    if (held_as(b, o) == o->from && o->load.i) held.value = sn_stmt_get(m, o->load)->result;
    sn_val x = sn_put_cast(m, at, held_as(b, o), sn_contraction_put(b->cx, at, &b->r.c, &held, &place));
    if (mask.i && !o->load.i) x = sn_put_op3(m, at, SN_LOP_SELECT, mask, x, sn_put_const(m, at, b->r.c.dtype, 0));
    sn_put_store(m, at, to, offset, x);
}

static sn_val put_mask(binding *b, sn_cursor at, sn_ix step) {
    return steps_beyond(b) ? sn_put_in(b->m, at, step, sn_ix_const(b->m, b->r.c.k)) : (sn_val){0};
}

/* What the thread has of the right operands in iteration k: all loads together. */
static void put_right(binding *b, sn_cursor at, thread t, sn_ix k) {
    const sn_contraction *c = &b->r.c;
    sn_cursor in = at;
    sn_ix u = sn_open_loop(b->m, &in, "u", b->steps, SN_AXIS_UNROLL),
          r = sn_open_loop(b->m, &in, "r", b->groups, SN_AXIS_UNROLL);
    sn_ix step = step_at(b, t, k, u);
    sn_val mask = put_mask(b, in, step);
    for (uint32_t i = 0; i < c->n_operands; i++) {
        const sn_contraction_operand *o = &c->operands[i];
        if (!o->right) continue;
        sn_cursor lane = in;
        sn_ix v = open_lanes(b, &lane, b->r.vector), column = clamped(b, column_at(b, t, r));
        sn_contraction_place place = {b->batch, sn_ix_const(b->m, 0), column, step};
        sn_ix *moves = b->r.along ? &place.step : &place.column;
        *moves = sn_ix_add(b->m, *moves, v);
        sn_ix e = sn_ix_fma(b->m, b->r.vector, sn_ix_fma(b->m, b->groups, u, r), v);
        put_operand(b, lane, o, place, b->right[i], own(b, b->right[i], t.x, t.y, e), mask);
        if (mask.i) sn_mask_accesses(b->cx, b->k, lane.parent, mask, true);
    }
}

/* The left operands of a row, as many steps as lie side by side in one access; where it is rows that lie side by side, of all rows. */
static void put_left(binding *b, sn_cursor at, thread t, sn_ix row, sn_ix step, sn_val mask) {
    const sn_contraction *c = &b->r.c;
    sn_module *m = b->m;
    for (uint32_t o = 0; o < c->n_operands; o++) {
        if (c->operands[o].right) continue;
        sn_cursor lane = at;
        sn_contraction_place place = {b->batch, row, sn_ix_const(m, 0), step};
        sn_ix v, e;
        if (b->beside > 1) {
            sn_ix q = sn_open_loop(m, &lane, "q", b->run, SN_AXIS_UNROLL);
            sn_ix w = sn_open_loop(m, &lane, "w", b->rows / b->beside, SN_AXIS_UNROLL);
            v = open_lanes(b, &lane, b->beside);
            place.row = sn_ix_fma(m, b->beside, w, v), place.step = sn_ix_add(m, step, q);
            e = sn_ix_fma(m, b->rows, q, place.row);
        } else {
            v = e = open_lanes(b, &lane, b->run);
            place.step = sn_ix_add(m, step, v);
        }
        put_operand(b, lane, &c->operands[o], place, b->left[o], own(b, b->left[o], t.x, t.y, e), mask);
        if (mask.i) sn_mask_accesses(b->cx, b->k, lane.parent, mask, true);
    }
}

/* What it adds up of iteration k: the left operands are loaded row by row, or step by step where rows lie side by side, and
 * multiply all that was loaded before. */
static void put_sums(binding *b, sn_cursor at, thread t, sn_ix k) {
    const sn_contraction *c = &b->r.c;
    sn_module *m = b->m;
    bool beside = b->beside > 1;
    sn_ix u = sn_open_loop(b->m, &at, "u", b->r.along ? b->steps : b->steps / b->run, SN_AXIS_UNROLL), i;
    sn_ix step = step_at(b, t, k, b->r.along ? u : sn_ix_scale(m, u, b->run)), none = sn_ix_const(m, 0);
    if (!beside) i = sn_open_loop(b->m, &at, "i", b->rows, SN_AXIS_UNROLL);
    put_left(b, at, t, beside ? none : i, step, put_mask(b, at, step));
    if (beside) i = sn_open_loop(b->m, &at, "i", b->rows, SN_AXIS_UNROLL);
    sn_ix q = sn_open_loop(b->m, &at, "q", b->r.along ? 1 : b->run, SN_AXIS_UNROLL);
    sn_ix r = sn_open_loop(b->m, &at, "r", b->groups, SN_AXIS_UNROLL);
    sn_ix v = sn_open_loop(b->m, &at, "v", b->r.vector, b->r.along ? SN_AXIS_UNROLL : SN_AXIS_VECTOR);
    sn_ix held = b->r.along ? u : sn_ix_fma(b->m, b->run, u, q), of_left = b->r.along ? v : q;
    if (beside) of_left = sn_ix_fma(m, b->rows, of_left, i);
    for (uint32_t p = 0; p < c->n_products; p++) {
        const sn_contraction_product *pr = &c->products[p];
        sn_ix e = sn_ix_fma(b->m, b->r.vector, sn_ix_fma(b->m, b->groups, held, r), v);
        sn_val w = sn_put_load(m, at, b->right[pr->right], own(b, b->right[pr->right], t.x, t.y, e));
        sn_buf left = b->left[pr->left];
        sn_val x = sn_put_load(m, at, left, own(b, left, t.x, t.y, of_left));
        sn_ix sum = sn_ix_fma(b->m, c->n_states, sn_ix_fma(b->m, b->rows, r, i), sn_ix_const(m, pr->state));
        sum = own(b, b->sums, t.x, t.y, sn_ix_fma(b->m, b->lanes, sum, b->r.along ? none : v));
        w = sn_put_cast(m, at, c->dtype, w), x = sn_put_cast(m, at, c->dtype, x);
        sn_val product = sn_put_op2(m, at, SN_LOP_MUL, x, w);
        sn_put_store(m, at, b->sums, sum, sn_put_op2(m, at, SN_LOP_ADD, sn_put_load(m, at, b->sums, sum), product));
    }
}

static thread open_threads(binding *b, sn_cursor *at) {
    thread t;
    t.y = sn_open_loop(b->m, at, "y", b->sc->block_y, SN_AXIS_BLOCK_Y);
    t.x = sn_open_loop(b->m, at, "x", b->sc->block_x, SN_AXIS_BLOCK_X);
    return t;
}

/* What a thread has in one turn it loads in front of all else: that need not wait for the kernel in front. */
static void put_products(binding *b, sn_cursor at) {
    sn_cursor front = at;
    if (turns(b) == 1) put_right(b, front, open_threads(b, &front), sn_ix_const(b->m, 0));
    thread t = open_threads(b, &at);
    sn_cursor zero = at;
    sn_ix e = sn_open_loop(b->m, &zero, "e", sn_buf_get(b->m, b->sums)->private_size, SN_AXIS_UNROLL);
    sn_put_store(b->m, zero, b->sums, own(b, b->sums, t.x, t.y, e), sn_put_const(b->m, zero, b->r.c.dtype, 0));
    bool few = b->rows > SN_ROWS_MEET && turns(b) <= SN_ROWS_UNROLL;
    sn_ix k = sn_open_loop(b->m, &at, "k", turns(b), few ? SN_AXIS_UNROLL : SN_AXIS_SEQ);
    if (turns(b) > 1) put_right(b, at, t, k);
    put_sums(b, at, t, k);
}

/* ---- the rest of the body ---- */

/* The sums of a row and a column over the threads that share them. */
static sn_stmt put_total(binding *b, sn_cursor at, thread t, sn_ix first) {
    const sn_contraction *c = &b->r.c;
    bool along = b->r.along;
    sn_comb combs[MOST_STATES];
    sn_dtype dtypes[MOST_STATES];
    sn_val x[MOST_STATES];
    for (uint32_t i = 0; i < c->n_states; i++) combs[i] = SN_COMB_SUM, dtypes[i] = c->dtype;
    sn_axis ax = sn_axis_new(b->m, along ? "x" : "y", sn_ix_const(b->m, along ? b->sc->block_x : b->sc->block_y));
    sn_stmt total = sn_put_reduce(b->m, at, ax, along ? SN_AXIS_BLOCK_X : SN_AXIS_BLOCK_Y, combs, c->n_states, dtypes);
    *(along ? &t.x : &t.y) = sn_ix_axis(b->m, ax);
    sn_cursor in = sn_at_end(b->k, total);
    for (uint32_t i = 0; i < c->n_states; i++)
        x[i] = sn_put_load(b->m, in, b->sums, own(b, b->sums, t.x, t.y, sn_ix_addc(b->m, first, i * b->lanes)));
    sn_put_yield(b->m, in, x, c->n_states);
    return total;
}

/* The body of a row and a column, with sums s: x[s]. */
static void put_body(binding *b, sn_cursor at, const sn_stmt_vec *body, sn_ix row, sn_ix column, const sn_val *x) {
    const sn_contraction *c = &b->r.c;
    sn_axis axes[2 * SN_MAX_CHAIN];
    sn_ix with[2 * SN_MAX_CHAIN];
    sn_contraction_place place = {b->batch, row, column, sn_ix_const(b->m, 0)};
    uint32_t n = sn_contraction_axes(axes, with, b->m, c, &place);
    for (uint32_t s = 0; s < body->n; s++) {
        if (body->at[s].i == c->top.i) continue;
        sn_stmt_insert(b->m, at, body->at[s]);
        sn_stmt_subst(b->m, body->at[s], axes, with, n);
    }
    for (uint32_t s = 0; s < c->n_states; s++)
        sn_val_replace(b->m, b->k, sn_result(sn_stmt_get(b->m, c->top), s), x[s]);
}

/* Column w of group r, of those of the block. */
static sn_ix column_of_block(const binding *b, sn_ix w, sn_ix r) {
    return b->r.along ? sn_ix_fma(b->m, b->groups, w, r) : sn_ix_fma(b->m, b->width, r, w);
}

/* Sums and what becomes of them by the threads that share one; body: NULL: they go to the totals. */
static void put_own(binding *b, sn_cursor at, const sn_stmt_vec *body) {
    const sn_contraction *c = &b->r.c;
    sn_module *m = b->m;
    thread t = {sn_ix_const(m, 0), sn_ix_const(m, 0)};
    sn_val x[MOST_STATES] = {{0}};
    if (b->r.along) t.y = sn_open_loop(b->m, &at, "y", b->sc->block_y, SN_AXIS_BLOCK_Y);
    else t.x = sn_open_loop(b->m, &at, "x", b->sc->block_x, SN_AXIS_BLOCK_X);
    sn_ix r = sn_open_loop(b->m, &at, "r", b->groups, SN_AXIS_UNROLL), column = column_at(b, t, r);
    sn_val mask = body && columns_beyond(b) ? sn_put_in(m, at, column, sn_ix_const(m, c->n)) : (sn_val){0};
    sn_ix i = sn_open_loop(b->m, &at, "i", b->rows, SN_AXIS_UNROLL),
          v = sn_open_loop(b->m, &at, "v", b->lanes, SN_AXIS_VECTOR);
    sn_stmt total = put_total(b, at, t, sn_ix_fma(b->m, b->lanes * c->n_states, sn_ix_fma(b->m, b->rows, r, i), v));
    for (uint32_t s = 0; s < c->n_states; s++) x[s] = sn_result(sn_stmt_get(m, total), s);
    if (body) {
        put_body(b, at, body, i, sn_ix_add(m, clamped(b, column), v), x);
        if (mask.i) sn_mask_accesses(b->cx, b->k, at.parent, mask, false);
        return;
    }
    sn_ix w = b->r.along ? t.y : sn_ix_fma(m, b->lanes, t.x, v);
    sn_ix e = b->by_rows ? sn_ix_fma(m, b->rows, column_of_block(b, w, r), i)
                         : sn_ix_fma(m, b->width, sn_ix_fma(m, b->rows, r, i), w);
    for (uint32_t s = 0; s < c->n_states; s++) sn_put_store(m, at, b->totals[s], e, x[s]);
}

/* The body for all totals, by all threads of the block. */
static void put_turned(binding *b, sn_cursor at, const sn_stmt_vec *body) {
    sn_module *m = b->m;
    int64_t all = b->groups * b->rows * b->width;
    sn_val x[MOST_STATES], mask = {0};
    thread t = open_threads(b, &at);
    sn_ix q = sn_open_loop(b->m, &at, "q", sn_ceil_div(all, threads(b)), SN_AXIS_UNROLL);
    sn_ix e = sn_ix_fma(m, b->sc->block_x, sn_ix_fma(m, b->sc->block_y, q, t.y), t.x);
    if (all % threads(b)) {
        mask = sn_put_in(m, at, e, sn_ix_const(m, all));
        e = sn_ix_min(m, e, sn_ix_const(m, all - 1));
    }
    int64_t side = b->by_rows ? b->rows : b->width;
    sn_ix low = sn_ix_modc(m, e, side), high = sn_ix_divc(m, e, side), row = low, column = high;
    if (!b->by_rows) row = sn_ix_modc(m, high, b->rows), column = column_of_block(b, low, sn_ix_divc(m, high, b->rows));
    column = sn_ix_add(m, b->first, column);
    if (columns_beyond(b)) {
        sn_val inside = sn_put_in(m, at, column, sn_ix_const(m, b->r.c.n));
        mask = mask.i ? sn_put_op2(m, at, SN_LOP_AND, mask, inside) : inside;
        column = sn_ix_min(m, column, sn_ix_const(m, b->r.c.n - 1));
    }
    for (uint32_t s = 0; s < b->r.c.n_states; s++) x[s] = sn_put_load(m, at, b->totals[s], e);
    put_body(b, at, body, row, column, x);
    if (mask.i) sn_mask_accesses(b->cx, b->k, at.parent, mask, false);
}

/* Are rows side by side in what the body stores? */
static bool lies_by_rows(const binding *b) {
    const sn_contraction *c = &b->r.c;
    int64_t extent, stride;
    sn_axis rows = sn_contraction_last_axis(&extent, b->m, c, SN_SIDE_M);
    for (sn_stmt s = sn_stmt_walk_skip(b->m, c->top); s.i && rows.i; s = sn_stmt_walk_next(b->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(b->m, s);
        if (r->op == SN_LOP_STORE && sn_ix_coef(b->m, r->ix, rows, &stride) && stride == 1) return true;
    }
    return false;
}

/* Is what is done with sums, by each thread for all that it shares, longer than a turn through shared memory and its share of that? */
static bool turns_sums(const binding *b) {
    const sn_module *m = b->m;
    double each = 0;
    for (sn_stmt s = sn_stmt_walk_skip(m, b->r.c.top); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        each += sn_schedule_op_cost((sn_lop)r->op);
        if (sn_loads(r) && sn_ix_uses_vals(m, r->ix)) each += SN_ROWS_FOUND;
    }
    int64_t all = b->groups * b->rows * b->width, own = b->groups * b->rows * b->lanes;
    int64_t share = sn_ceil_div(all, threads(b)), bytes = all * b->r.c.n_states * sn_dtype_bytes(b->r.c.dtype);
    if (bytes > b->cx->target->shared_bytes / 2) return false;
    return own > share && (double)(own - share) * each > SN_ROWS_TURN;
}

static void make_totals(binding *b) {
    int64_t own = b->groups * b->rows * b->width;
    for (uint32_t s = 0; s < b->r.c.n_states; s++)
        b->totals[s] = sn_local_new(b->m, "totals", b->r.c.dtype, SN_BUF_SHARED, own, 1);
}

static void open_blocks(binding *b, sn_cursor *at) {
    const sn_contraction *c = &b->r.c;
    int64_t tiles = sn_ceil_div(c->n, b->sc->tile_n);
    sn_ix g = sn_open_loop(b->m, at, "g", c->batch * tiles, SN_AXIS_GRID);
    b->batch = sn_ix_divc(b->m, g, tiles);
    b->first = sn_ix_scale(b->m, sn_ix_modc(b->m, g, tiles), b->sc->tile_n);
}

void sn_schedule_contract_rows_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    binding b = {.sc = sc, .cx = cx, .m = cx->m, .k = k};
    const char *why_not;
    sn_stmt_vec body = {0};
    sn_contract_rows_find(&b.r, &why_not, cx, k);
    b.rows = b.r.c.m;
    b.groups = sn_contract_rows_groups(&b.r, sc);
    b.steps = sn_contract_rows_steps(&b.r, sc);
    b.lanes = b.r.along ? 1 : b.r.vector;
    b.width = b.r.along ? sc->block_y : sc->block_x * b.lanes;
    b.run = b.r.along ? b.r.vector : sn_least(b.r.run, sn_pow2_divisor(b.steps));
    b.beside = b.r.beside;
    b.sums = new_registers(&b, "sums", b.r.c.dtype, b.groups * b.rows * b.r.c.n_states * b.lanes);
    for (uint32_t i = 0; i < b.r.c.n_operands; i++) {
        const sn_contraction_operand *o = &b.r.c.operands[i];
        if (o->right) b.right[i] = new_registers(&b, "right", held_as(&b, o), b.steps * b.groups * b.r.vector);
        else b.left[i] = new_registers(&b, "left", held_as(&b, o), b.run * (b.beside > 1 ? b.rows : 1));
    }
    b.turned = turns_sums(&b);
    b.by_rows = b.turned && lies_by_rows(&b);
    if (b.turned) make_totals(&b);
    sn_schedule_take_body(&body, cx, k, sh);
    sn_cursor at = sn_at_end(k, (sn_stmt){0});
    open_blocks(&b, &at);
    put_products(&b, at);
    put_own(&b, at, b.turned ? NULL : &body);
    if (b.turned) put_turned(&b, at, &body);
}
