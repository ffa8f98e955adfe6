/* ops_norm.c: normalisations: (x - mean) / sqrt(variance + epsilon) * scale + bias, over axes that differ.
 *
 *     BatchNormalization      mean and variance are given, in training computed over all axes but the channels
 *     InstanceNormalization   over the axes after the channels
 *     GroupNormalization      the same, of channels taken together in groups
 *     LayerNormalization      over the axes from one on
 *     RMSNormalization        the same without the mean: x / sqrt(mean of x^2 + epsilon) * scale
 *
 * onnxruntime's SkipLayerNormalization and EmbedLayerNormalization are those of a sum, of operands or of rows of tables.
 * The channels are axis 1. Halves are computed in f32 throughout and rounded once, which is what stash_type 1 asks for
 * and more. Variances are those of the population, two-pass.
 */
#include "frontend/onnx/import.h"

/* The axes first .. end-1. */
static uint32_t axes_between(int64_t *axes, uint32_t first, uint32_t end) {
    uint32_t n = 0;
    for (uint32_t k = first; k < end; k++) axes[n++] = k;
    return n;
}

/* Mean over the axes, which stay with size 1. */
static sn_nd mean_of(sn_module *m, sn_nd x, const int64_t *axes, uint32_t n) {
    return sn_graph_reduce(m, SN_OP_MEAN, x, axes, n, true);
}

static sn_nd variance_of(sn_module *m, sn_nd x, const int64_t *axes, uint32_t n) {
    sn_attr attrs[] = {
        {.id = SN_ATTR_AXES, .ints = {axes, n}}, {.id = SN_ATTR_KEEPDIM, .i = 1}, {.id = SN_ATTR_CORRECTION, .i = 0}};
    return sn_graph_node(m, SN_OP_VAR, &x, 1, attrs, 3);
}

/* 1 / sqrt(variance + epsilon); onnxruntime's own operators have another epsilon. */
static sn_nd inverse_deviation(sn_onnx_call *c, sn_nd variance) {
    double epsilon = sn_onnx_attr_float(c, "epsilon", c->op->domain[0] ? 1e-12 : 1e-5);
    return sn_graph_unary(c->m, SN_OP_RSQRT, sn_graph_with(c->m, SN_OP_ADD, variance, epsilon));
}

/* Operand k in the dtype of x. */
static sn_nd operand_like(sn_onnx_call *c, uint32_t k, sn_nd x) {
    return sn_graph_cast(c->m, sn_onnx_in(c, k), sn_graph_type(c->m, x)->dtype);
}

/* Operand k, with one number for each channel of x or, where there are more, for each element of a sample. */
static sn_nd per_channel(sn_onnx_call *c, uint32_t k, sn_nd x) {
    return sn_graph_align(c->m, operand_like(c, k, x), 1, sn_graph_type(c->m, x)->rank);
}

static sn_status finish(sn_onnx_call *c, uint32_t result, sn_nd y, uint32_t like) {
    sn_onnx_out(c, result, sn_graph_cast(c->m, y, sn_graph_type(c->m, sn_onnx_in(c, like))->dtype));
    return c->m->env->status;
}

/* ---- batches ---- */

/* Is result k used? */
static bool is_wanted(const sn_onnx_call *c, uint32_t k) {
    return k < c->n_out && c->node->outputs.at[k] && c->node->outputs.at[k][0];
}

/* From opset 14 an attribute says so, before 7 another one; between them it is training if its results are used. */
static bool is_training(sn_onnx_call *c) {
    bool training = sn_onnx_attr_int(c, "training_mode", 0), test = sn_onnx_attr_int(c, "is_test", 0);
    if (c->opset >= 14) return training;
    return c->opset < 7 ? !test : is_wanted(c, 1) || is_wanted(c, 2) || is_wanted(c, 3) || is_wanted(c, 4);
}

/* momentum * (operand k) + (1 - momentum) * now, which has the axes of x */
static sn_nd running(sn_onnx_call *c, uint32_t k, sn_nd now) {
    double momentum = sn_onnx_attr_float(c, "momentum", 0.9);
    sn_module *m = c->m;
    sn_nd old = operand_like(c, k, now);
    const sn_type *t = sn_graph_type(m, old);
    return sn_graph_add(m, sn_graph_with(m, SN_OP_MUL, old, momentum),
                        sn_graph_with(m, SN_OP_MUL, sn_graph_reshape(m, now, t->shape, t->rank), 1 - momentum));
}

