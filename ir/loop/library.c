/* library.c: reads a matrix product off a plain nest, as the call of a library.
 *
 *     loop i in M { loop j in N { %s = reduce sum r in K { yield x[K*i + r] * w[K*j + r] }   store y[N*i + j], f(%s) } }
 *  -> m = N, n = M, k = K; a = w, transposed, ld K; b = x, ld K; c = y, ld N
 *
 * Libraries number matrices by columns, so rows of y are their columns. An axis is what the accesses say: of the batch,
 * if both factors and the result move along it, of m, n or k if two of the three do. Axes of one kind that all of them
 * walk as one become one. The epilogue may be what a library does before it rounds to the result's dtype: a bias along m
 * and a maximum with 0. A cast to that dtype and back between the sum and the bias is not that; one behind the bias is, for
 * rounding twice is rounding once, and keeps order. Looks at the nest alone: whether a library has such a product, it says itself.
 */
#include "ir/loop/library.h"

#include "ir/loop/access.h"

#include <limits.h>

/* Who walks along an axis; a set of them says what the axis is. */
enum {
    IN_A = 1,
    IN_B = 2,
    IN_C = 4,
    BATCH = IN_A | IN_B | IN_C,
    OF_M = IN_A | IN_C,
    OF_N = IN_B | IN_C,
    OF_K = IN_A | IN_B
};
enum { A, B, C, BIAS, N_MATRICES };

typedef struct walk {
    sn_axis ax;
    int64_t extent;
    int64_t step[N_MATRICES]; /* elements */
    int kind;
} walk;

typedef struct reader {
    sn_module *m;
    const sn_kern_rec *k;
    const char *why;
    sn_stmt store, yield;
    sn_val sum;
    walk axes[SN_MAX_CHAIN];
    uint32_t n;
    sn_stmt access[N_MATRICES];
    int64_t offset[N_MATRICES];
    bool relu;
} reader;

static bool refuse(reader *rd, const char *why) {
    rd->why = why;
    return false;
}

static const sn_stmt_rec *def_of(const reader *rd, sn_val v) { return sn_stmt_get(rd->m, sn_val_get(rd->m, v)->def); }

/* ---- the nest ---- */

static bool take_axis(reader *rd, const sn_stmt_rec *r) {
    walk *w = &rd->axes[rd->n];
    *w = (walk){.ax = r->axis};
    if (r->kind != SN_AXIS_SEQ) return refuse(rd, "its axes are bound");
    if (rd->n == SN_MAX_CHAIN || !sn_ix_is_const(rd->m, sn_axis_get(rd->m, r->axis)->extent, &w->extent))
        return refuse(rd, "a size is symbolic");
    if (w->extent < 1 || w->extent > INT_MAX) return refuse(rd, "a size is not one that libraries count");
    rd->n++;
    return true;
}

/* Sums in sums are one sum. */
static bool take_sum(reader *rd, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(rd->m, s);
    if (rd->sum.i) return refuse(rd, "it is more than one reduction");
    rd->sum = r->result;
    for (;; r = sn_stmt_get(rd->m, s)) {
        if (r->n_combs != 1 || r->combs[0] != SN_COMB_SUM) return refuse(rd, "it is not one sum");
        if (!take_axis(rd, r)) return false;
        rd->yield = r->last;
        s = r->first;
        const sn_stmt_rec *inner = sn_stmt_get(rd->m, s);
        if (inner->op != SN_LOP_REDUCE) break;
        bool passed_on = inner->next.i == rd->yield.i && sn_stmt_get(rd->m, rd->yield)->in[0].i == inner->result.i;
        if (!passed_on) return refuse(rd, "its reductions are not one nest");
    }
    for (; s.i; s = sn_stmt_get(rd->m, s)->next)
        if (sn_lop_has_region(sn_stmt_get(rd->m, s)->op)) return refuse(rd, "its reductions are not one nest");
    return true;
}

