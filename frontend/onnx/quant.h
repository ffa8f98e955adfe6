/* quant.h: quantised tensors: value = (element - zero point) * scale. Scales and zero points are one number, or a list
 * of them along an axis, or tensors that broadcast. */
#ifndef SN_FRONTEND_ONNX_QUANT_H
#define SN_FRONTEND_ONNX_QUANT_H

#include "frontend/onnx/import.h"

/* Operand x as f32: its scale and its zero point (where given), one number each, are the next operands. */
sn_nd sn_onnx_real(sn_onnx_call *c, uint32_t x);
/* y (f32) quantised by operand `scale` and the zero point behind it, in the dtype of that; without one of operand
 * `like`. */
sn_nd sn_onnx_quantised(sn_onnx_call *c, sn_nd y, uint32_t scale, uint32_t like);

/* x (f32) as its elements are after a quantisation to bytes by its range, or each row's. */
sn_nd sn_onnx_through_bytes(sn_module *m, sn_nd x, bool by_rows);

/* Operand x less its zero point (where given), as i32. A list of zero points runs along that axis of x. */
sn_nd sn_onnx_centred(sn_onnx_call *c, uint32_t x, uint32_t zero, uint32_t axis);

/* Operands that have scales and a zero point, and the axes along which lists of them run. */
typedef struct sn_onnx_scales {
    uint32_t a, b, y, zero; /* scales of the two factors, of the result; its zero point */
    uint32_t a_axis, b_axis, y_axis;
} sn_onnx_scales;

/* A sum of products of centred elements (i32) as elements of the result, in the dtype of its zero point. */
sn_nd sn_onnx_requantised(sn_onnx_call *c, sn_nd sum, sn_onnx_scales s);

#endif