/* Running statistics, and before opset 14 those of the batch. */
static void training_results(sn_onnx_call *c, sn_nd mean, sn_nd variance) {
    finish(c, 1, running(c, 3, mean), 3);
    finish(c, 2, running(c, 4, variance), 4);
    const sn_type *t = sn_graph_type(c->m, sn_onnx_in(c, 3));
    if (is_wanted(c, 3)) finish(c, 3, sn_graph_reshape(c->m, mean, t->shape, t->rank), 3);
    if (is_wanted(c, 4)) finish(c, 4, sn_graph_reshape(c->m, variance, t->shape, t->rank), 4);
}

sn_status sn_onnx_batch_norm(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_graph_widen(m, sn_onnx_in(c, 0));
    uint32_t rank = sn_graph_type(m, x)->rank, n;
    int64_t axes[SN_MAX_RANK] = {0}; /* the batch; with `spatial` all but the channels */
    bool spatial = sn_onnx_attr_int(c, "spatial", 1), training = is_training(c);
    sn_onnx_attr_ignore(c, "momentum");
    if (rank < 2) return sn_onnx_fail(c, "an operand of rank %u has no channels", rank);
    n = spatial ? 1 + axes_between(axes + 1, 2, rank) : 1;
    sn_nd mean = training ? mean_of(m, x, axes, n) : per_channel(c, 3, x);
    sn_nd variance = training ? variance_of(m, x, axes, n) : per_channel(c, 4, x);
    sn_nd scale = sn_graph_mul(m, inverse_deviation(c, variance), per_channel(c, 1, x));
    if (training) training_results(c, mean, variance);
    return finish(c, 0, sn_graph_add(m, sn_graph_mul(m, sn_graph_sub(m, x, mean), scale), per_channel(c, 2, x)), 0);
}

/* ---- instances, groups, layers ---- */

/* x with mean 0 and variance 1 over the axes. */
static sn_nd normalised(sn_onnx_call *c, sn_nd x, const int64_t *axes, uint32_t n) {
    sn_nd centred = sn_graph_sub(c->m, x, mean_of(c->m, x, axes, n));
    return sn_graph_mul(c->m, centred, inverse_deviation(c, variance_of(c->m, x, axes, n)));
}

sn_status sn_onnx_instance_norm(sn_onnx_call *c) {
    sn_module *m = c->m;
    int64_t axes[SN_MAX_RANK];
    sn_nd x = sn_graph_widen(m, sn_onnx_in(c, 0));
    uint32_t rank = sn_graph_type(m, x)->rank;
    if (rank < 3) return sn_onnx_fail(c, "an operand of rank %u has no axes after the channels", rank);
    sn_nd y = normalised(c, x, axes, axes_between(axes, 2, rank));
    return finish(c, 0, sn_graph_add(m, sn_graph_mul(m, y, per_channel(c, 1, x)), per_channel(c, 2, x)), 0);
}

/* Scale and bias have a number for each channel, before opset 21 for each group. */
sn_status sn_onnx_group_norm(sn_onnx_call *c) {
    sn_module *m = c->m;
    int64_t groups = sn_onnx_attr_int(c, "num_groups", 1), channels = 0, axes[SN_MAX_RANK];
    sn_nd x = sn_graph_widen(m, sn_onnx_in(c, 0));
    sn_type t = *sn_graph_type(m, x), grouped = {.rank = t.rank + 1, .shape = {t.shape[0]}};
    sn_onnx_attr_ignore(c, "stash_type");
    if (t.rank < 2 || t.rank == SN_MAX_RANK) return sn_onnx_fail(c, "an operand of rank %u", t.rank);
    if (!sn_ix_is_const(m, t.shape[1], &channels)) return sn_onnx_fail(c, "the number of channels has to be a number");
    if (groups < 1 || channels % groups)
        return sn_onnx_fail(c, "%lld channels do not divide into %lld groups", (long long)channels, (long long)groups);
    grouped.shape[1] = sn_ix_const(m, groups);
    grouped.shape[2] = sn_ix_const(m, channels / groups);
    for (uint32_t k = 2; k < t.rank; k++) grouped.shape[k + 1] = t.shape[k];
    sn_nd y =
        normalised(c, sn_graph_reshape(m, x, grouped.shape, grouped.rank), axes, axes_between(axes, 2, grouped.rank));
    if (c->opset >= 21) y = sn_graph_reshape(m, y, t.shape, t.rank);
    y = sn_graph_add(m, sn_graph_mul(m, y, per_channel(c, 1, y)), per_channel(c, 2, y));
    return finish(c, 0, sn_graph_reshape(m, y, t.shape, t.rank), 0);
}

