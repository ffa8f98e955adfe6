"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss. Oracle: numpy in float64."""

import itertools

import numpy as np

from family import F16, F32, F64, ints
from reduce import softmax

ORACLE = "reference"
OPS = {"nll": "NegativeLogLikelihoodLoss", "sce": "SoftmaxCrossEntropyLoss"}


def loss(log_probabilities, target, weights, ignore, reduction):
    ignored = np.zeros(target.shape, bool) if ignore is None else target == ignore
    target = np.where(ignored, 0, target)
    each = np.where(ignored, 0, weights[target])
    losses = -np.take_along_axis(log_probabilities, target[:, None], 1)[:, 0] * each
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / each.sum()}[reduction]


def make(family):
    for reduction, shape, weighted, ignore in itertools.product(
        ("none", "sum", "mean"), ((), (6,), (3, 4)), (False, True), (None, 1, -1, -100)
    ):
        x, target = family.normal(5, 4, *shape), family.integers(0, 4, 5, *shape)
        attributes = {"reduction": reduction}
        if ignore is not None:
            attributes["ignore_index"] = ignore
            if ignore < 0:
                target.flat[::3] = ignore
        weights = family.positive(4) if weighted else np.ones(4, F32)
        if len(shape) == 1:
            target = target.astype(np.int32)
        for short, op in OPS.items():
            log = np.log(softmax(x, 1)) if short == "sce" else x.astype(F64)
            want = [loss(log, target, weights, ignore, reduction).astype(F32)]
            if short == "sce" and len(shape) == 2:
                want.append(log.astype(F32))
            name = f"{short}_{reduction}_rank{len(shape) + 2}" + ("_weights" if weighted else "")
            name += "" if ignore is None else f"_ignore_{ignore}".replace("-", "m")
            family.case(name, op, [x, target] + [weights] * weighted, 13, want, outputs=len(want), **attributes)

    x, target = family.normal(5, 4, dtype=F16), ints([0, 1, 2, 3, 0])
    want = loss(np.log(softmax(x, 1)), target, np.ones(4), None, "mean").astype(F16)
    family.case("sce_float16", OPS["sce"], [x, target], 13, [want])
    x = np.array([[0, -np.inf], [-np.inf, 0]], F32)
    want = np.array([np.inf, -0.0], F32)
    family.case("nll_infinity", OPS["nll"], [x, ints([1, 1])], 13, [want], ignore_index=0, reduction="none")
    x = np.array([[-np.inf, 0], [-np.inf, 0]], F32)
    family.case(
        "nll_ignored_infinity",
        OPS["nll"],
        [x, ints([0, 1])],
        13,
        [np.array(-0.0, F32)],
        ignore_index=0,
        reduction="mean",
    )
