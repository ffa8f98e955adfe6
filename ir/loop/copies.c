/* copies.c: see copies.h. Uses the marks of values (number of uses, 2 for more) and buffers (stored to, loaded by the
 * block.x nest that is being read).
 */
#include "ir/loop/copies.h"

#include <math.h>

#include "ir/loop/access.h"

/* ---- copies ---- */

static bool is_zero(const sn_module *m, sn_val v) {
    const sn_stmt_rec *r = sn_stmt_get(m, sn_val_get(m, v)->def);
    return r->op == SN_LOP_CONST && r->f == 0 && !signbit(r->f) && r->i == 0;
}

static void note_use(sn_module *m, sn_val v) { sn_val_get(m, v)->mark += sn_val_get(m, v)->mark < 2; }

static void note_atom(void *user, sn_ix atom) {
    const sn_ix_rec *r = sn_ix_get(user, atom);
    if (r->kind == SN_IX_VAL) note_use(user, (sn_val){r->id});
}

/* Of a buffer: bit 0, the kernel stores to it; above, the block.x nest that was the last one to load from it. */
static void note_buffers(sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->buf.i) sn_buf_get(m, r->buf)->mark = 0;
        for (uint32_t i = 0; i < r->n_results; i++) sn_val_get(m, sn_result(r, i))->mark = 0;
    }
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_stores(r)) sn_buf_get(m, r->buf)->mark = 1;
        for (uint32_t i = 0; i < r->n_in; i++) note_use(m, r->in[i]);
        if (r->ix.i) sn_ix_walk(m, r->ix, note_atom, m);
        if (r->bound.i) sn_ix_walk(m, r->bound, note_atom, m);
    }
}

static void note_loads(sn_module *m, sn_stmt threads) {
    sn_stmt end = sn_stmt_walk_skip(m, threads);
    for (sn_stmt s = threads; s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_loads(r)) continue;
        uint32_t *mark = &sn_buf_get(m, r->buf)->mark;
        *mark = threads.i << 1 | (*mark & 1);
    }
}

static bool is_copy(const sn_module *m, const sn_stmt_rec *r, sn_stmt threads) {
    if (r->op != SN_LOP_STORE || r->has_mask || sn_buf_get(m, r->buf)->scope != SN_BUF_SHARED) return false;
    const sn_val_rec *x = sn_val_get(m, r->in[0]);
    const sn_stmt_rec *load = sn_stmt_get(m, x->def);
    if (load->op != SN_LOP_LOAD || x->mark != 1 || load->parent.i != r->parent.i) return false;
    const sn_buf_rec *from = sn_buf_get(m, load->buf);
    if (sn_buf_is_local(from) || (from->mark & 1) || (load->has_mask && !is_zero(m, load->in[1]))) return false;
    return !threads.i || sn_buf_get(m, r->buf)->mark >> 1 != threads.i;
}

static sn_stmt bulk_around(const sn_module *m, sn_stmt s) {
    while (s.i && !sn_stmt_get(m, s)->bulk) s = sn_stmt_get(m, s)->parent;
    return s;
}

static sn_stmt pipe_around(const sn_module *m, sn_stmt s) {
    while (s.i && !sn_stmt_get(m, s)->pipe) s = sn_stmt_get(m, s)->parent;
    return s;
}

sn_stmt sn_copy_threads(const sn_module *m, sn_stmt s) {
    while (s.i && !(sn_is_nest(sn_stmt_get(m, s)) && sn_stmt_get(m, s)->kind == SN_AXIS_BLOCK_X))
        s = sn_stmt_get(m, s)->parent;
    return s;
}

void sn_kern_copies(sn_copy_list *out, sn_module *m, sn_kern k, sn_arena *arena) {
    *out = (sn_copy_list){0};
    bool any = false;
    const sn_kern_rec *kern = sn_kern_get(m, k);
    for (uint32_t i = 0; i < kern->locals.n; i++) any |= sn_buf_get(m, kern->locals.at[i])->scope == SN_BUF_SHARED;
    if (!any) return;
    note_buffers(m, k);
    sn_stmt threads = {0}, end = {0};
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (s.i == end.i) threads = (sn_stmt){0};
        if (sn_is_nest(r) && r->kind == SN_AXIS_BLOCK_X) {
            threads = s;
            end = sn_stmt_walk_skip(m, s);
            note_loads(m, s);
        }
        sn_stmt bulk = bulk_around(m, s);
        if ((!threads.i && !bulk.i) || !is_copy(m, r, threads)) continue;
        sn_copy c = {.store = s, .load = sn_val_get(m, r->in[0])->def, .threads = threads, .bulk = bulk};
        if (c.bulk.i) c.pipe = pipe_around(m, c.bulk);
        SN_PUSH(arena, out, c);
    }
}

uint32_t sn_copy_stages(const sn_module *m, const sn_copy_list *copies, sn_buf b) {
    for (uint32_t i = 0; i < copies->n; i++) {
        const sn_copy *c = &copies->at[i];
        if (c->pipe.i && sn_buf_eq(sn_stmt_get(m, c->store)->buf, b)) return sn_stmt_get(m, c->pipe)->pipe;
    }
    return 1;
}

/* ---- two nests: one copies, the other one uses it ---- */

/* The nest behind `top`, with nothing but values in between; none: there is none. */
static sn_stmt next_nest(const sn_module *m, sn_stmt top) {
    for (sn_stmt s = sn_stmt_get(m, top)->next; s.i; s = sn_stmt_get(m, s)->next) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_is_nest(r)) return s;
        if (sn_lop_has_region(r->op) || sn_stores(r) || sn_lops[r->op].syncs) break;
    }
    return (sn_stmt){0};
}

