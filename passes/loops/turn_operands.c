/* turn_operands.c: operands that lie across the others.
 *
 *     k0: loop i in 2039 { %0 = reduce sum r in 13906 { load x[2039*r + i]  load z[13906*i + r]  add }  store y[i], %0 }
 *  -> k0_turn: loop i in 2039 { loop r in 13906 { load x[2039*r + i]  store k0_t0[13906*i + r] } }
 *     k0: loop i in 2039 { %0 = reduce sum r in 13906 { load k0_t0[13906*i + r]  load z[13906*i + r]  add }  store y[i], %0 }
 *
 * Threads go along one of x and z, and find pieces of lines of the other. Straight-line code has classes for that (tile, brick); what
 * reduces has none, whether its threads own rows or columns. A copy costs two times the bytes of the operand.
 *
 * An access runs along the loop in which its step is smallest: an outer one, or one of its nest, by position. Along which most bytes run,
 * of the different buffers, is the order of the kernel; the copy has its elements as the largest buffer of these has its own. Operands
 * are turned whose loads are affine, without masks, all of the same element of a row, once for each, and which the kernel does not store.
 * Cost: accesses times buffers.
 */
#include "passes/loops/turn_operands.h"

enum { MOST_ACCESSES = 64, MOST_LOOPS = 2 * SN_MAX_CHAIN };

typedef struct access {
    sn_stmt s;
    sn_chain around;             /* outer loops, and those of its nest */
    int64_t strides[MOST_LOOPS]; /* by position */
    int64_t bytes;               /* of its buffer */
    uint32_t along;              /* position; UINT32_MAX: nobody knows */
    bool turns;
} access;

typedef struct turn {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_stmt top; /* outermost loop */
    uint32_t n_outer;
    access at[MOST_ACCESSES];
    uint32_t n;
    uint32_t along;     /* most bytes */
    const access *like; /* the largest buffer of those */
} turn;

/* ---- which ---- */

static bool look_at_access(turn *t, sn_stmt s) {
    sn_module *m = t->m;
    access *a = &t->at[t->n];
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    *a = (access){.s = s, .along = UINT32_MAX, .bytes = sn_buf_bytes(m, r->buf)};
    sn_chain_around(&a->around, m, s);
    int64_t least = INT64_MAX;
    bool known = !sn_ix_uses_vals(m, r->ix);
    for (uint32_t k = 0; k < a->around.n; k++) {
        sn_axis ax = sn_stmt_axis(m, a->around.at[k]);
        if (!sn_ix_coef(m, r->ix, ax, &a->strides[k])) known = false, a->strides[k] = 0;
        int64_t c = a->strides[k] < 0 ? -a->strides[k] : a->strides[k];
        if (sn_ix_value(m, sn_axis_get(m, ax)->extent) < 2) continue;
        known &= c > 0; /* operands of products, say, are loaded again */
        if (c && c < least) least = c, a->along = k;
    }
    if (!known) a->along = UINT32_MAX;
    t->n++;
    return a->around.n >= t->n_outer && sn_stmt_eq(a->around.at[0], t->top);
}

/* Outer loops with nests of one nest each. */
static bool look(turn *t, int64_t least) {
    sn_module *m = t->m;
    sn_chain outer, nest;
    bool reduces = false;
    sn_chain_outer(&outer, m, t->k);
    t->n_outer = outer.n;
    t->top = outer.n ? outer.at[0] : (sn_stmt){0};
    if (!outer.n || sn_chain_count(m, &outer) <= 0) return false;
    for (sn_stmt s = sn_region_first(m, t->k, outer.at[outer.n - 1]); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_lop_has_region(r->op)) continue;
        if (!sn_is_nest(r) || sn_is_scan(m, s) || !sn_nest_perfect(&nest, m, s)) return false;
        if (sn_chain_count(m, &nest) <= 0) return false;
        reduces |= r->op == SN_LOP_REDUCE;
    }
    for (sn_stmt s = sn_stmt_walk_first(m, t->k); reduces && s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_is_access(r) || sn_buf_is_local(sn_buf_get(m, r->buf)) || sn_buf_bytes(m, r->buf) < least) continue;
        if (t->n == MOST_ACCESSES || !look_at_access(t, s)) return false;
    }
    return reduces && t->n > 1;
}

