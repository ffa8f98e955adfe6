/* decompose.c: the pass `decompose`: composites, means, variances and clamps to primitive nodes. A table with a
 * function for each operation.
 *
 *     %y = softmax %x axis=1 : f32[8, 16]
 *   becomes
 *     %0 = amax %x axes=[1] keepdim=true ;  %1 = sub %x, %0 ;  %2 = exp %1 ;  %3 = sum %2 axes=[1] keepdim=true
 *     %y = div %2, %3
 *
 * Legality: always; formulas are those of ops.def. Variances are two-pass (mean first, then squares of the
 * differences). Half dtypes compute in f32: operands are cast first and results cast back. Reductions that add up (sum,
 * prod) do so too. matmul and conv stay, to-loops lowers them directly, but for factors that leave
 * a product, convolutions that multiply zeros, and small products that are numbered along memory.
 * Constants are left for `simplify` to fold. Cost: linear; composites with several results build each result where it
 * is projected and meet by interning.
 *
 * Factors of products are in decompose_product.c, convolutions of images with zeros between their elements in
 * decompose_conv.c, products that become sums in decompose_lanes.c, the norms in decompose_norm.c, random numbers in decompose_random.c, scatters that combine in
 * decompose_scatter.c.
 */
#include "ir/graph/build.h"
#include "ir/graph/repeat.h"
#include "passes/graph/decompose.h"

/* ---- building blocks (also of decompose_norm.c) ---- */

sn_nd sn_dec_operand(sn_module *m, sn_nd x, uint32_t k) {
    sn_nd in = sn_node_get(m, x)->in[k];
    return sn_graph_cast(m, in, sn_compute_dtype(sn_type_of(m, in)->dtype));
}

sn_nd sn_dec_scalar(sn_module *m, sn_nd like, double value) {
    return sn_graph_scalar(m, sn_type_of(m, like)->dtype, value);
}

/* The set bits of the mask; how many. */
static uint32_t mask_axes(int64_t *axes, uint32_t mask) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < SN_MAX_RANK; k++)
        if (mask >> k & 1) axes[n++] = k;
    return n;
}

sn_nd sn_dec_reduce(sn_module *m, sn_op op, sn_nd x, uint32_t mask) {
    int64_t axes[SN_MAX_RANK];
    return sn_graph_reduce(m, op, x, axes, mask_axes(axes, mask), true);
}

sn_nd sn_dec_squeeze(sn_module *m, sn_nd x, uint32_t mask) {
    int64_t axes[SN_MAX_RANK];
    sn_attr attr = {.id = SN_ATTR_AXES, .ints = {axes, mask_axes(axes, mask)}};
    return attr.ints.n && x.i ? sn_graph_node(m, SN_OP_SQUEEZE, &x, 1, &attr, 1) : x;
}

/* A count that is known only at run time is a sum of ones. */
static sn_nd symbolic_count(sn_module *m, sn_nd x, uint32_t mask) {
    sn_type t = *sn_type_of(m, x);
    sn_ix sizes[SN_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t k = 0; k < t.rank; k++)
        if (mask >> k & 1) sizes[n++] = t.shape[k];
    uint32_t all = (1u << n) - 1;
    return sn_dec_squeeze(m, sn_dec_reduce(m, SN_OP_SUM, sn_graph_full(m, t.dtype, 1, sizes, n), all), all);
}

sn_nd sn_dec_count(sn_module *m, sn_nd x, uint32_t mask, int64_t correction) {
    const sn_type *t = sn_type_of(m, x);
    int64_t count = 1, size;
    for (uint32_t k = 0; k < t->rank; k++) {
        if (!(mask >> k & 1)) continue;
        if (!sn_ix_is_const(m, t->shape[k], &size)) {
            sn_nd n = symbolic_count(m, x, mask);
            return correction ? sn_graph_binary(m, SN_OP_SUB, n, sn_dec_scalar(m, x, (double)correction)) : n;
        }
        count *= size;
    }
    return sn_dec_scalar(m, x, (double)count - (double)correction);
}

sn_nd sn_dec_mean(sn_module *m, sn_nd x, uint32_t mask) {
    sn_nd sum = sn_dec_reduce(m, SN_OP_SUM, x, mask);
    return sn_graph_binary(m, SN_OP_DIV, sum, sn_dec_count(m, x, mask, 0));
}

sn_nd sn_dec_square(sn_module *m, sn_nd x) { return sn_graph_binary(m, SN_OP_MUL, x, x); }

