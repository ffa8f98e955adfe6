/* interchange.c: the pass `interchange`: a repeat of which a step is one kernel, element by element, becomes a loop in that kernel.
 *
 *     repeat steps 100 sections 1 1 { carry h from n }
 *     kernel @k(x, h, n) section 1 {        kernel @k(x, h, h_1, n) {
 *       loop i in 64 {                        loop i in 64 {
 *         %0 = load h[i]                        %0 = load h[i]
 *         %1 = load x[i]                        store h_1[i], %0
 *         %2 = add %0, %1           ->          %1 = load x[i]
 *         store n[i], %2                        loop step in 100 { %2 = load h_1[i]  %3 = add %2, %1  store h_1[i], %3 }
 *       }                                       %4 = load h_1[i]
 *     }                                         store n[i], %4 } }
 *
 * One launch instead of one for each step, and no step passes its states through memory: h_1, which a thread has for
 * itself, becomes registers (passes/loops/keep_private.c). Who reads the states afterwards reads n. Elements of
 * windows, x_t from x by 64, are those of x at 64*step. What no step changes stays in front of the loop. Then the
 * kernel is one as others, between kernels of one section: copies in front of it are read through (read_through.c), and
 * `fuse` is asked once more, so that what the states begin with, and what is made of them in the end, goes along.
 *
 * Legality: no iteration of the outer loops may read what another one has stored. The outer loops hold straight-line
 * code, each element of what follows a state is stored by one iteration (else the kernel had a race), and it loads the
 * same elements of the state, by the very ix. All else that it loads nothing in the repeat stores, and all else that it
 * stores are windows that no other step has. All steps are made: the repeat has no `while`, and at least one.
 *
 * Worth it always on a GPU. On a CPU windows that move along the outer loops would be read and stored a vector in a page: there only such
 * as are one for all iterations go along, or all of them where they stay in the cache of a core (256 steps of a filter over 256 channels:
 * 4 us instead of 16). Inner repeats come first: all of one depth, then `fuse` once for them. Cost: for each depth that of
 * `fuse`; for each repeat the statements of its kernel times its states, and one look at the other repeats and the sections of all kernels.
 */
#include "ir/loop/repeats.h"
#include "passes/fuse/fuse.h"
#include "passes/schedule/base/constants.h"

/* Repeats of one depth that go inside, and what is left to do around their kernels until all have. */
typedef struct level {
    SN_VEC(sn_kern) inside; /* their kernels */
    sn_buf *next;           /* by buffer: of a state, what follows it; none: it is no state of them */
    uint32_t *from;         /* by buffer: of a state, the position of its kernel */
    uint32_t n_bufs;        /* of both lists */
    uint32_t *into;         /* by section: another one that it joins, not behind it */
    uint32_t n_sections;
} level;

typedef struct interchange {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_repeat_rec *r;
    sn_kern k;
    uint32_t at; /* of the kernel among all */
    level *l;
    sn_chain outer;
    sn_stmt body; /* whose region holds a step; none: the kernel itself */
    sn_access_list all;
} interchange;

static const sn_carry *carry_of(const interchange *in, sn_buf b, bool next) {
    for (uint32_t i = 0; i < in->r->carries.n; i++)
        if (sn_buf_eq(next ? in->r->carries.at[i].next : in->r->carries.at[i].state, b)) return &in->r->carries.at[i];
    return NULL;
}

static const sn_repeat_window *window_of(const interchange *in, sn_buf b) {
    for (uint32_t i = 0; i < in->r->windows.n; i++)
        if (sn_buf_eq(in->r->windows.at[i].buf, b)) return &in->r->windows.at[i];
    return NULL;
}

/* ---- may it be done? ---- */

static bool is_named(const sn_repeat_rec *r, sn_buf b) {
    bool is = sn_buf_eq(r->flag, b);
    for (uint32_t i = 0; i < r->windows.n; i++)
        is |= sn_buf_eq(r->windows.at[i].buf, b) || sn_buf_eq(r->windows.at[i].of, b);
    for (uint32_t i = 0; i < r->carries.n; i++)
        is |= sn_buf_eq(r->carries.at[i].state, b) || sn_buf_eq(r->carries.at[i].next, b);
    return is;
}

