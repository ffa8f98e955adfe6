/* deal_rows.c: class deal for rows that are looked up: a block has whole rows of the result in shared memory, to which
 * it deals out what the rows lie in.
 *
 *     loop i in 66099 { loop j in 251 { %0 = load r[i]   %1 = load x[251*%0 + j]   store y[251*i + j], %1 } }
 *
 *     loop g : grid {                                                      R rows
 *       loop t : block.x {
 *         loop u : unroll { piece (t + T*u) mod P of row (t + T*u) div P, aligned, whatever is in it, to registers }
 *         loop u : unroll { loop v { its elements that are the row's to s[row's length * row + place in it] } }
 *       }
 *       loop t : block.x { loop u { loop v { the body; what it had from the rows is in s } } }
 *     }
 *
 * For bytes and halves whose rows begin anywhere. Lanes of class element wait for the row of one run, then for that of
 * the next; here all rows of a block are on their way together, by accesses of 8 bytes. What the storage has behind its
 * last whole piece comes by itself, where a row has some of it.
 *
 * Fields: tile_m rows of a block, vector elements of a piece.
 */
#include "passes/schedule/moves/deal.h"
#include "ir/loop/runs.h"
#include "passes/schedule/base/figures.h"
#include "passes/schedule/base/schedules.h"

/* ---- which kernels ---- */

typedef struct looked_up {
    uint32_t position; /* of the load, in the body */
    sn_buf buf;
    sn_val top;
    sn_ix start;             /* of a row, by the loops around it and values */
    int64_t row, rows, size; /* elements of a row; rows of the result; elements of the storage */
    uint32_t bytes, stored;  /* of an element; of the largest one of the result */
} looked_up;

/* The rest of the body: stores and loads that walk the result, and loads that are the same for all of a row. */
static bool is_flat(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_stmt_rec *r, uint32_t *stored) {
    sn_module *m = cx->m;
    bool store = r->op == SN_LOP_STORE;
    if (r->op == SN_LOP_LOAD && !sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, sh->body))) return true;
    if ((r->op != SN_LOP_LOAD && !store) || r->has_mask || !sn_schedule_walks_all(m, sh, r->ix)) return false;
    if (store && sn_kern_loads(m, k, r->buf)) return false;
    uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, r->buf)->dtype);
    if (sn_ix_get(m, r->ix)->c0 || sn_buf_get(m, r->buf)->align < SN_WIDEST_ACCESS) return false;
    if (bytes > *stored) *stored = bytes;
    return true;
}

static bool take_load(looked_up *l, sn_module *m, const sn_schedule_shape *sh, const sn_stmt_rec *r) {
    sn_axis ax = sn_stmt_axis(m, sh->body);
    int64_t c;
    const sn_buf_rec *b = sn_buf_get(m, r->buf);
    if (l->buf.i || r->has_mask || sn_buf_is_local(b) || !sn_ix_coef(m, r->ix, ax, &c) || c != 1) return false;
    l->buf = r->buf;
    l->top = r->result;
    l->bytes = sn_dtype_bytes(b->dtype);
    l->start = sn_ix_sub(m, r->ix, sn_ix_axis(m, ax));
    sn_range at = sn_ix_range(m, l->start);
    return sn_ix_is_const(m, b->size, &l->size) && at.lo >= 0 && at.hi <= l->size - l->row;
}

static bool find_looked_up(looked_up *l, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    sn_module *m = cx->m;
    *l = (looked_up){.position = 0};
    if (sh->outer.n < 2 || sh->rows < 1 || sh->n_nests || sh->scans) return false;
    l->row = sn_last_outer_extent(cx, sh);
    l->rows = sh->rows / l->row;
    uint32_t at = 0;
    bool stores = false;
    for (sn_stmt s = sn_stmt_get(m, sh->body)->first; s.i; s = sn_next(m, s), at++) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        const sn_lop_info *op = &sn_lops[r->op];
        if (op->has_region || op->syncs || op->ordered || op->has_combs || r->n_results > 1) return false;
        if (!sn_is_access(r)) continue;
        stores |= r->op == SN_LOP_STORE;
        if (!sn_ix_uses_vals(m, r->ix)) {
            if (!is_flat(cx, k, sh, r, &l->stored)) return false;
            continue;
        }
        if (r->op != SN_LOP_LOAD || !take_load(l, m, sh, r)) return false;
        l->position = at;
    }
    /* What finds a row has to be the same for all of it: an index of each element is none of that. */
    sn_runs runs;
    return stores && l->buf.i && l->stored && sn_runs_find(&runs, m, sh->body, cx->scratch);
}

bool sn_schedule_deal_rows_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    looked_up l;
    *why_not = "rows that are dealt out are looked up, on a GPU";
    return cx->target->is_gpu && find_looked_up(&l, cx, k, sh);
}

