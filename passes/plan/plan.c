/* plan.c: the pass `plan`: the wrapper: checks, calls, and a place for every intermediate. Builds m->wrap from
 * m->kernels in their order.
 *
 *     kernel @a(x, t) ; kernel @b(t, u) ; kernel @c(u, y)        x input, y output, all of one size
 *   becomes
 *     check x
 *     comment "t is kept in y" ; reuse t from y      # the output's storage is free until its kernel runs
 *     call @a(x, t)
 *     reuse u from t                                 # in place: b reads each element before it writes it
 *     call @b(t, u)
 *     call @c(u, y)                                  # in place again: u is read, y written
 *     free u
 *
 * A temp that is born in kernel k gets, in this order: the storage of a temp that dies there (in place, inplace.c); the
 * storage of a temp of the same size that died just before, unless the workspace is smaller without that; bytes of the
 * workspace (offsets.c). Temps that take storage from each other form a chain. An output continues a chain in the same
 * way, and then the whole chain lives in the output's storage. Not so an output that is written back to an input: it
 * may live in that (states.c).
 *
 * Kernels that compute from constants alone come first: the prepare part, which runs once, when a program is loaded.
 * What they leave for others has memory of its own, which is not reused:
 *
 *     kernel @p(c, w) ; kernel @k(x, w, y)    ->    prepare { alloc w ; call @p(c, w) }   check x   call @k(x, w, y)
 *
 * Repeats (ir/loop/repeats.h) become steps around their calls. What was there before one and is read inside lives to its end,
 * and so do stacks and states from its beginning on; what a step makes for itself is free after it:
 *
 *     repeat steps 9 sections 1 1 { window x_t from x .. carry h from h_next }
 *     kernel @a(x_t, h, t) section 1 ; kernel @b(t, h_next) section 1
 *   becomes
 *     repeat steps 9 ; window x_t from x ..
 *       alloc t ; call @a(x_t, h, t) ; reuse h_next from h ; call @b(t, h_next) ; free t ; carry h from h_next
 *     end
 *
 * The next state is written over this one where the kernel that makes it, or the plan for such kernels (inplace.c), allows that,
 * and nobody reads this one any more. Otherwise it has a place of its own, and both change places after each step.
 *
 * Branches become steps in the same way. What both store for those behind them has its place before the `if`, and what was there
 * before, and is read inside, lives to the end of both. Storage that a temp of a branch has had goes to nobody outside of it: a
 * run that takes the other one gave it none.
 *
 *     cond p sections 1 1 else 2 2
 *     kernel @a(x, t) section 1 ; kernel @b(t, y) section 1 ; kernel @c(x, y) section 2
 *   becomes
 *     alloc y ; if p ; alloc t ; call @a(x, t) ; call @b(t, y) ; free t ; else ; call @c(x, y) ; end
 *
 * `reuse b from a` before a call that still reads a ends a's life with that call; otherwise `free` has ended it
 * before. Write-backs that are not in place are copies at the end; the executor skips a copy whose two addresses are equal. At last
 * kernels become functions, and equal ones one (functions.c). Cost: linear in kernels and parameters, but for pairs of a temp that
 * dies and a buffer of equal size that is born in one segment: what touches the two.
 */
#include "passes/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "ir/loop/access.h"
#include "ir/loop/repeats.h"
#include "passes/base/constants.h"

enum { NEVER = UINT32_MAX };

/* Life of a buffer, in positions of m->kernels, and its place in a chain. */
typedef struct life {
    uint32_t first, last; /* first NEVER: no kernel touches it */
    sn_buf from, to;      /* whose storage it takes, who takes its own */
    bool in_place;        /* it takes the storage while the kernel still reads it */
    sn_buf home;          /* the output in whose storage it lives */
    uint32_t block;       /* heads of chains in the workspace: number of the block */
    uint32_t born,
        held;         /* 1 + number of the repeat before which it gets its place, at whose end it is freed; 0: none */
    sn_buf window_of; /* a window has no place of its own */
    sn_buf partner;   /* of a state: what follows it, when that has another place */
    bool follows;     /* it follows a state, and is freed with it if at all */
    uint32_t named;   /* 1 + number of a repeat that names it: a state, what follows it, what a window is from */
} life;

/* Positions of the kernels of a repeat, or of branches, the second of which begins in the middle. */
typedef struct span {
    uint32_t first, end, middle;
    bool branches;
} span;

typedef struct io_buf {
    uint32_t io;
    sn_buf buf;
} io_buf;

/* Buffers of which the one of the highest id is at hand: a binary heap. */
typedef struct buf_heap {
    sn_buf *at;
    uint32_t n, cap;
} buf_heap;

