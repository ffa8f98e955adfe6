/* order.c: the pass `order-kernels`: kernels run in an order in which their intermediates need less memory.
 *
 *     a0 = f(x)   a1 = f(x)   b0 = sum(a0)   b1 = sum(a1)         a0 and a1 are large, both alive after two kernels
 *  -> a0 = f(x)   b0 = sum(a0)   a1 = f(x)   b1 = sum(a1)         one of them at a time
 *
 * A list schedule over the graph of dependences: of the kernels that are ready, the first one (in the order that there was) with
 * which all that is alive stays within the most that one kernel alone has to have, which no order can do without; where none does,
 * the one that adds least. A second one always takes the kernel after which least is alive. What is alive counts as the pass
 * `plan` will count it: a result that may be written over an operand which ends there adds nothing (inplace.c).
 *
 * Legal because whoever reads a buffer stays behind its last writer, and a writer behind readers and writers before it. The order
 * that there was knows what is still in the cache, so that it stays unless the workspace, planned as a trial for both orders,
 * becomes smaller by more than a sixteenth; so no workspace becomes larger. What is of symbolic size cannot be compared: nothing
 * happens. Comes before `reverse-grid`, which looks at neighbours. Cost: n log n in kernels and the buffers that they touch, two
 * questions to inplace.c for a temp that dies where another of its size is born, and two trials of `plan` when an order is better.
 */
#include "passes/base/constants.h"
#include "passes/plan/plan.h"

#include <string.h>

#include "ir/loop/access.h"

static const int64_t gone = INT64_MAX; /* in a tree: not ready */

/* Least of all ready kernels by position: a binary tree in an array, the leaves behind `half`. */
typedef struct tree {
    int64_t *at;
    uint32_t half;
} tree;

typedef struct pair {
    sn_buf from, to;
} pair;

/* A kernel while an order is made. */
typedef struct node {
    SN_VEC(uint32_t) next; /* those that wait for it */
    SN_VEC(pair) pairs;    /* what it may write over what */
    uint32_t n_before;
    int64_t born, own; /* bytes of temps whose first user it is; of all that it touches, less what may share storage */
} node;

/* What changes while one order is tried. */
typedef struct trial {
    int64_t *need, *net; /* by kernel: bytes that it adds while it runs, and that stay behind it */
    uint32_t *left;      /* by buffer: users that have not run */
    uint32_t *rest;      /* by buffer: exclusive or of their positions, so that the last one is known */
    uint32_t *waits;     /* by kernel: those before it that have not run */
    bool *claimed;       /* by buffer: it takes storage, or has given its own */
    tree by_need, by_net;
    int64_t live, peak;
    uint32_t *order;
} trial;

typedef struct orderer {
    sn_pass_ctx *cx;
    sn_module *m;
    const bool *constant; /* by kernel: it runs when the program is loaded */
    sn_users users;
    int64_t *bytes; /* by buffer; 0: no temp of the run */
    node *nodes;
    uint32_t n;
    int64_t bound; /* bytes that no order can do without */
} orderer;

/* ---- the tree ---- */

static void tree_init(tree *t, sn_arena *a, uint32_t n) {
    t->half = 1;
    while (t->half < n) t->half *= 2;
    t->at = SN_NEWN(a, int64_t, 2 * (size_t)t->half);
    for (uint32_t i = 0; i < 2 * t->half; i++) t->at[i] = gone;
}

static void tree_set(tree *t, uint32_t k, int64_t value) {
    uint32_t i = t->half + k;
    t->at[i] = value;
    for (i /= 2; i; i /= 2) t->at[i] = t->at[2 * i] < t->at[2 * i + 1] ? t->at[2 * i] : t->at[2 * i + 1];
}

/* The first kernel of no more than `most`; there is one. */
static uint32_t tree_first(const tree *t, int64_t most) {
    uint32_t i = 1;
    while (i < t->half) i = t->at[2 * i] <= most ? 2 * i : 2 * i + 1;
    return i - t->half;
}

/* ---- the graph of dependences ---- */

static void add_edge(orderer *o, uint32_t before, uint32_t after) {
    if (before == after || o->constant[before]) return;
    SN_PUSH(o->cx->scratch, &o->nodes[before].next, after);
    o->nodes[after].n_before++;
}

/* Readers come behind the last writer, a writer behind the readers since the one before it. */
static void add_edges(orderer *o, uint32_t b) {
    const sn_users *u = &o->users;
    uint32_t writer = UINT32_MAX, since = u->first[b];
    for (uint32_t i = u->first[b]; i < u->first[b + 1]; i++) {
        const sn_user *user = &u->user[i];
        if (writer != UINT32_MAX) add_edge(o, writer, user->at);
        if (!user->stores) continue;
        for (uint32_t r = since; r < i; r++)
            if (u->user[r].at != writer) add_edge(o, u->user[r].at, user->at);
        writer = user->at;
        since = i + 1;
    }
}

