/* row_part.c: class inner, rows of which a team keeps as much as there is room for (teams.c).
 *
 *     loop c : cluster { loop x : block.x { loop uo in N { body(uo) } } }
 *  -> loop c : cluster { loop x : block.x { loop uo in N - K { body(N - 1 - uo) }
 *                                           loop uo in K     { body(uo) } } }
 *
 * What the loops over the first K steps read stays in shared memory (stage.c); its copies are under way while the first nest reads
 * the rest, which the next one reads again, from the end of the row on: the L2 has what was read last. The parts of a reduction are
 * put together in each thread, so that the blocks exchange what they would have to exchange anyway:
 *
 *     %a = reduce sumexp uo in N - K { .. }   %b = reduce sumexp uo in K { .. }
 *     %c = reduce sumexp p in 2 : unroll { yield p in 1 ? %a : %b }
 *
 * Legal where the order of iterations does not count: loops and reductions, whose combiners take their elements in any order.
 * Relies on inner.c, which binds the nest; does not know of scans.
 */
#include "passes/schedule/schedule.h"

enum { MAX_STATES = 8 };

bool sn_schedule_has_parts(const sn_module *m, const sn_schedule_shape *sh) {
    if (sh->scans || sh->mixed || sh->team || sh->n_nests != 2) return false;
    for (uint32_t i = 0; i < sh->n_nests; i++)
        if (sh->nests[i].count != sh->max_count || sh->nests[i].waits) return false;
    return sn_stmt_get(m, sh->nests[1].top)->op == SN_LOP_LOOP;
}

/* Iteration number i of the loop, of `extent`, is number first + step * i of the old one. */
static void walk(sn_module *m, sn_stmt loop, int64_t extent, int64_t first, int64_t step) {
    sn_axis old = sn_stmt_axis(m, loop), ax = sn_axis_new(m, sn_axis_get(m, old)->name, sn_ix_const(m, extent));
    sn_ix at = sn_ix_add(m, sn_ix_const(m, first), sn_ix_scale(m, sn_ix_axis(m, ax), step));
    sn_stmt_subst(m, loop, &old, &at, 1);
    sn_stmt_get(m, loop)->axis = ax;
}

/* What both parts come to is what their parent yields in place of what the second one comes to. */
static void join(sn_module *m, sn_kern k, sn_stmt rest, sn_stmt kept) {
    const sn_stmt_rec *r = sn_stmt_get(m, kept), *other = sn_stmt_get(m, rest);
    sn_stmt yield = sn_stmt_get(m, r->parent)->last;
    sn_dtype dtypes[MAX_STATES];
    sn_val states[MAX_STATES];
    for (uint32_t i = 0; i < r->n_results; i++) dtypes[i] = sn_val_get(m, sn_result(r, i))->dtype;
    sn_axis p = sn_axis_new(m, "p", sn_ix_const(m, 2));
    sn_stmt both = sn_put_reduce(m, sn_at_before(m, yield), p, SN_AXIS_UNROLL, r->combs, r->n_combs, dtypes);
    sn_val first = sn_put_in(m, sn_at_end(k, both), sn_ix_axis(m, p), sn_ix_const(m, 1));
    for (uint32_t i = 0; i < r->n_results; i++)
        states[i] = sn_put_op3(m, sn_at_end(k, both), SN_LOP_SELECT, first, sn_result(other, i), sn_result(r, i));
    sn_put_yield(m, sn_at_end(k, both), states, r->n_results);
    for (uint32_t i = 0; i < r->n_results; i++)
        for (uint32_t j = 0; j < sn_stmt_get(m, yield)->n_in; j++)
            if (sn_stmt_get(m, yield)->in[j].i == sn_result(r, i).i)
                sn_stmt_get(m, yield)->in[j] = sn_result(sn_stmt_get(m, both), i);
}

void sn_schedule_part_row(sn_pass_ctx *cx, sn_kern k, sn_stmt nest, int64_t steps, bool back, const sn_sched *sched) {
    sn_module *m = cx->m;
    sn_stmt kept = nest;
    while (sn_stmt_get(m, kept)->kind != SN_AXIS_SEQ) kept = sn_stmt_get(m, kept)->first;
    int64_t n = sn_ix_value(m, sn_stmt_extent(m, kept));
    sn_stmt rest = sn_stmt_clone(m, sn_at_before(m, kept), kept);
    walk(m, rest, n - steps, back ? n - 1 : steps, back ? -1 : 1);
    walk(m, kept, steps, 0, 1);
    if (sn_stmt_get(m, kept)->op == SN_LOP_REDUCE) join(m, k, rest, kept);
    else sn_schedule_loads_of_steps(cx, k, rest, sched);
}
