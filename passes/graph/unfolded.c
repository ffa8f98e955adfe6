/* unfolded.c: choices that make a convolution of products, or of shorter convolutions.
 *
 *     pointwise    %y = conv %x, %w stride=[2, 2]      (%x: f32[4, 64, 28, 28], %w: f32[96, 64, 1, 1])
 *               -> %p = reshape (slices of %x) : f32[4, 64, 196] ;  %c = matmul (reshape %w : f32[96, 64]), %p
 *     unfolded     %y = conv %x, %w padding=[1, 1]     (%w: f32[96, 64, 3, 3])
 *               -> %u = copy (permute (unfold (unfold (pad %x)))) : f32[4, 64, 3, 3, 28, 28]
 *                  %c = matmul (reshape %w : f32[96, 576]), (reshape %u : f32[4, 576, 784])
 *     decompose_k  %y = conv %x, %w parts=2            (%x: f16[64, 512, 28, 28], %w: f16[96, 512, 26, 26])
 *               -> %0 = conv of channels 0 to 255, %1 = conv of channels 256 to 511, each in f32 ;  %y = cast (add %0, %1)
 *
 * The products are products for the pass `choose`, which may cut them in parts or leave them to a library. Groups are a
 * batch. Parts of a sum over channels are convolutions of their own, because most schedules want one group; they run side
 * by side, and for halves in the dtype of sums, so that nothing is rounded that was not before. Legality: where they apply;
 * the terms of a sum are added in another order. Cost: windows are written and read once, each element as often as there are
 * taps; partial results are written and read once. Relies on sizes being numbers, and not 0.
 */
#include "ir/graph/build.h"
#include "passes/graph/choices.h"
#include "passes/graph/rewrite.h"

#include <stdlib.h>
#include <string.h>

static const sn_nd none = {0};

static bool has_elements(const sn_convolution *c) {
    for (uint32_t k = 0; k < c->rank; k++)
        if (!c->image[k] || !c->weights[k] || !c->result[k]) return false;
    return true;
}

static sn_nd refused(sn_pass_ctx *cx, const char *name, const char *why) {
    sn_fail(cx->m->env, SN_ERROR_ARGUMENT, "%s: %s", name, why);
    return none;
}

static const sn_node_rec *node(const sn_module *m, const sn_convolution *c) { return sn_node_get(m, c->node); }

/* weights : [groups, O', K], columns : [N, C' * groups * taps, pixels] -> [N, O, Q..] */
static sn_nd product_of(sn_module *m, const sn_convolution *c, sn_nd columns) {
    const sn_attr *precision = sn_node_attr(m, c->node, SN_ATTR_PRECISION);
    const int64_t groups = c->g.groups, k = c->weights[1] * c->taps;
    const int64_t weights[] = {groups, c->weights[0] / groups, k};
    const int64_t image[] = {c->result[0], groups, k, c->pixels};
    bool one = groups == 1;
    if (!columns.i) return none;
    sn_nd in[] = {sn_graph_reshape_to(m, node(m, c)->in[1], weights + one, 3 - one),
                  one ? sn_graph_reshape_to(m, columns, (int64_t[]){image[0], k, c->pixels}, 3)
                      : sn_graph_reshape_to(m, columns, image, 4)};
    if (!in[0].i || !in[1].i) return none;
    sn_nd y = sn_graph_node(m, SN_OP_MATMUL, in, 2, precision, precision ? 1 : 0);
    return y.i ? sn_graph_reshape_to(m, y, c->result, c->rank) : none;
}

static bool is_padded(const sn_convolution *c) {
    for (uint32_t k = 0; k < c->g.n; k++)
        if (c->g.low[k] || c->g.high[k]) return true;
    return false;
}