/* Bytes of temps that are born in runs; false: a size is not known. */
static bool find_bytes(orderer *o) {
    for (uint32_t b = 1; b < o->m->bufs.count; b++) {
        const sn_buf_rec *rec = sn_buf_get(o->m, (sn_buf){b});
        uint32_t first = o->users.first[b];
        int64_t size;
        if (rec->scope != SN_BUF_TEMP || first == o->users.first[b + 1]) continue;
        if (!sn_ix_is_const(o->m, rec->size, &size)) return false;
        if (o->constant[o->users.user[first].at]) continue;
        o->bytes[b] = (size * sn_dtype_bytes(rec->dtype) + SN_PLAN_ALIGN - 1) / SN_PLAN_ALIGN * SN_PLAN_ALIGN;
        o->nodes[o->users.user[first].at].born += o->bytes[b];
    }
    return true;
}

static bool is_born(const orderer *o, sn_buf b, uint32_t k) {
    return o->bytes[b.i] && o->users.user[o->users.first[b.i]].at == k;
}

/* Which temps may have the storage of which; of launches of several grids none, which is too much only by what they are. */
static void find_pairs(orderer *o, uint32_t k) {
    sn_kern kern = o->m->kernels.at[k];
    const sn_buf_list *params = &sn_kern_get(o->m, kern)->params;
    sn_plan_touches touches = {0};
    if (sn_kern_segments(o->m, kern) > 1) return;
    for (uint32_t i = 0; i < params->n; i++) {
        for (uint32_t j = 0; j < params->n && is_born(o, params->at[i], k); j++) {
            sn_buf to = params->at[i], from = params->at[j];
            bool old = o->bytes[from.i] == o->bytes[to.i] && !is_born(o, from, k);
            if (old && !touches.kern.i) sn_plan_touches_of(&touches, o->cx, kern);
            if (old && sn_plan_in_place(&touches, from, to))
                SN_PUSH(o->cx->scratch, &o->nodes[k].pairs, ((pair){from, to}));
        }
    }
}

static void find_own(orderer *o, uint32_t k) {
    const sn_buf_list *params = &sn_kern_get(o->m, o->m->kernels.at[k])->params;
    node *n = &o->nodes[k];
    int64_t shared = 0;
    for (uint32_t i = 0; i < params->n; i++) n->own += o->bytes[params->at[i].i];
    for (uint32_t i = 0; i < n->pairs.n; i++)
        if (!i || n->pairs.at[i].to.i != n->pairs.at[i - 1].to.i) shared += o->bytes[n->pairs.at[i].to.i];
    if (n->own - shared > o->bound) o->bound = n->own - shared;
}

/* ---- what is alive ---- */

/* Kernel k is the last user of b: it ends there, and something may be written over it. */
static void ends_at(const orderer *o, trial *t, uint32_t b, uint32_t k) {
    t->net[k] -= o->bytes[b];
    for (uint32_t i = 0; i < o->nodes[k].pairs.n; i++) {
        const pair *p = &o->nodes[k].pairs.at[i];
        if (p->from.i != b || t->claimed[b] || t->claimed[p->to.i]) continue;
        t->claimed[b] = t->claimed[p->to.i] = true;
        t->need[k] -= o->bytes[b];
    }
}

static void begin(const orderer *o, trial *t) {
    sn_arena *a = o->cx->scratch;
    *t = (trial){.need = SN_NEWN(a, int64_t, o->n),
                 .net = SN_NEWN(a, int64_t, o->n),
                 .left = SN_NEWN(a, uint32_t, o->m->bufs.count),
                 .rest = SN_NEWN(a, uint32_t, o->m->bufs.count),
                 .waits = SN_NEWN(a, uint32_t, o->n),
                 .claimed = SN_NEWN(a, bool, o->m->bufs.count),
                 .order = SN_NEWN(a, uint32_t, o->n)};
    for (uint32_t k = 0; k < o->n; k++) {
        t->need[k] = t->net[k] = o->nodes[k].born;
        t->waits[k] = o->nodes[k].n_before;
    }
    for (uint32_t b = 1; b < o->m->bufs.count; b++) {
        for (uint32_t i = o->users.first[b]; i < o->users.first[b + 1] && o->bytes[b]; i++) {
            t->left[b]++;
            t->rest[b] ^= o->users.user[i].at;
        }
        if (t->left[b] == 1) ends_at(o, t, b, t->rest[b]);
    }
}

/* It stands in the trees as it is now. */
static void show(trial *t, uint32_t k) {
    if (!t->by_need.at) return;
    tree_set(&t->by_need, k, t->need[k]);
    tree_set(&t->by_net, k, t->net[k]);
}