sn_nd sn_dec_squares(sn_module *m, sn_nd x, uint32_t mask) {
    sn_nd d = sn_graph_binary(m, SN_OP_SUB, x, sn_dec_mean(m, x, mask));
    return sn_dec_reduce(m, SN_OP_SUM, sn_dec_square(m, d), mask);
}

/* ---- reductions ---- */

/* y has all reduced axes with size 1; drop them unless x keeps them. */
static sn_nd finish(sn_module *m, sn_nd x, sn_nd y) {
    return sn_node_int(m, x, SN_ATTR_KEEPDIM, 0) ? y : sn_dec_squeeze(m, y, sn_node_axes_mask(m, x));
}

/* Operand 0 in the dtype that the result is computed in (the mean of integers is a float). */
static sn_nd reduced_operand(sn_module *m, sn_nd x) {
    return sn_graph_cast(m, sn_node_get(m, x)->in[0], sn_compute_dtype(sn_type_of(m, x)->dtype));
}

static sn_nd dec_accumulate(sn_module *m, sn_nd x) {
    sn_dtype t = sn_type_of(m, x)->dtype;
    if (sn_compute_dtype(t) == t) return x;
    return finish(m, x, sn_dec_reduce(m, sn_node_get(m, x)->op, reduced_operand(m, x), sn_node_axes_mask(m, x)));
}

static sn_nd dec_mean(sn_module *m, sn_nd x) {
    return finish(m, x, sn_dec_mean(m, reduced_operand(m, x), sn_node_axes_mask(m, x)));
}

static sn_nd dec_var(sn_module *m, sn_nd x) {
    sn_nd in = reduced_operand(m, x);
    uint32_t mask = sn_node_axes_mask(m, x);
    sn_nd count = sn_dec_count(m, in, mask, sn_node_int(m, x, SN_ATTR_CORRECTION, 1));
    return finish(m, x, sn_graph_binary(m, SN_OP_DIV, sn_dec_squares(m, in, mask), count));
}

static sn_nd var_mean_result(sn_module *m, sn_nd x, int64_t k) { return k == 0 ? dec_var(m, x) : dec_mean(m, x); }

/* ---- elementwise ---- */

/* maximum and minimum keep nan. With min > max the result is max, as in PyTorch. */
static sn_nd dec_clamp(sn_module *m, sn_nd x) {
    sn_nd y = sn_node_get(m, x)->in[0];
    const sn_attr *low = sn_node_attr(m, x, SN_ATTR_MIN), *high = sn_node_attr(m, x, SN_ATTR_MAX);
    if (low) y = sn_graph_binary(m, SN_OP_MAXIMUM, y, sn_dec_scalar(m, x, low->f));
    if (high) y = sn_graph_binary(m, SN_OP_MINIMUM, y, sn_dec_scalar(m, x, high->f));
    return y;
}

static sn_nd dec_relu(sn_module *m, sn_nd x) {
    sn_nd in = sn_node_get(m, x)->in[0];
    return sn_graph_binary(m, SN_OP_MAXIMUM, in, sn_dec_scalar(m, in, 0));
}

/* x/2 * (1 + t) */
static sn_nd half_times_one_plus(sn_module *m, sn_nd x, sn_nd t) {
    sn_nd half = sn_graph_binary(m, SN_OP_MUL, x, sn_dec_scalar(m, x, 0.5));
    return sn_graph_binary(m, SN_OP_MUL, half, sn_graph_binary(m, SN_OP_ADD, t, sn_dec_scalar(m, x, 1)));
}

static sn_nd dec_gelu(sn_module *m, sn_nd x) {
    sn_nd in = sn_dec_operand(m, x, 0);
    sn_nd scaled = sn_graph_binary(m, SN_OP_MUL, in, sn_dec_scalar(m, in, 0.70710678118654752440));
    return half_times_one_plus(m, in, sn_graph_unary(m, SN_OP_ERF, scaled));
}

/* x (1 + tanh u) / 2 = x sigmoid(2u), which costs less and loses no digits for large negative u. */
static sn_nd dec_gelu_tanh(sn_module *m, sn_nd x) {
    sn_nd in = sn_dec_operand(m, x, 0);
    const double c = 2 * 0.79788456080286535588;
    sn_nd square = sn_dec_square(m, in);
    sn_nd factor =
        sn_graph_binary(m, SN_OP_ADD, sn_graph_binary(m, SN_OP_MUL, square, sn_dec_scalar(m, in, c * 0.044715)),
                        sn_dec_scalar(m, in, c));
    sn_nd twice_u = sn_graph_binary(m, SN_OP_MUL, in, factor);
    return sn_graph_binary(m, SN_OP_MUL, in, sn_graph_unary(m, SN_OP_SIGMOID, twice_u));
}