static bool is_first_of_buffer(const turn *t, uint32_t i) {
    for (uint32_t k = 0; k < i; k++)
        if (sn_buf_eq(sn_stmt_get(t->m, t->at[k].s)->buf, sn_stmt_get(t->m, t->at[i].s)->buf)) return false;
    return true;
}

/* Where as many bytes run along two, what is stored decides: it cannot be turned. */
static void find_order(turn *t) {
    int64_t bytes[MOST_LOOPS] = {0};
    for (uint32_t i = 0; i < t->n; i++) {
        const access *a = &t->at[i];
        if (a->along == UINT32_MAX || !is_first_of_buffer(t, i)) continue;
        bytes[a->along] = sn_add_clamped(bytes[a->along], a->bytes);
        if (sn_stmt_get(t->m, a->s)->op == SN_LOP_STORE) bytes[a->along] = sn_add_clamped(bytes[a->along], 1);
    }
    for (uint32_t k = 0; k < MOST_LOOPS; k++)
        if (bytes[k] > bytes[t->along]) t->along = k;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->at[i].along == t->along && (!t->like || t->at[i].bytes > t->like->bytes)) t->like = &t->at[i];
}

/* The offset of the access, by the loops of another one. */
static sn_ix offset_by(const turn *t, const access *a, const access *by) {
    sn_axis axes[MOST_LOOPS];
    sn_ix with[MOST_LOOPS];
    if (a->around.n != by->around.n) return (sn_ix){0};
    for (uint32_t k = 0; k < a->around.n; k++) {
        sn_stmt from = a->around.at[k], to = by->around.at[k];
        if (!sn_ix_eq(sn_stmt_extent(t->m, from), sn_stmt_extent(t->m, to))) return (sn_ix){0};
        axes[k] = sn_stmt_axis(t->m, from);
        with[k] = sn_ix_axis(t->m, sn_stmt_axis(t->m, to));
    }
    return sn_ix_subst(t->m, sn_stmt_get(t->m, a->s)->ix, axes, with, a->around.n);
}

/* All accesses of that buffer are alike, or none turns. */
static bool may_turn(const turn *t, const access *a) {
    const sn_stmt_rec *r = sn_stmt_get(t->m, a->s);
    if (a->along == UINT32_MAX || a->along == t->along) return false;
    for (uint32_t i = 0; i < t->n; i++) {
        const sn_stmt_rec *o = sn_stmt_get(t->m, t->at[i].s);
        if (!sn_buf_eq(o->buf, r->buf)) continue;
        if (o->op != SN_LOP_LOAD || o->has_mask || !sn_ix_eq(offset_by(t, &t->at[i], a), r->ix)) return false;
    }
    return true;
}

/* ---- the copy ---- */

/* Positions of the loops that move the access, in the order of the copy: as `like` has them, the last one inside. */
static uint32_t order_of(uint32_t *order, const turn *t, const access *a) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < a->around.n; k++) {
        uint32_t at = n;
        if (!a->strides[k]) continue;
        int64_t own = k < t->like->around.n ? t->like->strides[k] : 0;
        for (; at > 0 && t->like->strides[order[at - 1]] && t->like->strides[order[at - 1]] < own; at--)
            order[at] = order[at - 1];
        order[at] = k;
        n++;
    }
    return n;
}

static sn_ix place_by(const turn *t, const access *a, const uint32_t *order, uint32_t n) {
    sn_ix index[MOST_LOOPS], shape[MOST_LOOPS];
    for (uint32_t k = 0; k < n; k++) {
        index[k] = sn_ix_axis(t->m, sn_stmt_axis(t->m, a->around.at[order[k]]));
        shape[k] = sn_stmt_extent(t->m, a->around.at[order[k]]);
    }
    return sn_ix_flatten(t->m, index, shape, n);
}

