/* edit.c: rewriting kernels: replacement of values and axes, splitting, cloning, dead code, common subexpressions.
 *
 * Every function is linear in the statements that it looks at and, but for new statements, takes no memory: annotations
 * live in the `mark` and `stamp` fields of the records. Nothing here decides whether a rewrite is legal; the passes do.
 */
#include "ir/loop/loop.h"

#include <string.h>

#include "ir/loop/build.h"

/* ---- replacing values ---- */

/* What becomes of a value: through one pair, through a map, or (neither given) through the marks of the values. */
typedef struct remap {
    sn_module *m;
    sn_val old, with;
    const sn_notes *map;
    bool changed;
} remap;

typedef SN_VEC(sn_val) val_vec;

/* Replacements are followed to their end, since a replaced value is usually about to be removed. */
static sn_val remap_val(const remap *r, sn_val v) {
    if (r->old.i) return v.i == r->old.i ? r->with : v;
    for (uint32_t steps = r->m->vals.count; steps > 0; steps--) {
        uint64_t note = 0;
        uint32_t next = !r->map ? sn_val_get(r->m, v)->mark : sn_notes_find(r->map, v.i, &note) ? (uint32_t)note : 0;
        if (next == 0 || next == v.i) return v;
        v.i = next;
    }
    SN_ASSERT(!"replacements form no cycle");
    return v;
}

typedef struct val_collector {
    sn_module *m;
    val_vec *vals;
} val_collector;

static void collect_val(void *user, sn_ix atom) {
    val_collector *c = user;
    const sn_ix_rec *r = sn_ix_get(c->m, atom);
    if (r->kind == SN_IX_VAL) SN_PUSH(&c->m->arena, c->vals, (sn_val){r->id});
}

static sn_ix remap_ix(remap *r, sn_ix e) {
    if (!e.i || !sn_ix_uses_vals(r->m, e)) return e;
    val_vec vals = {0};
    sn_ix_walk(r->m, e, collect_val, &(val_collector){r->m, &vals});
    for (uint32_t i = 0; i < vals.n; i++) {
        sn_val with = remap_val(r, vals.at[i]);
        if (with.i == vals.at[i].i) continue;
        e = sn_ix_subst_val(r->m, e, vals.at[i], sn_ix_val(r->m, with));
        r->changed = true;
    }
    return e;
}

static void remap_stmt(remap *r, sn_stmt_rec *s) {
    for (uint32_t i = 0; i < s->n_in; i++) {
        sn_val with = remap_val(r, s->in[i]);
        r->changed |= with.i != s->in[i].i;
        s->in[i] = with;
    }
    s->ix = remap_ix(r, s->ix);
    s->bound = remap_ix(r, s->bound);
}

void sn_val_replace(sn_module *m, sn_kern k, sn_val old, sn_val with) {
    remap r = {.m = m, .old = old, .with = with};
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) remap_stmt(&r, sn_stmt_get(m, s));
}

sn_val sn_val_follow(const sn_notes *map, sn_val v) {
    uint64_t next;
    while (sn_notes_find(map, v.i, &next)) v.i = (uint32_t)next;
    return v;
}

void sn_val_replace_all(sn_module *m, sn_kern k, const sn_notes *map) {
    remap r = {.m = m, .map = map};
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) remap_stmt(&r, sn_stmt_get(m, s));
}

/* ---- replacing axes ---- */

static void subst_stmt(sn_module *m, sn_stmt_rec *r, const sn_axis *axes, const sn_ix *with, uint32_t n) {
    if (r->ix.i) r->ix = sn_ix_subst(m, r->ix, axes, with, n);
    if (r->bound.i) r->bound = sn_ix_subst(m, r->bound, axes, with, n);
}

void sn_stmt_subst(sn_module *m, sn_stmt s, const sn_axis *axes, const sn_ix *with, uint32_t n) {
    if (n == 0) return;
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s; t.i != end.i; t = sn_stmt_walk_next(m, t)) {
        sn_stmt_rec *r = sn_stmt_get(m, t);
        subst_stmt(m, r, axes, with, n);
        if (!r->axis.i) continue;
        sn_axis_rec *ax = sn_axis_get(m, r->axis);
        ax->extent = sn_ix_subst(m, ax->extent, axes, with, n);
    }
}

