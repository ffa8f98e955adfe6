/* keep_private.c: the pass `keep-private`: elements of intermediates that one thread alone touches become registers.
 *
 *     loop t in 256 : block.x { loop v in 4 : vector {          loop t in 256 : block.x { loop v in 4 : vector {
 *       store h[1024*g + 4*t + v], %0                             store r[4*t + v], %0
 *       loop step in 100 {                                ->      loop step in 100 {
 *         %1 = load h[1024*g + 4*t + v]                             %1 = load r[4*t + v]
 *         ..                                                        ..
 *         store h[1024*g + 4*t + v], %2 }                           store r[4*t + v], %2 }
 *
 * A value passes from iteration to iteration of a loop through memory (passes/fuse/interchange.c makes such loops); h is an intermediate
 * that no other kernel touches.
 *
 * Legality: accesses by one ix are a group. A group has a region, that of its first access, which is a store without a mask; all others
 * are behind it there, at any depth, and no threads or lanes begin between. So each load finds what the same iteration of
 * that region has stored, and registers of that iteration do. Groups of which one's region is in another's touch other elements: their
 * ix differ by a number. Where a CPU would need much of its stack, nothing changes. Cost: accesses of a buffer squared.
 */
#include "ir/loop/access.h"
#include "passes/base/nest.h"

enum { MOST_STACK = 1 << 20 }; /* bytes of a CPU, for all threads that a block has */

typedef struct group {
    sn_stmt first, region;
    sn_ix ix;
} group;

typedef struct keeper {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_access_list all;
    SN_VEC(group) groups;
    int64_t stack; /* bytes taken so far */
} keeper;

static bool is_of_threads(sn_axis_kind kind) { return kind != SN_AXIS_SEQ && kind != SN_AXIS_UNROLL; }

/* From an access of the group up to its region: the region, none where it does not stand in it, or other threads or lanes begin. */
static bool stands_in(const keeper *kp, sn_stmt s, sn_stmt region) {
    for (sn_stmt up = sn_stmt_get(kp->m, s)->parent; up.i != region.i; up = sn_stmt_get(kp->m, up)->parent) {
        if (!up.i) return false;
        const sn_stmt_rec *r = sn_stmt_get(kp->m, up);
        if (sn_is_nest(r) && is_of_threads(r->kind)) return false;
    }
    return true;
}

static bool find_groups(keeper *kp, sn_buf b) {
    kp->groups.n = 0;
    for (uint32_t i = 0; i < kp->all.n; i++) {
        const sn_access *a = &kp->all.at[i];
        const sn_stmt_rec *r = sn_stmt_get(kp->m, a->s);
        uint32_t g = 0;
        if (!sn_buf_eq(a->buf, b)) continue;
        if (sn_ix_uses_vals(kp->m, a->ix) || (r->op != SN_LOP_STORE && r->op != SN_LOP_LOAD)) return false;
        while (g < kp->groups.n && !sn_ix_eq(kp->groups.at[g].ix, a->ix)) g++;
        if (g == kp->groups.n) {
            if (!a->store || r->has_mask || !r->parent.i) return false;
            SN_PUSH(kp->cx->scratch, &kp->groups, ((group){a->s, r->parent, a->ix}));
        } else if (!stands_in(kp, a->s, kp->groups.at[g].region)) {
            return false;
        }
    }
    return kp->groups.n > 0;
}

/* Do two groups never touch one element in one iteration of both regions? */
static bool are_apart(const keeper *kp, const group *a, const group *b) {
    int64_t by;
    bool nested = sn_stmt_inside(kp->m, a->first, b->region) || sn_stmt_inside(kp->m, b->first, a->region);
    return !nested || (sn_ix_is_const(kp->m, sn_ix_sub(kp->m, a->ix, b->ix), &by) && by != 0);
}

/* The number of the thread in its block or cluster, of how many, and the lane, likewise, in a region. */
typedef struct place {
    sn_ix thread, lane;
    int64_t threads, lanes;
} place;