/* Loops, each alone in its region; in the innermost one a sum and a store. */
static bool read_nest(reader *rd) {
    sn_stmt s = rd->k->first;
    while (s.i && sn_stmt_get(rd->m, s)->op == SN_LOP_LOOP) {
        const sn_stmt_rec *r = sn_stmt_get(rd->m, s);
        if (r->next.i || r->prev.i) return refuse(rd, "its loops are not one nest");
        if (!take_axis(rd, r)) return false;
        s = r->first;
    }
    for (; s.i; s = sn_stmt_get(rd->m, s)->next) {
        const sn_stmt_rec *r = sn_stmt_get(rd->m, s);
        if (r->op == SN_LOP_REDUCE ? !take_sum(rd, s) : sn_lop_has_region(r->op))
            return rd->why ? false : refuse(rd, "its loops are not one nest");
        if (sn_stores(r) && rd->store.i) return refuse(rd, "it stores two results");
        if (sn_stores(r)) rd->store = s;
    }
    if (!rd->sum.i || !rd->store.i) return refuse(rd, "it has no reduction");
    rd->access[C] = rd->store;
    return true;
}

/* ---- values ---- */

/* An element of memory, converted to the dtype of the sum at most. */
static bool take_element(reader *rd, int which, sn_val v) {
    const sn_stmt_rec *r = def_of(rd, v);
    if (r->op == SN_LOP_CAST) v = r->in[0];
    rd->access[which] = sn_val_get(rd->m, v)->def;
    return sn_stmt_get(rd->m, rd->access[which])->op == SN_LOP_LOAD;
}

static bool read_product(reader *rd) {
    const sn_stmt_rec *r = def_of(rd, sn_stmt_get(rd->m, rd->yield)->in[0]);
    if (r->op != SN_LOP_MUL) return refuse(rd, "what it adds up is not one product");
    return (take_element(rd, A, r->in[0]) && take_element(rd, B, r->in[1])) ||
           refuse(rd, "a factor is not an element of memory");
}

static bool is_zero(const reader *rd, sn_val v) {
    const sn_stmt_rec *r = def_of(rd, v);
    return r->op == SN_LOP_CONST && (sn_is_float(r->dtype) ? r->f == 0 : r->i == 0);
}

/* The operand of a cast to the dtype, none if v is something else. */
static sn_val cast_of(const reader *rd, sn_val v, sn_dtype to) {
    const sn_stmt_rec *r = def_of(rd, v);
    return r->op == SN_LOP_CAST && r->dtype == to ? r->in[0] : (sn_val){0};
}

/* v in the dtype of the sum, before it was rounded to that of the result: nothing but another such rounding, or a
 * maximum with 0, comes behind. */
static sn_val unrounded(const reader *rd, sn_val v, sn_dtype sum, sn_dtype out) {
    sn_val narrow = sum != out ? cast_of(rd, v, sum) : (sn_val){0};
    sn_val wide = narrow.i ? cast_of(rd, narrow, out) : narrow;
    return wide.i && sn_val_get(rd->m, wide)->dtype == sum ? wide : v;
}

/* What is stored, from behind: rounded, of a maximum with 0, of the sum and a bias. */
static bool read_epilogue(reader *rd) {
    sn_dtype sum = sn_val_get(rd->m, rd->sum)->dtype,
             out = sn_buf_get(rd->m, sn_stmt_get(rd->m, rd->store)->buf)->dtype;
    sn_val v = sn_stmt_get(rd->m, rd->store)->in[0];
    if (sum != out) v = cast_of(rd, v, out);
    if (!v.i) return refuse(rd, "what it stores is not converted from the sum");
    v = unrounded(rd, v, sum, out);
    const sn_stmt_rec *r = def_of(rd, v);
    if (r->op == SN_LOP_MAX && (is_zero(rd, r->in[0]) || is_zero(rd, r->in[1]))) {
        rd->relu = true;
        v = unrounded(rd, r->in[is_zero(rd, r->in[0])], sum, out);
        r = def_of(rd, v);
    }
    if (r->op == SN_LOP_ADD) {
        bool second = r->in[1].i == rd->sum.i;
        if (!take_element(rd, BIAS, r->in[!second]))
            return refuse(rd, "it adds something that is no element of memory");
        v = r->in[second];
    }
    if (v.i == rd->sum.i && sn_val_get(rd->m, v)->dtype == sum) return true;
    return refuse(rd, cast_of(rd, v, sum).i ? "the sum is rounded before more is done with it"
                                            : "it does more with the sum than libraries do");
}

/* ---- axes ---- */