static sn_nd dec_silu(sn_module *m, sn_nd x) {
    sn_nd in = sn_dec_operand(m, x, 0);
    return sn_graph_binary(m, SN_OP_MUL, in, sn_graph_unary(m, SN_OP_SIGMOID, in));
}

/* ---- softmax and its relatives ---- */

static uint32_t axis_mask(const sn_module *m, sn_nd x) {
    int64_t axis = sn_node_int(m, x, SN_ATTR_AXIS, 0);
    return 1u << (axis < 0 ? axis + sn_type_of(m, x)->rank : axis);
}

static bool is_empty(sn_module *m, sn_nd x, uint32_t mask) {
    const sn_type *t = &sn_node_get(m, x)->type;
    for (uint32_t k = 0; k < t->rank; k++)
        if (mask >> k & 1 && sn_ix_eq(t->shape[k], sn_ix_const(m, 0))) return true;
    return false;
}

/* x - max. A row of -inf gives nan, as in PyTorch. Rows without elements have no max. */
static sn_nd minus_max(sn_module *m, sn_nd x, uint32_t mask) {
    if (is_empty(m, x, mask)) return x;
    return sn_graph_binary(m, SN_OP_SUB, x, sn_dec_reduce(m, SN_OP_AMAX, x, mask));
}

static sn_nd dec_softmax(sn_module *m, sn_nd x) {
    uint32_t mask = axis_mask(m, x);
    sn_nd e = sn_graph_unary(m, SN_OP_EXP, minus_max(m, sn_dec_operand(m, x, 0), mask));
    return sn_graph_binary(m, SN_OP_DIV, e, sn_dec_reduce(m, SN_OP_SUM, e, mask));
}

static sn_nd dec_log_softmax(sn_module *m, sn_nd x) {
    uint32_t mask = axis_mask(m, x);
    sn_nd d = minus_max(m, sn_dec_operand(m, x, 0), mask);
    sn_nd sum = sn_dec_reduce(m, SN_OP_SUM, sn_graph_unary(m, SN_OP_EXP, d), mask);
    return sn_graph_binary(m, SN_OP_SUB, d, sn_graph_unary(m, SN_OP_LOG, sum));
}

/* Where the maximum is infinite nothing is subtracted: rows of -inf give -inf and rows with inf give inf, not nan. */
static sn_nd logsumexp(sn_module *m, sn_nd x, uint32_t mask) {
    sn_nd max = sn_dec_reduce(m, SN_OP_AMAX, x, mask);
    sn_nd choice[3] = {sn_graph_unary(m, SN_OP_ISINF, max), sn_dec_scalar(m, x, 0), max};
    sn_nd shift = sn_graph_node(m, SN_OP_WHERE, choice, 3, NULL, 0);
    sn_nd e = sn_graph_unary(m, SN_OP_EXP, sn_graph_binary(m, SN_OP_SUB, x, shift));
    sn_nd sum = sn_dec_reduce(m, SN_OP_SUM, e, mask);
    return sn_graph_binary(m, SN_OP_ADD, sn_graph_unary(m, SN_OP_LOG, sum), shift);
}

/* Of no elements there is no maximum, but a sum: the logarithm of 0. */
static sn_nd dec_logsumexp(sn_module *m, sn_nd x) {
    uint32_t mask = sn_node_axes_mask(m, x);
    sn_nd in = sn_dec_operand(m, x, 0);
    if (is_empty(m, in, mask)) return finish(m, x, sn_graph_unary(m, SN_OP_LOG, sn_dec_reduce(m, SN_OP_SUM, in, mask)));
    return finish(m, x, logsumexp(m, in, mask));
}

/* Mean over rows of logsumexp(x) - x[target]. */
static sn_nd dec_cross_entropy(sn_module *m, sn_nd x) {
    static const int64_t one = 1;
    sn_nd in = sn_dec_operand(m, x, 0);
    sn_nd pick[2] = {in, sn_graph_unsqueeze(m, sn_node_get(m, x)->in[1], &one, 1)};
    sn_attr axis = {.id = SN_ATTR_AXIS, .i = 1};
    sn_nd picked = sn_graph_node(m, SN_OP_GATHER, pick, 2, &axis, 1);
    sn_nd loss = sn_graph_binary(m, SN_OP_SUB, logsumexp(m, in, 2), picked);
    return sn_dec_squeeze(m, sn_dec_mean(m, loss, 3), 3);
}

