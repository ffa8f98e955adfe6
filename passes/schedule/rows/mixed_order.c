/* mixed_order.c: class inner for the kernels that the pass `mixed-order-reduction` makes: several rows a block, one after
 * the other.
 *
 *     loop g in G { loop j in N { store p[N*g + j], 0 }  loop r in R { row nests; the last one updates p } }
 *  -> loop g : grid {
 *       loop y : block.y { loop x : block.x { s[e] = 0; w' [e] = w[j]; x'[e] = x[first row, j] } }
 *       loop r in R/Y {
 *         loop y : block.y { loop x : block.x { x''[e] = x[next row, j] }  row nests  loop x : block.x { x'[e] = x''[e] } }
 *       }
 *       loop x : block.x { store p[N*g + j], reduce sum y : block.y { s[e] } }
 *     }
 *
 * The partial results s stay in registers from the first row to the last, and so does what does not change with the row
 * (w). What does change (x) is loaded a row ahead, so that the loads of one row cover the arithmetic of the one before.
 * All of these are `reg` buffers with the offset of stage.c, e = private*thread + u*V + v. Rows beyond the last are
 * computed as copies of the group's last one; their stores and updates do not happen. A kernel of this kind whose
 * rows do not stay in registers is left to class element, which runs a group on one thread.
 */
#include "passes/schedule/base/schedules.h"
#include "passes/schedule/base/mixed.h"
#include "passes/schedule/rows/rows.h"

enum { MAX_KEPT = 24 };

/* ---- choosing ---- */

bool sn_schedule_mixed_order_applies(const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    (void)cx, (void)k;
    *why_not = "its rows do not follow each other";
    return sh->mixed && sh->n_nests && sh->all_perfect;
}

/* Rows that follow each other on a block keep their sums in registers; else one thread does them all. */
sn_status sn_schedule_mixed_order_candidates(sn_sched_list *out, sn_pass_ctx *cx, sn_kern k,
                                             const sn_schedule_shape *sh, const sn_sched *pinned) {
    sn_sched sc = *pinned;
    SN_TRY(sn_schedule_complete_row(&sc, cx, k, sh));
    if (sc.persistent && sn_sched_cluster(&sc) == 1) sn_schedule_propose(out, cx, &sc);
    return SN_OK;
}

/* ---- binding ---- */

/* An element of each column that threads keep: reg[e]. Or one of each row: reg[0]. */
typedef struct kept {
    sn_buf from, reg, next; /* next: of the row after this one; none when all rows have the same */
    sn_ix key;              /* offset in `from`, in terms of the position p */
    bool of_row;
} kept;

typedef struct mixed {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_schedule_shape *sh;
    const sn_schedule_mixed *of;
    const sn_sched *sc;
    int64_t steps, each; /* vectors, elements of a thread */
    sn_axis g, r, p;     /* of the plain kernel; p: stands for the position in a row */
    sn_ix last;          /* last row of the group, in terms of r */
    sn_buf sums[SN_MAX_NESTS];
    kept kept[MAX_KEPT];
    uint32_t n_kept;
} mixed;

static sn_buf new_reg(mixed *mx, sn_dtype dtype, int64_t each) {
    sn_module *m = mx->m;
    const char *name = sn_strf(&m->arena, "%s_r", sn_kern_get(m, mx->k)->name);
    return sn_local_new(m, name, dtype, SN_BUF_REG, each, mx->sc->block_x * mx->sc->block_y);
}

/* A nest over the elements that a thread owns, padding included; y: the thread's block.y number. */
typedef struct own {
    sn_stmt in, top;
    sn_ix position, lane0, reg;
} own;

static void open_level(own *o, mixed *mx, const char *name, int64_t extent, int64_t stride, int64_t reg_stride,
                       sn_axis_kind kind) {
    sn_module *m = mx->m;
    if (extent == 1) return;
    sn_axis ax = sn_axis_new(m, name, sn_ix_const(m, extent));
    o->in = sn_put_loop(m, sn_at_end(mx->k, o->in), ax, kind);
    if (!o->top.i) o->top = o->in;
    o->position = sn_ix_add(m, o->position, sn_ix_scale(m, sn_ix_axis(m, ax), stride));
    o->reg = sn_ix_add(m, o->reg, sn_ix_scale(m, sn_ix_axis(m, ax), reg_stride));
    if (kind != SN_AXIS_VECTOR) o->lane0 = o->position;
}