static void execute(const orderer *o, trial *t, uint32_t k) {
    const sn_buf_list *params = &sn_kern_get(o->m, o->m->kernels.at[k])->params;
    if (t->live + t->need[k] > t->peak) t->peak = t->live + t->need[k];
    t->live += t->net[k];
    for (uint32_t i = 0; i < params->n; i++) {
        uint32_t b = params->at[i].i;
        if (!t->left[b]) continue;
        t->rest[b] ^= k;
        if (--t->left[b] != 1) continue;
        uint32_t last = t->rest[b];
        ends_at(o, t, b, last);
        if (!t->waits[last]) show(t, last);
    }
}

/* ---- orders ---- */

static void as_it_is(const orderer *o, trial *t) {
    begin(o, t);
    for (uint32_t k = 0; k < o->n; k++)
        if (!o->constant[k]) execute(o, t, k);
}

static uint32_t pick(const trial *t, int64_t room, bool in_turn) {
    if (!in_turn) return tree_first(&t->by_net, t->by_net.at[1]);
    return tree_first(&t->by_need, t->by_need.at[1] <= room ? room : t->by_need.at[1]);
}

/* in_turn: the first that leaves all within the bound; else always the one that leaves least alive. */
static void list_schedule(const orderer *o, trial *t, bool in_turn) {
    uint32_t n = 0;
    begin(o, t);
    tree_init(&t->by_need, o->cx->scratch, o->n);
    tree_init(&t->by_net, o->cx->scratch, o->n);
    for (uint32_t k = 0; k < o->n; k++) {
        if (o->constant[k]) t->order[n++] = k;
        else if (!t->waits[k]) show(t, k);
    }
    while (n < o->n) {
        uint32_t k = pick(t, o->bound - t->live, in_turn);
        t->order[n++] = k;
        tree_set(&t->by_need, k, gone);
        tree_set(&t->by_net, k, gone);
        execute(o, t, k);
        for (uint32_t i = 0; i < o->nodes[k].next.n; i++) {
            uint32_t after = o->nodes[k].next.at[i];
            if (!--t->waits[after]) show(t, after);
        }
    }
}

/* ---- the pass ---- */

static bool look(orderer *o) {
    sn_module *m = o->m;
    sn_arena *a = o->cx->scratch;
    o->n = m->kernels.n;
    o->constant = sn_kerns_constant(m, a);
    o->bytes = SN_NEWN(a, int64_t, m->bufs.count);
    o->nodes = SN_NEWN(a, node, o->n);
    sn_users_find(&o->users, m, a);
    if (!find_bytes(o)) return false;
    for (uint32_t b = 1; b < m->bufs.count; b++) add_edges(o, b);
    for (uint32_t k = 0; k < o->n; k++) {
        if (o->constant[k]) continue;
        find_pairs(o, k);
        find_own(o, k);
    }
    return true;
}

static sn_kern_list reordered(sn_module *m, const uint32_t *order) {
    sn_kern_list list = {0};
    for (uint32_t i = 0; i < m->kernels.n; i++) SN_PUSH(&m->arena, &list, m->kernels.at[order[i]]);
    return list;
}

/* Keep the order if it is worth it. */
static bool adopt(orderer *o, const trial *t) {
    sn_module *m = o->m;
    sn_kern_list before = m->kernels;
    int64_t old = sn_plan_workspace(o->cx);
    m->kernels = reordered(m, t->order);
    int64_t new = sn_plan_workspace(o->cx);
    if (new < old - old / SN_ORDER_WORTH) {
        sn_remark(o->cx, m->graph.name ? m->graph.name : "main",
                  "another order of its kernels: workspace %lld instead of %lld bytes", (long long)new, (long long)old);
        return true;
    }
    m->kernels = before;
    return false;
}

sn_status sn_pass_order_kernels(sn_pass_ctx *cx, bool *changed) {
    orderer o = {.cx = cx, .m = cx->m};
    trial is, in_turn, greedy;
    *changed = false;
    if (cx->m->kernels.n < 3 || cx->m->wrap.steps.n) return SN_OK;
    if (cx->m->repeats.n)
        return SN_OK; /* kernels of a section stay together, and what a step leaves is alive all along */
    if (sn_kerns_of_sets(cx->m, cx->scratch)) return SN_OK; /* alternatives store what their first one stores */
    if (!look(&o)) return SN_OK;
    as_it_is(&o, &is);
    if (is.peak <= o.bound) return SN_OK;
    list_schedule(&o, &in_turn, true);
    list_schedule(&o, &greedy, false);
    const trial *best = greedy.peak < in_turn.peak ? &greedy : &in_turn;
    if (best->peak < is.peak) *changed = adopt(&o, best);
    return cx->m->env->status;
}
