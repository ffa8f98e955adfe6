"""Concat, Tile, Slice, Split, Pad. Oracle: onnxruntime; numpy where a want is given (opsets that onnxruntime lacks,
padding by more than the tensor)."""

import numpy as np

from family import F32, ints, scalar

ORACLE = "runtime"


def make(family):
    x = family.normal(2, 3, 4)
    family.case(
        "concat_negative_axis", "Concat", [family.normal(2, 3), family.normal(2, 1), family.normal(2, 0)], 13, axis=-1
    )
    a, b = family.normal(2, 3), family.normal(2, 1)
    family.case("concat_opset1_default_axis", "Concat", [a, b], 1, want=[np.concatenate([a, b], 1)])
    family.case("tile", "Tile", [x, ints([2, 1, 3])], 13, known=(1,))
    family.case("tile_rank5", "Tile", [family.normal(1, 2, 1, 2, 3), ints([2, 2, 1, 1, 2])], 13, known=(1,))
    family.case("tile_zero", "Tile", [x, ints([2, 0, 3])], 13, known=(1,))
    family.case(
        "tile_opset1",
        "Tile",
        [x, scalar(3, np.int64), scalar(1, np.int64)],
        1,
        known=(1, 2),
        want=[np.tile(x, (1, 3, 1))],
    )
    z = family.normal(5, 7, 3)
    for name, (st, en, ax, sp) in {
        "backwards": ([-1], [-100], [0], [-1]),
        "backwards_step_2": ([5], [0], [1], [-2]),
        "backwards_from_beyond": ([100], [-(2**63) + 1], [1], [-3]),
        "mixed": ([1, -2], [2**63 - 1, -7], [0, 1], [2, -1]),
        "empty": ([3], [1], [0], [1]),
        "neg_axis": ([-3], [-1], [-2], [1]),
        "backwards_empty": ([0], [3], [1], [-1]),
        "backwards_before_start": ([-9], [-20], [1], [-1]),
        "end_2_31": ([2], [2**31 - 1], [1], [3]),
    }.items():
        family.case("slice_" + name, "Slice", [z, ints(st), ints(en), ints(ax), ints(sp)], 13, known=(1, 2, 3, 4))
    family.case("slice_no_axes", "Slice", [z, ints([1, 2]), ints([3, 100])], 13, known=(1, 2))
    family.case(
        "slice_int32",
        "Slice",
        [z, np.array([1], np.int32), np.array([3], np.int32), np.array([1], np.int32)],
        11,
        known=(1, 2, 3),
    )
    family.case("slice_opset9", "Slice", [z], 9, starts=[0, -3], ends=[2, -1], axes=[0, 1])
    family.case("slice_opset7", "Slice", [z], 7, starts=[1], ends=[1000])
    family.case("split_attr", "Split", [family.normal(6, 2)], 11, outputs=3, split=[1, 2, 3])
    family.case("split_operand", "Split", [family.normal(2, 6), ints([4, 0, 2])], 13, outputs=3, known=(1,), axis=-1)
    family.case("split_equal", "Split", [family.normal(2, 6)], 13, outputs=3, axis=1)
    family.case("split_num_outputs_ragged", "Split", [family.normal(7, 2)], 18, outputs=4, num_outputs=4)
    family.case("split_num_outputs_ragged_axis1", "Split", [family.normal(2, 7)], 18, outputs=3, num_outputs=3, axis=1)
    q = family.normal(2, 6)
    family.case("split_absent_output", "Split", [q], 13, outputs=["a", "", "c"], axis=1, want=[q[:, :2], q[:, 4:]])
    for mode in ["constant", "reflect", "edge", "wrap"]:
        op = 19 if mode == "wrap" else 13
        pv = [ints([0, 1, 2, 2, 3, 1]), ints([1, 0, 0, 0, -1, 1]), ints([-1, 2, -2, 1, 0, 0])]
        for k, p in enumerate(pv):
            if mode == "reflect" and k == 0:
                p = ints([0, 1, 2, 1, 3, 1])
            family.case(f"pad_{mode}_{k}", "Pad", [family.normal(3, 4, 5), p], op, known=(1,), mode=mode)
    xx = family.normal(2, 3)
    family.case(
        "pad_reflect_far",
        "Pad",
        [xx, ints([0, 7, 0, 5])],
        13,
        known=(1,),
        mode="reflect",
        want=[np.pad(xx, [(0, 0), (7, 5)], "reflect")],
    )
    family.case(
        "pad_wrap_far",
        "Pad",
        [xx, ints([3, 7, 5, 6])],
        19,
        known=(1,),
        mode="wrap",
        want=[np.pad(xx, [(3, 5), (7, 6)], "wrap")],
    )
    family.case("pad_value", "Pad", [family.normal(2, 3), ints([1, 1, 0, 2]), scalar(2.5, F32)], 13, known=(1, 2))
    family.case(
        "pad_value_not_known", "Pad", [family.normal(2, 3), ints([1, 1, 0, 2]), scalar(2.5, F32)], 13, known=(1,)
    )
    family.case(
        "pad_int64",
        "Pad",
        [family.rng.integers(-9, 9, (2, 3)), ints([1, 1, 0, 2]), np.array(2**62 + 1, np.int64)],
        13,
        known=(1, 2),
    )
    family.case(
        "pad_axes",
        "Pad",
        [family.normal(2, 3, 4), ints([1, 2, 0, 1]), scalar(-1, F32), ints([-1, 0])],
        18,
        known=(1, 2, 3),
    )
    family.case(
        "pad_axes_edge",
        "Pad",
        [family.normal(2, 3, 4), ints([1, 2, 0, 1]), None, ints([-1, 0])],
        18,
        known=(1, 3),
        mode="edge",
    )
    family.case("pad_opset2", "Pad", [xx], 2, pads=[0, 1, 0, 2], value=1.5)
    family.case(
        "pad_opset1",
        "Pad",
        [xx],
        1,
        want=[np.pad(xx, [(0, 0), (1, 2)], constant_values=1.5)],
        paddings=[0, 1, 0, 2],
        value=1.5,
    )
    family.case(
        "pad_opset2_reflect", "Pad", [family.normal(1, 2, 4, 5)], 2, pads=[0, 0, 1, 2, 0, 0, 2, 1], mode="reflect"
    )
