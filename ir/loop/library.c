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
#include "ir/loop/library_nest.h"

#include <limits.h>

/* ---- axes ---- */

static bool read_steps(sn_nest_reader *rd, int which) {
    const sn_stmt_rec *r = sn_stmt_get(rd->m, rd->access[which]);
    sn_ix at_zero = r->ix, zero = sn_ix_const(rd->m, 0);
    int64_t last, size;
    if (r->has_mask) return sn_nest_refuse(rd, "an access has a mask");
    for (uint32_t i = 0; i < rd->n; i++) {
        if (!sn_ix_coef(rd->m, r->ix, rd->axes[i].ax, &rd->axes[i].step[which]))
            return sn_nest_refuse(rd, "an access does not walk along its axes in even steps");
        if (rd->axes[i].step[which] < 0) return sn_nest_refuse(rd, "an access walks backwards");
        at_zero = sn_ix_subst(rd->m, at_zero, &rd->axes[i].ax, &zero, 1);
    }
    if (!sn_ix_is_const(rd->m, at_zero, &rd->offset[which]) ||
        !sn_ix_is_const(rd->m, sn_buf_get(rd->m, r->buf)->size, &size))
        return sn_nest_refuse(rd, "an access does not walk along its axes in even steps");
    last = rd->offset[which];
    for (uint32_t i = 0; i < rd->n; i++) {
        int64_t far;
        bool over = sn_mul_overflow(rd->axes[i].step[which], rd->axes[i].extent - 1, &far);
        if (over || sn_add_overflow(last, far, &last)) return sn_nest_refuse(rd, "an access leaves its buffer");
    }
    return (rd->offset[which] >= 0 && last < size) || sn_nest_refuse(rd, "an access leaves its buffer");
}

static bool read_kinds(sn_nest_reader *rd) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < rd->n; i++) {
        sn_nest_axis *w = &rd->axes[i];
        for (int which = SN_NEST_A; which <= SN_NEST_C; which++) w->kind |= w->step[which] ? 1 << which : 0;
        if (w->extent == 1) continue;
        if (w->kind != SN_OF_BATCH && w->kind != SN_OF_M && w->kind != SN_OF_N && w->kind != SN_OF_K)
            return sn_nest_refuse(rd, "an axis is that of one factor alone");
        rd->axes[n++] = *w;
    }
    rd->n = n;
    return true;
}

static bool as_one(const sn_nest_axis *outer, const sn_nest_axis *inner) {
    bool one = outer->kind == inner->kind;
    for (int which = 0; which < SN_NEST_MATRICES; which++) {
        int64_t step;
        one &= !sn_mul_overflow(inner->step[which], inner->extent, &step) && outer->step[which] == step;
    }
    return one && outer->extent <= INT_MAX / inner->extent;
}

