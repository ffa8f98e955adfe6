/* functions.c: kernels become functions, and equal ones become one. The last part of the pass `plan`.
 *
 *     kernel @k0(x, t) { .. load x[i] .. store t[i] .. }         kernel @k0(x: f32[64] in .., t: f32[64] out ..) { .. }
 *     kernel @k1(t, y) { .. load t[i] .. store y[i] .. }    ->   call @k0(x, t)
 *     call @k0 ; call @k1                                        call @k0(t, y)
 *
 * Each parameter becomes a formal with what the plan knows of its argument at this call:
 *   noalias     no other argument has its storage: chains of `reuse` begin at the same buffer where they share one, and an output
 *               that is written back without a copy is its input
 *   invariant   nothing writes its storage during the call, and it is no output of the program (whose storage other
 *               values may pass through)
 *   align       of the argument, up to the widest access: what is aligned better is not another kernel
 * A formal is the window of the buffer that the kernel touches; where it begins goes into the argument. So the steps of a
 * recurrent network, which read and write other rows of one tensor, are one function:
 *
 *     kernel @k7(x, ..) { .. load x[i + 640] .. }    ->    kernel @k0(x: f32[640] in ..) { .. load x[i] .. } ; call @k0(x + 640, ..)
 *
 * Of equal kernels (ir/loop/equal.h) the first stays, and comes from the nodes of all. A call keeps those that it
 * is of. Cost: linear in the kernels.
 */
#include "ir/loop/box.h"
#include "ir/loop/library.h"
#include "ir/loop/repeats.h"
#include "ir/loop/equal.h"
#include "passes/base/constants.h"
#include "passes/plan/plan.h"

#include <string.h>

typedef struct outliner {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_buf *storage; /* by buffer id: where the chain of its storage begins */
    bool *output;    /* by buffer id: an output, or a window of one */
    const sn_kern_list *alternatives;
    sn_kern_set stay; /* but for alternatives */
} outliner;

/* ---- what the plan knows ---- */

static void find_storage(outliner *o) {
    const sn_wrap *w = &o->m->wrap;
    o->storage = SN_NEWN(o->cx->scratch, sn_buf, o->m->bufs.count);
    o->output = SN_NEWN(o->cx->scratch, bool, o->m->bufs.count);
    for (uint32_t i = 1; i < o->m->bufs.count; i++) o->storage[i].i = i;
    for (uint32_t i = 1; i < o->m->bufs.count; i++)
        o->output[i] = sn_buf_get(o->m, o->storage[i])->scope == SN_BUF_OUTPUT;
    for (uint32_t i = 0; i < w->steps.n; i++) {
        const sn_step *s = &w->steps.at[i];
        if (s->kind == SN_STEP_REUSE || s->kind == SN_STEP_WINDOW) o->storage[s->buf.i] = o->storage[s->from.i];
        if (s->kind == SN_STEP_WINDOW) o->output[s->buf.i] = o->output[s->from.i];
    }
    const sn_buf *input = sn_wrap_inputs_written(o->m, o->cx->scratch);
    for (uint32_t i = 1; i < o->m->bufs.count; i++)
        if (input[o->storage[i].i].i) o->storage[i] = input[o->storage[i].i];
}

/* Of a storage: how many arguments of a call have it, and how many stores. 0 between calls. */
typedef struct uses {
    uint32_t arguments, stores;
} uses;

/* The elements that a kernel may touch of an argument, as far as ranges tell. */
typedef struct window {
    int64_t least, end;  /* end INT64_MAX: not known */
    int64_t phase;       /* first elements of accesses, modulo those of the widest access; -1: they differ */
    bool touched, boxed; /* boxed: a tensor copy reads or writes there */
} window;

static void widen(window *w, sn_range r, int64_t wide) {
    int64_t phase = r.lo < 0 ? -1 : r.lo % wide;
    if (!w->touched) *w = (window){.least = r.lo, .phase = phase, .touched = true, .boxed = w->boxed};
    if (phase != w->phase) w->phase = -1;
    if (r.lo < w->least) w->least = r.lo;
    if (r.hi == INT64_MAX) w->end = r.hi;
    else if (r.hi >= w->end) w->end = r.hi + 1;
}