typedef struct planner {
    sn_pass_ctx *cx;
    sn_module *m;
    life *lives;                /* by buffer id */
    sn_buf *died, *next_died;   /* by kernel position: temps whose last kernel it is, highest id first; by buffer id */
    buf_heap *dead;             /* by size in bytes (an ix): temps of kernels before the one at hand */
    uint32_t n_dead;            /* sizes that there were when the table of them was made */
    sn_buf *dying, *next_dying; /* by segment of the kernel at hand: temps that end there; by buffer id */
    sn_plan_touches touches;    /* of the kernel at hand, once somebody asks */
    span *repeats;              /* by number of a repeat */
    uint32_t n_prepare;         /* the first kernels, which compute from constants alone */
    uint32_t *segment;          /* by buffer id: which segment of the kernel at hand touches it first, from 1 */
    io_buf *ios[2];             /* inputs and outputs in the order of their numbers */
    uint32_t n_ios[2];
    sn_plan_block *blocks[2]; /* of the prepared memory, of the workspace */
    uint32_t n_blocks[2];
    sn_ix bytes[2];            /* of both memories */
    const bool *in_place;      /* by number of an output: it is the input that it is written back to */
    bool free_offsets;         /* temps take the storage of dead ones by offsets alone */
    sn_kern_list alternatives; /* of kernels, in the order in which they stood */
} planner;

enum { PREPARED, WORKSPACE };

static life *life_of(const planner *p, sn_buf b) { return &p->lives[b.i]; }
static bool is_temp(const planner *p, sn_buf b) { return sn_buf_get(p->m, b)->scope == SN_BUF_TEMP; }
static bool is_step(const planner *p, sn_buf b) { return sn_buf_get(p->m, b)->scope == SN_BUF_STEP; }
/* Steps of the wrapper give it its place. */
static bool is_placed(const planner *p, sn_buf b) {
    return is_temp(p, b) || (is_step(p, b) && !life_of(p, b)->window_of.i);
}

static sn_ix bytes_of(const planner *p, sn_buf b) {
    const sn_buf_rec *rec = sn_buf_get(p->m, b);
    return sn_ix_scale(p->m, rec->size, sn_dtype_bytes(rec->dtype));
}

/* ---- inputs and outputs ---- */

static int by_number(const void *a, const void *b) {
    const io_buf *x = a, *y = b;
    if (x->io != y->io) return x->io < y->io ? -1 : 1;
    return x->buf.i < y->buf.i ? -1 : x->buf.i > y->buf.i;
}

static void list_ios(planner *p) {
    for (int scope = SN_BUF_INPUT; scope <= SN_BUF_OUTPUT; scope++) {
        uint32_t n = 0;
        io_buf *list = p->ios[scope] = SN_NEWN(p->cx->scratch, io_buf, p->m->bufs.count);
        for (uint32_t i = 1; i < p->m->bufs.count; i++) {
            const sn_buf_rec *b = sn_buf_get(p->m, (sn_buf){i});
            if ((int)b->scope == scope) list[n++] = (io_buf){b->io, {i}};
        }
        if (n) qsort(list, n, sizeof *list, by_number);
        p->n_ios[scope] = n;
    }
}

/* Of several buffers for one input the first that was made. */
static sn_buf find_io(const planner *p, sn_buf_scope scope, uint32_t io) {
    uint32_t low = 0, high = p->n_ios[scope];
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (p->ios[scope][middle].io < io) low = middle + 1;
        else high = middle;
    }
    bool found = low < p->n_ios[scope] && p->ios[scope][low].io == io;
    return found ? p->ios[scope][low].buf : (sn_buf){0};
}

/* ---- lives ---- */

/* Kernels that others stand for wait until those are functions. */
static void set_alternatives_aside(planner *p) {
    uint32_t n = 0;
    sn_kern_list *all = &p->m->kernels;
    for (uint32_t k = 0; k < all->n; k++)
        if (sn_kern_get(p->m, all->at[k])->alternative_of.i) SN_PUSH(p->cx->scratch, &p->alternatives, all->at[k]);
        else all->at[n++] = all->at[k];
    all->n = n;
}

/* The first kernels are then those of the prepare part: they need nothing of the others. */
static void order_kernels(planner *p) {
    sn_kern_list all = {0};
    const bool *constant = sn_kerns_constant(p->m, p->cx->scratch);
    for (uint32_t part = 0; part < 2; part++) {
        for (uint32_t k = 0; k < p->m->kernels.n; k++)
            if (constant[k] == !part) SN_PUSH(&p->m->arena, &all, p->m->kernels.at[k]);
        if (!part) p->n_prepare = all.n;
    }
    p->m->kernels = all;
    for (uint32_t k = 0; k < p->n_prepare; k++) sn_kern_get(p->m, all.at[k])->section = 0; /* of no branch any more */
}

