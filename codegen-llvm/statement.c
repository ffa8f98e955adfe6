/* statement.c: the code of one statement: loops by what their axis is bound to, tests, values of scalars.
 *
 * Values are LLVM scalars, or vectors where they differ between the lanes of the vector axis. A loop that is written
 * out translates its region again with the axis a constant. What takes more than a few lines has a file of its own:
 * accesses (load.c, store.c), reductions (reduce.c), prefixes (scan.c), loops whose copies run ahead (pipe.c), and regions
 * (region.c, lanes.c, interior.c).
 */
#include "codegen-llvm/gen.h"
#include "ir/loop/access.h"

/* ---- loops ---- */

static void iteration(sn_gen *g, void *user) {
    const sn_stmt_rec *loop = user;
    sn_gen_region(g, loop->first);
    sn_gen_part_made(g, loop);
}

/* Do the threads of the block scan something together in each iteration? */
static bool scans_together(const sn_gen *g, const sn_stmt_rec *s) {
    if (!g->gpu || !g->scans || g->threads_y > 1 || !s->last.i) return false;
    for (sn_stmt t = s->first, end = sn_stmt_walk_skip(g->m, s->last); t.i && t.i != end.i;
         t = sn_stmt_walk_next(g->m, t)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, t);
        if (r->op == SN_LOP_ACCUM && sn_ix_uses_axis(g->m, r->ix, s->axis)) return true;
    }
    return false;
}

static void seq_loop(sn_gen *g, sn_stmt_rec *s) {
    sn_ix extent = sn_gen_resolve(g, sn_axis_get(g->m, s->axis)->extent);
    sn_gen_loop l;
    sn_gen_loop_begin(g, &l, s->axis, sn_em_ci(g->index, 0), sn_gen_ix(g, extent), sn_ix_range(g->m, extent).lo < 1);
    if (scans_together(g, s)) sn_gen_part(g, s, iteration, s);
    else sn_gen_iteration(g, s, iteration, s, NULL, 0);
    sn_gen_loop_end(g, &l, NULL, NULL, 0);
}

static void unrolled_loop(sn_gen *g, sn_stmt_rec *s, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        sn_gen_part_used(g, s, i, n);
        sn_gen_fix(g, s->axis, i);
        sn_gen_region(g, s->first);
        sn_gen_unfix(g);
        sn_gen_part_made(g, s);
    }
}

/* On the host, where most registers are arrays, code that is written out gains nothing and takes its time to compile;
 * but those that are none exist only in such code. */
static bool is_written_out(const sn_gen *g, const sn_stmt_rec *s, int64_t n) {
    enum { FEW = 4 };
    if (n < 0 || (s->kind != SN_AXIS_VECTOR && s->kind != SN_AXIS_UNROLL)) return false;
    return s->kind == SN_AXIS_VECTOR || g->gpu || n <= FEW || g->in_registers[s->axis.i];
}

static void loop(sn_gen *g, sn_stmt id, sn_stmt_rec *s) {
    int64_t n = sn_gen_extent(g, s->axis);
    sn_gen_scan_enter(g, s);
    if (g->mma_given > g->mma_done && s->kind == SN_AXIS_BLOCK_X && !s->mma) sn_gen_settle_mma(g, id);
    if (sn_gen_is_spread(g, id)) sn_gen_grid_region(g, s);
    else if (g->gpu && s->mma) sn_gen_mma(g, id);
    else if (g->gpu && sn_gen_is_box(g, id)) sn_gen_run_box(g, id);
    else if (g->gpu && sn_gen_is_ring(g, id)) sn_gen_run_ring(g, id);
    else if (sn_gen_is_block(g, s->kind)) sn_gen_block_region(g, s);
    else if (g->gpu && s->pipe) sn_gen_pipe(g, id);
    else if (n == 1 || sn_gen_waits_for_parts(g, s)) unrolled_loop(g, s, n);
    else if (s->kind == SN_AXIS_VECTOR && (sn_gen_runs(g, id) || sn_gen_vector_region(g, s))) return;
    else if (sn_gen_sums_across(g, s)) return;
    else if (is_written_out(g, s, n)) unrolled_loop(g, s, n);
    else seq_loop(g, s);
}

/* ---- statements ---- */

