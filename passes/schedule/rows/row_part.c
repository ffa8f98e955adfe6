/* row_part.c: rows of which a team keeps as much as there is room for (teams.c), and columns (outer_team.c).
 *
 *     reduce c : cluster { reduce x : block.x { reduce uo in N { body(uo) } } }
 *  -> reduce c : cluster { reduce x : block.x { reduce uo in K                 { body(uo) }               what stays
 *                                               reduce uo in N - K - R         { body(K + uo) }           the rest
 *                                               reduce uo in R : unroll once   { body(N - R + uo) } } }   what registers hold
 *
 * What the loops over the first K steps read stays in shared memory, what those over the last R do in registers (stage.c). The rest
 * the other nests read again, from the last step to the first, since the L2 has what was read last:
 *
 *     loop c : cluster { loop x : block.x { loop uo in R : unroll once { .. }   loop uo in N - K - R : once { body(N - R - 1 - uo) }
 *                                           loop uo in K { body(uo) } } }
 *
 * All else leaves the L2 first: what stays, what the last nest reads, and what it writes (the promise `once`,
 * backend-nvptx/stream.c). On an H200 that is 2 to 5 % of the time each, for rows of 50 MB; so is work on what stays before the rest,
 * while that is loaded, and not behind it. The parts of a reduction are put together in each thread, so that the blocks exchange what
 * they would have to exchange anyway:
 *
 *     %a = reduce sumexp uo in K { .. }   %b = reduce sumexp uo in N - K - R { .. }   %c = reduce sumexp uo in R : unroll { .. }
 *     %d = reduce sumexp p in 3 : unroll { yield p in 1 ? %b : p in 2 ? %c : %a }
 *
 * Where registers reach for it (`ahead`), a step of the rest is under way while the one before it is computed, in either nest; the first
 * one comes while what stays does:
 *
 *     loads(0) -> a   reduce uo in K { .. }   reduce uo in N - K - R - 1 { b = a   loads(uo + 1) -> a   body(b) }   body(a)
 *
 * A sum and squares about its mean are one reading (`both`, meet_once.c): their nests have the same parts in the same order, which that file puts together,
 * and no step of theirs is ahead of another.
 *
 * Slower: to load what registers hold first of all, where there is no rest, so that everything is under way at once (H100, f16[24083310] 41.0 us
 * for 38.8, f32[12670033] 41.3 for 40.3).
 *
 * Legal where the order of iterations does not count: loops and reductions, whose combiners take their elements in any order.
 * Relies on inner.c, which binds the nest; does not know of scans.
 */
#include "passes/schedule/rows/rows.h"

enum { MAX_PARTS = 3 };

bool sn_schedule_has_parts(const sn_module *m, const sn_schedule_shape *sh) {
    if (sh->scans || sh->mixed || sh->team || sh->n_nests < 2) return false;
    for (uint32_t i = 0; i < sh->n_nests; i++) {
        bool last = i == sh->n_nests - 1, reduces = sn_stmt_get(m, sh->nests[i].top)->op == SN_LOP_REDUCE;
        if (sh->nests[i].count != sh->max_count || sh->nests[i].waits || reduces == last) return false;
    }
    return true;
}

/* Iteration number i of the loop, of `extent`, is number first + step * i of the old one. */
static void walk(sn_module *m, sn_stmt loop, int64_t extent, int64_t first, int64_t step) {
    sn_axis old = sn_stmt_axis(m, loop), ax = sn_axis_new(m, sn_axis_get(m, old)->name, sn_ix_const(m, extent));
    sn_ix at = sn_ix_add(m, sn_ix_const(m, first), sn_ix_scale(m, sn_ix_axis(m, ax), step));
    sn_stmt_subst(m, loop, &old, &at, 1);
    sn_stmt_get(m, loop)->axis = ax;
}

sn_stmt sn_schedule_put_joined(sn_module *m, sn_kern k, sn_cursor at, const sn_comb *combs, uint32_t n_combs,
                               const sn_joined_part *part, uint32_t n) {
    sn_dtype dtypes[SN_JOINED_STATES];
    sn_val states[SN_JOINED_STATES];
    const sn_joined_part *last = &part[n - 1];
    for (uint32_t i = 0; i < last->n; i++) dtypes[i] = sn_val_get(m, last->state[i])->dtype;
    sn_axis p = sn_axis_new(m, "p", sn_ix_const(m, n));
    sn_stmt all = sn_put_reduce(m, at, p, SN_AXIS_UNROLL, combs, n_combs, dtypes);
    for (uint32_t i = 0; i < last->n; i++) states[i] = last->state[i];
    for (uint32_t j = n - 1; j-- > 0;) {
        sn_val before = sn_put_in(m, sn_at_end(k, all), sn_ix_axis(m, p), sn_ix_const(m, j + 1));
        for (uint32_t i = 0; i < last->n; i++)
            states[i] = sn_put_op3(m, sn_at_end(k, all), SN_LOP_SELECT, before, part[j].state[i], states[i]);
    }
    sn_put_yield(m, sn_at_end(k, all), states, last->n);
    return all;
}

