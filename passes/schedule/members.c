/* members.c: which schedules besides the chosen one a kernel gets, where the model cannot tell and a run shall have the
 * fastest (sn_choosing.multi). Part of the pass `schedule`.
 *
 *     kernel @k0(x, y) schedule inner block_x=512 vector=8 unroll=4 persistent scheduled { .. }       the row is read once, and kept
 *     kernel @k0_looped(x, y) schedule inner block_x=512 vector=8 unroll=2 scheduled alternative @k0 { .. }      it is read again
 *
 * Members are of different kinds, by class and by where rows are kept: the best of each kind by the model, out of what all classes
 * propose and of the chosen one with less of the row at a time, which is one that reads it again. Those that the model calls much
 * slower than the chosen one are none.
 *
 * Legality: all bind the same nests, touch the same buffers and so have the same parameters; what one of them may not do in place
 * is not done in place (plan). A kernel that takes the shape of another one or gives it its own, that waits for other blocks, accesses
 * positions that it has loaded (nobody could time it without the program's data), runs once, or is over in a few microseconds, has no
 * alternatives. Cost: a binding of the kernel for each proposal, and the code of each member.
 */
#include "passes/schedule/members.h"
#include "passes/schedule/choose.h"

#include "ir/loop/access.h"

enum { BLOCK_LEAST = 32, PROPOSALS_MOST = 64 };

/* ---- kinds ---- */

static bool is_same_kind(const sn_sched *a, const sn_sched *b) {
    bool clusters = (sn_sched_cluster(a) > 1) == (sn_sched_cluster(b) > 1);
    bool teams = (a->teams > 0) == (b->teams > 0);
    return a->cls == b->cls && a->persistent == b->persistent && a->shared == b->shared && clusters && teams;
}

/* Classes of which one row of schedules.def binds what is not of `mixed-order-reduction`. Products and the like have models and headers of
 * their own. */
static bool is_of_rows(const sn_sched *s) {
    return s->cls == SN_SCHED_ELEMENT || s->cls == SN_SCHED_INNER || s->cls == SN_SCHED_OUTER ||
           s->cls == SN_SCHED_FLAT || s->cls == SN_SCHED_TILE;
}

/* ---- which kernels ---- */

static bool has_reduction(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s))
        if (sn_stmt_get(m, s)->op == SN_LOP_REDUCE) return true;
    return false;
}

static bool loads_positions(const sn_module *m, sn_kern k) {
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s))
        if (sn_is_access(sn_stmt_get(m, s)) && sn_ix_uses_vals(m, sn_stmt_get(m, s)->ix)) return true;
    return false;
}

/* Does a later kernel take the shape of this one, so as to be done by its last block? */
static bool has_follower(const sn_module *m, const sn_users *users, uint32_t at) {
    const sn_buf_list *params = &sn_kern_get(m, m->kernels.at[at])->params;
    for (uint32_t i = 0; i < params->n; i++) {
        const sn_user *own = sn_users_get(users, params->at[i], at);
        if (!own || !own->stores) continue;
        for (uint32_t u = users->first[params->at[i].i]; u < users->first[params->at[i].i + 1]; u++)
            if (users->user[u].at > at && sn_kern_follows(m, users, users->user[u].at) == at) return true;
    }
    return false;
}

static bool takes_members(sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *first) {
    sn_kern k = cx->m->kernels.at[sh->at];
    if (!cx->target->is_gpu || !is_of_rows(first) || sh->team || sh->mixed) return false;
    if (cx->choosing->multi == SN_MULTI_REDUCTIONS && !has_reduction(cx->m, k)) return false;
    if (sn_kern_follows(cx->m, sh->users, sh->at) != UINT32_MAX && sh->rows * sh->max_count <= SN_FOLLOW_MOST)
        return false;
    return !loads_positions(cx->m, k) && !has_follower(cx->m, sh->users, sh->at);
}

/* ---- proposals ---- */

typedef struct proposal {
    sn_sched sched;
    double cycles;
} proposal;

typedef struct lister {
    sn_pass_ctx cx;
    uint32_t at;
    proposal all[PROPOSALS_MOST];
    uint32_t n;
} lister;

static void add(lister *l, const sn_sched *sched, double cycles) {
    if (is_of_rows(sched) && cycles > 0 && l->n < PROPOSALS_MOST) l->all[l->n++] = (proposal){*sched, cycles};
}

static sn_status complete(lister *l, sn_sched s) {
    double cycles;
    if ((uint64_t)s.block_x * (s.block_y ? s.block_y : 1) < BLOCK_LEAST) return SN_OK;
    SN_TRY(sn_schedule_complete(&s, &cycles, &l->cx, l->at));
    add(l, &s, cycles);
    return SN_OK;
}

/* The chosen one with less of a row at a time: what it does not keep it reads again. */
static sn_status add_looped(lister *l, const sn_sched *first) {
    sn_sched s = *first;
    if (!first->persistent && !first->shared) return SN_OK;
    s.persistent = s.shared = false;
    s.cluster = s.teams = s.min_blocks = 0;
    s.unroll = first->unroll > 1 ? first->unroll / 2 : 1;
    SN_TRY(complete(l, s));
    s.block_x = first->block_x / 2;
    return complete(l, s);
}

static sn_status list(lister *l, const sn_sched *first) {
    sn_sched_list proposed = {0};
    double *cycles;
    SN_TRY(sn_schedule_list(&proposed, &cycles, &l->cx, l->at));
    for (uint32_t i = 0; i < proposed.n; i++) add(l, &proposed.at[i], cycles[i]);
    return add_looped(l, first);
}

/* ---- the choice ---- */

static bool is_new_kind(const sn_sched_list *out, const sn_sched *first, const sn_sched *s) {
    if (is_same_kind(first, s)) return false;
    for (uint32_t i = 0; i < out->n; i++)
        if (is_same_kind(&out->at[i], s)) return false;
    return true;
}

/* The best of a kind that there is none of yet, within what the model may be off by; NULL: there is none. */
static const proposal *next(const lister *l, const sn_sched_list *out, const sn_sched *first, double of_first) {
    const proposal *best = NULL;
    for (uint32_t i = 0; i < l->n; i++) {
        const proposal *p = &l->all[i];
        if (p->cycles * 100 > of_first * SN_MULTI_UNSURE || !is_new_kind(out, first, &p->sched)) continue;
        if (!best || p->cycles < best->cycles) best = p;
    }
    return best;
}

sn_status sn_schedule_members(sn_sched_list *out, sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *first,
                              double of_first) {
    bool pays = of_first >= SN_MULTI_CYCLES || cx->choosing->multi_short;
    if (!pays || !takes_members(cx, sh, first)) return SN_OK;
    lister *l = SN_NEW(cx->scratch, lister);
    l->cx = *cx;
    l->cx.remark = NULL;
    l->at = sh->at;
    SN_TRY(list(l, first));
    for (const proposal *p; out->n + 1 < SN_MULTI_MOST && (p = next(l, out, first, of_first));) {
        sn_sched s = p->sched;
        if (!s.split) s.split = 1;
        s.precision = first->precision;
        SN_PUSH(cx->scratch, out, s);
    }
    return SN_OK;
}
