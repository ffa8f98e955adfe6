/* verify_copies.c: the invariants L23 to L25 of Loop IR, about copies that are under way while the kernel goes on. The
 * other ones are in verify.c, whose head has the list; they hold when this runs.
 *
 * Uses the marks of statements (a copy: its pipe; behind the copying nests of a pipe: BEHIND) and of shared buffers
 * (the pipe that fills them).
 */
#include "ir/loop/access.h"
#include "ir/loop/box.h"
#include "ir/loop/copies.h"

enum { BEHIND = INT32_MAX }; /* no id of a statement */

typedef struct verifier {
    sn_module *m;
    const char *where;
    sn_kern k;
    sn_copy_list copies;
    sn_kern *stored; /* by buffer id: the last kernel that was seen to store to it */
} verifier;

#define FAIL(...) sn_stmt_fail(v->m, SN_ERROR_VERIFY, v->where, s, __VA_ARGS__)

/* ---- L23: bulk ---- */

static sn_status check_no_barrier(verifier *v, sn_stmt nest) {
    sn_stmt end = sn_stmt_walk_skip(v->m, nest);
    for (sn_stmt s = nest; s.i != end.i; s = sn_stmt_walk_next(v->m, s))
        if (sn_lops[sn_stmt_get(v->m, s)->op].syncs)
            return FAIL("L23: a barrier on the way of what a bulk nest copies");
    return SN_OK;
}

static sn_status check_box(verifier *v, sn_stmt s) {
    sn_box box;
    const char *why;
    if (!sn_box_find(&box, &why, v->m, s))
        return FAIL("L23: bulk stands on a block.x axis, or on a loop inside one, or on a box; this is none: %s", why);
    for (sn_stmt up = sn_stmt_get(v->m, s)->parent; up.i; up = sn_stmt_get(v->m, up)->parent)
        if (sn_stmt_get(v->m, up)->bulk) return FAIL("L23: a bulk nest inside a bulk nest");
    sn_stmt around = sn_stmt_get(v->m, s)->parent;
    if (box.fills && (!around.i || !sn_stmt_get(v->m, around)->pipe))
        return FAIL("L23: a box fills shared memory, and does not stand in a pipe");
    return SN_OK;
}

static sn_status check_bulk(verifier *v, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(v->m, s);
    if (!r->bulk) return SN_OK;
    if (sn_is_box(v->m, s)) return check_box(v, s);
    sn_stmt threads = sn_copy_threads(v->m, s);
    bool places = r->kind == SN_AXIS_BLOCK_X || r->kind == SN_AXIS_SEQ || r->kind == SN_AXIS_UNROLL, any = false;
    if (!threads.i || !places) return FAIL("L23: bulk stands on a block.x axis, or on a loop inside one");
    for (sn_stmt up = r->parent; up.i; up = sn_stmt_get(v->m, up)->parent)
        if (sn_stmt_get(v->m, up)->bulk) return FAIL("L23: a bulk nest inside a bulk nest");
    for (uint32_t i = 0; i < v->copies.n; i++) any |= sn_stmt_inside(v->m, v->copies.at[i].store, s);
    if (!any) return FAIL("L23: the nest copies nothing from global to shared memory");
    return check_no_barrier(v, threads);
}

/* ---- L24: await ---- */

static sn_status check_awaited(verifier *v, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(v->m, s);
    if (!r->bulk || r->kind == SN_AXIS_BLOCK_X || sn_is_box(v->m, s)) return SN_OK;
    sn_stmt awaits = sn_copy_awaits(v->m, s);
    if (!awaits.i || !sn_stmt_get(v->m, awaits)->await)
        return FAIL("L24: no loop of a nest behind this one awaits what each iteration copies");
    sn_stmt_get(v->m, awaits)->mark = 1;
    return SN_OK;
}

