/* mma.c: see mma.h. Builder and matcher are one: what the matcher reads off a nest it puts into the formulas that the
 * builder uses, and compares ids.
 */
#include "ir/loop/mma.h"

enum { K, BOTH, WARP = 32 };

const sn_mma_info sn_mmas[SN_N_MMAS] = {
    [SN_MMA_NONE] = {"", 0, 0, 0, 0, 0, 0, SN_F32, SN_F32, false, "none"},
#define SN_MMA(ID, name, sm, m, n, k, threads, rate, operand, state, sides, doc)                                       \
    [SN_MMA_##ID] = {name, sm, m, n, k, threads, rate, SN_##operand, SN_##state, sides == BOTH, doc},
#include "ir/loop/mma.def"
#undef SN_MMA
};

/* ---- formulas ---- */

static const sn_mma_info *info(const sn_mma_nest *n) { return &sn_mmas[n->mma]; }
static uint32_t groups(const sn_mma_nest *n) { return n->threads / info(n)->threads; }

uint32_t sn_mma_private(const sn_mma_nest *n) { return n->tiles_m * n->tiles_n * sn_mma_elements(n->mma); }
int64_t sn_mma_rows(const sn_mma_nest *n) { return (int64_t)info(n)->m * n->tiles_m * (groups(n) / n->columns); }
int64_t sn_mma_columns(const sn_mma_nest *n) { return (int64_t)info(n)->n * n->tiles_n * n->columns; }

static sn_ix lane_of(sn_module *m, sn_ix x) { return sn_ix_modc(m, x, WARP); }

sn_ix sn_mma_row(sn_module *m, const sn_mma_nest *n, sn_ix x, sn_ix h, sn_ix e) {
    int64_t threads = info(n)->threads;
    sn_ix group = sn_ix_divc(m, sn_ix_divc(m, x, threads), n->columns);
    sn_ix warp = sn_ix_divc(m, sn_ix_modc(m, x, threads), WARP);
    sn_ix block = sn_ix_fma(m, n->tiles_m, group, h);
    sn_ix inside = sn_ix_fma(m, 8, sn_ix_divc(m, e, 2), sn_ix_divc(m, lane_of(m, x), 4));
    return sn_ix_fma(m, info(n)->m, block, sn_ix_fma(m, 16, warp, inside));
}

sn_ix sn_mma_column(sn_module *m, const sn_mma_nest *n, sn_ix x, sn_ix j, sn_ix e) {
    sn_ix group = sn_ix_modc(m, sn_ix_divc(m, x, info(n)->threads), n->columns);
    sn_ix block = sn_ix_fma(m, n->tiles_n, group, j);
    sn_ix inside = sn_ix_fma(m, 2, sn_ix_modc(m, lane_of(m, x), 4), sn_ix_modc(m, e, 2));
    return sn_ix_fma(m, info(n)->n, block, inside);
}

sn_ix sn_mma_element(sn_module *m, const sn_mma_nest *n, sn_ix x, sn_ix h, sn_ix j, sn_ix e) {
    sn_ix block = sn_ix_fma(m, n->tiles_n, h, j), thread = sn_ix_fma(m, n->threads, n->rank, x);
    return sn_ix_fma(m, sn_mma_private(n), thread, sn_ix_fma(m, sn_mma_elements(n->mma), block, e));
}

uint32_t sn_mma_neighbours(sn_mma mma) { return 4 / sn_dtype_bytes(sn_mmas[mma].operand); }

/* Rows of 16 for each warp, k steps: half a row of k for each of its 32 lanes. */
uint32_t sn_mma_fragment_private(const sn_mma_nest *n) { return n->tiles_m * (uint32_t)n->depth / 2; }

sn_ix sn_mma_fragment_element(sn_module *m, const sn_mma_nest *n, sn_ix x, sn_ix h, sn_ix e, sn_ix q) {
    int64_t k = info(n)->k, c = sn_mma_neighbours(n->mma), step = k / 2;
    sn_ix lane = sn_ix_modc(m, sn_ix_divc(m, q, c), 4), owner = sn_ix_fma(m, 4, sn_ix_divc(m, x, 4), lane);
    sn_ix half = sn_ix_fma(m, 2, sn_ix_divc(m, sn_ix_modc(m, q, k), 4 * c), sn_ix_divc(m, e, 2));
    sn_ix element = sn_ix_fma(m, c, half, sn_ix_modc(m, q, c));
    sn_ix at = sn_ix_fma(m, step, sn_ix_fma(m, n->depth / k, h, sn_ix_divc(m, q, k)), element);
    return sn_ix_fma(m, sn_mma_fragment_private(n), sn_ix_fma(m, n->threads, n->rank, owner), at);
}

/* Rows that overlap. */
static sn_ix overlapping(sn_module *m, const sn_mma_operand *o, sn_ix row, sn_ix q) {
    sn_ix inside = sn_ix_fma(m, o->width, row, sn_ix_modc(m, q, o->run));
    sn_ix offset = sn_ix_fma(m, o->jump, sn_ix_divc(m, q, o->run), inside);
    return o->at.i ? sn_ix_add(m, o->at, offset) : offset;
}

sn_ix sn_mma_offset(sn_module *m, const sn_mma_operand *o, int64_t depth, sn_ix row, sn_ix q) {
    if (o->run) return overlapping(m, o, row, q);
    sn_ix along = o->across ? row : q, other = o->across ? q : row;
    int64_t rows = !o->across ? o->rows : o->steps ? o->steps : depth;
    sn_ix block = sn_ix_divc(m, along, o->width), inside = sn_ix_modc(m, along, o->width);
    sn_ix offset = sn_ix_fma(m, rows * o->width, block, sn_ix_fma(m, o->width, other, inside));
    return o->at.i ? sn_ix_add(m, o->at, offset) : offset;
}

sn_ix sn_cluster_rank(sn_module *m, sn_stmt parent) {
    for (sn_stmt s = parent; s.i; s = sn_stmt_get(m, s)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_is_nest(r) && r->kind == SN_AXIS_CLUSTER) return sn_ix_axis(m, r->axis);
    }
    return sn_ix_const(m, 0);
}