static bool read_steps(reader *rd, int which) {
    const sn_stmt_rec *r = sn_stmt_get(rd->m, rd->access[which]);
    sn_ix at_zero = r->ix, zero = sn_ix_const(rd->m, 0);
    int64_t last, size;
    if (r->has_mask) return refuse(rd, "an access has a mask");
    for (uint32_t i = 0; i < rd->n; i++) {
        if (!sn_ix_coef(rd->m, r->ix, rd->axes[i].ax, &rd->axes[i].step[which]))
            return refuse(rd, "an access does not walk along its axes in even steps");
        if (rd->axes[i].step[which] < 0) return refuse(rd, "an access walks backwards");
        at_zero = sn_ix_subst(rd->m, at_zero, &rd->axes[i].ax, &zero, 1);
    }
    if (!sn_ix_is_const(rd->m, at_zero, &rd->offset[which]) ||
        !sn_ix_is_const(rd->m, sn_buf_get(rd->m, r->buf)->size, &size))
        return refuse(rd, "an access does not walk along its axes in even steps");
    last = rd->offset[which];
    for (uint32_t i = 0; i < rd->n; i++) {
        int64_t far;
        bool over = sn_mul_overflow(rd->axes[i].step[which], rd->axes[i].extent - 1, &far);
        if (over || sn_add_overflow(last, far, &last)) return refuse(rd, "an access leaves its buffer");
    }
    return (rd->offset[which] >= 0 && last < size) || refuse(rd, "an access leaves its buffer");
}

static bool read_kinds(reader *rd) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < rd->n; i++) {
        walk *w = &rd->axes[i];
        for (int which = A; which <= C; which++) w->kind |= w->step[which] ? 1 << which : 0;
        if (w->extent == 1) continue;
        if (w->kind != BATCH && w->kind != OF_M && w->kind != OF_N && w->kind != OF_K)
            return refuse(rd, "an axis is that of one factor alone");
        rd->axes[n++] = *w;
    }
    rd->n = n;
    return true;
}

static bool as_one(const walk *outer, const walk *inner) {
    bool one = outer->kind == inner->kind;
    for (int which = 0; which < N_MATRICES; which++) {
        int64_t step;
        one &= !sn_mul_overflow(inner->step[which], inner->extent, &step) && outer->step[which] == step;
    }
    return one && outer->extent <= INT_MAX / inner->extent;
}

/* Axes of one kind that every access walks as one. */
static void join_axes(reader *rd) {
    for (uint32_t i = 0; i < rd->n; i++) {
        for (uint32_t j = 0; j < rd->n; j++) {
            if (i == j || !as_one(&rd->axes[i], &rd->axes[j])) continue;
            rd->axes[j].extent *= rd->axes[i].extent;
            rd->axes[i] = rd->axes[--rd->n];
            i = UINT32_MAX; /* what is longer now may join with others */
            break;
        }
    }
}

/* The axis of a kind; NULL: there is none. */
static walk *axis_of(reader *rd, int kind) {
    for (uint32_t i = 0; i < rd->n; i++)
        if (rd->axes[i].kind == kind) return &rd->axes[i];
    return NULL;
}

/* The widest-stepping second axis of m or of n is the batch, where there is none: the other factor stays the same. */
static bool one_of_each(reader *rd) {
    for (uint32_t i = 0; i < rd->n; i++)
        for (uint32_t j = 0; j < i; j++) {
            walk *x = &rd->axes[i], *y = &rd->axes[j];
            if (x->kind != y->kind) continue;
            if (x->kind == BATCH || x->kind == OF_K || axis_of(rd, BATCH))
                return refuse(rd, "its axes are not those of a batch and two matrices");
            (x->step[C] > y->step[C] ? x : y)->kind = BATCH;
        }
    return true;
}

/* ---- matrices ---- */

static uint32_t alignment(const reader *rd, int which, int64_t stride) {
    const sn_buf_rec *b = sn_buf_get(rd->m, sn_stmt_get(rd->m, rd->access[which])->buf);
    uint64_t bytes = (uint64_t)sn_dtype_bytes(b->dtype), bits = (uint64_t)rd->offset[which] | (uint64_t)stride;
    uint64_t align = b->align > bytes ? b->align : bytes;
    while (bits * bytes % align) align /= 2;
    return (uint32_t)align;
}

