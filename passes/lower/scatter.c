/* scatter.c: scatters that combine into few rows, on the CPU. Part of the pass `to-loops`.
 *
 *     %y = scatter_sum %x, %index, %updates : f32[32, 16]          262144 updates
 *
 *     loop g in 256 : grid {                                       a part: 1024 updates, in their order
 *       s[64 * 16] = 0
 *       loop c in 16 {
 *         loop v in 64 : vector { places[v] = index[..] }
 *         loop m in 64 { %r = places[m]   loop v in 16 : vector { s[16*%r + v] += updates[16*(1024*g + 64*c + m) + v] } } }
 *       parts[g] = s }
 *     loop i in 32 { loop j in 16 { y[i, j] = x[i, j] + sum p in 256 { parts[p, i, j] } } }
 *
 * A part has rows of its own in the cache, and more, one of them for updates that go nowhere. How many parts there are follows from
 * sizes alone, and each adds up in order: the bits are the same on any number of threads. The pass `decompose` says which
 * scatters come here (decompose_scatter.c); others are sorts. The first kernel is scheduled as it is made. Cost: the
 * updates once, and what the parts have: no more than a quarter of that, unless rows are many beside updates.
 */
#include "passes/base/nest.h"
#include "passes/lower/lower.h"

#include "ir/ops/scalar.h"

enum { UPDATES = 1024, MOST_UPDATES = 4096, TIMES_ROWS = 8, VECTOR_BYTES = 32, MOST_WRITTEN = 4, GROUP = 64, LANES = 8 };

typedef struct parts {
    sn_lower *lw;
    sn_module *m;
    sn_nd index, updates;
    const sn_type *type; /* of the updates */
    sn_lop combine;
    sn_dtype dtype;
    int64_t rows, width, count, length, number; /* elements of a row; updates, those of a part; parts */
    int64_t room; /* rows of the sums: a power of two, and one more than there are */
    sn_buf sums, places;
    sn_ix update; /* number of the one at hand */
} parts;

static const sn_comb COMBS[SN_N_OPS] = {
    [SN_OP_SCATTER_SUM] = SN_COMB_SUM,
    [SN_OP_SCATTER_PROD] = SN_COMB_PROD,
    [SN_OP_SCATTER_MAX] = SN_COMB_MAX,
    [SN_OP_SCATTER_MIN] = SN_COMB_MIN,
};

bool sn_lower_combines(const sn_node_rec *n) {
    return n->op == SN_OP_SCATTER_SUM || n->op == SN_OP_SCATTER_PROD || n->op == SN_OP_SCATTER_MAX ||
           n->op == SN_OP_SCATTER_MIN;
}

static sn_ix open_loop(parts *p, const char *name, int64_t extent, sn_axis_kind kind) {
    if (extent == 1 && kind != SN_AXIS_GRID) return sn_ix_const(p->m, 0);
    sn_axis ax = sn_axis_new(p->m, name, sn_ix_const(p->m, extent));
    p->lw->at = sn_at_end(p->lw->kern, sn_put_loop(p->m, p->lw->at, ax, kind));
    return sn_ix_axis(p->m, ax);
}

static sn_val identity(parts *p, sn_comb comb) {
    sn_scalar state[2];
    sn_scalar_identity(comb, p->dtype, state);
    if (sn_is_float(p->dtype)) return sn_put_const(p->m, p->lw->at, p->dtype, state[0].f);
    return sn_put_const_int(p->m, p->lw->at, p->dtype, state[0].i);
}

static sn_buf new_local(parts *p, const char *name, sn_dtype dtype, int64_t elements) {
    sn_ix size = sn_ix_const(p->m, elements);
    const char *kernel = sn_kern_get(p->m, p->lw->kern)->name;
    sn_buf b = sn_buf_new(p->m, sn_strf(&p->m->arena, "%s_%s", kernel, name), dtype, SN_BUF_SHARED, &size, 1);
    sn_buf_get(p->m, b)->private_size = (uint32_t)elements;
    return b;
}

typedef void (*for_element)(parts *p, sn_ix e, void *user);