sn_ix sn_shared_of_rank(sn_module *m, sn_buf shared, sn_ix rank, sn_ix offset) {
    return sn_ix_fma(m, sn_buf_get(m, shared)->private_size, rank, offset);
}

/* ---- building ---- */

static sn_ix open_loop(sn_module *m, sn_cursor *at, const char *name, int64_t extent, sn_axis_kind kind) {
    sn_axis ax = sn_axis_new(m, name, sn_ix_const(m, extent));
    *at = sn_at_end(at->kern, sn_put_loop(m, *at, ax, kind));
    return sn_ix_axis(m, ax);
}

static sn_ix shared_offset(sn_module *m, const sn_mma_nest *n, const sn_mma_operand *o, sn_ix row, sn_ix q) {
    return sn_shared_of_rank(m, o->buf, n->rank, sn_mma_offset(m, o, n->depth, row, q));
}

static sn_val put_operand(sn_module *m, sn_cursor at, const sn_mma_nest *n, const sn_mma_operand *o, sn_ix offset) {
    return sn_put_cast(m, at, info(n)->state, sn_put_load(m, at, o->buf, offset));
}

sn_stmt sn_mma_put(sn_module *m, sn_cursor at, const sn_mma_nest *n) {
    static const sn_comb SUM[] = {SN_COMB_SUM};
    sn_ix x = open_loop(m, &at, "x", n->threads, SN_AXIS_BLOCK_X);
    sn_stmt top = at.parent;
    sn_stmt_get(m, top)->mma = n->mma;
    sn_stmt_get(m, top)->mma_columns = n->columns;
    sn_ix h = open_loop(m, &at, "h", n->tiles_m, SN_AXIS_UNROLL),
          j = open_loop(m, &at, "j", n->tiles_n, SN_AXIS_UNROLL);
    sn_ix e = open_loop(m, &at, "e", sn_mma_elements(n->mma), SN_AXIS_UNROLL);
    sn_axis depth = sn_axis_new(m, "q", sn_ix_const(m, n->depth));
    sn_stmt sum = sn_put_reduce(m, at, depth, SN_AXIS_SEQ, SUM, 1, &info(n)->state);
    sn_cursor in = sn_at_end(at.kern, sum);
    sn_ix q = sn_ix_axis(m, depth);
    sn_ix of_a = n->a.in_registers ? sn_mma_fragment_element(m, n, x, h, e, q)
                                   : shared_offset(m, n, &n->a, sn_mma_row(m, n, x, h, e), q);
    sn_val a = put_operand(m, in, n, &n->a, of_a);
    sn_val b = put_operand(m, in, n, &n->b, shared_offset(m, n, &n->b, sn_mma_column(m, n, x, j, e), q));
    sn_val product = sn_put_op2(m, in, SN_LOP_MUL, a, b);
    sn_put_yield(m, in, &product, 1);
    sn_ix element = sn_mma_element(m, n, x, h, j, e);
    sn_val before = sn_put_load(m, at, n->state, element);
    sn_put_store(m, at, n->state, element, sn_put_op2(m, at, SN_LOP_ADD, before, sn_stmt_get(m, sum)->result));
    return top;
}