static void touch(planner *p, sn_buf b, uint32_t k) {
    life *l = life_of(p, b);
    if (l->first == NEVER || k < l->first) l->first = k;
    if (l->last >= k) return;
    l->last = k;
    l->held = 0;
}

/* Who touches a window touches what it is from. */
static void find_lives(planner *p) {
    for (uint32_t b = 1; b < p->m->bufs.count; b++) p->lives[b].first = NEVER;
    for (uint32_t r = 0; r < p->m->repeats.n; r++) {
        const sn_repeat_rec *rec = &p->m->repeats.at[r];
        for (uint32_t w = 0; w < rec->windows.n; w++)
            life_of(p, rec->windows.at[w].buf)->window_of = rec->windows.at[w].of;
    }
    for (uint32_t k = 0; k < p->m->kernels.n; k++) {
        const sn_buf_list *params = &sn_kern_get(p->m, p->m->kernels.at[k])->params;
        for (uint32_t i = 0; i < params->n; i++)
            for (sn_buf b = params->at[i]; b.i; b = life_of(p, b)->window_of) touch(p, b, k);
    }
}

/* ---- repeats and branches ---- */

static bool is_inside(const span *s, uint32_t k) { return k >= s->first && k < s->end; }

/* Is it touched in both branches, or in one and behind it? Who comes from the other one has to find it, too. */
static bool leaves_branch(const span *s, const life *l) {
    return s->branches && (l->last >= s->end || (l->first < s->middle && l->last >= s->middle));
}

/* Is the kernel at k inside of all branches that the one at `from` is inside of? */
static bool in_reach(const planner *p, uint32_t from, uint32_t k) {
    for (uint32_t r = 0; r < p->m->repeats.n; r++) {
        const span *s = &p->repeats[r];
        if (s->branches && is_inside(s, from) && !(is_inside(s, k) && (k < s->middle) == (from < s->middle)))
            return false;
    }
    return true;
}

static bool has_windows(const planner *p, sn_buf b) {
    for (uint32_t i = 1; i < p->m->bufs.count; i++)
        if (sn_buf_eq(p->lives[i].window_of, b)) return true;
    return false;
}

static bool in_place(planner *p, sn_kern k, sn_buf from, sn_buf to);

/* The one kernel of the repeat that stores what follows a state, which may be written over the state; NEVER: there is none. */
static uint32_t overwrites_state(planner *p, uint32_t r, const sn_carry *c) {
    const span *s = &p->repeats[r];
    uint32_t at = NEVER, last = 0;
    if (has_windows(p, c->state) || has_windows(p, c->next)) return NEVER;
    for (uint32_t k = s->first; k < s->end; k++) {
        sn_kern kern = p->m->kernels.at[k];
        if (sn_kern_loads(p->m, kern, c->state)) last = k;
        if (sn_kern_stores(p->m, kern, c->state)) return NEVER;
        if (!sn_kern_stores(p->m, kern, c->next)) continue;
        if (at != NEVER) return NEVER;
        at = k;
    }
    for (uint32_t i = r + 1; i < p->m->repeats.n && at != NEVER; i++)
        if (is_inside(s, p->repeats[i].first) && is_inside(&p->repeats[i], at)) return NEVER;
    if (at == NEVER || last > at) return NEVER;
    sn_kern kern = p->m->kernels.at[at];
    return last < at || in_place(p, kern, c->state, c->next) ? at : NEVER;
}

static void place_carry(planner *p, uint32_t r, const sn_carry *c) {
    const span *s = &p->repeats[r];
    life *state = life_of(p, c->state), *next = life_of(p, c->next);
    uint32_t at = overwrites_state(p, r, c);
    touch(p, c->state, s->end - 1);
    touch(p, c->next, s->end - 1);
    if (state->first >= s->first) touch(p, c->state, s->first);
    next->follows = true;
    if (at == NEVER) {
        touch(p, c->next, s->first);
        state->partner = c->next;
    } else {
        next->first = at;
        next->from = c->state;
        next->in_place = true;
        state->to = c->next;
    }
    if (next->last < state->last) next->last = state->last;
}

/* What lives across the beginning or the end of a repeat lives from there on, or to there. */
static void hold(planner *p, uint32_t r) {
    const span *s = &p->repeats[r];
    for (uint32_t i = 1; i < p->m->bufs.count; i++) {
        life *l = &p->lives[i];
        bool starts = l->first != NEVER && is_inside(s, l->first), ends = is_inside(s, l->last);
        if (l->first == NEVER || l->window_of.i || (l->follows && l->from.i)) continue;
        if (starts && ((l->named == r + 1 && !l->born) || leaves_branch(s, l))) {
            l->first = s->first;
            l->born = r + 1;
        }
        if (ends && (l->first < s->first || l->born == r + 1)) {
            l->last = s->end - 1;
            l->held = r + 1;
        }
    }
}

