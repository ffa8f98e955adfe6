/* unroll_and_jam.c: the pass `unroll-and-jam`: rows that all want the same long weights are done two at a time.
 *
 *     loop i in 512 { %s = reduce sum r in M { load x[M*i + r] .. }   loop j in M { load x[M*i + j]  load w[j] .. store y[M*i + j] } }
 *  -> loop i in 256 { %s, %t = reduce (sum, sum) r in M { load x[M*i + r] ..  load x[M*i + 256*M + r] .. }
 *                     loop j in M { load w[j]   load x[M*i + j] .. store y[M*i + j]   load x[M*i + 256*M + j] .. store y[..] } }
 *
 * Where the weights of a norm are more than a multiprocessor's nearest cache keeps, each row brings them again, lane by
 * lane where they begin elsewhere than the vectors of the row do: of a layer norm that takes longer than the row
 * itself. Two rows that are done together bring them once.
 *
 * Rows that share vectors have to begin alike (their leads, passes/schedule/rows/rows.c): the second one is a multiple
 * of a vector's rows further on. Where that leaves rows over, some are done together with themselves: the same thread
 * computes and stores the same element twice.
 *
 * Legal because outer loops are parallel. Only kernels of one loop over rows whose nests all walk a row, of which
 * something is read twice, and for which a cluster has room twice. Behind all passes that cut kernels and axes. Cost: a
 * copy of each such kernel.
 */
#include "passes/fuse/fuse.h"
#include "passes/schedule/base/figures.h"

typedef struct jam {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_stmt loop; /* over rows */
    int64_t rows, count;
    int64_t shared; /* bytes of weights */
    uint32_t kept;  /* bytes of an element that several nests read */
    uint32_t least; /* bytes of the smallest element of a row */
    uint32_t nests, reduces, stores;
} jam;

/* ---- is it one? ---- */

typedef struct seen {
    sn_buf buf;
    uint32_t nest;
    bool again, stored;
} seen;

enum { MOST_BUFFERS = 16 };

/* What nests load, and store alone: of a row, or for all rows alike. */
static bool look_at_access(jam *j, seen *all, uint32_t *n, const sn_stmt_rec *r) {
    sn_module *m = j->m;
    const sn_buf_rec *b = sn_buf_get(m, r->buf);
    uint32_t bytes = sn_dtype_bytes(b->dtype), i = 0;
    bool of_row = sn_ix_uses_axis(m, r->ix, sn_stmt_axis(m, j->loop)), store = r->op == SN_LOP_STORE;
    if (r->has_mask || sn_ix_uses_vals(m, r->ix) || !sn_buf_is_global(b) || (store && !of_row)) return false;
    while (i < *n && !sn_buf_eq(all[i].buf, r->buf)) i++;
    if (i == MOST_BUFFERS || (i < *n && all[i].stored != store)) return false;
    if (i == *n) {
        all[(*n)++] = (seen){r->buf, j->nests, false, store};
        if (!of_row) j->shared = sn_add_clamped(j->shared, sn_buf_bytes(m, r->buf));
    } else if (of_row && !store && all[i].nest != j->nests && !all[i].again) {
        all[i].again = true;
        j->kept += bytes;
    }
    if (of_row) sn_schedule_smaller(&j->least, bytes);
    j->stores += store;
    return true;
}

static bool look_at_nest(jam *j, seen *all, uint32_t *n, sn_stmt top) {
    sn_module *m = j->m;
    sn_chain c;
    const sn_stmt_rec *r = sn_stmt_get(m, top);
    if (!sn_nest_perfect(&c, m, top) || sn_is_scan(m, top) || r->kind != SN_AXIS_SEQ) return false;
    if (j->count && sn_chain_count(m, &c) != j->count) return false;
    j->count = sn_chain_count(m, &c);
    j->reduces += r->op == SN_LOP_REDUCE;
    sn_stmt end = sn_stmt_walk_skip(m, top);
    for (sn_stmt s = top; s.i && s.i != end.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *in = sn_stmt_get(m, s);
        if (in->buf.i && (!sn_is_access(in) || !look_at_access(j, all, n, in))) return false;
    }
    j->nests++;
    return j->count > 0;
}

static bool look(jam *j) {
    sn_module *m = j->m;
    sn_chain outer;
    seen all[MOST_BUFFERS];
    uint32_t n = 0;
    sn_chain_outer(&outer, m, j->k);
    if (outer.n != 1 || !sn_ix_is_const(m, sn_stmt_extent(m, outer.at[0]), &j->rows)) return false;
    j->loop = outer.at[0];
    for (sn_stmt s = sn_stmt_get(m, j->loop)->first; s.i; s = sn_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        if (sn_lop_has_region(r->op) && (!sn_is_nest(r) || !look_at_nest(j, all, &n, s))) return false;
    }
    return j->reduces && j->stores && j->kept && j->shared;
}

