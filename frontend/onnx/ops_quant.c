/* ops_quant.c: quantisation, and products of quantised matrices; convolutions of quantised images are in ops_conv.c.
 *
 * Sums of products are exact in i32. Results are scaled in f32, rounded to the nearest integer (ties to even), and
 * cast: casts to integers saturate.
 */
#include "frontend/onnx/quant.h"
#include "ir/index/ix.h"
#include "ir/module.h"

/* s for elementwise use with a tensor of that rank: a list of more than one number runs along `axis`. */
static sn_nd along(sn_module *m, sn_nd s, uint32_t rank, uint32_t axis) {
    const sn_type *t = sn_graph_type(m, s);
    int64_t size, first = 0;
    if (!s.i || t->rank != 1) return s;
    if (sn_ix_is_const(m, t->shape[0], &size) && size == 1) return sn_graph_squeeze(m, s, &first, 1);
    return sn_graph_align(m, s, axis, rank);
}

/* s[.., B, ..] with each element of that axis repeated, for blocks of `block` elements of x. */
static sn_nd in_blocks(sn_onnx_call *c, sn_nd s, sn_nd x, uint32_t axis, int64_t block) {
    sn_module *m = c->m;
    const sn_type *t = sn_graph_type(m, x);
    sn_type wide = *sn_graph_type(m, s), flat = wide;
    int64_t size, next = axis + 1;
    if (!s.i || !x.i) return s;
    if (wide.rank != t->rank || wide.rank == SN_MAX_RANK || axis >= wide.rank ||
        !sn_ix_is_const(m, t->shape[axis], &size) || block < 1) {
        sn_onnx_fail(c, "block_size %lld with scales of shape %s", (long long)block, sn_type_text(m, &wide));
        return s;
    }
    for (uint32_t k = wide.rank++; k > axis + 1; k--) wide.shape[k] = wide.shape[k - 1];
    wide.shape[next] = sn_ix_const(m, block);
    flat.shape[axis] = sn_ix_scale(m, flat.shape[axis], block);
    s = sn_graph_expand(m, sn_graph_unsqueeze(m, s, &next, 1), wide.shape, wide.rank);
    return sn_graph_slice(m, sn_graph_reshape(m, s, flat.shape, flat.rank), axis, 0, size, 1);
}

/* Operand k, quantised elements or their zero point; fails where it has others. */
static sn_nd checked(sn_onnx_call *c, uint32_t k) {
    sn_nd x = sn_onnx_in(c, k);
    sn_dtype t = sn_graph_type(c->m, x)->dtype;
    if (!sn_is_integral(t) || t == SN_BOOL || (sn_dtype_bytes(t) > 2 && t != SN_I32))
        sn_onnx_fail(c, "operand %u has elements of %s; integers of 8 or 16 bits or i32 are wanted", k + 1,
                     sn_dtypes[t].name);
    return x;
}

/* The same as i32. */
static sn_nd elements(sn_onnx_call *c, uint32_t k) { return sn_graph_cast(c->m, checked(c, k), SN_I32); }

/* What is quantised like x. */
static sn_dtype quantised_dtype(sn_onnx_call *c, sn_nd x) {
    sn_dtype t = sn_graph_type(c->m, x)->dtype;
    if (!sn_is_integral(t)) sn_onnx_fail(c, "quantised elements of %s", sn_dtypes[t].name);
    return t;
}

/* Operand k, a scale or zero point of a whole tensor, as a number. */
static sn_nd one_number(sn_onnx_call *c, uint32_t k) {
    sn_module *m = c->m;
    sn_nd s = sn_onnx_in(c, k);
    const sn_type *t = sn_graph_type(m, s);
    int64_t size = 1;
    if (t->rank > 1 || (t->rank == 1 && (!sn_ix_is_const(m, t->shape[0], &size) || size != 1)))
        sn_onnx_fail(c, "operand %u has shape %s; one number is wanted", k + 1, sn_type_text(m, t));
    return along(m, s, 0, 0);
}

/* Operand k, a scale or zero point, in the shape in which it meets operand 0. */
static sn_nd fitted(sn_onnx_call *c, uint32_t k) {
    sn_nd x = sn_onnx_in(c, 0), s = sn_onnx_in(c, k);
    uint32_t rank = sn_graph_type(c->m, x)->rank, axis = 0;
    int64_t block = sn_onnx_attr_int(c, "block_size", 0), along_axis = sn_onnx_attr_int(c, "axis", 1);
    bool one = sn_graph_type(c->m, s)->rank == 0; /* the axis means nothing */
    if (!one && rank > 1 && sn_onnx_axis(&axis, c, along_axis, rank) != SN_OK) return s;
    return block ? in_blocks(c, s, x, axis, block) : along(c->m, s, rank, axis);
}

