/* alike.c: reading a segment as shape and numbers, and writing it again with other numbers.
 *
 * Both walk the statements and index expressions in the same order, so the k-th number that one meets is hole k of the
 * other. Axes, values and buffers are numbered by first appearance (in their marks): segments are alike whatever their
 * ids. Terms of a sum come in the order of their ids; two segments that made theirs in another order are not found to
 * be alike, which costs code and nothing else.
 */
#include "ir/loop/alike.h"

#include <string.h>

typedef struct reader {
    sn_module *m;
    sn_arena *arena;
    sn_alike *out;
    int64_t lanes; /* longest vector axis */
    bool runs;     /* vectors load whole pieces, up to where a buffer ends: its size is in the code */
    uint32_t axes, vals, bufs;
    SN_VEC(sn_axis_kind) kinds; /* by axis number */
} reader;

static void token(reader *r, uint64_t x) {
    SN_PUSH(r->arena, &r->out->shape, x);
    r->out->hash = sn_hash(r->out->hash, x);
}

/* The largest power of two, up to `lanes`, that divides x. */
static uint64_t divisor(const reader *r, int64_t x) {
    uint64_t p = 1;
    while ((int64_t)p < r->lanes && x % (int64_t)(2 * p) == 0) p *= 2;
    return p;
}

static void hole(reader *r, int64_t x) {
    token(r, divisor(r, x));
    SN_PUSH(r->arena, &r->out->holes, x);
}

/* ---- index expressions ---- */

static bool steps_lanes(const reader *r, sn_ix atom) {
    const sn_ix_rec *a = sn_ix_get(r->m, atom);
    if (a->kind != SN_IX_AXIS) return false;
    sn_axis_kind kind = r->kinds.at[sn_axis_get(r->m, (sn_axis){a->id})->mark];
    return kind != SN_AXIS_SEQ && kind != SN_AXIS_GRID;
}

static void read_ix(reader *r, sn_ix e);

static void read_atom(reader *r, sn_ix atom) {
    const sn_ix_rec *a = sn_ix_get(r->m, atom);
    token(r, a->kind);
    switch (a->kind) {
    case SN_IX_AXIS: token(r, sn_axis_get(r->m, (sn_axis){a->id})->mark); return;
    case SN_IX_VAL: token(r, sn_val_get(r->m, (sn_val){a->id})->mark); return;
    case SN_IX_SYM: token(r, a->id); return;
    case SN_IX_SUM:
    case SN_IX_DIV:
    case SN_IX_MOD:
    case SN_IX_MIN:
    case SN_IX_MAX:
    case SN_IX_PROD: read_ix(r, a->a), read_ix(r, a->b); return;
    }
}

static void read_ix(reader *r, sn_ix e) {
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(r->m, e, &terms, &c0, &one);
    token(r, n);
    hole(r, c0);
    for (uint32_t i = 0; i < n; i++) {
        if (steps_lanes(r, terms[i].atom)) token(r, (uint64_t)terms[i].c);
        else hole(r, terms[i].c);
        read_atom(r, terms[i].atom);
    }
}

/* ---- statements ---- */

/* Number of a value; a new one gets the next. */
static void define(reader *r, const sn_stmt_rec *s) {
    for (uint32_t i = 0; i < s->n_results; i++) {
        sn_val_rec *v = sn_val_get(r->m, sn_result(s, i));
        v->mark = r->vals++;
        token(r, v->dtype);
    }
}

/* May the extent differ? Not where code is written out by it. */
static bool extent_is_hole(const reader *r, sn_stmt s, sn_axis_kind kind) {
    return s.i == r->out->top.i || kind == SN_AXIS_SEQ;
}

static void read_axis(reader *r, sn_stmt s, const sn_stmt_rec *rec) {
    sn_axis_rec *ax = sn_axis_get(r->m, rec->axis);
    token(r, rec->kind);
    token(r, rec->pipe << 3 | rec->once << 2 | rec->bulk << 1 | rec->await);
    token(r, (uint64_t)rec->mma << 32 | rec->mma_columns);
    int64_t extent = sn_ix_value(r->m, ax->extent);
    if (extent_is_hole(r, s, rec->kind)) SN_PUSH(r->arena, &r->out->holes, extent);
    else token(r, (uint64_t)extent);
    ax->mark = r->axes++;
    SN_PUSH(r->arena, &r->kinds, rec->kind);
    for (uint32_t i = 0; i < rec->n_combs; i++) token(r, rec->combs[i]);
}

static void read_buffer(reader *r, sn_buf buf) {
    enum { WIDEST_ACCESS = 16 };
    sn_buf_rec *b = sn_buf_get(r->m, buf);
    int64_t size;
    if (!b->mark) {
        b->mark = ++r->bufs;
        if (b->scope < SN_BUF_REG) SN_PUSH(r->arena, &r->out->slots, buf);
    }
    token(r, b->mark);
    token(r, b->scope < SN_BUF_REG);
    token(r, b->dtype);
    token(r, b->private_size);
    token(r, b->swizzle);
    token(r, b->align < WIDEST_ACCESS ? b->align : WIDEST_ACCESS);
    bool known = sn_ix_is_const(r->m, b->size, &size);
    token(r, known && size == 0);
    if (r->runs) token(r, known ? (uint64_t)size : UINT64_MAX);
}

static void read_literal(reader *r, const sn_stmt_rec *s) {
    uint64_t bits;
    memcpy(&bits, &s->f, sizeof bits);
    token(r, bits);
    token(r, (uint64_t)s->i);
}

