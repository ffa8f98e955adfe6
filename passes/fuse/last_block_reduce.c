/* last_block_reduce.c: the pass `last-block-reduce`: a small kernel that puts together what another one's blocks left
 * becomes that one's tail.
 *
 *     k0_part: loop g in 1024 : grid { ... store p[g], %0 }
 *     k0:      loop g in 1 : grid { %1 = reduce sum ... { load p[..] }  store y[0], %1 }
 *  -> k0_part: loop g in 1024 : grid { ... store p[g], %0 }
 *              %1 = reduce sum ... { load p[..] }  store y[0], %1
 *
 * What follows a grid loop is run by the last block to finish, so one launch does. Where the second kernel has several
 * blocks, each of which reads what every G-th block of the first one stored, the grid is cut in two and the tail stands
 * behind the inner loop:
 *
 *     loop c in G : grid { loop s in S : grid { ... store p[1024*s + 128*c + ..] }  tail of c }
 *
 * Both kernels have blocks of the same shape; `schedule` sees to that (follow). The tail reads little: it is one
 * block. Nothing between the two may touch what the second one stores, and it may read nothing that is stored after the
 * first. Products of both have one precision. Cost: linear in the statements.
 */
#include "passes/fuse/last_block_reduce.h"

#include "passes/base/rebuild.h"
#include "passes/schedule/base/constants.h"

typedef struct pair {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern first, last;
    uint32_t at_first, at_last; /* their positions when the pass began */
    sn_users *users;
    const bool *sets;     /* kernels by id: those with alternatives, which stay as they are; NULL: there are none */
    const bool *constant; /* kernels by position: what runs once gets no tail that runs each time */
    sn_stmt grid_first, grid_last;
    int64_t groups;         /* blocks of the second kernel */
    sn_precision precision; /* of the products of both */
} pair;

/* May the second kernel run at the place of the first? */
static bool can_move(const pair *p) {
    const sn_kern_rec *k = sn_kern_get(p->m, p->last);
    for (uint32_t i = 0; i < k->params.n; i++) {
        const sn_user *user = sn_users_get(p->users, k->params.at[i], p->at_last);
        if (user && user->stores && sn_users_touch(p->users, k->params.at[i], p->at_first, p->at_last)) return false;
    }
    return true;
}

/* ---- the shape of the two ---- */

/* The kernel's one grid loop, if it is all of the body, nothing follows inside, and blocks do not wait for each
 * other. */
static sn_stmt only_grid(const sn_module *m, sn_kern k) {
    sn_stmt s = sn_kern_get(m, k)->first;
    if (!s.i || sn_next(m, s).i || sn_kern_posts(m, k)) return (sn_stmt){0};
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    if (r->op != SN_LOP_LOOP || r->kind != SN_AXIS_GRID) return (sn_stmt){0};
    for (sn_stmt t = r->first; t.i; t = sn_next(m, t))
        if (sn_stmt_get(m, t)->op == SN_LOP_LOOP && sn_stmt_get(m, t)->kind == SN_AXIS_GRID) return (sn_stmt){0};
    return s;
}

static bool same_blocks(sn_module *m, sn_kern a, sn_kern b) {
    sn_launch la = sn_kern_launch(m, a), lb = sn_kern_launch(m, b);
    return la.block_x == lb.block_x && la.block_y == lb.block_y && la.cluster == 1 && lb.cluster == 1;
}

/* Bytes that the tail of one group loads. */
static int64_t bytes_of_tail(const pair *p) {
    int64_t bytes = 0;
    for (sn_stmt s = sn_stmt_walk_first(p->m, p->last); s.i; s = sn_stmt_walk_next(p->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(p->m, s);
        if (r->op != SN_LOP_LOAD) continue;
        sn_chain around;
        sn_chain_around(&around, p->m, s);
        bytes += sn_chain_count(p->m, &around) / p->groups * sn_dtype_bytes(sn_buf_get(p->m, r->buf)->dtype);
    }
    return bytes;
}

/* Do all accesses of kernel k to b (a [parts, columns] buffer) stay in the columns of their group: columns / groups of
 * them, from `group` on? */
static bool in_own_columns(const pair *p, sn_kern k, sn_buf b, sn_ix group, sn_axis grid, sn_ix grid_is) {
    sn_module *m = p->m;
    const sn_buf_rec *r = sn_buf_get(m, b);
    int64_t columns;
    if (r->rank != 2 || !sn_ix_is_const(m, r->shape[1], &columns) || columns % p->groups) return false;
    sn_ix start = sn_ix_scale(m, group, columns / p->groups);
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *a = sn_stmt_get(m, s);
        if (!a->buf.i || !sn_buf_eq(a->buf, b)) continue;
        sn_ix column = sn_ix_modc(m, sn_ix_subst(m, a->ix, &grid, &grid_is, 1), columns);
        sn_range range = sn_ix_range(m, sn_ix_sub(m, column, start));
        if (range.lo < 0 || range.hi >= columns / p->groups) return false;
    }
    return true;
}

/* ---- merging ---- */

static void append(const pair *p, sn_stmt into) {
    sn_module *m = p->m;
    for (sn_stmt s = sn_stmt_get(m, p->grid_last)->first, next; s.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        sn_stmt_insert(m, sn_at_end(p->first, into), s);
    }
}