/* round(x) + zero in f32, as elements of that dtype. */
static sn_nd rounded(sn_module *m, sn_nd x, sn_nd zero, sn_dtype t) {
    x = sn_graph_unary(m, SN_OP_ROUND, x);
    if (zero.i) x = sn_graph_add(m, x, sn_graph_cast(m, zero, SN_F32));
    return sn_graph_cast(m, x, t);
}

/* x / y, rounded to f32 once. A GPU's f32 division may be off by the last bit, which a quotient near .5 turns into a
 * whole step; that in f64, rounded to f32, is the nearest f32, since f64 has more than twice its bits. */
static sn_nd quotient(sn_module *m, sn_nd x, sn_nd y) {
    return sn_graph_cast(m, sn_graph_div(m, sn_graph_cast(m, x, SN_F64), sn_graph_cast(m, y, SN_F64)), SN_F32);
}

/* ---- one tensor ---- */

sn_status sn_onnx_quantize(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), scale = fitted(c, 1), zero = {0};
    sn_dtype t = SN_U8;
    sn_onnx_attr_ignore(c, "saturate");  /* of the 8-bit floats */
    sn_onnx_attr_ignore(c, "precision"); /* of the quotient, which has that of f32 or more */
    if (sn_onnx_attr_int(c, "output_dtype", 0)) t = sn_onnx_attr_dtype(c, "output_dtype", t);
    if (sn_onnx_has(c, 2)) zero = fitted(c, 2), t = quantised_dtype(c, zero);
    else if (!sn_is_integral(t)) return sn_onnx_fail(c, "quantised elements of %s", sn_dtypes[t].name);
    x = rounded(m, quotient(m, x, scale), zero, t);
    if (c->n_in > 2 && c->in[2].narrow) {
        bool sign = t == SN_I8;
        x = sn_graph_with(m, SN_OP_MAXIMUM, x, sign ? -8 : 0);
        x = sn_graph_with(m, SN_OP_MINIMUM, x, sign ? 7 : 15);
    }
    return sn_onnx_done(c, x);
}

sn_status sn_onnx_dequantize(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = elements(c, 0), scale = fitted(c, 1);
    if (sn_onnx_has(c, 2)) checked(c, 2), x = sn_graph_sub(m, x, sn_graph_cast(m, fitted(c, 2), SN_I32));
    sn_nd y = sn_graph_mul(m, sn_graph_cast(m, x, SN_F32), sn_graph_widen(m, scale));
    sn_dtype t = sn_graph_type(m, scale)->dtype;
    if (sn_onnx_attr_int(c, "output_dtype", 0)) t = sn_onnx_attr_dtype(c, "output_dtype", t);
    return sn_onnx_done(c, sn_graph_cast(m, y, t));
}

/* A tensor that was quantised. */
typedef struct quantised {
    sn_nd x, scale, zero;
} quantised;

/* To u8, so that 0 and all elements fit: scale (max - min) / 255, zero point round(-min / scale). Zeros have the scale
 * 1. All elements have one scale, or those along the last axis. */
static quantised by_range(sn_module *m, sn_nd x, bool by_rows) {
    int64_t axes[SN_MAX_RANK];
    uint32_t rank = sn_graph_type(m, x)->rank, n = 0;
    for (uint32_t k = by_rows ? rank - 1 : 0; k < rank; k++) axes[n++] = k;
    sn_nd high = sn_graph_with(m, SN_OP_MAXIMUM, sn_graph_reduce(m, SN_OP_AMAX, x, axes, n, by_rows), 0);
    sn_nd low = sn_graph_with(m, SN_OP_MINIMUM, sn_graph_reduce(m, SN_OP_AMIN, x, axes, n, by_rows), 0);
    sn_nd scale = quotient(m, sn_graph_sub(m, high, low), sn_graph_number(m, x, 255));
    scale = sn_graph_where(m, sn_graph_binary(m, SN_OP_EQ, high, low), sn_graph_number(m, scale, 1), scale);
    sn_nd zero = sn_graph_unary(m, SN_OP_NEG, quotient(m, low, scale));
    zero = rounded(m, zero, (sn_nd){0}, SN_U8);
    return (quantised){rounded(m, quotient(m, x, scale), zero, SN_U8), scale, zero};
}

