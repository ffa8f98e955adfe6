/* eval_nn.c: reference evaluation of matmul and composites, each straight from its definition in ops.def.
 * Relies on groups (eval_internal.h): normalisations and softmax work on one group of elements at a time. Integer
 * products wrap at the end, which is the same as wrapping each step.
 */
#include "ir/graph/eval_internal.h"

#include <math.h>

/* ---- matmul ---- */

/* out[m, n] += a[m, k] * b[k, n]; the innermost loop runs along rows. */
static void multiply_floats(double *out, const double *a, const double *b, int64_t m, int64_t n, int64_t k) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t r = 0; r < k; r++) {
            double x = a[i * k + r];
            for (int64_t j = 0; j < n; j++) out[i * n + j] += x * b[r * n + j];
        }
}

static void multiply_ints(int64_t *out, const int64_t *a, const int64_t *b, int64_t m, int64_t n, int64_t k) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t r = 0; r < k; r++) {
            uint64_t x = (uint64_t)a[i * k + r];
            for (int64_t j = 0; j < n; j++)
                out[i * n + j] = (int64_t)((uint64_t)out[i * n + j] + x * (uint64_t)b[r * n + j]);
        }
}

static sn_status eval_matmul(sn_eval *e) {
    const sn_array *a = e->in[0], *b = e->in[1];
    int64_t m = a->rank > 1 ? a->shape[a->rank - 2] : 1, k = a->shape[a->rank - 1];
    int64_t n = b->rank > 1 ? b->shape[b->rank - 1] : 1;
    uint32_t batch_rank = e->out->rank - (a->rank > 1) - (b->rank > 1);
    sn_walk w = sn_walk_over(e->out->shape, batch_rank);
    sn_array batch_a = *a, batch_b = *b;
    batch_a.rank = a->rank > 2 ? a->rank - 2 : 0;
    batch_b.rank = b->rank > 2 ? b->rank - 2 : 0;
    sn_walk_broadcast(&w, 0, &batch_a);
    sn_walk_broadcast(&w, 1, &batch_b);
    int64_t batches = 1;
    for (uint32_t d = 0; d < batch_rank; d++) batches *= e->out->shape[d];
    for (int64_t i = 0; i < batches; i++, sn_walk_next(&w)) {
        int64_t at_a = w.at[0] * m * k, at_b = w.at[1] * k * n, at = i * m * n;
        if (sn_is_float(a->dtype)) multiply_floats(e->out->f + at, a->f + at_a, b->f + at_b, m, n, k);
        else multiply_ints(e->out->i + at, a->i + at_a, b->i + at_b, m, n, k);
    }
    if (!sn_is_float(a->dtype)) sn_array_wrap(e->out);
    return SN_OK;
}

/* ---- activations ---- */

