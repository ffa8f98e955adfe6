/* alone.c: a kernel as `schedule` finds it, as a program of its own.
 *
 *     kernel @k4_part(x, p) { .. store p[..], %3 }      kernel @k4(p, y) { .. }          k4 follows k4_part
 *  -> graph @kernel(%i0: f32[4194304]) { %0 = full .. return o0 = %0 }
 *     buffer i0 .. input 0   buffer t0 .. temp   buffer o0 .. output 0   kernel @k0(i0, t0) { .. }   kernel @k1(t0, o0) { .. }
 *
 * What a kernel loads and does not store is an input, weights and numbers that do not give positions included; what it stores
 * and others see is an output, written from scratch. Memory between it and its followers stays their own. A small kernel that reads
 * what the blocks of another one leave goes with that one, as it takes its shape from it and runs at its end. Shapes are flat, names
 * are numbers, and what is for people goes, so that equal kernels have equal texts. The graph says which ports there are,
 * not what is computed.
 *
 * Legality: sizes are numbers; a kernel that stores at positions which it has loaded is refused, since nobody could make up positions
 * that differ. Relies on users of the module as it is. Cost: linear in the kernels that are taken out.
 */
#include "passes/schedule/alone.h"

#include <string.h>

#include "passes/schedule/base/constants.h"

const char sn_kernel_key_start[] = "graph @kernel(";

enum {
    ALIGNED = 64,     /* bytes: what memory of a program that is timed is aligned to at least, everywhere */
    TABLE_MOST = 4096 /* elements of a constant that stays one: larger ones are numbers like those of an input */
};

typedef struct members {
    const sn_module *m;
    const sn_users *users;
    SN_VEC(sn_kern) kernels;
    SN_VEC(uint32_t) at; /* their positions */
} members;

/* ---- who belongs to it ---- */

static bool is_member(const members *x, uint32_t at) {
    for (uint32_t k = 0; k < x->at.n; k++)
        if (x->at.at[k] == at) return true;
    return false;
}

/* Does a kernel touch the buffer that is no member, and not the one at `also`? */
static bool is_touched_elsewhere(const members *x, sn_buf b, uint32_t also) {
    const sn_users *u = x->users;
    if (b.i >= u->n_bufs) return false;
    for (uint32_t k = u->first[b.i]; k < u->first[b.i + 1]; k++)
        if (!is_member(x, u->user[k].at) && u->user[k].at != also) return true;
    return false;
}

static bool is_small(const sn_module *m, sn_kern k) {
    const sn_buf_list *params = &sn_kern_get(m, k)->params;
    int64_t n;
    for (uint32_t i = 0; i < params->n; i++)
        if (!sn_ix_is_const(m, sn_buf_get(m, params->at[i])->size, &n) || n > SN_FOLLOW_MOST) return false;
    return true;
}

/* Does it alone read what the first member leaves for it? */
static bool shares_nothing(const members *x, uint32_t at) {
    const sn_kern_rec *k = sn_kern_get(x->m, x->m->kernels.at[at]);
    for (uint32_t i = 0; i < k->params.n; i++) {
        const sn_user *user = sn_users_get(x->users, k->params.at[i], x->at.at[0]);
        if (user && user->stores && is_touched_elsewhere(x, k->params.at[i], at)) return false;
    }
    return true;
}

static bool follows(const members *x, uint32_t at) {
    sn_kern k = x->m->kernels.at[at];
    return !sn_kern_get(x->m, k)->scheduled && sn_kern_follows(x->m, x->users, at) == x->at.at[0] &&
           is_small(x->m, k) && shares_nothing(x, at);
}

/* In the order in which they run. */
static void add_member(members *x, sn_arena *arena, uint32_t at) {
    uint32_t k = x->at.n;
    SN_PUSH(arena, &x->at, at);
    SN_PUSH(arena, &x->kernels, x->m->kernels.at[at]);
    for (; k > 1 && x->at.at[k - 1] > at; k--) {
        x->at.at[k] = x->at.at[k - 1];
        x->kernels.at[k] = x->kernels.at[k - 1];
    }
    x->at.at[k] = at;
    x->kernels.at[k] = x->m->kernels.at[at];
}

/* Who follows reads what the first one stores. */
static void find_members(members *x, sn_arena *arena, uint32_t at) {
    const sn_users *u = x->users;
    const sn_buf_list *params = &sn_kern_get(x->m, x->m->kernels.at[at])->params;
    add_member(x, arena, at);
    for (uint32_t i = 0; i < params->n; i++) {
        uint32_t b = params->at[i].i;
        const sn_user *own = sn_users_get(u, params->at[i], at);
        if (!own || !own->stores) continue;
        for (uint32_t k = u->first[b]; k < u->first[b + 1]; k++)
            if (u->user[k].at > at && !is_member(x, u->user[k].at) && follows(x, u->user[k].at))
                add_member(x, arena, u->user[k].at);
    }
}

/* ---- may it be one? ---- */

static bool has_known_sizes(const sn_module *m, sn_kern k) {
    const sn_buf_list *params = &sn_kern_get(m, k)->params;
    int64_t n;
    for (uint32_t i = 0; i < params->n; i++)
        if (!sn_ix_is_const(m, sn_buf_get(m, params->at[i])->size, &n) || n < 1) return false;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s))
        if (sn_is_nest(sn_stmt_get(m, s)) && !sn_ix_is_const(m, sn_stmt_extent(m, s), &n)) return false;
    return true;
}

static bool scatters(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_stores(r) && sn_ix_uses_vals(m, r->ix)) return true;
    }
    return false;
}

