/* build_conv.c: the public builder functions of convolutions.
 *
 * They read their options into the geometry of ir/graph/conv.h, which makes the nodes. Shape and dtype rules are in
 * ir/graph.
 */
#include "frontend/build.h"
#include "ir/graph/build.h"
#include "ir/graph/conv.h"

/* What the caller said, for operands x and y of operation `who`. */
typedef struct conv_call {
    sn_graph *g;
    const char *who;
    sn_nd x, y;
    sn_conv_geometry geometry;
    sn_attr precision;
    sn_conv_more more;
} conv_call;

static int64_t or_one(int64_t given) { return given ? given : 1; }

static sn_status check_operand(sn_nd *out, sn_graph *g, sn_node x, const char *who, const char *role) {
    *out = sn_inner(x);
    return sn_node_is_of(g, x) ? SN_OK : sn_node_check(g, x, who, role);
}

static sn_status read_call(conv_call *out, const sn_conv_options *options) {
    sn_env *env = &out->g->ctx->env;
    sn_conv_options o = {0};
    sn_precision p;
    SN_TRY(sn_options_read(&o, sizeof o, env, "sn_conv_options", options));
    SN_TRY(sn_precision_read(&p, env, o.precision));
    out->precision = (sn_attr){.id = SN_ATTR_PRECISION, .i = p};
    out->more = (sn_conv_more){&out->precision, o.precision ? 1 : 0};
    uint32_t rank = sn_graph_type(out->g->m, out->x)->rank, n = rank - 2;
    if (rank < 3 || n > SN_CONV_AXES)
        return sn_fail(env, SN_ERROR_TYPE,
                       "%s: operand 1 has shape %s, not a batch axis, channels and 1 to %d spatial axes", out->who,
                       sn_type_text(out->g->m, sn_graph_type(out->g->m, out->x)), SN_CONV_AXES);
    out->geometry = sn_conv_plain(n);
    sn_conv_geometry *c = &out->geometry;
    c->groups = or_one(o.groups);
    for (uint32_t k = 0; k < n; k++) {
        c->stride[k] = or_one(o.stride[k]);
        c->dilation[k] = or_one(o.dilation[k]);
        c->input_dilation[k] = or_one(o.input_dilation[k]);
        c->low[k] = o.padding[k];
        c->high[k] = o.padding[n + k];
    }
    return sn_conv_check(out->g->m, out->who, c) ? SN_OK : env->status;
}

static sn_status start(conv_call *out, sn_graph *g, const char *who, sn_node x, sn_node y,
                       const sn_conv_options *options) {
    *out = (conv_call){.g = g, .who = who};
    SN_TRY(check_operand(&out->x, g, x, who, "operand 1"));
    SN_TRY(check_operand(&out->y, g, y, who, "operand 2"));
    return read_call(out, options);
}

/* Each in lowest .. SN_CONV_MOST. */
static sn_status check_sizes(const conv_call *c, const char *name, const int64_t *at, int64_t lowest) {
    for (uint32_t k = 0; k < c->geometry.n; k++)
        if (at[k] < lowest || at[k] > SN_CONV_MOST)
            return sn_fail(&c->g->ctx->env, SN_ERROR_ARGUMENT, "%s: %s %lld is not in %lld .. %d", c->who, name,
                           (long long)at[k], (long long)lowest, SN_CONV_MOST);
    return SN_OK;
}

static sn_status conv(sn_nd *out, sn_graph *g, const char *who, sn_node x, sn_node w, const sn_conv_options *options) {
    conv_call c;
    SN_TRY(start(&c, g, who, x, w, options));
    *out = sn_graph_conv(g->m, c.x, c.y, &c.geometry, c.more);
    return g->ctx->env.status;
}

sn_node sn_conv(sn_graph *g, sn_node x, sn_node w, const sn_conv_options *options) {
    SN_BUILD_RETURN(g, conv(&g->built, g, "conv", x, w, options));
}

static sn_status conv2d(sn_nd *out, sn_graph *g, sn_node x, sn_node w, const sn_conv_options *options) {
    sn_nd image;
    SN_TRY(check_operand(&image, g, x, "conv2d", "operand 1"));
    if (sn_graph_type(g->m, image)->rank != 4)
        return sn_fail(&g->ctx->env, SN_ERROR_TYPE, "conv2d: takes an image [N, C, H, W], not %s",
                       sn_type_text(g->m, sn_graph_type(g->m, image)));
    return conv(out, g, "conv2d", x, w, options);
}

sn_node sn_conv2d(sn_graph *g, sn_node x, sn_node w, const sn_conv_options *options) {
    SN_BUILD_RETURN(g, conv2d(&g->built, g, x, w, options));
}

static sn_status transpose(sn_nd *out, sn_graph *g, sn_node x, sn_node w, const int64_t *output_padding,
                           const sn_conv_options *options) {
    static const int64_t none[SN_CONV_AXES];
    const int64_t *extra = output_padding ? output_padding : none;
    conv_call c;
    SN_TRY(start(&c, g, "conv_transpose", x, w, options));
    SN_TRY(check_sizes(&c, "output_padding", extra, 0));
    for (uint32_t k = 0; k < c.geometry.n; k++)
        if (extra[k] >= c.geometry.stride[k] && extra[k] >= c.geometry.dilation[k])
            return sn_fail(&g->ctx->env, SN_ERROR_ARGUMENT,
                           "conv_transpose: output_padding %lld is not below the stride %lld or the dilation %lld",
                           (long long)extra[k], (long long)c.geometry.stride[k], (long long)c.geometry.dilation[k]);
    *out = sn_graph_conv_transpose(g->m, c.x, c.y, &c.geometry, extra, c.more);
    return g->ctx->env.status;
}

sn_node sn_conv_transpose(sn_graph *g, sn_node x, sn_node w, const int64_t *output_padding,
                          const sn_conv_options *options) {
    SN_BUILD_RETURN(g, transpose(&g->built, g, x, w, output_padding, options));
}

static sn_status data_grad(sn_nd *out, sn_graph *g, sn_node dy, sn_node w, const int64_t *sizes,
                           const sn_conv_options *options) {
    sn_ix shape[SN_CONV_AXES];
    conv_call c;
    SN_TRY(start(&c, g, "conv_data_grad", dy, w, options));
    for (uint32_t k = 0; k < c.geometry.n; k++) SN_TRY(sn_size_read(&shape[k], g, c.who, sizes[k]));
    *out = sn_graph_conv_data_grad(g->m, c.x, c.y, shape, &c.geometry, c.more);
    return g->ctx->env.status;
}

sn_node sn_conv_data_grad(sn_graph *g, sn_node dy, sn_node w, const int64_t *sizes, const sn_conv_options *options) {
    SN_BUILD_RETURN(g, data_grad(&g->built, g, dy, w, sizes, options), sizes);
}

static sn_status weight_grad(sn_nd *out, sn_graph *g, sn_node x, sn_node dy, const int64_t *kernel,
                             const sn_conv_options *options) {
    conv_call c;
    SN_TRY(start(&c, g, "conv_weight_grad", x, dy, options));
    SN_TRY(check_sizes(&c, "kernel size", kernel, 1));
    *out = sn_graph_conv_weight_grad(g->m, c.x, c.y, kernel, &c.geometry, c.more);
    return g->ctx->env.status;
}

sn_node sn_conv_weight_grad(sn_graph *g, sn_node x, sn_node dy, const int64_t *kernel, const sn_conv_options *options) {
    SN_BUILD_RETURN(g, weight_grad(&g->built, g, x, dy, kernel, options), kernel);
}