/* ---- choosing ---- */

/* Pieces that a row has a part of, at most. */
static int64_t pieces_of(const looked_up *l, int64_t piece) { return (l->row + piece - 2) / piece + 1; }

/* Rows that words begin are lines of these. Bytes take an instruction each on their way, which pays where lanes of class element would have
 * several runs in each vector; and of long rows of halves few end inside of vectors. */
static bool pays(sn_pass_ctx *cx, const looked_up *l) {
    sn_module *m = cx->m;
    int64_t bytes = l->row * l->bytes, most = l->bytes == 1 ? cx->target->vector_bytes - 1 : SN_DEAL_ROW;
    if (l->bytes >= SN_TILE_WORD || l->row < 2 || bytes > most) return false;
    if (sn_ix_is_multiple(m, l->start, SN_TILE_WORD / l->bytes) && bytes % SN_TILE_WORD == 0) return false;
    if (l->rows * bytes < (int64_t)SN_DEAL_BLOCK * cx->target->units * SN_DEAL_BLOCKS) return false;
    return l->rows * l->row <= INT32_MAX / l->stored && sn_buf_bytes(m, l->buf) <= INT32_MAX;
}

/* As narrow as leaves no more of them. */
static uint32_t choose_piece(const looked_up *l) {
    uint32_t v = SN_DEAL_PIECE / l->bytes;
    while (v > 1 && pieces_of(l, v / 2) == pieces_of(l, v)) v /= 2;
    return v;
}

/* Rows of a block: whole sectors, as many as its threads have pieces of at a time. */
static int64_t rows_of_block(const looked_up *l, const sn_sched *sc) {
    int64_t unit = SN_SECTOR / sn_schedule_gcd(SN_SECTOR, l->row * l->bytes);
    int64_t rows = SN_DEAL_BLOCK / (l->row * l->bytes),
            most = SN_DEAL_TURNS * (int64_t)sc->block_x / pieces_of(l, sc->vector);
    if (most < rows) rows = most;
    return rows > unit ? rows / unit * unit : unit;
}

sn_status sn_schedule_deal_rows_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh,
                                           const sn_sched *pinned) {
    looked_up l;
    sn_sched sc = *pinned;
    const char *name = sn_kern_get(cx->m, k)->name;
    find_looked_up(&l, cx, k, sh);
    if (pinned->cls == SN_SCHED_NONE && !pays(cx, &l)) return SN_OK;
    sc.cls = SN_SCHED_DEAL;
    if (!sc.block_x) sc.block_x = SN_DEAL_THREADS;
    if (!sc.vector) sc.vector = choose_piece(&l);
    if (!sc.tile_m) sc.tile_m = (uint32_t)rows_of_block(&l, &sc);
    sc.block_y = 1;
    if (!sc.min_blocks) sc.min_blocks = SN_DEAL_RESIDENT * SN_DEAL_THREADS / sc.block_x;
    if (sc.tile_m * l.row * l.stored % cx->target->vector_bytes ||
        sc.tile_m * l.row * l.bytes > cx->target->shared_bytes / 2)
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT,
                       "kernel %s: the schedule's tile_m=%u rows are no whole vectors, or more than shared memory",
                       name, sc.tile_m);
    SN_TRY(sn_schedule_check_dealt(cx, k, sc.block_x, cx->target->vector_bytes / l.stored));
    const sn_buf_rec *b = sn_buf_get(cx->m, l.buf);
    if ((sc.vector & (sc.vector - 1)) || b->align < sc.vector * l.bytes || l.size < sc.vector ||
        sc.vector * l.bytes > cx->target->vector_bytes) {
        if (pinned->cls == SN_SCHED_NONE) return SN_OK;
        return sn_fail(cx->m->env, SN_ERROR_ARGUMENT, "kernel %s: %s has no pieces of the schedule's vector=%u", name,
                       b->name, sc.vector);
    }
    sn_schedule_propose(out, cx, &sc);
    return SN_OK;
}

/* ---- binding ---- */

typedef struct dealer {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    const sn_schedule_shape *sh;
    looked_up l;
    int64_t threads, piece, block, turns,
        front; /* rows of a block; pieces of a thread; elements before the first row */
    sn_buf starts, shared, regs;
    sn_ix g;
} dealer;