static const char *refusal(const members *x) {
    const sn_kern_rec *first = sn_kern_get(x->m, x->kernels.at[0]);
    if (first->scheduled || first->sched.cls == SN_SCHED_LIBRARY) return "its schedule stands";
    if (sn_kern_follows(x->m, x->users, x->at.at[0]) != UINT32_MAX && is_small(x->m, x->kernels.at[0]))
        return "it takes its shape from another one";
    for (uint32_t k = 0; k < x->kernels.n; k++) {
        if (!has_known_sizes(x->m, x->kernels.at[k])) return "its sizes are not known, or 0";
        if (scatters(x->m, x->kernels.at[k])) return "it stores at positions that it has loaded";
    }
    return NULL;
}

/* ---- ports ---- */

typedef struct ports {
    const members *from;
    sn_module *to;
    uint32_t n_inputs, n_outputs, n_temps, n_consts;
} ports;

static bool is_stored(const members *x, sn_buf b) {
    for (uint32_t k = 0; k < x->at.n; k++) {
        const sn_user *user = sn_users_get(x->users, b, x->at.at[k]);
        if (user && user->stores) return true;
    }
    return false;
}

/* A short table of integers may be one of positions, and means what it says. */
static bool stays_constant(const sn_module *m, const sn_buf_rec *b) {
    return b->scope == SN_BUF_CONST && !b->weight.i && !sn_is_float(b->dtype) && sn_ix_value(m, b->size) <= TABLE_MOST;
}

static void be_port(ports *p, sn_buf_rec *r, sn_buf_scope scope, uint32_t number) {
    sn_arena *arena = &p->to->arena;
    sn_type type = {.dtype = r->dtype, .rank = 1, .shape = {r->size}};
    r->scope = scope;
    r->io = number;
    r->data = NULL;
    if (scope == SN_BUF_INPUT) {
        r->name = sn_strf(arena, "i%u", number);
        sn_graph_input_new(p->to, r->name, &type, NULL, (sn_ix){0});
        return;
    }
    r->name = sn_strf(arena, "o%u", number);
    sn_graph_output_new(p->to, r->name, sn_graph_full(p->to, r->dtype, 0, type.shape, 1), -1);
}

static void place(ports *p, sn_buf old, sn_buf_rec *r) {
    const sn_buf_rec *was = sn_buf_get(p->from->m, old);
    sn_arena *arena = &p->to->arena;
    r->rank = 1;
    r->shape[0] = r->size;
    if (r->align > ALIGNED) r->align = ALIGNED;
    if (stays_constant(p->from->m, was)) r->name = sn_strf(arena, "c%u", p->n_consts++);
    else if (!is_stored(p->from, old)) be_port(p, r, SN_BUF_INPUT, p->n_inputs++);
    else if (was->scope != SN_BUF_TEMP || is_touched_elsewhere(p->from, old, UINT32_MAX))
        be_port(p, r, SN_BUF_OUTPUT, p->n_outputs++);
    else r->name = sn_strf(arena, "t%u", p->n_temps++);
}

/* Parameters of copies stand in the order of those that they are copies of. */
static void place_all(ports *p, sn_arena *scratch) {
    bool *done = SN_NEWN(scratch, bool, p->to->bufs.count + 1);
    for (uint32_t k = 0; k < p->from->kernels.n; k++) {
        const sn_kern_rec *old = sn_kern_get(p->from->m, p->from->kernels.at[k]);
        sn_kern_rec *new = sn_kern_get(p->to, p->to->kernels.at[k]);
        new->name = sn_strf(&p->to->arena, "k%u", k);
        new->note = NULL;
        new->from = NULL;
        for (uint32_t i = 0; i < old->params.n; i++) {
            sn_buf b = new->params.at[i];
            if (!done[b.i]) place(p, old->params.at[i], sn_buf_get(p->to, b));
            done[b.i] = true;
        }
        for (uint32_t i = 0; i < new->locals.n; i++)
            sn_buf_get(p->to, new->locals.at[i])->name = sn_strf(&p->to->arena, "l%u_%u", k, i);
    }
    for (sn_axis ax = {1}; ax.i < p->to->axes.count; ax.i++) sn_axis_get(p->to, ax)->name = "a";
}

sn_module *sn_kernel_alone(const char **why_not, sn_pass_ctx *cx, const sn_users *users, uint32_t at) {
    members from = {.m = cx->m, .users = users};
    find_members(&from, cx->scratch, at);
    *why_not = refusal(&from);
    if (*why_not) return NULL;
    ports p = {.from = &from, .to = sn_module_of_kernels(cx->m->env, cx->m, from.kernels.at, from.kernels.n)};
    sn_graph_init(p.to, "kernel");
    place_all(&p, cx->scratch);
    return p.to;
}

const char *sn_kernel_key(const char **why_not, sn_pass_ctx *cx, const sn_users *users, uint32_t at) {
    sn_module *alone = sn_kernel_alone(why_not, cx, users, at);
    sn_text t;
    if (!alone) return NULL;
    sn_text_init(&t, cx->m->env);
    sn_module_print(&t, alone);
    const char *key = sn_strdup(cx->scratch, t.s);
    sn_text_free(&t);
    sn_module_free(alone);
    return key;
}

/* ---- how large it is ---- */

static double statements_in(const sn_module *m, sn_stmt first) {
    double n = 0;
    for (sn_stmt s = first; s.i; s = sn_stmt_get(m, s)->next) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        double inside = sn_lop_has_region(r->op) ? statements_in(m, r->first) : 0;
        n += 1 + (sn_is_nest(r) ? inside * (double)sn_ix_value(m, sn_stmt_extent(m, s)) : inside);
    }
    return n;
}

double sn_kernel_statements(const sn_module *m, sn_kern k) { return statements_in(m, sn_kern_get(m, k)->first); }