static void note_thread(void *user, sn_ix atom) {
    sn_gen *g = user;
    const sn_ix_rec *r = sn_ix_get(g->m, atom);
    lv x = r->kind == SN_IX_AXIS ? g->axes[r->id] : NULL;
    bool is_thread = x && (x == g->rank || x == g->thread_x || x == g->thread_y);
    if (is_thread || r->kind == SN_IX_VAL) g->divergent = true;
    if (r->kind == SN_IX_VAL) g->rare = true;
}

static void guarded(sn_gen *g, void *user) {
    const sn_stmt_rec *s = user;
    sn_gen_region(g, s->first);
}

static void under_test(sn_gen *g, sn_stmt_rec *s) {
    if (g->gpu) sn_gen_region(g, s->first);
    else sn_gen_iteration(g, s, guarded, s, NULL, 0); /* the loop around it has one version */
}

/* Written-out code knows the answer of many a test: a tap of a row that reaches beyond it has none but the
 * border of a block, over which LLVM moves nothing: without it depthwise convolutions take two registers more. */
static void conditional(sn_gen *g, sn_stmt_rec *s) {
    lv cond = sn_em_lane(&g->em, sn_gen_in(g, s->ix, s->bound), 0);
    if (em_is(cond, false)) {
        sn_em_if none = {.after = sn_em_block(&g->em, "after")};
        sn_em_end(&g->em, &none);
        return;
    }
    uint32_t mark = sn_gen_mark(g);
    sn_gen_turn turn = g->turn;
    bool divergent = g->divergent, rare = g->rare;
    uint32_t given = g->mma_given, done = g->mma_done;
    if (g->gpu) sn_ix_walk(g->m, s->ix, note_thread, g);
    if (g->gpu) sn_ix_walk(g->m, s->bound, note_thread, g);
    sn_em_if branch = sn_em_then(&g->em, cond, "if");
    under_test(g, s);
    sn_gen_settle(g, &turn);
    sn_em_end(&g->em, &branch);
    sn_gen_release(g, mark);
    g->divergent = divergent;
    g->rare = rare;
    sn_gen_leave_mma(g, given, done);
}

static lv index_value(sn_gen *g, const sn_stmt_rec *s) {
    lv x = sn_gen_ix(g, sn_gen_resolve(g, s->ix));
    return sn_math_cast(&g->em, s->dtype, g->index == g->em.cg->i64 ? SN_I64 : SN_I32, x);
}

/* ---- small integers ---- */

/* `left`: steps that may still be taken. A value that several read is walked for each of them. */
static sn_ix find_number(sn_gen *g, sn_val v, uint32_t *left) {
    enum { MOST = 1 << 22 };
    sn_module *m = g->m;
    sn_stmt def = sn_val_get(m, v)->def;
    const sn_stmt_rec *r = def.i ? sn_stmt_get(m, def) : NULL;
    sn_dtype t = sn_val_get(m, v)->dtype;
    sn_ix e = {0}, x, y;
    if (!r || (t != SN_I32 && t != SN_I64) || !*left) return e;
    --*left;
    if (r->op == SN_LOP_INDEX && !sn_ix_uses_vals(m, r->ix)) e = sn_gen_resolve(g, r->ix);
    if (r->op == SN_LOP_CONST) e = sn_ix_const(m, r->i);
    if (r->op == SN_LOP_CAST) e = find_number(g, r->in[0], left);
    if (r->op == SN_LOP_NEG && (x = find_number(g, r->in[0], left)).i) e = sn_ix_scale(m, x, -1);
    if ((r->op == SN_LOP_ADD || r->op == SN_LOP_SUB) && (x = find_number(g, r->in[0], left)).i &&
        (y = find_number(g, r->in[1], left)).i)
        e = r->op == SN_LOP_ADD ? sn_ix_add(m, x, y) : sn_ix_sub(m, x, y);
    if (!e.i) return e;
    sn_range all = sn_ix_range(m, e);
    return all.lo > -MOST && all.hi < MOST ? e : (sn_ix){0};
}

/* The integer as an index, where a few steps of arithmetic on indices make it, none of which is large. */
static sn_ix number_of(sn_gen *g, sn_val v) {
    uint32_t left = 64;
    return find_number(g, v, &left);
}