static sn_status check_await(verifier *v, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(v->m, s);
    if (!r->await) return SN_OK;
    if (!r->mark) return FAIL("L24: the nest before has no bulk loop in this place");
    bool is_const = sn_ix_is_const(v->m, sn_axis_get(v->m, r->axis)->extent, NULL);
    return is_const ? SN_OK : FAIL("L24: the extent is no constant");
}

/* ---- L25: pipe ---- */

typedef struct value_check {
    verifier *v;
    sn_stmt pipe, nest;
    bool wrong;
} value_check;

/* Is x made in the pipe, but not in the nest? It is not there yet when the nest runs ahead. */
static void check_value(value_check *c, sn_val x) {
    sn_stmt def = sn_val_get(c->v->m, x)->def;
    c->wrong |= sn_stmt_inside(c->v->m, def, c->pipe) && !sn_stmt_inside(c->v->m, def, c->nest);
}

static void check_atom(void *user, sn_ix atom) {
    value_check *c = user;
    const sn_ix_rec *r = sn_ix_get(c->v->m, atom);
    if (r->kind == SN_IX_VAL) check_value(c, (sn_val){r->id});
}

static sn_status check_ahead(verifier *v, sn_stmt pipe, sn_stmt nest) {
    value_check c = {v, pipe, nest, false};
    sn_stmt end = sn_stmt_walk_skip(v->m, nest);
    for (sn_stmt s = nest; s.i != end.i; s = sn_stmt_walk_next(v->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(v->m, s);
        if (r->bulk && r->kind != SN_AXIS_BLOCK_X && !sn_is_box(v->m, s))
            return FAIL("L25: in a pipe, bulk stands on block.x axes and on boxes");
        if (r->op == SN_LOP_REDUCE || r->op == SN_LOP_ACCUM) return FAIL("L25: what runs ahead in a pipe only copies");
        if (sn_stores(r) && r->mark != pipe.i) return FAIL("L25: the store runs ahead in a pipe, and is no copy");
        if (sn_loads(r) && (sn_buf_is_local(sn_buf_get(v->m, r->buf)) || v->stored[r->buf.i].i == v->k.i))
            return FAIL("L25: the load runs ahead in a pipe, and the kernel stores to '%s'",
                        sn_buf_get(v->m, r->buf)->name);
        for (uint32_t i = 0; i < r->n_in; i++) check_value(&c, r->in[i]);
        if (r->ix.i) sn_ix_walk(v->m, r->ix, check_atom, &c);
        if (r->bound.i) sn_ix_walk(v->m, r->bound, check_atom, &c);
        if (c.wrong) return FAIL("L25: the statement runs ahead in a pipe, and takes a value of this iteration");
    }
    return SN_OK;
}

static sn_status check_place(verifier *v, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(v->m, s);
    if (!r->pipe) return SN_OK;
    bool of_boxes = sn_pipe_of_boxes(v->m, s);
    if (r->op != SN_LOP_LOOP || r->kind != SN_AXIS_SEQ || r->pipe < (of_boxes ? 1 : 2) || r->pipe > SN_MAX_PIPE)
        return FAIL("L25: a pipe is a seq loop with %d to %d stages", of_boxes ? 1 : 2, SN_MAX_PIPE);
    for (sn_stmt up = r->parent; up.i; up = sn_stmt_get(v->m, up)->parent) {
        const sn_stmt_rec *u = sn_stmt_get(v->m, up);
        bool threads = u->axis.i && (u->kind == SN_AXIS_BLOCK_X || u->kind == SN_AXIS_BLOCK_Y);
        if (u->pipe && of_boxes && sn_pipe_of_boxes(v->m, up)) continue;
        if (u->pipe || threads) return FAIL("L25: a pipe inside %s", u->pipe ? "a pipe" : "an axis of threads");
    }
    return SN_OK;
}

static sn_status check_pipe(verifier *v, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(v->m, s);
    bool fills = false;
    if (!r->pipe) return SN_OK;
    for (sn_stmt t = r->first; t.i; t = sn_stmt_get(v->m, t)->next) {
        if (!sn_pipe_fills(v->m, t)) continue;
        fills = true;
        SN_TRY(check_ahead(v, s, t));
    }
    if (!fills) return FAIL("L25: no bulk nest stands in the pipe");
    if (!sn_pipe_barrier(v->m, s).i) return FAIL("L25: no barrier stands in the pipe behind its bulk nests");
    sn_stmt last = r->last;
    while (!sn_pipe_fills(v->m, last)) sn_stmt_get(v->m, last)->mark = BEHIND, last = sn_stmt_get(v->m, last)->prev;
    return SN_OK;
}

static sn_status claim_buffers(verifier *v) {
    for (uint32_t i = 0; i < v->copies.n; i++) {
        sn_copy *c = &v->copies.at[i];
        sn_stmt s = c->store;
        sn_buf_rec *b = sn_buf_get(v->m, sn_stmt_get(v->m, s)->buf);
        if (b->mark && c->pipe.i && b->mark != c->pipe.i) return FAIL("L25: another pipe fills '%s'", b->name);
        if (c->pipe.i) b->mark = c->pipe.i;
    }
    return SN_OK;
}

/* An access to a buffer that a pipe fills. */
static sn_status check_filled(verifier *v, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(v->m, s);
    sn_stmt pipe = {r->buf.i ? sn_buf_get(v->m, r->buf)->mark : 0}, up = s;
    if (!pipe.i || r->mark == pipe.i) return SN_OK;
    while (up.i && sn_stmt_get(v->m, up)->parent.i != pipe.i) up = sn_stmt_get(v->m, up)->parent;
    bool reads = sn_loads(r) && up.i && sn_stmt_get(v->m, up)->mark == BEHIND;
    return reads ? SN_OK
                 : FAIL("L25: a pipe fills '%s': it is read in the iteration behind that, and nothing else",
                        sn_buf_get(v->m, r->buf)->name);
}

/* ---- all of a kernel ---- */

typedef sn_status (*check_fn)(verifier *v, sn_stmt s);

static sn_status check_kernel(verifier *v) {
    static const check_fn CHECKS[] = {check_bulk, check_awaited, check_await, check_place, check_pipe, check_filled};
    const sn_kern_rec *k = sn_kern_get(v->m, v->k);
    for (uint32_t i = 0; i < k->locals.n; i++) sn_buf_get(v->m, k->locals.at[i])->mark = 0;
    for (uint32_t i = 0; i < k->params.n; i++) sn_buf_get(v->m, k->params.at[i])->mark = 0;
    for (sn_stmt s = k->first; s.i; s = sn_stmt_walk_next(v->m, s)) {
        sn_stmt_rec *r = sn_stmt_get(v->m, s);
        r->mark = 0;
        if (sn_stores(r)) v->stored[r->buf.i] = v->k;
    }
    for (uint32_t i = 0; i < v->copies.n; i++) sn_stmt_get(v->m, v->copies.at[i].store)->mark = v->copies.at[i].pipe.i;
    SN_TRY(claim_buffers(v));
    for (size_t i = 0; i < SN_COUNT(CHECKS); i++)
        for (sn_stmt s = k->first; s.i; s = sn_stmt_walk_next(v->m, s)) SN_TRY(CHECKS[i](v, s));
    return SN_OK;
}

static bool promises(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->bulk || r->await || r->pipe) return true;
    }
    return false;
}

sn_status sn_copies_verify(sn_module *m, const char *where) {
    sn_arena scratch;
    sn_status status = SN_OK;
    sn_arena_init(&scratch, m->env);
    sn_kern *stored = SN_NEWN(&scratch, sn_kern, m->bufs.count);
    for (uint32_t i = 0; i < m->kernels.n && status == SN_OK; i++) {
        verifier v = {.m = m, .where = where, .k = m->kernels.at[i], .stored = stored};
        if (!promises(m, v.k)) continue;
        sn_kern_copies(&v.copies, m, v.k, &scratch);
        status = check_kernel(&v);
    }
    sn_arena_free(&scratch);
    return status;
}
