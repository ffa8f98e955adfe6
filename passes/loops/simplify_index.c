/* simplify_index.c: the pass `simplify-index`: what ranges prove about bounds tests and masks.
 *
 *     %0 = in i + 2, 16   (i in 8)        -> true
 *     %1 = load x[i] if true else %z      -> load x[i]
 *     if i in 8 { A }                     -> A
 *     select(%c, load x[e] if %c else %z, %z)  -> load x[e] if %c else %z
 *
 * Index expressions themselves are always in simplest form: their constructors see to that. Legal wherever statements promise nothing: what
 * `schedule` has bound is left alone, since copies by boxes and matrix instructions are known by the very tests that stand there.
 * Linear.
 */
#include "passes/base/nest.h"

typedef enum truth { UNKNOWN, FALSE_, TRUE_ } truth;

typedef struct work {
    sn_module *m;
    sn_kern k;
    sn_notes map; /* value -> replacement */
    truth *known; /* truth of bool values */
    bool changed;
} work;

static truth prove(sn_module *m, sn_ix e, sn_ix n) {
    if (sn_ix_in(m, e, n)) return TRUE_;
    sn_range r = sn_ix_range(m, e), b = sn_ix_range(m, n);
    return r.hi < 0 || r.lo >= b.hi ? FALSE_ : UNKNOWN;
}

static truth truth_of(const work *w, sn_val v) { return w->known[sn_val_follow(&w->map, v).i]; }

static void replace(work *w, sn_stmt s, sn_val with) {
    sn_notes_set(&w->map, sn_stmt_get(w->m, s)->result.i, sn_val_follow(&w->map, with).i);
    w->changed = true;
}

/* Splice the region of s in its place. */
static void unwrap(work *w, sn_stmt s) {
    for (sn_stmt t = sn_stmt_get(w->m, s)->first, next; t.i; t = next) {
        next = sn_next(w->m, t);
        sn_stmt_unlink(w->m, t);
        sn_stmt_insert(w->m, sn_at_before(w->m, s), t);
    }
    sn_stmt_unlink(w->m, s);
    w->changed = true;
}

static void drop_mask(work *w, sn_stmt s) {
    sn_stmt_rec *r = sn_stmt_get(w->m, s);
    r->n_in -= sn_lops[r->op].n_mask;
    r->has_mask = false;
    w->changed = true;
}

static bool same(const work *w, sn_val a, sn_val b) {
    a = sn_val_follow(&w->map, a), b = sn_val_follow(&w->map, b);
    if (sn_val_eq(a, b)) return true;
    const sn_stmt_rec *x = sn_stmt_get(w->m, sn_val_get(w->m, a)->def),
                      *y = sn_stmt_get(w->m, sn_val_get(w->m, b)->def);
    return x->op == SN_LOP_CONST && y->op == SN_LOP_CONST && x->dtype == y->dtype && x->i == y->i && x->f == y->f &&
           !(x->f == 0 && (1 / x->f != 1 / y->f));
}

static void visit_select(work *w, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(w->m, s);
    truth t = truth_of(w, r->in[0]);
    if (t != UNKNOWN) {
        replace(w, s, r->in[t == TRUE_ ? 1 : 2]);
        return;
    }
    const sn_stmt_rec *load = sn_stmt_get(w->m, sn_val_get(w->m, r->in[1])->def);
    if (load->op == SN_LOP_LOAD && load->has_mask && same(w, load->in[0], r->in[0]) && same(w, load->in[1], r->in[2]))
        replace(w, s, r->in[1]);
}

/* Does s stay, or at least its region in its place? */
static bool visit(work *w, sn_stmt s) {
    sn_stmt_rec *r = sn_stmt_get(w->m, s);
    sn_val mask;
    switch ((int)r->op) {
    case SN_LOP_IN: w->known[r->result.i] = prove(w->m, r->ix, r->bound); return true;
    case SN_LOP_CONST:
        if (r->dtype == SN_BOOL) w->known[r->result.i] = r->i ? TRUE_ : FALSE_;
        return true;
    case SN_LOP_AND:
        if (r->dtype != SN_BOOL) return true;
        if (truth_of(w, r->in[0]) == TRUE_) replace(w, s, r->in[1]);
        else if (truth_of(w, r->in[1]) == TRUE_) replace(w, s, r->in[0]);
        else if (truth_of(w, r->in[0]) == FALSE_ || truth_of(w, r->in[1]) == FALSE_) w->known[r->result.i] = FALSE_;
        return true;
    case SN_LOP_SELECT: visit_select(w, s); return true;
    case SN_LOP_LOAD:
    case SN_LOP_PREFETCH:
    case SN_LOP_STORE:
        mask = sn_stmt_mask(r);
        if (!mask.i) return true;
        if (truth_of(w, mask) == TRUE_) drop_mask(w, s);
        else if (truth_of(w, mask) == FALSE_ && r->op == SN_LOP_LOAD) replace(w, s, r->in[1]);
        else if (truth_of(w, mask) == FALSE_) sn_stmt_unlink(w->m, s), w->changed = true;
        return true;
    case SN_LOP_IF: {
        truth t = prove(w->m, r->ix, r->bound);
        if (t == TRUE_) unwrap(w, s);
        else if (t == FALSE_) sn_stmt_unlink(w->m, s), w->changed = true;
        return t != FALSE_;
    }
    default: return true;
    }
}

/* Proven tests that are still used as values become constants. */
static void settle_tests(work *w) {
    for (sn_stmt s = sn_stmt_walk_first(w->m, w->k); s.i; s = sn_stmt_walk_next(w->m, s)) {
        sn_stmt_rec *r = sn_stmt_get(w->m, s);
        if ((r->op != SN_LOP_IN && r->op != SN_LOP_AND) || !w->known[r->result.i]) continue;
        r->i = w->known[r->result.i] == TRUE_;
        r->op = SN_LOP_CONST;
        r->dtype = SN_BOOL;
        r->n_in = 0;
        r->ix = r->bound = (sn_ix){0};
        w->changed = true;
    }
}

/* Kernels that are made scheduled (sorts) have no class. */
static bool is_bound(const sn_kern_rec *k) { return k->scheduled && k->sched.cls != SN_SCHED_NONE; }

sn_status sn_pass_simplify_index(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    truth *known = SN_NEWN(cx->scratch, truth, m->vals.count);
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        work w = {.m = m, .k = m->kernels.at[i], .map = {.arena = cx->scratch}, .known = known};
        if (is_bound(sn_kern_get(m, w.k))) continue;
        for (sn_stmt s = sn_stmt_walk_first(m, w.k), next; s.i; s = next) {
            sn_stmt after = sn_stmt_walk_skip(m, s);
            next = sn_stmt_walk_next(m, s);
            if (!visit(&w, s)) next = after;
        }
        settle_tests(&w);
        if (!w.changed) continue;
        sn_val_replace_all(m, w.k, &w.map);
        sn_kern_dead_code(m, w.k);
        *changed = true;
    }
    return m->env->status;
}
