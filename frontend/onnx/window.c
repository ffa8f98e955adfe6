/* window.c: attributes of windows (frontend/onnx/window.h). */
#include "frontend/onnx/window.h"

#include "ir/index/ix.h"
#include "ir/module.h"

#include <string.h>

sn_status sn_onnx_window_list(int64_t *out, sn_onnx_call *c, const char *name, uint32_t n, int64_t otherwise,
                              int64_t lowest) {
    const int64_t *at;
    uint32_t given;
    bool has = sn_onnx_attr_ints(&at, &given, c, name);
    if (has && given != n) return sn_onnx_fail(c, "%s has %u entries, not %u", name, given, n);
    for (uint32_t k = 0; k < n; k++) {
        out[k] = has ? at[k] : otherwise;
        if (out[k] < lowest || out[k] > INT32_MAX) return sn_onnx_fail(c, "%s %lld", name, (long long)out[k]);
    }
    return SN_OK;
}

static sn_status read_kernel(sn_onnx_window *out, sn_onnx_call *c, sn_nd w) {
    if (!w.i && !sn_onnx_has_attr(c, "kernel_shape")) return sn_onnx_fail(c, "kernel_shape is missing");
    SN_TRY(sn_onnx_window_list(out->kernel, c, "kernel_shape", out->n, 0, 0));
    const sn_type *t = sn_graph_type(c->m, w);
    for (uint32_t k = 0; w.i && k < out->n; k++) {
        int64_t stated = out->kernel[k];
        if (k + 2 >= t->rank || !sn_ix_is_const(c->m, t->shape[k + 2], &out->kernel[k]))
            return sn_onnx_fail(c, "weights of shape %s for %u image axes", sn_type_text(c->m, t), out->n);
        if (stated && stated != out->kernel[k]) return sn_onnx_fail(c, "kernel_shape is not that of the weights");
    }
    for (uint32_t k = 0; k < out->n; k++)
        if (out->kernel[k] < 1 || out->kernel[k] > INT32_MAX)
            return sn_onnx_fail(c, "a window of %lld elements", (long long)out->kernel[k]);
    return SN_OK;
}

sn_status sn_onnx_window_read(sn_onnx_window *out, sn_onnx_call *c, sn_nd x, sn_nd w) {
    const sn_type *t = sn_graph_type(c->m, x);
    int64_t pads[2 * SN_MAX_RANK];
    *out = (sn_onnx_window){0};
    if (t->rank < 3) return sn_onnx_fail(c, "an image of shape %s has no image axes", sn_type_text(c->m, t));
    out->n = t->rank - 2;
    const char *how = sn_onnx_attr_text(c, "auto_pad", "NOTSET");
    SN_TRY(read_kernel(out, c, w));
    SN_TRY(sn_onnx_window_list(out->stride, c, "strides", out->n, 1, 1));
    SN_TRY(sn_onnx_window_list(out->dilation, c, "dilations", out->n, 1, 1));
    SN_TRY(sn_onnx_window_list(pads, c, "pads", 2 * out->n, 0, INT32_MIN));
    out->same_lower = !strcmp(how, "SAME_LOWER");
    out->same = out->same_lower || !strcmp(how, "SAME_UPPER");
    bool own = !strcmp(how, "NOTSET") || !how[0];
    if (!own && !out->same && strcmp(how, "VALID")) return sn_onnx_fail(c, "auto_pad %s", how);
    for (uint32_t k = 0; own && k < out->n; k++) {
        out->low[k] = pads[k];
        out->high[k] = pads[k + out->n];
    }
    return SN_OK;
}

int64_t sn_onnx_window_span(const sn_onnx_window *w, uint32_t axis) {
    return (w->kernel[axis] - 1) * w->dilation[axis] + 1;
}

sn_status sn_onnx_window_same(sn_onnx_window *w, sn_onnx_call *c, sn_nd x) {
    for (uint32_t k = 0; w->same && k < w->n; k++) {
        int64_t size = 1, stride = w->stride[k];
        sn_ix e = sn_graph_type(c->m, x)->shape[2 + k];
        if (!sn_ix_is_const(c->m, e, &size) && stride > 1)
            return sn_onnx_fail(c, "auto_pad with strides: image axis %u has to have a number as size", k);
        int64_t windows = (size + stride - 1) / stride;
        int64_t pad = (windows - 1) * stride + sn_onnx_window_span(w, k) - size;
        if (pad < 0) pad = 0;
        w->low[k] = (pad + w->same_lower) / 2;
        w->high[k] = pad - w->low[k];
    }
    return SN_OK;
}

sn_nd sn_onnx_window_pad(sn_module *m, sn_nd x, const sn_onnx_window *w, double value) {
    int64_t low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
    bool any = false;
    for (uint32_t k = 0; k < w->n; k++) {
        low[2 + k] = w->low[k], high[2 + k] = w->high[k];
        any = any || w->low[k] || w->high[k];
    }
    return any ? sn_graph_pad(m, x, low, high, value) : x;
}
