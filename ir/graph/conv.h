/* conv.h: the geometry of a convolution, and the convolutions that are made of one.
 *
 *     conv:  y[n, o, q..] = sum over c, k.. of x~[n, g*C' + c, q*stride + k*dilation - low ..] * w[o, c, k..]
 *
 * over 1 to SN_CONV_AXES spatial axes, where C' = C / groups, g = o div (O / groups), and x~ is x with
 * input_dilation - 1 zeros between its elements and zeros around them. Padding may be negative: then x~ is cropped.
 */
#ifndef SN_IR_GRAPH_CONV_H
#define SN_IR_GRAPH_CONV_H

#include "ir/graph/graph.h"

enum { SN_CONV_AXES = 3, SN_CONV_MOST = INT32_MAX }; /* the largest number: all window arithmetic stays inside int64 */

/* By spatial axis. */
typedef struct sn_conv_geometry {
    uint32_t n; /* spatial axes */
    int64_t stride[SN_CONV_AXES], dilation[SN_CONV_AXES], input_dilation[SN_CONV_AXES];
    int64_t low[SN_CONV_AXES], high[SN_CONV_AXES]; /* padding */
    int64_t groups;
} sn_conv_geometry;

/* Stride and dilations of 1, no padding, one group. */
sn_conv_geometry sn_conv_plain(uint32_t n);
/* What the attributes of a convolution over n axes say; those that are absent have their defaults. */
sn_conv_geometry sn_conv_of(uint32_t n, const sn_attr *attrs, uint32_t n_attrs);
sn_conv_geometry sn_node_conv(const sn_module *m, sn_nd x);
/* Is every number in its range? Otherwise a failure of `who`. */
bool sn_conv_check(sn_module *m, const char *who, const sn_conv_geometry *c);
/* The attributes that say so, without defaults, made of the numbers of `c`; how many. */
enum { SN_CONV_ATTRS = 5 };
typedef struct sn_conv_attrs {
    sn_attr at[SN_CONV_ATTRS];
    uint32_t n;
    int64_t padding[2 * SN_CONV_AXES];
} sn_conv_attrs;
void sn_conv_attrs_of(sn_conv_attrs *out, const sn_conv_geometry *c);

/* ---- building: as in ir/graph/build.h. `more`: further attributes of the node (precision), n_more of them ---- */

typedef struct sn_conv_more {
    const sn_attr *at;
    uint32_t n;
} sn_conv_more;

sn_nd sn_graph_conv(sn_module *m, sn_nd x, sn_nd w, const sn_conv_geometry *c, sn_conv_more more);
/* What y = conv(x, w) hands back to x, whose spatial sizes are `sizes`:
 *     dx[n, c, i..] = sum over o, k.., q.. with q*stride + k*dilation - low = i*input_dilation of dy[n, o, q..] * w[o, c, k..]
 * the convolution of dy with w reversed, its two kinds of channels swapped, and stride and input dilation as well. */
sn_nd sn_graph_conv_data_grad(sn_module *m, sn_nd dy, sn_nd w, const sn_ix *sizes, const sn_conv_geometry *c,
                              sn_conv_more more);
/* What it hands back to w, whose spatial sizes are `kernel`:
 *     dw[o, c, k..] = sum over n, q.. of dy[n, o, q..] * x~[n, g*C' + c, q*stride + k*dilation - low ..]
 * a convolution of x with dy, channels and batch swapped in both, and stride and dilation as well. */
sn_nd sn_graph_conv_weight_grad(sn_module *m, sn_nd x, sn_nd dy, const int64_t *kernel, const sn_conv_geometry *c,
                                sn_conv_more more);
/* The transposed convolution of x[N, C, S..] with w[C, O / groups, K..]: the data gradient of the convolution that
 * `c` describes for a result of x's size, with `extra` further elements at the high ends. */
sn_nd sn_graph_conv_transpose(sn_module *m, sn_nd x, sn_nd w, const sn_conv_geometry *c, const int64_t *extra,
                              sn_conv_more more);

#endif
