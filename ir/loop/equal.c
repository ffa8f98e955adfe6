/* equal.c: are two kernels one program on different buffers? Both are walked side by side, statement by statement; nothing is
 * written but the numbers of values and axes in their marks. Cost: linear in the kernels and their index expressions.
 */
#include "ir/loop/equal.h"

#include <string.h>

#include "ir/base/sched.h"

/* ---- a number ---- */

static uint64_t hash_ix(const sn_module *m, uint64_t h, sn_ix e) {
    if (!e.i) return h;
    const sn_ix_rec *r = sn_ix_get(m, e);
    h = sn_hash(sn_hash(h, (uint64_t)r->kind << 32 | r->n_terms), (uint64_t)r->c0);
    for (uint32_t i = 0; i < r->n_terms; i++) h = sn_hash(h, (uint64_t)r->terms[i].c);
    return h;
}

static uint64_t hash_stmt(const sn_module *m, uint64_t h, const sn_stmt_rec *r) {
    uint64_t f;
    memcpy(&f, &r->f, sizeof f);
    h = sn_hash(h, (uint64_t)r->op << 40 | (uint64_t)r->dtype << 32 | (uint64_t)r->kind << 16 | r->n_in);
    h = sn_hash(sn_hash(h, f), (uint64_t)r->i);
    h = hash_ix(m, hash_ix(m, h, r->ix), r->bound);
    return r->axis.i ? hash_ix(m, h, sn_axis_get(m, r->axis)->extent) : h;
}

uint64_t sn_kern_hash(const sn_module *m, sn_kern k) {
    const sn_kern_rec *r = sn_kern_get(m, k);
    uint64_t h = sn_hash((uint64_t)r->params.n << 32 | r->locals.n, (uint64_t)r->scheduled << 8 | r->sched.cls);
    for (uint32_t i = 0; i < r->params.n; i++) h = sn_hash(h, sn_buf_get(m, r->params.at[i])->dtype);
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) h = hash_stmt(m, h, sn_stmt_get(m, s));
    return h;
}

/* ---- buffers ---- */

static bool same_type(const sn_buf_rec *a, const sn_buf_rec *b) {
    return a->dtype == b->dtype && a->scope == b->scope && a->size.i == b->size.i &&
           a->private_size == b->private_size && a->swizzle == b->swizzle;
}

/* What plans and schedules know of memory that is none of the kernel's. The elements of a constant may say where something is. */
static bool same_global(const sn_buf_rec *a, const sn_buf_rec *b) {
    if (a->scope == SN_BUF_CONST && a != b && (!a->weight.i || !b->weight.i)) return false;
    if (a->rank != b->rank || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) != 0) return false;
    return a->align == b->align;
}

static bool same_formal(const sn_buf_rec *a, const sn_buf_rec *b) {
    return a->role == b->role && a->noalias == b->noalias && a->invariant == b->invariant && a->align == b->align;
}

static bool same_buffers(const sn_module *m, const sn_buf_list *a, const sn_buf_list *b) {
    if (a->n != b->n) return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const sn_buf_rec *x = sn_buf_get(m, a->at[i]), *y = sn_buf_get(m, b->at[i]);
        if (!same_type(x, y)) return false;
        if (x->scope == SN_BUF_FORMAL ? !same_formal(x, y) : sn_buf_is_global(x) && !same_global(x, y)) return false;
    }
    return true;
}

/* A buffer may be a parameter of both, as another one: it has no room for two numbers. */
static uint32_t number_of(const sn_kern_rec *k, sn_buf b) {
    for (uint32_t i = 0; i < k->params.n; i++)
        if (k->params.at[i].i == b.i) return i + 1;
    for (uint32_t i = 0; i < k->locals.n; i++)
        if (k->locals.at[i].i == b.i) return k->params.n + i + 1;
    return 0;
}

/* ---- statements ---- */

typedef struct pair {
    const sn_module *m;
    const sn_kern_rec *a, *b;
} pair;

static bool same_ix(const pair *p, sn_ix a, sn_ix b);

static bool same_atom(const pair *p, const sn_ix_rec *x, const sn_ix_rec *y) {
    switch (x->kind) {
    case SN_IX_AXIS: return sn_axis_get(p->m, (sn_axis){x->id})->mark == sn_axis_get(p->m, (sn_axis){y->id})->mark;
    case SN_IX_VAL: return sn_val_get(p->m, (sn_val){x->id})->mark == sn_val_get(p->m, (sn_val){y->id})->mark;
    case SN_IX_SYM: return x->id == y->id;
    case SN_IX_SUM:
    case SN_IX_DIV:
    case SN_IX_MOD:
    case SN_IX_MIN:
    case SN_IX_MAX:
    case SN_IX_PROD: break;
    }
    return same_ix(p, x->a, y->a) && same_ix(p, x->b, y->b);
}

static bool same_ix(const pair *p, sn_ix a, sn_ix b) {
    if (!a.i || !b.i) return a.i == b.i;
    const sn_ix_rec *x = sn_ix_get(p->m, a), *y = sn_ix_get(p->m, b);
    if (x->kind != y->kind || x->n_terms != y->n_terms || x->c0 != y->c0) return false;
    for (uint32_t i = 0; i < x->n_terms; i++)
        if (x->terms[i].c != y->terms[i].c || !same_ix(p, x->terms[i].atom, y->terms[i].atom)) return false;
    return x->kind == SN_IX_SUM || same_atom(p, x, y);
}