/* Where accesses do not begin alike, those that are aligned stay so; a tensor copy begins anywhere in an array that is
 * aligned. It begins where the buffer does when offsets may be negative or all beyond the end (masked accesses), when its
 * size is not known, and where nothing is touched. */
static void settle(window *w, const sn_module *m, const sn_buf_rec *b, int64_t wide) {
    int64_t size;
    bool inside = w->touched && w->least >= 0 && sn_ix_is_const(m, b->size, &size) && w->least < size;
    if (!inside) w->least = 0;
    else if (w->phase < 0 || w->boxed) w->least -= w->least % wide;
}

static bool is_boxed(const sn_module *m, sn_stmt s) {
    for (sn_stmt p = sn_stmt_get(m, s)->parent; p.i; p = sn_stmt_get(m, p)->parent)
        if (sn_is_box(m, p)) return true;
    return false;
}

/* The whole image for a convolution of a library: is_conv. */
static bool widen_all(window *all, const outliner *o, sn_kern k, const uint32_t *number) {
    sn_module *m = o->m;
    bool library = sn_kern_is_library(sn_kern_get(m, k)), is_conv = false;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *st = sn_stmt_get(m, s);
        if (!st->buf.i || !number[st->buf.i]) continue;
        int64_t wide = SN_WIDEST_ACCESS / sn_dtype_bytes(sn_buf_get(m, st->buf)->dtype);
        all[number[st->buf.i] - 1].boxed |= is_boxed(m, s);
        is_conv |= library && st->has_mask;
        widen(&all[number[st->buf.i] - 1], sn_ix_range(m, st->ix), wide);
    }
    return is_conv;
}

/* Of a kernel and its alternatives: what any of them may touch. */
static window *find_windows(const outliner *o, const sn_kern_list *set, const sn_arg_list *args,
                            const uint32_t *number) {
    sn_module *m = o->m;
    window *all = SN_NEWN(o->cx->scratch, window, args->n);
    bool is_conv = false;
    for (uint32_t k = 0; k < set->n; k++) is_conv |= widen_all(all, o, set->at[k], number);
    for (uint32_t i = 0; i < args->n; i++) {
        const sn_buf_rec *b = sn_buf_get(m, args->at[i].buf);
        if (is_conv) all[i] = (window){0};
        settle(&all[i], m, b, SN_WIDEST_ACCESS / sn_dtype_bytes(b->dtype));
    }
    return all;
}

/* The formal is the window of the buffer, so that it does not depend on how much lies around that. */
static void fit_formal(sn_module *m, sn_buf_rec *f, const window *w) {
    int64_t size;
    bool known = sn_ix_is_const(m, f->size, &size), shorter = known && w->touched && w->end < size;
    if (f->align > SN_WIDEST_ACCESS) f->align = SN_WIDEST_ACCESS;
    while (w->least * sn_dtype_bytes(f->dtype) % f->align) f->align /= 2;
    if (!w->least && !shorter) return;
    f->size = sn_ix_const(m, (shorter ? w->end : size) - w->least);
    f->rank = 1;
    f->shape[0] = f->size;
}

/* What the kernel touches becomes its formals; stores count for their storage. */
static void touch_formals(outliner *o, const sn_arg_list *args, sn_kern k, const uint32_t *number, uses *of) {
    sn_module *m = o->m;
    const sn_kern_rec *r = sn_kern_get(m, k);
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        sn_stmt_rec *st = sn_stmt_get(m, s);
        if (!st->buf.i || !number[st->buf.i]) continue;
        uint32_t i = number[st->buf.i] - 1;
        of[o->storage[st->buf.i].i].stores += sn_stores(st);
        st->buf = r->params.at[i];
        st->ix = sn_ix_addc(m, st->ix, -args->at[i].offset);
        sn_buf_get(m, st->buf)->role |= sn_stores(st) ? SN_ROLE_OUT : SN_ROLE_IN;
    }
}

static void make_formals(outliner *o, sn_kern k, const sn_arg_list *args) {
    sn_kern_get(o->m, k)->params = (sn_buf_list){0};
    for (uint32_t i = 0; i < args->n; i++) {
        const sn_buf_rec *b = sn_buf_get(o->m, args->at[i].buf);
        sn_formal_new(o->m, k, b->name, b);
    }
}