/* Crops too. */
static sn_nd padded(sn_module *m, const sn_convolution *c) {
    int64_t low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
    sn_nd x = node(m, c)->in[0];
    for (uint32_t k = 0; k < c->g.n; k++) {
        int64_t from = c->g.low[k] < 0 ? -c->g.low[k] : 0, cut = c->g.high[k] < 0 ? -c->g.high[k] : 0;
        if ((from || cut) && x.i) x = sn_graph_slice(m, x, 2 + k, from, c->image[2 + k] - cut, 1);
        low[2 + k] = c->g.low[k] > 0 ? c->g.low[k] : 0;
        high[2 + k] = c->g.high[k] > 0 ? c->g.high[k] : 0;
    }
    bool any = false;
    for (uint32_t k = 2; k < c->rank; k++) any |= low[k] || high[k];
    return any && x.i ? sn_graph_pad(m, x, low, high, 0) : x;
}

/* ---- pointwise ---- */

bool sn_conv_choice_pointwise_applies(const char **why_not, const sn_choice_question *q) {
    const sn_convolution *c = q->conv;
    *why_not = "its windows have several elements, or padding, or zeros between elements";
    return has_elements(c) && c->taps == 1 && !is_padded(c) && sn_convolution_is_dense(c);
}

void sn_conv_choice_pointwise_candidates(sn_choice_list *out, const sn_choice_question *q) {
    (void)q;
    sn_choice_add(out, "pointwise");
}

sn_nd sn_conv_choice_pointwise_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters) {
    const sn_convolution *c = q->conv;
    const char *why_not;
    if (*parameters || !sn_conv_choice_pointwise_applies(&why_not, q))
        return refused(cx, "pointwise", *parameters ? "it has no parameters" : why_not);
    sn_nd x = node(cx->m, c)->in[0];
    for (uint32_t k = 0; k < c->g.n && x.i; k++) {
        int64_t step = c->g.stride[k], reached = (c->result[2 + k] - 1) * step + 1;
        if (step > 1 || reached < c->image[2 + k]) x = sn_graph_slice(cx->m, x, 2 + k, 0, reached, step);
    }
    return product_of(cx->m, c, x);
}

/* ---- unfolded ---- */

/* [N, C, S1..Sn] -> [N, C, Q1..Qn, K1..Kn] -> [N, C, K1..Kn, Q1..Qn], in memory of its own. */
static sn_nd columns_of(sn_module *m, const sn_convolution *c) {
    uint32_t n = c->g.n, rank = 2 + 2 * n;
    int64_t perm[SN_MAX_RANK] = {0, 1};
    sn_nd x = padded(m, c);
    for (uint32_t k = 0; k < n && x.i; k++) {
        x = sn_graph_unfold(m, x, 2 + k, c->weights[2 + k], c->g.stride[k], c->g.dilation[k]);
        perm[2 + k] = 2 + n + k;
        perm[2 + n + k] = 2 + k;
    }
    if (x.i) x = sn_graph_permute(m, x, perm, rank);
    return x.i ? sn_graph_copied(m, x) : x;
}

bool sn_conv_choice_unfolded_applies(const char **why_not, const sn_choice_question *q) {
    const sn_convolution *c = q->conv;
    *why_not = "its windows have one element, or zeros between elements";
    return has_elements(c) && c->taps > 1 && sn_convolution_is_dense(c);
}

void sn_conv_choice_unfolded_candidates(sn_choice_list *out, const sn_choice_question *q) {
    const sn_convolution *c = q->conv;
    double bytes = (double)c->result[0] * (double)c->image[1] * (double)c->taps * (double)c->pixels;
    bool pays = c->weights[0] / c->g.groups >= SN_CHOICE_UNFOLD;
    if (pays && bytes * sn_dtype_bytes(c->dtype) <= SN_CHOICE_UNFOLDED) sn_choice_add(out, "unfolded");
}

sn_nd sn_conv_choice_unfolded_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters) {
    const char *why_not;
    if (*parameters || !sn_conv_choice_unfolded_applies(&why_not, q))
        return refused(cx, "unfolded", *parameters ? "it has no parameters" : why_not);
    return product_of(cx->m, q->conv, columns_of(cx->m, q->conv));
}