/* ---- repeats ---- */

/* The steps of a repeat read rows that lie behind each other. */
static sn_nd dec_repeat_slice(sn_module *m, sn_nd x) {
    const sn_node_rec *n = sn_node_get(m, x);
    const sn_node_rec *of = sn_node_get(m, n->in[0]);
    int64_t axis = sn_node_int(m, x, SN_ATTR_AXIS, 0);
    bool strided = of->op == SN_OP_INPUT && !m->graph.inputs.at[of->input].contiguous;
    if (!axis && !strided) return x;
    sn_nd rows = sn_graph_copied(m, sn_graph_move_axis(m, n->in[0], (uint32_t)axis, 0));
    return sn_graph_repeat_slice(m, (uint32_t)sn_node_int(m, x, SN_ATTR_REPEAT, 0), rows, 0,
                                 sn_node_int(m, x, SN_ATTR_REVERSE, 0));
}

/* ---- the table ---- */

typedef sn_nd (*decompose_fn)(sn_module *m, sn_nd x);
static const decompose_fn table[SN_N_OPS] = {
    [SN_OP_SUM] = dec_accumulate,
    [SN_OP_PROD] = dec_accumulate,
    [SN_OP_MEAN] = dec_mean,
    [SN_OP_VAR] = dec_var,
    [SN_OP_CLAMP] = dec_clamp,
    [SN_OP_RELU] = dec_relu,
    [SN_OP_GELU] = dec_gelu,
    [SN_OP_GELU_TANH] = dec_gelu_tanh,
    [SN_OP_SILU] = dec_silu,
    [SN_OP_REPEAT_SLICE] = dec_repeat_slice,
    [SN_OP_SOFTMAX] = dec_softmax,
    [SN_OP_LOG_SOFTMAX] = dec_log_softmax,
    [SN_OP_LOGSUMEXP] = dec_logsumexp,
    [SN_OP_LAYER_NORM] = sn_dec_layer_norm,
    [SN_OP_RMS_NORM] = sn_dec_rms_norm,
    [SN_OP_BATCH_NORM] = sn_dec_batch_norm,
    [SN_OP_CROSS_ENTROPY] = dec_cross_entropy,
    [SN_OP_DROPOUT] = sn_dec_dropout,
    [SN_OP_RANDOM_NORMAL] = sn_dec_random_normal,
};

/* Result k of an operation with several; x is the tuple. */
typedef sn_nd (*result_fn)(sn_module *m, sn_nd x, int64_t k);
static const result_fn tuple_table[SN_N_OPS] = {
    [SN_OP_VAR_MEAN] = var_mean_result,
    [SN_OP_BATCH_NORM_TRAIN] = sn_dec_batch_norm_train,
};

static sn_nd decompose_matmul(sn_pass_ctx *cx, sn_nd x) {
    sn_nd y = sn_dec_matmul(cx, x);
    if (sn_nd_eq(y, x)) y = sn_dec_lanes(cx, x);
    return sn_nd_eq(y, x) ? sn_dec_pairs(cx, x) : y;
}

static sn_nd decompose_node(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *node = sn_node_get(m, x);
    sn_nd whole = node->op == SN_OP_PROJECT ? node->in[0] : x;
    sn_op op = sn_node_get(m, whole)->op;
    sn_nd y = x;
    if (node->op == SN_OP_PROJECT && tuple_table[op])
        y = tuple_table[op](m, whole, sn_node_int(m, x, SN_ATTR_INDEX, 0));
    else if (op == SN_OP_MATMUL) y = decompose_matmul(cx, x);
    else if (op == SN_OP_CONV) y = sn_nd_eq(y = sn_dec_conv(cx, x), x) ? sn_dec_bands(cx, x) : y;
    else if (op == SN_OP_SCATTER_SUM || op == SN_OP_SCATTER_PROD || op == SN_OP_SCATTER_MAX || op == SN_OP_SCATTER_MIN)
        y = sn_dec_scatter_reduce(cx, x);
    else if (table[op]) y = table[op](m, x);
    if (!y.i || sn_nd_eq(x, y)) return y;
    return sn_graph_cast(m, y, node->type.dtype);
}

sn_status sn_pass_decompose(sn_pass_ctx *cx, bool *changed) { return sn_graph_rewrite(cx, decompose_node, changed); }