static sn_ix y_offset(mixed *mx, sn_ix y) { return sn_ix_scale(mx->m, y, mx->each * mx->sc->block_x); }

static own open_own(mixed *mx, sn_stmt into, sn_ix y) {
    const sn_sched *sc = mx->sc;
    sn_ix zero = sn_ix_const(mx->m, 0);
    own o = {.in = into, .position = zero, .lane0 = zero, .reg = y_offset(mx, y)};
    int64_t v = sc->vector, x = sc->block_x;
    open_level(&o, mx, "x", x, v, mx->each, SN_AXIS_BLOCK_X);
    open_level(&o, mx, "u", mx->steps, v * x, v, SN_AXIS_UNROLL);
    open_level(&o, mx, "v", v, 1, 1, SN_AXIS_VECTOR);
    return o;
}

static sn_cursor end_of(const mixed *mx, const own *o) { return sn_at_end(mx->k, o->in); }

/* Is the element of the row that the nest stands at? none: always. */
static sn_val in_width(mixed *mx, const own *o) {
    if (mx->steps * mx->sc->block_x * mx->sc->vector == mx->of->width) return (sn_val){0};
    return sn_put_in(mx->m, end_of(mx, o), o->lane0, sn_ix_const(mx->m, mx->of->width));
}

/* ---- what threads keep ---- */

static bool stored_here(const mixed *mx, sn_buf b) { return sn_kern_stores(mx->m, mx->k, b); }

static const kept *keep(mixed *mx, sn_buf from, sn_ix key) {
    sn_module *m = mx->m;
    bool of_row = !sn_ix_uses_axis(m, key, mx->p);
    sn_dtype dtype = sn_buf_get(m, from)->dtype;
    for (uint32_t i = 0; i < mx->n_kept; i++)
        if (sn_buf_eq(mx->kept[i].from, from) && sn_ix_eq(mx->kept[i].key, key)) return &mx->kept[i];
    if (mx->n_kept == MAX_KEPT) return NULL;
    kept *kp = &mx->kept[mx->n_kept++];
    *kp = (kept){.from = from, .key = key, .of_row = of_row, .reg = new_reg(mx, dtype, of_row ? 1 : mx->each)};
    if (sn_ix_uses_axis(m, key, mx->r)) kp->next = new_reg(mx, dtype, of_row ? 1 : mx->each);
    return kp;
}

static bool can_keep(const mixed *mx, const sn_stmt_rec *r) {
    return r->op == SN_LOP_LOAD && !r->has_mask && !sn_ix_uses_vals(mx->m, r->ix) && !stored_here(mx, r->buf);
}

/* A load between the nests, the same for the whole row. */
static void keep_of_row(mixed *mx, sn_stmt s) {
    sn_stmt_rec *r = sn_stmt_get(mx->m, s);
    const kept *kp = can_keep(mx, r) && sn_ix_uses_axis(mx->m, r->ix, mx->r) ? keep(mx, r->buf, r->ix) : NULL;
    if (!kp) return;
    r->buf = kp->reg;
    r->ix = sn_ix_const(mx->m, 0);
}

