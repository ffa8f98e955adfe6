/* ops_matmul.c: products of matrices, and the determinant. Einsum is in ops_einsum.c, products of quantised matrices in
 * ops_quant.c.
 */
#include "frontend/onnx/import.h"
#include "ir/index/ix.h"
#include "ir/module.h"

sn_status sn_onnx_matmul(sn_onnx_call *c) {
    return sn_onnx_done(c, sn_graph_matmul(c->m, sn_onnx_in(c, 0), sn_onnx_in(c, 1)));
}

static sn_nd scaled(sn_module *m, sn_nd x, double factor) {
    return factor == 1 ? x : sn_graph_with(m, SN_OP_MUL, x, factor);
}

/* alpha A' B' + beta C, where ' transposes if the attribute says so. Halves are rounded once, at the end. */
sn_status sn_onnx_gemm(sn_onnx_call *c) {
    static const int64_t transposed[] = {1, 0};
    sn_module *m = c->m;
    sn_nd a = sn_onnx_in(c, 0), b = sn_onnx_in(c, 1), bias = {0};
    sn_dtype t = sn_graph_type(m, a)->dtype;
    double alpha = sn_onnx_attr_float(c, "alpha", 1), beta = sn_onnx_attr_float(c, "beta", 1);
    sn_onnx_attr_ignore(c, "broadcast"); /* before opset 7: that C may be smaller than the result; it may */
    if (sn_onnx_attr_int(c, "transA", 0)) a = sn_graph_permute(m, a, transposed, 2);
    if (sn_onnx_attr_int(c, "transB", 0)) b = sn_graph_permute(m, b, transposed, 2);
    sn_nd y = scaled(m, sn_graph_matmul(m, sn_graph_widen(m, a), sn_graph_widen(m, b)), alpha);
    if (sn_onnx_has(c, 2) && beta != 0) bias = scaled(m, sn_graph_widen(m, sn_onnx_in(c, 2)), beta);
    if (bias.i) y = sn_graph_add(m, y, bias);
    return sn_onnx_done(c, sn_graph_cast(m, y, t));
}

/* ---- determinant ---- */

enum { DET_MAX = 64 }; /* the elimination is written out, a dozen nodes a row */

/* One step of Gaussian elimination with partial pivoting on matrices a[.., n, n]: the row whose first element is
 * largest goes to the top, and is subtracted from the others so that their first elements vanish. *a becomes what is
 * left of them, n - 1 in each direction; the first element of that row, negated if it came from below, is a factor of
 * the determinant. */
static sn_nd eliminate(sn_nd *a, sn_module *m) {
    const sn_type *t = sn_graph_type(m, *a);
    uint32_t rank = t->rank;
    int64_t rows = rank - 2, columns = rank - 1;
    sn_type row = *t;
    row.shape[rows] = sn_ix_const(m, 1);
    sn_nd size = sn_graph_unary(m, SN_OP_ABS, sn_graph_slice(m, *a, columns, 0, 1, 1));
    sn_nd at = sn_graph_reduce(m, SN_OP_ARGMAX, size, &rows, 1, true); /* [.., 1, 1] */
    sn_nd top = sn_graph_gather(m, *a, sn_graph_expand(m, at, row.shape, rank), rows);
    sn_nd first = sn_graph_slice(m, top, columns, 0, 1, 1);
    sn_nd down = sn_graph_slice(m, *a, rows, 1, INT64_MAX, 1);
    sn_type below = *sn_graph_type(m, down);
    sn_nd number = sn_graph_with(m, SN_OP_ADD, sn_graph_iota(m, SN_I64, rows, below.shape, rank), 1);
    sn_nd left =
        sn_graph_where(m, sn_graph_binary(m, SN_OP_EQ, number, at), sn_graph_slice(m, *a, rows, 0, 1, 1), down);
    sn_nd zero =
        sn_graph_with(m, SN_OP_EQ, first, 0); /* the whole column is zero, so that nothing is to be subtracted */
    sn_nd factor = sn_graph_div(m, sn_graph_slice(m, left, columns, 0, 1, 1),
                                sn_graph_where(m, zero, sn_graph_number(m, first, 1), first));
    sn_nd rest = sn_graph_slice(m, left, columns, 1, INT64_MAX, 1);
    sn_nd away = sn_graph_mul(m, factor, sn_graph_slice(m, top, columns, 1, INT64_MAX, 1));
    *a = sn_graph_sub(m, rest, away);
    return sn_graph_where(m, sn_graph_with(m, SN_OP_GT, at, 0), sn_graph_unary(m, SN_OP_NEG, first), first);
}

sn_status sn_onnx_det(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), a = sn_graph_widen(m, x);
    const sn_type *t = sn_graph_type(m, a);
    int64_t n, other;
    if (t->rank < 2 || !sn_ix_is_const(m, t->shape[t->rank - 1], &n) ||
        !sn_ix_is_const(m, t->shape[t->rank - 2], &other) || n != other || n < 1)
        return sn_onnx_fail(c, "shape %s has no square matrices of known size", sn_type_text(m, t));
    if (n > DET_MAX) return sn_onnx_fail(c, "matrices of %lld rows; at most %d", (long long)n, DET_MAX);
    int64_t axes[] = {(int64_t)t->rank - 2, (int64_t)t->rank - 1};
    sn_nd det = {0};
    for (int64_t k = 1; k < n; k++) {
        sn_nd factor = eliminate(&a, m);
        SN_TRY(m->env->status);
        det = det.i ? sn_graph_mul(m, det, factor) : factor;
    }
    det = det.i ? sn_graph_mul(m, det, a) : a;
    return sn_onnx_done(c, sn_graph_cast(m, sn_graph_squeeze(m, det, axes, 2), sn_graph_type(m, x)->dtype));
}
