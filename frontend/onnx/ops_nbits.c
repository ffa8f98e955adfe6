/* ops_nbits.c: MatMulNBits of onnxruntime (domain com.microsoft): a product with weights of few bits, in blocks along
 * the rows that are added up:
 *
 *     b[N, blocks, bytes], several elements a byte, the low bits first;  scales[N, blocks];  zero points packed likewise
 *     y[.., N] = a[.., K] * ((elements - zero point) * scale)[N, K]'
 *
 * Element k has the scale and zero point of block k / block_size, or, where there is g_idx, of block g_idx[k].
 *
 * The weights are constants, so that they are unpacked once, when the program is loaded: to a matrix of the dtype of a, which is 4 to 16
 * times as large.
 */
#include "frontend/onnx/import.h"
#include "ir/index/ix.h"
#include "ir/module.h"

typedef struct packing {
    int64_t rows, columns; /* N, K */
    int64_t bits, block, blocks;
} packing;

static sn_status read_packing(packing *p, sn_onnx_call *c) {
    enum { MOST = 1 << 28 };
    static const char *const needed[] = {"N", "K", "block_size"};
    *p = (packing){.rows = sn_onnx_attr_int(c, "N", 0), .columns = sn_onnx_attr_int(c, "K", 0)};
    p->bits = sn_onnx_attr_int(c, "bits", 4);
    p->block = sn_onnx_attr_int(c, "block_size", 0);
    for (uint32_t k = 0; k < SN_COUNT(needed); k++)
        if (!sn_onnx_has_attr(c, needed[k])) return sn_onnx_fail(c, "attribute %s is missing", needed[k]);
    sn_onnx_attr_ignore(c, "accuracy_level"); /* less of it is allowed there */
    if (p->bits != 2 && p->bits != 4 && p->bits != 8)
        return sn_onnx_fail(c, "weights of %lld bits; 2, 4 and 8 are supported", (long long)p->bits);
    bool sane =
        p->rows > 0 && p->rows < MOST && p->columns > 0 && p->columns < MOST && p->block >= 8 && p->block < MOST;
    if (!sane || p->block * p->bits % 8)
        return sn_onnx_fail(c, "%lld x %lld weights in blocks of %lld", (long long)p->columns, (long long)p->rows,
                            (long long)p->block);
    p->blocks = (p->columns + p->block - 1) / p->block;
    return SN_OK;
}

/* Bytes x[N, n] as N rows of the elements packed in them: i32[N, n * 8/bits]. */
static sn_nd unpacked(sn_module *m, sn_nd x, const packing *p, int64_t n) {
    int64_t last = 2, per_byte = 8 / p->bits;
    sn_nd part[4], bytes = sn_graph_cast(m, sn_graph_reshape_to(m, x, (int64_t[]){p->rows, n}, 2), SN_I32);
    for (int64_t k = 0; k < per_byte; k++) {
        sn_nd above = sn_graph_with(m, SN_OP_FLOORDIV, bytes, (double)((int64_t)1 << (k * p->bits)));
        sn_nd own = sn_graph_with(m, SN_OP_REM, above, (double)((int64_t)1 << p->bits));
        part[k] = sn_graph_unsqueeze(m, own, &last, 1);
    }
    sn_nd all = sn_graph_concat(m, part, (uint32_t)per_byte, last);
    return sn_graph_reshape_to(m, all, (int64_t[]){p->rows, n * per_byte}, 2);
}

/* What blocks have, x[N, blocks], as f32 that meets the elements [N, blocks, block], or [N, K] where each has a block of its own. */
static sn_nd of_blocks(sn_onnx_call *c, const packing *p, sn_nd x) {
    sn_module *m = c->m;
    int64_t last = 2;
    x = sn_graph_reshape_to(m, sn_graph_cast(m, x, SN_F32), (int64_t[]){p->rows, p->blocks}, 2);
    if (!sn_onnx_has(c, 4)) return sn_graph_unsqueeze(m, x, &last, 1);
    return sn_graph_index_select(m, x, sn_graph_slice(m, sn_onnx_in(c, 4), 0, 0, p->columns, 1), 1);
}

/* Without any the middle is meant. */
static sn_nd zero_points(sn_onnx_call *c, const packing *p) {
    sn_module *m = c->m;
    if (!sn_onnx_has(c, 3)) return sn_graph_scalar(m, SN_F32, (double)((int64_t)1 << (p->bits - 1)));
    sn_nd z = sn_onnx_in(c, 3);
    bool packed = sn_is_integral(sn_graph_type(m, z)->dtype);
    if (packed) z = sn_graph_slice(m, unpacked(m, z, p, (p->blocks * p->bits + 7) / 8), 1, 0, p->blocks, 1);
    return of_blocks(c, p, z);
}

