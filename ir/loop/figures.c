/* figures.c: a kernel in figures: statements, iterations, bytes and operations, as its text has them.
 *
 *     loop g in 64 : grid { %0 = reduce sum x in 128 : block.x { %1 = load x[128*g + x]  yield %1 }  store y[g], %0 }
 *       1 load, 1 store, 1 loop, 1 reduction of 128 elements, 64 * 128 operations
 *
 * An operation counts once for each iteration of all loops and reductions around it, whatever `if` and masks say; what a
 * load gives under a mask is computed on as well. Of a select, comparisons, casts and constants nothing counts. Bytes of a buffer that
 * the kernel stores to first are those that it stores: what it loads there is its own (keep-terms). A kernel that came
 * from `plan` has formals, whose sizes are those of the windows that it touches.
 */
#include "ir/loop/figures.h"

static int64_t number(const sn_module *m, sn_ix e) {
    int64_t n;
    return sn_ix_is_const(m, e, &n) && n > 0 ? n : 1;
}

static int64_t times(int64_t a, int64_t b) {
    int64_t product;
    return sn_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t extent(const sn_module *m, const sn_stmt_rec *r) { return number(m, sn_axis_get(m, r->axis)->extent); }

/* Iterations of everything around s. */
static double iterations(const sn_module *m, sn_stmt s) {
    double n = 1;
    for (sn_stmt t = sn_stmt_get(m, s)->parent; t.i; t = sn_stmt_get(m, t)->parent)
        if (sn_is_nest(sn_stmt_get(m, t))) n *= (double)extent(m, sn_stmt_get(m, t));
    return n;
}

/* Elements of s and the reductions that it stands in directly. */
static int64_t reduced_with(const sn_module *m, sn_stmt s) {
    int64_t n = 1;
    for (sn_stmt t = s; t.i && sn_stmt_get(m, t)->op == SN_LOP_REDUCE; t = sn_stmt_get(m, t)->parent)
        n = times(n, extent(m, sn_stmt_get(m, t)));
    return n;
}

static bool counts(const sn_module *m, const sn_stmt_rec *r) {
    return r->op < SN_LOP_EQ && r->n_results == 1 && sn_is_float(sn_val_get(m, r->result)->dtype);
}

static double flops_of(const sn_module *m, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    if (counts(m, r)) return iterations(m, s);
    if (r->op == SN_LOP_ACCUM && sn_is_float(r->dtype)) return iterations(m, s);
    if (r->op != SN_LOP_REDUCE) return 0;
    uint32_t floats = 0;
    for (uint32_t k = 0; k < r->n_results; k++) floats += sn_is_float(sn_val_get(m, (sn_val){r->result.i + k})->dtype);
    return floats * iterations(m, s) * (double)extent(m, r);
}

/* Does a reduction around the load walk its elements one by one? -1: there is none around it. */
static int is_along(sn_module *m, sn_stmt s) {
    int found = -1;
    for (sn_stmt t = sn_stmt_get(m, s)->parent; t.i; t = sn_stmt_get(m, t)->parent) {
        const sn_stmt_rec *r = sn_stmt_get(m, t);
        int64_t stride;
        if (r->op != SN_LOP_REDUCE) continue;
        found = found > 0;
        if (sn_ix_coef(m, sn_stmt_get(m, s)->ix, r->axis, &stride) && (stride == 1 || stride == -1)) return 1;
    }
    return found;
}

/* Marks of the parameters: what is done to them. */
enum { LOADED = 1, STORED = 2 };

static void count_access(sn_kern_figures *out, sn_module *m, sn_stmt s) {
    const sn_stmt_rec *r = sn_stmt_get(m, s);
    sn_buf_rec *b = sn_buf_get(m, r->buf);
    if (sn_buf_is_local(b)) return;
    bool own = b->mark & STORED; /* what the kernel has stored before, and finds in a cache */
    b->mark |= (sn_loads(r) && !own ? LOADED : 0) | (sn_stores(r) ? STORED : 0);
    out->loads += sn_loads(r);
    out->stores += sn_stores(r);
    if (sn_stores(r) && number(m, b->size) > out->size) out->size = number(m, b->size);
    int along = sn_loads(r) ? is_along(m, s) : -1;
    if (along >= 0) *(along ? &out->along : &out->across) += times(number(m, b->size), sn_dtype_bytes(b->dtype));
}

static int64_t bytes_of(const sn_module *m, sn_buf b) {
    const sn_buf_rec *r = sn_buf_get(m, b);
    return times(times(number(m, r->size), sn_dtype_bytes(r->dtype)),
                 (r->mark & LOADED) / LOADED + (r->mark & STORED) / STORED);
}

void sn_kern_count(sn_kern_figures *out, sn_module *m, sn_kern k) {
    const sn_buf_list *params = &sn_kern_get(m, k)->params;
    *out = (sn_kern_figures){.reduced = 1};
    for (uint32_t i = 0; i < params->n; i++) sn_buf_get(m, params->at[i])->mark = 0;
    for (sn_stmt s = sn_stmt_walk_first(m, k); s.i; s = sn_stmt_walk_next(m, s)) {
        const sn_stmt_rec *r = sn_stmt_get(m, s);
        out->loops += r->op == SN_LOP_LOOP;
        out->reductions += r->op == SN_LOP_REDUCE;
        if (r->op == SN_LOP_REDUCE && reduced_with(m, s) > out->reduced) out->reduced = reduced_with(m, s);
        out->flops += flops_of(m, s);
        if (sn_is_access(r)) count_access(out, m, s);
    }
    for (uint32_t i = 0; i < params->n; i++) out->bytes += bytes_of(m, params->at[i]);
}
