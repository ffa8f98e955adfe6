/* horizontal_order.c: the dependence graph of kernels and an order that respects it. Part of the pass `horizontal-fuse`.
 *
 * A kernel depends on the last one that stores to a buffer it touches, and on all that have loaded it since where it
 * stores. An output that is written back to an input counts as that input: the caller may bind both to one storage.
 * Time and memory are linear in the statements.
 */
#include "passes/fuse/horizontal_fuse.h"

enum { NOBODY = UINT32_MAX };

typedef struct reader {
    uint32_t kernel, before; /* number of the reader before, from 1; 0: none */
} reader;

typedef struct finder {
    sn_module *m;
    sn_arena *scratch;
    sn_buf *storage;         /* by buffer: what it is the same as */
    uint32_t *writer;        /* by buffer: the last kernel that stores */
    uint32_t *readers;       /* by buffer: the last of those that have loaded since, a number of `reads` */
    uint32_t *loaded, *seen; /* by buffer: the kernel that was last seen to load, or to name as predecessor */
    SN_VEC(reader) reads;
    SN_VEC(uint32_t) pred;
} finder;

/* ---- predecessors ---- */

static void name_storages(finder *f) {
    uint32_t n = f->m->bufs.count, n_inputs = f->m->graph.inputs.n;
    sn_buf *inputs = SN_NEWN(f->scratch, sn_buf, n_inputs + 1);
    for (uint32_t i = 1; i < n; i++) {
        const sn_buf_rec *b = sn_buf_get(f->m, (sn_buf){i});
        f->storage[i].i = i;
        if (b->scope == SN_BUF_INPUT && b->io < n_inputs) inputs[b->io].i = i;
    }
    for (uint32_t i = 1; i < n; i++) {
        const sn_buf_rec *b = sn_buf_get(f->m, (sn_buf){i});
        if (b->scope != SN_BUF_OUTPUT || b->io >= f->m->graph.outputs.n) continue;
        int input = f->m->graph.outputs.at[b->io].writes;
        if (input >= 0 && inputs[input].i) f->storage[i] = inputs[input];
    }
}

static void depend(finder *f, uint32_t k, uint32_t on) {
    if (on == NOBODY || on == k || f->seen[on] == k) return;
    f->seen[on] = k;
    SN_PUSH(f->scratch, &f->pred, on);
}

/* An alternative stores what the kernel that it stands behind stores: it comes after that, and nobody needs it. */
static void find_predecessors(finder *f, uint32_t k) {
    sn_kern kern = f->m->kernels.at[k], first = sn_kern_get(f->m, kern)->alternative_of;
    for (uint32_t i = k; i-- > 0 && first.i;)
        if (sn_kern_eq(f->m->kernels.at[i], first)) depend(f, k, i);
    if (first.i) return;
    for (sn_stmt s = sn_stmt_walk_first(f->m, kern); s.i; s = sn_stmt_walk_next(f->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(f->m, s);
        if (!r->buf.i) continue;
        uint32_t b = f->storage[r->buf.i].i;
        depend(f, k, f->writer[b]);
        if (!sn_stores(r)) continue;
        for (uint32_t i = f->readers[b]; i; i = f->reads.at[i - 1].before) depend(f, k, f->reads.at[i - 1].kernel);
    }
    for (sn_stmt s = sn_stmt_walk_first(f->m, kern); s.i; s = sn_stmt_walk_next(f->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(f->m, s);
        if (!r->buf.i) continue;
        uint32_t b = f->storage[r->buf.i].i;
        if (sn_stores(r)) {
            f->writer[b] = k;
            f->readers[b] = 0;
        } else if (f->loaded[b] != k && f->writer[b] != k) {
            f->loaded[b] = k;
            SN_PUSH(f->scratch, &f->reads, ((reader){k, f->readers[b]}));
            f->readers[b] = f->reads.n;
        }
    }
}

static uint32_t *nobodies(sn_arena *a, uint32_t n) {
    uint32_t *all = SN_NEWN(a, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) all[i] = NOBODY;
    return all;
}

void sn_kern_order_find(sn_kern_order *out, sn_pass_ctx *cx) {
    uint32_t n = cx->m->kernels.n, n_bufs = cx->m->bufs.count;
    finder f = {.m = cx->m,
                .scratch = cx->scratch,
                .storage = SN_NEWN(cx->scratch, sn_buf, n_bufs),
                .writer = nobodies(cx->scratch, n_bufs),
                .readers = SN_NEWN(cx->scratch, uint32_t, n_bufs),
                .loaded = nobodies(cx->scratch, n_bufs),
                .seen = nobodies(cx->scratch, n)};
    name_storages(&f);
    *out = (sn_kern_order){
        .n = n, .first = SN_NEWN(cx->scratch, uint32_t, n + 1), .level = SN_NEWN(cx->scratch, uint32_t, n + 1)};
    for (uint32_t k = 0; k < n; k++) {
        find_predecessors(&f, k);
        out->first[k + 1] = f.pred.n;
        for (uint32_t i = out->first[k]; i < f.pred.n; i++) {
            uint32_t above = out->level[f.pred.at[i]] + 1;
            if (out->level[k] < above) out->level[k] = above;
        }
    }
    out->pred = f.pred.at;
}

/* ---- the new order ---- */

/* A merged kernel on its way into the list: its members, and how many predecessors of the current one have been
 * seen. */
typedef struct visit {
    uint32_t leader, member, edge;
} visit;

typedef struct sorter {
    const sn_kern_order *o;
    const uint32_t *leader;
    uint32_t *next; /* by position: the next member of the same leader, NOBODY at the end */
    bool *done;     /* by leader: in the list, or about to be */
    SN_VEC(visit) stack;
    sn_arena *scratch;
} sorter;

static void push(sorter *s, uint32_t k) {
    uint32_t l = s->leader[k];
    if (s->done[l]) return;
    s->done[l] = true;
    SN_PUSH(s->scratch, &s->stack, ((visit){l, l, s->o->first[l]}));
}

/* Is everything that the top of the stack needs in the list? If not, what is missing is now the top. */
static bool is_ready(sorter *s) {
    uint32_t at = s->stack.n - 1;
    while (s->stack.n == at + 1) {
        visit *v = &s->stack.at[at];
        if (v->edge < s->o->first[v->member + 1]) {
            push(s, s->o->pred[v->edge++]);
        } else {
            v->member = s->next[v->member];
            if (v->member == NOBODY) return true;
            v->edge = s->o->first[v->member];
        }
    }
    return false;
}

void sn_kern_order_apply(const sn_kern_order *o, sn_pass_ctx *cx, const uint32_t *leader) {
    sorter s = {.o = o,
                .leader = leader,
                .next = nobodies(cx->scratch, o->n),
                .done = SN_NEWN(cx->scratch, bool, o->n),
                .scratch = cx->scratch};
    sn_kern_list *list = &cx->m->kernels;
    sn_kern *old = sn_memdup(cx->scratch, list->at, o->n * sizeof *old);
    for (uint32_t k = o->n; k-- > 0;) {
        if (leader[k] == k) continue;
        s.next[k] = s.next[leader[k]];
        s.next[leader[k]] = k;
    }
    list->n = 0;
    for (uint32_t k = 0; k < o->n; k++) {
        push(&s, k);
        while (s.stack.n) {
            if (!is_ready(&s)) continue;
            uint32_t l = s.stack.at[--s.stack.n].leader;
            list->at[list->n++] = old[l];
        }
    }
}
