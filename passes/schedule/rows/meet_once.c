/* meet_once.c: class inner: the blocks of a team exchange the sum of a row and its squares about the mean at once.
 *
 *     %s = reduce sum c : cluster { %1 = reduce sum x { .. yield %x } yield %1 }   %m = div %s, N
 *     %q = reduce sum c : cluster { %2 = reduce sum x { .. (%x - %m)^2 } yield %2 }
 *  -> %s, %q0, %n = reduce moments c : cluster { %1 = reduce sum x { .. yield %x }   %mc = div %1, %nc
 *                                                %2 = reduce sum x { .. (%x - %mc)^2 }   yield %1, %2, %nc }
 *     %m = div %s, N   %q = %q0 + %n * (%s / %n - %m)^2
 *
 * A block takes the squares of its own nc elements about their own mean, for which its threads alone meet, and the combiner puts those
 * together (ir/ops/combs.def). An exchange takes a team two to four microseconds, in which memory is idle unless others load or store; clusters
 * are done in one, and no faster this way (batch norm of f32[64, 256, 56, 56] 136 us for 129 on an H200). The last term is 0 but for rounding where %m is the mean; where it is anything else, the sum is about that.
 *
 * Legal where moments.c finds such a pair of f32 or f64: elements of both nests are the same, and the squares depend on the first sum by %m alone.
 * What else stands between the nests stays where it is; where the second one needs some of it, both stay as they are.
 */
#include "passes/schedule/rows/rows.h"

/* ---- how many elements a block has ---- */

/* x where e is 0, else 0. */
static sn_val only_at_zero(sn_module *m, sn_cursor at, sn_ix e, sn_ix x) {
    sn_val here = sn_put_in(m, at, e, sn_ix_const(m, 1));
    return sn_put_op3(m, at, SN_LOP_SELECT, here, sn_put_index(m, at, SN_I64, x), sn_put_const_int(m, at, SN_I64, 0));
}

/* A row is pieces of X*V elements, of which block c has c, c + C, ..; the last one is not whole, and the first one begins with what lies
 * in front of the row. */
sn_val sn_schedule_count_elements(sn_pass_ctx *cx, const sn_schedule_nest *nest, const sn_sched *sched) {
    sn_module *m = cx->m;
    int64_t blocks = sn_sched_cluster(sched), piece = (int64_t)sched->block_x * sched->vector;
    sn_ix lead = nest->lead.i ? nest->lead : sn_ix_const(m, 0), all = sn_ix_addc(m, lead, nest->count);
    sn_ix c = sn_ix_axis(m, sn_stmt_axis(m, nest->top)), whole = sn_ix_divc(m, all, piece);
    sn_ix mine = sn_ix_divc(m, sn_ix_addc(m, sn_ix_sub(m, whole, c), blocks - 1), blocks);
    sn_cursor at = sn_at_before(m, sn_stmt_get(m, nest->top)->last);
    sn_val n = sn_put_index(m, at, SN_I64, sn_ix_scale(m, mine, piece));
    sn_val rest = only_at_zero(m, at, sn_ix_sub(m, sn_ix_modc(m, whole, blocks), c), sn_ix_modc(m, all, piece));
    n = sn_put_op2(m, at, SN_LOP_ADD, n, rest);
    if (nest->lead.i) n = sn_put_op2(m, at, SN_LOP_SUB, n, only_at_zero(m, at, c, lead));
    return sn_put_cast(m, at, sn_stmt_get(m, nest->top)->dtype, n);
}

/* ---- one reduction of both ---- */

