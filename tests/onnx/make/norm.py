"""Normalizations. Oracle: numpy in float64 by the formulas of the specification; onnx.reference for LayerNormalization
of float32 and MeanVarianceNormalization."""

import numpy as np

from family import F16, F32, F64

ORACLE = "reference"


def make(f):
    batch(f)
    instance(f)
    group(f)
    layer(f)
    lp(f)
    lrn(f)
    f.case("mvn_default_axes", "MeanVarianceNormalization", [f.normal(2, 3, 4, 5)], 13)
    f.case("mvn_axes_opset9", "MeanVarianceNormalization", [f.normal(2, 3, 4, 5)], 9, axes=[1, 2, 3])


def per_channel(v, x):
    return v.astype(F64).reshape([1, -1] + [1] * (x.ndim - 2))


def normalized(x, axes, eps=1e-5):
    x = x.astype(F64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def batch_norm(x, scale, bias, mean, var, eps=1e-5):
    scale, bias, mean, var = (per_channel(v, x) for v in (scale, bias, mean, var))
    return ((x.astype(F64) - mean) / np.sqrt(var + eps) * scale + bias).astype(x.dtype)


def batch(f):
    op = "BatchNormalization"
    x, s, b, m, v = f.normal(4, 3, 5, 6), f.normal(3), f.normal(3), f.normal(3), f.positive(3)
    for opset in (7, 9, 14, 15):
        f.case(f"batchnorm_opset{opset}", op, [x, s, b, m, v], opset, [batch_norm(x, s, b, m, v, 1e-3)], epsilon=1e-3)
    f.case("batchnorm_opset6_is_test", op, [x, s, b, m, v], 6, [batch_norm(x, s, b, m, v)], is_test=1)
    mean, var = x.mean((0, 2, 3), dtype=F64), x.var((0, 2, 3), dtype=F64)
    want = [batch_norm(x, s, b, mean, var)] + [w.astype(F32) for w in (m * 0.9 + mean * 0.1, v * 0.9 + var * 0.1)]
    f.case("batchnorm_opset15_training", op, [x, s, b, m, v], 15, want, outputs=3, training_mode=1)
    f.case("batchnorm_opset14_training_y_only", op, [x, s, b, m, v], 14, want[:1], training_mode=1, momentum=0.7)
    want += [mean.astype(F32), var.astype(F32)]
    f.case("batchnorm_opset9_training", op, [x, s, b, m, v], 9, want, outputs=5)
    for name, y in (("rank2", x[:, :, 0, 0]), ("rank5", x[:, :, None])):
        f.case(f"batchnorm_{name}", op, [y, s, b, m, v], 15, [batch_norm(y, s, b, m, v)])
    h = [a.astype(F16) for a in (x, s, b)] + [m, v]
    f.case("batchnorm_float16_statistics_float32", op, h, 15, [batch_norm(*h)])
    f.case("batchnorm_float64", op, [a.astype(F64) for a in (x, s, b, m, v)], 15)
    s, b, m, v = f.normal(3, 5, 6), f.normal(3, 5, 6), f.normal(3, 5, 6), f.positive(3, 5, 6)
    want = ((x.astype(F64) - m) / np.sqrt(v + 1e-5) * s + b).astype(F32)
    f.case("batchnorm_opset7_not_spatial", op, [x, s, b, m, v], 7, [want], spatial=0)


def instance(f):
    op = "InstanceNormalization"
    s, b = f.normal(3), f.normal(3)

    def want(x, s, b, eps):
        y = normalized(x, tuple(range(2, x.ndim)), eps) * per_channel(s, x) + per_channel(b, x)
        return [y.astype(x.dtype)]

    for shape in ((4, 3, 7), (2, 3, 5, 6), (2, 3, 2, 3, 4)):
        x = f.normal(*shape)
        f.case(f"instancenorm_rank{len(shape)}", op, [x, s, b], 6, want(x, s, b, 1e-2), epsilon=1e-2)
    x, s, b = (f.normal(2, 3, 8, 8) * 100 + 3000).astype(F16), s.astype(F16), b.astype(F16)
    f.case("instancenorm_float16_large_mean", op, [x, s, b], 6, want(x, s, b, 1e-5))


def group(f):
    op = "GroupNormalization"

    def want(x, scale, bias, groups, eps=1e-5):
        y = normalized(x.reshape(x.shape[0], groups, -1), 2, eps).reshape(x.shape)
        each = x.shape[1] // len(scale)  # opset 18 has a scale per group
        return [(y * per_channel(np.repeat(scale, each), x) + per_channel(np.repeat(bias, each), x)).astype(F32)]

    x, y = f.normal(2, 6, 4, 5), f.normal(2, 6, 7)
    s2, b2, s6, b6 = f.normal(2), f.normal(2), f.normal(6), f.normal(6)
    f.case("groupnorm_opset18_scale_per_group", op, [x, s2, b2], 18, want(x, s2, b2, 2), num_groups=2)
    f.case(
        "groupnorm_opset21_scale_per_channel", op, [x, s6, b6], 21, want(x, s6, b6, 2, 1e-2), num_groups=2, epsilon=1e-2
    )
    f.case("groupnorm_opset21_rank3", op, [y, s6, b6], 21, want(y, s6, b6, 3), num_groups=3)


def layer(f):
    op = "LayerNormalization"
    x = f.normal(2, 3, 4, 5)
    for axis in (0, 1, 2, 3, -1, -2):
        scale, bias = f.normal(*x.shape[axis:]), f.normal(*x.shape[axis:])
        name = f"layernorm_axis_{axis}".replace("-", "m")
        f.case(name, op, [x, scale], 17, outputs=3, axis=axis)
        f.case(f"{name}_bias", op, [x, scale, bias], 17, outputs=3, axis=axis)
    f.case("layernorm_y_only", op, [x, f.normal(5)], 17)
    f.case("layernorm_scale_of_one_element", op, [x, f.normal(1), f.normal(1)], 17, axis=2)
    x, scale, bias = (f.normal(3, 64) * 10 + 1000).astype(F16), f.normal(64, dtype=F16), f.normal(64, dtype=F16)
    mean, inverse = x.mean(1, F64, keepdims=True), 1 / np.sqrt(x.astype(F64).var(1, keepdims=True) + 1e-5)
    y = (x - mean) * inverse * scale.astype(F64) + bias.astype(F64)
    want = [y.astype(F16), mean.astype(F32), inverse.astype(F32)]
    f.case("layernorm_float16_large_mean", op, [x, scale, bias], 17, want, outputs=3)


def lp(f):
    for p in (1, 2):
        for axis in (0, -1):
            x = f.normal(3, 4, 5)
            want = x / np.linalg.norm(x.astype(F64), p, axis, keepdims=True)
            f.case(
                f"lpnorm_p{p}_axis_{axis}".replace("-", "m"),
                "LpNormalization",
                [x],
                1,
                [want.astype(F32)],
                p=p,
                axis=axis,
            )
    x, want = np.array([[0, 0], [3, 4]], F32), np.array([[0, 0], [0.6, 0.8]], F32)
    f.case("lpnorm_of_zeros", "LpNormalization", [x], 1, [want])


def lrn(f):
    def want(x, size, alpha=1e-4, beta=0.75, bias=1.0):
        low = (size - 1) // 2
        squares = np.pad(x.astype(F64) ** 2, [(0, 0), (low, size - 1 - low)] + [(0, 0)] * (x.ndim - 2))
        total = sum(squares[:, k : k + x.shape[1]] for k in range(size))
        return [(x / (bias + alpha / size * total) ** beta).astype(F32)]

    for size in (1, 2, 3, 4, 5, 9):
        x = f.normal(2, 7, 3, 4) * F32(3)
        f.case(
            f"lrn_size{size}", "LRN", [x], 13, want(x, size, 0.5, 0.6, 1.5), size=size, alpha=0.5, beta=0.6, bias=1.5
        )
    x = f.normal(2, 7) * F32(3)
    f.case("lrn_rank2_defaults", "LRN", [x], 1, want(x, 3), size=3)