/* Whole vectors, then the rest one by one. */
static void for_elements(parts *p, int64_t n, for_element body, void *user) {
    int64_t v = VECTOR_BYTES / sn_dtype_bytes(p->dtype), whole = n - n % v;
    sn_cursor outside = p->lw->at;
    if (whole) {
        sn_axis_kind kind = whole / v <= MOST_WRITTEN ? SN_AXIS_UNROLL : SN_AXIS_SEQ;
        sn_ix w = open_loop(p, "w", whole / v, kind), lane = open_loop(p, "v", v, SN_AXIS_VECTOR);
        body(p, sn_ix_add(p->m, sn_ix_scale(p->m, w, v), lane), user);
        p->lw->at = outside;
    }
    if (whole == n) return;
    sn_ix e = open_loop(p, "e", n - whole, n - whole <= MOST_WRITTEN ? SN_AXIS_UNROLL : SN_AXIS_SEQ);
    body(p, sn_ix_addc(p->m, e, whole), user);
    p->lw->at = outside;
}

static void put_identity(parts *p, sn_ix e, void *comb) {
    sn_put_store(p->m, p->lw->at, p->sums, e, identity(p, *(sn_comb *)comb));
}

/* Element e of the update goes into the row that starts at *first. What is computed in one loop is not there behind it. */
static void put_update(parts *p, sn_ix e, void *first) {
    sn_lower *lw = p->lw, outside = *lw;
    sn_ix index[SN_MAX_RANK], at = sn_ix_add(p->m, *(sn_ix *)first, e);
    lw->memo = NULL, lw->memo_n = lw->memo_cap = 0;
    sn_ix_unflatten(p->m, e, p->type->shape + 1, p->type->rank - 1, index + 1);
    index[0] = p->update;
    sn_val v = sn_put_cast(p->m, lw->at, p->dtype, sn_lower_element(lw, p->updates, index));
    lw->memo = outside.memo, lw->memo_n = outside.memo_n, lw->memo_cap = outside.memo_cap;
    sn_val sum = sn_put_load(p->m, lw->at, p->sums, at);
    sn_put_store(p->m, lw->at, p->sums, at, sn_put_op2(p->m, lw->at, p->combine, sum, v));
}

typedef struct result {
    sn_buf to;
    sn_ix part;
} result;

static void put_result(parts *p, sn_ix e, void *user) {
    const result *r = user;
    sn_val v = sn_put_load(p->m, p->lw->at, p->sums, e);
    sn_put_store(p->m, p->lw->at, r->to, sn_ix_add(p->m, sn_ix_scale(p->m, r->part, p->rows * p->width), e), v);
}

/* The row that the index says, counted from the end where it is negative, and whether there is one: in i32 where it is. */
static sn_val row_and_test(parts *p, sn_val *inside) {
    sn_module *m = p->m;
    sn_cursor at = p->lw->at;
    sn_val row = sn_lower_element(p->lw, p->index, &p->update);
    if (sn_val_get(m, row)->dtype != SN_I32) {
        sn_ix e = sn_lower_from_end(p->lw, row, sn_ix_const(m, p->rows));
        *inside = sn_put_in(m, at, e, sn_ix_const(m, p->rows));
        return sn_put_cast(m, at, SN_I32, sn_put_index(m, at, SN_I64, e));
    }
    sn_val zero = sn_put_const_int(m, at, SN_I32, 0), rows = sn_put_const_int(m, at, SN_I32, p->rows);
    sn_val wrapped = sn_put_op2(m, at, SN_LOP_ADD, row, rows);
    row = sn_put_op3(m, at, SN_LOP_SELECT, sn_put_op2(m, at, SN_LOP_LT, row, zero), wrapped, row);
    *inside = sn_put_op2(m, at, SN_LOP_AND, sn_put_op2(m, at, SN_LOP_GE, row, zero),
                         sn_put_op2(m, at, SN_LOP_LT, row, rows));
    return row;
}

/* Which row update number p->update goes into: the one behind the last, if it goes nowhere. */
static sn_val row_of(parts *p) {
    sn_lower *lw = p->lw;
    sn_val here = {0}, inside;
    sn_lower_guard(lw, &here, p->update, sn_ix_const(p->m, p->count));
    lw->mask = here;
    sn_val row = row_and_test(p, &inside);
    lw->mask = (sn_val){0};
    if (here.i) inside = sn_put_op2(p->m, lw->at, SN_LOP_AND, inside, here);
    return sn_put_op3(p->m, lw->at, SN_LOP_SELECT, inside, row, sn_put_const_int(p->m, lw->at, SN_I32, p->rows));
}