/* ---- does it pay? ---- */

/* Rows after which one begins as this one does, as far as any vector goes. */
static int64_t alike(const jam *j) {
    int64_t v = j->cx->target->vector_bytes / j->least;
    return v / sn_schedule_gcd(j->count, v);
}

/* Rows from the first one to the second. */
static int64_t distance(const jam *j) {
    int64_t of = alike(j);
    return sn_ceil_div(sn_ceil_div(j->rows, 2), of) * of;
}

/* Do weights take more than the rows themselves? Single elements lie side by side, as those of f64 and of shorter rows of floats do, and whole vectors of
 * halves take as much for each byte. */
static bool weights_are_dear(const jam *j) {
    bool singles = j->least == SN_WORD && j->count % 2 && j->count < SN_LONG_ODD_ROW;
    return j->least == SN_WORD ? !singles : j->least < SN_WORD && alike(j) > 1;
}

static bool pays(const jam *j) {
    const sn_target *t = j->cx->target;
    int64_t row = sn_mul_clamped(j->count, j->kept), blocks = sn_ceil_div(2 * row, t->shared_bytes / SN_JAM_BLOCKS),
            d = distance(j), alone = j->rows - d, room = (int64_t)t->units * t->shared_bytes;
    if (!t->is_gpu || t->cluster < 2 || j->shared < SN_JAM_WEIGHTS || blocks > t->cluster) return false;
    if (!weights_are_dear(j) || alone < 1 || (d - alone) * SN_JAM_SPARE > j->rows) return false;
    return sn_mul_clamped(j->rows, row) / 100 >= room / 100 * SN_JAM_TURNS / 100;
}

/* ---- doing it ---- */

/* Every statement in the loop is about another row. */
static void move_rows(sn_module *m, sn_stmt loop, sn_axis ax, sn_ix to) {
    sn_axis old = sn_stmt_axis(m, loop);
    for (sn_stmt s = sn_stmt_get(m, loop)->first; s.i; s = sn_next(m, s)) sn_stmt_subst(m, s, &old, &to, 1);
    sn_stmt_get(m, loop)->axis = ax;
}

static uint32_t count_nests(const sn_module *m, sn_stmt loop) {
    uint32_t n = 0;
    for (sn_stmt s = sn_stmt_get(m, loop)->first; s.i; s = sn_next(m, s)) n += sn_is_nest(sn_stmt_get(m, s));
    return n;
}

/* A copy in which all nests of the one row have become nests of both; none: some could not. */
static sn_kern take_two(jam *j) {
    sn_module *m = j->m;
    int64_t d = distance(j), others = j->rows - d;
    sn_kern a = sn_kern_clone(m, j->k), b = sn_kern_clone(m, j->k);
    sn_fuse_match mt = {.shared = 1};
    sn_chain_outer(&mt.a, m, a);
    sn_chain_outer(&mt.b, m, b);
    const char *name = sn_axis_get(m, sn_stmt_axis(m, j->loop))->name;
    sn_axis of[2] = {sn_axis_new(m, name, sn_ix_const(m, d)), sn_axis_new(m, name, sn_ix_const(m, d))};
    sn_ix first = sn_ix_axis(m, of[0]), i = sn_ix_axis(m, of[1]), second = sn_ix_addc(m, i, d);
    if (others < d) second = sn_ix_fma(m, -d, sn_ix_divc(m, i, others), second);
    move_rows(m, mt.a.at[0], of[0], first);
    move_rows(m, mt.b.at[0], of[1], second);
    sn_fuse_merge(j->cx, a, b, &mt);
    sn_kern_cse(m, a);
    sn_kern_collect_params(m, a);
    return count_nests(m, mt.a.at[0]) == j->nests ? a : (sn_kern){0};
}

sn_status sn_pass_unroll_and_jam(sn_pass_ctx *cx, bool *changed) {
    sn_module *m = cx->m;
    for (uint32_t i = 0; i < m->kernels.n && cx->target->is_gpu; i++) {
        jam j = {.cx = cx, .m = m, .k = m->kernels.at[i]};
        const sn_kern_rec *r = sn_kern_get(m, j.k);
        if (!sn_kern_is_free(r)) continue;
        if (!look(&j) || !pays(&j)) continue;
        sn_kern both = take_two(&j);
        if (!both.i) continue;
        sn_remark(cx, r->name, "rows are done two at a time: %lld bytes belong to all of them", (long long)j.shared);
        sn_kern_take_place(m, j.k, both);
        *changed = true;
    }
    return m->env->status;
}