/* Such a number as a float; NULL: it is no such number. Below 2^22 it is added to the bits of 1.5 * 2^23, and that is subtracted: conversions take the unit
 * of exponentials, of which there are few, and those of 64 bits several turns of it. */
static lv float_of_number(sn_gen *g, sn_val v) {
    enum { BITS = 0x4b400000 };
    sn_em *em = &g->em;
    sn_stmt def = sn_val_get(g->m, v)->def;
    const sn_stmt_rec *r = def.i ? sn_stmt_get(g->m, def) : NULL;
    if (!r) return NULL;
    if (r->op == SN_LOP_ABS) {
        lv x = float_of_number(g, r->in[0]);
        return x ? sn_math_op(em, SN_LOP_ABS, SN_F32, &x, 1) : NULL;
    }
    sn_ix e = number_of(g, v);
    if (!e.i || sn_ix_is_const(g->m, e, NULL)) return NULL;
    lv x = sn_math_cast(em, SN_I32, g->index == em->cg->i64 ? SN_I64 : SN_I32, sn_gen_ix(g, e));
    return em_addc(em, sn_em_fbits(em, em_iadd(em, x, sn_em_i(em, x, BITS))), -0x1.8p23);
}

/* On a CPU a conversion of 64 bits takes twice as many registers, or no vector instruction at all. NULL: the number needs them. */
static lv narrow_number(sn_gen *g, sn_val v) {
    sn_ix e = sn_val_get(g->m, v)->dtype == SN_I64 ? number_of(g, v) : (sn_ix){0};
    if (g->gpu || !e.i || sn_ix_is_const(g->m, e, NULL)) return NULL;
    return sn_math_cast(&g->em, SN_I32, g->index == g->em.cg->i64 ? SN_I64 : SN_I32, sn_gen_ix(g, e));
}

static lv cast_value(sn_gen *g, const sn_stmt_rec *s, sn_dtype from, lv x) {
    bool integer = from == SN_I32 || from == SN_I64, small = s->dtype == SN_F32 || sn_is_narrow(s->dtype);
    lv y = g->gpu && integer && small ? float_of_number(g, s->in[0]) : NULL;
    if (y) return sn_math_cast(&g->em, s->dtype, SN_F32, y);
    if (sn_is_float(s->dtype)) y = narrow_number(g, s->in[0]);
    return y ? sn_math_cast(&g->em, s->dtype, SN_I32, y) : sn_math_cast(&g->em, s->dtype, from, x);
}

/* A quotient whose divisor stays the same for several is a product, but of f64, and on the CPU, only where the divisor is a sum of
 * exponentials: others are rounded correctly. */
static bool divisor_stays(const sn_gen *g, const sn_stmt_rec *s) {
    if (s->op != SN_LOP_DIV || !sn_val_stays(g->m, s->in[1], sn_val_get(g->m, s->result)->def)) return false;
    bool exact = !g->gpu || sn_val_get(g->m, s->result)->dtype == SN_F64;
    return !exact || g->positive[s->in[1].i] != SN_GEN_ANY;
}

/* Of a softmax of halves: e^x / y, where y stays the same and is a sum of sumexp, is one exponential, with the logarithm of y taken
 * once. (Of a sum of the same e^x registers may have those.) Returns NULL: s is something else. */
static lv quotient_of_exp(sn_gen *g, const sn_stmt_rec *s) {
    if (!g->em.stays || !g->em.coarse || sn_val_get(g->m, s->result)->dtype != SN_F32) return NULL;
    sn_stmt def = sn_val_get(g->m, s->in[0])->def;
    const sn_stmt_rec *e = def.i ? sn_stmt_get(g->m, def) : NULL;
    if (!e || e->op != SN_LOP_EXP || g->positive[s->in[1].i] != SN_GEN_WEIGHT) return NULL;
    return sn_math_exp_over(&g->em, sn_gen_val(g, e->in[0]), sn_gen_val(g, s->in[1]));
}

