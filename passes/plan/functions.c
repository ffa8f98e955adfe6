/* functions.c: kernels become functions, and equal ones become one. The last part of the pass `plan`.
 *
 *     kernel @k0(x, t) { .. load x[i] .. store t[i] .. }         kernel @k0(x: f32[64] in .., t: f32[64] out ..) { .. }
 *     kernel @k1(t, y) { .. load t[i] .. store y[i] .. }    ->   call @k0(x, t)
 *     call @k0 ; call @k1                                        call @k0(t, y)
 *
 * Each parameter becomes a formal with what the plan knows of its argument at this call:
 *   noalias     no other argument has its storage: chains of `reuse` begin at the same buffer where they share one
 *   invariant   nothing writes its storage during the call, and it is no output of the program (whose storage other
 *               values may pass through)
 *   align       of the argument, up to the widest access: what is aligned better is not another kernel
 * Two kernels are equal when their text is, without names and notes (sn_kern_print_plain); the first stays. Cost: linear
 * in the text of the kernels.
 */
#include "passes/plan/plan.h"

#include <string.h>

enum { WIDEST_ACCESS = 16 };

/* The kernels that stay, by their text. */
typedef struct known {
    const char *text;
    size_t size;
    uint64_t hash;
    sn_kern kern;
} known;

typedef struct outliner {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_buf *storage; /* by buffer id: where the chain of its storage begins */
    sn_text text;
    known *slots;
    uint32_t slot_cap; /* a power of two */
} outliner;

/* ---- what the plan knows ---- */

static void find_storage(outliner *o) {
    const sn_wrap *w = &o->m->wrap;
    o->storage = SN_NEWN(o->cx->scratch, sn_buf, o->m->bufs.count);
    for (uint32_t i = 1; i < o->m->bufs.count; i++) o->storage[i].i = i;
    for (uint32_t i = 0; i < w->steps.n; i++)
        if (w->steps.at[i].kind == SN_STEP_REUSE) o->storage[w->steps.at[i].buf.i] = o->storage[w->steps.at[i].from.i];
}

/* Marks of arguments: the formal of each, from 1. Marks of storages: how many arguments have it, and whether it is stored
 * to. Both are 0 between calls, and a buffer can be both. */
typedef struct uses {
    uint32_t arguments, stores;
} uses;

static void add_formals(outliner *o, sn_kern k, sn_buf *formal_of, uses *of) {
    sn_module *m = o->m;
    sn_kern_rec *r = sn_kern_get(m, k);
    const sn_buf_list args = r->params;
    r->params = (sn_buf_list){0};
    for (uint32_t i = 0; i < args.n; i++) {
        const sn_buf_rec *b = sn_buf_get(m, args.at[i]);
        formal_of[args.at[i].i] = sn_formal_new(m, k, b->name, b);
        of[o->storage[args.at[i].i].i].arguments++;
    }
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        sn_stmt_rec *st = sn_stmt_get(m, s);
        if (!st->buf.i || !formal_of[st->buf.i].i) continue;
        bool stores = sn_stores(st), loads = sn_loads(st);
        of[o->storage[st->buf.i].i].stores += stores;
        st->buf = formal_of[st->buf.i];
        sn_buf_get(m, st->buf)->role |= (stores ? SN_ROLE_OUT : 0) | (loads ? SN_ROLE_IN : 0);
    }
    for (uint32_t i = 0; i < args.n; i++) {
        const sn_buf_rec *b = sn_buf_get(m, args.at[i]);
        const uses *u = &of[o->storage[args.at[i].i].i];
        sn_buf_rec *f = sn_buf_get(m, formal_of[args.at[i].i]);
        f->noalias = u->arguments == 1;
        f->invariant = !u->stores && b->scope != SN_BUF_OUTPUT;
        if (f->align > WIDEST_ACCESS) f->align = WIDEST_ACCESS;
    }
    for (uint32_t i = 0; i < args.n; i++) {
        formal_of[args.at[i].i] = (sn_buf){0};
        of[o->storage[args.at[i].i].i] = (uses){0};
    }
}

/* ---- equal kernels ---- */

static known *find(outliner *o, uint64_t hash) {
    uint32_t s = (uint32_t)hash & (o->slot_cap - 1);
    for (; o->slots[s].kern.i; s = (s + 1) & (o->slot_cap - 1)) {
        const known *n = &o->slots[s];
        if (n->hash == hash && n->size == o->text.n && !memcmp(n->text, o->text.s, n->size)) break;
    }
    return &o->slots[s];
}

/* The kernel that k is equal to: itself when it is the first. */
static sn_kern first_equal(outliner *o, sn_kern k) {
    sn_text_clear(&o->text);
    sn_kern_print_plain(&o->text, o->m, k);
    uint64_t hash = sn_hash_bytes(0, o->text.s, o->text.n);
    known *n = find(o, hash);
    if (!n->kern.i) *n = (known){sn_strndup(o->cx->scratch, o->text.s, o->text.n), o->text.n, hash, k};
    else sn_remark(o->cx, sn_kern_get(o->m, k)->name, "is @%s", sn_kern_get(o->m, n->kern)->name);
    return n->kern;
}

void sn_plan_functions(sn_pass_ctx *cx) {
    sn_module *m = cx->m;
    uint32_t n = 0, cap = 16;
    while (cap < 2 * m->kernels.n) cap *= 2;
    outliner o = {.cx = cx, .m = m, .slot_cap = cap, .slots = SN_NEWN(cx->scratch, known, cap)};
    find_storage(&o);
    sn_text_init(&o.text, m->env);
    sn_buf *formal_of = SN_NEWN(cx->scratch, sn_buf, m->bufs.count);
    uses *of = SN_NEWN(cx->scratch, uses, m->bufs.count);
    for (uint32_t i = 0; i < m->wrap.steps.n; i++) {
        sn_step *s = &m->wrap.steps.at[i];
        if (s->kind != SN_STEP_CALL) continue;
        s->args = sn_kern_get(m, s->kern)->params;
        add_formals(&o, s->kern, formal_of, of);
        sn_kern stays = first_equal(&o, s->kern);
        if (sn_kern_eq(stays, s->kern)) m->kernels.at[n++] = s->kern; /* calls have the order of m->kernels */
        s->kern = stays;
    }
    m->kernels.n = n;
    sn_text_free(&o.text);
}