static void read_stmt(reader *r, sn_stmt s) {
    const sn_stmt_rec *rec = sn_stmt_get(r->m, s);
    token(r, (uint64_t)rec->op << 32 | (uint64_t)rec->dtype << 16 | rec->n_in << 1 | rec->has_mask);
    for (uint32_t i = 0; i < rec->n_in; i++) token(r, sn_val_get(r->m, rec->in[i])->mark);
    if (sn_lops[rec->op].has_literal) read_literal(r, rec);
    if (rec->buf.i) read_buffer(r, rec->buf);
    if (rec->ix.i) read_ix(r, rec->ix);
    if (rec->bound.i) read_ix(r, rec->bound);
    if (rec->axis.i) read_axis(r, s, rec);
    define(r, rec);
    for (sn_stmt t = rec->first; t.i; t = sn_stmt_get(r->m, t)->next) read_stmt(r, t);
    token(r, UINT64_MAX); /* the end of a region */
}

void sn_alike_read(sn_alike *out, sn_module *m, sn_arena *arena, sn_stmt top) {
    *out = (sn_alike){.top = top};
    reader r = {.m = m, .arena = arena, .out = out, .lanes = 1};
    r.runs = sn_kern_get(m, sn_stmt_get(m, top)->kern)->sched.runs;
    sn_stmt end = sn_stmt_walk_skip(m, top);
    for (sn_stmt s = top; s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *rec = sn_stmt_get(m, s);
        if (rec->buf.i) sn_buf_get(m, rec->buf)->mark = 0;
        if (!rec->axis.i || rec->kind != SN_AXIS_VECTOR) continue;
        int64_t n = sn_ix_value(m, sn_axis_get(m, rec->axis)->extent);
        if (n > r.lanes) r.lanes = n;
    }
    read_stmt(&r, top);
}

bool sn_alike_equal(const sn_alike *a, const sn_alike *b) {
    return a->hash == b->hash && a->shape.n == b->shape.n && a->slots.n == b->slots.n &&
           memcmp(a->shape.at, b->shape.at, a->shape.n * sizeof *a->shape.at) == 0;
}

/* ---- the copy ---- */

typedef struct copier {
    reader r; /* numbers axes and values again, and meets the holes in the same order */
    const sn_ix *with;
    uint32_t next;
    SN_VEC(sn_ix) axis, val; /* of the copy, by number */
} copier;

static sn_ix copy_ix(copier *c, sn_ix e);

static sn_ix copy_atom(copier *c, sn_ix atom) {
    sn_module *m = c->r.m;
    const sn_ix_rec *a = sn_ix_get(m, atom);
    if (a->kind == SN_IX_AXIS) return c->axis.at[sn_axis_get(m, (sn_axis){a->id})->mark];
    if (a->kind == SN_IX_VAL) return c->val.at[sn_val_get(m, (sn_val){a->id})->mark];
    if (a->kind == SN_IX_SYM) return atom;
    sn_ix x = copy_ix(c, a->a), y = copy_ix(c, a->b);
    switch (a->kind) {
    case SN_IX_DIV: return sn_ix_div(m, x, y);
    case SN_IX_MOD: return sn_ix_mod(m, x, y);
    case SN_IX_MIN: return sn_ix_min(m, x, y);
    case SN_IX_MAX: return sn_ix_max(m, x, y);
    default: return sn_ix_mul(m, x, y);
    }
}

static sn_ix copy_ix(copier *c, sn_ix e) {
    sn_module *m = c->r.m;
    const sn_ix_term *terms;
    sn_ix_term one;
    int64_t c0;
    uint32_t n = sn_ix_terms(m, e, &terms, &c0, &one);
    sn_ix sum = c->with[c->next++];
    for (uint32_t i = 0; i < n; i++) {
        sn_ix_term term = terms[i];
        bool fixed = steps_lanes(&c->r, term.atom);
        sn_ix factor = fixed ? sn_ix_const(m, term.c) : c->with[c->next++];
        sum = sn_ix_add(m, sum, sn_ix_mul(m, factor, copy_atom(c, term.atom)));
    }
    return sum;
}

/* from: as it was read; to: its clone. */
static void copy_stmt(copier *c, sn_stmt from, sn_stmt to) {
    sn_module *m = c->r.m;
    const sn_stmt_rec *old = sn_stmt_get(m, from);
    sn_stmt_rec *new = sn_stmt_get(m, to);
    if (old->ix.i) new->ix = copy_ix(c, old->ix);
    if (old->bound.i) new->bound = copy_ix(c, old->bound);
    if (old->axis.i) {
        sn_axis_rec *ax = sn_axis_get(m, old->axis);
        if (extent_is_hole(&c->r, from, old->kind)) sn_axis_get(m, new->axis)->extent = c->with[c->next++];
        ax->mark = c->r.axes++;
        SN_PUSH(c->r.arena, &c->r.kinds, old->kind);
        SN_PUSH(c->r.arena, &c->axis, sn_ix_axis(m, new->axis));
    }
    for (uint32_t i = 0; i < old->n_results; i++) {
        sn_val_get(m, sn_result(old, i))->mark = c->r.vals++;
        SN_PUSH(c->r.arena, &c->val, sn_ix_val(m, sn_result(new, i)));
    }
    for (sn_stmt s = old->first, t = new->first; s.i; s = sn_stmt_get(m, s)->next, t = sn_stmt_get(m, t)->next)
        copy_stmt(c, s, t);
}

sn_stmt sn_alike_copy(sn_module *m, sn_cursor at, const sn_alike *a, const sn_ix *with, sn_arena *scratch) {
    sn_stmt to = sn_stmt_clone(m, at, a->top);
    copier c = {.r = {.m = m, .arena = scratch, .out = &(sn_alike){.top = a->top}}, .with = with};
    copy_stmt(&c, a->top, to);
    SN_ASSERT(c.next == a->holes.n);
    return to;
}