/* A fresh statement like s (loop or reduce), without region, place and axis. */
static sn_stmt make_like(sn_module *m, sn_stmt s) {
    sn_stmt_rec *old = sn_stmt_get(m, s);
    sn_stmt out = sn_stmt_make(m, old->op, old->in, old->n_in);
    sn_stmt_rec *r = sn_stmt_get(m, out);
    sn_val *in = r->in;
    *r = *old;
    r->in = in;
    r->first = r->last = r->next = r->prev = r->parent = (sn_stmt){0};
    r->kern = (sn_kern){0};
    r->result = (sn_val){0};
    r->n_results = 0;
    sn_dtype dtypes[2 * SN_COUNT(r->combs)];
    SN_ASSERT(old->n_results <= SN_COUNT(dtypes));
    for (uint32_t k = 0; k < old->n_results; k++) dtypes[k] = sn_val_get(m, sn_result(old, k))->dtype;
    if (old->n_results) sn_stmt_add_results(m, out, dtypes, old->n_results);
    return out;
}

static void move_region(sn_module *m, sn_stmt from, sn_stmt to) {
    for (sn_stmt t; (t = sn_stmt_get(m, from)->first).i;) {
        sn_stmt_unlink(m, t);
        sn_stmt_insert(m, sn_at_end(sn_stmt_get(m, to)->kern, to), t);
    }
}

sn_stmt sn_stmt_split_axis(sn_module *m, sn_stmt s, int64_t factor, sn_axis *outer, sn_axis *inner) {
    sn_stmt_rec *r = sn_stmt_get(m, s);
    const sn_axis_rec *ax = sn_axis_get(m, r->axis);
    SN_ASSERT(factor > 0 && sn_ix_is_multiple(m, ax->extent, factor));
    *outer = sn_axis_new(m, ax->name, sn_ix_divc(m, ax->extent, factor));
    *inner = sn_axis_new(m, ax->name, sn_ix_const(m, factor));
    sn_ix with = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, *outer), factor), sn_ix_axis(m, *inner));
    sn_stmt_subst(m, s, &r->axis, &with, 1);
    sn_stmt t = make_like(m, s);
    sn_stmt_get(m, t)->kern = r->kern;
    move_region(m, s, t);
    r->axis = *outer;
    sn_stmt_get(m, t)->axis = *inner;
    sn_stmt_insert(m, sn_at_end(r->kern, s), t);
    if (r->op != SN_LOP_REDUCE) return t;
    sn_val results[2 * SN_COUNT(r->combs)];
    for (uint32_t k = 0; k < r->n_results; k++) results[k] = sn_result(sn_stmt_get(m, t), k);
    sn_put_yield(m, sn_at_end(r->kern, s), results, r->n_results);
    return t;
}

/* ---- clone ---- */

typedef struct cloner {
    remap values;      /* marks: old value -> new value */
    sn_axis_list axes; /* of the enclosing cloned loops, and what replaces them */
    SN_VEC(sn_ix) with;
} cloner;

static void clear_mark(void *user, sn_ix atom) {
    sn_module *m = user;
    const sn_ix_rec *r = sn_ix_get(m, atom);
    if (r->kind == SN_IX_VAL) sn_val_get(m, (sn_val){r->id})->mark = 0;
}

/* Clear the marks of all values that s mentions: operands and results. */
static void clear_marks(sn_module *m, const sn_stmt_rec *s) {
    for (uint32_t i = 0; i < s->n_in; i++) sn_val_get(m, s->in[i])->mark = 0;
    for (uint32_t i = 0; i < s->n_results; i++) sn_val_get(m, sn_result(s, i))->mark = 0;
    if (s->ix.i) sn_ix_walk(m, s->ix, clear_mark, m);
    if (s->bound.i) sn_ix_walk(m, s->bound, clear_mark, m);
}