/* ---- matching ---- */

typedef struct matcher {
    sn_module *m;
    sn_mma_nest *n;
    const char *why;
    sn_ix x, h, j, e, q;
} matcher;

static bool refuse(matcher *t, const char *why) {
    t->why = why;
    return false;
}

/* The loop that is all of the region of `outer`, with a constant extent. */
static bool enter(matcher *t, sn_stmt *at, sn_ix *axis, int64_t *extent) {
    const sn_stmt_rec *r = sn_stmt_get(t->m, *at);
    sn_stmt inner = r->first;
    if (!inner.i || sn_stmt_get(t->m, inner)->next.i) return refuse(t, "its loops are no perfect nest");
    const sn_stmt_rec *s = sn_stmt_get(t->m, inner);
    if (s->op != SN_LOP_LOOP || s->kind != SN_AXIS_UNROLL) return refuse(t, "blocks and elements are written out");
    sn_ix_is_const(t->m, sn_axis_get(t->m, s->axis)->extent, extent);
    *axis = sn_ix_axis(t->m, s->axis);
    *at = inner;
    return true;
}

static const sn_stmt_rec *def_of(const matcher *t, sn_val v) { return sn_stmt_get(t->m, sn_val_get(t->m, v)->def); }

/* An offset at the first element of thread 0, without what the block's rank adds. */
static sn_ix begin_of(matcher *t, sn_ix e) {
    sn_ix zero = sn_ix_const(t->m, 0), axes[] = {t->x, t->h, t->j, t->e, t->q, t->n->rank};
    for (size_t i = 0; i < SN_COUNT(axes); i++) {
        const sn_ix_rec *r = sn_ix_get(t->m, axes[i]);
        sn_axis ax = {r->id};
        if (r->kind == SN_IX_AXIS) e = sn_ix_subst(t->m, e, &ax, &zero, 1);
    }
    return e;
}

/* The load of an operand's element. */
static const sn_stmt_rec *load_of(matcher *t, sn_val v) {
    const sn_stmt_rec *r = def_of(t, v);
    if (r->op == SN_LOP_CAST && r->dtype == info(t->n)->state) r = def_of(t, r->in[0]);
    return r->op == SN_LOP_LOAD && !r->has_mask && r->dtype == info(t->n)->operand ? r : NULL;
}

/* The left operand, loaded from the registers that have it. */
static bool find_fragment(matcher *t, sn_mma_operand *o, const sn_stmt_rec *r) {
    *o = (sn_mma_operand){.buf = r->buf, .in_registers = true};
    if (!sn_mma_is_async(t->n->mma)) return refuse(t, "its instruction takes no fragment");
    if (sn_buf_get(t->m, r->buf)->private_size != sn_mma_fragment_private(t->n) ||
        !sn_ix_eq(sn_mma_fragment_element(t->m, t->n, t->x, t->h, t->e, t->q), r->ix))
        return refuse(t, "its fragment lies otherwise in registers");
    return true;
}

static bool lies_so(matcher *t, sn_mma_operand *o, const sn_stmt_rec *r, sn_ix row, bool across, int64_t steps) {
    const sn_buf_rec *b = sn_buf_get(t->m, r->buf);
    o->across = across;
    o->steps = steps;
    o->width = b->swizzle ? b->swizzle / sn_dtype_bytes(b->dtype) : across ? o->rows : t->n->depth;
    o->at = begin_of(t, r->ix);
    return sn_ix_eq(shared_offset(t->m, t->n, o, row, t->q), r->ix);
}

