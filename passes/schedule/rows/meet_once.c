/* meet_once.c: class inner: the blocks of a team exchange the sum of a row and its squares about the mean at once, and read what does not stay once
 * for both.
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
 * Of rows that stay in part (row_part.c) both nests go along the row by the same steps, and are one:
 *
 *     reduce sum uo { %1 = reduce sum u { .. yield %x }   yield %1 }   reduce sum uo { %2 = reduce sum u { .. (%x - %m)^2 }   yield %2 }
 *  -> reduce moments uo { %1 = reduce sum u { .. yield %x }   %n = reduce sum u { .. yield 1 }   %m = div %1, %n
 *                         %2 = reduce sum u { .. (%x - %m)^2 }   yield %1, %2, %n }
 *
 * What registers hold is one step, whatever the loop over it. Elements of a step are loaded once, since both nests name the same places; they wait in registers
 * for their mean. 1 stands where the squares have an element: those are products, so that a selection around one is the test of the row's end.
 *
 * Legal where moments.c finds such a pair of f32 or f64: elements of both nests are the same, and the squares depend on the first sum by %m alone.
 * What else stands between the nests stays where it is; where the second one needs some of it, both stay as they are (rows.c asks before it counts on one
 * reading).
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

static bool is_between(const sn_module *m, sn_stmt s, sn_stmt first, sn_stmt second) {
    bool between = false;
    for (sn_stmt b = first; b.i && b.i != second.i; b = sn_next(m, b)) between |= b.i == s.i;
    return between;
}

bool sn_schedule_stands_alone(const sn_module *m, const sn_schedule_shape *sh) {
    sn_stmt first = sh->nests[0].top, second = sh->nests[1].top, end = sn_stmt_walk_skip(m, second);
    for (sn_stmt s = second; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if ((r->ix.i && sn_ix_uses_vals(m, r->ix)) || (r->bound.i && sn_ix_uses_vals(m, r->bound))) return false;
        for (uint32_t i = 0; i < r->n_in; i++) {
            sn_stmt def = sn_val_get(m, r->in[i])->def;
            if (r->in[i].i == sh->about.i || sn_stmt_get(m, def)->op == SN_LOP_CONST) continue;
            if (is_between(m, def, first, second)) return false;
        }
    }
    return true;
}

/* Constants that stand between the nests move in front of them. */
static void move_constants(sn_module *m, sn_stmt first, sn_stmt second) {
    for (sn_stmt s = first, next; s.i != second.i; s = next) {
        next = sn_next(m, s);
        if (sn_stmt_get(m, s)->op != SN_LOP_CONST) continue;
        sn_stmt_unlink(m, s);
        sn_stmt_insert(m, sn_at_before(m, first), s);
    }
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
    if (!sn_schedule_stands_alone(m, sh)) return;
    move_constants(m, sum, squares);
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

/* ---- one reading of both ---- */

static sn_stmt innermost(const sn_module *m, sn_stmt nest) {
    for (sn_stmt s = nest; s.i;) {
        nest = s, s = (sn_stmt){0};
        for (sn_stmt t = sn_stmt_get(m, nest)->first; t.i; t = sn_next(m, t))
            if (sn_stmt_get(m, t)->op == SN_LOP_REDUCE) s = t;
    }
    return nest;
}

static sn_val yielded(const sn_module *m, sn_stmt nest) {
    return sn_stmt_get(m, sn_stmt_get(m, innermost(m, nest))->last)->in[0];
}

/* Do squares, which are products, ask whether their elements are in the row? So do their sums, then. */
static bool asks(const sn_module *m, sn_stmt squares) {
    return sn_stmt_get(m, sn_val_get(m, yielded(m, squares))->def)->op == SN_LOP_SELECT;
}

/* 1 where the element x, which is to be added up at `at`, is in the row, else 0. */
static sn_val put_one(sn_module *m, sn_cursor at, sn_val x, bool masked) {
    const sn_stmt_rec *def = sn_stmt_get(m, sn_val_get(m, x)->def);
    sn_dtype t = sn_val_get(m, x)->dtype;
    sn_val in = masked ? def->in[0] : (sn_val){0}, one = sn_put_const(m, at, t, 1);
    return masked ? sn_put_op3(m, at, SN_LOP_SELECT, in, one, sn_put_const(m, at, t, 0)) : one;
}

/* How many elements `nest`, which stores nothing, adds up. */
static sn_val count_of(sn_module *m, sn_cursor at, sn_stmt nest, bool masked) {
    sn_stmt ones = sn_stmt_clone(m, at, nest), yield = sn_stmt_get(m, innermost(m, ones))->last;
    sn_val one = put_one(m, sn_at_before(m, yield), yielded(m, ones), masked);
    sn_stmt_get(m, yield)->in[0] = one;
    return sn_stmt_get(m, ones)->result;
}

static sn_val mean_of(sn_module *m, sn_cursor at, sn_val sum, sn_val n) {
    sn_val one = sn_put_const(m, at, sn_val_get(m, n)->dtype, 1);
    return sn_put_op2(m, at, SN_LOP_DIV, sum, sn_put_op2(m, at, SN_LOP_MAX, n, one));
}

/* reduce sum uo { .. yield %s }   reduce sum uo { .. (%x - %m)^2 }  ->  reduce moments uo { .. %n = 1 + 1 + ..   .. (%x - %s / %n)^2 } */
static sn_stmt both_of_steps(sn_module *m, sn_kern k, sn_stmt sum, sn_stmt squares, sn_val about) {
    static const sn_comb MOMENTS = SN_COMB_MOMENTS;
    sn_dtype t = sn_stmt_get(m, sum)->dtype, dtypes[] = {t, t, t};
    sn_axis axis = sn_stmt_axis(m, sum), of_squares = sn_stmt_axis(m, squares);
    sn_ix same = sn_ix_axis(m, axis);
    sn_stmt both = sn_put_reduce(m, sn_at_before(m, sum), axis, sn_stmt_get(m, sum)->kind, &MOMENTS, 1, dtypes);
    sn_val s = move_region(m, k, both, sum);
    sn_stmt of_s = sn_val_get(m, s)->def;
    bool nest = sn_stmt_get(m, of_s)->op == SN_LOP_REDUCE, masked = asks(m, squares);
    sn_val n = nest ? count_of(m, sn_at_end(k, both), of_s, masked) : put_one(m, sn_at_end(k, both), s, masked);
    take_about(m, squares, about, mean_of(m, sn_at_end(k, both), s, n));
    sn_stmt_subst(m, squares, &of_squares, &same, 1);
    sn_val q = move_region(m, k, both, squares);
    sn_put_yield(m, sn_at_end(k, both), (sn_val[]){s, q, n}, 3);
    return both;
}

/* Elements in registers are a step. */
static sn_joined_part both_of_held(sn_module *m, sn_kern k, sn_stmt into, sn_stmt sum, sn_stmt squares, sn_val about) {
    sn_val s = sn_stmt_get(m, sum)->result, n = count_of(m, sn_at_end(k, into), squares, asks(m, squares));
    take_about(m, squares, about, mean_of(m, sn_at_end(k, into), s, n));
    sn_stmt_unlink(m, squares);
    sn_stmt_insert(m, sn_at_end(k, into), squares);
    return (sn_joined_part){.state = {s, sn_stmt_get(m, squares)->result, n}, .n = 3};
}

static sn_joined_part states_of(const sn_module *m, sn_stmt both) {
    const sn_stmt_rec *r = sn_stmt_get(m, both);
    return (sn_joined_part){.state = {sn_result(r, 0), sn_result(r, 1), sn_result(r, 2)}, .n = 3};
}

/* The loops around the parts, from c on: those of the sum, with three states. */
static sn_stmt put_levels(sn_module *m, sn_kern k, sn_stmt sum, sn_stmt squares, sn_stmt *inner) {
    static const sn_comb MOMENTS = SN_COMB_MOMENTS;
    sn_dtype t = sn_stmt_get(m, sum)->dtype, dtypes[] = {t, t, t};
    sn_stmt top = {0}, into = {0};
    sn_cursor at = sn_at_before(m, sum);
    for (sn_stmt s = sum, q = squares; sn_stmt_get(m, s)->kind != SN_AXIS_SEQ;
         s = sn_stmt_get(m, s)->first, q = sn_stmt_get(m, q)->first) {
        sn_axis of_squares = sn_stmt_axis(m, q);
        sn_ix same = sn_ix_axis(m, sn_stmt_axis(m, s));
        into = sn_put_reduce(m, at, sn_stmt_axis(m, s), sn_stmt_get(m, s)->kind, &MOMENTS, 1, dtypes);
        if (!top.i) top = into;
        at = sn_at_end(k, into);
        sn_stmt_subst(m, q, &of_squares, &same, 1);
    }
    *inner = into;
    return top;
}

void sn_schedule_read_once(sn_pass_ctx *cx, sn_kern k, const sn_schedule_shape *sh) {
    enum { MOST = 3 };
    static const sn_comb MOMENTS = SN_COMB_MOMENTS;
    sn_module *m = cx->m;
    const sn_schedule_nest *of_sum = &sh->nests[0], *of_squares = &sh->nests[1];
    sn_stmt sum = of_sum->top, squares = of_squares->top, inner, top;
    sn_joined_part part[MOST];
    uint32_t n = 0;
    move_constants(m, sum, squares);
    top = put_levels(m, k, sum, squares, &inner);
    sn_stmt loops[][2] = {{of_sum->kept, of_squares->kept}, {of_sum->rest, of_squares->rest}};
    for (uint32_t i = 0; i < SN_COUNT(loops); i++) {
        if (!loops[i][0].i) continue;
        sn_stmt both = both_of_steps(m, k, loops[i][0], loops[i][1], sh->about);
        sn_stmt_unlink(m, both);
        sn_stmt_insert(m, sn_at_end(k, inner), both);
        part[n++] = states_of(m, both);
    }
    if (of_sum->held.i) {
        sn_stmt_unlink(m, of_sum->held);
        sn_stmt_insert(m, sn_at_end(k, inner), of_sum->held);
        part[n++] = both_of_held(m, k, inner, of_sum->held, of_squares->held, sh->about);
    }
    sn_joined_part all = states_of(m, sn_schedule_put_joined(m, k, sn_at_end(k, inner), &MOMENTS, 1, part, n));
    for (sn_stmt s = inner, below = {0};; below = s, s = sn_stmt_get(m, s)->parent) {
        if (below.i) all = states_of(m, below);
        sn_put_yield(m, sn_at_end(k, s), all.state, all.n);
        if (s.i == top.i) break;
    }
    const sn_stmt_rec *r = sn_stmt_get(m, top);
    sn_val_replace(m, k, sn_stmt_get(m, squares)->result, squares_about(m, sn_at_before(m, squares), r, sh->about));
    sn_val_replace(m, k, sn_stmt_get(m, sum)->result, sn_result(sn_stmt_get(m, top), 0));
    sn_stmt_unlink(m, sum);
    sn_stmt_unlink(m, squares);
    sn_kern_dead_code(m, k);
}