/* ---- decompose_k ---- */

bool sn_conv_choice_decompose_k_applies(const char **why_not, const sn_choice_question *q) {
    const sn_convolution *c = q->conv;
    *why_not = "it has several groups, or fewer than two channels";
    return has_elements(c) && c->g.groups == 1 && c->weights[1] > 1;
}

static double product_of_sizes(const int64_t *size, uint32_t rank) {
    double n = 1;
    for (uint32_t k = 0; k < rank; k++) n *= (double)size[k];
    return n;
}

static double tiles(int64_t n) { return (double)((n + SN_CHOICE_TILE - 1) / SN_CHOICE_TILE); }

/* Parts are there to keep units busy that the blocks of the result leave idle, and cost their results. */
static bool is_worth_it(const sn_choice_question *q, int64_t parts) {
    const sn_convolution *c = q->conv;
    double blocks = tiles(c->weights[0]) * tiles(c->result[0] * c->pixels), dtype = sn_dtype_bytes(c->dtype);
    double operands = (product_of_sizes(c->image, c->rank) + product_of_sizes(c->weights, c->rank)) * dtype;
    double partial = product_of_sizes(c->result, c->rank) * sn_dtype_bytes(sn_compute_dtype(c->dtype));
    return c->weights[1] % parts == 0 && blocks * (double)parts <= q->target->units &&
           c->weights[1] / parts * c->taps >= SN_CHOICE_PART &&
           (double)parts * partial * SN_CHOICE_SUM_SHARE <= operands;
}

void sn_conv_choice_decompose_k_candidates(sn_choice_list *out, const sn_choice_question *q) {
    for (int64_t parts = SN_CHOICE_CONV_PARTS; parts > 1; parts /= 2)
        if (is_worth_it(q, parts)) sn_choice_add(out, "decompose_k parts=%lld", (long long)parts);
}

/* A part of the channels, in the dtype of sums. */
static sn_nd channels(sn_module *m, sn_nd x, int64_t first, int64_t n) {
    sn_nd y = sn_graph_slice(m, x, 1, first, first + n, 1);
    return y.i ? sn_graph_cast(m, y, sn_compute_dtype(sn_type_of(m, x)->dtype)) : y;
}

sn_nd sn_conv_choice_decompose_k_rewrite(sn_pass_ctx *cx, const sn_choice_question *q, const char *parameters) {
    sn_module *m = cx->m;
    const sn_convolution *c = q->conv;
    static const char word[] = "parts=";
    const char *why_not;
    char *end = NULL;
    if (!sn_conv_choice_decompose_k_applies(&why_not, q)) return refused(cx, "decompose_k", why_not);
    long long parts = strncmp(parameters, word, sizeof word - 1) ? 0 : strtoll(parameters + sizeof word - 1, &end, 10);
    if (parts < 2 || parts > SN_CHOICE_CONV_PARTS || *end || c->weights[1] % parts) {
        sn_fail(m->env, SN_ERROR_ARGUMENT,
                "decompose_k: '%s': parts=N is wanted, where N divides the %lld channels and is at most %d", parameters,
                (long long)c->weights[1], SN_CHOICE_CONV_PARTS);
        return none;
    }
    const sn_node_rec *n = node(m, c);
    sn_nd image = n->in[0], weights = n->in[1], sum = none;
    for (int64_t k = 0, each = c->weights[1] / parts; k < parts; k++) {
        sn_nd in[] = {channels(m, image, k * each, each), channels(m, weights, k * each, each)};
        if (!in[0].i || !in[1].i) return none;
        sn_nd part = sn_graph_node(m, SN_OP_CONV, in, 2, n->attrs, n->n_attrs);
        if (!part.i) return none;
        sum = sum.i ? sn_graph_add(m, sum, part) : part;
    }
    return sum.i ? sn_graph_cast(m, sum, c->dtype) : none;
}