static bool is_named_elsewhere(const interchange *in, sn_buf b) {
    for (uint32_t i = 0; i < in->m->repeats.n; i++)
        if (&in->m->repeats.at[i] != in->r && is_named(&in->m->repeats.at[i], b)) return true;
    return false;
}

/* Does the step store this very element of what follows the state? */
static bool is_own(const interchange *in, const sn_carry *c, sn_ix e) {
    for (uint32_t i = 0; i < in->all.n; i++)
        if (sn_buf_eq(in->all.at[i].buf, c->next) && sn_ix_eq(in->all.at[i].ix, e)) return true;
    return false;
}

static bool moves_along(const interchange *in, const sn_repeat_window *w, sn_ix e) {
    int64_t by;
    bool still = sn_ix_is_const(in->m, w->by, &by) && by == 0;
    for (uint32_t d = 0; d < in->outer.n; d++)
        if (sn_ix_uses_axis(in->m, e, sn_stmt_axis(in->m, in->outer.at[d]))) return !still;
    return false;
}

/* On a CPU: do the windows of all steps stay in the cache of a core, so that it does not matter in which order they are walked? */
static bool windows_are_near(const interchange *in) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < in->r->windows.n; i++)
        if (sn_add_overflow(bytes, sn_buf_bytes(in->m, in->r->windows.at[i].of), &bytes)) return false;
    return bytes <= SN_HOST_CACHE;
}

static const char *against_access(const interchange *in, const sn_access *a) {
    const sn_carry *state = carry_of(in, a->buf, false);
    const sn_repeat_window *w = window_of(in, a->buf);
    if (state)
        return a->store || !is_own(in, state, a->ix) ? "an iteration reads elements of a state that another one makes"
                                                     : NULL;
    if (carry_of(in, a->buf, true)) return a->store ? NULL : "it reads what follows a state";
    if (w && !in->cx->target->is_gpu && moves_along(in, w, a->ix) && !windows_are_near(in))
        return "its windows move through memory";
    for (uint32_t i = 0; i < in->all.n; i++) {
        const sn_access *b = &in->all.at[i];
        const sn_repeat_window *other = b->store ? window_of(in, b->buf) : NULL;
        sn_buf into = other ? other->of : b->buf, from = w ? w->of : a->buf;
        if (b->store && b->s.i != a->s.i && sn_buf_eq(into, from)) return "it reads what a step stores";
    }
    return a->store && !w ? "it stores more than states and windows" : NULL;
}

static const char *against(interchange *in) {
    sn_module *m = in->m;
    uint32_t first, end, elements = 0;
    sn_repeat_span(&first, &end, m, in->r);
    if (first == end) return "a step has no kernel";
    in->at = first;
    in->k = m->kernels.at[first];
    if (in->r->flag.i) return "it may end before its last step";
    if (end != first + 1) return "a step is more than one kernel";
    if (sn_kern_get(m, in->k)->scheduled || sn_kern_get(m, in->k)->alternative_of.i) return "its schedule stands";
    sn_chain_outer(&in->outer, m, in->k);
    in->body = in->outer.n ? in->outer.at[in->outer.n - 1] : (sn_stmt){0};
    for (sn_stmt s = sn_region_first(m, in->k, in->body); s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_lop_has_region(r->op) || r->op == SN_LOP_ACCUM) return "a step is not element by element";
        if (sn_stores(r) && (r->op != SN_LOP_STORE || r->has_mask)) return "it does not store all elements";
        elements += sn_stores(r);
    }
    if (elements > (in->cx->target->is_gpu ? SN_STATES_MOST_GPU : SN_STATES_MOST))
        return "its states are too large for registers";
    sn_access_find_all(&in->all, m, in->cx->scratch, in->k);
    for (uint32_t i = 0; i < in->all.n; i++) {
        const char *why_not = against_access(in, &in->all.at[i]);
        if (why_not) return why_not;
    }
    for (uint32_t i = 0; i < in->r->carries.n; i++) {
        const sn_carry *c = &in->r->carries.at[i];
        if (is_named_elsewhere(in, c->state) || is_named_elsewhere(in, c->next)) return "another repeat has its states";
    }
    return NULL;
}

