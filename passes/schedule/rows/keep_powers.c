/* keep_powers.c: class inner: rows of f64 that teams keep in shared memory, of which a softmax is taken: exponentials stay in place of what they
 * are of.
 *
 *     %m, %s = reduce sumexp c, x { reduce sumexp uo { reduce sumexp u, v { %x = load s[p]   yield %x, 1 } } }
 *     loop c, x { loop uo { loop u, v { %y = load s[p]   %e = exp (%y - %m)   store y[e], %e / %t } } }
 *  -> %m, %s = reduce sumexp c, x { reduce sumexp uo {
 *                  %a = reduce max u, v { %x = load s[p]   yield %x }                            of a step of a thread
 *                  %b = reduce sum u, v { %x = load s[p]   %e = exp (%x - %a)   store s[p], %e   yield %e }
 *                  store r[uo], %a   yield %a, %b } }
 *     loop c, x { loop uo { %f = exp (load r[uo] - %m) / %t    loop u, v { store y[e], (load s[p]) * %f } } }
 *
 * An exponential of f64 takes as long as its element takes to come and to go, and a quotient half as long: one exponential of each element, which is
 * computed while others are still on their way, and a product are left. The largest element of a step takes the place of the
 * one of the row, which is not known yet; it is a word of a thread for each step.
 *
 * Infinities: of a step of -inf alone the largest is taken to be the least number, so that its exponentials are 0, as they are of a row; where the
 * row has +inf, %f is nan or 0, and so is what comes of it.
 *
 * Legal where the first nest yields what it loads, and the last one loads it for its exponential alone, and that for a quotient alone. Relies on stage.c, which has put
 * both in shared memory. Rows that stay in part have the rest as it was.
 */
#include "passes/schedule/rows/rows.h"

#include <float.h>

typedef struct powers {
    sn_module *m;
    sn_kern k;
    const sn_schedule_shape *sh;
    const sn_sched *sched;
    sn_stmt sums, results;       /* whose regions are a step: of both nests, in which one nest stands */
    sn_stmt of_sums, of_results; /* the innermost regions */
    sn_stmt element, quotient;   /* of the last nest; what the element is for in the end */
    sn_stmt load;                /* of the first one */
} powers;

/* ---- is it one? ---- */

static sn_stmt only_nest(const sn_module *m, sn_stmt in, sn_lop op) {
    sn_stmt found = {0};
    for (sn_stmt s = sn_stmt_get(m, in)->first; s.i; s = sn_next(m, s)) {
        if (!sn_lop_has_region(sn_stmt_get(m, s)->op)) continue;
        if (found.i || sn_stmt_get(m, s)->op != op) return (sn_stmt){0};
        found = s;
    }
    return found;
}

/* The loop over what stays, or over all steps, or, where there is one step, that over threads. */
static sn_stmt find_step(const sn_module *m, const sn_schedule_nest *nest) {
    if (nest->kept.i) return nest->kept;
    sn_lop op = sn_stmt_get(m, nest->top)->op;
    sn_stmt threads = nest->top;
    while (threads.i && sn_stmt_get(m, threads)->kind == SN_AXIS_CLUSTER) threads = only_nest(m, threads, op);
    if (!threads.i || sn_stmt_get(m, threads)->kind != SN_AXIS_BLOCK_X) return (sn_stmt){0};
    sn_stmt steps = only_nest(m, threads, op);
    return steps.i && sn_stmt_get(m, steps)->kind == SN_AXIS_SEQ ? steps : threads;
}

/* The innermost of the nests in `step`, each of which is all that the one around it has; none: it has none. */
static sn_stmt find_innermost(const sn_module *m, sn_stmt step, sn_lop op) {
    sn_stmt inner = {0};
    for (sn_stmt s = only_nest(m, step, op); s.i; s = only_nest(m, s, op)) inner = s;
    return inner;
}

static sn_stmt def_of(const sn_module *m, sn_val v) { return sn_val_get(m, v)->def; }

static bool is_kept(const sn_module *m, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    return r->op == SN_LOP_LOAD && r->dtype == SN_F64 && sn_buf_get(m, r->buf)->scope == SN_BUF_SHARED;
}