/* Results: y, mean, 1 / sqrt(variance + epsilon). The last two have the dtype that stash_type names. */
sn_status sn_onnx_layer_norm(sn_onnx_call *c) {
    sn_module *m = c->m;
    int64_t axes[SN_MAX_RANK];
    sn_nd x = sn_graph_widen(m, sn_onnx_in(c, 0));
    uint32_t rank = sn_graph_type(m, x)->rank, first;
    sn_dtype stash = sn_onnx_attr_dtype(c, "stash_type", SN_F32);
    SN_TRY(sn_onnx_axis(&first, c, sn_onnx_attr_int(c, "axis", -1), rank));
    uint32_t n = axes_between(axes, first, rank);
    sn_nd y = sn_graph_mul(m, normalised(c, x, axes, n), operand_like(c, 1, x));
    if (sn_onnx_has(c, 2)) y = sn_graph_add(m, y, operand_like(c, 2, x));
    sn_onnx_out(c, 1, sn_graph_cast(m, mean_of(m, x, axes, n), stash));
    sn_onnx_out(c, 2, sn_graph_cast(m, inverse_deviation(c, variance_of(m, x, axes, n)), stash));
    return finish(c, 0, y, 0);
}

/* ---- root mean squares ---- */

static sn_nd inverse_root_mean_square(sn_onnx_call *c, sn_nd x, const int64_t *axes, uint32_t n) {
    return inverse_deviation(c, mean_of(c->m, sn_graph_mul(c->m, x, x), axes, n));
}

/* Results: y, and of onnxruntime's SimplifiedLayerNormalization 1 / sqrt(mean of x^2 + epsilon). */
sn_status sn_onnx_rms_norm(sn_onnx_call *c) {
    sn_module *m = c->m;
    int64_t axes[SN_MAX_RANK];
    sn_nd x = sn_graph_widen(m, sn_onnx_in(c, 0));
    uint32_t rank = sn_graph_type(m, x)->rank, first;
    sn_dtype stash = sn_onnx_attr_dtype(c, "stash_type", SN_F32);
    SN_TRY(sn_onnx_axis(&first, c, sn_onnx_attr_int(c, "axis", -1), rank));
    sn_nd inverse = inverse_root_mean_square(c, x, axes, axes_between(axes, first, rank));
    sn_onnx_out(c, 1, sn_graph_cast(m, inverse, stash));
    return finish(c, 0, sn_graph_mul(m, sn_graph_mul(m, x, inverse), operand_like(c, 1, x)), 0);
}

/* ---- of sums ---- */

/* Over the last axis of x: scale * normalised x + bias, operands `scale` and the next one. */
static sn_status layer_of(sn_onnx_call *c, sn_nd x, uint32_t scale) {
    static const int64_t last = -1;
    sn_nd y = sn_graph_mul(c->m, normalised(c, x, &last, 1), operand_like(c, scale, x));
    if (sn_onnx_has(c, scale + 1)) y = sn_graph_add(c->m, y, operand_like(c, scale + 1, x));
    return finish(c, 0, y, scale);
}

/* Operands x, what is added to it, scale, bias of the result (not for root mean squares, arg 1), bias of the sum. Result 3: the sum. */
sn_status sn_onnx_skip_norm(sn_onnx_call *c) {
    static const int64_t last = -1;
    sn_module *m = c->m;
    bool squares = c->op->arg;
    uint32_t bias = squares ? 3 : 4;
    sn_nd x = sn_graph_widen(m, sn_onnx_in(c, 0));
    x = sn_graph_add(m, x, operand_like(c, 1, x));
    if (sn_onnx_has(c, bias)) x = sn_graph_add(m, x, operand_like(c, bias, x));
    finish(c, 3, x, 0);
    sn_nd inverse =
        squares ? inverse_root_mean_square(c, x, &last, 1) : inverse_deviation(c, variance_of(m, x, &last, 1));
    if (!squares) sn_onnx_out(c, 1, mean_of(m, x, &last, 1));
    sn_onnx_out(c, 2, inverse);
    if (!squares) return layer_of(c, x, 2);
    return finish(c, 0, sn_graph_mul(m, sn_graph_mul(m, x, inverse), operand_like(c, 2, x)), 0);
}

/* Rows of tables of words (operand 2), places (3) and segments (4) for ids of words (0), segments (1) and places (8), which are 0, 1, ..
 * where they are not given. Results: the norm, how many words a mask (7) counts, the sum. */
