/* ends.c: vectors of class element whose lanes are runs (ir/loop/runs.h), where most have one run.
 *
 *     loop i in 900 { loop j in 711 { %0 = in j - 2, 707   %1 = load x[707*i + j - 2] if %0 else 0   store y[711*i + j], %1 } }
 *
 *     row i     | 0 0 x x x .. | 16 lanes | 16 lanes | .. x x 0 0 |      ends of runs: behind each row, at 2 and at 709
 *
 *     loop t : block.x {
 *       if p mod 711 in 696 { if (p - 2) mod 711 in 696 { .. { loop v in 16 : vector { the body at (p div 711, p mod 711 + v) } } } }
 *     }
 *     loop t : block.x { the elements of vectors that have an end inside, one by one }
 *
 * A warp goes through as many runs as the lane of it that has most; one vector in forty that has a second run has every warp wait for that. Here
 * vectors without an end take one access, one test and one division; a few threads do the elements of the others, all on their way together.
 *
 * For rows that are so much longer than vectors, with few ends in places that are numbers. Others go run by run (codegen-llvm/runs.c).
 */
#include "passes/schedule/moves/ends.h"
#include "ir/loop/runs.h"
#include "passes/schedule/base/figures.h"

/* ---- finding ---- */

/* Notes a place in the row where a vector may have an end inside; false: there are too many. */
static bool note(sn_schedule_ends *ends, int64_t at) {
    if (at < 0 || at >= ends->row || (ends->row % ends->v == 0 && at % ends->v == 0)) return true;
    uint32_t k = 0;
    while (k < ends->n && ends->at[k] < at) k++;
    if (k < ends->n && ends->at[k] == at) return true;
    if (ends->n == SN_MOST_ENDS) return false;
    for (uint32_t i = ends->n++; i > k; i--) ends->at[i] = ends->at[i - 1];
    ends->at[k] = at;
    return true;
}

static bool note_all(sn_schedule_ends *ends, sn_module *m, const sn_runs *runs, sn_axis ax) {
    int64_t at, of;
    for (uint32_t i = 0; i < runs->ends.n; i++) {
        const sn_run_end *e = &runs->ends.at[i];
        sn_ix first = sn_ix_sub(m, e->at, sn_ix_axis(m, ax));
        if (!e->test || !sn_ix_is_const(m, first, &at) || !sn_ix_is_const(m, e->of, &of)) return false;
        if (!note(ends, -at) || !note(ends, of - at)) return false;
    }
    return true;
}

/* Ends that a vector has inside, at most. */
static uint32_t most_together(const sn_schedule_ends *ends) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < ends->n; i++) {
        uint32_t together = 0;
        bool aligned = ends->row % ends->v == 0;
        for (uint32_t k = 0; k < ends->n; k++) {
            int64_t apart = (ends->at[k] - ends->at[i] + ends->row) % ends->row;
            together += aligned ? ends->at[k] / ends->v == ends->at[i] / ends->v : apart < ends->v - 1;
        }
        if (together > most) most = together;
    }
    return most;
}

/* An end costs as many lanes as a vector has, which take about as long as the run of one of 32 / v vectors; a warp of vectors goes through
 * one more run for each that one of them has. */
static bool pays(const sn_schedule_ends *ends) {
    return ends->row > ends->v && ends->row * most_together(ends) >= ends->v * ends->v * ends->n;
}

sn_schedule_ends sn_schedule_find_ends(const sn_pass_ctx *cx, const sn_schedule_shape *sh, int64_t v) {
    sn_module *m = cx->m;
    sn_runs runs;
    sn_schedule_ends ends = {.row = sn_last_outer_extent(cx, sh), .v = v}, none = {0};
    if (sh->outer.n < 2 || !sn_runs_find(&runs, m, sh->body, cx->scratch) || !note(&ends, 0)) return none;
    if (!note_all(&ends, m, &runs, sn_stmt_axis(m, sh->body))) return none;
    /* Words are few instructions a run: what takes longer is that a block waits once more. */
    if (runs.bytes >= SN_TILE_WORD && ends.row <= SN_LINE_PIECES * SN_ELEMENT_THREADS) return none;
    return pays(&ends) ? ends : none;
}

/* ---- vectors without an end ---- */

sn_stmt sn_schedule_put_whole(sn_pass_ctx *cx, sn_kern k, const sn_schedule_ends *ends, sn_stmt into, sn_ix start) {
    sn_module *m = cx->m;
    for (uint32_t i = 0; i < ends->n; i++) {
        sn_ix behind = sn_ix_modc(m, sn_ix_addc(m, start, ends->at[i] ? ends->row - ends->at[i] : 0), ends->row);
        into = sn_put_if(m, sn_at_end(k, into), behind, sn_ix_const(m, ends->row - ends->v + 1));
    }
    return into;
}