/* ---- the loop ---- */

typedef struct change {
    const sn_stmt *moved; /* what stands in the loop so far changes from step to step */
    uint32_t n;
    sn_axis step;
    const sn_module *m;
    bool found;
} change;

static bool is_moved(const change *c, sn_val v) {
    sn_stmt def = sn_val_get(c->m, v)->def;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->moved[i].i == def.i) return true;
    return false;
}

static void find_change(void *user, sn_ix atom) {
    change *c = user;
    const sn_ix_rec *r = sn_ix_get(c->m, atom);
    c->found |= r->kind == SN_IX_AXIS ? r->id == c->step.i : r->kind == SN_IX_VAL && is_moved(c, (sn_val){r->id});
}

static bool changes(const interchange *in, change *c, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(in->m, s);
    c->found = sn_stores(r) || (sn_loads(r) && carry_of(in, r->buf, false));
    if (r->ix.i) sn_ix_walk(in->m, r->ix, find_change, c);
    if (r->bound.i) sn_ix_walk(in->m, r->bound, find_change, c);
    for (uint32_t i = 0; i < r->n_in; i++) c->found |= is_moved(c, r->in[i]);
    return c->found;
}

/* Elements of windows become those of what they are from. */
static void see_through_windows(const interchange *in, sn_axis step) {
    sn_module *m = in->m;
    for (uint32_t i = 0; i < in->all.n; i++) {
        const sn_repeat_window *w = window_of(in, in->all.at[i].buf);
        sn_stmt_rec *r = sn_stmt_get(m, in->all.at[i].s);
        if (!w) continue;
        r->buf = w->of;
        r->ix = sn_ix_add(m, r->ix, sn_ix_add(m, w->first, sn_ix_mul(m, w->by, sn_ix_axis(m, step))));
    }
}

/* What changes from step to step moves to the loop, stores behind all else. */
static void fill_loop(interchange *in, sn_stmt loop, sn_axis step) {
    sn_module *m = in->m;
    SN_VEC(sn_stmt) moved = {0}, stores = {0};
    for (sn_stmt s = sn_region_first(m, in->k, in->body), next; s.i && s.i != loop.i; s = next) {
        next = sn_next(m, s);
        change c = {moved.at, moved.n, step, m, false};
        if (!changes(in, &c, s)) continue;
        sn_stmt_unlink(m, s);
        if (sn_stores(sn_stmt_get(m, s))) {
            SN_PUSH(in->cx->scratch, &stores, s);
            continue;
        }
        sn_stmt_insert(m, sn_at_end(in->k, loop), s);
        SN_PUSH(in->cx->scratch, &moved, s);
    }
    for (uint32_t i = 0; i < stores.n; i++) sn_stmt_insert(m, sn_at_end(in->k, loop), stores.at[i]);
}

static sn_buf own_buffer(const interchange *in, sn_buf like) {
    sn_module *m = in->m;
    const sn_buf_rec *b = sn_buf_get(m, like);
    sn_buf own = sn_buf_new(m, b->name, b->dtype, SN_BUF_TEMP, b->shape, b->rank);
    sn_buf_get(m, own)->size = sn_buf_get(m, like)->size;
    sn_buf_get(m, own)->align = sn_buf_get(m, like)->align;
    return own;
}

/* The state's elements are in a buffer of the kernel's own, from before the loop until behind it. */
static void keep_state(const interchange *in, const sn_carry *c, sn_stmt loop) {
    sn_module *m = in->m;
    sn_buf own = own_buffer(in, c->state);
    for (uint32_t i = 0; i < in->all.n; i++) {
        const sn_access *a = &in->all.at[i];
        bool again = false;
        if (!sn_buf_eq(a->buf, c->state) && !sn_buf_eq(a->buf, c->next)) continue;
        sn_stmt_get(m, a->s)->buf = own;
        for (uint32_t k = 0; k < i; k++)
            again |= in->all.at[k].store && sn_buf_eq(in->all.at[k].buf, a->buf) && sn_ix_eq(in->all.at[k].ix, a->ix);
        if (!a->store || again) continue;
        sn_cursor before = sn_at_before(m, loop), behind = sn_at_end(in->k, in->body);
        sn_put_store(m, before, own, a->ix, sn_put_load(m, before, c->state, a->ix));
        sn_put_store(m, behind, c->next, a->ix, sn_put_load(m, behind, own, a->ix));
    }
}

