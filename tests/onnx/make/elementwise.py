"""Activations, clipping, arithmetic of all dtypes. Oracle: onnx.reference, in float64 for activations of narrower
floats; numpy where the reference rounds in between or lacks the old opset."""

import numpy as np

from family import F16, F32, F64, ints, scalar

ORACLE = "reference"

ACTIVATIONS = [
    ("Elu", 6, {}),
    ("Elu", 22, {"alpha": 2.0}),
    ("Selu", 6, {}),
    ("Celu", 12, {}),
    ("Celu", 12, {"alpha": 2.0}),
    ("LeakyRelu", 16, {}),
    ("LeakyRelu", 16, {"alpha": 0.3}),
    ("HardSigmoid", 6, {}),
    ("HardSwish", 14, {}),
    ("Mish", 18, {}),
    ("Softplus", 1, {}),
    ("Softsign", 1, {}),
    ("ThresholdedRelu", 10, {}),
    ("ThresholdedRelu", 10, {"alpha": 0.3}),
    ("Gelu", 20, {}),
    ("Gelu", 20, {"approximate": "tanh"}),
    ("Shrink", 9, {"lambd": 0.6, "bias": 0.2}),
]
NO_INFINITIES = ("Mish", "HardSwish", "Gelu", "Softsign")  # the reference makes NaN of infinity - infinity
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -3.0, 100.0, -100.0, 1e-6], F32)


def kind(dtype):
    return np.dtype(dtype).kind


def make(f):
    activations(f)
    bits(f)
    clip(f)
    variadic(f)
    modulo(f)
    power(f)
    rest(f)


def activations(f):
    for op, opset, attributes in ACTIVATIONS:
        name = f"{op.lower()}_opset{opset}" + "".join(f"_{k}_{v}".replace(".", "p") for k, v in attributes.items())
        if op not in NO_INFINITIES:
            f.case(f"{name}_special", op, [SPECIAL], opset, **attributes)
        for dtype in (F32, F64, F16):
            x = f.normal(3, 40, dtype=F64).astype(dtype) * dtype(3)
            want = f.expected(op, [x.astype(F64)], opset, **attributes)[0].astype(dtype)
            f.case(f"{name}_{dtype.__name__}", op, [x], opset, [want], **attributes)
    want = np.array([-3, -2, -1, 0, 0, 0, 0, 0, 1, 2, 3], np.int32)
    f.case("shrink_int32", "Shrink", [np.arange(-5, 6, dtype=np.int32)], 9, [want], lambd=1.5, bias=2.0)

    x = f.normal(2, 3, 4, 5)
    f.case("prelu_slope_of_full_shape", "PRelu", [x, f.normal(2, 3, 4, 5)], 9)
    f.case("prelu_slope_per_channel", "PRelu", [x, f.normal(3, 1, 1)], 16)
    f.case("prelu_slope_per_last_axis", "PRelu", [x, f.normal(5)], 16)
    f.case("prelu_int32", "PRelu", [np.arange(-4, 5, dtype=np.int32), np.array([2], np.int32)], 16)
    slope = f.normal(3)
    f.case("prelu_opset6_channels", "PRelu", [x, slope], 6, [np.where(x < 0, x * slope[:, None, None], x)])


def bits(f):
    for t in (np.uint8, np.uint16, np.uint32, np.uint64):
        a, b = f.integers(0, 200, 4, 5, dtype=t), f.integers(0, 7, 5, dtype=t)
        for direction in ("LEFT", "RIGHT"):
            f.case(f"bitshift_{direction.lower()}_{t.__name__}", "BitShift", [a, b], 11, direction=direction)
    for t in (np.uint8, np.int8, np.int32, np.int64):
        a, b = f.integers(-100 if kind(t) == "i" else 0, 100, 4, 5, dtype=t), f.integers(0, 100, 4, 1, dtype=t)
        for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
            f.case(f"{op.lower()}_{t.__name__}", op, [a, b], 18)
        f.case(f"bitwisenot_{t.__name__}", "BitwiseNot", [a], 18)