sn_status sn_onnx_embed_norm(sn_onnx_call *c) {
    static const int64_t along = 1;
    sn_module *m = c->m;
    sn_nd ids = sn_onnx_in(c, 0), places;
    const sn_type *t = sn_graph_type(m, ids);
    if (t->rank != 2) return sn_onnx_fail(c, "ids of rank %u", t->rank);
    sn_ix shape[] = {sn_ix_const(m, 1), t->shape[1]};
    if (sn_onnx_has(c, 8)) places = sn_onnx_in(c, 8);
    else places = sn_graph_iota(m, SN_I64, 1, shape, 2);
    sn_nd x = sn_graph_widen(m, sn_graph_index_select(m, sn_onnx_in(c, 2), ids, 0));
    x = sn_graph_add(m, x, sn_graph_widen(m, sn_graph_index_select(m, sn_onnx_in(c, 3), places, 0)));
    if (sn_onnx_has(c, 1) && sn_onnx_has(c, 4))
        x = sn_graph_add(m, x, sn_graph_widen(m, sn_graph_index_select(m, sn_onnx_in(c, 4), sn_onnx_in(c, 1), 0)));
    sn_onnx_attr_ignore(c, "mask_index_type");
    if (sn_onnx_has(c, 7))
        sn_onnx_out(c, 1, sn_graph_cast(m, sn_graph_reduce(m, SN_OP_SUM, sn_onnx_in(c, 7), &along, 1, false), SN_I32));
    else sn_onnx_out(c, 1, sn_graph_full(m, SN_I32, 0, t->shape, 1));
    finish(c, 2, x, 2);
    return layer_of(c, x, 5);
}

/* The deviation has 1e-9 added, not the variance an epsilon. */
sn_status sn_onnx_mean_variance_norm(sn_onnx_call *c) {
    static const int64_t usual[] = {0, 2, 3};
    sn_module *m = c->m;
    const int64_t *axes;
    uint32_t n;
    sn_nd x = sn_graph_widen(m, sn_onnx_in(c, 0));
    if (!sn_onnx_attr_ints(&axes, &n, c, "axes")) axes = usual, n = SN_COUNT(usual);
    sn_nd deviation = sn_graph_unary(m, SN_OP_SQRT, variance_of(m, x, axes, n));
    sn_nd centred = sn_graph_sub(m, x, mean_of(m, x, axes, n));
    return finish(c, 0, sn_graph_div(m, centred, sn_graph_with(m, SN_OP_ADD, deviation, 1e-9)), 0);
}

/* ---- by a norm ---- */

/* x / |x| along an axis; 0 where all of it is 0. */
sn_status sn_onnx_lp_norm(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_graph_widen(m, sn_onnx_in(c, 0));
    int64_t axis = sn_onnx_attr_int(c, "axis", -1), p = sn_onnx_attr_int(c, "p", 2);
    if (p != 1 && p != 2) return sn_onnx_fail(c, "p is %lld, not 1 or 2", (long long)p);
    sn_nd terms = p == 1 ? sn_graph_unary(m, SN_OP_ABS, x) : sn_graph_mul(m, x, x);
    sn_nd norm = sn_graph_reduce(m, SN_OP_SUM, terms, &axis, 1, true);
    if (p == 2) norm = sn_graph_unary(m, SN_OP_SQRT, norm);
    sn_nd none = sn_graph_with(m, SN_OP_EQ, norm, 0);
    return finish(c, 0, sn_graph_where(m, none, sn_graph_number(m, x, 0), sn_graph_div(m, x, norm)), 0);
}

/* x / (bias + alpha / size * s)^beta, where s sums the squares of `size` channels around each. */
sn_status sn_onnx_lrn(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_graph_widen(m, sn_onnx_in(c, 0));
    double alpha = sn_onnx_attr_float(c, "alpha", 1e-4), beta = sn_onnx_attr_float(c, "beta", 0.75);
    double bias = sn_onnx_attr_float(c, "bias", 1);
    int64_t size = sn_onnx_attr_int(c, "size", 1), low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
    if (size < 1) return sn_onnx_fail(c, "size %lld", (long long)size);
    if (sn_graph_type(m, x)->rank < 2) return sn_onnx_fail(c, "an operand without channels");
    low[1] = (size - 1) / 2;
    high[1] = size - 1 - low[1];
    sn_nd around = sn_graph_unfold(m, sn_graph_pad(m, sn_graph_mul(m, x, x), low, high, 0), 1, size, 1, 1);
    sn_nd sum = sn_graph_reduce(m, SN_OP_SUM, around, (int64_t[]){-1}, 1, false);
    sn_nd base = sn_graph_with(m, SN_OP_ADD, sn_graph_with(m, SN_OP_MUL, sum, alpha / (double)size), bias);
    return finish(c, 0, sn_graph_mul(m, x, sn_graph_with(m, SN_OP_POW, base, -beta)), 0);
}
