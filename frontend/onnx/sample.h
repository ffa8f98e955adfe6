/* sample.h: values of an image between its elements, for GridSample, DeformConv and RoiAlign. */
#ifndef SN_FRONTEND_ONNX_SAMPLE_H
#define SN_FRONTEND_ONNX_SAMPLE_H

#include "frontend/onnx/import.h"

typedef enum sn_onnx_filter { SN_ONNX_NEAREST, SN_ONNX_LINEAR, SN_ONNX_CUBIC } sn_onnx_filter;
typedef enum sn_onnx_border {
    SN_ONNX_ZEROS,  /* outside are zeros */
    SN_ONNX_EDGE,   /* the nearest element */
    SN_ONNX_REFLECT /* the image mirrored at its borders */
} sn_onnx_border;

/* How an image of n axes is read. */
typedef struct sn_onnx_sampler {
    sn_onnx_filter filter;
    sn_onnx_border border;
    bool align_corners; /* borders are the centres of the outermost elements, not their outer edges */
    uint32_t n;
    sn_ix size[SN_MAX_RANK];
} sn_onnx_sampler;

/* One of the elements along an axis of which a value is made. inside: a mask, none where every place is. */
typedef struct sn_onnx_tap {
    sn_nd index, weight, inside;
} sn_onnx_tap;

enum { SN_ONNX_TAPS = 4 };

/* e + more as a number of the dtype of x; e may be an expression over names. */
sn_nd sn_onnx_amount(sn_module *m, sn_nd x, sn_ix e, double more);

/* The taps of axis k for places in elements of that axis, from 0 on. Returns how many; NEAREST has one, without a
 * weight. */
uint32_t sn_onnx_taps(sn_onnx_tap *out, sn_module *m, const sn_onnx_sampler *s, uint32_t k, sn_nd place);

/* x[A, B, elements of the image], place[k] of axis k: [A, 1, P] floats. Gives [A, B, P], in the dtype of x. */
sn_nd sn_onnx_sample(sn_module *m, sn_nd x, const sn_onnx_sampler *s, const sn_nd *place);

#endif
