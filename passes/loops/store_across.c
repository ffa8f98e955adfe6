/* store_across.c: the pass `store-across`: what a kernel stores across what it loads is stored by a kernel of its own.
 *
 *     k0: loop i in 42093 { loop c in 3 { %0 = reduce max r in 373 { load x[15700689*c + 373*i + r] }
 *                                         %1 = reduce sum r in 373 { load x[..]  sub  exp }  %2 = log %1
 *                                         loop r in 373 { load x[..]  sub  sub  store y[126279*r + 3*i + c] } } }
 *  -> k0: loop c in 3 { loop i in 42093 { %0 = .. %1 = .. %2 = ..  store k0_v0[42093*c + i], %0  store k0_v1[..], %2 } }
 *     k0_across: loop c { loop i { loop r { load x[..]  load k0_v0[..]  load k0_v1[..]  sub  sub  store y[..] } } }
 *
 * Where the results of a reduction, or a row that is stored by what it comes to, lie in another order than the operand, one of both is
 * accessed in pieces, whoever walks them. Apart, the first kernel walks memory in the order of its loads, and the second one is a
 * permutation, for which there are classes (tile, brick) that move whole lines on both sides. It loads once more what it makes its results
 * of; of a reduction these are the results alone.
 *
 * A short reduction may instead be written out (write_out.c): then the kernel is one of straight-line code, which the same classes take.
 * And where loads lie across each other, or what is stored, operands that no cache holds may be turned in front of the kernel (turn_operands.c).
 *
 * Decided by the model, where an access is contiguous along another loop than others are: all ways are taken through the passes behind
 * this one, as programs of their own, and what stays together is what is not clearly slower. What moves: stores behind reductions, and
 * loops that store and reduce nothing, or a copy of them with what lies across where they store in both orders; constants and plain loads
 * are repeated, other values pass through memory, one for each row. After `fuse` and `online-softmax`, which want the nests of a row in one
 * kernel; before `split-reduction`, which may cut what is left. GPUs alone: a core walks lines that it has in its cache. Legal: iterations
 * of outer loops are apart from each other, and the second kernel runs behind the first one. Cost: linear in the kernel, and four times
 * the passes behind it for one with accesses across each other; of the module, once for each that is changed.
 */
#include "passes/base/rebuild.h"
#include "passes/loops/again.h"
#include "passes/loops/turn_operands.h"
#include "passes/loops/write_out.h"
#include "passes/schedule/alone.h"
#include "passes/schedule/base/constants.h"
#include "passes/schedule/choose.h"

/* A value of the kernel, and what it is elsewhere. */
typedef struct brought {
    sn_val of, here; /* in a kernel that stores */
    sn_buf in;       /* through which it passes */
} brought;

typedef struct across {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_chain outer;         /* of k */
    sn_stmt body;           /* innermost outer loop */
    sn_stmt_vec moved;      /* statements of the body */
    sn_notes moves;         /* these, once more */
    sn_kern_list made;      /* k and those that store */
    SN_VEC(brought) values; /* that pass through memory */
} across;

/* ---- does something lie across? ---- */

static bool is_large(const across *a, sn_buf b) {
    return !sn_buf_is_local(sn_buf_get(a->m, b)) && sn_buf_bytes(a->m, b) >= SN_ACROSS_BYTES;
}

/* The outer loop, or one of the moved nest if there is one, along which the access has its smallest step; none: it is not known, or
 * what it accesses is accessed again, as operands of products are. */
static sn_axis runs_along(const across *a, sn_stmt access, const sn_chain *nest) {
    sn_module *m = a->m;
    sn_axis best = {0};
    int64_t least = INT64_MAX, c;
    for (uint32_t k = 0; k < a->outer.n + nest->n; k++) {
        sn_stmt loop = k < a->outer.n ? a->outer.at[k] : nest->at[k - a->outer.n];
        sn_axis ax = sn_stmt_axis(m, loop);
        if (sn_ix_value(m, sn_axis_get(m, ax)->extent) < 2) continue;
        if (!sn_ix_coef(m, sn_stmt_get(m, access)->ix, ax, &c) || !c) return (sn_axis){0};
        c = c < 0 ? -c : c;
        if (c < least) least = c, best = ax;
    }
    return best;
}