/* ---- what is around it ---- */

/* Are two sections inside of the same repeats and branches, but for r? */
static bool same_place(const interchange *in, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < in->m->repeats.n; i++) {
        const sn_repeat_rec *r = &in->m->repeats.at[i];
        if (r == in->r) continue;
        bool a_in = a >= r->first && a <= r->last, b_in = b >= r->first && b <= r->last;
        if (a_in != b_in || (a_in && (a < r->otherwise) != (b < r->otherwise))) return false;
    }
    return true;
}

/* What was in front of the repeat, its kernel and what was behind it are one section, if nothing else begins or ends there. */
static void join_sections(const interchange *in) {
    uint32_t first = in->r->first, behind = in->r->last + 1, into = first;
    if (first && same_place(in, first - 1, first)) into = first - 1;
    bool joins = same_place(in, behind, first);
    for (uint32_t s = first; s < behind + joins && s < in->l->n_sections; s++) in->l->into[s] = into;
}

static void free_buffer(const interchange *in, sn_buf b) {
    sn_buf_rec *r = sn_buf_get(in->m, b);
    if (r->scope == SN_BUF_STEP && !is_named_elsewhere(in, b)) r->scope = SN_BUF_TEMP;
}

/* It has no sections any more, and goes with its level. */
static void drop_repeat(interchange *in) {
    join_sections(in);
    for (uint32_t i = 0; i < in->r->windows.n; i++) {
        free_buffer(in, in->r->windows.at[i].buf);
        free_buffer(in, in->r->windows.at[i].of);
    }
    for (uint32_t i = 0; i < in->r->carries.n; i++) {
        free_buffer(in, in->r->carries.at[i].state);
        free_buffer(in, in->r->carries.at[i].next);
    }
    *in->r = (sn_repeat_rec){.first = 1, .last = 0};
}

static void apply(interchange *in) {
    sn_module *m = in->m;
    sn_axis step = sn_axis_new(m, "step", in->r->trip);
    sn_stmt loop = sn_put_loop(m, sn_at_end(in->k, in->body), step, SN_AXIS_SEQ);
    see_through_windows(in, step);
    fill_loop(in, loop, step);
    for (uint32_t i = 0; i < in->r->carries.n; i++) keep_state(in, &in->r->carries.at[i], loop);
    for (uint32_t i = 0; i < in->r->carries.n; i++) {
        const sn_carry *c = &in->r->carries.at[i];
        in->l->next[c->state.i] = c->next;
        in->l->from[c->state.i] = in->at;
    }
    drop_repeat(in);
    sn_kern_collect_params(m, in->k);
}

/* ---- levels ---- */

static bool is_dropped(const sn_repeat_rec *r) { return r->first > r->last; }

/* By repeat: how many others it is inside of. What is inside of one stands behind it in the list. */
static uint32_t *find_depths(uint32_t *deepest, sn_pass_ctx *cx) {
    const sn_module *m = cx->m;
    uint32_t *depth = SN_NEWN(cx->scratch, uint32_t, m->repeats.n + 1);
    const sn_repeat_rec **around = SN_NEWN(cx->scratch, const sn_repeat_rec *, m->repeats.n + 1);
    uint32_t n = 0;
    *deepest = 0;
    for (uint32_t i = 0; i < m->repeats.n; i++) {
        const sn_repeat_rec *r = &m->repeats.at[i];
        while (n && (r->first < around[n - 1]->first || r->last > around[n - 1]->last)) n--;
        depth[i] = n;
        if (n > *deepest) *deepest = n;
        around[n++] = r;
    }
    return depth;
}