/* Where rows of the block begin in the storage, once for each. Behind the last row of the result it is that one again. */
static void put_starts(dealer *d, sn_stmt into, sn_stmt_vec *body) {
    sn_module *m = d->m;
    sn_axis axes[SN_MAX_CHAIN];
    sn_ix extents[SN_MAX_CHAIN], with[SN_MAX_CHAIN];
    uint32_t n = d->sh->outer.n;
    sn_ix t = sn_open_loop_in(m, d->k, &into, "t", d->threads, SN_AXIS_BLOCK_X);
    sn_ix u = sn_open_loop_in(m, d->k, &into, "u", sn_ceil_div(d->block, d->threads), SN_AXIS_UNROLL);
    sn_ix row = sn_ix_fma(m, d->threads, u, t);
    if (d->block % d->threads) into = sn_put_if(m, sn_at_end(d->k, into), row, sn_ix_const(m, d->block));
    sn_stmt_vec copy = sn_schedule_copy_body(d->cx, d->k, body);
    for (uint32_t p = 0; p < n; p++) {
        axes[p] = sn_stmt_axis(m, d->sh->outer.at[p]);
        extents[p] = sn_stmt_extent(m, d->sh->outer.at[p]);
    }
    sn_ix number = sn_ix_min(m, sn_ix_fma(m, d->block, d->g, row), sn_ix_const(m, d->l.rows - 1));
    sn_ix_unflatten(m, number, extents, n - 1, with);
    with[n - 1] = sn_ix_const(m, 0);
    for (uint32_t i = 0; i < d->l.position; i++) {
        sn_stmt s = copy.at[i];
        if (sn_stmt_get(m, s)->op == SN_LOP_STORE) continue;
        sn_stmt_insert(m, sn_at_end(d->k, into), s);
        sn_stmt_subst(m, s, axes, with, n);
    }
    sn_ix start = sn_ix_subst(m, sn_stmt_get(m, copy.at[d->l.position])->ix, axes, with, n);
    sn_cursor end = sn_at_end(d->k, into);
    sn_ix to = sn_ix_min(m, row, sn_ix_const(m, d->block - 1));
    sn_put_store(m, end, d->starts, to, sn_put_index(m, end, SN_I32, start));
}

static sn_ix put_start(dealer *d, sn_stmt into, sn_ix row) {
    sn_module *m = d->m;
    sn_val x = sn_put_load(m, sn_at_end(d->k, into), d->starts, sn_ix_min(m, row, sn_ix_const(m, d->block - 1)));
    sn_ix start = sn_ix_min(m, sn_ix_val(m, x), sn_ix_const(m, d->l.size - d->l.row));
    return sn_ix_max(m, start, sn_ix_const(m, 0));
}

static int64_t whole_pieces(const dealer *d) { return d->l.size / d->piece; }

/* What a thread has of the rows of a block: number u of its pieces. */
typedef struct item {
    sn_ix row, piece, kept;
} item;

static item item_of(const dealer *d, sn_ix t, sn_ix u) {
    sn_module *m = d->m;
    int64_t pieces = pieces_of(&d->l, d->piece);
    sn_ix q = sn_ix_fma(m, d->threads, u, t);
    sn_ix kept = sn_ix_fma(m, d->turns * d->piece, t, sn_ix_scale(m, u, d->piece));
    return (item){sn_ix_divc(m, q, pieces), sn_ix_modc(m, q, pieces), kept};
}

/* Pieces behind the last one that has something of the row are that one once more. */
static void put_loads(dealer *d, sn_stmt into, sn_ix t) {
    sn_module *m = d->m;
    sn_ix u = sn_open_loop_in(m, d->k, &into, "u", d->turns, SN_AXIS_UNROLL);
    item it = item_of(d, t, u);
    sn_ix start = put_start(d, into, it.row);
    sn_ix last = sn_ix_divc(m, sn_ix_addc(m, start, d->l.row - 1), d->piece);
    if (d->l.size % d->piece) last = sn_ix_min(m, last, sn_ix_const(m, whole_pieces(d) - 1));
    sn_ix at = sn_ix_min(m, sn_ix_add(m, sn_ix_divc(m, start, d->piece), it.piece), last);
    sn_ix lane = sn_open_loop_in(m, d->k, &into, "v", d->piece, SN_AXIS_VECTOR);
    sn_cursor end = sn_at_end(d->k, into);
    sn_val x = sn_put_load(m, end, d->l.buf, sn_ix_fma(m, d->piece, at, lane));
    sn_put_store(m, end, d->regs, sn_ix_add(m, it.kept, lane), x);
}