/* What an offset is at step q of the first element of thread 0. */
static bool at_step(int64_t *out, matcher *t, sn_ix e, int64_t q) {
    sn_axis depth = {sn_ix_get(t->m, t->q)->id};
    sn_ix step = sn_ix_const(t->m, q);
    return sn_ix_is_const(t->m, begin_of(t, sn_ix_subst(t->m, e, &depth, &step, 1)), out);
}

/* Rows that overlap, for instructions of a warp: they begin with a piece, and the next steps lie whole pieces on. */
static bool finds_overlap(matcher *t, sn_mma_operand *o, const sn_stmt_rec *r, sn_ix row) {
    enum { PIECE = 16 };
    const sn_buf_rec *b = sn_buf_get(t->m, r->buf);
    int64_t k = info(t->n)->k, begin, next = 0;
    if (sn_mma_is_async(t->n->mma) || k * sn_dtype_bytes(b->dtype) != 2 * PIECE) return false;
    *o = (sn_mma_operand){.buf = r->buf, .rows = o->rows, .width = PIECE / sn_dtype_bytes(b->dtype)};
    if (b->swizzle || !at_step(&begin, t, r->ix, 0) || begin % o->width) return false;
    o->at = sn_ix_const(t->m, begin);
    for (o->run = k; o->run <= t->n->depth; o->run += k) {
        if (t->n->depth % o->run) continue;
        if (o->run < t->n->depth && !at_step(&next, t, r->ix, o->run)) return false;
        o->jump = o->run < t->n->depth ? next - begin : 0;
        if (o->jump < 0 || o->jump % o->width) continue;
        if (sn_ix_eq(shared_offset(t->m, t->n, o, row, t->q), r->ix)) return true;
    }
    return false;
}

/* An operand that is loaded from shared memory at (row, q). What lies there may have 2, 4, .. times the steps of the nest. */
static bool find_operand(matcher *t, sn_mma_operand *o, const sn_stmt_rec *r, int64_t rows, sn_ix row) {
    enum { MOST = 16 };
    const sn_mma_info *mma = info(t->n);
    if (!r) return refuse(t, "an operand is no element");
    const sn_buf_rec *b = sn_buf_get(t->m, r->buf);
    if (b->scope != SN_BUF_SHARED) return refuse(t, "an operand is not in shared memory");
    if (sn_mma_is_async(t->n->mma) && !b->swizzle) return refuse(t, "lines of an operand are not permuted");
    *o = (sn_mma_operand){.buf = r->buf, .rows = rows};
    for (int across = 0; across <= mma->across; across++)
        for (int64_t times = 1; times <= (across ? MOST : 1); times *= 2)
            if (lies_so(t, o, r, row, across, times * t->n->depth)) return true;
    if (finds_overlap(t, o, r, row)) return true;
    for (int64_t lines = 1; lines <= SN_MMA_LINES && mma->across && sn_mma_is_async(t->n->mma); lines++)
        if (lies_so(t, o, r, row, true, lines)) return true;
    return refuse(t, "an operand lies otherwise in shared memory");
}

static bool find_products(matcher *t, const sn_stmt_rec *sum) {
    sn_mma_nest *n = t->n;
    const sn_stmt_rec *yield = sn_stmt_get(t->m, sum->last);
    const sn_stmt_rec *product = def_of(t, yield->in[0]);
    int64_t depth;
    if (sum->n_combs != 1 || sum->combs[0] != SN_COMB_SUM || product->op != SN_LOP_MUL)
        return refuse(t, "it adds up no products");
    if (!sn_ix_is_const(t->m, sn_axis_get(t->m, sum->axis)->extent, &depth) || depth % info(n)->k)
        return refuse(t, "the length of the sum is no multiple of the instruction's");
    n->depth = depth;
    t->q = sn_ix_axis(t->m, sum->axis);
    const sn_stmt_rec *a = load_of(t, product->in[0]), *b = load_of(t, product->in[1]);
    sn_ix row = sn_mma_row(t->m, n, t->x, t->h, t->e), column = sn_mma_column(t->m, n, t->x, t->j, t->e);
    bool in_registers = a && sn_buf_get(t->m, a->buf)->scope == SN_BUF_REG;
    return (in_registers ? find_fragment(t, &n->a, a) : find_operand(t, &n->a, a, sn_mma_rows(n), row)) &&
           find_operand(t, &n->b, b, sn_mma_columns(n), column);
}