/* GROUP updates from the one at `first` on: where they go, by vectors; then they go there. */
static void put_group(parts *p, sn_ix first) {
    sn_lower *lw = p->lw;
    sn_cursor outside = lw->at;
    sn_ix w = open_loop(p, "w", GROUP / LANES, SN_AXIS_UNROLL), lane = open_loop(p, "v", LANES, SN_AXIS_VECTOR);
    sn_ix at = sn_ix_add(p->m, sn_ix_scale(p->m, w, LANES), lane);
    p->update = sn_ix_add(p->m, first, at);
    sn_put_store(p->m, lw->at, p->places, at, row_of(p));
    lw->at = outside;
    sn_ix m = open_loop(p, "m", GROUP, SN_AXIS_SEQ);
    p->update = sn_ix_add(p->m, first, m);
    sn_lower_guard(lw, &lw->mask, p->update, sn_ix_const(p->m, p->count));
    sn_ix row = sn_ix_modc(p->m, sn_ix_val(p->m, sn_put_load(p->m, lw->at, p->places, m)), p->room);
    sn_ix start = sn_ix_scale(p->m, row, p->width);
    for_elements(p, p->width, put_update, &start);
    lw->mask = (sn_val){0};
}

static void put_parts(parts *p, sn_comb comb, sn_buf to) {
    sn_lower *lw = p->lw;
    sn_ix g = open_loop(p, "g", p->number, SN_AXIS_GRID);
    sn_cursor body = lw->at;
    for_elements(p, (p->rows + 1) * p->width, put_identity, &comb);
    sn_ix c = open_loop(p, "c", p->length / GROUP, SN_AXIS_SEQ);
    put_group(p, sn_ix_add(p->m, sn_ix_scale(p->m, g, p->length), sn_ix_scale(p->m, c, GROUP)));
    lw->at = body;
    for_elements(p, p->rows * p->width, put_result, &(result){to, g});
}

/* Long enough that rows are not most of the work, and short enough that a row which takes all of them is as exact as other
 * sums; but not so short that parts are larger than what they add up. */
static int64_t longest_part(int64_t rows) {
    int64_t n = rows * TIMES_ROWS < MOST_UPDATES ? rows * TIMES_ROWS : MOST_UPDATES;
    if (n < UPDATES) n = UPDATES;
    return n < 2 * rows ? 2 * rows : n;
}

sn_comb sn_lower_scatter_parts(sn_buf *out, int64_t *number, sn_lower *lw, sn_nd x) {
    sn_module *m = lw->m;
    const sn_node_rec *n = sn_node_get(m, x);
    sn_comb comb = COMBS[n->op];
    parts p = {.lw = lw, .m = m, .index = n->in[1], .updates = n->in[2], .combine = sn_comb_lops[comb]};
    p.type = &sn_node_get(m, p.updates)->type;
    p.dtype = n->type.dtype;
    p.rows = sn_ix_value(m, n->type.shape[0]), p.count = sn_ix_value(m, p.type->shape[0]);
    p.width = sn_ix_value(m, sn_ix_product(m, p.type->shape + 1, p.type->rank - 1));
    p.number = sn_ceil_div(p.count, longest_part(p.rows));
    p.length = sn_ceil_div(sn_ceil_div(p.count, p.number), GROUP) * GROUP;
    p.number = sn_ceil_div(p.count, p.length);
    for (p.room = 1; p.room <= p.rows;) p.room *= 2;
    sn_type type = {.dtype = p.dtype, .rank = 2, .shape = {sn_ix_const(m, p.number)}};
    type.shape[1] = sn_ix_const(m, p.rows * p.width);
    *out = sn_lower_temp(lw, &type);
    *number = p.number;
    sn_lower_begin(lw);
    p.sums = new_local(&p, "sums", p.dtype, p.room * p.width);
    p.places = new_local(&p, "places", SN_I32, GROUP);
    put_parts(&p, comb, *out);
    sn_kern_get(m, lw->kern)->scheduled = true;
    sn_lower_end(lw, "scatter parts");
    return comb;
}