/* Accesses of a row nest go to registers, at the position in the nest; the offset becomes a reg's after binding. */
static void to_registers(mixed *mx, const sn_schedule_nest *nest) {
    sn_module *m = mx->m;
    sn_ix p = sn_ix_axis(m, mx->p), flat_index[SN_MAX_CHAIN], shape[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < nest->chain.n; k++) {
        flat_index[k] = sn_ix_axis(m, sn_stmt_axis(m, nest->chain.at[k]));
        shape[k] = sn_stmt_extent(m, nest->chain.at[k]);
    }
    sn_ix flat = sn_ix_flatten(m, flat_index, shape, nest->chain.n);
    sn_stmt end = sn_stmt_walk_skip(m, nest->top);
    for (sn_stmt s = nest->top; s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!r->buf.i) continue;
        int sum = sn_schedule_sum_of(mx->of, r->buf);
        if (sum >= 0) {
            r->buf = mx->sums[sum];
            r->ix = flat;
            continue;
        }
        if (!can_keep(mx, r)) continue;
        sn_ix key = sn_schedule_at_position(m, &nest->chain, r->ix, p);
        const kept *kp = sn_ix_uses_axis(m, key, mx->p) ? keep(mx, r->buf, key) : NULL;
        if (!kp) continue;
        r->buf = kp->reg;
        r->ix = flat;
    }
}

static sn_ix row_offset(mixed *mx, sn_ix y) { return sn_ix_scale(mx->m, y, mx->sc->block_x); }

/* Offsets of registers in a bound row nest. */
static void fix_offsets(mixed *mx, sn_stmt top, sn_ix y) {
    sn_module *m = mx->m;
    sn_ix reg = y_offset(mx, y);
    sn_stmt end = sn_stmt_walk_skip(m, top);
    for (sn_stmt s = top; s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_is_nest(r)) {
            int64_t stride = r->kind == SN_AXIS_BLOCK_X ? mx->each : r->kind == SN_AXIS_VECTOR ? 1 : mx->sc->vector;
            if (sn_ix_value(m, sn_stmt_extent(m, s)) > 1)
                reg = sn_ix_add(m, reg, sn_ix_scale(m, sn_ix_axis(m, r->axis), stride));
        } else if (r->buf.i && sn_buf_get(m, r->buf)->scope == SN_BUF_REG) {
            r->ix = reg;
        }
    }
}

/* ---- the nests that are new ---- */

static sn_ix row_of(mixed *mx, sn_ix r) { return sn_ix_min(mx->m, r, mx->last); }

/* The elements of a row that stand between the nests. */
static void put_row_loads(mixed *mx, sn_stmt into, sn_ix y, sn_ix row, bool next) {
    sn_module *m = mx->m;
    sn_cursor at = sn_at_end(mx->k, into);
    for (uint32_t i = 0; i < mx->n_kept; i++) {
        const kept *kp = &mx->kept[i];
        if (!kp->of_row) continue;
        sn_val v = sn_put_load(m, at, kp->from, sn_ix_subst(m, kp->key, &mx->r, &row, 1));
        sn_put_store(m, at, next ? kp->next : kp->reg, row_offset(mx, y), v);
    }
}

static void put_load(mixed *mx, const own *o, const kept *kp, sn_buf to, sn_ix row, sn_val mask) {
    sn_module *m = mx->m;
    sn_axis axes[2] = {mx->p, mx->r};
    sn_ix with[2] = {o->position, row};
    sn_ix at = sn_ix_subst(m, kp->key, axes, with, 2);
    sn_val v;
    if (mask.i) {
        sn_val zero = sn_put_const(m, end_of(mx, o), sn_buf_get(m, kp->from)->dtype, 0);
        v = sn_put_load_masked(m, end_of(mx, o), kp->from, at, mask, zero);
    } else {
        v = sn_put_load(m, end_of(mx, o), kp->from, at);
    }
    sn_put_store(m, end_of(mx, o), to, o->reg, v);
}

static sn_val copy_const(mixed *mx, sn_cursor at, sn_val x) {
    const sn_stmt_rec *r = sn_stmt_get(mx->m, sn_val_get(mx->m, x)->def);
    if (sn_is_float(r->dtype)) return sn_put_const(mx->m, at, r->dtype, r->f);
    return sn_put_const_int(mx->m, at, r->dtype, r->i);
}

