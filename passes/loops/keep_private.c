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
 *
 * On a CPU also rows that a thread walks once and then again, which stay in the nearest cache (a prefix whose exponentials are summed):
 *
 *     loop v in 16 : vector {                                   loop v in 16 : vector {
 *       loop i in 64 { .. store h[N*i + 16*t + v], %0 }           loop i in 64 { .. store r[16*i + v], %0 }
 *       reduce sum j in 64 { %1 = load h[N*j + 16*t + v]   ->     reduce sum j in 64 { %1 = load r[16*j + v]
 *         .. } }                                                    .. } }
 *
 * Legality: one store without a mask, in one loop over all elements of the row, and nothing else of that thread and
 * lane around; all loads are behind that loop, or behind the store in the same iteration, at elements of that row.
 */
#include "ir/loop/access.h"
#include "passes/base/nest.h"
#include "passes/schedule/base/constants.h"

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

/* ---- rows of a CPU ---- */

/* A row: h[step * (0 .. steps-1) + start], which `loop` in the region of a thread and lane stores. */
typedef struct row {
    sn_stmt store, loop, region;
    sn_ix start;
    int64_t step, steps;
} row;

static bool find_row(row *out, const keeper *kp, sn_stmt s) {
    sn_module *m = kp->m;
    const sn_stmt_rec *r = sn_stmt_get(m, s), *loop = r->parent.i ? sn_stmt_get(m, r->parent) : NULL;
    sn_ix zero = sn_ix_const(m, 0);
    if (r->op != SN_LOP_STORE || r->has_mask || !loop || loop->op != SN_LOP_LOOP || is_of_threads(loop->kind))
        return false;
    *out = (row){.store = s, .loop = r->parent, .region = loop->parent};
    if (!out->region.i || !sn_ix_is_const(m, sn_stmt_extent(m, out->loop), &out->steps)) return false;
    if (!sn_is_nest(sn_stmt_get(m, out->region)) || !is_of_threads(sn_stmt_get(m, out->region)->kind)) return false;
    out->start = sn_ix_subst(m, r->ix, &loop->axis, &zero, 1);
    return sn_ix_coef(m, r->ix, loop->axis, &out->step) && out->step > 0;
}

/* The number of the element in the row that the offset is; none: it is not known to be one. */
static sn_ix number_in(const row *w, const keeper *kp, sn_ix e) {
    sn_ix by = sn_ix_sub(kp->m, e, w->start), number = sn_ix_divc(kp->m, by, w->step);
    sn_range range = sn_ix_range(kp->m, number);
    bool is_one = sn_ix_eq(sn_ix_scale(kp->m, number, w->step), by) && range.lo >= 0 && range.hi < w->steps;
    return is_one ? number : (sn_ix){0};
}

/* Is the load behind all that the row's loop stores, or behind the store of the same element? */
static bool is_behind(const row *w, const keeper *kp, sn_stmt load) {
    const sn_module *m = kp->m;
    const sn_stmt_rec *r = sn_stmt_get(m, load);
    sn_stmt up = load;
    if (!stands_in(kp, load, w->region)) return false;
    while (sn_stmt_get(m, up)->parent.i != w->region.i) up = sn_stmt_get(m, up)->parent;
    if (up.i == w->loop.i) return sn_ix_eq(r->ix, sn_stmt_get(m, w->store)->ix);
    while (up.i && up.i != w->loop.i) up = sn_stmt_get(m, up)->prev;
    return up.i;
}

/* Do blocks, threads and lanes alone run around it? Then code for a CPU has memory for one thread (codegen-llvm/kernel.c). */
static bool is_one_at_a_time(const keeper *kp, sn_stmt region) {
    for (sn_stmt up = region; up.i; up = sn_stmt_get(kp->m, up)->parent)
        if (!is_of_threads(sn_stmt_get(kp->m, up)->kind)) return false;
    return true;
}

static bool keep_row(keeper *kp, sn_buf b) {
    sn_module *m = kp->m;
    row w = {.store = {0}};
    place p;
    for (uint32_t i = 0; i < kp->all.n; i++) { /* in the order of the text */
        const sn_access *a = &kp->all.at[i];
        if (!sn_buf_eq(a->buf, b)) continue;
        if (!w.store.i ? !find_row(&w, kp, a->s) : a->store || !is_behind(&w, kp, a->s)) return false;
        if (sn_ix_uses_vals(m, a->ix) || !number_in(&w, kp, a->ix).i) return false;
    }
    if (!w.store.i || !find_place(&p, kp, w.region)) return false;
    int64_t lanes = p.lanes, bytes = sn_dtype_bytes(sn_buf_get(m, b)->dtype);
    if (w.steps > SN_HOST_NEAR / 2 / bytes / lanes) return false;
    p.lanes *= w.steps;
    int64_t stack = is_one_at_a_time(kp, w.region) ? p.lanes * bytes : bytes_of(kp, b, &p);
    if (kp->stack + stack > SN_PRIVATE_STACK) return false;
    kp->stack += stack;
    const char *name = sn_strf(&m->arena, "%s_r", sn_buf_get(m, b)->name);
    sn_buf reg = sn_local_new(m, name, sn_buf_get(m, b)->dtype, SN_BUF_REG, p.lanes, p.threads);
    sn_ix mine = sn_ix_add(m, sn_ix_scale(m, p.thread, p.lanes), p.lane);
    for (uint32_t i = 0; i < kp->all.n; i++) {
        if (!sn_buf_eq(kp->all.at[i].buf, b)) continue;
        sn_stmt_rec *r = sn_stmt_get(m, kp->all.at[i].s);
        r->ix = sn_ix_add(m, mine, sn_ix_scale(m, number_in(&w, kp, r->ix), lanes));
        r->buf = reg;
    }
    return true;
}

static bool keep(keeper *kp, sn_buf b) {
    if (!kp->cx->target->is_gpu && keep_row(kp, b)) return true;
    if (!find_groups(kp, b)) return false;
    int64_t stack = kp->stack;
    place *places = SN_NEWN(kp->cx->scratch, place, kp->groups.n);
    for (uint32_t i = 0; i < kp->groups.n; i++) {
        for (uint32_t j = 0; j < i; j++)
            if (!are_apart(kp, &kp->groups.at[i], &kp->groups.at[j])) return false;
        if (!find_place(&places[i], kp, kp->groups.at[i].region)) return false;
        stack += bytes_of(kp, b, &places[i]);
    }
    if (!kp->cx->target->is_gpu && stack > SN_PRIVATE_STACK) return false;
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