/* Is it a large store, and are the large loads of the nest, or of all of the kernel, contiguous along other ones of those loops? Where one
 * runs along with it, loads lie across each other in either kernel. */
static bool lies_across(const across *a, sn_stmt store, const sn_chain *nest) {
    const sn_module *m = a->m;
    bool any = false;
    if (sn_stmt_get(m, store)->op != SN_LOP_STORE || !is_large(a, sn_stmt_get(m, store)->buf)) return false;
    sn_axis along = runs_along(a, store, nest);
    sn_stmt first = nest->n ? nest->at[0] : sn_stmt_walk_first(m, a->k);
    sn_stmt end = nest->n ? sn_stmt_walk_skip(m, first) : (sn_stmt){0};
    for (sn_stmt s = first; along.i && s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (r->op != SN_LOP_LOAD || !is_large(a, r->buf) || sn_ix_uses_vals(m, r->ix)) continue;
        sn_axis other = runs_along(a, s, nest);
        if (other.i && sn_axis_eq(other, along)) return false;
        any |= other.i != 0;
    }
    return any;
}

/* ---- what moves ---- */

/* A perfect nest of loops that stores, and reduces nothing. */
static bool is_storing_nest(sn_chain *out, const across *a, sn_stmt s) {
    const sn_module *m = a->m;
    if (sn_stmt_get(m, s)->op != SN_LOP_LOOP || sn_is_scan(m, s) || !sn_nest_perfect(out, m, s)) return false;
    return sn_stmt_stores(m, s, (sn_buf){0});
}

/* Does the nest store something large across what it loads? */
static bool stores_across(const across *a, const sn_chain *nest) {
    const sn_module *m = a->m;
    for (sn_stmt s = sn_stmt_get(m, nest->at[nest->n - 1])->first; s.i; s = sn_next(m, s))
        if (lies_across(a, s, nest)) return true;
    return false;
}

static void move(across *a, sn_stmt s) {
    SN_PUSH(a->cx->scratch, &a->moved, s);
    sn_notes_set(&a->moves, s.i, 0);
}

/* false: nothing moves, or the kernel is of another kind. */
static bool find_moved(across *a) {
    const sn_module *m = a->m;
    bool reduces = false;
    for (sn_stmt s = sn_region_first(m, a->k, a->body); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        sn_chain nest = {.n = 0};
        if (r->op == SN_LOP_REDUCE && !sn_stmt_stores(m, s, (sn_buf){0}) && !sn_is_scan(m, s)) {
            reduces = true;
        } else if (r->op == SN_LOP_STORE) {
            if (r->has_mask || sn_ix_uses_vals(m, r->ix)) return false;
            if (!reduces || !lies_across(a, s, &nest)) continue;
            move(a, s);
        } else if (is_storing_nest(&nest, a, s)) {
            if (!stores_across(a, &nest)) continue;
            move(a, s);
        } else if (sn_lop_has_region(r->op) || sn_stores(r)) {
            return false;
        }
    }
    return reduces && a->moved.n;
}

static bool is_moved(const across *a, sn_stmt s) {
    uint64_t moves;
    while (s.i && !sn_notes_find(&a->moves, s.i, &moves)) s = sn_stmt_get(a->m, s)->parent;
    return s.i;
}