static void put_start(mixed *mx, sn_stmt into, sn_ix y) {
    put_row_loads(mx, into, y, row_of(mx, y), false);
    own o = open_own(mx, into, y);
    for (uint32_t i = 0; i < mx->of->n_sums; i++)
        sn_put_store(mx->m, end_of(mx, &o), mx->sums[i], o.reg, copy_const(mx, end_of(mx, &o), mx->of->identities[i]));
    sn_val mask = in_width(mx, &o);
    for (uint32_t i = 0; i < mx->n_kept; i++)
        if (!mx->kept[i].of_row) put_load(mx, &o, &mx->kept[i], mx->kept[i].reg, row_of(mx, y), mask);
}

static bool moves_along(const kept *kp) { return kp->next.i && !kp->of_row; }

static void put_next(mixed *mx, sn_stmt into, sn_ix y, sn_ix next) {
    put_row_loads(mx, into, y, next, true);
    own o = open_own(mx, into, y);
    sn_val mask = in_width(mx, &o);
    for (uint32_t i = 0; i < mx->n_kept; i++)
        if (moves_along(&mx->kept[i])) put_load(mx, &o, &mx->kept[i], mx->kept[i].next, next, mask);
}

static void put_advance(mixed *mx, sn_stmt into, sn_ix y) {
    sn_module *m = mx->m;
    sn_cursor at = sn_at_end(mx->k, into);
    sn_ix offset = row_offset(mx, y);
    for (uint32_t i = 0; i < mx->n_kept; i++)
        if (mx->kept[i].of_row)
            sn_put_store(m, at, mx->kept[i].reg, offset, sn_put_load(m, at, mx->kept[i].next, offset));
    own o = open_own(mx, into, y);
    for (uint32_t i = 0; i < mx->n_kept; i++)
        if (moves_along(&mx->kept[i]))
            sn_put_store(m, end_of(mx, &o), mx->kept[i].reg, o.reg,
                         sn_put_load(m, end_of(mx, &o), mx->kept[i].next, o.reg));
}

/* The sum over block.y of a register. */
static sn_val over_rows(mixed *mx, const own *o, uint32_t i) {
    sn_module *m = mx->m;
    if (mx->sc->block_y == 1) return sn_put_load(m, end_of(mx, o), mx->sums[i], o->reg);
    sn_axis y = sn_axis_new(m, "y", sn_ix_const(m, mx->sc->block_y));
    sn_dtype dtype = sn_buf_get(m, mx->sums[i])->dtype;
    sn_stmt reduce = sn_put_reduce(m, end_of(mx, o), y, SN_AXIS_BLOCK_Y, &mx->of->combs[i], 1, &dtype);
    sn_ix at = sn_ix_add(m, o->reg, y_offset(mx, sn_ix_axis(m, y)));
    sn_val v = sn_put_load(m, sn_at_end(mx->k, reduce), mx->sums[i], at);
    sn_put_yield(m, sn_at_end(mx->k, reduce), &v, 1);
    return sn_result(sn_stmt_get(m, reduce), 0);
}

static void put_end(mixed *mx, sn_stmt into, sn_ix g) {
    sn_module *m = mx->m;
    own o = open_own(mx, into, sn_ix_const(m, 0));
    sn_val mask = in_width(mx, &o);
    sn_ix at = sn_ix_add(m, sn_ix_scale(m, g, mx->of->width), o.position);
    for (uint32_t i = 0; i < mx->of->n_sums; i++) {
        sn_val v = over_rows(mx, &o, i);
        if (mask.i) sn_put_store_masked(m, end_of(mx, &o), mx->of->sums[i], at, v, mask);
        else sn_put_store(m, end_of(mx, &o), mx->of->sums[i], at, v);
    }
}

/* ---- rows that do not exist ---- */

static bool is_sum(const mixed *mx, sn_buf b) {
    for (uint32_t i = 0; i < mx->of->n_sums; i++)
        if (sn_buf_eq(mx->sums[i], b)) return true;
    return false;
}

/* Nests that only load, and store sums and results, can be skipped as a whole. Not those that load what the kernel has
 * stored (there stands a barrier), nor those that leave something in registers for a later nest. */
