"""Dropout in inference, and the optimizers of ai.onnx.preview.training. Oracle: numpy in float64."""

import numpy as np

from family import F16, F32, F64, scalar

ORACLE = "reference"
RATE, ALPHA, BETA, EPSILON, NORM, POST, DECAY = 0.1, 0.9, 0.99, 1e-3, 0.01, 0.02, 0.05


def make(family):
    x, ones = family.normal(3, 4), np.ones((3, 4), F32)
    true = ones.astype(bool)
    family.case("dropout_opset6_is_test", "Dropout", [x], 6, [x, ones], outputs=2, is_test=1, ratio=0.3)
    family.case("dropout_opset7", "Dropout", [x], 7, [x, ones], outputs=2, ratio=0.3)
    family.case("dropout_opset10", "Dropout", [x], 10, [x, true], outputs=2, ratio=0.3)
    inputs = [x, scalar(0.5, F32), np.array(False)]
    family.case("dropout_opset12_inference", "Dropout", inputs, 12, [x, true], outputs=2, known=(1, 2), seed=3)
    inputs = [x, scalar(0, F32), np.array(True)]
    family.case("dropout_opset13_ratio_zero", "Dropout", inputs, 13, [x, true], outputs=2, known=(1, 2))
    family.case("dropout_opset22_float16", "Dropout", [x.astype(F16)], 22, [x.astype(F16)])
    for step in (0, 1, 5, 1000):
        optimizers(family, step)


def optimizers(family, step):
    def case(name, op, inputs, *want, **attributes):
        inputs = [scalar(RATE, F32), scalar(step, np.int64), *inputs]
        want = [w.astype(F32) for w in want]
        domain = "ai.onnx.preview.training"
        family.case(
            f"{name}_step{step}",
            op,
            inputs,
            1,
            want,
            outputs=len(want),
            domain=domain,
            norm_coefficient=NORM,
            **attributes,
        )

    x, gradient, v, h = family.normal(4), family.normal(4), family.normal(4), family.positive(4)
    g = NORM * x.astype(F64) + gradient

    v2, h2 = ALPHA * v + (1 - ALPHA) * g, BETA * h + (1 - BETA) * g * g
    rate = RATE * np.sqrt(1 - BETA**step) / (1 - ALPHA**step) if step else RATE
    y = (1 - POST) * (x - rate * v2 / (np.sqrt(h2) + EPSILON))
    attributes = {"alpha": ALPHA, "beta": BETA, "epsilon": EPSILON, "norm_coefficient_post": POST}
    case("adam", "Adam", [x, gradient, v, h], y, v2, h2, **attributes)

    h2 = h + g * g
    y = x - RATE / (1 + step * DECAY) * g / (np.sqrt(h2) + EPSILON)
    case("adagrad", "Adagrad", [x, gradient, h], y, h2, decay_factor=DECAY, epsilon=EPSILON)

    v2 = ALPHA * v + (BETA if step else 1) * g
    for mode, direction in (("standard", v2), ("nesterov", g + ALPHA * v2)):
        y = x - RATE * direction
        case(f"momentum_{mode}", "Momentum", [x, gradient, v], y, v2, alpha=ALPHA, beta=BETA, mode=mode)