static sn_kern new_kernel(const turn *t) {
    sn_module *m = t->m;
    sn_kern k = sn_kern_new(m, sn_strf(&m->arena, "%s_turn", sn_kern_get(m, t->k)->name));
    const sn_kern_rec *of = sn_kern_get(m, t->k);
    sn_kern_get(m, k)->from = of->from;
    sn_kern_get(m, k)->section = of->section;
    return k;
}

/* The kernel that copies the operand; out: what it stores. */
static sn_kern make_copy(turn *t, const access *a, const uint32_t *order, uint32_t n, sn_buf *out, uint32_t number) {
    sn_module *m = t->m;
    const sn_stmt_rec *r = sn_stmt_get(m, a->s);
    sn_kern copy = new_kernel(t);
    sn_axis axes[MOST_LOOPS];
    sn_ix with[MOST_LOOPS], shape[MOST_LOOPS];
    sn_stmt loop = {0};
    for (uint32_t k = 0; k < n; k++) {
        const sn_axis_rec *ax = sn_axis_get(m, axes[k] = sn_stmt_axis(m, a->around.at[order[k]]));
        shape[k] = ax->extent;
        sn_axis new = sn_axis_new(m, ax->name, ax->extent);
        with[k] = sn_ix_axis(m, new);
        loop = sn_put_loop(m, sn_at_end(copy, loop), new, SN_AXIS_SEQ);
    }
    sn_ix size = sn_ix_product(m, shape, n);
    const char *name = sn_strf(&m->arena, "%s_t%u", sn_kern_get(m, t->k)->name, number);
    *out = sn_buf_new(m, name, sn_buf_get(m, r->buf)->dtype, SN_BUF_TEMP, &size, 1);
    sn_buf_get(m, *out)->align = 256;
    sn_val x = sn_put_load(m, sn_at_end(copy, loop), r->buf, sn_ix_subst(m, r->ix, axes, with, n));
    sn_put_store(m, sn_at_end(copy, loop), *out, sn_ix_flatten(m, with, shape, n), x);
    sn_kern_collect_params(m, copy);
    return copy;
}

static void turn_operand(turn *t, const access *a, sn_kern_list *made) {
    sn_module *m = t->m;
    sn_buf turned, old = sn_stmt_get(m, a->s)->buf;
    uint32_t order[MOST_LOOPS], n = order_of(order, t, a);
    sn_kern copy = make_copy(t, a, order, n, &turned, made->n);
    SN_PUSH(t->cx->scratch, made, copy);
    for (uint32_t i = 0; i < t->n; i++) {
        sn_stmt_rec *r = sn_stmt_get(m, t->at[i].s);
        if (!t->at[i].turns || !sn_buf_eq(r->buf, old)) continue;
        r->ix = place_by(t, &t->at[i], order, n);
        r->buf = turned;
    }
}

static bool find(turn *t, sn_pass_ctx *cx, sn_kern k, int64_t least) {
    bool any = false;
    *t = (turn){.cx = cx, .m = cx->m, .k = k};
    if (!look(t, least)) return false;
    find_order(t);
    for (uint32_t i = 0; i < t->n && t->like; i++) any |= t->at[i].turns = may_turn(t, &t->at[i]);
    return any;
}

bool sn_has_turned_operands(sn_pass_ctx *cx, sn_kern k, int64_t least) {
    return find(SN_NEW(cx->scratch, turn), cx, k, least);
}

bool sn_turn_operands(sn_pass_ctx *cx, sn_kern k, int64_t least, sn_kern_list *made) {
    turn *t = SN_NEW(cx->scratch, turn);
    bool first[MOST_ACCESSES];
    if (!find(t, cx, k, least)) return false;
    for (uint32_t i = 0; i < t->n; i++) first[i] = t->at[i].turns && is_first_of_buffer(t, i);
    for (uint32_t i = 0; i < t->n; i++)
        if (first[i]) turn_operand(t, &t->at[i], made);
    sn_kern_collect_params(cx->m, k);
    return true;
}