static bool can_skip(const mixed *mx, sn_stmt top) {
    sn_stmt end = sn_stmt_walk_skip(mx->m, top);
    if (sn_stmt_get(mx->m, top)->op != SN_LOP_LOOP) return false;
    for (sn_stmt s = top; s.i != end.i; s = sn_stmt_walk_next(mx->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(mx->m, s);
        if (!r->buf.i) continue;
        bool reg = sn_buf_get(mx->m, r->buf)->scope == SN_BUF_REG;
        if (r->op == SN_LOP_LOAD && !reg && stored_here(mx, r->buf)) return false;
        if (r->op == SN_LOP_STORE && reg && !is_sum(mx, r->buf)) return false;
    }
    return true;
}

/* Updates of sums that are not inside an `if` keep the old value. */
static void mask_sums(mixed *mx, sn_stmt top, sn_val mask) {
    sn_module *m = mx->m;
    sn_stmt end = sn_stmt_walk_skip(m, top);
    for (sn_stmt s = top, next; s.i != end.i; s = next) {
        next = sn_stmt_walk_next(m, s);
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_STORE || !is_sum(mx, r->buf)) continue;
        sn_put_store_masked(m, sn_at_before(m, s), r->buf, r->ix, r->in[0], mask);
        sn_stmt_unlink(m, s);
    }
}

/* One branch around a nest that only stores; elsewhere masks, because all threads take part in reductions and
 * barriers. */
static void guard_nest(mixed *mx, sn_stmt top, sn_ix row, sn_val mask) {
    sn_module *m = mx->m;
    if (!can_skip(mx, top)) {
        mask_sums(mx, top, mask);
        sn_mask_accesses(mx->cx, mx->k, top, mask, false);
        return;
    }
    sn_stmt first = sn_stmt_get(m, top)->first;
    sn_stmt test = sn_put_if(m, sn_at_before(m, first), row, sn_ix_addc(m, mx->last, 1));
    for (sn_stmt s = first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        sn_stmt_insert(m, sn_at_end(mx->k, test), s);
    }
}

/* ---- everything ---- */

static void take(sn_stmt_vec *out, mixed *mx, sn_stmt first, sn_stmt end) {
    for (sn_stmt s = first, next; s.i && s.i != end.i; s = next) {
        next = sn_next(mx->m, s);
        sn_stmt_unlink(mx->m, s);
        SN_PUSH(mx->cx->scratch, out, s);
    }
}

static sn_stmt put_block_y(mixed *mx, sn_stmt into, sn_ix *y) {
    *y = sn_ix_const(mx->m, 0);
    if (mx->sc->block_y == 1) return into;
    sn_axis ax = sn_axis_new(mx->m, "y", sn_ix_const(mx->m, mx->sc->block_y));
    *y = sn_ix_axis(mx->m, ax);
    return sn_put_loop(mx->m, sn_at_end(mx->k, into), ax, SN_AXIS_BLOCK_Y);
}

/* The statements of a row, bound, at r = r' * Y + y. */
static void put_row(mixed *mx, sn_stmt into, const sn_stmt_vec *row, sn_ix here, sn_ix y, bool partial) {
    sn_module *m = mx->m;
    sn_schedule_shape *sh = mx->sh;
    const sn_schedule_mixed *of = mx->of;
    sn_ix with = row_of(mx, here);
    sn_val mask = {0};
    if (partial) mask = sn_put_in(m, sn_at_end(mx->k, into), here, sn_ix_addc(m, mx->last, 1));
    for (uint32_t i = 0; i < row->n; i++) sn_stmt_insert(m, sn_at_end(mx->k, into), row->at[i]);
    for (uint32_t i = 0; i < row->n; i++) sn_stmt_subst(m, row->at[i], &mx->r, &with, 1);
    for (uint32_t i = 0; i < sh->n_nests; i++)
        if (sh->nests[i].count == of->width) fix_offsets(mx, sh->nests[i].top, y);
    for (uint32_t i = 0; i < row->n; i++) {
        sn_stmt_rec *s = sn_stmt_get(m, row->at[i]);
        if (s->op == SN_LOP_LOAD && sn_buf_get(m, s->buf)->scope == SN_BUF_REG) s->ix = row_offset(mx, y);
    }
    sn_schedule_stage(mx->cx, mx->k, sh, into, mx->sc, mx->cx->target->max_regs * 2);
    for (uint32_t i = 0; i < row->n && partial; i++) {
        const sn_stmt_rec *r = sn_stmt_get(m, row->at[i]);
        if (sn_is_nest(r)) guard_nest(mx, row->at[i], here, mask);
        else if (r->op == SN_LOP_STORE) sn_mask_accesses(mx->cx, mx->k, row->at[i], mask, false);
    }
}