/* Does it yield an element and 1? */
static bool find_sums(powers *p) {
    const sn_module *m = p->m;
    const sn_stmt_rec *yield = sn_stmt_get(m, sn_stmt_get(m, p->of_sums)->last);
    if (yield->n_in != 2) return false;
    sn_stmt x = def_of(m, yield->in[0]), one = def_of(m, yield->in[1]);
    if (sn_stmt_get(m, x)->op == SN_LOP_SELECT) x = def_of(m, sn_stmt_get(m, x)->in[1]);
    p->load = x;
    return is_kept(m, x) && sn_stmt_get(m, one)->op == SN_LOP_CONST && sn_stmt_get(m, one)->f == 1;
}

/* The statement of the region that alone uses v; none: there are more, or none. */
static sn_stmt only_use(const sn_module *m, sn_stmt region, sn_val v) {
    sn_stmt use = {0};
    uint32_t n = 0;
    for (sn_stmt s = sn_stmt_get(m, region)->first; s.i; s = sn_next(m, s))
        for (uint32_t i = 0; i < sn_stmt_get(m, s)->n_in; i++)
            if (sn_stmt_get(m, s)->in[i].i == v.i) use = s, n++;
    return n == 1 ? use : (sn_stmt){0};
}

static bool find_results(powers *p) {
    const sn_module *m = p->m;
    sn_val largest = sn_result(sn_stmt_get(m, p->sh->nests[0].top), 0);
    sn_stmt loads = {0};
    for (sn_stmt s = sn_stmt_get(m, p->of_results)->first; s.i; s = sn_next(m, s)) {
        if (!is_kept(m, s)) continue;
        if (loads.i || !sn_buf_eq(sn_stmt_get(m, s)->buf, sn_stmt_get(m, p->load)->buf)) return false;
        loads = s;
    }
    if (!loads.i) return false;
    sn_stmt less = only_use(m, p->of_results, sn_stmt_get(m, loads)->result);
    const sn_stmt_rec *r = less.i ? sn_stmt_get(m, less) : NULL;
    if (!r || r->op != SN_LOP_SUB || r->in[0].i != sn_stmt_get(m, loads)->result.i || r->in[1].i != largest.i)
        return false;
    sn_stmt power = only_use(m, p->of_results, r->result);
    if (!power.i || sn_stmt_get(m, power)->op != SN_LOP_EXP) return false;
    p->element = loads;
    p->quotient = only_use(m, p->of_results, sn_stmt_get(m, power)->result);
    r = p->quotient.i ? sn_stmt_get(m, p->quotient) : NULL;
    return r && r->op == SN_LOP_DIV && r->in[0].i == sn_stmt_get(m, power)->result.i &&
           !sn_stmt_inside(m, def_of(m, r->in[1]), p->sh->nests[1].top);
}

static bool find_powers(powers *p) {
    const sn_module *m = p->m;
    const sn_schedule_shape *sh = p->sh;
    if (sh->n_nests != 2) return false;
    const sn_stmt_rec *sum = sn_stmt_get(m, sh->nests[0].top), *loop = sn_stmt_get(m, sh->nests[1].top);
    if (sum->op != SN_LOP_REDUCE || sum->n_combs != 1 || sum->combs[0] != SN_COMB_SUMEXP || loop->op != SN_LOP_LOOP)
        return false;
    p->sums = find_step(m, &sh->nests[0]);
    p->results = find_step(m, &sh->nests[1]);
    if (!p->sums.i || !p->results.i || sn_val_get(m, sum->result)->dtype != SN_F64) return false;
    p->of_sums = find_innermost(m, p->sums, SN_LOP_REDUCE);
    p->of_results = find_innermost(m, p->results, SN_LOP_LOOP);
    return p->of_sums.i && p->of_results.i && find_sums(p) && find_results(p);
}

/* ---- and becomes the other ---- */

/* Two reductions, of what it yields first and second. */
static void take_apart(sn_module *m, sn_stmt nest) {
    for (sn_stmt s = nest; s.i; s = only_nest(m, s, SN_LOP_REDUCE)) {
        sn_stmt_rec *r = sn_stmt_get(m, s);
        r->n_combs = 2;
        r->combs[0] = SN_COMB_MAX;
        r->combs[1] = SN_COMB_SUM;
    }
}