sn_status sn_onnx_dynamic_quantize(sn_onnx_call *c) {
    quantised q = by_range(c->m, sn_onnx_in(c, 0), false);
    sn_onnx_out(c, 1, q.scale);
    sn_onnx_out(c, 2, q.zero);
    return sn_onnx_done(c, q.x);
}

sn_nd sn_onnx_through_bytes(sn_module *m, sn_nd x, bool by_rows) {
    quantised q = by_range(m, x, by_rows);
    sn_nd steps = sn_graph_sub(m, sn_graph_cast(m, q.x, SN_F32), sn_graph_cast(m, q.zero, SN_F32));
    return sn_graph_mul(m, steps, q.scale);
}

sn_nd sn_onnx_real(sn_onnx_call *c, uint32_t x) {
    sn_module *m = c->m;
    sn_nd y = elements(c, x);
    if (sn_onnx_has(c, x + 2))
        elements(c, x + 2), y = sn_graph_sub(m, y, sn_graph_cast(m, one_number(c, x + 2), SN_I32));
    return sn_graph_mul(m, sn_graph_cast(m, y, SN_F32), one_number(c, x + 1));
}

sn_nd sn_onnx_quantised(sn_onnx_call *c, sn_nd y, uint32_t scale, uint32_t like) {
    sn_module *m = c->m;
    sn_nd zero = sn_onnx_has(c, scale + 1) ? one_number(c, scale + 1) : (sn_nd){0};
    sn_dtype t = quantised_dtype(c, zero.i ? zero : sn_onnx_in(c, like));
    return rounded(m, quotient(m, y, one_number(c, scale)), zero, t);
}

/* ---- products ---- */

sn_nd sn_onnx_centred(sn_onnx_call *c, uint32_t x, uint32_t zero, uint32_t axis) {
    sn_nd y = elements(c, x);
    if (!sn_onnx_has(c, zero)) return y;
    return sn_graph_sub(c->m, y, along(c->m, elements(c, zero), sn_graph_type(c->m, y)->rank, axis));
}

sn_nd sn_onnx_requantised(sn_onnx_call *c, sn_nd sum, sn_onnx_scales s) {
    sn_module *m = c->m;
    uint32_t rank = sn_graph_type(m, sum)->rank;
    sn_nd zero = sn_onnx_in(c, s.zero), a = sn_graph_cast(m, sn_onnx_in(c, s.a), SN_F32),
          b = sn_graph_cast(m, sn_onnx_in(c, s.b), SN_F32), y = sn_graph_cast(m, sn_onnx_in(c, s.y), SN_F32);
    sn_nd factor = sn_graph_mul(m, along(m, a, rank, s.a_axis), along(m, b, rank, s.b_axis));
    factor = quotient(m, factor, along(m, y, rank, s.y_axis));
    sn_nd value = sn_graph_mul(m, sn_graph_cast(m, sum, SN_F32), factor);
    return rounded(m, value, along(m, zero, rank, s.y_axis), quantised_dtype(c, zero));
}

/* Axes of rows and columns of a matrix; a vector has one. */
static uint32_t row_axis(sn_onnx_call *c, uint32_t x) {
    uint32_t rank = sn_graph_type(c->m, sn_onnx_in(c, x))->rank;
    return rank < 2 ? 0 : rank - 2;
}

static uint32_t column_axis(sn_onnx_call *c, uint32_t x) {
    uint32_t rank = sn_graph_type(c->m, sn_onnx_in(c, x))->rank;
    return rank ? rank - 1 : 0;
}

/* Lists of zero points run along the rows of A and the columns of B. */
static sn_nd integer_product(sn_onnx_call *c, uint32_t a, uint32_t b, uint32_t a_zero, uint32_t b_zero) {
    sn_nd x = sn_onnx_centred(c, a, a_zero, row_axis(c, a));
    return sn_graph_matmul(c->m, x, sn_onnx_centred(c, b, b_zero, column_axis(c, b)));
}

sn_status sn_onnx_matmul_integer(sn_onnx_call *c) { return sn_onnx_done(c, integer_product(c, 0, 1, 2, 3)); }

/* a, its scale and zero point, those of b, those of the result. */
sn_status sn_onnx_qlinear_matmul(sn_onnx_call *c) {
    sn_nd sum = integer_product(c, 0, 3, 2, 5);
    uint32_t rank = sn_graph_type(c->m, sum)->rank, row = rank < 2 ? 0 : rank - 2;
    sn_onnx_scales s = {.a = 1, .b = 4, .y = 6, .zero = 7, .a_axis = row, .b_axis = rank ? rank - 1 : 0, .y_axis = row};
    return sn_onnx_done(c, sn_onnx_requantised(c, sum, s));
}