static void merge(const pair *p, sn_axis c, sn_axis s) {
    sn_module *m = p->m;
    sn_axis grid = sn_stmt_axis(m, p->grid_first), grid_last = sn_stmt_axis(m, p->grid_last);
    sn_ix group = sn_ix_const(m, 0);
    sn_stmt outer = {0};
    if (p->groups > 1) {
        sn_stmt inner = sn_put_loop(m, sn_at_before(m, p->grid_first), c, SN_AXIS_GRID);
        outer = inner;
        inner = sn_put_loop(m, sn_at_end(p->first, outer), s, SN_AXIS_GRID);
        group = sn_ix_axis(m, c);
        sn_ix both = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, s), p->groups), group);
        for (sn_stmt t = sn_stmt_get(m, p->grid_first)->first, next; t.i; t = next) {
            next = sn_next(m, t);
            sn_stmt_unlink(m, t);
            sn_stmt_subst(m, t, &grid, &both, 1);
            sn_stmt_insert(m, sn_at_end(p->first, inner), t);
        }
        sn_stmt_unlink(m, p->grid_first);
    }
    for (sn_stmt t = sn_stmt_get(m, p->grid_last)->first; t.i; t = sn_next(m, t))
        sn_stmt_subst(m, t, &grid_last, &group, 1);
    append(p, outer);
    sn_kern_rec *a = sn_kern_get(m, p->first);
    a->sched.precision = p->precision;
    const sn_kern_rec *b = sn_kern_get(m, p->last);
    if (b->note) a->note = a->note ? sn_strf(&m->arena, "%s; then %s", a->note, b->note) : b->note;
    sn_kern_add_from(m, p->first, b->from);
    sn_remark(p->cx, a->name, "its last block does the work of %s", b->name);
    sn_metric_join(p->cx->metrics, a->name, b->name);
    for (uint32_t i = 0; i < b->params.n; i++) sn_users_move(p->users, b->params.at[i], p->at_last, p->at_first);
    sn_kern_collect_params(m, p->first);
}

/* ---- the pass ---- */

static bool look(pair *p, uint32_t at) {
    sn_module *m = p->m;
    p->at_last = at;
    p->last = m->kernels.at[at];
    p->grid_last = only_grid(m, p->last);
    if (!p->grid_last.i) return false;
    p->at_first = sn_kern_follows(m, p->users, at);
    if (p->at_first == UINT32_MAX) return false;
    if (p->constant[p->at_first] != p->constant[at]) return false;
    p->first = m->kernels.at[p->at_first];
    if (p->sets && (p->sets[p->first.i] || p->sets[p->last.i])) return false;
    if (!sn_kern_get(m, p->first)->scheduled || !sn_kern_get(m, p->last)->scheduled) return false;
    p->grid_first = only_grid(m, p->first);
    if (!p->grid_first.i || !p->grid_last.i || !same_blocks(m, p->first, p->last) || !can_move(p)) return false;
    if (!sn_precision_of_both(&p->precision, m, p->first, p->last)) return false;
    return sn_ix_is_const(m, sn_stmt_extent(m, p->grid_last), &p->groups) && p->groups > 0 &&
           bytes_of_tail(p) <= SN_TAIL_BYTES;
}

uint32_t sn_kern_tail_of(sn_pass_ctx *cx, sn_users *users, const bool *constant, const bool *sets, uint32_t at) {
    pair p = {.cx = cx, .m = cx->m, .users = users, .sets = sets, .constant = constant};
    return look(&p, at) ? p.at_first : UINT32_MAX;
}

static bool try_pair(pair *p) {
    sn_module *m = p->m;
    int64_t blocks;
    if (p->groups == 1) {
        merge(p, (sn_axis){0}, (sn_axis){0});
        return true;
    }
    if (!sn_ix_is_const(m, sn_stmt_extent(m, p->grid_first), &blocks) || blocks % p->groups) return false;
    sn_axis c = sn_axis_new(m, "c", sn_ix_const(m, p->groups)),
            s = sn_axis_new(m, "s", sn_ix_const(m, blocks / p->groups));
    sn_ix of_last = sn_ix_axis(m, sn_stmt_axis(m, p->grid_last)), of_first = sn_ix_axis(m, c);
    sn_ix both = sn_ix_add(m, sn_ix_scale(m, sn_ix_axis(m, s), p->groups), of_first);
    const sn_kern_rec *k = sn_kern_get(m, p->last);
    for (uint32_t i = 0; i < k->params.n; i++) {
        sn_buf b = k->params.at[i];
        if (!sn_kern_loads(m, p->last, b) || !sn_kern_stores(m, p->first, b)) continue;
        if (!in_own_columns(p, p->last, b, of_last, sn_stmt_axis(m, p->grid_last), of_last) ||
            !in_own_columns(p, p->first, b, of_first, sn_stmt_axis(m, p->grid_first), both))
            return false;
    }
    merge(p, c, s);
    return true;
}

sn_status sn_pass_last_block_reduce(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    if (!cx->target->is_gpu || m->wrap.steps.n) return SN_OK; /* a wrapper calls the kernels as they are */
    sn_kern_list left = {0};
    sn_users users;
    sn_users_find(&users, m, cx->scratch);
    const bool *constant = sn_kerns_constant(m, cx->scratch), *sets = sn_kerns_of_sets(m, cx->scratch);
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        pair p = {.cx = cx, .m = m, .users = &users, .sets = sets, .constant = constant};
        if (look(&p, i) && try_pair(&p)) *changed = true;
        else SN_PUSH(&m->arena, &left, m->kernels.at[i]);
    }
    m->kernels = left;
    return m->env->status;
}