/* All but operands, buffers and expressions. */
static bool same_fields(const sn_stmt_rec *x, const sn_stmt_rec *y) {
    return x->op == y->op && x->dtype == y->dtype && x->n_in == y->n_in && x->has_mask == y->has_mask &&
           x->n_results == y->n_results && x->kind == y->kind && x->bulk == y->bulk && x->await == y->await &&
           x->pipe == y->pipe && x->once == y->once && x->mma == y->mma && x->mma_columns == y->mma_columns &&
           x->n_combs == y->n_combs && !memcmp(x->combs, y->combs, x->n_combs * sizeof *x->combs) &&
           x->exclusive == y->exclusive && !memcmp(&x->f, &y->f, sizeof x->f) && x->i == y->i &&
           !x->axis.i == !y->axis.i && !x->first.i == !y->first.i && !x->next.i == !y->next.i;
}

static bool same_stmt(const pair *p, const sn_stmt_rec *x, const sn_stmt_rec *y) {
    if (!same_fields(x, y) || number_of(p->a, x->buf) != number_of(p->b, y->buf)) return false;
    for (uint32_t i = 0; i < x->n_in; i++)
        if (sn_val_get(p->m, x->in[i])->mark != sn_val_get(p->m, y->in[i])->mark) return false;
    if (x->axis.i && !same_ix(p, sn_axis_get(p->m, x->axis)->extent, sn_axis_get(p->m, y->axis)->extent)) return false;
    for (uint32_t i = 0; i < x->n_results; i++)
        if (sn_val_get(p->m, sn_result(x, i))->dtype != sn_val_get(p->m, sn_result(y, i))->dtype) return false;
    return same_ix(p, x->ix, y->ix) && same_ix(p, x->bound, y->bound);
}

/* Values and axes of a kernel by their order. */
static void number(const sn_module *m, sn_kern k) {
    uint32_t vals = 0, axes = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        for (uint32_t i = 0; i < r->n_results; i++) sn_val_get(m, sn_result(r, i))->mark = vals++;
        if (r->axis.i) sn_axis_get(m, r->axis)->mark = axes++;
    }
}

bool sn_kerns_equal(const sn_module *m, sn_kern a, sn_kern b) {
    const pair p = {m, sn_kern_get(m, a), sn_kern_get(m, b)};
    if (p.a->scheduled != p.b->scheduled || !sn_sched_eq(&p.a->sched, &p.b->sched)) return false;
    if (!same_buffers(m, &p.a->params, &p.b->params) || !same_buffers(m, &p.a->locals, &p.b->locals)) return false;
    number(m, a);
    number(m, b);
    sn_stmt s = sn_stmt_walk_first(m, a), t = sn_stmt_walk_first(m, b);
    for (; s.i && t.i; s = sn_stmt_walk_next(m, s), t = sn_stmt_walk_next(m, t))
        if (!same_stmt(&p, sn_stmt_get(m, s), sn_stmt_get(m, t))) return false;
    return !s.i && !t.i;
}

/* ---- sets ---- */

struct sn_kern_slot {
    sn_kern k; /* none: free */
    uint64_t hash;
};

static uint32_t next_slot(const sn_kern_set *s, uint32_t at) { return (at + 1) & (s->cap - 1); }

sn_kern sn_kern_set_find(const sn_kern_set *s, sn_kern k, const sn_kern_relation *also) {
    uint64_t hash = sn_kern_hash(s->m, k);
    for (uint32_t at = (uint32_t)hash & (s->cap - 1); s->cap && s->slots[at].k.i; at = next_slot(s, at)) {
        sn_kern first = s->slots[at].k;
        if (s->slots[at].hash != hash || !sn_kerns_equal(s->m, first, k)) continue;
        if (!also || also->same(also->user, first, k)) return first;
    }
    return (sn_kern){0};
}

static void put_slot(sn_kern_set *s, struct sn_kern_slot slot) {
    uint32_t at = (uint32_t)slot.hash & (s->cap - 1);
    while (s->slots[at].k.i) at = next_slot(s, at);
    s->slots[at] = slot;
}

void sn_kern_set_add(sn_kern_set *s, sn_kern k) {
    if (2 * s->n >= s->cap) {
        sn_kern_set larger = *s;
        larger.cap = s->cap ? 2 * s->cap : 16;
        larger.slots = SN_NEWN(s->arena, struct sn_kern_slot, larger.cap);
        for (uint32_t i = 0; i < s->cap; i++)
            if (s->slots[i].k.i) put_slot(&larger, s->slots[i]);
        *s = larger;
    }
    put_slot(s, (struct sn_kern_slot){k, sn_kern_hash(s->m, k)});
    s->n++;
}

/* ---- what is its own ---- */

static bool has_pair(const sn_equal *t, const char *of) {
    for (uint32_t i = 0; i < t->origins.n; i++)
        if (t->origins.at[i].of == of) return true;
    return false;
}

void sn_equal_note(sn_equal *out, const sn_module *m, sn_arena *arena, sn_kern of, sn_kern k) {
    const sn_buf_list *params = &sn_kern_get(m, of)->params;
    *out = (sn_equal){.of = of};
    for (uint32_t i = 0; i < params->n; i++) SN_PUSH(arena, &out->was, params->at[i]);
    sn_stmt s = sn_stmt_walk_first(m, of), t = sn_stmt_walk_first(m, k);
    for (; s.i && t.i; s = sn_stmt_walk_next(m, s), t = sn_stmt_walk_next(m, t)) {
        const sn_origin_pair pair = {sn_stmt_get(m, s)->from, sn_stmt_get(m, t)->from};
        if (pair.of && pair.of != pair.own && !has_pair(out, pair.of)) SN_PUSH(arena, &out->origins, pair);
    }
}