static level new_level(sn_pass_ctx *cx) {
    const sn_module *m = cx->m;
    level l = {.n_bufs = m->bufs.count};
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        uint32_t section = sn_kern_get(m, m->kernels.at[i])->section;
        if (section >= l.n_sections) l.n_sections = section + 1;
    }
    l.next = SN_NEWN(cx->scratch, sn_buf, l.n_bufs);
    l.from = SN_NEWN(cx->scratch, uint32_t, l.n_bufs);
    l.into = SN_NEWN(cx->scratch, uint32_t, l.n_sections);
    for (uint32_t s = 0; s < l.n_sections; s++) l.into[s] = s;
    return l;
}

/* Those behind a kernel read what it leaves, and not what it began with. */
static void rename_states(sn_module *m, const level *l) {
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        bool any = false;
        for (sn_stmt s = sn_stmt_walk_first(m, m->kernels.at[i]); s.i; s = sn_stmt_walk_next(m, s)) {
            sn_stmt_rec *r = sn_stmt_get(m, s);
            if (r->buf.i >= l->n_bufs || !l->next[r->buf.i].i || i <= l->from[r->buf.i]) continue;
            r->buf = l->next[r->buf.i];
            any = true;
        }
        if (any) sn_kern_collect_params(m, m->kernels.at[i]);
    }
}

static void renumber_sections(sn_module *m, const level *l) {
    for (uint32_t s = 0; s < l->n_sections; s++) l->into[s] = l->into[l->into[s]];
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        sn_kern_rec *k = sn_kern_get(m, m->kernels.at[i]);
        k->section = l->into[k->section];
    }
}

static void remove_dropped(sn_module *m, uint32_t *depth) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->repeats.n; i++) {
        if (is_dropped(&m->repeats.at[i])) continue;
        depth[n] = depth[i];
        m->repeats.at[n++] = m->repeats.at[i];
    }
    m->repeats.n = n;
}

/* On the CPU such a loop goes through memory by pages, which a copy had put in order. */
static void read_copies(sn_pass_ctx *cx, const level *l) {
    sn_module *m = cx->m;
    bool any = false;
    if (!cx->target->is_gpu) return;
    for (uint32_t i = 0; i < l->inside.n; i++) any |= sn_fuse_read_through(cx, l->inside.at[i]);
    if (!any) return;
    sn_fuse_drop_dead(cx);
    for (uint32_t i = m->kernels.n; i-- > 0;)
        if (!sn_stmt_walk_first(m, m->kernels.at[i]).i) sn_kern_remove(m, m->kernels.at[i]);
}

static sn_status run_level(sn_pass_ctx *cx, uint32_t *depths, uint32_t depth, bool *changed) {
    sn_module *m = cx->m;
    level l = new_level(cx);
    for (uint32_t i = m->repeats.n; i-- > 0;) {
        interchange in = {.cx = cx, .m = m, .r = &m->repeats.at[i], .l = &l};
        if (depths[i] != depth || in.r->otherwise) continue;
        const char *why_not = against(&in);
        if (in.k.i)
            sn_remark(cx, sn_kern_get(m, in.k)->name, "%s%s",
                      why_not ? "its repeat stays outside: " : "its repeat goes inside", why_not ? why_not : "");
        if (why_not) continue;
        apply(&in);
        SN_PUSH(cx->scratch, &l.inside, in.k);
    }
    if (!l.inside.n) return m->env->status;
    *changed = true;
    rename_states(m, &l);
    renumber_sections(m, &l);
    remove_dropped(m, depths);
    read_copies(cx, &l);
    return sn_fuse_all(cx, changed);
}

sn_status sn_pass_interchange(sn_pass_ctx *cx, bool *changed) {
    uint32_t deepest;
    if (!cx->m->repeats.n) return SN_OK;
    uint32_t *depths = find_depths(&deepest, cx);
    for (uint32_t depth = deepest + 1; depth-- > 0;) {
        sn_arena scratch;
        sn_pass_ctx of_level = *cx;
        sn_arena_init(&scratch, cx->m->env);
        of_level.scratch = &scratch;
        sn_status status = run_level(&of_level, depths, depth, changed);
        sn_arena_free(&scratch);
        SN_TRY(status);
    }
    return cx->m->env->status;
}