/* What a repeat goes on by is read at the end of each step; what a branch is taken by before its first kernel. */
static void name_flag(planner *p, uint32_t r, sn_buf flag) {
    const span *s = &p->repeats[r];
    touch(p, flag, s->branches ? s->first : s->end - 1);
    if (!s->branches) life_of(p, flag)->named = r + 1;
}

/* Inner ones stand behind those around them, and come first. */
static void find_repeats(planner *p) {
    const sn_module *m = p->m;
    p->repeats = SN_NEWN(p->cx->scratch, span, m->repeats.n + 1);
    for (uint32_t r = 0; r < m->repeats.n; r++) {
        span *s = &p->repeats[r];
        sn_repeat_span(&s->first, &s->end, m, &m->repeats.at[r]);
        s->branches = m->repeats.at[r].otherwise;
        s->middle = s->branches ? sn_repeat_middle(m, &m->repeats.at[r]) : s->end;
    }
    for (uint32_t r = m->repeats.n; r-- > 0;) {
        const sn_repeat_rec *rec = &m->repeats.at[r];
        if (p->repeats[r].first == p->repeats[r].end) continue; /* nothing is left of it */
        if (rec->flag.i) name_flag(p, r, rec->flag);
        for (uint32_t w = 0; w < rec->windows.n; w++) life_of(p, rec->windows.at[w].of)->named = r + 1;
        for (uint32_t c = 0; c < rec->carries.n; c++) {
            life_of(p, rec->carries.at[c].state)->named = life_of(p, rec->carries.at[c].next)->named = r + 1;
            place_carry(p, r, &rec->carries.at[c]);
        }
        hold(p, r);
    }
}

/* ---- chains ---- */

/* The input that the output is written back to, -1 if none. */
static int writes_back(const sn_module *m, sn_buf output) {
    uint32_t io = sn_buf_get(m, output)->io;
    return io < m->graph.outputs.n ? m->graph.outputs.at[io].writes : -1;
}

/* May the buffer take over storage when it is born? Storage of the caller must allow the vectors that kernels use;
 * those of a CPU may begin anywhere. */
static bool may_take(const planner *p, sn_buf b) {
    const sn_buf_rec *rec = sn_buf_get(p->m, b);
    if (rec->scope == SN_BUF_TEMP) return true;
    bool wide = rec->align >= SN_WIDEST_ACCESS || !p->cx->target->is_gpu;
    return rec->scope == SN_BUF_OUTPUT && wide && writes_back(p->m, b) < 0;
}

/* Which memory a temp is in that is born there. */
static int memory_at(const planner *p, uint32_t k) { return k < p->n_prepare ? PREPARED : WORKSPACE; }

/* Prepared for all runs, it never dies. */
static bool stays(const planner *p, sn_buf b) {
    const life *l = life_of(p, b);
    return memory_at(p, l->first) == PREPARED && memory_at(p, l->last) == WORKSPACE;
}

static bool may_give(const planner *p, sn_buf b) { return is_temp(p, b) && !life_of(p, b)->to.i && !stays(p, b); }

static void link_lives(planner *p, sn_buf from, sn_buf to, bool in_place) {
    life_of(p, from)->to = to;
    life_of(p, to)->from = from;
    life_of(p, to)->in_place = in_place;
}

static void heap_add(sn_arena *a, buf_heap *h, sn_buf b) {
    uint32_t i = h->n;
    SN_PUSH(a, h, b);
    for (; i > 0 && h->at[(i - 1) / 2].i < b.i; i = (i - 1) / 2) h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = b;
}

/* The one of the highest id goes. */
static void heap_drop(buf_heap *h) {
    sn_buf last = h->at[--h->n];
    uint32_t i = 0;
    for (uint32_t child = 1; child < h->n; child = 2 * i + 1) {
        if (child + 1 < h->n && h->at[child + 1].i > h->at[child].i) child++;
        if (h->at[child].i < last.i) break;
        h->at[i] = h->at[child];
        i = child;
    }
    h->at[i] = last;
}

/* In the kernel and in all its alternatives, of which any may run. */
static bool in_place(planner *p, sn_kern k, sn_buf from, sn_buf to) {
    if (!sn_kern_eq(p->touches.kern, k)) sn_plan_touches_of(&p->touches, p->cx, k);
    if (!sn_plan_in_place(&p->touches, from, to)) return false;
    for (uint32_t i = 0; i < p->alternatives.n; i++) {
        sn_kern other = p->alternatives.at[i];
        sn_plan_touches touches;
        if (!sn_kern_eq(sn_kern_get(p->m, other)->alternative_of, k)) continue;
        sn_plan_touches_of(&touches, p->cx, other);
        if (!sn_plan_in_place(&touches, from, to)) return false;
    }
    return true;
}