/* Constants that stand between the nests move in front of them. Is that all, but for `about`, that the second one takes from there? */
static bool stands_alone(sn_module *m, sn_stmt first, sn_stmt second, sn_val about) {
    sn_stmt end = sn_stmt_walk_skip(m, second);
    for (sn_stmt s = second; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if ((r->ix.i && sn_ix_uses_vals(m, r->ix)) || (r->bound.i && sn_ix_uses_vals(m, r->bound))) return false;
        for (uint32_t i = 0; i < r->n_in; i++) {
            sn_stmt def = sn_val_get(m, r->in[i])->def;
            bool between = false;
            for (sn_stmt b = first; b.i && b.i != second.i; b = sn_next(m, b)) between |= b.i == def.i;
            if (!between || r->in[i].i == about.i) continue;
            if (sn_stmt_get(m, def)->op != SN_LOP_CONST) return false;
            sn_stmt_unlink(m, def);
            sn_stmt_insert(m, sn_at_before(m, first), def);
        }
    }
    return true;
}

static void take_about(sn_module *m, sn_stmt nest, sn_val about, sn_val own) {
    sn_stmt end = sn_stmt_walk_skip(m, nest);
    for (sn_stmt s = nest; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        sn_stmt_rec *r = sn_stmt_get(m, s);
        for (uint32_t i = 0; i < r->n_in; i++)
            if (r->in[i].i == about.i) r->in[i] = own;
    }
}

/* The region of `from` but for its yield goes to the end of `into`; what it yields. */
static sn_val move_region(sn_module *m, sn_kern k, sn_stmt into, sn_stmt from) {
    sn_stmt yield = sn_stmt_get(m, from)->last;
    for (sn_stmt s = sn_stmt_get(m, from)->first, next; s.i != yield.i; s = next) {
        next = sn_next(m, s);
        sn_stmt_unlink(m, s);
        sn_stmt_insert(m, sn_at_end(k, into), s);
    }
    return sn_stmt_get(m, yield)->in[0];
}

/* q + n * (s/n - about)^2 */
static sn_val squares_about(sn_module *m, sn_cursor at, const sn_stmt_rec *both, sn_val about) {
    sn_val n = sn_result(both, 2), mean = sn_put_op2(m, at, SN_LOP_DIV, sn_result(both, 0), n);
    sn_val d = sn_put_op2(m, at, SN_LOP_SUB, mean, about), square = sn_put_op2(m, at, SN_LOP_MUL, d, d);
    return sn_put_op2(m, at, SN_LOP_ADD, sn_result(both, 1), sn_put_op2(m, at, SN_LOP_MUL, n, square));
}

void sn_schedule_meet_once(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh, sn_val elements) {
    static const sn_comb MOMENTS = SN_COMB_MOMENTS;
    sn_module *m = cx->m;
    sn_stmt sum = sh->nests[0].top, squares = sh->nests[1].top;
    if (!stands_alone(m, sum, squares, sh->about)) return;
    sn_dtype t = sn_stmt_get(m, sum)->dtype, dtypes[] = {t, t, t};
    sn_axis c = sn_stmt_axis(m, sum), of_squares = sn_stmt_axis(m, squares);
    sn_ix same = sn_ix_axis(m, c);
    sn_stmt both = sn_put_reduce(m, sn_at_before(m, sum), c, SN_AXIS_CLUSTER, &MOMENTS, 1, dtypes);
    sn_val s = move_region(m, k, both, sum);
    sn_cursor at = sn_at_end(k, both);
    sn_val some = sn_put_op2(m, at, SN_LOP_MAX, elements, sn_put_const(m, at, t, 1));
    take_about(m, squares, sh->about, sn_put_op2(m, at, SN_LOP_DIV, s, some));
    sn_stmt_subst(m, squares, &of_squares, &same, 1);
    sn_val q = move_region(m, k, both, squares);
    sn_put_yield(m, sn_at_end(k, both), (sn_val[]){s, q, elements}, 3);
    const sn_stmt_rec *r = sn_stmt_get(m, both);
    sn_val_replace(m, k, sn_stmt_get(m, squares)->result, squares_about(m, sn_at_before(m, squares), r, sh->about));
    sn_val_replace(m, k, sn_stmt_get(m, sum)->result, sn_result(r, 0));
    sn_stmt_unlink(m, sum);
    sn_stmt_unlink(m, squares);
}