void sn_schedule_subst_whole(sn_pass_ctx *cx, const sn_stmt_vec *body, const sn_schedule_ends *ends,
                             const sn_schedule_shape *sh, sn_ix start, sn_axis lane) {
    sn_module *m = cx->m;
    sn_axis axes[SN_MAX_CHAIN];
    sn_stmt_vec flat = {0};
    sn_ix extents[SN_MAX_CHAIN], at[SN_MAX_CHAIN], zero = sn_ix_const(m, 0);
    uint32_t last = sh->outer.n - 1;
    for (uint32_t k = 0; k <= last; k++) {
        axes[k] = sn_stmt_axis(m, sh->outer.at[k]);
        extents[k] = sn_stmt_extent(m, sh->outer.at[k]);
    }
    sn_ix_unflatten(m, start, extents, last + 1, at);
    at[last] = sn_ix_min(m, at[last], sn_ix_const(m, ends->row - ends->v)); /* as tests have it */
    at[last] = sn_ix_add(m, at[last], sn_ix_axis(m, lane));
    for (uint32_t k = 0; k < body->n; k++) {
        const sn_stmt_rec *r = sn_stmt_get(m, body->at[k]);
        if (sn_is_access(r) && sn_schedule_walks_all(m, sh, r->ix)) { /* aligned as positions are */
            SN_PUSH(cx->scratch, &flat, body->at[k]);
            continue;
        }
        sn_stmt_subst(m, body->at[k], axes, at, last + 1);
        if (r->op == SN_LOP_IN) sn_stmt_subst(m, body->at[k], &lane, &zero, 1);
    }
    sn_schedule_subst_outer(cx, &flat, sh, sn_ix_add(m, start, sn_ix_axis(m, lane)));
}

/* ---- the others ---- */

/* Element number r of a list of n numbers. */
static sn_ix choose(sn_module *m, const int64_t *of, uint32_t n, sn_ix r) {
    int64_t most = sn_pow2_ceil(n);
    sn_ix e = sn_ix_const(m, of[0]);
    for (uint32_t k = 1; k < n; k++)
        e = sn_ix_fma(m, of[k] - of[k - 1], sn_ix_divc(m, sn_ix_addc(m, r, most - k), most), e);
    return e;
}

void sn_schedule_put_ends(sn_pass_ctx *cx, sn_kern k, const sn_schedule_ends *ends, const sn_schedule_shape *sh,
                          sn_stmt into, const sn_stmt_vec *body, sn_ix t, int64_t threads, sn_ix base, int64_t tile,
                          int64_t all) {
    sn_module *m = cx->m;
    int64_t before[SN_MOST_ENDS], v = ends->v, rows = sn_ceil_div(tile, ends->row), n = rows * ends->n * v;
    for (uint32_t i = 0; i < ends->n; i++)
        before[i] = ends->at[i] - (i ? ends->at[i - 1] : ends->at[ends->n - 1] - ends->row);
    sn_ix turn = sn_open_loop_in(m, k, &into, "e", sn_ceil_div(n, threads), SN_AXIS_SEQ);
    sn_ix slot = sn_ix_fma(m, threads, turn, t);
    if (n % threads) into = sn_put_if(m, sn_at_end(k, into), slot, sn_ix_const(m, n));
    sn_ix number = sn_ix_divc(m, slot, v), which = sn_ix_modc(m, number, ends->n);
    sn_ix at = choose(m, ends->at, ends->n, which), gap = choose(m, before, ends->n, which);
    sn_ix row = sn_ix_divc(m, sn_ix_addc(m, sn_ix_sub(m, base, at), ends->row),
                           ends->row); /* the first that is not in front of the block */
    sn_ix end = sn_ix_fma(m, ends->row, sn_ix_add(m, row, sn_ix_divc(m, number, ends->n)), at);
    sn_ix inside = sn_ix_modc(m, end, v), first = sn_ix_scale(m, sn_ix_divc(m, end, v), v);
    into = sn_put_if(m, sn_at_end(k, into), sn_ix_sub(m, end, base), sn_ix_const(m, tile));
    into = sn_put_if(m, sn_at_end(k, into), end, sn_ix_const(m, all));
    into = sn_put_if(m, sn_at_end(k, into), sn_ix_addc(m, inside, -1), sn_ix_const(m, v - 1));
    /* An end before it in the same vector has the elements of that. */
    if (ends->n > 1) into = sn_put_if(m, sn_at_end(k, into), sn_ix_addc(m, inside, -1), gap);
    for (uint32_t i = 0; i < body->n; i++) sn_stmt_insert(m, sn_at_end(k, into), body->at[i]);
    sn_schedule_subst_outer(cx, body, sh, sn_ix_add(m, first, sn_ix_modc(m, slot, v)));
}
