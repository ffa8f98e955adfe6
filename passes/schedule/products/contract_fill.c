/* contract_fill.c: operands of a matrix product that threads bring to shared memory.
 *
 *     loop x in 128 : block.x bulk { loop u in 8 : unroll { loop v in 8 : vector { %0 = load a[..]   store left[..], %0 } } }
 *
 * Pieces are 16 bytes where the operand is contiguous and aligned as far, else 8, 4, or one element; neighbours bring
 * neighbours. What stands in front of a factor (a scale, an activation, a gather) is computed here, once for all that
 * multiply by it: an element that is a load with no more than its index in front is copied, and may be under way
 * meanwhile. Outside of the operand is 0.
 */
#include "passes/schedule/products/contract_bind.h"

#include "ir/loop/access.h"

#include <math.h>

/* An operand on its way. */
typedef struct fill {
    sn_contract_binding *b;
    const sn_contraction_operand *o;
    uint32_t i;
    sn_val source;       /* what stands in shared memory, as the kernel has it */
    bool across;         /* it lies across the sum in memory */
    int64_t rows, depth; /* of the tile */
    sn_ix first, side;   /* step and row or column that the tile begins at */
} fill;

static const sn_stmt_rec *def_of(const sn_contract_binding *b, sn_val v) {
    return sn_stmt_get(b->m, sn_val_get(b->m, v)->def);
}

static int64_t extent_of_side(const fill *f) { return f->o->right ? f->b->ct.c.n : f->b->ct.c.m; }

/* ---- what is copied ---- */

static bool is_zero(const sn_contract_binding *b, sn_val v) {
    const sn_stmt_rec *r = def_of(b, v);
    return r->op == SN_LOP_CONST && r->f == 0 && !signbit(r->f) && r->i == 0;
}

bool sn_contract_copies(const sn_contract_binding *b, uint32_t i) {
    const sn_stmt_rec *r = def_of(b, b->ct.sources[i]);
    if (r->op != SN_LOP_LOAD || r->dtype != b->ct.operand || (r->has_mask && !is_zero(b, r->in[1]))) return false;
    return b->ct.reads_only && !sn_buf_is_local(sn_buf_get(b->m, r->buf));
}

/* ---- elements ---- */

static void start_copier(sn_contraction_copier *out, const fill *f, sn_cursor at, sn_ix place, sn_ix step) {
    sn_contract_binding *b = f->b;
    sn_contraction_place where = {b->batch, b->row, b->column, step};
    *(f->o->right ? &where.column : &where.row) = place;
    sn_contraction_copier_start(out, b->ct.cx, at, b->n_vals);
    out->n = sn_contraction_axes(out->axes, out->with, b->m, &b->ct.c, &where);
}

/* The operand at (place, step), 0 where the mask does not hold. */
static sn_val put_element(const fill *f, sn_cursor at, sn_ix place, sn_ix step, sn_val mask) {
    sn_contract_binding *b = f->b;
    sn_contraction_copier p;
    start_copier(&p, f, at, place, step);
    p.mask = mask;
    sn_val x = sn_contraction_copy(&p, f->source);
    bool load = def_of(b, f->source)->op == SN_LOP_LOAD, own = load && def_of(b, f->source)->has_mask;
    bool zero = load && (!own || is_zero(b, def_of(b, f->source)->in[1]));
    x = sn_put_cast(b->m, at, b->ct.operand, x);
    return mask.i && !zero ? sn_put_op3(b->m, at, SN_LOP_SELECT, mask, x, sn_put_const(b->m, at, b->ct.operand, 0)) : x;
}

/* ---- pieces ---- */

/* Row or column and step of element v of a piece. */
typedef struct spot {
    sn_ix place, step; /* in the tile */
} spot;

static spot spot_of(const fill *f, sn_ix line, sn_ix along) {
    return f->across ? (spot){along, line} : (spot){line, along};
}

/* Is a piece of n elements contiguous and aligned as far? Asked of the offset of the load, which the kernel has. */
static bool is_piece(const fill *f, int64_t n) {
    sn_contract_binding *b = f->b;
    sn_module *m = b->m;
    const sn_stmt_rec *load = def_of(b, f->source);
    int64_t c, bytes = sn_dtype_bytes(b->ct.operand), all = f->across ? extent_of_side(f) : b->ct.c.k;
    if (all % n) return false;
    if (load->op != SN_LOP_LOAD) return true; /* the loads in front of it are taken as they come */
    if (sn_ix_uses_vals(m, load->ix) && f->across) return false;
    sn_axis line = sn_axis_new(m, "i", sn_ix_const(m, f->across ? f->depth : f->rows)),
            number = sn_axis_new(m, "u", sn_ix_const(m, (f->across ? f->rows : f->depth) / n)),
            lane = sn_axis_new(m, "v", sn_ix_const(m, n));
    sn_ix along = sn_ix_fma(b->m, n, sn_ix_axis(m, number), sn_ix_axis(m, lane)), zero = sn_ix_const(m, 0);
    spot s = spot_of(f, sn_ix_axis(m, line), along);
    sn_axis axes[2 * SN_MAX_CHAIN];
    sn_ix with[2 * SN_MAX_CHAIN];
    sn_contraction_place where = {b->batch, b->row, b->column, sn_ix_add(m, f->first, s.step)};
    *(f->o->right ? &where.column : &where.row) = sn_ix_add(m, f->side, s.place);
    uint32_t n_axes = sn_contraction_axes(axes, with, m, &b->ct.c, &where);
    sn_ix e = sn_ix_subst(m, load->ix, axes, with, n_axes);
    return sn_buf_get(m, load->buf)->align >= n * bytes && sn_ix_coef(m, e, lane, &c) && c == 1 &&
           sn_ix_is_multiple(m, sn_ix_subst(m, e, &lane, &zero, 1), n);
}

