"""Reshaping, and what makes tensors of a shape: EyeLike, Range, ConstantOfShape, Trilu. Oracle: onnxruntime; numpy
where a want is given."""

import numpy as np
from onnx import TensorProto, numpy_helper

from family import F32, ints, scalar

ORACLE = "runtime"


def make(family):
    x = family.normal(2, 3, 4)
    for ax in [-3, -1, 0, 3, 2]:
        family.case(f"flatten_axis_{ax}".replace("-", "m"), "Flatten", [x], 13, axis=ax)
    family.case("reshape_opset1", "Reshape", [x], 1, want=[x.reshape(2, 12)], shape=[0, -1])
    family.case("reshape_zero_minus", "Reshape", [x, ints([0, -1])], 13, known=(1,))
    family.case("reshape_to_scalar", "Reshape", [family.normal(1, 1), np.zeros(0, np.int64)], 13, known=(1,))
    family.case("squeeze_axes_attribute", "Squeeze", [family.normal(1, 3, 1, 2)], 11, axes=[0, -2])
    family.case("squeeze_all", "Squeeze", [family.normal(1, 3, 1, 2)], 13)
    family.case("unsqueeze_axes_attribute", "Unsqueeze", [family.normal(3, 2)], 11, axes=[-1, 0])
    family.case("unsqueeze_axes_operand", "Unsqueeze", [family.normal(3, 2), ints([-1, 0, -3])], 13, known=(1,))
    family.case("expand_both_ways", "Expand", [family.normal(3, 1), ints([2, 1, 6])], 13, known=(1,))
    family.case("expand_to_lower_rank", "Expand", [family.normal(2, 3, 4), ints([4])], 13, known=(1,))
    family.case("expand_to_nothing", "Expand", [family.normal(1, 3), ints([0, 3])], 13, known=(1,))
    family.case("eyelike_above_diagonal", "EyeLike", [family.normal(4, 6)], 9, k=2)
    family.case("eyelike_below_diagonal_int64", "EyeLike", [family.normal(6, 4)], 9, k=-3, dtype=TensorProto.INT64)
    family.case(
        "range_down", "Range", [scalar(10, np.int64), scalar(-5, np.int64), scalar(-3, np.int64)], 11, known=(0, 1, 2)
    )
    family.case("range_float32", "Range", [scalar(0.5, F32), scalar(3, F32), scalar(0.25, F32)], 11, known=(0, 1, 2))
    family.case(
        "range_int32",
        "Range",
        [np.array(-3, np.int32), np.array(9, np.int32), np.array(5, np.int32)],
        11,
        known=(0, 1, 2),
    )
    family.case(
        "range_empty", "Range", [scalar(3, np.int64), scalar(1, np.int64), scalar(1, np.int64)], 11, known=(0, 1, 2)
    )
    family.case("size", "Size", [x], 13)
    family.case("size_scalar", "Size", [scalar(2, F32)], 13)
    family.case("shape_slice", "Shape", [x], 15, start=-2, end=5)
    family.case(
        "constantofshape_i64",
        "ConstantOfShape",
        [ints([2, 3])],
        9,
        known=(0,),
        value=numpy_helper.from_array(np.array([2**63 - 1], np.int64)),
    )
    family.case("constantofshape_default", "ConstantOfShape", [ints([2, 0])], 9, known=(0,))
    family.case(
        "constantofshape_bool",
        "ConstantOfShape",
        [ints([2, 2])],
        9,
        known=(0,),
        value=numpy_helper.from_array(np.array([True])),
    )
    for k in [-5, -1, 0, 1, 7]:
        for u in [0, 1]:
            family.case(
                f"trilu_upper{u}_k_{k}".replace("-", "m"),
                "Trilu",
                [family.normal(2, 4, 3), np.array(k, np.int64)],
                14,
                upper=u,
            )
    family.case("trilu_int64", "Trilu", [family.rng.integers(-9, 9, (3, 3))], 14)
    family.case(
        "trilu_bool",
        "Trilu",
        [np.ones((3, 4), bool), np.array([1], np.int64)],
        14,
        want=[np.triu(np.ones((3, 4), bool), 1)],
    )
    family.case("transpose_default", "Transpose", [x], 13)