/* Does what stays load what another kernel would store then, or add to it? */
static bool stays_alone(const across *a) {
    const sn_module *m = a->m;
    for (sn_stmt s = sn_stmt_walk_first(m, a->k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (!sn_is_access(r) || is_moved(a, s)) continue;
        for (uint32_t i = 0; i < a->moved.n; i++)
            if (sn_stmt_stores(m, a->moved.at[i], r->buf)) return false;
    }
    return true;
}

static bool may_change(const across *a) {
    const sn_kern_rec *r = sn_kern_get(a->m, a->k);
    return !r->scheduled && r->sched.cls == SN_SCHED_NONE;
}

static bool look(across *a) {
    if (!may_change(a)) return false;
    a->moved.n = 0;
    a->moves = (sn_notes){.arena = a->cx->scratch};
    sn_chain_outer(&a->outer, a->m, a->k);
    if (!a->outer.n || sn_chain_count(a->m, &a->outer) <= 0) return false;
    a->body = a->outer.at[a->outer.n - 1];
    return find_moved(a) && stays_alone(a);
}

/* ---- the kernels that store ---- */

typedef struct maker {
    across *a;
    sn_kern k;
    sn_stmt into; /* its innermost loop: values stand in front of what is there */
    sn_cursor at;
    sn_axis axes[SN_MAX_CHAIN]; /* of the outer loops, in a->k */
    sn_ix with[SN_MAX_CHAIN];   /* ... and here */
    SN_VEC(brought) values;
} maker;

/* Is it made again here: a number, or a plain load, or one of them in another type? */
static bool is_repeated(const across *a, const sn_stmt_rec *r) {
    const sn_module *m = a->m;
    if (r->op == SN_LOP_CONST) return true;
    if (r->op == SN_LOP_LOAD) return !r->has_mask && !sn_ix_uses_vals(m, r->ix);
    return r->op == SN_LOP_CAST && is_repeated(a, sn_stmt_get(m, sn_val_get(m, r->in[0])->def));
}

/* Row-major over the outer loops of a->k; with: what their axes are; NULL: themselves. */
static sn_ix row_of(const across *a, const sn_ix *with) {
    sn_ix index[SN_MAX_CHAIN], shape[SN_MAX_CHAIN];
    for (uint32_t k = 0; k < a->outer.n; k++) {
        index[k] = with ? with[k] : sn_ix_axis(a->m, sn_stmt_axis(a->m, a->outer.at[k]));
        shape[k] = sn_stmt_extent(a->m, a->outer.at[k]);
    }
    return sn_ix_flatten(a->m, index, shape, a->outer.n);
}

/* The buffer through which a value of k passes. */
static sn_buf buffer_of(across *a, sn_val v) {
    sn_module *m = a->m;
    sn_ix shape[SN_MAX_CHAIN];
    for (uint32_t i = 0; i < a->values.n; i++)
        if (a->values.at[i].of.i == v.i) return a->values.at[i].in;
    for (uint32_t k = 0; k < a->outer.n; k++) shape[k] = sn_stmt_extent(m, a->outer.at[k]);
    sn_ix size = sn_ix_product(m, shape, a->outer.n);
    const char *name = sn_strf(&m->arena, "%s_v%u", sn_kern_get(m, a->k)->name, a->values.n);
    sn_buf b = sn_buf_new(m, name, sn_val_get(m, v)->dtype, SN_BUF_TEMP, &size, 1);
    sn_buf_get(m, b)->align = 256;
    sn_put_store(m, sn_at_end(a->k, a->body), b, row_of(a, NULL), v);
    SN_PUSH(a->cx->scratch, &a->values, ((brought){.of = v, .in = b}));
    return b;
}

/* The value of k, in the kernel that stores. */
static sn_val bring(maker *mk, sn_val v) {
    across *a = mk->a;
    sn_module *m = a->m;
    for (uint32_t i = 0; i < mk->values.n; i++)
        if (mk->values.at[i].of.i == v.i) return mk->values.at[i].here;
    sn_stmt def = sn_val_get(m, v)->def;
    sn_val here;
    if (is_repeated(a, sn_stmt_get(m, def))) {
        sn_val in = {0};
        if (sn_stmt_get(m, def)->op == SN_LOP_CAST) in = bring(mk, sn_stmt_get(m, def)->in[0]);
        sn_stmt copy = sn_stmt_clone(m, mk->at, def);
        if (in.i) sn_stmt_get(m, copy)->in[0] = in;
        sn_stmt_subst(m, copy, mk->axes, mk->with, a->outer.n);
        here = sn_stmt_get(m, copy)->result;
    } else {
        here = sn_put_load(m, mk->at, buffer_of(a, v), row_of(a, mk->with));
    }
    SN_PUSH(a->cx->scratch, &mk->values, ((brought){.of = v, .here = here}));
    return here;
}

static void bring_operand(maker *mk, sn_val v) {
    const sn_module *m = mk->a->m;
    if (sn_stmt_get(m, sn_val_get(m, v)->def)->kern.i != mk->k.i) bring(mk, v);
}

static void bring_atom(void *user, sn_ix atom) {
    maker *mk = user;
    const sn_ix_rec *r = sn_ix_get(mk->a->m, atom);
    if (r->kind == SN_IX_VAL) bring_operand(mk, (sn_val){r->id});
}

/* Values from outside of what has moved: operands, and what positions are made of. */
static void bring_all(maker *mk, sn_stmt top) {
    sn_module *m = mk->a->m;
    sn_stmt end = sn_stmt_walk_skip(m, top);
    for (sn_stmt s = top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        for (uint32_t i = 0; i < r->n_in; i++) bring_operand(mk, r->in[i]);
        if (r->ix.i) sn_ix_walk(m, r->ix, bring_atom, mk);
        if (r->bound.i) sn_ix_walk(m, r->bound, bring_atom, mk);
    }
    sn_notes map = {.arena = mk->a->cx->scratch};
    for (uint32_t i = 0; i < mk->values.n; i++) sn_notes_set(&map, mk->values.at[i].of.i, mk->values.at[i].here.i);
    sn_val_replace_all(m, mk->k, &map);
}

static void make_kernel(across *a, sn_stmt moved) {
    sn_module *m = a->m;
    maker mk = {.a = a};
    const sn_kern_rec *of = sn_kern_get(m, a->k);
    sn_stmt loop = {0};
    sn_chain inside;
    mk.k = sn_kern_new(m, sn_strf(&m->arena, "%s_across", of->name));
    of = sn_kern_get(m, a->k);
    sn_kern_get(m, mk.k)->note = of->note;
    sn_kern_get(m, mk.k)->from = of->from;
    sn_kern_get(m, mk.k)->section = of->section;
    for (uint32_t k = 0; k < a->outer.n; k++) {
        const sn_axis_rec *ax = sn_axis_get(m, mk.axes[k] = sn_stmt_axis(m, a->outer.at[k]));
        sn_axis new = sn_axis_new(m, ax->name, ax->extent);
        mk.with[k] = sn_ix_axis(m, new);
        loop = sn_put_loop(m, sn_at_end(mk.k, loop), new, SN_AXIS_SEQ);
    }
    sn_stmt_subst(m, moved, mk.axes, mk.with, a->outer.n);
    sn_stmt_insert(m, sn_at_end(mk.k, loop), moved);
    sn_kern_dead_code(m, mk.k);
    sn_chain_outer(&inside, m, mk.k);
    mk.at = sn_at_before(m, sn_stmt_get(m, inside.at[inside.n - 1])->first);
    bring_all(&mk, moved);
    sn_kern_collect_params(m, mk.k);
    sn_kern_set_precision(m, mk.k, sn_kern_get(m, a->k)->sched.precision);
    SN_PUSH(a->cx->scratch, &a->made, mk.k);
}

/* ---- both ways ---- */

typedef sn_status (*again)(sn_pass_ctx *cx, bool *changed);

/* Passes on these kernels alone. */
static sn_status run_on(sn_pass_ctx *cx, sn_kern_list *kernels, const again *passes, uint32_t n) {
    sn_kern_list all = cx->m->kernels;
    sn_status status = SN_OK;
    bool changed = false;
    cx->m->kernels = *kernels;
    for (uint32_t i = 0; i < n && status == SN_OK; i++) status = passes[i](cx, &changed);
    *kernels = cx->m->kernels;
    cx->m->kernels = all;
    return status;
}

/* The first statement in the innermost loop of a perfect nest. */
static sn_stmt first_inside(const sn_module *m, sn_stmt nest) {
    sn_chain chain;
    sn_nest_perfect(&chain, m, nest);
    return sn_stmt_get(m, chain.at[chain.n - 1])->first;
}

/* Of a nest that stores in both orders a copy moves, with what lies across. */
static void part_nest(across *a, uint32_t i) {
    sn_module *m = a->m;
    sn_chain nest;
    sn_stmt_vec over = {0};
    uint32_t others = 0, at = 0;
    if (!is_storing_nest(&nest, a, a->moved.at[i])) return;
    sn_stmt inner = nest.at[nest.n - 1];
    for (sn_stmt s = sn_stmt_get(m, inner)->first; s.i; s = sn_next(m, s)) {
        if (sn_stmt_get(m, s)->op != SN_LOP_STORE) continue;
        if (lies_across(a, s, &nest)) SN_PUSH(a->cx->scratch, &over, s);
        else others++;
    }
    if (!others) return;
    sn_stmt copy = sn_stmt_clone(m, sn_at_end(a->k, a->body), nest.at[0]);
    for (sn_stmt t = first_inside(m, copy), o = sn_stmt_get(m, inner)->first, next, after; o.i; t = next, o = after) {
        next = sn_next(m, t), after = sn_next(m, o);
        if (sn_stmt_get(m, o)->op != SN_LOP_STORE) continue;
        bool moves = at < over.n && over.at[at].i == o.i;
        at += moves;
        sn_stmt_unlink(m, moves ? o : t);
    }
    a->moved.at[i] = copy;
}

/* The kernel without what moves has its loops in the order of its loads, and so have the values that pass. */
static sn_status take_apart(across *a) {
    static const again order[] = {sn_pass_reorder}, all[] = {sn_pass_reorder, sn_pass_collapse, sn_pass_simplify_index};
    sn_module *m = a->m;
    sn_kern_list own = {0};
    for (uint32_t i = 0; i < a->moved.n; i++) part_nest(a, i);
    for (uint32_t i = 0; i < a->moved.n; i++) sn_stmt_unlink(m, a->moved.at[i]);
    SN_PUSH(a->cx->scratch, &own, a->k);
    SN_PUSH(a->cx->scratch, &a->made, a->k);
    SN_TRY(run_on(a->cx, &own, order, SN_COUNT(order)));
    for (uint32_t i = 0; i < a->moved.n; i++) make_kernel(a, a->moved.at[i]);
    sn_kern_dead_code(m, a->k);
    sn_kern_collect_params(m, a->k);
    sn_kern_set_precision(m, a->k, sn_kern_get(m, a->k)->sched.precision);
    return run_on(a->cx, &a->made, all, SN_COUNT(all));
}

/* What becomes of a kernel. */
typedef enum way { TOGETHER, APART, WRITTEN, TURNED } way;

/* *done: it can. */
static sn_status go(across *a, way w, bool *done) {
    static const again own[] = {sn_pass_collapse, sn_pass_simplify_index},
                       all[] = {sn_pass_reorder, sn_pass_collapse, sn_pass_simplify_index};
    *done =
        w == TURNED ? may_change(a) && sn_turn_operands(a->cx, a->k, a->cx->target->cache_bytes, &a->made) : look(a);
    if (w == APART && *done) return take_apart(a);
    if (w == WRITTEN && *done) *done = sn_write_out(a->cx, a->k, SN_ACROSS_WRITTEN);
    if (!*done) return SN_OK;
    SN_PUSH(a->cx->scratch, &a->made, a->k);
    return w == TURNED ? run_on(a->cx, &a->made, all, SN_COUNT(all)) : run_on(a->cx, &a->made, own, SN_COUNT(own));
}

/* What the model says of a program of one kernel that goes that way, through the passes behind this one; 0: it cannot. */
static sn_status measure(double *cycles, sn_pass_ctx *cx, way w) {
    static const again behind[] = {sn_pass_split_reduction, sn_pass_join_axes};
    sn_module *m = cx->m;
    *cycles = 0;
    if (w != TOGETHER) {
        across a = {.cx = cx, .m = m, .k = m->kernels.at[0]};
        bool done;
        SN_TRY(go(&a, w, &done));
        if (!done) return SN_OK;
        m->kernels.n = 0;
        for (uint32_t i = 0; i < a.made.n; i++) SN_PUSH(&m->arena, &m->kernels, a.made.at[i]);
    }
    sn_kern_list all = m->kernels;
    SN_TRY(run_on(cx, &all, behind, SN_COUNT(behind)));
    m->kernels = all;
    for (uint32_t i = 0; i < all.n; i++) {
        sn_sched first;
        double one;
        SN_TRY(sn_schedule_first(&first, &one, cx, i));
        *cycles += one + (i ? SN_ACROSS_LAUNCH : 0);
    }
    return SN_OK;
}

static sn_status measure_alone(double *cycles, sn_pass_ctx *cx, const sn_users *users, uint32_t at, way w) {
    const char *why_not;
    *cycles = 0;
    sn_module *alone = sn_kernel_alone(&why_not, cx, users, at);
    if (!alone) return SN_OK;
    sn_pass_ctx quiet = *cx;
    quiet.m = alone;
    quiet.remark = NULL;
    quiet.metrics = NULL;
    quiet.choosing = NULL;
    sn_status status = measure(cycles, &quiet, w);
    sn_module_free(alone);
    return status;
}

/* The way that takes least, if that is clearly less than together. */
static sn_status choose(way *best, across *a, const sn_users *users, uint32_t at) {
    static const char *const names[] = {
        [TOGETHER] = "one kernel", [APART] = "apart", [WRITTEN] = "written out", [TURNED] = "operands turned"};
    double cycles[] = {[TOGETHER] = 0, [APART] = 0, [WRITTEN] = 0, [TURNED] = 0};
    *best = TOGETHER;
    SN_TRY(measure_alone(&cycles[TOGETHER], a->cx, users, at, TOGETHER));
    if (cycles[TOGETHER] <= SN_ACROSS_LAUNCH) return SN_OK;
    double least = cycles[TOGETHER] * SN_ACROSS_PAYS / 100;
    for (way w = APART; w <= TURNED; w++) {
        double most = least;
        if (w == TURNED)
            most = *best == TOGETHER ? cycles[TOGETHER] * SN_ACROSS_TURNED / 100 : least * SN_ACROSS_TURNED_APART / 100;
        SN_TRY(measure_alone(&cycles[w], a->cx, users, at, w));
        if (cycles[w] > 0 && cycles[w] <= most) least = cycles[w], *best = w;
    }
    sn_remark(a->cx, sn_kern_get(a->m, a->k)->name,
              "accesses across each other: %s (cycles of one kernel %.0f, apart %.0f, written out %.0f, turned %.0f)",
              names[*best], cycles[TOGETHER], cycles[APART], cycles[WRITTEN], cycles[TURNED]);
    return SN_OK;
}

static sn_status take(bool *taken, across *a, const sn_users *users, uint32_t at) {
    way best;
    *taken = false;
    SN_TRY(choose(&best, a, users, at));
    return best == TOGETHER ? SN_OK : go(a, best, taken);
}

sn_status sn_pass_store_across(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    sn_kern_list out = {0};
    uint32_t n = m->kernels.n;
    sn_users users;
    bool any = false, known = false;
    if (!cx->target->is_gpu) return SN_OK;
    for (uint32_t i = 0; i < n; i++) {
        across a = {.cx = cx, .m = m, .k = m->kernels.at[i]};
        bool taken = false;
        if (look(&a) || (may_change(&a) && sn_has_turned_operands(cx, a.k, cx->target->cache_bytes))) {
            if (!known) sn_users_find(&users, m, cx->scratch);
            known = true;
            SN_TRY(take(&taken, &a, &users, i));
            known &= !taken;
        }
        if (!taken) SN_PUSH(&m->arena, &out, a.k);
        for (uint32_t k = 0; taken && k < a.made.n; k++) SN_PUSH(&m->arena, &out, a.made.at[k]);
        any |= taken;
    }
    if (any) m->kernels = out;
    *changed |= any;
    return m->env->status;
}
