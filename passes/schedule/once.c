/* once.c: equal kernels are scheduled once: those behind get what came out for the first.
 *
 *     @k3 (layer 1), @k9 (layer 2), ..    choose and bind @k3; @k9 gets a copy of what came out
 *
 * A network of many layers has a handful of kernels that differ, and choosing and binding is half of what passes take. Equal kernels
 * (ir/loop/equal.h) are scheduled alike if, besides, other kernels load the same of their buffers: that is all that a class asks of the rest
 * of the module. Not so one that takes its shape from the kernel in front of it, and none where something is decided for kernels one by
 * one, or where somebody wants to hear of each. Cost: linear in the kernels.
 */
#include "passes/schedule/once.h"
#include "passes/schedule/choose.h"

#include "ir/loop/access.h"

typedef struct finder {
    sn_pass_ctx *cx;
    const sn_users *users;
    const uint32_t *number; /* positions by kernel */
} finder;

static bool same_readers(void *user, sn_kern a, sn_kern b) {
    const finder *f = user;
    const sn_buf_list *x = &sn_kern_get(f->cx->m, a)->params, *y = &sn_kern_get(f->cx->m, b)->params;
    for (uint32_t i = 0; i < x->n; i++)
        if (sn_users_load_elsewhere(f->users, x->at[i], f->number[a.i]) !=
            sn_users_load_elsewhere(f->users, y->at[i], f->number[b.i]))
            return false;
    return true;
}

/* Does it take its shape from the kernel in front of it, if that is done? Only what is small does. */
static bool follows(const finder *f, uint32_t at) {
    sn_schedule_shape sh;
    if (sn_kern_follows(f->cx->m, f->users, at) == UINT32_MAX) return false;
    return sn_schedule_look(&sh, f->cx, f->users, at) != SN_OK || sn_schedule_may_follow(&sh);
}

static bool is_wanted(const sn_pass_ctx *cx) {
    const sn_choosing *how = cx->choosing;
    if (how && (how->n || how->ask || how->multi != SN_MULTI_OFF)) return false;
    return !cx->remark && !sn_metric_wanted(cx->metrics, SN_METRIC_CANDIDATES) &&
           !sn_metric_wanted(cx->metrics, SN_METRIC_ESTIMATES);
}

sn_equal *sn_schedule_once(sn_pass_ctx *cx, const sn_users *users) {
    const sn_module *m = cx->m;
    if (!is_wanted(cx)) return NULL;
    finder f = {cx, users, sn_kern_numbers(m, cx->scratch)};
    sn_kern_relation also = {same_readers, &f};
    sn_kern_set firsts = {.m = m, .arena = cx->scratch};
    sn_equal *equal = SN_NEWN(cx->scratch, sn_equal, m->kernels.n + 1);
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        sn_kern k = m->kernels.at[i];
        const sn_kern_rec *r = sn_kern_get(m, k);
        if (r->scheduled || r->sched.cls == SN_SCHED_LIBRARY || follows(&f, i)) continue;
        sn_kern first = sn_kern_set_find(&firsts, k, &also);
        if (first.i) sn_equal_note(&equal[i], m, cx->scratch, first, k);
        else sn_kern_set_add(&firsts, k);
    }
    return equal;
}