static void put_places(dealer *d, sn_stmt into, sn_ix t) {
    sn_module *m = d->m;
    sn_ix u = sn_open_loop_in(m, d->k, &into, "u", d->turns, SN_AXIS_UNROLL);
    item it = item_of(d, t, u);
    sn_ix start = put_start(d, into, it.row), n = sn_ix_const(m, d->l.row);
    if (d->l.size % d->piece) n = sn_ix_min(m, n, sn_ix_sub(m, sn_ix_const(m, whole_pieces(d) * d->piece), start));
    sn_ix lane = sn_open_loop_in(m, d->k, &into, "v", d->piece, SN_AXIS_VECTOR);
    sn_ix place = sn_ix_sub(m, sn_ix_fma(m, d->piece, it.piece, lane), sn_ix_modc(m, start, d->piece));
    sn_cursor end = sn_at_end(d->k, into);
    sn_val is_own = sn_put_in(m, end, place, n), x = sn_put_load(m, end, d->regs, sn_ix_add(m, it.kept, lane));
    sn_ix to = sn_ix_addc(m, sn_ix_fma(m, d->l.row, it.row, place), d->front);
    sn_put_store_masked(m, end, d->shared, to, x, is_own);
}

/* What the storage has behind its last whole piece, of rows that have some of that. */
static void put_rest(dealer *d, sn_stmt into, sn_ix t) {
    sn_module *m = d->m;
    int64_t whole = whole_pieces(d) * d->piece, rest = d->l.size - whole;
    if (!rest) return;
    sn_ix u = sn_open_loop_in(m, d->k, &into, "u", sn_ceil_div(d->block, d->threads), SN_AXIS_SEQ);
    sn_ix row = sn_ix_fma(m, d->threads, u, t);
    if (d->block % d->threads) into = sn_put_if(m, sn_at_end(d->k, into), row, sn_ix_const(m, d->block));
    sn_ix start = put_start(d, into, row);
    into = sn_put_if(m, sn_at_end(d->k, into), sn_ix_addc(m, start, d->l.row - 1 - whole), sn_ix_const(m, rest));
    sn_ix e = sn_open_loop_in(m, d->k, &into, "e", rest, SN_AXIS_UNROLL);
    sn_ix place = sn_ix_sub(m, sn_ix_addc(m, e, whole), start);
    sn_cursor end = sn_at_end(d->k, into);
    sn_val is_own = sn_put_in(m, end, place, sn_ix_const(m, d->l.row));
    sn_val x = sn_put_load(m, end, d->l.buf, sn_ix_addc(m, e, whole));
    place = sn_ix_max(m, sn_ix_min(m, place, sn_ix_const(m, d->l.row - 1)), sn_ix_const(m, 0));
    row = sn_ix_min(m, row, sn_ix_const(m, d->block - 1));
    sn_put_store_masked(m, end, d->shared, sn_ix_addc(m, sn_ix_fma(m, d->l.row, row, place), d->front), x, is_own);
}

void sn_schedule_deal_rows_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    dealer d = {.cx = cx, .m = m, .k = k, .sh = sh, .threads = sc->block_x, .piece = sc->vector, .block = sc->tile_m};
    find_looked_up(&d.l, cx, k, sh);
    const char *name = sn_kern_get(m, k)->name;
    sn_dtype t = sn_buf_get(m, d.l.buf)->dtype;
    int64_t pieces = pieces_of(&d.l, d.piece), v = cx->target->vector_bytes / d.l.stored;
    d.turns = sn_ceil_div(d.block * pieces, d.threads);
    d.front = cx->target->vector_bytes / d.l.bytes;
    int64_t dealt = sn_ceil_div(d.turns * d.threads, pieces) * d.l.row + d.piece * pieces;
    int64_t read = sn_ceil_div(d.block * d.l.row, v * d.threads) * v * d.threads;
    sn_stmt_vec body = {0};
    sn_schedule_take_body(&body, cx, k, sh);
    d.shared =
        sn_local_new(m, sn_strf(&m->arena, "%s_s", name), t, SN_BUF_SHARED, d.front + (dealt > read ? dealt : read), 1);
    d.starts = sn_local_new(m, sn_strf(&m->arena, "%s_i", name), SN_I32, SN_BUF_SHARED, d.block, 1);
    d.regs = sn_local_new(m, sn_strf(&m->arena, "%s_r", name), t, SN_BUF_REG, d.turns * d.piece, d.threads);
    sn_stmt into = {0};
    d.g = sn_open_loop_in(m, k, &into, "g", sn_ceil_div(d.l.rows, d.block), SN_AXIS_GRID);
    put_starts(&d, into, &body);
    sn_stmt threads = into;
    sn_ix x = sn_open_loop_in(m, k, &threads, "t", d.threads, SN_AXIS_BLOCK_X);
    put_loads(&d, threads, x);
    put_places(&d, threads, x);
    put_rest(&d, threads, x);
    sn_schedule_dealt rows = {.cx = cx,
                              .k = k,
                              .sh = sh,
                              .shared = d.shared,
                              .front = d.front,
                              .g = d.g,
                              .top = d.l.top,
                              .block = d.block * d.l.row,
                              .total = sh->rows,
                              .stored = d.l.stored,
                              .threads = d.threads};
    sn_schedule_put_dealt(&rows, into, &body);
}
