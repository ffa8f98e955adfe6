"""Reductions, ArgMax and ArgMin, CumSum, the softmax family. Oracle: numpy in float64 for reductions and softmaxes,
onnx.reference for the others."""

import numpy as np

from family import F16, F32, F64, ints, scalar

ORACLE = "reference"

# Each as numpy says it, of the elements v and how (axis, keepdims).
REDUCTIONS = {
    "ReduceL1": lambda v, **how: np.abs(v).sum(**how),
    "ReduceL2": lambda v, **how: np.sqrt((v**2).sum(**how)),
    "ReduceLogSum": lambda v, **how: np.log(v.sum(**how)),
    "ReduceLogSumExp": lambda v, **how: np.log(np.exp(v).sum(**how)),
    "ReduceMax": lambda v, **how: v.max(**how),
    "ReduceMean": lambda v, **how: v.mean(**how),
    "ReduceMin": lambda v, **how: v.min(**how),
    "ReduceProd": lambda v, **how: v.prod(**how),
    "ReduceSum": lambda v, **how: v.sum(**how),
    "ReduceSumSquare": lambda v, **how: (v**2).sum(**how),
}


def make(f):
    for op, fn in REDUCTIONS.items():
        reduction(f, op, fn)
    edges(f)
    arg(f)
    softmaxes(f)
    for exclusive in (0, 1):
        for reverse in (0, 1):
            name = f"cumsum_exclusive{exclusive}_reverse{reverse}"
            f.case(
                name, "CumSum", [f.positive(3, 4, 5), scalar(-2, np.int32)], 14, exclusive=exclusive, reverse=reverse
            )
    f.case("cumsum_int32", "CumSum", [np.arange(12, dtype=np.int32).reshape(3, 4), ints(1)], 11, known=(1,))


def reduction(f, op, fn):
    attr, operand = (
        (11, 13) if op == "ReduceSum" else (13, 18)
    )  # the opsets with the attribute axes, and with the operand
    x = f.positive(3, 4, 5)

    def case(name, opset, v, axis, *axes, keepdims=1, **attributes):
        """axis: what is reduced; axes: the operand, if there is one."""
        want = fn(v.astype(F64), axis=axis, keepdims=bool(keepdims)).astype(v.dtype)
        f.case(f"{op.lower()}_{name}", op, [v, *axes], opset, [want], keepdims=keepdims, **attributes)

    case("axes_attribute", attr, x, (0, -1), axes=[0, -1])
    case("axes_attribute_drop", attr, x, 1, axes=[1], keepdims=0)
    case("all", attr, x, None)
    case("scalar", attr, scalar(2.5, F32), None)
    case("float64", attr, x.astype(F64), 1, axes=[1])
    case("axes_operand", operand, x, (0, 2), ints([0, 2]), keepdims=0)
    case("axes_known", 18, x, -2, ints([-2]), known=(1,))
    case("axes_empty", 18, x, None, ints([]), known=(1,))
    case("axes_empty_noop", 18, x, (), ints([]), known=(1,), noop_with_empty_axes=1)
    case("axes_absent_noop", 18, x, (), noop_with_empty_axes=1)
    for t in (np.int32, np.int64):
        case(t.__name__, attr, f.integers(1, 6, 3, 4, dtype=t), 1, axes=[1], keepdims=0)
    if op != "ReduceProd":
        case("float16", attr, f.positive(3, 40, dtype=F16), 1, axes=[1], keepdims=0)


def edges(f):
    f.case(
        "reducel2_squares_beyond_float16",
        "ReduceL2",
        [np.full((2, 4), 300, F16)],
        13,
        [np.full((2, 1), 600, F16)],
        axes=[1],
    )
    f.case(
        "reducemean_sum_beyond_float16",
        "ReduceMean",
        [np.full((2, 400), 3000, F16)],
        13,
        [np.full((2, 1), 3000, F16)],
        axes=[1],
    )
    f.case("reducemax_uint8", "ReduceMax", [f.integers(0, 255, 3, 5, dtype=np.uint8)], 13, axes=[1])
    for op, rows, want in (
        ("ReduceMax", [[True, False], [False, False]], [True, False]),
        ("ReduceMin", [[True, False], [True, True]], [False, True]),
    ):
        f.case(f"{op.lower()}_bool", op, [np.array(rows), ints([1])], 20, [np.array(want)], known=(1,), keepdims=0)
    for op, identity in (("ReduceMax", -np.inf), ("ReduceLogSumExp", -np.inf), ("ReduceSum", 0)):
        want = np.full((2, 1, 3), identity, F32)
        f.case(f"{op.lower()}_of_nothing", op, [np.zeros((2, 0, 3), F32), ints([1])], 20, [want], known=(1,))
    x = np.array([[1000, 1001, 999], [-1000, -1001, -np.inf]], F32)
    want = np.array([[1001.40760596], [-999.68673831]], F32)
    f.case("reducelogsumexp_exponentials_beyond_float32", "ReduceLogSumExp", [x], 13, [want], axes=[1])


def arg(f):
    t = np.array([[2, 7, 7, 1], [7, 7, 7, 7], [0, -1, 5, 5]], F32)
    for op in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            for keep in (0, 1):
                for axis in (0, 1, -1):
                    name = f"{op.lower()}_last{last}_keep{keep}_axis_{axis}".replace("-", "m")
                    f.case(name, op, [t], 13, axis=axis, keepdims=keep, select_last_index=last)
        f.case(f"{op.lower()}_opset1", op, [t], 1)
        f.case(f"{op.lower()}_int32", op, [t.astype(np.int32)], 12, axis=1)


def softmax(x, axis):
    e = np.exp(x.astype(F64) - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def hardmax(x, axis):
    first = np.expand_dims(x.argmax(axis), axis)
    return np.arange(x.shape[axis]).reshape([-1 if k == axis % x.ndim else 1 for k in range(x.ndim)]) == first


def softmaxes(f):
    """Before opset 13 everything from the axis on is one row; its default was 1, not the last."""
    x = f.normal(2, 3, 4, 5)
    for op, fn in (("Softmax", softmax), ("LogSoftmax", lambda x, a: np.log(softmax(x, a))), ("Hardmax", hardmax)):
        for axis in (0, 1, 2, 3, -1, -3):
            rows = x.reshape(int(np.prod(x.shape[: axis % 4])), -1)
            name = f"{op.lower()}_axis_{axis}".replace("-", "m")
            f.case(f"{name}_opset9", op, [x], 9, [fn(rows, 1).reshape(x.shape).astype(F32)], axis=axis)
            f.case(f"{name}_opset13", op, [x], 13, [fn(x, axis).astype(F32)], axis=axis)
        f.case(f"{op.lower()}_default_opset9", op, [x[0]], 9, [fn(x[0].reshape(3, -1), 1).reshape(3, 4, 5).astype(F32)])
    h = f.normal(3, 50, dtype=F16) * F16(5)
    f.case("softmax_float16", "Softmax", [h], 13, [softmax(h, 1).astype(F16)])