/* A temp that dies in the kernel at hand and may be overwritten by b. Other segments are other blocks. */
static sn_buf dying_operand(planner *p, sn_kern k, sn_buf b) {
    sn_buf from = p->dying[p->segment[b.i]];
    while (from.i && !(may_give(p, from) && !life_of(p, from)->held && in_place(p, k, from, b)))
        from = p->next_dying[from.i];
    return from;
}

/* A temp of the same size that died in the kernel before. */
static sn_buf just_dead(planner *p, uint32_t k, sn_ix size) {
    sn_buf from = k && k != p->n_prepare ? p->died[k - 1] : (sn_buf){0};
    while (from.i &&
           !(may_give(p, from) && sn_ix_eq(bytes_of(p, from), size) && in_reach(p, life_of(p, from)->first, k)))
        from = p->next_died[from.i];
    return from;
}

/* A dead temp of the same size. For a temp of constant size only one that died just before: the bytes of an older one
 * may serve others in between, and offsets.c sees to that. */
static sn_buf dead_buffer(planner *p, uint32_t k, sn_buf b) {
    sn_ix size = bytes_of(p, b);
    int64_t ignored;
    if (is_temp(p, b) && sn_ix_is_const(p->m, size, &ignored))
        return p->free_offsets ? (sn_buf){0} : just_dead(p, k, size);
    buf_heap *dead = &p->dead[size.i];
    while (dead->n && !may_give(p, dead->at[0])) heap_drop(dead); /* it has been taken for good */
    return dead->n && in_reach(p, life_of(p, dead->at[0])->first, k) ? dead->at[0] : (sn_buf){0};
}

static void list_temps(planner *p) {
    sn_arena *scratch = p->cx->scratch;
    uint32_t n = p->m->bufs.count;
    for (uint32_t i = 1; i < n; i++) bytes_of(p, (sn_buf){i}); /* all sizes exist before the table of them is made */
    p->n_dead = p->m->ixs.count;
    p->dead = SN_NEWN(scratch, buf_heap, p->n_dead);
    p->died = SN_NEWN(scratch, sn_buf, p->m->kernels.n);
    p->next_died = SN_NEWN(scratch, sn_buf, n);
    p->next_dying = SN_NEWN(scratch, sn_buf, n);
    for (uint32_t i = 1; i < n; i++) {
        const life *l = life_of(p, (sn_buf){i});
        if (l->first == NEVER || !is_temp(p, (sn_buf){i})) continue;
        p->next_died[i] = p->died[l->last];
        p->died[l->last].i = i;
    }
}