static sn_library_matrix matrix(reader *rd, int which) {
    const walk *batch = axis_of(rd, BATCH);
    sn_buf b = sn_stmt_get(rd->m, rd->access[which])->buf;
    int64_t stride = batch ? batch->step[which] : 0;
    sn_library_matrix mx = {.offset = rd->offset[which], .stride = stride, .dtype = sn_buf_get(rd->m, b)->dtype};
    while (!sn_buf_eq(rd->k->params.at[mx.param], b)) mx.param++;
    mx.align = alignment(rd, which, stride);
    return mx;
}

/* The matrix, with rows and columns along these axes (NULL: one), by columns or, if it may be, transposed. */
static bool lay_out(sn_library_matrix *out, reader *rd, int which, const walk *rows, const walk *cols,
                    bool may_transpose) {
    int64_t n_rows = rows ? rows->extent : 1, n_cols = cols ? cols->extent : 1;
    int64_t row_step = rows ? rows->step[which] : 1, col_step = cols ? cols->step[which] : n_rows;
    *out = matrix(rd, which);
    out->ld = col_step;
    if (row_step == 1 && col_step >= n_rows) return true;
    out->transposed = true;
    out->ld = rows ? row_step : n_cols;
    return may_transpose && (!cols || col_step == 1) && out->ld >= n_cols;
}

/* Do the matrices of the result's batch lie apart: one behind the other, or all between two columns? */
static bool results_apart(const sn_library_call *c) {
    int64_t whole = c->c.ld * (c->n - 1) + c->m;
    return c->batch == 1 || c->c.stride >= whole || (c->c.stride >= c->m && c->c.stride <= c->c.ld / c->batch);
}

/* With one factor as a, which has the rows, and the other as b. */
static bool try_roles(sn_library_call *out, reader *rd, int a, int b) {
    const walk *rows = axis_of(rd, a == A ? OF_M : OF_N), *cols = axis_of(rd, a == A ? OF_N : OF_M);
    const walk *k = axis_of(rd, OF_K), *batch = axis_of(rd, BATCH);
    *out = (sn_library_call){.m = rows ? rows->extent : 1,
                             .n = cols ? cols->extent : 1,
                             .k = k ? k->extent : 1,
                             .batch = batch ? batch->extent : 1,
                             .sum = sn_val_get(rd->m, rd->sum)->dtype,
                             .precision = rd->k->sched.precision,
                             .relu = rd->relu,
                             .has_bias = rd->access[BIAS].i,
                             .algo = rd->k->sched.algo};
    if (!lay_out(&out->c, rd, C, rows, cols, false) || !lay_out(&out->a, rd, a, rows, k, true) ||
        !lay_out(&out->b, rd, b, k, cols, true) || !results_apart(out))
        return false;
    if (!out->has_bias) return true;
    out->bias = matrix(rd, BIAS);
    return !out->bias.stride && (!rows || rows->step[BIAS] == 1) && (!cols || !cols->step[BIAS]);
}

static bool read_matrices(sn_library_call *out, reader *rd) {
    sn_buf result = sn_stmt_get(rd->m, rd->store)->buf;
    for (int which = A; which < N_MATRICES; which++)
        if (which != C && rd->access[which].i && sn_buf_eq(sn_stmt_get(rd->m, rd->access[which])->buf, result))
            return refuse(rd, "it stores where it loads");
    if (try_roles(out, rd, B, A) || try_roles(out, rd, A, B)) return true;
    return refuse(rd, "its matrices or its bias do not lie in memory as those of libraries");
}

bool sn_library_read(sn_library_call *out, const char **why_not, sn_module *m, sn_kern k) {
    reader rd = {.m = m, .k = sn_kern_get(m, k)};
    bool found = read_nest(&rd) && read_product(&rd) && read_epilogue(&rd);
    for (int which = 0; found && which < N_MATRICES; which++)
        if (rd.access[which].i) found = read_steps(&rd, which);
    if (found) found = read_kinds(&rd);
    if (found) {
        join_axes(&rd);
        found = one_of_each(&rd) && read_matrices(out, &rd);
    }
    if (!found) *why_not = rd.why;
    return found;
}