static lv scalar_value(sn_gen *g, const sn_stmt_rec *s) {
    sn_em *em = &g->em;
    lv in[3];
    if (g->known[s->result.i]) return LLVMConstInt(em->cg->i1, g->known[s->result.i] == SN_GEN_HOLDS, 0);
    SN_ASSERT(s->n_in <= SN_COUNT(in));
    for (uint32_t i = 0; i < s->n_in; i++) in[i] = sn_gen_val(g, s->in[i]);
    sn_dtype from = s->n_in ? sn_val_get(g->m, s->in[s->n_in - 1])->dtype : s->dtype;
    switch ((int)s->op) {
    case SN_LOP_CONST: return sn_math_const(em, s->dtype, s->f, s->i);
    case SN_LOP_CAST: return cast_value(g, s, from, in[0]);
    case SN_LOP_BITCAST: return sn_math_bitcast(em, s->dtype, from, in[0]);
    case SN_LOP_INDEX: return index_value(g, s);
    case SN_LOP_IN: return sn_gen_in(g, s->ix, s->bound);
    default: break;
    }
    em->coarse = g->gpu && g->coarse[s->result.i];
    em->blunt = g->gpu && g->blunt[s->result.i];
    em->term = g->gpu && s->op == SN_LOP_EXP && g->term[s->result.i];
    em->stays = divisor_stays(g, s);
    em->middle = s->op == SN_LOP_DIV && g->middle[s->in[1].i];
    lv x = quotient_of_exp(g, s);
    if (!x) x = sn_gen_byte_op(g, s->op, from, in, s->n_in);
    if (!x) x = sn_math_op(em, s->op, from, in, s->n_in);
    em->coarse = em->blunt = em->term = em->stays = em->middle = false;
    return x;
}

/* Blocks of a team share no memory but global buffers: does one pass something to another there? Not where a result takes the place of what it is made
 * of: the same thread has loaded that (passes/plan/inplace.c). */
static bool team_passes(const sn_gen *g) {
    for (sn_stmt s = sn_stmt_walk_first(g->m, g->kern); s.i; s = sn_stmt_walk_next(g->m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(g->m, s);
        if (sn_loads(r) && !sn_buf_is_local(sn_buf_get(g->m, r->buf)) && sn_kern_stores(g->m, g->kern, r->buf))
            return true;
    }
    return false;
}

/* Threads that do not come here would leave the others waiting. */
static void barrier(sn_gen *g, sn_stmt s) {
    if (g->divergent && g->status == SN_OK)
        g->status = sn_fail(g->env, SN_ERROR_UNSUPPORTED,
                            "kernel %s: a barrier stands where not all threads of the block come", g->k->name);
    if (g->gpu) sn_gen_order_boxes(g, s);
    bool wide = g->cluster > 1 && g->role == SN_GEN_ALL && (!g->teams || team_passes(g));
    if (g->gpu && wide) sn_gen_cluster_barrier(g);
    else if (g->gpu && g->own_groups > 1) sn_gen_own_barrier(g);
    else if (g->gpu) sn_gen_barrier(g);
}

void sn_gen_statement(sn_gen *g, sn_stmt id) {
    sn_stmt_rec *s = sn_stmt_get(g->m, id);
    if (g->role != SN_GEN_ALL && sn_gen_skips(g, id)) return;
    switch (s->op) {
    case SN_LOP_LOAD: sn_gen_load(g, s); return;
    case SN_LOP_STORE: sn_gen_store(g, s); return;
    case SN_LOP_PREFETCH: sn_gen_prefetch(g, s); return;
    case SN_LOP_ACCUM: sn_gen_accum(g, s); return;
    case SN_LOP_LOOP: loop(g, id, s); return;
    case SN_LOP_REDUCE: sn_gen_reduce(g, s); return;
    case SN_LOP_BARRIER: barrier(g, id); return;
    case SN_LOP_WAIT: sn_gen_wait_for_kernels(g); return;
    case SN_LOP_IF: conditional(g, s); return;
    case SN_LOP_YIELD:
        for (uint32_t i = 0; i < s->n_in; i++) g->yields[i] = sn_gen_val(g, s->in[i]);
        return;
    case SN_LOP_CONST:
    case SN_LOP_CAST:
    case SN_LOP_BITCAST:
    case SN_LOP_INDEX:
    case SN_LOP_IN:
#define SN_LOP(ID, name, n_in, result, f, i) case SN_LOP_##ID:
#include "ir/ops/lops.def"
        if (!sn_gen_run_value(g, s)) g->vals[s->result.i] = scalar_value(g, s);
        return;
    case SN_N_ALL_LOPS: return;
    }
}