static sn_joined_part part_of(const sn_module *m, sn_stmt loop) {
    const sn_stmt_rec *r = sn_stmt_get(m, loop);
    sn_joined_part part = {.n = r->n_results};
    for (uint32_t i = 0; i < r->n_results; i++) part.state[i] = sn_result(r, i);
    return part;
}

/* What all parts come to is what their parent yields in place of what the last one comes to. */
static void join(sn_module *m, sn_kern k, const sn_stmt *part, uint32_t n, sn_stmt kept) {
    const sn_stmt_rec *r = sn_stmt_get(m, kept);
    sn_stmt yield = sn_stmt_get(m, r->parent)->last;
    sn_joined_part parts[MAX_PARTS + 1];
    for (uint32_t j = 0; j < n; j++) parts[j] = part_of(m, part[j]);
    parts[n] = part_of(m, kept);
    sn_stmt all = sn_schedule_put_joined(m, k, sn_at_before(m, yield), r->combs, r->n_combs, parts, n + 1);
    for (uint32_t i = 0; i < r->n_results; i++)
        for (uint32_t j = 0; j < sn_stmt_get(m, yield)->n_in; j++)
            if (sn_stmt_get(m, yield)->in[j].i == sn_result(r, i).i)
                sn_stmt_get(m, yield)->in[j] = sn_result(sn_stmt_get(m, all), i);
}

/* A loop beside `kept` with `n` of its steps. */
static sn_stmt put_part(sn_module *m, sn_cursor at, sn_stmt kept, int64_t n, int64_t first, int64_t step) {
    sn_stmt part = sn_stmt_clone(m, at, kept);
    walk(m, part, n, first, step);
    return part;
}

/* ... whose elements are in registers: written out. none: no steps. */
static sn_stmt put_held(sn_module *m, sn_cursor at, sn_stmt kept, int64_t n, int64_t first) {
    if (!n) return (sn_stmt){0};
    sn_stmt held = put_part(m, at, kept, n, first, 1);
    sn_stmt_get(m, held)->kind = SN_AXIS_UNROLL;
    sn_stmt_get(m, held)->once = true;
    return held;
}

/* ---- one step ahead ---- */

/* The loop that only loads for its step, to registers (scan.c); none: there is none. */
static sn_stmt loads_of(const sn_module *m, sn_stmt part) {
    sn_stmt first = sn_stmt_get(m, part)->first;
    const sn_stmt_rec *r = sn_stmt_get(m, first);
    return r->op == SN_LOP_LOOP && r->kind == SN_AXIS_UNROLL && r->next.i ? first : (sn_stmt){0};
}

static void subst_one(sn_module *m, sn_stmt s, sn_axis axis, sn_ix to) { sn_stmt_subst(m, s, &axis, &to, 1); }

/* A buffer like that of the store `s`, in which it stores what is there. */
static sn_buf move_on(sn_module *m, sn_stmt s) {
    const sn_buf_rec b = *sn_buf_get(m, sn_stmt_get(m, s)->buf);
    sn_buf to = sn_buf_new(m, sn_strf(&m->arena, "%s_now", b.name), b.dtype, SN_BUF_REG, b.shape, b.rank);
    sn_buf_get(m, to)->private_size = b.private_size;
    sn_val x = sn_put_load(m, sn_at_before(m, s), sn_stmt_get(m, s)->buf, sn_stmt_get(m, s)->ix);
    sn_stmt_get(m, s)->in[0] = x;
    sn_stmt_get(m, s)->buf = to;
    return to;
}

static void read_instead(sn_module *m, sn_stmt s, sn_buf from, sn_buf to) {
    sn_stmt end = sn_stmt_walk_skip(m, s);
    for (; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_loads(r) && sn_buf_eq(r->buf, from)) r->buf = to;
    }
}