/* Operand k, in so many elements. */
static sn_status check_size(sn_onnx_call *c, uint32_t k, const char *what, int64_t wanted) {
    const sn_type *t = sn_graph_type(c->m, sn_onnx_in(c, k));
    int64_t size;
    if (!sn_ix_is_const(c->m, sn_ix_product(c->m, t->shape, t->rank), &size) || size != wanted)
        return sn_onnx_fail(c, "%s of shape %s; %lld elements are wanted", what, sn_type_text(c->m, t),
                            (long long)wanted);
    return c->m->env->status;
}

static sn_status check_operands(sn_onnx_call *c, const packing *p) {
    sn_dtype a = sn_graph_type(c->m, sn_onnx_in(c, 0))->dtype, b = sn_graph_type(c->m, sn_onnx_in(c, 1))->dtype;
    if (!sn_is_float(a)) return sn_onnx_fail(c, "a product of %s; floats are wanted", sn_dtypes[a].name);
    if (b != SN_U8) return sn_onnx_fail(c, "packed weights of %s; bytes (u8) are wanted", sn_dtypes[b].name);
    SN_TRY(check_size(c, 1, "weights", p->rows * p->blocks * p->block * p->bits / 8));
    SN_TRY(check_size(c, 2, "scales", p->rows * p->blocks));
    if (!sn_onnx_has(c, 3)) return c->m->env->status;
    sn_dtype z = sn_graph_type(c->m, sn_onnx_in(c, 3))->dtype;
    if (z != SN_U8 && !sn_is_float(z))
        return sn_onnx_fail(c, "zero points of %s; bytes or floats are wanted", sn_dtypes[z].name);
    return check_size(c, 3, "zero points", p->rows * (z == SN_U8 ? (p->blocks * p->bits + 7) / 8 : p->blocks));
}

/* g_idx: a block for each column, or for each element of all blocks. */
static sn_status check_places(sn_onnx_call *c, const packing *p) {
    if (!sn_onnx_has(c, 4)) return c->m->env->status;
    const sn_type *t = sn_graph_type(c->m, sn_onnx_in(c, 4));
    int64_t size = 0;
    bool fits = t->rank == 1 && sn_ix_is_const(c->m, t->shape[0], &size) &&
                (size == p->columns || size == p->blocks * p->block);
    if (fits && (t->dtype == SN_I32 || t->dtype == SN_I64)) return c->m->env->status;
    return sn_onnx_fail(c, "blocks of columns (operand g_idx) in %s; %lld integers are wanted", sn_type_text(c->m, t),
                        (long long)p->columns);
}

/* The weights, f32[N, K]. */
static sn_nd weights(sn_onnx_call *c, const packing *p) {
    sn_module *m = c->m;
    int64_t all = p->blocks * p->block, shape[] = {p->rows, p->blocks, p->block}, flat[] = {p->rows, all};
    bool apart = sn_onnx_has(c, 4); /* elements of a block have several scales */
    sn_nd b = sn_graph_cast(m, unpacked(m, sn_onnx_in(c, 1), p, all * p->bits / 8), SN_F32);
    if (apart) b = sn_graph_slice(m, b, 1, 0, p->columns, 1);
    else b = sn_graph_reshape_to(m, b, shape, 3);
    b = sn_graph_mul(m, sn_graph_sub(m, b, zero_points(c, p)), of_blocks(c, p, sn_onnx_in(c, 2)));
    return apart ? b : sn_graph_slice(m, sn_graph_reshape_to(m, b, flat, 2), 1, 0, p->columns, 1);
}

/* a, b, scales, zero points, blocks of columns, bias. */
sn_status sn_onnx_matmul_nbits(sn_onnx_call *c) {
    static const int64_t transposed[] = {1, 0};
    sn_module *m = c->m;
    packing p;
    SN_TRY(read_packing(&p, c));
    SN_TRY(check_operands(c, &p));
    SN_TRY(check_places(c, &p));
    sn_nd a = sn_onnx_in(c, 0), w = sn_graph_cast(m, weights(c, &p), sn_graph_type(m, a)->dtype);
    sn_nd y = sn_graph_matmul(m, a, sn_graph_permute(m, w, transposed, 2));
    if (sn_onnx_has(c, 5)) y = sn_graph_add(m, y, sn_onnx_in(c, 5));
    return sn_onnx_done(c, y);
}