static bool find_place(place *out, const keeper *kp, sn_stmt region) {
    static const sn_axis_kind kinds[] = {SN_AXIS_BLOCK_X, SN_AXIS_BLOCK_Y, SN_AXIS_CLUSTER};
    sn_module *m = kp->m;
    *out = (place){sn_ix_const(m, 0), sn_ix_const(m, 0), 1, 1};
    for (uint32_t i = 0; i < SN_COUNT(kinds); i++)
        for (sn_stmt up = region; up.i; up = sn_stmt_get(m, up)->parent) {
            const sn_stmt_rec *r = sn_stmt_get(m, up);
            if (!sn_is_nest(r) || r->kind != kinds[i]) continue;
            if (r->op != SN_LOP_LOOP) return false;
            out->thread = sn_ix_add(m, out->thread, sn_ix_scale(m, sn_ix_axis(m, r->axis), out->threads));
            out->threads *= sn_ix_value(m, sn_stmt_extent(m, up));
        }
    for (sn_stmt up = region; up.i; up = sn_stmt_get(m, up)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(m, up);
        if (!sn_is_nest(r) || (r->kind != SN_AXIS_VECTOR && r->kind != SN_AXIS_WARP)) continue;
        if (r->op != SN_LOP_LOOP || r->kind == SN_AXIS_WARP) return false;
        out->lane = sn_ix_add(m, out->lane, sn_ix_scale(m, sn_ix_axis(m, r->axis), out->lanes));
        out->lanes *= sn_ix_value(m, sn_stmt_extent(m, up));
    }
    return true;
}

static int64_t bytes_of(const keeper *kp, sn_buf b, const place *p) {
    return p->threads * p->lanes * sn_dtype_bytes(sn_buf_get(kp->m, b)->dtype);
}

static void keep_group(keeper *kp, sn_buf b, const group *g, const place *p) {
    sn_module *m = kp->m;
    const char *name = sn_strf(&m->arena, "%s_r", sn_buf_get(m, b)->name);
    sn_buf reg = sn_local_new(m, name, sn_buf_get(m, b)->dtype, SN_BUF_REG, p->lanes, p->threads);
    sn_ix at = sn_ix_add(m, sn_ix_scale(m, p->thread, p->lanes), p->lane);
    for (uint32_t i = 0; i < kp->all.n; i++) {
        if (!sn_buf_eq(kp->all.at[i].buf, b) || !sn_ix_eq(kp->all.at[i].ix, g->ix)) continue;
        sn_stmt_rec *r = sn_stmt_get(m, kp->all.at[i].s);
        r->buf = reg;
        r->ix = at;
    }
}

static bool keep(keeper *kp, sn_buf b) {
    if (!find_groups(kp, b)) return false;
    int64_t stack = kp->stack;
    place *places = SN_NEWN(kp->cx->scratch, place, kp->groups.n);
    for (uint32_t i = 0; i < kp->groups.n; i++) {
        for (uint32_t j = 0; j < i; j++)
            if (!are_apart(kp, &kp->groups.at[i], &kp->groups.at[j])) return false;
        if (!find_place(&places[i], kp, kp->groups.at[i].region)) return false;
        stack += bytes_of(kp, b, &places[i]);
    }
    if (!kp->cx->target->is_gpu && stack > MOST_STACK) return false;
    kp->stack = stack;
    for (uint32_t i = 0; i < kp->groups.n; i++) keep_group(kp, b, &kp->groups.at[i], &places[i]);
    return true;
}

/* Is b an intermediate that the kernel at `at` alone touches, and loads itself? */
static bool is_alone(const sn_module *m, const sn_users *users, sn_buf b, uint32_t at) {
    const sn_user *u = sn_users_get(users, b, at);
    return sn_buf_get(m, b)->scope == SN_BUF_TEMP && u && u->loads && u->stores &&
           users->first[b.i + 1] - users->first[b.i] == 1;
}

sn_status sn_pass_keep_private(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    sn_users users;
    sn_users_find(&users, m, cx->scratch);
    const bool *of_set = sn_kerns_of_sets(m, cx->scratch);
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        keeper kp = {.cx = cx, .m = m, .k = m->kernels.at[i]};
        const sn_kern_rec *k = sn_kern_get(m, kp.k);
        bool any = false;
        if (!k->scheduled || (of_set && of_set[kp.k.i])) continue;
        for (uint32_t p = 0; p < k->params.n; p++) {
            if (!is_alone(m, &users, k->params.at[p], i)) continue;
            if (!any) sn_access_find_all(&kp.all, m, cx->scratch, kp.k);
            any |= keep(&kp, k->params.at[p]);
        }
        if (any) sn_kern_collect_params(m, kp.k);
        *changed |= any;
    }
    return m->env->status;
}