/* What `loads` brought to a buffer moves to another one, which all behind it in the region reads. */
static void hand_over(sn_module *m, sn_stmt loads) {
    sn_stmt moves = sn_stmt_clone(m, sn_at_before(m, loads), loads), inner = moves;
    while (sn_lop_has_region(sn_stmt_get(m, sn_stmt_get(m, inner)->first)->op)) inner = sn_stmt_get(m, inner)->first;
    for (sn_stmt s = sn_stmt_get(m, inner)->last, before; s.i; s = before) {
        before = sn_stmt_get(m, s)->prev;
        if (sn_stmt_get(m, s)->op != SN_LOP_STORE) {
            sn_stmt_unlink(m, s);
            continue;
        }
        sn_buf from = sn_stmt_get(m, s)->buf, to = move_on(m, s);
        for (sn_stmt t = sn_next(m, loads); t.i; t = sn_next(m, t)) read_instead(m, t, from, to);
    }
}

/* part of n steps  ->  loads(0)   part of n - 1 { moves   loads(i + 1)   body(i) }   body(n - 1), which is returned; the first loads
 * stand at `early`. */
static sn_stmt step_ahead(sn_module *m, sn_stmt part, sn_cursor early) {
    sn_stmt loads = loads_of(m, part);
    if (!loads.i) return (sn_stmt){0};
    sn_axis axis = sn_stmt_axis(m, part);
    int64_t n = sn_ix_value(m, sn_stmt_extent(m, part));
    sn_stmt first = sn_stmt_clone(m, early, loads);
    subst_one(m, first, axis, sn_ix_const(m, 0));
    sn_stmt_get(m, first)->once = sn_stmt_get(m, part)->once;
    sn_stmt last = sn_stmt_clone(m, sn_at_after(m, part), part);
    walk(m, last, 1, n - 1, 1);
    sn_stmt_unlink(m, loads_of(m, last));
    subst_one(m, loads, axis, sn_ix_addc(m, sn_ix_axis(m, axis), 1));
    hand_over(m, loads);
    walk(m, part, n - 1, 0, 1);
    return last;
}

void sn_schedule_part_row(sn_pass_ctx *cx, sn_kern k, sn_schedule_shape *sh, uint32_t nest, const sn_row_parts *parts,
                          const sn_sched *sched) {
    sn_module *m = cx->m;
    sn_stmt kept = sh->nests[nest].top, part[MAX_PARTS];
    uint32_t n_parts = 0;
    while (sn_stmt_get(m, kept)->kind != SN_AXIS_SEQ) kept = sn_stmt_get(m, kept)->first;
    int64_t n = sn_ix_value(m, sn_stmt_extent(m, kept)), rest = n - parts->stay;
    int64_t held = parts->held < rest ? parts->held : rest;
    bool sums = nest < sh->n_nests - 1, along = parts->both && sums, forward = !nest || along;
    if ((parts->twice || parts->words) && rest - held == 1 && held > 1) held--; /* one step is no loop either */
    rest -= held;
    sn_cursor beside = forward ? sn_at_after(m, kept) : sn_at_before(m, kept);
    sn_stmt of_regs = put_held(m, beside, kept, held, n - held);
    if (rest)
        part[n_parts++] = put_part(m, forward ? sn_at_after(m, kept) : sn_at_before(m, kept), kept, rest,
                                   forward ? parts->stay : n - held - 1, forward ? 1 : -1);
    if (rest) sn_stmt_get(m, part[0])->once = !sums;
    bool ahead = parts->ahead && rest >= SN_PART_AHEAD && !along;
    if (rest && (ahead || !sums)) sn_schedule_loads_of_steps(cx, k, part[0], sh->nests[0].top, sched);
    sn_stmt last = ahead ? step_ahead(m, part[0], sn_at_before(m, sums ? kept : part[0])) : (sn_stmt){0};
    if (last.i) part[n_parts++] = last;
    if (of_regs.i) part[n_parts++] = of_regs;
    walk(m, kept, parts->stay, 0, 1);
    sh->nests[nest].kept = kept;
    sh->nests[nest].held = of_regs;
    sh->nests[nest].rest = rest ? part[0] : (sn_stmt){0};
    if (sums && !along) join(m, k, part, n_parts, kept);
}

void sn_schedule_hold_parts(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_stmt body,
                            const sn_sched *sched) {
    sn_sched of_registers = *sched;
    sn_schedule_shape held = *sh;
    if (!sh->nests[0].held.i) return;
    for (uint32_t i = 0; i < sh->n_nests; i++) held.nests[i].kept = sh->nests[i].held;
    of_registers.shared = false;
    sn_schedule_stage(cx, k, &held, body, &of_registers, SN_FILE_REGS / (sched->block_x * sched->block_y) * SN_WORD);
}
