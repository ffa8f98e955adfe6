/* window.h: windows over the image axes of x[N, C, D1, D2, ..]: what convolutions and pools read from their
 * attributes. */
#ifndef SN_FRONTEND_ONNX_WINDOW_H
#define SN_FRONTEND_ONNX_WINDOW_H

#include "frontend/onnx/import.h"

/* By image axis. Padding may be negative: it crops. */
typedef struct sn_onnx_window {
    uint32_t n;
    int64_t kernel[SN_MAX_RANK], stride[SN_MAX_RANK], dilation[SN_MAX_RANK], low[SN_MAX_RANK], high[SN_MAX_RANK];
    bool same, same_lower; /* auto_pad: SAME_UPPER or SAME_LOWER; SAME_LOWER */
} sn_onnx_window;

/* The attribute `name`, a list of n numbers from `lowest` on, or `otherwise` n times. */
sn_status sn_onnx_window_list(int64_t *out, sn_onnx_call *c, const char *name, uint32_t n, int64_t otherwise,
                              int64_t lowest);
/* kernel_shape, strides, dilations, pads and auto_pad of the call, for image x. w: weights whose image axes are the
 * kernel; none: kernel_shape has to be there. SAME is not turned into padding yet. */
sn_status sn_onnx_window_read(sn_onnx_window *out, sn_onnx_call *c, sn_nd x, sn_nd w);
/* Padding that auto_pad asks for: as many windows as strides fit into the image, rounded up. */
sn_status sn_onnx_window_same(sn_onnx_window *w, sn_onnx_call *c, sn_nd x);
/* Elements from the first to the last of a window. */
int64_t sn_onnx_window_span(const sn_onnx_window *w, uint32_t axis);
/* x with `value` around its image axes, as the window says. */
sn_nd sn_onnx_window_pad(sn_module *m, sn_nd x, const sn_onnx_window *w, double value);

#endif