/* Where a thread has the largest element of a step. */
static sn_ix place(const powers *p, const sn_schedule_nest *nest, sn_stmt step) {
    sn_module *m = p->m;
    sn_stmt threads = step;
    sn_ix e = sn_ix_const(m, 0);
    int64_t steps = 1;
    if (sn_stmt_get(m, step)->kind == SN_AXIS_SEQ) {
        steps = sn_ix_value(m, sn_stmt_extent(m, step));
        e = sn_ix_axis(m, sn_stmt_axis(m, step));
        threads = sn_stmt_get(m, step)->parent;
    }
    e = sn_ix_add(m, e, sn_ix_scale(m, sn_ix_axis(m, sn_stmt_axis(m, threads)), steps));
    if (threads.i == nest->top.i) return e;
    return sn_ix_add(m, e, sn_ix_scale(m, sn_ix_axis(m, sn_stmt_axis(m, nest->top)), steps * p->sched->block_x));
}

static sn_buf put_largest(const powers *p) {
    const sn_module *m = p->m;
    bool several = sn_stmt_get(m, p->sums)->kind == SN_AXIS_SEQ;
    int64_t steps = several ? sn_ix_value(m, sn_stmt_extent(m, p->sums)) : 1;
    const char *name = sn_strf(&p->m->arena, "%s_largest", sn_kern_get(m, p->k)->name);
    return sn_local_new(p->m, name, SN_F64, SN_BUF_REG, steps, (int64_t)p->sched->block_x * sn_sched_cluster(p->sched));
}

static void make_sums(const powers *p, sn_buf largest) {
    sn_module *m = p->m;
    sn_stmt sums = only_nest(m, p->sums, SN_LOP_REDUCE), maxima = sn_stmt_clone(m, sn_at_before(m, sums), sums);
    take_apart(m, maxima);
    take_apart(m, sums);
    sn_cursor at = sn_at_before(m, sums);
    sn_val a =
        sn_put_op2(m, at, SN_LOP_MAX, sn_result(sn_stmt_get(m, maxima), 0), sn_put_const(m, at, SN_F64, -DBL_MAX));
    sn_put_store(m, at, largest, place(p, &p->sh->nests[0], p->sums), a);
    sn_stmt yield = sn_stmt_get(m, p->of_sums)->last;
    sn_cursor end = sn_at_before(m, yield);
    sn_val e = sn_put_op1(m, end, SN_LOP_EXP, sn_put_op2(m, end, SN_LOP_SUB, sn_stmt_get(m, yield)->in[0], a));
    sn_put_store(m, end, sn_stmt_get(m, p->load)->buf, sn_stmt_get(m, p->load)->ix, e);
    sn_stmt_get(m, yield)->in[1] = e;
    sn_stmt_get(m, sn_stmt_get(m, p->sums)->last)->in[0] = a;
}

static void make_results(const powers *p, sn_buf largest) {
    sn_module *m = p->m;
    sn_cursor at = sn_at_before(m, only_nest(m, p->results, SN_LOP_LOOP));
    sn_val a = sn_put_load(m, at, largest, place(p, &p->sh->nests[1], p->results));
    sn_val m_row = sn_result(sn_stmt_get(m, p->sh->nests[0].top), 0);
    sn_val f = sn_put_op1(m, at, SN_LOP_EXP, sn_put_op2(m, at, SN_LOP_SUB, a, m_row));
    f = sn_put_op2(m, at, SN_LOP_DIV, f, sn_stmt_get(m, p->quotient)->in[1]);
    sn_val e = sn_put_op2(m, sn_at_before(m, p->quotient), SN_LOP_MUL, sn_stmt_get(m, p->element)->result, f);
    sn_val_replace(m, p->k, sn_stmt_get(m, p->quotient)->result, e);
}

void sn_schedule_keep_powers(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, const sn_sched *sched) {
    powers p = {.m = cx->m, .k = k, .sh = sh, .sched = sched};
    if (!sched->shared || sched->stages > 1 || !find_powers(&p)) return;
    sn_buf largest = put_largest(&p);
    make_sums(&p, largest);
    make_results(&p, largest);
    sn_kern_dead_code(cx->m, k);
}