/* Of a kernel and its alternatives, which have the same ones. */
static void add_formals(outliner *o, sn_arg_list *args, const sn_kern_list *set, uint32_t *number, uses *of) {
    sn_module *m = o->m;
    const sn_buf_list params = sn_kern_get(m, set->at[0])->params;
    for (uint32_t i = 0; i < params.n; i++) {
        SN_PUSH(&m->arena, args, ((sn_arg){params.at[i], 0}));
        number[params.at[i].i] = i + 1;
        of[o->storage[params.at[i].i].i].arguments++;
    }
    for (uint32_t k = 0; k < set->n; k++) make_formals(o, set->at[k], args);
    const window *windows = find_windows(o, set, args, number);
    for (uint32_t i = 0; i < args->n; i++) args->at[i].offset = windows[i].least;
    for (uint32_t k = 0; k < set->n; k++) touch_formals(o, args, set->at[k], number, of);
    for (uint32_t k = 0; k < set->n; k++)
        for (uint32_t i = 0; i < args->n; i++) {
            sn_buf_rec *f = sn_buf_get(m, sn_kern_get(m, set->at[k])->params.at[i]);
            const uses *u = &of[o->storage[args->at[i].buf.i].i];
            f->noalias = u->arguments == 1;
            f->invariant = !u->stores && !o->output[args->at[i].buf.i];
            fit_formal(m, f, &windows[i]);
        }
    for (uint32_t i = 0; i < args->n; i++) {
        number[args->at[i].buf.i] = 0;
        of[o->storage[args->at[i].buf.i].i] = (uses){0};
    }
}

/* ---- equal kernels ---- */

/* A kernel and its alternatives. */
static sn_kern_list set_of(const outliner *o, sn_kern k) {
    sn_kern_list set = {0};
    SN_PUSH(o->cx->scratch, &set, k);
    for (uint32_t i = 0; i < o->alternatives->n; i++)
        if (sn_kern_eq(sn_kern_get(o->m, o->alternatives->at[i])->alternative_of, k))
            SN_PUSH(o->cx->scratch, &set, o->alternatives->at[i]);
    return set;
}

/* Alternatives are part of what a kernel is. */
static bool same_alternatives(void *user, sn_kern a, sn_kern b) {
    const outliner *o = user;
    if (!o->alternatives->n) return true;
    const sn_kern_list x = set_of(o, a), y = set_of(o, b);
    if (x.n != y.n) return false;
    for (uint32_t i = 1; i < x.n; i++)
        if (!sn_kerns_equal(o->m, x.at[i], y.at[i])) return false;
    return true;
}

/* The kernel that k is equal to: itself when it is the first. */
static sn_kern first_equal(outliner *o, sn_kern k) {
    sn_kern first = sn_kern_set_find(&o->stay, k, &(sn_kern_relation){same_alternatives, o});
    if (first.i) sn_remark(o->cx, sn_kern_get(o->m, k)->name, "is @%s", sn_kern_get(o->m, first)->name);
    else sn_kern_set_add(&o->stay, k);
    return first.i ? first : k;
}

void sn_plan_functions(sn_pass_ctx *cx, const sn_kern_list *alternatives) {
    sn_module *m = cx->m;
    sn_kern_list stay = {0};
    outliner o = {.cx = cx, .m = m, .alternatives = alternatives, .stay = {.m = m, .arena = cx->scratch}};
    find_storage(&o);
    uint32_t *number = SN_NEWN(cx->scratch, uint32_t, m->bufs.count); /* of the argument that a buffer is, from 1 */
    uses *of = SN_NEWN(cx->scratch, uses, m->bufs.count);
    for (uint32_t i = 0; i < m->wrap.steps.n; i++) {
        sn_step *s = &m->wrap.steps.at[i];
        if (s->kind != SN_STEP_CALL) continue;
        const sn_kern_list set = set_of(&o, s->kern);
        add_formals(&o, &s->args, &set, number, of);
        sn_kern stays = first_equal(&o, s->kern);
        s->text = sn_kern_get(m, s->kern)->from;
        if (!sn_kern_eq(stays, s->kern)) sn_kern_add_from(m, stays, s->text);
        for (uint32_t k = 0; k < set.n && sn_kern_eq(stays, s->kern); k++) SN_PUSH(&m->arena, &stay, set.at[k]);
        s->kern = stays;
    }
    m->kernels = stay; /* calls have the order of the kernels */
}