/* A sum of products of centred elements by both scales, in the dtype of those, plus the bias (where given). Lists of scales run
 * along the rows of a and the columns of b. */
static sn_status real_product(sn_onnx_call *c, sn_nd sum, sn_nd a, sn_nd b, uint32_t bias) {
    sn_module *m = c->m;
    uint32_t rank = sn_graph_type(m, sum)->rank, row = rank < 2 ? 0 : rank - 2;
    sn_dtype t = sn_graph_type(m, a)->dtype;
    SN_TRY(m->env->status);
    a = along(m, sn_graph_cast(m, a, SN_F32), rank, row);
    b = along(m, sn_graph_cast(m, b, SN_F32), rank, rank ? rank - 1 : 0);
    sn_nd y = sn_graph_mul(m, sn_graph_cast(m, sum, SN_F32), sn_graph_mul(m, a, b));
    y = sn_graph_cast(m, y, t);
    return sn_onnx_done(c, sn_onnx_has(c, bias) ? sn_graph_add(m, y, sn_onnx_in(c, bias)) : y);
}

/* a, b, their scales, their zero points, bias. */
sn_status sn_onnx_matmul_integer_to_float(sn_onnx_call *c) {
    return real_product(c, integer_product(c, 0, 1, 4, 5), sn_onnx_in(c, 2), sn_onnx_in(c, 3), 6);
}

/* a, which is quantised by its range; b, its scale and zero point; bias. */
sn_status sn_onnx_dynamic_quantize_matmul(sn_onnx_call *c) {
    sn_module *m = c->m;
    quantised a = by_range(m, sn_onnx_in(c, 0), false);
    sn_nd b = sn_onnx_centred(c, 1, 3, column_axis(c, 1));
    sn_nd x = sn_graph_sub(m, sn_graph_cast(m, a.x, SN_I32), sn_graph_cast(m, a.zero, SN_I32));
    return real_product(c, sn_graph_matmul(m, x, b), a.scale, sn_onnx_in(c, 2), 4);
}

static sn_status check_rank(sn_onnx_call *c, uint32_t k, uint32_t least, uint32_t most) {
    uint32_t rank = sn_graph_type(c->m, sn_onnx_in(c, k))->rank;
    if (rank < least || rank > most) return sn_onnx_fail(c, "operand %u has rank %u; a matrix is wanted", k + 1, rank);
    return c->m->env->status;
}

/* alpha A' B' + C: a, its scale and zero point, those of b, C, scale and zero point of the result. C is in steps of
 * alpha times both scales. Without a zero point the result is f32. */
sn_status sn_onnx_qgemm(sn_onnx_call *c) {
    static const int64_t transposed[] = {1, 0};
    sn_module *m = c->m;
    bool columns_first = sn_onnx_attr_int(c, "transB", 0);
    SN_TRY(check_rank(c, 0, 2, 2));
    SN_TRY(check_rank(c, 3, 2, 2));
    if (sn_onnx_has(c, 6)) SN_TRY(check_rank(c, 6, 0, 2));
    if (sn_onnx_has(c, 2)) one_number(c, 2);
    sn_nd a = sn_onnx_centred(c, 0, 2, 0), b = sn_onnx_centred(c, 3, 5, columns_first ? 0 : 1);
    if (sn_onnx_attr_int(c, "transA", 0)) a = sn_graph_permute(m, a, transposed, 2);
    if (columns_first) b = sn_graph_permute(m, b, transposed, 2);
    sn_nd sum = sn_graph_matmul(m, a, b);
    if (sn_onnx_has(c, 6)) sum = sn_graph_add(m, sum, sn_onnx_in(c, 6));
    sn_nd scale = sn_graph_with(m, SN_OP_MUL, one_number(c, 1), sn_onnx_attr_float(c, "alpha", 1));
    if (!sn_onnx_has(c, 8)) return real_product(c, sum, scale, sn_onnx_in(c, 4), c->n_in);
    SN_TRY(m->env->status);
    sn_nd factor = sn_graph_mul(m, scale, along(m, sn_onnx_in(c, 4), 2, 1)), zero = one_number(c, 8);
    sn_nd y = sn_graph_mul(m, sn_graph_cast(m, sum, SN_F32), quotient(m, factor, one_number(c, 7)));
    return sn_onnx_done(c, rounded(m, y, zero, quantised_dtype(c, zero)));
}