static sn_stmt clone_at(cloner *c, sn_cursor at, sn_stmt s) {
    sn_module *m = c->values.m;
    const sn_stmt_rec *old = sn_stmt_get(m, s);
    sn_stmt t = make_like(m, s);
    sn_stmt_rec *r = sn_stmt_get(m, t);
    remap_stmt(&c->values, r);
    subst_stmt(m, r, c->axes.at, c->with.at, c->axes.n);
    for (uint32_t i = 0; i < r->n_results; i++) sn_val_get(m, sn_result(old, i))->mark = sn_result(r, i).i;
    sn_stmt_insert(m, at, t);
    if (!sn_lop_has_region(r->op)) return t;
    if (r->axis.i) {
        const sn_axis_rec *ax = sn_axis_get(m, old->axis);
        r->axis = sn_axis_new(m, ax->name, sn_ix_subst(m, ax->extent, c->axes.at, c->with.at, c->axes.n));
        SN_PUSH(&m->arena, &c->axes, old->axis);
        SN_PUSH(&m->arena, &c->with, sn_ix_axis(m, r->axis));
    }
    for (sn_stmt u = old->first; u.i; u = sn_stmt_get(m, u)->next) clone_at(c, sn_at_end(at.kern, t), u);
    if (r->axis.i) c->axes.n = --c->with.n;
    return t;
}

sn_stmt sn_stmt_clone(sn_module *m, sn_cursor at, sn_stmt s) {
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s; t.i != end.i; t = sn_stmt_walk_next(m, t)) clear_marks(m, sn_stmt_get(m, t));
    cloner c = {.values = {.m = m}};
    return clone_at(&c, at, s);
}

sn_kern sn_kern_clone(sn_module *m, sn_kern k) {
    sn_kern copy = sn_kern_new(m, sn_strf(&m->arena, "%s_try", sn_kern_get(m, k)->name));
    const sn_kern_rec *old = sn_kern_get(m, k);
    cloner c = {.values = {.m = m}};
    sn_kern_remove(m, copy);
    sn_kern_get(m, copy)->sched = old->sched;
    sn_kern_get(m, copy)->section = old->section;
    for (sn_stmt s = old->first; s.i; s = sn_stmt_walk_next(m, s)) clear_marks(m, sn_stmt_get(m, s));
    for (sn_stmt s = old->first; s.i; s = sn_stmt_get(m, s)->next) clone_at(&c, sn_at_end(copy, (sn_stmt){0}), s);
    sn_kern_collect_params(m, copy);
    return copy;
}

/* ---- dead code ---- */

static void count_use(void *user, sn_ix atom) {
    sn_module *m = user;
    const sn_ix_rec *r = sn_ix_get(m, atom);
    if (r->kind == SN_IX_VAL) sn_val_get(m, (sn_val){r->id})->mark++;
}

static void drop_use(void *user, sn_ix atom) {
    sn_module *m = user;
    const sn_ix_rec *r = sn_ix_get(m, atom);
    if (r->kind == SN_IX_VAL) sn_val_get(m, (sn_val){r->id})->mark--;
}

static void drop_uses(sn_module *m, const sn_stmt_rec *s) {
    for (uint32_t i = 0; i < s->n_in; i++) sn_val_get(m, s->in[i])->mark--;
    if (s->ix.i) sn_ix_walk(m, s->ix, drop_use, m);
    if (s->bound.i) sn_ix_walk(m, s->bound, drop_use, m);
}

/* val.mark = number of uses; stmt.mark = 0 (later: stores inside). */
static void count_uses(sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        sn_stmt_get(m, s)->mark = 0;
        clear_marks(m, sn_stmt_get(m, s));
    }
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        for (uint32_t i = 0; i < r->n_in; i++) sn_val_get(m, r->in[i])->mark++;
        if (r->ix.i) sn_ix_walk(m, r->ix, count_use, m);
        if (r->bound.i) sn_ix_walk(m, r->bound, count_use, m);
    }
}

static sn_stmt innermost_last(const sn_module *m, sn_stmt s) {
    while (s.i && sn_stmt_get(m, s)->last.i) s = sn_stmt_get(m, s)->last;
    return s;
}

/* The statement before s in pre-order. */
static sn_stmt walk_back(const sn_module *m, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    return r->prev.i ? innermost_last(m, r->prev) : r->parent;
}