/* The innermost region: reduce, load, add, store. */
static bool find_state(matcher *t, sn_stmt innermost) {
    sn_mma_nest *n = t->n;
    const sn_stmt_rec *store = sn_stmt_get(t->m, sn_stmt_get(t->m, innermost)->last);
    if (store->op != SN_LOP_STORE || store->has_mask) return refuse(t, "it ends in no store");
    const sn_stmt_rec *add = def_of(t, store->in[0]);
    if (add->op != SN_LOP_ADD) return refuse(t, "it does not add");
    const sn_stmt_rec *load = def_of(t, add->in[0]), *sum = def_of(t, add->in[1]);
    uint32_t n_stmts = 0;
    for (sn_stmt s = sn_stmt_get(t->m, innermost)->first; s.i; s = sn_stmt_get(t->m, s)->next) n_stmts++;
    if (load->op != SN_LOP_LOAD || sum->op != SN_LOP_REDUCE || n_stmts != 4) return refuse(t, "it does not add a sum");
    n->state = store->buf;
    const sn_buf_rec *b = sn_buf_get(t->m, n->state);
    sn_ix element = sn_mma_element(t->m, n, t->x, t->h, t->j, t->e);
    if (b->scope != SN_BUF_REG || b->dtype != info(n)->state || b->private_size != sn_mma_private(n) ||
        !sn_ix_eq(element, store->ix) || !sn_ix_eq(element, load->ix) || !sn_buf_eq(load->buf, n->state))
        return refuse(t, "its registers are others");
    return find_products(t, sum);
}

static bool find(matcher *t, sn_stmt s) {
    sn_mma_nest *n = t->n;
    const sn_stmt_rec *r = sn_stmt_get(t->m, s);
    int64_t threads = 0, tiles_m = 0, tiles_n = 0, elements = 0;
    if (r->op != SN_LOP_LOOP || r->kind != SN_AXIS_BLOCK_X) return refuse(t, "it stands on a loop over block.x");
    n->mma = (sn_mma)r->mma;
    n->rank = sn_cluster_rank(t->m, r->parent);
    n->columns = r->mma_columns;
    sn_ix_is_const(t->m, sn_axis_get(t->m, r->axis)->extent, &threads);
    if (!n->columns || threads <= 0 || threads % (info(n)->threads * n->columns))
        return refuse(t, "the threads are no groups of the instruction's");
    n->threads = (uint32_t)threads;
    t->x = sn_ix_axis(t->m, r->axis);
    if (!enter(t, &s, &t->h, &tiles_m) || !enter(t, &s, &t->j, &tiles_n) || !enter(t, &s, &t->e, &elements))
        return false;
    enum { WIDEST = 256 };
    if (tiles_m < 1 || tiles_n < 1 || (sn_mma_is_async(n->mma) && tiles_n * info(n)->n > WIDEST))
        return refuse(t, "a group has no such blocks");
    if (elements != sn_mma_elements(n->mma)) return refuse(t, "a thread has other elements of a block");
    n->tiles_m = (uint32_t)tiles_m;
    n->tiles_n = (uint32_t)tiles_n;
    return find_state(t, s);
}

bool sn_mma_find(sn_mma_nest *out, const char **why_not, sn_module *m, sn_stmt s) {
    matcher t = {.m = m, .n = out};
    *out = (sn_mma_nest){0};
    bool found = find(&t, s);
    if (!found) *why_not = t.why;
    return found;
}

sn_status sn_mma_verify(sn_module *m, const char *where) {
    for (uint32_t i = 0; i < m->kernels.n; i++)
        for (sn_stmt s = sn_stmt_walk_first(m, m->kernels.at[i]); s.i; s = sn_stmt_walk_next(m, s)) {
            sn_mma_nest nest;
            const char *why;
            if (!sn_stmt_get(m, s)->mma || sn_mma_find(&nest, &why, m, s)) continue;
            return sn_stmt_fail(m, SN_ERROR_VERIFY, where, s, "L27: no nest of mma(%s): %s",
                                sn_mmas[sn_stmt_get(m, s)->mma].name, why);
        }
    return SN_OK;
}