static bool reads_shared(const sn_module *m, sn_stmt nest) {
    sn_stmt end = sn_stmt_walk_skip(m, nest);
    for (sn_stmt s = nest; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_loads(r) && sn_buf_get(m, r->buf)->scope == SN_BUF_SHARED) return true;
    }
    return false;
}

static bool reads_same(sn_module *m, sn_stmt a, sn_stmt b);

/* Where several nests stand in one, it is the one that reads shared memory, or the first of those that read the same of it, as do sums of a step and
 * squares about their mean. Nests of threads in a reduction over blocks follow each other: the first one that does has waited for all that is there. */
static bool find_levels(sn_copy_nest *out, sn_module *m, sn_stmt top) {
    for (out->n = 0; top.i;) {
        sn_stmt inner = {0};
        bool in_turn = sn_stmt_get(m, top)->op == SN_LOP_REDUCE && sn_stmt_get(m, top)->kind == SN_AXIS_CLUSTER;
        if (!sn_is_nest(sn_stmt_get(m, top)) || out->n == SN_COPY_LEVELS) return false;
        out->at[out->n++] = top;
        for (sn_stmt s = sn_stmt_get(m, top)->first; s.i; s = sn_stmt_get(m, s)->next) {
            const sn_stmt_rec *r = sn_stmt_get(m, s);
            if (sn_lops[r->op].syncs) return false;
            if (!sn_lop_has_region(r->op)) continue;
            if (inner.i && reads_shared(m, inner) && in_turn) break;
            if (inner.i && reads_shared(m, inner) && reads_shared(m, s)) {
                if (!reads_same(m, inner, s)) return false;
                continue;
            }
            if (!inner.i || reads_shared(m, s)) inner = s;
        }
        top = inner;
    }
    return out->n > 0;
}

static bool has_load(sn_module *m, sn_stmt nest, sn_buf b, sn_ix e) {
    sn_stmt end = sn_stmt_walk_skip(m, nest);
    for (sn_stmt s = nest; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_loads(r) && sn_buf_eq(r->buf, b) && sn_ix_eq(r->ix, e)) return true;
    }
    return false;
}

/* Does b read from shared memory, in each iteration, what a does in the same one? */
static bool reads_same(sn_module *m, sn_stmt a, sn_stmt b) {
    sn_copy_nest of_a, of_b;
    if (!find_levels(&of_a, m, a) || !find_levels(&of_b, m, b) || of_a.n != of_b.n) return false;
    if (!sn_loops_alike(m, of_a.at, of_b.at, of_a.n)) return false;
    sn_stmt end = sn_stmt_walk_skip(m, b);
    for (sn_stmt s = b; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_loads(r) || sn_buf_get(m, r->buf)->scope != SN_BUF_SHARED) continue;
        if (!has_load(m, a, r->buf, sn_ix_over(m, r->ix, of_b.at, of_a.at, of_a.n))) return false;
    }
    return true;
}

/* Does the nest make copies of its own? */
static bool is_bulk(const sn_module *m, const sn_copy_nest *nest) {
    for (uint32_t k = 0; k < nest->n; k++)
        if (sn_stmt_get(m, nest->at[k])->bulk) return true;
    return false;
}

bool sn_copy_nests(sn_copy_nest *copy, sn_copy_nest *use, sn_module *m, sn_stmt threads) {
    sn_stmt top = threads, outer = sn_stmt_get(m, threads)->parent;
    const sn_stmt_rec *r = outer.i ? sn_stmt_get(m, outer) : NULL;
    if (r && r->op == SN_LOP_LOOP && r->kind == SN_AXIS_CLUSTER) top = outer;
    if (!find_levels(copy, m, top)) return false;
    sn_stmt next = next_nest(m, top);
    if (!next.i || !find_levels(use, m, next) || copy->n != use->n || is_bulk(m, use)) return false;
    return sn_loops_alike(m, copy->at, use->at, copy->n);
}

sn_stmt sn_copy_awaits(sn_module *m, sn_stmt bulk) {
    sn_copy_nest copy, use;
    sn_stmt threads = sn_copy_threads(m, bulk);
    if (!threads.i || !sn_copy_nests(&copy, &use, m, threads)) return (sn_stmt){0};
    for (uint32_t k = 0; k < copy.n; k++)
        if (copy.at[k].i == bulk.i) return use.at[k];
    return (sn_stmt){0};
}

/* ---- pipes ---- */

/* A bulk nest that stores nothing to shared memory is a box that brings results to memory. */
static bool fills(const sn_module *m, sn_stmt bulk) {
    sn_stmt end = sn_stmt_walk_skip(m, bulk);
    for (sn_stmt s = bulk; s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_stores(r) && sn_buf_get(m, r->buf)->scope == SN_BUF_SHARED) return true;
    }
    return false;
}

bool sn_pipe_fills(const sn_module *m, sn_stmt s) {
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (sn_stmt t = s, next; t.i != end.i; t = next) {
        next = sn_stmt_get(m, t)->pipe ? sn_stmt_walk_skip(m, t) : sn_stmt_walk_next(m, t);
        if (sn_stmt_get(m, t)->bulk && fills(m, t)) return true;
    }
    return false;
}

sn_stmt sn_pipe_barrier(const sn_module *m, sn_stmt pipe) {
    sn_stmt barrier = {0};
    for (sn_stmt s = sn_stmt_get(m, pipe)->first; s.i; s = sn_stmt_get(m, s)->next) {
        if (sn_lops[sn_stmt_get(m, s)->op].syncs && !barrier.i) barrier = s;
        else if (sn_pipe_fills(m, s)) barrier = (sn_stmt){0};
    }
    return barrier;
}