def clip(f):
    x = f.normal(4, 5) * F32(3)
    f.case("clip_min_known", "Clip", [x, scalar(-0.5, F32)], 13, known=(1,))
    f.case("clip_max_known", "Clip", [x, None, scalar(0.5, F32)], 13, known=(2,))
    f.case("clip_no_bounds", "Clip", [x], 13)
    f.case("clip_min_above_max", "Clip", [x, scalar(1, F32), scalar(-1, F32)], 13)
    f.case("clip_opset6", "Clip", [x], 6, min=-1.0, max=1.0)
    f.case("clip_opset6_max_only", "Clip", [x], 6, [np.minimum(x, 1)], max=1.0)
    f.case(
        "clip_int64_beyond_float",
        "Clip",
        [ints([-5, 0, 3, 2**60, 9]), scalar(-1, np.int64), scalar(2**59, np.int64)],
        12,
    )
    f.case("clip_uint8", "Clip", [np.array([0, 5, 200, 255], np.uint8), scalar(3, np.uint8), scalar(210, np.uint8)], 13)
    f.case("clip_nan", "Clip", [SPECIAL, scalar(-1, F32), scalar(1, F32)], 13, [np.clip(SPECIAL, -1, 1)])
    f.case("clip_float16", "Clip", [x.astype(F16), scalar(0, F16), scalar(6, F16)], 13)


def variadic(f):
    for op in ("Max", "Min", "Sum", "Mean"):
        a, b, c = f.normal(3, 1, 4), f.normal(2, 1), f.normal(4)
        want = {
            "Max": np.maximum(np.maximum(a, b), c),
            "Min": np.minimum(np.minimum(a, b), c),
            "Sum": a.astype(F64) + b + c,
            "Mean": (a.astype(F64) + b + c) / 3,
        }[op]
        f.case(f"{op.lower()}_broadcast", op, [a, b, c], 13, [want.astype(F32)])
        f.case(f"{op.lower()}_one_operand", op, [f.normal(3, 4)], 13)
        f.case(f"{op.lower()}_float16", op, [f.normal(3, 4, dtype=F16), f.normal(3, 4, dtype=F16)], 13)
    large = np.full(4, 60000, F16)
    f.case("mean_float16_of_sum_beyond_float16", "Mean", [large] * 3, 13, [large])
    f.case("max_nan", "Max", [SPECIAL, np.zeros_like(SPECIAL)], 13)


def modulo(f):
    for t in (np.int8, np.int32, np.int64, np.uint8, np.uint16):
        a, b = f.integers(-9 if kind(t) == "i" else 0, 10, 30, dtype=t), f.integers(1, 6, 30, dtype=t)
        if kind(t) == "i":
            b *= f.rng.choice([-1, 1], 30).astype(t)
        f.case(f"mod_{t.__name__}", "Mod", [a, b], 13)
        f.case(f"fmod_{t.__name__}", "Mod", [a, b], 13, fmod=1)
    a, b = f.normal(30) * F32(9), f.normal(30)
    f.case("fmod_float32", "Mod", [a, b], 13, fmod=1)
    f.case("fmod_float64", "Mod", [a.astype(F64), b.astype(F64)], 13, fmod=1)


def power(f):
    for t in (F32, F64, F16, np.int32, np.int64):
        base = np.array([1, 2, 3, 4, 5] if kind(t) == "i" else [0.5, 1, 2, 3, 1.5], t)
        for u in (F32, F64, F16, np.int32, np.int64, np.uint8):
            exponent = np.array([0, 1, 2, 3, 4], u)
            want = np.power(base.astype(F64), exponent.astype(F64)).astype(t)
            f.case(f"pow_{t.__name__}_to_{u.__name__}", "Pow", [base, exponent], 15, [want])
    f.case("pow_int64_to_half", "Pow", [ints([1, 4, 9, 16]), scalar(0.5, F32)], 15, known=(1,))
    f.case("pow_negative_base_to_three", "Pow", [f.normal(6), scalar(3, F32)], 15, known=(1,))


def rest(f):
    x, y = f.normal(2, 3, 4), f.normal(3)
    f.case("add_opset6_broadcast_axis", "Add", [x, y], 6, [x + y[:, None]], broadcast=1, axis=1)
    f.case("add_opset6_broadcast_negative_axis", "Add", [x, y], 6, [x + y[:, None]], broadcast=1, axis=-2)
    for plus in (0, 1):
        for minus in (0, 1):
            f.case(
                f"isinf_positive{plus}_negative{minus}",
                "IsInf",
                [SPECIAL],
                10,
                detect_positive=plus,
                detect_negative=minus,
            )
    f.case("isinf_float64", "IsInf", [SPECIAL.astype(F64)], 20)
    for t in (np.int32, np.int64, F16, F64, np.bool_, np.uint8):
        f.case(f"castlike_{np.dtype(t).name}", "CastLike", [f.positive(4, 5) * F32(5), np.zeros(1, t)], 15)
    for t in (np.int8, np.int32, np.int64, np.uint8):
        a, b = f.integers(-100 if kind(t) == "i" else 0, 100, 30, dtype=t), f.integers(1, 9, 30, dtype=t)
        f.case(f"div_{t.__name__}_toward_zero", "Div", [a, b], 14, [np.trunc(a.astype(F64) / b).astype(t)])
