/* ops_loss.c: losses of classification: the negative logarithm of the probability that was given to the right class.
 *
 *     SoftmaxCrossEntropyLoss(x, labels) = NegativeLogLikelihoodLoss(log_softmax(x), labels)
 *
 * x is [N, C, ...], labels [N, ...]. Every label stands for a weight: that of its class (1 without weights), or 0 where
 * it is ignore_index. The mean is that by weight: sum of weight * loss over sum of weights.
 */
#include "frontend/onnx/import.h"

#include <string.h>

typedef struct labels {
    sn_nd at;      /* positions of classes */
    sn_nd ignored; /* bool; none: no label is */
    sn_nd weights; /* none: all are 1 */
} labels;

/* `otherwise` where labels count, else 0. */
static sn_nd counted(sn_module *m, const labels *l, sn_nd otherwise) {
    return l->ignored.i ? sn_graph_where(m, l->ignored, sn_graph_number(m, otherwise, 0), otherwise) : otherwise;
}

/* Operands 1 and 2. A label that is ignored need not be a class, so it is read as class 0. */
static labels read_labels(sn_onnx_call *c, sn_nd x) {
    sn_module *m = c->m;
    labels l = {.at = sn_onnx_in(c, 1)};
    sn_dtype dtype = sn_graph_type(m, x)->dtype;
    int64_t ignore = sn_onnx_attr_int(c, "ignore_index", 0);
    if (sn_onnx_has_attr(c, "ignore_index")) {
        l.ignored = sn_graph_with(m, SN_OP_EQ, l.at, (double)ignore);
        l.at = counted(m, &l, l.at);
    }
    if (sn_onnx_has(c, 2)) {
        l.weights = sn_graph_index_select(m, sn_graph_cast(m, sn_onnx_in(c, 2), dtype), l.at, 0);
    } else if (l.ignored.i) {
        sn_type t = *sn_graph_type(m, l.at);
        l.weights = sn_graph_full(m, dtype, 1, t.shape, t.rank);
    }
    if (l.weights.i) l.weights = counted(m, &l, l.weights);
    return l;
}

/* Over all axes. */
static sn_nd reduced(sn_module *m, sn_op op, sn_nd x) {
    int64_t axes[SN_MAX_RANK];
    uint32_t rank = sn_graph_type(m, x)->rank;
    for (uint32_t k = 0; k < rank; k++) axes[k] = k;
    return sn_graph_reduce(m, op, x, axes, rank, false);
}

/* The loss of x, logarithms of probabilities; in the dtype of operand 0. */
static sn_status loss(sn_onnx_call *c, sn_nd x) {
    static const int64_t channels = 1;
    sn_module *m = c->m;
    const char *reduction = sn_onnx_attr_text(c, "reduction", "mean");
    bool mean = !strcmp(reduction, "mean"), sum = !strcmp(reduction, "sum");
    if (!mean && !sum && strcmp(reduction, "none")) return sn_onnx_fail(c, "there is no reduction %s", reduction);
    labels l = read_labels(c, x);
    sn_nd picked = sn_graph_gather(m, x, sn_graph_unsqueeze(m, l.at, &channels, 1), 1);
    sn_nd y = sn_graph_unary(m, SN_OP_NEG, sn_graph_squeeze(m, picked, &channels, 1));
    if (l.weights.i) y = counted(m, &l, sn_graph_mul(m, y, l.weights));
    if (mean && !l.weights.i) y = reduced(m, SN_OP_MEAN, y);
    else if (mean) y = sn_graph_div(m, reduced(m, SN_OP_SUM, y), reduced(m, SN_OP_SUM, l.weights));
    else if (sum) y = reduced(m, SN_OP_SUM, y);
    return sn_onnx_done(c, sn_graph_cast(m, y, sn_graph_type(m, sn_onnx_in(c, 0))->dtype));
}

sn_status sn_onnx_nll_loss(sn_onnx_call *c) { return loss(c, sn_graph_widen(c->m, sn_onnx_in(c, 0))); }

/* Result 1: the logarithms of the probabilities. */
sn_status sn_onnx_softmax_loss(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    sn_nd y = sn_graph_along(c->m, SN_OP_LOG_SOFTMAX, sn_graph_widen(c->m, x), 1);
    sn_onnx_out(c, 1, sn_graph_cast(c->m, y, sn_graph_type(c->m, x)->dtype));
    return loss(c, y);
}
