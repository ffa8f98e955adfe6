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

#include "ir/loop/access.h"

typedef struct finder {
    sn_pass_ctx *cx;
    const sn_users *users;
    uint32_t *slots, cap; /* positions of kernels that are equal to none before, from 1, by hash; a power of two */
    uint64_t *hash;       /* by position */
} finder;

static bool same_readers(const finder *f, uint32_t a, uint32_t b) {
    const sn_module *m = f->cx->m;
    const sn_buf_list *x = &sn_kern_get(m, m->kernels.at[a])->params, *y = &sn_kern_get(m, m->kernels.at[b])->params;
    for (uint32_t i = 0; i < x->n; i++)
        if (sn_users_load_elsewhere(f->users, x->at[i], a) != sn_users_load_elsewhere(f->users, y->at[i], b))
            return false;
    return true;
}

/* The first kernel that this one is equal to: itself, from now on, where there is none. */
static uint32_t first_of(finder *f, uint32_t at) {
    const sn_module *m = f->cx->m;
    uint32_t s = (uint32_t)f->hash[at] & (f->cap - 1);
    for (; f->slots[s]; s = (s + 1) & (f->cap - 1)) {
        uint32_t first = f->slots[s] - 1;
        if (f->hash[first] == f->hash[at] && sn_kerns_equal(m, m->kernels.at[first], m->kernels.at[at]) &&
            same_readers(f, first, at))
            return first;
    }
    f->slots[s] = at + 1;
    return at;
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
    uint32_t n = m->kernels.n, cap = 16;
    if (!is_wanted(cx)) return NULL;
    while (cap < 2 * n) cap *= 2;
    finder f = {cx, users, SN_NEWN(cx->scratch, uint32_t, cap), cap, SN_NEWN(cx->scratch, uint64_t, n + 1)};
    sn_equal *equal = SN_NEWN(cx->scratch, sn_equal, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        sn_kern k = m->kernels.at[i];
        const sn_kern_rec *r = sn_kern_get(m, k);
        if (r->scheduled || r->sched.cls == SN_SCHED_LIBRARY || follows(&f, i)) continue;
        f.hash[i] = sn_kern_hash(m, k);
        uint32_t first = first_of(&f, i);
        if (first != i) sn_equal_note(&equal[i], m, cx->scratch, m->kernels.at[first], k);
    }
    return equal;
}
