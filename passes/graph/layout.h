/* layout.h: what the files of the pass `layout` share: which convolutions want their operands in which order, and
 * those operands.
 *
 * Axes of an image are [N, C, S1..Sn]; channels-last they are [N, S1..Sn, C]. A node that lies channels-last is
 * written as a permute of its *twin*, which has the axes in that order: permute(twin, [0, n + 1, 1..n]).
 */
#ifndef SN_PASSES_GRAPH_LAYOUT_H
#define SN_PASSES_GRAPH_LAYOUT_H

#include "ir/graph/conv.h"
#include "passes/graph/rewrite.h"

/* ---- orders (layout_conv.c) ---- */

/* Axes of the twin of a tensor of that rank, and the way back. */
void sn_layout_last(int64_t *perm, uint32_t rank);
void sn_layout_back(int64_t *perm, uint32_t rank);
bool sn_layout_is(const int64_t *perm, const int64_t *other, uint32_t rank);
/* x with its axes in that order; two permutes are one or none. */
sn_nd sn_layout_permuted(sn_module *m, sn_nd x, const int64_t *perm);
/* A cast that loses nothing: what a convolution reads is in memory as it was before. */
bool sn_layout_widens(const sn_module *m, sn_nd x);
/* x without casts that widen, which may stand behind a permute. */
sn_nd sn_layout_below_casts(sn_module *m, sn_nd x);
/* x, from memory in which its twin is row-major and tensor copies can bring it: a copy, unless it lies so already.
 * Casts that widen stand behind it. */
sn_nd sn_layout_laid_out(sn_module *m, sn_nd x);

/* ---- convolutions (layout_conv.c) ---- */

typedef enum sn_layout_way {
    SN_LAYOUT_NONE,    /* no tensor copies: as it is */
    SN_LAYOUT_ANY,     /* reads and writes either order: done by threads */
    SN_LAYOUT_FIRST,   /* the pixels of a channel side by side: done by threads that read windows */
    SN_LAYOUT_PRODUCT, /* the same: a product of matrices, of pixels by channels or the other way round */
    SN_LAYOUT_LAST,    /* of twins */
    SN_LAYOUT_PATCHES, /* of a copy of windows that do not overlap: a product */
    SN_LAYOUT_JOINED,  /* of a copy of its own: taps along the last axis join the channels */
    SN_LAYOUT_GRADIENT /* of copies of both operands in which what is not summed is innermost: its sum runs over pixels */
} sn_layout_way;

/* image_offered: its image can be had channels-last without a conversion; taken_last: the graph wants its result so. */
sn_layout_way sn_layout_way_of(sn_pass_ctx *cx, sn_nd conv, bool image_offered, bool taken_last);
/* The same convolution, of operands that are laid out for it. */
sn_nd sn_layout_conv_last(sn_module *m, sn_nd conv);
sn_nd sn_layout_conv_first(sn_module *m, sn_nd conv);
sn_nd sn_layout_conv_product(sn_module *m, sn_nd conv);
sn_nd sn_layout_conv_patches(sn_module *m, sn_nd conv);
sn_nd sn_layout_conv_joined(sn_module *m, sn_nd conv);
sn_nd sn_layout_conv_gradient(sn_module *m, sn_nd conv);

/* The same convolution, but for operands and geometry. */
sn_nd sn_layout_conv_like(sn_module *m, sn_nd conv, sn_nd image, sn_nd weights, const sn_conv_geometry *g);

/* ---- groups (layout_groups.c) ---- */

/* How many groups have the rows and channels of a tile together; 0: not even all. dtype: of the image in memory. */
int64_t sn_layout_together(const sn_module *m, sn_nd conv, sn_dtype dtype);
/* The same convolution with so many joined to one. */
sn_nd sn_layout_join_groups(sn_module *m, sn_nd conv, sn_dtype dtype);

/* ---- operations (layout_sink.c) ---- */

/* May the operation be computed on twins? */
bool sn_layout_sinks(const sn_module *m, sn_nd x);
/* Does operand k of such an operation come in the order of its result, rather than broadcast? */
bool sn_layout_carries(const sn_module *m, sn_nd x, uint32_t k);
/* x with its operands in the order of the twin that operand k is a permute of, or lies as; permuted back. */
sn_nd sn_layout_sunk(sn_pass_ctx *cx, sn_nd x, uint32_t k);

#endif