/* 1 + erf and 1 + tanh in forms that lose no digits where x is negative. */
static double gelu(double x) { return x * erfc(-x / sqrt(2)) / 2; }
static double gelu_tanh(double x) { return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
static double silu(double x) { return x * (1 / (1 + exp(-x))); }

static void map_floats(sn_eval *e, double (*f)(double)) {
    for (int64_t i = 0; i < e->out->numel; i++) e->out->f[i] = f(e->in[0]->f[i]);
}

static sn_status eval_gelu(sn_eval *e) { return map_floats(e, gelu), SN_OK; }
static sn_status eval_gelu_tanh(sn_eval *e) { return map_floats(e, gelu_tanh), SN_OK; }
static sn_status eval_silu(sn_eval *e) { return map_floats(e, silu), SN_OK; }

static sn_status eval_relu(sn_eval *e) {
    for (int64_t i = 0; i < e->out->numel; i++) {
        sn_scalar x = sn_array_get(e->in[0], i);
        if (sn_scalar_op(SN_LOP_LT, e->out->dtype, x, (sn_scalar){0}, x, false).i) x = (sn_scalar){0};
        sn_array_set(e->out, i, x);
    }
    return SN_OK;
}

/* ---- softmax family ---- */

/* Largest element of a group and sum(exp(x - max)). */
typedef struct exp_sum {
    double max, sum;
} exp_sum;

static exp_sum group_exp_sum(const sn_array *x, const sn_groups *gr, int64_t g) {
    const double *at = x->f + gr->base[g];
    double max = -INFINITY;
    sn_total sum = {0, 0};
    for (int64_t j = 0; j < gr->members; j++) max = sn_float_max(max, at[gr->offset[j]]);
    for (int64_t j = 0; j < gr->members; j++) sn_total_add(&sum, exp(at[gr->offset[j]] - max));
    return (exp_sum){max, sn_total_value(&sum)};
}

/* softmax, log_softmax. */
static sn_status eval_softmax(sn_eval *e) {
    const sn_array *x = e->in[0];
    bool is_log = e->n->op == SN_OP_LOG_SOFTMAX;
    sn_groups gr = sn_groups_of(e->arena, x, sn_node_axes_mask(e->m, e->x));
    for (int64_t g = 0; g < gr.n; g++) {
        exp_sum s = group_exp_sum(x, &gr, g);
        for (int64_t j = 0; j < gr.members; j++) {
            int64_t at = gr.base[g] + gr.offset[j];
            e->out->f[at] = is_log ? x->f[at] - s.max - log(s.sum) : exp(x->f[at] - s.max) / s.sum;
        }
    }
    return SN_OK;
}

/* An infinite maximum is the result: x - max would be nan. */
static double log_of(exp_sum s) { return isinf(s.max) ? s.max : s.max + log(s.sum); }

static sn_status eval_logsumexp(sn_eval *e) {
    sn_groups gr = sn_groups_of(e->arena, e->in[0], sn_node_axes_mask(e->m, e->x));
    for (int64_t g = 0; g < gr.n; g++) {
        exp_sum s = group_exp_sum(e->in[0], &gr, g);
        e->out->f[g] = log_of(s);
    }
    return SN_OK;
}

static sn_status eval_cross_entropy(sn_eval *e) {
    const sn_array *x = e->in[0], *target = e->in[1];
    sn_groups gr = sn_groups_of(e->arena, x, 2); /* classes are axis 1 */
    double sum = 0;
    for (int64_t g = 0; g < gr.n; g++) {
        exp_sum s = group_exp_sum(x, &gr, g);
        int64_t t = target->i[g];
        if (t < 0 || t >= gr.members)
            return sn_eval_fail(e, "target %lld is not a class (0 .. %lld)", (long long)t, (long long)gr.members - 1);
        sum += log_of(s) - x->f[gr.base[g] + t];
    }
    e->out->f[0] = sum / (double)gr.n;
    return SN_OK;
}

/* ---- normalisations ---- */

/* The last `rank` axes of an array. */
static uint32_t trailing_mask(const sn_array *x, uint32_t rank) { return ((1u << rank) - 1) << (x->rank - rank); }

static sn_status eval_layer_norm(sn_eval *e) {
    const sn_array *x = e->in[0], *weight = e->in[1], *bias = e->in[2];
    double eps = sn_node_float(e->m, e->x, SN_ATTR_EPS, 0);
    sn_groups gr = sn_groups_of(e->arena, x, trailing_mask(x, weight->rank));
    for (int64_t g = 0; g < gr.n; g++) {
        sn_moments mo = sn_group_moments(x, &gr, g);
        double scale = 1 / sqrt(mo.squares / (double)gr.members + eps);
        for (int64_t j = 0; j < gr.members; j++) {
            int64_t at = gr.base[g] + gr.offset[j];
            e->out->f[at] = (x->f[at] - mo.mean) * scale * weight->f[j] + bias->f[j];
        }
    }
    return SN_OK;
}

static sn_status eval_rms_norm(sn_eval *e) {
    const sn_array *x = e->in[0], *weight = e->in[1];
    double eps = sn_node_float(e->m, e->x, SN_ATTR_EPS, 0);
    sn_groups gr = sn_groups_of(e->arena, x, trailing_mask(x, weight->rank));
    for (int64_t g = 0; g < gr.n; g++) {
        sn_total squares = {0, 0};
        for (int64_t j = 0; j < gr.members; j++) sn_total_add(&squares, pow(x->f[gr.base[g] + gr.offset[j]], 2));
        double scale = 1 / sqrt(sn_total_value(&squares) / (double)gr.members + eps);
        for (int64_t j = 0; j < gr.members; j++) {
            int64_t at = gr.base[g] + gr.offset[j];
            e->out->f[at] = x->f[at] * scale * weight->f[j];
        }
    }
    return SN_OK;
}

/* y of one channel. */
static void normalise_channel(sn_eval *e, const sn_groups *gr, int64_t c, double mean, double scale) {
    const sn_array *x = e->in[0];
    for (int64_t j = 0; j < gr->members; j++) {
        int64_t at = gr->base[c] + gr->offset[j];
        e->out[0].f[at] = (x->f[at] - mean) * scale * e->in[1]->f[c] + e->in[2]->f[c];
    }
}

static sn_status eval_batch_norm(sn_eval *e) {
    double eps = sn_node_float(e->m, e->x, SN_ATTR_EPS, 0);
    sn_groups gr = sn_groups_of(e->arena, e->in[0], ~2u); /* a group is a channel */
    for (int64_t c = 0; c < gr.n; c++) normalise_channel(e, &gr, c, e->in[3]->f[c], 1 / sqrt(e->in[4]->f[c] + eps));
    return SN_OK;
}

static sn_status eval_batch_norm_train(sn_eval *e) {
    double eps = sn_node_float(e->m, e->x, SN_ATTR_EPS, 0);
    double momentum = sn_node_float(e->m, e->x, SN_ATTR_MOMENTUM, 0);
    sn_groups gr = sn_groups_of(e->arena, e->in[0], ~2u);
    double n = (double)gr.members;
    for (int64_t c = 0; c < gr.n; c++) {
        sn_moments mo = sn_group_moments(e->in[0], &gr, c);
        double scale = 1 / sqrt(mo.squares / n + eps);
        normalise_channel(e, &gr, c, mo.mean, scale);
        e->out[1].f[c] = (1 - momentum) * e->in[3]->f[c] + momentum * mo.mean;
        e->out[2].f[c] = (1 - momentum) * e->in[4]->f[c] + momentum * mo.squares / (n - 1);
        e->out[3].f[c] = mo.mean;
        e->out[4].f[c] = scale;
    }
    return SN_OK;
}

const sn_eval_fn sn_eval_nn[SN_N_OPS] = {
    [SN_OP_MATMUL] = eval_matmul,
    [SN_OP_CONV] = sn_eval_conv,
    [SN_OP_RELU] = eval_relu,
    [SN_OP_GELU] = eval_gelu,
    [SN_OP_GELU_TANH] = eval_gelu_tanh,
    [SN_OP_SILU] = eval_silu,
    [SN_OP_SOFTMAX] = eval_softmax,
    [SN_OP_LOG_SOFTMAX] = eval_softmax,
    [SN_OP_LOGSUMEXP] = eval_logsumexp,
    [SN_OP_LAYER_NORM] = eval_layer_norm,
    [SN_OP_RMS_NORM] = eval_rms_norm,
    [SN_OP_BATCH_NORM] = eval_batch_norm,
    [SN_OP_BATCH_NORM_TRAIN] = eval_batch_norm_train,
    [SN_OP_CROSS_ENTROPY] = eval_cross_entropy,
};