/* Row nests become bound ones, still in place; the list of the row's statements follows. */
static void bind_row(mixed *mx, sn_stmt_vec *row) {
    sn_schedule_shape *sh = mx->sh;
    const sn_schedule_mixed *of = mx->of;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        if (sh->nests[i].count == of->width) to_registers(mx, &sh->nests[i]);
        sh->nests[i].top = sn_schedule_bind_row_nest(mx->cx, mx->k, &sh->nests[i], mx->sc);
    }
    for (sn_stmt s = sn_stmt_get(mx->m, of->row)->first; s.i; s = sn_next(mx->m, s)) keep_of_row(mx, s);
    take(row, mx, sn_stmt_get(mx->m, of->row)->first, (sn_stmt){0});
}

void sn_schedule_mixed_order_bind(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, sn_sched *sc) {
    sn_module *m = cx->m;
    const sn_schedule_mixed *of = sh->mixed;
    int64_t groups = sn_ix_value(m, sn_stmt_extent(m, sh->body)), r = sn_ix_value(m, sn_stmt_extent(m, of->rows_loop));
    int64_t step = (int64_t)sc->block_x * sc->vector, rows = groups * r;
    if (of->row.i != of->rows_loop.i) rows = sn_ix_value(m, sn_stmt_get(m, of->row)->bound);
    mixed mx = {.cx = cx, .m = m, .k = k, .sh = sh, .of = of, .sc = sc, .steps = (of->width + step - 1) / step};
    mx.each = mx.steps * sc->vector;
    mx.g = sn_stmt_axis(m, sh->body), mx.r = sn_stmt_axis(m, of->rows_loop);
    mx.p = sn_axis_new(m, "p", sn_ix_const(m, of->width));
    mx.last = sn_ix_divc(m, sn_ix_sub(m, sn_ix_const(m, rows - 1), sn_ix_axis(m, mx.g)), groups);
    for (uint32_t i = 0; i < of->n_sums; i++) mx.sums[i] = new_reg(&mx, sn_buf_get(m, of->sums[i])->dtype, mx.each);
    sn_stmt_vec row = {0}, start = {0};
    bind_row(&mx, &row);
    take(&start, &mx, sn_stmt_get(m, sh->body)->first, (sn_stmt){0});
    sn_stmt group = sh->body;
    sn_stmt_get(m, group)->kind = SN_AXIS_GRID;
    for (uint32_t i = 0; i < start.n; i++) /* the nests that start the sums go, with the loop over rows */
        if (!sn_lop_has_region(sn_stmt_get(m, start.at[i])->op)) sn_stmt_insert(m, sn_at_end(k, group), start.at[i]);
    sn_ix y;
    sn_stmt into = put_block_y(&mx, group, &y);
    put_start(&mx, into, y);
    sn_axis ro = sn_axis_new(m, "r", sn_ix_const(m, (r + sc->block_y - 1) / sc->block_y));
    sn_stmt loop = sn_put_loop(m, sn_at_end(k, group), ro, SN_AXIS_SEQ);
    into = put_block_y(&mx, loop, &y);
    sn_ix here = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, ro), sc->block_y), y);
    put_next(&mx, into, y, row_of(&mx, sn_ix_addc(m, here, sc->block_y)));
    put_row(&mx, into, &row, here, y, rows != groups * sc->block_y * ((r + sc->block_y - 1) / sc->block_y));
    put_advance(&mx, into, y);
    put_end(&mx, group, sn_ix_axis(m, mx.g));
}