/* Nothing without results is there for their sake. A region that gives results may still store on the way. */
static bool is_dead(const sn_module *m, const sn_stmt_rec *r) {
    const sn_lop_info *op = &sn_lops[r->op];
    if (op->result == SN_RESULT_NONE) return op->has_region && !r->first.i;
    if (op->has_region && r->mark > 0) return false;
    for (uint32_t i = 0; i < r->n_results; i++)
        if (sn_val_get(m, sn_result(r, i))->mark > 0) return false;
    return true;
}

/* Parameters whose last access went. The others keep their order. */
static void drop_untouched(sn_module *m, sn_kern k) {
    sn_kern_rec *r = sn_kern_get(m, k);
    sn_buf_list *lists[] = {&r->params, &r->locals};
    for (size_t l = 0; l < SN_COUNT(lists); l++)
        for (uint32_t i = 0; i < lists[l]->n; i++) sn_buf_get(m, lists[l]->at[i])->mark = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s))
        if (sn_stmt_get(m, s)->buf.i) sn_buf_get(m, sn_stmt_get(m, s)->buf)->mark = 1;
    for (size_t l = 0; l < SN_COUNT(lists); l++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < lists[l]->n; i++)
            if (sn_buf_get(m, lists[l]->at[i])->mark) lists[l]->at[n++] = lists[l]->at[i];
        lists[l]->n = n;
    }
}

/* Uses come after definitions in pre-order, so one walk backwards sees every statement after all its users. */
bool sn_kern_dead_code(sn_module *m, sn_kern k) {
    bool changed = false;
    count_uses(m, k);
    sn_stmt s = innermost_last(m, sn_kern_get(m, k)->last);
    for (sn_stmt before; s.i; s = before) {
        before = walk_back(m, s);
        sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!is_dead(m, r)) {
            if (r->parent.i) sn_stmt_get(m, r->parent)->mark += sn_stores(r) ? 1 : r->mark;
            continue;
        }
        sn_stmt end = sn_stmt_walk_skip(m, s);
        for (sn_stmt t = s; t.i != end.i; t = sn_stmt_walk_next(m, t)) drop_uses(m, sn_stmt_get(m, t));
        sn_stmt_unlink(m, s);
        changed = true;
    }
    if (changed) drop_untouched(m, k);
    return changed;
}

/* ---- common subexpressions ----
 * Value numbering over the tree: a hash table of the pure statements of the open regions. Entries of a bucket are
 * chained through stmt.mark, newest first, so closing a region pops its statements. val.mark is the replacement of a
 * removed value. A load's stamp is the number of stores that its buffer may have seen (buf.mark): entering a loop
 * counts the stores of its body, because an earlier iteration runs before this one. */

enum { CSE_BUCKETS = 1024 };

typedef struct cse {
    remap values;
    sn_stmt bucket[CSE_BUCKETS];
} cse;

static uint32_t cse_bucket(const sn_stmt_rec *r) {
    uint64_t f, h = sn_hash(r->op, r->dtype);
    memcpy(&f, &r->f, sizeof f);
    h = sn_hash(sn_hash(h, f), (uint64_t)r->i);
    h = sn_hash(sn_hash(h, (uint64_t)r->ix.i << 32 | r->bound.i), (uint64_t)r->buf.i << 32 | r->stamp);
    for (uint32_t i = 0; i < r->n_in; i++) h = sn_hash(h, r->in[i].i);
    return (uint32_t)(h >> 32) % CSE_BUCKETS;
}

static bool cse_same(const sn_stmt_rec *x, const sn_stmt_rec *y) {
    return x->op == y->op && x->dtype == y->dtype && x->n_in == y->n_in && x->ix.i == y->ix.i &&
           x->bound.i == y->bound.i && x->buf.i == y->buf.i && x->stamp == y->stamp && x->i == y->i &&
           memcmp(&x->f, &y->f, sizeof x->f) == 0 &&
           (x->n_in == 0 || memcmp(x->in, y->in, x->n_in * sizeof *x->in) == 0);
}

static void count_stores(sn_module *m, sn_stmt loop) {
    sn_stmt end = sn_stmt_walk_skip(m, loop);
    for (sn_stmt t = loop; t.i != end.i; t = sn_stmt_walk_next(m, t))
        if (sn_stores(sn_stmt_get(m, t))) sn_buf_get(m, sn_stmt_get(m, t)->buf)->mark++;
}

