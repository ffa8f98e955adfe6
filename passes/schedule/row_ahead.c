/* row_ahead.c: class inner, rows that stay in part (row_part.c): what is loaded next is asked for.
 *
 *     reduce uo in K { .. }                  prefetch the first of the rest
 *                                        ->  reduce uo in K { .. }
 *     reduce uo in N - K - R { body(uo) }    reduce uo in N - K - R { prefetch what body(uo + 1) loads   body(uo) }
 *
 * and in the last step of the rest what registers hold. Threads load a step, then compute, and what they have in flight meanwhile is
 * half of what memory takes. One thread asks for what the block loads in the step behind that (`prefetch`): it is in the L2 by then, and
 * memory does not wait for anybody. Steps that reach over the end of the row are not asked for.
 *
 * Relies on row_part.c, which makes the parts, and on elements of a written-out step lying side by side in memory. Changes no value.
 */
#include "passes/schedule/schedule.h"

/* A load of a part from memory, and the axes that its element depends on; of those that are 0 there are none. */
typedef struct step_load {
    sn_stmt load;
    sn_axis step, x, u, v;
    sn_ix position, bound; /* of the test that it has; 0: none */
} step_load;

static void look_at_axes(step_load *at, const sn_module *m, sn_stmt part) {
    for (sn_stmt s = sn_stmt_get(m, at->load)->parent; s.i; s = sn_stmt_get(m, s)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (s.i == part.i) at->step = r->axis;
        else if (r->kind == SN_AXIS_BLOCK_X) at->x = r->axis;
        else if (r->kind == SN_AXIS_UNROLL) at->u = r->axis;
        else if (r->kind == SN_AXIS_VECTOR) at->v = r->axis;
    }
}

/* Is there a test, and is it one of a position? */
static bool look_at_mask(step_load *at, const sn_module *m) {
    sn_val mask = sn_stmt_mask(sn_stmt_get(m, at->load));
    if (!mask.i) return true;
    const sn_stmt_rec *test = sn_stmt_get(m, sn_val_get(m, mask)->def);
    at->position = test->ix, at->bound = test->bound;
    return test->op == SN_LOP_IN;
}

/* The load of the part that goes along the row from thread to thread: of weights that all rows share there is nothing to ask for. */
static bool find_load(step_load *at, sn_module *m, sn_stmt part, const sn_sched *sc) {
    sn_stmt end = sn_stmt_walk_skip(m, part);
    for (sn_stmt s = part; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        int64_t of_x, of_step;
        if (r->op != SN_LOP_LOAD || sn_buf_get(m, r->buf)->scope == SN_BUF_REG ||
            sn_buf_get(m, r->buf)->scope == SN_BUF_SHARED || sn_ix_uses_vals(m, r->ix))
            continue;
        *at = (step_load){.load = s};
        look_at_axes(at, m, part);
        if (!at->x.i || !at->step.i || !sn_ix_coef(m, r->ix, at->x, &of_x) || of_x != sc->vector) continue;
        if (sn_ix_coef(m, r->ix, at->step, &of_step) && of_step && look_at_mask(at, m)) return true;
    }
    return false;
}

static sn_ix placed(sn_module *m, const step_load *at, sn_ix e, sn_ix step, int64_t x, int64_t u, int64_t v) {
    sn_axis axes[4] = {at->step, at->x};
    sn_ix with[4] = {step, sn_ix_const(m, x)};
    uint32_t n = 2;
    if (at->u.i) axes[n] = at->u, with[n++] = sn_ix_const(m, u);
    if (at->v.i) axes[n] = at->v, with[n++] = sn_ix_const(m, v);
    return sn_ix_subst(m, e, axes, with, n);
}

/* The first thread asks for what all of the block load in that step, where `turn` is less than `turns`. */
static void ask(sn_module *m, sn_cursor cursor, const step_load *at, sn_ix step, sn_ix turn, int64_t turns,
                const sn_sched *sc) {
    sn_ix one = sn_ix_const(m, 1), n = sn_ix_const(m, (int64_t)sc->block_x * sc->vector), all = sn_ix_const(m, turns);
    for (int64_t u = 0; u < (at->u.i ? sc->unroll : 1); u++) {
        const sn_stmt_rec *load = sn_stmt_get(m, at->load);
        sn_buf buf = load->buf;
        sn_ix e = placed(m, at, load->ix, step, 0, u, 0);
        sn_val mask = sn_put_in(m, cursor, sn_ix_axis(m, at->x), one);
        if (!sn_ix_in(m, turn, all)) mask = sn_put_op2(m, cursor, SN_LOP_AND, mask, sn_put_in(m, cursor, turn, all));
        if (at->position.i) {
            sn_ix last = placed(m, at, at->position, step, sc->block_x - 1, u, sc->vector - 1);
            mask = sn_put_op2(m, cursor, SN_LOP_AND, mask, sn_put_in(m, cursor, last, at->bound));
        }
        sn_put_prefetch(m, cursor, buf, e, n, mask);
    }
}

/* What registers will hold: in the last step of the rest, or in front of what stays. */
static void ask_for_held(sn_module *m, const sn_schedule_nest *nest, const step_load *rest, const sn_sched *sc) {
    step_load at;
    if (!nest->held.i || !find_load(&at, m, nest->held, sc)) return;
    sn_cursor cursor = sn_at_before(m, rest ? sn_stmt_get(m, nest->rest)->first : nest->stays);
    sn_ix turn = sn_ix_const(m, 0);
    if (rest) turn = sn_ix_sub(m, sn_ix_addc(m, sn_stmt_extent(m, nest->rest), -1), sn_ix_axis(m, rest->step));
    for (int64_t r = 0, n = sn_ix_value(m, sn_stmt_extent(m, nest->held)); r < n; r++)
        ask(m, cursor, &at, sn_ix_const(m, r), turn, 1, sc);
}

void sn_schedule_ask_ahead(sn_pass_ctx *cx, const sn_schedule_shape *sh, const sn_sched *sc) {
    enum { HAS_PREFETCH = 90 };
    sn_module *m = cx->m;
    if (cx->target->sm < HAS_PREFETCH) return;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        const sn_schedule_nest *nest = &sh->nests[i];
        step_load at;
        bool rest = nest->rest.i && find_load(&at, m, nest->rest, sc);
        if (i == 0) ask_for_held(m, nest, rest ? &at : NULL, sc);
        if (!rest) continue;
        int64_t steps = sn_ix_value(m, sn_stmt_extent(m, nest->rest));
        sn_ix first = sn_ix_const(m, 0), next = sn_ix_addc(m, sn_ix_axis(m, at.step), 1);
        if (i == 0) ask(m, sn_at_before(m, nest->stays), &at, first, first, steps, sc);
        if (steps > 1) ask(m, sn_at_before(m, sn_stmt_get(m, nest->rest)->first), &at, next, next, steps, sc);
    }
}
