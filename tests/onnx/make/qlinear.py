"""Operators on quantised tensors of onnxruntime's domain com.microsoft. Oracle: onnxruntime.

Scales are none of which sums and products lie between two integers: there onnxruntime rounds as its order of factors
has it.
"""

import numpy as np

from family import F16, F32, scalar

ORACLE = "runtime"
DOMAIN = "com.microsoft"


def make(family):
    def case(name, op, inputs, **attributes):
        family.case(name, op, inputs, 1, domain=DOMAIN, **attributes)

    def bytes_of(t, *shape):
        i = np.iinfo(t)
        return family.integers(i.min, i.max + 1, *shape, dtype=t)

    def tensor(x, scale, zero):
        return [x, scalar(scale, F32), np.array(zero, x.dtype)]

    def to(t, scale, zero):
        return [scalar(scale, F32), np.array(zero, t)]

    for nm, t, z in [("u8", np.uint8, 120), ("i8", np.int8, -3)]:
        a, b = bytes_of(t, 2, 3, 4), bytes_of(t, 3, 1)
        y = to(t, 0.0191, z)
        case("qlinear_add_" + nm, "QLinearAdd", tensor(a, 0.0123, z) + tensor(b, 0.00771, z - 1) + y)
        case("qlinear_mul_" + nm, "QLinearMul", tensor(a, 0.0123, z) + tensor(b, 0.00771, z - 1) + y)
        case("qlinear_sigmoid_" + nm, "QLinearSigmoid", tensor(a, 0.0373, z) + to(t, 1 / 256, np.iinfo(t).min))
        case("qlinear_leaky_relu_" + nm, "QLinearLeakyRelu", tensor(a, 0.0373, z) + y, alpha=0.17)
    a, b = bytes_of(np.uint8, 2, 3, 4), bytes_of(np.uint8, 2, 3, 4)
    case(
        "qlinear_add_no_zero_point", "QLinearAdd", tensor(a, 0.0123, 90) + tensor(b, 0.00771, 9) + [scalar(0.0191, F32)]
    )
    case("qlinear_leaky_relu", "QLinearLeakyRelu", tensor(a, 0.0373, 100) + to(np.uint8, 0.0291, 2))

    x = bytes_of(np.uint8, 2, 3, 7, 6)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    pooled = to(np.uint8, 0.0153, 90)
    for nm, more in [
        ("", {"kernel_shape": [3, 3]}),
        ("_pads", {"kernel_shape": [3, 2], "pads": [1, 1, 1, 0], "strides": [2, 2]}),
        ("_count_pads", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("_ceil", {"kernel_shape": [2, 2], "strides": [2, 4], "ceil_mode": 1}),
        ("_same", {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ]:
        case("qlinear_average_pool" + nm, "QLinearAveragePool", tensor(x, 0.0217, 101) + pooled, **more)
    case(
        "qlinear_average_pool_last",
        "QLinearAveragePool",
        tensor(last, 0.0217, 101) + pooled,
        kernel_shape=[3, 2],
        channels_last=1,
    )
    case("qlinear_global_average_pool", "QLinearGlobalAveragePool", tensor(x, 0.0217, 101) + pooled)
    case(
        "qlinear_global_average_pool_last",
        "QLinearGlobalAveragePool",
        tensor(last, 0.0217, 101) + pooled,
        channels_last=1,
    )

    # Before opset 13 the axes from `axis` on are one; without it the last one is meant in all opsets.
    p = tensor(a, 0.0371, 100) + to(np.uint8, 1 / 256, 0)
    for nm, more in [
        ("axis0", {"opset": 13, "axis": 0}),
        ("axis1", {"opset": 13, "axis": 1}),
        ("last", {"opset": 13}),
        ("joined", {"opset": 12, "axis": 1}),
        ("old_last", {"opset": 12}),
    ]:
        case("qlinear_softmax_" + nm, "QLinearSoftmax", p, more=more)

    c = bytes_of(np.uint8, 2, 2, 4)
    y = to(np.uint8, 0.0313, 60)
    case("qlinear_concat", "QLinearConcat", y + tensor(a, 0.0217, 100) + tensor(c, 0.0313, 60), axis=1)
    case("qlinear_concat_m3", "QLinearConcat", y + tensor(a, 0.0217, 100) + tensor(b, 0.0173, 90), axis=-3)
    chosen = family.integers(0, 2, 3, 4).astype(bool)
    case("qlinear_where", "QLinearWhere", [chosen] + tensor(a, 0.0217, 100) + tensor(c[:, :1], 0.0313, 60) + y)

    m, w = bytes_of(np.uint8, 3, 5), bytes_of(np.int8, 5, 4)
    scales, zeros = family.uniform(4, low=0.01, high=0.02), np.array([1, 2, 3, -4], np.int8)
    bias, real_bias = family.integers(-500, 500, 4, dtype=np.int32), family.normal(4)
    product = tensor(m, 0.0217, 101) + [w, scales, zeros, bias]
    case("qgemm", "QGemm", product + to(np.uint8, 0.0517, 120))
    case("qgemm_float", "QGemm", product, alpha=0.7)
    case("qgemm_no_bias", "QGemm", tensor(m, 0.0217, 101) + tensor(w, 0.0131, 4))
    turned = tensor(np.ascontiguousarray(m.T), 0.0217, 101) + [np.ascontiguousarray(w.T), scales, zeros, bias]
    case("qgemm_turned", "QGemm", turned + to(np.uint8, 0.0517, 120), transA=1, transB=1, alpha=0.7)
    a_scale, a_zero = to(np.uint8, 0.0217, 101)
    stack = bytes_of(np.uint8, 2, 3, 5)
    case("matmul_integer_to_float", "MatMulIntegerToFloat", [stack, w, a_scale, scales, a_zero, zeros, real_bias])
    case("matmul_integer_to_float_one", "MatMulIntegerToFloat", [stack, w, a_scale, scalar(0.0131, F32), a_zero])
    real = family.normal(2, 3, 5)
    case("dynamic_quantize_matmul", "DynamicQuantizeMatMul", [real, w, scales, zeros, real_bias])
    case("dynamic_quantize_matmul_one", "DynamicQuantizeMatMul", [real, w, scalar(0.0131, F32)])

    kernel = bytes_of(np.int8, 4, 3, 3, 3)
    conv = [kernel, scales, np.zeros(4, np.int8), *to(np.uint8, 0.0517, 120), bias]
    case("qlinear_conv_last", "QLinearConv", tensor(last, 0.0217, 101) + conv, channels_last=1, pads=[1, 1, 0, 0])
    case("qlinear_conv_first", "QLinearConv", tensor(x, 0.0217, 101) + conv, strides=[2, 1])

    steps, middles = np.array([0.5, 0.6, 0.7], F32), np.array([300, 4, 5], np.uint16)
    case("quantize_linear_u16", "QuantizeLinear", [real * 50, steps, middles], axis=1)
    case("dequantize_linear_u16", "DequantizeLinear", [bytes_of(np.uint16, 2, 3, 5), steps, middles], axis=1)

    # Three columns more than whole blocks, an odd number of blocks.
    wide = family.normal(2, 3, 83)
    for nm, bits, more, dtype in [
        ("4", 4, 0, F32),
        ("4_zero_points", 4, 1, F32),
        ("8_zero_points", 8, 1, F32),
        ("4_float_zero_points", 4, 2, F32),
        ("4_bias", 4, 3, F32),
        ("4_f16", 4, 1, F16),
    ]:
        weights = bytes_of(np.uint8, 6, 6, 16 * bits // 8)
        scale = family.uniform(6, 6, low=0.01, high=0.1).astype(dtype)
        if dtype == F16:  # weights that halves hold: onnxruntime has them in f32
            scale = np.exp2(family.integers(-6, -3, 6, 6)).astype(dtype)
        zero = bytes_of(np.uint8, 6, 6 * bits // 8) if more in (1, 3) else None
        if more == 2:
            zero = family.uniform(6, 6, low=0, high=15)
        inputs = [wide.astype(dtype), weights, scale, zero, None, family.normal(6) if more == 3 else None]
        case("matmul_nbits_" + nm, "MatMulNBits", inputs, known=(1, 2, 3), K=83, N=6, bits=bits, block_size=16)
    # A block for each column, in no order.
    inputs = [wide, bytes_of(np.uint8, 6, 6, 8), family.uniform(6, 6, low=0.01, high=0.1), None]
    inputs.append(family.integers(0, 6, 83).astype(np.int32))
    case("matmul_nbits_4_g_idx", "MatMulNBits", inputs, known=(1, 2, 4), K=83, N=6, bits=4, block_size=16)