/* Elements of a piece. */
static int64_t piece_of(const fill *f) {
    enum { LEAST = 4 };
    int64_t bytes = sn_dtype_bytes(f->b->ct.operand);
    for (int64_t n = f->b->ct.pieces[f->i]; n > 1 && n * bytes >= LEAST; n /= 2)
        if (is_piece(f, n)) return n;
    return 1; /* as many, or fewer, than the tile has been chosen for */
}

/* ---- the nest ---- */

/* Does a block that is alone on its multiprocessor bring elements of the operand one by one, and wait for them? */
static bool waits_alone(const fill *f, int64_t piece, bool copies) {
    enum { SHORTEST = 4 /* bytes of a copy that is on its way */ };
    const sn_contraction *c = &f->b->ct.c;
    const sn_sched *sc = f->b->sc;
    int64_t tiles = sn_mul_clamped(c->batch, sn_ceil_div(c->m, sc->tile_m) * sn_ceil_div(c->n, sc->tile_n));
    bool alone = tiles * f->b->split <= (int64_t)f->b->ct.cx->target->units;
    return alone && piece == 1 && (!copies || sn_dtype_bytes(f->b->ct.operand) < SHORTEST);
}

/* Elements that a thread brings: turns of a few that are written out, of more where all that it waits for are they. */
static sn_ix open_turns(sn_contract_binding *b, sn_cursor *at, int64_t turns, bool waits) {
    int64_t most = waits ? SN_FILL_TOGETHER : SN_FILL_WRITTEN, inner = turns < most ? turns : most;
    while (turns % inner) inner--;
    sn_ix w = sn_ix_const(b->m, 0);
    if (turns > inner) w = sn_contract_loop(b, at, "w", turns / inner, SN_AXIS_SEQ);
    return sn_ix_fma(b->m, inner, w, sn_contract_loop(b, at, "u", inner, SN_AXIS_UNROLL));
}

static void put_nest(const fill *f, sn_cursor at, bool copies) {
    sn_contract_binding *b = f->b;
    sn_module *m = b->m;
    int64_t threads = b->sc->block_x, piece = piece_of(f), contiguous = f->across ? f->rows : f->depth;
    int64_t in_line = contiguous / piece, all = in_line * (f->across ? f->depth : f->rows);
    sn_ix x = sn_contract_loop(b, &at, "x", threads, SN_AXIS_BLOCK_X);
    sn_stmt_get(m, at.parent)->bulk = copies;
    sn_ix number = sn_ix_fma(b->m, threads, open_turns(b, &at, all / threads, waits_alone(f, piece, copies)), x);
    sn_ix line = sn_ix_divc(m, number, in_line), first = sn_ix_scale(m, sn_ix_modc(m, number, in_line), piece);
    sn_ix lane = piece > 1 ? sn_contract_loop(b, &at, "v", piece, SN_AXIS_VECTOR) : sn_ix_const(m, 0);
    spot begin = spot_of(f, line, first), s = spot_of(f, line, sn_ix_add(m, first, lane));
    /* All of a piece is inside, or nothing. */
    sn_val mask = sn_contract_and(b, at, (sn_val){0}, f->o->right ? b->edge_n : b->edge_m,
                                  sn_ix_add(m, f->side, begin.place), extent_of_side(f));
    mask = sn_contract_and(b, at, mask, b->edge_k, sn_ix_add(m, f->first, begin.step), b->ct.c.k);
    sn_val value = put_element(f, at, sn_ix_add(m, f->side, s.place), sn_ix_add(m, f->first, s.step), mask);
    sn_mma_operand layout = sn_contract_operand_of(b, f->i);
    sn_ix to = sn_mma_offset(m, &layout, f->depth, s.place, s.step);
    sn_put_store(m, at, b->shared[f->i], sn_shared_of_rank(m, b->shared[f->i], b->nest.rank, to), value);
}

void sn_contract_fill(sn_contract_binding *b, sn_cursor at, uint32_t i, sn_ix k) {
    fill f = {.b = b, .o = &b->ct.c.operands[i], .i = i, .source = b->ct.sources[i], .across = b->ct.across[i]};
    f.rows = f.o->right ? b->sc->tile_n : b->sc->tile_m;
    f.depth = b->sc->tile_k;
    f.first = sn_ix_scale(b->m, k, f.depth);
    f.side = f.o->right ? b->column : b->row;
    put_nest(&f, at, sn_contract_copies(b, i));
}