/* Buffers that segments of a kernel share are read only, so any of them will do. */
static void number_segments(planner *p, sn_kern k) {
    const sn_buf_list *params = &sn_kern_get(p->m, k)->params;
    uint32_t number = 0;
    for (uint32_t i = 0; i < params->n; i++) p->segment[params->at[i].i] = 0;
    if (sn_kern_segments(p->m, k) < 2) return;
    for (sn_stmt s = sn_stmt_walk_first(p->m, k); s.i; s = sn_stmt_walk_next(p->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(p->m, s);
        if (!r->parent.i) number++;
        if (r->buf.i && !p->segment[r->buf.i]) p->segment[r->buf.i] = number;
    }
}

/* Backwards, so that they stand in the order of the parameters. */
static void list_dying(planner *p, uint32_t k) {
    const sn_buf_list *params = &sn_kern_get(p->m, p->m->kernels.at[k])->params;
    uint32_t last = 0;
    for (uint32_t i = 0; i < params->n; i++)
        if (p->segment[params->at[i].i] > last) last = p->segment[params->at[i].i];
    p->dying = SN_NEWN(p->cx->scratch, sn_buf, last + 1);
    for (uint32_t i = params->n; i-- > 0;) {
        sn_buf b = params->at[i], *first = &p->dying[p->segment[b.i]];
        if (!is_temp(p, b) || life_of(p, b)->last != k || life_of(p, b)->first == k) continue;
        p->next_dying[b.i] = *first;
        *first = b;
    }
}

static void bury(planner *p, uint32_t k) {
    for (sn_buf b = p->died[k]; b.i; b = p->next_died[b.i]) heap_add(p->cx->scratch, &p->dead[bytes_of(p, b).i], b);
}

static void find_chains(planner *p) {
    for (uint32_t k = 0; k < p->m->kernels.n; k++) {
        sn_kern kern = p->m->kernels.at[k];
        const sn_buf_list *params = &sn_kern_get(p->m, kern)->params;
        number_segments(p, kern);
        list_dying(p, k);
        if (k && k == p->n_prepare) memset(p->dead, 0, p->n_dead * sizeof *p->dead);
        else if (k) bury(p, k - 1);
        for (uint32_t i = 0; i < params->n; i++) {
            sn_buf b = params->at[i];
            if (life_of(p, b)->first != k || !may_take(p, b)) continue;
            sn_buf from = dying_operand(p, kern, b);
            bool overwrites = from.i != 0;
            if (!overwrites) from = dead_buffer(p, k, b);
            if (from.i) link_lives(p, from, b, overwrites);
        }
    }
}

/* Chains that end in an output live there; the others get a block of the workspace. */
static void find_homes(planner *p) {
    for (uint32_t i = 1; i < p->m->bufs.count; i++) {
        sn_buf b = {i};
        life *l = life_of(p, b);
        if (l->first == NEVER || l->to.i) continue; /* not the end of a chain */
        sn_buf head = b;
        if (sn_buf_get(p->m, b)->scope == SN_BUF_OUTPUT) {
            for (head = l->from; head.i; head = life_of(p, head)->from) life_of(p, head)->home = b;
            continue;
        }
        if (!is_placed(p, b)) continue;
        while (life_of(p, head)->from.i) head = life_of(p, head)->from;
        int memory = memory_at(p, life_of(p, head)->first);
        life_of(p, head)->block = p->n_blocks[memory];
        p->blocks[memory][p->n_blocks[memory]++] =
            (sn_plan_block){bytes_of(p, head), life_of(p, head)->first, l->last, {0}};
    }
}

/* ---- steps ---- */

static void add_checks(planner *p) {
    for (uint32_t i = 0; i < p->n_ios[SN_BUF_INPUT]; i++)
        sn_wrap_add(p->m, (sn_step){.kind = SN_STEP_CHECK, .buf = p->ios[SN_BUF_INPUT][i].buf});
}

static void add_kept_in(planner *p, sn_buf b, sn_buf in) {
    char *text = sn_strf(&p->m->arena, "%s is kept in %s", sn_buf_get(p->m, b)->name, sn_buf_get(p->m, in)->name);
    sn_wrap_add(p->m, (sn_step){.kind = SN_STEP_COMMENT, .text = text});
}

static void say_states(planner *p) {
    for (uint32_t k = 0; k < p->m->graph.outputs.n; k++)
        if (p->in_place[k])
            add_kept_in(p, find_io(p, SN_BUF_OUTPUT, k),
                        find_io(p, SN_BUF_INPUT, (uint32_t)p->m->graph.outputs.at[k].writes));
}

/* Give a temp its place. */
static void add_place(planner *p, sn_buf b) {
    const life *l = life_of(p, b);
    if (l->from.i) {
        sn_wrap_add(p->m, (sn_step){.kind = SN_STEP_REUSE, .buf = b, .from = l->from});
    } else if (l->home.i) {
        add_kept_in(p, b, l->home);
        sn_wrap_add(p->m, (sn_step){.kind = SN_STEP_REUSE, .buf = b, .from = l->home});
    } else {
        const sn_plan_block *block = &p->blocks[memory_at(p, l->first)][l->block];
        sn_wrap_add(p->m, (sn_step){.kind = SN_STEP_ALLOC, .buf = b, .size = block->size, .offset = block->offset});
    }
}

/* Does a `reuse` end its life? */
static bool handed_over(const planner *p, sn_buf b) {
    sn_buf to = life_of(p, b)->to;
    return to.i && is_temp(p, to) && life_of(p, to)->in_place;
}

/* What follows a state in a place of its own is freed with it. */
static void add_free(planner *p, sn_buf b) {
    sn_buf partner = life_of(p, b)->partner;
    sn_wrap_add(p->m, (sn_step){.kind = SN_STEP_FREE, .buf = b});
    if (partner.i) sn_wrap_add(p->m, (sn_step){.kind = SN_STEP_FREE, .buf = partner});
}

/* Of the kernel at k, but for what a repeat frees. */
static void add_call(planner *p, uint32_t k) {
    const sn_buf_list *params = &sn_kern_get(p->m, p->m->kernels.at[k])->params;
    for (uint32_t i = 0; i < params->n; i++) {
        const life *l = life_of(p, params->at[i]);
        if (is_placed(p, params->at[i]) && l->first == k && !l->born) add_place(p, params->at[i]);
    }
    sn_wrap_add(p->m, (sn_step){.kind = SN_STEP_CALL, .kern = p->m->kernels.at[k]});
    for (uint32_t i = 0; i < params->n; i++) {
        sn_buf b = params->at[i];
        const life *l = life_of(p, b);
        bool ends = is_placed(p, b) && l->last == k && !stays(p, b) && !l->held && !l->follows;
        if (ends && !handed_over(p, b)) add_free(p, b);
    }
}

static void add_windows(planner *p, const sn_repeat_rec *rec) {
    sn_module *m = p->m;
    for (uint32_t w = 0; w < rec->windows.n; w++) {
        const sn_repeat_window *win = &rec->windows.at[w];
        uint32_t bytes = sn_dtype_bytes(sn_buf_get(m, win->buf)->dtype);
        if (life_of(p, win->buf)->first == NEVER) continue;
        sn_wrap_add(m, (sn_step){.kind = SN_STEP_WINDOW,
                                 .buf = win->buf,
                                 .from = win->of,
                                 .size = sn_ix_scale(m, win->by, bytes),
                                 .offset = sn_ix_scale(m, win->first, bytes)});
    }
}

static void begin_repeats(planner *p, uint32_t k) {
    sn_module *m = p->m;
    for (uint32_t r = 0; r < m->repeats.n; r++) {
        const sn_repeat_rec *rec = &m->repeats.at[r];
        const span *s = &p->repeats[r];
        if (s->first == s->end) continue;
        for (uint32_t b = 1; b < m->bufs.count && s->first == k; b++)
            if (p->lives[b].born == r + 1 && is_placed(p, (sn_buf){b})) add_place(p, (sn_buf){b});
        if (s->first == k && s->branches) sn_wrap_add(m, (sn_step){.kind = SN_STEP_IF, .buf = rec->flag});
        if (s->branches && s->middle == k && k < s->end) sn_wrap_add(m, (sn_step){.kind = SN_STEP_ELSE});
        if (s->branches || s->first != k) continue;
        sn_wrap_add(m, (sn_step){.kind = SN_STEP_REPEAT, .size = rec->trip});
        add_windows(p, rec);
    }
}

static void end_repeats(planner *p, uint32_t k) {
    sn_module *m = p->m;
    for (uint32_t r = m->repeats.n; r-- > 0;) {
        const sn_repeat_rec *rec = &m->repeats.at[r];
        if (p->repeats[r].end != k || p->repeats[r].first == k) continue;
        for (uint32_t c = 0; c < rec->carries.n; c++)
            sn_wrap_add(
                m, (sn_step){.kind = SN_STEP_CARRY, .buf = rec->carries.at[c].state, .from = rec->carries.at[c].next});
        if (rec->flag.i && !rec->otherwise) sn_wrap_add(m, (sn_step){.kind = SN_STEP_WHILE, .buf = rec->flag});
        sn_wrap_add(m, (sn_step){.kind = SN_STEP_END});
        for (uint32_t b = 1; b < m->bufs.count; b++) {
            const life *l = &p->lives[b];
            bool ends = l->held == r + 1 && is_placed(p, (sn_buf){b}) && !stays(p, (sn_buf){b});
            if (ends && !l->follows) add_free(p, (sn_buf){b});
        }
    }
}

static void add_calls(planner *p, uint32_t first, uint32_t end) {
    for (uint32_t k = first; k < end; k++) {
        begin_repeats(p, k);
        add_call(p, k);
        end_repeats(p, k + 1);
    }
}

static void add_write_backs(planner *p) {
    for (uint32_t k = 0; k < p->m->graph.outputs.n; k++) {
        int input = p->m->graph.outputs.at[k].writes;
        if (input < 0 || p->in_place[k]) continue;
        sn_buf from = find_io(p, SN_BUF_OUTPUT, k), to = find_io(p, SN_BUF_INPUT, (uint32_t)input);
        sn_wrap_add(p->m, (sn_step){.kind = SN_STEP_COPY, .buf = to, .from = from, .size = bytes_of(p, from)});
    }
}

/* A temp that lives in an output's storage is aligned no better. */
static void lower_alignment(planner *p) {
    for (uint32_t b = 1; b < p->m->bufs.count; b++) {
        sn_buf home = p->lives[b].home;
        uint32_t *align = &sn_buf_get(p->m, (sn_buf){b})->align;
        if (home.i && *align > sn_buf_get(p->m, home)->align) *align = sn_buf_get(p->m, home)->align;
    }
}

static void build_wrapper(planner *p) {
    sn_module *m = p->m;
    const char *name = m->wrap.name ? m->wrap.name : m->graph.name ? m->graph.name : "main";
    m->wrap = (sn_wrap){.name = name};
    m->wrap.workspace = p->bytes[WORKSPACE];
    if (p->n_prepare) m->wrap.prepared = p->bytes[PREPARED];
    add_calls(p, 0, p->n_prepare);
    m->wrap.n_prepare = m->wrap.steps.n;
    add_checks(p);
    say_states(p);
    add_calls(p, p->n_prepare, m->kernels.n);
    add_write_backs(p);
    m->repeats.n = 0; /* they are steps now */
    for (uint32_t k = 0; k < m->kernels.n; k++) sn_kern_get(m, m->kernels.at[k])->section = 0;
    for (uint32_t k = 0; k < p->alternatives.n; k++) sn_kern_get(m, p->alternatives.at[k])->section = 0;
}

/* ---- the pass ---- */

/* An input that is only written to has no buffer yet. */
static sn_status declare_written_inputs(planner *p) {
    sn_module *m = p->m;
    list_ios(p);
    for (uint32_t k = 0; k < m->graph.outputs.n; k++) {
        const sn_graph_output *o = &m->graph.outputs.at[k];
        if (o->writes < 0) continue;
        const sn_graph_input *in = &m->graph.inputs.at[o->writes];
        const sn_type *t = &sn_node_get(m, in->node)->type;
        if (!in->contiguous)
            return sn_fail(m->env, SN_ERROR_UNSUPPORTED,
                           "output %s cannot be written back to input %s, which is not contiguous", o->name, in->name);
        if (!find_io(p, SN_BUF_OUTPUT, k).i)
            return sn_fail(m->env, SN_ERROR_INTERNAL, "output %s has no buffer", o->name);
        if (find_io(p, SN_BUF_INPUT, (uint32_t)o->writes).i) continue;
        sn_buf b = sn_buf_new(m, in->name, t->dtype, SN_BUF_INPUT, t->shape, t->rank);
        sn_buf_get(m, b)->io = (uint32_t)o->writes;
    }
    list_ios(p);
    return SN_OK;
}

/* Bytes of the workspace with offsets, 0 where they are symbols; *least: that are in use at once. */
static int64_t find_places(planner *p, int64_t *least) {
    sn_module *m = p->m;
    sn_arena *scratch = p->cx->scratch;
    int64_t bytes = 0;
    p->lives = SN_NEWN(scratch, life, m->bufs.count);
    p->segment = SN_NEWN(scratch, uint32_t, m->bufs.count);
    find_lives(p);
    find_repeats(p);
    list_temps(p);
    find_chains(p);
    find_homes(p);
    p->bytes[PREPARED] = sn_plan_offsets(least, p->cx, p->blocks[PREPARED], p->n_blocks[PREPARED]);
    p->bytes[WORKSPACE] = sn_plan_offsets(least, p->cx, p->blocks[WORKSPACE], p->n_blocks[WORKSPACE]);
    return sn_ix_is_const(m, p->bytes[WORKSPACE], &bytes) ? bytes : 0;
}

/* What takes the storage of a temp that died just before is one block with it, which says more to a reader, and leaves offsets
 * less to choose from: where they miss what is in use at once, they may choose alone. */
static int64_t find_best_places(planner *p) {
    int64_t least, ignored;
    set_alternatives_aside(p);
    for (int i = 0; i < 2; i++) p->blocks[i] = SN_NEWN(p->cx->scratch, sn_plan_block, p->m->bufs.count);
    order_kernels(p);
    int64_t bytes = find_places(p, &least);
    if (bytes <= least) return bytes;
    planner other = *p;
    other.free_offsets = true;
    for (int i = 0; i < 2; i++) {
        other.blocks[i] = SN_NEWN(p->cx->scratch, sn_plan_block, p->m->bufs.count);
        other.n_blocks[i] = 0;
    }
    int64_t free_bytes = find_places(&other, &ignored);
    if (free_bytes >= bytes) return bytes;
    *p = other;
    return free_bytes;
}

int64_t sn_plan_workspace(sn_pass_ctx *cx) {
    planner p = {.cx = cx, .m = cx->m};
    sn_kern_list kernels = cx->m->kernels;
    int64_t bytes = find_best_places(&p);
    cx->m->kernels = kernels;
    return bytes;
}

static void say_chains(const planner *p) {
    for (uint32_t k = 0; k < p->m->kernels.n; k++) {
        const sn_buf_list *params = &sn_kern_get(p->m, p->m->kernels.at[k])->params;
        for (uint32_t i = 0; i < params->n; i++) {
            const life *l = life_of(p, params->at[i]);
            if (l->first != k || !l->from.i) continue;
            sn_remark(p->cx, sn_buf_get(p->m, params->at[i])->name, "%s %s",
                      l->in_place ? "in place of" : "in the storage of", sn_buf_get(p->m, l->from)->name);
        }
    }
}

sn_status sn_pass_plan(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    *changed = false;
    if (m->kernels.n == 0 || m->wrap.steps.n) return SN_OK; /* a wrapper calls functions: it is planned */
    planner p = {.cx = cx, .m = m};
    SN_TRY(declare_written_inputs(&p));
    p.in_place = sn_plan_states(cx);
    find_best_places(&p);
    say_chains(&p);
    lower_alignment(&p);
    build_wrapper(&p);
    sn_plan_functions(cx, &p.alternatives);
    *changed = true;
    return m->env->status;
}
