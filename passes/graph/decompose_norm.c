/* decompose_norm.c: layer, RMS and batch normalisation to primitives. Part of the pass `decompose`; formulas are those
 * of ops.def and PyTorch. Means and variances are two-pass, over f32 for half dtypes. What depends on the channel alone
 * is computed on [C, 1, 1] before it meets x, so that it leaves the inner loop.
 */
#include "passes/graph/decompose.h"

static sn_nd add(sn_module *m, sn_nd a, sn_nd b) { return sn_graph_binary(m, SN_OP_ADD, a, b); }
static sn_nd sub(sn_module *m, sn_nd a, sn_nd b) { return sn_graph_binary(m, SN_OP_SUB, a, b); }
static sn_nd mul(sn_module *m, sn_nd a, sn_nd b) { return sn_graph_binary(m, SN_OP_MUL, a, b); }
static sn_nd quotient(sn_module *m, sn_nd a, sn_nd b) { return sn_graph_binary(m, SN_OP_DIV, a, b); }

/* 1 / sqrt(x + eps) with the eps of node `norm`. */
static sn_nd rsqrt_eps(sn_module *m, sn_nd x, sn_nd norm) {
    sn_nd eps = sn_dec_scalar(m, x, sn_node_float(m, norm, SN_ATTR_EPS, 0));
    return sn_graph_unary(m, SN_OP_RSQRT, add(m, x, eps));
}

/* ---- over the trailing axes that the weight has ---- */

static uint32_t trailing_mask(const sn_module *m, sn_nd norm) {
    const sn_node_rec *node = sn_node_get(m, norm);
    uint32_t rank = sn_type_of(m, node->in[0])->rank, n = sn_type_of(m, node->in[1])->rank;
    return ((1u << n) - 1) << (rank - n);
}

sn_nd sn_dec_layer_norm(sn_module *m, sn_nd norm) {
    sn_nd x = sn_dec_operand(m, norm, 0), w = sn_dec_operand(m, norm, 1), b = sn_dec_operand(m, norm, 2);
    uint32_t mask = trailing_mask(m, norm);
    sn_nd centred = sub(m, x, sn_dec_mean(m, x, mask));
    sn_nd var = quotient(m, sn_dec_squares(m, x, mask), sn_dec_count(m, x, mask, 0));
    return add(m, mul(m, mul(m, centred, rsqrt_eps(m, var, norm)), w), b);
}

sn_nd sn_dec_rms_norm(sn_module *m, sn_nd norm) {
    sn_nd x = sn_dec_operand(m, norm, 0), w = sn_dec_operand(m, norm, 1);
    sn_nd square = sn_dec_mean(m, sn_dec_square(m, x), trailing_mask(m, norm));
    return mul(m, mul(m, x, rsqrt_eps(m, square, norm)), w);
}

/* ---- over all axes but 1 ---- */

/* [C] to [C, 1, 1, ...], which broadcasts against x. */
static sn_nd per_channel(sn_module *m, sn_nd p, uint32_t rank_of_x) {
    int64_t axes[SN_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t k = 1; k + 1 < rank_of_x; k++) axes[n++] = k;
    return n ? sn_graph_unsqueeze(m, p, axes, n) : p;
}

/* (x - mean) * (rstd * weight) + bias; mean and rstd broadcast against x. */
static sn_nd normalise(sn_module *m, sn_nd norm, sn_nd x, sn_nd mean, sn_nd rstd) {
    uint32_t rank = sn_type_of(m, x)->rank;
    sn_nd w = per_channel(m, sn_dec_operand(m, norm, 1), rank), b = per_channel(m, sn_dec_operand(m, norm, 2), rank);
    return add(m, mul(m, sub(m, x, mean), mul(m, rstd, w)), b);
}

sn_nd sn_dec_batch_norm(sn_module *m, sn_nd norm) {
    sn_nd x = sn_dec_operand(m, norm, 0);
    uint32_t rank = sn_type_of(m, x)->rank;
    sn_nd mean = per_channel(m, sn_dec_operand(m, norm, 3), rank),
          var = per_channel(m, sn_dec_operand(m, norm, 4), rank);
    return normalise(m, norm, x, mean, rsqrt_eps(m, var, norm));
}

/* (1 - momentum) * old + momentum * now */
static sn_nd running(sn_module *m, sn_nd norm, uint32_t operand, sn_nd now) {
    double momentum = sn_node_float(m, norm, SN_ATTR_MOMENTUM, 0);
    sn_nd old = sn_dec_operand(m, norm, operand);
    return add(m, mul(m, old, sn_dec_scalar(m, old, 1 - momentum)), mul(m, now, sn_dec_scalar(m, now, momentum)));
}

/* Results: y, running mean, running variance, mean, rstd. y takes the statistics as they are, the others as [C]. */
sn_nd sn_dec_batch_norm_train(sn_module *m, sn_nd norm, int64_t k) {
    sn_nd x = sn_dec_operand(m, norm, 0);
    uint32_t mask = ((1u << sn_type_of(m, x)->rank) - 1) & ~2u;
    sn_nd mean = sn_dec_mean(m, x, mask);
    if (k == 1) return running(m, norm, 3, sn_dec_squeeze(m, mean, mask));
    if (k == 3) return sn_dec_squeeze(m, mean, mask);
    sn_nd squares = sn_dec_squares(m, x, mask);
    if (k == 2) {
        sn_nd unbiased = quotient(m, squares, sn_dec_count(m, x, mask, 1));
        return running(m, norm, 4, sn_dec_squeeze(m, unbiased, mask));
    }
    sn_nd rstd = rsqrt_eps(m, quotient(m, squares, sn_dec_count(m, x, mask, 0)), norm);
    return k == 4 ? sn_dec_squeeze(m, rstd, mask) : normalise(m, norm, x, mean, rstd);
}