/* Forget the statements of a region that ends. Those of regions inside it are already gone. */
static void cse_close(cse *c, sn_stmt last) {
    sn_module *m = c->values.m;
    for (sn_stmt s = last; s.i; s = sn_stmt_get(m, s)->prev) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_lops[r->op].pure) continue;
        sn_stmt *head = &c->bucket[cse_bucket(r)];
        SN_ASSERT(head->i == s.i);
        head->i = r->mark;
    }
}

/* Number the value of s, or remove s because an equal one is visible. */
static void cse_value(cse *c, sn_stmt s) {
    sn_module *m = c->values.m;
    sn_stmt_rec *r = sn_stmt_get(m, s);
    r->stamp = sn_loads(r) ? sn_buf_get(m, r->buf)->mark : 0;
    sn_stmt *head = &c->bucket[cse_bucket(r)];
    for (sn_stmt t = *head; t.i; t.i = sn_stmt_get(m, t)->mark) {
        if (!cse_same(r, sn_stmt_get(m, t))) continue;
        sn_val_get(m, r->result)->mark = sn_stmt_get(m, t)->result.i;
        sn_stmt_unlink(m, s);
        c->values.changed = true;
        return;
    }
    r->mark = head->i;
    *head = s;
}

bool sn_kern_cse(sn_module *m, sn_kern k) {
    cse c = {.values = {.m = m}};
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        clear_marks(m, sn_stmt_get(m, s));
        if (sn_stmt_get(m, s)->buf.i) sn_buf_get(m, sn_stmt_get(m, s)->buf)->mark = 0;
    }
    for (sn_stmt s = sn_stmt_walk_first(m, k), next; s.i; s = next) {
        sn_stmt_rec *r = sn_stmt_get(m, s);
        next = sn_stmt_walk_next(m, s);
        sn_stmt up = r->parent;
        bool ends = !r->first.i && !r->next.i;
        remap_stmt(&c.values, r);
        if (sn_stores(r)) sn_buf_get(m, r->buf)->mark++;
        if (r->axis.i) count_stores(m, s);
        if (sn_lops[r->op].pure) cse_value(&c, s);
        /* Close every region that ended with s, from the inside out. */
        for (; ends && up.i; up = sn_stmt_get(m, up)->parent) {
            cse_close(&c, sn_stmt_get(m, up)->last);
            ends = !sn_stmt_get(m, up)->next.i;
        }
    }
    return c.values.changed;
}

/* ---- kernels ---- */

void sn_kern_remove(sn_module *m, sn_kern k) {
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        if (m->kernels.at[i].i != k.i) continue;
        m->kernels.n--;
        memmove(m->kernels.at + i, m->kernels.at + i + 1, (m->kernels.n - i) * sizeof *m->kernels.at);
        return;
    }
}

void sn_kern_settle(sn_module *m, sn_kern first, sn_kern winner) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        sn_kern k = m->kernels.at[i];
        bool in_place = sn_kern_eq(k, first); /* others may need what it stores: the winner stands where it stood */
        if (!in_place && sn_kern_eq(sn_kern_get(m, k)->alternative_of, first)) continue;
        m->kernels.at[n++] = in_place ? winner : k;
    }
    m->kernels.n = n;
    sn_kern_get(m, winner)->alternative_of = (sn_kern){0};
    for (uint32_t i = 0; i < m->wrap.steps.n; i++)
        if (sn_kern_eq(m->wrap.steps.at[i].kern, first)) m->wrap.steps.at[i].kern = winner;
}

void sn_kern_take_place(sn_module *m, sn_kern old, sn_kern with) {
    sn_kern_rec *was = sn_kern_get(m, old), *is = sn_kern_get(m, with);
    sn_kern_remove(m, with);
    for (uint32_t i = 0; i < m->kernels.n; i++)
        if (sn_kern_eq(m->kernels.at[i], old)) m->kernels.at[i] = with;
    for (uint32_t i = 0; i < m->wrap.steps.n; i++)
        if (sn_kern_eq(m->wrap.steps.at[i].kern, old)) m->wrap.steps.at[i].kern = with;
    is->name = was->name;
    is->note = was->note;
    is->from = was->from;
    sn_names_put(&m->kern_names, is->name, with.i);
}