/* Axes of one kind that every access walks as one. */
static void join_axes(sn_nest_reader *rd) {
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
static sn_nest_axis *axis_of(sn_nest_reader *rd, int kind) {
    for (uint32_t i = 0; i < rd->n; i++)
        if (rd->axes[i].kind == kind) return &rd->axes[i];
    return NULL;
}

/* The widest-stepping second axis of m or of n is the batch, where there is none: the other factor stays the same. */
static bool one_of_each(sn_nest_reader *rd) {
    for (uint32_t i = 0; i < rd->n; i++)
        for (uint32_t j = 0; j < i; j++) {
            sn_nest_axis *x = &rd->axes[i], *y = &rd->axes[j];
            if (x->kind != y->kind) continue;
            if (x->kind == SN_OF_BATCH || x->kind == SN_OF_K || axis_of(rd, SN_OF_BATCH))
                return sn_nest_refuse(rd, "its axes are not those of a batch and two matrices");
            (x->step[SN_NEST_C] > y->step[SN_NEST_C] ? x : y)->kind = SN_OF_BATCH;
        }
    return true;
}

/* ---- matrices ---- */

static sn_library_matrix matrix(sn_nest_reader *rd, int which) {
    const sn_nest_axis *batch = axis_of(rd, SN_OF_BATCH);
    return sn_nest_matrix(rd, which, batch ? batch->step[which] : 0);
}

/* The matrix, with rows and columns along these axes (NULL: one), by columns or, if it may be, transposed. */
static bool lay_out(sn_library_matrix *out, sn_nest_reader *rd, int which, const sn_nest_axis *rows,
                    const sn_nest_axis *cols, bool may_transpose) {
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
static bool try_roles(sn_library_call *out, sn_nest_reader *rd, int a, int b) {
    const sn_nest_axis *rows = axis_of(rd, a == SN_NEST_A ? SN_OF_M : SN_OF_N),
                       *cols = axis_of(rd, a == SN_NEST_A ? SN_OF_N : SN_OF_M);
    const sn_nest_axis *k = axis_of(rd, SN_OF_K), *batch = axis_of(rd, SN_OF_BATCH);
    *out = (sn_library_call){.m = rows ? rows->extent : 1,
                             .n = cols ? cols->extent : 1,
                             .k = k ? k->extent : 1,
                             .batch = batch ? batch->extent : 1,
                             .sum = sn_val_get(rd->m, rd->sum)->dtype,
                             .precision = rd->k->sched.precision,
                             .relu = rd->relu,
                             .has_bias = rd->access[SN_NEST_BIAS].i,
                             .algo = rd->k->sched.algo};
    if (!lay_out(&out->c, rd, SN_NEST_C, rows, cols, false) || !lay_out(&out->a, rd, a, rows, k, true) ||
        !lay_out(&out->b, rd, b, k, cols, true) || !results_apart(out))
        return false;
    if (!out->has_bias) return true;
    out->bias = matrix(rd, SN_NEST_BIAS);
    return !out->bias.stride && (!rows || rows->step[SN_NEST_BIAS] == 1) && (!cols || !cols->step[SN_NEST_BIAS]);
}

static bool read_matrices(sn_library_call *out, sn_nest_reader *rd) {
    if (try_roles(out, rd, SN_NEST_B, SN_NEST_A) || try_roles(out, rd, SN_NEST_A, SN_NEST_B)) return true;
    return sn_nest_refuse(rd, "its matrices or its bias do not lie in memory as those of libraries");
}

static bool read_product(sn_library_call *out, sn_nest_reader *rd) {
    for (int which = 0; which < SN_NEST_MATRICES; which++)
        if (rd->access[which].i && !read_steps(rd, which)) return false;
    if (!read_kinds(rd)) return false;
    join_axes(rd);
    return one_of_each(rd) && read_matrices(out, rd);
}

static bool loads_what_it_stores(const sn_nest_reader *rd) {
    sn_buf result = sn_stmt_get(rd->m, rd->store)->buf;
    bool loads = false;
    for (int which = 0; which < SN_NEST_MATRICES; which++)
        if (which != SN_NEST_C && rd->access[which].i)
            loads |= sn_buf_eq(sn_stmt_get(rd->m, rd->access[which])->buf, result);
    return loads;
}

/* What is no product may be a convolution; why it is none is of interest where an image ends. */
bool sn_library_read(sn_library_call *out, const char **why_not, sn_module *m, sn_kern k) {
    sn_nest_reader rd = {.m = m, .k = sn_kern_get(m, k)};
    bool found = sn_nest_read(&rd);
    if (found && loads_what_it_stores(&rd)) found = sn_nest_refuse(&rd, "it stores where it loads");
    if (found) {
        sn_nest_reader as_product = rd;
        found = read_product(out, &as_product) || sn_nest_read_conv(out, &rd);
        if (!found && !rd.why) rd.why = as_product.why;
    }
    if (!found) *why_not = rd.why;
    return found;
}
